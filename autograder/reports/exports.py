"""Scores as files that learning platforms import: a row for each student of the class, or without a roster for each
who handed in. A member of a team has the team's scores.

Where each format is described, and what of it is used here:

- Canvas: https://github.com/instructure/canvas-lms/blob/master/lib/gradebook_importer.rb (the columns; students are
  found by Canvas's number, else the SIS id, else the login, else the name; assignments by their title; "EX" excuses).
- Moodle: https://docs.moodle.org/405/en/Grade_import, and for "no grade"
  https://github.com/moodle/moodle/blob/main/grade/import/csv/classes/load_data.php: an empty cell of a new grade item
  is stored as 0, a minus sign is not.
- Blackboard: https://und.teamdynamix.com/TDClient/2048/IT/KB/ArticleDet?ID=59084 (the user name says
  whose a row is, a column without Blackboard's number becomes a new text column).
- Gradescope has no import of grades. The columns are those of its own export, for whatever reads that:
  https://github.com/cs161-staff/grades-py.

Every value is in quotes, as Blackboard's own are; the readers of the others know quotes too.
"""

import csv
import io
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from autograder import html_cleaning
from autograder.cells import CellRole, exercise_of, role_of
from autograder.course import Course, CourseError, NotebookEntry, Total
from autograder.gradebook import extensions, marks, roster, teams
from autograder.gradebook.marks import Marked
from autograder.gradebook.roster import Student
from autograder.gradebook.safe_names import FORMULA
from autograder.grading import history
from autograder.grading.grading_record import ANEW, UNGRADABLE, jobs, load_record, students_of
from autograder.grading.lateness import settle
from autograder.intake import origins
from autograder.reports import progress, report
from utils.files import write

CSV, TOTALS = "csv", "totals"


@dataclass(frozen=True)
class Column:
    """Scores under one heading. Who handed in and is not in `scores` has no mark yet."""

    heading: str
    points: float  # that there are
    scores: dict[str, float]  # by student
    excused: frozenset[str] = frozenset()  # students for whom it does not count
    absent: frozenset[str] = frozenset()  # students who handed nothing in


@dataclass(frozen=True)
class Class:
    """What a format writes: the students in their order, the columns, and what the platform's downloads called whom."""

    students: list[Student]
    columns: list[Column]
    listed: bool  # in the roster; else they are called what the download calls them
    platform_ids: dict[str, str]  # by student, "" if that is not known
    total: Total  # how notebooks are added up
    entries: Sequence[NotebookEntry]  # the notebook of each column, if there is one for each


@dataclass(frozen=True)
class Exported:
    """How many rows were written, whether into an earlier file, and what somebody should know of them, a line each."""

    rows: int
    replaced: bool
    notes: list[str]


@dataclass(frozen=True)
class Format:
    """How a platform wants its file."""

    platform: str  # its name; its downloads may say its numbers of students
    table: Callable[[Class], list[list[str]]]
    excuses: bool = False  # the file can say that somebody is excused
    needs_roster: bool = False  # no download says by what the platform knows students
    encoding: str = "utf-8"
    adds_up: bool = False  # the platform sums all columns, so the exercises come instead of the total


