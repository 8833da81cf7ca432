"""How a download is laid out: which part of a path says whose a file is, and what files beside it say.

Some platforms say in files and folders of their own what others say in names: Gradescope in a table, Sakai in a file
beside each submission, Teams by numbered folders, and GitHub Classroom by the names of repositories.
"""

import datetime
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from autograder import limited
from autograder.course import Course
from autograder.intake.platforms import (
    BRIGHTSPACE,
    GITHUB,
    GRADESCOPE,
    SAKAI,
    TEAMS,
    Claim,
    Names,
    containers,
    folder_claim,
    is_noise,
    known_platforms,
)
from utils.grading.verdict import legible

METADATA = "submission_metadata.yml"
MAX_METADATA = 32 * 2**20  # bytes; it holds the results of an autograder too
# What Gradescope calls the folder of its table, and those beside it; a student's folder is not called so.
EXPORT, SUBMISSION = (
    re.compile(r"assignment_\d+_export\b", re.IGNORECASE),
    re.compile(r"submission_\d+", re.IGNORECASE),
)
YEARS = range(1970, 2200)  # of a time that somebody may have handed in at
SUBMITTED, WORKING = "submitted files", "working files"
VERSION = re.compile(r"^Version (\d{1,6})$", re.IGNORECASE)
CLONES = "-submissions"  # behind an assignment's name, the folder that `gh classroom clone student-repos` makes
RETURNED = "feedback attachment(s)"  # what an instructor has given back on Sakai
SAKAI_TIMES = (("%Y%m%d%H%M%S", 14), ("%Y-%m-%dT%H:%M:%SZ", 20))

# What a platform writes beside the folders of students; Gradescope's table is found by itself.
OWN_FILES = {SAKAI: ("grades.csv", "grades.xls"), BRIGHTSPACE: ("index.html",)}

Read = Callable[[PurePosixPath, int], bytes]  # so many bytes of a file of the download at most; b"" if it has none


@dataclass
class Layout:
    """Whose the files of a download are."""

    above: int  # so many folders above each file name no student
    names: Names
    drafts: set[PurePosixPath] = field(default_factory=set)  # files that nobody has handed in
    own: set[PurePosixPath] = field(default_factory=set)  # the platform's own tables and pages
    versions: dict[PurePosixPath, int] = field(default_factory=dict)  # of several files of a student, which is later
    notes: list[str] = field(default_factory=list)

    def owner(self, path: PurePosixPath) -> PurePosixPath:
        """The path whose names say whose a file is."""
        return PurePosixPath(*path.parts[self.above :])


def layout_of(
    course: Course, paths: list[PurePosixPath], read: Read, is_known: Callable[[str], bool], called: str = ""
) -> Layout:
    """How a download with these files is laid out.

    Args:
        read: reads a file of it.
        is_known: whether a name is that of a student of the class list.
        called: what the folder of the download is called itself.
    """
    handed_in = [path for path in paths if path.suffix.lower() in (".ipynb", ".zip") and not is_noise(path)]
    above = -1
    stated: dict[str, Claim] = {}
    notes: list[str] = []
    drafts = {path for path in paths if RETURNED in (part.lower() for part in path.parts)}
    versions: dict[PurePosixPath, int] = {}
    tables = sorted((path for path in paths if path.name == METADATA), key=lambda path: len(path.parts))
    table = next((path for path in tables if _is_of_all(path, handed_in)), None)
    teams = _teams(course, handed_in, called, is_known)
    if table is not None:
        above = len(table.parts) - 1
        stated, notes = _gradescope(read(table, MAX_METADATA))
    elif teams is not None:
        above, drafts, versions = teams
        folders = {path.parts[above] for path in handed_in if len(path.parts) > above + 1 and path not in drafts}
        stated = {folder: Claim(folder, platform=TEAMS) for folder in folders}
        if drafts:
            notes.append(
                f"{len(drafts)} files in `Working files` are what students work on, and are left out: nobody has "
                "handed them in. To take them all the same, collect that folder alone"
            )
    if table is None and tables and len(tables[0].parts) <= 2:
        notes.append(
            f"{tables[0]}: left out, since students may bring such a file; if it is Gradescope's, collect the folder "
            "of the export alone, with nothing but the table and the folders `submission_NUMBER` in it"
        )
    if above < 0:
        above = containers(course, paths, is_known)
        below = [PurePosixPath(*path.parts[above:]) for path in paths]
        stated = _sakai(course, below, lambda path: read(PurePosixPath(*paths[0].parts[:above], path), 64))
        stated |= _clones(below, [called, *(paths[0].parts[:above] if paths else ())], is_known)
    names = Names(
        course, [PurePosixPath(*path.parts[above:]) for path in paths if path not in drafts], is_known, stated
    )
    return Layout(above, names, drafts, _own_files(paths, above, table), versions, notes)


