"""Written answers in groups: like ones together, so that one score and one comment go to all of a group.

What the gradebook gets is a person's mark, as formgrader would enter it. What it held before is kept in the course tree
until it is undone. Groups are kept as they were shown: an answer that was handed in again since is left out.
"""

import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup
from pydantic import TypeAdapter

from autograder import html_cleaning
from autograder.cells import CellRole, exercise_of, role_of
from autograder.course import Course, CourseError, NotebookEntry
from autograder.gradebook import by_hand, course_tree, marks
from autograder.gradebook.by_hand import HandMark
from autograder.gradebook.pseudonyms import Names
from autograder.grading import errors
from autograder.grading.grading_record import GRADED, load_record, students_of
from autograder.pictures import KINDS, SHOWN
from autograder.reports import layout
from autograder.reports import page as page_of_feedback

if TYPE_CHECKING:  # who only marks or undoes does not wait for torch
    from autograder.similarity.texts import VectorsOf

JOINED = 1.0  # mean distance of two groups, up to which they are one: more alike than two answers in general
MAX_COMMENT = 2000  # characters


@dataclass(frozen=True)
class Answer:
    """A student's written answer, and what a person said of it."""

    student: str
    text: str  # its pictures have names that follow from their files
    mark: HandMark
    pictures: tuple[str, ...] = field(default=(), compare=False)  # as data URIs; the text says which

    @property
    def digest(self) -> str:
        """What tells this answer from another one."""
        return hashlib.sha256(self.text.encode(errors="surrogatepass")).hexdigest()


@dataclass(frozen=True)
class Group:
    """Answers that are alike; the first is the one most like the others."""

    number: int
    answers: list[Answer]

    @property
    def marked(self) -> int:
        """How many a person has marked."""
        return sum(answer.mark.by_person for answer in self.answers)

    @property
    def different(self) -> list[list[Answer]]:
        """The answers, equal ones together, in the order of the first of each."""
        return _equal(self.answers)


@dataclass(frozen=True)
class Grouped:
    """The groups of a question, the largest first, and how they were found."""

    question: str
    points: float
    groups: list[Group]
    how: str  # what compared them
    empty: int  # submissions without an answer, which are in no group
    asked: Markup
    scheme: Markup  # the author's answer, and how it is marked; nothing if the course tree lacks it


@dataclass(frozen=True)
class Kept:
    """A group as it was shown: the digests of its answers by student."""

    number: int
    answers: dict[str, str]


@dataclass(frozen=True)
class Given:
    """What one `apply` or `mark` changed: what each student had before, and has now."""

    group: int
    before: dict[str, HandMark]
    after: dict[str, HandMark]
    by: str = ""  # who marked in the page of `autograder mark`


KEPT, LOG = TypeAdapter(list[Kept]), TypeAdapter(list[Given])


def labels(vectors: np.ndarray, number: int | None = None) -> np.ndarray:
    """The group of each row (n,), int: average linkage of cosine distances (scikit-learn's), up to JOINED or a number.

    A row of zeros is like no other.
    """
    from sklearn.cluster import AgglomerativeClustering
    from sklearn.metrics.pairwise import cosine_distances

    if len(vectors) < 2:
        return np.zeros(len(vectors), dtype=int)
    settings: dict[str, Any] = {"n_clusters": None, "distance_threshold": JOINED}
    if number:
        settings = {"n_clusters": min(number, len(vectors))}
    made = AgglomerativeClustering(metric="precomputed", linkage="average", **settings)
    return made.fit_predict(cosine_distances(vectors))


def question_of(course: Course, question: str) -> tuple[NotebookEntry, str]:
    """The notebook of a written question such as 1.W1, and the id of its cell.

    Raises:
        CourseError: there is no such question; the message names those of its notebook.
    """
    entry = course.notebook(question.split(".")[0])
    known = questions(course, entry)
    if question not in known:
        raise CourseError(f"{entry.name} has no written question {question}; it has {', '.join(known) or 'none'}")
    return entry, known[question]


