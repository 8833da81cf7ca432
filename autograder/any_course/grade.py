"""The grading run over a course directory: many submissions at a time, one writer, resumed where it stopped."""

import contextlib
import errno
import logging
import os
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from nbconvert.exporters import NotebookExporter
from nbconvert.writers import FilesWriter
from nbformat import NotebookNode
from nbgrader import api
from nbgrader.api import Base, Gradebook
from nbgrader.converters import Autograde
from nbgrader.converters.base import BaseConverter
from nbgrader.preprocessors import SaveAutoGrades
from sqlalchemy import create_engine, select
from sqlalchemy.exc import SAWarning
from tqdm import tqdm

from autograder import html_cleaning
from autograder.any_course.convert import Converted, convert, split
from autograder.any_course.directory import (
    GRADED,
    UNFINISHED,
    UNGRADABLE,
    WRITTEN,
    CourseDir,
    Job,
    Record,
    graded_before,
    jobs,
    languages,
    too_large,
)
from autograder.course import CourseError
from autograder.grading.local import TookTooLong, Workers
from autograder.sandbox import preload
from autograder.sandbox.sandbox import SandboxError, require_sandboxes

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
# The tables of nbgrader's gradebook that say what an assignment is, and nothing of students.
TABLES = ("course", "assignment", "notebook", "base_cell", "grade_cells", "solution_cells", "task_cells", "source_cell")


class SaveAtOnce(SaveAutoGrades):
    """nbgrader's, in one transaction a notebook instead of one a cell: all marks of it are there, or none."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Save the marks of a notebook."""
        self._last = len(nb.cells) - 1
        return super().preprocess(nb, resources)

    def preprocess_cell(self, cell: NotebookNode, resources: Any, cell_index: int) -> tuple[NotebookNode, Any]:
        """Save the mark of a cell; of the last one with all others."""
        session = self.gradebook.db
        session.commit = session.flush
        cell, resources = super().preprocess_cell(cell, resources, cell_index)
        if cell_index == self._last:
            del session.commit
            session.commit()
        return cell, resources


class Keep(Autograde):
    """The second part of nbgrader's `autograde`: marks, files, permissions."""

    def __init__(self, course: CourseDir):
        super().__init__(coursedir=course.coursedir(), parent=course.app)
        self.course = course
        self.writer = FilesWriter(parent=self, config=self.config)
        self.exporter = NotebookExporter(parent=self, config=self.config)
        _, after = split(self)
        for preprocessor in after:
            self.exporter.register_preprocessor(SaveAtOnce if preprocessor is SaveAutoGrades else preprocessor)

    def convert_single_notebook(self, notebook_filename: str) -> None:
        """Save the marks of an executed notebook."""
        self._sanitizing = False  # it lies in the unfinished folder
        try:
            BaseConverter.convert_single_notebook(self, notebook_filename)
        finally:
            self._sanitizing = True

    def keep(self, job: Job) -> tuple[float, float, float, bool]:
        """Enter a converted submission in the gradebook and put its files where nbgrader has them.

        Doing it again changes nothing. Returns its score, the points that there were, the late penalty, and whether a
        person has to mark it.
        """
        course, assignment, student = self.course, job.assignment, job.student
        place = course.place(course.unfinished, student, assignment)
        self.coursedir.assignment_id = assignment  # hooks are called with it
        self.notebooks = sorted(str(job.folder / path.name) for path in place.glob("*.ipynb"))
        self.init_assignment(assignment, student)
        written = course.written(student, assignment)
        if written.is_dir():  # after the files as they were handed in, as cells changed some of them
            shutil.copytree(written, place, dirs_exist_ok=True)
            shutil.rmtree(written)
        for notebook in self.notebooks:
            self.convert_single_notebook(str(place / os.path.basename(notebook)))
        self.set_permissions(assignment, student)
        target = course.place(course.app.coursedir.autograded_directory, student, assignment)
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists():
            os.replace(target, place.with_name(f"{place.name}.old"))
        os.replace(place, target)
        shutil.rmtree(place.with_name(f"{place.name}.old"), ignore_errors=True)
        self.run_post_convert_hook()
        with Gradebook(self.coursedir.db_url, self.coursedir.course_id) as gradebook:
            handed_in = gradebook.find_submission(assignment, student)
            penalty = handed_in.late_submission_penalty
            return handed_in.score, handed_in.max_score, penalty, handed_in.needs_manual_grade


