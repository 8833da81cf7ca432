"""What a check says of one exercise. Imports nothing heavy: reading verdicts needs no torch."""

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

# What a terminal obeys, an encoder refuses, or the eye reads in another order. Tabs and line ends stay.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
MAX_MESSAGE = 2000


def legible(text: str, most: int = MAX_MESSAGE) -> str:
    """A student's words for records, terminals and tables: no control characters, at most `most` characters."""
    clean = CONTROL.sub("\N{REPLACEMENT CHARACTER}", text[: most + 1])
    return clean if len(clean) <= most else clean[: most - 3] + "..."


def line(text: object, most: int = MAX_MESSAGE) -> str:
    """Text of one line for records, terminals and pages: the caller escapes it for its medium."""
    return " ".join(legible(str(text), most).split())


def sentence(text: str) -> str:
    """`text` with a capital at its start, unless it begins with code."""
    return text[:1].upper() + text[1:] if re.match(r"[a-z]+(?![\w.(\[])", text) else text


class Outcome(enum.StrEnum):
    """The result of a check."""

    PASSED = "passed"
    WRONG = "wrong"
    ERROR = "error"
    BLANK = "not attempted yet"


@dataclass(frozen=True)
class Part:
    """What a check says of one of its parts; `message` is written for the student, and always legible."""

    name: str
    points: float
    outcome: Outcome
    message: str = ""

    def __post_init__(self):
        object.__setattr__(self, "message", legible(self.message))

    @property
    def score(self) -> float:
        """All points or none."""
        return self.points if self.outcome is Outcome.PASSED else 0.0


@dataclass(frozen=True)
class Verdict:
    """What a check says of one exercise; `message` is written for the student, and always legible."""

    exercise: str
    points: float
    outcome: Outcome
    message: str = ""
    parts: tuple[Part, ...] = ()  # of a check that has parts, unless the whole exercise is lost
    another: str = ""  # numbers of another id, for which the answer is right, see `utils.variants`

    def __post_init__(self):
        object.__setattr__(self, "message", legible(self.message))

    @property
    def score(self) -> float:
        """All points if it passed, else none; but of a check that has parts only those of the parts that failed go."""
        if self.outcome is Outcome.PASSED:
            return self.points
        lost = sum(one.points - one.score for one in self.parts) if self.parts else self.points
        return round(self.points - lost, 6)

    @property
    def in_parts(self) -> bool:
        """Whether it is passed in part: some points are won and some are lost."""
        return self.outcome is not Outcome.PASSED and self.score > 0

    @property
    def state(self) -> str:
        """The outcome in words."""
        return "passed in part" if self.in_parts else str(self.outcome)

    def sentence(self) -> str:
        """What a student reads: a line, or one for each part that failed."""
        if self.outcome is Outcome.PASSED:
            more = f". {self.message}" if self.message else ""
            return f"Exercise {self.exercise}: passed ({self.points:g} point{'s' * (self.points != 1)}){more}"
        if self.in_parts:
            won = f"{self.score:g} of {self.points:g} points"
            return f"Exercise {self.exercise}: passed in part ({won}).\n{self.message}"
        if self.outcome is Outcome.BLANK:
            return f"Exercise {self.exercise}: not attempted yet."
        return f"Exercise {self.exercise}: {self.message}"

    def losing(self, part: str, message: str) -> "Verdict":
        """The same where a private check failed that asks for this part ("": for the whole exercise)."""
        if not part:
            return replace(self, outcome=Outcome.WRONG, message=message, parts=())
        failed = (
            replace(one, outcome=Outcome.WRONG, message=message) if one.name == part else one for one in self.parts
        )
        return replace(self, **summed(failed, self.points))


def summed(parts: Iterable[Part], points: float) -> dict[str, Any]:
    """What parts say together, as fields of a `Verdict`: the outcome of the first that failed, and their sentences.

    Only where all are left blank the exercise is, if they have all of its `points`.
    """
    parts = tuple(parts)
    failed = [one for one in parts if one.outcome is not Outcome.PASSED]
    if failed and all(one.outcome is Outcome.BLANK for one in parts):
        won = sum(one.points for one in parts) < points
        outcome = Outcome.WRONG if won else Outcome.BLANK
    else:
        attempted = [one.outcome for one in failed if one.outcome is not Outcome.BLANK]
        outcome = attempted[0] if attempted else Outcome.WRONG if failed else Outcome.PASSED
    message = "\n".join(f"{one.name}: {one.message or f'{one.outcome}.'}" for one in failed)
    return {"outcome": outcome, "message": message, "parts": parts}


class Ungraded(Verdict):
    """What a check says of a stretch exercise, which is worth nothing."""

    def sentence(self) -> str:
        """The line a student reads."""
        if self.outcome is Outcome.PASSED:
            return f"Exercise {self.exercise}: passed (not graded)"
        return super().sentence()
