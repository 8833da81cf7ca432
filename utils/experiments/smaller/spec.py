"""The experiments of notebook 12, in the size of each profile, and their recorded runs: what makes a model smaller.

First a lookup: a few keys with a value each, and a question for one of them. A model learns it, most of its weights are
cut, and what is left is trained again: from its old values, from new ones, or at other places. Then sentences of six
libraries, few of which have a label: a small model learns from these, or from what a large one says of all of them.

Imports nothing heavy: graders read it too. `utils.experiments.smaller.train` trains.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from utils.experiments import formulas, profiles, sharing
from utils.experiments.experiment import BadRun, Experiment, Metric, Run, Shown
from utils.experiments.runs import five_seeds, recorded_examples
from utils.experiments.summaries import load_recorded

if TYPE_CHECKING:
    from utils.plots import Picture

NOTEBOOK = "12_smaller_models"
RECORDED = Path(__file__).resolve().parents[3] / "data" / "results" / "smaller_models"
seeds = five_seeds  # the student's own
DENSE, REWOUND, NEW, SHUFFLED = "dense", "rewound", "new values", "shuffled mask"
TEACHER, OWN, HARD, SOFT = "teacher", "own labels", "hard labels", "soft labels"
CUT = (REWOUND, NEW, SHUFFLED)
TAUGHT = (OWN, HARD, SOFT)
FEW, FEWEST = "few", "fewest"  # of the weights that are left
METHODS = (DENSE, *CUT, TEACHER, *TAUGHT)
UNIT = 1000  # margins are whole thousandths, see `Smaller`
POINTS = 12  # of the curve of a run
LIBRARIES = 6
# Lan et al. (2020). Table 2: millions of parameters, the average of five tasks, and the speed of training beside that
# of BERT-large.
SIZES_OF_PAPER: dict[str, tuple[int, float, float]] = {
    "BERT-base": (108, 82.3, 4.7),
    "BERT-large": (334, 85.2, 1.0),
    "ALBERT-base": (12, 80.1, 5.6),
    "ALBERT-large": (18, 82.4, 1.7),
    "ALBERT-xlarge": (60, 85.5, 0.6),
    "ALBERT-xxlarge": (235, 88.7, 0.3),
}
# Tables 3 and 4, the same average for ALBERT-base: by the width of its table, where layers share nothing or all; and at
# a width of 128 by what the layers share.
WIDTHS_OF_PAPER: dict[int, tuple[float, float]] = {
    64: (81.3, 79.0),
    128: (81.7, 80.1),
    256: (81.8, 79.6),
    768: (82.3, 79.8),
}
SHARED_OF_PAPER: dict[str, float] = {"nothing": 81.6, "attention": 81.7, "feed-forward": 80.2, "all": 80.1}
LEARNED = 0.9  # the accuracy whose first step is looked for


def _right(run: Run) -> Any:
    """Whether each example's class is its label, and 1 to count."""
    return [(row[0] == label, 1.0) for row, label in zip(run.predictions, run.labels, strict=True)]


METRICS = (Metric("accuracy", "%", _right, formulas.percent),)


