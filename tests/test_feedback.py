"""Feedback pages: one for each graded hand-in, and only those are written anew that say something new."""

import re

import nbformat
import pytest
from helpers import copied

from autograder.course import CourseError
from autograder.gradebook import course_tree, recording
from autograder.reports import feedback


@pytest.fixture
def written(demo_run, tmp_path):
    """The demonstration's tree for ourselves, its first notebook, and when each of its pages was written."""
    known = copied(demo_run[0], tmp_path)
    entry = known.notebooks[0]
    pages = feedback.write_feedback(known, [entry])
    return known, entry, {page.parts[-3]: page.stat().st_mtime_ns for page in pages}


def rewritten(known, entry, before):
    """Who gets another page when feedback is written again."""
    pages = feedback.write_feedback(known, [entry])
    return {page.parts[-3] for page in pages if page.stat().st_mtime_ns != before.get(page.parts[-3])}


def test_there_is_a_page_for_everybody_and_once_is_enough(written):
    known, entry, before = written
    assert len(before) == 12
    assert rewritten(known, entry, before) == set()


def test_a_manual_score_and_a_comment_make_a_new_page(written):
    known, entry, before = written
    with recording.open_recorder(known) as recorder:
        marked = recorder.gradebook.find_submission_notebook(entry.name, entry.name, "Ada_Perfect")
        next(mark for mark in marked.grades if mark.name.startswith("written_")).manual_score = 1.25
        marked = recorder.gradebook.find_submission_notebook(entry.name, entry.name, "Bo_Blank")
        marked.comments[0].manual_comment = "Come to my office hour."
        recorder.gradebook.db.commit()
    assert rewritten(known, entry, before) == {"Ada_Perfect", "Bo_Blank"}
    ada, bo = (
        known.tree / "feedback" / student / entry.name / f"{entry.name}.html" for student in ("Ada_Perfect", "Bo_Blank")
    )
    assert re.search(r"\b1\.25\b", ada.read_text()) and "Come to my office hour." in bo.read_text()


def test_a_new_grade_a_lost_page_and_one_that_was_not_finished_are_written(written):
    known, entry, before = written
    graded = course_tree.place(known, "autograded", entry, "Cy_Halfway")
    graded.write_text(graded.read_text().replace("Exercise 1.1: passed", "Exercise 1.1: passed well", 1))
    (known.tree / "feedback" / "Di_Mistaken" / entry.name / f"{entry.name}.html").unlink()
    (known.tree / "feedback" / "Ed_Otherwise" / entry.name / feedback.MADE_OF).unlink()
    assert rewritten(known, entry, before) == {"Cy_Halfway", "Di_Mistaken", "Ed_Otherwise"}


def test_what_the_gradebook_does_not_know_is_told(written):
    known, entry, _ = written
    (known.tree / "gradebook.db").unlink()
    course_tree.build_tree(known)
    with pytest.raises(CourseError, match=r"Ada_Perfect.*run `autograder grade` first"):
        feedback.write_feedback(known, [entry])


def test_what_nbgrader_says_is_told(written):
    known, entry, _ = written
    graded = course_tree.place(known, "autograded", entry, "Flo_Crash")
    graded.write_text("{")
    other = course_tree.place(known, "autograded", entry, "Cy_Halfway")
    other.write_text(other.read_text().replace("Exercise 1.1: passed", "Exercise 1.1: passed well", 1))
    with pytest.raises(feedback.FeedbackError, match="Flo_Crash") as told:
        feedback.write_feedback(known, [entry])
    assert "Cy_Halfway" not in str(told.value)
    assert "passed well" in page_of(known, entry, "Cy_Halfway").read_text()
    with pytest.raises(feedback.FeedbackError):  # hers is still missing; the others are not written again
        feedback.write_feedback(known, [entry])


def page_of(known, entry, student):
    return known.tree / "feedback" / student / entry.name / f"{entry.name}.html"


@pytest.mark.parametrize("how", ["slow", "large"])
def test_a_page_that_is_too_costly_has_the_verdicts_and_the_others_are_whole(written, monkeypatch, how):
    """What the border let through: pages have limits of their own."""
    known, entry, before = written
    graded = course_tree.place(known, "autograded", entry, "Cy_Halfway")
    notebook = nbformat.read(graded, as_version=4)
    monkeypatch.setattr(feedback, "PAGE_SECONDS", 5.0)  # sooner than in a course
    slow = "[" * 60_000 if how == "slow" else "x"
    notebook.cells.append(nbformat.v4.new_markdown_cell(slow))
    if how == "large":
        notebook.cells[-1].source = "> " * 400 + "x"
        text = "<b>" * 100_000
        notebook.cells.append(nbformat.v4.new_code_cell("", outputs=[display(text)]))
    nbformat.write(notebook, graded)
    other = course_tree.place(known, "autograded", entry, "Di_Mistaken")
    other.write_text(other.read_text().replace("Exercise 1.1: passed", "Exercise 1.1: passed well", 1))
    assert rewritten(known, entry, before) == {"Cy_Halfway", "Di_Mistaken"}
    page = page_of(known, entry, "Cy_Halfway").read_text()
    assert "takes too long to make" in page and "Exercise 1.1: passed" in page and "<script" not in page
    assert "passed well" in page_of(known, entry, "Di_Mistaken").read_text()
    assert rewritten(known, entry, before) == {"Cy_Halfway", "Di_Mistaken"}, "once is enough"


def display(text):
    return nbformat.v4.new_output("display_data", data={"text/html": text})
