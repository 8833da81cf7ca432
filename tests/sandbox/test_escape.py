"""Ways out of a sandbox, and into what is not the submission's, tried by the tests' account and an ordinary user."""

import ctypes
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import ordinary_user
import psutil
import pytest
from waiting import eventually

from autograder import course
from autograder.sandbox import kernel, memory_group, sandbox, seccomp

LIMITS = {"cell_seconds": 10, "memory_mb": 1024, "disk_mb": 64, "file_mb": 16}
CALL = "import ctypes, os; libc = ctypes.CDLL(None, use_errno=True)\n"
KEYCTL = {"set": 1, "search": 10}


def said(ran):
    assert not ran.error, ran.error
    return "".join(output.get("text", "") for output in ran.outputs)


def called(running, name, *given):
    """What a system call with these arguments answers in a sandbox: its value and the error's number."""
    number = name if isinstance(name, int) else seccomp.number(name)
    words = ", ".join(f"ctypes.c_ulong({one})" for one in given)
    told = said(running.run(f"{CALL}print(libc.syscall(ctypes.c_long({number}), {words}), ctypes.get_errno())"))
    return tuple(map(int, told.split()))


def namespaces(process):
    """The namespaces of a process; nothing if it is gone."""
    found = {}
    for kind in ("pid", "mnt", "net", "ipc"):
        try:
            found[kind] = os.readlink(f"/proc/{process}/ns/{kind}")
        except OSError:
            return {}
    return found


def those_in(sandbox_namespaces):
    """All processes that share a namespace with a sandbox, zombies aside, which have none."""
    everybody = (int(name) for name in os.listdir("/proc") if name.isdecimal())
    return [one for one in everybody if set(namespaces(one).values()) & set(sandbox_namespaces.values())]


@pytest.fixture
def sandboxes(monkeypatch):
    """The sandboxes that are made during a test, in order."""
    made, make = [], sandbox.Sandbox.__init__

    def watched(self, *given, **named):
        make(self, *given, **named)
        made.append(self)

    monkeypatch.setattr(sandbox.Sandbox, "__init__", watched)
    return made


def test_here_processes_of_one_user_may_look_into_one_another():
    """Without Yama: else nothing below shows anything."""
    other = subprocess.Popen(["sleep", "60"])
    try:
        os.close(os.open(f"/proc/{other.pid}/mem", os.O_RDWR))
    except PermissionError:
        pytest.skip("this machine forbids it anyway: kernel.yama.ptrace_scope")
    finally:
        other.kill()
        other.wait()


def test_the_first_process_is_the_only_other_and_is_closed_to_the_hand_in(shared):
    code = """
import os
others = [name for name in os.listdir("/proc") if name.isdecimal() and int(name) != os.getpid()]
opened = []
for other in others:
    for name in ("mem", "environ", "maps", "auxv", "stack", "syscall", "pagemap", "clear_refs", "oom_score_adj",
                 "coredump_filter", "io", "personality", "comm", "timerslack_ns", "setgroups", "uid_map"):
        for how in (os.O_RDONLY, os.O_WRONLY):
            try:
                file = os.open(f"/proc/{other}/{name}", how)
                if os.write(file, b"0") if how else os.read(file, 1):
                    opened.append((other, name, how))
            except OSError:
                pass
    for name in ("root", "cwd", "exe", "fd", "fdinfo", "ns", "map_files", "task/1/fd"):
        try:
            opened.append((other, name, os.listdir(f"/proc/{other}/{name}") if name != "exe" else
                           os.readlink(f"/proc/{other}/exe")))
        except OSError:
            pass
print(others, opened)
"""
    told = said(shared.run(code))
    # These anybody may read, of any process; none of them may be written.
    readable = [(name, 0) for name in ("oom_score_adj", "comm", "coredump_filter", "uid_map", "setgroups")]
    others, opened = told.split(" ", 1)
    assert others == "['1']"
    assert [one for one in eval(opened) if one[1:] not in readable] == []


