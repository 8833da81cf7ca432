"""The submissions of a student or team that the tree keeps, and which of them counts: the latest with answers."""

import datetime
import hashlib
import itertools
import os
import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from autograder.course import Course, NotebookEntry
from autograder.gradebook import course_tree, extensions
from autograder.intake import origins
from autograder.intake.archive import Found
from autograder.intake.platforms import Claim
from autograder.intake.run_files import pack
from utils.experiments.run_files import Files
from utils.grading.verdict import line

RESULTS = ".results.json"
TIME = "%Y%m%dT%H%M%SZ"  # in UTC
TIMED = re.compile(r"\d{8}T\d{6}Z")
EARLIEST = datetime.datetime.min.replace(tzinfo=datetime.UTC)
BLANK = "blank"
SECRET = ".secret.txt"  # beside a kept submission that came from nbgrader's exchange
SEEN = "exchange.txt"  # beside them: the names of the submissions that were collected from it


class Stated(StrEnum):
    """What the time in the name of a kept submission is."""

    TIME = ""  # when it was handed in
    GIVEN = "given"  # the same, from a table, see `times`
    LATE = "late"  # when it was downloaded; the platform says that it is late, not since when
    UNKNOWN = "unknown"  # when it was downloaded


UNTIMED = (Stated.LATE, Stated.UNKNOWN)


@dataclass(frozen=True)
class KeptName:
    """What the name of a kept submission says: `20270501T000000Z-0a1b2c3d-late-blank-77.ipynb`."""

    when: datetime.datetime
    digest: str  # of notebook and runs
    stated: Stated = Stated.TIME
    blank: bool = False  # it has runs and no answer
    number: str = ""  # the platform's, of the file: of two of a student the later one has the larger number

    @classmethod
    def of(cls, path: Path) -> "KeptName":
        """What a file's name says; of one that somebody else put there it is not known when it came."""
        time, *marks = path.stem.split("-")
        if not TIMED.fullmatch(time):
            return cls(EARLIEST, path.stem, Stated.UNKNOWN)
        digest = marks.pop(0) if marks else time
        stated = next((Stated(mark) for mark in marks if mark and mark in {*Stated}), Stated.TIME)
        when = datetime.datetime.strptime(time, TIME).replace(tzinfo=datetime.UTC)
        number = marks[-1] if marks and marks[-1].isdecimal() else ""
        return cls(when, digest, stated, BLANK in marks, number)

    def __str__(self) -> str:
        marks = (f"{self.when:{TIME}}", self.digest, self.stated, BLANK * self.blank, self.number)
        return "-".join(str(mark) for mark in marks if mark) + ".ipynb"

    @property
    def handed_in(self) -> datetime.datetime | None:
        """When it was handed in; None if nobody says."""
        return None if self.stated in UNTIMED else self.when

    @property
    def order(self) -> tuple[datetime.datetime, int]:
        """By what the latest of several is found: when it came, then the platform's number of the file."""
        return self.when, int(self.number or 0)

    @property
    def rank(self) -> tuple[bool, tuple[datetime.datetime, int]]:
        """By what the one that counts is found: one with answers goes before one without, then the latest."""
        return not self.blank, self.order


@dataclass(frozen=True)
class HandIn:
    """A submission that is to be kept."""

    entry: NotebookEntry
    student: str
    found: Found
    claim: Claim | None = None  # whose it is, by the download
    runs: Files = field(default_factory=dict)
    member: str = ""  # of a team: whose file it is; "": the student's
    told_time: bool = True  # whether its time is when it was handed in, and not when it was downloaded
    is_blank: bool = False  # whether it has runs and no answer

    def name(self, results: bytes) -> KeptName:
        """Its name among the kept ones, with its runs as `results`."""
        digest = hashlib.sha256(self.found.text + results).hexdigest()[:8]
        stated = Stated.TIME if self.told_time else Stated.UNKNOWN
        if self.claim and self.claim.late and not self.told_time:
            stated = Stated.LATE
        if self.claim and self.claim.given:
            stated = Stated.GIVEN
        number = str(self.claim.attachment or "") if self.claim else ""
        when = self.found.when.replace(microsecond=0, tzinfo=datetime.UTC)  # as a name has it
        return KeptName(when, digest, stated, self.is_blank, number)


