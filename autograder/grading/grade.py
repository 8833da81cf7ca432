"""The grading run: submissions in, verdicts out, many at a time, one writer, resumed where it stopped."""

import datetime
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import nbformat
from tqdm import tqdm

from autograder import html_cleaning
from autograder.cells import CellRole, cell_id, role_of
from autograder.course import Course, CourseError, NotebookEntry
from autograder.gradebook import course_tree, extensions, journal, roster
from autograder.grading import frozen, history, worker
from autograder.grading.dependencies import Dependencies
from autograder.grading.errors import FULL, explain_failures, where
from autograder.grading.fingerprints import released
from autograder.grading.grading_record import (
    GRADED,
    UNGRADABLE,
    HandIn,
    Job,
    Options,
    Record,
    combined_digest,
    flags,
    hand_in,
    jobs,
    make_plain,
    names_digest,
    verdict_path,
)
from autograder.grading.lateness import settle_records
from autograder.grading.local import TookTooLong, Workers
from autograder.grading.run_lock import exclusive_run
from autograder.grading.worker import grade_one
from autograder.sandbox import preload
from autograder.sandbox.sandbox import SandboxError, require_sandboxes
from utils.grading.verdict import Outcome

if TYPE_CHECKING:
    from autograder.gradebook.gradebook_writer import Recorder

DEFAULT = Options()


def grade(
    course: Course,
    entries: list[NotebookEntry],
    students: list[str] | None = None,
    options: Options = DEFAULT,
    on_record: Callable[[Record], None] = lambda record: None,
    meanwhile: Callable[[], None] = lambda: None,
    on_preview: Callable[[list[tuple[Record, Record]]], None] | None = None,
) -> list[Record]:
    """Grade what is handed in and not graded yet; the records of all selected submissions.

    A submission is graded again when it or anything that its verdict depends on has changed, or with
    `options.again`. An interrupted run loses what was being graded then, and nothing else. `on_record` is told
    each record that is new, as soon as it is safe. `meanwhile` is called once the first submissions are being graded:
    the time to import what is needed afterwards.

    Verdicts that were published stay when only the course has changed, unless `options.update` or `options.again` asks
    for the new ones; the log then gets what changed, and the reason. With `on_preview` they are judged all the same,
    without recording it, and it is told the records that would differ: as they are, and as they would be.

    Raises:
        SandboxError: sandboxes cannot be made here, and the submissions are not trusted.
        CourseError: the course tree was not built, or another run is at work in it.
        GradingStopped: the disk is full or the gradebook is gone.
    """
    if not options.trusted:
        require_sandboxes()
    with explain_failures(course), exclusive_run(course):
        course_tree.write_settings(course)  # of a tree that an older version built
        roster.load(course)  # what is wrong in them is told before anything runs
        extensions.extensions(course)
        plan = _Plan(course, options)
        for job in (job for entry in entries for job in jobs(course, entry, students, plan.dependencies)):
            plan.add(job)
        with GradingRun(course, entries, options, on_record) as run:
            run.begin(plan.waiting)
            with _recorder(course) as recorder:
                lost = _restore(course, recorder, entries, plan.settled)
                run.begin(lost)
                _place_receipts(course, plan.settled)
                meanwhile()
                records = [job.known for job in plan.settled if job.known and job not in lost]
                records += run.keep_all(recorder)
                for entry in entries:
                    settle_records(course, recorder, entry, records)
        changed = [(plan.asked[key], record) for record in records if (key := _of(record)) in plan.asked]
        _note_changes(course, "grade --update", options.reason, changed)
        if on_preview and (held := [job for job in plan.held if job not in lost]):
            on_preview(_previews(course, entries, held, options))
    return sorted(records, key=lambda record: (record.notebook, record.student))


