"""The experiments of notebook 07, in the size of each profile, and their recorded runs: what masked models learn.

Four of them are rows of the paper's table 8 (Devlin et al. 2019): what stands in the place of a token that is asked
for. A real encoder gets a fresh head and learns to fill in blanks. Two more start from nothing and take equally many
steps: one masks, one reads from left to right.

Imports nothing heavy: graders read it too. `utils.experiments.pretraining.train` trains.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from utils.experiments import formulas, profiles
from utils.experiments.experiment import BadRun, Experiment, Metric, Run, Shown
from utils.experiments.runs import recorded_examples
from utils.experiments.runs import seeds as seeds
from utils.experiments.summaries import load_recorded

if TYPE_CHECKING:
    from utils.experiments.seed_table import Comparison
    from utils.plots import Picture

NOTEBOOK = "07_bert_pretraining"
RECORDED = Path(__file__).resolve().parents[3] / "data" / "results" / "bert_pretraining"
RECORDED_LONGER = RECORDED.with_name("masked_from_nothing")
RECORDED_SIZES = RECORDED.with_name("heads_and_layers")
SEARCH = RECORDED.with_name("heads_and_layers_search.json")  # what `solutions/07_bert_pretraining/search.py` tried
KINDS = ("[MASK]", "kept tokens", "random ones")  # what stands at a validation place, see `Pretraining`
PLACES = 3  # of each kind, in every validation sequence
POINTS = 20  # of the curve of a run
# No honest run has been seen below: 4.6 nats at [MASK] of the packaged encoder after 250 steps, 5.4 after 80.
CEILING = 3.5


def _losses_at(kind: int, run: Run) -> Any:
    return [(row[kind], PLACES) for row in run.predictions]


METRICS = tuple(
    Metric(f"loss at {name}", "nats", partial(_losses_at, kind), formulas.ratio,
           lower_is_better=True, digits=2)
    for kind, name in enumerate(KINDS)
)  # fmt: skip


@dataclass(frozen=True)
class Pretraining(Experiment):
    """A language model: its encoder, its text, what it is asked, and for how many steps.

    A run holds the loss, in nats, of the original tokens at nine places of each validation sequence: three sums of
    three. The places, and what stands there, are the same for all runs: [MASK], the token itself, a random one. A model
    that reads from left to right is asked for the same tokens of the untouched text, and sees what comes before.

    Sums, and no more sequences than these, because the losses of thousands of single places are so alike in their order
    of size that honest seeds would look like one run with its examples in another order (`forgery.PERMUTED`).

    A seed varies the order of the sequences, what is masked, the new weights and dropout. The text is that of libraries
    on this machine: runs are of one text where their `versions` name one.
    """

    metrics = METRICS
    # Nats at [MASK]: four deviations between seeds. `measured` stays False: what rests on it is for a person, since
    # likeness was measured with one text, and other machines have others.
    lead: ClassVar[float] = 0.4

    encoder: str  # tiny, minilm or bert: whose pieces, and if it starts pretrained, whose weights
    split: tuple[float, float, float] | None  # of the chosen tokens: masked, random, kept; None: left to right
    start: str = "pretrained"  # random: a model of `layers` and `width`
    layers: int | None = None  # the first so many; None: all
    width: int | None = None
    pieces: int | None = None  # the most frequent ones, the others are [UNK]; None: the encoder's whole vocabulary
    chosen: float = 0.15
    length: int = 64
    batch: int = 16
    steps: int = 150
    lr: float = 3e-4
    head_lr: float = 2e-3  # of what is new in the head
    warmup: float = 0.1  # share of the steps
    weight_decay: float = 0.01
    validation: int = 128  # sequences

    def __post_init__(self):
        if self.start not in ("random", "pretrained") or (self.start == "random" and not (self.layers and self.width)):
            raise ValueError(f"{self.name}: it starts pretrained, or random with layers and width")
        if self.split is not None and not math.isclose(sum(self.split), 1):
            raise ValueError(f"{self.name}: the shares of the chosen tokens add up to 1")
        if self.steps < POINTS or self.length <= len(KINDS) * PLACES:
            raise ValueError(f"{self.name}: at least {POINTS} steps, and more than {len(KINDS) * PLACES} tokens")

    @property
    def ceiling(self) -> float | None:
        """A loss at [MASK], in nats, that no honest run has reached; the best there is."""
        return CEILING if self.encoder == "minilm" else None

    @property
    def recorded_examples(self) -> str:
        """That of the recorded runs; blank if there is none of this size."""
        return recorded_examples(self, RECORDED)

    def check(self, run: Run, whole: bool) -> None:
        """A loss for each kind of place in every sequence, and a curve of the training loss."""
        wanted = len(KINDS)
        if len(run.predictions) != self.validation:
            raise BadRun(f"it has losses of {len(run.predictions)} sequences instead of {self.validation}")
        for row in run.predictions:
            if type(row) is not list or len(row) != wanted or any(type(loss) is not float or loss < 0 for loss in row):
                raise BadRun(f"its predictions are not {wanted} losses for each sequence, none below 0")
        if run.degenerate:
            raise BadRun("it loses the same in every sequence, which no model does")
        if len(run.curve) != POINTS or {*run.curve[0]} != {"train_loss"}:
            raise BadRun(f"its curve is not {POINTS} times the training loss")

    def count_steps(self, folder: Path | str | None = None) -> int:
        """The steps of the optimiser."""
        return self.steps


@dataclass(frozen=True)
class Sized(Pretraining):
    """A language model from nothing whose number of heads is chosen too."""

    heads: int = 1
    held_out: bool = field(default=False, compare=False)  # tested on the last training sequences, to choose rates


ROWS = {  # the paper's table 8 calls them 80/10/10, 100/0/0, 80/20/0 and 80/0/20: masked, kept, random
    "80 masked, 10 random, 10 kept": (0.8, 0.1, 0.1),
    "all masked": (1.0, 0.0, 0.0),
    "80 masked, 20 kept": (0.8, 0.0, 0.2),
    "80 masked, 20 random": (0.8, 0.2, 0.0),
}
FROM_NOTHING = {"masked, from nothing": (0.8, 0.1, 0.1), "left to right, from nothing": None}


def experiments(notebook: str = NOTEBOOK, profile: str | None = None) -> dict[str, Pretraining]:
    """The experiments of notebook 07 by name, in the order of its table: ROWS, then FROM_NOTHING.

    `profile` is smoke (a tiny encoder, made-up text), cpu (two layers of the packaged encoder, documentation) or gpu
    (bert-base-uncased, documentation); by default that of this session.

    Raises:
        ValueError: there is no such notebook or profile.
    """
    chosen = profiles.chosen(profile, notebook, NOTEBOOK)
    small: dict[str, Any] = {"start": "random", "layers": 1, "width": 48, "length": 24, "validation": 60}
    sizes: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {  # of the rows, and of what starts from nothing
        "smoke": (
            small | {"batch": 32, "steps": 60, "chosen": 0.4},  # more questions a step: it takes seconds
            small | {"steps": 25},
        ),
        "cpu": (
            {"layers": 2, "steps": 80},
            {"start": "random", "layers": 2, "width": 128, "pieces": 4000, "batch": 32, "steps": 120},
        ),
        "gpu": (
            {"length": 128, "batch": 32, "steps": 1000, "lr": 1e-4, "head_lr": 1e-3},
            {"start": "random", "layers": 4, "width": 256, "pieces": 8000, "length": 128, "batch": 32, "steps": 2000},
        ),
    }
    rate = {"smoke": 1.2e-2, "cpu": 1.5e-3, "gpu": 1e-3}[chosen]  # where all is new
    task = "made-up-text" if chosen == "smoke" else "documentation"
    encoder = {"smoke": "tiny", "cpu": "minilm", "gpu": "bert"}[chosen]
    tables: tuple[Mapping[str, tuple[float, float, float] | None], ...] = (ROWS, FROM_NOTHING)
    made = []
    for splits, size in zip(tables, sizes[chosen], strict=True):
        if size.get("start") == "random":
            size |= {"lr": rate, "head_lr": rate}
        made += [Pretraining(name, task, encoder, split, **size) for name, split in splits.items()]
    return {one.name: one for one in made}


SHARES = (0.15, 0.3, 0.5)
LAYERS, HEADS = (1, 2, 4, 8), (1, 3, 12)
MIDDLE = 4, 3  # layers and heads of all the others
# Table 6 of the paper (Devlin et al. 2019): layers, width and heads; perplexity of held-out masked tokens, and accuracy
# on MNLI-m, MRPC and SST-2, all on development sets.
TABLE_6 = {
    (3, 768, 12): (5.84, 77.9, 79.8, 88.4),
    (6, 768, 3): (5.24, 80.6, 82.2, 90.7),
    (6, 768, 12): (4.68, 81.9, 84.8, 91.3),
    (12, 768, 12): (3.99, 84.4, 86.7, 92.9),
    (12, 1024, 16): (3.54, 85.7, 86.9, 93.3),
    (24, 1024, 16): (3.23, 86.6, 87.8, 93.7),
}
LONG: dict[str, Any] = {  # settings of the models below, from nothing
    "start": "random", "width": 192, "pieces": 8000, "batch": 64, "steps": 1500, "lr": 1e-3, "head_lr": 1e-3,
}  # fmt: skip
LENGTHS = (1500, 6000)  # steps of the models with a number of layers and heads
SIZES = [(count, MIDDLE[1]) for count in LAYERS] + [(MIDDLE[0], count) for count in HEADS if count != MIDDLE[1]]
# By layers, heads and steps, where the best of the recorded search is another one than that of LONG.
RATES = dict.fromkeys([(1, 3, 6000), (2, 3, 6000), (4, 3, 6000)], 2e-3)


def _from_nothing(name: str, profile: str, **more: Any) -> Sized:
    """A model of LONG, or of the size smoke."""
    task, encoder, settings = "documentation", "minilm", LONG | more
    if profile == "smoke":
        task, encoder = "made-up-text", "tiny"
        settings |= {"width": 48, "length": 24, "steps": 25, "pieces": None, "batch": 8, "validation": 60}
    return Sized(name, task, encoder, ROWS["80 masked, 10 random, 10 kept"], **settings)


def longer(profile: str = "cpu") -> dict[str, Sized]:
    """Models from nothing that students do not run, by name: SHARES of masked tokens."""
    layers, heads = MIDDLE
    return {
        name: _from_nothing(name, profile, chosen=share, layers=layers, heads=heads)
        for share, name in ((share, f"{share:.0%} masked") for share in SHARES)
    }


def name_of(layers: int, heads: int, steps: int) -> str:
    """What a model with so many layers and heads is called."""
    return (
        f"{layers} {'layer' if layers == 1 else 'layers'}, {heads} {'head' if heads == 1 else 'heads'}, {steps:,} steps"
    )


def sizes(profile: str = "cpu") -> dict[str, Sized]:
    """Models from nothing with SIZES, for LENGTHS steps, each at a rate of its own; students do not run them."""
    made = {}
    for steps in LENGTHS:
        for layers, heads in SIZES:
            name, rate = name_of(layers, heads, steps), RATES.get((layers, heads, steps), LONG["lr"])
            more = {"layers": layers, "heads": heads, "steps": steps, "lr": rate, "head_lr": rate}
            made[name] = _from_nothing(name, profile, **more)
    return made


def picture(runs: Mapping[str, Sequence[Run]], alt: str) -> "Picture":
    """The mean loss of each experiment at each kind of place; the bars' ends are one standard deviation over seeds."""
    from utils import plots

    values = {name: np.array([[one.of(run) for run in some] for one in METRICS]) for name, some in runs.items()}
    return plots.bars(
        {name: found.mean(1) for name, found in values.items()},
        errors={name: found.std(1, ddof=1) for name, found in values.items() if found.shape[1] > 1},
        labels=list(KINDS),
        xlabel="what stands at the place",
        ylabel="loss, nats",
        alt=alt,
    )


