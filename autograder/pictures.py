"""Pictures of a submission, made small enough for a page: decoded in a child with limits, and written again.

What a page costs a browser are points: a file of 135 KB may have 250 million of them. Pictures in written answers are
always written again, so that a page shows nothing of the file that was handed in; outputs only if they are too large.
"""

import base64
import binascii
import io
import math
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from autograder import limited

if TYPE_CHECKING:
    from nbformat import NotebookNode
    from PIL import Image

FORMATS = ("PNG", "JPEG", "GIF", "WEBP")
KINDS = {"PNG": "image/png", "JPEG": "image/jpeg"}  # that a page shows
MAX_READ = 30_000_000  # points of a picture that is decoded
MAX_POINTS = 2_000_000  # of one that a page shows
MAX_ALL = 20_000_000  # of all on a page
MAX_BYTES = 300_000  # of a picture that is written again
MAX_ALL_BYTES = 3_000_000  # of all those of the written answers
MAX_PICTURES = 20  # in the written answers of a submission
MAX_FILE = 15_000_000  # bytes of one as it was handed in
SECONDS = 10.0  # for pictures that are decoded together
MAX_COSTLY = 7  # so often that may take too long: one bad picture among MAX_PICTURES costs six
MEMORY_MB = 768
NAME = re.compile(r"picture-[0-9]{1,4}-[0-9a-f]{8}")  # of one in an answer: its place, and a digest of the file
SHOWN = re.compile(rf"!\[([^\[\]\n]*)\]\(attachment:({NAME.pattern})\)")  # as an answer shows it
LEFT_OUT = "(a picture is left out: {})"
TOO_LONG = "pictures beside it take too long to decode"
TOO_MANY = "there are too many, or too large ones, before it"


class NoPicture(Exception):
    """A page does not show this file; the message says why."""


def base64_of(text: str) -> bytes:
    """The bytes of a base64 text; b"" if it is none."""
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return b""


def rewritten(files: Sequence[bytes]) -> list[tuple[str, str]]:
    """Each picture written again in few points: its type and its base64 text, or "" and why it is not shown."""
    return redraw_in_child(_rewritten, list(files), MAX_ALL) if files else []


def fit(notebook: "NotebookNode") -> int:
    """Bound the points of all pictures in a notebook's outputs: shrink large ones, leave out what is not a picture.

    How many are left out: a line of text is in their place.
    """
    shown = [
        (output, kind)
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        for kind in KINDS.values()
        if kind in output.get("data", {})
    ]
    if not shown:
        return 0
    files = [base64_of(output.data.pop(kind)) for output, kind in shown]
    left_out = 0
    for (output, _), file, (kind, text) in zip(shown, files, redraw_in_child(_bounded, files, MAX_ALL), strict=True):
        if kind:
            output.data[kind] = text or base64.b64encode(file).decode()
        else:
            output.data["text/plain"] = LEFT_OUT.format(text)
            left_out += 1
    return left_out


