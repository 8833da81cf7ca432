"""The demonstration: a made-up class, collected, graded, and compared with the scores that it must get."""

import shutil
from pathlib import Path

from rich.console import Console
from rich.table import Table

from autograder import course as courses
from autograder.author import build
from autograder.course import FOLDER, Course
from autograder.gradebook import course_tree
from autograder.grading import grade
from autograder.grading.grading_record import GRADED, Options
from autograder.intake import collect as collecting
from autograder.reports import feedback, report
from autograder.synthetic import Made, made_up_class, zipped

TREE = FOLDER / ".demo"
CELL_SECONDS = 3.0  # so that the endless loop does not keep you waiting


def course_in(root: Path) -> Course:
    """The course as the demonstration grades it: impatient, and with experiments that are made in seconds."""
    course = courses.load(tree=root)
    limits = course.limits.model_copy(update={"cell_seconds": CELL_SECONDS})
    grading = course.grading.model_copy(update={"results_profiles": ("smoke",)})
    return course.model_copy(update={"limits": limits, "grading": grading})


def run(workers: int, console: Console, root: Path = TREE) -> bool:
    """Build, collect, grade, write feedback and report; print the table; whether every score is the right one."""
    shutil.rmtree(root, ignore_errors=True)
    course = course_in(root)
    console.print("building the notebooks and the course tree ...")
    build.build_notebooks(course)
    course_tree.build_tree(course)
    wanted: dict[tuple[str, str], Made] = {}
    for entry in course.notebooks:
        made = made_up_class(course, entry)
        path = root / f"downloaded-{entry.name}.zip"
        path.write_bytes(zipped(entry, made))
        collecting.collect(course, path)
        wanted |= {(entry.name, collecting.slug(one.student)): one for one in made}
    console.print(f"grading {len(wanted)} hand-ins with {workers} workers ...")
    records = grade.grade(course, list(course.notebooks), options=Options(workers))
    pages = feedback.write_feedback(course, list(course.notebooks), workers)
    page = report.write_report(course, list(course.notebooks))
    rows = report.write_csv(course, list(course.notebooks), root / "grades.csv")

    table = Table(box=None, header_style="bold")
    for heading in ("student", "notebook", "score", "expected", "remarks"):
        table.add_column(heading, justify="right" if heading in ("score", "expected") else "left", overflow="fold")
    wrong = 0
    for record in records:
        one = wanted.pop((record.notebook, record.student))
        graded = record.status == GRADED
        right = (record.score if graded else None) == one.score
        wrong += not right
        shown = f"{record.score:g}" if graded else record.status
        expected = "ungradable" if one.score is None else f"{one.score:g}"
        remarks = record.reason or _first(record.remarks)
        table.add_row(record.student, record.notebook, shown, expected, remarks, style="" if right else "bold red")
    console.print(table, markup=False)
    print_seed_tables(course, console)
    console.print(f"class report    {page}", soft_wrap=True)
    console.print(f"feedback        {len(pages)} pages, the first is {pages[0]}", soft_wrap=True)
    console.print(f"scores          {rows} rows in {root / 'grades.csv'}", soft_wrap=True)
    console.print(f"gradebook       {root / 'gradebook.db'} (nbgrader's: run its commands in {root})", soft_wrap=True)
    if wrong or wanted:
        console.print(
            f"{wrong} scores differ from the expected ones, {len(wanted)} hand-ins have no record", style="red"
        )
    else:
        console.print("every score is the expected one")
    return not wrong and not wanted


def print_seed_tables(course: Course, console: Console) -> None:
    """The recorded experiments that come with the course."""
    for entry in course.notebooks:
        for table in report.recorded_tables(entry):
            console.print(f"\n{entry.name}, {table.metric.name} of the runs that come with it (data/README.md)")
            console.print(repr(table), markup=False, soft_wrap=True)
    console.print()


def _first(remarks: list[str]) -> str:
    more = f" (and {len(remarks) - 1} more)" if len(remarks) > 1 else ""
    return f"{remarks[0]}{more}" if remarks else ""
