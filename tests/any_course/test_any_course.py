"""Any course of nbgrader, graded in the sandbox: the marks are stock nbgrader's, and a submission reaches nothing."""

import contextlib
import functools
import importlib.util
import io
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from functools import partial

import nbformat
import pytest
from guest_courses import QUICK, graded, notebook, run, scores, solution, text_of, write
from nbformat.v4 import new_code_cell, new_markdown_cell
from nbgrader.api import Gradebook

from autograder import cli, course
from autograder.any_course import compare, directory
from autograder.any_course.directory import GRADED, UNGRADABLE
from autograder.course import CourseError
from utils.grading import check as authors_check
from utils.grading import dispatch, forbidden
from utils.grading.verdict import Outcome

pytestmark = pytest.mark.filterwarnings("ignore")  # stock nbgrader's, and those of the kernels that it starts
# Enough of nbgrader's own test notebooks; benchmarks/any_course.py takes all.
FEW = {
    "submitted-unchanged": ("submitted-changed", "submitted-cheat-attempt", "submitted-grade-cell-changed"),
    "validating-environment-variable": ("validating-environment-variable",),
}


ANSWER = "def answer():\n    raise NotImplementedError"
TESTS = {
    "all": "assert answer() == 42",
    "part": "2.5 if answer() else 0",
    "warns": "import warnings\nwarnings.warn('look here')",
    "shown": "from IPython.display import display\ndisplay(1)\nassert answer()",
    "cleared": "import sys\nfrom IPython.display import clear_output\nprint(1, file=sys.stderr)\nclear_output()",
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


@pytest.fixture(scope="module")
def ours(small):
    """The same course, graded here; its folder, the records and what was refused."""
    root = small.with_name("ours")
    shutil.copytree(small.with_name("untouched"), root)
    return root, *run(root)


@pytest.fixture
def twin(small, tmp_path):
    """The same course, not graded yet."""
    shutil.copytree(small.with_name("untouched"), tmp_path / "course")
    return tmp_path / "course"


def shown(cell):
    return [{name: value for name, value in one.items() if name != "traceback"} for one in cell.get("outputs", ())]


def outcome(root):
    """All that a run leaves but times: marks, and graded cells without tracebacks, which name folders."""
    cells = {
        str(path.relative_to(root)): [(cell.source, shown(cell)) for cell in nbformat.read(path, 4).cells]
        for path in sorted(root.glob("autograded/*/*/*.ipynb"))
    }
    return compare.marks(root), cells, sorted(map(str, root.glob("autograded/**/.*")))


def test_every_mark_of_a_small_course_is_stocks(small, ours):
    twin, records, refused = ours
    assert [(one.student, one.status) for one in records] == [(one, GRADED) for one in ("ada", "bo", "cy")]
    assert not refused
    theirs, mine = compare.marks(small), compare.marks(twin)
    assert mine == theirs
    marks = {name: value for name, value in mine["week 1", "ada"].items() if name.startswith("mark first")}
    full, part, none = 3.0, 2.5, 0.0
    assert marks == {
        f"mark first one {name}": (score, None, 0)
        for name, score in {
            **{"all": full, "part": part, "warns": none, "shown": full, "cleared": full},
            **{"file": full, "helper": full, "asks": none, "awaits": full},
        }.items()
    } | {"mark first one essay": (0.0, None, 0)}
    assert mine["week 1", "cy"]["mark second again"] == (0.0, None, 0), "the notebook that is missing"
    assert records[0].score == sum(mark[0] for name, mark in mine["week 1", "ada"].items() if name.startswith("mark"))
    handed = [(root / "autograded/ada/week 1").iterdir() for root in (small, twin)]
    files = [sorted(path.name for path in some if path.name != "__pycache__") for some in handed]  # of cells
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
    scores = {one.assignment: one.score for one in records}
    assert scores["validating-environment-variable"] == 0, "it fails where it finds what nbgrader sets"


HOSTILE = """\
import json, os, pathlib, socket
found = {"environment": dict(os.environ), "written": [], "read": [], "network": []}
for place in (ROOT, "/", "/etc", "/usr/lib", os.path.dirname(os.__file__)):
    try:
        pathlib.Path(place, "left_by_eve").write_text("x")
        found["written"].append(place)
    except OSError:
        pass
for place in (f"{ROOT}/gradebook.db", f"{ROOT}/source/one/n.ipynb", f"{ROOT}/submitted/eve", COURSE):
    try:
        os.stat(place)
        found["read"].append(place)
    except OSError:
        pass
for address in (("127.0.0.1", PORT), ("10.0.0.1", 80)):
    try:
        socket.create_connection(address, 1)
        found["network"].append(address)
    except OSError:
        pass
print("FOUND" + json.dumps(found))
"""


def test_a_hostile_cell_reaches_nothing(lone, monkeypatch):
    monkeypatch.setenv("AUTOGRADER_DB", "postgresql://me:password@host/name")
    monkeypatch.setenv("MY_TOKEN", "secret-of-the-instructor")
    root = lone("", "assert True")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), 5):
            pass  # it can be reached, from here
        names = f"ROOT, COURSE, PORT = {str(root)!r}, {str(course.ROOT / 'course.toml')!r}, {port}\n"
        made = nbformat.read(root / "submitted/eve/one/n.ipynb", as_version=4)
        made.cells[0].source = names + HOSTILE
        write(root / "submitted/eve/one/n.ipynb", made)
        run(root)
    marks, cells = scores(root)
    assert marks == [1.0]
    found = json.loads(text_of(cells["answer"]).partition("FOUND")[2])
    assert found.pop("environment").items() >= {"NBGRADER_EXECUTION": "autograde", "HOME": "/hand_in"}.items()
    assert found == {"written": [], "read": [], "network": []}
    assert "secret-of-the-instructor" not in text_of(cells["answer"]) and "password" not in text_of(cells["answer"])
    assert not list(root.rglob("left_by_eve"))


