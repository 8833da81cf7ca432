"""All figures of the course, in one look: legible on light and dark pages and to colour-blind readers.

Every function returns a `Picture`, which a notebook shows when it ends a cell. `alt` says in one
sentence what there is to see; it becomes the picture's alternative text.
"""

import io
import itertools
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from cycler import cycler

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINES = ("-", "--", "-.", ":")
NOTEBOOK = 8.4  # inches of panels that a notebook on a laptop shows without making their titles smaller
LETTER = 0.085  # inches of a letter of a label, at most
WRITTEN_IN = 6  # rows and columns of a matrix whose cells have room for their values
LOOK: dict[str, Any] = {
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.labelsize": 10,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": cycler(color=OKABE_ITO),
    "figure.facecolor": "white",  # opaque, so that black text is legible on a dark page too
    "savefig.facecolor": "white",
    "figure.dpi": 110,
}


class Picture:
    """A figure and its alternative text. `figure` and `axes` are matplotlib's own."""

    def __init__(self, figure: "Figure", alt: str):
        self.figure, self.axes, self.alt = figure, figure.axes, alt

    def __repr__(self) -> str:
        return self.alt

    def _repr_png_(self) -> tuple[bytes, dict[str, str]]:
        """The picture for a notebook, with metadata that nbconvert turns into `<img alt=...>`."""
        return self.png(), {"alt": self.alt}

    def mark(self, name: str, place: float) -> "Picture":
        """Draw a dotted vertical line at a place of the first axes, with a name above it; gives the picture back."""
        import matplotlib

        ax = self.axes[0]
        with matplotlib.rc_context(LOOK):
            ax.axvline(place, ls=":", color="black", lw=1)
            ax.text(place, 1.02, name, fontsize=9, va="bottom", ha="center", transform=ax.get_xaxis_transform())
        return self

    def png(self) -> bytes:
        """The bytes of a PNG file."""
        import matplotlib

        file = io.BytesIO()
        with matplotlib.rc_context(LOOK):
            self.figure.savefig(file, format="png", bbox_inches="tight", metadata={"Description": self.alt})
        return file.getvalue()


