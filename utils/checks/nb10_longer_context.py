"""Checks of notebook 10: distances, relative attention, memory, segments, reach, evaluation, orders, two streams."""

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from utils.checks import nb10_toys as toys
from utils.experiments import longer_context as reading
from utils.grading import expect, probes
from utils.grading.check import check, stretch
from utils.grading.contract import Contract, world_kept
from utils.grading.expect import normal
from utils.grading.remote import EMPTY, Library, Remote, kind, promised
from utils.grading.results_check import results_check

State = dict[str, torch.Tensor]
# No more of it: a cell of the notebook shows what XLNet of transformers does.
LIBRARY = ("XLNetRelativeAttention", "XLNetLayer", "rel_attn_core", "RelPartialLearnableMultiHeadAttn")

# 10.1


def rows_of(distances: torch.Tensor, d: int, exponent: float = 2.0) -> torch.Tensor:
    """The sines, then the cosines, of each distance, in double precision."""
    rates = torch.tensor([10000.0 ** (-exponent * k / d) for k in range(d // 2)], dtype=torch.float64)
    angles = distances.double()[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], -1)


def table_of(n: int, d: int, exponent: float = 2.0) -> torch.Tensor:
    """The rows of the distances n - 1 to 0."""
    return rows_of(torch.arange(n).flip(0), d, exponent)


TABLE = Contract(
    "distance_table(n, 2 * w)",
    sizes={"n": (1, 9, 5000), "w": (1, 9, 40)},
    gives="the table: float32 (n, 2 * w)",
    right=table_of,
    far=1e-3,
)


def tabled(distance_table: Remote, n: int, d: int) -> None:
    """Fail unless the table of n distances is right."""
    value = distance_table(n, d)
    found = expect.floats(value, (n, d), f"distance_table({n}, {d})")
    assert value.dtype is torch.float32, f"the table is {value.dtype}. It should be float32."
    wanted, half = table_of(n, d).float(), d // 2
    sines, cosines = wanted[:, :half], wanted[:, half:]

    def growing() -> torch.Tensor:  # in single precision: so large angles have no exact sine
        return torch.arange(n).flip(0)[:, None] * 10000 ** (torch.arange(0, d, 2) / d)

    expect.like(
        found,
        wanted,
        (f"`distance_table({n}, {d})` does not hold the sines, then the cosines, of the distances {n - 1} to 0."),
        {
            (
                "the distances increase. The first row should belong to distance n - 1, and the last one to distance 0."
            ): (wanted.flip(0)),
            (
                "the distances end at 1. The last row should belong to distance 0, a token's distance to itself."
            ): lambda: table_of(n + 1, d)[:-1].float(),
            "sines and cosines alternate, as in notebook 02. Here all sines come first.": torch.stack(
                [sines, cosines], -1
            ).flatten(1),
            "the cosines come first. All sines should come before them.": torch.cat([cosines, sines], 1),
            (
                "the exponent is -4k/d, as if 2k were divided by d/2. It should be -2k/d, with k from 0 to d/2 - 1."
            ): lambda: table_of(n, d, 4.0).float(),
            "the exponent is -k/d. It should be -2k/d.": lambda: table_of(n, d, 1.0).float(),
            "the frequencies grow. The exponent of 10000 should be negative.": lambda: torch.cat(
                [growing().sin(), growing().cos()], -1
            ),
            "the sines have the wrong sign, as for negative distances.": torch.cat([-sines, cosines], 1),
        },
    )


@check("10.1", points=1)
def distance_table(distance_table, lib):
    """Check the rows of sines and cosines, from the farthest distance to 0."""
    for n, d in ((5, 8), (9, 6), (1, 4), (8, 8), (3, 2)):
        tabled(distance_table, n, d)
    TABLE.hold(distance_table, lib, "memory")


# 10.2


def in_sight(T: int, S: int) -> torch.Tensor:
    """Whether key j of S is not after query i of T; S - T keys come before the queries."""
    return torch.arange(S) <= torch.arange(T)[:, None] + S - T


def by_key(scores: torch.Tensor) -> torch.Tensor:
    """The scores of the keys in sight, looked up one by one, and 0 for the others."""
    T, S = scores.shape[-2:]
    columns = (torch.arange(S) - torch.arange(T)[:, None] + T - 1).clamp(max=S - 1)
    return torch.where(in_sight(T, S), scores.gather(-1, columns.expand(scores.shape)), 0.0)


SHIFT = Contract(
    "shift(scores)",
    sizes={"B": (0, 4), "H": (1, 4), "T": (1, 6, 130), "M": (0, 5, 1100)},
    scores="floats (B, H, T, T + M)",
    through="KeysInSight",
    gives="the scores of the keys in sight: as scores (B, H, T, T + M)",
    right=by_key,
    learns="scores",
    toys=toys,
)


def shifted(scores: torch.Tensor, moves: Callable[[int, int, int], int]) -> torch.Tensor:
    """Row i of scores (..., T, S), where it moves to the left by moves(i, T, S) columns; what is not there is 0."""
    T, S = scores.shape[-2:]
    rows = []
    for i in range(T):
        sources = [j + moves(i, T, S) for j in range(S)]
        columns = [scores[..., i, c] if 0 <= c < S else torch.zeros_like(scores[..., i, 0]) for c in sources]
        rows.append(torch.stack(columns, -1))
    return torch.stack(rows, -2)


def first_wrong(found: torch.Tensor, wanted: torch.Tensor, shape: tuple[int, ...]) -> str:
    """A sentence about the first place (query, key) at which shifted scores are wrong."""
    T, S = shape[-2:]
    places = ((found - wanted).abs() > 1e-4).flatten(0, 1).any(0).nonzero().tolist()
    i, j = places[0]
    told = (
        f"with scores of shape `{shape}`, column {j} of row {i} should be column {j + T - 1 - i} of that row before. "
    )
    return f"{told}Key {j} is at distance {i + S - T - j} from query {i}."


def moved(shift: Remote, scores: torch.Tensor) -> None:
    """Fail unless the scores of all keys in sight are those of their distances."""
    B, H, T, S = scores.shape
    found = expect.tensor(shift(scores), (B, H, T, S), "the shifted scores")
    told = f"the shifted scores are {found.dtype}. They should keep the dtype of the scores."
    assert found.dtype is scores.dtype, told
    assert found.isfinite().all(), (
        "the result holds numbers that are not finite. `shift` only moves scores: they are masked later."
    )
    seen, wanted = in_sight(T, S), shifted(scores, lambda i, T, S: T - 1 - i)
    guesses = {
        "nothing is moved: column j of every row is still about distance S - 1 - j.": scores,
        "the rows move to the right. Row i should move to the left, by T - 1 - i.": shifted(
            scores, lambda i, T, S: i - T + 1
        ),
        "the first row stays, and later ones move. The last row should stay.": shifted(scores, lambda i, T, S: i),
        "every row moves one column too far.": shifted(scores, lambda i, T, S: T - i),
        "every row moves one column too few.": shifted(scores, lambda i, T, S: T - 2 - i),
        "all rows move as far as the first one. Row i moves by T - 1 - i.": shifted(scores, lambda i, T, S: T - 1),
        "all rows move by one column. Row i moves by T - 1 - i.": shifted(scores, lambda i, T, S: 1),
        "the rows move twice as far as they should.": shifted(scores, lambda i, T, S: 2 * (T - 1 - i)),
        "the columns are in reverse order. Rows should move, and keep the order of their columns.": scores.flip(-1),
        "the last row of the reshaped scores is left out. Leave out the first one.": F.pad(scores, (1, 0))
        .reshape(B, H, S + 1, T)[:, :, :-1]
        .reshape(B, H, T, S),
        "the padded scores are transposed to (S + 1, T). Reshape them, which is not a transposition.": F.pad(
            scores, (1, 0)
        )
        .mT[:, :, 1:]
        .reshape(B, H, T, S),
        "the rows move by S - 1 - i, which is right only without a memory, where T = S.": shifted(
            scores, lambda i, T, S: S - 1 - i
        ),
        (
            "the rows roll to the right by i + 1, or to the left by S - 1 - i. "
            "Row i should move to the left, by T - 1 - i."
        ): torch.stack([scores[..., i, :].roll(i + 1, -1) for i in range(T)], -2),
        "batch and heads are mixed up: the shifted scores of one head are returned for another.": wanted.flatten(0, 1)
        .reshape(H, B, T, S)
        .transpose(0, 1),
    }
    expect.like(
        found[..., seen],
        wanted[..., seen],
        lambda: first_wrong(found * seen, wanted * seen, (B, H, T, S)),
        {sentence: guess[..., seen] for sentence, guess in guesses.items()},
    )


@check("10.2", points=2)
def shift(shift, lib):
    """Check that each row moves to the left by one less than the row above, with and without a memory."""
    for B, H, T, S in ((2, 3, 4, 7), (1, 2, 5, 5), (3, 1, 1, 4), (1, 1, 1, 1), (2, 2, 6, 8)):
        moved(shift, normal(B, H, T, S, seed=T))
    scores = normal(2, 2, 3, 5, seed=11)
    again, _ = expect.items(lib(probes).again_after_writing(shift, [scores], {}), 2, "")
    told = "writing into the result of one call changes the result of the next. Return a new tensor each time."
    expect.close(expect.tensor(again, (2, 2, 3, 5), "the shifted scores") * in_sight(3, 5), by_key(scores), told)
    row = normal(2, 2, 1, 5, seed=12)
    _, given = expect.items(lib(probes).again_after_writing(shift, [row], {}), 2, "")
    told = "for a single row (T = 1), the result is the given tensor or a view of it. Return a new tensor."
    assert expect.same(given, [row]), told
    SHIFT.hold(shift, lib, "dtypes", "layout", "device", "gradients")


# 10.3

MAPS = ("q_proj", "k_proj", "v_proj", "r_proj", "out_proj")


def relative_shapes(d: int, heads: int) -> dict[str, tuple[int, ...]]:
    """The parts of a `RelativeAttention`."""
    maps: dict[str, tuple[int, ...]] = {f"{name}.weight": (d, d) for name in MAPS}
    return maps | {"u": (heads, d // heads), "v": (heads, d // heads)}


def cut(x: torch.Tensor, heads: int) -> torch.Tensor:
    """(..., n, d) -> (..., heads, n, d / heads): the h-th block of columns is head h."""
    return torch.stack(x.chunk(heads, dim=-1), dim=-3)


def relative(
    state: State,
    x: torch.Tensor,
    memory: torch.Tensor | None,
    heads: int,
    *,
    distance: Callable[..., torch.Tensor] = lambda i, j, M: i + M - j,
    seen: Callable[..., torch.Tensor] = lambda i, j, M: j <= i + M,
    terms: Mapping[str, float] | None = None,
    r_map: str | None = "r_proj",
    scale: float | None = None,
    last: bool = True,
    cut: Callable[[torch.Tensor, int], torch.Tensor] = cut,
    join: Callable[[torch.Tensor], torch.Tensor] | None = None,
    turned: bool = False,
) -> torch.Tensor:
    """What section 3.3 says, for each pair of a query i and a key j, or with a mistake in it.

    M is the length of the memory. Each of the terms a to d is multiplied by its factor in `terms`. If `turned`, the
    memory comes after the segment.
    """
    both = x if memory is None else torch.cat([x, memory] if turned else [memory, x], 1)
    T, S, d = x.size(1), both.size(1), x.size(2)
    M, factor = S - T, {"a": 1.0, "b": 1.0, "c": 1.0, "d": 1.0} | dict(terms or {})
    wide = {name: state[f"{name}.weight"].to(x.dtype) for name in MAPS}
    q, k, v = (cut(y @ wide[name].mT, heads) for y, name in ((x, "q_proj"), (both, "k_proj"), (both, "v_proj")))
    # The row of every pair: all distances that occur, those of hidden pairs too.
    i, j = torch.arange(T)[:, None], torch.arange(S).expand(T, S)
    apart = distance(i, j, M).expand(T, S)
    table = rows_of(torch.arange(int(apart.min()), int(apart.max()) + 1), d).to(x.dtype)
    r = cut(table @ wide[r_map].mT if r_map else table, heads)[:, apart - apart.min()]  # (heads, T, S, d_head)
    u, w = state["u"].to(x.dtype)[:, None], state["v"].to(x.dtype)[:, None]
    scores = factor["a"] * q @ k.mT + factor["c"] * u @ k.mT
    scores = scores + factor["b"] * torch.einsum("bhtd,htsd->bhts", q, r)
    scores = scores + factor["d"] * torch.einsum("hod,htsd->hts", w, r)
    scores = scores * ((d // heads) ** -0.5 if scale is None else scale)
    heads_out = scores.masked_fill(~seen(i, j, M), -torch.inf).softmax(-1).nan_to_num() @ v
    together = joined(heads_out, cut) if join is None else join(heads_out)
    return together @ wide["out_proj"].mT if last else together


def interleaved(x: torch.Tensor, heads: int) -> torch.Tensor:
    """As `cut`, but head h has every column h, h + heads, ..."""
    return x.unflatten(-1, (-1, heads)).movedim(-1, -3)


def joined(x: torch.Tensor, cut: Callable[[torch.Tensor, int], torch.Tensor]) -> torch.Tensor:
    """What `cut` cut, (B, heads, T, d_head), in one piece again, (B, T, d)."""
    return x.movedim(1, -1).flatten(-2) if cut is interleaved else torch.cat([*x.unbind(1)], -1)


def attended(layer: Remote, state: State, x: torch.Tensor, memory: torch.Tensor | None, heads: int) -> torch.Tensor:
    """The output for x and memory; fail unless it is that of section 3.3."""
    B, T, d = x.shape
    value = layer(x, memory) if memory is not None else layer(x)
    if type(value) is torch.Tensor and memory is not None and memory.size(1):
        told = "there is an output for each remembered token. Queries should come from the segment alone."
        assert value.shape != (B, T + memory.size(1), d), told
    found = expect.floats(value, (B, T, d), "the output")
    ahead = ""
    if T > 1:
        edited = torch.cat([x[:, :-1], x[:, -1:] + 1], 1)
        earlier = expect.floats(layer(edited, memory), (B, T, d), "the output")[:, :-1]
        if not expect.near(earlier, found[:, :-1], atol=1e-4):
            again = expect.floats(layer(x, memory), (B, T, d), "the output")
            told = "two calls with the same input give different outputs. Draw nothing, and keep nothing for later."
            assert expect.near(again, found, atol=1e-4), told
            ahead = "the future is visible: editing the last token changes earlier outputs. Look at the mask, at the "
            ahead += "axis of the softmax, and at how heads are cut and joined."
    but: Callable[..., Any] = partial(partial, relative, state, x, memory, heads)
    swapped = state | {"u": state["v"], "v": state["u"]}
    expect.like(
        found,
        relative(state, x, memory, heads),
        lambda: ahead or wrong_term(layer, state, x, memory, heads),
        {
            (
                "the memory is ignored: the output is the same as without it. Keys and values should come from it too, "
                "and every query should see all of it."
            ): partial(relative, state, x, None, heads),
            "the memory is cut to the length of the segment. All of it should be read.": partial(
                relative, state, x, memory if memory is None else memory[:, -T:], heads
            ),
            "`u` and `v` are swapped. Use `u` with the keys, and `v` with the distances.": partial(
                relative, swapped, x, memory, heads
            ),
            "too much is hidden: the mask ignores the memory. Query i should see the keys up to i + (S - T).": but(
                seen=lambda i, j, M: j <= i
            ),
            "the mask hides a query's own token. A query should see itself.": but(seen=lambda i, j, M: j < i + M),
            (
                "content and distance share one matrix: `k_proj` is applied to the distances. Use `r_proj` for them."
            ): but(r_map="k_proj"),
            "`r_proj` is not applied to the rows of the distance table.": but(r_map=None),
            "every query gets the distances of the last one: the shift of 10.2 is missing.": but(
                distance=lambda i, j, M: x.size(1) - 1 + M - j
            ),
            "the distances go the wrong way round: the nearest key gets the row of the farthest.": but(
                distance=lambda i, j, M: j
            ),
            "the distances ignore the memory: they are i - j. They should be i + (S - T) - j.": but(
                distance=lambda i, j, M: i - j
            ),
            "terms b and d, which depend on the distance, are missing.": but(terms={"b": 0.0, "d": 0.0}),
            "term a, the query with the key, is missing.": but(terms={"a": 0.0}),
            "term b, the query with the distance, is missing.": but(terms={"b": 0.0}),
            "term c, u with the key, is missing.": but(terms={"c": 0.0}),
            "term d, v with the distance, is missing.": but(terms={"d": 0.0}),
            "`u` and `v` are not used: terms c and d are missing.": but(terms={"c": 0.0, "d": 0.0}),
            "the scores are not divided by the root of d_head.": but(scale=1.0),
            "the scores are divided by the root of d_model. A head is only d_head wide.": but(scale=d**-0.5),
            "the scores are divided by d_head, not by its root.": but(scale=heads / d),
            "terms b and d are not divided by the root of d_head. Divide the whole score.": but(
                terms={"b": (d / heads) ** 0.5, "d": (d / heads) ** 0.5}
            ),
            "the heads are interleaved. Head h should have the h-th block of columns.": but(cut=interleaved),
            (
                "the heads are joined in the wrong order. Move their axis behind that of the tokens "
                "before you join them."
            ): but(join=lambda heads_out: heads_out.reshape(B, T, d)),
            "the memory comes after the segment. The memory is older, so it comes first.": but(turned=True),
            "`u` is used for keys and distances, and `v` is not used.": partial(
                relative, state | {"v": state["u"]}, x, memory, heads
            ),
            "`v` is used for keys and distances, and `u` is not used.": partial(
                relative, state | {"u": state["v"]}, x, memory, heads
            ),
            "all heads use u and v of the first head. Each should use its own.": partial(
                relative, state | {name: state[name][:1].expand(heads, -1) for name in ("u", "v")}, x, memory, heads
            ),
            "the distances are too large by 1. A query should have distance 0 to itself.": but(
                distance=lambda i, j, M: i + M - j + 1
            ),
            "the distances are too small by 1. A query should have distance 0 to itself.": but(
                distance=lambda i, j, M: i + M - j - 1
            ),
            "the output projection is missing: `out_proj` is never used.": but(last=False),
            "the input is added to the output. There is no residual in 10.3.": lambda: (
                relative(state, x, memory, heads) + x
            ),
        },
    )
    assert not ahead, ahead
    return found


# Without some of the weights there are fewer terms: what is wrong then is not in the others.
FEWER_TERMS = {
    "with `r_proj`, `u` and `v` all zero, attention by content alone is wrong.": ("r_proj.weight", "u", "v"),
    "with `r_proj` and `v` all zero, the terms a and c are wrong.": ("r_proj.weight", "v"),
    "with `u` and `v` all zero, the terms a and b are wrong.": ("u", "v"),
    "with `v` all zero, the terms a, b and c are wrong.": ("v",),
}


def wrong_term(layer: Remote, state: State, x: torch.Tensor, memory: torch.Tensor | None, heads: int) -> str:
    """Which of the four terms an output is wrong for, in a sentence. The layer is left with other weights."""
    where = f"for {x.size(1)} tokens after {0 if memory is None else memory.size(1)} remembered ones, "
    for sentence, names in FEWER_TERMS.items():
        fewer = state | {name: torch.zeros_like(state[name]) for name in names}
        layer.load_state_dict(fewer)
        if not expect.near(layer(x, memory), relative(fewer, x, memory, heads), 1e-4, 1e-4):
            return where + sentence
    return f"{where}the output is wrong, but right if `v` is all zero: look at where `v` is used."


RELATIVE = Contract(
    "RelativeAttention(2 * w * H, H)(x, memory)",
    sizes={"H": (1, 4), "w": (1, 3), "B": (1, 3), "T": (1, 6, 100), "M": (0, 8, 700)},
    x="floats (B, T, 2 * w * H)",
    memory="floats (B, M, 2 * w * H) or None",
    gives="the output: as x (B, T, 2 * w * H)",
    weights=relative_shapes,
    right=lambda state, d, heads, x, memory: relative(state, x, memory, heads),
    learns="x",
    precise=False,
    low=False,
    far=1e-3,
)


@check("10.3", points=4, forbids=LIBRARY)
def relative_attention(RelativeAttention, lib):
    """Check four terms by content and distance; all of the memory is visible, and nothing of the future."""
    d, heads = 12, 3
    layer = RelativeAttention(d, heads)
    state = expect.weights(layer, relative_shapes(d, heads), "`RelativeAttention(12, 3)`", 103)
    x, memory = normal(2, 4, d, seed=1), normal(2, 7, d, seed=2)
    attended(layer, state, x, memory, heads)
    for other in (None, normal(2, 2, d, seed=3)):  # of a new layer: what is kept between calls is asked for elsewhere
        layer = RelativeAttention(d, heads)
        layer.load_state_dict(state)
        attended(layer, state, x, other, heads)
    layer = RelativeAttention(d, heads)
    layer.load_state_dict(state)
    told = "a memory of length 0 should give the same output as None."
    empty = expect.answers(layer, x, memory[:, :0], says=told)
    expect.close(expect.floats(empty, (2, 4, d), "the output"), relative(state, x, None, heads), told)
    attended(layer, state, x[:, :1], memory, heads)
    told = "after a call with more keys, the output is not the same as without that call. Keep nothing between calls."
    expect.close(expect.floats(layer(x, None), (2, 4, d), "the output"), relative(state, x, None, heads), told)
    told = "if scores are large, the future is visible: editing the last token changes earlier outputs. "
    told += "A hidden key should not count in the softmax, however large its score."
    large = 30 * normal(3, 8, d, seed=4)
    edited = torch.cat([large[:, :-1], 30 * normal(3, 1, d, seed=5)], 1)
    one, other = (expect.floats(layer(each), (3, 8, d), "if scores are large, the output") for each in (large, edited))
    expect.close(one[:, :-1], other[:, :-1], told, 1e-3)
    RELATIVE.hold(RelativeAttention, lib, "modes", "gradients", "device")


# 10.4


def remembered(next_memory: Remote, lib: Library, memory: torch.Tensor | None, hidden: torch.Tensor, m: int) -> None:
    """Fail unless the last m states of both are given, cut off from gradients."""
    B, T, d = hidden.shape
    M = 0 if memory is None else memory.size(1)
    both = hidden if memory is None else torch.cat([memory, hidden], 1)
    wanted = both[:, M + T - min(m, M + T) :]
    happens = lib(toys).cut_off(next_memory, hidden, memory, m)
    assert happens != "kept", (
        "gradients flow into the memory. Detach it, so that no gradient flows back into old segments."
    )
    assert happens != "needs", "the memory has requires_grad=True. It should keep values only, without gradients."
    assert happens != "lost", "the states themselves are detached (`detach_`): no gradient reaches them any more."
    assert happens != "off", "a call switches requires_grad off: the given states learn no more. Use `detach()`."
    value = next_memory(memory, hidden, m)
    assert type(value) is torch.Tensor, f"the memory should be a tensor, not {kind(value)}."
    if m == 0 and value.ndim == 3:
        told = "with mem_len = 0, states are kept. The memory should be empty"
        told += ", but `[:, -0:]` is everything." if value.size(1) == M + T else "."
        assert value.size(1) == 0, told
    told = "with fewer states than mem_len, some are lost: a negative start counts from the end."
    assert m <= M + T or m >= 2 * (M + T) or not expect.near(value, both[:, M + T - m :]), told
    told = "only the newest segment is kept. A memory may be longer than a segment."
    assert min(m, T) >= wanted.size(1) or not expect.near(value, wanted[:, -min(m, T) :]), told
    before = "None as memory" if memory is None else f"{M} states in the memory"
    told = f"with {before}, {T} states in the segment and `mem_len = {m}`, nothing is kept. All of them should be."
    assert value.shape != (B, 0, d) or m <= M + T, told
    told = f"with {M} states in the memory, {T} in the segment and `mem_len = {m}`, everything is kept. "
    assert value.shape != (B, M + T, d) or m >= M + T, f"{told}Keep only the last mem_len states."
    told = "the memory stays as it was: the states of the new segment are missing."
    assert memory is None or m > M or not expect.near(value, memory[:, M - m :]) or not m, told
    found = expect.tensor(value, tuple(wanted.shape), "the memory")
    assert found.dtype is hidden.dtype, f"the memory is {found.dtype}. It should keep the dtype of the states."
    turned = torch.cat([hidden, both[:, :M]], 1)[:, M + T - wanted.size(1) :]
    expect.like(
        found,
        wanted,
        (f"with mem_len = {m}, the memory should hold the last {wanted.size(1)} of {M} remembered and {T} new states."),
        {
            "the oldest states are kept. Keep the newest.": both[:, : wanted.size(1)],
            **(
                {"the new states come before the remembered ones. The older ones should come first.": turned}
                if m > M
                else {}
            ),
            "the states are in reverse order. The older ones should come first.": wanted.flip(1),
        },
        tolerance=1e-9,
    )


MEMORY = Contract(
    "next_memory(memory, hidden, M // 2 + m)",
    sizes={"B": (1, 4), "T": (1, 7, 1500), "d": (1, 5), "M": (0, 8, 1500), "m": (0, 20, 3000)},
    memory="floats (B, M, d)",
    hidden="floats (B, T, d)",
    gives="the memory: as hidden (B, M // 2 + m if m < M - M // 2 + T else M + T, d)",
    right=lambda memory, hidden, m: kept_of(memory, hidden, m),
    frozen="memory hidden",
    shares=True,
)


@check("10.4", points=1)
def next_memory(next_memory, lib):
    """Check for the last states of memory and segment, however long either is, without a gradient."""
    promised(EMPTY)
    memory, hidden = normal(2, 5, 3, seed=1), normal(2, 4, 3, seed=2)
    for m in (6, 4, 3, 9, 12, 20, 1, 0):
        remembered(next_memory, lib, memory, hidden, m)
        remembered(next_memory, lib, None, hidden, m)
    remembered(next_memory, lib, memory[:, :0], hidden, 3)
    remembered(next_memory, lib, normal(2, 8, 3, seed=3), hidden[:, :2], 5)
    remembered(next_memory, lib, memory.double(), hidden.double(), 6)
    value = next_memory(None, hidden.bfloat16(), 3)
    told = "the memory of a segment in bfloat16 has another dtype where the memory before is None."
    assert type(value) is torch.Tensor and value.dtype is torch.bfloat16, told
    MEMORY.hold(next_memory, lib, "device")


# 10.5


def fading_parts(lib: Library, V: int, d: int, layers: int) -> tuple[list[Any], nn.ModuleList]:
    """Embedding, layers and head in the student's process, and their twins here."""
    theirs: list[Any] = [lib(nn).Embedding(V, d), *(lib(toys).Fading(d) for _ in range(layers)), lib(nn).Linear(d, V)]
    return theirs, nn.ModuleList([nn.Embedding(V, d), *(toys.Fading(d) for _ in range(layers)), nn.Linear(d, V)])


def segment_parts(ours: nn.ModuleList) -> dict[str, nn.Module]:
    """The parts of a `SegmentModel` by name."""
    embedding, *layers, head = ours
    return {"embedding": embedding, **{f"layers.{place}": one for place, one in enumerate(layers)}, "head": head}


def built(SegmentModel: Remote, lib: Library, ours: nn.ModuleList, theirs: Sequence[Any], seed: int) -> Remote:
    """The student's model of these parts, filled with the weights of ours."""
    model = SegmentModel(theirs[0], list(theirs[1:-1]), theirs[-1])
    found = expect.state(model, "SegmentModel")
    told = "the layers are not known to `parameters()`: a plain list hides them. `layers` must be an nn.ModuleList."
    assert len(ours) == 2 or any(not name.startswith(("embedding.", "head.")) for name in found), told
    parts = segment_parts(ours)
    names = [(part, name) for part, module in parts.items() for name in module.state_dict()]
    shapes = {f"{part}.{name}": tuple(parts[part].state_dict()[name].shape) for part, name in names}
    state = expect.weights(model, shapes, "`SegmentModel`", seed)
    for part, module in parts.items():
        module.load_state_dict({name: state[f"{one}.{name}"] for one, name in names if one == part})
    for part, one, module in zip(parts, theirs, ours, strict=True):
        told = f"`{part}` is a copy, or another of the given modules. Keep the modules themselves, in their order."
        assert expect.agree(one.state_dict(), module.state_dict()), told
    return model


def kept_of(memory: torch.Tensor | None, states: torch.Tensor, mem_len: int) -> torch.Tensor:
    """The last `mem_len` states of both."""
    both = states if memory is None else torch.cat([memory, states], 1)
    return both[:, max(0, both.size(1) - mem_len) :]


def read_on(
    parts: Iterable[Any],
    segments: Sequence[torch.Tensor],
    mem_len: int,
    *,
    keeps: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = lambda before, after: before,
    newest: bool = False,
    mixed: Callable[[list[Any]], list[Any]] = lambda memories: memories,
    order: Callable[[list[Any]], list[Any]] = lambda layers: layers,
    early: bool = False,
    embeddings: bool = False,
) -> list[tuple[torch.Tensor, list[torch.Tensor]]]:
    """Logits and memories after each segment, or what a mistake makes of them.

    keeps: of the states before and after a layer those that it remembers; newest: of this segment alone; mixed: which
    memory a layer is given; early: the new one; embeddings: each layer remembers the first one's input.
    """
    embedding, *layers, head = parts
    memories: list[Any] = [None] * len(layers)
    found = []
    with torch.no_grad():
        for tokens in segments:
            first, kept = embedding(tokens), []
            x = first
            for layer, memory, old in zip(order(layers), mixed(memories), memories, strict=True):
                if early:
                    memory = kept_of(old, x, mem_len)
                after = layer(x, memory)
                kept.append(kept_of(None if newest else old, first if embeddings else keeps(x, after), mem_len))
                x = after
            memories = kept
            found.append((head(x), kept))
    return found


def segments_read(
    model: Remote, lib: Library, ours: nn.ModuleList, segments: Sequence[torch.Tensor], mem_len: int
) -> list[torch.Tensor]:
    """The logits of all segments; fail unless they and the memories are right."""
    n_layers, (V, d) = len(ours) - 2, ours[0].state_dict()["weight"].shape
    right = read_on(ours, segments, mem_len)
    but: Callable[..., Any] = partial(read_on, ours, segments, mem_len)
    mistakes: dict[str, Callable[[], Any]] = {
        "a layer remembers its output. It should remember its input.": partial(but, keeps=lambda before, after: after),
        "each layer remembers the embedding. It should remember its own input.": partial(but, embeddings=True),
        "only the newest segment is remembered. See 10.4.": partial(but, newest=True),
        "all layers are given the memory of the first one. Each should get its own.": partial(
            but, mixed=lambda memories: [memories[0]] * n_layers
        ),
        "the layers are given each other's memories. Each should get its own.": partial(
            but, mixed=lambda memories: memories[::-1]
        ),
        "the memories are not used. Give each layer its own.": partial(but, mixed=lambda memories: [None] * n_layers),
        "a layer is given the new memory, which holds this segment. Give it the old one.": partial(but, early=True),
        "the layers run in reverse order. The first one in the list should run first.": partial(
            but, order=lambda layers: layers[::-1]
        ),
    }
    memories: Any = None
    logits = []
    for place, (tokens, (wanted, kept)) in enumerate(zip(segments, right, strict=True)):
        value = model(tokens, memories, mem_len) if place else model(tokens, mem_len=mem_len)
        expect.items(value, 2, "the model should give two things, logits and memories")
        B, T = tokens.shape
        found = expect.floats(value[0], (B, T, V), "the logits")
        expect.items(value[1], n_layers, f"with {n_layers} layers the memories should be a list of {n_layers}")
        for one, memory in zip(value[1], kept, strict=True):
            told = f"a memory {'is ' + kind(one) if type(one) is not torch.Tensor else f'has {one.ndim} axes'}"
            assert type(one) is torch.Tensor and one.ndim == 3, f"{told}. It should be a tensor (B, M, d)."
            assert memory.size(1) or not one.size(1), (
                "with mem_len = 0, states are kept. The memories should have length 0."
            )
            newest = memory[:, -min(mem_len, T) :]
            told = "only the newest segment is remembered. See 10.4."
            assert memory.size(1) <= T or not expect.near(one, newest, 1e-4, 1e-4), told
            told = "at the beginning of a text, a memory has more states than the segment has tokens. `memories` is "
            assert place or one.size(1) <= T, f"{told}None there: nothing came before."
            expect.floats(one, (B, memory.size(1), d), f"with mem_len = {mem_len}, a memory")
        at = place

        def explain(which: Callable[[Any], torch.Tensor], at: int = at) -> dict[str, Callable[[], torch.Tensor]]:
            return {sentence: lambda made=made: which(made()[at]) for sentence, made in mistakes.items()}

        if n_layers:
            stacked = expect_stack(value[1])
            told = "the memories are not the last inputs of the layers."
            expect.like(stacked, torch.stack(kept), told, explain(lambda one: torch.stack(one[1])))
        told = "the logits are not those of embedding, layers and head, in this order."
        expect.like(found, wanted, told, explain(lambda one: one[0]))
        logits.append(found)
        memories = value[1]
    lengths = [0, *(kept[0].size(1) for _, kept in right[:-1] if kept)]
    wanted = [[tokens.size(1), length] for tokens, length in zip(segments, lengths, strict=False)]
    for given in lib(toys).given_to(model, len(segments)):
        told = "at the beginning of a text, a layer is given a memory, perhaps an empty one, or each segment is read "
        told += "more than once. Call each layer once for a segment, at the beginning with None."
        assert given[0][2:] == [True], told
        for (*sizes, _), needed in zip(given, wanted, strict=True):
            told = "a layer is called with {} tokens and {} remembered states, where it should get {} and {}."
            assert sizes == needed, f"{told.format(*sizes, *needed)} Call `layer(x, memory)`, at first with None."
    return logits


def expect_stack(memories: Sequence[torch.Tensor]) -> torch.Tensor:
    """The memories of all layers as one tensor."""
    return torch.stack([one.float() for one in memories])


def learns_from_second_half(model: Remote, lib: Library, ours: nn.ModuleList, text: torch.Tensor, mem_len: int) -> None:
    """Fail unless the loss of a text's second half trains all parts through the segment, and not through memories."""
    slopes = lib(toys).parameter_gradients(lib(toys).SecondHalf(model, mem_len), text)
    halves = text.chunk(2, 1)
    memories: list[Any] = read_on(ours, halves[:1], mem_len)[0][1] if mem_len else [None] * (len(ours) - 2)
    ours.zero_grad()
    with torch.enable_grad():
        embedding, *layers, head = ours
        x = embedding(halves[1])
        for layer, memory in zip(layers, memories, strict=True):
            x = layer(x, memory)
        toys.backward(head(x))
    where = f"with {mem_len} remembered states, " if mem_len else ""
    told = f"{where}the gradient of a segment's loss is cut off within the segment. Detach only the memories."
    for part, module in segment_parts(ours).items():
        for name, one in module.named_parameters():
            expect.close(slopes[f"model.{part}.{name}"], one.grad, told, 1e-3)


@check("10.5", points=3)
def segment_model(SegmentModel, lib):
    """Check that segments with a full memory of each layer's inputs equal one pass over the whole text."""
    promised(EMPTY)
    V, d = 11, 6
    theirs, ours = fading_parts(lib, V, d, 3)
    model = built(SegmentModel, lib, ours, theirs, 105)
    text = torch.randint(V, (2, 14), generator=expect.generator(5))
    for T, mem_len in ((4, 3), (4, 6), (5, 1), (4, 0), (14, 5)):
        segments_read(model, lib, ours, text.split(T, 1), mem_len)
    with world_kept(lib, "after segments were read"):
        logits = segments_read(model, lib, ours, text.split(3, 1), 40)
    value = expect.items(model(text), 2, "the model should give two things, logits and memories")
    whole = expect.floats(value[0], (2, 14, V), "the logits")
    told = "without mem_len nothing should be kept: it is 0 by default."
    assert all(type(one) is torch.Tensor and one.ndim == 3 and not one.size(1) for one in value[1]), told
    told = (
        "with a memory that holds everything, the logits of the segments differ from those of one pass over the text."
    )
    expect.close(torch.cat(logits, 1), whole, told)
    segments_read(model, lib, ours, text.split(4, 1), 3)
    alive = lib(toys).remembered_with_gradient(model, text[:, :4], 3)
    told = "gradients flow into the memories. They should hold values only, see 10.4."
    assert "flows" not in alive, told
    assert "needs" not in alive, "a memory has requires_grad=True. It should keep values only, without gradients."
    learns_from_second_half(model, lib, ours, text, 0)
    learns_from_second_half(model, lib, ours, text, 4)
    _, memories = expect.items(model(text[:, :6], mem_len=6), 2, "the model should give two things")
    wanted = read_on(ours, [text[:, :6], text[:, 6:10]], 6)[1][0]
    for fewer in (0, 2):
        value = expect.items(model(text[:, 6:10], memories, fewer), 2, "the model should give two things")
        found = expect.floats(value[0], (2, 4, V), "the logits")
        if not expect.near(found, wanted, 1e-4, 1e-4):
            told = "where memories are given that an earlier call gave back, and not the last one, the logits are "
            told += "wrong. Read the memories that are given, and keep none in the model."
            again = expect.items(model(text[:, 6:10], memories, 6), 2, "the model should give two things")
            expect.close(again[0], wanted, told)
            told = "with a smaller mem_len, the given memories are not read whole. "
            raise AssertionError(f"{told}`mem_len` should only decide what is kept for later.")
    expect.one_device(lib, lib(toys).First(model), text)


# 10.6


def farthest(n_layers: int, mem_len: int, T: int, i: int, *, stops: bool = False) -> int:
    """The reach, found by following every state to those it is computed from.

    stops: a memory that begins inside a segment is taken to end there.
    """
    start = (n_layers + 2) * (mem_len + T) // T * T + T  # late enough, and a segment's beginning
    oldest = start + i
    for _ in range(n_layers):  # each state is computed from all states from its segment's beginning and the memory on
        beginning = oldest if stops and oldest < start else oldest // T * T
        oldest = beginning - mem_len
    return start + i - oldest


def with_fmod(n_layers: int, mem_len: int, T: int, i: int) -> int:
    """As `farthest`, but the place in the segment of a negative place is negative."""
    oldest = i
    for _ in range(n_layers):
        oldest -= int(math.fmod(oldest, T)) + mem_len
    return i - oldest


def reaches(reach: Remote, asked: Sequence[tuple[int, int, int, int]]) -> None:
    """Fail unless the reach is that of the graph of states for each of these layers, memories, segments and places."""
    cases = list[expect.Case]()
    for L, M, T, i in asked:
        value, right = reach(L, M, T, i), farthest(L, M, T, i)
        told = "the reach is a float. It should be an integer."
        assert type(value) is not float and not (type(value) is torch.Tensor and value.is_floating_point()), told
        kept = value != right and any(  # an earlier call with one other argument gave it, and there it was right
            value == came == wanted and sum(map(operator.ne, call, (L, M, T, i))) == 1
            for call, (came, wanted, _) in zip(asked, cases, strict=False)
        )
        guesses = {
            "an earlier result is given again. If results are kept, they must be kept by all four arguments.": (
                value if kept else math.inf
            ),
            "`i` is added in every layer. Add it once: only the first step begins inside the segment.": L * (M + i),
            "this is the reach of one layer. The states in the memory had a memory too.": M + i,
            "this is n_layers times T. Each layer reaches back by the length of the memory.": L * T,
            "this is n_layers times T, plus i. Each layer reaches back by the length of the memory.": L * T + i,
            "the result is too small by `i`. The distance should be counted from place i.": right - i,
            "`i` is left out: this is n_layers times mem_len.": L * M,
            (
                "this is n_layers times mem_len, plus i. A memory that begins inside an old segment "
                "reaches that segment's beginning."
            ): L * M + i,
            "the memory is counted once too often. It counts once for each layer.": farthest(L + 1, M, T, i),
            "only n_layers - 1 memories are counted. Every layer has one.": farthest(L - 1, M, T, i),
            "T is added in every layer. A layer adds mem_len, and the way from there to that segment's beginning.": L
            * (M + T)
            + i,
            "T - 1 is added for each memory. Add only the way from its first state to that segment's beginning.": (
                i + L * M + (L - 1) * (T - 1)
            ),
            "without a memory, the result is 0. Place i still depends on its segment's beginning.": right if M else 0,
            "the memory is cut to the length of a segment. It may be longer.": farthest(L, min(M, T), T, i),
            "where T divides mem_len, a segment is added in each layer. The memory begins at a segment's beginning.": i
            + M
            + (L - 1) * (M // T + 1) * T,
            "this is the number of tokens in sight. It is one more than the distance to the farthest.": right + 1,
            "the place in the segment of a negative place is negative, as with `math.fmod`. It should be 0 to T - 1.": (
                with_fmod(L, M, T, i)
            ),
        }
        cases.append((value, right, guesses))

    def otherwise(place: int, came: float) -> str:
        L, M, T, i = asked[place]
        size = "large" if came > farthest(L, M, T, i) else "small"
        told = f"`reach({L}, {M}, {T}, {i})` gives {came:g}, which is too {size}. "
        return f"{told}It should be the distance from place {i} to the farthest token that it depends on."

    expect.numbers_like(cases, "the reach", otherwise, 1e-9)


REACH = Contract(
    "reach(L, m, i + r, i)",
    sizes={"L": (1, 7, 60), "m": (0, 30, 5000), "i": (0, 8, 1500), "r": (1, 6, 2000)},
    gives="the reach: number",
    right=farthest,
    tolerance=1e-9,
)


@check("10.6", points=2)
def reach(reach, lib):
    """Expect a reach of n_layers * mem_len + i where segments divide the memory, and more elsewhere."""
    sizes = (
        (3, 8, 4),
        (3, 4, 4),
        (2, 8, 4),
        (1, 4, 4),
        (3, 6, 4),
        (3, 2, 4),
        (4, 5, 3),
        (2, 0, 6),
        (3, 3, 1),
        (5, 1, 7),
    )
    reaches(reach, [(n_layers, mem_len, T, i) for n_layers, mem_len, T in sizes for i in reversed(range(T))])
    REACH.hold(reach, lib, "memory")


# 10.7


def hashed(tokens: Sequence[int], rows: int) -> int:
    """The row of `toys.Rememberer`'s table after these tokens."""
    number = 0
    for token in tokens:
        number = (3 * number + token + 1) % rows
    return number


def nats(table: torch.Tensor, tokens: Sequence[int], begins: Callable[[int], int]) -> list[float]:
    """The loss of each token from the second on, where target t is predicted from tokens[begins(t):t]."""
    log_p = table.log_softmax(-1)
    rows = [hashed(tokens[max(0, begins(t)) : t], len(table)) for t in range(1, len(tokens))]
    return [-float(log_p[row, token]) for row, token in zip(rows, tokens[1:], strict=True)]


def mean_of(values: Sequence[float]) -> float:
    """The mean."""
    return sum(values) / len(values)


def two_numbers(value: Any, name: str) -> tuple[Any, Any]:
    """The loss and the count that a function gives."""
    first, second = expect.items(
        value, 2, f"`{name}` should return two numbers, the mean loss and the number of positions"
    )
    return first, second


def slid(
    evaluate: Remote, model: Remote, table: torch.Tensor, tokens: torch.Tensor, context: int, training: bool
) -> tuple[expect.Case, expect.Case]:
    """The loss where each target is predicted from a window of its own, and the count of positions, as cases."""
    text, n = tokens.tolist(), len(tokens)
    loss, count = two_numbers(evaluate(model, tokens, context), "evaluate_sliding")
    right = nats(table, text, lambda t: t - context)
    wanted = mean_of(right[context - 1 :])
    every = [
        value for start in range(n - context) for value in nats(table, text[start : start + context + 1], lambda t: 0)
    ]
    told = "`evaluate_sliding`: "
    return (
        (
            loss,
            wanted,
            {
                told
                + (
                    "all predictions of each window are averaged. Take only the last one, which has the whole context."
                ): mean_of(every),
                told + "tokens with less context count too. The targets should be tokens[context:].": mean_of(right),
                told + "the window is one token too long.": mean_of(
                    nats(table, text, lambda t: t - context - 1)[context - 1 :]
                ),
                told + "the window is one token too short.": mean_of(
                    nats(table, text, lambda t: t - context + 1)[context - 1 :]
                ),
                told + "the last target is left out.": mean_of(right[context - 1 : -1])
                if n > context + 1
                else math.inf,
                told + "the first target is left out.": mean_of(right[context:]) if n > context + 1 else math.inf,
                told + "the losses are added up. Take the mean.": sum(right[context - 1 :]),
                told + "the loss is in bits. It should be in nats.": wanted / math.log(2),
                **in_other_moods(
                    told,
                    table,
                    lambda other: mean_of(nats(other, text, lambda t: t - context)[context - 1 :]),
                    training,
                ),
            },
        ),
        (
            count,
            context * (n - context),
            {
                told + "the targets are counted. Each of them costs a whole window of positions.": n - context,
                told + "one window too many is counted: the last one has no target.": context * (n - context + 1),
            },
        ),
    )


def in_other_moods(
    told: str, table: torch.Tensor, mean: Callable[[torch.Tensor], float], training: bool
) -> dict[str, float]:
    """What the loss is if the model, in this mode, is asked in training mode, or while gradients are recorded."""
    sentences = {
        1: "the model is called in training mode. Use evaluation mode.",
        2: "gradients are recorded: use torch.no_grad().",
        3: "the model is called in training mode, and gradients are recorded.",
    }
    return {
        told + sentence: mean(table.roll(mood, -1)) if training or mood == 2 else math.inf
        for mood, sentence in sentences.items()
    }


def read_once(table: torch.Tensor, tokens: Sequence[int], T: int, mem_len: int, again: bool = False) -> list[float]:
    """The loss of each token from the second on, in segments of T with a memory, as `toys.Rememberer` has it.

    again: a mistake: the tokens that should be remembered are read again.
    """
    log_p, rows, losses = table.log_softmax(-1), len(table), []
    memory: list[tuple[int, int]] = []
    for start in range(0, len(tokens) - 1, T):
        number, new = 0, []
        for token, row in memory:
            number = (3 * number + token + (0 if again else row) + 1) % rows
        for place in range(start, min(start + T, len(tokens) - 1)):
            number = (3 * number + tokens[place] + 1) % rows
            new.append((tokens[place], number))
            losses.append(-float(log_p[number, tokens[place + 1]]))
        memory = [*memory, *new]
        memory = memory[max(0, len(memory) - mem_len) :]
    return losses


def went_through(
    evaluate: Remote,
    model: Remote,
    table: torch.Tensor,
    tokens: torch.Tensor,
    T: int,
    mem_len: int,
    first: int,
    training: bool,
) -> tuple[expect.Case, expect.Case]:
    """The loss where the text is read once, in segments, with a memory, and the count of positions, as cases."""
    text, n = tokens.tolist(), len(tokens)
    loss, count = two_numbers(evaluate(model, tokens, T, mem_len, first), "evaluate_cached")
    right = read_once(table, text, T, mem_len)
    wanted, whole = mean_of(right[first - 1 :]), (n - 1) // T * T
    told = "`evaluate_cached`: "

    def mistaken(length: int, again: bool = False) -> float:
        return mean_of(read_once(table, text, T, length, again)[first - 1 :])

    return (
        (
            loss,
            wanted,
            {
                told
                + "nothing is remembered from one segment to the next. Pass the memories on, and `mem_len` in each "
                "call.": mistaken(0),
                told + "everything is remembered: mem_len is ignored.": mistaken(n),
                told + "the last tokens are read again. Pass the model the memories that it returned.": mistaken(
                    mem_len, True
                ),
                told + "the memory has the length of a segment. It should have the length `mem_len`.": mistaken(T),
                told + "targets before tokens[first] count too. They should be read, but not count.": mean_of(right),
                told + "the first of the targets is left out: tokens[first] should count.": (
                    mean_of(right[first:]) if first < n - 1 else math.inf
                ),
                told + "one target too many counts: the first one is tokens[first].": mean_of(
                    right[max(0, first - 2) :]
                ),
                told + "the last, shorter segment is left out.": (
                    mean_of(right[first - 1 : whole]) if whole >= first else math.inf
                ),
                told + "the losses are added up. Take the mean.": sum(right[first - 1 :]),
                told
                + (
                    "the means of the segments are averaged. Every target should count equally, also in "
                    "a shorter segment."
                ): mean_of([mean_of(right[max(k, first - 1) : k + T]) for k in range(0, n - 1, T) if k + T >= first]),
                told + "the loss is in bits. It should be in nats.": wanted / math.log(2),
                **in_other_moods(
                    told, table, lambda other: mean_of(read_once(other, text, T, mem_len)[first - 1 :]), training
                ),
            },
        ),
        (
            count,
            n - 1,
            {
                told + ("only the targets from tokens[first] on are counted. All tokens but the last are read."): n
                - first,
                told + "the last token is counted. It is only a target: the model need not read it.": n,
                told + "remembered positions are counted again. The model does not compute them again.": sum(
                    min(T, n - 1 - k) + min(mem_len, k) for k in range(0, n - 1, T)
                ),
            },
        ),
    )


def evaluated(
    sliding: Remote | None, cached: Remote | None, lib: Library, sizes: Sequence[tuple[int, ...]], V: int, seed: int
) -> None:
    """Fail unless both, or the one that is given, are right for texts: length, context, T, mem_len and first."""
    table = 2 * normal(7, V, seed=seed)
    model = lib(toys).Rememberer(table)
    for some in (sizes[:3], sizes[3:]):  # the first ones say best which mistake it is
        judged(sliding, cached, lib, some, (model, table), V, seed)


def judged(
    sliding: Remote | None,
    cached: Remote | None,
    lib: Library,
    sizes: Sequence[tuple[int, ...]],
    pair: tuple[Remote, torch.Tensor],
    V: int,
    seed: int,
) -> None:
    """Fail unless both are right for all these sizes; pair: the model, and its table."""
    cases: list[list[expect.Case]] = [[], [], [], []]  # loss and count of one function, and of the other
    model, table = pair
    for place, (n, context, T, mem_len, first) in enumerate(sizes):
        tokens = torch.randint(V, (n,), generator=expect.generator(seed + place + n))
        training = place % 2 == 0
        model.train(training)
        facts = FACTS | {"the modes of the module and its parts": [training] * 2}
        if sliding is not None:
            for some, case in zip(cases[:2], slid(sliding, model, table, tokens, context, training), strict=True):
                some.append(case)
            expect.unchanged(lib(probes).facts(model), facts, "after `evaluate_sliding` evaluated the model,")
        if cached is not None:
            read = went_through(cached, model, table, tokens, T, mem_len, first, training)
            for some, case in zip(cases[2:], read, strict=True):
                some.append(case)
            expect.unchanged(lib(probes).facts(model), facts, "after `evaluate_cached` evaluated the model,")

    def otherwise(what: str, which: int, place: int, came: float) -> str:
        n, context, T, mem_len, first = sizes[place]
        call = ("evaluate_cached", "evaluate_sliding")[which < 2]
        given = f"context = {context}" if which < 2 else f"T = {T}, mem_len = {mem_len}, first = {first}"
        size = "large" if came > cases[which][place][1] else "small"
        told = f"`{call}`: with `len(tokens) = {n}, {given}`, the {what} is {came:.6g}, which is too {size}. "
        means = f"mean over `tokens[{context if which < 2 else first}:]`"
        return told + (
            f"It should be the {means}." if what == "loss" else "Each position that the model computes counts."
        )

    for which, (what, tolerance) in enumerate((("loss", 1e-4), ("number of positions", 1e-9)) * 2):
        if cases[which]:
            name = ("evaluate_cached", "evaluate_sliding")[which < 2]
            expect.numbers_like(cases[which], f"the {what} of `{name}`", partial(otherwise, what, which), tolerance)


# What is the same of a `toys.Rememberer` after it was used.
FACTS = {
    "requires_grad of the parameters of the module": [True],
    "the gradients of the module": [None],
    "the hooks of the module": [0, 0],
}


@check("10.7", points=2)
def evaluation(evaluate_sliding, evaluate_cached, lib):
    """Check losses of the same targets twice: from windows of their own, and from a text that is read once."""
    sizes = [
        (23, 5, 4, 6, 5),
        (20, 4, 7, 3, 8),
        (18, 1, 4, 2, 1),
        (9, 8, 3, 0, 8),
        (2, 1, 5, 3, 1),
        (150, 12, 5, 9, 12),
    ]
    with world_kept(lib, "afterwards"):
        evaluated(evaluate_sliding, evaluate_cached, lib, sizes, 5, 107)
    model, tokens = lib(toys).Rememberer(normal(7, 5, seed=1)), torch.tensor([0, 3, 1, 4, 2, 2, 0, 1])
    for call, sizes in ((evaluate_sliding, [3]), (evaluate_cached, [3, 2, 3])):
        expect.one_device(lib, lib(toys).AsNumbers(call), model, tokens, *sizes)


# 10.8


def masks_of(order: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Content and query mask, by the places of the tokens in the order."""
    where = [0] * len(order)
    for place, token in enumerate(order):
        where[token] = place
    content = torch.tensor([[earlier <= place for earlier in where] for place in where])
    return content, content & ~torch.eye(len(order), dtype=torch.bool)


MASKS = Contract(
    "permutation_masks(order)",
    sizes={"T": (1, 9, 260)},
    order=lambda toys, seed, T: expect.draw(seed).sample(range(T), T),
    gives="the content mask: bool (T, T); the query mask: bool (T, T)",
    right=masks_of,
)


def masked(permutation_masks: Remote, order: list[int]) -> None:
    """Fail unless both masks of an order are right."""
    T = len(order)
    value = expect.items(permutation_masks(order), 2, "there should be two masks, content and query")
    inverse = [order.index(token) for token in range(T)]
    content, query = masks_of(order)
    either, other = masks_of(inverse)
    own = torch.eye(T, dtype=torch.bool)
    both = zip(value, (query, content), strict=True)
    turned = all(type(one) is torch.Tensor and torch.equal(one, other) for one, other in both)
    assert T == 1 or not turned, "the two masks are exchanged. Return the content mask first."
    for mask, wanted, name in ((value[0], content, "the content mask"), (value[1], query, "the query mask")):
        found = expect.tensor(mask, (T, T), name)
        assert found.dtype is torch.bool, f"{name} is {found.dtype}. It should be torch.bool."
        first = wanted is content
        guesses = {
            "True and False are swapped. True means: may look.": ~wanted,
            "`order` is used as if it held ranks. The k-th token to be predicted is `order[k]`.": either
            if first
            else other,
            (
                "a token sees those that come later in the order. It should see the earlier ones: rows look, columns "
                "are looked at."
            ): wanted.T,
            "this is the mask from left to right, as if the order were not used.": (
                in_sight(T, T) if first else in_sight(T, T) & ~own
            ),
            "the rows are in the order of prediction. They should be in the order of the text.": wanted[order],
        }
        if first:
            guesses["a token does not see its own content. In this mask it should."] = query
        else:
            guesses[("a position that asks for a token sees it. The diagonal of the query mask should be False.")] = (
                content
            )
        named = {f"{name}: {sentence}": guess.float() for sentence, guess in guesses.items()}
        told = f"{name} is not that of the order {order}."
        expect.like(found.float(), wanted.float(), told, named)


@check("10.8", points=1)
def permutation_masks(permutation_masks):
    """Check that tokens earlier in the order are visible, and that content also sees itself."""
    for order in ([2, 1, 3, 0], [2, 0, 3, 4, 1], [0, 1, 2], [0], [1, 2, 0]):
        masked(permutation_masks, order)


# 10.9


def stream_shapes(d: int, d_ff: int) -> dict[str, tuple[int, ...]]:
    """The parts of a `TwoStreamLayer`."""
    shapes: dict[str, tuple[int, ...]] = {f"{name}_proj.weight": (d, d) for name in ("q", "k", "v", "out")}
    shapes |= {f"{name}.{part}": (d,) for name in ("norm1", "norm2") for part in ("weight", "bias")}
    shapes |= {"linear1.weight": (d_ff, d), "linear1.bias": (d_ff,)}
    return shapes | {"linear2.weight": (d, d_ff), "linear2.bias": (d,)}


def stream(
    state: State,
    asking: torch.Tensor,
    h: torch.Tensor,
    mask: torch.Tensor,
    heads: int,
    *,
    empty: Callable[[torch.Tensor], torch.Tensor] = torch.zeros_like,
    keys: torch.Tensor | None = None,
    scale: float | None = None,
    pre_norm: bool = False,
    last: bool = True,
    added: torch.Tensor | None = None,
    act: Callable[[torch.Tensor], torch.Tensor] = torch.relu,
    cut: Callable[[torch.Tensor, int], torch.Tensor] = cut,
    adds: bool = True,
    weigh: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None = None,
    join: Callable[[torch.Tensor], torch.Tensor] | None = None,
    after: bool = True,
) -> torch.Tensor:
    """One stream of the layer, or with a mistake in it.

    empty: from all values (B, heads, T, d_head) to what a query gets that may look at nothing. weigh: from the scores
    and the mask to the weights. join: from (B, heads, T, d_head) to (B, T, d). after: whether `norm1` follows the sum.
    """
    read_from, d = h if keys is None else keys, h.size(-1)

    def norm(name: str, x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (d,), state[f"{name}.weight"], state[f"{name}.bias"])

    given = norm("norm1", asking) if pre_norm else asking
    read_from = norm("norm1", read_from) if pre_norm else read_from
    q, k, v = (
        cut(y @ state[f"{name}_proj.weight"].mT, heads)
        for y, name in ((given, "q"), (read_from, "k"), (read_from, "v"))
    )
    scores = q @ k.mT * ((d // heads) ** -0.5 if scale is None else scale)
    looks = mask.any(-1, keepdim=True)  # the others get a softmax over everything, whose result is not used
    weights = scores.masked_fill(looks & ~mask, -torch.inf).softmax(-1) if weigh is None else weigh(scores, mask)
    heads_out = torch.where(looks, weights @ v, empty(v))
    together = joined(heads_out, cut) if join is None else join(heads_out)
    sum1 = (asking if added is None else added) + (together @ state["out_proj.weight"].mT if last else together)
    x = norm("norm1", sum1) if after and not pre_norm else sum1
    hidden = F.linear(norm("norm2", x) if pre_norm else x, state["linear1.weight"], state["linear1.bias"])
    sum2 = adds * x + F.linear(act(hidden), state["linear2.weight"], state["linear2.bias"])
    return sum2 if pre_norm else norm("norm2", sum2)


def with_nan(name: str, rows: torch.Tensor, mask: torch.Tensor) -> str:
    """A sentence about a stream with NaN in these rows."""
    if not rows[mask.any(-1)].any():
        return f"{name} holds NaN where a token may look at nothing. Use zeros as the weighted sum of such a token."
    told = f"{name} holds NaN in rows {rows.nonzero().flatten().tolist()}"
    if torch.equal(rows, mask.all(-1)):
        return f"{told}, which may look at all tokens. True means: may look."
    return f"{told}, and not only where a token may look at nothing."


def wrong_rows(name: str, found: torch.Tensor, right: torch.Tensor, mask: torch.Tensor) -> str:
    """Which rows of a stream are wrong, in a sentence: by how much of the text they may look at."""
    wrong = ((found - right).abs() > 1e-4).any(-1).any(0)
    looks = mask.any(-1)
    T = len(mask)
    if not wrong[looks].any():
        return f"for {T} tokens, {name} is wrong where a token may look at nothing, and right elsewhere."
    if looks.all():
        rows = f"rows {wrong.nonzero().flatten().tolist()}" if not wrong.all() else f"all {T} rows"
        return f"for {T} tokens, {name} is wrong in {rows}. {expect.difference(found, right, 1e-4, 1e-4)}"
    if wrong[~looks].any():
        return f"for {T} tokens, {name} is wrong both where a token may look at others and where it may not."
    return f"for {T} tokens, {name} is wrong where a token may look at others, and right where it may look at nothing."


STREAMS = Contract(
    "TwoStreamLayer(H * w, H, f)(h, g, content, query)",
    sizes={"H": (1, 4), "w": (1, 4), "f": (1, 9), "B": (1, 3), "T": (1, 6, 130)},
    h="floats (B, T, H * w)",
    g="floats (B, T, H * w)",
    content="bools (T, T)",
    query="bools (T, T)",
    gives="h': as h (B, T, H * w); g': as h (B, T, H * w)",
    weights=lambda d, heads, d_ff: stream_shapes(d, d_ff),
    right=lambda state, d, heads, d_ff, h, g, content, query: (
        stream(state, h, h, content, heads),
        stream(state, g, h, query, heads),
    ),
    learns="h g",
    low=False,
)


def streamed(
    layer: Remote,
    state: State,
    h: torch.Tensor,
    g: torch.Tensor,
    masks: tuple[torch.Tensor, torch.Tensor],
    heads: int,
) -> list[torch.Tensor]:
    """Both outputs; fail unless they are those of the one layer with its two masks."""
    B, T, d = h.shape
    value = expect.items(layer(h, g, *masks), 2, "the layer should give two tensors, h' and g'")
    found: list[torch.Tensor] = []
    cases = ("`h'`", h, masks[0], masks[1]), ("`g'`", g, masks[1], masks[0])
    for given, (name, asking, mask, other) in zip(value, cases, strict=True):
        if type(given) is torch.Tensor and given.shape == asking.shape and given.isnan().any():
            raise AssertionError(with_nan(name, given.isnan().any(-1).any(0), mask))
        out = expect.floats(given, (B, T, d), name)
        but: Callable[..., Any] = partial(partial, stream, state, asking, h, mask, heads)
        swapped = state | {"norm1.weight": state["norm2.weight"], "norm1.bias": state["norm2.bias"]}
        swapped |= {"norm2.weight": state["norm1.weight"], "norm2.bias": state["norm1.bias"]}
        once = state | {name: swapped[name] for name in ("norm2.weight", "norm2.bias")}
        new = stream(state, h, h, other, heads)  # h' for g'
        uniform = but(empty=lambda v: v.mean(2, keepdim=True).expand_as(v))
        guesses: dict[str, Callable[[], torch.Tensor]] = {
            "a token that may look at nothing gets the mean of all values. It should get zeros.": uniform,
            "a token that may look at nothing sees everything. Its weighted sum should be zeros.": partial(
                stream, state, asking, h, mask | ~mask.any(-1, keepdim=True), heads
            ),
            "the residual connection around the feed-forward part is missing.": but(adds=False),
            (
                f"this is what the {'query' if asking is h else 'content'} mask gives. The content mask belongs to h', "
                "and the query mask to g'."
            ): partial(stream, state, asking, h, other, heads),
            "True is treated as hidden. It means: may look.": partial(stream, state, asking, h, ~mask, heads),
            "the mask is ignored: every token looks at all others.": partial(
                stream, state, asking, h, torch.ones_like(mask), heads
            ),
            "rows and columns of the mask are exchanged. Rows look, and columns are looked at.": partial(
                stream, state, asking, h, mask.T, heads
            ),
            "keys and values come from g. Both streams should read h.": but(keys=g),
            "the queries come from h. In the query stream they should come from g.": partial(
                stream, state, h, h, mask, heads
            ),
            "the residual is h. In the query stream it should be g.": but(added=h),
            "the scores are not divided by the root of d_head.": but(scale=1.0),
            "the scores are divided by the root of d_model. A head is only d_head wide.": but(scale=d**-0.5),
            "the norms come before each part. They should come after the sums.": but(pre_norm=True),
            "`norm1` is applied to the output of attention alone. Apply it to the sum with the residual.": but(
                join=lambda heads_out: F.layer_norm(
                    joined(heads_out, cut), (d,), state["norm1.weight"], state["norm1.bias"]
                ),
                after=False,
            ),
            "the two norms are exchanged.": partial(stream, swapped, asking, h, mask, heads),
            "`out_proj` is never used.": but(last=False),
            "the residual connection around attention is missing.": but(added=torch.zeros_like(asking)),
            "`norm1` is used twice. Use `norm2` for the second sum.": partial(stream, once, asking, h, mask, heads),
            "keys and values come from h'. Both streams should read h.": partial(
                stream, state, asking, new, mask, heads
            ),
            (
                "the heads are joined in the wrong order. Move their axis behind that of the tokens "
                "before you join them."
            ): but(join=lambda heads_out: heads_out.reshape(B, T, d)),
            "the mask is applied after the softmax, so the weights do not sum to 1.": but(
                weigh=lambda scores, mask: scores.softmax(-1) * mask
            ),
            "the softmax runs over the tokens that ask. It should run over those that are read.": but(
                weigh=lambda scores, mask: scores.masked_fill(~mask, -torch.inf).softmax(-2).nan_to_num()
            ),
            "the feed-forward part uses GELU. It should use ReLU.": but(act=F.gelu),
            "the feed-forward part has no ReLU between its two maps.": but(act=lambda x: x),
            "the heads are interleaved. Head h should have the h-th block of columns.": but(cut=interleaved),
            "all heads attend as one: `n_heads` is not used.": partial(stream, state, asking, h, mask, 1),
        }
        right = but()()
        if not expect.near(out, right, 1e-4, 1e-4):
            again = expect.items(layer(h, g, *masks), 2, "the layer should give two tensors, h' and g'")[len(found)]
            told = f"{name} differs between two calls with the same input. Draw nothing, and keep nothing for later."
            assert expect.same(given, again), told
        named = {f"{name}: {sentence}": guess for sentence, guess in guesses.items()}
        expect.like(out, right, partial(wrong_rows, name, out, right, mask), named)
        found.append(out)
    return found


@check("10.9", points=3, forbids=("TransformerEncoderLayer", "TransformerDecoderLayer", *LIBRARY))
def two_streams(TwoStreamLayer, lib):
    """Check one layer for two streams: no query sees its own token, and the first of an order sees nothing."""
    d, heads, d_ff = 12, 3, 7
    layer = TwoStreamLayer(d, heads, d_ff)
    state = expect.weights(layer, stream_shapes(d, d_ff), "`TwoStreamLayer(12, 3, 7)`", 109)
    for order in ([2, 1, 3, 0, 4], [2, 0, 3, 1], [0]):
        T = len(order)
        h, g = normal(2, T, d, seed=T), normal(2, T, d, seed=10 + T)
        streamed(layer, state, h, g, masks_of(order), heads)
        blind = torch.zeros(T, T, dtype=torch.bool)
        streamed(layer, state, h, g, (blind, blind), heads)  # nobody may look at anything
    order = [2, 1, 3, 0]
    h, g, masks = normal(2, 4, d, seed=1), normal(2, 4, d, seed=2), masks_of(order)
    before = streamed(layer, state, h, g, masks, heads)
    for t in (0, 2):
        edited = h.clone()
        edited[:, t] += 1
        after = streamed(layer, state, edited, g, masks, heads)[1]
        told = "editing a token changes its own query output: the query stream sees the token that it should predict."
        assert expect.near(after[:, t], before[1][:, t], atol=1e-5), told
    both = expect.items(layer(30 * h, 30 * g, *masks), 2, "the layer should give two tensors")
    for large, name, asking, mask in zip(both, ("h'", "g'"), (h, g), masks, strict=True):
        wanted = stream(state, 30 * asking, 30 * h, mask, heads)
        told = f"if scores are large, {name} is wrong. Do not limit scores, and give hidden tokens the weight 0, "
        told += "however large their scores are."
        expect.close(expect.floats(large, (2, 4, d), f"if scores are large, {name}"), wanted, told, 1e-3)
    for which, name in enumerate(("h'", "g'")):
        found, parts = expect.items(lib(probes).slopes(layer, [h, g, *masks], {}, which), 2, "")
        where = "" if masks[which].any(-1).all() else "if a token may look at nothing, "
        told = f"{where}a gradient from {name} is NaN, although {name} is right."
        assert not any(one.isnan().any() for one in [*found[:2], *parts.values()]), told
    STREAMS.hold(TwoStreamLayer, lib, "gradients", "device")


# 10.10


def place_of_step(known_from: Remote, curves: list[list[float]], guess: float) -> None:
    """Fail unless the place is that from which on the mean stays below half of the guess."""
    found, half = known_from(curves, guess), guess / 2
    count = len(curves[0])
    mean = [math.fsum(some) / len(some) for some in zip(*curves, strict=True)]

    def first(line: Sequence[float], level: float = half, stays: bool = True) -> int | None:
        places = [
            place for place in range(count) if all(one < level for one in (line[place:] if stays else [line[place]]))
        ]
        return places[0] if places else None

    single = [first(curve) for curve in curves]
    wanted = first(mean)
    assert found is None or type(found) is int, f"`known_from` should give a place or None, not {kind(found)}."
    if wanted is None:
        told = "the mean loss at the end is not below half of the guess. `known_from` should give None, not a place."
        assert found is None, told
        return
    assert found is not None, (
        f"from place {wanted} on, the mean loss stays below half of the guess, but `known_from` gives None."
    )
    expect.explained(
        found,
        wanted,
        (f"with `guess = {guess:g}`, this is not the first place from which the mean loss stays below half of it."),
        {
            "the mean loss is below half of the guess there, but does not stay below it.": first(mean, stays=False),
            "the mean loss is below the guess there, but not below half of it.": first(mean, guess),
            "half of the guess is rounded to a whole number. Half of 3 is 1.5.": first(mean, guess // 2)
            if guess % 2
            else None,
            "the place is one too early.": wanted - 1,
            "the place is one too late.": wanted + 1,
            "this is the number of places that are known. Return the first of them.": count - wanted,
            "the first seed alone decides. The mean over seeds should be below half of the guess.": single[0],
            "the last seed alone decides. The mean over seeds should be below half of the guess.": single[-1],
            "the fastest seed decides. The mean over seeds should be below half of the guess.": min(
                (one for one in single if one is not None), default=-1
            ),
            "the slowest seed decides, or that in the middle. The mean should be below half of the guess.": max(
                (count if one is None else one for one in single), default=-1
            ),
        },
    )


def falling(step: int, count: int, seeds: int, guess: float, seed: int) -> list[list[float]]:
    """Losses that fall at a place, a little later with some seeds, and are low before it once by luck."""
    noise = expect.generator(seed)
    curves = []
    for one in range(seeds):
        line = guess * (0.75 + 0.2 * torch.rand(count, generator=noise))
        line[step + one % 2 :] = guess * 0.3 * torch.rand(max(0, count - step - one % 2), generator=noise)
        line[: max(0, step - 3) : 7] = guess * 0.1
        curves.append(line.tolist())
    return curves


@results_check("10.10", points=4, source=reading, notebook=reading.NOTEBOOK, reading=2)
def known_from(known_from):
    """The runs by their files; the place of a step that some seeds make later, lucky places before it, and no step."""
    # Where the mean falls below half of 4, it is at once far below it: so another level is not taken for another seed.
    soon = [4.5, 1.0, 4.5, 3.0, 1.0, 1.0, *[0.1] * 9]
    late = [4.5, 1.0, 4.5, 4.0, 3.8, 3.5, 2.05, 2.05, *[1.0] * 7]
    place_of_step(known_from, [soon, late], 4.0)
    place_of_step(known_from, [late[1:], soon[1:]], 4.0)
    place_of_step(known_from, [[4.8, 2.2, 2.2, 1.8, 0.5, 0.5]], 5.0)
    for step, count, seeds in ((5, 9, 1), (15, 32, 5), (0, 6, 2), (3, 4, 3), (8, 8, 2), (11, 30, 4)):
        place_of_step(known_from, falling(step, count, seeds, 3.0, 1000 + step), 3.0)
    place_of_step(known_from, [[4.0, 1.0, 4.0, 1.0, 1.0], [4.0, 1.0, 1.0, 2.9, 1.0]], 4.0)
    place_of_step(known_from, [[4.0, 3.0, 1.0, 2.0]], 4.0)
    place_of_step(known_from, [[1.0], [1.5]], 4.0)


# 10.S1


def enough(losses: Mapping[int, float], threshold: float, *, neighbours: bool = False, share: bool = True) -> int:
    """The shortest length for which no longer one, or not the next one, is better by more than the threshold."""
    lengths = sorted(losses)
    for place, length in enumerate(lengths):
        rivals = lengths[place + 1 : place + 2] if neighbours else lengths[place + 1 :]
        least = threshold * (losses[length] if share else 1)
        if all(losses[length] - losses[longer] <= least for longer in rivals):
            return length
    raise AssertionError("of the longest, nothing is better")


@stretch("10.S1")
def effective_length(effective_length):
    """The shortest length that no longer one beats by more than the threshold: plateaus, rises, many small steps."""
    courses = (
        ({0: 4.0, 8: 3.0, 16: 2.5, 32: 2.49, 64: 2.485}, 0.01),
        ({0: 4.0, 8: 3.0, 16: 2.995, 32: 2.4, 64: 2.41}, 0.01),
        ({0: 3.0, 1: 2.98, 2: 2.96, 4: 2.94, 8: 2.92, 16: 2.9}, 0.01),
        ({64: 2.195, 8: 2.3, 128: 2.5, 0: 3.1, 32: 2.2}, 0.02),
        ({5: 1.0}, 0.01),
        ({0: 0.5, 4: 0.496, 9: 0.2, 11: 0.199}, 0.015),
        ({0: 2.0, 7: 2.2, 9: 2.4}, 0.01),
    )
    for losses, threshold in courses:
        lengths = sorted(losses)
        best = min(losses.values())
        expect.number_like(
            effective_length(losses, threshold),
            enough(losses, threshold),
            "the effective length",
            ("this is not the shortest length for which no longer one is better by more than the threshold."),
            {
                "each length is compared only with the next one. After a plateau, the loss may fall again.": enough(
                    losses, threshold, neighbours=True
                ),
                "the threshold is used as a number of nats. It is a share of the loss.": enough(
                    losses, threshold, share=False
                ),
                "this is the length of the lowest loss. A little worse is good enough.": next(
                    length for length in lengths if losses[length] == best
                ),
                "this is the longest length. A shorter one is good enough.": lengths[-1],
                "this is a loss. Return the length.": losses[enough(losses, threshold)],
            },
            tolerance=1e-9,
        )
    told = "without a threshold, `effective_length` should use 0.01."
    found = expect.answers(effective_length, courses[0][0], says=told)
    assert expect.number(found, "the effective length") == enough(*courses[0]), told
