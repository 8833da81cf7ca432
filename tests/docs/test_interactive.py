"""Figures with sliders: every notebook has one, it starts where it should, and it goes on where no script runs."""

import base64
import io

import pytest
from PIL import Image

from autograder import course
from autograder.author import build
from autograder.sandbox.kernel import CLEAN, open_kernel
from autograder.sandbox.kernel_main import Outputs
from utils import plots
from utils.interactive import MOST, Interactive, interactive

COURSE = course.load()
ENTRIES = [pytest.param(entry, id=entry.name) for entry in COURSE.notebooks]


def drawn(height, name="a"):
    return plots.bars({"": [height]}, labels=[name], ylabel="y", alt=f"A bar <{name}> of {height}.")


def pixels(data):
    return Image.open(io.BytesIO(base64.b64decode(data))).convert("L").resize((80, 40)).tobytes()


@pytest.mark.parametrize("entry", ENTRIES)
def test_each_notebook_has_one(entry):
    cells = build.student_notebook(COURSE, entry).cells
    places = [place for place, cell in enumerate(cells) if "\ninteractive(" in cell.source]
    assert len(places) == 1 and "**Play.**" in cells[places[0] - 2].source + cells[places[0] - 1].source


def test_a_picture_for_each_combination_and_the_start_shown_first():
    found = interactive(drawn, height=[1, 2, 3], name=["a", "b"], start={"height": 2})
    assert type(found) is Interactive and len(found.pictures) == 6 and repr(found) == "A bar <a> of 2."
    shown, told = found._repr_mimebundle_()
    assert shown["text/plain"] == told["image/png"]["alt"] == "A bar <a> of 2."
    page = shown["text/html"]
    assert page.count("data:image/png;base64,") == 7 and page.count('type="range"') == 2
    assert page.count("</script>") == 2 and "<a>" not in page  # what an alternative text says ends no script
    first = page.split('src="data:image/png;base64,')[1].split('"')[0]
    one, same, other = pixels(first), pixels(shown["image/png"]), pixels(base64.b64encode(drawn(2, "b").png()))
    apart = [sum(abs(x - y) for x, y in zip(one, some, strict=True)) / len(one) for some in (same, other)]
    assert apart[0] < 2 and len({*one}) > 2
    assert all(found.pictures[at].alt == f"A bar <{'ab'[at[1]]}> of {at[0] + 1}." for at in found.pictures)


def test_names_of_sliders_may_be_those_of_the_functions_own():
    assert len(interactive(lambda draw: drawn(draw), draw=[1, 2]).pictures) == 2


WRONG = [({}, None), ({"height": []}, None), ({"height": range(MOST + 1)}, None)]
WRONG += [({"height": [1]}, {"height": 2}), ({"height": [1]}, {"width": 1})]


@pytest.mark.parametrize(("choices", "start"), WRONG)
def test_too_many_or_none_or_a_start_elsewhere_are_refused(choices, start):
    with pytest.raises(ValueError, match=r"combinations|none of the values"):
        interactive(drawn, start=start, **choices)


def test_a_grading_kernel_keeps_the_still_picture_alone():
    outputs = Outputs()
    outputs.begin(100_000, 10, [*CLEAN])
    shown, _ = interactive(drawn, height=[1, 2])._repr_mimebundle_()
    outputs.display(shown)
    outputs.display({kind: text for kind, text in shown.items() if kind != "image/png"})
    kept = [[*item["data"]] for item in outputs.items]
    assert kept == [["text/plain", "image/png"], ["text/plain", "text/html"]]


COUNTED = """
from utils import plots
from utils.interactive import interactive
heights = []
def draw(height):
    heights.append(height)
    return plots.bars({"": [height]}, labels=["a"], ylabel="y", alt="A bar.")
interactive(draw, start={"height": 2}, height=[1, 2, 3])
"""


def test_a_grading_kernel_draws_that_one_alone():
    with open_kernel(COURSE) as running:
        shown = running.run(COUNTED)
        assert not shown.error and [[*output.data] for output in shown.outputs] == [["text/plain", "image/png"]]
        assert "[2]" in str(running.run("heights").outputs)
