"""A trusted process that has imported the heavy libraries and forks one kernel per request.

Started by `Nursery`; reads one JSON line per kernel and answers with its process id. The forked
child joins the namespaces of a room, gives up every privilege, sets its limits and only then
becomes a kernel. The nursery itself never runs student code and holds no secret: it imports
neither a private check nor a solution, and its environment is empty but for what is set here.
"""

import ctypes
import fcntl
import gc
import importlib
import json
import os
import resource
import signal
import sys
import traceback
from typing import Any

NS_GET_USERNS = 0xB701  # ioctl_ns(2): the user namespace that owns a namespace
PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS = 4, 38
CAPABILITY_VERSION_3 = 0x20080522  # capset(2)
LIBC = ctypes.CDLL(None, use_errno=True)
# Everything that a kernel imports when it starts, whatever the notebook imports.
KERNEL_IMPORTS = (
    "debugpy",
    "ipykernel.debugger",
    "ipykernel.heartbeat",
    "ipykernel.zmqshell",
    "IPython.core.debugger",
    "ipykernel.kernelapp",
)


def enter(room: int) -> None:
    """Join every namespace of process `room`. Needs a single-threaded caller: call after fork.

    Unprivileged bubblewrap makes nested user namespaces: an outer one that owns the others, and an
    inner one in which the room runs. Join the owner first (it grants the rest), the inner one last.
    As root there is none: the room lives in ours.
    """
    names = ("ipc", "net", "uts", "pid", "mnt", "user")
    handle = {name: os.open(f"/proc/{room}/ns/{name}", os.O_RDONLY) for name in names}
    inner, ours = handle.pop("user"), os.stat("/proc/self/ns/user").st_ino
    owner = fcntl.ioctl(handle["mnt"], NS_GET_USERNS)
    if os.fstat(owner).st_ino != ours:
        _setns(owner, "owning user")
    for name, namespace in handle.items():
        _setns(namespace, name)
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
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(name, (most, most))


def close_inherited() -> None:
    """Leave the child no handle of the nursery's: standard streams go to /dev/null, the rest is closed."""
    null = os.open(os.devnull, os.O_RDWR)
    for handle in range(3):
        os.dup2(null, handle)
    os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def serve(connection: dict[str, Any], environment: dict[str, str], folder: str) -> None:
    """Become an IPython kernel in the room; returns when the kernel is shut down."""
    from ipykernel.kernelapp import IPKernelApp

    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    path = f"{connection['ip']}.json"
    with open(path, "w") as file:
        json.dump(connection, file)
    app = IPKernelApp.instance()
    app.initialize(["-f", path, "--HistoryManager.hist_file=:memory:", "--IPKernelApp.log_level=CRITICAL"])
    app.start()


def fork_kernel(request: dict[str, Any]) -> None:
    """Fork, enter the room, fork again (a process enters a pid namespace through its children only)."""
    if os.fork():
        return
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        os.setsid()
        if request["room"]:
            enter(request["room"])
        child = os.fork()
        if child:
            print(json.dumps({"kernel": child, "guardian": os.getpid()}), flush=True)
            os.waitpid(child, 0)
            return
        close_inherited()
        set_limits(request["limits"])
        if request["room"]:
            become_nobody(request["uid"])
        with open("/proc/self/oom_score_adj", "w") as score:
            score.write("1000")  # if memory runs out, this goes first
        serve(request["connection"], request["environment"], request["folder"])
    except Exception as error:  # before the answer the asker reads it there; after it, in the room
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
        with open(f"{request['connection']['ip']}.error", "w") as file:
            file.write(traceback.format_exc())
    finally:
        os._exit(0)


def main(modules: list[str]) -> None:
    """Import, say so, and serve requests until standard input closes."""
    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"
    for name in (*KERNEL_IMPORTS, *modules):
        importlib.import_module(name)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)  # one core a kernel: the workers share the machine
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # leave no zombies
    gc.collect()
    gc.freeze()  # keeps the pages of what is here shared with the children
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        fork_kernel(json.loads(line))


if __name__ == "__main__":
    main(sys.argv[1:])
