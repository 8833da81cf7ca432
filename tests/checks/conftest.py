"""What tests of the checks share: no time for pictures that nobody looks at."""

import pytest

from utils import plots


@pytest.fixture(scope="module", autouse=True)
def no_picture_is_drawn_before_an_answer():
    """Before an answer come the cells in front of the first exercise; in notebook 01 one of them draws for 0.2 s."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "heatmaps", lambda panels, **options: None)
        yield