def test_the_first_process_has_the_filter_and_no_privilege_and_no_pipe_of_the_hand_ins(small):
    with sandbox.Sandbox(small.limits) as made:
        status = dict(line.split(":", 1) for line in Path(f"/proc/{made.pid}/status").read_text().splitlines())
        inside = os.listdir(made.path("/proc"))
        assert made.uid == os.getuid() or os.getuid() == 0
    assert status["Seccomp"].strip() == "2" and status["NoNewPrivs"].strip() == "1"
    assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {0}
    assert [name for name in inside if name.isdecimal()] == ["1"]


def test_a_sandbox_whose_first_process_can_be_read_is_refused(small, monkeypatch):
    """As with fs.suid_dumpable=1; here its program may be read."""
    if not os.getuid():
        pytest.skip("of root's sandboxes the first process has another user's number than the submission")
    arguments = sandbox.bwrap_arguments

    def readable(*given):
        words = arguments(*given)
        words[words.index("0111")] = "0755"
        return words

    monkeypatch.setattr(sandbox, "bwrap_arguments", readable)
    with pytest.raises(sandbox.SandboxError, match="suid_dumpable"), kernel.open_kernel(small):
        pass


@pytest.mark.parametrize("number", [*range(seccomp.NEWEST + 1, 520), 2**30 + 39, 2**31 - 1, 2**32 - 1])
def test_calls_that_nobody_has_judged_are_not_there(shared, number):
    assert called(shared, number, 0, 0, 0, 0, 0, 0) == (-1, 38)


def test_every_refused_call_is_refused_though_libseccomp_is_too_old_to_know_it(monkeypatch):
    import pyseccomp

    known = {name: seccomp.number(name) for name in seccomp.NUMBERS}
    assert all(known[name] in (number, seccomp.NUMBERS[name]) for name, number in known.items())
    whole, resolve = seccomp.program.__wrapped__(), pyseccomp.resolve_syscall

    def old(arch, name):
        return -1 if name in seccomp.NUMBERS else resolve(arch, name)

    monkeypatch.setattr(pyseccomp, "resolve_syscall", old)
    assert pyseccomp.resolve_syscall(pyseccomp.system_arch(), "clone3") == -1
    assert {name: seccomp.number(name) for name in seccomp.NUMBERS} == seccomp.NUMBERS == known
    assert seccomp.program.__wrapped__() == whole


@pytest.mark.parametrize(
    "name, given",
    [
        ("sched_setaffinity", (1, 0, 0)),
        ("sched_setscheduler", (1, 5, 0)),
        ("sched_setattr", (1, 0, 0)),
        ("sched_setparam", (2**32 + 1, 0)),
        ("setpriority", (0, 1, 19)),
        ("setpriority", (1, 1, 19)),
        ("setpriority", (2, 0, 19)),
        ("ioprio_set", (1, 1, 0x6000)),
        ("ioprio_set", (3, 0, 0x6000)),
        ("prlimit64", (1, 0, 0, 0)),
        ("setrlimit", (resource.RLIMIT_CORE, 0)),
        ("prlimit64", (0, resource.RLIMIT_CORE, 1, 0)),
    ],
)
def test_the_first_process_and_the_size_of_cores_are_left_alone(shared, name, given):
    assert called(shared, name, *given) == (-1, 1)


def test_no_core_is_written_or_piped(shared):
    assert said(shared.run("import resource; print(resource.getrlimit(resource.RLIMIT_CORE))")) == "(1, 1)\n"


@pytest.mark.parametrize("given", [(2, 1, 132), (2, 1, 262), (2, 2, 136), (10, 1, 33), (2, 2, 1), (16, 3, 16)])
def test_sockets_speak_the_usual_protocols_only(shared, given):
    """Of SCTP, MPTCP and their like the kernel would load a module of its own."""
    assert called(shared, "socket", *given) == (-1, 93)


