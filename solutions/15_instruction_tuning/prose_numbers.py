"""The numbers that the prose of notebook 15 prints, computed, and what it says of the recorded runs."""

import json
import math
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import torch

from data import instructions
from utils.experiments import instruction_tuning as tuning
from utils.experiments import llama, runs
from utils.experiments.instruction_tuning import train as trainer
from utils.experiments.seed_table import Comparison, SeedTable

RIGHT, FORM, ANYWHERE, LOSS = tuning.METRICS
TWENTIETH = 1 / tuning.SIZES["cpu"]["test"]


def values(arm: str, metric=RIGHT) -> list[float]:
    """A metric of the recorded runs of an arm."""
    return [metric.of(run) for run in tuning.recorded()[arm]]


def compared(first: str, second: str, metric=RIGHT) -> Comparison:
    """What the second arm has more than the first, in the recorded runs."""
    recorded = tuning.recorded()
    (found,) = (
        one
        for one in SeedTable(recorded, metric).compared(tuning.questions(recorded))
        if (one.first, one.second) == (first, second)
    )
    return found


def anywhere(arm: str, kind: str) -> list[float]:
    """The share of right answers of a kind, wherever they stand, of each recorded run."""
    return [run.shown["anywhere"][kind] for run in tuning.recorded()[arm]]


def gains(kind: str) -> bool:
    """Whether each tuned run has more right answers of a kind than before."""
    return all(min(anywhere(arm, kind)) > max(anywhere(tuning.BEFORE, kind)) for arm in (tuning.LORA, tuning.FULL))


@cache
def sums_before() -> list[tuple[bool, bool]]:
    """Of each sum before tuning, the same in each run: whether its answer was cut, and whether it is right."""
    (run, *_) = runs.load_table(tuning.experiments(profile="cpu"), tuning.RECORDED)[tuning.BEFORE]
    rows = [(row[1], label) for row, label in zip(run.predictions, run.labels, strict=False) if row[0] == "sum"]
    return [(text.endswith(tuning.spec.CUT_OFF), tuning.spec.is_inside(text, label)) for text, label in rows]


def sums_cut() -> tuple[int, int]:
    """How many sums were cut before tuning, and how many there are."""
    return sum(cut for cut, _ in sums_before()), len(sums_before())


def gains_beyond_the_cut(arm: str) -> int:
    """How many runs of an arm have more sums right than were right or cut before tuning."""
    at_best = sum(cut or right for cut, right in sums_before()) / len(sums_before())
    return sum(share > at_best for share in anywhere(arm, "sum"))


@cache
def repeated() -> list[float]:
    """The share of answers of each control run that are wrong and have no word that the question lacks."""
    asked, repeats = instructions.load("test", tuning.SIZES["cpu"]["test"]), []
    for run in runs.load_table(tuning.experiments(profile="cpu"), tuning.RECORDED)[tuning.PROMPTED]:
        found = [
            {*re.findall(r"\w+", answer)} <= {*re.findall(r"\w+", one.question)} and not tuning.is_right(answer, label)
            for one, (_, answer), label in zip(asked, run.predictions, run.labels, strict=False)
        ]
        repeats.append(sum(found) / len(asked))
    return repeats


def rise(arm: str) -> Comparison:
    """How much higher the loss on other text is than before tuning."""
    return compared(tuning.BEFORE, arm, LOSS)


