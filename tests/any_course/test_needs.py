"""What a stock nbgrader course needs of this machine: `[nbgrader]` in its course.toml, and `--check`."""

import importlib.util
import io
import os
import re
import socket
import sys
import tempfile
from pathlib import Path

import nbformat
import ordinary_user
import pytest
from bs4 import BeautifulSoup
from guest_courses import QUICK, graded, notebook, run, scores, text_of, write
from nbconvert.exporters import HTMLExporter
from nbformat.v4 import new_code_cell, new_notebook, new_output

from autograder import cli, doctor
from autograder.any_course import check, compare, directory, facts, place, written_files
from autograder.any_course.directory import GRADED, UNGRADABLE
from autograder.cli import context
from autograder.course import CourseError
from autograder.sandbox.kernel import CLEAN_OF_GUESTS

pytestmark = pytest.mark.filterwarnings("ignore")  # stock nbgrader's, and those of the kernels that it starts


def test_files_and_programs_that_course_toml_states_are_shown_and_cannot_be_written(lone, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "table.csv").write_text("far")
    program = tmp_path / "tools/greet"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho hello\n")
    program.chmod(0o755)
    toml = f'[nbgrader]\nread_only = ["helpers.py", "shared/deep", "{outside}"]\nprograms = ["{program}"]\n'
    reads = f"""
import sys
sys.path.append("../..")
import helpers
assert helpers.value == 3
assert open("../shared/deep/x").read() == open({str(tmp_path / "lone/shared/deep/x")!r}).read() == "deep"
assert open({str(outside / "table.csv")!r}).read() == "far"
found = !greet
assert found == ["hello"]
"""
    writes = f"""
import os
far = {str(outside / "table.csv")!r}
for path in ("../helpers.py", "../shared/deep/x", far, "../shared/deep/new", "/usr/bin/greet"):
    try:
        open(path, "a").close()
    except OSError:
        continue
    raise AssertionError(path)
for path in ({str(tmp_path / "lone/shared/other")!r}, "../shared/other", {str(tmp_path / "lone/gradebook.db")!r}):
    assert not os.path.exists(path), path
"""
    programs = """
import os, stat
found = {name: os.lstat(f"/usr/bin/{name}").st_mode for name in os.listdir("/usr/bin")}
assert len(found) > 40 and not [name for name, mode in found.items() if mode & (stat.S_ISUID | stat.S_ISGID)]
assert not {"mount", "su", "sudo", "git", "curl", "gcc"} & set(found)
"""
    root = lone("1", reads, writes, programs, toml=f"{QUICK}{toml}")
    (root / "shared/deep").mkdir(parents=True)
    (root / "shared/deep/x").write_text("deep")
    (root / "shared/other").write_text("not stated")
    (root / "helpers.py").write_text("value = 3\n")
    records, _ = run(root)
    marks, cells = scores(root)
    assert (records[0].status, marks) == (GRADED, [1, 1, 1]), [text_of(cell) for cell in cells.values()]
    assert (root / "shared/deep/x").read_text() == "deep"


REFUSED = {
    "nowhere": "nowhere is not there",
    ".": "source, or lies in it",
    "source": "source, or lies in it",
    "source/one/n.ipynb": "source, or lies in it",
    "gradebook.db": "gradebook.db, or lies in it",
    "nbgrader_config.py": "nbgrader_config.py, or lies in it",
    "to_submitted": "submitted, or lies in it",
    "/": ", or lies in it",
    "/etc/ssl": "/etc, or lies in it",
    "lib": "has the name of a directory that every sandbox has",
    "talks": "a socket, a pipe or a device",
}


def test_what_submissions_must_not_read_is_refused(lone):
    root = lone("1", "assert True")
    (root / "to_submitted").symlink_to("submitted")
    (root / "lib").mkdir()
    (root / "talks").mkdir()
    before = os.getcwd()
    os.chdir(root)  # a socket's path is short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("talks/s")
            for name, words in REFUSED.items():
                (root / "course.toml").write_text(f'[nbgrader]\nread_only = ["{name}"]\n')
                with pytest.raises(CourseError, match=words):
                    directory.open_course(root)
    finally:
        os.chdir(before)
    with_rights = root / "elevated"
    with_rights.write_text("#!/bin/sh\n")
    with_rights.chmod(0o4755)
    for name, words in (("no_such_program", "there is no program"), (str(with_rights), "rights of another user")):
        (root / "course.toml").write_text(f'[nbgrader]\nprograms = ["{name}"]\n')
        with pytest.raises(CourseError, match=words):
            directory.open_course(root)


