"""The grading run: hand-ins in, verdicts out, many at a time, one writer, resumed where it stopped."""

import ast
import datetime
import difflib
import errno
import hashlib
import hmac
import json
import logging
import os
import re
import sys
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cache, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import dask
import distributed
import nbformat
from filelock import FileLock, Timeout
from nbformat import NotebookNode
from tqdm import tqdm

from autograder import html_cleaning
from autograder.author import build
from autograder.course import ROOT, Course, CourseError, NotebookEntry, folder_of
from autograder.gradebook import course_tree, recording, roster
from autograder.grading import copied_runs, reach
from autograder.intake import restore
from autograder.intake.collect import unpack
from autograder.sandbox import preload
from autograder.sandbox.sandbox import SandboxError, require_sandboxes
from utils.experiment import NO_STANDING, Standing
from utils.verdict import Outcome, Verdict, legible

GRADED, UNGRADABLE = "graded", "ungradable"
MAX_REMARKS = 200  # of one record
IMPORT = re.compile(r"\s*(import|from) [\w.]+( import [\w, ]+)?( as \w+)?$")
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
MARKERS = ("check", "private", "results_check")  # the decorators that say which exercise a function is for
AHEAD, LEAST_AHEAD = 4, 64  # hand-ins that wait at the workers, for each of their threads and at least
STARTS = 3  # how often to try to start the workers
DASHBOARD = "127.0.0.1:8787"
DASK = {
    "distributed.worker.multiprocessing-method": "forkserver",
    "distributed.admin.low-level-log-length": 10,  # a log for dask's developers, of the last thousand hand-ins, whole
    "distributed.worker.profile.enabled": False,
}


class GradingStopped(CourseError):
    """A run that cannot go on; what it has recorded is safe, and the same command goes on from there."""


@dataclass
class Record:
    """All that is known of one graded hand-in; `.course/verdicts/STUDENT/NOTEBOOK.json` holds it."""

    student: str
    notebook: str
    status: str
    reason: str = ""
    score: float = 0.0
    points: float = 0.0
    exercises: list[dict[str, Any]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)  # for the instructor to look at; they cost nothing by themselves
    seconds: float = 0.0
    slowest_cell: list[Any] = field(default_factory=list)  # its id and seconds
    trusted: bool = False
    hand_in: str = ""  # sha256 of the file
    grader: str = ""  # sha256 of all that the verdict hangs on
    graded_at: str = ""
    late_seconds: float = 0.0  # after the deadline, extensions considered
    penalty: float = 0.0  # points that this costs of all marks, a person's included; not taken off `score`
    retry: bool = False  # the grader failed, not the hand-in: the next run tries again


@dataclass(frozen=True)
class Job:
    """One hand-in to be graded."""

    entry: NotebookEntry
    student: str
    digest: str  # what tells this hand-in from an earlier one
    release: NotebookNode
    graders: dict[str, str]  # by exercise, see `fingerprints`
    known: Record | None = None
    only: tuple[str, ...] = ()  # these exercises; (): all
    copied: Standing = NO_STANDING  # what all hand-ins together say of its runs
    unreadable: str = ""  # why there is nothing to grade, if the tree does not give it

    def state(self, trusted: bool = False) -> str:
        """Why it has to be graded; "" if its record is up to date."""
        if self.known is None:
            return "not graded yet"
        if self.known.retry:
            return f"to be tried again: {self.known.reason}"
        if self.known.hand_in != self.digest:
            return "handed in anew"
        if self.known.grader != whole(self.graders):
            return "a check, a limit or the notebook changed"
        return "" if self.known.trusted == trusted else "graded without a sandbox"


def verdict_path(course: Course, entry: NotebookEntry, student: str) -> Path:
    """Where the record of a hand-in lies."""
    return course.tree / "verdicts" / student / f"{entry.name}.json"


def hand_ins(course: Course, entry: NotebookEntry, students: list[str] | None = None) -> list[str]:
    """The students who handed in this notebook, in order."""
    found = sorted(path.parents[1].name for path in course.tree.glob(f"submitted/*/{entry.name}/{entry.name}.ipynb"))
    return [student for student in found if students is None or student in students]


