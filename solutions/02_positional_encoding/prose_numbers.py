"""The numbers that notebook 02 prints in its prose, each with the computation that gives it."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch

from autograder import course
from autograder.author import answers, build
from utils.experiments import extrapolation

NAME = Path(__file__).resolve().parent.name


@cache
def solution(exercise: str) -> dict[str, Any]:
    """The names that the solution of an exercise defines."""
    stated, entry = course.load(), course.NotebookEntry(name=NAME, title=NAME)
    notebook = build.solution_notebook(stated, entry)
    (case,) = (case for case in answers.reference_cases(stated, entry) if case.exercise == exercise)
    return answers.at_home(notebook, case.source, case.name)


def base() -> str:
    """The base of the wavelengths, read from the second pair of a table of two pairs."""
    sine = solution("2.1")["sinusoidal_table"](2, 4)[1, 2].double()
    return f"{sine.arcsin() ** -2:.0f}"


def first_spread() -> str:
    """The standard deviation with which a learned table starts."""
    torch.manual_seed(0)
    rows = solution("2.5")["LearnedPositions"](500, 500).positions.weight
    return f"{rows.std().item():.2f}"


NUMBERS: dict[str, Callable[[], str]] = {
    "10000": base,
    "0.02": first_spread,
    "32": lambda: str(extrapolation.TRAINED),
    "64": lambda: str(extrapolation.TESTED[1]),
    "128": lambda: str(max(extrapolation.TESTED)),
    "16": lambda: str(extrapolation.SCORED),
}
