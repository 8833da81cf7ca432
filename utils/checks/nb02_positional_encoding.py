"""Checks of notebook 02: sinusoidal, fixed, learned and rotary positions, ALiBi, and order blindness."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from utils.checks import nb02_toys as toys
from utils.grading import expect, probes
from utils.grading.check import check
from utils.grading.contract import Contract
from utils.grading.expect import normal
from utils.grading.forbidden import MODELS
from utils.grading.remote import INFINITY, Remote, kind, promised

BASE = 10_000  # the longest wavelength is 2 pi times this (Vaswani et al. 2017, section 3.5)


def by_entry(rows: int, columns: int, entry: Callable[[int, int], float]) -> torch.Tensor:
    """Build the matrix entry by entry, from `entry(row, column)`."""
    return torch.tensor([[entry(row, column) for column in range(columns)] for row in range(rows)]).view(rows, columns)


def speed(pair: int, width: int) -> float:
    """Radians by which a pair of columns turns from one position to the next."""
    return BASE ** (-2 * pair / width)


def waves(rows: int, width: int, first: int = 0) -> torch.Tensor:
    """The sinusoidal table by its definition, entry by entry, for positions first, first + 1, ..."""

    def entry(row: int, column: int) -> float:
        return (math.cos if column % 2 else math.sin)((first + row) * speed(column // 2, width))

    return by_entry(rows, width, entry)


def speeds(width: int) -> torch.Tensor:
    """The speeds of all pairs, in double precision."""
    return torch.tensor([speed(pair, width) for pair in range(width // 2)], dtype=torch.float64)


def long_waves(rows: int, width: int) -> torch.Tensor:
    """`waves` of many rows, all at once."""
    angles = torch.arange(rows)[:, None] * speeds(width)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


# 2.1


def with_angle(rows: int, width: int, angle: Callable[[int, int, int], float]) -> torch.Tensor:
    """A table whose angles are `angle(position, pair, column)`."""

    def entry(row: int, column: int) -> float:
        return (math.cos if column % 2 else math.sin)(angle(row, column // 2, column))

    return by_entry(rows, width, entry)


TABLE = Contract(
    "sinusoidal_table(T, 2 * w)",
    sizes={"T": (1, 9, 10_100), "w": (1, 9, 150)},
    gives="the table: float32 (T, 2 * w)",
    returns="Tensor",
    right=long_waves,
    refuses=("sinusoidal_table(T, 2 * w - 1)",),
    far=2e-3,
)


@check("2.1", points=2, forbids=MODELS)
def sinusoidal_table(sinusoidal_table, lib):
    """Check for sines in even columns and cosines in odd ones, one wavelength per pair; an odd width is refused."""
    rows, width = 7, 6
    table = sinusoidal_table(rows, width)
    if type(table) is torch.Tensor:
        assert table.shape != (width, rows), (
            "the table is transposed: it should have one row per position and one column per entry."
        )
        assert table.dtype is not torch.float64, "the table is float64. Make it float32, as the docstring says."
    table = expect.floats(table, (rows, width), "`sinusoidal_table(7, 6)`")
    wanted = waves(rows, width)
    exchanged = wanted.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)
    shorter = with_angle(2, width, lambda row, pair, column: row * BASE ** (2 * pair / width))
    assert not expect.near(table[:2], shorter, atol=1e-3), (
        "the waves get shorter from pair to pair. They should get longer: divide the position."
    )
    nearly = expect.near(table, wanted, rtol=0, atol=5e-3) and not expect.near(table, wanted, rtol=0, atol=3e-4)
    assert not nearly, "the entries are only nearly right (is something rounded, or computed in low precision?)."
    expect.like(
        table,
        wanted,
        "the entries are not sin(t / 10000^(2i/d)) in column 2i and cos of the same in column 2i + 1.",
        {
            "the sines fill the left half and the cosines the right. Sines and cosines should alternate.": torch.cat(
                [wanted[:, 0::2], wanted[:, 1::2]], dim=1
            ),
            "sines and cosines are exchanged: column 0 should hold sines.": exchanged,
            "the first row should be position 0. Yours is position 1.": waves(rows, width, first=1),
            "there are only sines. The odd columns hold the cosines.": by_entry(
                rows, width, lambda row, column: math.sin(row * speed(column // 2, width))
            ),
            "each column has a wavelength of its own. The two columns of a pair share one.": with_angle(
                rows, width, lambda row, pair, column: row * BASE ** (-column / width)
            ),
            "the exponent is i/d, half of what it should be. It is 2i/d for pair i.": with_angle(
                rows, width, lambda row, pair, column: row * BASE ** (-pair / width)
            ),
            "the exponent is twice as large as it should be: i counts pairs, not columns.": with_angle(
                rows, width, lambda row, pair, column: row * BASE ** (-2 * column / width)
            ),
            "the exponent reaches 1 at the last pair. Divide by d_model, not by d_model - 2.": with_angle(
                rows, width, lambda row, pair, column: row * BASE ** (-2 * pair / (width - 2))
            ),
            "all pairs turn at one speed. Pair i should be slower by the factor 10000^(2i/d).": with_angle(
                rows, width, lambda row, pair, column: row
            ),
        },
    )
    for rows, width in ((1, 8), (11, 4)):
        table = expect.floats(sinusoidal_table(rows, width), (rows, width), f"`sinusoidal_table({rows}, {width})`")
        expect.close(table, waves(rows, width), f"the table is right for 7 x 6, but wrong for {rows} x {width}.")
    expect.refuses(
        sinusoidal_table,
        7,
        5,
        says="`sinusoidal_table(7, 5)` must raise ValueError: an odd d_model leaves a sine without its cosine.",
    )
    TABLE.hold(sinusoidal_table, lib, "gradients", "memory")


# 2.2


def at_full_length(module: Remote, table: torch.Tensor, seed: int) -> None:
    """Fail unless as many positions as `table` has rows get theirs, even where there are as many sequences."""
    rows, width = table.shape
    whole, square = normal(3, rows, width, seed=seed), normal(rows, rows, width, seed=14)
    told = "an input exactly as long as the table is refused. It still fits."
    output = expect.answers(module, whole, says=told, kinds=("ValueError",))
    expect.close(
        expect.floats(output, (3, rows, width), "the output for as many positions as there are rows"),
        whole + table,
        "an input that is exactly as long as the table comes out wrong.",
    )
    along_the_batch = (
        "with as many sequences as positions, each sequence gets one row. Each position should get its own."
    )
    expect.like(
        expect.floats(module(square), (rows, rows, width), "the output for as many sequences as positions"),
        square + table,
        "with as many sequences as positions, the output is not x plus row t at position t.",
        {along_the_batch: square + table[:, None]},
    )


FIXED = Contract(
    "FixedPositions(make_table, T + r, d)(x)",
    sizes={"T": (1, 9, 1500), "r": (0, 5), "d": (1, 9), "B": (1, 6)},
    make_table=lambda toys, seed: toys.NewTableEachCall(seed),
    toys=toys,
    x="floats (B, T, d)",
    longer="floats (B, T + r + 1, d)",
    gives="the output: as x (B, T, d)",
    right=lambda make_table, rows, d, x: x + toys.NewTableEachCall(make_table.seed)(rows, d)[: x.size(1)],
    refuses=("FixedPositions(make_table, T + r, d)(longer)", "FixedPositions(make_table, 1, d)(longer)"),
    learns="x",
)


@check("2.2", points=2)
def fixed_positions(FixedPositions, lib):
    """Check that the table is made once, is not a parameter, moves with the module and is not stored with it."""
    rows, width, x = 9, 6, normal(2, 5, 6, seed=1)
    make = toys.NewTableEachCall()
    first, second = make(rows, width), make(rows, width)
    module = FixedPositions(lib(toys).NewTableEachCall(), rows, width)
    wanted = x + first[:5]
    output = expect.floats(module(x), (2, 5, 6), "the output")
    expect.like(
        output,
        wanted,
        "the output is not x plus row t of the table at position t.",
        {
            "`make_table` is called more than once. Call it once, when the module is made, and keep its table.": x
            + second[:5],
            "the table alone is returned. Add it to x.": first[:5].expand(2, 5, 6),
            "`x` is returned as it came. Add the table to it, in training and in evaluation mode.": x,
            "each sequence of the batch gets one row. Each position should get its own.": x + first[:2, None],
            "`x` is multiplied by sqrt(d_model). That is not part of this module.": x * width**0.5 + first[:5],
            "`x` is multiplied by the table. Add the table to it.": x * first[:5],
            "the last rows of the table are added, not the first.": x + first[-5:],
        },
    )
    expect.close(
        expect.floats(module(x), (2, 5, 6), "the output of the second call"),
        wanted,
        "a second call with the same x gives another output. Make the table once, and keep it as it is.",
    )
    told = "a shorter text after others gets other rows. Position t gets row t in every call."
    expect.close(expect.floats(module(x[:, :3]), (2, 3, 6), "the output for a shorter text"), wanted[:, :3], told)
    at_full_length(module, first, 2)
    third = toys.NewTableEachCall(3)(rows, width)
    expect.like(
        expect.floats(FixedPositions(lib(toys).NewTableEachCall(3), rows, width)(x), (2, 5, 6), "the output"),
        x + third[:5],
        "the output of a second module of the same size, with another table, is wrong.",
        {"a second module of the same size adds the table of the first. Each should make its own.": wanted},
        once=True,
    )
    expect.refuses(
        module, normal(2, rows + 1, width), says="an input that is longer than the table must raise ValueError."
    )
    expect.refuses(
        module,
        normal(1, rows + 3, width),
        says="an input longer than the table must raise ValueError, for every batch size.",
    )
    state = module.state_dict()
    assert type(state) is dict, "`FixedPositions` has no state_dict: it should be an nn.Module."
    assert not list(module.parameters()), "the module has parameters. Nothing is learned here: make the table a buffer."
    assert not state, "the state_dict is not empty. The table can be made again: leave it out."
    moves_with_the_module(module, x, first[:5], wanted)
    FIXED.hold(FixedPositions, lib, "gradients", "modes", "device")


def moves_with_the_module(module: Remote, x: torch.Tensor, rows: torch.Tensor, wanted: torch.Tensor) -> None:
    """Fail unless the module's table becomes bfloat16 with the module, and float32 again."""
    module.bfloat16()
    output = expect.tensor(module(x), tuple(x.shape), "the output for a float32 input").float()
    assert not expect.near(output, wanted, atol=1e-5), (
        "the table stays as it was when the module goes to another dtype or device: it should be a buffer."
    )
    assert expect.near(output, x + rows.bfloat16().float(), atol=1e-5), (
        "after `module.bfloat16()`, the output for a float32 input is not x plus the rows in bfloat16."
    )
    output = expect.tensor(module(x.bfloat16()), tuple(x.shape), "the output in bfloat16")
    assert output.dtype is torch.bfloat16, (
        f"module and input are bfloat16, and the output is {output.dtype}: something is cast. Add the rows as they are."
    )
    module.float()
    output = expect.floats(module(x), tuple(x.shape), "the output after a change of dtype")
    assert expect.near(output, wanted, atol=0.05), (
        "after `module.bfloat16()` and then `module.float()`, the output is wrong."
    )


