"""The experiments of notebook 10, in the size of each profile, and their recorded runs: what a memory is good for.

Four of them read random tokens that come again after a period: nothing but the token one period ago tells what comes.
Two read source text: there the memory saves the first places of each segment from having nothing before them.

Imports nothing heavy: graders read it too. `utils.experiments.longer_context.train` trains.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from utils.experiments import formulas, profiles
from utils.experiments.experiment import BadRun, Experiment, Metric, Run, Shown
from utils.experiments.runs import five_seeds, recorded_examples
from utils.experiments.summaries import Summary, load_recorded

if TYPE_CHECKING:
    from utils.plots import Picture

NOTEBOOK = "10_longer_context"
RECORDED = Path(__file__).resolve().parents[3] / "data" / "results" / "longer_context"
seeds = five_seeds  # the student's own
UNIT = 1000  # losses of random tokens are whole thousandths of a nat, see `LongerContext`
POINTS = 10  # of the curve of a run, in nats: no `train_loss`, which would have to fall, where nothing can be learned
COPY, TEXT = "period", "source"
BY_PLACE = "loss by place"  # which a summary holds


def _losses_at(first: float, last: float, run: Run) -> Any:
    """What each text loses at the places from `first` to `last`, as shares of a segment, and how many these are."""
    T = run.experiment["length"]
    low, high, unit = round(first * T), round(last * T), UNIT if run.experiment["period"] else 1
    return [(sum(row[low:high]) / unit, high - low) for row in run.predictions]


METRICS = tuple(
    Metric(name, "nats", partial(_losses_at, *places), formulas.ratio,
           lower_is_better=True, digits=2)
    for name, places in (("loss", (0, 1)), ("first eighth", (0, 1 / 8)), ("second half", (1 / 2, 1)))
)  # fmt: skip


@dataclass(frozen=True)
class LongerContext(Experiment):
    """A small Transformer-XL: what it reads, how it is cut into segments, and how many states it remembers.

    A run holds a row for each test text: its loss at each place of a segment, the mean over segments. The first
    segments of a text do not count, while the memory fills. Of random tokens, losses are whole thousandths of a nat:
    seeds have nothing in common in what cannot be known, and all in what can, so that only equality tells of copies.

    A seed varies the new weights, the tokens or where in the text it begins. The source text is that of Python on this
    machine: runs are of one text where their `versions` name one.
    """

    metrics = METRICS

    period: int  # after which random tokens come again; 0 for source text
    mem_len: int
    length: int  # of a segment
    symbols: int  # random tokens, or characters of the source, of which all others are one
    layers: int
    width: int
    heads: int
    inner: int  # width of the feed-forward part
    batch: int
    steps: int  # segments, each with a step of the optimiser
    lr: float
    texts: int  # to test
    warm: int  # segments of each that do not count
    counted: int
    read: int = 16  # segments of a text of random tokens, in training

    def __post_init__(self):
        if self.steps < POINTS or self.length % 8 or self.width % (2 * self.heads):
            raise ValueError(f"{self.name}: at least {POINTS} steps, segments of eighths, and heads of an even width")

    @property
    def recorded_examples(self) -> str:
        """That of the recorded runs; blank if there is none of this size."""
        return recorded_examples(self, RECORDED)

    def check(self, run: Run, whole: bool) -> None:
        """A loss for each place in every text, whole numbers for random tokens, and a curve of the training loss."""
        kind = int if self.period else float
        if len(run.predictions) != self.texts:
            raise BadRun(f"it has losses of {len(run.predictions)} texts instead of {self.texts}")
        for row in run.predictions:
            if type(row) is not list or len(row) != self.length or any(type(one) is not kind or one < 0 for one in row):
                raise BadRun(f"its predictions are not {self.length} losses for each text, none below 0")
        if run.degenerate:
            raise BadRun("it loses the same in every text, which no model does")
        if len(run.curve) != POINTS or {*run.curve[0]} != {"nats"}:
            raise BadRun(f"its curve is not {POINTS} times the training loss")

    def shown(self, run: Run) -> dict[str, Any]:
        """Its losses by place."""
        return {BY_PLACE: by_place(run).tolist()}

    def count_steps(self, folder: Path | str | None = None) -> int:
        """The steps of the optimiser."""
        return self.steps


@dataclass(frozen=True)
class Crossing(LongerContext):
    """As its parent, with a step of the optimiser after every `every` segments, for the mean of their losses.

    Where gradients cross, the memory is detached before the first of them alone: the loss of a segment also says how
    the states that it remembers should have been made. Else it is detached everywhere.
    """

    every: int = 1  # segments
    cross: bool = False

    def __post_init__(self):
        super().__post_init__()
        if self.read % self.every or self.steps % self.every or self.steps < POINTS * self.every:
            raise ValueError(f"{self.name}: a text and the training have whole groups of {self.every} segments")


# In segments of 32: period and memory.
ARMS = {
    "period 48, no memory": (48, 0),
    "period 48, memory 32": (48, 32),
    "period 80, memory 32": (80, 32),
    "period 80, memory 64": (80, 64),
    "source, no memory": (0, 0),
    "source, memory 32": (0, 32),
}
SHARED = 32
SIZES: dict[str, dict[str, dict[str, Any]]] = {
    "smoke": {
        COPY: {"length": 8, "symbols": 4, "layers": 2, "width": 32, "heads": 2, "inner": 32, "batch": 32,
               "steps": 100, "lr": 1e-2, "texts": 24, "warm": 8, "counted": 8},
        TEXT: {"length": 8, "symbols": 20, "layers": 1, "width": 32, "heads": 2, "inner": 32, "batch": 16,
               "steps": 60, "lr": 1e-2, "texts": 24, "warm": 4, "counted": 12},
    },
    "cpu": {
        COPY: {"length": 32, "symbols": 16, "layers": 2, "width": 64, "heads": 2, "inner": 128, "batch": 32,
               "steps": 400, "lr": 5e-3, "texts": 64, "warm": 8, "counted": 8},
        TEXT: {"length": 32, "symbols": 96, "layers": 2, "width": 96, "heads": 4, "inner": 384, "batch": 24,
               "steps": 400, "lr": 2e-3, "texts": 24, "warm": 4, "counted": 40},
    },
    "gpu": {
        COPY: {"length": 32, "symbols": 64, "layers": 2, "width": 128, "heads": 4, "inner": 512, "batch": 64,
               "steps": 2000, "lr": 1e-3, "texts": 64, "warm": 8, "counted": 8},
        TEXT: {"length": 32, "symbols": 96, "layers": 4, "width": 256, "heads": 8, "inner": 1024, "batch": 64,
               "steps": 4000, "lr": 1e-3, "texts": 24, "warm": 4, "counted": 40},
    },
}  # fmt: skip


def experiments(notebook: str = NOTEBOOK, profile: str | None = None) -> dict[str, LongerContext]:
    """The experiments of notebook 10 by name, in the order of its table: ARMS.

    `profile` is smoke (tiny models, a quarter of each period and memory, made-up words), cpu or gpu (larger models); by
    default that of this session.

    Raises:
        ValueError: there is no such notebook or profile.
    """
    chosen = profiles.chosen(profile, notebook, NOTEBOOK)
    made = {}
    for name, (period, mem_len) in ARMS.items():
        size = SIZES[chosen][COPY if period else TEXT]
        share = size["length"] / SHARED
        task = "random tokens" if period else "source text"
        if chosen == "smoke":
            task = f"made-up-{task.replace(' ', '-')}"
        made[name] = LongerContext(name, task, round(period * share), round(mem_len * share), **size)
    return made


EVERY, LONGER = 4, 8  # segments to a step, and how many times as many segments as in ARMS
GRADIENTS = {
    f"period {period}, memory 32, {how}": (period, how == "crossing")
    for period in (48, 80)
    for how in ("detached", "crossing")
}


def crossing(profile: str = "cpu") -> dict[str, Crossing]:
    """Arms that students do not run, by name: GRADIENTS, whose gradients cross segments or not.

    Both kinds take as many steps, of as many segments each.
    """
    size = SIZES[profile][COPY]
    share = size["length"] / SHARED
    task = "made-up-random-tokens" if profile == "smoke" else "random tokens"
    more = {"steps": LONGER * size["steps"], "every": EVERY}
    return {
        name: Crossing(name, task, round(period * share), round(32 * share), **size | more, cross=cross)
        for name, (period, cross) in GRADIENTS.items()
    }


def questions(some: Mapping[str, Sequence[Run]]) -> list[tuple[str, str]]:
    """The pairs of experiments that are compared, the same for everyone, as far as there are runs of both."""
    names = [*ARMS]
    pairs = [(names[0], names[1]), (names[2], names[3]), (names[4], names[5])]
    return [pair for pair in pairs if all(some.get(name) for name in pair)]


def by_place(run: Run) -> np.ndarray:
    """The mean loss of a run at each place of a segment, in nats."""
    if isinstance(run, Summary):
        return np.array(run.shown[BY_PLACE])
    return np.mean(run.predictions, axis=0) / (UNIT if run.experiment["period"] else 1)


def picture(some: Mapping[str, Sequence[Run]], kind: str, alt: str) -> "Picture":
    """The loss at each place of a segment, for the experiments whose name begins with `kind`: COPY or TEXT.

    Lines are means over seeds, the bands run from the lowest seed to the highest.
    """
    from utils import plots

    values = {
        name: np.array([by_place(run) for run in found])
        for name, found in some.items()
        if name.startswith(kind) and found
    }
    return plots.curves(
        {name: found.mean(0) for name, found in values.items()},
        bands={name: (found.min(0), found.max(0)) for name, found in values.items()},
        x=range(max(found.shape[1] for found in values.values())),
        xlabel="place in the segment",
        ylabel="loss, nats",
        alt=alt,
    )


def recorded() -> dict[str, list[Run]]:
    """Summaries of the recorded runs, profile cpu, by name; data/README.md says how they were made."""
    return load_recorded(experiments(profile="cpu"), RECORDED)


def crossing_compared() -> list[tuple[str, str]]:
    """The pairs of arms whose gradients cross segments or not, everything else alike."""
    return [(f"period {period}, memory 32, detached", f"period {period}, memory 32, crossing") for period in (48, 80)]


def recorded_crossing() -> dict[str, list[Run]]:
    """Summaries of the recorded runs of `crossing`, by name."""
    return load_recorded(crossing(), RECORDED)


ALSO_RECORDED = {RECORDED: crossing}


def also_shown() -> list[Shown]:
    """What the page of results shows of the runs that students do not make."""
    return [("Gradients across segments", recorded_crossing(), METRICS, crossing_compared())]
