"""Erase a student from a course tree: submissions, records, marks, logs, caches, and what was removed before.

Unlike `removal`, nothing is kept. A receipt says what was erased, and by whom, and names the student by a code alone.
"""

import csv
import io
import json
import os
import re
import shutil
import sqlite3
import unicodedata
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook
from sqlalchemy import text

from autograder.course import Course, CourseError
from autograder.gradebook import course_tree, extensions, journal, roster, safe_names, teams
from autograder.gradebook.pseudonyms import Names
from autograder.grading import run_lock
from utils.files import write

RECEIPTS = "receipts"
LISTS = {"students.csv": roster.COLUMNS[0], extensions.FILE: extensions.GRANTED[0]}  # each with its column of ids
OUTSIDE = (
    "Not in the course tree, so look at these yourself: downloads and directories that were collected, files of "
    "`export` and zips of `feedback`, cases of `explain`, the learning platform, and every backup."
)


@dataclass
class Found:
    """What a tree holds of a student."""

    folders: list[Path] = field(default_factory=list)  # and files; all of it is the student's
    tables: dict[Path, bytes] = field(default_factory=dict)  # files that name others too, without the student
    submissions: int = 0  # in the gradebook
    changes: int = 0  # of marks, in its log
    listed: bool = False  # whether the gradebook knows the student

    def __bool__(self) -> bool:
        return bool(self.folders or self.tables or self.submissions or self.changes or self.listed)


def find(course: Course, student: str) -> Found:
    """What the tree holds of a student, by id; nothing is changed.

    Of a team's work nothing is found but the line that lists the student, as long as the team has other members.

    Raises:
        CourseError: nothing; or a file cannot be read.
    """
    traces, tree, ids = Found(), course.tree, _ids(course, student)
    removed = re.compile(rf"[^-]+-(?:{'|'.join(map(re.escape, ids))})-\d\d_\w+")
    for part in safe_names.PARTS:  # an id may be any word, also the name of a part, a notebook or a file of the tree
        traces.folders += [path for path in sorted(tree.glob(f"{part}/*")) if path.name in ids]
    traces.folders += [path for path in sorted(tree.glob("removed/*")) if removed.fullmatch(path.name)]
    if (lines := teams.lines_of(course, student)) and not (tree / teams.FILE).is_symlink():
        traces.tables[tree / teams.FILE] = _lines_without((tree / teams.FILE).read_bytes(), lines)
    shared = [tree / name for name in (*LISTS, journal.NAME)]
    shared += [path for place in ("groups/*", "decisions/*", "verdicts/*/*") for path in tree.glob(f"{place}.json")]
    for path in sorted(shared):
        if path.is_file() and not path.is_symlink() and not {*traces.folders} & {*path.parents}:
            before = without = path.read_bytes()
            for identifier in ids:
                without = _without(path, without, tree, identifier)
            if without != before:
                traces.tables[path] = without
    with Gradebook(course_tree.database(course), course.course_id) as gradebook:
        for identifier in ids:
            listed = identifier in {known.id for known in gradebook.students}
            traces.listed |= listed
            traces.submissions += len(gradebook.student_submissions(identifier)) if listed else 0
            traces.changes += _changes(gradebook, identifier)
    if not traces:
        there = sorted({path.name for place in ("handins", "submitted") for path in course.tree.glob(f"{place}/*")})
        raise CourseError(
            f"there is nothing of `{student}` in {course.tree}; it has {', '.join(there[:10]) or 'nobody'}"
        )
    return traces


