"""From what an author writes to a notebook: `solutions/NN_name/notebook.py` to nbgrader's cells.

An author writes percent cells and five markers::

    # %% exercise="1.2"                        a solution, the answer between ### BEGIN / END SOLUTION
    # %% check="1.2"                           the graded cell below it
    # %% stretch="1.S1"                        the same of an exercise that is not graded; its check is check="1.S1"
    # %% [markdown] written="1.W1" points=2    a written answer, graded by hand
    # %% tags=["experiment"]                   a cell that grading does not run

A cell that calls `predict` asks for a prediction, see `autograder.author.predictions`.

The set-up cell is an empty one, tagged "setup"; `needs="adapters"` beside the tag names packages that Colab lacks.

Every id, every piece of nbgrader metadata and the set-up cell are written here, and nowhere else.
"""

import copy
import json
import re
from collections.abc import Collection
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
from nbformat import NotebookNode

from autograder.author import boxes, predictions
from autograder.author.edits import MARKS
from autograder.cells import NOT_RUN, CellRole, cell_id, exercise_of, is_stretch, role_of
from autograder.course import CHECKS, FOLDER, Course, CourseError, NotebookEntry, folder_of
from utils import block_diagrams, files
from utils.predictions import ANSWERS, OWN_ANSWERS, Question, folder, read

if TYPE_CHECKING:  # brings torch
    from utils.grading.check import Check

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
MARKED = (CellRole.EXERCISE, CellRole.CHECK, CellRole.WRITTEN, CellRole.STRETCH)  # roles that a marker of a cell states
COLAB = "https://colab.research.google.com/github/{path}/blob/main/notebooks/{name}.ipynb"
BADGE = "[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]({url})"
FAILED = (
    "The course could not be fetched. Switch the internet on and run this cell again. Without internet, unpack a zip "
    "of {repository} and name its folder in COURSE_HOME. On a hub, ask your instructor."
)
# The course is above the notebook, in COURSE_HOME, in an installed package, on Python's path (as in grading) or, on
# Colab, in the clone of an earlier session; else it is cloned. `marker` is a file that no other `utils` has.
SETUP = """\
import os, sys, tempfile; from importlib.util import find_spec; from pathlib import Path
places = [Path.cwd(), *Path.cwd().parents, os.path.expanduser(os.environ.get("COURSE_HOME", "")), \
*getattr(find_spec("{package}"), "submodule_search_locations", ()), *sys.path, "course"]
course = os.path.abspath(next((place for place in places if Path(place, "{marker}").is_file()), None) \
or ("course" if "google.colab" in sys.modules else tempfile.mkdtemp()))
assert os.path.isdir(course + "/utils") or not os.system(f'git clone -q --depth 1 {repository} "{{course}}"'), \
"{failed}"; sys.path.insert(0, course); os.chdir("course/notebooks" if course == os.path.abspath("course") else ".")"""
DIAGRAM = re.compile(r"^block_diagrams\.show\(\"(\w+)\"\)$", re.MULTILINE)
NEEDS = """; from utils import setup; setup.ready({packages})"""


def solution_notebook(course: Course, entry: NotebookEntry) -> NotebookNode:
    """The whole notebook with its solutions, marked for nbgrader.

    Raises:
        CourseError: the source is missing, or its markers and the checks do not fit.
    """
    source = text_path(entry)
    if not source.is_file():
        needs = "`text` of course.local.toml names it" if entry.text else "a notebook needs its folder in solutions/"
        raise CourseError(f"{source} is missing: {needs}")
    # Grading only writes notebooks, and does not wait for these.
    from nbgrader.preprocessors import ClearOutput, ComputeChecksums, LockCells

    from autograder.author.checks import private_checks, public_checks, stretch_checks

    notebook = _with_boxes(copy.deepcopy(read_percent(source.read_text())), entry)

    worth = {number: check.points for number, check in public_checks(entry).items()}
    private_checks(entry)  # which must fit the parts of the public ones
    _name_and_price(notebook, entry, source, {number: check.points for number, check in _as_written(entry).items()})
    badge = BADGE.format(url=COLAB.format(path=course.student_repository.split("github.com/")[-1], name=entry.name))
    notebook.cells.insert(0, nbformat.v4.new_markdown_cell(badge))
    section, count = "start", 0
    for cell in notebook.cells:
        marker = {role: cell.metadata.pop(role) for role in MARKED if role in cell.metadata}
        cell.metadata.pop("lines_to_next_cell", None)
        if "setup" in cell.metadata.get("tags", []):
            needs = cell.metadata.pop("needs", "").split()
            cell.source = setup_cell(course, entry)
            if needs:
                cell.source += NEEDS.format(packages=", ".join(f'"{package}"' for package in needs))
            cell.id = "setup"
            cell.metadata.nbgrader = locked_metadata("setup")
        elif marker:
            ((role, exercise),) = marker.items()
            role = CellRole.STRETCH_CHECK if role is CellRole.CHECK and is_stretch(exercise) else role
            cell.id = cell_id(role, exercise)
            if section != exercise:  # an exercise and its check are one section
                section, count = exercise, 0
            if is_stretch(exercise):  # no cell of the gradebook: without nbgrader's metadata
                cell.metadata.tags = [NOT_RUN]
            else:
                cell.metadata.nbgrader = _graded(cell, role, exercise, worth, source)
        elif asked := _asked(cell, source):
            cell.id = cell_id(CellRole.PREDICTION, asked.question.number)
            cell.source = asked.source
        else:  # numbered within its section, so that an insertion elsewhere moves no id
            cell.id = f"{cell_id(CellRole.AFTER, section)}_{count:02d}"
            count += 1
        cell.metadata.id = cell.id  # Colab keeps this one and drops the other
    _must_fit(notebook, entry, worth, stretch_checks(entry), source)
    notebook.metadata = NotebookNode(
        {"kernelspec": KERNEL, "language_info": {"name": "python"}, "accelerator": "GPU", "colab": {"provenance": []}}
    )
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for step in (LockCells(), ClearOutput(), ComputeChecksums()):
        notebook, _ = step.preprocess(notebook, {})
    _show_diagrams(notebook)
    return notebook


