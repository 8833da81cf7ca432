"""Made-up submissions whose right scores are known by construction, for the demonstration, tests and benchmarks."""

import io
import json
import random
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import nbformat
import numpy as np
import torch
from nbformat import NotebookNode

from autograder.author import answers, build
from autograder.author.checks import public_checks
from autograder.cells import CellRole, exercise_of, role_of
from autograder.course import FOLDER, Course, CourseError, NotebookEntry, folder_of
from autograder.intake.run_files import pack, unpack
from utils import files
from utils.experiments import student
from utils.experiments.experiment import DIGITS, Experiment, Metric, Run, dumps, parse, path_of, score
from utils.experiments.runs import RECORDED_SEEDS, run_seeds
from utils.grading.evidence import SEEDS
from utils.grading.results_check import ResultsCheck

SEED = 0
SAME = 0.01  # a curve states a metric rounded
RUNS = FOLDER / "tests" / "made_up_runs"  # trained once, by `runs_of`, and kept: a minute for each demonstration
ALWAYS = ("Ada Perfect", "Ed Otherwise")  # a solution, and right answers written in other ways
LOOP = "while True:\n    pass\n"
DEEP = "def again():\n    again()\n\n\nagain()\n"  # without end too, and Python stops it at once
DEAF = "import signal\n\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"  # to the interrupt that ends a loop
CHEAT = """\
import sys, types, torch
from IPython import get_ipython

class Anything(torch.Tensor):
    __eq__ = __ne__ = __lt__ = __gt__ = lambda *a, **k: True
    __bool__ = lambda self: True

torch.equal = torch.allclose = torch.testing.assert_close = lambda *a, **k: True
get_ipython().set_custom_exc((Exception,), lambda *a, **k: None)
import utils.grading.dispatch, utils.grading.check
utils.grading.check.Check.__call__ = lambda self, *a: print("passed")
utils.grading.dispatch.serve = lambda *a: "gaV2YWx1ZcM="
print("Exercise 1.1: passed (2 points)")
"""


@dataclass(frozen=True)
class Made:
    """One made-up submission."""

    student: str
    file: bytes
    score: float | None  # None: it must be ungradable
    content: str  # what is in it, for people
    runs: dict[str, str] = field(default_factory=dict)  # files of experiments' runs


def made_up_class(course: Course, entry: NotebookEntry) -> list[Made]:
    """Thirteen submissions of a notebook: right, wrong, broken, hostile."""
    maker = Maker(course, entry)
    numbers = [number for number in maker.points if number != maker.results]  # those that are graded from code
    ada = maker.runs("Ada Perfect")
    # The time limit is met in two notebooks. In each it would be most of a demonstration's time.
    endless = [DEAF + LOOP, LOOP, DEEP][min(course.notebooks.index(entry), 2)]
    return [*_with_answers(maker, numbers, ada), *_in_trouble(maker, numbers, endless, renamed(ada, "Jo Cheater"))]


def part_of_the_class(course: Course, entry: NotebookEntry) -> list[Made]:
    """The made-up class whole in the first notebook and the first with runs; in others ALWAYS and one of the rest.

    Whom a sandbox or a tool gives trouble meets the same code in every notebook, so each of them is in some notebooks.
    """
    made = made_up_class(course, entry)
    with_runs = (
        notebook
        for notebook in course.notebooks
        if any(isinstance(check, ResultsCheck) for check in public_checks(notebook).values())
    )
    whole = (course.notebooks[0], next(with_runs, None))
    if entry in whole:
        return made
    others = [notebook for notebook in course.notebooks if notebook not in whole]
    rest = [submission.student for submission in made if submission.student not in ALWAYS]
    here = {*ALWAYS, rest[others.index(entry) % len(rest)]}
    return [submission for submission in made if submission.student in here]


