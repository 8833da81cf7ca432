"""What is known of each submission: its record, and whether it has to be graded."""

import difflib
import hashlib
import hmac
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter

from autograder import html_cleaning
from autograder.course import Course, CourseError, NotebookEntry
from autograder.gradebook import course_tree, roster, teams
from autograder.grading.dependencies import Dependencies
from autograder.grading.fingerprints import combined_digest, fingerprints, with_names
from autograder.intake.kept_submissions import marked_late
from autograder.intake.origins import names_of, shown_names, unproven_names
from autograder.intake.reading import LOOK
from utils import variants
from utils.grading.standing import NO_STANDING, Standing
from utils.grading.verdict import Verdict, legible

GRADED, UNGRADABLE = "graded", "ungradable"
MAX_REMARKS = 200  # of one record
ANOTHERS = "numbers of another id: "  # how the flag of an answer begins that is right for them
EQUAL = "numbers of two students: "  # how the flag of a right answer begins whose numbers another student has too
NUMBERS = (ANOTHERS, EQUAL)


@dataclass(frozen=True)
class GradedVerdict(Verdict):
    """The verdict on one exercise of a submission, and what is kept with it."""

    seconds: float = 0.0  # that its check took
    instructor_only: str = ""  # what a private check found
    grader: str = ""  # the fingerprint of what reached it

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "instructor_only", legible(self.instructor_only))


@dataclass
class Record:
    """All that is known of one graded submission; `.course/verdicts/STUDENT/NOTEBOOK.json` holds it."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    student: str
    notebook: str
    status: str
    reason: str = ""
    verdicts: list[GradedVerdict] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)  # for the instructor to look at; they cost nothing by themselves
    seconds: float = 0.0
    slowest_cell: list[Any] = field(default_factory=list)  # its id and seconds
    trusted: bool = False
    hand_in: str = ""  # sha256 of the file
    grader: str = ""  # sha256 of all that the verdict depends on
    graded_at: str = ""
    late_seconds: float = 0.0  # after the deadline, extensions considered
    penalty: float = 0.0  # points that this costs of all marks, a person's included; not taken off `score`
    retry: bool = False  # the grader failed, not the submission: the next run tries again
    named: str = ""  # a digest of what the student may be called, where the notebook has numbers of the student's own

    @property
    def score(self) -> float:
        """The points that were won."""
        return sum(verdict.score for verdict in self.verdicts)

    @property
    def points(self) -> float:
        """The points that there were."""
        return sum(verdict.points for verdict in self.verdicts)

    @property
    def other_remarks(self) -> list[str]:
        """The remarks that are not among `flags` too."""
        return [remark for remark in self.remarks if not remark.startswith(LOOK)]

    def stated(self) -> dict[str, Any]:
        """For other programs: all of it, with the scores, which follow from the verdicts."""
        verdicts = [asdict(verdict) | {"score": verdict.score} for verdict in self.verdicts]
        return asdict(self) | {"score": self.score, "points": self.points, "verdicts": verdicts}


@dataclass(frozen=True)
class Options:
    """How a run grades."""

    workers: int = 2  # submissions at a time on this machine
    cluster: str = ""  # the address of a dask scheduler whose workers grade instead
    trusted: bool = False  # submissions run without a sandbox
    gpus: tuple[str, ...] = ()  # devices that the workers take in turn
    dashboard: bool = False  # serve dask's
    again: bool = False  # grade also what is up to date
    update: bool = False  # change published verdicts too
    reason: str = ""  # why, for the log


@dataclass(frozen=True)
class HandIn:
    """All that a worker is told of one submission; it reads no file of the tree."""

    entry: NotebookEntry
    student: str = ""
    text: bytes = b""  # the notebook as it was handed in
    results: bytes = b""  # the runs that came with it
    release: str = ""  # the released notebook
    copied: Standing = NO_STANDING  # what all submissions together say of its runs
    names: tuple[str, ...] = ()  # what the student may be called, for numbers of the student's own; (): by `student`
    drawn_for: bytes = b""  # what the questions of private checks follow from
    only: tuple[str, ...] = ()  # these exercises are judged, the rest is taken from `known` and `stored`; (): all are
    known: Record | None = None
    stored: str = ""  # the graded notebook as it is


ANEW = "handed in again"
STALE = "a check, a limit or the notebook changed"


@dataclass(frozen=True)
class Job:
    """One submission to be graded."""

    entry: NotebookEntry
    student: str
    digest: str  # what tells this submission from an earlier one
    release: str  # the released notebook's text
    graders: dict[str, str]  # by exercise, see `fingerprints`
    known: Record | None = None
    only: tuple[str, ...] = ()  # these exercises; (): all
    copied: Standing = NO_STANDING  # what all submissions together say of its runs
    names: tuple[str, ...] = ()  # what the student may be called, where a notebook has numbers of the student's own
    own: tuple[str, ...] = ()  # the exercises that have them
    class_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)  # `names` of everybody
    unreadable: str = ""  # why there is nothing to grade, if the tree does not give it
    marked_late: str = ""  # what a person has to decide, where the platform says that it is late and not when

    def state(self, trusted: bool = False) -> str:
        """Why it has to be graded; "" if its record is up to date."""
        if self.known is None:
            return "not graded yet"
        if self.known.retry:
            return f"to be tried again: {self.known.reason}"
        if self.known.hand_in != self.digest:
            return ANEW
        if self.known.grader != combined_digest(self.graders):
            return STALE
        return "" if self.known.trusted == trusted else "graded without a sandbox"


RECORD = TypeAdapter(Record)


def names_digest(names: Collection[str]) -> str:
    """What tells apart what a student may be called; "" where numbers of the student's own play no part."""
    return (
        hashlib.sha256(repr(sorted({variants.canonical(name) for name in names})).encode()).hexdigest() if names else ""
    )


