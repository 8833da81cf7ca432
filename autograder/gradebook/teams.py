"""Teams as `.course/teams.csv` lists them: a team has one submission, one grading and one mark for all its members.

A team is kept in the course tree and in the gradebook like a student, under an id of its own. Whatever is told to
students, or of them, asks here whose submission counts for a student, and for whom a submission counts.
"""

import csv
import datetime
import functools
import io
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from autograder.course import Course, CourseError, NotebookEntry
from autograder.gradebook import course_tree, roster
from autograder.gradebook.safe_names import FORMULA
from utils.files import write

FILE = "teams.csv"
COLUMNS = ("team", "student", "notebook")
# Ours, then those of the file in which Canvas exports the groups of a group set.
TEAM = ("team", "group_name")
T = TypeVar("T")
WHO = ("student", "id", "login_id", "user_id", "canvas_user_id", "name")


@dataclass(frozen=True)
class _Row:
    """A line of the file: a member of a team, for a notebook or ("") for all."""

    line: int
    team: str
    member: str
    notebook: str


class Teams:
    """The teams of a course."""

    def __init__(self, rows: list[_Row], names: dict[str, str]):
        self.rows, self._names = rows, names
        self._of = {(row.notebook, row.member): row.team for row in rows}
        self._people: dict[str, set[str]] = defaultdict(set)
        for row in rows:
            self._people[row.team].add(row.member)

    def of(self, entry: NotebookEntry, student: str) -> str:
        """The id of a student's team for a notebook, or "". A line for the notebook goes before one for all."""
        return self._of.get((entry.name, student)) or self._of.get(("", student), "")

    def members(self, entry: NotebookEntry, team: str) -> tuple[str, ...]:
        """The members of a team for a notebook; () if it has none, or is not a team."""
        return tuple(sorted(student for student in self._people.get(team, ()) if self.of(entry, student) == team))

    def people(self, submitter: str) -> frozenset[str]:
        """Everybody who is in a team for any notebook; of a student, that student alone."""
        return frozenset(self._people.get(submitter, {submitter}))

    def teams_of(self, student: str) -> list[str]:
        """The ids of all teams of which a student is a member, for any notebook."""
        return sorted(team for team, people in self._people.items() if student in people)

    def find(self, name: str) -> str:
        """The id of the team that has this id or name; "" if none has."""
        return name if name in self._names else identifier(name) if identifier(name) in self._names else ""

    def name(self, team: str) -> str:
        """What a team is called; "" if it is not a team."""
        return self._names.get(team, "")

    def __bool__(self) -> bool:
        return bool(self.rows)


class NoTeamName(CourseError):
    """A group of a download cannot be a team under the name that it has there."""


def identifier(name: str) -> str:
    """The id of a team of this name: that of its directory, and in the gradebook."""
    return roster.slug(name)


def load(course: Course) -> Teams:
    """The teams of the course, none if there is no file.

    Raises:
        CourseError: the file cannot be understood; the message names the line.
    """
    path = course.tree / FILE
    if not path.exists():
        return Teams([], {})
    state = path.stat()
    return _read(path, course.notebooks, roster.load(course), (state.st_mtime_ns, state.st_size, state.st_ino))


@functools.lru_cache(maxsize=1)
def _read(
    path: Path, notebooks: tuple[NotebookEntry, ...], known: roster.Roster | None, state: tuple[int, ...]
) -> Teams:
    """The teams in this file, read again when its `state` or the class list has changed."""
    rows: list[_Row] = []
    names: dict[str, str] = {}
    for line, row in _lines(path):
        try:
            team, member, notebook = _understood(row, notebooks, known)
            if names.setdefault(team, row["team"]).split() != row["team"].split():
                raise CourseError(
                    f"the teams `{names[team]}` and `{row['team']}` have one id, {team}: rename one of them"
                )
            before = next((row for row in rows if (row.member, row.notebook) == (member, notebook)), None)
            if before and before.team != team:
                raise CourseError(f"{member} is in the team {before.team} already, by line {before.line}")
        except CourseError as bad:
            raise CourseError(f"{path}, line {line}: {bad}") from None
        rows.append(_Row(line, team, member, notebook))
    return Teams(rows, names)


