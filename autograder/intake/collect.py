"""Take hand-ins from a zip, a folder of folders, or an LMS download, into nbgrader's `submitted/`.

Names, sizes and links are checked before anything is read; nothing is unpacked to disk. Every
hand-in is kept under `handins/`; the latest of each student is the one that is graded.
"""

import datetime
import errno
import glob
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
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from autograder import limited
from autograder.course import Course, CourseError, NotebookEntry
from autograder.gradebook import course_tree, roster
from autograder.gradebook.recording import timestamp
from autograder.intake import reading
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
# How learning platforms name downloads. Canvas: NAME[_LATE]_USER_ATTACHMENT_FILE, or, without names,
# [LATE_]anon_CODE_ATTACHMENT_FILE; Blackboard: TITLE_USER_attempt_TIME_FILE; Moodle: a folder
# "NAME_NUMBER_assignsubmission_file_", or the same before the file's name.
CANVAS = re.compile(r"^(?P<name>.+?)_(?P<late>LATE_)?(?P<id>\d+)_(?P<attachment>\d+)_(?P<file>.+)$")
ANONYMOUS = re.compile(r"^(?P<late>LATE_)?(?P<name>anon_(?P<id>[^_]+))_(?P<attachment>\d+)_(?P<file>.+)$")
BLACKBOARD = re.compile(r"^.+?_(?P<student>[^_]+)_attempt_(?P<time>\d{4}(?:-\d\d){5})(?:_(?P<file>.+))?$")
MOODLE = re.compile(r"^(?P<name>.+?)_(?P<id>\d+)_assignsubmission_[a-z]+_?(?P<file>.*)$")
# What Moodle calls everybody where names are hidden.
HIDDEN = ("participant", "participante", "partecipante", "teilnehmer", "teilnehmerin", "deelnemer", "deltagare")
# What systems make of the name of a file that is copied, or saved twice. It names nobody.
COPY_BEFORE = re.compile(
    r"^(copy[ _]of|copie[ _]de|kopie[ _]von|c[oó]pia[ _]d[ie]|kopia|copy|copie|kopie)(?=[\s_]|$)", re.I
)
COPY_AFTER = re.compile(r"([\s_-]+(copy|copie|kopie|copia|cópia)|\s*\(\d+\))$", re.I)
MOODLE_SPREAD = datetime.timedelta(minutes=5)  # times of a Moodle download that are closer are the download's own


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
    notes: list[str] = field(default_factory=list)  # what somebody should know of whose they are, and of when


@dataclass(frozen=True)
class _Claim:
    """What the names of a download say: whose a file is, and what the platform says of its time."""

    name: str
    id: str = ""  # the platform's
    platform: str = ""
    late: bool = False  # the platform marks it
    attachment: int = 0  # a later one has a larger number

    def student(self) -> str:
        """Name and number, where a number goes with the name for ever."""
        with_number = self.platform == "Canvas" and self.name != f"anon_{self.id}"
        return f"{self.name}_{self.id}" if with_number else self.name


def collect(course: Course, source: Path, only: NotebookEntry | None = None, whose: str = "") -> Collected:
    """Take every hand-in that `source` holds; the rest is named in the result, and nothing stops the others.

    `only` is the notebook that files of other names are taken for. With `whose`, all of it is that student's.

    Raises:
        CourseError: there is no such zip, folder, notebook or student.
    """
    result = Collected()
    if not source.exists():
        raise CourseError(f"{source} does not exist")
    named = _Names(course, source, result, whose)
    packed: set[tuple[object, str]] = set()
    for found in _Reader(course, result).files(source):
        entry = _notebook(course, found) or only
        path = legible(str(found.path), 300)
        if entry is None:
            result.refused.append(f"{path}: which notebook is it? Name it like in the course, or use --notebook")
            continue
        claim = _claim(course, PurePosixPath(unicodedata.normalize("NFC", str(found.owner))))
        owner = "all of it" if whose else found.owner
        try:
            student = named.student(claim, entry)
        except CourseError as why:
            result.refused.append(f"{path}: {why}")
            continue
        if (found.packed or whose) and (owner, entry.name) in packed:
            do = "if the zip holds several students' files, collect it by itself"
            result.refused.append(f"{path}: a second {entry.name} in the zip of {student}; {do}")
        else:
            packed.add((owner, entry.name))
            if not found.text.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
                result.notes.append(
                    f"{path}: it is no notebook ({len(found.text)} bytes); if it is the latest of {student} it counts, "
                    f"and `autograder remove {student} {entry.number} --latest` goes back to the one before, if any"
                )
            try:
                runs = _readable(found.runs(), path, result) if entry.has_experiments else {}
                result.taken.append(_keep(course, entry, student, found, runs, named.told_time(claim, entry), claim))
            except OSError as bad:
                if bad.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
                    raise
                result.refused.append(f"{path}: cannot be kept ({bad.strerror})")
    if not result.taken and not result.refused:
        result.refused.append(f"{source}: it is empty, or holds no notebook and no zip")
    result.refused = [legible(line) for line in result.refused]
    result.notes = [legible(line) for line in dict.fromkeys(result.notes)]
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
            if path.suffix.lower() == ".ipynb" and path not in holding and not _is_noise(path):
                self._refuse(path, "a folder, not a notebook; hand in the file itself")

    def _file(self, path: Path, inside: PurePosixPath, above: int) -> Iterator[Found]:
        """A file of a folder. `above` is the number of folders over it that name no student."""
        if _is_noise(inside):
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
        claim = _platform_claim(owner.name) if len(owner.parts) == 1 else None
        match = BLACKBOARD.match(owner.name) if claim and claim.platform == "Blackboard" else None
        if match:
            try:
                when = self.course.utc(datetime.datetime.strptime(match["time"], "%Y-%m-%d-%H-%M-%S"))
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
        if _is_noise(path):
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
            return self.course.utc(datetime.datetime(*member.date_time))
        except (ValueError, OverflowError):
            self._refuse(member.filename, "has no valid time; the zip's own is used")
            return when


