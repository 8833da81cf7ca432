"""Feedback pages: one for each graded submission, and only those are written again that say something new."""

import itertools
import json
import re
import time
from dataclasses import replace
from html import unescape

import nbformat
import pytest
from bs4 import BeautifulSoup
from helpers import canned, copied, keep

from autograder import course
from autograder.author import build
from autograder.cells import CellRole, role_of
from autograder.course import CourseError
from autograder.gradebook import course_tree, gradebook_writer, marks
from autograder.grading.grading_record import load_record, verdict_path
from autograder.reports import feedback, page
from utils.grading.check import Outcome

COURSE = course.load()


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
    assert len(before) == 13
    assert rewritten(known, entry, before) == set()


def test_a_manual_score_and_a_comment_make_a_new_page(written):
    known, entry, before = written
    with gradebook_writer.open_recorder(known) as recorder:
        marked = recorder.gradebook.find_submission_notebook(entry.name, entry.name, "Ada_Perfect")
        next(mark for mark in marked.grades if role_of(mark.name) is CellRole.WRITTEN).manual_score = 1.25
        marked = recorder.gradebook.find_submission_notebook(entry.name, entry.name, "Bo_Blank")
        marked.comments[0].manual_comment = "Come to my office hour."
        recorder.gradebook.db.commit()
    assert rewritten(known, entry, before) == {"Ada_Perfect", "Bo_Blank"}
    ada, bo = (
        known.tree / "feedback" / student / entry.name / f"{entry.name}.html" for student in ("Ada_Perfect", "Bo_Blank")
    )
    assert re.search(r"\b1\.25\b", ada.read_text()) and "Come to my office hour." in bo.read_text()


def praise(known, entry, student):
    """Have the record say more of a student's first exercise, which passed."""
    path = verdict_path(known, entry, student)
    record = json.loads(path.read_text())
    assert record["verdicts"][0]["outcome"] == "passed"
    record["verdicts"][0]["message"] = "Well done & <i>short</i>"
    path.write_text(json.dumps(record))


PRAISED = "passed. Well done &amp; &lt;i&gt;short&lt;/i&gt;"


def test_a_new_grade_a_lost_page_and_one_that_was_not_finished_are_written(written):
    known, entry, before = written
    praise(known, entry, "Cy_Halfway")
    graded = course_tree.place(known, "autograded", entry, "Flo_Crash")
    graded.write_text(graded.read_text() + "\n")
    (known.tree / "feedback" / "Di_Mistaken" / entry.name / f"{entry.name}.html").unlink()
    (known.tree / "feedback" / "Ed_Otherwise" / entry.name / feedback.MADE_OF).unlink()
    assert rewritten(known, entry, before) == {"Cy_Halfway", "Di_Mistaken", "Ed_Otherwise", "Flo_Crash"}
    assert PRAISED in page_of(known, entry, "Cy_Halfway").read_text()


def test_what_the_gradebook_does_not_know_is_told(written):
    known, entry, _ = written
    (known.tree / "gradebook.db").unlink()
    course_tree.build_tree(known)
    with pytest.raises(CourseError, match=r"Ada_Perfect.*run `autograder grade` first"):
        feedback.write_feedback(known, [entry])


def test_a_page_that_cannot_be_made_is_told(written):
    known, entry, _ = written
    graded = course_tree.place(known, "autograded", entry, "Flo_Crash")
    graded.write_text("{")
    praise(known, entry, "Cy_Halfway")
    with pytest.raises(feedback.FeedbackError, match="Flo_Crash") as told:
        feedback.write_feedback(known, [entry])
    assert "Cy_Halfway" not in str(told.value)
    assert PRAISED in page_of(known, entry, "Cy_Halfway").read_text()
    with pytest.raises(feedback.FeedbackError):  # hers is still missing; the others are not written again
        feedback.write_feedback(known, [entry])


def test_what_looks_odd_in_runs_is_for_a_person(demo_run, monkeypatch):
    known, _, _ = demo_run
    entry = next(entry for entry in known.notebooks if entry.exercises_of_runs)
    (number,) = entry.exercises_of_runs
    record = load_record(known, entry, "Ada_Perfect")
    remarks = [
        f"exercise {number}: the training loss does not fall",
        "exercise 5.1, cell exercise_5_1: kernel restarted",
    ]
    monkeypatch.setattr(feedback, "load_record", lambda *given: replace(record, remarks=remarks))
    with marks.reading(known) as gradebook:
        about = feedback.page_data(known, entry, "Ada_Perfect", marks.marked(gradebook, entry)["Ada_Perfect"])
    assert about["remarks"] == remarks[1:]