def _lines(path: Path) -> list[tuple[int, dict[str, str]]]:
    """The lines of the file that name a team, in columns called as ours, see `WHO`; Canvas lists others as well."""
    for column in TEAM:
        with suppress(roster.NoColumn):
            rows = roster.rows(path, (column, *WHO, "notebook"))
            return [(line, row | {"team": row[column]}) for line, row in rows if row[column] or column == "team"]
    raise CourseError(f"{path} has no column `team`; its first line is {','.join(COLUMNS)}")


def _understood(
    row: dict[str, str], notebooks: tuple[NotebookEntry, ...], known: roster.Roster | None
) -> tuple[str, str, str]:
    """Team, member and notebook of a line, by their ids.

    Raises:
        CourseError: it names none, or none that there is.
    """
    team, called = identifier(row["team"]), [row[column] for column in WHO if row[column]]
    if not team:
        raise CourseError(f"`{row['team']}` cannot be the name of a team: it has no letter and no digit")
    if known and team in known.students:
        raise CourseError(f"`{row['team']}` is the id of a student: call the team something else")
    if not called:
        raise CourseError("it names no student; are its columns divided by the same sign as those of line 1?")
    named = [
        entry.name for entry in notebooks if row["notebook"] in (entry.name, entry.number, entry.number.lstrip("0"))
    ]
    if row["notebook"] and not named:
        raise CourseError(
            f"there is no notebook `{row['notebook']}`; there are {', '.join(entry.name for entry in notebooks)}"
        )
    return team, _member(called, known), named[0] if named else ""


def _member(called: list[str], known: roster.Roster | None) -> str:
    """The id of the student who is called so.

    Raises:
        CourseError: nobody is, or more than one student.
    """
    if known is None:
        return roster.slug(called[0])
    why = ""
    for name in called:
        if name in known.students:
            return name
        try:
            return known.find(name, name).id
        except CourseError as bad:
            why = why or str(bad)
    raise CourseError(why)


def id_of(course: Course, name: str) -> str:
    """The id of a student or team whom somebody calls by an id, a name or a platform's number.

    Raises:
        CourseError: it is nobody's in the class list, or more than one student's.
    """
    known = roster.load(course)
    if known is None or name in known.students:
        return name
    return load(course).find(name) or known.find(name, name).id


def kept_as(course: Course, name: str) -> str:
    """The id of whom somebody calls by a name of the class list; any other name is that of a directory, as it is."""
    known = roster.load(course)
    return id_of(course, name) if known and known.has(name, name) else name


def submitter(course: Course, entry: NotebookEntry, student: str) -> str:
    """Under which id the submission lies that counts for a student: that of the student's team, or the student's own.

    A member may have handed in alone, before the team was listed: of this submission and the team's the later counts.
    A copy of one of the team's submissions, filed before the team was listed, is not a submission of its own.
    """
    team = load(course).of(entry, student)
    if not team:
        return student
    own, theirs = (
        course_tree.place(course, "submitted", entry, submitter_id).exists() for submitter_id in (student, team)
    )
    if own and theirs:
        later = _came(course, entry, student) > _came(course, entry, team)
        return student if later and not _is_a_copy(course, entry, student, team) else team
    return student if own else team


def recipients(course: Course, entry: NotebookEntry, submitter_id: str) -> tuple[str, ...]:
    """The students for whom a submission counts; () if later ones count for all of them."""
    known = load(course)
    students = known.members(entry, submitter_id) or (submitter_id,)
    if not known:
        return students
    return tuple(student for student in students if submitter(course, entry, student) == submitter_id)


def by_student(course: Course, entry: NotebookEntry, by_submitter: Mapping[str, T]) -> dict[str, T]:
    """What is known of submissions, by the students for whom they count."""
    return {
        student: value
        for submitter_id, value in by_submitter.items()
        for student in recipients(course, entry, submitter_id)
    }