@contextmanager
def drawing(width: float, height: float) -> Iterator["Figure"]:
    """An empty figure of so many inches, drawn in our look. Who draws nothing does not wait for matplotlib."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(LOOK):
        yield Figure(figsize=(width, height), layout="constrained")


def numbers(values: Any) -> np.ndarray:
    """`values` (a tensor on any device, an array, a list) as a numpy array of floats."""
    if isinstance(values, torch.Tensor):
        values = values.detach().float().cpu()
    return np.asarray(values, dtype=float)


def are_masks(panels: Iterable[Any]) -> bool:
    """Whether matrices say yes or no: one is of booleans, and all have nothing but 0, 1 and blanks (NaN)."""
    panels = list(panels)
    booleans = any(str(getattr(panel, "dtype", "")).endswith("bool") for panel in panels)
    return booleans and all(np.isin(values[~np.isnan(values)], (0, 1)).all() for values in map(numbers, panels))


def writing(panels: Iterable[Any]) -> Callable[[float], str]:
    """How the values of matrices are written: yes and no, whole numbers if all are, or two decimals."""
    panels = list(panels)
    if are_masks(panels):
        return lambda value: "yes" if value else "no"
    whole = all(np.equal(values, np.round(values))[~np.isnan(values)].all() for values in map(numbers, panels))
    return lambda value: f"{value:.{0 if whole else 2}f}"


def write_in(ax: Any, matrix: np.ndarray, low: float, high: float, written: Callable[[float], str]) -> None:
    """Write the values of `matrix` into its cells, which are coloured from `low` to `high`; NaN stays blank."""
    for (row, column), value in np.ndenumerate(matrix):
        if not np.isnan(value):
            ink, text = "white" if value < (low + high) / 2 else "black", written(value)
            ax.text(column, row, text, ha="center", va="center", color=ink, fontsize=8 if len(text) > 3 else 9)


def laid_out(count: int, width: float) -> tuple[int, int]:
    """Rows and columns of `count` panels of so many inches each, no wider together than a notebook, rows alike."""
    rows = -(-count // max(1, int(NOTEBOOK // width)))
    return rows, -(-count // rows)


def images(
    figure: "Figure",
    panels: Mapping[str, Any],
    limits: tuple[float, float],
    shape: tuple[int, int],
    bar: Mapping[str, Any],
    *,
    write: bool = False,
    **options: Any,
) -> np.ndarray:
    """Matrices in `figure`, one per title, with their scale of colours beside them; the grid of axes.

    Args:
        shape: rows and columns of the grid.
        bar: `shrink` and `aspect` of the scale.
        write: whether values are written into the cells of every matrix, or of small ones alone.
        options: of matplotlib's `subplots`.
    """
    import matplotlib

    matrices, masks = {title: numbers(panel) for title, panel in panels.items()}, are_masks(panels.values())
    colours, written = matplotlib.colormaps["cividis"].resampled(2 if masks else 256), writing(panels.values())
    grid = figure.subplots(*shape, squeeze=False, **options)
    for ax, (title, matrix) in zip(grid.flat, matrices.items(), strict=False):
        # Cells of a strip need not be squares: its rows would overlap.
        square = not write and matrix.shape[0] == matrix.shape[1]
        image = ax.imshow(matrix, cmap=colours, vmin=limits[0], vmax=limits[1], aspect="equal" if square else "auto")
        if write or max(matrix.shape) <= WRITTEN_IN:
            write_in(ax, matrix, *limits, written)
        ax.set(title=wrapped(title, int(figure.get_figwidth() / shape[1] / LETTER)))
        ax.spines[:].set_visible(False)
    for ax in grid.flat[len(matrices) :]:
        ax.set_visible(False)
    scale = figure.colorbar(image, ax=grid.ravel().tolist(), **bar)
    if masks:
        scale.set_ticks([0.25, 0.75], labels=["no", "yes"])
    return grid


def heatmaps(
    panels: Mapping[str, Any],
    *,
    alt: str,
    labels: Sequence[str] | None = None,
    xlabel: str = "key",
    ylabel: str = "query",
    limits: tuple[float, float] | None = (0, 1),
) -> Picture:
    """Matrices side by side, one per title, with one colour scale. Small ones have their values written in.

    Args:
        panels: title -> matrix; rows go down (queries), columns to the right (keys). Booleans become yes and no.
        labels: names of rows and columns, the same for both.
        limits: ends of the colour scale; None takes those of the data.
    """
    from matplotlib import ticker

    matrices = {title: numbers(matrix) for title, matrix in panels.items()}
    low, high = limits or (
        min(matrix.min() for matrix in matrices.values()),
        max(matrix.max() for matrix in matrices.values()),
    )
    side = 2.7 if labels is None or len(labels) < 8 else 3.4
    rows, columns = laid_out(len(panels), side)
    turned = {"rotation": 60, "ha": "right", "rotation_mode": "anchor"} if max(map(len, labels or "a")) > 2 else {}
    with drawing(side * columns + 0.6, side * rows + 0.2) as figure:
        grid = images(figure, panels, (low, high), (rows, columns), {"shrink": 0.7, "aspect": 25})
        for ax in grid.flat[: len(panels)]:
            ax.set_xlabel(xlabel)
            if labels is not None:
                ax.set_xticks(range(len(labels)), labels, **turned)
                ax.set_yticks(range(len(labels)), labels)
            else:
                ax.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
                ax.yaxis.set_major_locator(ticker.MaxNLocator(integer=True))
        for ax in grid[:, 0]:
            ax.set_ylabel(ylabel)
    return Picture(figure, alt)


def curves(
    series: Mapping[str, Iterable[float] | tuple],
    *,
    xlabel: str,
    ylabel: str,
    alt: str,
    x: Iterable[float] | None = None,
    bands: Mapping[str, tuple[Any, Any]] | None = None,
    log: bool = False,
) -> Picture:
    """Lines on one pair of axes, told apart by colour and by dashes.

    Args:
        series: label -> values. A line goes straight past those that are NaN.
        x: where the values lie; 1, 2, 3, ... if None.
        bands: label -> lower and upper values, shaded around the line of that label.
        log: whether the vertical axis is logarithmic. Its numbers are written out: 20, not 2 times 10 to the 1.
    """
    from matplotlib import ticker

    with drawing(6, 3.4) as figure:
        ax = figure.subplots()
        for index, (label, values) in enumerate(series.items()):
            values = numbers(values)
            places = np.arange(1, len(values) + 1) if x is None else numbers(x)
            known = ~np.isnan(values)
            places, values = places[known], values[known]
            style = LINES[index % len(LINES)]
            (line,) = ax.plot(
                places, values, style, label=label, lw=1.8, marker="o" if len(values) < 12 else "", ms=3.5
            )
            if bands and label in bands:
                lower, upper = (numbers(end)[known] for end in bands[label])
                ax.fill_between(places, lower, upper, color=line.get_color(), alpha=0.2, lw=0)
        ax.set(xlabel=xlabel, ylabel=ylabel, **({"yscale": "log"} if log else {}))
        ax.grid(axis="y", alpha=0.3)
        if log:
            ax.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
            ax.yaxis.set_minor_locator(ticker.NullLocator())
            ax.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,g}"))
        if x is None:
            ax.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
        if len(series) > 1:
            ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return Picture(figure, alt)


def fits(
    series: Mapping[str, tuple[Any, Any]],
    lines: Mapping[str, tuple[Any, Any]],
    *,
    xlabel: str,
    ylabel: str,
    alt: str,
    forecasts: Mapping[str, tuple[float, tuple[float, float], float, tuple[float, float]]] | None = None,
) -> Picture:
    """Points of several series on one pair of axes, whose horizontal axis is logarithmic, and what was fitted to them.

    Args:
        series: label -> x and y of its points; each has a colour and a mark of its own.
        lines: label -> x and y of the line that was fitted to the series of that label.
        forecasts: label -> x and its interval, y and its interval: black crosses.
    """
    from matplotlib import ticker

    with drawing(6, 3.8) as figure:
        ax = figure.subplots()
        for index, (label, (x, y)) in enumerate(series.items()):
            color, mark = OKABE_ITO[index % len(OKABE_ITO)], "os^Dvp*X"[index % 8]
            ax.plot(numbers(x), numbers(y), mark, color=color, ms=5, alpha=0.7, mew=0, label=label)
            if label in lines:
                ax.plot(*map(numbers, lines[label]), LINES[index % len(LINES)], color=color, lw=1.6)
        for mark, (label, (x, (left, right), y, (low, high))) in zip("x+*", (forecasts or {}).items(), strict=False):
            across, up = [[x - left], [right - x]], [[y - low], [high - y]]
            ax.errorbar([x], [y], up, across, fmt=mark, color="black", ms=8, lw=1.2, capsize=3, label=label)
        ax.set(xlabel=xlabel, ylabel=ylabel, xscale="log")
        ax.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        ax.xaxis.set_minor_locator(ticker.NullLocator())
        ax.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.0f}"))
        ax.grid(alpha=0.3)
        ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return Picture(figure, alt)


def points(
    panels: Mapping[str, Mapping[str, tuple[float, float]]], *, ylabel: str, alt: str, log: bool = True
) -> Picture:
    """Named points (x, y) on axes side by side, one for each label of the horizontal axis, with one legend.

    Args:
        panels: xlabel -> name -> (x, y); the same names in each.
        log: whether the horizontal axes are logarithmic.
    """
    from matplotlib import ticker

    with drawing(3.6 * len(panels) + 1.4, 3.2) as figure:
        grid = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for ax, (xlabel, named) in zip(grid, panels.items(), strict=True):
            for index, (name, (x, y)) in enumerate(named.items()):
                color, mark = OKABE_ITO[index % len(OKABE_ITO)], "os^Dvp*X"[index % 8]
                ax.plot([x], [y], mark, color=color, ms=8, alpha=0.85, label=name, clip_on=False)
            ax.set(xlabel=xlabel, **({"xscale": "log"} if log else {}))
            ax.grid(alpha=0.3)
            if log:
                places = [x for x, _ in named.values()]
                wide = max(places) > 50 * min(places)  # more numbers would run into each other
                ax.xaxis.set_major_locator(ticker.LogLocator(subs=(1,) if wide else (1, 2, 5)))
                ax.xaxis.set_minor_locator(ticker.NullLocator())
                ax.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.10g}"))
        grid[0].set_ylabel(ylabel)
        grid[-1].legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return Picture(figure, alt)


def bars(
    series: Mapping[str, Iterable[float]],
    *,
    labels: Sequence[str],
    ylabel: str,
    alt: str,
    xlabel: str | None = None,
    stacked: bool = False,
    errors: Mapping[str, Any] | None = None,
) -> Picture:
    """Bars at each of `labels`, one per series: side by side, or on top of each other if `stacked`.

    Args:
        series: name -> one value per label.
        errors: name -> half the length of each error bar.
    """
    texts = [str(label) for label in labels]
    beside = 0.7 + (0.6 + LETTER * max(map(len, series)) if len(series) > 1 else 0)  # inches of axis and legend
    word = LETTER * max((len(word) for text in texts for word in text.split()), default=1) + 0.08
    wide = min(max(6, beside + word * len(texts)), NOTEBOOK)
    with drawing(wide, 3.2) as figure:
        ax = figure.subplots()
        places, width = np.arange(len(labels)), 0.8 if stacked else 0.8 / len(series)
        base = np.zeros(len(labels))
        for index, (name, values) in enumerate(series.items()):
            values = numbers(values)
            shift = 0 if stacked else (index - (len(series) - 1) / 2) * width
            ax.bar(
                places + shift,
                values,
                width,
                bottom=base if stacked else None,
                label=name,
                yerr=None if errors is None else errors.get(name),
                capsize=3,
                edgecolor="white",
                lw=0.5,
            )
            base = base + values
        room = max(int((wide - beside) / max(len(texts), 1) / LETTER), 1)  # characters, beside the next label
        ax.set_xticks(places, [wrapped(text, room) for text in texts])
        ax.set(xlabel=xlabel, ylabel=ylabel)
        if len(series) > 1:
            ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return Picture(figure, alt)


def wrapped(label: str, room: int) -> str:
    """A label in lines of at most `room` characters, as far as its words allow."""
    lines = (textwrap.wrap(line, room, break_long_words=False, break_on_hyphens=False) for line in label.split("\n"))
    return "\n".join(part for line in lines for part in line)


def tables(
    panels: Mapping[str, Any],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    alt: str,
    limits: tuple[float, float] = (0, 1),
) -> Picture:
    """Small matrices side by side, one per title, with named rows and columns and their values written in.

    Args:
        panels: title -> matrix of len(rows) by len(columns). Booleans become yes and no.
        limits: ends of the one colour scale.
    """
    short = max(len(writing(panels.values())(value)) for panel in panels.values() for value in numbers(panel).flat) < 4
    side = len(columns) * max(0.45 if short else 0.62, 0.09 * max(map(len, columns)))
    high, wide = laid_out(len(panels), side)
    with drawing(side * wide + 1.9, (0.5 * len(rows) + 0.9) * high) as figure:
        bar = {"shrink": 0.9, "aspect": 12 * high}
        grid = images(figure, panels, limits, (high, wide), bar, write=True, sharey=True)
        for ax in grid.flat[: len(panels)]:
            ax.set_xticks(range(len(columns)), columns)
            ax.set_yticks(range(len(rows)), rows)
            ax.tick_params(length=0)
    return Picture(figure, alt)


def arrows(
    panels: Mapping[str, Mapping[str, Sequence[float]]], *, alt: str, title: str = "", reach: float = 1.2
) -> Picture:
    """Named arrows from the middle of axes side by side, with one legend.

    Args:
        panels: title -> name -> (x, y), the tip; the same names in each.
        title: stands above all of them.
        reach: where the axes end on all four sides.
    """
    with drawing(2.1 * len(panels) + 1.2, 2.7) as figure:
        figure.suptitle(title, fontsize=LOOK["axes.titlesize"])
        for ax, (name, tips) in zip(figure.subplots(1, len(panels), squeeze=False).flat, panels.items(), strict=True):
            for index, (label, (x, y)) in enumerate(tips.items()):
                ink = OKABE_ITO[index % len(OKABE_ITO)]
                ax.quiver(0, 0, x, y, color=ink, angles="xy", scale_units="xy", scale=1, width=0.02, label=label)
            ax.set(title=name, xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xticks=[], yticks=[])
            ax.spines[:].set_visible(True)
            ax.spines[:].set_color("#BBBBBB")
        figure.legend(*ax.get_legend_handles_labels(), loc="outside right center")
    return Picture(figure, alt)


def strips(
    groups: Mapping[str, Iterable[float]],
    *,
    xlabel: str,
    alt: str,
    intervals: Mapping[str, tuple[float, float]] | None = None,
    line: tuple[str, float] | None = None,
) -> Picture:
    """Every value of each group as a dot in a row of its own, the mean below it.

    Args:
        groups: name -> values.
        intervals: name -> lower and upper end of a bar around the mean.
        line: the name and place of a vertical line to compare with.
    """
    with drawing(6, 0.9 + 0.55 * len(groups)) as figure:
        ax = figure.subplots()
        for row, (name, some) in enumerate(groups.items()):
            values, color = numbers(some), OKABE_ITO[row % len(OKABE_ITO)]
            spread = np.linspace(-0.07, 0.07, len(values)) if len(values) > 1 else [0.0]  # equal values stay apart
            ax.scatter(values, row - 0.12 + np.asarray(spread), s=24, color=color, alpha=0.55, lw=0)
            mean = values.mean()
            low, high = (intervals or {}).get(name, (mean, mean))
            ax.errorbar(mean, row + 0.2, xerr=[[mean - low], [high - mean]], fmt="D", ms=4, capsize=3, color=color)
        if line is not None:
            ax.axvline(line[1], ls=":", color="black", lw=1)
            ax.text(line[1], -0.6, line[0], fontsize=9, va="bottom", ha="center")
        ax.set_yticks(range(len(groups)), list(groups))
        ax.set_ylim(len(groups) - 0.5, -0.55)
        ax.set_xlabel(xlabel)
        ax.grid(axis="x", alpha=0.3)
    return Picture(figure, alt)


def pieces(rows: Mapping[str, Sequence[tuple[str, str]]], *, kinds: Sequence[str], alt: str) -> Picture:
    """Sentences, one below the other, whose words stand in boxes; those of a kind are coloured, and `kinds` explained.

    Args:
        rows: name -> (word, kind) for each word, as many in every row; a word whose kind is "" stays plain.
    """
    columns = itertools.zip_longest(*([word for word, _ in row] for row in rows.values()), fillvalue="")
    widths = np.array([0.16 + 0.078 * max(map(len, column)) for column in columns])  # inches of a word and its box
    middles, end = widths.cumsum() - widths / 2, widths.sum()
    with drawing(end + 1.0, 0.36 * len(rows) + 0.7) as figure:
        ax = figure.subplots()
        for y, row in enumerate(rows.values()):
            for x, (word, kind) in zip(middles, row, strict=False):
                ink = OKABE_ITO[kinds.index(kind)] if kind else "#BBBBBB"
                box = {"boxstyle": "round,pad=0.25", "fc": (ink, 0.25 if kind else 0.0), "ec": ink}
                ax.text(x, y, word, ha="center", va="center", fontsize=9, bbox=box)
        for x, kind in enumerate(kinds):
            ax.plot([], [], "s", color=OKABE_ITO[x], alpha=0.5, label=kind)
        ax.set_yticks(range(len(rows)), list(rows))
        ax.set(xlim=(0, end), ylim=(len(rows) - 0.4, -0.6))
        ax.tick_params(length=0)
        ax.xaxis.set_visible(False)
        ax.spines[:].set_visible(False)
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(kinds))
    return Picture(figure, alt)