def _is_noise(path: PurePosixPath) -> bool:
    """Whether systems, not students, made a file: macOS keeps what its own disks know of x in `._x`."""
    return any(part in NOISE or part.startswith("._") for part in path.parts)


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
    known = [path for path in paths if path.suffix.lower() in (".ipynb", ".zip") and not _is_noise(path)]
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
    claim = _platform_claim(name)
    return f"{claim.name}_{claim.id}" if claim else None


def _platform_claim(name: str) -> _Claim | None:
    """What a learning platform says in a file's name.

    The platform's part stands first, and behind it the student's own name of the file, which may look like the part
    of another platform: of several readings the one that begins first is the platform's.
    """
    readings: list[tuple[int, _Claim]] = []
    found = ANONYMOUS.match(name) or CANVAS.match(name)
    if found and not found["attachment"].startswith("0"):  # else it is the number of a notebook
        claim = _Claim(found["name"], found["id"], "Canvas", bool(found["late"]), int(found["attachment"]))
        readings.append((found.start("id"), claim))
    found = BLACKBOARD.match(name)
    if found:
        readings.append((found.start("student"), _Claim(found["student"], found["student"], "Blackboard")))
    found = MOODLE.match(name)
    if found:
        readings.append((found.start("id"), _Claim(found["name"], found["id"], "Moodle")))
    return min(readings, key=lambda reading: reading[0])[1] if readings else None


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


def _claim(course: Course, path: PurePosixPath) -> _Claim:
    """Whose it says to be: the topmost folder that is no notebook's, else the file's name."""
    folders = _folders(course, path)
    if folders:
        moodle = MOODLE.match(folders[0])
        return _Claim(moodle["name"], moodle["id"], "Moodle") if moodle else _Claim(_somebody(folders[0], folders[0]))
    name = path.stem
    for entry in course.notebooks:
        name = name.replace(entry.name, "")
    return _platform_claim(path.name) or _Claim(_somebody(name, _without_copy(name)))


def _without_copy(name: str) -> str:
    """The name of a file without what systems add to copies and to files that are saved twice."""
    left, before = name, ""
    while left != before:
        before = left
        left = COPY_AFTER.sub("", COPY_BEFORE.sub("", re.sub(r"^[\s_+-]+|[\s_+-]+$", "", left)))
    return left


def _somebody(name: str, read: str) -> str:
    """The name as it was `read`; "" if it names nobody: a copy, or a number such as that of a copy."""
    return "" if re.fullmatch(r"\W*\d{0,2}\W*", _without_copy(name)) else read


