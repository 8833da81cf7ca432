"""All figures of the course, in one look: legible on light and dark pages and to colour-blind readers.

Every function returns a `Picture`, which a notebook shows when it ends a cell. `alt` says in one
sentence what there is to see; it becomes the picture's alternative text.
"""

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
import torch
from cycler import cycler
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINES = ("-", "--", "-.", ":")
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
    "figure.facecolor": "white",  # opaque, so that black text is legible on a dark page, too
    "savefig.facecolor": "white",
    "figure.dpi": 110,
}


class Picture:
    """A figure and its alternative text. `figure` and `axes` are matplotlib's own."""

    def __init__(self, figure: Figure, alt: str):
        self.figure, self.axes, self.alt = figure, figure.axes, alt

    def __repr__(self) -> str:
        return self.alt

    def _repr_png_(self) -> tuple[bytes, dict[str, str]]:
        """The picture for a notebook, with metadata that nbconvert turns into `<img alt=...>`."""
        return self.png(), {"alt": self.alt}

    def png(self) -> bytes:
        """The bytes of a PNG file."""
        file = io.BytesIO()
        with matplotlib.rc_context(LOOK):
            self.figure.savefig(file, format="png", bbox_inches="tight", metadata={"Description": self.alt})
        return file.getvalue()


def numbers(values: Any) -> np.ndarray:
    """`values` (a tensor on any device, an array, a list) as a numpy array of floats."""
    if isinstance(values, torch.Tensor):
        values = values.detach().float().cpu()
    return np.asarray(values, dtype=float)


def heatmaps(
    panels: Mapping[str, Any],
    *,
    alt: str,
    labels: Sequence[str] | None = None,
    xlabel: str = "key",
    ylabel: str = "query",
    limits: tuple[float, float] | None = (0, 1),
) -> Picture:
    """Matrices side by side, one per title, with one colour scale.

    Args:
        panels: title -> matrix; rows go down (queries), columns to the right (keys).
        labels: names of rows and columns, the same for both.
        limits: ends of the colour scale; None takes those of the data.
    """
    matrices = {title: numbers(matrix) for title, matrix in panels.items()}
    low, high = limits or (
        min(matrix.min() for matrix in matrices.values()),
        max(matrix.max() for matrix in matrices.values()),
    )
    columns = min(len(matrices), 4)
    rows = -(-len(matrices) // columns)
    side = 2.7 if labels is None or len(labels) < 8 else 3.4
    with matplotlib.rc_context(LOOK):
        figure = Figure(figsize=(side * columns + 0.6, side * rows + 0.2), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False)
        for ax, (title, matrix) in zip(grid.flat, matrices.items(), strict=False):
            image = ax.imshow(matrix, cmap="cividis", vmin=low, vmax=high)
            ax.set(title=title, xlabel=xlabel)
            ax.spines[:].set_visible(False)
            if labels is not None:
                ax.set_xticks(range(len(labels)), labels, rotation=60, ha="right", rotation_mode="anchor")
                ax.set_yticks(range(len(labels)), labels)
            else:
                ax.xaxis.set_major_locator(MaxNLocator(integer=True))
                ax.yaxis.set_major_locator(MaxNLocator(integer=True))
        for ax in grid.flat[len(matrices) :]:
            ax.set_visible(False)
        for ax in grid[:, 0]:
            ax.set_ylabel(ylabel)
        figure.colorbar(image, ax=grid.ravel().tolist(), shrink=0.7, aspect=25)
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
        series: label -> values.
        x: where the values lie; 1, 2, 3, ... if None.
        bands: label -> lower and upper values, shaded around the line of that label.
        log: whether the vertical axis is logarithmic.
    """
    with matplotlib.rc_context(LOOK):
        figure = Figure(figsize=(6, 3.4), layout="constrained")
        ax = figure.subplots()
        for index, (label, values) in enumerate(series.items()):
            values = numbers(values)
            places = np.arange(1, len(values) + 1) if x is None else numbers(x)
            style = LINES[index % len(LINES)]
            (line,) = ax.plot(
                places, values, style, label=label, lw=1.8, marker="o" if len(values) < 12 else "", ms=3.5
            )
            if bands and label in bands:
                lower, upper = map(numbers, bands[label])
                ax.fill_between(places, lower, upper, color=line.get_color(), alpha=0.2, lw=0)
        ax.set(xlabel=xlabel, ylabel=ylabel, **({"yscale": "log"} if log else {}))
        ax.grid(axis="y", alpha=0.3)
        if x is None:
            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        if len(series) > 1:
            ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return Picture(figure, alt)


def bars(
    series: Mapping[str, Iterable[float]],
    *,
    labels: Sequence[str],
    ylabel: str,
    alt: str,
    stacked: bool = False,
    errors: Mapping[str, Any] | None = None,
) -> Picture:
    """Bars at each of `labels`, one per series: side by side, or on top of each other if `stacked`.

    Args:
        series: name -> one value per label.
        errors: name -> half the length of each error bar.
    """
    with matplotlib.rc_context(LOOK):
        figure = Figure(figsize=(6, 3.2), layout="constrained")
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
        ax.set_xticks(places, labels)
        ax.set_ylabel(ylabel)
        if len(series) > 1:
            ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return Picture(figure, alt)
