"""What several commands print."""

from collections.abc import Container, Iterable, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from autograder.cli import context

FORMGRADER = "run `jupyter lab --config jupyter_server_config.py` in {}, menu Nbgrader, Formgrader"
BY_HAND = f"`autograder mark` shows them in a page; or {FORMGRADER}"


def table(headings: Iterable[str], rows: Iterable[Sequence[str | Text]], right: Container[str] = ()) -> Table:
    """A table of `rows`; the columns in `right` are aligned to the right, and long cells are wrapped.

    A cell is shown as `context.in_tree` makes it, without markup; a `Text` is shown as it is.
    """
    shown = Table(box=None, header_style="bold")
    for heading in headings:
        shown.add_column(heading, justify="right" if heading in right else "left", overflow="fold")
    for row in rows:
        shown.add_row(*(cell if isinstance(cell, Text) else Text(context.in_tree(cell)) for cell in row))
    return shown


def print_to_mark(waiting: dict[str, dict[str, int]]) -> None:
    """Say how many answers wait for a person, and where."""
    answers = sum(sum(students.values()) for students in waiting.values())
    if answers:
        hand_ins = sum(map(len, waiting.values()))
        how = BY_HAND.format(context.chosen.get("tree", ".course/"))
        sentence = f"{answers} written answers of {hand_ins} submissions wait for a person: {how}"
        context.console.print(sentence, markup=False, soft_wrap=True)


def print_json(*records: Any) -> None:
    """A line for machines: the record; or, of two, the one before and the one after."""
    import json as encoder

    stated = [record.stated() for record in records]
    value = stated[0] if len(stated) == 1 else {"before": stated[0], "after": stated[1]}
    print(encoder.dumps(value, ensure_ascii=False), flush=True)


def print_verdicts(pairs: list) -> int:
    """A line per verdict that is another one, and per score; how many scores are others."""
    from autograder.grading.grade import changed_verdicts

    rows: list[tuple[str | Text, ...]] = []
    scores = 0
    for before, after in pairs:
        scores += before.score != after.score
        for number, old, new, sentence in changed_verdicts(before, after):
            rows.append((after.student, number, f"{old:g}", f"{new:g}", Text(sentence)))
        if before.status != after.status:
            rows.append((after.student, after.notebook, before.status, after.status, Text(after.reason)))
        if before.score != after.score:
            rows.append((after.student, f"{after.notebook} in all", f"{before.score:g}", f"{after.score:g}", ""))
    if rows:
        headings = ("student", "exercise", "before", "after", "message now")
        context.console.print(table(headings, rows, right=("before", "after")))
    return scores
