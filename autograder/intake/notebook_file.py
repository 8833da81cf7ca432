"""What a notebook's file is called and how it is written: other suffixes, copies, UTF-16, large outputs."""

import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from autograder import limited
from autograder.intake import reading

WITH_OUTPUTS = 5  # how often the size of one notebook a file may have with its outputs, which are not counted
OTHER_SUFFIXES = (".json", ".txt")  # under which browsers and platforms save notebooks
SECONDS, MEMORY_MB = 20.0, 1536  # for a file with large outputs
# What programs that synchronise folders add to a name: Dropbox, Nextcloud, Drive; Syncthing; ownCloud.
CONFLICT = re.compile(
    r"\s*[(\[][^()\[\]]*(?:conflict|konflikt|conflit)[^()\[\]]*[)\]]|[._-](?:sync-)?conflict-[\w-]+", re.IGNORECASE
)


@dataclass(frozen=True)
class Read:
    """A notebook's file as it is kept, and what was changed in it."""

    text: bytes
    remarks: list[str] = field(default_factory=list)


def may_be(path: PurePosixPath) -> bool:
    """Whether a file of this name may be a notebook."""
    suffix = path.suffix.lower()
    return suffix == ".ipynb" or (suffix in OTHER_SUFFIXES and not is_lone_run(path))


def is_lone_run(path: PurePosixPath) -> bool:
    """Whether a file is called like a run of an experiment."""
    return re.fullmatch(r"seed_\d{1,6}\.json", path.name) is not None


def is_notebook(text: bytes) -> bool:
    """Whether a file holds a notebook, or seems to: nothing is parsed here."""
    plain = _utf8(text)
    return plain.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") and b'"nbformat"' in plain


def is_one(path: PurePosixPath, text: bytes) -> bool:
    """Whether a file is called a notebook, or is one under another suffix."""
    return path.suffix.lower() == ".ipynb" or is_notebook(text)


def as_notebook(path: PurePosixPath) -> PurePosixPath:
    """The path under which a notebook's file says whose it is: without another suffix or the marks of a conflict."""
    name = path.name
    if path.suffix.lower() in OTHER_SUFFIXES:
        name = path.stem if path.stem.lower().endswith(".ipynb") else f"{path.stem}.ipynb"
    return without_conflict(path.with_name(name))


def without_conflict(path: PurePosixPath) -> PurePosixPath:
    """The path of the file that a conflicted copy is a copy of; the path itself if it is none."""
    if path.suffix.lower() not in (".ipynb", ".zip"):
        return path
    return path.with_name((CONFLICT.sub("", path.stem) or path.stem) + path.suffix)


def read(text: bytes, most: int) -> Read:
    """A notebook's file in UTF-8, without large outputs if it has more than `most` bytes.

    What is larger all the same is cut off after one byte too many: grading refuses it.
    """
    remarks = []
    plain = _utf8(text)
    if plain is not text:
        remarks.append("it was saved in UTF-16, and was read; ask for UTF-8, in which Jupyter saves notebooks")
    if len(plain) > most:
        before = len(plain)
        try:
            small = limited.call(reading.without_large_outputs, plain, seconds=SECONDS, memory_mb=MEMORY_MB)
        except limited.TooCostly:
            small = None
        plain = plain if small is None else small
        if len(plain) <= most:
            remarks.append(f"its outputs of {(before - len(plain)) / 2**20:.0f} MB are left out; they are not graded")
    return Read(plain[: most + 1], remarks)


def _utf8(text: bytes) -> bytes:
    """The text in UTF-8 if it is in UTF-16, else as it is."""
    if text.startswith((b"\xff\xfe", b"\xfe\xff")) or text[:2] in (b"{\0", b"\0{"):
        encoding = "utf-16" if text[:1] in (b"\xff", b"\xfe") else "utf-16-le" if text[:1] == b"{" else "utf-16-be"
        try:
            return text.decode(encoding).encode()
        except UnicodeDecodeError:
            return text
    return text
