"""Workers on this machine: forks of this process, which has imported what grading needs.

Each has one submission at a time. A worker that dies costs the submission it had, which another worker tries again,
and nothing else.
"""

import ctypes
import math
import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any

from autograder.grading.errors import where
from autograder.sandbox import preload

RETRIES = 3  # of a submission whose worker dies, or fails
STOP_SECONDS = 5.0
FORK = multiprocessing.get_context("fork")
PR_SET_PDEATHSIG = 1


class WorkerDied(Exception):
    """Every worker that had this submission died."""


class TookTooLong(WorkerDied):
    """A submission was ended because its worker had it for longer than `seconds`."""

    def __init__(self, seconds: float):
        super().__init__(seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        return f"judging it took longer than {self.seconds:g} seconds in all"


class Workers:
    """Up to `number` workers that call `work(*arguments(job))`; those that are not needed are not started.

    Each sees one of the devices `gpus`, in turn. A job that takes longer than `seconds` is not tried again.
    """

    def __init__(
        self,
        number: int,
        work: Callable[..., Any],
        arguments: Callable[[Any], tuple] = lambda job: (job,),
        gpus: tuple[str, ...] = (),
        seconds: float = math.inf,
    ):
        self.number, self._work, self._arguments, self._gpus = number, work, arguments, gpus
        self._seconds = seconds
        self._workers: list[_Worker] = []
        self._left: deque[Any] = deque()
        # By their lines: what each has, for which time, and until when.
        self._busy: dict[Any, tuple[_Worker, Any, tuple, int, float]] = {}

    def add(self, jobs: Iterable[Any]) -> None:
        """Have these jobs done too; the first of them begin at once."""
        self._left.extend(jobs)
        while self._left and len(self._workers) < self.number:
            self._workers.append(_Worker(self._work, len(self._workers), self._gpus))
            self._give_next(self._workers[-1])

    def in_turn(self) -> Iterator[tuple[Any, Any]]:
        """Every job with what the work on it answered or raised, as it is done."""
        for worker in self._workers:
            if worker.line not in self._busy:
                self._give_next(worker)
        while self._busy:
            first = min(until for *_, until in self._busy.values())
            late = [line for line, (*_, until) in self._busy.items() if until <= time.monotonic()]
            for line in late or wait([*self._busy], None if first == math.inf else max(0, first - time.monotonic())):
                worker, job, given, tries, _ = self._busy.pop(line)
                if late:
                    worker.process.kill()
                    tries = RETRIES
                answer = worker.answer()
                if isinstance(answer, WorkerDied):
                    worker.start()
                    answer = TookTooLong(self._seconds) if late else answer
                if isinstance(answer, Exception) and tries < RETRIES:
                    self._give(worker, job, given, tries + 1)
                    continue
                self._give_next(worker)  # before the caller keeps the answer: it has something to do meanwhile
                yield job, answer

    def _give(self, worker: "_Worker", job: Any, given: tuple, tries: int) -> None:
        self._busy[worker.line] = (worker, job, given, tries, time.monotonic() + self._seconds)
        worker.give(given)

    def _give_next(self, worker: "_Worker") -> None:
        if self._left:
            job = self._left.popleft()
            self._give(worker, job, self._arguments(job), 0)

    def stop(self, at_once: bool) -> None:
        """End them all; `at_once` also in the middle of a submission."""
        for worker in self._workers:
            worker.stop(at_once)
        self._workers.clear()

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.stop(at_once=kind is not None)


class _Worker:
    """One worker process, and our end of the line to it."""

    def __init__(self, work: Callable[..., Any], number: int, gpus: tuple[str, ...]):
        self._work, self._device = work, gpus[number % len(gpus)] if gpus else None
        self.start()

    def start(self) -> None:
        """Fork it; it stands for the one that died."""
        self.line, theirs = FORK.Pipe()
        self.process = FORK.Process(target=_serve, args=(theirs, self._work, self._device, os.getpid()), daemon=True)
        self.process.start()
        theirs.close()

    def give(self, given: tuple) -> None:
        """Send it something to work on; if it is dead, `answer` says so."""
        try:
            self.line.send(given)
        except OSError:
            self.process.kill()

    def answer(self) -> Any:
        """What it answers or raises; a `WorkerDied` if it is dead."""
        try:
            return self.line.recv()
        except Exception as bug:  # dead, or what it sent cannot be read
            self.stop(at_once=True)
            return WorkerDied(f"the worker died of it ({self.process.exitcode}, {type(bug).__name__})")

    def stop(self, at_once: bool) -> None:
        """End it."""
        if not at_once:
            try:
                self.line.send(None)
                self.process.join(STOP_SECONDS)
            except OSError:
                pass
        self.process.kill()
        self.process.join()
        self.line.close()


def _serve(line: Connection, work: Callable[..., Any], device: str | None, parent: int) -> None:
    """A worker's life."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for who started us
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        return
    if device is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = device
    preload.settle()
    while True:
        given = line.recv()
        if given is None:
            return
        try:
            answer = work(*given)
        except Exception as bug:
            bug.add_note(where(bug))  # its traceback stays here
            answer = bug
        sent(line, answer)


def sent(line: Connection, answer: Any) -> None:
    """Send an answer; of an exception that cannot be sent, its kind."""
    try:
        line.send(answer)
    except Exception as bug:
        line.send(RuntimeError(f"{type(answer).__name__} ({type(bug).__name__})"))
