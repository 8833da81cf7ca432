"""A kernel in a room: what it can see, what it may use, and that nothing of it stays."""

import os
import re
import time
from pathlib import Path

import pytest

from autograder import course, kernel, room
from autograder.kernel import KernelGone

LIMITS = {"cell_seconds": 4, "memory_mb": 1024, "disk_mb": 64, "file_mb": 16}


@pytest.fixture(scope="module")
def small():
    known = course.load()
    return known.model_copy(update={"limits": known.limits.model_copy(update=LIMITS)})


@pytest.fixture(scope="module")
def shared(small):
    """One kernel for the tests that leave it as it was."""
    with kernel.open_kernel(small) as running:
        yield running


def said(ran):
    return "".join(output.get("text", "") or output.get("evalue", "") for output in ran.outputs)


def test_it_sees_the_course_and_nothing_of_the_instructor(shared):
    seen = said(shared.run(f"import os; print(sorted(os.listdir({str(course.ROOT)!r})), os.listdir('.'))"))
    visible = {name for name in os.listdir(course.ROOT) if f"'{name}'" in seen}
    assert {"utils", "data"} <= visible <= {"utils", "data", ".venv"}


def test_it_sees_no_process_but_its_own(shared):
    seen = said(
        shared.run("import os; print([open(f'/proc/{p}/cmdline').read() for p in os.listdir('/proc') if p.isdigit()])")
    )
    assert "pytest" not in seen and "autograder.nursery" in seen


def test_it_has_no_privilege(shared):
    status = said(shared.run("print(open('/proc/self/status').read())"))
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    assert "0" not in fields["Uid"].split()
    assert {int(fields[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {0}
    assert fields["NoNewPrivs"].strip() == "1"


def test_it_inherits_nothing(small, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_INSTRUCTOR", "canary")
    grading = small.grading.model_copy(update={"preload": ("utils.door",)})  # another nursery, started only now
    with kernel.open_kernel(small.model_copy(update={"grading": grading})) as running:
        assert "canary" not in said(
            running.run("import os; print(dict(os.environ), open('/proc/self/environ').read())")
        )
        handles = said(
            running.run("print([os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd')[:-1]])")
        )
    assert not re.search(r"'/(?!dev/|proc/|run/|hand_in|tmp)", handles), handles


def room_users():
    """The users of all processes that nurseries forked."""
    found = (line.split(None, 1) for line in os.popen("ps -eo uid=,args=").read().splitlines())
    return sorted(uid for uid, command in found if "autograder.nursery" in command)


@pytest.mark.parametrize("address", ["('127.0.0.1', 22)", "('8.8.8.8', 53)"])
def test_it_has_no_network(shared, address):
    ran = shared.run(f"import socket; socket.create_connection({address}, 1)")
    assert "refused" in ran.error or "unreachable" in ran.error


@pytest.mark.parametrize("path", ["/x", "/etc/x", "/usr/x", "/dev/x", f"{course.ROOT}/utils/x", f"{course.ROOT}/x"])
def test_it_writes_only_to_its_scratch_space(shared, path):
    ran = shared.run(f"open({path!r}, 'w')")
    if not path.startswith("/tmp/"):  # a clone below /tmp has its folders in the room's own /tmp, which is scratch
        assert "Read-only" in ran.error or "Permission" in ran.error, ran
    assert not Path(path).exists()


def test_what_it_writes_is_gone_afterwards(shared):
    shared.run("open('/tmp/room-was-here', 'w').write('x'); open('note', 'w').write('x')")
    assert not Path("/tmp/room-was-here").exists()


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


def test_a_loop_is_interrupted_and_the_kernel_lives(shared):
    assert "longer than 4 seconds" in shared.run("while True: pass").refused
    assert said(shared.run("print('still here')")) == "still here\n"


def test_a_loop_that_ignores_interrupts_is_killed(small):
    with kernel.open_kernel(small) as running, pytest.raises(KernelGone, match="did not stop"):
        running.run("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass")


def test_a_kernel_that_kills_itself_is_noticed_at_once(small):
    with kernel.open_kernel(small) as running:
        started = time.monotonic()
        with pytest.raises(KernelGone, match="died"):
            running.run("import os; os._exit(0)")
        assert time.monotonic() - started < 3


def test_a_bomb_of_forks_and_memory_takes_only_its_room(small):
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
    before = room_users()
    with kernel.open_kernel(small) as running, pytest.raises(KernelGone):
        running.run(bomb)
    assert room_users() == before


def test_processes_left_behind_are_gone(small):
    with kernel.open_kernel(small) as running:
        running.run("import subprocess; subprocess.Popen(['sleep', '98765'], start_new_session=True)")
    assert "98765" not in os.popen("ps -eo args | grep -v grep").read()


@pytest.mark.parametrize(
    "nonsense",
    [
        "get_ipython().kernel.session.key = b'other'",
        "get_ipython().kernel.session.send(get_ipython().kernel.iopub_socket, 'stream', content={'name': 5}, "
        "parent=get_ipython().kernel.get_parent())",
        "get_ipython().kernel.iopub_socket.send(b'no message')",
    ],
)
def test_nonsense_from_the_kernel_ends_only_the_kernel(small, nonsense):
    with kernel.open_kernel(small) as running:
        try:
            running.run(nonsense)
            running.run("1")
        except KernelGone as gone:
            assert "kernel" in str(gone) or "longer" in str(gone)


def test_rooms_are_refused_loudly_where_they_cannot_be_made(monkeypatch):
    monkeypatch.setattr(room, "BWRAP", "/bin/false")
    with pytest.raises(room.RoomError, match="cannot make a room"):
        room.require_rooms()
    monkeypatch.setattr(room.sys, "platform", "darwin")
    with pytest.raises(room.RoomError, match="need Linux"):
        room.require_rooms()