@dataclass(frozen=True)
class Smaller(Experiment):
    """A small transformer that answers lookups or names a sentence's library: how it was made smaller.

    A run holds a row for each test example: the class that it was given, and by how much the label's logit is above the
    largest other one, in whole thousandths: seeds have little in common in how sure they are, so that only equality
    tells of copies. Its curve is the accuracy on these examples.

    A seed varies the new weights, the order of the examples, which sentences have labels, dropout, and the mask that is
    shuffled. Sentences are those of libraries on this machine: runs are of one text where their `versions` name one.
    """

    metrics = METRICS

    method: str  # one of METHODS
    sparsity: float  # the share of the layers' matrices that is cut, of CUT
    width: int
    heads: int
    layers: int
    examples: int  # to train on; of sentences, of each library
    test: int  # the same, to test on
    batch: int
    steps: int  # of each training; a run that cuts has two
    lr: float
    keys: int = 0  # that there are, and values that each may have
    asked: int = 0  # keys of an example
    labels: int = 0  # sentences that have one
    teachers: int = 0  # that vote
    teacher_width: int = 0
    teacher_steps: int = 0
    teacher_lr: float = 0.0
    dropout: float = 0.0
    words: int = 0  # of a sentence that are read

    def __post_init__(self):
        if self.method not in METHODS:
            raise ValueError(f"{self.name}: the methods are {', '.join(METHODS)}")
        if self.steps % POINTS or (self.method in CUT) is not (0 < self.sparsity < 1):
            raise ValueError(f"{self.name}: the steps are a multiple of {POINTS}, and what is cut has a sparsity")

    @property
    def is_lookup(self) -> bool:
        """Whether it answers lookups; else it reads sentences."""
        return self.keys > 0

    @property
    def base(self) -> "Smaller":
        """What several arms have in common: the dense model, or the teacher."""
        return replace(self, name="", method=DENSE if self.is_lookup else TEACHER, sparsity=0.0)

    @property
    def classes(self) -> int:
        """How many there are."""
        return self.keys if self.is_lookup else LIBRARIES

    def gold(self) -> list[Any]:
        """The right value of each test question, or each test sentence's library."""
        if self.is_lookup:
            return lookups(self, "test")[1]
        return [label for label in range(LIBRARIES) for _ in range(self.test)]

    @property
    def recorded_examples(self) -> str:
        """That of the recorded runs; blank if there is none of this size."""
        return recorded_examples(self, RECORDED)

    def check(self, run: Run, whole: bool) -> None:
        """A class and a margin that agree for each example, and a curve that ends where they say."""
        for row, label in zip(run.predictions, run.labels, strict=True):
            if type(row) is not list or [*map(type, row)] != [int, int] or not 0 <= row[0] < self.classes:
                raise BadRun(f"its predictions are not a class below {self.classes} and a margin for each example")
            if row[1] and (row[1] > 0) is not (row[0] == label):
                raise BadRun("a margin is not that of the class")
        if len({row[1] for row in run.predictions}) < 2:
            raise BadRun("all its margins are equal, as of no model")
        count = self.teachers if self.method == TEACHER else POINTS
        if len(run.curve) != count or {*run.curve[0]} != {"step", "accuracy"}:
            raise BadRun(f"its curve is not {count} steps with their accuracy")
        if abs(100 * run.curve[-1]["accuracy"] - METRICS[0].of(run)) > 1e-2:
            raise BadRun("its curve ends at an accuracy that is not that of its predictions")

    def count_steps(self, folder: Path | str | None = None) -> int:
        """The points of its curve."""
        return self.teachers if self.method == TEACHER else POINTS


@lru_cache(maxsize=8)  # of each submission it is asked, for each arm
def lookups(experiment: Smaller, split: str) -> tuple[list[list[int]], list[int]]:
    """Questions and their answers, the same for all seeds.

    A question has `asked` keys with a value each, one number for both (keys * key + value), and last the key that is
    asked for.
    """
    draw, keys = random.Random(f"lookups {split}"), experiment.keys
    questions, values = [], []
    for _ in range(experiment.test if split == "test" else experiment.examples):
        some = draw.sample(range(keys), experiment.asked)
        given = [draw.randrange(keys) for _ in some]
        place = draw.randrange(experiment.asked)
        questions.append([keys * key + value for key, value in zip(some, given, strict=True)] + [keys**2 + some[place]])
        values.append(given[place])
    return questions, values


# Method and sparsity; that of the profile smoke is less, see `experiments`.
ARMS: dict[str, tuple[str, float]] = {
    "dense": (DENSE, 0.0),
    **{f"{method}, {left}": (method, cut) for left, cut in ((FEW, 0.97), (FEWEST, 0.99)) for method in CUT},
    **{method: (method, 0.0) for method in (TEACHER, *TAUGHT)},
}
CUT_IN_SMOKE = {0.97: 0.8, 0.99: 0.9}
LOOKUP, SENTENCES = "lookup", "documentation"
SIZES: dict[str, dict[str, dict[str, Any]]] = {
    "smoke": {
        LOOKUP: {"width": 32, "heads": 2, "layers": 1, "examples": 1000, "test": 100, "batch": 32, "steps": 96,
                 "lr": 1e-2, "keys": 4, "asked": 2},
        SENTENCES: {"width": 16, "heads": 2, "layers": 1, "examples": 60, "test": 20, "batch": 16, "steps": 48,
                    "lr": 1e-2, "labels": 18, "teachers": 2, "teacher_width": 32, "teacher_steps": 60,
                    "teacher_lr": 1e-2, "dropout": 0.1, "words": 8},
    },
    "cpu": {
        LOOKUP: {"width": 64, "heads": 4, "layers": 2, "examples": 20_000, "test": 500, "batch": 64, "steps": 300,
                 "lr": 2e-3, "keys": 8, "asked": 6},
        SENTENCES: {"width": 32, "heads": 4, "layers": 1, "examples": 600, "test": 200, "batch": 32, "steps": 396,
                    "lr": 2e-3, "labels": 300, "teachers": 5, "teacher_width": 128, "teacher_steps": 200,
                    "teacher_lr": 5e-3, "dropout": 0.1, "words": 16},
    },
    "gpu": {
        LOOKUP: {"width": 64, "heads": 4, "layers": 2, "examples": 20_000, "test": 1000, "batch": 64, "steps": 300,
                 "lr": 2e-3, "keys": 8, "asked": 6},
        SENTENCES: {"width": 64, "heads": 4, "layers": 1, "examples": 600, "test": 200, "batch": 32, "steps": 600,
                    "lr": 2e-3, "labels": 300, "teachers": 10, "teacher_width": 512, "teacher_steps": 200,
                    "teacher_lr": 5e-3, "dropout": 0.1, "words": 16},
    },
}  # fmt: skip


