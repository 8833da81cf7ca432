"""`autograder similar`."""

from pathlib import Path
from typing import Annotated

import typer

from autograder.cli import context, printing


def similar(
    notebook: Annotated[str, typer.Argument(help="By name or number.")],
    most: Annotated[int, typer.Option(min=1, help="How many pairs to list, the most similar first.")] = 10,
    page: Annotated[Path | None, typer.Option(help="Write the pairs, side by side, into this HTML file.")] = None,
    names: Annotated[bool, typer.Option("--names", help="Name the students.")] = False,
) -> None:
    """Show the pairs of submissions whose code is most alike. Likeness is not proof: read both, and ask both.

    Names, strings, comments and the order of lines do not count, nor does what was released.
    """
    from autograder.gradebook.pseudonyms import Names as Called
    from autograder.similarity import similar as similarity

    course = context.load()
    entry, called = course.notebook(notebook), Called(course, names)
    compared = similarity.compare(course, entry)
    pairs = compared.pairs(most)
    rows = []
    for pair in pairs:
        alike = ", ".join(number for number, share in pair.exercises.items() if share >= similarity.ALIKE)
        rows.append((called.of(pair.first), called.of(pair.second), f"{100 * pair.likeness:.0f}", alike))
    headings = ("first", "second", "likeness, %", "exercises most alike")
    context.console.print(printing.table(headings, rows, right=("likeness, %",)))
    context.console.print("likeness is not proof: read both, and ask both, before you conclude anything")
    if page:
        from utils.files import write

        write(context.writable(page), similarity.page(course, entry, compared, pairs, called))
        context.console.print(f"side by side: {page}", soft_wrap=True)
