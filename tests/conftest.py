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

# Fixtures of courses with submissions, and of kernels: tests that ask for one are marked `grading`.
GRADING = {"all_built", "built", "demo_run", "fresh", "honest", "shared", "workshop"}
# Files whose tests read the demonstration.
DEMONSTRATION = tuple(path.stem for path in Path(__file__).parent.rglob("test_*.py") if "demo_run" in path.read_text())
# The groups that take longest begin first.
FIRST = (
    *("demonstration", "test_hostile", "test_grade", "test_execute", "test_stock", "test_kill", "test_browser"),
    *("test_runs", "test_withheld", "test_translation", "test_slow", "test_new_course", "test_evidence"),
    *("test_any_course", "test_first_calls", "test_variants", "test_replay", "test_colab", "test_pairs"),
    *("test_isolation", "test_watch", "test_semester"),
)


def group(nodeid: str) -> str:
    """The tests that run in one process with this one: those of a file, or of all files that read the demonstration.

    Each exercise of test_checks is a group. pytest 9.2 knows nothing of xdist's own `xdist_group`.
    """
    file, _, test = nodeid.partition("::")
    name = Path(file).stem
    exercise = re.search(r"\d+\.S?\d+", test) if name == "test_checks" else None
    return "demonstration" if name in DEMONSTRATION else f"{name} {exercise[0]}" if exercise else name


def pytest_collection_modifyitems(items):
    """Tests come in the order of their groups, and what is marked nothing else is marked `unit`."""
    for item in items:
        if GRADING & {*item.fixturenames}:
            item.add_marker(pytest.mark.grading)
        if not {"grading", "browser", "slow"} & {mark.name for mark in item.iter_markers()}:
            item.add_marker(pytest.mark.unit)
    items.sort(key=lambda item: FIRST.index(one) if (one := group(item.nodeid)) in FIRST else len(FIRST))


def pytest_collection_finish():
    """From now on look for garbage, but not in the thousands of tests and all that is imported."""
    gc.freeze()
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
    """The demonstration, run in a folder of its own: its tree, what it printed, and its verdict on itself."""
    root = tmp_path_factory.mktemp("class")
    printed = io.StringIO()
    with process_stderr() as noise:
        right = demo.run(2, Console(file=printed, width=200), root)
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
