"""nbgrader's feedback pages: several are written at a time, and those that would say nothing new stay."""

import contextlib
import hashlib
import json
import multiprocessing
import re
import resource
import signal
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from html import escape
from itertools import islice
from pathlib import Path

import nbconvert
import nbgrader
from nbgrader.api import Gradebook, SubmittedNotebook
from tqdm import tqdm

from autograder import html_cleaning
from autograder.course import Course, CourseError, NotebookEntry
from autograder.gradebook import course_tree
from autograder.grading.lateness import settle
from autograder.grading.records import load_record
from autograder.sandbox import preload

PAGES = 8  # that a worker writes at a time: nbgrader reads its templates once for them
SCORE = r"Score: 0(?:\.0)? / ([\d.]+)"
MADE_OF = ".made_of"  # beside a page, and removed by nbgrader together with it
POLICY = "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'\">"
PAGE_SECONDS = 20.0  # of processor time for one page; an ordinary one takes half a second
PAGE_MB = 2048


class FeedbackError(CourseError):
    """Pages that could not be written."""


def write_feedback(course: Course, entries: list[NotebookEntry], workers: int = 2) -> list[Path]:
    """A page for every graded hand-in, HTML of the hand-in sanitized; all pages, the new and the old.

    Raises:
        CourseError: a graded hand-in is missing in the gradebook.
        FeedbackError: nbgrader could not write one; the others are written. The message has its log.
    """

    settle(course, entries)
    stale = {entry: _stale(course, entry) for entry in entries}
    tasks = []
    for entry, states in stale.items():
        left = iter(states)
        while students := list(islice(left, PAGES)):
            tasks.append((entry, students))
    told: list[str] = []
    if tasks:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["autograder.reports.feedback"])
        pool = ProcessPoolExecutor(min(workers, len(tasks)), context, _settle)
        bar = tqdm(total=sum(map(len, stale.values())), unit="page", disable=None, file=sys.stderr)
        with bar:
            try:
                futures = {
                    pool.submit(_write, course, entry, students, PAGE_SECONDS): (entry, students)
                    for entry, students in tasks
                }
                for future in as_completed(futures):
                    entry, students = futures[future]
                    failed = future.result()
                    for student in students:
                        if student not in failed:
                            course_tree.write(_made_of(course, entry, student), stale[entry][student])
                    told += [f"{entry.name} of {student}: {why}" for student, why in failed.items()]
                    bar.update(len(students))
            finally:
                pool.shutdown(cancel_futures=True)
    if told:
        raise FeedbackError("all other pages are written; nbgrader could not write\n" + "\n".join(told))
    return sorted(path for entry in entries for path in course.tree.glob(f"feedback/*/{entry.name}/*.html"))


def _stale(course: Course, entry: NotebookEntry) -> dict[str, str]:
    """The students whose page is missing or would say something new, each with the digest of what it will say."""
    found = {}
    with Gradebook(course_tree.database(course), course.course_id) as gradebook:
        marked = {one.student_id: one.notebooks for one in gradebook.assignment_submissions(entry.name)}
        for graded in sorted(course.tree.glob(f"autograded/*/{entry.name}/{entry.name}.ipynb")):
            student = graded.parts[-3]
            notebook = next((one for one in marked.get(student, ()) if one.name == entry.name), None)
            if notebook is None:
                raise CourseError(f"the gradebook does not know {student}'s {entry.name}: run `autograder grade` first")
            state, made_of = _digest(graded, notebook), _made_of(course, entry, student)
            whole = made_of.exists() and made_of.with_name(f"{entry.name}.html").exists()
            if not whole or made_of.read_text() != state:
                found[student] = state
    return found


def _digest(graded: Path, marked: SubmittedNotebook) -> str:
    """A digest of all that a page shows, and of what makes it."""
    marks = sorted((mark.name, mark.score, mark.max_score, mark.name in _unmarked(marked)) for mark in marked.grades)
    comments = sorted((comment.name, comment.comment or "") for comment in marked.comments)
    made_with = [nbgrader.__version__, nbconvert.__version__, *sorted(html_cleaning.TAGS)]
    shown = json.dumps([marks, comments, marked.late_submission_penalty, made_with])
    return hashlib.sha256(shown.encode() + graded.read_bytes()).hexdigest()


