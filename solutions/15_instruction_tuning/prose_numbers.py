"""The numbers that the prose of notebook 15 prints, computed, and what it says of the recorded runs."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from utils.experiments import instruction_tuning as tuning
from utils.experiments import llama
from utils.experiments.instruction_tuning import train as trainer
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


def lower_at_most() -> float:
    """By how much the simple formula of pass@k is too low on average, at most, in the figure of 15.7."""
    n, p = 10, 0.1
    chances = [math.comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)]
    return max(
        sum(chance * (1 - c / n) ** k for c, chance in enumerate(chances)) - (1 - p) ** k for k in (1, 2, 3, 5, 8, 10)
    )


def examples() -> int:
    """How many questions with answers a recorded run learned from."""
    size = tuning.SIZES["cpu"]
    return size["steps"] * size["batch"]


def parameters() -> int:
    """The numbers of SmolLM2-135M."""
    with torch.device("meta"):
        return sum(part.numel() for part in trainer.Decoder(llama.SMOLLM).parameters())


def all_in_form() -> bool:
    """Whether every answer of every tuned run is in brackets."""
    return {*values(tuning.LORA, FORM), *values(tuning.FULL, FORM)} == {100.0}


NUMBERS |= {"16": lambda: f"{100 * lower_at_most():.0f}", "135": lambda: f"{parameters() / 1e6:.0f}"}
CLAIMS: dict[str, Callable[[], bool]] = {
    "no answer is in brackets before tuning, and every answer is after it, with LoRA and with all weights": lambda: (
        {*values(tuning.BEFORE, FORM)} == {0.0}
        and {*values(tuning.LORA, FORM)} == {*values(tuning.FULL, FORM)} == {100.0}
    ),
    "Right answers in brackets go from none to": lambda: {*values(tuning.BEFORE)} == {0.0},
    "Both gains are shown, and the difference between LoRA and all weights is not": lambda: (
        compared(tuning.BEFORE, tuning.LORA).shown
        and compared(tuning.BEFORE, tuning.FULL).shown
        and not compared(tuning.FULL, tuning.LORA).shown
    ),
    "Sums and sorting gain in every run": lambda: gains("sum") and gains("sort"),
    "Of the French names no run has more than two of twenty right": lambda: (
        TWENTIETH == 0.05 and max(max(anywhere(arm, "French")) for arm in tuning.METHODS) <= 2 * TWENTIETH
    ),
    "About two hundred examples change the form of its answers": lambda: 180 < examples() < 220 and all_in_form(),
    "So about two hundred examples teach the form": lambda: 180 < examples() < 220 and all_in_form(),
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
EXPLAINS = (
    "Whether they taught",
    "They hardly teach",
    "**What is forgotten.**",
    "That is not what",
    "But the",
    "It was",
)
