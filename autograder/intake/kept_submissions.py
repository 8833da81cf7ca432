"""The submissions of a student or team that the tree keeps, and which of them counts: the latest with answers."""

import datetime
import hashlib
import itertools
import os
from pathlib import Path

from autograder.course import Course, NotebookEntry
from autograder.gradebook import course_tree, extensions
from autograder.html_cleaning import line
from autograder.intake import origins
from autograder.intake.archive import Found
from autograder.intake.platforms import Claim
from autograder.intake.run_files import pack
from utils.experiments.experiment import Files

RESULTS = ".results.json"
BLANK = "-blank"  # in the name of a kept hand-in that has runs and no answer
GIVEN = "given"  # in the name of a kept hand-in: its time is that of a table, see `times`
SECRET = ".secret.txt"  # beside a kept hand-in that came from nbgrader's exchange
SEEN = "exchange.txt"  # beside them: the names of the submissions that were collected from it


def keep(
    course: Course,
    entry: NotebookEntry,
    student: str,
    found: Found,
    runs: Files,
    told_time: bool = True,
    claim: Claim | None = None,
    is_blank: bool = False,
    member: str = "",
) -> tuple[str, bool]:
    """File a hand-in of a student, or of a team by a `member`; the latest is graded, the others stay beside it.

    Answers with what to say of it, "" of one of an exchange that was kept before, and whether it is new and counts.
    The name of a kept file says when it came, and, if that is when it was downloaded, that its time is
    unknown: late, if the platform said so. It says if the notebook has runs alone and `is_blank`.
    """
    results = pack(runs)
    digest = hashlib.sha256(found.text + results).hexdigest()[:8]
    folder = course.tree / "handins" / student / entry.name
    given = claim is not None and claim.given
    mark = f"-{GIVEN}" if given else "" if told_time else "-late" if claim and claim.late else "-unknown"
    mark += BLANK * is_blank
    number = f"-{claim.attachment}" if claim and claim.attachment else ""
    kept = folder / f"{found.when:%Y%m%dT%H%M%SZ}-{digest}{mark}{number}.ipynb"
    last = next(reversed(kept_hand_ins(course, entry, student)), None)
    # Downloaded once more, it is no other hand-in, unless it is known by now to have come earlier, or to be late.
    again = (
        last is not None
        and _digest_of(last) == digest
        and (told_time or (mark == "-unknown" and "-late" not in last.name) or last.name[16:] == kept.name[16:])
    )
    there = kept.exists()
    new = last is None or (not there and (not again or given or (told_time and _order(kept) < _order(last))))
    if new:
        if results:  # first: the notebook says that the hand-in is there
            course_tree.write(kept.with_suffix(RESULTS), results)
        course_tree.write(kept, found.text)
        _keep_secret(kept, found.secret)
        if last is not None:  # a clock may stand still, or be put back
            newest = max(kept.stat().st_mtime_ns, last.stat().st_mtime_ns + 1)
            os.utime(kept, ns=(newest, newest))
    elif given and there and last is not None:  # the same time once more, after another one
        os.utime(kept, ns=(last.stat().st_mtime_ns + 1,) * 2)
    elif last is not None and again:  # submitted once more: its feedback is for the later submission
        _keep_secret(last, found.secret)
    place_latest(course, entry, student)
    is_latest = last is None or (_rank(last) <= _rank(kept) and not there)
    member = member or student
    if claim and ((new and is_latest) or origins.origin_of(course, entry, member) is None):
        origins.note(course, entry, member, claim, found.owner)
    told = f"{student}: {entry.name} from {line(found.path, 300)}"
    if claim and claim.exchange and not _is_first_seen(folder, found):  # it keeps all submissions
        return "", False
    if again:
        return f"{told} (the same as the one that counts)", False
    if last is not None and not is_latest:
        return f"{told} (kept, and does NOT count: the one of {course.in_zone(_when(last))} came later)", False
    older = len(list(folder.glob("*.ipynb"))) - 1
    return (f"{told} (it counts; {older} earlier one{'s' * (older > 1)} kept)" if older else told), True


def _is_first_seen(folder: Path, found: Found) -> bool:
    """Whether a submission of an exchange was not collected before, by the name of its folder there, which is noted."""
    path, name = folder / SEEN, found.path.parent.name
    seen = path.read_text().splitlines() if path.exists() else []
    if name not in seen:
        course_tree.write(path, "\n".join([*seen, name]) + "\n")
    return name not in seen