class _Plan:
    """What a run does with each submission."""

    def __init__(self, course: Course, options: Options):
        self.course, self.options, self.dependencies = course, options, Dependencies(course)
        self.settled: list[Job] = []  # as they are
        self.waiting: list[Job] = []  # to be graded
        self.held: list[Job] = []  # published: the settled ones whose course has changed
        self.asked: dict[tuple[str, str], Record] = {}  # published verdicts that somebody asked to change

    def add(self, job: Job) -> None:
        """Decide what to do with a submission."""
        anew = self.options.again or self.options.update
        if not (frozen.is_frozen(self.course, job, self.options.trusted) and job.known):
            (self.waiting if self.options.again or job.state(self.options.trusted) else self.settled).append(job)
        elif anew:
            self.waiting.append(job)
            self.asked[job.entry.name, job.student] = job.known
        elif part := frozen.renamed(self.course, job, self.dependencies.variants.get(job.entry.name, ())):
            self.waiting.append(part)
        else:
            self.settled.append(job)
            self.held.append(job)
        if job.known and job.known.flags != (now := flags(self.course, job, job.known)):
            job.known.flags = now  # another submission came, or a person decided
            course_tree.write_json(verdict_path(self.course, job.entry, job.student), asdict(job.known))


def _place_receipts(course: Course, settled: list[Job]) -> None:
    """Place receipts of what may have been submitted again, after another one: the feedback is for that."""
    for job in settled:
        same = job.known is not None and job.known.hand_in == job.digest
        if same and course_tree.place(course, "autograded", job.entry, job.student).is_file():
            course_tree.place_receipt(course, job.entry, job.student)


def regrade(
    course: Course,
    entries: list[NotebookEntry],
    exercises: Collection[str] = (),
    students: list[str] | None = None,
    options: Options = DEFAULT,
    on_record: Callable[[Record], None] = lambda record: None,
) -> list[tuple[Record, Record]]:
    """Judge some exercises again and keep the other verdicts; the records before and after.

    The log gets what changed, and the reason of the `options`.

    Without `exercises`, those whose checks changed since. Only submissions that are graded and answer
    one of them are run; the others are as they were. New submissions are left to `grade`.

    Raises: as `grade`; and CourseError if no selected notebook has one of `exercises`.
    """
    if not options.trusted:
        require_sandboxes()
    known = {number for entry in entries for number in course_tree.exercises(course, entry)}
    if not known.issuperset(exercises):
        missing = sorted({*exercises} - known)
        which = ", ".join(entry.name for entry in entries)
        by_hand = "; written answers are marked by a person" if any(".W" in number for number in missing) else ""
        raise CourseError(f"{which} has no exercise {', '.join(missing)} that a check judges{by_hand}")
    with explain_failures(course), exclusive_run(course):
        waiting, around = [], Dependencies(course)
        for job in (job for entry in entries for job in jobs(course, entry, students, around)):
            before = job.known
            if before is None or before.status != GRADED or before.hand_in != job.digest:
                continue
            if before.trusted != options.trusted:
                continue
            stale = [
                verdict.exercise for verdict in before.verdicts if verdict.grader != job.graders.get(verdict.exercise)
            ]
            wanted = [verdict for verdict in before.verdicts if verdict.exercise in (exercises or stale)]
            only = tuple(verdict.exercise for verdict in wanted if verdict.outcome is not Outcome.BLANK)
            if not only and wanted:  # no answer, no other verdict
                _note(course, job, before, {verdict.exercise for verdict in wanted})
            elif only and course_tree.place(course, "autograded", job.entry, job.student).exists():
                waiting.append(replace(job, only=only))
        with GradingRun(course, entries, options, on_record) as run:
            run.begin(waiting)
            with _recorder(course) as recorder:
                after = {_of(record): record for record in run.keep_all(recorder)}
        both = ((job.known, after[job.entry.name, job.student]) for job in waiting)
        pairs = [(before, done) for before, done in both if before is not None]
        _note_changes(course, "regrade", options.reason, [pair for pair in pairs if pair[1].status == GRADED])
    return pairs


