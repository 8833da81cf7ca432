"""Private checks of notebook 03: sizes drawn for each submission, the edges that the docstrings promise, and typos.

Right counts are sums over the parts that the public checks build; tests/checks/test_forms.py builds models of drawn
sizes with torch, transformers and adapters, and compares.
"""

import contextlib
import inspect
import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import torch

from autograder.author.checks import private, swept, tells
from utils.checks.nb03_parameter_counting import (
    ACCUMULATE,
    BEST_SIZE,
    DTYPES,
    Case,
    compare,
    distance,
    is_the_gap,
    vertex_size,
    whole,
)
from utils.grading import expect
from utils.grading.contract import Contract, Size
from utils.grading.expect import draw
from utils.grading.remote import read

OTHER = "the count is right for some sizes, but wrong for others."


def linear_form(m: int, n: int, bias: bool = True) -> int:
    """A matrix and, if it has one, its bias."""
    return n * (m + (1 if bias else 0))


def norm_form(D: int, kind: str = "layer") -> int:
    """A scale for each column, and a shift unless it is an RMS norm."""
    return D + (D if kind == "layer" else 0)


def embedding_form(V: int, D: int, P: int = 0) -> int:
    """Two tables."""
    return V * D + P * D


def attention_form(D: int, H: int, bias: bool = True) -> int:
    """Q, K, V and the output projection."""
    return sum(linear_form(D, D, bias) for _ in "QKVO")


def feed_forward_form(D: int, F: int, bias: bool = True) -> int:
    """There and back."""
    return linear_form(D, F, bias) + linear_form(F, D, bias)


