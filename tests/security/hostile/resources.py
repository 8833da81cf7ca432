# Resources: each of these would take the whole machine, or the grader, if its sandbox had no limits. Limits are low
# here.

# %% name="loops" attack="endless loops" told="longer than"
while True:
    pass

# %% name="loops and ignores interrupts" attack="endless loops that ignore interrupts" told="did not stop"
import signal

signal.signal(signal.SIGINT, signal.SIG_IGN)
while True:
    pass


# %% name="loops in an answer" attack="endless loops that ignore interrupts" where="first" told="longer than"
def forever(*args, **kwargs):
    while True:
        try:
            while True:
                pass
        except KeyboardInterrupt:
            pass


for name in NAMES:
    globals()[name] = forever

# %% name="stops itself" attack="endless loops that ignore interrupts" told="kernel restarted"
import os, signal

os.kill(os.getpid(), signal.SIGSTOP)

# %% name="takes for ever to compare" attack="endless loops" told="longer than"
import re

re.match(r"(a|a)*b", "a" * 40)

# %% name="answers without end" attack="memory" where="first"
import itertools

for name in NAMES:
    globals()[name] = lambda *args, **kwargs: itertools.repeat(7)

# %% name="hoards" attack="memory" shows="MemoryError|more than 1024 MB of memory"
hoard = [bytearray(2**28) for _ in range(100)]

# %% name="hoards in children" attack="memory" told="of memory|longer than"
import os, time

for _ in range(20):
    if not os.fork():
        hoard = bytearray(os.urandom(2**16)) * 2**11
        time.sleep(60)
time.sleep(60)

# %% name="shares memory that nobody counts" attack="memory" shows="TAKEN: []"
import ctypes, os

libc, taken = ctypes.CDLL(None, use_errno=True), []
try:
    taken.append(os.memfd_create("x"))
except OSError:
    pass
if libc.shmget(0, 2**30, 0o1600) >= 0:
    taken.append("shm")
if libc.msgget(0, 0o1600) >= 0:
    taken.append("msg")
if libc.semget(0, 32000, 0o1600) >= 0:
    taken.append("sem")
print("TAKEN:", taken)

# %% name="forks without end" attack="forks" told="kernel restarted"
import os

while True:
    try:
        os.fork()
    except OSError:
        pass

# %% name="starts threads without end" attack="forks" shows="can't start new thread"
import threading, time

while True:
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()

# %% name="fills the disk" attack="disk" shows="No space left"
for number in range(100):
    with open(f"/hand_in/{number}", "wb") as file:
        file.write(bytes(7 * 2**20))

# %% name="writes one large file" attack="disk" shows="File too large"
with open("/tmp/large", "wb") as file:
    for _ in range(100):
        file.write(bytes(2**20))

# %% name="makes a million files" attack="disk" told="made more than|longer than"
import os

for number in range(10**6):
    os.close(os.open(f"/tmp/{number}", os.O_CREAT))

# %% name="raises its own limits" attack="disk" shows="RAISED: []"
import os, resource

