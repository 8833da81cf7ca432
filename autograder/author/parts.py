"""The parts of the public checks, read from their source: names and points are known before any check runs::

    @check("3.10", points=3)
    def training_memory(training_memory, flops_per_token):
        with part("training_memory", 2):
            ...
        with part("flops_per_token", 1):
            ...

A part stands directly in the body of its check, so that it is always reached. What a public check asks can be looked up
and hard-coded, so points are given for a part only if a private check asks for it, too: each part needs a private check
with `part="name"`, and what the parts leave of the exercise's points needs one without.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import TypeGuard

from autograder.course import CourseError
from utils.grading.check import Check, checks_of


def parts_of(check: Check) -> dict[str, float]:
    """The points of each part of a check, by name and in order; {} if it has none.

    Raises:
        CourseError: parts are not written as they must be.
    """
    path = Path(check.asserts.__code__.co_filename)
    known = read(path.read_text(), str(path)).get(check.asserts.__name__, {})
    return {name: points * check.factor for name, points in known.items()}


def must_fit(module: ModuleType, private: Mapping[str, Sequence[str]]) -> None:
    """See that the parts of a module's checks can be lost alone and cannot be won by visible cases.

    Args:
        private: of each exercise the `part` of its private checks, "" where one asks for the whole exercise.

    Raises:
        CourseError: parts are not written as they must be, or a private check is missing, or one too many.
    """
    path = Path(module.__file__ or "")
    known = checks_of(module)
    for number, check in known.items():
        parts, asked = parts_of(check), {*private.get(number, ())}
        where = f"{path}: exercise {number}"
        if sum(parts.values()) > check.points + 1e-9:
            raise CourseError(f"{where} has {check.points:g} points, and its parts have {sum(parts.values()):g}")
        unknown = sorted(asked - {*parts, ""})
        if unknown:
            raise CourseError(f'{where} has no part "{unknown[0]}", for which a private check is written')
        alone = sorted({*parts} - asked)
        if alone:
            raise CourseError(
                f'{where}: no private check is written for the part "{alone[0]}", so whoever knows the public check '
                f'could hard-code its points: add one with part="{alone[0]}"'
            )
        if parts and sum(parts.values()) < check.points - 1e-9 and "" not in asked:
            raise CourseError(
                f"{where}: {check.points - sum(parts.values()):g} of its points are in no part, and no private check "
                "without a part asks for them"
            )
        if parts and sum(parts.values()) < check.points - 1e-9 and not _asks_outside(check):
            raise CourseError(
                f"{where}: {check.points - sum(parts.values()):g} of its points are in no part, and its check asks for "
                "nothing outside of the parts: whoever leaves all blank would have them"
            )
    others = {*read(path.read_text(), str(path))} - {check.asserts.__name__ for check in known.values()}
    if others:
        raise CourseError(f"{path}: {sorted(others)[0]} has parts, and is no check of a graded exercise")


@lru_cache(maxsize=64)
def read(text: str, where: str) -> dict[str, dict[str, float]]:
    """The parts that the functions of a module of checks have: by function, the points of each part by name.

    Raises:
        CourseError: a part is not directly in the body of a function, or its name or points are not written out.
    """
    tree = ast.parse(text)
    found: dict[str, dict[str, float]] = {}
    reached = set()
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    for function in functions:
        for statement in function.body:
            if not isinstance(statement, ast.With) or not any(_is_part(item.context_expr) for item in statement.items):
                continue
            name, points = _name_and_points(statement, where)
            mine = found.setdefault(function.name, {})
            if name in mine:
                raise CourseError(f'{where}, line {statement.lineno}: there are two parts "{name}"')
            mine[name] = points
            reached.add(statement.items[0].context_expr)
    for node in [node for one in functions if one.name in found for node in _own(one)]:
        if isinstance(node, ast.Return):
            told = "a check with parts has no `return`, so that all of them are reached"
            raise CourseError(f"{where}, line {node.lineno}: {told}")
    for node in ast.walk(tree):
        if _is_part(node) and node not in reached:
            raise CourseError(
                f"{where}, line {node.lineno}: a part stands directly in the body of its check, and not in a loop, a "
                "condition, another part or a function of its own, so that it is always reached"
            )
    return found


def _asks_outside(check: Check) -> bool:
    """Whether a check uses one of the student's names outside of its parts."""
    path = Path(check.asserts.__code__.co_filename)
    name = check.asserts.__name__
    (function,) = [
        one for one in ast.parse(path.read_text()).body if isinstance(one, ast.FunctionDef) and one.name == name
    ]
    outside = [one for one in function.body if not (isinstance(one, ast.With) and _is_part(one.items[0].context_expr))]
    used = {node.id for one in outside for node in ast.walk(one) if isinstance(node, ast.Name)}
    return not used.isdisjoint(check.names)


def _name_and_points(statement: ast.With, where: str) -> tuple[str, float]:
    """What `with part("the loss", 1):` states."""
    match statement.items:
        case [ast.withitem(context_expr=ast.Call(args=[ast.Constant(name), ast.Constant(points)], keywords=[]))]:
            if isinstance(name, str) and name and type(points) in (int, float) and points > 0:  # type: ignore[operator]
                return name, float(points)  # type: ignore[arg-type]
    raise CourseError(
        f'{where}, line {statement.lineno}: a part is written with its name and its points: with part("the loss", 1):'
    )


def _is_part(node: ast.AST) -> TypeGuard[ast.Call]:
    """Whether it is `part(...)`, or `parts.part(...)`."""
    match node:
        case ast.Call(func=ast.Name(id="part") | ast.Attribute(attr="part")):
            return True
    return False


def _own(function: ast.AST) -> Iterator[ast.AST]:
    """What a function does itself, without the functions that it defines."""
    for node in ast.iter_child_nodes(function):
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield from _own(node)
