"""What several test files share: a graded class, made once."""

import io
import os
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # before torch: on small tensors its threads only wait, and take the cores for it

import pytest
from helpers import built_tree, copied
from rich.console import Console
from xdist.scheduler.loadscope import LoadScopeScheduling

from autograder import course, demo
from autograder.sandbox import kernel

# These need one process and no limits on time.
ALONE = (
    *("checks", "pairs", "runs", "fuzz", "wire", "evidence", "execute", "prose", "recorded", "seed_table", "forbidden"),
    *("forms", "names", "deadlines", "sanitize", "reach", "release", "transfer_data", "adapter_parity", "collect"),
    *("colab", "first_calls", "setup", "own_code", "structure", "figures", "subwords"),
)
# The others grade, with two workers. Those that share the demonstration run one after the other, and so do these:
CLOSED = ("hostile", "escape", "sandbox", "isolation", "kill", "replay", "resume", "withheld", "devices", "postgres")


# The longest lanes begin first. A process is given a second lane along with its first: a short one.
FIRST = ("grading", "closed", "names", "structure", "execute", "runs", "checks", "first_calls", "colab")


def lane(nodeid: str) -> str:
    """The tests that run one after the other with this one, in one process."""
    name = Path(nodeid.split("::")[0]).stem.removeprefix("test_")
    return name if name in ALONE else "closed" if name in CLOSED else "grading"


def pytest_collection_modifyitems(items):
    """Tests come in the order of their lanes."""
    items.sort(key=lambda item: FIRST.index(one) if (one := lane(item.nodeid)) in FIRST else len(FIRST))


class Lanes(LoadScopeScheduling):
    """Shares the tests out to the processes of `pytest -n 2`."""

    def _split_scope(self, nodeid: str) -> str:
        return lane(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Tests that share what was made for them share a process."""
    return Lanes(config, log)


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
