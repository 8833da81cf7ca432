"""What no exercise asks for (NaN, infinity, complex numbers, empty tensors) wins no points, whatever checks compare."""

import ast
import copy
import importlib.util
import math

import numpy as np
import pytest
import torch

from autograder import course
from utils.grading import dispatch, expect, wire
from utils.grading.check import Outcome, check
from utils.grading.parts import part
from utils.grading.remote import COMPLEX, EMPTY, INFINITY, NAN, promised

COURSE = course.load()
SOURCES = [
    *sorted((course.ROOT / "utils" / "checks").glob("nb*.py")),
    *sorted((course.ROOT / "solutions").glob("*/private_checks.py")),
]
ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq)


def passed_by_nan(test, negated=False):
    """The parts of an assertion that are true for NaN or for the wrong shape: ordering and equality below a `not`.

    `torch.allclose` and `torch.isclose` take an empty tensor or a scalar for what it can be broadcast to.
    """
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            yield from passed_by_nan(inner, not negated)
        case ast.Compare(ops=ops) if negated and any(isinstance(op, ORDER) for op in ops):
            yield test
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="allclose" | "isclose")):
            yield test
        case ast.Subscript(value=whole):  # which entries are looked at is another matter
            yield from passed_by_nan(whole, negated)
        case _:
            for part in ast.iter_child_nodes(test):
                yield from passed_by_nan(part, negated)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_assertion_passes_what_is_not_a_number_or_of_another_shape(path):
    tree = ast.parse(path.read_text())
    asserts = [node.test for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    suspect = [f"line {part.lineno}: {ast.unparse(part)}" for one in asserts for part in passed_by_nan(one)]
    assert suspect == []


@pytest.mark.parametrize(
    "test, suspect",
    [
        ("not (x > y)", 1),
        ("not 0.9 < spread < 1.1", 1),
        ("good or not (x == 0).any()", 1),
        ("not (not x <= 1 and other)", 0),
        ("torch.allclose(found, wanted)", 1),
        ("x <= y and (x == 0).all() and not missing", 0),
    ],
)
def test_what_is_suspect_in_an_assertion(test, suspect):
    assert len([*passed_by_nan(ast.parse(test, mode="eval").body)]) == suspect


def test_only_what_is_near_in_shape_and_type_is_near():
    wanted = torch.tensor([1.0])
    assert expect.near(torch.tensor([1.0]), wanted) and torch.allclose(torch.empty(0), wanted)
    for other in (torch.empty(0), torch.tensor(1.0), torch.ones(1, 1), torch.ones(1).double(), wanted.long(), 1.0):
        assert not expect.near(other, wanted)
    assert not expect.near(torch.tensor([math.nan]), torch.tensor([math.nan]))


def lax(answer):
    """A check whose comparisons NaN passes: it is not larger than anything."""
    value = answer()
    for one in value if type(value) is list else [value]:
        found = torch.as_tensor(one)
        assert not (found.real > 1).any() and not (found.real < -1).any(), "too large."


def verdict(asserts, value):
    namespace = {"answer": lambda *given: copy.deepcopy(value)}
    return check("1.1", points=2)(asserts).verdict(lambda request: dispatch.answer(namespace, request), [])


@pytest.mark.parametrize(
    "value, says",
    [
        (0.5, None),
        (torch.tensor([0.5, 1.0]), None),
        (math.nan, NAN),
        (torch.tensor([0.5, math.nan]), NAN),
        (np.array([math.nan]), NAN),
        ([0.5, math.nan], NAN),
        (torch.tensor([0.5 + 0j]), COMPLEX),
    ],
)
def test_a_check_that_lets_nan_pass_is_not_passed(value, says):
    found = verdict(lax, value)
    assert (found.outcome is Outcome.PASSED) == (says is None)
    assert says is None or f"{says} in what your code returns" in found.message


def test_infinity_passes_where_it_is_promised_and_nan_does_not():
    def unpromised(answer):
        answer()

    def with_promise(answer):
        promised(INFINITY)
        answer()

    for value, asserts, passes in (
        (math.inf, unpromised, False),
        (torch.tensor([-math.inf, 0.0]), with_promise, True),
        (torch.tensor([-math.inf, math.nan]), with_promise, False),
    ):
        assert (verdict(asserts, value).outcome is Outcome.PASSED) is passes


def test_an_empty_tensor_passes_where_it_is_promised_or_given():
    def all_of_it(answer):
        assert (answer() > 0).all()

    def with_promise(answer):
        promised(EMPTY)
        assert (answer() > 0).all()

    def given(answer):
        assert (answer([torch.empty(0, 3)]) > 0).all()

    nothing = torch.empty(0, 3)
    assert f"{EMPTY} in what your code returns" in verdict(all_of_it, nothing).message
    assert verdict(with_promise, nothing).outcome is verdict(given, nothing).outcome is Outcome.PASSED
    assert verdict(all_of_it, torch.ones(2, 3)).outcome is Outcome.PASSED


def test_nan_in_a_part_costs_that_part_alone():
    def in_parts(answer):
        with part("first", 1):
            pass
        with part("second", 1):
            answer()

    assert verdict(in_parts, 1.0).score == 2 and verdict(in_parts, math.nan).score == 1


SAMPLE = ["1.6", "2.6", "4.5", "5.10", "10.2"]  # one NaN or infinity won points in these


@pytest.mark.parametrize("exercise", SAMPLE)
def test_a_right_answer_with_one_reply_replaced_wins_nothing(exercise):
    """benchmarks/replies.py does it for every exercise."""
    spec = importlib.util.spec_from_file_location("replies", course.ROOT / "benchmarks" / "replies.py")
    replies = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(replies)
    entry = next(one for one in COURSE.notebooks if one.number == exercise.split(".")[0].zfill(2))
    replaced, won = replies.won(entry, exercise, 8, ("NaN", "all NaN", "infinity", "complex"))
    assert replaced >= 4 and won == []


@pytest.mark.parametrize("kind", ["torch", "numpy", "random"])
def test_a_reported_state_must_be_the_one_that_draws(monkeypatch, kind):
    """A kernel that reports the old states of its global generators is found out by what they draw."""
    import random

    from utils.grading.remote import libraries

    lib = libraries(lambda request: dispatch.answer({}, request))
    first = expect.chance(lib)
    assert expect.chance(lib) == first
    states = {"torch": torch.get_rng_state(), "numpy": np.random.get_state(), "random": random.getstate()}
    module, name = {
        "torch": (torch, "get_rng_state"), "numpy": (np.random, "get_state"), "random": (random, "getstate")
    }[kind]  # fmt: skip
    {"torch": lambda: torch.rand(3), "numpy": lambda: np.random.rand(3), "random": random.random}[kind]()
    monkeypatch.setattr(module, name, lambda: states[kind])
    with pytest.raises(AssertionError, match="draws other numbers than its state says"):
        expect.chance(lib)


@pytest.mark.parametrize("kind", ["torch", "numpy"])
def test_no_state_makes_the_judge_read_beyond_it(kind):
    """numpy believes any place in its state, where a far one ends the process; torch believes too many words left."""
    from utils.grading.remote import libraries

    name, key, place, *gauss = np.random.RandomState(1).get_state()
    states = [torch.Generator().get_state(), [name, key.tolist(), place, *gauss], [3, [1] * 624 + [624], None]]
    if kind == "torch":
        left, following = states[0][8:12].view(torch.int32), states[0][16:24].view(torch.int64)
        left[0], following[0] = 624, 624
    else:
        states[1][2] = 625
    reply = wire.dumps({"value": [states, [[0.5], [0.5], [0.5]]]}, lambda value: 0)
    with pytest.raises(AssertionError, match=f"is not one of {kind}'s"):
        expect.chance(libraries(lambda request: reply))
