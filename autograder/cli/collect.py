"""`autograder collect`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autograder.cli import context
from autograder.course import CourseError

if TYPE_CHECKING:
    from autograder.intake.collect import Collected


def collect(
    source: Annotated[
        Path | None,
        typer.Argument(
            help="A zip, a folder with a folder per student, or an LMS download; with --exchange, the exchange.",
            show_default=False,
        ),
    ] = None,
    notebook: Annotated[str, typer.Option(help="Files whose names are not those of notebooks are this notebook.")] = "",
    student: Annotated[list[str] | None, typer.Option(help="Take everything as this student's or team's.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Take only this notebook; may be given again.")] = None,
    times: Annotated[
        Path | None,
        typer.Option(help="A CSV file with the columns student and time, or Canvas's Student Analysis report."),
    ] = None,
    zip_names: Annotated[
        str, typer.Option(help="The code page of names in a zip that does not say it, such as cp850. [default: guess]")
    ] = "",
    as_teams: Annotated[
        bool,
        typer.Option("--teams", help="Groups whose members the download names become teams, in .course/teams.csv."),
    ] = False,
    exchange: Annotated[
        bool,
        typer.Option("--exchange", help="Take the submissions of nbgrader's exchange, by default the configured one."),
    ] = False,
    stated_times: Annotated[
        bool,
        typer.Option("--stated-times", help="With --exchange: believe the times that submissions state, as in a copy."),
    ] = False,
) -> None:
    """Take submissions into the course tree. The latest of each student or team counts; all are kept.

    docs/collect.md lists the platforms whose downloads are understood; course.toml may describe others. Nothing is
    unpacked to disk, links are not followed, and a broken submission stops no other.
    """
    from autograder.gradebook import course_tree
    from autograder.intake import collect as collecting

    course = context.load()
    if len(student or ()) > 1:
        raise CourseError("collect takes one --student, whose everything in SOURCE is: collect once for each student")
    course_tree.require_tree(course)
    named, chosen = course.notebook(notebook) if notebook else None, [course.notebook(name) for name in only or ()]
    if stated_times and not exchange:
        raise CourseError("--stated-times is for submissions of an exchange: give --exchange too")
    if exchange:
        if student or zip_names or as_teams:
            raise CourseError(
                "--exchange takes none of --student, --zip-names and --teams: folders there say whose they are"
            )
        chosen = [*([named] if named else []), *chosen]
        collected = collecting.collect_exchange(course, source, chosen, times, stated_times)
    elif source is None:
        raise CourseError("say what to collect: `autograder collect SOURCE`, or `autograder collect --exchange`")
    else:
        notes = collecting.list_teams(course, source, named, zip_names, chosen, times) if as_teams else []
        collected = collecting.collect(course, source, named, "".join(student or ()), zip_names, chosen, times)
        collected.notes[:0] = notes
    print_collected(collected)


def print_collected(collected: "Collected") -> None:
    """Print what was taken, what was refused, and what somebody should know; status 1 if nothing was taken."""
    for line in collected.taken:
        context.console.print(line, markup=False)
    if collected.known:
        many = collected.known > 1
        context.console.print(f"{collected.known} submission{'s' * many} {'were' if many else 'was'} kept before")
    for line in collected.refused:
        context.console.print("[yellow]refused[/yellow] ", end="")
        context.console.print(line, markup=False)
    for line in collected.notes:
        context.console.print("[yellow]note[/yellow] ", end="")
        context.console.print(line, markup=False)
    if collected.refused and not collected.taken and not collected.known:
        raise typer.Exit(1)
