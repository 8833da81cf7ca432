"""Take hand-ins from a zip, a folder of folders, or an LMS download, into nbgrader's `submitted/`.

Every hand-in is kept under `handins/`; the latest of each student is the one that is graded.
"""

import datetime
import errno
import glob
import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from autograder import limited
from autograder.course import FOLDER, Course, CourseError, NotebookEntry, Platform
from autograder.gradebook import course_tree, roster, teams
from autograder.gradebook.roster import slug
from autograder.html_cleaning import line
from autograder.intake import exchange, reading
from autograder.intake.archive import DownloadReader, Found, downloads
from autograder.intake.kept_submissions import (
    HandIn,
    KeptName,
    keep,
    kept_hand_ins,
    late_after_one_in_time,
    note_origin,
)
from autograder.intake.platforms import CANVAS_TEST_STUDENT, TELL, Claim, assignment_claims
from autograder.intake.run_files import pack
from autograder.intake.runs import Runs
from autograder.intake.times import Times, read_times
from autograder.intake.zip_names import require_encoding
from utils.experiments import profiles
from utils.grading.verdict import legible

SPREAD = datetime.timedelta(minutes=5)  # where times may be the download's own: those that are closer are


@dataclass
class Collected:
    """What `collect` took, a line each, and what it refused."""

    taken: list[str] = field(default_factory=list)
    new: list[tuple[NotebookEntry, str]] = field(default_factory=list)  # whose latest hand-in is another one now
    refused: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what somebody should know of whose they are, and of when
    # Students, by notebook and group's name, of groups that are no teams.
    groups: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    known: int = 0  # submissions of an exchange that were kept before