raised = []
for name in ("RLIMIT_DATA", "RLIMIT_NPROC", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_CORE"):
    try:
        resource.setrlimit(getattr(resource, name), (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        raised.append(name)
    except (OSError, ValueError):
        pass
try:
    os.nice(-5)
    raised.append("nice")
except OSError:
    pass
print("RAISED:", raised)

# %% name="prints one long line" attack="output on one line" told="printed more|longer than"
print("x" * 10**8)

# %% name="prints many lines" attack="output on one line" told="printed more"
while True:
    print("flood")

# %% name="shows many pictures" attack="output on one line" told="printed more|longer than"
from IPython.display import display

for _ in range(2000):
    display({"image/png": "AAAA", "text/plain": "x"}, raw=True)

# %% name="floods the grader with frames" attack="output on one line" told="not outputs|longer than|died"
import os

while True:
    os.write(3, (2**20).to_bytes(4) + bytes(2**20))

# %% name="sends what is not a message" attack="output on one line" told="not outputs"
import os

os.write(3, (5).to_bytes(4) + b"other")

# %% name="puts out more than it printed" attack="output on one line" told="returned more|not outputs|printed more"
shell = get_ipython()
shell.outputs.packed = lambda: (
    b"\x91\x83\xa4kind\xa6stream\xa4name\xa6stdout\xa4text\xdb\x01\x00\x00\x00" + b"x" * 2**24
)

# %% name="prints past the limit" attack="output on one line" told="printed more"
shell = get_ipython()
shell.outputs._stop_if_too_much = lambda: None
print("x" * 10**6)

# %% name="claims a huge answer" attack="memory" told="returned more than" twin=false
import os

os.write(3, b"\xff\xff\xff\xff" + bytes(100))

# %% name="packs a huge answer" attack="memory" twin=false
from utils.grading import dispatch

small = b"\x81\xa5value\xdd" + (2**24).to_bytes(4) + b"\x90" * 2**24
dispatch.answer = lambda namespace, request: small
print("TRICK done")

# %% name="answers with a huge tensor" attack="memory" where="first"
for name in NAMES:
    globals()[name] = lambda *args, **kwargs: torch.zeros(1).expand(2**30)

# %% name="answers byte by byte" attack="endless loops" where="first" told="longer than"
import os, time


def dribble(*args, **kwargs):
    os.write(3, (2**20).to_bytes(4))
    while True:
        os.write(3, b"x")
        time.sleep(0.2)


for name in NAMES:
    globals()[name] = dribble

# %% name="leaves processes behind" attack="background processes that outlive grading" shows="TRICK left"
import subprocess

for command in (
    "sleep SECONDS",
    "nohup setsid sleep SECONDS & exec sleep SECONDS",
    "trap '' TERM HUP INT; sleep SECONDS",
):
    subprocess.Popen(["sh", "-c", command], start_new_session=True)
print("TRICK left")

# %% name="detaches itself twice" attack="background processes that outlive grading" shows="TRICK left"
import os, signal, time

if not os.fork():
    os.setsid()
    if not os.fork():
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        os.execvp("sleep", ["sleep", "SECONDS"])
    os._exit(0)
print("TRICK left")

# %% name="kills everybody" attack="background processes that outlive grading" told="kernel restarted"
import os, signal

for pid in (GRADER, os.getppid(), 1):
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass
os.kill(-1, signal.SIGKILL)
os.kill(os.getpid(), signal.SIGKILL)

# %% name="crashes in C" attack="a dead kernel" told="died"
import ctypes

ctypes.string_at(0)

# %% name="overflows the stack" attack="a dead kernel" told="died"
import sys, threading

sys.setrecursionlimit(10**9)


def deeper():
    return [*map(lambda _: deeper(), (0,))]


deeper()

# %% name="leaves the kernel" attack="a dead kernel" told="died"
import os

os._exit(0)

# %% name="dies in every answer" attack="a dead kernel" where="each" twin=false told="died"
import os

for name in NAMES:
    globals()[name] = lambda *args, **kwargs: os._exit(1)

# %% name="asks for what nobody types" attack="endless loops" shows="StdinNotImplementedError"
input("password: ")

# %% name="breaks out by calls to the kernel" attack="privileges" shows="CALLS: []"
import ctypes, os

libc, done = ctypes.CDLL(None, use_errno=True), []
numbers = {"ptrace": 101, "keyctl": 250, "add_key": 248, "bpf": 321, "perf_event_open": 298, "userfaultfd": 323}
numbers |= {"io_uring_setup": 425, "kexec_load": 246, "init_module": 175, "open_by_handle_at": 304, "setns": 308}
numbers |= {"unshare": 272, "mount": 165, "pivot_root": 155, "process_vm_readv": 310, "open_tree": 428, "fsopen": 430}
for name, number in numbers.items() if os.uname().machine == "x86_64" else ():
    if libc.syscall(number, 0, 0, 0, 0, 0) >= 0 or ctypes.get_errno() != 1:
        done.append(name)
print("CALLS:", done)

# %% name="asks the system's helpers for root" attack="privileges" shows="GAINED: []"
import os, subprocess

gained = []
for command in ("su -c id", "sudo -n id", "mount -t tmpfs x /tmp", "unshare -Ur id", "newgrp root", "passwd -d root"):
    try:
        ended = subprocess.run(command.split(), capture_output=True, stdin=subprocess.DEVNULL, timeout=5)
        gained += [command] if ended.returncode == 0 and (b"uid=0" in ended.stdout or "mount" in command) else []
    except (OSError, subprocess.TimeoutExpired):
        pass
assert os.getuid() != 0
print("GAINED:", gained)

# %% name="opens its sandbox's first process" attack="privileges" shows="OPENED: []"
import ctypes, os

libc, opened = ctypes.CDLL(None, use_errno=True), []
others = [int(name) for name in os.listdir("/proc") if name.isdecimal() and int(name) != os.getpid()]
for other in others:
    for name in ("mem", "environ", "maps", "auxv", "clear_refs", "oom_score_adj", "comm", "setgroups"):
        for how in (os.O_RDONLY, os.O_WRONLY):
            if how == os.O_RDONLY and name in ("oom_score_adj", "comm", "setgroups"):
                continue
            try:
                os.close(os.open(f"/proc/{other}/{name}", how))
                opened.append((other, name))
            except OSError:
                pass
    for name in ("root", "cwd", "fd", "ns", "map_files"):
        try:
            opened.append((other, os.listdir(f"/proc/{other}/{name}")))
        except OSError:
            pass
    for call in (310, 311, 438) if os.uname().machine == "x86_64" else ():  # process_vm_readv and writev, pidfd_getfd
        opened += [(other, call)] if libc.syscall(call, other, 0, 0, 0, 0, 0) >= 0 else []
assert others == [1]
print("OPENED:", opened)

# %% name="writes the forbidden calls into its first process" attack="privileges" shows="WRITTEN: []"
import os

overwritten = []
for pid in {1, 2, 3, 4} - {os.getpid()}:
    try:
        with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "r+b", 0) as memory:
            for line in maps:
                if "r-xp" in line:
                    memory.seek(int(line.split("-")[0], 16))
                    memory.write(b"\x90" * 4096)
                    overwritten.append(pid)
    except OSError:
        pass
print("WRITTEN:", overwritten)

# %% name="makes calls that are newer than the filter" attack="privileges" shows="CALLS: []"
import ctypes

libc, done = ctypes.CDLL(None, use_errno=True), []
for number in [*range(451, 700), 2**30 + 39, 2**30 + 425, 2**31 - 1]:
    if libc.syscall(ctypes.c_long(number), 0, 0, 0, 0, 0, 0) != -1 or ctypes.get_errno() != 38:
        done.append(number)
print("CALLS:", done)

# %% name="follows its line to the judge" attack="privileges" shows="REACHED: []"
import ctypes, os, signal

libc, reached, judge = ctypes.CDLL(None, use_errno=True), [], (ctypes.c_int * 1)(-1)
if libc.getsockopt(3, 1, 77, judge, ctypes.byref(ctypes.c_uint(4))) == 0:  # SO_PEERPIDFD
    for number in (signal.SIGKILL, signal.SIGSTOP, 0):
        try:
            signal.pidfd_send_signal(judge[0], number)
            reached.append(number)
        except OSError:
            pass
    reached += [
        name
        for name, call in {"pidfd_getfd": 438, "setns": 308, "process_madvise": 440}.items()
        if os.uname().machine == "x86_64" and libc.syscall(call, judge[0], 0, 0, 0, 0) >= 0
    ]
    reached += [hex(asked) for asked in range(0xFF01, 0xFF0B) if libc.ioctl(judge[0], asked, 0) >= 0]
print("REACHED:", reached)

# %% name="stops all of its group" attack="background processes that outlive grading" told="kernel restarted"
import os, signal

os.killpg(0, signal.SIGSTOP)

# %% name="kills all of its group" attack="background processes that outlive grading" told="died"
import os, signal

os.killpg(0, signal.SIGKILL)

# %% name="starves its sandbox's first process" attack="background processes that outlive grading" shows="CHANGED: []"
import ctypes, os, resource

libc, changed = ctypes.CDLL(None, use_errno=True), []
tries = {
    "affinity": lambda: os.sched_setaffinity(1, {0}),
    "idle": lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)),
    "nice": lambda: os.setpriority(os.PRIO_PROCESS, 1, 19),
    "nice group": lambda: os.setpriority(os.PRIO_PGRP, 1, 19),
    "nice user": lambda: os.setpriority(os.PRIO_USER, os.getuid(), 19),
    "limits": lambda: resource.prlimit(1, resource.RLIMIT_CPU, (0, 0)),
}
for name, change in tries.items():
    try:
        change()
        changed.append(name)
    except (OSError, ValueError):
        pass
