"""What the gradebook says, read from its tables: nbgrader's classes, which writing needs, take longer to import.

So does SQLAlchemy, which only a gradebook on a server needs: SQLite is Python's own.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder.course import Course, CourseError, NotebookEntry
from autograder.gradebook import course_tree
from autograder.gradebook.roster import Student

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

Query = Callable[[str, Mapping[str, str]], Iterable[Sequence[Any]]]  # the rows of a statement with these values
KNOWN = """
select 1 from notebook join assignment on notebook.assignment_id = assignment.id
where notebook.name = :name and assignment.name = :name
"""
SCORES = """
select submitted_assignment.student_id, base_cell.name, grade.auto_score
from grade join base_cell on grade.cell_id = base_cell.id
join submitted_notebook on grade.notebook_id = submitted_notebook.id
join submitted_assignment on submitted_notebook.assignment_id = submitted_assignment.id
join notebook on submitted_notebook.notebook_id = notebook.id
where notebook.name = :name
"""
TO_MARK = """
select submitted_assignment.student_id, count(*)
from grade join submitted_notebook on grade.notebook_id = submitted_notebook.id
join submitted_assignment on submitted_notebook.assignment_id = submitted_assignment.id
join assignment on submitted_assignment.assignment_id = assignment.id
where assignment.name = :name and grade.needs_manual_grade
group by submitted_assignment.student_id
"""
MARKED = """
select submitted_assignment.student_id, submitted_notebook.late_submission_penalty, base_cell.name,
       grade_cells.max_score, grade.auto_score, grade.manual_score, grade.extra_credit, grade.needs_manual_grade
from submitted_notebook
join submitted_assignment on submitted_notebook.assignment_id = submitted_assignment.id
join notebook on submitted_notebook.notebook_id = notebook.id
join grade on grade.notebook_id = submitted_notebook.id
join base_cell on grade.cell_id = base_cell.id
join grade_cells on grade_cells.id = base_cell.id
where notebook.name = :name
"""
COMMENTS = """
select submitted_assignment.student_id, base_cell.name, comment.auto_comment, comment.manual_comment
from comment join base_cell on comment.cell_id = base_cell.id
join submitted_notebook on comment.notebook_id = submitted_notebook.id
join submitted_assignment on submitted_notebook.assignment_id = submitted_assignment.id
join notebook on submitted_notebook.notebook_id = notebook.id
where notebook.name = :name
"""
STUDENTS = "select id, first_name, last_name, email from student"


@dataclass(frozen=True)
class Mark:
    """What the gradebook says of a graded cell, by its rules: a score of a person comes before the automatic one."""

    score: float
    points: float  # that there are
    by_hand: bool  # a person gave the score
    waits: bool  # for a person: to be marked, or `by_hand`, to be looked at again


@dataclass
class Marked:
    """What the gradebook says of a student's notebook."""

    penalty: float = 0.0
    marks: dict[str, Mark] = field(default_factory=dict)  # by cell
    comments: dict[str, str] = field(default_factory=dict)  # of a person, by cell
    untouched: list[str] = field(default_factory=list)  # answers that are as released


def marked(read: Query, entry: NotebookEntry) -> dict[str, Marked]:
    """All that the gradebook says of a notebook to its students, by student."""
    by_student: dict[str, Marked] = {}
    for student, penalty, cell, points, auto, manual, extra, waits in read(MARKED, {"name": entry.name}):
        mine = by_student.setdefault(student, Marked(penalty or 0.0))
        given = auto if manual is None else manual
        score = 0.0 if given is None else given + (extra or 0.0)
        mine.marks[cell] = Mark(score, points or 0.0, manual is not None, bool(waits))
    for student, cell, auto, manual in read(COMMENTS, {"name": entry.name}):
        mine = by_student.setdefault(student, Marked())
        if manual:
            mine.comments[cell] = manual
        if auto:
            mine.untouched.append(cell)
    return by_student


def scores(read: Query, entry: NotebookEntry) -> dict[str, dict[str, float | None]] | None:
    """What the gradebook holds of a notebook: each student's automatic scores by cell; None if it does not know it."""
    if not list(read(KNOWN, {"name": entry.name})):
        return None
    by_student: dict[str, dict[str, float | None]] = {}
    for student, cell, score in read(SCORES, {"name": entry.name}):
        by_student.setdefault(student, {})[cell] = score
    return by_student


def to_mark(read: Query, entry: NotebookEntry) -> dict[str, int]:
    """How many marks of each student wait for a person."""
    return {student: number for student, number in read(TO_MARK, {"name": entry.name})}


def students(read: Query) -> list[Student]:
    """All whom the gradebook knows, as it calls them."""
    return [
        Student(student, first_name or "", last_name or "", email or "")
        for student, first_name, last_name, email in read(STUDENTS, {})
    ]


@contextmanager
def reading(course: Course) -> Iterator[Query | None]:
    """Reads the gradebook; None if there is none yet.

    Raises:
        CourseError: it cannot be read.
    """
    with _in_file(course) if not course.grading.database else _by_url(course) as read:
        yield read


@contextmanager
def _in_file(course: Course) -> Iterator[Query | None]:
    path = course_tree.gradebook(course)
    if not path.exists():
        yield None
        return
    try:
        # For writing too: what a killed writer left half done is undone by the next reader.
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as database:
            known = database.execute("select 1 from sqlite_master where type = 'table' and name = 'grade'").fetchone()
            yield database.execute if known else None
    except sqlite3.Error as bad:
        raise CourseError(f"the gradebook {course_tree.database(course)} cannot be read: {bad}") from bad


@contextmanager
def _by_url(course: Course) -> Iterator[Query | None]:
    from sqlalchemy import inspect
    from sqlalchemy.exc import SQLAlchemyError

    try:
        engine = _engine(course_tree.database(course))
        if engine.url.get_backend_name() == "sqlite" and not Path(engine.url.database or "").exists():
            yield None  # to connect would make one
            return
        with engine.connect() as database:
            yield through(database) if inspect(database).has_table("grade") else None
    except SQLAlchemyError as bad:
        said = str(getattr(bad, "orig", None) or bad).strip().splitlines()[0]
        raise CourseError(f"the gradebook {course_tree.shown_database(course)} cannot be read: {said}") from bad


def through(database: "Connection") -> Query:
    """Reads through a connection of SQLAlchemy's."""
    from sqlalchemy import text

    return lambda statement, values: database.execute(text(statement), dict(values))


@cache
def _engine(url: str) -> "Engine":
    from sqlalchemy import NullPool, create_engine

    return create_engine(url, poolclass=NullPool)
