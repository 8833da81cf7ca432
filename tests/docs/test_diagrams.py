"""Block diagrams: drawn as described, the same each time, legible on white and dark pages and on a phone."""

import base64
import dataclasses
import html
import importlib
import io
import re

import nbformat
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

from autograder import course
from autograder.author import build
from utils import block_diagrams, diagrams
from utils.diagrams import Box, Diagram, flow, label

COURSE = course.load()
PICTURES = list(block_diagrams.PICTURES)
# White; JupyterLab, VS Code and Colab in their dark modes, and these pages in theirs.
PAGES = ("#FFFFFF", "#111111", "#1E1E1E", "#383838", "#131416")


@pytest.mark.parametrize("name", PICTURES)
def test_texts_stay_in_their_boxes_and_nothing_overlaps_or_crosses(name):
    diagram = block_diagrams.PICTURES[name]
    assert [*diagrams.faults(diagram)] == []
    assert len(diagrams.extents(diagram)) == len(diagram.boxes) > 5


@pytest.mark.parametrize("name", PICTURES)
def test_the_file_is_what_is_described(name):
    """By its digest, and as a picture up to the soft edges of letters, which another library may move."""
    with Image.open(io.BytesIO(block_diagrams.show(name).png)) as file:
        assert file.text == {diagrams.DIGEST: diagrams.digest(block_diagrams.PICTURES[name])}, "it is stale"
    drawn, kept = (
        np.asarray(Image.open(io.BytesIO(file)).convert("RGBA"), float)
        for file in (diagrams.png(block_diagrams.PICTURES[name]), block_diagrams.show(name).png)
    )
    assert drawn.shape == kept.shape, "run `python docs/draw_diagrams.py`"
    assert abs(drawn - kept).mean() < 2, "run `python docs/draw_diagrams.py`"
    assert kept[0, 0, 3] == 0 and kept[..., 3].max() == 255  # the page is seen between the boxes


def test_whatever_is_seen_decides_the_digest(monkeypatch):
    changed = [
        GOOD,
        dataclasses.replace(GOOD, lines=[]),
        dataclasses.replace(GOOD, boxes=BOXES | {"a": Box(80, 40, "1st")}),
    ]
    found = {diagrams.digest(diagram) for diagram in changed}
    monkeypatch.setattr(diagrams, "TEXT", 20)
    assert len(found | {diagrams.digest(GOOD)}) == 4


def test_a_diagram_is_drawn_the_same_each_time():
    small = Diagram(80, {"a": Box(80, 40, "a"), "b": Box(300, 40, "b")}, [flow("a", "b")], "a, b")
    assert diagrams.png(small) == diagrams.png(small) and diagrams.svg(small) == diagrams.svg(small)


@pytest.mark.parametrize("name", PICTURES)
def test_text_has_eleven_pixels_on_a_phone(name):
    diagram = block_diagrams.PICTURES[name]
    share = min(1, diagrams.PHONE / diagram.width)
    figure = diagrams.drawn(diagram)
    assert {text.get_fontsize() / 72 * figure.dpi * share >= 11 for text in figure.axes[0].texts} == {True}


def luminance(colour):
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(colour)]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_of_texts_and_lines_on_white_and_dark_pages():
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21)
    assert min(contrast(diagrams.INK, plate) for plate, _, _ in diagrams.PLATES.values()) >= 7
    pairs = [(line, page) for line, _, _ in diagrams.LINES.values() for page in PAGES]
    assert [pair for pair in pairs if contrast(*pair) < 3] == []


BOXES = {"a": Box(80, 40, "first"), "b": Box(300, 40, "second"), "c": label(190, 90, "aside", 80)}
GOOD = Diagram(120, BOXES, [flow("a", "b")], "First, then second.")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, None),
        ({"boxes": BOXES | {"a": Box(80, 40, "first of many words")}}, "leaves its box"),
        ({"boxes": BOXES | {"c": label(330, 60, "aside", 80)}}, "c and b overlap"),
        ({"boxes": BOXES | {"c": label(460, 90, "aside", 80)}}, "c leaves the picture"),
        ({"boxes": BOXES | {"c": label(190, 42, "aside", 80)}}, "crosses c"),
        ({"lines": [flow("a", "b"), flow((190, 10), (190, 70))]}, "and ('a', 'b') cross"),
        ({"alt": "First, then another."}, "alt does not name second"),
    ],
)
def test_a_layout_that_nobody_would_print_is_found(change, says):
    found = [*diagrams.faults(dataclasses.replace(GOOD, **change))]
    assert found == [] if says is None else any(says in fault for fault in found), found


def test_a_line_goes_straight_between_two_stops():
    with pytest.raises(ValueError, match="the way from a to c is not straight"):
        diagrams.points(dataclasses.replace(GOOD, boxes=BOXES | {"c": label(400, 100, "aside", 60)}), flow("a", "c"))
    assert diagrams.points(GOOD, flow("a", "b")) == [(140, 40), (240, 40)]
    assert diagrams.points(GOOD, flow("a", (80, 90), "c")) == [(80, 56), (80, 90), (150, 90)]


