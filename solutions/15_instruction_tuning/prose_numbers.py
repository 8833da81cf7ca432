"""The numbers that the prose of notebook 15 prints, computed, and what it says of the recorded runs."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from utils.experiments import instruction_tuning as tuning
from utils.experiments.seed_table import Comparison, SeedTable

RIGHT, FORM, _, LOSS = tuning.METRICS
TWENTIETH = 1 / tuning.SIZES["cpu"]["test"]


def values(arm: str, metric=RIGHT) -> list[float]:
    """A metric of the recorded runs of an arm."""
    return [metric.of(run) for run in tuning.recorded()[arm]]


def compared(first: str, second: str, metric=RIGHT) -> Comparison:
    """What the second arm has more than the first, in the recorded runs."""
    runs = tuning.recorded()
    (found,) = (
        one
        for one in SeedTable(runs, metric).compared(tuning.questions(runs))
        if (one.first, one.second) == (first, second)
    )
    return found


def anywhere(arm: str, kind: str) -> list[float]:
    """The share of right answers of a kind, wherever they stand, of each recorded run."""
    return [run.shown["anywhere"][kind] for run in tuning.recorded()[arm]]


def gains(kind: str) -> bool:
    """Whether each tuned run has more right answers of a kind than before."""
    return all(min(anywhere(arm, kind)) > max(anywhere(tuning.BEFORE, kind)) for arm in (tuning.LORA, tuning.FULL))


NUMBERS: dict[str, Callable[[], str]] = {
    "15": lambda: Path(__file__).parent.name[:2],  # in the title
    "38%": lambda: f"{np.mean(values(tuning.LORA)):.0f}%",
    "47%": lambda: f"{np.mean(values(tuning.FULL)):.0f}%",
    "0.06": lambda: f"{compared(tuning.BEFORE, tuning.LORA, LOSS).difference:.2f}",
}
CLAIMS: dict[str, Callable[[], bool]] = {
    "no answer is in brackets before tuning, and every answer is after it, by LoRA and by all weights": lambda: (
        {*values(tuning.BEFORE, FORM)} == {0.0}
        and {*values(tuning.LORA, FORM)} == {*values(tuning.FULL, FORM)} == {100.0}
    ),
    "Right answers in brackets go from none to": lambda: {*values(tuning.BEFORE)} == {0.0},
    "Both differences are shown, and the one between LoRA and all weights is not": lambda: (
        compared(tuning.BEFORE, tuning.LORA).shown
        and compared(tuning.BEFORE, tuning.FULL).shown
        and not compared(tuning.FULL, tuning.LORA).shown
    ),
    "Sums and sorting gain": lambda: gains("sum") and gains("sort"),
    "Of the French names no run has more than two of twenty right": lambda: (
        TWENTIETH == 0.05 and max(max(anywhere(arm, "French")) for arm in tuning.METHODS) <= 2 * TWENTIETH
    ),
    "which is shown": lambda: compared(tuning.BEFORE, tuning.LORA, LOSS).shown,
    "With all weights no rise is shown": lambda: (
        not compared(tuning.BEFORE, tuning.FULL, LOSS).shown
        or compared(tuning.BEFORE, tuning.FULL, LOSS).difference < 0
    ),
    "LoRA's is forty times as large": lambda: tuning.RATES[tuning.LORA] == 40 * tuning.RATES[tuning.FULL],
    "Three of the five seeds that were planned are recorded": lambda: (
        {len(runs) for runs in tuning.recorded().values()} == {3}
    ),
}
EXPLAINS = ("So a few hundred", "They do not teach", "**What is forgotten.**", "That is not what", "But the")