def write_scores(
    course: Course,
    entries: list[NotebookEntry],
    path: Path,
    form: str = CSV,
    exercises: bool = False,
    section: str = "",
    zero: bool = False,
) -> Exported:
    """Write the scores of these notebooks in one of `FORMATS`, or as `csv`, see `report.scores`.

    Platforms get a column for each notebook, late penalties taken off, and with `exercises` one for each exercise. A
    mark that waits for a person is left blank, and so is the total that it belongs to.

    Args:
        section: only the students of this section of the class list.
        zero: who handed nothing in and has no time left gets 0; else that is left blank.

    Raises:
        CourseError: the format needs the roster and there is none, nobody has a row, `path` is another file, or a file
            or the gradebook cannot be read. Nothing is written.
    """
    known, chosen = roster.load(course), FORMATS.get(form)
    only = _students_asked_for(course, form, exercises, section, zero)
    settle(course, entries)
    with marks.reading(course) as gradebook:
        held = {entry.name: marks.marked(gradebook, entry) if gradebook else {} for entry in entries}
        called = marks.students(gradebook) if gradebook else []
    marked = {entry.name: _within(teams.by_student(course, entry, held[entry.name]), only) for entry in entries}
    granted = extensions.extensions(course)
    there = {student for of_notebook in marked.values() for student in of_notebook}
    if not there:
        first = "" if any(students_of(course, entry) for entry in entries) else "`autograder collect SOURCE`, then "
        of = f" of section {section}" if section else ""
        raise CourseError(f"nothing was written, since nothing of it{of} is graded: run {first}`autograder grade`")
    begun = [entry for entry in entries if marked[entry.name]]
    came = {entry.name: {*marked[entry.name], *_submitters(course, entry)} for entry in begun}
    missing = {entry.name: _absent(course, entry, came[entry.name], granted, known, only, zero) for entry in begun}
    if chosen:
        columns = []
        for entry in begun:
            away = _excused(course, entry, known, there, granted)
            columns += _columns(entry, marked[entry.name], exercises, chosen.adds_up, missing[entry.name], away)
        people = _people(course, known, called, there, only)
        ids = {person.id: _platform_id(course, entries, person.id, chosen.platform) for person in people}
        file = io.StringIO()
        write_rows(file, chosen.table(Class(people, columns, known is not None, ids, course.total, begun)))
        rows, text = len(people), file.getvalue().encode(chosen.encoding)
    else:
        table = report.scores(course, entries, only, missing)
        rows, text = len(table), table.to_csv(index=False, quoting=csv.QUOTE_ALL).encode()
    replaced = _replaces(path, text)
    write(path, text)
    for entry in entries if chosen and chosen.platform else ():
        _publish(course, entry, held[entry.name], marked[entry.name], f"export --format {form}")
    notes = _notes(course, entries, held, known, ", so left out" if chosen else "", only, missing)
    how = f", so left blank: {chosen.platform}'s file has no word for it" if chosen and not chosen.excuses else ""
    for entry in begun:
        notes += _note_excused(entry, _excused(course, entry, known, there, granted), only, how)
    return Exported(rows, replaced, notes)


def _students_asked_for(course: Course, form: str, exercises: bool, section: str, zero: bool) -> Collection[str] | None:
    """The students of a section; None: all.

    Raises:
        CourseError: what is asked for does not go together, or needs the class list.
    """
    known, chosen = roster.load(course), FORMATS.get(form)
    if exercises and form == TOTALS:
        raise CourseError("totals are of whole notebooks: --exercises goes with a platform's format")
    if zero and not known:
        raise CourseError(
            f"--zero needs to know who is in the class: list the students in {course.tree / 'students.csv'}"
        )
    only = roster.in_section(course, section) if section else None
    if chosen and chosen.needs_roster and not known:
        raise CourseError(
            f"{chosen.platform} knows students by id and e-mail, which no download says: list them in "
            f"{course.tree / 'students.csv'}"
        )
    return only


def _note_excused(entry: NotebookEntry, excused: Collection[str], only: Collection[str] | None, how: str) -> list[str]:
    """A note on the students for whom a notebook does not count, if there are any."""
    names = sorted(student for student in excused if only is None or student in only)
    return [f"{entry.name}: excused{how}: {', '.join(names)}"] if names else []


def _people(
    course: Course,
    known: roster.Roster | None,
    called: list[Student],
    there: set[str],
    only: Collection[str] | None,
) -> list[Student]:
    """Who has a row: the class, or without a list those who are graded.

    Raises:
        CourseError: nobody who is graded is in the list.
    """
    people = [*known.students.values()] if known else _as_named(course, called, there)
    if known and not there & {*known.students}:
        raise CourseError(f"nobody who is graded is in {known.path}: {', '.join(sorted(there))}")
    people = [person for person in people if only is None or person.id in only]
    return sorted(people, key=lambda person: (person.last_name.casefold(), person.first_name.casefold(), person.id))


def _publish(
    course: Course, entry: NotebookEntry, submitters: Iterable[str], listed: Collection[str], how: str
) -> None:
    """Note that the verdicts of these submissions, as far as their students are `listed`, were published."""
    for submitter in submitters:
        record = load_record(course, entry, submitter)
        if record is not None and {*teams.recipients(course, entry, submitter)} & {*listed}:
            history.publish(course, entry, record, how)


def _named(course: Course, entry: NotebookEntry, submitters: Iterable[str], only: Collection[str] | None) -> str:
    """The students for whom these submissions count, as far as the file is about them."""
    people = (student for submitter in submitters for student in teams.recipients(course, entry, submitter))
    return ", ".join(sorted(person for person in people if only is None or person in only))


def _within(marked: dict[str, Marked], only: Collection[str] | None) -> dict[str, Marked]:
    """What is known of these students."""
    return {student: mark for student, mark in marked.items() if only is None or student in only}


