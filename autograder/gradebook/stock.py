"""Stock nbgrader's commands in the course tree: autograde goes through this project's sandbox and judge, others refuse.

`nbgrader_config.py` names these classes, and nbgrader makes them where it would run or unpack what a student wrote.
`jupyter_server_config.py` names `Shown` and calls `escape_templates`, for formgrader.
"""

import glob
import importlib
import json
import os
import shutil
import subprocess
import sys
from functools import partial
from html import escape
from pathlib import Path
from typing import Any, NoReturn

import nbformat
from jupyter_client.manager import KernelManager
from nbconvert.exporters import NotebookExporter
from nbconvert.preprocessors import Preprocessor
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from nbgrader.apps.validateapp import ValidateApp
from nbgrader.converters import Autograde, NbGraderException
from nbgrader.exchange.default import ExchangeCollect, ExchangeReleaseFeedback
from nbgrader.plugins import ExtractorPlugin, LateSubmissionPlugin
from nbgrader.preprocessors import NbGraderPreprocessor
from nbgrader.utils import notebook_hash
from traitlets.config import Application

from autograder import course as courses
from autograder.cells import CellRole, role_of
from autograder.course import CourseError
from autograder.gradebook import by_hand, course_tree

FOR_MARKERS = "**For you alone: an answer, and the mark scheme**"
FORMGRADER = "nbgrader.server_extensions.formgrader"
PRINTED = ("assignment_id", "notebook_id", "student", "first_name", "last_name", "notebook_path")  # as they are
VALIDATE = (
    "stock nbgrader would run the notebook as you: `autograder grade` runs submissions in a sandbox, and `autograder "
    "demo` tries your own notebooks with answers whose scores are known"
)
COLLECT = "stock nbgrader unpacks and copies whatever students packed: use `autograder collect SOURCE` instead"


class Judged(NotebookExporter):
    """In the place of autograde's exporter, which it makes before it changes anything.

    Grades the submissions that autograde was to convert as `autograder grade` does, and leaves it none to convert.

    Raises:
        NbGraderException: they cannot be graded; files and gradebook are as they were.
    """

    def __init__(self, parent: Any = None, **settings: Any):
        super().__init__(parent=parent, **settings)
        if not isinstance(parent, Autograde):
            raise NbGraderException("this exporter is autograde's: see nbgrader_config.py")
        for name, students in _wanted(parent).items():
            _grade(parent, name, students)
        parent.assignments = {}


class Refused(NbGraderPreprocessor):
    """In the place of autograde's preprocessors, should it ever come to convert a submission."""

    def preprocess(self, nb: Any, resources: Any) -> NoReturn:
        """Refuse.

        Raises:
            NbGraderException: always.
        """
        raise NbGraderException("stock autograde would run the student's code as you: use `autograder grade`")


class NoKernels(KernelManager):
    """In the place of what starts kernels for stock commands, such as `validate`."""

    def __init__(self, **settings: Any):
        """Refuse: in a sentence where `nbgrader validate` asks, else by an error.

        Raises:
            NbGraderException: something else asks, such as JupyterLab's Validate button.
        """
        app = Application.instance() if Application.initialized() else None
        if isinstance(app, ValidateApp):
            app.fail(VALIDATE)
        raise NbGraderException(VALIDATE)


class Shown(Preprocessor):
    """What formgrader's page of a submission shows: mark schemes, on no other page, and names as text."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Add the mark scheme below each written answer, and escape what the page's template prints as it is.

        Only formgrader's pages know a `submission_id`.
        """
        if not resources.get("submission_id"):
            return nb, resources
        source = Path(resources["metadata"]["path"]).parents[2] / "source" / resources["assignment_id"]
        written = nbformat.read(source / f"{resources['notebook_id']}.ipynb", as_version=4).cells
        schemes = {cell.id: cell.source for cell in written if role_of(cell.id) is CellRole.WRITTEN}
        cells = []
        for cell in nb.cells:
            cells.append(cell)
            if cell.get("id") in schemes:
                cells.append(new_markdown_cell(f"{FOR_MARKERS}\n\n{by_hand.scheme(schemes[cell.id])}"))
        resources.update({key: escape(resources[key]) for key in PRINTED if isinstance(resources.get(key), str)})
        return NotebookNode(nb | {"cells": cells}), resources


def escape_templates() -> None:
    """Have formgrader escape what the templates of its other pages print: names, and parts of the asked address.

    A link in a submission may lead to any address of the server.
    """
    sys.modules.pop(FORMGRADER, None)  # what stands in its place in other processes, see `autograder`
    pages: Any = importlib.import_module(f"{FORMGRADER}.formgrader")
    pages.Environment = partial(pages.Environment, autoescape=True)


class LatePenalty(LateSubmissionPlugin):
    """nbgrader's plugin for late submissions, with the course's own rule."""

    def late_submission_penalty(self, student_id: str, score: float, total_seconds_late: float) -> float | None:
        """The points that a submission loses, None for none."""
        return courses.load().late.penalty(score, total_seconds_late) or None


