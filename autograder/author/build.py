"""From what an author writes to a notebook: `solutions/NN_name/notebook.py` to nbgrader's cells.

An author writes percent cells and five markers::

    # %% exercise="1.2"                        a solution, the answer between ### BEGIN / END SOLUTION
    # %% check="1.2"                           the graded cell below it
    # %% stretch="1.S1"                        the same of an exercise that is not graded; its check is check="1.S1"
    # %% [markdown] written="1.W1" points=2    a written answer, graded by hand
    # %% tags=["experiment"]                   a cell that grading does not run

The set-up cell is an empty one, tagged "setup"; `needs="adapters"` beside the tag names packages that Colab lacks.

Every id, every piece of nbgrader metadata and the set-up cell are written here, and nowhere else.
"""

import copy
from functools import lru_cache
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from autograder.course import FOLDER, Course, CourseError, NotebookEntry, cell_id, exercise_of, folder_of, is_stretch
from utils import files

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
ROLES = ("exercise", "check", "written", "stretch")
STRETCH_CHECK = "stretchcheck"  # the role of the cell below a stretch exercise, which nothing grades
NOT_GRADED = "experiment"  # the tag of cells that grading does not run
COLAB = "https://colab.research.google.com/github/{path}/blob/main/notebooks/{name}.ipynb"
BADGE = "[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]({url})"
FETCH = "test -d course || git clone -q --depth 1 {repository} course"
FAILED = "The course could not be fetched. Run this cell again; if that does not help, tell your instructor."
SETUP = f"""\
import os, sys
if "google.colab" in sys.modules and not os.path.exists("../utils"):
    assert not os.system("{FETCH}"), "{FAILED}"; os.chdir("course/notebooks")
sys.path.insert(0, os.path.abspath(".."))"""
NEEDS = """; from utils import setup; setup.ready({packages})"""


def solution_notebook(course: Course, entry: NotebookEntry) -> NotebookNode:
    """The whole notebook with its solutions, marked for nbgrader.

    Raises:
        CourseError: the source is missing, or its markers and the checks do not fit.
    """
    source = folder_of(entry) / "notebook.py"
    if not source.exists():
        raise CourseError(f"{source} is missing: a notebook of course.toml needs its folder in solutions/")
    # Grading only writes notebooks, and does not wait for these.
    from nbgrader.preprocessors import ClearOutput, ComputeChecksums, LockCells

    from autograder.author.checks import private_checks, public_checks, stretch_checks

    notebook = copy.deepcopy(_read(source.read_text()))

    worth = {number: check.points for number, check in public_checks(entry).items()}
    private_checks(entry)  # which must fit the parts of the public ones
    badge = BADGE.format(url=COLAB.format(path=course.student_repository.split("github.com/")[-1], name=entry.name))
    notebook.cells.insert(0, nbformat.v4.new_markdown_cell(badge))
    section, count = "start", 0
    for cell in notebook.cells:
        marker = {role: cell.metadata.pop(role) for role in ROLES if role in cell.metadata}
        cell.metadata.pop("lines_to_next_cell", None)
        if "setup" in cell.metadata.get("tags", []):
            needs = cell.metadata.pop("needs", "").split()
            cell.source = SETUP.format(repository=course.student_repository)
            if needs:
                cell.source += NEEDS.format(packages=", ".join(f'"{package}"' for package in needs))
            cell.id = "setup"
            cell.metadata.nbgrader = locked_metadata("setup")
        elif marker:
            ((role, exercise),) = marker.items()
            role = STRETCH_CHECK if role == "check" and is_stretch(exercise) else role
            cell.id = cell_id(role, exercise)
            if section != exercise:  # an exercise and its check are one section
                section, count = exercise, 0
            if is_stretch(exercise):  # no cell of the gradebook: without nbgrader's metadata
                cell.metadata.tags = [NOT_GRADED]
            else:
                cell.metadata.nbgrader = _graded(cell, role, exercise, worth, source)
        else:  # numbered within its section, so that an insertion elsewhere moves no id
            cell.id = f"{cell_id('after', section)}_{count:02d}"
            count += 1
        cell.metadata.id = cell.id  # Colab keeps this one and drops the other
    wanted = {cell_id(role, number) for number in worth for role in ("exercise", "check")}
    wanted |= {cell_id(role, number) for number in stretch_checks(entry) for role in ("stretch", STRETCH_CHECK)}
    _must_fit(notebook, entry, wanted, source)
    notebook.metadata = NotebookNode(
        {"kernelspec": KERNEL, "language_info": {"name": "python"}, "accelerator": "GPU", "colab": {"provenance": []}}
    )
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for step in (LockCells(), ClearOutput(), ComputeChecksums()):
        notebook, _ = step.preprocess(notebook, {})
    return notebook


