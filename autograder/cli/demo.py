"""`autograder demo`."""

from typing import Annotated

import typer

from autograder.cli import context


def demo(
    workers: Annotated[int, typer.Option(min=1, help="How many submissions are graded at a time.")] = 2,
) -> None:
    """Grade a made-up class whose right scores are known, and compare. Uses .demo/, not .course/.

    Ends with status 1 if any score differs from the one that it must be.
    """
    from autograder import demo as demonstration

    if not demonstration.run(workers, context.console):
        raise typer.Exit(1)
