"""Block diagrams in one look: boxes, arrows between them, a residual stream, sums, and labels with shapes.

What a diagram shows is data, in `utils.block_diagrams`. `python docs/draw_diagrams.py` draws each into a file of
`data/diagrams`, and the build puts these files into the notebooks, so that a picture is there before any cell has run.

A diagram has no background of its own. All text is on a light plate, and lines are of colours that are seen on white
and on dark pages, so that one file serves both. It is as wide as a phone can show without making text too small.
"""

import hashlib
import io
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 480  # pixels of a diagram, at most
PHONE = 314  # pixels that a phone of 360 leaves for a picture of a notebook
TEXT = 17  # height of text in pixels: 11 on a phone
INK = "#111111"
# Of each kind of box: its plate, its edge, and the width of that.
PLATES = {
    "part": ("#EEEEEE", "#858585", 1.2),
    "new": ("#FBE3D3", "#D9670D", 1.8),
    "tensor": ("#D6E8F5", "#D6E8F5", 0.0),
    "label": ("#F5F5F5", "#F5F5F5", 0.0),
    "add": ("#FFFFFF", "#858585", 1.6),
}
# Of each kind of line: its colour, its width, and its dashes.
LINES: dict[str, tuple[str, float, Any]] = {
    "flow": ("#858585", 1.6, "-"),
    "residual": ("#2D8CCB", 4.0, "-"),
    "memory": ("#D9670D", 2.0, (0, (4, 2))),
}
CORNER = 9  # radius where a line turns
HEAD = 13  # size of an arrow's head
SHARP = 2  # points of a file for each pixel
COLOURS = 160  # of a file: plates, lines, and the soft edges of letters
DIGEST = "diagram"  # the name of the text in a file that holds the diagram's digest
PADDING = 4  # between a text and the edge of its box


@dataclass(frozen=True)
class Box:
    """A text on a plate, with its middle at (x, y), pixels from the left and from the bottom.

    kind: a key of `PLATES`: a part of a model, a new part, a tensor, a label, or a sum. A title is bold.
    """

    x: float
    y: float
    text: str
    width: float = 120
    height: float = 32
    kind: str = "part"
    bold: bool = False

    @property
    def edges(self) -> tuple[float, float, float, float]:
        """Left, bottom, right and top."""
        wide, high = self.width / 2, self.height / 2
        return self.x - wide, self.y - high, self.x + wide, self.y + high


def add(x: float, y: float) -> Box:
    """The sum of what comes in."""
    return Box(x, y, "+", 26, 26, "add", bold=True)


def label(x: float, y: float, text: str, width: float, height: float = 26) -> Box:
    """A text that is not a part."""
    return Box(x, y, text, width, height, "label")


def tensor(x: float, y: float, text: str, width: float, height: float = 30) -> Box:
    """What goes in, comes out or is kept."""
    return Box(x, y, text, width, height, "tensor")


def title(x: float, y: float, text: str, width: float, height: float = 26) -> Box:
    """The name of a part of the diagram."""
    return Box(x, y, text, width, height, "label", bold=True)


Stop = str | tuple[float, float]  # the name of a box, or a point


@dataclass(frozen=True)
class Line:
    """A line along stops, straight up, down or to a side between two of them, with an arrow's head at its end."""

    stops: tuple[Stop, ...]
    kind: str = "flow"
    head: bool = True


def flow(*stops: Stop) -> Line:
    """An arrow."""
    return Line(stops)


def residual(*stops: Stop) -> Line:
    """An arrow of what passes by unchanged."""
    return Line(stops, "residual")


def stream(*stops: Stop) -> list[Line]:
    """A residual stream: an arrow from each stop to the next."""
    return [*map(residual, stops, stops[1:])]


def memory(*stops: Stop) -> Line:
    """An arrow of what is kept from before, or comes from a model that does not learn."""
    return Line(stops, "memory")


@dataclass(frozen=True)
class Diagram:
    """Boxes by name, lines between them, and the alternative text, which names all parts."""

    height: int
    boxes: Mapping[str, Box]
    lines: Sequence[Line]
    alt: str
    width: int = WIDTH
    frames: Sequence[tuple[str, ...]] = ()  # names of boxes that stand in one frame


