"""Checks of notebook 12: narrow tables, shared layers, counts, masks, rewinding, soft labels, time and dominance."""

import contextlib
import copy
import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from utils.checks import nb12_toys as toys
from utils.experiments import smaller
from utils.grading import expect
from utils.grading.check import check, stretch
from utils.grading.contract import Contract, world_kept
from utils.grading.expect import normal
from utils.grading.forbidden import MODELS
from utils.grading.remote import Library, Remote, kind, read
from utils.grading.results_check import results_check

State = dict[str, torch.Tensor]

# 12.1


def embedded(state: State, ids: torch.Tensor, bias: bool = True) -> torch.Tensor:
    """The widened rows of the tokens, (B, T, d), one by one."""
    W, b = state["up.weight"], state["up.bias"]
    rows = [W @ state["table.weight"][int(token)] + (b if bias else 0) for token in ids.flatten()]
    return torch.stack(rows).view(*ids.shape, len(W))


def scored(state: State, hidden: torch.Tensor, bias: bool = False) -> torch.Tensor:
    """The product of each hidden state with the widened row of each token, (B, T, V)."""
    every = embedded(state, torch.arange(len(state["table.weight"]))[None], bias)[0].to(hidden.dtype)
    return torch.einsum("btd,vd->btv", hidden, every)


def narrow(model: Remote, state: State, ids: torch.Tensor, hidden: torch.Tensor) -> None:
    """Fail unless what is looked up, and the scores, are those of these weights."""
    (V, E), d = state["table.weight"].shape, len(state["up.weight"])
    found = expect.floats(model(ids), (*ids.shape, d), "the embedding")
    plain = state["table.weight"][ids]
    guesses: dict[str, expect.Guess] = {
        "the bias of `up` is missing.": lambda: embedded(state, ids, bias=False),
        "the rows are multiplied by the root of d_model, as in notebook 01. Here they should not be.": lambda: embedded(
            state | {"table.weight": state["table.weight"] * d**0.5}, ids
        ),
        "the rows are multiplied by the root of d_embed. They should stay as they are.": lambda: embedded(
            state | {"table.weight": state["table.weight"] * E**0.5}, ids
        ),
    }
    for name, act in (("ReLU", torch.relu), ("GELU", nn.functional.gelu), ("tanh", torch.tanh)):
        inside = partial(embedded, state | {"table.weight": act(state["table.weight"])}, ids)
        guesses[f"there is a {name} between table and map. There should be no activation."] = inside
        guesses[(f"there is a {name} after the map. There should be no activation.")] = lambda act=act: act(
            embedded(state, ids)
        )
    assert plain.size(-1) == E
    expect.like(
        found,
        embedded(state, ids),
        ("the embedding of a token should be `up`, applied to its row of `table`."),
        guesses,
    )
    scores = expect.floats(model.scores(hidden), (*hidden.shape[:-1], V), "the scores")
    wanted = scored(state, hidden)
    guesses = {
        ("the bias of `up` is added in the scores. Leave it out: it changes the scores of all tokens alike."): lambda: (
            scored(state, hidden, bias=True)
        ),
        "the scores are probabilities. Return the products before any softmax.": lambda: wanted.softmax(-1),
        ("the scores are log-probabilities. Return the products before any softmax."): lambda: wanted.log_softmax(-1),
        "the scores are divided by the root of d_model. They should not be.": wanted / d**0.5,
        "the scores are divided by the root of d_embed. They should not be.": wanted / E**0.5,
    }
    if d == E:
        guesses["the weight of `up` is used the wrong way round in the scores: its rows and columns are exchanged."] = (
            hidden @ state["up.weight"].T @ state["table.weight"].T
        )
        guesses["`up` is not used in the scores."] = hidden @ state["table.weight"].T
    expect.like(
        scores,
        wanted,
        ("a score should be the product of the hidden state and the token's row of `table`, widened by `up`."),
        guesses,
    )


EMBEDDED = Contract(
    "FactorizedEmbedding(V, E, d)(ids)",
    sizes={"V": (1, 9, 4200), "E": (1, 9), "d": (1, 9, 1100), "B": (1, 4), "T": (0, 7, 2100)},
    ids="ids (B, T) below V",
    gives="the embedding: float (B, T, d)",
    weights=lambda V, E, d: {"table.weight": (V, E), "up.weight": (d, E), "up.bias": (d,)},
    right=lambda state, V, E, d, ids: state["table.weight"][ids] @ state["up.weight"].T + state["up.bias"],
)
SCORED = Contract(
    "FactorizedEmbedding(V, E, d).scores(hidden)",
    sizes={"V": (1, 9, 4200), "E": (1, 9), "d": (1, 9, 1100), "B": (1, 4), "T": (1, 7, 2100)},
    hidden="floats (B, T, d)",
    gives="the scores: as hidden (B, T, V)",
    weights=lambda V, E, d: {"table.weight": (V, E), "up.weight": (d, E), "up.bias": (d,)},
    right=lambda state, V, E, d, hidden: (hidden @ state["up.weight"]) @ state["table.weight"].T,
    learns="hidden",
)


@check("12.1", points=2, forbids=MODELS)
def factorized_embedding(FactorizedEmbedding, lib):
    """Check the lookup and the linear map, and scores with the same two matrices, which learn from both ends."""
    for V, E, d, B, T in ((11, 3, 7, 2, 5), (7, 4, 4, 1, 1), (5, 6, 3, 3, 2)):
        name = f"FactorizedEmbedding({V}, {E}, {d})"
        model = FactorizedEmbedding(V, E, d)
        shapes = {"table.weight": (V, E), "up.weight": (d, E), "up.bias": (d,)}
        state = expect.weights(model, shapes, f"`{name}`", 121)
        ids = torch.randint(V, (B, T), generator=expect.generator(V))
        hidden = normal(B, T, d, seed=122)
        for _ in range(2):
            narrow(model, state, ids, hidden)
            model.eval()
    large = {**state, "table.weight": 50 * state["table.weight"]}
    model.load_state_dict(large)
    found = model(ids)
    told = "a lookup changes long rows of the table, as `max_norm` does. They should stay as they are."
    assert expect.agree(model.state_dict(), large), told
    told = "when the weights change, the {} in evaluation mode {} not follow: something of an earlier call is kept."
    for value, before, now, what, do in (
        (found, embedded(state, ids), embedded(large, ids), "embedding", "does"),
        (model.scores(hidden), scored(state, hidden), scored(large, hidden), "scores", "do"),
    ):
        otherwise = f"where the numbers of the table are large, the {what} {'is' if do == 'does' else 'are'} wrong."
        expect.like(value, now, otherwise, {told.format(what, do): before}, once=True)
    SCORED.hold(FactorizedEmbedding, lib, "dtypes", "layout", "gradients", "modes", "device")
    EMBEDDED.hold(FactorizedEmbedding, lib, "parts", "gradients", "device")


# 12.2


def layer_of(parts: Any, d: int) -> Any:
    """A layer (B, T, d) -> (B, T, d) that is not linear, and whose passes end nowhere."""
    return parts.Sequential(parts.Linear(d, d + 1), parts.GELU(), parts.Linear(d + 1, d))


def repeated(layer: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, count: int) -> torch.Tensor:
    """So many passes."""
    for _ in range(count):
        x = layer(x)
    return x


def slopes_of_last(layer: nn.Module, x: torch.Tensor, count: int) -> dict[str, torch.Tensor]:
    """The gradients of a layer's weights by the last of so many passes alone; zeros without a pass."""
    slopes = {name: torch.zeros_like(part) for name, part in layer.named_parameters()}
    if count:
        with torch.no_grad():
            x = repeated(layer, x, count - 1)
        with torch.enable_grad():
            layer.zero_grad()
            toys.backward(layer(x))
        slopes = {name: part.grad.clone() for name, part in layer.named_parameters() if part.grad is not None}
    return slopes