def known_students(course: Course, entries: list[NotebookEntry], students: list[str] | None) -> None:
    """See that each of `students` handed in one of these notebooks.

    Raises:
        CourseError: somebody did not; the message names who did.
    """
    there = sorted({one for entry in entries for one in hand_ins(course, entry)})
    missing = [student for student in students or () if student not in there]
    if missing:
        like = difflib.get_close_matches(missing[0], there, 3, 0.5) or there[:5]
        did = f"did you mean {', '.join(like)}?" if like else "nobody did: `autograder collect SOURCE` takes hand-ins"
        raise CourseError(f"{missing[0]} handed in none of {', '.join(entry.name for entry in entries)}; {did}")


def fingerprints(course: Course, entry: NotebookEntry) -> dict[str, str]:
    """For each exercise a digest of all that its verdict hangs on besides the hand-in.

    That is its own checks, and what all exercises share: the rest of the check modules, all that they, the
    cells and the judge can reach (see `reach`), the release, the limits.
    """
    grading = course.grading.model_dump_json(exclude={"database"})
    common = hashlib.sha256(course.limits.model_dump_json().encode() + grading.encode())
    release = _release_text(course, entry)
    common.update(release.encode())
    modules = (ROOT / "utils" / "checks" / f"nb{entry.name}.py", folder_of(entry) / "private_checks.py")
    common.update(reach.digest(modules, _imports(release), ROOT))
    for path in reach.grader(ROOT):
        common.update(path.read_bytes())
    own: dict[str, str] = {}
    for path in modules:
        for exercise, code in _by_exercise(path.read_text()) if path.exists() else ():
            if exercise:
                own[exercise] = own.get(exercise, "") + code
            else:
                common.update(code.encode())
    shared = common.hexdigest()
    return {name: hashlib.sha256((shared + own.get(name, "")).encode()).hexdigest() for name in _numbers(course, entry)}


def whole(graders: dict[str, str]) -> str:
    """One digest for all exercises of a notebook."""
    return hashlib.sha256(json.dumps(graders, sort_keys=True).encode()).hexdigest()


def jobs(course: Course, entry: NotebookEntry, students: list[str] | None = None) -> list[Job]:
    """Every hand-in of a notebook, with what is known of it.

    Raises:
        CourseError: the course tree was not built.
    """
    release, graders = course_tree.release_notebook(course, entry), fingerprints(course, entry)
    copied, found = copied_runs.of(course, entry) if entry.has_experiments else {}, []
    for student in hand_ins(course, entry, students):
        whose, unreadable = copied.get(student, NO_STANDING), ""
        try:
            content = b"".join(handed_in(course, entry, student))
        except OSError as bad:
            unreadable = f"the course tree does not hold it as a file that can be read ({bad.strerror})"
            content = unreadable.encode()
        digest = hashlib.sha256(content + "".join(whose.against).encode()).hexdigest()
        known = load_record(course, entry, student)
        found.append(Job(entry, student, digest, release, graders, known, copied=whose, unreadable=unreadable))
    return found


def handed_in(course: Course, entry: NotebookEntry, student: str) -> tuple[bytes, bytes]:
    """A hand-in as the tree holds it: the notebook, and the runs that came with it, see `collect.pack`."""
    runs = course_tree.results_path(course, entry, student)
    notebook = course_tree.place(course, "submitted", entry, student)
    return notebook.read_bytes(), runs.read_bytes() if entry.has_experiments and runs.exists() else b""


def grade(
    course: Course,
    entries: list[NotebookEntry],
    students: list[str] | None = None,
    workers: int = 2,
    cluster: str | None = None,
    trusted: bool = False,
    again: bool = False,
    heard: Callable[[Record], None] = lambda record: None,
    gpus: tuple[str, ...] = (),
    dashboard: bool = False,
) -> list[Record]:
    """Grade what is handed in and not graded yet; the records of all selected hand-ins.

    A hand-in is graded anew when it or anything that its verdict hangs on has changed, or with
    `again`. An interrupted run loses what was being graded then, and nothing else. `heard` is told
    each record that is new, as soon as it is safe.

    Raises:
        SandboxError: sandboxes cannot be made here, and the submissions are not trusted.
        CourseError: the course tree was not built, or another run is at work in it.
        GradingStopped: the disk is full or the gradebook is gone.
    """
    if not trusted:
        require_sandboxes()
    with _told(course), _alone(course):
        course_tree.write_settings(course)  # of a tree that an older version built
        roster.load(course)  # what is wrong in them is told before anything runs
        roster.extensions(course)
        settled: list[Job] = []
        waiting: list[Job] = []
        for job in (job for entry in entries for job in jobs(course, entry, students)):
            (waiting if again or job.state(trusted) else settled).append(job)
            if job.known and job.known.flags != [*job.copied.flags]:  # another hand-in came, or a person decided
                job.known.flags = [*job.copied.flags]
                course_tree.write_json(verdict_path(course, job.entry, job.student), asdict(job.known))
        with recording.open_recorder(course) as recorder:
            lost = _restore(course, recorder, entries, settled)
            waiting += lost
            records = [job.known for job in settled if job.known and job not in lost]
            records += _run(course, recorder, entries, waiting, workers, cluster, trusted, heard, gpus, dashboard)
            for entry in entries:
                _settle_records(course, recorder, entry, records)
    return sorted(records, key=lambda one: (one.notebook, one.student))


