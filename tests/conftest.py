"""What several test files share: a graded class, made once."""

import io
import shutil

import pytest
from rich.console import Console

from autograder import course, demo


@pytest.fixture(scope="session")
def demo_run(tmp_path_factory):
    """The demonstration, run in a folder of its own: its tree, what it printed, and its verdict on itself."""
    root = tmp_path_factory.mktemp("class")
    printed = io.StringIO()
    right = demo.run(2, Console(file=printed, width=200), root)
    return demo.course_in(root), printed.getvalue(), right


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The first notebook's course tree, built; `fresh` copies it."""
    from autograder import tree

    known = course.load(tree=tmp_path_factory.mktemp("built") / "tree")
    limits = known.limits.model_copy(update={"cell_seconds": 8.0, "memory_mb": 1024})
    known = known.model_copy(update={"limits": limits, "notebooks": known.notebooks[:1]})
    tree.build_tree(known)
    return known


@pytest.fixture
def fresh(built, tmp_path):
    """A course of the first notebook with a tree of its own, built, and quick limits."""
    shutil.copytree(built.tree, tmp_path / "tree")
    return built.model_copy(update={"tree": tmp_path / "tree"})


@pytest.fixture
def workshop(tmp_path):
    """A course with a tree of its own, built, and quick limits."""
    from autograder import tree

    known = course.load(tree=tmp_path / "tree")
    limits = known.limits.model_copy(update={"cell_seconds": 8.0, "memory_mb": 1024})
    grading = known.grading.model_copy(update={"results_profiles": ("smoke",)})
    known = known.model_copy(update={"limits": limits, "grading": grading})
    tree.build_tree(known)
    return known
