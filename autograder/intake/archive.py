"""Zips and folders of submissions, read one file at a time; nothing is unpacked to disk, and links are not followed.

Names, sizes and links are checked before anything is read. What is refused is named, and stops no other file.
"""

import datetime
import html
import io
import re
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from autograder.course import Course
from autograder.intake import notebook_file
from autograder.intake.layouts import YEARS, Layout, layout_of
from autograder.intake.platforms import (
    Claim,
    Names,
    is_noise,
    is_system,
    notes,
    own_name,
    platform,
    platform_part,
    students_in,
)
from autograder.intake.runs import MAX_RUNS, RUN, CannotRead, RunFile, Runs, Submission, Unclaimed, by_neighbour
from autograder.intake.untrusted_folder import NotAFile, UntrustedFolder, changed_at
from autograder.intake.zip_names import decode_names
from utils.experiments.run_files import MAX_FILE, RESULTS
from utils.grading.verdict import legible

MAX_MEMBERS = 50_000
MAX_DIRECTORY = 2**26  # bytes of the list of a zip's members, which zipfile reads at once
MAX_PATH, MAX_FOLDERS = 1000, 40  # of a member's name: its folders are looked at one by one, in each of the others
NOT_A_ZIP = "cannot be read as a zip: it is damaged or not a zip; download it again, or ask for it again"
MAX_OWN_MEMBERS = 1000  # in a student's own zip, which may lie in the platform's; deeper ones are refused
MAX_OWN_NOTEBOOKS = 4  # how often the size of one notebook a student's zip may unpack to
MAX_OWN_ZIP = 2**30  # bytes of a student's own zip in a folder, which may be mostly holes
PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # the others may take gigabytes to unpack a few bytes
MEMBER = b"PK\1\2"  # what the entry of each member of a zip begins with
ZIP64_END = 76  # bytes between the list of a large zip's members and its last record
UNREADABLE = (zipfile.BadZipFile, zipfile.LargeZipFile, RuntimeError, ValueError, OSError, EOFError, zlib.error)
# What platforms write of a text entry or a link that is handed in: Canvas, Moodle, Sakai, Blackboard.
TEXT_ENTRY = re.compile(
    r"(_text\.html?|_link\.html?|onlinetext.*\.html?|submissionText\.html?|_attempt_[\d-]+\.txt)$", re.IGNORECASE
)
MAX_TEXT = 2**18
OTHER_ARCHIVES = (".rar", ".7z", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst")  # than zips, which alone are read
MANY = 3  # so many other files of a student without a notebook are counted, fewer are named
LINK = re.compile(r"https?://(?:colab\.research\.google\.com|drive\.google\.com)/[^\s\"'<>\\]{1,300}")
NOT_FOLLOWED = "a link or special file, not followed; ask for the file or the folder itself"
LONE_RUN = "a run without the folder of its experiment; ask for the whole folder `results`"


@dataclass(frozen=True)
class Found:
    """One file that may be a submission.

    `owner` is the path whose names say whose it is: within a student's own zip, that of the zip.
    """

    path: PurePosixPath
    text: bytes
    when: datetime.datetime
    owner: PurePosixPath
    claim: Claim  # what `owner` says
    packed: bool = False  # in a student's own zip
    download: str = ""  # the zip of a platform that it lies in, where that lies in the folder that is collected
    runs: Callable[..., Runs] = Runs  # reads the runs that belong to it; takes the names of experiments that come first
    secret: bytes = b""  # by which its student finds the feedback in nbgrader's exchange


class DownloadReader:
    """Reads the notebooks of a folder or a zip one by one, and says what it refuses."""

    def __init__(
        self,
        course: Course,
        refused: list[str],
        notes: list[str] | None = None,
        zip_names: str = "",
        is_known: Callable[[str], bool] = lambda name: False,
        one_student: bool = False,
    ):
        """See `collect.collect`.

        Args:
            notes: gets what somebody should know besides.
            is_known: says whether a name is that of a student of the class list.
            one_student: whether all files are one student's.
        """
        self.course, self.refused, self.notes = course, refused, [] if notes is None else notes
        self.zip_names, self.is_known, self.one_student = zip_names, is_known, one_student
        self._download, self._unclaimed = "", Unclaimed()
        self._own: set[PurePosixPath] = set()
        self._others: list[tuple[tuple[str, str] | None, PurePosixPath]] = []  # with download and student, if known
        self._with_notebook: set[tuple[str, str]] = set()  # download and student
        self.most = int(course.limits.notebook_mb * 2**20)
        self.most_read = notebook_file.WITH_OUTPUTS * self.most

    def files(self, source: Path) -> Iterator[Found]:
        """Every notebook below `source`."""
        if source.is_dir():
            with UntrustedFolder(source) as folder:
                yield from self._files(folder, source.name)
        else:
            with UntrustedFolder(source.parent) as folder:
                yield from self._file_alone(folder, PurePosixPath(source.name))
        self._tell_others()
        self.notes += self._unclaimed.lines()

    def _file_alone(self, folder: UntrustedFolder, path: PurePosixPath) -> Iterator[Found]:
        """The file that is collected: a zip of any kind, or a notebook, whose runs may be beside it."""
        submission = Submission(self._unclaimed)
        if path.suffix.lower() != ".zip" and folder.holds(RESULTS):
            for below, folders, files, others, why in folder.walk(PurePosixPath(RESULTS)):
                if why:
                    self._refuse(below, why)
                for other in others:
                    self._refuse(below / other, NOT_FOLLOWED)
                folders[:] = filter(is_text, folders) if len(below.parts) == 1 else []
                for name in files:
                    if is_text(name) and RUN.match(f"{below}/{name}"):
                        submission.add(self._loose_run(folder, below / name))
        layout = Layout(0, Names(self.course, [path], self.is_known))
        yield from self._file(folder, path, layout, submission, alone=True)

    def _files(self, folder: UntrustedFolder, called: str) -> Iterator[Found]:
        """Every notebook of a folder, one submission after the other."""
        inside: list[PurePosixPath] = []
        empty: list[PurePosixPath] = []
        hidden: list[PurePosixPath] = []
        for below, folders, names, others, why in folder.walk():
            if why:
                self._refuse(below, why)
            for strange in [name for name in (*folders, *names, *others) if not is_text(name)]:
                self._refuse(below / strange, "its name is not UTF-8, in which names are kept: rename it")
            if len(below.parts) > MAX_FOLDERS:
                self._refuse(legible(str(below), 300), f"below more than {MAX_FOLDERS} folders")
                folders.clear()
                continue
            for other in filter(is_text, others):
                if not is_noise(below / other):
                    self._refuse(below / other, NOT_FOLLOWED)
            hidden_here = [name for name in folders if is_text(name) and is_noise(below / name)]
            hidden += [below / name / "x.ipynb" for name in hidden_here]
            folders[:] = [name for name in folders if is_text(name) and not is_noise(below / name)]
            inside += [below / name for name in filter(is_text, names)]
            inside += [below / ".git" / "HEAD"] * (".git" in hidden_here)  # what tells a clone from another folder
            empty += [below / name for name in folders]
        self._refuse_folders(empty, inside)
        if not inside:
            self._refuse(called, "the folder is empty")
        self._note_hidden([*hidden, *inside])
        layout = layout_of(self.course, inside, partial(_content, folder), self.is_known, called)
        left_out = notes(inside) | layout.drafts | layout.own
        self.notes += layout.notes
        self._own = self._students_own(folder, inside, layout.above)
        latest = self._latest_version(layout, {path: self._time_of(folder, path) for path in layout.versions})
        paths = self._without_conflicts([path for path in inside if path not in left_out and not is_noise(path)])
        owners, said = [layout.owner(path) for path in paths], layout.names
        runs = {
            place: self._loose_run(folder, path)
            for place, path in enumerate(paths)
            if RUN.match(path.as_posix()) and self._in_its_folder(owners[place])
        }
        neighbours = by_neighbour(runs.values())
        for places in self._by_submission(owners, said):
            submission = Submission(self._unclaimed, neighbours)
            for run in (runs[place] for place in places if place in runs):
                submission.add(run)
            parts = [place for place in places if place not in runs]
            for place in parts if len(places) > 1 else ():
                if self._is_own(paths[place], owners[place]):
                    with suppress(OSError), folder.open(paths[place]) as file:  # the reader says so below
                        late, when = said.claim(owners[place]).late, self._time(paths[place], file, quietly=True)
                        self._look_into(file, paths[place], submission, when, late)
                elif notebook_file.may_be(paths[place]):
                    submission.with_notebook.add("")
            for place in parts:
                path = paths[place]
                yield from self._file(folder, path, layout, submission, latest.get(path), several=len(places) > 1)

    def _by_submission(self, owners: Sequence[PurePosixPath], said: Names) -> list[list[int]]:
        """The files that are one submission, as far as their names say, by their places in `owners`."""
        places_of: dict[object, list[int]] = {}
        known: dict[str, object] = {}
        for place, owner in enumerate(owners):
            part = platform_part(self.course, owner)
            if part not in known:
                claim = said.claim(notebook_file.as_notebook(owner))
                row = claim.platform.name if claim.platform else ""
                known[part] = (row, claim.name, claim.id) if claim.name else owner
            places_of.setdefault("" if self.one_student else known[part], []).append(place)
        return [*places_of.values()]

    def _in_its_folder(self, owner: PurePosixPath) -> bool:
        """Whether the folder of a run is that of its experiment, not of its student."""
        return self.one_student or len(owner.parts) > 2

    def _is_own(self, path: PurePosixPath, owner: PurePosixPath) -> bool:
        """Whether a zip in a folder is a student's own, not a download of a platform."""
        if owner.suffix.lower() != ".zip":
            return False
        own = bool(owner.parent.parts) or platform(self.course, owner.name) is not None
        return self.one_student or own or path in self._own

    def _students_own(self, folder: UntrustedFolder, inside: list[PurePosixPath], above: int) -> set[PurePosixPath]:
        """The zips in a folder that are a student's own, by their own names; the others are downloads of a class."""
        zips = [path for path in inside if path.suffix.lower() == ".zip" and len(path.parts) == above + 1]
        own, students = set(), {}
        for path in (path for path in zips if not is_noise(path)):
            students[path] = students_in(self.course, [name for name, _ in _listing(folder, path, self.zip_names)])
        for path, members in students.items():
            called = own_name(self.course, PurePosixPath(path.name))
            if members is None or not called or (any(map(self.is_known, members)) and not self.is_known(called)):
                continue
            others = [theirs for other, theirs in students.items() if other != path and theirs is not None]
            alike = any(members & theirs for theirs in others)  # lab/01.ipynb, in each
            if self.is_known(called) or "" in members or alike or (others and len(members) == 1):
                own.add(path)
        return own

    def _without_conflicts(self, paths: list[PurePosixPath]) -> list[PurePosixPath]:
        """Leave out what programs that synchronise folders keep beside a file when two people changed it."""
        known = {*paths}
        copies = {path: plain for path in paths if (plain := notebook_file.without_conflict(path)) != path}
        copies = {path: plain for path, plain in copies.items() if plain in known}
        self.notes += [
            f"{path}: left out, since it is a conflicted copy of {plain.name}, which is beside it; if it is the right "
            "one, ask for it under the plain name"
            for path, plain in copies.items()
        ]
        return [path for path in paths if path not in copies]

    def _note_hidden(self, paths: Iterable[PurePosixPath], called: object = "") -> None:
        """Note which hidden files and folders are left out that may hold notebooks."""
        left = [path for path in paths if is_noise(path) and path.suffix.lower() in (".ipynb", ".zip")]
        names = [_hidden_part(path) for path in left if not is_system(path)]
        shown = [*dict.fromkeys(map(str, names))]
        if shown:
            more = f" and {len(shown) - 10} more" if len(shown) > 10 else ""
            self.notes.append(
                f"{f'{called}: ' if called else ''}left out, since their names begin with a dot: "
                f"{', '.join(shown[:10])}{more}"
            )

    def _refuse(self, name: object, why: str) -> None:
        self.refused.append(f"{name}: {why}")

    def _refuse_folders(self, folders: list[PurePosixPath], files: list[PurePosixPath]) -> None:
        """Name the folders that are called like a notebook and hold none."""
        holding = {parent for path in files if path.suffix.lower() == ".ipynb" for parent in path.parents}
        for path in sorted({*folders}):
            if path.suffix.lower() == ".ipynb" and path not in holding and not is_noise(path):
                self._refuse(path, "a folder, not a notebook; hand in the file itself")

    def _time(self, path: PurePosixPath, file: BinaryIO, quietly: bool = False) -> datetime.datetime:
        """When a file was last changed; now, if its time is none that there can be."""
        with suppress(ValueError, OverflowError, OSError):
            when = changed_at(file)
            if when.year in YEARS:
                return when
        if not quietly:
            self._refuse(path.name, "has no valid time; it counts as handed in now")
        return datetime.datetime.now(datetime.UTC)

    def _time_of(self, folder: UntrustedFolder, path: PurePosixPath) -> datetime.datetime:
        """When a file of a folder was last changed; now, if that cannot be said: reading it says so."""
        with suppress(OSError), folder.open(path) as file:
            return self._time(path, file, quietly=True)
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
        about_somebody = (
            part.endswith("/") or claim.platform or any(entry.name in part for entry in self.course.notebooks)
        )
        student = self._called(claim) if not about_somebody else ""
        key = (self._download, student or claim.student() or part) if about_somebody or student else None
        self._others.append((key, path))
        for link in dict.fromkeys(LINK.findall(html.unescape(text.decode(errors="replace")))):
            self.notes.append(
                f"{path}: a link instead of a file, {legible(link, 300)}: open it, download the notebook there (File, "
                "Download .ipynb), and collect it with --student"
            )

    def _called(self, claim: Claim) -> str:
        """The student of the class list with whose name a file's name begins, whatever words follow; else ""."""
        words = re.sub(r"\.\w+$", "", claim.name).split()
        names = (claim.name, *claim.others, *(" ".join(words[:count]) for count in range(len(words), 1, -1)))
        return next(filter(self.is_known, names), "")

    def _tell_others(self) -> None:
        """Say of each student without a notebook what was there instead, and count all other files in one line."""
        counts: Counter[str] = Counter()
        instead: dict[tuple[str, str], list[PurePosixPath]] = {}
        for key, path in self._others:
            if key is None or key in self._with_notebook:
                counts[path.suffix.lower() or "no suffix"] += 1
            else:
                instead.setdefault(key, []).append(path)
        for paths in instead.values():
            first, *more = sorted(paths, key=lambda path: path.suffix.lower() not in OTHER_ARCHIVES)
            also = f" (and {len(more)} more files, none of them a notebook)" if len(more) >= MANY else ""
            for path in [first] if also else [first, *more]:
                if path.suffix.lower() in OTHER_ARCHIVES:
                    self._refuse(path, f"an archive, but not a zip{also}; unpack it, and collect it with --student")
                else:
                    self._refuse(path, f"not a notebook{also}; ask for the .ipynb file")
        if counts:
            kinds = ", ".join(
                f"{times} {suffix}"
                for suffix, times in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:5]
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
        self,
        folder: UntrustedFolder,
        path: PurePosixPath,
        layout: Layout,
        submission: Submission,
        stated: datetime.datetime | None = None,
        several: bool = False,
        alone: bool = False,
    ) -> Iterator[Found]:
        """A file of a folder. It may be one of `several` of a submission, or what is collected `alone`.

        `stated` is its time, if that is not the file's own.
        """
        owner, said = layout.owner(path), layout.names
        if is_noise(path):
            return
        if notebook_file.is_lone_run(path):
            self._refuse(path, LONE_RUN)
            return
        if path.suffix.lower() != ".zip" and not notebook_file.may_be(path):
            self._other(path, owner, said, _text_entry(path, partial(_content, folder)))
            return
        try:
            with folder.open(path) as file:
                if path.suffix.lower() == ".zip":
                    when = stated or self._time(path, file)
                    own = self._is_own(path, owner) and not alone
                    self._download = "" if own or alone else path.as_posix()
                    its = submission if several else None
                    whose, outer = (owner, said) if own else (PurePosixPath(), None)
                    yield from self._zip(file, whose, when, outer, its, path.stem)
                    self._download = ""
                    return
                text = file.read(self.most_read + 1)
                if notebook_file.is_one(path, text):
                    runs, version = partial(submission.runs_of, path, "", self._refuse), layout.versions.get(path, 0)
                    when = stated or self._time(path, file)
                    yield from self._found(path, text, when, owner, _claim(owner, said, version), runs=runs)
                else:
                    self._other(path, owner, said, _text_entry(path, lambda _, most: text[:most]))
        except NotAFile:
            self._refuse(path, NOT_FOLLOWED)
        except OSError as bad:  # somebody's own, in a folder that nobody may look into, or gone meanwhile
            self._refuse(path, f"cannot be read ({bad.strerror})")

    def _found(
        self,
        path: PurePosixPath,
        text: bytes,
        when: datetime.datetime,
        owner: PurePosixPath,
        claim: Claim,
        packed: bool = False,
        runs: Callable[..., Runs] = Runs,
    ) -> Iterator[Found]:
        """The file itself; one byte too many is refused when it is graded. Its name may state its time."""
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
        read = notebook_file.read(text, self.most)
        self.notes += [f"{path}: {remark}" for remark in read.remarks]
        yield Found(path, read.text, when, owner, claim, packed, self._download, runs)

    def _loose_run(self, folder: UntrustedFolder, path: PurePosixPath) -> RunFile:
        """A run that is a file of a folder."""

        def read(most: int) -> bytes:
            try:
                with folder.open(path) as file:
                    return file.read(most)
            except NotAFile:
                raise CannotRead(NOT_FOLLOWED) from None
            except OSError as bad:
                raise CannotRead(f"cannot be read ({bad.strerror})") from None

        when = None
        with suppress(OSError, ValueError, OverflowError):  # reading it says so
            when = folder.changed_at(path)
        return _run(path, path, read, when=when if when and when.year in YEARS else None)

    def _look_into(
        self,
        file: BinaryIO,
        path: PurePosixPath,
        submission: Submission,
        when: datetime.datetime | None,
        late: bool = False,
    ) -> int:
        """Note the runs of a student's zip, before anything is taken of the submission; how many there are.

        They are read at once: the zip may be closed before somebody asks for them.
        """
        try:
            if self._listed(file) > MAX_OWN_MEMBERS:
                return 0
            with zipfile.ZipFile(file) as archive:
                self._read_names(archive, "")
                members = [
                    (member, PurePosixPath(member.filename.replace("\\", "/")))
                    for member in archive.infolist()
                    if member.filename and not _is_deep(member.filename)
                ]
                runs = [(member, name) for member, name in members if _is_run(member, name)]
                left = 2 * MAX_RUNS
                for member, name in runs:
                    content = self._content(archive, member, min(MAX_FILE, left) + 1)
                    left = max(0, left - len(content or b""))
                    submission.add(_run(path / name, name, partial(_given, content), path.as_posix(), when, late))
                if any(notebook_file.may_be(name) and not is_noise(name) for _, name in members):
                    submission.with_notebook.add(path.as_posix())
                return len(runs)
        except UNREADABLE:  # the reader says so
            return 0

    def _content(self, archive: zipfile.ZipFile, member: zipfile.ZipInfo, most: int) -> bytes | None:
        """What a member of a zip holds; None if it cannot be unpacked."""
        try:
            if not _locked(member):
                with archive.open(member) as file:
                    return file.read(most)
        except UNREADABLE:
            pass
        return None

    def _listed(self, file: BinaryIO) -> int:
        """How many members a student's own zip says that it has, before zipfile makes a kilobyte of each."""
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        if size > MAX_OWN_ZIP:
            return size
        return sum(part.count(MEMBER) for part in iter(partial(file.read, 2**20), b""))

    def _zip(
        self,
        file: BinaryIO,
        owner: PurePosixPath,
        when: datetime.datetime,
        outer: Names | None = None,
        submission: Submission | None = None,
        stem: str = "",
    ) -> Iterator[Found]:
        """The notebooks of a zip, read in memory.

        With `outer`, the names of the download that it lies in, it is a student's own: what its own names and times say
        is not believed. `submission` is given if that has other files too; then it knows of this one's runs. `stem` is
        what a download is called.
        """
        own = outer is not None
        called = owner if owner.name else "the zip"
        if own:
            listed = self._listed(file)
            if listed > MAX_OWN_MEMBERS:
                too_much = f"over {MAX_OWN_ZIP >> 20} MB" if listed > MAX_OWN_ZIP else f"{listed} files"
                self._refuse(owner, f"a zip of {too_much}")
                return
        elif (members_said := members_of(file)) > MAX_MEMBERS:
            self._refuse(called, f"a zip of {members_said} files")
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
                self._note_hidden(names, owner if own else "")
                kept = {*self._without_conflicts(names)}
                both = [(member, name) for member, name in zip(members, names, strict=True) if name in kept]
                if outer is not None:
                    yield from self._own_zip(archive, both, owner, when, outer, submission)
                else:
                    yield from self._download_zip(archive, both, when, called=stem)
        except UNREADABLE:
            self._refuse(called if own or not stem else f"{stem}.zip", NOT_A_ZIP)

    def _download_zip(
        self,
        archive: zipfile.ZipFile,
        members: list[tuple[zipfile.ZipInfo, PurePosixPath]],
        when: datetime.datetime,
        called: str,
    ) -> Iterator[Found]:
        """The notebooks of a platform's zip, one submission after the other."""
        by_name = {name: member for member, name in members}
        layout = self._layout(archive, by_name, called)
        owners, said = [layout.owner(name) for _, name in members], layout.names
        left_out = notes(by_name) | layout.drafts | layout.own
        latest = self._latest_version(
            layout, {version: self._stated(by_name[version], when) for version in layout.versions}
        )
        runs = {
            place: self._packed_run(archive, member, name, stated=when)
            for place, (member, name) in enumerate(members)
            if _is_run(member, name) and self._in_its_folder(owners[place])
        }
        neighbours = by_neighbour(runs.values())
        for places in self._by_submission(owners, said):
            submission = Submission(self._unclaimed, neighbours)
            for run in (runs[place] for place in places if place in runs):
                submission.add(run)
            parts = [place for place in places if place not in runs and members[place][1] not in left_out]
            for place in parts if len(places) > 1 else ():
                member, name = members[place]
                if name.suffix.lower() == ".zip" and not is_noise(name):
                    content = self._content(archive, member, self.most + 1) or b""
                    late, stamp = said.claim(owners[place]).late, self._stated(member, when, quietly=True)
                    self._look_into(io.BytesIO(content), owners[place], submission, stamp, late)
                elif notebook_file.may_be(name):
                    submission.with_notebook.add("")
            for place in parts:
                member, name = members[place]
                text = self._member(archive, member, name, owners[place], said)
                if text is None:
                    continue
                stamp = latest.get(name) or self._stated(member, when)
                if name.suffix.lower() != ".zip":
                    its = partial(submission.runs_of, name, "", self._refuse)
                    claim = _claim(owners[place], said, layout.versions.get(name, 0))
                    yield from self._found(name, text, stamp, owners[place], claim, runs=its)
                elif len(text) > self.most:
                    self._refuse(name, "a zip larger than one notebook may be")
                else:
                    its_files = submission if len(places) > 1 else None
                    yield from self._zip(io.BytesIO(text), owners[place], stamp, said, its_files)

    def _own_zip(
        self,
        archive: zipfile.ZipFile,
        members: list[tuple[zipfile.ZipInfo, PurePosixPath]],
        owner: PurePosixPath,
        when: datetime.datetime,
        said: Names,
        submission: Submission | None,
    ) -> Iterator[Found]:
        """The notebooks of a student's own zip."""
        before, taken, room = (len(self.refused), len(self._others)), False, MAX_OWN_NOTEBOOKS * self.most_read
        runs = [(member, name) for member, name in members if _is_run(member, name)]
        joined = submission is not None and bool(runs) and bool(submission.with_notebook)
        if submission is None:
            submission = Submission(self._unclaimed)
            for member, name in runs:
                submission.add(self._packed_run(archive, member, name, owner))
            if any(notebook_file.may_be(name) and not is_noise(name) for _, name in members):
                submission.with_notebook.add(owner.as_posix())
        zips_last = sorted(members, key=lambda both: both[1].suffix.lower() != ".zip")
        for member, name in zips_last:  # zips first: they may hold the runs of the notebooks
            if _is_run(member, name):
                continue
            text = self._member(archive, member, owner / name, owner, said)
            if text is None:
                continue
            room -= len(text)
            if room < 0:
                self._refuse(owner / name, f"a student's zip of more than {MAX_OWN_NOTEBOOKS} large notebooks")
                return
            if name.suffix.lower() == ".zip":
                if not self._look_into(io.BytesIO(text), owner / name, submission, None):
                    self._refuse(
                        owner / name,
                        "not a notebook, but a zip in a student's zip, without runs; ask for the .ipynb file",
                    )
                continue
            taken = True
            its = partial(submission.runs_of, name, owner.as_posix(), self._refuse)
            yield from self._found(owner / name, text, when, owner, _claim(owner, said), True, its)
        if not taken and not joined and (len(self.refused), len(self._others)) == before:
            self._refuse(owner, "it holds no notebook")

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

    def _packed_run(
        self,
        archive: zipfile.ZipFile,
        member: zipfile.ZipInfo,
        name: PurePosixPath,
        own: PurePosixPath | None = None,
        stated: datetime.datetime | None = None,
    ) -> RunFile:
        """A run that is a member of a zip: of a student's `own`, or of a platform's, which says when it came."""

        def read(most: int) -> bytes:
            return _given(self._content(archive, member, most), most, _locked(member))

        when = self._stated(member, stated, quietly=True) if stated else None
        return _run(name, name, read, own.as_posix() if own else "", when)

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
        owner: PurePosixPath,
        said: Names,
    ) -> bytes | None:
        """What a member of a zip holds, or None if it is refused."""
        if is_noise(path):
            return None
        suffix, name = path.suffix.lower(), member.filename.replace("\\", "/")
        if name.startswith("/") or ".." in path.parts or re.match(r"^[A-Za-z]:", name):
            self._refuse(path, "its path leads out of the zip")
        elif stat.S_ISLNK(member.external_attr >> 16):
            self._refuse(path, NOT_FOLLOWED)
        elif notebook_file.is_lone_run(path):
            self._refuse(path, LONE_RUN)
        elif suffix != ".zip" and not notebook_file.may_be(path):
            content = partial(self._content, archive, member)
            self._other(path, owner, said, _text_entry(path, lambda _, most: content(most) or b""))
        elif _locked(member):
            self._refuse(path, _locked(member))
        else:
            try:
                with archive.open(member) as file:  # what it claims to hold is not believed
                    text = file.read((self.most if suffix == ".zip" else self.most_read) + 1)
                if suffix == ".zip" or notebook_file.is_one(path, text):
                    return text
                self._other(path, owner, said, _text_entry(path, lambda _, most: text[:most]))
            except UNREADABLE:
                self._refuse(path, "cannot be unpacked: it is damaged")
        return None

    def _stated(self, member: zipfile.ZipInfo, when: datetime.datetime, quietly: bool = False) -> datetime.datetime:
        """When the learning platform took a file; the zip's own time if it states none."""
        if member.date_time <= (1981,):
            return when
        try:
            return self.course.utc(datetime.datetime(*member.date_time))
        except (ValueError, OverflowError):
            if not quietly:
                self._refuse(member.filename, "has no valid time; the zip's own is used")
            return when


