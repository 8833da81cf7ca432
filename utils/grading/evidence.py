"""Which runs of a submission stand up: judged by what they predicted, not by what anybody says they scored.

A submission's results are files of runs. Checks, at home and in grading, know which
experiments and seeds there must be, and the gold labels; metrics are computed from predictions. Imports nothing heavy.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from utils.experiments import student
from utils.experiments.experiment import (
    BadRun,
    Experiment,
    Metric,
    Run,
    chosen,
    parse,
    too_many,
)
from utils.experiments.forgery import akin, blended, counted_again, file_of, recorded_outputs, recorded_runs, suspicious
from utils.experiments.run_files import Files
from utils.grading.standing import Standing
from utils.grading.verdict import legible

SEEDS = 5  # of each experiment: what a submission needs


def examine(
    files: Files | Mapping[str, Run | BadRun],
    experiments: Iterable[Experiment],
    seeds: Sequence[int],
    whole: bool = False,
) -> tuple[dict[str, list[Run]], list[str]]:
    """Read and check the files that these experiments and seeds need.

    Args:
        whole: whether every run must hold the logits of all of its epochs; the recorded ones do not.

    Returns:
        the runs that may be used by experiment, and a sentence for each that may not, with its file.
    """
    runs: dict[str, list[Run]] = {}
    refused: list[str] = []
    seen: dict[str, str] = {}
    for experiment in experiments:
        folder = experiment.folder("").name
        gold = experiment.gold()
        accepted = runs[experiment.name] = []
        for seed in seeds:
            name = f"{folder}/seed_{seed}.json"
            if name not in files:
                why = f"{experiment.name} was not run with seed {seed}, or its results went to another folder"
                refused.append(f"{name} is missing: {why}")
                continue
            try:
                run = _read(files[name])
                _belongs(run, experiment, seed, gold, whole)
                if accepted and len(run.outputs) != len(accepted[0].outputs):
                    raise BadRun(f"it holds another number of outputs than {file_of(experiment, accepted[0])}")
            except BadRun as why:
                refused.append(f"{name}: {why}")
                continue
            what = run.digest()
            if what in seen:
                refused.append(f"{name}: it repeats {seen[what]} under another seed")
                continue
            seen[what] = name
            accepted.append(run)
    return runs, refused


def _read(file: bytes | Run | BadRun) -> Run:
    if isinstance(file, BadRun):
        raise file
    return file if isinstance(file, Run) else parse(file)


def _belongs(run: Run, experiment: Experiment, seed: int, gold: list, whole: bool) -> None:
    wanted = experiment.plain()
    if json.dumps(run.experiment, sort_keys=True) != json.dumps(wanted, sort_keys=True):  # 1 is not True
        keys = sorted(key for key, value in wanted.items() if run.experiment.get(key) != value)
        raise BadRun(f"another configuration was run: {', '.join(keys) or 'unknown fields'} differ")
    if run.seed != seed:
        raise BadRun(f"it was run with seed {run.seed}, and renamed")
    if run.labels != gold:
        raise BadRun("its labels are not those of the validation examples")
    if not run.predictions:
        raise BadRun("it holds numbers instead of predictions: it can be shown, and earns nothing")
    experiment.check(run, whole)
    if run.seconds <= 0:
        raise BadRun("it took no time")
    values = [_value(metric, run) for metric in experiment.metrics]
    first, best = experiment.metrics[0], experiment.ceiling
    if best is not None and (values[0] > best if not first.lower_is_better else values[0] < best):
        told = f"{first.name} of {first.show(values[0])} cannot be"
        raise BadRun(f"{told}: honest runs end at {first.show(best)} at best")


def _value(metric: Metric, run: Run) -> float:
    try:
        value = metric.of(run)
    except Exception:  # whatever the file holds
        value = math.nan
    if not math.isfinite(value):
        raise BadRun(f"its predictions are not of the kind that {metric.name} is computed from")
    return value


def accepted(
    tables: Sequence[Sequence[Experiment]], recorded: Path, files: Files, standing: Standing | None
) -> tuple[dict[str, list[Run]], list[str], list[str]]:
    """The runs that stand up by experiment, the reasons against the submission, and what a person should see.

    Of several names and profiles it takes those that most files are of; of these what speaks least against them.

    Args:
        tables: a notebook's experiments in each size that counts.
        recorded: the folder of the runs that come with the course.
        standing: what is known besides; None at home, where the seeds are those of who signed.
    """
    read = read_runs(files, [one for some in tables for one in some])
    best: tuple[dict[str, list[Run]], list[str], list[str]] | None = None
    rank = (0, 0)
    for name, key in _signatures(read, standing):
        seeds = student.seeds_of(name, key, SEEDS)
        for wanted in tables:
            runs, refused = examine(read, wanted, seeds, whole=True)
            here = {one.folder("").name for one in wanted}
            refused = [*too_many(files, here), *_first_of_all(refused, read, name, seeds, standing)]
            whose = {fold for some in runs.values() for run in some if (fold := student.fold(run.student)) != name}
            if whose:
                refused.append("its runs do not all carry one name: STUDENT was changed between them")
            sure, unsure = suspicious(wanted, runs, recorded_outputs(recorded))
            copied, nearly = counted_again(wanted, runs, recorded_runs(recorded))
            sure, unsure = [*sure, *copied], [*unsure, *nearly]
            pieced, mixed = blended(wanted, runs, recorded_runs(recorded), [*sure, *unsure])
            sure, unsure = [*sure, *pieced], [*unsure, *mixed]
            unsure += akin(wanted, runs, recorded_runs(recorded), [*sure, *unsure])
            fits = (sum(file.split("/")[0] in here for file in read), -len(refused) - len(sure))
            if best is None or fits > rank:
                rank, best = fits, ({} if sure else runs, [*refused, *sure], unsure)
    return best or ({}, ["no run says whose it is"], [])


def read_runs(files: Files, experiments: Iterable[Experiment]) -> dict[str, Run | BadRun]:
    """The files of these experiments that `chosen` looks into, each parsed once; of a bad one, why."""
    read: dict[str, Run | BadRun] = {}
    for name in chosen(files, {one.folder("").name for one in experiments}):
        try:
            read[name] = parse(files[name])
        except BadRun as why:
            read[name] = why
    return read


def _signatures(read: Mapping[str, Run | BadRun], standing: Standing | None) -> list[tuple[str, str]]:
    """The folded names that the runs carry, the most frequent first, with their keys; at home, who signed."""
    if standing is None:
        name, key = student.signed()
        return [(student.fold(name), key)]
    names = Counter(student.fold(run.student) for run in read.values() if isinstance(run, Run))
    keys = dict(standing.keys or ())
    return [(name, keys.get(name, "")) for name, _ in names.most_common(3)] or [("", "")]


def _first_of_all(
    refused: list[str], read: Mapping[str, Run | BadRun], name: str, seeds: Sequence[int], standing: Standing | None
) -> list[str]:
    """Before many sentences about single files the one that explains them: whose seeds they are."""
    if standing is not None and not name:
        return ["the runs do not say whose they are: STUDENT was blank when they were made", *refused]
    if read and refused and not any(file.endswith(f"/seed_{seed}.json") for file in read for seed in seeds):
        who = f"of {legible(name, 60)!r}" if name else "of this session"
        also = " and KEY" if standing is not None and standing.keys is not None else ""
        return [
            f"No run has a seed {who}. Seeds follow from STUDENT{also}: nobody else's runs count, "
            "nor do those that come with the course",
            *refused,
        ]
    return refused