def questions(course: Course, entry: NotebookEntry) -> dict[str, str]:
    """The written questions of a released notebook, 1.W1 for example, and the ids of their cells."""
    cells = json.loads(course_tree.release_text(course, entry))["cells"]
    return {exercise_of(cell["id"]): cell["id"] for cell in cells if role_of(cell["id"]) is CellRole.WRITTEN}


def answers(course: Course, question: str, students: Collection[str] | None = None) -> tuple[list[Answer], float, int]:
    """The answers of all graded submissions to a question, by student; its points; how many submissions have no answer.

    With `students` only theirs.

    Raises:
        CourseError: there is no such question, or the course tree or the gradebook cannot be read.
    """
    entry, cell = question_of(course, question)
    released = _cell(course_tree.release_text(course, entry), cell)[0].strip()
    with marks.reading(course) as gradebook:
        held, points = by_hand.held(gradebook, entry, cell) if gradebook else ({}, 0.0)
    given, empty = [], 0
    for student in students_of(course, entry, students):
        record, path = load_record(course, entry, student), course_tree.place(course, "autograded", entry, student)
        if record is None or record.status != GRADED or not path.exists() or student not in held:
            continue
        text, shown = _cell(path.read_text(), cell)
        text = text.strip()
        if text and text != released:
            given.append(Answer(student, text, held[student], shown))
        else:
            empty += 1
    return given, points, empty


def grouped(
    course: Course,
    question: str,
    how: "VectorsOf",
    number: int | None = None,
    students: Collection[str] | None = None,
) -> Grouped:
    """The answers to a question in groups, `number` of them if given; kept for `apply` as they are.

    With `students` only theirs and those of their teams.

    Raises:
        CourseError: there is no such question, or nothing to group.
    """
    given, points, empty = answers(course, question, students)
    if not given:
        raise CourseError(f"nobody's answer to {question} is there to be grouped: `autograder grade` comes first")
    words = [" ".join(SHOWN.sub(r"\1", answer.text).split()) for answer in given]
    texts = list(dict.fromkeys(words))  # the same words are one group anyway
    each = how.vectors(texts)
    rows = [texts.index(word) for word in words]
    vectors, of = each[rows], labels(each, number)[rows]
    members = [np.flatnonzero(of == number) for number in range(of.max() + 1)]
    members.sort(key=lambda places: (-len(places), given[places[0]].student))
    whole = []
    for place, places in enumerate(members, 1):
        middle = vectors[places] @ vectors[places].mean(0)
        whole.append(Group(place, [given[places[near]] for near in np.argsort(-middle, kind="stable")]))
    kept = [Kept(group.number, {answer.student: answer.digest for answer in group.answers}) for group in whole]
    course_tree.write(_file(course, question, "groups"), KEPT.dump_json(kept, indent=1))
    entry, cell = question_of(course, question)
    source = course_tree.place(course, "source", entry)
    scheme = by_hand.scheme(_cell(source.read_text(), cell)[0]) if source.exists() else ""
    question_text = page_of_feedback.question(course_tree.release_text(course, entry), cell)
    asked, marked = map(Markup, page_of_feedback.prose([question_text, scheme]))
    return Grouped(question, points, whole, how.name, empty, asked, marked)


