"""Checks of notebook 13: cross-attention, decoder layers, batches, smoothing, BLEU, beams, a fused BERT, drop-net."""

import itertools
import math
import random
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch.nn import functional as F

from utils.checks import nb13_toys as toys
from utils.experiments import translation
from utils.grading import expect, remote
from utils.grading.check import check, stretch
from utils.grading.contract import Contract, world_kept
from utils.grading.expect import normal
from utils.grading.forbidden import MODELS
from utils.grading.misconceptions import ONE_INPUT
from utils.grading.remote import Library, Remote
from utils.grading.results_check import results_check
from utils.grading.verdict import sentence

State = dict[str, torch.Tensor]
ATTENTION = ("MultiheadAttention", "multi_head_attention_forward", *MODELS)
LAYERS = (
    "TransformerDecoderLayer",
    "TransformerDecoder",
    "TransformerEncoderLayer",
    "TransformerEncoder",
)

# 13.1

MAPS = ("q_proj", "k_proj", "v_proj", "out_proj")


def attention_shapes(d: int, read: int, prefix: str = "") -> dict[str, tuple[int, ...]]:
    """The parts of a `CrossAttention`."""
    shapes: dict[str, tuple[int, ...]] = {}
    for name in MAPS:
        shapes |= {f"{prefix}{name}.weight": (d, read if name[0] in "kv" else d), f"{prefix}{name}.bias": (d,)}
    return shapes


def part_of(state: State, name: str) -> State:
    """The weights of one part of a module."""
    return {key.removeprefix(f"{name}."): value for key, value in state.items() if key.startswith(f"{name}.")}


def blocks(x: torch.Tensor, heads: int) -> torch.Tensor:
    """(B, n, d) -> (B, heads, n, d / heads): the h-th block of columns is head h."""
    return torch.stack(x.chunk(heads, dim=-1), dim=1)


def interleaved(x: torch.Tensor, heads: int) -> torch.Tensor:
    """As `blocks`, but head h has every column h, h + heads, ..."""
    return x.unflatten(-1, (-1, heads)).movedim(-1, 1)


def attend(
    state: State,
    x: torch.Tensor,
    memory: torch.Tensor,
    allowed: torch.Tensor | None,
    heads: int,
    *,
    scale: float | None = None,
    cut: Callable[[torch.Tensor, int], torch.Tensor] = blocks,
    last: bool = True,
    over: int = -1,
    without: str = "",
    hidden: float = -torch.inf,
    after: bool = False,
    back: bool = True,
    shared: bool = False,
) -> torch.Tensor:
    """Attention of x to a memory, as 13.1 says it, or with a mistake in it.

    without: a map whose bias is missing; hidden: the score of what is not allowed; after: that gets its weight 0 after
    the softmax; back: False where heads are put together without moving their axis; shared: head h of all sentences
    uses the mask of sentence h.
    """

    def mapped(name: str, y: torch.Tensor) -> torch.Tensor:
        bias = 0 if name == without else state[f"{name}.bias"].to(y.dtype)
        return y @ state[f"{name}.weight"].to(y.dtype).mT + bias

    q, k, v = (cut(mapped(name, y), heads) for name, y in (("q_proj", x), ("k_proj", memory), ("v_proj", memory)))
    scores = q @ k.mT * (q.size(-1) ** -0.5 if scale is None else scale)
    no = None if allowed is None else ~allowed.expand(len(x), x.size(1), memory.size(1))[:, None]
    no = no.movedim(0, 1) if shared and no is not None else no
    scores = scores if no is None or after else scores.masked_fill(no, hidden)
    weights = scores.softmax(over).nan_to_num()
    mixed = (weights if no is None or not after else weights.masked_fill(no, 0)) @ v
    if not back:
        return mapped("out_proj", mixed.flatten(1).view(x.shape))
    together = mixed.movedim(1, -1).flatten(-2) if cut is interleaved else torch.cat([*mixed.unbind(1)], -1)
    return mapped("out_proj", together) if last else together


def read_mask(B: int, T: int, S: int, seed: int) -> torch.Tensor:
    """Which places of the memory each token may read, at least one of them, (B, T, S)."""
    allowed = torch.rand(B, T, S, generator=expect.generator(seed)) < 0.6
    return allowed.scatter(-1, torch.randint(S, (B, T, 1), generator=expect.generator(seed + 1)), True)


def attended(
    layer: Remote,
    state: State,
    x: torch.Tensor,
    memory: torch.Tensor,
    allowed: torch.Tensor | None,
    heads: int,
    when: str = "",
) -> bool:
    """Fail unless the output is that of attention to the memory; whether it is.

    when: begins the sentences of mistakes, where the output was right for other sizes.
    """
    (B, T, d), S = x.shape, memory.size(1)
    value = layer(x, memory) if allowed is None else layer(x, memory, allowed)
    if type(value) is torch.Tensor and T != S:
        told = (
            "there is an output for each place of the memory. Queries come from x: one output for each of its tokens."
        )
        assert value.shape != (B, S, d), told
    seen = "" if allowed is None else f" and `allowed` {tuple(allowed.shape)}"
    found = expect.floats(value, (B, T, d), f"the output for x {(B, T, d)}, a memory {tuple(memory.shape)}{seen}")
    but: Callable[..., Any] = partial(partial, attend, state, x, memory, allowed, heads)
    guesses: dict[str, expect.Guess] = {
        "the scores are not divided by the root of d_head.": but(scale=1.0),
        "the scores are divided by the root of d_model. A head is only d_head wide.": but(scale=d**-0.5),
        "the scores are divided by d_head, not by its root.": but(scale=heads / d),
        "the heads are interleaved. Head h owns the h-th block of columns.": but(cut=interleaved),
        "all heads attend as one: `n_heads` is not used.": partial(attend, state, x, memory, allowed, 1),
        "the output projection is missing: `out_proj` is never used.": but(last=False),
        "the softmax runs over the queries. It should run over the memory, the last axis.": but(over=-2),
        "the input is added to the output. There should be no residual in 13.1.": lambda: (
            attend(state, x, memory, allowed, heads) + x
        ),
        "keys and values are exchanged.": partial(
            attend, exchange(state, "k_proj", "v_proj"), x, memory, allowed, heads
        ),
        "the heads are put together in the wrong order: their axis has to move back first.": but(back=False),
        **{f"the bias of `{name}` is missing.": but(without=name) for name in MAPS},
    }
    if allowed is not None:

        def ignored() -> torch.Tensor:
            """What comes without `allowed`; nothing, if the layer heeds one row of it for all tokens."""
            row = allowed[:, :1]
            heeds = expect.near(layer(x, memory, row), attend(state, x, memory, row, heads), 1e-4, 1e-4)
            free = attend(state, x, memory, None, heads)
            return torch.full_like(free, torch.nan) if heeds and not row.all() else free

        guesses["`allowed` is ignored: padding of the memory is read."] = ignored
        guesses["`allowed` is used the wrong way round: True is where reading is allowed."] = partial(
            attend, state, x, memory, ~allowed, heads
        )
        guesses["places that are not allowed get the score 0. That is a score like any other, so they are read."] = but(
            hidden=0.0
        )
        guesses[
            "places that are not allowed are left out after the softmax, so the weights of a row do not sum to 1."
        ] = but(after=True)
        if allowed.size(1) == T == S:
            guesses["`allowed` is transposed: its rows are tokens of x, its columns places of the memory."] = partial(
                attend, state, x, memory, allowed.mT, heads
            )
        if len(allowed) == B == heads > 1:
            guesses["`allowed` has no axis for the heads: each head uses the mask of another sentence."] = but(
                shared=True
            )
        if allowed.size(1) > 1:
            guesses["the first row of `allowed`, that of the first token of x, is used for all tokens."] = partial(
                attend, state, x, memory, allowed[:, :1].expand_as(allowed), heads
            )
        first = allowed[:1].expand_as(allowed)
        guesses["the part of `allowed` for the first text is used for the whole batch."] = partial(
            attend, state, x, memory, first, heads
        )
    if memory.shape == x.shape:
        guesses["queries come from the memory, keys and values from x. It should be the other way round."] = partial(
            attend, state, memory, x, allowed, heads
        )
        guesses["the memory is not used: x attends to itself."] = partial(attend, state, x, x, allowed, heads)
    told = f"for x {(B, T, d)}, a memory {tuple(memory.shape)}{seen}, with {heads} heads, the output is wrong."

    def otherwise() -> str:
        plain = f"{told} {expect.difference(found, wanted, 1e-4, 1e-4)}{remote.called(found, told)}"
        if not expect.near(layer(x, memory), layer(x, memory), atol=1e-5):
            return "two calls with the same x and memory give different outputs. They should give the same."
        if expect.near(layer(x, memory), layer(x, memory.flip(1)), atol=1e-3):
            return plain
        return (
            f"{told} It is another one if the places of the memory come in the reverse order. It should not depend on "
            "their order, only on what they hold."
        )

    wanted = attend(state, x, memory, allowed, heads)
    expect.like(found, wanted, otherwise, {f"{when}{why}": guess for why, guess in guesses.items()})
    return expect.near(found, wanted, 1e-4, 1e-4)


def kept_for_memory(
    layer: Remote,
    lib: Library,
    right: Callable[..., torch.Tensor],
    x: torch.Tensor,
    memory: torch.Tensor,
    masks: tuple[Any, ...],
) -> None:
    """Fail unless another x is answered rightly after a call with the very same memory, without gradients."""
    told = "where x is another one and the memory is that of the previous call, the output is wrong: something is kept."
    expect.close(lib(toys).same_second(layer, x - 1, x, memory, *masks), right(x, memory, *masks), told)


CROSS = Contract(
    "CrossAttention(d_model, H, r)(x, memory, allowed)",
    sizes={"B": (1, 4), "T": (1, 7, 600), "S": (1, 7, 2100), "H": (1, 4), "_w": (1, 4), "r": (1, 9)},
    d_model="= _w * H",
    x="floats (B, T, _w * H)",
    memory="floats (B, S, r)",
    allowed="bools (B, T, S) or None",
    gives="the output: as x (B, T, _w * H)",
    weights=lambda d, heads, read: attention_shapes(d, read),
    right=lambda state, d, heads, read, x, memory, allowed: attend(state, x, memory, allowed, heads),
    learns="x memory",
    low=False,
)


@check("13.1", points=2, forbids=ATTENTION)
def cross_attention(CrossAttention, lib):
    """Check queries from x, and keys and values from a memory of another size; what is masked changes nothing."""
    right = False
    for d, heads, read, B, T, S in (
        (12, 3, 10, 2, 4, 7), (8, 2, 8, 2, 5, 5), (6, 1, 4, 1, 1, 1), (4, 4, 9, 3, 6, 2), (6, 2, 5, 2, 3, 1),
        (4, 2, 3, 2, 3, 9),
    ):  # fmt: skip
        layer = CrossAttention(d, heads, read)
        state = expect.weights(layer, attention_shapes(d, read), f"`CrossAttention({d}, {heads}, {read})`", 130 + d)
        x, memory = normal(B, T, d, seed=131), normal(B, S, read, seed=132)
        masks = (None, read_mask(B, T, S, 133), read_mask(B, 1, S, 135), read_mask(1, T, S, 137))
        when = f"for `x.shape = {(B, T, d)}, memory.shape = {(B, S, read)}`, " if right else ""
        right = all([attended(layer, state, x, memory, allowed, heads, when) for allowed in masks]) or right
        layer.eval()
        attended(layer, state, x, memory, masks[1], heads, "in evaluation mode, " if right else "")
    d, heads, read, (B, T, S) = 12, 3, 10, (2, 4, 7)
    layer = CrossAttention(d, heads, read)
    state = expect.weights(layer, attention_shapes(d, read), "`CrossAttention(12, 3, 10)`", 139)
    x, memory, allowed = normal(B, T, d, seed=141), normal(B, S, read, seed=142), read_mask(B, 1, S, 143)
    found, edited = layer(x, memory, allowed), torch.where(allowed.mT, memory, memory + 50)
    expect.close(layer(x, edited, allowed), found, "a place that is not allowed changes the output.")
    told = "where the score of a place that is not allowed is far above the others, the output is wrong. Such a place "
    told += "should have no weight, however high its score."
    edited = torch.where(allowed.mT, memory, memory + 2000)
    value = layer(x, edited, allowed)
    told_of_nan = "where the score of a place that is not allowed is far above the others, there is NaN in the output. "
    told_of_nan += "Give such places no score before the exponential."
    assert type(value) is not torch.Tensor or not value.isnan().any(), told_of_nan
    expect.close(value, found, told)
    told = "if `allowed` is not given, the output is wrong after a call with a mask. All places should be read then."
    for mask in (allowed, read_mask(1, T, S, 144), read_mask(1, 1, S, 145), read_mask(B, T, S, 146)):
        layer(x, memory, mask)
        expect.close(layer(x, memory), attend(state, x, memory, None, heads), told)
    kept_for_memory(layer, lib, partial(attend, state, heads=heads), x, memory, (allowed,))
    told = "keys and values of an earlier call are used. A call should read the memory that it is given, as it is now."
    for mode in (layer.train, layer.eval):
        mode()
        wanted = attend(state, x, memory + 1, allowed, heads)
        expect.close(lib(toys).written_between(layer, x, memory, allowed), wanted, told)
        expect.close(layer(x, memory + 1, allowed), wanted, told)
        expect.close(layer(x, memory, allowed), found, told)
        told_of_weights = "after the weights change, the layer still uses what it computed with the old ones."
        doubled = {name: 2 * value for name, value in state.items()}
        again = lib(toys).after_learning(layer, x, memory, allowed)
        expect.close(again, attend(doubled, x, memory, allowed, heads), told_of_weights)
        layer.load_state_dict(state)
    layer.train()
    # All scores of a row are -12000, 12000 or -6e7: what is hidden must come still lower, though not by any number.
    none = {"q_proj.weight": torch.zeros(d, d), "k_proj.weight": torch.zeros(d, read)}
    for size, place in ((-600.0, "below"), (600.0, "above"), (-3e6, "below")):
        far = state | {"q_proj.bias": torch.full((d,), 10.0), "k_proj.bias": torch.full((d,), size)}
        far |= none if size < -1e6 else {}
        layer.load_state_dict(far)
        told = (
            f"where scores are far {place} 0, the output is wrong. Softmax depends on differences alone, however large"
        )
        expect.close(layer(x, memory), attend(far, x, memory, None, heads), f"{told} the scores are.", 1e-2)
        told = (
            f"where scores are far {place} 0, places that are not allowed are read. Their weight should be exactly 0."
        )
        expect.close(layer(x, memory, allowed), attend(far, x, memory, allowed, heads), told, 1e-2)
    CROSS.hold(CrossAttention, lib, "dtypes", "layout", "gradients", "modes", "device")


