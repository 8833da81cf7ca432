"""Published verdicts stay when the course is upgraded: what would change is shown first, and changes when asked."""

import dataclasses
import json
import os
from pathlib import Path

import pytest
from helpers import canned, keep
from typer.testing import CliRunner

from autograder import cli
from autograder.author import checks
from autograder.cells import CellRole, cell_id
from autograder.gradebook import course_tree, gradebook_writer, journal
from autograder.grading import frozen, grade, history
from autograder.grading.grading_record import Options, jobs, load_record
from autograder.reports import exports, feedback, progress
from utils.grading.verdict import Outcome

FIRST = "1.1"


@pytest.fixture
def graded(fresh):
    """Two submissions with full marks, as graded; ada's is published on a feedback page."""
    for student in ("ada", "bo"):
        keep(fresh, *canned(fresh, student))
    feedback.write_feedback(fresh, list(fresh.notebooks), students=["ada"])
    return fresh


@pytest.fixture
def upgraded(graded, monkeypatch):
    """The same where the check of the first exercise has become another one, which refuses the right answer."""
    entry, read = graded.notebooks[0], Path.read_text
    module, check = f"nb{entry.name}.py", checks.public_checks(entry)[FIRST]

    def attention(attention):
        assert not attention, "stricter than before."

    more = f'\n\n@check("{FIRST}", points=2)\ndef another(attention):\n    assert attention\n'
    monkeypatch.setattr(
        Path, "read_text", lambda path, *given, **named: read(path, *given, **named) + more * (path.name == module)
    )
    monkeypatch.setattr(check, "asserts", attention)
    return graded


def score(known, student):
    return load_record(known, known.notebooks[0], student).score


def book(known, student):
    (entry,) = known.notebooks
    with gradebook_writer.open_recorder(known) as recorder:
        return recorder.gradebook.find_grade(cell_id(CellRole.CHECK, FIRST), entry.name, entry.name, student).auto_score


def command(known, monkeypatch, *words):
    monkeypatch.setattr(cli.context, "load", lambda: known)
    ended = CliRunner().invoke(cli.app, words)
    assert ended.exception is None, ended.exception
    return " ".join(ended.output.split())


def test_an_upgrade_changes_no_published_verdict_before_it_is_asked(upgraded, monkeypatch):
    (entry,) = upgraded.notebooks
    whole = score(upgraded, "ada")
    page = course_tree.place(upgraded, "feedback", entry, "ada").with_suffix(".html").read_bytes()
    assert progress.status(upgraded, entry) == {
        "graded": {"ada": progress.PUBLISHED},
        "waiting": {"bo": "a check, a limit or the notebook changed"},
        "ungradable": {},
    }
    shown = command(upgraded, monkeypatch, "grade", "01")
    assert (score(upgraded, "ada"), score(upgraded, "bo")) == (whole, whole - 2)  # bo has read nothing yet
    assert (book(upgraded, "ada"), book(upgraded, "bo")) == (2, 0)
    assert f"ada {FIRST} 2 0 Exercise {FIRST}: Stricter than before." in shown
    assert "Nothing is recorded: 1 submissions would have other verdicts, and 1 another score" in shown
    assert page == course_tree.place(upgraded, "feedback", entry, "ada").with_suffix(".html").read_bytes()
    begun = []
    monkeypatch.setattr(grade.GradingRun, "begin", lambda run, some: begun.extend(some))
    again = command(upgraded, monkeypatch, "grade", "01")
    assert f"ada {FIRST} 2 0" in again and not begun, "judged twice"
    assert (
        "No verdict is new" not in shown and "No verdict is new: all of these submissions were graded before." in again
    )
    monkeypatch.undo()


def test_the_new_verdicts_come_when_asked_and_are_logged(upgraded, monkeypatch):
    (entry,) = upgraded.notebooks
    whole = score(upgraded, "ada")
    shown = command(upgraded, monkeypatch, "grade", "01", "--student", "ada", "--update", "--reason", "fixed 1.1")
    assert (score(upgraded, "ada"), book(upgraded, "ada")) == (whole - 2, 0)
    assert "Nothing is recorded" not in shown
    (event,) = [one for one in journal.events(upgraded) if one["what"] == "grade --update"]
    about = {"student": "ada", "notebook": entry.name, "exercise": FIRST, "before": 2, "after": 0}
    assert (event["reason"], event["account"], event["changes"]) == ("fixed 1.1", journal.account(), [about])
    lines = history.events(upgraded, entry, "ada")
    assert [one["what"] for one in lines] == ["verdict", "published", "verdict"]
    assert [one["verdicts"][FIRST][0] for one in lines if one["what"] == "verdict"] == [2, 0]


