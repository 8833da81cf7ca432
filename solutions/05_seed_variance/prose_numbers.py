"""The numbers that the prose of notebook 05 prints, computed. Its cells print all others."""

import itertools
import json
import math
import statistics
from collections.abc import Callable
from pathlib import Path

import numpy as np

from utils.experiments import rte
from utils.experiments.seed_table import SeedTable

ON_CPU = Path(__file__).resolve().parents[2] / "data" / "results" / "rte_on_cpu.json"


def kept_by_the_bootstrap() -> str:
    """How often the percentile bootstrap interval of five normal runs holds their true mean.

    All 126 ways to draw five of five are weighed with their chances, so only the runs themselves are random.
    """
    times = [draw for draw in itertools.product(range(6), repeat=5) if sum(draw) == 5]
    chances = np.array([math.factorial(5) / math.prod(map(math.factorial, draw)) for draw in times]) / 5**5
    means = np.random.default_rng(0).normal(size=(20_000, 5)) @ np.array(times).T / 5
    below = (chances * (means <= 0)).sum(axis=1)  # the bootstrap's chance of a mean that is not above the true one
    return f"{np.mean((below > 0.025) & (below < 0.975)):.0%}"


def minutes_of_a_start() -> str:
    """How long five seeds of the start "pretrained" take on one core, in tens of minutes."""
    (run,) = (one for one in json.loads(ON_CPU.read_text()) if one["arm"] == "pretrained")
    return f"{round(5 * run['processor_seconds'] / 60, -1):.0f}"


def right(start: str, part: str) -> str:
    """The share of right answers of a start's recorded runs to a part of the validation pairs."""
    answers = [run.shown[part] for run in rte.recorded(rte.SEED_VARIANCE)[start]]
    return f"{sum(right for right, _ in answers) / sum(count for _, count in answers):.0%}"


def same(first: str, second: str) -> str:
    """One number that two starts have; blank if they part."""
    return first if first == second else ""


NUMBERS: dict[str, Callable[[], str]] = {
    "84%": kept_by_the_bootstrap,
    "20": minutes_of_a_start,
    "0.02": lambda: f"{2 / 100:g}",
    "1%": lambda: right("random", rte.OPPOSITE),
    "8%": lambda: right("pretrained", rte.OPPOSITE),
    "64%": lambda: right("pretrained, then MNLI", rte.OPPOSITE),
    "76%": lambda: same(right("random", rte.SAME), right("pretrained", rte.SAME)),
}


def random_starts() -> dict[str, list]:
    """The recorded runs from random weights, of five and of fifteen epochs."""
    every = rte.recorded(rte.SEED_VARIANCE) | rte.recorded_controls()
    return {name: every[name] for name in ("random", "random, 15 epochs")}


def random_loses() -> bool:
    """Whether the training losses of the random starts are those that 5.W2's solution gives."""
    ends = [statistics.mean(run.curve[-1]["train_loss"] for run in some) for some in random_starts().values()]
    return [round(loss, 2) for loss in ends] == [0.23, 0.02] and round(math.log(2), 2) == 0.69


def random_stays() -> bool:
    """Whether the random starts end at 50 and 51%, and are not shown to be above a majority of 52.7%."""
    runs = random_starts()
    ends = [round(100 * statistics.mean(run.accuracy for run in some)) for some in runs.values()]
    below = [line.split(":")[0] for line in SeedTable(runs).remarks() if "not shown to be better than" in line]
    return ends == [50, 51] and below == [*runs] and round(100 * runs["random"][0].majority, 1) == 52.7


CLAIMS: dict[str, Callable[[], bool]] = {
    "the random start reaches a training loss of 0.23 in five epochs and of 0.02 in fifteen, where guessing costs "
    "0.69": random_loses,
    "its validation accuracy stays at 50 and 51%, not shown to be above the majority of 52.7%": random_stays,
}