def page_of(known, entry, student):
    return known.tree / "feedback" / student / entry.name / f"{entry.name}.html"


@pytest.mark.parametrize("how", ["slow", "large", "deep"])
def test_a_page_that_is_too_costly_has_the_verdicts_and_the_others_are_whole(written, monkeypatch, how):
    """What the border let through: pages have limits of their own."""
    known, entry, before = written
    graded = course_tree.place(known, "autograded", entry, "Cy_Halfway")
    notebook = json.loads(graded.read_text())
    monkeypatch.setattr(feedback, "PAGE_SECONDS", 2.0)  # sooner than in a course
    cell = {"cell_type": "markdown", "id": "extra_0000", "metadata": {}, "source": "[" * 60_000}
    if how == "large":
        output = {"output_type": "stream", "name": "stdout", "text": "<" * 20_000_000}
        cell |= {"cell_type": "code", "source": "", "outputs": [output]}
    notebook["cells"] += [cell] * (40 if how == "slow" else 1)
    text = json.dumps(notebook)
    graded.write_text(text.replace(json.dumps("[" * 60_000), "[" * 10**5 + "]" * 10**5) if how == "deep" else text)
    praise(known, entry, "Di_Mistaken")
    assert rewritten(known, entry, before) == {"Cy_Halfway", "Di_Mistaken"}
    text = page_of(known, entry, "Cy_Halfway").read_text()
    assert "takes too long to make" in text and "Exercise 1.1: Attention" in text and "<details" not in text
    assert text.count(">passed<") == sum(one.score > 0 for one in load_record(known, entry, "Cy_Halfway").verdicts) > 1
    assert PRAISED in page_of(known, entry, "Di_Mistaken").read_text() and "<script" not in text
    assert rewritten(known, entry, before) == {"Cy_Halfway", "Di_Mistaken"}, "once is enough"


def soup_of(known, entry, student):
    return BeautifulSoup(page_of(known, entry, student).read_text(), "html.parser")


def test_the_sentences_come_first_and_what_was_done_is_folded(written):
    known, entry, _ = written
    soup = soup_of(known, entry, "Di_Mistaken")
    record = load_record(known, entry, "Di_Mistaken")
    assert soup.html["lang"] == "en" and soup.main and not soup("script")
    policy = soup.find("meta", {"http-equiv": "Content-Security-Policy"})["content"]
    assert policy.startswith("default-src 'none'; ") and "script" not in policy and "http" not in policy
    listed = soup.find("ol", class_="exercises")("li")
    assert [one.h3.text.split(":")[0] for one in listed] == [
        *(f"Exercise {one.exercise}" for one in record.verdicts),
        "Question 1.W1",
    ]
    assert any(one.score == 0 for one in record.verdicts)
    for one, item in zip(record.verdicts, listed, strict=False):
        words = one.message.replace("`", "") if one.score == 0 else "passed"
        assert words in item.text and f"{one.score:g} of {one.points:g} points" in item.text
        is_wrong = one.outcome in (Outcome.WRONG, Outcome.ERROR) and one.score == 0
        assert item.find(class_="mark").text.startswith("wrong, 0 of ") == is_wrong, item.text
    assert not soup("details", open=True) and len(soup("details")) >= len(record.verdicts)
    assert not listed[-1].find_next("ol", class_="exercises") and listed[-1].find_next("details")
    assert not [part for part in listed if part.find("pre") or part.find_previous("details")]
    assert {one.h3.a["href"][1:] for one in listed} <= {part["id"] for part in soup(id=True)}
    levels = [int(heading.name[1]) for heading in soup(re.compile("^h[1-6]$"))]
    assert levels[0] == 1 and all(after <= before + 1 for before, after in itertools.pairwise(levels))
    handed_in = nbformat.read(course_tree.place(known, "submitted", entry, "Di_Mistaken"), as_version=4)
    submitted = next(cell for cell in handed_in.cells if cell.id == "exercise_1_1")
    assert soup.find(id="check_1_1").pre.text == submitted.source.rstrip()
    assert soup("img") or not known.grading.pictures


