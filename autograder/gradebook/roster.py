"""The class as `.course/students.csv` lists it: whose a submission is, and what formgrader calls its student.

Without that file everybody is called what the download calls them.
"""

import contextlib
import csv
import functools
import io
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from autograder.course import Course, CourseError
from utils.experiments.student import is_letter, letters
from utils.variants import canonical

COLUMNS = ("id", "first_name", "last_name", "email", "platform_ids", "section")
MAX_NAME = 120  # bytes of an id
SEP = re.compile(r'"?sep=([,;\t])"?\r?\n', re.IGNORECASE)
IDS = (
    "id",
    "student",
    "platform_ids",
    "user_id",
    "login_id",
    "canvas_user_id",
)  # the columns that hold numbers which must not be rounded
ALIAS = re.compile(r"[\w.@+-]{1,60}")  # what may be a platform's id, or what it calls a student
ROUNDED = re.compile(r"\d[.,]?\d*E\+\d+", re.IGNORECASE)  # as spreadsheets show a long number


class NoColumn(CourseError):
    """A table lacks the column that it is about."""


@dataclass(frozen=True)
class Student:
    """A line of the roster; `platform_ids` are numbers and names that learning platforms and folders use.

    `section` is the part of the class in which a teaching assistant has the student.
    """

    id: str
    first_name: str = ""
    last_name: str = ""
    email: str = ""
    platform_ids: tuple[str, ...] = ()
    section: str = ""

    def names(self) -> set[str]:
        """What this student may be called, as `plain` writes it."""
        first, last = self.first_name, self.last_name
        names = (self.id, self.email, self.email.split("@")[0], first + last, last + first, *self.platform_ids)
        return {plain(name) for name in names} - {""}


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
        return bool(self.candidates(name, platform_id))

    def candidates(self, name: str, platform_id: str = "", account: bool = False) -> list[Student]:
        """The students who may be meant, see `find`."""
        if account:  # who may choose the name of an account could choose another student's first and last name
            ids = (
                (student, map(str.casefold, (student.id, *student.platform_ids))) for student in self.students.values()
            )
            return [student for student, known in ids if name.casefold() in known]
        by_number = [
            student for student in self.students.values() if platform_id and platform_id in student.platform_ids
        ]
        return by_number or self._called.get(plain(name), []) or (self._by_address(name) if "@" in name else [])

    def _by_address(self, name: str) -> list[Student]:
        """The students whose address is in the name of a file, with other words around it."""
        around = r"(?<![a-z0-9.+-]){}(?![a-z0-9-]|\.[a-z0-9])"
        known = [student for student in self.students.values() if student.email]
        named = [
            student
            for student in known
            if re.search(around.format(re.escape(student.email.casefold())), name.casefold())
        ]
        longest = max((len(student.email) for student in named), default=0)  # `b@x.edu` is in `a_b@x.edu` as well
        return [student for student in named if len(student.email) == longest]

    def find(
        self, name: str, platform_id: str = "", lasting: bool = True, shared: bool = False, account: bool = False
    ) -> Student:
        """Whose submission it is: by the platform's number, which is `lasting` if it is one for ever, else by the name.

        Args:
            shared: whether several files, which may be of several students, have this name or number.
            account: the name is that of an account, which is a student's `id` or one of the `platform_ids`.

        Raises:
            CourseError: nobody's, or more than one student's; the message says what to do.
        """
        students = self.candidates(name, platform_id, account)
        if len(students) == 1:
            return students[0]
        who = f"{name} (number {platform_id})" if platform_id not in ("", name) else name
        if not students:
            add = platform_id if platform_id and lasting else re.sub(r"[\s;,]+", "", name)  # which divide those ids
            like = [
                student.id
                for student in self.students.values()
                if plain(name) in map(plain, (student.first_name, student.last_name))
            ]
            if shared:
                raise CourseError(
                    f"{who} is not in {self.path.name}, and several files of this download are called that, so it may "
                    "not be one student's name: put each file into a folder with its student's name, or collect a file "
                    "alone with --student"
                )
            meant = f"did you mean {' or '.join(like)}? Else " if like else ""
            # Other words, as students write them into names of files, are not what a platform calls anybody.
            alias = f", or `{add}` to the platform_ids of one" if ALIAS.fullmatch(add) else ""
            raise CourseError(f"{who} is not in {self.path.name}: {meant}add a line there{alias}")
        several = " and ".join(student.id for student in students)
        number = f", or write {platform_id} into the platform_ids of one in {self.path.name}"
        raise CourseError(
            f"{who} may be {several}: name one of these ids (`collect FILE --student ID` for a file alone)"
            + number * bool(platform_id and lasting)
        )

    def namesakes(self) -> dict[str, list[str]]:
        """The names that several students have, each with their ids: these students write their ids into STUDENT."""
        by_name: dict[str, list[Student]] = {}
        for student in self.students.values():
            by_name.setdefault(canonical(student.first_name + student.last_name), []).append(student)
        several = (namesakes for name, namesakes in by_name.items() if name and len(namesakes) > 1)
        return {
            f"{namesakes[0].first_name} {namesakes[0].last_name}".strip(): [student.id for student in namesakes]
            for namesakes in several
        }

    def is_another(self, name: str, student: str) -> bool:
        """Whether numbers drawn for `name`, see `utils.variants`, are those of somebody else than `student`."""
        return bool(self._drawn.get(canonical(name), set()) - {student})


