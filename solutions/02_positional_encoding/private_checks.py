"""What students do not see of notebook 02: other sizes, other places, edges."""

import math

import torch
from torch.nn import functional as F

from autograder.private import private
from utils import expect, toys
from utils.checks.nb02_positional_encoding import alibi, explained, speed, turned, waves
from utils.expect import normal


@private("2.1", tells="for other lengths or widths the table is not the one of the formula.")
def other_tables(sinusoidal_table):
    for rows, width in ((1, 2), (40, 10), (5, 64), (64, 12), (3, 2)):
        table = expect.floats(sinusoidal_table(rows, width), (rows, width), "the table")
        assert torch.allclose(table, waves(rows, width), atol=1e-4), f"{rows} x {width}"
    table = expect.floats(sinusoidal_table(3001, 14), (3001, 14), "the long table")
    assert torch.allclose(table[-3:], waves(3, 14, first=2998), atol=5e-3), "far places"


@private("2.1", tells="the table should be float32.")
def float32_table(sinusoidal_table):
    assert sinusoidal_table(5, 8).dtype is torch.float32


@private("2.1", tells="some odd widths are accepted.")
def odd_widths(sinusoidal_table):
    for rows, width in ((4, 1), (9, 9), (2, 33), (6, 7)):
        expect.raises(lambda rows=rows, width=width: sinusoidal_table(rows, width), "ValueError", f"{width} accepted")


@private("2.2", tells="for other sizes of table or input, the table is not added as it should.")
def other_fixed_sizes(FixedPositions, lib):
    for rows, width, places in ((12, 4, 7), (3, 10, 3), (20, 2, 1), (1, 8, 1)):
        module = FixedPositions(lib("utils.toys").NewTableEachCall(), rows, width)
        x, table = normal(4, places, width, seed=rows), toys.NewTableEachCall()(rows, width)
        output = expect.floats(module(x), (4, places, width), "the output")
        assert torch.allclose(output, x + table[:places], atol=1e-5), f"{rows} x {width}, {places} places"
        expect.raises(lambda m=module, n=rows + 1, w=width: m(normal(1, n, w)), "ValueError", f"{rows + 1} places")
        assert module.state_dict() == {} and not list(module.parameters()), "stored or trained"


@private("2.2", tells="the table does not move with the module if the module moves before its first use.")
def moved_first(FixedPositions, lib):
    module = FixedPositions(lib("utils.toys").NewTableEachCall(), 8, 12)
    module.double()
    module.half()
    x, table = normal(2, 4, 12, seed=4), toys.NewTableEachCall()(8, 12)
    output = expect.tensor(module(x), (2, 4, 12), "the output")
    assert torch.allclose(output.float(), x + table[:4].half().float(), atol=1e-6), "the table is not half precision"
    assert module(x.half()).dtype is torch.float16


@private("2.2", tells="two modules get in each other's way.")
def two_modules(FixedPositions, lib):
    makes = [lib("utils.toys").NewTableEachCall() for _ in range(2)]
    small, large = FixedPositions(makes[0], 5, 6), FixedPositions(makes[1], 11, 6)
    x = normal(2, 5, 6, seed=6)
    for module, rows in ((small, 5), (large, 11), (small, 5)):
        output = expect.floats(module(x), (2, 5, 6), "the output")
        assert torch.allclose(output, x + toys.NewTableEachCall()(rows, 6)[:5], atol=1e-5)


@private("2.3", tells="for another module, input or order the gap is wrong.")
def other_gaps(equivariance_gap, lib):
    for shape, seed in (((1, 3, 4), 1), ((4, 9, 2), 2), ((3, 6, 10), 3), ((2, 2, 3), 4)):
        x, table = normal(*shape, seed=seed), normal(*shape[1:], seed=10 + seed)
        order = torch.randperm(shape[1], generator=torch.Generator().manual_seed(seed)).roll(1)
        adds = lib("utils.toys").AddRows(table)
        wanted = (table - table[order]).abs().max().item()
        gap = expect.number(equivariance_gap(adds, x, order), "the gap")
        assert math.isclose(gap, wanted, rel_tol=1e-3, abs_tol=1e-5), shape
        gap = expect.number(equivariance_gap(adds, x, torch.arange(shape[1])), "the gap")
        assert abs(gap) < 1e-5, "the identity has no gap"


