"""The student repository: notebooks, what they import, and nothing of the instructor's."""

import re
import shutil
from importlib import metadata
from pathlib import Path

import nbformat

from autograder.author import build
from autograder.author.checks import checks_module
from autograder.course import CHECKS, FOLDER, ROOT, Course, CourseError, folder_of, helpers
from utils.grading.check import POINTS

FILES = ("environment.yml", "requirements.txt", "constraints.txt", "LICENSE")
RECORDERS = ("search.py",)  # in authors' folders; they made the results that students get, and hold no answer
README = """\
# {title}

{rows}

## Start

In Colab: click the badge at the top of a notebook. On your machine, with Python 3.11 to 3.13, in a new virtual
environment:

    pip install -r requirements.txt
    jupyter lab notebooks/

{conda}If you have an NVIDIA GPU,
`pip install -c constraints.txt torch` first; else torch comes without its CUDA libraries, which saves gigabytes.

Answer the cells that say `YOUR CODE HERE`, run the check below each, and hand in the notebook.
"""
RUNS = """
Of {numbers} hand in the zip that the cell `pack` makes. Where a notebook asks who you are (`STUDENT`), write your name
before anything else.
`COURSE_PROFILE` (`smoke`, `cpu`, `gpu`) says how much is trained; without it, `gpu` where there is one, else `cpu`.
"""


def release(course: Course, target: Path) -> list[Path]:
    """Write the student repository to `target`, an empty folder or an earlier release; the files written.

    Raises:
        CourseError: the folder holds something else, or a notebook is stale.
    """
    if target.exists() and not target.is_dir():
        raise CourseError(f"{target} is no folder: give an empty one, an earlier release, or one that is not there")
    earlier = (target / "utils" / "grading" / "check.py").exists() and not (target / "solutions").exists()
    if target.exists() and any(target.iterdir()) and not earlier:
        raise CourseError(f"{target} holds something else; give an empty folder or an earlier release")
    there = {path.stem for path in (target / "notebooks").glob("*.ipynb")}
    if there and there.isdisjoint(entry.name for entry in course.notebooks):
        raise CourseError(f"{target} holds the release of another course; give an empty folder or an earlier release")
    stale = build.build_notebooks(course, check=True)
    if stale:
        raise CourseError(f"{', '.join(stale)} stale: run `autograder build` first")
    (target / "notebooks").mkdir(parents=True, exist_ok=True)
    for entry in course.notebooks:
        shutil.copy(build.notebook_path(entry, course.local is not None), target / "notebooks")
    (target / CHECKS / POINTS).unlink(missing_ok=True)  # of an earlier release; today's is among the helpers
    for name, path in helpers().items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target / name)
    for name in FILES:
        if (FOLDER / name).is_file():
            shutil.copy(FOLDER / name, target)
    if FOLDER != ROOT:
        shutil.copy(_licence(), target / "utils")  # of the helpers; the course may have another one
    rows = "\n".join(f"- [{entry.title}](notebooks/{entry.name}.ipynb)" for entry in course.notebooks)
    text = README.format(title=course.title, rows=rows, conda=_conda())
    trained = [entry.number for entry in course.notebooks if entry.has_experiments]
    (target / "README.md").write_text(text + (RUNS.format(numbers=_listed(trained)) if trained else ""))
    return sorted(path for path in target.rglob("*") if path.is_file())


def _listed(names: list[str]) -> str:
    """These names as a sentence has them."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _licence() -> Path:
    """The licence of this package: beside it, or where it was installed."""
    files = metadata.files("attention-graded") or ()
    found = [Path(str(one.locate())) for one in files if one.name == "LICENSE"]
    return next(path for path in (ROOT / "LICENSE", *found) if path.is_file())


def _conda() -> str:
    """README's words on conda, where the course has an environment for it."""
    path = FOLDER / "environment.yml"
    named = re.search(r"^name: (\S+)$", path.read_text() if path.is_file() else "", re.MULTILINE)
    if named is None:
        return ""
    return f"Or with conda: `conda env create -f environment.yml`, `conda activate {named[1]}`. "


def secret_lines(course: Course) -> set[str]:
    """Every line of a solution, a private check, a wrong answer or a mark scheme that students are not shown.

    What the public checks and the student notebooks say as well is no secret, and a line of fewer
    than 12 characters says nothing.
    """
    secret: set[str] = set()
    public: set[str] = set()
    for entry in course.notebooks:
        for path in (*folder_of(entry).glob("*.py"), *([FOLDER / entry.text] if entry.text else [])):
            if path.name not in RECORDERS:
                secret |= _lines(path.read_text())
        public |= _lines(Path(checks_module(entry).__file__ or "").read_text())
        for cell in build.student_notebook(course, entry).cells:
            public |= _lines(cell.source)
    return {line for line in secret - public if len(line) >= 12}


def lines_of(path: Path) -> set[str]:
    """The lines of a released file, of its cells if it is a notebook, as `secret_lines` states them."""
    if path.suffix == ".ipynb":
        return set().union(*(_lines(cell.source) for cell in nbformat.read(path, as_version=4).cells))
    return _lines(path.read_text(errors="ignore"))


def _lines(text: str) -> set[str]:
    """Lines as they compare: without indentation, comment signs, and the signs of an edit (`author/edits.py`)."""
    return {line.strip().lstrip("#+- ") for line in text.splitlines()}
