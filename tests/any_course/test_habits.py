"""Habits of real courses, a cell for each: the mark is that of stock nbgrader, which grades the same course beside."""

import pytest
from guest_courses import make, run, scores
from traitlets.config import Config

from autograder.any_course import compare
from autograder.any_course.directory import GRADED

pytestmark = pytest.mark.filterwarnings("ignore")  # stock nbgrader's, and those of the kernels that it starts
ANSWER = """\
import asyncio, sys, ipywidgets
async def one(): return 1
def loud(x):
    print("bad", file=sys.stderr)
    return x
out = ipywidgets.Output()
seen = []
async def slow():
    seen.append(1)
    await asyncio.sleep(0.05)
    seen.append(2)
"""
HABITS = {  # in the order in which they run; the mark of both
    "asks for the loop": ("assert asyncio.get_event_loop().is_running()", 1),
    "asks for the running loop": ("asyncio.get_running_loop();", 1),
    "runs the loop, which runs": (
        "mine = one()\ntry:\n    asyncio.get_event_loop().run_until_complete(mine)\nfinally:\n    mine.close()",
        0,
    ),
    "asyncio.run": ("mine = one()\ntry:\n    asyncio.run(mine)\nfinally:\n    mine.close()", 0),
    "starts a task": ("task = asyncio.get_event_loop().create_task(slow())", 1),
    "the task has begun": ("assert seen[:1] == [1]", 1),
    "the task goes on while a cell awaits": ("await asyncio.sleep(0.3)\nassert seen == [1, 2]", 1),
    "fails while it awaits": ("await asyncio.sleep(0)\n1 / 0", 0),
    "runs a loop in a thread": (
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor() as pool:\n"
        "    assert pool.submit(lambda: asyncio.new_event_loop().run_until_complete(one())).result() == 1",
        1,
    ),
    "tqdm.auto": ("from tqdm.auto import tqdm\nfor _ in tqdm(range(3)): pass", 1),
    "tqdm": ("from tqdm import tqdm\nfor _ in tqdm(range(3)): pass", 0),
    "asks whether it is in a notebook": ("assert type(get_ipython()).__name__ == 'ZMQInteractiveShell'", 1),
    "asks for the kernel's settings": ("assert 'IPKernelApp' in get_ipython().config", 1),
    "reads its arguments": ("import argparse\nargparse.ArgumentParser().parse_args()", 0),
    "the usual programs": (
        "names = 'python pip tail sort unzip touch find date env awk sed tar gzip cut uniq tr which zip'.split()\n"
        "for name in names:\n    found = !command -v $name\n    assert found, name",
        1,
    ),
    "sorts": ("found = !printf 'b\\na\\n' | sort | head -n 1\nassert found == ['a'], found", 1),
    "starts this Python": (
        "found = !python -c 'import numpy, sys; print(sys.prefix)'\nassert found == [sys.prefix]",
        1,
    ),
    "asks for pip": ("found = !pip --version\nassert found[0].startswith('pip ')", 1),
    "unzips": (
        "!zip -q table.zip table.csv && mkdir -p there && unzip -q table.zip -d there\n"
        "assert open('there/table.csv').read() == 'right'",
        1,
    ),
    "reads its own notebook": ("assert 'import asyncio' in open('n.ipynb').read()", 1),
    "parses its own notebook": (
        "import json\ncells = json.load(open('n.ipynb'))['cells']\n"
        "assert 'get_event_loop' in ''.join(cells[1]['source']) and not cells[1]['outputs'] and len(cells) > 20",
        1,
    ),
    "writes a file": ("import os\nos.makedirs('made/deep')\nopen('made/deep/it.txt', 'w').write('x');", 1),
    "changes a file": ("open('table.csv', 'a').write(', changed');", 1),
    "a file beside it named like a module of Python": ("import this\nassert not hasattr(this, 'beside')", 1),
}

