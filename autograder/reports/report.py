"""What the instructor reads: a table of the class, as a page, in the terminal and as CSV."""

import csv
import datetime
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder.cells import exercise_of
from autograder.course import Course, NotebookEntry
from autograder.gradebook import course_tree, extensions, teams
from autograder.gradebook.pseudonyms import Names
from autograder.grading.cache import cached
from autograder.grading.dependencies import Dependencies
from autograder.grading.grading_record import students_of
from autograder.grading.lateness import settle
from autograder.reports import charts, items, layout
from autograder.reports.sections import plain, section

if TYPE_CHECKING:
    from pandas import DataFrame

    from utils.experiments.experiment import Metric, Run
    from utils.experiments.seed_table import SeedTable

EX = "EX"  # in place of a score: excused, as Canvas writes it
NOT_BY_HAND = {"needs_manual_grade": False}
# How a verdict's state is shown, and the class of its cell in the page.
SIGNS = {
    "passed": ("\u2713", "passed"),
    "passed in part": ("\u25d0", "part"),
    "wrong": ("\u2717", "wrong"),
    "error": ("!", "error"),
    "not attempted yet": ("\u00b7", "blank"),
}


def load() -> None:
    """Import what a report is made with, while there is nothing else to do."""
    charts.load()


def write_report(
    course: Course,
    entries: list[NotebookEntry],
    on_table: Callable[[str, list[str]], None] = lambda name, lines: None,
    names: bool = False,
) -> Path:
    """Write the class report, one page; nothing that a student wrote reaches it unescaped.

    Notebooks that nobody handed in are left out. Students are called by codes, see `pseudonyms`, or with `names` by
    their ids. `on_table` is told, as text, the tables of each notebook whose runs the class handed in.
    """
    around = Dependencies(course)
    settle(course, entries, around)
    called = Names(course, names)
    sections = []
    for entry in course.handed_in(entries):
        shown = section(course, entry, called, lambda entry=entry: _shown_tables(course, entry, around))  # type: ignore[misc]
        for table in shown["tables"]:
            on_table(entry.name, table["text"])
        sections.append(shown)
    page = layout.render(
        "report.html.jinja",
        title=course.title,
        sections=sections,
        names=names,
        called=called.of,
        within=called.within,
        unnamed=called.unnamed,
        written=f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC",
        fewest=items.FEWEST,
        signs=SIGNS,
    )
    path = course.tree / "report.html"
    course_tree.write(path, page)
    return path


def _shown_tables(course: Course, entry: NotebookEntry, around: Dependencies) -> list[dict[str, Any]]:
    """`class_tables` as texts. To check all runs takes seconds: the tree keeps what came of it."""
    if not _runs_of(course, entry):
        return []

    def work() -> list[dict[str, Any]]:
        return [plain(table) for table in class_tables(course, entry, around)]

    if course.grading.run_keys:  # they also depend on the course's secret
        return work()
    found: list[dict[str, Any]] = cached(
        course, f"{entry.name}-tables", f"{students_of(course, entry)} {around.runs}", work
    )
    return found


def _runs_of(course: Course, entry: NotebookEntry) -> bool:
    """Whether somebody handed in runs of a notebook that are graded."""
    return any(course.tree.glob(f"submitted/*/{entry.name}/results.json")) and entry.has_experiments


def class_tables(course: Course, entry: NotebookEntry, around: Dependencies | None = None) -> "list[SeedTable]":
    """The class's accepted runs of a notebook's experiments, in one table for those of one kind; [] if there are none.

    Runs that predict the same, as machines of one kind give them, count once. The table's seeds number the pairs of
    student and seed, so that experiments are compared within one student's runs. Where runs of several sizes were
    handed in, each size has rows of its own.
    """
    if not _runs_of(course, entry):
        return []
    from autograder.grading import audit

    profiles = {
        audit.configuration(experiment.plain()): profile
        for profile, size in zip(course.grading.results_profiles, audit.sizes_of(course, entry), strict=True)
        for experiment in size
    }
    different: dict[tuple[str, str], dict[str, tuple[str, Run]]] = {}
    for student, runs in audit.accepted(course, entry, around).items():
        for name, of_experiment in runs.items():
            for run in of_experiment:
                row = name, profiles.get(audit.configuration(run.experiment), "")
                different.setdefault(row, {}).setdefault(run.digest(), (student, run))
    if not different:
        return []
    from utils.experiments.seed_table import tables  # brings pandas and scipy

    one_size = len({profile for _, profile in different}) == 1
    numbers: dict[tuple[str, int], int] = {}
    known = entry.experiments_of("smoke")
    first = next(iter(known.values()))
    metrics: dict[str, tuple[Metric, ...]] = {}
    numbered: dict[str, list[Run]] = {}
    for (name, profile), each in different.items():
        shown = name if one_size else f"{name}, {profile}"
        metrics[shown] = known.get(name, first).metrics[:1]
        numbered[shown] = [
            replace(run, seed=numbers.setdefault((student, run.seed), len(numbers))) for student, run in each.values()
        ]
    return tables(numbered, metrics)