def erase(course: Course, student: str, reason: str = "") -> tuple[Path, list[Path]]:
    """Erase all that `find` finds; the receipt, and the files of the tree that still hold one of the student's names.

    Killed anywhere, doing it again erases the rest.

    Raises:
        CourseError: there is nothing of this student, or a run is grading.
    """
    with run_lock.exclusive_run(course):
        names, ids = _names(course, student), _ids(course, student)  # before the lists forget them
        traces = find(course, student)
        pages = [course.tree / "feedback" / team for team in teams.load(course).teams_of(student)]
        files = [path for folder in traces.folders for path in (folder.rglob("*") if folder.is_dir() else [folder])]
        receipt: dict[str, Any] = {
            "at": journal.now(),
            "account": journal.account(),
            "reason": reason,
            "student": Names(course).of(student),
            "erased": {
                "files": sum(path.is_file() for path in files),
                "bytes": sum(path.stat().st_size for path in files if path.is_file() and not path.is_symlink()),
                "places": sorted({path.relative_to(course.tree).parts[0] for path in traces.folders}),
                "cleaned": sorted(path.relative_to(course.tree).parts[0] for path in traces.tables),
                "submissions in the gradebook": traces.submissions,
                "logged changes of marks": traces.changes,
            },
        }
        for path in traces.folders:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        for path, without in traces.tables.items():
            mode = path.stat().st_mode & 0o777
            write(path, without)
            path.chmod(mode)
        shutil.rmtree(course.tree / "cache", ignore_errors=True)
        (course.tree / "report.html").unlink(missing_ok=True)  # it is written again
        for page in pages:  # which names the members; `autograder feedback` writes it again
            shutil.rmtree(page, ignore_errors=True)
        for identifier in ids:
            _erase_marks(course, identifier)
        left = [path for path in course.tree.rglob("*") if path.is_file() and _holds(path, names)]
        receipt["files that still hold a name"] = len(left)
        path = course.tree / RECEIPTS / f"erased-{journal.now().replace(':', '')}-{receipt['student']}.json"
        course_tree.write_json(path, receipt)
    return path, left


def _ids(course: Course, student: str) -> list[str]:
    """The ids of a student's own work: the student's, and those of teams that have no other member."""
    known = teams.load(course)
    return [student, *(team for team in known.teams_of(student) if known.people(team) == {student})]


def _names(course: Course, student: str) -> list[str]:
    """What files may call the student: the id, and the whole name and address of the class list and the download."""
    listed = roster.load(course)
    line = listed.students.get(student) if listed else None
    called = course.tree / "handins" / student / "name.txt"
    names = {student, called.read_text().strip() if called.exists() else ""}
    if line:
        names |= {f"{line.first_name} {line.last_name}".strip(), line.email}
    return sorted(name for name in names if len(name) > 2)


def _holds(path: Path, names: list[str]) -> bool:
    """Whether a file holds one of these names as a word."""
    words = re.compile(rb"(?<![\w@.-])(?:" + b"|".join(re.escape(name.encode()) for name in names) + rb")(?![\w@-])")
    return bool(names and words.search(path.read_bytes()))


def _without(path: Path, content: bytes, tree: Path, student: str) -> bytes:
    """The `content` of a file that names several students, without this one."""
    inside = path.relative_to(tree).parts
    if inside[0] in LISTS:
        return _rows_without(path, content, LISTS[inside[0]], student)
    if student.encode() not in content and json.dumps(student)[1:-1].encode() not in content:
        return content
    if inside == (journal.NAME,):
        return _events_without(content, student)
    try:
        stated = json.loads(content)
        before = json.dumps(stated)
        _take_out(stated, inside, student)
    except (ValueError, TypeError, KeyError, AttributeError):
        return content  # it is damaged: `erase` tells that it holds the name
    text = json.dumps(stated, indent=1, ensure_ascii=False) + "\n"
    return text.encode(errors="surrogatepass") if json.dumps(stated) != before else content


def _take_out(stated: Any, inside: tuple[str, ...], student: str) -> None:
    """Take a student out of what a file of several says; each kind of file names students in fields of its own."""
    if inside[0] == "decisions":
        stated.pop(student, None)
    elif inside[0] == "groups":
        fields = ("before", "after") if inside[-1].endswith("-log.json") else ("answers",)
        for row in stated:
            for name in fields:
                row.get(name, {}).pop(student, None)
    else:  # a verdict of others: what the instructor was to look at, which `grade` finds again
        stated["flags"] = [flag for flag in stated["flags"] if not _tells_of(flag, student)]


