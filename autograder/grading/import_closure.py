"""What a verdict depends on besides the submission: modules that checks and cells can reach, and data that they
name.
"""

import ast
import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from autograder.course import FOLDER, HELPERS, ROOT

# Modules of autograder that reach verdicts.
GRADER = (
    *("author/checks", "author/parts", "grading/judge", "intake/reading", "intake/restore"),
    *("sandbox/kernel", "sandbox/kernel_main", "sandbox/stand_ins", "sandbox/withheld"),
)
MODULE = re.compile(rf"(?:{'|'.join(HELPERS)})(?:\.\w+)+")  # named in a string, as importlib is given one

PATH = re.compile(r"[\w.-]+(/[\w.-]+)+|[\w-]+\.(json|csv|txt|npz|safetensors)")


@dataclass(frozen=True)
class _Named:
    """What a piece of Python names: modules of `HELPERS`, and paths below a folder as they are put together."""

    modules: frozenset[str]
    paths: frozenset[str]


def digest(files: Iterable[Path], source: str = "", roots: Sequence[Path] = (ROOT, FOLDER)) -> bytes:
    """A digest of what `files` of Python and the cells of `source` can reach, without these files themselves.

    That is every module of `HELPERS` which they import, or name in a string, and which those import; and of
    `data` every file, or folder, that one of them names. `roots` are the folders of the package and of the
    course. With the module `spec` of an experiment it reaches `train` beside it, which `Experiment.trainer` imports.
    """
    roots = [*dict.fromkeys(roots)]  # of this course they are one
    given = [path for path in files if path.exists()]
    waiting, reached, stored = [_named(path, _stamp(path)) for path in given], set(given), set[Path]()
    waiting.append(_names(source))
    modules: set[str] = set()  # that were looked for already
    while waiting:
        named = waiting.pop()
        stored |= {file for path in named.paths for root in roots for file in _data(path, root)}
        trainers = {f"{name.removesuffix('.spec')}.train" for name in named.modules if name.endswith(".spec")}
        new, modules = (named.modules | trainers) - modules, modules | named.modules | trainers
        for path in {file for module in new for root in roots for file in _files(module, root)} - reached:
            reached.add(path)
            waiting.append(_named(path, _stamp(path)))
    whole = hashlib.sha256()
    for path in sorted(reached.difference(given) | stored):
        root = next(root for root in roots if path.is_relative_to(root))
        whole.update(path.relative_to(root).as_posix().encode() + _content(path, _stamp(path)))
    return whole.digest()


def grader(root: Path = ROOT) -> list[Path]:
    """The files of the grader that reach verdicts."""
    return [root / "autograder" / f"{name}.py" for name in GRADER]


def _stamp(path: Path) -> tuple[int, int]:
    state = path.stat()
    return state.st_mtime_ns, state.st_size


@cache
def _content(path: Path, stamp: tuple[int, int]) -> bytes:
    """The digest of a file; `stamp` says which state of it."""
    return hashlib.sha256(path.read_bytes()).digest()


@cache
def _named(path: Path, stamp: tuple[int, int]) -> _Named:
    return _names(path.read_text())


def _names(source: str) -> _Named:
    modules: set[str] = set()
    paths: set[str] = set()
    inner = set()  # parts of a longer path
    for node in ast.walk(ast.parse(source)):  # from the outside in
        match node:
            case ast.Import(names=names):
                modules.update(alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                modules |= {module, *(f"{module}.{alias.name}" for alias in names)}
            case ast.BinOp(left=left, op=ast.Div()):
                inner.add(left)
                if node not in inner:
                    paths.add("/".join(_steps(node)))
            case ast.Constant(value=str(text)):
                if MODULE.fullmatch(text):
                    modules.add(text)
                elif len(text) < 200 and PATH.fullmatch(text):
                    paths.add(text)
    return _Named(frozenset(name for name in modules if name.split(".")[0] in HELPERS), frozenset(paths - {""}))


def _steps(node: ast.expr) -> list[str]:
    """The strings of `folder / "one" / "two"`."""
    match node:
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return [*_steps(left), *_steps(right)]
        case ast.Constant(value=str(text)):
            return [text]
    return []


def _files(module: str, root: Path) -> list[Path]:
    """The files that an import of `module` runs: its own, and those of the packages around it."""
    parts = module.split(".")
    files = []
    for length in range(1, len(parts) + 1):
        path = root.joinpath(*parts[:length])
        files += [file for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()]
    return files


def _data(path: str, root: Path) -> list[Path]:
    """The files of `data` that a path below the project, or below `data`, is or holds."""
    data = root / "data"
    for place in (root / path, data / path):
        try:
            if place != data and place.is_relative_to(data) and ".." not in place.parts and place.exists():
                return [place] if place.is_file() else sorted(path for path in place.rglob("*.json") if path.is_file())
        except (OSError, ValueError):  # too long, or no path at all
            continue
    return []