def _submitters(course: Course, entry: NotebookEntry) -> set[str]:
    """The students for whom somebody handed a notebook in."""
    return {
        student for submitter in students_of(course, entry) for student in teams.recipients(course, entry, submitter)
    }


def _excused(
    course: Course,
    entry: NotebookEntry,
    known: roster.Roster | None,
    there: Collection[str],
    granted: dict[tuple[str, str], extensions.Extension],
) -> frozenset[str]:
    """The students of the class for whom a notebook does not count."""
    everybody = known.students if known else there
    return frozenset(student for student in everybody if extensions.is_excused(course, entry, student, granted))


def _absent(
    course: Course,
    entry: NotebookEntry,
    handed_in: Collection[str],
    granted: dict[tuple[str, str], extensions.Extension],
    known: roster.Roster | None,
    only: Collection[str] | None,
    zero: bool,
) -> dict[str, float | None]:
    """Who handed nothing in, with what that counts: None, or with `zero` 0 for everybody whose time is over."""
    absent: dict[str, float | None] = {}
    for student in sorted({*known.students} - {*handed_in}) if known else ():
        if only is None or student in only:
            over = zero and extensions.is_over(course, entry, student, granted)
            absent[student] = 0.0 if over and not extensions.is_excused(course, entry, student, granted) else None
    return absent


def _as_named(course: Course, called: list[Student], there: Collection[str]) -> list[Student]:
    """Students as their downloads call them, where the gradebook calls them so; there names have lost their markup."""
    named, listed = [], {student.id: student for student in called}
    for person in (listed.get(student, Student(student)) for student in sorted(there)):
        first, last = roster.called(course, person.id)
        same = (html_cleaning.name(first), html_cleaning.name(last)) == (person.first_name, person.last_name)
        named.append(replace(person, first_name=first, last_name=last) if same or person.id not in listed else person)
    return named


def _replaces(path: Path, text: bytes) -> bool:
    """Whether there is an earlier file of the same form, which may go: its first columns are those of `text`.

    Raises:
        CourseError: there is a file that is another one.
    """
    if not path.exists() or not (old := path.read_bytes()):
        return False
    if _head(old) != _head(text):
        raise CourseError(f"{path} is there and is another file: name another one with --to, or remove it")
    return True


def _head(text: bytes) -> list[str]:
    """The first three headings: every form has others."""
    first = text.decode("utf-8-sig", errors="replace").partition("\n")[0]
    try:
        return next(csv.reader([first]), [])[:3]
    except csv.Error:  # a file of somebody else's
        return []


def _platform_id(course: Course, entries: list[NotebookEntry], student: str, platform: str) -> str:
    """What a platform's downloads called a student; "" if that is not known."""
    known = (origins.origin_of(course, entry, student) for entry in entries)
    return next((origin.id for origin in known if origin and origin.platform.removesuffix(" quiz") == platform), "")


def _columns(
    entry: NotebookEntry,
    marked: dict[str, Marked],
    exercises: bool,
    instead: bool,
    missing: Mapping[str, float | None],
    excused: frozenset[str],
) -> list[Column]:
    """A notebook's total; with `exercises` these and what is lost by lateness before it, or `instead` of it.

    `missing` are those who handed nothing in, with what that counts.
    """
    if not marked:
        return []
    nothing = {student: score for student, score in missing.items() if score is not None}
    about = excused, frozenset(missing)
    done = {
        student: theirs for student, theirs in marked.items() if not any(mark.waits for mark in theirs.marks.values())
    }
    cells = {cell: mark.points for theirs in marked.values() for cell, mark in theirs.marks.items()}
    sums = {
        student: sum(mark.score for mark in theirs.marks.values()) - theirs.penalty for student, theirs in done.items()
    }
    heading = entry.column or entry.name
    total = Column(heading, sum(cells.values()), sums | nothing, *about)
    if not exercises:
        return [total]
    columns = []
    for cell in sorted(cells, key=_order):
        given = {student: theirs.marks[cell] for student, theirs in marked.items() if cell in theirs.marks}
        scores = {student: mark.score for student, mark in given.items() if not mark.waits}
        columns.append(Column(f"{heading} {exercise_of(cell)}", cells[cell], scores | nothing, *about))
    if any(theirs.penalty for theirs in marked.values()):
        lost = {student: -theirs.penalty for student, theirs in done.items()}
        columns.append(Column(f"{heading} late", 0.0, lost | nothing, *about))
    return columns if instead else [*columns, total]


