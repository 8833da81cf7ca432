"""Feedback pages: several are made at a time, and those that would say nothing new stay."""

import hashlib
import sys
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import msgpack
from tqdm import tqdm

from autograder import html_cleaning, limited, pictures
from autograder.cells import CellRole, exercise_of, role_of, with_score
from autograder.course import Course, CourseError, NotebookEntry
from autograder.gradebook import course_tree, extensions, marks, teams
from autograder.gradebook.marks import Marked
from autograder.grading import history
from autograder.grading.grading_record import load_record
from autograder.grading.lateness import settle
from autograder.reports import layout, page
from utils.grading.verdict import Outcome, Verdict

MADE_OF = ".made_of"  # beside a page, and removed by nbgrader together with it
BESIDE = "timestamp.txt"  # what nbgrader's release_feedback reads beside a page
PAGE_SECONDS = 20.0  # of processor time for one page; an ordinary one takes a fortieth of a second
PAGE_MB = 1024
TOO_COSTLY = (
    "Your answers are not shown: the page of this notebook takes too long to make. Its outputs or its text are too "
    "large, or unusual. For the rest, ask your instructor."
)
LIBRARIES = ("jinja2", "latex2mathml", "mistune", "nh3", "pygments")


class FeedbackError(CourseError):
    """Pages that could not be written."""


def write_feedback(
    course: Course, entries: list[NotebookEntry], workers: int = 2, students: Collection[str] | None = None
) -> list[Path]:
    """A page for every graded submission, of these students or of all, where nbgrader writes its own.

    All pages of the notebooks are named in the end, the new and the old.

    Raises:
        CourseError: a graded submission is missing in the gradebook.
        FeedbackError: some could not be made; the others are written. The message says why.
    """
    settle(course, entries)
    stale = [submission for entry in entries for submission in _stale(course, entry, students)]
    reasons: list[str] = []
    bar = tqdm(total=len(stale), unit="page", disable=None if stale else True, file=sys.stderr)
    with bar, ThreadPoolExecutor(workers) as threads:  # each has a child of its own, which does the work
        try:
            for why in threads.map(lambda submission: _write(course, *submission), stale):
                reasons += [why] if why else []
                bar.update()
        except BaseException:
            threads.shutdown(cancel_futures=True)
            raise
    if reasons:
        raise FeedbackError("all other pages are written; these could not be made:\n" + "\n".join(reasons))
    pages = sorted(path for entry in entries for path in course.tree.glob(f"feedback/*/{entry.name}/*.html"))
    counts = {path: teams.recipients(course, course.notebook(path.stem), path.parts[-3]) for path in pages}
    pages = [path for path in pages if counts[path]]
    for path in pages:
        entry, student = course.notebook(path.stem), path.parts[-3]
        record = load_record(course, entry, student)
        if record is not None and (students is None or student in students):
            history.publish(course, entry, record, "feedback")
    return pages


def _stale(
    course: Course, entry: NotebookEntry, students: Collection[str] | None
) -> Iterator[tuple[NotebookEntry, str, Marked]]:
    """The students whose page is missing or would say something new, with what the gradebook says of them."""
    with marks.reading(course) as gradebook:
        marked = marks.marked(gradebook, entry) if gradebook else {}
    for graded in sorted(course.tree.glob(f"autograded/*/{entry.name}/{entry.name}.ipynb")):
        student = graded.parts[-3]
        if (students is not None and student not in students) or not teams.recipients(course, entry, student):
            continue
        if student not in marked:
            raise CourseError(f"the gradebook does not know {student}'s {entry.name}: run `autograder grade` first")
        path = _path(course, entry, student)
        made_of, digest = path.with_name(MADE_OF), _digest(page_data(course, entry, student, marked[student]))
        secret = course_tree.secret_of(course, "autograded", entry, student)
        course_tree.place_secret(course, "feedback", entry, student, secret)  # of today, also where the page stays
        stamp = graded.with_name(BESIDE)
        if stamp.exists():
            course_tree.write(path.with_name(BESIDE), stamp.read_text())
        if not path.exists() or not made_of.exists() or made_of.read_text() != digest:
            yield entry, student, marked[student]


