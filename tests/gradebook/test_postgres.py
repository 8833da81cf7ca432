"""The gradebook on a real PostgreSQL server, started for these tests alone on a private port."""

import os
import pwd
import re
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
import typer
from helpers import canned, keep, outcome

from autograder import cli, doctor, synthetic
from autograder.cells import CellRole, role_of
from autograder.gradebook import course_tree, gradebook_writer, journal, mark_log
from autograder.gradebook.by_hand import HandMark
from autograder.grading import errors, grade, removal
from autograder.grading.errors import GradingStopped
from autograder.grading.grading_record import GRADED, Options, load_record
from autograder.reports import exports, feedback, report
from autograder.similarity import groups

PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")) or [
    Path(path) for path in (shutil.which("initdb"),) if path
]
pytestmark = pytest.mark.skipif(
    not PROGRAMS, reason="no PostgreSQL server is installed (Debian: apt install postgresql)"
)


class Server:
    """A server in a folder of its own; as root it runs as the user `postgres`, since it refuses root."""

    def __init__(self, folder):
        self.folder, self.bin = folder / "data", PROGRAMS[-1].parent
        self.user = "postgres" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
        if os.getuid() == 0:
            shutil.chown(folder, self.user)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        secret = folder / "secret"
        secret.write_text("hush")
        secret.chmod(0o644)
        self("initdb", "-D", self.folder, "-U", "teacher", "-A", "scram-sha-256", "--pwfile", secret, "--no-sync")

    @property
    def url(self):
        return f"postgresql://teacher:hush@127.0.0.1:{self.port}/postgres"

    def __call__(self, program, *words):
        as_user = {"user": self.user} if os.getuid() == 0 else {}
        call = [self.bin / program, *words]
        subprocess.run(call, check=True, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT, **as_user)

    def start(self):
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
        self("pg_ctl", "-D", self.folder, "-o", options, "-w", "start")

    def stop(self):
        self("pg_ctl", "-D", self.folder, "-m", "immediate", "-w", "stop")

    def sql(self, *statements):
        import psycopg2

        with psycopg2.connect(self.url) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)


@pytest.fixture(scope="module")
def server():
    # Not below pytest's own folder, which nobody but its owner may enter.
    folder = Path(subprocess.run(["mktemp", "-d"], check=True, capture_output=True, text=True).stdout.strip())
    made = Server(folder)
    made.start()
    yield made
    made.stop()
    shutil.rmtree(folder)


@pytest.fixture
def elsewhere(server, fresh):
    """The course with its gradebook on the server, which is empty; the tree was built for SQLite."""
    server.sql("drop schema public cascade", "create schema public")
    grading = fresh.grading.model_copy(update={"database": server.url})
    return fresh.model_copy(update={"grading": grading})


def test_the_whole_way_on_a_server(elsewhere, tmp_path):
    """Build, grade, grade again, a manual score, feedback and export; nothing of it in SQLite."""
    (elsewhere.tree / "gradebook.db").unlink()
    course_tree.build_tree(elsewhere)
    (entry,) = elsewhere.notebooks
    maker = synthetic.Maker(elsewhere, entry)
    for student, file in {"ada": maker.file(), "bo": maker.file(solved=()), "hal": maker.file()[:5000]}.items():
        place = course_tree.place(elsewhere, "submitted", entry, student)
        course_tree.write(place, file)
        course_tree.write(place.with_name("timestamp.txt"), "2028-02-01 12:00:00.000000 UTC")
    records = grade.grade(elsewhere, [entry])
    assert [one.score for one in records] == [records[0].points, 0, 0]
    once = outcome(elsewhere)
    assert len(once[0][2]) == 3, "the server does not hold the students"
    assert grade.grade(elsewhere, [entry]) == records and outcome(elsewhere) == once
    with gradebook_writer.open_recorder(elsewhere) as recorder:
        marks = recorder.gradebook.find_submission_notebook(entry.name, entry.name, "ada").grades
        mine = next(mark for mark in marks if role_of(mark.name) is CellRole.WRITTEN)
        mine.manual_score, mine.needs_manual_grade = 1.5, False
        recorder.gradebook.db.commit()
    grade.grade(elsewhere, [entry], options=Options(again=True))
    assert report.write_csv(elsewhere, [entry], tmp_path / "grades.csv") > 20
    exported = (tmp_path / "grades.csv").read_text()
    assert re.search(r'^"ada",.*,"1\.5","(?:None)?","1\.5",', exported, re.M), exported
    assert exports.write_scores(elsewhere, [entry], tmp_path / "canvas.csv", "canvas").rows == 3
    assert doctor.gradebook(elsewhere).state is doctor.State.WORKS
    assert len(feedback.write_feedback(elsewhere, [entry])) == 3
    assert not (elsewhere.tree / "gradebook.db").exists()


def test_both_databases_hold_the_same(elsewhere):
    result = canned(elsewhere)
    on_sqlite = elsewhere.model_copy(update={"grading": elsewhere.grading.model_copy(update={"database": ""})})
    keep(on_sqlite, *result)
    assert grade.grade(elsewhere, list(elsewhere.notebooks))[0].score > 0  # entered and filled from the record
    assert outcome(elsewhere) == outcome(on_sqlite)
    keep(elsewhere, *result)
    assert outcome(elsewhere) == outcome(on_sqlite)


