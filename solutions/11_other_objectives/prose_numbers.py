"""The numbers that the prose of notebook 11 prints, computed. Its cells print all others."""

import inspect
from collections.abc import Callable

from transformers import BertConfig

from autograder import course
from autograder.author import answers, build

COURSE = course.load()
ENTRY = COURSE.notebook("11_other_objectives")


def rate() -> float:
    """The share of tokens that 11.1's `masked_places` hides, unless it is told another."""
    (case,) = [one for one in answers.reference_cases(COURSE, ENTRY) if one.exercise == "11.1"]
    defined = answers.at_home(build.student_notebook(COURSE, ENTRY), case.source, "answer")
    return inspect.signature(defined["masked_places"]).parameters["rate"].default


NUMBERS: dict[str, Callable[[], str]] = {
    "11": lambda: ENTRY.number,
    "15%": lambda: f"{rate():.0%}",
    "512": lambda: str(BertConfig().max_position_embeddings),
}
