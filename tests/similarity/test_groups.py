"""Written answers in groups: like ones are found, one mark goes to all of a group, and can be taken back."""

import dataclasses
import shutil

import nbformat
import pytest
from bs4 import BeautifulSoup
from helpers import canned, copied, keep, outcome
from nbgrader.api import Gradebook
from typer.testing import CliRunner

from autograder import cli
from autograder.course import CourseError
from autograder.gradebook import course_tree, gradebook_writer
from autograder.gradebook.by_hand import HandMark
from autograder.gradebook.pseudonyms import Names
from autograder.reports import progress
from autograder.similarity import groups
from autograder.similarity.texts import TfIdf

CELL, QUESTION = "written_1_W1", "1.W1"
KINDS = (
    (
        "it copies the next token, which the mask hides",
        "the next token is copied, no mask hides it",
        "copies its token",
    ),
    (
        "overfitting: it memorised the training set",
        "memorised by overfitting",
        "it has overfitting on its training set",
    ),
    ("<script>hostile()</script> softmax sums wrongly", "the softmax sums to something wrong", "wrong softmax sums"),
)
STUDENTS = {f"{kind}_{number}": text for kind, some in enumerate(KINDS) for number, text in enumerate(some)}
STUDENTS |= {"9_empty": ""}


@pytest.fixture(scope="module")
def graded(built, tmp_path_factory):
    """A graded class with three kinds of answers to 1.W1, and one without an answer."""
    known = copied(built, tmp_path_factory.mktemp("groups"))
    job, done, notebook = canned(known, "first")
    shutil.rmtree(known.tree / "submitted")
    for student, text in STUDENTS.items():
        hand_in(known, job, done, notebook, student, text)
    return known


@pytest.fixture
def school(graded, tmp_path):
    """The same class with a tree of its own."""
    tree = tmp_path / "tree"
    shutil.copytree(graded.tree, tree)
    return graded.model_copy(update={"tree": tree})


def hand_in(known, job, done, notebook, student, text):
    read = nbformat.reads(notebook, as_version=4)
    cell = next(cell for cell in read.cells if cell.id == CELL)
    cell.source = text or "YOUR ANSWER HERE"
    written = nbformat.writes(read)
    course_tree.write(course_tree.place(known, "submitted", known.notebooks[0], student), written)
    keep(known, dataclasses.replace(job, student=student), dataclasses.replace(done, student=student), written)


def shown(known):
    return groups.grouped(known, QUESTION, TfIdf())


def held(known, student):
    """The mark as nbgrader itself reads it: score, whether it waits, comment."""
    entry = known.notebooks[0]
    with Gradebook(course_tree.database(known), known.course_id) as gradebook:
        book = gradebook.find_submission_notebook(entry.name, entry.name, student)
        grade = next(one for one in book.grades if one.name == CELL)
        comment = next(one for one in book.comments if one.name == CELL)
        return grade.score, bool(grade.needs_manual_grade), comment.manual_comment


def by_person(known, student, score, comment=None):
    """Mark an answer as formgrader does."""
    entry = known.notebooks[0]
    with Gradebook(course_tree.database(known), known.course_id) as gradebook:
        book = gradebook.find_submission_notebook(entry.name, entry.name, student)
        grade = next(one for one in book.grades if one.name == CELL)
        grade.manual_score, grade.needs_manual_grade = score, False
        next(one for one in book.comments if one.name == CELL).manual_comment = comment
        gradebook.db.commit()


def group_of(found, student):
    return next(one for one in found.groups if student in [answer.student for answer in one.answers])


def test_like_answers_are_one_group_and_who_wrote_nothing_is_in_none(school):
    found = shown(school)
    assert found.empty == 1 and found.points == 2
    members = [{answer.student[0] for answer in one.answers} for one in found.groups]
    assert members == [{"0"}, {"1"}, {"2"}] and [len(one.answers) for one in found.groups] == [3, 3, 3]
    assert [one.number for one in found.groups] == [1, 2, 3]
    assert len(groups.grouped(school, QUESTION, TfIdf(), 2).groups) == 2


def test_a_group_gets_one_score_and_one_comment(school):
    found = group_of(shown(school), "1_0")
    before = outcome(school)
    assert groups.apply(school, QUESTION, found.number, 1.5, "Look at the <b>validation</b> loss.") == (3, [])
    for student in STUDENTS:
        mine = (1.5, False, "Look at the <b>validation</b> loss.")
        other = (0.0, student != "9_empty", None)
        assert held(school, student) == (mine if student[0] == "1" else other), student
    entry = school.notebooks[0]
    assert set(progress.to_mark(school, entry)) == {student for student in STUDENTS if student[0] in "02"}
    after = outcome(school)
    assert after[1:] == before[1:] and after[0] != before[0]


