"""The parts of the public checks, read from their source: names and points are known before any check runs::

    @check("3.10", points=3)
    def training_memory(training_memory, flops_per_token):
        with part("training_memory", 2):
            ...
        with part("flops_per_token", 1):
            ...

A part stands directly in the body of its check, so that it is always reached. What a public check asks can be looked up
and hard-coded, so points are given for a part only if a private check asks for it too: each part needs a private check
with `part="name"`, and what the parts leave of the exercise's points needs one without.
"""

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

from autograder.course import CourseError
from autograder.exercises import is_part, parts_in
from utils.grading.check import Check, checks_of


def parts_of(check: Check) -> dict[str, float]:
    """The points of each part of a check, by name and in order; {} if it has none.

    Raises:
        CourseError: parts are not written as they must be.
    """
    path = Path(check.asserts.__code__.co_filename)
    known = parts_in(path.read_text(), str(path)).get(check.asserts.__name__, {})
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
                f'{where}: no private check is written for the part "{alone[0]}", so an answer can '
                f'hard-code what the public check asks: add one with part="{alone[0]}"'
            )
        if parts and sum(parts.values()) < check.points - 1e-9 and "" not in asked:
            raise CourseError(
                f"{where}: {check.points - sum(parts.values()):g} of its points are in no part, and no private check "
                "without a part asks for them"
            )
        if parts and sum(parts.values()) < check.points - 1e-9 and not _asks_outside(check):
            raise CourseError(
                f"{where}: {check.points - sum(parts.values()):g} of its points are in no part, and its check asks for "
                "nothing outside of the parts: a student who leaves all of them blank would have these points"
            )
    others = {*parts_in(path.read_text(), str(path))} - {check.asserts.__name__ for check in known.values()}
    if others:
        raise CourseError(f"{path}: {sorted(others)[0]} has parts, and is not a check of a graded exercise")


def _asks_outside(check: Check) -> bool:
    """Whether a check uses one of the student's names outside of its parts."""
    path = Path(check.asserts.__code__.co_filename)
    name = check.asserts.__name__
    (function,) = [
        statement
        for statement in ast.parse(path.read_text()).body
        if isinstance(statement, ast.FunctionDef) and statement.name == name
    ]
    outside = [
        statement
        for statement in function.body
        if not (isinstance(statement, ast.With) and is_part(statement.items[0].context_expr))
    ]
    used = {node.id for statement in outside for node in ast.walk(statement) if isinstance(node, ast.Name)}
    return not used.isdisjoint(check.names)