def _unmarked(marked: SubmittedNotebook) -> list[str]:
    """The answers that nobody has marked yet."""
    return [mark.name for mark in marked.grades if mark.needs_manual_grade and mark.manual_score is None]


def not_marked_yet(page: str, names: Iterable[str]) -> str:
    """A page that says of these answers that they are not graded yet; nbgrader shows them with 0 points."""
    for name in map(re.escape, names):
        for before in (rf'(<a href="#{name}">[^<]*</a> \()', rf'(<a name="{name}"></a>.*?)'):
            page = re.sub(before + SCORE, r"\1not graded yet, of \2 points", page, count=1, flags=re.DOTALL)
    return page


def _made_of(course: Course, entry: NotebookEntry, student: str) -> Path:
    return course_tree.place(course, "feedback", entry, student).with_name(MADE_OF)


class _TooSlow(Exception):
    """A page takes longer than it may; nbgrader logs it, and goes on with the next page."""


def _write(course: Course, entry: NotebookEntry, students: list[str], seconds: float) -> dict[str, str]:
    """Write the pages of these students, in a worker; those that nbgrader could not write, with its log.

    A page that takes too much time or memory is written by us: the verdicts, and why there is no more.
    """
    slow: list[int] = []
    told = _generate(course, entry, students, slow, seconds)
    if not told:
        return {}
    if len(students) > 1:  # each by itself: the others are not to blame
        return {name: why for student in students for name, why in _write(course, entry, [student], seconds).items()}
    if not slow and "MemoryError" not in told and "RecursionError" not in told:
        return {students[0]: told}
    course_tree.write(
        _made_of(course, entry, students[0]).with_name(f"{entry.name}.html"), _short(course, entry, students[0])
    )
    return {}


def _generate(course: Course, entry: NotebookEntry, students: list[str], slow: list[int], seconds: float) -> str:
    """Have nbgrader write pages; its log if it failed. `slow` grows when a page took longer than `seconds`."""

    def stop(*_: object) -> None:
        slow.append(1)
        raise _TooSlow

    api = course_tree.nbgrader_api(course)
    everybody = {path.parent.name for path in course.tree.glob(f"autograded/*/{entry.name}")}
    api.coursedir.student_id_exclude = ",".join(everybody.difference(students))
    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds, seconds)  # of all pages; the next second is for the next
    try:
        result = api.generate_feedback(entry.name, force=True)
    except _TooSlow:
        return "it takes too long"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    if not result["success"]:
        return result.get("log") or result.get("error") or "no page was written"
    with Gradebook(course_tree.database(course), course.course_id) as gradebook:
        for student in students:
            names = _unmarked(gradebook.find_submission_notebook(entry.name, entry.name, student))
            path = course_tree.place(course, "feedback", entry, student).with_suffix(".html")
            if names:
                course_tree.write(path, not_marked_yet(path.read_text(), names))
    return ""


def _short(course: Course, entry: NotebookEntry, student: str) -> str:
    """A page in place of one that is too costly to make."""
    known = load_record(course, entry, student)
    said = "".join(f"<li>{escape(one.sentence())}</li>" for one in (known.verdicts if known else ()))
    why = "The page of this notebook takes too long to make: its outputs or its text are too large, or unusual."
    return (
        f"<!doctype html><meta charset=utf-8>{POLICY}<title>{escape(entry.name)}</title><h1>{escape(entry.title)}</h1>"
        f"<p>{why} These are the verdicts; for the rest, ask your instructor.</p><ul>{said}</ul>"
    )


def _settle() -> None:
    """Begin as a worker: an interrupt is for who started us."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    with contextlib.suppress(ValueError, OSError):  # not everywhere
        resource.setrlimit(resource.RLIMIT_DATA, (PAGE_MB * 2**20, hard))
    preload.settle()