for number in range(1, 65):
    try:
        os.kill(1, number)  # where the system lets it, nothing comes of it
    except OSError:
        pass
print("CHANGED:", changed)
for _ in range(4):
    try:
        if not os.fork():
            while True:
                pass
    except OSError:
        pass

# %% name="has the host write its core" attack="background processes that outlive grading" shows="ALLOWED: []"
import ctypes, os, resource, signal

allowed = []
for limit in ((0, 0), (0, 1), (resource.RLIM_INFINITY, resource.RLIM_INFINITY)):
    for change in (resource.setrlimit, lambda *given: resource.prlimit(0, *given)):
        try:
            change(resource.RLIMIT_CORE, limit)
            allowed.append(limit)
        except (OSError, ValueError):
            pass
if not os.fork():
    os.kill(os.getpid(), signal.SIGSEGV)
assert os.WTERMSIG(os.wait()[1]) == signal.SIGSEGV
print("ALLOWED:", allowed)

# %% name="has the kernel load modules" attack="privileges" shows="LOADED: []"
import socket

loaded = []
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK):
    for protocol in (1, 2, 4, 12, 16, 33, 41, 46, 47, 50, 51, 115, 132, 136, 255, 262):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET, 6):
            try:
                socket.socket(family, kind, protocol).close()
                loaded.append((family, kind, protocol))
            except OSError:
                pass