def _order(cell: str) -> tuple[bool, list[int]]:
    """Exercises by number, written answers behind them."""
    return role_of(cell) is CellRole.WRITTEN, [int(part) for part in re.findall(r"\d+", cell)]


def _notes(
    course: Course,
    entries: list[NotebookEntry],
    marked: dict[str, dict[str, Marked]],
    known: roster.Roster | None,
    so: str,
    only: Collection[str] | None = None,
    missing: Mapping[str, Mapping[str, float | None]] | None = None,
) -> list[str]:
    """What the file does not say: who is missing in it, and how many marks. `so` says what became of strangers.

    `marked` is by student or team. With `only`, it is about these students.
    """
    sentences: list[str] = []
    strangers: set[str] = set()

    for entry in entries:
        graded = {submitter for submitter in marked[entry.name] if teams.recipients(course, entry, submitter)}
        handed_in = {*students_of(course, entry), *graded}
        people = {student for submitter in handed_in for student in teams.recipients(course, entry, submitter)}
        if not handed_in:
            continue
        if known and only is None:
            strangers |= people - {*known.students}
        sentences += _note_absent(course, entry, only, (missing or {}).get(entry.name, {}))
        there = jobs(course, entry, only)
        refused = [
            submitter
            for submitter in sorted(handed_in)
            if (record := load_record(course, entry, submitter)) and record.status == UNGRADABLE
        ]
        late = [job.student for job in there if job.marked_late]
        which = "1 submission is" if len(late) == 1 else f"{len(late)} submissions are"
        for submitters, sentence in (
            (handed_in - graded, "no marks yet"),
            (late, f"{which} marked late, time unknown, and nothing is taken off"),
            (
                [job.student for job in there if job.student in graded and job.state() == ANEW],
                "handed in again, with the previous marks",
            ),
            (refused, "could not be graded, so 0"),
        ):
            if who := _named(course, entry, submitters, only):
                sentences.append(f"{entry.name}: {sentence}: {who}")
        waiting = [
            sum(mark.waits for mark in marked[entry.name][submitter].marks.values())
            for submitter in graded
            if _named(course, entry, [submitter], only)
        ]
        if any(waiting):
            hand_ins = sum(map(bool, waiting))
            blank = f"{sum(waiting)} marks of {hand_ins} submissions wait for a person and are left blank"
            sentences.append(f"{entry.name}: {blank}")
    if strangers and known:
        sentences.append(f"handed in and not in {known.path.name}{so}: {', '.join(sorted(strangers))}")
    return sentences


def _note_absent(
    course: Course, entry: NotebookEntry, only: Collection[str] | None, given: Mapping[str, float | None]
) -> list[str]:
    """Who has handed in nothing; who is `given` a score has a sentence apart."""
    absent = [student for student in progress.missing(course, entry) if only is None or student in only]
    zeros = [student for student in absent if given.get(student) is not None]
    others = [student for student in absent if given.get(student) is None]
    both = ((others, "no submission of"), (zeros, "no submission, so 0, of"))
    return [f"{entry.name}: {what} {', '.join(students)}" for students, what in both if students]


def write_rows(file: TextIO, rows: Iterable[Iterable[str]]) -> None:
    """Write the rows of a table as CSV, every value in quotes: all who read these files know them."""
    csv.writer(file, quoting=csv.QUOTE_ALL).writerows(rows)


def harmless(value: str) -> str:
    """A name in one line, with a sign before whatever is a formula in it that makes that text."""
    return FORMULA.sub(r"\1'", " ".join(value.split()))


def number_text(value: float) -> str:
    """A score without trailing zeros."""
    return f"{round(value, 4) + 0.0:.4f}".rstrip("0").rstrip(".")


def _scores(whole_class: Class, student: Student, missing: str = "", excused: str = "") -> list[str]:
    """A student's cells, `missing` where there is no mark, and `excused`, or else that, where none counts."""
    given = [(column.scores.get(student.id), student.id in column.excused) for column in whole_class.columns]
    return [(excused or missing) if away else missing if score is None else number_text(score) for score, away in given]


