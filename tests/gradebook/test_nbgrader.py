"""Stock nbgrader works on the course tree: feedback, export, formgrader; and pages carry no script."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pandas
import pytest
from bs4 import BeautifulSoup
from helpers import copied
from nbconvert.exporters import HTMLExporter
from traitlets.config import Config

from autograder import course as courses
from autograder import synthetic
from autograder.author import build
from autograder.cells import CellRole, role_of
from autograder.gradebook import course_tree
from autograder.grading import grade
from autograder.grading.grading_record import load_record, students_of
from autograder.reports import feedback, report

FIRST = courses.load().notebooks[0]
ATTACK = """\
from IPython.display import HTML, display
display(HTML("<script>document.title='owned'</script><img src=x onerror=document.title='owned'><b>bold</b>"))
"""
MARKDOWN = (
    """<script>document.title='owned'</script> <img src=x onerror=alert(1)> [x](javascript:document.title='owned')"""
)


def nbgrader(folder, *words):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        ["nbgrader", *words], cwd=folder, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=True
    )


def test_stock_feedback_works_on_the_tree(demo_run):
    known, _, _ = demo_run
    page = known.tree / "feedback" / "Ada_Perfect" / FIRST.name / f"{FIRST.name}.html"
    shutil.rmtree(known.tree / "feedback" / "Ada_Perfect")
    nbgrader(known.tree, "generate_feedback", FIRST.name, "--student", "Ada_Perfect", "--force")
    assert f"Exercise {FIRST.number.lstrip('0')}.1: passed" in page.read_text()


def test_our_feedback_lies_where_nbgrader_looks_for_its_own(demo_run):
    """Who writes a page last has it; ours comes back when it is asked for."""
    known, _, _ = demo_run
    page = known.tree / "feedback" / "Bo_Blank" / FIRST.name / f"{FIRST.name}.html"
    shutil.rmtree(page.parent)
    feedback.write_feedback(known, [FIRST])
    ours = page.read_text()
    stamp = course_tree.place(known, "autograded", FIRST, "Bo_Blank").with_name("timestamp.txt")
    assert '<ol class="exercises">' in ours and page.with_name(stamp.name).read_text() == stamp.read_text()
    nbgrader(known.tree, "generate_feedback", FIRST.name, "--student", "Bo_Blank", "--force")
    assert '<ol class="exercises">' not in page.read_text()
    assert page in feedback.write_feedback(known, [FIRST]) and page.read_text() == ours


def test_a_mark_scheme_is_for_formgraders_pages_alone(demo_run):
    """The server's configuration holds for the feedback that its button writes too."""
    known, _, _ = demo_run
    settings = {"HTMLExporter": {"preprocessors": ["autograder.gradebook.stock.Shown"], "template_name": "classic"}}
    assert (
        'c.HTMLExporter.preprocessors = ["autograder.gradebook.stock.Shown"]'
        in (known.tree / "jupyter_server_config.py").read_text()
    )
    shown = HTMLExporter(config=Config(settings)).from_filename(
        str(course_tree.place(known, "autograded", FIRST, "Ada_Perfect")),
        resources={"submission_id": "1", "assignment_id": FIRST.name, "notebook_id": FIRST.name},
    )[0]
    assert "How it is marked" in shown and "MARK SCHEME ===" not in shown
    api = course_tree.nbgrader_api(known)
    api.config.merge(Config(settings))
    page = known.tree / "feedback" / "Ada_Perfect" / FIRST.name / f"{FIRST.name}.html"
    page.unlink()
    assert api.generate_feedback(FIRST.name, "Ada_Perfect")["success"]
    assert "My answer" in page.read_text() and "How it is marked" not in page.read_text()


def test_stock_export_says_the_scores(demo_run):
    known, _, _ = demo_run
    nbgrader(known.tree, "export", "--to", "stock.csv")
    table = pandas.read_csv(known.tree / "stock.csv")
    mine = table[table.assignment == FIRST.name].set_index("student_id").score
    for student in students_of(known, FIRST):
        assert mine[student] == load_record(known, FIRST, student).score