def _own_files(paths: Iterable[PurePosixPath], above: int, table: PurePosixPath | None) -> set[PurePosixPath]:
    """The files of a download that its platform wrote, and no student: they lie beside the students' folders."""
    below = {path: PurePosixPath(*path.parts[above:]) for path in paths}
    folders = {path.parts[0] for path in below.values() if len(path.parts) > 1}
    names = {
        name
        for row, written in OWN_FILES.items()
        if any(folder_claim(row, folder) for folder in folders)
        for name in written
    }
    return {path for path, place in below.items() if path == table or place.as_posix() in names}


def _is_of_all(table: PurePosixPath, handed_in: list[PurePosixPath]) -> bool:
    """Whether a table may be Gradescope's: all submissions lie in folders beside it that are called as Gradescope does.

    It is at the top of the download, or in the folder of the export: any other may be a student's, who brought it.
    """
    above = table.parts[:-1]
    if len(above) > 1 or not all(EXPORT.match(folder) for folder in above):
        return False
    return all(
        path.parts[: len(above)] == above
        and len(path.parts) > len(above) + 1
        and SUBMISSION.fullmatch(path.parts[len(above)])
        for path in handed_in
    )


def _teams(
    course: Course, paths: list[PurePosixPath], called: str, is_known: Callable[[str], bool]
) -> tuple[int, set[PurePosixPath], dict[PurePosixPath, int]] | None:
    """Of Teams' library "Student Work": the folders above each student's, the drafts and the versions; else None.

    It holds "Submitted files/STUDENT/ASSIGNMENT/Version 2/FILE" and "Working files/STUDENT/ASSIGNMENT/FILE". Folders
    of these names within one student's are that student's.
    """
    most = 2 if called.lower() == SUBMITTED else None  # deeper ones are within a student's folder
    depths = {
        path: next((place for place, part in enumerate(path.parts[:most]) if part.lower() in (SUBMITTED, WORKING)), -1)
        for path in paths
    }
    if called.lower() != SUBMITTED and -1 in depths.values():
        return None
    if not paths or len({*depths.values()}) > 1:
        return None
    above = depths[paths[0]] + 1
    rows = known_platforms(course)
    if any(
        is_known(part) or any(folder_claim(row, part) for row in rows) for part in paths[0].parts[: max(above - 1, 0)]
    ):
        return None
    drafts = {path for path in paths if above and path.parts[above - 1].lower() == WORKING}
    numbers = {path: [VERSION.match(part) for part in path.parts[above + 1 : -1]] for path in paths}
    versions = {path: int(match[1]) for path, matches in numbers.items() for match in matches if match}
    return (above, drafts, versions) if versions or drafts else None


def _gradescope(text: bytes) -> tuple[dict[str, Claim], list[str]]:
    """By the folder of a submission, what Gradescope's table says of it; and what is wrong with the table."""
    try:
        rows = limited.call(submissions_of, text)
    except Exception as why:  # a stranger wrote it: whatever a parser stumbles over ends nobody else's submission
        return {}, [f"{METADATA} cannot be read, so that nobody knows whose the submissions are: {why}"]
    claimed, untimed = {}, []
    for folder, created_at, submitters in rows:
        when = datetime.datetime.fromisoformat(created_at) if created_at else None
        if when is None:
            untimed.append(folder)
        claims = [
            Claim(name or email or sid, sid, GRADESCOPE, when=when, others=tuple(filter(None, (email, sid))))
            for name, sid, email in submitters
            if name or email or sid
        ]
        if claims:
            claimed[folder] = replace(claims[0], members=tuple(claims[1:]), group=folder if claims[1:] else "")
    return claimed, [f"{METADATA} states no valid time of {', '.join(map(legible, untimed[:10]))}"] if untimed else []


