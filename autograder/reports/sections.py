"""What the class report says of one notebook."""

import collections
import datetime
import hashlib
import statistics
import zoneinfo
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from autograder.cells import CellRole, exercise_of, role_of
from autograder.course import Course, CourseError, NotebookEntry
from autograder.gradebook import course_tree, extensions, marks, teams
from autograder.gradebook.pseudonyms import Names
from autograder.grading.cache import cached
from autograder.grading.grading_record import GRADED, Record, load_record, students_of
from autograder.reports import charts, items, predicted, progress
from utils.grading.verdict import Outcome

if TYPE_CHECKING:
    from utils.experiments.seed_table import SeedTable

MOST_SAID = 3  # sentences of one exercise


def records_of(course: Course, entry: NotebookEntry) -> list[Record]:
    """The records of all graded submissions of a notebook, by student."""
    loaded = (load_record(course, entry, student) for student in students_of(course, entry))
    return [record for record in loaded if record is not None]


def section(
    course: Course, entry: NotebookEntry, names: Names, tables_of: Callable[[], list[dict[str, Any]]]
) -> dict[str, Any]:
    """Everything the page says of one notebook; `tables_of` makes the tables of the class's runs, see `plain`.

    Raises:
        CourseError: a file of the course cannot be read.
    """
    records = records_of(course, entry)
    granted = extensions.extensions(course)
    away = {record.student for record in records if _is_excused(course, entry, record.student, granted)}
    complete = [record for record in records if record.status == GRADED and record.student not in away]
    points = course_tree.exercises(course, entry)
    handed_in = students_of(course, entry)
    scores = [record.score for record in complete]
    tables, why = [], ""
    try:
        tables = tables_of()
    except CourseError:
        raise
    except Exception as bug:  # of somebody's runs: the rest of the page is for everybody
        why = type(bug).__name__
    students = []
    for record in sorted(records, key=lambda record: names.of(record.student)):
        of = {verdict.exercise: verdict for verdict in record.verdicts}
        cells = [of.get(number) for number in points]
        students.append({"record": record, "cells": cells, "excused": record.student in away})
    late = sorted((record for record in records if record.late_seconds), key=lambda record: -record.late_seconds)
    return {
        "entry": entry,
        "marks": [(number, "mark") for number in points],
        "handed_in": len(handed_in),
        "not_graded": len(handed_in) - len(records),
        "excused": len(away),
        "waiting": progress.to_mark(course, entry),
        "wrong": progress.disagreements(course, entry),
        "students": students,
        "exercises": _exercises(complete, points),
        "said": _said(records, points, names),
        "predicted": predicted.of_notebook(course, entry, [record.student for record in complete]),
        "written": _written(course, entry, {record.student: record.score for record in complete}),
        "late": late,
        "lost": sum(record.penalty for record in late),
        "refused": [record for record in records if record.status != GRADED],
        "charts": _charts(course, entry, scores, sum(points.values())),
        "scores": scores,
        "median": statistics.median(scores) if scores else 0.0,
        "mean": statistics.fmean(scores) if scores else 0.0,
        "points": sum(points.values()),
        "by_hand": course_tree.points_by_hand(course, entry),
        "tables": tables,
        "no_table": why,
    }


def _is_excused(
    course: Course, entry: NotebookEntry, submitter: str, granted: dict[tuple[str, str], extensions.Extension]
) -> bool:
    """Whether a submission counts for nobody, since all for whom it would are excused."""
    people = teams.recipients(course, entry, submitter)
    return bool(people) and all(extensions.is_excused(course, entry, person, granted) for person in people)


def _exercises(complete: list[Record], points: dict[str, float]) -> list[dict[str, Any]]:
    """A row for each exercise: how many passed, what share of the points was earned, how well it tells."""
    rows = []
    for number, most in points.items():
        pairs = [(record, verdict) for record in complete for verdict in record.verdicts if verdict.exercise == number]
        scores = [verdict.score for _, verdict in pairs]
        rows.append(
            {
                "number": number,
                "earned": items.share_earned(scores, most),
                "discrimination": items.discrimination(
                    scores, [record.score - verdict.score for record, verdict in pairs]
                ),
                "counts": collections.Counter(verdict.state for _, verdict in pairs),
            }
        )
    return rows


