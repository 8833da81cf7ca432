"""What the instructor reads: a table of the class, as a page, in the terminal and as CSV."""

import collections
from pathlib import Path

import jinja2
import pandas
from nbgrader.api import Gradebook

from autograder import grade, tree
from autograder.course import Course, NotebookEntry
from autograder.grade import Record
from utils.verdict import Outcome

MARKS = {Outcome.PASSED: "&#10003;", Outcome.WRONG: "&#10007;", Outcome.ERROR: "!", Outcome.BLANK: "&#183;"}


def records(course: Course, entry: NotebookEntry) -> list[Record]:
    """The records of all graded hand-ins of a notebook, by student."""
    found = (grade.load_record(course, entry, student) for student in grade.hand_ins(course, entry))
    return [record for record in found if record is not None]


def write_report(course: Course, entries: list[NotebookEntry]) -> Path:
    """Write the class report, one page; nothing that a student wrote reaches it unescaped."""
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    template = jinja2.Environment(loader=loader, autoescape=True).get_template("report.html.jinja")
    sections = [_section(course, entry) for entry in entries]
    path = course.tree / "report.html"
    marks = {str(outcome): jinja2.utils.markupsafe.Markup(mark) for outcome, mark in MARKS.items()}
    tree.write(path, template.render(title=course.title, sections=sections, marks=marks))
    return path


def export(course: Course, entries: list[NotebookEntry], path: Path) -> int:
    """Write one row per student and exercise, manual scores included, from nbgrader's gradebook; the rows' number."""
    rows = []
    with Gradebook(tree.database(course), course.course_id) as gradebook:
        for entry in entries:
            for submission in gradebook.assignment_submissions(entry.name):
                for notebook in submission.notebooks:
                    for mark in notebook.grades:
                        rows.append(
                            {
                                "student": submission.student_id,
                                "notebook": entry.name,
                                "exercise": mark.name.split("_", 1)[1].replace("_", "."),
                                "score": mark.score,
                                "auto_score": mark.auto_score,
                                "manual_score": mark.manual_score,
                                "max_score": mark.max_score,
                                "needs_manual_grade": mark.needs_manual_grade,
                                "late_seconds": submission.total_seconds_late,
                            }
                        )
    columns = ["student", "notebook", "exercise", "score", "auto_score", "manual_score", "max_score"]
    table = pandas.DataFrame(rows, columns=[*columns, "needs_manual_grade", "late_seconds"])
    table.sort_values(["notebook", "student", "exercise"]).to_csv(path, index=False)
    return len(table)


def write_feedback(course: Course, entries: list[NotebookEntry]) -> list[Path]:
    """nbgrader's feedback page for every graded hand-in, HTML of the hand-in sanitized; the pages.

    Raises:
        RuntimeError: nbgrader could not write one; the message is its log.
    """
    api = tree.nbgrader_api(course)
    for entry in entries:
        if not list(course.tree.glob(f"autograded/*/{entry.name}")):
            continue
        result = api.generate_feedback(entry.name, force=True)
        if not result["success"]:
            raise RuntimeError(result.get("log") or result.get("error"))
    return sorted(path for entry in entries for path in course.tree.glob(f"feedback/*/{entry.name}/*.html"))


def _section(course: Course, entry: NotebookEntry) -> dict:
    """Everything the page says of one notebook."""
    graded = records(course, entry)
    points = tree.exercises(course, entry)
    numbers = list(points)
    students = []
    said: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for record in graded:
        of = {row["exercise"]: row for row in record.exercises}
        students.append({"record": record, "cells": [of.get(number) for number in numbers]})
        for row in record.exercises:
            if row["outcome"] in (Outcome.WRONG, Outcome.ERROR):
                said[row["exercise"]][row["message"].split(": ", 1)[1]] += 1
    complete = [record for record in graded if record.status == grade.GRADED]
    shares = []
    for number in numbers:
        won = [row["score"] > 0 for record in complete for row in record.exercises if row["exercise"] == number]
        shares.append(
            {"number": number, "share": sum(won) / len(won) if won else 0, "said": said[number].most_common(3)}
        )
    scores = pandas.Series([record.score for record in complete], dtype=float)
    return {"entry": entry, "numbers": numbers, "students": students, "shares": shares, "scores": scores,
            "points": sum(points.values())}  # fmt: skip
