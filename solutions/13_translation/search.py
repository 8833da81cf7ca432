"""Choose the learning rate of each arm of notebook 13 in `utils/experiments/translation/spec.py`.

Run it as `python solutions/13_translation/search.py`.
First the rates of the models that start from new weights are chosen, then those of the arms that continue one. Each
rate is tried with each of SEEDS. Models learn from the arm's own pairs and are tested on pairs that follow the pool.
The score is BLEU of greedy translations after the last step. `rate_search.search` says how ranges are widened.
"""

import argparse
import math
import multiprocessing
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

sys.path[0] = str(Path(__file__).resolve().parents[2])  # not this folder: its notebook.py would hide Jupyter's

import torch

from autograder.author import rate_search
from data import parallel
from utils.experiments import formulas, profiles, translation
from utils.experiments.translation import train
from utils.experiments.translation.spec import ORDERS, PLAIN, Translation

SEEDS = (101, 102)  # no run that counts has one of these
FIRST = (5e-4, 1e-3, 2e-3, 4e-3, 8e-3)
MORE = (1e-4, 3e-4, 1e-3, 3e-3)
HELD_OUT = 250  # pairs; no arm has as many to test on, so that states of sentences are kept apart
LONGEST = 30


def arms() -> dict[str, Translation]:
    """Every arm that has a rate of its own, by name."""
    return translation.experiments(profile="cpu") | translation.controls()


@cache
def held_out(task: str, language: str, pool: int, test: int, folder: Any = None) -> train.SentencePairs:
    """As `train.text`, with pairs to test on that follow the pool."""
    every = parallel.load(task, "train", pool + HELD_OUT, language, folder)
    return train.SentencePairs(every[:pool], every[pool:])


@torch.no_grad()
def greedy(trained: train.Trained, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
    """Greedy translations, made side by side."""
    pairs = [(words, ["<unknown>"]) for words in sentences]
    (source, _, _), read = trained.batch(pairs)
    memory, seen = trained.model.encode(source, read)
    said = torch.full((len(sentences), 1), train.BOS, device=trained.device)
    for _ in range(LONGEST):
        logits = trained.model.decode(said, memory, seen, read)[:, -1]
        logits[:, [train.PAD, train.BOS, train.UNKNOWN]] = train.HIDDEN
        said = torch.cat([said, logits.argmax(-1, keepdim=True)], 1)
    rows = [row[1:] for row in said.tolist()]
    ends = [row.index(train.EOS) if train.EOS in row else len(row) for row in rows]
    return [trained.targets.decode(row[:end]) for row, end in zip(rows, ends, strict=True)]


def bleu(found: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> float:
    """BLEU of a corpus."""
    sums = [0.0] * (2 + 2 * ORDERS)
    for words, reference in zip(found, references, strict=True):
        counts = [max(0, len(words) - n) for n in range(ORDERS)]
        row = [len(reference), len(words), *train.matches(words, reference), *counts]
        sums = [one + other for one, other in zip(sums, row, strict=True)]
    return float(formulas.bleu(torch.tensor([sums]).numpy())[0])


def trial(arm: str, settings: Mapping[str, float], seed: int) -> dict[str, Any]:
    """BLEU and the loss on the held-out pairs."""
    one = replace(arms()[arm], test=HELD_OUT, **settings)
    with mock.patch.object(train, "text", held_out):
        trained, curve = train.train(one, seed, profiles.device())
    test = held_out(one.task, one.language, one.pool, one.test).test
    losses = sum(train.losses_of(trained, test)) / sum(len(other) + 1 for _, other in test)
    score = bleu(greedy(trained, [words for words, _ in test]), [other for _, other in test])
    return {
        "score": round(score, 3) if math.isfinite(score) else 0.0,
        "loss": round(losses, 4),
        "train_loss": curve[-1]["train_loss"],
        "device": profiles.device_name(profiles.device()),
    }


def run(executor: Executor, path: Path = translation.SEARCH) -> dict[str, float]:
    """The best rate of each arm, by name."""
    some = arms()
    fresh = {name: {"lr": FIRST} for name, one in some.items() if not one.first_steps}
    best = rate_search.search(fresh, SEEDS, trial, path, executor)
    later: dict[str, dict[str, Sequence[float]]] = {}
    for name, one in some.items():
        if one.first_steps:
            later[name] = {"lr": MORE, "first_lr": [best[PLAIN]["lr"]]}
    best |= rate_search.search(later, SEEDS, trial, path, executor)
    return {name: settings["lr"] for name, settings in best.items()}


if __name__ == "__main__":
    rate_search.main(__doc__, run)