def _of(record: Record) -> tuple[str, str]:
    """Whose record it is, and of which notebook."""
    return record.notebook, record.student


def changed_verdicts(before: Record, after: Record) -> list[tuple[str, float, float, str]]:
    """The exercises whose verdict is another one, with the scores before and after and the new sentence."""
    old = {verdict.exercise: verdict for verdict in before.verdicts}
    return [
        (now.exercise, old[now.exercise].score if now.exercise in old else 0.0, now.score, now.sentence())
        for now in after.verdicts
        if now.exercise not in old
        or (old[now.exercise].score, old[now.exercise].sentence()) != (now.score, now.sentence())
    ]


def _note_changes(course: Course, what: str, reason: str, pairs: list[tuple[Record, Record]]) -> None:
    """Put the table of a change of verdicts into the log: whose, which exercise, before and after."""
    table = [
        {"student": after.student, "notebook": after.notebook, "exercise": number, "before": old, "after": new}
        for before, after in pairs
        for number, old, new, _ in changed_verdicts(before, after)
    ]
    if pairs:
        journal.note(course, what, reason, judged=len(pairs), changes=table)


def _previews(
    course: Course, entries: list[NotebookEntry], held: list[Job], options: Options
) -> list[tuple[Record, Record]]:
    """What today's checks would change in published verdicts; nothing of it is recorded.

    Where they would change nothing, that is noted, so that it is not asked again.
    """
    unknown = [job for job in held if frozen.preview(course, job) is None and not job.unreadable]
    with GradingRun(course, entries, options, lambda record: None) as run:
        run.begin(unknown)
        for job, done in run.look():
            if not done.retry:
                frozen.keep_preview(course, job, done)
    previews = []
    for job in held:
        seen = frozen.preview(course, job)
        if seen is None or job.known is None:
            continue
        if frozen.same(job.known, seen):
            _note(course, job, job.known, job.graders)
        else:
            previews.append((job.known, seen))
    return previews


def _note(course: Course, job: Job, known: Record, judged: Collection[str]) -> None:
    """Note which exercises' verdicts today's checks have reached, and write the record."""
    known.verdicts = [
        replace(verdict, grader=job.graders.get(verdict.exercise, "")) if verdict.exercise in judged else verdict
        for verdict in known.verdicts
    ]
    complete = known.status != GRADED or {verdict.exercise: verdict.grader for verdict in known.verdicts} == job.graders
    known.grader = combined_digest(job.graders) if complete else ""  # else `grade` is to do the others
    course_tree.write_json(verdict_path(course, job.entry, job.student), asdict(known))