# What `act` does in the second of three cells, and the marks of all three.
STOPPED = {
    "does_not_end": ("while True: pass", [1, 0, 1]),
    "does_not_stop": (
        "import time\n    while True:\n        try: time.sleep(60)\n        except BaseException: pass",
        [1, 0, 0],
    ),
    "ends_itself": ("import os; os._exit(0)", [1, 0, 0]),
    "takes_memory": ("bytearray(2**31)", [1, 0, 1]),
    "hides_errors": (
        "from IPython.core.interactiveshell import InteractiveShell as S\n"
        "    S.showtraceback = lambda *given, **named: None\n    return 1 / 0",
        [1, 0, 1],
    ),
    "prints_past_python": ("import os\n    os.system('echo no >&2')", [1, 0, 1]),
    "prints": ("import os\n    os.system('echo yes')", [1, 1, 1]),
    "prints_much": ("print('x' * 2**21)", [1, 0, 0]),
    "part": ("return 0.25", [1, 0.25, 1]),
    "part_in_error": ("return 7", None),
}


def test_a_cell_that_is_stopped_fails_and_the_others_count(lone):
    root = lone("", "assert answer == 1", "act()", "assert answer == 1")
    shutil.rmtree(root / "submitted")
    made = nbformat.read(root / "release/one/n.ipynb", as_version=4)
    for student, (body, _) in STOPPED.items():
        made.cells[0].source = f"answer = 1\ndef act():\n    {body}"
        write(root / "submitted" / student / "one/n.ipynb", made)
    records, _ = run(root)
    found = compare.marks(root)
    for record in records:
        wanted = STOPPED[record.student][1]
        if wanted is None:
            assert record.status == UNGRADABLE and "partial credit" in record.reason, record
            assert ("one", record.student) not in found
            continue
        marks = [found["one", record.student][f"mark n t{number}"][0] for number in range(3)]
        assert record.status == GRADED and marks == wanted, (record, marks)
    remarks = {record.student: "; ".join(record.remarks) for record in records}
    assert "longer than 1 seconds" in remarks["does_not_end"] and "its kernel died" in remarks["ends_itself"]


DRAWS = """\
import random, numpy, torch
print("DREW", random.random(), numpy.random.random(), torch.rand(1, dtype=torch.float64).item())
"""


