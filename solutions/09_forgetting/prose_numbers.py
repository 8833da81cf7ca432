"""The numbers that the prose of notebook 09 prints, computed. Its cells print all others."""

from collections.abc import Callable

from autograder.author import papers
from utils.experiments import forgetting


def kept() -> str:
    """The share of the sentences of all phases but the last that replay keeps."""
    one = forgetting.experiments(profile="cpu")[forgetting.REPLAY]
    return f"{one.memory / (one.examples * (forgetting.CLASSES - forgetting.TOGETHER)):.0%}"


NUMBERS: dict[str, Callable[[], str]] = {
    "15%": kept,
    "0.7": lambda: papers.figure("exponent of multilingual BERT's languages"),
}
