"""What the gradebook says, read from its tables: nbgrader's classes, which writing needs, take longer to import."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from sqlalchemy import Connection, Engine, NullPool, create_engine, inspect, text
from sqlalchemy.exc import SQLAlchemyError

from autograder.course import Course, CourseError, NotebookEntry
from autograder.gradebook import course_tree
from autograder.gradebook.roster import Student

KNOWN = text("""
select 1 from notebook join assignment on notebook.assignment_id = assignment.id
where notebook.name = :name and assignment.name = :name
""")
SCORES = text("""
select submitted_assignment.student_id, base_cell.name, grade.auto_score
from grade join base_cell on grade.cell_id = base_cell.id
join submitted_notebook on grade.notebook_id = submitted_notebook.id
join submitted_assignment on submitted_notebook.assignment_id = submitted_assignment.id
join notebook on submitted_notebook.notebook_id = notebook.id
where notebook.name = :name
""")
TO_MARK = text("""
select submitted_assignment.student_id, count(*)
from grade join submitted_notebook on grade.notebook_id = submitted_notebook.id
join submitted_assignment on submitted_notebook.assignment_id = submitted_assignment.id
join assignment on submitted_assignment.assignment_id = assignment.id
where assignment.name = :name and grade.needs_manual_grade
group by submitted_assignment.student_id
""")
MARKED = text("""
select submitted_assignment.student_id, submitted_notebook.late_submission_penalty, base_cell.name,
       grade_cells.max_score, grade.auto_score, grade.manual_score, grade.extra_credit, grade.needs_manual_grade
from submitted_notebook
join submitted_assignment on submitted_notebook.assignment_id = submitted_assignment.id
join notebook on submitted_notebook.notebook_id = notebook.id
join grade on grade.notebook_id = submitted_notebook.id
join base_cell on grade.cell_id = base_cell.id
join grade_cells on grade_cells.id = base_cell.id
where notebook.name = :name
""")
COMMENTS = text("""
select submitted_assignment.student_id, base_cell.name, comment.auto_comment, comment.manual_comment
from comment join base_cell on comment.cell_id = base_cell.id
join submitted_notebook on comment.notebook_id = submitted_notebook.id
join submitted_assignment on submitted_notebook.assignment_id = submitted_assignment.id
join notebook on submitted_notebook.notebook_id = notebook.id
where notebook.name = :name
""")
STUDENTS = text("select id, first_name, last_name, email from student")


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


def marked(database: Connection, entry: NotebookEntry) -> dict[str, Marked]:
    """All that the gradebook says of a notebook to its students, by student."""
    found: dict[str, Marked] = {}
    for student, penalty, cell, points, auto, manual, extra, waits in database.execute(MARKED, {"name": entry.name}):
        mine = found.setdefault(student, Marked(penalty or 0.0))
        given = auto if manual is None else manual
        score = 0.0 if given is None else given + (extra or 0.0)
        mine.marks[cell] = Mark(score, points or 0.0, manual is not None, bool(waits))
    for student, cell, auto, manual in database.execute(COMMENTS, {"name": entry.name}):
        mine = found.setdefault(student, Marked())
        if manual:
            mine.comments[cell] = manual
        if auto:
            mine.untouched.append(cell)
    return found


def scores(database: Connection, entry: NotebookEntry) -> dict[str, dict[str, float | None]] | None:
    """What the gradebook holds of a notebook: each student's automatic scores by cell; None if it does not know it."""
    if database.execute(KNOWN, {"name": entry.name}).first() is None:
        return None
    found: dict[str, dict[str, float | None]] = {}
    for student, cell, score in database.execute(SCORES, {"name": entry.name}):
        found.setdefault(student, {})[cell] = score
    return found


def to_mark(database: Connection, entry: NotebookEntry) -> dict[str, int]:
    """How many marks of each student wait for a person."""
    return {student: number for student, number in database.execute(TO_MARK, {"name": entry.name})}


def students(database: Connection) -> list[Student]:
    """All whom the gradebook knows, as it calls them."""
    return [
        Student(row.id, row.first_name or "", row.last_name or "", row.email or "")
        for row in database.execute(STUDENTS)
    ]


@contextmanager
def reading(course: Course) -> Iterator[Connection | None]:
    """A connection to the gradebook, for reading; None if there is none yet.

    Raises:
        CourseError: it cannot be read.
    """
    try:
        engine = _engine(course_tree.database(course))
        if engine.url.get_backend_name() == "sqlite" and not Path(engine.url.database or "").exists():
            yield None  # to connect would make one
            return
        with engine.connect() as database:
            yield database if inspect(database).has_table("grade") else None
    except SQLAlchemyError as bad:
        said = str(getattr(bad, "orig", None) or bad).strip().splitlines()[0]
        raise CourseError(f"the gradebook {course_tree.shown_database(course)} cannot be read: {said}") from bad


@cache
def _engine(url: str) -> Engine:
    return create_engine(url, poolclass=NullPool)
