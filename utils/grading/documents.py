"""What the checks on pairs of sentences share: documents whose sentences are all different, and pairs with labels."""

from collections.abc import Sequence
from typing import Any

from utils.grading.remote import kind

Pair = tuple[str, str, int]


def named_documents(sizes: Sequence[int]) -> list[list[str]]:
    """Documents of so many sentences, no two of which are the same."""
    return [[f"document {d}, sentence {i}" for i in range(size)] for d, size in enumerate(sizes)]


def labelled_pairs(name: str, value: Any, count: int) -> list[Pair]:
    """`value`, which must be `count` pairs, each two texts and a label; `name` is the function that gave it."""
    assert type(value) is list, f"`{name}` should return a list of tuples, not {kind(value)}."
    assert len(value) == count, f"there are {len(value)} pairs. There should be {count}."
    for item in value:
        assert type(item) is list, f"a pair should be (a, b, label), not {kind(item)}."
        assert len(item) == 3, f"a pair should be (a, b, label), and one has {len(item)} items."
        a, b, label = item
        assert type(a) is str and type(b) is str, f"a and b should be sentences, not {kind(a)} and {kind(b)}."
        assert type(label) in (int, bool) and label in (0, 1), (
            f"the label should be 0 or 1, not {label if type(label) is int else kind(label)}."
        )
    return [(a, b, int(label)) for a, b, label in value]
