"""`autograder summaries`."""

from typing import Annotated

import typer

from autograder.cli import context
from autograder.course import SUMMARIES, CourseError


def summaries(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail if a committed summary is missing or stale.")
    ] = False,
) -> None:
    """Write what students get of the recorded runs into data/summaries: metrics, curves and comparisons.

    Students do not get the runs themselves, whose predictions could be mixed into runs that nobody trained. `record`
    does this at its end; run it after any other change in data/results.
    """
    from autograder.author import summaries as summing_up

    stale = summing_up.stale() if check else summing_up.write(context.load())
    names = ", ".join(path.name for path in stale)
    if check and stale:
        raise CourseError(
            f"{SUMMARIES}: {names} missing or stale; run `autograder summaries` and commit what it writes"
        )
    context.console.print(f"wrote {names}" if stale else "the summaries of the recorded runs are up to date")
