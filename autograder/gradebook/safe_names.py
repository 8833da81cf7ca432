"""Names in the gradebook, without markup: pages of nbgrader print several of them as they are.

A gradebook of an earlier release may hold such names, and anybody may have made a directory in `submitted/`. Both are
made safe whenever the gradebook is opened to be written.
"""

import contextlib
import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from autograder import html_cleaning
from utils.files import write

if TYPE_CHECKING:
    from sqlalchemy import Connection

UNSAFE = re.compile(r'[<>"&\\`\x00-\x1f\x7f-\x9f\u2028\u2029]')  # in an id, which is a directory's name as well
# In each a student has a directory.
PARTS = ("submitted", "handins", "autograded", "feedback", "verdicts", "history", "previews")
NAMES = ("first_name", "last_name", "email", "lms_user_id")
# Where a spreadsheet may find a cell with what it runs: at the beginning, and behind the sign that separates columns in
# half of Europe, since there quotes bind only the first of several columns that commas separate.
FORMULA = re.compile(r'(^|;)(?=[\s"]*[=+\-@＝＋－＠])')


def safe_id(student: str) -> str:
    """The id under which a student is kept whose id is markup, the same each time; any other stays as it is."""
    if not UNSAFE.search(student):
        return student
    letters = re.sub(r"[^\w.@+-]", "", re.sub(r"\s+", "_", student)).lstrip(".-+@")[:60]
    return f"{letters or 'student'}_{hashlib.sha256(student.encode(errors='surrogatepass')).hexdigest()[:8]}"


def rename_directories(tree: Path) -> None:
    """Take markup out of the names of students' directories in a course tree; the records in them say the new one."""
    for path in [path for part in PARTS for path in (tree / part).glob("*") if path.is_dir()]:
        target = path.with_name(safe_id(path.name))
        if target == path or target.exists():
            continue
        for record in path.glob("*.json") if path.parent.name == "verdicts" else ():
            with contextlib.suppress(ValueError):  # an unreadable one is written again by `grade`
                known = json.loads(record.read_bytes())
                write(record, json.dumps(known | {"student": target.name}, ensure_ascii=False))
        path.rename(target)


def make_safe(database: "Connection") -> None:
    """Take markup out of what a gradebook calls its students, and out of their ids; marks stay theirs."""
    from nbgrader.api import Student, SubmittedAssignment  # they take their time to import
    from sqlalchemy import delete, insert, select, update

    table, handed_in = Student.__table__, SubmittedAssignment.__table__
    for row in database.execute(select(table)).mappings().all():
        names = {key: html_cleaning.name(row[key]) if row[key] else row[key] for key in NAMES}
        if not UNSAFE.search(row["id"]):
            if any(row[key] != value for key, value in names.items()):
                database.execute(update(table).where(table.c.id == row["id"]).values(**names))
            continue
        student = safe_id(row["id"])
        if database.execute(select(table.c.id).where(table.c.id == student)).one_or_none() is None:
            database.execute(insert(table), names | {"id": student})
        database.execute(update(handed_in).where(handed_in.c.student_id == row["id"]).values(student_id=student))
        database.execute(delete(table).where(table.c.id == row["id"]))
