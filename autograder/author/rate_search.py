"""Search the settings of an experiment's arms on held-out data, and record every trial.

A script in a notebook's folder of `solutions/` says which arms there are, which values of which settings are tried, and
how one trial is scored. Where the best value is the first or the last one that was tried, the next one is tried too.
"""

import argparse
import itertools
import json
import multiprocessing
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from utils import files

Axes = Mapping[str, Sequence[float]]  # the values of each setting, in ascending order
Row = dict[str, Any]  # arm, the settings, seed, score, and what else was measured
Trial = Callable[[str, Mapping[str, float], int], Row]  # of an arm with settings and a seed: score, and more
WIDENED = 3  # times an axis grows at most, at each of its ends


def settings_of(axes: Axes) -> list[dict[str, float]]:
    """Every combination of values."""
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def key(arm: str, settings: Mapping[str, float], seed: int) -> str:
    """Name a trial."""
    return json.dumps([arm, dict(sorted(settings.items())), seed])


def read_rows(path: Path) -> list[Row]:
    """The rows that a script has recorded, none at first."""
    rows: list[Row] = json.loads(path.read_text()) if path.is_file() else []
    return rows


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write all rows, a line for each."""
    files.write(path, "[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")


def load(path: Path) -> dict[str, Row]:
    """The recorded trials by their key."""
    return {key(row["arm"], row["settings"], row["seed"]): row for row in read_rows(path)}


def save(path: Path, rows: Iterable[Row]) -> None:
    """Write all trials, a line for each, in one order."""
    write_rows(path, sorted(rows, key=lambda row: key(row["arm"], row["settings"], row["seed"])))


def means(rows: Iterable[Row], arm: str) -> dict[tuple[float, ...], float]:
    """The mean score of each combination of settings that was tried with every seed, by the values of its settings."""
    found: dict[tuple[float, ...], list[float]] = {}
    for row in rows:
        if row["arm"] == arm:
            found.setdefault(tuple(row["settings"].values()), []).append(row["score"])
    most = max(map(len, found.values()), default=0)
    return {values: sum(some) / most for values, some in sorted(found.items()) if len(some) == most}


def best(rows: Iterable[Row], arm: str) -> tuple[float, ...]:
    """The settings with the best mean score; of equal ones the smallest."""
    scores = means(rows, arm)
    return max(scores, key=lambda values: (round(scores[values], 6), [-value for value in values]))


def widened(axes: Axes, chosen: Sequence[float]) -> dict[str, list[float]]:
    """The axes with one value more wherever the chosen one is at the end of an axis of several values."""
    made = {}
    for (name, values), value in zip(axes.items(), chosen, strict=True):
        more = list(values)
        if len(more) > 1 and value == more[0]:
            more.insert(0, _next(more[1], more[0]))
        elif len(more) > 1 and value == more[-1]:
            more.append(_next(more[-2], more[-1]))
        made[name] = more
    return made


def _next(before: float, last: float) -> float:
    """The value that follows two in a row of equal ratios, to two digits."""
    return float(f"{last * last / before:.1e}")


def _with_known(axes: Axes, rows: Iterable[Row]) -> dict[str, list[float]]:
    """The axes with the values that recorded trials have besides."""
    tried = [row["settings"] for row in rows]
    return {name: sorted({*values, *(one[name] for one in tried)}) for name, values in axes.items()}


def search(
    arms: Mapping[str, Axes], seeds: Sequence[int], trial: Trial, path: Path, executor: Executor, say: Callable = print
) -> dict[str, dict[str, float]]:
    """Try every combination of each arm with each seed, widen axes where the best is at an end; the best of each arm.

    Trials that are recorded in `path` are not run again; each new one is written as soon as it is over.
    """
    known, chosen = load(path), {}
    grown = {arm: _with_known(axes, (row for row in known.values() if row["arm"] == arm)) for arm, axes in arms.items()}
    open_arms = [*arms]
    for _ in range(1 + WIDENED):
        planned = [
            (name, settings, seed) for name in open_arms for settings in settings_of(grown[name]) for seed in seeds
        ]
        jobs = {executor.submit(trial, *one): one for one in planned if key(*one) not in known}
        for job in as_completed(jobs):
            name, settings, seed = jobs[job]
            row = {"arm": name, "settings": settings, "seed": seed, **job.result()}
            known[key(name, settings, seed)] = row
            save(path, known.values())
        still = []
        for name in open_arms:
            values = best(known.values(), name)
            chosen[name] = dict(zip(grown[name], values, strict=True))
            wider = widened(grown[name], values)
            if wider != grown[name]:
                still.append(name)
                grown[name] = wider
            scores = {tried: round(mean, 3) for tried, mean in means(known.values(), name).items()}
            say(f"{name}: {chosen[name]} of {scores}")
        open_arms = still
        if not open_arms:
            break
    return chosen


def table(path: Path, chosen: Mapping[str, Sequence[float]], digits: int = 1) -> list[str]:
    """Markdown: for each arm of a recorded search the mean score of its settings, the chosen one in bold."""
    rows, lines = [*load(path).values()], []
    for arm, best_values in chosen.items():
        names, scores = [*next(row for row in rows if row["arm"] == arm)["settings"]], means(rows, arm)
        varied = [place for place in range(len(names)) if len({values[place] for values in scores}) > 1]
        cells = []
        for values, score in scores.items():
            told = f"{', '.join(f'{values[place]:g}' for place in varied)}: {score:.{digits}f}"
            cells.append(f"**{told}**" if values == tuple(best_values) else told)
        lines.append(f"| {arm} | {', '.join(names[place] for place in varied)} | {'; '.join(cells)} |")
    return lines


def main(description: str | None, run: Callable[[Executor], object]) -> None:
    """The command line of a search: `run` tries what was not tried yet, and what it returns is printed."""
    ask = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--processes", type=int, default=1)
    given = ask.parse_args()
    with ProcessPoolExecutor(given.processes, multiprocessing.get_context("fork")) as executor:
        print(run(executor))