def verdict_path(course: Course, entry: NotebookEntry, student: str) -> Path:
    """Where the record of a submission lies."""
    return course.tree / "verdicts" / student / f"{entry.name}.json"


def load_record(course: Course, entry: NotebookEntry, student: str) -> Record | None:
    """The record of a submission, or None if there is none that can be read."""
    path = verdict_path(course, entry, student)
    try:
        return RECORD.validate_json(path.read_bytes())
    except (OSError, ValueError):
        return None


def students_of(course: Course, entry: NotebookEntry, students: Collection[str] | None = None) -> list[str]:
    """The students and teams whose submissions of this notebook count for somebody, in order.

    With `students` only their submissions and those of their teams.
    """
    there = sorted(path.parents[1].name for path in course.tree.glob(f"submitted/*/{entry.name}/{entry.name}.ipynb"))
    of = {submitter: teams.recipients(course, entry, submitter) for submitter in there}
    return [
        submitter
        for submitter in there
        if of[submitter] and (students is None or {submitter, *of[submitter]} & {*students})
    ]


def known_students(course: Course, entries: list[NotebookEntry], students: list[str] | None) -> None:
    """See that each of `students` handed in one of these notebooks.

    Raises:
        CourseError: somebody did not; the message names who did.
    """
    known = {submitter for entry in entries for submitter in students_of(course, entry)}
    known |= {
        student
        for entry in entries
        for submitter in known.copy()
        for student in teams.recipients(course, entry, submitter)
    }
    there = sorted(known)
    missing = [student for student in students or () if student not in there]
    if missing:
        listed = roster.load(course)
        is_listed = listed is not None and missing[0] in listed.students  # and is meant, even if others have this name
        like = [] if is_listed else difflib.get_close_matches(missing[0], there, 3, 0.5)
        shown = ", ".join(there[:5]) + ", ..." * (len(there) > 5)
        did = f"{shown} did" if there else "nobody did: `autograder collect SOURCE` takes submissions"
        did = f"did you mean {', '.join(like)}?" if like else did
        raise CourseError(f"{missing[0]} handed in none of {', '.join(entry.name for entry in entries)}; {did}")


