"""Extensions as `.course/extensions.csv` grants them: more time, never late, or excused, which does not count."""

import csv
import datetime
import io
import re
from collections.abc import Mapping, Sequence

from autograder.course import Course, CourseError, NotebookEntry
from autograder.gradebook import roster, teams
from utils.files import write

FILE = "extensions.csv"
NEVER_LATE, EXCUSED = "never late", "excused"  # an excused notebook does not count
ALL = "all"  # in place of a notebook: every one
Extension = datetime.timedelta | datetime.datetime | str  # so much more time; until then; one of the two words
MOST = 100_000  # weeks, days, hours or minutes
GRANTED = ("student", "notebook", "extension", "reason")


def extensions(course: Course) -> dict[tuple[str, str], Extension]:
    """What `.course/extensions.csv` grants, by student or team, and notebook. A line for a notebook goes before `all`.

    Raises:
        CourseError: the file cannot be understood; the message names the line.
    """
    path, known = course.tree / FILE, roster.load(course)
    for_notebooks: dict[tuple[str, str], Extension] = {}
    general: dict[tuple[str, str], Extension] = {}
    for line, row in roster.rows(path, GRANTED):
        try:
            if not row["notebook"]:
                raise ValueError("it names no notebook; are its columns divided by the same sign as those of line 1?")
            name = ALL if row["notebook"] == ALL else course.notebook(row["notebook"]).name
            if known and row["student"] not in known.students and not teams.load(course).name(row["student"]):
                raise ValueError(
                    f"`{row['student']}` is neither an id in {known.path.name} nor a team in {teams.FILE}. If a team "
                    "was renamed, write its new id into this line; `autograder extend "
                    f"{row['student']} {row['notebook']} --undo` takes the line out"
                )
            given = _extension(course, row["extension"])
        except (CourseError, ValueError) as bad:
            raise CourseError(f"{path}, line {line}: {bad}") from None
        if name == ALL:
            general |= {(row["student"], entry.name): given for entry in course.notebooks}
        else:
            for_notebooks[row["student"], name] = given
    return general | for_notebooks


def granted(course: Course) -> list[dict[str, str]]:
    """The lines of `.course/extensions.csv` as they are there, by column.

    Raises: as `extensions`.
    """
    extensions(course)
    return [row for _, row in roster.rows(course.tree / FILE, GRANTED)]


def grant(course: Course, student: str, entry: NotebookEntry | None, extension: str, reason: str = "") -> str:
    """Write an extension into `.course/extensions.csv`, in place of an earlier one; whose it is, by id.

    Args:
        student: an id; of a student in the roster, a name or a platform's number will do. Or a team.
        entry: the notebook; None: all of them, except where there is a line for one.

    Raises:
        CourseError: the extension is none, the student is not in the roster, or the file cannot be understood.
    """
    try:
        _extension(course, extension)
    except ValueError as bad:
        raise CourseError(str(bad)) from None
    student = teams.id_of(course, student)
    _write(course, student, entry, {"extension": extension, "reason": reason})
    return student


def withdraw(course: Course, student: str, entry: NotebookEntry | None) -> str:
    """Take an extension out of `.course/extensions.csv`; whose it was, by id.

    Raises:
        CourseError: there is none, or the file cannot be understood.
    """
    name = entry.name if entry else ALL
    rows = roster.rows(course.tree / FILE, GRANTED)
    there = {(row["student"], _notebook(course, row)) for _, row in rows if row["notebook"]}
    if (student, name) not in there:  # as it is written: a line about nobody can be taken out
        student = teams.id_of(course, student)
    if (student, name) not in there:
        raise CourseError(f"{student} has no extension for {name}: `autograder extend` shows those that there are")
    _write(course, student, entry, None)
    return student


def _notebook(course: Course, row: dict[str, str]) -> str:
    """The notebook of a line of extensions by its whole name, or `all`."""
    return ALL if row["notebook"] == ALL else course.notebook(row["notebook"]).name


def _write(course: Course, student: str, entry: NotebookEntry | None, more: dict[str, str] | None) -> None:
    """Write the extensions again: without the one of a student for a notebook, and with `more` in its place."""
    if more is not None:
        extensions(course)  # nothing is added to a file that cannot be understood
    path = course.tree / FILE
    text = path.read_text(encoding="utf-8-sig") if path.exists() else ",".join(GRANTED)
    text, separator = roster.without_sep(text)
    head, *lines = csv.reader(io.StringIO(text), delimiter=separator)
    names = [name.strip() for name in head]
    kept, notebook = [], entry.name if entry else ALL
    for line in lines:
        row = dict(zip(names, (cell.strip() for cell in line), strict=False))
        if any(row.values()) and (row["student"], _notebook(course, row)) != (student, notebook):
            kept.append(line)
    if more is not None:
        added = {"student": student, "notebook": notebook} | more
        names, head = ([*columns, *(column for column in added if column not in names)] for columns in (names, head))
        kept.append([added.get(name, "") for name in names])
    written = io.StringIO(newline="")
    csv.writer(written, delimiter=separator, lineterminator="\n").writerows([head, *kept])
    write(path, written.getvalue())


