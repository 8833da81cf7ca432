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
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook
from sqlalchemy import text

from autograder.course import Course, CourseError
from autograder.gradebook import course_tree, journal, roster
from autograder.gradebook.pseudonyms import Names
from autograder.grading import guard
from utils.files import write

RECEIPTS = "receipts"
OUTSIDE = (
    "Not in the course tree, so look at these yourself: downloads and directories that were collected, files of "
    "`export` and zips of `feedback`, cases of `explain`, the learning platform, and every backup."
)


@dataclass
class Found:
    """What a tree holds of a student."""

    folders: list[Path] = field(default_factory=list)  # and files; all of it is the student's
    tables: dict[Path, str] = field(default_factory=dict)  # files that name others too, as they are without the student
    submissions: int = 0  # in the gradebook
    changes: int = 0  # of marks, in its log
    listed: bool = False  # whether the gradebook knows the student

    def __bool__(self) -> bool:
        return bool(self.folders or self.tables or self.submissions or self.changes or self.listed)


def find(course: Course, student: str) -> Found:
    """What the tree holds of a student, by id; nothing is changed.

    Raises:
        CourseError: nothing; or a file cannot be read.
    """
    found = Found()
    removed = re.compile(rf"[^-]+-{re.escape(student)}-\d\d_\w+")
    for path in sorted(course.tree.rglob("*")):
        if any(parent in found.folders for parent in path.parents):
            continue
        if path.name == student or (path.parent.name == "removed" and removed.fullmatch(path.name)):
            found.folders.append(path)
        elif path.is_file() and not path.is_symlink() and (without := _without(path, course.tree, student)) is not None:
            found.tables[path] = without
    with Gradebook(course_tree.database(course), course.course_id) as gradebook:
        found.listed = student in {one.id for one in gradebook.students}
        found.submissions = len(gradebook.student_submissions(student)) if found.listed else 0
        found.changes = _changes(gradebook, student)
    if not found:
        there = sorted({path.name for place in ("handins", "submitted") for path in course.tree.glob(f"{place}/*")})
        raise CourseError(
            f"there is nothing of `{student}` in {course.tree}; it has {', '.join(there[:10]) or 'nobody'}"
        )
    return found


def erase(course: Course, student: str, reason: str = "") -> tuple[Path, list[Path]]:
    """Erase all that `find` finds; the receipt, and the files of the tree that still hold one of the student's names.

    Killed anywhere, doing it again erases the rest.

    Raises:
        CourseError: there is nothing of this student, or a run is grading.
    """
    with guard.exclusive_run(course):
        names = _names(course, student)  # before the lists forget them
        found = find(course, student)
        files = [path for folder in found.folders for path in (folder.rglob("*") if folder.is_dir() else [folder])]
        receipt: dict[str, Any] = {
            "at": journal.now(),
            "account": journal.account(),
            "reason": reason,
            "student": Names(course).of(student),
            "erased": {
                "files": sum(path.is_file() for path in files),
                "bytes": sum(path.stat().st_size for path in files if path.is_file() and not path.is_symlink()),
                "places": sorted({path.relative_to(course.tree).parts[0] for path in found.folders}),
                "cleaned": sorted(path.relative_to(course.tree).parts[0] for path in found.tables),
                "submissions in the gradebook": found.submissions,
                "logged changes of marks": found.changes,
            },
        }
        for path in found.folders:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        for path, without in found.tables.items():
            mode = path.stat().st_mode & 0o777
            write(path, without)
            path.chmod(mode)
        shutil.rmtree(course.tree / "cache", ignore_errors=True)
        (course.tree / "report.html").unlink(missing_ok=True)  # it is written again
        _erase_marks(course, student)
        left = [path for path in course.tree.rglob("*") if path.is_file() and _holds(path, names)]
        receipt["files that still hold a name"] = len(left)
        path = course.tree / RECEIPTS / f"erased-{journal.now().replace(':', '')}-{receipt['student']}.json"
        course_tree.write_json(path, receipt)
    return path, left


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


def _without(path: Path, tree: Path, student: str) -> str | None:
    """A file that names several students without this one; None if it does not name this one."""
    if student.encode() not in path.read_bytes() and json.dumps(student)[1:-1].encode() not in path.read_bytes():
        return None
    inside = path.relative_to(tree).parts
    if len(inside) == 1 and path.suffix == ".csv":
        return _rows_without(path, student)
    if inside[0] in ("groups", "decisions", "verdicts") and path.suffix == ".json":
        stated = json.loads(path.read_bytes())
        kept = _value_without(stated, student)
        if inside[0] == "verdicts":  # of others: what the instructor was to look at, which `grade` finds again
            word = re.compile(rf"(?<![\w@.-]){re.escape(student)}(?![\w@-])")
            kept["flags"] = [flag for flag in kept["flags"] if not word.search(flag)]
        return json.dumps(kept, indent=1, ensure_ascii=False) + "\n" if kept != stated else None
    if inside == (journal.NAME,):
        events = journal.lines(path)
        kept_events = [one for one in (_value_without([one], student) for one in events) if one]
        lines = [json.dumps(one, ensure_ascii=False) + "\n" for some in kept_events for one in some]
        return "".join(lines) if [one for some in kept_events for one in some] != events else None
    return None


def _rows_without(path: Path, student: str) -> str | None:
    content = path.read_text(encoding="utf-8-sig")
    separator = ";" if content.split("\n", 1)[0].count(";") > content.split("\n", 1)[0].count(",") else ","
    rows = list(csv.reader(io.StringIO(content), delimiter=separator))
    kept = [row for row in rows if student not in (cell.strip() for cell in row)]
    if len(kept) == len(rows):
        return None
    written = io.StringIO(newline="")
    csv.writer(written, delimiter=separator, lineterminator="\n").writerows(kept)
    return written.getvalue()


def _value_without(value: Any, student: str) -> Any:
    """Plain data without the entries that are about a student."""
    if isinstance(value, dict):
        return {key: _value_without(one, student) for key, one in value.items() if key != student}
    if isinstance(value, list):
        about = (one for one in value if not (isinstance(one, dict) and one.get("student") == student))
        return [_value_without(one, student) for one in about if one != student]
    return value


def _changes(gradebook: Gradebook, student: str) -> int:
    connection = gradebook.db.connection()
    if not connection.dialect.has_table(connection, "mark_change"):
        return 0
    asked = text("select count(*) from mark_change where student = :student")
    return int(connection.execute(asked, {"student": student}).scalar_one())


def _erase_marks(course: Course, student: str) -> None:
    """Take the student out of the gradebook, its log included; SQLite also forgets what it has deleted."""
    with Gradebook(course_tree.database(course), course.course_id) as gradebook:
        if student in {one.id for one in gradebook.students}:
            gradebook.remove_student(student)
        if _changes(gradebook, student):  # the removal was logged as well
            gradebook.db.execute(text("delete from mark_change where student = :student"), {"student": student})
            gradebook.db.commit()
    if not course.grading.database:
        with closing(sqlite3.connect(course_tree.gradebook(course))) as database:
            database.execute("vacuum")


def shown(course: Course, found: Found) -> Iterator[str]:
    """What `erase` would do, a line each."""
    for path in found.folders:
        yield f"would erase {os.path.relpath(path, course.tree)}"
    for path in found.tables:
        yield f"would take the student out of {os.path.relpath(path, course.tree)}"
    yield f"would erase {found.submissions} submissions and {found.changes} logged changes of marks in the gradebook"
