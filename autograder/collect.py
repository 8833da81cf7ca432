"""Take hand-ins from a zip, a folder of folders, or an LMS download, into nbgrader's `submitted/`.

Names, sizes and links are checked before anything is read; nothing is unpacked to disk. Every
hand-in is kept under `handins/`; the latest of each student is the one that is graded.
"""

import datetime
import errno
import hashlib
import io
import json
import os
import re
import stat
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from autograder import limited, reading, tree
from autograder.course import Course, CourseError, NotebookEntry
from autograder.record import timestamp
from utils.experiment import MAX_FILE, MAX_FILES, Files, read_files
from utils.verdict import legible

MAX_MEMBERS = 50_000
MAX_OWN_MEMBERS = 1000  # in a student's own zip, which may lie in the platform's; deeper ones are refused
MAX_OWN_NOTEBOOKS = 4  # how often the size of one notebook a student's zip may unpack to
MAX_RUNS = 8 * 2**20  # bytes of all runs of a hand-in; a run takes some 10 KB
MAX_NAME = 120  # bytes
PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # the others may take gigabytes to unpack a few bytes
MEMBER = b"PK\1\2"  # what the entry of each member of a zip begins with
RESULTS = ".results.json"
UNREADABLE = (zipfile.BadZipFile, zipfile.LargeZipFile, RuntimeError, ValueError, OSError, EOFError, zlib.error)
CONTAINERS = ("submissions", "submission", "submitted", "handins", "hand-ins", "downloads", "assignments")
NOISE = ("__MACOSX", ".ipynb_checkpoints", ".DS_Store", "Thumbs.db", "timestamp.txt")
# A run of an experiment, as `utils.hand_in` packs it; its folder lies beside the notebook.
RUN = re.compile(r"^(?P<beside>.*/)?results/(?P<name>[\w.,+-]{1,150}/seed_\d{1,6}\.json)$")
# How learning platforms name downloads. Canvas: name[_LATE]_user_file_FILE; Blackboard:
# TITLE_user_attempt_TIME_FILE; Moodle: a folder "Name_user_assignsubmission_file_".
CANVAS = re.compile(r"^(?P<student>[^_]+)_(?:LATE_)?(?P<id>\d+)_\d+_(?P<file>.+)$")
BLACKBOARD = re.compile(r"^.+?_(?P<student>[^_]+)_attempt_(?P<time>\d{4}(?:-\d\d){5})(?:_(?P<file>.+))?$")
MOODLE = re.compile(r"^(?P<student>.+?)_\d+_assignsubmission_\w+?_?$")


@dataclass(frozen=True)
class Found:
    """One file that may be a hand-in.

    `owner` is the path whose names say whose it is: within a student's own zip, that of the zip.
    """

    path: PurePosixPath
    text: bytes
    when: datetime.datetime
    owner: PurePosixPath
    packed: bool = False  # in a student's own zip
    runs: Callable[[], dict[str, bytes]] = dict  # reads the files of experiments' runs that lay beside it


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
    packed: set[tuple[PurePosixPath, str]] = set()
    for found in _Reader(course, result).files(source):
        entry = _notebook(course, found) or only
        name = _student(course, found.owner)
        student, path = slug(name), legible(str(found.path), 300)
        if entry is None:
            result.refused.append(f"{path}: which notebook is it? Name it like in the course, or use --notebook")
        elif not student:
            result.refused.append(f"{path}: whose is it? Put it into a folder with the student's name")
        elif not _is_the_same(course, student, name):
            result.refused.append(f"{path}: another student is called {student} already; rename one of the two")
        elif found.packed and (found.owner, entry.name) in packed:
            why = "if the zip holds several students' files, collect it by itself"
            result.refused.append(f"{path}: a second {entry.name} in the zip of {student}; {why}")
        else:
            packed.add((found.owner, entry.name))
            try:
                runs = _readable(found.runs(), path, result) if entry.has_experiments else {}
                result.taken.append(_keep(course, entry, student, found, runs))
            except OSError as bad:
                if bad.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
                    raise
                result.refused.append(f"{path}: cannot be kept ({bad.strerror})")
    result.refused = [legible(line) for line in result.refused]
    return result


def slug(name: str) -> str:
    """A student's name as a folder name: letters of any script, digits, `. _ @ + -`; spaces become `_`.

    It begins with none of the signs that a shell, a folder listing or a spreadsheet reads in its own way.
    """
    name = re.sub(r"\s+", "_", unicodedata.normalize("NFC", name).strip())
    return re.sub(r"[^\w.@+-]", "", name).lstrip(".-+@").encode()[:MAX_NAME].decode(errors="ignore")


