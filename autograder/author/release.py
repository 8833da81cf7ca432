"""The student repository: notebooks, what they import, and nothing of the instructor's."""

import ast
import contextlib
import datetime
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import nbformat

from autograder.author import build, summaries
from autograder.author.checks import checks_module
from autograder.course import (
    CHECKS,
    FOLDER,
    HELPERS,
    RESULTS,
    ROOT,
    SUMMARIES,
    Course,
    CourseError,
    folder_of,
    helpers,
)
from utils import variants

FILES = ("environment.yml", "requirements.txt", "constraints.txt", "LICENSE")
STUDENTS = "docs/students.md"  # the page for students, if the course has one; students.md in the release
RECORDERS = (
    "search.py",
    "sources.py",
)  # in authors' folders; they made the results that students get, and hold no answer
README = """\
# {title}

{rows}

## Start

In Colab: click the badge at the top of a notebook. On your machine, with Python 3.11 to 3.13, in a new virtual
environment:

    pip install -r requirements.txt
    jupyter lab notebooks/

{conda}If you have an NVIDIA GPU,
`pip install -c constraints.txt torch` first; else torch comes without its CUDA libraries, which saves gigabytes.

Answer the cells that say `YOUR CODE HERE`, run the check below each, and hand in the notebook.{page}

Submissions are graded with Python {python}: syntax that only a newer Python reads is an error there.
"""
PAGE = """
[students.md](students.md) says more: answers and checks, experiments, what to hand in."""
DEADLINES = """
## Deadlines

{rows}

{late}
"""
RUNS = """
Of {numbers} hand in the zip that the cell `pack` makes. Where a notebook asks who you are (`STUDENT`), write your name
before anything else.
`COURSE_PROFILE` (`smoke`, `cpu`, `gpu`) says how much is trained; without it, `gpu` where there is one, else `cpu`.
"""


def release(course: Course, target: Path) -> list[Path]:
    """Write the student repository to `target`, an empty folder or an earlier release; the files written.

    Raises:
        CourseError: the folder holds something else, or a notebook is stale.
    """
    if target.exists() and not target.is_dir():
        raise CourseError(f"{target} is not a folder: give an empty one, an earlier release, or one that is not there")
    earlier = (target / "utils" / "grading" / "check.py").exists() and not (target / "solutions").exists()
    if target.exists() and any(target.iterdir()) and not earlier:
        raise CourseError(f"{target} holds something else; give an empty folder or an earlier release")
    there = {path.stem for path in (target / "notebooks").glob("*.ipynb")}
    known = {path.name for path in (FOLDER / "solutions").glob("*") if path.is_dir()}
    if there and there.isdisjoint(known):
        raise CourseError(f"{target} holds the release of another course; give an empty folder or an earlier release")
    files = released(course)
    for folder in HELPERS:  # of an earlier release: checks and results of notebooks that the course has no more
        for path in [path for path in (target / folder).rglob("*") if path.is_file()]:
            if path.relative_to(target).as_posix() not in files and path.suffix != ".pyc":
                path.unlink()
    chosen = {entry.name for entry in course.notebooks}
    for name in (there & known) - chosen:
        (target / "notebooks" / f"{name}.ipynb").unlink()
    (target / "notebooks").mkdir(parents=True, exist_ok=True)
    for entry in course.notebooks:
        shutil.copy(build.notebook_path(entry, course.local is not None), target / "notebooks")
    _copy(files, target)
    write_key(course, target)
    (target / "README.md").write_text(readme(course))
    if (FOLDER / STUDENTS).is_file():
        text = (FOLDER / STUDENTS).read_text().replace("](data.md)", "](data/README.md)")
        (target / Path(STUDENTS).name).write_text(text)
    return sorted(path for path in target.rglob("*") if path.is_file())


