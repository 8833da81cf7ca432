"""Start what takes long to import before anything else does: the nursery, and dask's worker processes.

Imports nothing heavy itself, so that a command can call `begin` first and import the rest meanwhile.
"""

import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
from functools import cache
from multiprocessing import forkserver

from autograder.course import ROOT

STOP_SECONDS = 5
LOCALE = {"LANG": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin"}


class Nursery:
    """The nursery process as whoever started it sees it; `path` is its socket."""

    def __init__(self, preload: tuple[str, ...]):
        self.preload, self._lock = preload, threading.Lock()
        self._folder = tempfile.TemporaryDirectory(prefix="nursery-")  # for our user alone
        self._process: subprocess.Popen[bytes] | None = None
        self.path = ""

    def start(self) -> str:
        """Begin importing, unless it runs already; answers with the path of its socket."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self.path = tempfile.mktemp(dir=self._folder.name)
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "autograder.nursery", self.path, str(os.getpid()), *self.preload],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    cwd=ROOT,
                    env=LOCALE | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
                )
            return self.path

    def stop(self) -> None:
        """End it; its kernels are in their rooms and end with those."""
        with self._lock:
            if self._process is not None:
                self._process.terminate()
                try:
                    self._process.wait(STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    self._process.kill()
                    self._process.wait()
                self._process = None


@cache
def nursery(preload: tuple[str, ...]) -> Nursery:
    """This process's nursery for these modules."""
    return Nursery(preload)


def begin(preload: tuple[str, ...]) -> None:
    """Begin to import in the background what grading needs: kernels' libraries, and the workers' own."""
    nursery(preload).start()
    multiprocessing.set_forkserver_preload(["autograder.grade", "autograder.judge"])
    forkserver.ensure_running()