# The marks that stock nbgrader gives. It is not asked here: now and then its kernel hangs when a widget has captured.
WIDGETS = {
    "Output takes what is printed": ("with out:\n    print('hello')\n    loud(1)", 1),
    "Output knows what it took": ("assert [one['text'] for one in out.outputs] == ['hello\\n', 'bad\\n']", 1),
    "Output takes an error": ("with out:\n    1 / 0", 1),
    "Output knows the error": ("assert out.outputs[-1]['ename'] == 'ZeroDivisionError'", 1),
    "Output is cleared": ("with out:\n    out.clear_output()", 1),
    "Output is empty": ("assert not out.outputs", 1),
    "after Output the cell has it": ("with out:\n    pass\nloud(1)", 0),
    "a decorator captures": ("out.capture(clear_output=True)(loud)(1)", 1),
    "interact": ("ipywidgets.interact(loud, x=(0, 5));", 1),
    "interact with an error": ("ipywidgets.interact(lambda x: 1 / 0, x=(0, 5));", 1),
    "interact whose value is shown": ("print('seen')\nipywidgets.interact(lambda x: x / 10, x=(0, 5));", 1),
    "interactive": ("shown = ipywidgets.interactive(loud, x=(0, 5))\nshown.update()\nassert shown.result == 2", 1),
}


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The marks of all habits by stock nbgrader and here, and both directories."""
    cells = [[cell for cell, _ in habits.values()] for habits in (HABITS, HABITS | WIDGETS)]
    root = tmp_path_factory.mktemp("habits")
    stock, ours = root / "stock", root / "ours"
    for one, texts in zip((stock, ours), cells, strict=True):
        make(one, ANSWER, *texts, toml="")
        (one / "source/one/this.py").write_text("beside = True\n")
        (one / "source/one/table.csv").write_text("right")
    patient = Config({"Execute": {"timeout": 60}})  # of a busy machine a cell may wait long
    assert compare.Stock(stock, patient).autograde("one", "eve") == ""
    records, _ = run(ours)
    assert records[0].status == GRADED, records
    return marks_of(stock, HABITS), marks_of(ours, HABITS | WIDGETS), stock, ours


def marks_of(root, habits):
    marks = compare.marks(root)["one", "eve"]
    return {name: marks[f"mark n t{number}"][0] for number, name in enumerate(habits)}


def test_every_habit_has_the_mark_of_stock_nbgrader(both):
    stock, ours = both[:2]
    assert stock == {name: mark for name, (_, mark) in HABITS.items()}
    assert ours == stock | {name: mark for name, (_, mark) in WIDGETS.items()}


def test_files_that_cells_write_are_kept(both):
    def kept(root):
        return {
            str(path.relative_to(root)): path.read_bytes()
            for path in root.rglob("*")
            if path.is_file() and path.suffix not in (".ipynb", ".pyc", ".zip")
        }

    stock, ours = (kept(root / "autograded/eve/one") for root in both[2:])
    assert ours == stock and ours["made/deep/it.txt"] == b"x" and ours["table.csv"] == b"right, changed"


ENDLESS = ("await asyncio.sleep(60)", "while True: await asyncio.sleep(0)", "await asyncio.sleep(0)\nwhile True: pass")
NESTED = """
import nest_asyncio2
nest_asyncio2.apply()
async def one(): return 1
assert asyncio.run(one()) == asyncio.get_event_loop().run_until_complete(one()) == 1
"""


def test_a_cell_that_awaits_is_stopped_and_the_others_count(lone):
    root = lone("import asyncio", *ENDLESS, "await asyncio.sleep(0)\nassert True", NESTED, "await one()\nassert True")
    records, _ = run(root)
    assert (records[0].status, scores(root)[0]) == (GRADED, [0, 0, 0, 1, 1, 1]), records
    assert sum("longer than 1 seconds" in remark for remark in records[0].remarks) == 3
    assert not any("did not stop" in remark for remark in records[0].remarks)