def _said(records: list[Record], points: dict[str, float], names: Names) -> list[dict[str, Any]]:
    """The sentences that most were told, those of one exercise after the other."""
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for record in records:
        for verdict in record.verdicts:
            if verdict.outcome in (Outcome.WRONG, Outcome.ERROR):
                failed = [f"{part.name}: {part.message}" for part in verdict.parts if part.message]
                for sentence in failed or [verdict.message]:
                    counts[verdict.exercise][names.unnamed(sentence)] += 1
    return [
        {"number": number, "order": place, "sentence": sentence, "count": count}
        for place, number in enumerate(points)
        for sentence, count in counts[number].most_common(MOST_SAID)
    ]


def _written(course: Course, entry: NotebookEntry, scores: dict[str, float]) -> list[dict[str, Any]]:
    """A row for each written question: what was marked, what waits, what is empty; `scores` are the judge's."""
    with marks.reading(course) as gradebook:
        marked = marks.marked(gradebook, entry) if gradebook else {}
    marked = {student: marked[student] for student in students_of(course, entry) if student in marked}
    rows = []
    for cell in sorted({cell for mark in marked.values() for cell in mark.marks if role_of(cell) is CellRole.WRITTEN}):
        theirs = {student: own.marks[cell] for student, own in marked.items() if cell in own.marks}
        done = {student: mark for student, mark in theirs.items() if mark.by_hand and not mark.waits}
        both = [(mark.score, scores[student]) for student, mark in done.items() if student in scores]
        rows.append(
            {
                "number": exercise_of(cell),
                "marked": len(done),
                "waits": sum(mark.waits for mark in theirs.values()),
                "untouched": sum(cell in mark.untouched for mark in marked.values()),
                "mean": statistics.fmean(mark.score for mark in done.values()) if done else None,
                "points": max(mark.points for mark in theirs.values()),
                "discrimination": items.discrimination([score for score, _ in both], [rest for _, rest in both]),
            }
        )
    return rows


def _charts(course: Course, entry: NotebookEntry, scores: list[float], points: float) -> list[Markup]:
    """The histogram of the scores, and when the versions that count were handed in."""
    zone: datetime.tzinfo = datetime.UTC
    if course.timezone:
        zone = zoneinfo.ZoneInfo(course.timezone)
    elif entry.deadline is not None and entry.deadline.tzinfo is not None:
        zone = entry.deadline.tzinfo
    stamps = (course_tree.stamped(course, entry, student) for student in students_of(course, entry))
    times = [when for when in stamps if when is not None]

    def work() -> list[str]:  # to import matplotlib and draw takes longer than all else
        drawn = [charts.histogram(scores, points)] if scores else []
        return drawn + ([charts.time_line(times, entry.deadline, zone)] if times else [])  # type: ignore[return-value]

    shown = f"{scores} {points} {times} {entry.deadline} {zone} {Path(charts.__file__).read_text()}"
    key = hashlib.sha256(shown.encode()).hexdigest()
    return [Markup(picture) for picture in cached(course, f"{entry.name}-charts", key, work)]


def plain(table: "SeedTable") -> dict[str, Any]:
    """A seed table as texts, with what may be concluded from it; `text` is all of it for a terminal."""
    frame = table.frame()
    whole = {column for column in frame.columns if frame[column].dtype.kind in "iu"}
    rows = [
        (name, [_number(value, 0 if column in whole else 2) for column, value in row.items()])
        for name, row in frame.iterrows()
    ]
    concluded = [*map(str, table.comparisons())]
    return {
        "text": [repr(table), *concluded],
        "caption": table.caption,
        "headings": [("experiment", ""), *((column, "number") for column in frame.columns)],
        "rows": rows,
        "remarks": [*table.remarks(), *concluded],
    }


def _number(value: float, digits: int) -> str:
    """A number; "" for none."""
    return "" if value != value else f"{value:.{digits}f}"