def jobs(
    course: Course, entry: NotebookEntry, students: Collection[str] | None = None, around: Dependencies | None = None
) -> list[Job]:
    """Every submission of a notebook, with what is known of it; `around` is shared by who asks for several notebooks.

    Raises:
        CourseError: the course tree was not built.
    """
    release, there = course_tree.release_text(course, entry), students_of(course, entry, students)
    around = around or Dependencies(course)
    graders = fingerprints(course, entry, around.files) if there else {}
    copied = around.standings.get(entry.name, {}) if there and entry.has_experiments else {}
    planned = []
    own = around.variants.get(entry.name, ()) if there else ()
    known_students = roster.load(course) if own else None
    everybody = students_of(course, entry) if own else []
    class_names = {student: names_of(course, entry, student, known_students) for student in everybody}
    for student in there:
        whose, unreadable = copied.get(student, NO_STANDING), ""
        names = class_names.get(student, ())
        try:
            content = b"".join(handed_in(course, entry, student))
        except OSError as bad:
            unreadable = f"the course tree does not hold it as a file that can be read ({bad.strerror})"
            content = unreadable.encode()
        digest = hashlib.sha256(content + "".join(whose.against).encode()).hexdigest()
        known = load_record(course, entry, student)
        mine = with_names(graders, own, names) if own else graders
        planned.append(
            Job(
                *(entry, student, digest, release, mine, known),
                copied=whose,
                names=names,
                own=tuple(own),
                class_names=class_names,
                unreadable=unreadable,
                marked_late=marked_late(course, entry, student),
            )
        )
    return planned


def flags(course: Course, job: Job, done: Record) -> list[str]:
    """What the instructor should look at: runs that are also another's, cells that only a person can place, and answers
    to another id's numbers.

    The last imports the checks, and torch with them, where there is such an answer; `noted_flags` never does.
    """
    sentences = [*_of_all(job), *_to_look_at(done)]
    for verdict in done.verdicts:
        if verdict.another:
            shown = _shown_with_numbers(course, job, verdict)
            if shown:
                sentences.append(
                    f"{ANOTHERS}exercise {verdict.exercise} is right for those of `{shown}`, which only the platform "
                    "calls this student, who may have chosen it: if it is the student's name, write it without spaces "
                    "into the platform_ids"
                )
                continue
            sentences.append(
                f"{ANOTHERS}exercise {verdict.exercise} is right for those of {_with_numbers(course, job, verdict)}, "
                "not for its own: the name in STUDENT was another one, or the answer is"
            )
        elif verdict.exercise in job.own and verdict.score:
            equal = _with_equal_numbers(course, job, verdict.exercise)
            if equal:
                sentences.append(
                    f"{EQUAL}exercise {verdict.exercise} asks {' and '.join(equal)} for the same ones: by chance, or "
                    "one of them chose a name that has the numbers of the other"
                )
    return sentences


def _variant(job: Job, exercise: str) -> variants.Variant | None:
    """The variant of an exercise. Those of `utils.variants` are found without the checks, which import torch."""
    for value in vars(variants).values():
        if isinstance(value, variants.Variant) and value.exercise == exercise:
            return value
    from autograder.author.checks import public_checks

    return public_checks(job.entry)[exercise].variant


def _with_equal_numbers(course: Course, job: Job, exercise: str) -> list[str]:
    """The other students who have the same numbers, where one of the two may have chosen the name."""
    variant, known = _variant(job, exercise), roster.load(course)
    if variant is None:
        return []

    def drawn(names: Iterable[str]) -> set[Any]:
        return {variant.of(name) for name in names}

    people = teams.load(course).people
    own, unproven = drawn(job.names), drawn(unproven_names(course, job.entry, job.student, known, job.names))
    return [
        student
        for student, names in job.class_names.items()
        if not people(student) & people(job.student)
        and (drawn(names) & unproven or drawn(unproven_names(course, job.entry, student, known, names)) & own)
    ]


