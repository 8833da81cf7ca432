"""What students do not see of notebook 02: sizes, positions, orders and modules drawn for each hand-in, and edges."""

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from autograder.author.checks import private
from utils.checks import nb02_toys as toys
from utils.checks.nb02_positional_encoding import alibi, explained, largest_gap, speed, turned, waves
from utils.grading import expect
from utils.grading.expect import draw, generator, normal
from utils.grading.remote import INFINITY, Remote, promised


@private("2.1", tells="for other lengths or widths the table is not the one of the formula.")
def other_tables(sinusoidal_table):
    pick = draw(1)
    small = [(pick.randint(2, 60), 2 * pick.randint(1, 7)) for _ in range(3)]
    for rows, width in (*small, (1, 2), (pick.randint(4, 9), 2 * pick.randint(20, 40))):
        table = expect.floats(sinusoidal_table(rows, width), (rows, width), "the table")
        assert expect.near(table, waves(rows, width), atol=1e-4), f"{rows} x {width}"
    rows, width = pick.randint(2_500, 3_500), 2 * pick.randint(5, 12)
    table = expect.floats(sinusoidal_table(rows, width), (rows, width), "the long table")
    assert expect.near(table[-3:], waves(3, width, first=rows - 3), atol=5e-3), "far positions"


@private("2.1", tells="some odd widths are accepted.")
def odd_widths(sinusoidal_table):
    pick = draw(2)
    for width in (1, *pick.sample(range(7, 60, 2), 4)):
        rows = pick.randint(2, 30)
        expect.refuses(sinusoidal_table, rows, width, says=f"{width} accepted")


@private("2.2", tells="the table is not kept as it was made, or two modules share one.")
def made_once(FixedPositions, lib):
    """With torch's own `randn` for `make_table`: nobody knows the table before, and there is none like it."""
    pick = draw(2)
    rows, width = pick.randint(5, 12), pick.randint(3, 9)
    module, other = (FixedPositions(lib(torch).randn, rows, width) for _ in range(2))
    x = normal(pick.randint(2, 4), rows, width, seed=2)
    first = expect.floats(module(torch.zeros_like(x)), tuple(x.shape), "the output")
    assert first[0].std() > 0 and torch.equal(first[0], first[-1]), "one table for each sequence"
    assert expect.near(expect.floats(module(x), tuple(x.shape), "the output"), x + first, atol=1e-5), "another table"
    assert not expect.near(other(x) - x, first, atol=1e-3), "one table for two modules"


@private("2.2", tells="for other sizes of table or input, the table is not added as it should.")
def other_fixed_sizes(FixedPositions, lib):
    pick = draw(1)
    rows = pick.randint(10, 25)
    sizes = ((rows, pick.randint(3, rows - 1)), (pick.randint(3, 9), 0), (pick.randint(6, 30), 1), (1, 1))
    for rows, places in sizes:
        width, seed = pick.randint(2, 12), pick.randint(1, 10**6)
        places = places or rows
        batch = pick.randint(2, 5)
        module = FixedPositions(lib(toys).NewTableEachCall(seed), rows, width)
        x, table = normal(batch, places, width, seed=seed), toys.NewTableEachCall(seed)(rows, width)
        output = expect.floats(module(x), (batch, places, width), "the output")
        assert expect.near(output, x + table[:places], atol=1e-5), f"{rows} x {width}, {places} positions"
        square = normal(places, places, width, seed=seed)
        module.eval()
        assert expect.near(module(square), square + table[:places], atol=1e-5), "as many sequences, in evaluation"
        expect.refuses(module, normal(1, rows + 1, width), says=f"{rows + 1} positions")
        assert module.state_dict() == {} and not list(module.parameters()), "stored or trained"


