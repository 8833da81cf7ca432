"""Train a sample of handed-in runs again, and compare: the one check that a forged file does not survive.

On the same kind of machine a run comes out the same, but for the order in which threads add numbers up;
elsewhere only its accuracy can be compared, and only as well as seeds agree with each other.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from tqdm import tqdm

from autograder import copies, grade
from autograder.collect import unpack
from autograder.course import Course, CourseError, NotebookEntry
from autograder.public import checks
from utils import pair_training, rte
from utils.evidence import SEEDS, ResultsCheck, examine
from utils.experiment import Experiment, Run

SAME = 0.98  # share of predictions that must agree where device, precision and versions are the same
NEAR = 0.06  # elsewhere, difference of accuracies: over four standard deviations between seeds (0.014, published)


@dataclass(frozen=True)
class Audited:
    """One run, as handed in and as trained again."""

    student: str
    experiment: str
    seed: int
    claimed: float  # accuracy from the handed-in predictions, a fraction
    found: float  # accuracy of the new run
    agreement: float  # share of equal predictions
    same_machine: bool

    @property
    def agrees(self) -> bool:
        """Whether the two are as near as they must be."""
        return self.agreement >= SAME if self.same_machine else abs(self.claimed - self.found) <= NEAR

    @property
    def tolerance(self) -> str:
        """What was asked for."""
        return f"{100 * SAME:.0f}% equal predictions" if self.same_machine else f"within {100 * NEAR:.0f} points"


def accepted(course: Course, entry: NotebookEntry) -> dict[str, dict[str, list[Run]]]:
    """The runs of each student that stand up to the check, by experiment; copied files count for nobody else.

    Raises:
        CourseError: the notebook has no experiments that are graded.
    """
    if not any(isinstance(check, ResultsCheck) for check in checks(entry).values()):
        raise CourseError(f"{entry.name} has no experiments whose results are handed in")
    copied, found = copies.of(course, entry), {}
    for student in grade.hand_ins(course, entry):
        if student in copied:
            continue
        files = unpack(grade.handed_in(course, entry, student)[1])
        for profile in course.grading.results_profiles:
            runs, _ = examine(files, rte.experiments(entry.name, profile).values(), range(1, SEEDS + 1))
            if any(runs.values()):
                found[student] = {name: some for name, some in runs.items() if some}
    return found


def audit(
    course: Course, entry: NotebookEntry, fraction: float, seed: int = 0, folder: Path | None = None
) -> Iterator[Audited]:
    """Train a random `fraction` of the class's accepted runs again, at least one, and tell each as it is done.

    `seed` decides which; the same seed takes the same sample of the same hand-ins. `folder` holds the data.

    Raises:
        CourseError: there is nothing to audit, or `fraction` is no share.
    """
    if not 0 < fraction <= 1:
        raise CourseError(f"--fraction is {fraction}; it must be above 0 and at most 1")
    known = {
        one.digest(): one
        for profile in course.grading.results_profiles
        for one in rte.experiments(entry.name, profile).values()
    }
    runs = [
        (student, run)
        for student, experiments in accepted(course, entry).items()
        for some in experiments.values()
        for run in some
    ]
    if not runs:
        raise CourseError(f"no runs of {entry.name} have been handed in that could be audited")
    by_plain = {str(sorted(one.plain().items())): one for one in known.values()}
    for student, run in tqdm(random.Random(seed).sample(runs, max(1, round(fraction * len(runs)))), unit="run"):
        yield again(student, run, by_plain[str(sorted(run.experiment.items()))], folder)


def again(student: str, run: Run, experiment: Experiment, folder: Path | None = None) -> Audited:
    """Train one run again, with its own precision, and compare."""
    precision = torch.bfloat16 if run.precision == "bfloat16" else torch.float32
    new = pair_training.run_seed(experiment, run.seed, precision=precision, folder=folder)
    equal = sum(one == other for one, other in zip(run.predictions, new.predictions, strict=True)) / len(run.labels)
    same = (run.device.split(",")[0], run.versions) == (new.device.split(",")[0], new.versions)
    return Audited(student, experiment.name, run.seed, run.accuracy, new.accuracy, equal, same)