class _Reader:
    """Reads the notebooks of a folder or a zip one by one, and says what it refuses."""

    def __init__(self, course: Course, result: Collected):
        self.course, self.result = course, result
        self.most = int(course.limits.notebook_mb * 2**20)

    def files(self, source: Path) -> Iterator[Found]:
        """Every notebook below `source`."""
        if not source.is_dir():
            when = datetime.datetime.fromtimestamp(source.stat().st_mtime, datetime.UTC)
            if source.suffix.lower() == ".zip" and not source.is_symlink():
                with source.open("rb") as file:
                    yield from self._zip(file, PurePosixPath(), when)
            else:
                yield from self._file(source, PurePosixPath(source.name), 0)
            return
        inside: list[PurePosixPath] = []
        empty: list[PurePosixPath] = []
        for folder, folders, names in os.walk(source, followlinks=False):
            folders.sort()
            below = PurePosixPath(Path(folder).relative_to(source).as_posix())
            inside += [below / name for name in sorted(names)]
            empty += [below / name for name in folders if not (Path(folder) / name).is_symlink()]
        self._refuse_folders(empty, inside)
        if not inside:
            self._refuse(source.name, "the folder is empty")
        above = _containers(self.course, inside)
        for path in inside:
            yield from self._file(source / path, path, above)

    def _refuse(self, name: object, why: str) -> None:
        self.result.refused.append(f"{name}: {why}")

    def _refuse_folders(self, folders: list[PurePosixPath], files: list[PurePosixPath]) -> None:
        """Name the folders that are called like a notebook and hold none."""
        holding = {parent for path in files if path.suffix.lower() == ".ipynb" for parent in path.parents}
        for path in sorted({*folders}):
            if path.suffix.lower() == ".ipynb" and path not in holding and not set(path.parts) & {*NOISE}:
                self._refuse(path, "a folder, not a notebook; hand in the file itself")

    def _file(self, path: Path, inside: PurePosixPath, above: int) -> Iterator[Found]:
        """A file of a folder. `above` is the number of folders over it that name no student."""
        if any(part in NOISE for part in inside.parts):
            return
        if path.is_symlink() or not path.is_file():
            self._refuse(inside, "a link or special file, not followed")
            return
        owner = PurePosixPath(*inside.parts[above:])
        when = datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.UTC)
        if path.suffix.lower() == ".zip":
            own = bool(owner.parent.parts) or _platform(owner.name) is not None
            with path.open("rb") as file:
                yield from self._zip(file, owner if own else PurePosixPath(), when, own)
        elif path.suffix.lower() == ".ipynb":
            runs = partial(self._beside, path.parent / "results")
            with path.open("rb") as file:
                yield from self._found(inside, file.read(self.most + 1), when, owner, runs=runs)
        elif not RUN.match(inside.as_posix()):  # runs are read with the notebook that they lie beside
            self._refuse(inside, "not a notebook")

    def _found(
        self,
        path: PurePosixPath,
        text: bytes,
        when: datetime.datetime,
        owner: PurePosixPath,
        packed: bool = False,
        runs: Callable[[], dict[str, bytes]] = dict,
    ) -> Iterator[Found]:
        """The file itself; one byte too many is refused when it is graded. Blackboard states the time in its name."""
        match = BLACKBOARD.match(owner.name) if len(owner.parts) == 1 else None
        if match:
            try:
                when = datetime.datetime.strptime(match["time"], "%Y-%m-%d-%H-%M-%S").astimezone(datetime.UTC)
            except (ValueError, OverflowError):
                self._refuse(path, "its name states no valid time")
                return
        yield Found(path, text, when, owner, packed, runs)

    def _beside(self, results: Path) -> dict[str, bytes]:
        """The files of runs in a folder, unless they are too large to be runs."""
        if sum(path.lstat().st_size for path in results.glob("*/seed_*.json")) > MAX_RUNS:
            self._refuse(f"{results.parent.name}/{results.name}", f"more than {MAX_RUNS // 2**20} MB of runs")
            return {}
        return read_files(results)

    def _zip(self, file: BinaryIO, owner: PurePosixPath, when: datetime.datetime, own: bool = False) -> Iterator[Found]:
        """The notebooks of a zip, read in memory. A student's `own` says nothing of names and times that we believe."""
        called = owner if owner.name else "the zip"
        if own:
            parts = iter(partial(file.read, 2**20), b"")
            listed = sum(part.count(MEMBER) for part in parts)  # before zipfile makes a kilobyte of each
            if listed > MAX_OWN_MEMBERS:
                self._refuse(owner, f"a zip of {listed} files")
                return
        try:
            with zipfile.ZipFile(file) as archive:
                named = [member for member in archive.infolist() if member.filename]  # zipfile ends a name at a NUL
                if len(named) < len(archive.infolist()):
                    self._refuse(called, "it holds a file without a name")
                members = [member for member in named if not member.is_dir()]
                if not members:
                    self._refuse(called, "the zip is empty: it holds no file")
                if len(members) > (MAX_OWN_MEMBERS if own else MAX_MEMBERS):
                    self._refuse(owner, f"a zip of {len(members)} files")
                    return
                if own:  # of two versions, the one that lies deeper is the older one
                    members.sort(key=lambda member: member.filename.count("/"))
                names = [PurePosixPath(member.filename.replace("\\", "/")) for member in members]
                folders = [PurePosixPath(member.filename) for member in named if member.is_dir()]
                self._refuse_folders(folders + [parent for name in names for parent in name.parents], names)
                above = 0 if own else _containers(self.course, names)
                room = MAX_OWN_NOTEBOOKS * self.most
                runs = self._runs(members, names)
                for member, name in zip(members, names, strict=True):
                    if RUN.match(name.as_posix()):
                        continue
                    text = self._member(archive, member, owner / name, own)
                    if text is None:
                        continue
                    room -= len(text)
                    if own and room < 0:
                        self._refuse(owner / name, f"a student's zip of more than {MAX_OWN_NOTEBOOKS} large notebooks")
                        return
                    whose = owner if own else PurePosixPath(*name.parts[above:])
                    stamp = when if own else self._stated(member, when)
                    if name.suffix.lower() == ".ipynb":
                        beside = partial(self._unpacked, archive, runs.get(name.parent.as_posix(), {}))
                        yield from self._found(owner / name if own else name, text, stamp, whose, own, beside)
                    elif len(text) > self.most:
                        self._refuse(owner / name, "a zip larger than one notebook may be")
                    else:
                        yield from self._zip(io.BytesIO(text), whose, stamp, own=True)
        except UNREADABLE:
            self._refuse(called, "cannot be read as a zip: it is damaged, or none")

    def _runs(
        self, members: list[zipfile.ZipInfo], names: list[PurePosixPath]
    ) -> dict[str, dict[str, zipfile.ZipInfo]]:
        """The members that are runs, by the folder that their `results` lies in; too many are refused."""
        found: dict[str, dict[str, zipfile.ZipInfo]] = {}
        for member, name in zip(members, names, strict=True):
            match = RUN.match(name.as_posix())
            if not match or stat.S_ISLNK(member.external_attr >> 16) or ".." in name.parts or name.is_absolute():
                continue
            some = found.setdefault(PurePosixPath(match["beside"] or ".").as_posix(), {})
            if len(some) < MAX_FILES:
                some[match["name"]] = member
            else:
                self._refuse(name, f"more than {MAX_FILES} runs")
        return found

    def _unpacked(self, archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo]) -> dict[str, bytes]:
        """What these members hold, unless that is too much for runs."""
        found: dict[str, bytes] = {}
        left = MAX_RUNS
        for name, member in members.items():
            why = _locked(member)
            try:
                if not why:
                    with archive.open(member) as file:
                        found[name] = file.read(min(MAX_FILE, left) + 1)
                    left -= len(found[name])
            except UNREADABLE:
                why = "cannot be unpacked: it is damaged"
            if why:
                self._refuse(member.filename, why)
            if left < 0:
                self._refuse(member.filename, f"more than {MAX_RUNS // 2**20} MB of runs: none is taken")
                return {}
        return found

    def _member(
        self, archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: PurePosixPath, own: bool
    ) -> bytes | None:
        """What a member of a zip holds, or None if it is refused."""
        if any(part in NOISE for part in path.parts):
            return None
        suffix, name = path.suffix.lower(), member.filename.replace("\\", "/")
        if name.startswith("/") or ".." in path.parts or re.match(r"^[A-Za-z]:", name):
            self._refuse(path, "its path leads out of the zip")
        elif stat.S_ISLNK(member.external_attr >> 16):
            self._refuse(path, "a link, not followed")
        elif suffix not in (".ipynb", ".zip") or (suffix == ".zip" and own):
            self._refuse(path, "not a notebook")
        elif _locked(member):
            self._refuse(path, _locked(member))
        else:
            try:
                with archive.open(member) as file:
                    return file.read(self.most + 1)  # what it claims to hold is not believed
            except UNREADABLE:
                self._refuse(path, "cannot be unpacked: it is damaged")
        return None

    def _stated(self, member: zipfile.ZipInfo, when: datetime.datetime) -> datetime.datetime:
        """When the learning platform took a file; the zip's own time if it states none."""
        if member.date_time <= (1981,):
            return when
        try:
            return datetime.datetime(*member.date_time).astimezone(datetime.UTC)
        except (ValueError, OverflowError):
            self._refuse(member.filename, "has no valid time; the zip's own is used")
            return when


