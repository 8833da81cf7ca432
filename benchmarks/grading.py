"""Submissions per minute: stock `nbgrader autograde` against `autograder grade`, in one run on one machine.

    python benchmarks/grading.py [--students 40] [--stock-students 40] [--notebooks 01 02 03 04]

A class hands in notebooks 01 to 04, and all of it is graded four times, from the command to its end,
start-up included: by `autograder grade` with two workers; by stock nbgrader, one submission after the other;
by as many processes of it as there are cores, each with its share of the students and a gradebook of its own, as
its users work around that; and by ours once more, since a shared machine is not always the same. The same is done
with 20 submissions of the first notebook; and ours grades one submission, three times, of which the median counts. No
submission is broken or endless: stock nbgrader ends its batch at the first copied test cell. The stock notebook asks
the same as ours: its graded cells run the public check and, as hidden tests, the private ones.

CPU seconds are those of all processes, kernels included, as the operating system accounts them. What
the cells and checks themselves cost is measured in one process that runs every submission in a fork of
itself, without kernel, sandbox, messages, gradebook or files; the rest is ours, start-up included. Memory
is that of all processes together, shared pages counted once (PSS), sampled every five seconds.
The last line is a JSON object; of our two runs it has the mean.
"""

import argparse
import ctypes
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import cycle, islice
from pathlib import Path

import nbformat
import psutil
from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from autograder import course, synthetic
from autograder.author import build
from autograder.cells import NOT_RUN, CellRole, exercise_of, role_of
from autograder.gradebook import course_tree
from autograder.grading import judge
from autograder.grading.grading_record import HandIn, handed_in, students_of
from autograder.intake import restore
from autograder.sandbox.kernel import Ran
from utils.grading import dispatch, protocol

PR_SET_CHILD_SUBREAPER = 36
SAMPLE_SECONDS = 5.0
CORES = len(os.sched_getaffinity(0))
SMALL, ONCE = 20, 3  # a small class; how often one submission is graded
WRONG = 36  # named wrong answers in a class, one in each submission
SHIM = """\
import sys
sys.path.insert(0, {root!r})
import types
from utils.grading import dispatch
from utils.grading.check import Outcome, examine
_private = {{}}
_shim = types.ModuleType("autograder.author.checks")
_shim.private = lambda exercise, tells, part="": (
    lambda asserts: _private.setdefault(exercise, []).append((tells, asserts))
)
sys.modules["autograder.author.checks"] = _shim
exec({source!r}, {{"__name__": "private_checks"}})
def _hidden(exercise, names):
    for tells, asserts in _private.get(exercise, []):
        outcome, message = examine(asserts, lambda request: dispatch.answer(names, request))
        assert outcome is Outcome.PASSED, tells
"""
HIDDEN = "{line}\n### BEGIN HIDDEN TESTS\n_hidden({exercise!r}, globals())\n### END HIDDEN TESTS"
CONFIG = """\
c = get_config()
c.CourseDirectory.root = {root!r}
c.CourseDirectory.course_id = "stock"
c.ExecutePreprocessor.timeout = {seconds}
c.Execute.timeout = {seconds}
c.ExecutePreprocessor.interrupt_on_timeout = True
c.Execute.interrupt_on_timeout = True
"""


def stock_course(known: course.Course, entry: course.NotebookEntry, folder: Path) -> None:
    """A course tree as a user of stock nbgrader would write it, with the tests in the graded cells."""
    notebook = build.solution_notebook(known, entry)
    private = (course.folder_of(entry) / "private_checks.py").read_text()
    shim = nbformat.v4.new_code_cell(SHIM.format(root=str(ROOT), source=private))
    shim.id, shim.metadata = "shim", {"nbgrader": build.locked_metadata("shim")}
    for cell in notebook.cells:
        if role_of(cell.id) is CellRole.CHECK:
            exercise = exercise_of(cell.id)
            cell.source = HIDDEN.format(line=cell.source, exercise=exercise)
    kept = [cell for cell in notebook.cells if NOT_RUN not in cell.metadata.get("tags", [])]
    setup = next(index for index, cell in enumerate(kept) if cell.id == "setup")
    notebook.cells = [*kept[: setup + 1], shim, *kept[setup + 1 :]]
    course_tree.write(folder / "source" / entry.name / f"{entry.name}.ipynb", build.write(notebook))
    course_tree.write(
        folder / "nbgrader_config.py", CONFIG.format(root=str(folder), seconds=int(known.limits.cell_seconds))
    )
    if start(["nbgrader", "generate_assignment", entry.name], folder, folder / "log.txt").wait():
        sys.exit((folder / "log.txt").read_text()[-2000:])


