"""Checks of notebook 14: RMSNorm, rotary halves, grouped queries with a cache, a block, a model, weights, tokens."""

import codecs
import contextlib
import itertools
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from utils.checks import nb14_toys as toys
from utils.grading import expect, probes
from utils.grading.check import check, stretch
from utils.grading.contract import Contract, has_form, sets_no_seed, world_kept
from utils.grading.expect import normal
from utils.grading.forbidden import MODELS
from utils.grading.parts import part
from utils.grading.remote import NAN, Library, Remote, StudentError, kind, promised, read
from utils.subwords import PIECES, ByteLevel

State = Mapping[str, torch.Tensor]
Past = list[torch.Tensor]

# 14.1


def normed(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """RMSNorm in double precision, as float32."""
    mean = x.double().square().sum(-1, keepdim=True) / x.size(-1)
    return (weight.double() * x.double() / (mean + eps).sqrt()).float()


def norm_with_weight(RMSNorm: Remote, d: int, eps: float, seed: int) -> tuple[Remote, torch.Tensor]:
    """A norm of the student's with random weights, which are returned."""
    module = RMSNorm(d, eps)
    fresh = expect.state(module, "`RMSNorm`")
    assert "bias" not in fresh, "the norm has a bias. It should only have a weight."
    weight = expect.weights(module, {"weight": (d,)}, "`RMSNorm`", seed=seed)["weight"]
    expect.close(fresh["weight"], torch.ones(d), "the weight of a fresh norm should be ones.")
    return module, weight


RMS_NORM = Contract(
    "RMSNorm(d, eps)(x)",
    sizes={"d": (1, 9, 4200), "_k": (0, 8)},
    eps="= 10.0 ** -_k",
    x="floats (..., d)",
    gives="the result: as x (..., d)",
    weights=lambda d, eps: {"weight": (d,)},
    right=lambda state, d, eps, x: state["weight"] * x / (x.square().mean(-1, keepdim=True) + eps).sqrt(),
    learns="x",
    precise=False,
    empty=True,
)


@check("14.1", points=2, forbids=("rms_norm", *MODELS))
def rms_norm(RMSNorm, lib):
    """Check the fraction in float32 or better, rounded to the dtype of x, times the weight, with eps under the root."""
    eps, x = 0.4, normal(2, 5, 8, seed=1) + 0.5
    module, w = norm_with_weight(RMSNorm, 8, eps, 2)
    square = x.square().mean(-1, keepdim=True)
    spread = x.var(-1, keepdim=True, correction=0)
    expect.like(
        expect.floats(module(x), (2, 5, 8), "the result"),
        normed(x, w, eps),
        "the result should be w x / sqrt(mean(x^2) + eps), with the mean over the last dimension.",
        {
            "the mean of x is subtracted. Leave it in.": F.layer_norm(x, (8,), w, None, eps),
            "the mean is subtracted from x, but not before squaring. It should not be subtracted at all.": (
                w * (x - x.mean(-1, keepdim=True)) / (square + eps).sqrt()
            ),
            "x is divided by its spread around the mean. Use the mean of the squares.": w * x / (spread + eps).sqrt(),
            "eps is added after the root. It should be under the root.": w * x / (square.sqrt() + eps),
            "the eps that was given is not used.": w * x / square.sqrt(),
            "the squares are summed. Take their mean.": w * x / (square * 8 + eps).sqrt(),
            "the root is missing: x is divided by the mean square.": w * x / (square + eps),
            "the weight is not used.": x / (square + eps).sqrt(),
            "the weight is added to one. It should multiply as it is.": (1 + w) * x / (square + eps).sqrt(),
            ("the weight is applied before the mean square. It should multiply the fraction."): normed(
                w * x, torch.ones(8), eps
            ),
            "the mean is taken over all tokens. Each vector should have its own.": w
            * x
            / (x.square().mean() + eps).sqrt(),
            "the mean is taken over the tokens of a text too. Each vector should have its own.": (
                w * x / (x.square().mean((1, 2), keepdim=True) + eps).sqrt()
            ),
            "eps is the least that the mean square can be. Add it to the mean square.": w
            * x
            / square.clamp(min=eps).sqrt(),
            "the mean runs over the tokens. It should run over the last dimension.": (
                w * x / (x.square().mean(1, keepdim=True) + eps).sqrt()
            ),
        },
    )
    for size, eps in ((3e-3, ()), (1e-4, (1e-8,))):
        some = size * normal(6, 3, seed=3)
        found = expect.floats(RMSNorm(3, *eps)(some), (6, 3), "the result")
        mean = some.square().mean(-1, keepdim=True)
        own = ((some / found).square() - mean).median()  # the eps that it has, if it has one
        told = "where x is small, the result is wrong: eps should be the one that is given, or 1e-5 without one."
        otherwise = "where x is small and of shape (6, 3), the result is wrong."
        wanted = normed(some, torch.ones(3), *(eps or (1e-5,)))
        expect.like(found, wanted, otherwise, {told: some / (mean + own).sqrt()}, once=True)
    wide = normal(2, 5000, seed=9)
    wide[:, 4096:] *= 10
    told = "where x has 5,000 columns, with large numbers in the last ones, the result is wrong."
    expect.close(
        expect.floats(RMSNorm(5000)(wide), (2, 5000), "the result"), normed(wide, torch.ones(5000), 1e-5), told
    )
    told = (
        "where one number of x is much larger than all others, the result is wrong. Nothing in the formula is cut off."
    )
    wide = normal(2, 900, seed=10)
    wide[:, 3] = torch.tensor([5e3, -5e3])
    expect.close(expect.floats(RMSNorm(900)(wide), (2, 900), "the result"), normed(wide, torch.ones(900), 1e-5), told)
    rounding(RMSNorm)
    RMS_NORM.hold(RMSNorm, lib, "values", "dtypes", "layout", "gradients", "modes", "device")


def rounding(RMSNorm: Remote) -> None:
    """Fail unless sixteen bits are handled as promised: float32 inside, rounded, then the weight."""
    module, weight = norm_with_weight(RMSNorm, 64, 1e-5, 5)
    module.bfloat16()
    x, w = (2 * normal(40, 64, seed=6)).bfloat16(), weight.bfloat16()
    found = expect.tensor(module(x), (40, 64), "the result in bfloat16")
    assert found.dtype is torch.bfloat16, f"the result is {str(found.dtype)[6:]}, but x and the weight are bfloat16."
    wide = x.float()
    fraction = wide * (wide.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
    narrow = x.square().mean(-1, keepdim=True) + 1e-5

    def agree(guess: torch.Tensor) -> float:
        return (found == guess).float().mean().item()

    if agree(w * fraction.bfloat16()) < 0.98:  # now and then the order of a sum moves a rounding
        told = "the weight multiplies before the rounding to the dtype of x. It should multiply after the rounding."
        assert agree((w.float() * fraction).bfloat16()) < 0.98, told
        told = (
            "a part of the fraction is computed in bfloat16, which is too rough. Compute all of it in float32, "
            "then round it."
        )
        assert agree(w * (x * narrow.rsqrt())) < 0.9 and agree(w * (x / narrow.sqrt())) < 0.9, told
        raise AssertionError(
            "in bfloat16, the result is wrong. It should be the fraction in float32, "
            "rounded to bfloat16, times the weight."
        )
    module.half()
    large = expect.tensor(module((400 * normal(3, 64, seed=7)).half()), (3, 64), "the result in float16")
    assert bool(large.isfinite().all()) and bool(large.any()), (
        "in float16, the squares of large numbers overflow. Compute them in float32."
    )


# 14.2


def turned(
    x: torch.Tensor,
    start: int = 0,
    theta: float = 10_000.0,
    sign: int = 1,
    pairs: bool = False,
    angle: Callable[[int, int, int], float] | None = None,
) -> torch.Tensor:
    """Columns i and i + d/2 of (..., T, d), or columns 2i and 2i + 1 if `pairs`, as one complex number, turned."""
    T, d = x.shape[-2:]
    of = angle or (lambda t, pair, d: t * theta ** (-2 * pair / d))
    angles = torch.tensor([[sign * of(start + t, pair, d) for pair in range(d // 2)] for t in range(T)]).double()
    axis = -1 if pairs else -2
    two = x.double().unflatten(-1, (-1, 2) if pairs else (2, -1)).movedim(axis, -1).contiguous()
    complex_result = torch.view_as_complex(two) * torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(complex_result).movedim(-1, axis).flatten(-2).to(x.dtype)


ROTARY = Contract(
    "rotary(x, start, theta)",
    sizes={"T": (1, 9, 1500), "w": (1, 9, 70), "start": (0, 30, 9000), "_base": (0, 6)},
    x="floats (..., T, 2 * w)",
    theta="= 10.0 ** _base + _base / 2",
    gives="the result: as x (..., T, 2 * w)",
    right=turned,
    learns="x",
    far=1e-3,
    precise=False,
)


@check("14.2", points=2, forbids=MODELS)
def rotary(rotary, lib):
    """Check that halves turn together, by the angles of theta, from `start` on."""
    x, theta = normal(2, 3, 5, 8, seed=11), 600.0
    exponent: dict[str, Callable[[int, int, int], float]] = {
        "the exponent is i/d, half of what it should be. It should be 2i/d for pair i.": lambda t, i, d: (
            t * theta ** (-i / d)
        ),
        "the exponent is twice as large as it should be: i counts pairs.": lambda t, i, d: t * theta ** (-4 * i / d),
        "the positions are multiplied by theta^(2i/d). The pairs should get slower.": lambda t, i, d: (
            t * theta ** (2 * i / d)
        ),
        "all pairs turn at one speed.": lambda t, i, d: t,
        "pair 0 turns slowest. It should turn fastest.": lambda t, i, d: t * theta ** (-2 * (d // 2 - 1 - i) / d),
    }
    expect.like(
        expect.floats(rotary(x, 0, theta), (2, 3, 5, 8), "rotary of (2, 3, 5, 8)"),
        turned(x, theta=theta),
        "columns i and i + d/2 at position t should be turned by the angle t theta^(-2i/d).",
        {
            "x is returned as it came, without any turn.": x,
            (
                "the pairs are columns 2i and 2i + 1, as in notebook 02. Here they should be columns i and i + d/2."
            ): turned(x, theta=theta, pairs=True),
            "the columns come back in another order: the two of each pair are side by side.": lambda: (
                turned(x, theta=theta).unflatten(-1, (2, -1)).mT.flatten(-2)
            ),
            "the columns are reordered before they turn. Leave them: rows of weights are in halves already.": lambda: (
                turned(x.unflatten(-1, (-1, 2)).mT.flatten(-2), theta=theta)
            ),
            "the pairs turn the other way: the sines have the wrong sign.": turned(x, theta=theta, sign=-1),
            "theta is not used.": turned(x),
            "the token at position 0 is turned. Count positions from 0.": turned(x, start=1, theta=theta),
            "the positions run over the wrong dimension. They should run over the last but one.": lambda: turned(
                x.transpose(1, 2), theta=theta
            ).transpose(1, 2),
            "the sines have the same sign in both columns. A rotation needs one of each.": lambda: same_sign(x, theta),
            **{told: turned(x, theta=theta, angle=angle) for told, angle in exponent.items()},
        },
    )
    expect.like(
        expect.floats(rotary(x, start=7), (2, 3, 5, 8), "rotary(x, start=7)"),
        turned(x, 7),
        "with `start` and the usual theta, the first token should be at position `start`.",
        {
            "`start` is ignored: with a cache every new token would be at position 0.": turned(x),
            "`start` is taken off the positions. Add it.": turned(x, -7),
            "without a theta, it should be 10,000, also after a call with another one.": lambda: turned(x, 7, 600.0),
            "the angles are those of an earlier call, with another start and theta.": lambda: turned(x, 0, 600.0),
        },
    )
    one = x[:, :, :1]
    told = "a single token is not turned by its position: with a cache, `start` is the position of the first new token."
    otherwise = "for a single token with `start = 9`, the result is wrong."
    found = expect.floats(rotary(one, 9), (2, 3, 1, 8), "rotary of one token")
    expect.like(found, turned(one, 9), otherwise, {told: one}, once=True)
    for base, last in ((1.0, 600.0), (20.5, 1.0)):
        told = "with a theta of 1, or one that is not a whole number, the angles are wrong."
        found = expect.answers(rotary, x, 2, base, says=told)
        kept = f"`theta = {base}` is ignored: the angles are those of `theta = {last}`, from a call before."
        earlier = {kept: turned(x, 2, last)}
        expect.like(expect.floats(found, (2, 3, 5, 8), "rotary"), turned(x, 2, base), told, earlier, once=True)
    told = "for an x with two columns, the result is wrong. They are one pair."
    expect.close(
        expect.floats(rotary(x[..., :2], 3), (2, 3, 5, 2), "rotary of (2, 3, 5, 2)"), turned(x[..., :2], 3), told
    )
    flat = x[0, 0]
    told = "shape (2, 3, 5, 8) is right and shape (5, 8) is wrong. There may be any number of leading dimensions."
    found = expect.answers(rotary, flat, says=told, kinds=("ValueError", "IndexError"))
    expect.close(expect.floats(found, (5, 8), "rotary of (5, 8)"), turned(flat), told)
    flat = normal(6, 4, seed=12)
    told = "for x of shape (6, 4), the result is wrong."
    expect.close(expect.floats(rotary(flat), (6, 4), "rotary of (6, 4)"), turned(flat), told)
    angles_are_exact(rotary, normal(3, 6, seed=13).half(), 5001)
    ROTARY.hold(rotary, lib, "large", "dtypes", "layout", "gradients", "device")


def angles_are_exact(rotary: Remote, x: torch.Tensor, start: int) -> None:
    """Fail if the result is right for `x` in float32, and for its own sixteen bits too far away."""
    wide, found = (expect.tensor(rotary(one, start), tuple(x.shape), "the result") for one in (x.float(), x))
    told = (
        f"for x in float16, the result is wrong at positions from {start} on. Compute the angles in float32, whatever "
    )
    wanted = turned(x.float(), start)
    if expect.near(wide, wanted, 1e-3, 1e-3):
        expect.close(found.double(), wanted.double(), f"{told}the dtype of x.", 2e-2)


def same_sign(x: torch.Tensor, theta: float) -> torch.Tensor:
    """a cos + b sin and a sin + b cos, which is not a rotation."""
    T, d = x.shape[-2:]
    cosine = turned(torch.cat([torch.ones(T, d // 2), torch.zeros(T, d // 2)], -1), theta=theta)[:, : d // 2]
    sine = turned(torch.cat([torch.ones(T, d // 2), torch.zeros(T, d // 2)], -1), theta=theta)[:, d // 2 :]
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cosine + b * sine, a * sine + b * cosine], dim=-1)


# 14.3


def kv_shapes(d: int, n_heads: int, n_kv_heads: int) -> dict[str, tuple[int, ...]]:
    """The names and shapes of an attention's weights."""
    few = d // n_heads * n_kv_heads
    return {
        "q_proj.weight": (d, d),
        "k_proj.weight": (few, d),
        "v_proj.weight": (few, d),
        "out_proj.weight": (d, d),
    }


def attention_with_weights(
    Attention: Remote, lib: Library, d: int, n_heads: int, n_kv_heads: int, seed: int
) -> tuple[Remote, dict[str, torch.Tensor]]:
    """An attention of the student's with `toys.marked` for its rotation, and its known weights."""
    module = Attention(d, n_heads, n_kv_heads, lib(toys).marked)
    fresh = expect.state(module, "`Attention`")
    bias = next((name for name in fresh if name.endswith("bias")), None)
    assert bias is None, f"there is a bias, `{bias}`. The maps should have none."
    few = d // n_heads * n_kv_heads
    told = f"`k_proj.weight` has {d} rows, not {few}: keys and values have n_kv_heads heads, "
    told += "each d_model / n_heads wide."
    assert "k_proj.weight" not in fresh or fresh["k_proj.weight"].shape != (d, d) or few == d, told
    return module, expect.weights(module, kv_shapes(d, n_heads, n_kv_heads), "`Attention`", seed=seed)


def attended(
    state: State,
    x: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    past: Sequence[torch.Tensor] | None = None,
    *,
    start: int | None = None,
    asks: int | None = None,
    reads: Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor] = lambda i, j, S: j <= S + i,
    group: Callable[[int, int, int], int] = lambda h, n, m: h * m // n,
    scale: float | None = None,
    turn: str = "qk",
    again: bool = False,
) -> tuple[torch.Tensor, Past]:
    """The attention, head by head, and keys and values of all tokens; with mistakes on request.

    `start` is the first new position, S if None, and `asks` that of queries; `reads(i, j, S)` says whether new query i
    reads key j; `group` which head of keys a head of queries reads; `turn` what is turned; `again` whether the keys of
    the past are, once more.
    """
    heads = {one: F.linear(x, state[f"{one}_proj.weight"]) for one in "qkv"}
    counts, d_head = {"q": n_heads, "k": n_kv_heads, "v": n_kv_heads}, x.size(-1) // n_heads
    parts = {one: torch.stack(value.split(d_head, dim=-1), dim=1) for one, value in heads.items()}
    S = 0 if past is None else past[0].size(2)
    first = S if start is None else start
    places = {"q": first if asks is None else asks, "k": first, "v": first}
    parts = {one: toys.marked(value, places[one]) if one in turn else value for one, value in parts.items()}
    assert all(parts[one].size(1) == count for one, count in counts.items())
    k, v = parts["k"], parts["v"]
    if past is not None:
        k, v = torch.cat([toys.marked(past[0], 0) if again else past[0], k], 2), torch.cat([past[1], v], 2)
    hidden = ~reads(torch.arange(x.size(1))[:, None], torch.arange(k.size(2)), S)
    outputs = []
    for h in range(n_heads):
        g = group(h, n_heads, n_kv_heads)
        scores = parts["q"][:, h] @ k[:, g].mT * (d_head**-0.5 if scale is None else scale)
        outputs.append(scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v[:, g])
    return F.linear(torch.cat(outputs, dim=-1), state["out_proj.weight"]), [k, v]


def output_and_pair(result: Any, shape: tuple[int, int, int], n_kv: int, length: int, n_heads: int) -> Any:
    """The output and the pair of keys and values, of the right shapes."""
    expect.items(result, 2, "`forward` should return the output and a pair (keys, values)")
    T = shape[1]
    output = expect.floats(result[0], shape, f"the output of {T} new tokens after {length - T} past ones")
    pair = expect.items(result[1], 2, "the second result should be a pair (keys, values)")
    d_head = shape[2] // n_heads
    for one, what in zip(pair, ("the keys", "the values"), strict=True):
        if type(one) is torch.Tensor:
            told = f"{what} are kept for every query head. Keep those of the n_kv_heads, and repeat them only to read."
            assert one.shape != (shape[0], n_heads, length, d_head) or n_heads == n_kv, told
            told = (
                f"{what} that are returned are those of the new tokens alone. Those of "
                "the past should come before them."
            )
            assert one.shape != (shape[0], n_kv, shape[1], d_head) or length == shape[1], told
        expect.floats(one, (shape[0], n_kv, length, d_head), what)
    return output, pair


ATTENTION = Contract(
    "Attention(d_model, n_heads, m, turn)(x, (keys, values))",
    sizes={"B": (1, 4), "T": (1, 6, 560), "S": (0, 9, 4200), "m": (1, 3), "_g": (1, 3), "_w": (1, 3)},
    n_heads="= _g * m",
    d_model="= 2 * _w * n_heads",
    turn=lambda toys, seed: toys.marked,
    toys=toys,
    x="floats (B, T, 2 * _w * _g * m)",
    keys="floats (B, m, S, 2 * _w)",
    values="floats (B, m, S, 2 * _w)",
    gives="the output: as x (B, T, 2 * _w * _g * m); the keys: as x (B, m, S + T, 2 * _w);"
    "the values: as x (B, m, S + T, 2 * _w)",
    weights=lambda d, n, m, turn: kv_shapes(d, n, m),
    right=lambda state, d, n, m, turn, x, past: attended(state, x, n, m, past),
    learns="x keys values",
    low=False,
)


@check("14.3", points=4, forbids=("MultiheadAttention", *MODELS))
def attention(Attention, lib):
    """Check grouped queries, turned queries and keys, a causal mask, and a cache that changes nothing."""
    d, n, m, T = 24, 6, 2, 5
    module, state = attention_with_weights(Attention, lib, d, n, m, 21)
    x = normal(3, T, d, seed=22)
    output, (k, v) = output_and_pair(module(x), (3, T, d), m, T, n)
    wanted, (keys, values) = attended(state, x, n, m)
    head = torch.stack(F.linear(x, state["k_proj.weight"]).split(4, dim=-1), dim=1)
    turns = {
        "the keys are returned before they are turned. Keep them turned: their positions do not change.": head,
        "the keys are turned along their heads. Turn (B, heads, T, d_head).": lambda: toys.marked(
            head.transpose(1, 2), 0
        ).transpose(1, 2),
        "the first token is not at position 0.": toys.marked(head, 1),
    }
    like = expect.like
    turned_values = "the values are turned. Turn only queries and keys: values carry no positions."
    exchanged = "the pair is (values, keys). Return (keys, values)."
    turns |= {exchanged: values}
    like(
        v,
        values,
        "the values that are returned should be those of v_proj, cut into heads.",
        {turned_values: toys.marked(values, 0), exchanged: keys},
    )
    like(k, keys, "the keys that are returned should be those of k_proj, cut into heads and turned.", turns)
    told = "two calls in training mode give different outputs. Nothing should be drawn, and nothing kept."
    assert torch.equal(output_and_pair(module(x), (3, T, d), m, T, n)[0], output), told
    like(output, wanted, partial(where_wrong, output, wanted, 0), mistakes(state, x, n, m, None))
    right = expect.near(output, wanted, 1e-4, 1e-4)
    continued(module, partial(attention_with_weights, Attention, lib, d, n, m, 21), state, n, m, right)
    ATTENTION.hold(Attention, lib, "large", "dtypes", "layout", "gradients", "modes", "device")
    module.load_state_dict(state)
    output, pair = expect.items(module.bfloat16()(x.bfloat16()), 2, "`forward` should return two results")
    told = "with weights and x in bfloat16, the output, the keys or the values have another dtype."
    assert all(type(one) is torch.Tensor and one.dtype is torch.bfloat16 for one in (output, *pair)), told
    expect.close(output.float(), wanted, "in bfloat16, the output is wrong.", 0.1)
    hides_the_future(Attention, lib)
    for sizes, told in (
        ((10, 4, 2), "a `d_model` that is not a multiple of `n_heads` should be refused with ValueError."),
        ((24, 6, 4), "an `n_heads` that is not a multiple of `n_kv_heads` should be refused with ValueError."),
        ((16, 2, 4), "more heads of keys than of queries should be refused with ValueError."),
    ):
        expect.refuses(Attention, *sizes, lib(toys).marked, says=told)


def mistakes(
    state: State, x: torch.Tensor, n: int, m: int, past: Past | None, right: bool = False
) -> dict[str, Callable[[], torch.Tensor]]:
    """What common mistakes give for the output, by their sentence; right: without a past the output is."""
    wrong: dict[str, dict[str, Any]] = {
        (
            "query head h reads head h mod n_kv_heads. Neighbouring query heads should share "
            "one: use repeat_interleave, not repeat."
        ): {"group": lambda h, n, m: h % m},
        "queries read what comes after them: the mask is missing.": {"reads": lambda i, j, S: (i + j) >= 0},
        "the past is hidden and the future is visible. It should be the other way round.": {
            "reads": lambda i, j, S: j >= S + i
        },
        "a token does not read itself. It should read its past and itself.": {
            "reads": lambda i, j, S: (j < S + i) | (j == 0)
        },
        "the scores are divided by the root of d_model. A head is d_head wide.": {"scale": x.size(-1) ** -0.5},
        "the scores are not divided by the root of d_head.": {"scale": 1.0},
        "only the keys are turned. Turn the queries too.": {"turn": "k"},
        "only the queries are turned. Turn the keys too.": {"turn": "q"},
        "neither queries nor keys are turned. Both should be.": {"turn": ""},
        "the values are turned. Turn only queries and keys: values carry no positions.": {"turn": "qkv"},
    }
    if right:
        wrong = {f"with a past, {told}": how for told, how in wrong.items()}
    if past is not None:
        S = past[0].size(2)
        wrong |= {
            "with a past, positions begin at 0 again. The first new token should be at position S.": {"start": 0},
            "with a past, the queries are turned from position 0 on. Turn them from position S on.": {"asks": 0},
            "with a past, positions are one too large.": {"start": S + 1},
            "with a past, new token i sees keys 0 to i alone, as with `is_causal`. It should see 0 to S + i.": {
                "reads": lambda i, j, S: j <= i
            },
            "the keys of the past are turned again. They were turned when they were new.": {"again": True},
            "the past is not read.": {"reads": lambda i, j, S: (j >= S) & (j <= S + i)},
        }
    guesses = {told: lambda how=how: attended(state, x, n, m, past, **how)[0] for told, how in wrong.items()}
    weight = state["out_proj.weight"]
    unmapped = "the heads are not mapped at the end: `out_proj` is not used."
    mixed = "heads and tokens are mixed when the heads are joined: transpose first."
    unmapped, mixed = (f"with a past, {told}" if right else told for told in (unmapped, mixed))

    def before() -> torch.Tensor:
        return attended({**state, "out_proj.weight": torch.eye(x.size(-1))}, x, n, m, past)[0]

    def garbled() -> torch.Tensor:
        return F.linear(before().unflatten(-1, (n, -1)).transpose(1, 2).reshape(x.shape), weight)

    return guesses | {
        unmapped: before,
        mixed: garbled,
    }


def where_wrong(output: torch.Tensor, wanted: torch.Tensor, S: int) -> str:
    """Which tokens have a wrong output, in a sentence; S: tokens of the past."""
    wrong = (~torch.isclose(output, wanted, 1e-4, 1e-4)).any(-1).any(0).nonzero().flatten().tolist()
    told = f"the output of {output.size(1)} new tokens after {S} past ones is wrong"
    told += f" at tokens {', '.join(map(str, wrong))}." if len(wrong) < output.size(1) else " at all tokens."
    return f"{told} {expect.difference(output, wanted, 1e-4, 1e-4)}"


def continued(module: Remote, new: Callable[[], tuple[Remote, Any]], state: State, n: int, m: int, right: bool) -> None:
    """Fail unless new tokens after a past are what they should be, several or one, and other calls leave no trace.

    `new` makes another module with the weights of `module`, and returns it first; right: as in `mistakes`.
    """
    d = state["q_proj.weight"].size(0)
    for seed, (S, T) in enumerate(((4, 3), (7, 1), (3, 3), (0, 2), (1, 6))):  # 1 + 6 is 4 + 3
        past = [normal(2, m, S, d // n, seed=30 + 2 * seed + one) for one in range(2)]
        after_past(module, state, normal(2, T, d, seed=40 + seed), past, n, m, right)
    x = normal(1, 4, d, seed=49)
    cases = ((x, True, "a text without a past"), (x[:, :1], False, "in evaluation mode, a first token alone"))
    for given, mode, what in cases:
        wanted = attended(state, given, n, m)[0]
        if not gives(module, given, mode, wanted):
            kept = gives(new()[0], given, mode, wanted)
            why = "is wrong after other calls: something is kept in the module." if kept else "gets a wrong output."
            raise AssertionError(f"{what} {why}")


def gives(module: Remote, x: torch.Tensor, mode: bool, wanted: torch.Tensor) -> bool:
    """Whether x without a past gives this output, and keys of all tokens of x, in this mode."""
    module.train(mode)
    output, pair = expect.items(module(x), 2, "`forward` should return the output and a pair (keys, values)")
    module.train()
    keys = expect.items(pair, 2, "the second result should be a pair (keys, values)")[0]
    return expect.near(output, wanted, 1e-4, 1e-4) and keys.size(2) == x.size(1)


def hides_the_future(Attention: Remote, lib: Library) -> None:
    """Fail unless the future has no weight where the scores of the past lie near -50,000."""
    module, x = Attention(8, 2, 1, lib(toys).unmarked), 1 + 0.1 * normal(1, 5, 8, seed=50)
    state = expect.weights(module, kv_shapes(8, 2, 1), "`Attention`", seed=51)
    state |= {"q_proj.weight": torch.full((8, 8), 20.0), "k_proj.weight": torch.full((4, 8), -20.0)}
    module.load_state_dict(state)
    result, wanted = module(x), attended(state, x, 2, 1, turn="")[0]
    output = result[0] if type(result) is list and result else None
    told = "where all scores are far below 0, there is NaN in the output."
    assert type(output) is not torch.Tensor or not output.isnan().any(), told
    found = output_and_pair(result, (1, 5, 8), 1, 5, 2)[0]
    told = "where all scores are far below 0, the output is wrong."
    if not expect.near(found, wanted, 1e-2, 1e-2):
        early = output_and_pair(module(x[:, :2]), (1, 2, 8), 1, 2, 2)[0]
        told += "" if expect.near(early, found[:, :2]) else " The future must have no weight, even then."
    expect.close(found, wanted, told, 1e-2)


def after_past(module: Remote, state: State, x: torch.Tensor, past: Past, n: int, m: int, right: bool) -> None:
    """Fail unless the new tokens x are what they should be after this past; right: as in `mistakes`."""
    S, T = past[0].size(2), x.size(1)
    output, (k, v) = output_and_pair(module(x, past), tuple(x.shape), m, S + T, n)
    wanted, (keys, values) = attended(state, x, n, m, past)
    restart = "with a past, positions begin at 0 again. The first new token should be at position S."
    twice = "the keys of the past are turned again. They were turned when they were new."
    order = "with a past, the new {} come first. They should come after those of the past."
    guesses = {
        order.format("keys"): torch.cat([keys[:, :, S:], keys[:, :, :S]], 2),
        restart: lambda: attended(state, x, n, m, past, start=0)[1][0],
        twice: lambda: attended(state, x, n, m, past, again=True)[1][0],
    }
    told = "with a past, the keys that are returned are not those of the past, then the new ones."
    if S and expect.near(k[:, :, :S], keys[:, :, :S]):
        told = "with a past of S tokens, the new keys that are returned are wrong. They should be `k_proj` of x, "
        told += "turned from position S on, whatever was called before."
    expect.like(k, keys, told, guesses)
    told = "with a past, the values that are returned are not those of the past, then the new ones."
    expect.like(v, values, told, {order.format("values"): torch.cat([values[:, :, S:], values[:, :, :S]], 2)})
    expect.like(output, wanted, partial(where_wrong, output, wanted, S), mistakes(state, x, n, m, past, right))


# 14.4


def gated(state: State, x: torch.Tensor) -> torch.Tensor:
    """SwiGLU by its formula."""
    gate, up = F.linear(x, state["gate.weight"]), F.linear(x, state["up.weight"])
    return F.linear(gate * gate.sigmoid() * up, state["down.weight"])


SWIGLU = Contract(
    "SwiGLU(d, F)(x)",
    sizes={"d": (1, 9, 600), "F": (1, 12, 1600)},
    x="floats (..., d)",
    gives="the result of SwiGLU: as x (..., d)",
    weights=lambda d, d_ff: {"gate.weight": (d_ff, d), "up.weight": (d_ff, d), "down.weight": (d, d_ff)},
    right=lambda state, d, d_ff, x: gated(state, x),
    learns="x",
)


def gated_feed_forward(SwiGLU: Remote, d: int, d_ff: int, seed: int) -> None:
    """Fail unless SwiGLU of these sizes is right."""
    module = SwiGLU(d, d_ff)
    fresh = expect.state(module, "`SwiGLU`")
    assert not any(name.endswith("bias") for name in fresh), "there is a bias. The three maps should have none."
    shapes = {"gate.weight": (d_ff, d), "up.weight": (d_ff, d), "down.weight": (d, d_ff)}
    state, x = expect.weights(module, shapes, "`SwiGLU`", seed=seed), normal(2, 5, d, seed=seed + 1)
    gate, up = F.linear(x, state["gate.weight"]), F.linear(x, state["up.weight"])
    forms = {
        "gate and up have changed places: SiLU should act on the gate.": gate * F.silu(up),
        "GELU acts on the gate. It should be SiLU.": F.gelu(gate) * up,
        "ReLU acts on the gate. It should be SiLU.": gate.relu() * up,
        "a sigmoid acts on the gate. It should be SiLU: SiLU is z times its sigmoid.": gate.sigmoid() * up,
        "no activation is applied to the gate. Apply SiLU.": gate * up,
        "SiLU acts on both gate and up. It should act on the gate alone.": F.silu(gate) * F.silu(up),
        "SiLU acts on the product. It should act on the gate alone.": F.silu(gate * up),
        "gate and up are added. Multiply them.": F.silu(gate) + up,
        "there is no gate: up is not used.": F.silu(gate),
    }
    expect.like(
        expect.floats(module(x), (2, 5, d), "the result of SwiGLU"),
        gated(state, x),
        "the output is wrong: SiLU of the gate, times up, should go through `down`.",
        {told: F.linear(inner, state["down.weight"]) for told, inner in forms.items()}
        | {"the input is added to the result. That is the block's part.": x + gated(state, x)},
    )


PARTS = ("norm1", "attention", "norm2", "mlp")


def block_of(Block: Remote, lib: Library, d: int, seed: int) -> tuple[Remote, dict[str, nn.Module]]:
    """A block of the student's, and twins of its parts here: two norms, a linear map, and a `toys.Keeper`."""

    def linear(parts: Any) -> Any:
        return parts.Linear(d, d)

    pairs = {
        name: expect.twins(lib, lambda parts: parts.LayerNorm(d), seed + place)
        for name, place in (("norm1", 1), ("norm2", 3))
    }
    pairs["mlp"] = expect.twins(lib, linear, seed + 5)
    keeper = lib(toys).Keeper(d), toys.Keeper(d)
    expect.same_weights(*keeper, seed + 7)
    pairs["attention"] = keeper
    block = Block(*(pairs[name][0] for name in PARTS))
    found = expect.state(block, "`Block`")
    ours = {name: pairs[name][1] for name in PARTS}
    wanted = {f"{name}.{key}": value for name, part in ours.items() for key, value in part.state_dict().items()}
    missing, extra = [*wanted.keys() - found.keys()], [*found.keys() - wanted.keys()]
    told = "`Block` should have the parts `norm1`, `attention`, `norm2` and `mlp`, and no others."
    assert not missing and not extra, told
    assert all(torch.equal(found[name], value) for name, value in wanted.items()), (
        "the parts of `Block` are not the modules that were given, or some have changed places."
    )
    for name, pair in pairs.items():
        halved_state = {key: 0.5 * value for key, value in ours[name].state_dict().items()}
        for one in pair:
            one.load_state_dict(halved_state)
        now, told = block.state_dict(), f"`{name}` of `Block` is a copy. Keep the very modules that are given."
        assert all(torch.equal(now[f"{name}.{key}"], value) for key, value in halved_state.items()), told
    return block, ours


def passed_through(
    parts: Mapping[str, nn.Module], x: torch.Tensor, past: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """A pre-norm block by its formulas."""
    with torch.no_grad():
        attended, past = parts["attention"](parts["norm1"](x), past)
        h = x + attended
        return h + parts["mlp"](parts["norm2"](h)), past


def block_is_pre_norm(Block: Remote, lib: Library, d: int, seed: int) -> None:
    """Fail unless a block of these parts is right, with a past and without."""
    block, parts = block_of(Block, lib, d, seed)
    norm1, attention, norm2, mlp = (parts[name] for name in PARTS)
    x = normal(2, 5, d, seed=seed + 9)
    for past in (None, normal(2, 1, d, seed=seed + 10)):
        result = expect.items(block(x, past), 2, "`Block` should return the states and the past")
        wanted, now = passed_through(parts, x, past)
        with torch.no_grad():
            a = attention(norm1(x), past)[0]
            raw = norm1(x + attention(x, past)[0])
            h = x + a
            guesses = {
                "the norms are after the sums. Here each should be before its part.": norm2(raw + mlp(raw)),
                "the attention reads x without a norm. It should read the output of `norm1`.": x
                + attention(x, past)[0]
                + mlp(norm2(x + attention(x, past)[0])),
                "the mlp reads h without a norm. It should read the output of `norm2`.": h + mlp(h),
                "the residual connection around the attention is missing: x is not added.": a + mlp(norm2(a)),
                "the residual connection around the mlp is missing: h is not added.": mlp(norm2(h)),
                "both residual connections are missing.": mlp(norm2(a)),
                "the residual connection around the mlp adds x. It should add h.": x + mlp(norm2(h)),
                "the residual around the attention is normalised. It should stay as it is.": norm1(x)
                + a
                + mlp(norm2(norm1(x) + a)),
                "the residual around the mlp is normalised. It should stay as it is.": norm2(h) + mlp(norm2(h)),
                "attention and mlp both read x. The mlp should read h, to which the attention was added.": h
                + mlp(norm2(x)),
                "`norm1` is used before both parts. Use `norm2` before the mlp.": h + mlp(norm1(h)),
                "the norms have changed places.": x
                + attention(norm2(x), past)[0]
                + mlp(norm1(x + attention(norm2(x), past)[0])),
                "there is a norm after the block. Norms should only be before the parts.": norm2(wanted),
                "the past does not reach the attention.": passed_through(parts, x, None)[0],
            }
        told = "the states should be h + mlp(norm2(h)) with h = x + attention(norm1(x))."
        expect.like(expect.floats(result[0], (2, 5, d), "the states"), wanted, told, guesses)
        told = "the second result should be what the attention returns second."
        assert type(result[1]) is torch.Tensor and result[1].shape == now.shape, told
        assert past is None or not torch.equal(result[1], past), (
            "the old past is returned. Return the attention's new one."
        )
        expect.close(result[1], now, told)


def through_state(state: State, x: torch.Tensor, past: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """`passed_through` by functions of the weights."""
    d = x.size(-1)

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        return F.layer_norm(x, (d,), state[f"{name}.weight"], state[f"{name}.bias"])

    inner = norm(x, "norm1")
    now = inner.sum(1, keepdim=True) + (0 if past is None else past)
    h = x + F.linear(inner, state["attention.map.weight"], state["attention.map.bias"]) + now
    return h + F.linear(norm(h, "norm2"), state["mlp.weight"], state["mlp.bias"]), now


BLOCK = Contract(
    "Block(norm1, attention, norm2, mlp)(x, past)",
    sizes={"B": (1, 4), "T": (1, 9, 600)},
    norm1=lambda toys, seed: toys.norm_of(5),
    attention=lambda toys, seed: toys.Keeper(5),
    norm2=lambda toys, seed: toys.norm_of(5),
    mlp=lambda toys, seed: toys.linear_of(5),
    toys=toys,
    x="floats (B, T, 5)",
    past="floats (B, 1, 5) or None",
    gives="the states: as x (B, T, 5); the past: as x (B, 1, 5)",
    weights=lambda *parts: (
        dict.fromkeys(("norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"), (5,))
        | dict.fromkeys(("attention.map.weight", "mlp.weight"), (5, 5))
        | dict.fromkeys(("attention.map.bias", "mlp.bias"), (5,))
    ),
    right=lambda state, norm1, attention, norm2, mlp, x, past: through_state(state, x, past),
    learns="x past",
    low=False,
)


@check("14.4", points=2, forbids=MODELS)
def block(SwiGLU, Block, lib):
    """Check for a gate that multiplies, norms in front of attention and mlp, and nothing on the residual."""
    gated_feed_forward(SwiGLU, 6, 11, 51)
    SWIGLU.hold(SwiGLU, lib, "dtypes", "layout", "gradients", "modes", "device")
    module, far = SwiGLU(1, 1), torch.tensor([[-12.0], [-20.0], [-100.0], [-1000.0]])
    state = {f"{name}.weight": torch.ones(1, 1) for name in ("gate", "up", "down")}
    module.load_state_dict(state)
    told = (
        "where the gate is far below 0, the result is wrong: silu(z) is z times its sigmoid, which is nearly 0 there."
    )
    expect.close(expect.floats(module(far), (4, 1), "the result of SwiGLU"), gated(state, far), told, 1e-3)
    block_is_pre_norm(Block, lib, 7, 61)
    told = "`Block` should hand the past to the attention, and the new one back, as they are. This fails for {}."
    strange = expect.answers(lib(toys).not_handed_on, Block, False, says=told.format("some kind of past"))
    assert not strange, told.format(strange)
    BLOCK.hold(Block, lib, "dtypes", "gradients", "modes", "device")


# 14.5


def llm_with_weights(
    LLM: Remote, lib: Library, V: int, d: int, layers: int, tied: bool, seed: int
) -> tuple[Remote, dict]:
    """A model of the student's from blocks of the kind `toys.Keeper` and a LayerNorm, and its known weights."""
    blocks = [lib(toys).Keeper(d) for _ in range(layers)]
    norm = lib(nn).LayerNorm(d)
    model = LLM(V, d, blocks, norm, tied)
    fresh = expect.state(model, "`LLM`")
    assert "head.bias" not in fresh, "the head has a bias. It should have none."
    told = "the blocks are not registered: a plain list hides them from `parameters()` and `state_dict()`."
    assert any(name.endswith(".map.weight") for name in fresh), told
    shapes: dict[str, tuple[int, ...]] = {"embedding.weight": (V, d)}
    for place in range(layers):
        shapes |= {f"blocks.{place}.map.weight": (d, d), f"blocks.{place}.map.bias": (d,)}
    shapes |= {"norm.weight": (d,), "norm.bias": (d,), "head.weight": (V, d)}
    same = {"head.weight": "embedding.weight"} if tied else {}
    state = expect.weights(model, shapes, f"`LLM` with `tied={tied}`", seed, same)
    own = {f"blocks.{place}": block for place, block in enumerate(blocks)} | {"norm": norm}
    for name, given in own.items():
        same = all(torch.equal(value, state[f"{name}.{key}"]) for key, value in given.state_dict().items())
        assert same, f"`{name}` is not the module that was given there. Keep the very modules, in their order."
    numbers = sum(math.prod(shape) for shape in shapes.values()) - V * d * tied
    counted = sum(part.numel() for part in model.parameters())
    told = "the head is not tied: its weight is a second parameter. Assign the parameter of the embedding itself."
    assert not tied or counted == numbers, told
    assert not tied or torch.equal(*(model.state_dict()[f"{part}.weight"] for part in ("embedding", "head"))), told
    same = fresh["embedding.weight"].shape == fresh["head.weight"].shape and torch.equal(
        fresh["embedding.weight"], fresh["head.weight"]
    )
    assert tied or not same, (
        "where `tied` is false, the head starts as a copy of the embedding. It should be another matrix."
    )
    model.load_state_dict(state)
    return model, state


def logits_of(
    state: State, tokens: torch.Tensor, layers: int, past: Sequence[torch.Tensor] | None = None, **mistakes: Any
) -> tuple[torch.Tensor, Past]:
    """The logits by the formulas, with mistakes on request, and the past of every block."""
    x, now = state["embedding.weight"][tokens] * mistakes.get("factor", 1.0), []
    d = x.size(-1)
    for place in mistakes.get("order", range(layers)):
        one = None if past is None else past[mistakes.get("of", lambda place: place)(place)]
        kept = x.sum(1, keepdim=True) if one is None else one + x.sum(1, keepdim=True)
        x = F.linear(x, state[f"blocks.{place}.map.weight"], state[f"blocks.{place}.map.bias"]) + kept
        now.append(kept)
    if mistakes.get("norm", True):
        x = F.layer_norm(x, (d,), state["norm.weight"], state["norm.bias"])
    return F.linear(x, state["head.weight"]), now


def logits_and_past(result: Any, shape: tuple[int, int, int], layers: int) -> Any:
    """The logits and the list of pasts, of the right shapes."""
    expect.items(result, 2, "the model should return the logits and the new past")
    logits = expect.floats(result[0], shape, "the logits")
    told = f"the past should be a list with one entry for each of the {layers} blocks"
    past = expect.items(result[1], layers, told)
    for one in past:
        assert type(one) is torch.Tensor, f"an entry of the past is {kind(one)}, not what the block returned second."
    return logits, past


def answers_as_told(model: Remote, state: State, tokens: torch.Tensor, layers: int, seed: int) -> None:
    """Fail unless logits and past are right, without a past, with one, and without one again."""
    d = state["head.weight"].size(1)
    kept = [normal(len(tokens), 1, d, seed=seed + place) for place in range(layers)]
    for past in (None, kept):
        answers_to(model, state, tokens, layers, past)
    told = "a call without a past is wrong after other calls: something, such as a default list, is kept between them."
    expect.close(model(tokens)[0], logits_of(state, tokens, layers)[0], told, tolerance=1e-3)


def answers_to(model: Remote, state: State, tokens: torch.Tensor, layers: int, past: Past | None) -> None:
    """Fail unless logits and new past are right for these tokens and this past."""
    V, d = state["head.weight"].shape
    found = model(tokens) if past is None else model(tokens, past)
    logits, now = logits_and_past(found, (*tokens.shape, V), layers)
    wanted, right = logits_of(state, tokens, layers, past)
    guesses: dict[str, Any] = {
        "the norm before the head is missing.": {"norm": False},
        "embeddings are multiplied by the root of d_model. Here they should not be.": {"factor": d**0.5},
        "the blocks come in the wrong order.": {"order": [*range(layers)][::-1]},
        "the last block is left out.": {"order": range(layers - 1)},
        "the last block alone counts. Each block should read the output of the one before it.": {"order": [layers - 1]},
    }
    if past is not None:
        guesses |= {
            "all blocks are given the past of the first one. Each should have its own.": {"of": lambda place: 0},
            "all blocks are given the past of the last one. Each should have its own.": {
                "of": lambda place: layers - 1
            },
            "the blocks are given each other's past. Each should have its own.": {
                "of": lambda place: layers - 1 - place
            },
        }
    made = {told: lambda how=how: logits_of(state, tokens, layers, past, **how)[0] for told, how in guesses.items()}
    made["the past does not reach the blocks."] = lambda: logits_of(state, tokens, layers)[0]
    made["these are log-probabilities. Return the logits."] = lambda: wanted.log_softmax(-1)
    made["these are probabilities. Return the logits."] = lambda: wanted.softmax(-1)
    told = "the logits should be head(norm(x)), where x has gone through the blocks one after the other."
    expect.like(logits, wanted, told if past is None else f"with a past, {told}", made, tolerance=1e-3)
    for one, other in zip(now, right, strict=True):
        told = "the new past should be the list of what each block returned second, in their order."
        assert one.shape == other.shape, told
        expect.close(one, other, told, tolerance=1e-3)


LLM_UNTIED = Contract(
    "LLM(V, 5, blocks, norm, False)(tokens, [first_past, second_past])",
    sizes={"V": (1, 9, 3000), "B": (1, 4), "T": (1, 7)},
    blocks=lambda toys, seed: [toys.Keeper(5), toys.Keeper(5)],
    norm=lambda toys, seed: toys.norm_of(5),
    toys=toys,
    tokens="ids (B, T) below V",
    first_past="floats (B, 1, 5)",
    second_past="floats (B, 1, 5)",
    gives="the logits: as first_past (B, T, V); the past of the first block: as first_past (B, 1, 5);"
    "the past of the second block: as first_past (B, 1, 5)",
    weights=lambda V, d, blocks, norm, tied: (
        {"embedding.weight": (V, d), "head.weight": (V, d), "norm.weight": (d,), "norm.bias": (d,)}
        | {f"blocks.{place}.map.weight": (d, d) for place in range(len(blocks))}
        | {f"blocks.{place}.map.bias": (d,) for place in range(len(blocks))}
    ),
    right=lambda state, V, d, blocks, norm, tied, tokens, past: logits_of(state, tokens, len(blocks), past),
    learns="first_past second_past",
    low=False,
)


LLM_TIED = Contract(
    "LLM(V, 5, blocks, norm)(tokens)",
    sizes={"V": (1, 9), "B": (1, 4), "T": (1, 7)},
    blocks=lambda toys, seed: [toys.Keeper(5)],
    norm=lambda toys, seed: toys.norm_of(5),
    toys=toys,
    tokens="ids (B, T) below V",
    gives="the logits: float (B, T, V); the past: float (B, 1, 5)",
    weights=lambda V, d, blocks, norm: {
        "embedding.weight": (V, d),
        "blocks.0.map.weight": (d, d),
        "blocks.0.map.bias": (d,),
        "norm.weight": (d,),
        "norm.bias": (d,),
        "head.weight": (V, d),
    },
    tied={"head.weight": "embedding.weight"},
    right=lambda state, V, d, blocks, norm, tokens: logits_of(state, tokens, 1),
)


@check("14.5", points=3, forbids=MODELS)
def llm(LLM, lib):
    """Check the embedding, blocks with a past each, a last norm, and a head that is tied or not."""
    V, d, layers = 13, 6, 3
    tokens = torch.tensor([[3, 1, 12, 5], [0, 7, 7, 2]])
    for tied, seed in ((True, 71), (False, 81)):
        model, state = llm_with_weights(LLM, lib, V, d, layers, tied, seed)
        answers_as_told(model, state, tokens, layers, seed + 5)
    model, _ = llm_with_weights(LLM, lib, V, d, layers, True, 71)
    found = lib(toys).type_of_second(model, tokens)
    assert found == "list", f"the new past should be a list, not a {found}."
    told = "a later call changes the list of pasts that an earlier one returned. Each call should make a new list."
    assert lib(toys).keeps_results(model, tokens), told
    told = "`LLM` should hand each past to its block, and the new ones back, as they are. This fails for {}."
    strange = expect.answers(lib(toys).not_handed_on, LLM, True, says=told.format("some kind of past"))
    assert not strange, told.format(strange)
    llm_with_weights(LLM, lib, 4, 9, 1, True, 95)  # fewer tokens than columns
    usual = LLM(V, d, [lib(toys).Keeper(d)], lib(nn).LayerNorm(d))
    told = "if `tied` is not given, the model should be tied."
    assert sum(part.numel() for part in usual.parameters()) == V * d + d * d + 3 * d, told
    LLM_TIED.hold(LLM, lib, "parts", "gradients")
    LLM_UNTIED.hold(LLM, lib, "dtypes", "modes", "device")


# 14.6


def written(result: Any, prompt: list[int], max_new: int, name: str = "generate") -> list[int]:
    """What the student's function wrote: a list of numbers that begins with the prompt."""
    expect.of_type(result, list, f"`{name}` should return a list of token numbers")
    strange = next((item for item in result if type(item) is not int), None)
    assert strange is None, f"the list that `{name}` returns should hold ints, not {kind(strange)}."
    assert result[: len(prompt)] == prompt, "the result should begin with the tokens that were given."
    count = len(result) - len(prompt)
    assert count == max_new, f"asked for {max_new} new tokens, `{name}` wrote {count}."
    return result


def greedy(
    table: torch.Tensor, prompt: list[int], max_new: int, shift: int = 0, reads: Callable | None = None
) -> list[int]:
    """The best continuation by `toys.Writer`; `reads` gives the tokens that it was given, from those so far."""
    text = list(prompt)
    for _ in range(max_new):
        every = text if reads is None else reads(text)
        row = sum((token + 1) * place for place, token in enumerate(every, 1)) % len(table)
        text.append((table[row].argmax().item() + shift) % table.size(1))
    return text


def again(prompt: list[int]) -> Callable[[list[int]], list[int]]:
    """The tokens that a `toys.Writer` has seen of a text if every call was given all of it, with the past."""
    return lambda text: [token for end in range(len(prompt), len(text) + 1) for token in text[:end]]


def writes_the_best(generate: Remote, lib: Library, prompt: list[int], max_new: int, seed: int) -> None:
    """Fail unless the greedy text is right, with cache and without, and each token was fed as often as it should."""
    table = normal(17, 9, seed=seed)
    wanted, n = greedy(table, prompt, max_new), len(prompt)
    for cached in (True, False):
        model = lib(toys).Writer(table)
        model.train()
        how = {} if cached else {"cached": False}
        text = written(generate(model, prompt, max_new, **how), prompt, max_new)
        told = "without `cached`, the whole text should go in each time, with no past."
        assert cached or not any(before for _, before in read(model.fed)), told
        assert read(model.fed), "the model is not called. Each call of `generate` should call it."
        told = "the whole prompt should go in with the first call, and no other token."
        assert read(model.fed)[:1] == [[n, 0]], told
        if text != wanted and max_new > 2:
            moods = read(model.moods)
            training, recording = any(mood % 2 for mood in moods), any(mood > 1 for mood in moods)
            told = "the model writes in training mode, and gradients are recorded. Neither should be."
            assert not (training and recording), told
            told = "the model, or a part of it, is in training mode while it writes: dropout would act."
            assert not training, told
            assert not recording, "gradients are recorded while the model writes. They should not be."
            guesses = {
                "with the past, the whole text is read again. Only the new token should be.": greedy(
                    table, prompt, max_new, reads=again(prompt)
                ),
                "the new token is read without the past: the model has forgotten the text.": greedy(
                    table, prompt, max_new, reads=lambda text: text[-1:] if len(text) > n else text
                ),
                "the worst token is taken. Take the best.": greedy(-table, prompt, max_new),
            }
            for told, guess in guesses.items():
                assert text != guess, told
        fed = read(model.fed)
        steps = [[n, 0], *([1, n + place] for place in range(max_new - 1))]
        whole = [[n + place, 0] for place in range(max_new)]
        if cached:
            told = "the model reads the whole text for each token. With `cached`, it should read each token once."
            assert fed != whole or whole == steps, told
            told = "with `cached`, each new token should go in alone, with the past of all tokens before it."
            assert fed[:max_new] == steps, told
            told = "the model is called more often than there are tokens to write."
            assert len(fed) <= max_new, told
        else:
            told = "without `cached`, the whole text should go in each time, with no past."
            assert fed[:max_new] == whole, told
        same = [mine == best for mine, best in zip(text, wanted, strict=False)]
        first = [*same, False].index(False) - n + 1
        assert text == wanted, f"new token {first} is not the best one after the text so far."


def leaves_the_model(generate: Remote, lib: Library) -> None:
    """Fail unless model and session are as before, in both modes, with drawing and without, in double precision."""
    model = lib(toys).Writer(normal(17, 9, seed=104)).double()
    for training in (True, False):
        model.train(training)
        lib(toys).leave_gradients(model)
        before = lib(probes).facts(model)
        mode = "training" if training else "evaluation"
        for temperature in (0.0, 1.0):
            when = f"after `generate(model, [2, 6], 3, {temperature})`"
            with world_kept(lib, f"{when},", draws=True):
                generate(model, [2, 6], 3, temperature)
            expect.unchanged(lib(probes).facts(model), before, f"{when} on a model in {mode} mode,")


def drawn(
    generate: Remote, lib: Library, row: Sequence[float], temperature: float, count: int, seed: int, **how: bool
) -> list[int]:
    """Tokens that are drawn by a model with these logits everywhere, after `torch.manual_seed(seed)`."""
    model = lib(toys).Constant([list(row)])
    (text,) = lib(toys).in_turn(generate, seed, [[model, [0], count]], {"temperature": temperature, **how})
    return written(text, [0], count)[1:]


DRAWS = 1100  # in one text: more tokens than calls may stand within each other


def draws_by_temperature(generate: Remote, lib: Library, seed: int) -> None:
    """Fail unless tokens are drawn from softmax(logits / temperature), by torch's generator."""
    row, temperature = torch.tensor([4.0, -1.0, -30.0, 1.5]), 2.0
    text = drawn(generate, lib, row.tolist(), temperature, DRAWS, seed)
    counts = {token: text.count(token) for token in range(4)}

    def fits(shares: torch.Tensor) -> bool:
        return expect.even(counts, dict(enumerate(shares.tolist())), DRAWS, {}) == 0

    if max(counts.values()) == DRAWS:
        of_nine = [[0.01 * (token == best) for token in range(9)] for best in range(9)]
        first = [drawn(generate, lib, one, 1.0, 1, seed)[0] for one in of_nine]
        told = "with a temperature above 0, the best token is always taken. Tokens should be drawn."
        assert first != [*range(9)], told
        several = {*drawn(generate, lib, of_nine[0], 1.0, 40, seed)}
        assert len(several) > 1, (
            "all tokens of a text are the same. Each should be drawn by itself from torch's own generator, "
            "without a seed."
        )
    if not fits((row / temperature).softmax(-1)):
        assert not fits((row * temperature).softmax(-1)), "the logits are multiplied by the temperature. Divide them."
        assert not fits(row.softmax(-1)), "the logits are not divided by the temperature."
        told = "tokens with a small probability are never drawn. Every token should be drawn with its probability."
        likely = (row / temperature).softmax(-1) > 0.02
        assert all(token in text for token in likely.nonzero().flatten().tolist()), told
        raise AssertionError("tokens are not drawn with the probabilities softmax(logits / temperature).")
    model = lib(toys).Constant([row.tolist()])
    even = 4.0  # a temperature at which two texts of 40 tokens are the same once in 10^15 times
    twice = lib(toys).in_turn(generate, seed, [[model, [0], 40]] * 2, {"temperature": even})
    one, two = (written(text, [0], 40) for text in expect.items(twice, 2, "two texts"))
    told = "two calls in a row draw the same text. The generator of torch should move on from call to call."
    assert one != two, told
    one, two, other = (drawn(generate, lib, row.tolist(), even, 40, seed + step) for step in (1, 1, 2))
    told = "after the same `torch.manual_seed`, another text is drawn. Draw with torch's generator alone."
    assert one == two, told
    told = (
        "after another `torch.manual_seed`, the same text is drawn. Set no seed, and draw with torch's own generator."
    )
    assert one != other, told
    draws_the_same(generate, lib, (2.0**-9, 64.0), seed + 3)


def draws_the_same(generate: Remote, lib: Library, scales: Sequence[float], seed: int) -> None:
    """Fail unless the same text is drawn where logits and temperature are both multiplied by a power of two.

    The quotient is the same to the last bit, and so is it where all logits are larger by 256.
    """
    row = torch.tensor([1.5, 0.0, -2.25, 0.75])
    text = drawn(generate, lib, row.tolist(), 1.0, 60, seed)
    for scale in scales:
        told = f"with temperature {scale:g} and logits that are {scale:g} times as large, another text is drawn. "
        told += "Only their quotient should count."
        assert drawn(generate, lib, (scale * row).tolist(), scale, 60, seed) == text, told
    told = (
        "where all logits are larger by 256, another text is drawn. It should not matter: round or cut off no logits."
    )
    assert drawn(generate, lib, (256 + row).tolist(), 1.0, 60, seed) == text, told


def reads_every_digit(generate: Remote, lib: Library, seed: int) -> None:
    """Fail unless the best token is found where logits in double precision differ in their ninth digit."""
    table = 1 + 1e-9 * normal(17, 9, seed=seed).double()
    model = lib(toys).Writer(torch.zeros(17, 9)).double()
    model.load_state_dict({"table": table})
    text = written(generate(model, [2, 6], 4), [2, 6], 4)
    told = "logits in float64 are rounded before the best is taken. Keep their dtype, or use a wider one."
    assert text == greedy(table, [2, 6], 4) or text != greedy(table.float(), [2, 6], 4), told
    told = "where logits in double precision differ only in their ninth digit, the best token is not written."
    assert text == greedy(table, [2, 6], 4), told


@check("14.6", points=2, forbids=MODELS, draws=True)
def generate(generate, lib):
    """Check that each token goes in once, in evaluation mode without gradients, and that the mode is restored."""
    writes_the_best(generate, lib, [3, 8, 5], 6, 101)
    writes_the_best(generate, lib, [4], 3, 102)
    has_form(lib, "list[int]", "the text", generate, lib(toys).Writer(normal(17, 9, seed=109)), [2, 6], 2)
    writes_the_best(generate, lib, [place % 9 for place in range(1500)], 2, 107)  # longer than any in the notebook
    leaves_the_model(generate, lib)
    table = normal(17, 9, seed=105)
    models = [lib(toys).Writer(normal(17, 9, seed=106)), lib(toys).Writer(table)]
    text = written(generate(models[0], [3, 1], 3), [3, 1], 3)
    told = "for another model and the text of the previous call, the new text is wrong. Keep nothing from that call."
    assert written(generate(models[1], text, 4), text, 4) == greedy(table, text, 4), told
    assert read(models[1].fed)[0] == [len(text), 0], told
    draws_by_temperature(generate, lib, 103)
    writes = partial(generate, models[0], [2, 6], 3, 1.0)
    sets_no_seed(lib, "`generate(model, [2, 6], 3, 1.0)`", writes, writes)
    model = lib(toys).Writer(normal(17, 9, seed=104))
    told = "if no new token is asked for, the prompt should be returned as it is."
    assert written(expect.answers(generate, model, [2, 6], 0, says=told), [2, 6], 0) == [2, 6], told
    told = "if no new token is asked for, the model is called all the same. It should not be."
    assert read(model.fed) == [], told
    reads_every_digit(generate, lib, 108)
    expect.one_device(lib, lib(toys).Writes(generate, model), [1, 2], 3)


# 14.7


def halved(weight: torch.Tensor, d_head: int) -> torch.Tensor:
    """The rows of each head, one by one: those with even numbers, then those with odd ones."""
    heads = weight.split(d_head)
    return torch.cat([torch.cat([head[0::2], head[1::2]]) for head in heads])


HALVES = Contract(
    "to_halves(weight, d_head)",
    sizes={"n": (1, 5), "_h": (1, 9, 70), "d": (1, 9)},
    weight="floats (2 * _h * n, d)",
    d_head="= 2 * _h",
    gives="the rows: as weight (2 * _h * n, d)",
    right=halved,
    tolerance=1e-9,
    shares=True,
)


def reorders(to_halves: Remote, heads: int, d_head: int, width: int, seed: int) -> None:
    """Fail unless the rows of such a projection are reordered from pairs to halves, within each head."""
    weight = normal(heads * d_head, width, seed=seed)
    inverse = torch.cat([head.unflatten(0, (2, -1)).transpose(0, 1).flatten(0, 1) for head in weight.split(d_head)])
    expect.like(
        expect.floats(to_halves(weight, d_head), (heads * d_head, width), "the reordered rows"),
        halved(weight, d_head),
        "rows 2i and 2i + 1 of a head should become its rows i and i + d_head/2.",
        {
            "the rows stay where they are. They should be reordered.": weight,
            "the rows are reordered the other way, from halves to pairs.": inverse,
            "all rows are reordered as one head. Reorder each head by itself.": halved(weight, heads * d_head),
            "the columns are reordered. Reorder the rows.": lambda: (
                halved(weight.T, width).T if width % 2 == 0 else weight.flip(0)
            ),
            "the odd rows come first. Row 0 should stay row 0.": lambda: torch.cat(
                [torch.cat([head[1::2], head[0::2]]) for head in weight.split(d_head)]
            ),
            "the heads change places. They should stay in order.": lambda: torch.cat([*weight.split(d_head)][::-1]),
        },
    )


NAMES = {
    "input_layernorm": "norm1",
    "self_attn.q_proj": "attention.q_proj",
    "self_attn.k_proj": "attention.k_proj",
    "self_attn.v_proj": "attention.v_proj",
    "self_attn.o_proj": "attention.out_proj",
    "post_attention_layernorm": "norm2",
    "mlp.gate_proj": "mlp.gate",
    "mlp.up_proj": "mlp.up",
    "mlp.down_proj": "mlp.down",
}


def checkpoint(layers: Sequence[int], n: int, m: int, d_head: int, tied: bool, seed: int) -> dict[str, torch.Tensor]:
    """A made-up checkpoint with these layers, in this order, with known weights."""
    d, d_ff, V = n * d_head, 7, 9
    few = m * d_head
    inside = {"self_attn.q_proj": (d, d), "self_attn.k_proj": (few, d), "self_attn.v_proj": (few, d)}
    inside |= {"self_attn.o_proj": (d, d), "mlp.gate_proj": (d_ff, d), "mlp.up_proj": (d_ff, d)}
    inside |= {"mlp.down_proj": (d, d_ff)}
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (V, d)}
    for layer in layers:
        shapes |= {f"model.layers.{layer}.{name}.weight": inside.get(name, (d,)) for name in NAMES}
    shapes |= {"model.norm.weight": (d,)} | ({} if tied else {"lm_head.weight": (V, d)})
    return {name: normal(*shape, seed=seed + place) for place, (name, shape) in enumerate(shapes.items())}


def converted(state: State, d_head: int | None = None) -> dict[str, torch.Tensor]:
    """What the table of names makes of a checkpoint."""
    found = {"embedding.weight": state["model.embed_tokens.weight"], "norm.weight": state["model.norm.weight"]}
    found["head.weight"] = state.get("lm_head.weight", state["model.embed_tokens.weight"])
    for name, weight in state.items():
        layer, _, part = name.removeprefix("model.layers.").partition(".")
        if name.startswith("model.layers."):
            inside = part.removesuffix(".weight")
            pairs = d_head is not None and inside in ("self_attn.q_proj", "self_attn.k_proj")
            found[f"blocks.{layer}.{NAMES[inside]}.weight"] = halved(weight, d_head or 0) if pairs else weight
    return found


def names_are_right(found: Any, wanted: State, tied: bool) -> None:
    """Fail unless `found` has the names of `wanted`."""
    expect.of_type(found, dict, "`convert` should return a dict from names to tensors")
    missing, extra = [name for name in wanted if name not in found], [name for name in found if name not in wanted]
    told = (
        "`head.weight` is missing for a file without `lm_head.weight`. The model is tied: use the embedding's weight."
    )
    assert not tied or missing != ["head.weight"], told
    assert not any(name.endswith("inv_freq") for name in extra), (
        "`inv_freq`, a table of the rotation, is kept. Leave it out."
    )
    assert not missing, f"`{missing[0]}` is missing{f', and there is `{str(extra[0])[:60]}`' if extra else ''}."
    assert not extra, f"`{str(extra[0])[:60]}` is not a name of your model."


def weights_are_right(found: Any, state: State, d_head: int | None) -> None:
    """Fail unless every weight of the converted checkpoint is where it should be."""
    wanted, pairs = converted(state, d_head), d_head is not None
    for name, weight in wanted.items():
        value = found[name]
        assert type(value) is torch.Tensor, f"`{name}` is {kind(value)}, not a tensor."
        assert value.dtype is weight.dtype, (
            f"`{name}` is {value.dtype}. Weights should keep their dtype, here {weight.dtype}."
        )
        right = value.shape == weight.shape and torch.equal(value, weight)
        if right:
            continue
        other = next((key for key, one in wanted.items() if one.shape == value.shape and torch.equal(one, value)), None)
        if other is not None and other != "head.weight":
            raise AssertionError(f"`{name}` has the weights that belong to `{other}`.")
        kept = converted(state)[name]
        asked = name.endswith(("q_proj.weight", "k_proj.weight"))
        if pairs and asked:
            told = f"`{name}` is not reordered, although `d_head` is given and its rows are in pairs."
            assert not torch.equal(value, kept), told
        moved = torch.equal(value.sort(0).values, kept.sort(0).values)
        told = f"`{name}` is reordered. Reorder only the rows of queries and keys, and only if `d_head` is given."
        assert (asked and pairs) or not moved, told
        assert not moved, (
            f"the rows of `{name}` are in a wrong order. In each head they should go from pairs to halves."
        )
        told = "`head.weight` is wrong. A file without `lm_head.weight` is tied: use the embedding's weight."
        assert name != "head.weight" or "lm_head.weight" in state, told
        raise AssertionError(f"`{name}` does not have the weights that the file has for it.")


def takes(convert: Remote, state: State, d_head: int | None, tied: bool) -> None:
    """Fail unless the checkpoint is converted as it should be."""
    found = convert(state) if d_head is None else convert(state, d_head)
    names_are_right(found, converted(state), tied)
    weights_are_right(found, state, d_head)


TABLE = "model.layers.0.self_attn.rotary_emb.inv_freq"


@check("14.7", points=3, forbids=MODELS)
def convert(to_halves, convert, lib):
    """Check that rows go from pairs to halves, and that every name is in its place: none is missing or left over."""
    reorders(to_halves, 3, 6, 5, 111)
    reorders(to_halves, 1, 8, 4, 112)
    reorders(to_halves, 2, 4, 3, 114)
    HALVES.hold(to_halves, lib, "dtypes", "layout", "device")
    takes(convert, checkpoint(range(3), 3, 1, 6, False, 120), None, False)
    takes(convert, checkpoint([], 3, 1, 6, False, 119), None, False)
    tied = checkpoint([0, 11, 1, 40, 2], 4, 2, 6, True, 160)
    for table in (TABLE, "model.rotary_emb.inv_freq"):
        names_are_right(convert({**tied, table: torch.ones(3)}), converted(tied), True)
    takes(convert, tied, None, True)
    takes(convert, checkpoint([1, 0], 3, 1, 6, False, 230), 6, False)
    takes(convert, {name: weight.bfloat16() for name, weight in checkpoint([0], 4, 2, 6, True, 260).items()}, 6, True)
    left_over = (
        *("model.layers.0.self_attn.q_proj.bias", "model.layers.1.mlp.experts.weight", "vision.weight"),
        *("encoder.layers.0.mlp.up_proj.weight", "model.layers.x.mlp.up_proj.weight", "model.layers.0.rotary.weight"),
        *("model.extra_norm.weight", "model.layers.0.extra_norm.weight", "draft.lm_head.weight", "vision.inv_freq"),
        *("draft.model.norm.weight", "model.layers.1.mlp.up_proj.extra.weight", "model.layers.1.mlp.up_proj.weight_"),
        *("model.norm.weight.bias", "model.layers.0xmlp.up_proj.weight", "model_layers.0.mlp.up_proj.weight"),
        "lm_head_weight",
    )
    for name in left_over:
        state = {**checkpoint([0, 1], 3, 1, 6, False, 290), name: torch.ones(4)}
        told = f"a file with `{name}` must be refused with ValueError: that name has no place in the model."
        expect.refuses(convert, state, says=told)


# 14.8

Pair = tuple[int, int]
Merges = Sequence[Sequence[int]]
WORDS = ("low", "lower", "newest", "aaaaa", "aa", "banana", "naïve", "é", "😀", "😀😃", "\n", " ", "\t", "don't", "x")


def text_of(seed: int, n: int) -> str:
    """A text of n letters: words drawn for each submission, also such as take several bytes a letter."""
    return text_drawn(expect.mixed(seed), n)


@lru_cache(256)  # each question of a contract asks for the texts of its cases several times
def text_drawn(seed: int, n: int) -> str:
    """The text of n letters of a seed that is mixed with the submission's key already."""
    some, text = random.Random(seed), ""
    while len(text) < n:
        text += some.choice(WORDS) + some.choice((" ", " ", " ", "", "  "))
    return text[:n]


def joined(tokens: Sequence[int], pair: Sequence[int], new: int, last_first: bool = False) -> list[int]:
    """The tokens with `new` in place of each such pair, from the first to the last one."""
    if last_first:
        return joined(tokens[::-1], pair[::-1], new)[::-1]
    found: list[int] = []
    for token in tokens:
        found.append(token)
        if found[-2:] == [*pair]:
            found[-2:] = [new]
    return found


def neighbours(tokens: Sequence[int], apart: bool = False) -> Iterator[Pair]:
    """All pairs of neighbours in a piece; those that stand apart if `apart`, so that (a, a) is once in aaa."""
    taken = False
    for place, pair in enumerate(itertools.pairwise(tokens)):
        taken = apart and taken and pair == (tokens[place - 1], tokens[place])
        if not taken:
            yield pair
        taken = not taken


def cut(text: str) -> list[str]:
    """The pieces of a text."""
    return re.findall(PIECES, text)


def learned(
    text: str,
    merges: int,
    *,
    pieces: Callable[[str], list[str]] = cut,
    numbers: Callable[[str], list[int]] = lambda piece: [*piece.encode()],
    order: Callable[[Pair, int], Any] = lambda pair, first: pair,
    apart: bool = False,
    last_first: bool = False,
    least: int = 1,
    start: int = 256,
    once: bool = False,
) -> list[Pair]:
    """The merges of a text, piece by piece as they are in it; with mistakes on request.

    `order` gives what decides between equally frequent pairs, from a pair and the place where it is met first; `once`
    says whether the pairs are counted at the start alone.
    """
    words = [numbers(piece) for piece in pieces(text)]
    found: list[Pair] = []
    counts = Counter[Pair]()
    while len(found) < merges:
        if not (once and found):
            counts = Counter(pair for word in words for pair in neighbours(word, apart))
        places = {pair: place for place, pair in enumerate(counts)}
        known = [pair for pair in counts if counts[pair] >= least and not (once and pair in found)]
        if not known:
            break
        best = min(known, key=lambda pair: (-counts[pair], order(pair, places[pair])))
        words = [joined(word, best, start + len(found), last_first) for word in words]
        found.append(best)
    return found


@lru_cache(256)
def known_merges(text: str, merges: int) -> tuple[Pair, ...]:
    """The merges of a text, which several questions of one check need."""
    return tuple(learned(text, merges))


def merges_of(text: str, merges: int) -> list[list[int]]:
    """The merges of a text as a list of lists, which is new each time."""
    return [[*pair] for pair in known_merges(text, merges)]


TRAINS = Contract(
    "train_bpe(text, merges)",
    sizes={"merges": (0, 12, 300), "_n": (0, 60, 20000)},
    text=lambda toys, seed, _n: text_of(seed, _n),
    gives="the merges: list",
    right=lambda text, merges: [*known_merges(text, merges)],
)


def learns_these(train_bpe: Remote, text: str, merges: int) -> None:
    """Fail unless these are the merges of a text."""
    found = expect.of_type(train_bpe(text, merges), list, "`train_bpe` should return a list of pairs")
    for one in found:
        fits = type(one) is list and len(one) == 2 and all(type(number) is int for number in one)
        came = repr(one)[:60] if type(one) is list else kind(one)
        assert fits, f"each merge should be a pair of token numbers, two ints. One is {came}."
    wanted, pairs = [*known_merges(text, merges)], [(one[0], one[1]) for one in found]
    if pairs == wanted:
        return
    guesses: dict[str, dict[str, Any]] = {
        "of equally frequent pairs, the larger one is taken. Take the smaller one.": {
            "order": lambda pair, first: (-pair[0], -pair[1])
        },
        "of equally frequent pairs, the one that is met first is taken. Take the smaller one.": {
            "order": lambda pair, first: first
        },
        "of equally frequent pairs, the one that is met last is taken. Take the smaller one.": {
            "order": lambda pair, first: -first
        },
        "of equally frequent pairs, the smaller one as text is taken. Compare pairs of numbers.": {
            "order": lambda pair, first: str(pair)
        },
        "pairs are counted across the ends of pieces. No token should cross them.": {"pieces": lambda text: [text]},
        "each piece is counted only once, however often it is in the text.": {
            "pieces": lambda text: [*dict.fromkeys(cut(text))]
        },
        "the spaces are lost. A piece should keep the space before its word.": {"pieces": str.split},
        "these are numbers of letters. Tokens should be made of bytes, which `text.encode()` gives.": {
            "numbers": lambda piece: [*map(ord, piece)]
        },
        "in `aaa`, the pair (a, a) is counted once. It occurs twice.": {"apart": True},
        "in `aaa`, the last two letters are joined. Join from left to right.": {"last_first": True},
        "pairs that the text has only once are never joined. They should be, if there are no others.": {"least": 2},
        "the first new token is 257. It should be 256.": {"start": 257},
        "pairs are counted only at the start. Count again after each merge, with the new token.": {"once": True},
    }
    mistakes = dict[str, list[Pair]]()
    for told, how in guesses.items():  # merges come in turn: where the first ones differ, no others are needed
        first = learned(text, min(merges, 8), **how)
        mistakes[told] = learned(text, merges, **how) if first == pairs[:8] else first
    told = "the pairs are in another order. Return them as they were learned, the first merge first."
    mistakes[told] = next((some for some in (sorted(wanted), wanted[::-1]) if some == pairs), wanted)
    expect.explained(pairs, wanted, what_is_wrong(text, merges, pairs, wanted), mistakes)


def what_is_wrong(text: str, merges: int, pairs: Sequence[Pair], wanted: Sequence[Pair]) -> str:
    """Where these pairs leave the right ones, in a sentence."""
    both = [*zip(pairs, wanted, strict=False)]
    same = next((place for place, (one, other) in enumerate(both) if one != other), len(both))
    if same == len(pairs):
        return f"with {merges} merges asked for, only {same} are returned, although there are pairs left to join."
    if same == merges:
        return f"with {merges} merges asked for, {len(pairs)} are returned."
    words = [[*piece.encode()] for piece in cut(text)]
    for place, pair in enumerate(wanted[:same]):
        words = [joined(word, pair, 256 + place) for word in words]
    counts = Counter(pair for word in words for pair in neighbours(word))
    count = counts[pairs[same]]
    if count and count == max(counts.values()):
        return "of equally frequent pairs, the wrong one is taken. Take the smaller one, as Python compares pairs."
    if sorted(pairs) == sorted(wanted):
        return "the pairs are in another order. Return them as they were learned, the first merge first."
    why = "is not the most frequent pair" if count else "is not a pair that occurs then"
    shown = f"`{text!r}`" if len(text) <= 40 else f"a text that begins with `{text[:40]!r}`"
    return f"of the merges of {shown}, {same} are right, and the next one {why}."


def encoded(text: str, merges: Merges) -> list[int]:
    """The tokens of a text, by the tokenizers library."""
    return ByteLevel.of(merges).encode(text)


ENCODES = Contract(
    "encode(text, merges)",
    sizes={"_n": (0, 60, 30000), "_m": (0, 20, 300)},
    text=lambda toys, seed, _n: text_of(seed, _n),
    merges=lambda toys, seed, _m: merges_of(text_of(seed + 1, 400), _m),
    gives="the tokens: list",
    right=encoded,
    through="Paired",
    toys=toys,
)


def longest_first(piece: str, merges: Merges) -> list[int]:
    """The tokens of a piece if from left to right the longest one is taken that fits."""
    words, data, found = token_bytes(merges), piece.encode(), list[int]()
    while data:
        number = max(range(len(words)), key=lambda number: (data.startswith(words[number])) * len(words[number]))
        found.append(number)
        data = data[len(words[number]) :]
    return found


def first_place(piece: str, merges: Merges) -> list[int]:
    """The tokens of a piece if the pair that comes first in it is joined, whatever its rank."""
    tokens, known = [*piece.encode()], [(one[0], one[1]) for one in merges]
    while True:
        place = next((k for k, pair in enumerate(neighbours(tokens)) if pair in known), None)
        if place is None:
            return tokens
        tokens[place : place + 2] = [256 + known.index((tokens[place], tokens[place + 1]))]


def by_rank(
    piece: str, merges: Merges, start: int = 256, last_first: bool = False, numbers: Callable = str.encode
) -> list[int]:
    """The tokens of a piece: one merge after the other, each wherever its pair stands."""
    tokens = [*numbers(piece)]
    for rank, pair in enumerate(merges):
        tokens = joined(tokens, pair, start + rank, last_first)
    return tokens


def worst_first(piece: str, merges: Merges) -> list[int]:
    """The tokens of a piece if what was learned last is joined first."""
    tokens, known = [*piece.encode()], [(one[0], one[1]) for one in merges]
    while True:
        rank = max((known.index(pair) for pair in neighbours(tokens) if pair in known), default=None)
        if rank is None:
            return tokens
        tokens = joined(tokens, known[rank], 256 + rank)


def many_merges(seed: int, count: int) -> list[Pair]:
    """So many merges of two letters each, drawn for each submission."""
    pairs = [(ord(one), ord(other)) for one in "abcdefghijklmnopqrst" for other in "abcdefghijklmnopqrst"]
    return expect.draw(seed).sample(pairs, count)


def gives_tokens(encode: Remote, lib: Library, text: str, merges: Merges) -> None:
    """Fail unless these are the tokens of a text."""
    found = lib(toys).Paired(encode)(text, [[*pair] for pair in merges])
    expect.of_type(found, list, "`encode` should return a list of token numbers")
    strange = next((item for item in found if type(item) is not int), None)
    assert strange is None, f"the list that `encode` returns should hold ints, not {kind(strange)}."
    if found == encoded(text, merges):
        return

    def each(rule: Callable[..., list[int]], pieces: Callable[[str], list[str]] = cut, **how: Any) -> list[int]:
        return [number for piece in pieces(text) for number in rule(piece, merges, **how)]

    guesses: dict[str, Callable[[], list[int]]] = {
        "these are the bytes alone: no pair is joined.": lambda: [*text.encode()],
        "the spaces are lost. A piece should keep the space before its word.": lambda: each(by_rank, str.split),
        "tokens cross the ends of pieces. Cut the text with `pieces` first.": lambda: each(
            by_rank, lambda text: [text]
        ),
        "the pair that comes first in the piece is joined first. Join the one that was learned first.": lambda: each(
            first_place
        ),
        "the pair that was learned last is joined first. Join the one that was learned first.": lambda: each(
            worst_first
        ),
        "the longest token that fits is taken, from left to right. Join pairs in the order of the merges.": lambda: (
            each(longest_first)
        ),
        "in `aaa`, the last two letters are joined. Join from left to right.": lambda: each(by_rank, last_first=True),
        "the first merge makes token 257. It should be 256.": lambda: each(by_rank, start=257),
        "the first merge makes token 0, which is a byte. It should be 256.": lambda: each(by_rank, start=0),
        "these are numbers of letters. Tokens should be made of bytes, which `text.encode()` gives.": lambda: each(
            by_rank, numbers=lambda piece: [*map(ord, piece)]
        ),
    }
    told = "the tokens stand for the right bytes, but they are not those that the tokenizers library gives."
    words = token_bytes(merges)
    text_again = b"".join(words[one] for one in found if 0 <= one < len(words))
    if text_again != text.encode():
        told = f"the tokens do not stand for the bytes of the text. {apart(text_again, text)}"
    elif not {*neighbours(found)}.isdisjoint(map(tuple, merges)):
        told = "the tokens stand for the right bytes, but pairs are left that should be joined."
    expect.explained(found, encoded(text, merges), told, {told: guess() for told, guess in guesses.items()})


def apart(found: bytes, text: str) -> str:
    """A sentence about the first byte at which the bytes of tokens and those of a text differ."""
    right = text.encode()
    place = next((k for k, (one, other) in enumerate(zip(found, right, strict=False)) if one != other), None)
    if place is None:
        return f"They stand for {len(found)} bytes, and the text has {len(right)}."
    return f"Byte {place} is {found[place]}, and {right[place]} is right."


def token_bytes(merges: Merges) -> list[bytes]:
    """The bytes that each token stands for."""
    words = [bytes([byte]) for byte in range(256)]
    for left, right in merges:
        words.append(words[left] + words[right])
    return words


def decoded(numbers: Sequence[int], merges: Merges) -> str:
    """The text of these tokens."""
    words = token_bytes(merges)
    return b"".join(words[number] for number in numbers).decode(errors="replace")


DECODES = Contract(
    "decode(numbers, merges)",
    sizes={"_n": (0, 40, 20000), "_m": (0, 20, 300)},
    merges=lambda toys, seed, _m: merges_of(text_of(seed, 400), _m),
    numbers=lambda toys, seed, _n, _m: some_numbers(seed, _n, _m),
    gives="the text: text",
    right=decoded,
    through="Paired",
    toys=toys,
)


def some_numbers(seed: int, n: int, m: int) -> list[int]:
    """n tokens of the merges that DECODES has for this seed, most of them no text."""
    most = 256 + len(known_merges(text_of(seed, 400), m))
    return [expect.draw(1000 * seed + place).randrange(most) for place in range(min(n, 60))] * -(-n // 60)


def chain(count: int) -> list[list[int]]:
    """Merges after a first one, each of the token before it and the letter b."""
    return [[256 + place, 98] for place in range(count - 1)]


def gives_text(decode: Remote, lib: Library, numbers: Sequence[int], merges: Merges) -> None:
    """Fail unless this is the text of these tokens."""
    paired, words = lib(toys).Paired(decode), token_bytes(merges)
    whole = b"".join(words[number] for number in numbers)
    strict = "bytes that are not UTF-8 raise an error. They should become U+FFFD."
    if whole == whole.decode(errors="ignore").encode():
        strict = "bytes that are UTF-8 raise an error. Join the bytes of all tokens, then decode them as UTF-8."
    found = expect.answers(paired, [*numbers], [[*pair] for pair in merges], says=strict, kinds=("UnicodeDecodeError",))
    expect.of_type(found, str, "`decode` should return a text")
    expect.explained(
        found,
        decoded(numbers, merges),
        "the text is not the one that these tokens stand for.",
        {
            "the bytes of an unfinished letter at the end are left out. They should become U+FFFD.": (
                codecs.getincrementaldecoder("utf-8")("replace").decode(whole)
            ),
            "bytes that are not UTF-8 are left out. They should become U+FFFD.": whole.decode(errors="ignore"),
            "bytes that are not UTF-8 become escapes. They should become U+FFFD.": whole.decode(
                errors="backslashreplace"
            ),
            "each token is decoded by itself. A letter may be spread over several: join their bytes first.": "".join(
                words[number].decode(errors="replace") for number in numbers
            ),
            "each byte becomes a letter. The bytes of a letter belong together.": whole.decode("latin-1"),
            "there are spaces between the tokens. Tokens have their own spaces.": " ".join(
                words[number].decode(errors="replace") for number in numbers
            ),
            "the tokens come in the wrong order.": decoded([*numbers][::-1], merges),
            "spaces at the ends are lost.": decoded(numbers, merges).strip(),
        },
    )


def many_or_others(decode: Remote, lib: Library) -> str:
    """What raises an error where other merges than before are given, and thousands of them."""
    with contextlib.suppress(StudentError):
        if lib(toys).Paired(decode)([256], [[98, 99]]) == "bc":
            return "a token that is made of thousands of merges, each of the one before it, raises an error."
    return "with other merges than in an earlier call, there is an error or a wrong text: keep nothing between calls."


SEEN = "low lower lowest newer newest  wide wider naïve café\n😀 aaaa aaa"
UNSEEN = " lowest cafés,\n\n   naïvely 😃 aaaaa — straße\t日本 lowlow a"


@check("14.8", points=3, forbids=("import tokenizers", *MODELS))
def tokens(train_bpe, encode, decode, lib):
    """Check the merges of a text, its tokens against the tokenizers library's, and that they give the text again."""
    with part("train_bpe", 1):
        for text, merges in (
            ("hug hug hug pug pun bun hugs", 3),
            ("hug hug hug pug pun bun hugs", 6),
            ("aaaaa baaab aaa aaa", 4),
            ("ba dc ab", 2),
            ("zz yy zz a b a b a b", 3),
            ("é è é ê 😀 😃", 5),
            ("ab", 9),
            ("Ab ab AB aB Ab Ab", 4),
            ("a.b axb axb a.b a.c ayc", 6),
            (SEEN, 25),
        ):
            learns_these(train_bpe, text, merges)
        has_form(lib, "list[tuple[int, int]]", "the merges", train_bpe, SEEN, 4)
        TRAINS.hold(train_bpe, lib, "sizes", "memory")

    with part("encode", 1):
        merges = learned(SEEN, 25)
        first, other = [(99, 100), (98, 99), (97, 257), (97, 98)], [(98, 99), (97, 98), (99, 100), (98, 258)]
        gives_tokens(encode, lib, "abcd", first)  # abc is never made
        told = "a text that was encoded before gets the tokens of that call, although the merges are others."
        assert lib(toys).Paired(encode)("abcd", [[*pair] for pair in other]) != encoded("abcd", first), told
        gives_tokens(encode, lib, "abcd", other)  # bc comes first
        for text in ("newest", "aaaaa", "a low low", "naïve 😀", "e\u0301 \ufeffA", UNSEEN):
            gives_tokens(encode, lib, text, merges)
        gives_tokens(encode, lib, "\x0b\x02\x01\x02", [(1, 2)])
        has_form(lib, "list[int]", "the result of `encode`", lib(toys).Paired(encode), "abcd", [[98, 99]])
        told = "a piece of thousands of bytes raises an error."
        long = expect.answers(lib(toys).Paired(encode), "x" + "ab" * 1500, [[97, 98]], says=told)
        assert long == [120] + [256] * 1500, "for a piece of thousands of bytes, the tokens are wrong."
        ENCODES.hold(encode, lib, "sizes", "memory")

    with part("decode", 1):
        merges = learned(SEEN, 25)
        for text in ("newest", " naïve 😀", "\ufeffA e\u0301", UNSEEN):
            gives_text(decode, lib, encoded(text, merges), merges)
        gives_text(decode, lib, [240, 159, 152], merges)
        gives_text(decode, lib, [97, 195, 32, 169, 255, 98], merges)
        long = expect.answers(
            lib(toys).Paired(decode), [256 + 1999], [[97, 98], *chain(2000)], says=partial(many_or_others, decode, lib)
        )
        assert long == "a" + "b" * 2000, "a token that is made of thousands of merges is not the text it stands for."
        DECODES.hold(decode, lib, "sizes", "memory")


# 14.S1


def rows_of(table: torch.Tensor, seed: int, share: float) -> torch.Tensor:
    """A table whose best token is that of `table` in about this share of the rows, and another one in the others."""
    other = table.clone()
    for row in range(len(table)):
        if torch.rand(1, generator=expect.generator(seed + row)).item() > share:
            other[row] = table[row].roll(1)
    return other


def calls_needed(table: torch.Tensor, draft: torch.Tensor, prompt: list[int], max_new: int, k: int) -> int:
    """How many calls of the large model the rule needs."""
    text, end, calls = list(prompt), len(prompt) + max_new, 0
    while len(text) < end:
        guesses = greedy(draft, text, min(k, end - len(text) - 1))[len(text) :]
        calls += 1
        for guess in [*guesses, None]:
            text = greedy(table, text, 1)
            if guess != text[-1]:
                break
    return calls


@stretch("14.S1", forbids=MODELS)
def speculative(speculative, lib):
    """The greedy text to the last token, in as many calls of the large model as the rule needs."""
    for seed, share, k, max_new in ((2, 0.0, 3, 7), (1, 1.0, 4, 12), (3, 0.7, 4, 23), (4, 0.6, 2, 1), (5, 0.8, 5, 30)):
        table = normal(17, 9, seed=300 + seed)
        guesser = rows_of(table, 400 + 20 * seed, share)
        model, draft, prompt = lib(toys).Writer(table), lib(toys).Writer(guesser), [seed, 8, 5]
        model.eval()
        draft.eval()
        text = written(speculative(model, draft, prompt, max_new, k), prompt, max_new, "speculative")
        own = greedy(guesser, prompt, max_new)
        wanted = greedy(table, prompt, max_new)
        assert text == wanted or text != own, "this is the text of the draft. The large model should decide."
        told = "gradients are recorded while the models are called. They should not be."
        assert text == wanted or all(mood < 2 for mood in read(model.moods)), told
        told = (
            "the text is not the greedy one of the large model: it has a token that the model would not have written."
        )
        assert text == wanted, told
        fed, needed = read(model.fed), calls_needed(table, guesser, prompt, max_new, k)
        assert len(fed) < max_new or needed >= max_new, (
            "the large model is called at least once for each token, so nothing is gained."
        )
        told = "the large model is called more often than the rule needs. A call gives all guesses that agree, and one "
        told += "token more."
        assert len(fed) <= needed, told
        assert len(fed) >= needed, "the large model is called too rarely to have checked every token."


# 14.S2


def kept_shares(
    logits: torch.Tensor,
    top_p: float = 1.0,
    min_p: float = 0.0,
    *,
    whole: bool = False,
    more: int = 0,
    tie: int = 1,
    divided: bool = True,
    together: bool = False,
    after: bool = False,
) -> torch.Tensor:
    """The shares of tokens, token by token; with mistakes on request.

    `whole` compares min_p with probabilities themselves; `more` tokens are kept beyond those of top_p; `tie` is -1 if
    larger numbers come first; `divided` says whether the shares are divided by their sum, `together` whether all rows
    have the order of the first one, `after` whether top_p looks at what min_p left.
    """
    rows = []
    first = logits.reshape(-1, logits.size(-1))[:1].double().softmax(-1)
    for row in logits.reshape(-1, logits.size(-1)):
        p = row.double().softmax(-1)
        bound = min_p if whole else min_p * float(p.max())
        by_min = [token for token in range(len(p)) if p[token] >= bound]
        summed = p / p[by_min].sum() if after else p
        base = first[0] if together else p
        order = sorted(by_min if after else range(len(p)), key=lambda token: (-float(base[token]), tie * token))
        total, kept = 0.0, list[int]()
        for token in order:
            if total >= top_p and top_p < 1:
                break
            kept.append(token)
            total += float(summed[token])
        kept = order[: max(len(kept) + more, 0)] if top_p < 1 else kept
        found = torch.zeros_like(p)
        stays = [token for token in kept if token in by_min]
        found[stays] = p[stays]
        rows.append(found / found.sum() if divided else found)
    return torch.stack(rows).reshape(logits.shape).to(logits.dtype)


SHARES = Contract(
    "shares(logits, top_p, min_p)",
    sizes={"V": (1, 9, 600), "_p": (1, 9), "_m": (0, 9)},
    logits="floats (..., V)",
    top_p="= _p / 10 + 0.0123",
    min_p="= _m / 20 + 0.0041",
    gives="the shares: as logits (..., V)",
    right=kept_shares,
    low=False,
)


def outside(tokens: torch.Tensor, logits: torch.Tensor, generator: torch.Generator, top_p: float, min_p: float) -> str:
    """What is wrong with tokens that were drawn: one that is left out, or "" if there is none."""
    p = kept_shares(logits, top_p, min_p)
    left_out = bool((p.gather(-1, tokens.unsqueeze(-1)) == 0).any())
    return "a token is drawn that should be left out." if left_out else ""


DRAWS_OF = Contract(
    "draw(logits, generator, top_p, min_p)",
    sizes={"B": (2, 5), "V": (5, 9), "_p": (8, 9), "_m": (0, 1)},
    logits="floats (B, V)",
    generator="generator",
    top_p="= _p / 10 + 0.0123",
    min_p="= _m / 20 + 0.0041",
    gives="the tokens: int64 (B)",
    fits=outside,
    pairs={"the tokens of two rows depend on each other.": lambda tokens, *given: [(int(tokens[0]), int(tokens[1]))]},
)


def keeps_these(shares: Remote, logits: torch.Tensor, **how: float) -> None:
    """Fail unless these are the shares for these options."""
    wanted = kept_shares(logits, **how)
    guesses: dict[str, Callable[[], torch.Tensor]] = {
        "nothing is left out.": lambda: logits.softmax(-1),
        "`top_p` looks at what `min_p` left. Both should look at softmax(logits).": lambda: kept_shares(
            logits, **how, after=True
        ),
        "the shares that are left do not sum to 1.": lambda: kept_shares(logits, **how, divided=False),
        "the token with which the sum reaches `top_p` is left out. It should stay.": lambda: kept_shares(
            logits, **how, more=-1
        ),
        "a token too many is kept: the sum before it is `top_p` already.": lambda: kept_shares(logits, **how, more=1),
        "of equally likely tokens those with larger numbers stay. Keep the smaller ones.": lambda: kept_shares(
            logits, **how, tie=-1
        ),
        "`min_p` is compared with the probabilities. Compare them with `min_p` times the largest one.": lambda: (
            kept_shares(logits, **how, whole=True)
        ),
        "all rows keep the tokens of the first one. Each row should have its own.": lambda: kept_shares(
            logits, **how, together=True
        ),
        "`min_p` is not used.": lambda: kept_shares(logits, **{**how, "min_p": 0.0}),
        "`top_p` is not used.": lambda: kept_shares(logits, **{**how, "top_p": 1.0}),
    }
    known = {told: guess for told, guess in guesses.items() if not bool((guess() - wanted).abs().max() < 1e-6)}
    told = f"the shares for {', '.join(f'{name} = {value:g}' for name, value in how.items())} are wrong."
    expect.like(expect.floats(shares(logits, **how), tuple(logits.shape), "the shares"), wanted, told, known, 1e-5)


@stretch("14.S2", forbids=MODELS)
def sampling(shares, draw, lib):
    """Top-p and min-p, row by row, ties by number, never nothing left; draws with these shares, each by itself."""
    promised(NAN)
    p = torch.tensor([[0.05, 0.4, 0.1, 0.25, 0.2], [0.3, 0.05, 0.15, 0.1, 0.4]])
    for how in ({"top_p": 0.6}, {"min_p": 0.28}, {"top_p": 0.8, "min_p": 0.56}, {"top_p": 0.72, "min_p": 0.45}):
        keeps_these(shares, p.log(), **how)
    keeps_these(shares, p.log()[0], top_p=0.6)
    keeps_these(shares, torch.zeros(3, 8), top_p=0.45)
    keeps_these(shares, torch.zeros(3, 8), min_p=1.0)
    told = "with a tiny `top_p`, no token is left. The most likely one should always stay."
    tiny = shares(p.log(), top_p=1e-6)
    assert not tiny.isnan().any() and bool(tiny.any()), told
    keeps_these(shares, p.log(), top_p=1e-6)
    tail = torch.cat([torch.zeros(1), torch.full((4,), -19.0)])
    told = (
        "with `top_p` = 1, unlikely tokens are left out. All should stay, also where the sum rounds to 1 before them."
    )
    assert bool(shares(tail, top_p=1.0).all()) and bool(shares(tail).all()), told
    SHARES.hold(shares, lib, "sizes", "large", "dtypes", "layout", "memory", "device")
    rows = p.log().repeat(4000, 1)
    seed = lib(torch).Generator().manual_seed(14)
    tokens = expect.tensor(draw(rows, seed, top_p=0.8), (8000,), "the tokens")
    assert tokens.dtype is torch.int64, f"the tokens are {tokens.dtype}, not int64."
    for row, wanted in enumerate(kept_shares(p.log(), 0.8)):
        counts = tokens[row::2].bincount(minlength=5)
        for token, share in enumerate(wanted.tolist()):
            told = "the tokens are not drawn with the shares of their own row."
            expect.likely(int(counts[token]), 4000, share, told)
    DRAWS_OF.hold(draw, lib, "sizes", "memory", "draws", "device")