def shown():
    """The cells of the built notebooks that show diagrams: their names, and their outputs."""
    for entry in COURSE.notebooks:
        for cell in nbformat.read(build.notebook_path(entry), as_version=4).cells:
            if cell.cell_type == "code" and "block_diagrams.show(" in cell.source:
                yield entry.number, cell


def test_notebooks_hold_the_pictures_so_that_nothing_need_run():
    found = {}
    for number, cell in shown():
        (name,) = build.DIAGRAM.findall(cell.source)
        (output,) = cell.outputs
        picture = block_diagrams.show(name)
        (image,) = re.findall("<img [^>]*>", output.data["text/html"])
        stated = {key: html.unescape(value) for key, value in re.findall(r'([a-z]+)="([^"]*)"', image)}
        assert base64.b64decode(stated["src"].removeprefix("data:image/png;base64,")) == picture.png
        assert stated["alt"] == output.data["text/plain"] == picture.alt == repr(picture)
        assert int(stated["width"]) * diagrams.SHARP == Image.open(io.BytesIO(picture.png)).width
        assert "max-width: 100%" in stated["style"] and picture.bundle == output.data
        assert "experiment" in cell.metadata.tags  # grading draws none
        found.setdefault(number, []).append(name)
    assert found == {
        "01": ["layer"],
        "06": ["adapters"],
        "08": ["bert"],
        "10": ["memory", "streams"],
        "13": ["translator", "fused"],
        "14": ["blocks"],
    }
    assert sorted(name for names in found.values() for name in names) == sorted(PICTURES)


def test_a_diagram_that_is_not_drawn_stops_the_build(monkeypatch):
    monkeypatch.setitem(block_diagrams.PICTURES, "layer", GOOD)
    monkeypatch.setattr(block_diagrams, "FOLDER", block_diagrams.FOLDER / "missing")
    with pytest.raises(course.CourseError, match=r"shows layer, which is not drawn.*python docs/draw_diagrams.py"):
        build.student_notebook(COURSE, COURSE.notebook("01"))
    monkeypatch.delitem(block_diagrams.PICTURES, "layer")
    with pytest.raises(course.CourseError, match="shows layer"):
        build.student_notebook(COURSE, COURSE.notebook("01"))


def test_a_layout_with_faults_is_not_drawn(monkeypatch, tmp_path):
    monkeypatch.setattr(block_diagrams, "FOLDER", tmp_path)
    monkeypatch.setattr(block_diagrams, "PICTURES", {"good": GOOD})
    monkeypatch.syspath_prepend(course.ROOT / "docs")
    draw = importlib.import_module("draw_diagrams").draw
    draw()
    assert [path.name for path in tmp_path.iterdir()] == ["good.png"]
    monkeypatch.setitem(block_diagrams.PICTURES, "good", dataclasses.replace(GOOD, alt=""))
    with pytest.raises(ValueError, match="good: alt does not name first"):
        draw()


def test_the_first_drawing_of_the_architecture_page_has_its_text(monkeypatch):
    monkeypatch.syspath_prepend(course.ROOT / "docs")
    packages = importlib.import_module("packages")
    assert [*diagrams.faults(packages.MACHINES)] == []
    pictures = re.findall(r"!\[([^\]]*)\]\(([^)]*)\)", (course.ROOT / "docs" / "architecture.md").read_text())
    assert pictures[0] == (packages.MACHINES.alt, "pictures/machines.svg")


def test_the_course_map_is_readable_at_the_width_of_a_laptop(monkeypatch):
    """The documentation leaves 736 pixels for a figure, which has 96 to an inch."""
    monkeypatch.syspath_prepend(course.ROOT / "docs")
    course_map = importlib.import_module("course_map")
    found = course_map.read()
    figure = course_map.drawn(found)
    assert figure.get_figwidth() * 96 <= 736
    (ax,) = figure.axes
    figure.draw_without_rendering()
    texts = [text for text in ax.texts if text.get_text()]
    assert {exercise.number for some in found.values() for exercise in some} <= {text.get_text() for text in texts}
    assert min(text.get_fontsize() for text in texts) * 96 / 72 > 11
    areas = [text.get_window_extent() for text in texts]
    assert not [
        (one.get_text(), texts[k].get_text())
        for place, one in enumerate(texts)
        for k in range(place)
        if areas[place].overlaps(areas[k])
    ]
    edge = figure.bbox
    assert all(area.x0 >= 0 and area.y0 >= 0 and area.x1 <= edge.x1 and area.y1 <= edge.y1 for area in areas)
    elsewhere = [
        one
        for some in found.values()
        for row in some
        for one in row.uses
        if one.split(".")[0] != row.number.split(".")[0]
    ]
    written = " ".join(text.get_text() for text in texts).replace(",", "").split()
    assert len(elsewhere) > 10 and {*elsewhere} <= {*written}