def _extension(course: Course, text: str) -> Extension:
    amount = re.fullmatch(r"(\d+(?:\.\d+)?) ?(week|day|hour|minute)s?", text)
    if amount:
        if float(amount[1]) > MOST:
            raise ValueError(f"`{text}` is longer than any extension can be")
        return datetime.timedelta(**{f"{amount[2]}s": float(amount[1])})
    if text in (NEVER_LATE, EXCUSED):
        return text
    try:
        stated = datetime.datetime.fromisoformat(text)
    except ValueError:
        stated = None
    forms = "3 days, 36 hours, 1 week, 2027-02-10T23:59:00+01:00, `never late` or `excused` (it does not count)"
    if stated is None:
        raise ValueError(f"`{text}` is not an extension: {forms}")
    if stated.utcoffset() is None:
        if not course.timezone:
            raise ValueError(
                f"`{text}` names no zone: write it with its offset, like 2027-02-10T23:59:00+01:00, or state the "
                "course's `timezone` in course.local.toml"
            )
        return course.utc(stated)
    return stated


def until(extension: Extension, due: datetime.datetime) -> datetime.datetime:
    """Until when a student may hand in who has an extension that has an end; `due` is the deadline."""
    if isinstance(extension, datetime.timedelta):
        return due + extension
    if isinstance(extension, datetime.datetime):
        return extension
    raise ValueError(f"`{extension}` has no end")


def extra_time(granted: Extension, due: datetime.datetime, handed_in: datetime.datetime) -> datetime.timedelta:
    """How much later than `due` a student may hand in, as nbgrader keeps it; both times are UTC without an offset."""
    if isinstance(granted, str):  # as much as was needed
        return max(handed_in - due, datetime.timedelta(0))
    if isinstance(granted, datetime.datetime):
        return granted.astimezone(datetime.UTC).replace(tzinfo=None) - due
    return granted


def extension_of(
    course: Course, entry: NotebookEntry, submitter_id: str, granted: Mapping[tuple[str, str], Extension]
) -> Extension | None:
    """The extension of a submission; None if there is none.

    A team has its own, or else the longest of its members'. It is excused where all its members are: who is excused
    alone takes no mark, and the others' deadline stays.
    """
    if (submitter_id, entry.name) in granted:
        return granted[submitter_id, entry.name]
    members = teams.load(course).members(entry, submitter_id)
    theirs = [granted.get((member, entry.name)) for member in members]
    if members and all(extension == EXCUSED for extension in theirs):
        return EXCUSED
    several = [extension for extension in theirs if extension is not None and extension != EXCUSED]
    due = entry.deadline
    if NEVER_LATE in several or not several or due is None:
        return NEVER_LATE if NEVER_LATE in several else next(iter(several), None)
    return max(several, key=lambda extension: until(extension, due))


def of_their_teams(course: Course, student: str, entries: Sequence[NotebookEntry]) -> list[str]:
    """What an extension of a student does for the student's teams, a sentence for each team."""
    known, sentences = extensions(course), {}
    for entry in entries:
        team = teams.load(course).of(entry, student)
        if team and (team, entry.name) in known:
            sentences[team] = (
                f"it does nothing for {entry.number}: the team {team} has an extension of its own, which counts. "
                f"`autograder extend {team} {entry.number} ...` changes that one, and with --undo takes it back"
            )
        elif team:
            sentences.setdefault(team, f"{student} is in the team {team}: the longest extension of its members counts")
    return [*sentences.values()]


def is_over(course: Course, entry: NotebookEntry, student: str, granted: Mapping[tuple[str, str], Extension]) -> bool:
    """Whether a student's time for a notebook has passed, extensions considered; one without a deadline has none."""
    if entry.deadline is None:
        return True
    team = teams.load(course).of(entry, student)
    given = [extension_of(course, entry, submitter_id, granted) for submitter_id in (student, team) if submitter_id]
    ends = [
        until(extension, entry.deadline)
        for extension in given
        if extension is not None and not isinstance(extension, str)
    ]
    if any(isinstance(extension, str) for extension in given):
        return False
    return max([*ends, entry.deadline]) < datetime.datetime.now(datetime.UTC)


def is_excused(
    course: Course, entry: NotebookEntry, student: str, granted: Mapping[tuple[str, str], Extension]
) -> bool:
    """Whether a notebook does not count for a student: the student is excused, or the whole team."""
    team = teams.load(course).of(entry, student)
    return EXCUSED in (granted.get((student, entry.name)), granted.get((team, entry.name)))
