"""What is read of a submission before anybody knows what it is. Imports nothing heavy: part of it runs in a child."""

import hashlib
import os
import stat
from pathlib import Path


class NotGradable(Exception):
    """This submission cannot be graded; the message says why."""


def plain(text: bytes) -> str:
    """A notebook file of any format as the text of one of format 4; for `autograder.limited`.

    Raises:
        NotGradable: it is not a notebook.
    """
    import nbformat

    try:
        return nbformat.writes(nbformat.reads(text.decode(), as_version=4), version=4)
    except (RecursionError, MemoryError):
        raise
    except Exception:  # whatever stops nbformat on the way
        raise NotGradable("it is truncated or no notebook") from None


def digest(folder: Path, digest_of: "hashlib._Hash", most: int) -> None:
    """Add all files of a folder to a digest.

    Raises:
        NotGradable: there is something else than files and folders, or more than `most` bytes.
    """
    size = 0
    for place, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted([*folders, *files]):
            path = Path(place, name)
            about, inside = path.lstat(), str(path.relative_to(folder))
            if stat.S_ISDIR(about.st_mode):
                continue
            if not stat.S_ISREG(about.st_mode):
                raise NotGradable(f"{inside} is a link, a pipe or a device; only files are taken")
            size += about.st_size
            if size > most:
                raise NotGradable(f"its files take more than {most // 2**20} MB")
            digest_of.update(f"{inside}\0{about.st_size}\0".encode(errors="surrogateescape"))
            digest_of.update(path.read_bytes())