def settle(course: Course, entries: list[NotebookEntry]) -> None:
    """Bring lateness and its penalties up to date, in gradebook and records: marks of a person, extensions, deadlines.

    Raises:
        CourseError: the roster or the list of extensions cannot be read.
        GradingStopped: the gradebook cannot be used.
    """
    with _told(course), recording.open_recorder(course) as recorder:
        for entry in entries:
            known = (load_record(course, entry, student) for student in hand_ins(course, entry))
            _settle_records(course, recorder, entry, [one for one in known if one is not None])


def _settle_records(course: Course, recorder: recording.Recorder, entry: NotebookEntry, records: list[Record]) -> None:
    settled = recorder.settle(entry)
    for one in records:
        late = settled.get(one.student)  # None: the gradebook was lost, and `grade` writes it again
        if late and one.notebook == entry.name and (one.late_seconds, one.penalty) != late and not one.retry:
            one.late_seconds, one.penalty = late
            course_tree.write_json(verdict_path(course, entry, one.student), asdict(one))


def regrade(
    course: Course,
    entries: list[NotebookEntry],
    exercises: Collection[str] = (),
    students: list[str] | None = None,
    workers: int = 2,
    cluster: str | None = None,
    trusted: bool = False,
    heard: Callable[[Record], None] = lambda record: None,
    gpus: tuple[str, ...] = (),
    dashboard: bool = False,
) -> list[tuple[Record, Record]]:
    """Judge some exercises again and keep the other verdicts; the records before and after.

    Without `exercises`, those whose checks changed since. Only hand-ins that are graded and answer
    one of them are run; the others are as they were. New hand-ins are left to `grade`.

    Raises: as `grade`; and CourseError if no selected notebook has one of `exercises`.
    """
    if not trusted:
        require_sandboxes()
    known = {number for entry in entries for number in _numbers(course, entry)}
    if not known.issuperset(exercises):
        missing = ", ".join(sorted({*exercises} - known))
        raise CourseError(f"there is no exercise {missing}; the notebooks have {', '.join(sorted(known))}")
    with _told(course), _alone(course):
        waiting = []
        for job in (job for entry in entries for job in jobs(course, entry, students)):
            before = job.known
            if before is None or before.status != GRADED or before.hand_in != job.digest or before.trusted != trusted:
                continue
            stale = [row for row in before.exercises if row.get("grader") != job.graders.get(row["exercise"])]
            rows = [row for row in before.exercises if row["exercise"] in exercises] if exercises else stale
            only = tuple(row["exercise"] for row in rows if row["outcome"] != Outcome.BLANK)
            if not only and rows:  # no answer, no other verdict
                _note(course, job, before, {row["exercise"] for row in rows})
            elif only and course_tree.place(course, "autograded", job.entry, job.student).exists():
                waiting.append(replace(job, only=only))
        with recording.open_recorder(course) as recorder:
            after = {
                (one.notebook, one.student): one
                for one in _run(course, recorder, entries, waiting, workers, cluster, trusted, heard, gpus, dashboard)
            }
    pairs = ((job.known, after[job.entry.name, job.student]) for job in waiting)
    return [(before, done) for before, done in pairs if before is not None]


