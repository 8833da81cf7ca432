"""ALBERT's ablations at a small size, and their recorded runs: the width of the table, and what the layers share.

A small masked language model starts from nothing and learns the documentation. Its table is narrow or as wide as the
model, and its layers share all of their parts, the attention alone, the feed-forward part alone, or nothing. Two arms
learn without dropout, and one from a quarter of the text.

Imports nothing heavy: graders read it, too. `utils.experiments.sharing.train` trains.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from utils.experiments import formulas
from utils.experiments.experiment import BadRun, Experiment, Metric, Run
from utils.experiments.summaries import load_recorded

if TYPE_CHECKING:
    from utils.plots import Picture

RECORDED = Path(__file__).resolve().parents[3] / "data" / "results" / "sharing"
SEARCH = RECORDED.with_name("sharing_search.json")
LAYERS = RECORDED.with_name("sharing_layers.json")
NOTHING, ATTENTION, FEED_FORWARD, ALL = "nothing", "attention", "feed-forward", "all"
SHARED = (NOTHING, ATTENTION, FEED_FORWARD, ALL)
TITLES = {NOTHING: "not shared", ATTENTION: "attention shared", FEED_FORWARD: "feed-forward shared", ALL: "all shared"}
POINTS = 12  # of the curve of a run
PLACES = 9  # masked tokens of each sequence, in training and in the test


def _losses(run: Run) -> Any:
    return [(loss, PLACES) for loss in run.predictions]


METRICS = (Metric("masked loss", "nats", _losses, formulas.ratio, lower_is_better=True, digits=2),)


@dataclass(frozen=True)
class Sharing(Experiment):
    """A masked language model with a table of some width, whose layers share some of their parts.

    A run holds, for each validation sequence, the summed loss of its masked tokens in nats. The masked places are the
    same in all runs. Its curve is of the training loss.

    A seed varies the weights, the order of the sequences, what is masked, and dropout. The text is that of libraries on
    this machine: runs are of one text where their `versions` name one.
    """

    metrics = METRICS

    table: int  # its width, E; the width of the model, if it is not factorised
    shared: str  # one of SHARED: what all layers have in common
    width: int
    heads: int
    layers: int
    steps: int
    batch: int
    lr: float
    dropout: float = 0.1
    text: float = 1.0  # the share of the training text that it learns from
    pieces: int = 4000
    length: int = 64
    validation: int = 256

    def __post_init__(self):
        if self.shared not in SHARED or self.table > self.width or self.steps % POINTS:
            raise ValueError(f"{self.name}: layers share {', '.join(SHARED)}, and the steps are a multiple of {POINTS}")

    def check(self, run: Run, whole: bool) -> None:
        """A loss for each validation sequence, and a curve."""
        if len(run.predictions) != self.validation or any(type(loss) is not float for loss in run.predictions):
            raise BadRun(f"its predictions are not a loss for each of {self.validation} sequences")
        if len(run.curve) != POINTS or {*run.curve[0]} != {"step", "train_loss"}:
            raise BadRun(f"its curve is not {POINTS} steps with their training loss")

    def count_steps(self, folder: Path | str | None = None) -> int:
        """The points of its curve."""
        return POINTS

    @property
    def numbers(self) -> int:
        """How many numbers it learns."""
        d, e = self.width, self.table
        attention, feed = 4 * (d * d + d) + 2 * d, 8 * d * d + 5 * d + 2 * d
        copies = {part: 1 if self.shared in (part, ALL) else self.layers for part in (ATTENTION, FEED_FORWARD)}
        table = self.pieces * e + self.length * d + (e * d + d if e < d else 0)
        head = d * e + e + 2 * e + self.pieces
        return table + 2 * d + head + copies[ATTENTION] * attention + copies[FEED_FORWARD] * feed


SIZE: dict[str, Any] = {"task": "documentation", "width": 128, "heads": 4, "layers": 4, "steps": 1200, "batch": 64}
WIDTHS, NARROW = (16, 32, 64, 128), 32
RATES: dict[str, float] = {}  # by arm: the best of the recorded search


def name_of(shared: str, width: int) -> str:
    """The name of an arm by what its layers share and the width of its table."""
    return f"{TITLES[shared]}, E {width}"


ARMS: dict[str, dict[str, Any]] = {
    **{name_of(kind, width): {"shared": kind, "table": width} for kind in (NOTHING, ALL) for width in WIDTHS},
    **{name_of(kind, NARROW): {"shared": kind, "table": NARROW} for kind in (ATTENTION, FEED_FORWARD)},
    **{f"{TITLES[kind]}, no dropout": {"shared": kind, "table": NARROW, "dropout": 0.0} for kind in (NOTHING, ALL)},
    "not shared, a quarter of the text": {"shared": NOTHING, "table": NARROW, "text": 0.25},
}
# Lan et al. (2020), averages of five tasks, by the arm that asks the same here. Theirs are ALBERT-base, 768 wide, with
# tables of 64, 128, 256 and 768 (table 3), and at 128 layers that share a part (table 4); more text (table 7); and
# ALBERT-xxlarge, with and without dropout (table 8).
PAPER: dict[str, float] = {
    **{name_of(NOTHING, here): score for here, score in zip(WIDTHS, (81.3, 81.7, 81.8, 82.3), strict=True)},
    **{name_of(ALL, here): score for here, score in zip(WIDTHS, (79.0, 80.1, 79.6, 79.8), strict=True)},
    name_of(ATTENTION, NARROW): 81.7,
    name_of(FEED_FORWARD, NARROW): 80.2,
}
PAPER_MORE = {"more text": (80.1, 80.8), "no dropout": (90.4, 90.7)}  # before and after
# Its table 2: millions of parameters, the average of five tasks, and the speed of training beside BERT-large's.
PAPER_SIZES: dict[str, tuple[int, float, float]] = {
    "BERT-base": (108, 82.3, 4.7),
    "BERT-large": (334, 85.2, 1.0),
    "ALBERT-base": (12, 80.1, 5.6),
    "ALBERT-large": (18, 82.4, 1.7),
    "ALBERT-xlarge": (60, 85.5, 0.6),
    "ALBERT-xxlarge": (235, 88.7, 0.3),
}


def ablations() -> dict[str, Sharing]:
    """The arms by name."""
    return {name: Sharing(name, **SIZE, lr=RATES.get(name, 2e-3), **more) for name, more in ARMS.items()}


def recorded() -> dict[str, list[Run]]:
    """Summaries of the recorded runs by name; data/README.md says how they were made."""
    return load_recorded(ablations(), RECORDED)


def recorded_layers() -> dict[str, dict[str, list[float]]]:
    """How far each layer moves a state in the recorded runs: `distance` and `cosine` by arm, means over seeds."""
    return json.loads(LAYERS.read_text())


def beside_the_paper(some: Mapping[str, Sequence[Run]]) -> str:
    """A line for each arm: how many numbers it learns, its loss over seeds, and the paper's average score."""
    lines = [f"{'':34}{'numbers':>9}  {'masked loss, nats':>18}  {'paper, average':>14}"]
    for name, runs in some.items():
        losses = np.array([METRICS[0].of(run) for run in runs])
        spread = f"{losses.mean():.3f} ± {losses.std(ddof=1):.3f}" if len(losses) > 1 else f"{losses.mean():.3f}"
        lines.append(f"{name:34}{ablations()[name].numbers:9,}  {spread:>18}  {PAPER.get(name, ''):>14}")
    return "\n".join(lines)


