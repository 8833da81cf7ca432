"""What a class predicted before its checks, for the class report: how many were right, and what most got wrong.

It is read from the submissions' cells, of which nothing is run. Only counts come of it: nobody is named, and what a
student wrote is compared with the choices and never shown.
"""

import collections
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autograder import limited
from autograder.course import Course, NotebookEntry
from autograder.gradebook import course_tree
from autograder.grading.cache import keep, recall
from autograder.intake import reading
from utils.predictions import Question

Written = dict[str, str | None]  # what is written by question; "" is no prediction, None cannot be read


@dataclass(frozen=True)
class Row:
    """One question: how many predicted, how many were right, and the wrong answer that most gave."""

    question: Question
    predicted: int
    right: int
    most_wrong: str  # "" if nobody was wrong
    gave_it: int
    unreadable: int  # what is written is neither a choice nor a number

    @property
    def share(self) -> float | None:
        """How many of those who predicted were right; None if nobody did."""
        return self.right / self.predicted if self.predicted else None


def rows(asked: Sequence[Question], submissions: Sequence[Written]) -> list[Row]:
    """A row for each question, in the order in which they are asked."""
    return [_row(question, [one.get(question.number, "") for one in submissions]) for question in asked]


def _row(question: Question, written: Sequence[str | None]) -> Row:
    guesses = [question.guess(text) if text is not None else None for text in written if text is None or text.strip()]
    readable = [guess for guess in guesses if guess is not None]
    wrong = collections.Counter(guess for guess in readable if not question.is_right(guess))
    (most, count), *_ = wrong.most_common(1) or [("", 0)]
    shown = question.shown(most) if count else ""
    return Row(question, len(readable), len(readable) - wrong.total(), shown, count, len(guesses) - len(readable))


def of_notebook(course: Course, entry: NotebookEntry, students: Sequence[str]) -> list[Row]:
    """What these students predicted in a notebook; nothing if it asks for no prediction, or the course wants no table.

    Raises:
        CourseError: a question of the author's is not written as it must be.
    """
    if not course.report.predictions:
        return []
    from autograder.author.build import questions  # brings nbformat, which no other part of the report needs

    asked = questions(entry)
    return rows(asked, _read(course, entry, students)) if asked else []


def _read(course: Course, entry: NotebookEntry, students: Sequence[str]) -> list[Written]:
    """What each submission predicts; the tree keeps it by the submission's digest, since parsing takes a while."""
    name, version = f"{entry.name}-predictions", "1"
    known: dict[str, Written] = recall(course, name, version) or {}
    by_student = {}
    for student in students:
        text = course_tree.place(course, "submitted", entry, student).read_bytes()
        digest = hashlib.sha256(text).hexdigest()
        by_student[student] = digest, known[digest] if digest in known else predictions_in(text)
    fresh = dict(by_student.values())
    if fresh != known:
        keep(course, name, version, fresh)
    return [written for _, written in by_student.values()]


def predictions_in(text: bytes) -> Written:
    """What a submission predicts; nothing if it cannot be read: that it is refused, the report says elsewhere."""
    from autograder.intake.restore import READ_MB, READ_SECONDS  # brings nbformat

    try:
        written: dict[str, Any] = limited.call(reading.predictions, text, seconds=READ_SECONDS, memory_mb=READ_MB)
    except (limited.TooCostly, reading.Ungradable):
        return {}
    return written
