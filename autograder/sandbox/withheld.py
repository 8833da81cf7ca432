"""What of the course a kernel can read in grading: the helpers that notebooks need, and the names of all else.

An answer must not be found where it is graded. Checks compute with references, and so do tables, training
loops and loaders of models; in a sandbox these modules define the same names, with nothing behind them.
"""

import re
import shutil
from pathlib import Path

from autograder.course import RESULTS, ROOT, SUMMARIES, helpers
from utils.grading import forbidden

# Of this package: what a kernel itself is made of.
KERNEL = ("__init__", "fork_server", "guests", "kernel_main", "no_compiler", "scratch", "seccomp", "stand_ins")
LABELS = "gold.json"  # by which runs are graded
NAMED = re.compile(r"^(?:(?:async )?def |class )(\w+)|^(\w+)(?: ?:[^=\n]+)? = ", re.MULTILINE)
STAND_IN = '''"""Withheld while a notebook is graded."""


class Withheld:
    """A name of the course with nothing behind it."""

    def __init__(self, name, silent):
        self.__name__, self._silent = name, silent

    def __call__(self, *given, **named):
        """Nothing happens where a check would speak; anything else says that it is not there."""
        if not self._silent:
            raise RuntimeError(f"`{self.__name__}` is not there while a notebook is graded")

    def __getattr__(self, name):
        raise AttributeError(f"`{self.__name__}.{name}` is not there while a notebook is graded")
'''


def write(folder: Path) -> Path:
    """Write the course as kernels may read it into `folder`, a new one; answers with it. Results are not among it."""
    for name, path in helpers().items():
        if path.suffix != ".py":
            continue
        package, *inside = Path(name).with_suffix("").parts
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        # Of another course's packages an `__init__.py` may hold an answer; an empty one cannot.
        plain = path.name == "__init__.py" and (path == ROOT / name or not path.read_text().strip())
        module = ".".join((package, *inside)).removesuffix(".__init__")
        if plain or module.partition(".")[2] in forbidden.HELPERS[package]:
            shutil.copyfile(path, target)
        else:
            target.write_text(stub(path.read_text(), module))
    (folder / "utils" / "withheld.py").write_text(STAND_IN)
    sandbox = "autograder/sandbox"
    (folder / sandbox).mkdir(parents=True)
    for name in ("autograder/__init__.py", *(f"{sandbox}/{module}.py" for module in KERNEL)):
        shutil.copyfile(ROOT / name, folder / name)
    return folder


def write_results(folder: Path) -> None:
    """Add what cells show of recorded runs to what `write` has written: only cells read it, and it is many files."""
    for name, path in helpers().items():
        if name.startswith((f"{RESULTS}/", f"{SUMMARIES}/")) and path.name != LABELS:
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)


def stub(source: str, module: str) -> str:
    """A module that defines the public names of `source`, each a stand-in."""
    names = dict.fromkeys(match[1] or match[2] for match in NAMED.finditer(source))
    silent = module.startswith(("utils.checks.", "utils.grading.check", "utils.predictions", "utils.block_diagrams"))
    lines = [f'{name} = Withheld("{module}.{name}", {silent})' for name in names if not name.startswith("_")]
    return "\n".join(["from utils.withheld import Withheld", "", *lines, ""])
