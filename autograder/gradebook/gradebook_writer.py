"""The one writer: puts verdicts into nbgrader's gradebook and the graded notebook into its tree."""

import datetime
import logging
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbgrader.api import (
    Assignment,
    BaseCell,
    Comment,
    Grade,
    Gradebook,
    GradeCell,
    InvalidEntry,
    MissingEntry,
    Notebook,
    SolutionCell,
    Student,
    SubmittedAssignment,
    SubmittedNotebook,
    new_uuid,
)
from nbgrader.utils import compute_checksum, determine_grade, is_grade, is_solution, parse_utc
from sqlalchemy import bindparam, func, insert, select, update
from sqlalchemy.exc import SQLAlchemyError

from autograder import html_cleaning
from autograder.author import build
from autograder.cells import CellRole, role_of
from autograder.course import Course, CourseError, NotebookEntry
from autograder.gradebook import by_hand, course_tree, extensions, mark_log, marks, revision, roster, safe_names, teams
from autograder.gradebook.by_hand import HandMark

WAITS = (1.0, 2.0, 4.0)  # seconds: formgrader may hold SQLite's lock, a server may be starting again
HOPELESS = ("full", "readonly", "not a database", "malformed")  # waiting mends none of these
DATABASE_ERRORS = (SQLAlchemyError, InvalidEntry)  # nbgrader turns some of the former into the latter


class ChangedMeanwhile(CourseError):
    """Somebody else marked what was to be marked."""


@dataclass(frozen=True)
class _Sheet:
    """The ids of the rows of a notebook in the gradebook; those of its graded cells and of its answers by name."""

    assignment: str
    notebook: str
    grades: dict[str, str]
    comments: dict[str, str]


