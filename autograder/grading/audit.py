"""Train a sample of handed-in runs again, and compare: the one check that a forged file does not survive.

What is asked for is how well two runs with one seed agree on two kinds of device, measured; where that was not
measured, a person decides. No outcome changes a mark by itself: `copies.decide` notes what a person made of it.
"""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from autograder.author.checks import public_checks
from autograder.course import Course, CourseError, NotebookEntry
from autograder.grading import copied_runs
from autograder.grading.records import handed_in, students_of
from autograder.intake.collect import unpack
from utils.experiments import pair_training, rte
from utils.experiments.experiment import NO_STANDING, Experiment, Run
from utils.grading.evidence import NEAR, UNLIKE, ResultsCheck, centred

AGREES, DIFFERS, UNKNOWN = "agrees", "differs", "unknown, a person decides"
# By kind of device and precision, the likeness below which two runs with one seed differ. Measured with the
# experiment `pretrained` on its first 640 pairs (120 steps) on a CPU: with float32, one thread and two end at the same
# training loss, validation loss and accuracy in all six digits; 0.95 is chosen, below what a repeat should reach. Above
# NEAR, which no two seeds reach, they agree; between, and for every other pair, a person decides:
# bfloat16 against float32 was compared by losses alone (3e-4 in training, 3e-5 in validation), GPUs not at all.
TOLERANCE = {("cpu float32", "cpu float32"): 0.95, ("cpu bfloat16", "cpu bfloat16"): 0.95}
GOOD = 0.06  # an accuracy so far above the recorded runs' mean is suspicious: four deviations between seeds


@dataclass(frozen=True)
class Audited:
    """One run, as handed in and as trained again."""

    student: str
    experiment: str
    seed: int
    claimed: float  # accuracy from the handed-in predictions, a fraction
    found: float  # accuracy of the new run
    agreement: float  # share of equal predictions
    likeness: float  # correlation of the margins
    tolerance: float | None  # below it runs of these two kinds of device differ; None: not measured
    reasons: tuple[str, ...] = ()  # why it was taken; () is by chance

    @property
    def verdict(self) -> str:
        """AGREES, DIFFERS or UNKNOWN. What has nothing in common differs, whatever device it names."""
        if self.likeness < (UNLIKE if self.tolerance is None else self.tolerance):
            return DIFFERS
        return AGREES if self.likeness > NEAR else UNKNOWN

    @property
    def asked(self) -> str:
        """The likeness that a run had to reach, as text."""
        known = "" if self.tolerance is not None else "; these devices were never compared"
        return f"likeness of {NEAR:g}{known}"


def accepted(course: Course, entry: NotebookEntry) -> dict[str, dict[str, list[Run]]]:
    """The runs of each student that stand up to the check, by experiment; without those that a person took out.

    Raises:
        CourseError: the notebook has no experiments that are graded.
    """
    check = next((one for one in public_checks(entry).values() if isinstance(one, ResultsCheck)), None)
    if check is None:
        raise CourseError(f"{entry.name} has no experiments whose results are handed in")
    standings, found = copied_runs.of(course, entry), {}
    for student in students_of(course, entry):
        standing = standings.get(student, NO_STANDING)
        files = unpack(handed_in(course, entry, student)[1])
        if not files or standing.against:
            continue
        runs = check.accepted(files, course.grading.results_profiles, standing)[0]
        if any(runs.values()):
            found[student] = {name: some for name, some in runs.items() if some}
    return found


def suspicions(
    course: Course, entry: NotebookEntry, accepted_runs: dict[str, dict[str, list[Run]]]
) -> dict[tuple[str, str, int], list[str]]:
    """Why a run should be trained again, by student, experiment and seed; the more reasons, the sooner."""
    flags = {student: standing.flags for student, standing in copied_runs.of(course, entry).items()}
    recorded = {name: some for name, some in rte.recorded(entry.name).items() if some}
    seconds = Counter(run.seconds for some in accepted_runs.values() for runs in some.values() for run in runs)
    found: dict[tuple[str, str, int], list[str]] = {}
    for student, experiments in accepted_runs.items():
        for name, runs in experiments.items():
            for run in runs:
                why = [*flags.get(student, ())]
                if seconds[run.seconds] > 1:
                    why.append("another run took the same time to the last digit")
                if run.degenerate:
                    why.append("it predicts one class only")
                losses = [point["train_loss"] for point in run.curve]
                if losses[-1] >= losses[0] and len(losses) > 1:
                    why.append("its training loss does not fall")
                known = recorded.get(name, [])
                if known and known[0].experiment == run.experiment:
                    usual = sum(one.accuracy for one in known) / len(known)
                    if run.accuracy > usual + GOOD:
                        why.append(f"{100 * (run.accuracy - usual):.0f} points above the recorded runs")
                    if run.seconds < min(one.seconds for one in known) / 50:
                        why.append("it was very fast")
                if why:
                    found[student, name, run.seed] = why
    return found


def audit(
    course: Course, entry: NotebookEntry, fraction: float, seed: int = 0, folder: Path | None = None
) -> Iterator[Audited]:
    """Train a `fraction` of the class's accepted runs again, at least one, and tell each as it is done.

    Half of them are the most suspicious ones, the others are drawn at random.

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
    stand = accepted(course, entry)
    runs = [(student, run) for student, some in stand.items() for runs in some.values() for run in runs]
    if not runs:
        raise CourseError(f"no runs of {entry.name} have been handed in that could be audited")
    by_digest = {str(sorted(one.plain().items())): one for one in known.values()}
    why = suspicions(course, entry, stand)
    for student, run in tqdm(sample(runs, why, max(1, round(fraction * len(runs))), seed), unit="run"):
        reasons = why.get((student, run.experiment["name"], run.seed), [])
        yield again(student, run, by_digest[str(sorted(run.experiment.items()))], folder, tuple(reasons))


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

        def urgency(one: tuple[str, Run], already: Counter[str] = already) -> tuple[int, int]:
            return -already[one[0]], len(why.get((one[0], one[1].experiment["name"], one[1].seed), ()))

        doubted = [one for one in left if urgency(one)[1]]
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
    precision = torch.bfloat16 if run.precision == "bfloat16" else torch.float32
    new = pair_training.run_seed(experiment, run.seed, precision=precision, folder=folder)
    return compared(student, run, new, reasons)


def compared(student: str, run: Run, new: Run, reasons: tuple[str, ...] = ()) -> Audited:
    """A run as handed in against the same one as trained here."""
    equal = sum(one == other for one, other in zip(run.predictions, new.predictions, strict=True)) / len(run.labels)
    rows = centred(np.array([run.margins, new.margins]))
    kinds = sorted((kind_of(run), kind_of(new)))
    tolerance = TOLERANCE.get((kinds[0], kinds[1])) if run.versions == new.versions else None
    name = str(new.experiment["name"])
    return Audited(
        student, name, run.seed, run.accuracy, new.accuracy, equal, float(rows[0] @ rows[1]), tolerance, reasons
    )


def kind_of(run: Run) -> str:
    """The kind of device and the precision that a run names; how many threads it had is no kind."""
    return f"{run.device.split(',')[0]} {run.precision}"