def require_hand_ins(course: Course, source: Path) -> None:
    """See that there is a zip or folder to take hand-ins from, and that it is not the course.

    Raises:
        CourseError: it is missing, or holds the course itself: solutions and releases would be a student's hand-ins.
    """
    if not source.exists():
        raise CourseError(f"{source} does not exist")
    if exchange.is_exchange(course, source):
        raise CourseError(
            f"{source} is in an exchange of nbgrader, whose folders name students in a way of their own: use "
            f"`autograder collect --exchange {source}`"
        )
    for kept in (FOLDER, course.tree.resolve()):
        if kept.is_relative_to(source.resolve()):
            raise CourseError(
                f"{source} holds {kept}, which are no hand-ins: give the zip or the folder of hand-ins alone"
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
    """Take every hand-in that `source` holds; the rest is named in the result, and nothing stops the others.

    What a member of a team hands in is the team's, see `teams`.

    Args:
        only: the notebook that files of other names are taken for.
        whose: all of it is this student's.
        zip_names: the code page of zips that do not say in which encoding they hold their names; "": it is guessed.
        chosen: only these notebooks are taken; (): all are.
        times: a table that says when hand-ins came, see `times.read_times`; it goes before what the download says.

    Raises:
        CourseError: there is no such zip, folder, notebook, student or code page, or the folder holds the course
            itself.
    """
    require_hand_ins(course, source)
    require_encoding(zip_names)
    result, given = Collected(), read_times(course, times) if times else None
    named = _Names(course, source, result, whose, zip_names)
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
    named = _Names(course, None, result, "", "")
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
    named: "_Names"
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
        for found in _of_each(read, self.named.whose):
            path = line(found.path, 300)
            try:
                self._take(found, path)
            except _Refused as why:
                self.result.refused.append(f"{path}: {why}")

    def _take(self, found: Found, path: str) -> None:
        """Take one file.

        Raises:
            _Refused: it is not taken.
        """
        entry = self._entry(found)
        if self.chosen and entry not in self.chosen:
            self.others += 1
            found.runs()  # they belong to it
            return
        try:
            member = self.named.student(found, entry)
        except CourseError as why:
            raise _Refused(str(why)) from None
        student = teams.load(self.course).of(entry, member) or member
        joined = found.runs(_experiments_of(entry)) if entry.has_experiments else Runs()
        if student != member and self._is_shared(found, entry, student, joined):
            note_origin(self.course, entry, member, found.claim, found)
            return
        is_blank = _equals_release(self.course, entry, found.text)
        if is_blank and (not joined.files or _has_answered(self.course, entry, student)):
            self.blank.setdefault(student, []).append(f"{entry.number} ({path})")
            return
        if found.claim.group and student == member:
            group = self.result.groups.setdefault((entry.name, found.claim.group), [])
            group += [member] * (member not in group)
        self._must_be_first_in_zip(found, entry, student)
        self._keep(found, HandIn(entry, student, found, found.claim, member=member, is_blank=is_blank), joined, path)

    def _keep(self, found: Found, hand_in: HandIn, joined: Runs, path: str) -> None:
        """Keep a file that is to be taken, with the runs that are joined to it.

        Raises:
            _Refused: it cannot be kept.
        """
        entry, student, claim = hand_in.entry, hand_in.student, found.claim
        row = self.given.of(student, claim, entry, self.named.listed(student)) if self.given else None
        if row:
            # In time by somebody's decision: the platform's mark does not count, and the time stays unknown.
            claim = replace(claim, late=False, when=row.when or claim.when, given=row.when is not None)
            found = replace(found, claim=claim, when=row.when or found.when)
        self._note_doubts(found, entry, student, path)
        try:
            runs = _readable(joined.files, path, self.result)
            if joined.when and joined.when > found.when and not found.packed and not row:
                found = replace(found, when=joined.when)  # a submission came when the last of its files did
            claim = replace(claim, late=claim.late or (joined.late and not row))
            told_time = self.named.told_time(found, entry)
            hand_in = replace(hand_in, found=found, claim=claim, runs=runs, told_time=told_time)
            told, counts = keep(self.course, hand_in)
            self.result.taken += [told] if told else []
            self.before += [] if told else [line(found.path.parent, 300)]
            self.result.new += [(entry, student)] * counts
            self.result.notes += late_after_one_in_time(self.course, entry, student)
        except OSError as bad:
            if bad.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
                raise
            raise _Refused(f"cannot be kept ({bad.strerror})") from None

    def _entry(self, found: Found) -> NotebookEntry:
        """Which notebook a file is.

        Raises:
            _Refused: that is not known, or its name says something else than its exercises.
        """
        inside = _exercises_of(self.course, found.text)
        entry = _named(self.course, found) or self.only or next(iter(inside), None)
        if entry is None:
            raise _Refused("which notebook is it? Name it like in the course, or use --notebook")
        if inside and entry not in inside:
            which = " and ".join(other.name for other in inside)
            raise _Refused(
                f"it would be {entry.name}, but its exercises are those of {which}: ask for the right file, or "
                "rename it"
            )
        return entry

    def _is_shared(self, found: Found, entry: NotebookEntry, team: str, joined: Runs) -> bool:
        """Whether another member of a team handed in the same files: platforms give them to each member."""
        content = hashlib.sha256(found.text + pack(joined.files)).hexdigest()
        if (team, entry.name, content) in self.of_teams:
            return True
        self.of_teams.add((team, entry.name, content))
        return False

    def _must_be_first_in_zip(self, found: Found, entry: NotebookEntry, student: str) -> None:
        """Note that a student's zip, or all that is taken as a student's, holds this notebook.

        Raises:
            _Refused: it is the second one.
        """
        place = ("all of it" if self.named.whose else found.owner, student, entry.name)
        if (found.packed or self.named.whose) and place in self.packed:
            do = "if the zip holds several students' files, collect it by itself"
            raise _Refused(f"a second {entry.name} in the zip of {student}; {do}")
        self.packed.add(place)

    def _note_doubts(self, found: Found, entry: NotebookEntry, student: str, path: str) -> None:
        """Note it if a file may be another student's than the one before it, or is no notebook."""
        claim = found.claim
        first, at = self.called.setdefault((student, entry.name), (claim, found))
        # A platform's files of one name and number are one student's. Folders may hold anybody's.
        apart = (claim.platform is None and at.owner != found.owner) or first.title != claim.title
        apart = apart or (found.when == at.when and found.text != at.text and not claim.attachment)
        if not self.named.whose and ((first.name, first.id) != (claim.name, claim.id) or apart):
            other = line(at.path, 300) if apart else f"a hand-in of {first.student()}"
            self.result.notes.append(
                f"{student}: {path} and {other} are both taken as theirs, and the later one counts; "
                f"`autograder remove {student} {entry.number} --latest --yes` goes back to the other. If one is "
                "another student's, put each into a folder with its student's name, and collect again"
            )
        if unlike := reading.why_no_notebook(found.text):
            self.result.notes.append(
                f"{path}: {unlike} ({len(found.text)} bytes); if it is the latest of {student} it counts, and "
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
            nothing: why it is refused if there was no file at all; "": it is no fault.
        """
        result = self.result
        for student, some in self.blank.items():
            shown = ", ".join(some[:5]) + f" and {len(some) - 5} more" * (len(some) > 5)
            result.notes.append(
                f"{student}: {len(some)} notebooks are as they were released, without an answer, and are not taken: "
                f"{shown}"
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
    for found in files:
        yield found
        for member in () if whose else found.claim.members:
            yield replace(found, claim=replace(member, group=found.claim.group))


@lru_cache(maxsize=64)
def _experiments_of(entry: NotebookEntry) -> frozenset[str]:
    """The folders of a notebook's experiments in all sizes."""
    known = [one for profile in profiles.NAMES for one in entry.experiments_of(profile).values()]
    return frozenset(one.folder("").name for one in known)


def _readable(runs: dict[str, bytes], path: str, result: Collected) -> dict[str, bytes]:
    """Those of a hand-in's runs that can be parsed, whatever the judge will say of them; the others are refused."""
    try:
        kept = limited.call(reading.parsed_runs, runs) if runs else []
    except limited.TooCostly as why:
        result.refused.append(f"{path}: its runs cannot be read: {why}")
        return {}
    result.refused += [f"{path}: {name} cannot be read as a run" for name in runs if name not in kept]
    return {name: runs[name] for name in kept}


def _named(course: Course, found: Found) -> NotebookEntry | None:
    """Which notebook it is by its name, or by that of its folder."""
    for entry in course.notebooks:
        if entry.name in found.path.name or entry.name in found.path.parts[:-1]:
            return entry
    return None


def _exercises_of(course: Course, text: bytes) -> list[NotebookEntry]:
    """The notebooks whose exercises have their cells in it, by the ids of cells; [] if an editor has dropped them."""
    numbers = {one.lstrip(b"0") for one in re.findall(rb'"(?:grade_id|id)":\s*"exercise_(\d+)_\w+"', text)}
    return [entry for entry in course.notebooks if entry.number.lstrip("0").encode() in numbers]


class _Names:
    """Whose the hand-ins of one download are: nobody's is merged with another's unless the roster says so."""

    def __init__(self, course: Course, source: Path | None, result: Collected, whose: str, zip_names: str):
        self.course, self.result = course, result
        self.roster = roster.load(course)
        self.whose = whose
        if whose:
            self.whose = teams.load(course).find(whose)
            self.whose = self.whose or (self.roster.find(whose).id if self.roster else slug(whose))
            if not self.whose:
                raise CourseError(f"`{whose}` cannot be a student's name: it has no letter and no digit")
        numbers: dict[tuple[str, str, str, str], set[str]] = {}
        times: dict[tuple[str, str], list[datetime.datetime]] = {}
        for download, members in (downloads(source, zip_names) if source else {}).items():
            for path, when in members:
                for row, claim in assignment_claims(course, path):
                    about = (row.name, claim.name, download, _file_of(course, path.name))
                    numbers.setdefault(about, set()).add(claim.id)
                    times.setdefault((row.name, download), []).append(when)
        self.zipped = bool(
            source and source.suffix.lower() == ".zip"
        )  # a zip's times name no zone; those of files in a folder do
        self.ambiguous = {about[:3] for about, several in numbers.items() if len(several) > 1}
        self.differing = {one for one, stated in times.items() if max(stated) - min(stated) > SPREAD}

    def listed(self, student: str) -> roster.Student | None:
        """A student's line of the class list."""
        return self.roster.students.get(student) if self.roster else None

    def is_known(self, name: str) -> bool:
        """Whether it is the name of a student of the class list, or of several."""
        return bool(name and self.roster and self.roster.has(name))

    def told_time(self, found: Found, entry: NotebookEntry) -> bool:
        """Whether the time of this file is when it was handed in; somebody is told what zone it was read in."""
        if found.claim.when:
            return True
        row = found.claim.platform
        one = (row.name, found.download) if row else None
        if row and (row.times == "none" or (row.times == "differing" and one not in self.differing)):
            marks = any("late" in pattern.groupindex for pattern in (*row.files, *row.folders))
            self.result.notes.append(
                f"this download of {row.name} does not say when files were handed in: nobody is late by it"
                + (
                    f"; `autograder status` lists those whom {row.name} marks LATE, for you to decide. `--times` takes "
                    f"a table of times. {row.name} may have a late policy of its own, which takes points off as well: "
                    "switch one of the two off"
                    if marks
                    else "; `--times` takes a table of times"
                )
            )
            return False
        if (
            (self.zipped or found.download or (row and row.times == "name"))
            and entry.deadline
            and not self.course.timezone
        ):
            here = entry.deadline.astimezone()
            if here.utcoffset() != entry.deadline.utcoffset():
                self.result.notes.append(
                    f"times in this download name no zone and were read in this machine's, {here:UTC%z}, while the "
                    f"deadline of {entry.name} has {entry.deadline:UTC%z}: state `timezone` in course.toml, remove "
                    "what was collected (`autograder remove STUDENT NOTEBOOK --yes`), and collect again"
                )
        return True

    def student(self, found: Found, entry: NotebookEntry) -> str:
        """The folder of whoever handed this in.

        Raises:
            CourseError: that cannot be said; the message says what to do.
        """
        claim = found.claim
        if self.whose:
            of_teams = teams.load(self.course)
            if of_teams.name(self.whose) and not of_teams.members(entry, self.whose):
                raise CourseError(f"{self.whose} is not a team of {entry.name}: add its members to {teams.FILE}")
            return self.whose
        if claim.doubt or not slug(claim.name):
            raise CourseError(claim.doubt or f"whose is it? The name says nobody's: {TELL}")
        if self.roster:
            return self._listed_student(self.roster, claim, entry)
        name = claim.student()
        row = claim.platform
        if row and row.numbers == "assignment" and self._shared(row, found, entry):
            name = f"{claim.name}_{claim.id}"
            if claim.name.casefold() not in row.hidden:
                self.result.notes.append(
                    f"{row.name}'s number {claim.id} is called {claim.name} like somebody else: taken as {slug(name)}. "
                    f"{row.name}'s numbers differ in each assignment: say who is who in "
                    f"{self.course.tree / 'students.csv'}"
                )
        student = slug(name)
        if teams.load(self.course).name(student):
            raise CourseError(
                f"a team is called {student}, too: rename the team in {teams.FILE}, or say whose it is with --student"
            )
        known = self.course.tree / "handins" / student / "name.txt"
        if not known.exists():
            course_tree.write(known, legible(claim.name))
        if known.read_text() not in (legible(claim.name), legible(name)):
            raise CourseError(f"another student is called {student} already; rename one of the two")
        before = self._number(student, entry)
        if claim.id and before not in ("", claim.id):
            raise CourseError(
                f"another student is called {student} already, with the number {before}: say who is who in "
                f"{self.course.tree / 'students.csv'}"
            )
        self._remember(student, claim, entry)
        return student

    def _listed_student(self, known: roster.Roster, claim: Claim, entry: NotebookEntry) -> str:
        """The folder of a student of the roster."""
        lasting = claim.platform is None or claim.platform.numbers != "assignment"
        claim = replace(claim, name=next(filter(known.has, claim.others), claim.name))
        if claim.platform and claim.name.casefold() in claim.platform.hidden and not known.has(claim.name, claim.id):
            raise CourseError(
                f"{claim.platform.name} hides the names in this download, and `{claim.name}` is everybody: reveal the "
                f"students' identities there, download again and collect that; {TELL}"
            )
        student = known.find(claim.name, claim.id, lasting, claim.shared, claim.account).id
        before = self._number(student, entry)
        if claim.id and before not in ("", claim.id) and claim.id not in known.students[student].platform_ids:
            raise CourseError(
                f"{claim.name} handed in under the numbers {before} and {claim.id}, and {known.path.name} has one such "
                "student: write the platform's numbers into platform_ids, of one student or of two"
            )
        self._remember(student, claim, entry)
        strange = _is_strange(claim.name, known.students[student]) and not teams.load(self.course).of(entry, student)
        if claim.platform and claim.platform.name == "Canvas" and strange:
            self.result.notes.append(
                f"{student}: Canvas's number {claim.id} is theirs, and this download calls it {claim.name}. If that is "
                f"a group, its file is filed under {student} alone: list its members in {teams.FILE} and collect "
                "again, or give it to the other members with `autograder collect FILE --student ID`"
            )
        older = slug(claim.student())
        if older != student and (self.course.tree / "handins" / older / entry.name).exists():
            self.result.notes.append(
                f"{student} was collected as {older} before: `autograder remove {older} {entry.number} --yes` removes "
                "that"
            )
        return student

    def _shared(self, platform: Platform, found: Found, entry: NotebookEntry) -> bool:
        """Whether another student has this name, too, here or in what was collected before."""
        claim = found.claim
        if self._number(slug(claim.name), entry) == claim.id:
            return False  # the one who came first
        if claim.name.casefold() in platform.hidden or (platform.name, claim.name, found.download) in self.ambiguous:
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

    def _remember(self, student: str, claim: Claim, entry: NotebookEntry) -> None:
        if claim.id and not self._number(student, entry):
            course_tree.write(self._number_path(student, entry), claim.id)


def _is_strange(name: str, student: roster.Student) -> bool:
    """Whether Canvas's name has nothing of a student's: it writes a group's name with the number of one member."""
    words = roster.plain(f"{student.first_name} {student.last_name}")
    own = [roster.plain(word) for word in re.split(r"[\s-]+", f"{student.first_name} {student.last_name}")]
    called = roster.plain(name)
    return bool(words) and called not in student.names() and not any(len(one) > 1 and one in called for one in own)


def _file_of(course: Course, name: str) -> str:
    """The notebook that a file's name speaks of, else ""."""
    return next((entry.name for entry in course.notebooks if entry.name in name), "")


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
) -> list[str]:
    """Make teams, each of its notebook, of the groups whose members a download names; what to say of it.

    To be called before `collect`, whose arguments it takes: what a member hands in is then the team's.

    Raises:
        CourseError: as `collect`.
    """
    require_hand_ins(course, source)
    require_encoding(zip_names)
    named = _Names(course, source, Collected(), "", zip_names)
    groups: dict[tuple[NotebookEntry, str], list[str]] = {}
    for found in _of_each(DownloadReader(course, [], [], zip_names, named.is_known, False).files(source), ""):
        entry = _named(course, found) or only or next(iter(_exercises_of(course, found.text)), None)
        if entry is None or not found.claim.group or (chosen and entry not in chosen):
            continue
        with suppress(CourseError):  # what it is, is said when it is collected
            member, group = named.student(found, entry), groups.setdefault((entry, found.claim.group), [])
            group += [member] * (member not in group)
    told = []
    for (entry, name), members in groups.items():
        if len(members) > 1:
            others = teams.add(course, entry, name, members)
            if len(others) < len(members):
                told.append(f"{entry.number}: {name} is a team by {teams.FILE}: {', '.join(members)}")
            for one in others:
                if (team := teams.load(course).of(entry, one)) != teams.identifier(name):
                    told.append(f"{entry.number}: {one} is in the team {team} by {teams.FILE}, and not in {name}")
    return [line(text) for text in told] or ["--teams: this download names no group of several students"]
