"""How a command that grades begins."""

from autograder.cli import context
from autograder.course import Course, CourseError


def begin(notebooks: list[str] | None, cluster: str, trusted: bool, dashboard: bool) -> Course:
    """The course; what grading those notebooks needs is imported in the background while we import the rest."""
    from importlib.util import find_spec

    from autograder.sandbox import preload

    course = context.load()
    if dashboard and not cluster and not find_spec("bokeh"):
        raise CourseError(
            "dask's dashboard needs bokeh: pip install -c constraints.txt bokeh, or grade without --dashboard"
        )
    if not cluster and not trusted:
        preload.begin(course, course.select(notebooks))
    return course


def devices(gpus: str) -> tuple[str, ...]:
    """The devices of `--gpus`."""
    return tuple(name.strip() for name in gpus.split(",") if name.strip())