def test_what_was_there_before_is_there_again_after_undo(school):
    by_person(school, "1_0", 0.25, "mine")
    found, before = shown(school), outcome(school)
    first, second = group_of(found, "1_0").number, group_of(found, "0_0").number
    assert groups.apply(school, QUESTION, first, 1.0, "all", overwrite=True)[0] == 3
    between = outcome(school)
    assert groups.apply(school, QUESTION, second, 2.0)[0] == 3
    assert outcome(school) != between != before
    taken, changed = groups.undo(school, QUESTION)
    assert taken.group == second and not changed and outcome(school) == between
    groups.undo(school, QUESTION)
    assert outcome(school) == before and held(school, "1_0") == (0.25, False, "mine")
    with pytest.raises(CourseError, match="left to undo"):
        groups.undo(school, QUESTION)


def test_what_a_person_marked_stays_unless_it_is_asked_for(school):
    by_person(school, "1_0", 0.25, "mine")
    by_person(school, "1_1", None, "only a comment")
    number = group_of(shown(school), "1_0").number
    marked, (note,) = groups.apply(school, QUESTION, number, 1.5)
    assert marked == 1 and "2 left as they are: a person marked them" in note
    assert held(school, "1_0") == (0.25, False, "mine") and held(school, "1_2")[0] == 1.5
    assert groups.apply(school, QUESTION, number, 1.0, overwrite=True) == (3, [])
    assert held(school, "1_0") == (1.0, False, "mine"), "an empty comment replaces none"


def test_undo_leaves_what_was_marked_since(school):
    number = group_of(shown(school), "1_0").number
    groups.apply(school, QUESTION, number, 1.5)
    by_person(school, "1_1", 2.0, "better than that")
    _, changed = groups.undo(school, QUESTION)
    assert changed == ["1_1"] and held(school, "1_1") == (2.0, False, "better than that")
    assert held(school, "1_0") == held(school, "1_2") == (0.0, True, None)


@pytest.mark.parametrize("score", [2.5, -0.5, float("nan"), float("inf")])
def test_a_score_that_there_is_not_is_refused(school, score):
    number = group_of(shown(school), "1_0").number
    before = outcome(school)
    with pytest.raises(CourseError, match="which has 2 points"):
        groups.apply(school, QUESTION, number, score)
    assert outcome(school) == before
    with pytest.raises(CourseError, match="left to undo"):
        groups.undo(school, QUESTION)


def test_what_is_not_there_is_said(school):
    with pytest.raises(CourseError, match=r"no group 1 of 1\.W1"):
        groups.apply(school, QUESTION, 1, 1.0)
    shown(school)
    with pytest.raises(CourseError, match="no group 4"):
        groups.apply(school, QUESTION, 4, 1.0)
    with pytest.raises(CourseError, match=r"no written question 1\.W9; it has 1\.W1"):
        groups.question_of(school, "1.W9")


def test_all_marks_are_written_or_none(school, monkeypatch):
    entry, before = school.notebooks[0], outcome(school)
    marks = {student: HandMark(None, True, None) for student in ("0_0", "0_1")}
    wrong = marks | {"0_1": HandMark(1.0, False, None)}
    after = dict.fromkeys(marks, HandMark(2.0, False, "x"))
    with gradebook_writer.open_recorder(school) as recorder:
        with pytest.raises(gradebook_writer.ChangedMeanwhile, match="0_1"):
            recorder.mark(entry, CELL, wrong, after)
        assert outcome(school) == before
    monkeypatch.setattr(gradebook_writer.by_hand, "differing", lambda now, wanted: [])
    with gradebook_writer.open_recorder(school) as recorder, pytest.raises(KeyError):  # as the third is written
        recorder.mark(entry, CELL, marks | {"nobody": HandMark()}, {**after, "nobody": HandMark()})
    assert outcome(school) == before
    monkeypatch.undo()
    with gradebook_writer.open_recorder(school) as recorder:
        recorder.mark(entry, CELL, marks, after)
    assert held(school, "0_0") == held(school, "0_1") == (2.0, False, "x")


def test_an_answer_handed_in_anew_is_left_out_and_a_mark_survives_grading(school):
    number = group_of(shown(school), "1_0").number
    job, done, notebook = canned(school, "1_1")
    hand_in(school, job, done, notebook, "1_1", "quite another answer")
    marked, (note,) = groups.apply(school, QUESTION, number, 1.5)
    assert marked == 2 and "1 left out: handed in again" in note and held(school, "1_1") == (0.0, True, None)
    hand_in(school, job, done, notebook, "1_0", STUDENTS["1_0"])
    assert held(school, "1_0")[0] == 1.5


