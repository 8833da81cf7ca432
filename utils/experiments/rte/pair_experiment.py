"""Experiments on sentence pairs, as notebooks 05 and 06 run them, and what is known of their honest runs.

Imports nothing heavy: graders read it, too. `utils.experiments.rte.train` trains.
"""

import importlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from utils.experiments.experiment import BadRun, Experiment, Run

IN_GRADING = True  # kernels may read it: it holds no answer, see utils.grading.forbidden
VARIES = ("head", "order", "dropout")
GOLD = Path(__file__).resolve().parents[3] / "data" / "results" / "gold.json"
# No honest run of an encoder has been seen or reported above: minilm 68% (ours, after MNLI), bert-base-uncased 75
# to 80 (after MNLI); from random weights 56 (ours), and 57 (bert, two deviations above the reported mean).
CEILING = {"minilm": 75.0, "bert": 85.0}
RANDOM_CEILING = 65.0


@dataclass(frozen=True)
class PairExperiment(Experiment):
    """A classifier of sentence pairs: model, data, schedule, and what a seed varies.

    `after` holds experiments that are run first, once, with seed 0: one with method `full` hands on its
    encoder, those with method `adapter` or `published` hand their adapters to a fusion.
    """

    loop = "utils.experiments.rte.train"
    lead: ClassVar[float] = 6.0  # points: four deviations between seeds
    # By kind of device and precision, the likeness below which two runs with one seed differ. Measured with the
    # experiment `pretrained` on its first 640 pairs (120 steps) on a CPU: with float32, one thread and two end at the
    # same training loss, validation loss and accuracy in all six digits; 0.95 is chosen, below what a repeat should
    # reach. bfloat16 against float32 was compared by losses alone (3e-4 in training, 3e-5 in validation), GPUs not.
    tolerance: ClassVar = {("cpu float32", "cpu float32"): 0.95, ("cpu bfloat16", "cpu bfloat16"): 0.95}

    encoder: str  # tiny, minilm or bert
    start: str = "pretrained"  # the encoder's weights: random or pretrained
    method: str = "full"  # full, adapter, fusion; published: an adapter of the hub, not trained here
    after: tuple["PairExperiment", ...] = ()
    train_examples: int | None = None  # at most so many, the first ones
    epochs: int = 3
    batch: int = 16
    lr: float = 5e-5
    warmup: float = 0.1  # share of the steps
    weight_decay: float = 0.01
    max_len: int = 128
    varies: tuple[str, ...] = VARIES

    def __post_init__(self):
        if set(self.varies) - set(VARIES):
            raise ValueError(f"a seed can vary {', '.join(VARIES)}, not {', '.join(set(self.varies) - set(VARIES))}")
        if self.start not in ("random", "pretrained") or self.method not in ("full", "adapter", "fusion", "published"):
            raise ValueError(f"{self.name}: no start {self.start!r} with method {self.method!r}")
        if min(self.epochs, self.batch, self.max_len) < 1 or self.lr <= 0 or not 0 <= self.warmup <= 1:
            raise ValueError(f"{self.name}: epochs, batch, max_len and lr are positive, warmup is from 0 to 1")

    @property
    def ceiling(self) -> float | None:
        """An accuracy, in percent, that no honest run has passed."""
        known = CEILING.get(self.encoder)
        return min(known, RANDOM_CEILING) if known and self.start == "random" else known

    @property
    def measured(self) -> bool:
        """The figures of `utils.experiments.likeness` are those of this encoder."""
        return self.encoder == "minilm"

    @property
    def learns(self) -> bool:
        """Of a pretrained encoder that is trained as a whole, some seeds do."""
        return self.method == "full" and self.start == "pretrained"

    def seeds_of(self, seed: int) -> dict[str, int]:
        """The seeds of head, order and dropout: they follow from `seed` for what varies, from 0 for the rest.

        No two parts have the same, neither of one run nor of two runs that differ in their seed.
        """
        return {what: 3 * (seed if what in self.varies else 0) + place for place, what in enumerate(VARIES)}

    def gold(self) -> list[int]:
        """The validation labels of the task."""
        if self.made_up:
            from data import pairs

            return pairs.load(self.task, "validation").labels
        return json.loads(GOLD.read_text())[self.task]

    def check(self, run: Run, whole: bool) -> None:
        """Logits of as many classes as there are, a curve of all epochs, and today also the logits of each."""
        classes = max(run.labels) + 1
        if not run.logits or len(run.logits[0]) != classes:
            raise BadRun(f"it has logits of {len(run.logits[0]) if run.logits else 0} classes instead of {classes}")
        if len(run.curve) != self.epochs:
            raise BadRun(f"its curve has {len(run.curve)} epochs instead of {self.epochs}")
        if whole and len(run.epochs) != self.epochs - 1:
            raise BadRun("it lacks the logits of its epochs: it was made with an older version of the course's files")

    def count_steps(self, folder: Path | str | None = None) -> int:
        """The steps of the optimiser, of one run."""
        return _training().steps_of(self, _training().train_size(self, folder))

    def prepare(self, folder: Path | str | None = None) -> None:
        """Train what it hands on to experiments that come after it, unless the cache has that."""
        _training().prepare(self, folder)


def _training() -> Any:
    return importlib.import_module("utils.experiments.rte.train")  # which imports this module, and torch