def _canvas(whole_class: Class) -> list[list[str]]:
    """Columns that say who it is, a row of the points that there are, then a row for each student."""
    table = [
        [
            "Student",
            "ID",
            "SIS User ID",
            "SIS Login ID",
            "Section",
            *(column.heading for column in whole_class.columns),
        ],
        ["    Points Possible", "", "", "", "", *(number_text(column.points) for column in whole_class.columns)],
    ]
    for student in whole_class.students:
        name = ", ".join(filter(None, (student.last_name, student.first_name))) or student.id
        number = whole_class.platform_ids[student.id]
        number = number if number.isdecimal() else ""  # Canvas would take the digits that it begins with
        own = student.id if whole_class.listed else ""  # nobody says which of Canvas's two it is; it looks for both
        table.append([*map(harmless, (name, number, own, own, "")), *_scores(whole_class, student, excused=report.EX)])
    return table


def _moodle(whole_class: Class) -> list[list[str]]:
    """Moodle gives a row without an e-mail to the student above it: the column is there if everybody has one."""
    mailed = all(student.email for student in whole_class.students)
    mail = ["Email address"] if mailed else []
    table = [["First name", "Last name", "ID number", *mail, *(column.heading for column in whole_class.columns)]]
    for student in whole_class.students:
        who = (student.first_name, student.last_name, student.id, *([student.email] if mailed else []))
        table.append([*map(harmless, who), *_scores(whole_class, student, "-")])
    return table


def _blackboard(whole_class: Class) -> list[list[str]]:
    """The user name says whose a row is; in the names of its download it stands too."""
    table = [["Last Name", "First Name", "Username", *(column.heading for column in whole_class.columns)]]
    for student in whole_class.students:
        who = (student.last_name, student.first_name, whole_class.platform_ids[student.id] or student.id)
        table.append([*map(harmless, who), *_scores(whole_class, student)])
    return table


def _gradescope(whole_class: Class) -> list[list[str]]:
    """Scores and points, without lateness: who reads it would take the penalty off once more."""
    headings = [part for column in whole_class.columns for part in (column.heading, f"{column.heading} - Max Points")]
    table = [["First Name", "Last Name", "SID", "Email", *headings]]
    points = [number_text(column.points) for column in whole_class.columns]
    for student in whole_class.students:
        who = (student.first_name, student.last_name, student.id, student.email)
        cells = [part for pair in zip(_scores(whole_class, student), points, strict=True) for part in pair]
        table.append([*map(harmless, who), *cells])
    return table


def totals_rows(whole_class: Class) -> list[list[str]]:
    """A column for each notebook, which of them the student's lowest are and do not count, and the total."""
    head = ["student", "last_name", "first_name", "section", *(column.heading for column in whole_class.columns)]
    table = [[*head, "dropped", f"total of {number_text(whole_class.total.points)}"]]
    for student in whole_class.students:
        who = (student.id, student.last_name, student.first_name, student.section)
        total, dropped = _total(whole_class, student)
        whole = "" if total is None else number_text(total)
        cells = _scores(whole_class, student, excused=report.EX)
        table.append([*map(harmless, who), *cells, " ".join(dropped), whole])
    return table


def _total(whole_class: Class, student: Student) -> tuple[float | None, list[str]]:
    """A student's points in all, by `[total]` of course.toml, and the numbers of the notebooks that are dropped.

    The lowest shares of the points are dropped, of equal ones the notebook that weighs less; one that was not handed in
    is the lowest. What is excused is left out. None if a mark is missing that would count, or nothing counts.
    """
    counting = []
    for entry, column in zip(whole_class.entries, whole_class.columns, strict=True):
        weight, score = whole_class.total.weight(entry), column.scores.get(student.id)
        if student.id in column.excused or not weight or not column.points:
            continue
        if score is None and student.id not in column.absent:  # it waits for a person, or is not graded yet
            return None, []
        counting.append((-1.0 if score is None else score / column.points, weight, entry.number))
    dropped = sorted(counting)[: min(whole_class.total.drop, max(len(counting) - 1, 0))]
    kept = [share for share in counting if share not in dropped]
    total = None
    if kept and all(share >= 0 for share, _, _ in kept):
        total = (
            whole_class.total.points * sum(share * weight for share, weight, _ in kept) / sum(row[1] for row in kept)
        )
    return total, sorted(number for _, _, number in dropped)


FORMATS = {
    "canvas": Format("Canvas", _canvas, excuses=True, adds_up=True),
    "moodle": Format("Moodle", _moodle, needs_roster=True),
    "gradescope": Format("Gradescope", _gradescope, needs_roster=True),
    # Its own files begin with a byte order mark.
    "blackboard": Format("Blackboard", _blackboard, encoding="utf-8-sig"),
    TOTALS: Format("", totals_rows, excuses=True),
}
