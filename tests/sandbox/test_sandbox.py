"""A kernel in a sandbox: what it can see, what it may use, and that nothing of it stays."""

import os
import platform
import re
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pyseccomp
import pytest

from autograder import course
from autograder.sandbox import kernel, launch, preload, sandbox, seccomp
from autograder.sandbox.kernel import KernelGone
from utils.grading import wire

LIMITS = {"cell_seconds": 2, "memory_mb": 1024, "disk_mb": 64, "file_mb": 16}


def said(ran):
    return "".join(output.get("text", "") or output.get("evalue", "") for output in ran.outputs)


def test_it_sees_the_course_and_nothing_of_the_instructor(shared):
    seen = said(shared.run(f"import os; print(sorted(os.listdir({str(course.ROOT)!r})), os.listdir('.'))"))
    visible = {name for name in os.listdir(course.ROOT) if f"'{name}'" in seen}
    assert visible <= {Path(sys.prefix).name}
    shown = said(shared.run("import utils; place = utils.__file__.rsplit('/', 2)[0]; print(sorted(os.listdir(place)))"))
    assert shown.strip() == "['autograder', 'data', 'utils']"


def test_it_sees_no_process_but_its_own(shared):
    seen = said(
        shared.run("import os; print([open(f'/proc/{p}/cmdline').read() for p in os.listdir('/proc') if p.isdigit()])")
    )
    assert "pytest" not in seen and "autograder.sandbox.fork_server" in seen