class Collect(ExchangeCollect):
    """In the place of `nbgrader collect`: takes the submissions as `autograder collect --exchange` does."""

    def start(self) -> None:
        """Take all submissions of the assignment; fail in nbgrader's way if none can be taken."""
        name = self.coursedir.assignment_id
        command = ["--tree", self.coursedir.root, "collect", "--exchange", self.root, "--notebook", name]
        ran = _autograder(command, self.coursedir.db_url)
        lines = [line for line in (*ran.stdout.splitlines(), *ran.stderr.splitlines()) if line.strip()]
        for line in lines:
            self.log.info(line)
        if ran.returncode:
            self.fail(lines[-1].removeprefix("autograder: ") if lines else "nothing was collected, and no reason given")


class ReleaseFeedback(ExchangeReleaseFeedback):
    """In the place of `nbgrader release_feedback`, which stops at the first page of a submission from elsewhere."""

    def init_dest(self) -> None:
        """See that the folder is the instructor's before a page is put there."""
        folder = Path(self.root, self.coursedir.course_id)
        try:
            course_tree.require_own(
                *(path for path in (folder, folder / "inbound", folder / "feedback") if path.exists())
            )
        except CourseError as bad:
            self.fail(str(bad))
        super().init_dest()

    def copy_files(self) -> None:
        """Release the pages of submissions from the exchange, and name the others."""
        excluded = set(filter(None, self.coursedir.student_id_exclude.split(",")))
        pages = sorted(Path(path) for path in glob.glob(f"{self.src_path}/*.html"))
        elsewhere = {page.parts[-3] for page in pages if not self._secret(page)}
        for page in pages:
            if page.parts[-3] in excluded | elsewhere:
                continue
            checksum = notebook_hash(secret=self._secret(page), notebook_id=page.stem)
            new = Path(self.dest_path, f"{checksum}-tmp.html")
            shutil.copy(page, new)
            new.chmod(0o644)  # its student finds it by the name, which nobody else can guess or list
            new.rename(new.with_name(f"{checksum}.html"))
            self.log.info("Released the feedback of %s", page.parts[-3])
        if elsewhere:
            self.log.warning(
                "No feedback released to %s: these submissions did not come from the exchange. Their pages are in %s",
                ", ".join(sorted(elsewhere)),
                Path(self.coursedir.root, "feedback"),
            )

    def _secret(self, page: Path) -> str:
        path = page.with_name(course_tree.SUBMISSION_SECRET)
        return path.read_text() if path.exists() else ""


class Archives(ExtractorPlugin):
    """In the place of what unpacks archives for `nbgrader zip_collect`."""

    def __init__(self, parent: Any = None, **settings: Any):
        super().__init__(parent=parent, **settings)
        parent.fail(COLLECT)


def _wanted(app: Autograde) -> dict[str, list[str]]:
    """The students of each notebook that autograde is to grade."""
    try:
        known = {entry.name for entry in courses.load().notebooks}
    except CourseError as bad:
        _refuse(app, str(bad))
    wanted: dict[str, list[str]] = {}
    excluded = app.coursedir.student_id_exclude.split(",")
    for folder, notebooks in sorted(app.assignments.items()):
        student, name = Path(folder).parts[-2:]
        if name not in known:
            _refuse(app, f"there is no notebook {name} in course.toml, so nothing can judge it")
        if Path(folder) != Path(app.coursedir.root, "submitted", student, name):
            _refuse(app, f"{folder} is not a folder of the course tree {app.coursedir.root}")
        if f"{name}.ipynb" not in {Path(path).name for path in notebooks}:
            _refuse(app, f"{folder} holds no {name}.ipynb: take submissions with `autograder collect SOURCE`")
        if student not in excluded:
            wanted.setdefault(name, []).append(student)
    return wanted


def _grade(app: Autograde, name: str, students: list[str]) -> None:
    """Run `autograder grade` in a process of its own: formgrader's has an event loop and signal handlers."""
    command = ["--tree", app.coursedir.root, "grade", name, "--json"]
    command += ["--again"] * app.force + [f"--student={student}" for student in students]
    ran = _autograder(command, app.coursedir.db_url)
    records = [json.loads(line) for line in ran.stdout.splitlines()]
    if ran.returncode not in (0, 1) or {record["student"] for record in records} != set(students):
        lines = [line for line in ran.stderr.splitlines() if line.strip()]
        first = next(
            (line for line in lines if line.startswith("autograder: ")), lines[-1] if lines else "no reason given"
        )
        _refuse(app, first.removeprefix("autograder: "))
    for record in records:
        if record["retry"]:
            _refuse(app, f"{record['student']}: {record['reason']}")
        if record["status"] == "graded":
            app.log.info(
                "%s %s: %g of %g points, judged in the sandbox",
                record["student"],
                name,
                record["score"],
                record["points"],
            )
        else:
            app.log.warning("%s %s: ungradable: %s", record["student"], name, record["reason"])


def _autograder(command: list[str], database: str) -> subprocess.CompletedProcess[str]:
    """Run a command of ours on the course, in a process of its own."""
    ours = [sys.executable, "-m", "autograder.cli", *command]
    return subprocess.run(
        ours, env=os.environ | {"AUTOGRADER_DB": database}, capture_output=True, text=True, check=False
    )


def _refuse(app: Autograde, why: str) -> NoReturn:
    app.log.error("not graded: %s", why)
    raise NbGraderException(why)
