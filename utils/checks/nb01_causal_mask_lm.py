"""Checks of notebook 01: attention, mask, layer, vocabulary, language model, loss, training, writing, counting."""

import builtins
import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F

from utils.checks import nb01_toys as toys
from utils.grading import expect, probes
from utils.grading.check import check
from utils.grading.contract import Contract, model_kept, world_kept
from utils.grading.expect import normal
from utils.grading.forbidden import MODELS
from utils.grading.remote import INFINITY, Library, Remote, kind, name_of, promised, read, size
from utils.positions import add_positions


def future(T: int) -> torch.Tensor:
    """True where the key (a column) comes after the query (a row), by comparing places."""
    return torch.arange(T)[None, :] > torch.arange(T)[:, None]


def hidden(T: int) -> torch.Tensor:
    """The causal mask, place by place."""
    return torch.zeros(T, T).masked_fill(future(T), -torch.inf)


# 1.1


def attended(call: Remote, q, k, v, *mask) -> tuple[torch.Tensor, torch.Tensor]:
    """What the student's attention gives: output and weights, of the right shapes."""
    result = call(q, k, v, *mask)
    expect.items(result, 2, "`attention` should return two tensors, output and weights")
    weights = expect.floats(result[1], (*q.shape[:-1], k.size(-2)), "the second result (weights)")
    return expect.floats(result[0], (*q.shape[:-1], v.size(-1)), "the first result (output)"), weights


def weights_of(q, k, mask=None, scale=None) -> torch.Tensor:
    """Torch's attention weights: what its attention returns when each value marks its key."""
    marks = torch.eye(k.size(-2), dtype=k.dtype).expand(*k.shape[:-1], k.size(-2))
    return F.scaled_dot_product_attention(q, k, marks, attn_mask=mask, scale=scale)


ATTENTION = Contract(
    "attention(q, k, v, mask)",
    sizes={"T": (1, 8, 600), "S": (1, 8, 1100), "d": (1, 9, 300), "d_v": (1, 9, 300)},
    q="floats (..., T, d)",
    k="floats (..., S, d)",
    v="floats (..., S, d_v)",
    mask="floats (T, S) or None",
    gives="the output: as q (..., T, d_v); the weights: as q (..., T, S)",
    right=lambda q, k, v, mask: (weights_of(q, k, mask) @ v, weights_of(q, k, mask)),
    learns="q k v mask",
)


@check(
    "1.1",
    points=2,
    forbids=(
        *("scaled_dot_product_attention", "MultiheadAttention", "multi_head_attention_forward", "flex_attention"),
        *MODELS,
    ),
)
def attention(attention, lib):
    """Check scaled dot-product attention, its weights, and a mask that is added before the softmax."""
    outputs = []
    for seed, (T, S, d) in ((5, (6, 3, 9)), (0, (5, 7, 4))):
        q, k, v = normal(2, 3, T, d, seed=seed), normal(2, 3, S, d, seed=seed + 1), normal(2, 3, S, 8, seed=seed + 2)
        output, weights = attended(attention, q, k, v)
        scores = q @ k.mT / d**0.5
        over_queries = weights_of(q, k).log() + scores.logsumexp(-1, keepdim=True) - scores.logsumexp(-2, keepdim=True)
        expect.like(
            weights,
            weights_of(q, k),
            "the weights are not softmax(Q K^T / sqrt(d)).",
            {
                "the scores are not divided by sqrt(d).": weights_of(q, k, scale=1.0),
                "the scores are divided by d. They should be divided by its square root.": weights_of(
                    q, k, scale=1 / d
                ),
                "the scores are multiplied by sqrt(d). They should be divided by it.": weights_of(q, k, scale=d**0.5),
                "the scores are divided by the root of the number of keys, not of the width.": weights_of(
                    q, k, scale=S**-0.5
                ),
                "the scores are divided by the root of the number of queries, not of the width.": weights_of(
                    q, k, scale=T**-0.5
                ),
                "the scores are divided by the root of the width of the values, not of the queries.": weights_of(
                    q, k, scale=8**-0.5
                ),
                (
                    "the weights of a query should sum to one over the keys. Here the "
                    "weights of a key sum to one over the queries."
                ): (over_queries.exp()),
                "the scores are returned as weights. The softmax is missing.": scores,
            },
        )
        outputs.append((output, weights_of(q, k) @ v))
    for output, wanted in outputs:
        expect.close(output, wanted, "the output is not the sum of the values, each times its weight.")

    mask = hidden(5)
    q, k, v = q[0, 0], k[0, 0, :5], v[0, 0, :5]
    bias = normal(5, 5, seed=3)
    for told, added in (("0 and -inf", mask), ("finite numbers", bias)):
        result = attention(q, k, v, added)
        if type(result) is list and len(result) == 2 and type(result[1]) is torch.Tensor and result[1].isnan().any():
            raise AssertionError(
                f"the weights are NaN under a mask of {told} (is it added to the scores, and can the softmax take it?)."
            )
    _, weights = attended(attention, q, k, v, mask)
    assert (weights[future(5)] == 0).all(), (
        "a key whose mask entry is -inf should have weight 0, but here some such key has another weight."
    )
    expect.like(
        attended(attention, q, k, v, bias)[1],
        weights_of(q, k, bias),
        "with a mask, the weights are not softmax(Q K^T / sqrt(d) + M).",
        {
            "finite numbers in the mask are ignored. They should be added to the scores.": weights_of(q, k),
            "the mask is divided by sqrt(d) too. Add it after the division.": weights_of(q, k, bias / 2),
            "the mask is subtracted.": weights_of(q, k, -bias),
            "the mask is used as true or false. It holds numbers to add to the scores.": (
                weights_of(q, k, torch.where(bias == 0, 0.0, -torch.inf)).nan_to_num()
            ),
            "the mask is added after the softmax. The rows no longer sum to one.": weights_of(q, k) + bias,
        },
    )
    ATTENTION.hold(attention, lib, "layout", "device")


# 1.2


MASK = Contract(
    "causal_mask(T)",
    sizes={"T": (1, 90, 530)},
    gives="the mask: float (T, T)",
    right=hidden,
    infinite=True,
)


@check("1.2", points=2, forbids=("generate_square_subsequent_mask", "CausalBias", "causal_upper_left", *MODELS))
def causal_mask(causal_mask):
    """Check the additive (T, T) mask: 0 where query i may read key j, -inf where it may not."""
    promised(INFINITY)
    mask = expect.tensor(causal_mask(4), (4, 4), "`causal_mask(4)`")
    assert mask.is_floating_point(), (
        f"the mask is {mask.dtype}. It is added to the scores, so it must hold floats that are 0 or -inf."
    )
    assert not mask.isnan().any(), "the mask contains NaN, which 0 times -inf gives, and -inf minus -inf too."
    later = future(4)
    assert not mask.isposinf().any(), "the mask contains +inf. A hidden key needs minus infinity."
    assert not mask.diagonal().isinf().any(), (
        "the diagonal has -inf. Query i may read key i, so the diagonal should be 0."
    )
    assert not torch.equal(mask.float(), hidden(4).mT), (
        "the past is hidden and the future is visible. Rows are queries, columns are keys."
    )
    assert not mask[~later].isinf().any(), "some of the past is hidden. Every earlier key may be read."
    assert (mask[~later] == 0).all(), "where the key is not later than the query, the mask must be exactly 0."
    assert (mask[later] != 0).all(), "some of the future is visible: above the diagonal, some entries are 0."
    assert mask[later].isneginf().all(), (
        "some entries above the diagonal are finite. They must be -inf: a large score can outweigh any finite number."
    )
    for T in (1, 5):
        mask = expect.tensor(causal_mask(T), (T, T), f"`causal_mask({T})`")
        assert torch.equal(mask.float(), hidden(T)), f"the mask is right for 4 tokens and wrong for {T}."


# 1.3

PROJECTIONS = ("q_proj", "k_proj", "v_proj", "out_proj")


def torch_heads(state: dict[str, torch.Tensor], x, n_heads: int, mask=None) -> torch.Tensor:
    """What torch's multi-head attention gives with these weights."""
    layer = bare_heads(x.size(-1), n_heads)
    weights = {
        "in_proj_weight": torch.cat([state[f"{name}.weight"] for name in PROJECTIONS[:3]]),
        "in_proj_bias": torch.cat([state[f"{name}.bias"] for name in PROJECTIONS[:3]]),
        "out_proj.weight": state["out_proj.weight"],
        "out_proj.bias": state["out_proj.bias"],
    }
    return functional_call(layer, weights, (x, x, x), {"attn_mask": mask})[0]


@cache
def bare_heads(width: int, n_heads: int) -> nn.MultiheadAttention:
    """Torch's multi-head attention without weights: `functional_call` brings them."""
    return nn.MultiheadAttention(width, n_heads, batch_first=True, device="meta")


def heads_shapes(width: int) -> dict[str, tuple[int, ...]]:
    """The parts of a `MultiHeadAttention` of that width."""
    return {
        f"{name}.{part}": shape
        for name in PROJECTIONS
        for part, shape in (("weight", (width, width)), ("bias", (width,)))
    }


HEADS = Contract(
    "MultiHeadAttention(H * w, H)(x, mask)",
    sizes={"H": (1, 5, 33), "w": (1, 4, 70), "B": (1, 6), "T": (1, 8, 300)},
    x="floats (B, T, H * w)",
    mask="floats (T, T) or None",
    gives="the output: as x (B, T, H * w)",
    weights=lambda width, heads: heads_shapes(width),
    right=lambda state, width, heads, x, mask: torch_heads(state, x, heads, mask),
    low=False,
    refuses=("MultiHeadAttention((H + 1) * w + 1, H + 1)(x)", "MultiHeadAttention(w, H + w)(x)"),
    learns="x mask",
)