def test_torch_has_its_compiler_once_somebody_compiles():
    """Until then an optimizer does without, and nothing of it is imported; see `no_compiler.NoCompiler`."""
    script = """
import inspect, sys, torch
from autograder.sandbox import no_compiler
no_compiler.install()
stands_in = sys.modules[no_compiler.COMPILER]
line = torch.nn.Linear(2, 1)
steps = torch.optim.Adam(line.parameters())
def step():
    before = line.weight.clone()
    steps.zero_grad()
    line(torch.ones(3, 2)).sum().backward()
    steps.step()
    return not torch.equal(before, line.weight)
inspect.getmodule(step)  # looks at all modules
assert step()
assert sys.modules[no_compiler.COMPILER] is stands_in and "torch._dynamo.config" not in sys.modules
assert torch.compile(line, backend="eager")(torch.ones(3, 2)).shape == (3, 1)
assert torch.compile(step) is step  # there is no compiler: a function runs as it is, as at home
assert "torch._dynamo.config" in sys.modules and sys.modules[no_compiler.COMPILER] is torch._dynamo is not stands_in
assert step()
import torch._dynamo.config
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=course.ROOT)
    assert ended.returncode == 0, ended.stderr


def test_nothing_is_compiled_at_home_or_in_grading():
    assert preload.ENVIRONMENT["TORCHDYNAMO_DISABLE"] == os.environ["TORCHDYNAMO_DISABLE"] == "1"


def test_it_has_no_privilege(shared):
    status = said(shared.run("print(open('/proc/self/status').read())"))
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    assert "0" not in fields["Uid"].split()
    assert {int(fields[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {0}
    assert fields["NoNewPrivs"].strip() == "1"


def test_it_inherits_nothing(small, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_INSTRUCTOR", "canary")
    grading = small.grading.model_copy(
        update={"preload": ("utils.grading.dispatch",)}
    )  # another fork server, started only now
    with kernel.open_kernel(small.model_copy(update={"grading": grading})) as running:
        assert "canary" not in said(
            running.run("import os; print(dict(os.environ), open('/proc/self/environ').read())")
        )
        handles = said(
            running.run("print([os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd')[:-1]])")
        )
    assert not re.search(r"'/(?!dev/|proc/|run/|hand_in|tmp)", handles), handles


def test_a_filter_of_system_calls_is_on_in_every_thread_and_child(shared):
    told = said(
        shared.run(
            "import subprocess, threading\n"
            "read = lambda: [line for line in open('/proc/thread-self/status') if line.startswith('Seccomp:')]\n"
            "threading.Thread(target=lambda: print(read())).start()\n"
            "print(read(), subprocess.run(['grep', 'Seccomp:', '/proc/self/status'], capture_output=True).stdout)"
        )
    )
    assert told.count("Seccomp:") == 3 and len(re.findall(r"Seccomp:(?:\\t|\t)2", told)) == 3, told


@pytest.mark.parametrize("name", seccomp.REFUSED)
def test_a_system_call_is_refused(shared, name):
    """With arguments that are all zero the kernel itself would say something else, or do it; most of it at least."""
    number = pyseccomp.resolve_syscall(pyseccomp.system_arch(), name)
    if number < 0:
        pytest.skip(f"{platform.machine()} has no {name}")
    told = said(shared.run(f"import ctypes; libc = ctypes.CDLL(None, use_errno=True)\n"
                           f"print(libc.syscall({number}, 0, 0, 0, 0, 0, 0), ctypes.get_errno())"))  # fmt: skip
    assert told == "-1 1\n"


@pytest.mark.parametrize("flag", seccomp.NAMESPACES)
def test_no_namespace_is_made_within(shared, flag):
    """Neither by unshare nor by clone, whose new process would get the capabilities of its own root."""
    number = pyseccomp.resolve_syscall(pyseccomp.system_arch(), "clone")
    told = said(
        shared.run(
            "import ctypes, os, signal; libc = ctypes.CDLL(None, use_errno=True)\n"
            f"ended = libc.syscall({number}, {flag | 17}, 0, 0, 0, 0)\n"
            "if ended == 0: os._exit(0)\n"
            f"print(ended, ctypes.get_errno(), libc.unshare({flag}), ctypes.get_errno())"
        )
    )
    assert told == "-1 1 -1 1\n"


def test_no_process_is_made_a_child_of_a_process_outside(shared):
    """It would be a zombie that nobody waits for, where the process outside that adopts it is autograder itself."""
    code = "import ctypes, os; libc = ctypes.CDLL(None, use_errno=True)\n"
    code += f"ended = libc.syscall({seccomp.number('clone')}, {0x8000 | 17}, 0, 0, 0, 0)\n"
    code += "if ended == 0: os._exit(0)\nprint(ended, ctypes.get_errno())"
    assert said(shared.run(code)) == "-1 1\n"


def test_clone3_is_not_there_so_that_libraries_fall_back(shared):
    number = pyseccomp.resolve_syscall(pyseccomp.system_arch(), "clone3")
    told = said(shared.run(f"import ctypes; libc = ctypes.CDLL(None, use_errno=True)\n"
                           f"print(libc.syscall({number}, 0, 0), ctypes.get_errno())"))  # fmt: skip
    assert told == "-1 38\n"


@pytest.mark.parametrize(
    "code",
    [
        "libc.personality(0x0040000)",  # no randomised addresses
        "libc.ioctl(0, 0x5412, b'x')",
        "libc.ioctl(0, ctypes.c_ulong(0x100005412), b'x')",  # the kernel reads 32 bits of it
    ],
)
def test_a_call_is_refused_for_its_arguments(shared, code):
    told = said(
        shared.run(f"import ctypes; libc = ctypes.CDLL(None, use_errno=True); print({code}, ctypes.get_errno())")
    )
    assert told == "-1 1\n"


def test_only_sockets_that_a_namespace_cuts_off(shared):
    code = "import socket\ndone = []\nfor family in range(60):\n    try:\n        socket.socket(family, 2)\n"
    code += "        done.append(family)\n    except OSError as no:\n        assert family in (16,) or no.errno == 97\n"
    assert said(shared.run(code + "print(done)")) in ("[1, 2, 10]\n", "[1, 2, 10, 16]\n")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other machines have no 32-bit calls to make")
def test_calls_of_another_architecture_end_the_process(small):
    """`int 0x80` would number the calls differently, and so pass by the filter."""
    code = """
