"""Pack what is handed in: one zip with the notebook and, where experiments count, its results."""

import json
import sys
import zipfile
from pathlib import Path

from utils.experiment import read_files


def pack(notebook: str, results: Path | str = "results") -> Path:
    """Write NOTEBOOK.zip into the working folder, with the notebook and the runs in `results`.

    In Jupyter, save the notebook first: the file on disk is what is packed. In Colab the notebook is
    asked for, and the zip is downloaded.

    Args:
        notebook: its name without `.ipynb`, as the course has it.

    Raises:
        FileNotFoundError: there is no such notebook in the working folder; says where it was looked for.
    """
    files = read_files(Path(results))
    text = _from_colab() if "google.colab" in sys.modules else _from_disk(notebook)
    target = Path(f"{notebook}.zip")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{notebook}.ipynb", text)
        for name, content in files.items():
            archive.writestr(f"results/{name}", content)
    print(f"{target.resolve()}: the notebook and {len(files)} runs. This is the file to hand in.")
    if "google.colab" in sys.modules:
        from google.colab import files as browser  # type: ignore[import-not-found]

        browser.download(str(target))
    return target


def _from_disk(notebook: str) -> str:
    path = Path(f"{notebook}.ipynb")
    if not path.is_file():
        raise FileNotFoundError(f"{path.resolve()} is not there: give the notebook's name, or go to its folder")
    return path.read_text(encoding="utf-8")


def _from_colab() -> str:
    from google.colab import _message  # type: ignore[import-not-found]

    return json.dumps(_message.blocking_request("get_ipynb", timeout_sec=60)["ipynb"])
