"""The numbers that the prose of notebook 09 prints, computed. Its cells print all others."""

import json
from collections.abc import Callable

import numpy as np

from autograder.author import papers
from utils.experiments import forgetting
from utils.experiments.forgetting import (
    ADAPTERS,
    ALL,
    ALONE,
    EWC,
    HEAD,
    L2_SP,
    MULTI_TASK,
    REPLAY,
    SEQUENCE,
    SLOW,
    SLOW_HEAD,
)
from utils.experiments.seed_table import Comparison, SeedTable

ONE, OWN, AGAIN, KEPT = forgetting.METRICS


def kept() -> str:
    """The share of the sentences of all phases but the last that replay keeps."""
    one = forgetting.experiments(profile="cpu")[forgetting.REPLAY]
    return f"{one.memory / (one.examples * (forgetting.CLASSES - forgetting.TOGETHER)):.0%}"


def mean(arm: str, metric: forgetting.Metric) -> float:
    """The mean of an arm's recorded runs."""
    known = forgetting.recorded() | forgetting.recorded_controls()
    return float(np.mean([metric.of(run) for run in known[arm]]))


def against(first: str, second: str, metric: forgetting.Metric) -> Comparison:
    """Two recorded arms, among all that the notebook compares by a metric."""
    runs = forgetting.recorded() | forgetting.recorded_controls()
    pairs = forgetting.CONTROL_PAIRS if MULTI_TASK in second else forgetting.questions(runs)
    (one,) = (one for one in SeedTable(runs, metric).compared(pairs) if (one.first, one.second) == (first, second))
    return one


def gap(arm: str, rate: float = 1e-4) -> str:
    """How much better own heads are on their own sentences than on held-out ones, in the search, at a rate."""
    rows = json.loads(forgetting.SEARCH.read_text())
    found = [row for row in rows if row["arm"] == arm and row["settings"] == {"lr": rate}]
    return f"{np.mean([row['own_heads_on_training'] - row['own_heads'] for row in found]):.0f}"


def for_one_head(arm: str) -> str:
    """What one head gets right at the best rate for one head, in percent."""
    ninth = forgetting.experiments(profile="cpu")[SEQUENCE].lr / forgetting.at_rates_for_one_head()[SLOW].lr
    assert round(ninth) == 9
    return f"{np.mean([ONE.of(run) for run in forgetting.recorded_for_one_head()[arm]]):.0f}%"


def worth(remedy: str) -> str:
    """What a remedy is ahead of training in sequence at the best rate for one head, in points."""
    runs = forgetting.recorded() | forgetting.recorded_for_one_head()
    found = SeedTable(runs, ONE).compared(forgetting.ONE_HEAD_PAIRS)
    (one,) = (one for one in found if (one.first, one.second) == (SLOW, remedy))
    return f"{one.difference:.0f}"


def examples(arm: str) -> str:
    """How many sentences of each library an arm learns from."""
    return str((forgetting.experiments(profile="cpu") | forgetting.controls())[arm].examples)


def same(*found: str) -> str:
    """One number that several sentences print; blank if they part."""
    return found[0] if len({*found}) == 1 else ""


NUMBERS: dict[str, Callable[[], str]] = {
    "15%": kept,
    "0.7": lambda: papers.figure("exponent of multilingual BERT's languages"),
    "45%": lambda: f"{mean(HEAD, ONE):.0f}%",
    "40%": lambda: for_one_head(SLOW),
    "53%": lambda: same(for_one_head(SLOW_HEAD), f"{mean(REPLAY, ONE):.0f}%"),
    "14": lambda: worth(REPLAY),
    "9": lambda: worth(ADAPTERS),
    "26%": lambda: f"{mean(SEQUENCE, ONE):.0f}%",
    "77%": lambda: f"{mean(SEQUENCE, OWN):.0f}%",
    "86%": lambda: f"{mean(ALONE, OWN):.0f}%",
    "2.0": lambda: f"{against(SEQUENCE, ALONE, OWN).widest[0]:.1f}",
    "15.2": lambda: f"{against(SEQUENCE, ALONE, OWN).widest[1]:.1f}",
    "0.036": lambda: f"{against(HEAD, ALL, KEPT).p:.3f}",
    "0.066": lambda: f"{against(HEAD, ALL, AGAIN).p:.3f}",
    "7.6": lambda: f"{against(HEAD, ALL, KEPT).difference:.1f}",
    "52%": lambda: same(f"{mean(SEQUENCE, KEPT):.0f}%", f"{mean(ALONE, KEPT):.0f}%"),
    "56%": lambda: f"{mean(ALL, KEPT):.0f}%",
    "49%": lambda: same(f"{mean(HEAD, KEPT):.0f}%", f"{mean(ADAPTERS, ONE):.0f}%"),
    "27": lambda: f"{against(SEQUENCE, REPLAY, ONE).difference:.0f}",
    "23": lambda: f"{against(SEQUENCE, ADAPTERS, ONE).difference:.0f}",
    "0.4": lambda: f"{against(SEQUENCE, L2_SP, ONE).difference:.1f}",
    "0.1": lambda: f"{against(SEQUENCE, EWC, ONE).difference:.1f}",
    "2.3": lambda: f"{-against(ALONE, MULTI_TASK, OWN).difference:.1f}",
    "1.6": lambda: f"{against(f'{ALONE}, few', f'{MULTI_TASK}, few', OWN).difference:.1f}",
    "5": lambda: same(gap(MULTI_TASK), gap(MULTI_TASK, forgetting.controls()[MULTI_TASK].lr)),
    "10": lambda: gap(ALONE, forgetting.experiments(profile="cpu")[ALONE].lr),
    "3": lambda: gap(ALONE),
    "18": lambda: gap(f"{MULTI_TASK}, few"),
    "16": lambda: gap(f"{ALONE}, few"),
    "120": lambda: examples(ALONE),
    "30": lambda: examples(f"{ALONE}, few"),
}