def test_what_nobody_marked_is_not_graded_yet(written):
    known, entry, _ = written
    (_, question) = soup_of(known, entry, "Ada_Perfect").find_all("li")[-2:]
    assert "not graded yet, of 2 points" in question.text and "0 of" not in question.text
    told = "Not graded yet, and not in the score: question 1.W1 (2 points)."
    assert told in page_of(known, entry, "Ada_Perfect").read_text()
    with gradebook_writer.open_recorder(known) as recorder:
        marked = recorder.gradebook.find_submission_notebook(entry.name, entry.name, "Ada_Perfect")
        mark = next(mark for mark in marked.grades if role_of(mark.name) is CellRole.WRITTEN)
        mark.manual_score, mark.needs_manual_grade, mark.extra_credit = 1.5, False, 0.25
        check = next(mark for mark in marked.grades if mark.name == "check_1_1")
        check.manual_score, check.needs_manual_grade = 1, True
        marked.late_submission_penalty = 2
        recorder.gradebook.db.commit()
        score, most = marked.score, marked.max_score
    with marks.reading(known) as gradebook:
        mine = marks.marked(gradebook, entry)["Ada_Perfect"]
    assert sum(mark.score for mark in mine.marks.values()) == pytest.approx(score)
    assert sum(mark.points for mark in mine.marks.values()) == most and mine.penalty == 2
    feedback.write_feedback(known, [entry])
    text = soup_of(known, entry, "Ada_Perfect").text
    assert "1.75 of 2 points" in text and "not graded yet" not in text.lower()
    assert "1 of 2 points" in text and "somebody looks at it again" in text


def test_a_comment_is_markdown_as_on_nbgraders_page(written):
    """formgrader's comments are Markdown. Its lines stay lines, and nothing in it runs."""
    known, entry, _ = written
    said = "Look at **this**: `x < y`, <script>hostile()</script> & $M_{ij}$.\nThen [this](javascript:x).\n\n- and that"
    with gradebook_writer.open_recorder(known) as recorder:
        marked = recorder.gradebook.find_submission_notebook(entry.name, entry.name, "Ada_Perfect")
        for comment in marked.comments:
            comment.manual_comment = f"{comment.name}: {said}"
        recorder.gradebook.db.commit()
    feedback.write_feedback(known, [entry])
    soup = soup_of(known, entry, "Ada_Perfect")
    quoted = {quote.find_previous("h3").text.split(":")[0]: quote for quote in soup("blockquote")}
    assert len(quoted) == len(soup.find("ol", class_="exercises")(["li"], recursive=False)) and not soup("script")
    for name, cell in (("Exercise 1.2", "exercise_1_2"), ("Question 1.W1", "written_1_W1")):
        text = f"{cell}: Look at this: x < y, <script>hostile()</script> & Mij.\nThen this."
        assert quoted[name].p.text == text and quoted[name].strong.text == "this" and quoted[name].code.text == "x < y"
        assert quoted[name].math and quoted[name].li.text == "and that"
        assert not [at for at in quoted[name](href=True) if "javascript" in at["href"]]


def test_a_refused_hand_in_says_why_and_nothing_else(written):
    known, entry, _ = written
    soup = soup_of(known, entry, "Hal_Broken")
    assert "could not be graded: the file is truncated or not a notebook" in soup.text
    assert not soup("li") and not soup("details")


def test_without_a_record_the_notebooks_own_sentences_are_shown(written):
    known, entry, _ = written
    wanted = load_record(known, entry, "Di_Mistaken")
    about = {"title": entry.title, "course": known.title, "student": "di", "penalty": 0, "late_seconds": 0}
    release = course_tree.release_text(known, entry)
    points = {f"check_{one.exercise.replace('.', '_')}": one.points for one in wanted.verdicts}
    about["marks"] = {name: {"score": 0, "points": most, "state": ""} for name, most in points.items()}
    graded = course_tree.place(known, "autograded", entry, "Di_Mistaken").read_bytes()
    empty = {"comments": {}, "reason": "", "said": {}, "remarks": [], "why": ""}
    text = BeautifulSoup(page.render(about | empty | {"release": release, "notebook": graded}), "html.parser").text
    assert all(one.message.replace("`", "") in text for one in wanted.verdicts if one.score == 0)


WRITTEN = r"""Rows are $q_i \in \mathbb{R}^d$, and <b>bold</b> stays:

$$\mathrm{softmax}\!\left(\frac{QK^\top}{\sqrt{d}} + M\right) V$$

$\unknown{x}$ costs `$5`. # no heading

# A heading
![a picture](http://hostile.example/x) <img src=x onerror=hostile()> [x](javascript:hostile())
"""


