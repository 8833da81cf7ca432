"""Lateness and its penalties, in gradebook and records alike."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from autograder.course import Course, NotebookEntry
from autograder.gradebook import course_tree
from autograder.grading.cache import keep, recall
from autograder.grading.dependencies import Dependencies
from autograder.grading.errors import explain_failures
from autograder.grading.grading_record import Record, load_record, students_of, verdict_path

if TYPE_CHECKING:
    from autograder.gradebook.gradebook_writer import Recorder


# All that lateness follows from, besides the course itself.
STATED = (
    *("gradebook.db*", "students.csv", "teams.csv", "extensions.csv", "handins/*/name.txt", "verdicts/*/*.json"),
    "submitted/*/*/timestamp.txt",
)


def settle(course: Course, entries: list[NotebookEntry], around: Dependencies | None = None) -> None:
    """Bring lateness and its penalties up to date, in gradebook and records: marks of a person, extensions, deadlines.

    To write, nbgrader's classes are needed, which take long to import: what was settled before, and is as it was
    then, is left alone. `around` is shared by who asks it more.

    Raises:
        CourseError: the roster or the list of extensions cannot be read.
        GradingStopped: the gradebook cannot be used.
    """
    if course.grading.database or not course_tree.gradebook(course).exists():  # whether it changed, nobody knows
        settle_all(course, entries)
        return
    names, around = [entry.name for entry in entries], around or Dependencies(course)
    key = f"{names} {around.digest(*STATED)}"
    if not recall(course, "settled", key):
        settle_all(course, entries)
        if key == f"{names} {around.digest(*STATED)}":  # of this state it is known that there is nothing to do
            keep(course, "settled", key, True)


def settle_all(course: Course, entries: list[NotebookEntry]) -> None:
    """Settle the penalties of all submissions whose times or extensions have changed."""
    from autograder.gradebook import gradebook_writer

    with explain_failures(course), gradebook_writer.open_recorder(course) as recorder:
        for entry in entries:
            known = (load_record(course, entry, student) for student in students_of(course, entry))
            settle_records(course, recorder, entry, [record for record in known if record is not None])


def settle_records(course: Course, recorder: "Recorder", entry: NotebookEntry, records: list[Record]) -> None:
    """The same of one notebook and these records."""
    settled = recorder.settle(entry)
    for record in records:
        late = settled.get(record.student)  # None: the gradebook was lost, and `grade` writes it again
        if (
            late
            and record.notebook == entry.name
            and (record.late_seconds, record.penalty) != late
            and not record.retry
        ):
            record.late_seconds, record.penalty = late
            course_tree.write_json(verdict_path(course, entry, record.student), asdict(record))
