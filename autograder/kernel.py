"""A kernel that runs one hand-in: cells go in, plain outputs and wire bytes come back.

Everything a kernel says is a student's: messages are bounded in size and number, only known fields
of known types are kept, and no word of it decides a score.
"""

import os
import queue
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL
from typing import Any, NoReturn, cast

import zmq
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import KernelManager
from nbformat import NotebookNode
from nbformat.v4 import new_output

from autograder import provisioner, safe
from autograder.course import ROOT, Course, Limits
from autograder.nursery import ATTEND, DOOR
from autograder.room import RoomError
from utils import door, wire
from utils.answer import StudentError
from utils.verdict import legible

START_SECONDS = 60
PATIENCE_SECONDS = 3  # for a kernel that was interrupted
SLICE_SECONDS = 0.25
MAX_MESSAGE = 8 * 2**20  # of one part of a Jupyter message; the room watches how much they are together
MAX_OUTPUTS = 500
CLEAN: dict[str, Callable[[str], str]] = {
    "text/plain": str,
    "text/html": safe.html,
    "image/png": safe.picture,
    "image/jpeg": safe.picture,
}
REPLIES = ("execute_reply", f"{ATTEND}_reply")
INLINE = "module://matplotlib_inline.backend_inline"


class KernelGone(StudentError):
    """The kernel died or had to be killed; what it knew is lost."""


@dataclass
class Ran:
    """How one cell fared."""

    outputs: list[NotebookNode] = field(default_factory=list)
    error: str = ""
    blank: bool = False
    seconds: float = 0.0
    refused: str = ""  # a limit it broke


