"""Take submissions from a zip, a folder of folders, or an LMS download, into nbgrader's `submitted/`.

Every submission is kept under `handins/`; the latest of each student is the one that is graded.
"""

import errno
import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from autograder import limited
from autograder.course import FOLDER, Course, CourseError, NotebookEntry
from autograder.gradebook import course_tree, teams
from autograder.intake import exchange, reading
from autograder.intake.archive import DownloadReader, Found
from autograder.intake.kept_submissions import (
    HandIn,
    KeptName,
    keep,
    kept_hand_ins,
    late_after_one_in_time,
    note_origin,
)
from autograder.intake.owners import Owners
from autograder.intake.platforms import CANVAS_TEST_STUDENT, Claim
from autograder.intake.run_files import pack
from autograder.intake.runs import Runs
from autograder.intake.times import Times, read_times
from autograder.intake.zip_names import require_encoding
from utils.experiments import profiles
from utils.grading.verdict import line


@dataclass
class Collected:
    """What `collect` took, a line each, and what it refused."""

    taken: list[str] = field(default_factory=list)
    new: list[tuple[NotebookEntry, str]] = field(default_factory=list)  # whose latest submission is another one now
    refused: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what somebody should know of whose they are, and of when
    # Students, by notebook and group's name, of groups that are not teams.
    groups: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    known: int = 0  # submissions of an exchange that were kept before


def require_hand_ins(course: Course, source: Path) -> None:
    """See that there is a zip or folder to take submissions from, and that it is not the course.

    Raises:
        CourseError: it is missing, or holds the course itself: solutions and releases would be a student's submissions.
    """
    if not source.exists():
        raise CourseError(f"{source} does not exist: give the path of a download, a zip or a folder")
    if exchange.is_exchange(course, source):
        raise CourseError(
            f"{source} is in an exchange of nbgrader, whose folders name students in a way of their own: use "
            f"`autograder collect --exchange {source}`"
        )
    for kept in (FOLDER, course.tree.resolve()):
        if kept.is_relative_to(source.resolve()):
            raise CourseError(
                f"{source} holds {kept}, which are not submissions: give the zip or the folder of submissions alone"
            )


def collect(
    course: Course,
    source: Path,
    only: NotebookEntry | None = None,
    whose: str = "",
    zip_names: str = "",
    chosen: Sequence[NotebookEntry] = (),
    times: Path | None = None,
) -> Collected:
    """Take every submission that `source` holds; the rest is named in the result, and nothing stops the others.

    What a member of a team hands in is the team's, see `teams`.

    Args:
        only: the notebook that files of other names are taken for.
        whose: all of it is this student's.
        zip_names: the code page of zips that do not say in which encoding they hold their names; "": it is guessed.
        chosen: only these notebooks are taken; (): all are.
        times: a table that says when submissions came, see `times.read_times`; it goes before what the download says.

    Raises:
        CourseError: there is no such zip, folder, notebook, student or code page, or the folder holds the course
            itself.
    """
    require_hand_ins(course, source)
    require_encoding(zip_names)
    result, given = Collected(), read_times(course, times) if times else None
    named = Owners(course, source, result.notes, whose, zip_names)
    reader = DownloadReader(course, result.refused, result.notes, zip_names, named.is_known, bool(whose))
    taking = _Taking(course, named, result, only, tuple(chosen), given)
    taking.take(reader.files(source))
    return taking.summed_up(f"{source}: it is empty, or holds no notebook and no zip")


def collect_exchange(
    course: Course,
    given: Path | None = None,
    chosen: Sequence[NotebookEntry] = (),
    times: Path | None = None,
    stated: bool = False,
) -> Collected:
    """Take every submission of nbgrader's exchange, or those of the `chosen` notebooks; as `collect`.

    Args:
        given: where it is, see `exchange.place`.
        times: as in `collect`.
        stated: the times that submissions state count, see `exchange.hand_ins`.

    Raises:
        CourseError: there is no such exchange, or somebody else has put the course's folder there.
    """
    source, result = exchange.place(course, given), Collected()
    named = Owners(course, None, result.notes, "", "")
    read = exchange.hand_ins(course, source, result.refused, result.notes, chosen, stated)
    table = read_times(course, times) if times else None
    taking = _Taking(course, named, result, None, (), table)
    taking.take(read)
    return taking.summed_up("")


class _Refused(Exception):
    """A file is not taken; the message says why."""


