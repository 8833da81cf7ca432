"""How Sphinx builds these pages: `make docs`."""

import shutil
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
sys.path[:0] = [str(ROOT), str(DOCS)]

import result_tables
from sphinx.application import Sphinx

project = tomllib.loads((ROOT / "course.toml").read_text())["title"]
release = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
html_title = project
html_theme = "furo"
html_show_copyright = False
extensions = ["myst_nb", "sphinx.ext.apidoc", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "api/*/modules.rst", "generated"]

# The released notebooks, rendered as they are: nothing is run.
shutil.rmtree(DOCS / "notebooks", ignore_errors=True)
shutil.copytree(ROOT / "notebooks", DOCS / "notebooks", ignore=lambda folder, names: {"results", ".ipynb_checkpoints"})
nb_execution_mode = "off"
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

result_tables.write(DOCS / "generated")

# A page for each module, from the docstrings, whose single backticks are code.
apidoc_modules = [
    {"path": f"../{name}", "destination": f"api/{name}", "module_first": True}
    for name in ("utils", "autograder", "data")
]
autodoc_member_order = "bysource"
default_role = "code"
# Names of other projects, and private ones, have no page here.
nitpick_ignore_regex = [("py:.*", r"(?!autograder\.|utils\.|data\.).*"), ("py:.*", r".*\._\w+"), ("py:class", r".*\.T")]


def setup(app: Sphinx) -> None:
    """Links to notebooks lead out of docs/ in the repository, and to their copies above here."""

    def inside(app: Sphinx, name: str, source: list[str]) -> None:
        source[0] = source[0].replace("](../notebooks/", "](notebooks/")

    app.connect("source-read", inside)