def test_regrade_is_asking_and_is_logged(upgraded):
    (entry,) = upgraded.notebooks
    pairs = grade.regrade(upgraded, [entry], [FIRST], ["ada"], Options(reason="asked by the board"))
    assert [after.score - before.score for before, after in pairs] == [-2]
    (event,) = [one for one in journal.events(upgraded) if one["what"] == "regrade"]
    assert event["reason"] == "asked by the board" and event["changes"][0]["after"] == 0


def test_a_new_hand_in_is_judged_by_the_new_check(upgraded):
    (entry,) = upgraded.notebooks
    place = course_tree.place(upgraded, "submitted", entry, "ada")
    course_tree.write(place, place.read_text() + "\n")
    grade.grade(upgraded, [entry], ["ada"])
    assert load_record(upgraded, entry, "ada").verdicts[0].outcome is Outcome.WRONG
    feedback.write_feedback(upgraded, [entry], students=["ada"])
    assert history.is_published(upgraded, entry, load_record(upgraded, entry, "ada"))


def test_where_nothing_would_change_nothing_is_asked_again(graded, monkeypatch):
    (entry,) = graded.notebooks
    (job,) = jobs(graded, entry, ["ada"])
    stale = dataclasses.replace(job, graders=dict.fromkeys(job.graders, "another version"))
    monkeypatch.setattr(grade, "jobs", lambda *given: [stale])
    frozen.keep_preview(graded, stale, job.known)
    told = []
    grade.grade(graded, [entry], ["ada"], on_preview=told.append)
    assert told == [[]] and stale.state() == "" and not frozen.is_frozen(graded, stale, trusted=False)


def test_a_new_name_of_a_student_is_no_upgrade(graded):
    """Numbers of a student's own follow from the roster: a person who corrects it wants that exercise judged."""
    (entry,) = graded.notebooks
    (job,) = jobs(graded, entry, ["ada"])
    known = dataclasses.replace(job.known, named="what ada was called before")
    stale = dataclasses.replace(job, graders=dict.fromkeys(job.graders, "other"), known=known, names=("ada", "adal"))
    assert frozen.is_frozen(graded, stale, trusted=False)
    assert frozen.renamed(graded, stale, ["1.3"]).only == ("1.3",)
    known.named = frozen.names_digest(("adal", "ada"))
    assert frozen.renamed(graded, stale, ["1.3"]) is None


def test_what_an_older_version_published_is_known_by_its_page(graded):
    (entry,) = graded.notebooks
    record = load_record(graded, entry, "ada")
    history.path_of(graded, entry, "ada").unlink()
    assert history.is_published(graded, entry, record)
    page = course_tree.place(graded, "feedback", entry, "ada").with_suffix(".html")
    os.utime(page, (1, 1))  # it is about an earlier verdict
    assert not history.is_published(graded, entry, record)


def test_a_file_for_a_platform_publishes_and_a_table_for_oneself_does_not(graded, tmp_path):
    (entry,) = graded.notebooks
    record = load_record(graded, entry, "bo")
    exports.write_scores(graded, [entry], tmp_path / "grades.csv")
    assert not history.is_published(graded, entry, record)
    exports.write_scores(graded, [entry], tmp_path / "canvas.csv", "canvas")
    assert history.is_published(graded, entry, record)
    assert history.events(graded, entry, "bo")[-1]["how"] == "export --format canvas"


def test_a_history_is_only_appended_to_and_survives_half_a_line(graded):
    (entry,) = graded.notebooks
    path = history.path_of(graded, entry, "ada")
    before = path.read_bytes()
    feedback.write_feedback(graded, [entry], students=["ada"])
    grade.grade(graded, [entry], ["ada"], Options())
    assert path.read_bytes() == before, "nothing is new"
    path.write_bytes(before + b'{"what": "verd')
    record = load_record(graded, entry, "ada")
    record.verdicts[0] = dataclasses.replace(record.verdicts[0], outcome=Outcome.WRONG, message="no.")
    history.note(graded, entry, record)
    assert path.read_bytes().startswith(before)
    assert [one["what"] for one in history.events(graded, entry, "ada")] == ["verdict", "published", "verdict"]
    assert json.loads(path.read_text().splitlines()[-1])["verdicts"][FIRST] == [0, 2, f"Exercise {FIRST}: no."]