def page_data(course: Course, entry: NotebookEntry, student: str, marked: Marked) -> dict[str, Any]:
    """All that a page says, for `page.render`."""
    record = load_record(course, entry, student)
    # What looks odd in a student's runs is for a person, who then decides.
    of_runs = tuple(f"exercise {number}: " for number in entry.exercises_of_runs)
    empty = [exercise_of(name) for name in marked.untouched if role_of(name) is CellRole.WRITTEN]
    said: dict[str, tuple] = dict.fromkeys(empty, ("blank", "no answer", []))
    granted, people = extensions.extensions(course), teams.recipients(course, entry, student)
    excused = bool(people) and all(extensions.is_excused(course, entry, person, granted) for person in people)
    if record:
        said |= {verdict.exercise: described(verdict) for verdict in record.verdicts}
    return {
        "title": entry.title,
        "course": course.title,
        "student": teams.shown(course, entry, student),
        "release": course_tree.release_text(course, entry),
        "notebook": course_tree.place(course, "autograded", entry, student).read_bytes(),
        "marks": {
            name: {"score": mark.score, "points": mark.points, "state": _state(mark)}
            for name, mark in sorted(marked.marks.items())
        },
        "comments": {with_score(name): said for name, said in sorted(marked.comments.items())},
        "penalty": marked.penalty,
        "late_seconds": record.late_seconds if record else 0.0,
        "reason": record.reason if record else "",
        "said": dict(sorted(said.items())),
        "remarks": [remark for remark in record.remarks if not remark.startswith(of_runs)] if record else [],
        "why": "",
        "excused": excused,
    }


def described(verdict: Verdict) -> tuple[str, str, list[tuple[str, float, float, str]]]:
    """The outcome of an exercise in a word, what is said of it, and of its parts name, score, points and sentence."""
    if verdict.outcome is Outcome.PASSED:
        return "passed", f"passed. {verdict.message}".removesuffix(". "), []
    parts = [(part.name, part.score, part.points, part.message or str(part.outcome)) for part in verdict.parts]
    if verdict.in_parts:
        return "part", verdict.state, parts
    sentence = verdict.sentence().removeprefix(f"Exercise {verdict.exercise}: ")
    return verdict.outcome.name.lower(), "" if parts else sentence, parts


def _state(mark: marks.Mark) -> str:
    """Who decided on a mark: "waits" for a person, "again" if one gave it for an earlier submission, "by hand", or
    "".
    """
    if mark.waits:
        return "again" if mark.by_hand else "waits"
    return "by hand" if mark.by_hand else ""


def _digest(about: dict[str, Any]) -> str:
    """A digest of all that a page shows, and of what makes it."""
    return hashlib.sha256(_made_with() + msgpack.packb(about, unicode_errors="surrogatepass")).hexdigest()


@cache
def _made_with() -> bytes:
    files = [Path(str(module.__file__)) for module in (page, html_cleaning, layout, pictures)] + [page.TEMPLATE]
    versions = [metadata.version(name) for name in LIBRARIES]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files) + " ".join(versions).encode()).digest()


def _path(course: Course, entry: NotebookEntry, student: str) -> Path:
    return course_tree.place(course, "feedback", entry, student).with_suffix(".html")


def _write(course: Course, entry: NotebookEntry, student: str, marked: Marked) -> str:
    """Write a page; why it cannot be made, if it cannot. One that takes too much time or memory has no answers."""
    about = page_data(course, entry, student, marked)
    path, digest = _path(course, entry, student), _digest(about)
    try:
        html = limited.call(page.render, about, seconds=PAGE_SECONDS, memory_mb=PAGE_MB)
    except limited.TooCostly:
        html = page.render(about | {"notebook": b"", "why": TOO_COSTLY})
    except Exception as bug:  # of one page; the others are for everybody
        return f"{entry.name} of {student}: {type(bug).__name__}: {html_cleaning.line(bug, 500)}"
    course_tree.write(path, html)
    course_tree.write(path.with_name(MADE_OF), digest)
    return ""
