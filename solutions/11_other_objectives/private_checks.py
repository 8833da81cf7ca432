"""Cases of notebook 11 that students never see: other sizes, other seeds, edges, drawn for each submission."""

import itertools
import random
from collections import Counter

import torch

from autograder.author.checks import private, swept, tells
from utils.checks import nb11_other_objectives as seen
from utils.checks import nb11_toys as toys
from utils.grading import expect
from utils.grading.expect import draw, likely, normal

masks = swept("11.1", seen.MASKED, without=("memory",))
updates = swept("11.3", seen.ADAM, without=("sizes", "large", "device", "layout", "dtypes"))
lengths = swept("11.4", seen.LENGTHS, without=("draws", "memory"))
spans = swept("11.4", seen.SPANS, without=("draws", "memory"))
ends = swept("11.5", seen.SPAN_ENDS, without=("refusals", "memory"))
looks = swept("11.6", seen.ALLOWED, without=("memory",))

# 11.1


@private("11.1", tells="among many seeds, sentences and epochs, two share a mask.")
def far_apart(mask_number, masked_places, lib):
    some = draw(1100)
    with tells("with other numbers of copies, the masks do not take turns."):
        for copies in (2, 3, some.randint(4, 40)):
            seen.takes_turns(mask_number, lib, copies, 90)
    near = [some.randrange(1000) for _ in range(2)]
    sentences = {one % 10**6 for base in (some.randrange(10**6), 2**16) for one in (base, base + 1, base + 256)}
    epochs = {some.randrange(780), 200, 400, 800, 256, 512}
    epochs |= {one + 200 for one in epochs if one < 800}
    places = [(seed, sentence, epoch) for seed in {*near} for sentence in sentences for epoch in epochs]
    # So many that some of them meet in 16 bits.
    drawn = [(some.randrange(1000), some.randrange(10**6), some.randrange(1000)) for _ in range(1200)]
    seen.apart(masked_places, lib, [*dict.fromkeys([*places, *drawn])], 40)


@private("11.1", tells="for other values of n or `rate`, the number of hidden tokens is wrong.")
def other_choices(masked_places, lib):
    some = draw(1101)
    for _ in range(8):
        n = some.randint(1, 60)
        rate = some.choice([k / 100 for k in range(101) if abs(k * n % 100 - 50) > 3])
        seen.as_many(masked_places, lib, n, rate, some.sample(range(10**6), 5))
    first, n = some.randrange(10**5), some.randint(6, 12)
    turns = [[n, first + sentence, sentence % 7, None, 2 / n] for sentence in range(400)]
    counts = torch.stack(lib(toys).each(masked_places, turns)).sum(0).tolist()
    with tells("in longer sentences, some places are hidden more often than others."):
        for count in counts:
            likely(count, 400, 2 / n, "some places are hidden too often or too rarely", 7)


# 11.2


@private("11.2", tells="the rows are wrong for other documents, or for other values of max_len or `sep`.")
def other_rows(full_rows):
    for place in range(40):
        some = draw(1120 + place)
        documents = seen.some_documents(some, some.randint(1, 9), some.randint(1, 12), some.randint(1, 6))
        seen.packed(full_rows, documents, some.randint(1, 25), some.choice([-5, 0, 10_000]))
    with tells("the rows are wrong for sentences and rows of thousands of tokens."):
        lengths = [some.randint(2000, 4000), some.randint(200, 400), some.randint(2, 9)]
        seen.packed(full_rows, [[[1] * lengths[0], [2] * lengths[1]], [[3] * lengths[2]]], some.randint(1100, 1900), -5)


@private("11.2", tells="the rows are wrong for documents in which tokens repeat.")
def equal_tokens(full_rows, lib):
    with tells("a token that is equal to `sep` is taken for a separator."):
        assert full_rows([[[7, 7]], [[7]]], 4, 7) == [[7, 7, 7, 7]], "a token like the separator"
    with tells("a document that is equal to another one is not treated as a document of its own."):
        assert full_rows([[[1, 2]], [[1, 2]], [[3]]], 9, 7) == [[1, 2, 7, 1, 2, 7, 3]], "two documents that are equal"
    with tells("where one list is there twice, its second place does not count as another document."):
        assert lib(toys).of_one_list_twice(full_rows, [[1, 2]], 9, 7) == [[1, 2, 7, 1, 2]], "one list twice"
    for place in range(20):
        some = draw(1170 + place)
        documents = [
            [some.choices((7, 8), k=some.randint(0, 4)) for _ in range(some.randint(0, 3))]
            for _ in range(some.randint(1, 5))
        ]
        max_len = some.randint(2, 12)
        assert full_rows(documents, max_len, 7) == seen.rows_of(documents, max_len, 7), "equal tokens"


