"""The cells of a notebook, by their ids: what a cell is for, and of which exercise."""


def cell_id(role: str, exercise: str) -> str:
    """The id of an exercise's cell in a notebook: `check_1_5` of the role check and exercise 1.5."""
    return f"{role}_{exercise.replace('.', '_')}"


def exercise_of(cell: str) -> str:
    """The number in a cell's id: 1.5 of `check_1_5`, `exercise_1_5` or `written_1_5`."""
    return cell.split("_", 1)[1].replace("_", ".")


def is_stretch(exercise: str) -> bool:
    """Whether an exercise of this number is a stretch exercise, which is not graded: 7.S1 is one."""
    return ".S" in exercise