def load(course: Course) -> Roster | None:
    """The roster of the course, or None if it has none.

    Raises:
        CourseError: the file is not such a list; the message names the line.
    """
    path = course.tree / "students.csv"
    if not path.exists():
        return None
    state = path.stat()
    return _read(path, (state.st_mtime_ns, state.st_size, state.st_ino))


@functools.lru_cache(maxsize=1)
def _read(path: Path, state: tuple[int, ...]) -> Roster:
    """The roster in this file, read again when its `state` has changed: it is asked for at each submission."""
    students = []
    for line, row in rows(path, COLUMNS):
        identifier = row["id"]
        if (
            not identifier
            or not all(is_letter(letter) or letter in "_.@+-" for letter in identifier)
            or identifier[0] in ".@+-"
        ):
            raise CourseError(
                f"{path}, line {line}: `{identifier}` cannot be an id: letters, digits and . _ @ + - only"
            )
        ids = tuple(filter(None, re.split(r"[\s;,]+", row["platform_ids"])))
        students.append(Student(identifier, row["first_name"], row["last_name"], row["email"], ids, row["section"]))
    for what, values in (
        ("id", [student.id for student in students]),
        ("platform id", [number for student in students for number in student.platform_ids]),
    ):
        twice = [value for value, times in Counter(values).items() if times > 1]
        if twice:
            raise CourseError(f"{path}: the {what} {twice[0]} is there twice; it must belong to one student")
    return Roster(path, students)


def in_section(course: Course, section: str) -> set[str]:
    """The ids of the students of a section of the class.

    Raises:
        CourseError: there is no such section; the message names those that there are.
    """
    known = load(course)
    students = known.students.values() if known else ()
    members = {student.id for student in students if student.section.casefold() == section.casefold()}
    if not members:
        there = ", ".join(sorted({student.section for student in students} - {""}))
        raise CourseError(
            f"there is no section {section} in {course.tree / 'students.csv'}; its column `section` "
            + (f"has {there}" if there else "is where a section is written")
        )
    return members


def slug(name: str) -> str:
    """A student's name as a folder name: letters and vowel signs of any script, digits, `. _ @ + -`; spaces become `_`.

    It begins with none of the signs that a shell, a folder listing or a spreadsheet reads in its own way.
    """
    name = re.sub(r"\s+", "_", unicodedata.normalize("NFC", name).strip())
    kept = "".join(letter for letter in name if is_letter(letter) or letter in "_.@+-")
    return kept.lstrip(".-+@").encode()[:MAX_NAME].decode(errors="ignore")


def called(course: Course, student: str) -> tuple[str, str]:
    """First and last name of a student out of the one that a download gave; "" twice if none did."""
    known = course.tree / "handins" / student / "name.txt"
    if not known.exists():
        return "", ""
    first, _, last = known.read_text().rpartition(" ")
    return first, last


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
        people = rows(path, ("first_name", "last_name"))
    except NoColumn:
        raise CourseError(f"{path} has no column `student` or `name`, nor `first_name` and `last_name`") from None
    return [f"{row['first_name']} {row['last_name']}".strip() for _, row in people]


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
    table, line, above = [], 0, whole.count("\n") - text.count("\n")
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
                table.append((line, {column: values.get(column, "") for column in columns}))
    except csv.Error as bad:  # a field of very many signs, often since a quote is not closed
        raise CourseError(f"{path} cannot be read behind line {line} ({bad}): is a quote there not closed?") from None
    return table


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