class GradingRun:
    """The submissions of a run at their workers, which end with it, and what is kept of them."""

    def __init__(
        self,
        course: Course,
        entries: list[NotebookEntry],
        options: Options,
        on_record: Callable[[Record], None],
    ):
        self.course, self.entries, self.options, self._on_record = course, entries, options, on_record
        self._jobs: list[Job] = []
        self._unreadable: list[Job] = []
        self._on_dask = bool(options.cluster or options.dashboard)
        # The kernel's time is bounded by itself; this also bounds what is computed of its replies.
        self._most = 3 * course.limits.notebook_seconds + 60
        self._workers = Workers(options.workers, grade_one, self._arguments, options.gpus, self._most)
        self._server = ""
        self._ends = ExitStack()

    def __enter__(self) -> "GradingRun":
        self._ends.enter_context(self._workers)
        return self

    def __exit__(self, *raised: Any) -> None:
        self._ends.__exit__(*raised)

    def begin(self, jobs: list[Job]) -> None:
        """Have these submissions graded too; on this machine the first of them begin at once."""
        self._unreadable += [job for job in jobs if job.unreadable]
        jobs = [job for job in jobs if not job.unreadable]
        if not jobs:
            return
        for entry in dict.fromkeys(job.entry for job in jobs):
            _require_points(self.course, entry)
        self._jobs += jobs
        if not self.options.trusted and not self.options.cluster:
            there = self.course.handed_in(self.entries)  # as when it was begun, see `preload.begin`
            self._server = preload.fork_server(self.course.running(there).grading.preload).start()
        if not self._on_dask:
            worker.prepare(self.course, list(dict.fromkeys(job.entry for job in jobs)))
            preload.settle()
            self._workers.add(jobs)

    def keep_all(self, recorder: "Recorder") -> list[Record]:
        """Keep each result as it comes; all records."""
        from autograder.gradebook.gradebook_writer import DATABASE_ERRORS

        records = []
        for job in self._unreadable:
            failed = Record(job.student, job.entry.name, UNGRADABLE, job.unreadable)
            records.append(keep(self.course, recorder, job, failed, "", self.options.trusted))
            self._on_record(records[-1])
        if not self._jobs:
            return records
        slowest = 0.0
        bar = tqdm(self.job_answers(), total=len(self._jobs), unit="notebook", disable=None, file=sys.stderr)
        for job, answer in bar:
            done, notebook = _result(answer, job.entry, job.student)
            try:
                done = keep(self.course, recorder, job, done, notebook, self.options.trusted)
            except (OSError, *DATABASE_ERRORS):
                raise
            except Exception as bug:
                failed = failed_record(bug, job.entry, job.student)
                done = keep(self.course, recorder, job, failed, "", self.options.trusted)
            if done.status != GRADED:
                tqdm.write(f"{done.student} {done.notebook}: ungradable: {done.reason}", file=sys.stderr)
            if done.slowest_cell and done.slowest_cell[1] > slowest:
                cell, slowest = done.slowest_cell
                bar.set_postfix_str(f"slowest cell {slowest:.1f} s: {done.student} {done.notebook} {cell}")
            self._on_record(done)
            records.append(done)
        return records

    def look(self) -> Iterator[tuple[Job, Record]]:
        """Each result as it comes, which is kept nowhere."""
        bar = tqdm(self.job_answers(), total=len(self._jobs), unit="notebook", disable=None, file=sys.stderr)
        for job, answer in bar if self._jobs else ():
            done, _ = _result(answer, job.entry, job.student)
            make_plain(done)
            yield job, done

    def job_answers(self) -> Iterator[tuple[Job, Any]]:
        """Each submission with what its worker answered or raised, as it is done."""
        if not self._on_dask:
            return self._workers.in_turn()
        from autograder.grading import cluster  # dask takes half a second to import

        return cluster.in_turn(self.options, self._jobs, grade_one, self._arguments, self._most)

    def _arguments(self, job: Job) -> tuple[Course, HandIn, bool, str]:
        grading = self.course.grading.model_copy(update={"database": ""})  # its URL may hold a password
        public = self.course.model_copy(update={"grading": grading})
        return public, hand_in(self.course, job), self.options.trusted, self._server


def _require_points(course: Course, entry: NotebookEntry) -> None:
    """See that the course tree gives the points that the checks do: nbgrader takes no more for a cell.

    Raises:
        CourseError: it does not; says what to do.
    """
    from autograder.author.checks import public_checks  # brings torch, as the first submission does

    worth = {number: check.points for number, check in public_checks(entry).items()}
    stale = [number for number, points in course_tree.exercises(course, entry).items() if worth.get(number) != points]
    if stale:
        raise CourseError(
            f"{entry.name}: the course tree is older than the points of {', '.join(stale)}: run `autograder build`, "
            "then this again"
        )


@contextmanager
def _recorder(course: Course) -> Iterator["Recorder"]:
    """The one writer. Its libraries are imported only now, while the first submission is being graded."""
    from autograder.gradebook import gradebook_writer

    with gradebook_writer.open_recorder(course) as recorder:
        yield recorder


