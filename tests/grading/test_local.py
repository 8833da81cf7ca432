"""Workers on this machine: what dies or fails costs what it was about, and nothing else."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import distributed
import psutil
import pytest

from autograder import course
from autograder.grading import cluster, grade
from autograder.grading.grading_record import UNGRADABLE, Options, Record
from autograder.grading.local import RETRIES, TookTooLong, WorkerDied, Workers

SLEEPING = """\
import os, time
from autograder.grading.local import Workers
def work(seconds):
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(seconds)
with Workers(2, work) as workers:
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
        assert time.monotonic() - began < 60
        workers.add(["fine too"])
        answers |= dict(workers.in_turn())
    assert isinstance(answers["takes for ever"], TookTooLong) and (tmp_path / "takes for ever").stat().st_size == 1
    assert answers["fine"][0] == "fine" and answers["fine too"][0] == "fine too"


def test_on_a_cluster_too_a_job_that_takes_for_ever_is_ended_and_not_tried_again(tmp_path, monkeypatch):
    @contextmanager
    def small_one(options):
        with distributed.Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None) as client:
            yield client

    monkeypatch.setattr(cluster, "client", small_one)
    jobs, began = ["takes for ever", "fine", "dies once", "fails"], time.monotonic()
    answers = dict(cluster.in_turn(Options(), jobs, work, lambda job: (job, str(tmp_path)), 15.0))
    assert time.monotonic() - began < 100
    assert isinstance(answers["takes for ever"], TookTooLong) and (tmp_path / "takes for ever").stat().st_size == 1
    assert answers["fine"][0] == "fine" and answers["dies once"][0] == "dies once"
    assert isinstance(answers["fails"], TypeError) and (tmp_path / "fails").stat().st_size == 1 + RETRIES
    for _, number in (answers["fine"], answers["dies once"]):
        assert number != os.getpid()


def test_a_child_of_a_clusters_worker_is_kept_and_ends_with_it():
    code = "import os, time\nfrom autograder.grading import bounded\n"
    code += "print(os.getpid(), bounded.call(60, os.getpid), bounded.call(60, os.getpid), flush=True)\n"
    code += "bounded.call(600, time.sleep, 600)"
    worker = subprocess.Popen([sys.executable, "-c", code], cwd=course.ROOT, stdout=subprocess.PIPE, text=True)
    own, first, second = map(int, worker.stdout.readline().split())
    assert own != first == second
    child = psutil.Process(first)
    worker.kill()
    worker.wait()
    worker.stdout.close()
    assert psutil.wait_procs([child], timeout=30)[1] == []


def test_the_record_of_a_hand_in_that_took_too_long_blames_nobody(capsys):
    failed = grade.failed_record(TookTooLong(90.0), course.load().notebooks[0], "ada")
    assert failed.status == UNGRADABLE and not failed.retry
    assert failed.reason.startswith(
        "judging it took longer than 90 seconds in all, and it was ended; `autograder grade"
    )


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
    heeding = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"  # our parent may not
    run = subprocess.Popen(
        [sys.executable, "-c", heeding + SLEEPING],
        cwd=course.ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    begun = {int(run.stdout.readline()) for _ in range(2)}
    workers = psutil.Process(run.pid).children()
    assert {worker.pid for worker in workers} == begun
    os.kill(run.pid, how)
    assert run.wait(30) != 0 and ("KeyboardInterrupt" in run.stderr.read()) is (how == signal.SIGINT)
    run.stdout.close()
    run.stderr.close()
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert not alive
