"""Train a sample of handed-in runs again, and compare: the one check that a forged file does not survive.

What is asked for is how well two runs with one seed agree on two kinds of device, measured; where that was not
measured, a person decides. No outcome changes a mark by itself: `copies.decide` notes what a person made of it.
"""

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from autograder.course import Course, CourseError, NotebookEntry
from autograder.grading import copied_runs
from autograder.grading.dependencies import Dependencies
from autograder.grading.grading_record import handed_in, students_of
from autograder.intake.run_files import unpack
from utils.experiments.experiment import Experiment, Run
from utils.experiments.forgery import NEAR, UNLIKE, centred
from utils.experiments.runs import load_table
from utils.grading import evidence
from utils.grading.standing import NO_STANDING

AGREES, DIFFERS, UNKNOWN = "agrees", "differs", "unknown, a person decides"


@dataclass(frozen=True)
class Audited:
    """One run, as handed in and as trained again."""

    student: str
    experiment: str
    seed: int
    claimed: str  # the metric of the handed-in predictions, with its unit
    found: str  # that of the new run
    agreement: float  # share of equal predictions
    likeness: float  # correlation of the outputs; of predictions that have none, the share of equal ones
    tolerance: float | None  # below it runs of these two kinds of device differ; None: not measured
    reasons: tuple[str, ...] = ()  # why it was taken; () is by chance
    same_examples: bool = True  # whether both were tested on the same, see `Experiment.examples_of`

    @property
    def verdict(self) -> str:
        """AGREES, DIFFERS or UNKNOWN. What has nothing in common differs, whatever device it names.

        Of runs that were tested on different examples nothing is known: a machine like the student's can tell.
        """
        if not self.same_examples:
            return UNKNOWN
        if self.likeness < (UNLIKE if self.tolerance is None else self.tolerance):
            return DIFFERS
        return AGREES if self.likeness > NEAR else UNKNOWN

    @property
    def asked(self) -> str:
        """The likeness that a run had to reach, as text."""
        if not self.same_examples:
            return "the same examples to test on, which this machine does not have"
        known = "" if self.tolerance is not None else "; these devices were never compared"
        return f"likeness of {NEAR:g}{known}"


def sizes_of(course: Course, entry: NotebookEntry) -> list[list[Experiment]]:
    """A notebook's experiments in each size that counts.

    Raises:
        CourseError: the notebook has no experiments that are graded.
    """
    if not entry.has_experiments:
        raise CourseError(f"{entry.name} has no experiments whose results are handed in")
    return [[*entry.experiments_of(profile).values()] for profile in course.grading.results_profiles]


def accepted(
    course: Course, entry: NotebookEntry, around: Dependencies | None = None
) -> dict[str, dict[str, list[Run]]]:
    """The runs of each student that stand up to the check, by experiment; without those that a person took out.

    `around` is shared by who asks for several notebooks.

    Raises:
        CourseError: the notebook has no experiments that are graded.
    """
    sizes, recorded = sizes_of(course, entry), entry.experiment_module().RECORDED
    standings, runs_of = (around or Dependencies(course)).standings.get(entry.name, {}), {}
    for student in students_of(course, entry):
        standing = standings.get(student, NO_STANDING)
        files = unpack(handed_in(course, entry, student)[1])
        if not files or standing.against:
            continue
        runs = evidence.accepted(sizes, recorded, files, standing)[0]
        if any(runs.values()):
            runs_of[student] = {name: of_experiment for name, of_experiment in runs.items() if of_experiment}
    return runs_of


def suspicions(
    course: Course, entry: NotebookEntry, accepted_runs: dict[str, dict[str, list[Run]]]
) -> dict[tuple[str, str, int], list[str]]:
    """Why a run should be trained again, by student, experiment and seed; the more reasons, the sooner."""
    flags = {student: standing.flags for student, standing in copied_runs.of(course, entry).items()}
    known = _experiments(course, entry)
    recorded = load_table(
        {experiment.folder("").name: experiment for experiment in known.values()}, entry.experiment_module().RECORDED
    )
    seconds = Counter(
        run.seconds for of_student in accepted_runs.values() for runs in of_student.values() for run in runs
    )
    doubts: dict[tuple[str, str, int], list[str]] = {}
    for student, experiments in accepted_runs.items():
        for name, runs in experiments.items():
            for run in runs:
                why = [*flags.get(student, ())]
                if seconds[run.seconds] > 1:
                    why.append("another run took the same time to the last digit")
                if run.degenerate:
                    why.append("it predicts one class only")
                losses = [point["train_loss"] for point in run.curve if "train_loss" in point]
                if len(losses) > 1 and losses[-1] >= losses[0]:
                    why.append("its training loss does not fall")
                experiment = known[configuration(run.experiment)]
                usual, metric = recorded[experiment.folder("").name], experiment.metrics[0]
                if usual:
                    ahead = metric.of(run) - sum(map(metric.of, usual)) / len(usual)
                    if (-ahead if metric.lower_is_better else ahead) > experiment.lead:
                        why.append(f"{ahead:+.{metric.digits}f} {metric.difference_unit} beside the recorded runs")
                    if run.seconds < min(honest.seconds for honest in usual) / 50:
                        why.append("it was very fast")
                if why:
                    doubts[student, name, run.seed] = why
    return doubts


