"""What would cost marks in a stock nbgrader course, found by reading it: nothing of it runs."""

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbgrader.nbgraderformat import SCHEMA_VERSION

from autograder import limited
from autograder.any_course import facts
from autograder.any_course.directory import CourseDir, Job, jobs, languages, too_large
from autograder.any_course.settings import install
from autograder.any_course.written_files import size
from autograder.course import FOLDER, HELPERS, ROOT
from autograder.intake.notebook_file import WITH_OUTPUTS
from autograder.sandbox import sandbox

NEAR = 0.8  # of a limit
MB = 2**20
MANY = 3  # examples that a finding shows
# How packages are called where modules have other names.
PACKAGES = {
    **{"PIL": "pillow", "bs4": "beautifulsoup4", "cv2": "opencv-python-headless", "dateutil": "python-dateutil"},
    **{"dotenv": "python-dotenv", "igraph": "python-igraph", "skimage": "scikit-image", "sklearn": "scikit-learn"},
    **{"yaml": "pyyaml", "Bio": "biopython", "serial": "pyserial", "fitz": "pymupdf", "wx": "wxpython"},
}


@dataclass(frozen=True)
class Finding:
    """Something that may cost marks."""

    assignment: str
    what: str
    found: str
    do: str
    stops: bool = False  # the assignment is not graded until then


@dataclass
class Asked:
    """What notebooks of an assignment ask for, by kind and name: who asks for it."""

    whose: dict[str, dict[Any, list[str]]] = field(default_factory=dict)

    def add(self, name: str, facts_of: dict[str, list[Any]]) -> None:
        """Note what a notebook or a file asks for."""
        for kind, values in facts_of.items():
            for value in values:
                self.whose.setdefault(kind, {}).setdefault(value, []).append(name)

    def of(self, kind: str) -> dict[Any, list[str]]:
        """What is asked for of this kind, in order."""
        return dict(sorted(self.whose.get(kind, {}).items()))


def examine(course: CourseDir, names: Iterable[str]) -> list[Finding]:
    """Everything that was found in these assignments, and in what was handed in for them."""
    findings = [
        Finding("", "package", f"{name}: {why}", install([name]) + ".", True)
        for name, why in course.section.missing_packages().items()
    ]
    for name in names:
        findings += _assignment(course, name)
    return findings


def missing_modules(course: CourseDir, assignment: str) -> dict[str, list[str]]:
    """Modules that the source of an assignment imports and that are not there, and in which files."""
    source = course.source(assignment)
    return _missing(_read(source, _inside(source)), source)


def _assignment(course: CourseDir, name: str) -> Iterator[Finding]:
    source, handed_in = course.source(name), jobs(course, name)
    for notebook, other in languages(course, name).items():
        yield Finding(name, "kernel", f"{notebook} uses {other}", "Only Python 3 notebooks are graded here.", True)
    if why := too_large(course, name):
        yield Finding(name, "size", why, "Raise it, or leave data out.", True)
    asked = _read(source, _inside(source))
    submitted = Asked()
    for job in handed_in:
        for path in sorted(job.folder.glob("*.ipynb")) if not job.unreadable else ():
            submitted.add(job.student, _facts(path))
    for module, where in _missing(asked, source).items():
        yield Finding(name, "module", f"{module}, imported in {_some(where)}", advice(module))
    for module, whose in _missing(submitted, source).items():
        if module not in asked.of("imports") and not _beside(module, handed_in):
            yield Finding(name, "module", f"{module}, imported by {_students(whose)}", advice(module))
    yield from _programs(course, name, asked)
    yield from _places(course, name, asked)
    for text, where in asked.of("network").items():
        do = "There is no network in a sandbox: put the data beside the notebook, or install the package here."
        yield Finding(name, "network", f"{text} in {_some(where)}", do)
    if clocks := asked.of("clocks"):
        where = sorted({file for files in clocks.values() for file in files})
        yield Finding(name, "time", f"a graded cell of {_some(where)} measures time", "Grade it with `--workers 1`.")
    yield from _sizes(course, name, handed_in)
    for kind, schemas in (("source", asked.of("schemas")), ("submission", submitted.of("schemas"))):
        old = sorted({path for version, whose in schemas.items() if version < SCHEMA_VERSION for path in whose})
        if old:
            notebooks = _some(old) if kind == "source" else f"submissions of {_students(old)}"
            yield Finding(
                name, "schema", f"the metadata of {notebooks} is of an older nbgrader", "Run `nbgrader update` on it."
            )


def _read(place: Path, paths: Iterable[Path]) -> Asked:
    asked = Asked()
    for path in paths:
        asked.add(str(path.relative_to(place)), _facts(path))
    return asked


def _inside(source: Path) -> list[Path]:
    """The notebooks and Python files of an assignment's source, without checkpoints."""
    paths = sorted(path for path in source.rglob("*") if path.suffix in facts.KINDS)
    return [path for path in paths if not any(part.startswith(".") for part in path.relative_to(source).parts)]


