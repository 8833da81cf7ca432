"""`autograder watch`."""

from pathlib import Path
from typing import Annotated

import typer

from autograder.cli import context
from autograder.cli.parameters import Workers
from autograder.course import CourseError


def watch(
    folder: Annotated[Path, typer.Argument(help="Where submissions arrive, as `collect` takes them; they stay there.")],
    workers: Workers = 2,
    unit: Annotated[bool, typer.Option("--unit", help="Print a systemd unit that does this, and do nothing.")] = False,
) -> None:
    """Take, grade and answer submissions as they arrive in a folder; Ctrl-C ends it.

    Each gets its verdicts, its marks in the gradebook and its feedback page within seconds. Ended and begun again, it
    goes on with what is not graded yet; other commands may be used meanwhile.
    """
    import datetime

    from autograder import html_cleaning
    from autograder import watch as watching
    from autograder.grading.grading_record import GRADED, Options, Record
    from autograder.intake.collect import Collected

    course = context.load()
    if unit:
        print(watching.unit(course, folder, workers, context.chosen.get("database", "")), end="")
        return

    def say(text: str) -> None:
        context.console.print(f"{datetime.datetime.now():%H:%M:%S} {text}", markup=False, soft_wrap=True)

    printed: set[str] = set()

    def on_collected(collected: Collected) -> None:
        news = [f"refused {line}" for line in collected.refused] + [f"note {line}" for line in collected.notes]
        for line in news:
            if line not in printed:  # the folder is read as a whole each time
                printed.add(line)
                say(line)

    def on_record(record: Record) -> None:
        points = (
            f"{record.score:g} of {record.points:g} points of checks"
            if record.status == GRADED
            else f"{record.status}: {record.reason}"
        )
        say(f"{record.student} {record.notebook}: {points}")

    watching.require(course, folder)
    say(f"watching {folder} for {len(course.notebooks)} notebooks; Ctrl-C ends it")

    def on_failure(why: Exception) -> None:
        why_not = str(why) if isinstance(why, CourseError) else f"{type(why).__name__}: {html_cleaning.line(why, 500)}"
        say(f"not done: {why_not}")

    watching.watch(course, folder, Options(workers), on_collected, on_record, on_failure)
