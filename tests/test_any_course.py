"""Any course of nbgrader, graded in the sandbox: the marks are stock nbgrader's, and a hand-in reaches nothing."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from autograder import course
from autograder.any_course import compare, directory
from autograder.any_course import grade as grading
from autograder.any_course.directory import GRADED, UNGRADABLE
from autograder.course import CourseError

pytestmark = pytest.mark.filterwarnings("ignore")  # stock nbgrader's, and those of the kernels that it starts
# Enough of nbgrader's own test notebooks; benchmarks/any_course.py takes all.
FEW = {
    "submitted-unchanged": ("submitted-changed", "submitted-cheat-attempt", "submitted-grade-cell-changed"),
    "validating-environment-variable": ("validating-environment-variable",),
}


def graded(cell, name, points=1, **more):
    about = {"grade": True, "solution": False, "locked": True, "points": points, "grade_id": name}
    cell.metadata["nbgrader"] = about | {"schema_version": 3, "task": False} | more
    return cell


def solution(source, name):
    cell = new_code_cell(source)
    about = {"grade": False, "solution": True, "locked": False, "grade_id": name, "schema_version": 3, "task": False}
    cell.metadata["nbgrader"] = about
    return cell


def notebook(*cells, **spec):
    python = {"name": "python3", "language": "python", "display_name": "Python 3"}
    return new_notebook(cells=list(cells), metadata={"kernelspec": python | spec})


def write(path, made):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(nbformat.writes(made))


ANSWER = "def answer():\n    raise NotImplementedError"
TESTS = {
    "all": "assert answer() == 42",
    "part": "2.5 if answer() else 0",
    "warns": "import warnings\nwarnings.warn('look here')",
    "shown": "from IPython.display import display\ndisplay(1)\nassert answer()",
    "cleared": "import sys\nfrom IPython.display import clear_output\nprint(1, file=sys.stderr)\nclear_output()",
    "process": "import os\nassert os.system('echo lost >&2') == 0",
    "quiet": "import os\nassert os.system('echo kept') == 0",
    "file": "assert open('table.csv').read() == 'right'",
    "helper": "import utils, data\nassert utils.three() == 3 and data.name == 'beside'",
    "asks": "input()",
    "awaits": "import asyncio\nawait asyncio.sleep(0)",
}
HELPER = "def three():\n    return 3\n"


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A course of two notebooks an assignment, with files; its stock twin has been graded by stock nbgrader."""
    root = tmp_path_factory.mktemp("small") / "stock"
    cells = [graded(new_code_cell(text), name, 3) for name, text in TESTS.items()]
    essay = graded(new_markdown_cell("Your words"), "essay", 2, solution=True, locked=False)
    source = root / "source/week 1"
    write(source / "first one.ipynb", notebook(solution(ANSWER, "answer"), *cells, essay))
    second = graded(new_code_cell("assert answer() == 42\nassert open('table.csv').read() == 'right'"), "again", 1)
    write(source / "second.ipynb", notebook(solution(ANSWER, "answer"), second))
    (source / "table.csv").write_text("right")
    stock = compare.Stock(root)
    assert stock.assign("week 1") == ""
    for student, value, files in (("ada", 42, 2), ("bo", 7, 2), ("cy", 42, 1)):
        folder = root / "submitted" / student / "week 1"
        for name in ["first one", "second"][:files]:
            made = nbformat.read(root / "release/week 1" / f"{name}.ipynb", as_version=4)
            made.cells[0].source = f"def answer():\n    return {value}"
            write(folder / f"{name}.ipynb", made)
        (folder / "table.csv").write_text("changed by the student")
        (folder / "utils.py").write_text(HELPER)
        (folder / "data.py").write_text("name = 'beside'")
    shutil.copytree(root, root.with_name("untouched"))
    failed = {student: stock.autograde("week 1", student) for student in ("ada", "bo", "cy")}
    assert failed == {"ada": "", "bo": "", "cy": ""}
    return root


@pytest.fixture
def twin(small, tmp_path):
    """The same course, not graded yet."""
    shutil.copytree(small.with_name("untouched"), tmp_path / "course")
    return tmp_path / "course"


def run(root, *names, **how):
    known = directory.open_course(root)
    return grading.grade(known, list(names) or directory.assignments(known), **how)


def outcome(root):
    """All that a run leaves but times: marks, and the graded notebooks' cells."""
    cells = {
        str(path.relative_to(root)): [(cell.source, cell.get("outputs")) for cell in nbformat.read(path, 4).cells]
        for path in sorted(root.glob("autograded/*/*/*.ipynb"))
    }
    return compare.marks(root), cells, sorted(map(str, root.glob("autograded/**/.*")))


def test_every_mark_of_a_small_course_is_stocks(small, twin):
    records, refused = run(twin)
    assert [(one.student, one.status) for one in records] == [(one, GRADED) for one in ("ada", "bo", "cy")]
    assert not refused
    theirs, ours = compare.marks(small), compare.marks(twin)
    assert ours == theirs
    marks = {name: value for name, value in ours["week 1", "ada"].items() if name.startswith("mark first")}
    full, part, none = 3.0, 2.5, 0.0
    assert marks == {
        f"mark first one {name}": (score, None, 0)
        for name, score in {
            **{"all": full, "part": part, "warns": none, "shown": full, "cleared": full, "process": none},
            **{"quiet": full, "file": full, "helper": full, "asks": none, "awaits": full},
        }.items()
    } | {"mark first one essay": (0.0, None, 0)}
    assert ours["week 1", "cy"]["mark second again"] == (0.0, None, 0), "the notebook that is missing"
    assert records[0].score == sum(mark[0] for name, mark in ours["week 1", "ada"].items() if name.startswith("mark"))
    files = [sorted(path.name for path in (root / "autograded/ada/week 1").iterdir()) for root in (small, twin)]
    assert files[0] == files[1]


def test_the_course_of_nbgraders_documentation(tmp_path):
    stock, ours = tmp_path / "stock", tmp_path / "ours"
    compare.documentation(stock)
    rival = compare.Stock(stock)
    assert rival.assign("ps1") == ""
    shutil.copytree(stock, ours)
    assert [rival.autograde("ps1", student) for student in ("bitdiddle", "hacker")] == ["", ""]
    records, _ = run(ours, "ps1")
    assert [(one.student, one.score, one.points) for one in records] == [("bitdiddle", 1.5, 13), ("hacker", 3, 13)]
    assert compare.marks(ours) == compare.marks(stock) and len(compare.marks(ours)) == 2


def test_notebooks_of_nbgraders_own_tests(tmp_path):
    stock, ours = tmp_path / "stock", tmp_path / "ours"
    rival, folder = compare.Stock(stock), compare.PACKAGE / "tests/apps/files"
    for name, others in FEW.items():
        assert rival.assign(name, folder / f"{name}.ipynb") == ""
        for other in others:
            made = tmp_path / f"{other}/{name}.ipynb"
            made.parent.mkdir(exist_ok=True)
            shutil.copy(folder / f"{other}.ipynb", made)
            compare.hand_in(stock, other, name, made)
    shutil.copytree(stock, ours)
    failed = [rival.autograde(name, other) for name, others in FEW.items() for other in others]
    assert failed == [""] * 4
    records, _ = run(ours)
    assert {one.status for one in records} == {GRADED} and len(records) == 4
    assert compare.marks(ours) == compare.marks(stock)
    assert {one.assignment: one.score for one in records}["validating-environment-variable"] > 0
