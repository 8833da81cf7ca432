"""`autograder export`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from autograder.cli import context
from autograder.cli.parameters import Names, Section
from autograder.course import CourseError


def export(
    to: Annotated[
        Path | None,
        typer.Option(
            "--to", help="The file; default: grades.csv, and for a platform canvas.csv and so on.", show_default=False
        ),
    ] = None,
    notebooks: Names = None,
    form: Annotated[
        Literal["csv", "totals", "canvas", "moodle", "blackboard", "gradescope"],
        typer.Option(
            "--format",
            help="The learning platform that imports it; csv: a row per student and exercise; totals: a row per "
            "student, a column per notebook and the total, as course.toml says in its table `total`.",
        ),
    ] = "csv",
    section: Section = "",
    zero: Annotated[
        bool, typer.Option("--zero", help="0 for everybody who handed nothing in and has no time left; else blank.")
    ] = False,
    exercises: Annotated[
        bool,
        typer.Option(
            "--exercises",
            help="For platforms: also a column per exercise. Canvas, which sums columns, gets no total then.",
        ),
    ] = False,
) -> None:
    """Write all scores, manual scores and lateness included, as CSV or as a file that a learning platform imports.

    Marks that wait for a person are left blank. Everybody in .course/students.csv has a row; who handed nothing in is
    named.
    """
    from autograder.reports import exports, progress

    course = context.load()
    if to and str(to) in exports.FORMATS:
        raise CourseError(f"--to names the file: for the file of a platform give --format {to}")
    to = to or Path("grades.csv" if form == exports.CSV else f"{form}.csv")
    done = exports.write_scores(
        course, context.built(course, notebooks), context.writable(to), form, exercises, section, zero
    )
    context.console.print(f"{done.rows} rows in {to}{', in place of earlier ones' * done.replaced}", soft_wrap=True)
    for line in done.notes:
        context.console.print(line, markup=False, soft_wrap=True)
    if form not in (exports.CSV, exports.TOTALS) and course.late.takes_off:
        sentence = (
            "late penalties are taken off: see that the platform's own late policy does not take them off once more"
        )
        context.console.print(sentence, soft_wrap=True)
    for entry in course.select(notebooks):
        for student, why in progress.disagreements(course, entry).items():
            context.console.print(f"{student} {entry.name}: {why}", markup=False, soft_wrap=True)