def test_packages_that_are_missing_are_said_before_anything_is_graded(lone):
    root = lone("1", "assert True", toml='[nbgrader]\npackages = ["numpy", "numpy<1", "no-such-package>=2"]\n')
    with pytest.raises(
        CourseError, match=r"numpy<1 \(.* is installed\), no-such-package>=2 \(not installed\).*pip install"
    ):
        run(root)
    assert not (root / "autograded").exists()
    (root / "course.toml").write_text('[nbgrader]\npackages = ["not a requirement!"]\n')
    with pytest.raises(CourseError, match="not a requirement of pip"):
        run(root)
    (root / "course.toml").write_text('[nbgrader]\npackage = ["numpy"]\n')
    with pytest.raises(CourseError, match="package"):
        directory.open_course(root)


OUTPUTS = r"""
from IPython.display import HTML, Latex, Markdown, SVG, display
display(Markdown("**bold** <script>alert(1)</script> [x](javascript:alert(1)) ![p](http://example.org/p.png)"))
display(Markdown("*plain*"))
display(Latex(r"$x < y$"))
display(Latex(r"$\href{javascript:alert(1)}{x}$"))
START = '<svg xmlns="http://www.w3.org/2000/svg" '
display(SVG(START + 'width="40" height="30"><script>alert(1)</script><circle r="9"/></svg>'))
display(SVG(START + 'width="9000000" height="9000000"/>'))
display(SVG(START + 'width="4000" height="3000"><image href="/etc/passwd"/></svg>'))
"""
FIGURE = "%config InlineBackend.figure_format = 'svg'\nimport matplotlib.pyplot as plt\nplt.plot([1, 2]);"


def test_markdown_formulas_and_drawings_are_kept_clean(lone):
    root = lone("1", OUTPUTS, FIGURE, toml="")
    records, _ = run(root)
    marks, cells = scores(root)
    assert (records[0].status, marks) == (GRADED, [1, 1])
    shown = [output.data for output in cells["t0"].outputs]
    assert shown[1]["text/markdown"] == "*plain*" and shown[2]["text/latex"] == r"$x \lt  y$"
    assert "<script>" not in shown[0]["text/markdown"] and "&lt;script&gt;" in shown[0]["text/markdown"]
    assert "text/latex" not in shown[3]
    drawn = importlib.util.find_spec("resvg_py") is not None
    assert ["image/png" in data for data in shown[4:]] == [drawn, False, drawn]
    assert ("image/png" in cells["t1"].outputs[0].data) == drawn
    assert not any(
        "svg" in kind for cell in cells.values() for output in cell.outputs for kind in output.get("data", ())
    )
    text = (root / "autograded/eve/one/n.ipynb").read_text()
    assert "<svg" not in text.partition('"outputs"')[2].split('"source"')[0]


ESCAPES = """
import os
os.symlink("/etc/passwd", "link"); os.mkfifo("pipe"); os.symlink("/", "root")
os.makedirs("/".join("d" * 20)); open("/".join("d" * 20) + "/deep", "w").close()
open("timestamp.txt", "w").write("2000-01-01 00:00:00 UTC")
open("other.ipynb", "w").write("{}"); open(".hidden", "w").write("x"); open("bell\\x07", "w").write("x")
open("sparse", "wb").truncate(40 * 2**20)
os.remove("table.csv"); os.mkdir("table.csv"); open("table.csv/inside", "w").write("x")
open("fine.txt", "w").write("fine");
"""


