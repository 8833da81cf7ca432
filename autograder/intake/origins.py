"""What a learning platform called the hand-in of each student, for the files that go back to it."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from autograder.course import Course, NotebookEntry
from autograder.gradebook import course_tree
from autograder.intake.platforms import Claim, platform_part


@dataclass(frozen=True)
class Origin:
    """Where a student's latest hand-in lay in the platform's download."""

    platform: str  # its name, as `platforms.PLATFORMS` has it
    id: str  # the platform's number or name of the student
    name: str  # of the file; of the student's folder with a slash behind it


def note(course: Course, entry: NotebookEntry, student: str, claim: Claim, path: PurePosixPath) -> None:
    """Keep what the platform called a hand-in; nothing for one that came from no platform."""
    if claim.platform:
        origin = Origin(claim.platform.name, claim.id, platform_part(course, path))
        # Names in zips and folders may hold what is no text: kept as escapes, they come back as they were.
        course_tree.write(_path(course, entry, student), json.dumps(asdict(origin)) + "\n")


def origin_of(course: Course, entry: NotebookEntry, student: str) -> Origin | None:
    """What the platform called a student's latest hand-in; None if no platform's download had it."""
    path = _path(course, entry, student)
    return Origin(**json.loads(path.read_text())) if path.exists() else None


def _path(course: Course, entry: NotebookEntry, student: str) -> Path:
    return course.tree / "handins" / student / entry.name / "origin.json"