# 2.3


def largest_gap(module: nn.Module, x: torch.Tensor, order: torch.Tensor) -> float:
    """The gap by its definition, position by position, of a module that lies here."""
    module.eval()
    with torch.no_grad():
        before, after = module(x[:, order]), module(x)
    return max((before[:, t] - after[:, source]).abs().max().item() for t, source in enumerate(order.tolist()))


@check("2.3", points=2)
def equivariance_gap(equivariance_gap, lib):
    """Check the largest difference between permuting before and permuting after a module."""
    x, table, order = normal(2, 5, 8, seed=3), normal(5, 8, seed=15), torch.tensor([2, 4, 1, 0, 3])
    back = order.argsort()
    adds = lib(toys).AddRows(table)
    gap = equivariance_gap(adds, x, order)
    slope = expect.tensor(lib(toys).parameter_gradients(adds, x)["table"], (5, 8), "the gradient of the table")
    assert slope.any(), (
        "the module is frozen afterwards: it no longer learns. To measure without gradients, use `torch.no_grad`."
    )
    single = type(gap) is not torch.Tensor or gap.numel() != 1
    assert single, f"`equivariance_gap` should return a float, not {kind(gap)}."
    moved = table - table[order]
    wanted = moved.abs().max()
    expect.number_like(
        gap,
        wanted,
        "the gap",
        "the gap of a module that adds a known table is wrong.",
        {
            "the module is measured in training mode. Dropout would make a gap of its own: use eval().": 2 * wanted,
            "the gap is measured while gradients are switched on. Measure within `torch.no_grad()`.": 3 * wanted,
            "the module is measured in training mode, and gradients are recorded.": 4 * wanted,
            "the result for permuted x is compared with the result for x as it is. Permute that result too.": (
                (x[:, order] - x).abs().max()
            ),
            "the result is permuted by the inverse order. Position t of both sides should hold the same token.": (
                (x[:, order] + table - (x + table)[:, back]).abs().max()
            ),
            "the gap is the mean difference. It should be the largest difference.": moved.abs().mean(),
            "the differences keep their signs. Take the absolute values first.": moved.max(),
            "the gap is the smallest difference, not the largest.": moved.abs().min(),
            "only the last position is compared. Every one counts.": moved[-1].abs().max(),
            "only the first position is compared. Every one counts.": moved[0].abs().max(),
            "the gap of a module that knows its positions is 0. Permute before one call, and after the other.": 0.0,
            "the differences are added up. The gap is the largest of them.": 2 * moved.abs().sum(),
            "the difference of each position is added up over the width. The largest single entry counts.": (
                moved.abs().sum(-1).max()
            ),
            "the gap is a Euclidean length. It should be the largest single difference.": moved.norm() * 2**0.5,
        },
    )
    after = adds(x) - x
    factor = round(after.div(table).median().item())
    assert factor in (2, 4), "the module was in training mode and is left in evaluation mode. Put back what you found."
    adds.eval()
    told = "the gap of a module that is in evaluation mode already is wrong."
    expect.number_like(equivariance_gap(adds, x, order), wanted, "the gap", told)
    factor = round((adds(x) - x).div(table).median().item())
    assert factor in (1, 3), "the module was in evaluation mode and is left in training mode. Put back what you found."
    again = equivariance_gap(lib(toys).AddRows(2 * table), x, order)
    expect.number_like(again, 2 * wanted, "the gap", "for a second module with the same x the gap is wrong.")
    layered = lib(nn).Sequential(lib(nn).Linear(8, 8), lib(nn).Dropout(0.4))
    for mode in (True, False):
        layered.train(mode)
        lib(toys).leave_gradients(layered)
        layered[0].bias.requires_grad_(mode)
        before, world = lib(probes).facts(layered), lib(probes).world(True)
        gap = expect.number(equivariance_gap(layered, x, order), "the gap")
        assert gap < 1e-4, "some part of the module is measured in training mode: its dropout alone makes a gap."
        expect.unchanged(lib(probes).world(False), world, "after the measurement")
        expect.unchanged(lib(probes).facts(layered), before, "after the measurement")
    across, twin = expect.twins(lib, lambda parts: parts.Conv1d(5, 5, 3, padding=1), 16)  # positions as channels
    several = normal(3, 5, 8, seed=17) * torch.tensor([0.1, 1.0, 0.3])[:, None, None]
    by_sequence = [largest_gap(twin, one[None], order) for one in several]
    expect.number_like(
        equivariance_gap(across, several, order),
        max(by_sequence),
        "the gap",
        "the gap is right for a module that adds a table, but wrong for one that mixes the positions, here of three "
        "sequences.",
        {
            "only the first sequence of the batch is compared. Every one counts.": by_sequence[0],
            "only the last sequence of the batch is compared. Every one counts.": by_sequence[-1],
            "the order is read the wrong way round: position t takes the token of position permutation[t].": (
                largest_gap(twin, several, back)
            ),
            "the mean over the sequences is taken. The largest difference of all counts.": sum(by_sequence) / 3,
            "the sequences are averaged before they are compared. The largest difference of all counts.": largest_gap(
                twin, several.mean(0, keepdim=True), order
            ),
        },
        1e-3,
    )
    blind = lib(nn).TransformerEncoderLayer(8, 2, 16, 0.5, batch_first=True)
    gap = expect.number(equivariance_gap(blind, x, order), "the gap")
    assert 0 <= gap < 1e-4, f"the gap of an encoder layer without positions should be 0. Here it is {gap:.3g}."


