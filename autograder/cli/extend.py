"""`autograder extend`."""

from typing import Annotated

import typer
from rich.text import Text

from autograder.cli import context, printing
from autograder.course import CourseError


def extend(
    student: Annotated[str, typer.Argument(help="An id, or a name of the roster.", show_default=False)] = "",
    notebook: Annotated[str, typer.Argument(help="By name or number.", show_default=False)] = "",
    extension: Annotated[
        str,
        typer.Argument(help="3 days, 36 hours, a time with its offset, or excused: never late.", show_default=False),
    ] = "",
    reason: Annotated[str, typer.Option(help="For you; students do not see it.")] = "",
    undo: Annotated[bool, typer.Option("--undo", help="Take the extension back.")] = False,
) -> None:
    """Give a student more time for a notebook, or excuse one; alone, show all extensions and what being late costs.

    They stand in .course/extensions.csv. Penalties follow when scores are next graded, reported or exported.
    """
    from autograder.gradebook import roster as rosters
    from autograder.grading.grading_record import students_of

    course = context.load()
    if not student:
        rows = [[Text(row[column]) for column in rosters.GRANTED] for row in rosters.granted(course)]
        context.console.print(printing.table(rosters.GRANTED, rows) if rows else "nobody has an extension")
        context.console.print(Text(course.late.sentence()), soft_wrap=True)
        return
    if not notebook or bool(extension) == undo:
        raise CourseError(
            "give a student, a notebook and an extension, `autograder extend ada 05 '3 days'`, or --undo in its place"
        )
    (entry,) = course.select([notebook])
    if undo:
        whose = rosters.withdraw(course, student, entry)
        context.console.print(Text(f"{whose} has no extension for {entry.name} any more"), soft_wrap=True)
        return
    whose = rosters.grant(course, student, entry, extension, reason)
    context.console.print(Text(f"{whose}, {entry.name}: {extension}"), soft_wrap=True)
    if rosters.load(course) is None and whose not in students_of(course, entry):
        context.console.print(
            f"so far nothing of {entry.name} is handed in under this name: `autograder status` shows those there are"
        )
    if entry.deadline is None:
        context.console.print(f"{entry.name} has no deadline: nobody is late")
