"""Experiments are graded from what their runs predicted, not from what anybody says they scored.

A hand-in's results are files of runs. Whoever checks them, at home or in grading, knows which
experiments and seeds there must be, and the gold labels; metrics are computed from predictions.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from utils.experiments import profiles as sizes
from utils.experiments import student
from utils.experiments.experiment import (
    BadRun,
    Experiment,
    Experiments,
    Files,
    Metric,
    Run,
    Standing,
    parse,
    read_files,
    results_folder,
)
from utils.grading.check import Check
from utils.grading.forbidden import Cell
from utils.grading.remote import Ask, StudentError, named
from utils.grading.verdict import Outcome, Verdict, legible

SEEDS = 5  # of each experiment: what a hand-in needs
# What honest seeds have in common, measured on the 25 recorded runs of notebooks 05 and 06 (their outputs on the 277
# validation pairs, see `tests/test_evidence.py`): correlations within an experiment 0.72 to 0.95, from random weights
# 0.96 to 0.99, in the fusion 0.45 to 0.69 (0.55 in the mean); between experiments at most 0.78. A run explained by the
# others of its experiment: at most R = 0.99. Sorted, so that the order of the examples does not count: at most 0.9991.
# Of experiments that are not `measured`, what these figures find is for a person.
SAME = 0.999_999  # rounding and noise of 1e-4 stay above, on any encoder: the same run, scaled or moved
NEAR = 0.998  # 10 standard deviations (of Fisher's z) above what honest seeds reach: the same run with noise
MIXED = 0.999  # R of a run as a sum of others
PERMUTED = 0.9999  # correlation of sorted margins; 0.9994 among ten million pairs of independent normal ones
UNLIKE = 0.5  # an experiment whose runs have less in common with the recorded ones was not trained on these examples
SMOKE_AT_HOME = (
    "Runs of the size smoke, on made-up data, show that everything works, and earn nothing. The points are for runs "
    "with COURSE_PROFILE=cpu or gpu."
)
SMOKE_CAME = (
    "the runs that were handed in are of the size smoke, made-up data that earns nothing: run the experiments with "
    "COURSE_PROFILE=cpu or gpu, and pack them again"
)
MAX_READ = 120  # files of one hand-in that are looked into: three experiments, 20 seeds, two names


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
                refused.append(f"{name} is missing: {experiment.name} was not run with seed {seed}, or elsewhere")
                continue
            try:
                run = _read(files[name])
                _belongs(run, experiment, seed, gold, whole)
                if accepted and len(run.outputs) != len(accepted[0].outputs):
                    raise BadRun(f"it holds another number of outputs than {_file(experiment, accepted[0])}")
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


def centred(outputs: np.ndarray) -> np.ndarray:
    """Rows (runs, examples) less their mean, of length 1; 0 where all examples are alike."""
    moved = outputs - outputs.mean(1, keepdims=True)
    size = np.linalg.norm(moved, axis=1, keepdims=True)
    return np.divide(moved, size, out=np.zeros_like(moved), where=size > 1e-9)


@cache
def recorded_outputs(results: Path) -> dict[str, np.ndarray]:
    """The outputs (runs, examples) of the runs that come with the course, by the folder of their experiment."""
    found: dict[str, list[np.ndarray]] = {}
    for name, text in read_files(results).items():
        found.setdefault(name.split("/")[0], []).append(parse(text).outputs)
    return {folder: np.array(some) for folder, some in found.items() if some[0].size}


def suspicious(
    experiments: Iterable[Experiment], runs: Mapping[str, Sequence[Run]], recorded: Mapping[str, np.ndarray]
) -> tuple[list[str], list[str]]:
    """What honest runs do not do: be one another, be one of the course's, all say one thing, or have nothing in common.

    Args:
        runs: those of a hand-in that stand up each by itself, by the name of their experiment.
        recorded: the outputs of the course's own, see `recorded_outputs`.

    Returns:
        what no training gives, which costs the points; and what a person should see, since what honest runs of this
        experiment do was not measured.
    """
    sure: list[str] = []
    unsure: list[str] = []
    table = [(one, list(runs.get(one.name, ()))) for one in experiments]
    real = [(one, some) for one, some in table if some and not one.made_up]
    if real and all(run.degenerate for _, some in real for run in some):
        measured = any(one.measured or one.learns for one, _ in real)
        (sure if measured else unsure).append(
            f"all {sum(len(some) for _, some in real)} runs predict one class only: nothing was learned in any"
        )
    for one, some in real:
        if one.learns and all(run.degenerate for run in some):
            sure.append(f"{one.name}: every run predicts one class only; honest ones learn with some of the seeds")
        where = sure if one.measured else unsure
        where += _in_common(one, some, recorded.get(one.folder("").name))
        losses = [[point["train_loss"] for point in run.curve if "train_loss" in point] for run in some]
        falls = [some_losses[0] - some_losses[-1] for some_losses in losses if len(some_losses) > 1]
        if falls and np.mean(falls) <= 0:
            unsure.append(f"{one.name}: the training loss does not fall")
    lively = [(one, run) for one, some in real for run in some if not run.degenerate]
    for one, exact, sentence in _alike(lively, recorded):
        (sure if exact or one.measured else unsure).append(sentence)
    return list(dict.fromkeys(sure)), list(dict.fromkeys(unsure))


def _file(experiment: Experiment, run: Run) -> str:
    return f"{experiment.folder('').name}/seed_{run.seed}.json"


def _in_common(experiment: Experiment, runs: Sequence[Run], known: np.ndarray | None) -> list[str]:
    """What runs have too little in common, with each other and with the recorded ones of the same experiment.

    Too little is less than UNLIKE, or than two thirds of what the recorded ones have in common where that is less: of
    a fusion that learns little, seeds agree less, and runs that were made up still do not agree at all.
    """
    if len(runs) < 2 or not runs[0].outputs.size or all(run.degenerate for run in runs):
        return []
    rows = centred(np.array([run.outputs for run in runs]))
    least = UNLIKE if known is None or len(known) < 2 else min(UNLIKE, 2 / 3 * _agreement(centred(known)))
    within = _agreement(rows)
    if within < least:
        return [
            f"{experiment.name}: its runs have nothing in common (correlation {within:.2f} on the same examples; "
            f"honest seeds are above {least:.2g})"
        ]
    if known is not None and known.shape[1] == rows.shape[1]:
        likeness = (rows @ centred(known.mean(0, keepdims=True)).T).mean()
        if likeness < least:
            return [
                f"{experiment.name}: its runs are unlike every other run of it (correlation {likeness:.2f} with the "
                f"course's own; honest ones are above {least:.2g})"
            ]
    return []


def _agreement(rows: np.ndarray) -> float:
    """The mean correlation of every two of some centred rows (runs, examples)."""
    return float((rows @ rows.T)[np.triu_indices(len(rows), 1)].mean())


def _alike(
    runs: Sequence[tuple[Experiment, Run]], recorded: Mapping[str, np.ndarray]
) -> list[tuple[Experiment, bool, str]]:
    """The runs that are others in disguise: their experiment, whether to the last digit, and a sentence."""
    found = []
    for size in sorted({run.outputs.size for _, run in runs} - {0}):
        known = {
            (folder, f"run {number} of the course's own {folder}"): row
            for folder, some in recorded.items()
            for number, row in enumerate(some, start=1)
            if len(row) == size
        }
        same = [(one, run) for one, run in runs if run.outputs.size == size]
        places = [*known, *((one.folder("").name, _file(one, run)) for one, run in same)]
        outputs = np.array([*known.values(), *(run.outputs for _, run in same)])
        copies = disguises(outputs, len(known))
        for index, (one, run) in enumerate(same, start=len(known)):
            if index in copies:
                other, how, exact = copies[index]
                found.append((one, exact, f"{_file(one, run)} is {places[other][1]}, {how}"))
                continue
            mates = [place for place, (folder, _) in enumerate(places) if folder == places[index][0] and place != index]
            if explained(outputs[index], outputs[mates]) > MIXED:
                found.append((one, False, f"{_file(one, run)} is a sum of other runs of this experiment"))
    return found


def explained(row: np.ndarray, others: np.ndarray) -> float:
    """The multiple correlation R of a run's outputs (examples,) with those of others (runs, examples)."""
    if not len(others):
        return 0.0
    basis = np.linalg.qr(centred(others).T)[0]
    return float(np.linalg.norm(centred(row[None])[0] @ basis))


