"""A worker's part of a grading run: one hand-in, from its bytes to its record."""

import datetime
import os
from functools import cache

import distributed
import nbformat

from autograder import html_cleaning
from autograder.author import build
from autograder.course import Course, NotebookEntry, cell_id
from autograder.grading.fingerprints import released as release_of
from autograder.grading.records import GRADED, UNGRADABLE, Record
from autograder.intake import restore
from autograder.intake.collect import unpack
from autograder.sandbox import preload
from utils.experiments.experiment import NO_STANDING, Standing
from utils.grading.verdict import Outcome, Verdict


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
        released = release_of(release)
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
            name = cell_id("check", number)
            next(cell for cell in notebook.cells if cell.id == name).outputs = fresh[name].outputs
        rows = done.exercises
        write_scoreboard(notebook, [Verdict(row["exercise"], row["points"], Outcome(row["outcome"])) for row in rows])
    done.score = sum(row["score"] for row in done.exercises)
    done.points = sum(row["points"] for row in done.exercises)
    done.seconds = round((datetime.datetime.now() - started).total_seconds(), 2)
    return done, build.write(notebook)


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