def recorded_tables(entry: NotebookEntry) -> "list[SeedTable]":
    """The runs of a notebook's experiments that come with the course, in a table for each metric."""
    from utils.experiments.runs import load_table
    from utils.experiments.seed_table import tables

    if not entry.experiments:
        return []
    experiments = entry.experiments_of("cpu")
    runs = load_table(experiments, entry.experiment_module().RECORDED)
    known = {name: of_experiment for name, of_experiment in runs.items() if of_experiment}
    return tables(known, {name: experiments[name].metrics for name in known})


def write_csv(course: Course, entries: list[NotebookEntry], path: Path) -> int:
    """Write what `scores` gives as CSV; the number of rows."""
    settle(course, entries)
    table = scores(course, entries)
    table.to_csv(path, index=False, quoting=csv.QUOTE_ALL)
    return len(table)


def scores(
    course: Course,
    entries: list[NotebookEntry],
    students: Collection[str] | None = None,
    absent: Mapping[str, Mapping[str, float | None]] | None = None,
) -> "DataFrame":
    """One row per student and exercise, manual scores included, from nbgrader's gradebook.

    The score of a mark that waits for a person is left blank. Who loses points for being late has one more row, with
    what is lost as its score: scores add up. Lateness is as it was settled last. A member of a team has the team's
    scores. A score of a notebook that does not count is `EX`.

    Args:
        students: only these; None: all.
        absent: by notebook, who handed nothing in, with the score of each exercise.
    """
    import pandas  # heavy, and no report needs it
    from nbgrader.api import Gradebook

    rows: list[dict[str, Any]] = []
    granted = extensions.extensions(course)
    with Gradebook(course_tree.database(course), course.course_id) as gradebook:
        for entry in entries:
            graded = [
                (submission, student)
                for submission in gradebook.assignment_submissions(entry.name)
                for student in teams.recipients(course, entry, submission.student_id)
                if students is None or student in students
            ]
            for submission, student in graded:
                for notebook in submission.notebooks:
                    for mark in notebook.grades:
                        rows.append(
                            {
                                "student": student,
                                "notebook": entry.name,
                                "exercise": exercise_of(mark.name),
                                "score": None if mark.needs_manual_grade else mark.score,
                                "auto_score": mark.auto_score,
                                "manual_score": mark.manual_score,
                                "max_score": mark.max_score,
                                "needs_manual_grade": mark.needs_manual_grade,
                                "late_seconds": submission.total_seconds_late,
                            }
                        )
                    if notebook.late_submission_penalty:
                        lost = {"exercise": "late", "score": -notebook.late_submission_penalty, "max_score": 0.0}
                        rows.append(rows[-1] | lost | {"auto_score": None, "manual_score": None} | NOT_BY_HAND)
            missing = (absent or {}).get(entry.name, {})
            for student in sorted({*missing} - {student for _, student in graded}):
                for number, points in course_tree.points_of(course, entry).items():
                    about = {"student": student, "notebook": entry.name, "exercise": number, "max_score": points}
                    rows.append(about | {"score": missing[student], "late_seconds": 0.0} | NOT_BY_HAND)
            for row in rows:
                if row["notebook"] == entry.name and extensions.is_excused(course, entry, row["student"], granted):
                    row["score"] = EX
    columns = ["student", "notebook", "exercise", "score", "auto_score", "manual_score", "max_score"]
    table = pandas.DataFrame(rows, columns=[*columns, "needs_manual_grade", "late_seconds"])
    return table.sort_values(["notebook", "student", "exercise"])
