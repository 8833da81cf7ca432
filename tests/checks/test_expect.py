"""What checks say over and over: which sentence an answer gets, and that a right one gets none."""

import random

import pytest
import torch
from torch import nn

from utils.grading import dispatch, expect
from utils.grading.remote import StudentError, calls_remembered, libraries, named

GUESSES = {"it is twice too large.": 4.0, "it is what was wanted.": 2.0}


def asked(**objects):
    """The one object as a check sees it."""
    ((name, _),) = objects.items()
    return named(lambda request: dispatch.answer(objects, request), name)


def says(call, *args, **options):
    """The sentence with which an expectation fails, None if it does not."""
    try:
        call(*args, **options)
    except AssertionError as told:
        return str(told)
    return None


@pytest.mark.parametrize(
    "value, told",
    [
        (2.0, None),
        (2.0001, None),
        (torch.tensor([2.0]), None),
        (2.001, "it is wrong. Your code gives 2.001, which is too large."),
        (4.0001, "it is twice too large."),
        (0.0, "it is wrong. Your code gives 0, which is too small."),
        (float("nan"), "the sum is NaN."),
        ([2.0], "the sum should be a number, not a list or a tuple."),
    ],
)
def test_a_number_is_explained_by_its_guess(value, told):
    assert says(expect.number_like, value, 2.0, "the sum", "it is wrong.", GUESSES) == told


def test_what_is_of_another_kind_is_named():
    assert expect.items([1, 2], 2, "f should return a pair") == [1, 2]
    assert says(expect.items, [1], 2, "f should return a pair").startswith("f should return a pair, not a list")
    assert expect.fields({"a": 1, "b": 2}, ("a",), "f should return a dict") == {"a": 1, "b": 2}
    assert says(expect.fields, {"b": 2}, ("a",), "f should return a dict") == "the report has no `a`."
    assert says(expect.fields, None, ("a",), "f should return a dict").startswith("f should return a dict, not None")
    assert says(expect.of_type, True, int, "n should be an int") == "n should be an int, not a bool."


class TooSmall(ValueError):
    """An exception of a student's own: it is a ValueError."""


def test_what_must_be_refused_and_what_must_not():
    def picky(number, low=0):
        if number < low - 50:
            raise TooSmall
        if number < low:
            raise ValueError("too small")
        if number > 9:
            raise KeyError(number)
        if number == 5:
            raise NotImplementedError
        return number

    call = asked(picky=picky)
    assert says(expect.refuses, call, 1, low=2, says="refuse it.") is None
    assert says(expect.refuses, call, -60, says="refuse it.") is None
    assert says(expect.refuses, call, -60, says="refuse it.", kinds=("KeyError",)) == "refuse it. It raised TooSmall."
    assert says(expect.refuses, call, 1, says="refuse it.") == "refuse it."
    assert says(expect.refuses, call, 10, says="refuse it.") == "refuse it. It raised KeyError."
    assert says(expect.refuses, call, 10, says="refuse it.", kinds=("KeyError",)) is None
    assert expect.answers(call, 3, says="take it.") == 3
    assert says(expect.answers, call, 1, low=2, says="take it.") == "take it. It raised ValueError: too small"
    for expectation in (expect.refuses, expect.answers):
        with pytest.raises(StudentError) as blank:  # a stub is not an answer, wrong or right
            expectation(call, 5, says="whatever")
        assert blank.value.blank
    with pytest.raises(StudentError):
        expect.answers(call, 10, says="take it.", kinds=("ValueError",))


@pytest.mark.parametrize("came", [[1.0, 2.0], (1.0, 2.0), "1", None, True, torch.tensor([1 + 5j, 2 - 5j]), 1 + 5j])
def test_only_real_numbers_are_close(came):
    wanted = torch.tensor([1.0, 2.0]) if not isinstance(came, bool | complex) else 1.0
    assert "Real numbers are wanted, not" in says(expect.close, came, wanted, "wrong.")
    assert says(expect.close, torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0]), "wrong.") is None


