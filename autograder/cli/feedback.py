"""`autograder feedback`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from autograder.cli import context
from autograder.cli.parameters import Names


def feedback(
    notebooks: Names = None,
    workers: Annotated[int, typer.Option(min=1, help="How many pages are written at a time.")] = 2,
    platform: Annotated[
        Literal["canvas", "moodle", "blackboard"] | None,
        typer.Option("--zip", help="Also a zip for each notebook, with the names by which this platform takes it."),
    ] = None,
    to: Annotated[Path, typer.Option("--to", help="The folder of the zips.")] = Path(),
) -> None:
    """Write a feedback page for every graded submission into .course/feedback/, where nbgrader looks for it.

    Writes only those that are new or would say something else: interrupt it at any time and give the same
    command again.
    """
    from autograder.reports.feedback import write_feedback

    course = context.load()
    entries = context.built(course, notebooks)
    pages = write_feedback(course, entries, workers)
    context.console.print(f"{len(pages)} pages in {course.tree / 'feedback'}", soft_wrap=True)
    if not pages:
        context.console.print("a page is written for what is graded: `autograder grade` comes first")
    if platform:
        from autograder.reports import uploads

        done = uploads.zip_feedback(course, entries, pages, platform, to)
        for path, number in done.pages.items():
            context.console.print(f"{number} of them in {path}", markup=False, soft_wrap=True)
        for line in done.notes:
            context.console.print(line, markup=False, soft_wrap=True)
