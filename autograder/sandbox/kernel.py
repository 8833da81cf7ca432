"""A kernel that runs one submission: cells go in, plain outputs and wire bytes come back.

Everything a kernel says is a student's: messages are bounded in size and number, only known fields
of known types are kept, and no word of it decides a score.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from nbformat import NotebookNode
from nbformat.v4 import new_output

from autograder import html_cleaning
from autograder.course import Limits, Settings
from autograder.sandbox import launch
from autograder.sandbox.sandbox import SandboxError
from utils.grading import protocol, wire
from utils.grading.remote import StudentError
from utils.grading.verdict import legible

START_SECONDS = 60
PATIENCE_SECONDS = 1  # for a kernel that was interrupted
# All such times are the kernel's own, on a processor: a busy machine takes no points. On the clock a kernel that waits
# has so many times as long.
ON_THE_CLOCK = 3
SLICE_SECONDS = 0.25
MAX_OUTPUTS = 500
MAX_LINES = 1000  # of all tracebacks of a cell; the kernel sends fewer
CLEAN: dict[str, Callable[[str], str]] = {
    "text/plain": str,
    "text/html": html_cleaning.html,
    "image/png": html_cleaning.picture,
    "image/jpeg": html_cleaning.picture,
}
# The same for another course: in nbgrader's pages a person marks what its cells show.
CLEAN_OF_GUESTS = {
    **CLEAN,
    "text/markdown": lambda text: html_cleaning.markdown([text])[0],
    "text/latex": html_cleaning.latex,
}


class KernelGone(StudentError):
    """The kernel died or had to be killed; what it knew is lost."""

    @property
    def ends_check(self) -> bool:
        """Whether the check cannot go on: it may hold what was kept there."""
        return True


class KernelDied(KernelGone):
    """The kernel died, and no limit of its own says why: it may have ended itself, or the machine ended it."""


@dataclass
class Ran:
    """The result of running one cell: its outputs and its error."""

    outputs: list[NotebookNode] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)  # several if the cell went on after the first, see `Kernel.run`
    lines: list[str] = field(default_factory=list)  # of the cell, one for each of `errors`: where it was raised
    blank: bool = False
    seconds: float = 0.0
    refused: str = ""  # a limit it broke

    @property
    def error(self) -> str:
        """The first error, "" if there is none."""
        return self.errors[0] if self.errors else ""


class Kernel:
    """A running kernel. `open_kernel` makes one."""

    def __init__(self, process: launch.Process, limits: Limits, clean: Mapping[str, Callable[[str], str]] = CLEAN):
        self._process, self.limits, self._clean = process, limits, clean
        self.deadline = time.monotonic() + limits.notebook_seconds

    def run(self, source: str, resume: str = protocol.NEVER, seconds: float | None = None) -> Ran:
        """Run one cell, for `seconds` at most; by default the limits say for how long.

        `resume` says after which errors its next statement runs all the same: `protocol.NEVER`, as in a notebook,
        `protocol.IMPORTS`, after what is missing here, or `protocol.ALWAYS`.

        Raises:
            KernelGone: it did not survive; the message says why. KernelDied if nothing but its end is known.
        """
        ran, started = Ran(), time.monotonic()
        room = self.limits.output_kb * 1024
        asked = {
            "source": source,
            "characters": room,
            "outputs": MAX_OUTPUTS,
            "kinds": list(self._clean),
            "resume": resume,
        }
        reply, late = self._tell(protocol.CELL + wire.dumps(asked, lambda value: 0), self._process.interrupt, seconds)
        try:
            items = wire.loads(reply, lambda handle, name: None)
        except wire.WireError as nonsense:
            self._kill(f"its kernel sent what are not outputs ({nonsense})")
        if type(items) is not list:
            self._kill("its kernel sent what are not outputs")
        collect = OutputCollector(ran, room, self._clean)
        for item in items:
            if not collect(item):
                break
        if late:
            ran.refused = late
            ran.errors, ran.lines = [late], [""]
        ran.seconds = time.monotonic() - started
        return ran

    @property
    def work(self) -> Path | None:
        """Where its files are found from outside: a stranger's, and only while it lives. None outside of a sandbox."""
        return self._process.work

    def ask(self, request: bytes) -> bytes:
        """Hand a request to the dispatch in the kernel and fetch its reply, as bytes that nobody trusts.

        Raises:
            KernelGone: no reply in time or one that is too large, or the kernel died of it.
        """
        return self._tell(request)[0]

    def _tell(
        self, message: bytes, interrupt: Callable[[], None] | None = None, seconds: float | None = None
    ) -> tuple[bytes, str]:
        """Send a message and await its reply; and "", or why the kernel had to be interrupted first.

        Raises:
            KernelGone: no reply, or one that is too large.
        """
        seconds = self.limits.cell_seconds if seconds is None else seconds
        line = _Patient(self._process, seconds, interrupt, self.deadline)
        try:
            protocol.send(line, message)
            return protocol.receive(line), self._late(line, seconds) if line.interrupted else ""
        except TimeoutError:
            late = self._late(line, seconds)
            self._kill(f"{late}, and did not stop when it was interrupted" if line.interrupted else late)
        except wire.TooLarge:
            self._kill(f"your code returned more than {wire.MAX_BYTES // 2**20} MB")
        except (EOFError, OSError):
            refused = self._process.kill()
            raise (KernelGone(refused) if refused else KernelDied("its kernel died")) from None

    def _late(self, line: "_Patient", seconds: float) -> str:
        if line.at_the_end:
            return f"the notebook took longer than {self.limits.notebook_seconds:g} seconds in all"
        return f"your code took longer than {seconds:g} seconds"

    def _kill(self, why: str) -> NoReturn:
        raise KernelGone(self._process.kill() or why)