@private("2.2", tells="the table does not move with the module if the module moves before its first use.")
def moved_first(FixedPositions, lib):
    pick = draw(3)
    rows, width, seed = pick.randint(6, 12), pick.randint(4, 14), pick.randint(1, 10**6)
    module = FixedPositions(lib(toys).NewTableEachCall(seed), rows, width)
    module.double()
    module.half()
    x, table = normal(2, 4, width, seed=4), toys.NewTableEachCall(seed)(rows, width)
    output = expect.tensor(module(x), (2, 4, width), "the output")
    assert expect.near(output.float(), x + table[:4].half().float(), atol=1e-6), "the table is not half precision"
    assert module(x.half()).dtype is torch.float16


@private("2.2", tells="two modules get in each other's way.")
def two_modules(FixedPositions, lib):
    pick = draw(4)
    width, seed = pick.randint(4, 9), pick.randint(1, 10**6)
    few, many = pick.randint(5, 8), pick.randint(9, 14)
    small, large = (FixedPositions(lib(toys).NewTableEachCall(seed), rows, width) for rows in (few, many))
    x = normal(2, 5, width, seed=6)
    for module, rows in ((small, few), (large, many), (small, few)):
        output = expect.floats(module(x), (2, 5, width), "the output")
        assert expect.near(output, x + toys.NewTableEachCall(seed)(rows, width)[:5], atol=1e-5)


def mixing(parts: Any, places: int, width: int, dropout: float) -> Any:
    """A module in which each position has weights of its own; `parts` is `nn`, here or there."""
    across = parts.Conv1d(places, places, 3, padding=1)  # positions are its channels
    return parts.Sequential(across, parts.GELU(), parts.Dropout(dropout), parts.Linear(width, width))


def order_of(places: int, seed: int) -> torch.Tensor:
    """An order of so many positions that is not the identity."""
    order = torch.randperm(places, generator=generator(seed))
    return order if (order != torch.arange(places)).any() else order.roll(1)


@private("2.3", tells="for another module, input or order the gap is wrong.")
def other_gaps(equivariance_gap, lib):
    pick = draw(1)
    for seed in (1, 2):
        batch, places, width = pick.randint(1, 4), pick.randint(4, 9), pick.randint(3, 7)
        x, order = normal(batch, places, width, seed=seed), order_of(places, seed)
        dropout = pick.uniform(0.2, 0.7)
        module, twin = expect.twins(lib, lambda parts: mixing(parts, places, width, dropout), 10 + seed)
        gap = expect.number(equivariance_gap(module, x, order), "the gap")
        assert math.isclose(gap, largest_gap(twin, x, order), rel_tol=1e-3, abs_tol=1e-5), (batch, places, width)
        gap = expect.number(equivariance_gap(module, x, torch.arange(places)), "the gap")
        assert abs(gap) < 1e-5, "the identity has no gap"
        for mode in (True, False):  # what dropout does afterwards tells the mode, and nobody need be asked for it
            module.train(mode)
            gap = expect.number(equivariance_gap(module, x, order), "the gap")
            assert math.isclose(gap, largest_gap(twin, x, order), rel_tol=1e-3, abs_tol=1e-5), "in another mode"
            ones = torch.ones(8, places, width)
            one, two = (expect.floats(module(ones), (8, places, width), "the output") for _ in range(2))
            assert torch.equal(one, two) is not mode, "the mode is another one afterwards"


@private("2.3", tells="a difference at a single entry is overlooked or belittled.")
def one_entry(equivariance_gap, lib):
    pick = draw(2)
    sizes = (pick.choice((-1, 1)) * pick.uniform(2, 6), pick.uniform(0.1, 0.25), -pick.uniform(0.01, 0.05))
    for size in (*sizes, pick.uniform(1e-4, 4e-4)):
        places, width = pick.randint(4, 9), pick.randint(3, 7)
        bias = torch.zeros(places, width)
        order = order_of(places, pick.randint(1, 10**6))
        moved = (order != torch.arange(places)).nonzero().flatten().tolist()
        bias[pick.choice(moved), pick.randrange(width)] = size
        norm = lib(nn).LayerNorm([places, width])
        norm.load_state_dict({"weight": torch.full((places, width), pick.uniform(0.5, 2)), "bias": bias})
        given = normal(2, places, width, seed=3) if abs(size) > 1e-3 else torch.zeros(2, places, width)
        gap = equivariance_gap(norm, given, order)
        assert math.isclose(expect.number(gap, "the gap"), abs(size), rel_tol=1e-2), (places, width, size)