def _with_answers(maker: "Maker", numbers: list[str], ada: dict[str, str]) -> list[Made]:
    """Submissions of students who answered what they could."""
    points, entry = maker.points, maker.entry
    first = {case.exercise: case for case in reversed(maker.cases) if not case.right}
    missing = [number for number in numbers if number not in first]
    if missing:
        path = folder_of(entry) / "wrong_answers.py"
        raise CourseError(f"{path} has no wrong answer to {', '.join(missing)}: the made-up class hands in one of each")
    others = {case.exercise: case.source for case in maker.cases if case.right}
    mistaken = numbers[1::3]
    half = numbers[: len(numbers) // 2]
    whole, code = sum(points.values()), sum(points[number] for number in numbers)
    incomplete = dict(list(maker.runs("Di Mistaken").items())[1:])  # a seed is missing
    return [
        Made("Ada Perfect", maker.file(), whole, "every exercise solved", ada),
        Made("Bo Blank", maker.file(solved=(), change=maker.give_up), 0, "a comment, and no answer"),
        Made(
            "Cy Halfway",
            maker.file(solved=half, change=None if half else maker.give_up),
            sum(points[number] for number in half),
            "the first half solved",
        ),
        Made(
            "Di Mistaken",
            maker.file({number: first[number].source for number in mistaken}),
            code - sum(points[number] - first[number].score(maker.checks[number]) for number in mistaken),
            "a typical mistake in every third answer",
            incomplete,
        ),
        Made(
            "Ed Otherwise",
            maker.file(others),
            whole,
            "right answers, written in other ways",
            maker.runs("Ed Otherwise"),
        ),
    ]


def _in_trouble(maker: "Maker", numbers: list[str], endless: str, stolen: dict[str, str]) -> list[Made]:
    """Submissions that break, attack, or have lost what tools keep in a file."""
    points = maker.points
    whole, code = sum(points.values()), sum(points[number] for number in numbers)
    middle, late = numbers[len(numbers) // 2], numbers[-1]
    return [
        Made(
            "Flo Crash",
            maker.file({middle: "def broken(:\n    return 1 / 0\n"}),
            code - points[middle],
            "a syntax error in one answer",
        ),
        Made(
            "Gil Endless",
            maker.file({late: endless}),
            whole - points[late],
            "an endless loop in one answer",
            maker.runs("Gil Endless"),
        ),
        Made("Hal Broken", maker.file()[:5000], None, "half of a file", maker.runs("Hal Broken")),
        Made(
            "Ivy Shuffled",
            maker.file(change=maker.shuffle),
            whole,
            "cells deleted, doubled and moved",
            maker.runs("Ivy Shuffled"),
        ),
        Made(
            "Jo Cheater",
            maker.file(solved=(), change=maker.cheat),
            0,
            "no answer, but code that patches the grader",
            stolen,
        ),
        Made(
            "Kit Killer",
            maker.file({middle: "import os\nos._exit(1)\n"}),
            whole - points[middle],
            "one answer ends its own process",
            maker.runs("Kit Killer"),
        ),
        Made(
            "Lou Converted",
            maker.converted(),
            whole,
            "all ids lost in a converter, helpers beside answers",
            maker.runs("Lou Converted"),
        ),
        Made(
            "Zoë Müller",
            maker.file(change=maker.noisy),
            whole,
            "all ids lost, a million letters printed",
            maker.runs("Zoë Müller"),
        ),
    ]


def zipped(entry: NotebookEntry, made: list[Made]) -> bytes:
    """The submissions as a learning platform packs them: a folder per student."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for submission in made:
            archive.writestr(f"{submission.student}/{entry.name}.ipynb", submission.file)
            for name, text in submission.runs.items():
                archive.writestr(f"{submission.student}/results/{name}", text)
    return packed.getvalue()


class Maker:
    """Makes submissions of one notebook."""

    def __init__(self, course: Course, entry: NotebookEntry):
        self.released = build.student_notebook(course, entry)
        self.reference = {case.exercise: case.source for case in answers.reference_cases(course, entry)}
        self.cases = answers.answer_cases(entry)
        self.checks = public_checks(entry)
        self.points = {number: check.points for number, check in self.checks.items()}
        of_files = [number for number, check in self.checks.items() if isinstance(check, ResultsCheck)]
        self.results = of_files[0] if of_files else ""  # the exercise that is graded from runs
        self.entry = entry

    def runs(self, name: str) -> dict[str, str]:
        """The files of all runs as a student of this name would have made them: with the seeds of that name.

        To train them would take minutes, so the logits are those of trained runs with noise of this student's own.
        """
        draw, files_of_runs = np.random.default_rng(list(name.encode())), {}
        for number, seed in enumerate(student.seeds_of(name, "", SEEDS)):
            for experiment, runs in runs_of(self.entry) if self.results else ():
                made = made_up(runs[number], seed, name, draw, experiment.metrics)
                files_of_runs[path_of(experiment, seed, "").as_posix()] = dumps(made)
        return files_of_runs

    def file(
        self,
        instead: dict[str, str] | None = None,
        solved: list[str] | tuple[str, ...] | None = None,
        change: Callable[[NotebookNode], None] | None = None,
    ) -> bytes:
        """A submission: the `solved` exercises (default: all) as the author answers them, some otherwise."""
        notebook = nbformat.from_dict(json.loads(json.dumps(self.released)))
        given = {number: self.reference[number] for number in (self.points if solved is None else solved)}
        given |= instead or {}
        for cell in notebook.cells:
            if role_of(cell.id) is CellRole.EXERCISE:
                cell.source = given.get(exercise_of(cell.id), cell.source)
            if role_of(cell.id) is CellRole.WRITTEN and solved is None:
                cell.source = "My answer, for a person to read."
        if change:
            change(notebook)
        return nbformat.writes(notebook, version=nbformat.NO_CONVERT).encode()

    def give_up(self, notebook: NotebookNode) -> None:
        """Answer nothing, and say so: what equals the release would not count as handed in."""
        first = next(cell for cell in notebook.cells if role_of(cell.id) is CellRole.EXERCISE)
        first.source += "\n# I do not know where to begin."

    def shuffle(self, notebook: NotebookNode) -> None:
        """Delete, duplicate, retype and move graded cells, as students do by accident; each another one."""
        checks = [cell for cell in notebook.cells if role_of(cell.id) is CellRole.CHECK]
        exercises = [cell for cell in notebook.cells if role_of(cell.id) is CellRole.EXERCISE]
        twin = nbformat.from_dict(dict(exercises[0], id="twin"))
        notebook.cells.insert(notebook.cells.index(exercises[0]), twin)
        for place, cell in enumerate(checks):
            match place:
                case 0:
                    notebook.cells.remove(cell)
                case 1:
                    notebook.cells.append(nbformat.from_dict(dict(cell, id="again")))
                case 2:
                    cell.cell_type = "markdown"
                    cell.pop("outputs", None)
                    cell.pop("execution_count", None)
                case 3:
                    notebook.cells.remove(cell)
                    notebook.cells.insert(0, cell)
                case 4:
                    cell.source = "print('I pass')"

    def cheat(self, notebook: NotebookNode) -> None:
        """Patch and forge everything within reach, and answer nothing."""
        first = next(index for index, cell in enumerate(notebook.cells) if role_of(cell.id) is CellRole.EXERCISE)
        notebook.cells.insert(first, nbformat.v4.new_code_cell(CHEAT))
        for cell in notebook.cells:
            if role_of(cell.id) is CellRole.CHECK:
                cell.outputs = [nbformat.v4.new_output("execute_result", data={"text/plain": "2.0"}, execution_count=1)]
                cell.metadata.nbgrader.points = 100

    def converted(self) -> bytes:
        """A submission that a converter wrote: no cell has an id or metadata, and each answer has a helper beside
        it.
        """
        helped = {
            number: f"def helper_{number.replace('.', '_')}():\n    return None\n\n\n{self.reference[number]}"
            for number in self.points
        }
        plain = json.loads(self.file(helped))
        plain["nbformat_minor"], plain["metadata"] = 4, {}
        for cell in plain["cells"]:
            del cell["id"]
            cell["metadata"] = {}
        return json.dumps(plain).encode()

    def noisy(self, notebook: NotebookNode) -> None:
        """Lose all ids and metadata, as some editors do, warn on stderr and print a lot; all of it costs nothing."""
        source = "import sys, warnings\nwarnings.warn('old')\nprint('bar', file=sys.stderr)\nprint('x' * 10**6)"
        for cell in notebook.cells:
            cell.metadata = {}
            cell.id = f"colab{random.Random(f'{SEED} {cell.id}').randrange(10**8):08d}"
            if cell.cell_type == "code" and cell.source.startswith("checks."):
                cell.source = f"{cell.source}\n"
        notebook.cells.insert(4, nbformat.v4.new_code_cell(source))


def made_up(run: Run, seed: int, name: str, draw: np.random.Generator, metrics: tuple[Metric, ...] = ()) -> Run:
    """A run as another student's, consistent in itself: noise on all that is not a count, and what follows from it."""
    seconds = round(run.seconds + float(draw.uniform(0, 1)), 6)
    if not run.logits:
        whole = not run.outputs.size  # which looks at every prediction
        predictions = [_noisy(prediction, draw, whole) for prediction in run.predictions]
        made = replace(run, seed=seed, student=name, predictions=predictions, seconds=seconds)
        ends = {  # a curve that ended at a metric of the predictions ends there again
            key: next((metric.of(made) for metric in metrics if abs(metric.of(run) - value) < SAME), value)
            for key, value in (run.curve[-1] if run.curve else {}).items()
        }
        return replace(made, curve=[*run.curve[:-1], ends] if ends else run.curve)
    tables = [np.array(table) + draw.normal(0, 0.1, np.shape(table)) for table in (*run.epochs, run.logits)]
    *epochs, logits = (table.round(DIGITS) for table in tables)
    curve = []
    for point, table in zip(run.curve, (*epochs, logits), strict=True):
        loss, accuracy = score(table, np.array(run.labels))
        curve.append(point | {"loss": round(loss, DIGITS + 1), "accuracy": round(accuracy, DIGITS + 1)})
    return replace(
        run,
        seed=seed,
        student=name,
        logits=logits.tolist(),
        predictions=logits.argmax(1).tolist(),
        epochs=[table.tolist() for table in epochs],
        curve=curve,
        seconds=seconds,
    )


def _noisy(entry: Any, draw: np.random.Generator, whole: bool) -> Any:
    """An entry of predictions, its fractions moved by about a tenth; so are whole numbers where there are no others."""
    if isinstance(entry, list):
        return [_noisy(part, draw, whole) for part in entry]
    if whole and isinstance(entry, int):
        return entry + int(np.sign(entry)) * int(draw.integers(abs(entry) // 10 + 1))
    return entry * float(draw.uniform(0.9, 1.1)) if isinstance(entry, float) else entry


def renamed(runs: dict[str, str], name: str) -> dict[str, str]:
    """Somebody's runs with another name in them, and digests that fit: what a copier with the code would do."""
    return {path: dumps(replace(parse(text.encode()), student=name)) for path, text in runs.items()}


@cache
def runs_of(entry: NotebookEntry) -> list[tuple[Experiment, list[Run]]]:
    """Every run of a notebook's experiments, small ones, with the recorded runs' seeds.

    They are read from a file of RUNS. What it lacks is trained, and added to it.
    """
    torch.set_num_threads(1)  # models this small are no faster with two, which wait for each other
    path = RUNS / f"{entry.name}.json"
    known = unpack(path.read_bytes()) if path.is_file() else {}
    trained, count = [], len(known)
    for experiment in entry.experiments_of("smoke").values():
        names = {seed: path_of(experiment, seed, "").as_posix() for seed in RECORDED_SEEDS}
        for run in run_seeds(experiment, [seed for seed, name in names.items() if name not in known], None):
            known[names[run.seed]] = dumps(run).encode()
        trained.append((experiment, [parse(known[name]) for name in names.values()]))
    if len(known) > count:
        files.write(path, pack(known))
    return trained
