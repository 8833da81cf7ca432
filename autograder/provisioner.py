"""Jupyter's way to a kernel in a room: a kernel provisioner around the nursery.

jupyter_client, and whatever is built on it, starts such a kernel like any other. It is registered
in pyproject.toml under the name `PROVISIONER`.
"""

import json
import os
import select
import signal
import subprocess
import sys
import threading
from functools import cache
from typing import Any, cast

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.provisioning import KernelProvisionerBase
from traitlets import Dict, Int, List, Unicode

from autograder.course import ROOT, Limits
from autograder.room import RUN, WORK, Room, RoomError

PROVISIONER = "attention-graded-room"
PORTS = {"shell_port": 1, "iopub_port": 2, "stdin_port": 3, "control_port": 4, "hb_port": 5}
LOCALE = {"LANG": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin"}


def kernel_spec(limits: Limits, preload: tuple[str, ...], profile: str) -> KernelSpec:
    """The spec of a kernel that lives in a room: `KernelManager` starts it like any other."""
    config = {"limits": limits.model_dump(), "preload": list(preload), "profile": profile}
    return KernelSpec(
        display_name="Python 3 (room)",
        language="python",
        metadata={"kernel_provisioner": {"provisioner_name": PROVISIONER, "config": config}},
    )


class Nursery:
    """The nursery process as its asker sees it; started once, restarted if it died."""

    def __init__(self, preload: tuple[str, ...]):
        self.preload, self._lock, self._ready = preload, threading.Lock(), False
        self._process: subprocess.Popen[str] | None = None

    def fork(self, room: Room, connection: dict[str, Any], environment: dict[str, str]) -> tuple[int, int]:
        """Fork a kernel into `room`; the process ids of the kernel and of its guardian outside.

        Raises:
            RoomError: the nursery cannot fork, or the kernel cannot enter the room.
        """
        request = {
            "room": room.pid,
            "uid": room.uid,
            "limits": room.limits.model_dump(),
            "connection": connection,
            "environment": environment,
            "folder": WORK,
        }
        with self._lock:
            process = self._alive()
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            told = json.loads(process.stdout.readline() or '{"error": "the nursery died"}')
        if "error" in told:
            raise RoomError(told["error"])
        return told["kernel"], told["guardian"]

    def start(self) -> None:
        """Begin importing now; the first `fork` waits for it to finish."""
        with self._lock:
            self._start()

    def _start(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-Xfrozen_modules=off", "-m", "autograder.nursery", *self.preload],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=ROOT,
                env=LOCALE | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
            )
            self._ready = False
        return self._process

    def _alive(self) -> subprocess.Popen[str]:
        process = self._start()
        if not self._ready:
            assert process.stdout is not None
            if "ready" not in process.stdout.readline():
                raise RoomError("the nursery cannot import what course.toml tells it to preload")
            self._ready = True
        return process


@cache
def nursery(preload: tuple[str, ...]) -> Nursery:
    """This process's nursery for these modules."""
    return Nursery(preload)


class RoomProvisioner(KernelProvisionerBase):
    """Starts a kernel by opening a room and asking the nursery to fork one into it."""

    limits = Dict()
    preload = List(Unicode())
    profile = Unicode("smoke")
    room: Room | None = None
    pid = Int(0)
    _pidfd = -1

    @property
    def has_process(self) -> bool:
        """Whether a kernel was launched and not cleaned up."""
        return self._pidfd >= 0

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """There is no command: the kernel is forked, and its environment is set in the room."""
        return {"cmd": []}

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Open a room, fork a kernel into it, and say how its sockets are reached from outside."""
        assert self.parent is not None
        self.room = Room(Limits(**self.limits))
        session = self.parent.session
        info = {**PORTS, "transport": "ipc", "signature_scheme": session.signature_scheme, "kernel_name": "room"}
        inside = info | {"ip": f"{RUN}/kernel", "key": session.key.decode()}
        try:
            forked = nursery(tuple(self.preload))
            self.pid, guardian = forked.fork(self.room, inside, _environment(self.profile))
            self._pidfd = os.pidfd_open(self.pid)
        except (OSError, RoomError):
            self.room.close()
            raise
        self.room.watch(guardian)
        outside = info | {"ip": self.room.path(f"{RUN}/kernel"), "key": session.key}
        return cast(KernelConnectionInfo, outside)

    async def poll(self) -> int | None:
        """None while the kernel runs."""
        return None if self._runs(0) else 1

    async def wait(self) -> int | None:
        """Wait for the kernel's end."""
        self._runs(None)
        return 1

    async def send_signal(self, signum: int) -> None:
        """Send the kernel a signal."""
        if self.has_process:
            try:
                signal.pidfd_send_signal(self._pidfd, signum)
            except ProcessLookupError:
                return  # it is gone, which is what signals here are for

    async def kill(self, restart: bool = False) -> None:
        """Close the room; every process in it is gone."""
        if self.room is not None:
            self.room.close()

    async def terminate(self, restart: bool = False) -> None:
        """The same: a kernel that runs students' code gets no last word."""
        await self.kill(restart)

    async def cleanup(self, restart: bool = False) -> None:
        """Close the room and forget the kernel."""
        if self.room is not None:
            self.room.__exit__(None, None, None)
            self.room = None
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def _runs(self, seconds: float | None) -> bool:
        if self._pidfd < 0:
            return False
        ended, _, _ = select.select([self._pidfd], [], [], seconds)  # a pidfd is readable once its process ended
        return not ended


def _environment(profile: str) -> dict[str, str]:
    """All that a kernel in a room finds in its environment."""
    return LOCALE | {
        "HOME": WORK,
        "USER": "student",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "MPLCONFIGDIR": "/tmp/matplotlib",
        "IPYTHONDIR": "/tmp/ipython",
        "XDG_CACHE_HOME": "/tmp/cache",
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "COURSE_PROFILE": profile,
    }