import ctypes, mmap
code = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(b"\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3")  # mov eax, 20 (getpid); int 0x80; ret
print(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))())
"""
    with kernel.open_kernel(small) as running, pytest.raises(KernelGone, match="died"):
        running.run(code.replace("\\\\", "\\"))


@pytest.mark.parametrize(
    "code, result",
    [
        ("import threading\nt = threading.Thread(target=print, args=('here',)); t.start(); t.join()", "here\n"),
        (
            "import subprocess; print(subprocess.run(['echo', 'here'], capture_output=True, text=True).stdout)",
            "here\n\n",
        ),
        ("import subprocess; print(subprocess.run('echo here', shell=True, start_new_session=True).returncode)", "0\n"),
        ("get_ipython().system('echo here')", "here\r\n"),
        ("import os; pid = os.fork()\nif not pid: os._exit(7)\nprint(os.waitpid(pid, 0)[1] >> 8)", "7\n"),
        ("import torch; print((torch.ones(300, 300) @ torch.ones(300, 300)).sum().item())", "27000000.0\n"),
        (
            "import multiprocessing as m\nwith m.get_context('fork').Pool(2) as p: print(p.map(abs, [-1, -2]))",
            "[1, 2]\n",
        ),
        (
            "import torch.utils.data as d; print([int(b.sum()) for b in d.DataLoader(range(6), 3, num_workers=2)])",
            "[3, 12]\n",
        ),
        ("import concurrent.futures as c\nwith c.ThreadPoolExecutor(4) as p: print(sum(p.map(abs, range(9))))", "36\n"),
        ("import asyncio; print(await asyncio.to_thread(abs, -5))", "5\n"),
        ("import ctypes; print(ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(abs)(-3))", "3\n"),
        ("import tempfile\nwith tempfile.TemporaryFile() as f: print(f.write(b'here'))", "4\n"),
        ("import psutil, time; print(psutil.Process().cpu_num() >= 0, time.time() > 0)", "True True\n"),
        ("import ipywidgets as w; display(w.IntSlider()); print('shown')", "shown\n"),
        ("from tqdm.notebook import tqdm\nfor _ in tqdm(range(3)): pass\nprint('done')", "done\n"),
        ("import pickle\nclass B: pass\nprint(type(pickle.loads(pickle.dumps(B()))).__name__)", "B\n"),
        ("%matplotlib inline\n%timeit -n1 -r1 1\nprint('drawn')", "drawn\n"),
        ("exit()\nprint('stays')", "stays\n"),
        ("import warnings, logging; logging.warning('!'); warnings.warn('!'); print('here')", "here\n"),
        ("import matplotlib.pyplot as p; p.plot([1, 2]); p.savefig('x.png'); p.close(); print('drawn')", "drawn\n"),
    ],
    ids=lambda value: value[:24],
)
def test_what_notebooks_need_still_works(small, code, result):
    with kernel.open_kernel(small) as running:
        ran = running.run(code)
    assert not ran.error and said(ran).endswith(result), ran


def test_the_filter_costs_little(small):
    """It is made once; each kernel installs it, and each call passes it."""
    started = time.process_time()
    instructions = seccomp.program()
    assert time.process_time() - started < 1 and len(instructions) // 8 < 400
    code = "import os, time\nbegan = time.process_time()\nfor _ in range(100000): os.getppid()\n"
    code += "print(time.process_time() - began)"
    with kernel.open_kernel(small) as running:
        inside = statistics.median(float(said(running.run(code))) for _ in range(3))
    assert inside < 2, inside  # seconds of its own time for 100,000 calls


@pytest.mark.parametrize("name", ["ROOT", "FOLDER"])
def test_the_course_is_covered_where_the_system_shows_it(small, monkeypatch, name):
    """A clone below a folder that every sandbox shows would otherwise lie open there."""
    shown = Path("/usr/share/zoneinfo")
    inside = next(path for path in sorted(shown.iterdir()) if path.is_dir() and any(path.iterdir()))
    monkeypatch.setattr(sandbox, name, inside)
    with sandbox.Sandbox(small.limits) as made:
        assert os.listdir(made.path(str(inside))) == []
        assert os.listdir(made.path(str(shown))) != [inside.name]


def test_the_number_of_files_is_bounded(small, monkeypatch):
    monkeypatch.setattr(sandbox, "MAX_FILES", 2000)
    with kernel.open_kernel(small) as running, pytest.raises(KernelGone, match="files"):
        running.run("import os, time\nfor n in range(3000): os.close(os.open(f'/tmp/{n}', os.O_CREAT))\ntime.sleep(3)")


def test_the_threat_model_says_how_far_beyond_its_limits_a_sandbox_gets():
    """Each row has a test that is there, and figures within the bounds that are promised."""
    page = (course.ROOT / "THREAT_MODEL.md").read_text().partition("## How far beyond its limits")[2]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([\d.,/ ]+) \| ([\d.,/ ]+) \| `(\w+)` \|$", page, re.M)
    tests = "".join(path.read_text() for path in (course.ROOT / "tests").rglob("test_*.py"))
    assert len(rows) == 12
    for attack, measured, before, after, test in rows:
        assert f"def {test}(" in tests, attack
        figures = zip(
            *([float(one) for one in cell.replace(",", "").split("/")] for cell in (before, after)), strict=True
        )
        bound = 1 if "seconds" in measured else 257 if "/tmp" in attack else 1024 + 256 + 64
        assert all(now < then and now <= bound for then, now in figures), attack


def inside(namespace):
    """The processes of a process namespace."""
    found = []
    for place in Path("/proc").glob("[0-9]*/ns/pid"):
        try:
            found += [place.parts[2]] if os.readlink(place) == namespace else []
        except OSError:  # it is gone, or somebody else's
            continue
    return found


@pytest.mark.parametrize("address", ["('127.0.0.1', 22)", "('8.8.8.8', 53)"])
def test_it_has_no_network(shared, address):
    ran = shared.run(f"import socket; socket.create_connection({address}, 1)")
    assert "refused" in ran.error or "unreachable" in ran.error


@pytest.mark.parametrize("path", ["/x", "/etc/x", "/usr/x", "/dev/x", f"{course.ROOT}/x", "UTILS/x"])
def test_it_writes_only_to_its_scratch_space(shared, path):
    scratch = path.startswith("/tmp/")  # a clone below /tmp has its folders in the sandbox's own /tmp, which is scratch
    path = path.replace("UTILS", said(shared.run("import utils, os; print(os.path.dirname(utils.__file__))")).strip())
    ran = shared.run(f"open({path!r}, 'w')")
    if not scratch:
        assert "Read-only" in ran.error or "Permission" in ran.error, ran
    assert not Path(path).exists()


def test_what_it_writes_is_gone_afterwards(shared):
    shared.run("open('/tmp/sandbox-was-here', 'w').write('x'); open('note', 'w').write('x')")
    assert not Path("/tmp/sandbox-was-here").exists()


def test_files_and_disk_are_bounded(shared):
    assert "too large" in shared.run("open('big', 'wb').write(bytes(20_000_000))").error
    assert "No space" in shared.run("for n in range(9): open(f'b{n}', 'wb').write(bytes(10_000_000))").error
    shared.run("import os\nfor name in os.listdir('.'): os.remove(name)")


def test_memory_is_bounded(shared):
    assert shared.run("hoard = bytearray(2**31)").error.startswith("MemoryError")


def test_output_is_bounded(shared):
    ran = shared.run("while True: print('flood')")
    assert ran.refused and len(said(ran)) < 300_000
    assert shared.run("print('x' * 10**8)").refused
    assert said(shared.run("print('still here')")) == "still here\n"


def test_what_an_answer_prints_while_it_is_asked_costs_nothing(shared):
    """A student's own prints: at home nothing is wrong with them either."""
    shared.run("def f(n):\n    for _ in range(999): display(n); print('x' * 1000)\n    return n")
    request = wire.dumps({"name": "f", "path": [], "args": [3], "kwargs": {}}, lambda value: 0)
    assert wire.loads(shared.ask(request), lambda *_: None) == {"value": 3}
    assert said(shared.run("print('still here')")) == "still here\n"


