"""`autograder audit`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from autograder.cli import context
from autograder.cli.parameters import Reason
from autograder.course import CourseError


def audit(
    notebook: Annotated[str, typer.Argument(help="A notebook with experiments, 05 for example.")],
    fraction: Annotated[float, typer.Option(help="The fraction of the class's runs to train again.")] = 0.05,
    seed: Annotated[int, typer.Option(help="Draws the sample; the same seed draws the same one.")] = 0,
    data_dir: Annotated[Path | None, typer.Option(help="Holds the data; else COURSE_DATA, else the hub.")] = None,
    confirm: Annotated[str, typer.Option(metavar="STUDENT", help="Decide: these runs do not count.")] = "",
    acquit: Annotated[str, typer.Option(metavar="STUDENT", help="Decide: they count; nothing is flagged.")] = "",
    undo: Annotated[str, typer.Option(metavar="STUDENT", help="Take a decision back.")] = "",
    reason: Reason = "",
) -> None:
    """Train a sample of the handed-in runs again, and compare. Ends with status 1 if one does not agree.

    Half of the sample are the most suspicious runs, half are drawn at random. No mark changes by itself: look at what
    differs, ask the student, then note what you decided with --confirm, --acquit or --undo. The next `grade`
    applies it.
    """
    from autograder.grading import copied_runs

    course = context.load()
    entry = course.notebook(notebook)
    if confirm or acquit or undo:
        asked = [
            (student, counts, means)
            for student, counts, means in (
                (confirm, False, "do not count"),
                (acquit, True, "count, and nothing of them is flagged"),
                (undo, None, "are undecided again"),
            )
            if student
        ]
        if len({student for student, _, _ in asked}) < len(asked):
            raise CourseError("two decisions about one student: give one of --confirm, --acquit and --undo")
        for student, counts, means in asked:
            copied_runs.decide(course, entry, student, counts, reason)
            context.console.print(f"noted: the runs of {student} {means}", soft_wrap=True)
        context.console.print(f"`autograder grade {entry.number}` applies it")
        return

    from autograder.grading import audit as auditing

    done: list[auditing.Audited] = []
    try:
        for one in auditing.audit(course, entry, fraction, seed, data_dir):
            done.append(one)
    except KeyboardInterrupt:
        raise context.Interrupted("interrupted; the same command begins anew, with the same runs") from None
    finally:  # each has taken its time: whatever stopped the next one, it is shown
        if done:
            print_audited(done)
    differ = sum(one.verdict != auditing.AGREES for one in done)
    context.console.print(f"{len(done)} runs were trained again, {differ} do not agree")
    if differ:
        context.console.print(
            f"no mark has changed. When you have asked: `autograder audit {entry.number} --confirm STUDENT` (the runs "
            "do not count), or --acquit STUDENT (they count)",
            soft_wrap=True,
        )
        raise typer.Exit(1)


def print_audited(done: list) -> None:
    """A line for each run that was trained again."""
    from autograder.grading.audit import AGREES

    table = Table(box=None, header_style="bold")
    headings = ("student", "experiment", "seed", "handed in", "found", "equal, %", "likeness", "asked for", "", "why")
    for heading in headings:
        right = heading in ("seed", "handed in", "found", "equal, %", "likeness")
        table.add_column(heading, justify="right" if right else "left", overflow="fold")
    for one in done:
        shares = (one.claimed, one.found, f"{100 * one.agreement:.1f}")
        verdict = one.verdict if one.verdict == AGREES else f"{one.verdict.upper()}: ask the student"
        why = Text("; ".join(one.reasons) or "by chance")
        likeness = f"{one.likeness:.4f}"
        table.add_row(one.student, one.experiment, str(one.seed), *shares, likeness, one.asked, verdict, why)
    context.console.print(table)