def test_our_export_has_a_row_per_exercise(demo_run, tmp_path):
    known, _, _ = demo_run
    assert report.write_csv(known, [FIRST], tmp_path / "out.csv") == len(pandas.read_csv(tmp_path / "out.csv"))
    table = pandas.read_csv(tmp_path / "out.csv").set_index(["student", "exercise"])
    for student in ("Ada_Perfect", "Zoë_Müller"):
        for one in load_record(known, FIRST, student).verdicts:
            assert table.loc[(student, one.exercise)].score == one.score


def test_the_report_names_every_student_and_reason(demo_run):
    known, _, _ = demo_run
    page = report.write_report(known, [FIRST], names=True).read_text()
    for student in students_of(known, FIRST):
        assert student in page
    assert "ungradable: the file is truncated" in page and "kernel restarted" in page


@pytest.fixture(scope="module")
def attacked(built, tmp_path_factory):
    """A submission whose outputs, markdown and name carry script, graded."""
    known = copied(built, tmp_path_factory.mktemp("attacked"))

    def attack(notebook):
        notebook.cells.insert(3, nbformat.v4.new_code_cell(ATTACK))
        notebook.cells.insert(3, nbformat.v4.new_markdown_cell(MARKDOWN))
        for cell in notebook.cells:
            if role_of(cell.id) is CellRole.EXERCISE:
                cell.source = "raise ValueError(\"<script>document.title='owned'</script>\")"

    course_tree.write(
        course_tree.place(known, "submitted", FIRST, "mallory"), synthetic.Maker(known, FIRST).file(change=attack)
    )
    grade.grade(known, [FIRST])
    assert course_tree.nbgrader_api(known).generate_feedback(FIRST.name, "mallory")["success"]
    stock = known.tree / "stock.html"
    (known.tree / "feedback" / "mallory" / FIRST.name / f"{FIRST.name}.html").rename(stock)
    return known, feedback.write_feedback(known, [FIRST])[0], stock, report.write_report(known, [FIRST])


def test_no_page_carries_a_students_script(attacked):
    known, feedback_page, stock, summary = attacked
    graded = nbformat.read(
        course_tree.place(known, "autograded", FIRST, "mallory"), as_version=4
    )  # formgrader shows this
    shown = [cell.source for cell in graded.cells if cell.cell_type != "code"]
    shown += [str(output.get("data")) for cell in graded.cells for output in cell.get("outputs", [])]
    for text in (feedback_page.read_text(), stock.read_text(), summary.read_text(), *shown):
        page = BeautifulSoup(text, "html.parser")
        assert not [script for script in page("script") if "owned" in script.text]
        assert not page("img", src="x") and not [at for at in page(href=True) if at["href"].startswith("javascript:")]
    assert "<b>bold</b>" in feedback_page.read_text() and "<b>bold</b>" in stock.read_text()
    assert not BeautifulSoup(feedback_page.read_text(), "html.parser")("script")


def test_hints_survive_in_nbgraders_feedback(attacked):
    _, _, stock, _ = attacked
    assert "<details><summary>Hint 1" in stock.read_text()


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium on this machine")
def test_no_script_runs_in_a_browser(attacked):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"])
        for path in attacked[1:]:
            page = browser.new_page()
            page.on("dialog", lambda dialog: pytest.fail("a script ran"))
            page.goto(f"file://{path}", wait_until="domcontentloaded")
            page.wait_for_timeout(1000)
            assert page.title() != "owned"
        browser.close()


def test_nbgraders_own_release_is_ours(demo_run):
    """The tree's release, made by nbgrader, and the committed notebook ask for the same cells with the same ids."""
    known, _, _ = demo_run
    for entry in known.notebooks:
        released = course_tree.release_notebook(known, entry)
        ours = build.student_notebook(known, entry)
        assert [(cell.id, cell.source, cell.metadata.get("nbgrader")) for cell in released.cells] == [
            (cell.id, cell.source, cell.metadata.get("nbgrader")) for cell in ours.cells
        ]
        assert json.loads(build.write(ours))["metadata"]["accelerator"] == "GPU"
