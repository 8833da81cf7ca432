"""`autograder group`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from autograder.cli import context
from autograder.cli.parameters import Reason
from autograder.course import CourseError


def group(
    question: Annotated[str, typer.Argument(help="A written question, 1.W1 for example.")],
    into: Annotated[
        int | None, typer.Option(min=1, help="Make so many groups; default: as many as there seem.")
    ] = None,
    page: Annotated[Path | None, typer.Option(help="Write the groups with all answers into this HTML file.")] = None,
    apply: Annotated[int | None, typer.Option(min=1, help="Mark this group, as it was last shown.")] = None,
    score: Annotated[float | None, typer.Option(help="With --apply: the points of each answer.")] = None,
    comment: Annotated[str, typer.Option(help="With --apply: what each student reads.")] = "",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="With --apply: mark anew what a person has marked.")
    ] = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Take the last --apply or mark back; may be given again.")
    ] = False,
    names: Annotated[bool, typer.Option("--names", help="Name the students on the page.")] = False,
    reason: Reason = "",
) -> None:
    """Show written answers in groups of like ones; mark a group at once, with undo.

    Marks go into the gradebook as formgrader's do. What a person has marked keeps its mark.
    """
    from autograder.gradebook.pseudonyms import Names as Called
    from autograder.likeness import groups

    course = context.load()
    if undo:
        taken, changed = groups.undo(course, question, reason)
        what = f"group {taken.group}" if taken.group else "marked in the page"
        context.console.print(f"{what}: restored the previous marks of {len(taken.after) - len(changed)} answers")
        if changed:
            context.console.print(f"{len(changed)} left as they are: somebody marked them since")
        return
    if apply is not None:
        if score is None:
            raise CourseError("with --apply, give --score")
        marked, notes = groups.apply(course, question, apply, score, comment, overwrite, reason)
        context.console.print(
            f"{marked} answers have {score:g} points; `autograder group {question} --undo` takes that back"
        )
        for line in notes:
            context.console.print(line, markup=False, soft_wrap=True)
        return
    groups.question_of(course, question)  # what is not there is said at once: the encoder takes seconds to load

    from autograder.likeness.texts import vectors_of

    how, advice = vectors_of()
    if advice:
        context.console.print(advice, markup=False, soft_wrap=True)
    found = groups.grouped(course, question, how, into)
    table = Table(box=None, header_style="bold")
    for heading in ("group", "answers", "marked", "the answer most like the others"):
        table.add_column(heading, justify="left" if heading.startswith("the") else "right", overflow="fold")
    for one in found.groups:
        table.add_row(str(one.number), str(len(one.answers)), str(one.marked), Text(groups.shortened(one.answers[0])))
    context.console.print(table)
    context.console.print(
        f"compared by {found.how}; without an answer: {found.empty}; alike is not equal: read before you mark"
    )
    if page:
        from utils.files import write

        write(context.writable(page), groups.page(course, found, Called(course, names)))
        context.console.print(f"all answers: {page}", soft_wrap=True)