def _locked(member: zipfile.ZipInfo) -> str:
    """Why a member of a zip is not opened; "" if it is."""
    if member.flag_bits & 1:
        return "it is encrypted; hand in a zip without a password"
    return "" if member.compress_type in PACKED else "packed in an unusual way; make the zip with the usual settings"


def _readable(runs: dict[str, bytes], path: str, result: Collected) -> dict[str, bytes]:
    """Those of a hand-in's runs that can be parsed, whatever the judge will say of them; the others are refused."""
    try:
        kept = limited.call(reading.parsed_runs, runs) if runs else []
    except limited.TooCostly as why:
        result.refused.append(f"{path}: its runs cannot be read: {why}")
        return {}
    result.refused += [f"{path}: {name} cannot be read as a run" for name in runs if name not in kept]
    return {name: runs[name] for name in kept}


def pack(runs: Files) -> bytes:
    """The files of runs as one file of the course tree; none is b""."""
    whole = {name: content.decode(errors="replace") for name, content in sorted(runs.items())}
    return json.dumps(whole).encode() if runs else b""


def unpack(packed: bytes) -> dict[str, bytes]:
    """What `pack` packed."""
    return {name: content.encode() for name, content in json.loads(packed or b"{}").items()}


def _containers(course: Course, paths: list[PurePosixPath]) -> int:
    """How many folders above all hand-ins name no student, since all hand-ins lie in them.

    Folders below a student's are the student's to name, so only those count that hold several
    students, or that are called what platforms call them.
    """
    known = [path for path in paths if path.suffix.lower() in (".ipynb", ".zip") and not set(path.parts) & {*NOISE}]
    for above in range(max((len(path.parts) for path in known), default=0)):
        keys = {_key(course, PurePosixPath(*path.parts[above + 1 :])) for path in known}
        if len({path.parts[: above + 1] for path in known}) > 1 or "" in keys:
            return above
        if len(keys) < 2 and known[0].parts[above].lower() not in CONTAINERS:
            return above
    return 0


