"""What several test files share: a graded class, made once."""

import io
import os

os.environ["OMP_NUM_THREADS"] = "1"  # before torch: on small tensors its threads only wait, and take the cores for it

import pytest
from helpers import built_tree, copied
from rich.console import Console

from autograder import course, demo
from autograder.sandbox import kernel

# What whoever writes a check runs: `pytest -m "not grading" -n 2`. All else grades, trains, or runs whole notebooks.
QUICK = ("test_checks", "test_edits", "test_structure", "test_subwords")
# The groups that take longest begin first.
FIRST = ("demonstration", "test_hostile", "test_grade", "test_execute", "test_stock", "test_kill", "test_runs")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items):
    """Tests that share what was made for them run in one process, those of a file unless it says otherwise."""

    def group(item):
        return item.get_closest_marker("xdist_group").args[0]

    for item in items:
        file = item.path.stem
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group("demonstration" if "demo_run" in item.fixturenames else file))
        if file not in QUICK:
            item.add_marker(pytest.mark.grading)
    items.sort(key=lambda item: FIRST.index(group(item)) if group(item) in FIRST else len(FIRST))


@pytest.fixture(scope="session")
def demo_run(tmp_path_factory):
    """The demonstration, run in a folder of its own: its tree, what it printed, and its verdict on itself."""
    root = tmp_path_factory.mktemp("class")
    printed = io.StringIO()
    right = demo.run(2, Console(file=printed, width=200), root)
    return demo.course_in(root), printed.getvalue(), right


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


@pytest.fixture(scope="module")
def small(request):
    """The course with the limits that a test file states in `LIMITS`."""
    known = course.load()
    return known.model_copy(update={"limits": known.limits.model_copy(update=request.module.LIMITS)})


@pytest.fixture(scope="module")
def shared(small):
    """One kernel for the tests of a file that leave it as it was."""
    with kernel.open_kernel(small) as running:
        yield running