@private("2.3", tells="modules without positions get a gap, or modules that know the order get the wrong one.")
def blind_and_seeing(equivariance_gap, lib):
    parts, pick = lib(nn), draw(3)
    places, heads = pick.randint(4, 8), pick.randint(1, 3)
    # Not 2 or 3 wide: normalising so few features makes a difference of rounding as large as 1e-4.
    width, inner = heads * pick.randint(4, 7), pick.randint(5, 20)
    x, order = normal(3, places, width, seed=9), order_of(places, 9)
    blind = (
        parts.Linear(width, width),
        parts.Sequential(parts.Linear(width, width), parts.Dropout(0.4)),
        parts.TransformerEncoderLayer(width, heads, inner, 0.3, batch_first=True),
    )
    for module in blind:
        assert abs(expect.number(equivariance_gap(module, x, order), "the gap")) < 1e-4, "blind to order"
    mask, sizes = torch.full((places, places), -torch.inf).triu(1), (width, heads, inner, 0.3)
    module = lib(toys).Masked(parts.TransformerEncoderLayer(*sizes, batch_first=True), mask)
    twin = toys.Masked(nn.TransformerEncoderLayer(*sizes, batch_first=True), mask)
    expect.same_weights(module, twin, 10)
    gap = expect.number(equivariance_gap(module, x, order), "the gap")
    assert math.isclose(gap, largest_gap(twin, x, order), rel_tol=1e-3, abs_tol=1e-5), "a causal layer"


@private("2.4", tells="for other distances or widths the matrix does not move the rows as far as it should.")
def other_shifts(shift_matrix):
    pick = draw(1)
    steps = (pick.randint(4, 9), pick.randint(15, 60), -pick.randint(2, 9), pick.randint(100, 300), 0)
    for k, pairs in zip(steps, (pick.randint(1, 3), *pick.sample(range(6, 11), 3), 1), strict=True):
        width, first = 2 * pairs, pick.randint(200, 400)
        matrix = expect.floats(shift_matrix(k, width), (width, width), "R")
        here, there = waves(20, width, first=first), waves(20, width, first=first + k)
        assert expect.near(here @ matrix.T, there, atol=1e-3), (k, width)
        assert expect.near(matrix @ matrix.T, torch.eye(width), atol=1e-4), "no rotation"


@private("2.4", tells="far steps are not turned by the right angles.")
def far_steps(shift_matrix):
    pick = draw(2)
    for width in (4, 6, 8):
        k, at = pick.choice((-1, 1)) * pick.randint(800, 3_000), 2
        matrix = expect.floats(shift_matrix(k, width), (width, width), "R")
        angle = k * speed(1, width)
        wanted = torch.tensor([math.cos(angle), math.sin(angle), -math.sin(angle), math.cos(angle)])
        assert expect.near(matrix[at : at + 2, at : at + 2].flatten(), wanted, atol=3e-4), (k, width)


@private("2.4", tells="two steps in a row are not one long step.")
def chained(shift_matrix):
    pick = draw(3)
    for _ in range(3):
        a, b, width = pick.randint(-9, 9), pick.randint(-9, 9), 2 * pick.randint(3, 6)
        both = shift_matrix(a, width) @ shift_matrix(b, width)
        assert expect.near(both, shift_matrix(a + b, width), atol=1e-4), (a, b, width)