class _Names:
    """Whose the hand-ins of one download are: nobody's is merged with another's unless the roster says so."""

    def __init__(self, course: Course, source: Path, result: Collected, whose: str):
        self.course, self.result = course, result
        self.roster = roster.load(course)
        self.whose = whose
        if whose:
            self.whose = self.roster.find(whose).id if self.roster else slug(whose)
            if not self.whose:
                raise CourseError(f"`{whose}` cannot be a student's name: it has no letter and no digit")
        numbers: dict[tuple[str, str], set[str]] = {}
        times = []
        for path, when in _listed(source):
            moodle = next(filter(None, map(MOODLE.match, path.parts)), None)
            if moodle:
                numbers.setdefault((moodle["name"], _file_of(course, path.name)), set()).add(moodle["id"])
                times.append(when)
        self.without_zone = source.suffix.lower() == ".zip"  # a zip's times; those of files in a folder are absolute
        self.ambiguous = {name for (name, _), several in numbers.items() if len(several) > 1}
        self.moodle_times = bool(times) and max(times) - min(times) > MOODLE_SPREAD

    def told_time(self, claim: _Claim, entry: NotebookEntry) -> bool:
        """Whether the time of this file is when it was handed in; somebody is told what zone it was read in."""
        if claim.platform == "Canvas" or (claim.platform == "Moodle" and not self.moodle_times):
            self.result.notes.append(
                f"this download of {claim.platform} does not say when files were handed in: nobody is late by it"
                + (", but whom Canvas marks LATE" if claim.platform == "Canvas" else "")
            )
            return False
        if (self.without_zone or claim.platform == "Blackboard") and entry.deadline and not self.course.timezone:
            here = entry.deadline.astimezone()
            if here.utcoffset() != entry.deadline.utcoffset():
                self.result.notes.append(
                    f"times in this download name no zone and were read in this machine's, {here:UTC%z}, while the "
                    f"deadline of {entry.name} has {entry.deadline:UTC%z}: state `timezone` in course.toml, then "
                    "collect again"
                )
        return True

    def student(self, claim: _Claim, entry: NotebookEntry) -> str:
        """The folder of whoever handed this in.

        Raises:
            CourseError: that cannot be said; the message says what to do.
        """
        if self.whose:
            return self.whose
        if not slug(claim.name):
            raise CourseError(
                "whose is it? The name says nobody's: put it into a folder with the student's name, or use --student"
            )
        if self.roster:
            return self._listed_student(self.roster, claim, entry)
        name = claim.student()
        if claim.platform == "Moodle" and self._shared(claim, entry):
            name = f"{claim.name}_{claim.id}"
            if claim.name.casefold() not in HIDDEN:
                self.result.notes.append(
                    f"Moodle's number {claim.id} is called {claim.name} like somebody else: taken as {slug(name)}. "
                    f"Moodle's numbers differ in each assignment: say who is who in {self.course.tree / 'students.csv'}"
                )
        student = slug(name)
        known = self.course.tree / "handins" / student / "name.txt"
        if not known.exists():
            course_tree.write(known, legible(claim.name))
        if known.read_text() not in (legible(claim.name), legible(name)):
            raise CourseError(f"another student is called {student} already; rename one of the two")
        self._remember(student, claim, entry)
        return student

    def _listed_student(self, known: roster.Roster, claim: _Claim, entry: NotebookEntry) -> str:
        """The folder of a student of the roster."""
        student = known.find(claim.name, claim.id).id
        before = self._number(student, entry)
        if claim.id and before not in ("", claim.id) and claim.id not in known.students[student].platform_ids:
            raise CourseError(
                f"{claim.name} handed in under the numbers {before} and {claim.id}, and {known.path.name} has one such "
                "student: write the platform's numbers into platform_ids, of one student or of two"
            )
        self._remember(student, claim, entry)
        older = slug(claim.student())
        if older != student and (self.course.tree / "handins" / older / entry.name).exists():
            self.result.notes.append(
                f"{student} was collected as {older} before: `autograder remove {older} {entry.number}` removes that"
            )
        return student

    def _shared(self, claim: _Claim, entry: NotebookEntry) -> bool:
        """Whether another student has this name, too, here or in what was collected before."""
        if self._number(slug(claim.name), entry) == claim.id:
            return False  # the one who came first
        if claim.name.casefold() in HIDDEN or claim.name in self.ambiguous:
            return True
        if self._number(slug(claim.name), entry):
            return True
        others = self.course.tree.glob(f"handins/{glob.escape(slug(claim.name))}_*/name.txt")
        return any(other.read_text() == legible(claim.name) for other in others)

    def _number(self, student: str, entry: NotebookEntry) -> str:
        path = self._number_path(student, entry)
        return path.read_text() if path.exists() else ""

    def _number_path(self, student: str, entry: NotebookEntry) -> Path:
        return self.course.tree / "handins" / student / entry.name / "platform_id.txt"

    def _remember(self, student: str, claim: _Claim, entry: NotebookEntry) -> None:
        if claim.id and not self._number(student, entry):
            course_tree.write(self._number_path(student, entry), claim.id)


