"""Checks of notebook 11: masks by number, full rows, Adam, spans and their boundaries, two languages, pairs."""

import functools
import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from utils.checks import nb11_toys as toys
from utils.experiments import objectives
from utils.grading import expect, probes
from utils.grading.check import check, stretch
from utils.grading.contract import Contract, world_kept
from utils.grading.documents import Pair, labelled_pairs, named_documents
from utils.grading.expect import chance, even, likely, normal
from utils.grading.forbidden import MODELS
from utils.grading.remote import EMPTY, Library, Remote, kind, promised
from utils.grading.results_check import results_check

# 11.1

Place = tuple[int, int, int]  # seed, sentence, epoch


def takes_turns(mask_number: Remote, lib: Library, copies: int, epochs: int) -> None:
    """Fail unless so many copies take turns over so many epochs, and without copies every epoch has its own mask."""
    every = list(range(epochs))
    given = lib(toys).each(mask_number, [[epoch, copies] for epoch in every])
    found = [expect.number(one, "what mask_number gives") for one in given]
    wrong = next((epoch for epoch in every if found[epoch] != epoch % copies), 0)
    expect.explained(
        found,
        [epoch % copies for epoch in every],
        f"with {copies} copies, epoch {wrong} gets mask {found[wrong]:g}. The copies take turns, from mask 0 on: after "
        "the last one comes the first again.",
        {
            (
                "with copies, there are more masks than copies. Ten copies have ten "
                "masks, however many epochs there are."
            ): (every),
            "with copies, a mask is used for several epochs in a row. The copies should take turns.": [
                epoch // copies for epoch in every
            ],
            "with copies, all epochs share one mask. The copies should take turns.": [0] * epochs,
            "with copies, the masks count from 1. They should count from 0.": [epoch % copies + 1 for epoch in every],
        },
    )
    for options in ([], [None]):
        given = lib(toys).each(mask_number, [[epoch, *options] for epoch in every])
        found = [expect.number(one, "what mask_number gives") for one in given]
        told = "without copies, some epochs share a mask. Dynamic masking has a new mask for each epoch."
        assert len({*found}) == epochs, told
        assert found == every, "without copies, an epoch's mask should have the epoch's own number."


def hidden_places(value: Any, n: int) -> torch.Tensor:
    """What is hidden, as booleans."""
    found = expect.tensor(value, (n,), "the mask")
    assert found.dtype == torch.bool, f"`masked_places` should return booleans, not {str(found.dtype)[6:]}."
    return found


def told_by_signs(lib: Library, call: Remote, turns: Sequence[Sequence[Any]], n: int) -> list[str]:
    """Each mask of n tokens as a text of the signs 0 and 1."""
    found = expect.of_type(lib(toys).signs_of_each(call, turns), list, "`masked_places` should return booleans")
    told = "`masked_places` should return booleans, one for each token."
    assert all(type(one) is str and len(one) == n and {*one} <= {"0", "1"} for one in found), told
    return found


def as_many(masked_places: Remote, lib: Library, n: int, rate: float | None, sentences: Sequence[int]) -> None:
    """Fail unless exactly so many tokens are hidden as the rate says, in each of the sentences."""
    turns = [[n, sentence, 0, None] + ([] if rate is None else [rate]) for sentence in sentences]
    masks = [hidden_places(one, n) for one in lib(toys).each(masked_places, turns)]
    counts = {int(mask.sum()) for mask in masks}
    given = f"with n = {n} and rate = {0.15 if rate is None else rate}"
    told = f"{given}, some sentences have {min(counts)} hidden tokens and others {max(counts)}. "
    told += "The number should depend on n and rate alone."
    assert len(counts) == 1, told
    (count,), share = counts, (0.15 if rate is None else rate) * n
    wanted = max(1, round(share))
    if count != wanted:
        assert count > 0, f"{given}, no token is hidden. At least one should be."
        swapped = count == n - wanted and abs(n - 2 * share) >= 2
        told = f"{given}, {count} tokens are True and {n - count} False. It should be the other way round: True is "
        told += "hidden."
        assert not swapped, told
        raise AssertionError(
            f"{given}, {count} tokens are hidden. It should be max(1, round(rate * n)), which is {wanted}."
        )


FIELDS = ("the seed", "the number of the sentence", "the epoch, without copies,")


def apart(masked_places: Remote, lib: Library, places: Sequence[Place], n: int = 60) -> None:
    """Fail unless the masks of all these seeds, sentences and epochs differ."""
    turns = [[n, sentence, epoch, None, 0.5, seed] for seed, sentence, epoch in places]
    groups: dict[str, list[Place]] = {}
    for place, signs in zip(places, told_by_signs(lib, masked_places, turns, n), strict=True):
        groups.setdefault(signs, []).append(place)
    alike = [pair for group in groups.values() for pair in itertools.combinations(dict.fromkeys(group), 2)]
    if not alike:
        return
    known = {*itertools.chain(*groups.values())}
    for which, what in enumerate(FIELDS):
        pairs = [(one, other) for one, other in itertools.combinations(known, 2) if differs(one, other) == [which]]
        same = {frozenset(pair) for pair in alike}
        told = f"{what} does not change the masks."
        assert len(pairs) < 2 or not all(frozenset(pair) in same for pair in pairs), told
    one, other = ("(seed {}, sentence {}, epoch {})".format(*place) for place in alike[0])
    told = f"the masks of {one} and {other} are the same. Either their numbers become the same seed, or only a few "
    raise AssertionError(f"{told}choices of places are ever drawn.")


def differs(one: Place, other: Place) -> list[int]:
    """Which of seed, sentence and epoch differ."""
    return [which for which in range(3) if one[which] != other[which]]


# Where the three numbers stand side by side in one number, in decimals or in bits and in any order, two of these places
# are the same number modulo 2 ** 32: torch's generator keeps 32 bits of its seed.
MEETING: list[Place] = [
    *((0, 0, 0), (0, 0, 4), (4, 0, 0), (0, 4096, 0), (0, 32704, 0), (296, 4294, 967), (967, 4294, 296)),
    *((4, 0, 295), (295, 0, 4), (4, 294967, 296), (296, 294967, 4)),
]
# Where too few bits or decimals are left for one of the numbers, so that it runs into the next one, two of these meet.
RUNNING_OVER: list[Place] = [
    tuple(step * (one == which) for one in range(3))
    for which, below in enumerate((1000, 10**6, 1000))
    for step in sorted({*(2**k for k in range(20)), *(10**k for k in range(6))})
    if step < below
]


def fair_choices(masked_places: Remote, lib: Library, n: int, k: int, turns: Sequence[tuple[int, int]]) -> None:
    """Fail unless each choice of k of n places is equally likely over these (sentence, epoch)."""
    rate = k / n
    given = [[n, sentence, epoch, None, rate] for sentence, epoch in turns]
    counts = Counter(told_by_signs(lib, masked_places, given, n))
    for choice in itertools.combinations(range(n), k):
        signs = "".join("01"[place in choice] for place in range(n))
        told = f"with n = {n}, {counts[signs]} of {len(turns)} masks hide exactly the places {[*choice]}. "
        told += f"Each choice of {k} places should be equally likely."
        likely(counts[signs], len(turns), 1 / math.comb(n, k), told)


def independent_masks(masked_places: Remote, lib: Library, what: str, places: Sequence[tuple[Place, Place]]) -> None:
    """Fail unless of two masks each pair is as likely as any other: one of three tokens is hidden.

    what: the numbers in which the two places differ, such as "epochs".
    """
    turns = [[3, sentence, epoch, None, 1 / 3, seed] for pair in places for seed, sentence, epoch in pair]
    signs = told_by_signs(lib, masked_places, turns, 3)
    counts = Counter(zip(signs[::2], signs[1::2], strict=True))
    told = f"the masks of two {what} in a row are not independent. Draw each mask independently of the others."
    for one, other in itertools.product(("100", "010", "001"), repeat=2):
        likely(counts[one, other], len(places), 1 / 9, told)


MASKED = Contract(
    "masked_places(n, s, e, c)",
    sizes={"n": (1, 60, 3000), "s": (0, 999), "e": (0, 99), "c": (1, 9)},
    gives="the mask: bool (n,)",
    fits=lambda mask, n, s, e, c: (
        "" if int(mask.sum()) == max(1, round(0.15 * n)) else "there are not max(1, round(0.15 * n)) hidden tokens."
    ),
    everywhere=True,
)


@check("11.1", points=2, forbids=MODELS)
def masks(mask_number, masked_places, lib):
    """Check that copies take turns, how many tokens are chosen, and that only (seed, sentence, number) decides."""
    takes_turns(mask_number, lib, 10, 40)
    takes_turns(mask_number, lib, 1, 5)
    few = ((3, 0.15), (1, 0.15), (1, 0.9), (5, 0.05), (1, 0.0), (2, 0.0))
    for n, rate in ((40, None), (40, 0.4), (30, 0.15), (100, 0.15), (9, 0.3), (13, 0.4), (20, 1.0), *few):
        as_many(masked_places, lib, n, rate, range(8))
    toy, before = lib(toys), chance(lib)
    turns = [[60, sentence, epoch, copies] for sentence in (0, 3) for epoch in (0, 5) for copies in (None, 4)]
    there = [hidden_places(one, 60) for one in toy.each(masked_places, turns)]
    lib(random).random()
    lib(torch).rand(3)
    moved = chance(lib)
    back = [hidden_places(one, 60) for one in toy.each(masked_places, turns[::-1])][::-1]
    told = "the same sentence and epoch get another mask at a second call. A mask should follow from its numbers alone."
    assert all(map(torch.equal, there, back)), told
    told = "a global generator is seeded or used. Make one of your own for each mask."
    assert chance(lib) == moved != before, told
    told = (
        "two calls return one tensor, so writing into the first mask changes the second. Return a new tensor each time."
    )
    assert torch.equal(hidden_places(toy.after_writing(masked_places, *turns[0]), 60), there[0]), told
    MASKED.hold(masked_places, lib, "memory")
    for copies in (4, 1):
        found = toy.each(masked_places, [[60, 5, epoch, copies] for epoch in range(12)])
        numbers = [tuple(hidden_places(one, 60).tolist()) for one in found]
        told = f"with {copies} copies, the number of different masks of a sentence in 12 epochs is {len({*numbers})}. "
        told += "It should be the number of copies: there is one mask for each `mask_number`."
        assert len({*numbers}) == copies, told
        told = f"with {copies} copies, the masks of 12 epochs do not take turns. "
        told += "Epochs with the same `mask_number` should share a mask."
        assert numbers == [numbers[epoch % copies] for epoch in range(12)], told
    told = "without the argument `seed`, the mask is not the one of seed 0, which is the default."
    assert torch.equal(
        hidden_places(masked_places(60, 3, 2), 60), hidden_places(masked_places(60, 3, 2, seed=0), 60)
    ), told
    for which in range(3):
        apart(
            masked_places, lib, [(7 * k * (which == 0), 7 * k * (which == 1), 7 * k * (which == 2)) for k in range(9)]
        )
    seeds, sentences, epochs = (0, 1, 7, 999), (0, 1, 2, 10, 11, 100, 1000, 12345, 999_999), (0, 1, 2, 10, 11, 100, 999)
    apart(masked_places, lib, [*dict.fromkeys([*itertools.product(seeds, sentences, epochs), *MEETING])])
    fair_choices(masked_places, lib, 4, 2, [(sentence, epoch) for sentence in range(150) for epoch in range(3)])
    independent_masks(masked_places, lib, "epochs", [((0, n, 0), (0, n, 1)) for n in range(450)])
    independent_masks(masked_places, lib, "seeds", [((n, 3, 1), (n + 1, 3, 1)) for n in range(0, 900, 2)])
    independent_masks(masked_places, lib, "sentences", [((1, n, 2), (1, n + 1, 2)) for n in range(0, 900, 2)])
    for which in range(3):  # numbers that are the same below a power of 2 or of 10
        far = [0, *(step for step in sorted({*(2**k for k in range(3, 20)), *(10**k for k in range(1, 6))}))]
        within = [step for step in far if step < (999, 999_000, 999)[which]]
        apart(masked_places, lib, [tuple(5 + step if one == which else 5 for one in range(3)) for step in within])
    apart(masked_places, lib, RUNNING_OVER)


