"""How far grading is: what is graded, what waits and for whom, and where the gradebook says something else."""

from collections.abc import Collection

from autograder.cells import CellRole, role_of
from autograder.course import Course, NotebookEntry
from autograder.gradebook import course_tree, extensions, marks, roster, teams
from autograder.gradebook.extensions import EXCUSED
from autograder.grading import frozen
from autograder.grading.dependencies import Dependencies
from autograder.grading.grading_record import GRADED, jobs, load_record, noted_flags, students_of

PUBLISHED = "published; checks, settings or versions have changed since: `autograder grade` shows what would change"
STATES = ("graded", "waiting", "ungradable")


def status(
    course: Course,
    entry: NotebookEntry,
    around: Dependencies | None = None,
    students: Collection[str] | None = None,
) -> dict[str, dict[str, str]]:
    """The submissions of a notebook by state, each with the reason for it ("" if there is nothing to say).

    `around` is shared by who asks for several notebooks. With `students` only their submissions and those of their
    teams.

    Raises:
        CourseError: the course tree was not built.
    """
    by_state: dict[str, dict[str, str]] = {state: {} for state in STATES}
    for job in jobs(course, entry, students, around):
        trusted = job.known is not None and job.known.trusted
        held = frozen.is_frozen(course, job, trusted)
        waits = "" if held else job.state(trusted)
        if waits or job.known is None:
            by_state["waiting"][job.student] = waits
        elif job.known.status == GRADED:
            states = [PUBLISHED] * held + [f"for you to look at: {flag}" for flag in noted_flags(job)]
            by_state["graded"][job.student] = "; ".join([*(["without a sandbox"] if trusted else []), *states])
        else:
            by_state["ungradable"][job.student] = job.known.reason
    return by_state


def missing(course: Course, entry: NotebookEntry) -> list[str]:
    """The ids of the roster that handed nothing in, and are not excused; nobody without a roster."""
    known = roster.load(course)
    if not known:
        return []
    granted = extensions.extensions(course)
    there = {
        student for submitter in students_of(course, entry) for student in teams.recipients(course, entry, submitter)
    }
    return sorted(
        student for student in {*known.students} - there if not extensions.is_excused(course, entry, student, granted)
    )


def alone(course: Course, entry: NotebookEntry) -> dict[str, str]:
    """The members of teams who also handed in alone, each with the id whose later submission counts for them."""
    return dict(teams.superseded(course, entry))


def excused(course: Course, entry: NotebookEntry) -> list[str]:
    """The students and teams for whom a notebook does not count."""
    granted = extensions.extensions(course)
    return sorted(student for (student, name), given in granted.items() if (name, given) == (entry.name, EXCUSED))


def misplaced(course: Course) -> list[str]:
    """The notebooks in the tree's `submitted/` that no command looks at, because somebody put them elsewhere in it."""
    folder, paths = course.tree / "submitted", []
    for path in sorted(path for depth in ("*", "*/*", "*/*/*") for path in folder.glob(f"{depth}.ipynb")):
        parts = path.relative_to(folder).parts
        placed = len(parts) == 3 and path.with_name(f"{parts[1]}.ipynb").exists()
        if not placed and not any(part.startswith(".") for part in parts):
            paths.append("/".join(parts))
    return paths


def to_mark(course: Course, entry: NotebookEntry) -> dict[str, int]:
    """How many answers of each student wait for a person's mark; of students whose submissions are there."""
    with marks.reading(course) as gradebook:
        waiting = marks.to_mark(gradebook, entry) if gradebook else {}
    return {student: waiting[student] for student in students_of(course, entry) if student in waiting}


def disagreements(course: Course, entry: NotebookEntry) -> dict[str, str]:
    """The students of whom the gradebook says something else than the records, and what to do about it.

    It happens when somebody grades with another tool, or removes files by hand.
    """
    sentences = {}
    with marks.reading(course) as gradebook:
        scores = (marks.scores(gradebook, entry) if gradebook else None) or {}
    there = students_of(course, entry)
    for student, theirs in scores.items():
        if not course_tree.place(course, "submitted", entry, student).exists():
            do = f"`autograder remove {student} {entry.number} --yes` removes the rest"
            sentences[student] = f"the gradebook has it, and the submission is gone: {do}"
        if student not in there:
            continue
        stated = load_record(course, entry, student)
        if stated is None or stated.retry:
            continue
        book = sum(score or 0 for name, score in theirs.items() if role_of(name) is CellRole.CHECK)
        if abs(book - stated.score) > 1e-6:
            sentences[student] = (
                f"the gradebook says {book:g} points, the verdict {stated.score:g}: run `autograder grade`"
            )
    return sentences
