"""A mistake is named once it explains what came for two inputs; for one, the sentence says no more than is known."""

import pytest
import torch

from utils.grading import expect, parts
from utils.grading.misconceptions import ONE_INPUT, named_on_two_inputs
from utils.grading.remote import ForbiddenUsed
from utils.grading.verdict import Outcome

DOUBLED, MORE = "it is doubled.", "one is added."
RIGHT = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 5.0]), torch.tensor([7.0, 4.0])


def says(answer, inputs=RIGHT, then=None):
    """What a check with a comparison for each input says of `answer`, which makes what came of what is right."""
    try:
        with named_on_two_inputs():
            for right in inputs:
                guesses = {DOUBLED: 2 * right, MORE: right + 1}
                expect.like(answer(right), right, f"for {right.tolist()} it is wrong.", guesses)
            if then is not None:
                raise then
    except Exception as failed:
        return str(failed)
    return None


def doubled(right):
    return 2 * right


ALONE = f"for [1.0, 2.0] it is wrong. All numbers are 2 times as large as they should be. {ONE_INPUT} It is doubled."
PLAIN = "for [1.0, 2.0] it is wrong. All numbers are 2 times as large as they should be."


def test_a_mistake_is_named_after_two_inputs():
    assert says(lambda right: right) is None
    assert says(doubled) == DOUBLED
    assert says(lambda right: right + 1) == MORE
    assert says(lambda right: 2 * right if right[0] != 3 else right) == DOUBLED


def test_another_input_can_deny_a_mistake():
    assert says(lambda right: 2 * right if right[0] == 1 else right - 1) == PLAIN
    assert says(lambda right: 2 * right if right[0] == 1 else right + 1) == PLAIN
    both = torch.tensor([1.0, 1.0])  # twice one and one more are the same: the next input tells which it was
    assert says(lambda right: right + 1, (both, *RIGHT)) == MORE
    assert says(lambda right: right + 1, (both, torch.ones(3), *RIGHT)) == MORE
    assert says(doubled, (both, torch.ones(3))) == DOUBLED  # they are the same here: either may be said


def test_for_one_input_no_more_is_said_than_is_known():
    assert says(doubled, RIGHT[:1]) == ALONE
    assert says(doubled, (RIGHT[0], RIGHT[0].clone())) == ALONE  # the same again is not a second input
    assert says(lambda right: 2 * right if right[0] == 1 else right) == ALONE


def test_what_no_mistake_explains_is_said_at_once():
    wrong = "for [1.0, 2.0] it is wrong. All numbers are 3 times as large as they should be."
    assert says(lambda right: 3 * right, then=KeyError("never reached")) == wrong


def test_what_fails_later_does_not_hide_the_comparison():
    assert says(doubled, RIGHT[:1], AssertionError("another thing is wrong.")) == ALONE
    assert says(doubled, RIGHT[:1], KeyError("of the check")) == ALONE
    assert says(doubled, RIGHT, KeyError("never reached")) == DOUBLED
    assert says(doubled, RIGHT[:1], ForbiddenUsed("sorted")) == "sorted"


def test_comparisons_of_other_things_decide_nothing():
    right = RIGHT[0]
    with pytest.raises(AssertionError) as failed, named_on_two_inputs():
        expect.like(2 * right, right, "the sum is wrong.", {DOUBLED: 2 * right})
        expect.number_like(5, 4.0, "the mean", "the mean is wrong.", {"it is one too large.": 5.0})
        expect.explained([1], [2], "the list is wrong.", {})
        expect.like(2 * RIGHT[1], RIGHT[1], "the sum is wrong.", {DOUBLED: 2 * RIGHT[1]})
    assert str(failed.value) == DOUBLED


@pytest.mark.parametrize(
    "compare, came",
    [
        (lambda came: expect.number_like(came, 4.0, "the sum", "it is wrong.", {DOUBLED: 8.0}), (8.0, 8.0)),
        (lambda came: expect.explained(came, "ab", "it is wrong.", {DOUBLED: "abab"}), ("abab", "abab")),
    ],
)
def test_numbers_and_texts_wait_for_a_second_input(compare, came):
    with pytest.raises(AssertionError, match=ONE_INPUT), named_on_two_inputs():
        compare(came[0])
    with pytest.raises(AssertionError, match=ONE_INPUT), named_on_two_inputs():
        compare(came[0])
        compare(came[1])


def test_a_fact_needs_no_second_input():
    right, other = RIGHT[:2]
    with pytest.raises(AssertionError) as failed, named_on_two_inputs():
        expect.like(other, right, "it is wrong.", {"this is what an earlier call gave.": other}, once=True)
    assert str(failed.value) == "this is what an earlier call gave."


def test_parts_of_a_check_have_inputs_of_their_own():
    right = RIGHT[0]
    with parts.each_alone() as found:
        for name in ("first", "second"):
            with parts.part(name, 1):
                expect.like(2 * right, right, f"{name}: for {right.tolist()} it is wrong.", {DOUBLED: 2 * right})
        with parts.part("third", 1):
            pass
    assert [one.outcome for one in found] == [Outcome.WRONG, Outcome.WRONG, Outcome.PASSED]
    assert [one.message.lower() for one in found[:2]] == [f"{name}: {ALONE}".lower() for name in ("first", "second")]