# 11.2

Documents = list[list[list[int]]]


def rows_of(
    documents: Documents,
    max_len: int,
    sep: int,
    between: Callable[[bool, bool], bool] = lambda opens, empty: opens and not empty,
    counts: bool = True,
    breaks: bool = False,
    rest: bool = True,
) -> list[list[int]]:
    """Full rows; the options are misconceptions.

    Args:
        between: whether a separator comes before a sentence that opens a document or not, in an empty row or not.
        counts: whether the separator must fit.
        breaks: whether each document begins a new row.
        rest: whether what a long sentence has beyond max_len is kept.
    """
    pieces = []
    for d, document in enumerate(documents):
        for sentence in document:
            starts = range(0, len(sentence), max_len) if rest else range(min(1, len(sentence)))
            pieces += [(d, sentence[start : start + max_len]) for start in starts]
    rows: list[list[int]] = []
    before = None
    for d, piece in pieces:
        opens = d != before
        added = [sep] * between(opens and before is not None, not rows) + piece
        size = len(added) if counts else len(piece)
        if rows and len(rows[-1]) + size <= max_len and not (breaks and opens):
            rows[-1] += added
        else:
            rows.append(([sep] if between(opens and before is not None, True) else []) + piece)
        before = d
    return rows


def in_one_stream(documents: Documents, max_len: int, sep: int) -> list[list[int]]:
    """All tokens in rows of max_len, whatever sentences they belong to."""
    stream = [token for document in documents for sentence in document for token in sentence]
    return [stream[start : start + max_len] for start in range(0, len(stream), max_len)]


# What mistakes make of documents. A sentence is said where two results are those of its mistake.
MISREADINGS: dict[str, Callable[[Documents, int, int], list[list[int]]]] = {
    "the last row is missing. It counts as a row even if it is not full.": lambda *given: rows_of(*given)[:-1],
    "each document begins a new row: that is DOC-SENTENCES. The next document should continue in the same row.": (
        functools.partial(rows_of, breaks=True)
    ),
    "a separator makes a row too long: it needs a place too.": functools.partial(rows_of, counts=False),
    "there is no separator between two documents.": functools.partial(rows_of, between=lambda opens, empty: False),
    "there is a separator between the sentences of a document. It belongs between documents only.": functools.partial(
        rows_of, between=lambda opens, empty: not empty
    ),
    "a row begins with a separator: a document that begins a row needs none.": functools.partial(
        rows_of, between=lambda opens, empty: opens
    ),
    (
        "the tokens of a long sentence beyond max_len are lost. Such a sentence should count as several."
    ): functools.partial(rows_of, rest=False),
    "sentences are cut to fill the rows. Only a sentence of more than max_len tokens should be cut.": in_one_stream,
}


def packed(full_rows: Remote, documents: Documents, max_len: int, sep: int) -> None:
    """Fail unless the rows are those of FULL-SENTENCES."""
    found = expect.of_type(full_rows(documents, max_len, sep), list, "`full_rows` should return a list of rows")
    for row in found:
        expect.of_type(row, list, "a row should be a list of token numbers")
        assert all(type(token) is int for token in row), "a row should hold token numbers (ints) and nothing else."
    assert [] not in found, "there is an empty row. Every row should hold at least one token."
    stream = [token for document in documents for sentence in document for token in sentence]
    wanted = rows_of(documents, max_len, sep)
    if found == wanted:
        return
    confirm = some_documents(random.Random(77), 6, 9), 11, 10_001
    other = full_rows(*confirm)
    for sentence, guess in MISREADINGS.items():
        assert found != guess(documents, max_len, sep) or other != guess(*confirm), sentence
    assert all(row[-1] != sep for row in found), (
        "a row ends with a separator. It belongs between two documents of a row."
    )
    assert all(row[0] != sep for row in found), (
        "a row begins with a separator: a document that begins a row needs none."
    )
    told = f"with max_len = {max_len}, a row has two separators side by side. One belongs there."
    told += "" if all(map(any, documents)) else " A document without tokens should add nothing."
    assert all(one != sep or other != sep for row in found for one, other in itertools.pairwise(row)), told
    tokens = [token for row in found for token in row if token != sep]
    assert sorted(tokens) != sorted(stream) or tokens == stream, "the order of the tokens is not kept."
    assert not Counter(stream) - Counter(tokens), "tokens of the documents are missing from the rows."
    assert tokens == stream, "the rows hold more tokens than the documents."
    longest = max(map(len, found))
    assert longest <= max_len, f"a row has {longest} tokens, more than max_len = {max_len}."
    row = next(k for k, one in enumerate(itertools.chain(found, [[]])) if one != [*wanted, []][k])
    what = f"`full_rows({documents}, {max_len}, {sep})`"
    what = what if len(what) < 100 else f"with {len(documents)} documents and max_len = {max_len}"
    came, right = ([*rows, *[None] * (row + 1 - len(rows))][row] for rows in (found, wanted))
    shown = max(len(f"{came}"), len(f"{right}")) < 60 and None not in (came, right)
    told = f"row {row} is `{came}`, and `{right}` is right" if shown else f"row {row} is wrong"
    told = f"{what}: {told}. A row should take whole sentences as long as they fit, with a separator "
    raise AssertionError(f"{told}between two documents. Empty sentences do not count.")


def some_documents(some: random.Random, count: int, longest: int, sentences: int = 4) -> Documents:
    """Documents of different tokens from 1 on; some of them, and some sentences, are empty."""
    numbers = itertools.count(1)
    sizes = [
        [some.choice([0, *range(1, longest + 1)]) for _ in range(some.randint(0, sentences))] for _ in range(count)
    ]
    return [[[next(numbers) for _ in range(size)] for size in document] for document in sizes]


@check("11.2", points=2, forbids=MODELS)
def full_rows(full_rows, lib):
    """Check for whole sentences, in order, none lost, and separators between documents of one row."""
    simple = [[[1, 2, 3], [4, 5]], [[6, 7, 8], [9]], [[10, 11]], [[12, 13, 14, 15], [16]]]
    for max_len in (6, 9, 8, 5, 7, 30, 4, 2, 1, 3):
        packed(full_rows, simple, max_len, 0)
    with world_kept(lib, "after `full_rows`,"):
        packed(full_rows, [[[1, 2, 3]], [[4, 5]]], 5, 0)
    packed(full_rows, [[[1, 2, 3]], [[4, 5]]], 6, 0)
    packed(full_rows, [[[1, 2]], [], [[], [3]], [[]], [[4]]], 9, 0)
    packed(full_rows, [[[5, 6, 7, 8, 9, 10, 11], [12]]], 3, -1)
    few: list[Documents] = [[], [[]], [[[]], [[], []]], [[[7]]]]
    for documents in few:
        packed(full_rows, documents, 4, 99)
    # More of everything than functions may call each other.
    many: Documents = [*([[k]] for k in range(1, 901)), [[k, k] for k in range(901, 1801)]]
    for max_len in (512, 2):
        packed(full_rows, many, max_len, 0)
    for place in range(16):
        some = random.Random(place)
        packed(full_rows, some_documents(some, 6, 9), some.randint(3, 20), -7)


# 11.3


def by_torch(gradients: torch.Tensor, lr: float, betas: tuple[float, float], eps: float) -> torch.Tensor:
    """What torch's Adam adds to weights at each step, in double precision."""
    weight = nn.Parameter(torch.zeros(gradients.shape[1:], dtype=torch.float64))
    rule = torch.optim.Adam([weight], lr=lr, betas=betas, eps=eps, foreach=False)
    updates = []
    for gradient in gradients.double():
        weight.data.zero_()
        weight.grad = gradient.clone()
        rule.step()
        updates.append(weight.detach().clone())
    return torch.stack(updates)


