# Secrets in reach: a submission searches its whole world for canaries and for lines of solutions, checks and mark
# schemes.

# %% name="searches all files" attack="tests or solutions on disk" shows="FOUND: []"
import os

found, read = FOUND, 0
system = ("/usr", "/bin", "/sbin", "/lib", "/proc", "/sys", "/dev", *PREFIXES)
for folder, folders, names in os.walk("/"):
    folders[:] = [name for name in folders if not os.path.join(folder, name).startswith(system)]
    for name in names:
        try:
            with open(os.path.join(folder, name), errors="ignore") as file:
                text, read = file.read(10**6), read + 1
        except OSError:
            continue
        found += secrets_in(text, os.path.join(folder, name))
assert read > 20, read
print("FOUND:", found)

# %% name="searches its own memory" attack="tests or solutions in memory" shows="FOUND: []"
import re

found, read = FOUND, 0
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb") as memory:
    for line in maps:
        first, last = (int(part, 16) for part in line.split()[0].split("-"))
        for start in range(first, last if "rw" in line else first, 2**23):
            try:
                memory.seek(start)
                part = memory.read(min(2**23, last - start))
            except (OSError, ValueError, OverflowError):
                break
            read += len(part)
            found += [where.group() for where in re.finditer(CANARY.encode() + rb"[0-9a-f]{8}", part)]
assert read > 2**24, read
print("FOUND:", found)

# %% name="searches processes" attack="secrets in the environment and in /proc" shows="FOUND: []"
import os

found, read = FOUND, 0
for folder, folders, names in os.walk("/proc"):
    folders[:] = [name for name in folders if name not in ("task", "map_files", "attr", "net")][:400]
    for name in names:
        if name in ("environ", "cmdline", "cwd", "root", "maps", "mounts", "mountinfo", "comm", "stack", "syscall"):
            try:
                with open(os.path.join(folder, name), errors="ignore") as file:
                    text, read = file.read(10**5), read + 1
            except OSError:
                continue
            found += secrets_in(text, os.path.join(folder, name))
found += secrets_in(str(dict(os.environ)), "the environment")
assert read > 5, read
print("FOUND:", found)

# %% name="searches objects and frames" attack="tests or solutions in stack frames" where="each" shows="FOUND: []" twin=false
import gc, inspect, sys


def look(*args, **kwargs):
    found, seen, frame = FOUND, 0, sys._getframe()
    while frame:
        found += secrets_in(str({**frame.f_locals}.keys()) + str([*frame.f_globals]), "a frame")
        try:
            found += secrets_in(inspect.getsource(frame), "the source of a frame")
        except (OSError, TypeError):
            pass
        frame, seen = frame.f_back, seen + 1
    kinds = {"autograder." + name for name in ("author.checks", "grading.judge", "grading.grade", "sandbox.kernel")}
    found += [repr(item)[:80] for item in gc.get_objects() if getattr(type(item), "__module__", "") in kinds]
    found += [name for name in sys.modules if name in kinds or "private" + "_checks" in name]
    assert seen > 2
    return found


print("FOUND:", look())
for name in NAMES:
    globals()[name] = look

# %% name="reads the input history" attack="secrets in input history" shows="FOUND: []"
from IPython import get_ipython

shell, found = get_ipython(), FOUND
found += secrets_in("\n".join(map(str, shell.user_ns["In"])), "In")
found += secrets_in("\n".join(map(str, shell.history_manager.get_range(session=0))), "the history")
found += secrets_in("\n".join(map(str, shell.history_manager.get_tail(1000))), "older sessions")
assert len(shell.user_ns["In"]) > 1
print("FOUND:", found)

# %% name="imports the instructor" attack="tests or solutions on disk" shows="FOUND: []"
import importlib, sys

found = FOUND
sys.path += ["PROJECT", "PROJECT/solutions", "PROJECT/tests"]
for name in ("author.checks", "grading.judge", "grading.grade", "synthetic", "author.answers", "author.release"):
    try:
        found.append(importlib.import_module("autograder." + name).__file__)
    except ImportError:
        pass
for name in ("BOOK/private_checks", "BOOK/wrong_answers", "BOOK/notebook"):
    try:
        found += secrets_in(open(f"PROJECT/solutions/{name}.py").read(), name)
    except OSError:
        pass
print("FOUND:", found)

# %% name="leaves by proc" attack="secrets in the environment and in /proc" shows="FOUND: []"
import os

found = FOUND
for door in ("/proc/1/root", "/proc/self/root", f"/proc/{os.getppid()}/root", "/proc/1/cwd", "/proc/self/cwd/../.."):
    for path in ("PROJECT/solutions", "PROJECT/.git", "TREE", "TREE/gradebook.db", "/root/.ssh", "/etc/shadow"):
        try:
            found += os.listdir(door + path) if os.path.isdir(door + path) else open(door + path).readlines()
        except OSError:
            pass
