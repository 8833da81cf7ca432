"""Stock nbgrader beside this project's grading of the same course: every mark, one by one.

For tests and benchmarks. Stock nbgrader runs the submissions as you: use it on those that you trust.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbgrader
import sqlalchemy
from nbgrader.apps import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config

PACKAGE = Path(nbgrader.__file__).parent
DOCUMENTED = PACKAGE / "docs/source/user_guide"
MARKS = """
select assignment.name, submitted_assignment.student_id, notebook.name, base_cell.name,
       grade.auto_score, grade.manual_score, grade.needs_manual_grade
from grade join base_cell on grade.cell_id = base_cell.id
join submitted_notebook on grade.notebook_id = submitted_notebook.id
join notebook on submitted_notebook.notebook_id = notebook.id
join submitted_assignment on submitted_notebook.assignment_id = submitted_assignment.id
join assignment on submitted_assignment.assignment_id = assignment.id
"""
COMMENTS = MARKS.replace("grade.auto_score, grade.manual_score, grade.needs_manual_grade", "comment.auto_comment")
COMMENTS = COMMENTS.replace("from grade", "from comment").replace("grade.", "comment.")
PENALTIES = """
select assignment.name, submitted_assignment.student_id, notebook.name, submitted_assignment.timestamp,
       submitted_notebook.late_submission_penalty
from submitted_notebook join notebook on submitted_notebook.notebook_id = notebook.id
join submitted_assignment on submitted_notebook.assignment_id = submitted_assignment.id
join assignment on submitted_assignment.assignment_id = assignment.id
"""


class Stock:
    """Stock nbgrader in a course directory of its own."""

    def __init__(self, root: Path, settings: Config | None = None):
        config = Config(settings or {})
        config.CourseDirectory.root = str(root)
        self.root, self.config = root, config

    def assign(self, name: str, source: Path | None = None) -> str:
        """Enter an assignment, whose source is a notebook elsewhere if one is given; "" or why nbgrader refuses."""
        if source:
            folder = self.root / "source" / name
            folder.mkdir(parents=True)
            shutil.copy(source, folder)
        with _on_path():
            return _refused(self._api().generate_assignment(name, force=True, create=True))

    def autograde(self, name: str, student: str) -> str:
        """Grade a submission; "" or what nbgrader says that stopped it."""
        with _on_path():
            return _refused(self._api().autograde(name, student, force=True))

    def _api(self) -> NbGraderAPI:
        return NbGraderAPI(CourseDirectory(config=self.config), config=self.config)


def marks(root: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """What a course's SQLite gradebook holds of each submission: marks, comments by nbgrader, times and penalties."""
    engine = sqlalchemy.create_engine(f"sqlite:///{root}/gradebook.db")
    by_student: dict[tuple[str, str], dict[str, Any]] = {}
    with engine.connect() as connection:
        for kind, query in (("mark", MARKS), ("comment", COMMENTS), ("penalty", PENALTIES)):
            for assignment, student, notebook, *rest in connection.execute(sqlalchemy.text(query)):
                cell = rest.pop(0) if kind != "penalty" else ""
                by_student.setdefault((assignment, student), {})[f"{kind} {notebook} {cell}".strip()] = tuple(rest)
    engine.dispose()
    return by_student


def hand_in(root: Path, student: str, assignment: str, *files: Path) -> None:
    """Put files into `submitted/`."""
    folder = root / "submitted" / student / assignment
    folder.mkdir(parents=True)
    for path in files:
        shutil.copy(path, folder)


def documentation(root: Path) -> None:
    """The course of nbgrader's documentation: two notebooks, a picture, two students."""
    for part in ("source", "submitted"):
        shutil.copytree(DOCUMENTED / part, root / part)


def package_tests(root: Path, only: str = "") -> Iterator[tuple[str, str]]:
    """Make each test notebook of nbgrader's package an assignment; of those that it refuses the name, and why.

    With `only`, those of one part of its tests: apps, preprocessors or ui-tests.

    Handed in are the notebook itself, its released form, and each of its folder with some of the same cells.
    """
    stock = Stock(root)
    shutil.copy(DOCUMENTED / "autotests.yml", root)
    for folder in sorted({path.parent for path in PACKAGE.glob("tests/**/*.ipynb")}):
        if only and folder.parent.name != only:
            continue
        known = {path: _cells(path) for path in sorted(folder.glob("*.ipynb"))}
        for path, cells in known.items():
            name = f"{folder.parent.name}-{path.stem}"
            why = stock.assign(name, path)
            if why:
                yield name, why
                continue
            released = root / "release" / name / path.name
            hand_in(root, "released", name, released)
            for other, theirs in known.items():
                if other == path or cells & theirs:
                    hand_in(root, f"file-{other.stem}", name, other)
                    (root / "submitted" / f"file-{other.stem}" / name / other.name).rename(
                        root / "submitted" / f"file-{other.stem}" / name / path.name
                    )


def _cells(path: Path) -> set[str]:
    """The ids that a notebook's cells have in nbgrader."""
    cells = json.loads(path.read_text()).get("cells", ())
    return {cell["metadata"].get("nbgrader", {}).get("grade_id", "") for cell in cells} - {""}


def _refused(result: dict[str, Any]) -> str:
    if result["success"]:
        return ""
    said = [line for line in (result.get("log") or result.get("error") or "").splitlines() if "Error: " in line]
    return said[-1].strip() if said else "nbgrader does not say why"


@contextmanager
def _on_path() -> Iterator[None]:
    """nbgrader starts alembic, and kernels `python`, by their names."""
    before = os.environ["PATH"]
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), before])
    try:
        yield
    finally:
        os.environ["PATH"] = before
