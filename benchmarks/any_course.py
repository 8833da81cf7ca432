"""Any course: stock `nbgrader autograde` against `autograder nbgrader`, marks and throughput, in one run.

    python benchmarks/any_course.py [--students 40] [--stock-students 40] [--package [--only ui-tests]]

A class submits the assignment of nbgrader's documentation, two notebooks and a picture each; submissions are those of
its two students, in turn. It is graded by `autograder nbgrader` with two workers, by stock nbgrader, and by ours once
more, from the command to its end, start-up included. The marks are compared one by one: it ends with status 1 if one
differs.

With --package the marks alone are compared, of all test notebooks in nbgrader's package: each is an assignment, and
handed in are it, its released form, and each notebook of its folder that has some of its cells. A table shows what each
makes of it. The last line is a JSON object.
"""

import argparse
import ctypes
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from autograder.any_course import compare, directory, grade

PR_SET_CHILD_SUBREAPER = 36
PROGRAMS = Path(sys.executable).parent
ENVIRONMENT = os.environ | {"PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"}
STUDENTS = ("bitdiddle", "hacker")  # of the documentation
ASSIGNMENT = "ps1"
# By whether stock nbgrader grades a submission, and whether ours does.
KINDS = {
    (True, True): "equal",
    (True, False): "stock alone grades",
    (False, True): "ours alone grades",
    (False, False): "both refuse",
}


def command(folder: Path, *words: str) -> tuple[float, float]:
    """Seconds that a command takes in a course: on the clock, and of processors, with all that it starts."""
    started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    with (folder / "log.txt").open("ab") as said:
        ended = subprocess.run([*words], cwd=folder, env=ENVIRONMENT, stdout=said, stderr=said, check=False)
    if ended.returncode:
        sys.exit((folder / "log.txt").read_text()[-2000:])
    seconds = time.monotonic() - started
    with suppress(ChildProcessError):
        while True:  # orphans come to us, and count only when they are waited for
            os.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def made(root: Path, number: int) -> Path:
    """The course of the documentation with so many students."""
    compare.documentation(root)
    (root / "submitted").rename(root / "theirs")
    for each in range(number):
        shutil.copytree(root / "theirs" / STUDENTS[each % len(STUDENTS)], root / "submitted" / f"student{each:03d}")
    command(root, "nbgrader", "generate_assignment", ASSIGNMENT)
    return root


def different(stock: Path, ours: Path) -> list[str]:
    """The marks of stock nbgrader's submissions that are others in ours."""
    theirs, mine = compare.marks(stock), compare.marks(ours)
    return [
        f"{' '.join(key)} {name}: {mark} and {mine.get(key, {}).get(name)}"
        for key, marks in theirs.items()
        for name, mark in marks.items()
        if mine.get(key, {}).get(name) != mark
    ]


def throughput(root: Path, students: int, stock_students: int) -> bool:
    """Measure; whether all marks are equal."""
    ours, again = made(root / "ours", students), made(root / "again", students)
    stock = made(root / "stock", stock_students)
    grading = (sys.executable, "-m", "autograder.cli", "nbgrader", ASSIGNMENT, "--course-dir", ".")
    environment = {"PYTHONPATH": str(ROOT)}
    ENVIRONMENT.update(environment)
    before = os.getloadavg()[0]
    first = command(ours, *grading)
    theirs = command(stock, "nbgrader", "autograde", ASSIGNMENT)
    second = command(again, *grading)
    wrong = different(stock, ours) + different(stock, again)
    rates = {"ours": 60 * students / ((first[0] + second[0]) / 2), "stock": 60 * stock_students / theirs[0]}
    print(f"{'':28}{'submissions':>10}{'wall seconds':>14}{'a minute':>10}{'CPU seconds each':>18}")
    for title, number, (seconds, cpu) in (
        ("autograder nbgrader", students, first),
        ("nbgrader autograde", stock_students, theirs),
        ("autograder nbgrader, again", students, second),
    ):
        print(f"{title:28}{number:10}{seconds:14.1f}{60 * number / seconds:10.1f}{cpu / number:18.2f}")
    print(*wrong, sep="\n")
    marks = sum(map(len, compare.marks(stock).values()))
    told = {"throughput_ratio": round(rates["ours"] / rates["stock"], 2), "ours_per_minute": round(rates["ours"], 1)}
    told |= {"stock_per_minute": round(rates["stock"], 1), "marks_compared": marks, "marks_different": len(wrong)}
    print(json.dumps(told | {"load_before": round(before, 2), "load_after": round(os.getloadavg()[0], 2)}))
    return not wrong


def package(root: Path, only: str) -> bool:
    """Compare the test notebooks of the package, or `only` those of one part; whether all marks are equal."""
    stock, ours = root / "stock", root / "ours"
    stock.mkdir()
    for name, why in compare.package_tests(stock, only):
        print(f"{name}: no assignment, nbgrader refuses it: {why}")
    shutil.copytree(stock, ours)
    known = directory.open_course(ours)
    records, _ = grade.grade(known, directory.assignments(known))
    rival, found, wrong = compare.Stock(stock), Counter[str](), []
    print(f"{'assignment':44}{'submission':44}{'stock':>8}{'ours':>8}")
    for one in tqdm(records, disable=None):
        why = rival.autograde(one.assignment, one.student)
        key, graded = (one.assignment, one.student), one.status == directory.GRADED
        kind = KINDS[not why, graded]
        if kind == "equal" and compare.marks(stock)[key] != compare.marks(ours)[key]:
            kind = "different"
        found[kind] += 1
        print(f"{one.assignment:44}{one.student:44}{'-' if why else 'marks':>8}{'marks' if graded else '-':>8}  {kind}")
        if kind not in ("equal", "both refuse"):
            print(f"    stock: {why}; ours: {one.reason}")
        if kind in ("different", "stock alone grades"):
            wrong.append(key)
    print(json.dumps(dict(found)))
    return not wrong


def main() -> None:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--students", type=int, default=40)
    options.add_argument("--stock-students", type=int, help="fewer for stock nbgrader; default: as many")
    options.add_argument("--package", action="store_true", help="compare the package's test notebooks instead")
    options.add_argument("--only", default="", help="of the package one part: apps, preprocessors or ui-tests")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        if chosen.package:
            equal = package(root, chosen.only)
        else:
            equal = throughput(root, chosen.students, chosen.stock_students or chosen.students)
    sys.exit(not equal)


if __name__ == "__main__":
    main()