# 11.3


@private("11.3", tells="the updates are wrong for other gradients, rates, betas or eps, or for a single weight.")
def other_gradients(adam):
    for place in range(8):
        some = draw(1130 + place)
        shape = [(), (1,), (some.randint(2, 5),), (3, 1, some.randint(2, 4))][place % 4]
        gradients = some.choice([1e-3, 1.0, 50.0]) * normal(some.randint(1, 12), *shape, seed=some.randrange(2**31))
        gradients[some.randrange(len(gradients))] *= some.choice([0, 1, 100])
        betas = some.uniform(0, 0.95), some.uniform(0.5, 0.999)
        eps = some.uniform(0.01, 1)
        seen.stepped(adam, gradients.double() if place < 4 else gradients, some.uniform(1e-3, 3), betas, eps)


# 11.4


@private("11.4", tells="the lengths are wrong for other values of `p` or `longest`.")
def other_lengths(span_lengths, lib):
    for place in range(4):
        some = draw(1140 + place)
        longest = (some.randint(14, 20), 2, some.randint(3, 9), 10)[place]
        p = (some.uniform(0.05, 0.12), some.uniform(0.1, 0.9), some.uniform(0.2, 0.6), 0.2)[place]
        seen.lengths_right(span_lengths, lib, 6000, p, longest, some.randrange(2**31))
    few = [seen.lengths_of(span_lengths(6, 0.3, 10, lib(toys).seeded(1150 + place)), 6) for place in range(14)]
    with tells("where few lengths are drawn, no two are ever equal. Draw each length independently of the others."):
        assert any(len(one.unique()) < 6 for one in few), "few lengths are never alike"


@private("11.4", tells="for other values of n, `lengths` or `rate`, masks are not drawn as the docstring says.")
def other_spans(span_mask, lib):
    for place in range(6):
        some = draw(1150 + place)
        n = some.randint(3, 9)
        lengths = [some.randint(1, 5) for _ in range(some.randint(1, 4))]
        rate = some.choice([k / 100 for k in range(10, 101) if abs(k * n % 100 - 50) > 3])
        seen.placed(span_mask, lib, n, lengths, rate, some.randrange(2**31), 300)
    few = torch.tensor([480, *20 * [1]])  # one place is free in the end, which a limited number of tries misses
    with tells("where one last place is free, a span of one token does not find it."):
        assert span_mask(500, few, 1.0, lib(toys).seeded(draw(1160).randrange(2**31))).all(), "free places stay free"


# 11.5


@private("11.5", tells="the logits are wrong for other sizes, longer spans or other weights.")
def other_sizes(BoundaryObjective, lib):
    for place in range(3):
        some = draw(1180 + place)
        B, T = ((4, 4), (1, some.randint(24, 40)), (some.randint(2, 4), some.randint(5, 9)))[place]
        mask = seen.some_mask(B, T, (0.5, 0.93, 0.4)[place], some.randrange(2**31))
        if place == 1:
            mask[0, 2:21] = True
        V, d, longest = some.randint(4, 9), (4, 5, some.randint(6, 9))[place], (1, 30, some.randint(2, 5))[place]
        module, _, state = seen.new_objective(BoundaryObjective, lib, V, d, longest, some.randrange(2**31))
        states = normal(B, T, d, seed=some.randrange(2**31))
        seen.objective_right(module, state, states, mask)


@private("11.5", tells="the objective fails in double precision, or when it learns.")
def double_and_trained(BoundaryObjective, lib):
    some = draw(1190)
    V, d, longest = some.randint(4, 9), some.randint(3, 6), some.randint(2, 5)
    module, embedding, state = seen.new_objective(BoundaryObjective, lib, V, d, longest, some.randrange(2**31))
    mask, states = seen.some_mask(2, 7, 0.6, 1191), normal(2, 7, d, seed=1192)
    fine = states.double() / 3  # numbers that single precision does not hold
    mask[0, 3] = True
    slope = lib(toys).slope_of_table(lib(toys).WithMask(module, mask), states, embedding)
    own = state["table"].clone().requires_grad_()
    with torch.enable_grad():
        toys.backward(seen.answered({**state, "table": own}, states, mask))
    assert own.grad is not None
    with tells(
        "the gradient of the embedding's weight is wrong. It comes through the logits of all tokens of the vocabulary."
    ):
        expect.close(slope, own.grad, "the gradient of the embedding is wrong", 1e-3)
    exact = lib(toys).double(lib(toys).Beside(module, embedding))(fine, mask)
    with tells("in double precision, the logits are not float64, or only as exact as float32."):
        doubled = {name: value.double() for name, value in state.items()}
        right = seen.answered(doubled, fine, mask)
        expect.close(exact, right, "double precision is lost on the way", 1e-12)


