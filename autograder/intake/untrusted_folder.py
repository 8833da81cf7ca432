"""Open and list files of a folder that strangers write into: no link is ever followed, and nothing blocks.

A name can be exchanged for a link, a pipe or another directory between a look at it and its opening. So each part of a
path is opened below the one before it, without following links, and what was opened is examined instead of its name.
"""

import contextlib
import datetime
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import BinaryIO

HERE = PurePosixPath()
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
LINKED = (errno.ELOOP, errno.ENOTDIR)  # what the system says of a link that it was told not to follow


class NotAFile(OSError):
    """There is a link, a pipe, a device or a directory under this name."""


class UntrustedFolder:
    """A folder whose names strangers may change at any moment. Paths are below it."""

    def __init__(self, root: Path):
        self.root = root
        self._root = os.open(root, DIRECTORY)  # the instructor's own path: links in it are followed

    def __enter__(self) -> "UntrustedFolder":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._root)

    def open(self, inside: PurePosixPath) -> BinaryIO:
        """Open a file for reading.

        Raises:
            NotAFile: it, or a folder on the way to it, is something else.
            OSError: it cannot be opened.
        """
        with self._directory(inside.parent) as above:
            return open_file(inside.name, above)

    def holds(self, name: str) -> bool:
        """Whether there is anything of this name at its top, a link too."""
        with contextlib.suppress(OSError):
            os.stat(name, dir_fd=self._root, follow_symlinks=False)
            return True
        return False

    def changed_at(self, inside: PurePosixPath) -> datetime.datetime:
        """When something in it was last changed; of a link, the link itself.

        Raises:
            OSError: it is gone, or nobody may look at it.
            ValueError, OverflowError: in a year that no calendar has.
        """
        with self._directory(inside.parent) as above:
            about = os.stat(inside.name, dir_fd=above, follow_symlinks=False)
        return datetime.datetime.fromtimestamp(about.st_mtime, datetime.UTC)

    def walk(self, start: PurePosixPath = HERE) -> Iterator[tuple[PurePosixPath, list[str], list[str], list[str], str]]:
        """List the folder from the top: path, names of folders, of files, and of links and special files.

        What the caller removes from the list of folders is not entered. The last entry says why a folder cannot be
        listed, "" if it can.
        """
        waiting = [start]
        while waiting:
            inside = waiting.pop()
            folders: list[str] = []
            files: list[str] = []
            others: list[str] = []
            why = ""
            try:
                with self._directory(inside) as place, os.scandir(place) as entries:
                    for entry in entries:
                        (folders if _is_folder(entry) else files if _is_file(entry) else others).append(entry.name)
            except OSError as bad:
                why = "a link, not followed" if isinstance(bad, NotAFile) else f"cannot be read ({bad.strerror})"
            for names in (folders, files, others):
                names.sort()
            yield inside, folders, files, others, why
            waiting += [inside / name for name in reversed(folders)]

    @contextlib.contextmanager
    def _directory(self, inside: PurePosixPath) -> Iterator[int]:
        """A directory below the root, opened part by part."""
        handle = os.dup(self._root)
        try:
            for part in inside.parts:
                below = open_directory(part, handle)
                os.close(handle)
                handle = below
            yield handle
        finally:
            os.close(handle)


def open_directory(name: str, above: int) -> int:
    """Open a folder that is not a link in the folder of this handle; the caller closes it.

    Raises:
        NotAFile: it is something else.
        OSError: it cannot be opened.
    """
    try:
        return os.open(name, DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
    except OSError as bad:
        if bad.errno in LINKED:
            raise NotAFile(bad.errno, "a folder on the way to it is not a folder") from None
        raise


def open_file(name: str, above: int) -> BinaryIO:
    """Open a file for reading, without waiting, in the folder of this handle.

    Raises:
        NotAFile: it is something else.
        OSError: it cannot be opened.
    """
    try:
        handle = os.open(name, FILE, dir_fd=above)
    except OSError as bad:
        if bad.errno in (*LINKED, errno.ENXIO):  # a link; a socket, or a device without a driver
            raise NotAFile(bad.errno, "it is not a file") from None
        raise
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise NotAFile(errno.EINVAL, "it is not a file")
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def changed_at(file: BinaryIO) -> datetime.datetime:
    """When an open file was last changed.

    Raises:
        ValueError, OverflowError: in a year that no calendar has.
    """
    return datetime.datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime, datetime.UTC)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:  # in a folder that nobody may look into: opening it says so
        return False


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file(follow_symlinks=False)
    except OSError:
        return True