def audit(
    course: Course, entry: NotebookEntry, fraction: float, seed: int = 0, folder: Path | None = None
) -> Iterator[Audited]:
    """Train a `fraction` of the class's accepted runs again, at least one, and tell each as it is done.

    Half of them are the most suspicious ones, the others are drawn at random.

    `seed` decides which; the same seed takes the same sample of the same submissions. `folder` holds the data.

    Raises:
        CourseError: there is nothing to audit, `fraction` is not a share, or data or weights are nowhere.
    """
    if folder and not folder.is_dir():
        raise CourseError(f"{folder} is not a folder: with --data-dir, give the one that holds the data")
    if not 0 < fraction <= 1:
        raise CourseError(f"--fraction is {fraction}; it must be above 0 and at most 1")
    stand = accepted(course, entry)
    runs = [(student, run) for student, of_student in stand.items() for runs in of_student.values() for run in runs]
    if not runs:
        raise CourseError(f"no runs of {entry.name} have been handed in that could be audited")
    known = _experiments(course, entry)
    why = suspicions(course, entry, stand)
    for student, run in tqdm(sample(runs, why, max(1, round(fraction * len(runs))), seed), unit="run"):
        experiment, reasons = known[configuration(run.experiment)], why.get((student, run.experiment["name"], run.seed))
        try:
            done = again(student, run, experiment, folder, tuple(reasons or ()))
        except (ImportError, OSError) as missing:
            raise CourseError(f"`{experiment.name}` cannot be trained here: {missing}") from missing
        yield done


def _experiments(course: Course, entry: NotebookEntry) -> dict[str, Experiment]:
    """The experiments that may have been run, by configuration."""
    return {configuration(experiment.plain()): experiment for size in sizes_of(course, entry) for experiment in size}


def configuration(plain: Mapping[str, Any]) -> str:
    """What tells two configurations apart: the fields of an experiment, or those that a run notes of its own."""
    return json.dumps(plain, sort_keys=True)


def sample(
    runs: Sequence[tuple[str, Run]], why: Mapping[tuple[str, str, int], Sequence[str]], count: int, seed: int
) -> list[tuple[str, Run]]:
    """So many runs: half of them, rounded up, the most suspicious, one a student at first; the others by chance.

    Chance takes from all that are left: nobody is safe by looking ordinary.
    """
    chance, left = random.Random(seed), list(runs)
    taken: list[tuple[str, Run]] = []
    chance.shuffle(left)
    for _ in range(-(-count // 2)):
        already = Counter(student for student, _ in taken)

        def urgency(candidate: tuple[str, Run], already: Counter[str] = already) -> tuple[int, int]:
            return -already[candidate[0]], len(
                why.get((candidate[0], candidate[1].experiment["name"], candidate[1].seed), ())
            )

        doubted = [candidate for candidate in left if urgency(candidate)[1]]
        if not doubted:
            break
        first = max(doubted, key=urgency)
        left.remove(first)
        taken.append(first)
    return [*taken, *left[: count - len(taken)]]


def again(
    student: str, run: Run, experiment: Experiment, folder: Path | None = None, reasons: tuple[str, ...] = ()
) -> Audited:
    """Train one run again, with its own precision, and compare."""
    new = experiment.run_seed(run.seed, precision=run.precision, folder=folder)
    return compared(student, experiment, run, new, reasons)


def compared(student: str, experiment: Experiment, run: Run, new: Run, reasons: tuple[str, ...] = ()) -> Audited:
    """A run as handed in against the same one as trained here."""
    metric = experiment.metrics[0]
    equal = sum(prediction == other for prediction, other in zip(run.predictions, new.predictions, strict=True)) / len(
        run.predictions
    )
    kinds = sorted((kind_of(run), kind_of(new)))
    tolerance = experiment.tolerance.get((kinds[0], kinds[1])) if run.versions == new.versions else None
    claimed, measured = (metric.show(metric.of(made)) for made in (run, new))
    alike = _likeness(run.outputs, new.outputs, equal)
    same = experiment.examples_of(run) == experiment.examples_of(new)
    return Audited(student, experiment.name, run.seed, claimed, measured, equal, alike, tolerance, reasons, same)


def _likeness(handed_in: np.ndarray, trained: np.ndarray, equal: float) -> float:
    if not trained.size or handed_in.shape != trained.shape:
        return equal if handed_in.shape == trained.shape else 0.0
    first, other = centred(np.array([handed_in, trained]))
    return float(first @ other)


def kind_of(run: Run) -> str:
    """The kind of device and the precision that a run names; how many threads it had is not a kind."""
    return f"{run.device.split(',')[0]} {run.precision}"
