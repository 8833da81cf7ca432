"""`autograder remove`."""

from typing import Annotated

import typer

from autograder.cli import context
from autograder.cli.parameters import Reason
from autograder.course import Course, CourseError, NotebookEntry


def remove(
    student: Annotated[str, typer.Argument(help="The student's id or name; or a team.")] = "",
    notebooks: Annotated[
        list[str] | None, typer.Argument(metavar="NOTEBOOK...", help="By name or number.", show_default=False)
    ] = None,
    whose: Annotated[str, typer.Option("--student", help="The student, in place of the first word.")] = "",
    every: Annotated[bool, typer.Option("--all", help="All notebooks.")] = False,
    erase: Annotated[
        bool, typer.Option("--erase", help="With --all: keep nothing, also of what was removed before; with a receipt.")
    ] = False,
    reason: Reason = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without this, only show what would be removed.")] = False,
    latest: Annotated[
        bool, typer.Option("--latest", help="Remove the latest only; the one before counts again.")
    ] = False,
) -> None:
    """Remove a submission everywhere: files, verdict, feedback and gradebook. All of it is kept in .course/removed/.

    Manual marks and comments are kept there too. With --all --erase nothing of the student is kept: files, records,
    marks, logs, and what was removed before. Without --yes nothing is changed.
    """
    from autograder.gradebook import teams
    from autograder.grading import removal
    from autograder.reports import report as reporting

    course = context.load()
    names = [*([student] if whose and student else []), *(notebooks or ())]
    student = teams.kept_as(course, whose or student)
    if not student or bool(names) == every or (erase and not every) or (latest and every):
        raise CourseError(
            "name a student and notebooks, `autograder remove ada 01 --yes`, or `--all` in place of the notebooks; "
            "--erase goes with --all, --latest does not"
        )
    if erase:
        erase_student(course, student, reason, yes)
        return
    entries = removal.handed_in(course, student) if every else course.select(names)
    if latest:
        for entry in entries:
            remove_latest(course, entry, student, reason, yes)
        return
    for entry in entries:
        if yes:
            place = removal.remove(course, entry, student, reason)
            context.console.print(f"removed; all of it is in {place}", soft_wrap=True)
        else:
            print_parts(course, entry, student)
    if yes:
        context.console.print(f"report: {reporting.write_report(course, list(course.notebooks))}", soft_wrap=True)
    else:
        context.console.print("nothing was changed: give the command with --yes to remove it")


def remove_latest(course: Course, entry: NotebookEntry, student: str, reason: str, yes: bool) -> None:
    """Remove the latest submission of several, or without `yes` show which there are."""
    from autograder.grading import removal

    kept = [path.name for path in removal.several(course, entry, student)]
    if yes:
        place = removal.remove_latest(course, entry, student, reason)
        line = f"{kept[-2]} counts again, {kept[-1]} is in {place}: `autograder grade`"
    else:
        line = f"kept of {student}: {', '.join(kept)}; with --yes the last is removed"
    context.console.print(line, soft_wrap=True)


def print_parts(course: Course, entry: NotebookEntry, student: str) -> None:
    """What `--yes` would remove."""
    from autograder.grading import removal

    parts, marks = removal.parts(course, entry, student), removal.marks(course, entry, student)
    removal.require(course, entry, student)
    for path in parts:
        context.console.print(f"would move {path.relative_to(course.tree)}", markup=False, soft_wrap=True)
    by_hand = sum(mark.get("manual_score") is not None for mark in marks)
    context.console.print(f"would remove {entry.name} of {student} from the gradebook, with {by_hand} manual marks")


def erase_student(course: Course, student: str, reason: str, yes: bool) -> None:
    """Erase a student, or without `yes` show what that would do."""
    from autograder.grading import erasure
    from autograder.reports import report as reporting

    if not yes:
        for line in erasure.shown(course, erasure.find(course, student)):
            context.console.print(line, markup=False, soft_wrap=True)
        context.console.print("nothing was changed: give the command with --yes to erase it; nothing can be taken back")
        return
    receipt, left = erasure.erase(course, student, reason)
    context.console.print(f"erased; the receipt is {receipt}", markup=False, soft_wrap=True)
    context.console.print(receipt.read_text(), markup=False, soft_wrap=True)
    for path in left:
        context.console.print(f"a name of the student is still in {path}: look at it", markup=False, soft_wrap=True)
    context.console.print(erasure.OUTSIDE, markup=False, soft_wrap=True)
    context.console.print(f"report: {reporting.write_report(course, list(course.notebooks))}", soft_wrap=True)
