"""Work on what a stranger wrote, in a child process with limits of time and memory.

A parser that takes a minute for a short file, or gigabytes, or that dies of it, costs its child and nothing
else: the caller gets `TooCostly` and goes on. A template process imports what the functions need and forks the
child, which is kept between calls; another one takes milliseconds. Each thread has its own. What crosses is
plain data, never pickle.
"""

import contextlib
import gc
import importlib
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgpack

SECONDS = 10.0
MEMORY_MB = 768
MAX_REPLY = 2**26  # bytes
WAITS = (5, 10)  # wall-clock seconds for each of processor time, and besides: other processes want theirs too
MEMORY, DEEP = "memory", "deep"


class TooCostly(Exception):
    """A limit ended a call; the message says which, as the end of a sentence: "it takes more than ..."."""


def call(function: Callable[..., Any], *args: Any, seconds: float = SECONDS, memory_mb: int = MEMORY_MB) -> Any:
    """What `function(*args)` answers, worked out in the child.

    The function is one of a module's top level; it should be in a module that imports no torch. Arguments and
    answer are plain data (None, numbers, text, bytes, lists, dicts); tuples arrive as lists. `seconds` is
    processor time, `memory_mb` what the child may have in all.

    Raises:
        TooCostly: it took more than that, or was nested too deep, or the child died of it.
        Exception: what the function raises, by its class and text; its nearest known base if it cannot be built.
    """
    asked = [function.__module__, function.__qualname__, args, seconds, memory_mb * 2**20]
    helper: _Helper | None = getattr(_threads, "helper", None)
    if helper is None:
        helper = _threads.helper = _Helper()
    return helper.call(msgpack.packb(asked, unicode_errors="surrogatepass"), function.__module__, seconds, memory_mb)


class _Helper:
    """The template of a thread, and the child that it forked last."""

    def __init__(self) -> None:
        self._control: socket.socket | None = None
        self._child: Connection | None = None
        self._modules: dict[str, None] = {}  # that functions came from, in order

    def call(self, asked: bytes, module: str, seconds: float, memory_mb: int) -> Any:
        """Ask the child; another takes its place if it dies of it."""
        if module not in self._modules:
            self._modules[module] = None
            self._renew()
        if self._child is None:
            self._renew()
        assert self._child is not None
        late = False
        try:
            self._child.send_bytes(asked)
            late = not self._child.poll(WAITS[0] * seconds + WAITS[1])
            if late:
                raise EOFError
            reply = self._child.recv_bytes(MAX_REPLY)
        except (EOFError, OSError):
            ended = self._renew()
            if late or ended == -signal.SIGPROF:
                raise TooCostly(f"it takes more than {seconds:g} seconds to read") from None
            raise TooCostly("it breaks the program that reads it") from None
        except BaseException:  # interrupted: its reply would be taken for that to the next call
            self._child.close()
            self._child = None
            raise
        answer = msgpack.unpackb(reply, strict_map_key=False, unicode_errors="surrogatepass")
        if answer.get("cost") == MEMORY:
            self._renew()
            raise TooCostly(f"it takes more than {memory_mb} MB of memory to read")
        if answer.get("cost") == DEEP:
            raise TooCostly("it is nested too deep")
        if "error" in answer:
            raise _rebuilt(*answer["error"])
        return answer["value"]

    def _renew(self) -> int:
        """Have a new child forked; how the last one ended: its exit code, negative for a signal."""
        if self._child is not None:
            self._child.close()
            self._child = None
        for _ in range(2):
            if self._control is None:
                self._control = _template()
            try:
                self._control.sendall(" ".join(self._modules).encode() + b"\n")
                ended, handles, _, _ = socket.recv_fds(self._control, 4, 1)
                self._child = Connection(handles[0])
                return int.from_bytes(ended, signed=True)
            except (OSError, IndexError):  # somebody killed it
                self._control.close()
                self._control = None
        raise RuntimeError("the process that reads submissions cannot be started")


def _template() -> socket.socket:
    """Start a template; it ends when the socket is closed."""
    here, there = socket.socketpair()
    root = Path(__file__).resolve().parents[1]
    with there:
        subprocess.Popen(
            [sys.executable, "-m", "autograder.limited", str(there.fileno())],
            pass_fds=[there.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # parsers warn of what they parse
            start_new_session=True,  # an interrupt is for who started us
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root)},
        )
    return here


def _rebuilt(lineage: list[list[str]], args: list[Any]) -> Exception:
    """The exception of these arguments, of the first class that is known here and takes them."""
    for module, name in lineage:
        known = getattr(sys.modules.get(module), name, None)
        if isinstance(known, type) and issubclass(known, Exception):
            with contextlib.suppress(Exception):
                return known(*args)
    return RuntimeError(*args)


_threads = threading.local()  # threads work side by side


def _anew() -> None:
    global _threads
    _threads = threading.local()


os.register_at_fork(after_in_child=_anew)


def _fork_children(control: socket.socket) -> None:
    """The template: fork a child whenever asked, with what is imported already; only one lives."""
    child = 0
    with control.makefile("rb") as requests:
        for request in requests:
            ended = 0
            if child:
                os.kill(child, signal.SIGKILL)
                ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            for name in request.decode().split():
                with contextlib.suppress(Exception):  # the child meets it again, and says so
                    importlib.import_module(name)
            gc.freeze()
            here, there = socket.socketpair()
            with here, there:
                child = os.fork()
                if child == 0:
                    try:
                        control.close()
                        here.close()
                        _serve(Connection(there.detach()))
                    finally:
                        os._exit(0)
                socket.send_fds(control, [ended.to_bytes(4, signed=True)], [here.fileno()])
    if child:
        os.kill(child, signal.SIGKILL)


def _serve(line: Connection) -> None:
    """The child: answer calls until nobody asks any more."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    while True:
        try:
            module, name, args, seconds, most = msgpack.unpackb(
                line.recv_bytes(), strict_map_key=False, unicode_errors="surrogatepass"
            )
        except EOFError:
            return
        resource.setrlimit(resource.RLIMIT_DATA, (most if hard < 0 else min(most, hard), hard))
        signal.setitimer(signal.ITIMER_PROF, seconds)  # its signal, which nobody handles, ends this process
        reply = _reply(module, name, args)
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
        line.send_bytes(reply)


def _reply(module: str, name: str, args: list[Any]) -> bytes:
    try:
        function = getattr(importlib.import_module(module), name)
        return _packed({"value": function(*args)})
    except MemoryError:
        return _packed({"cost": MEMORY})
    except RecursionError:
        return _packed({"cost": DEEP})
    except Exception as raised:
        lineage = [(kind.__module__, kind.__qualname__) for kind in type(raised).__mro__]
        try:
            return _packed({"error": [lineage, raised.args]})
        except Exception:  # arguments that are not plain data
            return _packed({"error": [lineage, [str(raised)]]})


def _packed(answer: dict[str, Any]) -> bytes:
    return msgpack.packb(answer, unicode_errors="surrogatepass")


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(fileno=int(sys.argv[1])) as mine:
        _fork_children(mine)
