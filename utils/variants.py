"""Exercises with numbers of the student's own: drawn from the student's id, the same at home and in grading.

An author states what may be drawn, see the end, a notebook shows it, `own = variants.MODEL.numbers(STUDENT)`, and
the check of the exercise, `@check("3.12", points=1, variant=variants.MODEL)`, gets it as its parameter `own`. At
home the id is what the student wrote into STUDENT. In grading it is a name of the class list; without a class list it
is the name under which the submission was collected. Nothing in the submission can change either.

A course may have a key, `[grading] numbers_key` in course.toml. It changes everybody's numbers, so that answers of
another term are wrong. The student repository holds it in KEY_FILE, for sessions of students.
"""

import functools
import hashlib
import itertools
from collections import namedtuple
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from utils.experiments.student import COURSE, MAX_NAME, letters

ASK = (
    "its numbers follow from your name, and STUDENT is blank. Write your name into it, near the top, and run that cell."
)
KEY_FILE = "utils/numbers_key.txt"  # of the student repository
_file = Path(__file__).with_name(Path(KEY_FILE).name)
course_key = _file.read_text(encoding="utf-8").strip() if _file.is_file() else ""
graded_names: tuple[str, ...] = ()  # by the grader, see `answer_for`
signed_name = ""  # what STUDENT said last in this session


class Variant:
    """The numbers of an exercise: of each name one of its choices, drawn for an id.

    A choice is drawn by the SHA-256 of course, exercise, id (see `canonical`), name and, if the course has one, its
    key, joined by zero bytes in UTF-8: its first 8 bytes, a big-endian number, modulo the number of choices, say which
    one. So no draw depends on another one, on Python's generators or on the machine; tests/checks/test_variants.py has
    recorded values.

    Args:
        exercise: its number.
        choices: the names, each with what it may be, in an order that is never changed while a class is at work.
    """

    def __init__(self, exercise: str, **choices: Sequence[int]):
        self.exercise, self.choices = exercise, choices
        self.kind: Any = namedtuple("Numbers", choices)  # type: ignore[misc]

    def __len__(self) -> int:
        total = 1
        for some in self.choices.values():
            total *= len(some)
        return total

    def __iter__(self) -> Iterator[Any]:
        """All numbers that there are, each as `of` gives them."""
        return itertools.starmap(self.kind, itertools.product(*self.choices.values()))

    def of(self, name: str) -> Any:
        """The numbers of an id: `of("Ada Lovelace").V`."""
        return self._drawn(canonical(name), course_key)

    @functools.lru_cache(maxsize=10_000)  # noqa: B019 - there are few variants, and they live as long as the module
    def _drawn(self, name: str, key: str) -> Any:
        return self.kind(*(some[self._draw(name, key, what) % len(some)] for what, some in self.choices.items()))

    def _draw(self, name: str, key: str, what: str) -> int:
        text = "\0".join((COURSE, self.exercise, name, what, *([key] if key else [])))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])

    def numbers(self, name: str) -> Any:
        """The numbers of this session's student, who is `name`; None for a blank one, and says what to do.

        In grading they are those of the student who submitted, whatever `name` is. If that student has several
        names, they are those of `name` if it is one of them, else those of the first.
        """
        global signed_name
        if graded_names:
            return self.of(
                next((one for one in graded_names if type(name) is str and same(one, name)), graded_names[0])
            )
        if type(name) is not str or len(name) > MAX_NAME or not name.isprintable():
            raise ValueError(f"STUDENT is text in quotes, on one line, at most {MAX_NAME} characters")
        if name.strip() and not canonical(name):
            raise ValueError("STUDENT has no letter or digit in it: give the name under which you hand in")
        signed_name = name.strip()
        if not signed_name:
            print(
                f"STUDENT is blank: everything works but exercise {self.exercise}, whose numbers follow from your name."
            )
            return None
        own = self.of(signed_name)
        print(f"{signed_name}: your numbers for exercise {self.exercise} are {stated(own)}.")
        return own


class Own:
    """What a check with a variant gets as `own`: the numbers of its student, each an attribute."""

    def __init__(self, variant: Variant, name: str):
        self.variant, self.name, self.numbers = variant, name, variant.of(name)
        self.another = ""  # the numbers of another id for which the answer is right, see `expect.own`

    def __getattr__(self, name: str) -> int:
        return getattr(self.numbers, name)


def canonical(name: str) -> str:
    """A name as numbers are drawn from it: case, accents, signs, spaces and the order of words do not count.

    Platforms write "Ada Lovelace", "Lovelace, Ada" and "lovelaceada": of a name without digits the order of its letters
    does not count either. Ids that differ in the order of their digits are different ids.
    """
    joined = letters(name[:MAX_NAME]).casefold()
    return joined if any(letter.isdigit() for letter in joined) else "".join(sorted(joined))


def same(one: str, other: str) -> bool:
    """Whether numbers are drawn alike for both."""
    return canonical(one) == canonical(other)


def stated(numbers: Any) -> str:
    """Numbers as a student and a record read them: "V = 32000, D = 768"."""
    return ", ".join(f"{name} = {value}" for name, value in numbers._asdict().items())


def signed() -> str:
    """The id of this session: who is graded, else what STUDENT said last; "" if nobody."""
    return graded_names[0] if graded_names else signed_name


def use_key(key: str) -> None:
    """Draw all numbers of this process with the key of a course, "" for none."""
    global course_key
    course_key = key.strip()


def answer_for(*names: str) -> None:
    """Have this session answer for one who has these names, whatever STUDENT says: said before any cell runs.

    Raises:
        TypeError: one of them is not text.
    """
    global graded_names
    for name in names:
        if type(name) is not str:
            raise TypeError(f"an id is text, not {type(name).__name__}")
    graded_names = names


# Of exercise 3.12. No two of the mistakes that its check names give one count with any of these.
MODEL = Variant(
    "3.12",
    V=range(32_000, 56_000, 2_000),
    L=range(11, 43, 2),
    H=(36, 48, 72),
    share=(3, 4, 6),
    F=range(5_376, 17_664, 768),
    T=(2_048, 4_096, 8_192, 16_384),
)
