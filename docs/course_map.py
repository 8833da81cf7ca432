"""The course's page: a figure of which exercise uses which, and tables of points and hours, read from the notebooks."""

import re
import statistics
import tomllib
from pathlib import Path

from matplotlib import pyplot

from autograder import course as courses
from autograder.author import overview
from autograder.author.overview import Exercise
from autograder.course import NotebookEntry
from autograder.reports.report import recorded_tables

Map = dict[NotebookEntry, list[Exercise]]
HEIGHT, WIDTH, BOX = 0.42, 1.2, 0.3  # inches of a row and of a column; half a box, as a share of a column
WIDEST = 0.6  # a bow may leave its column by half of so many inches
COLUMNS = 7  # beside one another, so that the figure is readable on a laptop; the next notebooks stand below them


def read() -> Map:
    """The exercises of each notebook."""
    course = courses.load()
    known = {one.number for entry in course.notebooks for one in overview.exercises(course, entry)}
    return {entry: overview.exercises(course, entry, known) for entry in course.notebooks}


def draw(found: Map, path: Path) -> None:
    """Write the figure: a column for each notebook, its exercises from top to bottom, a line to each that one uses."""
    rows = max(map(len, found.values())) + 2  # a notebook's number above its exercises, and room below them
    height = rows * -(-len(found) // COLUMNS)
    figure, axes = pyplot.subplots(figsize=(COLUMNS * WIDTH, height * HEIGHT))
    place = {}
    for number, (entry, exercises) in enumerate(found.items()):
        names = [entry.number, *(exercise.number for exercise in exercises)]
        place |= {name: (number % COLUMNS, -row - rows * (number // COLUMNS)) for row, name in enumerate(names)}
    for entry, exercises in found.items():
        axes.text(*place[entry.number], entry.number, ha="center", va="center", fontweight="bold", fontsize=13)
        for exercise in exercises:
            for used in exercise.uses:
                _line(axes, place[used], place[exercise.number])
            colour = "#f5ead5" if ".W" in exercise.number else "#d5e8f5"
            box = {"boxstyle": "round,pad=0.3", "facecolor": colour, "edgecolor": "#555"}
            axes.text(*place[exercise.number], exercise.number, ha="center", va="center", bbox=box, fontsize=11)
    axes.set(xlim=(-0.6, COLUMNS - 0.3), ylim=(0.6 - height, 0.6))
    axes.axis("off")
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, facecolor="white", bbox_inches="tight")
    pyplot.close(figure)


def _line(axes: "pyplot.Axes", begin: tuple[int, int], end: tuple[int, int]) -> None:
    """A line from what is used to what uses it: a bow at the right of a column, or from one column to the next."""
    alike = begin[0] == end[0]
    side = BOX if alike else -BOX
    length = abs(begin[1] - end[1]) * HEIGHT
    bow = f"arc3,rad={-min(0.5, WIDEST / length) if alike else 0.15}"
    colour = "#c25" if alike else "#9ab"
    style = {"arrowstyle": "-|>", "color": colour, "connectionstyle": bow, "shrinkA": 0, "shrinkB": 0, "linewidth": 0.9}
    axes.annotate("", (end[0] + side, end[1]), (begin[0] + BOX, begin[1]), arrowprops=style, zorder=3 if alike else 0)


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
        link = f"[{entry.number}](notebooks/{entry.name}.ipynb) {entry.title}"
        lines.append(f"| {link} | {graded} | {points:g} | {hours:.1f} | {_experiment(entry)} | {due} |")
    lines += ["", "| notebook | what you build | what you measure |", "|---|---|---|"]
    lines += [f"| {entry.number} | {entry.builds} | {entry.measures} |" for entry in found]
    lines += ["", "| exercise | title | points | minutes | uses |", "|---|---|---|---|---|"]
    for some in found.values():
        for one in some:
            title = one.title or "a written question"
            minutes = one.minutes or ""
            lines.append(f"| {one.number} | {title} | {one.points:g} | {minutes} | {', '.join(one.uses)} |")
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