def steps_of(
    gradients: torch.Tensor,
    lr: float,
    betas: tuple[float, float],
    eps: float,
    correct: tuple[bool, bool] = (True, True),
    inside: bool = False,
    of_mean: bool = False,
    from_zero: bool = False,
    rooted: bool = True,
    swapped: bool = False,
    kept: tuple[bool, bool] = (False, False),
    raw: bool = False,
    hat: bool = False,
    once: bool = False,
    crossed: bool = False,
    whole: bool = False,
    largest: bool = False,
    plain_square: bool = False,
    bound: bool = False,
) -> torch.Tensor:
    """Adam's steps by the formulas; the options are misconceptions.

    Args:
        correct: whether either average is corrected for its start at zero.
        inside: whether eps stands under the root.
        of_mean: whether the second average is that of the squared mean.
        from_zero: whether the powers count from 0.
        rooted: whether the root is taken.
        swapped: whether the betas change places.
        kept: whether the corrected averages are kept for the next step, the first and the second.
        raw: whether the gradient stands in the place of the first average.
        hat: whether eps is added to the root before the second average is corrected.
        once: whether betas are not taken to the power of the step.
        crossed: whether each average is corrected with the other one's beta.
        whole: whether gradients count whole in the first average, without 1 - beta1.
        largest: whether the largest second average so far is taken.
        plain_square: whether the second average is that of absolute values.
        bound: whether the root is at least eps, in place of their sum.
    """
    one, two = betas[::-1] if swapped else betas
    m = v = most = torch.zeros_like(gradients[0], dtype=torch.float64)
    updates = []
    for t, g in enumerate(gradients.double(), 0 if from_zero else 1):
        m = one * m + (1 if whole else 1 - one) * g
        v = two * v + (1 - two) * (g.abs() if plain_square else (m if of_mean else g) ** 2)
        powers = [beta ** (1 if once else t) for beta in ((two, one) if crossed else (one, two))]
        mean, square = (m / (1 - powers[0]) if correct[0] else m), (v / (1 - powers[1]) if correct[1] else v)
        m, v = (mean if kept[0] else m), (square if kept[1] else v)
        most = torch.maximum(most, square)
        square = most if largest else square
        below = (square + eps).sqrt() if inside else (square.sqrt() if rooted else square) + eps
        below = square.sqrt().clamp(min=eps) if bound else below
        below = (v.sqrt() + eps) / math.sqrt(1 - powers[1]) if hat else below
        updates.append(-lr * (g if raw else mean) / below)
    return torch.stack(updates)


def with_defaults(gradients: torch.Tensor) -> torch.Tensor:
    """Adam's updates with its own lr, betas and eps, weight by weight in Python's floats."""
    updates = []
    for column in gradients.T.tolist():
        m = v = 0.0
        for step, g in enumerate(column, 1):
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            updates.append(-0.001 * m / (1 - 0.9**step) / (math.sqrt(v / (1 - 0.999**step)) + 1e-8))
    return torch.tensor(updates, dtype=torch.float64).reshape(gradients.T.shape).T


ADAM = Contract(
    "adam(gradients)",
    sizes={"s": (0, 9, 1500), "k": (1, 4)},
    gradients="floats (s, k)",
    gives="the updates: as gradients (s, k)",
    right=with_defaults,
    low=False,
    far=1e-3,
)


def first_wrong(found: torch.Tensor, wanted: torch.Tensor, inputs: str) -> str:
    """A sentence about the first step whose update is wrong."""
    wrong = ~torch.isclose(found, wanted, 1e-4, 1e-4).reshape(len(found), -1).all(1)
    step = int(wrong.nonzero()[0]) + 1
    told = f"{inputs}, update {step} of {len(found)} is wrong"
    return f"{told}." if step == 1 else f"{told}, and those before it are right."


def stepped(
    adam: Remote, gradients: torch.Tensor, lr: float, betas: tuple[float, float], eps: float, defaults: bool = False
) -> None:
    """Fail unless the updates are those of torch's Adam."""
    value = adam(gradients) if defaults else adam(gradients, lr, betas, eps)
    found = expect.floats(value, tuple(gradients.shape), "the updates").double()
    assert value.dtype == gradients.dtype, (
        f"the updates are {str(value.dtype)[6:]}, but the gradients are {str(gradients.dtype)[6:]}."
    )
    wanted = by_torch(gradients, lr, betas, eps)
    plain = functools.partial(steps_of, gradients, lr, betas, eps)
    expect.like(
        found,
        wanted,
        lambda: first_wrong(found / lr, wanted / lr, f"with lr = {lr:.3g}, betas = {betas} and eps = {eps:.3g}"),
        {
            "the sign is wrong: a step goes against the gradient.": -wanted,
            "lr is not used.": wanted / lr if lr != 1 else wanted,
            "the averages are not corrected for their start at zero.": lambda: plain(correct=(False, False)),
            "only one of the two averages is corrected for its start at zero: the second is not.": lambda: plain(
                correct=(True, False)
            ),
            "only one of the two averages is corrected for its start at zero: the first is not.": lambda: plain(
                correct=(False, True)
            ),
            "`eps` is under the root. Add it to the root.": lambda: plain(inside=True),
            "the second average is of the squared mean. It should be of the squared gradient.": lambda: plain(
                of_mean=True
            ),
            "there is no root over the second average.": lambda: plain(rooted=False),
            "the two betas have changed places.": lambda: plain(swapped=True),
            "the corrected averages are carried over. The next step should start from the uncorrected ones.": lambda: (
                plain(kept=(True, True))
            ),
            "the corrected first average is carried over. The next step should start from the uncorrected one.": (
                lambda: plain(kept=(True, False))
            ),
            "the corrected second average is carried over. The next step should start from the uncorrected one.": (
                lambda: plain(kept=(False, True))
            ),
            "the weights after each step are returned. Return what each step adds to them.": wanted.cumsum(0),
            "the gradient itself is divided. Divide the first average.": lambda: plain(raw=True),
            (
                "`eps` is added before the second average is corrected. It should be added to the corrected root."
            ): lambda: plain(hat=True),
            "both averages are divided by 1 - beta in each step. Take beta to the power of the step.": lambda: plain(
                once=True
            ),
            "each average is corrected with the other one's beta.": lambda: plain(crossed=True),
            "the gradient counts whole in the first average: the factor 1 - beta1 is missing.": lambda: plain(
                whole=True
            ),
            "the largest second average so far is taken, as AMSGrad does. Take the current one.": lambda: plain(
                largest=True
            ),
            "the second average is of absolute values. It should be of squares.": lambda: plain(plain_square=True),
            "the root is at least `eps`. Add `eps` to the root, however large it is.": lambda: plain(bound=True),
            "the updates are in reverse order.": wanted.flip(0),
        },
        1e-4,
        lr,
    )


@check("11.3", points=2, forbids=("torch.optim", "optim", "adamw", *MODELS))
def adam(adam, lib):
    """Compare with torch's Adam, with large eps, other betas, gradients that vanish or jump, and in double."""
    gradients = normal(7, 3, 2, seed=30)
    stepped(adam, gradients, 0.5, (0.9, 0.99), 1e-8)
    stepped(adam, gradients, 0.5, (0.9, 0.99), 0.2)
    stepped(adam, 1e-3 * gradients, 0.1, (0.6, 0.7), 1e-4)
    stepped(adam, gradients, 0.001, (0.9, 0.999), 1e-8, defaults=True)
    stepped(adam, 1e-7 * gradients, 0.001, (0.9, 0.999), 1e-8, defaults=True)
    shock = gradients.clone()
    shock[2] *= 100
    stepped(adam, shock.double(), 2.0, (0.8, 0.95), 1e-3)
    stepped(adam, torch.cat([shock, torch.zeros(9, 3, 2)]), 1.0, (0.9, 0.98), 1e-6)
    stepped(adam, normal(5, seed=31), 1.0, (0.9, 0.999), 1e-2)
    stepped(adam, normal(1, 4, seed=32), 0.3, (0.9, 0.999), 1e-2)
    stepped(adam, torch.zeros(3, 2), 1.0, (0.9, 0.999), 1e-8)
    nothing = torch.zeros(3, 2)
    _, given = expect.items(lib(probes).again_after_writing(adam, [nothing], {}), 2, "there should be updates")
    told = "where all gradients are 0, the tensor of gradients itself is returned. Return a new tensor."
    assert expect.same(given, [nothing]), told
    none = expect.tensor(adam(torch.zeros(0, 3, dtype=torch.float64)), (0, 3), "the updates without any step")
    told = f"without any step, the updates are {str(none.dtype)[6:]}, but the gradients are float64."
    assert none.dtype is torch.float64, told
    ADAM.hold(adam, lib, "sizes", "large", "device", "layout", "dtypes")


# 11.4


def shares_of_lengths(p: float, longest: int) -> dict[int, float]:
    """The probability of each length: geometric, and longer ones drawn again."""
    weights = {length: p * (1 - p) ** (length - 1) for length in range(1, longest + 1)}
    return {length: weight / sum(weights.values()) for length, weight in weights.items()}


def independent_lengths(span_lengths: Remote, lib: Library, seed: int) -> None:
    """Fail unless the lengths of one call have nothing to do with each other: their order, and how many are 1."""
    calls = expect.items(lib(toys).in_turn(span_lengths, seed, [[20]] * 150, {}), 150, "there should be lengths")
    found = torch.stack([lengths_of(one, 20) for one in calls])
    most = int(found.max())
    assert most <= 10, f"a span has length {most}, which is longer than `longest`, here 10."
    shares = shares_of_lengths(0.2, 10)
    alike = int((found[:, 1:] == found[:, :-1]).sum())
    equal = sum(share**2 for share in shares.values())
    often = "often, as if sorted or given twice" if alike > 150 * 19 * equal else "rarely"
    told = f"lengths side by side are equal too {often}. Draw each length independently of the others."
    likely(alike, 150 * 19, equal, told, 6)
    spread = float((found == 1).sum(1).double().var()) / (20 * shares[1] * (1 - shares[1]))
    told = "each call has about the same number of spans of length 1. Draw each length independently of the others."
    assert spread > 0.4, told
    told = (
        "the number of spans of length 1 varies too much between calls. Draw each length independently of the others."
    )
    assert spread < 1.8, told


def lengths_of(value: Any, count: int) -> torch.Tensor:
    """`value`, which must be as many lengths as were asked for."""
    found = expect.tensor(value, (count,), "the lengths")
    assert found.dtype == torch.int64, f"the lengths should be int64, not {str(found.dtype)[6:]}."
    assert found.min() > 0, f"a span has length {int(found.min())}. The shortest length should be 1."
    return found


def mask_of(value: Any, n: int) -> torch.Tensor:
    """`value`, which must be a mask of so many tokens."""
    found = expect.tensor(value, (n,), "the mask")
    assert found.dtype == torch.bool, f"the mask should be booleans, not {str(found.dtype)[6:]}."
    return found


