"""Published verdicts stay as they are when the course is upgraded, until somebody asks for the new ones.

`autograder grade` judges such a submission by today's checks, records nothing, and shows what would change. What
came of that is kept in `.course/previews/`, so that it is judged once for each version.
"""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from autograder.course import Course, NotebookEntry
from autograder.gradebook import course_tree
from autograder.grading import history
from autograder.grading.fingerprints import combined_digest
from autograder.grading.grading_record import GRADED, RECORD, STALE, Job, Record, names_digest
from utils.grading.verdict import Outcome


def is_frozen(course: Course, job: Job, trusted: bool) -> bool:
    """Whether a submission has published verdicts which only another version of the course would change."""
    return job.known is not None and job.state(trusted) == STALE and history.is_published(course, job.entry, job.known)


def renamed(course: Course, job: Job, own: Collection[str]) -> Job | None:
    """The part of a frozen submission that is judged all the same: a person has changed what its student is called.

    Numbers of the student's own follow from that, in the exercises `own`.
    """
    known = job.known
    if known is None or not known.named or known.named == names_digest(job.names):
        return None
    only = [
        verdict.exercise
        for verdict in known.verdicts
        if verdict.exercise in own and verdict.outcome is not Outcome.BLANK
    ]
    there = course_tree.place(course, "autograded", job.entry, job.student).exists()
    return replace(job, only=tuple(only)) if only and there and known.status == GRADED else None


def preview(course: Course, job: Job) -> Record | None:
    """What today's checks made of a frozen submission, if that is known."""
    try:
        key, _, text = _path(course, job.entry, job.student).read_text().partition("\n")
        return RECORD.validate_json(text) if key == _key(job) else None
    except (OSError, ValueError):
        return None


def keep_preview(course: Course, job: Job, done: Record) -> None:
    """Keep what today's checks made of it."""
    text = RECORD.dump_json(done).decode()
    course_tree.write(_path(course, job.entry, job.student), f"{_key(job)}\n{text}\n")


def same(before: Record, after: Record) -> bool:
    """Whether two records tell a student the same."""
    states = [
        (
            record.status,
            record.reason,
            {each.exercise: (each.score, each.points, each.sentence()) for each in record.verdicts},
        )
        for record in (before, after)
    ]
    return states[0] == states[1]


def _key(job: Job) -> str:
    return f"{job.digest} {combined_digest(job.graders)}"


def _path(course: Course, entry: NotebookEntry, student: str) -> Path:
    return course.tree / "previews" / student / f"{entry.name}.json"
