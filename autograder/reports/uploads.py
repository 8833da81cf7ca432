"""Zips of feedback pages that a learning platform hands out to its students, by the names of its own download.

- Canvas, "Upload Submissions": it reads the student's number and that of the handed-in file out of each file's name.
  https://github.com/instructure/canvas-lms/blob/master/app/models/abstract_assignment.rb; it shows
  the page under the name of the student's file.
- Moodle, "Upload multiple feedback files in a zip": it reads the participant's number out of the name of
  the folder, or of what stands before the file's.
  https://github.com/moodle/moodle/blob/main/mod/assign/feedback/file/importziplib.php
- Blackboard has no such upload of its own, some universities have one. The names are those of its download.
"""

import io
import zipfile
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from autograder.course import Course, CourseError, NotebookEntry
from autograder.gradebook import teams
from autograder.intake import origins
from autograder.intake.platforms import MOODLE
from utils.files import write

PLATFORMS = {"canvas": "Canvas", "moodle": "Moodle", "blackboard": "Blackboard"}
BEGINNING = (1980, 1, 1, 0, 0, 0)  # of a zip's calendar: the same pages make the same zip


@dataclass
class Zipped:
    """The zips that were written, how many pages each holds, and what somebody should know, a line each."""

    pages: dict[Path, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def zip_feedback(
    course: Course, entries: list[NotebookEntry], pages: list[Path], platform: str, folder: Path
) -> Zipped:
    """Write a zip for each notebook into `folder`; `pages` are what `feedback.write_feedback` gave.

    Raises:
        CourseError: nobody's name on the platform is known.
    """
    done, nobody, called = Zipped(), [], PLATFORMS[platform]
    for entry in entries:
        found: dict[str, bytes] = {}
        unknown: list[str] = []
        for page in pages:
            student = page.parts[-3]
            if page.parts[-2] != entry.name:
                continue
            names = [
                name_for(course, entry, recipient, platform) for recipient in teams.recipients(course, entry, student)
            ]
            new = {name for name in names if name and name not in found}  # a team's page goes to each of its members
            found |= dict.fromkeys(new, page.read_bytes())
            unknown += [student] * (not new)
        if found:
            path = folder / f"{entry.name}-{platform}.zip"
            write(path, _zip(found))
            done.pages[path] = len(found)
        if unknown and found:
            done.notes.append(
                f"{entry.name}: not in the zip are {', '.join(unknown)}: no download of {called} that was collected "
                "has them. Collect it once more, or give them their pages yourself"
            )
        elif unknown:
            nobody.append(entry.number)
    if nobody:
        done.notes.append(
            f"no zip of {', '.join(nobody)}: no download of {called} that was collected has anybody of it. Collect it "
            "once more, or give out the pages yourself"
        )
    if not done.pages:
        why = "".join(done.notes) or "no submission is graded: run `autograder grade`"
        raise CourseError(f"there is nothing to zip; {why}")
    return done


def name_for(course: Course, entry: NotebookEntry, student: str, platform: str) -> str:
    """The name in the zip by which the platform knows whose page it is; "" if it cannot be known."""
    origin = origins.origin_of(course, entry, student)
    if origin is None or origin.platform != PLATFORMS[platform] or not origin.name.isprintable():
        return ""
    if origin.name.endswith("/"):
        return f"{origin.name}{entry.name}.html"
    moodle = MOODLE.match(origin.name) if platform == "moodle" else None
    if moodle:
        return f"{origin.name[: moodle.start('file')]}{entry.name}.html"
    return f"{PurePosixPath(origin.name).stem}.html"


def _zip(members: dict[str, bytes]) -> bytes:
    """A zip of these files; the same files give the same bytes."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        for name in sorted(members):
            about = zipfile.ZipInfo(name, BEGINNING)
            about.create_system, about.external_attr = 3, 0o644 << 16  # whatever system writes it
            archive.writestr(about, members[name], zipfile.ZIP_DEFLATED)
    return whole.getvalue()
