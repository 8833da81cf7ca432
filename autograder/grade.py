"""The grading run: hand-ins in, verdicts out, many at a time, one writer, resumed where it stopped."""

import datetime
import hashlib
import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import dask
import distributed
import nbformat
from tqdm import tqdm

from autograder import author, record, sanitize, tree, warm
from autograder.course import ROOT, Course, NotebookEntry, room
from autograder.room import require_rooms

GRADED, UNGRADABLE = "graded", "ungradable"
CHECKING = ("wire", "door", "answer", "check", "expect", "toys")  # modules of utils that a verdict hangs on


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
    seconds: float = 0.0
    slowest_cell: list[Any] = field(default_factory=list)  # its id and seconds
    trusted: bool = False
    hand_in: str = ""  # sha256 of the file
    grader: str = ""  # sha256 of all that the verdict hangs on
    graded_at: str = ""


def verdict_path(course: Course, entry: NotebookEntry, student: str) -> Path:
    """Where the record of a hand-in lies."""
    return course.tree / "verdicts" / student / f"{entry.name}.json"


def hand_ins(course: Course, entry: NotebookEntry, students: list[str] | None = None) -> list[str]:
    """The students who handed in this notebook, in order."""
    found = sorted(path.parents[1].name for path in course.tree.glob(f"submitted/*/{entry.name}/{entry.name}.ipynb"))
    return [student for student in found if students is None or student in students]


def fingerprint(course: Course, entry: NotebookEntry) -> str:
    """A digest of everything that a verdict hangs on besides the hand-in: checks, release, limits."""
    parts = [ROOT / "utils" / f"{name}.py" for name in CHECKING]
    parts += [ROOT / "utils" / "checks" / f"nb{entry.name}.py", room(entry) / "private_checks.py"]
    parts += [tree.place(course, "release", entry)]
    digest = hashlib.sha256(course.limits.model_dump_json().encode() + course.grading.model_dump_json().encode())
    for path in parts:
        digest.update(path.read_bytes() if path.exists() else b"")
    return digest.hexdigest()


def grade(
    course: Course,
    entries: list[NotebookEntry],
    students: list[str] | None = None,
    workers: int = 2,
    cluster: str | None = None,
    trusted: bool = False,
    again: bool = False,
    say: Callable[[str], None] = tqdm.write,
) -> list[Record]:
    """Grade what is handed in and not graded yet; the records of all selected hand-ins.

    A hand-in is graded anew when it or anything that its verdict hangs on has changed, or with
    `again`. An interrupted run loses what was being graded then, and nothing else.

    Raises:
        RoomError: rooms cannot be made here, and the submissions are not trusted.
        CourseError: the course tree was not built.
    """
    if not trusted:
        require_rooms()
    records, waiting = [], []
    for entry in entries:
        release, wanted = tree.release_notebook(course, entry), fingerprint(course, entry)
        for student in hand_ins(course, entry, students):
            text = tree.place(course, "submitted", entry, student).read_bytes()
            known = load_record(course, entry, student)
            digest = hashlib.sha256(text).hexdigest()
            if known and not again and (known.hand_in, known.grader, known.trusted) == (digest, wanted, trusted):
                records.append(known)
            else:
                waiting.append((entry, student, text, digest, wanted, release))
    if not waiting:
        return records
    nursery = "" if cluster or trusted else warm.nursery(course.grading.preload).start()
    with record.open_recorder(course) as recorder, _client(course, min(workers, len(waiting)), cluster) as client:
        futures = {}
        for job in waiting:
            what = (course, *job[:3], author.write(job[5]), trusted, nursery)
            futures[client.submit(grade_one, *what, retries=2, pure=False)] = job
        bar = tqdm(
            distributed.as_completed(futures), total=len(futures), unit="notebook", disable=None, file=sys.stderr
        )
        for future in bar:
            entry, student, _, digest, wanted, release = futures.pop(future)
            done, notebook = _result(future, entry, student)
            done.hand_in, done.grader, done.trusted = digest, wanted, trusted
            done.graded_at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            if done.status == GRADED:
                recorder.record(entry, student, nbformat.reads(notebook, as_version=4))
            else:
                recorder.refuse(entry, student, release, done.reason)
                say(f"{student} {entry.name}: ungradable: {done.reason}")
            # Written last: it says that this hand-in is done, whatever happens next.
            tree.write_json(verdict_path(course, entry, student), asdict(done))
            records.append(done)
            future.release()
    return sorted(records, key=lambda one: (one.notebook, one.student))


def grade_one(
    course: Course, entry: NotebookEntry, student: str, text: bytes, release: str, trusted: bool, nursery: str
) -> tuple[Record, str]:
    """Grade one hand-in, in a worker: its record, and the graded notebook as text ("" if ungradable).

    `text` is the file as handed in, `release` the released notebook; no file is read or written.
    """
    import torch  # the coordinator, which imports this module too, needs neither

    from autograder.judge import judge

    torch.set_num_threads(1)  # one core a judge: threads that wait for each other spin, and starve the kernels
    started = datetime.datetime.now()
    done = Record(student, entry.name, GRADED)
    try:
        handed_in = sanitize.read(text, course.limits.notebook_mb)
        released = nbformat.reads(release, as_version=4)
        notebook, done.remarks = sanitize.restore(handed_in, released)
    except sanitize.Ungradable as why:
        done.status, done.reason = UNGRADABLE, str(why)
        return done, ""
    shown = set() if course.grading.pictures else sanitize.shown(notebook, released)
    judged = judge(course, entry, notebook, shown, trusted, nursery)
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
    done.score = sum(verdict.score for verdict in judged.verdicts)
    done.points = sum(verdict.points for verdict in judged.verdicts)
    done.remarks += judged.remarks
    done.slowest_cell = [*judged.slowest]
    done.seconds = round((datetime.datetime.now() - started).total_seconds(), 2)
    return done, author.write(notebook)


def load_record(course: Course, entry: NotebookEntry, student: str) -> Record | None:
    """The record of a hand-in, or None if there is none that can be read."""
    path = verdict_path(course, entry, student)
    try:
        return Record(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _result(future: distributed.Future, entry: NotebookEntry, student: str) -> tuple[Record, str]:
    """What the worker answered; a failure of the grader itself becomes a record as well."""
    try:
        return future.result()
    except Exception as bug:
        reason = f"the grader itself failed, please report it ({type(bug).__name__}: {bug})"
        return Record(student, entry.name, UNGRADABLE, reason), ""


@contextmanager
def _client(course: Course, workers: int, address: str | None) -> Iterator[distributed.Client]:
    """dask's client: of a cluster that runs already, or of one on this machine for as long as we grade."""
    if address:
        with distributed.Client(address) as client:
            yield client
        return
    warm.begin(course.grading.preload)
    size = {"n_workers": workers, "threads_per_worker": 1, "memory_limit": 0}  # the rooms have limits of their own
    with (
        dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}),
        distributed.LocalCluster(dashboard_address=None, silence_logs=logging.ERROR, **size) as local,
        distributed.Client(local) as client,
    ):
        try:
            yield client
        finally:
            warm.nursery(course.grading.preload).stop()
