"""What a run survives besides being killed: a full disk, a gradebook that is locked, lost or another one."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

import pytest
from helpers import canned, keep, outcome
from waiting import eventually

from autograder import course, synthetic
from autograder.cells import CellRole, role_of
from autograder.gradebook import course_tree, gradebook_writer
from autograder.grading import errors, grade
from autograder.grading.errors import GradingStopped
from autograder.grading.grading_record import GRADED, UNGRADABLE, Record, jobs, load_record
from autograder.reports import progress, report
from autograder.sandbox.sandbox import SandboxError

GRADE = """\
import errno, os, sys
from pathlib import Path
from autograder import course
from autograder.gradebook import course_tree
from autograder.grading import grade
write, left = course_tree.write, int(sys.argv[2])
def full(path, text):
    global left
    left -= 1
    if left < 0:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    write(path, text)
course_tree.write = full
known = course.Course.model_validate_json(sys.argv[1])
try:
    grade.grade(known, list(known.notebooks))
except course.CourseError as stopped:
    sys.exit(f"autograder: {stopped}")
"""


def hand_in(known, *students):
    (entry,) = known.notebooks
    file = synthetic.Maker(known, entry).file(solved=())
    for student in students:
        course_tree.write(course_tree.place(known, "submitted", entry, student), file)


def recorded(known):
    return len(list(known.tree.glob("verdicts/*/*.json")))


@pytest.mark.parametrize("seconds", [0, 0.5])
def test_an_interrupt_ends_in_a_sentence_also_while_all_is_still_imported(fresh, seconds):
    hand_in(fresh, "ada")
    call = [sys.executable, "-m", "autograder.cli", "--tree", str(fresh.tree), "grade"]
    with tempfile.TemporaryDirectory(prefix="i") as place:  # a short name: it will hold a socket
        heard = partial(signal.signal, signal.SIGINT, signal.default_int_handler)
        about = {"cwd": course.ROOT, "env": os.environ | {"TMPDIR": place}, "text": True, "preexec_fn": heard}
        process = subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **about)
        eventually(lambda: process.poll() is not None or [*Path(place).glob("fork-server-*/course/autograder")])
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1]
        # A shell says 130 of both. Python ends by the signal if it came while a string was executed, as dataclasses do.
        assert process.returncode in (130, -signal.SIGINT) and "interrupted; what was finished is kept" in said, said
        assert "Traceback" not in said and not list(Path(place).glob("fork-server-*")), said


def test_a_full_disk_stops_with_one_line_and_the_run_goes_on_from_there(fresh):
    hand_in(fresh, "ada", "bo", "cy")
    call = [sys.executable, "-c", GRADE, fresh.model_dump_json(), "3"]  # room for one submission and a half
    ended = subprocess.run(call, cwd=course.ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 1 and "Traceback" not in ended.stderr, ended.stderr
    assert "No space left on device" in ended.stderr and "same command again" in ended.stderr
    assert recorded(fresh) == 1
    once = {path: path.read_bytes() for path in fresh.tree.glob("verdicts/*/*.json")}
    assert len(grade.grade(fresh, list(fresh.notebooks))) == 3 == recorded(fresh)
    assert all(path.read_bytes() == text for path, text in once.items()), "what was recorded was graded again"


@pytest.mark.skipif(os.getuid() != 0, reason="mounting a small file system needs root")
def test_a_really_full_file_system(fresh, tmp_path):
    """Two megabytes for everything that a run writes: gradebook, graded notebooks, records."""
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", small], check=False).returncode:
        pytest.skip("no file system may be mounted here")
    try:
        known = fresh.model_copy(update={"tree": small / "tree"})
        subprocess.run(["cp", "-r", fresh.tree, known.tree], check=True)
        hand_in(known, "ada", "bo")
        filler = small / "filler"
        space = os.statvfs(small)
        filler.write_bytes(bytes(max(space.f_bavail * space.f_frsize - 60_000, 0)))
        with pytest.raises(GradingStopped, match=r"No space|full"):
            grade.grade(known, list(known.notebooks))
        assert recorded(known) < 2
        filler.unlink()
        assert len(grade.grade(known, list(known.notebooks))) == 2 == recorded(known)
        assert all(job.state() == "" for job in jobs(known, known.notebooks[0]))
    finally:
        subprocess.run(["umount", "-l", small], check=True)


@pytest.fixture
def result(fresh):
    return canned(fresh)


def test_a_lock_is_waited_for(fresh, result):
    """Formgrader holds SQLite's lock. sqlite gives up after five seconds; we do not."""
    with gradebook_writer.open_recorder(fresh) as recorder:
        other = sqlite3.connect(fresh.tree / "gradebook.db", check_same_thread=False, isolation_level=None)
        other.execute("begin exclusive")
        release = threading.Timer(6, other.rollback)
        release.start()
        grade.keep(fresh, recorder, *result)
        release.join()
        other.close()
    assert load_record(fresh, fresh.notebooks[0], "ada").status == GRADED