def went_through(SharedEncoder: Remote, lib: Library, d: int, count: int, x: torch.Tensor, seed: int) -> Remote:
    """An encoder that shares; fail unless output and gradients are those of so many passes through one layer."""
    layer, ours = expect.twins(lib, lambda parts: layer_of(parts, d), seed)
    encoder = SharedEncoder(layer, count)
    found = expect.floats(encoder(x), tuple(x.shape), "the output")
    guesses: dict[str, expect.Guess] = {
        f"the layer is applied {times}.": partial(repeated, ours, x, n)
        for times, n in (("one time too many", count + 1), ("one time too few", count - 1), ("only once", 1))
        if n >= 0
    }
    guesses[("the input of each pass is added to its output. Apply the layer alone: its residuals are inside it.")] = (
        partial(repeated, lambda y: y + ours(y), x, count)
    )
    expect.like(found, repeated(ours, x, count), f"the output is not that of n_layers = {count} passes.", guesses)
    state = expect.state(encoder, "`SharedEncoder(layer, n)`")
    wanted = [f"layer.{name}" for name in ours.state_dict()]
    extra = next((name for name in state if name not in wanted), "")
    told = f"the state dict has `{extra}`. It should have only the weights of one layer, once each, under `layer`."
    assert len(state) <= len(wanted), told
    assert state, "the layer is not registered: `state_dict()` is empty. Keep the layer as the attribute `layer`."
    assert [*sorted(state)] == sorted(wanted), "the layer should be kept as `layer`, and nothing else."
    told = "a later call gives another output for the same x. The output should not depend on earlier calls."
    for _ in range(4):
        expect.close(expect.floats(encoder(x), tuple(x.shape), "the output"), repeated(ours, x, count), told)
    with torch.no_grad():
        ours[0].bias.add_(1)
    layer.load_state_dict(ours.state_dict())
    told = "when the given layer changes, the output does not follow. Keep the layer itself, and no earlier results."
    expect.close(expect.floats(encoder(x), tuple(x.shape), "the output"), repeated(ours, x, count), told)
    slopes, parts = lib(toys).parameter_gradients(encoder, x), dict(ours.named_parameters())
    ours.zero_grad()
    with torch.enable_grad():
        toys.backward(repeated(ours, x, count))
    wanted_slopes = {name: torch.zeros_like(one) if one.grad is None else one.grad for name, one in parts.items()}
    last = slopes_of_last(ours, x, count)
    for name, wanted_slope in wanted_slopes.items():
        told = f"the gradient of `layer.{name}` is not the sum over all passes: it should flow back through every pass."
        whence = (
            f"the gradient of `layer.{name}` comes from the last pass alone. It should flow back through every pass."
        )
        expect.like(slopes[f"layer.{name}"], wanted_slope, told, {whence: last[name]}, 1e-3, once=True)
    return encoder


SHARED = Contract(
    "SharedEncoder(layer, n_layers)(x)",
    sizes={"n_layers": (0, 6, 40), "B": (1, 4), "T": (1, 7, 2100)},
    layer=lambda toys, seed: toys.Turn(4),
    toys=toys,
    x="floats (B, T, 4)",
    gives="the output: as x (B, T, 4)",
    weights=lambda layer, n: {"layer.map.weight": (4, 4), "layer.map.bias": (4,)},
    right=lambda state, layer, n, x: repeated(
        lambda y: (y @ state["layer.map.weight"].T + state["layer.map.bias"]).tanh(), x, n
    ),
    learns="x",
    shares=True,
    low=False,
)


@check("12.2", points=2, forbids=MODELS)
def shared_encoder(SharedEncoder, lib):
    """Check for so many passes through the one layer that was given, whose gradient is the sum over them."""
    for d, count, B, T in ((3, 4, 2, 5), (4, 1, 1, 1), (5, 0, 2, 3), (2, 3, 3, 3)):
        x = normal(B, T, d, seed=123)
        encoder = went_through(SharedEncoder, lib, d, count, x, 124)
    layer = lib(nn).Linear(2, 2)
    layer.load_state_dict({"weight": (1 + 5e-6) * torch.eye(2), "bias": torch.zeros(2)})
    told = "with 300 passes that change x by little, the output is not that of 300 passes. Leave no pass out."
    expect.close(SharedEncoder(layer, 300)(torch.ones(1, 1, 2)), (1 + 5e-6) ** 300 * torch.ones(1, 1, 2), told, 2e-4)
    SHARED.hold(SharedEncoder, lib, "dtypes", "layout", "gradients", "modes", "device")
    layer = lib(nn).Dropout(0.5)
    encoder = SharedEncoder(layer, 3)
    x = torch.ones(4, 50, 5)
    found = expect.floats(encoder(x), (4, 50, 5), "the output")
    kept = float((found != 0).float().mean())
    assert kept < 1, "in training mode, the dropout of the layer is off. Call the layer in the mode in which it is."
    told = "in training mode, dropout is not drawn again in each pass. Call the layer as it is, n_layers times."
    assert kept <= 0.4 or kept >= 0.6, told
    told = "in training mode, dropout does not drop as much as in n_layers passes."
    assert abs(kept - 0.125) < 0.08, told
    encoder.eval()
    told = "after `encoder.eval()`, the layer that was given is in training mode. Keep the layer itself, as `layer`."
    assert read(layer.training) is False, told
    assert torch.equal(encoder(x), x), "in evaluation mode, the output is not that of the layer in evaluation mode."


# 12.3

Sizes = Mapping[str, Any]


def counts_of(
    V: int, H: int, F: int, L: int, E: int | None = None, shared: bool = False, P: int = 512, T: int = 128
) -> tuple[dict[str, int], dict[str, int]]:
    """Parameters, part by part, and multiply-adds, product by product; by name."""
    width, layers = E or H, 1 if shared else L
    stored = {"tokens": V * width, "positions": P * width, "segments": 2 * width, "table norm": 2 * width}
    stored |= {"map": width * H, "map bias": H} if E else {"map": 0, "map bias": 0}
    stored |= {"attention": layers * 4 * H * H, "attention biases": layers * 4 * H, "feed": layers * 2 * H * F}
    stored |= {"feed biases": layers * (H + F), "norms": layers * 4 * H, "pooler": H * H, "pooler bias": H}
    done = {"map": width * H if E else 0, "attention": L * 4 * H * H, "feed": L * 2 * H * F, "products": L * 2 * T * H}
    return stored, done