def learning(runs: Mapping[str, Sequence[Run]], alt: str) -> "Picture":
    """The training loss of each experiment over its steps; the bands run from the lowest seed to the highest."""
    from utils import plots

    values = {
        name: np.array([[point["train_loss"] for point in run.curve] for run in some]) for name, some in runs.items()
    }
    steps = max(some[0].experiment["steps"] for some in runs.values())
    return plots.curves(
        {name: found.mean(0) for name, found in values.items()},
        bands={name: (found.min(0), found.max(0)) for name, found in values.items()},
        x=np.linspace(steps / POINTS, steps, POINTS),
        xlabel="steps",
        ylabel="training loss, nats",
        alt=alt,
    )


def recorded() -> dict[str, list[Run]]:
    """Summaries of the recorded runs, profile cpu, by name; data/README.md says how they were made."""
    return load_recorded(experiments(profile="cpu"), RECORDED)


def recorded_longer() -> dict[str, list[Run]]:
    """Summaries of the recorded runs of `longer`, by name."""
    return load_recorded(longer(), RECORDED_LONGER)


def recorded_sizes() -> dict[str, list[Run]]:
    """Summaries of the recorded runs of `sizes`, by name."""
    return load_recorded(sizes(), RECORDED_SIZES)


ALSO_RECORDED = {RECORDED_LONGER: longer, RECORDED_SIZES: sizes}


