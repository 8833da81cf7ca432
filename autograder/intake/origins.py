"""What a learning platform called the hand-in of each student, for the files that go back to it."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from autograder.course import Course, NotebookEntry
from autograder.gradebook import course_tree
from autograder.gradebook.roster import Roster
from autograder.intake.platforms import Claim, known_platforms, platform_part


@dataclass(frozen=True)
class Origin:
    """Where a student's latest hand-in lay in the platform's download."""

    platform: str  # its name, as `platforms.PLATFORMS` has it
    id: str  # the platform's number or name of the student
    name: str  # of the file; of the student's folder with a slash behind it
    student: str = ""  # what it called the student


def note(course: Course, entry: NotebookEntry, student: str, claim: Claim, path: PurePosixPath) -> None:
    """Keep what the platform called a hand-in; nothing for one that came from no platform."""
    if claim.platform:
        origin = Origin(claim.platform.name, claim.id, platform_part(course, path), claim.name)
        # Names in zips and folders may hold what is no text: kept as escapes, they come back as they were.
        course_tree.write(_path(course, entry, student), json.dumps(asdict(origin)) + "\n")


def origin_of(course: Course, entry: NotebookEntry, student: str) -> Origin | None:
    """What the platform called a student's latest hand-in; None if no platform's download had it."""
    path = _path(course, entry, student)
    return Origin(**json.loads(path.read_text())) if path.exists() else None


def names_of(course: Course, entry: NotebookEntry, student: str, known: Roster | None) -> tuple[str, ...]:
    """What a student of the tree may be called, the most likely first: by the roster `known`, and by the download.

    Whoever wrote one of these as the id of numbers of one's own, see `utils.variants`, is right. What students choose
    themselves, the name that a platform shows and the head of an address, is none if it is another student's.
    """
    names: list[str] = []
    told, origin = course.tree / "handins" / student / "name.txt", origin_of(course, entry, student)
    chosen = [told.read_text()] if told.exists() else []
    chosen += [origin.student] if origin else []
    if known and student in known.students:
        one = known.students[student]
        names = [f"{one.first_name} {one.last_name}".strip(), one.id, one.email, *one.platform_ids]
        chosen.insert(0, one.email.split("@")[0])
    names += [name for name in chosen if not (known and known.is_another(name, student))]
    hidden = {name for row in known_platforms(course) for name in row.hidden}  # what everybody is called: nobody's name
    return tuple(dict.fromkeys(name for name in (*names, student) if name and name.casefold() not in hidden))


def _path(course: Course, entry: NotebookEntry, student: str) -> Path:
    return course.tree / "handins" / student / entry.name / "origin.json"