class Kernel:
    """A running kernel. `open_kernel` makes one."""

    def __init__(
        self, manager: KernelManager, client: BlockingKernelClient, line: socket.socket, fileno: int, limits: Limits
    ):
        self._manager, self._client, self.limits = manager, client, limits
        self._line, self._door, self._attending = line, fileno, ""
        self.deadline = time.monotonic() + limits.notebook_seconds

    def run(self, source: str) -> Ran:
        """Run one cell.

        Raises:
            KernelGone: it did not survive; the message says why.
        """
        ran, started = Ran(), time.monotonic()
        try:
            self._execute(source, _Collector(ran, self.limits.output_kb * 1024))
        except TimeoutError as late:
            ran.refused = ran.error = str(late)
        ran.seconds = time.monotonic() - started
        return ran

    def ask(self, request: bytes) -> bytes:
        """Hand a request to the door in the kernel and fetch its reply, as bytes that nobody trusts.

        Raises:
            StudentError: the reply is too large to be one.
            KernelGone: no reply in time, or the kernel died of it.
        """
        if not self._attending:
            self._attending = self._attend()
        whole = self.deadline - time.monotonic()
        late = time.monotonic() + min(self.limits.cell_seconds, whole)
        try:
            self._line.settimeout(SLICE_SECONDS)
            door.send(_Patient(self._line, late, self._manager.is_alive), request)
            return door.receive(_Patient(self._line, late, self._manager.is_alive))
        except TimeoutError:
            self._kill(self._too_long(whole))
        except wire.TooLarge:
            self._kill(f"your code returned more than {wire.MAX_BYTES // 2**20} MB")
        except (EOFError, OSError):
            self._kill("its kernel died")

    def leave(self) -> None:
        """End the conversation with the door, if there is one, so that cells can run.

        Raises:
            KernelGone: the kernel does not come back from it.
        """
        sent, self._attending = self._attending, ""
        if sent:
            try:
                door.send(self._line, b"")
            except OSError:
                self._kill("its kernel died")
            with suppress(TimeoutError):
                self._await(sent, lambda message: True)

    def _attend(self) -> str:
        """Have the kernel attend to the door; the id of the message that says so."""
        if isinstance(self._manager.provisioner, provisioner.RoomProvisioner):  # its kernel knows how to
            message = self._client.session.msg(f"{ATTEND}_request")
            self._client.shell_channel.send(message)
            return message["header"]["msg_id"]
        code = f"__import__('utils.door', fromlist=['door']).attend(globals(), {self._door})"
        return self._client.execute(code, silent=True, store_history=False, allow_stdin=False)

    def _execute(self, source: str, hear: Callable[[dict[str, Any]], bool]) -> None:
        """Execute a cell and wait until it is done; see `_await`."""
        self.leave()
        self._await(self._client.execute(source, allow_stdin=False, stop_on_error=False), hear)

    def _await(self, sent: str, hear: Callable[[dict[str, Any]], bool]) -> None:
        """Wait until the kernel has replied to the message `sent` and is idle.

        `hear` gets every other message and answers whether it wants more.

        Raises:
            TimeoutError: it took too long, and was interrupted.
            KernelGone: it died, or did not stop when interrupted and was killed.
        """
        whole = self.deadline - time.monotonic()
        late = time.monotonic() + min(self.limits.cell_seconds, whole)
        idle, replied, stopped, timed_out = False, False, False, False
        while not (idle and replied):
            for message in self._heard():
                match message:
                    case {"parent_header": {"msg_id": parent}, "msg_type": kind, "content": dict(content)}:
                        if parent != sent:
                            continue
                        if kind == "status":
                            idle = content.get("execution_state") == "idle"
                        elif kind in REPLIES:
                            replied = True
                        elif not hear(message) and not stopped:
                            stopped, late = True, time.monotonic() + PATIENCE_SECONDS
                            self._interrupt()
            if time.monotonic() > late:
                if stopped:
                    self._kill(f"{self._too_long(whole)}, and did not stop when it was interrupted")
                stopped, timed_out, late = True, True, time.monotonic() + PATIENCE_SECONDS
                self._interrupt()
        if timed_out:
            raise TimeoutError(self._too_long(whole))

    def _too_long(self, whole: float) -> str:
        if whole < self.limits.cell_seconds:
            return f"the notebook took longer than {self.limits.notebook_seconds:g} seconds in all"
        return f"your code took longer than {self.limits.cell_seconds:g} seconds"

    def _heard(self) -> Iterator[dict[str, Any]]:
        """The next message of each channel that has one, after waiting a little."""
        channels = {channel.socket: channel for channel in (self._client.iopub_channel, self._client.shell_channel)}
        ready = zmq.select(list(channels), [], [], SLICE_SECONDS)[0]
        if not ready and not self._manager.is_alive():
            self._kill("its kernel died")
        for ended in ready:
            try:
                yield channels[ended].get_msg(timeout=0)
            except queue.Empty:
                continue
            except Exception as nonsense:  # unsigned, unparsable, of the wrong form: whatever can be sent
                self._kill(f"its kernel sent what is no Jupyter message ({type(nonsense).__name__})")

    def _interrupt(self) -> None:
        self._manager.interrupt_kernel()

    def _kill(self, why: str) -> NoReturn:
        room = getattr(self._manager.provisioner, "room", None)
        refused = room.refused if room is not None else ""
        self._manager.shutdown_kernel(now=True)
        raise KernelGone(refused or why)


class _Patient:
    """A socket that waits in slices, so that a deadline or a death is noticed."""

    def __init__(self, line: socket.socket, late: float, alive: Callable[[], bool]):
        self._line, self._late, self._alive = line, late, alive

    def recv(self, size: int) -> bytes:
        """Like `socket.recv`; raises TimeoutError when it is too late, EOFError when nobody is left to wait for."""
        while True:
            self._hurry()  # also when something came: a byte now and then would keep us for ever
            try:
                return self._line.recv(size)
            except TimeoutError:
                self._look()

    def sendall(self, data: bytes) -> None:
        """Like `socket.sendall`, with the same errors."""
        rest = memoryview(data)
        while rest:
            self._hurry()
            try:
                rest = rest[self._line.send(rest) :]
            except TimeoutError:
                self._look()

    def _hurry(self) -> None:
        if time.monotonic() > self._late:
            raise TimeoutError

    def _look(self) -> None:
        self._hurry()
        if not self._alive():
            raise EOFError