# 13.2


def counted(number: int, what: str) -> str:
    """So many of something, in words."""
    return f"{number} {what}{'s' * (number != 1)}"


def layer_shapes(attentions: Mapping[str, int], d: int, d_ff: int) -> dict[str, tuple[int, ...]]:
    """The parts of a layer with these attentions, by name and the width that each reads."""
    shapes: dict[str, tuple[int, ...]] = {}
    for name, read in attentions.items():
        shapes |= {f"{name}.{part}.weight": (d, d if part == "ask" else read) for part in ("ask", "key", "value")}
    shapes |= {"linear1.weight": (d_ff, d), "linear1.bias": (d_ff,), "linear2.weight": (d, d_ff), "linear2.bias": (d,)}
    for number in range(1, len(attentions) + 2 - ("bert_attention" in attentions)):
        shapes |= {f"norm{number}.weight": (d,), f"norm{number}.bias": (d,)}
    return shapes


def layer_of(
    Layer: Remote, lib: Library, second: str, d: int, read: int, d_ff: int, p: float | None, seed: int
) -> tuple[Remote, State]:
    """A layer with weights of ours, which has the two attentions it was given: `self_attention` and the `second`.

    p: its dropout; None: what it has by itself.
    """
    attentions = lib(toys).Reads(d, d), lib(toys).Reads(d, read)
    layer, names = Layer(*attentions, d, d_ff, *([] if p is None else [p])), ("self_attention", second)
    shapes = layer_shapes(dict(zip(names, (d, read), strict=True)), d, d_ff)
    name = "DecoderLayer" if second == "cross_attention" else "BertFusedLayer"
    state = expect.weights(layer, shapes, f"`{name}({', '.join(names)}, {d}, {d_ff}, {p})`", seed)
    own = part_of(state, names[0]), part_of(state, second)
    if d == read and expect.agree(attentions[0].state_dict(), own[1]):
        assert not expect.agree(attentions[1].state_dict(), own[0]), "the two attentions are exchanged."
    for one, part in zip(attentions, names, strict=True):
        told = f"`{part}` of the layer is a copy, or another module. Keep the module that is given."
        assert expect.agree(one.state_dict(), part_of(state, part)), told
        told = f"making the layer changes the mode of `{part}`. The caller sets its mode."
        assert remote.read(one.training) is True, told
    return layer, state


def reads(state: State, x: torch.Tensor, memory: torch.Tensor, allowed: torch.Tensor | None) -> torch.Tensor:
    """What `toys.Reads` gives, from all scores of a token to its memory."""
    ask, key, value = (state[f"{part}.weight"].to(x.dtype) for part in ("ask", "key", "value"))
    scores = (x @ ask.mT) @ (memory @ key.mT).mT
    scores = scores if allowed is None else scores.masked_fill(~allowed, -torch.inf)
    return scores.softmax(-1) @ (memory @ value.mT)


def normed(state: State, name: str, x: torch.Tensor) -> torch.Tensor:
    """Layer norm, as nn.LayerNorm has it by itself."""
    return F.layer_norm(x, x.shape[-1:], state[f"{name}.weight"].to(x.dtype), state[f"{name}.bias"].to(x.dtype))


def fed(state: State, x: torch.Tensor, act: Callable[[torch.Tensor], torch.Tensor] = F.relu) -> torch.Tensor:
    """Two linear maps with something between them."""
    one, two = ({key: part.to(x.dtype) for key, part in part_of(state, f"linear{n}").items()} for n in (1, 2))
    return F.linear(act(F.linear(x, one["weight"], one["bias"])), two["weight"], two["bias"])


def causal(T: int) -> torch.Tensor:
    """Which places each place may read: itself and those before it, (1, T, T)."""
    places = torch.arange(T)
    return (places <= places[:, None])[None]


def own_modes(layer: Remote, names: Sequence[str], given: Sequence[Any]) -> None:
    """Fail unless the modules that a layer was given are called, and left, in the mode in which they are."""
    for mode, other in itertools.product((True, False), repeat=2):
        layer.train(mode)
        for name in names:
            getattr(layer, name).train(other)
        layer(*given)
        for name in names:
            part = getattr(layer, name)
            told = " in a different mode (training or evaluation) from the one that the caller set."
            told += " Only the BERT is frozen: the attention to it learns." if name == "bert_attention" else ""
            assert remote.read(part.asked_in) is other, f"`{name}` is called{told}"
            assert remote.read(part.training) is other, f"`{name}` is left{told}"
    layer.train()


def first_row(T: int) -> torch.Tensor:
    """The first place alone, which has nothing else to read, (1, T, T)."""
    return torch.tensor([[column == row == 0 for column in range(T)] for row in range(T)])[None]


Sub = Callable[[torch.Tensor], torch.Tensor]


def decoded(
    state: State,
    x: torch.Tensor,
    memory: torch.Tensor,
    allowed: torch.Tensor | None,
    *,
    order: Sequence[str] = ("self", "cross", "feed"),
    norms: Sequence[str] = ("norm1", "norm2", "norm3"),
    pre: bool = False,
    seen: torch.Tensor | None = None,
    past: bool = True,
    source: torch.Tensor | None = None,
    asks: torch.Tensor | None = None,
    act: Callable[[torch.Tensor], torch.Tensor] = F.relu,
    adds: Mapping[str, bool] | None = None,
    swapped: bool = False,
    inside: bool = False,
    crossed: torch.Tensor | None = None,
) -> torch.Tensor:
    """A decoder layer as 13.2 says it, or with a mistake in it.

    norms: which one comes after each part; seen: what self-attention may read instead of the past; past: whether that
    is hidden at all; source: what cross-attention reads; asks: whence its queries; adds: False at parts without a sum;
    swapped: the attentions; inside: the norms are on the parts, before the sums; crossed: what is added to
    cross-attention.
    """
    mask = (causal(x.size(1)) if seen is None else seen) if past else None
    names = ("cross_attention", "self_attention") if swapped else ("self_attention", "cross_attention")
    memory = memory if source is None else source
    parts: dict[str, Sub] = {
        "self": lambda y: reads(part_of(state, names[0]), y, y, mask),
        "cross": lambda y: reads(part_of(state, names[1]), y if asks is None else asks, memory, allowed),
        "feed": lambda y: fed(state, y, act),
    }
    for name, norm in zip(order, norms, strict=True):
        keeps = (adds or {}).get(name, True)
        if pre:
            x = x + parts[name](normed(state, norm, x))
        elif inside:
            x = x + normed(state, norm, parts[name](x))
        elif name == "cross" and crossed is not None:
            x = normed(state, norm, crossed + parts[name](x))
        else:
            x = normed(state, norm, x + parts[name](x) if keeps else parts[name](x)) if norm else x + parts[name](x)
    return x


