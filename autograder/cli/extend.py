"""`autograder extend`."""

from typing import Annotated

import typer
from rich.text import Text

from autograder.cli import context, printing
from autograder.course import CourseError


def extend(
    student: Annotated[str, typer.Argument(help="An id, or a name of the roster; or a team.", show_default=False)] = "",
    notebook: Annotated[str, typer.Argument(help="By name or number, or `all`.", show_default=False)] = "",
    extension: Annotated[
        str,
        typer.Argument(
            help="1 week, 36 hours, a time, `never late`, or `excused`: the notebook does not count.",
            show_default=False,
        ),
    ] = "",
    reason: Annotated[str, typer.Option(help="For you; students do not see it.")] = "",
    undo: Annotated[bool, typer.Option("--undo", help="Take the extension back.")] = False,
) -> None:
    """Give a student more time for a notebook, or excuse one; alone, show all extensions and what being late costs.

    A time without an offset is in the course's `timezone`. All are in .course/extensions.csv. Penalties follow when
    scores are next graded, reported or exported.
    """
    from autograder.gradebook import extensions, teams
    from autograder.gradebook import roster as rosters
    from autograder.grading.grading_record import students_of

    course = context.load()
    if not student:
        rows = [[Text(row[column]) for column in extensions.GRANTED] for row in extensions.granted(course)]
        context.console.print(printing.table(extensions.GRANTED, rows) if rows else "nobody has an extension")
        context.console.print(Text(course.late.sentence()), soft_wrap=True)
        return
    if not notebook or bool(extension) == undo:
        raise CourseError(
            "give a student, a notebook and an extension, `autograder extend ada 05 '3 days'`, or --undo in its place"
        )
    entry = None if notebook == extensions.ALL else course.notebook(notebook)
    name = entry.name if entry else "all notebooks"
    if undo:
        whose = extensions.withdraw(course, student, entry)
        context.console.print(Text(f"{whose} has no extension for {name} any more"), soft_wrap=True)
        return
    whose = extensions.grant(course, student, entry, extension, reason)
    context.console.print(Text(f"{whose}, {name}: {extension}"), soft_wrap=True)
    team = teams.load(course).of(entry, whose) if entry else ""
    if extension != extensions.EXCUSED:
        for line in extensions.of_their_teams(course, whose, [entry] if entry else list(course.notebooks)):
            context.console.print(Text(line), soft_wrap=True)
    if entry and rosters.load(course) is None and not {whose, team} & {*students_of(course, entry)}:
        context.console.print(
            f"so far nothing of {entry.name} is handed in under this name: `autograder status` shows those there are"
        )
    if entry and entry.deadline is None:
        context.console.print(f"{entry.name} has no deadline: nobody is late")
