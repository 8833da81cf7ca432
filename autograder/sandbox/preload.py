"""Start what takes long to import before anything else does: the fork server.

Imports nothing heavy itself, so that a command can call `begin` first and import the rest meanwhile.
"""

import atexit
import gc
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from autograder.course import Course, NotebookEntry
from autograder.sandbox import withheld

STOP_SECONDS = 5
LOCALE = {"LANG": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin"}
INLINE = "module://matplotlib_inline.backend_inline"  # as in Jupyter: pictures become outputs
ENVIRONMENT = {  # of the fork server, and of the kernels that it forks
    "MPLBACKEND": INLINE,
    "OMP_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",  # the order of a set is the same in every run
    "HF_HUB_OFFLINE": "1",
    "TORCHDYNAMO_DISABLE": "1",  # what `torch.compile` is given runs as it is, as `utils` has it at home
    # A library that asks whether there is a GPU must not initialise CUDA: forked kernels could not use it any more.
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
}


MAX_SERVERS = 2  # each holds half a gigabyte


class ForkServer:
    """The fork server process as the process that started it sees it; `path` is its socket."""

    def __init__(self, preload: tuple[str, ...]):
        self.preload, self._lock = preload, threading.Lock()
        # For our user alone. An interrupted server may still be writing into it when we remove it.
        self._folder = tempfile.TemporaryDirectory(prefix="fork-server-", ignore_cleanup_errors=True)
        self._process: subprocess.Popen[bytes] | None = None
        self.path = f"{self._folder.name}/socket"
        self.course = course_beside(self.path)

    def start(self) -> str:
        """Begin importing, unless it runs already; answers with the path of its socket.

        If it is killed, another takes its place at the same path: who asks in between only waits.
        """
        with self._lock:
            if self._process is None:
                self._spawn()
                threading.Thread(target=self._keep, daemon=True).start()
            return self.path

    def _spawn(self) -> None:
        os.makedirs(self._folder.name, mode=0o700, exist_ok=True)
        Path(self.path).unlink(missing_ok=True)
        new = not self.course.exists()
        if new:
            withheld.write(self.course)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "autograder.sandbox.fork_server", self.path, str(os.getpid()), *self.preload],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            cwd="/",
            env=LOCALE | ENVIRONMENT | {"PYTHONPATH": str(self.course)},
            process_group=0,  # Ctrl-C is for us, who end it
        )
        if new:
            withheld.write_results(self.course)  # while it imports; no kernel is asked for before we are done

    def _keep(self) -> None:
        """Start it again when it was killed; not when it ended by itself, which it would do again."""
        while process := self._process:
            ended = process.wait()
            with self._lock:
                if self._process is not process:  # stopped, by us
                    return
                if ended >= 0:
                    self._process = None
                    shutil.rmtree(self._folder.name, ignore_errors=True)  # tells who waits for it
                    return
                self._spawn()

    def stop(self) -> None:
        """End it; its kernels are in their sandboxes and end with those."""
        with self._lock:
            if self._process is not None:
                self._process.terminate()
                try:
                    self._process.wait(STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    self._process.kill()
                    self._process.wait()
                self._process = None
            shutil.rmtree(self._folder.name, ignore_errors=True)


servers: dict[tuple[str, ...], ForkServer] = {}


def course_beside(path: str) -> Path:
    """The course as the kernels of the fork server at the socket `path` read it, see `autograder.sandbox.withheld`."""
    return Path(path).parent / "course"


def fork_server(preload: tuple[str, ...]) -> ForkServer:
    """This process's fork server for these modules. It lives as long as we do, or until others were asked for since."""
    if preload in servers:
        servers[preload] = servers.pop(preload)  # the last to go
    else:
        while len(servers) >= MAX_SERVERS:
            servers.pop(next(iter(servers))).stop()
        servers[preload] = ForkServer(preload)
    return servers[preload]


@atexit.register
def stop_all() -> None:
    """End every fork server of this process."""
    while servers:
        servers.popitem()[1].stop()


def _leave_to_parent() -> None:
    """In a forked child: these fork servers are its parent's, who ends them and removes their folders."""
    parents.extend(servers.values())
    servers.clear()


parents: list[ForkServer] = []
os.register_at_fork(after_in_child=_leave_to_parent)


def begin(course: Course, entries: Sequence[NotebookEntry]) -> None:
    """Begin to import in the background what kernels of these notebooks need, as far as they were handed in.

    Here nothing is looked through for garbage until `settle`: what is imported meanwhile stays, and a fifth of the
    time would go into looking at it again and again.
    """
    gc.disable()
    there = course.handed_in(entries)
    if there:
        fork_server(course.running(there).grading.preload).start()


def settle() -> None:
    """Once all is imported: from now on look for garbage, but not in what is there already; it stays."""
    gc.freeze()
    gc.enable()