@private("2.5", tells="for other sizes, the rows are not added or not learned as they should.")
def other_learned_sizes(LearnedPositions, lib):
    pick = draw(1)
    for seed, wanted_places in enumerate((pick.randint(3, 6), 0, 1, 1)):
        rows = pick.randint(10, 30) if seed < 3 else 1
        places, width, batch = wanted_places or rows, pick.randint(2, 11), pick.randint(1, 5)
        module = LearnedPositions(rows, width)
        state = expect.weights(module, {"positions.weight": (rows, width)}, "the module", seed=seed)
        table, x = state["positions.weight"], normal(batch, places, width, seed=10 + seed)
        output = expect.floats(module(x), (batch, places, width), "the output")
        assert expect.near(output, x + table[:places], atol=1e-5), (rows, width)
        square = normal(places, places, width, seed=20 + seed)
        assert expect.near(module(square), square + table[:places], atol=1e-5), "as many sequences as positions"
        arrived = lib(toys).parameter_gradients(module, x)["positions.weight"]
        wanted = torch.linspace(-1, 2, x.numel()).reshape(x.shape).sum(0)
        assert expect.near(arrived, F.pad(wanted, (0, 0, 0, rows - places)), atol=1e-4), "gradient"
        for longer in (rows + 1, rows + pick.randint(2, 20)):
            expect.refuses(module, normal(2, longer, width), says=f"{longer} positions")


@private("2.5", tells="a fresh table does not start as it should.")
def fresh_tables(LearnedPositions):
    pick = draw(2)
    rows, width = pick.randint(110, 150), pick.randint(90, 120)
    one, two = (LearnedPositions(rows, width).state_dict()["positions.weight"] for _ in range(2))
    assert not torch.equal(one, two), "always the same"
    for table in (one, two):
        expect.floats(table, (rows, width), "the table")
        assert abs(table.mean()) < 0.001 and 0.019 < table.std() < 0.021, "mean or spread"
        assert (table.std(0) > 0.01).all() and (table.std(1) > 0.01).all(), "rows or columns are alike"
        assert table.abs().max() > 0.05, "no tails"


@private("2.5", tells="in evaluation mode, or in another dtype, the module does something else.")
def modes_and_dtypes(LearnedPositions):
    pick = draw(3)
    rows, width, batch = pick.randint(6, 12), pick.randint(2, 9), pick.randint(2, 4)
    module = LearnedPositions(rows, width)
    table = expect.weights(module, {"positions.weight": (rows, width)}, "the module", seed=3)["positions.weight"]
    x = normal(batch, 5, width, seed=2)
    for _ in range(2):
        assert expect.near(module(x), x + table[:5], atol=1e-5)
        module.eval()
    module.double()
    output = module(x.double())
    assert output.dtype is torch.float64 and expect.near(output.float(), x + table[:5], atol=1e-5)


@private("2.6", tells="for other shapes or positions, the pairs are not turned as they should be.")
def other_turns(rotary):
    pick = draw(1)
    leading = ((), (), (pick.randint(2, 4),), tuple(pick.sample(range(1, 5), 3)), (pick.randint(2, 5),), (3,))
    starts = (0, pick.randint(5, 20), pick.randint(1, 9), pick.randint(10, 60), pick.randint(150, 400), 0)
    for seed, (lead, start) in enumerate(zip(leading, starts, strict=True)):
        shape = (*lead, pick.randint(1, 9), 2 * pick.randint(1, 8))
        x = normal(*shape, seed=seed)
        output = expect.floats(rotary(x, start), shape, "the result")
        assert expect.near(output, turned(x, start=start), atol=2e-4), (shape, start)
        output = expect.floats(rotary(x, start=start + 3), shape, "the result")
        assert expect.near(output, turned(x, start=start + 3), atol=2e-4), "start by name, and another one"


