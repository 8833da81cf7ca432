"""`autograder group`: written answers in groups, which are marked at once."""

import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from autograder.cli import context, old_spelling, printing
from autograder.cli.parameters import Reason, Section
from autograder.course import CourseError

Question = Annotated[str, typer.Argument(help="A written question, 1.W1 for example.")]
Into = Annotated[int | None, typer.Option(min=1, help="Make so many groups; default: as many as there seem.")]
Page = Annotated[Path | None, typer.Option(help="Write the groups with all answers into this HTML file.")]
Named = Annotated[bool, typer.Option("--names", help="Name the students on the page.")]
Comment = Annotated[str, typer.Option(help="What each student reads.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Also mark what a person has marked.")]

app = typer.Typer(
    cls=old_spelling.WithOldSpelling,
    no_args_is_help=True,
    help="Show written answers in groups of similar ones; mark a group at once, with undo.\n\n"
    "Marks go into the gradebook as formgrader's do. What a person has marked keeps its mark.",
)


@app.command()
def show(question: Question, into: Into = None, page: Page = None, names: Named = False, section: Section = "") -> None:
    """Show the answers to a question in groups of similar ones."""
    from autograder.gradebook import roster
    from autograder.gradebook.pseudonyms import Names
    from autograder.similarity import groups

    course = context.load()
    groups.question_of(course, question)  # what is not there is said at once: the encoder takes seconds to load

    from autograder.similarity.texts import vectors_of

    how, advice = vectors_of()
    if advice:
        context.console.print(advice, markup=False, soft_wrap=True)
    only = roster.in_section(course, section) if section else None
    grouped = groups.grouped(course, question, how, into, only)
    numbers = ("group", "answers", "marked")
    rows = [
        (str(group.number), str(len(group.answers)), str(group.marked), Text(groups.shortened(group.answers[0])))
        for group in grouped.groups
    ]
    context.console.print(printing.table((*numbers, "the answer most like the others"), rows, right=numbers))
    context.console.print(
        f"compared by {grouped.how}; without an answer: {grouped.empty}; alike is not equal: read before you mark"
    )
    if page:
        from utils.files import write

        write(context.writable(page), groups.page(course, grouped, Names(course, names)))
        context.console.print(f"all answers: {page}", soft_wrap=True)


@app.command()
def apply(
    question: Question,
    number: Annotated[int, typer.Argument(metavar="GROUP", min=1, help="As it was last shown.")],
    score: Annotated[float, typer.Option(help="The points of each answer.")],
    comment: Comment = "",
    overwrite: Overwrite = False,
    reason: Reason = "",
) -> None:
    """Give all answers of a group the same points and the same comment."""
    from autograder.similarity import groups

    marked, notes = groups.apply(context.load(), question, number, score, comment, overwrite, reason)
    context.console.print(f"{marked} answers have {score:g} points; `autograder group undo {question}` takes that back")
    for line in notes:
        context.console.print(line, markup=False, soft_wrap=True)


@app.command()
def undo(question: Question, reason: Reason = "") -> None:
    """Take back the last `apply`, or the last marks of the page; may be given again."""
    from autograder.similarity import groups

    taken, changed = groups.undo(context.load(), question, reason)
    what = f"group {taken.group}" if taken.group else "marked in the page"
    context.console.print(f"{what}: restored the previous marks of {len(taken.after) - len(changed)} answers")
    if changed:
        context.console.print(f"{len(changed)} left as they are: somebody marked them since")


@app.command(old_spelling.OLD, hidden=True)
def old(
    question: Question,
    into: Into = None,
    page: Page = None,
    apply_group: Annotated[int | None, typer.Option("--apply", min=1)] = None,
    score: float | None = None,
    comment: Comment = "",
    overwrite: Overwrite = False,
    take_back: Annotated[bool, typer.Option("--undo")] = False,
    names: Named = False,
    section: Section = "",
    reason: Reason = "",
) -> None:
    """As `group` was written when it had no sub-commands."""
    asked = shlex.quote(question)
    if take_back:
        old_spelling.note(f"`autograder group undo {asked}`")
        undo(question, reason)
    elif apply_group is not None:
        if score is None:
            raise CourseError("with --apply, give --score")
        old_spelling.note(f"`autograder group apply {asked} {apply_group} --score {score:g}`")
        apply(question, apply_group, score, comment, overwrite, reason)
    else:
        old_spelling.note(f"`autograder group show {asked}`")
        show(question, into, page, names, section)