def lengths_right(span_lengths: Remote, lib: Library, count: int, p: float | None, longest: int, seed: int) -> None:
    """Fail unless the lengths are drawn from the right distribution; without p, the defaults are asked."""
    given = {} if p is None else {"p": p, "longest": longest}
    value = span_lengths(count, **given, generator=lib(toys).seeded(seed))
    found = lengths_of(value, count)
    p = 0.2 if p is None else p
    counts = Counter(found.tolist())
    assert max(counts) <= longest, f"a span has length {max(counts)}, which is longer than `longest`, here {longest}."
    wanted = shares_of_lengths(p, longest)
    tail = (1 - p) ** longest
    cut = {length: share * (1 - tail) for length, share in wanted.items()}
    cut[longest] += tail
    guesses = {
        "longer spans are cut to `longest`, so too many have that length. They should be drawn again.": cut,
        "all lengths are equally likely. They should be geometric.": dict.fromkeys(wanted, 1 / longest),
        "`p` and `1 - p` have changed places.": shares_of_lengths(1 - p, longest),
        "the longest spans are the most common. The shortest should be.": dict(
            zip(wanted, sorted(wanted.values()), strict=True),
        ),
        "spans that are too long get a length drawn evenly. They should be drawn again by the formula.": {
            length: share * (1 - tail) + tail / longest for length, share in wanted.items()
        },
    }
    if even(counts, wanted, count, {}) == 0:
        return
    for sentence, guess in guesses.items():
        shares = {length: guess.get(length, 0.0) for length in {*guess, *counts}}
        # Nearer than what is right must be: halves of two mistakes are within what is due to chance.
        close = all(expect.plausible(counts[one], count, min(1.0, share), 3.5) for one, share in shares.items())
        assert not close, sentence
    found, right = (sum(length * share for length, share in one.items()) for one in (counts, wanted))
    size = f"their mean is {found / count:.3g}, which is too {'large' if found / count > right else 'small'}"
    raise AssertionError(
        f"with `p = {p}` and `longest = {longest}`, the lengths are not drawn as the formula says: {size}."
    )


def ways(n: int, lengths: Sequence[int], budget: int) -> dict[tuple[bool, ...], float]:
    """The probability of each mask: spans one after the other, each start that covers nothing hidden alike."""
    shares = {((False,) * n, budget): 1.0}
    for length in lengths:
        after: Counter[tuple[tuple[bool, ...], int]] = Counter()
        for (mask, left), share in shares.items():
            size = min(length, left)
            starts = [start for start in range(n - size + 1) if size and not any(mask[start : start + size])]
            for start in starts:
                hidden = (*mask[:start], *[True] * size, *mask[start + size :])
                after[hidden, left - size] += share / len(starts)  # type: ignore[assignment]
            if not starts:
                after[mask, left] += share  # type: ignore[assignment]
        shares = dict(after)
    found: Counter[tuple[bool, ...]] = Counter()
    for (mask, _), share in shares.items():
        found[mask] += share  # type: ignore[assignment]
    return dict(found)


def runs_of(mask: Sequence[bool]) -> list[int]:
    """The lengths of the hidden stretches."""
    return [len([*group]) for hidden, group in itertools.groupby(mask) if hidden]


def placed(
    span_mask: Remote, lib: Library, n: int, lengths: list[int], rate: float | None, seed: int, repeats: int = 250
) -> None:
    """Fail unless masks are drawn as they should be."""
    given = [n, torch.tensor(lengths, dtype=torch.int64)] + ([] if rate is None else [rate])
    rate = 0.15 if rate is None else rate
    budget, call = round(rate * n), f"`span_mask({n}, {lengths}, {rate})`"
    says = f"{call} should not raise an error: a span that is too long is shortened, one without room is left out."
    wanted = ways(n, lengths, budget)
    repeats = repeats if len(wanted) > 1 else 40  # what always gives the same mask shows itself soon
    tally = expect.answers(lib(toys).tally, span_mask, given, seed, repeats, says=says, kinds=("ValueError",))
    told = "`span_mask` should return a tensor of booleans, one for each token."
    expect.of_type(tally, dict, told)
    assert all(type(one) is str and len(one) == n and {*one} <= {"0", "1"} for one in tally), told
    assert sum(tally.values()) == repeats and min(tally.values()) > 0, told
    counts = {tuple(sign == "1" for sign in mask): count for mask, count in tally.items()}
    if even(counts, wanted, repeats, {}) == 0:
        return
    span_mask(*given, generator=lib(toys).seeded(seed))  # refused where it changes the lengths that it was given
    for order in (sorted(lengths), sorted(lengths, reverse=True)):
        told = "spans are not placed in the order of `lengths`."
        assert order == lengths or even(counts, ways(n, order, budget), repeats, {}) != 0, told
    turned = {tuple(not hidden for hidden in mask): count for mask, count in counts.items()}
    assert even(turned, wanted, repeats, {}) != 0, "True means visible here. It should mean hidden."
    sizes = {sum(mask) for mask in counts}
    told = (
        f"{call} hides {max(sizes)} token{'s' * (max(sizes) != 1)}, more than `round(rate * n)` = {budget}. "
        "Spans should be shortened to what is left of it."
    )
    assert max(sizes) <= budget, told
    told = f"{call} hides {max(sizes)} tokens, more than these spans have. Place each once, and no longer than it is."
    assert max(sizes) <= max(map(sum, wanted)), told
    told = (
        f"{call} {'sometimes ' * (len(sizes) > 1)}hides only {min(sizes)} token{'s' * (min(sizes) != 1)}. Any correct "
    )
    told += f"placing hides more. Here `round(rate * n)` is {budget}. "
    told += "A hidden token counts once, a span that is too long is shortened, and after a span without room the next "
    told += "ones are still placed."
    assert min(sizes) >= min(map(sum, wanted)), told
    if len(lengths) == 1:
        (run,) = {*map(len, map(runs_of, counts))} if len({*map(len, map(runs_of, counts))}) == 1 else (0,)
        assert run == 1 or not budget, "the tokens of one span are not side by side."
    strange = ["".join("01"[hidden] for hidden in mask) for mask in counts if mask not in wanted]
    told = f"{call} gives the mask `{strange[0]}`, which these spans cannot make. " if strange else ""
    told += "Place spans in order, each where nothing is hidden yet, and shorten only the last."
    assert not strange, told
    worst = max(wanted, key=lambda mask: abs(counts.get(mask, 0) - repeats * wanted[mask]) / wanted[mask] ** 0.5)
    count, signs = counts.get(worst, 0), "".join("01"[hidden] for hidden in worst)
    often = "often" if count > repeats * wanted[worst] else "rarely"
    told = f"{call} gave the mask `{signs}` {count} times in {repeats}, which is too {often}. "
    told += "Each start where a span covers no hidden token should be equally likely. A span without one is left out."
    raise AssertionError(told)


LENGTHS = Contract(
    "span_lengths(count, 0.2, 10, generator)",
    sizes={"count": (1, 60, 5000)},
    generator="generator",
    gives="the lengths: int64 (count,)",
    fits=lambda lengths, *given: (
        "" if lengths.min() > 0 and lengths.max() <= 10 else "there are lengths below 1 or above 10."
    ),
    pairs={
        "lengths side by side are not independent.": lambda lengths, *given: zip(
            lengths[::2].tolist(), lengths[1::2].tolist(), strict=False
        )
    },
)
SPANS = Contract(
    "span_mask(n, lengths, 0.3, generator)",
    sizes={"n": (1, 60), "k": (1, 20)},
    lengths=lambda toys, seed, k: torch.randint(1, 9, (k,), generator=expect.generator(seed)),
    generator="generator",
    gives="the mask: bool (n,)",
    fits=lambda mask, n, lengths, *given: (
        "" if mask.sum() <= round(0.3 * n) else "there are more than round(0.3 * n) hidden tokens."
    ),
)


@check("11.4", points=3, forbids=MODELS)
def spans(span_lengths, span_mask, lib):
    """Check that lengths are drawn again, not cut, tokens are counted, and free starts are equally likely."""
    lengths_right(span_lengths, lib, 3000, None, 10, 1)
    lengths_right(span_lengths, lib, 3000, 0.2, 10, 2)
    lengths_right(span_lengths, lib, 10_000, 0.4, 3, 3)
    lengths_right(span_lengths, lib, 50, 0.3, 1, 4)
    lengths_right(span_lengths, lib, 1, 0.5, 3, 5)
    independent_lengths(span_lengths, lib, 6)
    for n, lengths, rate in (
        (6, [2], 0.5),
        (7, [3], 0.99),
        (6, [2, 1], 0.5),
        (6, [1, 2], 0.34),
        (10, [3], 0.25),
        (7, [2, 2, 2, 2], 0.7),
        (9, [1, 1, 1, 1], 0.3),
        (8, [4, 3, 2], 1.0),
        (5, [9], 0.6),
        (4, [7, 1], 1.0),
        (20, [10], None),
        (3, [2, 2], 0.1),
        (5, [], 0.5),
        (1, [1], 1.0),
    ):
        placed(span_mask, lib, n, lengths, rate, 40 + n)
    placed(span_mask, lib, 9, [5, 1], 0.67, 55, 600)  # the start behind a span is not more likely than others
    LENGTHS.hold(span_lengths, lib, "draws", "memory")
    SPANS.hold(span_mask, lib, "draws", "memory")
    toy, long = lib(toys), torch.tensor([4, 3, 6, 2, 9, 5, 5, 5, 5, 5])
    for call, given in ((span_lengths, [60]), (span_mask, [200, long])):
        of_type = (lengths_of, mask_of)[call is span_mask]
        one, two = (of_type(each, given[0]) for each in toy.in_turn(call, 8, [given] * 2, {}))
        same, _ = (of_type(each, given[0]) for each in toy.in_turn(call, 8, [given] * 2, {}))
        told = (
            "without a generator, torch's own should decide: the same seed gives the "
            "same result, and a second call another."
        )
        assert torch.equal(one, same) and not torch.equal(one, two), told
    for some in (long, torch.tensor([40, 3])):  # shortened, but not in what was given
        count = int(mask_of(span_mask(200, some, generator=toy.seeded(9)), 200).sum())
        told = f"`span_mask(200, {some.tolist()})` hides {count} tokens. The spans have room for round(rate * n) = 30."
        assert count == 30, told
    ones = torch.ones(24, dtype=torch.int64)
    starts = mask_of(span_mask(600, ones, 0.04, toy.seeded(10)), 600).nonzero().flatten()
    told = "in 600 tokens, 24 spans of one token all begin in one half. Each start should be equally likely."
    assert starts.max() >= 300 and starts.min() < 300, told


