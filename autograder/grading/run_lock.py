"""One grading run at a time in a course tree."""

from collections.abc import Iterator
from contextlib import contextmanager

from filelock import FileLock, Timeout

from autograder.course import Course, CourseError
from autograder.gradebook import safe_names


@contextmanager
def exclusive_run(course: Course) -> Iterator[None]:
    """One run at a time in a tree; what a killed one left half written is removed, and names lose their markup."""
    course.tree.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(course.tree / ".grading.lock", timeout=0):  # the system's: a killed run leaves it open
            for folder in ("verdicts", "autograded"):
                for partial in course.tree.glob(f"{folder}/**/.partial-*"):
                    partial.unlink()
            safe_names.rename_directories(course.tree)
            yield
    except Timeout:
        raise CourseError(f"another run is grading in {course.tree}: wait for it, or end it") from None
