"""Take hand-ins from a zip, a folder of folders, or an LMS download, into nbgrader's `submitted/`.

Names, sizes and links are checked before anything is read; nothing is unpacked to disk. Every
hand-in is kept under `handins/`; the latest of each student is the one that is graded.
"""

import datetime
import hashlib
import io
import os
import re
import stat
import unicodedata
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from autograder import tree
from autograder.course import Course, CourseError, NotebookEntry
from autograder.record import timestamp

MAX_MEMBERS = 50_000
MAX_DEPTH = 2  # a student's zip within the LMS's zip
NOISE = ("__MACOSX", ".ipynb_checkpoints", ".DS_Store", "Thumbs.db", "timestamp.txt")
# How learning platforms name downloads. Canvas: name[_LATE]_user_file_FILE; Blackboard:
# TITLE_user_attempt_TIME_FILE; Moodle: a folder "Name_user_assignsubmission_file_".
CANVAS = re.compile(r"^(?P<student>[^_]+)_(?:LATE_)?(?P<id>\d+)_\d+_(?P<file>.+)$")
BLACKBOARD = re.compile(r"^.+?_(?P<student>[^_]+)_attempt_(?P<time>\d{4}(?:-\d\d){5})(?:_(?P<file>.+))?$")
MOODLE = re.compile(r"^(?P<student>.+?)_\d+_assignsubmission_\w+?_?$")


@dataclass(frozen=True)
class Found:
    """One file that may be a hand-in."""

    path: PurePosixPath
    text: bytes
    when: datetime.datetime


@dataclass
class Collected:
    """What `collect` took, a line each, and what it refused."""

    taken: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


def collect(course: Course, source: Path, only: NotebookEntry | None = None) -> Collected:
    """Take every hand-in that `source` holds; the rest is named in the result, and nothing stops the others.

    `only` is the notebook that files of other names are taken for.

    Raises:
        CourseError: there is no such zip, folder or notebook.
    """
    result = Collected()
    if not source.exists():
        raise CourseError(f"{source} does not exist")
    most = int(course.limits.notebook_mb * 2**20)
    for found in _files(source, most, result):
        entry = _notebook(course, found) or only
        student = slug(_student(course, found.path))
        if entry is None:
            result.refused.append(f"{found.path}: which notebook is it? Name it like in the course, or use --notebook")
        elif not student:
            result.refused.append(f"{found.path}: whose is it? Put it into a folder with the student's name")
        elif not _is_the_same(course, student, _student(course, found.path)):
            result.refused.append(f"{found.path}: another student is called {student} already; rename one of the two")
        else:
            result.taken.append(_keep(course, entry, student, found))
    return result


def slug(name: str) -> str:
    """A student's name as a folder name: letters of any script, digits, `. _ @ + -`; spaces become `_`."""
    name = re.sub(r"\s+", "_", unicodedata.normalize("NFC", name).strip())
    return re.sub(r"[^\w.@+-]", "", name).lstrip(".-")[:80]


def _files(source: Path, most: int, result: Collected) -> Iterator[Found]:
    if source.is_dir():
        for folder, folders, names in os.walk(source, followlinks=False):
            folders.sort()
            for name in sorted(names):
                path = Path(folder, name)
                yield from _file(path, PurePosixPath(path.relative_to(source).as_posix()), most, result)
    else:
        yield from _file(source, PurePosixPath(source.name), most, result)


def _file(path: Path, inside: PurePosixPath, most: int, result: Collected) -> Iterator[Found]:
    if any(part in NOISE for part in inside.parts):
        return
    if path.is_symlink() or not path.is_file():
        result.refused.append(f"{inside}: a link or special file, not followed")
        return
    when = datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.UTC)
    if path.suffix.lower() == ".zip":
        top = inside.parent if inside.parent.parts else PurePosixPath()
        with path.open("rb") as file:
            yield from _zip(file, top, when, most, result, 1)
    elif path.suffix.lower() == ".ipynb":
        with path.open("rb") as file:
            yield Found(inside, file.read(most + 1), when)  # one byte too many is refused when it is graded
    else:
        result.refused.append(f"{inside}: not a notebook")


def _zip(
    file: io.BufferedIOBase, top: PurePosixPath, when: datetime.datetime, most: int, result: Collected, depth: int
) -> Iterator[Found]:
    """The notebooks of a zip, read in memory one by one; a nested zip is a student's own."""
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            if len(members) > MAX_MEMBERS:
                result.refused.append(f"{top}: a zip of more than {MAX_MEMBERS} files")
                return
            for member in members:
                yield from _member(archive, member, top, when, most, result, depth)
    except (zipfile.BadZipFile, NotImplementedError, OSError, EOFError) as bad:
        result.refused.append(f"{top or 'the zip'}: cannot be read as a zip ({bad})")


