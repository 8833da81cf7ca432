# Resources: each of these would take the whole machine, or the grader, if its room had no limits. Limits are low here.

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

# %% name="floods the grader with frames" attack="output on one line" told="no outputs|longer than|died"
import os

while True:
    os.write(3, (2**20).to_bytes(4) + bytes(2**20))

# %% name="sends what is no message" attack="output on one line" told="no outputs"
import os

os.write(3, (5).to_bytes(4) + b"other")

# %% name="puts out more than it printed" attack="output on one line" told="returned more|no outputs|printed more"
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
from utils import door

small = b"\x81\xa5value\xdd" + (2**24).to_bytes(4) + b"\x90" * 2**24
door.answer = lambda namespace, request: small
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
