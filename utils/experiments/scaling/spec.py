"""A small scaling experiment, for notebook 03: several sizes at equal FLOPs, and a prediction for more FLOPs.

It follows Hoffmann et al. (2022), section 3.2. A budget is a number of FLOPs. For each budget, models of several sizes
are trained: a larger one reads fewer characters. A parabola in log N through their losses has its vertex at the best
size. A straight line through the best sizes of the budgets, in logarithms, predicts that of a larger budget.

The model is that of notebook 01: causal, two layers and two heads, as wide in its feed-forward part as elsewhere. It
predicts the next character of the documentation.

Imports nothing heavy: graders read it too. `utils.experiments.scaling.train` trains.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from utils.experiments import formulas
from utils.experiments.experiment import Experiment, Metric, Run, Shown
from utils.experiments.runs import load_table

if TYPE_CHECKING:
    from pandas import DataFrame

    from utils.plots import Picture

RECORDED = Path(__file__).resolve().parents[3] / "data" / "results" / "scaling"
SEARCH = RECORDED.with_name("scaling_search.json")  # what `solutions/03_parameter_counting/search.py` tried
GIGA = 10**9
WIDTHS = {30: (16, 24, 32, 48), 90: (24, 32, 48, 64), 270: (32, 48, 64, 96)}  # by budget in GFLOP
NEXT, NEXT_WIDTHS = 810, (72, 50, 102)  # the size that the fit predicts, half of it and twice of it
RATES = {16: 0.01, 24: 0.01, 32: 0.01, 48: 0.01, 50: 0.01, 64: 0.007, 72: 0.007, 96: 0.005, 102: 0.005}
TASK, MADE_UP = "documentation", "made-up-text"


def _losses(run: Run) -> Any:
    return [(loss, 1) for loss in run.predictions]


LOSS = Metric("loss", "nats", _losses, formulas.ratio, lower_is_better=True, digits=3)


@dataclass(frozen=True)
class Scaling(Experiment):
    """A model of a size, and how many FLOPs its training may take, of which its size decides the number of characters.

    A run holds numbers alone: the mean loss of a character in the validation windows after the last step, N (the
    numbers in matrices, as in exercise 3.11), FLOPs for a character, characters read, and epochs. Its curve is the
    training loss in 20 parts of the steps.

    A seed varies the weights, where the windows begin and their order. No window is read twice in an epoch.
    """

    metrics = (LOSS,)

    budget: float  # GFLOP
    width: int
    lr: float = 1e-2  # after the warm-up; then a cosine to the end of the budget
    layers: int = 2
    heads: int = 2
    dropout: float = 0.0
    length: int = 32  # characters of a window
    batch: int = 16  # windows
    warmup: float = 0.1  # of the steps
    weight_decay: float = 0.01
    windows: int = 2000  # to validate on
    held_out: bool = False  # validate on the other half of the text, to choose rates

    def count_steps(self, folder: Path | str | None = None) -> int:
        """The parts of the training."""
        return 20


def experiments(notebook: str = "", profile: str | None = None) -> dict[str, Scaling]:
    """None: students make no runs of it. See `scaling`."""
    return {}


def scaling(profile: str = "cpu") -> dict[str, Scaling]:
    """The runs that come with the course, by name: each width at each budget, then those at the next budget."""
    if profile == "smoke":
        few = [Scaling(name_of(1, width), MADE_UP, 0.2 * width / 8, width, windows=50) for width in (8, 12, 16)]
        return {one.name: one for one in few}
    return {
        name_of(budget, width): Scaling(name_of(budget, width), TASK, budget, width, RATES[width])
        for budget, widths in {**WIDTHS, NEXT: NEXT_WIDTHS}.items()
        for width in widths
    }


def name_of(budget: int, width: int) -> str:
    """What an experiment is called."""
    return f"{budget} GFLOP, width {width}"


ALSO_RECORDED = {RECORDED: scaling}


def recorded() -> dict[str, list[Run]]:
    """The recorded runs, by name; data/README.md says how they were made."""
    return load_table(scaling(), RECORDED)


def points(runs: Mapping[str, Sequence[Run]], budget: int) -> tuple[list[int], list[float]]:
    """The sizes N and the losses of all runs with a budget, an entry a run."""
    of_budget = [run for some in runs.values() for run in some if run.experiment["budget"] == budget]
    return [int(run.numbers["parameters"]) for run in of_budget], [run.numbers["loss"] for run in of_budget]


Vertex = tuple[float, float]  # the best size, and the loss there
WAYS = {"loss": "straight line", "floored": "with a floor"}  # in which the loss is predicted, by the field of `Fit`


@dataclass(frozen=True)
class Fit:
    """What three budgets predict for the next one."""

    size: float  # the best one, if it lies on a straight line in logarithms
    loss: float  # at the best size, if it lies on a straight line in logarithms
    floored: float  # the same, if what is above a floor shrinks by one factor from each budget to the next
    exponent: float  # the best size grows as this power of the FLOPs


def vertices(found: Mapping[int, tuple[Any, Any]]) -> dict[int, Vertex]:
    """The best size of each budget and the loss there; `found` are the `points` of each.

    Raises:
        ValueError: a parabola opens downward.
    """
    return {budget: formulas.vertex(np.array(sizes), np.array(losses)) for budget, (sizes, losses) in found.items()}


def fitted(found: Mapping[int, Vertex]) -> Fit:
    """What follows from the vertices of three budgets, each as many times the one before as the next is of the last."""
    sizes, losses = (np.array(side) for side in zip(*found.values(), strict=True))
    (size, exponent), (loss, _) = (formulas.power_law(np.array([*found]), side, NEXT) for side in (sizes, losses))
    first, second, third = losses.tolist()
    return Fit(size, loss, third - (second - third) ** 2 / (first - second), exponent)


def fit(runs: Mapping[str, Sequence[Run]]) -> Fit:
    """The fit of all runs of the three budgets."""
    return fitted(vertices({budget: points(runs, budget) for budget in WIDTHS}))


def resampled(
    runs: Mapping[str, Sequence[Run]], budgets: Iterable[int] = tuple(WIDTHS), resamples: int = 2000
) -> list[dict[int, Vertex]]:
    """The vertices of as many runs of each budget, drawn again with replacement.

    Draws with a parabola that opens downward, or with fewer than three sizes at a budget, have no best size and are
    left out.
    """
    draw, found = np.random.default_rng(0), []
    every = {budget: [np.array(side) for side in points(runs, budget)] for budget in budgets}
    for _ in range(resamples):
        places = {budget: draw.integers(len(sizes), size=len(sizes)) for budget, (sizes, _) in every.items()}
        drawn = {budget: (sizes[places[budget]], losses[places[budget]]) for budget, (sizes, losses) in every.items()}
        if min(len({*sizes}) for sizes, _ in drawn.values()) < 3:
            continue
        try:
            found.append(vertices(drawn))
        except ValueError:
            continue
    return found


def intervals(runs: Mapping[str, Sequence[Run]]) -> dict[str, tuple[float, float]]:
    """The intervals of what a `Fit` has, by its fields, over runs that are drawn again."""
    again = [fitted(some) for some in resampled(runs)]
    return {one.name: formulas.middle(np.array([getattr(some, one.name) for some in again])) for one in fields(Fit)}


def picture(runs: Mapping[str, Sequence[Run]], alt: str) -> "Picture":
    """The loss of each run by its size, the parabola of each budget, and what is predicted for the next budget."""
    from utils import plots

    series, lines = {}, {}
    for budget in (*WIDTHS, NEXT):
        sizes, losses = (np.array(side) for side in points(runs, budget))
        series[f"{budget} GFLOP"] = (sizes, losses)
        lines[f"{budget} GFLOP"] = formulas.on_parabola(sizes, losses)
    whole, ends = fit(runs), intervals(runs)
    return plots.fits(
        series,
        lines,
        forecasts={
            f"{NEXT}, predicted: {how}": (whole.size, ends["size"], getattr(whole, side), ends[side])
            for side, how in WAYS.items()
        },
        xlabel="N, numbers in matrices",
        ylabel="validation loss, nats per character",
        alt=alt,
    )


def table(runs: Mapping[str, Sequence[Run]]) -> "DataFrame":
    """Best sizes and the losses there, as fitted, as predicted and as measured, and the runs of the next budget."""
    import pandas as pd

    from utils.experiments.seed_table import t_interval

    def row(size: float, sizes: tuple[float, float] | None, loss: float, losses: tuple[float, float]) -> list[str]:
        between = "" if sizes is None else "{:,.0f} to {:,.0f}".format(*sizes)
        return [f"{size:,.0f}", between, f"{loss:.3f}", "{:.3f} to {:.3f}".format(*losses)]

    def best(budgets: Sequence[int], what: str) -> dict[str, list[str]]:
        found, again, rows = vertices({one: points(runs, one) for one in budgets}), resampled(runs, budgets), {}
        for budget, (size, loss) in found.items():
            sizes, losses = (formulas.middle(side) for side in np.array([some[budget] for some in again]).T)
            rows[f"{budget} GFLOP, {what}"] = row(size, sizes, loss, losses)
        return rows

    whole, ends = fit(runs), intervals(runs)
    predicted = {
        f"{NEXT} GFLOP, predicted: {how}": row(whole.size, ends["size"], getattr(whole, side), ends[side])
        for side, how in WAYS.items()
    }
    rows = best([*WIDTHS], "best size") | predicted | best([NEXT], "measured best size")
    for width in sorted(NEXT_WIDTHS):
        some = runs[name_of(NEXT, width)]
        values = [LOSS.of(run) for run in some]
        name = f"{NEXT} GFLOP, width {width}, mean of {len(some)} seeds"
        rows[name] = row(some[0].numbers["parameters"], None, statistics.fmean(values), t_interval(values))
    columns = ["N", "95% interval of N", "loss", "95% interval of the loss"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def questions() -> list[tuple[str, str]]:
    """The pairs that are compared: the predicted size with half and with twice as many parameters."""
    predicted, *others = (name_of(NEXT, width) for width in NEXT_WIDTHS)
    return [(predicted, other) for other in others]


def also_shown() -> list[Shown]:
    """What the page of results shows of these runs, which students do not make."""
    return [("Scaling: several sizes at equal FLOPs, and a prediction", recorded(), (LOSS,), questions())]
