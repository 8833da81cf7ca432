"""What several test files share: a graded class, made once."""

import io

import pytest
from rich.console import Console

from autograder import course, demo


@pytest.fixture(scope="session")
def demo_run(tmp_path_factory):
    """The demonstration, run in a folder of its own: its tree, what it printed, and its verdict on itself."""
    root = tmp_path_factory.mktemp("class")
    printed = io.StringIO()
    right = demo.run(2, Console(file=printed, width=200), root)
    known = course.load(tree=root)
    return known, printed.getvalue(), right


@pytest.fixture
def workshop(tmp_path):
    """A course with a tree of its own, built, and quick limits."""
    from autograder import tree

    known = course.load(tree=tmp_path / "tree")
    limits = known.limits.model_copy(update={"cell_seconds": 8.0, "memory_mb": 1024})
    known = known.model_copy(update={"limits": limits})
    tree.build_tree(known)
    return known
