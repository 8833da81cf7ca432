"""What tests of other courses share: a course of one notebook."""

from functools import partial

import pytest
from guest_courses import make


@pytest.fixture
def lone(tmp_path):
    """Makes a course of one notebook with these graded cells, handed in with this answer; its directory."""
    return partial(make, tmp_path / "lone")