def test_what_cells_write_is_kept_within_limits_and_through_no_link(lone):
    root = lone("1", ESCAPES, toml=f"{QUICK}disk_mb = 60\n")
    (root / "source/one/table.csv").write_text("right")
    records, _ = run(root)
    assert (records[0].status, scores(root)[0]) == (GRADED, [1]), records
    kept = {str(path.relative_to(root / "autograded/eve/one")) for path in (root / "autograded/eve/one").rglob("*")}
    assert kept == {"n.ipynb", "table.csv", "fine.txt"}
    assert "2 of the files that its cells wrote are not kept" in records[0].remarks[0]
    assert (root / "autograded/eve/one/table.csv").read_text() == "right"


SWAP = """
import os
for place in ("/tmp/.hand_in", "/hand_in"):
    try:
        os.rename(place, "/tmp/away")
        os.symlink(SECRETS, place)
    except OSError:
        pass
open("fine.txt", "w").write("fine");
"""


def test_a_link_in_the_place_of_the_files_leads_nowhere(lone, tmp_path):
    """Of an ordinary user's sandbox the student can exchange a directory that is seen from outside."""
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets/key").write_text("the instructor's")
    (tmp_path / "secrets").chmod(0o755)
    root = lone("1", SWAP.replace("SECRETS", repr(str(tmp_path / "secrets"))))
    records, _ = run(root)
    assert (records[0].status, scores(root)[0]) == (GRADED, [1]), records
    assert {path.name for path in (root / "autograded/eve/one").iterdir()} == {"n.ipynb", "fine.txt"}


@pytest.mark.skipif(os.getuid() != 0, reason="the test before this one is the same then")
def test_the_same_as_an_ordinary_user():
    """Whose sandboxes have the student's user as the owner of directories that are root's otherwise."""
    with tempfile.TemporaryDirectory() as folder:
        rules = [
            "-q",
            "-n",
            "0",
            "-p",
            "no:cacheprovider",
            f"--basetemp={folder}/pytest",
            __file__,
            "-k",
            "leads_nowhere",
        ]
        ran = ordinary_user.run([sys.executable, "-m", "pytest", *rules], Path(folder), 300)
    assert ran.returncode == 0 and "1 passed" in ran.stdout, ran.stdout[-3000:] + ran.stderr[-2000:]


def test_many_files_that_cells_write_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(written_files, "MAX_FILES", 3)
    work, before = tmp_path / "work", tmp_path / "before"
    work.mkdir()
    before.mkdir()
    for number in range(5):
        (work / f"{number}.txt").write_text("x")
    assert "more than 3 files" in written_files.keep(work, before, tmp_path / "kept", 100)
    assert len(list((tmp_path / "kept").iterdir())) == 3
    assert written_files.keep(tmp_path / "gone", before, tmp_path / "none", 100) == ""


def test_data_that_no_sandbox_has_room_for_is_refused_with_the_limit(lone):
    root = lone("1", "assert True", toml=f"{QUICK}disk_mb = 2\n")
    (root / "source/one/big.bin").write_bytes(bytes(3 * 2**20))
    records, refused = run(root)
    assert records == [] and "take 3 MB, and a sandbox has 2 MB: raise disk_mb in [limits]" in refused[0]
    (root / "source/one/big.bin").write_bytes(bytes(2**20))
    (root / "submitted/eve/one/own.bin").write_bytes(bytes(3 * 2**19))
    records, refused = run(root)
    assert refused == [] and records[0].status == UNGRADABLE, records
    assert "and a sandbox has 2 MB: raise disk_mb in [limits]" in records[0].reason


def test_large_outputs_are_not_counted_and_a_large_notebook_names_the_limit(lone):
    root = lone("1", "assert True")
    path = root / "submitted/eve/one/n.ipynb"
    made = nbformat.read(path, as_version=4)
    made.cells[1].outputs = [new_output("stream", text="x" * 2**21)]
    write(path, made)
    records, _ = run(root)
    assert (records[0].status, scores(root)[0]) == (GRADED, [1]), records
    made.cells[0].source = "1 #" + "x" * 2**21
    write(path, made)
    records, _ = run(root)
    assert (
        records[0].status == UNGRADABLE
        and "n.ipynb has more than 1 MB: raise notebook_mb in [limits]" in records[0].reason
    )


