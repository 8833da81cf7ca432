"""Figures with sliders, which need neither a kernel nor a network: they go on working in a saved page.

A picture is drawn for each value that a slider can have. The page holds them all and shows one. Where scripts do not
run (GitHub, feedback pages, paper) the first picture stays.
"""

import base64
import functools
import html
import io
import itertools
import json
import math
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from PIL import Image

from utils.plots import Picture

MOST = 40  # pictures in one figure: seconds to draw, and about a quarter of a megabyte of the notebook
COLOURS = 48  # of a picture: lines, text and a colour scale need no more, and it is a third of the bytes

# JupyterLab and its notebooks take the arrow keys for their own commands, but where a page asks the one not to
# (`data-lm-suppress-shortcuts`) and keeps the keys from the other.
PAGE = """\
<div id="{id}" role="group" aria-label="figure with sliders" data-lm-suppress-shortcuts="true">
<img src="{first}" alt="{alt}" style="max-width: 100%; height: auto">
{sliders}
<script type="application/json">{frames}</script>
<script>
(() => {{
  const all = document.querySelectorAll('[id="{id}"]'), here = all[all.length - 1];
  const frames = JSON.parse(here.querySelector('script[type="application/json"]').textContent);
  const sliders = [...here.querySelectorAll("input")], image = here.querySelector("img");
  const show = () => {{
    for (const one of sliders) {{
      const value = JSON.parse(one.dataset.values)[one.value];
      one.setAttribute("aria-valuetext", value);
      one.nextElementSibling.textContent = value;
    }}
    const [source, alt] = frames[sliders.map((one) => one.value).join()];
    image.src = source;
    image.alt = alt;
  }};
  for (const one of sliders) one.addEventListener("input", show);
  here.addEventListener("keydown", (event) => event.stopPropagation());
}})();
</script>
</div>"""
SLIDER = """\
<label style="display: block; margin: 4px 0">{name}
<input type="range" min="0" max="{last}" value="{at}" data-values="{values}" aria-valuetext="{value}"
aria-label="{name}" style="width: 14em; max-width: 55%; vertical-align: middle"> <output>{value}</output></label>"""


def _small(picture: Picture) -> str:
    """The picture as an address that holds its data."""
    file = io.BytesIO()
    with Image.open(io.BytesIO(picture.png())) as image:
        image.convert("RGB").quantize(COLOURS).save(file, format="png", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


class Interactive:
    """Pictures, one for each combination of values, and the sliders that choose among them.

    Args:
        draw: what makes the picture of a combination, given by name. The first one is drawn at once, the others when
            the page is made, as in a notebook: who shows no page, as the grader does, does not wait for them.
        start: the combination that is shown first, also where there are no sliders; by default the first of all.
        choices: the values of each slider, by its name. Names are shown with blanks instead of underscores.

    Raises:
        ValueError: a slider without values, more than MOST combinations, or a start that is none of them.
    """

    def __init__(self, draw: Callable[..., Picture], start: dict[str, Any] | None, choices: dict[str, Sequence[Any]]):
        self.choices = {name: [*values] for name, values in choices.items()}
        combinations = math.prod(len(values) for values in self.choices.values())
        if not self.choices or not 0 < combinations <= MOST:
            raise ValueError(f"a figure has 1 to {MOST} combinations of values, not {combinations}")
        given = {name: values[0] for name, values in self.choices.items()} | (start or {})
        if {*given} != {*self.choices} or any(value not in self.choices[name] for name, value in given.items()):
            raise ValueError(f"the start {start} is none of the values")
        self.start = tuple(values.index(given[name]) for name, values in self.choices.items())
        self._draw = draw
        self.first = self._picture(self.start)

    def __repr__(self) -> str:
        return self.first.alt

    def _picture(self, at: tuple[int, ...]) -> Picture:
        return self._draw(**{name: values[k] for k, (name, values) in zip(at, self.choices.items(), strict=True)})

    @functools.cached_property
    def pictures(self) -> dict[tuple[int, ...], Picture]:
        """The picture of each combination, by the place of each slider."""
        places = itertools.product(*(range(len(values)) for values in self.choices.values()))
        return {at: self.first if at == self.start else self._picture(at) for at in places}

    def html(self) -> str:
        """The figure as a piece of a page."""
        frames = {at: (_small(picture), picture.alt) for at, picture in self.pictures.items()}
        sliders = [
            SLIDER.format(
                name=html.escape(name.replace("_", " ")),
                last=len(values) - 1,
                at=at,
                values=html.escape(json.dumps([str(value) for value in values])),
                value=html.escape(str(values[at])),
            )
            for at, (name, values) in zip(self.start, self.choices.items(), strict=True)
        ]
        kept = json.dumps({",".join(map(str, at)): frame for at, frame in frames.items()})
        return PAGE.format(
            id=f"figure-{uuid.uuid4().hex}",
            first=frames[self.start][0],
            alt=html.escape(frames[self.start][1]),
            sliders="\n".join(sliders),
            frames=kept.replace("<", "\\u003c"),  # no text ends the script
        )

    def still(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The first picture alone, by MIME type, and what is told of each type."""
        still, told = self.first._repr_png_()
        return {"image/png": base64.b64encode(still).decode(), "text/plain": repr(self)}, {"image/png": told}

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """For notebooks: the page, and for those who show no pages the first picture."""
        shown, told = self.still()
        return {"text/html": self.html(), **shown}, told


def interactive(
    draw: Callable[..., Picture], /, *, start: dict[str, Any] | None = None, **choices: Sequence[Any]
) -> Interactive:
    """A figure with a slider for each of `choices`, name -> values, as the last line of a cell.

    >>> interactive(lambda temperature: plots.bars(...), temperature=[0.5, 1, 2])

    Args:
        draw: from the values, by name, to a `utils.plots.Picture`. It is called once for each combination.
        start: the values that are shown first; the first of each slider otherwise.

    Raises:
        ValueError: see `Interactive`.
    """
    return Interactive(draw, start, choices)