# 11.5


def ends_of(mask: torch.Tensor) -> list[torch.Tensor]:
    """For each hidden token, by loops: the visible places next to its span, and its place; 0 elsewhere."""
    left, right, place = (torch.zeros(mask.shape, dtype=torch.int64) for _ in range(3))
    for b, row in enumerate(mask.tolist()):
        first = 0
        for hidden, group in itertools.groupby(row):
            size = len([*group])
            if hidden:
                left[b, first : first + size], right[b, first : first + size] = first - 1, first + size
                place[b, first : first + size] = torch.arange(1, size + 1)
            first += size
    return [left, right, place]


ENDS = ("the place before the span", "the place after the span", "the place in the span")


def ends_right(boundaries: Remote, mask: torch.Tensor) -> None:
    """Fail unless the ends of all spans are found."""
    value = boundaries(mask)
    told = f"`boundaries` should return three tensors, not {kind(value)}."
    assert type(value) is list and len(value) == 3, told
    shape, wanted = tuple(mask.shape), ends_of(mask)
    found = [expect.tensor(one, shape, what) for one, what in zip(value, ENDS, strict=True)]
    for one, what in zip(found, ENDS, strict=True):
        assert one.dtype == torch.int64, f"{what} should be int64, not {str(one.dtype)[6:]}."
    if all(map(torch.equal, found, wanted)):
        return
    inside = [torch.equal(one[mask], other[mask]) for one, other in zip(found, wanted, strict=True)]
    assert not all(inside), "at visible tokens, not all results are 0. They should be."
    left, right, place = (one[mask] for one in found)
    true_left, true_right, true_place = (one[mask] for one in wanted)
    places = torch.arange(mask.size(1)).expand_as(mask)[mask]
    neighbours = torch.equal(left, places - 1) and torch.equal(right, places + 1)
    assert not neighbours, (
        "the results are the neighbours of each token. They should be the visible tokens next to its span."
    )
    told = "the first or last hidden token of a span is returned. Return the visible tokens next to the span."
    inner = torch.equal(left, true_left + 1), torch.equal(right, true_right - 1)
    outer = torch.equal(left, true_left), torch.equal(right, true_right)
    assert not any(inner) or not all(map(any, zip(inner, outer, strict=True))), told
    assert not torch.equal(right, true_left) or not torch.equal(left, true_right), "left and right have changed places."
    assert not torch.equal(place, places), "the place is counted within the row. Count it within the span."
    assert not torch.equal(place, true_place - 1), (
        "the place counts from 0. The first token of a span should have place 1."
    )
    assert not torch.equal(place, true_right - places), "the place counts from the right end of the span."
    for one, other, what in zip(found, wanted, ENDS, strict=True):
        for b, i in (mask & (one != other)).nonzero().tolist():
            told = f"{what} is wrong for a row of {mask.size(1)} tokens: hidden token {i} gets {int(one[b, i])}."
            raise AssertionError(f"{told} Hidden neighbours belong to one span. Visible tokens divide two spans.")


def some_mask(B: int, T: int, share: float, seed: int) -> torch.Tensor:
    """Hidden stretches, none at the ends of a row."""
    mask = torch.rand(B, T, generator=expect.generator(seed)) < share
    mask[:, 0] = mask[:, -1] = False
    return mask


