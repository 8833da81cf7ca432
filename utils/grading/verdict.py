"""What a check says of one exercise. Imports nothing heavy: whoever reads verdicts needs no torch."""

import enum
import re
from dataclasses import dataclass

# What a terminal obeys, an encoder refuses, or the eye reads in another order. Tabs and line ends stay.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
MAX_MESSAGE = 2000


def legible(text: str, most: int = MAX_MESSAGE) -> str:
    """A student's words for records, terminals and tables: no control characters, at most `most` characters."""
    clean = CONTROL.sub("\N{REPLACEMENT CHARACTER}", text[: most + 1])
    return clean if len(clean) <= most else clean[: most - 3] + "..."


class Outcome(enum.StrEnum):
    """The result of a check."""

    PASSED = "passed"
    WRONG = "wrong"
    ERROR = "error"
    BLANK = "not attempted yet"


@dataclass(frozen=True)
class Verdict:
    """What a check says of one exercise; `message` is written for the student."""

    exercise: str
    points: float
    outcome: Outcome
    message: str = ""

    @property
    def score(self) -> float:
        """All points or none: the parts of an exercise are exercises of their own."""
        return self.points if self.outcome is Outcome.PASSED else 0.0

    def sentence(self) -> str:
        """The line a student reads."""
        if self.outcome is Outcome.PASSED:
            more = f". {self.message}" if self.message else ""
            return f"Exercise {self.exercise}: passed ({self.points:g} point{'s' * (self.points != 1)}){more}"
        if self.outcome is Outcome.BLANK:
            return f"Exercise {self.exercise}: not attempted yet."
        return f"Exercise {self.exercise}: {self.message}"


class Ungraded(Verdict):
    """What a check says of a stretch exercise, which is worth nothing."""

    def sentence(self) -> str:
        """The line a student reads."""
        if self.outcome is Outcome.PASSED:
            return f"Exercise {self.exercise}: passed (not graded)"
        return super().sentence()
