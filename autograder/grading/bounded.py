"""Calls a function in a child process that is ended when it takes too long.

For the workers of a dask cluster, which cannot end a task. Each thread of a worker has one child, which is kept
between calls: to import what grading needs takes seconds.
"""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from autograder.grading.errors import where
from autograder.grading.local import PR_SET_PDEATHSIG, TookTooLong, WorkerDied, sent

_threads = threading.local()


def call(seconds: float, work: Callable[..., Any], *arguments: Any) -> Any:
    """Return `work(*arguments)`, or a `TookTooLong` once `seconds` are over; dask would try again what is raised.

    Raises:
        WorkerDied: the child died.
        Exception: what `work` raises.
    """
    child: _Child = getattr(_threads, "child", None) or _Child()
    _threads.child = None  # whatever ends this call early, the next one does not get its answer
    try:
        child.line.send((work, arguments))
        answer = child.line.recv() if child.line.poll(seconds) else TookTooLong(seconds)
    except (EOFError, OSError) as ended:
        answer = WorkerDied(f"the child died of it ({type(ended).__name__})")
    if isinstance(answer, WorkerDied):
        child.end()
    else:
        _threads.child = child
    if isinstance(answer, Exception) and not isinstance(answer, TookTooLong):
        raise answer
    return answer


class _Child:
    """A child process, and our end of the line to it; it ends with us."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "autograder.grading.bounded", str(theirs.fileno()), str(os.getpid())],
                pass_fds=[theirs.fileno()],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
        self.line = Connection(ours.detach())

    def end(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.wait()
        self.line.close()


def _serve(line: Connection, parent: int) -> None:
    """The child: call what is asked for until nobody asks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the process that started the cluster
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    while os.getppid() == parent:
        try:
            work, arguments = line.recv()
        except EOFError:
            return
        try:
            answer = work(*arguments)
        except Exception as bug:
            bug.add_note(where(bug))  # its traceback stays here
            answer = bug
        sent(line, answer)


if __name__ == "__main__":
    with Connection(int(sys.argv[1])) as mine:
        _serve(mine, int(sys.argv[2]))
