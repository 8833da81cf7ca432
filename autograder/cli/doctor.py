"""`autograder doctor`."""

import typer
from rich.text import Text

from autograder.cli import context, printing


def doctor() -> None:
    """Show what works on this machine, what does not and what to do, and what is not needed.

    Ends with status 1 if nothing can be graded here.
    """
    from autograder import doctor as machine

    other = context.other_course()
    findings = machine.examine_other(other) if other else machine.examine(context.load)
    colours = {machine.State.WORKS: "green", machine.State.DOES_NOT: "red", machine.State.NOT_NEEDED: "dim"}
    rows = [
        (finding.what, Text(finding.state, style=colours[finding.state]), Text(finding.found), finding.do)
        for finding in findings
    ]
    context.console.print(printing.table(("", "", "found", "what to do"), rows))
    if not machine.can_grade(findings):
        context.console.print("nothing can be graded here until this is mended")
        raise typer.Exit(1)
