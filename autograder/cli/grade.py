"""`autograder grade`."""

from typing import TYPE_CHECKING, Annotated

import typer

from autograder.cli import context, printing, running
from autograder.cli.parameters import AsJson, Cluster, Dashboard, Gpus, Names, Reason, Section, Student, Trust, Workers
from autograder.course import Course, NotebookEntry

if TYPE_CHECKING:
    from autograder.grading import grading_record
    from autograder.grading.grading_record import Options


def grade(
    notebooks: Names = None,
    student: Student = None,
    section: Section = "",
    workers: Workers = 2,
    cluster: Cluster = "",
    again: Annotated[bool, typer.Option("--again", help="Grade again also what is up to date.")] = False,
    update: Annotated[
        bool, typer.Option("--update", help="Change published verdicts too, where today's checks judge otherwise.")
    ] = False,
    reason: Reason = "",
    trust_submissions: Trust = False,
    gpus: Gpus = "",
    dashboard: Dashboard = False,
    json: AsJson = False,
) -> None:
    """Run the submissions in sandboxed kernels, judge them, and record the scores in nbgrader's gradebook.

    Grades only what is new or changed; interrupt it at any time and give the same command again. Published verdicts
    stay when the course was upgraded: what would change is shown, and --update changes it.
    Ends with status 1 if a submission could not be graded: the report says which and why.
    """
    course = running.begin(notebooks, cluster, trust_submissions, dashboard)

    from autograder.gradebook import roster
    from autograder.grading import grade as grading
    from autograder.grading.grading_record import GRADED, Options, Record, known_students

    entries = course.select(notebooks)
    known_students(course, entries, student)
    if section:
        within = roster.in_section(course, section)
        student = sorted(name for name in student or within if _is_within(course, entries, name, within))
    options = Options(
        workers, cluster, trust_submissions, running.devices(gpus), dashboard, again=again, update=update, reason=reason
    )
    if json:
        records = grade_as_json(course, entries, student, options)
    else:
        previews: list[list[tuple[Record, Record]]] = []
        new: list[Record] = []
        records = grading.grade(course, entries, student, options, new.append, import_report, previews.append)
        print_graded(course, entries, records, previews)
        if records and not new:
            context.console.print("No verdict is new: all of these submissions were graded before.")
    if any(record.status != GRADED for record in records):
        raise typer.Exit(1)


def _is_within(course: Course, entries: list[NotebookEntry], student: str, within: set[str]) -> bool:
    """Whether a student is in a section, or a team has a member in it."""
    from autograder.gradebook import teams

    return any({student, *teams.recipients(course, entry, student)} & within for entry in entries)


def grade_as_json(
    course: Course, entries: list[NotebookEntry], students: list[str] | None, options: "Options"
) -> "list[grading_record.Record]":
    """Grade, and print each record as a line as soon as it is stored; at the end those that were up to date."""
    from autograder.grading import grade as grading

    new: list[tuple[str, str]] = []

    def on_record(record: "grading_record.Record") -> None:
        new.append((record.notebook, record.student))
        printing.print_json(record)

    records = grading.grade(course, entries, students, options, on_record)
    for record in records:
        if (record.notebook, record.student) not in new:
            printing.print_json(record)
    return records


def import_report() -> None:
    """Import what the report needs, while the first submissions are being graded."""
    from autograder.reports import report

    report.load()


def print_graded(course: Course, entries: list[NotebookEntry], records: list, previews: list[list]) -> None:
    """A line for each submission, what was not changed, what waits for a person, and where the report is."""
    from autograder.reports import progress
    from autograder.reports import report as reporting

    print_records(course, records)
    for pairs in previews:
        print_previews(pairs)
    printing.print_to_mark({entry.name: progress.to_mark(course, entry) for entry in entries})
    context.console.print(f"report: {reporting.write_report(course, list(course.notebooks))}", soft_wrap=True)
    if not records:
        context.console.print(
            "nothing was submitted for these notebooks; `autograder collect SOURCE` takes submissions"
        )


def print_previews(pairs: list) -> None:
    """What today's checks would change in published verdicts, which stay."""
    if not pairs:
        context.console.print(
            "The course changed since verdicts were published. Today's checks would change none of them."
        )
        return
    scores = printing.print_verdicts(pairs)
    context.console.print(
        f"The course changed since verdicts were published. Nothing is recorded: {len(pairs)} submissions would "
        f"have other verdicts, and {scores} another score. `autograder grade --update` changes them, `autograder "
        "regrade --exercise 1.2` those of one exercise.",
        soft_wrap=True,
    )


def print_records(course: Course, records: list) -> None:
    """A line per submission in the terminal. Points are those of checks: a person gives those of written answers."""
    from autograder.gradebook import teams

    rows = [
        (
            teams.shown(course, course.notebook(record.notebook), record.student),
            record.notebook,
            f"{record.score:g} of {record.points:g}" if record.status == "graded" else record.status,
            record.reason or "; ".join([*record.flags, *record.other_remarks]),
        )
        for record in records
    ]
    context.console.print(
        printing.table(("student", "notebook", "points of checks", "remarks"), rows, right=("points of checks",))
    )