def disguises(outputs: np.ndarray, first: int = 0) -> dict[int, tuple[int, str, bool]]:
    """The rows from `first` on that are an earlier row scaled, moved, turned round, with noise, or in another order.

    Args:
        outputs: (runs, examples).

    Returns:
        by row: which earlier row it is, in words what was done to it, and whether to the last digit.
    """
    found: dict[int, tuple[int, str, bool]] = {}
    rows, ranked, ordered, backwards = shapes(outputs)
    for index in range(max(first, 1), len(rows)):
        linear, rank = rows[:index] @ rows[index], ranked[:index] @ ranked[index]
        same = np.where(np.abs(linear) > np.abs(rank), linear, rank)
        place = int(np.abs(same).argmax())
        if abs(same[place]) > NEAR:
            turned = ", its classes exchanged" if same[place] < 0 else ""
            exact = bool(abs(linear[place]) > SAME)
            bent = abs(linear[place]) <= NEAR
            how = "scaled or moved" if exact else "its logits bent" if bent else "with noise"
            found[index] = (place, f"{how}{turned}", exact)
            continue
        for other, turned in ((ordered, ""), (backwards, ", its classes exchanged")):
            sorted_same = other[:index] @ ordered[index]
            place = int(sorted_same.argmax())
            if sorted_same[place] > PERMUTED:
                found[index] = (place, f"its examples in another order{turned}", False)
                break
    return found


