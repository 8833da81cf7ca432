"""Experiments of two made-up notebooks: all that an author writes to have them graded, audited and reported."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from utils.experiments.experiment import BadRun, Experiment, Metric, Run

RECORDED = Path(__file__).parent / "no_such_folder"
TAGGING, READING = "97_tagging", "98_reading"
SENTENCES, WORDS = 40, 12


def counts(run):
    """Of each sentence the entities found, the predicted ones and the gold ones."""
    tags = [(np.array(guess), np.array(label)) for guess, label in zip(run.predictions, run.labels, strict=True)]
    return [(np.sum((a == b) & (b > 0)), np.sum(a > 0), np.sum(b > 0)) for a, b in tags]


F1 = Metric("F1", "%", counts, lambda sums: 200 * sums[..., 0] / (sums[..., 1] + sums[..., 2]))
LOSS = Metric(
    "loss per token",
    "nats",
    lambda run: [[loss, tokens] for loss, tokens in zip(run.predictions, run.labels, strict=True)],
    lambda sums: sums[..., 0] / sums[..., 1],
    lower_is_better=True,
    digits=3,
)


@dataclass(frozen=True)
class Tagger(Experiment):
    """Finds entities: it predicts the tags of each sentence, which are scored by F1."""

    metrics = (F1,)
    mistakes: float  # the share of wrong tags

    def gold(self):
        return np.random.default_rng(0).integers(4, size=(SENTENCES, WORDS)).tolist()

    def check(self, run, whole):
        if {len(one) if isinstance(one, list) else 0 for one in run.predictions} != {WORDS}:
            raise BadRun("a sentence has another number of tags")

    def run_seed(self, seed, *, precision=None, folder=None, on_step=lambda what: None):
        draw = np.random.default_rng([seed, len(self.name)])
        labels = np.array(self.gold())
        wrong = draw.random(labels.shape) < self.mistakes
        guesses = np.where(wrong, draw.integers(4, size=labels.shape), labels).tolist()
        on_step("tagging")
        return Run(self.plain(), seed, labels.tolist(), guesses, [], [{"f1": 0.5}], 1.0 + draw.random())


@dataclass(frozen=True)
class Reader(Experiment):
    """Predicts the next word: of each sentence it hands over its loss, which is scored per token."""

    metrics = (LOSS,)
    skill: float

    def gold(self):
        return np.random.default_rng(1).integers(5, 20, SENTENCES).tolist()

    def run_seed(self, seed, *, precision=None, folder=None, on_step=lambda what: None):
        draw, labels = np.random.default_rng([seed, len(self.name)]), self.gold()
        losses = [tokens * (3 - self.skill) + 2 * draw.normal() for tokens in labels]
        on_step("reading")
        return Run(self.plain(), seed, labels, losses, [], [{"train_loss": 1.0}], 1.0 + draw.random())


def experiments(notebook, profile=None):
    task = "made-up-words" if profile == "smoke" else "words"
    kind, better, worse = (Tagger, 0.1, 0.6) if notebook == TAGGING else (Reader, 1.5, 0.5)
    return {one.name: one for one in (kind("plain", task, worse), kind("pretrained", task, better))}