@private("2.6", tells="for far positions, or a length that another dimension has as well, the turns are wrong.")
def edges(rotary):
    pick = draw(6)
    same, few = pick.randint(2, 5), pick.randint(2, 4)
    for seed, shape in enumerate(((few, same, same), (same, few, same), (same, same, same), (1, few), (1, 1, few))):
        x = normal(*shape, 2 * pick.randint(1, 5), seed=seed)
        output = expect.floats(rotary(x), tuple(x.shape), "the result")
        assert expect.near(output, turned(x), atol=2e-4), tuple(x.shape)
    for start in (pick.randint(1_100, 2_000), pick.randint(4_200, 9_000)):
        x = normal(3, 4, seed=start)
        output = expect.floats(rotary(x, start), (3, 4), "the result")
        assert expect.near(output, turned(x, start=start), atol=1e-2), start


@private("2.6", tells="no gradient passes through to x, or not that of a rotation, for some shapes.")
def other_slopes(rotary, lib):
    pick = draw(5)
    for seed, lead in enumerate(((), (pick.randint(1, 4),), tuple(pick.sample(range(1, 5), 2)))):
        x = normal(*lead, pick.randint(2, 9), 2 * pick.randint(1, 8), seed=seed)
        wanted = turned(torch.linspace(-1, 2, x.numel()).reshape(x.shape), sign=-1)
        expect.close(lib(toys).gradients(rotary, [x])[0], wanted, f"gradient, {tuple(x.shape)}", tolerance=1e-3)


@private("2.6", tells="the scores of queries and keys should depend on their distance alone.")
def only_distances(rotary):
    pick = draw(2)
    width, gap = 2 * pick.randint(2, 6), pick.randint(1, 9)
    q, k = normal(3, 4, width, seed=1), normal(3, 4, width, seed=2)
    near, far = (rotary(q, at + gap) @ rotary(k, at).mT for at in (0, pick.randint(40, 120)))
    assert expect.near(near, far, atol=1e-3)


@private("2.6", tells="the dtype of x is lost, or small dtypes make the angles inexact.")
def other_dtypes(rotary):
    pick = draw(3)
    x, start = normal(2, 5, 2 * pick.randint(3, 6), seed=3), pick.randint(400, 900)
    for dtype, tolerance in ((torch.float16, 0.01), (torch.bfloat16, 0.06), (torch.float64, 1e-3)):
        output = rotary(x.to(dtype), start)
        assert output.dtype is dtype and output.shape == x.shape
        assert expect.near(output.float(), turned(x.to(dtype).float(), start=start), atol=tolerance), dtype


@private("2.6", tells="some odd widths are accepted.")
def odd_pairs(rotary):
    pick = draw(4)
    for lead in ((), (2,), (2, 2)):
        shape = (*lead, pick.randint(2, 6), pick.choice(range(1, 30, 2)))
        expect.refuses(rotary, normal(*shape), says=f"{shape} accepted")


@private("2.7", tells="for other numbers of heads or other lengths, the bias is wrong.")
def other_biases(alibi_bias):
    promised(INFINITY)
    pick = draw(1)
    sizes = [(n_heads, pick.randint(2, 6)) for n_heads in (2, 8, 16, 32, 64)]
    for n_heads, T in (*sizes, (1, 1), (pick.choice((1, 2, 4)), pick.randint(14, 34)), (8, 8)):
        bias = expect.tensor(alibi_bias(n_heads, T), (n_heads, T, T), "the bias").float()
        assert not bias.isnan().any() and explained(bias, alibi(n_heads, T)), (n_heads, T)


@private("2.7", tells="some numbers of heads that are no power of two are accepted.")
def other_heads(alibi_bias):
    pick = draw(2)
    refused = [n for n in range(5, 130) if n & (n - 1) and n not in (6, 12)]
    thirds, rest = ([n for n in refused if (n % 3 == 0) is by_three] for by_three in (True, False))
    for n_heads in (0, *pick.sample(thirds, 3), *pick.sample(rest, 4)):
        expect.refuses(alibi_bias, n_heads, 3, says=f"{n_heads} heads accepted")
