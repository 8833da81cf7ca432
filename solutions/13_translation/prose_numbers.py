"""The numbers that the prose of notebook 13 prints, computed. Its cells print all others."""

from collections.abc import Callable
from functools import cache

import numpy as np

from autograder.author import papers
from utils.experiments import seed_table, translation
from utils.experiments.translation import BEAMS, DROPPED, FUSED, GREEDY, MANY, PENALISED, PLAIN

CPU = translation.experiments(profile="cpu")


@cache
def recorded() -> dict[tuple[str, str], seed_table.Comparison]:
    """The comparisons of the recorded runs, by the names of both."""
    return {(one.first, one.second): one for one in translation.compared(translation.recorded())}


def between(first: str, second: str) -> seed_table.Comparison:
    """Two arms, translated with beams and penalty."""
    return recorded()[f"{first}: {PENALISED}", f"{second}: {PENALISED}"]


def ways(arm: str, way: str) -> seed_table.Comparison:
    """Beams with penalty against another way, of one arm."""
    return recorded()[f"{arm}: {way}", f"{arm}: {PENALISED}"]


def mean(arm: str) -> str:
    """The mean BLEU of an arm with beams and penalty."""
    metric = translation.METRICS[translation.DECODINGS.index(PENALISED)]
    return f"{np.mean([metric.of(run) for run in translation.recorded()[arm]]):.0f}"


NUMBERS: dict[str, Callable[[], str]] = {
    "4.5": lambda: papers.figure("million pairs, English to German"),
    "36": lambda: papers.figure("million pairs, English to French"),
    "28.4": lambda: papers.figure("BLEU, English to German"),
    "41.8": lambda: papers.figure("BLEU, English to French"),
    "13": lambda: translation.NOTEBOOK[:2],
    "82": lambda: mean(MANY),
    "43": lambda: mean(PLAIN),
    "0.1": lambda: f"{abs(between(PLAIN, FUSED).difference):.1f}",
    "2.7": lambda: f"{-between(PLAIN, FUSED).crossed[0]:.1f}",
    "3.0": lambda: f"{between(PLAIN, FUSED).crossed[1]:.1f}",
    "27": lambda: f"{-between(FUSED, DROPPED).difference:.0f}",
    "300": lambda: str(CPU[FUSED].steps),
    "11": lambda: f"{ways(PLAIN, GREEDY).difference:.0f}",
    "4.2": lambda: f"{ways(MANY, GREEDY).difference:.1f}",
    "1.3": lambda: f"{ways(MANY, GREEDY).crossed[0]:.1f}",
    "6.8": lambda: f"{ways(MANY, GREEDY).crossed[1]:.1f}",
    "0.7": lambda: f"{ways(MANY, BEAMS).difference:.1f}",
    "0.2": lambda: f"{-ways(PLAIN, BEAMS).difference:.1f}",
}