def _tells_of(flag: str, student: str) -> bool:
    """Whether a flag of another student names this one, in a place where flags name students."""
    name = re.escape(student)
    single = rf"(?:hand-in|submission|those) of {name}(?:;| came first|: both|$)"
    several = rf"(?:those of|asks|and) {name}(?: and |, not for | for the same ones)"
    return bool(re.search(rf"\b(?:{single}|{several})", flag))


def _events_without(content: bytes, student: str) -> bytes:
    """The log without events of the student, and without rows of the student in others'; other lines as they are."""
    lines = content.splitlines(keepends=True)
    kept = []
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:  # of a process that was killed: nobody reads it
            kept += [] if json.dumps(student, ensure_ascii=False).encode() in line else [line]
            continue
        if not isinstance(event, dict):
            kept.append(line)
        elif event.get("student") != student:
            rows = event.get("changes")
            others = (
                [row for row in rows if not (isinstance(row, dict) and row.get("student") == student)]
                if isinstance(rows, list)
                else rows
            )
            text = json.dumps(event | {"changes": others}, ensure_ascii=False) + "\n"
            kept.append(line if others == rows else text.encode(errors="surrogatepass"))
    return b"".join(kept)


def _rows_without(path: Path, content: bytes, column: str, student: str) -> bytes:
    """A list without the student's rows; other lines as they are."""
    whole = content.decode()
    text, separator = roster.without_sep(whole.removeprefix("\ufeff"))
    reader, above = csv.reader(io.StringIO(text, newline=""), delimiter=separator), whole.count("\n") - text.count("\n")
    place, lines = None, set()
    for row in reader:
        cells = [unicodedata.normalize("NFC", cell).strip() for cell in row]
        if place is None:
            if column not in cells:
                raise roster.NoColumn(f"{path} has no column `{column}`: correct its first line")
            place = cells.index(column)
        elif cells[place : place + 1] == [student]:
            lines.add(reader.line_num + above)
    return _lines_without(content, lines)


def _lines_without(content: bytes, rows: set[int]) -> bytes:
    """A CSV file without these rows, each given by the number of its last line; other lines as they are."""
    whole = content.decode()
    text, separator = roster.without_sep(whole.removeprefix("\ufeff"))
    lines, above = [*io.StringIO(text, newline="")], whole.count("\n") - text.count("\n")
    kept, start, reader = [whole[: len(whole) - len(text)]], 0, csv.reader(lines, delimiter=separator)
    for _ in reader:
        kept += lines[start : reader.line_num] if reader.line_num + above not in rows else []
        start = reader.line_num
    return "".join(kept).encode()


def _changes(gradebook: Gradebook, student: str) -> int:
    connection = gradebook.db.connection()
    if not connection.dialect.has_table(connection, "mark_change"):
        return 0
    asked = text("select count(*) from mark_change where student = :student")
    return int(connection.execute(asked, {"student": student}).scalar_one())


def _erase_marks(course: Course, student: str) -> None:
    """Take the student out of the gradebook, its log included; SQLite also forgets what it has deleted."""
    with Gradebook(course_tree.database(course), course.course_id) as gradebook:
        if student in {known.id for known in gradebook.students}:
            gradebook.remove_student(student)
        if _changes(gradebook, student):  # the removal was logged as well
            gradebook.db.execute(text("delete from mark_change where student = :student"), {"student": student})
            gradebook.db.commit()
    if not course.grading.database:
        with closing(sqlite3.connect(course_tree.gradebook(course))) as database:
            database.execute("vacuum")


def shown(course: Course, traces: Found) -> Iterator[str]:
    """What `erase` would do, a line each."""
    for path in traces.folders:
        yield f"would erase {os.path.relpath(path, course.tree)}"
    for path in traces.tables:
        yield f"would take the student out of {os.path.relpath(path, course.tree)}"
    yield f"would erase {traces.submissions} submissions and {traces.changes} logged changes of marks in the gradebook"
