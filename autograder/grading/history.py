"""The verdicts of a submission over time: `.course/history/STUDENT/NOTEBOOK.jsonl`, which is only ever appended to.

A line is a verdict that differs from the one before it, or says that the last verdict was published: on a feedback page
or in a file for a learning platform. Published verdicts stay until somebody asks for other ones, see
`autograder.grading.frozen`.
"""

import datetime
from functools import cache
from importlib import metadata
from pathlib import Path

from autograder.course import Course, NotebookEntry
from autograder.gradebook import course_tree, journal
from autograder.gradebook.journal import Event
from autograder.grading.grading_record import Record

VERDICT, PUBLISHED = "verdict", "published"  # what a line is about


def path_of(course: Course, entry: NotebookEntry, student: str) -> Path:
    """Where the history of a submission is kept."""
    return course.tree / "history" / student / f"{entry.name}.jsonl"


def events(course: Course, entry: NotebookEntry, student: str) -> list[Event]:
    """All that was noted of a submission, in order."""
    return journal.lines(path_of(course, entry, student))


def note(course: Course, entry: NotebookEntry, record: Record) -> None:
    """Append the verdicts of a record, unless they are those noted last for the same submission."""
    state = {
        "what": VERDICT,
        "hand_in": record.hand_in,
        "status": record.status,
        "reason": record.reason,
        "score": record.score,
        "points": record.points,
        "verdicts": {
            verdict.exercise: [verdict.score, verdict.points, verdict.sentence()] for verdict in record.verdicts
        },
    }
    last = next((event for event in reversed(events(course, entry, record.student)) if event["what"] == VERDICT), {})
    if {name: last.get(name) for name in state} != state:
        about = {"at": record.graded_at or journal.now(), "account": journal.account(), "version": _version()}
        journal.append(path_of(course, entry, record.student), about | state)


def publish(course: Course, entry: NotebookEntry, record: Record, how: str) -> None:
    """Note that the verdicts of a record were published, unless that is noted already."""
    known = events(course, entry, record.student)
    if not any(event["what"] == VERDICT for event in known):  # graded by a version that kept no history
        note(course, entry, record)
    elif known[-1]["what"] == PUBLISHED:
        return
    event = {"at": journal.now(), "account": journal.account(), "what": PUBLISHED, "how": how}
    journal.append(path_of(course, entry, record.student), event)


def is_published(course: Course, entry: NotebookEntry, record: Record) -> bool:
    """Whether students may have read the verdicts of a record.

    Of a record without a history, which an older version wrote, a feedback page that is not older says so.
    """
    known = events(course, entry, record.student)
    if any(event["what"] == VERDICT for event in known):
        return known[-1]["what"] == PUBLISHED
    page = course_tree.place(course, "feedback", entry, record.student).with_suffix(".html")
    if not page.exists() or not record.graded_at:
        return False
    written = datetime.datetime.fromtimestamp(page.stat().st_mtime, datetime.UTC)
    return written >= datetime.datetime.fromisoformat(record.graded_at)


@cache
def _version() -> str:
    return metadata.version("attention-graded")