def experiments(notebook: str = NOTEBOOK, profile: str | None = None) -> dict[str, Smaller]:
    """The experiments of notebook 12 by name, in the order of its table: ARMS.

    `profile` is smoke (tiny models, fewer keys, made-up sentences), cpu or gpu (a larger teacher, more to test on); by
    default that of this session.

    Raises:
        ValueError: there is no such notebook or profile.
    """
    chosen = profiles.chosen(profile, notebook, NOTEBOOK)
    made = {}
    for name, (method, sparsity) in ARMS.items():
        kind = SENTENCES if method in (TEACHER, *TAUGHT) else LOOKUP
        task = kind if chosen != "smoke" else "made-up-lookup" if kind == LOOKUP else "made-up-libraries"
        if chosen == "smoke" and sparsity:
            sparsity = CUT_IN_SMOKE[sparsity]
        made[name] = Smaller(name, task, method, sparsity, **SIZES[chosen][kind])
    return made


def questions(some: Mapping[str, Sequence[Run]]) -> list[tuple[str, str]]:
    """The pairs of experiments that are compared, the same for everyone, as far as there are runs of both."""
    rewound = f"{REWOUND}, {FEWEST}"
    pairs = [(f"{NEW}, {FEWEST}", rewound), (f"{SHUFFLED}, {FEWEST}", rewound)]
    pairs += [(OWN, SOFT), (HARD, SOFT)]
    return [pair for pair in pairs if all(some.get(name) for name in pair)]


def steps_until(run: Run, accuracy: float = LEARNED) -> float:
    """The first step of a run's curve with this accuracy, from 0 to 1; infinite if there is none."""
    return next((point["step"] for point in run.curve if point["accuracy"] >= accuracy), float("inf"))


def picture(some: Mapping[str, Sequence[Run]], names: Sequence[str], alt: str) -> "Picture":
    """The accuracy at each step, for experiments of these names: means over seeds, bands from lowest to highest."""
    from utils import plots

    values = {
        name: 100 * np.array([[point["accuracy"] for point in run.curve] for run in some[name]])
        for name in names
        if some.get(name)
    }
    steps = [point["step"] for name in values for point in some[name][0].curve][:POINTS]
    return plots.curves(
        {name: found.mean(0) for name, found in values.items()},
        x=steps,
        bands={name: (found.min(0), found.max(0)) for name, found in values.items()},
        xlabel="step",
        ylabel="accuracy, %",
        alt=alt,
    )


def trade_off(rows: Mapping[str, tuple[float, float, float]], alt: str) -> "Picture":
    """Accuracy in percent against numbers that are stored, and against microseconds an example.

    rows: name -> accuracy in percent, numbers, seconds.
    """
    from utils import plots

    panels = {
        "numbers that are not 0": {name: (size, right) for name, (right, size, _) in rows.items()},
        "microseconds an example": {name: (1e6 * seconds, right) for name, (right, _, seconds) in rows.items()},
    }
    return plots.points(panels, ylabel="accuracy, %", alt=alt)


def recorded() -> dict[str, list[Run]]:
    """Summaries of the recorded runs, profile cpu, by name; data/README.md says how they were made."""
    return load_recorded(experiments(profile="cpu"), RECORDED)


ALSO_RECORDED = {sharing.RECORDED: sharing.ablations}


def also_shown() -> list[Shown]:
    """What the page of results shows of the runs that students do not make."""
    return sharing.also_shown()
