"""Tables of experiments over seeds, and what may be concluded from them.

Units: accuracies are percent, and standard deviations, differences and interval widths are points of
percent. `Run.accuracy`, from which all is computed, is a fraction.

One rule decides everywhere, of two experiments and of one against the majority class. A difference is shown if

- the crossed interval leaves 0 out: seeds *and* examples are drawn again, both with replacement (Owen 2007, "The
  pigeonhole bootstrap"), so it answers for both at once;
- and so does the t interval over seeds: the bootstrap of five runs alone is too short (notebook 05 measures it);
- still, when Holm's correction (1979) has paid for all comparisons that are made together.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy import stats

from utils.experiments.experiment import Run
from utils.plots import Picture

LEVEL = 0.95
RESAMPLES = 4000
CAPTION = (
    "Accuracy over seeds. Means and intervals in percent, standard deviations in points. The intervals are for other "
    "seeds on these examples, by Student's t. The best of 5 is estimated from these runs: of few runs, too low."
)


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

    Dodge, Gururangan, Card, Schwartz and Smith 2019, "Show Your Work", section 3.1. Where there are few values it is
    too low: their best is not the best that could have been drawn (Tang et al. 2020, "Showing Your Work Doesn't
    Always Work").

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

    caption = CAPTION

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

    def comparisons(self) -> list["Comparison"]:
        """Each experiment against each that stands above it, with Holm's correction for all of these comparisons.

        Those that have fewer than two seeds in common are left out.

        Raises:
            ValueError: two were validated on different examples.
        """
        seeds = {name: {run.seed for run in runs} for name, runs in self.runs.items()}
        pairs = [(a, b) for a, b in itertools.combinations(self.runs, 2) if len(seeds[a] & seeds[b]) > 1]
        return holm([replace(compare(self.runs[a], self.runs[b]), first=a, second=b) for a, b in pairs])

    def remarks(self) -> list[str]:
        """A sentence for each experiment with runs that gave up, and for each not shown to beat the majority class.

        The rule is that of `compare`, with Holm's correction for all experiments of the table.
        """
        found = []
        against = holm([_against_majority(name, runs) for name, runs in self.runs.items()])
        for (name, runs), versus in zip(self.runs.items(), against, strict=True):
            baseline, stuck = 100 * runs[0].majority, sum(run.degenerate for run in runs)
            if stuck:
                found.append(
                    f"{name}: {stuck} of {len(runs)} runs predict one class only. They are counted, not dropped."
                )
            if not (versus.shown and versus.difference > 0):
                found.append(
                    f"{name}: not shown to be better than the majority class ({baseline:.1f}%): "
                    f"{versus.difference:+.1f} points, {versus.evidence}."
                )
        return found

    def _repr_html_(self) -> str:
        style = self.frame().style.format(precision=2).set_caption(self.caption)
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
        return style.to_latex(hrules=True, caption=self.caption)

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
    crossed: tuple[float, float]  # 95% interval: were seeds and examples drawn again
    ahead: float  # the share of all pairs of runs, one of each, in which the second is ahead; ties are half
    effect: float  # mean of the paired differences by their standard deviation (Cohen's d_z)
    p: float  # the larger of those of `crossed` and `by_seed`, with Holm's correction
    among: int = 1  # how many comparisons were made together

    @property
    def shown(self) -> bool:
        """Whether a difference is shown, by the one rule of this module."""
        return self.p < 1 - LEVEL

    @property
    def evidence(self) -> str:
        """The crossed interval and p, in words."""
        together = f" after Holm's correction for {self.among} comparisons" if self.among > 1 else ""
        small = 2 / (RESAMPLES + 1)
        p = f"p < {2 * small:.3f}" if self.p <= small else f"p = {self.p:.3f}"
        return f"95% from {self.crossed[0]:+.2f} to {self.crossed[1]:+.2f} over seeds and examples, {p}{together}"

    def __str__(self) -> str:
        verdict = "a difference is shown" if self.shown else "no difference is shown"
        return (
            f"{self.second} against {self.first}: {self.difference:+.2f} points, {verdict}: {self.evidence}. "
            f"Over seeds alone (n = {self.seeds}) from {self.by_seed[0]:+.2f} to {self.by_seed[1]:+.2f}; "
            f"over examples alone (n = {self.examples}) from {self.by_example[0]:+.2f} to {self.by_example[1]:+.2f}. "
            f"Ahead in {self.ahead:.0%} of all pairs of runs; effect d = {self.effect:.2f}."
        )

    __repr__ = __str__


def crossed_means(gains: np.ndarray, resamples: int = RESAMPLES, seed: int = 0) -> np.ndarray:
    """The means (resamples,) of `gains` (seeds, examples) with seeds and examples drawn again, with replacement."""
    chance, (seeds, examples) = np.random.default_rng(seed), gains.shape
    gains = gains[np.lexsort(gains.T)]  # the order of the seeds is to change nothing
    times = chance.multinomial(seeds, np.full(seeds, 1 / seeds), resamples)  # how often each seed is drawn
    drawn = chance.integers(examples, size=(resamples, examples))
    return np.take_along_axis(times @ gains / seeds, drawn, axis=1).mean(axis=1)


def holm(found: Sequence["Comparison"]) -> list["Comparison"]:
    """The same comparisons, each `p` with the correction for all of them together (Holm 1979).

    The smallest is multiplied by their number, the next by one less, and none ends below one that was smaller.
    """
    values, order = np.array([one.p for one in found]), np.argsort([one.p for one in found])
    raised = np.maximum.accumulate((len(found) - np.arange(len(found))) * values[order])
    corrected = dict(zip(order.tolist(), np.minimum(raised, 1).tolist(), strict=True))
    return [replace(one, p=corrected[place], among=len(found)) for place, one in enumerate(found)]


def compare(first: Sequence[Run], second: Sequence[Run]) -> Comparison:
    """Compare two experiments, paired by seed and by example.

    By seed, the accuracies' differences of the common seeds; by example, the differences of how often
    the common seeds got it right. Each has a t interval. They answer different questions: would other
    seeds say the same, would other examples? The crossed interval answers both at once. Pairing by seed is
    right whether or not the experiments share luck; it makes the interval shorter only if they do.

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
    pairs = [[side[seed] for seed in common] for side in (left, right)]
    names = [str(runs[0].experiment.get("name", place)) for runs, place in ((first, "first"), (second, "second"))]
    return _comparison(names, [_right(runs) for runs in pairs])