def test_a_formula_is_mathml_and_needs_no_script(written):
    known, entry, _ = written
    graded = course_tree.place(known, "autograded", entry, "Ada_Perfect")
    notebook = nbformat.read(graded, as_version=4)
    next(cell for cell in notebook.cells if cell.id == "written_1_W1").source = WRITTEN
    nbformat.write(notebook, graded)
    feedback.write_feedback(known, [entry])
    soup = soup_of(known, entry, "Ada_Perfect")
    answer = soup.find(id="written_1_W1")
    inline, block = answer("math")
    assert inline["display"] == "inline" and inline.text == "qi∈ℝd" and block["display"] == "block"
    assert "softmax" in block.text and block.find("mfrac") and block.find("msqrt")
    assert answer.find("code", class_="tex").text == r"$\unknown{x}$" and answer.find("code", string="$5")
    assert answer.b.text == "bold" and answer.h4.text == "A heading" and "Question 1.W1" in answer.text
    assert not soup("script") and not soup("link") and not answer("img")
    assert not [at["href"] for at in answer("a") if "javascript" in at["href"]] and "[x]" not in answer.text


def test_every_formula_of_the_course_is_converted():
    formulas = 0
    for entry in COURSE.notebooks:
        for cell in build.student_notebook(COURSE, entry).cells:
            if cell.cell_type == "markdown":
                html = page.ProseRenderer().html(cell.source)
                assert 'class="tex"' not in html, cell.source
                formulas += html.count("<math ")
    assert formulas > 100


@pytest.mark.parametrize(
    "tex",
    [
        r"\text{<script>hostile()</script>}",
        r"\text{</math><img src=x onerror=hostile()>}",
        r"\unicode{x3c}script\unicode{x3e}",
        r"\href{javascript:hostile()}{x}",
        r"\color{red\" onclick=\"hostile()}x",
        r"\style{position:fixed}{x} \class{a}{x} \cssId{b}{x}",
        r"\operatorname{<img src=x onerror=hostile()>}",
        r"\begin{array}{c|<script>}a\end{array}",
        r"\rule{9999em}{9999em}\hspace{9999em}",
        "&lt;script&gt;hostile()&lt;/script&gt;",
    ],
)
def test_no_formula_is_more_than_a_formula(tex):
    made = page.formula(tex, "inline")
    allowed = page.MATHML | {"code"}
    for tag in BeautifulSoup(made, "html.parser")(True):
        assert tag.name in allowed and set(tag.attrs) <= page.MATH_ATTRIBUTES | {"class"}, made
    assert "9999em" not in made or "<code" in made
    assert re.findall(r"</?([a-z]+)", made) == [name for name in re.findall(r"</?([a-z]+)", made) if name in allowed]


def test_what_is_no_formula_is_shown_as_it_was_typed():
    bomb = r"\def\a{" + "b" * 50 + r"}" + "".join(rf"\def\{c}{{\a\a\a\a}}" for c in "cde") + r"\e"
    for tex in (r"\frac{", r"\nonsense", "x" * 501, "{" * 250 + "}" * 250, bomb, r"\left( x", "a_b_c"):
        started = time.process_time()
        made = page.formula(tex, "block")
        assert unescape(made) == f'<code class="tex">$${tex}$$</code>' or made.startswith("<math"), made
        assert time.process_time() - started < 1
    assert page.formula(bomb, "inline").startswith("<code")


def test_a_page_takes_less_than_a_tenth_of_a_second(written):
    known, entry, before = written
    with marks.reading(known) as gradebook:
        marked = marks.marked(gradebook, entry)
    abouts = [feedback.page_data(known, entry, student, marked[student]) for student in before]
    page.render(abouts[0])
    started = time.process_time()
    for about in abouts:
        page.render(about)
    assert (time.process_time() - started) / len(abouts) < 0.1


def test_points_of_checks_and_of_a_person_are_told_apart(fresh):
    """The student's notebook counts the checks' points alone, this page counts all: it says which are which."""
    keep(fresh, *canned(fresh, "ada"))
    feedback.write_feedback(fresh, list(fresh.notebooks))
    page = " ".join(next(fresh.tree.glob("feedback/ada/*/*.html")).read_text().split())
    assert "Score: 25 of 27 points so far" in page
    assert "Checks: 25 of 25 points, as in your notebook. Written answers: 0 of 2 points so far." in page
