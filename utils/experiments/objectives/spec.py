"""The experiments of notebook 11, in the size of each profile, and their recorded runs: three other questions.

Two arms each, which differ in nothing else: the same mask of a sentence in all epochs or a new one in each; sentences
and their translations in one row that attend to each other or not; pairs that are wrong by another document or by their
order.

Imports nothing heavy: graders read it too. `utils.experiments.objectives.train` trains.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from utils.experiments import formulas, profiles, spans
from utils.experiments.experiment import BadRun, Experiment, Metric, Run, Shown
from utils.experiments.runs import five_seeds, recorded_examples
from utils.experiments.summaries import load_recorded

if TYPE_CHECKING:
    import pandas as pd

    from utils.experiments.seed_table import Comparison
    from utils.plots import Picture

NOTEBOOK = "11_other_objectives"
RECORDED = Path(__file__).resolve().parents[3] / "data" / "results" / "objectives"
seeds = five_seeds  # the student's own
POINTS = 8  # of the curve of a run with masks
STATIC, DYNAMIC = "one mask", "dynamic masks"
MLM, TLM = "each language alone", "translations side by side"
NSP, SOP = "next sentence", "sentence order"
TASKS = ("nsp", "sop")  # of 11.7, in the order of a row of predictions


def _losses(run: Run) -> Any:
    return run.predictions


def _hits(run: Run) -> Any:
    """For each sentence how often its translation was found, of the two ways; the label is its place."""
    found = zip(run.predictions, run.labels, strict=True)
    return [(sum(guess == label for guess in row[:2]), 2.0) for row, label in found]


def _right(task: int, run: Run) -> Any:
    """Whether the margin of a task's pair is on the side of its label."""
    rows = zip(run.predictions, run.labels, strict=True)
    return [((row[task] > 0) is (label[task] == 1), 1.0) for row, label in rows]


@dataclass(frozen=True)
class Objective(Experiment):
    """What the three kinds share. The sentences are those of libraries on this machine: see `examples_of`."""

    batch: int
    lr: float
    test: int  # sentences or pairs
    width: int

    @property
    def recorded_examples(self) -> str:
        """That of the recorded runs; blank if there is none of this size."""
        return recorded_examples(self, RECORDED)


def _rows(run: Run, count: int, kinds: Sequence[type], what: str) -> None:
    """Refuse predictions that are not `count` rows of these types."""
    if len(run.predictions) != count or any(
        type(row) is not list or [*map(type, row)] != [*kinds] for row in run.predictions
    ):
        raise BadRun(f"its predictions are not {what}")


@dataclass(frozen=True)
class Masks(Objective):
    """A small encoder, from nothing, fills blanks of a few sentences over many epochs: `copies` masks of each.

    A run holds for each test sentence, from other files, the sum of the losses at its blanks, in nats, and how many
    there are; and as a curve the mean training loss since the last point, and the loss at the test sentences.

    A seed varies the weights, the order, the masks, and which sentences of the pool it learns from.
    """

    metrics = (Metric("test loss", "nats", _losses, formulas.ratio, lower_is_better=True, digits=2),)

    steps: int = 0
    copies: int | None = None  # masks of a sentence; None: a new one in each epoch
    pool: int = 0  # sentences, of which a seed draws `sentences`
    sentences: int = 0
    words: int = 0  # the most frequent ones; all others are read as one
    layers: int = 2
    rate: float = 0.15

    def __post_init__(self):
        if self.steps < POINTS or not self.batch <= self.sentences <= self.pool:
            raise ValueError(f"{self.name}: at least {POINTS} steps, and sentences for a batch that are in the pool")

    def count_steps(self, folder: Path | str | None = None) -> int:
        """The steps of the optimiser."""
        return self.steps

    def check(self, run: Run, whole: bool) -> None:
        """Losses with their counts, and a curve of both losses that ends where they do."""
        _rows(run, self.test, (float, int), f"{self.test} sums of losses with their counts")
        if any(loss < 0 or count < 1 for loss, count in run.predictions):
            raise BadRun("a sentence has no blank, or a loss below 0")
        if len(run.curve) != POINTS or {*run.curve[0]} != {"train_loss", "test_loss"}:
            raise BadRun(f"its curve is not {POINTS} times both losses")
        if abs(run.curve[-1]["test_loss"] - self.metrics[0].of(run)) > 0.01:
            raise BadRun("its curve does not end at the loss of its predictions")


