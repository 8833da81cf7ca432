"""The numbers that the prose of notebook 05 prints, computed. Its cells print all others."""

import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

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


NUMBERS: dict[str, Callable[[], str]] = {
    "84%": kept_by_the_bootstrap,
    "20": minutes_of_a_start,
    "0.02": lambda: f"{2 / 100:g}",
}
