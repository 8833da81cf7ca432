"""Tables of experiments over seeds, and what may be concluded from them.

Units: accuracies are percent, and standard deviations, differences and interval widths are points of
percent. `Run.accuracy`, from which all is computed, is a fraction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from utils.experiment import Run
from utils.plots import Picture

LEVEL = 0.95
CAPTION = "Accuracy over seeds. Means and intervals in percent, standard deviations in points."


def percents(runs: Sequence[Run]) -> np.ndarray:
    """The accuracies (n,) of runs, in percent."""
    return np.array([100 * run.accuracy for run in runs])


def t_interval(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """The 95% interval of the mean of `values`, by Student's t with n - 1 degrees of freedom; NaN for n < 2."""
    if len(values) in (0, 1):
        return float("nan"), float("nan")
    if np.ptp(values) == 0:  # scipy has no interval of width 0
        return float(values[0]), float(values[0])
    low, high = stats.ttest_1samp(values, 0).confidence_interval(LEVEL)
    return float(low), float(high)


def expected_best(values: Sequence[float] | np.ndarray, count: int) -> float:
    """The expected maximum of `count` runs drawn with replacement from `values`.

    Dodge, Gururangan, Card, Schwartz and Smith 2019, "Show Your Work", section 3.1.

    Raises:
        ValueError: there are no values, or `count` is less than 1.
    """
    if len(values) < 1 or count < 1:
        raise ValueError("the expected best needs at least one value and one run")
    shares = np.linspace(0, 1, len(values) + 1)  # of the runs that are no better than the i-th best
    return float(np.sort(values) @ np.diff(shares**count))


class SeedTable:
    """One row for each experiment: what its runs scored, and how far that can be trusted.

    A notebook shows it as a styled table; `markdown`, `latex` and `csv` are for elsewhere, `plot` shows
    every run.
    """

    def __init__(self, runs: Mapping[str, Sequence[Run]]):
        """`runs` maps the name of an experiment to its runs, one a seed.

        Raises:
            ValueError: an experiment has no runs, or two with one seed.
        """
        for name, some in runs.items():
            if not some:
                raise ValueError(f"{name} has no runs")
            if len({run.seed for run in some}) < len(some):
                raise ValueError(f"{name} has two runs with one seed")
        self.runs = {name: list(some) for name, some in runs.items()}

    def frame(self) -> pd.DataFrame:
        """The table: a row for each experiment; every column states its unit."""
        return pd.DataFrame.from_dict({name: self._row(some) for name, some in self.runs.items()}, orient="index")

    @staticmethod
    def _row(runs: Sequence[Run]) -> dict[str, float]:
        values = percents(runs)
        low, high = t_interval(values)
        return {
            "runs": len(values),
            "mean, %": values.mean(),
            "sd, points": values.std(ddof=1) if len(values) > 1 else float("nan"),
            "95% from, %": low,
            "95% to, %": high,
            "min, %": values.min(),
            "max, %": values.max(),
            "best of 5 expected, %": expected_best(values, 5),
            "degenerate runs": sum(run.degenerate for run in runs),
            "majority class, %": 100 * runs[0].majority,
        }

    def remarks(self) -> list[str]:
        """A sentence for each experiment that did not learn, or not in every run."""
        found = []
        for name, runs in self.runs.items():
            low, _ = t_interval(percents(runs))
            baseline, stuck = 100 * runs[0].majority, sum(run.degenerate for run in runs)
            if stuck:
                found.append(
                    f"{name}: {stuck} of {len(runs)} runs predict one class only. They are counted, not dropped."
                )
            if not low > baseline:
                found.append(f"{name}: not shown to be better than the majority class ({baseline:.1f}%).")
        return found

    def _repr_html_(self) -> str:
        style = self.frame().style.format(precision=2).set_caption(CAPTION)
        style = style.set_table_attributes('class="seed-table"')
        return style.to_html() + "".join(f"<p>{remark}</p>" for remark in self.remarks())

    def __repr__(self) -> str:
        return "\n".join([self.frame().round(2).to_string(), *self.remarks()])

    def markdown(self) -> str:
        """The table in Markdown, with two digits, and the remarks below it."""
        frame = self.frame().rename_axis("experiment")
        counts = frame.select_dtypes("integer").columns
        table = frame.astype(dict.fromkeys(counts, str)).to_markdown(floatfmt=".2f", disable_numparse=False)
        return "\n".join([table, *(f"\n{remark}" for remark in self.remarks())]) + "\n"

    def latex(self) -> str:
        """The table in LaTeX, for the package booktabs."""
        style = self.frame().style.format(precision=2)
        style = style.format_index(escape="latex").format_index(escape="latex", axis="columns")
        return style.to_latex(hrules=True, caption=CAPTION)

    def csv(self) -> str:
        """The table as comma-separated values, in full precision."""
        return self.frame().to_csv(index_label="experiment")

    def plot(self) -> Picture:
        """A strip plot: every run, the mean with its 95% interval, and the majority class."""
        from matplotlib.figure import Figure
        from matplotlib.pyplot import rc_context

        from utils.plots import LOOK, OKABE_ITO

        with rc_context(LOOK):
            figure = Figure(figsize=(6, 0.9 + 0.6 * len(self.runs)), layout="constrained")
            ax = figure.subplots()
            for row, runs in enumerate(self.runs.values()):
                values, color = percents(runs), OKABE_ITO[row % len(OKABE_ITO)]
                spread = np.linspace(-0.12, 0.12, len(values)) if len(values) > 1 else [0.0]
                ax.scatter(values, row + np.asarray(spread), s=22, color=color, alpha=0.6, lw=0)
                low, high = t_interval(values)
                ax.errorbar(values.mean(), row + 0.28, xerr=[[values.mean() - low], [high - values.mean()]], fmt="D",
                            ms=4, capsize=3, color=color)  # fmt: skip
                ax.plot([100 * runs[0].majority] * 2, [row - 0.3, row + 0.4], ":", color="black", lw=1)
            ax.set_yticks(range(len(self.runs)), list(self.runs))
            ax.set(xlabel="accuracy, %: each run, mean with 95% interval, majority class (dotted)")
            ax.set_ylim(len(self.runs) - 0.4, -0.5)
            ax.grid(axis="x", alpha=0.3)
        rows = self.frame()
        means = "; ".join(f"{name} {rows.loc[name, 'mean, %']:.1f}" for name in rows.index)
        return Picture(figure, f"Accuracy of every run by experiment, in percent. Means: {means}.")