NUMBERS: dict[str, Callable[[], str]] = {
    "15": lambda: Path(__file__).parent.name[:2],  # in the title
    "52%": lambda: f"{np.mean(values(tuning.LORA)):.0f}%",
    "44%": lambda: f"{np.mean(values(tuning.FULL)):.0f}%",
    "99%": lambda: f"{np.mean(values(tuning.PROMPTED, FORM)):.0f}%",
    "5%": lambda: f"{np.mean(values(tuning.PROMPTED)):.0f}%",
    "0.21": lambda: f"{rise(tuning.LORA).difference:.2f}",
    "0.05": lambda: f"{rise(tuning.FULL).difference:.2f}",
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


def nearly_all_in_form() -> bool:
    """Whether nearly every answer of every tuned run is in brackets."""
    return min(*values(tuning.LORA, FORM), *values(tuning.FULL, FORM)) >= 95


def searched_alike() -> bool:
    """Whether equally many rates were tried for both arms, with one seed, the same."""
    rows = json.loads(tuning.SEARCH.read_text())
    tried = {arm: sorted(row["settings"]["lr"] for row in rows if row["arm"] == arm) for arm in tuning.RATES}
    return {*map(len, tried.values())} == {5} and len({row["seed"] for row in rows}) == 1


NUMBERS |= {"16": lambda: f"{100 * lower_at_most():.0f}", "135": lambda: f"{parameters() / 1e6:.0f}"}
CLAIMS: dict[str, Callable[[], bool]] = {
    "no answer is in brackets before tuning": lambda: {*values(tuning.BEFORE, FORM)} == {0.0},
    "Afterwards nearly every answer is, both with LoRA and with all weights": nearly_all_in_form,
    "Right answers in brackets go from none to": lambda: {*values(tuning.BEFORE)} == {0.0},
    "Both gains are shown, and the difference between LoRA and all weights is not": lambda: (
        compared(tuning.BEFORE, tuning.LORA).shown
        and compared(tuning.BEFORE, tuning.FULL).shown
        and not compared(tuning.FULL, tuning.LORA).shown
    ),
    "Sums and sorting gain in every run": lambda: gains("sum") and gains("sort"),
    "But an answer ends after sixteen tokens, and before tuning eight of twenty sums were cut there.": lambda: (
        sums_cut() == (8, 20) and tuning.SIZES["cpu"]["most"] == 16
    ),
    "LoRA would be ahead in every run; three runs with all weights would not.": lambda: (
        (gains_beyond_the_cut(tuning.LORA), gains_beyond_the_cut(tuning.FULL)) == (5, 2)
    ),
    "Of the French names no run has more than four of twenty right": lambda: (
        TWENTIETH == 0.05 and max(max(anywhere(arm, "French")) for arm in tuning.METHODS) <= 4 * TWENTIETH
    ),
    "About two hundred examples change the form of its answers": lambda: (
        180 < examples() < 220 and nearly_all_in_form()
    ),
    "With six examples in the prompt and no tuning": lambda: tuning.Prompted.examples == 6,
    "In every run most answers are wrong and only repeat words of the question": lambda: min(repeated()) > 0.5,
    "as `[12, 23]` for `12 + 23`": lambda: tuning.recorded()[tuning.PROMPTED][0].shown["answers"][0] == "[12, 23]",
    "Both ways of tuning have more right answers than the control, which is shown": lambda: all(
        compared(tuning.PROMPTED, arm, metric).shown
        for arm in (tuning.LORA, tuning.FULL)
        for metric in (RIGHT, ANYWHERE)
    ),
    "five of twenty are right before tuning, and none with examples, with every seed": lambda: (
        {*anywhere(tuning.BEFORE, "sum")} == {5 * TWENTIETH} and {*anywhere(tuning.PROMPTED, "sum")} == {0.0}
    ),
    "So the form needs no tuning": lambda: min(values(tuning.PROMPTED, FORM)) >= 95,
    "six examples in the prompt hardly produce them, and tuning on about two hundred examples does": lambda: (
        max(anywhere(tuning.PROMPTED, "sum")) == 0
        and all(
            max(anywhere(tuning.PROMPTED, kind)) < min(anywhere(arm, kind))
            for kind in ("sum", "sort")
            for arm in (tuning.LORA, tuning.FULL)
        )
        and 180 < examples() < 220
    ),
    "Both rises are shown, and so is the difference between them": lambda: (
        rise(tuning.LORA).shown and rise(tuning.FULL).shown and compared(tuning.FULL, tuning.LORA, LOSS).shown
    ),
    "Both rates were searched alike, for the loss of held-out answers and with one seed": searched_alike,
    "LoRA's is twenty-five times as large": lambda: math.isclose(
        tuning.RATES[tuning.LORA], 25 * tuning.RATES[tuning.FULL]
    ),
}
EXPLAINS = (
    "So this control does not say what the untuned model knows",
    "**The control.**",
    "Right sums and sorted numbers need more than the form",
    "Other prompts were not tried",
    "That is not what",
    "The search did not ask",
)