def with_long_span(B: int, T: int, seed: int) -> torch.Tensor:
    """Such stretches, one of which is two thirds of the last row."""
    mask = some_mask(B, T, 0.6, seed)
    mask[-1, 1 + T // 3 : T - 1] = True
    return mask


SPAN_ENDS = Contract(
    "boundaries(mask)",
    sizes={"B": (1, 5), "T": (2, 12, 3000)},
    mask=lambda toys, seed, B, T: with_long_span(B, T, seed),
    edge=lambda toys, seed, B, T: at_an_end(B, T, seed),
    gives="the places before the spans: int64 (B, T); the places after the spans: int64 (B, T); the places in the "
    "spans: int64 (B, T)",
    right=lambda mask: tuple(ends_of(mask)),
    refuses=("boundaries(edge)",),
)


def at_an_end(B: int, T: int, seed: int) -> torch.Tensor:
    """A mask with one span at an end of the first or the last row: four seeds in a row give each of them."""
    mask = torch.zeros(B, T, dtype=torch.bool)
    mask[-(seed % 2), -(seed // 2 % 2)] = True
    return mask


def objective_shapes(d: int, longest: int) -> dict[str, tuple[int, ...]]:
    """The new parts of the objective."""
    matrices = {"place": (longest, d), "first": (d, 3 * d), "first_norm": (d,), "second": (d, d), "second_norm": (d,)}
    shapes: dict[str, tuple[int, ...]] = {f"{name}.weight": shape for name, shape in matrices.items()}
    return shapes | {f"{name}.bias": (d,) for name in matrices if name != "place"}


def new_objective(
    BoundaryObjective: Remote, lib: Library, V: int, d: int, longest: int, seed: int
) -> tuple[Remote, Remote, dict[str, torch.Tensor]]:
    """An objective, its embedding and their weights; "table" is the embedding's."""
    table = normal(V, d, seed=seed)
    embedding = lib(nn).Embedding(V, d)
    embedding.load_state_dict({"weight": table})
    module = BoundaryObjective(embedding, longest)
    assert type(module) is Remote, f"`BoundaryObjective` should be an nn.Module, not {kind(module)}."
    own = expect.state(module, "`BoundaryObjective`")
    state = {}
    for place, (name, shape) in enumerate(objective_shapes(d, longest).items(), 1):
        assert name in own, f"the objective has no `{name}`. Its parts must have the names of the table."
        expect.tensor(own[name], shape, f"`{name}` of the objective")
        state[name] = 0.7 * normal(*shape, seed=seed + place)
    kept = embedding.state_dict()["weight"]
    assert torch.equal(kept, table), "the objective changes the numbers of the embedding it was given."
    module.load_state_dict(state, False)
    return module, embedding, state | {"table": table}


def answered(state: Mapping[str, torch.Tensor], states: torch.Tensor, mask: torch.Tensor, **how: bool) -> torch.Tensor:
    """The logits with these weights, token by token; `how` are misconceptions."""
    d, longest = states.size(-1), state["place.weight"].size(0)
    rows = []
    left, right, place = (one.tolist() for one in ends_of(mask))
    spots = mask.nonzero().tolist()
    for b, i in sorted(spots, key=lambda one: one[::-1]) if how.get("by_column") else spots:
        ends = [states[b, left[b][i]], states[b, right[b][i]]]
        if how.get("neighbours"):
            ends = [states[b, i - 1], states[b, i + 1]]
        number = min(i if how.get("in_row") else place[b][i] - (not how.get("from_one")), longest - 1)
        if how.get("modulo"):
            number = (place[b][i] - 1) % longest
        if how.get("from_right"):
            number = min(right[b][i] - i - 1, longest - 1)
        row = state["place.weight"][number]
        parts = [row, *ends] if how.get("place_first") else [*(ends[::-1] if how.get("swapped") else ends), row]
        rows.append(torch.cat(parts))
    h = torch.stack(rows) if rows else torch.zeros(0, 3 * d)

    def layer(h: torch.Tensor, name: str, active: bool) -> torch.Tensor:
        h = F.linear(h, state[f"{name}.weight"], state[f"{name}.bias"])
        own = "first" if how.get("one_norm") else name
        norm = functools.partial(
            F.layer_norm, normalized_shape=(d,), weight=state[f"{own}_norm.weight"], bias=state[f"{own}_norm.bias"]
        )
        act = {"relu": F.relu, "tanh": functools.partial(F.gelu, approximate="tanh")}
        gelu: Any = next((one for key, one in act.items() if how.get(key)), F.gelu)
        if how.get("norm_first") or how.get(f"norm_first_{name}"):
            return gelu(norm(h))
        h = gelu(h) if active else h
        return h if how.get("no_norm") else norm(h)

    h = layer(h, "first", True)
    if not how.get("one_layer"):
        h = layer(h, "second", not how.get("second_linear"))
    return h @ state["table"].T


NEXT_TO_EACH = "the states next to each hidden token are read. They should be the ones next to its span."


def objective_right(
    module: Remote, state: Mapping[str, torch.Tensor], states: torch.Tensor, mask: torch.Tensor
) -> None:
    """Fail unless the logits are those of the formula."""
    K, V = int(mask.sum()), state["table"].size(0)
    if not K:
        promised(EMPTY)
    value = module(states, mask)
    told = "there are logits for every token. Return one row of logits for each hidden token."
    assert type(value) is not torch.Tensor or value.shape != (*mask.shape, V), told
    found = expect.floats(value, (K, V), "the logits")
    guess = functools.partial(answered, state, states, mask)
    misreadings = {
        NEXT_TO_EACH: {"neighbours": True},
        "the place is counted within the row. Count it within the span.": {"in_row": True},
        "place 1 gets the second row of `place`. It should get row 0.": {"from_one": True},
        "places are counted from the right end of the span. Count from the left.": {"from_right": True},
        "the state after the span comes before the state in front of it. They should be the other way round.": {
            "swapped": True
        },
        "the place comes before the two states. It should come last.": {"place_first": True},
        "the gelu is the approximation by tanh. Use the exact one.": {"tanh": True},
        "this is a ReLU. The objective has a GELU.": {"relu": True},
        "the norm comes before the gelu. It should come after it.": {"norm_first": True},
        "in the first layer the norm comes before the gelu. It should come after it.": {"norm_first_first": True},
        "in the second layer the norm comes before the gelu. It should come after it.": {"norm_first_second": True},
        "both layers use `first_norm`. The second layer has its own norm.": {"one_norm": True},
        "places beyond `longest` begin again with row 0. They should all use the last row.": {"modulo": True},
        "no layer norm is applied. Each of the two layers should end with one.": {"no_norm": True},
        "only one layer is applied. The objective has two.": {"one_layer": True},
        "the second layer has no gelu.": {"second_linear": True},
        "the hidden tokens are taken column by column. Take them row by row.": {"by_column": True},
    }
    guesses: dict[str, expect.Guess] = {
        sentence: functools.partial(guess, **how) for sentence, how in misreadings.items()
    }
    guesses["softmax is applied. Return the logits."] = lambda: guess().softmax(-1)
    guesses["log-probabilities are returned. Return the logits."] = lambda: guess().log_softmax(-1)

    def where() -> str:
        wrong = (~torch.isclose(found, guess(), 1e-3, 1e-3)).any(1)
        (b, i), place = mask.nonzero()[wrong][0].tolist(), ends_of(mask)[2]
        told = f"the logits of {int(wrong.sum())} of {K} hidden tokens are wrong. "
        return f"{told}The first is token {i} of row {b}, at place {int(place[b, i])} of its span."

    expect.like(found, guess(), where, guesses, 1e-3)


@check("11.5", points=3, forbids=MODELS)
def boundary(boundaries, BoundaryObjective, lib):
    """Compare ends with loops and logits with those by hand; hidden states never count, and both ends do."""
    promised(EMPTY)
    toy = lib(toys)
    signs = ["..#..###.#.", ".##.#.#####", ".#########.", "...........", "........##."]
    mask = torch.tensor([[sign == "#" for sign in row.ljust(11, ".")] for row in signs])
    mask[1, -1] = False
    short = torch.zeros(2, 1, dtype=torch.bool)
    for one in (mask, mask[:1], mask[3:4], some_mask(5, 5, 0.5, 50), short, with_long_span(1, 150, 54)):
        ends_right(boundaries, one)
    for place, which in ((0, "first"), (-1, "last")):
        edge = torch.zeros(2, 5, dtype=torch.bool)
        edge[1, place] = True
        expect.refuses(boundaries, edge, says=f"a row whose {which} token is hidden must raise ValueError.")
    SPAN_ENDS.hold(boundaries, lib, "refusals", "memory")
    expect.one_device(lib, boundaries, mask)
    V, d, longest = 13, 6, 4
    module, embedding, state = new_objective(BoundaryObjective, lib, V, d, longest, 51)
    states = normal(*mask.shape, d, seed=70)
    changed = torch.where(mask[..., None], normal(*states.shape, seed=71), states)
    told = (
        "the logits depend on states of hidden tokens. Only the place and the row's own states next to the span count."
    )
    first, again, second = module(states, mask), module(states, mask), module(changed, mask)
    if type(first) is type(second) is torch.Tensor and first.shape == second.shape == (int(mask.sum()), V):
        neighbours = answered(state, states, mask, neighbours=True)
        assert not expect.near(first.float(), neighbours, 1e-3, 1e-3), NEXT_TO_EACH
        drawn = "two calls with the same states and mask give different logits. The parts of the table draw nothing."
        assert expect.near(first, again, 1e-4, 1e-4), drawn
        assert expect.near(first, second, 1e-4, 1e-4), told
    with world_kept(lib, "after logits were asked for,"):
        objective_right(module, state, states, mask)
    objective_right(module, state, states[3:4], mask[3:4])
    module.eval()
    objective_right(module, state, states[:2], mask[:2])
    moved = state["table"].clone()
    moved[4] += 1
    embedding.load_state_dict({"weight": moved})
    now = expect.floats(module(states, mask), (int(mask.sum()), V), "the logits")
    told = "when the embedding's weight changes, the logits stay: it was copied. Tied means one and the same parameter."
    assert not expect.near(now, first, 1e-5, 1e-5), told
    state["table"] = moved
    objective_right(module, state, states, mask)
    count = toy.numel_beyond(module, embedding)
    wanted = sum(math.prod(shape) for shape in objective_shapes(d, longest).values())
    told = f"besides the embedding, the objective has {count} learned numbers. The parts of the table have {wanted}."
    told += " The output has none of its own: it uses the embedding's weight." if count - wanted == V * d else ""
    assert count == wanted, told
    slopes, of_parts = expect.items(lib(probes).slopes(module, [states, mask], {}, 0), 2, "the gradients")
    leaves = {name: value.clone().requires_grad_() for name, value in state.items()}
    (own, _), _ = probes.slopes(functools.partial(answered, leaves), [states, mask], {}, 0)
    found = expect.tensor(slopes[0], tuple(states.shape), "the gradient")
    told = f"{'a wrong' if found.any() else 'no'} gradient reaches the states next to the spans."
    expect.close(found, own, told, 1e-3)
    for name in objective_shapes(d, longest):
        told = f"the gradient of `{name}` is wrong, so this part does not learn as it should."
        assert name in of_parts, f"`{name}` is not a parameter, so it never learns."
        expect.close(of_parts[name], leaves[name].grad, told, 1e-3)
    expect.one_device(lib, toy.Beside(module, embedding), states, mask)
    found = expect.answers(toy.strided, module, states, mask, says="states and masks that are not contiguous fail.")
    told = "the logits are wrong for states and masks that are not contiguous."
    expect.close(expect.floats(found, tuple(now.shape), "the logits"), answered(state, states, mask), told, 1e-3)


# 11.6

TLM = ("the tokens", "the positions", "the languages")


def tlm_rows(
    pairs: Sequence[tuple[list[int], list[int]]], cls: int, sep: int, pad: int, **how: bool
) -> list[torch.Tensor]:
    """Tokens, positions and languages of the rows, place by place; `how` are misconceptions."""
    T = max(len(first) + len(second) for first, second in pairs) + (3 if how.get("one_cls") else 4)
    tokens, positions = torch.full((len(pairs), T), pad), torch.zeros(len(pairs), T, dtype=torch.int64)
    languages = torch.full((len(pairs), T), 0 if how.get("pads_first") else -1)
    for b, pair in enumerate(pairs):
        place = 0
        for language, sentence in enumerate(pair):
            head = [] if language and how.get("one_cls") else [cls]
            for number, token in enumerate([*head, *sentence, sep]):
                tokens[b, place] = token
                positions[b, place] = place if how.get("on") else number + bool(how.get("from_one"))
                other = how.get("sep_other") and token == sep and number == len(head) + len(sentence) and not language
                languages[b, place] = 1 if other else language + bool(how.get("languages_from_one"))
                place += 1
        if how.get("pads_count"):
            positions[b, place:] = torch.arange(place, T)
    return [tokens, positions, languages]


def batched(tlm_batch: Remote, pairs: list[tuple[list[int], list[int]]], cls: int, sep: int, pad: int) -> None:
    """Fail unless the rows are right."""
    value = tlm_batch(pairs, cls, sep, pad)
    told = f"`tlm_batch` should return three tensors, not {kind(value)}."
    assert type(value) is list and len(value) == 3 and all(type(one) is torch.Tensor for one in value), told
    wanted = tlm_rows(pairs, cls, sep, pad)
    if tuple(value[0].shape) != tuple(wanted[0].shape):
        guess = tlm_rows(pairs, cls, sep, pad, one_cls=True)[0]
        told = "the rows are one token too short. The second sentence needs a cls of its own."
        assert not expect.same(value[0], guess), told
        told = "the rows are one token too short. They should be cls, first, sep, cls, second, sep."
        assert value[0].shape != guess.shape, told
    found = [expect.tensor(one, tuple(right.shape), what) for one, right, what in zip(value, wanted, TLM, strict=True)]
    for one, what in zip(found, TLM, strict=True):
        assert one.dtype == torch.int64, f"{what} should be int64, not {str(one.dtype)[6:]}."

    def guessed(which: int, sentence: str, **how: bool) -> None:
        if not torch.equal(found[which], wanted[which]):
            assert not torch.equal(found[which], tlm_rows(pairs, cls, sep, pad, **how)[which]), sentence

    row = next((row for row, one in enumerate(found[0]) if not torch.equal(one, wanted[0][row])), None)
    if row is not None:
        of = "of an empty sentence " if [] in pairs[row] else ""
        told = f"the tokens of a row {of}should be cls, first, sep, cls, second, sep, and then pads."
        raise AssertionError(f"{told} For `{pairs[row]}` your code gives `{found[0][row].tolist()}`.")
    guessed(1, "the positions continue into the second sentence. They should begin again at 0.", on=True)
    guessed(
        1,
        "the positions continue into the second sentence and the pads. They should begin again, and be 0 at pads.",
        on=True,
        pads_count=True,
    )
    guessed(1, "the positions continue through the pads. They should be 0 there.", pads_count=True)
    guessed(1, "the positions count from 1. They should count from 0.", from_one=True)
    pads = wanted[2] < 0
    like_pads = (wanted[0] == pad) & ~pads
    told = "where a token of a sentence has the number of `pad`, its position is wrong. Only what fills up is a pad."
    others = (found[1] != wanted[1]) & ~pads
    assert not others.any() or (others & ~like_pads).any(), told
    told = "the positions are wrong. They should count from 0 at the cls of each sentence."
    assert torch.equal(found[1][~pads], wanted[1][~pads]), told
    assert not found[1][pads].any(), "the positions of the pads are wrong. They should be 0."
    guessed(
        2,
        "the separator after the first sentence has the language of the second. It belongs to the first.",
        sep_other=True,
    )
    guessed(2, "pads have the language of the first sentence. They should have -1.", pads_first=True)
    guessed(2, "the languages are 1 and 2. They should be 0 and 1.", languages_from_one=True)
    others = found[2] != wanted[2]
    told = "a token that has the number of `pad` has another language than its sentence. Only what fills up is a pad."
    assert not others.any() or (others & ~like_pads).any(), told
    told = "the languages are wrong. They should be 0 in the first sentence, 1 in the second, and -1 at pads."
    assert torch.equal(found[2], wanted[2]), told


def looks(languages: torch.Tensor, tlm: bool) -> torch.Tensor:
    """Who may look at whom, row by row."""
    B, T = languages.shape
    found = torch.eye(T, dtype=torch.bool).repeat(B, 1, 1)
    for b, row in enumerate(languages):
        for i, language in enumerate(row.tolist()):
            if language >= 0:
                found[b, i] = row >= 0 if tlm else row == language
    return found


def some_languages(B: int, T: int, seed: int) -> torch.Tensor:
    """Rows of a first and a second language and pads; the first row has no pads."""
    pick = expect.draw(seed)
    ends = [sorted(pick.randint(0, T) for _ in range(2)) for _ in range(B)]
    ends[0][1] = T
    return torch.tensor([[0] * first + [1] * (real - first) + [-1] * (T - real) for first, real in ends])


ALLOWED = Contract(
    "allowed(languages, tlm)",
    sizes={"B": (1, 5), "T": (1, 12, 600), "tlm": (0, 1)},
    languages=lambda toys, seed, B, T: some_languages(B, T, seed),
    gives="who may look: bool (B, T, T)",
    right=looks,
)


def looks_right(allowed: Remote, languages: torch.Tensor, tlm: bool) -> None:
    """Fail unless the right tokens may look at each other."""
    B, T = languages.shape
    found = expect.tensor(allowed(languages, tlm), (B, T, T), "the result of `allowed`")
    assert found.dtype == torch.bool, f"`allowed` should return booleans, not {str(found.dtype)[6:]}."
    wanted, real = looks(languages, tlm), languages >= 0
    if torch.equal(found, wanted):
        return
    told = "true and false are the wrong way round: true is where a token may look."
    assert not torch.equal(found, ~wanted), told
    own = torch.eye(T, dtype=torch.bool)
    told = "`tlm=True` and `tlm=False` are the wrong way round: with tlm, tokens may look at the other language."
    if torch.equal(found, looks(languages, not tlm)):
        assert not expect.same(allowed(languages, not tlm), wanted), told
    told = "a pad is seen by real tokens. Only the pad itself may look at it."
    assert not (found & real[:, :, None] & ~real[:, None, :]).any(), told
    told = "a pad looks at another pad or at a real token. Each pad should look only at itself."
    assert not (found & ~real[:, :, None] & ~own).any(), told
    both = real[:, :, None] & real[:, None, :]
    assert tlm or not (found & both & ~wanted).any(), "without tlm, a token looks at the other language."
    told = (
        f"some real token does not look at every {'real one' if tlm else 'one of its own language'}, itself included."
    )
    told = f"with{'' if tlm else 'out'} tlm, {told}"
    assert torch.equal(found & both, wanted & both), told
    raise AssertionError(
        "a pad may look at nothing: its row of the softmax is empty, and becomes NaN. It should look at itself."
    )


@check("11.6", points=2, forbids=MODELS)
def two_languages(tlm_batch, allowed, lib):
    """Check rows place by place, positions that begin again, and by loops who looks at whom; no row is empty."""
    pairs = [([11, 12, 13], [21, 22]), ([14], [23, 24, 25, 26]), ([], [27]), ([15, 16], []), ([], [])]
    with world_kept(lib, "after rows were made,"):
        batched(tlm_batch, pairs, 1, 2, 0)
    batched(tlm_batch, pairs[:1], 5, 6, 7)
    batched(tlm_batch, pairs[:3], 5, 6, 7)
    batched(tlm_batch, pairs[4:], 3, 4, 9)
    batched(tlm_batch, [([0, 2, 1], [1, 1]), ([2], [0])], 1, 2, 0)
    batched(tlm_batch, [([8, 9], [9, 8])] * 3, 1, 2, 0)
    languages = torch.tensor([[0, 0, 0, 1, 1, -1, -1], [0, 1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 1]])
    for some in (languages, languages[:1], languages[1:, :1], torch.full((2, 3), -1)):
        for tlm in (True, False):
            looks_right(allowed, some, tlm)
    square = torch.tensor([[0, 1, -1], [0, 0, 1], [1, 0, 1]])
    for tlm in (True, False):
        looks_right(allowed, square, tlm)
        found = expect.answers(
            lib(toys).strided,
            allowed,
            languages,
            tlm,
            says="`allowed` fails if the tensor `languages` is not contiguous in memory.",
        )
        told = "the result of `allowed` is wrong if the tensor `languages` is not contiguous in memory."
        assert type(found) is torch.Tensor and torch.equal(found, looks(languages, tlm)), told
    ALLOWED.hold(allowed, lib, "memory")
    expect.one_device(lib, allowed, languages, True)
    expect.one_device(lib, allowed, languages, False)


# 11.7

pairs_of = functools.partial(labelled_pairs, "pair_task")
TURNED = "the labels are the wrong way round: 0 means that the text goes on like this."
RIGHT_ONE = "a pair with label 1 is right as it is in the text. "


def neighbours(documents: Sequence[Sequence[str]]) -> list[tuple[int, int]]:
    """Return the indices (d, i) of all sentences that have a next one, in the order of the text."""
    return [(d, i) for d, document in enumerate(documents) for i in range(len(document) - 1)]


def examples_right(found: list[Pair], documents: list[list[str]], task: str) -> None:
    """Fail unless the examples of documents without repetitions are as they should be."""
    place = {text: (d, i) for d, document in enumerate(documents) for i, text in enumerate(document)}
    assert all(a in place and b in place for a, b, _ in found), (
        "a pair has a text that is not a sentence of the documents."
    )
    at = neighbours(documents)
    in_text = [(place[a], place[b]) == ((d, i), (d, i + 1)) for (a, b, _), (d, i) in zip(found, at, strict=True)]
    assert len({*in_text}) < 2 or in_text != [label == 1 for *_, label in found], TURNED
    for (a, b, label), (d, i), follows in zip(found, at, in_text, strict=True):
        one, other = place[a], place[b]
        turned = (one, other) == ((d, i + 1), (d, i))
        told = "Swap the two there." if task == "sop" else "There, b should come from another document."
        assert not (label and follows), RIGHT_ONE + told
        if task == "sop":
            assert label or not turned, "with label 0, a pair is swapped. Swap the two with label 1 alone."
            assert follows or turned or one[0] == other[0], (
                "a wrong pair has sentences of two documents: that is NSP. For SOP, swap the two neighbours."
            )
            assert follows or turned, (
                "for SOP, a pair is not the two neighbours at its place in the text, in either order."
            )
            continue
        assert not turned, "in a pair of NSP the neighbours are swapped: that is SOP."
        told = "with label 0, the pair is not the two neighbours, in the order of the text."
        assert label or one == (d, i), told
        assert label or other[0] == d, "with label 0, b comes from another document. Draw b with label 1 alone."
        assert follows or label, told
        assert one == (d, i) or not label, (
            "with label 1, a is not the sentence at that place. Keep the order of the text, and draw only b."
        )
        told = "with label 1, b comes from the same document as a. It should come from another one."
        assert not label or other[0] != d, told


def drawn_evenly(found: Sequence[list[Pair]], documents: list[list[str]], task: str) -> None:
    """Fail unless labels, and the wrong b of NSP, are drawn evenly: `found` are many draws."""
    place = {text: (d, i) for d, document in enumerate(documents) for i, text in enumerate(document)}
    labels = [[label for *_, label in one] for one in found]
    flat = [label for one in labels for label in one]
    ones = Counter(map(sum, labels))
    assert len(ones) > 1 or len(labels[0]) == 1, (
        "every call gives the same number of 1s as labels. Draw each label independently of the others."
    )
    likely(sum(flat), len(flat), 0.5, f"of {len(flat)} labels, {sum(flat)} are 1. It should be about half of them.")
    told = "labels one after the other are not independent. Draw each label independently of the others."
    for one, other in itertools.pairwise(range(len(labels[0]))):
        same = sum(row[one] == row[other] for row in labels)
        likely(same, len(labels), 0.5, told)
    fours = [tuple(row[k : k + 4]) for row in labels for k in range(0, len(row) - 3, 4)]
    for four, count in Counter({four: 0 for four in itertools.product((0, 1), repeat=4)} | Counter(fours)).items():
        if fours:
            told = (
                f"of {len(fours)} groups of four labels in a row, {count} are {four}, and about {len(fours) / 16:.0f} "
            )
            likely(count, len(fours), 1 / 16, f"{told}should be. Draw each label independently of the others.")
    if task == "sop":
        return
    for d, document in enumerate(documents):
        others = [(e, i) for e, other in enumerate(documents) if e != d for i in range(len(other))]
        wrong = Counter(place[b] for one in found for a, b, label in one if label and place[a][0] == d)
        total = sum(wrong.values())
        full = [e for e, other in enumerate(documents) if other and e != d]
        by_document = {(e, i): 1 / len(full) / len(documents[e]) for e, i in others}
        fit = (
            even(wrong, dict.fromkeys(others, 1 / max(1, len(others))), total, by_document) if len(document) > 1 else 0
        )
        told = "a document is drawn first: sentences of short ones come too often. Draw from all sentences."
        assert fit != 1, told
        assert fit == 0, "with label 1, b is not drawn evenly from all sentences of the other documents."
        if len(others) < 2:
            continue
        pairs = [(one, two) for row in found for one, two in itertools.pairwise(row) if place[one[0]][0] == d]
        wrong_pairs = [(one[1], two[1]) for one, two in pairs if one[2] and two[2] and place[two[0]][0] == d]
        again = sum(one == two for one, two in wrong_pairs)
        often = "often" if again * len(others) > len(wrong_pairs) else "rarely"
        told = f"where two pairs in a row have label 1, their b is the same too {often}. Draw each b independently."
        likely(again, len(wrong_pairs), 1 / len(others), told)


@check("11.7", points=3, forbids=MODELS)
def pair_task(pair_task, lib):
    """Check for one example per pair of neighbours, in order, with each label for half, and the right wrong pairs."""
    make, before = lib(random).Random, chance(lib)
    documents = named_documents([4, 0, 2, 6, 1])
    count = len(neighbours(documents))
    for task in ("nsp", "sop"):
        found = [pairs_of(pair_task(documents, task, make(seed)), count) for seed in range(20)]
        for one in found:
            examples_right(one, documents, task)
        types = lib(toys).types_in(pair_task, documents, task, make(0))
        assert types == ["tuple"], f"each example should be a tuple (a, b, label), not a {types[0]}."
        holder = lib(probes).type_name(pair_task, [documents, task, make(0)], {})
        assert holder == "list", f"the examples should be a list, not a {holder}."
        going = make(7)
        found = [pairs_of(one, count) for one in lib(toys).each(pair_task, [[documents, task, going]] * 300)]
        labels = {label for one in found for *_, label in one}
        assert len(labels) > 1, f"all labels are {labels.pop()}."
        assert len({tuple(one) for one in found[:20]}) > 1, (
            "a second call with the same `rng` gives the same pairs, as if it were seeded at each call."
        )
        drawn_evenly(found, documents, task)
        first, again, other = (pair_task(documents, task, make(seed)) for seed in (5, 5, 6))
        assert first == again, "two `rng` with the same seed give different pairs: all chance should come from `rng`."
        assert first != other, "an `rng` with another seed gives the same pairs: all chance should come from `rng`."
        without: list[list[list[str]]] = [[], [[]], [["alone"]], [["alone"], ["alone too"]]]
        for empty in without:
            says = "documents with no two neighbouring sentences should give an empty list, not an error."
            given = expect.answers(pair_task, empty, task, make(1), says=says)
            assert given == [], "documents with no two neighbouring sentences should give an empty list."
        for wrong in ("SOP ", "next", task[::-1], task.upper(), task.title()):
            for given in (documents, [], [["alone"]]):
                told = f"the task {wrong!r} should raise ValueError, whatever the documents."
                expect.refuses(pair_task, given, wrong, make(1), says=told)
    assert chance(lib) == before, "a global generator is seeded or used. All chance should come from `rng`."
    told = "without a sentence in another document, NSP should raise ValueError."
    for lonely in ([["a", "b"]], [["a", "b", "c"], []], [[], ["a", "b"], []]):
        for seed in range(6):
            expect.refuses(pair_task, lonely, "nsp", make(seed), says=told)
        says = "SOP needs no other document: one is enough."
        found = pairs_of(
            expect.answers(pair_task, lonely, "sop", make(1), says=says), sum(len(one) - 1 for one in lonely if one)
        )


# 11.8


def lowest_and_rise(overfitted: Remote, losses: list[list[float]]) -> None:
    """Fail unless the lowest point of the mean and the rise after it are found."""
    point, rise = expect.items(overfitted(losses), 2, "overfitted should return a point and a rise")
    expect.of_type(point, int, "the point should be a whole number")
    mean = [math.fsum(some) / len(some) for some in zip(*losses, strict=True)]
    count = len(mean)
    wanted = min(range(count), key=lambda place: mean[place])
    rises = [place for place in range(count - 1) if mean[place + 1] > mean[place]]
    lowest = [min(range(count), key=lambda place, one=one: one[place]) for one in losses]
    best = min(losses, key=min)
    told = f"there is no point {point}: {count} of them count from 0."
    if 0 <= point < count:
        told = "this is not the point at which the mean test loss is lowest. "
        other = "a later" if wanted > point else "an earlier"
        told += f"At point {point} it is {mean[point]:.4g}, and lower at {other} one."
    expect.explained(
        point,
        wanted,
        told,
        {
            "points are counted from 1. The first is 0.": wanted + 1,
            "the loss rises there for the first time, and falls again later.": rises[0] if rises else count - 1,
            "the lowest points of the seeds are averaged. The mean loss should be lowest.": round(
                sum(lowest) / len(lowest)
            ),
            "one seed decides. The mean over seeds should be lowest.": best.index(min(best)),
            "this is the point with the highest loss.": max(range(count), key=lambda place: mean[place]),
            "the first point is never chosen. It may be the lowest.": min(
                range(min(1, count - 1), count), key=lambda place: mean[place]
            ),
            "the last point is never chosen. It may be the lowest.": min(
                range(max(1, count - 1)), key=lambda place: mean[place]
            ),
            "this is the last point.": count - 1,
        },
    )
    expect.number_like(
        rise,
        mean[-1] - mean[wanted],
        "the rise",
        "the point is right, but this is not by how much the last mean is above the lowest one.",
        {
            "the point is right, but the rise has the wrong sign.": mean[wanted] - mean[-1],
            "the point is right, but this is the rise up to the highest point, not up to the last.": max(mean)
            - mean[wanted],
            "the point is right, but this is how far the loss fell, not how far it rose again.": mean[0] - mean[wanted],
            "the point is right, but the last mean is compared with the first one, not with the lowest.": mean[-1]
            - mean[0],
            "the point is right, but the rises of the seeds are averaged, each from its own lowest point.": math.fsum(
                one[-1] - min(one) for one in losses
            )
            / len(losses),
            "the point is right, but the rise is that of the sum over seeds. Take the mean.": len(losses)
            * (mean[-1] - mean[wanted]),
            "the point is right, but the rise is divided by the lowest mean. It should be the difference.": mean[-1]
            / (mean[wanted] or 1.0)
            - 1,
            "the point is right, but the rise is rounded to two digits. Return it as it is.": round(
                mean[-1] - mean[wanted], 2
            ),
        },
        1e-6,
    )


def losses_with_a_turn(some: random.Random, points: int, seeds: int) -> list[list[float]]:
    """Losses that fall and rise, with a bump, and whose seeds differ in level."""
    turn = some.randrange(points)
    shape = [abs(place - turn) * (0.3 if place < turn else 0.2) for place in range(points)]
    return [
        [round(3 + level + one + some.uniform(-0.4, 0.4), 4) for one in shape]
        for level in (some.uniform(-1, 1) for _ in range(seeds))
    ]


@results_check("11.8", points=4, source=objectives, notebook=objectives.NOTEBOOK, reading=2)
def overfitted(overfitted):
    """The runs by their files; the lowest point of a mean with bumps, and the rise after it, also of none."""
    some = expect.draw(118)
    one, other = [5.0, 4.0, 4.2, 2.5, 3.3, 3.1, 5.9, 4.1], [5.2, 4.4, 4.6, 4.0, 4.1, 2.9, 5.5, 3.9]
    lowest_and_rise(overfitted, [one, other])
    lowest_and_rise(overfitted, [[2.0, 3.0, 2.9]])
    lowest_and_rise(overfitted, [[3.0, 2.0, 1.0]] * 2)
    lowest_and_rise(overfitted, [[3.0, 2.5, 2.75, 2.0]] * 2)
    lowest_and_rise(overfitted, [[1.0]])
    lowest_and_rise(overfitted, [[3.0003, 3.0002, 3.0001, 3.0004]])
    lowest_and_rise(overfitted, [[0.5, 3.0, 2.8, 3.1], [5.0, 2.0, 1.9, 2.5], [5.0, 2.0, 1.9, 2.6]])
    for points, seeds in ((8, 5), (12, 2), (5, 1), (20, 4)):
        lowest_and_rise(overfitted, losses_with_a_turn(some, points, seeds))
    late = [3.0, 2.0, *(2.5 + place % 7 / 10 for place in range(1200)), 1.5, 1.75]
    lowest_and_rise(overfitted, [late])
    lowest_and_rise(
        overfitted, [[1e30 * loss for loss in one] for one in ([3.0, 2.5, 3.5, 2.0, 2.25], [3.5, 3, 4, 2.25, 2.5])]
    )


# 11.S1


def two_masks(value: Any, shape: tuple[int, int]) -> tuple[torch.Tensor, torch.Tensor]:
    """The new ids, and which are not the old ones."""
    assert type(value) is list and len(value) == 2, f"`replace` should return two tensors, not {kind(value)}."
    drawn = expect.tensor(value[0], shape, "the new ids")
    replaced = expect.tensor(value[1], shape, "what was replaced")
    assert drawn.dtype == torch.int64, f"the new ids should be int64, not {str(drawn.dtype)[6:]}."
    assert replaced.dtype == torch.bool, f"what was replaced should be booleans, not {str(replaced.dtype)[6:]}."
    return drawn, replaced


@stretch("11.S1", forbids=MODELS)
def detection(replace, detection_loss, lib):
    """Drawn, not the best; what is right by chance is real; a mean over the real tokens; chance from one generator."""
    toy, before = lib(toys), chance(lib)
    B, T, V = 60, 50, 5
    ids = torch.randint(V, (B, T), generator=expect.generator(80))
    blanks = torch.rand(B, T, generator=expect.generator(81)) < 0.4
    logits = torch.tensor([0.0, 0.7, -1.0, 1.5, 0.2]).expand(B, T, V).contiguous()
    drawn, replaced = two_masks(replace(ids, blanks, logits, toy.seeded(1)), (B, T))
    assert torch.equal(drawn[~blanks], ids[~blanks]), "tokens that are not blanks change. They should stay."
    assert not torch.equal(replaced, blanks), (
        "a drawn token that happens to be the old one counts as real, not as replaced."
    )
    assert torch.equal(replaced, drawn != ids), (
        "the second result should be True exactly where a token is not the old one."
    )
    counts = Counter(drawn[blanks].tolist())
    assert len(counts) > 1, "all blanks get the same token, though their logits leave a choice. It should be drawn."
    total, shares = int(blanks.sum()), logits[0, 0].softmax(-1).tolist()
    told = "tokens are not drawn with the probabilities softmax(logits)."
    for token, share in enumerate(shares):
        likely(counts[token], total, share, told)
    sure = 50 * F.one_hot((ids + 1) % V, V).float()
    drawn, _ = two_masks(replace(ids, blanks, sure, toy.seeded(2)), (B, T))
    assert torch.equal(drawn, torch.where(blanks, (ids + 1) % V, ids)), (
        "a blank is not filled from the logits at its own place."
    )
    none, nothing = two_masks(replace(ids, torch.zeros_like(blanks), logits, toy.seeded(3)), (B, T))
    assert torch.equal(none, ids) and not nothing.any(), (
        "without blanks, ids should stay as they are and nothing should count as replaced."
    )
    first, again, other = (replace(ids, blanks, logits, toy.seeded(n))[0] for n in (5, 5, 6))
    assert torch.equal(first, again), (
        "two generators with the same seed draw different tokens: all chance should come from `generator`."
    )
    assert not torch.equal(first, other), (
        "a generator with another seed draws the same tokens: all chance should come from `generator`."
    )
    assert chance(lib) == before, "a global generator is seeded or used, although `generator` is given."
    scores, real = normal(3, 4, seed=82), torch.rand(3, 4, generator=expect.generator(83)) < 0.6
    found, gold = detection_loss(scores, scores > 0.3, real), (scores > 0.3).double()
    losses = F.softplus(scores.double()) - gold * scores.double()
    expect.number_like(
        found,
        float(losses[real].mean()),
        "the loss",
        "the loss is not the mean of L over the real tokens.",
        {
            "pads are part of the mean. Take it over the real tokens.": float(losses.mean()),
            "this is the sum. Take the mean.": float(losses[real].sum()),
            "the sum over real tokens is divided by the number of all places. Divide by that of the real ones.": float(
                losses[real].sum() / losses.numel()
            ),
            "the labels are the wrong way round: replaced is 1.": float(
                (F.softplus(scores.double()) - (1 - gold) * scores.double())[real].mean()
            ),
            "a sigmoid is applied to the scores twice. Scores are logits, which need it once.": float(
                (F.softplus(scores.double().sigmoid()) - gold * scores.double().sigmoid())[real].mean()
            ),
        },
    )
    large = expect.number(detection_loss(300 * scores, scores > 0.3, real), "the loss")
    assert math.isfinite(large), "large scores give an infinite loss: the log of a sigmoid that has become 0."
