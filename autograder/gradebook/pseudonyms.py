"""What students are called on pages: by names and ids, or by a code for each, the same on every page of a tree."""

import base64
import hmac
import re
import unicodedata
from collections.abc import Callable, Sequence

from autograder.course import Course
from autograder.gradebook import course_tree, roster, teams
from utils.experiments.student import fold, is_letter

LETTERS = 6  # of 32 each: of 1000 students two share a code in one course of 2000
NOBODY = "[a student]"
# Letters that Unicode does not take apart, and that systems write as others.
PLAIN = str.maketrans({"\u0131": "i", "\u0142": "l", "\u00f8": "o", "\u0111": "d"})
MOST_BETWEEN = 5  # characters between two words of one name: a comma, a line break, an underscore
QUOTED = re.compile(r"""(?<!\w)'(?:[^'\\]|\\.)*'(?!\w)|"(?:[^"\\]|\\.)*\"""")
Words = tuple[str, ...]


class Names:
    """Calls students and teams by codes, or, if they are `shown`, by their names and ids."""

    def __init__(self, course: Course, shown: bool = False):
        self.shown, self._course = shown, course
        self._secret = b"" if shown else course_tree.secret(course)
        self._ids = set() if shown else _students(course)
        self._known = _known(course, self._ids)
        self._longest: dict[str, int] = {}  # of the names that begin with a word: how many words they have at most
        for words in self._known:
            self._longest[words[0]] = max(len(words), self._longest.get(words[0], 0))

    def of(self, student: str) -> str:
        """What a student is called, given the id. A code follows from the course's secret: no one else computes it."""
        if self.shown:
            name = called(self._course, student)
            return f"{name} ({student})" if name and name != student else student
        digest = hmac.digest(self._secret, f"pseudonym/{student}".encode(), "sha256")
        return base64.b32encode(digest).decode()[:LETTERS].lower()

    def within(self, text: str) -> str:
        """A text of the grader's own in which the ids, names and addresses of all known students are replaced by codes.

        What it quotes is somebody's words, see `unnamed`. Of a name only the whole is known: a student who is called by
        the first name alone stays.
        """
        quoted = QUOTED.search(text)
        if not quoted:
            return self._replaced(text, self.of)
        before, after = text[: quoted.start()], text[quoted.end() :]
        return self._replaced(before, self.of) + self.unnamed(quoted[0]) + self.within(after)

    def unnamed(self, text: str) -> str:
        """The same with one word for all of them, of a text that a student's code may have written.

        Codes there would tell its author whose they are, of all the names that the text lists.
        """
        return self._replaced(text, lambda student: NOBODY)

    def _replaced(self, text: str, called: Callable[[str], str]) -> str:
        if not self._known:
            return text
        folded, places = _folded(text)
        words = _split(folded)
        whole, done, at = [], 0, 0
        while at < len(words):
            length = self._name_at(words, at)
            if length:
                begin, end = places[words[at][1]], places[words[at + length - 1][2]]
                exact = text[begin:end]  # an id may differ from another in its signs alone
                student = exact if exact in self._ids else self._known[_words(words[at : at + length])]
                whole += [text[done:begin], called(student)]
                done = end
            at += length or 1
        return "".join([*whole, text[done:]])

    def _name_at(self, words: Sequence[tuple[str, int, int]], at: int) -> int:
        """Of how many words the longest name is that begins with this one; 0 if none does."""
        together = 1
        for (_, _, end), (_, begin, _) in zip(words[at:], words[at + 1 :], strict=False):
            if begin - end > MOST_BETWEEN or together >= self._longest.get(words[at][0], 0):
                break
            together += 1
        return next((size for size in range(together, 0, -1) if _words(words[at : at + size]) in self._known), 0)


def called(course: Course, student: str) -> str:
    """The name of a student, or of a team with its members' names; "" if nobody says it."""
    known, listed = teams.load(course), roster.load(course)
    if known.name(student):
        members = sorted(known.people(student))
        return f"{known.name(student)}: {', '.join(called(course, member) or member for member in members)}"
    line = listed.students.get(student) if listed else None
    first, last = (line.first_name, line.last_name) if line else roster.called(course, student)
    return f"{first} {last}".strip()


def _split(folded: str) -> list[tuple[str, int, int]]:
    """The words of a folded text, each with where it begins and ends. Vowel signs are letters, see `is_letter`."""
    if folded.isascii():
        return [(match[0], match.start(), match.end()) for match in re.finditer("[a-z0-9]+", folded)]
    shape = "".join("x" if is_letter(letter) else " " for letter in folded)
    return [(folded[match.start() : match.end()], match.start(), match.end()) for match in re.finditer("x+", shape)]


def _words(pieces: Sequence[tuple[str, int, int]]) -> Words:
    return tuple(word for word, _, _ in pieces)


def _folded(text: str) -> tuple[str, Sequence[int]]:
    """A text without case, accents and invisible signs; where in `text` each of its characters begins, and its end.

    So names are compared: `YILDIZ` is Y\u0131ld\u0131z, `STRAUSS` is Strau\u00df.
    """
    if text.isascii():
        return text.lower(), range(len(text) + 1)
    letters: list[str] = []
    places: list[int] = []
    for place, sign in enumerate(text):
        for letter in unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", sign).casefold()).translate(PLAIN):
            if is_letter(letter) or not (unicodedata.combining(letter) or unicodedata.category(letter) == "Cf"):
                letters.append(letter)
                places.append(place)
    return "".join(letters), [*places, len(text)]


def _students(course: Course) -> set[str]:
    """The ids of all students of whom the course tree knows."""
    listed = roster.load(course)
    folders = (path.name for part in ("submitted", "handins", "verdicts") for path in course.tree.glob(f"{part}/*"))
    return {*folders, *(listed.students if listed else ())}


def _known(course: Course, students: set[str]) -> dict[Words, str]:
    """The student of each name by which one may be called, in its words."""
    listed, known = roster.load(course), dict[Words, str]()
    for student in sorted(students):
        called = course.tree / "handins" / student / "name.txt"
        names = {student, called.read_text().strip() if called.exists() else ""}
        if listed and student in listed.students:
            line = listed.students[student]
            first, last = line.first_name, line.last_name
            names |= {f"{first} {last}", f"{last} {first}", line.email}
        names |= {fold(name) for name in names}  # as the checks of runs call them
        known |= {_words(_split(_folded(name)[0])): student for name in names if len(name.strip()) > 1}
    known.pop((), None)
    return known