def apply(
    course: Course,
    question: str,
    number: int,
    score: float,
    comment: str = "",
    overwrite: bool = False,
    reason: str = "",
) -> tuple[int, list[str]]:
    """Give a group, as it was last shown, one score and one comment; how many got it, and a line on who did not.

    The log of marks gets the account that does it, and the `reason`.
    An answer that a person has marked keeps that mark, unless `overwrite` is asked for. One that is no longer the one
    that was shown is left out. All marks are written, or none.

    Raises:
        CourseError: there is no such group, the score is not between 0 and the points that there are, or somebody
            marks the same answers at the same time.
    """
    question_of(course, question)  # it must be one
    path = _file(course, question, "groups")
    groups = {group.number: group for group in KEPT.validate_json(path.read_bytes())} if path.exists() else {}
    if number not in groups:
        raise CourseError(f"there is no group {number} of {question}: `autograder group show {question}` shows them")
    if len(comment) > MAX_COMMENT:
        raise CourseError(f"the comment has more than {MAX_COMMENT} characters")
    with by_hand.writing(course):
        given, points, _ = answers(course, question)
        if not 0 <= score <= points:
            raise CourseError(f"{score:g} is not a score of {question}, which has {points:g} points")
        there = {answer.student: answer for answer in given}
        shown = groups[number].answers
        same = {
            student: there[student] for student in shown if student in there and there[student].digest == shown[student]
        }
        free = {student: answer for student, answer in same.items() if overwrite or not answer.mark.by_person}
        before = {student: answer.mark for student, answer in free.items()}
        after = {student: HandMark(score, False, comment or mark.comment) for student, mark in before.items()}
        why = f"group apply {question} {number}{': ' * bool(reason)}{reason}"
        log = [*given_marks(course, question), Given(number, before, after)]
        _give(course, question, log, before, after, why)
    notes = []
    if len(same) < len(shown):
        notes.append(f"{len(shown) - len(same)} left out: handed in again or removed since the groups were shown")
    if len(free) < len(same):
        notes.append(f"{len(same) - len(free)} left as they are: a person marked them; --overwrite marks them again")
    return len(free), notes


def _equal(texts: list[Answer]) -> list[list[Answer]]:
    """Answers of the same words together, in the order of the first of each."""
    by_text: dict[str, list[Answer]] = {}
    for answer in texts:
        by_text.setdefault(" ".join(answer.text.split()), []).append(answer)
    return [*by_text.values()]


def distinct(course: Course, question: str, students: Collection[str] | None = None) -> tuple[list[Group], float, int]:
    """The answers to a question with equal ones once; its points; how many submissions have no answer.

    With `students` only theirs and those of their teams.

    They are in the order in which `grouped` has last put them, if it has; else the one that most gave comes first. The
    number of each is that of its group, 0 if it is in none.
    """
    given, points, empty = answers(course, question, students)
    path = _file(course, question, "groups")
    of: dict[str, tuple[int, int]] = {}
    for group in KEPT.validate_json(path.read_bytes()) if path.exists() else ():
        of |= {digest: (group.number, place) for place, digest in enumerate(group.answers.values())}
    last = (len(given) + 1, 0)
    whole = [Group(of.get(equal[0].digest, (0, 0))[0], equal) for equal in _equal(given)]
    whole.sort(key=lambda group: (of.get(group.answers[0].digest, last), -len(group.answers), group.answers[0].student))
    return whole, points, empty


def mark(course: Course, question: str, shown: list[Answer], score: float, comment: str, by: str) -> Given:
    """Give answers, as they were `shown` with their marks, one score and one comment; all of them or none.

    Raises:
        ChangedMeanwhile: an answer or a mark is no longer the one that was shown.
        CourseError: the score is not between 0 and the points that there are, the comment is too long, or the gradebook
            cannot be written.
    """
    from autograder.gradebook.gradebook_writer import ChangedMeanwhile

    question_of(course, question)  # it must be one
    if len(comment) > MAX_COMMENT:
        raise CourseError(f"the comment has more than {MAX_COMMENT} characters")
    with by_hand.writing(course):
        there, points, _ = answers(course, question, [answer.student for answer in shown])
        if not 0 <= score <= points:
            raise CourseError(f"{score:g} is not a score of {question}, which has {points:g} points")
        now = {answer.student: answer for answer in there}
        stale = [answer.student for answer in shown if now.get(answer.student) != answer]
        if stale:
            raise ChangedMeanwhile(f"{len(stale)} of these answers have been marked or handed in again meanwhile")
        before = {answer.student: answer.mark for answer in shown}
        after = {student: HandMark(score, False, comment or None) for student in before}
        given = Given(0, before, after, by)
        _give(course, question, [*given_marks(course, question), given], before, after, f"mark {question}")
    return given