def test_a_kernel_of_another_course_is_not_seeded(lone):
    root = lone(DRAWS, "assert True", toml=f'{QUICK}[grading]\npreload = ["numpy", "torch"]\n')
    shutil.copytree(root / "submitted/eve", root / "submitted/bo")
    records, _ = run(root)
    assert [(one.status, one.score) for one in records] == [(GRADED, 1)] * 2
    drawn = []
    for student in ("eve", "bo"):
        cells = nbformat.read(root / f"autograded/{student}/one/n.ipynb", as_version=4).cells
        drawn.append(re.search(r"DREW (\S+) (\S+) (\S+)", text_of(cells[0])).groups())
    assert [mine == other for mine, other in zip(*drawn, strict=True)] == [False] * 3


def test_other_kernels_are_refused_by_name(lone, monkeypatch):
    root = lone("1", "assert True")
    spec = {"name": "ir", "language": "R", "display_name": "R"}
    write(root / "source/stats/r.ipynb", notebook(graded(new_code_cell("1"), "r"), **spec))
    assert compare.Stock(root).assign("stats") == ""
    shutil.copytree(root / "release/stats", root / "submitted/eve/stats")
    records, refused = run(root)
    assert [one.assignment for one in records] == ["one"] and records[0].status == GRADED
    assert refused == ["stats: r uses the kernel ir (R); only Python 3 notebooks are graded here"]
    assert not (root / "autograded/eve/stats").exists()
    printed = io.StringIO()
    monkeypatch.setattr(cli.context, "console", cli.context.Console(file=printed, width=150))
    assert cli.app(["nbgrader", "--course-dir", str(root)], standalone_mode=False) == 1
    assert f"refused {refused[0]}" in printed.getvalue()


DIFFERENT = {  # rows of the table of differences, and the marks here; stock nbgrader gives each a point
    "reads hidden tests in its own notebook": (
        "seen = open('n.ipynb').read()\nassert 'asserts' + '_hidden' in seen\n"
        "### BEGIN HIDDEN TESTS\nasserts_hidden = 1\n### END HIDDEN TESTS",
        0,
    ),
    "but no `git`, `make` or `curl`": (
        "for name in ('git', 'make', 'curl'):\n    found = !command -v $name\n    assert found, name",
        0,
    ),
    "such as `../../../helpers.py`": ("assert open('../../../helpers.py').read()", 0),
    "SVG drawing": (
        'from IPython.display import SVG\nSVG(\'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>\')',
        1,
    ),
}


def test_rows_of_the_table_of_differences(lone):
    root = lone("1", *(cell for cell, _ in DIFFERENT.values()))
    (root / "helpers.py").write_text("value = 3")
    assert [row for row in DIFFERENT if row not in SECTION] == []
    records, _ = run(root)
    assert (records[0].status, scores(root)[0]) == (GRADED, [mark for _, mark in DIFFERENT.values()])
    data = scores(root)[1]["t3"].outputs[0].data
    assert ("image/png" in data) == bool(importlib.util.find_spec("resvg_py")) and "image/svg+xml" not in data


TIMES = """
def seconds(cell):
    given = cell.metadata.get("seconds", 20)
    return given if given else 1 / 0
c.Execute.timeout, c.Execute.timeout_func = 1, seconds
"""
BUSY = "import time\nend = time.process_time() + 1.5\nwhile time.process_time() < end: pass"


def test_timeout_func_gives_each_cell_its_time(lone):
    root = lone("1", BUSY, BUSY, settings=TIMES, toml="[limits]\nmemory_mb = 600\n")
    submitted = root / "submitted/eve/one/n.ipynb"
    made = nbformat.read(submitted, as_version=4)
    made.cells[2].metadata["seconds"] = 0.25
    write(submitted, made)
    records, _ = run(root)
    assert (records[0].status, scores(root)[0]) == (GRADED, [1, 0])
    assert "cell 3: your code took longer than 0.25 seconds" in records[0].remarks[0]
    (root / "course.toml").write_text(QUICK)  # states cell_seconds
    records, _ = run(root)
    assert (records[0].status, scores(root)[0]) == (GRADED, [0, 0])
    (root / "course.toml").unlink()
    made.cells[2].metadata["seconds"] = 0
    write(submitted, made)
    records, _ = run(root)
    assert records[0].status == UNGRADABLE and "timeout_func" in records[0].reason, records[0]
    assert "ZeroDivisionError" in records[0].reason


