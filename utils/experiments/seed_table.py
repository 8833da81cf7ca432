"""Tables of experiments over seeds, and what may be concluded from them, by any metric.

Units: a table's values have the unit of its metric; of percent, standard deviations, differences and interval
widths are points.

One rule decides everywhere, of two experiments and of one against a model that answers without reading. A difference is
shown if

- the crossed interval leaves 0 out: seeds *and* examples are drawn again, both with replacement (Owen 2007, "The
  pigeonhole bootstrap"), so it answers for both at once;
- and so does the t interval over seeds: a bootstrap interval from only five runs is too narrow (notebook 05 measures
  it);
- still, when Holm's correction (1979) has paid for all comparisons that are made together.

Of runs whose predictions were not kept, seeds alone are drawn again, and the sentence says so. Summaries of recorded
runs bring their comparisons along, made when the predictions were there.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.special import stdtr, stdtrit  # Student's t; scipy.stats takes a second to import

from utils.experiments.experiment import ACCURACY, Metric, Run
from utils.experiments.summaries import Summary

if TYPE_CHECKING:
    from utils.plots import Picture

LEVEL = 0.95
RESAMPLES = 4000
CAPTION = (
    "{name} over seeds. Means and intervals in {unit}, standard deviations in {points}. The intervals are for other "
    "seeds on these examples, by Student's t. The best of 5 is estimated from these runs: of few runs, too low."
)


def values_of(runs: Sequence[Run], metric: Metric = ACCURACY) -> np.ndarray:
    """The values (n,) of runs, in the metric's unit."""
    return np.array([metric.of(run) for run in runs])


