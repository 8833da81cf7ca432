"""Killed anywhere, at any moment, a grading run goes on and ends with what it would have ended with.

The short form kills six times over a class of ten. The long one kills 200 times over a class of 50, 20 of
them while whole notebooks are judged, 180 while each submission is one sum in a sandbox and its result is canned:
COURSE_LONG_TESTS=1 python -m pytest -s tests/grading/test_kill.py
"""

import collections
import contextlib
import dataclasses
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import nbformat
import psutil
import pytest
from helpers import canned, keep, outcome
from sqlalchemy import Connection
from sqlalchemy.orm import Session

from autograder import course, synthetic
from autograder.cells import CellRole, cell_id
from autograder.gradebook import course_tree
from autograder.grading import grade, run_lock
from autograder.grading.grading_record import GRADED, RECORD, UNGRADABLE, Record, load_record
from utils.grading.verdict import Outcome

LONG = bool(os.environ.get("COURSE_LONG_TESTS"))
FORK_SERVER = "autograder.sandbox.fork_server"
MOMENTS, CLASS = (20, 50) if LONG else (6, 10)
CANNED_MOMENTS = 180
KINDS = ("worker", "fork server", "coordinator")
LONGEST_WAIT = 0.4  # to the next kill, as a share of the time that an undisturbed run takes
GRADE = """\
import sys
from autograder import course
from autograder.grading import grade
known = course.Course.model_validate_json(sys.argv[1])
if sys.argv[2:]:
    sys.path.append(sys.argv[2])
    import canned
    grade.grade_one, grade.worker.prepare = canned.grade_one, lambda course, entries: None
grade.grade(known, list(known.notebooks))
"""


def a_class(known, size):
    """Submissions of every kind, some of them late."""
    (entry,) = known.notebooks
    maker = synthetic.Maker(known, entry)
    made = [one.file for one in synthetic.made_up_class(known, entry) if one.student != "Gil Endless"]
    made += [maker.file({case.exercise: case.source}) for case in maker.cases if not case.right]
    for number in range(size):
        place = course_tree.place(known, "submitted", entry, f"student{number:02d}")
        course_tree.write(place, made[number % len(made)])
        late = f"{entry.deadline.year + number % 2}-02-01 12:00:00.000000 UTC"
        course_tree.write(place.with_name("timestamp.txt"), late)


def start(known, results=None):
    call = [sys.executable, "-c", GRADE, known.model_dump_json(), *([str(course.ROOT / "tests")] if results else [])]
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(call, cwd=course.ROOT, env=os.environ | {"CANNED": str(results)}, **streams)


def targets(run, kind):
    """The processes of a run of which one is to be killed."""
    coordinator = psutil.Process(run.pid)
    if kind == "coordinator":
        return [coordinator]
    children = coordinator.children()
    if kind == "fork server":
        return [child for child in children if FORK_SERVER in child.cmdline()]
    return [child for child in children if child.cmdline() == coordinator.cmdline()]  # its forks


def kill(run, kind, chance):
    """Kill one process of the kind, if there is one; whether there was."""
    try:
        found = targets(run, kind)
        everything = psutil.Process(run.pid).children(recursive=True)
        if not found:
            return False
        os.kill(chance.choice(found).pid, signal.SIGKILL)
    except (psutil.Error, ProcessLookupError):
        return False
    if kind == "coordinator":
        run.wait()
        _, alive = psutil.wait_procs(everything, timeout=60)  # what is importing looks up only afterwards
        assert not alive, f"the killed run left {alive}"
    return True


def storm(known, moments, longest, chance, counts, results=None):
    """Grade the class, killing something now and then, and resume until it is done; how many kills are left."""
    while True:
        run = start(known, results)
        while run.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                run.wait(chance.uniform(0, longest) if moments else None)
            kind = KINDS[moments % len(KINDS)]
            if run.poll() is None and kill(run, kind, chance):
                counts[kind] += 1
                moments -= 1
        said = run.stderr.read()
        run.stderr.close()
        if run.returncode == 0:
            return moments
        assert run.returncode == -signal.SIGKILL, said


def test_killed_at_random_moments_it_ends_with_the_same(built, tmp_path):
    patient = built.limits.model_copy(update={"cell_seconds": 60.0, "memory_mb": 3072})  # nothing here is endless
    known = built.model_copy(update={"limits": patient, "tree": tmp_path / "prepared"})
    shutil.copytree(built.tree, known.tree)
    a_class(known, CLASS)
    survive(known, MOMENTS, tmp_path)