def test_python_2_is_refused_by_name(lone):
    root = lone("1", "assert True")
    spec = {"name": "python2", "language": "python", "display_name": "Python 2"}
    write(root / "source/old/o.ipynb", notebook(graded(new_code_cell("print 1"), "p"), **spec))
    assert compare.Stock(root).assign("old") == ""
    shutil.copytree(root / "release/old", root / "submitted/eve/old")
    records, refused = run(root, "old")
    assert (records, refused) == (
        [],
        ["old: o uses the kernel python2 (Python 2); only Python 3 notebooks are graded here"],
    )
    for name, shown, old in (
        ("python2.7", "", True),
        ("conda-env-py27-py", "", True),
        ("ipython2", "", True),
        ("kernel", "Python 2", True),
        ("python3", "Python 3", False),
        ("py2024", "Python 2024", False),
        ("cs2-python", "Intro Python 2", False),
        ("python3.12", "Python 3.12.2", False),
    ):
        kernel = {"name": name, "display_name": shown, "language": "python"}
        assert bool(directory.other_language(kernel)) == old, kernel


def changed(folder, change):
    made = nbformat.read(folder / "n.ipynb", as_version=4)
    change(made.cells)
    write(folder / "n.ipynb", made)


def doubled(cells):
    cells.append(new_code_cell(cells[1].source, metadata=cells[1].metadata))


def outdated(cells):
    cells[1].metadata.nbgrader.schema_version = 1


def coded(folder, encoding):
    text = (folder / "n.ipynb").read_text().replace("True", "'\u00e9'")
    (folder / "n.ipynb").write_bytes(text.encode(encoding))


BROKEN = {
    "no notebook": (lambda folder: (folder / "n.ipynb").write_text("{"), "n.ipynb: it is truncated or no notebook"),
    "nested": (lambda folder: (folder / "n.ipynb").write_text("[" * 10**5), "n.ipynb: it is nested too deep"),
    "a link": (lambda folder: (folder / "key").symlink_to("/etc/passwd"), "key is a link"),
    "a link whose name is not text": (
        lambda folder: os.symlink("/etc/passwd", os.fsencode(folder) + b"/l\xff"),
        "is a link",
    ),
    "a pipe": (lambda folder: os.mkfifo(folder / "n2.ipynb"), "n2.ipynb is a link, a pipe"),
    "other name": (
        lambda folder: (folder / "n.ipynb").rename(folder / "n (1).ipynb"),
        "holds n (1).ipynb, but the assignment's notebook is n.ipynb: rename the file",
    ),
    "a cell twice": (lambda folder: changed(folder, doubled), "n.ipynb holds the cell t0 more than once"),
    "old metadata": (lambda folder: changed(folder, outdated), "n.ipynb has the metadata of an older nbgrader"),
    "Latin-1": (lambda folder: coded(folder, "latin-1"), "n.ipynb is not text in UTF-8"),
    "UTF-16": (lambda folder: coded(folder, "utf-16"), "n.ipynb is not text in UTF-8"),
    "no time": (
        lambda folder: (folder / "timestamp.txt").write_text("yesterday or so"),
        "timestamp.txt holds 'yesterday or so', not a time such as",
    ),
    "a folder as time": (lambda folder: (folder / "timestamp.txt").mkdir(), "timestamp.txt holds '', not a time"),
    "no text as time": (
        lambda folder: (folder / "timestamp.txt").write_bytes(b"\xff2"),
        "timestamp.txt holds '\ufffd2'",
    ),
    "no file": (lambda folder: (folder / "n.ipynb").unlink(), "holds no notebook"),
    "larger": (lambda folder: (folder / "big").write_bytes(bytes(2**21)), "its files take more than 1 MB"),
}


