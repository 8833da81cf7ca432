"""Two tasks for the heads of notebook 08 that its own experiment leaves untrained, and their recorded runs.

A choice head (8.5) says which of four sentences comes next in a docstring. A vector of a sentence (8.9) says which
library it is of. Students get the summaries of the runs, and need not run any.

Imports nothing heavy: graders read it too. `utils.experiments.choices.train` trains.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from utils.experiments.experiment import BadRun, Experiment, Run
from utils.experiments.summaries import load_recorded

RECORDED = Path(__file__).resolve().parents[3] / "data" / "results" / "choices"
OPTIONS = 4
# Table 4 of the paper (Devlin et al. 2019): accuracy on SWAG's validation set, four endings each.
TABLE_4 = {"ESIM+GloVe": 51.9, "ESIM+ELMo": 59.1, "BERT-base": 81.6, "BERT-large": 86.6}
MEAN, FIRST, READ, SHUFFLED = "mean state", "[CLS] state", "BiLSTM", "BiLSTM, tokens shuffled"


@dataclass(frozen=True)
class Choice(Experiment):
    """An encoder and a choice head, all of which learn; or the same encoder from random weights.

    A question is a sentence and four others, of which one comes after it. The wrong ones come later in docstrings of
    the same side too. Endings alone: the first sentence is left out, so that only the endings can tell.

    A seed varies which questions are learned from, their order, the new weights and dropout.
    """

    encoder: str
    start: str = "pretrained"  # or random
    alone: bool = False  # endings alone
    examples: int = 2000
    test: int = 600
    epochs: int = 3
    batch: int = 16  # questions, with a row for each ending
    lr: float = 1e-4
    weight_decay: float = 0.01
    max_len: int = 64

    def check(self, run: Run, whole: bool) -> None:
        """A logit for each ending of every question."""
        if len(run.logits) != self.test or {*map(len, run.logits)} != {OPTIONS}:
            raise BadRun(f"it does not have {OPTIONS} logits for each of {self.test} questions")

    def count_steps(self, folder: Path | str | None = None) -> int:
        """The steps of the optimiser."""
        return self.epochs * -(-self.examples // self.batch)


@dataclass(frozen=True)
class Vectors(Experiment):
    """A linear map on one vector of a sentence, made of the last states of a frozen encoder.

    The vector is the mean of the states, the state of [CLS], or what a BiLSTM reads from both sides and that learns
    too. The control reads the states in an order that is drawn again each time.

    A seed varies which sentences are learned from, their order, the new weights and dropout.
    """

    encoder: str
    vector: str
    pool: int = 400  # sentences of each library, of which a seed draws a share
    examples: int = 1200
    test: int = 100  # of each library
    epochs: int = 8
    batch: int = 32
    lr: float = 2e-3
    hidden: int = 128
    dropout: float = 0.1
    weight_decay: float = 0.01
    max_len: int = 64

    def count_steps(self, folder: Path | str | None = None) -> int:
        """The epochs."""
        return self.epochs


def experiments(profile: str = "cpu") -> dict[str, Choice | Vectors]:
    """The experiments of both tasks by name."""
    smoke = profile == "smoke"
    few: dict[str, Any] = {"examples": 16, "test": 8, "epochs": 1} if smoke else {}
    vectors: dict[str, Any] = {"pool": 6, "examples": 20, "test": 4, "epochs": 1} if smoke else {}
    read: dict[str, Any] = {"lr": 5e-3, "dropout": 0.3}
    task, other = "next sentence of a docstring", "library of a sentence"
    made: list[Choice | Vectors] = [
        Choice("choice, pretrained", task, "minilm", **few),
        Choice("choice, random weights", task, "minilm", start="random", **few),
        Choice("choice, endings alone", task, "minilm", alone=True, **few),
        Vectors(MEAN, other, "minilm", MEAN, **vectors),
        Vectors(FIRST, other, "minilm", FIRST, **vectors),
        Vectors(READ, other, "minilm", READ, **read | vectors),
        Vectors(SHUFFLED, other, "minilm", SHUFFLED, **read | vectors),
    ]
    return {one.name: one for one in made}


def questions() -> list[tuple[str, str]]:
    """The pairs of experiments that are compared."""
    pairs = [("choice, endings alone", "choice, pretrained"), ("choice, random weights", "choice, pretrained")]
    return [*pairs, (MEAN, READ), (FIRST, READ), (SHUFFLED, READ)]


def recorded() -> dict[str, list[Run]]:
    """Summaries of the recorded runs, by name; data/README.md says how they were made."""
    return load_recorded(experiments(), RECORDED)