def test_the_page_shows_answers_and_no_names(school):
    found = shown(school)
    soup = BeautifulSoup(groups.page(school, found, Names(school)), "html.parser")
    texts = {answer.text for answer in soup("pre")}
    assert texts == {text for text in STUDENTS.values() if text} and len(soup("script")) == 1
    assert all(Names(school).of(student) in soup.text for student, text in STUDENTS.items() if text)
    assert not [student for student in STUDENTS if student in soup.text]
    assert "1_0" in groups.page(school, found, Names(school, shown=True))
    ids = {part["id"] for part in soup(id=True)}
    assert {link["href"][1:] for link in soup("a")} == ids == {"g1", "g2", "g3"}


def test_the_command_shows_marks_and_undoes(school, tmp_path, monkeypatch):
    monkeypatch.setattr("autograder.similarity.texts.vectors_of", lambda: (TfIdf(), "install it"))

    def run(*words):
        return CliRunner().invoke(cli.app, ["--tree", str(school.tree), "group", *words])

    ended = run("show", QUESTION, "--page", str(tmp_path / "groups.html"))
    assert not ended.exception and "install it" in ended.output and "overfitting" in ended.output, ended.output
    assert "hostile()" in (tmp_path / "groups.html").read_text()
    assert "3 answers have 1.5 points" in run("apply", QUESTION, "1", "--score", "1.5").output
    assert held(school, "0_0")[0] == 1.5
    assert "restored the previous marks of 3 answers" in run("undo", QUESTION).output
    assert held(school, "0_0")[0] == 0.0
    assert run("apply", QUESTION, "1").exit_code == 2  # no --score


def test_the_old_spelling_does_the_same_and_says_how_it_is_written_today(school, monkeypatch):
    monkeypatch.setattr("autograder.similarity.texts.vectors_of", lambda: (TfIdf(), ""))

    def run(*words):
        ended = CliRunner().invoke(cli.app, ["--tree", str(school.tree), "group", *words])
        return ended.stdout, ended.stderr, ended.exception

    said, note, failed = run(QUESTION, "--into", "3")
    assert not failed and "overfitting" in said and f"group show {QUESTION}`" in note
    said, note, failed = run(QUESTION, "--apply", "1", "--score", "1.5")
    assert not failed and "3 answers have 1.5 points" in said
    assert f"group apply {QUESTION} 1 --score 1.5`" in note and held(school, "0_0")[0] == 1.5
    said, note, failed = run("--undo", QUESTION)
    assert not failed and "restored the previous marks of 3" in said and f"group undo {QUESTION}`" in note
    assert held(school, "0_0")[0] == 0.0
    assert "give --score" in str(run(QUESTION, "--apply", "1")[2])


def test_texts_without_words_and_alike_ones_are_no_trouble():
    for texts in (["?", "!"], ["a"], ["a", "a"], ["the", "of"]):
        found = groups.labels(TfIdf().vectors(texts))
        assert len(found) == len(texts), texts


def test_the_page_shows_question_scheme_and_pictures_and_equal_answers_once(graded, tmp_path):
    """What somebody needs who marks from the page alone. A picture of another submission makes another answer."""
    known = copied(graded, tmp_path)
    job, done, notebook = canned(known, "8_equal")
    pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
    read = nbformat.reads(notebook, as_version=4)
    cell = next(cell for cell in read.cells if cell.id == CELL)
    for student, text, held in (
        ("8_equal", STUDENTS["0_0"], {}),
        ("8_shown", f"{STUDENTS['0_0']} ![a <b>curve](attachment:picture-1-0a1b2c3d)", {"picture-1-0a1b2c3d": pixel}),
    ):
        cell.source = text
        cell.attachments = {name: {"image/png": data} for name, data in held.items()}
        written = nbformat.writes(read)
        course_tree.write(course_tree.place(known, "submitted", known.notebooks[0], student), written)
        keep(known, dataclasses.replace(job, student=student), dataclasses.replace(done, student=student), written)
    found = shown(known)
    group = group_of(found, "8_equal")
    assert {"0_0", "8_equal", "8_shown"} <= {answer.student for answer in group.answers}
    soup = BeautifulSoup(groups.page(known, found, Names(known, shown=True)), "html.parser")
    question, scheme = soup("details")
    assert "why does a language model need the mask" in " ".join(question.text.split())
    assert (
        "How it is marked" in scheme.text and "MARK SCHEME ===" not in soup.text and "BEGIN SOLUTION" not in soup.text
    )
    blocks = [pre.text for pre in soup.find(id=f"g{group.number}").parent("pre")]
    assert blocks.count(STUDENTS["0_0"]) == 1 and len(blocks) == len(group.answers) - 1
    assert f"{STUDENTS['0_0']} [picture: a <b>curve]" in blocks
    (picture,) = soup("img")
    assert picture["src"] == f"data:image/png;base64,{pixel}"
    (item,) = [item for item in soup("li") if item.pre and item.pre.text == STUDENTS["0_0"]]
    assert {"0_0", "8_equal"} == {line.text.split(",")[0] for line in item("p")}