def test_what_cannot_be_graded_is_told_and_the_others_go_on(lone):
    root = lone("1", "assert True", toml=f"{QUICK}disk_mb = 1\n")
    for student, (spoil, _) in BROKEN.items():
        shutil.copytree(root / "submitted/eve/one", root / "submitted" / student / "one")
        spoil(root / "submitted" / student / "one")
    records, _ = run(root)
    found = {one.student: one for one in records}
    assert found["eve"].status == GRADED and found["eve"].score == 1
    for student, (_, words) in BROKEN.items():
        assert found[student].status == UNGRADABLE and words in found[student].reason, found[student]
    assert {path.name for path in (root / "autograded").glob("*")} == {"eve"}


def test_what_is_graded_is_left_alone_until_something_changes(twin):
    shutil.rmtree(twin / "submitted/cy")
    first, _ = run(twin)
    again = []
    assert run(twin, on_record=again.append)[0] == first and again == []
    answers = twin / "submitted/bo/week 1/second.ipynb"
    made = nbformat.read(answers, as_version=4)
    made.cells[0].source = "def answer():\n    return 42"
    write(answers, made)
    after, _ = run(twin, on_record=again.append)
    assert [one.student for one in again] == ["bo"] and after[0] == first[0]
    assert after[1].score == first[1].score + 1
    assert len(run(twin, students=["ada"], again=True, on_record=again.append)[0]) == 1 and len(again) == 2
    (twin / "source/week 1/table.csv").write_text("wrong")
    run(twin, on_record=again.append)
    assert len(again) == 4


def test_a_student_who_handed_in_nothing_is_named(twin):
    with pytest.raises(CourseError, match=r"adda handed in none of .*: it was handed in by .*ada"):
        run(twin, students=["ada", "adda"])


def test_marks_by_hand_stay(twin):
    run(twin, students=["ada"])
    with Gradebook(f"sqlite:///{twin}/gradebook.db") as book:
        book.find_grade("essay", "first one", "week 1", "ada").manual_score = 2
        book.db.commit()
    run(twin, students=["ada"], again=True)
    assert compare.marks(twin)["week 1", "ada"]["mark first one essay"] == (0.0, 2.0, 1)


def test_what_stock_nbgrader_graded_is_left_alone_until_it_changes(small, tmp_path):
    root = tmp_path / "course"
    shutil.copytree(small, root)
    with Gradebook(f"sqlite:///{root}/gradebook.db") as book:
        essay = book.find_grade("essay", "first one", "week 1", "ada")
        essay.manual_score, essay.needs_manual_grade = 2, False
        half = book.find_grade("all", "first one", "week 1", "cy")  # as if nbgrader had been ended before it saved
        half.auto_score, half.needs_manual_grade = None, False
        book.db.commit()
    before, heard = compare.marks(root), []
    assert before["week 1", "ada"]["mark first one essay"] == (0.0, 2.0, 0)
    (root / "submitted/bo/week 1/timestamp.txt").write_text("2030-01-02 03:04:05 UTC")
    (root / "autograded/bo/week 1").chmod(0o755)
    (root / "autograded/bo/week 1/timestamp.txt").write_text("2030-01-01 03:04:05 UTC")
    records, _ = run(root, on_record=heard.append)
    assert sorted(one.student for one in heard) == ["ada", "bo", "cy"]
    assert [directory.BEFORE in one.remarks for one in records] == [True, False, False], "a newer one, half a one"
    after = compare.marks(root)
    assert after["week 1", "ada"] == before["week 1", "ada"] and after["week 1", "cy"]["mark first one all"][0] == 3
    assert (records[0].score, records[0].to_mark) == (sum(part[1] or part[0] for part in marks_of(after, "ada")), False)
    assert run(root, on_record=heard.append)[0] == records and len(heard) == 3
    run(root, students=["ada"], again=True, on_record=heard.append)
    assert len(heard) == 4 and compare.marks(root)["week 1", "ada"]["mark first one essay"] == (0.0, 2.0, 1)


def marks_of(found, student):
    return [value for name, value in found["week 1", student].items() if name.startswith("mark")]


