"""The student repository: notebooks, what they import, and nothing of the instructor's."""

import shutil
from pathlib import Path

import nbformat

from autograder.author import build
from autograder.author.checks import checks_module
from autograder.course import ROOT, Course, CourseError, folder_of

FOLDERS = ("utils", "data")
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

Or with conda: `conda env create -f environment.yml`, `conda activate attention-graded`. If you have an NVIDIA GPU,
`pip install -c constraints.txt torch` first; else torch comes without its CUDA libraries, which saves gigabytes.

Answer the cells that say `YOUR CODE HERE`, run the check below each, and hand in the notebook; of a notebook with
`STUDENT` in it, the zip that its cell `pack` makes. There, write your name before you train. `COURSE_PROFILE` (`smoke`,
`cpu`, `gpu`) says how much is trained; without it, `gpu` where there is one, else `cpu`.
"""


def release(course: Course, target: Path) -> list[Path]:
    """Write the student repository to `target`, an empty folder or an earlier release; the files written.

    Raises:
        CourseError: the folder holds something else, or a notebook is stale.
    """
    earlier = (target / "utils" / "grading" / "check.py").exists() and not (target / "solutions").exists()
    if target.exists() and any(target.iterdir()) and not earlier:
        raise CourseError(f"{target} holds something else; give an empty folder or an earlier release")
    stale = build.build_notebooks(course, check=True)
    if stale:
        raise CourseError(f"{', '.join(stale)} stale: run `autograder build` first")
    (target / "notebooks").mkdir(parents=True, exist_ok=True)
    for entry in course.notebooks:
        shutil.copy(build.notebook_path(entry), target / "notebooks")
    for folder in FOLDERS:
        shutil.copytree(
            ROOT / folder, target / folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
        )
    for name in FILES:
        shutil.copy(ROOT / name, target)
    rows = "\n".join(f"- [{entry.title}](notebooks/{entry.name}.ipynb)" for entry in course.notebooks)
    (target / "README.md").write_text(README.format(title=course.title, rows=rows))
    return sorted(path for path in target.rglob("*") if path.is_file())


def secret_lines(course: Course) -> set[str]:
    """Every line of a solution, a private check, a wrong answer or a mark scheme that students are not shown.

    What the public checks and the student notebooks say as well is no secret, and a line of fewer
    than 12 characters says nothing.
    """
    secret: set[str] = set()
    public: set[str] = set()
    for entry in course.notebooks:
        for path in folder_of(entry).glob("*.py"):
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