def t_interval(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """The 95% interval of the mean of `values`, by Student's t with n - 1 degrees of freedom; NaN for n < 2."""
    if len(values) in (0, 1):
        return float("nan"), float("nan")
    half = stdtrit(len(values) - 1, (1 + LEVEL) / 2) * np.std(values, ddof=1) / len(values) ** 0.5
    return float(np.mean(values) - half), float(np.mean(values) + half)


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

    def __init__(self, runs: Mapping[str, Sequence[Run]], metric: Metric = ACCURACY):
        """`runs` maps the name of an experiment to its runs, one a seed.

        Raises:
            ValueError: an experiment has no runs, or two with one seed.
        """
        for name, some in runs.items():
            if not some:
                raise ValueError(f"{name} has no runs")
            if len({run.seed for run in some}) < len(some):
                raise ValueError(f"{name} has two runs with one seed")
        self.runs, self.metric = {name: list(some) for name, some in runs.items()}, metric
        unit = "percent" if metric.unit == "%" else metric.unit
        told = CAPTION.format(name=metric.name, unit=unit, points=metric.difference_unit)
        self.caption = told[0].upper() + told[1:]

    def frame(self) -> pd.DataFrame:
        """The table: a row for each experiment; every column states its unit."""
        return pd.DataFrame.from_dict({name: self._row(some) for name, some in self.runs.items()}, orient="index")

    def _row(self, runs: Sequence[Run]) -> dict[str, float]:
        values, unit, sign = values_of(runs, self.metric), self.metric.unit, -1 if self.metric.lower_is_better else 1
        low, high = t_interval(values)
        row = {
            "runs": len(values),
            f"mean, {unit}": values.mean(),
            f"sd, {self.metric.difference_unit}": values.std(ddof=1) if len(values) > 1 else float("nan"),
            f"95% from, {unit}": low,
            f"95% to, {unit}": high,
            f"min, {unit}": values.min(),
            f"max, {unit}": values.max(),
            f"best of 5 expected, {unit}": sign * expected_best(sign * values, 5),
        }
        baseline = self._baseline(runs)
        if baseline is not None:
            if runs[0].predictions or isinstance(runs[0], Summary):
                row |= {"degenerate runs": sum(run.degenerate for run in runs)}
            row |= {f"{self.metric.baseline_name}, {unit}": baseline}
        return row

    def _baseline(self, runs: Sequence[Run]) -> float | None:
        """What answers without reading score, if the metric knows such answers and the runs hold labels, or this."""
        if self.metric.baseline is None or not runs[0].labels:
            return runs[0].numbers.get(self.metric.baseline_name)
        return float(self.metric.value(np.asarray(self.metric.baseline(runs[0]), dtype=float).sum(0)))

    def comparisons(self) -> list["Comparison"]:
        """Each experiment against each that stands above it, with Holm's correction for all of these comparisons.

        Those that have fewer than two seeds in common are left out.

        Raises:
            ValueError: two were validated on different examples.
        """
        return self.compared(itertools.combinations(self.runs, 2))

    def compared(self, pairs: Iterable[tuple[str, str]]) -> list["Comparison"]:
        """As `comparisons`, of these pairs of names alone."""
        seeds = {name: {run.seed for run in runs} for name, runs in self.runs.items()}
        common = [(a, b) for a, b in pairs if len(seeds[a] & seeds[b]) > 1]
        found = [compare(self.runs[a], self.runs[b], self.metric) for a, b in common]
        return holm([replace(one, first=a, second=b) for one, (a, b) in zip(found, common, strict=True)])

    def against_baselines(self) -> list["Comparison"]:
        """Compare each experiment that has a baseline with it, without a correction."""
        known = {name: self._baseline(runs) for name, runs in self.runs.items()}
        return [
            _against_baseline(name, self.runs[name], self.metric, value)
            for name, value in known.items()
            if value is not None
        ]

    def remarks(self) -> list[str]:
        """A sentence for each experiment with runs that gave up, and for each not shown to beat the baseline.

        The rule is that of `compare`, with Holm's correction for all experiments of the table.
        """
        found: list[str] = []
        baselines = {name: self._baseline(runs) for name, runs in self.runs.items()}
        known = {name: value for name, value in baselines.items() if value is not None}
        against = holm(self.against_baselines())
        for (name, baseline), versus in zip(known.items(), against, strict=True):
            runs = self.runs[name]
            stuck = sum(run.degenerate for run in runs)
            if stuck:
                found.append(
                    f"{name}: {stuck} of {len(runs)} runs predict one class only. They are counted, not dropped."
                )
            if not (versus.shown and (versus.difference > 0) is not self.metric.lower_is_better):
                found.append(
                    f"{name}: not shown to be better than the {versus.first} "
                    f"({self.metric.show(baseline)}): "
                    f"{versus.difference:+.1f} {versus.unit}, {versus.evidence}."
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

    def plot(self) -> "Picture":
        """A strip plot: every run, the mean with its 95% interval, and the baseline if there is one."""
        from matplotlib.figure import Figure
        from matplotlib.pyplot import rc_context

        from utils.plots import LOOK, OKABE_ITO, Picture

        name, unit = self.metric.name, self.metric.unit
        with rc_context(LOOK):
            figure = Figure(figsize=(6, 0.9 + 0.6 * len(self.runs)), layout="constrained")
            ax = figure.subplots()
            baselines = [self._baseline(runs) for runs in self.runs.values()]
            for row, (runs, baseline) in enumerate(zip(self.runs.values(), baselines, strict=True)):
                values, color = values_of(runs, self.metric), OKABE_ITO[row % len(OKABE_ITO)]
                spread = np.linspace(-0.12, 0.12, len(values)) if len(values) > 1 else [0.0]
                ax.scatter(values, row + np.asarray(spread), s=22, color=color, alpha=0.6, lw=0)
                low, high = t_interval(values)
                ax.errorbar(values.mean(), row + 0.28, xerr=[[values.mean() - low], [high - values.mean()]], fmt="D",
                            ms=4, capsize=3, color=color)  # fmt: skip
                if baseline is not None:
                    ax.plot([baseline] * 2, [row - 0.3, row + 0.4], ":", color="black", lw=1)
            ax.set_yticks(range(len(self.runs)), list(self.runs))
            dotted = f", {self.metric.baseline_name} (dotted)" if None not in baselines else ""
            ax.set(xlabel=f"{name}, {unit}: each run, mean with 95% interval{dotted}")
            ax.set_ylim(len(self.runs) - 0.4, -0.5)
            ax.grid(axis="x", alpha=0.3)
        means = "; ".join(f"{name} {mean:.{self.metric.digits}f}" for name, mean in self.frame().iloc[:, 1].items())
        told = "percent" if unit == "%" else unit
        return Picture(figure, f"{name[0].upper()}{name[1:]} of every run by experiment, in {told}. Means: {means}.")


def tables(runs: Mapping[str, Sequence[Run]], metrics: Mapping[str, Sequence[Metric]]) -> list[SeedTable]:
    """A table for each metric, of the runs that are measured by it.

    Args:
        metrics: those of each name in `runs`. Experiments of several kinds have different ones.
    """
    every = dict.fromkeys(metric for name in runs for metric in metrics[name])
    return [SeedTable({name: some for name, some in runs.items() if one in metrics[name]}, one) for one in every]


def across(runs: Mapping[str, Sequence[Run]], metrics: Iterable[Metric]) -> pd.DataFrame:
    """Experiments down, metrics across: the mean and, in brackets, the sample standard deviation over the seeds."""

    def cell(values: np.ndarray, digits: int) -> str:
        return f"{values.mean():.{digits}f}" + (f" ({values.std(ddof=1):.{digits}f})" if len(values) > 1 else "")

    columns = {
        f"{one.name}, {one.unit}": [cell(values_of(some, one), one.digits) for some in runs.values()] for one in metrics
    }
    return pd.DataFrame(columns, index=[*runs])


def listed(comparisons: Iterable["Comparison"]) -> pd.DataFrame:
    """Many comparisons as a table, a row each: what `str` of one says, without the effect and the pairs of runs.

    There is a column for devices if a row compares runs of different ones.
    """

    comparisons = list(comparisons)

    def interval(ends: tuple[float, float]) -> str:
        return "-" if np.isnan(ends).any() else f"{ends[0]:+.2f} to {ends[1]:+.2f}"

    rows = [
        [
            one.second,
            one.first,
            f"{one.difference:+.2f} {one.unit}",
            *map(interval, (one.crossed, one.by_seed, one.by_example)),
            one.p_shown,
            one.among,
            "yes" if one.shown else "no",
        ]
        for one in comparisons
    ]
    over = [f"95% over {what}" for what in ("seeds and examples", "seeds alone", "examples alone")]
    columns = ["experiment", "against", "difference", *over, "p", "Holm's correction for", "shown"]
    frame = pd.DataFrame(rows, columns=columns).set_index("experiment")
    devices = [" against ".join(reversed(one.devices)) for one in comparisons]
    return frame.assign(**{"different devices": devices}) if any(devices) else frame


@dataclass(frozen=True)
class Comparison:
    """What `second` has more than `first`, in points, or in the metric's unit; see `compare`.

    Without predictions `examples` is 0, and the intervals over them are NaN.
    """

    first: str
    second: str
    seeds: int
    examples: int
    difference: float  # of the means over the common seeds
    by_seed: tuple[float, float]  # 95% interval: were the seeds drawn again, on these examples
    by_example: tuple[float, float]  # 95% interval: were the examples drawn again, with these runs
    crossed: tuple[float, float]  # 95% interval: were seeds and examples drawn again
    ahead: float  # the share of all pairs of runs, one of each, in which the second is better; ties are half
    effect: float  # mean of the paired differences by their standard deviation (Cohen's d_z)
    p: float  # the larger of those of `crossed` and `by_seed`, with Holm's correction
    among: int = 1  # how many comparisons were made together
    unit: str = "points"
    devices: tuple[str, ...] = ()  # on which `first` and `second` ran, where these are not the same

    @property
    def widest(self) -> tuple[float, float]:
        """The lower and the upper end that `crossed` and `by_seed` reach, of which p is the larger one."""
        (low, high), (least, most) = self.crossed, self.by_seed
        return min(low, least), max(high, most)

    @property
    def shown(self) -> bool:
        """Whether a difference is shown, by the one rule of this module."""
        return self.p < 1 - LEVEL

    @property
    def p_shown(self) -> str:
        """p, or the bound below which the resamples cannot tell it."""
        small = 2 / (RESAMPLES + 1)
        return f"p < {2 * small:.3f}" if self.p <= small else f"p = {self.p:.3f}"

    @property
    def evidence(self) -> str:
        """The interval that decides and p, in words."""
        together = f" after Holm's correction for {self.among} comparisons" if self.among > 1 else ""
        (low, high), over = (self.crossed, "seeds and examples") if self.examples else (self.by_seed, "seeds alone")
        return f"95% from {low:+.2f} to {high:+.2f} over {over}, {self.p_shown}{together}"

    def __str__(self) -> str:
        verdict = "a difference is shown" if self.shown else "no difference is shown"
        told = (
            f"Over seeds alone (n = {self.seeds}) from {self.by_seed[0]:+.2f} to {self.by_seed[1]:+.2f}; "
            f"over examples alone (n = {self.examples}) from {self.by_example[0]:+.2f} to {self.by_example[1]:+.2f}. "
        )
        if not self.examples:
            verdict += ", on these examples alone"
            told = f"(n = {self.seeds}; predictions were not kept, so examples cannot be drawn again.) "
        return (
            f"{self.second} against {self.first}: {self.difference:+.2f} {self.unit}, {verdict}: {self.evidence}. "
            f"{told}Ahead in {self.ahead:.0%} of all pairs of runs; effect d = {self.effect:.2f}.{self._where()}"
        )

    def _where(self) -> str:
        """A sentence that names both devices, if they differ."""
        if not self.devices:
            return ""
        first, second = self.devices
        return f" They ran on different devices: {self.second} on {second}, {self.first} on {first}."

    __repr__ = __str__


def crossed_means(
    first: np.ndarray, second: np.ndarray, metric: Metric, resamples: int = RESAMPLES, seed: int = 0
) -> np.ndarray:
    """The mean differences (resamples,) with seeds and examples drawn again, with replacement.

    `first` and `second` are (seeds, examples, k), rows of `Metric.examples`.
    """
    chance, (seeds, examples, _) = np.random.default_rng(seed), first.shape
    gains = (_jackknifed(second, metric) - _jackknifed(first, metric)).round(9)
    order = np.lexsort(gains.T)  # the order of the seeds is to change nothing
    times = chance.multinomial(seeds, np.full(seeds, 1 / seeds), resamples)  # how often each seed is drawn
    drawn = chance.integers(examples, size=(resamples, examples)) + examples * np.arange(resamples)[:, None]
    weights = np.bincount(drawn.ravel(), minlength=resamples * examples).reshape(resamples, examples).astype(float)
    values = [
        metric.value(np.tensordot(weights, side[order], (1, 1))) for side in (first, second)
    ]  # (resamples, seeds)
    return ((values[1] - values[0]) * times).sum(1).round(9) / seeds  # what is 0 is to be 0


def _jackknifed(rows: np.ndarray, metric: Metric) -> np.ndarray:
    """What each example contributes, (seeds, examples), from (seeds, examples, k): Tukey's pseudo-values.

    Of a metric that is a mean over the examples they are its terms.
    """
    examples, total = rows.shape[1], rows.sum(1, keepdims=True)
    with np.errstate(all="ignore"):
        return examples * metric.value(total) - (examples - 1) * metric.value(total - rows)


def holm(found: Sequence["Comparison"]) -> list["Comparison"]:
    """The same comparisons, each `p` with the correction for all of them together (Holm 1979).

    The smallest is multiplied by their number, the next by one less, and none ends below one that was smaller.
    """
    values, order = np.array([one.p for one in found]), np.argsort([one.p for one in found])
    raised = np.maximum.accumulate((len(found) - np.arange(len(found))) * values[order])
    corrected = dict(zip(order.tolist(), np.minimum(raised, 1).tolist(), strict=True))
    return [replace(one, p=corrected[place], among=len(found)) for place, one in enumerate(found)]


def compare(first: Sequence[Run], second: Sequence[Run], metric: Metric = ACCURACY) -> Comparison:
    """Compare two experiments, paired by seed and by example.

    By seed, the values' differences of the common seeds; by example, the differences of what each contributes.
    Each has a t interval. They answer different questions: would other
    seeds say the same, would other examples? The crossed interval answers both at once. Pairing by seed is
    right whether or not the experiments share luck; it makes the interval shorter only if they do. If the two ran on
    different devices, the comparison names both: what differs may then be due to them.

    Raises:
        ValueError: fewer than two common seeds, or the runs were validated on different examples.
    """
    left, right = ({run.seed: run for run in runs} for runs in (first, second))
    common = sorted(set(left) & set(right))
    if len(common) < 2:
        raise ValueError(f"two seeds or more must be common to both experiments; common are {common}")
    reference = left[common[0]]
    for run in (*left.values(), *right.values()):
        if run.labels != reference.labels or len(run.predictions) != len(reference.predictions):
            raise ValueError("the experiments were validated on different examples: they cannot be paired")
    pairs = [[side[seed] for seed in common] for side in (left, right)]
    names = [str(runs[0].experiment.get("name", place)) for runs, place in ((first, "first"), (second, "second"))]
    found = _known(names, pairs, metric)
    if found is None:
        values = [values_of(runs, metric) for runs in pairs]
        rows = [np.array([metric.rows(run) for run in runs]) for runs in pairs] if reference.predictions else []
        found = _comparison(names, values, metric, rows)
    devices = [" and ".join(sorted({run.device.partition(",")[0] for run in runs})) for runs in pairs]
    return replace(found, devices=() if devices[0] == devices[1] else tuple(devices))


def _against_baseline(name: str, runs: Sequence[Run], metric: Metric, baseline: float) -> Comparison:
    """An experiment against one that answers every example without reading, and scores `baseline`."""
    names, values = [metric.baseline_name, name], [np.full(len(runs), baseline), values_of(runs, metric)]
    known = _known([metric.baseline_name, str(runs[0].experiment.get("name", ""))], [runs], metric)
    if known is not None:
        return replace(known, second=name)
    if metric.baseline is None or not runs[0].predictions:
        return _comparison(names, values, metric)
    constant = np.tile(np.asarray(metric.baseline(runs[0]), dtype=float), (len(runs), 1, 1))
    return _comparison(names, values, metric, [constant, np.array([metric.rows(run) for run in runs])])


def _known(names: Sequence[str], sides: Sequence[Sequence[Run]], metric: Metric) -> Comparison | None:
    """The comparison that summaries bring along, if these are the summaries of all common seeds; else None."""
    summaries = [[run for run in runs if isinstance(run, Summary)] for runs in sides]
    common = set.intersection(*({*run.seeds} for some in summaries for run in some)) if all(summaries) else set()
    if any(
        {run.seed for run in some} != common or len(some) < len(runs)
        for some, runs in zip(summaries, sides, strict=True)
    ):
        return None
    values = summaries[0][0].comparisons.get((names[0], names[1], metric.name)) if common else None
    return None if values is None else Comparison(**values, unit=metric.difference_unit)


def _comparison(
    names: Sequence[str], values: Sequence[np.ndarray], metric: Metric, rows: Sequence[np.ndarray] = ()
) -> Comparison:
    """The comparison of two experiments with these values (seeds,) and rows (seeds, examples, k), if there are any."""
    first, second = values
    by_seed = second - first
    spread = by_seed.std(ddof=1) if len(by_seed) > 1 else float("nan")
    by_example, crossed, p, examples = (float("nan"),) * 2, (float("nan"),) * 2, 0.0, 0
    if rows:
        examples, means = rows[0].shape[1], crossed_means(rows[0], rows[1], metric)
        by_example = t_interval((_jackknifed(rows[1], metric) - _jackknifed(rows[0], metric)).mean(axis=0))
        below, above = ((1 + np.sum(side)) / (1 + len(means)) for side in (means <= 0, means >= 0))
        low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        crossed, p = (float(low), float(high)), 2 * min(below, above)
    better = np.sign(second[:, None] - first) * (-1 if metric.lower_is_better else 1)
    return Comparison(
        first=names[0],
        second=names[1],
        seeds=len(by_seed),
        examples=examples,
        difference=float(by_seed.mean()),
        by_seed=t_interval(by_seed),
        by_example=by_example,
        crossed=crossed,
        ahead=float((better + 1).mean() / 2),
        effect=float(by_seed.mean() / spread) if spread > 0 else float("nan"),
        p=float(min(1, max(p, p_over_seeds(by_seed)))),
        unit=metric.difference_unit,
    )


def p_over_seeds(differences: np.ndarray) -> float:
    """The p of Student's t that belongs to `t_interval`; 1 if there is a single difference."""
    if len(differences) < 2:
        return 1.0
    if np.ptp(differences) == 0:  # an interval of width 0
        return float(differences[0] == 0)
    t = differences.mean() / (differences.std(ddof=1) / len(differences) ** 0.5)
    return float(2 * stdtr(len(differences) - 1, -abs(t)))