def test_the_instructors_configuration_holds(lone):
    moved = "c.CourseDirectory.submitted_directory = 'inbox'\nc.CourseDirectory.autograded_directory = 'done/here'\n"
    order = "c.CourseDirectory.directory_structure = '{nbgrader_step}/{assignment_id}/{student_id}'\n"
    root = lone("1", "import time; time.sleep(0.1)", settings=f"{moved}{order}c.Execute.timeout = 7\n", toml="")
    (root / "inbox/one").mkdir(parents=True)
    (root / "submitted/eve/one").rename(root / "inbox/one/eve")
    (root / "inbox/one/eve/timestamp.txt").write_text("2030-01-02 03:04:05 UTC")
    known = directory.open_course(root)
    assert known.limits.cell_seconds == 7
    records, _ = run(root)
    assert [one.score for one in records] == [1] and (root / "done/here/one/eve/n.ipynb").exists()
    (root / "nbgrader_config.py").write_text("c = get_config()\nc.CourseDirectory.nonsense(")
    with pytest.raises(CourseError, match="configuration"):
        directory.open_course(root)


HOOKS = """
def noted(when, **given):
    names = [path.rpartition("/")[2] for path in given["notebooks"]]
    with open(f"{when}.txt", "a") as notes:
        print(given["assignment"], given["student"], names, file=notes)
def before(**given): noted("before", **given)
def after(**given): noted("after", **given)
c.Autograde.pre_convert_hook, c.Autograde.post_convert_hook = before, after
"""


def test_hooks_get_what_stock_nbgrader_gives_them(lone, tmp_path):
    root = lone("1", "assert True", settings=HOOKS)
    shutil.copytree(root, tmp_path / "stock")
    command = [os.path.join(os.path.dirname(sys.executable), "nbgrader"), "autograde", "one"]
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    stock = subprocess.run(command, cwd=tmp_path / "stock", env=os.environ | {"PATH": path}, capture_output=True)
    assert stock.returncode == 0, stock.stderr.decode()
    records, _ = run(root)
    assert records[0].status == GRADED
    for when in ("before", "after"):
        assert (
            (root / f"{when}.txt").read_text() == (tmp_path / f"stock/{when}.txt").read_text() == "one * ['n.ipynb']\n"
        )


@pytest.mark.parametrize(
    "setting",
    [
        "c.Execute.timeout = '30s'",
        "c.Autograde.permissions = 'all'",
        "c.AssignLatePenalties.plugin_class = 'no_such_module.Plugin'",
        "c.Autograde.autograde_preprocessors = ['no_such_module.Step']",
    ],
)
def test_a_setting_that_nbgrader_refuses_is_reported(lone, setting):
    root = lone("1", "assert True", settings=setting)
    with pytest.raises(CourseError, match=r"the configuration in .*lone: \w+: .*(timeout|permissions|no_such_module)"):
        directory.open_course(root)


@pytest.mark.parametrize("column", ["student.lms_user_id", "notebook.kernelspec", "course"])
def test_the_gradebook_of_an_older_nbgrader_is_refused_with_what_to_do(lone, column):
    root = lone("1", "assert True")
    table, _, name = column.partition(".")
    assert directory.open_course(root)
    change = f"alter table {table} drop column {name}" if name else f"drop table {table}"
    with contextlib.closing(sqlite3.connect(root / "gradebook.db")) as old:
        old.execute(change)
    before = (root / "gradebook.db").read_bytes()
    with pytest.raises(CourseError, match=rf"older nbgrader \(it has no {column}.*`nbgrader db upgrade`"):
        directory.open_course(root)
    assert (root / "gradebook.db").read_bytes() == before
    (root / "gradebook.db").write_text("no database, but longer than the header of one would be" * 9)
    with pytest.raises(CourseError, match=r"gradebook\.db cannot be read: .*not a database"):
        directory.open_course(root)