def test_lines_of_a_traceback_are_bounded_however_short_they_are(small):
    lying = "from utils.grading import wire\n"
    lying += "line = {'kind': 'error', 'name': 'E', 'message': 'told', 'lines': [''] * 400}\n"
    lying += "get_ipython().outputs.packed = lambda: wire.dumps([line] * 300, lambda value: 0)"
    with kernel.open_kernel(small) as running:  # its own: it lies from then on
        ran = running.run(
            "class E(Exception):\n    def _render_traceback_(self): return [''] * 900_000\nraise E('told')"
        )
        (output,) = ran.outputs
        assert ran.error == "E: told" and 0 < len(output.traceback) <= kernel.MAX_LINES
        assert 0 < sum(len(output.traceback) for output in running.run(lying).outputs) <= kernel.MAX_LINES


def test_a_loop_is_interrupted_and_the_kernel_lives(shared):
    assert "longer than 2 seconds" in shared.run("while True: pass").refused
    assert said(shared.run("print('still here')")) == "still here\n"


def test_what_waits_is_interrupted_when_three_times_as_long_went_by(shared):
    started = time.monotonic()
    assert "longer than 2 seconds" in shared.run("import time; time.sleep(99)").refused
    assert time.monotonic() - started >= 3 * 2
    assert said(shared.run("print('still here')")) == "still here\n"


