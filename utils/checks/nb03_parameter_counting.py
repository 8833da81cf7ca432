"""Checks of notebook 03: closed forms against what torch, transformers and adapters really build."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import nn

from utils import counting, variants
from utils.checks import nb03_toys as toys
from utils.counting import numel, on_meta
from utils.grading import expect, probes
from utils.grading.check import check
from utils.grading.contract import Contract, world_kept
from utils.grading.parts import part
from utils.grading.remote import Library, Remote, kind, name_of, read

Case = tuple[dict[str, Any], int]  # arguments by name, in the order of the signature, and the right answer
Guess = Callable[[int, Any], int]  # from the right answer and the arguments to what a misconception answers
# What counts in the student's place; to build any module is the first step of it.
COUNTERS = ("numel", "nelement", "num_parameters", "counting", "nbytes", "Module")


def whole(value: Any, what: str) -> int:
    """`value`, which must be a whole number: an int, or a tensor that holds one."""
    if type(value) is torch.Tensor and value.numel() == 1 and value.dtype is not torch.bool:
        value = value.item()
    assert type(value) is not float, (
        f"{what} is a float. A count is a whole number: compute it from whole numbers alone."
    )
    assert type(value) is not list, f"{what} is a list or a tuple, not one whole number. An extra comma makes a tuple."
    expect.of_type(value, int, f"{what} should be a whole number")
    return value


def compare(call: Remote, cases: Sequence[Case], guesses: Mapping[str, Guess], otherwise: str) -> None:
    """Ask `call` for every case; fail with the sentence whose guess explains all its answers, or with `otherwise`."""
    got = [whole(call(*sizes.values()), f"what `{name_of(call)}` returns") for sizes, _ in cases]
    wanted = [right for _, right in cases]
    if got == wanted:
        return
    for sentence, guess in guesses.items():
        assert got != [guess(right, SimpleNamespace(**sizes)) for sizes, right in cases], sentence
    rows = {(value - right) / sizes.get("D", 1) for (sizes, right), value in zip(cases, got, strict=True)}
    tables = name_of(call) != "bert" and all("V" in sizes and "T" not in sizes for sizes, _ in cases)
    table = tables and len(rows) == 1 and min(rows) >= 16 and min(rows) % 1 == 0
    assert not table, "a table of positions is counted. Sinusoidal positions are computed and add nothing."
    sizes, value, right = next((s, v, r) for (s, r), v in zip(cases, got, strict=True) if v != r)
    at = ", ".join(f"{key} = {item}" for key, item in sizes.items())
    raise AssertionError(
        f"{otherwise} Your code gives {value:,}, which is too {'large' if value > right else 'small'}, for {at}."
    )


# 3.1


@cache  # the judge of a class asks for the same ones again and again
def embedding_case(V: int, D: int, P: int | None = None) -> Case:
    """Torch's embedding for V tokens, and one for P learned positions."""
    count = numel(on_meta(nn.Embedding, V, D)) + (numel(on_meta(nn.Embedding, P, D)) if P else 0)
    return {"V": V, "D": D} | ({} if P is None else {"P": P}), count


@cache
def linear_case(m: int, n: int, bias: bool | None = None) -> Case:
    """Torch's linear layer."""
    return {"m": m, "n": n} | ({} if bias is None else {"bias": bias}), numel(
        on_meta(nn.Linear, m, n, bias is not False)
    )


@cache
def norm_case(D: int, kind: str | None = None) -> Case:
    """One of torch's norms."""
    return {"D": D} | ({} if kind is None else {"kind": kind}), numel(
        on_meta(nn.RMSNorm if kind == "rms" else nn.LayerNorm, D)
    )


@check("3.1", points=2, forbids=(*COUNTERS, "Embedding", "Linear", "LayerNorm", "RMSNorm"))
def parts(embedding, linear, norm):
    """Check the counts of the three kinds of parts: tables, linear maps, norms."""
    tables(embedding)
    maps(linear)
    vectors(norm)


def tables(embedding: Remote) -> None:
    """The embedding of V tokens, with P learned positions or with none."""
    compare(
        embedding,
        [embedding_case(11, 6), embedding_case(7, 13), embedding_case(50_001, 200)],
        {
            "D numbers too many are counted, as of a bias or of one more row. An embedding is a table of V rows.": (
                lambda n, s: n + s.D
            ),
            "a bias is counted for each token. An embedding is a table and nothing else.": lambda n, s: n + s.V,
            "rows and columns are added. A table has as many entries as their product.": lambda n, s: s.V + s.D,
            "the width is missing: each token has D numbers.": lambda n, s: s.V,
            "without `P`, 512 positions are counted. Its default is 0: sinusoidal positions are computed.": (
                lambda n, s: n + 512 * s.D
            ),
            "two tables are counted. The second one belongs to the head.": lambda n, s: 2 * n,
        },
        "the count is not that of nn.Embedding.",
    )
    compare(
        embedding,
        [embedding_case(11, 6, 5), embedding_case(9, 4, 17), embedding_case(30_522, 768, 512)],
        {
            "learned positions are missing: each of the P positions has a row too.": lambda n, s: s.V * s.D,
            "each position has D numbers, not one.": lambda n, s: s.V * s.D + s.P,
            "each token is counted once for every position. Add the two tables instead.": lambda n, s: s.V * s.P * s.D,
            "with P given, the tokens are missing.": lambda n, s: s.P * s.D,
        },
        "with P given, the count should be that of two tables.",
    )
    sizes, right = embedding_case(11, 6)
    compare(embedding, [(sizes | {"P": 0}, right)], {}, "with P = 0 the count should be that of the table of tokens.")


def maps(linear: Remote) -> None:
    """A matrix and a bias."""
    compare(
        linear,
        [linear_case(m, n) for m, n in ((6, 11), (13, 4), (200, 200), (768, 3_072))],
        {
            "the bias is missing: each output has a number of its own.": lambda n, s: s.m * s.n,
            "in your count, the bias is as long as the input. It should be as long as the output.": lambda n, s: (
                n - s.n + s.m
            ),
            "in your count, the bias is one number. It should have one for each output.": lambda n, s: n - s.n + 1,
            "two biases are counted. There is one, as long as the output.": lambda n, s: n + s.m,
            "rows and columns are added. A matrix has as many numbers as their product.": lambda n, s: s.m + s.n,
            "rows and columns are added. A matrix has as many numbers as their product, and then there is the bias.": (
                lambda n, s: s.m + 2 * s.n
            ),
        },
        "the count is not that of nn.Linear.",
    )
    compare(
        linear,
        [linear_case(m, n, False) for m, n in ((6, 11), (13, 4), (30, 50))],
        {"`bias=False` is ignored.": lambda n, s: n + s.n},
        "with `bias=False` the count is not that of nn.Linear.",
    )
    cases = [linear_case(6, 11, True), linear_case(13, 4, True)]
    compare(linear, cases, {}, "`bias=True` is the default, but passing it changes the count.")


def vectors(norm: Remote) -> None:
    """A norm of either kind, and a clear refusal of any other."""
    compare(
        norm,
        [norm_case(D) for D in (6, 13, 200, 768)],
        {
            "the shift is missing: a layer norm has a weight and a bias for each column.": lambda n, s: n // 2,
            "in your count, a norm has one weight and one bias. Each column should have both.": lambda n, s: 2,
            "the count is twice the right one. Count one norm. Mean and deviation are not learned.": lambda n, s: 2 * n,
            "a matrix is counted. A norm works column by column.": lambda n, s: s.D * s.D + s.D,
        },
        "the count is not that of nn.LayerNorm.",
    )
    compare(
        norm,
        [norm_case(D, "rms") for D in (6, 13, 64)],
        {
            "in your count, an RMS norm has a bias. It should have a scale alone.": lambda n, s: 2 * n,
            "in your count, an RMS norm has no parameters. It still scales each column.": lambda n, s: 0,
            "in your count, an RMS norm has one number. It scales each column by its own.": lambda n, s: 1,
        },
        "the count is not that of nn.RMSNorm.",
    )
    cases = [norm_case(6, "layer"), norm_case(13, "layer")]
    compare(norm, cases, {}, '`kind="layer"` is the default, but passing it changes the count.')
    expect.refuses(norm, 6, "bach", says="a kind of norm that does not exist should raise ValueError.")


# 3.2


@cache
def attention_case(D: int, H: int, bias: bool | None = None) -> Case:
    """Torch's multi-head attention."""
    count = numel(on_meta(nn.MultiheadAttention, D, H, bias=bias is not False))
    return {"D": D, "H": H} | ({} if bias is None else {"bias": bias}), count


@cache
def real_layer(D: int, F: int, **options: Any) -> int:
    """Torch's encoder layer of that size."""
    return numel(on_meta(nn.TransformerEncoderLayer, D, 1, F, **options))