def _claim(owner: PurePosixPath, said: Names, version: int = 0) -> Claim:
    """Whose a file is by the names of the whole download; of two of a student the later one has the larger version."""
    named = notebook_file.as_notebook(owner)
    claim = replace(said.claim(named), shared=said.is_shared(named))
    return replace(claim, attachment=version) if version else claim


def _content(folder: UntrustedFolder, path: PurePosixPath, most: int) -> bytes:
    """So many bytes of a file in a folder at most; b"" if there is none that can be read."""
    with suppress(OSError), folder.open(path) as file:
        return file.read(most)
    return b""


def _text_entry(path: PurePosixPath, read: Callable[[PurePosixPath, int], bytes]) -> bytes:
    """What a file holds that a platform has written of a text entry; b"" for any other."""
    return read(path, MAX_TEXT) if TEXT_ENTRY.search(path.name) else b""


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


def _hidden_part(path: PurePosixPath) -> PurePosixPath:
    """The topmost part of a hidden path that is hidden itself."""
    above = [path, *path.parents]
    return next(part for part in reversed(above) if is_noise(part))


def _is_run(member: zipfile.ZipInfo, name: PurePosixPath) -> bool:
    """Whether a member of a zip is a run that may be read."""
    is_link = stat.S_ISLNK(member.external_attr >> 16)
    return bool(RUN.match(name.as_posix())) and not (
        is_link or is_noise(name) or ".." in name.parts or name.is_absolute() or ":" in name.parts[0]
    )