# 11.6


@private("11.6", tells="the rows of other pairs are wrong, such as those of longer sentences or of a single pair.")
def other_pairs(tlm_batch):
    for place in range(8):
        some = draw(1200 + place)
        cls, sep, pad = some.sample(range(90), 3)
        longest = some.choice([3, 30])
        pairs = [
            tuple([some.randrange(100) for _ in range(some.randint(0, longest))] for _ in range(2))
            for _ in range(some.randint(1, 5))
        ]
        seen.batched(tlm_batch, pairs, cls, sep, pad)
    with tells("the rows are wrong for sentences of more than a thousand tokens."):
        pairs = [([1] * some.randint(1100, 1500), [2] * some.randint(1100, 1500)), ([3], [])]
        seen.batched(tlm_batch, pairs, 90, 91, 92)


# 11.7

TURNS = 600  # so many tell a text that is there three times of five from one that is drawn once of three


@private("11.7", tells="the examples are wrong for other documents, such as longer ones, or more of them.")
def other_documents(pair_task, lib):
    some = draw(1230)
    documents = seen.named_documents([*some.sample(range(7), 7), some.randint(30, 40), 2, 3])
    count = len(seen.neighbours(documents))
    for task in ("nsp", "sop"):
        turns = [[documents, task, lib(random).Random(some.randrange(10**6))]] * 200
        found = [seen.pairs_of(one, count) for one in lib(toys).each(pair_task, turns)]
        for one in found:
            seen.examples_right(one, documents, task)
        with tells("where there are many pairs, the labels of some are not half 0 and half 1."):
            for place in range(count):
                likely(sum(one[place][2] for one in found), 200, 0.5, "labels are not half 0 and half 1", 7)
        if task == "nsp":
            with tells("where there are many sentences, some are never drawn."):
                drawn = {second for one in found for _, second, label in one if label}
                assert drawn == {sentence for document in documents for sentence in document}, "some are never drawn"


@private(
    "11.7",
    tells="texts that repeat, within a document or in two of them, are confused. Tell sentences apart by their places.",
)
def repeated_texts(pair_task, lib):
    make, some = lib(random).Random, draw(1240)
    a, b, c = some.sample("abcdefghijklmnop", 3)
    documents = [[a, b], [a, a, b, a, c]]
    neighbours = [pair for document in documents for pair in itertools.pairwise(document)]
    for task in ("nsp", "sop"):
        going = make(some.randrange(10**6))
        found = lib(toys).each(pair_task, [[documents, task, going]] * TURNS)
        for one in found:
            for (first, second, label), (here, there) in zip(one, neighbours, strict=True):
                assert label or (first, second) == (here, there), "the neighbours are others"
                assert task == "nsp" or not label or (first, second) == (there, here), "they are not swapped"
                assert task == "sop" or first == here, "a is another"
        for place in range(len(neighbours)):
            likely(sum(one[place][2] for one in found), TURNS, 0.5, "labels are not half 0 and half 1", 6)
        if task == "sop":
            continue
        for rows, shares in ((slice(0, 1), {a: 0.6, b: 0.2, c: 0.2}), (slice(1, None), {a: 0.5, b: 0.5})):
            wrong = Counter(second for one in found for _, second, label in one[rows] if label)
            total = sum(wrong.values())
            for text, share in shares.items():
                likely(wrong[text], total, share, f"{text} is drawn too often or too rarely", 6)
    twins = [[a, b], [a, b]]
    assert len(pair_task(twins, "nsp", make(some.randrange(10**6)))) == 2, "equal documents"
    with tells("where one list is there twice, its second place does not count as another document."):
        found = lib(toys).of_one_list_twice(pair_task, [a, b], "nsp", make(some.randrange(10**6)))
        assert len(found) == 2, "one list twice"
    with tells("a document that equals another one is not drawn from. Tell documents apart by their places."):
        going = make(some.randrange(10**6))
        found = lib(toys).each(pair_task, [[[[a, b], [a, b], [c]], "nsp", going]] * TURNS)
        others = Counter(second for one in found for _, second, label in one if label)
        for text in (a, b, c):
            likely(others[text], others.total(), 1 / 3, f"{text} is drawn too often or too rarely", 6)


# 11.8


@private("11.8", tells="for other losses, the lowest point or the rise after it is wrong.")
def other_losses(overfitted):
    some = draw(1181)
    for place in range(10):
        points, seeds = ((2, 25), (1, 9)) if place % 2 else ((10, 25), (10, 30))
        losses = seen.losses_with_a_turn(some, some.randint(*points), some.randint(*seeds))
        seen.lowest_and_rise(overfitted, losses)