def undo(course: Course, question: str, reason: str = "", *, by: str | None = None) -> tuple[Given, list[str]]:
    """Take the last `apply` or `mark` back: what was there before is there again; the students marked since.

    Their marks stay as they are. With `by` the last of this person is taken back.

    Raises:
        CourseError: there is nothing to undo, or somebody marks the same answers at the same time.
    """
    entry, cell = question_of(course, question)
    with by_hand.writing(course):
        log = given_marks(course, question)
        mine = [place for place, given in enumerate(log) if by in (None, given.by)]
        if not mine:
            raise CourseError(f"nothing that `autograder group` did for {question} is left to undo")
        last = log.pop(mine[-1])
        with marks.reading(course) as gradebook:
            now = by_hand.held(gradebook, entry, cell)[0] if gradebook else {}
        changed = by_hand.differing(now, last.after)
        back = {student: mark for student, mark in last.before.items() if student not in changed}
        what = f"group undo {question}, group {last.group}" if last.group else f"mark {question}, taken back"
        why = f"{what}{': ' * bool(reason)}{reason}"
        _give(course, question, log, {student: last.after[student] for student in back}, back, why)
    return last, changed


def _give(
    course: Course,
    question: str,
    log: list[Given],
    before: dict[str, HandMark],
    after: dict[str, HandMark],
    why: str,
) -> None:
    """Write marks, and the log of what can be undone, which is longer than it must be if this is killed between."""
    from autograder.gradebook import gradebook_writer  # nbgrader's classes take their time to import

    entry, cell = question_of(course, question)
    path, old = _file(course, question, "log"), given_marks(course, question)
    if len(log) > len(old):
        course_tree.write(path, LOG.dump_json(log, indent=1))
    try:
        with errors.explain_failures(course), gradebook_writer.open_recorder(course) as recorder:
            recorder.mark(entry, cell, before, after, why)
    except CourseError:
        course_tree.write(path, LOG.dump_json(old, indent=1))
        raise
    course_tree.write(path, LOG.dump_json(log, indent=1))


def given_marks(course: Course, question: str) -> list[Given]:
    """Return the marks that were given to groups of a question, the oldest first."""
    path = _file(course, question, "log")
    return LOG.validate_json(path.read_bytes()) if path.exists() else []


def _file(course: Course, question: str, what: str) -> Path:
    return course.tree / "groups" / f"{question}-{what}.json"


def _cell(notebook: str, cell: str) -> tuple[str, tuple[str, ...]]:
    """The text of a cell of a notebook that we wrote, "" if it has none of this id, and its pictures as data URIs."""
    cells: list[Any] = [written for written in json.loads(notebook)["cells"] if written.get("id") == cell]
    if not cells:
        return "", ()
    shown = [
        f"data:{kind};base64,{html_cleaning.picture(data)}"
        for bundle in cells[0].get("attachments", {}).values()
        for kind, data in bundle.items()
        if kind in KINDS.values()
    ]
    return "".join(cells[0]["source"]), tuple(shown)


def page(course: Course, grouped: Grouped, names: Names) -> str:
    """The groups as one self-contained page; what students wrote is escaped."""
    return layout.render(
        "groups.html.jinja", title=course.title, found=grouped, called=names.of, named=names.shown, worded=worded
    )


def shortened(answer: Answer, most: int = 160) -> str:
    """An answer in a line."""
    return html_cleaning.line(worded(answer.text), most)


def worded(text: str) -> str:
    """An answer with a word in the place of each picture, and its code as it was typed."""
    return SHOWN.sub(r"[picture: \1]", html_cleaning.code_as_typed(text))
