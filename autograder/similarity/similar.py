"""Submissions of one notebook whose code is alike, by pairs; likeness is not proof of anything.

Each line of an answer is filtered by copydetect, which forgets names, strings, comments and spaces, and is cut into all
its pieces of PIECE characters; so neither other names nor moved lines matter. Pieces of the released notebook do not
count. The others count the more, the fewer submissions have them: what half of the class writes says nothing about two.
copydetect's own search for pieces of 25 characters across lines finds fewer copies with moved lines.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations
from typing import Any

from markupsafe import Markup, escape

from autograder.cells import CellRole, exercise_of, role_of
from autograder.course import Course, CourseError, NotebookEntry
from autograder.gradebook import course_tree, teams
from autograder.gradebook.pseudonyms import Names
from autograder.grading.grading_record import GRADED, load_record, students_of
from autograder.reports import layout

ALIKE = 0.9  # from here on an exercise is named as one that is alike
PIECE = 6  # characters of a filtered line
MAX_LINE, MAX_LINES = 500, 2000  # characters and lines of an answer that are compared, whatever somebody hands in
Pieces = frozenset[int]


@dataclass(frozen=True)
class Pair:
    """Two submissions and how alike they are."""

    first: str
    second: str
    likeness: float  # weight of the pieces of both, as a share of that of the one that has less; 0 to 1
    exercises: dict[str, float] = field(default_factory=dict)  # the same of each exercise that both answered


@cache
def pieces_of(line: str) -> Pieces:
    """The pieces of a line of code; of one that is shorter than a piece, that line; of one without code, none."""
    from copydetect.utils import filter_code, hashed_kgrams

    text = filter_code(line[:MAX_LINE], "", "python")[0].strip()
    return frozenset(hashed_kgrams(text, min(PIECE, len(text))).tolist()) if text else frozenset()


class Compared:
    """The submissions of a class, ready to be compared."""

    def __init__(
        self,
        hand_ins: Mapping[str, Mapping[str, str]],
        template: Mapping[str, str],
        people: Callable[[str], frozenset[str]] = lambda student: frozenset((student,)),
    ):
        """`hand_ins` are the answers by student and exercise, `template` is the released text of each exercise.

        `people` says who is in a team: its submission and one that a member handed in alone are not a pair.
        """
        self._people = people
        self._sources = hand_ins
        self._released = {number: _all_of(text) for number, text in template.items()}
        self._own: dict[str, dict[str, Pieces]] = {
            student: {number: self._pieces(number, source) for number, source in mine.items()}
            for student, mine in hand_ins.items()
        }
        having = Counter(
            (number, piece) for mine in self._own.values() for number, pieces in mine.items() for piece in pieces
        )
        self._weights = {key: math.log(len(self._own) / count) for key, count in having.items()}
        self._whole = {
            student: {number: self._weight(number, pieces) for number, pieces in mine.items()}
            for student, mine in self._own.items()
        }

    def pairs(self, most: int) -> list[Pair]:
        """Return so many pairs, the most similar first."""
        apart = (two for two in combinations(self._own, 2) if not self._people(two[0]) & self._people(two[1]))
        alike = (self._pair(first, second) for first, second in apart)
        return sorted(alike, key=lambda pair: (-pair.likeness, pair.first, pair.second))[:most]

    def pair(self, first: str, second: str) -> Pair:
        """Two students' submissions.

        Raises:
            CourseError: there are no such two; the message names those that there are.
        """
        missing = [student for student in (first, second) if student not in self._own]
        if missing or first == second:
            raise CourseError(
                f"{missing[0] if missing else first} cannot be laid beside: name another student with a graded "
                f"submission, such as {', '.join([student for student in self._own if student != first][:5])}"
            )
        return self._pair(first, second)

    def marked(self, pair: Pair, number: str) -> tuple[Markup, Markup]:
        """An exercise's two answers as HTML; a line is marked if all its pieces are in both and none was released."""
        mine, other = (self._own[student][number] for student in (pair.first, pair.second))
        shared = mine & other
        return self._marked(pair.first, number, shared), self._marked(pair.second, number, shared)

    def _pair(self, first: str, second: str) -> Pair:
        mine, other = self._own[first], self._own[second]
        both = {
            number: self._weight(number, pieces & other[number]) for number, pieces in mine.items() if number in other
        }
        whole = min(sum(self._whole[first].values()), sum(self._whole[second].values()))
        shares = {}
        for number, weight in both.items():
            least = min(self._whole[first][number], self._whole[second][number])
            shares[number] = weight / least if least else 0.0
        return Pair(first, second, sum(both.values()) / whole if whole else 0.0, shares)

    def _pieces(self, number: str, source: str) -> Pieces:
        return _all_of(source) - self._released.get(number, frozenset())

    def _weight(self, number: str, pieces: Iterable[int]) -> float:
        return sum(self._weights[number, piece] for piece in pieces)

    def _marked(self, student: str, number: str, shared: Pieces) -> Markup:
        lines = []
        for line in self._sources[student][number].splitlines():
            own = pieces_of(line) - self._released.get(number, frozenset())
            lines.append(Markup("<mark>{}</mark>").format(line) if own and own <= shared else escape(line))
        return Markup("\n").join(lines)