def test_twins_have_the_same_weights():
    lib = libraries(lambda request: dispatch.answer({}, request))
    theirs, ours = expect.twins(lib, lambda parts: parts.Sequential(parts.Linear(2, 3), parts.LayerNorm(3)), 7)
    state, x = ours.state_dict(), expect.normal(4, 2)
    assert expect.agree(theirs.state_dict(), state) and torch.allclose(theirs(x), ours(x))
    assert not torch.equal(state["0.bias"], state["1.bias"]) and isinstance(ours, nn.Sequential)
    theirs.load_state_dict(state | {"1.bias": state["1.bias"] + 1})
    assert expect.agree(theirs.state_dict(), state, "0") and not expect.agree(theirs.state_dict(), state, "1")


def test_what_is_wrong_is_looked_at_only_where_no_guess_explains_it():
    looked = []

    def closer():
        looked.append(1)
        return "row 1 is wrong."

    right, guesses = torch.tensor([1.0, 2.0]), {"it is doubled.": torch.tensor([2.0, 4.0])}
    expect.like(right, right, closer, guesses)
    with pytest.raises(AssertionError, match="doubled"):
        expect.like(2 * right, right, closer, guesses)
    assert looked == []
    with pytest.raises(AssertionError, match="row 1 is wrong"):
        expect.like(3 * right, right, closer, guesses)


@pytest.mark.parametrize(
    "found, told",
    [
        ((2.0, 3.0), ""),
        ((4.0, 6.0), "it is twice as large."),
        ((4.0, 3.0), "the numbers are wrong."),  # one number alone may be that of a mistake by chance
        ((4.0, 7.0), "the numbers are wrong."),
        ((4.0, None), "a number should be a number, not None (is a `return` missing?)."),
    ],
)
def test_a_sentence_must_explain_every_number_that_is_wrong(found, told):
    cases = [
        (value, right, {"it is twice as large.": 2 * right, "it is a third.": right / 3})
        for value, right in zip(found, (2.0, 3.0), strict=True)
    ]
    if not told:
        expect.numbers_like(cases, "a number", "the numbers are wrong.")
        return
    with pytest.raises(AssertionError) as wrong:
        expect.numbers_like(cases, "a number", "the numbers are wrong.")
    assert str(wrong.value) == told


FIRST = "The first wrong number is at `[3]`; 1 of 4 is wrong. There your code gives 4, and 5 is right."
EACH = "Every number is wrong. At `[0]` your code gives 1."  # what is right would be half of the answer
ENTRY = "The first wrong entry is at `[2]`; 2 of 4 are wrong. There your code gives True, and False is right."
NEAR = "The numbers are near the right ones, but not near enough: they differ by up to 3e-06."


@pytest.mark.parametrize(
    "came, wanted, says",
    [
        ([2.0, 3.0, 4.0, 4.0], [2.0, 3.0, 4.0, 5.0], FIRST),
        ([1.0, 0.0], [2.0, 7.0], EACH),
        ([True, True, True, True], [True, True, False, False], ENTRY),
        ([0.1, 0.2, 0.3, 0.400003], [0.1, 0.2, 0.3, 0.4], NEAR),
        ([1.00000002], [1.0], "Your code gives 1, which is too large by 2e-08."),
        ([1.00002, 2.00004], [1.0, 2.0], "All numbers are 1.00002 times as large as they should be."),
    ],
)
def test_a_difference_says_what_came_and_where(came, wanted, says):
    came, wanted = (torch.tensor(one, dtype=None if one[0] is True else torch.float64) for one in (came, wanted))
    assert expect.difference(came, wanted, 1e-9, 1e-9) == says


