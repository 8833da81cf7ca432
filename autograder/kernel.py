"""A kernel that runs one hand-in: cells go in, plain outputs and wire bytes come back.

Everything a kernel says is a student's: messages are bounded in size and number, only known fields
of known types are kept, and no word of it decides a score.
"""

import base64
import binascii
import os
import queue
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL
from typing import Any, NoReturn

import zmq
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import KernelManager
from nbformat import NotebookNode
from nbformat.v4 import new_output

from autograder import provisioner
from autograder.course import ROOT, Course, Limits
from autograder.room import RoomError
from utils import wire
from utils.answer import StudentError

START_SECONDS = 60
PATIENCE_SECONDS = 3  # for a kernel that was interrupted
SLICE_SECONDS = 0.25
MAX_MESSAGE = wire.MAX_BYTES * 2
MAX_OUTPUTS = 500
MIMES = ("text/plain", "text/html", "image/png", "image/jpeg")
DOOR = "__import__('utils.door', fromlist=['door']).serve(globals(), {request!r})"


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

    def __init__(self, manager: KernelManager, client: BlockingKernelClient, limits: Limits):
        self._manager, self._client, self.limits = manager, client, limits
        self.deadline = time.monotonic() + limits.notebook_seconds

    def run(self, source: str) -> Ran:
        """Run one cell.

        Raises:
            KernelGone: it did not survive; the message says why.
        """
        ran, started = Ran(), time.monotonic()
        try:
            self._execute(source, _Collector(ran, self.limits.output_kb * 1024), store_history=True)
        except TimeoutError as late:
            ran.refused = ran.error = str(late)
        ran.seconds = time.monotonic() - started
        return ran

    def ask(self, request: bytes) -> bytes:
        """Hand a request to the door in the kernel and fetch its reply, as bytes that nobody trusts.

        Raises:
            StudentError: no reply, or one that is not bytes.
            KernelGone: the kernel died of it.
        """
        code = DOOR.format(request=base64.b64encode(request).decode())
        try:
            reply = self._execute("", lambda message: True, silent=True, user_expressions={"reply": code})
        except TimeoutError as late:
            raise StudentError(str(late)) from None
        match reply:
            case {"user_expressions": {"reply": {"status": "ok", "data": {"text/plain": str(text)}}}}:
                try:
                    return base64.b64decode(text[1:-1], validate=True)
                except (binascii.Error, ValueError):
                    raise StudentError("what your code returned is not plain data") from None
        raise StudentError("the kernel gave no answer")

    def _execute(self, source: str, hear: Callable[[dict[str, Any]], bool], **options: Any) -> dict[str, Any]:
        """Execute and wait until the kernel is idle and has replied; the content of its reply.

        `hear` gets every other message and answers whether it wants more.

        Raises:
            TimeoutError: it took too long, and was interrupted.
            KernelGone: it died, or did not stop when interrupted and was killed.
        """
        whole = self.deadline - time.monotonic()
        late = time.monotonic() + min(self.limits.cell_seconds, whole)
        sent = self._client.execute(source, allow_stdin=False, stop_on_error=False, **options)
        idle, reply, stopped, timed_out = False, None, False, False
        while reply is None or not idle:
            for message in self._heard():
                match message:
                    case {"parent_header": {"msg_id": parent}, "msg_type": kind, "content": dict(content)}:
                        if parent != sent:
                            continue
                        if kind == "status":
                            idle = content.get("execution_state") == "idle"
                        elif kind == "execute_reply":
                            reply = content
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
        return reply

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
        for socket in ready:
            try:
                yield channels[socket].get_msg(timeout=0)
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
                self.ran.error = f"{name}: {value}"[:1000]
                self.ran.blank = (name, value) == ("NotImplementedError", "")
                lines = [self._fit(line) for line in lines if type(line) is str]
                outputs.append(new_output("error", ename=name[:100], evalue=value[:1000], traceback=lines))
            case "display_data" | "execute_result", {"data": dict(data)}:
                shown = {mime: self._fit(data[mime]) for mime in MIMES if type(data.get(mime)) is str}
                outputs.append(new_output("display_data", data=shown))
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
    with tempfile.TemporaryDirectory() as folder:
        manager = KernelManager(connection_file=f"{folder}/connection.json")
        started: dict[str, Any] = {}
        if trusted:
            path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
            environment = {"PYTHONPATH": path, "COURSE_PROFILE": grading.profile, "MPLBACKEND": "agg"}
            started = {"cwd": folder, "env": os.environ | environment, "stdout": DEVNULL, "stderr": DEVNULL}
        else:
            manager._kernel_spec = provisioner.kernel_spec(limits, grading, nursery)
        manager.context.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE)
        manager.start_kernel(**started)
        client = manager.client()
        try:
            client.start_channels(stdin=False, hb=False)
            try:
                client.wait_for_ready(timeout=START_SECONDS)
            except RuntimeError as bad:
                raise RoomError(f"the kernel does not start: {_why(manager) or bad}") from None
            yield Kernel(manager, client, limits)
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)


def _why(manager: KernelManager) -> str:
    """The traceback that a kernel left when it failed to start; no student code has run yet."""
    with suppress(OSError):
        return Path(f"{manager.ip}.error").read_text()
    return ""