def cut_and_joined(
    state: dict[str, torch.Tensor],
    x: torch.Tensor,
    cut: Callable[[torch.Tensor], torch.Tensor],
    join: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Attention with these weights, where `cut` makes heads of a projection, and `join` undoes it."""
    q, k, v = (cut(F.linear(x, state[f"{name}.weight"], state[f"{name}.bias"])) for name in PROJECTIONS[:3])
    together = join(F.scaled_dot_product_attention(q, k, v))
    return F.linear(together, state["out_proj.weight"], state["out_proj.bias"])


def attends_in_heads(layer: Remote, state: dict[str, torch.Tensor], x: torch.Tensor, heads: int) -> None:
    """Fail unless the output for x is that of torch's multi-head attention with these weights."""
    B, T, width = x.shape
    output, wanted = expect.floats(layer(x), (B, T, width), "the output"), torch_heads(state, x, heads)
    order = torch.arange(width).reshape(-1, heads).T.flatten()  # interleaved heads as contiguous ones
    interleaved = {
        name: value if name == "out_proj.bias" else value[:, order] if name == "out_proj.weight" else value[order]
        for name, value in state.items()
    }
    scaled = {
        share: {**state, **{f"q_proj.{part}": state[f"q_proj.{part}"] * share**0.5 for part in ("weight", "bias")}}
        for share in (heads / width, 1 / heads, width / heads)
    }
    swapped = {
        **state,
        **{f"{a}_proj.{p}": state[f"{b}_proj.{p}"] for a, b in ("qk", "kq") for p in ("weight", "bias")},
    }
    turned = {
        **state,
        **{f"{a}_proj.{p}": state[f"{b}_proj.{p}"] for a, b in ("kv", "vk") for p in ("weight", "bias")},
    }
    shared = {
        a + b: {**state, **{f"{b}_proj.{p}": state[f"{a}_proj.{p}"] for p in ("weight", "bias")}}
        for a, b in ("qk", "kq", "kv", "vk", "qv", "vq")
    }
    plain = {**state, "out_proj.weight": torch.eye(width), "out_proj.bias": torch.zeros(width)}
    expect.like(
        output,
        wanted,
        f"without a mask, the output is not `out_proj` of the {heads} joined heads, each of which attends with its own "
        "block of columns.",
        {
            "all heads attend as one. Each head should have attention weights of its own.": torch_heads(state, x, 1),
            "the heads are interleaved. Head h owns the h-th block of columns, not every n-th column.": torch_heads(
                interleaved, x, heads
            ),
            "the scores are divided by the root of d_model. A head is only d_head wide.": torch_heads(
                scaled[1 / heads], x, heads
            ),
            "the scores are divided by d_head. They should be divided by its root.": torch_heads(
                scaled[heads / width], x, heads
            ),
            "the scores are not divided by the root of d_head.": torch_heads(scaled[width / heads], x, heads),
            "without a mask, later tokens are hidden. Without a mask, every token should read all tokens.": torch_heads(
                state, x, heads, hidden(T)
            ),
            "the heads are mixed up. `reshape` alone cannot move the head axis in front of the token axis.": (
                cut_and_joined(state, x, lambda y: y.reshape(B, heads, T, -1), lambda y: y.reshape(B, T, width))
            ),
            "the heads are mixed up. They are transposed before they are joined, but not after they are cut.": (
                cut_and_joined(state, x, lambda y: y.reshape(B, heads, T, -1), lambda y: y.transpose(1, 2).flatten(2))
            ),
            "the heads are mixed up. Move the head axis behind the token axis before you join the heads.": (
                cut_and_joined(
                    state,
                    x,
                    lambda y: y.unflatten(-1, (heads, -1)).transpose(1, 2),
                    lambda y: y.reshape(B, T, width),
                )
            ),
            "attention runs over the heads of a token. Move the head axis in front of the token axis.": (
                cut_and_joined(state, x, lambda y: y.unflatten(-1, (heads, -1)), lambda y: y.flatten(2))
            ),
            "queries and keys are exchanged.": torch_heads(swapped, x, heads),
            "keys and values are exchanged.": torch_heads(turned, x, heads),
            **{
                f"`{a}_proj` is used where `{b}_proj` should be.": torch_heads(shared[a + b], x, heads)
                for a, b in ("qk", "kq", "kv", "vk", "qv", "vq")
            },
            "the output projection is missing: `out_proj` is never used.": torch_heads(plain, x, heads),
            "the bias of `out_proj` is missing.": wanted - state["out_proj.bias"],
            "the output has the input added to it. The residual belongs to the layer of 1.4.": wanted + x,
        },
    )


@check("1.3", points=3, forbids=("MultiheadAttention", "multi_head_attention_forward", *MODELS))
def multi_head_attention(MultiHeadAttention, lib):
    """Check that multi-head self-attention equals torch's with the same weights."""
    x, width, heads = normal(2, 5, 12, seed=4), 12, 3
    layer = MultiHeadAttention(width, heads)
    state = expect.weights(layer, heads_shapes(width), "`MultiHeadAttention(12, 3)`")
    output = expect.floats(layer(x), (2, 5, 12), "the output")
    assert torch.equal(layer(x).float(), output), (
        "two calls with the same input differ. In 1.3 nothing is drawn, and nothing is kept between calls."
    )
    wanted = torch_heads(state, x, heads)
    edited = torch.cat([x[:1], x[1:] + 1])
    assert expect.near(layer(edited)[0].float(), output[0], atol=1e-4), (
        "editing the second sequence of the batch changes the output of the first. Sequences should not mix."
    )
    for given in (x, normal(3, 4, 12, seed=5)):  # a mistake is named where it explains two outputs
        attends_in_heads(layer, state, given, heads)
    mask = hidden(5)
    masked = expect.floats(layer(x, mask), (2, 5, 12), "the output under a mask")
    expect.like(
        masked,
        torch_heads(state, x, heads, mask),
        "the output under a causal mask of 0 and -inf is wrong.",
        {"the mask is ignored.": wanted},
    )
    bias = normal(5, 5, seed=9) * (normal(5, 5, seed=10) > 0).fill_diagonal_(False)  # numbers, and some zeros
    result = layer(x, bias)
    if type(result) is torch.Tensor and result.isnan().any():
        raise AssertionError(
            "the output is NaN under a mask of finite numbers. The mask should be added to the scores."
        )
    expect.like(
        expect.floats(result, (2, 5, 12), "the output under a mask"),
        torch_heads(state, x, heads, bias),
        "the output is wrong under a mask with numbers other than 0 and -inf. Add the mask to the scores.",
        {
            "a causal mask is used in place of the mask that is given.": (torch_heads(state, x, heads, mask)),
            "the mask is used as true or false. It holds numbers to add to the scores.": torch_heads(
                state, x, heads, torch.where(bias == 0, 0.0, -torch.inf)
            ),
            "the mask is used as true or false: a 0 hides the key. It holds numbers to add to the scores.": torch_heads(
                state, x, heads, torch.where(bias == 0, -torch.inf, 0.0)
            ).nan_to_num(),
        },
    )
    layer.eval()
    expect.like(
        expect.floats(layer(x, bias), (2, 5, 12), "the output in evaluation mode"),
        torch_heads(state, x, heads, bias),
        "in evaluation mode the output under a mask is wrong. Nothing in 1.3 depends on the mode.",
        {"in evaluation mode the mask is ignored.": wanted},
    )
    HEADS.hold(MultiHeadAttention, lib, "layout", "device")
    for width, heads in ((10, 4), (7, 2)):
        expect.refuses(
            MultiHeadAttention,
            width,
            heads,
            says=f"`MultiHeadAttention({width}, {heads})` must raise ValueError: {width} columns do not make "
            f"{heads} equal heads.",
        )


# 1.4


@cache
def bare_layer(width: int, heads: int, d_ff: int, dropout: float = 0.0) -> nn.TransformerEncoderLayer:
    """Torch's encoder layer without weights: `functional_call` brings them."""
    return nn.TransformerEncoderLayer(width, heads, d_ff, dropout, batch_first=True, device="meta")


def layer_shapes(width: int, d_ff: int) -> dict[str, tuple[int, ...]]:
    """The parts of a Transformer layer."""
    layer = bare_layer(width, 1, d_ff)
    return {name: tuple(value.shape) for name, value in layer.state_dict().items()}


def torch_layer(state: dict[str, torch.Tensor], heads: int, **options: Any) -> nn.TransformerEncoderLayer:
    """Torch's encoder layer with these weights, in evaluation mode."""
    d_ff, width = state["linear1.weight"].shape
    layer = nn.TransformerEncoderLayer(width, heads, d_ff, batch_first=True, **options).to(
        state["linear1.weight"].dtype
    )
    layer.load_state_dict(state)
    return layer.eval()


def dropped(make: Callable[[], Remote], width: int, branch: str, tokens: bool = False) -> tuple[float, float]:
    """How often training drops the inside of a branch of a layer, and single entries of its result.

    `make` gives a layer with one head and a d_ff of 1. Its weights are set so that the layer reads
    zeros, one branch gives zeros, and the other gives one constant through one number on its inside,
    an attention weight or a hidden unit. The last norm then turns what is left of the constant into
    signs: nothing at all if the inside was dropped, else minus where an entry was. With `tokens`,
    `make` gives a language model with one such layer and `width` words.
    """
    layer = make()
    state = {name: torch.zeros(shape) for name, shape in layer_shapes(width, 1).items()}
    state["norm2.weight"] = torch.ones(width)
    if branch == "attention":
        state["norm1.weight"] = torch.ones(width)
        state["self_attn.in_proj_bias"] = torch.ones(3 * width)
        state["self_attn.out_proj.weight"] = torch.eye(width)
    else:
        state["linear1.bias"] = torch.ones(1)
        state["linear2.weight"] = torch.ones(width, 1)
    given = torch.zeros(1600, 1, width)
    if tokens:
        given = torch.zeros(1600, 1, dtype=torch.int64)
        state = {f"layers.0.{name}": value for name, value in state.items()}
        state |= {"embedding.weight": torch.zeros(width, width), "head.weight": torch.eye(width)}
        state["head.bias"] = torch.zeros(width)
    layer.load_state_dict(state)
    layer.train()
    outcome = expect.floats(layer(given), (1600, 1, width), "the output in training").squeeze(1)
    signs = outcome.sign() * (outcome.abs() > 0.01)
    silent = (signs == 0).all(dim=-1)
    return silent.float().mean().item(), (signs[~silent] < 0).float().mean().item() if not silent.all() else 0.0


def drops_as_told(make: Callable[[], Remote], width: int, rate: float) -> None:
    """Fail unless dropout acts in all four places of a layer, at `rate`."""
    for branch, inside, result in (
        ("attention", "the attention weights", "the result of the attention"),
        (
            "feed-forward",
            "the hidden units of the feed-forward part (after relu)",
            "the result of the feed-forward part",
        ),
    ):
        silent, minus = dropped(make, width, branch)
        # A constant of which nothing is dropped is as silent after the norm as one that is dropped as a whole.
        assert silent < 1, f"in training mode, {result} is never dropped in part: not at all, or as a whole."
        for part, share in ((inside, silent), (result, minus)):
            assert share > 0, f"in training mode, nothing is ever dropped from {part}."
            assert abs(share - rate) < 0.4 * min(rate, 1 - rate), (
                f"with a dropout of {rate:g}, the share of {part} that seems dropped in training is not {rate:.0%}. "
                "Dropout should act once in each of the four places, and nowhere else."
            )


def layer_of_torch(state: dict[str, torch.Tensor], width: int, heads: int, d_ff: int, dropout: float, x, mask):
    """What torch's encoder layer gives with these weights, without dropout."""
    return functional_call(bare_layer(width, heads, d_ff, dropout), state, (x, mask))


LAYER = Contract(
    "TransformerLayer(H * w, H, f, 0.0)(x, mask)",
    sizes={"H": (1, 4, 17), "w": (3, 5), "f": (1, 9, 300), "B": (1, 6), "T": (1, 8, 300)},
    x="floats (B, T, H * w)",
    mask="floats (T, T) or None",
    gives="the output: as x (B, T, H * w)",
    weights=lambda width, heads, d_ff, dropout: layer_shapes(width, d_ff),
    right=layer_of_torch,
    low=False,
    draws=True,
    learns="x mask",
    tolerance=1e-3,
)


@check(
    "1.4",
    points=3,
    forbids=("TransformerEncoderLayer", "TransformerEncoder", "TransformerDecoderLayer", "Transformer", *MODELS),
)
def transformer_layer(TransformerLayer, lib):
    """Check that a post-norm layer equals torch's with the same weights, with dropout in the given places."""
    width, heads, d_ff, x = 12, 3, 7, 1 + 2 * normal(2, 5, 12, seed=5)
    layer = TransformerLayer(width, heads, d_ff, 0.5)
    state = expect.weights(layer, layer_shapes(width, d_ff), "`TransformerLayer(12, 3, 7, 0.5)`")
    layer.eval()
    output = expect.floats(layer(x), (2, 5, 12), "the output")
    assert torch.equal(layer(x).float(), output), (
        "in evaluation mode, two calls with the same input differ. Dropout should be off there."
    )
    expect.close(
        layer(torch.cat([x[:1], x[1:] + normal(1, 5, 12, seed=6)]))[0].float(),
        output[0],
        "editing the second sequence of the batch changes the output of the first. Sequences should not mix (is the "
        "attention `batch_first`?).",
    )
    right = torch_layer(state, heads)
    with torch.no_grad():
        wanted, mask = right(x), hidden(5)
        attention = right.self_attn(x, x, x)[0]
        h = right.norm1(x + attention)
        forward = right.linear2(right.linear1(h).relu())
        expect.like(
            output,
            wanted,
            "the output is not norm2(h + feedforward(h)) with h = norm1(x + attention(x)).",
            {
                "the norm comes before each part (pre-norm). It should come after each sum (post-norm).": lambda: (
                    torch_layer(state, heads, norm_first=True)(x)
                ),
                "the hidden units use GELU, not ReLU.": lambda: torch_layer(state, heads, activation="gelu")(x),
                "the feed-forward part has no ReLU. Two linear maps in a row are one.": lambda: right.norm2(
                    h + right.linear2(right.linear1(h))
                ),
                "the second sum is missing: add h to the feed-forward result.": lambda: right.norm2(forward),
                "the first sum is missing: add x to the attention result.": lambda: self_only(right, x),
                "the second sum adds x. It should add h, the input of the feed-forward part.": lambda: right.norm2(
                    x + forward
                ),
                "the last norm is missing.": h + forward,
                "`norm1` is used twice. The second sum needs `norm2`.": lambda: right.norm1(h + forward),
                "the two norms are exchanged.": lambda: exchanged(state, heads)(x),
                "all heads attend as one: `n_heads` is not used.": lambda: torch_layer(state, 1)(x),
            },
        )
        flat = x * 0.01  # so small that eps shows
        with_eps = "for small inputs the output is wrong. The norms should have the default eps of nn.LayerNorm, 1e-5."
        keep_eps = partial(torch_layer, {**state, **{n: v * 0.01 for n, v in state.items() if "self_attn" in n}}, heads)
        layer.load_state_dict(keep_eps().state_dict())
        expect.close(layer(flat), keep_eps()(flat), with_eps)
        layer.load_state_dict(state)
        masked = expect.floats(layer(x, mask), (2, 5, 12), "the output under a mask")
        told = "in evaluation mode, the output under a causal mask is wrong."
        expect.like(masked, right(x, mask), told, {"the mask is ignored.": wanted})
        bias = normal(5, 5, seed=9)
        expect.like(
            expect.floats(layer(x, bias), (2, 5, 12), "the output under a mask"),
            right(x, bias),
            "the output is wrong under a mask with numbers other than 0 and -inf. Add the mask to the scores.",
            {
                "a causal mask is used in place of the mask that is given.": right(x, mask),
                "the mask is used as true or false. It holds numbers to add to the scores.": (
                    right(x, torch.where(bias < 0, -torch.inf, 0.0)).nan_to_num()
                ),
            },
        )
    LAYER.hold(TransformerLayer, lib, "device")
    told = "in training mode with dropout, the output or its gradients cannot be computed."
    expect.answers(lib(toys).parameter_gradients, layer.train(), x, says=told)
    drops_as_told(lambda: TransformerLayer(24, 1, 1, 0.5), 24, 0.5)
    drops_as_told(lambda: TransformerLayer(24, 1, 1, dropout=0.25), 24, 0.25)
    with torch.no_grad():
        steady = TransformerLayer(width, heads, d_ff, 0.0)
        steady.load_state_dict(state)
        steady.train()
        expect.like(
            expect.floats(steady(x, mask), (2, 5, 12), "the output in training"),
            right(x, mask),
            "in training mode and without dropout the output should be the same as in evaluation mode.",
            {"in training mode the mask is ignored.": wanted},
        )


def self_only(layer: nn.TransformerEncoderLayer, x: torch.Tensor) -> torch.Tensor:
    """The layer without its first sum."""
    h = layer.norm1(layer.self_attn(x, x, x)[0])
    return layer.norm2(h + layer.linear2(layer.linear1(h).relu()))


def exchanged(state: dict[str, torch.Tensor], heads: int) -> nn.TransformerEncoderLayer:
    """Torch's layer with its norms exchanged."""
    names = {"norm1": "norm2", "norm2": "norm1"}
    return torch_layer(
        {
            ".".join([names.get(name.split(".")[0], name.split(".")[0]), *name.split(".")[1:]]): value
            for name, value in state.items()
        },
        heads,
    )


# 1.5

SPECIAL = ["<sos>", "<pad>", "<eos>", "<unk>"]
SENTENCES = ["the cat saw the dog", "the dog saw a bird", "the dog ran", "the"]


def words_of(vocab: Remote) -> list[str]:
    """The vocabulary's list of words."""
    words = read(vocab.words)
    expect.of_type(words, list, "`words` should be a list")
    return words


def two_batches(batch: Any, shape: tuple[int, int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets, int64 tensors of `shape`."""
    expect.items(batch, 2, "`make_batch` should return two tensors, inputs and targets")
    for part, what in zip(batch, ("inputs", "targets"), strict=True):
        expect.of_type(part, torch.Tensor, f"{what} should be a tensor")
        assert part.ndim == 2 and part.size(0) == shape[0], f"{what} should have one row per sentence, shape (B, T)."
        assert part.size(1) <= shape[1], (
            f"the rows of {what} are {part.size(1)} long. After the cut, the longest here has {shape[1]} tokens."
        )
        assert part.size(1) == shape[1], f"the rows of {what} are {part.size(1)} long; the longest needs {shape[1]}."
        assert part.dtype == torch.int64, f"{what} are {part.dtype}. Token numbers are int64."
    return batch[0], batch[1]


@check("1.5", points=3)
def vocabulary(Vocabulary, make_batch, lib):
    """Check that frequent words get numbers, inputs start with <sos>, and targets are one ahead and end with <eos>."""
    vocab = Vocabulary(SENTENCES, 7)
    words = words_of(vocab)
    assert words[:4] == SPECIAL, "`words` should begin with the four entries of SPECIAL, in their order."
    assert len(words) <= 7, (
        f"with `max_size = 7`, `words` has {len(words)} entries. It should have at most 7, and the four special ones "
        "count too."
    )
    assert len(words) == 7, (
        f"with `max_size = 7`, `words` has {len(words)} entries, although the sentences have enough words for 7."
    )
    told = f"for the sentences `{SENTENCES}`, `words` keeps `{words[4:]}`. These are not the three most frequent words."
    assert sorted(words[4:]) == ["dog", "saw", "the"], told
    assert words[4:] == ["the", "dog", "saw"], (
        "the words in `words` are not sorted by frequency, the most frequent first."
    )
    assert size(vocab) == 7, "`len(vocab)` is not the number of entries in `words`."
    numbers = vocab.encode("the bird saw the dog")
    expect.of_type(numbers, list, "`encode` should return a list of numbers")
    form = lib(probes).type_name(vocab.encode, ["the bird"], {})
    assert form == "list", f"`encode` should return a list of numbers, not a {form}."
    strange = next((number for number in numbers if type(number) is not int), None)
    assert strange is None, f"the list that `encode` returns should hold whole numbers, not {kind(strange)}."
    assert numbers[:1] != [0] or numbers[-1:] != [2], (
        "`encode` adds <sos> and <eos>, which is the task of `make_batch`."
    )
    assert len(numbers) == 5, (
        f"`encode` gives {len(numbers)} numbers for 5 words. It should give one for each word"
        f"{', unknown ones too' if len(numbers) < 5 else ''}."
    )
    assert numbers[1] == 3, (
        f"the word `bird` is not in `words`. It should get the number UNK, which is 3. Your code gives {numbers[1]}."
    )
    assert numbers == [4, 3, 6, 4, 5], "`encode` does not give the indices of the words in `words`."
    assert vocab.encode("the  dog\nsaw ") == [4, 5, 6], (
        "`encode` should accept any white space between words, before them and after them, as `split()` does."
    )
    told = "`encode` gives other numbers for a sentence that it has read before. A word that is unknown stays unknown."
    assert vocab.encode("the bird saw the dog") == [4, 3, 6, 4, 5], told
    text = vocab.decode([0, 4, 5, 2, 3])
    expect.of_type(text, str, "`decode` should return a string")
    words = ["<sos>", "the", "dog", "<eos>", "<unk>"]
    told = "`decode` leaves special tokens out. They are entries of `words` like any other."
    assert text.split() != [word for word in words if word not in SPECIAL], told
    told = f"`decode([0, 4, 5, 2, 3])` gives the words `{' '.join(text.split())[:60]}`, not `{' '.join(words)}`."
    assert text.split() == words, told
    assert text == "<sos> the dog <eos> <unk>", "`decode` should put one space between two words, and none at the ends."
    everything = Vocabulary(SENTENCES, 100)
    left_out = [word for word in " ".join(SENTENCES).split() if word not in words_of(everything)]
    assert not left_out, (
        f"with `max_size = 100`, `words` lacks `{left_out[0] if left_out else ''}`. Every word of the sentences fits."
    )
    assert len(words_of(everything)) == 11 and words_of(everything)[:4] == SPECIAL, (
        "a second vocabulary, with `max_size = 100`, should hold SPECIAL and the seven different words alone."
    )
    assert size(everything) == 11, "with `max_size = 100`, `len(vocab)` is not the number of entries in `words`."

    assert vocab.encode("the bird saw the dog") == [4, 3, 6, 4, 5], (
        "after a second vocabulary was made, the first gives other numbers. Each should keep its own, in `self`."
    )
    for _ in range(2):
        assert everything.encode("fish") == [3] and size(everything) == 11, (
            "`encode` should give UNK for the unknown word `fish`, each time that it comes, and add no word."
        )

    words = words_of(Vocabulary(["so so so", "we run", "we sit"], 5))
    assert words[:4] == SPECIAL and len(words) == 5, (
        f"a third vocabulary, of three sentences and with `max_size = 5`, has the `words` `{words}`. They "
        "should be SPECIAL and one word. If you append to SPECIAL itself, it grows for all vocabularies."
    )
    told = f"for the sentences `so so so`, `we run` and `we sit`, the most frequent word is `so`, not `{words[4]}`."
    assert words[4] != "we", f"{told} Count how often a word occurs, not in how many sentences."
    assert words[4] == "so", f"{told} Only words of these sentences should be counted."
    assert words_of(Vocabulary(["we  run", "we  sit", " we\tate\n"], 5))[4] == "we", (
        "`Vocabulary` counts the words wrongly where they are separated by other white space than single spaces."
    )

    with world_kept(lib, "after `make_batch`"):
        batch = make_batch(["dog saw", "the dog saw the dog"], vocab, 10)
    inputs, targets = two_batches(batch, (2, 6))
    told = "the rows are not in the order of the sentences."
    assert inputs.tolist() != [[0, 4, 5, 6, 4, 5], [0, 5, 6, 1, 1, 1]], told
    assert inputs[1].tolist() != targets[1].tolist(), "inputs and targets are the same: shift the targets by one."
    assert inputs[0, 0] != 1, "a short row of inputs begins with PAD. PAD should be on the right."
    assert (inputs[:, 0] == 0).all(), "each row of inputs should start with SOS."
    assert inputs[1].tolist() == [0, 4, 5, 6, 4, 5], "the inputs should be SOS, then the words."
    assert targets[1].tolist() == [4, 5, 6, 4, 5, 2], "the targets should be the words, then EOS."
    assert 2 not in inputs[0].tolist(), "a short row has EOS among its inputs. EOS is only ever a target."
    assert inputs[0].tolist() == [0, 5, 6, 1, 1, 1], "a short row of inputs should end in PAD, on the right."
    assert targets[0].tolist() == [5, 6, 2, 1, 1, 1], "a short row of targets should have EOS, then PAD."
    batch = make_batch(["dog saw", "the dog saw the dog"], vocab, 4)
    early = type(batch) is list and all(type(part) is torch.Tensor and part.shape == (2, 3) for part in batch)
    assert not early, "with `max_len = 4`, rows keep 3 tokens. Cut inputs and targets to `max_len` after the shift."
    inputs, targets = two_batches(batch, (2, 4))
    first = "with `max_len = 4`, a longer row should keep its first 4 inputs and their targets."
    assert inputs[1].tolist() == [0, 4, 5, 6], first
    assert targets[1, -1] != 2, "the last target of a row that was cut is EOS. The sentence does not end there."
    assert targets[1].tolist() == [4, 5, 6, 4], first
    assert [*inputs[0].tolist(), *targets[0].tolist()] == [0, 5, 6, 1, 5, 6, 2, 1], (
        "when a longer row is cut, a row that fits into `max_len` should stay as it is."
    )
    pieces = "with a vocabulary whose tokens are letters, `make_batch`"
    only = "It should use only the methods of the vocabulary, such as `encode`."
    batch = expect.answers(make_batch, ["ab a", "c"], lib(toys).Letters(), 9, says=f"{pieces} stops. {only}")
    got = [part.tolist() for part in batch if type(part) is torch.Tensor]
    wanted = [[[0, 4, 5, 4], [0, 6, 1, 1]], [[4, 5, 4, 2], [6, 2, 1, 1]]]
    assert got != [rows[::-1] for rows in wanted], "the rows are sorted. They should be in the order of the sentences."
    assert got == wanted, f"{pieces} does not give the numbers that the vocabulary's `encode` gives for a sentence."
    odd = Vocabulary(["don't, don't, 3.5 3.5 x_y don't,", "-7 -7 -7 -7 naïve"], 7)
    told = "words are what `split()` gives: punctuation, digits and capitals stay as they are."
    assert words_of(odd)[4:] == ["-7", "don't,", "3.5"], told
    assert odd.encode("-7 7 don't, don't") == [4, 3, 5, 3], told


# 1.6


def model_shapes(V: int, width: int, d_ff: int, layers: int) -> dict[str, tuple[int, ...]]:
    """The parts of a `LanguageModel`."""
    inner = {f"layers.{i}.{name}": shape for i in range(layers) for name, shape in layer_shapes(width, d_ff).items()}
    return {"embedding.weight": (V, width), **inner, "head.weight": (V, width), "head.bias": (V,)}


def inner_state(state: dict[str, torch.Tensor], index: int) -> dict[str, torch.Tensor]:
    """The weights of one layer of a language model."""
    prefix = f"layers.{index}."
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}


def torch_logits(
    state: dict[str, torch.Tensor],
    tokens,
    heads: int,
    order: Sequence[int] = (0, 1),
    mask=True,
    factor=None,
    places=True,
    along=1,
    **options,
) -> torch.Tensor:
    """The logits of a language model made of torch's layers, which attend along 1, or of one with a mistake in it."""
    width = state["embedding.weight"].size(1)
    x = F.embedding(tokens, state["embedding.weight"]) * (width**0.5 if factor is None else factor)
    x = (add_positions(x) if places else x).transpose(1, along)
    with torch.no_grad():
        for index in order:
            x = torch_layer(inner_state(state, index), heads, **options)(x, hidden(x.size(1)) if mask else None)
    return F.linear(x.transpose(1, along), state["head.weight"], state["head.bias"])


def model_of_torch(state, V: int, width: int, heads: int, d_ff: int, layers: int, dropout: float, tokens):
    """The logits of a language model of torch's own layers with these weights."""
    x = add_positions(F.embedding(tokens, state["embedding.weight"]) * width**0.5)
    for index in range(layers):
        inner = inner_state(state, index)
        x = functional_call(bare_layer(width, heads, d_ff), inner, (x, hidden(tokens.size(1)).to(x.dtype)))
    return F.linear(x, state["head.weight"], state["head.bias"])


MODEL = Contract(
    "LanguageModel(V, 2 * w * H, H, f, n, 0.0)(tokens)",
    sizes={
        "V": (2, 30, 300),
        "w": (2, 3),
        "H": (1, 3, 17),
        "f": (1, 9, 300),
        "n": (1, 2),
        "B": (1, 5),
        "T": (1, 9, 1100),
    },
    tokens="ids (B, T) below V",
    gives="the logits: float (B, T, V)",
    weights=lambda V, width, heads, d_ff, layers, dropout: model_shapes(V, width, d_ff, layers),
    right=model_of_torch,
    draws=True,
    tolerance=1e-3,
)


@check("1.6", points=3)
def language_model(LanguageModel, lib):
    """Check that the logits are torch's and ignore the future, with dropout in the given places."""
    V, width, heads, d_ff, tokens = 23, 12, 3, 7, torch.tensor([[4, 9, 22, 0, 7], [3, 1, 8, 15, 1]])
    model = LanguageModel(V, width, heads, d_ff, 2, 0.5)
    state = model.state_dict()
    names = list(state) if type(state) is dict else []
    assert names, "`LanguageModel` should be an nn.Module whose parts are attributes."
    inner = next((name for name in names if ".linear1." in name and not name.startswith("layers.")), "")
    assert not inner, (
        f"the layers should be in an nn.ModuleList called `layers`. Here a weight of a layer is called `{inner}`."
    )
    assert any(name.startswith("layers.") for name in names), (
        "no weights are registered under `layers`. It must be an nn.ModuleList: a Python list hides its layers."
    )
    direct = any(name.startswith("layers.0.") for name in names)
    assert direct, "`layers` should be an nn.ModuleList of the layers, with weights such as `layers.0.linear1.weight`."
    assert not any(name.startswith("layers.2.") for name in names), "there are more than n_layers layers."
    assert any(name.startswith("layers.1.") for name in names), "there are fewer than n_layers layers."
    assert "head.bias" in names or "head.weight" not in names, "`head` should be a linear layer with a bias."
    state = expect.weights(model, model_shapes(V, width, d_ff, 2), "`LanguageModel(23, 12, 3, 7, 2, 0.5)`")
    tensors = list(model.parameters())
    assert len(tensors) == len(state), (
        "some parts hold their weights as buffers. Every part should have parameters of its own."
    )
    assert all(lib(toys).learning(model)), "some parameters of the model do not learn: their `requires_grad` is False."
    model.eval()
    logits = expect.floats(model(tokens), (2, 5, V), "the logits")
    assert expect.near(model(tokens).float(), logits, atol=1e-4), (
        "in evaluation mode, two calls with the same tokens differ. Dropout should be off there."
    )
    edited = tokens.clone()
    edited[:, 3] = 11
    assert expect.near(model(edited)[:, :3].float(), logits[:, :3], atol=1e-4), (
        "in evaluation mode, editing token 3 changed the logits at tokens 0 to 2: the model can see the future."
    )
    padded = torch.cat([tokens, torch.ones(2, 3, dtype=torch.int64)], dim=1)
    assert expect.near(model(padded)[:, :5].float(), logits, atol=1e-4), (
        "padding on the right changed the logits of the words before it."
    )
    wanted, but = torch_logits(state, tokens, heads), partial(partial, torch_logits, state, tokens, heads)
    expect.like(
        logits,
        wanted,
        "the logits are not those of embedding, positions, layers under the causal mask, and head, in this order.",
        {
            "the embeddings are not multiplied by sqrt(d_model).": but(factor=1.0),
            "the embeddings are multiplied by d_model, not by its root.": but(factor=width),
            "the embeddings are divided by sqrt(d_model).": but(factor=width**-0.5),
            "the positions are missing: call `add_positions`.": but(places=False),
            "positions are added before the embeddings are multiplied.": partial(late_scale, state, tokens, heads),
            "only the first layer is used.": but(order=(0,)),
            "only the last layer is used.": but(order=(1,)),
            "the layers run in reverse order.": but(order=(1, 0)),
            "the norm is applied before each part of a layer. It belongs after the sum with the residual.": but(
                norm_first=True
            ),
            "the layers use GELU, not ReLU.": but(activation="gelu"),
            "the layers attend across the batch, not along the text: `batch_first` is not set.": but(along=0),
            "all heads attend as one: `n_heads` is not passed on.": partial(torch_logits, state, tokens, 1),
            "log-probabilities are returned. The logits are what `head` gives.": wanted.log_softmax(-1),
            "probabilities are returned. The logits are what `head` gives.": wanted.softmax(-1),
        },
    )

    free = LanguageModel(V, width, heads, d_ff, 2, dropout=0.0, causal=False)
    free.load_state_dict(state)
    free.eval()
    unmasked = torch_logits(state, tokens, heads, mask=False)
    expect.like(
        expect.floats(free(tokens), (2, 5, V), "the logits"),
        unmasked,
        "with causal=False, the logits are wrong.",
        {"with causal=False, later tokens are hidden. No mask should be used.": wanted},
    )
    MODEL.hold(LanguageModel, lib, "device")
    steady = LanguageModel(V, width, heads, d_ff, 2, dropout=0.0)
    steady.load_state_dict(state)
    steady.train()
    expect.like(
        expect.floats(steady(tokens), (2, 5, V), "the logits in training"),
        wanted,
        "in training mode with a dropout of 0, the logits should be the same as in evaluation mode.",
        {"in training mode the model can see the future.": unmasked},
    )
    drops_all(LanguageModel(V, width, heads, d_ff, 2, 1.0), state, tokens)
    for one, causal, logits in ((free, True, wanted), (steady, False, unmasked)):
        lib(builtins).setattr(one, "causal", causal)
        expect.close(
            one(tokens),
            logits,
            f"after `causal` was set to {causal}, the logits are not those {'with' if causal else 'without'} the mask. "
            "`forward` should read `self.causal` each time.",
        )
        lib(builtins).setattr(one, "causal", not causal)
    MODEL.hold(LanguageModel, lib, "gradients")
    starts_small(LanguageModel, 60, 24)


def late_scale(state: dict[str, torch.Tensor], tokens: torch.Tensor, heads: int) -> torch.Tensor:
    """The logits of a model that multiplies embeddings and positions alike."""
    width = state["embedding.weight"].size(1)
    x = add_positions(F.embedding(tokens, state["embedding.weight"])) * width**0.5
    with torch.no_grad():
        for index in (0, 1):
            x = torch_layer(inner_state(state, index), heads)(x, hidden(tokens.size(1)))
    return F.linear(x, state["head.weight"], state["head.bias"])


def drops_all(model: Remote, state: dict[str, torch.Tensor], tokens: torch.Tensor) -> None:
    """Fail unless a dropout of 1 leaves nothing of a training model but embeddings, positions, norms and head."""
    model.load_state_dict(state)
    model.train()
    width = state["embedding.weight"].size(1)
    x = add_positions(F.embedding(tokens, state["embedding.weight"]) * width**0.5)
    for norm in ("layers.0.norm1", "layers.0.norm2", "layers.1.norm1", "layers.1.norm2"):
        x = F.layer_norm(x, (width,), state[f"{norm}.weight"], state[f"{norm}.bias"])
    logits = expect.tensor(model(tokens), (*tokens.shape, len(state["head.bias"])), "the logits in training")
    expect.close(
        logits,
        F.linear(x, state["head.weight"], state["head.bias"]),
        "in training mode with a dropout of 1, the logits are wrong. The layers alone should get `dropout`, as it is.",
    )


def starts_small(LanguageModel: Remote, V: int, width: int) -> None:
    """Fail unless fresh embeddings are normal with a standard deviation of 1 / sqrt(width)."""
    fresh = LanguageModel(V, width, 1, 5, 1).state_dict()["embedding.weight"]
    spread = fresh.std().item() * width**0.5
    assert spread < 1.15, "fresh embeddings are too large: start them with standard deviation 1 / sqrt(d_model)."
    assert spread > 0.85, "fresh embeddings are too small: start them with standard deviation 1 / sqrt(d_model)."
    assert abs(fresh.mean().item()) * width**0.5 < 0.15, "fresh embeddings should have a mean of zero."


# 1.7


LOSS = Contract(
    "lm_loss(logits, targets, V)",
    sizes={"V": (2, 18, 4000), "B": (1, 6, 300), "T": (1, 9, 600)},
    logits="floats (B, T, V)",
    targets="ids (B, T) below V",
    gives="the loss: float ()",
    right=lambda logits, targets, V: F.cross_entropy(logits.flatten(0, 1), targets.flatten()),
    learns="logits",
)


@check("1.7", points=2, forbids=("cross_entropy", "CrossEntropyLoss", *MODELS))
def lm_loss(lm_loss, perplexity, lib):
    """Check the mean surprise over real targets, in nats, and its exponential."""
    uniform, targets = torch.zeros(2, 3, 11), torch.tensor([[4, 10, 1], [0, 7, 5]])
    loss = lm_loss(uniform, targets, 1)
    found = expect.number(loss, "the loss")
    assert found >= 0, "the loss is negative. It should be minus the log-likelihood."
    assert found > 0, "where all logits are 0, the loss is 0. It should be log V (is there a log-softmax?)."
    guesses = {
        "the loss of a uniform model is counted in bits. Use the natural logarithm.": math.log2(11),
        "the loss is a sum, not a mean over the targets.": 5 * math.log(11),
        "the sum leaves padding out, but it is divided by all targets, padding included.": 5 * math.log(11) / 6,
        "the softmax does not run over the vocabulary.": math.log(3),
        "the softmax leaves a word out. All V words have a probability, `pad_id` too.": math.log(10),
    }
    told = "a model that gives all V words the same probability should have a loss of log V."
    expect.number_like(loss, math.log(11), "the loss", told, guesses)

    logits = 2 * normal(2, 3, 11, seed=7)
    surprise = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").reshape(2, 3)
    expect.number_like(
        lm_loss(logits, targets, 1),
        torch.stack([surprise[0, 0], surprise[0, 1], *surprise[1]]).mean(),
        "the loss",
        "the loss is not the mean of -log p(target) over the targets that are not padding.",
        {
            "padding counts. A target that is `pad_id` should not.": surprise.mean(),
            "each sentence counts the same. Each token should count the same.": (
                surprise[0, :2].mean() + surprise[1].mean()
            )
            / 2,
            "the logits are taken for log-probabilities: the log-softmax is missing.": -logits.gather(
                -1, targets.unsqueeze(-1)
            )
            .squeeze(-1)[targets != 1]
            .mean(),
        },
    )
    expect.number_like(
        lm_loss(logits, targets, 7),
        torch.cat([surprise[0], surprise[1, [0, 2]]]).mean(),
        "the loss",
        "the loss is wrong with `pad_id = 7`. Only the target 7 should be left out.",
        {
            "targets that are 1 are left out too. Leave out only those that equal `pad_id`.": torch.cat(
                [surprise[0, :2], surprise[1, [0, 2]]]
            ).mean(),
            "targets that are 1 are left out. Leave out those that equal `pad_id`.": torch.cat(
                [surprise[0, :2], surprise[1]]
            ).mean(),
            "targets at the end of a row are left out, as many as it has padding. Leave out the padding itself.": (
                torch.cat([surprise[0], surprise[1, :2]]).mean()
            ),
            "targets after the first padding of a row are left out. Leave out only the padding itself.": torch.cat(
                [surprise[0], surprise[1, :1]]
            ).mean(),
        },
    )
    LOSS.hold(lm_loss, lib, "layout", "device", "gradients")
    with world_kept(lib, "after perplexity"):
        value = expect.number(perplexity(3.0), "the perplexity")
    assert abs(value - 8) > 1e-3, "the perplexity is a power of two. A loss in nats needs a power of e."
    expect.number_like(value, math.e**3, "the perplexity", "for a loss of 3, the perplexity is not its exponential.")


# 1.8


def softmax_regression(
    table,
    bias,
    batches,
    lr=0.5,
    clip=math.inf,
    pad_id=1,
    keep=False,
    doubled=False,
    each=False,
    values=False,
    momentum=0.0,
    summed=False,
    before=False,
) -> tuple[torch.Tensor, torch.Tensor, float, list[float]]:
    """One epoch of gradient descent on `toys.Bigram`, from the gradient's closed form, mistakes on request.

    The gradient of -log softmax(z)[y] is softmax(z) minus the one-hot y; everything else is sums.

    Returns:
        table, bias, the mean loss per token, and the loss of each batch.
    """
    table, bias = table.double(), bias.double()
    old = [torch.full_like(table, float(before)), torch.full_like(bias, float(before))]
    speed, losses, counts = [torch.zeros_like(table), torch.zeros_like(bias)], [], []
    for inputs, targets in batches:
        real = targets != pad_id if pad_id is not None else torch.ones_like(targets, dtype=torch.bool)
        x, y, factor = inputs[real], targets[real], 2 if doubled else 1
        p = (factor * (table[x] + bias)).softmax(-1)
        losses.append(-p[range(len(y)), y].log().mean().item())
        counts.append(len(y))
        error = factor * (p - torch.eye(len(bias), dtype=p.dtype)[y]) / (1 if summed else len(y))
        slopes = [torch.zeros_like(table).index_add(0, x, error), error.sum(0)]
        piled = keep or (before and not losses[1:])
        slopes = [new + left for new, left in zip(slopes, old, strict=True)] if piled else slopes
        norm = math.sqrt(sum(slope.square().sum().item() for slope in slopes))
        if values:
            slopes = [slope.clamp(-clip, clip) for slope in slopes]
        elif each:
            slopes = [slope * min(1, clip / (slope.norm().item() + 1e-6)) for slope in slopes]
        else:
            slopes = [slope * min(1, clip / (norm + 1e-6)) for slope in slopes]
        old = slopes
        speed = [momentum * last + slope for last, slope in zip(speed, slopes, strict=True)]
        table, bias = table - lr * speed[0], bias - lr * speed[1]
    mean = sum(loss * count for loss, count in zip(losses, counts, strict=True)) / sum(counts)
    return table, bias, mean, losses


def regression_data(V: int, shapes: Sequence[tuple[int, int]], pad_id: int, seed: int) -> tuple[Any, Any, list]:
    """A table, a bias, and batches of those shapes whose rows end in padding."""
    generator, batches = expect.generator(seed), []
    for rows, length in shapes:
        inputs, targets = torch.randint(0, V, (2, rows, length), generator=generator)
        targets = torch.where(targets == pad_id, (pad_id + 1) % V, targets)
        targets[0, length - length // 2 :] = pad_id
        batches.append([inputs, targets])
    return 2 * torch.randn(V, V, generator=generator), torch.randn(V, generator=generator), batches


@check("1.8", points=2)
def train_epoch(train_epoch, lib):
    """Check the weights after an epoch, from the gradient's closed form, and the mean loss per token."""
    clip, lr = 0.4, 0.5
    table, bias, batches = regression_data(7, [(2, 5), (1, 3), (4, 6)], 1, seed=8)
    model = lib(toys).Bigram(table, bias)
    model.eval()
    lib(toys).leave_gradients(model)
    rule = lib(torch.optim).SGD(model.parameters(), lr=lr)
    with world_kept(lib, "after `train_epoch`"):
        loss = train_epoch(model, batches, rule, clip)
    state = model.state_dict()
    got = torch.cat([state["table"].flatten(), state["bias"]])

    def after(**mistakes: Any) -> torch.Tensor:
        new = softmax_regression(table, bias, batches, **({"lr": lr, "clip": clip} | mistakes))
        return torch.cat([new[0].flatten(), new[1]])

    assert not torch.equal(got, torch.cat([table.flatten(), bias])), (
        "the weights are the same after the epoch: no step was made, or every gradient was zero."
    )
    expect.like(
        got,
        after(),
        "the weights after the epoch are wrong. For each batch: loss, zero_grad, backward, clip, step.",
        {
            "the gradients of one batch are still there in the next: zero them.": after(keep=True, before=True),
            "gradients that the model had before the epoch take part in its first step: zero them before `backward`.": (
                after(before=True)
            ),
            "the gradient is not clipped, or not to `clip`: shorten it after `backward`, before `step`.": after(
                clip=math.inf
            ),
            "each entry of the gradient is clipped on its own. Clip the norm of the whole gradient.": after(
                values=True
            ),
            "each parameter is clipped on its own. The norm of all together counts.": after(each=True),
            "padding is trained on: a target that is pad_id should not count.": after(pad_id=None),
            "the model trains in evaluation mode.": after(doubled=True),
            "only the first batch is used.": torch.cat(
                [part.flatten() for part in softmax_regression(table, bias, batches[:1], lr, clip)[:2]]
            ),
            "each batch makes two steps.": torch.cat(
                [
                    part.flatten()
                    for part in softmax_regression(table, bias, [b for b in batches for _ in "12"], lr, clip)[:2]
                ]
            ),
        },
    )
    _, _, mean, losses = softmax_regression(table, bias, batches, lr, clip)
    assert loss is not None, "`train_epoch` returns None. It should return the mean loss per token."
    counts = [int((targets != 1).sum()) for _, targets in batches]
    guesses = {
        "the loss is the mean over batches. A batch with more tokens should count more.": sum(losses) / len(losses),
        "the loss is that of the last batch. It should be the mean over the epoch.": losses[-1],
        "the loss is a sum over batches. The mean per token is asked for.": sum(losses),
        "the loss is a sum over tokens. The mean per token is asked for.": mean * sum(counts),
        "each batch is weighted by all of its positions. Only targets that are not padding count.": sum(
            loss * targets.numel() for loss, (_, targets) in zip(losses, batches, strict=True)
        )
        / sum(targets.numel() for _, targets in batches),
        "each batch is weighted by its inputs that are not padding. The targets decide what counts.": sum(
            loss * int((inputs != 1).sum()) for loss, (inputs, _) in zip(losses, batches, strict=True)
        )
        / sum(int((inputs != 1).sum()) for inputs, _ in batches),
        "padding counts in the mean: divide by the number of real targets.": mean
        * sum(counts)
        / sum(t.numel() for _, t in batches),
    }
    after_steps = [
        softmax_regression(*softmax_regression(table, bias, batches[: place + 1], lr, clip)[:2], [batch], lr, clip)[2]
        for place, batch in enumerate(batches)
    ]
    guesses["the loss of each batch is that after its step. Take the loss before the step."] = sum(
        one * count for one, count in zip(after_steps, counts, strict=True)
    ) / sum(counts)
    told = "the loss is not the mean over all real tokens of the epoch, each batch's before its step."
    expect.number_like(loss, mean, "the loss that `train_epoch` returns", told, guesses)
    for sentence, options in {
        "the weights or the loss of a second epoch, of another model, are wrong. Keep nothing between calls.": {},
        "the epoch is wrong if `batches` is an iterator, which can be read only once.": dict(once=True),
        "the epoch is wrong with `pad_id = 3`. Padding should be what the argument says, not a fixed number.": dict(
            pad=3
        ),
        "with momentum, the weights are wrong. Only the optimizer's own `step` should change them.": dict(momentum=0.9),
        "the epoch is wrong with `clip = 100.0`, which no gradient reaches. Clipping changes nothing there.": dict(
            clip=100.0,
            guesses={"the gradient is that of a sum over the tokens. The loss is their mean.": dict(summed=True)},
        ),
        "the epoch is wrong where the logits or the batches are not contiguous.": dict(turned=True),
    }.items():
        epoch_agrees(train_epoch, lib, sentence, 7, [(2, 5), (1, 3), (4, 6)], seed=9, **options)
    assert not lib(toys).apart_in_training(train_epoch, batches, clip), (
        "on another device (a GPU) this would stop: tensors that you make must be on the device of the batches."
    )


def epoch_agrees(
    train_epoch: Remote,
    lib: Library,
    sentence: str,
    V: int,
    shapes: Sequence[tuple[int, int]],
    *,
    seed: int,
    lr: float = 0.5,
    pad: int = 1,
    clip: float = 0.4,
    momentum: float = 0.0,
    once: bool = False,
    turned: bool = False,
    guesses: dict[str, dict[str, Any]] | None = None,
) -> None:
    """Fail with `sentence` unless an epoch of random batches of `shapes` leaves the right weights and loss.

    Args:
        once: the batches come from an iterator.
        turned: batches and logits are not contiguous.
        guesses: what to say instead where a mistake of `softmax_regression` explains the weights.
    """
    table, bias, batches = regression_data(V, shapes, pad, seed=seed)
    bigram = lib(toys).Bigram(table, bias)
    model = lib(toys).TimeFirst(bigram) if turned else bigram
    optimizer = lib(torch.optim).SGD(bigram.parameters(), lr=lr, momentum=momentum)
    given, options = lib(builtins).iter(batches) if once else batches, {} if pad == 1 else {"pad_id": pad}
    if turned:
        loss = lib(toys).strided(train_epoch, model, given, optimizer, clip, **options)
    else:
        loss = train_epoch(model, given, optimizer, clip=clip, **options)
    new_table, new_bias, mean, _ = softmax_regression(table, bias, batches, lr, clip, pad, momentum=momentum)
    state = bigram.state_dict()
    rule = partial(softmax_regression, table, bias, batches, lr, clip, pad, momentum=momentum)
    mistaken = {what: rule(**mistake)[0] for what, mistake in (guesses or {}).items()}
    expect.like(state["table"], new_table, sentence, mistaken)
    expect.close(state["bias"], new_bias, sentence)
    expect.of_type(loss, float, "`train_epoch` should return a float")
    expect.close(loss, mean, sentence)
    expect.close(loss, mean, "the loss differs a little from the mean per token. Do not round it.", 5e-6)


# 1.9


def numbers_of(result: Any, prompt: list[int]) -> list[int]:
    """What the student's model wrote: a list of numbers that begins with the prompt."""
    expect.of_type(result, list, "`generate` should return a list of token numbers")
    strange = next((item for item in result if type(item) is not int), None)
    assert strange is None, f"the list that `generate` returns should hold numbers, not {kind(strange)}."
    assert result[: len(prompt)] == prompt, "the result should begin with the prompt."
    return result


DRAWS = 250


def sigmoid(logit: float) -> float:
    """The share of the better of two tokens whose logits differ by so much."""
    return 1 / (1 + math.exp(-logit))


def greedy(table: torch.Tensor, prompt: list[int], max_new: int, eos_id: int, shift: int = 0, context=sum) -> list[int]:
    """The best continuation by `toys.TableModel`, whose row is picked by `context` of the tokens so far."""
    numbers = list(prompt)
    for _ in range(max_new):
        row = table[context(numbers) % len(table)].tolist()
        numbers.append((row.index(max(row)) + shift) % len(row))
        if numbers[-1] == eos_id:
            break
    return numbers


def texts(
    generate: Remote, lib: Library, model: Remote, prompt: list[int], lengths: Sequence[int], seed: int, **options: Any
) -> list[list[int]]:
    """New tokens of texts that are written one after the other, after one `torch.manual_seed(seed)`."""
    turns = [[model, prompt, length] for length in lengths]
    written = lib(toys).in_turn(generate, seed, turns, options)
    found = [numbers_of(text, prompt)[len(prompt) :] for text in written]
    for text, length in zip(found, lengths, strict=True):
        assert len(text) == length, (
            f"asked for {length} new tokens, with an `eos_id` that no token has, `generate` wrote {len(text)}."
        )
    return found


def shares(generate: Remote, lib: Library, logits: list[float], count: int, seed: int, **options: Any) -> list[float]:
    """How often each token is drawn by a model that always gives these logits; in short texts, which are quick."""
    model, lengths = (
        lib(toys).TableModel([logits]),
        [50] * (count // 50) + [count % 50] * (count % 50 > 0),
    )
    each = texts(generate, lib, model, [0], lengths, seed, eos_id=len(logits) + 1, **options)
    drawn = [token for text in each for token in text]
    assert all(0 <= token < len(logits) for token in drawn), "`generate` wrote a number that is not a token."
    return [drawn.count(token) / count for token in range(len(logits))]


CHANCE = 1e-9  # what a right answer gets less often than that is called wrong


def seeded(generate: Remote, lib: Library, logits: list[float], seeds: tuple[int, int], **options: Any) -> None:
    """Fail unless torch's generator decides what is drawn by a model that always gives these logits."""
    model, options = lib(toys).TableModel([logits]), {"eos_id": len(logits) + 1, **options}
    first, other, again = (
        texts(generate, lib, model, [0], [60, 60], seed, **options) for seed in (seeds[0], seeds[1], seeds[0])
    )
    assert len({token for text in first for token in text}) > 1, (
        "the same token is always written. At a temperature above 0, tokens should be drawn."
    )
    assert first == again, (
        "after the same `torch.manual_seed` another text is written. Draw with torch's generator alone (Python's "
        "`random` and NumPy have others), and keep nothing between calls."
    )
    assert first[0] != other[0], (
        "`generate` draws the same text after another `torch.manual_seed`. Use torch's generator, and set no seed."
    )
    assert first[0] != first[1], (
        "two calls in a row draw the same text. Torch's global generator should move on from call to call."
    )


def independent(drawn: torch.Tensor) -> None:
    """Fail unless tokens (texts, positions), each drawn with the same shares, look drawn one by one.

    Pearson's statistics of tokens by text, of tokens by position, and of pairs of tokens one to four steps and a
    whole text apart: too large where one draw depends on another, too small where shares are kept by rule. No token
    may be rare.
    """
    marks = (drawn.unsqueeze(-1) == drawn.unique()).double()  # (texts, positions, kinds)
    rows, length, kinds = marks.shape
    wanted, flat = marks.mean(dim=(0, 1)), marks.flatten(0, 1)
    one_by_one = "Draw every token by its probability alone."
    for axis, groups, too_even, too_uneven in (
        (
            1,
            rows,
            "the shares of the tokens are nearly the same in every text. Random draws are less even.",
            "the tokens of one text depend on each other: the shares of the tokens differ too much between texts.",
        ),
        (
            0,
            length,
            "the shares of the tokens are nearly the same at every position. Random draws are less even.",
            "at the same position, too often the same token is drawn in every text.",
        ),
    ):
        counts, mean = marks.sum(dim=axis), wanted * marks.size(axis)
        far, freedom = (
            ((counts - mean).square() / mean).sum() / 2,
            torch.tensor((groups - 1) * (kinds - 1) / 2).double(),
        )
        assert torch.special.gammainc(freedom, far) > CHANCE, f"{too_even} {one_by_one}"
        assert torch.special.gammaincc(freedom, far) > CHANCE, f"{too_uneven} {one_by_one}"
    for lag in (1, 2, 3, 4, length):
        pairs, mean = flat[:-lag].mT @ flat[lag:], torch.outer(wanted, wanted) * (len(flat) - lag)
        far, freedom = ((pairs - mean).square() / mean).sum() / 2, torch.tensor((kinds - 1) ** 2 / 2).double()
        assert torch.special.gammaincc(freedom, far) > CHANCE, (
            f"a drawn token depends on those drawn before it, although the logits are the same. {one_by_one}"
        )


def same_mistake(
    generate: Remote, model: Remote, table: torch.Tensor, written: dict[tuple[int, ...], list[int]], moody: bool
) -> None:
    """Fail with the mistake that explains the texts of two prompts, one of them `written` already.

    `moody`: the text is another one in evaluation mode.
    """
    other = [6, 1, 1, 7]
    model.train()
    written = {**written, tuple(other): numbers_of(generate(model, other, 6, temperature=0), other)}
    model.eval()
    best = partial(greedy, table, max_new=6, eos_id=2)
    mistakes: dict[str, Callable[[list[int]], list[int]]] = {
        "at temperature 0, token 0 is written each time (is it the rank of the best token, and not the token?).": (
            lambda prompt: [*prompt, *[0] * 6]
        ),
        "the model writes in training mode. Dropout would act.": lambda prompt: moody * best(prompt=prompt, shift=1),
        "the model writes while gradients are recorded.": lambda prompt: best(prompt=prompt, shift=2),
        "the model writes in training mode, and while gradients are recorded.": (
            lambda prompt: best(prompt=prompt, shift=3)
        ),
        "the model reads the last token only. It needs all of the text so far.": (
            lambda prompt: best(prompt=prompt, context=lambda n: n[-1])
        ),
        "the logits of the first position are used. The last one is about the next token.": (
            lambda prompt: best(prompt=prompt, context=lambda n: n[0])
        ),
        "the model reads the prompt only. It needs what it has written too.": (
            lambda prompt: best(prompt=prompt, context=lambda n: sum(prompt))
        ),
        "temperature 0 takes the worst token.": lambda prompt: greedy(-table, prompt, 6, 2),
    }
    for sentence, guess in mistakes.items():
        assert any(text != guess([*prompt]) for prompt, text in written.items()), sentence


@check("1.9", points=2, draws=True)
def generate(generate, lib):
    """Check text from a known table: greedy, eos, temperature and top-k, in evaluation mode without gradients."""
    table = normal(9, 9, seed=34)  # of which no two mistakes below write the same
    table[:, 2] = 0.0  # neither best nor worst: no end in sight
    prompt = [3, 8, 5]
    model = lib(toys).TableModel(table)
    model.train()
    with world_kept(lib, "after generate", draws=True):
        first = numbers_of(generate(model, prompt, 6, temperature=0), prompt)
    assert len(first) - 3 <= 6, f"asked for at most 6 new tokens, `generate` wrote {len(first) - 3}."
    assert len(first) - 3 == 6, (
        f"`generate` wrote {len(first) - 3} new tokens. It should write 6, as eos_id is never drawn."
    )
    wanted = greedy(table, prompt, 6, 2)
    model.eval()
    again = numbers_of(generate(model, prompt, 6, temperature=0), prompt)
    if first != wanted:
        same_mistake(generate, model, table, {tuple(prompt): first}, moody=first != again)
    assert first == again, "at temperature 0, two calls with the same prompt write different texts."
    told = "a model that is given in evaluation mode is in training mode afterwards."
    assert lib(toys).mood(model) % 2 == 0, told
    assert first == wanted, "temperature 0 does not take the best token after the text so far."

    close = [0.001, 0.0, 0.0015, 0.002]
    drawn = numbers_of(generate(lib(toys).TableModel([close]), [0], 12, temperature=0, eos_id=9), [0])[1:]
    told = f"with the logits `{close}` temperature 0 writes the tokens `{drawn}`, not 12 times the best one."
    assert drawn == [3] * 12, told

    ends = table.clone()
    ends[sum(wanted[:5]) % 9, 2] = 9.0
    model = lib(toys).TableModel(ends)
    short = numbers_of(generate(model, prompt, 9, temperature=0), prompt)
    told = "a second model, whose best third token is <eos>, gets another third token from `generate`."
    assert len(short) < 6 or short[5] == 2, told
    assert len(short) <= 6, "`generate` writes on after <eos>."
    assert short == [*wanted[:5], 2], "after <eos> generate should stop, and <eos> should be the last number."
    form = lib(probes).type_name(generate, [model, prompt, 2], {"temperature": 0})
    assert form == "list", f"`generate` should return a list of token numbers, not a {form}."

    model = lib(toys).Constant([0.3, 0.0, 0.4]).eval()
    with model_kept(lib, model, "after `generate`", draws=True):
        numbers_of(generate(model, [0], 3, temperature=2.0, top_k=2, eos_id=9), [0])

    level = [0.3, 0.0, 0.4, -40.0]
    seeded(generate, lib, level, (22, 23))
    model = lib(toys).TableModel([level])
    independent(torch.tensor(texts(generate, lib, model, [0], [30] * 24, 24, eos_id=9)))

    def comes_as(share: float, wanted: float) -> bool:
        return expect.plausible(share * DRAWS, DRAWS, wanted, sigmas=7)

    # One token as likely as a thousand others together: a temperature of 0.8 moves its share by a third.
    first = shares(generate, lib, [7.0] + [0.0] * 1097, DRAWS, 25)[0]
    told = "for the logits 7, and 1,097 times 0, the shares of the tokens drawn are not softmax(logits)."
    assert comes_as(first, 0.5), f"{told} Token 0 should have the share 0.50, and has {first:.2f}."
    # Two tokens that matter, so far apart that a wrong temperature moves their shares by a quarter.
    logits, warm, cold = [math.log(16), 0.0, math.log(4), -30.0], [3.2, 0.0, -80.0, -80.0], [0.5, 0.0, -40.0, -40.0]
    of_two = "the shares of the two best tokens are not the softmax of their two logits."
    by_temperature = "the shares of the tokens drawn are not softmax(logits / temperature)."
    for sentence, given, temperature, top_k, best in (
        (f"at temperature 8, {by_temperature}", warm, 8.0, None, sigmoid(0.4)),
        (f"at temperature 0.25, {by_temperature}", cold, 0.25, None, sigmoid(2.0)),
        (f"with top_k=2, {of_two}", logits, 1.0, 2, 0.8),
    ):
        drawn = shares(generate, lib, given, DRAWS, 26, temperature=temperature, top_k=top_k)
        if top_k == 2:
            ranks = drawn[2] == 0 and 0.13 < drawn[1] < 0.33  # the first two tokens alone would give 1/17
            assert not ranks, "the place of a token among the best is written, not the token itself."
            assert drawn[1] == 0, "a token that is not among the top_k best was drawn."
            assert drawn[2] > 0, "with top_k=2 the second-best token is never drawn."
        if given is warm:
            told = "at temperature 8, only the best token is drawn. Divide the logits by the temperature."
            assert drawn[0] < 1, told
        assert comes_as(drawn[0], best), sentence
    alike = shares(generate, lib, [0.1, 0.0, *[-0.1] * 6], DRAWS, 29, top_k=2)
    told = f"with top_k=2, {of_two} Draw among these."
    assert comes_as(alike[0], sigmoid(0.1)), told
    far = shares(generate, lib, [600.0, 0.0, 300.0, -9000.0], DRAWS, 30, temperature=300.0)
    told = "for the logits `[600, 0, 300, -9000]` at temperature 300, the shares are not softmax(logits / temperature)."
    got = f"Token 0 has the share {far[0]:.2f}, and token 1 has {far[1]:.2f}."
    assert comes_as(far[0], 0.665) and far[1] > 0, f"{told} {got}"
    told = (
        "a low temperature, here 0.005, raises an error. Take `softmax` of the divided logits: `exp` alone fails there."
    )
    level = [0.02 * token for token in range(60)]
    expect.answers(shares, generate, lib, level, 5, 31, temperature=0.005, says=told, kinds=("RuntimeError",))
    assert shares(generate, lib, logits, 40, 27, top_k=1)[0] == 1, "with top_k=1 only the best token can be drawn."
    told = "if `top_k` is larger than the vocabulary, all tokens should take part."
    expect.answers(shares, generate, lib, logits, 5, 28, top_k=9, says=told)
    nothing = numbers_of(generate(model, prompt, 0), prompt)
    told = f"with `max_new = 0`, `generate` writes {len(nothing) - len(prompt)} tokens. It should write nothing."
    assert nothing == prompt, told
    again = lib(probes).again_after_clearing(generate, model, prompt, 0)
    assert again == prompt, "with `max_new = 0` the result is the list `prompt` itself. It should be a new list."
    nn_there = lib(nn)
    expect.one_device(
        lib, generate, nn_there.Sequential(nn_there.Embedding(9, 4), nn_there.Linear(4, 9)), prompt, 3, eos_id=9
    )


# 1.10

Pairs = list[tuple[int, int]]


def pairs_of(batches: Sequence[Any], pad_id: int | None = 1) -> Pairs:
    """Each input with its target, position by position, where the target is not `pad_id`."""
    rows = [row for inputs, targets in batches for row in zip(inputs.tolist(), targets.tolist(), strict=True)]
    return [(v, w) for inputs, targets in rows for v, w in zip(inputs, targets, strict=True) if w != pad_id]


def log_shares(pairs: Pairs, V: int, extra: float = 1.0, over: float | None = None) -> torch.Tensor:
    """log of (c(w) + extra) / (N + over), token by token; `over` is V times `extra` if None."""
    counts = Counter(w for _, w in pairs)
    whole = len(pairs) + (extra * V if over is None else over)
    return torch.tensor([(counts[w] + extra) / whole for w in range(V)]).log()


def log_table(pairs: Pairs, V: int, more: torch.Tensor, over: float = 0.0, rows: Counter | None = None) -> torch.Tensor:
    """log of (c(v, w) + more[w]) / (c(v) + the sum of `more` + over), pair by pair; `rows` may stand for c(v)."""
    counts, before = Counter(pairs), Counter(v for v, _ in pairs) if rows is None else rows
    above = torch.tensor([[counts[v, w] for w in range(V)] for v in range(V)]) + more
    return (above / torch.tensor([[before[v] + over] for v in range(V)]).add(more.sum())).log()


def logs(value: Any, shape: tuple[int, ...], what: str) -> torch.Tensor:
    """`value` as float32, floating-point numbers of `shape`; infinities and NaN are not looked at."""
    assert expect.tensor(value, shape, what).is_floating_point(), f"{what} is {value.dtype}, not floating-point."
    return value.float()


def counting_data(
    V: int, shapes: Sequence[tuple[int, int]], pad_id: int = 1, seed: int = 40
) -> list[list[torch.Tensor]]:
    """Batches whose first rows end in padding. Token V - 2 is never an input, V - 1 neither input nor target."""
    numbers, batches = expect.generator(seed), []
    for rows, length in shapes:
        inputs = torch.randint(0, V - 2, (rows, length), generator=numbers)
        targets = torch.randint(0, V - 1, (rows, length), generator=numbers)
        targets = torch.where(targets == pad_id, (pad_id + 1) % (V - 1), targets)
        targets[0, length - length // 2 :] = pad_id
        batches.append([inputs, targets])
    return batches


@check("1.10", points=3)
def counting(unigram, bigram, lib):
    """Check the log-probabilities from smoothed counts, of tokens and of pairs."""
    V, a, batches = 8, 3, counting_data(8, [(3, 9), (2, 6), (4, 4)])
    right = shares_are_counted(unigram, V, batches)
    table_is_counted(bigram, V, a, batches, right)
    default = logs(bigram(batches, V), (V, V), "what bigram returns")
    for call in (unigram, bigram):
        with world_kept(lib, f"after {name_of(call)}"):
            call(batches, V)
    pairs, prior = pairs_of(batches), 30 * right.exp()
    again = "a second call with the same batches gives something else: keep nothing between calls."
    twice = {again: log_table([*pairs, *pairs], V, prior)}
    expect.like(
        default, log_table(pairs, V, prior), "without `a`, the result is wrong: 30 should be the default.", twice
    )
    other = counting_data(9, [(2, 7), (5, 3)], pad_id=4, seed=41)
    shares = log_shares(pairs_of(other, 4), 9)
    fixed = "the counts are wrong with `pad_id = 4`. Padding should be what the argument says, not a fixed number."
    expect.close(logs(unigram(other, 9, pad_id=4), (9,), "what unigram returns"), shares, fixed)
    for worth, otherwise in ((2, fixed), (0.5, "`bigram` is wrong for an `a` below 1: it may be any number above 0.")):
        table = logs(bigram(other, 9, a=worth, pad_id=4), (9, 9), "what bigram returns")
        padded = worth * log_shares(pairs_of(other), 9).exp()
        not_passed_on = (
            "`bigram` is wrong with `pad_id = 4`: its p(w) are those with `pad_id = 1`. They need the same one."
        )
        expect.like(
            table,
            log_table(pairs_of(other, 4), 9, shares.exp() * worth),
            otherwise,
            {not_passed_on: log_table(pairs_of(other, 4), 9, padded)},
        )
    for call, shape, wanted in ((unigram, (V,), right), (bigram, (V, V), default)):
        spread = logs(lib(toys).strided(call, batches, V), shape, "the result")
        expect.close(spread, wanted, "the counts are wrong where the batches are not contiguous.")
        expect.one_device(lib, call, batches, V)


def shares_are_counted(unigram: Remote, V: int, batches: Sequence[Any]) -> torch.Tensor:
    """Fail unless the unigram's shares are right; the right ones, as logarithms."""
    pairs, padded = pairs_of(batches), pairs_of(batches, None)
    right = log_shares(pairs, V)
    once = [pair for batch in batches for pair in {w: (v, w) for v, w in pairs_of([batch])}.values()]
    expect.like(
        logs(unigram(batches, V), (V,), "what unigram returns"),
        right,
        "`unigram` does not return log((c(w) + 1) / (N + V)).",
        {
            "a token that was never a target has the probability 0: the extra count is missing.": log_shares(
                pairs, V, 0.0
            ),
            "padding counts. A target that is `pad_id` should not.": log_shares(padded, V),
            "padding counts in N. A target that is `pad_id` should not.": log_shares(
                pairs, V, 1.0, V + len(padded) - len(pairs)
            ),
            "`pad_id` has the probability 0. It gets an extra count, as every token does.": right.index_fill(
                0, torch.tensor([1]), -math.inf
            ),
            "the inputs are counted. Count the targets: they are what comes next.": log_shares(
                [(v, v) for v, _ in pairs], V
            ),
            "probabilities are returned. Take their logarithm.": right.exp(),
            "counts are returned. Divide by their sum and take the logarithm.": right.exp() * (len(pairs) + V),
            "the logarithms of counts are returned. Divide by the sum of the counts.": right + math.log(len(pairs) + V),
            "the logarithm is to base 2. Losses here are in nats.": right / math.log(2),
            "the shares do not sum to one: with V extra counts N becomes N + V.": log_shares(pairs, V, 1.0, 0.0),
            "the shares do not sum to one: each of the V tokens has its extra count.": log_shares(pairs, V, 1.0, 1.0),
            "one extra count is shared by all tokens. Each of them gets one.": log_shares(pairs, V, 1 / V),
            "only the last batch is counted.": log_shares(pairs_of(batches[-1:]), V),
            "only the first batch is counted.": log_shares(pairs_of(batches[:1]), V),
            "each batch adds at most one to a token, as `counts[targets] += 1` does.": (log_shares(once, V)),
            "each token counts at most once, as with `counts[targets] += 1`.": log_shares(
                [*{w: (v, w) for v, w in pairs}.values()], V
            ),
            "each batch counts the same. Each token should count the same.": torch.stack(
                [log_shares(pairs_of([batch]), V).exp() for batch in batches]
            )
            .mean(0)
            .log(),
            "N grows by the number of different targets. All V tokens have an extra count.": log_shares(
                pairs, V, 1.0, len({w for _, w in pairs})
            ),
            "this is a softmax of the counts. Divide them by their sum.": (right.exp() * (len(pairs) + V)).log_softmax(
                -1
            ),
        },
    )
    again = logs(unigram(batches, V), (V,), "what unigram returns")
    expect.close(again, right, "a second call with the same batches gives something else: keep nothing between calls.")
    return right


def table_is_counted(bigram: Remote, V: int, a: float, batches: Sequence[Any], right: torch.Tensor) -> None:
    """Fail unless the bigram's table is right; `right` are the unigram's logarithms."""
    pairs, padded, last = pairs_of(batches), pairs_of(batches, None), pairs_of(batches[-1:])
    table, shares = logs(bigram(batches, V, a=a), (V, V), "what bigram returns"), right.exp()
    assert not table[[v for v, _ in pairs]].isnan().any(), (
        "`bigram` gives NaN after a token that was an input (is it the logarithm of a negative number?). `unigram` "
        "returns logarithms: p(w) is their `exp`."
    )
    assert not table.isnan().any(), (
        "`bigram` gives NaN after a token that was never an input (0 / 0?). Its row should be what `unigram` gives."
    )
    wanted, before = log_table(pairs, V, a * shares), Counter(v for v, _ in padded)
    read = [(v, w) for v, w in padded if v != 1]
    once = [pair for batch in batches for pair in {*pairs_of([batch])}]
    targets = [w for _, w in padded]
    shifted = [(v, w) for v, w in zip([padded[0][0], *targets], targets, strict=False) if w != 1]
    expect.like(
        table,
        wanted,
        "`bigram` does not return log((c(v, w) + a p(w)) / (c(v) + a)), with a row for each v.",
        {
            "rows and columns are exchanged. Row v is about the token after v.": wanted.T,
            "the pairs are turned around: v is the input, w the target.": log_table(
                [(w, v) for v, w in pairs], V, a * shares
            ),
            "the `a` extra counts of a row are shared evenly. They should be shared in proportion to p(w).": log_table(
                pairs, V, torch.full((V,), a / V)
            ),
            "each pair gets `a` extra counts. A whole row gets `a`, shared in proportion to p(w).": log_table(
                pairs, V, torch.full((V,), a)
            ),
            "each pair gets one extra count. A whole row gets `a`, shared in proportion to p(w).": log_table(
                pairs, V, torch.ones(V)
            ),
            "`p(w)` is not smoothed here: a token that was never a target has the probability 0.": log_table(
                pairs, V, a * log_shares(pairs, V, 0.0).exp()
            ),
            "`a p(w)` is missing: a pair that never occurs has the probability 0.": log_table(
                pairs, V, torch.zeros(V), a
            ),
            "the rows do not sum to one: with `a` extra counts, c(v) becomes c(v) + a.": log_table(
                pairs, V, a * shares, -a
            ),
            "every row is divided by N + a. Row v should be divided by c(v) + a.": log_table(
                pairs, V, a * shares, rows=Counter({v: len(pairs) for v in range(V)})
            ),
            "`c(v)` counts inputs whose target is padding.": log_table(pairs, V, a * shares, rows=before),
            "padding counts. A target that is `pad_id` should not.": log_table(
                padded, V, a * log_shares(padded, V).exp()
            ),
            "padding counts among the pairs. A target that is `pad_id` should not.": log_table(padded, V, a * shares),
            "padding counts in p(w). A target that is `pad_id` should not.": log_table(
                pairs, V, a * log_shares(padded, V).exp()
            ),
            "`a` is ignored.": log_table(pairs, V, shares),
            "`a` is always 30 here. Use the value that is given.": log_table(pairs, V, 30 * shares),
            "probabilities are returned. Take their logarithm.": wanted.exp(),
            "only the last batch is counted.": log_table(last, V, a * log_shares(last, V).exp()),
            "the pairs of the last batch alone are counted.": log_table(last, V, a * shares),
            "the pairs of the last batch are left out.": log_table(pairs_of(batches[:-1]), V, a * shares),
            "among the pairs, the input decides what is padding. Leave out those whose target is `pad_id`.": log_table(
                read, V, a * shares
            ),
            "each batch adds at most one to a pair, as `pairs[inputs, targets] += 1` does.": log_table(
                once, V, a * shares
            ),
            "each pair is counted once. Count how often it comes.": log_table([*{*pairs}], V, a * shares),
            "every row is what `unigram` gives: the token before is ignored.": right.expand(V, V),
            "after a token that was never an input, the shares are even. They should be those of `unigram`.": (
                torch.where(torch.tensor([[v in dict(pairs)] for v in range(V)]), wanted, -math.log(V))
            ),
            "the input decides what is padding. Leave out the pairs whose target is `pad_id`.": log_table(
                read, V, a * log_shares(read, V).exp()
            ),
            "`v` is taken from the target before, even across texts. It should be the input at the same position.": (
                log_table([*itertools.pairwise(w for _, w in pairs)], V, a * log_shares(pairs[1:], V).exp())
            ),
            "`v` is the target before, so at the start of a row the last target of another row. "
            "It should be the input at the same position.": log_table(shifted, V, a * shares),
            "`v` is the target before, padding too. It should be the input at the same position.": log_table(
                shifted[1:], V, a * shares
            ),
            "`v` is taken from the target before it. It should be the input at the same position.": log_table(
                [*itertools.pairwise(w for _, w in pairs)], V, a * shares
            ),
            "inputs that are `pad_id` are left out. The target alone decides.": log_table(
                [(v, w) for v, w in pairs if v != 1], V, a * shares
            ),
        },
    )
