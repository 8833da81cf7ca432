"""What several test files share: a graded class, made once."""

import io
import shutil

import pytest
from rich.console import Console

from autograder import course, demo, tree

# These run notebooks or train in their own process alone. All others grade, with two workers and limits on
# time, and would be in each other's way: side by side they run with these only.
ALONE = ("checks", "pairs", "runs", "fuzz", "wire", "evidence", "execute", "prose", "recorded", "seed_table")


@pytest.hookimpl(tryfirst=True)  # xdist reads the marks in the same hook
def pytest_collection_modifyitems(items):
    """Tell `pytest -n 2 --dist loadgroup` which tests share a process, and so what was made for them."""
    for item in items:
        name = item.path.stem.removeprefix("test_")
        item.add_marker(pytest.mark.xdist_group(name if name in ALONE else "grading"))


@pytest.fixture(scope="session")
def demo_run(tmp_path_factory):
    """The demonstration, run in a folder of its own: its tree, what it printed, and its verdict on itself."""
    root = tmp_path_factory.mktemp("class")
    printed = io.StringIO()
    right = demo.run(2, Console(file=printed, width=200), root)
    return demo.course_in(root), printed.getvalue(), right


def built_tree(folder, notebooks):
    """A course of the first so many notebooks, with quick limits and its tree built below `folder`."""
    known = course.load(tree=folder / "tree")
    limits = known.limits.model_copy(update={"cell_seconds": 8.0, "memory_mb": 1024})
    grading = known.grading.model_copy(update={"results_profiles": ("smoke",)})
    known = known.model_copy(update={"limits": limits, "grading": grading, "notebooks": known.notebooks[:notebooks]})
    tree.build_tree(known)
    return known


def copied(known, folder):
    """The same course with a tree of its own below `folder`."""
    shutil.copytree(known.tree, folder / "tree")
    known = known.model_copy(update={"tree": folder / "tree"})
    tree.build_tree(known)  # its configuration names the folder
    return known


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
