"""`autograder audit`: handed-in runs, trained again."""

import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from autograder.cli import context, old_spelling, printing
from autograder.cli.parameters import Reason
from autograder.course import CourseError

Notebook = Annotated[str, typer.Argument(help="A notebook with experiments, 05 for example.")]
Student = Annotated[str, typer.Argument(help="Whose runs; the student's id, as `autograder status` shows it.")]
Fraction = Annotated[float, typer.Option(help="The fraction of the class's runs to train again.")]
Seed = Annotated[int, typer.Option(help="Draws the sample; the same seed draws the same one.")]
DataDir = Annotated[Path | None, typer.Option(help="Holds the data; else COURSE_DATA, else the hub.")]
# What a decision says of the runs, and how it is recorded: whether they count.
DECISIONS = {
    "confirm": ("do not count", False),
    "acquit": ("count, and nothing of them is flagged", True),
    "undo": ("are undecided again", None),
}

app = typer.Typer(
    cls=old_spelling.WithOldSpelling,
    no_args_is_help=True,
    help="Train a sample of the handed-in runs again, and note what you decide about runs.\n\n"
    "No mark changes by itself: look at what differs, ask the student, then give `confirm`, `acquit` or `undo`. "
    "The next `autograder grade` applies the decision.",
)


@app.command()
def run(notebook: Notebook, fraction: Fraction = 0.05, seed: Seed = 0, data_dir: DataDir = None) -> None:
    """Train a sample of the handed-in runs again, and compare. Ends with status 1 if one does not agree.

    Half of the sample are the most suspicious runs, half are drawn at random.
    """
    from autograder.grading import audit as auditing

    course = context.load()
    entry = course.notebook(notebook)
    done: list[auditing.Audited] = []
    try:
        for audited in auditing.audit(course, entry, fraction, seed, data_dir):
            done.append(audited)
    except KeyboardInterrupt:
        raise context.Interrupted("interrupted; the same command begins again, with the same runs") from None
    finally:  # each has taken its time: whatever stopped the next one, it is shown
        if done:
            print_audited(done)
    differ = sum(audited.verdict != auditing.AGREES for audited in done)
    context.console.print(f"{len(done)} runs were trained again, {differ} do not agree")
    if differ:
        context.console.print(
            f"no mark has changed. When you have asked: `autograder audit confirm {entry.number} STUDENT` (the runs "
            f"do not count), or `autograder audit acquit {entry.number} STUDENT` (they count)",
            soft_wrap=True,
        )
        raise typer.Exit(1)


@app.command()
def confirm(notebook: Notebook, student: Student, reason: Reason = "") -> None:
    """Decide that a student's runs do not count."""
    decide(notebook, {student: "confirm"}, reason)


@app.command()
def acquit(notebook: Notebook, student: Student, reason: Reason = "") -> None:
    """Decide that a student's runs count, and that nothing of them is flagged."""
    decide(notebook, {student: "acquit"}, reason)


@app.command()
def undo(notebook: Notebook, student: Student, reason: Reason = "") -> None:
    """Take a decision back."""
    decide(notebook, {student: "undo"}, reason)


@app.command(old_spelling.OLD, hidden=True)
def old(
    notebook: Notebook,
    fraction: Fraction = 0.05,
    seed: Seed = 0,
    data_dir: DataDir = None,
    confirmed: Annotated[str, typer.Option("--confirm", metavar="STUDENT")] = "",
    acquitted: Annotated[str, typer.Option("--acquit", metavar="STUDENT")] = "",
    undone: Annotated[str, typer.Option("--undo", metavar="STUDENT")] = "",
    reason: Reason = "",
) -> None:
    """As `audit` was written when it had no sub-commands."""
    students = {"confirm": confirmed, "acquit": acquitted, "undo": undone}
    decided = [(student, decision) for decision, student in students.items() if student]
    decisions = dict(decided)
    if len(decisions) < len(decided):
        raise CourseError("two decisions about one student: give one of --confirm, --acquit and --undo")
    for student, decision in decided:
        asked, whose = shlex.quote(notebook), shlex.quote(student)
        today = {
            "confirm": f"`autograder audit confirm {asked} {whose}`",
            "acquit": f"`autograder audit acquit {asked} {whose}`",
            "undo": f"`autograder audit undo {asked} {whose}`",
        }
        old_spelling.note(today[decision])
    if decisions:
        decide(notebook, decisions, reason)
    else:
        old_spelling.note(f"`autograder audit run {shlex.quote(notebook)}`")
        run(notebook, fraction, seed, data_dir)


def decide(notebook: str, decisions: dict[str, str], reason: str) -> None:
    """Note a decision about the runs of each of these students."""
    from autograder.grading import copied_runs

    course = context.load()
    entry = course.notebook(notebook)
    for student, decision in decisions.items():
        meaning, counts = DECISIONS[decision]
        copied_runs.decide(course, entry, student, counts, reason)
        context.console.print(f"noted: the runs of {student} {meaning}", soft_wrap=True)
    context.console.print(f"`autograder grade {entry.number}` applies it")


def print_audited(done: list) -> None:
    """A line for each run that was trained again."""
    from autograder.grading.audit import AGREES

    numbers = ("seed", "handed in", "found", "equal, %", "likeness")
    rows = [
        (
            run.student,
            run.experiment,
            str(run.seed),
            run.claimed,
            run.found,
            f"{100 * run.agreement:.1f}",
            f"{run.likeness:.4f}",
            run.asked,
            run.verdict if run.verdict == AGREES else f"{run.verdict.upper()}: ask the student",
            Text("; ".join(run.reasons) or "by chance"),
        )
        for run in done
    ]
    headings = ("student", "experiment", *numbers, "asked for", "", "why")
    context.console.print(printing.table(headings, rows, right=numbers))