def redraw_in_child(work: Callable[..., list[tuple[str, str]]], files: list[bytes], room: int) -> list[tuple[str, str]]:
    """`work(files, room)`; if that is too costly, each half by itself, until those that are it alone are left out.

    After MAX_COSTLY times what is left is left out too: a small file may take seconds to decode.
    """
    drawn: list[tuple[str, str]] = []
    waiting, costly = [(files, room)], 0
    while waiting:
        batch, share = waiting.pop()
        if costly == MAX_COSTLY:
            drawn += [("", TOO_LONG)] * len(batch)
            continue
        try:
            answer = limited.call(work, batch, share, seconds=SECONDS, memory_mb=MEMORY_MB)
            drawn += [(kind, text) for kind, text in answer]
        except limited.TooCostly as why:
            costly += 1
            half = len(batch) // 2
            if half:
                waiting += [(batch[half:], share // 2), (batch[:half], share // 2)]
            else:
                drawn.append(("", str(why)))
    return drawn


def _rewritten(files: list[bytes], room: int) -> list[tuple[str, str]]:
    """`rewritten`, in the child; `room` is the number of points that all of them may have together."""
    drawn, left = [], MAX_ALL_BYTES
    for file in files:
        try:
            picture = _opened(file, room)
            kind, data = _written(picture)
        except NoPicture as why:
            drawn.append(("", str(why)))
            continue
        room, left = room - picture.width * picture.height, left - len(data)
        drawn.append((kind, base64.b64encode(data).decode()) if left >= 0 else ("", TOO_MANY))
    return drawn


def _bounded(files: list[bytes], room: int) -> list[tuple[str, str]]:
    """The type of each picture, and its base64 text if it had to be written again; or "" and why it is not shown."""
    drawn = []
    for file in files:
        try:
            form, points, frames = _stated(file)
            if form in KINDS and frames == 1 and points <= min(MAX_POINTS, room):
                drawn.append((KINDS[form], ""))
                room -= points
                continue
            picture = _opened(file, room)
            kind, data = _written(picture)
        except NoPicture as why:
            drawn.append(("", str(why)))
            continue
        room -= picture.width * picture.height
        drawn.append((kind, base64.b64encode(data).decode()))
    return drawn


def _stated(file: bytes) -> tuple[str, int, int]:
    """What the head of a file says: its format, its points, its frames."""
    from PIL import Image  # in the child alone

    Image.MAX_IMAGE_PIXELS = None  # our own bound is a smaller one
    try:
        with Image.open(io.BytesIO(file), formats=FORMATS) as picture:
            frames = getattr(picture, "n_frames", 1) if picture.format == "PNG" else 1  # others are written again
            return str(picture.format), picture.width * picture.height, frames
    except MemoryError:
        raise
    except Exception:  # of a library, for anything that is none
        raise NoPicture("it cannot be read as PNG, JPEG, GIF or WebP") from None


def _opened(file: bytes, room: int) -> "Image.Image":
    """The first frame of a picture, upright, with as few points as a page shows.

    Raises:
        NoPicture: it is none, or it is too large.
    """
    from PIL import Image, ImageOps

    _, points, _ = _stated(file)
    if not points or points > MAX_READ:
        raise NoPicture(f"it has {points:,} points, and the most is {MAX_READ:,}")
    if room < MAX_POINTS // 10:
        raise NoPicture(TOO_MANY)
    try:
        with Image.open(io.BytesIO(file), formats=FORMATS) as stored:
            picture = ImageOps.exif_transpose(stored)
            picture.info.clear()
            if picture.has_transparency_data or picture.mode in ("RGBA", "LA", "PA", "P"):
                picture = picture.convert("RGBA")
                paper = Image.new("RGBA", picture.size, "white")
                picture = Image.alpha_composite(paper, picture)
            picture = picture.convert("L" if picture.mode in ("1", "L") else "RGB")
            most = min(MAX_POINTS, room)
            if points > most:
                share = math.sqrt(most / points)
                size = (max(1, int(picture.width * share)), max(1, int(picture.height * share)))
                picture = picture.resize(size, Image.Resampling.BICUBIC, reducing_gap=2.0)
            return picture
    except MemoryError:
        raise
    except Exception:
        raise NoPicture("it is damaged") from None


def _written(picture: "Image.Image") -> tuple[str, bytes]:
    """A picture as a file of at most MAX_BYTES: a PNG if that is short, else a JPEG; its type first."""
    data = io.BytesIO()
    picture.save(data, "PNG")
    if data.tell() <= MAX_BYTES:
        return KINDS["PNG"], data.getvalue()
    for quality in (85, 60, 30):
        data = io.BytesIO()
        picture.save(data, "JPEG", quality=quality)
        if data.tell() <= MAX_BYTES:
            return KINDS["JPEG"], data.getvalue()
    return _written(picture.resize((max(1, picture.width // 2), max(1, picture.height // 2))))
