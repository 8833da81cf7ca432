"""Zips and folders of hand-ins, read one file at a time; nothing is unpacked to disk, and links are not followed.

Names, sizes and links are checked before anything is read. What is refused is named, and stops no other file.
"""

import datetime
import html
import io
import os
import re
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from autograder.course import Course
from autograder.intake.layouts import Layout, layout_of
from autograder.intake.platforms import Claim, Names, is_noise, notes, own_name, platform, platform_part, students_in
from autograder.intake.zip_names import decode_names
from utils.experiments.experiment import MAX_FILE, MAX_FILES, read_files
from utils.grading.verdict import legible

MAX_MEMBERS = 50_000
YEARS = range(1970, 9999)  # of a time that somebody may have handed in at
MAX_PATH, MAX_FOLDERS = 1000, 40  # of a member's name: its folders are looked at one by one, in each of the others
MAX_OWN_MEMBERS = 1000  # in a student's own zip, which may lie in the platform's; deeper ones are refused
MAX_OWN_NOTEBOOKS = 4  # how often the size of one notebook a student's zip may unpack to
MAX_RUNS = 8 * 2**20  # bytes of all runs of a hand-in; a run takes some 10 KB
PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # the others may take gigabytes to unpack a few bytes
MEMBER = b"PK\1\2"  # what the entry of each member of a zip begins with
UNREADABLE = (zipfile.BadZipFile, zipfile.LargeZipFile, RuntimeError, ValueError, OSError, EOFError, zlib.error)
# What platforms write of a text entry or a link that is handed in: Canvas, Moodle, Sakai, Blackboard.
TEXT_ENTRY = re.compile(
    r"(_text\.html?|_link\.html?|onlinetext.*\.html?|submissionText\.html?|_attempt_[\d-]+\.txt)$", re.IGNORECASE
)
MAX_TEXT = 2**18
MANY = 3  # so many other files of a student without a notebook are counted, fewer are named
LINK = re.compile(r"https?://(?:colab\.research\.google\.com|drive\.google\.com)/[^\s\"'<>\\]{1,300}")
# A run of an experiment, as `utils.hand_in` packs it; its folder lies beside the notebook.
RUN = re.compile(r"^(?P<beside>.*/)?results/(?P<name>[\w.,+-]{1,150}/seed_\d{1,6}\.json)$")


@dataclass(frozen=True)
class Found:
    """One file that may be a hand-in.

    `owner` is the path whose names say whose it is: within a student's own zip, that of the zip.
    """

    path: PurePosixPath
    text: bytes
    when: datetime.datetime
    owner: PurePosixPath
    claim: Claim  # what `owner` says
    packed: bool = False  # in a student's own zip
    download: str = ""  # the zip of a platform that it lies in, where that lies in the folder that is collected
    runs: Callable[[], dict[str, bytes]] = dict  # reads the files of experiments' runs that lay beside it


