"""The command line: one command for each thing an instructor does."""

import gc
import shlex
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from autograder import course as courses
from autograder.course import Course, CourseError, NotebookEntry

HELP = (
    "Build, release, collect and grade the notebooks of the course in course.toml, of this folder or one above it. "
    "[b]new-course[/b] DIR begins another one.\n\n"
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
INTERRUPTED = 130  # the exit status, as shells have it
FORMGRADER = "run `jupyter lab --config jupyter_server_config.py` in {}, menu Nbgrader, Formgrader"
BY_HAND = f"`autograder mark` shows them in a page; or {FORMGRADER}"
chosen: dict[str, Any] = {}


def in_tree(text: str) -> str:
    """A sentence whose commands run as they stand, in the tree that was chosen."""
    given = f"`autograder --tree {shlex.quote(str(chosen['tree']))} " if "tree" in chosen else "`autograder "
    return text.replace("`autograder ", given)


class Terminal(Console):
    """Prints sentences, and cells of tables, as `in_tree` makes them; what is `Text` already stays."""

    def render_str(self, text: str, **how: Any) -> Text:
        """As rich's."""
        return super().render_str(in_tree(text), **how)


console = Terminal(highlight=False, width=None if sys.stdout.isatty() else 150)  # a log has room


class Interrupted(Exception):
    """A command was interrupted that keeps nothing; the message says what that means."""


@app.callback(help=HELP)
def options(
    tree: Annotated[
        Path | None, typer.Option(help="The course tree to work in; default: .course/", show_default=False)
    ] = None,
    db: Annotated[
        str,
        typer.Option(envvar="AUTOGRADER_DB", help="The gradebook's URL, postgresql://...; default: course.toml's."),
    ] = "",
) -> None:
    """Note what holds for every command."""
    chosen.clear()  # a process may run several
    if tree:
        if tree.exists() and not tree.is_dir():
            raise CourseError(f"--tree {tree} is no folder: name the folder of the course tree")
        chosen["tree"] = tree
    if db:
        chosen["database"] = db


def load() -> Course:
    """The course, in the tree that was chosen."""
    return courses.load(**chosen)


@app.command()
def build(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail if a committed notebook or README's table is stale.")
    ] = False,
) -> None:
    """Build the student notebooks from solutions/, README's table, and nbgrader's course tree under .course/.

    Run it after every change in solutions/, utils/checks/ or course.toml.
    """
    from autograder.author import answers, overview
    from autograder.author.build import build_notebooks
    from autograder.gradebook import course_tree

    course = load()
    for entry in course.notebooks:
        answers.answer_cases(entry)  # fails if an edit fits its solution no longer
    if not check:
        course_tree.build_tree(course)  # first: what it refuses is not released
    stale = build_notebooks(course, check)
    if overview.write_readme(course, check):
        stale.append(overview.README.name)
    if check:
        if stale:
            raise CourseError(f"stale: {', '.join(stale)}; run `autograder build` and commit what it writes")
        console.print(f"{len(course.notebooks)} notebooks are up to date")
        return
    wrote = f"wrote {', '.join(stale)}" if stale else "the notebooks were up to date"
    console.print(f"{wrote}; the course tree is {course.tree}", soft_wrap=True)


@app.command("new-course")
def new_course(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="An empty folder, or one that is not there yet.")],
    title: Annotated[str, typer.Option(help="Of the course; default: the folder's name.", show_default=False)] = "",
) -> None:
    """Write the skeleton of another course: a notebook with an exercise and a written question, which can be graded.

    Commands work on the course in the folder where they are given, or above it.
    """
    import shlex

    from autograder import new_course as making

    files = making.write(folder, title)
    console.print(f"{len(files)} files in {folder}. Go there, and do what its README.md says:", soft_wrap=True)
    console.print(
        f"  cd {shlex.quote(str(folder))}\n  autograder build\n  autograder demo", markup=False, soft_wrap=True
    )


@app.command()
def record(
    notebook: Annotated[str, typer.Argument(help="A notebook with experiments, 05 for example.")],
    names: Annotated[list[str] | None, typer.Argument(metavar="[EXPERIMENT]...", help="Default: all.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many of the seeds 1 to 5.")] = 5,
    cluster: Annotated[str, typer.Option(help="local, or the address of a dask scheduler; default: one by one.")] = "",
) -> None:
    """Record the runs that come with the course, profile cpu; those that are recorded already are not run again.

    What the solution's cells contribute is executed here, on this machine. It takes minutes to hours.
    """
    from autograder.author import record as recording

    course = load()
    for table in recording.record(course, course.notebook(notebook), names or (), seeds, cluster or None):
        console.print(repr(table), markup=False, soft_wrap=True)