def shapes(outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Four views of outputs (runs, examples), centred: as they are, as ranks, sorted, sorted with classes exchanged.

    A scale or a shift leaves the first as it is, any other rising function the second, another order of the
    examples the third.
    """
    places = np.argsort(outputs, 1, kind="stable")
    ranks = np.empty_like(outputs)
    np.put_along_axis(ranks, places, np.arange(outputs.shape[1], dtype=outputs.dtype)[None], 1)
    ordered = centred(np.sort(outputs, 1))
    return centred(outputs), centred(ranks), ordered, -ordered[:, ::-1]


class ResultsCheck(Check):
    """A check of the results of a notebook's experiments, which the module `source` has.

    At home it calls the student's function with this session's folder of results, which runs what is not there yet, and
    reads the files there. In grading nothing is run: the judge passes the files that were handed in.
    """

    def __init__(self, exercise: str, points: float, source: Experiments, notebook: str, asserts: Callable[..., None]):
        super().__init__(exercise, points, (), asserts)
        self.source, self.notebook = source, notebook

    def experiments(self, profile: str | None = None) -> list[Experiment]:
        """The experiments of a profile, in their order; by default of this session's."""
        return list(self.source.experiments(self.notebook, profile).values())

    def verdict(self, ask: Ask, cells: Sequence[Cell]) -> Verdict:
        """The verdict at home, on the files in this session's folder of results."""
        try:
            results = results_folder()
            named(ask, self.names[0])(str(results))
        except StudentError as error:
            outcome = Outcome.BLANK if error.blank else Outcome.ERROR
            return Verdict(self.exercise, self.points, outcome, "" if error.blank else error.sentence())
        files = read_files(results)
        if not files:
            message = f"`{self.names[0]}` left no runs in the folder that it was given: pass `results` to run_seeds."
            return Verdict(self.exercise, self.points, Outcome.WRONG, message)
        verdict = self.verdict_on(files)[0]
        if verdict.outcome is Outcome.PASSED and sizes.name() == "smoke":
            return Verdict(self.exercise, 0.0, Outcome.PASSED, SMOKE_AT_HOME)
        return verdict

    def verdict_on(
        self, files: Files, profiles: Sequence[str] = (), standing: Standing | None = None
    ) -> tuple[Verdict, list[str], list[str]]:
        """The verdict on the files of a hand-in, every reason against it, and what a person should see besides.

        Args:
            profiles: in whose sizes the experiments may have been run; none is the session's own.
            standing: what is known besides; None at home, where the seeds are those of who signed.
        """
        if not files:
            return Verdict(self.exercise, self.points, Outcome.BLANK), ["there are no results"], []
        _, against, unsure = self.accepted(files, profiles, standing)
        against = [*(standing.against if standing else ()), *against]
        if not against:
            return Verdict(self.exercise, self.points, Outcome.PASSED), [], unsure
        if self._smoke_alone(files, profiles):
            against = [SMOKE_CAME]
        more = f" (and {len(against) - 1} more)" if len(against) > 1 else ""
        return Verdict(self.exercise, self.points, Outcome.WRONG, f"{against[0]}.{more}"), against, unsure

    def accepted(
        self, files: Files, profiles: Sequence[str] = (), standing: Standing | None = None
    ) -> tuple[dict[str, list[Run]], list[str], list[str]]:
        """The runs that stand up by experiment, the reasons against the hand-in, and what a person should see.

        Of several names and profiles it takes those that most files are of; of these what speaks least against them.
        """
        read = read_runs(files, [one for some in self._tables(profiles) for one in some])
        best: tuple[dict[str, list[Run]], list[str], list[str]] | None = None
        rank = (0, 0)
        for name, key in _signatures(read, standing):
            seeds = student.seeds_of(name, key, SEEDS)
            for wanted in self._tables(profiles):
                runs, refused = examine(read, wanted, seeds, whole=True)
                refused = _first_of_all(refused, read, name, seeds, standing)
                whose = {fold for some in runs.values() for run in some if (fold := student.fold(run.student)) != name}
                if whose:
                    refused.append("its runs do not all carry one name: STUDENT was changed between them")
                sure, unsure = suspicious(wanted, runs, recorded_outputs(self.source.RECORDED))
                here = {one.folder("").name for one in wanted}
                fits = (sum(file.split("/")[0] in here for file in read), -len(refused) - len(sure))
                if best is None or fits > rank:
                    rank, best = fits, ({} if sure else runs, [*refused, *sure], unsure)
        return best or ({}, ["no run says whose it is"], [])

    def _smoke_alone(self, files: Files, profiles: Sequence[str]) -> bool:
        """Whether there are runs of the size smoke, and none of a size that counts."""
        came = {name.split("/")[0] for name in files}
        counting = {one.folder("").name for some in self._tables(profiles) for one in some}
        smoke = {one.folder("").name for one in self.experiments("smoke")}
        return not came & counting and bool(came & smoke)

    def _tables(self, profiles: Sequence[str]) -> list[list[Experiment]]:
        return [self.experiments(one) for one in profiles or (None,)]


def chosen(files: Iterable[str], folders: Collection[str]) -> list[str]:
    """The names of files that are looked into, by whoever looks: those of these experiments, at most MAX_READ."""
    return [name for name in sorted(files) if name.split("/")[0] in folders][:MAX_READ]


def read_runs(files: Files, experiments: Iterable[Experiment]) -> dict[str, Run | BadRun]:
    """The files of these experiments, at most MAX_READ, each parsed once; of a bad one, why."""
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
            f"no run has a seed {who}: the seeds follow from STUDENT{also}, and nobody else's runs count, "
            "nor do those that come with the course",
            *refused,
        ]
    return refused


def results_check(
    exercise: str, points: float, source: Experiments, notebook: str
) -> Callable[[Callable[..., None]], ResultsCheck]:
    """Turn a documented function of one parameter, the student's function, into the check of their experiments."""
    return lambda asserts: ResultsCheck(exercise, points, source, notebook, asserts)