def submissions_of(text: bytes) -> list[list[Any]]:
    """Of Gradescope's table of submissions: the folder of each, its time in ISO 8601, and name, id and e-mail of all.

    The time is in UTC, and "" if none is stated, or none that a submission can have.

    Raises:
        ValueError: it is not such a table.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        """Reads objects of Ruby too, as the plain data that they hold."""

    def plain(loader: Any, suffix: str, node: Any) -> Any:
        if isinstance(node, yaml.MappingNode):
            return loader.construct_mapping(node)
        return loader.construct_sequence(node) if isinstance(node, yaml.SequenceNode) else loader.construct_scalar(node)

    Loader.add_multi_constructor("!ruby/", plain)
    try:
        stated = yaml.load(text, Loader)
    except yaml.YAMLError as bad:
        raise ValueError(f"it is not YAML ({str(bad).splitlines()[0]})") from None
    if not isinstance(stated, dict):
        raise ValueError("it is not a table of submissions")
    submissions = []
    for folder, about in stated.items():
        submitters = about.get(":submitters") if isinstance(about, dict) else None
        if not isinstance(folder, str) or not isinstance(submitters, list):
            continue
        when = about.get(":created_at")
        people = [
            [str(submitter.get(key) or "") for key in (":name", ":sid", ":email")]
            for submitter in submitters
            if isinstance(submitter, dict)
        ]
        stamp = ""
        if isinstance(when, datetime.datetime):
            with suppress(OverflowError):  # a year that no calendar has in UTC
                when = when.replace(tzinfo=when.tzinfo or datetime.UTC).astimezone(datetime.UTC)
                stamp = when.isoformat() if when.year in YEARS else ""
        submissions.append([folder, stamp, people])
    return submissions


def _sakai(course: Course, paths: Iterable[PurePosixPath], read: Callable[[PurePosixPath], bytes]) -> dict[str, Claim]:
    """By a student's folder, what its name and the file timestamp.txt in it say."""
    claimed: dict[str, Claim] = {}
    for path in paths:
        if path.name == "timestamp.txt" and len(path.parts) == 2:
            claim = folder_claim(SAKAI, path.parts[0])
            if claim:
                claimed[path.parts[0]] = replace(claim, when=_sakai_time(read(path)))
    return claimed


def _sakai_time(text: bytes) -> datetime.datetime | None:
    for form, length in SAKAI_TIMES:
        try:
            stated = datetime.datetime.strptime(text.decode("ascii", "replace").strip()[:length], form)
        except ValueError:
            continue
        return stated.replace(tzinfo=datetime.UTC) if stated.year in YEARS else None
    return None


def _clones(
    paths: Iterable[PurePosixPath], above: Iterable[str], is_known: Callable[[str], bool]
) -> Mapping[str, Claim]:
    """By the folder of a repository, whose it is. Its name begins with the assignment's, as does the folder above.

    A `.git` in the folders of a few is their own: only where most submissions lie in clones is it GitHub Classroom's.
    """
    paths = [*paths]
    folders = sorted({path.parts[0] for path in paths if len(path.parts) > 2 and path.parts[1] == ".git"})
    slugs = [f"{folder[: -len(CLONES)]}-" for folder in above if folder.endswith(CLONES)]
    if not slugs and len(folders) > 1:
        first, last = folders[0], folders[-1]
        shared = next(
            (place for place, two in enumerate(zip(first, last, strict=False)) if len({*two}) > 1), len(first)
        )
        slugs = [first[: first.rfind("-", 0, shared) + 1]]
    units = {path.parts[0] for path in paths if path.suffix.lower() in (".ipynb", ".zip") and not is_noise(path)}
    if 2 * len(units & {*folders}) <= len(units):
        return {}
    claimed = {}
    for folder in folders:
        ends = [folder[place + 1 :] for place, letter in enumerate(folder) if letter == "-"]
        known = next((end for end in ends if is_known(end)), "")
        name = next((folder[len(slug) :] for slug in slugs if folder.startswith(slug)), folder)
        if len(units) == 1 and not known and name == folder:  # one folder alone: nothing tells a clone from a student's
            continue
        claimed[folder] = Claim(known or name, platform=GITHUB)
    return claimed