def test_a_machine_that_gives_it_no_time_costs_nothing(small, monkeypatch):
    """Stopped for longer than a cell may take, as a busy machine stops a process."""
    numbers, fork = [], launch.fork_kernel
    monkeypatch.setattr(launch, "fork_kernel", lambda *given: numbers.append(fork(*given)) or numbers[-1])
    with kernel.open_kernel(small) as running:
        inside = psutil.Process(numbers[-1])
        inside.suspend()
        threading.Timer(4.5, inside.resume).start()
        started = time.monotonic()
        assert said(running.run("print('still here')")) == "still here\n"
        assert time.monotonic() - started >= 4


@pytest.mark.parametrize(
    "then, kind",
    [
        ("raise", "RecursionError"),
        ("raise ValueError('too deep') from error", "ValueError"),
        ("1 / 0", "ZeroDivisionError"),
        ("raise ExceptionGroup('several', [error])", "ExceptionGroup"),
    ],
)
def test_a_recursion_without_end_is_told_before_the_time_limit(shared, then, kind):
    """IPython looks up the source of each of its thousands of calls, for seconds, and cannot be interrupted."""
    calls = "def again(depth):\n    return again(depth + 1)\n\n\n"
    ran = shared.run(f"{calls}try:\n    again(0)\nexcept RecursionError as error:\n    {then}\n")
    assert ran.error.startswith(kind) and not ran.refused
    told = "\n".join(line for one in ran.outputs for line in one.get("traceback", [one.get("text", "")]))
    told = re.sub(r"\x1b\[[\d;]*m", "", told)  # without colours
    inner = "in again" if kind == "ExceptionGroup" else "in again(depth)"  # which Python's own traceback does not say
    assert "again(0)" in told and inner in told and told.count("\n") < 100
    assert said(shared.run("print(7)")) == "7\n"


def test_a_long_traceback_without_a_recursion_is_shown_whole(shared):
    calls = "".join(f"def f{number}():\n    f{number + 1}()\n" for number in range(60))
    ran = shared.run(f"{calls}def f60():\n    1 / 0\nf0()\n")
    told = re.sub(r"\x1b\[[\d;]*m", "", "\n".join(ran.outputs[0].traceback))
    assert [number for number in range(61) if f"in f{number}()" not in told] == []


def test_a_loop_that_ignores_interrupts_is_killed(small):
    with kernel.open_kernel(small) as running, pytest.raises(KernelGone, match="did not stop"):
        running.run("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass")


def test_a_kernel_that_kills_itself_is_noticed_at_once(small):
    """Not when the time of its cell is over, which is longer here than the test may take."""
    patient = small.model_copy(update={"limits": small.limits.model_copy(update={"cell_seconds": 600.0})})
    with kernel.open_kernel(patient) as running:
        started = time.monotonic()
        with pytest.raises(KernelGone, match="died"):
            running.run("import os; os._exit(0)")
        assert time.monotonic() - started < 60


def test_a_bomb_of_forks_and_memory_takes_only_its_sandbox(small):
    bomb = """
import os, time
while True:
    try:
        if not os.fork():
            hoard = bytearray(10**8)
            time.sleep(99)
    except OSError:
        pass
"""
    with kernel.open_kernel(small) as running:
        namespace = said(running.run("import os; print(os.readlink('/proc/self/ns/pid'))")).strip()
        assert len(inside(namespace)) >= 2  # the first one, and the kernel
        with pytest.raises(KernelGone):
            running.run(bomb)
    assert inside(namespace) == []