def _show_diagrams(notebook: NotebookNode) -> None:
    """Put block diagrams into the outputs of the cells that show them: GitHub, Colab and the docs need not run these.

    Raises:
        CourseError: there is no diagram of that name, or it was not drawn.
    """
    for cell in notebook.cells:
        shown = DIAGRAM.search(cell.source) if cell.cell_type == "code" else None
        if not shown:
            continue
        try:
            picture = block_diagrams.show(shown[1])
        except (KeyError, FileNotFoundError) as missing:
            raise CourseError(
                f"cell {cell.id} shows {shown[1]}, which is not drawn: describe it in utils/block_diagrams.py, and run "
                "`python docs/draw_diagrams.py`"
            ) from missing
        cell.outputs = [nbformat.v4.new_output("display_data", picture.bundle)]


def _asked(cell: NotebookNode, source: Path) -> predictions.Asked | None:
    return predictions.asked(cell.source, str(source)) if cell.cell_type == "code" else None


def questions(entry: NotebookEntry) -> list[Question]:
    """What a notebook asks to predict, with the answers.

    Raises:
        CourseError: a question is not written as it must be.
    """
    source = text_path(entry)
    cells = read_percent(source.read_text()).cells
    return [asked.question for cell in cells if (asked := _asked(cell, source)) is not None]


def text_path(entry: NotebookEntry) -> Path:
    """What the author of a notebook wrote: the file that `text` names, or notebook.py in its folder."""
    return FOLDER / entry.text if entry.text else folder_of(entry) / "notebook.py"


def _with_boxes(notebook: NotebookNode, entry: NotebookEntry) -> NotebookNode:
    """The notebook with the texts that several share in the place of their names."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = boxes.filled(cell.source, entry)
    return notebook


def setup_cell(course: Course, entry: NotebookEntry) -> str:
    """The source of a notebook's set-up cell, which finds the course or fetches it."""
    repository = course.student_repository
    return SETUP.format(
        package=course.package,
        marker=f"{entry.public_checks.replace('.', '/')}.py",
        repository=repository,
        failed=FAILED.format(repository=repository),
    )


def student_notebook(course: Course, entry: NotebookEntry) -> NotebookNode:
    """What students open: no solution, no mark scheme, no output."""
    from nbgrader.preprocessors import CheckCellMetadata, ClearMarkScheme, ClearSolutions, ComputeChecksums

    notebook = solution_notebook(course, entry)
    clear = ClearSolutions(enforce_metadata=False)  # those of stretch exercises too; `_must_fit` finds others
    for step in (clear, ClearMarkScheme(), ComputeChecksums(), CheckCellMetadata()):
        notebook, _ = step.preprocess(notebook, {})
    return notebook


def write(notebook: NotebookNode) -> str:
    """The notebook as the text of its file."""
    nbformat.validate(notebook)
    return nbformat.v4.writes(notebook) + "\n"  # nbformat's own would validate once more


def parts(path: Path) -> list[NotebookNode]:
    """The marked cells of a percent file of the author's, as they are there."""
    return copy.deepcopy(read_percent(path.read_text()).cells)


