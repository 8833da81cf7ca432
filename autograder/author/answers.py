"""The named wrong answers of a notebook, and the right answers written differently.

An author writes them in `solutions/NN_name/wrong_answers.py` as percent cells, each a whole
replacement of an exercise cell:

    # %% wrong="1.2" name="transposed" says="the past is hidden"
    # %% wrong="1.2" name="knows the visible cases" says="lengths you do not see" private=true
    # %% right="1.2" name="compares indices"

`says` is a phrase that the failure must contain. A wrong answer marked `private` passes at home
and is caught by a private check.
"""

import linecache
from dataclasses import dataclass
from typing import Any

from nbformat import NotebookNode

from autograder.author import build
from autograder.course import Course, CourseError, NotebookEntry, exercise_of, folder_of


@dataclass(frozen=True)
class AnswerCase:
    """One answer to one exercise whose verdict is known."""

    exercise: str
    name: str
    source: str
    says: str | None = None  # None: the answer is right
    private: bool = False

    @property
    def right(self) -> bool:
        """Whether it must pass."""
        return self.says is None


def answer_cases(entry: NotebookEntry) -> list[AnswerCase]:
    """All answers of the notebook's `wrong_answers.py`; none without that file.

    Raises:
        CourseError: a marker is not as it must be.
    """
    path = folder_of(entry) / "wrong_answers.py"
    cases = []
    for cell in build.parts(path) if path.exists() else ():
        match dict(cell.metadata):
            case {"wrong": str(exercise), "name": str(name), "says": str(says), **rest}:
                cases.append(AnswerCase(exercise, name, cell.source, says, rest.get("private") is True))
            case {"right": str(exercise), "name": str(name)}:
                cases.append(AnswerCase(exercise, name, cell.source))
            case marker if cell.cell_type == "code":
                raise CourseError(
                    f"{path}: a cell is marked {marker}; see autograder/author/answers.py for the markers"
                )
    return cases


def reference_cases(course: Course, entry: NotebookEntry) -> list[AnswerCase]:
    """The author's own solution of each exercise."""
    cells = build.solution_notebook(course, entry).cells
    return [
        AnswerCase(exercise_of(cell.id), "the solution", cell.source)
        for cell in cells
        if cell.id.startswith("exercise_")
    ]


def preamble(notebook: NotebookNode) -> list[NotebookNode]:
    """The code cells before the first exercise: the imports that every exercise may count on."""
    first = next(index for index, cell in enumerate(notebook.cells) if cell.id.startswith("exercise_"))
    return [cell for cell in notebook.cells[:first] if cell.cell_type == "code" and cell.id != "setup"]


def at_home(notebook: NotebookNode, source: str, name: str) -> dict[str, Any]:
    """Run the preamble and one exercise cell as a student's kernel would; return the namespace."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for label, text in [*((cell.id, cell.source) for cell in preamble(notebook)), (name, source)]:
        filename = f"<student's {label}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)  # for their own line
        exec(compile(text, filename, "exec"), namespace)
    return namespace