def test_usual_sockets_are_there(shared):
    usual = ((2, 1, 6), (2, 2, 17), (10, 1, 0), (1, 1, 0), (16, 3, 0))
    code = f"import socket\nfor one in {usual}: socket.socket(*one).close()\nprint('made')"
    assert said(shared.run(code)) == "made\n"


def test_it_has_a_session_keyring_of_its_own():
    """The calls themselves are refused in a sandbox; here a process does what a kernel does before that."""
    keyctl = seccomp.number("keyctl")
    libc = ctypes.CDLL(None, use_errno=True)
    child = os.fork()
    if not child:
        known = libc.syscall(keyctl, KEYCTL["set"], None) > 0
        mine = libc.syscall(seccomp.number("add_key"), b"user", b"canary", b"secret", 6, -3)
        found = libc.syscall(keyctl, KEYCTL["search"], -3, b"user", b"canary", 0) == mine > 0
        seccomp.join_own_keyring()
        lost = libc.syscall(keyctl, KEYCTL["search"], -3, b"user", b"canary", 0) == -1
        os._exit(known + 2 * found + 4 * lost)
    told = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if not told & 1:
        pytest.skip("this kernel has no keyrings")
    assert told == 7


@pytest.mark.skipif(not os.path.exists("/proc/keys"), reason="this kernel has no keyrings")
def test_every_kernel_makes_one(small, shared):
    def session_keyrings():
        return {line.split()[0] for line in Path("/proc/keys").read_text().splitlines() if "_ses" in line}

    assert said(shared.run("print('warm')"))
    before = session_keyrings()
    with kernel.open_kernel(small):
        assert session_keyrings() - before


def test_keys_are_not_listed(shared):
    told = said(shared.run("import os\nfor name in ('/proc/keys', '/proc/key-users'):\n"
                           "    try: print(open(name).read())\n    except OSError: pass\nprint('done')"))  # fmt: skip
    assert told.strip() == "done"


STAYS = {
    "detached": "import subprocess\nfor _ in range(5): subprocess.Popen(['sleep', '999'], start_new_session=True)",
    "its group is stopped": "import os, signal\nos.killpg(0, signal.SIGSTOP)",
    "its group is killed": "import os, signal\nos.killpg(0, signal.SIGKILL)",
    "the first is signalled": "import os, signal\nfor n in (9, 19, 15, 1, 2, 20, 21, 22, 17): os.kill(1, n)",
    "it starves the first": "import os\nfor _ in range(8):\n    if not os.fork():\n        while True: pass",
    "zombies": "import os\nfor _ in range(100):\n    if not os.fork():\n        os.fork(); os._exit(0)",
    "its line's owner": "import ctypes, os, signal\nfd = (ctypes.c_int * 1)(0)\n"
    "libc = ctypes.CDLL(None)\nlibc.getsockopt(3, 1, 77, fd, ctypes.byref(ctypes.c_uint(4)))\n"
    "libc.syscall(424, fd[0], 19, None, 0)",
}


@pytest.mark.parametrize("how", STAYS)
def test_nothing_is_left_when_it_is_closed(small, sandboxes, how):
    limits = small.limits.model_copy(update={"cell_seconds": 2.0, "processes": 200})
    started = 0.0
    try:
        with kernel.open_kernel(small.model_copy(update={"limits": limits})) as running:
            kinds = namespaces(sandboxes[0].pid)
            assert kinds and those_in(kinds)
            running.run(STAYS[how])
            started = time.monotonic()
    except kernel.KernelGone:
        started = 0.0
    assert not started or time.monotonic() - started < 30
    # Those in the sandbox are gone at once. The one above the kernel, which is outside, ends when it has heard of that.
    assert [one for one in those_in({"pid": kinds["pid"]}) if namespaces(one)["pid"] == kinds["pid"]] == []
    assert eventually(lambda: those_in(kinds) == []), [psutil.Process(one).status() for one in those_in(kinds)]
    assert sandboxes[0]._process.returncode is not None