@check("3.2", points=3, forbids=(*COUNTERS, "Linear", "LayerNorm", "MultiheadAttention", "TransformerEncoderLayer"))
def transformer_layer(attention, transformer_layer):
    """Check the count of multi-head attention, in which the number of heads changes nothing, and of one layer."""
    four_maps(attention)
    compare(
        transformer_layer,
        [({"D": D, "F": F}, real_layer(D, F)) for D, F in ((6, 11), (13, 4), (200, 200), (768, 3_072))],
        {
            "the count is 4D too small: the two norms or the biases of the attention are missing.": lambda n, s: (
                n - 4 * s.D
            ),
            "the count is 2D too small, as with one norm, or with two without a bias. There are two, and each has a "
            "weight and a bias.": lambda n, s: n - 2 * s.D,
            "the count is 7D + F too small, as if nothing had a bias. Each map has one, and each of the two norms.": (
                lambda n, s: n - 7 * s.D - s.F
            ),
            "the count is 9D + F too small: all biases and both norms are missing.": lambda n, s: n - 9 * s.D - s.F,
            "the count is 5D + F too small: the biases of the feed-forward part are missing, and the biases of the "
            "attention or the norms.": lambda n, s: n - 5 * s.D - s.F,
            "the biases of the feed-forward part are missing.": lambda n, s: n - s.D - s.F,
            "in your count, both biases of the feed-forward part are D long. A bias is as long as its map's output.": (
                lambda n, s: n - s.F + s.D
            ),
            "in your count, both biases of the feed-forward part are F long. A bias is as long as its map's output.": (
                lambda n, s: n - s.D + s.F
            ),
            "three maps of the attention are counted. There are four, with the output projection.": lambda n, s: (
                n - s.D * s.D - s.D
            ),
            "the feed-forward part is missing.": lambda n, s: 4 * s.D * s.D + 8 * s.D,
            "the attention is missing.": lambda n, s: n - 4 * s.D * s.D - 4 * s.D,
            "the feed-forward part has one map only. It also needs the map back to D.": lambda n, s: (
                n - s.D * s.F - s.D
            ),
            "F = D is built in, as in the lab's model. F is an argument.": lambda n, s: 6 * s.D * s.D + 10 * s.D,
            "F = 4D is built in, as in BERT. F is an argument.": lambda n, s: 12 * s.D * s.D + 13 * s.D,
        },
        "the count is not that of nn.TransformerEncoderLayer.",
    )


