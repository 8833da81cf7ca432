"""A trusted process that has imported the heavy libraries and forks one kernel per request.

Started by `autograder.sandbox.preload`; on its socket it reads one JSON line per kernel and answers with the
kernel's process id. The forked child joins the namespaces of a sandbox, sets its limits, gives up every
privilege and most system calls, and only then becomes a kernel. The fork server itself never runs student
code and holds no secret: it imports neither a private check nor a solution, and its environment is
empty but for what is set here.
"""

import contextlib
import ctypes
import fcntl
import gc
import importlib
import json
import os
import random
import resource
import signal
import socket
import sys
import traceback
from typing import Any, NoReturn

from autograder.sandbox import no_compiler, scratch, seccomp

OWNER_SECONDS = 1.0  # how often we look whether the process that started us is still there
MAX_REQUEST = 65536
WRITING, READING = 3, 4  # where a kernel finds its end of the line to the judge
ENDING = {signal.SIGTERM}
NS_GET_USERNS = 0xB701  # ioctl_ns(2): the user namespace that owns a namespace
PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS = 4, 38
CAPABILITY_VERSION_3 = 0x20080522  # capset(2)
LIBC = ctypes.CDLL(None, use_errno=True)
LATER = {"numpy": "numpy.random", "torch": "torch.utils._device"}  # what these import when first asked, in every kernel
LARGE_PAGE = 2**21
# So few kernels are forked at once: for them, what follows would take longer than it spares. These packages a kernel
# can import by itself, and many need none of them.
FEW = 2
SPARED = ("PIL", "ipywidgets", "matplotlib", "matplotlib_inline", "pandas")
MADV_HUGEPAGE, MADV_COLLAPSE = 14, 25  # madvise(2)


def enter(sandbox: int) -> None:
    """Join every namespace of process `sandbox`. Needs a single-threaded caller: call after fork.

    Unprivileged bubblewrap makes nested user namespaces: an outer one that owns the others, and an
    inner one in which the sandbox runs. Join the owner first (it grants the rest), the inner one last.
    As root there is none: the sandbox lives in ours.
    """
    names = ("ipc", "net", "uts", "pid", "mnt", "user")
    handle = {name: os.open(f"/proc/{sandbox}/ns/{name}", os.O_RDONLY) for name in names}
    inner, ours = handle.pop("user"), os.stat("/proc/self/ns/user").st_ino
    owner = fcntl.ioctl(handle["mnt"], NS_GET_USERNS)
    if os.fstat(owner).st_ino != ours:
        _setns(owner, "owning user")
    for name, namespace in handle.items():
        _setns(namespace, name)
    scratch.show()
    if os.fstat(inner).st_ino not in (ours, os.fstat(owner).st_ino):
        _setns(inner, "user")


def _setns(handle: int, name: str) -> None:
    if LIBC.setns(handle, 0):
        raise OSError(ctypes.get_errno(), f"cannot join the {name} namespace")


def become_nobody(uid: int) -> None:
    """Give up root, if we are root, and every capability, and the way to gain any."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    if LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "cannot set no_new_privs")
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    if LIBC.capset(header, (ctypes.c_uint32 * 6)()):
        raise OSError(ctypes.get_errno(), "cannot drop capabilities")
    LIBC.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # else /proc/self would be root's


def set_limits(limits: dict[str, int]) -> None:
    """Bound this process and its children: memory, processes, file size; no core dumps."""
    with open("/proc/self/status") as status:
        inherited = int(next(line.split()[1] for line in status if line.startswith("VmData"))) * 2**10
    for name, most in (
        (resource.RLIMIT_DATA, inherited + limits["memory_mb"] * 2**20),
        (resource.RLIMIT_NPROC, limits["processes"]),
        (resource.RLIMIT_FSIZE, limits["file_mb"] * 2**20),
        (resource.RLIMIT_NOFILE, 1024),
        (resource.RLIMIT_CORE, 1),  # not 0: of no core for a program of the host either, see core(5)
    ):
        resource.setrlimit(name, (most, most))


def require_alone() -> None:
    """Make sure that no other process of the sandbox can be read or written.

    Raises:
        OSError: one can.
    """
    for other in (int(name) for name in os.listdir("/proc") if name.isdecimal()):
        if other != os.getpid():
            try:
                os.close(os.open(f"/proc/{other}/mem", os.O_RDONLY))
            except PermissionError:
                continue
            raise OSError("the first process of the sandbox is open to others: set fs.suid_dumpable to 0")


def close_inherited(line: tuple[int, int]) -> tuple[int, int]:
    """Leave the child the line to the judge and nothing else, and return it: standard streams go to /dev/null."""
    null = os.open(os.devnull, os.O_RDWR)
    reading, writing = (fcntl.fcntl(end, fcntl.F_DUPFD, READING + 1) for end in line)
    os.dup2(writing, WRITING)
    os.dup2(reading, READING)
    for handle in range(WRITING):
        os.dup2(null, handle)
    os.closerange(READING + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    return READING, WRITING


def fork_kernel(
    request: dict[str, Any], asker: socket.socket, line: tuple[int, int], refused: dict[bool, bytes]
) -> None:
    """Fork, enter the sandbox, fork again (a process enters a pid namespace through its children only).

    What goes wrong on the way is told the asker, in place of a number, or on the line, in place of the kernel's
    first word; nobody, when the judge has ended meanwhile and its sandbox with it.
    """
    from autograder.sandbox import guests, kernel_main
    from utils.grading import protocol

    if os.fork():
        return
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        os.setsid()
        group = os.open(request["group"], os.O_WRONLY)  # in the sandbox it is not there
        enter(request["sandbox"])
    except Exception:
        with contextlib.suppress(ConnectionError):
            asker.sendall(json.dumps(traceback.format_exc()).encode() + b"\n")
        os._exit(1)
    try:
        child = os.fork()
        if child:
            asker.sendall(json.dumps(child).encode() + b"\n")
            asker.close()
            for end in line:
                os.close(end)  # so that the judge hears at once when the kernel closes its own
            os.waitpid(child, 0)
            os._exit(0)
        os.write(group, b"0")
        line = close_inherited(line)
        os.setsid()  # the sandbox's own: a signal to its group must not reach the process above, which is outside
        seccomp.join_own_keyring()
        with open("/proc/self/oom_score_adj", "w") as score:
            score.write("1000")  # if memory runs out, this goes first; set by root, it can only go up
        set_limits(request["limits"])
        become_nobody(request["uid"])
        seccomp.refuse(refused[request["gpu"]])
        require_alone()
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request["folder"])
        kernel_main.keep_files_in(request["environment"]["IPYTHONDIR"])
        (seed_at_random if request["guest"] else seed)()
    except Exception:
        with contextlib.suppress(ConnectionError):
            protocol.send(protocol.Pipes(*line), traceback.format_exc().encode())
        os._exit(1)
    try:
        serve = guests.serve if request["guest"] else kernel_main.serve
        serve(kernel_main.HandInShell.instance(), protocol.Pipes(*line))
    finally:
        os._exit(0)


def reap(options: int) -> None:
    """Collect ended guardians: no zombies, and the kernels' CPU time is accounted to the grading run."""
    try:
        while os.waitpid(-1, options)[0]:
            pass
    except ChildProcessError:
        return