def _shown_with_numbers(course: Course, job: Job, verdict: Verdict) -> str:
    """The name that the platform shows for the student, and for nobody else, if the answer is right for it; else ""."""
    variant, known = _variant(job, verdict.exercise), roster.load(course)
    for name in shown_names(course, job.entry, job.student):
        if variant and variants.stated(variant.of(name)) == verdict.another:
            members = teams.load(course).members(job.entry, job.student) or (job.student,)
            return "" if known and all(known.is_another(name, member) for member in members) else legible(name)
    return ""


def noted_flags(job: Job) -> list[str]:
    """The same as far as it is known without the checks: what was found when the submission was graded last."""
    if job.known is None:
        return _of_all(job)
    noted = [flag for flag in job.known.flags if flag.startswith(NUMBERS)]
    return [*_of_all(job), *_to_look_at(job.known), *noted]


def _of_all(job: Job) -> list[str]:
    """What is known without grading: runs that are also another's, a late mark without a time."""
    return [*job.copied.flags, *([job.marked_late] if job.marked_late else [])]


def _to_look_at(done: Record) -> list[str]:
    return [remark.removeprefix(LOOK) for remark in done.remarks if remark.startswith(LOOK)]


def _with_numbers(course: Course, job: Job, verdict: Verdict) -> str:
    """The other students of the class who have the numbers for which an answer is right."""
    variant, known = _variant(job, verdict.exercise), roster.load(course)
    members = teams.load(course).members(job.entry, job.student)
    everybody = {path.name for folder in ("handins", "submitted") for path in course.tree.glob(f"{folder}/*")}
    numbers_of = [
        student
        for student in sorted({*everybody, *(known.students if known else ())} - {job.student, *members})
        if variant
        and any(
            variants.stated(variant.of(name)) == verdict.another for name in names_of(course, job.entry, student, known)
        )
    ]
    return " and ".join(numbers_of) or "an id that nobody in the class has"


def hand_in(course: Course, job: Job) -> HandIn:
    """What a worker is told of a submission."""
    text, results = handed_in(course, job.entry, job.student)
    stored = course_tree.place(course, "autograded", job.entry, job.student).read_text() if job.only else ""
    known, drawn_for = job.known if job.only else None, key_of(course, job.entry, job.student, text)
    return HandIn(
        entry=job.entry,
        student=job.student,
        text=text,
        results=results,
        release=job.release,
        copied=job.copied,
        names=job.names,
        drawn_for=drawn_for,
        only=job.only,
        known=known,
        stored=stored,
    )


def handed_in(course: Course, entry: NotebookEntry, student: str) -> tuple[bytes, bytes]:
    """A submission as the tree holds it: the notebook, and the runs that came with it, see `run_files.pack`."""
    runs = course_tree.results_path(course, entry, student)
    notebook = course_tree.place(course, "submitted", entry, student)
    return notebook.read_bytes(), runs.read_bytes() if runs.exists() and entry.has_experiments else b""


def key_of(course: Course, entry: NotebookEntry, student: str, text: bytes) -> bytes:
    """What the inputs of a submission's private checks are drawn from: its own bytes, and the course's secret.

    No two submissions are asked the same, so what one has learnt of the questions helps no other; the same one
    is asked the same again.
    """
    about = f"{entry.name}/{student}/{hashlib.sha256(text).hexdigest()}"
    return hmac.digest(course_tree.secret(course), about.encode(), "sha256")


def make_plain(done: Record) -> None:
    """Make a record's reason and remarks plain lines of bounded length, as the texts of verdicts are from the start."""
    done.reason = html_cleaning.line(done.reason)
    remarks = [html_cleaning.line(remark) for remark in done.remarks]
    done.remarks = remarks[:MAX_REMARKS] + [f"and {len(remarks) - MAX_REMARKS} more"] * (len(remarks) > MAX_REMARKS)
