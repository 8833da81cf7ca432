"""What holds for every command: the tree and the database that were chosen, and the terminal."""

import shlex
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from autograder import course as courses
from autograder.any_course import place
from autograder.course import Course, CourseError, NotebookEntry

chosen: dict[str, Any] = {}
command = ""  # its name


def in_tree(text: str) -> str:
    """A sentence whose commands can be copied and run, in the tree that was chosen."""
    given = f"`autograder --tree {shlex.quote(str(chosen['tree']))} " if "tree" in chosen else "`autograder "
    return text.replace("`autograder ", given)


class Terminal(Console):
    """Prints sentences, and cells of tables, as `in_tree` makes them; what is `Text` already stays."""

    def render_str(self, text: str, **how: Any) -> Text:
        """As rich's."""
        return super().render_str(in_tree(text), **how)


console = Terminal(highlight=False, width=None if sys.stdout.isatty() else 150)  # a log has room


def print_error(message: str) -> None:
    """Print a message on stderr."""
    Terminal(stderr=True, highlight=False).print(f"autograder: {message}", markup=False, soft_wrap=True)


class Interrupted(Exception):
    """A command was interrupted that keeps nothing; the message says what that means."""


# What a stock nbgrader course has in the place of a command; `status`, `doctor` and `nbgrader` work on it.
INSTEAD = {
    "build": "`nbgrader generate_assignment` makes what students get",
    "release": "`nbgrader generate_assignment` makes what students get",
    "collect": "`nbgrader collect` and `nbgrader zip_collect` take submissions",
    "watch": "`autograder nbgrader` grades what is new each time that it is given",
    "feedback": "`nbgrader generate_feedback` writes feedback pages",
    "report": "`nbgrader export` writes all marks, and `autograder status` shows what is graded",
    "export": "`nbgrader export` writes all marks",
    "group": "`nbgrader formgrade` is where answers are marked",
    "mark": "`nbgrader formgrade` is where answers are marked",
    "similar": "`copydetect -t submitted -b release -e ipynb -a` compares its submissions and writes report.html",
    "explain": "the graded notebook in autograded/STUDENT/ASSIGNMENT/ shows each test with its output",
    "extend": "`nbgrader` keeps deadlines in its gradebook; formgrader changes them",
}


def other_course() -> Path | None:
    """The directory of a stock nbgrader course, if the command was given in one and states no tree."""
    return None if "tree" in chosen else place.here()


def load() -> Course:
    """The course, in the tree that was chosen.

    Raises:
        CourseError: the command was given in a stock nbgrader course; the message says what to use there.
    """
    if other := other_course():
        instead = INSTEAD.get(command, "`autograder nbgrader` grades it")
        raise CourseError(f"{other} is a stock nbgrader course, on which {command} does not work: {instead}")
    return courses.load(**chosen)


def built(course: Course, notebooks: list[str] | None) -> list[NotebookEntry]:
    """These notebooks, or all.

    Raises:
        CourseError: one is unknown, or was not built: said before the gradebook is opened, which is not there either.
    """
    from autograder.gradebook import course_tree

    entries = course.select(notebooks)
    for entry in entries:
        course_tree.release_text(course, entry)
    return entries


def writable(path: Path) -> Path:
    """A file that a command is to write; of a link, the file that it leads to.

    Raises:
        CourseError: there is a folder or a device of this name, or no folder to write it into.
    """
    path = path.resolve() if path.is_symlink() else path
    if path.is_dir():
        raise CourseError(f"{path} is a folder: name a file in it")
    if path.exists() and not path.is_file():
        raise CourseError(f"{path} is not a file: name one")
    if not path.parent.is_dir():
        raise CourseError(f"there is no folder {path.parent}: make it first")
    return path
