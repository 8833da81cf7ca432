"""The cells of a notebook, by their ids: what a cell is for, and of which exercise."""

from enum import StrEnum

NOT_RUN = "experiment"  # the tag of cells that grading does not run


class CellRole(StrEnum):
    """What a cell is for: the word with which its id begins."""

    EXERCISE = "exercise"  # the student's code
    CHECK = "check"  # below it, with the score
    WRITTEN = "written"  # an answer that a person marks
    STRETCH = "stretch"  # the student's code for an exercise that nothing grades
    STRETCH_CHECK = "stretchcheck"  # below it
    PREDICTION = "predict"  # above it or above an experiment: what a student expects, without points
    AFTER = "after"  # all else: after the exercise of this number, or at the start


ROLES = {str(role): role for role in CellRole}


def role_of(cell: str) -> CellRole | None:
    """The role that a cell's id states; None of an id without one, such as `setup` or that of a student's own cell."""
    role, separator, _ = cell.partition("_")
    return ROLES.get(role) if separator else None


def cell_id(role: CellRole, exercise: str) -> str:
    """The id of an exercise's cell in a notebook: `check_1_5` of the role check and exercise 1.5."""
    return f"{role}_{exercise.replace('.', '_')}"


def exercise_of(cell: str) -> str:
    """The number in a cell's id: 1.5 of `check_1_5`, `exercise_1_5` or `written_1_5`."""
    return cell.split("_", 1)[1].replace("_", ".")


def with_score(cell: str) -> str:
    """The id of the cell that holds the score of this one: that of the check for an exercise, the cell's own else."""
    return cell_id(CellRole.CHECK, exercise_of(cell)) if role_of(cell) is CellRole.EXERCISE else cell


def is_stretch(exercise: str) -> bool:
    """Whether an exercise of this number is a stretch exercise, which is not graded: 7.S1 is one."""
    return ".S" in exercise