def test_a_sandbox_that_does_not_end_is_no_secret(small, sandboxes, monkeypatch):
    """A process of ours that is stopped at the wrong place keeps it from ending."""
    monkeypatch.setattr(sandbox, "END_SECONDS", 0.5)
    ours = namespaces(os.getpid())["pid"]
    with pytest.raises(sandbox.SandboxError, match="does not end"), kernel.open_kernel(small):
        inside = those_in({"mnt": namespaces(sandboxes[0].pid)["mnt"]})
        (above,) = (one for one in inside if namespaces(one)["pid"] == ours and one != sandboxes[0]._process.pid)
        os.kill(above, signal.SIGSTOP)
        # Before it has stopped, it would still collect the kernel's end, when it is next given the processor.
        assert eventually(lambda: psutil.Process(above).status() == psutil.STATUS_STOPPED)
    os.kill(above, signal.SIGCONT)
    sandboxes[0].close()
    assert sandboxes[0]._process.returncode is not None


def test_it_ends_with_the_process_that_made_it(small, tmp_path):
    """Also when that one is killed, and cannot close it."""
    code = "import sys, time; from autograder import course\n"
    code += "from autograder.sandbox import sandbox\n"
    code += "made = sandbox.Sandbox(course.load().limits); print(made.pid, flush=True); time.sleep(99)"
    owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=course.ROOT)
    first = os.pidfd_open(int(owner.stdout.readline()))
    assert not sandbox.has_ended(first)
    owner.kill()
    assert sandbox.has_ended(first, 5)
    owner.wait()
    owner.stdout.close()
    os.close(first)


LINGERS = """
import array, os, socket, struct
hosts = socket.create_server(("127.0.0.1", 0))
one = socket.create_connection(hosts.getsockname())
other, _ = hosts.accept()
one.setblocking(False)
try:
    while True: one.send(bytes(2**16))
except BlockingIOError: pass
one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 60))
"""
PASSES = """
passed = []
for descriptor in range(5):
    try:
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=os.dup(descriptor))
        line.sendmsg([b"..."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [one.fileno()]))])
        passed.append(descriptor)
    except OSError:
        pass
if passed:
    one.close()
"""


def test_the_line_carries_no_open_files(small):
    """A socket that lingers would be closed in the judge's process, for as long as its sender wants."""
    started = time.monotonic()
    with kernel.open_kernel(small) as running:
        assert said(running.run(LINGERS)) == "", "the socket is there"
        assert said(running.run(f"{PASSES}\nprint(passed)")) == "[]\n"
    assert time.monotonic() - started < 50


def test_a_kernel_that_takes_back_what_it_says_does_not_hold_the_judge(small):
    """Of an ordinary user's pipes it may open the other end too; of root's it may not."""
    limits = small.limits.model_copy(update={"cell_seconds": 1.0})
    takes = "import os\nfor n in (3, 4):\n    if not os.fork():\n        for how in (0, 1):\n"
    takes += "            end = os.open(f'/proc/self/fd/{n}', how)\n            os.set_blocking(end, False)\n"
    takes += "            while how == 0:\n                try: os.read(end, 9)\n                except OSError: pass"
    started = time.monotonic()
    with kernel.open_kernel(small.model_copy(update={"limits": limits})) as running:
        try:
            for _ in range(5):
                running.run(takes)
        except kernel.KernelGone as gone:
            assert re.search(r"no outputs|longer than|kernel died", str(gone)), gone  # its own bytes may be lost
    assert time.monotonic() - started < 50


TABLES = """
import ctypes, time
libc = ctypes.CDLL(None)
libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 4]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
for _ in range(8):
    size = 2**36
    start = libc.mmap(None, size, 1, 0x4022, -1, 0)
    libc.madvise(start, size, 15)
    for place in range(start, start + size, 2**21):
        ctypes.c_char.from_address(place).value
time.sleep(30)
"""