def test_processes_left_behind_are_gone(small):
    with kernel.open_kernel(small) as running:
        running.run("import subprocess; subprocess.Popen(['sleep', '98765'], start_new_session=True)")
    assert "98765" not in os.popen("ps -eo args | grep -v grep").read()


@pytest.mark.parametrize(
    "nonsense",
    [
        "import os; os.write(3, bytes([0, 0, 0, 4]) + b'what')",  # no message of the wire
        "import os; os.write(3, bytes([0, 0, 0, 1, 0xc0]))",  # plain data, and no outputs
        "get_ipython().outputs.items = 5",
        "get_ipython().outputs.packed = lambda: bytes(5)",
        "get_ipython().outputs.packed = None",
        "import os; os.close(3)",
    ],
)
def test_nonsense_from_the_kernel_ends_only_the_kernel(small, nonsense):
    with kernel.open_kernel(small) as running:
        try:
            running.run(nonsense)
            running.run("1")
        except KernelGone as gone:
            assert "kernel" in str(gone)


def test_sandboxes_are_refused_loudly_where_they_cannot_be_made(monkeypatch):
    monkeypatch.setattr(sandbox, "BWRAP", "/bin/false")
    with pytest.raises(sandbox.SandboxError, match="cannot make a sandbox"):
        sandbox.require_sandboxes()
    monkeypatch.setattr(sandbox.sys, "platform", "darwin")
    with pytest.raises(sandbox.SandboxError, match="need Linux"):
        sandbox.require_sandboxes()


@pytest.mark.parametrize("where", ["cell", "question"])
def test_what_a_kernel_sends_is_bounded(small, where):
    """It says how long a message is before it sends one; longer ones are not received at all."""
    flood = "import os\nos.write(3, b'\\x7f' * 4)\nwhile True:\n    os.write(3, bytes(2**20))"
    with kernel.open_kernel(small) as running, pytest.raises(KernelGone, match="returned more than 32 MB"):
        if where == "cell":
            running.run(flood)
        running.run(f"import threading\ndef flood():\n    {flood.replace(chr(10), chr(10) + '    ')}\n"
                    "threading.Timer(0.3, flood).start()")  # fmt: skip
        for _ in range(10**6):  # until the flood has begun
            running.ask(wire.dumps({"name": "x", "path": []}, lambda value: 0))


def test_a_picture_is_shown_as_at_home(shared):
    ran = shared.run("import matplotlib.pyplot as plt; plt.plot([1, 2]); None")
    assert [sorted(output.data) for output in ran.outputs] == [["image/png", "text/plain"]]
    ran = shared.run("from IPython.display import Image, display; display(Image(data=b'\\x89PNG'))")
    assert ran.outputs[0].data["image/png"] == "iVBORw=="


def test_the_numbered_results_are_there(shared):
    assert said(shared.run("6 * 7; 6 * 7")) == "" and said(shared.run("print(_, Out[max(Out)], In[-2])")).startswith(
        "42 42"
    )


def test_magics_of_jupyters_kernel_work(small):
    """`%cd ..` above an answer cost the whole exercise: IPython wrote its list of directories where it must not."""
    with kernel.open_kernel(small) as running:
        for cell in (
            "%cd ..",
            "%cd /tmp",
            "%pushd /",
            "%bookmark here",
            "kept = 3\n%store kept",
            "%autosave 60\n%clear",
        ):
            ran = running.run(cell)
            assert not any(output["output_type"] == "error" for output in ran.outputs), (cell, ran.outputs)
        assert said(running.run("import os; print(os.getcwd(), get_ipython().db['autorestore/kept'])")) == "/ 3\n"
        assert "fork-server" not in said(running.run("print(get_ipython().ipython_dir, get_ipython().profile_dir)"))


def test_the_line_answers_no_one_else(shared):
    """The judge's end is in no file system, and the kernel listens nowhere."""
    assert (
        said(shared.run("print(open('/proc/net/unix').read().count('\\n'), open('/proc/net/tcp').read().count('\\n'))"))
        == "1 1\n"
    )