def grouped_form(D: int, H: int, G: int, bias: bool = False) -> int:
    """A map for the queries, two for G heads of keys and values, one for what is joined."""
    return sum(linear_form(D, heads * (D // H), bias) for heads in (H, G, G, H))


def cache_form(B: int, T: int, D: int, L: int, H: int, G: int, bytes_per_number: int = 2) -> int:
    """A key and a value for each text, token, layer and head, as wide as a head of queries."""
    return math.prod((B, T, L, G, D // H, len(("key", "value")), bytes_per_number))


def layer_form(D: int, F: int) -> int:
    """Attention, feed-forward part, two norms."""
    return attention_form(D, 1) + feed_forward_form(D, F) + 2 * norm_form(D)


def language_model_form(V: int, D: int, L: int, layer: int, tied: bool = False) -> int:
    """A table, the layers, and a head, whose matrix may be the table."""
    return V * D + L * layer + linear_form(D, V) - (V * D if tied else 0)


def classifier_form(V: int, D: int, L: int, layer: int, C: int, head_layers: int = 1) -> int:
    """A table, the layers, and a head of one or more maps."""
    return V * D + L * layer + sum(linear_form(D, D) for _ in range(head_layers - 1)) + linear_form(D, C)


def bert_form(V: int, D: int, L: int, layer: int, P: int = 512, S: int = 2, pooler: bool = True) -> int:
    """Three tables, a norm, the layers, a pooler."""
    return sum(rows * D for rows in (V, P, S)) + norm_form(D) + L * layer + (linear_form(D, D) if pooler else 0)


def adapter_form(D: int, L: int, reduction: int = 16, per_layer: int = 1) -> int:
    """Down and up, in each layer once or more."""
    width = max(D // reduction, 1)
    return L * per_layer * (linear_form(D, width) + linear_form(width, D))


def fusion_form(D: int, L: int, n: int) -> int:
    """Query and key with biases, value without."""
    return L * (linear_form(D, D) + linear_form(D, D) + linear_form(D, D, bias=False))


def memory_form(B: int, T: int, D: int, F: int, L: int, H: int, parameters: int, trained: int) -> int:
    """Four bytes for each weight, gradient, state of Adam, and input of a product in the layers."""
    per_token = [D] * 6 + [F] + [T] * H
    return 4 * (parameters + trained + 2 * trained + B * T * L * sum(per_token))


def flops_form(T: int, D: int, F: int, L: int, V: int) -> int:
    """Two for each multiply-add of Q, K, V and O, of keys and values, of the feed-forward part and of the head."""
    layer = 4 * D * D + T * D + T * D + D * F + F * D
    return 2 * (L * layer + D * V)


def training_form(N: int, V: int, D: int, L: int, T: int, tied: bool = False) -> int:
    """Six for each number in a product, and for each of T keys and T values in each layer as many as they are wide."""
    return 6 * (N if tied else N - V * D) + 6 * L * (T * D + T * D)


def even_form(D: int, F: int) -> int:
    """The numbers in a layer's matrices, over those that one further token brings to each query."""
    return (4 * D * D + D * F + F * D) // (D + D)


def count(call: str, right: Callable[..., int], sizes: dict[str, Size], **arguments: str) -> Contract:
    """The contract of a function that gives a count."""
    return Contract(call, sizes=sizes, gives="the count: whole", right=right, **arguments)


# Ranges of sizes, of numbers of layers, and of what is or is not. Large ones together give counts beyond 32 bits; an
# answer may still loop over any of them.
# The large sizes are odd: a product of even ones may well be exact in float32.
ANY, LAYERS, FLAG = (1, 60, 50_001), (0, 12, 299), (0, 1)
BIAS = {"bias": "= _bias == 1"}
BASE: dict[str, Size] = {"V": (1, 99, 59_999), "D": ANY, "L": LAYERS, "layer": (1, 999, 99_999_989)}
HEADS: dict[str, Size] = {"_w": (1, 30, 20_001), "_group": (1, 6, 41), "_g": (1, 6, 41)}
SHARED = {"G": "= _g", "H": "= _g * _group", "D": "= _g * _group * _w"}

tables = swept("3.1", count("embedding(V, D, P)", embedding_form, {"V": ANY, "D": ANY, "P": (0, 60, 50_001)}))
maps = swept("3.1", count("linear(m, n, bias)", linear_form, {"m": ANY, "n": ANY, "_bias": FLAG}, **BIAS))
norms = swept("3.1", count("norm(D, kind)", norm_form, {"D": ANY, "_rms": FLAG}, kind="= ('layer', 'rms')[_rms]"))
attentions = swept(
    "3.2",
    count(
        "attention(D, H, bias)",
        attention_form,
        {"H": (1, 16, 199), "_w": (1, 30, 20_001), "_bias": FLAG},
        D="= H * _w",
        **BIAS,
    ),
)
layers = swept("3.2", count("transformer_layer(D, F)", layer_form, {"D": ANY, "F": ANY}))
groups = swept(
    "3.3", count("grouped_attention(D, H, G, bias)", grouped_form, HEADS | {"_bias": FLAG}, **SHARED, **BIAS)
)
caches = swept(
    "3.3",
    count(
        "kv_cache(B, T, D, L, H, G, bytes_per_number)",
        cache_form,
        HEADS | {"B": (1, 40, 899), "T": ANY, "L": (1, 90, 299), "bytes_per_number": (1, 9)},
        **SHARED,
    ),
)
language_models = swept(
    "3.4",
    count(
        "language_model(V, D, L, layer, is_tied)", language_model_form, BASE | {"_tied": FLAG}, is_tied="= _tied == 1"
    ),
)
classifiers = swept(
    "3.5",
    count(
        "classifier(V, D, L, layer, C, head_layers)",
        classifier_form,
        BASE | {"C": (1, 60, 899), "head_layers": (1, 9, 89)},
    ),
)
berts = swept(
    "3.6",
    count(
        "bert(V, D, L, layer, P, S, pooler)",
        bert_form,
        BASE | {"P": (1, 600, 4_999), "S": (1, 9, 89), "_pooler": FLAG},
        pooler="= _pooler == 1",
    ),
)
adapters = swept(
    "3.8",
    count(
        "adapter(D, L, reduction, per_layer)",
        adapter_form,
        {"D": ANY, "L": LAYERS, "reduction": (1, 70, 4_999), "per_layer": (1, 4, 29)},
    ),
)
fusions = swept("3.9", count("fusion(D, L, n)", fusion_form, {"D": ANY, "L": LAYERS, "n": (1, 12, 299)}))
memories = swept(
    "3.10",
    count(
        "training_memory(B, T, D, F, L, H, parameters, trained)",
        memory_form,
        {
            "B": (1, 9, 299),
            "T": (0, 90, 50_001),
            "_w": (1, 70, 50_001),
            "F": ANY,
            "L": (0, 9, 89),
            "H": (1, 9, 89),
            "trained": (0, 999, 999_983),
            "_frozen": (0, 999, 999_983),
        },
        D="= _w * H",
        parameters="= trained + _frozen",
    ),
    "training_memory",
)
flops = swept(
    "3.10",
    count(
        "flops_per_token(T, D, F, L, V)",
        flops_form,
        {"T": ANY, "D": ANY, "F": ANY, "L": (0, 9, 89), "V": (2, 99, 59_999)},
    ),
    "flops_per_token",
)
runs = swept(
    "3.11",
    count(
        "training_flops(N, V, D, L, T, is_tied)",
        training_form,
        {"V": ANY, "D": ANY, "L": LAYERS, "T": ANY, "_layer": (1, 999, 999_983), "_tied": FLAG},
        N="= (2 - _tied) * V * D + L * _layer",
        is_tied="= _tied == 1",
    ),
)
# Not as large as other sizes: an answer may search for T.
lengths = swept(
    "3.11",
    Contract(
        "even_length(D, F)",
        sizes={"D": (1, 60, 4_999), "F": (1, 60, 4_999)},
        gives="the count: whole",
        right=even_form,
        special={"an odd `F`": lambda F: F % 2 == 1},
    ),
)


def cases(form: Callable[..., int], rows: Sequence[Sequence[Any]]) -> list[Case]:
    """The arguments by name, which are those of `form`, and the right answers."""
    given = [dict(zip(inspect.signature(form).parameters, row, strict=False)) for row in rows]
    return [(sizes, form(**sizes)) for sizes in given]


# Of today's models, larger than any in the notebook: more than 32 bits hold, and no numbers that float32 has.
LARGE_LAYER = (57_345 * 64, 64, 8)


def size(pick: Random) -> int:
    """A size, small or large, that the public check does not use."""
    while True:
        found = pick.choice((pick.randint(2, 60), pick.randint(61, 3_000)))
        if found not in (6, 7, 8, 9, 10, 11, 12, 13, 14, 17, 23, 30, 35, 40, 50, 64, 96, 100, 200, 768, 1_024):
            return found


@private("3.1", tells="the count of a norm is wrong for other widths.")
def other_norms(norm):
    pick = draw(1)
    compare(norm, cases(norm_form, [(size(pick),), (1,)]), {}, OTHER)
    with tells("`norm` should raise ValueError for an empty kind."):
        expect.refuses(norm, size(pick), "", says="an empty kind is accepted.")
    typos = ("Layer", "LAYER", "layernorm", "layers", "rmsnorm", "RMS", "rm", "batch", "group", "norm", " layer")
    with tells("`norm` accepts a kind that only looks like one of the two. Any other name should raise ValueError."):
        for kind in typos:
            expect.refuses(norm, size(pick), kind, says=f"{kind!r} is accepted.")


def shared(pick: Random) -> tuple[int, int, int]:
    """D, H and G: a width of two columns a head and more, and fewer heads of keys than of queries."""
    G, group = pick.randint(1, 6), pick.choice((2, 3, 5))
    return G * group * pick.randint(2, 40), G * group, G


@private(
    "3.3",
    tells="grouped attention is right for some sizes, but wrong for others.",
)
def other_groups(grouped_attention):
    pick = draw(1)
    for bias in ((), (False,), (True,)):
        H, wide = pick.randint(2, 9), pick.randint(20, 400)
        edges = [(H * size(pick), H, H, *bias), (wide * H, H, 1, *bias), (H, H, 1, *bias), (1, 1, 1, *bias)]
        rows = [(*shared(pick), *bias) for _ in range(3)]
        compare(grouped_attention, cases(grouped_form, [*rows, *edges, (*LARGE_LAYER, *bias)]), {}, OTHER)
    for _ in range(3):
        G = pick.randint(2, 7)
        H = G * pick.randint(0, 3) + pick.randint(1, G - 1)
        D = H * G * pick.randint(1, 9)
        with tells("`grouped_attention` should raise ValueError wherever H is not a multiple of G."):
            expect.refuses(grouped_attention, D, H, G, says=f"{H} heads, {G} groups")
            expect.refuses(grouped_attention, D, H, G, True, says=f"{H} heads, {G} groups")


def parts(pick: Random) -> dict[str, list[int]]:
    """Names and shapes of a model that nobody has: layers numbered past 10, names that begin or end like others."""
    words = pick.sample(("encoder", "decoder", "body", "trunk", "tower", "stack"), 2)
    shapes = {"embeddings.word.weight": [pick.randint(5, 90), pick.randint(2, 9)], "scale": []}
    for word, layers in zip(words, (pick.randint(12, 15), pick.randint(2, 4)), strict=True):
        for number in range(layers):
            for name in pick.sample(("query", "key", "inner", "norm", "conv"), 2):
                sides = {"norm": 1, "conv": pick.randint(3, 4)}.get(name, 2)
                shape = [pick.randint(2, 9) for _ in range(sides)]
                shapes |= {
                    f"{word}.layer.{number}.{name}.weight": shape,
                    f"{word}.layer.{number}.{name}.bias": shape[:1],
                }
    shapes |= {f"old.{words[0]}.weight": [pick.randint(2, 9), 3], f"{words[0]}2.weight": [pick.randint(2, 9)]}
    return dict(pick.sample(list(shapes.items()), len(shapes)))


def left(shapes: dict[str, list[int]], frozen: Sequence[str]) -> int:
    """How many numbers lie in no frozen part, whose name is that of the parameter or its first pieces."""
    pieces = [part.split(".") for part in frozen]
    return sum(
        math.prod(shape)
        for name, shape in shapes.items()
        if not any(name.split(".")[: len(part)] == part for part in pieces)
    )


freezing = swept(
    "3.7",
    Contract(
        "trainable(shapes, names)",
        sizes={"_frozen": (0, 9)},
        shapes=lambda toys, seed: parts(draw(seed)),
        names=lambda toys, seed, _frozen: draw(seed + 500).sample([*parts(draw(seed))], _frozen),
        gives="the count: whole",
        right=left,
    ),
)
sizes_of_bert_large = swept(
    "3.6",
    Contract(
        "bert_large()",
        sizes={},
        gives="the sizes: dict",
        fits=lambda found: "" if {*"DFL"} <= {*found} else "a key is missing.",
    ),
)


@private(
    "3.7",
    tells="`trainable` is wrong for other models, or for other lists of frozen parts.",
)
def other_freezing(trainable):
    pick = draw(1)
    shapes = parts(pick)
    word = next(name for name in shapes if ".layer.11." in name).partition(".")[0]
    names = list(shapes)
    some = pick.sample(names, 3)
    lists = (
        [f"{word}.layer.1", "embeddings", f"{word}.layer.11"],
        [f"{word}.layer.2"],
        [word, "scale", *some],
        [f"{word}.layer", f"{word}.layer.{pick.randint(3, 9)}", word],
        ["scale", "scale"],
        some,
        names,
        [],
    )
    for frozen in lists:
        got = whole(trainable(shapes, frozen), "the count")
        assert got == left(shapes, frozen), f"wrong with {frozen}"
    large = {"embeddings.word": [200_003, 12_289], "head.weight": [12_289, 200_003], "head.bias": [200_003]}
    none = {"table.weight": (5, 0), "table.bias": (), "rest": (0,)}
    numbered = {"block2.weight": (2, 3), "block.weight": (5, 7), "block21.weight": (11,)}
    for told, given, frozen in (
        ("where shapes are tuples", {"table": (3, 4), "bias": (5,)}, ["bias"]),
        ("for a model of more than two billion parameters", large, []),
        ("for a model of more than two billion parameters", large, ["head"]),
        ("where a size is 0, so that a parameter holds no number", none, []),
        ("where a frozen parameter holds no number", none, ["rest"]),
        ("where a part's name ends in a digit", numbered, ["block2"]),
        ("where one part's name begins another's", numbered, ["block"]),
    ):
        with tells(f"`trainable` is wrong {told}."):
            got = expect.answers(trainable, given, frozen, says="an error.", kinds=("ValueError",))
            assert whole(got, "the count") == left(given, frozen), f"wrong with {frozen}"
    known = some[0]
    typos = (word[:3], f"{word}.layer.99", "query", f"{word}.", "weight", "", "scale.weight", known[:-1], f"{known}.x")
    typos += (word.upper(), f"{word}.layer.*", f"{word[:-1]}?")
    with tells("`trainable` accepts a name in `frozen` that is only the end or the middle of parameters' names."):
        for typo in ("query", "weight"):
            expect.refuses(trainable, shapes, [typo], says=f"{typo!r} is accepted.")
    with tells(
        "a name in `frozen` that fits no parameter, such as a pattern or `part.`, should raise ValueError, wherever it "
        "is in the list."
    ):
        for typo in typos:
            expect.refuses(trainable, shapes, [typo], says=f"{typo!r} is accepted.")
            expect.refuses(trainable, shapes, [typo, word], says=f"{typo!r} comes first.")


@private(
    "3.8",
    tells="`adapter` is wrong for other widths, or other numbers of layers.",
)
def other_adapters(adapter):
    pick = draw(1)

    def row(D: int, *reduction: int) -> tuple[int, ...]:
        return D, pick.randint(1, 40), *reduction

    rows = [row(size(pick)), row(pick.randint(2, 15)), row(16 * pick.randint(5, 60) + pick.randint(1, 15))]
    compare(adapter, cases(adapter_form, rows), {}, OTHER)
    D = pick.randint(15, 29)
    near = [row(D, reduction) for reduction in (D - 1, D, D + 1, D + pick.randint(2, 40), 1)]
    far = [row(size(pick), pick.randint(2, 15)), row(pick.randint(300, 900), pick.randint(17, 70))]
    with tells("`adapter` is wrong for some reductions, such as those near the width or above it."):
        compare(adapter, cases(adapter_form, [*near, *far]), {}, OTHER)
    exact = [(k * r, r) for r in range(2, 99) for k in range(1, 30) if int(k * r * (1 / r)) < k]  # as 98 and 49
    with tells("`adapter` is wrong for some reductions that divide the width. Divide whole numbers, with //."):
        compare(adapter, cases(adapter_form, [row(*sizes) for sizes in pick.sample(exact, 5)]), {}, OTHER)
    twice = [(*row(size(pick), pick.randint(2, 70)), per_layer) for per_layer in (2, 3, 1)]
    with tells("`adapter` is wrong for several adapters in each layer."):
        compare(adapter, cases(adapter_form, twice), {}, OTHER)


@private("3.11", tells="`even_length` is right for some sizes, but wrong for others.")
def other_lengths(even_length):
    pick = draw(2)
    sizes = [(pick.randint(1, top), pick.randint(1, top)) for top in (99, 400) for _ in range(60)]
    cut = [
        (D, F)
        for D in range(40, 400, 7)
        for F in range(1, 60)
        if int((4 * D * D + 2 * D * F) * (1 / (2 * D))) < 2 * D + F
    ]
    given = cases(even_form, [*sizes, *pick.sample(cut, 5)])
    missing = {right - whole(even_length(*of.values()), "the length") for of, right in given}
    with tells(
        "`even_length` is too small by one for some sizes. `int` cuts a float that is just below a whole number: "
        "compute with whole numbers alone."
    ):
        assert missing != {0, 1}, "too small by one"
    compare(even_length, given, {}, OTHER)


best_sizes = swept("3.13", BEST_SIZE)


@private(
    "3.13",
    tells="`best_size` is wrong for some other runs, such as those of small or of very large models.",
)
def other_budgets(best_size):
    pick = draw(1)
    for smallest, beyond in ((10**3, 0.5), (10**9, 0.5), (10**6, -1.5), (10**6, 2.5)):
        N = [round(smallest * pick.uniform(1, 9) * 2.3**step) for step in range(pick.randint(4, 9))]
        N += pick.choices(N, k=pick.randint(0, 5))
        low, high = math.log(min(N)), math.log(max(N))
        best, a = low + beyond * (high - low), pick.uniform(0.02, 0.09)
        losses = [2 + a * (math.log(size) - best) ** 2 + pick.uniform(-1e-3, 1e-3) for size in N]
        runs = pick.sample([*zip(N, losses, strict=True)], len(N))
        N, losses = [size for size, _ in runs], [loss for _, loss in runs]
        outside = "`best_size` is wrong where the vertex is outside the sizes of the runs."
        with tells(outside) if not 0 <= beyond <= 1 else contextlib.nullcontext():
            expect.number_like(best_size(N, losses), vertex_size(N, losses), "the best size", "wrong", tolerance=2e-3)
    wide = [round(10**5 * pick.uniform(1, 2) * 2.3**step) for step in range(8)]
    a = pick.uniform(2e-4, 5e-4)
    shallow = [2 + a * (math.log(size) - math.log(wide[4])) ** 2 for size in wide]
    with tells("`best_size` is wrong for a parabola that is nearly flat. It opens upward if its a is above 0."):
        found = expect.answers(best_size, wide, shallow, says="nearly flat.", kinds=("ValueError",))
        expect.number_like(found, vertex_size(wide, shallow), "the best size", "wrong", tolerance=1e-2)
    two = [N[0], N[1]] * 4 if N[0] != N[1] else [N[0], 2 * N[0]] * 4
    for sizes in (two, N[:1] * 5):
        drawn = [2 + size / max(sizes) + pick.uniform(0, 0.1) for size in sizes]
        with tells("`best_size` should raise ValueError for many runs of fewer than three different sizes."):
            expect.refuses(best_size, sizes, drawn, says=f"{len({*sizes})} different sizes are accepted.")
    with tells("`best_size` should raise ValueError for other parabolas that open downward."):
        expect.refuses(best_size, N, [5 - loss for loss in losses], says="a parabola that opens downward is accepted.")


# 3.14

sums = swept("3.14", ACCUMULATE, "accumulate", without=("sizes", "layout", "device"))


@private("3.14", tells="the gap is wrong for some other numbers. It depends on |x| and on the dtype alone.", part="gap")
def other_gaps(gap, lib):
    with tells(
        "for negative powers of two the gap is half as large as it should be. It is the distance from |x| to the next "
        "larger number."
    ):
        for name in DTYPES:
            found = [gap(-(2.0**power), read(getattr(lib(torch), name))) for power in (-5, 0, 6)]
            assert found != [distance(2.0**power, name) / 2 for power in (-5, 0, 6)], f"half of it in {name}"
    is_the_gap(gap, lib, 3170, sign=-1)