def note_origin(course: Course, entry: NotebookEntry, member: str, claim: Claim, found: Found) -> None:
    """Note what the platform calls a member of a team whose files are kept already."""
    if origins.origin_of(course, entry, member) is None:
        origins.note(course, entry, member, claim, found.owner)


def _keep_secret(kept: Path, secret: bytes) -> None:
    if secret:
        course_tree.write(kept.with_suffix(SECRET), secret)
        kept.with_suffix(SECRET).chmod(0o600)


def kept_hand_ins(course: Course, entry: NotebookEntry, student: str) -> list[Path]:
    """Every kept hand-in of a student, the latest last; of two that came in one second, the one collected last."""
    found = (course.tree / "handins" / student / entry.name).glob("*.ipynb")
    return sorted(found, key=lambda one: (_rank(one), one.stat().st_mtime_ns))


def place_latest(course: Course, entry: NotebookEntry, student: str) -> None:
    """Make the latest of the kept hand-ins the one that is graded; it came when its content first did."""
    kept = kept_hand_ins(course, entry, student)
    latest, submitted = kept[-1], course_tree.place(course, "submitted", entry, student)
    alike = [*itertools.takewhile(lambda one: _digest_of(one) == _digest_of(latest), reversed(kept))]
    told = [_when(one) for one in alike if not _marks(one)]
    given = max(
        (one for one in alike if GIVEN in one.stem.split("-")), key=lambda one: one.stat().st_mtime_ns, default=None
    )
    taken = _when(given) if given else min(told) if told else _handed_in_at(latest)
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
    """Put the secret of the `latest` hand-in beside it where nbgrader looks, and beside its graded copy."""
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
    """A note if the hand-in that counts is late and an earlier one was not: somebody may want that one."""
    kept = kept_hand_ins(course, entry, student)
    times = [_handed_in_at(one) for one in kept]
    if entry.deadline is None or times[-1] is None:
        return []
    extra = extensions.extension_of(course, entry, student, extensions.extensions(course))
    if isinstance(extra, str):
        return []
    due = extensions.until(extra, entry.deadline) if extra is not None else entry.deadline
    due += datetime.timedelta(minutes=course.late.grace_minutes)
    late = len(list(itertools.takewhile(lambda one: one is not None and one > due, reversed(times))))
    if late in (0, len(times)):
        return []
    given = f", given {late} times," if late > 1 else ""
    return [
        f"{student}: the {entry.name} that counts is late ({course.in_zone(times[-1])}), and an earlier one was in "
        f"time; `autograder remove {student} {entry.number} --latest --yes`{given} goes back to it"
    ]


def marked_late(course: Course, entry: NotebookEntry, student: str) -> str:
    """What a person has to decide if the platform marks the hand-in that counts late without saying when; else ""."""
    kept = kept_hand_ins(course, entry, student)
    alike = [one for one in kept if _digest_of(one) == _digest_of(kept[-1])]
    if not kept or "late" not in _marks(kept[-1]) or any(not _marks(one) for one in alike):
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


def _order(kept: Path) -> tuple[str, int]:
    """By what the latest of several kept hand-ins is found: when it came, then the platform's number of the file."""
    number = kept.stem.rsplit("-", 1)[-1]
    return kept.name[:16], int(number) if kept.stem.count("-") > 1 and number.isdecimal() else 0


def is_blank(kept: Path) -> bool:
    """Whether a kept hand-in has runs and no answer."""
    return BLANK.strip("-") in kept.stem.split("-")[2:]


def _rank(kept: Path) -> tuple[bool, tuple[str, int]]:
    """By what the hand-in that counts is found: one with answers goes before one without, then the latest."""
    return not is_blank(kept), _order(kept)


def _digest_of(kept: Path) -> str:
    """The digest of a kept hand-in, notebook and runs, from its name."""
    return kept.stem.split("-")[1] if "-" in kept.stem else kept.stem


def _when(kept: Path) -> datetime.datetime:
    """When a kept hand-in came, or was downloaded, from its name."""
    return datetime.datetime.strptime(kept.name[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.UTC)


def _marks(kept: Path) -> list[str]:
    """What the name of a kept hand-in says of a time that is no time: late, unknown. A number is that of the file."""
    return [one for one in kept.stem.split("-")[2:] if one in ("late", "unknown")]


def _handed_in_at(kept: Path) -> datetime.datetime | None:
    """When a kept hand-in was handed in, None if nobody says: a mark says that it is late, not since when."""
    return None if _marks(kept) else _when(kept)