@dataclass
class _Taking:
    """The files of one download, as they are taken one after the other."""

    course: Course
    named: Owners
    result: Collected
    only: NotebookEntry | None  # the notebook that files of other names are taken for
    chosen: tuple[NotebookEntry, ...]
    given: Times | None
    packed: set[tuple[object, str, str]] = field(default_factory=set)
    of_teams: set[tuple[str, str, str]] = field(default_factory=set)
    before: list[str] = field(default_factory=list)  # submissions of an exchange that were kept before
    called: dict[tuple[str, str], tuple[Claim, Found]] = field(default_factory=dict)  # the first file of each
    blank: dict[str, list[str]] = field(default_factory=dict)  # what is as it was released, by student
    others: int = 0  # files of notebooks that are not chosen

    def take(self, read: Iterator[Found]) -> None:
        """Take each file, or say why not."""
        for file in _of_each(read, self.named.whose):
            path = line(file.path, 300)
            try:
                self._take(file, path)
            except _Refused as why:
                self.result.refused.append(f"{path}: {why}")

    def _take(self, file: Found, path: str) -> None:
        """Take one file.

        Raises:
            _Refused: it is not taken.
        """
        entry = self._entry(file)
        if self.chosen and entry not in self.chosen:
            self.others += 1
            file.runs()  # they belong to it
            return
        try:
            member = self.named.student(file, entry)
        except CourseError as why:
            raise _Refused(str(why)) from None
        student = teams.load(self.course).of(entry, member) or member
        joined = file.runs(_experiments_of(entry)) if entry.has_experiments else Runs()
        if student != member and self._is_shared(file, entry, student, joined):
            note_origin(self.course, entry, member, file.claim, file)
            return
        is_blank = _equals_release(self.course, entry, file.text)
        if is_blank and (not joined.files or _has_answered(self.course, entry, student)):
            self.blank.setdefault(student, []).append(f"{entry.number} ({path})")
            return
        if file.claim.group and student == member:
            group = self.result.groups.setdefault((entry.name, file.claim.group), [])
            group += [member] * (member not in group)
        self._must_be_first_in_zip(file, entry, student)
        self._keep(file, HandIn(entry, student, file, file.claim, member=member, is_blank=is_blank), joined, path)

    def _keep(self, file: Found, hand_in: HandIn, joined: Runs, path: str) -> None:
        """Keep a file that is to be taken, with the runs that are joined to it.

        Raises:
            _Refused: it cannot be kept.
        """
        entry, student, claim = hand_in.entry, hand_in.student, file.claim
        members = teams.load(self.course).members(entry, student)
        row = self.given.of(student, claim, entry, self.named.listed(student), members) if self.given else None
        if row:
            # In time by somebody's decision: the platform's mark does not count, and the time stays unknown.
            claim = replace(claim, late=False, when=row.when or claim.when, given=row.when is not None)
            file = replace(file, claim=claim, when=row.when or file.when)
        self._note_doubts(file, entry, student, path)
        try:
            runs = _readable(joined.files, path, self.result)
            if joined.when and joined.when > file.when and not file.packed and not row:
                file = replace(file, when=joined.when)  # a submission came when the last of its files did
            claim = replace(claim, late=claim.late or (joined.late and not row))
            told_time = self.named.told_time(file, entry)
            hand_in = replace(hand_in, found=file, claim=claim, runs=runs, told_time=told_time)
            sentence, counts = keep(self.course, hand_in)
            self.result.taken += [sentence] if sentence else []
            self.before += [] if sentence else [line(file.path.parent, 300)]
            self.result.new += [(entry, student)] * counts
            self.result.notes += late_after_one_in_time(self.course, entry, student)
            if self.named.whose and told_time and not claim.when and entry.deadline and file.when > entry.deadline:
                self.result.notes.append(
                    f"{student}: {path} is late by the file's own time, {self.course.in_zone(file.when)}. If a "
                    "platform knows when it was handed in, collect it with `--times`"
                )
        except OSError as bad:
            if bad.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
                raise
            raise _Refused(f"cannot be kept ({bad.strerror})") from None

    def _entry(self, file: Found) -> NotebookEntry:
        """Which notebook a file is.

        Raises:
            _Refused: that is not known, or its name says something else than its exercises.
        """
        inside = _exercises_of(self.course, file.text)
        entry = _named(self.course, file) or self.only or next(iter(inside), None)
        if entry is None:
            raise _Refused("which notebook is it? Name it like in the course, or use --notebook")
        if inside and entry not in inside:
            which = " and ".join(other.name for other in inside)
            raise _Refused(
                f"it would be {entry.name}, but its exercises are those of {which}: ask for the right file, or "
                "rename it"
            )
        return entry

    def _is_shared(self, file: Found, entry: NotebookEntry, team: str, joined: Runs) -> bool:
        """Whether another member of a team handed in the same files: platforms give them to each member."""
        content = hashlib.sha256(file.text + pack(joined.files)).hexdigest()
        if (team, entry.name, content) in self.of_teams:
            return True
        self.of_teams.add((team, entry.name, content))
        return False

    def _must_be_first_in_zip(self, file: Found, entry: NotebookEntry, student: str) -> None:
        """Note that a student's zip, or all that is taken as a student's, holds this notebook.

        Raises:
            _Refused: it is the second one.
        """
        place = ("all of it" if self.named.whose else file.owner, student, entry.name)
        if (file.packed or self.named.whose) and place in self.packed:
            do = "if the zip holds several students' files, collect it by itself"
            raise _Refused(f"a second {entry.name} in the zip of {student}; {do}")
        self.packed.add(place)

    def _note_doubts(self, file: Found, entry: NotebookEntry, student: str, path: str) -> None:
        """Note it if a file may be another student's than the one before it, or is not a notebook."""
        claim = file.claim
        first, at = self.called.setdefault((student, entry.name), (claim, file))
        # A platform's files of one name and number are one student's. Folders may hold anybody's.
        apart = (claim.platform is None and at.owner != file.owner) or first.title != claim.title
        apart = apart or (file.when == at.when and file.text != at.text and not claim.attachment)
        namesakes = first.perhaps != claim.perhaps and not self.named.listed(student)
        if not self.named.whose and ((first.name, first.id) != (claim.name, claim.id) or apart or namesakes):
            other = line(at.path, 300) if apart or namesakes else f"a submission of {first.student()}"
            own = "of its own name, `NAME 2` where two have one name" if namesakes else "with its student's name"
            self.result.notes.append(
                f"{student}: {path} and {other} are both taken as theirs, and the later one counts; "
                f"`autograder remove {student} {entry.number} --latest --yes` goes back to the other. If one is "
                f"another student's, put each into a folder {own}, and collect again"
            )
        if unlike := reading.why_no_notebook(file.text) or reading.why_not_whole(file.text):
            self.result.notes.append(
                f"{path}: {unlike} ({len(file.text)} bytes); if it is the latest of {student} it counts, and "
                f"`autograder remove {student} {entry.number} --latest --yes` goes back to the one before, if any"
            )
        if claim.platform and claim.platform.name == "Canvas" and claim.name == CANVAS_TEST_STUDENT:
            self.result.notes.append(
                f"{student}: it seems to be Canvas's Test Student, as whom instructors look at a course; `autograder "
                f"remove {student} {entry.number} --yes` takes it out of the class's numbers"
            )

    def summed_up(self, nothing: str) -> Collected:
        """What was taken, with what is to be said of all files together.

        Args:
            nothing: why it is refused if there was no file at all; "": it is not a fault.
        """
        result = self.result
        for student, notebooks in self.blank.items():
            shown = ", ".join(notebooks[:5]) + f" and {len(notebooks) - 5} more" * (len(notebooks) > 5)
            result.notes.append(
                f"{student}: {len(notebooks)} notebooks are as they were released, without an answer, and are not "
                f"taken: {shown}"
            )
        if self.others:
            which = " and ".join(entry.number for entry in self.chosen)
            result.notes.append(f"{self.others} files of other notebooks are left out: only {which} is taken")
        for (notebook, name), students in result.groups.items():
            result.notes.append(
                f"{notebook}: {name} is a group, and each member is graded by itself: {', '.join(students)}. With "
                f"--teams, or by lines in {teams.FILE}, they are a team with one mark"
            )
        for notebook in dict.fromkeys(notebook for _, notebook, _ in sorted(self.of_teams)):
            entry = self.course.notebook(notebook)
            result.notes += [_told_of(entry, *pair) for pair in teams.superseded(self.course, entry)]
        result.known = len(self.before)
        stated_before = tuple(f"{path}: it states" for path in self.before)
        result.notes = [note for note in result.notes if not note.startswith(stated_before)]
        if not (result.taken or result.refused or self.others or self.blank or self.before):
            (result.refused if nothing else result.notes).append(nothing or "no submissions yet")
        result.notes += self.given.notes() if self.given else []
        result.refused = [line(text) for text in result.refused]
        result.notes = [line(text) for text in dict.fromkeys(result.notes)]
        return result