@private("2.3", tells="a difference at a single entry is overlooked or belittled.")
def one_entry(equivariance_gap, lib):
    for place, column, value in ((0, 0, 3.0), (6, 4, -5.0), (3, 2, 0.25)):
        table = torch.zeros(7, 5)
        table[place, column] = value
        gap = equivariance_gap(lib("utils.toys").AddRows(table), normal(2, 7, 5), torch.arange(7).roll(2))
        assert math.isclose(expect.number(gap, "the gap"), abs(value), rel_tol=1e-3), (place, column)


@private("2.3", tells="modules without positions get a gap, or modules that know the order get none.")
def blind_and_seeing(equivariance_gap, lib):
    nn, order = lib("torch").nn, torch.tensor([3, 0, 4, 1, 2, 5])
    x = normal(3, 6, 8, seed=9)
    assert equivariance_gap(nn.Linear(8, 5), x, order) < 1e-5, "a linear map of each token"
    assert equivariance_gap(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.4)), x, order) < 1e-5, "dropout"
    causal = lib("utils.toys").Masked(
        nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True),
        torch.full((6, 6), -torch.inf).triu(1),
    )
    assert equivariance_gap(causal, x, order) > 1e-3, "a causal layer"


@private("2.4", tells="for other distances or widths the matrix does not move the rows as far as it should.")
def other_shifts(shift_matrix):
    for k, width in ((5, 2), (17, 12), (-7, 4), (-1, 2), (200, 16), (2, 20), (0, 2)):
        matrix = expect.floats(shift_matrix(k, width), (width, width), "R")
        here, there = waves(20, width, first=300), waves(20, width, first=300 + k)
        assert torch.allclose(here @ matrix.T, there, atol=1e-3), (k, width)
        assert torch.allclose(matrix @ matrix.T, torch.eye(width), atol=1e-4), "no rotation"
        assert matrix.dtype is torch.float32


@private("2.4", tells="far steps are not turned by the right angles.")
def far_steps(shift_matrix):
    for k, width, pair in ((3000, 4, 1), (2000, 6, 1), (900, 8, 1)):
        matrix = expect.floats(shift_matrix(k, width), (width, width), "R")
        angle, at = k * speed(pair, width), 2 * pair
        wanted = torch.tensor([math.cos(angle), math.sin(angle), -math.sin(angle), math.cos(angle)])
        assert torch.allclose(matrix[at : at + 2, at : at + 2].flatten(), wanted, atol=3e-4), (k, width)


@private("2.4", tells="two steps in a row are not one long step.")
def chained(shift_matrix):
    for a, b, width in ((3, 4, 8), (9, -2, 6), (5, -5, 10)):
        both = shift_matrix(a, width) @ shift_matrix(b, width)
        assert torch.allclose(both, shift_matrix(a + b, width), atol=1e-4), (a, b, width)


@private("2.5", tells="for other sizes, the rows are not added or not learned as they should.")
def other_learned_sizes(LearnedPositions, lib):
    for rows, width, batch, places in ((14, 4, 3, 6), (3, 10, 5, 3), (8, 2, 1, 1), (1, 6, 2, 1)):
        module = LearnedPositions(rows, width)
        state = expect.weights(module, {"positions.weight": (rows, width)}, "the module", seed=rows)
        table, x = state["positions.weight"], normal(batch, places, width, seed=rows)
        output = expect.floats(module(x), (batch, places, width), "the output")
        assert torch.allclose(output, x + table[:places], atol=1e-5), (rows, width)
        arrived = lib("utils.toys").parameter_gradients(module, x)["positions.weight"]
        wanted = torch.linspace(-1, 2, x.numel()).reshape(x.shape).sum(0)
        assert torch.allclose(arrived, F.pad(wanted, (0, 0, 0, rows - places)), atol=1e-4), "gradient"
        for longer in (rows + 1, rows + 9):
            expect.raises(lambda m=module, n=longer, w=width: m(normal(2, n, w)), "ValueError", f"{longer} places")


