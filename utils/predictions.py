"""Predictions: what a student expects, written down before a check and compared with the answer after it.

A prediction earns and costs no points and is sent nowhere. It is an argument in a cell of the notebook, so the notebook
that is handed in holds it. Whatever is written there, nothing is raised: a check never depends on a prediction.
"""

import json
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ANSWERS = "predictions.json"  # beside the modules of checks: the answers, as the course was built
OWN_ANSWERS = "predictions.local.json"  # those that the texts of course.local.toml change
THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")


@dataclass(frozen=True)
class Question:
    """What is asked before a check or an experiment: choices by letter, or, without choices, a number."""

    number: str  # of the exercise, or one of its own, such as 2.E1 for an experiment
    answer: str | float  # a letter of `choices`, or the number
    choices: Mapping[str, str]
    within: float = 0.0  # how far from the number a guess may be

    @property
    def notebook(self) -> int:
        """The number of the notebook that asks."""
        return int(self.number.partition(".")[0])

    def guess(self, written: str) -> str | float | None:
        """The letter or the number that a student has `written`; None if it is neither."""
        text = written.strip().strip("()[].:'\"").strip()
        if self.choices:
            by_text = {" ".join(choice.lower().split()): letter for letter, choice in self.choices.items()}
            text = " ".join(text.lower().split())
            return text if text in self.choices else by_text.get(text)
        return _number(written.strip())

    def is_right(self, guess: str | float) -> bool:
        """Whether a guess, as `guess` gives it, is the answer."""
        if isinstance(guess, str) or isinstance(self.answer, str):
            return guess == self.answer
        return abs(guess - self.answer) <= self.within or math.isclose(guess, self.answer, rel_tol=1e-6)

    def shown(self, guess: str | float) -> str:
        """A guess as a sentence holds it: the letter with its text, or the number."""
        return f"{guess} ({self.choices[guess]})" if isinstance(guess, str) else f"{guess:,.10g}"

    def wanted(self) -> str:
        """What to write between the quotes."""
        *first, last = self.choices or ("",)
        return f"{', '.join(first)} or {last}" if first else "a number such as 12 or 0.5"


def _number(text: str) -> float | None:
    """The number that a text states, also as 1,000, as 1/4 or with a percent sign behind it; None without one."""
    text = text.removesuffix("%").strip()
    text = text.replace(",", "") if THOUSANDS.fullmatch(text) else text
    top, stroke, bottom = text.partition("/")
    try:
        value = float(top) / float(bottom) if stroke else float(text)
    except (ValueError, ZeroDivisionError, OverflowError):
        return None
    return value if math.isfinite(value) else None


@dataclass
class _Noted:
    """A question of this session: what was predicted first, and whether the answer was shown."""

    question: Question
    guess: str | float | None = None
    is_answered: bool = False

    def sentence(self) -> str:
        assert self.guess is not None
        predicted, came = self.question.shown(self.guess), self.question.shown(self.question.answer)
        if predicted == came:
            return f"you predicted {predicted}. That is right."
        near = " That is near enough." if self.question.is_right(self.guess) else ""
        return f"you predicted {predicted}. The answer is {came}.{near}"


SESSION: dict[str, _Noted] = {}


def predict(question: object = "", guess: object = "", /, *more: object, within: object = 0, **choices: object) -> None:
    """Note a prediction, before the check of its exercise; an empty one notes nothing.

    Prints what is noted or, if something cannot be read, what to write. Raises nothing.

    Args:
        question: its number, as the cell states it.
        guess: a letter of `choices`; without choices a number.
        within: how far from the right number a guess may be, for the reader of the cell.
    """
    known, number = questions(), str(question)
    if not known:  # the files of answers are missing; in grading a stand-in has this name, and says nothing either
        return
    if number not in known or more:
        shown = number if number in known else "1.1"
        print(
            "This prediction is not noted: write only your prediction into the cell, and leave the rest as it was, "
            f'like predict("{shown}", "your prediction", ...).'
        )
        return
    text = "" if guess is None else _as_text(guess)
    if not text.strip():
        if number in SESSION and not SESSION[number].is_answered:
            del SESSION[number]
        return
    noted = SESSION.setdefault(number, _Noted(known[number]))
    value = noted.question.guess(text)
    if value is None:
        noted.guess = noted.guess if noted.is_answered else None
        print(
            f"Prediction {number} is not noted: `{' '.join(text.split())[:40]}` cannot be read. Write "
            f"{noted.question.wanted()} between the quotes, and run this cell again."
        )
    elif noted.is_answered and noted.guess is None:
        print(f"Prediction {number} is not counted: the answer was shown before.")
    elif noted.is_answered:
        first = "" if value == noted.guess else " The answer was shown, so your first prediction counts."
        print(f"Prediction {number}: {noted.sentence()}{first}")
    else:
        noted.guess = value
        print(f"Prediction {number} is noted: {noted.question.shown(value)}.")


def _as_text(guess: object) -> str:
    """What is written, as a text that can be printed; of what is neither a text nor a number its type."""
    try:
        known = str(guess) if isinstance(guess, (str, int, float)) else type(guess).__name__
    except ValueError:  # an integer with more digits than Python prints
        known = "a number of very many digits"
    return known.encode(errors="replace").decode()


def reveal(question: str) -> None:
    """Print what was predicted and what came; nothing for a question that was not asked or not answered."""
    noted = SESSION.get(question)
    if noted is None:
        if (known := questions().get(question)) is not None:
            SESSION[question] = _Noted(known, is_answered=True)
        return
    noted.is_answered = True
    if noted.guess is not None:
        print(f"Prediction {question}: {noted.sentence()}")


def summary() -> str:
    """How many predictions of this session were right, for the scoreboard; "" before the first answer."""
    compared = [
        one.question.is_right(one.guess) for one in SESSION.values() if one.is_answered and one.guess is not None
    ]
    many = "s" * (len(compared) > 1)
    return f"{sum(compared)} of {len(compared)} prediction{many} right, without points" if compared else ""


def questions() -> dict[str, Question]:
    """All questions of the course by number; none where its files of answers are missing."""
    return read(folder() / ANSWERS) | read(folder() / OWN_ANSWERS)


def folder() -> Path:
    """Where the course has its public checks, and the files of answers beside them."""
    return Path(sys.modules[__package__].__path__[-1], "checks")  # of another course, its own is the last one


def read(path: Path) -> dict[str, Question]:
    """The questions in a file of answers, if it is there; a line says if it is damaged: no check depends on it."""
    if not path.is_file():
        return {}
    try:
        stated: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        return {number: Question(number, **about) for number, about in stated.items()}
    except (ValueError, TypeError, AttributeError):
        print(f"{path} is damaged, so predictions have no answers: fetch the course again.")
        return {}
