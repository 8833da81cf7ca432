"""`autograder release`."""

from pathlib import Path
from typing import Annotated

import typer

from autograder.cli import context
from autograder.course import CourseError


def release(
    to: Annotated[
        Path | None, typer.Option("--to", help="An empty folder, or an earlier release to renew.", show_default=False)
    ] = None,
    wheel: Annotated[
        Path | None,
        typer.Option(
            "--wheel",
            help="A folder for a wheel that a hub's administrator installs, once for all.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write the student repository: notebooks/, utils/, data/, environment.yml, README. No solutions.

    With --wheel, write what notebooks import as a Python package: notebooks of nbgrader's exchange find it there.
    """
    from autograder.author import release as releasing

    course = context.load()
    if to is None and wheel is None:
        raise CourseError("say where to: --to DIR for the student repository, --wheel DIR for a hub's package")
    if to is not None:
        files = releasing.release(course, to)
        change = "" if course.local else "; your own address is `student_repository` in course.local.toml"
        context.console.print(
            f"{len(files)} files in {to}: push them to {course.student_repository}{change}", soft_wrap=True
        )
    if wheel is not None:
        made = releasing.wheel(course, wheel)
        context.console.print(
            f"{made}: install it where students' notebooks run, `pip install -c constraints.txt {made.name}`, with "
            "the constraints.txt of the course",
            soft_wrap=True,
        )