@dataclass(frozen=True)
class Translations(Objective):
    """A small encoder, from nothing, fills blanks in sentences and their translations into a made-up language.

    The second language has the words of the first under other numbers, and each two neighbours change places. In every
    second batch both sentences of a row see each other, if `across`; all else is the same.

    A run holds for each test sentence which translation is nearest to it, by the means of their states, how far the
    right one is ahead of the best other one (cosines), and the same from the translation's side: two places, then two
    margins. The curve is of the training losses in batches of both kinds.
    """

    metrics = (Metric("translations found", "%", _hits, formulas.percent),)

    steps: int = 0
    across: bool = False
    words: int = 0
    layers: int = 2
    rate: float = 0.3

    def count_steps(self, folder: Path | str | None = None) -> int:
        """The steps of the optimiser."""
        return self.steps

    def gold(self) -> list[Any]:
        """The place of each sentence's translation: its own."""
        return list(range(self.test))

    def check(self, run: Run, whole: bool) -> None:
        """Places that there are, and margins that say the same as these."""
        _rows(run, self.test, (int, int, float, float), f"{self.test} times two places and two margins")
        for row, label in zip(run.predictions, run.labels, strict=True):
            if not all(0 <= place < self.test for place in row[:2]):
                raise BadRun("a sentence that is not there is found")
            if any(
                margin and (margin > 0) is not (place == label) for place, margin in zip(row[:2], row[2:], strict=True)
            ):
                raise BadRun("a margin is not that of the sentence that was found")
        if not any(row[2] for row in run.predictions):
            raise BadRun("it has no margins")


@dataclass(frozen=True)
class Order(Objective):
    """A head on the vectors of two sentences, from a frozen encoder, learns one of two tasks and is tested in both.

    A run holds for each place of the test two margins, of the label 1 over 0: for a pair of NSP, and for one of SOP.
    Every second pair is wrong. A seed varies the weights, the order, dropout, and which pairs are wrong in training.
    """

    metrics = (
        Metric("tested on NSP", "%", partial(_right, 0), formulas.percent),
        Metric("tested on SOP", "%", partial(_right, 1), formulas.percent),
    )

    encoder: str = ""  # tiny or minilm or bert
    learned: str = ""  # one of TASKS
    documents: int = 0
    epochs: int = 0

    def __post_init__(self):
        if self.learned not in TASKS:
            raise ValueError(f"{self.name}: the tasks are {' and '.join(TASKS)}")

    def count_steps(self, folder: Path | str | None = None) -> int:
        """The epochs."""
        return self.epochs

    def gold(self) -> list[Any]:
        """Every second pair of either task is wrong."""
        return [[place % 2] * len(TASKS) for place in range(self.test)]

    def check(self, run: Run, whole: bool) -> None:
        """Two margins a place."""
        _rows(run, self.test, [float] * len(TASKS), f"{self.test} times two margins")


def experiments(notebook: str = NOTEBOOK, profile: str | None = None) -> dict[str, Objective]:
    """The experiments of notebook 11 by name: two of each kind.

    `profile` is smoke (made-up text, a tiny encoder), cpu (documentation, the packaged encoder) or gpu (more of it,
    bert-base-uncased); by default that of this session.

    Raises:
        ValueError: there is no such notebook or profile.
    """
    chosen = profiles.chosen(profile, notebook, NOTEBOOK)
    task = "made-up-text" if chosen == "smoke" else "documentation"
    masks, translations, order = SIZES[chosen]
    made: list[Objective] = [
        *(Masks(name, task, copies=copies, **masks) for name, copies in ((STATIC, 1), (DYNAMIC, None))),
        *(Translations(name, task, across=across, **translations) for name, across in ((MLM, False), (TLM, True))),
        *(Order(name, task, learned=learned, **order) for name, learned in zip((NSP, SOP), TASKS, strict=True)),
    ]
    return {one.name: one for one in made}