def _facts(path: Path) -> dict[str, list[Any]]:
    """What a file asks for; nothing if it cannot be read, which grading reports."""
    try:
        facts_of: dict[str, list[Any]] = limited.call(facts.KINDS[path.suffix], path.read_bytes())
    except (OSError, limited.TooCostly, ValueError, LookupError, TypeError, AttributeError, RuntimeError):
        return {}
    return facts_of


def _missing(asked: Asked, source: Path) -> dict[str, list[str]]:
    return {name: where for name, where in asked.of("imports").items() if not _there(name, source)}


def _there(module: str, source: Path) -> bool:
    """Whether a kernel can import a module: of Python, of a package, or a file of the assignment."""
    if module in sys.stdlib_module_names or module == "__main__":
        return True
    if (source / f"{module}.py").exists() or (source / module).is_dir():
        return True
    if module in ("autograder", *HELPERS):  # kernels of another course do not have ours
        return False
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError, AttributeError):
        return False
    places = [str(spec.origin), *(spec.submodule_search_locations or ())] if spec else []
    ours = {f"{folder}/{module}" for folder in (ROOT, FOLDER, Path.cwd())} | {f"{Path.cwd()}/{module}.py"}
    return bool(spec) and not ours & set(places)


def advice(module: str) -> str:
    """How a module that is not there gets there."""
    if module == "google":
        return "Colab's modules are not there: guard the import with `try`."
    return f"{install([PACKAGES.get(module, module)])}, or put {module}.py beside the notebook."


def _beside(module: str, handed_in: Iterable[Job]) -> bool:
    """Whether students hand in a module of this name with their notebooks."""
    return any((job.folder / f"{module}.py").exists() or (job.folder / module).is_dir() for job in handed_in)


def _programs(course: CourseDir, name: str, asked: Asked) -> Iterator[Finding]:
    own = {os.path.basename(path) for path in course.extras.programs}
    beside = os.path.dirname(sys.executable)
    for program, where in asked.of("programs").items():
        shown = program in (*sandbox.COMMANDS, *sandbox.PROGRAMS) and shutil.which(program, path=os.defpath)
        if shown or program in own or shutil.which(program, path=beside):
            continue
        do = f'State it in course.toml: [nbgrader] programs = ["{program}"].'
        if not shutil.which(program):
            do = "It is not on this machine: install it, and state it in course.toml, [nbgrader] programs."
        yield Finding(name, "program", f"{program}, in {_some(where)}", do)


def _places(course: CourseDir, name: str, asked: Asked) -> Iterator[Finding]:
    """Files elsewhere that cells read: above the notebook, or by absolute paths."""
    shown = [Path(place) for _, place in course.extras.read_only]
    do = "Put it beside the notebook, or state it in course.toml, [nbgrader] read_only."
    for kind in ("above", "absolute"):
        for text, where in asked.of(kind).items():
            path = Path(os.path.normpath("/" + text)) if kind == "above" else Path(os.path.expanduser(text))
            if not any(path.is_relative_to(place) for place in shown) and path != Path("/"):
                yield Finding(name, "path", f"{text}, in {_some(where)}", do)


def _sizes(course: CourseDir, name: str, handed_in: list[Job]) -> Iterator[Finding]:
    limits, source = course.limits, size(course.source(name))
    if NEAR * limits.disk_mb * MB < source <= limits.disk_mb * MB:
        what_is_there = f"the files of the source take {source / MB:.0f} of {limits.disk_mb} MB (disk_mb)"
        yield Finding(name, "size", what_is_there, "Raise disk_mb in [limits] of course.toml: cells write there too.")
    checks: list[tuple[str, float, Callable[[Path], int]]] = [
        ("disk_mb", limits.disk_mb, lambda folder: source + size(folder)),
        (
            "notebook_mb",
            limits.notebook_mb,
            lambda folder: max((p.stat().st_size for p in folder.glob("*.ipynb")), default=0),
        ),
    ]
    for limit, most, measure in checks:
        near = [job.student for job in handed_in if not job.unreadable and measure(job.folder) > NEAR * most * MB]
        if near and not (limit == "disk_mb" and source > NEAR * most * MB):
            outputs = f" Outputs are left out of notebooks up to {WITH_OUTPUTS} times as large." * (
                limit == "notebook_mb"
            )
            what_is_there = f"files of {_students(near)} are near {most:g} MB ({limit}), or beyond"
            yield Finding(
                name, "size", what_is_there, f"Raise {limit} in [limits] of course.toml if they are refused.{outputs}"
            )


def _some(names: list[str]) -> str:
    names = list(dict.fromkeys(names))
    more = f" and {len(names) - MANY} more" if len(names) > MANY else ""
    return ", ".join(names[:MANY]) + more


def _students(names: Iterable[str]) -> str:
    names = sorted(set(names))
    return f"{len(names)} student{'s' * (len(names) != 1)} ({_some(names)})"