def _note(course: Course, job: Job, known: Record, judged: Collection[str]) -> None:
    """Note which exercises' verdicts today's checks have reached, and write the record."""
    for row in known.exercises:
        if row["exercise"] in judged:
            row["grader"] = job.graders.get(row["exercise"], "")
    complete = known.status != GRADED or {row["exercise"]: row.get("grader") for row in known.exercises} == job.graders
    known.grader = whole(job.graders) if complete else ""  # else `grade` is to do the others
    course_tree.write_json(verdict_path(course, job.entry, job.student), asdict(known))


def _run(
    course: Course,
    recorder: recording.Recorder,
    entries: list[NotebookEntry],
    waiting: list[Job],
    workers: int,
    cluster: str | None,
    trusted: bool,
    heard: Callable[[Record], None],
    gpus: tuple[str, ...],
    dashboard: bool,
) -> list[Record]:
    """Spread the hand-ins over the workers, and keep each result as it comes."""
    if not waiting:
        return []
    records = []
    for job in [job for job in waiting if job.unreadable]:
        waiting.remove(job)
        failed = Record(job.student, job.entry.name, UNGRADABLE, job.unreadable)
        records.append(keep(course, recorder, job, failed, "", trusted))
        heard(records[-1])
    if not waiting:
        return records
    server = "" if cluster or trusted else preload.fork_server(course.running(entries).grading.preload).start()
    public = course.model_copy(update={"grading": course.grading.model_copy(update={"database": ""})})  # has a password
    needs = {"resources": {"GPU": 1}} if gpus else {}
    releases = {job.entry.name: build.write(job.release) for job in waiting}
    with _client(course, entries, min(workers, len(waiting)), cluster, gpus, dashboard) as client:

        def submit(job: Job) -> distributed.Future:
            text, results = handed_in(course, job.entry, job.student)
            what = (public, job.entry, job.student, text, releases[job.entry.name], trusted, server)
            partly: tuple[Any, ...] = ()
            if job.only:
                stored = course_tree.place(course, "autograded", job.entry, job.student).read_text()
                partly = (job.only, job.known, stored)
            more = {"gpus": gpus, "results": results, "copied": job.copied}
            more["drawn_for"] = key_of(course, job.entry, job.student, text)
            return client.submit(grade_one, *what, *partly, **more, retries=2, pure=False, **needs)

        bar = tqdm(_done(client, waiting, submit), total=len(waiting), unit="notebook", disable=None, file=sys.stderr)
        slowest = 0.0
        for job, future in bar:
            done, notebook = _result(future, job.entry, job.student)
            try:
                done = keep(course, recorder, job, done, notebook, trusted)
            except (OSError, *recording.DATABASE_ERRORS):
                raise
            except Exception as bug:
                done = keep(course, recorder, job, _failed(bug, job.entry, job.student), "", trusted)
            if done.status != GRADED:
                tqdm.write(f"{done.student} {done.notebook}: ungradable: {done.reason}", file=sys.stderr)
            if done.slowest_cell and done.slowest_cell[1] > slowest:
                cell, slowest = done.slowest_cell
                bar.set_postfix_str(f"slowest cell {slowest:.1f} s: {done.student} {done.notebook} {cell}")
            heard(done)
            records.append(done)
            future.release()
    return records


def key_of(course: Course, entry: NotebookEntry, student: str, text: bytes) -> bytes:
    """What the inputs of a hand-in's private checks are drawn from: its own bytes, and the course's secret.

    No two hand-ins are asked the same, so what one has learnt of the questions helps no other; the same one
    is asked the same again.
    """
    about = f"{entry.name}/{student}/{hashlib.sha256(text).hexdigest()}"
    return hmac.digest(course_tree.secret(course), about.encode(), "sha256")


def _done(
    client: distributed.Client, waiting: list[Job], submit: Callable[[Job], distributed.Future]
) -> Iterator[tuple[Job, distributed.Future]]:
    """Every job with its future, as it is done. Few are with the workers at a time: a class need not fit in memory."""
    left = iter(waiting)
    most = max(LEAST_AHEAD, AHEAD * sum(client.nthreads().values()))
    futures = {submit(job): job for job in islice(left, most)}
    coming = distributed.as_completed(futures)
    for future in coming:
        job = futures.pop(future)
        following = next(left, None)
        if following is not None:
            another = submit(following)
            futures[another] = following
            coming.add(another)
        yield job, future