@pytest.mark.skipif(not LONG, reason="only with COURSE_LONG_TESTS=1: it takes half an hour")
def test_killed_at_many_more_moments_it_ends_with_the_same(built, tmp_path):
    light = built.grading.model_copy(update={"preload": ()})  # no torch: each start takes two seconds
    known = built.model_copy(update={"grading": light, "tree": tmp_path / "prepared"})
    shutil.copytree(built.tree, known.tree)
    results, chance = tmp_path / "results", random.Random(3)
    for number in range(CLASS):
        student = f"student{number:02d}"
        job, done, notebook = canned(known, student)
        book = nbformat.reads(notebook, as_version=4)
        for place, one in enumerate(done.verdicts):
            if chance.random() < 0.3:
                done.verdicts[place] = dataclasses.replace(one, outcome=Outcome.WRONG)
                name = cell_id(CellRole.CHECK, one.exercise)
                next(cell for cell in book.cells if cell.id == name).outputs[-1].data["text/plain"] = "0"
        if chance.random() < 0.1:
            done, notebook = Record(student, job.entry.name, UNGRADABLE, "the file is empty"), ""
        course_tree.write_json(results / f"{student}.json", [dataclasses.asdict(done), nbformat.writes(book)])
    survive(known, CANNED_MOMENTS, tmp_path, results)


def survive(prepared, moments, folder, results=None):
    """Grade a class undisturbed once, then under fire until `moments` kills are done; all must end alike."""
    quiet = prepared.model_copy(update={"tree": folder / "quiet"})
    shutil.copytree(prepared.tree, quiet.tree)
    began, run = time.monotonic(), start(quiet, results)
    _, said = run.communicate()
    longest = LONGEST_WAIT * (time.monotonic() - began)
    assert run.returncode == 0, said
    wanted = outcome(quiet)
    assert_graded(wanted, CLASS)

    chance, counts, left, classes = random.Random(7), collections.Counter(), moments, 0
    began = time.monotonic()
    while left:
        classes += 1
        killed = prepared.model_copy(update={"tree": folder / "killed"})
        shutil.rmtree(killed.tree, ignore_errors=True)
        shutil.copytree(prepared.tree, killed.tree)
        left = storm(killed, left, longest, chance, counts, results)
        found = outcome(killed)
        assert_graded(found, CLASS)
        for one, other in zip(found, wanted, strict=True):
            assert one == other
        print(f"{moments - left} kills {dict(counts)}, {classes} classes, {time.monotonic() - began:.0f} s", flush=True)


def assert_graded(found, size):
    """What is compared succeeded: no record is the grader's own failure, and there are points and marks to compare."""
    (marks, *_), verdicts, graded = found
    records = [RECORD.validate_json(text) for text in verdicts.values()]
    assert len(records) == size and marks and graded
    for one in records:
        assert not one.retry and "the grader itself failed" not in one.reason, one
        assert one.status == GRADED or one.reason
    assert sum(one.score for one in records) > 0 and sum(one.status == GRADED for one in records) >= size / 2


def test_what_stands_in_for_the_grader_takes_what_the_grader_takes():
    """A parameter that the canned one lacks would make every record a failure, the same before and after a kill."""
    import inspect

    import canned as stand_in

    real, ours = (inspect.signature(one.grade_one).parameters for one in (grade, stand_in))
    assert [(one.name, one.default) for one in real.values()] == [(one.name, one.default) for one in ours.values()]


def test_canned_results_end_graded(built, tmp_path, monkeypatch):
    """The path of the 180 long kills, once and without a kill: the records are graded, not the grader's failure."""
    light = built.grading.model_copy(update={"preload": ()})
    known = built.model_copy(update={"grading": light, "tree": tmp_path / "tree"})
    shutil.copytree(built.tree, known.tree)
    _, done, notebook = canned(known)
    course_tree.write_json(tmp_path / "results" / "ada.json", [dataclasses.asdict(done), notebook])
    run = start(known, tmp_path / "results")
    _, said = run.communicate(timeout=300)
    assert run.returncode == 0, said
    assert_graded(outcome(known), 1)


def killed_at(step, known, result):
    """Keep a result in a child that is killed before its write or statement number `step`; whether it was."""
    child = os.fork()
    if not child:
        done = 0

        def counted(write):
            def instead(*given, **named):
                nonlocal done
                done += 1
                if done == step:
                    os.kill(os.getpid(), signal.SIGKILL)
                return write(*given, **named)

            return instead

        try:
            Session.commit, Connection.execute = counted(Session.commit), counted(Connection.execute)
            os.replace, os.fsync = counted(os.replace), counted(os.fsync)
            keep(known, *result)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def test_killed_at_every_single_write_it_ends_with_the_same(built, tmp_path):
    quiet = built.model_copy(update={"tree": tmp_path / "quiet"})
    shutil.copytree(built.tree, quiet.tree)
    result = canned(quiet)
    shutil.copytree(quiet.tree, tmp_path / "prepared")
    keep(quiet, *result)
    wanted, step = outcome(quiet), 0
    assert_graded(wanted, 1)
    while True:
        step += 1
        known = built.model_copy(update={"tree": tmp_path / f"killed{step}"})
        shutil.copytree(tmp_path / "prepared", known.tree)
        if not killed_at(step, known, result):
            break
        assert not load_record(known, known.notebooks[0], "ada"), "its record was written before the end"
        with run_lock.exclusive_run(known):
            keep(known, *result)
        assert outcome(known) == wanted, step
        shutil.rmtree(known.tree)
    assert outcome(known) == wanted
    assert step > 20


def test_two_runs_do_not_meet_in_one_tree(fresh):
    with run_lock.exclusive_run(fresh), pytest.raises(course.CourseError, match="another run"):
        grade.grade(fresh, list(fresh.notebooks))
