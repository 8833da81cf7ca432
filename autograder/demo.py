"""The demonstration: a made-up class, collected, graded, and compared with the scores that it must get."""

import contextlib
import shutil
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from autograder import course as courses
from autograder.author import build
from autograder.course import FOLDER, Course, CourseError, NotebookEntry
from autograder.gradebook import course_tree, roster
from autograder.grading import grade
from autograder.grading.grading_record import GRADED, Options, Record
from autograder.intake import collect as collecting
from autograder.reports import feedback, report
from autograder.synthetic import Made, made_up_class, part_of_the_class, zipped

TREE = FOLDER / ".demo"
# Of the class: these eight are shown.
SHOWN = (
    "Ada Perfect",
    "Bo Blank",
    "Di Mistaken",
    "Ed Otherwise",
    "Gil Endless",
    "Hal Broken",
    "Jo Cheater",
    "Kit Killer",
)
# Of the class: these five are in the download that the tutorial grades.
IN_DOWNLOAD = ("Ada Perfect", "Bo Blank", "Di Mistaken", "Ed Otherwise", "Flo Crash")
BEGINS = (
    "Builds the notebooks, makes a class up, collects and grades it: a minute or two on two free cores. "
    f"Everything goes to {TREE}, in the place of an earlier demonstration."
)
CELL_SECONDS = 3.0  # so that the endless loop does not keep you waiting


def course_in(root: Path) -> Course:
    """The course as the demonstration grades it: impatient, and with experiments that are made in seconds."""
    course = courses.load(tree=root)
    limits = course.limits.model_copy(update={"cell_seconds": CELL_SECONDS})
    grading = course.grading.model_copy(update={"results_profiles": ("smoke",)})
    return course.model_copy(update={"limits": limits, "grading": grading})


def run(workers: int, console: Console, root: Path = TREE, whole: bool = False) -> bool:
    """Build, collect, grade, write feedback and report; print what came out; whether every result is the right one.

    `results.txt` in `root` gets a row for each submission, `log.txt` what the commands print beside it. With `whole`
    the class is whole in every notebook, otherwise see `part_of_the_class`.
    """
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    course = course_in(root)
    entries = list(course.notebooks)
    with (root / "log.txt").open("w") as log, contextlib.redirect_stderr(log):
        with _timed(console, "building", "built the notebooks and the course tree"):
            build.build_notebooks(course)
            course_tree.build_tree(course)
        wanted: dict[tuple[str, str], Made] = {}
        with _timed(console, "collecting", "collected the submissions of a made-up class"):
            for entry in entries:
                made = (made_up_class if whole else part_of_the_class)(course, entry)
                path = root / f"downloaded-{entry.name}.zip"
                path.write_bytes(zipped(entry, made))
                collecting.collect(course, path)
                wanted |= {(entry.name, roster.slug(submission.student)): submission for submission in made}
        with (
            _timed(console, "grading", f"graded {len(wanted)} submissions in sandboxes, {workers} at a time"),
            Progress(console=console, transient=True, disable=not console.is_terminal) as bar,
        ):
            graded = bar.add_task("grading", total=len(wanted))
            records = grade.grade(course, entries, options=Options(workers), on_record=lambda _: bar.advance(graded))
        with _timed(console, "writing", f"wrote {len(records)} pages of feedback, the class report and the scores"):
            pages = feedback.write_feedback(course, entries, workers)
            page = report.write_report(course, entries)
            report.write_csv(course, entries, root / "grades.csv")

    rows = [(record, wanted.pop((record.notebook, record.student))) for record in records]
    right = _print_results(console, root, rows, list(wanted.items()))
    console.print("\nLook at:", highlight=False)
    for label, path in (
        ("class report", page),
        ("feedback", pages[0]),
        ("all results", root / "results.txt"),
        ("gradebook", root / "gradebook.db"),
    ):
        console.print(f"  {label:<14}{path}", soft_wrap=True)
    console.print("Next: docs/tutorial.md grades a class of five; with your own class: docs/instructors.md")
    return right


def write_download(course: Course, entry: NotebookEntry, path: Path) -> list[Made]:
    """Write the submissions of five made-up students as Canvas's download of an assignment, which nobody grades yet.

    Raises:
        CourseError: `path` exists.
    """
    if path.exists():
        raise CourseError(f"{path} exists: name a new file")
    made = [one for one in made_up_class(course, entry) if one.student in IN_DOWNLOAD]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, submission in enumerate(made, 101):
            first, last = submission.student.lower().split()
            archive.writestr(f"{last}{first}_{number}_{9000 + number}_{entry.name}.ipynb", submission.file)
    return made


def _print_results(
    console: Console, root: Path, rows: list[tuple[Record, Made]], missing: list[tuple[tuple[str, str], Made]]
) -> bool:
    """Print some results, or those that are not the expected ones; whether all are. `results.txt` gets all."""
    wrong = [(record, made) for record, made in rows if _result(record) != made.score]
    with (root / "results.txt").open("w") as file:
        Console(file=file, width=200).print(results_table(rows, remarks=True))
    if wrong:
        console.print(results_table(wrong, remarks=True))
    else:
        names = {record.notebook: None for record, _ in rows}
        first = min(names, default="")
        submissions = [(record, made) for record, made in rows if record.notebook == first]
        shown = [(record, made) for record, made in submissions if made.student in SHOWN]
        console.print(f"\n[bold]{first}[/bold], {len(shown)} of its {len(submissions)} submissions")
        console.print(results_table(shown))
    right = len(rows) - len(wrong)
    console.print(
        f"\n{right} of {len(rows) + len(missing)} results are the expected ones.",
        style="" if right == len(rows) and not missing else "red",
    )
    if missing:
        console.print(
            f"No result: {', '.join(f'{made.student} in {name}' for (name, _), made in missing)}", style="red"
        )
    return not wrong and not missing


@contextlib.contextmanager
def _timed(console: Console, doing: str, done: str) -> Iterator[None]:
    """Print a step with the seconds that it took, once it is done; until then a terminal shows that it runs."""
    started = time.monotonic()
    with console.status(doing):
        yield
    console.print(f"{time.monotonic() - started:4.0f} s  {done}")


def _result(record: Record) -> float | None:
    """A score; None: the submission could not be graded."""
    return record.score if record.status == GRADED else None


def results_table(rows: list[tuple[Record, Made]], remarks: bool = False) -> Table:
    """Results beside the expected ones; with `remarks` the notebook as well, and what the grader remarked."""
    table = Table(box=None, header_style="bold")
    for heading in ("student", *(["notebook"] if remarks else []), "submitted"):
        table.add_column(heading)
    for heading in ("score", "expected"):
        table.add_column(heading, justify="right")
    if remarks:
        table.add_column("remarks", overflow="fold")
    for record, made in rows:
        said = record.reason or "; ".join(dict.fromkeys(record.remarks))
        table.add_row(
            *(made.student, *([record.notebook] if remarks else []), made.content),
            *(_said(_result(record)), _said(made.score)),
            *([Text(said)] if remarks else []),
            style="" if _result(record) == made.score else "bold red",
        )
    return table


def _said(score: float | None) -> str:
    return "ungradable" if score is None else f"{score:g}"