def sized(encoder_size: Remote, size: Sizes) -> None:
    """Fail unless both numbers are right for an encoder of this size."""
    value = expect.items(encoder_size(**size), 2, "`encoder_size` should return two numbers")
    for one in value:
        told = "a count is a float. It should be a whole number: large floats lose digits."
        assert type(one) is not float and not (type(one) is torch.Tensor and one.is_floating_point()), told
        number = expect.number(one, "a count")
        assert number == int(number), "a count is not a whole number."
    where = f"for `{', '.join(f'{name}={one}' for name, one in size.items())}`"
    stored, done = counts_of(**size)
    parameters, products = sum(stored.values()), sum(done.values())
    H, F, L = (int(size[name]) for name in "HFL")
    E: int | None = size.get("E")
    names = {
        "positions": "the positions are missing.",
        "segments": "the two segments or the layer norm of the tables are missing: each has 2 numbers per column.",
        "map": "the map from E to H is missing.",
        "map bias": "the bias of the map from E to H is missing.",
        "attention biases": "the biases of attention or the norms of the layers are missing: both have 4 H a layer.",
        "feed biases": "the biases of the feed-forward part are missing.",
        "pooler": "the pooler's matrix is missing.",
        "pooler bias": "the pooler's bias is missing.",
    }
    guesses: dict[str, float] = {sentence: parameters - stored[name] for name, sentence in names.items()}
    guesses["the map from E to H is missing, and its bias."] = parameters - stored["map"] - stored["map bias"]
    guesses["the pooler is missing."] = parameters - stored["pooler"] - stored["pooler bias"]
    for other in (True, False):
        told = "are counted L times though they are shared." if not other else "are counted once though none is shared."
        guesses[f"the layers {told}"] = sum(counts_of(**{**size, "shared": other})[0].values())
    if E:
        P = size.get("P", 512)
        told = "the position table is as wide as the layers. All tables should be E wide."
        guesses[told] = parameters + (H - E) * P
        guesses[("positions and segments are as wide as the layers. All tables should be E wide.")] = parameters + (
            H - E
        ) * (P + 2)
        guesses[("all but the token table is H wide. Tables and their norm should be E wide.")] = parameters + (
            H - E
        ) * (P + 4)
        guesses["the norm of the tables is as wide as the layers. It comes before the map, so it should be E wide."] = (
            parameters + 2 * (H - E)
        )
        wide = {**size, "E": None}
        guesses["the tables are H wide though E is given. They should be E wide."] = sum(counts_of(**wide)[0].values())
    told = "a map from H to H is counted where E is None. There should be no map."
    guesses[told] = parameters + (0 if E else H * H + H)
    told = "the table of positions has 512 rows, whatever P is."
    guesses[told] = sum(counts_of(**{**size, "P": 512})[0].values())
    guesses = {f"in the number of parameters, {sentence}": guess for sentence, guess in guesses.items()}
    wraps = "the {} are right only below 2^31: an int32 holds no larger number."
    guesses[wraps.format("parameters")] = float(in_32_bits(parameters))
    expect.number_like(
        value[0], parameters, "the parameters", f"{where} the number of parameters is not right.", guesses, 1e-12
    )
    one_layer = done["map"] + (products - done["map"]) / (L or 1)
    more = {
        "a map from H to H is counted in the multiply-adds where E is None. There should be no map.": (
            products + (0 if E else H * H)
        ),
        wraps.format("multiply-adds"): in_32_bits(products),
        "sharing lowers the multiply-adds. It should not: every pass is computed.": (
            one_layer if size.get("shared") else products
        ),
        "the multiply-adds are those of one layer. Count all L passes.": one_layer,
        "the map from E to H is missing in the multiply-adds.": products - done["map"],
        "the products of scores and values are missing in the multiply-adds.": products - done["products"],
        "scores or values are missing in the multiply-adds: each takes T products, H wide.": products
        - done["products"] / 2,
        "the multiply-adds are those of all T tokens. They should be those of one.": products * size.get("T", 128),
        "scores and values take P products each in the multiply-adds. A text has T tokens: they take T.": sum(
            counts_of(**{**size, "T": size.get("P", 512)})[1].values()
        ),
        "a multiply-add is counted as two operations. It should count as one.": 2 * products,
        "the pooler is counted in the multiply-adds. It should not be.": products + H * H,
        "the lookup of the token is counted as multiply-adds. It multiplies nothing.": products + stored["tokens"],
        "the number of parameters is returned in place of the multiply-adds.": parameters,
        "biases are counted as multiply-adds. They should not be.": products + L * (5 * H + F),
        ("biases are counted as multiply-adds, including the bias of the map. They should not be."): products
        + L * (5 * H + F)
        + (H if E else 0),
    }
    expect.number_like(
        value[1], products, "the multiply-adds", f"{where} the number of multiply-adds is not right.", more, 1e-12
    )
    for one, wanted, what in zip(value, (parameters, products), ("parameters", "multiply-adds"), strict=True):
        told = f"of {wanted} {what}, the last digits are wrong. This happens if a float comes in between."
        assert int(one) == wanted or not math.isclose(int(one), wanted, rel_tol=1e-12), told


def in_32_bits(number: int) -> int:
    """What an int32 makes of a whole number."""
    return (number + 2**31) % 2**32 - 2**31


@check("12.3", points=3, forbids=MODELS)
def encoder_size(encoder_size):
    """Check counts of BERT and ALBERT, with and without a map, shared or not, for texts of different lengths."""
    base: dict[str, Any] = {"V": 101, "H": 12, "F": 40, "L": 5, "P": 33, "T": 7}
    sizes = [base, base | {"E": 4}, base | {"E": 4, "shared": True}, base | {"shared": True}]
    sizes += [base | {"E": 12}, base | {"E": 20, "shared": True, "L": 1}, base | {"T": 1}, base | {"L": 0, "E": 3}]
    bert = {"V": 30_522, "H": 768, "F": 3072, "L": 12}
    large = {"V": 1_000_003, "H": 40_000_003, "F": 160_000_001, "L": 7, "T": 3}  # both counts are beyond 2^53
    for size in [*sizes, bert, bert | {"V": 30_000, "E": 128, "shared": True}, bert | {"H": 9216, "F": 36_864}, large]:
        sized(encoder_size, size)


# 12.4


class Scales(nn.Module):
    """Parameters of these shapes whose numbers have different scales, and are all different."""

    def __init__(self, shapes: Sequence[tuple[int, ...]], scales: Sequence[float], seed: int):
        super().__init__()
        count = sum(math.prod(shape) for shape in shapes)
        signs = torch.randint(2, (count,), generator=expect.generator(seed + 1)) * 2 - 1
        numbers = torch.randperm(count, generator=expect.generator(seed)) + 1.0
        parts = (numbers * signs / count).split([math.prod(shape) for shape in shapes])
        self.parts = nn.ParameterList(part.view(s) * k for part, s, k in zip(parts, shapes, scales, strict=True))


def smallest(rows: Mapping[str, torch.Tensor], count: int, by: Callable[[torch.Tensor], torch.Tensor]) -> State:
    """Masks without the first `count` numbers of all rows, in the order of `by`."""
    ordered = sorted(
        (float(value), name, place) for name, row in rows.items() for place, value in enumerate(by(row).flatten())
    )
    masks = {name: torch.ones(row.numel(), dtype=torch.bool) for name, row in rows.items()}
    for _, name, place in ordered[:count]:
        masks[name][place] = False
    return {name: mask.view(rows[name].shape) for name, mask in masks.items()}


def pruned(
    call: Remote, lib: Library, weights: State, sparsity: float, names: Sequence[str], transposed: bool = False
) -> None:
    """Fail unless the smallest of the named weights go, and no other, so many of them."""
    model = lib(toys).Parts(weights, transposed)
    value = expect.of_type(call(model, sparsity, [*names]), dict, "`magnitude_masks` should return a dict")
    extra, missing = [name for name in value if name not in names], [name for name in names if name not in value]
    assert not extra, f"`{extra[0]}` has a mask, but is not one of `names`."
    assert not missing, f"`{missing[0]}` is one of `names`, but has no mask."
    rows = {name: weights[name].double() for name in names}
    for name in names:
        found = expect.tensor(value[name], tuple(rows[name].shape), f"the mask of `{name}`")
        assert found.dtype is torch.bool, f"the mask of `{name}` is {found.dtype}. It should be booleans."
    flat = torch.cat([value[name].flatten() for name in names])
    total = len(flat)
    count = round(sparsity * total)
    told = f"at sparsity 1, {int(flat.sum())} of {total} weights stay. None should."
    told += " A slice from -0 on, for example, is the whole row." if flat.all() else ""
    assert count < total or not flat.any(), told
    equal = len({float(one) for row in rows.values() for one in row.abs().flatten()}) < total
    if not equal:

        def joined(masks: State) -> torch.Tensor:
            return torch.cat([masks[name].flatten() for name in names]).float()

        each: State = {}
        for name, row in rows.items():
            each |= smallest({name: row}, round(sparsity * row.numel()), torch.abs)
        everything = {name: part.double() for name, part in weights.items()}
        whole = smallest(everything, round(sparsity * sum(p.numel() for p in everything.values())), torch.abs)
        wanted = joined(smallest(rows, count, torch.abs))

        def told_of_masks() -> str:
            sizes, stays = torch.cat([row.abs().flatten() for row in rows.values()]), flat.bool()
            at = f"of {total} weights at sparsity {sparsity:g}"
            if int((~stays).sum()) != count:
                return f"{at}, {int((~stays).sum())} go. It should be round(sparsity * number) = {count}."
            largest, least = sizes[~stays].max(), sizes[stays].min()
            return f"{at}, one of size {largest:.15g} goes, and a smaller one of {least:.15g} stays."

        expect.like(
            flat.float(),
            wanted,
            told_of_masks,
            {
                "True marks the weights that are removed. It should mark those that stay.": 1 - wanted,
                "each matrix has its own threshold. Compare all named weights with each other.": joined(each),
                "signed values are compared: negative weights go first. Compare magnitudes.": lambda: joined(
                    smallest(rows, count, lambda row: row)
                ),
                "the largest weights go. The smallest should go.": lambda: joined(
                    smallest(rows, count, lambda row: -row.abs())
                ),
                (
                    "the share that stays and the share that goes are exchanged: `sparsity` is the share that goes."
                ): lambda: joined(smallest(rows, round((1 - sparsity) * total), torch.abs)),
                (
                    "one weight too few goes: the number is rounded down. It should be round(sparsity * number)."
                ): lambda: joined(smallest(rows, int(sparsity * total), torch.abs)),
                "one weight too few goes. The number should be round(sparsity * number).": lambda: joined(
                    smallest(rows, max(count - 1, 0), torch.abs)
                ),
                (
                    "one weight too many goes. The number should be round(sparsity * number), by Python's `round`."
                ): lambda: joined(smallest(rows, count + 1, torch.abs)),
                ("weights that are not named are compared too. Only the named ones should be."): lambda: joined(
                    {n: whole[n] for n in names}
                ),
            },
        )
        return
    gone, stays = ~flat, torch.cat([row.abs().flatten() for row in rows.values()])
    if count and int(gone.sum()) != count:
        level, number = stays.sort().values[count - 1], int(gone.sum())
        told = f"where weights are equal, {number} go, and {count} should. A threshold takes all equal ones or none."
        assert number not in (int((stays <= level).sum()), int((stays < level).sum())), told
    told = f"of {total} weights at sparsity {sparsity:g}, {int(gone.sum())} go, where some weights are equal. "
    assert int(gone.sum()) == count, f"{told}It should be round(sparsity * number) = {count}."
    told = "a larger weight goes while a smaller one stays."
    assert not gone.any() or gone.all() or stays[gone].max() <= stays[~gone].min(), told