def keep(course: Course, recorder: "Recorder", job: Job, done: Record, notebook: str, trusted: bool = False) -> Record:
    """Put a result where it stays: gradebook, graded notebook, record. Killed anywhere, doing it again mends it."""
    entry, student = job.entry, job.student
    make_plain(done)
    if job.only and (done.retry or done.status != GRADED):
        return done  # the verdicts that there are still hold
    same = job.known is not None and job.known.hand_in == job.digest
    done.hand_in, done.trusted, done.flags = job.digest, trusted, flags(course, job, done)
    done.graded_at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    done.named = names_digest(job.names)
    if done.status == GRADED:
        cells = {cell_id(CellRole.CHECK, number) for number in job.only} if job.only else None
        recorder.record(entry, student, notebook, not same, cells)
    elif not done.retry:
        recorder.refuse(entry, student, released(job.release), done.reason)
    if not done.retry:
        done.late_seconds, done.penalty = recorder.settle(entry, student).get(student, (0.0, 0.0))
        history.note(course, entry, done)
    # Written last: it says that this submission is done, whatever happens next.
    blank = {verdict.exercise for verdict in done.verdicts if verdict.outcome is Outcome.BLANK}
    _note(course, job, done, blank.union(job.only) if job.only else job.graders)
    return done


def _restore(course: Course, recorder: "Recorder", entries: list[NotebookEntry], settled: list[Job]) -> list[Job]:
    """Put into the gradebook what the records say and it does not, as when it was lost or is another one.

    Answers with the submissions that must be graded again because their graded notebook is missing too.
    """
    from autograder.gradebook.gradebook_writer import MissingEntry

    lost = []
    for entry in entries:
        try:
            scores = recorder.scores(entry)
        except MissingEntry:
            course_tree.enter(course, entry)
            scores = {}
        for job in settled:
            if job.entry != entry or job.known is None:
                continue
            rows = {cell_id(CellRole.CHECK, verdict.exercise): verdict.score for verdict in job.known.verdicts}
            has = {name: mark for name, mark in scores.get(job.student, {}).items() if role_of(name) is CellRole.CHECK}
            if job.known.status != GRADED:
                if not has:
                    recorder.refuse(entry, job.student, released(job.release), job.known.reason)
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
    scores = {}
    try:
        for cell in nbformat.v4.reads(text).cells:
            if role_of(cell.id) is CellRole.CHECK and cell.get("outputs"):
                scores[cell.id] = float(cell.outputs[-1].data["text/plain"])
    except (ValueError, LookupError, AttributeError, TypeError):
        return None
    return scores


def _result(answer: Any, entry: NotebookEntry, student: str) -> tuple[Record, str]:
    """What the worker answered; a failure of the grader itself becomes a record as well."""
    if isinstance(answer, OSError) and answer.errno in FULL:
        raise answer
    return (failed_record(answer, entry, student), "") if isinstance(answer, Exception) else answer


def failed_record(bug: Exception, entry: NotebookEntry, student: str) -> Record:
    """The record of a submission that the grader failed on: once, unless the machine is to blame.

    What the exception says may be the submission's own words: it goes to the terminal and into no record.
    """
    place = next(iter(getattr(bug, "__notes__", ())), None) or where(bug)  # a worker has noted it
    tqdm.write(f"{student} {entry.name}: {type(bug).__name__}{place}: {html_cleaning.line(bug, 500)}", file=sys.stderr)
    again = isinstance(bug, (SandboxError, ConnectionError, TimeoutError))
    reason = f"the grader itself failed, please report it ({type(bug).__name__}{place})"
    if isinstance(bug, TookTooLong):
        reason = f"{bug}, and it was ended"
    if not again:
        reason += f"; `autograder grade {entry.number} --student {student} --again` tries once more"
    return Record(student, entry.name, UNGRADABLE, reason, retry=again)
