"""`autograder record`."""

from typing import Annotated

import typer

from autograder.cli import context


def record(
    notebook: Annotated[str, typer.Argument(help="A notebook with experiments, 05 for example.")],
    names: Annotated[list[str] | None, typer.Argument(metavar="[EXPERIMENT]...", help="Default: all.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many of the seeds 1 to 5.")] = 5,
    cluster: Annotated[str, typer.Option(help="local, or the address of a dask scheduler; default: one by one.")] = "",
) -> None:
    """Record the runs that come with the course, profile cpu; those that are recorded already are not run again.

    At the end it renews their summaries, which students get in their place.
    What the solution's cells contribute is executed here, on this machine. It takes minutes to hours.
    """
    from autograder.author import record_runs, summaries

    course = context.load()
    for table in record_runs.record(course, course.notebook(notebook), names or (), seeds, cluster or None):
        context.console.print(repr(table), markup=False, soft_wrap=True)
    summaries.write(course)
