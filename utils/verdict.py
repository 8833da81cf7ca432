"""What a check says of one exercise. Imports nothing heavy: whoever reads verdicts needs no torch."""

import enum
from dataclasses import dataclass


class Outcome(enum.StrEnum):
    """How an exercise fared."""

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
            return f"Exercise {self.exercise}: passed ({self.points:g} point{'s' * (self.points != 1)})"
        if self.outcome is Outcome.BLANK:
            return f"Exercise {self.exercise}: not attempted yet."
        return f"Exercise {self.exercise}: {self.message}"