class _Collector:
    """Turns a cell's messages into notebook outputs: known types, known fields, bounded size."""

    def __init__(self, ran: Ran, room: int):
        self.ran, self.room = ran, room

    def __call__(self, message: dict[str, Any]) -> bool:
        content, outputs = message["content"], self.ran.outputs
        match message["msg_type"], content:
            case "stream", {"name": "stdout" | "stderr" as name, "text": str(text)}:
                text = self._fit(text)
                if outputs and outputs[-1].get("name") == name:
                    outputs[-1].text += text
                elif text:
                    outputs.append(new_output("stream", name=name, text=text))
            case "error", {"ename": str(name), "evalue": str(value), "traceback": list(lines)}:
                self.ran.error = legible(f"{name}: {value}", 1000)
                self.ran.blank = (name, value) == ("NotImplementedError", "")
                lines = [self._fit(line) for line in lines if type(line) is str]
                outputs.append(new_output("error", ename=name[:100], evalue=value[:1000], traceback=lines))
            case "display_data" | "execute_result", {"data": dict(data)}:
                shown = {mime: CLEAN[mime](self._fit(data[mime])) for mime in CLEAN if type(data.get(mime)) is str}
                kept = {mime: text for mime, text in shown.items() if text}
                outputs.append(new_output("display_data", data=kept))
        if self.room <= 0 or len(outputs) > MAX_OUTPUTS:
            self.ran.refused = "printed more than it may"
        return not self.ran.refused

    def _fit(self, text: str) -> str:
        """As much of `text` as still may be kept."""
        kept = text[: max(self.room, 0)]
        self.room -= len(text)
        return kept


@contextmanager
def open_kernel(course: Course, trusted: bool = False, nursery: str = "") -> Iterator[Kernel]:
    """A kernel for one hand-in, gone with all its processes and files afterwards.

    It lives in a room, unless the instructor trusts the submissions: then it is an ordinary kernel
    of this machine, with nothing but the time limits. `nursery` is the socket of a nursery that runs
    already; without one, this process starts its own.

    Raises:
        RoomError: no room can be made.
    """
    limits, grading = course.limits, course.grading
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        manager = KernelManager(connection_file=f"{folder}/connection.json")
        manager.context.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE)
        stack.callback(manager.shutdown_kernel, now=True)
        line: socket.socket | None
        if trusted:
            line, theirs = (stack.enter_context(end) for end in socket.socketpair())
            path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
            environment = {"PYTHONPATH": path, "COURSE_PROFILE": grading.profile, "MPLBACKEND": INLINE}
            streams = {"stdout": DEVNULL, "stderr": DEVNULL}
            manager.start_kernel(cwd=folder, env=os.environ | environment, pass_fds=[theirs.fileno()], **streams)
            fileno = theirs.fileno()
        else:
            # A path in the room is a student's to replace: each socket connects once, before any cell runs.
            manager.context.setsockopt(zmq.RECONNECT_IVL, -1)
            manager._kernel_spec = provisioner.kernel_spec(limits, grading, nursery)
            manager.start_kernel()
            line = cast(provisioner.RoomProvisioner, manager.provisioner).line
            fileno = DOOR
            _await_sockets(manager)
        assert line is not None
        client = manager.client()
        stack.callback(client.stop_channels)
        client.start_channels(stdin=False, hb=False)
        _await_kernel(manager, client)
        yield Kernel(manager, client, line, fileno, limits)


def _await_sockets(manager: KernelManager) -> None:
    """Wait until the kernel listens; no student code has run yet."""
    late = time.monotonic() + START_SECONDS
    paths = [f"{manager.ip}-{port}" for port in manager.ports]
    while not all(map(os.path.exists, paths)):
        if not manager.is_alive() or time.monotonic() > late:
            raise RoomError(f"the kernel does not start: {_why(manager) or 'it does not listen'}")
        time.sleep(0.01)


def _await_kernel(manager: KernelManager, client: BlockingKernelClient) -> None:
    """Wait until the kernel answers, and until we hear what it publishes."""
    late = time.monotonic() + START_SECONDS
    answers = heard = False
    while not (answers and heard):
        if not manager.is_alive() or time.monotonic() > late:
            raise RoomError(f"the kernel does not start: {_why(manager) or 'it does not answer'}")
        client.kernel_info()
        with suppress(queue.Empty):
            answers = bool(client.get_shell_msg(timeout=1))
        with suppress(queue.Empty):
            heard = bool(client.get_iopub_msg(timeout=0.1))


def _why(manager: KernelManager) -> str:
    """The traceback that a kernel left when it failed to start; no student code has run yet."""
    with suppress(OSError):
        return Path(f"{manager.ip}.error").read_text()
    return ""
