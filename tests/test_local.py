"""Workers on this machine: what dies or fails costs what it was about, and nothing else."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from autograder import course
from autograder.grading.local import RETRIES, WorkerDied, Workers
from autograder.grading.records import Record

SLEEPING = """\
import time
from autograder.grading.local import Workers
with Workers(2, time.sleep) as workers:
    workers.add([600, 600])
    list(workers.in_turn())
"""


class Unsendable(Exception):
    def __init__(self, one, other):
        super().__init__(one)
        self.other = lambda: other


class Unreadable(Exception):
    def __init__(self, one, other):
        super().__init__(one)


def work(how, folder):
    with open(f"{folder}/{how}", "a") as log:
        log.write(".")
    if how == "dies" or (how == "dies once" and os.path.getsize(f"{folder}/{how}") == 1):
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "takes for ever":
        time.sleep(600)
    if how == "fails":
        Record(*range(100))
    if how == "fails in another way":
        raise Unsendable(1, 2)
    if how == "sends what cannot be read":
        raise Unreadable(1, 2)
    return how, os.getpid()


@pytest.mark.parametrize("number", [1, 2])
def test_every_job_is_answered_whatever_the_others_do(number, tmp_path):
    jobs = ["fine", "dies", "dies once", "fails", "fails in another way", "sends what cannot be read", "fine too"]
    others = psutil.Process().children()  # of tests before this one
    with Workers(number, work, lambda job: (job, str(tmp_path))) as workers:
        workers.add(jobs[:2])
        workers.add(jobs[2:])
        answers = dict(workers.in_turn())
        forked = [one for one in psutil.Process().children() if one not in others]
    assert [*answers] != [] and {*answers} == {*jobs}
    for job in ("fine", "dies once", "fine too"):
        assert answers[job][0] == job and answers[job][1] != os.getpid()
    assert isinstance(answers["dies"], WorkerDied) and isinstance(answers["fails"], TypeError)
    assert "Unsendable" in str(answers["fails in another way"])
    assert isinstance(answers["sends what cannot be read"], WorkerDied)
    assert (tmp_path / "dies").stat().st_size == 1 + RETRIES and (tmp_path / "dies once").stat().st_size == 2
    assert len(forked) == number and not any(one.is_running() for one in forked)


def test_a_job_that_takes_for_ever_is_ended_and_not_tried_again(tmp_path):
    with Workers(2, work, lambda job: (job, str(tmp_path)), seconds=1.0) as workers:
        workers.add(["takes for ever", "fine"])
        began = time.monotonic()
        answers = dict(workers.in_turn())
        assert time.monotonic() - began < 20
        workers.add(["fine too"])
        answers |= dict(workers.in_turn())
    assert isinstance(answers["takes for ever"], WorkerDied) and (tmp_path / "takes for ever").stat().st_size == 1
    assert answers["fine"][0] == "fine" and answers["fine too"][0] == "fine too"


def test_where_a_worker_failed_in_the_grader_is_known_here():
    with Workers(1, known) as workers:
        workers.add(["none"])
        ((_, answer),) = workers.in_turn()
    assert isinstance(answer, course.CourseError) and answer.__notes__[0].startswith(" in course.py, line ")


def known(name):
    course.load().notebook(name)


def test_no_more_workers_are_started_than_there_are_jobs(tmp_path):
    others = psutil.Process().children()  # of tests before this one
    with Workers(4, work, lambda job: (job, str(tmp_path))) as workers:
        workers.add(["fine"])
        assert [job for job, _ in workers.in_turn()] == ["fine"]
        assert len([one for one in psutil.Process().children() if one not in others]) == 1


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_or_killed_it_leaves_no_worker_behind(how):
    heeding = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"  # whoever started us may not
    run = subprocess.Popen(
        [sys.executable, "-c", heeding + SLEEPING], cwd=course.ROOT, stderr=subprocess.PIPE, text=True
    )
    late = time.monotonic() + 60
    while len(psutil.Process(run.pid).children()) < 2 and time.monotonic() < late:
        time.sleep(0.02)
    workers = psutil.Process(run.pid).children()
    assert len(workers) == 2
    time.sleep(0.2)  # both have begun
    os.kill(run.pid, how)
    assert run.wait(30) != 0 and ("KeyboardInterrupt" in run.stderr.read()) is (how == signal.SIGINT)
    run.stderr.close()
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert not alive
