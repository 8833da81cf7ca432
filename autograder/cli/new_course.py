"""`autograder new-course`."""

from pathlib import Path
from typing import Annotated

import typer

from autograder.cli import context


def new_course(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="An empty folder, or one that is not there yet.")],
    title: Annotated[str, typer.Option(help="Of the course; default: the folder's name.", show_default=False)] = "",
) -> None:
    """Write the skeleton of another course: a notebook with an exercise and a written question, which can be graded.

    Commands work on the course in the folder where they are given, or above it.
    """
    import shlex

    from autograder import new_course as making

    files = making.write(folder, title)
    context.console.print(f"{len(files)} files in {folder}. Go there, and do what its README.md says:", soft_wrap=True)
    context.console.print(
        f"  cd {shlex.quote(str(folder))}\n  autograder build\n  autograder demo", markup=False, soft_wrap=True
    )