def _key(course: Course, path: PurePosixPath) -> str:
    """Whose a path seems to be, "" if it does not say."""
    folders = _folders(course, path)
    return folders[0] if folders else _platform(path.name) or ""


def _folders(course: Course, path: PurePosixPath) -> list[str]:
    return [part for part in path.parts[:-1] if all(part != entry.name for entry in course.notebooks)]


def _platform(name: str) -> str | None:
    """The student whom a learning platform names in a file's name."""
    match = CANVAS.match(name) or BLACKBOARD.match(name)
    return "_".join(part for part in (match["student"], match.groupdict().get("id")) if part) if match else None


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
    """Whose it is: the topmost folder that is no notebook's, else what the file's name says."""
    folders = _folders(course, path)
    if folders:
        moodle = MOODLE.match(folders[0])
        return moodle["student"] if moodle else folders[0]
    name = path.stem
    for entry in course.notebooks:
        name = name.replace(entry.name, "")
    return _platform(path.name) or re.sub(r"^[\s_+-]+|[\s_+-]+$|\s*\(\d+\)$", "", name)


def _is_the_same(course: Course, student: str, name: str) -> bool:
    """Whether `student` stands for this name; two names must not share a folder."""
    known, name = course.tree / "handins" / student / "name.txt", legible(name)
    if not known.exists():
        tree.write(known, name)
    return known.read_text() == name


def _keep(course: Course, entry: NotebookEntry, student: str, found: Found, runs: Files) -> str:
    """File a hand-in; the latest becomes the one that is graded, the others stay beside it."""
    results = pack(runs)
    digest = hashlib.sha256(found.text + results).hexdigest()[:8]
    folder = course.tree / "handins" / student / entry.name
    kept = folder / f"{found.when:%Y%m%dT%H%M%SZ}-{digest}.ipynb"
    if results:  # first: the notebook says that the hand-in is there
        tree.write(kept.with_suffix(RESULTS), results)
    tree.write(kept, found.text)
    latest = max(folder.glob("*.ipynb"), key=lambda path: path.name[:16])
    submitted = tree.place(course, "submitted", entry, student)
    taken = datetime.datetime.strptime(latest.name[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.UTC)
    stamp = submitted.with_name("timestamp.txt")
    if not submitted.exists() or submitted.read_bytes() != latest.read_bytes():
        tree.write(submitted, latest.read_bytes())
    packed = latest.with_suffix(RESULTS)
    place = tree.results_path(course, entry, student)
    if packed.exists():
        tree.write(place, packed.read_bytes())
    else:
        place.unlink(missing_ok=True)
    if not stamp.exists() or stamp.read_text() != timestamp(taken) + "\n":
        tree.write(stamp, timestamp(taken) + "\n")
    older = len(list(folder.glob("*.ipynb"))) - 1
    also = f" ({older} other hand-in{'s' * (older > 1)} kept; the latest counts)" if older else ""
    return f"{student}: {entry.name} from {legible(str(found.path), 300)}{also}"
