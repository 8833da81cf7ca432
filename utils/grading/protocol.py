"""Messages between the judge and a kernel: their framing, and the kinds there are.

A message is its length in four bytes, big-endian, and then so many bytes; none is longer than `wire.MAX_BYTES`.
The kernel speaks first: an empty message says that it is ready. Then the judge asks and the kernel replies, in turn,
until the judge closes the line. There are two kinds of requests:

- `CELL` and plain data of `wire`: run a cell. The reply is its outputs, as plain data. The request also states after
  which errors the next statement of the cell still runs: `NEVER`, as in a notebook; `IMPORTS`, after an import or a
  magic that is missing here, and where its name is missing then; `ALWAYS`, after every error of the cell's own.
- plain data of `wire`: a question of a check, as `dispatch.answer` states it, with its reply.
"""

from typing import Protocol

from utils.grading import wire

CELL = b"cell"
NEVER, IMPORTS, ALWAYS = "never", "imports", "always"


class Line(Protocol):
    """What `send` and `receive` need of a socket."""

    def recv(self, size: int, /) -> bytes:
        """At least one byte and at most `size`; none if the other side closed."""
        ...

    def sendall(self, data: bytes, /) -> None:
        """Send all of `data`."""
        ...


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
    parts = []
    while size:
        part = line.recv(min(size, 2**20))
        if not part:
            raise EOFError("closed")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