ASKS = """\
import numpy, no_such_module, beside, sklearn.cluster
try:
    import perhaps
except ImportError:
    perhaps = None
import pandas as pd
pd.read_csv("https://example.org/x.csv")
pd.read_csv("/home/ada/x.csv")
open("../shared/y.csv")
!no_such_program --version | sort
!pip install no-such-package
print("https://example.org is fine")
"""


def test_check_reads_what_would_cost_marks(lone, monkeypatch):
    timed = "import time\nstarted = time.perf_counter()\nassert time.perf_counter() - started < 1"
    root = lone("import utils\nimport only_a_student", ASKS, timed, toml="[limits]\ndisk_mb = 2\nnotebook_mb = 1\n")
    (root / "source/one/beside.py").write_text("import also_missing\n")
    (root / "source/one/data.bin").write_bytes(bytes(int(1.8 * 2**20)))
    made = nbformat.read(root / "submitted/eve/one/n.ipynb", as_version=4)
    made.cells[1].metadata.nbgrader.schema_version = 1
    write(root / "submitted/eve/one/n.ipynb", made)
    spec = {"name": "ir", "language": "R", "display_name": "R"}
    write(root / "source/stats/r.ipynb", notebook(graded(new_code_cell("1"), "r"), **spec))
    assert compare.Stock(root).assign("stats") == ""
    found = check.examine(directory.open_course(root), ["one", "stats"])
    told = [(one.assignment, one.what, one.found) for one in found]

    def has(what, words, assignment="one"):
        return [text for name, kind, text in told if (name, kind) == (assignment, what) and words in text]

    assert has("module", "no_such_module, imported in n.ipynb") and has("module", "also_missing, imported in beside.py")
    assert has("module", "utils, imported by 1 student (eve)") and has("module", "only_a_student")
    assert len([one for one in told if one[1] == "module"]) == 4, told
    assert has("network", "https://example.org/x.csv") and has("network", "pip install") and not has("network", "fine")
    assert has("program", "no_such_program") and len([one for one in told if one[1] == "program"]) == 1
    assert has("path", "/home/ada/x.csv") and has("path", "../shared/y.csv")
    assert has("time", "measures time") and has("size", "take 2 of 2 MB (disk_mb)")
    assert has("schema", "submissions of 1 student (eve)") and has("kernel", "r uses ir (R)", "stats")
    assert [one for one in told if one[1] in ("module", "time", "schema") and "sklearn" in one[2]] == []
    assert not (root / "autograded").exists(), "nothing was run"
    printed = io.StringIO()
    monkeypatch.setattr(context, "console", context.Console(file=printed, width=200))
    assert cli.app(["nbgrader", "one", "--check", "--course-dir", str(root)], standalone_mode=False) == 1
    assert "pip install -c constraints.txt no_such_module" in " ".join(printed.getvalue().split())


def test_what_a_hostile_notebook_asks_for_stops_nobody(lone):
    root = lone("1", "assert True")
    for student, text in (
        ("a", "[" * 10**5),
        ("b", '{"cells": [5]}'),
        ("c", '{"cells": [{"metadata": 3, "source": 7}]}'),
    ):
        (root / f"submitted/{student}/one").mkdir(parents=True)
        (root / f"submitted/{student}/one/n.ipynb").write_text(text)
    (root / "submitted/d/one").mkdir(parents=True)
    write(root / "submitted/d/one/n.ipynb", notebook(new_code_cell("(" * 5000), new_code_cell("import missing_of_d")))
    found = check.examine(directory.open_course(root), ["one"])
    assert [one.found for one in found if one.what == "module"] == ["missing_of_d, imported by 1 student (d)"]


def test_programs_are_read_from_commands():
    found = facts.no_facts()
    for line in ("cd x && FOO=1 git clone url | tail -n 1; ./own.sh", "for f in *; do cat $f; done", "{python} x.py"):
        facts.note_command(line, found)
    assert set(found["programs"]) == {"git", "tail"} and found["network"] == ["FOO=1 git clone url"]


def test_a_course_that_says_it_is_elsewhere_is_refused_with_the_place(lone):
    root = lone("1", "assert True", settings="c.CourseDirectory.root = '/home/ada/cs101'\n")
    with pytest.raises(CourseError, match="says that the course is in /home/ada/cs101"):
        directory.open_course(root)