SIZES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "smoke": (
        {
            "steps": 60,
            "batch": 20,
            "lr": 1e-2,
            "test": 40,
            "width": 32,
            "pool": 60,
            "sentences": 40,
            "words": 60,
            "layers": 1,
        },
        {"steps": 120, "batch": 16, "lr": 1e-2, "test": 40, "width": 32, "words": 40, "layers": 1},
        {
            "batch": 32,
            "lr": 1e-2,
            "test": 60,
            "width": 32,
            "encoder": "tiny",
            "documents": 120,
            "epochs": 24,
        },
    ),
    "cpu": (
        {
            "steps": 300,
            "batch": 64,
            "lr": 2e-3,
            "test": 600,
            "width": 64,
            "pool": 3000,
            "sentences": 1000,
            "words": 2500,
        },
        {"steps": 500, "batch": 48, "lr": 5e-3, "test": 400, "width": 64, "words": 600},
        {
            "batch": 128,
            "lr": 1e-3,
            "test": 1000,
            "width": 128,
            "encoder": "minilm",
            "documents": 2000,
            "epochs": 12,
        },
    ),
    "gpu": (
        {
            "steps": 3000,
            "batch": 128,
            "lr": 1e-3,
            "test": 1000,
            "width": 256,
            "pool": 12000,
            "sentences": 6000,
            "words": 8000,
            "layers": 4,
        },
        {"steps": 3000, "batch": 128, "lr": 1e-3, "test": 500, "width": 128, "words": 1500, "layers": 3},
        {
            "batch": 128,
            "lr": 1e-3,
            "test": 2000,
            "width": 128,
            "encoder": "bert",
            "documents": 6000,
            "epochs": 12,
        },
    ),
}


def questions(some: Mapping[str, Sequence[Run]]) -> list[tuple[str, str, Metric]]:
    """The pairs of experiments that are compared, and by what, the same for everyone, as far as there are runs."""
    nsp, sop = Order.metrics
    pairs = [
        (STATIC, DYNAMIC, Masks.metrics[0]),
        (MLM, TLM, Translations.metrics[0]),
        (SOP, NSP, nsp),
        (NSP, SOP, sop),
    ]
    return [pair for pair in pairs if all(some.get(name) for name in pair[:2])]


def compared(some: Mapping[str, Sequence[Run]]) -> "list[Comparison]":
    """What the second arm of each pair has more than the first, with Holm's correction for all of them together."""
    from utils.experiments.seed_table import compare, holm

    return holm([compare(some[first], some[second], metric) for first, second, metric in questions(some)])


def table(some: Mapping[str, Sequence[Run]]) -> "pd.DataFrame":
    """Experiments down, what was measured across: means over seeds, standard deviations in brackets."""
    import pandas as pd

    from utils.experiments.seed_table import across

    parts = []
    for kind in (Masks, Translations, Order):
        names = [one.name for one in experiments(profile="cpu").values() if type(one) is kind and some.get(one.name)]
        parts += [across({name: some[name] for name in names}, kind.metrics)] if names else []
    return pd.concat(parts).fillna("")


def learning(some: Mapping[str, Sequence[Run]], alt: str) -> "Picture":
    """The test loss of both arms with masks, and their training loss, over the steps.

    Lines are means over seeds; bands go from the lowest seed to the highest.
    """
    from utils import plots

    values = {
        f"{name}, {which.partition('_')[0]}": np.array([[point[which] for point in run.curve] for run in some[name]])
        for which in ("test_loss", "train_loss")
        for name in (STATIC, DYNAMIC)
    }
    steps = some[STATIC][0].experiment["steps"]
    return plots.curves(
        {name: found.mean(0) for name, found in values.items()},
        bands={name: (found.min(0), found.max(0)) for name, found in values.items()},
        x=np.linspace(steps / POINTS, steps, POINTS),
        xlabel="steps",
        ylabel="loss, nats",
        alt=alt,
    )


def crossed(some: Mapping[str, Sequence[Run]], alt: str) -> "Picture":
    """Accuracy from 0 to 1, means over seeds: what a head was trained on, down, and what it was tested on, across."""
    from utils import plots

    means = [[np.mean([one.of(run) for run in some[name]]) / 100 for one in Order.metrics] for name in (NSP, SOP)]
    names = [task.upper() for task in TASKS]
    rows = [f"trained on {name}" for name in names]
    return plots.tables({"accuracy": means}, rows=rows, columns=names, alt=alt, limits=(0.4, 0.9))


def recorded() -> dict[str, list[Run]]:
    """Summaries of the recorded runs, profile cpu, by name; data/README.md says how they were made."""
    return load_recorded(experiments(profile="cpu"), RECORDED)


ALSO_RECORDED = {spans.RECORDED: spans.arms}


def also_shown() -> list[Shown]:
    """What the page of results shows of the runs that students do not make."""
    return spans.also_shown()
