"""Whose runs are handed in: two honest runs never share both their logits and the time they took."""

import hashlib
import json
from collections.abc import Iterable
from itertools import chain

from autograder.collect import unpack
from autograder.course import ROOT, Course, NotebookEntry
from utils.experiment import BadRun, Files, parse, read_files

RECORDED = ROOT / "data" / "results" / "rte"
THE_COURSE = ""  # the name of no student
AN_EARLIER = "a run of another hand-in, taken earlier"


def of(course: Course, entry: NotebookEntry) -> dict[str, str]:
    """What speaks against the students whose runs of a notebook are somebody else's."""
    order = []
    for path in course.tree.glob(f"submitted/*/{entry.name}/results.json"):
        stamp = path.with_name("timestamp.txt")  # nbgrader's own; who has none is taken for the first
        order.append((stamp.read_text() if stamp.exists() else "", path.parents[1].name, path))
    if not order:
        return {}
    hand_ins = ((student, unpack(path.read_bytes())) for _, student, path in sorted(order))
    whose = {THE_COURSE: "one of the runs that come with the course"}
    return {
        student: f"{names[0]} is {whose.get(first, AN_EARLIER)}: the same predictions in the same seconds"
        for student, (first, names) in found(chain([(THE_COURSE, read_files(RECORDED))], hand_ins)).items()
    }


def found(hand_ins: Iterable[tuple[str, Files]]) -> dict[str, tuple[str, list[str]]]:
    """Who handed in runs of somebody else's: for each such student whose they are, and which files.

    `hand_ins` are students and their files, the earliest first: who comes later has copied.
    """
    owner: dict[str, str] = {}
    copied: dict[str, tuple[str, list[str]]] = {}
    for student, files in hand_ins:
        for name, stamp in _stamps(files).items():
            first = owner.setdefault(stamp, student)
            if first != student:
                copied.setdefault(student, (first, []))[1].append(name)
    return copied


def _stamps(files: Files) -> dict[str, str]:
    stamps = {}
    for name, text in files.items():
        try:
            run = parse(text)
        except BadRun:
            continue
        stamps[name] = hashlib.sha256(json.dumps([run.logits, run.seconds]).encode()).hexdigest()
    return stamps