@private("2.5", tells="a fresh table does not start as it should.")
def fresh_tables(LearnedPositions):
    one, two = (LearnedPositions(120, 100).state_dict()["positions.weight"] for _ in range(2))
    assert not torch.equal(one, two), "always the same"
    for table in (one, two):
        expect.floats(table, (120, 100), "the table")
        assert abs(table.mean()) < 0.001 and 0.019 < table.std() < 0.021, "mean or spread"
        assert (table.std(0) > 0.01).all() and (table.std(1) > 0.01).all(), "rows or columns are alike"
        assert table.abs().max() > 0.05, "no tails"


@private("2.5", tells="in evaluation mode, or in another dtype, the module does something else.")
def modes_and_dtypes(LearnedPositions):
    module = LearnedPositions(7, 4)
    table = expect.weights(module, {"positions.weight": (7, 4)}, "the module", seed=3)["positions.weight"]
    x = normal(2, 5, 4, seed=2)
    for _ in range(2):
        assert torch.allclose(module(x), x + table[:5], atol=1e-5)
        module.eval()
    module.double()
    assert module(x.double()).dtype is torch.float64


@private("2.6", tells="for other shapes or places, the pairs are not turned as they should be.")
def other_turns(rotary):
    shapes = (((7, 2), 0), ((1, 12), 9), ((3, 1, 6), 2), ((2, 2, 2, 4, 10), 31), ((4, 9, 16), 150), ((5, 1, 33, 4), 0))
    for shape, start in shapes:
        x = normal(*shape, seed=start)
        output = expect.floats(rotary(x, start), shape, "the result")
        assert torch.allclose(output, turned(x, start=start), atol=2e-4), (shape, start)
        output = expect.floats(rotary(x, start=start), shape, "the result")
        assert torch.allclose(output, turned(x, start=start), atol=2e-4), "start by name"


@private("2.6", tells="the scores of queries and keys should depend on their distance alone.")
def only_distances(rotary):
    q, k = normal(3, 4, 6, seed=1), normal(3, 4, 6, seed=2)
    near, far = (rotary(q, at + 5) @ rotary(k, at).mT for at in (0, 83))
    assert torch.allclose(near, far, atol=1e-3)


@private("2.6", tells="the dtype of x is lost, or small dtypes make the angles inexact.")
def other_dtypes(rotary):
    x = normal(2, 5, 8, seed=3)
    for dtype, tolerance in ((torch.float16, 0.01), (torch.bfloat16, 0.06), (torch.float64, 1e-3)):
        output = rotary(x.to(dtype), 500)
        assert output.dtype is dtype and output.shape == x.shape
        assert torch.allclose(output.float(), turned(x.to(dtype).float(), start=500), atol=tolerance), dtype


@private("2.6", tells="some odd widths are accepted.")
def odd_pairs(rotary):
    for shape in ((3, 1), (2, 4, 9), (2, 2, 5, 3)):
        expect.raises(lambda shape=shape: rotary(normal(*shape)), "ValueError", f"{shape} accepted")


@private("2.7", tells="for other numbers of heads or other lengths, the bias is wrong.")
def other_biases(alibi_bias):
    for n_heads, T in ((2, 7), (16, 4), (1, 1), (8, 12), (4, 33), (32, 2), (64, 3)):
        bias = expect.tensor(alibi_bias(n_heads, T), (n_heads, T, T), "the bias").float()
        assert not bias.isnan().any() and explained(bias, alibi(n_heads, T)), (n_heads, T)


@private("2.7", tells="some numbers of heads that are no power of two are accepted.")
def other_heads(alibi_bias):
    for n_heads in (5, 7, 9, 10, 24, 48, 100, 0):
        expect.raises(lambda n=n_heads: alibi_bias(n, 3), "ValueError", f"{n_heads} heads accepted")
