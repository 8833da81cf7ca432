"""The report's charts: SVG to stand in a page, in the page's own colours, light and dark, and without a script.

There are two, of a few shapes each. To import matplotlib for them, and to draw, took a second and a half a page.
"""

import datetime
import math
from collections.abc import Sequence

from markupsafe import Markup, escape

WIDTH, HEIGHT = 338, 173  # on a phone one unit is about a pixel
LEFT, RIGHT, TOP, BOTTOM = 37, 332, 9, 138  # of the axes
MOST_BINS = 12
MOST_TICKS = 6
NEAR = datetime.timedelta(days=14)  # a deadline further from all hand-ins would leave them no room
MINUTES, DAYS = (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720), (1, 2, 7, 14, 30, 91, 182, 365)
STEPS = [*(datetime.timedelta(minutes=one) for one in MINUTES), *(datetime.timedelta(days=one) for one in DAYS)]
YEARS = datetime.timedelta(days=60)  # ticks that lie so far apart name the year


def histogram(scores: Sequence[float], points: float) -> Markup:
    """How many hand-ins have how many of `points` points."""
    width = max(1, math.ceil(points / MOST_BINS))  # whole, so that each bar stands for as many possible scores
    lows = [width * place for place in range(int(points // width) + 1)]
    counts = [sum(low <= score < low + width for score in scores) for low in lows]
    last = [min(low + width - 1, points) for low in lows]
    named = (f"{low:g}" if low == high else f"{low:g} to {high:g}" for low, high in zip(lows, last, strict=True))
    told = "; ".join(f"{name}: {count}" for name, count in zip(named, counts, strict=True) if count)
    axes = _Axes(-0.6, lows[-1] + width - 0.4, max(counts), "points", "hand-ins")
    for low, count in zip(lows, counts, strict=True):
        middle = low + (width - 1) / 2
        left, right = axes.x(middle - 0.45 * width), axes.x(middle + 0.45 * width)
        shape = f'x="{left}" y="{axes.y(count)}" width="{right - left:.1f}" height="{BOTTOM - axes.y(count):.1f}"'
        axes.parts.append(f'<rect {shape} style="fill: var(--bar)"/>')
    for score in _whole(lows[-1] + width - 1):
        axes.tick(score, str(score))
    return axes.svg(f"Histogram: how many hand-ins have how many of {points:g} points. {told}.")


def time_line(times: Sequence[datetime.datetime], deadline: datetime.datetime | None, zone: datetime.tzinfo) -> Markup:
    """How many had handed in by when, and the deadline if it is near; all times know their zones."""
    times = sorted(times)
    first, last = times[0], times[-1]
    told = f"{len(times)} hand-ins, the first at {shown(first, zone)}, the last at {shown(last, zone)}"
    edge = max((last - first) / 20, datetime.timedelta(minutes=5))
    near = deadline is not None and first - NEAR < deadline < last + NEAR
    ends = [first, last, deadline] if near and deadline is not None else [first, last]
    begin, end = min(ends) - edge, max(ends) + edge
    ticks, day = _ticks(begin.astimezone(zone), end.astimezone(zone))
    title = f"handed in, {day}time of {zone}"
    axes = _Axes(begin.timestamp(), end.timestamp(), len(times), title, "hand-ins so far")
    if near and deadline is not None:
        place = axes.x(deadline.timestamp())
        style = "stroke: var(--bad); stroke-width: 1.2; stroke-dasharray: 4 2"
        axes.parts.append(f'<path d="M{place} {BOTTOM}V{TOP}" style="{style}"/>')
        told += f"; {sum(one <= deadline for one in times)} before the deadline, {shown(deadline, zone)}"
    steps = [f"H{axes.x(one.timestamp())}V{axes.y(count)}" for count, one in enumerate(times, start=1)]
    line = f"M{LEFT} {BOTTOM}{''.join(steps)}H{RIGHT}"
    axes.parts.append(f'<path d="{line}V{BOTTOM}" style="fill: var(--bar); fill-opacity: 0.2"/>')
    axes.parts.append(f'<path d="{line}" style="fill: none; stroke: var(--bar); stroke-width: 1.5"/>')
    for when, text in ticks:
        axes.tick(when.timestamp(), text)
    return axes.svg(f"Time-line: {told}.")


def shown(when: datetime.datetime, zone: datetime.tzinfo) -> str:
    """A time to the minute, as a sentence says it."""
    return f"{when.astimezone(zone):%Y-%m-%d %H:%M}"


class _Axes:
    """Axes from `first` to `last`, upwards from 0 to `top`; `parts` are the shapes that were drawn into them."""

    def __init__(self, first: float, last: float, top: int, across: str, up: str):
        self._first, self._size, self._top = first, last - first, 1.05 * max(top, 1)
        self._titles = (across, up)
        self._marks = [f"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}"]
        self._texts: list[str] = []
        self.parts: list[str] = []
        for count in _whole(top):
            self._marks.append(f"M{LEFT} {self.y(count)}h-3.5")
            self._texts.append(f'<text x="{LEFT - 7}" y="{self.y(count) + 3.5:.1f}" text-anchor="end">{count}</text>')

    def x(self, value: float) -> float:
        """Where a value lies across."""
        return round(LEFT + (RIGHT - LEFT) * (value - self._first) / self._size, 1)

    def y(self, count: float) -> float:
        """Where a count lies."""
        return round(BOTTOM - (BOTTOM - TOP) * count / self._top, 1)

    def tick(self, value: float, text: str) -> None:
        """Write below a value what it is called."""
        self._marks.append(f"M{self.x(value)} {BOTTOM}v3.5")
        self._texts.append(f'<text x="{self.x(value)}" y="{BOTTOM + 14}" text-anchor="middle">{text}</text>')

    def svg(self, told: str) -> Markup:
        """The chart for a page; `told` says what there is to see to whoever does not see it."""
        across, up = map(escape, self._titles)
        middle = (TOP + BOTTOM) / 2
        texts = [
            *self._texts,
            f'<text x="{(LEFT + RIGHT) / 2}" y="{HEIGHT - 7}" text-anchor="middle">{across}</text>',
            f'<text transform="translate(11 {middle}) rotate(-90)" text-anchor="middle">{up}</text>',
        ]
        return Markup(
            f'<svg role="img" viewBox="0 0 {WIDTH} {HEIGHT}" aria-label="{escape(told)}">{"".join(self.parts)}'
            f'<path d="{"".join(self._marks)}" style="fill: none; stroke: var(--ink); stroke-width: 0.8"/>'
            f'<g style="fill: var(--ink); font-size: 10px">{"".join(texts)}</g></svg>'
        )


def _whole(top: int) -> range:
    """Whole numbers to name on an axis from 0 to `top`, a few: by ones, twos, fives, tens, ..."""
    steps = (factor * 10**power for power in range(9) for factor in (1, 2, 5))
    return range(0, top + 1, next(step for step in steps if top < MOST_TICKS * step))


def _ticks(begin: datetime.datetime, end: datetime.datetime) -> tuple[list[tuple[datetime.datetime, str]], str]:
    """Times to name between two of one zone, with their names; and the day, if no name says it."""
    step = next((one for one in STEPS if end - begin < MOST_TICKS * one), (end - begin) / MOST_TICKS)
    midnight = begin.replace(hour=0, minute=0, second=0, microsecond=0)
    first = midnight + math.ceil((begin - midnight) / step) * step
    times = [first + place * step for place in range(MOST_TICKS + 1) if first + place * step <= end]
    if step >= YEARS:
        return [(one, f"{one:%Y-%m}") for one in times], ""
    names = [
        f"{one:%m-%d}" if step >= STEPS[-len(DAYS)] or not (one.hour or one.minute) else f"{one:%H:%M}" for one in times
    ]
    return [*zip(times, names, strict=True)], f"{begin:%Y-%m-%d}, " if not any("-" in one for one in names) else ""
