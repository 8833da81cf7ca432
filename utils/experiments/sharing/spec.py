"""ALBERT's ablations at a small size, and their recorded runs: what layers share, and how wide the table is.

A small causal language model starts from nothing and learns to predict the next piece of documentation. Its layers
share all of their parts, the attention alone, the feed-forward part alone, or nothing. Its table is as wide as the
model, or narrower. Two controls have one layer, and none. ALBERT fills in blanks instead. Models of this size that
fill in blanks learn little more than how frequent the pieces are.

Imports nothing heavy: graders read it too. `utils.experiments.sharing.train` trains.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from utils.experiments import formulas
from utils.experiments.experiment import BadRun, Experiment, Metric, Run, Shown
from utils.experiments.summaries import load_recorded

if TYPE_CHECKING:
    import pandas as pd

    from utils.plots import Picture

RECORDED = Path(__file__).resolve().parents[3] / "data" / "results" / "sharing"
SEARCH = RECORDED.with_name("sharing_search.json")  # what `solutions/12_smaller_models/search.py` tried
NOTHING, ATTENTION, FEED_FORWARD, ALL = "nothing", "attention", "feed-forward", "all"
SHARED = (NOTHING, ATTENTION, FEED_FORWARD, ALL)
ONE_LAYER, WITHOUT_LAYERS = "one layer", "no layers"
SHALLOW = {ONE_LAYER: 1, WITHOUT_LAYERS: 0}  # controls by name: how many layers they have
POINTS = 10  # of the curve of a run
LENGTH = 64  # pieces of a sequence; all but the first are predicted


def _losses(run: Run) -> Any:
    return [(loss, LENGTH - 1) for loss in run.predictions]


METRICS = (Metric("validation loss", "nats", _losses, formulas.ratio, lower_is_better=True, digits=3),)


@dataclass(frozen=True)
class Sharing(Experiment):
    """A causal language model with a table of some width, whose layers share some of their parts.

    A run holds, for each validation sequence, the summed loss of its pieces in nats. Its curve is the training loss.

    A seed varies the weights and the sequences of each step: arms with one seed read the same sequences. The text is
    that of libraries on this machine: runs are of one text where their `versions` name one.
    """

    metrics = METRICS

    shared: str  # one of SHARED: what all layers have in common
    table: int  # its width, E
    width: int
    heads: int
    layers: int
    steps: int
    batch: int
    lr: float
    pieces: int
    length: int = LENGTH
    validation: int = 256  # sequences
    held_out: bool = False  # validate on the last training sequences, to choose rates

    def __post_init__(self):
        if self.shared not in SHARED or self.table > self.width or self.steps % POINTS:
            raise ValueError(
                f"{self.name}: layers share one of {', '.join(SHARED)}, the table is no wider than the model, and the "
                f"steps are a multiple of {POINTS}"
            )

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
    def parameters(self) -> int:
        """How many numbers it learns."""
        d, e = self.width, self.table
        attention, feed = 4 * (d * d + d) + 2 * d, 8 * d * d + 5 * d + 2 * d
        copies = {part: 1 if self.shared in (part, ALL) else self.layers for part in (ATTENTION, FEED_FORWARD)}
        maps = 2 * e * d + d + e if e < d else 0
        table = self.pieces * e + self.length * d + maps + self.pieces + 4 * d
        return table + copies[ATTENTION] * attention + copies[FEED_FORWARD] * feed


SIZE: dict[str, Any] = {
    "task": "documentation", "width": 64, "heads": 4, "layers": 4, "steps": 400, "batch": 16, "pieces": 2000,
}  # fmt: skip
RATE, RATE_WITHOUT_LAYERS = 8e-3, 6.4e-2  # of all arms with layers, and of the one without
WIDTHS = (64, 16, 8)  # of the table; the first is as wide as the model


def name_of(shared: str, table: int = WIDTHS[0]) -> str:
    """What an arm is called."""
    return f"{shared} shared" + (f", E = {table}" if table != WIDTHS[0] else "")


def ablations() -> dict[str, Sharing]:
    """The arms by name: what is shared, narrower tables, and the controls with fewer layers."""
    arms: dict[str, dict[str, Any]] = {name_of(what): {"shared": what, "table": WIDTHS[0]} for what in SHARED}
    arms |= {name_of(NOTHING, table): {"shared": NOTHING, "table": table} for table in WIDTHS[1:]}
    arms |= {name: {"shared": NOTHING, "table": WIDTHS[0], "layers": layers} for name, layers in SHALLOW.items()}
    return {
        name: Sharing(name, **SIZE | more, lr=RATE_WITHOUT_LAYERS if name == WITHOUT_LAYERS else RATE)
        for name, more in arms.items()
    }


def recorded() -> dict[str, list[Run]]:
    """Summaries of the recorded runs by name; data/README.md says how they were made."""
    return load_recorded(ablations(), RECORDED)


def questions() -> list[tuple[str, str]]:
    """The pairs of arms that are compared: most with the model that shares nothing.

    A model with one layer of its own has as many numbers as the one whose layers share all.
    """
    whole, *shared = (name_of(what) for what in SHARED)
    others = [*shared, *(name_of(NOTHING, table) for table in WIDTHS[1:]), WITHOUT_LAYERS]
    return [*((whole, name) for name in others), (ONE_LAYER, name_of(ALL))]


def table(runs: Mapping[str, Sequence[Run]], printed: Mapping[str, float]) -> "pd.DataFrame":
    """A row for each arm: how many numbers it learns, its validation loss over seeds, and what a paper printed.

    Args:
        printed: by what is shared, the average of tasks in the paper's table 4.
    """
    import pandas as pd

    rows = {}
    for name, some in runs.items():
        losses = [METRICS[0].of(run) for run in some]
        rows[name] = [
            f"{ablations()[name].parameters:,}",
            f"{statistics.fmean(losses):.3f} ± {statistics.stdev(losses):.3f}",
            len(losses),
            next((f"{score}" for what, score in printed.items() if name_of(what) == name), ""),
        ]
    columns = [
        "numbers that learn",
        f"validation loss, {METRICS[0].unit}",
        "seeds",
        "Lan et al. (2020), table 4, E = 128",
    ]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def picture(runs: Mapping[str, Sequence[Run]], alt: str) -> "Picture":
    """The mean validation loss of each arm by how many numbers it learns."""
    from utils import plots

    named = {
        name: (ablations()[name].parameters / 1000, statistics.fmean(METRICS[0].of(run) for run in some))
        for name, some in runs.items()
    }
    return plots.points({"thousands of numbers that learn": named}, ylabel="validation loss, nats", alt=alt, log=False)


def also_shown() -> list[Shown]:
    """What the page of results shows of these runs, which students do not make."""
    return [("What layers share, and how wide the table is, from nothing", recorded(), METRICS, questions())]
