"""Hand-ins per minute: stock `nbgrader autograde` against `autograder grade`, in one run on one machine.

    python benchmarks/grading.py [--notebook 01_causal_mask_lm]

Both grade the same twelve hand-ins, one after the other for stock nbgrader (it has no other way) and
with two workers for ours, from the command to its end, start-up included. None of the twelve is
broken or endless: stock nbgrader ends its batch at the first copied test cell. The stock notebook asks
the same as ours: its graded cells run the public check and, as hidden tests, the private ones.
CPU seconds are those of all processes, kernels included, as the operating system accounts them.
The last line is a JSON object.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from autograder import author, course, demo, tree  # noqa: E402

SHIM = """\
import sys
sys.path.insert(0, {root!r})
import types
from utils import door
from utils.check import Outcome, examine
_private = {{}}
_shim = types.ModuleType("autograder.private")
_shim.private = lambda exercise, tells: lambda asserts: _private.setdefault(exercise, []).append((tells, asserts))
sys.modules["autograder.private"] = _shim
exec({source!r}, {{"__name__": "private_checks"}})
def _hidden(exercise, names):
    for tells, asserts in _private.get(exercise, []):
        outcome, message = examine(asserts, lambda request: door.answer(names, request))
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
    notebook = author.solution_notebook(known, entry)
    private = (course.room(entry) / "private_checks.py").read_text()
    shim = nbformat.v4.new_code_cell(SHIM.format(root=str(ROOT), source=private))
    shim.id, shim.metadata = "shim", {"nbgrader": author.locked_metadata("shim")}
    for cell in notebook.cells:
        if cell.id.startswith("check_"):
            exercise = cell.id.removeprefix("check_").replace("_", ".")
            cell.source = HIDDEN.format(line=cell.source, exercise=exercise)
    kept = [cell for cell in notebook.cells if "experiment" not in cell.metadata.get("tags", [])]
    setup = next(index for index, cell in enumerate(kept) if cell.id == "setup")
    notebook.cells = [*kept[: setup + 1], shim, *kept[setup + 1 :]]
    tree.write(folder / "source" / entry.name / f"{entry.name}.ipynb", author.write(notebook))
    tree.write(folder / "nbgrader_config.py", CONFIG.format(root=str(folder), seconds=int(known.limits.cell_seconds)))
    call(["nbgrader", "generate_assignment", entry.name], folder, folder, check=True)


def ordinary(known: course.Course, entry: course.NotebookEntry) -> list[bytes]:
    """Twelve hand-ins that stock nbgrader can grade: right, blank, half done, and wrong in named ways."""
    maker = demo.Maker(known, entry)
    numbers = list(maker.points)
    wrong = [case for case in maker.cases if not case.right]
    made = [maker.file(), maker.file(solved=()), maker.file(solved=numbers[: len(numbers) // 2])]
    made += [maker.file({case.exercise: case.source}) for case in wrong[:: len(wrong) // 8][:8]]
    return [*made, maker.file({case.exercise: case.source for case in maker.cases if case.right})]


def hand_in(files: list[bytes], entry: course.NotebookEntry, folder: Path, shim: bool) -> None:
    """The files into `submitted/`; for stock, with the one cell that its graded cells lean on."""
    for number, text in enumerate(files):
        if shim:
            notebook = nbformat.reads(text.decode(), as_version=4)
            kept = [cell for cell in notebook.cells if "experiment" not in cell.metadata.get("tags", [])]
            released = nbformat.read(folder / "release" / entry.name / f"{entry.name}.ipynb", as_version=4)
            notebook.cells = [next(cell for cell in released.cells if cell.id == "shim"), *kept]
            text = nbformat.writes(notebook).encode()
        tree.write(folder / "submitted" / f"student{number:02d}" / entry.name / f"{entry.name}.ipynb", text)


def call(command: list[str], folder: Path, logs: Path, check: bool = False) -> tuple[float, float]:
    """Run a command; its wall seconds and the CPU seconds of it and all its descendants."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with (logs / "log.txt").open("ab") as log:
        environment = os.environ | {"PATH": path, "COURSE_PROFILE": "smoke"}
        subprocess.run(command, cwd=folder, check=check, stdout=log, stderr=log, env=environment)
    wall, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--notebook", default="01_causal_mask_lm")
    options.add_argument("--workers", type=int, default=2)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        stock, ours = Path(name, "stock"), Path(name, "ours")
        stock.mkdir()
        known = course.load(tree=ours)
        entry = known.notebook(chosen.notebook)
        made = ordinary(known, entry)
        stock_course(known, entry, stock)
        hand_in(made, entry, stock, shim=True)
        tree.build_tree(known)
        hand_in(made, entry, ours, shim=False)
        command = [sys.executable, "-m", "autograder.cli", "--tree", str(ours), "grade", entry.name]
        call([*command, "--student", "student00"], ROOT, ours)  # the first run compiles what pip has just installed
        startup, _ = call([*command, "--student", "student00", "--again"], ROOT, ours)
        runs = {
            "autograder grade": call([*command, "--workers", str(chosen.workers), "--again"], ROOT, ours),
            "nbgrader autograde": call(["nbgrader", "autograde", entry.name], stock, stock),
        }
        graded = {
            "autograder grade": len(list(ours.glob("verdicts/*/*.json"))),
            "nbgrader autograde": len(list(stock.glob("autograded/*/*/*.ipynb"))),
        }
    print(f"{'':22}{'wall s':>9}{'CPU s':>9}{'per hand-in':>13}{'CPU each':>10}{'graded':>8}")
    for title, (wall, cpu) in runs.items():
        each = len(made)
        print(f"{title:22}{wall:9.1f}{cpu:9.1f}{wall / each:13.2f}{cpu / each:10.2f}{graded[title]:5} of {each}")
    after = (runs["autograder grade"][0] - startup) / (len(made) - 1)
    print(f"one hand-in alone, start-up included: {startup:.1f} s; each further one: {after:.2f} s")
    ratio = runs["nbgrader autograde"][0] / runs["autograder grade"][0]
    each_stock = runs["nbgrader autograde"][0] / len(made)
    figures = {
        "throughput_ratio": round(ratio, 2),
        "throughput_ratio_after_startup": round(each_stock / after, 2),
        "cpu_seconds_ours": round(runs["autograder grade"][1] / len(made), 3),
        "cpu_seconds_stock": round(runs["nbgrader autograde"][1] / len(made), 3),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