@app.command()
def release(
    to: Annotated[
        Path | None, typer.Option("--to", help="An empty folder, or an earlier release to renew.", show_default=False)
    ] = None,
    wheel: Annotated[
        Path | None,
        typer.Option(
            "--wheel",
            help="A folder for a wheel that a hub's administrator installs, once for all.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write the student repository: notebooks/, utils/, data/, environment.yml, README. No solutions.

    With --wheel, write what notebooks import as a Python package: notebooks of nbgrader's exchange find it there.
    """
    from autograder.author import release as releasing

    course = load()
    if to is None and wheel is None:
        raise CourseError("say where to: --to DIR for the student repository, --wheel DIR for a hub's package")
    if to is not None:
        files = releasing.release(course, to)
        console.print(f"{len(files)} files in {to}: push them to {course.student_repository}", soft_wrap=True)
    if wheel is not None:
        made = releasing.wheel(course, wheel)
        console.print(
            f"{made}: install it where students' notebooks run, `pip install -c constraints.txt {made.name}`, with "
            "the constraints.txt of the course",
            soft_wrap=True,
        )


@app.command()
def collect(
    source: Annotated[
        Path | None,
        typer.Argument(
            help="A zip, a folder with a folder per student, or an LMS download; with --exchange, the exchange.",
            show_default=False,
        ),
    ] = None,
    notebook: Annotated[str, typer.Option(help="Files whose names are no notebook's are this notebook.")] = "",
    student: Annotated[list[str] | None, typer.Option(help="Take everything as this student's.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Take only this notebook; may be given again.")] = None,
    times: Annotated[
        Path | None,
        typer.Option(help="A CSV file with the columns student and time, or Canvas's Student Analysis report."),
    ] = None,
    zip_names: Annotated[
        str, typer.Option(help="The code page of names in a zip that does not say it, such as cp850. [default: guess]")
    ] = "",
    exchange: Annotated[
        bool,
        typer.Option("--exchange", help="Take the submissions of nbgrader's exchange, by default the configured one."),
    ] = False,
    stated_times: Annotated[
        bool,
        typer.Option("--stated-times", help="With --exchange: believe the times that submissions state, as in a copy."),
    ] = False,
) -> None:
    """Take hand-ins into the course tree. The latest of each student counts; all are kept.

    docs/instructors.md lists the platforms whose downloads are understood; course.toml may describe others. Nothing is
    unpacked to disk, links are not followed, and a broken hand-in stops no other.
    """
    from autograder.intake import collect as collecting

    course = load()
    if len(student or ()) > 1:
        raise CourseError("collect takes one --student, whose everything in SOURCE is: collect once for each student")
    named = course.notebook(notebook) if notebook else None
    chosen = [course.notebook(one) for one in only or ()]
    one = "".join(student or ())
    if stated_times and not exchange:
        raise CourseError("--stated-times is for submissions of an exchange: give --exchange, too")
    if exchange:
        if student or zip_names:
            raise CourseError("--exchange takes neither --student nor --zip-names: folders there say whose they are")
        wanted = [*([named] if named else []), *chosen]
        collected = collecting.collect_exchange(course, source, wanted, times, stated_times)
    elif source is None:
        raise CourseError("say what to collect: `autograder collect SOURCE`, or `autograder collect --exchange`")
    else:
        collected = collecting.collect(course, source, named, one, zip_names, chosen, times)
    for line in collected.taken:
        console.print(line, markup=False)
    for line in collected.refused:
        console.print("[yellow]refused[/yellow] ", end="")
        console.print(line, markup=False)
    for line in collected.notes:
        console.print("[yellow]note[/yellow] ", end="")
        console.print(line, markup=False)
    if collected.refused and not collected.taken:
        raise typer.Exit(1)


Student = Annotated[list[str] | None, typer.Option(help="Only this student; may be given again.")]
Reason = Annotated[str, typer.Option(help="Why, for the log; students do not see it.")]
Workers = Annotated[int, typer.Option(min=1, help="How many hand-ins are graded at a time on this machine.")]
Cluster = Annotated[str, typer.Option(help="A dask scheduler to grade on, tcp://host:port.")]
Trust = Annotated[
    bool, typer.Option("--trust-submissions", help="Run hand-ins WITHOUT a sandbox, as you. The report will say so.")
]
Gpus = Annotated[
    str,
    typer.Option(help="Devices that the workers take in turn: 0,1,2. Kernels see one if course.toml says gpu = true."),
]
Dashboard = Annotated[bool, typer.Option("--dashboard", help="Serve dask's dashboard, and print its address.")]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print each record as a line of JSON as soon as it is stored; nothing else.")
]


@app.command()
def grade(
    notebooks: Names = None,
    student: Student = None,
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
    """Run the hand-ins in sandboxed kernels, judge them, and record the scores in nbgrader's gradebook.

    Grades only what is new or changed; interrupt it at any time and give the same command again. Published verdicts
    stay when the course was upgraded: what would change is shown, and --update changes it.
    Ends with status 1 if a hand-in could not be graded: the report says which and why.
    """
    course = begin(notebooks, cluster, trust_submissions, dashboard)

    from autograder.grading import grade as grading
    from autograder.grading.records import GRADED, Options, Record, known_students

    entries = course.select(notebooks)
    known_students(course, entries, student)
    new: list[tuple[str, str]] = []

    def meanwhile() -> None:
        if not json:
            from autograder.reports import report

            report.load()

    def on_record(record: Record) -> None:
        new.append((record.notebook, record.student))
        if json:
            print_json(record)

    options = Options(workers, cluster, trust_submissions, devices(gpus), dashboard)
    previews: list[tuple[Record, Record]] | None = None

    def on_preview(pairs: list[tuple[Record, Record]]) -> None:
        nonlocal previews
        previews = pairs

    records = grading.grade(
        course,
        entries,
        student,
        options,
        again,
        on_record,
        meanwhile,
        update=update,
        on_preview=None if json else on_preview,
        reason=reason,
    )
    if json:
        for record in records:
            if (record.notebook, record.student) not in new:
                print_json(record)
    else:
        from autograder.reports import progress
        from autograder.reports import report as reporting

        print_records(records)
        if previews is not None:
            print_previews(previews)
        print_to_mark({entry.name: progress.to_mark(course, entry) for entry in entries})
        console.print(f"report: {reporting.write_report(course, list(course.notebooks))}", soft_wrap=True)
    if not records and not json:
        console.print("nothing was handed in for these notebooks; `autograder collect SOURCE` takes hand-ins")
    if any(record.status != GRADED for record in records):
        raise typer.Exit(1)


@app.command()
def watch(
    folder: Annotated[Path, typer.Argument(help="Where hand-ins arrive, as `collect` takes them; they stay there.")],
    workers: Workers = 2,
    unit: Annotated[bool, typer.Option("--unit", help="Print a systemd unit that does this, and do nothing.")] = False,
) -> None:
    """Take, grade and answer hand-ins as they arrive in a folder; Ctrl-C ends it.

    Each gets its verdicts, its marks in the gradebook and its feedback page within seconds. Ended and begun again, it
    goes on with what is not graded yet; other commands may be used meanwhile.
    """
    import datetime

    from autograder import html_cleaning
    from autograder import watch as watching
    from autograder.grading.records import GRADED, Options, Record
    from autograder.intake.collect import Collected

    course = load()
    if unit:
        print(watching.unit(course, folder, workers), end="")
        return

    def say(text: str) -> None:
        console.print(f"{datetime.datetime.now():%H:%M:%S} {text}", markup=False, soft_wrap=True)

    told: set[str] = set()

    def on_collected(collected: Collected) -> None:
        news = [f"refused {line}" for line in collected.refused] + [f"note {line}" for line in collected.notes]
        for line in news:
            if line not in told:  # the folder is read as a whole each time
                told.add(line)
                say(line)

    def on_record(record: Record) -> None:
        points = (
            f"{record.score:g} of {record.points:g}" if record.status == GRADED else f"{record.status}: {record.reason}"
        )
        say(f"{record.student} {record.notebook}: {points}")

    watching.require(course, folder)
    say(f"watching {folder} for {len(course.notebooks)} notebooks; Ctrl-C ends it")

    def on_failure(why: Exception) -> None:
        told = str(why) if isinstance(why, CourseError) else f"{type(why).__name__}: {html_cleaning.line(why, 500)}"
        say(f"not done: {told}")

    watching.watch(course, folder, Options(workers), on_collected, on_record, on_failure)


@app.command()
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
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object a hand-in: before and after.")] = False,
) -> None:
    """Judge some exercises again after a changed check, and show before and after.

    Runs only graded hand-ins that answer these exercises, and of those only the cells that are needed. The
    other verdicts and all manual scores stay.
    """
    wanted = notebooks or [one.split(".")[0] for one in exercise or ()]
    course = begin(wanted, cluster, trust_submissions, dashboard)

    from autograder.grading import grade as grading
    from autograder.grading.records import GRADED, Options, known_students
    from autograder.reports import report as reporting

    known_students(course, course.select(wanted), student)
    options = Options(workers, cluster, trust_submissions, devices(gpus), dashboard)
    pairs = grading.regrade(course, course.select(wanted), exercise or (), student, options, reason=reason)
    done = [(before, after) for before, after in pairs if after.status == GRADED]
    if json:
        for before, after in done:
            print_json(before, after)
    elif not pairs:
        how = "with --trust-submissions" if trust_submissions else "in a sandbox"
        what = f"answers exercise {', '.join(exercise)}" if exercise else "was judged by another check than today's"
        told = f"nothing was run: no hand-in that is graded {how} {what}; `autograder grade` grades what waits"
        console.print(told, markup=False, soft_wrap=True)
    else:
        print_changes(done)
        console.print(f"report: {reporting.write_report(course, list(course.notebooks))}", soft_wrap=True)
    if len(done) < len(pairs):
        raise typer.Exit(1)


@app.command()
def status(
    notebooks: Names = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show what is graded, what waits, and what is ungradable, with reasons."""
    import json as encoder

    from autograder.grading.surroundings import Surroundings
    from autograder.reports import progress

    course = load()
    entries = course.select(notebooks)
    around = Surroundings(course)
    found = {entry.name: progress.status(course, entry, around) for entry in entries}
    by_hand = {entry.name: progress.to_mark(course, entry) for entry in entries}
    wrong = {entry.name: progress.disagreements(course, entry) for entry in entries}
    # Of a notebook that nobody handed in yet, only who asks for it wants to read the whole class.
    begun = [entry for entry in entries if notebooks or any(found[entry.name].values())]
    missing = {entry.name: progress.missing(course, entry) for entry in begun}
    if json:
        whole = {
            name: found[name]
            | {"to mark": by_hand[name], "disagree": wrong[name], "nothing handed in": missing.get(name, [])}
            for name in found
        }
        print(encoder.dumps(whole, indent=1, ensure_ascii=False))
        return
    counts = Table(box=None, header_style="bold")
    for heading in ("notebook", "handed in", *progress.STATES, "answers to mark"):
        counts.add_column(heading, justify="left" if heading == "notebook" else "right")
    reasons = Table(box=None, header_style="bold")
    for heading in ("student", "notebook", "state", "reason"):
        reasons.add_column(heading, overflow="fold")
    for name, states in found.items():
        numbers = [sum(map(len, states.values())), *(len(states[one]) for one in progress.STATES)]
        counts.add_row(name, *map(str, numbers), str(sum(by_hand[name].values())))
        for state in progress.STATES:
            for one, reason in states[state].items():
                if not reason:
                    continue
                reasons.add_row(one, name, state, Text(in_tree(reason)))
        for one, reason in wrong[name].items():
            reasons.add_row(one, name, "disagree", Text(in_tree(reason)))
    console.print(counts)
    if reasons.rows:
        console.print(reasons)
    for name, absent in missing.items():
        if absent:
            console.print(Text(f"{name}: nothing is handed in by {', '.join(absent)}"), soft_wrap=True)
    if any(states["waiting"] for states in found.values()):
        console.print("`autograder grade` grades what is waiting")
    if not any(some for states in found.values() for some in states.values()):
        console.print("nothing is handed in yet: `autograder collect SOURCE` takes hand-ins")
    print_to_mark(by_hand)


@app.command()
def roster(json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Show the class as .course/students.csv lists it: names, what is handed in, extensions."""
    import json as encoder

    from autograder.gradebook import roster as rosters
    from autograder.grading.records import students_of

    course = load()
    known = rosters.load(course)
    if known is None:
        raise CourseError(
            f"there is no {course.tree / 'students.csv'}: write one with the columns {', '.join(rosters.COLUMNS)}"
        )
    there = {entry.number: {*students_of(course, entry)} for entry in course.notebooks}
    given = rosters.granted(course)
    rows: list[dict[str, str | list[str]]] = [
        {
            "id": one.id,
            "name": f"{one.first_name} {one.last_name}".strip(),
            "email": one.email,
            "platform ids": [*one.platform_ids],
            "handed in": [number for number, some in there.items() if one.id in some],
            "extensions": [
                f"{course.notebook(row['notebook']).number}: {row['extension']}"
                for row in given
                if row["student"] == one.id
            ],
        }
        for one in known.students.values()
    ]
    if json:
        print(encoder.dumps(rows, indent=1, ensure_ascii=False))
        return
    table = Table(box=None, header_style="bold")
    for heading in rows[0] if rows else ():
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell if isinstance(cell, str) else ", ".join(cell)) for cell in row.values()))
    console.print(table)
    for name, ids in known.namesakes().items():
        told = f"{' and '.join(ids)} are called {name}: each of them writes the id into STUDENT, not the name"
        console.print(Text(told), soft_wrap=True)
    strangers = sorted({one for some in there.values() for one in some} - {*known.students})
    if strangers:
        console.print(Text(f"handed in, and not in the roster: {', '.join(strangers)}"), soft_wrap=True)


@app.command()
def extend(
    student: Annotated[str, typer.Argument(help="An id, or a name of the roster.", show_default=False)] = "",
    notebook: Annotated[str, typer.Argument(help="By name or number.", show_default=False)] = "",
    extension: Annotated[
        str,
        typer.Argument(help="3 days, 36 hours, a time with its offset, or excused: never late.", show_default=False),
    ] = "",
    reason: Annotated[str, typer.Option(help="For you; students do not see it.")] = "",
    undo: Annotated[bool, typer.Option("--undo", help="Take the extension back.")] = False,
) -> None:
    """Give a student more time for a notebook, or excuse one; alone, show all extensions and what being late costs.

    They stand in .course/extensions.csv. Penalties follow when scores are next graded, reported or exported.
    """
    from autograder.gradebook import roster as rosters
    from autograder.grading.records import students_of

    course = load()
    if not student:
        table = Table(box=None, header_style="bold")
        for heading in rosters.GRANTED:
            table.add_column(heading, overflow="fold")
        for row in rosters.granted(course):
            table.add_row(*(Text(row[column]) for column in rosters.GRANTED))
        console.print(table if table.rows else "nobody has an extension")
        console.print(Text(course.late.sentence()), soft_wrap=True)
        return
    if not notebook or bool(extension) == undo:
        raise CourseError(
            "give a student, a notebook and an extension, `autograder extend ada 05 '3 days'`, or --undo in its place"
        )
    (entry,) = course.select([notebook])
    if undo:
        whose = rosters.withdraw(course, student, entry)
        console.print(Text(f"{whose} has no extension for {entry.name} any more"), soft_wrap=True)
        return
    whose = rosters.grant(course, student, entry, extension, reason)
    console.print(Text(f"{whose}, {entry.name}: {extension}"), soft_wrap=True)
    if rosters.load(course) is None and whose not in students_of(course, entry):
        console.print(
            f"so far nothing of {entry.name} is handed in under this name: `autograder status` shows those there are"
        )
    if entry.deadline is None:
        console.print(f"{entry.name} has no deadline: nobody is late")


@app.command()
def audit(
    notebook: Annotated[str, typer.Argument(help="A notebook with experiments, 05 for example.")],
    fraction: Annotated[float, typer.Option(help="The fraction of the class's runs to train again.")] = 0.05,
    seed: Annotated[int, typer.Option(help="Draws the sample; the same seed draws the same one.")] = 0,
    data_dir: Annotated[Path | None, typer.Option(help="Holds the data; else COURSE_DATA, else the hub.")] = None,
    confirm: Annotated[str, typer.Option(metavar="STUDENT", help="Decide: these runs do not count.")] = "",
    acquit: Annotated[str, typer.Option(metavar="STUDENT", help="Decide: they count; nothing is flagged.")] = "",
    undo: Annotated[str, typer.Option(metavar="STUDENT", help="Take a decision back.")] = "",
    reason: Reason = "",
) -> None:
    """Train a sample of the handed-in runs again, and compare. Ends with status 1 if one does not agree.

    Half of the sample are the most suspicious runs, half are drawn at random. No mark changes by itself: look at what
    differs, ask the student, then note what you decided with --confirm, --acquit or --undo. The next `grade`
    applies it.
    """
    from autograder.grading import copied_runs

    course = load()
    entry = course.notebook(notebook)
    if confirm or acquit or undo:
        asked = [
            (student, counts, means)
            for student, counts, means in (
                (confirm, False, "do not count"),
                (acquit, True, "count, and nothing of them is flagged"),
                (undo, None, "are undecided again"),
            )
            if student
        ]
        if len({student for student, _, _ in asked}) < len(asked):
            raise CourseError("two decisions about one student: give one of --confirm, --acquit and --undo")
        for student, counts, means in asked:
            copied_runs.decide(course, entry, student, counts, reason)
            console.print(f"noted: the runs of {student} {means}", soft_wrap=True)
        console.print(f"`autograder grade {entry.number}` applies it")
        return

    from autograder.grading import audit as auditing

    done: list[auditing.Audited] = []
    try:
        for one in auditing.audit(course, entry, fraction, seed, data_dir):
            done.append(one)
    except KeyboardInterrupt:
        raise Interrupted("interrupted; the same command begins anew, with the same runs") from None
    finally:  # each has taken its time: whatever stopped the next one, it is shown
        if done:
            print_audited(done)
    differ = sum(one.verdict != auditing.AGREES for one in done)
    console.print(f"{len(done)} runs were trained again, {differ} do not agree")
    if differ:
        console.print(
            f"no mark has changed. When you have asked: `autograder audit {entry.number} --confirm STUDENT` (the runs "
            "do not count), or --acquit STUDENT (they count)",
            soft_wrap=True,
        )
        raise typer.Exit(1)


@app.command()
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

    course = load()
    wanted = list(names or ())
    if roster:
        wanted += listed(roster)
    wanted = [name.strip() for name in wanted]
    if not all(wanted):
        raise CourseError("a student without a name has no key: name each of them")
    twice = sorted(name for name, times in Counter(wanted).items() if times > 1)
    if twice:
        raise CourseError(f"{', '.join(twice)} stands there twice: a key follows from the name, so give each their own")
    if not wanted:
        raise CourseError("for which students? Give names, or --roster with a CSV that has a column `student`")
    lines = [("student", "key"), *((name, students.key_of(course_tree.secret(course), name)) for name in wanted)]
    lines = [(harmless(name), key) for name, key in lines]  # signs do not count in the name of a key
    if not to:
        csv.writer(sys.stdout, lineterminator="\n").writerows(lines)
        return
    with writable(to).open("w", encoding="utf-8", newline="") as file:
        write_rows(file, lines)
    console.print(
        f"{len(wanted)} keys in {to}; give each student only their own, and have them write the name that stands "
        "beside it into STUDENT",
        soft_wrap=True,
    )


@app.command()
def feedback(
    notebooks: Names = None,
    workers: Annotated[int, typer.Option(min=1, help="How many pages are written at a time.")] = 2,
    platform: Annotated[
        Literal["canvas", "moodle", "blackboard"] | None,
        typer.Option("--zip", help="Also a zip for each notebook, with the names by which this platform takes it."),
    ] = None,
    to: Annotated[Path, typer.Option("--to", help="The folder of the zips.")] = Path(),
) -> None:
    """Write a feedback page for every graded hand-in into .course/feedback/, where nbgrader looks for it.

    Writes only those that are new or would say something else: interrupt it at any time and give the same
    command again.
    """
    from autograder.reports.feedback import write_feedback

    course = load()
    entries = built(course, notebooks)
    pages = write_feedback(course, entries, workers)
    console.print(f"{len(pages)} pages in {course.tree / 'feedback'}", soft_wrap=True)
    if not pages:
        console.print("a page is written for what is graded: `autograder grade` comes first")
    if platform:
        from autograder.reports import uploads

        done = uploads.zip_feedback(course, entries, pages, platform, to)
        for path, number in done.pages.items():
            console.print(f"{number} of them in {path}", markup=False, soft_wrap=True)
        for line in done.notes:
            console.print(line, markup=False, soft_wrap=True)


@app.command()
def report(
    notebooks: Names = None,
    names: Annotated[
        bool, typer.Option("--names", help="Name the students; else each has a code, alike on every page.")
    ] = False,
) -> None:
    """Write the class report, one page: scores, how hard each exercise was, what most were told, who is late.

    It needs no network, prints, and sorts its tables by a click. Notebooks without hand-ins are left out.
    """
    from autograder.reports import progress
    from autograder.reports import report as reporting

    course = load()
    entries = built(course, notebooks)
    print_to_mark({entry.name: progress.to_mark(course, entry) for entry in entries})

    def show(name: str, lines: list[str]) -> None:
        found = [f"{name}, every different run of the class", *lines]
        console.print("\n".join(found), end="\n\n", markup=False, soft_wrap=True)

    console.print(str(reporting.write_report(course, entries, show, names)), soft_wrap=True)


@app.command()
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

    course = load()
    if undo:
        taken, changed = groups.undo(course, question, reason)
        what = f"group {taken.group}" if taken.group else "marked in the page"
        console.print(f"{what}: restored the previous marks of {len(taken.after) - len(changed)} answers")
        if changed:
            console.print(f"{len(changed)} left as they are: somebody marked them since")
        return
    if apply is not None:
        if score is None:
            raise CourseError("with --apply, give --score")
        marked, notes = groups.apply(course, question, apply, score, comment, overwrite, reason)
        console.print(f"{marked} answers have {score:g} points; `autograder group {question} --undo` takes that back")
        for line in notes:
            console.print(line, markup=False, soft_wrap=True)
        return
    groups.question_of(course, question)  # what is not there is said at once: the encoder takes seconds to load

    from autograder.likeness.texts import vectors_of

    how, advice = vectors_of()
    if advice:
        console.print(advice, markup=False, soft_wrap=True)
    found = groups.grouped(course, question, how, into)
    table = Table(box=None, header_style="bold")
    for heading in ("group", "answers", "marked", "the answer most like the others"):
        table.add_column(heading, justify="left" if heading.startswith("the") else "right", overflow="fold")
    for one in found.groups:
        table.add_row(str(one.number), str(len(one.answers)), str(one.marked), Text(groups.shortened(one.answers[0])))
    console.print(table)
    console.print(
        f"compared by {found.how}; without an answer: {found.empty}; alike is not equal: read before you mark"
    )
    if page:
        from utils.files import write

        write(writable(page), groups.page(course, found, Called(course, names)))
        console.print(f"all answers: {page}", soft_wrap=True)


@app.command()
def mark(
    question: Annotated[
        str, typer.Argument(help="A written question, 1.W1 for example; default: a list of all.", show_default=False)
    ] = "",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of this machine; default: a free one.")] = 0,
    names: Annotated[bool, typer.Option("--names", help="Name the students on the page.")] = False,
) -> None:
    """Mark written answers question by question in a page, with the keyboard; Ctrl-C ends it.

    The page shows the question, its mark scheme and each different answer once. Other commands may be used meanwhile,
    and several people may mark at once, each with the address or with a command of their own.
    """
    import asyncio

    from autograder.likeness import groups
    from autograder.marking import server

    course = load()
    if question:
        groups.question_of(course, question)

    def show(address: str) -> None:
        console.print(f"open {address} in a browser of this machine; Ctrl-C ends it", markup=False, soft_wrap=True)
        console.print("who has this address can mark: do not pass it on", markup=False, soft_wrap=True)

    try:
        asyncio.run(server.serve(course, question, port, names, show))
    except KeyboardInterrupt:
        console.print("ended; all marks that were saved are in the gradebook")


@app.command()
def similar(
    notebook: Annotated[str, typer.Argument(help="By name or number.")],
    most: Annotated[int, typer.Option(min=1, help="How many pairs, the most alike first.")] = 10,
    page: Annotated[Path | None, typer.Option(help="Write the pairs, side by side, into this HTML file.")] = None,
    names: Annotated[bool, typer.Option("--names", help="Name the students.")] = False,
) -> None:
    """Show the pairs of hand-ins whose code is most alike. Likeness is no proof: read both, and ask both.

    Names, strings, comments and the order of lines do not count, nor does what was released.
    """
    from autograder.gradebook.pseudonyms import Names as Called
    from autograder.likeness import similar as likeness

    course = load()
    entry, called = course.notebook(notebook), Called(course, names)
    compared = likeness.Compared(*likeness.hand_ins(course, entry))
    pairs = compared.pairs(most)
    table = Table(box=None, header_style="bold")
    for heading in ("first", "second", "likeness, %", "exercises most alike"):
        table.add_column(heading, justify="right" if "%" in heading else "left", overflow="fold")
    for one in pairs:
        alike = ", ".join(number for number, share in one.exercises.items() if share >= likeness.ALIKE)
        table.add_row(called.of(one.first), called.of(one.second), f"{100 * one.likeness:.0f}", alike)
    console.print(table)
    console.print("likeness is no proof: read both, and ask both, before you conclude anything")
    if page:
        from utils.files import write

        write(writable(page), likeness.page(course, entry, compared, pairs, called))
        console.print(f"side by side: {page}", soft_wrap=True)


@app.command()
def explain(
    student: Annotated[str, typer.Argument(help="The student's id, as `autograder status` shows it.")],
    exercise: Annotated[str, typer.Argument(help="An exercise or a written question: 2.6, 1.W1.")],
    to: Annotated[Path | None, typer.Option("--to", help="Also write the case into this zip, for a committee.")] = None,
    beside: Annotated[
        str, typer.Option("--beside", metavar="STUDENT", help="With --to: the code of both, side by side.")
    ] = "",
    no_ask: Annotated[bool, typer.Option("--no-ask", help="Do not judge the exercise again.")] = False,
) -> None:
    """Show how a mark came about: versions, question, answer, failing input, verdicts over time, marks and decisions.

    The exercise is judged once more in a sandbox to show what its checks asked; nothing of that is recorded.
    """
    from autograder import appeals

    course = load()
    if beside and not to:
        raise CourseError("--beside goes with --to: name the zip")
    case = appeals.case_of(course, student, exercise, not no_ask)
    for line in appeals.lines(case):
        console.print(line, markup=False, soft_wrap=True)
    if to:
        files = appeals.write_zip(course, case, writable(to), beside)
        console.print(f"{len(files)} files in {to}; it shows inputs of private checks", markup=False, soft_wrap=True)


@app.command()
def export(
    to: Annotated[
        Path | None,
        typer.Option(
            "--to", help="The file; default: grades.csv, and for a platform canvas.csv and so on.", show_default=False
        ),
    ] = None,
    notebooks: Names = None,
    form: Annotated[
        Literal["csv", "canvas", "moodle", "blackboard", "gradescope"],
        typer.Option("--format", help="The learning platform that imports it; csv: a row per student and exercise."),
    ] = "csv",
    exercises: Annotated[
        bool,
        typer.Option(
            "--exercises",
            help="For platforms: also a column per exercise. Canvas, which sums columns, gets no total then.",
        ),
    ] = False,
) -> None:
    """Write all scores, manual scores and lateness included, as CSV or as a file that a learning platform imports.

    Marks that wait for a person are left blank. Who is missing in the file is named.
    """
    from autograder.reports import exports, progress

    course = load()
    if to and str(to) in exports.FORMATS:
        raise CourseError(f"--to names the file: for the file of a platform give --format {to}")
    to = to or Path("grades.csv" if form == exports.CSV else f"{form}.csv")
    done = exports.export(course, built(course, notebooks), writable(to), form, exercises)
    console.print(f"{done.rows} rows in {to}{', in place of earlier ones' * done.replaced}", soft_wrap=True)
    for line in done.notes:
        console.print(line, markup=False, soft_wrap=True)
    if form != exports.CSV and course.late.takes_off:
        told = "late penalties are taken off: see that the platform's own late policy does not take them off once more"
        console.print(told, soft_wrap=True)
    for entry in course.select(notebooks):
        for student, why in progress.disagreements(course, entry).items():
            console.print(f"{student} {entry.name}: {why}", markup=False, soft_wrap=True)


@app.command()
def remove(
    student: Annotated[str, typer.Argument(help="The student's id, as `autograder status` shows it.")] = "",
    notebooks: Annotated[
        list[str] | None, typer.Argument(metavar="NOTEBOOK...", help="By name or number.", show_default=False)
    ] = None,
    whose: Annotated[str, typer.Option("--student", help="The student, in place of the first word.")] = "",
    every: Annotated[bool, typer.Option("--all", help="All notebooks.")] = False,
    erase: Annotated[
        bool, typer.Option("--erase", help="With --all: keep nothing, also of what was removed before; with a receipt.")
    ] = False,
    reason: Reason = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without this, only show what would be removed.")] = False,
    latest: Annotated[
        bool, typer.Option("--latest", help="Remove the latest only; the one before counts again.")
    ] = False,
) -> None:
    """Remove a hand-in everywhere: files, verdict, feedback and gradebook. All of it is kept in .course/removed/.

    Manual marks and comments are kept there, too. With --all --erase nothing of the student is kept: files, records,
    marks, logs, and what was removed before. Without --yes nothing is changed.
    """
    from autograder.grading import removal
    from autograder.reports import report as reporting

    course = load()
    names = [*([student] if whose and student else []), *(notebooks or ())]
    student = whose or student
    if not student or bool(names) == every or (erase and not every) or (latest and every):
        raise CourseError(
            "name a student and notebooks, `autograder remove ada 01 --yes`, or `--all` in place of the notebooks; "
            "--erase goes with --all, --latest does not"
        )
    if erase:
        erase_student(course, student, reason, yes)
        return
    entries = removal.handed_in(course, student) if every else course.select(names)
    for entry in entries if latest else ():
        kept = [path.name for path in removal.several(course, entry, student)]
        if yes:
            place = removal.remove_latest(course, entry, student, reason)
            console.print(f"{kept[-2]} counts again, {kept[-1]} is in {place}: `autograder grade`", soft_wrap=True)
        else:
            console.print(f"kept of {student}: {', '.join(kept)}; with --yes the last is removed", soft_wrap=True)
    if latest:
        return
    for entry in entries:
        if yes:
            console.print(f"removed; all of it is in {removal.remove(course, entry, student, reason)}", soft_wrap=True)
            continue
        found, marks = removal.parts(course, entry, student), removal.marks(course, entry, student)
        removal.require(course, entry, student)
        for path in found:
            console.print(f"would move {path.relative_to(course.tree)}", markup=False, soft_wrap=True)
        by_hand = sum(mark.get("manual_score") is not None for mark in marks)
        console.print(f"would remove {entry.name} of {student} from the gradebook, with {by_hand} manual marks")
    if yes:
        console.print(f"report: {reporting.write_report(course, list(course.notebooks))}", soft_wrap=True)
    else:
        console.print("nothing was changed: give the command with --yes to remove it")


@app.command("nbgrader")
def grade_nbgrader(
    assignments: Annotated[
        list[str] | None, typer.Argument(metavar="[ASSIGNMENT]...", help="By nbgrader's name; default: all.")
    ] = None,
    course_dir: Annotated[
        Path, typer.Option(help="The course, as `nbgrader autograde` would be started there.", show_default="here")
    ] = Path("."),
    student: Student = None,
    workers: Workers = 2,
    again: Annotated[bool, typer.Option("--again", help="Grade again also what is up to date.")] = False,
    json: AsJson = False,
) -> None:
    """Grade an existing course of stock nbgrader, its tests in the cells, in sandboxes. Not the course in course.toml.

    Its configuration, gradebook and folders are used as nbgrader does; only the cells run elsewhere. Grades what is new
    or changed; interrupt it at any time and give the same command again. Ends with status 1 if something could not
    be graded.
    """
    from autograder.any_course import directory

    directory.begin(course_dir)
    course = directory.open_course(course_dir)

    from autograder.any_course import grade as grading

    names = list(dict.fromkeys(assignments or directory.assignments(course)))
    records, refused = grading.grade(
        course, names, student or (), workers, again, print_plain_json if json else lambda record: None
    )
    failed = [record for record in records if record.status != directory.GRADED]
    if not json:
        table = Table(box=None, header_style="bold")
        for heading in ("student", "assignment", "points", "remarks"):
            table.add_column(heading, justify="right" if heading == "points" else "left", overflow="fold")
        for one in records:
            points = f"{max(0, one.score - one.penalty):g} of {one.points:g}"
            points = points if one.status == directory.GRADED else one.status
            late = [f"late: {one.score:g} less a penalty of {one.penalty:g}"] if one.penalty else []
            by_hand = ["answers wait for a person: nbgrader's formgrader"] * one.to_mark
            remarks = "; ".join([*([one.reason] if one.reason else []), *one.remarks, *late, *by_hand])
            table.add_row(one.student, one.assignment, points, Text(remarks))
        if records:
            console.print(table)
        for line in refused:
            console.print(f"[yellow]refused[/yellow] {escape(line)}", soft_wrap=True)
        if not records and not refused:
            console.print("nothing was handed in where nbgrader looks for it")
        console.print(directory.FOOLED, soft_wrap=True)
    if failed or refused:
        raise typer.Exit(1)


@app.command()
def doctor() -> None:
    """Show what works on this machine, what does not and what to do, and what is not needed.

    Ends with status 1 if nothing can be graded here.
    """
    from autograder import doctor as machine

    found = machine.examine(load)
    colours = {machine.State.WORKS: "green", machine.State.DOES_NOT: "red", machine.State.NOT_NEEDED: "dim"}
    table = Table(box=None, header_style="bold")
    for heading in ("", "", "found", "what to do"):
        table.add_column(heading, overflow="fold")
    for one in found:
        table.add_row(one.what, Text(one.state, style=colours[one.state]), Text(one.found), Text(in_tree(one.do)))
    console.print(table)
    if not machine.can_grade(found):
        console.print("nothing can be graded here until this is mended")
        raise typer.Exit(1)


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


def erase_student(course: Course, student: str, reason: str, yes: bool) -> None:
    """Erase a student, or without `yes` show what that would do."""
    from autograder.grading import erasure
    from autograder.reports import report as reporting

    if not yes:
        for line in erasure.shown(course, erasure.find(course, student)):
            console.print(line, markup=False, soft_wrap=True)
        console.print("nothing was changed: give the command with --yes to erase it; nothing can be taken back")
        return
    receipt, left = erasure.erase(course, student, reason)
    console.print(f"erased; the receipt is {receipt}", markup=False, soft_wrap=True)
    console.print(receipt.read_text(), markup=False, soft_wrap=True)
    for path in left:
        console.print(f"a name of the student is still in {path}: look at it", markup=False, soft_wrap=True)
    console.print(erasure.OUTSIDE, markup=False, soft_wrap=True)
    console.print(f"report: {reporting.write_report(course, list(course.notebooks))}", soft_wrap=True)


def begin(notebooks: list[str] | None, cluster: str, trusted: bool, dashboard: bool) -> Course:
    """The course; what grading those notebooks needs is imported in the background while we import the rest."""
    from importlib.util import find_spec

    from autograder.sandbox import preload

    course = load()
    if dashboard and not cluster and not find_spec("bokeh"):
        raise CourseError(
            "dask's dashboard needs bokeh: pip install -c constraints.txt bokeh, or grade without --dashboard"
        )
    if not cluster and not trusted:
        preload.begin(course, course.select(notebooks))
    return course


def built(course: Course, notebooks: list[str] | None) -> list[NotebookEntry]:
    """These notebooks, or all.

    Raises:
        CourseError: one is unknown, or was not built: said before the gradebook is opened, which is not there either.
    """
    from autograder.gradebook import course_tree

    entries = course.select(notebooks)
    for entry in entries:
        course_tree.release_text(course, entry)
    return entries


def writable(path: Path) -> Path:
    """A file that a command is to write; of a link, the file that it leads to.

    Raises:
        CourseError: there is a folder or a device of this name, or no folder to write it into.
    """
    path = path.resolve() if path.is_symlink() else path
    if path.is_dir():
        raise CourseError(f"{path} is a folder: name a file in it")
    if path.exists() and not path.is_file():
        raise CourseError(f"{path} is no file: name one")
    if not path.parent.is_dir():
        raise CourseError(f"there is no folder {path.parent}: make it first")
    return path


def devices(gpus: str) -> tuple[str, ...]:
    """The devices of `--gpus`."""
    return tuple(name.strip() for name in gpus.split(",") if name.strip())


def print_to_mark(waiting: dict[str, dict[str, int]]) -> None:
    """Say how many answers wait for a person, and where."""
    answers = sum(sum(students.values()) for students in waiting.values())
    if answers:
        hand_ins = sum(map(len, waiting.values()))
        how = BY_HAND.format(chosen.get("tree", ".course/"))
        told = f"{answers} written answers of {hand_ins} hand-ins wait for a person: {how}"
        console.print(told, markup=False, soft_wrap=True)


def print_json(*records: Any) -> None:
    """A line for machines: the record; or, of two, the one before and the one after."""
    import json as encoder

    stated = [record.stated() for record in records]
    value = stated[0] if len(stated) == 1 else {"before": stated[0], "after": stated[1]}
    print(encoder.dumps(value, ensure_ascii=False), flush=True)


def print_plain_json(record: Any) -> None:
    """A line for machines: a record of plain data."""
    import json as encoder
    from dataclasses import asdict

    print(encoder.dumps(asdict(record), ensure_ascii=False), flush=True)


def print_audited(done: list) -> None:
    """A line for each run that was trained again."""
    from autograder.grading.audit import AGREES

    table = Table(box=None, header_style="bold")
    headings = ("student", "experiment", "seed", "handed in", "found", "equal, %", "likeness", "asked for", "", "why")
    for heading in headings:
        right = heading in ("seed", "handed in", "found", "equal, %", "likeness")
        table.add_column(heading, justify="right" if right else "left", overflow="fold")
    for one in done:
        shares = (one.claimed, one.found, f"{100 * one.agreement:.1f}")
        verdict = one.verdict if one.verdict == AGREES else f"{one.verdict.upper()}: ask the student"
        why = Text("; ".join(one.reasons) or "by chance")
        likeness = f"{one.likeness:.4f}"
        table.add_row(one.student, one.experiment, str(one.seed), *shares, likeness, one.asked, verdict, why)
    console.print(table)


def print_changes(pairs: list) -> None:
    """A line per verdict that is another one, and how many hand-ins and scores changed."""
    scores = print_verdicts(pairs)
    summary = f"{len(pairs)} hand-in{'s' * (len(pairs) != 1)} graded again, {scores} score{'s' * (scores != 1)} changed"
    console.print(f"{summary}; the others and all manual scores stay")


def print_previews(pairs: list) -> None:
    """What today's checks would change in published verdicts, which stay."""
    if not pairs:
        console.print("The course changed since verdicts were published. Today's checks would change none of them.")
        return
    scores = print_verdicts(pairs)
    console.print(
        f"The course changed since verdicts were published. Nothing of this is recorded: {len(pairs)} hand-ins would "
        f"have other verdicts, and {scores} another score. `autograder grade --update` changes them, `autograder "
        "regrade --exercise 1.2` those of one exercise.",
        soft_wrap=True,
    )


def print_verdicts(pairs: list) -> int:
    """A line per verdict that is another one, and per score; how many scores are others."""
    from autograder.grading.grade import changed_verdicts

    table = Table(box=None, header_style="bold")
    for heading in ("student", "exercise", "before", "after", "message now"):
        table.add_column(heading, justify="right" if heading in ("before", "after") else "left", overflow="fold")
    scores = 0
    for before, after in pairs:
        scores += before.score != after.score
        for number, old, new, sentence in changed_verdicts(before, after):
            table.add_row(after.student, number, f"{old:g}", f"{new:g}", Text(sentence))
        if before.status != after.status:
            table.add_row(after.student, after.notebook, before.status, after.status, Text(after.reason))
        if before.score != after.score:
            table.add_row(after.student, f"{after.notebook} in all", f"{before.score:g}", f"{after.score:g}", "")
    if table.rows:
        console.print(table)
    return scores


def print_records(records: list) -> None:
    """A line per hand-in in the terminal."""
    table = Table(box=None, header_style="bold")
    for heading in ("student", "notebook", "points", "remarks"):
        table.add_column(heading, justify="right" if heading == "points" else "left", overflow="fold")
    for record in records:
        points = f"{record.score:g} of {record.points:g}" if record.status == "graded" else record.status
        table.add_row(
            record.student, record.notebook, points, record.reason or "; ".join([*record.flags, *record.other_remarks])
        )
    console.print(table, markup=False)


def main() -> None:
    """Run a command; what the user can mend is told in one line and ends with status 2."""
    try:
        app()
    except CourseError as bad:
        sys.exit(_told(str(bad)))
    except Interrupted as ended:
        _told(str(ended))
        sys.exit(INTERRUPTED)
    except (KeyboardInterrupt, SystemExit) as ended:
        if isinstance(ended, SystemExit) and ended.code != INTERRUPTED:  # what typer makes of an interrupt
            raise
        _told("interrupted; what was finished is kept, and the same command goes on from there")
        sys.exit(INTERRUPTED)
    except Exception as bad:
        sandbox = sys.modules.get("autograder.sandbox.sandbox")  # most commands need none, and do not import it
        if sandbox is None or not isinstance(bad, sandbox.SandboxError):
            raise
        sys.exit(
            _told(
                f"{bad}\nHand-ins run in sandboxes, and this machine cannot make one. Grade on Linux with unprivileged "
                "user namespaces (or as root).\nIf you trust every submission with your files and your network, "
                "--trust-submissions grades without sandboxes."
            )
        )
    finally:
        gc.freeze()  # or Python, as it ends, looks once more through all that was imported: half a second


def _told(message: str) -> int:
    Terminal(stderr=True, highlight=False).print(f"autograder: {message}", markup=False, soft_wrap=True)
    return 2


if __name__ == "__main__":
    main()
