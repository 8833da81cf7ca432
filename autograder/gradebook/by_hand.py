"""What a person says of an answer: a score, a comment, and whether it still waits for one."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from filelock import FileLock, Timeout

from autograder.course import Course, CourseError, NotebookEntry
from autograder.gradebook.marks import Query

LOCK_SECONDS = 60  # to wait for another writer, who needs some milliseconds
MARKS = re.compile(r"^(### (BEGIN|END) SOLUTION|=== END MARK SCHEME ===)$", re.MULTILINE)
HELD = """
select submitted_assignment.student_id, grade_cells.max_score, grade.manual_score, grade.needs_manual_grade,
       (select comment.manual_comment from comment join base_cell as other on comment.cell_id = other.id
        where comment.notebook_id = grade.notebook_id and other.name = base_cell.name) as said
from grade join base_cell on grade.cell_id = base_cell.id
join grade_cells on grade_cells.id = base_cell.id
join submitted_notebook on grade.notebook_id = submitted_notebook.id
join submitted_assignment on submitted_notebook.assignment_id = submitted_assignment.id
join notebook on submitted_notebook.notebook_id = notebook.id
where notebook.name = :name and base_cell.name = :cell
"""


@dataclass(frozen=True)
class HandMark:
    """What the gradebook holds of a person's mark of one answer."""

    score: float | None = None
    waits: bool = True
    comment: str | None = None

    @property
    def by_person(self) -> bool:
        """Whether a person scored or commented it, be it an earlier version of it."""
        return self.score is not None or bool(self.comment)


@contextmanager
def writing(course: Course) -> Iterator[None]:
    """One process at a time: what a person marks is the answer that was looked at, not one that is graded meanwhile.

    A run holds this only while it records one submission, so that people mark while a class is graded.

    Raises:
        CourseError: another process holds it for a minute.
    """
    try:
        with FileLock(course.tree / ".marking.lock", timeout=LOCK_SECONDS):
            yield
    except Timeout:
        raise CourseError(f"another command writes marks in {course.tree}: wait for it, or end it") from None


def held(read: Query, entry: NotebookEntry, cell: str) -> tuple[dict[str, HandMark], float]:
    """A person's mark of a cell by student, and the points that there are."""
    marks, points = {}, 0.0
    for student, most, score, waits, comment in read(HELD, {"name": entry.name, "cell": cell}):
        marks[student], points = HandMark(score, bool(waits), comment), most
    return marks, points


def differing(marks: dict[str, HandMark], wanted: dict[str, HandMark]) -> list[str]:
    """The students of `wanted` whose mark is another one, or none."""
    return [student for student, mark in wanted.items() if marks.get(student) != mark]


def scheme(written: str) -> str:
    """Markdown for the person who marks: the author's answer to a question, and its mark scheme."""
    return MARKS.sub("", written.replace("=== BEGIN MARK SCHEME ===", "\n*How it is marked:*\n")).strip()