def points(diagram: Diagram, line: Line) -> list[tuple[float, float]]:
    """Where a line begins, turns and ends; at boxes, that is at their edges.

    Raises:
        ValueError: two stops are neither above nor beside each other.
    """
    stops = [diagram.boxes[stop].edges if isinstance(stop, str) else (*stop, *stop) for stop in line.stops]
    found: list[tuple[float, float]] = []
    for (left, bottom, right, top), (other_left, other_bottom, other_right, other_top), named in zip(
        stops, stops[1:], zip(line.stops, line.stops[1:], strict=False), strict=False
    ):
        x = _common((left, right), (other_left, other_right))
        y = _common((bottom, top), (other_bottom, other_top))
        if (x is None) == (y is None):
            raise ValueError(f"the way from {named[0]} to {named[1]} is not straight")
        if x is not None:
            up = other_bottom >= top
            some = [(x, top if up else bottom), (x, other_bottom if up else other_top)]
        else:
            aside = other_left >= right
            assert y is not None
            some = [(right if aside else left, y), (other_left if aside else other_right, y)]
        found += [place for place in some if place not in found]
    return found


def _common(one: tuple[float, float], other: tuple[float, float]) -> float | None:
    """A coordinate that two ranges share, the middle of the shorter one if possible."""
    low, high = max(one[0], other[0]), min(one[1], other[1])
    if low > high:
        return None
    middles = [sum(ends) / 2 for ends in sorted((one, other), key=lambda ends: ends[1] - ends[0])]
    return next((middle for middle in middles if low <= middle <= high), (low + high) / 2)


def drawn(diagram: Diagram) -> "Figure":
    """The diagram as a figure of matplotlib, a point of which is a pixel."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch

    look = {"font.family": "DejaVu Sans", "font.size": TEXT * 0.72}
    with matplotlib.rc_context(look):
        figure = Figure(figsize=(diagram.width / 100, diagram.height / 100), dpi=100)
        ax = figure.add_axes((0, 0, 1, 1), xlim=(0, diagram.width), ylim=(0, diagram.height))
        ax.axis("off")
        for frame in diagram.frames:
            left, bottom, right, top = _around(diagram, frame)
            ax.add_patch(
                FancyBboxPatch((left, bottom), right - left, top - bottom, "round,pad=0,rounding_size=12",
                               fc="none", ec=LINES["flow"][0], lw=1.0, ls=(0, (2, 2)), zorder=0)
            )  # fmt: skip
        for line in diagram.lines:
            colour, width, dashes = LINES[line.kind]
            path, head = _path(points(diagram, line)), "-|>" if line.head else "-"
            ax.add_patch(
                FancyArrowPatch(path=path, arrowstyle=head, mutation_scale=HEAD, color=colour, lw=0.72 * width,
                                ls=dashes, zorder=1 if line.kind == "residual" else 2, joinstyle="miter",
                                capstyle="butt")
            )  # fmt: skip
        for box in diagram.boxes.values():
            left, bottom, _, _ = box.edges
            plate, edge, width = PLATES[box.kind]
            style: dict[str, Any] = {"fc": plate, "ec": edge, "lw": 0.72 * width, "zorder": 3}
            if box.kind == "add":
                ax.add_patch(Circle((box.x, box.y), box.width / 2, **style))
            else:
                rounding = f"round,pad=0,rounding_size={box.height / 2 if box.kind == 'tensor' else 7}"
                ax.add_patch(FancyBboxPatch((left, bottom), box.width, box.height, rounding, **style))
            weight = "bold" if box.bold else "normal"
            ax.text(box.x, box.y, box.text, ha="center", va="center_baseline" if "\n" not in box.text else "center",
                    color=INK, weight=weight, zorder=4, linespacing=1.15)  # fmt: skip
    return figure


def _around(diagram: Diagram, names: Sequence[str]) -> tuple[float, float, float, float]:
    """The edges of a frame around boxes."""
    edges = [diagram.boxes[name].edges for name in names]
    left, bottom, right, top = zip(*edges, strict=True)
    return min(left) - 8, min(bottom) - 8, max(right) + 8, max(top) + 8


def _path(stops: Sequence[tuple[float, float]]) -> Any:
    """A path along points, with round corners."""
    from matplotlib.path import Path

    places, codes = [stops[0]], [Path.MOVETO]
    for before, corner, after in zip(stops, stops[1:], stops[2:], strict=False):
        places += [_towards(corner, before), corner, _towards(corner, after)]
        codes += [Path.LINETO, Path.CURVE3, Path.CURVE3]
    return Path([*places, stops[-1]], [*codes, Path.LINETO])


def _towards(corner: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """The point where a corner begins, on the way to another point."""
    far = abs(other[0] - corner[0]) + abs(other[1] - corner[1])
    share = min(CORNER, far / 2) / far
    return corner[0] + share * (other[0] - corner[0]), corner[1] + share * (other[1] - corner[1])


def digest(diagram: Diagram) -> str:
    """A digest of all that decides how a diagram looks, which its file carries: a stale file is found by it."""
    look = (PLATES, LINES, INK, TEXT, CORNER, HEAD, SHARP, COLOURS)
    return hashlib.sha256(repr((diagram, look)).encode()).hexdigest()[:16]


def png(diagram: Diagram) -> bytes:
    """The bytes of a PNG file without a background, with `SHARP` points a pixel and as many colours as it needs."""
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    wide, file, info = io.BytesIO(), io.BytesIO(), PngInfo()
    info.add_text(DIGEST, digest(diagram))
    drawn(diagram).savefig(wide, format="png", transparent=True, dpi=100 * SHARP)
    Image.open(wide).quantize(COLOURS, Image.Quantize.FASTOCTREE).save(file, format="png", optimize=True, pnginfo=info)
    return file.getvalue()


def svg(diagram: Diagram) -> str:
    """The text of an SVG file without a background, whose letters are drawn as shapes."""
    import matplotlib

    file = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "diagram"}):
        drawn(diagram).savefig(file, format="svg", transparent=True, metadata={"Date": None, "Title": diagram.alt})
    return file.getvalue()


def extents(diagram: Diagram) -> dict[str, tuple[float, float, float, float]]:
    """Left, bottom, right and top of each box's text, as it is drawn."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = drawn(diagram)
    renderer = FigureCanvasAgg(figure).get_renderer()
    found = {}
    for name, text in zip(diagram.boxes, figure.axes[0].texts, strict=True):
        area = text.get_window_extent(renderer)
        found[name] = (area.x0, area.y0, area.x1, area.y1)
    return found


