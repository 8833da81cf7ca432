"""The folders of a sandbox that can be written to: one file system in memory, so that one limit holds for all of it."""

import ctypes
import os
from collections.abc import Collection

WHOLE = "/tmp"
WORK = "/hand_in"
PARTS = {WORK: f"{WHOLE}/.hand_in", "/dev/shm": f"{WHOLE}/.shm"}  # other folders, and which folder of the whole each is
LIBC = ctypes.CDLL(None, use_errno=True)
MS_BIND = 4096  # mount(2)


def words(megabytes: int, shown: Collection[str]) -> list[str]:
    """bubblewrap's arguments that make the file system, and empty folders where `show` mounts its parts.

    A part would cover what of the host is `shown` in its place, as a course in /dev/shm: a file system of its own is
    made there instead.
    """
    scratch = ["--perms", "1777", "--size", str(megabytes * 2**20), "--tmpfs"]
    made = [*scratch, WHOLE]
    for folder, part in PARTS.items():
        if any(path.startswith(f"{folder}/") for path in shown):
            made += [*scratch, folder]
        else:
            made += ["--perms", "0755", "--dir", folder, "--perms", "1777", "--dir", part]
    return made


def show() -> None:
    """Mount the parts where they belong, in the mount namespace that this process has joined; bubblewrap cannot.

    Raises:
        OSError: the system does not let us.
    """
    for folder, part in PARTS.items():
        if os.path.isdir(part) and LIBC.mount(part.encode(), folder.encode(), None, MS_BIND, None):
            raise OSError(ctypes.get_errno(), f"cannot mount {folder}")