def test_page_tables_count_as_memory(small):
    """Here a page that is read costs nothing, as all are the same page of zeros, and its table costs 4096 bytes."""
    limits = small.limits.model_copy(update={"memory_mb": 512})
    with kernel.open_kernel(small.model_copy(update={"limits": limits})) as running:
        assert said(running.run("print('ready')")) == "ready\n"
        with pytest.raises(kernel.KernelGone, match="used more than 512 MB of memory"):
            running.run(TABLES)


# Three children that hold 500 MB each, as soon as all do.
HOLDING = """
import ctypes, os, threading, time, numpy
libc = ctypes.CDLL(None, use_errno=True)
def hold():
    held = numpy.ones(500 * 2**17)
    time.sleep(60)
for _ in range(3):
    if not os.fork():
        BEFORE
        hold()
time.sleep(60)
"""
HIDING = {
    "not at all": "pass",
    "its name is not text": "libc.prctl(15, b'\\xff')",
    "its name looks like a line of what it holds": "libc.prctl(15, b'\\x0cVmRSS: -999999')",
    "its name looks like another": "libc.prctl(15, b'\\x0cVmRSS: x')",
    "its first thread has exited": "threading.Thread(target=hold).start(); libc.syscall(60, 0)",
}


@pytest.mark.parametrize("how", HIDING)
def test_no_process_hides_what_it_holds(small, monkeypatch, how):
    """Without a cgroup, which would hold anyway."""
    monkeypatch.setattr(memory_group, "make", lambda *_: None)
    with kernel.open_kernel(small) as running:
        assert said(running.run("print('ready')")) == "ready\n"
        with pytest.raises(kernel.KernelGone, match="used more than 1024 MB of memory"):
            running.run(HOLDING.replace("BEFORE", HIDING[how]))


def test_a_sandbox_that_cannot_be_watched_is_closed(small, sandboxes, monkeypatch):
    def broken():
        raise UnicodeError("of a kind that nobody expects")

    told = []
    monkeypatch.setattr(threading, "excepthook", lambda raised: told.append(str(raised.exc_value)))
    with kernel.open_kernel(small) as running:
        assert said(running.run("print('ready')")) == "ready\n"
        monkeypatch.setattr(sandboxes[0], "count_files", broken)
        with pytest.raises(kernel.KernelGone, match=r"could not be measured any more \(UnicodeError\)"):
            running.run("import time; time.sleep(60)")
    assert told == ["of a kind that nobody expects"], "the grader sees the traceback"


SHARES = """
import mmap, os
made = []
for flags in (mmap.MAP_SHARED, mmap.MAP_SHARED | 0x4000, 3):
    try: made.append(mmap.mmap(-1, 2**20, flags | mmap.MAP_ANONYMOUS))
    except PermissionError: pass
zero = os.open("/dev/zero", os.O_RDWR)
for flags in (mmap.MAP_SHARED, mmap.MAP_PRIVATE):
    try: made.append(mmap.mmap(zero, 2**20, flags))
    except OSError as bad: assert bad.errno == 19, bad
print(made, os.read(zero, 2**20) == bytes(2**20))
"""
NEEDED = """
import ctypes, mmap, multiprocessing, torch
mmap.mmap(-1, 2**20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
context = multiprocessing.get_context("fork")
value, shares = context.Value("i", 0), torch.zeros(2).share_memory_()
def add(place):
    with value.get_lock(): value.value += 1
    shares[place] += 1
workers = [context.Process(target=add, args=(place,)) for place in range(2)]
for worker in workers: worker.start()
for worker in workers: worker.join()
loaded = torch.utils.data.DataLoader(torch.arange(8), batch_size=4, num_workers=2)
print(value.value, shares.tolist(), [batch.sum().item() for batch in loaded])
"""


