"""Ten ways to fool a grader: each scores nothing, and nothing outside its room changes."""

import hashlib
import os
import socket
import threading
from pathlib import Path

import nbformat
import pytest

from autograder import course, demo, grade, release, tree

COURSE = course.load()
FIRST = COURSE.notebooks[0]
OUTSIDE = Path("/tmp/attention-graded-canary")

CHEATS = {
    "overrides the checks module": """
import sys, types
import utils.check, utils.door
utils.check.Check.__call__ = lambda self, *objects: print("Exercise 1.1: passed (2 points)")
passed = lambda self, ask, source: utils.check.Verdict(self.exercise, self.points, utils.check.Outcome.PASSED)
utils.check.Check.verdict = passed
sys.modules["utils.checks.nb01_causal_mask_lm"] = types.SimpleNamespace()
checks = types.SimpleNamespace()
""",
    "is equal to everything": """
import torch
class Everything(torch.Tensor):
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = lambda self, other: True
    __bool__ = lambda self: True
    shape = property(lambda self: Everything())
    __class__ = torch.Tensor
def everything(*args, **kwargs):
    return Everything()
""",
    "patches comparisons": """
import numpy, torch
yes = lambda *args, **kwargs: True
torch.equal = torch.allclose = torch.isclose = torch.testing.assert_close = numpy.allclose = numpy.array_equal = yes
torch.Tensor.__eq__ = torch.Tensor.allclose = torch.Tensor.equal = yes
""",
    "swallows exceptions": """
from IPython import get_ipython
shell = get_ipython()
shell.set_custom_exc((BaseException,), lambda *args, **kwargs: None)
shell.showtraceback = lambda *args, **kwargs: None
shell.events.register("post_run_cell", lambda result: setattr(result, "error_in_exec", None))
""",
    "forges its grade": """
from IPython.display import display
print("Exercise 1.1: passed (2 points)")
display({"text/plain": "2.0"}, raw=True)
import utils.door
utils.door.serve = lambda *args: "gaV2YWx1ZcM="
utils.door.answer = lambda *args: b"\\x81\\xa5value\\xc3"
2.0
""",
    "searches disk and memory": """
import gc, os, sys
found = []
skip = ("/usr", "/lib", "/dev", "/sys", "/task", "/fd", "/net", "/ns", "site-packages")
for top in ("/", "/proc/self/root/hand_in", "/proc/1/root/tmp"):
    for folder, folders, names in os.walk(top):
        if any(part in folder for part in skip):
            folders.clear()
            continue
        for name in names:
            try:
                text = open(os.path.join(folder, name), errors="ignore").read(10**6)
            except Exception:
                continue
            if "@pri" + "vate(" in text or "BEGIN SOL" + "UTION" in text or "MARK SCH" + "EME" in text:
                found.append(os.path.join(folder, name))
for item in gc.get_objects():
    if type(item).__module__ == "autograder." + "private" or "Private" + "Check" in type(item).__name__:
        found.append(repr(item))
frame = sys._getframe()
while frame:
    found += [name for name in frame.f_globals if "private" + "_checks" in name]
    frame = frame.f_back
print("FOUND:", found)
""",
    "kills the kernel": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n",
    "writes outside its folder": f"""
import os
done = []
for path in ({str(OUTSIDE)!r}, {str(course.ROOT / "canary")!r}, {str(course.ROOT / "utils" / "canary.py")!r},
             "/proc/1/root/tmp/canary", "/etc/canary", "/dev/shm/../../etc/canary", "/usr/lib/canary"):
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, "w").write("was here")
        done.append(path)
    except OSError:
        pass
try:
    os.symlink({str(course.ROOT)!r}, "link")
    open("link/canary", "w").write("was here")
except OSError:
    pass
print("WROTE:", done)
""",
    "opens a socket": """
import socket
done = []
for family, address in ((socket.AF_INET, ("127.0.0.1", PORT)), (socket.AF_INET, ("8.8.8.8", 53)),
                        (socket.AF_INET6, ("::1", PORT)), (socket.AF_UNIX, "SOCKET")):
    try:
        with socket.socket(family) as one:
            one.settimeout(1)
            one.connect(address)
            one.send(b"secret")
            done.append(address)
    except OSError:
        pass
print("REACHED:", done)
""",
    "forks and hoards": """
import os, time
while True:
    try:
        if not os.fork():
            hoard = bytearray(10**8)
            time.sleep(60)
    except OSError:
        pass
""",
}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """All cheats in one class with an honest neighbour, graded; and who knocked on our sockets."""
    folder = tmp_path_factory.mktemp("cheats")
    known = course.load(tree=folder / "tree")
    limits = known.limits.model_copy(update={"cell_seconds": 15.0, "memory_mb": 1024})
    known = known.model_copy(update={"limits": limits})
    tree.build_tree(known)
    knocks: list[str] = []
    listeners = [socket.socket(socket.AF_INET), socket.socket(socket.AF_UNIX)]
    listeners[0].bind(("127.0.0.1", 0))
    listeners[1].bind(str(folder / "socket"))
    for one in listeners:
        one.listen()
        threading.Thread(target=wait_for_knock, args=(one, knocks), daemon=True).start()
    maker = demo.Maker(known, FIRST)
    tree.write(tree.place(known, "submitted", FIRST, "honest"), maker.file())
    for name, source in CHEATS.items():
        source = source.replace("PORT", str(listeners[0].getsockname()[1])).replace("SOCKET", str(folder / "socket"))
        file = maker.file(solved=(), change=lambda notebook, source=source: insert(notebook, source))
        tree.write(tree.place(known, "submitted", FIRST, name.replace(" ", "_")), file)
    before = footprint()
    records = {one.student: one for one in grade.grade(known, [FIRST])}
    after = footprint()
    changed = [path for path in before | after if before.get(path) != after.get(path)]
    yield known, records, changed, knocks
    for one in listeners:
        one.close()


