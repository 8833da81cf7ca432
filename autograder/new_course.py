"""The skeleton of another course on this engine: one notebook with one exercise, which builds, releases and grades."""

import re
from importlib import metadata
from pathlib import Path

import jinja2

from autograder import doctor
from autograder.course import CourseError

SKELETON = Path(__file__).with_name("skeleton")
SUFFIX = ".jinja"


def write(folder: Path, title: str = "") -> list[Path]:
    """Write the skeleton into a folder that is empty or not there; the files written.

    Args:
        title: of the course; by default the folder's name in words.

    Raises:
        CourseError: something is in the folder, it cannot be made, or the title cannot stand in quotes.
    """
    name = folder.resolve().name
    course_id = re.sub(r"\W+", "_", name).strip("_") or "course"
    title = title or course_id.replace("_", " ").strip().capitalize()
    if not title.isprintable() or '"' in title or "\\" in title:
        raise CourseError("write the title on one line, without quotes and backslashes")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise CourseError(f"{folder} is not empty: name a folder that is, or is not there")
    except OSError as bad:
        raise CourseError(f"{folder} cannot be made: {bad.strerror}") from None
    given = {"title": title, "course_id": course_id, "versions": _versions()}
    loader = jinja2.FileSystemLoader(SKELETON)
    templates = jinja2.Environment(loader=loader, undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    written = []
    for source in sorted(path for path in SKELETON.rglob(f"*{SUFFIX}")):
        inside = source.relative_to(SKELETON).as_posix()
        target = folder / inside.removesuffix(SUFFIX)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(templates.get_template(inside).render(given))
        written.append(target)
    return written


def _versions() -> list[str]:
    """What this machine has of the packages that grading needs, as constraints.txt states it."""
    installed = {name: metadata.version(name).partition("+")[0] for name in doctor.packages() if _there(name)}
    return [f"{name}=={version}" for name, version in sorted(installed.items())]


def _there(name: str) -> bool:
    try:
        return bool(metadata.version(name))
    except metadata.PackageNotFoundError:
        return False
