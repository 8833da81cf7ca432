"""`autograder status`."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from autograder.cli import context, printing
from autograder.cli.parameters import Names, Section
from autograder.course import Course, NotebookEntry


def status(
    notebooks: Names = None,
    section: Section = "",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show what is graded, what waits, and what is ungradable, with reasons."""
    import json as encoder

    from autograder.gradebook import roster, teams
    from autograder.grading.dependencies import Dependencies
    from autograder.reports import progress

    if other := context.other_course():
        of_other_course(other, notebooks, json)
        return
    course = context.load()
    entries = course.select(notebooks)
    around, only = Dependencies(course), roster.in_section(course, section) if section else None

    def within(entry: NotebookEntry, states: dict[str, Any]) -> dict[str, Any]:
        """What is known of the section's students and their teams."""
        people = {submitter: {submitter, *teams.recipients(course, entry, submitter)} for submitter in states}
        return {submitter: value for submitter, value in states.items() if only is None or people[submitter] & only}

    statuses = {entry.name: progress.status(course, entry, around, only) for entry in entries}
    by_hand = {entry.name: within(entry, progress.to_mark(course, entry)) for entry in entries}
    wrong = {entry.name: within(entry, progress.disagreements(course, entry)) for entry in entries}
    alone = {entry.name: within(entry, progress.alone(course, entry)) for entry in entries}
    excused = {entry.name: within(entry, dict.fromkeys(progress.excused(course, entry))) for entry in entries}
    # Of a notebook that nobody handed in yet, only who asks for it wants to read the whole class.
    begun = [entry for entry in entries if notebooks or any(statuses[entry.name].values())]
    missing = {
        entry.name: [student for student in progress.missing(course, entry) if only is None or student in only]
        for entry in begun
    }
    if json:
        whole = {
            name: statuses[name]
            | {"to mark": by_hand[name], "disagree": wrong[name], "nothing handed in": missing.get(name, [])}
            | {"excused": [*excused[name]], "handed in alone": alone[name]}
            for name in statuses
        }
        print(encoder.dumps(whole, indent=1, ensure_ascii=False))
        return
    print_states(course, statuses, by_hand, alone, wrong)
    print_students(excused, missing)
    print_advice(course, statuses)
    printing.print_to_mark(by_hand)


def print_states(course: Course, statuses: dict, by_hand: dict, alone: dict, wrong: dict) -> None:
    """How many submissions of each notebook are in which state, and why some are."""
    from autograder.gradebook import teams
    from autograder.reports import progress

    columns = ("handed in", *progress.STATES, "answers to mark")
    counts, reasons = [], []
    for name, states in statuses.items():
        numbers = [sum(map(len, states.values())), *(len(states[state]) for state in progress.STATES)]
        counts.append((name, *map(str, numbers), str(sum(by_hand[name].values()))))
        for state in progress.STATES:
            whose = {student: teams.shown(course, course.notebook(name), student) for student in states[state]}
            reasons += [(whose[student], name, state, reason) for student, reason in states[state].items() if reason]
        reasons += [
            (student, name, "in a team", f"also handed in alone; the later submission, of {counting}, counts")
            for student, counting in alone[name].items()
        ]
        reasons += [(student, name, "disagree", reason) for student, reason in wrong[name].items()]
    context.console.print(printing.table(("notebook", *columns), counts, right=columns))
    if reasons:
        context.console.print(printing.table(("student", "notebook", "state", "reason"), reasons))


def print_students(excused: dict[str, dict[str, Any]], missing: dict[str, list[str]]) -> None:
    """For whom a notebook does not count, and who handed nothing in."""
    for name, students in excused.items():
        if students and name in missing:
            context.console.print(Text(f"{name}: does not count for {', '.join(students)}, excused"), soft_wrap=True)
    for name, absent in missing.items():
        if absent:
            context.console.print(Text(f"{name}: nothing is handed in by {', '.join(absent)}"), soft_wrap=True)


def print_advice(course: Course, statuses: dict) -> None:
    """What to do next."""
    from autograder.reports import progress

    if misplaced := progress.misplaced(course):
        more = f" and {len(misplaced) - 10} more" if len(misplaced) > 10 else ""
        advice = (
            f"not graded, because a submission is in submitted/STUDENT/NOTEBOOK/NOTEBOOK.ipynb: "
            f"{', '.join(misplaced[:10])}{more}. Collect such files, `autograder collect FOLDER --student ID`"
        )
        context.console.print(Text(context.in_tree(advice)), soft_wrap=True)
    if any(states["waiting"] for states in statuses.values()):
        context.console.print("`autograder grade` grades what is waiting")
    if not any(students for states in statuses.values() for students in states.values()):
        context.console.print("nothing is handed in yet: `autograder collect SOURCE` takes submissions")


def of_other_course(folder: Path, assignments: list[str] | None, json: bool) -> None:
    """The same of a stock nbgrader course."""
    import json as encoder

    from autograder.any_course import directory

    course = directory.open_course(folder)
    names = assignments or directory.assignments(course)
    statuses = {name: directory.states(course, name) for name in names}
    if json:
        print(encoder.dumps(statuses, indent=1, ensure_ascii=False))
        return
    columns = ("handed in", *directory.STATES, "to mark")
    counts, reasons = [], []
    for name, states in statuses.items():
        handed_in = sum(len(states[state]) for state in directory.STATES)
        counts.append((name, str(handed_in), *(str(len(states[state])) for state in (*directory.STATES, "to mark"))))
        reasons += [(student, name, Text(reason)) for student, reason in states[directory.UNGRADABLE].items()]
    context.console.print(printing.table(("assignment", *columns), counts, right=columns))
    if reasons:
        context.console.print(printing.table(("student", "assignment", "reason"), reasons))
    if any(states["waiting"] for states in statuses.values()):
        context.console.print("`autograder nbgrader` grades what is waiting")
