"""`autograder doctor`."""

import typer
from rich.table import Table
from rich.text import Text

from autograder.cli import context


def doctor() -> None:
    """Show what works on this machine, what does not and what to do, and what is not needed.

    Ends with status 1 if nothing can be graded here.
    """
    from autograder import doctor as machine

    found = machine.examine(context.load)
    colours = {machine.State.WORKS: "green", machine.State.DOES_NOT: "red", machine.State.NOT_NEEDED: "dim"}
    table = Table(box=None, header_style="bold")
    for heading in ("", "", "found", "what to do"):
        table.add_column(heading, overflow="fold")
    for one in found:
        table.add_row(
            one.what, Text(one.state, style=colours[one.state]), Text(one.found), Text(context.in_tree(one.do))
        )
    context.console.print(table)
    if not machine.can_grade(found):
        context.console.print("nothing can be graded here until this is mended")
        raise typer.Exit(1)