def _member(
    archive: zipfile.ZipFile,
    member: zipfile.ZipInfo,
    top: PurePosixPath,
    when: datetime.datetime,
    most: int,
    result: Collected,
    depth: int,
) -> Iterator[Found]:
    name = PurePosixPath(member.filename.replace("\\", "/"))
    if member.is_dir() or any(part in NOISE for part in name.parts):
        return
    if name.is_absolute() or ".." in name.parts or re.match(r"^[A-Za-z]:", member.filename):
        result.refused.append(f"{member.filename}: its path leads out of the zip")
        return
    if stat.S_ISLNK(member.external_attr >> 16):
        result.refused.append(f"{member.filename}: a link, not followed")
        return
    suffix = name.suffix.lower()
    if suffix not in (".ipynb", ".zip") or (suffix == ".zip" and depth >= MAX_DEPTH):
        result.refused.append(f"{member.filename}: not a notebook")
        return
    # A student's own zip states a student's own times; the LMS's zip states when the LMS took it.
    stamp = when
    if depth == 1 and member.date_time > (1981,):
        try:
            stamp = datetime.datetime(*member.date_time).astimezone(datetime.UTC)
        except ValueError:
            result.refused.append(f"{member.filename}: has no valid time; the zip's own is used")
    try:
        with archive.open(member) as file:
            text = file.read(most + 1)  # what it claims to hold is not believed
    except (RuntimeError, zipfile.BadZipFile, NotImplementedError, OSError, EOFError) as bad:
        result.refused.append(f"{member.filename}: cannot be unpacked ({bad})")
        return
    if suffix == ".ipynb":
        yield Found(top / name, text, stamp)
    elif len(text) > most:
        result.refused.append(f"{member.filename}: a zip larger than one notebook may be")
    else:
        yield from _zip(io.BytesIO(text), top / name.with_suffix(""), stamp, most, result, depth + 1)


def _notebook(course: Course, found: Found) -> NotebookEntry | None:
    """Which notebook it is: by its name, else by the ids of its cells."""
    for entry in course.notebooks:
        if entry.name in found.path.name or entry.name in found.path.parts[:-1]:
            return entry
    for entry in course.notebooks:
        number = entry.number.lstrip("0").encode()
        if re.search(rb'"(?:grade_id|id)":\s*"exercise_' + number + rb"_\w+\"", found.text):
            return entry
    return None


def _student(course: Course, path: PurePosixPath) -> str:
    """Whose it is: the topmost folder that is no notebook's, or a part of the file's name."""
    for pattern in (CANVAS, BLACKBOARD):
        match = pattern.match(path.name)
        if match:
            return "_".join(part for part in (match["student"], match.groupdict().get("id")) if part)
    folders = [part for part in path.parts[:-1] if all(part != entry.name for entry in course.notebooks)]
    if folders:
        moodle = next((match for match in map(MOODLE.match, folders) if match), None)
        return moodle["student"] if moodle else folders[-1]
    name = path.stem
    for entry in course.notebooks:
        name = name.replace(entry.name, "")
    return re.sub(r"^[\s_+-]+|[\s_+-]+$|\s*\(\d+\)$", "", name)


def _is_the_same(course: Course, student: str, name: str) -> bool:
    """Whether `student` stands for this name; two names must not share a folder."""
    known = course.tree / "handins" / student / "name.txt"
    if not known.exists():
        tree.write(known, name)
    return known.read_text() == name


def _keep(course: Course, entry: NotebookEntry, student: str, found: Found) -> str:
    """File a hand-in; the latest becomes the one that is graded, the others stay beside it."""
    match = BLACKBOARD.match(found.path.name)
    when = found.when
    if match:
        when = datetime.datetime.strptime(match["time"], "%Y-%m-%d-%H-%M-%S").astimezone(datetime.UTC)
    digest = hashlib.sha256(found.text).hexdigest()[:8]
    folder = course.tree / "handins" / student / entry.name
    tree.write(folder / f"{when:%Y%m%dT%H%M%SZ}-{digest}.ipynb", found.text)
    latest = max(folder.glob("*.ipynb"), key=lambda path: path.name[:16])
    submitted = tree.place(course, "submitted", entry, student)
    taken = datetime.datetime.strptime(latest.name[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.UTC)
    stamp = submitted.with_name("timestamp.txt")
    if not submitted.exists() or submitted.read_bytes() != latest.read_bytes():
        tree.write(submitted, latest.read_bytes())
    if not stamp.exists() or stamp.read_text() != timestamp(taken) + "\n":
        tree.write(stamp, timestamp(taken) + "\n")
    older = len(list(folder.glob("*.ipynb"))) - 1
    also = f" ({older} other hand-in{'s' * (older > 1)} kept; the latest counts)" if older else ""
    return f"{student}: {entry.name} from {found.path}{also}"