print("LOADED:", loaded)

# %% name="looks for programs with rights" attack="privileges" shows="FOUND: []"
import os, stat

found, seen = [], 0
for start in ("/usr", "/lib64", "/etc", "/run", "/hand_in", "/tmp", "/dev/shm"):
    for folder, folders, names in os.walk(start):
        folders[:] = [name for name in folders if "packages" not in name]
        for path in (os.path.join(folder, name) for name in names):
            try:
                seen += 1
                if os.lstat(path).st_mode & (stat.S_ISUID | stat.S_ISGID):
                    found.append(path)
            except OSError:
                pass
assert seen > 100
print("FOUND:", found)

# %% name="hands in a heading of two billion" attack="memory" where="raw" told="memory|older format" twin=false
text = b'{"nbformat":3,"worksheets":[{"cells":[{"cell_type":"heading","level":2000000000,"source":""}]}]}'

# %% name="hands in a number of no kernel" attack="memory" where="raw" told="number of a notebook format" twin=false
text = b'{"nbformat":true,"cells":[]}'

# %% name="hands in a tag of a hundred thousand attributes" attack="endless loops" where="file"
notebook.cells.append(nbformat.v4.new_markdown_cell("<p " + "a b c " * 100_000 + ">"))

# %% name="hands in sixty thousand brackets" attack="endless loops" where="file"
notebook.cells.append(nbformat.v4.new_markdown_cell("[" * 60_000))

# %% name="hands in an entity of five thousand nines" attack="endless loops" where="file"
notebook.cells.append(nbformat.v4.new_markdown_cell("&#" + "9" * 5000 + ";"))

# %% name="shows a tag of thousands of attributes" attack="endless loops" shows="TRICK done"
from IPython.display import HTML, display

print("TRICK done")
display(HTML("<p " + " ".join(f"a{number}" for number in range(7000)) + ">"))
