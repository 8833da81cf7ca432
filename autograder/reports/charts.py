"""The report's charts: SVG to stand in a page, in the page's own colours, light and dark, and without a script."""

import datetime
import importlib
import io
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE = (4.7, 2.4)  # inches, of 72 units each: on a phone one unit is about a pixel
EDGES = (0.11, 0.2, 0.98, 0.95)  # left, bottom, right, top of the axes, as shares of the figure
# matplotlib wants colours; the page's stand in their place. `stroke` and `fill` of a style take a variable.
INK, BAR, LINE = "#010101", "#020202", "#030303"
PAGE = {INK: "var(--ink)", BAR: "var(--bar)", LINE: "var(--bad)"}
LOOK = {
    "svg.fonttype": "none",
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
MOST_BINS = 12
EARLIEST, LATEST = datetime.datetime(1, 1, 3), datetime.datetime(9999, 12, 29)  # that an axis can show, in any zone
NEAR = datetime.timedelta(days=14)  # a deadline further from all submissions would leave them no room


def histogram(scores: Sequence[float], points: float) -> Markup:
    """How many submissions have how many of `points` points."""
    width = max(1, math.ceil(points / MOST_BINS))  # whole, so that each bar stands for as many possible scores
    lows = [width * place for place in range(int(points // width) + 1)]
    counts = [sum(low <= score < low + width for score in scores) for low in lows]
    figure, axes = _figure()
    axes.bar([low + (width - 1) / 2 for low in lows], counts, width=0.9 * width, color=BAR)
    axes.set(xlabel="points", ylabel="submissions", xlim=(-0.6, lows[-1] + width - 0.4))
    last = [min(low + width - 1, points) for low in lows]
    named = (f"{low:g}" if low == high else f"{low:g} to {high:g}" for low, high in zip(lows, last, strict=True))
    description = "; ".join(f"{name}: {count}" for name, count in zip(named, counts, strict=True) if count)
    return as_svg(figure, f"Histogram: how many submissions have how many of {points:g} points. {description}.")


def time_line(times: Sequence[datetime.datetime], deadline: datetime.datetime | None, zone: datetime.tzinfo) -> Markup:
    """How many had handed in by when, and the deadline if it is near; all times know their zones."""
    from matplotlib import dates

    times = sorted(times)
    first, last = times[0], times[-1]
    figure, axes = _figure()
    description = f"{len(times)} submissions, the first at {shown(first, zone)}, the last at {shown(last, zone)}"
    edge = max((last - first) / 20, datetime.timedelta(minutes=5))
    ends = [first, last]
    if deadline is not None and first - NEAR < deadline < last + NEAR:
        ends.append(deadline)
        axes.axvline(dates.date2num(deadline), color=LINE, linestyle="--", linewidth=1.2)
        description += f"; {sum(time <= deadline for time in times)} before the deadline, {shown(deadline, zone)}"
    earliest, latest = EARLIEST.replace(tzinfo=first.tzinfo), LATEST.replace(tzinfo=first.tzinfo)
    begin, end = max(min(ends), earliest + edge) - edge, min(max(ends), latest - edge) + edge
    steps, counts = [begin, *times, end], [0, *range(1, len(times) + 1), len(times)]
    axes.fill_between(dates.date2num(steps), counts, step="post", color=BAR, alpha=0.2)
    axes.step(dates.date2num(steps), counts, where="post", color=BAR)
    places = dates.AutoDateLocator(tz=zone, minticks=3, maxticks=8)
    axes.xaxis.set_major_locator(places)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(places, tz=zone))
    axes.set(xlim=dates.date2num([begin, end]), ylim=(0, None), ylabel="submissions so far")
    place = str(zone).rpartition("/")[2].replace("_", " ")
    axes.set_xlabel(f"handed in, time of {place}", loc="left")  # on the right is the date that all ticks share
    return as_svg(figure, f"Time-line: {description}.")


def load() -> None:
    """Import what charts need; else the first of them does, which takes a third of a second."""
    for name in ("figure", "dates", "ticker", "backends.backend_svg"):
        importlib.import_module(f"matplotlib.{name}")


def shown(when: datetime.datetime, zone: datetime.tzinfo) -> str:
    """A time to the minute, as a sentence says it."""
    return f"{when.astimezone(zone):%Y-%m-%d %H:%M}"


def _figure() -> "tuple[Figure, Axes]":
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    with rc_context(LOOK):
        figure = Figure(figsize=SIZE)
        axes = figure.subplots()
        figure.subplots_adjust(*EDGES)  # the same for all: to compute them takes as long as to draw
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    return figure, axes


def as_svg(figure: "Figure", description: str) -> Markup:
    """The figure for a page; `description` is for people who cannot see it."""
    from matplotlib import rc_context

    file = io.StringIO()
    with rc_context(LOOK | {"svg.hashsalt": description}):  # several charts of a page have ids of their own
        figure.savefig(file, format="svg", transparent=True, metadata=NO_METADATA)
    drawn = file.getvalue()
    drawn = re.sub(r"<metadata>.*?</metadata>", "", drawn[drawn.index("<svg") :], flags=re.DOTALL)
    drawn = re.sub(r"<style.*?</style>| font-family: [^;]*;", "", drawn, flags=re.DOTALL)  # the page has its own
    drawn = re.sub(r'<g id="[^"]*">', "<g>", drawn)  # alike in every chart, and nothing refers to them
    head = rf'<svg role="img" viewBox="\1" aria-label="{escape(description)}">'
    drawn = re.sub(r'^<svg [^>]*?viewBox="([^"]*)"[^>]*>', head, drawn)
    for ours, pages in PAGE.items():
        drawn = drawn.replace(ours, pages)
    return Markup(drawn)