def _equals_release(course: Course, entry: NotebookEntry, text: bytes) -> bool:
    """Whether a file holds no more than what was released, as far as the tree has been built."""
    try:
        return bool(limited.call(reading.equals_release, text, course_tree.release_text(course, entry)))
    except (CourseError, limited.TooCostly):
        return False


def _has_answered(course: Course, entry: NotebookEntry, student: str) -> bool:
    """Whether a student has handed in this notebook with answers before."""
    return any(not KeptName.of(kept).blank for kept in kept_hand_ins(course, entry, student))


def _of_each(files: Iterator[Found], whose: str) -> Iterator[Found]:
    """Every file, once for each student who has handed it in."""
    for file in files:
        yield file
        for member in () if whose else file.claim.members:
            yield replace(file, claim=replace(member, group=file.claim.group))


@lru_cache(maxsize=64)
def _experiments_of(entry: NotebookEntry) -> frozenset[str]:
    """The folders of a notebook's experiments in all sizes."""
    known = [experiment for profile in profiles.NAMES for experiment in entry.experiments_of(profile).values()]
    return frozenset(experiment.folder("").name for experiment in known)


def _readable(runs: dict[str, bytes], path: str, result: Collected) -> dict[str, bytes]:
    """Those of a submission's runs that can be parsed, whatever the judge will say of them; the others are refused."""
    try:
        kept = limited.call(reading.parsed_runs, runs) if runs else []
    except limited.TooCostly as why:
        result.refused.append(f"{path}: its runs cannot be read: {why}")
        return {}
    result.refused += [f"{path}: {name} cannot be read as a run" for name in runs if name not in kept]
    return {name: runs[name] for name in kept}


