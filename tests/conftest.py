# ruff: noqa: E402 - what is done before other imports makes them quicker
"""What several test files share: a graded class, made once."""

import gc
import importlib
import io
import os
import re
from pathlib import Path

import pytest

os.environ["OMP_NUM_THREADS"] = "1"  # before torch: on small tensors its threads only wait, and take the cores for it
os.environ.setdefault("AUTOGRADER_LOCAL", "")  # the course as it comes, whatever an instructor's own settings choose
gc.disable()  # until all tests are collected: what is imported stays, and is not looked at again and again
importlib.import_module("autograder")  # before nbformat, which it makes quicker to import

from helpers import built_tree, copied, process_stderr
from rich.console import Console
from xdist.scheduler.loadscope import LoadScopeScheduling

from autograder import course, demo
from autograder.sandbox import preload

# Fixtures with a course tree, a kernel or a browser: tests that ask for one are marked so.
FIXTURES = {
    "grading": {
        *("all_built", "attacked", "built", "demo_run", "fresh", "graded", "lone", "running", "shared", "small"),
        *("workshop", "world"),
    },
    "browser": {"browser", "served"},
    "slow": {"honest"},  # it trains
}
# Files whose tests take a second or more each, or train, as measured with `pytest --durations=0`.
SLOW = {
    *("test_adapter_parity", "test_answering", "test_any_course", "test_appeals", "test_container", "test_docs"),
    *("test_doctor", "test_each_exercise", "test_escape", "test_evidence", "test_execute", "test_figures"),
    *("test_first_calls", "test_forgetting", "test_fuzz", "test_gpu", "test_grade", "test_habits"),
    *("test_hand_in", "test_hostile", "test_import_closure", "test_isolation", "test_judge", "test_kill"),
    *("test_life", "test_llm", "test_local", "test_longer_context", "test_needs", "test_new_course"),
    *("test_objectives", "test_own_code", "test_pairs", "test_pretraining", "test_recorded", "test_replay"),
    *("test_runs", "test_sandbox", "test_semester", "test_setup", "test_slow", "test_smaller_models"),
    *("test_stretch", "test_summaries", "test_tagging", "test_transfer_data", "test_translation", "test_watch"),
    *("test_browser", "test_colab", "test_release", "test_variants", "test_withheld", "test_instruction_tuning"),
}
# Files whose tests read the demonstration.
DEMONSTRATION = tuple(path.stem for path in Path(__file__).parent.rglob("test_*.py") if "demo_run" in path.read_text())
# Files whose tests share nothing from one notebook to another.
BY_NOTEBOOK = {"test_execute", "test_judge", "test_replay"}
# The groups that take longest begin first.
FIRST = (
    *("demonstration", "test_hostile", "test_each_exercise", "test_grade", "test_judge", "test_stock", "test_kill"),
    *("test_browser", "test_execute", "test_runs", "test_withheld", "test_translation", "test_slow"),
    *("test_new_course", "test_evidence", "test_any_course", "test_first_calls", "test_variants", "test_escape"),
    *("test_replay", "test_colab", "test_pairs", "test_isolation", "test_watch", "test_semester"),
)


def group(nodeid: str) -> str:
    """The tests that run in one process with this one: those of a file, or of all files that read the demonstration.

    Each exercise of test_checks is a group, and each notebook of some files. pytest 9.2 knows nothing of xdist's own
    `xdist_group`.
    """
    file, _, test = nodeid.partition("::")
    name = Path(file).stem
    if name in DEMONSTRATION:
        return "demonstration"
    part = r"\d+\.S?\d+" if name == "test_checks" else r"\[\d\d_\w+\]" if name in BY_NOTEBOOK else "$"
    found = re.search(part, test)
    return f"{name} {found[0] if found else ''}".strip()


def pytest_collection_modifyitems(items):
    """Tests come in the order of their groups. A test with none of the other marks is marked `unit`."""
    for item in items:
        marks = {mark for mark, fixtures in FIXTURES.items() if fixtures & {*item.fixturenames}}
        marks |= {"slow"} if item.path.stem in SLOW else set()
        marks |= {"browser"} if "sync_playwright" in item.function.__code__.co_names else set()
        for mark in marks:
            item.add_marker(mark)
        if not {*FIXTURES} & {mark.name for mark in item.iter_markers()}:
            item.add_marker("unit")
    order = {name: place for place, name in enumerate(FIRST)}
    items.sort(key=lambda item: order.get(group(item.nodeid).partition(" ")[0], len(FIRST)))


def pytest_collection_finish():
    """From now on look for garbage, but not in the thousands of tests and all that is imported, and less often."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)  # with Python's own 700, 10, 10 test_checks.py takes a twentieth more time
    gc.enable()


class Groups(LoadScopeScheduling):
    """Shares the tests out to the processes of `pytest -n 3`."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Tests that share what was made for them share a process."""
    return Groups(config, log)


@pytest.fixture(scope="session", autouse=True)
def one_fork_server():
    """A process of the tests has one fork server, which holds what any notebook needs: each start takes seconds.

    Tests that ask for a lighter one, without the course's helpers, get it.
    """
    known = course.load()
    whole, make = known.running(list(known.notebooks)).grading.preload, preload.fork_server
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            preload, "fork_server", lambda modules: make(whole if {*known.grading.preload} <= {*modules} else modules)
        )
        yield


@pytest.fixture(scope="session", autouse=True)
def one_cache(tmp_path_factory):
    """All processes of the tests share one cache: to read the documentation of Python and its libraries takes seconds.

    It is a folder of this run, and not the user's own.
    """
    own = tmp_path_factory.getbasetemp()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_CACHE", str((own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "cache"))
        yield


@pytest.fixture(scope="session")
def demo_run(tmp_path_factory):
    """The demonstration, run in a folder of its own: its tree, what it printed, and its verdict on itself.

    With COURSE_LONG_TESTS=1 the class is whole in every notebook.
    """
    root = tmp_path_factory.mktemp("class")
    printed = io.StringIO()
    with process_stderr() as noise:
        right = demo.run(2, Console(file=printed, width=200), root, bool(os.environ.get("COURSE_LONG_TESTS")))
    return demo.course_in(root), printed.getvalue() + noise.getvalue(), right


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The first notebook's course tree; `fresh` copies it."""
    return built_tree(tmp_path_factory.mktemp("built"), 1)


@pytest.fixture(scope="session")
def all_built(tmp_path_factory):
    """The whole course's tree; `workshop` copies it."""
    return built_tree(tmp_path_factory.mktemp("built"), None)


@pytest.fixture
def fresh(built, tmp_path):
    """A course of the first notebook with a tree of its own, built, and quick limits."""
    return copied(built, tmp_path)


@pytest.fixture
def workshop(all_built, tmp_path):
    """The whole course with a tree of its own, built, and quick limits."""
    return copied(all_built, tmp_path)
