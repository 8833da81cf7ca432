"""Work in a child with limits: its answers, its exceptions, and what ends it; the caller goes on in each case."""

import ast
import builtins
import json
import math
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from waiting import eventually

from autograder import limited
from autograder.limited import TooCostly, call


def test_answers_come_back_as_plain_data():
    assert call(math.hypot, 3, 4) == 5.0
    assert call(json.loads, b'{"a": [1, null, "\\ud800"]}') == {"a": [1, None, "\ud800"]}


def test_its_exceptions_come_back():
    with pytest.raises(ZeroDivisionError, match="by zero"):
        call(builtins.divmod, 1, 0)
    with pytest.raises(SyntaxError):
        call(ast.parse, "def")
    with pytest.raises(ValueError, match="Expecting value"):  # a JSONDecodeError, which is not built from its text
        call(json.loads, "x")


def parent():
    return call(eval, "__import__('os').getppid()")


def pid():
    return call(eval, "__import__('os').getpid()")


def test_the_child_stays_and_imports_nothing_heavy():
    mine = pid()
    assert mine == pid() != os.getpid()
    assert call(eval, "'torch' in __import__('sys').modules") is False and "torch" not in limited.__dict__


@pytest.mark.parametrize(
    "code, why",
    [
        ("sum(range(10**12))", "more than 0.5 seconds"),
        ("__import__('time').sleep(1000)", "more than 0.5 seconds"),
        ("[0] * 10**9", "more than 200 MB"),
        ("[bytearray(2**20) for _ in iter(int, 1)]", "more than 200 MB"),
        ("__import__('os').abort()", "breaks the program"),
        ("__import__('ctypes').string_at(0)", "breaks the program"),
        ("__import__('os')._exit(0)", "breaks the program"),
        ("__import__('json').loads('[' * 10**5)", "nested too deep"),
        ("bytes(2**26)", "breaks the program"),  # more than an answer may be
    ],
)
def test_what_ends_it_is_named_and_the_next_call_is_answered(code, why, monkeypatch):
    monkeypatch.setattr(limited, "WAITS", (2, 1))
    template = parent()
    memory = 1000 if "2**26" in code else 200
    seconds = 0.5 if "seconds" in why else 10  # a busy machine takes its time to fill memory
    with pytest.raises(TooCostly, match=why):
        call(eval, code, seconds=seconds, memory_mb=memory)
    assert call(math.hypot, 3, 4) == 5.0
    assert template == parent()  # forked again, not imported again


def test_a_slow_parse_ends():
    with pytest.raises(TooCostly, match="more than 1 seconds"):
        call(ast.parse, "f'" + "{a}" * 140_000 + "'", seconds=1)


def test_who_kills_it_does_not_end_us():
    os.kill(pid(), 9)
    with pytest.raises(TooCostly):
        call(math.hypot, 3, 4)
    assert call(math.hypot, 3, 4) == 5.0
    os.kill(parent(), 9)  # the template
    os.kill(pid(), 9)
    with pytest.raises(TooCostly):
        call(math.hypot, 3, 4)
    assert call(math.hypot, 3, 4) == 5.0


def test_threads_and_forks_get_their_own_answers():
    with ThreadPoolExecutor(4) as threads:
        assert [*threads.map(lambda n: call(math.factorial, n), range(20))] == [math.factorial(n) for n in range(20)]
    mine, child = pid(), os.fork()
    if child == 0:
        os._exit(0 if pid() != mine and threading.main_thread() else 1)
    assert os.waitpid(child, 0)[1] == 0 and pid() == mine


def test_threads_have_children_of_their_own_which_end_with_them():
    meet = threading.Barrier(2, timeout=60)
    with ThreadPoolExecutor(2) as threads:
        found = [*threads.map(lambda _: (meet.wait(), pid())[1], range(2))]
    assert len({*found, pid()}) == 3
    eventually(lambda: not any(os.path.exists(f"/proc/{number}") for number in found))


def test_it_ends_with_its_caller():
    code = (
        "import os; from autograder.limited import call; print(call(eval, '__import__(\"os\").getpid()'), flush=True)"
    )
    number = int(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=60).stdout)
    eventually(lambda: not os.path.exists(f"/proc/{number}"))


def test_a_call_costs_little():
    call(math.hypot, 3, 4)
    started = time.process_time()
    for _ in range(200):
        call(math.hypot, 3, 4)
    assert (time.process_time() - started) / 200 < 0.002
