"""Experiments are graded from what their runs predicted, not from what anybody says they scored.

A hand-in's results are files of runs. Whoever checks them, at home or in grading, knows which
experiments and seeds there must be, and the gold labels; accuracies are computed from predictions.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from utils import rte
from utils.answer import Ask, StudentError, named
from utils.check import Check
from utils.experiment import BadRun, Experiment, Files, Run, parse, read_files
from utils.forbidden import Cell
from utils.verdict import Outcome, Verdict

RESULTS = "results"  # the folder, as students know it
SEEDS = 5  # of each experiment, from 1: what a hand-in needs
CEILING = {"rte": 0.9}  # bert-base-uncased has been reported at up to 0.75, larger ones of that time at 0.87
GOLD = Path(__file__).resolve().parents[1] / "data" / "results" / "gold.json"


def gold_labels(task: str) -> list[int]:
    """The validation labels of a task, from the course's own files, never from a hand-in."""
    if task.startswith("made-up-"):
        from data import pairs

        return pairs.load(task, "validation").labels
    return json.loads(GOLD.read_text())[task]


def examine(
    files: Files, experiments: Iterable[Experiment], seeds: Sequence[int]
) -> tuple[dict[str, list[Run]], list[str]]:
    """Read and check the files that these experiments and seeds need.

    Returns:
        the runs that may be used by experiment, and a sentence for each that may not, with its file.
    """
    runs: dict[str, list[Run]] = {}
    refused: list[str] = []
    seen: dict[str, str] = {}
    for experiment in experiments:
        folder = experiment.folder("").name
        gold = gold_labels(experiment.task)
        runs[experiment.name] = []
        for seed in seeds:
            name = f"{folder}/seed_{seed}.json"
            if name not in files:
                refused.append(f"{name} is missing: {experiment.name} was not run with seed {seed}, or elsewhere")
                continue
            try:
                run = parse(files[name])
                _belongs(run, experiment, seed, gold)
            except BadRun as why:
                refused.append(f"{name}: {why}")
                continue
            what = digest(run)
            if what in seen:
                refused.append(f"{name}: it repeats {seen[what]} under another seed")
                continue
            seen[what] = name
            runs[experiment.name].append(run)
    return runs, refused


def _belongs(run: Run, experiment: Experiment, seed: int, gold: list[int]) -> None:
    if run.experiment != experiment.plain():
        keys = sorted(key for key, value in experiment.plain().items() if run.experiment.get(key) != value)
        raise BadRun(f"another configuration was run: {', '.join(keys) or 'unknown fields'} differ")
    if run.seed != seed:
        raise BadRun(f"it was run with seed {run.seed}, and renamed")
    if run.labels != gold:
        raise BadRun("its labels are not those of the validation examples")
    if len(run.curve) != experiment.epochs:
        raise BadRun(f"its curve has {len(run.curve)} epochs instead of {experiment.epochs}")
    if run.seconds <= 0:
        raise BadRun("it took no time")
    ceiling = CEILING.get(experiment.task, 1.0)
    if run.accuracy > ceiling:
        raise BadRun(
            f"an accuracy of {run.accuracy:.2f} cannot be: this encoder stays below {ceiling:.2f} on this task"
        )


def digest(run: Run) -> str:
    """Alike for runs with the same logits, whatever their seed and configuration claim to be."""
    return hashlib.sha256(json.dumps(run.logits).encode()).hexdigest()


class ResultsCheck(Check):
    """A check of experiments' results. `notebook` names the experiments in `utils.rte`.

    At home it calls the student's function with the folder RESULTS, which runs what is not there yet, and
    reads the files there. In grading nothing is run: the judge passes the files that were handed in.
    """

    def __init__(self, exercise: str, points: float, notebook: str, asserts: Callable[..., None]):
        super().__init__(exercise, points, (), asserts)
        self.notebook = notebook

    def verdict(self, ask: Ask, cells: Sequence[Cell]) -> Verdict:
        """The verdict at home, on the files in RESULTS."""
        try:
            named(ask, self.names[0])(RESULTS)
        except StudentError as error:
            outcome = Outcome.BLANK if error.blank else Outcome.ERROR
            return Verdict(self.exercise, self.points, outcome, "" if error.blank else error.sentence())
        files = read_files(Path(RESULTS))
        if not files:
            message = f"`{self.names[0]}` left no runs in the folder that it was given: pass `results` to run_seeds."
            return Verdict(self.exercise, self.points, Outcome.WRONG, message)
        return self.verdict_on(files)[0]

    def verdict_on(self, files: Files, profiles: Sequence[str] = (), copied: str = "") -> tuple[Verdict, list[str]]:
        """The verdict on the files of a hand-in, and every reason against it.

        Args:
            profiles: in whose sizes the experiments may have been run; none is the session's own.
            copied: what else speaks against these files.
        """
        best: list[str] | None = None
        for profile in profiles or (None,):
            wanted = rte.experiments(self.notebook, profile).values()
            _, refused = examine(files, wanted, range(1, SEEDS + 1))
            if best is None or len(refused) < len(best):
                best = refused
        against = [*([copied] if copied else []), *(best or [])]
        if not files:
            return Verdict(self.exercise, self.points, Outcome.BLANK), ["there are no results"]
        if not against:
            return Verdict(self.exercise, self.points, Outcome.PASSED), []
        more = f" (and {len(against) - 1} more)" if len(against) > 1 else ""
        return Verdict(self.exercise, self.points, Outcome.WRONG, f"{against[0]}.{more}"), against


def results_check(exercise: str, points: float, notebook: str) -> Callable[[Callable[..., None]], ResultsCheck]:
    """Turn a documented function of one parameter, the student's function, into the check of their experiments."""
    return lambda asserts: ResultsCheck(exercise, points, notebook, asserts)