def questions(some: Mapping[str, Sequence[Run]]) -> list[tuple[str, str]]:
    """The pairs of arms that are compared, as far as there are runs of both."""
    whole = name_of(NOTHING, NARROW)
    pairs = [
        (name_of(kind, width), name_of(kind, NARROW)) for kind in (NOTHING, ALL) for width in WIDTHS if width != NARROW
    ]
    pairs += [(whole, name_of(kind, NARROW)) for kind in (ATTENTION, FEED_FORWARD, ALL)]
    pairs += [(name_of(kind, NARROW), f"{TITLES[kind]}, no dropout") for kind in (NOTHING, ALL)]
    pairs += [("not shared, a quarter of the text", whole)]
    return [pair for pair in pairs if all(some.get(name) for name in pair)]


def picture(some: Mapping[str, Sequence[Run]], alt: str) -> "Picture":
    """The masked loss by the width of the table, for layers that share nothing and all: means over seeds."""
    from utils import plots

    means = {name: sum(METRICS[0].of(run) for run in runs) / len(runs) for name, runs in some.items()}
    lines = {TITLES[kind]: [means[name_of(kind, width)] for width in WIDTHS] for kind in (NOTHING, ALL)}
    return plots.curves(lines, x=WIDTHS, xlabel="width of the table", ylabel="masked loss, nats", alt=alt)
