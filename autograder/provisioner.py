"""Jupyter's way to a kernel in a room: a kernel provisioner around the nursery.

jupyter_client, and whatever is built on it, starts such a kernel like any other. It is registered
in pyproject.toml under the name `PROVISIONER`.
"""

import json
import os
import select
import signal
import socket
import time
from typing import Any, cast

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.provisioning import KernelProvisionerBase
from traitlets import Bool, Dict, Int, List, Unicode

from autograder import warm
from autograder.course import ROOT, Grading, Limits
from autograder.room import RUN, WORK, Room, RoomError

PROVISIONER = "attention-graded-room"
PORTS = {"shell_port": 1, "iopub_port": 2, "stdin_port": 3, "control_port": 4, "hb_port": 5}
NURSERY_SECONDS = 180  # it imports torch first, and the machine may be busy
KILL_SECONDS = 1.0


def kernel_spec(limits: Limits, grading: Grading, nursery: str = "") -> KernelSpec:
    """The spec of a kernel that lives in a room: `KernelManager` starts it like any other.

    `nursery` is the socket of a running nursery; without one, this process starts its own.
    """
    config: dict[str, Any] = {"limits": limits.model_dump(), "preload": [*grading.preload], "profile": grading.profile}
    config |= {"nursery": nursery, "gpu": grading.gpu}
    return KernelSpec(
        display_name="Python 3 (room)",
        language="python",
        metadata={"kernel_provisioner": {"provisioner_name": PROVISIONER, "config": config}},
    )


def fork_kernel(
    path: str, room: Room, door: socket.socket, connection: dict[str, Any], environment: dict[str, str]
) -> int:
    """Ask the nursery at the socket `path` for a kernel in `room`; its process id.

    The kernel inherits `door`, one end of the judge's line to it.

    Raises:
        RoomError: the nursery is not there, or the kernel cannot enter the room.
    """
    request = {
        "room": room.pid,
        "uid": room.uid,
        "limits": room.limits.model_dump(),
        "connection": connection,
        "environment": environment,
        "folder": WORK,
    }
    with socket.socket(socket.AF_UNIX) as asker:
        asker.settimeout(NURSERY_SECONDS)
        late = time.monotonic() + NURSERY_SECONDS
        while True:
            try:
                asker.connect(path)
                break
            except (FileNotFoundError, ConnectionRefusedError):
                if time.monotonic() > late or not os.path.isdir(os.path.dirname(path)):
                    raise RoomError(f"no nursery at {path}") from None
                time.sleep(0.05)  # it has only just been started
        socket.send_fds(asker, [json.dumps(request).encode()], [door.fileno()])
        told = asker.makefile().readline()
    if not told:
        raise RoomError("the nursery died, or its kernel could not enter the room")
    return json.loads(told)


class RoomProvisioner(KernelProvisionerBase):
    """Starts a kernel by opening a room and asking the nursery to fork one into it."""

    limits = Dict()
    preload = List(Unicode())
    profile = Unicode("smoke")
    nursery = Unicode("")
    gpu = Bool(False)
    room: Room | None = None
    line: socket.socket | None = None  # the judge's end of the line to the door
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
        self.room = Room(Limits(**self.limits), self.gpu)
        session = self.parent.session
        self.line, door = socket.socketpair()
        info = {**PORTS, "transport": "ipc", "signature_scheme": session.signature_scheme, "kernel_name": "room"}
        inside = info | {"ip": f"{RUN}/kernel", "key": session.key.decode()}
        try:
            with door:
                self.pid = self._fork(self.room, door, inside)
            self._pidfd = os.pidfd_open(self.pid)
        except (OSError, RoomError):
            self.room.close()
            raise
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
            self._runs(KILL_SECONDS)  # it ends within milliseconds, and nobody need poll for it

    async def terminate(self, restart: bool = False) -> None:
        """The same: a kernel that runs students' code gets no last word."""
        await self.kill(restart)

    async def cleanup(self, restart: bool = False) -> None:
        """Close the room and forget the kernel."""
        if self.room is not None:
            self.room.__exit__(None, None, None)
            self.room = None
        if self.line is not None:
            self.line.close()
            self.line = None
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def _fork(self, room: Room, door: socket.socket, connection: dict[str, Any]) -> int:
        """A kernel from the nursery we were told of; from our own if that one is gone."""
        environment = _environment(self.profile, self.gpu)
        if self.nursery:
            for _ in range(2):  # killed while we asked, it is started again at the same path
                try:
                    return fork_kernel(self.nursery, room, door, connection, environment)
                except (RoomError, OSError):
                    self.log.warning("the nursery %s is gone", self.nursery)
        return fork_kernel(warm.nursery(tuple(self.preload)).start(), room, door, connection, environment)

    def _runs(self, seconds: float | None) -> bool:
        if self._pidfd < 0:
            return False
        ended, _, _ = select.select([self._pidfd], [], [], seconds)  # a pidfd is readable once its process ended
        return not ended


def _environment(profile: str, gpu: bool) -> dict[str, str]:
    """All that a kernel in a room finds in its environment; of our own, the GPU that this worker was given."""
    devices = os.environ.get("CUDA_VISIBLE_DEVICES") if gpu else ""
    given = {} if devices is None else {"CUDA_VISIBLE_DEVICES": devices}
    return (
        warm.LOCALE
        | given
        | {
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
    )
