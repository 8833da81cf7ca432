"""Pages for instructors: self-contained files in one look, with tables that a click on a heading sorts."""

import base64
import hashlib
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

SCRIPT = Path(__file__).with_name("sorting.js")
FOLDERS = [Path(__file__).parent, Path(__file__).parents[1] / "likeness"]


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDERS), autoescape=True, undefined=jinja2.StrictUndefined
    )


def render(template: str, **values: Any) -> str:
    """A page of one of the templates that extend `layout.html.jinja`; what stands in `values` is escaped.

    The page may run the one script that sorts, by its digest, and load nothing.
    """
    script = SCRIPT.read_text()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    version = metadata.version("attention-graded")
    return _environment().get_template(template).render(script=Markup(script), digest=digest, version=version, **values)
