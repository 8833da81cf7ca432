"""The class as `.course/students.csv` lists it: whose a hand-in is, and what formgrader calls its student.

Without that file everybody is called what the download calls them.
"""

import contextlib
import csv
import datetime
import functools
import io
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from autograder.course import Course, CourseError, NotebookEntry
from utils.experiments.student import is_letter, letters
from utils.files import write
from utils.variants import canonical

Extension = datetime.timedelta | datetime.datetime | None  # so much more time; until then; excused
COLUMNS = ("id", "first_name", "last_name", "email", "platform_ids")
SEP = re.compile(r'"?sep=([,;\t])"?\r?\n', re.IGNORECASE)
IDS = ("id", "student", "platform_ids")  # the columns that hold numbers which must not be rounded
ROUNDED = re.compile(r"\d[.,]?\d*E\+\d+", re.IGNORECASE)  # as spreadsheets show a long number
GRANTED = ("student", "notebook", "extension", "reason")


class NoColumn(CourseError):
    """A table lacks the column that it is about."""


@dataclass(frozen=True)
class Student:
    """A line of the roster; `platform_ids` are numbers and names that learning platforms and folders use."""

    id: str
    first_name: str = ""
    last_name: str = ""
    email: str = ""
    platform_ids: tuple[str, ...] = ()

    def names(self) -> set[str]:
        """What this student may be called, as `plain` writes it."""
        first, last = self.first_name, self.last_name
        names = (self.id, self.email, self.email.split("@")[0], first + last, last + first, *self.platform_ids)
        return {plain(one) for one in names} - {""}


class Roster:
    """The students of the class."""

    def __init__(self, path: Path, students: list[Student]):
        self.path, self.students = path, {student.id: student for student in students}
        self._called: dict[str, list[Student]] = {}  # by each name
        self._drawn: dict[str, set[str]] = {}  # ids, by each name as numbers are drawn from it
        for one in students:
            for name in one.names():
                self._called.setdefault(name, []).append(one)
                self._drawn.setdefault(canonical(name), set()).add(one.id)

    def has(self, name: str, platform_id: str = "") -> bool:
        """Whether it may be a student of the class, or one of several."""
        return bool(self._found(name, platform_id))

    def _found(self, name: str, platform_id: str, account: bool = False) -> list[Student]:
        if account:  # who may choose the name of an account could choose another student's first and last name
            ids = ((one, map(str.casefold, (one.id, *one.platform_ids))) for one in self.students.values())
            return [one for one, known in ids if name.casefold() in known]
        found = [one for one in self.students.values() if platform_id and platform_id in one.platform_ids]
        return found or self._called.get(plain(name), [])

    def find(
        self, name: str, platform_id: str = "", lasting: bool = True, shared: bool = False, account: bool = False
    ) -> Student:
        """Whose hand-in it is: by the platform's number, which is `lasting` if it is one for ever, else by the name.

        Args:
            shared: whether several files, which may be of several students, have this name or number.
            account: the name is that of an account, which is a student's `id` or one of the `platform_ids`.

        Raises:
            CourseError: nobody's, or more than one student's; the message says what to do.
        """
        found = self._found(name, platform_id, account)
        if len(found) == 1:
            return found[0]
        who = f"{name} (number {platform_id})" if platform_id not in ("", name) else name
        if not found:
            add = platform_id if platform_id and lasting else re.sub(r"[\s;,]+", "", name)  # which divide those ids
            like = [
                one.id for one in self.students.values() if plain(name) in map(plain, (one.first_name, one.last_name))
            ]
            if shared:
                raise CourseError(
                    f"{who} is not in {self.path.name}, and several files of this download are called that, so it may "
                    "not be one student's name: put each file into a folder with its student's name, or collect a file "
                    "alone with --student"
                )
            meant = f"did you mean {' or '.join(like)}? Else " if like else ""
            raise CourseError(
                f"{who} is not in {self.path.name}: {meant}add a line there, or `{add}` to the platform_ids of one"
            )
        several = " and ".join(one.id for one in found)
        raise CourseError(
            f"{who} may be {several}: name one of these ids (`collect FILE --student ID` for a file alone), or write "
            f"the platform's number into platform_ids in {self.path.name}"
        )

    def namesakes(self) -> dict[str, list[str]]:
        """The names that several students have, each with their ids: these students write their ids into STUDENT."""
        found: dict[str, list[Student]] = {}
        for one in self.students.values():
            found.setdefault(canonical(one.first_name + one.last_name), []).append(one)
        several = (some for name, some in found.items() if name and len(some) > 1)
        return {f"{some[0].first_name} {some[0].last_name}".strip(): [one.id for one in some] for some in several}

    def is_another(self, name: str, student: str) -> bool:
        """Whether numbers drawn for `name`, see `utils.variants`, are those of somebody else than `student`."""
        return bool(self._drawn.get(canonical(name), set()) - {student})


