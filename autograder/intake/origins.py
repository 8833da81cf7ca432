"""What a learning platform called the submission of each student, for the files that go back to it."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from autograder.course import Course, NotebookEntry
from autograder.gradebook import course_tree, teams
from autograder.gradebook.roster import Roster
from autograder.intake.platforms import Claim, known_platforms, platform_part


@dataclass(frozen=True)
class Origin:
    """Where a student's latest submission lay in the platform's download."""

    platform: str  # its name, as `platforms.PLATFORMS` has it
    id: str  # the platform's number or name of the student
    name: str  # of the file; of the student's folder with a slash behind it
    student: str = ""  # what it called the student


def note(course: Course, entry: NotebookEntry, student: str, claim: Claim, path: PurePosixPath) -> None:
    """Keep what the platform called a submission; nothing for one that came from no platform."""
    if claim.platform:
        origin = Origin(claim.platform.name, claim.id, platform_part(course, path), claim.name)
        # Names in zips and folders may hold what is not text: kept as escapes, they come back as they were.
        course_tree.write(_path(course, entry, student), json.dumps(asdict(origin)) + "\n")


def origin_of(course: Course, entry: NotebookEntry, student: str) -> Origin | None:
    """What the platform called a student's latest submission; None if no platform's download had it."""
    path = _path(course, entry, student)
    return Origin(**json.loads(path.read_text())) if path.exists() else None


def names_of(course: Course, entry: NotebookEntry, student: str, known: Roster | None) -> tuple[str, ...]:
    """The names from which a student's own numbers may be drawn (see `utils.variants`), the most likely first.

    For a team they are those of its members, and not its own, which students may have chosen.
    For a student of the roster `known` these are the names in the roster. Nobody else's name is among them, and no
    name that only the platform shows: on most platforms students choose it, and could choose one that has a friend's
    numbers. For all others there is nothing but what the download calls them.
    """
    if members := teams.load(course).members(entry, student):
        return tuple(dict.fromkeys(name for member in members for name in names_of(course, entry, member, known)))
    if known and student in known.students:
        listed = known.students[student]
        names = [f"{listed.first_name} {listed.last_name}".strip(), listed.id, listed.email, *listed.platform_ids]
        head = listed.email.split("@")[0]
        names += [] if known.is_another(head, student) else [head]
    else:
        names = [
            name for name in shown_names(course, entry, student) if not (known and known.is_another(name, student))
        ]
    hidden = {name for row in known_platforms(course) for name in row.hidden}  # what everybody is called: nobody's name
    return tuple(dict.fromkeys(name for name in (*names, student) if name and name.casefold() not in hidden))


def shown_names(course: Course, entry: NotebookEntry, student: str) -> list[str]:
    """The names that the platform shows for a student, or a team's members, who may have chosen them."""
    if members := teams.load(course).members(entry, student):
        return [name for member in members for name in shown_names(course, entry, member)]
    path, origin = course.tree / "handins" / student / "name.txt", origin_of(course, entry, student)
    return ([path.read_text()] if path.exists() else []) + ([origin.student] if origin else [])


def unproven_names(
    course: Course, entry: NotebookEntry, student: str, known: Roster | None, names: Sequence[str]
) -> tuple[str, ...]:
    """Those of the `names` of a student or team that may have been chosen: all without a roster, else platform_ids."""
    people = teams.load(course).members(entry, student) or (student,)
    if not known or not all(student in known.students for student in people):
        return tuple(names)
    return tuple(name for student in people for name in known.students[student].platform_ids)


def _path(course: Course, entry: NotebookEntry, student: str) -> Path:
    return course.tree / "handins" / student / entry.name / "origin.json"