def of_scales(seed: int, shapes: Sequence[tuple[int, ...]], scales: Sequence[float]) -> State:
    """The weights of `Scales`, by name."""
    return {name.replace(".", "_"): part.detach() for name, part in Scales(shapes, scales, seed).named_parameters()}


@check("12.4", points=2, forbids=(*MODELS, "torch.nn.utils.prune"))
def magnitude_masks(magnitude_masks, lib):
    """Check for exactly so many of the smallest magnitudes of all named weights, whatever their scales and signs."""
    weights = of_scales(124, [(4, 5), (7, 3), (6,), (2, 2, 2)], [1.0, 0.3137, 0.01171, 2.0713])
    one, two, bias, three = weights
    for names in ([one, two, three], [two, one], [three], [one, two, bias, three]):
        total = sum(weights[name].numel() for name in names)
        for count in (total // 3, total // 5, total // 2 + 1, total - 2, 0, total):
            pruned(magnitude_masks, lib, weights, count / total, names)
    named = {"weight": normal(4, 3, seed=128), "bias": normal(4, seed=129)}
    pruned(magnitude_masks, lib, named, 0.5, ["weight", "bias"])
    hundred = of_scales(125, [(10, 10), (3,)], [1.0, 1.0])
    for sparsity in (0.29, 0.57, 0.58):
        pruned(magnitude_masks, lib, hundred, sparsity, [next(iter(hundred))])
    constant = {"a": torch.full((4, 6), 0.5), "b": torch.zeros(5, 3), "c": torch.full((3, 3), -0.5)}
    for sparsity in (0.0, 0.125, 0.25, 0.5, 0.75, 1.0):
        pruned(magnitude_masks, lib, constant, sparsity, ["a", "b", "c"])
    pruned(magnitude_masks, lib, {name: part.double() for name, part in weights.items()}, 0.5, [one, two])
    near = {
        "a": (1 + torch.randperm(40, generator=expect.generator(126)).view(5, 8) / 2**20) * normal(5, 8, seed=5).sign()
    }
    pruned(magnitude_masks, lib, near, 0.4, ["a"])
    for scale in (1e-25, 1e25):  # whose squares no float32 holds
        pruned(magnitude_masks, lib, {name: scale * part for name, part in weights.items()}, 0.4, [one, two])
    finer = 1 + torch.randperm(40, generator=expect.generator(127)).view(5, 8).double() / 2**45
    pruned(magnitude_masks, lib, {"a": finer}, 0.4, ["a"])
    model = lib(toys).Parts(weights)
    for training in (True, False):
        model.train(training)
        call = lib(toys).left_behind(magnitude_masks, model, 0.5, [one, two])
        with world_kept(lib, "after `magnitude_masks`,"):
            magnitude_masks(model, 0.5, [one, two])
        told = "`magnitude_masks` changes the weights of the model. It should only return masks."
        assert expect.agree(call.state_dict(), weights), told
        assert all(lib(toys).learning(model)), "`magnitude_masks` changes the model: its parameters no longer learn."
        assert read(model.training) is training, "`magnitude_masks` changes the mode of the model."
    told = "on another device (a GPU) the masks would not be on the device of the weights."
    assert lib(toys).elsewhere(magnitude_masks, model, 0.5, [one, two]) in ("there", "unknown"), told
    expect.one_device(lib, magnitude_masks, model, 0.5, [one, two])


# 12.5


def net_of(parts: Any, d: int, width: int, classes: int) -> Any:
    """A small net with parameters and buffers.

    No bias comes before the batch norm, which takes it off again: its gradient would be rounding alone, of which Adam
    makes a whole step in any direction.
    """
    return parts.Sequential(
        parts.Linear(d, width, bias=False), parts.BatchNorm1d(width), parts.Tanh(), parts.Linear(width, classes)
    )


def some_masks(ours: nn.Module, share: float, seed: int) -> State:
    """Masks of both matrices at random; they keep about a share of each."""
    draws = expect.generator(seed)
    named = dict(ours.named_parameters())
    return {name: torch.rand(named[name].shape, generator=draws) < share for name in ("0.weight", "3.weight")}


def kept(snapshot: Remote, lib: Library, theirs: Remote, ours: nn.Module) -> None:
    """Fail unless a snapshot is a copy of all that the model holds."""
    saved, flowing = lib(toys).snapshot_after_moves(snapshot, theirs)
    expect.of_type(saved, dict, "`snapshot` should return a dict")
    before = ours.state_dict()
    buffers = [name for name, _ in ours.named_buffers()]
    extra = next((name for name in saved if name not in before), "")
    assert not extra, f"the snapshot has `{extra}`, which the state dict does not have."
    missing = [name for name in before if name not in saved]
    assert not missing or missing[0] not in buffers, (
        f"the buffer `{missing[0]}` is missing: it changes in training too."
    )
    assert not missing, f"`{missing[0]}` is missing from the snapshot."
    for name, value in before.items():
        found = expect.tensor(saved[name], tuple(value.shape), f"`{name}` of the snapshot")
        told = "a snapshot changes when the model changes: it holds the tensors themselves. Copy them."
        assert not torch.equal(found.float(), (value + 1).float()), told
        assert torch.equal(found.float(), value.float()), f"in the snapshot, `{name}` is not as it was in the model."
        told = f"in the snapshot, `{name}` is {saved[name].dtype}, but in the model {value.dtype}."
        assert saved[name].dtype is value.dtype, told
    told = "a tensor of the snapshot still requires a gradient. Detach it."
    assert flowing is False, told


def went_back(rewind: Remote, lib: Library, theirs: Remote, saved: State, masks: State) -> None:
    """Fail unless the model is back where it was, with zeros, in its own parameters; twice."""
    for moved in (1, -3):
        same, after, given, masked = lib(toys).rewound_after_moves(rewind, theirs, saved, masks, moved)
        for name, value in saved.items():
            wanted = value * masks[name] if name in masks else value
            found = expect.tensor(after[name], tuple(value.shape), f"`{name}`")
            if name in masks:
                told = f"after rewinding, weights of `{name}` are not zero where its mask is False."
                assert not found[~masks[name]].any(), told
                told = f"weights of `{name}` that stay keep their latest values. They should go back to the saved ones."
                assert not expect.near(found, (value + moved) * masks[name]) or torch.equal(
                    wanted, (value + moved) * masks[name]
                ), told
            told = f"after rewinding, `{name}` is not what was saved."
            expect.close(found.float(), wanted.float(), told)
        told = (
            "rewinding gives the model new parameters. An optimizer that was made "
            "earlier would still update the old ones."
        )
        assert same is True, told
        told = "rewinding changes the saved values, or the model shares their tensors afterwards. Copy the values."
        assert all(torch.equal(given[name], value) for name, value in saved.items()), told
        told = "rewinding changes the masks."
        assert all(torch.equal(masked[name], mask) for name, mask in masks.items()), told


def stepped(
    train_step: Remote,
    lib: Library,
    theirs: Remote,
    ours: nn.Module,
    rule: str,
    options: Mapping[str, float],
    data: Sequence[tuple[torch.Tensor, torch.Tensor, State]],
) -> None:
    """Fail unless the steps are those of the optimizer, with zeros where masks say so; both models are moved.

    data: inputs, labels and masks of each step.
    """
    other = getattr(lib(torch.optim), rule)(theirs.parameters(), **options)
    mine = getattr(torch.optim, rule)(ours.parameters(), **options)
    for x, labels, masks in data:
        lib(toys).leave_gradients(theirs)
        with world_kept(lib, "after `train_step`,", True) if x is data[0][0] else contextlib.nullcontext():
            value = train_step(theirs, other, x, labels, masks)
        mine.zero_grad()
        with torch.enable_grad():
            otherwise = copy.deepcopy(ours).train(not ours.training)
            other_mode = nn.functional.cross_entropy(otherwise(x), labels).item()
            cut = copy.deepcopy(ours)
            for name, mask in masks.items():
                cut.get_parameter(name).data.mul_(mask)
            of_cut = nn.functional.cross_entropy(cut(x), labels).item()
            loss = nn.functional.cross_entropy(ours(x), labels)
            loss.backward()
        mine.step()
        count = len(labels)
        expect.number_like(
            value,
            loss.item(),
            "the loss",
            "`train_step` should return the mean loss before the step.",
            {
                "the loss is summed over the batch. Take the mean.": loss.item() * count,
                "the loss is that of the other mode: train the model in the mode in which it is given.": other_mode,
                "the loss is that of the masked weights. Take it before anything is masked.": of_cut,
            },
            1e-3,
        )
        for name, mask in masks.items():
            with torch.no_grad():
                ours.get_parameter(name).mul_(mask)
        state = theirs.state_dict()
        for name, mask in masks.items():
            told = "after the step, the weights are zero where the mask is True, and not where it is False."
            kept = state[name][mask]
            assert kept.any() or not len(kept) or not state[name][~mask].any(), told
            told = "weights that should be zero are not zero after the step. Mask the weights, after the step."
            assert not state[name][~mask].any(), told
        for name, part in ours.state_dict().items():
            told = f"`{name}` is wrong after a step of {rule}. One step with this batch's gradient alone should move it"
            told += ", with zeros where the mask is False."
            if name in dict(ours.named_buffers()):
                told = f"the buffer `{name}` is not as after one call of the model in a step."
            expect.close(state[name].float(), part.float(), told, 1e-3)
        told = "`train_step` changes the mode of the model."
        assert read(theirs.training) is ours.training, told


RULES: tuple[tuple[str, dict[str, float]], ...] = (
    ("Adam", {"lr": 0.05}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("AdamW", {"lr": 0.03, "weight_decay": 0.3}),
    ("SGD", {"lr": 0.1}),
)


def trains(train_step: Remote, lib: Library, sizes: tuple[int, int, int], seed: int, rules: Any = RULES) -> None:
    """Fail unless steps without masks, then with them, are right with optimizers that have a memory, and with others.

    With a memory, what is masked once stays so: masking gradients as well gives the optimizer another one. Without,
    a mask may also end.
    """
    d, width, classes = sizes
    for place, (rule, options) in enumerate(rules):
        theirs, ours = expect.twins(lib, lambda parts: net_of(parts, d, width, classes), seed)
        ours[1].running_var.abs_()  # a variance; `twins` draws any numbers
        theirs.load_state_dict(ours.state_dict())
        theirs.train(place != 1)
        ours.train(place != 1)
        masks, data = some_masks(ours, 0.5, seed + 1), []
        fewer = {name: mask & (normal(*mask.shape, seed=seed + 3) > 0) for name, mask in masks.items()}
        remembers = (rule, {*options}) != ("SGD", {"lr"})
        alone = {"3.weight": (masks if remembers else fewer)["3.weight"]}
        middle: list[tuple[State, int]] = [(alone, classes), (masks, 5)]
        some = [({}, 6), *(middle if remembers else middle[::-1]), (fewer | {"3.bias": torch.arange(classes) > 0}, 600)]
        for step, (given, count) in enumerate(some):
            x = normal(count, d, seed=seed + 5 + step)
            labels = torch.randint(classes, (count,), generator=expect.generator(seed + step))
            data.append((x, labels, given))
        stepped(train_step, lib, theirs, ours, rule, options, data)


def left_after(sparsity_after: Remote, rounds: int, rate: float) -> None:
    """Fail unless it is one minus what is left."""

    def right(rounds: int, rate: float) -> float:
        return 1 - (1 - rate) ** rounds

    found, other = (expect.number(sparsity_after(*one), "the sparsity") for one in ((rounds, rate), (3, 0.3)))
    if math.isclose(found, right(rounds, rate), rel_tol=1e-9, abs_tol=1e-9):
        return
    guesses: dict[str, Callable[[int, float], float]] = {
        "this is the share that is left. Return the share that is gone.": lambda n, r: (1 - r) ** n,
        (
            "the rounds are added: each cuts a share of all weights. It should cut a share of what is left."
        ): lambda n, r: r * n,
        "the rounds are added, up to 1. Each should cut a share of what is left.": lambda n, r: min(1.0, r * n),
        "this is the rate to the power of the rounds.": lambda n, r: r**n,
        "this is one minus the rate to the power of the rounds.": lambda n, r: 1 - r**n,
        "one round too many is counted.": lambda n, r: right(n + 1, r),
        "one round too few is counted.": lambda n, r: right(max(n - 1, 0), r),
        "this is in percent. Return a share from 0 to 1.": lambda n, r: 100 * right(n, r),
    }
    for sentence, guess in guesses.items():  # each must explain two results
        both = math.isclose(found, guess(rounds, rate), abs_tol=1e-9) and math.isclose(
            other, guess(3, 0.3), abs_tol=1e-9
        )
        assert not both, sentence
    size = "large" if found > right(rounds, rate) else "small"
    raise AssertionError(
        f"for {rounds} rounds at a rate of {rate:g}, the sparsity is {found:.6g}, which is too {size}."
    )


@check("12.5", points=3, forbids=(*MODELS, "torch.nn.utils.prune"))
def rewinding(snapshot, rewind, train_step, sparsity_after, lib):
    """Check copies that stay, rewinding to them with zeros that no optimizer moves, and shares of shares."""
    sizes = (4, 5, 3)
    theirs, ours = expect.twins(lib, lambda parts: net_of(parts, *sizes), 125)
    theirs[3].bias.requires_grad_(False)
    with world_kept(lib, "after `snapshot`,"):
        kept(snapshot, lib, theirs, ours)
    unusual = toys.Unusual()
    kept(snapshot, lib, lib(toys).same_as(lib(toys).Unusual(), unusual.state_dict()), unusual)
    saved = {name: value.clone() for name, value in ours.state_dict().items()}
    for masks in (some_masks(ours, 0.5, 126), {}, {"3.weight": torch.zeros(3, 5, dtype=torch.bool)}):
        with world_kept(lib, "after `rewind`,") if masks else contextlib.nullcontext():
            went_back(rewind, lib, theirs, saved, masks)
    # Without the norm, all parameters are known to the device's stand-in.
    theirs, ours = expect.twins(lib, lambda parts: parts.Sequential(parts.Linear(4, 5), parts.Linear(5, 3)), 127)
    state = snapshot(theirs)
    told = "`rewind` fails with what `snapshot` returned for the same model."
    stay = normal(5, 4, seed=128) > 0
    expect.answers(rewind, theirs, state, {"0.weight": stay}, says=told)
    told = "the snapshot of a model in double precision is not exact."
    double = lib(toys).double(theirs)
    exact = expect.of_type(snapshot(double), dict, "`snapshot` should return a dict")
    assert {*exact} == {*ours.state_dict()}, told
    for name, value in ours.double().state_dict().items():
        expect.close(exact[name], value * stay if name == "0.weight" else value, told, 0)
        assert exact[name].dtype is torch.float64, "the snapshot of a model in double precision is not float64."
    trains(train_step, lib, sizes, 129)
    told = "the returned loss still has the graph of its batch. Return a number without a gradient."
    still = lib(torch.optim).SGD(theirs.parameters(), lr=0.1)
    batch = normal(3, 4, seed=130), torch.tensor([0, 2, 1])
    assert lib(toys).flows_from(train_step, theirs, still, *batch, {}) is False, told
    told = "on another device (a GPU) the snapshot would not be where the model is."
    assert not lib(toys).apart(snapshot, theirs), told
    for rounds, rate in ((0, 0.2), (1, 0.2), (2, 0.5), (10, 0.2), (3, 0.9), (25, 0.1), (4, 0.0), (2, 1.0)):
        left_after(sparsity_after, rounds, rate)


# 12.6


def distilled(
    student: torch.Tensor,
    teacher: torch.Tensor,
    labels: torch.Tensor,
    T: float,
    alpha: float,
    *,
    power: float = 2.0,
    reverse: bool = False,
    cool: float = 1.0,
    warm: tuple[bool, bool] = (True, True),
    mean: float = 1.0,
    entropy: bool = False,
    hard: torch.Tensor | None = None,
    both: bool = False,
    given: str = "",
) -> torch.Tensor:
    """Hinton's loss, example by example and class by class, or with a mistake in it."""
    terms = []
    for z, t, label in zip(student, teacher, labels, strict=True):
        log_q = z / (T if warm[0] else 1) - (z / (T if warm[0] else 1)).logsumexp(0)
        log_p = t / (T if warm[1] else 1) - (t / (T if warm[1] else 1)).logsumexp(0)
        if reverse:
            log_p, log_q = log_q, log_p
        apart = (log_p.exp() * ((0 if entropy else log_p) - log_q)).sum() * mean
        if given == "student":
            apart = (log_p.exp() * (log_p - log_q.exp())).sum()
        if given == "teacher":
            apart = (log_p.exp().exp() * (log_p.exp() - log_q)).sum()
        nats = (z / cool).logsumexp(0) - (z / cool)[label]
        if both:
            terms.append(T**power * (alpha * apart + (1 - alpha) * nats))
        else:
            terms.append(alpha * T**power * apart + (1 - alpha) * nats)
    return torch.stack(terms).mean()


def taught(
    call: Remote, student: torch.Tensor, teacher: torch.Tensor, labels: torch.Tensor, T: float, alpha: float
) -> None:
    """Fail unless the loss is Hinton's."""
    value = call(student, teacher, labels, T, alpha)
    told = f"the loss should be a tensor with one number, not {kind(value)}."
    assert type(value) is torch.Tensor and value.numel() == 1, told
    told = "the loss is NaN. Take logarithms of probabilities alone. `kl_div` takes the student's log-probabilities "
    told += "and the teacher's probabilities, or with log_target=True the log-probabilities of both."
    assert not value.isnan().any() or student.abs().max() > 50, told
    far = float(max(student.abs().max(), teacher.abs().max()))
    told = f"the loss is {float(value)}, although all logits are finite, at most {far:.0f} from 0."
    if far > 50:
        told += " `log_softmax` takes logits of any size: `exp` and the log of a softmax do not."
    assert value.isfinite().all(), told
    but: Callable[..., Any] = partial(distilled, student.double(), teacher.double(), labels, T, alpha)
    N, C = student.shape
    guesses = {
        "the factor T squared is missing.": {"power": 0.0},
        "the soft part has the factor T. It should be T squared.": {"power": 1.0},
        "the hard part is multiplied by T squared too. Only the soft part should be.": {"both": True},
        "KL is the wrong way round. It should be KL(teacher || student).": {"reverse": True},
        "the temperature is used for the hard part too, which should have T = 1.": {"cool": T},
        ("the temperature is used for the teacher alone. Use it for both softmaxes of the soft part."): {
            "warm": (False, True)
        },
        ("the temperature is used for the student alone. Use it for both softmaxes of the soft part."): {
            "warm": (True, False)
        },
        "the temperature is not used in the softmax.": {"warm": (False, False)},
        ("the soft part is divided by the number of classes too. Divide it by the number of examples alone."): {
            "mean": 1 / C
        },
        "the soft part is summed over the examples. Take the mean.": {"mean": N},
        "this is a cross-entropy with the teacher, not KL: the teacher's entropy is still in it.": {"entropy": True},
        "`kl_div` is given the student's probabilities. It takes their logarithms.": {"given": "student"},
        "with `log_target=True`, `kl_div` is given the teacher's probabilities. It then takes their logarithms.": {
            "given": "teacher"
        },
    }
    found, wanted = float(value), float(but())
    if math.isclose(found, wanted, rel_tol=1e-4, abs_tol=1e-4):
        return
    alone: dict[str, tuple[float, float]] = {}
    for part, weight in (("soft", 1.0), ("hard", 0.0)):
        came = expect.number(call(student, teacher, labels, T, weight), "the loss")
        alone[part] = came, float(distilled(student.double(), teacher.double(), labels, T, weight))
    wrong = [part for part, (came, right) in alone.items() if not math.isclose(came, right, rel_tol=1e-4, abs_tol=1e-4)]
    told = (
        f"with T = {T:g} and alpha = {alpha:g}, for {N} example{'s' * (N != 1)} of {C} classes, the loss does "
        "not follow the formula."
    )
    if far > 50:
        told = f"for logits as far from 0 as {far:.0f}, the loss does not follow the formula. Logits may have any size."
    for part in wrong if len(wrong) == 1 else ():
        told += f" With alpha = {int(part == 'soft')}, where only the {part} part counts, it is also wrong."
    others: dict[str, float | torch.Tensor] = {
        sentence: float(but(**how)) for sentence, how in guesses.items() if abs(float(but(**how)) - float(but())) > 1e-9
    }
    swapped = float(distilled(student.double(), teacher.double(), labels, T, 1 - alpha))
    others["`alpha` and `1 - alpha` are exchanged: alpha is the weight of the soft part."] = swapped
    soft = float(distilled(student.double(), teacher.double(), labels, T, 1.0))
    hard = float(distilled(student.double(), teacher.double(), labels, T, 0.0))
    others["both parts are added without their weights."] = soft + hard
    others["the hard part has no weight 1 - alpha."] = alpha * soft + hard
    others["the hard part is summed over the examples. Take the mean."] = alpha * soft + (1 - alpha) * N * hard
    others["the soft part has no weight alpha."] = soft + (1 - alpha) * hard
    others["the hard part is missing."] = alpha * soft
    others["the soft part is missing."] = (1 - alpha) * hard
    best = float(distilled(student.double(), teacher.double(), teacher.argmax(-1), T, 0.0))
    others["the hard part uses the teacher's best class. It should use the labels."] = alpha * soft + (1 - alpha) * best
    squares = float((student.double() - teacher.double()).square().mean())
    others["the soft part is a squared difference of logits. It should be KL."] = alpha * squares + (1 - alpha) * hard
    turned = float(distilled(student.double().T, teacher.double().T, labels.new_zeros(C), T, 1.0)) * C / N
    others["the softmax of the soft part runs over the examples. It should run over the classes."] = (
        alpha * turned + (1 - alpha) * hard
    )
    sums = alpha * soft * N + (1 - alpha) * N * hard
    others["both parts are summed over the examples. Take the mean."] = sums
    expect.number_like(found, wanted, "the loss", told, others, scale=1.0)


DISTILLED = Contract(
    "distillation_loss(student, teacher, labels, T, alpha)",
    sizes={"N": (1, 7, 600), "C": (1, 9, 3000), "_T": (1, 9), "_a": (0, 9)},
    student="floats (N, C)",
    teacher="floats (N, C)",
    labels="ids (N) below C",
    T="= _T * 7 / 10",
    alpha="= _a * 9 / 100",
    gives="the loss: as student (one number)",
    right=lambda student, teacher, labels, T, alpha: distilled(student, teacher.detach(), labels, T, alpha),
    learns="student",
    frozen="teacher",
    low=False,
)


@check("12.6", points=3, forbids=MODELS)
def distillation_loss(distillation_loss, lib):
    """Check the soft and hard part, their weights, the direction of KL, and a teacher that learns nothing."""
    for N, C, T, alpha in (
        (5, 3, 2.0, 0.7),
        (1, 3, 1.0, 0.4),
        (3, 3, 4.0, 1.0),
        (2, 6, 0.5, 0.0),
        (4, 2, 3, 0.5),
        (3, 4, 0.5, 0.8),
    ):
        student, teacher = 2 * normal(N, C, seed=126), 2 * normal(N, C, seed=127 + N)
        labels = torch.randint(C, (N,), generator=expect.generator(N))
        taught(distillation_loss, student, teacher, labels, T, alpha)
    student, teacher = 2 * normal(4, 3, seed=1), 2 * normal(4, 3, seed=2)
    labels = torch.tensor([2, 0, 1, 1])
    taught(distillation_loss, 300 * student, 300 * teacher, labels, 1.5, 0.5)
    taught(distillation_loss, student, student, labels, 2.0, 1.0)
    told = "the teacher's logits are changed: they no longer require a gradient afterwards. Detach only what you use."
    assert lib(toys).still_flows(distillation_loss, student, teacher, labels, 2.0, 0.7) is True, told
    for T, alpha in ((2.0, 0.7), (50.0, 1.0), (1.0, 0.0)):
        slopes = lib(toys).gradients(distillation_loss, [student, teacher], labels, T, alpha)
        told = "a gradient flows to the teacher, which should not learn: detach its logits."
        expect.close(slopes[1], torch.zeros_like(teacher), told, 0)
        with torch.enable_grad():
            leaf = student.double().requires_grad_()
            distilled(leaf, teacher.double(), labels, T, alpha).backward()
        # `toys.gradients` weighs the one number by the first number of its row of weights.
        told = f"{'a wrong' if slopes[0].any() else 'no'} gradient reaches the student's logits."
        expect.close(slopes[0] / -1, leaf.grad, told, 1e-3)
    gap = student - teacher
    slopes = lib(toys).gradients(distillation_loss, [student, teacher], labels, 100.0, 1.0)
    told = "for a large T the gradient is not that of matching logits: (z_s - z_t) / C, centred."
    centred = (gap - gap.mean(-1, keepdim=True)) / gap.size(-1) / len(gap)
    expect.close(slopes[0] / -1, centred, told, 0.02)
    told = "a gradient flows to the teacher, which should not learn: detach its logits."
    expect.close(slopes[1], torch.zeros_like(teacher), told, 0)
    DISTILLED.hold(distillation_loss, lib, "dtypes", "layout", "gradients", "device")


# 12.7


def timed(call: Remote, lib: Library, times: Sequence[float], N: int, warm_up: int, training: bool) -> None:
    """Fail unless the median of the calls after the first ones is found, for one example.

    times: what each call takes, the first ones included.
    """
    repeats = len(times) - warm_up
    value, calls, left, modes, grads, same, recording, learns, readings = lib(toys).measured(
        call, [*times], N, repeats, warm_up, training
    )
    number = expect.number(value, "the time")
    assert modes == 0, "the model is called in training mode. Measure it in evaluation mode."
    assert grads == 0, "gradients are recorded while the model is measured. They should not be."
    assert same is True, "the model is called with something other than the batch."
    told = (
        f"with warm_up = {warm_up} and repeats = {repeats}, the model is called {calls} "
        "times. It should be warm_up + repeats."
    )
    assert calls == len(times), told
    assert left is True, "the model is not left in the mode in which it was, with all its parts."
    told = "after the call, gradients are no longer recorded anywhere. Turn them off only while the model is measured."
    assert recording is True, told
    told = "the call changes which parameters of the model learn. Use torch.no_grad() instead."
    assert learns is True, told
    counted = [*times[warm_up:]]
    assert readings, "the clock that is given is not read. Call `clock()` before and after each call of the model."
    expect.number_like(
        number,
        statistics.median(counted) / N,
        "the time",
        "the time is not the median of the timed calls, divided by the number of examples.",
        {
            "this is the mean. One slow call moves it: take the median.": statistics.fmean(counted) / N,
            "this is the median with the warm-up calls in it. They should not count.": statistics.median(times) / N,
            (
                "this is the mean, with the warm-up calls in it. Take the median of the calls after them."
            ): statistics.fmean(times) / N,
            "this is the time of the whole batch. Divide it by the number of examples.": statistics.median(counted),
            "this is the mean time of the whole batch. Take the median, for one example.": statistics.fmean(counted),
            "this is the time of the middle call. Sort the times first.": counted[len(counted) // 2] / N,
            "this is the time of the fastest call. Take the median.": min(counted) / N,
            (
                "this is the time of the slowest call, or the pauses between calls are counted as calls. Take the "
                "median of the calls."
            ): max(counted) / N,
            "the time is divided by the number of values in the batch. Divide it by its length.": (
                statistics.median(counted) / (3 * N)
            ),
            "the upper of the two middle times is taken. The median of an even number is their mean.": sorted(counted)[
                len(counted) // 2
            ]
            / N,
            "the lower of the two middle times is taken. The median of an even number is their mean.": sorted(counted)[
                (len(counted) - 1) // 2
            ]
            / N,
            "the time between calls is counted too. Read the clock before each call and after it.": statistics.median(
                [one + 60.0 * (place % 2) for place, one in enumerate(counted)]
            )
            / N,
            "the time is 0, although each call takes time by the clock that is given.": 0.0,
            "this is the time of all calls together. Take the median.": sum(counted) / N,
        },
        tolerance=1e-6,
    )


def free(rows: Sequence[Sequence[float]], signs: Sequence[int] = (-1, 1, 1), ties: str = "both") -> list[int]:
    """Rows that nothing dominates, by comparing all pairs; or with a mistake in it."""
    costs = [[sign * value for sign, value in zip(signs, row, strict=True)] for row in rows]

    def beats(a: Sequence[float], b: Sequence[float]) -> bool:
        if ties == "strict":
            return all(x < y for x, y in zip(a, b, strict=True))
        better = any(x < y for x, y in zip(a, b, strict=True))
        return all(x <= y for x, y in zip(a, b, strict=True)) and better

    found = [i for i, one in enumerate(costs) if not any(beats(other, one) for other in costs)]
    if ties == "none":
        return [i for i in found if not any(costs[i] == costs[j] for j in range(len(costs)) if j != i)]
    return [i for i in found if costs[i] not in costs[:i]] if ties == "first" else found


NEAR = "numbers that nearly agree are taken for equal. Compare them as they are, without rounding or a tolerance."


def chosen(
    undominated: Remote,
    rows: Sequence[tuple[float, float, float]],
    told: str = "the rows are not those that no other row dominates.",
) -> None:
    """Fail unless the rows that no other dominates are named; `told` is said where nothing explains it."""
    value = undominated([*rows])
    if type(value) is torch.Tensor:
        value = value.tolist()
    expect.of_type(value, list, "`undominated` should return a list")
    found = [int(expect.number(one, "a place")) for one in value]
    wanted = free(rows)
    assert found == wanted or sorted(found) != wanted, "the places are not in ascending order."
    best = [max(range(len(rows)), key=lambda i: rows[i][0])] if rows else []
    guesses = {
        "larger is taken to be better in every column. Parameters and seconds are costs.": free(rows, (-1, -1, -1)),
        "smaller is taken to be better in every column. Accuracy is not a cost.": free(rows, (1, 1, 1)),
        "a row stays that is equal in one column and worse in another. It is dominated.": free(rows, ties="strict"),
        ("of equal rows none stays. Equal rows do not dominate each other, so all of them should."): free(
            rows, ties="none"
        ),
        "of equal rows only the first stays. All of them should.": free(rows, ties="first"),
        "these are the rows that are dominated. Return the others.": [i for i in range(len(rows)) if i not in wanted],
        "only the most accurate row stays. Less accurate rows may be smaller or faster.": best,
        "the rows are numbered from 1. The first is row 0.": [i + 1 for i in wanted],
        "the seconds are not compared.": free([(a, b, 0.0) for a, b, _ in rows]),
        "the parameters are not compared.": free([(a, 0, c) for a, _, c in rows]),
    }
    shown = f" The rows are `{[*rows]}`." if len(f"{[*rows]}") < 120 else ""
    expect.explained(found, wanted, told + shown, {} if told == NEAR else guesses)


@check("12.7", points=2, forbids=MODELS)
def measuring(time_per_example, undominated, lib):
    """Check a median per example after warm-up, with our clock, and dominance in three columns of two directions."""
    for times, N, warm_up, training in (
        ([90.0, 70.0, 50.0, 4.0, 6.0, 31.0, 5.0, 5.5], 4, 3, True),
        ([80.0, 70.0, 2.0, 3.0, 9.0, 4.0], 1, 2, False),
        ([7.0], 3, 0, True),
        ([40.0, 30.0, 8.0, 2.5, 2.0], 5, 2, False),
        ([20.0, 10.0, 1.0, 3.0], 2, 2, True),
    ):
        timed(time_per_example, lib, times, N, warm_up, training)
    found = lib(toys).measured(time_per_example, [60.0] * 3 + [2.0] * 9, 2, None, None, True)
    told = "without `repeats` and `warm_up`, there should be 3 calls to warm up and 9 that count."
    assert found[1] == 12 and expect.number(found[0], "the time") == 1.0, told
    found = time_per_example(lib(nn).Linear(3, 2), normal(4, 3, seed=7))
    told = "without the argument `clock`, the time of a call is not between 0 and a minute."
    assert 0 < expect.number(found, "the time") < 60, told
    tables: list[list[tuple[float, float, float]]] = [
        [(90, 10, 1.0), (92, 12, 1.5), (91, 12, 1.5), (80, 5, 2.0), (90, 10, 1.1)],
        [(0.5, 100, 3.0), (0.5, 100, 3.0), (0.5, 90, 3.5), (0.4, 90, 3.5), (0.6, 300, 0.5)],
        [(1, 1, 1)],
        [],
        [(70, 5, 3), (71, 6, 4), (72, 7, 5)],
        [(70, 5, 3), (71, 4, 3), (71, 4, 2)],
        [(3, 3, 3), (3, 3, 3), (3, 3, 3)],
        [(1, 9, 9), (2, 8, 8), (3, 7, 7), (0, 1, 10)],
    ]
    for rows in tables:
        chosen(undominated, rows)
    many = [(float(place % 7), 1000 - place, 1.0 + place % 5) for place in range(70)]
    with world_kept(lib, "after `undominated`,"):
        chosen(undominated, many)
    chosen(undominated, [(0.9, 109_482_241, 0.5), (0.9, 109_482_240, 0.5), (0.9, 109_482_240, 0.5 + 1e-7)], NEAR)
    chosen(undominated, [(0.9, 10, 2.0e-6), (0.9, 10, 2.1e-6), (0.9 + 1e-9, 11, 2.0e-6)], NEAR)
    chosen(undominated, [(0.9, 10, 2.0), (0.9, 10, 2.0 + 1e-12)], NEAR)
    chosen(undominated, [(0.9, 10, 2.0), (0.9 + 1e-12, 10, 2.0)], NEAR)
    chosen(undominated, [(a, b, -c) for a, b, c in many])


# 12.8


def median_of_runs(typical_steps: Remote, steps: list[int | None]) -> None:
    """Fail unless the median counts what never came as the largest."""
    found = typical_steps(steps)
    known = sorted(one for one in steps if one is not None)
    line = [*known, *[math.inf] * (len(steps) - len(known))]
    low, high = line[(len(line) - 1) // 2], line[len(line) // 2]
    lucky = statistics.median(known) if known else None
    if math.isinf(high):
        told = f"`typical_steps({steps})` should be None: a run in the middle never learned."
        if found is not None:
            number = expect.number(found, "the median")
            assert number != lucky, "runs that never learned are left out: that makes an arm look quick."
        assert found is None, told
        return
    assert found is not None, f"`typical_steps({steps})` should not be None: the runs in the middle have learned."
    distinct = sorted({math.inf if one is None else one for one in steps})
    once = (distinct[(len(distinct) - 1) // 2] + distinct[len(distinct) // 2]) / 2
    expect.number_like(
        found,
        (low + high) / 2,
        "the median",
        "this is not the median of the steps, in which a run that never learned counts as more than any number.",
        {
            "equal numbers of steps are counted once, and so are runs that never learned. Each run counts.": once,
            "runs that never learned are left out: that makes an arm look quick.": lucky if lucky is not None else -1,
            "runs that never learned count as 0. They should be sorted after all others.": statistics.median(
                [one or 0 for one in steps]
            ),
            "this is a mean. The median is the number in the middle.": math.fsum(known) / max(1, len(known)),
            "of two runs in the middle, the lower one is taken. The median is their mean.": low,
            "of two runs in the middle, the higher one is taken. The median is their mean.": high,
            "the runs are not sorted.": (steps[(len(steps) - 1) // 2] or 0) / 2 + (steps[len(steps) // 2] or 0) / 2,
        },
        1e-6,
    )


def steps_of_runs(some: random.Random, runs: int, never: int) -> list[int | None]:
    """Numbers of steps of some runs, of which so many never learned."""
    found: list[int | None] = [20 * some.randint(1, 60) for _ in range(runs - never)]
    found += [None] * never
    some.shuffle(found)
    return found


@results_check("12.8", points=4, source=smaller, notebook=smaller.NOTEBOOK, reading=2)
def typical_steps(typical_steps):
    """The runs by their files; medians of odd and even numbers of runs, some of which never learned."""
    some = expect.draw(128)
    few = (
        [700, 100, 200, 400],
        [400, None, 100, 700, 300],
        [500, None, 100, 300, None, 200],
        [100, None, None, 200],
        [300],
        [None],
        [None, 100],
    )
    for steps in few:
        median_of_runs(typical_steps, steps)
    for runs, never in ((5, 0), (5, 1), (5, 2), (5, 3), (6, 2), (6, 3), (8, 1), (9, 4), (4, 4)):
        median_of_runs(typical_steps, steps_of_runs(some, runs, never))


# 12.S1


def coded(weight: torch.Tensor, bits: int, largest: float | None = None) -> torch.Tensor:
    """The rounded weights, row by row and number by number."""
    m = 2 ** (bits - 1) - 1 if largest is None else largest
    rows = []
    for row in weight.double():
        scale = float(row.abs().max()) / m or 1.0
        rows.append([round(float(one) / scale) * scale for one in row])
    return torch.tensor(rows, dtype=torch.float64)


@stretch("12.S1", forbids=MODELS)
def quantise(quantise):
    """Whole numbers and a scale for each row, symmetric about 0; rows of zeros and of one large number."""
    some = normal(5, 7, seed=128)
    some[1] = 0
    some[2, 3] = 100
    for weight in (some, normal(3, 3, seed=129) * 1e-3, normal(1, 4, seed=130).double(), normal(4, 1, seed=131)):
        n, m = weight.shape
        for bits in (8, 4, 2):
            codes, scales = expect.items(quantise(weight, bits), 2, "`quantise` should return codes and scales")
            expect.tensor(codes, (n, m), "the codes")
            assert codes.dtype is torch.int8, f"the codes are {codes.dtype}. They should be int8."
            scale = expect.floats(scales, (n, 1), "the scales")
            top = 2 ** (bits - 1) - 1
            told = "a code is out of range. Codes should go from -m to m, with m = 2^(bits-1) - 1."
            assert codes.abs().max() <= top and codes.min() > -128, told
            whole = coded(weight.reshape(1, -1), bits).view(n, m)
            cut_off = (weight / scale.to(weight.dtype)).trunc().double() * scale.double()
            expect.like(
                codes.double() * scale,
                coded(weight, bits),
                "codes times scales are not the weights, rounded to multiples of the row's scale.",
                {
                    "there is one scale for the whole matrix. Each row should have its own.": whole,
                    "the codes are cut off. They should be rounded.": cut_off,
                },
                1e-3,
            )