GRADE = """\
import sys
from functools import partial
from pathlib import Path
from autograder.any_course import directory, grade
known = directory.open_course(Path(sys.argv[1]))
grade.grade(known, ["week 1"], on_record=lambda record: print(record.student, flush=True))
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_is_ended_goes_on_from_there(twin, ours, how):
    command = [sys.executable, "-c", GRADE, str(twin)]
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a test run in the background ignores it
    running = subprocess.Popen(
        command, cwd=course.ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, preexec_fn=heard
    )
    assert running.stdout.readline()  # one is done; others are not
    running.send_signal(how)
    assert running.wait(60) != 0
    running.stdout.close()
    kept = sorted(path.stem for path in twin.glob(".autograder/records/*/*.json"))
    assert 1 <= len(kept) < 3
    if how == signal.SIGINT:
        assert not list(twin.glob("autograded/.partial/*"))
        assert {student for _, student in compare.marks(twin)} == {*kept}, "half a result"
    again = []
    assert len(run(twin, on_record=again.append)[0]) == 3
    assert sorted(one.student for one in again) == sorted({"ada", "bo", "cy"} - {*kept})
    assert outcome(twin) == outcome(ours[0])


def test_the_command_says_that_tests_in_cells_can_be_fooled(lone, monkeypatch):
    root = lone("1", "assert True", "assert False")
    monkeypatch.chdir(root)
    printed = io.StringIO()
    monkeypatch.setattr(cli.context, "console", cli.context.Console(file=printed, width=150))
    cli.app(["nbgrader", "one"], standalone_mode=False)
    assert "1 of 2" in printed.getvalue() and "can still fool them" in printed.getvalue()
    page = course.ROOT / "docs/any_course.md"
    assert "docs/any_course.md" in directory.FOOLED and "# A stock nbgrader course" in page.read_text()
    with pytest.raises(CourseError, match="no assignment two; it holds one"):
        cli.app(["nbgrader", "two"], standalone_mode=False)
    with pytest.raises(CourseError, match="there is no gradebook"):
        cli.app(["nbgrader", "--course-dir", str(root.parent)], standalone_mode=False)
    with pytest.raises(CourseError, match="submissions can read"):
        cli.app(["nbgrader", "--course-dir", os.path.dirname(os.__file__)], standalone_mode=False)


PENALTY = """
from nbgrader.plugins import BasePlugin
class Half(BasePlugin):
    def late_submission_penalty(self, student_id, score, total_seconds_late): return score / 2
c.AssignLatePenalties.plugin_class = Half
"""


def test_the_table_shows_late_penalties_and_no_empty_heading(lone, monkeypatch):
    root = lone("1", "assert True", settings=PENALTY)
    with Gradebook(f"sqlite:///{root}/gradebook.db") as book:
        book.update_or_create_assignment("one", duedate="2030-01-01 00:00:00 UTC")
    (root / "submitted/eve/one/timestamp.txt").write_text("2030-01-02 00:00:00 UTC")
    printed = io.StringIO()
    monkeypatch.setattr(cli.context, "console", cli.context.Console(file=printed, width=150))
    assert cli.app(["nbgrader", "--course-dir", str(root)], standalone_mode=False) is None
    assert "0.5 of 1" in printed.getvalue() and "late: 1 less a penalty of 0.5" in printed.getvalue()
    shutil.rmtree(root / "submitted")
    printed.truncate(0)
    cli.app(["nbgrader", "--course-dir", str(root)], standalone_mode=False)
    assert "nothing was handed in" in printed.getvalue() and "assignment  points" not in printed.getvalue()


SECTION = (course.ROOT / "docs/any_course.md").read_text()


def test_the_check_of_the_documentation_is_not_fooled_where_the_test_is():
    test, trick, check = re.findall(r"^```python\n(.*?)^```$", SECTION, re.M | re.S)
    right = "def squares(n):\n    return [i * i for i in range(1, n + 1)]"
    for answer in (right, trick):
        exec(f"{answer}\n{test}", {})  # neither fails
    exec(check, defined := {"check": authors_check.check})
    found = {}
    for name, answer in (("right", right), ("trick", trick), ("wrong", right.replace("n + 1", "n"))):
        exec(answer, names := {})
        ask = functools.partial(dispatch.answer, names)
        found[name] = defined["squares"].verdict(ask, [forbidden.read_cell(answer)]).outcome
    assert found == {"right": Outcome.PASSED, "trick": Outcome.WRONG, "wrong": Outcome.WRONG}