def four_maps(attention: Remote) -> None:
    """Multi-head attention with any number of heads, with biases or without."""
    one, three = "each head is counted as wide as the model.", "The heads share its columns."
    compare(
        attention,
        [attention_case(D, H) for D, H in ((12, 2), (12, 6), (35, 5), (200, 2), (768, 12))],
        {
            f"{one} {three}": lambda n, s: s.H * n,
            f"{one} The heads share the columns of Q, K and V.": (
                lambda n, s: n + (s.H - 1) * (3 * s.D * s.D + 3 * s.D)
            ),
            "only one of the heads is counted.": lambda n, s: n - 3 * (s.D - s.D // s.H) * (s.D + 1),
            "three maps are counted. There are four: Q, K, V and the output projection of the joined heads.": (
                lambda n, s: n - s.D * s.D - s.D
            ),
            "the biases are missing. They count unless `bias=False` is given.": lambda n, s: n - 4 * s.D,
            "only one bias vector is counted. Each of the projections has its own.": lambda n, s: n - 3 * s.D,
            "only three of the biases are counted.": lambda n, s: n - s.D,
            "only one projection is counted. There are more.": lambda n, s: n // 4,
        },
        "the count is not that of nn.MultiheadAttention.",
    )
    compare(
        attention,
        [attention_case(D, H, False) for D, H in ((12, 3), (10, 2), (64, 8))],
        {
            "`bias=False` is ignored.": lambda n, s: n + 4 * s.D,
            "with `bias=False` D numbers of a bias are left. The output projection has no bias either.": lambda n, s: (
                n + s.D
            ),
        },
        "with `bias=False` the count is not that of nn.MultiheadAttention.",
    )
    cases = [attention_case(12, 3, True), attention_case(10, 2, True)]
    compare(attention, cases, {}, "`bias=True` is the default, but passing it changes the count.")


# 3.3


@cache
def grouped_case(D: int, H: int, G: int, bias: bool | None = None) -> Case:
    """Four of torch's linear layers: tests/checks/test_forms.py compares them with those of transformers' Llama."""
    inner = G * (D // H)
    count = sum(numel(on_meta(nn.Linear, D, outputs, bias is True)) for outputs in (D, inner, inner, D))
    return {"D": D, "H": H, "G": G} | ({} if bias is None else {"bias": bias}), count


def cache_case(B: int, T: int, D: int, L: int, H: int, G: int, bytes_per_number: int | None = None) -> Case:
    """Keys and values, tensor by tensor."""
    kept = [torch.empty(B, G, T, D // H, device="meta") for _ in range(L) for _ in ("keys", "values")]
    sizes = {"B": B, "T": T, "D": D, "L": L, "H": H, "G": G}
    number = {} if bytes_per_number is None else {"bytes_per_number": bytes_per_number}
    return sizes | number, sum(one.numel() for one in kept) * (2 if bytes_per_number is None else bytes_per_number)


@check("3.3", points=3, forbids=(*COUNTERS, "Linear"))
def grouped_attention(grouped_attention, kv_cache):
    """Check the count of attention whose queries share keys and values, and the size of their cache."""
    wide = "in your count, keys and values are as wide as queries. They should have G heads, each D / H wide."
    compare(
        grouped_attention,
        [grouped_case(*sizes) for sizes in ((12, 6, 2), (40, 8, 4), (24, 4, 1), (768, 12, 3), (35, 5, 5))],
        {
            wide: lambda n, s: 4 * s.D * s.D,
            "G is ignored, and biases are counted. Without `bias` there are none.": lambda n, s: 4 * s.D * (s.D + 1),
            "only one of keys and values is shared. Both have G heads.": lambda n, s: (
                3 * s.D**2 + s.D * s.G * (s.D // s.H)
            ),
            "queries or the output map are narrowed too. All H heads of queries stay, and are joined.": (
                lambda n, s: s.D * s.D + 3 * s.D * s.G * (s.D // s.H)
            ),
            "all four maps are narrowed. All H heads of queries stay, and are joined.": (
                lambda n, s: 4 * s.D * s.G * (s.D // s.H)
            ),
            "in your count, a head of keys is as wide as the model. Every head should be D / H wide.": (
                lambda n, s: 2 * s.D * s.D + 2 * s.D * s.G * s.D
            ),
            "only one head of keys and values is counted. There are G.": lambda n, s: (
                2 * s.D * s.D + 2 * s.D * (s.D // s.H)
            ),
            "G is taken for the size of a group. It is the number of heads of keys and values.": (
                lambda n, s: 2 * s.D * s.D + 2 * s.D * (s.H // s.G) * (s.D // s.H)
            ),
            "in your count, keys and values are G wide. There are G heads of them, and each is D / H wide.": (
                lambda n, s: 2 * s.D * s.D + 2 * s.D * s.G
            ),
            "one map from D to D is missing. The queries have one, and so has the output.": lambda n, s: n - s.D * s.D,
            "keys or values are missing. Each has a map.": lambda n, s: n - s.D * s.G * (s.D // s.H),
            "biases are counted. Without `bias` there are none.": lambda n, s: n + 2 * s.D + 2 * s.G * (s.D // s.H),
            "in your count, the maps of keys and values have no parameters. Perhaps G // H is used, which is zero.": (
                lambda n, s: 2 * s.D * s.D + 2 * s.D * s.D * (s.G // s.H)
            ),
        },
        "the count is not that of four linear maps: to D, to G heads, to G heads, and from D to D.",
    )
    compare(
        grouped_attention,
        [grouped_case(*sizes, True) for sizes in ((12, 6, 2), (40, 8, 4), (24, 4, 1), (30, 6, 3))],
        {
            "`bias=True` is ignored.": lambda n, s: n - 2 * s.D - 2 * s.G * (s.D // s.H),
            "in your count, each bias is D long. A bias is as long as the output of its map.": (
                lambda n, s: n + 2 * s.D - 2 * s.G * (s.D // s.H)
            ),
            "the biases of keys and values are missing: `bias` means all four maps.": (
                lambda n, s: n - 2 * s.G * (s.D // s.H)
            ),
            "the bias of the output map, or that of the queries, is missing: `bias` means all four maps.": (
                lambda n, s: n - s.D
            ),
        },
        "with `bias=True` the count is not that of four linear maps with biases.",
    )
    cases = [grouped_case(12, 6, 2, False), grouped_case(40, 8, 4, False)]
    compare(grouped_attention, cases, {}, "`bias=False` is the default, but passing it changes the count.")
    for D, H, G in ((12, 6, 4), (24, 4, 8)):
        expect.refuses(
            grouped_attention,
            D,
            H,
            G,
            says=f"`grouped_attention({D}, {H}, {G})` must raise ValueError: {H} heads cannot share {G} evenly.",
        )
    compare(
        kv_cache,
        [
            cache_case(*sizes)
            for sizes in (
                (2, 7, 12, 3, 6, 2, 8),
                (3, 5, 40, 2, 8, 4, 4),
                (5, 11, 24, 4, 4, 1, 1),
                (4, 9, 36, 6, 12, 3, 8),
            )
        ],
        {
            "keys or values are missing: both are kept.": lambda n, s: n // 2,
            "numbers are counted, not bytes.": lambda n, s: n // s.bytes_per_number,
            "keys or values are missing, and numbers are counted, not bytes.": lambda n, s: (
                n // s.bytes_per_number // 2
            ),
            "`bytes_per_number` is ignored.": lambda n, s: n // s.bytes_per_number * 2,
            "all H heads are kept. Keys and values have only G.": lambda n, s: n // s.G * s.H,
            "one head is kept. Keys and values have G.": lambda n, s: n // s.G,
            "in your count, a head is as wide as the model. Every head should be D / H wide.": lambda n, s: n * s.H,
            "G is taken for the size of a group. It is the number of heads of keys and values.": (
                lambda n, s: n // s.G * (s.H // s.G)
            ),
            "only one layer is counted. Each of the L layers has its own keys and values.": lambda n, s: n // s.L,
            "only one text is counted. There are B.": lambda n, s: n // s.B,
            "only one token is counted. Each of the T has its key and its value.": lambda n, s: n // s.T,
            "the count is T times too large. Each token has one key and one value in a head.": lambda n, s: n * s.T,
            "queries are kept too. A query is used once.": lambda n, s: n + n // 2 // s.G * s.H,
        },
        "the bytes should be those of the keys and values of G heads.",
    )
    compare(
        kv_cache,
        [cache_case(2, 7, 12, 3, 6, 2), cache_case(3, 5, 40, 2, 8, 4)],
        {"in your count, without `bytes_per_number` a number takes 4 bytes. The default is 2.": lambda n, s: 2 * n},
        "without bytes_per_number, each number should take 2 bytes.",
    )


# 3.4

SOFT = (*COUNTERS, "Embedding", "Linear", "TransformerEncoderLayer")
LAYER_IGNORED = "`layer` is ignored. It is the number of parameters of one layer."
ONE_LAYER = "only one layer is counted. There are L."


@cache
def real_model(
    V: int, D: int, F: int, L: int, C: int | None = None, tied: bool = False, **layer: Any
) -> tuple[int, int]:
    """Parameters of one layer, and of the whole model that torch builds; `layer` are options of the layer."""
    model: Any = on_meta(counting.LanguageModel, V, D, F, L, C, tied, H=1)
    if layer:  # another layer in its place: what a layer holds is an argument
        model.layers = nn.ModuleList(on_meta(nn.TransformerEncoderLayer, D, 1, F, **layer) for _ in range(L))
    return real_layer(D, F, **layer), numel(model)


def lm_case(V: int, D: int, F: int, L: int, tied: bool | None = None, **layer: Any) -> Case:
    """The arguments of `language_model`, and its right answer."""
    one, total = real_model(V, D, F, L, tied=bool(tied), **layer)
    return {"V": V, "D": D, "L": L, "layer": one} | ({} if tied is None else {"tied": tied}), total


@check("3.4", points=2, forbids=SOFT)
def language_model(language_model):
    """Check the count of embedding, layers, and a head onto the vocabulary, tied or not."""
    assert whole(language_model(100, 200, 4, 242_000), "what `language_model` returns") != 988_402, (
        "the count 988,402 for V = 100 is that of the classifier. The language model's head is the larger one."
    )
    lab = [lm_case(**counting.LAB), lm_case(**(counting.LAB | {"V": 100}))]
    compare(
        language_model,
        [lm_case(11, 6, 5, 3), lm_case(7, 13, 4, 2), lm_case(23, 8, 9, 4, bias=False), *lab],
        {
            "the head ends in two classes. The language model's head is the larger one.": (
                lambda n, s: n - (s.V - 2) * (s.D + 1)
            ),
            "the head's bias is missing: one number for each output.": lambda n, s: n - s.V,
            "in your count, the head's bias is D long. It should have one number for each output.": lambda n, s: (
                n - s.V + s.D
            ),
            "the head is missing: a matrix from D to V, and a bias.": lambda n, s: n - s.V * (s.D + 1),
            "only one table of V rows is counted. Embedding and head have one each, unless `tied`.": lambda n, s: (
                n - s.V * s.D
            ),
            "there are D numbers too many: the embedding has no bias and V rows, and no norm follows the last layer.": (
                lambda n, s: n + s.D
            ),
            "there are 2D numbers too many: no norm follows the last layer.": lambda n, s: n + 2 * s.D,
            ONE_LAYER: lambda n, s: n - (s.L - 1) * s.layer,
            "in your count, each layer has an embedding and a head of its own.": (
                lambda n, s: n + (s.L - 1) * (n - s.L * s.layer)
            ),
            LAYER_IGNORED: lambda n, s: n + s.L * (6 * s.D * s.D + 10 * s.D - s.layer),
        },
        "the count is not that of the model that torch builds.",
    )
    compare(
        language_model,
        [lm_case(11, 8, 5, 3, True), lm_case(7, 12, 4, 2, True)],
        {
            "`tied=True` is ignored. Embedding and head share one table then.": lambda n, s: n + s.V * s.D,
            "a tied head keeps its bias. Only the table is shared.": lambda n, s: n - s.V,
            "in your count, a tied model has no table. It should have one, for both ends.": lambda n, s: n - s.V * s.D,
        },
        "the count of the tied model is not that of the one that torch builds.",
    )
    cases = [lm_case(11, 6, 5, 3, False), lm_case(7, 13, 4, 2, False)]
    compare(language_model, cases, {}, "`tied=False` is the default, but passing it changes the count.")
    told = "with `tied=True`, a call gives the count of an earlier one of the same sizes without it: that is kept."
    cases = [lm_case(11, 6, 5, 3, True), lm_case(7, 13, 4, 2, True), lm_case(**counting.LAB, tied=True)]
    compare(language_model, cases, {told: lambda n, s: n + s.V * s.D}, "with `tied=True`, a second count is wrong.")


# 3.5


def classifier_case(V: int, D: int, F: int, L: int, C: int, head_layers: int | None = None, **layer: Any) -> Case:
    """The arguments of `classifier`, and its right answer, with adapters' own head where `head_layers` is given."""
    one, total = real_model(V, D, F, L, C, **layer)
    sizes = {"V": V, "D": D, "L": L, "layer": one, "C": C}
    if head_layers is None:
        return sizes, total
    linear = numel(on_meta(nn.Linear, D, C))
    return sizes | {"head_layers": head_layers}, total - linear + counting.adapters_head(D, C, head_layers)


@check("3.5", points=2, forbids=SOFT)
def classifier(classifier):
    """Check the count of the same base under a head of one or more linear layers."""
    assert whole(classifier(100, 200, 4, 242_000, 2), "what classifier returns") != 1_008_100, (
        "the count 1,008,100 for V = 100 is that of the language model. The language model's head is the larger one."
    )
    lab = [classifier_case(**counting.LAB, C=2), classifier_case(**(counting.LAB | {"V": 100}), C=2)]
    compare(
        classifier,
        [
            classifier_case(11, 6, 5, 3, 4),
            classifier_case(7, 13, 4, 2, 3),
            classifier_case(23, 8, 9, 4, 5, bias=False),
            *lab,
        ],
        {
            "the head has V outputs, as that of the language model. The head of a classifier has C.": (
                lambda n, s: n + (s.V - s.C) * (s.D + 1)
            ),
            "both heads are counted. The new one replaces the old one.": lambda n, s: n + s.V * (s.D + 1),
            "the head's bias is missing: one number for each class.": lambda n, s: n - s.C,
            "in your count, the head's bias is D long. It should have one number for each class.": lambda n, s: (
                n - s.C + s.D
            ),
            "two classes are built in. C is an argument.": lambda n, s: n - (s.C - 2) * (s.D + 1),
            "two classes have a single output in your count. The head has an output for each class.": lambda n, s: (
                n - (s.C == 2) * (s.D + 1)
            ),
            "the head is missing.": lambda n, s: n - s.C * (s.D + 1),
            "the embedding is missing: the classifier still reads words.": lambda n, s: n - s.V * s.D,
            "without `head_layers`, the count is D * D + D too large, as with one more layer. One is the default.": (
                lambda n, s: n + s.D * s.D + s.D
            ),
            ONE_LAYER: lambda n, s: n - (s.L - 1) * s.layer,
            LAYER_IGNORED: lambda n, s: n + s.L * (6 * s.D * s.D + 10 * s.D - s.layer),
        },
        "the count is not that of the model that torch builds.",
    )
    compare(
        classifier,
        [classifier_case(*sizes) for sizes in ((11, 6, 5, 3, 4, 2), (7, 13, 4, 2, 3, 3), (19, 10, 8, 2, 5, 4))],
        {
            "`head_layers` is ignored.": lambda n, s: n - (s.head_layers - 1) * (s.D * s.D + s.D),
            "with more than one layer, two are counted in the head. `head_layers` says how many there are.": (
                lambda n, s: n - (s.head_layers - 2) * (s.D * s.D + s.D)
            ),
            "in your count, each layer of the head ends in C outputs. Only the last one does.": (
                lambda n, s: n - (s.head_layers - 1) * (s.D * s.D + s.D - s.C * (s.D + 1))
            ),
            "in your count, the first layer of the head leads to C already. All but the last stay D wide.": (
                lambda n, s: n - (s.head_layers - 1) * (s.D * s.D + s.D - s.C * (s.C + 1))
            ),
            "the head has one layer too many. `head_layers` counts all of them, the last one too.": (
                lambda n, s: n + s.D * s.D + s.D
            ),
            "in your count, only the last layer of the head has a bias. Each layer has one.": lambda n, s: (
                n - (s.head_layers - 1) * s.D
            ),
        },
        "with head_layers the count is not that of the head which the adapters library builds.",
    )
    cases = [classifier_case(11, 6, 5, 3, 4, 1), classifier_case(7, 13, 4, 2, 3, 1)]
    compare(classifier, cases, {}, "`head_layers=1` is the default, but passing it changes the count.")


# 3.6

LARGE = {"V": 30_522, "D": 1_024, "F": 4_096, "L": 24}


@cache
def real_bert(V: int, D: int, F: int, L: int, P: int, S: int, pooler: bool) -> int:
    """Parameters of transformers' BertModel."""
    return numel(counting.bert(V, D, F, L, P, S, pooler))


def bert_case(V: int, D: int, F: int, L: int, **options: Any) -> Case:
    """The arguments of `bert`, and its right answer."""
    total = real_bert(V, D, F, L, options.get("P", 512), options.get("S", 2), options.get("pooler", True))
    return {"V": V, "D": D, "L": L, "layer": real_layer(D, F)} | options, total


@check("3.6", points=3, forbids=(*SOFT, "BertModel", "BertConfig", "AutoModel", "AutoConfig"))
def bert(bert, bert_large):
    """Check the count of BERT with its three tables, its first norm and its pooler, and the sizes of BERT-large."""
    full = ((11, 6, 5, 3, 7, 4), (17, 14, 4, 2, 9, 1), (8, 10, 20, 4, 23, 3))
    compare(
        bert,
        [bert_case(*sizes[:4], P=sizes[4], S=sizes[5]) for sizes in full],
        {
            "the pooler is missing: one more linear map.": lambda n, s: n - s.D * s.D - s.D,
            "D numbers are missing: the pooler's bias, or the scale or the shift of the norm.": lambda n, s: n - s.D,
            "the count is 2D too small. The norm after the embeddings has 2D numbers, and the pooler's bias has D.": (
                lambda n, s: n - 2 * s.D
            ),
            "in your count, each of the three tables has a norm. They should be added first, then normalised once.": (
                lambda n, s: n + 4 * s.D
            ),
            "the table of positions is missing. BERT's are learned.": lambda n, s: n - s.P * s.D,
            "the table of segments is missing.": lambda n, s: n - s.S * s.D,
            "the tables of positions and segments are missing.": lambda n, s: n - (s.P + s.S) * s.D,
            "P is ignored. There are P positions.": lambda n, s: n + (512 - s.P) * s.D,
            "S is ignored. There are S segments.": lambda n, s: n + (2 - s.S) * s.D,
            "a head onto the vocabulary is counted. This is the base with its pooler.": (
                lambda n, s: n + s.V * (s.D + 1)
            ),
            ONE_LAYER: lambda n, s: n - (s.L - 1) * s.layer,
            LAYER_IGNORED: lambda n, s: n + s.L * (12 * s.D * s.D + 13 * s.D - s.layer),
        },
        "with P and S given, the count is not that of transformers' BertModel.",
    )
    compare(
        bert,
        [bert_case(11, 6, 5, 3), bert_case(17, 14, 4, 2), bert_case(**counting.BERT), bert_case(**LARGE)],
        {
            "without `S`, one segment is counted. The default is 2.": lambda n, s: n - s.D,
            "without `P`, no position is counted. The default is 512.": lambda n, s: n - 512 * s.D,
        },
        "without P and S, the count is not that of transformers' BertModel.",
    )
    bare = ((11, 6, 5, 3), (17, 14, 4, 2), (8, 10, 20, 1))
    compare(
        bert,
        [bert_case(*sizes, P=9, S=2, pooler=False) for sizes in bare],
        {
            "`pooler=False` is ignored.": lambda n, s: n + s.D * s.D + s.D,
            "without the pooler, its bias is gone too.": lambda n, s: n + s.D,
        },
        "without the pooler the count is not that of transformers' BertModel.",
    )
    cases = [bert_case(11, 6, 5, 3, P=9, S=2, pooler=True)]
    compare(bert, cases, {}, "`pooler=True` is the default, but passing it changes the count.")
    large = bert_large()
    given = "a list or a tuple: the keys say which number is which" if type(large) is list else kind(large)
    assert type(large) is dict, f"`bert_large` should return a dict, not {given}."
    for key in ("D", "F", "L"):
        assert key in large, f'the dict of `bert_large` has no "{key}".'
        whole(large[key], f'the "{key}" of `bert_large`')
    assert large["D"] != 768, "this hidden size, 768, is that of BERT-base. BERT-large has 16 heads, each 64 wide."
    assert large["D"] == LARGE["D"], (
        f'in `bert_large`, "D" is {large["D"]}. It should be the width of its 16 heads together, each 64 wide.'
    )
    assert large["L"] == LARGE["L"], (
        f'in `bert_large`, "L" is {large["L"]}, not the number of layers that the text gives.'
    )
    assert large["F"] == LARGE["F"], f'in `bert_large`, "F" is {large["F"]}. It should be four times its "D".'


# 3.7


def after_freezing(module: nn.Module, frozen: list[str]) -> int:
    """What is left to train when those parts of `module` no longer require gradients."""
    for name in frozen:
        owner, _, last = name.rpartition(".")
        getattr(module.get_submodule(owner), last).requires_grad_(False)
    left = sum(weight.numel() for weight in module.parameters() if weight.requires_grad)
    for weight in module.parameters():
        weight.requires_grad_(True)
    return left


def shapes_of(module: nn.Module) -> dict[str, list[int]]:
    """Name and shape of every parameter, as plain data."""
    return {name: list(part.shape) for name, part in module.named_parameters()}


@cache
def real_stack(L: int, D: int, F: int) -> nn.Module:
    """Build a model on `meta` with parts named as in BERT: `embeddings`, `encoder.layer.0`, ..., `pooler`.

    It also has a convolution `conv` and `scale`, one number.
    """
    return on_meta(_stack, L, D, F)


def _stack(L: int, D: int, F: int) -> nn.Module:
    model = nn.Module()
    model.embeddings, model.encoder, model.pooler = nn.Embedding(11, D), nn.Module(), nn.Linear(D, D)
    model.encoder.layer = nn.ModuleList(nn.TransformerEncoderLayer(D, 1, F) for _ in range(L))
    model.conv, model.scale = nn.Conv1d(D, D, 3), nn.Parameter(torch.zeros(()))
    return model


@check("3.7", points=3)
def trainable(trainable):
    """Check the count of what is left to train, from names and shapes, whatever is frozen."""
    model = real_stack(12, 6, 5)
    shapes = shapes_of(model)

    def ask(*frozen: str, of: dict[str, list[int]] = shapes, why: str = "") -> int:
        why = why or "A name in `frozen` is that of a part or of a parameter."
        told = f"`frozen = {[*frozen]}` should be accepted. {why}"
        single = " for a model with a parameter of shape ()" if [] in of.values() else ""
        value = expect.answers(trainable, of, list(frozen), says=told, kinds=("ValueError",))
        return whole(value, f"what trainable returns{single}")

    def right(*frozen: str) -> int:
        return after_freezing(model, list(frozen))

    everything = ask()
    for sentence, measure in {
        "a parameter of shape () is counted as nothing. It holds one number.": lambda s: math.prod(s) if s else 0,
        "tensors are counted. Each holds as many numbers as its shape says.": lambda s: 1,
        "the sides of a shape are added. A matrix holds as many numbers as their product.": sum,
        "two sides of a shape are multiplied. A convolution's weight has three: all sides count.": lambda s: math.prod(
            s[:2]
        ),
    }.items():
        assert everything != sum(map(measure, shapes.values())), sentence
    assert everything != 0, "nothing is frozen, so everything is trained. The count is zero."
    assert everything == right(), "with nothing frozen the count is not that of all parameters."

    parts = (("embeddings",), ("pooler", "embeddings"), ("encoder",))
    got, wanted = [ask(*part) for part in parts], [right(*part) for part in parts]
    frozen_counts = [everything - left for left in wanted]
    assert got != frozen_counts, "what is frozen is counted. What is left to train is asked for."
    assert got != [everything] * 3, (
        "where `frozen` names parts, nothing is frozen. A part's name stands for all parameters in it."
    )
    assert got[0] == wanted[0], 'with `frozen = ["embeddings"]`, the count differs from torch\'s.'
    assert got[1] == wanted[1], (
        'with `frozen = ["pooler", "embeddings"]`, the count differs from torch\'s. All of both should be frozen.'
    )
    assert got[2] == wanted[2], (
        'with `frozen = ["encoder"]`, the count is wrong. A part is frozen with everything in it, at any depth.'
    )

    short = sum(math.prod(shape) for name, shape in shapes.items() if not name.startswith("encoder.layer.1"))
    one_layer = ask("encoder.layer.1")
    assert one_layer != short, (
        "freezing `encoder.layer.1` froze `encoder.layer.10` too. A part's name ends at a dot, or at the end."
    )
    assert one_layer == right("encoder.layer.1"), "with `encoder.layer.1` frozen, the count differs from torch's."
    inside = ("encoder.layer.0", "encoder", "encoder.layer.0.linear1")
    assert ask(*inside, why="Parts in it may overlap.") == right(*inside), (
        "the count is wrong where frozen parts overlap. A parameter in several of them is frozen once."
    )
    single = ("pooler.bias", "scale", "encoder.layer.11.linear2.weight")
    assert ask(*single) == right(*single), (
        "the count is wrong where `frozen` names single parameters, such as `pooler.bias`."
    )
    bare = {"head.weight": [3, 4], "old.head.weight": [5, 6], "header": [7]}
    assert ask("head", of=bare) != 7, (
        "a part's name is found anywhere in a parameter's name. The parameter's name should begin with it."
    )
    assert ask("head", of=bare) == 37, (
        'with `frozen = ["head"]`, other parameters are frozen than those whose names begin with `head.`.'
    )
    typo = "a name that fits no parameter should raise ValueError, here `poler` beside `embeddings`: it may be a typo."
    expect.refuses(trainable, shapes, ["embeddings", "poler"], says=typo)


# 3.8


def adapter_case(D: int, L: int, reduction: int | None = None, per_layer: int | None = None) -> Case:
    """The arguments of `adapter`, and the count of the adapters library."""
    given = {"reduction": reduction, "per_layer": per_layer}
    options = {key: value for key, value in given.items() if value is not None}
    return {"D": D, "L": L} | options, counting.adapter_and_fusion(D, L, 2, **options)[0]


def bottleneck(D: int, r: int) -> int:
    """Torch's two linear layers, from D to r and back."""
    return numel(on_meta(nn.Linear, D, r)) + numel(on_meta(nn.Linear, r, D))


@check("3.8", points=2, forbids=(*COUNTERS, "Linear", "add_adapter", "adapter_summary"))
def adapter(adapter):
    """Check the count of one bottleneck adapter in each layer, or two."""
    compare(
        adapter,
        [adapter_case(64, 3), adapter_case(100, 2), adapter_case(40, 5), adapter_case(768, 12)],
        {
            "the biases are missing.": lambda n, s: n - s.L * (s.D + s.D // 16),
            "the way up is missing.": lambda n, s: n - s.L * (s.D * (s.D // 16) + s.D),
            "one of the two biases is missing: that of the way up, which ends in D.": lambda n, s: n - s.L * s.D,
            "one of the two biases is missing: that of the bottleneck.": lambda n, s: n - s.L * (s.D // 16),
            "both biases are as long as the bottleneck is wide. That of the way up is D long.": (
                lambda n, s: n - s.L * (s.D - s.D // 16)
            ),
            "both biases are D long. That of the way down is as long as the bottleneck is wide.": (
                lambda n, s: n + s.L * (s.D - s.D // 16)
            ),
            "in your count, the bottleneck is 16 wide. It should be 16 times narrower than D.": (
                lambda n, s: s.L * bottleneck(s.D, 16)
            ),
            "only one adapter is counted. There is one in each of the L layers.": lambda n, s: n // s.L,
            "in your count, each layer has two adapters. One is the default.": lambda n, s: 2 * n,
            "a norm is counted. `seq_bn` has none of its own.": lambda n, s: n + s.L * 2 * s.D,
            "the width of the bottleneck is rounded up. The library rounds down.": (
                lambda n, s: s.L * bottleneck(s.D, -(-s.D // 16))
            ),
        },
        "the count is not that of the adapters library's `seq_bn`.",
    )
    compare(
        adapter,
        [adapter_case(64, 3, 8), adapter_case(30, 2, 4), adapter_case(50, 5, 3), adapter_case(100, 2, 40)],
        {
            "the bottleneck is too wide for reductions above 16. The same rule holds for them.": (
                lambda n, s: s.L * bottleneck(s.D, s.D // min(s.reduction, 16))
            ),
            "`reduction` is ignored.": lambda n, s: s.L * bottleneck(s.D, s.D // 16),
            "in your count, the bottleneck is `reduction` wide. It should be that many times narrower than D.": (
                lambda n, s: s.L * bottleneck(s.D, s.reduction)
            ),
            "the width of the bottleneck is rounded up. The library rounds down.": (
                lambda n, s: s.L * bottleneck(s.D, -(-s.D // s.reduction))
            ),
            "the width of the bottleneck is rounded to the nearest whole number. The library rounds down.": (
                lambda n, s: s.L * bottleneck(s.D, round(s.D / s.reduction))
            ),
        },
        "with another reduction the count is not that of the adapters library.",
    )
    compare(
        adapter,
        [adapter_case(64, 3, 16, 2), adapter_case(30, 2, 4, 2), adapter_case(50, 5, 3, 2)],
        {"`per_layer` is ignored.": lambda n, s: n // 2},
        "with two adapters in each layer the count is not that of the library's `double_seq_bn`.",
    )
    compare(
        adapter,
        [adapter_case(20, 3, 30), adapter_case(40, 2, 64)],
        {
            "with a reduction above the width nothing is left of the bottleneck. It is never less than 1 wide.": (
                lambda n, s: s.L * s.D
            )
        },
        "with a reduction above the width the count is not that of a bottleneck 1 wide.",
    )


# 3.9


def fusion_case(D: int, L: int, n: int) -> Case:
    """The arguments of `fusion`, and the count of the adapters library."""
    return {"D": D, "L": L, "n": n}, counting.adapter_and_fusion(D, L, n)[1]


@check("3.9", points=2, forbids=(*COUNTERS, "Linear", "add_adapter_fusion", "adapter_summary"))
def fusion(fusion):
    """Check the count of the fusion of n adapters: a query, a key and a value matrix in each layer."""
    compare(
        fusion,
        [fusion_case(*sizes) for sizes in ((64, 3, 2), (64, 3, 4), (96, 2, 3), (40, 5, 2), (768, 12, 3))],
        {
            "in your count, each adapter has a fusion of its own. All n should share one.": lambda n, s: s.n * n,
            "in your count, each adapter has a key and a value matrix of its own. All n should share them.": (
                lambda n, s: n + (s.n - 1) * s.L * (2 * s.D * s.D + s.D)
            ),
            "in your count, the value matrix has a bias. The library's has none.": lambda n, s: n + s.L * s.D,
            "the biases of query and key are missing.": lambda n, s: n - s.L * 2 * s.D,
            "an output projection is counted. A fusion ends with the values.": lambda n, s: n + s.L * (s.D * s.D + s.D),
            "a fourth matrix is counted, that of an output projection. A fusion ends with the values.": lambda n, s: (
                n + s.L * s.D * s.D
            ),
            "this is the attention of 3.2: an output projection and four biases. The fusion ends with the values.": (
                lambda n, s: n + s.L * (s.D * s.D + 2 * s.D)
            ),
            "the value matrix is missing.": lambda n, s: n - s.L * s.D * s.D,
            "the adapters are counted too. They are there already; fusion adds to them.": (
                lambda n, s: n + s.n * s.L * bottleneck(s.D, s.D // 16)
            ),
            "only one layer is counted. Each of the L layers has a fusion.": lambda n, s: n // s.L,
        },
        "the count is not that of the adapters library's fusion.",
    )


# 3.10


@cache
def real_products(B: int, T: int, D: int, F: int, L: int, H: int) -> int:
    """How many numbers enter matrix products in torch's own layers."""
    model: Any = on_meta(counting.LanguageModel, 3, D, F, L, H=H)
    x = torch.zeros(B, T, D, device="meta")
    return counting.product_inputs(model, lambda: model.layers(x))


def activations_case(B: int, T: int, D: int, F: int, L: int, H: int, parameters: int = 0, trained: int = 0) -> Case:
    """The arguments of `training_memory`, and its right answer: 4 bytes a number, Adam's two included."""
    kept = real_products(B, T, D, F, L, H) if L else 0
    sizes = {"B": B, "T": T, "D": D, "F": F, "L": L, "H": H, "parameters": parameters, "trained": trained}
    return sizes, 4 * (parameters + trained + 2 * trained + kept)


@cache
def real_flops(T: int, D: int, F: int, L: int, V: int) -> int:
    """FLOPs per token of torch's own model, as torch's counter sees them."""
    model = on_meta(counting.LanguageModel, V, D, F, L, H=1)
    tokens = torch.zeros(2, T, dtype=torch.long, device="meta")
    return counting.flops(lambda: model(tokens)) // (2 * T)


def flops_case(T: int, D: int, F: int, L: int, V: int) -> Case:
    """The arguments of `flops_per_token`, and its right answer."""
    return {"T": T, "D": D, "F": F, "L": L, "V": V}, real_flops(T, D, F, L, V)


def per_token(count: Callable[[Any], int]) -> Guess:
    """A guess that is off by `count` numbers for each token in each layer."""
    return lambda n, s: n + 4 * s.B * s.T * s.L * count(s)


@check("3.10", points=3, forbids=(*COUNTERS, "FlopCounterMode"))
def training_memory(training_memory, flops_per_token):
    """Check the bytes to train in float32, part by part, and the forward FLOPs of a token."""
    with part("training_memory", 2):
        compare(
            training_memory,
            [activations_case(3, 7, 12, 20, 0, 4, *counts) for counts in ((1_000, 1_000), (7_919, 310), (50, 0))],
            {
                "numbers are counted, not bytes. A float32 number takes 4.": lambda n, s: n // 4,
                "in your count, a number takes 2 bytes. Float32 takes 4.": lambda n, s: n // 2,
                "in your count, a number takes 8 bytes. Float32 takes 4.": lambda n, s: 2 * n,
                "in your count, frozen weights have gradients and Adam states. They need neither.": lambda n, s: (
                    16 * s.parameters
                ),
                "in your count, frozen weights have gradients. They need none.": lambda n, s: (
                    n + 4 * (s.parameters - s.trained)
                ),
                "in your count, frozen weights have Adam states. They need none.": lambda n, s: (
                    n + 8 * (s.parameters - s.trained)
                ),
                "frozen weights are missing. They are not trained, but they still take memory.": lambda n, s: (
                    16 * s.trained
                ),
                "for each trained weight one number is missing: its gradient, or one of Adam's two.": (
                    lambda n, s: n - 4 * s.trained
                ),
                "for each trained weight two numbers are missing, as many as Adam's states.": lambda n, s: (
                    n - 8 * s.trained
                ),
                "without layers, B * T * D activations are counted. Embedding and head keep none.": lambda n, s: (
                    n + 4 * s.B * s.T * s.D
                ),
                "the weights are missing.": lambda n, s: n - 4 * s.parameters,
            },
            "without layers, the bytes are not those of weights, gradients and Adam's states.",
        )
        layers = ((3, 7, 12, 20, 2, 4), (2, 5, 8, 9, 3, 2), (1, 11, 30, 14, 1, 5))
        both = [activations_case(*sizes, 9_000 + sizes[1], 800) for sizes in layers]
        gone = "the activations are missing."
        if training_memory(*both[0][0].values()) == both[0][1]:
            gone = "with `trained = 0` the activations are missing. Every layer keeps them, whatever is frozen."
        compare(
            training_memory,
            [activations_case(*sizes) for sizes in layers],
            {
                "activations are counted in numbers, not in bytes.": lambda n, s: n // 4,
                gone: lambda n, s: 0,
                "the attention weights are missing: in each head, a token has one for each key.": per_token(
                    lambda s: -s.H * s.T
                ),
                "the attention weights of one head are counted. Each head has its own.": per_token(
                    lambda s: s.T - s.H * s.T
                ),
                "in your count, a token has one attention weight in each head. It has one for each key.": per_token(
                    lambda s: s.H - s.H * s.T
                ),
                "the attention weights of the sequence are counted for each token.": per_token(
                    lambda s: s.H * s.T * (s.T - 1)
                ),
                "the input of the second feed-forward map, F wide, is missing.": per_token(lambda s: -s.F),
                "the input of the second feed-forward map is D wide in your count. It is F wide.": per_token(
                    lambda s: s.D - s.F
                ),
                "each token has 2D numbers too many. The input of Q, K and V is one tensor. The norms' inputs do not "
                "count.": per_token(lambda s: 2 * s.D),
                "three activations of width D are missing. Queries, keys and values enter products too.": per_token(
                    lambda s: -3 * s.D
                ),
                "one of the activations of width D is missing.": per_token(lambda s: -s.D),
                "only one layer is counted. Each of the L layers keeps its activations.": lambda n, s: n // s.L,
                "only one sequence is counted. There are B.": lambda n, s: n // s.B,
                "only one token of each sequence is counted. There are T.": lambda n, s: n // s.T,
            },
            "the activations are not the inputs of the matrix products in torch's layers.",
        )
        together = "weights, states and activations are right alone, but wrong together. Add them."
        compare(training_memory, both, {}, together)
    with part("flops_per_token", 1):
        compare(
            flops_per_token,
            [
                flops_case(*sizes)
                for sizes in ((7, 12, 20, 2, 31), (5, 8, 9, 3, 23), (11, 30, 14, 1, 6), (64, 200, 200, 4, 50_001))
            ],
            {
                "in your count, a multiply-add counts as one. It should count as two.": lambda n, s: n // 2,
                "the products of the attention itself are missing: queries with keys, weights with values.": (
                    lambda n, s: n - 4 * s.L * s.T * s.D
                ),
                "attention's own products cost half of what they should. A query meets T keys, and "
                "its weights T values: D multiply-adds for each.": (lambda n, s: n - 2 * s.L * s.T * s.D),
                "the head is missing.": lambda n, s: n - 2 * s.D * s.V,
                "in your count, the embedding costs a product. It is a lookup, which is free.": lambda n, s: (
                    n + 2 * s.D * s.V
                ),
                "the backward pass is counted too. The forward pass is asked for.": lambda n, s: 3 * n,
                "all T tokens are counted. One is asked for.": lambda n, s: s.T * n,
                "the attention of all T queries is counted. One token has one query.": (
                    lambda n, s: n + 4 * s.L * s.T * s.D * (s.T - 1)
                ),
                "only one layer is counted. Each of the L layers works.": lambda n, s: real_flops(
                    s.T, s.D, s.F, 1, s.V
                ),
                "in your count, each layer has a head. The model has one.": lambda n, s: n + (s.L - 1) * 2 * s.D * s.V,
                "three maps of the attention are counted. There are four, with the output projection.": (
                    lambda n, s: n - 2 * s.L * s.D * s.D
                ),
                "biases and norms are counted. They enter no matrix product.": (
                    lambda n, s: n + 2 * (s.L * (9 * s.D + s.F) + s.V)
                ),
                "biases are counted. They enter no matrix product.": lambda n, s: n + s.L * (5 * s.D + s.F) + s.V,
                "biases are counted, two for each. They enter no matrix product.": (
                    lambda n, s: n + 2 * (s.L * (5 * s.D + s.F) + s.V)
                ),
                "a query meets (T + 1) / 2 keys in your count. It should meet all T: a mask saves no product.": (
                    lambda n, s: n - 2 * s.L * s.D * (s.T - 1)
                ),
                "each query meets only half of the keys. It should meet all T: a mask saves no product.": (
                    lambda n, s: n - 4 * s.L * s.D * (s.T - (s.T + 1) // 2)
                ),
            },
            "the FLOPs are not those that torch's counter sees.",
        )


# 3.11


@cache
def training_case(V: int, D: int, F: int, L: int, T: int, tied: bool | None = None) -> Case:
    """The arguments of `training_flops`, and what torch's counter sees of a forward and backward pass."""
    model = on_meta(counting.LanguageModel, V, D, F, L, None, tied is True, H=1)
    tokens = torch.zeros(2, T, dtype=torch.long, device="meta")
    count = counting.flops(lambda: model(tokens).sum().backward()) // (2 * T)
    N = sum(part.numel() for part in model.parameters() if part.dim() == 2)
    return {"N": N, "V": V, "D": D, "L": L, "T": T} | ({} if tied is None else {"tied": tied}), count


@cache
def even_case(D: int, F: int) -> Case:
    """The arguments of `even_length`, and the length at which torch's counter sees a layer's FLOPs double."""
    layer = on_meta(nn.TransformerEncoderLayer, D, 1, F, batch_first=True)
    one, two = (counting.flops(lambda T=T: layer(torch.zeros(1, T, D, device="meta"))) // T for T in (1, 2))
    slope = two - one  # what each further key costs a token
    assert (one - slope) % slope == 0
    return {"D": D, "F": F}, (one - slope) // slope


@check("3.11", points=2, forbids=(*COUNTERS, "FlopCounterMode"))
def training_flops(training_flops, even_length):
    """Check the FLOPs of training, and the length at which both kinds of products cost the same."""
    own = "attention's own products"
    tied_cases = [training_case(*sizes, True) for sizes in ((31, 12, 20, 2, 7), (23, 8, 9, 3, 5), (6, 30, 14, 1, 11))]
    table = "in your count, the embedding's table is multiplied. It is only looked up."
    if all(training_flops(*sizes.values()) == n - 6 * sizes["V"] * sizes["D"] for sizes, n in tied_cases):
        table = "the two cases of `tied` are exchanged: the table is only looked up where the head has its own."
    compare(
        training_flops,
        [
            training_case(*sizes)
            for sizes in ((31, 12, 20, 2, 7), (23, 8, 9, 3, 5), (6, 30, 14, 1, 11), (50_001, 200, 200, 4, 64))
        ],
        {
            "this is 6N. The table of the embedding is looked up, and attention has products of its own.": (
                lambda n, s: 6 * s.N
            ),
            f"{own} are missing: queries with T keys, weights with T values.": lambda n, s: n - 12 * s.L * s.T * s.D,
            table: lambda n, s: n + 6 * s.V * s.D,
            f"in your count, {own} have no backward pass, which needs two products for each of them too.": (
                lambda n, s: n - 8 * s.L * s.T * s.D
            ),
            f"{own} cost half of what they should. A query meets T keys, and its weights T values: 6 D "
            "FLOPs for each.": (lambda n, s: n - 6 * s.L * s.T * s.D),
            "the backward pass is missing. It costs twice the forward pass.": lambda n, s: n // 3,
            "in your count, the backward pass costs as much as the forward pass. It should cost twice as much.": (
                lambda n, s: n // 3 * 2
            ),
            "the head is subtracted from N too. It is a product, unlike the embedding.": lambda n, s: n - 6 * s.V * s.D,
            "the embedding is added to N. It is already in N, and should be subtracted.": lambda n, s: (
                n + 12 * s.V * s.D
            ),
            "V numbers are subtracted from N. The table has V rows of D.": lambda n, s: n + 6 * s.V * (s.D - 1),
            "the table is subtracted after N is multiplied by 6. Subtract it before.": lambda n, s: n + 5 * s.V * s.D,
            f"in your count, one layer has {own}. All L layers should have them.": lambda n, s: (
                n - 12 * (s.L - 1) * s.T * s.D
            ),
            "all T tokens are counted. One is asked for.": lambda n, s: s.T * n,
            f"{own} are counted for all T queries. One token has one query.": (
                lambda n, s: n + 12 * s.L * s.T * s.D * (s.T - 1)
            ),
            "in your count, a multiply-add counts as one. It should count as two.": lambda n, s: n // 2,
        },
        "the FLOPs are not those that torch's counter sees.",
    )
    compare(
        training_flops,
        tied_cases,
        {
            "`tied` is ignored. A tied head multiplies with the embedding's table: all of N is in products.": (
                lambda n, s: n - 6 * s.V * s.D
            ),
            "with `tied` a table is added. N holds it once, and it is multiplied once.": lambda n, s: n + 6 * s.V * s.D,
            f"with `tied`, {own} are missing.": lambda n, s: n - 12 * s.L * s.T * s.D,
        },
        "with `tied` the FLOPs are not those that torch's counter sees.",
    )
    cases = [training_case(31, 12, 20, 2, 7, False), training_case(23, 8, 9, 3, 5, False)]
    compare(training_flops, cases, {}, "`tied=False` is the default, but passing it changes the count.")
    compare(
        even_length,
        [even_case(*sizes) for sizes in ((12, 20), (8, 10), (30, 14), (200, 200), (768, 3_072))],
        {
            "the length is twice the right one. Attention has two products: a query meets T keys, and its weights T "
            "values.": lambda n, s: 2 * n,
            "the maps of the attention are missing. They are matrices too.": lambda n, s: s.F,
            "the feed-forward part is missing. Its matrices count too.": lambda n, s: 2 * s.D,
            "the output map of the attention is missing, or one of its other three.": (
                lambda n, s: (3 * s.D + 2 * s.F) // 2
            ),
            "one map of the feed-forward part is missing. It has two.": lambda n, s: (4 * s.D + s.F) // 2,
            "F = D is built in, as in the lab's model. F is an argument.": lambda n, s: 3 * s.D,
            "F = 4D is built in, as in BERT. F is an argument.": lambda n, s: 6 * s.D,
            "this is what the matrices cost, not a length: divide it by what one more token costs.": (
                lambda n, s: n * 2 * s.D
            ),
        },
        "at this length, the two kinds of products do not cost the same by torch's counter.",
    )


# 3.12


@cache
def decoder_layer(H: int, share: int, F: int) -> int:
    """A layer of Llama's kind, of torch's parts: test_variants.py compares it with that of transformers."""
    D, inner = 64 * H, 64 * H // share
    maps = ((D, D), (D, inner), (D, inner), (D, D), (D, F), (D, F), (F, D))
    return sum(numel(on_meta(nn.Linear, *sizes, False)) for sizes in maps) + 2 * numel(on_meta(nn.RMSNorm, D))


def decoder(s: Any) -> tuple[int, int]:
    """Parameters of the model with the sizes of `variants.MODEL`, and bytes of its cache for one text."""
    D = 64 * s.H
    return s.V * D + s.L * decoder_layer(s.H, s.share, s.F) + D, s.T * s.L * 2 * (D // s.share) * 2


# Guesses by what they say, as in `compare`; tests/checks/test_variants.py sees that no two of them give one number.
OF_PARAMETERS: dict[str, Guess] = {
    "in your count, the head has its own table. It should be tied to the embedding.": lambda n, s: n + s.V * 64 * s.H,
    "the embedding is missing.": lambda n, s: n - s.V * 64 * s.H,
    "the norm after the last layer is missing.": lambda n, s: n - 64 * s.H,
    "in your count, the norms have a shift. RMSNorm has a scale alone.": lambda n, s: n + (2 * s.L + 1) * 64 * s.H,
    "one norm of each layer is missing. There are two, and one after the last layer.": lambda n, s: n - s.L * 64 * s.H,
    "the norms are missing.": lambda n, s: n - (2 * s.L + 1) * 64 * s.H,
    "in your count, all H heads have keys and values. Only one in `share` should have them.": lambda n, s: (
        n + s.L * 2 * 64 * s.H * (64 * s.H - 64 * s.H // s.share)
    ),
    "keys or values are missing. Each has a map.": lambda n, s: n - s.L * 64 * s.H * (64 * s.H // s.share),
    "one map from D to D is missing in each layer. The queries have one, and so has the output.": lambda n, s: (
        n - s.L * (64 * s.H) ** 2
    ),
    "in your count, the feed-forward part has two maps. It should have three.": lambda n, s: n - s.L * 64 * s.H * s.F,
    "only one layer is counted. There are L.": lambda n, s: n - (s.L - 1) * decoder_layer(s.H, s.share, s.F),
    "a table of positions is counted. Rotary positions are computed.": lambda n, s: n + s.T * 64 * s.H,
    "the biases of the attention are counted. This model has none.": lambda n, s: (
        n + s.L * 64 * (2 * s.H + 2 * s.H // s.share)
    ),
    "the head has a bias in your count. This model has none.": lambda n, s: n + s.V,
    "biases are counted. This model has none.": lambda n, s: n + s.L * (64 * (3 * s.H + 2 * s.H // s.share) + 2 * s.F),
}
OF_CACHE: dict[str, Guess] = {
    "half of the bytes are missing: keys and values are kept, and each number takes 2 bytes.": lambda n, s: n // 2,
    "numbers of keys or of values are counted: both are kept, and each takes 2 bytes.": lambda n, s: n // 4,
    "in your count, a number takes 4 bytes. It should take 2.": lambda n, s: 2 * n,
    "all H heads are kept. Only one in `share` has keys and values.": lambda n, s: n * s.share,
    "the keys and values of one head are kept. There are H / share such heads.": lambda n, s: n * s.share // s.H,
    "a head counts as one number. It is 64 wide.": lambda n, s: n // 64,
    "only one layer is counted. Each of the L layers has its own keys and values.": lambda n, s: n // s.L,
    "only one token is counted. Each of the T has its keys and values.": lambda n, s: n // s.T,
    "queries are kept too. A query is used once.": lambda n, s: n + n // 2 * s.share,
}


@check("3.12", points=1, forbids=("num_parameters", "counting", "Module"), variant=variants.MODEL)
def own_model(own_parameters, own_cache, own):
    """Check the count of the parameters of a model with the student's own sizes, and the bytes of its cache."""
    parameters = whole(own_parameters(), "what `own_parameters` returns")
    cache = whole(own_cache(), "what `own_cache` returns")
    expect.own(
        (parameters, cache),
        own,
        decoder,
        "what `own_parameters` returns is not the count of this model for your numbers."
        if parameters != decoder(own)[0]
        else "what `own_cache` returns is not the number of bytes of this model's cache for your numbers.",
        {
            f"`own_parameters`: {told}": lambda s, guess=guess: (guess(decoder(s)[0], s), cache)
            for told, guess in OF_PARAMETERS.items()
        }
        | {
            f"`own_cache`: {told}": lambda s, guess=guess: (decoder(s)[0], guess(decoder(s)[1], s))
            for told, guess in OF_CACHE.items()
        },
    )


# 3.13


def vertex(x: Sequence[float], losses: Sequence[float]) -> tuple[float, float]:
    """Where the least-squares parabola through losses has its vertex, in the unit of x, and the loss there."""
    middle, scale = statistics.fmean(x), max(x) - min(x)
    shifted = torch.tensor([(value - middle) / scale for value in x], dtype=torch.float64)
    powers = torch.stack([shifted**2, shifted, torch.ones_like(shifted)], 1)
    wanted = torch.tensor(losses, dtype=torch.float64)[:, None]
    a, b, c = torch.linalg.lstsq(powers, wanted).solution[:, 0].tolist()
    return middle - scale * b / (2 * a), c - b * b / (4 * a)


def vertex_size(N: Sequence[float], losses: Sequence[float]) -> float:
    """The size at the vertex of a parabola in log N."""
    return math.exp(vertex([*map(math.log, N)], losses)[0])


def around_the_lowest(N: Sequence[float], losses: Sequence[float]) -> float:
    """log N at the vertex of the parabola through the lowest loss and its neighbours; NaN if two have one size."""
    runs = sorted(zip(N, losses, strict=True))
    lowest = min(range(1, len(runs) - 1), key=lambda place: runs[place][1])
    sizes, values = zip(*runs[lowest - 1 : lowest + 2], strict=True)
    return vertex([*map(math.log, sizes)], values)[0] if len({*sizes}) == len(sizes) else math.nan


def log_of(value: float) -> float:
    """The natural logarithm; minus infinity where there is none."""
    return math.log(value) if value > 0 else -math.inf


def size_guesses(N: Sequence[float], losses: Sequence[float]) -> dict[str, float]:
    """The logarithms of what misconceptions answer for these runs."""
    best, loss = vertex([*map(math.log, N)], losses)
    a, _, _ = np.polyfit(np.log(N), losses, 2)
    logarithm = "this is the logarithm of a size. Turn it back into a size."
    bases = "the logarithm and the power that turns it back have different bases:"
    last = dict(zip(N, losses, strict=True))
    means = {size: statistics.fmean(loss for one, loss in zip(N, losses, strict=True) if one == size) for size in N}
    return {
        "the parabola is fitted in N. Fit it in log N.": log_of(vertex(N, losses)[0]),
        "this is the size of the run with the lowest loss. The vertex is usually between two runs.": math.log(
            N[losses.index(min(losses))]
        ),
        logarithm: log_of(best),
        f"{logarithm} Its base is 10.": log_of(best / math.log(10)),
        f"{logarithm} Its base is 2.": log_of(best / math.log(2)),
        "the sign of b is lost. The vertex is at -b / 2a.": -best,
        "the 2 is missing. The vertex is at -b / 2a.": 2 * best,
        "b is divided by 2 and multiplied by a. The vertex is at -b / (2a).": best * a**2,
        f"{bases} 10 and e.": best / math.log(10),
        f"{bases} 2 and e.": best / math.log(2),
        f"{bases} e and 10.": best * math.log(10),
        f"{bases} e and 2.": best * math.log(2),
        "this is the loss at the vertex. The size is asked for.": log_of(loss),
        "the parabola is fitted to the logarithm of the loss. Only N has a logarithm.": vertex(
            [*map(math.log, N)], [*map(math.log, losses)]
        )[0],
        "runs of the same size are averaged first, so some runs count less than others.": vertex(
            [*map(math.log, means)], [*means.values()]
        )[0],
        "only the last of the runs of one size is used. Every run counts.": vertex(
            [*map(math.log, last)], [*last.values()]
        )[0],
        "only the lowest loss and its neighbours are used. Fit the parabola to all runs.": around_the_lowest(N, losses),
    }


def bowl(n: int, seed: int) -> tuple[list[int], list[float]]:
    """Sizes and losses of n runs, near a parabola in log N that opens upward; of many runs some have the same size."""
    pick = expect.draw(seed)
    first, factor, a = pick.randint(2_000, 90_000), pick.uniform(1.4, 2.5), pick.uniform(0.08, 0.3)
    steps = [*range(3), *(pick.randrange(8) for _ in range(n - 3))]
    N = [round(first * factor**step) for step in steps]
    best = math.log(first) + math.log(factor) * pick.uniform(0.2, 1.8)
    return N, [2 + a * (math.log(size) - best) ** 2 + pick.uniform(-0.003, 0.003) for size in N]


BEST_SIZE = Contract(
    "best_size(N, losses)",
    sizes={"_n": (3, 9, 900)},
    N=lambda toys, seed, _n: bowl(_n, seed)[0],
    losses=lambda toys, seed, _n: bowl(_n, seed)[1],
    upside_down=lambda toys, seed, _n: [20 - loss for loss in bowl(_n, seed)[1]],
    two_sizes=lambda toys, seed, _n: (bowl(_n, seed)[0][:2] * _n)[:_n],
    gives="the size: number",
    right=vertex_size,
    refuses=("best_size(N, upside_down)", "best_size(two_sizes, losses)"),
    tolerance=5e-4,  # single precision is enough
)
RUNS_OF_SIZES = (
    ([4_000, 12_000, 36_000], [2.31, 2.12, 2.25]),
    ([9_000, 15_000, 31_000, 54_000, 117_000], [2.04, 1.93, 1.85, 1.86, 2.02]),
    ([2_500, 5_600, 11_000, 26_000, 61_000, 130_000], [2.31, 2.16, 2.02, 1.97, 2.05, 2.24]),
    ([5_000, 5_000, 5_000, 20_000, 90_000, 90_000, 300_000], [2.4, 2.42, 2.41, 2.2, 2.13, 2.14, 2.35]),
    ([300_000, 2_000_000, 9_000_000, 9_000_000, 9_000_000, 50_000_000], [3.3, 3.02, 3.01, 3.05, 3.02, 3.29]),
)
UNUSUAL_RUNS = {
    "tiny sizes": ([3, 5, 11, 30], [2.6, 2.3, 2.1, 2.7]),
    "sizes that are close": ([1_000, 1_100, 1_210], [2.0, 1.9, 2.05]),
    "runs that are equal": ([4_000, 4_000, 12_000, 36_000, 90_000], [2.3, 2.3, 2.0, 2.2, 2.4]),
    "two losses that are equal": ([4_000, 12_000, 36_000], [2.0, 1.5, 2.0]),
}


def not_at_the_vertex(place: int, came: float) -> str:
    """What is wrong with the size that came for these runs."""
    N, losses = RUNS_OF_SIZES[place]
    return (
        f"for the sizes `{N}` and the losses `{losses}`, {vertex_size(N, losses):.6g} is at the vertex of the "
        f"least-squares parabola in log N. Your code gives {came:.6g}."
    )


@check("3.13", points=2)
def best_size(best_size, lib):
    """Check the vertex of a parabola in log N."""
    told = "`best_size` should accept the sizes and losses of {} runs whose least-squares parabola opens upward."
    sizes = [
        expect.answers(best_size, N, losses, says=told.format(len(N)), kinds=("ValueError",))
        for N, losses in RUNS_OF_SIZES
    ]
    assert not any(type(size) is int for size in sizes), (
        "The best size is not a count. It should be a float, not an int."
    )
    found = [expect.of_type(size, float, "the best size should be a float") for size in sizes]
    expect.numbers_like(  # of logarithms: many mistakes are small numbers, whatever the size
        [
            (log_of(size), math.log(vertex_size(N, losses)), size_guesses(N, losses))
            for size, (N, losses) in zip(found, RUNS_OF_SIZES, strict=True)
        ],
        "the best size",
        lambda place, _: not_at_the_vertex(place, found[place]),
        1e-5,
    )
    for what, (N, losses) in UNUSUAL_RUNS.items():
        told = f"For {what}, the best size is wrong, or there is an error. The formula is the same for them."
        size = expect.number(expect.answers(best_size, N, losses, says=told), "the best size")
        cut = size in (round(vertex_size(N, losses)), int(vertex_size(N, losses)))
        assert not cut, "the best size is rounded to a whole number. It is not a count: return it as it is."
        assert math.isclose(size, vertex_size(N, losses), rel_tol=5e-4), told
    hill = [4 - loss for loss in RUNS_OF_SIZES[1][1]]
    expect.refuses(
        best_size,
        RUNS_OF_SIZES[1][0],
        hill,
        says="where the parabola opens downward, `best_size` should raise ValueError. Its vertex is the worst size.",
    )
    expect.refuses(
        best_size,
        [4_000, 12_000, 12_000, 4_000],
        [2.1, 2.4, 2.5, 2.2],
        says="four runs of two different sizes do not determine a parabola: `best_size` should raise ValueError.",
    )
    BEST_SIZE.hold(best_size, lib, "sizes", "memory")


# 3.14

DTYPES = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}  # digits in base 2
LAST_PLACES = {DTYPES["float16"]: -24}  # numbers near 0 have fewer digits; no number here is so small in other dtypes


def rounded(numbers: torch.Tensor, digits: int) -> torch.Tensor:
    """Numbers in double precision, rounded to so many digits in base 2, halves to the even neighbour."""
    mantissa, exponent = torch.frexp(numbers.double())
    place = (exponent - digits).clamp(min=LAST_PLACES.get(digits, -125))
    return torch.ldexp(torch.round(torch.ldexp(mantissa, exponent - place)), place)


def distance(x: float, name: str) -> float:
    """The distance from `abs(x)` to the next larger number of a dtype: by counting up to the power of two above it."""
    low = 2.0**-60
    while low * 2 <= abs(x):
        low *= 2
    return low / 2 ** (DTYPES[name] - 1)


def numbers_of(seed: int, name: str) -> list[float]:
    """Numbers of a dtype: of all sizes, powers of two, and their neighbours below."""
    some = expect.draw(seed)
    powers = [2.0**power for power in (-12, -3, 0, 1, some.randint(2, 13))]
    below = [power * (1 - 2.0 ** -DTYPES[name]) for power in powers]
    drawn = [some.choice((-1, 1)) * 2.0 ** some.randint(-12, 13) * some.uniform(1, 2) for _ in range(6)]
    return [1.0, 1.5, *rounded(torch.tensor(drawn, dtype=torch.float64), DTYPES[name]).tolist(), *powers, *below]


def is_the_gap(gap: Remote, lib: Library, seed: int, sign: int = 1) -> None:
    """Fail unless `gap` is right for numbers of each dtype, those of `numbers_of` times `sign`."""
    guesses: dict[str, Callable[[float, str], float]] = {
        "Your gap is the same for all x. The gap should grow with |x|.": lambda x, name: distance(1.0, name),
        "Your gap is epsilon times |x|. It should be the same for all x between two powers of two.": lambda x, name: (
            abs(x) * distance(1.0, name)
        ),
        "The gap is twice as large as it should be. The exponent of `math.frexp` is e + 1.": lambda x, name: (
            2 * distance(x, name)
        ),
        "The gap is half as large as it should be.": lambda x, name: distance(x, name) / 2,
        "The dtype is not used: the gap is always that of bfloat16.": lambda x, name: distance(x, "bfloat16"),
        "The dtype is not used: the gap is always that of float32.": lambda x, name: distance(x, "float32"),
        "The dtype is not used: the gap is always that of float64.": lambda x, name: distance(x, "float64"),
    }
    cases = [(sign * x, name) for name in DTYPES for x in numbers_of(seed, name)]
    dtypes = {name: read(getattr(lib(torch), name)) for name in DTYPES}
    came = [gap(x, dtypes[name]) for x, name in cases]
    assert not any(type(one) is torch.Tensor for one in came), "`gap` returns a tensor. It should be a float."
    found = [expect.number(one, "what `gap` returns") for one in came]
    wanted = [distance(x, name) for x, name in cases]
    for sentence, guess in guesses.items():
        assert found == wanted or found != [guess(x, name) for x, name in cases], sentence
    negative = [(x, one) for (x, _), one, right in zip(cases, found, wanted, strict=True) if one != right]
    assert not negative or any(x > 0 for x, _ in negative), "For negative x the gap is wrong. It depends on |x|."
    for (x, name), one, right in zip(cases, found, wanted, strict=True):
        if one == right:
            continue
        power = 2.0 ** round(math.log2(abs(x)))
        told = f"For x = {x:g} in {name}, the gap is {right:g}. Your code gives {one:g}"
        assert abs(x) != power or one != right / 2, f"{told}. Take the gap above a power of two."
        assert name == "float32" or one != distance(x, "float32"), f"{told}, the gap of float32."
        below = 1 - abs(x) / power
        just_below = f"Just below a power of two, in {name}, the gap is wrong. Round neither x nor its exponent."
        assert below <= 0 or below >= 1e-2, just_below
        raise AssertionError(f"{told}.")


def summed(start: torch.Tensor, updates: torch.Tensor, digits: int, mistake: str = "") -> torch.Tensor:
    """The last sum, of numbers that are rounded to so many digits; with a mistake on request."""
    total = rounded(start, 53 if mistake == "start" else digits)
    rows = updates.double() if mistake == "rows" else rounded(updates, digits)
    if mistake == "rows first":
        both = torch.zeros_like(total)
        for row in rows:
            both = rounded(both + row, digits)
        return rounded(total + both, digits)
    for row in rows.flip(0) if mistake == "last first" else rows:
        total = rounded(total + row, 53 if mistake == "once" else digits)
    return rounded(total, digits)


def sums_up(accumulate: Remote, lib: Library, start: torch.Tensor, updates: torch.Tensor) -> None:
    """Fail unless the sums are right in each dtype."""
    for name, digits in DTYPES.items():
        dtype = getattr(torch, name)
        found = accumulate(start, updates, getattr(lib(torch), name))
        expect.tensor(found, tuple(start.shape), f"the sum in {name}")
        assert found.dtype is dtype, f"The sum should be {name}, and it is {str(found.dtype)[6:]}."
        guesses = {
            "The sum is rounded once, at the end. Round it after each row.": "once",
            "The rows are summed first. Add one after another to the start.": "rows first",
            "The rows are not rounded before they are added.": "rows",
            "The start is not rounded before the first row is added.": "start",
            "The rows are added from the last to the first.": "last first",
        }
        wanted = summed(start, updates, digits)
        if torch.equal(found.double(), wanted):
            continue
        for sentence, mistake in guesses.items():
            guess = summed(start, updates, digits, mistake)
            assert not torch.equal(found.double(), guess) or torch.equal(guess, wanted), sentence
        single = rounded(summed(start.float(), updates.float(), 24), digits)
        once = name != "float32" and torch.equal(found.double(), single) and not torch.equal(single, wanted)
        assert not once, "The sum is computed with more digits and rounded once, at the end. Round it after each row."
        assert not torch.equal(found.double(), rounded(start, digits)), "The sum is the start itself: no row is added."
        every = accumulate(start, updates, lib(torch).float64)
        exact = start.double() + updates.double().sum(0)
        told = "Even in float64, the sum is not that of the start and all rows."
        assert expect.near(every, exact, 1e-4, 1e-4), told
        raise AssertionError(f"The sums in {name} are wrong. Start, each row and each sum should be rounded to {name}.")


ACCUMULATE = Contract(
    "accumulate(start, updates, dtype)",
    sizes={"steps": (0, 9, 3000), "n": (1, 7, 600)},
    start="floats (n)",
    updates="floats (steps, n)",
    dtype=lambda toys, seed: toys.dtype_named("float32"),
    toys=toys,
    gives="the sum: float32 (n)",
    right=lambda start, updates, dtype: summed(start.float(), updates.float(), 24),
    low=False,
)


@check("3.14", points=2)
def sixteen_bits(gap, accumulate, lib):
    """Check the gap between neighbours of a dtype, and sums that are rounded after each row."""
    with part("gap", 1):
        is_the_gap(gap, lib, 314)
        with world_kept(lib, "after `gap(1.0, torch.float32)`"):
            gap(1.0, lib(torch).float32)

    with part("accumulate", 1):
        for seed, (steps, n) in enumerate(((30, 4), (1, 5), (3, 3), (200, 1)), 3141):
            sums_up(accumulate, lib, 5 * expect.normal(n, seed=seed), expect.normal(steps, n, seed=seed + 10))
        sums_up(accumulate, lib, torch.tensor([1.0, 0.1, 100.0]), torch.full((40, 3), 1e-3))
        sums_up(accumulate, lib, torch.zeros(2), torch.tensor([[1.0, 1 / 3]]).expand(600, 2).clone())
        start, nothing = expect.normal(4, seed=3160), torch.zeros(0, 4)
        sums_up(accumulate, lib, start, nothing)
        again = lib(probes).again_after_clearing(accumulate, start, nothing, lib(torch).float32)
        assert expect.same(again, start), "Without rows the sum is the given start itself. Make a new tensor."
        ACCUMULATE.hold(accumulate, lib, "sizes", "layout", "memory", "device")