@lru_cache(maxsize=64)  # jupytext and nbformat look at each cell for about a millisecond, and a test reads all of them
def read_percent(text: str) -> NotebookNode:
    """What a percent file says, which no caller may change."""
    import jupytext

    return jupytext.reads(text, fmt="py")


def locked_metadata(grade_id: str) -> dict:
    """nbgrader metadata of a cell that students may not change."""
    return {"grade_id": grade_id, "schema_version": 3, "grade": False, "solution": False, "locked": True, "task": False}


def _graded(cell: NotebookNode, role: CellRole, exercise: str, worth: dict[str, float], source: Path) -> dict:
    """nbgrader metadata of an exercise, of its check, or of a written answer."""
    metadata = locked_metadata(cell.id) | {
        "locked": role is CellRole.CHECK,
        "solution": role is not CellRole.CHECK,
        "grade": role is not CellRole.EXERCISE,
    }
    if role is CellRole.CHECK:
        if exercise not in worth:
            raise CourseError(f"{source}: there is no check for exercise {exercise} in utils/checks/")
        metadata["points"] = worth[exercise]
    if role is CellRole.WRITTEN:
        metadata["points"] = float(cell.metadata.pop("points"))
    return metadata


def _as_written(entry: NotebookEntry) -> dict[str, "Check"]:
    """The checks of a notebook with the points that their author gave them."""
    from autograder.author.checks import checks_module
    from utils.grading.check import checks_of

    return checks_of(checks_module(entry))


PRICE = r"(\*\*\w+ {number}\*\* \()(\d+(?:\.\d+)?)( points?)?"  # "**Exercise 1.2** (2 points", in any language
# What else a text says of points: "for 2 of the points".
OTHER_PRICE = re.compile(r"\b(?:\d+|one|two|three)\s+(?:of\s+the\s+)?points?\b", re.IGNORECASE)


def _name_and_price(notebook: NotebookNode, entry: NotebookEntry, source: Path, worth: dict[str, float]) -> None:
    """See that texts state the points that are given, and put the title and the points of course.local.toml into them.

    Args:
        worth: the points of each exercise as its author gave them.

    Raises:
        CourseError: the text of an exercise and its check state different points, or the course gives points to an
            exercise that does not exist, or to one whose text cannot be changed with them.
    """
    heading = next((cell for cell in notebook.cells if re.match(r"# \d+\. ", cell.source)), None)
    if heading:
        number, rest = heading.source.split(" ", 2)[1], heading.source.partition("\n")
        heading.source = f"# {number} {entry.title}{rest[1]}{rest[2]}"
    texts: list[NotebookNode] = []
    priced = set()
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and "written" not in cell.metadata:
            texts.append(cell)
        number = str(cell.metadata.get("exercise", cell.metadata.get("written", "")))
        if not number:
            texts = [] if "stretch" in cell.metadata else texts
            continue
        points = worth.get(number, 0.0)
        if "written" in cell.metadata:
            if "points" not in cell.metadata:
                raise CourseError(f"{source}: written question {number} needs points=... in its marker")
            points = float(cell.metadata["points"])
        priced.add(number)
        _price(texts, number, points, entry.points.get(number), source)
        if number in entry.points and "written" in cell.metadata:
            cell.metadata["points"] = entry.points[number]
        texts = []
    unknown = sorted({*entry.points} - priced)
    if unknown:
        raise CourseError(
            f"course.local.toml gives points to {', '.join(unknown)}, and {entry.name} has no such exercise; it has "
            f"{', '.join(sorted(priced, key=_order))}"
        )


def _price(texts: list[NotebookNode], number: str, points: float, wanted: float | None, source: Path) -> None:
    """See that the text of an exercise states its points, and write the ones that are `wanted` in their place."""
    price = re.compile(PRICE.format(number=re.escape(number)))
    stated = [(cell, match) for cell in texts for match in price.finditer(cell.source)]
    for _, match in stated:
        if float(match[2]) != points:
            raise CourseError(
                f"{source}: the text of {number} states {match[2]} points, and its check or marker gives {points:g}: "
                "write the same points in both. To give an exercise other points in your course, write them into "
                "course.local.toml alone"
            )
    if wanted is None:
        return
    if not stated:
        raise CourseError(
            f"{source}: course.local.toml gives {number} {wanted:g} points, and the text states no points that could "
            f"follow: write it as **Exercise {number}** ({points:g} points, ...)"
        )
    for cell in texts:
        if wanted != points and (other := OTHER_PRICE.search(price.sub("", cell.source))):
            raise CourseError(
                f"{source}: course.local.toml gives {number} {wanted:g} points, and its text also says "
                f"`{' '.join(other[0].split())}`, which would not be true then: leave the points of {number}"
            )
        cell.source = price.sub(partial(_new_price, wanted), cell.source)