def _file_of(course: Course, name: str) -> str:
    """The notebook that a file's name speaks of, else ""."""
    return next((entry.name for entry in course.notebooks if entry.name in name), "")


def _listed(source: Path) -> Iterator[tuple[PurePosixPath, datetime.datetime]]:
    """The names and times of what a folder or zip holds; nothing of a zip that cannot be read: the reader says so."""
    if source.is_dir():
        for folder, _, names in os.walk(source, followlinks=False):
            for path in (Path(folder, name) for name in names):
                with suppress(OSError):
                    when = datetime.datetime.fromtimestamp(path.lstat().st_mtime)
                    yield PurePosixPath(path.relative_to(source).as_posix()), when
    elif source.suffix.lower() == ".zip":
        with suppress(*UNREADABLE), zipfile.ZipFile(source) as archive:
            for member in archive.infolist()[:MAX_MEMBERS]:
                with suppress(ValueError):
                    yield PurePosixPath(member.filename), datetime.datetime(*member.date_time)


def _keep(
    course: Course,
    entry: NotebookEntry,
    student: str,
    found: Found,
    runs: Files,
    told_time: bool = True,
    claim: _Claim | None = None,
) -> str:
    """File a hand-in; the latest becomes the one that is graded, the others stay beside it.

    The name of a kept file says when it came, and, if that is when it was downloaded, that its time is
    unknown: late, if the platform said so.
    """
    results = pack(runs)
    digest = hashlib.sha256(found.text + results).hexdigest()[:8]
    folder = course.tree / "handins" / student / entry.name
    mark = "" if told_time else "-late" if claim and claim.late else "-unknown"
    number = f"-{claim.attachment}" if claim and claim.attachment else ""
    kept = folder / f"{found.when:%Y%m%dT%H%M%SZ}-{digest}{mark}{number}.ipynb"
    last = next(reversed(kept_hand_ins(course, entry, student)), None)
    # Downloaded once more, it is no other hand-in.
    if told_time or last is None or last.name[16:] != kept.name[16:]:
        if results:  # first: the notebook says that the hand-in is there
            course_tree.write(kept.with_suffix(RESULTS), results)
        course_tree.write(kept, found.text)
    place_latest(course, entry, student)
    older = len(list(folder.glob("*.ipynb"))) - 1
    also = f" ({older} other hand-in{'s' * (older > 1)} kept; the latest counts)" if older else ""
    return f"{student}: {entry.name} from {legible(str(found.path), 300)}{also}"


def kept_hand_ins(course: Course, entry: NotebookEntry, student: str) -> list[Path]:
    """Every kept hand-in of a student, the latest last."""
    return sorted((course.tree / "handins" / student / entry.name).glob("*.ipynb"), key=_order)


def place_latest(course: Course, entry: NotebookEntry, student: str) -> None:
    """Make the latest of the kept hand-ins the one that is graded."""
    latest = kept_hand_ins(course, entry, student)[-1]
    submitted = course_tree.place(course, "submitted", entry, student)
    taken = _handed_in_at(latest, course, entry)
    stamp = submitted.with_name("timestamp.txt")
    if not submitted.exists() or submitted.read_bytes() != latest.read_bytes():
        course_tree.write(submitted, latest.read_bytes())
    packed = latest.with_suffix(RESULTS)
    place = course_tree.results_path(course, entry, student)
    if packed.exists():
        course_tree.write(place, packed.read_bytes())
    else:
        place.unlink(missing_ok=True)
    if taken is None:
        stamp.unlink(missing_ok=True)
    elif not stamp.exists() or stamp.read_text() != timestamp(taken) + "\n":
        course_tree.write(stamp, timestamp(taken) + "\n")


def _order(kept: Path) -> tuple[str, int]:
    """By what the latest of several kept hand-ins is found: when it came, then the platform's number of the file."""
    number = kept.stem.rsplit("-", 1)[-1]
    return kept.name[:16], int(number) if kept.stem.count("-") > 2 and number.isdecimal() else 0


def _handed_in_at(kept: Path, course: Course, entry: NotebookEntry) -> datetime.datetime | None:
    """When a kept hand-in was handed in, None if nobody says. Of a late one it is the first second that is late."""
    mark = kept.stem.split("-")[2:]
    if "late" in mark and entry.deadline:
        grace = datetime.timedelta(minutes=course.late.grace_minutes, seconds=1)
        return entry.deadline.astimezone(datetime.UTC) + grace
    if mark:
        return None
    return datetime.datetime.strptime(kept.name[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.UTC)