def _run(
    path: PurePosixPath,
    inside: PurePosixPath,
    read: Callable[[int], bytes],
    archive: str = "",
    when: datetime.datetime | None = None,
    late: bool = False,
) -> RunFile:
    """The run at a path that matches RUN, `inside` its folder or zip."""
    return RunFile(path, inside.parent.parent, f"{inside.parent.name}/{inside.name}", read, archive, when, late)


def _given(content: bytes | None, most: int, locked: str = "") -> bytes:
    """At most so many bytes of what was read of a zip's member, if it could be unpacked."""
    if content is None:
        raise CannotRead(locked or "cannot be unpacked: it is damaged")
    return content[:most]


Listing = list[tuple[PurePosixPath, datetime.datetime]]  # names and times


def downloads(source: Path, zip_names: str = "") -> dict[str, Listing]:
    """What the folder or zip holds, and each zip in it, by the path of that zip as `Found.download` names it."""
    if not source.is_dir():
        with UntrustedFolder(source.parent) as folder:
            return {"": _listing(folder, PurePosixPath(source.name), zip_names)}
    listings: dict[str, Listing] = {"": []}
    with UntrustedFolder(source) as folder:
        for below, folders, names, _, _ in folder.walk():
            folders[:] = [name for name in folders if is_text(name) and not is_noise(below / name)]
            if len(below.parts) > MAX_FOLDERS:
                folders.clear()
            for path in (below / name for name in names if is_text(name)):
                with suppress(OSError, ValueError, OverflowError):
                    listings[""].append((path, folder.changed_at(path).astimezone().replace(tzinfo=None)))
                if path.suffix.lower() == ".zip":
                    listings[path.as_posix()] = _listing(folder, path, zip_names)
    return listings