def test_a_lock_that_stays_is_told_in_one_line(fresh, result, monkeypatch):
    monkeypatch.setattr(gradebook_writer, "WAITS", ())
    other = sqlite3.connect(fresh.tree / "gradebook.db", isolation_level=None)
    with (
        gradebook_writer.open_recorder(fresh) as recorder,
        pytest.raises(GradingStopped) as told,
        errors.explain_failures(fresh),
    ):
        other.execute("begin exclusive")
        grade.keep(fresh, recorder, *result)
    other.close()
    assert "database is locked" in str(told.value) and "\n" not in str(told.value)
    assert not load_record(fresh, fresh.notebooks[0], "ada")
    keep(fresh, *result)


def test_a_gradebook_that_is_removed_meanwhile_is_noticed_and_made_anew(fresh, result, tmp_path):
    """Writing on into a deleted file would lose every score in silence."""
    shutil.copytree(fresh.tree, tmp_path / "quiet")
    quiet = fresh.model_copy(update={"tree": tmp_path / "quiet"})
    keep(quiet, *result)
    with (
        gradebook_writer.open_recorder(fresh) as recorder,
        pytest.raises(GradingStopped, match="gradebook"),
        errors.explain_failures(fresh),
    ):
        recorder.scores(fresh.notebooks[0])  # it is open
        (fresh.tree / "gradebook.db").unlink()
        grade.keep(fresh, recorder, *result)
    assert not load_record(fresh, fresh.notebooks[0], "ada")
    course_tree.build_tree(fresh)
    keep(fresh, *result)
    assert outcome(fresh) == outcome(quiet)


def test_a_lost_gradebook_is_written_again_from_the_records(fresh, result, monkeypatch):
    keep(fresh, *result)
    before = outcome(fresh)
    (fresh.tree / "gradebook.db").unlink()
    monkeypatch.setattr(grade.GradingRun, "job_answers", None)  # nothing is run for it
    grade.grade(fresh, list(fresh.notebooks))
    assert outcome(fresh) == before


def test_a_failure_of_the_grader_costs_no_grade_and_is_tried_again(fresh, result, monkeypatch):
    keep(fresh, *result)
    before = outcome(fresh)
    job = jobs(fresh, fresh.notebooks[0])[0]
    failed = Record("ada", job.entry.name, UNGRADABLE, "the grader itself failed", retry=True)
    with gradebook_writer.open_recorder(fresh) as recorder:
        grade.keep(fresh, recorder, job, failed, "")
    assert outcome(fresh)[0] == before[0]
    assert "tried again" in jobs(fresh, fresh.notebooks[0])[0].state()


def test_a_manual_score_survives_and_is_asked_for_again_only_if_the_hand_in_changed(fresh, result):
    job, _, notebook = result
    keep(fresh, *result)
    with gradebook_writer.open_recorder(fresh) as recorder:
        marks = recorder.gradebook.find_submission_notebook(job.entry.name, job.entry.name, "ada").grades
        mine = next(mark for mark in marks if role_of(mark.name) is CellRole.WRITTEN)
        name, mine.manual_score, mine.needs_manual_grade = mine.name, 1.5, False
        recorder.gradebook.db.commit()
        for anew in (False, True):
            recorder.record(job.entry, "ada", notebook, anew=anew)
            mark = recorder.gradebook.find_grade(name, job.entry.name, job.entry.name, "ada")
            assert (mark.manual_score, mark.needs_manual_grade) == (1.5, anew)


def test_what_the_grader_fails_on_is_recorded_once_without_the_words_of_the_hand_in(fresh, result, capsys):
    job, _, _ = result
    entry = fresh.notebooks[0]
    try:
        raise KeyError("<script>hostile()</script>")
    except KeyError as bug:
        failed = grade.failed_record(bug, entry, "ada")
    assert "KeyError" in failed.reason and "hostile" not in failed.reason and not failed.retry
    assert "hostile" in capsys.readouterr().err  # for the instructor's terminal
    with gradebook_writer.open_recorder(fresh) as recorder:
        grade.keep(fresh, recorder, job, failed, "")
        marks = recorder.gradebook.find_submission_notebook(entry.name, entry.name, "ada").grades
        assert marks and all(mark.auto_score in (0, None) for mark in marks)
    assert [one.state() for one in jobs(fresh, entry)] == [""], "not at every run"
    assert grade.failed_record(SandboxError("no namespaces"), entry, "ada").retry


def test_a_hand_in_that_cannot_be_read_stops_nobody(fresh, result, monkeypatch):
    keep(fresh, *result)
    entry = fresh.notebooks[0]
    course_tree.place(fresh, "submitted", entry, "bo").mkdir(parents=True)
    stray = course_tree.results_path(fresh, entry, "ada")
    stray.write_text('{"x/seed_1.json": "{"}')  # beside a notebook without experiments
    monkeypatch.setattr(grade, "require_sandboxes", lambda: None)
    monkeypatch.setattr(grade.GradingRun, "job_answers", None)  # nothing is run for it
    for _ in range(2):
        records = {one.student: one for one in grade.grade(fresh, [entry])}
        assert records["ada"].status == GRADED and records["bo"].status == UNGRADABLE
        assert "course tree" in records["bo"].reason and not records["bo"].retry
    states = progress.status(fresh, entry)
    assert list(states["graded"]) == ["ada"] and list(states["ungradable"]) == ["bo"]
    assert "bo" in report.write_report(fresh, [entry], names=True).read_text()