def grade(
    course: CourseDir,
    names: list[str],
    students: Collection[str] = (),
    workers: int = 2,
    again: bool = False,
    on_record: Callable[[Record], None] = lambda record: None,
) -> tuple[list[Record], list[str]]:
    """Grade the submissions of these assignments that are new or changed; all records, and which notebooks are refused.

    A submission is graded again when it, the assignment or a setting has changed, or with `again`. One that stock
    nbgrader has graded is left as it is until then. An interrupted run loses what was being graded then, and nothing
    else.

    Raises:
        SandboxError: sandboxes cannot be made here.
        CourseError: nbgrader does not know an assignment, or another run is at work.
    """
    require_sandboxes()
    course.section.require_packages()
    warnings.simplefilter("ignore", SAWarning)  # nbgrader's code makes SQLAlchemy warn
    logging.getLogger("tornado.application").setLevel(logging.CRITICAL)  # nbgrader's tracebacks; they are in its log
    records, refused, waiting = [], [], []
    there: set[str] = set()
    with _exclusive(course), _kept_engines(), tempfile.TemporaryDirectory() as folder:
        for name in names:
            if others := languages(course, name):
                why = ", ".join(f"{notebook} uses the kernel {other}" for notebook, other in others.items())
                refused.append(f"{name}: {why}; only Python 3 notebooks are graded here")
                continue
            if large := too_large(course, name):
                refused.append(f"{name}: {large}")
                continue
            for job in jobs(course, name, students):
                there.add(job.student)
                if job.settled and job.known and not again:
                    records.append(job.known)
                elif not job.known and not again and (record := graded_before(course, job)):
                    course.keep_record(record)
                    on_record(record)
                    records.append(record)
                else:
                    waiting.append(job)
        if not refused and (unknown := sorted({*students} - there)):
            everybody = sorted({job.student for name in names for job in jobs(course, name, ())})
            why = f"it was handed in by {', '.join(everybody)}" if everybody else "nobody did"
            raise CourseError(f"{', '.join(unknown)} handed in none of {', '.join(names)}: {why}")
        if waiting:
            for record in _run(course, waiting, workers, Path(folder, "cells.db")):
                on_record(record)
                records.append(record)
    return sorted(records, key=lambda record: (record.assignment, record.student)), refused


def _run(course: CourseDir, waiting: list[Job], number: int, cells: Path) -> Iterator[Record]:
    """Grade submissions; their records as they come."""
    _copy_cells(course.app.coursedir.db_url, cells)
    server = preload.fork_server(course.grading.preload).start()
    graded = [job for job in waiting if not job.unreadable]
    # The kernel's time is bounded by itself; this also bounds what is done with its outputs.
    count = 1 + max(len(list(job.folder.glob("*.ipynb"))) for job in waiting)
    most = count * (3 * course.limits.notebook_seconds + 60)
    with Workers(number, partial(convert, course, cells), lambda job: (job, server), seconds=most) as pool:
        pool.add(graded)
        preload.settle()
        keeper = Keep(course)
        for job in waiting:
            if job.unreadable:
                yield _keep(keeper, job, Converted(reason=job.unreadable))
        with contextlib.chdir(course.root):
            bar = tqdm(pool.in_turn(), total=len(graded), unit="submission", disable=None, file=sys.stderr)
            for job, answer in bar:
                record = _keep(keeper, job, answer)
                if record.status != GRADED:
                    tqdm.write(f"{job.student} {job.assignment}: {record.status}: {record.reason}", file=sys.stderr)
                yield record


def _keep(keeper: Keep, job: Job, answer: Any) -> Record:
    """Put a result where it stays. Killed anywhere, doing it again mends it."""
    record = Record(job.student, job.assignment, GRADED, digest=job.digest)
    if isinstance(answer, OSError) and answer.errno in FULL:
        raise answer
    if isinstance(answer, Exception):
        record.status, record.retry = UNGRADABLE, isinstance(answer, (SandboxError, ConnectionError, TimeoutError))
        where = "".join(getattr(answer, "__notes__", ()))
        record.reason = f"the grader failed: {type(answer).__name__}{where}: {html_cleaning.line(answer, 300)}"
        if isinstance(answer, TookTooLong):
            record.reason = f"{answer}, and it was ended"
    elif answer.reason:
        record.status, record.reason = UNGRADABLE, html_cleaning.line(answer.reason)
    else:
        record.remarks, record.seconds = [html_cleaning.line(remark) for remark in answer.remarks], answer.seconds
        with _uninterrupted():
            record.score, record.points, record.penalty, record.to_mark = keeper.keep(job)
            keeper.course.keep_record(record)  # last: it says that this submission is done
        return record
    keeper.course.keep_record(record)
    return record


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Put Ctrl-C off until the end."""
    pressed: list[Any] = []
    before = signal.signal(signal.SIGINT, lambda *given: pressed.append(given))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if pressed:
            raise KeyboardInterrupt


@contextmanager
def _exclusive(course: CourseDir) -> Iterator[None]:
    """One run at a time in a course; what a killed one left unfinished is removed, before and after."""
    course.ours.mkdir(exist_ok=True)
    graded = Path(course.root, course.app.coursedir.autograded_directory)

    def tidy() -> None:
        for name in (UNFINISHED, WRITTEN):
            shutil.rmtree(graded / name, ignore_errors=True)

    try:
        with FileLock(course.ours / "lock", timeout=0):
            tidy()
            try:
                yield
            finally:
                tidy()
    except Timeout:
        raise CourseError(f"another run is grading in {course.root}: wait for it, or end it") from None


@contextmanager
def _kept_engines() -> Iterator[None]:
    """Have nbgrader use one engine for each gradebook: with it SQLAlchemy keeps its statements, a third of the time.

    nbgrader makes a new one whenever it opens the gradebook, about ten times for each submission.
    """
    make = api.create_engine
    api.create_engine = cache(make)
    try:
        yield
    finally:
        api.create_engine = make


def _copy_cells(database: str, target: Path) -> None:
    """Copy what a gradebook says of assignments, and nothing of students, into a new one."""
    source, copy = create_engine(database), create_engine(f"sqlite:///{target}")
    Base.metadata.create_all(copy)
    with source.connect() as theirs, copy.begin() as ours:
        for table in (known for known in Base.metadata.sorted_tables if known.name in TABLES):
            rows = [dict(row) for row in theirs.execute(select(table)).mappings()]
            if rows:
                ours.execute(table.insert(), rows)
    source.dispose()
    copy.dispose()
