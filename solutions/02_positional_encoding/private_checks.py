"""What students do not see of notebook 02: sizes, positions, orders and modules drawn for each submission, and
edges.
"""

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from autograder.author.checks import private, swept, tells
from utils.checks import nb02_positional_encoding as seen
from utils.checks import nb02_toys as toys
from utils.checks.nb02_positional_encoding import largest_gap
from utils.grading import expect, probes
from utils.grading.expect import draw, generator, normal
from utils.grading.remote import INFINITY, Library, Remote, promised

# Left out is what the public check asks for.
tables = swept("2.1", seen.TABLE, without=("gradients", "memory"))
fixed_positions = swept("2.2", seen.FIXED, without=("gradients", "modes", "device"))
shifts = swept("2.4", seen.SHIFT, without=("gradients", "memory"))
learned_positions = swept("2.5", seen.LEARNED, without=("gradients", "modes", "device", "dtypes"))
turns = swept("2.6", seen.ROTARY, without=("gradients", "layout", "device", "dtypes"))
biases = swept("2.7", seen.ALIBI, without=("gradients", "memory"))


@private(
    "2.7", tells="`alibi_bias` is wrong for sizes larger than any in the notebook, such as a `T` in the thousands."
)
def long_texts(alibi_bias, lib):
    """Distances beyond 2,048 are not whole in half precision."""
    promised(INFINITY)
    T = 2 * draw(4).randint(1050, 1090)
    rows = [66, 513, 1025, T - 1]
    bias = expect.tensor(lib(toys).rows_of(alibi_bias, T, rows), (len(rows), T), "the bias").double()
    distance = torch.tensor(rows)[:, None] - torch.arange(T)
    wanted = torch.where(distance < 0, -torch.inf, distance.double() * -(2.0**-8))
    assert expect.near(bias, wanted, rtol=1e-5, atol=1e-6), f"T = {T}"


@private("2.4", tells="R is wrong for a distance in the tens of thousands.")
def far_away(shift_matrix):
    pick = draw(7)
    for k in (pick.randint(63_000, 90_000), -pick.randint(63_000, 90_000)):
        width = 2 * pick.choice([3, 5, 6, 7])  # at 4 and 8, all pairs are back when the slowest is
        matrix = expect.floats(shift_matrix(k, width), (width, width), f"`shift_matrix({k}, {width})`")
        expect.close(matrix, seen.turn(k, width), f"R({k})", 0.05)


@private("2.2", tells="`FixedPositions` does not make its table once and add it to every sequence.")
def made_once(FixedPositions, lib):
    """With torch's own `randn` for `make_table`: nobody knows the table before, and there is none like it."""
    pick = draw(2)
    rows, width = pick.randint(5, 12), pick.randint(3, 9)
    by_name = "call `make_table(max_len, d_model)` without names: another function may name its arguments otherwise."
    with tells(by_name):
        module, other = (
            expect.answers(FixedPositions, lib(torch).randn, rows, width, says=by_name, kinds=("TypeError",))
            for _ in range(2)
        )
    x = normal(pick.randint(2, 4), rows, width, seed=2)
    first = expect.floats(module(torch.zeros_like(x)), tuple(x.shape), "the output")
    with tells("the sequences of a batch do not all get the same table."):
        assert first[0].std() > 0 and torch.equal(first[0], first[-1]), "one table for each sequence"
    with tells("a later call adds another table than the first call. Make the table once, and keep it."):
        assert expect.near(expect.floats(module(x), tuple(x.shape), "the output"), x + first, atol=1e-5), (
            "another table"
        )
    with tells("two modules share one table. Each should make its own."):
        assert not expect.near(other(x) - x, first, atol=1e-3), "one table for two modules"


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


@private(
    "2.2",
    tells="after an input of another dtype, `FixedPositions` adds another table than before. It should stay fixed.",
)
def stays_fixed(FixedPositions, lib):
    pick = draw(6)
    rows, width = pick.randint(6, 12), pick.randint(4, 14)
    module = FixedPositions(lib(toys).NewTableEachCall(pick.randint(1, 10**6)), rows, width)
    x = normal(2, 4, width, seed=6)
    before = expect.floats(module(x), tuple(x.shape), "the output")
    for rough in (x.bfloat16(), x.half()):
        module(rough)
        assert torch.equal(expect.floats(module(x), tuple(x.shape), "the output"), before), "another table"


@private("2.2", tells="if all rows that are added are 0, the output is x itself. It should be a new tensor, as always.")
def adds_zeros(FixedPositions, lib):
    rows, width = 7, 4
    module, x = FixedPositions(lib(torch).zeros, rows, width), normal(2, rows, width, seed=5)
    for given in (x, x[:, :3]):
        outputs = lib(probes).before_and_after_clearing(module, given)
        assert all(torch.equal(output, given) for output in outputs), "x itself is returned"


