"""Pack what is handed in: one zip with the notebook and, where experiments count, its results."""

import ast
import json
import re
import sys
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from utils.experiments.experiment import read_files, results_folder
from utils.experiments.run_files import MAX_FILES

STUB = re.compile(r"^\s*raise NotImplementedError\(\)\s*$", re.MULTILINE)  # what the notebooks ask to be replaced
UNWRITTEN = ("", "YOUR ANSWER HERE")
LARGE = 20 * 2**20  # bytes of a notebook above which its large outputs are left out; `collect` does the same
OUTPUTS = 1_500_000  # characters of outputs that are kept then


def pack(notebook: str, results: Path | str | None = None) -> Path:
    """Write NOTEBOOK.zip into the working folder, with the notebook and the runs in `results`.

    In Jupyter, save the notebook first: the file on disk is what is packed. In Colab the notebook is
    asked for, and the zip is downloaded. What is missing is said, and does not stop it: exercises without an
    answer, answers that ran in this session and are not in the file, and runs that count.

    Args:
        notebook: its name without `.ipynb`, as the course has it.
        results: the folder with the runs; by default `utils.experiments.experiment.results_folder()`.

    Raises:
        FileNotFoundError: there is no such notebook in the working folder; says where it was looked for.
        ValueError: the file there is no notebook.
    """
    folder = Path(results) if results is not None else results_folder()
    files = read_files(folder)
    colab = "google.colab" in sys.modules
    text = _from_colab() if colab else _from_disk(notebook)
    cells = _answers(notebook, text)
    text, dropped = _without_large_outputs(text)
    blank, unsaved = unanswered(cells), [] if colab else not_saved(cells, cells_that_ran())
    target = Path(f"{notebook}.zip")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{notebook}.ipynb", text)
        for name, content in files.items():
            archive.writestr(f"results/{name}", content)
    print(f"{target.resolve()}: the notebook and {len(files)} runs.")
    if dropped:
        print(f"{dropped / 2**20:.0f} MB of outputs are left out, which cost nothing: outputs are not graded.")
    there = len([*folder.glob("*/seed_*.json")])
    if there > len(files):
        print(f"{there - len(files)} more files of runs are left out: links, or more than {MAX_FILES} in all.")
    if blank and len(blank) == len(cells):
        print("No exercise in it is answered in full. If you have answered some, save the notebook, and pack it again.")
    elif blank:
        print(f"Not answered in it: {', '.join(blank)}.")
    if unsaved:
        print(f"In it you do not find what you ran last as {', '.join(unsaved)}: save the notebook, and pack it again.")
    if not files:
        print("There are no runs in it: without them the experiment earns nothing.")
    elif all(map(_is_smoke, files.values())):
        print("Its runs are of the size smoke: they earn nothing. Run the experiments with COURSE_PROFILE=cpu or gpu.")
    print(
        "You may hand it in as it is; what is missing earns nothing."
        if blank or unsaved or all(map(_is_smoke, files.values()))
        else "This is the file to hand in."
    )
    if colab:
        from google.colab import files as browser  # type: ignore[import-not-found]

        browser.download(str(target))
    return target


def leave_out_large_outputs(notebook: dict[str, Any]) -> None:
    """Take outputs out of a notebook beyond OUTPUTS characters, the first ones stay, and the state of widgets."""
    if isinstance(notebook.get("metadata"), dict):
        notebook["metadata"].pop("widgets", None)
    room = OUTPUTS
    for cell in notebook["cells"]:
        outputs = cell.get("outputs") if isinstance(cell, dict) else None
        if not isinstance(outputs, list):
            continue
        kept = []
        for output in outputs:
            size = len(json.dumps(output))
            if size <= room:
                kept.append(output)
                room -= size
        cell["outputs"] = kept


def _without_large_outputs(text: str) -> tuple[str, int]:
    """The notebook as it is handed in, and how many bytes of outputs that leaves out."""
    before = len(text.encode())
    if before <= LARGE:
        return text, 0
    content = json.loads(text)
    leave_out_large_outputs(content)
    small = json.dumps(content, ensure_ascii=False)
    return small, before - len(small.encode())


def unanswered(cells: Mapping[str, str]) -> list[str]:
    """The exercises whose cells, source by number, hold no answer, or not to all that they ask."""
    return [number for number, source in cells.items() if STUB.search(source) or source.strip() in UNWRITTEN]


def not_saved(cells: Mapping[str, str], ran: Iterable[str]) -> list[str]:
    """The exercises whose names were defined last by a cell that is not the one in the file.

    `cells` holds sources by number, `ran` the sources of the cells that ran in this session, in order.
    """
    latest = {name: source for source in ran for name in _defined(source)}
    return [
        number
        for number, source in cells.items()
        if any(latest.get(name, source).strip() != source.strip() for name in _defined(source))
    ]


def _defined(source: str) -> list[str]:
    """The functions and classes that a cell defines."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):
        return []
    return [part.name for part in body if isinstance(part, (ast.FunctionDef, ast.ClassDef))]


def _is_smoke(run: bytes) -> bool:
    """Whether a run's file is of the size smoke: its task is made up."""
    try:
        return str(json.loads(run)["experiment"]["task"]).startswith("made-up-")
    except (ValueError, TypeError, KeyError, RecursionError):
        return False


def _answers(notebook: str, text: str) -> dict[str, str]:
    """The source of every cell that is the student's to fill in, by the number of its exercise."""
    try:
        content = json.loads(text)
        cells: list[dict[str, Any]] = content["cells"]
        marked = [(one.get("metadata", {}).get("nbgrader", {}), one.get("source", "")) for one in cells]
        sources = {mark["grade_id"]: "".join(source) for mark, source in marked if mark.get("solution")}
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ValueError(f"{notebook}.ipynb is not a notebook, or was cut off: save it, and pack it again") from None
    return {re.sub(r"^[a-z]+_", "", name).replace("_", "."): source for name, source in sources.items()}


def cells_that_ran() -> list[str]:
    """The cells that ran in this session, in order; none where it is not a notebook's."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return [one for one in shell.user_ns.get("In", []) if isinstance(one, str)] if shell is not None else []


def _from_disk(notebook: str) -> str:
    path = Path(f"{notebook}.ipynb")
    if not path.is_file():
        raise FileNotFoundError(f"{path.resolve()} is not there: give the notebook's name, or go to its folder")
    return path.read_text(encoding="utf-8")


def _from_colab() -> str:
    from google.colab import _message  # type: ignore[import-not-found]

    return json.dumps(_message.blocking_request("get_ipynb", timeout_sec=60)["ipynb"])