def keep(
    course: Course, recorder: recording.Recorder, job: Job, done: Record, notebook: str, trusted: bool = False
) -> Record:
    """Put a result where it stays: gradebook, graded notebook, record. Killed anywhere, doing it again mends it."""
    entry, student = job.entry, job.student
    _plain(done)
    if done.retry and job.only:
        return done  # the verdicts that there are still hold
    same = job.known is not None and job.known.hand_in == job.digest
    done.hand_in, done.trusted, done.flags = job.digest, trusted, [*job.copied.flags]
    done.graded_at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    if done.status == GRADED:
        cells = {f"check_{number.replace('.', '_')}" for number in job.only} if job.only else None
        recorder.record(entry, student, notebook, not same, cells)
    elif not done.retry:
        recorder.refuse(entry, student, job.release, done.reason)
    if not done.retry:
        done.late_seconds, done.penalty = recorder.settle(entry, student).get(student, (0.0, 0.0))
    # Written last: it says that this hand-in is done, whatever happens next.
    blank = {row["exercise"] for row in done.exercises if row["outcome"] == Outcome.BLANK}
    _note(course, job, done, blank.union(job.only) if job.only else job.graders)
    return done


def _plain(done: Record) -> None:
    """Make a record's texts plain lines of bounded length, whoever's words they are: nothing else gets into one."""
    done.reason = html_cleaning.line(done.reason)
    remarks = [html_cleaning.line(remark) for remark in done.remarks]
    done.remarks = remarks[:MAX_REMARKS] + [f"and {len(remarks) - MAX_REMARKS} more"] * (len(remarks) > MAX_REMARKS)
    for row in done.exercises:
        row["message"], row["instructor_only"] = legible(row["message"]), legible(row.get("instructor_only", ""))


def grade_one(
    course: Course,
    entry: NotebookEntry,
    student: str,
    text: bytes,
    release: str,
    trusted: bool,
    server: str,
    only: tuple[str, ...] = (),
    known: Record | None = None,
    stored: str = "",
    gpus: tuple[str, ...] = (),
    results: bytes = b"",
    copied: Standing = NO_STANDING,
    drawn_for: bytes = b"",
) -> tuple[Record, str]:
    """Grade one hand-in, in a worker: its record, and the graded notebook as text ("" if ungradable).

    `text` is the file as handed in, `release` the released notebook; no file is read or written.
    With `only`, these exercises are judged and the rest is taken from the record `known` and the
    graded notebook `stored`. `results` are the runs that were handed in, `copied` says what else is
    known of them; what private checks ask follows from `drawn_for`. Of the devices `gpus` the kernels of this
    worker see one.
    """
    from autograder.grading.judge import judge, write_scoreboard  # imports torch, which the coordinator does not need

    _settle()
    _take_device(gpus)
    started = datetime.datetime.now()
    done = Record(student, entry.name, GRADED)
    try:
        released = _released(release)
        handed = restore.read(text, course.limits.notebook_mb, restore.illustrating(released))
        notebook, done.remarks = restore.restore(handed, released)
    except restore.Ungradable as why:
        done.status, done.reason = UNGRADABLE, str(why)
        return done, ""
    shown = set() if course.grading.pictures else restore.shown(notebook, released)
    judged = judge(course, entry, notebook, shown, trusted, server, only, unpack(results), copied, drawn_for)
    for verdict in judged.verdicts:
        done.exercises.append(
            {
                "exercise": verdict.exercise,
                "points": verdict.points,
                "score": verdict.score,
                "outcome": str(verdict.outcome),
                "message": verdict.sentence(),
                "seconds": judged.seconds[verdict.exercise],
                "instructor_only": judged.private.get(verdict.exercise, ""),
            }
        )
    done.remarks += judged.remarks
    dropped = html_cleaning.fit(notebook)
    if dropped:
        done.remarks.append(f"{dropped} outputs or ends of cells are left out of the page: they are too large to show")
    done.slowest_cell = [*judged.slowest]
    if only and known:
        new = {row["exercise"]: row for row in done.exercises}
        done.exercises = [new.get(row["exercise"], row) for row in known.exercises]
        done.remarks = [*dict.fromkeys([*known.remarks, *done.remarks])]
        done.slowest_cell = max(known.slowest_cell, done.slowest_cell, key=lambda cell: cell[1] if cell else 0)
        fresh = {cell.id: cell for cell in notebook.cells}
        notebook = nbformat.reads(stored, as_version=4)
        for number in only:
            name = f"check_{number.replace('.', '_')}"
            next(cell for cell in notebook.cells if cell.id == name).outputs = fresh[name].outputs
        rows = done.exercises
        write_scoreboard(notebook, [Verdict(row["exercise"], row["points"], Outcome(row["outcome"])) for row in rows])
    done.score = sum(row["score"] for row in done.exercises)
    done.points = sum(row["points"] for row in done.exercises)
    done.seconds = round((datetime.datetime.now() - started).total_seconds(), 2)
    return done, build.write(notebook)