def decoded_rows(state: State, x: torch.Tensor, memory: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """What a decoder layer gives at some places of a long x (B, T, d)."""
    some, past = x[:, rows], (torch.arange(x.size(1)) <= rows[:, None])[None]
    a = normed(state, "norm1", some + reads(part_of(state, "self_attention"), some, x, past))
    b = normed(state, "norm2", a + reads(part_of(state, "cross_attention"), a, memory, None))
    return normed(state, "norm3", b + fed(state, b))


def nothing_drawn(found: torch.Tensor, wanted: torch.Tensor, again: Callable[[], Any]) -> None:
    """Fail if an output is wrong, and `again`, the same call, gives another one."""
    told = "the same x gives different outputs in two calls. Dropout is 0 here: nothing should be drawn, and no call "
    told += "should change the next one."
    right = expect.near(found, wanted, 1e-4, 1e-4)
    assert right or all(expect.near(again(), found, 1e-4, 1e-4) for _ in range(12)), told


def exchange(state: State, one: str, other: str) -> State:
    """Weights in which two parts have each other's."""
    moved = {key: value for key, value in state.items() if key.split(".")[0] not in (one, other)}
    for first, second in ((one, other), (other, one)):
        moved |= {f"{first}.{key}": value for key, value in part_of(state, second).items()}
    return moved


def decodes(
    layer: Remote,
    state: State,
    x: torch.Tensor,
    memory: torch.Tensor,
    allowed: torch.Tensor | None,
    when: str = "",
) -> bool:
    """Fail unless the output is that of a decoder layer; whether it is.

    when: begins the sentences of mistakes, where the output was right for other sizes.
    """
    (B, T, d), S = x.shape, memory.size(1)
    value = layer(x, memory) if allowed is None else layer(x, memory, allowed)
    found = expect.floats(
        value, (B, T, d), f"the output for {counted(T, 'word')} and a memory of {counted(S, 'place')}"
    )
    but: Callable[..., Any] = partial(partial, decoded, state, x, memory, allowed)
    guesses: dict[str, expect.Guess] = {
        "the future is visible: self-attention has no causal mask.": but(past=False),
        "a word does not read itself. It should.": but(seen=causal(T) & ~torch.eye(T, dtype=torch.bool) | first_row(T)),
        "only the future is visible: the causal mask is transposed.": but(seen=causal(T).mT),
        "each word reads the next one too. That word is still to be predicted.": but(seen=causal(T + 1)[:, 1:, :-1]),
        "cross-attention comes before self-attention.": but(order=("cross", "self", "feed")),
        "cross-attention comes before self-attention, each with its norm.": but(
            order=("cross", "self", "feed"), norms=("norm2", "norm1", "norm3")
        ),
        "the feed-forward part comes before cross-attention.": but(order=("self", "feed", "cross")),
        "one norm is used in two places: `norm1` after cross-attention too.": but(norms=("norm1", "norm1", "norm3")),
        "one norm is used in two places: `norm1` at the end too.": but(norms=("norm1", "norm2", "norm1")),
        "one norm is used in two places: `norm2` at the end too.": but(norms=("norm1", "norm2", "norm2")),
        "one norm is used in all places.": but(norms=("norm1", "norm1", "norm1")),
        "one norm is used in all places, the last one.": but(norms=("norm3", "norm3", "norm3")),
        "the norms are in the wrong order.": but(norms=("norm2", "norm1", "norm3")),
        "the last norm is missing.": but(norms=("norm1", "norm2", "")),
        "a norm is missing: the one after self-attention.": but(norms=("", "norm2", "norm3")),
        "a norm is missing: the one after cross-attention.": but(norms=("norm1", "", "norm3")),
        "the norm comes before each part (pre-norm). It should come after the sum.": but(pre=True),
        "each norm is on what a part gives. It should come after the sum.": but(inside=True),
        "x is added to cross-attention. Add what `norm1` gives.": but(crossed=x),
        "the feed-forward part has a GELU, not a ReLU.": but(act=F.gelu),
        "the feed-forward part has no ReLU.": but(act=lambda y: y),
        "the queries of cross-attention come from x. They should come from what `norm1` gives.": but(asks=x),
        "cross-attention reads x instead of the memory.": but(source=x)
        if T == S and memory.size(2) == x.size(2)
        else but(),
        "the two attentions are exchanged: `cross_attention` reads the layer's own past.": but(swapped=True)
        if memory.size(2) == x.size(2)
        else but(),
        **{
            f"a sum is missing: {place}.": but(adds={name: False})
            for name, place in (
                ("self", "add what came into self-attention"),
                ("cross", "add what came into cross-attention"),
                ("feed", "add what came into the feed-forward part"),
            )
        },
    }
    if allowed is not None:
        guesses["`allowed` is ignored: padding of the source is read."] = partial(decoded, state, x, memory, None)
        told = "one row of `allowed` is used for all tokens. It may have a row for each."
        guesses[told] = partial(decoded, state, x, memory, allowed[:, :1])
        if T == S:
            both = allowed & causal(T)
            guesses["the causal mask hides places of the source too. All of the source may be read from the start."] = (
                partial(decoded, state, x, memory, both)
            )
            guesses["`allowed` hides words of the target. It belongs to the memory."] = but(seen=causal(T) & allowed)
    else:
        guesses["the causal mask hides places of the source too. All of the source may be read from the start."] = (
            partial(decoded, state, x, memory, torch.ones(1, T, S).tril().bool())
        )
    rest = (memory,) if allowed is None else (memory, allowed)
    told = f"for {counted(T, 'word')} and a memory of {counted(S, 'place')}, the output is wrong."
    right = decoded(state, x, memory, allowed)
    nothing_drawn(found, right, lambda: layer(x, *rest))
    expect.like(found, right, told, {f"{when}{why}": guess for why, guess in guesses.items()})
    return expect.near(found, right, 1e-4, 1e-4)


def without_parts(
    layer: Remote,
    x: torch.Tensor,
    given: Sequence[Any],
    state: State,
    names: Sequence[str],
    where: str,
    right: Callable[..., torch.Tensor],
) -> None:
    """Fail unless a layer whose dropout takes everything norms its input in training, and else gives what is right.

    where: dropout is.
    """
    layer.train()
    told = "in training mode with dropout 1.0, the output"
    found, wanted = expect.floats(layer(x, *given), tuple(x.shape), told), x
    for name in names:
        wanted = normed(state, name, wanted)
    told = "in training mode with dropout 1.0, nothing is left of the parts, so the output should be the normed input. "
    told += f"Dropout belongs {where}, nowhere else."
    expect.close(found, wanted, told)
    layer.eval()
    told = "in evaluation mode with dropout 1.0, the output is wrong: in evaluation mode, dropout should do nothing."
    expect.close(layer(x, *given), right(state, x, *given), told)


def some_dropped(part: torch.Tensor, scale: float) -> torch.Tensor:
    """What dropout can leave of a part (..., d): for each of the 2^d masks a copy, (2^d, ..., d)."""
    d = part.size(-1)
    masks = torch.tensor([*itertools.product((0.0, 1.0), repeat=d)])
    return part * masks.view(-1, *(1,) * (part.dim() - 1), d) * scale


def decoded_with_dropout(
    state: State, x: torch.Tensor, memory: torch.Tensor, allowed: torch.Tensor, scale: float
) -> torch.Tensor:
    """All that a decoder layer can give, (2^d, 2^d, 2^d, B, T, d): a mask of its own for each of the three parts."""
    past = causal(x.size(1))
    a = normed(state, "norm1", x + some_dropped(reads(part_of(state, "self_attention"), x, x, past), scale))
    rows = [reads(part_of(state, "cross_attention"), one, memory, allowed) for one in a]
    b = normed(state, "norm2", a + some_dropped(torch.stack(rows), scale))
    return normed(state, "norm3", b + some_dropped(fed(state, b), scale))


def fused_with_dropout(
    state: State,
    x: torch.Tensor,
    bert: torch.Tensor,
    allowed: torch.Tensor,
    seen: torch.Tensor,
    scale: float,
    each: bool = False,
) -> torch.Tensor:
    """All that a BERT-fused layer can give, (2^d, 2^d, B, T, d); with a mask for each attention one axis more."""
    own = reads(part_of(state, "self_attention"), x, x, allowed)
    other = reads(part_of(state, "bert_attention"), x, bert, seen)
    left = some_dropped((own + other) / 2, scale)
    if each:
        left = (some_dropped(own, scale)[:, None] + some_dropped(other, scale)) / 2
    a = normed(state, "norm1", x + left)
    return normed(state, "norm2", a + some_dropped(fed(state, a), scale))


def drops(
    build: Callable[..., tuple[Remote, State]],
    lib: Library,
    x: torch.Tensor,
    given: Sequence[torch.Tensor],
    ways: Callable[..., torch.Tensor],
    where: str,
    wrong: Mapping[str, Callable[..., torch.Tensor]],
) -> None:
    """Fail unless dropout is where it should be: with p = 0.5, and with the layer's own 0.1.

    build: makes a layer of width 4 from p; ways: all outputs that dropout can leave, from the weights, x, what else is
    given, and the scale of what is kept. wrong: sentences, and the outputs of a layer with dropout in another place.
    """
    B, T, d = x.shape

    def nearest(found: torch.Tensor, every: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """How far the nearest of the outputs is, of each token, and its number."""
        return (every.reshape(-1, B, T, d) - found).abs().amax(-1).min(0)

    layer, state = build(0.5)
    layer.train()
    turns = lib(toys).in_turn(layer, 159, [[x, *given]] * 2, {})
    every, masks = ways(state, x, *given, 2.0), []
    for found in turns:
        found = expect.floats(found, (B, T, d), "the output")
        far, number = nearest(found, every)
        if (far > 1e-4).any():
            told = "in training mode, the numbers that dropout keeps are not divided by 1 - p."
            assert (nearest(found, ways(state, x, *given, 1.0))[0] > 1e-4).any(), told
            for sentence, other in wrong.items():
                assert (nearest(found, other(state, x, *given, 2.0))[0] > 1e-4).any(), sentence
            raise AssertionError(
                "in training mode with dropout 0.5, dropout in the right places cannot give this output. "
                f"It belongs {where}. Put no dropout on an input or inside a part."
            )
        bits = torch.stack([number >> place & 1 for place in range((every.dim() - 3) * d)], -1)
        masks.append(bits.view(B, T, every.dim() - 3, d))
    kept = torch.stack(masks)  # (calls, B, T, parts, d)
    told = "with dropout 0.5, half of the numbers of each part should be kept, each by a draw of its own."
    parts = kept.unbind(3)
    for part in parts:
        expect.likely(int(part.sum()), part.numel(), 0.5, told)
    for drawn, axis in [(kept, 3), *itertools.product(parts, range(4))]:
        same = drawn.narrow(axis, 0, 1) == drawn.narrow(axis, 1, drawn.size(axis) - 1)
        also = (
            "One draw decides for several numbers."
            if drawn is not kept and axis == 3
            else "The same mask is used more than once."
        )
        expect.likely(int(same.sum()), same.numel(), 0.5, f"{told} {also}")
    layer, state = build(None)
    layer.train()
    (found,) = lib(toys).in_turn(layer, 160, [[x, *given]], {})
    far, _ = nearest(expect.floats(found, (B, T, d), "the output"), ways(state, x, *given, 1 / 0.9))
    assert (far < 1e-4).all(), "without the argument `dropout`, the layer should have p = 0.1."


def own_norms(
    layer: Remote,
    state: State,
    given: Sequence[Any],
    right: Callable[..., torch.Tensor],
    before: Sequence[tuple[str, ...]],
) -> None:
    """Fail unless the norms have the eps of nn.LayerNorm, and the ReLU no upper end; `given` begins with x.

    before: of each norm but the first, the parts that make what it is given.
    """
    small = [1e-3 * one if one.is_floating_point() else one for one in given]
    told = "where x is small, the output is wrong: a norm should have the `eps` that nn.LayerNorm has by default."
    expect.close(layer(*small), right(state, *small), told)
    for parts in before:
        low = {name: 1e-3 * value if name.startswith(parts) else value for name, value in state.items()}
        layer.load_state_dict(low)
        expect.close(layer(*given), right(low, *given), told.replace("x is", "the input of a norm is"))
    wide = {name: 30 * value if name.startswith("linear1.") else value for name, value in state.items()}
    layer.load_state_dict(wide)
    told = "where the feed-forward part has large numbers inside, the output is wrong: a ReLU has no upper limit."
    expect.close(layer(*given), right(wide, *given), told, 1e-3)
    layer.load_state_dict(state)


DECODER = Contract(
    "DecoderLayer(own, cross, 6, F, 0.0)(x, memory, allowed)",
    sizes={"B": (1, 4), "T": (1, 7), "S": (1, 7, 2100), "F": (1, 12)},
    own=lambda toys, seed: toys.Reads(6, 6),
    cross=lambda toys, seed: toys.Reads(6, 5),
    toys=toys,
    x="floats (B, T, 6)",
    memory="floats (B, S, 5)",
    allowed="bools (B, T, S) or None",
    gives="the output: as x (B, T, 6)",
    weights=lambda own, cross, d, d_ff, p: layer_shapes({"self_attention": 6, "cross_attention": 5}, d, d_ff),
    right=lambda state, own, cross, d, d_ff, p, x, memory, allowed: decoded(state, x, memory, allowed),
    learns="x memory",
    low=False,
)


@check("13.2", points=3, forbids=(*LAYERS, *ATTENTION))
def decoder_layer(DecoderLayer, lib):
    """Check self-attention to the past, attention to the memory and a feed-forward part: post-norm, in this order."""

    build, right = partial(layer_of, DecoderLayer, lib, "cross_attention"), False
    for d, read, d_ff, B, T, S in (
        (12, 12, 7, 2, 4, 6), (8, 8, 5, 2, 5, 5), (4, 7, 9, 1, 1, 3), (6, 6, 6, 3, 3, 1), (6, 5, 4, 1, 2, 2),
    ):  # fmt: skip
        layer, state = build(d, read, d_ff, 0.0, 150 + d)
        x, memory = normal(B, T, d, seed=151), normal(B, S, read, seed=152)
        masks = (None, read_mask(B, 1, S, 153), read_mask(B, T, S, 161), read_mask(1, T, S, 163))
        when = f"for {counted(T, 'word')} and a memory of {counted(S, 'place')}, " if right else ""
        right = all([decodes(layer, state, x, memory, allowed, when) for allowed in masks]) or right
        if d == 12:  # of the others the contract asks for both modes
            layer.eval()
            decodes(layer, state, x, memory, masks[-1], "in evaluation mode, " if right else "")
    d, read, (B, T, S) = 12, 9, (2, 4, 6)
    layer, state = build(d, read, 7, 1.0, 155)
    x, memory, allowed = normal(B, T, d, seed=156), normal(B, S, read, seed=157), read_mask(B, 1, S, 158)
    where = "on what each of the three parts gives, before it is added"
    without_parts(layer, x, (memory, allowed), state, ("norm1", "norm2", "norm3"), where, decoded)
    told = "keys and values of an earlier call are used. A call should read the memory that it is given, as it is now."
    wanted = decoded(state, x, memory + 1, allowed)
    expect.close(lib(toys).written_between(layer, x, memory, allowed), wanted, told)
    kept_for_memory(layer, lib, partial(decoded, state), x, memory, (allowed,))
    before = ("norm1.", "cross_attention.value"), ("norm2.", "linear2.")
    own_norms(layer, state, (x, memory, allowed), decoded, before)
    own_modes(layer, ("self_attention", "cross_attention"), (x, memory, allowed))
    layer.eval()
    given = normal(3, 6, 5, seed=165), read_mask(3, 4, 6, 170)
    drops(lambda p: build(4, 5, 6, p, 167), lib, normal(3, 4, 4, seed=168), given, decoded_with_dropout, where, {})
    found = layer(x, memory, allowed)
    later = torch.cat([x[:, :2], x[:, 2:] + 3], 1)
    expect.close(
        layer(later, memory, allowed)[:, :2],
        found[:, :2],
        "the future is visible: later words change the outputs of earlier ones.",
    )
    longest = min(max(1600, 1 + lib(toys).longest_axis(layer)), 5001)  # longer than a mask that was made beforehand
    longer, few = normal(1, longest, d, seed=169), memory[:1]
    longer[:, 5] = 0  # a word like any other
    rows = torch.tensor([0, 1, 40, 600, longest - 60, longest - 2, longest - 1])
    told = f"with an x of {longest} words there is an error. The causal mask should be as long as each x."
    long = expect.floats(expect.answers(layer, longer, few, says=told), (1, longest, d), "the output")
    told = f"with an x of {longest} words the output is wrong. Each word should read itself and all words before it."
    expect.close(long[:, rows], decoded_rows(state, longer, few, rows), told)
    told = "after a long x, the output for a short one is wrong. The causal mask should be as long as each x."
    expect.close(expect.answers(layer, x, memory, allowed, says=told), found, told)
    DECODER.hold(DecoderLayer, lib, "dtypes", "layout", "gradients", "modes", "device")


# 13.3

Numbers = Sequence[int]


def rows_of(rows: Sequence[Numbers], pad: int, left: bool = False) -> torch.Tensor:
    """Rows of numbers, filled up with pad."""
    width = max(map(len, rows))
    filled = [([pad] * (width - len(row)) + [*row]) if left else ([*row] + [pad] * (width - len(row))) for row in rows]
    return torch.tensor(filled, dtype=torch.int64)


def batched(translation_batch: Remote, pairs: Sequence[tuple[list[int], list[int]]], bos: int, eos: int, pad: int):
    """Fail unless the three tables are right."""
    given = [([*source], [*target]) for source, target in pairs]
    value = expect.items(translation_batch(given, bos, eos, pad), 3, "`translation_batch` should return three tensors")
    sources, targets = [[*source] for source, _ in pairs], [[*target] for _, target in pairs]
    begun, ended = [[bos, *target] for target in targets], [[*target, eos] for target in targets]
    both = [[bos, *target, eos] for target in targets]
    wanted = {
        "the source": [[*source, eos] for source in sources], "the decoder's input": begun, "the target": ended,
    }  # fmt: skip
    wrong: dict[str, dict[str, list[list[int]]]] = {
        "the source": {
            "the source has no EOS.": sources,
            "the source begins with BOS. It only ends with EOS.": [[bos, *source, eos] for source in sources],
            "source and target are exchanged.": ended,
            "the source ends with BOS. It should end with EOS.": [[*source, bos] for source in sources],
            "the source is in reverse order.": [[*source[::-1], eos] for source in sources],
        },
        "the decoder's input": {
            "the decoder's input is the target, which it should predict. The input should begin with BOS.": ended,
            "the decoder's input has no BOS.": targets,
            "the decoder's input ends with EOS. Nothing comes after that: leave it out.": both,
            "the decoder's input begins with EOS instead of BOS.": [[eos, *target] for target in targets],
            "the decoder's input lacks the last word. With BOS it is one longer than the sentence.": [
                [bos, *target[:-1]] for target in targets
            ],
            "the decoder's input is the source. It should be the target, after BOS.": [
                [bos, *source] for source in sources
            ],
        },
        "the target": {
            "the target begins with BOS. The decoder is given BOS, so it need not predict it.": both,
            "the target is the same as the decoder's input. It should be one word ahead.": begun,
            "the target has no EOS: the decoder would never learn to stop.": targets,
            "the target lacks its first word. Only the decoder's input is shifted, by BOS.": [
                [*target[1:], eos] for target in targets
            ],
            "the target ends with BOS. It should end with EOS.": [[*target, bos] for target in targets],
            "the target is the source. It should be the sentence in the other language, with EOS.": [
                [*source, eos] for source in sources
            ],
        },
    }
    for (name, rows), one in zip(wanted.items(), value, strict=True):
        assert type(one) is torch.Tensor, f"{name} should be a tensor, not {remote.kind(one)}."
        assert one.dtype is torch.int64, f"{name} is {one.dtype}. It should be int64."
        right = rows_of(rows, pad)
        if not torch.equal(one, right):
            guesses = {sentence: rows_of(some, pad) for sentence, some in wrong[name].items()}
            if name != "the decoder's input":
                bare = rows_of([row[:-1] for row in rows], pad)
                guesses["EOS comes after the padding. It should come before the padding, as the end of each row."] = (
                    torch.cat([bare, torch.full((len(rows), 1), eos)], 1)
                )
            guesses |= {
                f"{name} is padded on the left.": rows_of(rows, pad, left=True),
                f"{name} is padded with 0. It should be padded with `pad`.": rows_of(rows, 0),
                f"{name} is padded with EOS. It should be padded with `pad`.": rows_of(rows, eos),
                f"{name} is padded with BOS. It should be padded with `pad`.": rows_of(rows, bos),
                "the rows are sorted by length. They should keep the order of the pairs.": rows_of(
                    sorted(rows, key=len), pad
                ),
                "the rows are sorted by length, the longest first. They should keep the order of the pairs.": rows_of(
                    sorted(rows, key=len, reverse=True), pad
                ),
                "the rows are in reverse order. They should keep the order of the pairs.": rows_of(rows[::-1], pad),
                (
                    f"{name} has wrong numbers where token numbers are large: they went through int16."
                ): right.short().long(),
                f"{name} has wrong numbers where token numbers are large: they went through int32.": right.int().long(),
                (
                    f"{name} has wrong numbers where token numbers are large: they went through floats."
                ): right.float().long(),
            }
            if any(torch.equal(one, guess) for guess in guesses.values()) or one.shape == right.shape:
                expect.like(one, right, partial(first_wrong_row, name, one, right, pairs), guesses, 0.0)
                return
            told = f"{name} has rows and columns exchanged: its shape is {tuple(one.shape)}, not {tuple(right.shape)}."
            assert one.shape == right.shape or not torch.equal(one, right.mT), told
            assert one.dim() != 2 or len(one) == len(pairs), (
                f"{name} has {len(one)} rows for {len(pairs)} pairs. Each pair should "
                "have a row, even if it comes twice."
            )
            told = f"{name} has shape {tuple(one.shape)}, not {tuple(right.shape)}."
            assert one.dim() == 2, f"{told} Each pair should have a row, even a single one."
            others = {max(map(len, some)) for other, some in wanted.items() if other != name}
            why = "whatever the other language needs" if one.size(1) in others else "with BOS or EOS"
            raise AssertionError(f"{told} It should be as long as its own longest row, {why}.")


def first_wrong_row(name: str, found: torch.Tensor, right: torch.Tensor, pairs: Sequence[Any]) -> str:
    """A sentence about the first row of a table that is wrong: its pair, and what came."""
    row, place = (found != right).nonzero()[0].tolist()
    told = f"for {len(pairs)} pairs, {name} is wrong in row {row}, first at place {place}."
    if len(found[row]) > 12:
        return told
    return f"{told} There your code has `{found[row].tolist()}`, for the pair `{pairs[row]}`."


@check("13.3", points=1, forbids=MODELS)
def translation_batch(translation_batch, lib):
    """Check the ends of sources and targets and the starts of decoder inputs, each padded to its own longest."""
    with world_kept(lib, "after `translation_batch`,"):
        translation_batch([([5, 6], [7])], 1, 2, 0)
    for pairs, bos, eos, pad in (
        ([([5, 6, 7, 8], [9, 10]), ([11], [12, 13, 14])], 1, 2, 0),
        ([([4], [5, 6, 7]), ([8, 9], [4]), ([10, 3, 12], [7, 7])], 0, 1, 2),
        ([([5, 6], [7, 8])], 1, 2, 0),
        ([([], [7]), ([3], [])], 2, 1, 9),
        ([([], [])], 1, 2, 3),
        ([([4, 5], [6]), ([7], [8, 9]), ([4, 5], [6])], 1, 2, 0),
        ([([0, 7], [0, 7]), ([5], [8, 0])], 1, 2, 3),
        ([([*range(3, 603)], [5, 6]), ([7], [*range(10, 540)])], 1, 2, 0),
        ([([50256, 2**24 + 1], [128000]), ([3], [2**24 + 1, 2**33])], 40000, 40001, 40002),
    ):
        batched(translation_batch, pairs, bos, eos, pad)
    told = "where there is a GPU, the tables are put on it. They should be on the CPU."
    assert not lib(toys).moves_away(translation_batch, [([5, 6], [7])], 1, 2, 0), told


# 13.4


def smoothed(
    logits: torch.Tensor,
    targets: torch.Tensor,
    eps: float,
    pad: int,
    *,
    share: Callable[[int], float] = lambda V: 1 / V,
    own: Callable[[float, int], float] = lambda eps, V: 1 - eps + eps / V,
    counts_padding: str = "",
    normalised: bool = False,
    hides: bool = False,
) -> torch.Tensor:
    """The loss of 13.4, place by place, or with a mistake in it.

    share: what the others get of eps; own: what the right one gets; counts_padding: "sum" or "mean"; normalised:
    whether logits are log-probabilities already; hides: whether the token `pad` gets no share.
    """
    V, total, count = logits.size(-1), logits.new_zeros(()), 0
    for scores, target in zip(logits.flatten(0, -2), targets.flatten().tolist(), strict=True):
        if target == pad and counts_padding != "sum":
            count += counts_padding == "mean"
            continue
        log_p = scores if normalised else scores - scores.logsumexp(-1)
        wanted = torch.full_like(log_p, eps * share(V))
        wanted[target] = own(eps, V)
        if hides:
            wanted[pad] = 0
        total, count = total - (wanted * log_p).sum(), count + 1
    return total / count


def lost(smoothed_loss: Remote, logits: torch.Tensor, targets: torch.Tensor, eps: float, pad: int) -> None:
    """Fail unless the loss is right."""
    value = smoothed_loss(logits, targets, eps, pad)
    told = "the loss should be a tensor with one number. A Python number, such as `.item()` gives, has no gradient."
    assert type(value) is torch.Tensor, told
    told = f"the loss has shape {tuple(value.shape)}. It should be one number, the mean over all targets that count."
    assert value.numel() <= 1, told
    told = (
        f"the loss is {str(value.dtype)[6:]}, but the logits are {str(logits.dtype)[6:]}. It should have their dtype."
    )
    assert value.dtype is logits.dtype, told
    but, far = partial(smoothed, logits, targets, eps, pad), float(logits.abs().max())
    V, count = logits.size(-1), int((targets != pad).sum())
    where = f"with eps = {eps:g}, V = {V} and {count} of {targets.numel()} targets that count, the loss is"
    size = f" The logits are as far from 0 as {far:.0f}." if far > 50 else ""
    assert not value.isnan().any(), f"{where} NaN. It should be a number.{size}"
    found, wanted = expect.number(value, "the loss"), float(but())
    size += " Take logarithms that stay finite there, as `log_softmax` gives them." if size else ""
    assert math.isfinite(found), f"{where} {found:g}. It should be finite.{size}"
    if math.isclose(found, wanted, rel_tol=1e-4, abs_tol=1e-4):  # near 0 it is the rounding of large logits
        return
    real = targets.flatten() != pad
    p = logits.softmax(-1).flatten(0, -2)[real]
    uniform = -p.log().mean()
    likely = -(1 - eps) * p.gather(-1, targets.flatten()[real][:, None]).mean() - eps * p.mean()
    none = [float(smoothed(one[None], target[None], eps, pad)) != 0 for one, target in
            zip(logits.flatten(0, 1)[real], targets.flatten()[real], strict=True)]  # fmt: skip
    each = [pair for pair in zip(logits, targets, strict=True) if (pair[1] != pad).any()]
    guesses = {
        "the targets are not smoothed: eps is not used.": but(share=lambda V: 0, own=lambda eps, V: 1),
        "the right token gets `1 - eps` alone. The share `eps / V` goes to every token, the right one included.": but(
            own=lambda eps, V: 1 - eps
        ),
        "`eps` is shared among the other V - 1 tokens. It should be shared among all V.": but(
            share=lambda V: 1 / max(1, V - 1), own=lambda eps, V: 1 - eps
        ),
        "each token gets all of eps. It should get eps / V.": but(share=lambda V: 1, own=lambda eps, V: 1),
        "padding is counted. Leave out targets that are `pad`.": but(counts_padding="sum"),
        "the sum is divided by all places, padding included. Divide it by the number of targets that count.": but(
            counts_padding="mean"
        ),
        "the loss is a sum. It should be the mean over the targets that are not padding.": but()
        * int((targets != pad).sum()),
        "the logits are smoothed, not the targets.": smoothed((1 - eps) * logits + eps / V, targets, 0.0, pad),
        "the probabilities are smoothed, not the targets.": smoothed(
            ((1 - eps) * logits.softmax(-1) + eps / V).log(), targets, 0.0, pad
        ),
        "token 0 is taken for padding. `pad` says which token is padding.": but()
        if pad == 0
        else smoothed(logits, targets, eps, 0),
        ("the loss is the mean of the sentences' means. All targets should count the same."): torch.stack(
            [smoothed(*pair, eps, pad) for pair in each]
        ).mean(),
        "`1 - eps` is used in place of eps.": smoothed(logits, targets, 1 - eps, pad),
        "the sign is wrong.": -but(),
        "the cross-entropy keeps its whole weight. Its weight should be `1 - eps`, and the other part's eps.": but(
            own=lambda eps, V: 1 + eps / V
        ),
        "the cross-entropy keeps its whole weight, and eps goes to the sum over all tokens, not to their mean.": but(
            share=lambda V: 1, own=lambda eps, V: 1 + eps
        ),
        "the mean over all tokens has no weight. Its weight should be eps.": but(
            share=lambda V: 1 / (V * (eps or 1)), own=lambda eps, V: 1 - eps + 1 / V
        )
        if eps
        else but() + uniform,
        "the sum is divided by the number of sentences. Divide it by the number of targets that count.": but()
        * int((targets != pad).sum())
        / len(targets),
        "probabilities are used in place of their logarithms.": likely,
        "logarithms are to base 2. The loss should be in nats.": but() / math.log(2),
        "the softmax runs over the places of a sentence. It should run over the V tokens.": smoothed(
            logits.log_softmax(-2), targets, eps, pad, normalised=True
        ),
        "`eps` is used twice: the share of each token is eps squared / V.": but(
            share=lambda V: eps / V, own=lambda eps, V: 1 - eps + eps * eps / V
        ),
        "the token `pad` gets no share of eps. It should: it is one of the V tokens.": but(hides=True),
        "targets with a loss of 0 are left out of the count. Only those that are `pad` should be.": but()
        * len(none)
        / max(1, sum(none)),
    }
    numbers = {sentence: float(guess) for sentence, guess in guesses.items()}
    told = f"{where} wrong.{size.partition(' Take')[0]}"
    expect.number_like(found, wanted, "the loss", told, numbers, scale=1.0)


LOSS = Contract(
    "smoothed_loss(logits, targets, eps, pad)",
    sizes={"B": (1, 4), "T": (1, 7, 600), "V": (2, 9, 4200), "_e": (0, 10)},
    logits="floats (B, T, V)",
    pad="= V - 1",
    _tokens="ids (B, T) below V - 1",
    _counts="bools (B, T)",
    _rows="ids (B, 1) below 3",  # in a third of the rows but the first, all targets are padding
    targets="= _tokens.where(_counts & (_rows.index_fill(0, _rows[0] * 0, 1) > 0), pad)",
    eps="= _e / 10",
    gives="the loss: as logits (one number)",
    right=lambda logits, targets, eps, pad: smoothed(logits, targets, eps, pad),
    learns="logits",
)


@check("13.4", points=2, forbids=("cross_entropy", "CrossEntropyLoss", "KLDivLoss", "kl_div", "nll_loss", *MODELS))
def smoothed_loss(smoothed_loss, lib):
    """Check the mean cross-entropy, and its gradient, with targets that leave eps to all tokens, without padding."""
    for B, T, V, eps, pad, seed in (
        (2, 4, 7, 0.1, 0, 1), (3, 3, 3, 0.3, 2, 2), (1, 1, 5, 0.2, 4, 3), (2, 5, 11, 0.0, 3, 4), (4, 2, 6, 0.5, 1, 5),
    ):  # fmt: skip
        logits = 2 * normal(B, T, V, seed=160 + seed)
        targets = torch.randint(V, (B, T), generator=expect.generator(170 + seed))
        targets[0, 0] = (pad + 1) % V
        if T > 1:
            targets[-seed % 2, -1] = pad
        lost(smoothed_loss, logits, targets, eps, pad)
    for size, eps in ((200, 0.1), (5000, 0.1), (1, 1.0)):
        lost(smoothed_loss, size * normal(2, 3, 5, seed=167), torch.tensor([[1, 2, 3], [4, 0, 0]]), eps, 0)
    sure = (
        200 * F.one_hot(torch.tensor([[1, 1, 1, 2], [3, 3, 3, 3]]), 5).float()
    )  # surely right where targets are these
    lost(smoothed_loss, sure, torch.tensor([[1, 4, 4, 3], [3, 3, 0, 0]]), 0.0, 0)
    LOSS.hold(smoothed_loss, lib, "dtypes", "layout", "gradients", "device")


# 13.5

Words = list[str]


def grams(words: Sequence[str], n: int, of: Callable[[Sequence[str]], Any] = tuple) -> Counter[Any]:
    """The n-grams of a sentence, counted, each as `of` makes it from its words."""
    return Counter(of(words[place : place + n]) for place in range(len(words) - n + 1))


def bleu_of(
    hypotheses: Sequence[Words],
    references: Sequence[Words],
    *,
    orders: int = 4,
    clips: bool = True,
    brevity: Callable[[int, int], float] = lambda c, r: min(1.0, math.exp(1 - r / c)) if c else 0.0,
    mean: Callable[[Sequence[float]], float] = lambda values: math.exp(sum(map(math.log, values)) / len(values)),
    recall: bool = False,
    pooled: bool = False,
    more: int = 0,
    skips: bool = False,
    shortest: int = 0,
    of: Callable[[Sequence[str]], Any] = tuple,
    distinct: bool = False,
) -> float:
    """BLEU of a corpus, 0 to 100, from sums over its sentences; or with a mistake in it.

    pooled: an n-gram may match in any reference; more: is added to all counts; skips: orders without a match;
    shortest: words of a hypothesis whose n-grams count; of: what is compared of an n-gram; distinct: whether equal
    n-grams of a sentence count once.
    """
    found, there = [0] * orders, [0] * orders
    for guess, truth in zip(hypotheses, references, strict=True):
        for n in range(1, orders + 1 if len(guess) >= shortest else 1):
            mine, right = grams(guess, n, of), grams(truth, n, of)
            if distinct:
                mine, right = Counter({*mine}), Counter({*right})
            found[n - 1] += sum(
                min(count, right[one]) if clips else count * (one in right) for one, count in mine.items()
            )
            there[n - 1] += sum((right if recall else mine).values())
    if pooled:
        every = [
            [sum((grams(one, n) for one in side), Counter()) for side in (hypotheses, references)] for n in (1, 2, 3, 4)
        ]
        found = [(mine & right).total() for mine, right in every]
    if skips:
        found, there = ([one for one, match in zip(side, found, strict=True) if match] for side in (found, there))
    if not found or not all(found):
        return 0.0
    c, r = (sum(map(len, side)) for side in (hypotheses, references))
    return 100 * brevity(c, r) * mean([(a + more) / (b + more) for a, b in zip(found, there, strict=True)])


def scored(bleu: Remote, hypotheses: Sequence[Words], references: Sequence[Words], told: str = "") -> None:
    """Fail unless the score is BLEU's; `told` is said where no known mistake explains it."""
    value = expect.of_type(
        bleu([[*one] for one in hypotheses], [[*one] for one in references]), float, "the score should be a float"
    )
    but = partial(bleu_of, hypotheses, references)
    wanted = but()
    if math.isclose(value, wanted, rel_tol=1e-7):
        return
    each = [bleu_of([one], [other]) for one, other in zip(hypotheses, references, strict=True)]
    penalties = [
        min(1.0, math.exp(1 - len(other) / len(one))) if one else 0.0
        for one, other in zip(hypotheses, references, strict=True)
    ]
    guesses = {
        "the score is between 0 and 1. It should be between 0 and 100.": wanted / 100,
        "the score is the mean of the sentences' scores. Sum the counts over the corpus first.": sum(each) / len(each),
        "matches are not clipped: an n-gram should count at most as often as its reference has it.": but(clips=False),
        "the brevity penalty has no effect: a translation that is too short loses nothing.": but(
            brevity=lambda c, r: 1.0
        ),
        "the brevity penalty is upside down: it punishes translations that are too long.": but(
            brevity=lambda c, r: min(1.0, math.exp(1 - c / r)) if r else 0.0
        ),
        "the brevity penalty has no upper limit: translations that are too long are rewarded.": but(
            brevity=lambda c, r: math.exp(1 - r / c) if c else 0.0
        ),
        "the brevity penalty is c / r. It should be exp(1 - r / c).": but(brevity=lambda c, r: min(1.0, c / r)),
        "this is the arithmetic mean of the precisions. Use their geometric mean.": but(mean=lambda v: sum(v) / len(v)),
        "precisions are multiplied, and the fourth root is missing.": but(mean=math.prod),
        "recall is measured: matches are divided by the n-grams of the reference, not of the translation.": but(
            recall=True
        ),
        "n-grams match in any order of their words. The order should count.": but(of=lambda gram: tuple(sorted(gram))),
        "n-grams of different words match because their letters are equal once the words are joined.": but(of="".join),
        "hypotheses of fewer than four words are left out. Their n-grams should count.": but(shortest=4),
        "hypotheses of one or two words are left out. Their n-grams should count.": but(shortest=3),
        "hypotheses of one word are left out. Their n-grams should count.": but(shortest=2),
        "orders of n-grams that have no match are left out. The score should be 0 then.": but(skips=True),
        "the counts are smoothed: 1 is added. There should be no smoothing.": but(more=1),
        **{f"only n-grams up to {n} are counted. They should go up to 4.": but(orders=n) for n in (1, 2, 3)},
        "n-grams go up to 5. They should go up to 4.": but(orders=5),
        "only 4-grams are counted. All orders from 1 to 4 should be.": but(mean=lambda v: v[-1]),
        "hypotheses and references are exchanged.": bleu_of(references, hypotheses),
        "an n-gram matches in any reference. It has to be in the reference of its own sentence.": but(pooled=True),
        "equal n-grams of a sentence count once. Each should count, up to as often as the reference has it.": but(
            distinct=True
        ),
        "the corpus is joined to one text: n-grams go from one sentence to the next.": bleu_of(
            [[*itertools.chain(*hypotheses)]], [[*itertools.chain(*references)]]
        ),
        "the brevity penalty is the mean of the sentences' penalties. Sum the lengths first.": but(
            brevity=lambda c, r: sum(penalties) / len(penalties)
        ),
        "this is the harmonic mean of the precisions. Use their geometric mean.": but(
            mean=lambda v: len(v) / sum(1 / one for one in v)
        ),
        "this is the mean of the precisions' logarithms. Take `exp` of it.": but(
            mean=lambda v: sum(map(math.log, v)) / len(v)
        ),
        "the score is rounded to a whole number. Return it as it is.": float(round(wanted)),
        "the score is rounded. Return it as it is.": round(wanted, 2),
        "the penalty is under the fourth root. It should multiply the mean.": but(
            brevity=lambda c, r: min(1.0, math.exp(1 - r / c)) ** 0.25 if c else 0.0
        ),
    }
    longer = sum(max(len(one), len(other)) for one, other in zip(hypotheses, references, strict=True))
    told_of_lengths = "a sentence that is too long does not make up for one that is too short. Sum the lengths first."
    guesses[told_of_lengths] = but(brevity=lambda c, r: min(1.0, math.exp(1 - longer / c)) if c else 0.0)
    shorter = sum(min(len(one), len(other)) for one, other in zip(hypotheses, references, strict=True))
    told_of_lengths = "a translation counts at most as long as its reference. Sum the lengths as they are."
    guesses[told_of_lengths] = but(brevity=lambda c, r: min(1.0, math.exp(1 - r / shorter)) if shorter else 0.0)
    real = [pair for pair in zip(hypotheses, references, strict=True) if pair[0]]
    told_of_empty = "empty translations are left out. The length of their references should count."
    guesses[told_of_empty] = bleu_of([one for one, _ in real], [other for _, other in real])
    once = dict.fromkeys((tuple(one), tuple(other)) for one, other in zip(hypotheses, references, strict=True))
    guesses["equal pairs of sentences count once. Each of them should count."] = bleu_of(
        [[*one] for one, _ in once], [[*other] for _, other in once]
    )
    if value == 0:  # that one is 0 and another is not says too little
        guesses = {sentence: guess for sentence, guess in guesses.items() if guess != 0}
    if not told and wanted == 0:
        told = "where an order of n-grams has no match, the score should be 0, without smoothing."
    if not told:
        asked = f"`bleu({[*hypotheses]}, {[*references]})`"
        asked = asked if len(asked) < 400 else f"a corpus of {len(hypotheses)} sentences"
        told = f"for {asked}, the score is wrong."
    expect.number_like(value, wanted, "BLEU", told, guesses, tolerance=1e-7)


CORPUS = (
    ("the cat sat on the mat today", "the cat is on the mat today"),
    ("the the the the the the", "the cat is here now"),
    ("a small dog runs fast", "a small dog runs very fast indeed"),
)


SIGNS = [*string.punctuation, *map(chr, (0, 1, 0x1F, 0xB7, 0x2013, 0x2581))]  # what may join the words of an n-gram

# Words that somebody may take for equal: capitals, accents, other letters, punctuation, numbers, forms of a sign.
SPELLINGS = (
    ("The", "the"), ("naïve", "naive"), ("straße", "strasse"), ("end.", "end"), ("cat!", "cat"), ("l’un", "l'un"),
    ("1,000", "1000"), ("7.50", "7.5"), ("½", "1⁄2"), ("ﬁn", "fin"), ("e-mail", "email"),
)  # fmt: skip


@check("13.5", points=3, forbids=("sacrebleu", "nltk", "torchtext", "bleu_score", *MODELS))
def bleu(bleu, lib):
    """Check clipped precisions of four orders over the corpus, their geometric mean, and the brevity penalty."""
    pairs = [(one.split(), other.split()) for one, other in CORPUS]
    corpora: list[list[tuple[Words, Words]]] = [
        [(["a"] * 9, ["a"] * 5), *pairs[:2]],
        [(other, one) for one, other in pairs],
        pairs,
        pairs[:1],
        pairs[2:],
        [(one, one) for one, _ in pairs],
        [(["a", "b", "c"], ["a", "b", "c"])],
        [(["a", "b", "c", "d", "e"], ["e", "d", "c", "b", "a"])],
        [([], ["a", "b"]), *pairs],
        [([], ["a"])],
        [(list("abcde"), list("abcde")), (["x"], ["y"])],
        [(list("abcde"), list("fghij")), (list("fghij"), list("abcde")), (list("pqrst"), list("pqrst"))],
        [(list("abcde"), list("abcdef")), (list("xyzxy"), [])],
        [(list("abcde"), list("abcdef")), (list("abcde"), list("ab"))],
        [([], [])],
        [(["ab", "c", *"defghij"], ["a", "bc", *"defghij"])],
        [*pairs[:1] * 3, *pairs[1:], *pairs[2:]],
    ]
    for corpus in corpora:
        scored(bleu, [one for one, _ in corpus], [other for _, other in corpus])
    with world_kept(lib, "after `bleu`,"):
        scored(bleu, [pairs[0][0]], [pairs[0][1]])
    long, right = [*60 * list("abcdefghij"), *"wxyz"], 60 * list("abcdefghij")
    told = f"in a sentence of {len(long)} words, the score is wrong. All of them should count."
    expect.number_like(bleu([long], [right]), bleu_of([long], [right]), "BLEU", told)
    told = "where words are spelt differently, such as {} and {}, the score is wrong. Words should be compared whole, "
    told += "letter by letter."
    scored(bleu, [list("abcdeFg")], [list("abcdefg")], told.format("`F`", "`f`"))
    for one, other in (("nai\u0308ve", "na\u00efve"), *SPELLINGS):
        looks_equal = unicodedata.normalize("NFC", one) == unicodedata.normalize("NFC", other)
        names = [f"`{word!a}`" if looks_equal else f"`{word}`" for word in (one, other)]
        scored(bleu, [[one, *"abcde"]], [[other, *"abcde"]], told.format(*names))
    told = "n-grams of different words match because they are equal once joined. Compare sequences of words."
    joined = [([f"a{sign}b", "c", *"defg"], ["a", f"b{sign}c", *"defg"]) for sign in SIGNS]
    scored(bleu, [one for one, _ in joined], [other for _, other in joined], told)
    told = "where words are punctuation alone, the score is wrong. They should count like all others."
    for hypothesis in ("a b , c d e", "a b c d e .", "a b c d ! e ."):
        scored(bleu, [hypothesis.split()], [list("abcde")], told)


# 13.6


def searched(
    table: torch.Tensor,
    bos: int,
    eos: int,
    beams: int,
    max_len: int,
    alpha: float,
    *,
    penalty: Callable[[int, float], float] = lambda n, alpha: ((5 + n) / 6) ** alpha,
    early: bool = True,
    keeps: str = "all",
    goes_on: bool = False,
    best: Callable[..., Any] = max,
    each_step: bool = False,
    per_row: bool = False,
    reduces: bool = False,
    by_sum: bool = False,
    left: str = "",
    copies: bool = False,
    beside: bool = False,
    longest: bool = False,
    last: bool = False,
    worst: bool = False,
    at_eos: bool = False,
    hopeless: bool = False,
    short: bool = False,
    no_bos: bool = False,
    more: int = 0,
    bare: bool = False,
    full: bool = False,
    ranks: bool = False,
    bos_once: bool = False,
) -> tuple[list[int], float] | None:
    """What 13.6 finds in a table, with lists and loops, or what a mistake finds; None if it finds nothing.

    early: it stops when as many as there are beams have finished; keeps: which finished ones count: all, ended (with
    EOS), cut (without), first; goes_on: finished ones stay among the beams; each_step: sums are divided in every step;
    per_row: each beam goes on with its own best token; reduces: there are as many beams less as have finished; by_sum:
    the best is chosen before the penalty; left: what is open where the search stops counts, with its score or its
    sum; copies: as many beginnings as beams, all but one of them with a sum of -1e9; beside: what ends takes no room
    among the beams; longest, last: which of the finished ones is given; worst: the worst sums are kept; at_eos:
    it stops when the best continuation is EOS; hopeless: what is open is dropped if its sum is below the best score;
    short: the last token is never given; no_bos: nor is any `bos`; more: so many more have to finish; bare: n is one
    less of what ends with EOS; full: what is open after max_len tokens is dropped where enough have finished; ranks:
    continuations with EOS are ranked by their score; bos_once: no token after the first is `bos`.
    """
    step, going = toys.Continues(table), [([bos], 0.0), *[([bos], -1e9)] * ((beams - 1) * copies)]
    ended: list[tuple[list[int], float, str, float]] = []
    for n in range(1, max_len + 1):
        every = []
        for (tokens, total), scores in zip(going, step([tokens for tokens, _ in going]).double().tolist(), strict=True):
            here = [([*tokens, token], total + score) for token, score in enumerate(scores)]
            here = [one for one in here if not bos_once or one[0][-1] != bos]
            if each_step:
                here = [(some, sum_of / penalty(n, alpha)) for some, sum_of in here]
            every += [max(here, key=lambda one: one[1])] if per_row and n > 1 else here
        room = beams - len(ended) if reduces else beams
        rank = partial(place_of, eos=eos, penalty=penalty(n, alpha) if ranks else 1.0)
        every = sorted(every, key=lambda one: rank(one) if worst else -rank(one))
        others = [one for one in every if one[0][-1] != eos][:room] if beside and n < max_len else []
        every = [one for one in every[:room] if one[0][-1] == eos or not others] + others
        going = []
        for tokens, total in every:
            if tokens[-1] == eos and not goes_on:
                ended.append((tokens[1:-1], total if each_step else total / penalty(n - bare, alpha), "ended", total))
            elif n == max_len:
                rest = tokens[1 : tokens.index(eos, 1)] if goes_on and eos in tokens[1:] else tokens[1:]
                ended.append((rest, total if each_step else total / penalty(n, alpha), "cut", total))
            else:
                going.append((tokens, total))
        if hopeless and ended:
            going = [one for one in going if one[1] > max(score for _, score, *_ in ended)]
        if at_eos and n < max_len and every[0][0][-1] == eos:
            break
        if not going or (early and len(ended) >= beams + more) or (keeps == "first" and ended):
            some = [(tokens[1:], sum_of, sum_of / penalty(n, alpha)) for tokens, sum_of in going if left]
            ended += [(tokens, whole if left == "sum" else score, "left", whole) for tokens, whole, score in some]
            break
    if full and sum(one[2] == "ended" for one in ended) >= beams:
        ended = [one for one in ended if one[2] == "ended"]
    some = [one for one in ended if keeps in ("all", "first") or one[2] == keeps]
    if keeps == "first":
        some = some[:1]
    if longest:
        some = sorted(some, key=lambda one: -len(one[0]))[:1]
    some = some[-1:] if last else some
    some = [(one[0][:-1] if short and one[2] == "cut" else one[0], *one[1:]) for one in some]
    some = [([token for token in one[0] if token != bos or not no_bos], *one[1:]) for one in some]
    return best(some, key=lambda one: one[3 if by_sum else 1])[:2] if some else None


def place_of(one: tuple[list[int], float], eos: int, penalty: float) -> float:
    """By what a continuation is ranked: its sum, divided by `penalty` where it ends with EOS."""
    return one[1] / penalty if one[0][-1] == eos else one[1]


Search = tuple[torch.Tensor, int, int, int, int, float]  # a table, bos, eos, beams, max_len and alpha


def found_in(beam_search: Remote, lib: Library, search: Search) -> tuple[list[int], float]:
    """What is found in a table; fail if it cannot be right, whatever the table holds."""
    table, bos, eos, beams, max_len, alpha = search
    value, asked, listed, real, kept = lib(toys).Searches(beam_search, table)(bos, eos, beams, max_len, alpha)
    two = type(value) is list and len(value) == 2
    assert two, "`beam_search` should return two things: the tokens and their score."
    assert listed, "the tokens should be a list."
    assert real, "the score should be a float. For a tensor with one number, `.item()` gives it."
    assert kept, "the tensor that `step` returned is changed. The caller may still need it: add to a copy."
    found, score = value[0], expect.number(value[1], "the score")
    told = "the tokens should be a list of ints. For a tensor, `.tolist()` gives it."
    assert all(type(one) is int for one in found), told
    tokens = [*found]
    for rows in asked:
        told = "`step` was given a beginning that does not begin with `bos`."
        assert all(row and row[0] == bos for row in rows), told
        told = "`step` was given beginnings of different lengths."
        assert all(len(row) == len(rows[0]) for row in rows), told
        told = "a finished hypothesis keeps growing. One that ends with EOS should not be continued."
        assert not any(eos in row[1:] for row in rows), told
        assert len(rows) <= beams, "more than `beams` hypotheses are open at once."
    best = searched(*search) if len(tokens) > max_len or eos in tokens else None
    told = "the tokens hold EOS. Leave it out"
    both = best is not None and tokens[:1] == [bos] and best[0][:1] != [bos]
    assert eos not in tokens, f"{told}, and the BOS in front too." if both else f"{told}."
    assert best is None or tokens != [bos, *best[0]], "the tokens begin with BOS. Leave it out."
    assert len(tokens) <= max_len, f"the hypothesis has {len(tokens)} tokens, more than max_len = {max_len}."
    return tokens, score


def with_mistake(search: Search, beams: int = 0, longer: int = 0, **options: Any) -> tuple[list[int], float] | None:
    """`searched` with these options, and with so many beams instead, or up to so many tokens more."""
    table, bos, eos, some, max_len, alpha = search
    return searched(table, bos, eos, beams or some, max(1, max_len + longer), alpha, **options)


GREEDY = "the search is greedy: only one hypothesis stays open."
COPIES = "several copies of one hypothesis stay open. The search should begin with a single `[bos]`."

# Mistakes, as what `with_mistake` takes. One explains an answer if it finds in all tables what the answer does.
MISTAKES: dict[str, dict[str, Any]] = {
    "the search does not stop when as many hypotheses have finished as there are beams.": {"early": False},
    "the number of beams shrinks as hypotheses finish. In every step the best `beams` continuations are kept.": {
        "reduces": True
    },
    GREEDY: {"beams": 1},
    (
        "each hypothesis is continued with its own best token alone. Keep the "
        "best continuations of all hypotheses together."
    ): {"per_row": True},
    "the first hypothesis to finish is returned. Search on until `beams` have finished, and return the best.": {
        "keeps": "first"
    },
    "hypotheses that are open after max_len tokens are lost. They should count as finished.": {"keeps": "ended"},
    "finished hypotheses are lost: only those that stay open count.": {"keeps": "cut", "early": False},
    "hypotheses that are open when enough have finished count too. Drop them, unless max_len is reached.": {
        "left": "score"
    },
    "hypotheses that are open when enough have finished count too, with their sums. Drop them.": {"left": "sum"},
    "the search begins with copies of `bos`, and they finish. There should be one beginning.": {"copies": True},
    "the length penalty is not used.": {"penalty": lambda n, alpha: 1.0},
    "the best hypothesis is chosen by its sum. Choose it by its score, with the penalty.": {"by_sum": True},
    "the penalty counts the tokens without EOS. It should count EOS too.": {
        "penalty": lambda n, alpha: ((4 + n) / 6) ** alpha
    },
    "the penalty counts BOS too. It should not.": {"penalty": lambda n, alpha: ((6 + n) / 6) ** alpha},
    "the penalty is n^alpha. It should be ((5 + n) / 6)^alpha.": {"penalty": lambda n, alpha: n**alpha},
    "in the penalty, (5 + n) / 6 is rounded down. Divide without rounding.": {
        "penalty": lambda n, alpha: ((5 + n) // 6) ** alpha
    },
    "the sum is multiplied by the penalty. Divide it.": {"penalty": lambda n, alpha: ((5 + n) / 6) ** -alpha},
    "the penalty is applied in each step. Apply it once, to each finished hypothesis.": {"each_step": True},
    "the worst hypothesis is returned. Return the one with the best score.": {"best": min},
    "finished hypotheses stay among the beams and grow. They should be set aside.": {"goes_on": True, "early": False},
    "a continuation with EOS does not count among the best `beams`. It should take the place of another one.": {
        "beside": True
    },
    "in the penalty, alpha is the power of 6 alone: `(5 + n) / 6 ** alpha` needs brackets.": {
        "penalty": lambda n, alpha: (5 + n) / 6**alpha
    },
    "the sum is divided by n. Divide it by ((5 + n) / 6)^alpha.": {"penalty": lambda n, alpha: n},
    "the penalty is ((5 + n) / 6) times alpha. Alpha should be the exponent.": {
        "penalty": lambda n, alpha: (5 + n) / 6 * alpha or 1.0
    },
    "the penalty is (5 + n)^alpha. It should be ((5 + n) / 6)^alpha.": {"penalty": lambda n, alpha: (5 + n) ** alpha},
    "the longest hypothesis is returned. Return the one with the best score.": {"longest": True},
    "the last hypothesis to finish is returned. Return the one with the best score.": {"last": True},
    "the worst continuations are kept. Keep the best.": {"worst": True},
    (
        "the search stops as soon as the best continuation is EOS. It should stop when none is open or at least "
        "`beams` have finished."
    ): {"at_eos": True},
    (
        "hypotheses are dropped if their sum is below the best score so far. A penalty may still lift them: keep them "
        "open."
    ): {"hopeless": True},
    "the last token is always left out. Leave it out only if it is EOS.": {"short": True},
    "each `bos` is left out. Leave out only the first one.": {"no_bos": True},
    "the search stops one token early.": {"longer": -1},
    "the search stops only when more than `beams` hypotheses have finished. `beams` are enough.": {"more": 1},
    "the penalty does not count the EOS of hypotheses that end with it. It should.": {"bare": True},
    "hypotheses that are open after max_len tokens are dropped if enough have finished by then. They should count.": {
        "full": True
    },
    "continuations with EOS are ranked by their score. In each step, rank all of them by their sum.": {"ranks": True},
    "the search continues for one token too many.": {"longer": 1},
    "no hypothesis has `bos` again. It may come again, as other tokens do.": {"bos_once": True},
}


def finds(beam_search: Remote, lib: Library, searches: Sequence[Search], told: str = "") -> None:
    """Fail unless the best hypothesis is found in each of these tables, with its score; told: why they are asked."""
    found = [found_in(beam_search, lib, one) for one in searches]
    right = [searched(*one) for one in searches]

    def like(one: tuple[list[int], float], other: tuple[list[int], float] | None) -> bool:
        """Whether two results agree; with a search that finds nothing, everything does."""
        return other is None or (one[0] == other[0] and math.isclose(one[1], other[1], rel_tol=1e-4, abs_tol=1e-4))

    wrong = [place for place, one in enumerate(found) if not like(one, right[place])]
    if not wrong:
        return
    tokens, best = found[wrong[0]], right[wrong[0]]
    _, _, _, beams, longest, alpha = searches[wrong[0]]
    asked = f"with `beams = {beams}, max_len = {longest}, alpha = {alpha:g}`"
    bos = searches[wrong[0]][1]
    assert best is None or tokens[0] != [bos, *best[0]], "the tokens begin with BOS. Leave it out."
    assert not told, told
    order = [*wrong, *(place for place in range(len(found)) if place not in wrong)]  # what is wrong decides soonest
    made = [
        told
        for told, mistake in MISTAKES.items()
        if all(like(found[place], with_mistake(searches[place], **mistake)) for place in order)
    ]
    if GREEDY in made:
        _, asked, *_ = lib(toys).Searches(beam_search, searches[wrong[0]][0])(*searches[wrong[0]][1:])
        made[made.index(GREEDY)] = GREEDY if all(len(rows) == 1 for rows in asked) else COPIES
    assert not made or len(wrong) == 1, made[0]
    hint = f" {ONE_INPUT} {sentence(made[0])}" if made else ""
    if best is not None and tokens[0] == best[0]:
        size = "large" if tokens[1] > best[1] else "small"
        came = f"{asked}, the best hypothesis `{tokens[0]}` is found. Its score is {tokens[1]:.6g}, which is too "
        raise AssertionError(f"{came}{size}.{hint}")
    better = best is not None and tokens[1] > best[1]
    told = "No hypothesis that should be kept has such a score." if better else "Another one has a higher score."
    if best is not None and math.isclose(tokens[1], best[1], rel_tol=1e-4, abs_tol=1e-4):
        told = "The score is that of the best hypothesis, but the tokens are not."
    came = f"`{tokens[0]}` with the score {tokens[1]:.6g}. {told}"
    raise AssertionError(f"{asked}, a hypothesis other than the best is found: {came}{hint}")


def tables(seed: int, rows: int, V: int) -> torch.Tensor:
    """Logits of a model whose choices are close to each other."""
    return 1.5 * normal(rows, V, seed=seed)


# Tables in which it matters when a search stops, how many continuations it keeps, and which of the finished ones it
# gives, whether it begins with copies, merges what has the same tokens in another order, or keeps ten open at most:
# seed, V, beams, max_len, alpha.
TELLING = (
    (644, 5, 2, 6, 3.0), (194, 5, 3, 8, 2.0), (996, 7, 3, 8, 3.0), (426, 7, 4, 4, 1.0),
    (783, 3, 7, 5, 3.0), (437, 4, 7, 6, 3.0), (1083, 3, 2, 8, 3.0), (1183, 5, 2, 4, 3.0), (1321, 3, 2, 8, 3.0),
    (4505, 3, 7, 6, 3.0), (2017, 4, 3, 5, 2.0), (2035, 4, 3, 5, 2.0), (2263, 13, 25, 4, 3.0), (2532, 13, 25, 4, 3.0),
)  # fmt: skip


@check("13.6", points=3, forbids=("generate", *MODELS))
def beam_search(beam_search, lib):
    """Check that one beam is greedy, that as many as there are sentences are exhaustive, and beams between these."""
    with world_kept(lib, "after `beam_search`,"):
        found_in(beam_search, lib, (tables(180, 11, 4), 0, 1, 1, 5, 0.0))
    searches: list[Search] = []
    for seed, (V, beams, max_len, alpha) in enumerate(
        [
            (4, 1, 5, 0.0), (5, 1, 6, 1.0), (5, 3, 5, 0.0), (5, 3, 5, 1.0), (6, 2, 6, 0.7), (4, 4, 4, 2.0),
            (7, 4, 6, 1.0), (3, 9, 3, 0.0), (5, 2, 1, 1.0), (6, 5, 7, 1.5), (3, 100, 4, 1.0), (5, 4, 8, 0.6),
            (9, 2, 9, 1.0), (8, 3, 7, 0.0),
        ]
    ):  # fmt: skip
        for start in (0, 20):
            searches.append((tables(180 + seed + start, 11, V), 0, 1 + seed % 2, beams, max_len, alpha))
    searches += [(tables(seed, 11, V), 0, 1, *rest) for seed, V, *rest in TELLING]
    ends_late = tables(235, 7, 5)
    ends_late[:, 1] = -50.0
    searches.append((ends_late, 0, 1, 3, 4, 1.0))
    searches.append((150 * normal(11, 5, seed=236), 0, 1, 5, 6, 1.0))  # so unlikely that no float32 holds it
    searches.append((tables(237, 11, 5).double(), 0, 1, 3, 5, 1.0))
    finds(beam_search, lib, searches)
    close = 1e-9 * normal(11, 4, seed=341).double()
    close[:, 1] = -20.0
    told = "where sums differ only in their tenth digit, the wrong hypothesis is found. Sums should be in float64."
    finds(beam_search, lib, [(close, 0, 1, 3, 4, 1.0)], told)
    steady = torch.tensor([-3.0, -40, 0]).repeat(7, 1)  # 400 sums in float32 are off by 6e-6
    for exact, close in (((tables(237, 11, 5).double(), 0, 1, 3, 5, 1.0), 1e-10), ((steady, 0, 1, 1, 400, 1.0), 1e-6)):
        whole = searched(*exact)
        if whole is not None and not math.isclose(found_in(beam_search, lib, exact)[1], whole[1], rel_tol=close):
            finds(beam_search, lib, [exact])  # that a score is not exact is not said of one that is far off
            told = "the score is not exact enough. It should be as exact as the sums in float64, and not rounded."
            raise AssertionError(told)
    sure = [(3e4 * normal(11, 5, seed=seed), 0, 1, 2, 6, 1.0) for seed in (316, 327)]
    told = "where the best score is 0, because the model is sure of each word, another hypothesis is found. "
    told += "A score of 0 should count like any other."
    finds(beam_search, lib, sure, told)
    low = tables(340, 11, 2)
    low[:, 1] = torch.linspace(-3e35, -1.5e35, 11)  # there are two tokens: the end comes in, however unlikely it is
    told = (
        "where the score of every finished hypothesis is far below 0, the result is wrong. Begin with -math.inf, not "
    )
    told += "with a low number, and add logarithms: products of probabilities would be 0."
    finds(
        beam_search, lib, [(low, 0, 1, 3, 6, 1.0), (low / 1e25, 0, 1, 3, 6, 1.0), (low / 1e32, 0, 1, 3, 6, 1.0)], told
    )
    for seed in range(3):
        V, longest = 3, 4
        table = tables(230 + seed, 7, V)
        found, score = found_in(beam_search, lib, (table, 0, 1, V**longest, longest, 1.0))
        best = exhaustive(table, 0, 1, longest, 1.0)
        told = "with as many beams as there are possible sentences, the best of all is not found."
        assert found == best[0] and math.isclose(score, best[1], rel_tol=1e-4), told
    told = "the search stops where `step` gives its numbers on another device (a GPU)."
    assert not lib(toys).apart(lib(toys).Searches(beam_search, ends_late), 0, 2, 3, 4, 1.0), told


def exhaustive(table: torch.Tensor, bos: int, eos: int, max_len: int, alpha: float) -> tuple[list[int], float]:
    """The best of all sentences of a table model: those that end, and those that are cut at max_len."""
    step, V = toys.Continues(table), table.size(1)
    others, found = [token for token in range(V) if token != eos], []
    for n in range(1, max_len + 1):
        for head in itertools.product(others, repeat=n - 1):
            for last in range(V) if n == max_len else (eos,):
                tokens = [bos, *head, last]
                total = sum(float(step([tokens[:place]])[0, tokens[place]]) for place in range(1, len(tokens)))
                rest = [*head] if last == eos else [*head, last]
                found.append((rest, total / ((5 + n) / 6) ** alpha))
    return max(found, key=lambda one: one[1])


# 13.7


def fused(
    state: State,
    x: torch.Tensor,
    bert: torch.Tensor,
    allowed: torch.Tensor | None,
    seen: torch.Tensor | None,
    *,
    mix: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = lambda own, other: (own + other) / 2,
    queries: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = lambda x, own: x,
    pre: bool = False,
    norms: Sequence[str] = ("norm1", "norm2"),
    act: Callable[[torch.Tensor], torch.Tensor] = F.relu,
    free: bool = False,
    again: bool = False,
) -> torch.Tensor:
    """A BERT-fused layer as 13.7 says it, or with a mistake in it.

    queries: of the attention to BERT; free: gradients reach it; again: the second residual is x as well.
    """
    bert = bert if free else bert.detach()
    inner = normed(state, norms[0], x) if pre else x
    own = reads(part_of(state, "self_attention"), inner, inner, allowed)
    other = reads(part_of(state, "bert_attention"), queries(inner, own), bert, seen)
    if pre:
        x = x + mix(own, other)
        return x + fed(state, normed(state, norms[1], x), act)
    attends = normed(state, norms[0], x + mix(own, other))
    return normed(state, norms[1], (x if again else attends) + fed(state, attends, act))


def fuses(
    layer: Remote,
    state: State,
    x: torch.Tensor,
    bert: torch.Tensor,
    allowed: torch.Tensor | None,
    seen: torch.Tensor | None,
    when: str = "",
) -> bool:
    """Fail unless the output is that of a BERT-fused layer; whether it is.

    when: begins the sentences of mistakes, where the output was right for other sizes.
    """
    L = bert.size(1)
    sizes = f"{counted(x.size(1), 'word')} and {counted(L, 'piece')}"
    value = expect.answers(
        layer, x, bert, allowed, seen, kinds=("RuntimeError", "IndexError"),
        says=f"with {sizes}, the layer fails. If shapes do not fit: queries come from x, and the BERT's states are "
        "the memory. `allowed` belongs to x, and `bert_allowed` to the BERT's states.",
    )  # fmt: skip
    found = expect.floats(value, tuple(x.shape), f"the output for {sizes}")
    but: Callable[..., Any] = partial(partial, fused, state, x, bert, allowed, seen)
    alone = [
        "" if mask is not None else f"where `{name}` is None, "
        for name, mask in zip(("allowed", "bert_allowed"), (allowed, seen), strict=True)
    ]
    right = fused(state, x, bert, allowed, seen)
    nothing_drawn(found, right, lambda: layer(x, bert, allowed, seen))
    guesses: dict[str, expect.Guess] = {
        "the two attentions are added, or x is halved too, which is the same "
        "under a norm. Take the mean of the two "
        "attentions alone.": but(mix=lambda own, other: own + other),
        "the BERT is not used.": but(mix=lambda own, other: own),
        "only the BERT is attended to.": but(mix=lambda own, other: other),
        "self-attention is used as it is, and half of the BERT's is added.": but(
            mix=lambda own, other: own + other / 2
        ),
        "the attention to BERT has the output of self-attention as its queries. They should be x.": but(
            queries=lambda x, own: own
        ),
        "the attention to BERT has x plus the output of self-attention as its queries. They should be x.": but(
            queries=lambda x, own: x + own
        ),
        "the attention to BERT has the output of `norm1` as its queries. They should be x.": but(
            queries=lambda x, own: normed(state, "norm1", x + own)
        ),
        "the norm comes before each part (pre-norm). It should come after the sum.": but(pre=True),
        "after the feed-forward part, x is added. Add what `norm1` gave.": but(again=True),
        "one norm is used in two places.": but(norms=("norm1", "norm1")),
        "one norm is used in two places, `norm2`.": but(norms=("norm2", "norm2")),
        "the two norms are exchanged.": but(norms=("norm2", "norm1")),
        "the feed-forward part has a GELU, not a ReLU.": but(act=F.gelu),
        "the feed-forward part has no ReLU.": but(act=lambda y: y),
        "self-attention has a causal mask. An encoder reads all of x.": partial(
            fused, state, x, bert, causal(x.size(1)) if allowed is None else allowed & causal(x.size(1)), seen
        ),
        f"{alone[0]}`bert_allowed` is ignored: padding of the BERT's pieces is read.": partial(
            fused, state, x, bert, allowed, None
        ),
        f"{alone[1]}`allowed` is ignored: padding of the source is read.": partial(fused, state, x, bert, None, seen),
        "one row of `allowed` or of `bert_allowed` is used for all tokens. It may have a row for each.": partial(
            fused, state, x, bert, *(None if one is None else one[:, :1] for one in (allowed, seen))
        ),
    }
    told = f"for {sizes}, the output is wrong."
    expect.like(found, right, told, {f"{when}{why}": guess for why, guess in guesses.items()})
    return expect.near(found, right, 1e-4, 1e-4)


FUSED = Contract(
    "BertFusedLayer(own, other, 6, F, 0.0)(x, bert, allowed, bert_allowed)",
    sizes={"B": (1, 4), "T": (1, 7, 600), "L": (1, 7, 2100), "F": (1, 12)},
    own=lambda toys, seed: toys.Reads(6, 6),
    other=lambda toys, seed: toys.Reads(6, 5),
    toys=toys,
    x="floats (B, T, 6)",
    bert="floats (B, L, 5)",
    allowed="bools (B, T, T) or None",
    bert_allowed="bools (B, T, L) or None",
    gives="the output: as x (B, T, 6)",
    weights=lambda own, other, d, d_ff, p: layer_shapes({"self_attention": 6, "bert_attention": 5}, d, d_ff),
    right=lambda state, own, other, d, d_ff, p, x, bert, allowed, seen: fused(state, x, bert, allowed, seen),
    learns="x",
    frozen="bert",
    low=False,
)


@check("13.7", points=3, forbids=(*LAYERS, *ATTENTION))
def bert_fused_layer(BertFusedLayer, lib):
    """Check for half of self-attention and half of attention to a BERT, which has other pieces and learns nothing."""

    build, right = partial(layer_of, BertFusedLayer, lib, "bert_attention"), False
    for d, read, d_ff, B, T, L in ((12, 10, 7, 2, 4, 6), (8, 8, 5, 2, 5, 5), (4, 6, 9, 1, 3, 1), (6, 4, 6, 3, 1, 4)):
        layer, state = build(d, read, d_ff, 0.0, 240 + d)
        x, bert = normal(B, T, d, seed=241), normal(B, L, read, seed=242)
        masks = read_mask(B, 1, T, 243), read_mask(B, 1, L, 245)
        by_row = read_mask(B, T, T, 252), read_mask(1, T, L, 254)
        pairs = (masks, by_row, (None, None), (masks[0], None), (None, masks[1]))
        when = f"for {counted(T, 'word')} and {counted(L, 'piece')}, " if right else ""
        right = all([fuses(layer, state, x, bert, allowed, seen, when) for allowed, seen in pairs]) or right
        if d == 12:  # of the others the contract asks for both modes
            layer.eval()
            fuses(layer, state, x, bert, *masks, "in evaluation mode, " if right else "")
    d, read, (B, T, L) = 12, 10, (2, 4, 6)
    layer, state = build(d, read, 7, 1.0, 247)
    x, bert = normal(B, T, d, seed=248), normal(B, L, read, seed=249)
    masks = read_mask(B, 1, T, 250), read_mask(B, 1, L, 251)
    where = "on the mean of both attentions and on what the feed-forward part gives"
    without_parts(layer, x, (bert, *masks), state, ("norm1", "norm2"), where, fused)
    told = "the BERT's states of the previous call are read. Each call should read the ones that it is given."
    wanted = fused(state, x, bert + 1, *masks)
    expect.close(lib(toys).written_between(layer, x, bert, *masks), wanted, told)
    kept_for_memory(layer, lib, partial(fused, state), x, bert, masks)
    told = "if `allowed` and `bert_allowed` are not given, the output is wrong after a call with masks. All places "
    told += "should be read then."
    expect.close(layer(x, bert), fused(state, x, bert, None, None), told)
    fuses(layer, state, x, bert, None, torch.arange(L).eq(2).expand(1, 1, L))  # a single piece
    own_norms(layer, state, (x, bert, *masks), fused, (("norm1.", "linear2."),))
    own_modes(layer, ("self_attention", "bert_attention"), (x, bert, *masks))
    layer.eval()
    given = normal(3, 6, 5, seed=256), read_mask(3, 4, 4, 270), read_mask(3, 4, 6, 272)
    each = {"dropout is on each attention. It should be on their mean.": partial(fused_with_dropout, each=True)}
    drops(lambda p: build(4, 5, 6, p, 258), lib, normal(3, 4, 4, seed=259), given, fused_with_dropout, where, each)
    training, _ = build(d, read, 7, 0.0, 247)
    for one in (layer, training):
        for some in (masks, (None, None)):
            slopes = lib(toys).gradients(one, [x, bert], *some)
            told = "a gradient reaches the BERT's states. The BERT is frozen: detach them."
            assert not slopes[1].any(), told
            apart = partial(fused, state, queries=lambda x, own: x.detach())
            told = "no gradient reaches x through the attention to BERT. Detach the BERT's states, and nothing else."
            assert not expect.near(slopes[0], toys.gradients(apart, [x, bert], *some)[0], 1e-4, 1e-4), told
    told = "the BERT's states that are given no longer require a gradient after the call. Leave them as they are."
    assert lib(toys).still_flows(layer, x, bert, *masks), told
    FUSED.hold(BertFusedLayer, lib, "dtypes", "layout", "gradients", "modes", "device")


# 13.8

DRAWS = 300


def dropped(drop_net: Remote, lib: Library, p: float, training: bool, seed: int, draws: int = DRAWS) -> None:
    """Fail unless so many draws give each part, and their mean, as often as told."""
    kinds, again, changed, moved, used = lib(toys).parts_drawn(drop_net, p, training, seed, draws)
    own, bert, mean, other = (kinds.count(place) for place in range(4))
    assert not changed, "`own` or `bert` is changed. Both should stay as they are."
    if training:
        told = (
            "a call returns neither one part alone nor their mean. Make one draw for "
            "the whole tensor, and scale nothing."
        )
        assert not other or p == 0, told
    told = f"with p = {p:g} and training = {training}, the result should be the mean of both parts, `(own + bert) / 2`."
    assert not other, told
    assert not moved, "torch's own generator is used. Draw from `generator` alone."
    assert again, "two generators with the same seed give different draws: all chance should come from `generator`."
    if not training:
        told = "in evaluation mode, a part is left out. The result should always be the mean."
        assert mean == draws, told
        assert not used, "in evaluation mode, `generator` is used. Nothing should be drawn there."
        return
    counts = {"own": own, "bert": bert, "mean": mean}
    if expect.even(counts, {"own": p / 2, "bert": p / 2, "mean": 1 - p}, draws, {}):
        many = [(kinds_of(drop_net, lib, some, 10 * DRAWS), mistaken_shares(some)) for some in (0.4, 0.85, 1.0)]
        for sentence in mistaken_shares(p):
            assert any(expect.even(came, shares[sentence], 10 * DRAWS, {}) for came, shares in many), sentence
        told = f"all {draws} calls with `p = {p:g}` in training gave the same result. Each call should draw again."
        assert max(counts.values()) < draws or p in (0, 1), told
        raise AssertionError(came_often(counts, p, draws))
    alone = [kind for kind in kinds if kind < 2]
    same = sum(one == other for one, other in itertools.pairwise(alone))
    told = "which part is kept alone depends on earlier calls. Each call should draw again."
    expect.likely(same, max(0, len(alone) - 1), 0.5, told)


def kinds_of(drop_net: Remote, lib: Library, p: float, draws: int) -> dict[str, int]:
    """How often each part and their mean come in so many calls in training."""
    kinds = lib(toys).kinds_drawn(drop_net, p, [[264]], draws)
    return {"own": kinds.count(0), "bert": kinds.count(1), "mean": kinds.count(2)}


def mistaken_shares(p: float) -> dict[str, dict[str, float]]:
    """By the sentence of a mistake, how often it gives each part and their mean."""
    mistakes = {
        "each part is kept alone with probability p. It should be p / 2 for each.": (p, min(p, 1 - p)),
        "the mean is taken with probability p, instead of 1 - p.": ((1 - p) / 2, (1 - p) / 2),
        "only the BERT is ever left out.": (p, 0.0),
        "only the layer's own part is ever left out.": (0.0, p),
        "a second draw is made where the first one does not leave out BERT. Divide the range of one draw.": (
            p / 2,
            (1 - p / 2) * p / 2,
        ),
        "a second draw is made where the first one does not leave out `own`. Divide the range of one draw.": (
            (1 - p / 2) * p / 2,
            p / 2,
        ),
        "each part is left out by a separate draw. Make one draw for both.": (p * (1 - p), p * (1 - p)),
    }
    return {told: {"own": own, "bert": bert, "mean": 1 - own - bert} for told, (own, bert) in mistakes.items()}


def came_often(counts: Mapping[str, int], p: float, draws: int) -> str:
    """A sentence about how often each part and their mean came."""
    told = (
        f"in {draws} calls with `p = {p:g}`, `own` alone was returned {counts['own']} times, "
        f"`bert` alone {counts['bert']} times "
    )
    return told + f"and the mean {counts['mean']} times. The probabilities should be p / 2, p / 2 and 1 - p."


def shaped(drop_net: Remote, lib: Library, shape: Sequence[int], seed: int) -> None:
    """Fail unless parts of another shape, which are not contiguous, and their mean are given back as they are."""
    told = f"for parts with shape {tuple(shape)}, the result is neither one of them nor their mean. "
    told += "Parts may have any number of axes, even none, and need not be contiguous."
    for p, training in ((1.0, True), (0.0, True), (0.5, False)):
        kinds, _, changed, _, _ = lib(toys).parts_drawn(drop_net, p, training, seed, 12, [*shape], True)
        assert {*kinds} <= ({0, 1} if p == 1 else {2}), told
        assert not changed, "`own` or `bert` is changed. Both should stay as they are."


MEAN = Contract(
    "drop_net(own, bert, p, False, generator)",
    sizes={"B": (1, 4), "d": (1, 9, 4200), "_p": (0, 10)},
    own="floats (..., B, d)",
    bert="floats (..., B, d)",
    p="= _p / 10",
    generator=lambda toys, seed: toys.seeded(seed),
    gives="the mean: as own (..., B, d)",
    right=lambda own, bert, p, training, generator: (own + bert) / 2,
    learns="own bert",
    empty=True,
)
# Generators whose first uniform number is below 1e-4, above 1 - 1e-4, and within 1e-4 of a half.
EDGES = (9426, 7977, 325)


@check("13.8", points=2, forbids=MODELS)
def drop_net(drop_net, lib):
    """Check one draw per call: each part alone with probability p / 2, else the mean; in evaluation the mean."""
    for p, training, draws in (
        (0.0, True, DRAWS), (0.4, True, DRAWS), (1.0, True, DRAWS), (0.85, True, DRAWS), (0.8, False, 60),
        (1.0, False, 60),
    ):  # fmt: skip
        dropped(drop_net, lib, p, training, 260, draws)
    rare(drop_net, lib)
    for place, shape in enumerate(((1, 4, 1), (5,), (2, 3, 4, 2), ())):
        shaped(drop_net, lib, shape, 265 + place)
    own, bert = normal(2, 3, 4, seed=261), normal(2, 3, 4, seed=262)
    chance = lib(toys).seeded(263)
    wanted = toys.gradients(lambda a, b: (a + b) / 2, [own, bert])
    for p, training in ((0.5, False), (0.0, True)):
        slopes = lib(toys).gradients(drop_net, [own, bert], p, training, chance)
        for slope, right in zip(slopes, wanted, strict=True):
            expect.close(slope, right, "the gradient of the mean should reach both parts, a half each.")
    for one, other in lib(toys).gradients_in_turn(drop_net, [own, bert], 30, 1.0, True, chance):
        told = (
            "the gradient of a part that is kept alone is wrong: it should reach "
            "all of that part and nothing of the other."
        )
        alone, none = (one, other) if one.any() else (other, one)
        assert not none.any(), told
        expect.close(alone, 2 * wanted[0], told)
    expect.one_device(lib, drop_net, own, bert, 1.0, True, chance)
    told = "on another device (a GPU) this would stop: `generator` is on the CPU, and draws there alone."
    assert not lib(toys).apart_from_generator(drop_net, own, bert, 1.0, True, chance), told
    value = drop_net(own.double(), bert.double(), 0.0, True, chance)
    told = "for parts in float64, the result is not float64, or only as exact as float32."
    assert type(value) is torch.Tensor and value.dtype is torch.float64, told
    expect.close(value, (own.double() + bert.double()) / 2, told, 1e-9)
    expect.one_device(lib, drop_net, own, bert, 0.0, True, chance)
    MEAN.hold(drop_net, lib, "dtypes", "layout", "gradients", "device")


def rare(drop_net: Remote, lib: Library) -> None:
    """Fail unless rare draws come as often as told: at the edges of the range, and with a small p."""
    for p, wrong in ((0.0, (0, 1)), (1.0, (2,))):
        kinds = lib(toys).kinds_drawn(drop_net, p, [[seed] for seed in EDGES], 1)
        told = f"with p = {p:g}, a part alone is returned now and then. The result should always be the mean."
        told = (
            told
            if p == 0
            else "with p = 1, the mean is returned now and then. The result should always be one part alone."
        )
        assert not {*kinds} & {*wrong}, told
    for p, draws in ((1.0, 10 * DRAWS), (0.01, 20 * DRAWS)):
        counts = kinds_of(drop_net, lib, p, draws)
        shares = {"own": p / 2, "bert": p / 2, "mean": 1 - p}
        assert expect.even(counts, shares, draws, {}) == 0, came_often(counts, p, draws)


# 13.9


def tail_of_signs(n: int, m: int) -> float:
    """How often m or more of n fair coins fall on one named side."""
    return sum(math.comb(n, k) for k in range(m, n + 1)) / 2**n


def p_of_gains(gains: Sequence[float]) -> float:
    """The two-sided p of so many gains and losses, without ties."""
    ahead, behind = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
    return min(1.0, 2 * tail_of_signs(ahead + behind, max(ahead, behind)))


def signs_of_seeds(sign_test: Remote, first: dict[int, float], other: dict[int, float]) -> None:
    """Fail unless p is that of the seeds which both have, without ties."""
    both = [seed for seed in first if seed in other]
    wins, losses = sum(first[seed] > other[seed] for seed in both), sum(first[seed] < other[seed] for seed in both)
    n, m = wins + losses, max(wins, losses)
    in_turn = [a - b for a, b in zip(first.values(), other.values(), strict=False) if a != b]
    turned = max(sum(gain > 0 for gain in in_turn), sum(gain < 0 for gain in in_turn))
    p = min(1.0, 2 * tail_of_signs(n, m))
    found = expect.number(sign_test(first, other), "p")
    assert found <= 1 or n == 0, f"the result is {found:.4g}. A probability is at most 1."
    told = "the result is rounded. Return it as it is."
    assert found == p or found not in [round(p, places) for places in range(1, 9)], told
    filled = with_zeros(first, other)
    told_of_missing = "a seed that only one of the two has counts, as if the other had a BLEU of 0. Leave it out."
    assert n > 0 or found == 1 or found != filled, told_of_missing
    told = f"where no seed is left, the result is {found:g}. It should be 1."
    assert n > 0 or found == 1, told
    expect.number_like(
        found,
        p,
        "p",
        "this is not the two-sided p of the seeds that both have.",
        {
            (
                "this is the p of one side alone. Results that are as one-sided the other way should count too."
            ): tail_of_signs(n, m),
            "this counts only results with exactly m seeds on the larger side. It should count m or more.": min(
                1.0, 2 * math.comb(n, m) / 2**n
            ),
            "a seed with BLEU 0 is left out. Leave out ties and the seeds that only one has.": without_zeros(
                first, other
            ),
            told_of_missing: filled,
            "values that nearly agree are taken as ties. Only equal ones are ties.": nearly_tied(first, other),
            "this is the p of a normal curve. Count the results themselves: `math.comb` gives their numbers.": (
                math.erfc(max(0, m - n / 2) / math.sqrt(n / 2)) if n else 1.0
            ),
            "this is the p of a normal curve, of m - 1/2. Count the results themselves.": (
                math.erfc(max(0, m - n / 2 - 0.5) / math.sqrt(n / 2)) if n else 1.0
            ),
            "ties are counted as seeds. Leave them out.": min(1.0, 2 * tail_of_signs(len(both), m)),
            "ties are counted as if the first were behind. Leave them out.": min(
                1.0, 2 * tail_of_signs(len(both), max(wins, len(both) - wins))
            ),
            "only results with more than m seeds on the larger side are counted. Those with m count too.": min(
                1.0, 2 * tail_of_signs(n, m + 1)
            ),
            "ties are counted as if the first were ahead. Leave them out.": min(
                1.0, 2 * tail_of_signs(len(both), max(len(both) - losses, losses))
            ),
            "values are paired in their order. Pair them by seed.": min(1.0, 2 * tail_of_signs(len(in_turn), turned)),
            "the seeds with which the first is ahead are always taken as m. Use the larger side.": min(
                1.0, 2 * tail_of_signs(n, wins)
            ),
        },
        1e-6,
    )


def without_zeros(first: dict[int, float], other: dict[int, float]) -> float:
    """p if a BLEU of 0 counts as none."""
    return p_of_gains([first[seed] - other[seed] for seed in first if first[seed] and other.get(seed)])


def with_zeros(first: dict[int, float], other: dict[int, float]) -> float:
    """p if a seed that only one of the two has counts, with a BLEU of 0 for the other."""
    return p_of_gains([first.get(seed, 0.0) - other.get(seed, 0.0) for seed in {**first, **other}])


def nearly_tied(first: dict[int, float], other: dict[int, float]) -> float:
    """p if values that differ by less than 0.01 count as ties."""
    gains = [first[seed] - other[seed] for seed in first if seed in other]
    return p_of_gains([gain for gain in gains if abs(gain) > 0.01])


def two_arms(some: random.Random, seeds: int, ahead: float) -> tuple[dict[int, float], dict[int, float]]:
    """BLEU of two arms by seed, in another order, with a tie now and then and a seed that one of them lacks."""
    names = some.sample(range(1000, 9999), seeds)
    first = {seed: float(some.randint(40, 49)) for seed in names}
    other = {
        seed: first[seed]
        + (0 if some.random() < 0.15 else some.choice((0.25, 0.5, 1, 3)) * (-1 if some.random() < ahead else 1))
        for seed in some.sample(names, seeds)
    }
    other.pop(names[0], None) if some.random() < 0.4 else first.pop(names[-1], None)
    return first, other


SIGN_TEST = Contract(
    "sign_test(first, other)",
    sizes={"_n": (1, 30, 1000)},
    first=lambda toys, seed, _n: two_arms(expect.draw(seed), _n, seed % 5 / 4)[0],
    other=lambda toys, seed, _n: two_arms(expect.draw(seed), _n, seed % 5 / 4)[1],
    gives="p: number",
    right=lambda first, other: p_of_gains([first[seed] - other[seed] for seed in first if seed in other]),
    tolerance=1e-6,
)


@results_check("13.9", points=4, source=translation, notebook=translation.NOTEBOOK, reading=2)
def sign_test(sign_test):
    """The runs by their files; p of seeds in another order, with ties, with seeds of one arm alone, and of none."""
    some = expect.draw(139)
    five = dict.fromkeys(range(1, 6), 40.0)
    for gains in (
        (1, 1, 1, 1, 1),
        (-1, -1, -1, -1, -1),
        (1, 1, 1, 1, -1),
        (1, 1, -1, -1, 0),
        (1, 0, 0, 1, 1),
        (0,) * 5,
    ):
        signs_of_seeds(sign_test, {seed: 40.0 + gain for seed, gain in zip(five, gains, strict=True)}, five)
    signs_of_seeds(sign_test, {1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0}, {4: 3.5, 3: 2.5, 2: 1.5, 1: 0.5})
    signs_of_seeds(sign_test, {1: 1.0, 2: 2.0}, {3: 0.0})
    for seeds, ahead in ((6, 0.9), (8, 0.2), (9, 0.5), (12, 0.8), (20, 0.7)):
        signs_of_seeds(sign_test, *two_arms(some, seeds, ahead))
    for gain, low, high in ((1e-9, 6, 4), (1e-3, 7, 2), (1.0, 24, 2), (1.0, 33, 21), (1.0, 170, 130), (1.0, 560, 440)):
        gains = [gain] * low + [-gain] * high
        signs_of_seeds(
            sign_test, {seed: 40.0 + one for seed, one in enumerate(gains)}, dict.fromkeys(range(low + high), 40.0)
        )
    signs_of_seeds(sign_test, {1: 0.0, 2: 0.0, 3: 0.0, 4: 2.0}, {1: 1.0, 2: 2.0, 3: 3.0, 4: 1.0})


# 13.S1


def chrf_of(hypotheses: Sequence[str], references: Sequence[str], beta: float = 2.0) -> float:
    """chrF of a corpus, 0 to 100: characters without blanks, orders 1 to 6, precisions and recalls averaged."""
    precisions, recalls = [], []
    for n in range(1, 7):
        found = there = wanted = 0
        for guess, truth in zip(hypotheses, references, strict=True):
            mine, right = (grams("".join(text.split()), n) for text in (guess, truth))
            found += sum(min(count, right[one]) for one, count in mine.items())
            there, wanted = there + sum(mine.values()), wanted + sum(right.values())
        if there and wanted:
            precisions.append(found / there)
            recalls.append(found / wanted)
    if not precisions:
        return 0.0
    p, r = sum(precisions) / len(precisions), sum(recalls) / len(recalls)
    return 100 * (1 + beta**2) * p * r / (beta**2 * p + r) if p + r else 0.0


@stretch("13.S1", forbids=("sacrebleu", "nltk", *MODELS))
def chrf(chrf):
    """An F-score of characters: orders 1 to 6, recall counts double, blanks do not count."""
    texts = [" ".join(pair) for pair in CORPUS]
    corpora = [
        CORPUS, CORPUS[:1], CORPUS[2:], [(one, one) for one in texts], [("ab", "abc d")], [("xy", "ab")],
        [("trois semaines", "trois semaine"), ("a b c", "abc")],
    ]  # fmt: skip
    for corpus in corpora:
        hypotheses, references = [one for one, _ in corpus], [other for _, other in corpus]
        joined = [[text.replace(" ", "_") for text in side] for side in (hypotheses, references)]
        expect.number_like(
            chrf(hypotheses, references),
            chrf_of(hypotheses, references),
            "chrF",
            "the chrF is wrong.",
            {
                "the score is between 0 and 1. It should be between 0 and 100.": chrf_of(hypotheses, references) / 100,
                "precision and recall count alike. With `beta` = 2, recall should count more.": chrf_of(
                    hypotheses, references, 1.0
                ),
                "blanks are counted as characters. Leave them out.": chrf_of(*joined),
                "precision counts more than recall. It should be the other way round.": chrf_of(references, hypotheses),
            },
            tolerance=1e-7,
        )