def test_a_sentence_shows_the_call_that_gave_what_came():
    def share(first, other, *, names=(), table=None):
        return {"list": [first, other], "tensor": torch.ones(2, 2)}.get(names, 0.5)

    call, numbers = asked(share=share), torch.zeros(2, 3)
    with calls_remembered():
        half, pair, square = (
            call([1.5, 2], {"a": numbers}),
            call(1, 2, names="list"),
            call(numbers, 1, names="tensor"),
        )
        wrong = "it is wrong."
        gave = "This is what `share([1.5, 2], {'a': <tensor (2, 3)>})` gave."
        small = "Your code gives 0.5, which is too small."
        assert says(expect.number_like, half, 1.0, "it", wrong) == f"{wrong} {small} {gave}"
        assert says(expect.explained, pair, [2, 1], wrong, {}) == (
            f"{wrong} Your code gives `[1, 2]`. This is what `share(1, 2, names='list')` gave."
        )
        assert says(expect.like, square, torch.eye(2), wrong, {}).endswith(
            "There your code gives 1, and 0 is right. This is what `share(<tensor (2, 3)>, 1, names='tensor')` gave."
        )
        assert says(expect.like, square, torch.eye(2), "`share(x)` is wrong.", {}).endswith("0 is right.")
        assert says(expect.like, square.clone(), torch.eye(2), wrong, {}).endswith("0 is right."), "nobody gave that"
        pair = call("a" * 200, 2, names="list")
        assert "This is" not in says(expect.explained, pair, [2, 1], wrong, {}), "it would be too long"
    assert says(expect.explained, [1], [2], wrong, {}) == f"{wrong} Your code gives `[1]`."


@pytest.mark.parametrize(
    "trials, p", [(300, 0.5), (1000, 0.1), (1000, 0.003), (100, 0.01), (50_000, 0.2), (2000, 1e-6)]
)
def test_counts_that_come_by_chance_are_likely(trials, p):
    """At both ends of what is accepted, as many are refused as of a normal distribution beyond six deviations."""
    from scipy import stats

    accepted = [count for count in range(trials + 1) if expect.plausible(count, trials, p)]
    assert accepted == [*range(accepted[0], accepted[-1] + 1)]
    law, most = stats.binom(trials, p), 2 * stats.norm.sf(6)
    refused = law.cdf(accepted[0] - 1) + law.sf(accepted[-1])
    assert refused < 2 * most
    assert law.sf(accepted[-1] - 2) > most / 50, "more is accepted than chance gives"


def test_what_never_or_always_happens_is_no_chance():
    assert expect.plausible(0, 100, 0.0) and expect.plausible(100, 100, 1.0)
    assert not expect.plausible(1, 100, 0.0) and not expect.plausible(99, 100, 1.0)
    assert expect.even({"a": 1}, {"b": 1.0}, 1, {}) == 2
    assert expect.even({"a": 100}, {"a": 1.0}, 100, {}) == 0


def test_rare_pairs_are_independent_as_often_as_chance_gives_them():
    some = random.Random(3)
    for _ in range(300):  # with 400 pairs of 40 and 40, a combination comes once in four times
        expect.independent([(some.randrange(40), some.randrange(40)) for _ in range(400)], "told")
    told = "a second tells of the first"
    with pytest.raises(AssertionError, match=told):
        expect.independent([(one, one % 2) for one in range(4)] * 40, told)
    thirds = [(some.randrange(3), some.randrange(3)) for _ in range(4000)]
    expect.independent(thirds, told)
    with pytest.raises(AssertionError, match=told):  # once in five, the second is the first
        expect.independent([(one, one if some.random() < 0.2 else other) for one, other in thirds], told)


def test_more_different_pairs_than_a_check_compares_are_refused():
    with pytest.raises(AssertionError, match="told"):
        expect.independent([(one, -one) for one in range(400)], "told")


def test_weights_of_another_shape_do_not_agree():
    assert not expect.agree({"a": torch.ones(1, 9, 1, 1)}, {"a": torch.ones(4, 5)})
