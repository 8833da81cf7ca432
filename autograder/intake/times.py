"""When submissions came, from a table beside a download that does not say it."""

import datetime
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from autograder.course import Course, CourseError, NotebookEntry
from autograder.gradebook import roster
from autograder.intake.platforms import Claim
from utils.variants import canonical

# Columns that say whose a time is: ours, then those of Canvas's "Student Analysis" report and of its API.
WHO = ("student", "id", "user_id", "sis_id", "name")
WHEN = ("time", "submitted", "submitted_at")
IN_TIME = "in time"  # in place of a time: somebody has decided that it is not late


@dataclass(frozen=True)
class Row:
    """A line of the table: what its student is called, the notebook, if it says one, and the time; None: in time."""

    called: tuple[str, ...]
    entry: NotebookEntry | None
    when: datetime.datetime | None


@dataclass
class Times:
    """The times of a class, and which of them were asked for."""

    path: Path
    rows: list[Row]
    used: set[Row] = field(default_factory=set)
    without: list[str] = field(default_factory=list)  # students for whom there is no time
    first: NotebookEntry | None = None  # of which the times are, where the table names no notebook

    def of(
        self,
        student: str,
        claim: Claim,
        entry: NotebookEntry,
        listed: roster.Student | None,
        members: Collection[str] = (),
    ) -> Row | None:
        """The line of a student for a notebook, the latest of several; None if there is none, or nobody can tell.

        Args:
            student: as the course tree calls them.
            claim: what the download calls them.
            listed: their line of the class list.
            members: the ids of those whose submission it is, of a team; a line of any of them is the team's.
        """
        self.first = self.first or entry
        rows = [row for row in self.rows if row.entry == entry or (row.entry is None and self.first == entry)]
        ids = {
            identifier
            for identifier in (student, claim.id, *members, *(listed.platform_ids if listed else ()))
            if identifier
        }
        names = {canonical(name) for name in (claim.name, *(listed.names() if listed else ())) if name}
        fitting = [row for row in rows if ids & {*row.called}]
        fitting = fitting or [row for row in rows if names & {*map(canonical, row.called)}]
        if len({row.called for row in fitting}) != 1 and not (fitting and members):
            self.without.append(student)
            return None
        self.used |= {*fitting}
        return max(fitting, key=lambda row: row.when or datetime.datetime.min.replace(tzinfo=datetime.UTC))

    def notes(self) -> list[str]:
        """What the table did not say, and what of it fits nothing."""
        sentences = []
        if self.without:
            sentences.append(
                f"{self.path.name} has no time, or no certain one, for {', '.join(dict.fromkeys(self.without))}"
            )
        unused = [row.called[0] for row in self.rows if row not in self.used]
        if unused:
            sentences.append(
                f"{len(unused)} lines of {self.path.name} fit no submission of this download: "
                f"{', '.join(unused[:5])}{', ...' * (len(unused) > 5)}"
            )
        return sentences


def read_times(course: Course, path: Path) -> Times:
    """The times in a CSV file with the columns student and time, or in a report of Canvas.

    Raises:
        CourseError: it is missing or is not such a table; the message names the line.
    """
    if not path.exists():
        raise CourseError(f"{path} does not exist: `--times` takes the path of a CSV file")
    for column in WHEN:
        try:
            rows = roster.rows(path, (column, *WHO, "notebook"))
        except roster.NoColumn:
            continue
        break
    else:
        raise CourseError(f"{path} has no column {' or '.join(WHEN)}: its first line is student,time")
    table = []
    for line, row in rows:
        called = tuple(dict.fromkeys(row[column] for column in WHO if row[column]))
        if not row[column]:
            continue  # who has handed nothing in
        try:
            if not called:
                raise CourseError(f"it names nobody: a column is called {' or '.join(WHO)}")
            entry = course.notebook(row["notebook"]) if row["notebook"] else None
            table.append(Row(called, entry, _time(course, row[column])))
        except CourseError as bad:
            raise CourseError(f"{path}, line {line}: {bad}") from None
    return Times(path, table)


def _time(course: Course, text: str) -> datetime.datetime | None:
    """A time in UTC, None if the text says "in time"; without a zone it is read in the course's."""
    if text.casefold() == IN_TIME:
        return None
    try:
        stated = datetime.datetime.fromisoformat(re.sub(r" ?(UTC|Z)$", "+00:00", text))
        return course.utc(stated) if stated.utcoffset() is None else stated.astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        raise CourseError(
            f"`{text}` is not a time: 2027-02-08 10:20, 2027-02-08T10:20:00+01:00, 2027-02-08 10:20:30 UTC or {IN_TIME}"
        ) from None
