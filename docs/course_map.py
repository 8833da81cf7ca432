"""The course's page: a figure of which exercise uses which, and tables of points and hours, read from the notebooks."""

import re
import statistics
import tomllib
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from autograder import course as courses
from autograder.author import overview
from autograder.author.overview import Exercise
from autograder.course import NotebookEntry
from autograder.reports.report import recorded_tables
from utils import diagrams

Map = dict[NotebookEntry, list[Exercise]]
COLUMNS = 5  # beside one another, so that the figure is readable on a laptop; the next notebooks are below them
ACROSS, DOWN, BOX = 1.5, 0.35, 0.27  # inches of a column and of a row; half the width of a box
MIDDLE = 0.9  # inches from the left of a column to the middle of its boxes; what they use elsewhere is at their left
WIDEST = 0.32  # inches by which a bow may leave its boxes
ELSEWHERE = 2  # exercises of other notebooks in a line


def read() -> Map:
    """The exercises of each notebook."""
    course = courses.load()
    known = {one.number for entry in course.notebooks for one in overview.exercises(course, entry)}
    return {entry: overview.exercises(course, entry, known) for entry in course.notebooks}


def draw(found: Map, path: Path) -> None:
    """Write the figure."""
    path.parent.mkdir(exist_ok=True)
    with rc_context({"svg.hashsalt": "course"}):  # the same file for the same figure
        drawn(found).savefig(path, transparent=True, metadata={"Date": None})


def drawn(found: Map) -> Figure:
    """The figure: a column for each notebook, its exercises from top to bottom, a bow to each that uses one.

    What an exercise uses of other notebooks is written at its left: lines to these would cross all boxes between.
    """
    entries, place, top = list(found), {}, 0.0
    for first in range(0, len(entries), COLUMNS):
        for column, entry in enumerate(entries[first : first + COLUMNS]):
            names = [entry.number, *(exercise.number for exercise in found[entry])]
            place |= {name: (column * ACROSS + MIDDLE, top - row * DOWN) for row, name in enumerate(names)}
        top -= DOWN * (max(len(found[entry]) for entry in entries[first : first + COLUMNS]) + 2)
    figure = Figure(figsize=(COLUMNS * ACROSS, DOWN - top))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, COLUMNS * ACROSS), ylim=(top, DOWN))
    axes.axis("off")
    for entry, exercises in found.items():
        _plate(axes, place[entry.number], entry.number, "label", fontweight="bold", fontsize=13)
        for exercise in exercises:
            _plate(axes, place[exercise.number], exercise.number, "new" if ".W" in exercise.number else "tensor")
            own = [one for one in exercise.uses if one.split(".")[0] == exercise.number.split(".")[0]]
            for used in own:
                _bow(axes, place[used], place[exercise.number])
            _elsewhere(axes, place[exercise.number], [one for one in exercise.uses if one not in own])
    return figure


def _plate(axes: Axes, middle: tuple[float, float], text: str, kind: str, **options: Any) -> None:
    """A text on a plate of the block diagrams."""
    plate, edge, _ = diagrams.PLATES[kind]
    corner = (middle[0] - BOX, middle[1] - 0.13)
    axes.add_patch(FancyBboxPatch(corner, 2 * BOX, 0.26, "round,pad=0,rounding_size=0.07", fc=plate, ec=edge, lw=0.8))
    axes.text(*middle, text, ha="center", va="center_baseline", color=diagrams.INK, **{"fontsize": 11} | options)


def _bow(axes: Axes, begin: tuple[float, float], end: tuple[float, float]) -> None:
    """An arrow at the right of a column, from what is used to what uses it."""
    length = abs(begin[1] - end[1])
    bow = f"arc3,rad={-min(0.5, 2 * WIDEST / length)}"
    style = {"arrowstyle": "-|>", "color": diagrams.LINES["flow"][0], "connectionstyle": bow, "linewidth": 1.0}
    ends = (end[0] + BOX, end[1]), (begin[0] + BOX, begin[1])
    axes.annotate("", *ends, arrowprops=style | {"shrinkA": 0, "shrinkB": 0})


def _elsewhere(axes: Axes, middle: tuple[float, float], used: list[str]) -> None:
    """The exercises of other notebooks that one uses, at its left."""
    lines = [", ".join(used[first : first + ELSEWHERE]) for first in range(0, len(used), ELSEWHERE)]
    plate = {"boxstyle": "round,pad=0.15", "fc": diagrams.PLATES["label"][0], "ec": "none"}
    text = {"ha": "right", "va": "center", "fontsize": 8.5, "linespacing": 1.0, "color": diagrams.INK, "bbox": plate}
    if used:
        axes.text(middle[0] - BOX - 0.06, middle[1], "\n".join(lines), **text)


def tables(found: Map) -> str:
    """Markdown: a row for each notebook, then one for each exercise."""
    lines = [
        "| notebook | exercises | points | hours | experiment, minutes for one seed | deadline |",
        "|---|---|---|---|---|---|",
    ]
    for entry, some in found.items():
        graded, points = sum(".W" not in one.number for one in some), sum(one.points for one in some)
        hours = sum(one.minutes for one in some) / 60
        due = f"{entry.deadline:%d %B %Y}" if entry.deadline else ""
        link = f"[{entry.number}](../notebooks/{entry.name}.ipynb) {entry.title}"
        lines.append(f"| {link} | {graded} | {points:g} | {hours:.1f} | {_experiment(entry)} | {due} |")
    lines += ["", "| notebook | what you build | what you measure |", "|---|---|---|"]
    lines += [f"| {entry.number} | {entry.builds} | {entry.measures} |" for entry in found]
    lines += ["", "| exercise | title | points | minutes | level | uses |", "|---|---|---|---|---|---|"]
    for some in found.values():
        for one in some:
            title = one.title or "a written question"
            minutes = one.minutes or ""
            lines.append(
                f"| {one.number} | {title} | {one.points:g} | {minutes} | {one.level} | {', '.join(one.uses)} |"
            )
    return "\n".join(lines) + "\n"


def _experiment(entry: NotebookEntry) -> str:
    """What one seed of all its experiments took when they were recorded, at the size cpu."""
    runs = {name: some for table in recorded_tables(entry) for name, some in table.runs.items()}
    minutes = sum(statistics.mean(run.seconds for run in some) for some in runs.values()) / 60
    return f"{minutes:.1f}" if minutes >= 0.1 else "a few seconds" if runs else ""


def tracks(found: Map) -> str:
    """Markdown: the notebooks of each track, whose settings are the `toml` blocks of tracks.md, and their hours."""
    page = (courses.FOLDER / "docs" / "tracks.md").read_text()
    minutes = {entry.number: {exercise.number: exercise.minutes for exercise in some} for entry, some in found.items()}
    lines = ["| track | notebooks | hours of exercises |", "|---|---|---|"]
    for title, block in re.findall(r"^## ([^\n]*)\n(?:(?!^## ).)*?^```toml\n(.*?)^```", page, re.M | re.S):
        settings = tomllib.loads(block)
        given = {number: worth for row in settings["notebooks"] for number, worth in row.get("points", {}).items()}
        times = [time for name in settings["taught"] for number, time in minutes[name].items() if given.get(number, 1)]
        lines.append(f"| {title} | {', '.join(settings['taught'])} | {sum(times) / 60:.1f} |")
    return "\n".join(lines) + "\n"
