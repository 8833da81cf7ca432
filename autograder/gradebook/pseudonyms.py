"""What students are called on pages that name nobody: a code for each, the same on every page of a course tree."""

import base64
import hmac
import re

from autograder.course import Course
from autograder.gradebook import course_tree, roster
from utils.experiments.student import fold

LETTERS = 6  # of 32 each: of 1000 students two share a code in one course of 2000


class Names:
    """Calls students by codes, or, if they are `shown`, by their ids."""

    def __init__(self, course: Course, shown: bool = False):
        self.shown = shown
        self._secret = b"" if shown else course_tree.secret(course)
        self._known = {} if shown else _known(course)
        words = sorted(self._known, key=len, reverse=True)  # of two that begin alike the longer one is meant
        self._words = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, words))})(?!\w)", re.IGNORECASE)

    def of(self, student: str) -> str:
        """What a student is called, given the id. A code follows from the course's secret: no one else computes it."""
        if self.shown:
            return student
        digest = hmac.digest(self._secret, f"pseudonym/{student}".encode(), "sha256")
        return base64.b32encode(digest).decode()[:LETTERS].lower()

    def within(self, text: str) -> str:
        """A text in which the ids, names and addresses of all known students are replaced in the same way.

        Of a name only the whole is known: who is called by the first name alone stays.
        """
        if not self._known:
            return text
        return self._words.sub(lambda found: self.of(self._known[found[0].casefold()]), text)


def _known(course: Course) -> dict[str, str]:
    """The student of each word by which one may be called, in small letters."""
    listed = roster.load(course)
    folders = (path.name for part in ("submitted", "handins", "verdicts") for path in course.tree.glob(f"{part}/*"))
    found: dict[str, str] = {}
    for student in {*folders, *(listed.students if listed else ())}:
        called = course.tree / "handins" / student / "name.txt"
        words = {student, student.replace("_", " "), called.read_text().strip() if called.exists() else ""}
        if listed and student in listed.students:
            line = listed.students[student]
            first, last = line.first_name, line.last_name
            words |= {f"{first} {last}".strip(), f"{last} {first}".strip(), f"{last}, {first}", line.email}
        words |= {fold(word) for word in words}  # as the checks of runs call them
        found |= {word.casefold(): student for word in words if len(word) > 1}
    return found