print("FOUND:", found)

# %% name="reads other processes" attack="secrets in the environment and in /proc" shows="FOUND: []"
import ctypes, os

libc, found = ctypes.CDLL(None, use_errno=True), FOUND
others = [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
for pid in [*others, os.getppid(), GRADER]:
    if pid and libc.ptrace(16, pid, None, None) == 0:
        found.append(f"attached to {pid}")
    if pid == GRADER and os.path.exists(f"/proc/{pid}/environ"):
        found += secrets_in(open(f"/proc/{pid}/environ", errors="ignore").read(), "the grader")
assert ctypes.get_errno() == 1
print("FOUND:", found)

# %% name="looks around on the host" attack="tests or solutions on disk" shows="FOUND: []"
import os

found = FOUND
for path in ("/usr/local", "/usr/sbin", "/usr/libexec", "/usr/src", "/usr/include", "/usr/share/doc", "/usr/share/man",
             "/usr/share/keyrings", "/usr/lib/systemd", "/usr/lib/apt", "/usr/lib/dpkg", "/usr/bin/su", "/usr/bin/ssh",
             "/usr/bin/git", "/usr/bin/gcc", "/var", "/opt", "/srv", "/home", "/boot", "/sys", "/mnt", "/media",
             "/etc/hostname", "/etc/hosts", "/etc/shadow", "/etc/group", "/etc/ssh", "/etc/ssl", "/etc/environment",
             "/etc/fstab", "/etc/resolv.conf", "/etc/machine-id"):  # fmt: skip
    if os.path.exists(path) and not any(one.startswith(path + "/") for one in ("PROJECT", "TREE", *PREFIXES)):
        found.append(path)
print("FOUND:", found)

# %% name="reads the instructor's keys" attack="secrets in the environment and in /proc" shows="FOUND: []"
import ctypes, os

libc, found = ctypes.CDLL(None, use_errno=True), FOUND
for name in ("keys", "key-users"):
    try:
        found += open(f"/proc/{name}").readlines()
    except OSError:
        pass
calls = {"add_key": 248, "request_key": 249, "keyctl": 250}
for name, number in calls.items() if os.uname().machine == "x86_64" else ():
    for keyring in (-3, -4, -5):
        if libc.syscall(number, 11, keyring, 0, 0, 0) >= 0 or ctypes.get_errno() != 1:
            found.append(name)
print("FOUND:", found)

# %% name="opens every socket" attack="network" shows="REACHED: []"
import socket

reached = []
addresses = [(socket.AF_INET, ("127.0.0.1", PORT)), (socket.AF_INET, ("8.8.8.8", 53)), (socket.AF_INET6, ("::1", PORT))]
addresses += [(socket.AF_UNIX, "SOCKET"), (socket.AF_UNIX, "\0ABSTRACT"), (socket.AF_INET, ("169.254.169.254", 80))]
for family, address in addresses:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        try:
            with socket.socket(family, kind) as one:
                one.settimeout(0.2)
                one.connect(address)
                one.send(b"secret")
                if kind == socket.SOCK_STREAM or one.recv(1):
                    reached.append(address)
        except OSError:
            pass
print("REACHED:", reached)

# %% name="asks the fork server for a kernel" attack="network" shows="REACHED: []"
import glob, socket

reached = []
line = open("/proc/self/cmdline").read().split("\0")
for path in [*(part for part in line if part.startswith("/")), *glob.glob("/tmp/fork-server*/*")]:
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.connect(path)
            reached.append(path)
    except OSError:
        pass
assert "autograder.sandbox.fork_server" in " ".join(line)
print("REACHED:", reached)

# %% name="uses sockets that no namespace cuts" attack="network" shows="REACHED: []"
import socket

reached = []
for family in [number for number in range(46) if number not in (1, 2, 10, 16)]:
    try:
        socket.socket(family, socket.SOCK_RAW if family == 17 else socket.SOCK_STREAM)
        reached.append(family)
    except OSError as refused:
        assert refused.errno == 97, refused
print("REACHED:", reached)

# %% name="repeats what it is asked" attack="secrets in the feedback" where="each" twin=false
import atexit

told = []
for name in NAMES:
    globals()[name] = lambda *args, **kwargs: told.append(repr((args, kwargs))[:200]) or 1 / 0

# %% name="raises what it finds" attack="secrets in the feedback" where="each" twin=false told="raised"
import os


def raises(*args, **kwargs):
    raise ValueError(str(dict(os.environ)) + str(os.listdir("/")) + open("/proc/self/cmdline").read())


for name in NAMES:
    globals()[name] = raises