def keep(course: Course, hand_in: HandIn) -> tuple[str, bool]:
    """File a submission of a student or team; the latest is graded, the others stay beside it.

    Answers with what to say of it, "" of one of an exchange that was kept before, and whether it is new and counts.
    """
    entry, student, file, claim = hand_in.entry, hand_in.student, hand_in.found, hand_in.claim
    results = pack(hand_in.runs)
    name = hand_in.name(results)
    kept = course.tree / "handins" / student / entry.name / str(name)
    last = next(reversed(kept_hand_ins(course, entry, student)), None)
    again = last is not None and _is_again(name, KeptName.of(last), hand_in.told_time)
    there = kept.exists()
    new = last is None or (not there and _adds(name, KeptName.of(last), again, hand_in.told_time))
    if new:
        _write(kept, hand_in, results, last)
    elif name.stated is Stated.GIVEN and there and last is not None:  # the same time once more, after another one
        os.utime(kept, ns=(last.stat().st_mtime_ns + 1,) * 2)
    elif last is not None and again:  # submitted once more: its feedback is for the later submission
        _keep_secret(last, file.secret)
    place_latest(course, entry, student)
    is_latest = last is None or (KeptName.of(last).rank <= name.rank and not there)
    member = hand_in.member or student
    if claim and ((new and is_latest) or origins.origin_of(course, entry, member) is None):
        origins.note(course, entry, member, claim, file.owner)
    sentence = f"{student}: {entry.name} from {line(file.path, 300)}"
    if claim and claim.exchange and not _is_first_seen(kept.parent, file):  # it keeps all submissions
        return "", False
    if again:
        return f"{sentence} (the same as the one that counts)", False
    if last is not None and not is_latest:
        later = course.in_zone(KeptName.of(last).when)
        return f"{sentence} (kept, and does NOT count: the one of {later} came later)", False
    older = len(list(kept.parent.glob("*.ipynb"))) - 1
    return (f"{sentence} (it counts; {older} earlier one{'s' * (older > 1)} kept)" if older else sentence), True


def _is_again(name: KeptName, last: KeptName, told_time: bool) -> bool:
    """Whether a submission is the `last` one, downloaded once more.

    It is another one if it is known by now to have come earlier, or to be late.
    """
    if name.digest != last.digest:
        return False
    as_unknown = name.stated is Stated.UNKNOWN and not name.blank and last.stated is not Stated.LATE
    return told_time or as_unknown or replace(name, when=last.when) == last


def _adds(name: KeptName, last: KeptName, again: bool, told_time: bool) -> bool:
    """Whether a submission that is not there under its name is kept beside the `last` one."""
    return not again or name.stated is Stated.GIVEN or (told_time and name.order < last.order)


def _write(kept: Path, hand_in: HandIn, results: bytes, last: Path | None) -> None:
    """Write the files of a new submission."""
    if results:  # first: the notebook says that the submission is there
        course_tree.write(kept.with_suffix(RESULTS), results)
    course_tree.write(kept, hand_in.found.text)
    _keep_secret(kept, hand_in.found.secret)
    if last is not None:  # a clock may stand still, or be put back
        newest = max(kept.stat().st_mtime_ns, last.stat().st_mtime_ns + 1)
        os.utime(kept, ns=(newest, newest))


def _is_first_seen(folder: Path, file: Found) -> bool:
    """Whether a submission of an exchange was not collected before, by the name of its folder there, which is noted."""
    path, name = folder / SEEN, file.path.parent.name
    seen = path.read_text().splitlines() if path.exists() else []
    if name not in seen:
        course_tree.write(path, "\n".join([*seen, name]) + "\n")
    return name not in seen


def note_origin(course: Course, entry: NotebookEntry, member: str, claim: Claim, file: Found) -> None:
    """Note what the platform calls a member of a team whose files are kept already."""
    if origins.origin_of(course, entry, member) is None:
        origins.note(course, entry, member, claim, file.owner)


def _keep_secret(kept: Path, secret: bytes) -> None:
    if secret:
        course_tree.write(kept.with_suffix(SECRET), secret)
        kept.with_suffix(SECRET).chmod(0o600)


def kept_hand_ins(course: Course, entry: NotebookEntry, student: str) -> list[Path]:
    """Every kept submission of a student, the latest last; of two that came in one second, the one collected last."""
    kept = (course.tree / "handins" / student / entry.name).glob("*.ipynb")
    return sorted(kept, key=lambda path: (KeptName.of(path).rank, path.stat().st_mtime_ns))


