"""The grading run: hand-ins in, verdicts out, many at a time, one writer, resumed where it stopped."""

import datetime
import sys
import traceback
from collections.abc import Callable, Collection
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import distributed
import nbformat
from tqdm import tqdm

from autograder import html_cleaning
from autograder.author import build
from autograder.course import ROOT, Course, CourseError, NotebookEntry, cell_id
from autograder.gradebook import course_tree, recording, roster
from autograder.grading.cluster import client, in_turn
from autograder.grading.guard import FULL, exclusive_run, explain_failures
from autograder.grading.records import (
    GRADED,
    UNGRADABLE,
    Job,
    Record,
    combined_digest,
    handed_in,
    jobs,
    key_of,
    load_record,
    make_plain,
    students_of,
    verdict_path,
)
from autograder.grading.worker import grade_one
from autograder.sandbox import preload
from autograder.sandbox.sandbox import SandboxError, require_sandboxes
from utils.grading.verdict import Outcome


def grade(
    course: Course,
    entries: list[NotebookEntry],
    students: list[str] | None = None,
    workers: int = 2,
    cluster: str | None = None,
    trusted: bool = False,
    again: bool = False,
    on_record: Callable[[Record], None] = lambda record: None,
    gpus: tuple[str, ...] = (),
    dashboard: bool = False,
) -> list[Record]:
    """Grade what is handed in and not graded yet; the records of all selected hand-ins.

    A hand-in is graded anew when it or anything that its verdict depends on has changed, or with
    `again`. An interrupted run loses what was being graded then, and nothing else. `on_record` is told
    each record that is new, as soon as it is safe.

    Raises:
        SandboxError: sandboxes cannot be made here, and the submissions are not trusted.
        CourseError: the course tree was not built, or another run is at work in it.
        GradingStopped: the disk is full or the gradebook is gone.
    """
    if not trusted:
        require_sandboxes()
    with explain_failures(course), exclusive_run(course):
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
            records += _run(course, recorder, entries, waiting, workers, cluster, trusted, on_record, gpus, dashboard)
            for entry in entries:
                _settle_records(course, recorder, entry, records)
    return sorted(records, key=lambda one: (one.notebook, one.student))


def settle(course: Course, entries: list[NotebookEntry]) -> None:
    """Bring lateness and its penalties up to date, in gradebook and records: marks of a person, extensions, deadlines.

    Raises:
        CourseError: the roster or the list of extensions cannot be read.
        GradingStopped: the gradebook cannot be used.
    """
    with explain_failures(course), recording.open_recorder(course) as recorder:
        for entry in entries:
            known = (load_record(course, entry, student) for student in students_of(course, entry))
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
    on_record: Callable[[Record], None] = lambda record: None,
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
    known = {number for entry in entries for number in course_tree.exercises(course, entry)}
    if not known.issuperset(exercises):
        missing = ", ".join(sorted({*exercises} - known))
        raise CourseError(f"there is no exercise {missing}; the notebooks have {', '.join(sorted(known))}")
    with explain_failures(course), exclusive_run(course):
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
                for one in _run(
                    course, recorder, entries, waiting, workers, cluster, trusted, on_record, gpus, dashboard
                )
            }
    pairs = ((job.known, after[job.entry.name, job.student]) for job in waiting)
    return [(before, done) for before, done in pairs if before is not None]


def _note(course: Course, job: Job, known: Record, judged: Collection[str]) -> None:
    """Note which exercises' verdicts today's checks have reached, and write the record."""
    for row in known.exercises:
        if row["exercise"] in judged:
            row["grader"] = job.graders.get(row["exercise"], "")
    complete = known.status != GRADED or {row["exercise"]: row.get("grader") for row in known.exercises} == job.graders
    known.grader = combined_digest(job.graders) if complete else ""  # else `grade` is to do the others
    course_tree.write_json(verdict_path(course, job.entry, job.student), asdict(known))


def _run(
    course: Course,
    recorder: recording.Recorder,
    entries: list[NotebookEntry],
    waiting: list[Job],
    workers: int,
    cluster: str | None,
    trusted: bool,
    on_record: Callable[[Record], None],
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
        on_record(records[-1])
    if not waiting:
        return records
    server = "" if cluster or trusted else preload.fork_server(course.running(entries).grading.preload).start()
    public = course.model_copy(update={"grading": course.grading.model_copy(update={"database": ""})})  # has a password
    needs = {"resources": {"GPU": 1}} if gpus else {}
    releases = {job.entry.name: build.write(job.release) for job in waiting}
    with client(course, entries, min(workers, len(waiting)), cluster, gpus, dashboard) as dask_client:

        def submit(job: Job) -> distributed.Future:
            text, results = handed_in(course, job.entry, job.student)
            what = (public, job.entry, job.student, text, releases[job.entry.name], trusted, server)
            partly: tuple[Any, ...] = ()
            if job.only:
                stored = course_tree.place(course, "autograded", job.entry, job.student).read_text()
                partly = (job.only, job.known, stored)
            more = {"gpus": gpus, "results": results, "copied": job.copied}
            more["drawn_for"] = key_of(course, job.entry, job.student, text)
            return dask_client.submit(grade_one, *what, *partly, **more, retries=2, pure=False, **needs)

        bar = tqdm(
            in_turn(dask_client, waiting, submit), total=len(waiting), unit="notebook", disable=None, file=sys.stderr
        )
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
            on_record(done)
            records.append(done)
            future.release()
    return records


def keep(
    course: Course, recorder: recording.Recorder, job: Job, done: Record, notebook: str, trusted: bool = False
) -> Record:
    """Put a result where it stays: gradebook, graded notebook, record. Killed anywhere, doing it again mends it."""
    entry, student = job.entry, job.student
    make_plain(done)
    if done.retry and job.only:
        return done  # the verdicts that there are still hold
    same = job.known is not None and job.known.hand_in == job.digest
    done.hand_in, done.trusted, done.flags = job.digest, trusted, [*job.copied.flags]
    done.graded_at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    if done.status == GRADED:
        cells = {cell_id("check", number) for number in job.only} if job.only else None
        recorder.record(entry, student, notebook, not same, cells)
    elif not done.retry:
        recorder.refuse(entry, student, job.release, done.reason)
    if not done.retry:
        done.late_seconds, done.penalty = recorder.settle(entry, student).get(student, (0.0, 0.0))
    # Written last: it says that this hand-in is done, whatever happens next.
    blank = {row["exercise"] for row in done.exercises if row["outcome"] == Outcome.BLANK}
    _note(course, job, done, blank.union(job.only) if job.only else job.graders)
    return done


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
            rows = {cell_id("check", row["exercise"]): row["score"] for row in job.known.exercises}
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