def _listing(folder: UntrustedFolder, path: PurePosixPath, zip_names: str) -> Listing:
    """The names and times of what a zip holds; nothing of a file that cannot be read as one: the reader says so."""
    members: Listing = []
    if path.suffix.lower() == ".zip":
        with suppress(*UNREADABLE), folder.open(path) as file:
            if members_of(file) > MAX_MEMBERS:
                return members
            with zipfile.ZipFile(file) as archive:
                decode_names(archive, zip_names)
                for member in archive.infolist():
                    if not _is_deep(member.filename):
                        with suppress(ValueError):
                            members.append((PurePosixPath(member.filename), datetime.datetime(*member.date_time)))
    return members


def members_of(file: BinaryIO) -> int:
    """How many members a zip may have at most, before zipfile makes a kilobyte of each; 0 if it is not a zip.

    The number in the zip's last record is not believed, since zipfile reads on for as many bytes as that record says:
    what is counted is how often an entry begins in these bytes. Too many bytes count as one member each.
    """
    try:
        end = zipfile._EndRecData(file)  # type: ignore[attr-defined]  # the record as zipfile reads it; [5]: bytes, [6]: from where
    except UNREADABLE:
        end = None
    if end is None:
        file.seek(0)
        return 0
    size, offset, last = end[5], end[6], end[9]
    if size > MAX_DIRECTORY:
        return int(size)
    # Where the list begins is said too; a zip behind other bytes says too little.
    left = last - file.seek(max(0, min(offset, last - size - ZIP64_END)))
    count = 0
    while left > 0 and (part := file.read(min(left, 2**20))):
        count, left = count + part.count(MEMBER), left - len(part)
    file.seek(0)
    return count