class Reader:
    """Reads the notebooks of a folder or a zip one by one, and says what it refuses."""

    def __init__(
        self,
        course: Course,
        refused: list[str],
        notes: list[str] | None = None,
        zip_names: str = "",
        is_known: Callable[[str], bool] = lambda name: False,
    ):
        """See `collect.collect`; `is_known` says whether a name is that of a student of the class list."""
        self.course, self.refused, self._download, self.is_known = course, refused, "", is_known
        self._own: set[PurePosixPath] = set()
        self._others: list[tuple[tuple[str, str] | None, PurePosixPath]] = []  # with download and student, if known
        self._with_notebook: set[tuple[str, str]] = set()  # download and student
        self.notes, self.zip_names = [] if notes is None else notes, zip_names
        self.most = int(course.limits.notebook_mb * 2**20)

    def files(self, source: Path) -> Iterator[Found]:
        """Every notebook below `source`."""
        if not source.is_dir():
            when = self._time(source)
            if source.suffix.lower() == ".zip" and not source.is_symlink():
                with source.open("rb") as file:
                    yield from self._zip(file, PurePosixPath(), when)
            else:
                alone = PurePosixPath(source.name)
                yield from self._file(source, alone, Layout(0, Names(self.course, [alone], self.is_known)))
            self._tell_others()
            return
        inside: list[PurePosixPath] = []
        empty: list[PurePosixPath] = []

        def unreadable(bad: OSError) -> None:
            self._refuse(
                Path(bad.filename or source).relative_to(source).as_posix(), f"cannot be read ({bad.strerror})"
            )

        for folder, folders, names in os.walk(source, onerror=unreadable, followlinks=False):
            folders.sort()
            below = PurePosixPath(Path(folder).relative_to(source).as_posix())
            for strange in [name for name in (*folders, *names) if not is_text(name)]:
                self._refuse(below / strange, "its name is no UTF-8, in which names are kept: rename it")
            folders[:], names = filter(is_text, folders), [*filter(is_text, names)]
            if len(below.parts) > MAX_FOLDERS:
                self._refuse(legible(str(below), 300), f"below more than {MAX_FOLDERS} folders")
                folders.clear()
                continue
            inside += [below / name for name in sorted(names)]
            empty += [below / name for name in folders if not os.path.islink(os.path.join(folder, name))]
        self._refuse_folders(empty, inside)
        if not inside:
            self._refuse(source.name, "the folder is empty")
        layout = layout_of(self.course, inside, partial(_content, source), self.is_known, source.name)
        left_out = notes(inside) | layout.drafts
        self.notes += layout.notes
        self._own = self._students_own(source, inside, layout.above)
        latest = self._latest_version(layout, {path: self._time(source / path) for path in layout.versions})
        for path in (one for one in inside if one not in left_out):
            yield from self._file(source / path, path, layout, latest.get(path))
        self._tell_others()

    def _students_own(self, source: Path, inside: list[PurePosixPath], above: int) -> set[PurePosixPath]:
        """The zips in a folder that are a student's own, by their own names; the others are downloads of a class."""
        zips = [path for path in inside if path.suffix.lower() == ".zip" and len(path.parts) == above + 1]
        own, students = set(), {}
        for path in (path for path in zips if not is_noise(path) and not os.path.islink(source / path)):
            names = [name for name, _ in listed(source / path, self.zip_names)]
            students[path] = students_in(self.course, names)
        for path, some in students.items():
            called = own_name(self.course, PurePosixPath(path.name))
            if some is None or not called or (any(map(self.is_known, some)) and not self.is_known(called)):
                continue
            others = [theirs for other, theirs in students.items() if other != path and theirs is not None]
            alike = any(some & theirs for theirs in others)  # lab/01.ipynb, in each
            if self.is_known(called) or "" in some or alike or (others and len(some) == 1):
                own.add(path)
        return own

    def _refuse(self, name: object, why: str) -> None:
        self.refused.append(f"{name}: {why}")

    def _refuse_folders(self, folders: list[PurePosixPath], files: list[PurePosixPath]) -> None:
        """Name the folders that are called like a notebook and hold none."""
        holding = {parent for path in files if path.suffix.lower() == ".ipynb" for parent in path.parents}
        for path in sorted({*folders}):
            if path.suffix.lower() == ".ipynb" and path not in holding and not is_noise(path):
                self._refuse(path, "a folder, not a notebook; hand in the file itself")

    def _time(self, path: Path) -> datetime.datetime:
        """When a file was last changed; now, if its time is none that there can be."""
        with suppress(ValueError, OverflowError):  # of a year that no calendar has
            when = datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.UTC)
            if when.year in YEARS:
                return when
        self._refuse(path.name, "has no valid time; it counts as handed in now")
        return datetime.datetime.now(datetime.UTC)

    @staticmethod
    def _latest_version(
        layout: Layout, times: dict[PurePosixPath, datetime.datetime]
    ) -> dict[PurePosixPath, datetime.datetime]:
        """One time for all versions of what a student handed in: their numbers say which came last."""
        newest: dict[PurePosixPath, datetime.datetime] = {}
        for path, when in times.items():
            newest[path.parent.parent] = max(when, newest.get(path.parent.parent, when))
        return {path: newest[path.parent.parent] for path in times}

    def _other(self, path: PurePosixPath, owner: PurePosixPath, names: Names, text: bytes = b"") -> None:
        """Note a file that is not a notebook, and the links to notebooks that a text entry holds."""
        claim = names.claim(owner)
        part = platform_part(self.course, owner)
        about_somebody = part.endswith("/") or claim.platform or any(one.name in part for one in self.course.notebooks)
        key = (self._download, claim.student() or part) if about_somebody else None
        self._others.append((key, path))
        for link in dict.fromkeys(LINK.findall(html.unescape(text.decode(errors="replace")))):
            self.notes.append(
                f"{path}: a link instead of a file, {legible(link, 300)}: open it, download the notebook there (File, "
                "Download .ipynb), and collect it with --student"
            )

    def _tell_others(self) -> None:
        """Say of each student without a notebook what was there instead, and count all other files in one line."""
        counts: Counter[str] = Counter()
        instead: dict[tuple[str, str], list[PurePosixPath]] = {}
        for key, path in self._others:
            if key is None or key in self._with_notebook:
                counts[path.suffix.lower() or "no suffix"] += 1
            else:
                instead.setdefault(key, []).append(path)
        for first, *more in instead.values():
            also = f" (and {len(more)} more files, none of them a notebook)" if len(more) >= MANY else ""
            for path in [first] if also else [first, *more]:
                self._refuse(path, f"not a notebook{also}; ask for the .ipynb file")
        if counts:
            kinds = ", ".join(
                f"{times} {suffix}" for suffix, times in sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:5]
            )
            more_kinds = ", ..." * (len(counts) > 5)
            what = (
                "1 file is not a notebook and is"
                if counts.total() == 1
                else f"{counts.total()} files are not notebooks and are"
            )
            self.notes.append(f"{what} left out: {kinds}{more_kinds}")
        self._others.clear()

    def _file(
        self, path: Path, inside: PurePosixPath, layout: Layout, said: datetime.datetime | None = None
    ) -> Iterator[Found]:
        """A file of a folder; `said` is its time, if that is not the file's own."""
        names = layout.names
        if is_noise(inside):
            return
        try:
            plain = stat.S_ISREG(path.lstat().st_mode)
        except OSError as bad:  # in a folder that nobody may look into, or gone meanwhile
            self._refuse(inside, f"cannot be read ({bad.strerror})")
            return
        if not plain:
            self._refuse(inside, "a link or special file, not followed")
            return
        owner = layout.owner(inside)
        if path.suffix.lower() in (".zip", ".ipynb"):
            try:
                when = said or self._time(path)
                with path.open("rb") as file:
                    if path.suffix.lower() == ".zip":
                        own = bool(owner.parent.parts) or platform(self.course, owner.name) is not None
                        own = own or inside in self._own
                        self._download = "" if own else inside.as_posix()
                        yield from self._zip(file, owner if own else PurePosixPath(), when, names if own else None)
                        self._download = ""
                    else:
                        runs = partial(self._beside, path.parent / "results")
                        version = layout.versions.get(inside, 0)
                        text = file.read(self.most + 1)
                        yield from self._found(inside, text, when, owner, names, runs=runs, version=version)
            except OSError as bad:  # somebody's own, or gone meanwhile
                self._refuse(inside, f"cannot be read ({bad.strerror})")
        elif not RUN.match(inside.as_posix()):  # runs are read with the notebook that they lie beside
            entry = TEXT_ENTRY.search(inside.name) is not None
            self._other(inside, owner, names, _content(path.parent, path.name, MAX_TEXT) if entry else b"")

    def _found(
        self,
        path: PurePosixPath,
        text: bytes,
        when: datetime.datetime,
        owner: PurePosixPath,
        names: Names,
        packed: bool = False,
        runs: Callable[[], dict[str, bytes]] = dict,
        version: int = 0,
    ) -> Iterator[Found]:
        """The file itself; one byte too many is refused when it is graded. Its name may state its time."""
        claim = replace(names.claim(owner), shared=names.is_shared(owner))
        if version:
            claim = replace(claim, attachment=version)
        self._with_notebook |= {(self._download, claim.student()), (self._download, platform_part(self.course, owner))}
        if claim.when:
            when = claim.when
        elif claim.time and claim.platform and claim.platform.times == "name":
            try:
                when = self.course.utc(datetime.datetime.strptime(claim.time, claim.platform.time_format))
            except (ValueError, OverflowError):
                when = datetime.datetime.max
            if when.year not in YEARS:
                self._refuse(path, "its name states no valid time")
                return
        yield Found(path, text, when, owner, claim, packed, self._download, runs)

    def _beside(self, results: Path) -> dict[str, bytes]:
        """The files of runs in a folder, unless they are too large to be runs."""
        why = f"more than {MAX_RUNS // 2**20} MB of runs"
        try:
            if sum(path.lstat().st_size for path in results.glob("*/seed_*.json")) <= MAX_RUNS:
                return read_files(results)
        except OSError as bad:
            why = f"its runs cannot be read ({bad.strerror})"
        self._refuse(f"{results.parent.name}/{results.name}", why)
        return {}

    def _zip(
        self, file: BinaryIO, owner: PurePosixPath, when: datetime.datetime, outer: Names | None = None
    ) -> Iterator[Found]:
        """The notebooks of a zip, read in memory.

        With `outer`, the names of the download that it lies in, it is a student's own: what its own names and times say
        is not believed.
        """
        own = outer is not None
        called = owner if owner.name else "the zip"
        refused, others, taken = len(self.refused), len(self._others), False
        if own:
            parts = iter(partial(file.read, 2**20), b"")
            listed = sum(part.count(MEMBER) for part in parts)  # before zipfile makes a kilobyte of each
            if listed > MAX_OWN_MEMBERS:
                self._refuse(owner, f"a zip of {listed} files")
                return
        try:
            with zipfile.ZipFile(file) as archive:
                self._read_names(archive, "" if own else called)
                named = [member for member in archive.infolist() if member.filename]  # zipfile ends a name at a NUL
                if len(named) < len(archive.infolist()):
                    self._refuse(called, "it holds a file without a name")
                usual = [member for member in named if not _is_deep(member.filename)]
                if len(usual) < len(named):
                    self._refuse(
                        called, f"it holds a file with a name of over {MAX_PATH} signs or {MAX_FOLDERS} folders"
                    )
                named = usual
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
                by_name = dict(zip(names, members, strict=True))
                layout = (
                    Layout(0, outer) if outer else self._layout(archive, by_name, Path(getattr(file, "name", "")).stem)
                )
                said = layout.names
                latest = self._latest_version(
                    layout, {one: self._stated(by_name[one], when) for one in layout.versions}
                )
                room = MAX_OWN_NOTEBOOKS * self.most
                runs = self._runs(members, names)
                left_out = layout.drafts if own else notes(names) | layout.drafts
                for member, name in zip(members, names, strict=True):
                    if RUN.match(name.as_posix()) or name in left_out:
                        continue
                    whose = owner if own else layout.owner(name)
                    text = self._member(archive, member, owner / name, own, whose, said)
                    if text is None:
                        continue
                    room -= len(text)
                    if own and room < 0:
                        self._refuse(owner / name, f"a student's zip of more than {MAX_OWN_NOTEBOOKS} large notebooks")
                        return
                    taken = True
                    stamp = when if own else latest.get(name) or self._stated(member, when)
                    if name.suffix.lower() == ".ipynb":
                        its = partial(self._unpacked, archive, runs.get(name.parent.as_posix(), {}))
                        path = owner / name if own else name
                        version = layout.versions.get(name, 0)
                        yield from self._found(path, text, stamp, whose, said, own, its, version)
                    elif len(text) > self.most:
                        self._refuse(owner / name, "a zip larger than one notebook may be")
                    else:
                        yield from self._zip(io.BytesIO(text), whose, stamp, said)
                if own and not taken and (len(self.refused), len(self._others)) == (refused, others):
                    self._refuse(called, "it holds no notebook")
        except UNREADABLE:
            self._refuse(called, "cannot be read as a zip: it is damaged, or none")

    def _read_names(self, archive: zipfile.ZipFile, called: object) -> None:
        """Correct names whose encoding the zip does not say; of the zip that is `called` so, note a guess."""
        guess = decode_names(archive, self.zip_names)
        if called and guess.encoding:
            shown = ", ".join(repr(name) for name in sorted(guess.names)[:3]) + ", ..." * (len(guess.names) > 3)
            self.notes.append(
                f"{called}: it does not say in which encoding its names are; they were read as {guess.encoding}: "
                f"{shown}. If that is wrong, remove what was collected and give `--zip-names` the code page of the "
                "machine that made the zip, such as cp850 or cp866"
            )

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

    def _layout(self, archive: zipfile.ZipFile, members: dict[PurePosixPath, zipfile.ZipInfo], called: str) -> Layout:
        """How a zip is laid out that is a download."""

        def read(path: PurePosixPath, most: int) -> bytes:
            member = members.get(path)
            if member is None or _locked(member):
                return b""
            with suppress(*UNREADABLE), archive.open(member) as file:
                return file.read(most)
            return b""

        layout = layout_of(self.course, [*members], read, self.is_known, called)
        self.notes += layout.notes
        return layout

    def _member(
        self,
        archive: zipfile.ZipFile,
        member: zipfile.ZipInfo,
        path: PurePosixPath,
        own: bool,
        owner: PurePosixPath,
        names: Names,
    ) -> bytes | None:
        """What a member of a zip holds, or None if it is refused."""
        if is_noise(path):
            return None
        suffix, name = path.suffix.lower(), member.filename.replace("\\", "/")
        if name.startswith("/") or ".." in path.parts or re.match(r"^[A-Za-z]:", name):
            self._refuse(path, "its path leads out of the zip")
        elif stat.S_ISLNK(member.external_attr >> 16):
            self._refuse(path, "a link, not followed")
        elif suffix == ".zip" and own:
            self._refuse(path, "not a notebook; ask for the .ipynb file")
        elif suffix not in (".ipynb", ".zip"):
            text = b""
            if TEXT_ENTRY.search(path.name) and not _locked(member):
                with suppress(*UNREADABLE), archive.open(member) as file:
                    text = file.read(MAX_TEXT)
            self._other(path, owner, names, text)
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