def released(course: Course) -> dict[str, Path]:
    """The files that notebooks need, by their paths in the student repository.

    Of the checks and of what is recorded, those of the course's notebooks are among them.

    Raises:
        CourseError: a notebook or a summary of recorded runs is stale.
    """
    stale = build.build_notebooks(course, check=True)
    if stale:
        raise CourseError(f"{', '.join(stale)} stale: run `autograder build` first")
    if outdated := summaries.stale():
        names = ", ".join(path.name for path in outdated)
        raise CourseError(f"{SUMMARIES}: {names} missing or stale: run `autograder summaries` first")
    files = helpers()
    reached = set(_reached(course, files))
    checks = {f"{entry.public_checks.replace('.', '/')}.py" for entry in course.notebooks}
    named = set().union(*({text for text in _strings(files[name])} for name in reached))
    for name in list(files):
        package, below, *inside = name.split("/")
        recorded = f"{package}/{below}" in (RESULTS, SUMMARIES)
        unused = recorded and not {inside[0], Path(inside[0]).stem} & named
        if unused or (re.match(rf"{CHECKS}/nb\d\d_", name) and name not in checks | reached):
            del files[name]
    for name in FILES:
        if (FOLDER / name).is_file():
            files[name] = FOLDER / name
    if FOLDER != ROOT:
        files["utils/LICENSE"] = _licence()  # of the helpers; the course may have another one
    return files


def _reached(course: Course, files: dict[str, Path]) -> Iterator[str]:
    """The modules among `files` that the course's notebooks import, and those that these import."""
    modules = {name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): name for name in files}
    waiting = [name for entry in course.notebooks for name in (entry.public_checks, entry.experiments, *entry.preload)]
    for entry in course.notebooks:
        cells = nbformat.read(build.notebook_path(entry, course.local is not None), as_version=4).cells
        waiting += [name for cell in cells if cell.cell_type == "code" for name in _imports(cell.source)]
    seen: set[str] = set()
    while waiting:
        module = waiting.pop()
        if module in modules and module not in seen:
            seen.add(module)
            yield modules[module]
            waiting += _imports(files[modules[module]].read_text())


def _imports(source: str) -> Iterator[str]:
    """What a piece of Python may import, by dotted names; nothing of a cell that is not plain Python."""
    with contextlib.suppress(SyntaxError):
        for node in ast.walk(ast.parse(source)):
            match node:
                case ast.Import(names=names):
                    yield from (alias.name for alias in names)
                case ast.ImportFrom(module=str(module), names=names):
                    yield from (module, *(f"{module}.{alias.name}" for alias in names))


def _strings(path: Path) -> Iterator[str]:
    """The strings in a file of Python."""
    if path.suffix == ".py":
        nodes = ast.walk(ast.parse(path.read_text()))
        yield from (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


def _copy(files: dict[str, Path], target: Path) -> None:
    for name, path in files.items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target / name)


PROJECT = """\
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "{name}"
version = "{version}"
description = "What the notebooks of a course import"
requires-python = ">=3.11"
dependencies = {needs}

[tool.setuptools]
packages = ["{name}"]

[tool.setuptools.package-data]
{name} = ["**/*"]
"""
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"


