"""`autograder keys`."""

import sys
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from autograder.cli import context
from autograder.course import CourseError


def keys(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[STUDENT]...", help="Names as students give them.")
    ] = None,
    roster: Annotated[Path | None, typer.Option(help="A CSV with a column student or name, or students.csv.")] = None,
    to: Annotated[Path | None, typer.Option(help="The CSV to write; default: print it.")] = None,
) -> None:
    """Write a key for each student, for courses with `run_keys = true`: the seeds of their runs need it."""
    import csv

    from autograder.gradebook import course_tree
    from autograder.gradebook.roster import listed
    from autograder.reports.exports import harmless, write_rows
    from utils.experiments import student as students

    course = context.load()
    wanted = list(names or ())
    if roster:
        wanted += listed(roster)
    wanted = [name.strip() for name in wanted]
    if not all(wanted):
        raise CourseError("a student without a name has no key: name each of them")
    twice = sorted(name for name, times in Counter(wanted).items() if times > 1)
    if twice:
        raise CourseError(
            f"{', '.join(twice)}: several students have this name, and a key follows from the name. Let these students "
            "write their ids, or other names that differ, into STUDENT; write the same into the table, in a column "
            "`student`, and give the command this table"
        )
    if not wanted:
        raise CourseError("for which students? Give names, or --roster with a CSV that has a column `student`")
    lines = [("student", "key"), *((name, students.key_of(course_tree.secret(course), name)) for name in wanted)]
    lines = [(harmless(name), key) for name, key in lines]  # signs do not count in the name of a key
    if not to:
        csv.writer(sys.stdout, lineterminator="\n").writerows(lines)
        return
    with context.writable(to).open("w", encoding="utf-8", newline="") as file:
        write_rows(file, lines)
    context.console.print(
        f"{len(wanted)} keys in {to}; give each student only their own, and have them write the name that is "
        "beside it into STUDENT",
        soft_wrap=True,
    )
