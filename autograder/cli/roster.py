"""`autograder roster`."""

from typing import Annotated, Any

import typer
from rich.text import Text

from autograder.cli import context, printing
from autograder.course import CourseError


def roster(json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Show the class as .course/students.csv lists it: names, what is handed in, extensions."""
    import json as encoder

    from autograder.gradebook import extensions, teams
    from autograder.gradebook import roster as rosters
    from autograder.grading.grading_record import students_of

    course = context.load()
    known = rosters.load(course)
    if known is None:
        raise CourseError(
            f"there is no {course.tree / 'students.csv'}: write one with the columns {', '.join(rosters.COLUMNS)}"
        )
    there = {
        entry.number: {
            student
            for submitter in students_of(course, entry)
            for student in teams.recipients(course, entry, submitter)
        }
        for entry in course.notebooks
    }
    given, listed = extensions.granted(course), teams.load(course)
    rows: list[dict[str, Any]] = [
        {
            "id": person.id,
            "name": f"{person.first_name} {person.last_name}".strip(),
            "email": person.email,
            "platform ids": [*person.platform_ids],
            "handed in": [number for number, ids_there in there.items() if person.id in ids_there],
            "extensions": [
                f"{'all' if row['notebook'] == extensions.ALL else course.notebook(row['notebook']).number}: "
                + row["extension"]
                for row in given
                if row["student"] == person.id
            ],
        }
        | ({"section": person.section} if any(student.section for student in known.students.values()) else {})
        | ({"teams": listed.teams_of(person.id)} if listed else {})
        for person in known.students.values()
    ]
    if json:
        print(encoder.dumps(rows, indent=1, ensure_ascii=False))
        return
    cells = [[Text(cell if isinstance(cell, str) else ", ".join(cell)) for cell in row.values()] for row in rows]
    context.console.print(printing.table(rows[0] if rows else (), cells))
    for name, ids in known.namesakes().items():
        sentence = f"{' and '.join(ids)} are called {name}: each of them writes the id into STUDENT, not the name"
        context.console.print(Text(sentence), soft_wrap=True)
    strangers = sorted({student for ids_there in there.values() for student in ids_there} - {*known.students})
    if strangers:
        context.console.print(Text(f"handed in, and not in the roster: {', '.join(strangers)}"), soft_wrap=True)