class Recorder:
    """Writes to the gradebook. `open_recorder` makes one.

    What nbgrader's SaveAutoGrades would write is written, by its own rules, in one transaction a submission:
    its preprocessor makes several queries and a commit for each cell, and its objects sum up all marks
    of the course whenever they are loaded.
    """

    def __init__(self, course: Course, gradebook: Gradebook):
        self.course, self.gradebook = course, gradebook
        self._sheets: dict[str, _Sheet] = {}

    def record(
        self,
        entry: NotebookEntry,
        student: str,
        text: str,
        anew: bool = True,
        only: Collection[str] | None = None,
    ) -> None:
        """Record the scores in the outputs of a graded notebook, given as `text`; doing it again changes nothing.

        Manual scores stay as they are, as nbgrader keeps them. A submission that is `anew` is marked for
        a person to look at; when the same one is graded again, a cell is marked only if its score
        changed. With `only`, the cells of these ids are recorded and the others left as they are.

        Raises:
            SQLAlchemyError, InvalidEntry: the gradebook cannot be written, even after some seconds.
        """
        notebook = nbformat.v4.reads(text)
        stamp = course_tree.place(self.course, "submitted", entry, student).with_name("timestamp.txt")
        when = stamp.read_text() if stamp.exists() else ""
        target = course_tree.place(self.course, "autograded", entry, student)
        with by_hand.writing(self.course):
            _patiently(lambda: self._record(entry, student, when, notebook, anew, only), self._reconnect)
            course_tree.write(target, text)
        course_tree.place_receipt(self.course, entry, student)

    def refuse(self, entry: NotebookEntry, student: str, release: NotebookNode, reason: str) -> None:
        """Record an ungradable submission: no points, and the reason where the student reads feedback."""
        notebook = nbformat.from_dict(dict(release))
        note = nbformat.v4.new_markdown_cell(
            f"**This submission could not be graded:**\n\n{html_cleaning.as_text(reason)}"
        )
        note.id = "ungradable"
        notebook.cells = [note, *notebook.cells]
        for cell in notebook.cells:
            if role_of(cell.id) is CellRole.CHECK:
                text = {"text/plain": "0"}
                cell.outputs = [nbformat.v4.new_output("execute_result", data=text, execution_count=None)]
        self.record(entry, student, build.write(notebook))

    def mark(
        self,
        entry: NotebookEntry,
        cell: str,
        before: dict[str, HandMark],
        after: dict[str, HandMark],
        reason: str = "",
    ) -> None:
        """Enter a person's marks of a cell by student, all of them or none, as formgrader enters one.

        The log of marks gets the account that does it, and the `reason`.

        Raises:
            ChangedMeanwhile: somebody's mark is no longer the one of `before`.
            SQLAlchemyError, InvalidEntry: the gradebook cannot be written.
        """
        _patiently(lambda: self._mark(entry, cell, before, after, reason), self._reconnect)

    def _mark(
        self,
        entry: NotebookEntry,
        cell: str,
        before: dict[str, HandMark],
        after: dict[str, HandMark],
        reason: str,
    ) -> None:
        database = self.gradebook.db.connection()
        sheet = self._sheet(database, entry)
        now, _ = by_hand.held(marks.through(database), entry, cell)
        stale = by_hand.differing(now, {student: before[student] for student in after})
        if stale:
            self.gradebook.db.rollback()
            raise ChangedMeanwhile(f"the marks of {', '.join(stale)} changed meanwhile: nothing was written")
        asked = select(SubmittedAssignment.student_id, SubmittedNotebook.id).join(SubmittedNotebook)
        books = {
            row.student_id: row.id
            for row in database.execute(asked.where(SubmittedNotebook.notebook_id == sheet.notebook))
        }
        mark_log.sign(database, reason)
        for student, mark in after.items():
            was, book = before[student], books[student]
            grade = (Grade.cell_id == sheet.grades[cell], Grade.notebook_id == book)
            unmarked = (Grade.manual_score.is_not_distinct_from(was.score), Grade.needs_manual_grade == was.waits)
            comment = (Comment.cell_id == sheet.comments[cell], Comment.notebook_id == book)
            same = Comment.manual_comment.is_not_distinct_from(was.comment)
            for change in (
                update(Grade).where(*grade, *unmarked).values(manual_score=mark.score, needs_manual_grade=mark.waits),
                update(Comment).where(*comment, same).values(manual_comment=mark.comment),
            ):
                changed = database.execute(change.execution_options(synchronize_session=False))
                if changed.rowcount != 1:  # formgrader wrote since we looked
                    self.gradebook.db.rollback()
                    raise ChangedMeanwhile(f"the marks of {student} changed meanwhile: nothing was written")
        mark_log.unsign(database)
        self.gradebook.db.commit()

    def scores(self, entry: NotebookEntry) -> dict[str, dict[str, float | None]]:
        """What the gradebook holds of a notebook: each student's automatic scores by cell.

        Raises:
            MissingEntry: it does not know the notebook.
        """
        scores = marks.scores(marks.through(self.gradebook.db.connection()), entry)
        self.gradebook.db.rollback()  # ends the transaction: nobody waits for a reader
        if scores is None:
            raise MissingEntry(f"the gradebook has no notebook {entry.name}")
        return scores

    def settle(self, entry: NotebookEntry, student: str = "") -> dict[str, tuple[float, float]]:
        """Bring lateness, late penalties and names in the gradebook up to date; of `student` only, if given.

        A penalty may be a share of all marks, a person's included, so it changes with them. Answers with each
        student's seconds after the deadline, extensions considered, and the points that this costs.

        Raises:
            CourseError: the roster or the list of extensions cannot be read.
            SQLAlchemyError, InvalidEntry: the gradebook cannot be written.
        """
        return _patiently(lambda: self._settle(entry, student), self._reconnect)

    def _settle(self, entry: NotebookEntry, student: str) -> dict[str, tuple[float, float]]:
        database = self.gradebook.db.connection()
        theirs, books = SubmittedAssignment.__table__, SubmittedNotebook.__table__
        score = func.sum(func.coalesce(Grade.manual_score, Grade.auto_score, 0) + func.coalesce(Grade.extra_credit, 0))
        try:
            sheet = self._sheet(database, entry)
        except MissingEntry:  # the gradebook was lost, and nobody is in the new one yet
            self.gradebook.db.rollback()
            return {}
        # nbgrader's indexes begin with the cell and with the notebook: without, all rows are read for each student.
        marks_of_theirs = (Grade.cell_id.in_(sheet.grades.values()), Grade.notebook_id == books.c.id)
        asked = (
            select(
                theirs.c.id,
                theirs.c.student_id,
                theirs.c.timestamp,
                theirs.c.extension,
                books.c.id.label("notebook"),
                books.c.late_submission_penalty,
                select(score).where(*marks_of_theirs).scalar_subquery().label("score"),
            )
            .select_from(theirs)
            .join(books, books.c.assignment_id == theirs.c.id)
            .where(theirs.c.assignment_id == sheet.assignment, books.c.notebook_id == sheet.notebook)
        )
        if student:
            asked = asked.where(theirs.c.student_id == student)
        granted, settled = extensions.extensions(self.course), {}
        deadline = course_tree.due(entry)  # course.toml's, which may have changed since the tree was built
        stale = Assignment.duedate.is_distinct_from(deadline)
        database.execute(update(Assignment).where(Assignment.id == sheet.assignment, stale).values(duedate=deadline))
        for row in database.execute(asked).all():
            seconds, penalty, extension = 0.0, 0.0, None
            when = self._stated(entry, row.student_id, row.timestamp)
            if when != row.timestamp:  # it was learned after the submission was graded, `collect --times`
                database.execute(update(theirs).where(theirs.c.id == row.id).values(timestamp=when))
            if when is not None and deadline is not None:
                given = extensions.extension_of(self.course, entry, row.student_id, granted)
                if given is not None:
                    extension = extensions.extra_time(given, deadline, when)
                due = deadline + (extension or datetime.timedelta(0))
                seconds = max(0.0, (when - due).total_seconds())
                penalty = self.course.late.penalty(row.score or 0.0, seconds)
            if row.extension != extension:
                database.execute(update(theirs).where(theirs.c.id == row.id).values(extension=extension))
            if row.late_submission_penalty != (penalty or None):
                values = {"late_submission_penalty": penalty or None}
                database.execute(update(books).where(books.c.id == row.notebook).values(**values))
            settled[row.student_id] = (seconds, penalty)
        self._name(database, set(settled))
        self.gradebook.db.commit()
        return settled

    def make_names_safe(self) -> None:
        """Take markup out of the names of students, in the gradebook and in the course tree.

        Raises:
            SQLAlchemyError: the gradebook cannot be written.
        """
        safe_names.rename_directories(self.course.tree)
        _patiently(self._make_names_safe, self._reconnect)

    def _make_names_safe(self) -> None:
        safe_names.make_safe(self.gradebook.db.connection())
        self.gradebook.db.commit()

    def _stated(self, entry: NotebookEntry, student: str, known: datetime.datetime | None) -> datetime.datetime | None:
        """When a submission came by the tree, UTC without an offset; as it is `known` if the tree does not have it."""
        if not course_tree.place(self.course, "submitted", entry, student).exists():
            return known
        try:
            when = course_tree.stamped(self.course, entry, student)
        except (ValueError, OverflowError):  # the file holds no time
            return known
        return when.replace(tzinfo=None) if when else None

    def _name(self, database: Any, students: set[str]) -> None:
        """Call these students what the roster says; without one, what the download called them. A team has its name."""
        listed, table, known = roster.load(self.course), Student.__table__, teams.load(self.course)
        columns = (table.c.id, table.c.first_name, table.c.last_name, table.c.email)
        for row in database.execute(select(*columns).where(table.c.id.in_(students))).all():
            line = listed.students.get(row.id) if listed else None
            values: dict[str, str | None]
            if known.name(row.id):
                values = {"first_name": "", "last_name": known.name(row.id), "email": None}
            elif line:
                values = {"first_name": line.first_name, "last_name": line.last_name, "email": line.email or None}
            elif row.first_name is None and row.last_name is None:
                first, last = roster.called(self.course, row.id)
                values = {"first_name": first, "last_name": last} if first or last else {}
            else:
                continue
            values = {column: value and html_cleaning.name(value) for column, value in values.items()}
            if any(getattr(row, column) != value for column, value in values.items()):
                database.execute(update(table).where(table.c.id == row.id).values(**values))

    def _reconnect(self) -> None:
        self._sheets.clear()  # the gradebook may have been made again
        self.gradebook.db.remove()
        self.gradebook.engine.dispose()

    def _record(
        self,
        entry: NotebookEntry,
        student: str,
        when: str,
        notebook: NotebookNode,
        anew: bool,
        only: Collection[str] | None,
    ) -> None:
        database = self.gradebook.db.connection()
        sheet = self._sheet(database, entry)
        mine = self._submitted(database, sheet, student, parse_utc(when.strip()) if when else None)
        columns = (Grade.cell_id, Grade.auto_score, Grade.manual_score, Grade.needs_manual_grade)
        asked = select(*columns).where(Grade.cell_id.in_(sheet.grades.values()), Grade.notebook_id == mine)
        before = {mark.cell_id: mark for mark in database.execute(asked)}
        grades, comments = [], []
        for cell in notebook.cells:
            if only is not None and cell.id not in only:
                continue
            if is_grade(cell):
                row, (score, _) = sheet.grades[cell.metadata.nbgrader.grade_id], determine_grade(cell)
                grades.append({"row": row, "score": score, "needed": _to_look_at(before[row], score, anew)})
            if is_solution(cell):
                untouched = cell.metadata.nbgrader.get("checksum") == compute_checksum(cell)
                text = "No response." if untouched else None
                comments.append({"row": sheet.comments[cell.metadata.nbgrader.grade_id], "text": text})
        for table, values, rows in (
            (Grade, {"auto_score": bindparam("score"), "needs_manual_grade": bindparam("needed")}, grades),
            (Comment, {"auto_comment": bindparam("text")}, comments),
        ):
            if rows:
                place = (table.cell_id == bindparam("row"), table.notebook_id == mine)
                database.execute(update(table.__table__).where(*place).values(**values), rows)
        self.gradebook.db.commit()

    def _sheet(self, database: Any, entry: NotebookEntry) -> _Sheet:
        """Where a notebook stands in the gradebook.

        Raises:
            MissingEntry: nowhere.
        """
        if entry.name not in self._sheets:
            asked = select(Notebook.id, Notebook.assignment_id).join(Assignment).where(Assignment.name == entry.name)
            sheet = database.execute(asked.where(Notebook.name == entry.name)).one_or_none()
            if sheet is None:
                raise MissingEntry(f"the gradebook has no notebook {entry.name}")
            cells = select(BaseCell.name, BaseCell.id, BaseCell.type).where(BaseCell.notebook_id == sheet.id)
            rows = database.execute(cells).all()
            ids = {
                kind: {row.name: row.id for row in rows if row.type == kind.__name__}
                for kind in (GradeCell, SolutionCell)
            }
            self._sheets[entry.name] = _Sheet(sheet.assignment_id, sheet.id, ids[GradeCell], ids[SolutionCell])
        return self._sheets[entry.name]

    def _submitted(self, database: Any, sheet: _Sheet, student: str, when: datetime.datetime | None) -> str:
        """The id of a student's notebook; it is entered, with a mark for every cell, if it is not there."""
        asked = select(SubmittedAssignment.id, SubmittedNotebook.id.label("notebook"))
        asked = asked.join(SubmittedNotebook, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
        asked = asked.where(
            SubmittedAssignment.assignment_id == sheet.assignment,
            SubmittedAssignment.student_id == student,
            SubmittedNotebook.notebook_id == sheet.notebook,
        )
        submitted = database.execute(asked).one_or_none()
        if submitted is not None:
            theirs = SubmittedAssignment.__table__
            database.execute(update(theirs).where(theirs.c.id == submitted.id).values(timestamp=when))
            return submitted.notebook
        if database.execute(select(Student.id).where(Student.id == student)).one_or_none() is None:
            database.execute(insert(Student.__table__), {"id": student})
        whole, mine = new_uuid(), new_uuid()
        handed_in = {"id": whole, "assignment_id": sheet.assignment, "student_id": student, "timestamp": when}
        database.execute(insert(SubmittedAssignment.__table__), handed_in)
        notebook = {"id": mine, "assignment_id": whole, "notebook_id": sheet.notebook}
        database.execute(insert(SubmittedNotebook.__table__), notebook)
        for table, cells in ((Grade, sheet.grades), (Comment, sheet.comments)):
            rows = [{"cell_id": cell, "notebook_id": mine} for cell in cells.values()]
            database.execute(insert(table.__table__), rows)
        return mine


def _to_look_at(mark: Any, score: float | None, anew: bool) -> bool:
    """Whether a person has to look at a mark, as nbgrader decides it; but not again at what did not change."""
    looked_at = mark.manual_score is not None and not mark.needs_manual_grade
    if looked_at and not anew and mark.auto_score == score:
        return False
    return mark.manual_score is not None or score is None


@contextmanager
def open_recorder(course: Course) -> Iterator[Recorder]:
    """A recorder on the course's gradebook, closed afterwards. Names in it lose their markup, see `safe_names`."""
    logging.getLogger("tornado.application").setLevel(logging.CRITICAL)  # nbgrader's tracebacks; we tell it ourselves
    revision.take()
    gradebook = _patiently(lambda: Gradebook(course_tree.database(course), course.course_id), lambda: None)
    with gradebook:
        recorder = Recorder(course, gradebook)
        recorder.make_names_safe()
        _patiently(lambda: _log_marks(gradebook), gradebook.db.remove)
        yield recorder


def _log_marks(gradebook: Gradebook) -> None:
    """Have the gradebook log every mark that a person enters, with whatever program."""
    mark_log.install(gradebook.db.connection())
    gradebook.db.commit()


def _patiently(use: Callable[[], Any], renew: Callable[[], None]) -> Any:
    """Use the database; if it is locked or away, begin again on a new connection, a few times."""
    for wait in (*WAITS, None):
        try:
            return use()
        except DATABASE_ERRORS as bad:
            renew()
            if wait is None or any(word in str(bad) for word in HOPELESS):
                raise
            time.sleep(wait)
    raise AssertionError


__all__ = ["DATABASE_ERRORS", "ChangedMeanwhile", "MissingEntry", "Recorder", "open_recorder"]
