"""`autograder report`."""

from typing import Annotated

import typer

from autograder.cli import context, printing
from autograder.cli.parameters import Names


def report(
    notebooks: Names = None,
    names: Annotated[
        bool, typer.Option("--names", help="Name the students; else each has a code, the same on every page.")
    ] = False,
) -> None:
    """Write the class report, one page: scores, how hard each exercise was, what most were told, who is late.

    It needs no network, prints, and sorts its tables by a click. Notebooks without submissions are left out.
    """
    from autograder.reports import progress
    from autograder.reports import report as reporting

    course = context.load()
    entries = context.built(course, notebooks)
    printing.print_to_mark({entry.name: progress.to_mark(course, entry) for entry in entries})

    def show(name: str, lines: list[str]) -> None:
        found = [f"{name}, every different run of the class", *lines]
        context.console.print("\n".join(found), end="\n\n", markup=False, soft_wrap=True)

    context.console.print(str(reporting.write_report(course, entries, show, names)), soft_wrap=True)