def student_notebook(course: Course, entry: NotebookEntry) -> NotebookNode:
    """What students open: no solution, no mark scheme, no output."""
    from nbgrader.preprocessors import CheckCellMetadata, ClearMarkScheme, ClearSolutions, ComputeChecksums

    notebook = solution_notebook(course, entry)
    clear = ClearSolutions(enforce_metadata=False)  # those of stretch exercises, too; `_must_fit` finds others
    for step in (clear, ClearMarkScheme(), ComputeChecksums(), CheckCellMetadata()):
        notebook, _ = step.preprocess(notebook, {})
    return notebook


def write(notebook: NotebookNode) -> str:
    """The notebook as the text of its file."""
    nbformat.validate(notebook)
    return nbformat.v4.writes(notebook) + "\n"  # nbformat's own would validate once more


def parts(path: Path) -> list[NotebookNode]:
    """The marked cells of a percent file of the author's, as they stand there."""
    return copy.deepcopy(_read(path.read_text()).cells)


@lru_cache(maxsize=64)  # jupytext and nbformat look at each cell for about a millisecond, and a test reads all of them
def _read(text: str) -> NotebookNode:
    """What a percent file says, which no caller may change."""
    import jupytext

    return jupytext.reads(text, fmt="py")


def locked_metadata(grade_id: str) -> dict:
    """nbgrader metadata of a cell that students may not change."""
    return {"grade_id": grade_id, "schema_version": 3, "grade": False, "solution": False, "locked": True, "task": False}


def _graded(cell: NotebookNode, role: str, exercise: str, worth: dict[str, float], source: Path) -> dict:
    """nbgrader metadata of an exercise, of its check, or of a written answer."""
    metadata = locked_metadata(cell.id) | {
        "locked": role == "check",
        "solution": role != "check",
        "grade": role != "exercise",
    }
    if role == "check":
        if exercise not in worth:
            raise CourseError(f"{source}: there is no check for exercise {exercise} in utils/checks/")
        metadata["points"] = worth[exercise]
    if role == "written":
        if "points" not in cell.metadata:
            raise CourseError(f"{source}: written question {exercise} needs points=... in its marker")
        metadata["points"] = float(cell.metadata.pop("points"))
    return metadata


def _must_fit(notebook: NotebookNode, entry: NotebookEntry, wanted: set[str], source: Path) -> None:
    ids = [cell.id for cell in notebook.cells]
    for cell in notebook.cells:
        answered = cell.id.startswith("stretch_") or cell.metadata.get("nbgrader", {}).get("solution")
        if "BEGIN SOLUTION" in cell.source and not answered:
            raise CourseError(f"{source}: there is a solution in cell {cell.id}, which is no exercise")
        if cell.id.startswith("stretch") and cell.id not in wanted:
            raise CourseError(f"{source}: there is no check of {exercise_of(cell.id)} in utils/checks/")
    twice = {name for name in ids if ids.count(name) > 1}
    if twice or not wanted <= {*ids} or "setup" not in ids:
        missing = sorted(wanted - {*ids}) + (["a cell tagged setup"] if "setup" not in ids else [])
        raise CourseError(
            f"{source} and utils/checks/nb{entry.name}.py differ: missing {missing}, twice {sorted(twice)}"
        )


def notebook_path(entry: NotebookEntry) -> Path:
    """The committed student notebook."""
    return FOLDER / "notebooks" / f"{entry.name}.ipynb"


def build_notebooks(course: Course, check: bool = False) -> list[str]:
    """Write every student notebook; with `check`, write none and answer with the names of stale ones."""
    stale = []
    for entry in course.notebooks:
        target, text = notebook_path(entry), write(student_notebook(course, entry))
        if not target.exists() or target.read_text() != text:
            stale.append(target.name)
            if not check:
                files.write(target, text)
    return stale
