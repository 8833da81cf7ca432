"""Questions to predict: an author writes the call of `predict` with the answer in it, and students get it without.

`predict("1.1", "b", a="flatter", b="sharper")` asks for a letter, `predict("1.2", 6)` for a number. A question has the
number of the exercise whose check shows the answer, or one that its author gives to an experiment: "2.E1", of which
`reveal("2.E1")` shows the answer.
"""

import ast
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from autograder.cells import CellRole, exercise_of, role_of
from autograder.course_error import CourseError
from utils.predictions import Question, read

CALLED = re.compile(r"\b(?:predict|reveal)\(")
NUMBER = re.compile(r"\d+\.[SE]?\d+")
HOW = 'write it like predict("1.1", "b", a="flatter", b="sharper") or predict("1.2", 6, within=1), alone in its cell'
INVITATION = """\
# Your prediction, optional and without points: write {wanted} between the quotes "", and run this cell.
# {when} shows your prediction beside the result.
"""
CHECKED, MEASURED = "The check below, once it has passed,", "The experiment below"


@dataclass(frozen=True)
class Asked:
    """A cell that asks for a prediction: the question, and the cell's source without its answer."""

    question: Question
    source: str


def asked(source: str, where: str) -> Asked | None:
    """What a cell of the author's asks to predict; None if it does not.

    Raises:
        CourseError: the call of `predict` is not as it must be; the message begins with `where`.
    """
    tree = _tree(source)
    if not any(_name(call) == "predict" for call in _calls(tree)):
        return None
    match tree.body:
        case [ast.Expr(ast.Call(func=ast.Name("predict")) as call)]:
            pass
        case _:
            raise CourseError(f"{where}: other code is in the cell of a question to predict: {HOW}")
    try:
        number, answer = (ast.literal_eval(argument) for argument in call.args)
        options = {str(option.arg): ast.literal_eval(option.value) for option in call.keywords}
    except ValueError:
        raise CourseError(f"{where}: a question to predict has no number and answer: {HOW}") from None
    question = _question(number, answer, options, where)
    return Asked(question, _without_answer(source, call.args[1], question))


def _question(number: Any, answer: Any, options: dict[str, Any], where: str) -> Question:
    within = options.pop("within", 0)
    if not isinstance(number, str) or not NUMBER.fullmatch(number):
        raise CourseError(f"{where}: `{number}` is not the number of an exercise or experiment, 1.1 or 1.E1: {HOW}")
    if not options:
        if type(answer) not in (int, float) or type(within) not in (int, float) or within < 0:
            raise CourseError(f"{where}: {number} asks for a number, and `{answer}` is its answer: {HOW}")
        return Question(number, answer, {}, within)
    if within or list(options) != [chr(ord("a") + place) for place in range(len(options))] or len(options) < 2:
        raise CourseError(f"{where}: the choices of {number} are not a, b and so on: {HOW}")
    if answer not in options:
        raise CourseError(f"{where}: the answer of {number}, `{answer}`, is not the letter of a choice: {HOW}")
    texts = [choice.strip().lower() if isinstance(choice, str) else "" for choice in options.values()]
    if "" in texts or len({*texts}) < len(texts):
        raise CourseError(f"{where}: two choices of {number} have the same text, or one has none: {HOW}")
    return Question(number, answer, options)


def _without_answer(source: str, answer: ast.expr, question: Question) -> str:
    """The cell as students get it; above it what to do, unless the author wrote a comment there."""
    lines = source.splitlines(keepends=True)
    line = lines[answer.lineno - 1].encode()
    lines[answer.lineno - 1] = (line[: answer.col_offset] + b'""' + line[answer.end_col_offset :]).decode()
    if source.lstrip().startswith("#"):
        return "".join(lines)
    wanted = question.wanted() if question.choices else "a number"
    when = MEASURED if ".E" in question.number else CHECKED
    return INVITATION.format(wanted=wanted, when=when) + "".join(lines)


def must_fit(cells: Iterable[NotebookNode], where: str) -> None:
    """See that something shows the answer of each question, below it: the check of its exercise, or `reveal`.

    Raises:
        CourseError: nothing does, or it is above the question.
    """
    open_questions: set[str] = set()
    closed: set[str] = set()
    for cell in cells:
        role = role_of(cell.id)
        if role is CellRole.PREDICTION:
            number = exercise_of(cell.id)
            if number in closed:
                raise CourseError(f"{where}: the prediction of {number} is asked below its answer: move it up")
            open_questions.add(number)
            continue
        is_check = role in (CellRole.CHECK, CellRole.STRETCH_CHECK)
        for name in [exercise_of(cell.id)] if is_check else _revealed(cell):
            if name not in open_questions and not is_check:
                raise CourseError(f'{where}: reveal("{name}") shows an answer, and nothing asked for it before')
            open_questions.discard(name)
            closed.add(name)
    if open_questions:
        name = min(open_questions)
        raise CourseError(
            f'{where}: nothing shows the answer of {name}: it needs a check below it, or reveal("{name}")'
        )


def _revealed(cell: NotebookNode) -> Iterable[str]:
    for call in _calls(_tree(cell.source if cell.cell_type == "code" else "")):
        match call:
            case ast.Call(func=ast.Name("reveal"), args=[ast.Constant(str(name))]):
                yield name


def _tree(source: str) -> ast.Module:
    """A cell that may ask or answer, parsed; of code that is IPython's, not Python's, nothing."""
    try:
        return ast.parse(source if CALLED.search(source) else "")
    except SyntaxError:
        return ast.parse("")


def _calls(tree: ast.Module) -> list[ast.Call]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def _name(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


def text_of(questions: Iterable[Question]) -> str:
    """The file of answers that students' sessions and the class report read; "" without a question."""
    stated = {question.number: _plain(question) for question in questions}
    return json.dumps(stated, indent=1, ensure_ascii=False) + "\n" if stated else ""


def differing(questions: Iterable[Question], path: Path) -> list[Question]:
    """Those that the file of answers at `path` does not have, or has otherwise."""
    known = read(path)
    return [question for question in questions if known.get(question.number) != question]


def _plain(question: Question) -> dict[str, Any]:
    within = {"within": question.within} if question.within else {}
    return {"answer": question.answer, "choices": dict(question.choices)} | within