@dataclass(frozen=True)
class Comparison:
    """How much better `second` is than `first`, in points; see `compare`."""

    first: str
    second: str
    seeds: int
    examples: int
    difference: float  # of the means over the common seeds
    by_seed: tuple[float, float]  # 95% interval: were the seeds drawn again, on these examples
    by_example: tuple[float, float]  # 95% interval: were the examples drawn again, with these runs
    effect: float  # mean of the paired differences by their standard deviation (Cohen's d_z)

    @property
    def shown(self) -> bool:
        """Whether both intervals leave 0 out, on the same side."""
        ends = (*self.by_seed, *self.by_example)
        return all(end > 0 for end in ends) or all(end < 0 for end in ends)

    def __str__(self) -> str:
        verdict = "a difference is shown" if self.shown else "no difference is shown"
        return (
            f"{self.second} against {self.first}: {self.difference:+.2f} points, {verdict}. "
            f"Over seeds (n = {self.seeds}) 95% from {self.by_seed[0]:+.2f} to {self.by_seed[1]:+.2f}; "
            f"over examples (n = {self.examples}) from {self.by_example[0]:+.2f} to {self.by_example[1]:+.2f}; "
            f"effect d = {self.effect:.2f}."
        )

    __repr__ = __str__


def compare(first: Sequence[Run], second: Sequence[Run]) -> Comparison:
    """Compare two experiments, paired by seed and by example.

    By seed, the accuracies' differences of the common seeds; by example, the differences of how often
    the common seeds got it right. Each has a t interval. They answer different questions: would other
    seeds say the same, would other examples?

    Raises:
        ValueError: fewer than two common seeds, or the runs were validated on different examples.
    """
    left, right = ({run.seed: run for run in runs} for runs in (first, second))
    common = sorted(set(left) & set(right))
    if len(common) < 2:
        raise ValueError(f"two seeds or more must be common to both experiments; common are {common}")
    labels = left[common[0]].labels
    if any(run.labels != labels for side in (left, right) for run in side.values()):
        raise ValueError("the experiments were validated on different examples: they cannot be paired")

    def right_ones(side: dict[int, Run]) -> np.ndarray:  # (seeds, examples)
        return np.array([np.equal(side[seed].predictions, labels) for seed in common], dtype=float)

    gains = 100 * (right_ones(right) - right_ones(left))
    by_seed, by_example = gains.mean(axis=1), gains.mean(axis=0)
    spread = by_seed.std(ddof=1)
    return Comparison(
        first=str(first[0].experiment.get("name", "first")),
        second=str(second[0].experiment.get("name", "second")),
        seeds=len(common),
        examples=len(labels),
        difference=float(by_seed.mean()),
        by_seed=t_interval(by_seed),
        by_example=t_interval(by_example),
        effect=float(by_seed.mean() / spread) if spread else float("nan"),
    )