# 2.4


def turn(k: int, width: int) -> torch.Tensor:
    """The matrix that turns every row of the table by k positions, pair by pair."""
    matrix = torch.zeros(width, width)
    for pair in range(width // 2):
        c, s, i = math.cos(k * speed(pair, width)), math.sin(k * speed(pair, width)), 2 * pair
        matrix[i, i], matrix[i, i + 1], matrix[i + 1, i], matrix[i + 1, i + 1] = c, s, -s, c
    return matrix


SHIFT = Contract(
    "shift_matrix((1 - 2 * back) * k, 2 * w)",
    sizes={"k": (0, 60, BASE + 321), "back": (0, 1), "w": (1, 12, 40)},
    gives="R: float32 (2 * w, 2 * w)",
    right=turn,
    far=2e-3,
)


@check("2.4", points=2)
def shift_matrix(shift_matrix, lib):
    """Check that one orthogonal matrix per distance moves every row of the table that far."""
    k, width = 3, 6
    matrix = shift_matrix(k, width)
    if type(matrix) is torch.Tensor:
        assert matrix.dtype is not torch.float64, "R is float64. Make it float32, the dtype of the table that it turns."
    matrix = expect.floats(matrix, (width, width), "`shift_matrix(3, 6)`")
    table = waves(12, width)
    assert not expect.near(matrix, torch.eye(width), atol=1e-4), "R is the identity: nothing moves."
    moved = table[:-k] @ matrix.T  # row t is R PE(t)
    back = expect.near(moved[k:], table[: -2 * k], atol=1e-4)
    assert not back, (
        "R(k) moves position t to t - k, not to t + k. The sines have the wrong signs, or the matrix is transposed."
    )
    cosines, sines = torch.diag(turn(k, width).diag()), turn(k, width).triu(1)
    for both in (sines + sines.mT, -sines - sines.mT):
        assert not expect.near(matrix, cosines + both, atol=1e-4), (
            "the two sines of a pair have the same sign. A rotation needs one plus and one minus."
        )
    one_row = expect.near(moved[0], table[k], atol=1e-4) and not expect.near(moved[1], table[k + 1], atol=1e-4)
    assert not one_row, (
        "R(k) moves position 0 where it should go, but not position 1. One matrix must work for every t."
    )
    pairs = [expect.near(moved[:, i : i + 2], table[k:, i : i + 2], atol=1e-4) for i in range(0, width, 2)]
    assert pairs[0] or not all(pairs[1:]), "every pair turns as it should except the first."
    if pairs[0] and not all(pairs):
        wrong = [2 * pair for pair, right in enumerate(pairs) if not right]
        told = f"the first pair turns as it should, but columns {wrong[0]} and {wrong[0] + 1} of R(k) PE(t) are wrong."
        slow = all((matrix[i, i] - cosines[i, i]).abs() > 1e-5 for i in wrong)
        turns = expect.near(matrix @ matrix.T, torch.eye(width), atol=1e-4)
        raise AssertionError(f"{told} Each pair has its own speed, that of the table." if slow and turns else told)
    halves = torch.cat([torch.arange(0, width, 2), torch.arange(1, width, 2)])
    assert not expect.near(matrix, turn(k, width)[halves][:, halves], atol=1e-4), (
        "the pairs are columns i and i + d/2. In the table a sine and its cosine are side by side."
    )
    assert not expect.near(matrix, cosines, atol=1e-4), (
        "only the cosines are there. In each pair, the sines beside the diagonal are missing."
    )
    nearly = not all(pairs) and expect.near(moved, table[k:], rtol=0, atol=0.02)
    assert not nearly, "R(k) PE(t) is only nearly PE(t + k) (is something rounded, or computed in low precision?)."
    near = (expect.near(row, goal, atol=1e-4) for row, goal in zip(moved, table[k:], strict=True))
    assert all(pairs), f"for k = 3 and width 6, R(k) PE(t) is not PE(t + k), first at t = {[*near].index(False)}."
    expect.close(matrix @ matrix.T, torch.eye(width), "R(k) is not a rotation: R R^T should be the identity.")
    for k, width in ((1, 4), (40, 8), (2, 6), (-2, 6), (0, 10)):
        matrix = expect.floats(shift_matrix(k, width), (width, width), f"`shift_matrix({k}, {width})`")
        back = " R(2) is right for this width. A negative k should move back." if k < 0 else ""
        expect.like(matrix, turn(k, width), f"R({k}) is wrong for width {width}.{back}", {}, 1e-3)
    slow = expect.floats(shift_matrix(1, 80), (80, 80), "`shift_matrix(1, 80)`")
    expect.close(slow, turn(1, 80), "R(1) is wrong for width 80, where R turns 40 pairs.", 2e-5)
    SHIFT.hold(shift_matrix, lib, "gradients", "memory")


# 2.5


LEARNED = Contract(
    "LearnedPositions(T + r, d)(x)",
    sizes={"T": (1, 9, 1500), "r": (0, 5), "d": (1, 9), "B": (1, 6)},
    x="floats (B, T, d)",
    longer="floats (B, T + r + 1, d)",
    gives="the output: as x (B, T, d)",
    weights=lambda rows, d: {"positions.weight": (rows, d)},
    right=lambda state, rows, d, x: x + state["positions.weight"][: x.size(1)],
    refuses=("LearnedPositions(T + r, d)(longer)", "LearnedPositions(1, d)(longer)"),
    learns="x",
)


@check("2.5", points=2)
def learned_positions(LearnedPositions, lib):
    """Expect a table of parameters, one row per position, in which rows that are not read do not learn."""
    rows, width, x = 9, 6, normal(2, 5, 6, seed=5)
    module = LearnedPositions(rows, width)
    before = expect.state(module, "LearnedPositions")
    fresh = LearnedPositions(200, 50).state_dict()
    table = expect.weights(module, {"positions.weight": (rows, width)}, "`LearnedPositions(9, 6)`")["positions.weight"]
    told = "`positions.weight` does not learn: its `requires_grad` is False."
    assert all(lib(toys).learning(module)), told
    output = expect.floats(module(x), (2, 5, 6), "the output")
    told = "two calls with the same x give different outputs. Nothing is drawn or kept in a call."
    assert torch.equal(expect.floats(module(x), (2, 5, 6), "the output"), output), told
    expect.like(
        output,
        x + table[:5],
        "the output is not x plus row t of the table at position t.",
        {
            "the rows are those with which the module was made. Read `positions.weight` as it is now.": x
            + before["positions.weight"][:5],
            "rows longer than 1 are shortened. Leave out `max_norm`.": x + torch.renorm(table[:5], 2, 0, 1.0),
            "the rows alone are returned. Add them to x.": table[:5].expand(2, 5, 6),
            "each sequence of the batch gets one row. Each position should get its own.": x + table[:2, None],
            "every position gets the same row: the positions are not counted up.": x + table[0],
            "positions count from 0. Yours start at row 1.": x + table[1:6],
            "the rows are added in reverse order.": x + table[:5].flip(0),
            "the last rows of the table are added, not the first.": x + table[-5:],
            "`x` is multiplied by sqrt(d_model). That is not part of this module.": x * width**0.5 + table[:5],
            "`x` is returned as it came. Add the rows to it.": x,
        },
    )
    LEARNED.hold(LearnedPositions, lib, "modes", "gradients")
    LearnedPositions(rows, width).load_state_dict({"positions.weight": table + 1})
    assert not expect.near(module(x), x + table[:5] + 1, 1e-4, 1e-4), (
        "two modules of one size share their rows: a change of one module changes the other. Each should have its own."
    )
    at_full_length(module, table, 6)
    for batch, longer in ((2, 10), (1, 14)):
        expect.refuses(
            module,
            normal(batch, longer, width),
            says="there is no row for a position beyond the table: a longer input must raise ValueError.",
        )
    starts_small(fresh)
    LEARNED.hold(LearnedPositions, lib, "dtypes", "device")


def starts_small(state: Any) -> None:
    """Fail unless a fresh table is normal with mean 0 and standard deviation 0.02."""
    fresh = expect.floats(state["positions.weight"], (200, 50), "the table of `LearnedPositions(200, 50)`")
    spread = fresh.std().item()
    assert spread > 0, "all entries of a fresh table are equal, so the positions look the same to the model."
    equal = torch.equal(fresh, fresh[:1].expand(200, 50))
    assert not equal, "all rows of a fresh table are equal. Each position should draw its own."
    assert abs(spread - 1) > 0.1, (
        "a fresh table has a standard deviation of 1, the default of nn.Embedding. Make it 0.02."
    )
    assert 0.018 < spread < 0.022, f"a fresh table has a standard deviation of about {spread:.2g}. Make it 0.02."
    assert abs(fresh.mean().item()) < 0.002, f"a fresh table has a mean of about {fresh.mean().item():.2g}. Make it 0."
    within = (fresh.abs() < 0.02).float().mean().item()
    assert 0.64 < within < 0.73, "the entries of a fresh table are not normally distributed."


# 2.6


def turned(
    x: torch.Tensor, start: int = 0, sign: int = 1, angle: Callable[[int, int, int], float] | None = None
) -> torch.Tensor:
    """Each pair of (..., T, d) as one complex number, turned by its position's angle."""
    positions, width = x.shape[-2:]
    if angle is None:
        angles = sign * (start + torch.arange(positions))[:, None] * speeds(width)
    else:
        angles = by_entry(positions, width // 2, lambda t, pair: sign * angle(start + t, pair, width))
    pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
    return (
        torch.view_as_real(pairs * torch.polar(torch.ones_like(angles).double(), angles.double()))
        .flatten(-2)
        .to(x.dtype)
    )


def halves_turned(x: torch.Tensor) -> torch.Tensor:
    """The same with columns i and i + d/2 as a pair."""
    width = x.size(-1)
    order = torch.arange(width).reshape(2, -1).T.flatten()
    return turned(x[..., order])[..., order.argsort()]


ROTARY = Contract(
    "rotary(x, start)",
    sizes={"T": (1, 9, 1500), "w": (1, 9, 40), "start": (0, 30, 5000)},
    x="floats (..., T, 2 * w)",
    odd="floats (..., T, 2 * w - 1)",
    gives="the result: as x (..., T, 2 * w)",
    right=turned,
    refuses=("rotary(odd)",),
    learns="x",
    far=1e-3,
    precise=False,
    dense=True,
)


@check("2.6", points=3, forbids=MODELS)
def rotary(rotary, lib):
    """Check that pairs turn by an angle that grows with the position, so that scores depend on distances only."""
    x = normal(2, 3, 5, 8, seed=7)
    output = expect.floats(rotary(x), (2, 3, 5, 8), "`rotary` of (2, 3, 5, 8)")
    cosine, sine = waves(5, 8)[:, 1::2].repeat_interleave(2, -1), waves(5, 8)[:, 0::2].repeat_interleave(2, -1)
    expect.like(
        output,
        turned(x),
        "pair i of position t is not turned by t / 10000^(2i/d).",
        {
            "`x` is returned as it came. Its pairs should be turned.": x,
            "the pairs are columns i and i + d/2. They should be columns 2i and 2i + 1.": halves_turned(x),
            "the pairs turn the other way: the sines have the wrong sign.": turned(x, sign=-1),
            "position 0 is turned. It should stay as it is: positions count from 0.": turned(x, start=1),
            "the positions run over the wrong dimension. They are the last dimension but one.": turned(
                x.transpose(1, 2)
            ).transpose(1, 2),
            "a sinusoidal table is added. Nothing should be added: the pairs should be turned.": x + waves(5, 8),
            "the sines have the same sign in both columns. A rotation needs one plus and one minus.": x * cosine
            + x.unflatten(-1, (-1, 2)).flip(-1).flatten(-2) * sine,
            "each column is multiplied by its own cosine or sine. A rotation mixes both columns of a pair.": x
            * waves(5, 8),
            "all pairs turn at one speed. Each pair should have its own.": turned(x, angle=lambda t, pair, width: t),
            "the exponent is i/d, half of what it should be. It is 2i/d for pair i.": turned(
                x, angle=lambda t, pair, width: t * BASE ** (-pair / width)
            ),
            "the last pair is not turned. Each pair should have its own speed.": turned(
                x, angle=lambda t, pair, width: t * speed(pair, width) * (2 * pair + 2 < width)
            ),
            "sines and cosines are exchanged: position 0 does not stay as it is.": turned(
                x, angle=lambda t, pair, width: math.pi / 2 - t * speed(pair, width)
            ),
        },
    )
    expect.close(output.norm(dim=-1), x.norm(dim=-1), "the lengths of the vectors change. A rotation keeps them.")
    expect.like(
        expect.floats(rotary(x + 1), (2, 3, 5, 8), "`rotary` of (2, 3, 5, 8)"),
        turned(x + 1),
        "the result is wrong for another x of the same shape.",
        {"this is what an earlier call gave for another x of the same shape. Keep no results.": turned(x)},
        once=True,
    )
    result, short = (rotary(one, 4) for one in (x, x[:, :, :3]))  # no shorter text came before
    kept = type(short) is torch.Tensor and expect.near(short, turned(x[:, :, :3], start=4), 1e-4, 1e-4)
    ignored = "angles of an earlier call, with another `start`, are used." if kept else "`start` is ignored."
    expect.like(
        expect.floats(result, (2, 3, 5, 8), "`rotary(x, 4)`"),
        turned(x, start=4),
        "the result is wrong with `start = 4`: the first token should be at position 4.",
        {
            ignored: turned(x),
            "`start` is multiplied by the length of the text. It is the position of the first token.": turned(
                x, start=20
            ),
            "`start` is subtracted from the positions. Add it.": turned(x, start=-4),
        },
    )
    flat = normal(6, 4, seed=8)
    expect.close(
        expect.floats(rotary(flat), (6, 4), "`rotary` of (6, 4)"),
        turned(flat),
        "the result is right for shape (2, 3, 5, 8), but wrong for (6, 4): other sizes, and no leading dimensions.",
    )
    late = expect.answers(rotary, flat, 5000, says="at late positions, such as `start = 5000`, it fails.")
    late = expect.floats(late, (6, 4), "`rotary` of (6, 4)")
    expect.close(late, turned(flat, 5000), "the result is wrong at late positions, such as `start = 5000`.", 1e-3)
    ROTARY.hold(rotary, lib, "gradients", "layout", "dtypes")
    expect.refuses(
        rotary,
        normal(4, 7),
        says="`rotary` must raise ValueError for a width of 7: an odd width leaves a column without a partner.",
    )
    ROTARY.hold(rotary, lib, "device")


# 2.7


def biased(n_heads: int, T: int, entry: Callable[[float, int, int], float]) -> torch.Tensor:
    """One matrix per head, `entry(slope, query, key)` for each pair."""
    slopes = [2 ** (-8 * (head + 1) / n_heads) for head in range(n_heads)]
    return torch.stack([by_entry(T, T, lambda i, j, m=m: float(entry(m, i, j))) for m in slopes])


def alibi(n_heads: int, T: int) -> torch.Tensor:
    """The bias by its definition, pair by pair."""
    distance = torch.arange(T)[:, None] - torch.arange(T)
    slopes = torch.tensor([2 ** (-8 * (head + 1) / n_heads) for head in range(n_heads)])[:, None, None]
    return torch.where(distance < 0, -torch.inf, -slopes * distance)


def explained(bias: torch.Tensor, guess: torch.Tensor) -> bool:
    """Whether the two agree, infinities included."""
    return expect.near(bias, guess, rtol=1e-4, atol=1e-5)


ALIBI = Contract(
    "alibi_bias(2 ** h, T)",
    sizes={"h": (0, 6), "T": (1, 9)},
    gives="the bias: float (2 ** h, T, T)",
    right=alibi,
    refuses=(
        "alibi_bias(0, T)",
        "alibi_bias(3 * 2 ** h, T)",
        "alibi_bias(2 ** (h + 2) + 1, T)",
        "alibi_bias(2 ** (h + 2) - 1, T)",
    ),
    special={"16 heads or more": lambda h: h >= 4},
    infinite=True,
    tolerance=1e-5,  # slopes in half precision are wrong for 16 heads and more
)


@check("2.7", points=2, forbids=MODELS)
def alibi_bias(alibi_bias, lib):
    """Check the penalty per step of distance, the slope of each head, and -inf on the future."""
    promised(INFINITY)
    bias = alibi_bias(4, 6)
    expect.of_type(bias, torch.Tensor, "`alibi_bias(4, 6)` should be a tensor")
    assert bias.shape != (6, 6), "the bias has no dimension for the heads: each has a slope of its own."
    bias = expect.tensor(bias, (4, 6, 6), "`alibi_bias(4, 6)`")
    assert bias.is_floating_point(), f"the bias is {bias.dtype}. It is added to scores, so it must be floating-point."
    assert not bias.isnan().any(), "the bias contains NaN, which 0 times -inf gives, and -inf minus -inf too."
    bias, wanted, past = bias.float(), alibi(4, 6), by_entry(6, 6, lambda i, j: j <= i).bool()
    if not explained(bias, wanted):
        sentences = {
            "distant keys get higher scores than near ones. The bias should be negative.": biased(
                4, 6, lambda m, i, j: m * (i - j) if j <= i else -math.inf
            ),
            "the past is hidden and the future is visible. Rows are queries, columns are keys.": wanted.mT,
            "the future is visible: keys after the query need -inf.": biased(4, 6, lambda m, i, j: -m * (i - j)),
            "the future is visible, and only penalised by its distance: keys after the query need -inf.": biased(
                4, 6, lambda m, i, j: -m * abs(i - j)
            ),
            "the future is visible, with a bias of 0: keys after the query need -inf.": biased(
                4, 6, lambda m, i, j: -m * max(i - j, 0)
            ),
            "a key at distance 0 is penalised. The token itself gets a bias of 0.": biased(
                4, 6, lambda m, i, j: -m * (i - j + 1) if j <= i else -math.inf
            ),
            "the token itself is hidden, but for the first one. Only keys after the query should be.": biased(
                4, 6, lambda m, i, j: -m * (i - j) if j < max(i, 1) else -math.inf
            ),
            "the token itself is hidden. Only keys after the query should be.": biased(
                4, 6, lambda m, i, j: -m * (i - j) if j < i else -math.inf
            ),
            "the first head has slope 1. The slopes start at 2^(-8/n).": wanted * 4,
            "all heads have the same slope. Each should have its own.": wanted[:1].expand(4, 6, 6),
            "the slopes are in the wrong order: the first head should be the steepest.": wanted.flip(0),
            (
                "the slopes of four heads are 1/2, 1/4, 1/8 and 1/16. Those belong to the first four of eight heads."
            ): torch.stack([wanted[0] * 2.0**power for power in (1, 0, -1, -2)]),
            "the penalty does not depend on the key, but on the query alone.": biased(
                4, 6, lambda m, i, j: -m * i if j <= i else -math.inf
            ),
            "the distances are counted from the last query. Count them from the query of each row.": biased(
                4, 6, lambda m, i, j: -m * (5 - j) if j <= i else -math.inf
            ),
            "the penalty grows with the square of the distance. It should be linear.": biased(
                4, 6, lambda m, i, j: -m * (i - j) ** 2 if j <= i else -math.inf
            ),
        }
        for sentence, guess in sentences.items():
            assert not explained(bias, guess), sentence
        seen, right = (matrix.masked_fill(~past, 0.0) for matrix in (bias, wanted))
        expect.like(seen, right, "the bias of head h is not -2^(-8h/n) times the distance.", {}, scale=0.1)
        raise AssertionError("some keys after the query have another bias than exactly -inf.")
    for n_heads, T in ((1, 3), (8, 5), (2, 1), (4, 4)):
        bias = expect.tensor(alibi_bias(n_heads, T), (n_heads, T, T), f"`alibi_bias({n_heads}, {T})`").float()
        assert explained(bias, alibi(n_heads, T)), (
            f"the bias is right for `alibi_bias(4, 6)`, but wrong for `alibi_bias({n_heads}, {T})`."
        )
    for n_heads in (3, 6, 12):
        expect.refuses(
            alibi_bias,
            n_heads,
            4,
            says=f"`alibi_bias({n_heads}, 4)` must raise ValueError: {n_heads} is not a power of two.",
        )
    ALIBI.hold(alibi_bias, lib, "gradients", "memory")
