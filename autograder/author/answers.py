"""The named wrong answers of a notebook, and the right answers written differently.

An author writes them in `solutions/NN_name/wrong_answers.py` as percent cells. A cell is a whole exercise cell, or
edits of the author's solution::

    # %% wrong="1.2" name="transposed" says="the past is hidden"
    # - return torch.full((T, T), -torch.inf).triu(diagonal=1)
    # + return torch.full((T, T), -torch.inf).tril(diagonal=-1)

    # %% wrong="1.2" name="knows the visible cases" says="lengths you do not see" private=true
    # %% right="1.2" name="compares indices"

`says` is a phrase that the failure must contain. A wrong answer marked `private` passes at home and is caught by a
private check. Where a check has parts, `loses` names those whose points are lost; without it all points are::

    # %% wrong="3.10" name="multiply-adds" says="counts as one" loses="flops_per_token"
    # %% wrong="8.5" name="all in one" says="two tensors" loses="span_logits, span_loss"

An edit is a piece of a diff, in whole lines: `# -` and a space come before a line that goes, `# +` and a space
before a new one, `#` and three spaces before a line that stays, which says where an insertion belongs, or which of
two equal lines is meant. What goes and what stays must be found exactly once in the solution, where all of it may
be indented further. An empty line divides two edits of one cell; each is made to the solution as it was. With `of`
another answer to the exercise is edited, not the solution: the one of that name, which must be a whole cell::

    # %% wrong="1.1" of="in short" name="not scaled" says="not divided by sqrt(d)"
    # - scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    # + scores = q @ k.transpose(-2, -1)

Several edits of one cell::

    # %% wrong="1.5" name="reads the index of the vocabulary" says="its methods alone"
    #   self.words = SPECIAL + [word for word, _ in counts.most_common(max_size - len(SPECIAL))]
    # + self.index = {word: number for number, word in enumerate(self.words)}

    # - rows = [[SOS, *vocab.encode(sentence), EOS][: max_len + 1] for sentence in sentences]
    # + rows = [[SOS, *(vocab.index[word] for word in sentence.split()), EOS] for sentence in sentences]

This runs all answers of one exercise and no others (`-k 1.1` also those of 1.10)::

    pytest -n 0 tests/checks/test_checks.py -k 1.5
"""

import linecache
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbformat import NotebookNode

from autograder.author import build, edits
from autograder.cells import CellRole, exercise_of, is_stretch, role_of
from autograder.course import Course, CourseError, NotebookEntry, folder_of
from utils import variants

SOMEBODY = "Ada Lovelace"  # whose numbers an exercise has, where it has a student's own

if TYPE_CHECKING:
    from utils.grading.check import Check


@dataclass(frozen=True)
class AnswerCase:
    """One answer to one exercise whose verdict is known."""

    exercise: str
    name: str
    source: str
    says: str | None = None  # None: the answer is right
    private: bool = False
    loses: tuple[str, ...] = ()  # the parts of the check whose points it loses; (): all points of the exercise
    of: str = ""  # the name of the answer that its source was written as edits of; "": the solution, or none

    @property
    def right(self) -> bool:
        """Whether it must pass."""
        return self.says is None

    def is_told(self, message: str) -> bool:
        """Whether a message has the words of `says`, which may begin a sentence there."""
        return self.says is not None and self.says.lower() in message.lower()

    def score(self, check: "Check") -> float:
        """The points that it is worth, private checks included.

        Raises:
            CourseError: `loses` names no part of the check.
        """
        if self.right:
            return check.points
        from utils.grading.results_check import ResultsCheck  # brings torch, and intake needs this module without

        if not self.loses:
            reading = check.reading if isinstance(check, ResultsCheck) else None  # without it, the runs keep theirs
            return check.points - reading.points if reading else 0.0
        from autograder.author.parts import parts_of

        known = parts_of(check)
        if not known.keys() >= {*self.loses}:
            raise CourseError(f'{self.exercise} "{self.name}" loses {self.loses}, and the check has {[*known]}')
        return check.points - sum(known[name] for name in self.loses)


def answer_cases(entry: NotebookEntry, stretch: bool = False) -> list[AnswerCase]:
    """The answers to graded exercises, or to stretch ones, in `wrong_answers.py`; none without that file.

    Raises:
        CourseError: a marker is not as it must be, or an edit cannot be made.
    """
    path = folder_of(entry) / "wrong_answers.py"
    cases = []
    for cell in build.parts(path) if path.exists() else ():
        match dict(cell.metadata):
            case {"wrong": str(exercise), "name": str(name), "says": str(says), **rest}:
                loses = tuple(part.strip() for part in rest.get("loses", "").split(",") if part.strip())
                private, of = rest.get("private") is True, rest.get("of", "")
                cases.append(AnswerCase(exercise, name, cell.source, says, private, loses, of))
            case {"right": str(exercise), "name": str(name), **rest}:
                cases.append(AnswerCase(exercise, name, cell.source, of=rest.get("of", "")))
            case marker if cell.cell_type == "code":
                raise CourseError(
                    f"{path}: a cell is marked {marker}; see autograder/author/answers.py for the markers"
                )
    bases = {
        (cell.metadata[role], ""): cell.source
        for cell in build.parts(path.with_name("notebook.py"))
        for role in ("exercise", "stretch")
        if role in cell.metadata
    }
    bases |= {(case.exercise, case.name): case.source for case in cases if not edits.is_edit(case.source)}
    known = [replace(case, source=_source(case, bases, path)) for case in cases]
    return [case for case in known if is_stretch(case.exercise) == stretch]


def _source(case: AnswerCase, bases: dict[tuple[str, str], str], path: Path) -> str:
    """The cell that the case stands for, from what is written."""
    try:
        if not edits.is_edit(case.source):
            if case.of:
                raise ValueError(f'it is of "{case.of}", and no edit')
            return case.source
        if (case.exercise, case.of) not in bases:
            missing = f'answer "{case.of}" that is a whole cell' if case.of else "such exercise in notebook.py"
            raise ValueError(f"there is no {missing}")
        return edits.edited(bases[case.exercise, case.of], case.source)
    except ValueError as problem:
        raise CourseError(f'{path}: {case.exercise} "{case.name}": {problem}') from None


def reference_cases(course: Course, entry: NotebookEntry, stretch: bool = False) -> list[AnswerCase]:
    """The author's own solution of each graded exercise, or of each stretch one."""
    cells = build.solution_notebook(course, entry).cells
    return [
        AnswerCase(exercise_of(cell.id), "the solution", cell.source)
        for cell in cells
        if role_of(cell.id) is (CellRole.STRETCH if stretch else CellRole.EXERCISE)
    ]


def preamble(notebook: NotebookNode) -> list[NotebookNode]:
    """The code cells before the first exercise: the imports that every exercise may count on."""
    first = next(index for index, cell in enumerate(notebook.cells) if role_of(cell.id) is CellRole.EXERCISE)
    before = [cell for cell in notebook.cells[:first] if role_of(cell.id) is not CellRole.PREDICTION]
    return [cell for cell in before if cell.cell_type == "code" and cell.id != "setup"]


def at_home(notebook: NotebookNode, source: str, name: str) -> dict[str, Any]:
    """Run the preamble and one exercise cell as the kernel of the student SOMEBODY would; return the namespace."""
    variants.answer_for(SOMEBODY)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for label, text in [*((cell.id, cell.source) for cell in preamble(notebook)), (name, source)]:
        filename = f"<student's {label}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)  # for their own line
        exec(compile(text, filename, "exec"), namespace)
    return namespace
