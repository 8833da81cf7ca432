"""Whether a directory is a stock nbgrader course. Imports nothing heavy: every command asks."""

import os
import tomllib
from pathlib import Path

OURS = "autograder.gradebook.stock"  # named by the configuration of our own course trees


def is_course(folder: Path) -> bool:
    """Whether `folder` is a stock nbgrader course, and neither one of ours nor the tree of one."""
    try:
        settings = folder / "nbgrader_config.py"
        if settings.is_file():
            return OURS not in settings.read_text(errors="replace") and not _is_ours(folder / "course.toml")
        return (folder / "gradebook.db").is_file() and not _is_ours(folder / "course.toml")
    except OSError:
        return False


def here() -> Path | None:
    """The stock nbgrader course in which the command was given; None if it was given elsewhere."""
    try:
        folder = Path.cwd()
    except OSError:  # it was removed
        return None
    return folder if "AUTOGRADER_COURSE" not in os.environ and is_course(folder) else None


def _is_ours(path: Path) -> bool:
    """Whether a course.toml states notebooks, as that of a course of this package does."""
    try:
        return "notebooks" in tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return False
