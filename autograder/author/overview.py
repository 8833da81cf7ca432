"""The course at a glance, read from its notebooks: exercises, points, minutes, and which exercise uses which.

README's list of notebooks is written from `course.toml` by `autograder build`; the documentation draws the rest.
"""

import ast
import re
from collections.abc import Collection
from dataclasses import dataclass, field

from nbformat import NotebookNode

from autograder.author import build
from autograder.cells import CellRole, exercise_of, role_of
from autograder.course import FOLDER, Course, NotebookEntry
from utils import files

README = FOLDER / "README.md"
BEGIN, END = "<!-- from course.toml, by autograder build -->", "<!-- end -->"
TITLE = re.compile(r"## (\d+\.S?\d+) (.+)")
LEVELS = ("easy", "medium", "hard")  # how hard an exercise is, by its author's judgement: see docs/authors.md
MINUTES = re.compile(rf"about\s+(\d+)\s+minutes(?:,\s+({'|'.join(LEVELS)}))?")
NUMBER = re.compile(r"([\w.$]+)[ `]+(\d+\.\d+)\b")  # with the word before it
EXERCISE = ("exercise", "Exercise", "exercises")  # before the number of another notebook's: 2.3 may be points
NOTEBOOK = re.compile(r"\b[Nn]otebook (\d\d)\b")
OTHERS = ("section", "table", "figure", "SQuAD", "version")  # what else has such numbers


@dataclass
class Exercise:
    """One exercise, or one written question, as the overview shows it."""

    number: str
    title: str = ""
    points: float = 0.0
    minutes: int = 0
    level: str = ""  # one of LEVELS; "" for a written question
    uses: list[str] = field(default_factory=list)  # earlier exercises, and earlier notebooks by their two digits


def exercises(course: Course, entry: NotebookEntry, known: Collection[str] = ()) -> list[Exercise]:
    """The exercises of a notebook in order, without stretch exercises.

    One exercise uses another if its cells use a name that the other defines, or if its text mentions it: by its
    number in the same notebook, as "exercise 7.4" in another one.

    Args:
        known: the numbers of exercises that a text can mean; by default those of this notebook.
    """
    notebook = build.solution_notebook(course, entry)
    by_section = {
        exercise_of(cell.id): Exercise(exercise_of(cell.id), points=cell.metadata.nbgrader.points)
        for cell in notebook.cells
        if cell.get("metadata", {}).get("nbgrader", {}).get("grade")
    }
    known, made, section = {*known, *by_section}, _defined(notebook), ""
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and cell.source.startswith("#"):
            heading = TITLE.match(cell.source)
            section = heading[1] if heading else ""
            if heading and section in by_section:
                by_section[section].title = heading[2]
        row = by_section.get(section)
        if row is None:
            continue
        if stated := MINUTES.search(cell.source):
            row.minutes += int(stated[1])
            row.level = row.level or stated[2] or ""
        mentioned = [made[name] for name in _names(cell) if name in made]
        mentioned += [
            number
            for word, number in NUMBER.findall(cell.source)
            if word in EXERCISE or (number in by_section and word not in OTHERS)
            if number in known
        ]
        mentioned += NOTEBOOK.findall(cell.source)
        row.uses += [number for number in mentioned if _order(number) < _order(section)]
    for row in by_section.values():
        row.uses = sorted({*row.uses}, key=_order)
    return list(by_section.values())


def readme_list(course: Course) -> str:
    """README's list of the notebooks, with its marks."""
    lines = [f"- [{entry.number}](notebooks/{entry.name}.ipynb) {entry.title}\n" for entry in course.notebooks]
    return f"{BEGIN}\n{''.join(lines)}{END}"


def write_readme(course: Course, check: bool = False) -> bool:
    """Write the list between its marks in README, unless `check`; whether it was stale.

    Without marks there is no list to write. Own settings (`course.local.toml`) are not written into README.
    """
    if course.local:
        return False
    text = README.read_text() if README.is_file() else ""
    head, mark, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (mark and end):
        return False
    fresh = head + readme_list(course) + tail
    if fresh != text and not check:
        files.write(README, fresh)
    return fresh != text


def _defined(notebook: NotebookNode) -> dict[str, str]:
    """The exercise that defines each name."""
    return {
        node.name: exercise_of(cell.id)
        for cell in notebook.cells
        if role_of(cell.id) is CellRole.EXERCISE
        for node in ast.parse(cell.source).body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
    }


def _names(cell: NotebookNode) -> list[str]:
    """The names that a code cell uses; magics do not parse and use none."""
    if cell.cell_type != "code":
        return []
    try:
        return [node.id for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.Name)]
    except SyntaxError:
        return []


def _order(number: str) -> tuple[int, ...]:
    """Where an exercise stands in the course; a notebook, given by its two digits, stands at its end."""
    parts = [int(part) if part.isdigit() else 100 for part in number.split(".")]
    return (parts[0], *(parts[1:] or [100]))