def test_no_memory_is_shared_but_in_files_which_are_counted(shared):
    """Pages of a shared anonymous mapping, or of /dev/zero, stay when no process shows them as resident any more."""
    assert said(shared.run(SHARES)) == "[] True\n"


def test_workers_of_libraries_share_memory_in_files(small):
    patient = small.limits.model_copy(update={"cell_seconds": 120.0})  # four forks of torch, on a busy machine
    with kernel.open_kernel(small.model_copy(update={"limits": patient})) as running:
        assert said(running.run(NEEDED)) == "2 [1.0, 1.0] [6, 22]\n"


def test_where_a_gpu_is_given_shared_memory_is_left(small):
    """CUDA may need it; nobody has tried it without."""
    gpu = small.model_copy(update={"grading": small.grading.model_copy(update={"gpu": True})})
    with kernel.open_kernel(gpu) as running:
        assert said(running.run("import mmap; print(len(mmap.mmap(-1, 2**20)))")) == "1048576\n"


def test_where_cgroups_can_be_made_the_system_bounds_memory(small, monkeypatch):
    """Also between two looks of the watch, which sees nothing here."""
    groups, make, most = [], memory_group.make, 2**28
    monkeypatch.setattr(memory_group, "make", lambda name, _: groups.append(make(name, most)) or groups[-1])
    monkeypatch.setattr(sandbox.Sandbox, "uses_more_than", lambda self, most: False)
    with kernel.open_kernel(small) as running:
        if groups[0] is None:
            pytest.skip("no memory cgroup can be made here")
        assert said(running.run("print(len(open('/proc/self/cgroup').read()) > 0)")) == "True\n"
        number = groups[0].path.name.rpartition("-")[2]
        assert number not in (groups[0].path / "cgroup.procs").read_text().split(), "the first process is outside"
        assert (groups[0].path / "cgroup.procs").read_text(), "the kernel is in it"
        with pytest.raises(kernel.KernelGone, match="used more than 1024 MB of memory"):
            running.run("import os, time, numpy\nfor _ in range(4):\n    if not os.fork():\n"
                        "        more = numpy.ones(2**24)\n        time.sleep(60)\ntime.sleep(60)")  # fmt: skip
    assert not groups[0].path.exists() and len(groups) == 1


def test_without_cgroups_the_watch_is_alone(small, monkeypatch):
    monkeypatch.setattr(memory_group, "candidate_places", lambda: iter(()))
    assert memory_group.make("autograder-test", 2**30) is None
    with kernel.open_kernel(small) as running:
        assert said(running.run("print('here')")) == "here\n"


def test_one_limit_holds_for_all_that_is_written(small):
    code = """
import os
written = 0
for folder in ("/hand_in", "/tmp", "/dev/shm"):
    try:
        for number in range(20):
            with open(f"{folder}/{number}", "wb", 0) as file:
                for _ in range(8):
                    written += file.write(bytes(2**20))
    except OSError as full:
        assert full.errno == 28, full
print(written // 2**20)
"""
    with kernel.open_kernel(small) as running:
        written = int(said(running.run(code)))
    assert LIMITS["disk_mb"] - 8 < written <= LIMITS["disk_mb"]


def test_a_course_in_a_folder_that_sandboxes_have_too_is_shown(small):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        os.chmod(folder, 0o755)
        Path(folder, "here").touch()
        with sandbox.Sandbox(small.limits, course=Path(folder)) as made:
            assert os.listdir(made.path(folder)) == ["here"]


# Eight processes that share most of what they hold, and one that was stopped by another.
SHARING = """
import os, signal, time
stopped = os.fork()
if not stopped:
    while True: time.sleep(0.1)
os.kill(stopped, signal.SIGSTOP)
while open(f"/proc/{stopped}/stat").read().split()[2] != "T": time.sleep(0.01)
started = [os.fork() for _ in range(7) if os.getpid() == KERNEL]
if os.getpid() != KERNEL:
    time.sleep(3)
    os._exit(7)
print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in started])
print(open(f"/proc/{stopped}/stat").read().split()[2])
"""