def load(course: Course) -> Roster | None:
    """The roster of the course, or None if it has none.

    Raises:
        CourseError: the file is no such list; the message names the line.
    """
    path = course.tree / "students.csv"
    if not path.exists():
        return None
    state = path.stat()
    return _read(path, (state.st_mtime_ns, state.st_size, state.st_ino))


@functools.lru_cache(maxsize=1)
def _read(path: Path, state: tuple[int, ...]) -> Roster:
    """The roster in this file, read again when its `state` has changed: it is asked for at each hand-in."""
    students = []
    for line, row in rows(path, COLUMNS):
        identifier = row["id"]
        if not identifier or not all(is_letter(one) or one in "_.@+-" for one in identifier) or identifier[0] in ".@+-":
            raise CourseError(
                f"{path}, line {line}: `{identifier}` cannot be an id: letters, digits and . _ @ + - only"
            )
        ids = tuple(filter(None, re.split(r"[\s;,]+", row["platform_ids"])))
        students.append(Student(identifier, row["first_name"], row["last_name"], row["email"], ids))
    for what, values in (
        ("id", [one.id for one in students]),
        ("platform id", [number for one in students for number in one.platform_ids]),
    ):
        twice = [value for value, times in Counter(values).items() if times > 1]
        if twice:
            raise CourseError(f"{path}: the {what} {twice[0]} stands there twice; it must be one student's")
    return Roster(path, students)


def called(course: Course, student: str) -> tuple[str, str]:
    """First and last name of a student out of the one that a download gave; "" twice if none did."""
    known = course.tree / "handins" / student / "name.txt"
    if not known.exists():
        return "", ""
    first, _, last = known.read_text().rpartition(" ")
    return first, last


def extensions(course: Course) -> dict[tuple[str, str], Extension]:
    """What `.course/extensions.csv` grants, by student and notebook.

    Raises:
        CourseError: the file cannot be understood; the message names the line.
    """
    path, found, known = course.tree / "extensions.csv", {}, load(course)
    for line, row in rows(path, GRANTED):
        try:
            if not row["notebook"]:
                raise ValueError("it names no notebook; are its columns divided by the same sign as those of line 1?")
            name = course.notebook(row["notebook"]).name
            if known and row["student"] not in known.students:
                raise ValueError(f"`{row['student']}` is no id in {known.path.name}")
            found[row["student"], name] = _extension(row["extension"])
        except (CourseError, ValueError) as bad:
            raise CourseError(f"{path}, line {line}: {bad}") from None
    return found


def granted(course: Course) -> list[dict[str, str]]:
    """The lines of `.course/extensions.csv` as they stand there, by column.

    Raises: as `extensions`.
    """
    extensions(course)
    return [row for _, row in rows(course.tree / "extensions.csv", GRANTED)]


def grant(course: Course, student: str, entry: NotebookEntry, extension: str, reason: str = "") -> str:
    """Write an extension into `.course/extensions.csv`, in place of an earlier one; whose it is, by id.

    Args:
        student: an id; of a student in the roster, a name or a platform's number will do.

    Raises:
        CourseError: the extension is none, the student is not in the roster, or the file cannot be understood.
    """
    try:
        _extension(extension)
    except ValueError as bad:
        raise CourseError(str(bad)) from None
    student = _id_of(course, student)
    _write(course, student, entry, {"extension": extension, "reason": reason})
    return student


def withdraw(course: Course, student: str, entry: NotebookEntry) -> str:
    """Take an extension out of `.course/extensions.csv`; whose it was, by id.

    Raises:
        CourseError: there is none, or the file cannot be understood.
    """
    student = _id_of(course, student)
    if (student, entry.name) not in extensions(course):
        raise CourseError(
            f"{student} has no extension for {entry.name}: `autograder extend` shows those that there are"
        )
    _write(course, student, entry, None)
    return student


def _id_of(course: Course, student: str) -> str:
    known = load(course)
    return student if known is None or student in known.students else known.find(student, student).id