def faults(diagram: Diagram) -> Iterator[str]:
    """What is wrong with a diagram: texts outside of their boxes, overlaps, crossings, parts that `alt` leaves out."""
    boxes = diagram.boxes
    for name, (left, bottom, right, top) in extents(diagram).items():
        edges = boxes[name].edges
        inside = left >= edges[0] + PADDING and right <= edges[2] - PADDING and bottom >= edges[1] and top <= edges[3]
        if boxes[name].kind != "add" and not inside:
            yield f"{name}: the text needs {right - left:.0f} by {top - bottom:.0f} pixels and leaves its box"
    for name, box in boxes.items():
        left, bottom, right, top = box.edges
        if left < 1 or bottom < 1 or right > diagram.width - 1 or top > diagram.height - 1:
            yield f"{name} leaves the picture"
        for other, that in list(boxes.items())[: list(boxes).index(name)]:
            if _overlap(box.edges, that.edges):
                yield f"{name} and {other} overlap"
        if box.kind in ("part", "new", "tensor"):
            missing = " ".join(box.text.split()).casefold()
            if missing not in diagram.alt.casefold():
                yield f"alt does not name {missing}"
    yield from _crossings(diagram)


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _crossings(diagram: Diagram) -> Iterator[str]:
    """Lines that cross each other, or a box in which they do not end."""
    pieces = []
    for line in diagram.lines:
        stops = points(diagram, line)
        for (x, y), (to_x, to_y) in itertools.pairwise(stops):
            area = (min(x, to_x), min(y, to_y), max(x, to_x), max(y, to_y))
            pieces.append((line, area))
            for name, box in diagram.boxes.items():
                left, bottom, right, top = box.edges
                if _overlap((area[0] - 1, area[1] - 1, area[2] + 1, area[3] + 1),
                            (left + 2, bottom + 2, right - 2, top - 2)):  # fmt: skip
                    yield f"the line {line.stops} crosses {name}"
    for place, (line, (left, bottom, right, top)) in enumerate(pieces):
        for other, (west, south, east, north) in pieces[:place]:
            across, down = left < west < right and south < bottom < north, west < left < east and bottom < south < top
            if other is not line and (across or down):
                yield f"the lines {line.stops} and {other.stops} cross"