def load_record(course: Course, entry: NotebookEntry, student: str) -> Record | None:
    """The record of a hand-in, or None if there is none that can be read."""
    path = verdict_path(course, entry, student)
    try:
        return Record(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _restore(
    course: Course, recorder: recording.Recorder, entries: list[NotebookEntry], settled: list[Job]
) -> list[Job]:
    """Put into the gradebook what the records say and it does not, as when it was lost or is another one.

    Answers with the hand-ins that must be graded anew because their graded notebook is missing, too.
    """
    lost = []
    for entry in entries:
        try:
            scores = recorder.scores(entry)
        except recording.MissingEntry:
            course_tree.enter(course, entry)
            scores = {}
        for job in settled:
            if job.entry != entry or job.known is None:
                continue
            rows = {f"check_{row['exercise'].replace('.', '_')}": row["score"] for row in job.known.exercises}
            has = {name: mark for name, mark in scores.get(job.student, {}).items() if name.startswith("check_")}
            if job.known.status != GRADED:
                if not has:
                    recorder.refuse(entry, job.student, job.release, job.known.reason)
            elif has != rows:
                graded = course_tree.place(course, "autograded", entry, job.student)
                text = graded.read_text() if graded.is_file() else ""
                if text and _scores(text) == rows:
                    recorder.record(entry, job.student, text, anew=False)
                else:
                    lost.append(job)
    return lost


def _scores(text: str) -> dict[str, float] | None:
    """The scores that a graded notebook holds, by cell; None if it is none."""
    found = {}
    try:
        for cell in nbformat.v4.reads(text).cells:
            if cell.id.startswith("check_") and cell.get("outputs"):
                found[cell.id] = float(cell.outputs[-1].data["text/plain"])
    except (ValueError, LookupError, AttributeError, TypeError):
        return None
    return found


def _result(future: distributed.Future, entry: NotebookEntry, student: str) -> tuple[Record, str]:
    """What the worker answered; a failure of the grader itself becomes a record as well."""
    try:
        return future.result()
    except Exception as bug:
        if isinstance(bug, OSError) and bug.errno in FULL:
            raise
        return _failed(bug, entry, student), ""


def _failed(bug: Exception, entry: NotebookEntry, student: str) -> Record:
    """The record of a hand-in that the grader failed on: once, unless the machine is to blame.

    What the exception says may be the hand-in's own words: it goes to the terminal and into no record.
    """
    frames = [frame for frame in traceback.extract_tb(bug.__traceback__) if frame.filename.startswith(str(ROOT))]
    where = f" in {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""
    tqdm.write(f"{student} {entry.name}: {type(bug).__name__}{where}: {html_cleaning.line(bug, 500)}", file=sys.stderr)
    again = isinstance(bug, (SandboxError, ConnectionError, TimeoutError))
    reason = f"the grader itself failed, please report it ({type(bug).__name__}{where})"
    if not again:
        reason += "; `autograder grade --again` tries once more"
    return Record(student, entry.name, UNGRADABLE, reason, retry=again)


@lru_cache(maxsize=16)
def _released(text: str) -> NotebookNode:
    """The released notebook, parsed once for all hand-ins of a worker; nobody changes it."""
    return nbformat.reads(text, as_version=4)


@cache
def _settle() -> None:
    """Once in each worker: what its hand-ins have in common."""
    import torch

    torch.set_num_threads(1)  # one core a judge: threads that wait for each other spin, and starve the kernels
    preload.settle()


def _take_device(gpus: tuple[str, ...]) -> None:
    """The device of this worker: by its name, so that a worker which is started anew gets the same."""
    name = distributed.get_worker().name if gpus else None
    if isinstance(name, int):  # ours; the workers of a cluster have the devices that they were started with
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus[name % len(gpus)]


def _numbers(course: Course, entry: NotebookEntry) -> list[str]:
    return list(course_tree.exercises(course, entry))


def _release_text(course: Course, entry: NotebookEntry) -> str:
    path = course_tree.place(course, "release", entry)
    return path.read_text() if path.exists() else build.write(course_tree.release_notebook(course, entry))


@lru_cache(maxsize=64)
def _imports(release: str) -> str:
    """The lines of a notebook's code that import something."""
    cells = (cell.source for cell in _released(release).cells if cell.cell_type == "code")
    return "\n".join(line.strip() for cell in cells for line in cell.splitlines() if IMPORT.match(line))


@lru_cache(maxsize=64)
def _by_exercise(text: str) -> list[tuple[str, str]]:
    """The statements of a check module, each with the exercise that it is for, "" if it is for all."""
    return [(_exercise(node), ast.unparse(node)) for node in ast.parse(text).body]


def _exercise(node: ast.stmt) -> str:
    """The exercise that a top-level function of a check module is for; "" if it is for all."""
    for decorator in getattr(node, "decorator_list", ()):
        match decorator:
            case ast.Call(func=ast.Name(id=marker), args=[ast.Constant(value=str(exercise)), *_]) if marker in MARKERS:
                return exercise
    return ""


@contextmanager
def _alone(course: Course) -> Iterator[None]:
    """One run at a time in a tree; what a killed one left half written is removed."""
    course.tree.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(course.tree / ".grading.lock", timeout=0):  # the system's: a killed run leaves it open
            for folder in ("verdicts", "autograded"):
                for partial in course.tree.glob(f"{folder}/**/.partial-*"):
                    partial.unlink()
            yield
    except Timeout:
        raise CourseError(f"another run is grading in {course.tree}: wait for it, or end it") from None


@contextmanager
def _told(course: Course) -> Iterator[None]:
    """Say in one line what stopped a run that lost its disk or its gradebook."""
    try:
        yield
    except OSError as bad:
        if bad.errno not in FULL:
            raise
        where = f" ({bad.filename})" if bad.filename else ""
        raise GradingStopped(f"grading stopped: {bad.strerror}{where}. {_safe('Make room')}") from bad
    except recording.DATABASE_ERRORS as bad:
        said = str(getattr(bad, "orig", None) or bad).strip().splitlines()[0]
        where = course_tree.shown_database(course)
        raise GradingStopped(
            f"grading stopped: the gradebook {where} cannot be used: {said}. {_safe('Mend it')}"
        ) from bad


def _safe(do: str) -> str:
    return f"What was recorded is safe. {do}, then give the same command again: it goes on from there."


def _local_cluster(**size: Any) -> distributed.LocalCluster:
    """A cluster on this machine. dask replaces a worker that dies later, but not one that dies as it starts."""
    for attempt in range(STARTS):
        try:
            return distributed.LocalCluster(**size)
        except RuntimeError as died:
            if attempt == STARTS - 1:
                raise GradingStopped(f"the workers cannot be started ({died}). {_safe('See what ends them')}") from died
    raise AssertionError("not reached")


@contextmanager
def _client(
    course: Course,
    entries: list[NotebookEntry],
    workers: int,
    address: str | None,
    gpus: tuple[str, ...] = (),
    dashboard: bool = False,
) -> Iterator[distributed.Client]:
    """dask's client: of a cluster that runs already, or of one on this machine for as long as we grade."""
    if address:
        with distributed.Client(address) as client:
            if dashboard:
                tqdm.write(f"dashboard: {client.dashboard_link}", file=sys.stderr)
            yield client
        return
    preload.begin(course, entries)
    size: dict[str, Any] = {"n_workers": workers, "threads_per_worker": 1}
    size["memory_limit"] = 0  # the sandboxes have limits of their own
    if gpus:
        size["resources"] = {"GPU": 1}
    shown = DASHBOARD if dashboard else "127.0.0.1:0"  # for us alone: None would be port 8787 for everybody
    with (
        dask.config.set(DASK),
        _local_cluster(dashboard_address=shown, silence_logs=logging.ERROR, **size) as local,
        distributed.Client(local) as client,
    ):
        preload.settle()
        if dashboard:
            tqdm.write(f"dashboard: {client.dashboard_link}", file=sys.stderr)
        try:
            yield client
        finally:
            preload.fork_server(course.running(entries).grading.preload).stop()
