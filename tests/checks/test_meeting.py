"""The places of 11.1 that meet: seeds of 32 bits made of three numbers side by side."""

import itertools
import math

from utils.checks.nb11_other_objectives import MEETING


def test_two_places_have_one_seed_of_32_bits_however_the_numbers_stand_side_by_side():
    for rooms in ((1000, 10**6, 1000), (2**10, 2**20, 2**10)):
        for order in itertools.permutations(range(3)):
            weights = [math.prod(rooms[other] for other in order[: order.index(which)]) for which in range(3)]
            numbers = [sum(map(math.prod, zip(place, weights, strict=True))) for place in MEETING]
            assert len({*numbers}) == len(MEETING), "the numbers themselves differ"
            assert len({number % 2**32 for number in numbers}) < len(MEETING)
