"""NaN, infinite and complex numbers in a reply win no points, whatever a check's own comparisons make of them."""

import importlib.util
import math

import numpy as np
import pytest
import torch

from autograder import course
from utils.grading import dispatch, expect
from utils.grading.check import Outcome, check
from utils.grading.parts import part
from utils.grading.remote import COMPLEX, INFINITY, NAN, promised

COURSE = course.load()


def lax(answer):
    """A check whose comparisons NaN passes: it is not larger than anything."""
    value = answer()
    for one in value if type(value) is list else [value]:
        found = torch.as_tensor(one)
        assert not (found.real > 1).any() and not (found.real < -1).any(), "too large."


def verdict(asserts, value):
    namespace = {"answer": lambda: value}
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