def _named(course: Course, file: Found) -> NotebookEntry | None:
    """Which notebook it is by its name, or by that of its folder."""
    for entry in course.notebooks:
        if entry.name in file.path.name or entry.name in file.path.parts[:-1]:
            return entry
    return None


def _exercises_of(course: Course, text: bytes) -> list[NotebookEntry]:
    """The notebooks whose exercises have their cells in it, by the ids of cells; [] if an editor has dropped them."""
    numbers = {number.lstrip(b"0") for number in re.findall(rb'"(?:grade_id|id)":\s*"exercise_(\d+)_\w+"', text)}
    return [entry for entry in course.notebooks if entry.number.lstrip("0").encode() in numbers]


def _told_of(entry: NotebookEntry, student: str, counts: str) -> str:
    """A note on a member of a team who also handed in alone; `counts` is the student or the team."""
    which = "that is the later one, and counts for this student alone"
    which = which if counts == student else f"the later one of {counts} counts"
    return f"{student}: {entry.name} was also handed in alone, without the team: {which}"


def list_teams(
    course: Course,
    source: Path,
    only: NotebookEntry | None = None,
    zip_names: str = "",
    chosen: Sequence[NotebookEntry] = (),
    times: Path | None = None,
) -> list[str]:
    """Make teams, each of its notebook, of the groups whose members a download names; what to say of it.

    To be called before `collect`, whose arguments it takes: what a member hands in is then the team's.

    Raises:
        CourseError: as `collect`.
    """
    require_hand_ins(course, source)
    require_encoding(zip_names)
    if times:  # one that cannot be read is refused before teams are written
        read_times(course, times)
    named = Owners(course, source, [], "", zip_names)
    groups: dict[tuple[NotebookEntry, str], list[str]] = {}
    for file in _of_each(DownloadReader(course, [], [], zip_names, named.is_known, False).files(source), ""):
        entry = _named(course, file) or only or next(iter(_exercises_of(course, file.text)), None)
        if entry is None or not file.claim.group or (chosen and entry not in chosen):
            continue
        with suppress(CourseError):  # what it is, is said when it is collected
            member, group = named.student(file, entry), groups.setdefault((entry, file.claim.group), [])
            group += [member] * (member not in group)
    sentences = []
    for (entry, name), members in groups.items():
        if len(members) > 1:
            try:
                others = teams.add(course, entry, name, members)
            except teams.NoTeamName as why:  # students choose the names of groups: the others' are teams all the same
                sentences.append(f"{entry.number}: {why}")
                continue
            if len(others) < len(members):
                sentences.append(f"{entry.number}: {name} is a team by {teams.FILE}: {', '.join(members)}")
            for student in others:
                if (team := teams.load(course).of(entry, student)) != teams.identifier(name):
                    sentences.append(
                        f"{entry.number}: {student} is in the team {team} by {teams.FILE}, and not in {name}"
                    )
    return [line(text) for text in sentences] or ["--teams: this download names no group of several students"]
