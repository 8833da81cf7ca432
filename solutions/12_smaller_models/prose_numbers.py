"""The numbers that the prose of notebook 12 prints, computed. Its cells print all others."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy import stats

from autograder.author import papers
from utils.checks import nb12_smaller_models as checks
from utils.experiments import sharing, smaller
from utils.experiments.seed_table import Comparison, SeedTable

CPU = smaller.experiments(profile="cpu")
BERT: dict[str, Any] = {"V": 30_522, "H": 1024, "F": 4096, "L": 24}
XXLARGE: dict[str, Any] = {"V": 30_000, "H": 4096, "F": 16_384, "L": 12, "E": 128, "shared": True}


def mean(arm: str) -> float:
    """The mean accuracy of the recorded runs of an arm, in percent."""
    return float(np.mean([smaller.METRICS[0].of(run) for run in smaller.recorded()[arm]]))


def speed() -> str:
    """How many times the multiply-adds of BERT-large ALBERT-xxlarge has, per token."""
    large, huge = (sum(checks.counts_of(**size)[1].values()) for size in (BERT, XXLARGE))
    return f"{huge / large:.0f}"


def first(arms: tuple[str, ...], which: Callable[[list[float]], float]) -> str:
    """The first or last of the steps at which recorded runs of some arms have learned."""
    return f"{which([smaller.steps_until(run) for arm in arms for run in smaller.recorded()[arm]]):.0f}"


def values_count() -> Comparison:
    """Rewound models against models with new values, at the fewest weights."""
    table = SeedTable(smaller.recorded(), smaller.METRICS[0])
    (one,) = (one for one in table.compared(smaller.questions(table.runs)) if one.first == "new values, fewest")
    return one


def steps_more() -> tuple[float, float, float]:
    """How many steps more new values need, with few weights: mean over seeds, and the interval of the paired t."""
    runs = smaller.recorded()
    rewound, new = ([smaller.steps_until(run) for run in runs[f"{one}, few"]] for one in ("rewound", "new values"))
    differences = np.subtract(new, rewound)
    mean, error = differences.mean(), stats.sem(differences)
    return (mean, *stats.t.interval(0.95, len(differences) - 1, mean, error))


def costs(first: str, second: str) -> str:
    """How much higher the recorded validation loss of the second ablation is, in nats."""
    table = SeedTable(sharing.recorded(), sharing.METRICS[0])
    (one,) = (one for one in table.compared(sharing.questions()) if (one.first, one.second) == (first, second))
    return f"{one.difference:.2f}"


def behind() -> str:
    """How much higher the mean validation loss with one layer is than with four, in nats."""
    runs = sharing.recorded()
    one, four = (np.mean([sharing.METRICS[0].of(run) for run in runs[name]]) for name in (sharing.ONE_LAYER, WHOLE))
    return f"{one - four:.2f}"


WHOLE = sharing.name_of(sharing.NOTHING)


def filters(places: int = 1) -> int:
    """The numbers of AlexNet's first layer, with filters of its own at each of so many places."""
    return places * int(papers.figure("filters of AlexNet's first layer")) * (SIDE * SIDE * 3 + 1)


SIDE = int(papers.figure("width of these filters"))
PLACES = (227 - SIDE) // 4 + 1  # of a picture of 227 by 227, in steps of 4


def filters_and_steps() -> str:
    """The filters of AlexNet's first layer, and the upper end of `steps_more`: one number, blank if they part."""
    filters_, steps = papers.figure("filters of AlexNet's first layer"), f"{steps_more()[2]:.0f}"
    return filters_ if filters_ == steps else ""


NUMBERS: dict[str, Callable[[], str]] = {
    "60%": lambda: papers.figure("DistilBERT, faster"),
    "97%": lambda: papers.figure("DistilBERT, share of BERT's score"),
    "0.3": lambda: papers.figure("ALBERT-xxlarge, speed, BERT-large is 1"),
    "1.7": lambda: papers.figure("ALBERT-large, speed, BERT-large is 1"),
    "8": speed,
    "55": lambda: str(PLACES),
    "34,944": lambda: f"{filters():,}",
    "105,705,600": lambda: f"{filters(PLACES**2):,}",
    "32": lambda: str(torch.finfo(torch.get_default_dtype()).bits),
    "64": lambda: str(sharing.SIZE["width"]),
    "2,000": lambda: f"{sharing.SIZE['pieces']:,}",
    "300": lambda: str(CPU["shuffled mask, fewest"].steps),
    "400": lambda: str(sharing.SIZE["steps"]),
    "0.03": lambda: costs(WHOLE, sharing.name_of(sharing.ALL)),
    "0.02": behind,
    "0.19": lambda: costs(WHOLE, sharing.WITHOUT_LAYERS),
    "0.63": lambda: costs(WHOLE, sharing.name_of(sharing.NOTHING, sharing.WIDTHS[1])),
    "30,000": lambda: f"{XXLARGE['V']:,}",
    "12": lambda: smaller.NOTEBOOK[:2],
    "11%": lambda: f"{0.8**10:.0%}",
    "11": lambda: f"{next(n for n in range(99) if 0.8**n < 0.1)}",
    "0.4": lambda: f"{values_count().widest[0]:.1f}",
    "11.4": lambda: f"{values_count().widest[1]:.1f}",
    "70": lambda: f"{steps_more()[0]:.0f}",
    "44": lambda: f"{steps_more()[1]:.0f}",
    "96": filters_and_steps,
    "0.082": lambda: f"{values_count().p:.3f}",
    "87%": lambda: f"{mean('shuffled mask, fewest'):.0f}%",
    "94%": lambda: f"{mean('new values, fewest'):.0f}%",
    "90%": lambda: f"{smaller.LEARNED:.0%}",
    "75": lambda: first(("rewound, few",), min),
    "100": lambda: first(("rewound, few",), max),
    "150": lambda: first(("new values, few", "shuffled mask, few"), min),
    "2.0": lambda: f"{mean('soft labels') - mean('hard labels'):.1f}",
    "2.6": lambda: f"{mean('soft labels') - mean('own labels'):.1f}",
    "40%": lambda: f"{mean('teacher'):.0f}%",
    "17%": lambda: f"{1 / smaller.LIBRARIES:.0%}",
}
