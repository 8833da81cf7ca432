"""Instructions that are made up here, with answers that a program can check: sums, numbers to sort, places in French.

The French names are those of CLDR, Unicode's collection, which Babel brings and Jupyter brings Babel: nothing is
downloaded. No instruction to test on is among those to train on. See data/README.md.
"""

import random
from functools import cache
from typing import NamedTuple

KINDS = ("sum", "sort", "French")
SPLITS = ("train", "test")
EVERY = 5  # one in so many sums, sets of numbers and places is to test on
FORM = "Answer in square brackets."


class Instruction(NamedTuple):
    """What is asked, what kind it is of, and the right answer without its brackets."""

    kind: str
    question: str
    answer: str


def load(split: str, each: int, seed: int = 0) -> list[Instruction]:
    """Draw so many different instructions of each kind, shuffled; the same seed draws the same of one Babel.

    Raises:
        ValueError: there is no such split, or a kind has fewer instructions.
    """
    if split not in SPLITS:
        raise ValueError(f"there is no {split!r}: {' and '.join(SPLITS)}")
    draw = random.Random(f"instructions {split} {seed}")
    found = [Instruction(kind, *one) for kind in KINDS for one in draw.sample(_all(kind, split), each)]
    draw.shuffle(found)
    return found


def most(split: str) -> int:
    """Return how many different instructions of each kind there are at least."""
    return min(len(_all(kind, split)) for kind in KINDS)


@cache
def places() -> tuple[tuple[str, str], ...]:
    """The places of CLDR whose English and French names are one word each and differ, in the order of the codes."""
    from babel import Locale

    names = [Locale(language).territories for language in ("en", "fr")]
    both = [(names[0][code], names[1].get(code, "")) for code in sorted(names[0])]
    return tuple((one, other) for one, other in both if one != other and one.isalpha() and other.isalpha())


@cache
def _all(kind: str, split: str) -> list[tuple[str, str]]:
    """Every question of a kind that belongs to a split, with its answer."""
    draw = random.Random(kind)
    if kind == "sum":
        made = [(f"What is {a} + {b}?", str(a + b)) for a in range(10, 50) for b in range(10, 50)]
    elif kind == "sort":
        triples = [draw.sample(range(10, 100), 3) for _ in range(2000)]
        made = [(f"Sort {', '.join(map(str, some))}.", ", ".join(map(str, sorted(some)))) for some in triples]
    else:
        made = [(f"What is {english} in French?", french) for english, french in places()]
    different = [*dict(made).items()]
    draw.shuffle(different)
    kept = [one for place, one in enumerate(different) if (place % EVERY == 0) is (split == "test")]
    return [(f"{question} {FORM}", answer) for question, answer in kept]
