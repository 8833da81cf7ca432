"""The files that a submission's cells write: taken out of the sandbox, within limits, and never through a link."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from autograder.intake.untrusted_folder import UntrustedFolder

MAX_FILES = 1_000
MAX_DEPTH = 10  # directories above a file
LEFT_OUT = ("*.ipynb", "*.pyc")  # stock nbgrader writes the notebooks itself, over those of cells
OF_NBGRADER = PurePosixPath("timestamp.txt")


def size(directory: Path) -> int:
    """The bytes of a directory's files, without notebooks; 0 if it is not there."""
    return sum(path.lstat().st_size for path in directory.rglob("*") if path.is_file() and path.suffix != ".ipynb")


def keep(work: Path, before: Path, target: Path, most: int) -> str:
    """Copy what cells have written or changed in `work` to `target`, `most` bytes at most; what was left out, or "".

    `before` and `target` hold the files that were there when the cells began. `work` is in a sandbox: whatever is read
    there is the cells' own, and links, pipes and hidden files are skipped.
    """
    count = skipped = 0
    with contextlib.suppress(OSError), UntrustedFolder(work) as folder:  # the sandbox may be gone
        for inside in _files(folder):
            if count == MAX_FILES:
                return f"more than {MAX_FILES:,} files that its cells wrote: the others are not kept"
            try:
                with folder.open(inside) as file:
                    about = os.fstat(file.fileno())
                    if any(_unchanged(place / inside, about) for place in (target, before)):
                        continue
                    content = file.read(most + 1) if about.st_size <= most else None
            except OSError:  # it is gone, or nobody may read it
                skipped += 1
                continue
            if content is None or len(content) > most or not _fits(inside, before, target):
                skipped += 1
                continue
            (target / inside).parent.mkdir(parents=True, exist_ok=True)
            (target / inside).write_bytes(content)
            most -= len(content)
            count += 1
    if skipped:
        return f"{skipped} of the files that its cells wrote are not kept: too large together, or not readable"
    return ""


def _files(folder: UntrustedFolder) -> Iterator[PurePosixPath]:
    """The files that may be kept."""
    for inside, folders, files, _, _ in folder.walk():
        folders[:] = [name for name in folders if _plain(name) and name != "__pycache__"] * (
            len(inside.parts) < MAX_DEPTH
        )
        for name in files:
            path = inside / name
            if _plain(name) and path != OF_NBGRADER and not any(path.match(pattern) for pattern in LEFT_OUT):
                yield path


def _plain(name: str) -> bool:
    return name.isprintable() and not name.startswith(".")


def _unchanged(path: Path, about: os.stat_result) -> bool:
    """Whether a file is still the one that was put there; copying keeps its time."""
    try:
        was = path.lstat()
    except OSError:
        return False
    return (was.st_size, was.st_mtime_ns) == (about.st_size, about.st_mtime_ns)


def _fits(inside: PurePosixPath, before: Path, target: Path) -> bool:
    """Whether no directory is where this file belongs, and no file where one of its directories does."""
    for place in (before, target):
        if (place / inside).is_dir() or any((place / above).is_file() for above in inside.parents):
            return False
    return True
