"""`autograder explain`."""

from pathlib import Path
from typing import Annotated

import typer

from autograder.cli import context
from autograder.course import CourseError


def explain(
    student: Annotated[str, typer.Argument(help="The student's id or name; or a team.")],
    exercise: Annotated[str, typer.Argument(help="An exercise or a written question: 2.6, 1.W1.")],
    to: Annotated[Path | None, typer.Option("--to", help="Also write the case into this zip, for a committee.")] = None,
    beside: Annotated[
        str, typer.Option("--beside", metavar="STUDENT", help="With --to: the code of both, side by side.")
    ] = "",
    no_ask: Annotated[bool, typer.Option("--no-ask", help="Do not judge the exercise again.")] = False,
) -> None:
    """Show how a mark came about: versions, question, answer, failing input, verdicts over time, marks and decisions.

    The exercise is judged once more in a sandbox to show what its checks asked; nothing of that is recorded.
    """
    from autograder import appeals
    from autograder.gradebook import teams

    course = context.load()
    student = teams.kept_as(course, student)
    if beside and not to:
        raise CourseError("--beside goes with --to: name the zip")
    case = appeals.case_of(course, student, exercise, not no_ask)
    for line in appeals.lines(case):
        context.console.print(line, markup=False, soft_wrap=True)
    if to:
        files = appeals.write_zip(course, case, context.writable(to), beside)
        context.console.print(
            f"{len(files)} files in {to}; it shows inputs of private checks", markup=False, soft_wrap=True
        )
