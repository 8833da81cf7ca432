"""The lab's experiment at a size that a CPU can do, for notebook 04, and its recorded runs.

A causal language model as notebook 01 builds it was pretrained on documentation. Its head is swapped, and the whole
model learns to say whether a review of a film is positive, for 15 epochs; so does the same model from random weights.

Imports nothing heavy: graders read it too. `utils.experiments.lab.train` trains.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from utils.experiments.experiment import BadRun, Experiment, Run
from utils.experiments.summaries import load_recorded

if TYPE_CHECKING:
    from utils.plots import Picture

RECORDED = Path(__file__).resolve().parents[3] / "data" / "results" / "lab"
PRETRAINED, SCRATCH, EMBEDDINGS = "pretrained", "scratch", "embeddings pretrained"
ARMS = (SCRATCH, EMBEDDINGS, PRETRAINED)
RATES: dict[tuple[str, str], float] = {}  # the best of those that were tried, by task and arm; else `rate`
TRIED = (1e-4, 3e-4, 1e-3)


@dataclass(frozen=True)
class Lab(Experiment):
    """An arm: a model of notebook 01, what of it is pretrained, and reviews to learn from.

    A run holds the logits of the test reviews after the last epoch, and a curve of all epochs on the test. No epoch is
    chosen.

    A seed varies the new weights, the order and dropout; which reviews there are is the same in all runs.
    """

    arm: str
    lr: float = 3e-4
    examples: tuple[int, int] = (1600, 2000)  # to learn from and to test on
    epochs: int = 15
    batch: int = 16
    dropout: float = 0.1
    weight_decay: float = 0.01
    max_len: int = 64
    tokens: int = 8000
    width: int = 200
    heads: int = 2
    layers: int = 4
    sentences: int | None = None  # of documentation, to pretrain on; None: all
    reading: int = 8  # epochs of the pretraining
    held_out: bool = False  # test on reviews that are in no other run, to choose rates

    def __post_init__(self):
        if self.arm not in ARMS:
            raise ValueError(f"{self.name}: its arm is one of {', '.join(ARMS)}")

    def check(self, run: Run, whole: bool) -> None:
        """Two logits for each review, and a curve of all epochs."""
        if len(run.logits) != self.examples[1] or len(run.curve) != self.epochs:
            raise BadRun(f"it does not have logits of {self.examples[1]} reviews after {self.epochs} epochs")

    def count_steps(self, folder: Path | str | None = None) -> int:
        """The epochs."""
        return self.epochs

    def prepare(self, folder: Path | str | None = None) -> None:
        """Pretrain the model, unless the cache has it."""
        self.trainer().pretrained(self)


def experiments(profile: str = "cpu") -> dict[str, Lab]:
    """The arms by name."""
    few: dict[str, Any] = {}
    if profile == "smoke":
        few = {"examples": (32, 20), "epochs": 2, "tokens": 400, "width": 32, "sentences": 300, "reading": 1}
    made = [Lab(arm, "polarity", arm, **few) for arm in ARMS]
    return {one.name: replace(one, lr=RATES.get((one.task, one.arm), one.lr)) for one in made}


def search(profile: str = "cpu") -> list[Lab]:
    """The runs by which the rates were chosen, of each arm: on reviews that no other run has."""
    return [
        replace(
            one, name=f"{one.name}, {rate:g}", lr=rate, examples=(one.examples[0], one.examples[0] // 2), held_out=True
        )
        for one in experiments(profile).values()
        for rate in TRIED
    ]


def questions() -> list[tuple[str, str]]:
    """The pairs of arms that are compared."""
    return [(SCRATCH, PRETRAINED), (SCRATCH, EMBEDDINGS), (EMBEDDINGS, PRETRAINED)]


def picture(runs: dict[str, list[Run]], alt: str) -> "Picture":
    """Test accuracy by epoch, a line for each arm; bands from the lowest seed to the highest."""
    from utils import plots

    values = {
        name: np.array([[100 * one["accuracy"] for one in run.curve] for run in some]) for name, some in runs.items()
    }
    return plots.curves(
        {name: found.mean(0) for name, found in values.items()},
        bands={name: (found.min(0), found.max(0)) for name, found in values.items()},
        x=range(1, 1 + next(iter(values.values())).shape[1]),
        xlabel="epoch",
        ylabel="test accuracy, %",
        alt=alt,
    )


def recorded() -> dict[str, list[Run]]:
    """Summaries of the recorded runs, by name; data/README.md says how they were made."""
    return load_recorded(experiments(), RECORDED)
