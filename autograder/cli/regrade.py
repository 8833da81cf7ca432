"""`autograder regrade`."""

from typing import Annotated

import typer

from autograder.cli import context, printing, running
from autograder.cli.parameters import Cluster, Dashboard, Gpus, Names, Reason, Student, Trust, Workers


def regrade(
    notebooks: Names = None,
    exercise: Annotated[
        list[str] | None, typer.Option(help="Only this one, 1.2; may be given again. Default: whose checks changed.")
    ] = None,
    student: Student = None,
    reason: Reason = "",
    workers: Workers = 2,
    cluster: Cluster = "",
    trust_submissions: Trust = False,
    gpus: Gpus = "",
    dashboard: Dashboard = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object a submission: before and after.")] = False,
) -> None:
    """Judge some exercises again after a changed check, and show before and after.

    Runs only graded submissions that answer these exercises, and of those only the cells that are needed. The
    other verdicts and all manual scores stay.
    """
    wanted = notebooks or [exercise_number.split(".")[0] for exercise_number in exercise or ()]
    course = running.begin(wanted, cluster, trust_submissions, dashboard)

    from autograder.grading import grade as grading
    from autograder.grading.grading_record import GRADED, Options, known_students
    from autograder.reports import report as reporting

    known_students(course, course.select(wanted), student)
    options = Options(workers, cluster, trust_submissions, running.devices(gpus), dashboard, reason=reason)
    pairs = grading.regrade(course, course.select(wanted), exercise or (), student, options)
    done = [(before, after) for before, after in pairs if after.status == GRADED]
    if json:
        for before, after in done:
            printing.print_json(before, after)
    elif not pairs:
        how = "with --trust-submissions" if trust_submissions else "in a sandbox"
        what = f"answers exercise {', '.join(exercise)}" if exercise else "was judged by another check than today's"
        sentence = f"nothing was run: no submission that is graded {how} {what}; `autograder grade` grades what waits"
        context.console.print(sentence, markup=False, soft_wrap=True)
    else:
        print_changes(done)
        context.console.print(f"report: {reporting.write_report(course, list(course.notebooks))}", soft_wrap=True)
    if len(done) < len(pairs):
        raise typer.Exit(1)


def print_changes(pairs: list) -> None:
    """A line per verdict that is another one, and how many submissions and scores changed."""
    scores = printing.print_verdicts(pairs)
    again = f"{len(pairs)} submission{'s' * (len(pairs) != 1)} graded again"
    summary = f"{again}, {scores} score{'s' * (scores != 1)} changed"
    context.console.print(f"{summary}; the others and all manual scores stay")