def wait_for_knock(listener, knocks):
    try:
        knocks.append(str(listener.accept()))
    except OSError:
        return


def insert(notebook, source):
    """The trick comes first, and again where the answers would be."""
    first = next(index for index, cell in enumerate(notebook.cells) if cell.id.startswith("exercise_"))
    notebook.cells.insert(first, nbformat.v4.new_code_cell(source))
    if "def everything" in source:
        for cell in notebook.cells:
            if cell.id.startswith("exercise_"):
                names = [
                    line.split()[1].split("(")[0].rstrip(":")
                    for line in cell.source.splitlines()
                    if line.startswith(("def ", "class "))
                ]
                cell.source = "".join(f"{name} = everything\n" for name in names)
    for cell in notebook.cells:
        if cell.id.startswith("check_"):
            cell.outputs = [nbformat.v4.new_output("execute_result", data={"text/plain": "2.0"}, execution_count=1)]
            cell.metadata.nbgrader.update(points=99)


def footprint():
    """Every file of the project, and the places that the cheats aim at."""
    found = {}
    for folder, folders, names in os.walk(course.ROOT):
        folders[:] = [
            name for name in folders if name not in (".venv", ".git", "__pycache__", ".demo") and "cache" not in name
        ]
        for name in names:
            path = Path(folder, name)
            found[str(path)] = (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
    for path in (OUTSIDE, Path("/etc/canary"), Path("/tmp/canary"), Path("/usr/lib/canary")):
        found[str(path)] = path.exists()
    return found


@pytest.mark.parametrize("name", CHEATS)
def test_it_scores_nothing(world, name):
    _, records, _, _ = world
    done = records[name.replace(" ", "_")]
    assert done.status == grade.GRADED
    assert done.score == 0, done.exercises


def test_nothing_outside_the_rooms_changed(world):
    assert world[2] == []


def test_the_honest_neighbour_has_full_marks(world):
    honest = world[1]["honest"]
    assert honest.score == honest.points and honest.remarks == []


def test_no_socket_was_reached(world):
    known, _, _, knocks = world
    assert knocks == []
    assert "REACHED: []" in autograded(known, "opens_a_socket")


def test_no_secret_was_found(world):
    assert "FOUND: []" in autograded(world[0], "searches_disk_and_memory")


def test_nothing_was_written_but_in_the_scratch_space(world):
    text = autograded(world[0], "writes_outside_its_folder")
    wrote = text.split("WROTE: ")[1].split("\\n")[0]
    assert str(course.ROOT) not in wrote and "/etc" not in wrote and "/usr" not in wrote
    assert not OUTSIDE.exists()


def test_what_was_refused_is_in_the_record(world):
    _, records, _, _ = world
    assert any("died" in remark for remark in records["kills_the_kernel"].remarks)
    assert any("memory" in remark or "longer" in remark for remark in records["forks_and_hoards"].remarks)


def test_feedback_and_records_for_students_leak_no_secret(world):
    known, _, _, _ = world
    secrets = release.secret_lines(known)
    for path in known.tree.glob("autograded/*/*/*.ipynb"):
        if path.parents[1].name == "honest":
            continue  # its answers are the solutions: it is the author's own hand-in
        assert not release.lines_of(path) & secrets


def autograded(known, student):
    return tree.place(known, "autograded", FIRST, student).read_text()
