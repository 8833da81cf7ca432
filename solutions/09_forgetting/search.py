"""Choose the rate, and the strength of the pull, of each arm of notebook 09 in `utils/experiments/forgetting/spec.py`.

Run it as `python solutions/09_forgetting/search.py`.
Each combination is tried with each of SEEDS. Models learn from the first sentences of each library's pool and are
tested on the last HELD_OUT of them. The score is what own heads get right in the end, in percent. What one head gets
right is the score of the arms FOR_ONE_HEAD alone: it is highest at rates at which an encoder hardly learns. The arms
that train the same layers, SHARED, have one rate, so that they differ in nothing but what is done against forgetting.
`chosen` says how settings follow from the trials, and `rate_search.search` how ranges are widened.
"""

import argparse
import multiprocessing
import random
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).resolve().parents[2])  # not this folder: its notebook.py would hide Jupyter's

import torch

from autograder.author import rate_search
from utils.experiments import forgetting, profiles
from utils.experiments.forgetting import train
from utils.experiments.forgetting.spec import (
    ADAPTERS,
    ALL,
    ALONE,
    CLASSES,
    EWC,
    FOR_ONE_HEAD,
    HEAD,
    L2_SP,
    REPLAY,
    SEQUENCE,
    Forgetting,
)
from utils.experiments.loops import Frozen, products_of

SEEDS = (101, 102)  # no run that counts has one of these
HELD_OUT = 60  # sentences of each library
RATES = (1e-4, 3e-4, 1e-3, 3e-3)
OTHER_RATES = {ADAPTERS: (3e-4, 1e-3, 3e-3, 1e-2), HEAD: (1e-3, 3e-3, 1e-2, 3e-2)}
SHARED = (SEQUENCE, REPLAY, L2_SP, EWC, ALL, ALONE)
RATES_FOR_ONE_HEAD = dict(zip(FOR_ONE_HEAD, ((3.3e-6, 1e-5, 3.3e-5, 1e-4), OTHER_RATES[HEAD]), strict=True))
STRENGTHS = {L2_SP: (0.03, 0.1, 0.3, 1.0, 3.0), EWC: (1e2, 1e3, 1e4, 1e5)}


def arms() -> dict[str, Forgetting]:
    """Every arm that has settings of its own, by name."""
    return forgetting.experiments(profile="cpu") | forgetting.controls() | forgetting.at_rates_for_one_head()


def axes() -> dict[str, dict[str, Sequence[float]]]:
    """What is tried of each arm."""
    found: dict[str, dict[str, Sequence[float]]] = {}
    for name, one in arms().items():
        found[name] = {"lr": RATES_FOR_ONE_HEAD.get(name, OTHER_RATES.get(one.method, RATES))}
        if one.method in STRENGTHS:
            found[name]["strength"] = STRENGTHS[one.method]
    return found


def shares(table: torch.Tensor) -> tuple[float, float]:
    """What one head and own heads get right of sentences that stand class by class, in percent. table: their logits."""
    labels = torch.arange(CLASSES).repeat_interleave(len(table) // CLASSES)
    return tuple(100 * (found == labels).double().mean().item() for found in (table.argmax(1), train.own(table)))  # type: ignore[return-value]


def trial(arm: str, settings: Mapping[str, float], seed: int) -> dict[str, Any]:
    """What a model gets right of the held-out sentences, and own heads of the sentences that it learned from."""
    one, device, draw = replace(arms()[arm], **settings), profiles.device(), random.Random(seed)
    products = products_of(one, device)
    pool, _ = train.states(
        Frozen(one.task, one.encoder, one.frozen, one.pool, one.test, max_len=one.max_len), device, products
    )
    training = [row for some in pool for row in draw.sample(some[:-HELD_OUT], one.examples)]
    held_out = [row for some in pool for row in some[-HELD_OUT:]]
    labels = torch.arange(CLASSES).repeat_interleave(one.examples)
    # Both are tested after each phase, with the encoder of the sentence's phase where each has one.
    both = [
        row
        for label in range(CLASSES)
        for row in (
            *training[label * one.examples : (label + 1) * one.examples],
            *held_out[label * HELD_OUT : (label + 1) * HELD_OUT],
        )
    ]
    tables, again, _ = train.learned(one, train.Given(training, labels, both), seed, device, products)
    places = torch.arange(len(both)).view(CLASSES, -1)
    learned, new = (tables[-1][part.flatten()] for part in (places[:, : one.examples], places[:, one.examples :]))
    one_head, own_heads = shares(new)
    refit = torch.tensor(again)[places[:, one.examples :].flatten()]
    right = (refit == torch.arange(CLASSES).repeat_interleave(HELD_OUT)).double().mean().item()
    score = one_head if arm in FOR_ONE_HEAD else own_heads
    rounded = {"score": score, "one_head": one_head, "own_heads": own_heads, "fitted_again": 100 * right}
    rounded["own_heads_on_training"] = shares(learned)[1]
    return {name: round(value, 3) for name, value in rounded.items()} | {"device": profiles.device_name(device)}


def chosen(rows: Sequence[Mapping[str, Any]]) -> dict[str, tuple[float, ...]]:
    """The settings of each arm: the rate, and the strength of a pull.

    SHARED arms have the rate with the best mean of them all, each with its best strength at that rate; all others have
    their own best settings.
    """
    scores = {name: rate_search.means(rows, name) for name in arms()}

    def at(name: str, rate: float) -> dict[tuple[float, ...], float]:
        return {values: score for values, score in scores[name].items() if values[0] == rate}

    shared = max(RATES, key=lambda rate: sum(max(at(name, rate).values()) for name in SHARED))
    limited = {name: at(name, shared) if name in SHARED else some for name, some in scores.items()}
    return {name: min(some, key=lambda values: (-round(some[values], 6), values)) for name, some in limited.items()}  # noqa: B023


def run(executor: Executor, path: Path = forgetting.SEARCH) -> dict[str, tuple[float, ...]]:
    """The settings of each arm, by name."""
    rate_search.search(axes(), SEEDS, trial, path, executor)
    return chosen([*rate_search.load(path).values()])


if __name__ == "__main__":
    rate_search.main(__doc__, run)