def mixing(parts: Any, places: int, width: int, dropout: float) -> Any:
    """A module in which each position has weights of its own; `parts` is `nn`, here or there."""
    across = parts.Conv1d(places, places, 3, padding=1)  # positions are its channels
    return parts.Sequential(across, parts.GELU(), parts.Dropout(dropout), parts.Linear(width, width))


def order_of(places: int, seed: int) -> torch.Tensor:
    """An order of so many positions, two or more, in which every one moves."""
    places_in_turn = torch.randperm(places, generator=generator(seed))
    return torch.empty_like(places_in_turn).index_copy(0, places_in_turn, places_in_turn.roll(1))


def gap_in_one_place(lib: Library, seed: int) -> tuple[Remote, torch.Tensor, torch.Tensor, int]:
    """A module that gives zeros but in a place that the order leaves alone, an input, the order, what it reads there.

    There it gives what another place holds, which the order does move.
    """
    pick = draw(seed)
    places, width = pick.randint(5, 9), pick.randint(3, 7)
    fixed, *moved = pick.sample(range(places), 4)
    order, weight = torch.arange(places), torch.zeros(places, places, 1)
    order[moved] = order[moved].roll(1)
    weight[fixed, moved[0]] = 1.0
    module = lib(nn).Conv1d(places, places, 1, bias=False)  # positions are its channels
    module.load_state_dict({"weight": weight})
    return module, normal(2, places, width, seed=seed), order, moved[0]


@private("2.3", tells="for another module, input or order the gap is wrong.")
def other_gaps(equivariance_gap, lib):
    pick = draw(1)
    one, equal = (1, pick.randint(4, 9), pick.randint(3, 7)), 3 * (pick.randint(4, 6),)
    for seed, (batch, places, width) in enumerate((one, equal), 1):
        x, order = normal(batch, places, width, seed=seed), order_of(places, seed)
        dropout = pick.uniform(0.2, 0.7)
        module, twin = expect.twins(lib, lambda parts: mixing(parts, places, width, dropout), 10 + seed)
        gap = expect.number(equivariance_gap(module, x, order), "the gap")
        assert math.isclose(gap, largest_gap(twin, x, order), rel_tol=1e-3, abs_tol=1e-5), (batch, places, width)
        gap = expect.number(equivariance_gap(module, x, torch.arange(places)), "the gap")
        with tells("the order that moves no token should have no gap."):
            assert abs(gap) < 1e-5, "the identity has no gap"
        for mode in (True, False):  # what dropout does afterwards tells the mode, and nobody need be asked for it
            module.train(mode)
            gap = expect.number(equivariance_gap(module, x, order), "the gap")
            with tells("the gap depends on the mode that the module is in before the measurement."):
                assert math.isclose(gap, largest_gap(twin, x, order), rel_tol=1e-3, abs_tol=1e-5), "in another mode"
            ones = torch.ones(8, places, width)
            one, two = (expect.floats(module(ones), (8, places, width), "the output") for _ in range(2))
            with tells("for another module or input, the mode after the measurement is not the mode before it."):
                assert torch.equal(one, two) is not mode, "the mode is another one afterwards"


@private("2.3", tells="a very small gap is wrong, here in float64. Do not round it or compute it in float32.")
def one_position(equivariance_gap, lib):
    module, x, order, place = gap_in_one_place(lib, 5)
    with tells("the gap at a position that the order leaves in place is not seen. All positions count."):
        assert expect.number(equivariance_gap(module, x, order), "the gap") != 0, "a token that stays"
    close = 1 + 1e-9 * x.double()
    with tells("for a float64 module and input it fails."):
        gap = expect.number(expect.answers(equivariance_gap, module.double(), close, order, says="float64."), "the gap")
    wanted = (close[:, order] - close)[:, place].abs().max().item()
    assert math.isclose(gap, wanted, rel_tol=1e-3), f"{gap}, not {wanted}"


@private("2.3", tells="the gap of a module without positions should be 0.")
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
    with tells("the gap of a layer with a causal mask is wrong."):
        assert math.isclose(gap, largest_gap(twin, x, order), rel_tol=1e-3, abs_tol=1e-5), "a causal layer"


@private(
    "2.5",
    tells="a fresh table of another size does not start as normal numbers with mean 0 and standard deviation 0.02.",
)
def fresh_tables(LearnedPositions):
    pick = draw(2)
    rows, width = pick.randint(110, 150), pick.randint(90, 120)
    table = expect.floats(LearnedPositions(rows, width).state_dict()["positions.weight"], (rows, width), "the table")
    assert abs(table.mean()) < 0.001 and 0.019 < table.std() < 0.021, "mean or spread"
    assert (table.std(0) > 0.01).all() and (table.std(1) > 0.01).all(), "rows or columns are alike"
    assert table.abs().max() > 0.05, "no tails"
