"""The numbers that the prose of notebook 10 prints, computed. Its cells print all others."""

from collections.abc import Callable

import numpy as np

from autograder.author import papers
from utils.experiments import longer_context

CPU = longer_context.experiments(profile="cpu")
SHORT, LONG = CPU["period 48, memory 32"], CPU["period 80, memory 64"]


def gain() -> str:
    """By how much the recorded runs with a memory are better at the first place of a segment of source text."""
    runs = longer_context.recorded()
    first = [
        np.mean([longer_context.by_place(run)[0] for run in runs[f"source, {arm}"]])
        for arm in ("no memory", "memory 32")
    ]
    return f"{first[0] - first[1]:.1f}"


NUMBERS: dict[str, Callable[[], str]] = {
    "900": lambda: papers.figure("words that Transformer-XL uses"),
    "80%": lambda: papers.figure("more than recurrent networks"),
    "450%": lambda: papers.figure("more than a Transformer without memory"),
    "1,874": lambda: papers.figure("times that a sliding window is slower"),
    "3,800": lambda: papers.figure("tokens that it attends to then"),
    "10": lambda: longer_context.NOTEBOOK[:2],
    "15": lambda: str(LONG.period - 1 - LONG.mem_len),
    "32": lambda: str(SHORT.length),
    "48": lambda: str(SHORT.period),
    "64": lambda: str(LONG.mem_len),
    "80": lambda: str(LONG.period),
    "0.9": gain,
}
