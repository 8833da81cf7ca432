"""A student is erased from every place of the tree, also from what was removed before, and a receipt says so."""

import json
import sqlite3

import pytest
from helpers import canned, keep
from nbgrader.api import Gradebook
from typer.testing import CliRunner

from autograder import cli
from autograder.course import CourseError
from autograder.gradebook import course_tree, journal, mark_log
from autograder.grading import erasure, guard, removal
from autograder.grading.records import load_record, verdict_path
from autograder.reports import feedback, report

GONE = ("zoe_mueller", "Zoë Müller", "zoe@example.org")


@pytest.fixture
def known(fresh, monkeypatch):
    """A class of two: one is to be erased, and left traces in every place that there is."""
    (entry,) = fresh.notebooks
    lines = "id,first_name,last_name,email,platform_ids\nzoe_mueller,Zoë,Müller,zoe@example.org,\n"
    lines += "zoe_muell,Bo,Berg,b@e.org,\n"
    (fresh.tree / "students.csv").write_text(lines)
    for student in ("zoe_mueller", "zoe_muell"):
        keep(fresh, *canned(fresh, student))
        course_tree.write(course_tree.place(fresh, "handins", entry, student), "{}")
        course_tree.write(fresh.tree / "handins" / student / "name.txt", "Zoë Müller" if student[-1] == "r" else "Bo")
    (fresh.tree / "extensions.csv").write_text("student,notebook,extension,reason\nzoe_mueller,01,3 days,ill\n")
    with Gradebook(course_tree.database(fresh), fresh.course_id) as gradebook:
        gradebook.find_grade("written_1_W1", entry.name, entry.name, "zoe_mueller").manual_score = 1
        gradebook.db.commit()
    removal.remove(fresh, entry, "zoe_mueller")
    keep(fresh, *canned(fresh, "zoe_mueller"))
    feedback.write_feedback(fresh, [entry])
    rows = [
        {"student": one, "notebook": entry.name, "exercise": "1.1", "before": 0, "after": 2}
        for one in ("zoe_mueller", "zoe_muell")
    ]
    journal.note(fresh, "regrade", "", changes=rows)
    journal.note(fresh, "audit: the runs count", student="zoe_mueller", notebook=entry.name)
    course_tree.write_json(fresh.tree / f"decisions/{entry.name}.json", {"zoe_mueller": {}, "zoe_muell": {}})
    course_tree.write_json(
        fresh.tree / "groups/1.W1-groups.json", [{"number": 1, "answers": {"zoe_mueller": "x", "zoe_muell": "y"}}]
    )
    other = json.loads(verdict_path(fresh, entry, "zoe_muell").read_text())
    other["flags"] = ["runs that are also in the submission of zoe_mueller", "something else"]
    course_tree.write_json(verdict_path(fresh, entry, "zoe_muell"), other)
    report.write_report(fresh, [entry], names=True)
    monkeypatch.setattr(cli, "load", lambda: fresh)
    return fresh


def remove(*words):
    ended = CliRunner().invoke(cli.app, ["remove", *words])
    assert ended.exception is None, ended.exception
    return " ".join(ended.output.split())


def named(known, names=GONE):
    """The files of the tree that hold one of these names, in their content or their path."""
    found = set()
    for path in known.tree.rglob("*"):
        inside = str(path.relative_to(known.tree))
        content = path.read_bytes() if path.is_file() else b""
        for name in names:
            if name in inside or name.encode() in content or json.dumps(name)[1:-1].encode() in content:
                found.add(inside)
    return found


def test_nothing_of_an_erased_student_is_left_in_the_tree(known):
    places = {path.split("/")[0] for path in named(known)}
    assert places >= {
        *("submitted", "handins", "autograded", "feedback", "verdicts", "history", "removed", "gradebook.db"),
        *("students.csv", "extensions.csv", "log.jsonl", "decisions", "groups", "report.html"),
    }
    before = named(known)
    shown = remove("--student", "zoe_mueller", "--all", "--erase")
    assert "nothing was changed" in shown and "would erase removed/" in shown and named(known) == before
    assert "would take the student out of students.csv" in shown
    shown = remove("--student", "zoe_mueller", "--all", "--erase", "--yes", "--reason", "asked to")
    assert named(known) == set()
    assert "erased; the receipt is" in shown and "Not in the course tree" in shown and "still in" not in shown
    (receipt,) = (known.tree / "receipts").iterdir()
    stated = json.loads(receipt.read_text())
    assert (stated["reason"], stated["account"]) == ("asked to", journal.account())
    assert stated["erased"]["submissions in the gradebook"] == 1 and stated["erased"]["files"] > 8
    assert stated["erased"]["logged changes of marks"] > 0
    assert "removed" in stated["erased"]["places"] and stated["files that still hold a name"] == 0


def test_the_others_keep_all_that_is_theirs(known):
    (entry,) = known.notebooks
    kept = {
        part: (known.tree / part / "zoe_muell").exists() for part in ("submitted", "handins", "autograded", "history")
    }
    score = load_record(known, entry, "zoe_muell").score
    erasure.erase(known, "zoe_mueller")
    assert all(kept.values()) and all((known.tree / part / "zoe_muell").exists() for part in kept)
    record = load_record(known, entry, "zoe_muell")
    assert record.score == score and record.flags == ["something else"]
    assert "zoe_muell,Bo,Berg" in (known.tree / "students.csv").read_text()
    (event,) = [one for one in journal.events(known) if one["what"] == "regrade"]
    assert [row["student"] for row in event["changes"]] == ["zoe_muell"]
    assert json.loads((known.tree / "groups/1.W1-groups.json").read_text()) == [
        {"number": 1, "answers": {"zoe_muell": "y"}}
    ]
    with sqlite3.connect(course_tree.gradebook(known)) as database:
        assert database.execute("select id from student").fetchall() == [("zoe_muell",)]
    assert {one["student"] for one in mark_log.changes(course_tree.database(known))} == {None}


def test_a_name_that_is_left_somewhere_is_told(known):
    (known.tree / "notes.txt").write_text("ask Zoë Müller")
    assert "still in " + str(known.tree / "notes.txt") in remove("zoe_mueller", "--all", "--erase", "--yes")
    assert named(known) == {"notes.txt"}


def test_what_cannot_be_erased_is_said(known):
    for words, told in (
        (("nobody", "--all", "--erase"), "there is nothing of `nobody`"),
        (("zoe_mueller", "01", "--erase"), "--erase goes with --all"),
        (("zoe_mueller",), "name a student and notebooks"),
        (("--all",), "name a student and notebooks"),
        (("nobody", "--all"), "no submission of `nobody`"),
    ):
        ended = CliRunner().invoke(cli.app, ["remove", *words])
        assert isinstance(ended.exception, CourseError) and told in str(ended.exception), words
    before = named(known)
    with guard.exclusive_run(known), pytest.raises(CourseError, match="another run"):
        erasure.erase(known, "zoe_mueller")
    assert named(known) == before


def test_all_without_erase_keeps_it(known):
    (entry,) = known.notebooks
    shown = remove("--student", "zoe_mueller", "--all", "--yes")
    assert "all of it is in" in shown and load_record(known, entry, "zoe_mueller") is None
    assert len([*(known.tree / "removed").iterdir()]) == 2
