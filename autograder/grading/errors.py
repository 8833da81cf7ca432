"""What stops a grading run, in one sentence."""

import errno
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autograder.course import FOLDER, ROOT, Course, CourseError
from autograder.gradebook import course_tree

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


class GradingStopped(CourseError):
    """A run that cannot go on; what it has recorded is safe, and the same command goes on from there."""


@contextmanager
def explain_failures(course: Course) -> Iterator[None]:
    """Say in one line what stopped a run that lost its disk or its gradebook."""
    try:
        yield
    except OSError as bad:
        if bad.errno not in FULL:
            raise
        where = f" ({bad.filename})" if bad.filename else ""
        raise GradingStopped(f"grading stopped: {bad.strerror}{where}. {go_on('Make room')}") from bad
    except Exception as bad:
        from autograder.gradebook.gradebook_writer import DATABASE_ERRORS  # nbgrader's, which takes its time to import

        if not isinstance(bad, DATABASE_ERRORS):
            raise
        said = str(getattr(bad, "orig", None) or bad).strip().splitlines()[0]
        where = course_tree.shown_database(course)
        raise GradingStopped(
            f"grading stopped: the gradebook {where} cannot be used: {said}. {go_on('Fix it')}"
        ) from bad


def where(bug: BaseException) -> str:
    """Where in the grader it was raised, as the end of a sentence; "" if that is not known."""
    ours = (str(ROOT), str(FOLDER))
    frames = [frame for frame in traceback.extract_tb(bug.__traceback__) if frame.filename.startswith(ours)]
    return f" in {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""


def go_on(do: str) -> str:
    """What somebody has to do after a run that stopped."""
    return f"What was recorded is safe. {do}, then give the same command again: it goes on from there."