def compared(some: Mapping[str, Sequence[Run]]) -> "list[Comparison]":
    """The comparisons of the notebook: each row with BERT's by each metric, and the two from nothing by the first.

    Those of one metric, and that of the two from nothing, are each corrected by themselves, as in the notebook. The
    metric is named with the second experiment.
    """
    from utils.experiments.seed_table import SeedTable

    bert, *others = ROWS
    asked = [(metric, [(bert, other) for other in others]) for metric in METRICS]
    masked, reads_on = FROM_NOTHING
    asked.append((METRICS[0], [(masked, reads_on)]))
    return [
        replace(one, second=f"{metric.name}: {one.second}")
        for metric, pairs in asked
        for one in SeedTable(some, metric).compared(pairs)
    ]


def shares_compared() -> list[tuple[str, str]]:
    """The pairs of models that differ in the share of masked tokens."""
    usual, *others = (f"{share:.0%} masked" for share in SHARES)
    return [(usual, other) for other in others]


def sizes_compared(steps: int) -> list[tuple[str, str]]:
    """The pairs of models that differ in heads, or have twice as many layers, after so many steps."""
    layers, heads = MIDDLE
    pairs = [((layers, heads), (layers, count)) for count in HEADS if count != heads]
    pairs += [((first, heads), (second, heads)) for first, second in itertools.pairwise(LAYERS)]
    return [(name_of(*first, steps), name_of(*second, steps)) for first, second in pairs]


def also_shown() -> list[Shown]:
    """What the page of results shows of the runs that students do not make."""
    shares = ("Shares of masked tokens, from nothing, with one learning rate for all", recorded_longer(), METRICS)
    shown: list[Shown] = [(*shares, shares_compared())]
    for steps in LENGTHS:
        runs = {name: some for name, some in recorded_sizes().items() if some[0].experiment["steps"] == steps}
        title = f"Heads and layers, from nothing, each with a learning rate of its own, {steps:,} steps"
        shown.append((title, runs, METRICS, sizes_compared(steps)))
    return shown