def test_processes_are_stopped_while_they_are_measured_and_go_on(small, monkeypatch):
    monkeypatch.setattr(sandbox, "MEASURING_SECONDS", 0.0)
    times, stop = [], sandbox.stop_process

    def noted(process):
        handle = stop(process)
        times.append(handle)
        return handle

    monkeypatch.setattr(sandbox, "stop_process", noted)
    with kernel.open_kernel(small) as running:
        pages = said(running.run("import os, numpy\nheld = numpy.ones(2**25)\nprint(os.getpid())"))
        assert said(running.run(SHARING.replace("KERNEL", pages.strip()))) == f"{[7] * 7}\nT\n"
        assert sum(map(bool, times)) > 8 and not all(times), "some were stopped, and one was stopped before"
        with pytest.raises(kernel.KernelGone, match="used more than 1024 MB of memory"):
            running.run("more = []\nfor _ in range(6):\n    if not os.fork():\n"
                        "        more = numpy.ones(2**25)\n        time.sleep(60)\ntime.sleep(60)")  # fmt: skip


def listed(running, folder):
    code = f"import os; print(os.listdir({folder!r}) if os.path.isdir({folder!r}) else [])"
    return set(eval(said(running.run(code))))


def test_of_the_host_it_sees_the_least(shared):
    """What THREAT_MODEL.md says; what lies above Python and the course has no other entries."""
    python = sandbox.interpreter_folders()
    above = {path.split("/")[1] for path in (*python, str(course.ROOT))}
    assert listed(shared, "/") <= {"dev", "etc", "hand_in", "proc", "run", "tmp", "usr", "bin", "lib", "lib64"} | above
    assert listed(shared, "/etc") <= {"passwd", "ld.so.cache", "localtime", "alternatives"}
    assert {"sh", "cat", "ls"} <= listed(shared, "/usr/bin")
    assert listed(shared, "/usr/bin") <= {*sandbox.COMMANDS, *(Path(path).name for path in python)}
    assert listed(shared, "/run") == {"cat"}
    if sandbox.LIBRARIES is sandbox.DEBIAN and not any(path.startswith("/usr") for path in python):
        assert listed(shared, "/usr") <= {"bin", "lib", "lib64", "share"}
        assert listed(shared, "/usr/share") <= {"fonts", "zoneinfo"}
        loaders = {Path(path).name for path in sandbox.FILES}
        assert listed(shared, "/usr/lib") <= {sandbox.TRIPLET, "locale", "wsl", "zoneinfo"} | loaders
        folder = f"/usr/lib/{sandbox.TRIPLET}"
        code = f"import os; print([n for n in os.listdir({folder!r}) if os.path.isdir(p := {folder!r} + '/' + n)"
        code += " and os.listdir(p) and not os.path.islink(p)])"
        assert set(eval(said(shared.run(code)))) <= {"gconv", *os.listdir("/etc/alternatives")}


def test_no_program_in_it_has_another_users_rights(shared):
    code = """
import os, stat
found, seen = [], 0
for folder, folders, names in os.walk("/"):
    folders[:] = [name for name in folders if folder != "/" or name not in ("proc", "dev")]
    for name in names:
        path = os.path.join(folder, name)
        try:
            seen += 1
            if os.lstat(path).st_mode & (stat.S_ISUID | stat.S_ISGID): found.append(path)
        except OSError:
            pass
print(found, seen > 1000)
"""
    assert said(shared.run(code)) == "[] True\n"


IMPORTS = (
    "torch, transformers, tokenizers, matplotlib.pyplot, ipywidgets, pandas, numpy, sqlite3, ssl, lzma, bz2, ctypes"
)


