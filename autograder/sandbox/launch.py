"""Starts the process in which the cells of one submission run, and ends it with all that it started."""

import json
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from autograder.course import FOLDER, ROOT, Settings
from autograder.sandbox import preload
from autograder.sandbox.sandbox import NOTHING, PROGRAMS, WORK, Extras, Sandbox, SandboxError, has_ended
from utils.grading import protocol

SERVER_SECONDS = 180  # it imports torch first, and the machine may be busy


@dataclass(frozen=True)
class Process:
    """A process that runs `autograder.sandbox.kernel_main`: our end of the line to it, and what can be done to it."""

    line: protocol.Pipes
    alive: Callable[[], bool]
    used: Callable[[], float]  # seconds of a processor's time, with those of its children that it has collected
    interrupt: Callable[[], None]
    kill: Callable[[], str]  # answers with the limit that it broke, or ""
    work: Path | None = None  # where its files are found from outside; gone with its sandbox


@dataclass(frozen=True)
class Guest:
    """A submission of another course: it finds files beside its notebook, and nothing of ours."""

    files: tuple[Path, ...]  # directories of plain files, the later ones over the earlier; their notebooks are left out
    notebooks: Mapping[str, str]  # the text of those that it finds, by name
    environment: Mapping[str, str]  # what a kernel finds there in addition
    extras: Extras = NOTHING  # what it is shown of the host


@contextmanager
def in_sandbox(course: Settings, server: str = "", guest: Guest | None = None) -> Iterator[Process]:
    """A process in a sandbox, forked by the fork server at the socket `server`, or by our own.

    Raises:
        SandboxError: there is no sandbox, no fork server, or no way into the sandbox.
    """
    with ExitStack() as stack:
        ours, theirs = protocol.pair()
        stack.enter_context(ours)
        with theirs:
            sandbox, number = _fork(stack, server, course, theirs, guest)
        process = os.pidfd_open(number)
        stack.callback(os.close, process)

        def alive() -> bool:
            return not has_ended(process)

        def interrupt() -> None:
            with suppress(ProcessLookupError):  # it is gone, which is what signals here are for
                signal.pidfd_send_signal(process, signal.SIGINT)

        def kill() -> str:
            sandbox.close()  # no process of it is left afterwards
            return sandbox.refused

        stack.callback(kill)
        yield Process(ours, alive, _clock_of(number), interrupt, kill, sandbox.work)


@contextmanager
def trusted(course: Settings) -> Iterator[Process]:
    """An ordinary process of this machine, for submissions that the instructor trusts."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        ours, theirs = protocol.pair()
        stack.enter_context(ours)
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", "autograder.sandbox.kernel_main", str(theirs.reading), str(theirs.writing)],
                cwd=folder,
                env=os.environ
                | {"PYTHONPATH": path, "COURSE_PROFILE": course.grading.profile, "MPLBACKEND": preload.INLINE}
                | {"AUTOGRADER_COURSE": str(FOLDER), "COURSE_HOME": str(FOLDER)},
                pass_fds=[theirs.reading, theirs.writing],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

        def kill() -> str:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return ""

        stack.callback(kill)
        used = _clock_of(process.pid)
        yield Process(ours, lambda: process.poll() is None, used, lambda: process.send_signal(signal.SIGINT), kill)


def _clock_of(number: int) -> Callable[[], float]:
    """The processor time of a process in seconds; infinite once it is gone."""
    process: psutil.Process | None = None

    def used() -> float:
        nonlocal process
        try:
            process = process or psutil.Process(number)
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            return math.inf
        return times.user + times.system + times.children_user + times.children_system

    return used


def _fork(
    stack: ExitStack, server: str, course: Settings, line: protocol.Pipes, guest: Guest | None
) -> tuple[Sandbox, int]:
    """A kernel from the fork server we were told of, from our own if that one is gone: its sandbox and process id."""
    if server:
        for _ in range(2):  # killed while we asked, it is started again at the same path
            with suppress(SandboxError, OSError):
                return _fork_from(stack, server, course, line, guest)
    return _fork_from(stack, preload.fork_server(course.grading.preload).start(), course, line, guest)


def _fork_from(
    stack: ExitStack, path: str, course: Settings, line: protocol.Pipes, guest: Guest | None
) -> tuple[Sandbox, int]:
    grading, shown = course.grading, None if guest else preload.course_beside(path)
    with ExitStack() as attempt:
        extras = replace(guest.extras, programs=(*PROGRAMS, *guest.extras.programs)) if guest else NOTHING
        sandbox = attempt.enter_context(Sandbox(course.limits, grading.gpu, shown, extras))
        environment = kernel_environment(grading.profile, grading.gpu)
        if guest:
            sandbox.put(guest.files, guest.notebooks)
            programs = (
                f"{os.path.dirname(sys.executable)}:{preload.LOCALE['PATH']}"  # also this Python: `!python`, `!pip`
            )
            environment |= {"PATH": programs, **guest.environment}
        else:
            environment |= {"PYTHONPATH": str(shown)}
        number = fork_kernel(path, sandbox, line, environment, guest is not None)
        stack.push(attempt.pop_all())
    return sandbox, number


def fork_kernel(
    path: str, sandbox: Sandbox, line: protocol.Pipes, environment: dict[str, str], guest: bool = False
) -> int:
    """Ask the fork server at the socket `path` for a kernel in `sandbox` that has this end of a line; its process id.

    Raises:
        SandboxError: the fork server is not there, or the kernel cannot enter the sandbox.
    """
    request = {
        "sandbox": sandbox.pid,
        "group": sandbox.group.processes if sandbox.group else os.devnull,
        "uid": sandbox.uid,
        "gpu": sandbox.gpu,
        "limits": sandbox.limits.model_dump(),
        "environment": environment,
        "folder": WORK,
        "guest": guest,
    }
    with socket.socket(socket.AF_UNIX) as asker:
        asker.settimeout(SERVER_SECONDS)
        late = time.monotonic() + SERVER_SECONDS
        while True:
            try:
                asker.connect(path)
                break
            except (FileNotFoundError, ConnectionRefusedError):
                if time.monotonic() > late or not os.path.isdir(os.path.dirname(path)):
                    raise SandboxError(f"no fork server at {path}") from None
                time.sleep(0.05)  # it has only just been started
        socket.send_fds(asker, [json.dumps(request).encode()], [line.reading, line.writing])
        told = asker.makefile().readline()
    answer = json.loads(told or '"the fork server died"')
    if not isinstance(answer, int):
        raise SandboxError(f"the kernel does not get into its sandbox: {answer}")
    return answer


def kernel_environment(profile: str, gpu: bool) -> dict[str, str]:
    """All that a kernel in a sandbox finds in its environment; of our own, the GPU that this worker was given."""
    devices = os.environ.get("CUDA_VISIBLE_DEVICES") if gpu else ""
    given = {} if devices is None else {"CUDA_VISIBLE_DEVICES": devices}
    return (
        preload.LOCALE
        | preload.ENVIRONMENT
        | given
        | {
            "HOME": WORK,
            "USER": "student",
            "MPLCONFIGDIR": "/tmp/matplotlib",
            "IPYTHONDIR": "/tmp/ipython",
            "XDG_CACHE_HOME": "/tmp/cache",
            "PIP_RETRIES": "0",  # there is no network: pip gives up at once
            "COURSE_PROFILE": profile,
        }
    )
