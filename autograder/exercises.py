"""What a module of checks states of its exercises, read from its source: no check is imported.

Modules are asked by many commands, most of which need no check to run, and importing a check brings torch.
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TypeGuard

from autograder.cells import CellRole
from autograder.course_error import CourseError


class Kind(StrEnum):
    """The decorator that says which exercise a function is for."""

    CHECK = "check"
    RUNS = "results_check"  # graded from experiments' runs
    STRETCH = "stretch"  # run by students, graded by nobody
    PRIVATE = "private"  # asked by the judge after the public check


@dataclass(frozen=True)
class Exercise:
    """An exercise, as its public check states it."""

    number: str
    kind: Kind
    points: float | None  # as the author gave them; None if they are not written as a number
    parts: tuple[tuple[str, float], ...]  # the points of each part by name
    variant: bool  # whether it has numbers of the student's own

    @property
    def role(self) -> CellRole:
        """What the cell below it is for."""
        return CellRole.STRETCH_CHECK if self.kind is Kind.STRETCH else CellRole.CHECK


@dataclass(frozen=True)
class ExerciseIndex:
    """The exercises that a module of checks is for, in the order of its source."""

    exercises: tuple[Exercise, ...] = ()

    def __iter__(self) -> Iterator[Exercise]:
        return iter(self.exercises)

    def with_number(self, number: str) -> Exercise | None:
        """The exercise of this number, if there is one."""
        return next((exercise for exercise in self if exercise.number == number), None)


@lru_cache(maxsize=64)
def index_of(text: str, where: str) -> ExerciseIndex:
    """The exercises of a module of public checks, however its decorators are written.

    Args:
        where: how messages name the module.

    Raises:
        CourseError: a decorator does not state the exercise as text, or parts are not written as they must be.
    """
    tree = ast.parse(text)
    nodes = [*ast.walk(tree)]  # once: it takes a third of the time that parsing takes
    parts = _parts(tree, nodes, where)
    exercises = []
    for call, kind, function in _marks(tree, nodes):
        if kind is Kind.PRIVATE:
            continue
        number = _stated(call, "exercise", 0)
        if not isinstance(number, str):
            raise CourseError(f"{where}, line {call.lineno}: give `{kind}` the exercise as text, like 5.11")
        points = 0.0 if kind is Kind.STRETCH else _stated(call, "points", 1)
        variant = any(keyword.arg == "variant" for keyword in call.keywords) or len(call.args) > 3
        exercises.append(
            Exercise(
                number,
                kind,
                float(points) if isinstance(points, (int, float)) else None,
                tuple(parts.get(function, {}).items()),
                kind is Kind.CHECK and variant,
            )
        )
    return ExerciseIndex(tuple(exercises))


@lru_cache(maxsize=64)
def by_exercise(text: str) -> list[tuple[str, str]]:
    """The statements of a module of checks, each with the exercise that it is for, "" if it is for all."""
    tree = ast.parse(text)
    names = _names(ast.walk(tree))
    decorated = []
    for node in tree.body:
        numbers = [_stated(call, "exercise", 0) for call, _ in _markers(getattr(node, "decorator_list", ()), names)]
        decorated.append((next((number for number in numbers if isinstance(number, str)), ""), ast.unparse(node)))
    return decorated


@lru_cache(maxsize=64)
def parts_in(text: str, where: str) -> dict[str, dict[str, float]]:
    """The parts that the functions of a module of checks have: by function, the points of each part by name.

    Raises:
        CourseError: a part is not directly in the body of a function, or its name or points are not written out.
    """
    tree = ast.parse(text)
    return _parts(tree, [*ast.walk(tree)], where)


def is_part(node: ast.AST) -> TypeGuard[ast.Call]:
    """Whether it is `part(...)`, or `parts.part(...)`."""
    match node:
        case ast.Call(func=ast.Name(id="part") | ast.Attribute(attr="part")):
            return True
    return False


def _names(nodes: Iterable[ast.AST]) -> dict[str, Kind]:
    """What the decorators are called in a module: their own names, and those under which it imports them."""
    imported = [alias for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names]
    renamed = {alias.asname: Kind(alias.name) for alias in imported if alias.asname and alias.name in {*Kind}}
    return {str(kind): kind for kind in Kind} | renamed


def _markers(nodes: Iterable[ast.expr], names: dict[str, Kind]) -> Iterator[tuple[ast.Call, Kind]]:
    """Those of some expressions that call a decorator: `check(...)`, `checks.check(...)` or what it is imported as."""
    for node in nodes:
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in names:
                yield node, names[name]
            case ast.Call(func=ast.Attribute(attr=name)) if name in {*Kind}:
                yield node, Kind(name)


def _marks(tree: ast.Module, nodes: list[ast.AST]) -> Iterator[tuple[ast.Call, Kind, str]]:
    """Every call of a decorator that makes a check, with the function below it, "" if it is not written as one.

    A call of `results_check` counts wherever it is: runs that are not collected are lost. One of `check` inside of a
    function is any function of that name.
    """
    names = _names(nodes)
    above = {}
    for node in tree.body:
        decorators = getattr(node, "decorator_list", None)
        inside = (
            decorators if decorators is not None else [call for call in ast.walk(node) if isinstance(call, ast.Call)]
        )
        above.update({call: getattr(node, "name", "") for call, _ in _markers(inside, names)})
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    for call, kind in sorted(_markers(calls, names), key=lambda mark: (mark[0].lineno, mark[0].col_offset)):
        if call in above or kind is Kind.RUNS:
            yield call, kind, above.get(call, "")


def _stated(call: ast.Call, name: str, place: int) -> object:
    """The constant that a call gives to a parameter; None if it is not a constant, or not given."""
    given = [keyword.value for keyword in call.keywords if keyword.arg == name] + call.args[place : place + 1]
    return given[0].value if given and isinstance(given[0], ast.Constant) else None


def _parts(tree: ast.Module, nodes: list[ast.AST], where: str) -> dict[str, dict[str, float]]:
    parts: dict[str, dict[str, float]] = {}
    reached = set()
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    for function in functions:
        for statement in function.body:
            if not isinstance(statement, ast.With) or not any(is_part(item.context_expr) for item in statement.items):
                continue
            name, points = _name_and_points(statement, where)
            mine = parts.setdefault(function.name, {})
            if name in mine:
                raise CourseError(f'{where}, line {statement.lineno}: there are two parts "{name}"')
            mine[name] = points
            reached.add(statement.items[0].context_expr)
    for node in [node for function in functions if function.name in parts for node in _own(function)]:
        if isinstance(node, ast.Return):
            why = "a check with parts has no `return`, so that all of them are reached"
            raise CourseError(f"{where}, line {node.lineno}: {why}")
    for node in nodes:
        if is_part(node) and node not in reached:
            raise CourseError(
                f"{where}, line {node.lineno}: a part stands directly in the body of its check, and not in a loop, a "
                "condition, another part or a function of its own, so that it is always reached"
            )
    return parts


def _name_and_points(statement: ast.With, where: str) -> tuple[str, float]:
    """What `with part("the loss", 1):` states."""
    match statement.items:
        case [ast.withitem(context_expr=ast.Call(args=[ast.Constant(name), ast.Constant(points)], keywords=[]))]:
            if isinstance(name, str) and name and type(points) in (int, float) and points > 0:  # type: ignore[operator]
                return name, float(points)  # type: ignore[arg-type]
    raise CourseError(
        f'{where}, line {statement.lineno}: a part is written with its name and its points: with part("the loss", 1):'
    )


def _own(function: ast.AST) -> Iterator[ast.AST]:
    """What a function does itself, without the functions that it defines."""
    for node in ast.iter_child_nodes(function):
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield from _own(node)
