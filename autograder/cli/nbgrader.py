"""`autograder nbgrader`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.text import Text

from autograder.cli import context, printing
from autograder.cli.parameters import AsJson, Student, Workers

if TYPE_CHECKING:
    from autograder.any_course.directory import CourseDir


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
    check: Annotated[
        bool, typer.Option("--check", help="Grade nothing: read the course, and show what would cost marks.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Grade an existing stock nbgrader course, its tests in the cells, in sandboxes. Not the course in course.toml.

    Its configuration, gradebook and folders are used as nbgrader does; only the cells run elsewhere. Grades what is new
    or changed; interrupt it at any time and give the same command again. Ends with status 1 if something could not
    be graded.
    """
    from autograder.any_course import directory

    directory.begin(course_dir)
    course = directory.open_course(course_dir)

    from autograder.any_course import grade as grading

    names = list(dict.fromkeys(assignments or directory.assignments(course)))
    if check:
        show_findings(course, names, json)
        return
    if not json:
        warn_of_missing_modules(course, names)
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


def show_findings(course: "CourseDir", names: list[str], json: bool) -> None:
    """Print what would cost marks; status 1 if there is something."""
    from autograder.any_course import check

    findings = check.examine(course, names)
    if json:
        for finding in findings:
            print_plain_json(finding)
    elif findings:
        rows = [
            (finding.assignment or "all", finding.what, Text(finding.found), Text(finding.do)) for finding in findings
        ]
        context.console.print(printing.table(("assignment", "", "found", "what to do"), rows))
    else:
        context.console.print(f"{', '.join(names) or 'no assignment'}: nothing was found that would cost marks")
    if findings:
        raise typer.Exit(1)


def warn_of_missing_modules(course: "CourseDir", names: list[str]) -> None:
    """Say which modules tests import that are not there: without them cells fail for everybody."""
    from autograder.any_course import check

    for name in names:
        for module, where in check.missing_modules(course, name).items():
            text = f"{name}: {', '.join(where)} imports {module}, which is not there. {check.advice(module)}"
            context.console.print(f"[yellow]warning[/yellow] {escape(text)}", soft_wrap=True)


def print_plain_json(record: Any) -> None:
    """A line for machines: a record of plain data."""
    import json as encoder
    from dataclasses import asdict

    print(encoder.dumps(asdict(record), ensure_ascii=False), flush=True)
