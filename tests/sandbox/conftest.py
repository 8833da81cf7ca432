"""What tests of the sandbox share: a course with small limits, and a kernel."""

import pytest

from autograder import course
from autograder.sandbox import kernel


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