def test_commands_in_such_a_directory_speak_of_that_course(lone, monkeypatch):
    root = lone("1", "assert True")
    monkeypatch.chdir(root)
    assert place.here() == root
    printed = io.StringIO()
    monkeypatch.setattr(context, "console", context.Console(file=printed, width=200))
    cli.app(["status"], standalone_mode=False)
    assert "one" in printed.getvalue() and "`autograder nbgrader` grades what is waiting" in printed.getvalue()
    states = directory.states(directory.open_course(root), "one")
    assert states == {"graded": {}, "waiting": {"eve": ""}, "ungradable": {}, "to mark": {}}
    run(root)
    assert directory.states(directory.open_course(root), "one")["graded"] == {"eve": ""}
    for command, words in (
        (["report"], "nbgrader export"),
        (["feedback"], "nbgrader generate_feedback"),
        (["similar", "01"], "copydetect"),
        (["group", "show", "1.W1"], "nbgrader formgrade"),
        (["explain", "eve", "1.1"], "autograded/STUDENT/ASSIGNMENT"),
        (["grade"], "`autograder nbgrader` grades it"),
        (["collect", "x"], "nbgrader zip_collect"),
    ):
        with pytest.raises(CourseError, match="is a stock nbgrader course, on which") as told:
            cli.app(command, standalone_mode=False)
        assert words in str(told.value), command
    monkeypatch.setattr(doctor, "examine", None)
    found = {one.what: one for one in doctor.examine_other(root)}
    assert found["nbgrader course"].found == "1 assignments, 1 submissions"


def test_our_own_trees_are_no_such_course(tmp_path, monkeypatch):
    (tmp_path / "nbgrader_config.py").write_text("from autograder.gradebook.stock import configure\n")
    (tmp_path / "gradebook.db").touch()
    assert not place.is_course(tmp_path)
    (tmp_path / "nbgrader_config.py").unlink()
    assert place.is_course(tmp_path)
    (tmp_path / "course.toml").write_text("[limits]\n")
    assert place.is_course(tmp_path)
    (tmp_path / "course.toml").write_text('[[notebooks]]\nname = "01_x"\n')
    assert not place.is_course(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert place.here() is None


HOSTILE_TEXTS = (
    "<script>alert(1)</script>",
    "[x](javascript:alert(1)) <a href='java&#x73;cript:alert(1)'>x</a>",
    "[x](data:text/html,<script>alert(1)</script>)",
    "<img src=x onerror=alert(1)> ![a](javascript:alert(1)) ![a](http://example.org/p.png)",
    r"$\href{javascript:alert(1)}{x}$",
    "`<script>alert(1)</script>` and\n\n```\n<script>alert(1)</script>\n```",
    "</div></div><svg onload=alert(1)><iframe src=//example.org><style>*{display:none}</style>",
    "[a]: javascript:alert(1)\n\n[a] <form action=/x><button>",
)
RUNS = ("script", "iframe", "svg", "style", "form", "img", "button")


@pytest.mark.parametrize("kind", ["text/markdown", "text/latex"])
def test_pages_run_nothing_of_what_cells_show(kind):
    shown = [CLEAN_OF_GUESTS[kind](text) for text in HOSTILE_TEXTS]
    outputs = [new_output("display_data", data={kind: text}) for text in [*shown, "**fine**"] if text]
    assert len(outputs) > 3
    for template in ("lab", "classic"):  # nbgrader's pages extend the second
        page, _ = HTMLExporter(template_name=template).from_notebook_node(
            new_notebook(cells=[new_code_cell("1", outputs=outputs)])
        )
        places = BeautifulSoup(page, "html.parser").select(".jp-OutputArea-output, .output_subarea")
        assert len(places) == len(outputs)
        for tag in (one for output in places for one in output.find_all(True)):
            assert tag.name not in RUNS and not any(name.startswith("on") or name == "style" for name in tag.attrs), tag
            address = str(tag.attrs.get("href", ""))
            assert not re.match(r"\s*(javascript|vbscript|data):", address, re.IGNORECASE), tag
