"""`autograder nbgrader`."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.text import Text

from autograder.cli import context, printing
from autograder.cli.parameters import AsJson, Student, Workers


def nbgrader(
    assignments: Annotated[
        list[str] | None, typer.Argument(metavar="[ASSIGNMENT]...", help="By nbgrader's name; default: all.")
    ] = None,
    course_dir: Annotated[
        Path, typer.Option(help="The course, as `nbgrader autograde` would be started there.", show_default="here")
    ] = Path("."),
    student: Student = None,
    workers: Workers = 2,
    again: Annotated[bool, typer.Option("--again", help="Grade again also what is up to date.")] = False,
    json: AsJson = False,
) -> None:
    """Grade an existing course of stock nbgrader, its tests in the cells, in sandboxes. Not the course in course.toml.

    Its configuration, gradebook and folders are used as nbgrader does; only the cells run elsewhere. Grades what is new
    or changed; interrupt it at any time and give the same command again. Ends with status 1 if something could not
    be graded.
    """
    from autograder.any_course import directory

    directory.begin(course_dir)
    course = directory.open_course(course_dir)

    from autograder.any_course import grade as grading

    names = list(dict.fromkeys(assignments or directory.assignments(course)))
    records, refused = grading.grade(
        course, names, student or (), workers, again, print_plain_json if json else lambda record: None
    )
    failed = [record for record in records if record.status != directory.GRADED]
    if not json:
        rows = []
        for record in records:
            points = f"{max(0, record.score - record.penalty):g} of {record.points:g}"
            points = points if record.status == directory.GRADED else record.status
            late = [f"late: {record.score:g} less a penalty of {record.penalty:g}"] if record.penalty else []
            by_hand = ["answers wait for a person: nbgrader's formgrader"] * record.to_mark
            remarks = "; ".join([*([record.reason] if record.reason else []), *record.remarks, *late, *by_hand])
            rows.append((record.student, record.assignment, points, Text(remarks)))
        if rows:
            headings = ("student", "assignment", "points", "remarks")
            context.console.print(printing.table(headings, rows, right=("points",)))
        for line in refused:
            context.console.print(f"[yellow]refused[/yellow] {escape(line)}", soft_wrap=True)
        if not records and not refused:
            context.console.print("nothing was handed in where nbgrader looks for it")
        context.console.print(directory.FOOLED, soft_wrap=True)
    if failed or refused:
        raise typer.Exit(1)


def print_plain_json(record: Any) -> None:
    """A line for machines: a record of plain data."""
    import json as encoder
    from dataclasses import asdict

    print(encoder.dumps(asdict(record), ensure_ascii=False), flush=True)
