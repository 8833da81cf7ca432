"""Messages between the judge and a kernel: their framing, and the kinds there are.

A message is its length in four bytes, big-endian, and then so many bytes; none is longer than `wire.MAX_BYTES`.
The kernel speaks first: an empty message says that it is ready. Then the judge asks and the kernel replies, in turn,
until the judge closes the line. There are two kinds of requests:

- `CELL` and plain data of `wire`: run a cell. The reply is its outputs, as plain data. The request also states after
  which errors the next statement of the cell still runs: `NEVER`, as in a notebook; `IMPORTS`, after an import or a
  magic that is missing here, and where its name is missing then; `ALWAYS`, after every error of the cell's own.
- plain data of `wire`: a question of a check, as `dispatch.answer` states it, with its reply.
"""

import os
import select
from typing import Protocol

from utils.grading import wire

CELL = b"cell"
NEVER, IMPORTS, ALWAYS = "never", "imports", "always"
# What is global in a session, as a reply of `dispatch.answer` lists it where a call changed it.
GRADIENTS = "the recording of gradients"
DTYPE = "torch's default dtype"
DEVICE = "torch's default device"
TORCH_SEED = "the seed of torch's global random generator"
TORCH_STATE, NUMPY_STATE, PYTHON_STATE = (
    f"the state of the global random generator of {one}" for one in ("torch", "NumPy", "Python")
)
SESSION = (GRADIENTS, DTYPE, DEVICE, TORCH_SEED, TORCH_STATE, NUMPY_STATE, PYTHON_STATE)
# Changes that show only where gradients are off, or the default dtype is another one: what a student reads of each.
RECORDS = "switches on the recording of gradients where that was off."
SWITCHES_ON = f"a call of your code {RECORDS}"
SETS_DTYPE = "a call of your code sets torch's default dtype, which shows where it is float64."
ELSEWHERE = (SWITCHES_ON, SETS_DTYPE)
# What two calls with equal arguments may share although a change of one result then changes the other.
SHARED = ("list", "dict", "set", "tensor", "array", "module", "object")
SAME = {one: f"the same {one}" for one in SHARED}
HOLDS_SAME = {one: f"a result that holds the same {one}" for one in SHARED}


class Line(Protocol):
    """What `send` and `receive` need of a connection."""

    def recv(self, size: int, /) -> bytes:
        """At least one byte and at most `size`; none if the other side closed."""
        ...

    def sendall(self, data: bytes, /) -> None:
        """Send all of `data`."""
        ...


class Pipes:
    """One end of the line between judge and kernel: a pipe to read from and a pipe to write to, as file descriptors.

    A pipe carries bytes alone. A Unix socket also carries open files, and the system closes those that are not taken in
    the process that receives them: closing a TCP socket with SO_LINGER takes as long as its sender wants.
    """

    def __init__(self, reading: int, writing: int):
        self.reading, self.writing = reading, writing

    def recv(self, size: int) -> bytes:
        """Read like `socket.recv`; raises BlockingIOError if nothing is there and the pipe does not block."""
        return os.read(self.reading, size)

    def send(self, data: bytes | memoryview) -> int:
        """Write like `socket.send`; raises BlockingIOError if there is no room and the pipe does not block."""
        return os.write(self.writing, data)

    def sendall(self, data: bytes) -> None:
        """Write all of `data`; for pipes that block."""
        rest = memoryview(data)
        while rest:
            rest = rest[self.send(rest) :]

    def can_read(self, seconds: float) -> bool:
        """Whether there are bytes to read, or the other side has closed, within so many seconds."""
        return _ready(self.reading, select.POLLIN, seconds)

    def can_write(self, seconds: float) -> bool:
        """Whether there is room to write, or the other side has closed, within so many seconds."""
        return _ready(self.writing, select.POLLOUT, seconds)

    def close(self) -> None:
        """Close both."""
        os.close(self.reading)
        os.close(self.writing)

    def __enter__(self) -> "Pipes":
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def pair() -> tuple[Pipes, Pipes]:
    """The judge's end of a new line, which never blocks, and the kernel's end."""
    requests, replies = os.pipe(), os.pipe()
    for ours in (replies[0], requests[1]):
        os.set_blocking(ours, False)
    return Pipes(replies[0], requests[1]), Pipes(requests[0], replies[1])


def _ready(descriptor: int, event: int, seconds: float) -> bool:
    waiting = select.poll()
    waiting.register(descriptor, event)
    return bool(waiting.poll(seconds * 1000))


def send(line: Line, message: bytes) -> None:
    """Send one message: its length in four bytes, then itself."""
    line.sendall(len(message).to_bytes(4) + message)


def receive(line: Line) -> bytes:
    """Receive one message.

    Raises:
        wire.TooLarge: it says that it is longer than a message may be.
        EOFError: the other side closed.
    """
    size = int.from_bytes(_exactly(line, 4))
    if size > wire.MAX_BYTES:
        raise wire.TooLarge(f"a message of {size} bytes")
    return _exactly(line, size)


def _exactly(line: Line, size: int) -> bytes:
    message = bytearray()  # a list of parts would take many times as much, if each is a byte or two
    while len(message) < size:
        part = line.recv(min(size - len(message), 2**20))
        if not part:
            raise EOFError("closed")
        message += part
    return bytes(message)
