"""Every mark of a person is logged with its time, and with who and why where a program says so."""

import sqlite3

import pytest
from helpers import canned, keep
from nbgrader.api import Gradebook
from sqlalchemy import event
from sqlalchemy.orm import Session
from typer.testing import CliRunner

from autograder import cli, course
from autograder.gradebook import course_tree, gradebook_writer, journal, mark_log
from autograder.gradebook.by_hand import HandMark
from autograder.grading import copied_runs, removal

CELL = "written_1_W1"


@pytest.fixture
def graded(fresh):
    keep(fresh, *canned(fresh, "ada"))
    return fresh


def enter(known, score, comment=None):
    """Mark an answer as formgrader does: through nbgrader's objects, in another connection."""
    (entry,) = known.notebooks
    with Gradebook(course_tree.database(known), known.course_id) as gradebook:
        mark = gradebook.find_grade(CELL, entry.name, entry.name, "ada")
        mark.manual_score, mark.needs_manual_grade = score, False
        if comment is not None:
            gradebook.find_comment(CELL, entry.name, entry.name, "ada").manual_comment = comment
        gradebook.db.commit()


def logged(known):
    return [
        (one["student"], one["cell"], one["what"], one["before"], one["after"], one["account"], one["reason"])
        for one in mark_log.changes(course_tree.database(known))
        if one["what"] != mark_log.BEGIN
    ]


def test_what_formgrader_enters_is_logged_by_the_database(graded):
    enter(graded, 1.5, "half of it")
    enter(graded, 2)
    assert sorted(logged(graded), key=str) == [
        ("ada", CELL, "comment", None, "half of it", None, None),
        ("ada", CELL, "score", "1.5", "2.0", None, None),
        ("ada", CELL, "score", None, "1.5", None, None),
    ]
    assert {one["notebook"] for one in mark_log.changes(course_tree.database(graded)) if one["student"]} == {
        graded.notebooks[0].name
    }
    assert all(
        one["happened"].endswith("Z") and len(one["happened"]) == 20
        for one in mark_log.changes(course_tree.database(graded))
    )


def test_a_script_that_writes_into_the_file_is_logged_too(graded):
    with sqlite3.connect(course_tree.gradebook(graded)) as database:
        database.execute("update grade set extra_credit = 3 where manual_score is null and auto_score is null")
    assert [one[2:5] for one in logged(graded)] and {one[2] for one in logged(graded)} == {"extra credit"}


def test_grading_again_logs_no_mark(graded):
    enter(graded, 1)
    keep(graded, *canned(graded, "ada"))
    assert len(logged(graded)) == 1


def test_our_own_commands_say_who_and_why(graded):
    (entry,) = graded.notebooks
    with gradebook_writer.open_recorder(graded) as recorder:
        for score in (1, 2):
            before = {"ada": HandMark(score - 1 or None, score == 1, None)}
            recorder.mark(entry, CELL, before, {"ada": HandMark(score, False, None)}, "group 1.W1 --apply 3")
    enter(graded, 0)
    who = (journal.account(), "group 1.W1 --apply 3")
    assert [one[3:] for one in logged(graded)] == [
        (None, "1.0", *who),
        ("1.0", "2.0", *who),
        ("2.0", "0.0", None, None),  # what signed the marks before does not sign this one
    ]


def test_the_server_of_formgrader_signs_with_its_account(graded):
    config = (graded.tree / "jupyter_server_config.py").read_text()
    assert "    sign_sessions()" in config
    listeners = mark_log.signing_listeners("entered in formgrader")
    for name, listener in listeners.items():
        event.listen(Session, name, listener)
    try:
        enter(graded, 1)
    finally:
        for name, listener in listeners.items():
            event.remove(Session, name, listener)
    enter(graded, 2)
    found = [one[3:] for one in logged(graded)]
    assert found == [(None, "1.0", journal.account(), "entered in formgrader"), ("1.0", "2.0", None, None)]


def test_a_mark_that_is_removed_stays_in_the_log(graded):
    (entry,) = graded.notebooks
    enter(graded, 1.5)
    removal.remove(graded, entry, "ada", "handed in by mistake")
    assert logged(graded)[-1][:5] == ("ada", CELL, "score", "1.5", None)
    assert logged(graded)[-1][5:] == (journal.account(), "remove ada 01: handed in by mistake")
    (noted,) = [one for one in journal.events(graded) if one["what"] == "remove"]
    assert (noted["student"], noted["reason"]) == ("ada", "handed in by mistake")


def test_what_changed_without_the_log_is_found_and_said(graded):
    enter(graded, 1)
    with sqlite3.connect(course_tree.gradebook(graded)) as database:  # as nbgrader, when it builds a table again
        for (name,) in database.execute("select name from sqlite_master where type = 'trigger'").fetchall():
            database.execute(f"drop trigger {name}")
    enter(graded, 2)
    assert [one[3:5] for one in logged(graded)] == [(None, "1.0")]
    with gradebook_writer.open_recorder(graded):
        pass
    assert [one[3:5] for one in logged(graded)] == [(None, "1.0"), ("1.0", "2.0")]
    assert logged(graded)[-1][6] == mark_log.FOUND
    assert [one["what"] for one in mark_log.changes(course_tree.database(graded))].count(mark_log.BEGIN) == 2
    enter(graded, 0)
    assert logged(graded)[-1][3:5] == ("2.0", "0.0")


def test_a_gradebook_of_an_older_version_is_logged_from_its_next_command_on(graded):
    enter(graded, 2)
    with sqlite3.connect(course_tree.gradebook(graded)) as database:
        for (name,) in database.execute("select name from sqlite_master where type = 'trigger'").fetchall():
            database.execute(f"drop trigger {name}")
        database.executescript("drop table mark_change; drop table mark_writer;")
    enter(graded, 1)
    course_tree.build_tree(graded)
    assert [one[3:] for one in logged(graded)] == [(None, "1.0", None, mark_log.FOUND)]


def test_a_decision_about_runs_is_logged(fresh, monkeypatch):
    workshop = fresh.model_copy(update={"notebooks": course.load().notebooks})
    entry = workshop.notebook("05")
    course_tree.write(course_tree.results_path(workshop, entry, "ada"), "{}")
    monkeypatch.setattr(cli.context, "load", lambda: workshop)
    for words in (
        ("confirm", "05", "ada", "--reason", "she said so"),
        ("undo", "05", "ada"),
        ("acquit", "05", "ada"),
        ("05", "--confirm", "ada"),  # as it was written once
        ("--undo", "ada", "05"),
    ):
        ended = CliRunner().invoke(cli.app, ["audit", *words])
        assert ended.exception is None, ended.exception
        assert ("Today it is `autograder" in ended.stderr) == (words[1] != "05")
    assert "audit undo 05 ada`" in ended.stderr
    found = [(one["what"], one["student"], one["reason"]) for one in journal.events(workshop)]
    assert found == [
        ("audit: the runs do not count", "ada", "she said so"),
        ("audit: the runs are undecided again", "ada", ""),
        ("audit: the runs count", "ada", ""),
        ("audit: the runs do not count", "ada", ""),
        ("audit: the runs are undecided again", "ada", ""),
    ]
    assert copied_runs.decisions(workshop, entry) == {}


def test_the_account_behind_sudo_is_named(monkeypatch):
    monkeypatch.setattr(journal.getpass, "getuser", lambda: "root")
    monkeypatch.setenv("SUDO_USER", "ada")
    assert journal.account() == "root (sudo by ada)"
