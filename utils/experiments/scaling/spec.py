"""A small scaling experiment, for notebook 03: several sizes at equal FLOPs, and a prediction for more FLOPs.

It follows Hoffmann et al. (2022), section 3.2. A budget is a number of FLOPs. For each budget, models of several sizes
are trained: a larger one reads fewer characters. A parabola in log N through their losses has its vertex at the best
size. A straight line through the best sizes of the budgets, in logarithms, predicts that of a larger budget.

The model is that of notebook 01: causal, two layers and two heads, as wide in its feed-forward part as elsewhere. It
predicts the next character of the documentation.

Imports nothing heavy: graders read it, too. `utils.experiments.scaling.train` trains.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Fit:
    """What follows from the runs of the three budgets, with what the next budget should have by it."""

    sizes: dict[int, float]  # the best one, by budget
    losses: dict[int, float]  # at the best size
    exponent: float  # the best size grows as this power of the FLOPs
    floored: (
        float  # the loss at the next budget, if what is above a floor shrinks by the same factor from each to the next
    )

    @property
    def size(self) -> float:
        """The best size for the next budget."""
        return self.sizes[NEXT]

    @property
    def loss(self) -> float:
        """The loss that the best size has at the next budget, if it falls on a straight line in logarithms."""
        return self.losses[NEXT]


def fitted(found: Mapping[int, tuple[Any, Any]]) -> Fit:
    """Parabolas of the budgets, and straight lines through their vertices; `found` are the `points` of each budget.

    Raises:
        ValueError: a parabola opens downward.
    """
    vertices = {budget: formulas.vertex(np.array(sizes), np.array(losses)) for budget, (sizes, losses) in found.items()}
    flops = np.log([*vertices])
    lines = [np.polyfit(flops, np.log(values), 1) for values in zip(*vertices.values(), strict=True)]
    size, loss = (float(np.exp(np.polyval(line, np.log(NEXT)))) for line in lines)
    first, second, third = (loss for _, loss in vertices.values())
    return Fit(
        {budget: size for budget, (size, _) in vertices.items()} | {NEXT: size},
        {budget: loss for budget, (_, loss) in vertices.items()} | {NEXT: loss},
        float(lines[0][0]),
        third - (second - third) ** 2 / (first - second),
    )


def fit(runs: Mapping[str, Sequence[Run]]) -> Fit:
    """The fit of all runs of the three budgets."""
    return fitted({budget: points(runs, budget) for budget in WIDTHS})


def resampled(runs: Mapping[str, Sequence[Run]], resamples: int = 2000) -> list[Fit]:
    """The fits of as many runs of each budget, drawn again with replacement.

    Draws with a parabola that opens downward, or with fewer than three sizes at a budget, have no best size and are
    left out.
    """
    draw, found = np.random.default_rng(0), []
    every = {budget: [np.array(side) for side in points(runs, budget)] for budget in WIDTHS}
    for _ in range(resamples):
        places = {budget: draw.integers(len(sizes), size=len(sizes)) for budget, (sizes, _) in every.items()}
        drawn = {budget: (sizes[places[budget]], losses[places[budget]]) for budget, (sizes, losses) in every.items()}
        if min(len({*sizes}) for sizes, _ in drawn.values()) < 3:
            continue
        try:
            found.append(fitted(drawn))
        except ValueError:
            continue
    return found


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The middle 95% of values."""
    low, high = np.quantile(values, (0.025, 0.975))
    return float(low), float(high)


def picture(runs: Mapping[str, Sequence[Run]], alt: str) -> "Picture":
    """The loss of each run by its size, the parabola of each budget, and what is predicted for the next budget."""
    from utils import plots

    series, lines = {}, {}
    for budget in (*WIDTHS, NEXT):
        sizes, losses = (np.array(side) for side in points(runs, budget))
        label = f"{budget} GFLOP"
        series[label] = (sizes, losses)
        if budget in WIDTHS:
            grid = np.geomspace(sizes.min(), sizes.max(), 100)
            lines[label] = (grid, np.polyval(np.polyfit(np.log(sizes), losses, 2), np.log(grid)))
    whole, again = fit(runs), resampled(runs)
    ends = {side: interval([getattr(one, side) for one in again]) for side in ("size", "loss", "floored")}
    named = {"loss": "predicted, straight line", "floored": "predicted, with a floor"}
    return plots.fits(
        series,
        lines,
        forecasts={
            label: (whole.size, ends["size"], getattr(whole, side), ends[side]) for side, label in named.items()
        },
        xlabel="N, numbers in matrices",
        ylabel="validation loss, nats per character",
        alt=alt,
    )


def table(runs: Mapping[str, Sequence[Run]]) -> "DataFrame":
    """A row for each budget: the best size with its interval, the loss there, and characters for each parameter."""
    import pandas as pd

    from utils.experiments.seed_table import t_interval

    whole, again = fit(runs), resampled(runs)
    rows = {}
    for budget in (*WIDTHS, NEXT):
        (low, high), (least, most) = (
            interval([getattr(one, side)[budget] for one in again]) for side in ("sizes", "losses")
        )
        rows[f"{budget} GFLOP" + (", predicted" if budget == NEXT else "")] = {
            "best N": f"{whole.sizes[budget]:,.0f}",
            "95% interval of N": f"{low:,.0f} to {high:,.0f}",
            "loss there": f"{whole.losses[budget]:.3f}",
            "95% interval of the loss": f"{least:.3f} to {most:.3f}",
        }
    low, high = interval([one.floored for one in again])
    rows[f"{NEXT} GFLOP, predicted with a floor"] = {
        "best N": "",
        "95% interval of N": "",
        "loss there": f"{whole.floored:.3f}",
        "95% interval of the loss": f"{low:.3f} to {high:.3f}",
    }
    for width in NEXT_WIDTHS:
        some = runs[name_of(NEXT, width)]
        if some:
            values = [LOSS.of(run) for run in some]
            low, high = t_interval(values)
            rows[f"{NEXT} GFLOP, measured with width {width}, {len(some)} seeds"] = {
                "best N": f"({int(some[0].numbers['parameters']):,})",
                "95% interval of N": "",
                "loss there": f"{np.mean(values):.3f}",
                "95% interval of the loss": f"{low:.3f} to {high:.3f}",
            }
    return pd.DataFrame.from_dict(rows, orient="index")


def questions() -> list[tuple[str, str]]:
    """The pairs that are compared: the predicted size with half and with twice as many parameters."""
    predicted, *others = (name_of(NEXT, width) for width in NEXT_WIDTHS)
    return [(predicted, other) for other in others]


def also_shown() -> list[Shown]:
    """What the page of results shows of these runs, which students do not make."""
    return [("Scaling: several sizes at equal FLOPs, and a prediction", recorded(), (LOSS,), questions())]