def _write(course: Course, student: str, entry: NotebookEntry, more: dict[str, str] | None) -> None:
    """Write the extensions anew: without the one of a student for a notebook, and with `more` in its place."""
    extensions(course)  # nothing is written into a file that cannot be understood
    path = course.tree / "extensions.csv"
    text = path.read_text(encoding="utf-8-sig") if path.exists() else ",".join(GRANTED)
    text, separator = without_sep(text)
    head, *lines = csv.reader(io.StringIO(text), delimiter=separator)
    names = [name.strip() for name in head]
    kept = []
    for line in lines:
        row = dict(zip(names, (cell.strip() for cell in line), strict=False))
        if any(row.values()) and (row["student"], course.notebook(row["notebook"]).name) != (student, entry.name):
            kept.append(line)
    if more is not None:
        added = {"student": student, "notebook": entry.name} | more
        names, head = ([*some, *(one for one in added if one not in names)] for some in (names, head))
        kept.append([added.get(name, "") for name in names])
    written = io.StringIO(newline="")
    csv.writer(written, delimiter=separator, lineterminator="\n").writerows([head, *kept])
    write(path, written.getvalue())


def _extension(text: str) -> Extension:
    amount = re.fullmatch(r"(\d+(?:\.\d+)?) ?(day|hour|minute)s?", text)
    if amount:
        return datetime.timedelta(**{f"{amount[2]}s": float(amount[1])})
    if text == "excused":
        return None
    try:
        until = datetime.datetime.fromisoformat(text)
    except ValueError:
        until = datetime.datetime.min
    if until.utcoffset() is None:
        raise ValueError(
            f"`{text}` is no extension: 3 days, 36 hours, 2027-02-10T23:59:00+01:00 (with its offset) or excused"
        )
    return until


def extra_time(granted: Extension, due: datetime.datetime, handed_in: datetime.datetime) -> datetime.timedelta:
    """How much later than `due` a student may hand in, as nbgrader keeps it; both times are UTC without an offset."""
    if granted is None:  # excused: as much as was needed
        return max(handed_in - due, datetime.timedelta(0))
    if isinstance(granted, datetime.datetime):
        return granted.astimezone(datetime.UTC).replace(tzinfo=None) - due
    return granted


def listed(path: Path) -> list[str]:
    """The names of the students in a CSV file: of a column `student` or `name`, else first and last names.

    Raises:
        CourseError: it cannot be read, is missing, or has no such column.
    """
    if not path.exists():
        raise CourseError(f"{path} does not exist")
    for column in ("student", "name"):
        with contextlib.suppress(NoColumn):
            return [row[column] for _, row in rows(path, (column,))]
    try:
        found = rows(path, ("first_name", "last_name"))
    except NoColumn:
        raise CourseError(f"{path} has no column `student` or `name`, nor `first_name` and `last_name`") from None
    return [f"{row['first_name']} {row['last_name']}".strip() for _, row in found]


def rows(path: Path, columns: tuple[str, ...]) -> list[tuple[int, dict[str, str]]]:
    """The rows of a CSV file with their line numbers, "" for a column that it lacks; [] if there is no such file.

    The first column is needed. Commas or semicolons separate, as spreadsheets write them.

    Raises:
        CourseError: it cannot be read; the message says why. Of a file without the first column it is a `NoColumn`.
    """
    if not path.exists():
        return []
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as bad:
        raise CourseError(f"{path} cannot be read ({bad}): save it as CSV in UTF-8") from None
    whole = text
    text, separator = without_sep(text)
    reader = csv.DictReader(io.StringIO(text), delimiter=separator)
    found, line, above = [], 0, whole.count("\n") - text.count("\n")
    try:
        known = [(name or "").strip() for name in reader.fieldnames or ()]
        if columns[0] not in known:
            raise NoColumn(f"{path} has no column `{columns[0]}`; its first line is {','.join(columns)}")
        for row in reader:
            line = reader.line_num + above
            values = {
                (name or "").strip(): unicodedata.normalize("NFC", value).strip()
                for name, value in row.items()
                if isinstance(value, str)
            }
            rounded = [values[column] for column in IDS if ROUNDED.fullmatch(values.get(column, ""))]
            if rounded:
                raise CourseError(
                    f"{path}, line {line}: a spreadsheet has rounded a number to {rounded[0]}, and the rest is lost: "
                    "open the original in the spreadsheet with that column as text, and save it as CSV again"
                )
            if any(values.values()):
                found.append((line, {column: values.get(column, "") for column in columns}))
    except csv.Error as bad:  # a field of very many signs, often since a quote is not closed
        raise CourseError(f"{path} cannot be read behind line {line} ({bad}): is a quote there not closed?") from None
    return found


def without_sep(text: str) -> tuple[str, str]:
    """A CSV file without the first line `sep=;` that spreadsheets write for each other, and what separates columns."""
    if stated := SEP.match(text):
        return text[stated.end() :], stated[1]
    return text, _separator(text)


def _separator(text: str) -> str:
    """What separates the columns of a CSV file, by its first line."""
    head = text.split("\n", 1)[0]
    return ";" if head.count(";") > head.count(",") else ","


def plain(name: str) -> str:
    """A name without case, accents, spaces and signs, as names are compared."""
    return letters(name.casefold())