def wheel(course: Course, folder: Path) -> Path:
    """Write the release, without notebooks, as a wheel into `folder`; the wheel's path.

    It holds one package, called as `Course.package` says, in which set-up cells find `utils` and `data`. So neither
    has to be a package of that name for the whole machine.

    Raises:
        CourseError: there is no such folder, or the wheel cannot be built.
    """
    name, needs = course.package, FOLDER / "requirements.txt"
    if not name.isascii():
        raise CourseError(f"course_id {course.course_id} cannot name a package: use the letters a to z and digits")
    if not folder.is_dir():
        raise CourseError(f"there is no folder {folder}: make it first")
    packages = re.findall(r"^\w.*$", needs.read_text(), re.MULTILINE) if needs.is_file() else []
    version = datetime.datetime.now(datetime.UTC).strftime("%Y.%m.%d.%H%M%S")
    with tempfile.TemporaryDirectory() as made:
        _copy(released(course), Path(made, name))
        write_key(course, Path(made, name))
        Path(made, "pyproject.toml").write_text(PROJECT.format(name=name, version=version, needs=packages))
        command = [sys.executable, "-c", BUILD, "built"]
        ended = subprocess.run(command, cwd=made, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise CourseError(f"setuptools cannot build the wheel: {ended.stderr.strip()}")
        (built,) = Path(made, "built").glob("*.whl")
        return Path(shutil.copy(built, folder))


def readme(course: Course) -> str:
    """README of the student repository."""
    rows = "\n".join(f"- [{entry.title}](notebooks/{entry.name}.ipynb)" for entry in course.notebooks)
    page = PAGE if (FOLDER / STUDENTS).is_file() else ""
    python = ".".join(map(str, sys.version_info[:2]))
    text = README.format(title=course.title, rows=rows, conda=_conda(), page=page, python=python)
    trained = [entry.number for entry in course.notebooks if entry.has_experiments]
    text += RUNS.format(numbers=_listed(trained)) if trained else ""
    due = [(entry, entry.deadline) for entry in course.notebooks if entry.deadline]
    if not due:
        return text
    dates = [
        f"| {entry.number} {entry.title} | {when:%A, {when.day} %B %Y, %H:%M} (UTC{when.isoformat()[-6:]}) |"
        for entry, when in due
    ]
    late = course.late.sentence().removesuffix(" (course.toml, [late])")
    return text + DEADLINES.format(
        rows="\n".join(["| notebook | hand in until |", "|---|---|", *dates]), late=f"{late[0].upper()}{late[1:]}."
    )


def write_key(course: Course, target: Path) -> None:
    """Write the key of students' own numbers into a release, or remove it if the course has none."""
    path = target / variants.KEY_FILE
    if course.grading.numbers_key:
        path.write_text(course.grading.numbers_key + "\n", encoding="utf-8")
    else:
        path.unlink(missing_ok=True)


def _listed(names: list[str]) -> str:
    """These names as a sentence has them."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _licence() -> Path:
    """The licence of this package: beside it, or where it was installed."""
    files = metadata.files("attention-graded") or ()
    licences = [Path(str(file.locate())) for file in files if file.name == "LICENSE"]
    return next(path for path in (ROOT / "LICENSE", *licences) if path.is_file())


def _conda() -> str:
    """README's words on conda, where the course has an environment for it."""
    path = FOLDER / "environment.yml"
    named = re.search(r"^name: (\S+)$", path.read_text() if path.is_file() else "", re.MULTILINE)
    if named is None:
        return ""
    return f"Or with conda: `conda env create -f environment.yml`, `conda activate {named[1]}`. "


def secret_lines(course: Course) -> set[str]:
    """Every line of a solution, a private check, a wrong answer or a mark scheme that students are not shown.

    What the public checks and the student notebooks say as well is not a secret, and a line of fewer
    than 12 characters says nothing.
    """
    secret: set[str] = set()
    public: set[str] = set()
    for entry in course.notebooks:
        for path in (*folder_of(entry).glob("*.py"), *([FOLDER / entry.text] if entry.text else [])):
            if path.name not in RECORDERS:
                secret |= release_lines(path.read_text())
        public |= release_lines(Path(checks_module(entry).__file__ or "").read_text())
        for cell in build.student_notebook(course, entry).cells:
            public |= release_lines(cell.source)
    return {line for line in secret - public if len(line) >= 12}


def lines_of(path: Path) -> set[str]:
    """The lines of a released file, of its cells if it is a notebook, as `secret_lines` states them."""
    if path.suffix == ".ipynb":
        return set().union(*(release_lines(cell.source) for cell in nbformat.read(path, as_version=4).cells))
    return release_lines(path.read_text(errors="ignore"))


def release_lines(text: str) -> set[str]:
    """Lines as they compare: without indentation, comment signs, and the signs of an edit (`author/edits.py`)."""
    return {line.strip().lstrip("#+- ") for line in text.splitlines()}