def _new_price(points: float, match: re.Match[str]) -> str:
    """What a text states of an exercise's points, with these in the place of others."""
    return f"{match[1]}{points:g}" + (" point" + "s" * (points != 1) if match[3] else "")


def _order(number: str) -> list[tuple[bool, int]]:
    """Sorts exercises by number, written questions behind them."""
    return [(part.startswith("W"), int(part.strip("WS") or 0)) for part in number.split(".")]


def _must_fit(
    notebook: NotebookNode, entry: NotebookEntry, worth: Collection[str], stretches: Collection[str], source: Path
) -> None:
    """See that each exercise and each stretch exercise has its cells, and each question to predict its answer."""
    wanted = {cell_id(role, number) for number in worth for role in (CellRole.EXERCISE, CellRole.CHECK)}
    wanted |= {cell_id(role, number) for number in stretches for role in (CellRole.STRETCH, CellRole.STRETCH_CHECK)}
    ids = [cell.id for cell in notebook.cells]
    for cell in notebook.cells:
        answered = role_of(cell.id) is CellRole.STRETCH or cell.metadata.get("nbgrader", {}).get("solution")
        if "BEGIN SOLUTION" in cell.source and not answered:
            raise CourseError(f"{source}: there is a solution in cell {cell.id}, which is not an exercise")
        for line in cell.source.splitlines():
            if any(mark in line and mark != line.strip() for mark in MARKS):
                raise CourseError(f"{source}: in cell {cell.id} the mark of `{line.strip()[:60]}` needs its own line")
        if role_of(cell.id) in (CellRole.STRETCH, CellRole.STRETCH_CHECK) and cell.id not in wanted:
            raise CourseError(f"{source}: there is no check of {exercise_of(cell.id)} in utils/checks/")
    twice = {name for name in ids if ids.count(name) > 1}
    if twice or not wanted <= {*ids} or "setup" not in ids:
        missing = sorted(wanted - {*ids}) + (["a cell tagged setup"] if "setup" not in ids else [])
        raise CourseError(
            f"{source} and utils/checks/nb{entry.name}.py differ: missing {missing}, twice {sorted(twice)}"
        )
    predictions.must_fit(notebook.cells, str(source))


def notebook_path(entry: NotebookEntry, local: bool = False) -> Path:
    """The student notebook: the committed one; with own settings (`local`) the one that git ignores."""
    return FOLDER / ("notebooks.local" if local else "notebooks") / f"{entry.name}.ipynb"


def build_notebooks(course: Course, check: bool = False) -> list[str]:
    """Write every student notebook; with `check`, write none. The names of those that were stale, either way."""
    stale = _write_points(course, check)
    for entry in course.notebooks:
        target, text = notebook_path(entry, course.local is not None), write(student_notebook(course, entry))
        if not target.exists() or target.read_text() != text:
            stale.append(target.name)
            if not check:
                files.write(target, text)
    return stale + write_answers(course, check)


def write_answers(course: Course, check: bool = False) -> list[str]:
    """Write the answers of the questions to predict where sessions at home find them; as `build_notebooks`.

    The answers of notebooks that the course does not teach stay there. With own settings the file of the course stays
    as it is, and answers that differ get a file that git ignores.
    """
    asked = [question for entry in course.notebooks for question in questions(entry)]
    numbers = {int(entry.number) for entry in course.notebooks}
    others = [question for question in read(folder() / ANSWERS).values() if question.notebook not in numbers]
    whole = sorted([*asked, *others], key=lambda question: question.notebook)
    texts = {ANSWERS: predictions.text_of(whole), OWN_ANSWERS: ""}
    if course.local:
        texts = {OWN_ANSWERS: predictions.text_of(predictions.differing(asked, folder() / ANSWERS))}
    return [name for name, text in texts.items() if _write_or_remove(FOLDER / CHECKS / name, text, check)]


def _write_or_remove(target: Path, text: str, check: bool) -> bool:
    """Write a file that `build` makes, or with "" remove it, unless `check`; whether it was stale."""
    if text == (target.read_text(encoding="utf-8") if target.is_file() else ""):
        return False
    if text and not check:
        files.write(target, text)
    elif not check:
        target.unlink()
    return True


def _write_points(course: Course, check: bool) -> list[str]:
    """Write the points of course.local.toml where checks at home find them; as `build_notebooks`."""
    from utils.grading.check import POINTS  # brings torch, as the checks do

    target = FOLDER / CHECKS / POINTS
    points = {number: worth for entry in course.notebooks for number, worth in entry.points.items()}
    text = json.dumps(points, indent=1, sort_keys=True) + "\n" if points else ""
    return [target.name] if _write_or_remove(target, text, check) else []
