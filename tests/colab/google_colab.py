"""A stand-in for Colab's own package `google.colab`, as far as the course uses it.

    google_colab.install(notebook, downloads, drive)

puts it into `sys.modules`, where the set-up cells look for it. What a browser does on Colab becomes files: the
notebook that is asked for is the one on disk, a download is a copy, and Drive is a folder.
"""

import importlib
import json
import shutil
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any


def install(notebook: Path, downloads: Path, drive: Path) -> None:
    """Make `google.colab` importable.

    Args:
        notebook: the file that stands for the notebook in the browser.
        downloads: a folder, the browser's.
        drive: the folder that `drive.mount` shows as MyDrive.
    """

    def blocking_request(request_type: str, request: Any = "", timeout_sec: float | None = 5) -> Any:
        """What the browser answers. Colab's own returns None if it does not know the request, or not in time."""
        return {"ipynb": json.loads(notebook.read_text())} if request_type == "get_ipynb" else None

    def download(filename: str) -> None:
        if not Path(filename).exists():
            raise FileNotFoundError(f"Cannot find file: {filename}")
        downloads.mkdir(parents=True, exist_ok=True)
        shutil.copy(filename, downloads)

    def mount(mountpoint: str, force_remount: bool = False, timeout_ms: int = 120_000, readonly: bool = False) -> None:
        drive.mkdir(parents=True, exist_ok=True)
        Path(mountpoint).mkdir(parents=True, exist_ok=True)
        shown = Path(mountpoint, "MyDrive")
        if not shown.exists():
            shown.symlink_to(drive.resolve(), target_is_directory=True)
        print(f"Mounted at {mountpoint}")

    names: dict[str, dict[str, Any]] = {
        "google": {"__path__": []},  # unless there is one, of another package
        "google.colab": {"__path__": []},
        "google.colab._message": {"blocking_request": blocking_request},
        "google.colab.files": {"download": download},
        "google.colab.drive": {"mount": mount},
    }
    for name, contents in names.items():
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError:
            module = sys.modules[name] = ModuleType(name)
            module.__spec__ = ModuleSpec(name, None, is_package="__path__" in contents)  # `find_spec` wants one
            vars(module).update(contents)
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)


if __name__ == "__main__":  # the kernel of a session: python google_colab.py NOTEBOOK DOWNLOADS DRIVE -f CONNECTION
    install(*(Path(argument) for argument in sys.argv[1:4]))
    sys.argv[1:4] = []
    sys.path[0] = ""  # as where `python -m ipykernel_launcher` runs; this file's folder is not the session's
    from ipykernel import kernelapp

    kernelapp.launch_new_instance()