def _all_of(source: str) -> Pieces:
    return frozenset[int]().union(*map(pieces_of, source.splitlines()[:MAX_LINES]))


def hand_ins(course: Course, entry: NotebookEntry) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """The answers of all graded submissions by student and exercise, and the released text of each exercise.

    Raises:
        CourseError: the course tree was not built, or fewer than two submissions are graded.
    """
    template = _answers(course_tree.release_text(course, entry))
    answers = {}
    for student in students_of(course, entry):
        record, path = load_record(course, entry, student), course_tree.place(course, "autograded", entry, student)
        if record is not None and record.status == GRADED and path.exists():
            answers[student] = _answers(path.read_text())
    if len(answers) < 2:
        raise CourseError(f"{entry.name}: fewer than two submissions are graded: `autograder grade` comes first")
    return answers, template


def compare(course: Course, entry: NotebookEntry) -> Compared:
    """All graded submissions of a notebook, ready to be compared.

    Raises:
        CourseError: as `hand_ins`.
    """
    return Compared(*hand_ins(course, entry), teams.load(course).people)


def pair_page(course: Course, entry: NotebookEntry, first: str, second: str) -> str:
    """The page of one pair, with their ids.

    Raises:
        CourseError: one of them has no graded submission of this notebook.
    """
    compared = compare(course, entry)
    first, second = (teams.submitter(course, entry, student) for student in (first, second))
    return page(course, entry, compared, [compared.pair(first, second)], Names(course, shown=True), every=True)


def _answers(notebook: str) -> dict[str, str]:
    """The exercise cells of a notebook that we wrote."""
    cells = json.loads(notebook)["cells"]
    return {
        exercise_of(cell["id"]): "".join(cell["source"])
        for cell in cells
        if role_of(cell.get("id", "")) is CellRole.EXERCISE
    }


def page(
    course: Course, entry: NotebookEntry, compared: Compared, pairs: list[Pair], names: Names, every: bool = False
) -> str:
    """The pairs as one self-contained page, their answers side by side; what students wrote is escaped.

    Exercises that have nothing in common are left out, unless `every` one is asked for.
    """
    shown = []
    for pair in pairs:
        both = ((number, share) for number, share in pair.exercises.items() if share or every)
        alike = [(number, share, *compared.marked(pair, number)) for number, share in both]
        shown.append({"pair": pair, "answers": alike})
    about: dict[str, Any] = {"title": course.title, "entry": entry, "called": names.of, "named": names.shown}
    return layout.render("similar.html.jinja", shown=shown, alike=ALIKE, **about)