def shown(course: Course, entry: NotebookEntry, submitter_id: str) -> str:
    """An id, of a team with its members behind it."""
    members = load(course).members(entry, submitter_id)
    return f"{submitter_id} ({', '.join(members)})" if members else submitter_id


def _is_a_copy(course: Course, entry: NotebookEntry, student: str, team: str) -> bool:
    """Whether a member's submission is one that the team handed in too, with the same runs or none."""
    kept = (course.tree / "handins" / team / entry.name).glob("*.ipynb")
    own = course_tree.place(course, "submitted", entry, student).read_bytes()
    if own not in (path.read_bytes() for path in (course_tree.place(course, "submitted", entry, team), *kept)):
        return False
    runs, theirs = (course_tree.results_path(course, entry, submitter_id) for submitter_id in (student, team))
    return not runs.exists() or (theirs.exists() and theirs.read_bytes() == runs.read_bytes())


def _came(course: Course, entry: NotebookEntry, submitter_id: str) -> datetime.datetime:
    """When the latest submission came, or was collected if nobody knows."""
    with suppress(ValueError):
        if when := course_tree.stamped(course, entry, submitter_id):
            return when
    kept = [path.name[:16] for path in (course.tree / "handins" / submitter_id / entry.name).glob("*.ipynb")]
    with suppress(ValueError):
        return datetime.datetime.strptime(max(kept, default=""), "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.UTC)
    return datetime.datetime.min.replace(tzinfo=datetime.UTC)


def add(course: Course, entry: NotebookEntry, name: str, members: Collection[str]) -> list[str]:
    """Write a team for one notebook into the file; the members who keep the team for it that they are in already.

    Raises:
        NoTeamName: the name cannot be a team's; nothing is written.
        CourseError: the file cannot be understood; nothing is written.
    """
    known, path, team = load(course), course.tree / FILE, identifier(name)
    new = [member for member in members if not known.of(entry, member)]
    if not new:
        return [*members]
    listed = roster.load(course)
    another = known.name(team).split() not in ([], name.split()) or (listed and team in listed.students)
    if not team or another or FORMULA.search(name):  # instructors open the file in a spreadsheet
        raise NoTeamName(f"the group `{name}` cannot be a team of this name: list its members in {path}")
    text = path.read_text(encoding="utf-8-sig") if path.exists() else ",".join(COLUMNS)
    body, separator = roster.without_sep(text)
    head = [cell.strip() for cell in next(csv.reader(io.StringIO(body), delimiter=separator))]
    if not {*COLUMNS} <= {*head}:
        raise CourseError(f"{path} needs the columns {','.join(COLUMNS)}, so that a team of one notebook can be added")
    written = io.StringIO(newline="")
    rows = [{"team": name, "student": member, "notebook": entry.name} for member in new]
    csv.writer(written, delimiter=separator, lineterminator="\n").writerows(
        [row.get(column, "") for column in head] for row in rows
    )
    write(path, text.rstrip("\n") + "\n" + written.getvalue())
    return [member for member in members if member not in new]


def lines_of(course: Course, student: str) -> set[int]:
    """The lines of the file that name a student as a member."""
    known = roster.load(course)
    lines = set()
    for line, row in _lines(course.tree / FILE) if (course.tree / FILE).exists() else ():
        called = [row[column] for column in WHO if row[column]]
        with suppress(CourseError):
            if student in called or (called and _member(called, known) == student):
                lines.add(line)
    return lines


def superseded(course: Course, entry: NotebookEntry) -> Iterator[tuple[str, str]]:
    """The students who handed in alone and are in a team as well: each with the id whose later submission counts."""
    known = load(course)
    for student in sorted({row.member for row in known.rows}):
        team = known.of(entry, student)
        if team and all(
            course_tree.place(course, "submitted", entry, submitter_id).exists() for submitter_id in (student, team)
        ):
            yield student, submitter(course, entry, student)
