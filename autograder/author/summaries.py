"""What students get of the recorded runs: a summary of each folder of `data/results`, without predictions.

A summary has what tables and pictures show: metrics and curves of each run, and the comparisons of every two
experiments before Holm's correction. `utils.experiments.summaries` reads it.
"""

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from autograder.course import FOLDER, RESULTS, SUMMARIES, Course, CourseError
from utils import files
from utils.experiments.experiment import BadRun, Experiment, Metric, Run, parse, read_files
from utils.experiments.runs import load_table
from utils.experiments.seed_table import Comparison, SeedTable, compare
from utils.experiments.summaries import COMPARED, path_of

KEPT = ("seed", "curve", "seconds", "device", "precision", "versions")  # fields of a run that a summary has unchanged
Arms = Mapping[str, Sequence[Run]]  # the runs of each experiment by its name


def write(course: Course) -> list[Path]:
    """Write the summaries that are missing or stale, and remove those of folders that are gone; return their paths.

    Raises:
        CourseError: a file is not a run, or no notebook's experiments are recorded in a folder of runs.
    """
    known, changed = recorded_folders(course), stale()
    for path in changed:
        folder = FOLDER / RESULTS / path.stem
        if not folder.is_dir():
            path.unlink()
            continue
        if folder not in known:
            raise CourseError(f"{folder} has runs, but no notebook of the course records its experiments there")
        path.parent.mkdir(exist_ok=True)
        files.write(path, _text(summary(folder, *known[folder])))
    return changed


def stale() -> list[Path]:
    """Return the summaries that are missing, that are of other files than a folder has, or whose folder is gone.

    Runs that hold no predictions need none.

    Raises:
        CourseError: a file is not a run.
    """
    outdated = []
    folders = [path for path in sorted((FOLDER / RESULTS).glob("*")) if path.is_dir()]
    for folder in folders:
        content, path = read_files(folder), path_of(folder)
        if any(run.predictions for run in _parsed(folder, content).values()):
            known = json.loads(path.read_text()) if path.is_file() else {"experiments": {}}
            if {name: _sha256(text) for name, text in content.items()} != dict(_summarised(known)):
                outdated.append(path)
    of_folders = {path_of(folder) for folder in folders}
    return [*outdated, *(path for path in sorted((FOLDER / SUMMARIES).glob("*.json")) if path not in of_folders)]


def summary(
    folder: Path, experiments: Mapping[str, Experiment], decoded: Callable[[Arms], Arms] | None
) -> dict[str, Any]:
    """Summarise the runs of these experiments in `folder`.

    Args:
        decoded: as `utils.experiments.experiment.Experiments` states it.

    Raises:
        CourseError: the folder has runs of other experiments too.
    """
    runs = {name: of_experiment for name, of_experiment in load_table(experiments, folder).items() if of_experiment}
    content = read_files(folder)
    others = {name.split("/")[0] for name in content} - {experiments[name].folder("").name for name in runs}
    if others:
        raise CourseError(f"{folder} has runs of {', '.join(sorted(others))}, which no notebook of the course runs")
    metrics = {name: experiments[name].metrics for name in runs}
    rows = [*_comparisons(runs, metrics), *_against_baselines(runs, metrics)]
    if decoded is not None:
        ways = decoded(runs)
        first = next(iter(metrics.values()))[:1]
        rows += _comparisons(ways, dict.fromkeys(ways, first))
    return {
        "experiments": {
            experiments[name].folder("").name: {
                "experiment": of_experiment[0].experiment,
                "labels": of_experiment[0].labels if any(measured.baseline for measured in metrics[name]) else [],
                "runs": [_run(experiments[name], run, content) for run in of_experiment],
            }
            for name, of_experiment in runs.items()
        },
        "comparisons": rows,
    }


def _run(experiment: Experiment, run: Run, content: Mapping[str, bytes]) -> dict[str, Any]:
    classified = any(metric.baseline for metric in experiment.metrics)
    return {
        **{name: getattr(run, name) for name in KEPT},
        "numbers": {metric.name: metric.of(run) for metric in experiment.metrics},
        **({"accuracy": run.accuracy} if classified else {}),
        "degenerate": run.degenerate,
        "shown": experiment.shown(run),
        "sha256": _sha256(content[f"{experiment.folder('').name}/seed_{run.seed}.json"]),
    }


def _comparisons(runs: Arms, metrics: Mapping[str, Sequence[Metric]]) -> Iterator[list[Any]]:
    """Every experiment against every other that has the same metrics and examples, in both directions."""
    for first, second in itertools.permutations(runs, 2):
        run, other = runs[first][0], runs[second][0]
        same_examples = run.labels == other.labels and len(run.predictions) == len(other.predictions)
        if metrics[first] == metrics[second] and same_examples:
            for metric in metrics[first]:
                yield _row(compare(runs[first], runs[second], metric), metric)


def _against_baselines(runs: Arms, metrics: Mapping[str, Sequence[Metric]]) -> Iterator[list[Any]]:
    for name, of_experiment in runs.items():
        for metric in metrics[name]:
            for comparison in SeedTable({name: of_experiment}, metric).against_baselines():
                yield _row(comparison, metric)


def _row(comparison: Comparison, metric: Metric) -> list[Any]:
    return [metric.name if name == "metric" else getattr(comparison, name) for name in COMPARED]


def recorded_folders(course: Course) -> dict[Path, tuple[dict[str, Experiment], Callable[[Arms], Arms] | None]]:
    """The experiments whose runs are recorded in a folder, and what makes more arms of these."""
    folders: dict[Path, tuple[dict[str, Experiment], Callable[[Arms], Arms] | None]] = {}
    for entry in course.notebooks:
        if entry.experiments:
            module = entry.experiment_module()
            groups = [(module.RECORDED, entry.experiments_of("cpu"))]
            groups += [(folder, made()) for folder, made in getattr(module, "ALSO_RECORDED", {}).items()]
            for folder, experiments in groups:
                known = folders.setdefault(folder, ({}, getattr(module, "decoded", None)))[0]
                known.update(experiments)
    return folders


def _parsed(folder: Path, content: Mapping[str, bytes]) -> dict[str, Run]:
    runs = {}
    for name, text in content.items():
        try:
            runs[name] = parse(text)
        except BadRun as why:
            raise CourseError(f"{folder / name} is not a run: {why}") from None
    return runs


def _summarised(known: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The files that a summary is of, each with its checksum."""
    for name, summary in known["experiments"].items():
        yield from ((f"{name}/seed_{run['seed']}.json", run["sha256"]) for run in summary["runs"])


def _sha256(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def _text(content: Mapping[str, Any]) -> str:
    """The text of a summary's file: a line for each run and each comparison."""
    experiments = []
    for name, summary in content["experiments"].items():
        head = ", ".join(f"{json.dumps(key)}: {json.dumps(summary[key])}" for key in ("experiment", "labels"))
        experiments.append(f'{json.dumps(name)}: {{{head}, "runs": [\n{_lines(summary["runs"])}]}}')
    joined = ",\n".join(experiments)
    return f'{{"experiments": {{\n{joined}}},\n"comparisons": [\n{_lines(content["comparisons"])}]}}\n'


def _lines(rows: Sequence[Any]) -> str:
    return ",\n".join(map(json.dumps, rows))
