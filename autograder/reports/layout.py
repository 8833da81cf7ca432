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
FOLDERS = [Path(__file__).parents[1] / name for name in ("reports", "similarity", "marking")]


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDERS), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["duration"] = duration
    return environment


def duration(seconds: float) -> str:
    """Some seconds as people say them: in minutes below an hour, else in hours; what is not nothing never is 0.0."""
    if seconds < 3600:
        return f"{max(seconds / 60, 0.1 if seconds else 0.0):.1f} minutes"
    return f"{seconds / 3600:.1f} hours"


def render(template: str, path: Path = SCRIPT, **values: Any) -> str:
    """A page of one of the templates that extend `layout.html.jinja`; what stands in `values` is escaped.

    The page may run one script, by its digest, and load nothing: the one in the file `path`, by default the one that
    sorts.
    """
    script = path.read_text()
    values |= {"script": Markup(script), "digest": digest(script), "version": metadata.version("attention-graded")}
    return _environment().get_template(template).render(**values)


def digest(script: str) -> str:
    """How a content security policy names a script that may run."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
