"""A worker's part of a grading run: one submission, from its bytes to its record."""

import datetime
import importlib
import logging
from collections.abc import Collection

import nbformat

from autograder import html_cleaning, pictures
from autograder.author import build
from autograder.cells import CellRole, cell_id
from autograder.course import Course, NotebookEntry
from autograder.grading.fingerprints import released
from autograder.grading.grading_record import GRADED, UNGRADABLE, HandIn, Record
from autograder.intake import restore
from autograder.sandbox import no_compiler

# Checks run models whose adapters are switched off on purpose, and the library warns of each.
logging.getLogger("adapters.model_mixin").setLevel(logging.ERROR)


def grade_one(course: Course, hand_in: HandIn, trusted: bool = False, server: str = "") -> tuple[Record, str]:
    """Grade one submission, in a worker: its record, and the graded notebook as text ("" if ungradable).

    No file is read or written. `trusted` and `server` are as in `judge`.
    """
    from autograder.grading.judge import judge, write_scoreboard  # imports torch, which only workers need

    _settle()
    started, only = datetime.datetime.now(), hand_in.only
    done = Record(hand_in.student, hand_in.entry.name, GRADED)
    try:
        restored = restore.restored(hand_in.text, course.limits.notebook_mb, released(hand_in.release))
    except restore.Ungradable as why:
        done.status, done.reason = UNGRADABLE, str(why)
        return done, ""
    notebook, done.remarks = restored.notebook, restored.remarks
    shown = set() if course.grading.pictures else restored.shown
    judged = judge(course, hand_in, notebook, shown, trusted, server)
    done.verdicts = judged.verdicts
    done.remarks += judged.remarks
    dropped = judged.dropped + html_cleaning.fit(notebook) + pictures.fit(notebook)
    if dropped:
        done.remarks.append(f"{dropped} outputs or ends of cells are left out of the page: they are too large to show")
    done.slowest_cell = [*judged.slowest]
    if only and hand_in.known:
        new = {verdict.exercise: verdict for verdict in done.verdicts}
        done.verdicts = [new.get(verdict.exercise, verdict) for verdict in hand_in.known.verdicts]
        done.remarks = [*dict.fromkeys([*hand_in.known.remarks, *done.remarks])]
        done.slowest_cell = max(hand_in.known.slowest_cell, done.slowest_cell, key=lambda cell: cell[1] if cell else 0)
        fresh = {cell.id: cell for cell in notebook.cells}
        notebook = nbformat.reads(hand_in.stored, as_version=4)
        for number in only:
            name = cell_id(CellRole.CHECK, number)
            stored = next(cell for cell in notebook.cells if cell.id == name)
            stored.outputs, stored.metadata = fresh[name].outputs, fresh[name].metadata  # its points may be others now
        write_scoreboard(notebook, done.verdicts)
    done.seconds = round((datetime.datetime.now() - started).total_seconds(), 2)
    return done, build.write(notebook)


def prepare(course: Course, entries: Collection[NotebookEntry]) -> None:
    """Import what workers need for these notebooks, before they are forked."""
    from autograder.author.checks import private_checks

    _settle()
    modules = ["autograder.grading.judge", *course.grading.preload_checks]
    modules += [name for entry in entries for name in (entry.public_checks, *entry.preload_checks)]
    for name in modules:
        importlib.import_module(name)
    for entry in entries:
        private_checks(entry)


def _settle() -> None:
    """One core a judge: threads that wait for each other spin, and starve the kernels. And none of them compiles."""
    no_compiler.install()
    import torch

    torch.set_num_threads(1)