def ordinary(known: course.Course, entry: course.NotebookEntry) -> list[bytes]:
    """Submissions that stock nbgrader can grade: right, blank, half done, right in other ways, wrong in named ways."""
    maker = synthetic.Maker(known, entry)
    numbers = list(maker.points)
    wrong = [case for case in maker.cases if not case.right]
    made = [maker.file(), maker.file({case.exercise: case.source for case in maker.cases if case.right})]
    made += [maker.file(solved=()), maker.file(solved=numbers[: len(numbers) // 2])]
    return made + [maker.file({case.exercise: case.source}) for case in wrong[:: max(1, len(wrong) // WRONG)][:WRONG]]


def hand_in(students: dict[str, bytes], entry: course.NotebookEntry, folder: Path, shim: bool) -> None:
    """The files into `submitted/`; for stock, with the one cell that its graded cells lean on."""
    for student, text in students.items():
        if shim:
            notebook = nbformat.reads(text.decode(), as_version=4)
            kept = [cell for cell in notebook.cells if NOT_RUN not in cell.metadata.get("tags", [])]
            released = nbformat.read(folder / "release" / entry.name / f"{entry.name}.ipynb", as_version=4)
            notebook.cells = [next(cell for cell in released.cells if cell.id == "shim"), *kept]
            text = nbformat.writes(notebook).encode()
        course_tree.write(folder / "submitted" / student / entry.name / f"{entry.name}.ipynb", text)


@contextmanager
def measured() -> Iterator[dict[str, float]]:
    """Wall seconds, CPU seconds of all ended children, and the most memory (MB) that the children held together."""
    figures: dict[str, float] = {"peak_mb": 0.0}
    done = threading.Event()

    def watch() -> None:
        while not done.wait(SAMPLE_SECONDS):
            held = 0
            for process in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):
                    held += process.memory_full_info().pss
            figures["peak_mb"] = max(figures["peak_mb"], held / 2**20)

    watcher = threading.Thread(target=watch)
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    watcher.start()
    try:
        yield figures
    finally:
        figures["wall"] = time.monotonic() - started
        with suppress(ChildProcessError):
            while True:  # orphans come to us, and count only when they are waited for
                os.wait()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        figures["cpu"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        done.set()
        watcher.join()


def start(command: list[str], folder: Path, log: Path) -> subprocess.Popen:
    """A command in `folder`, in the smallest profile."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "COURSE_PROFILE": "smoke"}
    with log.open("ab") as said:
        return subprocess.Popen(command, cwd=folder, stdout=said, stderr=said, env=environment)


def stock(trees: list[Path], entries: list[course.NotebookEntry]) -> dict[str, float]:
    """`nbgrader autograde` on every notebook, in all `trees` at once."""
    autograde = "; ".join(f"nbgrader autograde {entry.name}" for entry in entries)
    with measured() as figures:
        for process in [start(["sh", "-c", autograde], folder, folder / "log.txt") for folder in trees]:
            process.wait()
    figures["graded"] = sum(len(list(folder.glob("autograded/*/*/*.ipynb"))) for folder in trees)
    return figures


def graded_by_stock(
    made: dict[str, dict[str, bytes]], known: course.Course, entries: list[course.NotebookEntry], root: Path
) -> list[dict[str, float]]:
    """Stock nbgrader on the submissions `made`, by notebook and student: one process of it, and one for each core."""
    students, runs = [*next(iter(made.values()))], []
    for processes in (1, CORES):
        trees = [root / f"{processes}_{number}" for number in range(processes)]
        for number, folder in enumerate(trees):
            for entry in entries:
                stock_course(known, entry, folder)
                theirs = {student: made[entry.name][student] for student in students[number::processes]}
                hand_in(theirs, entry, folder, shim=True)
        runs.append(stock(trees, entries))
    return runs


def ours(known: course.Course, entries: list[course.NotebookEntry], workers: int) -> dict[str, float]:
    """`autograder grade` on all of them."""
    command = [sys.executable, "-m", "autograder.cli", "--tree", str(known.tree), "grade"]
    command += [*(entry.name for entry in entries), "--workers", str(workers), "--again"]
    with measured() as figures:
        if start(command, ROOT, known.tree / "log.txt").wait():
            sys.exit((known.tree / "log.txt").read_text()[-2000:])
    figures["graded"] = len(list(known.tree.glob("verdicts/*/*.json")))
    return figures


class Direct:
    """In a kernel's place: this process. Cells are executed, requests answered, and that is all."""

    def __init__(self) -> None:
        self.names: dict = {"__name__": "__main__"}

    def run(self, source: str, resume: str = protocol.NEVER) -> Ran:
        """Execute a cell; it ends at its first error, whatever `resume` says."""
        ran = Ran()
        try:
            exec(compile(source, "<cell>", "exec"), self.names)
        except (Exception, SystemExit) as error:
            ran.errors, ran.lines = [f"{type(error).__name__}: {error}"], [""]
            ran.blank = type(error) is NotImplementedError and not error.args
        return ran

    def ask(self, request: bytes) -> bytes:
        """Answer a request of a check."""
        return dispatch.answer(self.names, request)


def cells_and_checks(known: course.Course, entries: list[course.NotebookEntry]) -> float:
    """CPU seconds that the cells and checks of all submissions take, each submission in a fork of this process."""

    @contextmanager
    def direct(*_: object) -> Iterator[Direct]:
        yield Direct()

    import torch

    torch.set_num_threads(1)
    whole, opened, judge.open_kernel = 0.0, judge.open_kernel, direct  # type: ignore[assignment]
    for entry in entries:
        released = course_tree.release_notebook(known, entry)
        students = students_of(known, entry)
        first = True  # imports what the others then find here, and is not counted
        for student in tqdm([students[0], *students], desc=f"cells and checks of {entry.number}", disable=None):
            read = restore.read(handed_in(known, entry, student)[0], known.limits.notebook_mb)
            notebook, _ = restore.restore(read, released)
            child = 0 if first else os.fork()
            if child:
                _, status, used = os.wait4(child, 0)
                assert status == 0, f"{student} {entry.name}"
                whole += used.ru_utime + used.ru_stime
                continue
            with open(os.devnull, "w") as nowhere, tempfile.TemporaryDirectory() as folder:
                back, sys.stdout = os.getcwd(), nowhere
                os.chdir(folder)
                judge.judge(known, HandIn(entry), notebook, restore.shown(notebook, released))
                sys.stdout = sys.__stdout__
                os.chdir(back)
            if not first:
                os._exit(0)
            first = False
    judge.open_kernel = opened
    return whole


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--notebooks", nargs="+", default=["01", "02", "03", "04"])
    options.add_argument("--students", type=int, default=40)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument(
        "--stock-students", type=int, help="fewer for stock, which takes a quarter of an hour; 0: ours alone"
    )
    chosen = options.parse_args()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory() as name:
        known = course.load(tree=Path(name, "ours"))
        entries = known.select(chosen.notebooks)
        course_tree.build_tree(known)
        students = [f"student{number:03d}" for number in range(chosen.students)]
        some = students[: len(students) if chosen.stock_students is None else chosen.stock_students]
        made = {}
        for entry in entries:
            made[entry.name] = dict(zip(students, islice(cycle(ordinary(known, entry)), len(students)), strict=False))
            hand_in(made[entry.name], entry, known.tree, shim=False)
        first = entries[:1]
        small = known.model_copy(update={"tree": Path(name, "small")})
        single = known.model_copy(update={"tree": Path(name, "single")})
        for tree, size in ((small, SMALL), (single, 1)):
            course_tree.build_tree(tree)
            hand_in(dict(islice(made[first[0].name].items(), size)), first[0], tree.tree, shim=False)
        each = len(students) * len(entries)
        ours(known, first, chosen.workers)  # the first run compiles what pip has just installed
        title = f"autograder grade, {chosen.workers} workers"
        runs, few = {title: ours(known, entries, chosen.workers)}, {title: ours(small, first, chosen.workers)}
        if some:
            theirs = {name: {student: files[student] for student in some} for name, files in made.items()}
            titles = ("nbgrader autograde", f"nbgrader autograde, {CORES} processes")
            runs |= zip(titles, graded_by_stock(theirs, known, entries, Path(name, "stock")), strict=True)
            theirs = {first[0].name: dict(islice(made[first[0].name].items(), SMALL))}
            few |= zip(titles, graded_by_stock(theirs, known, first, Path(name, "stock_small")), strict=True)
            runs[f"{title}, again"] = ours(known, entries, chosen.workers)
            few[f"{title}, again"] = ours(small, first, chosen.workers)
        once = [ours(single, first, chosen.workers) for _ in range(ONCE)]
        bare = cells_and_checks(known, entries) / each
    ratios, few_ratios = told(runs), told(few)
    print(f"{'cells and checks alone':36}{'':28}{bare:12.3f}")
    alone = sorted(once, key=lambda run: run["wall"])[ONCE // 2]
    print(f"one submission: {alone['wall']:.2f} s, {alone['cpu']:.2f} CPU s")
    mine = [run for title, run in runs.items() if title.startswith("autograder")]
    figures = {
        "throughput_ratio": ratios[0],
        "throughput_ratio_all_cores": ratios[1],
        "throughput_ratio_20": few_ratios[0],
        "throughput_ratio_20_all_cores": few_ratios[1],
        "single_seconds": round(alone["wall"], 2),
        "single_cpu_seconds": round(alone["cpu"], 2),
        "overhead_cpu_seconds": round(statistics.mean(run["each"] for run in mine) - bare, 3),
        "peak_mb": round(max(run["peak_mb"] for run in mine)),
        "cores": CORES,
    }
    print(json.dumps(figures))


def told(runs: dict[str, dict[str, float]]) -> list[float | None]:
    """Print a line for each run; how many times the submissions a minute of each of stock's are ours."""
    print(f"{'':36}{'submissions':>9}{'wall s':>9}{'a minute':>10}{'CPU s each':>12}{'peak MB':>9}")
    for title, run in runs.items():
        run["rate"], run["each"] = 60 * run["graded"] / run["wall"], run["cpu"] / run["graded"]
        columns = f"{run['graded']:9.0f}{run['wall']:9.1f}{run['rate']:10.1f}{run['each']:12.3f}{run['peak_mb']:9.0f}"
        print(f"{title:36}{columns}")
    rate = statistics.mean(run["rate"] for title, run in runs.items() if title.startswith("autograder"))
    theirs = [run for title, run in runs.items() if title.startswith("nbgrader")]
    return [round(rate / run["rate"], 2) for run in theirs] or [None, None]


if __name__ == "__main__":
    main()