class _Patient:
    """A line that waits in slices, so that a deadline or a death is noticed.

    It waits until the process has used `seconds` of a processor's time, or ON_THE_CLOCK times as long has gone by, and
    never beyond `end`.
    """

    def __init__(
        self,
        process: launch.Process,
        seconds: float,
        interrupt: Callable[[], None] | None = None,
        end: float = math.inf,
    ):
        self._process, self._interrupt, self._end = process, interrupt, end
        self.interrupted = self.at_the_end = False
        self._give(seconds)

    def _give(self, seconds: float) -> None:
        now = time.monotonic()
        self._use = self._process.used() + seconds
        self._late, self._latest = now + seconds, now + ON_THE_CLOCK * seconds

    def recv(self, size: int) -> bytes:
        """Like `socket.recv`; raises TimeoutError when it is too late, EOFError when nobody is left to wait for."""
        while True:
            self._hurry()  # also when something came: a byte now and then would keep us for ever
            if not self._process.line.can_read(SLICE_SECONDS):
                self._look()
                continue
            with suppress(BlockingIOError):  # another reader of the pipe may have read it before us
                return self._process.line.recv(size)

    def sendall(self, data: bytes) -> None:
        """Like `socket.sendall`, with the same errors."""
        rest = memoryview(data)
        while rest:
            self._hurry()
            if not self._process.line.can_write(SLICE_SECONDS):
                self._look()
                continue
            with suppress(BlockingIOError):
                rest = rest[self._process.line.send(rest) :]

    def _hurry(self) -> None:
        now = time.monotonic()
        if now <= min(self._late, self._end):
            return
        left = self._use - self._process.used()
        if left > SLICE_SECONDS and now < min(self._latest, self._end):
            self._late = min(now + left, self._latest)
            return
        if self._interrupt is None or self.interrupted:
            self.at_the_end = self.at_the_end or now >= self._end
            raise TimeoutError
        self._interrupt()
        self.interrupted, self.at_the_end = True, now >= self._end
        self._end = math.inf
        self._give(PATIENCE_SECONDS)

    def _look(self) -> None:
        self._hurry()
        if not self._process.alive():
            raise EOFError


class OutputCollector:
    """Turns what a cell put out into notebook outputs: known kinds, known fields, bounded size."""

    def __init__(self, ran: Ran, room: int, clean: Mapping[str, Callable[[str], str]]):
        self.ran, self.room, self.lines, self._clean = ran, room, MAX_LINES, clean

    def __call__(self, item: Any) -> bool:
        """Take one output; whether more are wanted."""
        outputs = self.ran.outputs
        match item:
            case {"kind": "stream", "name": "stdout" | "stderr" as name, "text": str(text)}:
                text = self._fit(text)
                if outputs and outputs[-1].get("name") == name:
                    outputs[-1].text += text
                elif text:
                    outputs.append(new_output("stream", name=name, text=text))
            case {"kind": "error", "name": str(name), "message": str(message), "lines": list(lines)}:
                self.ran.errors.append(legible(f"{name}: {message}", 1000))
                line = item.get("line")
                self.ran.lines.append(legible(line, 200) if type(line) is str else "")
                self.ran.blank = self.ran.blank or (name, message) == ("NotImplementedError", "")
                lines = [self._fit(line) for line in lines[: self.lines] if type(line) is str]
                self.lines -= len(lines)
                outputs.append(new_output("error", ename=name[:100], evalue=message[:1000], traceback=lines))
            case {"kind": "display" | "result" as kind, "data": dict(data)}:
                given = [mime for mime in self._clean if type(data.get(mime)) is str]
                shown = {mime: self._clean[mime](self._fit(data[mime])) for mime in given}
                kept = {mime: text for mime, text in shown.items() if text}
                outputs.append(new_output("display_data" if kind == "display" else "execute_result", data=kept))
        if self.room <= 0 or len(outputs) > MAX_OUTPUTS:
            self.ran.refused = "printed more than it may"
        return not self.ran.refused

    def _fit(self, text: str) -> str:
        """As much of `text` as still may be kept."""
        kept = text[: max(self.room, 0)]
        self.room -= len(text)
        return kept


@contextmanager
def open_kernel(
    course: Settings, trusted: bool = False, server: str = "", guest: launch.Guest | None = None
) -> Iterator[Kernel]:
    """A kernel for one submission, gone with all its processes and files afterwards.

    It lives in a sandbox, unless the instructor trusts the submissions: then it is an ordinary process
    of this machine, with nothing but the time limits. `server` is the socket of a fork server that runs
    already; without one, this process starts its own. A `guest` is a submission of another course, always in a sandbox.

    Raises:
        SandboxError: no sandbox can be made, or no kernel starts in it.
    """
    launched = launch.trusted(course) if trusted else launch.in_sandbox(course, server, guest)
    with launched as process:
        try:  # no student code has run yet
            failed = protocol.receive(_Patient(process, START_SECONDS)).decode(errors="replace")
        except (OSError, EOFError, wire.TooLarge) as silent:
            failed = f"it does not answer ({type(silent).__name__})"
        if failed:
            raise SandboxError(f"the kernel does not start: {failed}")
        yield Kernel(process, course.limits, CLEAN_OF_GUESTS if guest else CLEAN)
