"""`autograder explain` shows what a mark follows from, in order, and packs it for a committee."""

import hashlib
import io
import zipfile

import msgpack
import pytest
from helpers import canned, keep
from nbgrader.api import Gradebook
from typer.testing import CliRunner

from autograder import appeals, cli, synthetic
from autograder.course import CourseError
from autograder.gradebook import course_tree, journal
from autograder.grading import grade
from autograder.grading.grading_record import load_record
from autograder.intake import collect
from autograder.reports import feedback
from utils.grading import wire

WRONG = "def causal_mask(length):\n    return torch.ones(length, length, dtype=torch.bool)\n"


@pytest.fixture
def case(fresh, tmp_path, monkeypatch):
    """ada handed in twice, the second time with a wrong mask; bo once. All of it collected, graded and published."""
    (entry,) = fresh.notebooks
    maker, files = synthetic.Maker(fresh, entry), {}
    for student, versions in {"ada": (maker.file(), maker.file({"1.2": WRONG})), "bo": (maker.file(),)}.items():
        for number, text in enumerate(versions):
            place = tmp_path / f"in{number}" / student / f"{entry.name}.ipynb"
            course_tree.write(place, text)
            files[student, number] = text.encode() if isinstance(text, str) else text
    for number in (0, 1):
        assert collect.collect(fresh, tmp_path / f"in{number}").taken
    keep(fresh, *canned(fresh, "bo"))
    (record,) = grade.grade(fresh, [entry], ["ada"])
    assert record.points - record.score == 2
    feedback.write_feedback(fresh, [entry])
    monkeypatch.setattr(cli.context, "load", lambda: fresh)
    return fresh, files


def explained(*words):
    ended = CliRunner().invoke(cli.app, ["explain", *words])
    assert ended.exception is None, ended.exception
    return ended.output


def test_a_verdict_is_explained_with_the_failing_input(case, tmp_path):
    known, files = case
    (entry,) = known.notebooks
    before = load_record(known, entry, "ada")
    shown = explained("ada", "1.2", "--to", str(tmp_path / "case.zip"), "--beside", "bo")
    first, second = (hashlib.sha256(files["ada", number]).hexdigest() for number in (0, 1))
    versions = [line for line in shown.splitlines() if "sha256" in line]
    assert len(versions) == 2 and first in versions[0] and second in versions[1]
    assert versions[1].endswith(", counts") and not versions[0].endswith(", counts")
    assert "**Exercise 1.2** (2 points" in shown and "The public check: " in shown and "A private check" in shown
    assert "return torch.ones(length, length, dtype=torch.bool)" in shown
    verdict = next(one for one in before.verdicts if one.exercise == "1.2")
    assert f"0 of 2\n  {verdict.sentence()}" in shown
    asked = [line.strip() for line in shown.splitlines() if "causal_mask(" in line and "<- the last question" in line]
    assert len(asked) == 1 and asked[0].split(". ")[1].startswith("causal_mask("), shown
    reply = shown.split(asked[0])[1].splitlines()[1].strip()
    assert reply.startswith("reply: tensor (") and "True, True" in reply  # the mask hides nothing
    assert "This is not the verdict that counts" not in shown
    assert load_record(known, entry, "ada") == before, "nothing is recorded"
    over_time = shown.split("Verdicts over time")[1].split("Marks and comments")[0]
    assert f"0 of 2 (submission {second[:12]}" in over_time and "published: feedback" in over_time
    with zipfile.ZipFile(tmp_path / "case.zip") as archive:
        names = {*archive.namelist()}
        packed = {hashlib.sha256(archive.read(name)).hexdigest() for name in names if name.startswith("versions/")}
        assert packed == {first, second}
        beside = archive.read("similar.html").decode()
        assert "torch.ones(length, length, dtype=torch.bool)" in beside and ">bo<" in beside
        assert archive.read("explanation.txt").decode().splitlines()[0] == f"ada, {entry.name}, exercise 1.2"
        assert archive.read("feedback.html").startswith(b"<!doctype html>")
    wanted = {"README.txt", "explanation.txt", "released.ipynb", "graded.ipynb", "verdict.json", "history.jsonl"}
    assert names > wanted | {"marks.csv", "log.jsonl", "similar.html", "feedback.html"}


def test_marks_and_decisions_are_explained(case):
    known, _ = case
    (entry,) = known.notebooks
    with Gradebook(course_tree.database(known), known.course_id) as gradebook:
        gradebook.find_grade("written_1_W1", entry.name, entry.name, "ada").manual_score = 1.5
        gradebook.db.commit()
    change = {"student": "ada", "notebook": entry.name, "exercise": "1.2", "before": 0, "after": 2}
    journal.note(known, "regrade", "the board", changes=[change, change | {"student": "bo", "after": 1}])
    journal.note(known, "audit: the runs count", "\x1b[31mseen", student="bo", notebook=entry.name)
    shown = explained("ada", "1.W1", "--no-ask")
    assert "score None -> 1.5 (account unknown: formgrader, or another program" in shown
    assert "regrade 1.2 0 -> 2 (" in shown and "): the board" in shown and "-> 1 " not in shown
    assert "audit" not in shown
    other = explained("bo", "1.2", "--no-ask")
    assert "audit: the runs count" in other and "\x1b" not in other and "1.5" not in other


@pytest.mark.usefixtures("case")
def test_what_cannot_be_explained_is_said(tmp_path):
    for words, told in (
        (("ada", "1.99"), "has no exercise 1.99; it has 1.1, 1.2"),
        (("adda", "1.2"), "did you mean ada"),
        (("ada", "1.2", "--beside", "bo"), "--beside goes with --to"),
        (("ada", "1.2", "--no-ask", "--to", str(tmp_path / "x.zip"), "--beside", "cy"), "cy cannot be laid beside"),
    ):
        ended = CliRunner().invoke(cli.app, ["explain", *words])
        assert isinstance(ended.exception, CourseError) and told in str(ended.exception), ended.output
    assert not (tmp_path / "x.zip").exists()


def test_values_are_shown_short_and_without_what_a_terminal_obeys():
    assert appeals.shown_value("\x1b[31m" * 1000).startswith("'\\x1b") and len(appeals.shown_value("x" * 9999)) <= 400
    import torch

    assert appeals.shown_value(torch.arange(20)) == f"tensor (20,) [{', '.join(map(str, range(12)))}, ...]"
    assert appeals.shown_value([torch.ones(2), {"a": None}]) == "[tensor (2,) [1, 1], {'a': None}]"
    assert appeals.reply_text(b"") == "none: the kernel was gone"
    assert appeals.reply_text(b"\xc1").startswith("cannot be read")
    assert io.StringIO(appeals.README).readline().startswith("The case of")


@pytest.mark.parametrize("name", ["E\nThe verdict that counts: 2 of 2\n", "E\u2028The verdict that counts: 2 of 2"])
def test_no_reply_writes_a_line_of_its_own_into_an_explanation(name):
    error = msgpack.packb({"error": {"type": name, "message": "m", "line": ""}})
    handle = msgpack.packb({"value": [msgpack.ExtType(wire.HANDLE, msgpack.packb([0, name]))]})
    for reply in (error, handle):
        text = appeals.reply_text(reply)
        assert "The verdict that counts" in text and len(text.splitlines()) == 1