def test_a_new_python_imports_all_in_it(small):
    """The kernel's own libraries were loaded outside: this one starts from nothing."""
    assert {"torch", "numpy"} <= {name.strip() for name in IMPORTS.split(",")}
    code = f"import sys, subprocess\ncode = 'import {IMPORTS}; import multiprocessing, zoneinfo; "
    code += 'zoneinfo.ZoneInfo("Europe/Rome"); print(torch.ones(3).sum())\'\n'
    code += "ran = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)\n"
    code += "print(ran.stdout, ran.stderr[-2000:])"
    patient = small.limits.model_copy(update={"cell_seconds": 200.0, "memory_mb": 3072})
    with kernel.open_kernel(small.model_copy(update={"limits": patient})) as running:
        assert "tensor(3.)" in said(running.run(code))


@pytest.mark.parametrize("command", ["ls", "echo here", "cat /etc/passwd", "sh -c pwd", "grep -c student /etc/passwd"])
def test_a_few_commands_are_there(shared, command):
    assert said(shared.run(f"import subprocess; print(subprocess.run({command!r}.split()).returncode)")) == "0\n"


@pytest.mark.parametrize("prefix", ["/usr", "/usr/local"])
def test_of_a_python_that_shares_its_folder_only_python_is_shown(monkeypatch, prefix, tmp_path):
    """Debian's own, or the one of Docker's images. What it says of itself is what it says there."""
    for name in ("prefix", "base_prefix"):
        monkeypatch.setattr(sandbox.sys, name, prefix)
    monkeypatch.setattr(sandbox.sys, "executable", f"{prefix}/bin/python3")
    monkeypatch.setattr(sandbox.sysconfig, "get_path", lambda name: f"{prefix}/lib/python3.11")
    monkeypatch.setattr(sandbox.sysconfig, "get_config_vars", lambda *names: [f"{prefix}/lib", "libpython3.11.so.1.0"])
    monkeypatch.setattr(sandbox.site, "getsitepackages", lambda: [f"{prefix}/lib/python3/dist-packages"])
    shown = sandbox.interpreter_folders.__wrapped__()
    assert f"{prefix}/lib/python3.11" in shown and f"{prefix}/lib/python3/dist-packages" in shown
    assert all("python3" in path for path in shown), shown


def test_a_release_that_is_installed_for_students_notebooks_is_covered(small, monkeypatch, tmp_path):
    """It holds the public checks, and with them what they compare with."""
    for name in ("cs101_course/utils/checks/nb01_first.py", "of_course/utils/checks.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("reference = 1")
    monkeypatch.setattr(sandbox.site, "getsitepackages", lambda: [str(tmp_path)])
    interpreter = sandbox.interpreter_folders.__wrapped__()
    monkeypatch.setattr(sandbox, "interpreter_folders", lambda: interpreter)
    with sandbox.Sandbox(small.limits) as made:
        place = Path(made.path(str(tmp_path)))
        assert [path.name for path in (place / "of_course/utils").iterdir()] == ["checks.py"]
        assert list((place / "cs101_course").iterdir()) == []


@pytest.mark.skipif(os.getuid() != 0, reason="this is the ordinary user")
@pytest.mark.skipif(not shutil.which("unshare") or not shutil.which("setpriv"), reason="needs util-linux")
def test_the_same_as_an_ordinary_user():
    with tempfile.TemporaryDirectory() as made:  # pytest's own are for root alone, again whenever another pytest begins
        folder = Path(made)
        rules = ["-q", "-x", "-p", "no:cacheprovider", f"--basetemp={folder}/pytest", "tests/sandbox/test_escape.py"]
        ran = ordinary_user.run([sys.executable, "-m", "pytest", *rules], folder, 1500)
    assert ran.returncode == 0 and " passed" in ran.stdout, ran.stdout[-5000:] + ran.stderr[-3000:]
    assert "failed" not in ran.stdout.splitlines()[-1]
