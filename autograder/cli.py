"""The command line: one command for each thing an instructor does."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from autograder import course as courses
from autograder.course import Course, CourseError

HELP = (
    "Build, release, collect and grade the notebooks of the course in course.toml.\n\n"
    "The usual way: [b]build[/b], [b]release[/b] --to DIR, then for each deadline [b]collect[/b] SOURCE, "
    "[b]grade[/b], [b]feedback[/b], [b]report[/b], [b]export[/b]. Try it without students: [b]demo[/b]."
)
app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
)
Names = Annotated[list[str] | None, typer.Argument(metavar="[NOTEBOOK]...", help="By name or number; default: all.")]
console = Console(highlight=False, width=None if sys.stdout.isatty() else 150)  # a log has room
chosen: dict[str, Path] = {}


@app.callback(help=HELP)
def options(
    tree: Annotated[
        Path | None, typer.Option(help="The course tree to work in; default: .course/", show_default=False)
    ] = None,
) -> None:
    """Note what holds for every command."""
    if tree:
        chosen["tree"] = tree


def load() -> Course:
    """The course, in the tree that was chosen."""
    return courses.load(**chosen)


@app.command()
def build(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail if a committed notebook is stale.")
    ] = False,
) -> None:
    """Build the student notebooks from solutions/, and nbgrader's course tree under .course/.

    Run it after every change in solutions/, utils/checks/ or course.toml.
    """
    from autograder import tree

    course = load()
    stale = tree.build_notebooks(course, check)
    if check:
        if stale:
            raise CourseError(f"stale: {', '.join(stale)}; run `autograder build` and commit the notebooks")
        console.print(f"{len(course.notebooks)} notebooks are fresh")
        return
    tree.build_tree(course)
    console.print(f"wrote {', '.join(stale) or 'no notebook: all were fresh'}; the course tree is {course.tree}")


@app.command()
def release(
    to: Annotated[Path, typer.Option("--to", help="An empty folder, or an earlier release to renew.")],
) -> None:
    """Write the student repository: notebooks/, utils/, data/, environment.yml, README. No solutions."""
    from autograder import release as releasing

    files = releasing.release(load(), to)
    console.print(f"{len(files)} files in {to}")


@app.command()
def collect(
    source: Annotated[Path, typer.Argument(help="A zip, a folder with a folder per student, or an LMS download.")],
    notebook: Annotated[str, typer.Option(help="The notebook that files of other names are taken for.")] = "",
) -> None:
    """Take hand-ins into the course tree. The latest of each student counts; all are kept.

    Canvas, Moodle and Blackboard download names are understood. Nothing is unpacked to disk, links
    are not followed, and a broken hand-in stops no other.
    """
    from autograder import collect as collecting

    course = load()
    collected = collecting.collect(course, source, course.notebook(notebook) if notebook else None)
    for line in collected.taken:
        console.print(line, markup=False)
    for line in collected.refused:
        console.print("[yellow]refused[/yellow] ", end="")
        console.print(line, markup=False)
    if collected.refused and not collected.taken:
        raise typer.Exit(1)


@app.command()
def grade(
    notebooks: Names = None,
    student: Annotated[list[str] | None, typer.Option(help="Only this student; may be given again.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="How many hand-ins are graded at a time on this machine.")] = 2,
    cluster: Annotated[str, typer.Option(help="A dask scheduler to grade on, tcp://host:port.")] = "",
    again: Annotated[bool, typer.Option("--again", help="Also those whose verdict is up to date.")] = False,
    trust_submissions: Annotated[
        bool,
        typer.Option("--trust-submissions", help="Run hand-ins WITHOUT a sandbox, as you. The report will say so."),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the records as JSON lines, for machines.")] = False,
) -> None:
    """Run the hand-ins in sandboxed kernels, judge them, and record the scores in nbgrader's gradebook.

    Grades only what is new or changed; interrupt it at any time and give the same command again.
    Ends with status 1 if a hand-in could not be graded: the report says which and why.
    """
    import dataclasses
    import json as encoder

    from autograder import warm

    course = load()
    if not cluster and not trust_submissions:
        warm.begin(course.grading.preload)  # imports in the background while we import

    from autograder import grade as grading
    from autograder import report as reporting

    entries = course.select(notebooks)
    records = grading.grade(course, entries, student, workers, cluster or None, trust_submissions, again)
    if json:
        for record in records:
            print(encoder.dumps(dataclasses.asdict(record)))
    else:
        print_records(records)
        console.print(f"report: {reporting.write_report(course, list(course.notebooks))}", soft_wrap=True)
    if not records:
        console.print("nothing was handed in for these notebooks; `autograder collect SOURCE` takes hand-ins")
    if any(record.status != grading.GRADED for record in records):
        raise typer.Exit(1)


@app.command()
def feedback(notebooks: Names = None) -> None:
    """Write nbgrader's feedback page for every graded hand-in, sanitized, into .course/feedback/."""
    from autograder import report as reporting

    course = load()
    pages = reporting.write_feedback(course, course.select(notebooks))
    console.print(f"{len(pages)} pages in {course.tree / 'feedback'}", soft_wrap=True)


@app.command()
def report(notebooks: Names = None) -> None:
    """Write the class report, one page: who passed what, what the others were told, what was restored."""
    from autograder import report as reporting

    course = load()
    console.print(str(reporting.write_report(course, course.select(notebooks))), soft_wrap=True)


@app.command()
def export(
    to: Annotated[Path, typer.Option("--to", help="The CSV file.")] = Path("grades.csv"),
    notebooks: Names = None,
) -> None:
    """Write all scores as CSV, a row per student and exercise, manual scores and lateness included."""
    from autograder import report as reporting

    course = load()
    console.print(f"{reporting.export(course, course.select(notebooks), to)} rows in {to}")


@app.command()
def demo(
    workers: Annotated[int, typer.Option(min=1, help="How many hand-ins are graded at a time.")] = 2,
) -> None:
    """Grade a made-up class whose right scores are known, and compare. Uses .demo/, not .course/.

    Ends with status 1 if any score differs from the one that it must be.
    """
    from autograder import demo as demonstration

    if not demonstration.run(workers, console):
        raise typer.Exit(1)


def print_records(records: list) -> None:
    """A line per hand-in in the terminal."""
    table = Table(box=None, header_style="bold")
    for heading in ("student", "notebook", "points", "remarks"):
        table.add_column(heading, justify="right" if heading == "points" else "left", overflow="fold")
    for record in records:
        points = f"{record.score:g} of {record.points:g}" if record.status == "graded" else record.status
        table.add_row(record.student, record.notebook, points, record.reason or "; ".join(record.remarks))
    console.print(table, markup=False)


def main() -> None:
    """Run a command; what the user can mend is told in one line and ends with status 2."""
    from autograder.room import RoomError

    try:
        app()
    except CourseError as bad:
        sys.exit(_told(str(bad)))
    except RoomError as bad:
        sys.exit(
            _told(
                f"{bad}\nHand-ins run in rooms, and this machine cannot make one. Grade on Linux with unprivileged "
                "user namespaces (or as root).\nIf you trust every submission with your files and your network, "
                "--trust-submissions grades without rooms."
            )
        )


def _told(message: str) -> int:
    Console(stderr=True, highlight=False).print(f"autograder: {message}", markup=False, soft_wrap=True)
    return 2


if __name__ == "__main__":
    main()
