"""The numbers that the prose of notebook 13 prints, computed. Its cells print all others."""

from collections.abc import Callable
from functools import cache

import numpy as np

from autograder.author import papers
from utils.experiments import seed_table, translation
from utils.experiments.runs import RECORDED_SEEDS
from utils.experiments.translation import (
    BEAMS,
    BETTER,
    COLD,
    CONTINUED,
    DROPPED,
    FUSED,
    GREEDY,
    LAYER,
    MANY,
    PENALISED,
    PLAIN,
    RANDOM,
    train,
)

CPU = translation.experiments(profile="cpu")


@cache
def recorded() -> dict[tuple[str, str], seed_table.Comparison]:
    """The comparisons of the recorded runs, by the names of both."""
    return {(one.first, one.second): one for one in translation.compared(translation.recorded())}


def against(first: str, second: str) -> seed_table.Comparison:
    """Two recorded arms, translated with beams and penalty."""
    known = translation.recorded() | translation.recorded_controls()
    (one,) = translation.compared(known, [(first, second)], ways=False)
    return one


def ways(arm: str, way: str) -> seed_table.Comparison:
    """Beams with penalty against another way, of one arm."""
    return recorded()[f"{arm}: {way}", f"{arm}: {PENALISED}"]


def mean(arm: str) -> float:
    """The mean BLEU of an arm with beams and penalty."""
    metric = translation.METRICS[translation.DECODINGS.index(PENALISED)]
    known = translation.recorded() | translation.recorded_controls()
    return float(np.mean([metric.of(run) for run in known[arm]]))


def best(arm: str) -> str:
    """The best mean BLEU of an arm in the search for its rate."""
    found = translation.trials(arm)
    rates, seeds = ({key[place] for key in found} for place in (0, 1))
    return f"{max(sum(found[rate, seed] for seed in seeds) / len(seeds) for rate in rates):.1f}"


def dropped_at_the_others_rate() -> str:
    """The mean BLEU of drop-net in the search at the rate of the recorded fused arm; blank if FUSED is not best."""
    rate = CPU[FUSED].lr
    mine, others = ({seed: score for (at, seed), score in translation.trials(arm).items() if at == rate}
                    for arm in (DROPPED, FUSED))  # fmt: skip
    level = f"{np.mean([*others.values()]):.1f}" == best(FUSED)
    return f"{np.mean([*mine.values()]):.1f}" if level and len(mine) == len(others) == 2 else ""


@cache
def written() -> tuple[float, float]:
    """The share of words that models with few pairs can write, and the BLEU of these: means over the recorded seeds."""
    found = [train.reachable(CPU[PLAIN], seed) for seed in RECORDED_SEEDS]
    return tuple(float(np.mean(values)) for values in zip(*found, strict=True))  # type: ignore[return-value]


def recorded_p(first: str, second: str) -> str:
    """The p value of a recorded comparison, corrected for those that are printed with it."""
    printed = translation.compared(
        translation.recorded() | translation.recorded_controls(), translation.CONTROL_PAIRS, ways=False
    )
    (one,) = (
        one
        for one in (*recorded().values(), *printed)
        if (one.first, one.second) == (f"{first}: {PENALISED}", f"{second}: {PENALISED}")
    )
    assert not one.shown
    return f"{one.p:.3f}"


def last_loss(arm: str) -> str:
    """The training loss at the end of the recorded runs of an arm: the mean over seeds."""
    return f"{np.mean([run.curve[-1]['train_loss'] for run in translation.recorded()[arm]]):.2f}"


def gains(which: Callable[..., float]) -> str:
    """The smallest or largest gain of Zhu et al."""
    return f"{which(fused - plain for plain, fused in translation.FUSED_BLEU.values()):.1f}"


def level() -> str:
    """The one figure that random weights and BERT's first layer have in common."""
    (found,) = {best(arm) for arm in (RANDOM, LAYER)}
    return found


def least() -> str:
    """By how much a BERT is ahead of random weights and an encoder that knows the task of none.

    It is also what the way to translate moves with many pairs.
    """
    moved = max(abs(ways(MANY, way).difference) for way in (BEAMS, GREEDY))
    ahead = [against(*pair).difference for pair in ((RANDOM, FUSED), (CONTINUED, BETTER))]
    (found,) = {f"{value:.1f}" for value in (moved, *ahead)}
    return found


NUMBERS: dict[str, Callable[[], str]] = {
    "4.5": lambda: papers.figure("million pairs, English to German"),
    "36": lambda: papers.figure("million pairs, English to French"),
    "28.4": lambda: papers.figure("BLEU, English to German"),
    "41.8": lambda: papers.figure("BLEU, English to French"),
    "13": lambda: translation.NOTEBOOK[:2],
    "95": lambda: f"{mean(MANY):.0f}",
    "70": lambda: f"{mean(PLAIN):.0f}",
    "6,000": lambda: f"{CPU[PLAIN].pool:,}",
    "68.0": lambda: best(CONTINUED) if best(CONTINUED) == best(DROPPED) else "",
    "67.2": lambda: best(COLD),
    "67.5": lambda: best(PLAIN),
    "68.3": lambda: best(FUSED) if best(FUSED) == f"{mean(DROPPED):.1f}" else "",
    "68.5": level,
    "0.2": lambda: f"{against(CONTINUED, FUSED).difference:.1f}",
    "1.2": lambda: f"{against(CONTINUED, FUSED).widest[1]:.1f}",
    "0.8": lambda: f"{against(RANDOM, FUSED).widest[1]:.1f}",
    "9%": lambda: f"{1 - written()[0]:.0%}",
    "83": lambda: f"{written()[1]:.0f}",
    "1,200": lambda: f"{translation.controls()[COLD].steps:,}",
    "900": lambda: str(CPU[PLAIN].steps),
    "66.4": dropped_at_the_others_rate,
    "66.8": lambda: f"{mean(COLD):.1f}",
    "0.5": lambda: f"{against(LAYER, FUSED).widest[1]:.1f}",
    "0.087": lambda: recorded_p(FUSED, DROPPED),
    "0.070": lambda: recorded_p(PLAIN, COLD),
    "1.0": lambda: f"{against(CONTINUED, BETTER).widest[1]:.1f}",
    "1.44": lambda: last_loss(DROPPED),
    "1.12": lambda: last_loss(FUSED),
    "300": lambda: str(CPU[FUSED].steps),
    "3.3": lambda: f"{-against(PLAIN, COLD).difference:.1f}",
    "1.5": lambda: gains(min),
    "2.8": lambda: gains(max) if gains(max) == f"{ways(PLAIN, GREEDY).difference:.1f}" else "",
    "160,000": lambda: papers.figure("pairs of IWSLT, English and German"),
    "1.6": lambda: (
        f"{ways(PLAIN, BEAMS).difference:.1f}" if f"{-against(FUSED, DROPPED).difference:.1f}" == "1.6" else ""
    ),
    "0.6": lambda: f"{ways(PLAIN, BEAMS).widest[0]:.1f}",
    "0.1": least,
}