def _content(folder: Path, path: PurePosixPath | str, most: int) -> bytes:
    """So many bytes of a plain file in a folder at most; b"" if there is none that can be read."""
    with suppress(OSError):
        if stat.S_ISREG((folder / path).lstat().st_mode):
            with (folder / path).open("rb") as file:
                return file.read(most)
    return b""


def is_text(name: str) -> bool:
    """Whether the name of a file can be written down: Linux lets any bytes be one."""
    return not re.search("[\ud800-\udfff]", name)


def _is_deep(name: str) -> bool:
    return len(name) > MAX_PATH or name.count("/") + name.count("\\") > MAX_FOLDERS


def _locked(member: zipfile.ZipInfo) -> str:
    """Why a member of a zip is not opened; "" if it is."""
    if member.flag_bits & 1:
        return "it is encrypted; hand in a zip without a password"
    return "" if member.compress_type in PACKED else "packed in an unusual way; make the zip with the usual settings"


def downloads(source: Path) -> dict[str, Path]:
    """The folder or zip itself, and the zips that lie in it: one of a platform as `Found.download` names it."""
    found = {"": source}
    for path in [source / inside for inside, _ in listed(source)] if source.is_dir() else ():
        if path.suffix.lower() == ".zip" and not os.path.islink(path):
            found[path.relative_to(source).as_posix()] = path
    return found


def listed(source: Path, zip_names: str = "") -> Iterator[tuple[PurePosixPath, datetime.datetime]]:
    """The names and times of what a folder or zip holds; nothing of a zip that cannot be read: the reader says so."""
    if source.is_dir():
        for folder, _, names in os.walk(source, followlinks=False):
            for path in (Path(folder, name) for name in names if is_text(folder + name)):
                with suppress(OSError, ValueError, OverflowError):
                    when = datetime.datetime.fromtimestamp(path.lstat().st_mtime)
                    yield PurePosixPath(path.relative_to(source).as_posix()), when
    elif source.suffix.lower() == ".zip":
        with suppress(*UNREADABLE), zipfile.ZipFile(source) as archive:
            decode_names(archive, zip_names)
            for member in archive.infolist()[:MAX_MEMBERS]:
                if _is_deep(member.filename):
                    continue
                with suppress(ValueError):
                    yield PurePosixPath(member.filename), datetime.datetime(*member.date_time)