def _right(runs: Sequence[Run]) -> np.ndarray:
    """Whether each run was right on each example, (runs, examples) of 0 and 1."""
    return np.array([np.equal(run.predictions, run.labels) for run in runs], dtype=float)


def _against_majority(name: str, runs: Sequence[Run]) -> Comparison:
    """An experiment against one that answers every example with the most frequent class."""
    labels = np.array(runs[0].labels)
    classes, counts = np.unique(labels, return_counts=True)
    constant = np.equal(labels, classes[counts.argmax()]).astype(float)
    return _comparison(["the majority class", name], [np.tile(constant, (len(runs), 1)), _right(runs)])


def _comparison(names: Sequence[str], right: Sequence[np.ndarray]) -> Comparison:
    """The comparison of two experiments with those answers right, each (seeds, examples)."""
    gains = 100 * (right[1] - right[0])
    by_seed, by_example = gains.mean(axis=1), gains.mean(axis=0)
    spread = by_seed.std(ddof=1) if len(gains) > 1 else float("nan")
    means = crossed_means(gains)
    below, above = ((1 + np.sum(side)) / (1 + len(means)) for side in (means <= 0, means >= 0))
    second, first = right[1].mean(axis=1), right[0].mean(axis=1)
    wins = np.sum(second[:, None] > first) + np.sum(second[:, None] == first) / 2
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Comparison(
        first=names[0],
        second=names[1],
        seeds=gains.shape[0],
        examples=gains.shape[1],
        difference=float(by_seed.mean()),
        by_seed=t_interval(by_seed),
        by_example=t_interval(by_example),
        crossed=(float(low), float(high)),
        ahead=float(wins / len(gains) ** 2),
        effect=float(by_seed.mean() / spread) if spread > 0 else float("nan"),
        p=float(min(1, max(2 * min(below, above), _p_over_seeds(by_seed)))),
    )


def _p_over_seeds(differences: np.ndarray) -> float:
    """The p of Student's t that belongs to `t_interval`; 1 if there is a single difference."""
    if len(differences) < 2:
        return 1.0
    if np.ptp(differences) == 0:  # as `t_interval`
        return float(differences[0] == 0)
    return float(stats.ttest_1samp(differences, 0).pvalue)
