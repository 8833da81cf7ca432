"""A student is erased from every place of the tree, also from what was removed before, and a receipt says so."""

import json
import sqlite3

import pytest
from helpers import canned, keep
from nbgrader.api import Gradebook
from typer.testing import CliRunner

from autograder import cli
from autograder.course import CourseError
from autograder.gradebook import course_tree, journal, mark_log, safe_names
from autograder.grading import erasure, removal, run_lock
from autograder.grading.grading_record import ANOTHERS, EQUAL, load_record, verdict_path
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
    monkeypatch.setattr(cli.context, "load", lambda: fresh)
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


def files_of_others(tree):
    """The files of a tree by path, but the gradebook, what is written again, and what only locks."""
    made = ("gradebook.db", "cache", "report.html", erasure.RECEIPTS)
    found = {path.relative_to(tree): path for path in tree.rglob("*") if path.is_file() and path.suffix != ".lock"}
    return {inside: path.read_bytes() for inside, path in found.items() if inside.parts[0] not in made}


def rows_of(known):
    with sqlite3.connect(course_tree.gradebook(known)) as database:
        return {line for line in database.iterdump() if "mark_change" not in line and "sqlite_sequence" not in line}


def leave_traces(known, student):
    """Put a student into each place of a tree that holds one."""
    (entry,) = known.notebooks
    keep(known, *canned(known, student))
    course_tree.write(course_tree.place(known, "handins", entry, student), "{}")
    for part in safe_names.PARTS:
        course_tree.write(known.tree / part / student / f"{entry.name}.txt", "x")
    for name, line in (("students.csv", f"{student};A;\n"), ("extensions.csv", f"{student},01,3 days,ill\n")):
        path = known.tree / name
        course_tree.write(path, path.read_bytes() + line.encode())
    journal.note(known, "audit: the runs count", student=student, notebook=entry.name)
    row = {"number": 1, "counts": True, "before": {}, "after": {}, "answers": {}, "status": student}
    for inside, add in (
        (f"decisions/{entry.name}.json", lambda stated: stated.update({student: {"counts": True}})),
        ("groups/1.W1-groups.json", lambda stated: stated[0]["answers"].update({student: "x"})),
        ("groups/1.W1-log.json", lambda stated: [stated[0][one].update({student: row}) for one in ("before", "after")]),
        (
            f"verdicts/bo/{entry.name}.json",
            lambda stated: stated["flags"].insert(0, f"f in a submission of {student}; x"),
        ),
    ):
        stated = json.loads((known.tree / inside).read_text())
        add(stated)
        course_tree.write_json(known.tree / inside, stated)


WORDS = [
    *("verdicts", "01_causal_mask_lm", "secret", "source", "gradebook.db", "submitted", "nbgrader_config.py"),
    *("01_causal_mask_lm.ipynb", "status", "notebook", "remarks", "grader", "message", "flags", "removed", "student"),
    *("answers", "changes", "log.jsonl", "this", "bo-ny"),
]


@pytest.mark.parametrize("student", WORDS)
def test_an_id_may_be_any_word_of_the_tree(fresh, student):
    (entry,) = fresh.notebooks
    keep(fresh, *canned(fresh, "bo"))
    course_tree.write(fresh.tree / "students.csv", 'sep=;\r\nid;first_name;email\r\nbo;"B;\r\no, log.jsonl";secret\n')
    course_tree.write(fresh.tree / "extensions.csv", "student,notebook,extension,reason\nbo, 01,2 days,status\n\n")
    changes = [{"student": "bo", "notebook": entry.name, "exercise": "1.1", "before": 0, "after": 2}]
    journal.note(fresh, "regrade", "secret", judged=1, changes=changes)
    course_tree.write_json(fresh.tree / f"decisions/{entry.name}.json", {"bo": {"counts": True, "decided_at": "x"}})
    course_tree.write_json(fresh.tree / "groups/1.W1-groups.json", [{"number": 1, "answers": {"bo": "y"}}])
    log = {"group": 1, "before": {"bo": {"score": 1}}, "after": {"bo": {"score": 2}}, "by": "secret"}
    course_tree.write_json(fresh.tree / "groups/1.W1-log.json", [log])
    told = json.loads(verdict_path(fresh, entry, "bo").read_text())
    told["flags"] = ["a.json is in a submission of eve; those of this student came first", "see message and flags"]
    course_tree.write_json(verdict_path(fresh, entry, "bo"), told)
    course_tree.write(fresh.tree / f"removed/20260101T000000.0Z-bo-{entry.name}/submitted/bo/{student}/x", "x")
    before, rows = files_of_others(fresh.tree), rows_of(fresh)
    assert len(before) > 12 and load_record(fresh, entry, "bo") is not None
    leave_traces(fresh, student)
    removed = fresh.tree / f"removed/20260101T000000.0Z-{student}-{entry.name}/x"
    course_tree.write(removed, "x")
    with_traces = files_of_others(fresh.tree)
    assert len(with_traces) > len(before) + 8 and rows_of(fresh) > rows
    assert sum(with_traces[inside] != content for inside, content in before.items()) == 7
    erasure.erase(fresh, student)
    assert files_of_others(fresh.tree) == before and rows_of(fresh) == rows
    assert not [part for part in safe_names.PARTS if (fresh.tree / part / student).exists()]
    assert load_record(fresh, entry, "bo").flags == told["flags"]


def test_flags_of_others_go_where_they_name_the_student(known):
    (entry,) = known.notebooks
    path = verdict_path(known, entry, "zoe_muell")
    named = [
        "a.json and 2 more equals one in a submission of zoe_mueller; it is not known which came first",
        "a.json equals one in a hand-in of zoe_mueller; it is not known which came first",  # as older versions said
        "its runs carry the same name as those of zoe_mueller",
        "its runs carry the same name as those of zoe_mueller: both are called Zoë Müller in students.csv",
        f"{ANOTHERS}exercise 1.1 is right for those of bo and zoe_mueller, not for its own: the name in STUDENT",
        f"{EQUAL}exercise 1.1 asks zoe_mueller and bo for the same ones: by chance",
    ]
    others = ["its runs carry the same name as those of zoe_mueller2", "zoe_mueller is a word here"]
    course_tree.write_json(path, json.loads(path.read_text()) | {"flags": [*named, *others]})
    erasure.erase(known, "zoe_mueller")
    assert load_record(known, entry, "zoe_muell").flags == others


def test_a_path_is_no_id(known):
    before = files_of_others(known.tree)
    for student in ("..", ".", "../secret", "*", "zoe_mueller/", ""):
        with pytest.raises(CourseError, match="there is nothing of"):
            erasure.erase(known, student)
    assert files_of_others(known.tree) == before


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
    with run_lock.exclusive_run(known), pytest.raises(CourseError, match="another run"):
        erasure.erase(known, "zoe_mueller")
    assert named(known) == before


def test_all_without_erase_keeps_it(known):
    (entry,) = known.notebooks
    shown = remove("--student", "zoe_mueller", "--all", "--yes")
    assert "all of it is in" in shown and load_record(known, entry, "zoe_mueller") is None
    assert len([*(known.tree / "removed").iterdir()]) == 2


def test_a_list_without_its_column_is_told_and_nothing_is_erased(known):
    (known.tree / "extensions.csv").write_text("who,notebook,extension\nzoe_mueller,01,3 days\n")
    before = files_of_others(known.tree)
    with pytest.raises(CourseError, match=r"extensions\.csv has no column `student`: correct its first line"):
        erasure.erase(known, "zoe_mueller")
    assert files_of_others(known.tree) == before
