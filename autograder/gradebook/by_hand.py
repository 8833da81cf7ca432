"""What a person says of an answer: a score, a comment, and whether it still waits for one."""

from dataclasses import dataclass

from autograder.course import NotebookEntry
from autograder.gradebook.marks import Reader

HELD = """
select submitted_assignment.student_id, grade_cells.max_score, grade.manual_score, grade.needs_manual_grade,
       (select comment.manual_comment from comment join base_cell as other on comment.cell_id = other.id
        where comment.notebook_id = grade.notebook_id and other.name = base_cell.name) as said
from grade join base_cell on grade.cell_id = base_cell.id
join grade_cells on grade_cells.id = base_cell.id
join submitted_notebook on grade.notebook_id = submitted_notebook.id
join submitted_assignment on submitted_notebook.assignment_id = submitted_assignment.id
join notebook on submitted_notebook.notebook_id = notebook.id
where notebook.name = :name and base_cell.name = :cell
"""


@dataclass(frozen=True)
class HandMark:
    """What the gradebook holds of a person's mark of one answer."""

    score: float | None = None
    waits: bool = True
    comment: str | None = None

    @property
    def by_person(self) -> bool:
        """Whether a person scored or commented it, be it an earlier version of it."""
        return self.score is not None or bool(self.comment)


def held(read: Reader, entry: NotebookEntry, cell: str) -> tuple[dict[str, HandMark], float]:
    """A person's mark of a cell by student, and the points that there are."""
    found, points = {}, 0.0
    for student, most, score, waits, comment in read(HELD, {"name": entry.name, "cell": cell}):
        found[student], points = HandMark(score, bool(waits), comment), most
    return found, points


def differing(found: dict[str, HandMark], wanted: dict[str, HandMark]) -> list[str]:
    """The students of `wanted` whose mark is another one, or none."""
    return [student for student, mark in wanted.items() if found.get(student) != mark]