def place_latest(course: Course, entry: NotebookEntry, student: str) -> None:
    """Make the latest of the kept submissions the one that is graded; it came when its content first did."""
    kept = kept_hand_ins(course, entry, student)
    latest, submitted = kept[-1], course_tree.place(course, "submitted", entry, student)
    names = {path: KeptName.of(path) for path in reversed(kept)}
    equal = [*itertools.takewhile(lambda path: names[path].digest == names[latest].digest, names)]
    stated = [when for path in equal if (when := names[path].handed_in)]
    by_table = [path for path in equal if names[path].stated is Stated.GIVEN]
    given = max(by_table, key=lambda path: path.stat().st_mtime_ns, default=None)
    taken = names[given].when if given else min(stated, default=None)
    stamp = submitted.with_name("timestamp.txt")
    _place_secret(course, entry, student, latest)
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
    elif not stamp.exists() or stamp.read_text() != course_tree.timestamp(taken) + "\n":
        course_tree.write(stamp, course_tree.timestamp(taken) + "\n")


def _place_secret(course: Course, entry: NotebookEntry, student: str, latest: Path) -> None:
    """Put the secret of the `latest` submission beside it where nbgrader looks, and beside its graded copy."""
    submitted = course_tree.place(course, "submitted", entry, student)
    packed, runs = latest.with_suffix(RESULTS), course_tree.results_path(course, entry, student)
    same = submitted.exists() and submitted.read_bytes() == latest.read_bytes()
    same = same and (packed.read_bytes() if packed.exists() else b"") == (runs.read_bytes() if runs.exists() else b"")
    secret = latest.with_suffix(SECRET).read_text() if latest.with_suffix(SECRET).exists() else ""
    before = course_tree.secret_of(course, "submitted", entry, student)
    graded = course_tree.secret_of(course, "autograded", entry, student)
    course_tree.place_secret(course, "submitted", entry, student, secret)
    if same and graded == before and course_tree.place(course, "autograded", entry, student).exists():
        course_tree.place_secret(course, "autograded", entry, student, secret)  # nothing is graded again


def late_after_one_in_time(course: Course, entry: NotebookEntry, student: str) -> list[str]:
    """A note if the submission that counts is late and an earlier one was not: somebody may want that one."""
    kept = [KeptName.of(path) for path in kept_hand_ins(course, entry, student)]
    counts = course_tree.stamped(course, entry, student)
    if entry.deadline is None or kept[-1].handed_in is None or counts is None:
        return []
    # Copies of what counts came, for the grader, when it did.
    times = [counts if name.digest == kept[-1].digest else name.handed_in for name in kept]
    extra = extensions.extension_of(course, entry, student, extensions.extensions(course))
    if isinstance(extra, str):
        return []
    due = extensions.until(extra, entry.deadline) if extra is not None else entry.deadline
    due += datetime.timedelta(minutes=course.late.grace_minutes)
    late = len(list(itertools.takewhile(lambda when: when is not None and when > due, reversed(times))))
    if late in (0, len(times)):
        return []
    given = f", given {late} times," if late > 1 else ""
    return [
        f"{student}: the {entry.name} that counts is late ({course.in_zone(counts)}), and an earlier one was in "
        f"time; `autograder remove {student} {entry.number} --latest --yes`{given} goes back to it"
    ]


def marked_late(course: Course, entry: NotebookEntry, student: str) -> str:
    """What a person has to decide if the platform marks the submission that counts late without saying when; else
    "".
    """
    kept = [KeptName.of(path) for path in kept_hand_ins(course, entry, student)]
    equal = [name for name in kept if name.digest == kept[-1].digest]
    if not kept or kept[-1].stated is not Stated.LATE or any(name.handed_in for name in equal):
        return ""
    more = extensions.extension_of(course, entry, student, extensions.extensions(course))
    if isinstance(more, str):  # never late
        return ""
    due = extensions.until(more, entry.deadline) if entry.deadline and more is not None else None
    until = (
        f" There is an extension until {due:%Y-%m-%d %H:%M %z}, and nobody knows whether it came before." if due else ""
    )
    return (
        f"marked late, time unknown: the platform says LATE and not when, so nothing is taken off.{until} Collect the "
        "download again with --times and a table with the columns student and time; the time may be `in time`"
    )