def end(*_: object) -> NoReturn:
    """Collect all and end. Python itself would first tidy up what was imported, for a quarter of a second."""
    reap(0)
    os._exit(0)


def seed() -> None:
    """Seed whatever draws at random in a kernel of our course: the same submission gets the same verdicts in every run.

    To be called in the child: Python seeds `random` again after a fork.
    """
    random.seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


def seed_at_random() -> None:
    """Seed the kernel of another course as a new process would be: its notebooks seed what they want to repeat.

    A fork would leave every kernel the state that numpy and torch had here. Python seeds `random` again after a fork.
    """
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    if "torch" in sys.modules:
        sys.modules["torch"].seed()


def gather() -> None:
    """Move this process's memory into large pages where the system has them: a fork then copies a tenth of the table.

    It is advice, which older systems do not know and nobody need take.
    """
    LIBC.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    with open("/proc/self/maps") as maps:
        lines = [line.split() for line in maps]
    for where, rights, *_, inode, name in (line if len(line) > 5 else [*line, ""] for line in lines):
        if rights != "rw-p" or inode != "0" or name not in ("", "[heap]"):
            continue
        first, last = (int(end, 16) for end in where.split("-"))
        for page in range(-(-first // LARGE_PAGE) * LARGE_PAGE, last - LARGE_PAGE + 1, LARGE_PAGE):
            LIBC.madvise(page, LARGE_PAGE, MADV_HUGEPAGE)
            LIBC.madvise(page, LARGE_PAGE, MADV_COLLAPSE)


def main(path: str, owner: int, modules: list[str]) -> None:
    """Import, listen on the socket `path`, and serve requests for as long as the process `owner` lives."""
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(path)  # askers queue here while we import
    except FileNotFoundError:  # the process that started us was interrupted, and has removed the folder
        return
    listener.listen(128)
    gc.disable()  # what is imported stays
    from autograder.sandbox import kernel_main

    kernel_main.make(f"{os.path.dirname(path)}/ipython")  # first: libraries ask on import whether there is an IPython
    no_compiler.install()
    spared = [name for name in modules if name.split(".")[0] in SPARED]
    for name in modules:
        if name not in spared:
            importlib.import_module(name)
    refused = {gpu: seccomp.program(gpu) for gpu in (False, True)}
    for library, later in LATER.items():
        if library in sys.modules:
            importlib.import_module(later)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)  # one core a kernel: the workers share the machine
        if sys.modules["torch"].cuda.is_initialized():
            sys.exit("a module that course.toml preloads initialises CUDA: no kernel forked after that could use it")
    signal.signal(signal.SIGCHLD, lambda *_: reap(os.WNOHANG))
    signal.signal(signal.SIGTERM, end)
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    gc.freeze()  # keeps the pages of what is here shared with the children; to collect it first takes 0.2 s
    gc.enable()
    listener.settimeout(OWNER_SECONDS)
    forked = 0
    try:
        while os.getppid() == owner:
            try:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)  # only here: never in the middle of a fork
                asker, _ = listener.accept()
            except TimeoutError:
                continue
            finally:
                signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
            with asker:
                asked, lines, _, _ = socket.recv_fds(asker, MAX_REQUEST, 2)
                if asked and len(lines) == 2:
                    if forked == FEW:
                        for name in spared:
                            importlib.import_module(name)
                        gc.freeze()
                        gather()
                    forked += 1
                    fork_kernel(json.loads(asked), asker, (lines[0], lines[1]), refused)
                for line in lines:
                    os.close(line)
    finally:
        reap(0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