def test_a_server_logs_marks_whoever_writes_them(server, elsewhere):
    course_tree.enter(elsewhere, elsewhere.notebooks[0])
    keep(elsewhere, *canned(elsewhere))
    (entry,) = elsewhere.notebooks
    cell = "written_1_W1"
    with gradebook_writer.open_recorder(elsewhere) as recorder:
        recorder.mark(entry, cell, {"ada": HandMark()}, {"ada": HandMark(1, False, "so")}, "group 1.W1 --apply 1")
    server.sql("update grade set manual_score = 2 where manual_score = 1")
    removal.remove(elsewhere, entry, "ada", "twice")
    found = [
        (one["what"], one["before"], one["after"], one["account"], one["reason"])
        for one in mark_log.changes(course_tree.database(elsewhere))
    ]
    who = journal.account()
    assert found[0][0] == mark_log.BEGIN
    assert sorted(found[1:3]) == [
        ("comment", None, "so", who, "group 1.W1 --apply 1"),
        ("score", None, "1", who, "group 1.W1 --apply 1"),
    ]
    assert found[3] == ("score", "1", "2", "database user teacher", None)
    removed = (who, "remove ada 01: twice")
    assert sorted(found[4:]) == [("comment", "so", None, *removed), ("score", "2", None, *removed)]
    assert {one["student"] for one in mark_log.changes(course_tree.database(elsewhere))} == {None, "ada"}


def test_a_server_that_starts_anew_is_waited_for(server, elsewhere, monkeypatch):
    result = canned(elsewhere)
    course_tree.enter(elsewhere, elsewhere.notebooks[0])
    waited = []
    monkeypatch.setattr(gradebook_writer.time, "sleep", lambda seconds: waited.append(seconds) or server.start())
    with gradebook_writer.open_recorder(elsewhere) as recorder:
        recorder.scores(elsewhere.notebooks[0])
        server.stop()  # in the middle, with our connection open
        grade.keep(elsewhere, recorder, *result)
    assert waited == [gradebook_writer.WAITS[0]]
    assert load_record(elsewhere, elsewhere.notebooks[0], "ada").status == GRADED


def test_a_server_that_stays_away_is_told_without_the_password_and_the_run_goes_on(server, elsewhere, monkeypatch):
    result = canned(elsewhere)
    course_tree.enter(elsewhere, elsewhere.notebooks[0])
    monkeypatch.setattr(gradebook_writer, "WAITS", (0.1,))
    with (
        gradebook_writer.open_recorder(elsewhere) as recorder,
        pytest.raises(GradingStopped) as told,
        errors.explain_failures(elsewhere),
    ):
        server.stop()
        grade.keep(elsewhere, recorder, *result)
    assert "teacher:***@127.0.0.1" in str(told.value) and "hush" not in str(told.value)
    assert "\n" not in str(told.value) and "goes on from there" in str(told.value)
    with pytest.raises(GradingStopped, match="gradebook"):
        grade.grade(elsewhere, list(elsewhere.notebooks))
    server.start()
    keep(elsewhere, *result)
    assert outcome(elsewhere)[1]


def test_the_command_line_names_the_database(monkeypatch):
    monkeypatch.setattr(cli.context, "chosen", {})
    called = typer.Context(typer.main.get_command(cli.app))
    cli.options(called, db="postgresql://u:p@h/d")
    course = cli.context.load()
    assert course_tree.database(course) == "postgresql+psycopg2://u:p@h/d" and "p@" not in course_tree.shown_database(
        course
    )


def test_marks_by_hand_on_a_server(elsewhere):
    """A mark is written only over the one that was looked at, and can be taken back."""
    course_tree.build_tree(elsewhere)
    keep(elsewhere, *canned(elsewhere))
    (one,), points, _ = groups.distinct(elsewhere, "1.W1")
    assert points == 2 and one.answers[0].mark == HandMark()
    groups.mark(elsewhere, "1.W1", one.answers, 1.5, "Good.", "me")
    with pytest.raises(gradebook_writer.ChangedMeanwhile):
        groups.mark(elsewhere, "1.W1", one.answers, 0.5, "", "somebody else")
    (one,), *_ = groups.distinct(elsewhere, "1.W1")
    assert one.answers[0].mark == HandMark(1.5, False, "Good.")
    with gradebook_writer.open_recorder(elsewhere) as recorder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(gradebook_writer.by_hand, "differing", lambda now, wanted: [])  # it changes after we looked
        with pytest.raises(gradebook_writer.ChangedMeanwhile):
            recorder.mark(elsewhere.notebooks[0], "written_1_W1", {"ada": HandMark()}, {"ada": HandMark(0.0, False)})
    groups.undo(elsewhere, "1.W1", by="me")
    (one,), *_ = groups.distinct(elsewhere, "1.W1")
    assert one.answers[0].mark == HandMark()
