"""The one writer: puts verdicts into nbgrader's gradebook and the graded notebook into its tree."""

import datetime
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import nbformat
from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.preprocessors import AssignLatePenalties, SaveAutoGrades
from nbgrader.utils import parse_utc
from sqlalchemy.exc import SAWarning

from autograder import author, tree
from autograder.course import Course, NotebookEntry

# nbgrader 0.9 reads relations of rows that are not added yet; SQLAlchemy 2 warns of each, and is right to read on.
warnings.filterwarnings("ignore", message="Object of type", category=SAWarning)


class Recorder:
    """Writes to the gradebook. `open_recorder` makes one."""

    def __init__(self, course: Course, gradebook: Gradebook):
        self.course, self.gradebook = course, gradebook
        self._save = _Save(gradebook)

    def record(self, entry: NotebookEntry, student: str, notebook: NotebookNode) -> None:
        """Record the scores in the outputs of `notebook`; doing it again changes nothing.

        Manual scores stay as they are, as nbgrader keeps them.
        """
        submission = self._submission(entry, student)
        resources = {"nbgrader": {"notebook": entry.name, "assignment": entry.name, "student": student}}
        self._save.preprocess(notebook, resources)
        mine = self.gradebook.find_submission_notebook(entry.name, entry.name, student)
        mine.late_submission_penalty = None
        self.gradebook.db.commit()
        if submission.total_seconds_late > 0:
            resources["nbgrader"]["db_url"] = tree.database(self.course)
            AssignLatePenalties().preprocess(notebook, resources)
        target = tree.place(self.course, "autograded", entry, student)
        tree.write(target, author.write(notebook))
        stamp = tree.place(self.course, "submitted", entry, student).with_name("timestamp.txt")
        if stamp.exists():
            tree.write(target.with_name("timestamp.txt"), stamp.read_bytes())

    def refuse(self, entry: NotebookEntry, student: str, release: NotebookNode, reason: str) -> None:
        """Record an ungradable hand-in: no points, and the reason where the student reads feedback."""
        notebook = nbformat.from_dict(dict(release))
        note = nbformat.v4.new_markdown_cell(f"**This hand-in could not be graded:** {reason}")
        note.id = "ungradable"
        notebook.cells = [note, *notebook.cells]
        for cell in notebook.cells:
            if cell.id.startswith("check_"):
                text = {"text/plain": "0"}
                cell.outputs = [nbformat.v4.new_output("execute_result", data=text, execution_count=None)]
        self.record(entry, student, notebook)

    def _submission(self, entry: NotebookEntry, student: str):
        self.gradebook.update_or_create_student(student)
        stamp = tree.place(self.course, "submitted", entry, student).with_name("timestamp.txt")
        when = parse_utc(stamp.read_text().strip()) if stamp.exists() else None
        return self.gradebook.update_or_create_submission(entry.name, student, timestamp=when)


@contextmanager
def open_recorder(course: Course) -> Iterator[Recorder]:
    """A recorder on the course's gradebook, closed afterwards."""
    with Gradebook(tree.database(course), course.course_id) as gradebook:
        yield Recorder(course, gradebook)


def timestamp(when: datetime.datetime) -> str:
    """A time as nbgrader's timestamp.txt wants it."""
    return when.astimezone(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S.%f UTC")


class _Save(SaveAutoGrades):
    """nbgrader's preprocessor on one open gradebook instead of a new database engine per notebook."""

    def __init__(self, gradebook: Gradebook):
        super().__init__()
        self.gradebook = gradebook

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        """Save the grade of every graded cell and the comment of every answer."""
        names = resources["nbgrader"]
        self.notebook_id, self.assignment_id, self.student_id = (
            names["notebook"],
            names["assignment"],
            names["student"],
        )
        for index, cell in enumerate(nb.cells):
            nb.cells[index], resources = self.preprocess_cell(cell, resources, index)
        return nb, resources
