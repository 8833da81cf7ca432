"""Remove a submission from every place at once. Nothing is lost: it lies in `.course/removed/` afterwards."""

import datetime
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook, MissingEntry

from autograder.course import Course, CourseError, NotebookEntry
from autograder.gradebook import course_tree, journal, mark_log, teams
from autograder.grading import run_lock
from autograder.grading.grading_record import students_of, verdict_path
from autograder.intake import kept_submissions

PLACES = ("submitted", "handins", "autograded", "feedback")  # each with a folder for a student's notebook
FILES = {"history": ".jsonl", "previews": ".json"}  # each with a file for a student's notebook


def parts(course: Course, entry: NotebookEntry, student: str) -> list[Path]:
    """What the tree holds of a submission: folders, and its record."""
    paths = [course.tree / place / student / entry.name for place in PLACES]
    paths += [course.tree / place / student / f"{entry.name}{suffix}" for place, suffix in FILES.items()]
    return [path for path in (*paths, verdict_path(course, entry, student)) if path.exists()]


def marks(course: Course, entry: NotebookEntry, student: str) -> list[dict[str, Any]]:
    """What the gradebook holds of it, marks and comments of a person included."""
    with Gradebook(course_tree.database(course), course.course_id) as gradebook:
        try:
            submission = gradebook.find_submission(entry.name, student)
        except MissingEntry:
            return []
        notebooks = submission.notebooks
        return [row.to_dict() for book in notebooks for row in (*book.grades, *book.comments)]


def require(course: Course, entry: NotebookEntry, student: str) -> None:
    """See that there is something of this submission.

    Raises:
        CourseError: there is none; the message lists the students who submitted.
    """
    if _is_members(course, entry, student):
        team = teams.load(course).of(entry, student)
        raise CourseError(
            f"{student} handed {entry.name} in with the team {teams.shown(course, entry, team)}, which has one "
            f"submission: `autograder remove {team} {entry.number} --yes` removes it for all"
        )
    if not parts(course, entry, student) and not marks(course, entry, student):
        raise CourseError(f"there is no {entry.name} of `{student}`: {_known(course, entry)}")


def _is_members(course: Course, entry: NotebookEntry, student: str) -> bool:
    """Whether a student handed nothing in alone, and is in a team that did."""
    team = teams.load(course).of(entry, student)
    own, theirs = (
        course_tree.place(course, "submitted", entry, submitter).exists() for submitter in (student, team or student)
    )
    return bool(team) and theirs and not own


def remove(course: Course, entry: NotebookEntry, student: str, reason: str = "") -> Path:
    """Move a submission out of the tree, and its marks out of the gradebook; the folder where all of it lies.

    Killed anywhere, doing it again removes the rest.

    Raises:
        CourseError: there is no such submission, or a run is grading.
    """
    require(course, entry, student)
    paths, held = parts(course, entry, student), marks(course, entry, student)
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    target = course.tree / "removed" / f"{stamp}-{student}-{entry.name}"
    with run_lock.exclusive_run(course):
        journal.note(course, "remove", reason, student=student, notebook=entry.name, kept_in=target.name)
        if held:
            course_tree.write_json(target / "gradebook.json", held)  # before it is gone there
            with Gradebook(course_tree.database(course), course.course_id) as gradebook:
                why = f"remove {student} {entry.number}{': ' * bool(reason)}{reason}"
                with mark_log.signed(gradebook.db(), why):
                    gradebook.remove_submission(entry.name, student)
                    if not gradebook.student_submissions(student):
                        gradebook.remove_student(student)
        for path in paths:
            place = target / path.relative_to(course.tree)
            place.parent.mkdir(parents=True, exist_ok=True)
            path.rename(place)
            if path.parent.name == student and not any(path.parent.iterdir()):
                path.parent.rmdir()
    return target


def handed_in(course: Course, student: str) -> list[NotebookEntry]:
    """The notebooks of which the tree or the gradebook has something of this student.

    Raises:
        CourseError: none.
    """
    entries = [
        entry
        for entry in course.notebooks
        if (parts(course, entry, student) or marks(course, entry, student)) and not _is_members(course, entry, student)
    ]
    if not entries:
        raise CourseError(f"there is no submission of `{student}`: `autograder status` shows those that there are")
    return entries


def several(course: Course, entry: NotebookEntry, student: str) -> list[Path]:
    """The kept submissions of a student, the latest last.

    Raises:
        CourseError: there are not two.
    """
    require(course, entry, student)
    kept = kept_submissions.kept_hand_ins(course, entry, student)
    if len(kept) < 2:
        raise CourseError(f"{student} handed {entry.name} in once only: there is nothing to go back to")
    return kept


def remove_latest(course: Course, entry: NotebookEntry, student: str, reason: str = "") -> Path:
    """Go back to the submission before the latest one, which is moved to the folder that is returned.

    What is graded changes with the next `autograder grade`.

    Raises:
        CourseError: there are not two submissions, or a run is grading.
    """
    kept = several(course, entry, student)
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    target = course.tree / "removed" / f"{stamp}-{student}-{entry.name}"
    with run_lock.exclusive_run(course):
        about = {"student": student, "notebook": entry.name, "kept_in": target.name}
        journal.note(course, f"remove --latest: {kept[-2].name} counts again", reason, **about)
        target.mkdir(parents=True)
        for path in (
            *(kept[-1].with_suffix(suffix) for suffix in (kept_submissions.RESULTS, kept_submissions.SECRET)),
            kept[-1],
        ):
            if path.exists():
                path.rename(target / path.name)
        kept_submissions.place_latest(course, entry, student)
    return target


def _known(course: Course, entry: NotebookEntry) -> str:
    students = students_of(course, entry)
    shown = ", ".join(students[:10]) + (", ..." if len(students) > 10 else "")
    return f"it was handed in by {shown}" if students else "nobody handed it in"
