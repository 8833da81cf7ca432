"""Checks of notebook 06: adapter, training it alone, fusion, composing with the library, traps, fusion weights."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from utils import tiny_bert
from utils.experiments import rte
from utils.grading import expect, toys
from utils.grading.check import check
from utils.grading.contract import Contract, model_kept, world_kept
from utils.grading.expect import normal
from utils.grading.forbidden import MODELS
from utils.grading.remote import Library, Remote, StudentError, kind, read
from utils.grading.results_check import results_check
from utils.tiny_bert import Sizes

State = dict[str, torch.Tensor]

# 6.1


def bottleneck_shapes(d: int, r: int) -> dict[str, tuple[int, ...]]:
    """The names and shapes of an adapter's weights."""
    return {"down.weight": (r, d), "down.bias": (r,), "up.weight": (d, r), "up.bias": (d,)}


def bottleneck(state: Mapping[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """What an adapter adds: up(relu(down(x)))."""
    inside = F.linear(x, state["down.weight"], state["down.bias"]).relu()
    return F.linear(inside, state["up.weight"], state["up.bias"])


def two_parts(module: Remote, what: str) -> State:
    """The state dict of a fresh adapter."""
    state = expect.state(module, "BottleneckAdapter")
    for part in ("down", "up"):
        told = f"{what} has no `{part}.weight`. `{part}` should be an nn.Linear, as the docstring says."
        assert f"{part}.weight" in state, told
        assert f"{part}.bias" in state, f"`{part}` should have a bias."
    return state


def narrow(state: State, d: int, r: int, what: str) -> None:
    """Fail unless the bottleneck of a fresh adapter is `r` wide."""
    shape = tuple(state["down.weight"].shape)
    assert shape != (0, d), (
        "the bottleneck has width 0. It should be at least 1 wide, even if d is smaller than `reduction`."
    )
    assert shape == (r, d), f"`down.weight` of {what} has shape {shape}, not {(r, d)}."


def small_start(state: State, names: Sequence[str], what: str) -> None:
    """Fail unless the weights start normal with standard deviation 0.02, and the biases at zero."""
    for name in names:
        assert (state[f"{name}.bias"] == 0).all(), f"the bias of `{name}` should start at zero."
        values = state[f"{name}.weight"].float()
        mean, spread, share = values.mean(), values.std(), (values.abs() < 0.02).float().mean()
        told = f"`{name}.weight` of {what} should start with mean 0 and standard deviation 0.02, not {{}}."
        assert abs(spread - 0.02) < 0.002 and abs(mean) < 0.002, told.format(f"{mean:.2g} and {spread:.2g}")
        told = f"`{name}.weight` of {what} starts with standard deviation 0.02, but its numbers are not normal."
        assert abs(share - 0.683) < 0.04, told


ADAPTER = Contract(
    "BottleneckAdapter(d, reduction)(states, residual)",
    sizes={"T": (1, 7, 1500), "d": (1, 40, 800), "reduction": (1, 9)},
    states="floats (..., T, d)",
    residual="floats (..., T, d) or None",
    gives="the result: as states (..., T, d)",
    weights=lambda d, reduction: bottleneck_shapes(d, max(1, d // reduction)),
    right=lambda state, d, reduction, x, h: (x if h is None else h) + bottleneck(state, x),
    learns="states residual",
)


@check("6.1", points=2, forbids=("Adapter", "ParallelAdapter", "add_adapter", *MODELS))
def bottleneck_adapter(BottleneckAdapter, lib):
    """Check for down, ReLU, up, plus the residual, with nearly no change at the start."""
    asked = {f"`BottleneckAdapter({d}, {q})`": (d, q) for d, q in ((12, 4), (13, 5), (5, 16), (6, 1))}
    states = {what: two_parts(BottleneckAdapter(*sizes), what) for what, sizes in asked.items()}
    found = [tuple(state["down.weight"].shape) for state in states.values()]
    told = "the bottleneck is `reduction` wide. It should be that many times narrower than d."
    assert found != [(reduction, d) for d, reduction in asked.values()], told
    told = "the width of the bottleneck is rounded up, or to the nearest. It should be rounded down."
    assert found != [(-(-d // reduction), d) for d, reduction in asked.values()], told
    for what, (d, reduction) in asked.items():
        narrow(states[what], d, max(1, d // reduction), what)
    what = "`BottleneckAdapter(49)`, whose reduction is 16,"
    narrow(two_parts(BottleneckAdapter(49), what), 49, 3, what)

    module = BottleneckAdapter(12, 4)
    state = expect.weights(module, bottleneck_shapes(12, 3), "`BottleneckAdapter(12, 4)`", seed=2)
    module.eval()
    for shape in ((2, 5, 12), (12,)):
        adapted(module, state, normal(*shape, seed=3), normal(*shape, seed=4))
    x = normal(2, 5, 12, seed=5)
    module.train()
    sentence = "in training mode the result differs from that in evaluation mode. The mode should change nothing."
    expect.close(expect.floats(module(x), (2, 5, 12), "the result"), x + bottleneck(state, x), sentence)
    exact, x = module.double()(x.double()), x.double()
    sentence = "with states and weights in double precision, the result is not: keep the dtype of the states."
    assert type(exact) is torch.Tensor and exact.dtype is torch.float64, sentence
    expect.close(exact, x + bottleneck({name: value.double() for name, value in state.items()}, x), sentence, 1e-9)
    with model_kept(lib, module, "after a call of the adapter"):
        module(x)
    ADAPTER.hold(BottleneckAdapter, lib, "layout", "device")

    d, r = 192, 96
    fresh, x = BottleneckAdapter(d, 2), normal(7, d, seed=1)
    state = two_parts(fresh, "`BottleneckAdapter(192, 2)`")
    narrow(state, d, r, "`BottleneckAdapter(192, 2)`")
    both = not state["down.weight"].any() and not state["up.weight"].any()
    assert not both, "both matrices start at zero. Then each blocks the gradient of the other, and neither ever learns."
    out = expect.floats(fresh(x), (7, d), "the result")
    moved = (out - x).norm() / x.norm()
    assert moved < 0.1, (
        f"a fresh adapter changes the states by {moved:.0%} of their length. It should start near the identity."
    )
    small_start(state, ["down", "up"], "a fresh adapter")


def adapted(module: Remote, state: State, x: torch.Tensor, residual: torch.Tensor) -> None:
    """Fail unless the adapter with these weights is right for x, alone and with a residual."""
    h = F.linear(x, state["down.weight"], state["down.bias"])
    up = bottleneck(state, x)
    linear = F.linear(h, state["up.weight"], state["up.bias"])
    expect.like(
        expect.floats(module(x), tuple(x.shape), "the result"),
        x + up,
        "the result is not x + up(relu(down(x))).",
        {
            "the residual connection is missing: the result is up(relu(down(x))) alone.": up,
            "there is no ReLU between down and up. Without it, the two linear maps are just one.": x + linear,
            "there is a GELU between down and up. `seq_bn` has a ReLU there.": x
            + F.linear(F.gelu(h), state["up.weight"], state["up.bias"]),
            "there is a tanh between down and up. `seq_bn` has a ReLU there.": x
            + F.linear(h.tanh(), state["up.weight"], state["up.bias"]),
            "the only ReLU comes after up. It belongs between down and up.": x + linear.relu(),
            "there is a ReLU after up. The adapter should be able to subtract.": x + up.relu(),
            "the ReLU also acts on the residual.": (x + up).relu(),
            "the residual is added twice.": 2 * x + up,
            "the result is normalized. `seq_bn` has no norm of its own.": F.layer_norm(x + up, x.shape[-1:]),
        },
    )
    expect.like(
        expect.floats(module(x, residual), tuple(x.shape), "the result with a residual"),
        residual + up,
        "with a residual, the result is not residual + up(relu(down(x))).",
        {
            "the residual is ignored.": x + up,
            "the states are added too. If a residual is given, it alone is added.": x + residual + up,
            "down reads the residual. It should read the states.": residual + bottleneck(state, residual),
            "states and residual are swapped: down reads the residual, and the states are added to the result.": x
            + bottleneck(state, residual),
            "with a residual, the residual is not added.": up,
        },
    )
    zero = expect.floats(module(x, torch.zeros_like(x)), tuple(x.shape), "the result with a residual of zeros")
    told = "with a residual of zeros, the result is not up(relu(down(x))) alone."
    expect.like(
        zero, up, told, {"a residual of zeros is treated as if none were given, and the states are added.": x + up}
    )
    told = "after calls with a residual, a call without one no longer gives x + up(relu(down(x)))."
    kept = {"the residual of an earlier call is added again: a residual is kept.": up}  # it was 0
    expect.like(expect.floats(module(x), tuple(x.shape), "the result"), x + up, told, kept, once=True)


# 6.2


DECAY = 0.5  # of the weights, in `tiny_bert.trained`
WIDTHS = ((5, 4), (4, 4), None, (4, 4), (4, 3))  # base, adapter, tanh, base, head


def stack(lib: Library, seed: int) -> tuple[Remote, nn.Sequential]:
    """Linear layers with a tanh between, in the student's process and in this one, with the same weights."""

    def build(parts: Any) -> Any:
        return parts.Sequential(*(parts.Tanh() if sizes is None else parts.Linear(*sizes) for sizes in WIDTHS))

    return expect.twins(lib, build, seed)


def chosen(theirs: State, ours: nn.Module, start: State, parts: Sequence[str], base: Sequence[str]) -> None:
    """Fail unless only `parts` (adapter, head) moved, as they should; `base` begins the names of what had to stay."""
    wanted = ours.state_dict()
    assert not all(torch.equal(theirs[name].float(), start[name]) for name in theirs), (
        "no parameter of the model moved after one step of SGD. The chosen parts should learn."
    )
    for part in base:
        assert expect.agree(theirs, start, part), (
            "a part that was not chosen moved after one step of SGD with weight decay. Freeze "
            "it, and set its gradient to None: weight decay moves a parameter even if its "
            "gradient is 0."
        )
    for part in parts:
        assert not expect.agree(theirs, start, part), (
            "a part that was chosen did not move after one step of SGD: it is frozen, or no gradient reaches it."
        )
        still = [name for name in wanted if name.startswith(part) and expect.agree(theirs, start, name)]
        assert not still, f"`{still[0]}` is in a chosen part and did not move. All parameters of the part should learn."
        assert expect.agree(theirs, wanted, part), (
            "a chosen part moved, but not to where one step of SGD takes it. `train_only` should change neither "
            "its weights nor its gradients."
        )


@check("6.2", points=2)
def train_only(train_only, lib):
    """Check that after one step of SGD the chosen parts have moved, and nothing else."""
    x, labels, lr = normal(6, 5, seed=8), torch.tensor([0, 2, 1, 1, 0, 2]), 0.1
    trained = lib(tiny_bert).trained
    theirs, ours = stack(lib, 10)
    start = {name: value.clone() for name, value in ours.state_dict().items()}
    with world_kept(lib, "after `train_only`"):
        sizes = trained(train_only, theirs, [theirs[1], theirs[4]], x, labels, lr)
    parameters(sizes)
    toys.descend(ours, [*ours[1].parameters(), *ours[4].parameters()], x, labels, lr, DECAY)
    chosen(theirs.state_dict(), ours, start, "14", "03")
    wanted = sorted(part.numel() for index in (1, 4) for part in ours[index].parameters())
    returned(sizes, wanted, sum(part.numel() for part in ours.parameters()))

    start = {name: value.clone() for name, value in ours.state_dict().items()}
    sizes = trained(train_only, theirs, [theirs[3]], x, labels, lr)
    toys.descend(ours, ours[3].parameters(), x, labels, lr, DECAY)
    state = theirs.state_dict()
    assert not expect.agree(state, start, "3"), (
        "a part that was frozen by an earlier call does not learn when a later call chooses it."
    )
    assert expect.agree(state, start, "1") and expect.agree(state, start, "4"), (
        "what an earlier call had chosen still moves. Freeze it, and set old gradients to None: "
        "weight decay moves a parameter even if its gradient is zero."
    )
    chosen(state, ours, start, "3", "014")
    returned(sizes, sorted(part.numel() for part in ours[3].parameters()), -1)

    toy = lib(toys)
    found = toy.type_of(train_only, theirs, [theirs[4]])
    told = "`train_only` should return a list, not a {}."
    assert found in ("list", "tuple"), told.format(found)
    told = (
        "`train_only` replaces parameters of the model by new ones. An optimizer that was "
        "made before still holds the old ones."
    )
    assert toy.replaces_parameters(train_only, theirs, [theirs[1], theirs[4]]) is False, told
    for training in (True, False):
        theirs.train(training)
        with world_kept(lib, "after `train_only`"):
            train_only(theirs, [theirs[1]])
        told = (
            "`train_only` changes the mode of the model. It should freeze parameters, and leave "
            "`train()` and `eval()` to the caller."
        )
        assert read(theirs.training) is training, told

    theirs, ours = stack(lib, 30)
    stranger = lib(nn).Linear(4, 4)
    sentence = (
        "if one of the parts is not in the model, `train_only` should raise ValueError: that part would never be used."
    )
    expect.refuses(train_only, theirs, [theirs[4], stranger], says=sentence)


def parameters(sizes: Any) -> None:
    """Fail unless train_only returned parameters, as `tiny_bert.trained` tells."""
    expect.of_type(sizes, list, "`train_only` should return a list of parameters")
    strange = [str(size) for size in sizes if type(size) is not int]
    assert not strange, (
        f"`train_only` should return a list of parameters. The returned value is, or contains, a {strange[0]}."
    )


def returned(sizes: Any, wanted: list[int], everything: int) -> None:
    """Fail unless the list that train_only returned has the parameters of these sizes."""
    parameters(sizes)
    assert sum(sizes) != everything, "all parameters of the model are returned. Return only those that learn."
    told = f"It has {len(sizes)} entries, and {len(wanted)} parameters learn."
    told = told if len(sizes) != len(wanted) else "It has the right number of entries, but other ones."
    assert sorted(sizes) == wanted, f"the returned list should hold each parameter that learns exactly once. {told}"


# 6.3


def fusion_shapes(d: int) -> dict[str, tuple[int, ...]]:
    """The names and shapes of a fusion's weights, in the library's order."""
    shapes: dict[str, tuple[int, ...]] = {"query.weight": (d, d), "query.bias": (d,)}
    return shapes | {"key.weight": (d, d), "key.bias": (d,), "value.weight": (d, d)}


def fuse(
    state: Mapping[str, torch.Tensor], states: torch.Tensor, outputs: torch.Tensor, residual: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Fusion, token by token and adapter by adapter: (B, T, d) and the weights (B, T, n)."""
    query = F.linear(states, state["query.weight"], state["query.bias"])
    keys = [F.linear(outputs[:, :, i], state["key.weight"], state["key.bias"]) for i in range(outputs.size(2))]
    weights = torch.stack([(query * key).sum(-1) for key in keys], dim=-1).softmax(-1)
    values = [F.linear(outputs[:, :, i], state["value.weight"]) for i in range(outputs.size(2))]
    return residual + sum(weights[..., i : i + 1] * value for i, value in enumerate(values)), weights


def fused_pair(result: Any, B: int, T: int, n: int, d: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The fused states and the weights, of the right shapes."""
    expect.items(result, 2, "forward should return the fused states and the weights")
    weights = expect.floats(result[1], (B, T, n), "the weights")
    return expect.floats(result[0], (B, T, d), "the fused states"), weights


FUSION = Contract(
    "AdapterFusion(d, n, 0.0)(states, outputs, residual)",
    sizes={"B": (1, 4), "T": (1, 7, 600), "n": (1, 6, 40), "d": (1, 5)},
    states="floats (B, T, d)",
    outputs="floats (B, T, n, d)",
    residual="floats (B, T, d)",
    fewer="floats (B, T, n - 1, d)",
    more="floats (B, T, n + 1, d)",
    single="floats (B, T, 2 if n < 2 else 1, d)",
    gives="the fused states: as states (B, T, d); the weights: as states (B, T, n)",
    weights=lambda d, n, rate: fusion_shapes(d),
    right=lambda state, d, n, rate, *given: fuse(state, *given),
    refuses=(
        "AdapterFusion(d, n, 0.0)(states, fewer, residual)",
        "AdapterFusion(d, n, 0.0)(states, more, residual)",
        "AdapterFusion(d, n, 0.0)(states, single, residual)",
    ),
    learns="states outputs residual",
    draws=True,
)
PENALTY = Contract(
    "AdapterFusion(d, n).penalty()",
    sizes={"d": (1, 9, 300), "n": (1, 5)},
    gives="the penalty: float (one number)",
    weights=lambda d, n: fusion_shapes(d),
    right=lambda state, d, n: 0.01 * drift(state["value.weight"]),
)


def drift(value: torch.Tensor) -> torch.Tensor:
    """The sum of squares of a value matrix minus the identity."""
    return (value - torch.eye(len(value), dtype=value.dtype)).pow(2).sum()


@check("6.3", points=3, forbids=("BertFusion", "add_adapter_fusion", "MultiheadAttention", *MODELS))
def adapter_fusion(AdapterFusion, lib):
    """Check attention over adapters, with queries from the layer and a value matrix that starts at the identity."""
    d, n, B, T = 96, 3, 2, 5
    fresh = AdapterFusion(d, n)
    start = expect.state(fresh, "AdapterFusion")
    for part in ("query", "key", "value"):
        told = f"`AdapterFusion` has no `{part}.weight`. `{part}` should be an nn.Linear, as the docstring says."
        assert f"{part}.weight" in start, told
    assert "value.bias" not in start, "`value` should have no bias."
    assert "query.bias" in start and "key.bias" in start, "`query` and `key` should have a bias."
    sizes = [tuple(value.shape) for value in start.values()]
    assert (n * d, d) not in sizes, "each adapter has a matrix of its own. All n share one."
    value = expect.tensor(start["value.weight"], (d, d), "`value.weight`").float()
    assert value.any(), (
        "the value matrix starts at zero, so a fresh fusion adds nothing. It should start at the identity."
    )
    assert (value - torch.eye(d)).abs().max() < 1e-4, (
        "the value matrix does not start at the identity, so a fresh fusion changes the adapters' outputs."
    )
    small_start(start, ["query", "key"], "a fresh fusion")

    d, n = 6, 4
    module = AdapterFusion(d, n)
    state = expect.weights(module, fusion_shapes(d), "`AdapterFusion(6, 4)`", seed=20)
    module.eval()
    states, outputs, residual = normal(B, T, d, seed=41), normal(B, T, n, d, seed=42), normal(B, T, d, seed=43)
    fused, weights = fused_pair(module(states, outputs, residual), B, T, n, d)
    told = "in evaluation mode, two calls give different weights. Dropout should do nothing there."
    assert torch.equal(fused_pair(module(states, outputs, residual), B, T, n, d)[1], weights), told
    weighed(state, states, outputs, residual, fused, weights)
    with model_kept(lib, module, "after a call of the fusion in evaluation mode"):
        module(states, outputs, residual)
    for rate, other in ((0.4, AdapterFusion(d, 2, 0.4)), (0.1, AdapterFusion(d, 2))):
        drops_scores(other, rate, d)
    FUSION.hold(AdapterFusion, lib, "layout", "device")
    penalty = module.penalty()
    told = f"the penalty should be a tensor, not {kind(penalty)}: it is a part of the loss, and its gradient is needed."
    assert type(penalty) is torch.Tensor, told
    FUSION.hold(AdapterFusion, lib, "refusals")
    drift = (state["value.weight"] - torch.eye(d)).pow(2)
    guesses = {
        "the penalty is not multiplied by 0.01.": drift.sum(),
        "the penalty is a mean. It should be a sum.": 0.01 * drift.mean(),
        "the penalty pulls the value matrix towards zero. It should pull it towards the identity.": 0.01
        * state["value.weight"].pow(2).sum(),
        "the penalty is a norm. It should be a sum of squares, without the root.": 0.01 * drift.sum().sqrt(),
    }
    told = "the penalty is not 0.01 times the sum of squares of value minus identity."
    penalty = module_penalty(AdapterFusion, d, n, state)
    expect.number_like(penalty, 0.01 * drift.sum(), "the penalty", told, guesses)
    assert lib(tiny_bert).elsewhere(module, [], "penalty") == "meta", (
        "on another device (a GPU) the penalty would fail, or would not be on the device of the value matrix. "
        "Compute it from that matrix, and create the identity on its device."
    )


def module_penalty(AdapterFusion: Remote, d: int, n: int, state: State) -> Any:
    """The penalty of a fusion with these weights."""
    module = AdapterFusion(d, n)
    module.load_state_dict(state)
    return module.penalty()


def weighed(
    state: State,
    states: torch.Tensor,
    outputs: torch.Tensor,
    residual: torch.Tensor,
    fused: torch.Tensor,
    weights: torch.Tensor,
) -> None:
    """Fail unless weights and fused states are those of a fusion with these weights."""
    wanted, right = fuse(state, states, outputs, residual)
    query = F.linear(states, state["query.weight"], state["query.bias"])
    key, value = F.linear(outputs, state["key.weight"], state["key.bias"]), F.linear(outputs, state["value.weight"])
    scores = (query.unsqueeze(2) * key).sum(-1)
    swapped = F.linear(states, state["key.weight"], state["key.bias"]).unsqueeze(2)
    swapped = (swapped * F.linear(outputs, state["query.weight"], state["query.bias"])).sum(-1)
    expect.like(
        weights,
        right,
        "the weights are not the softmax over adapters of query times key.",
        {
            "the scores are divided by the root of d. The library's fusion does not scale.": (
                scores / math.sqrt(states.size(-1))
            ).softmax(-1),
            "the scores are returned. The weights are their softmax.": scores,
            (
                "the softmax runs over the tokens. It should run over the adapters, separately for each token."
            ): scores.softmax(1),
            (
                "the softmax runs over the batch. It should run over the adapters, separately for each token."
            ): scores.softmax(0),
            (
                "each adapter is weighted on its own, by a sigmoid. The weights should be a softmax over the adapters."
            ): scores.sigmoid(),
            (
                "query and key are swapped. The states give the query, and the adapters' outputs give the keys."
            ): swapped.softmax(-1),
            "`query` is not applied: the states themselves are compared with the keys.": (states.unsqueeze(2) * key)
            .sum(-1)
            .softmax(-1),
            "`key` is not applied: the query is compared with the adapters' outputs themselves.": (
                query.unsqueeze(2) * outputs
            )
            .sum(-1)
            .softmax(-1),
            "the residual gives the query. The states should give it.": (
                F.linear(residual, state["query.weight"], state["query.bias"]).unsqueeze(2) * key
            )
            .sum(-1)
            .softmax(-1),
            "every adapter has the same weight. The weights should depend on query and keys.": torch.full_like(
                scores, 1 / scores.size(-1)
            ),
            "the scores are divided by d. The library's fusion does not scale.": (scores / states.size(-1)).softmax(-1),
            "logarithms of the weights are returned. They should sum to one.": scores.log_softmax(-1),
            "the biases of query and key are not used.": lambda: (
                (F.linear(states, state["query.weight"]).unsqueeze(2) * F.linear(outputs, state["key.weight"])).sum(-1)
            ).softmax(-1),
            (
                "query and key are normalized, so the scores are cosines. A score should be the plain dot product."
            ): lambda: (F.normalize(query, dim=-1).unsqueeze(2) * F.normalize(key, dim=-1)).sum(-1).softmax(-1),
            (
                "one adapter has all the weight, and the others have none. Each should get its share from the softmax."
            ): lambda: F.one_hot(right.argmax(-1), right.size(-1)).to(right),
            "the keys are computed from the values. They should come from the adapters' outputs.": lambda: (
                (query.unsqueeze(2) * F.linear(value, state["key.weight"], state["key.bias"])).sum(-1).softmax(-1)
            ),
            "the query is compared with the values. It should be compared with the keys.": lambda: (
                (query.unsqueeze(2) * value).sum(-1).softmax(-1)
            ),
            (
                "the residual is added to the adapters' outputs before the keys are computed. The "
                "keys should come from the outputs alone."
            ): lambda: (
                (query.unsqueeze(2) * F.linear(outputs + residual.unsqueeze(2), state["key.weight"], state["key.bias"]))
                .sum(-1)
                .softmax(-1)
            ),
            "the weights are averaged over the tokens. Each token should have its own.": lambda: right.mean(
                1, keepdim=True
            ).expand_as(right),
        },
    )
    mixed = wanted - residual
    expect.like(
        fused,
        wanted,
        "the fused states are not residual + the weighted sum of value(outputs).",
        {
            "the residual is not added to the fused states.": mixed,
            "the states are added in place of the residual.": mixed + states,
            "the value matrix is not used.": residual + (right.unsqueeze(-1) * outputs).sum(2),
            "the values are summed without their weights.": residual + value.sum(2),
            "the plain mean of the values is added. Multiply each value by its weight and add these up.": residual
            + value.mean(2),
            "the keys are summed, not the values.": residual + (right.unsqueeze(-1) * key).sum(2),
            "the value matrix acts on the residual too.": F.linear(residual, state["value.weight"]) + mixed,
            "only the adapter with the largest weight is used. All of them should count by their weights.": residual
            + value.gather(2, right.argmax(-1)[..., None, None].expand(*right.shape[:2], 1, value.size(-1))).squeeze(2),
            "the residual is added to each adapter's output before the value matrix. Add it at the end.": F.linear(
                residual, state["value.weight"]
            )
            + mixed,
        },
    )


def drops_scores(module: Remote, rate: float, d: int) -> None:
    """Fail unless dropout acts on the scores of a training fusion of two adapters at `rate`.

    Query and key answer in two places, each of which is half of a score, so that every score is 1, or 0 if it was
    dropped. The output of each adapter has a single 1, at its own place, so that the fused states show by which weights
    they were summed.
    """
    state = {name: torch.zeros(shape) for name, shape in fusion_shapes(d).items()}
    state["query.bias"][:2], state["key.bias"][:2] = 1.0, 0.5
    state["value.weight"] = torch.eye(d)
    module.load_state_dict(state)
    module.train()
    B, T = 200, 40  # so many that chance alone does not fail it
    outputs = torch.eye(2, d).expand(B, T, 2, d).clone()
    fused, weights = fused_pair(module(torch.zeros(B, T, d), outputs, torch.zeros(B, T, d)), B, T, 2, d)
    used = fused[..., :2]
    even, evenly = ((some - 0.5).abs().max() < 1e-5 for some in (weights, used))
    alike = (
        "dropout hits the same scores in all texts, or in all tokens of a text. Each score should be drawn on its own."
    )
    if even and evenly:  # is the score of an adapter that has more dropped together with that of the other one?
        second = torch.zeros(d, d)
        second[0, 1] = 1.0  # the second adapter has 1 more
        module.load_state_dict(state | {"key.weight": second})
        _, unequal = fused_pair(module(torch.zeros(B, T, d), outputs, torch.zeros(B, T, d)), B, T, 2, d)
        told = (
            "the scores of a token are dropped all together, as if dropout acted on the query or were drawn once for "
            "each token. Each score should be dropped on its own."
        )
        assert (unequal - unequal[0, 0]).abs().max() < 1e-5, told
        told = "in training mode no score is dropped. `dropout` should act on the scores."
        raise AssertionError(told if abs((unequal[..., 1] / unequal[..., 0]).log().mean() - 1) < 1e-3 else alike)
    whole = (weights.sum(-1) - 1).abs().max() < 1e-4
    told = (
        "what is dropped gets the weight 0, as if its score became minus infinity. Dropout should set scores to 0, and "
        "scale up those that it keeps."
    )
    assert not whole or (weights > 0).all(), told
    told = "dropout acts after the softmax. The library drops scores, so that weights still sum to one."
    assert (weights > 0).all() and whole, told
    told = (
        "in training mode the values are not summed by weights that sum to one. Dropout should act on the scores "
        "alone, not on weights, values or fused states."
    )
    assert (fused.sum(-1) - 1).abs().max() < 1e-4, told
    told = "the weights that are returned are those without dropout. They should be those of the sum."
    assert not even or evenly, told
    told = (
        "in training mode the weights that are returned are not those of the sum. Draw dropout only once, and use and "
        "return the same weights."
    )
    assert (used - weights).abs().max() < 1e-4, told
    gap = (weights[..., 0] / weights[..., 1]).log()
    assert all((gap - gap.narrow(axis, 0, 1)).abs().max() > 1e-3 for axis in (0, 1)), alike
    halves = (gap.abs() > 1e-3) & (gap.abs() < gap.abs().max() - 1e-2)
    told = (
        "parts of a score are dropped, as if dropout acted on query or key before their product. Each score should be "
        "dropped as a whole."
    )
    assert not halves.any(), told
    told = f"scores are not dropped at the rate {rate:g}. It is the argument `dropout`, and 0.1 by default."
    assert abs((gap.abs() > 1e-3).float().mean() - 2 * rate * (1 - rate)) < 0.06, told
    near = (gap.abs() < 1e-3) | ((gap.abs() - 1 / (1 - rate)).abs() < 1e-2)
    told = "in training mode the weights are not the softmax of scores that are either 0 or divided by 1 - dropout."
    assert near.all(), told


# A BERT with fused adapters, as the paper draws it


def shapes(sizes: Sizes, names: Sequence[str], classes: int = 2, head: str = "rte") -> dict[str, tuple[int, ...]]:
    """The names and shapes of all weights that the logits of a fused tiny BERT depend on."""
    d = sizes.d_model
    found: dict[str, tuple[int, ...]] = {}
    rows = {"word": sizes.vocab, "position": sizes.places, "token_type": 2}
    found |= {f"bert.embeddings.{name}_embeddings.weight": (count, d) for name, count in rows.items()}
    norms = ["bert.embeddings.LayerNorm"]
    linear: dict[str, tuple[int, int]] = {}
    for index in range(sizes.n_layers):
        layer = f"bert.encoder.layer.{index}."
        linear |= {f"{layer}attention.self.{name}": (d, d) for name in ("query", "key", "value")}
        linear |= {f"{layer}attention.output.dense": (d, d), f"{layer}intermediate.dense": (sizes.d_ff, d)}
        linear |= {f"{layer}output.dense": (d, sizes.d_ff)}
        norms += [f"{layer}attention.output.LayerNorm", f"{layer}output.LayerNorm"]
        for name in names:
            inside = f"{layer}output.adapters.{name}.adapter_"
            linear |= {f"{inside}down.0": (sizes.bottleneck, d), f"{inside}up": (d, sizes.bottleneck)}
        if names:
            fusion = f"{layer}output.adapter_fusion_layer.{','.join(names)}."
            found |= {f"{fusion}{name}": shape for name, shape in fusion_shapes(d).items()}
    linear |= {f"heads.{head}.1": (d, d), f"heads.{head}.4": (classes, d)}
    found |= {f"{name}.weight": (d,) for name in norms} | {f"{name}.bias": (d,) for name in norms}
    found |= {f"{name}.weight": shape for name, shape in linear.items()}
    return found | {f"{name}.bias": shape[:1] for name, shape in linear.items()}


def known(sizes: Sizes, names: Sequence[str], seed: int, classes: int = 2, head: str = "rte") -> State:
    """The weights that `utils.tiny_bert` gives to such a model."""
    every = shapes(sizes, names, classes, head)
    return {name: tiny_bert.weight(name, shape, seed) for name, shape in every.items()}


def linear(state: State, name: str, x: torch.Tensor) -> torch.Tensor:
    """The linear layer of that name."""
    return F.linear(x, state[f"{name}.weight"], state[f"{name}.bias"])


def norm(state: State, name: str, x: torch.Tensor) -> torch.Tensor:
    """The LayerNorm of that name, with BERT's epsilon."""
    return F.layer_norm(x, x.shape[-1:], state[f"{name}.weight"], state[f"{name}.bias"], 1e-12)


def adapter_of(state: State, where: str, name: str) -> State:
    """The weights of one adapter, under the names of 6.1."""
    inside = f"{where}adapters.{name}.adapter_"
    names = {"down": f"{inside}down.0", "up": f"{inside}up"}
    return {f"{part}.{kind}": state[f"{old}.{kind}"] for part, old in names.items() for kind in ("weight", "bias")}


def fusion_of(state: State, where: str, names: Sequence[str]) -> State:
    """The weights of one fusion, under the names of 6.3."""
    return {name: state[f"{where}adapter_fusion_layer.{','.join(names)}.{name}"] for name in fusion_shapes(1)}


def behind(
    state: State, where: str, names: Sequence[str], how: str, h: torch.Tensor, x: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """What stands behind the feed-forward part: (B, T, d), and the fusion's weights if there is a fusion.

    `how` is "fuse"; or what a wrong composition does: "none", "stack", "mean", or the name of one adapter.
    """
    plain = norm(state, f"{where}LayerNorm", h + x)
    if how == "none":
        return plain, None
    said = {name: bottleneck(adapter_of(state, where, name), plain) for name in names}
    if how in names:
        return norm(state, f"{where}LayerNorm", said[how] + h + x), None
    if how == "mean":
        averaged = (sum(said.values()) / len(said) + h) / len(said)  # the library's Average divides twice
        return norm(state, f"{where}LayerNorm", averaged + x), None
    if how == "stack":
        now = h
        for name in names:
            now = now + bottleneck(adapter_of(state, where, name), norm(state, f"{where}LayerNorm", now + x))
        return norm(state, f"{where}LayerNorm", now + x), None
    fused, weights = fuse(fusion_of(state, where, names), plain, torch.stack(list(said.values()), dim=2), h)
    return norm(state, f"{where}LayerNorm", fused + x), weights


def reference(
    state: State, sizes: Sizes, names: Sequence[str], batch: Mapping[str, torch.Tensor], how="fuse", head="rte"
) -> tuple[torch.Tensor, list[torch.Tensor | None]]:
    """The logits of a tiny BERT with these weights, and the fusion weights of each layer."""
    tokens, types = batch["input_ids"], batch["token_type_ids"]
    T, width, where = tokens.size(1), sizes.d_model // sizes.n_heads, "bert.embeddings."
    x = state[f"{where}word_embeddings.weight"][tokens] + state[f"{where}token_type_embeddings.weight"][types]
    x = norm(state, f"{where}LayerNorm", x + state[f"{where}position_embeddings.weight"][:T])
    hidden = torch.where(batch["attention_mask"][:, None, None, :] == 0, -torch.inf, 0.0)
    found = []
    for index in range(sizes.n_layers):
        layer = f"bert.encoder.layer.{index}."
        q, k, v = (
            linear(state, f"{layer}attention.self.{name}", x).unflatten(-1, (sizes.n_heads, width)).transpose(1, 2)
            for name in ("query", "key", "value")
        )
        heads = (q @ k.transpose(-2, -1) / math.sqrt(width) + hidden).softmax(-1) @ v
        read = linear(state, f"{layer}attention.output.dense", heads.transpose(1, 2).flatten(2))
        x = norm(state, f"{layer}attention.output.LayerNorm", x + read)
        h = linear(state, f"{layer}output.dense", F.gelu(linear(state, f"{layer}intermediate.dense", x)))
        x, weights = behind(state, f"{layer}output.", names, how, h, x)
        found.append(weights)
    return linear(state, f"heads.{head}.4", linear(state, f"heads.{head}.1", x[:, 0]).tanh()), found


def stepped(
    state: State,
    sizes: Sizes,
    names: Sequence[str],
    batch: Mapping[str, torch.Tensor],
    lr: float,
    head: str = "rte",
    decay: float = 0.0,
    penalty: float = 0.01,
) -> tuple[State, float]:
    """The weights after one step of SGD on fusion and head, and the loss before it."""
    learns = [name for name in state if "adapter_fusion_layer" in name or name.startswith(f"heads.{head}.")]
    leaves = {name: value.clone().requires_grad_(name in learns) for name, value in state.items()}
    with torch.enable_grad():
        logits, _ = reference(leaves, sizes, names, batch, head=head)
        values = [value for name, value in leaves.items() if is_value(name) and name in learns]
        drift = sum((value - torch.eye(sizes.d_model)).pow(2).sum() for value in values)
        loss = F.cross_entropy(logits, batch["labels"]) + penalty * drift
        slopes = torch.autograd.grad(loss, [leaves[name] for name in learns])
    moved = {name: state[name] - lr * (slope + decay * state[name]) for name, slope in zip(learns, slopes, strict=True)}
    return state | moved, loss.item()


def logits_of(model: Remote, batch: Mapping[str, torch.Tensor]) -> Any:
    """What a model of the library answers."""
    inputs = {name: value for name, value in batch.items() if name != "labels"}
    return read(model(**inputs).logits)


def is_value(name: str) -> bool:
    """Whether this is the value matrix of a fusion."""
    return "adapter_fusion_layer" in name and name.endswith("value.weight")


# 6.4

PLAIN, SMALLER = Sizes(), Sizes(vocab=23, d_model=8, n_layers=3, n_heads=2, d_ff=18, places=14, reduction=2)


def composed(compose: Remote, lib: Library, sizes: Sizes, folders: dict, seed: int, head: str, classes: int) -> Remote:
    """A tiny BERT after the student's compose, whose parts must have the names that they should."""
    model = lib(tiny_bert).bert(vars(sizes), seed)
    compose(model, folders, head, classes)
    has_parts(model, sizes, list(folders), head, classes)
    return model


def has_parts(model: Remote, sizes: Sizes, names: list[str], head: str, classes: int) -> None:
    """Fail unless a composed model has the adapters, the fusion and the head that it should."""
    state = model.state_dict()
    wanted = shapes(sizes, names, classes, head)
    every = list(state)
    assert any("adapters." in name for name in every), "after compose the model has no adapter."
    for name in names:
        assert any(f".adapters.{name}." in key for key in every), (
            f"no adapter of the model is called `{name}`. Load each adapter under its name in `folders`."
        )
    assert any("adapter_fusion_layer" in name for name in every), (
        "the model has no fusion layer. Listing the adapters in a `Fuse` does not add one."
    )
    fused = {name.partition("adapter_fusion_layer.")[2].partition(".")[0] for name in every} - {""}
    given = "`, and one of `".join(sorted(fused))
    told = f"the fusion is one of `{given}`, not of the adapters in the order of `folders`."
    assert ",".join(names) in fused, told
    assert any(name.startswith(f"heads.{head}.") for name in every), f"there is no classification head `{head}`."
    extra = [
        name.split(".")[1] for name in every if name.startswith("heads.") and not name.startswith(f"heads.{head}.")
    ]
    told = "the model also has a head `{}`. Load the adapters without their heads, and add one head, `{}`."
    assert not extra, told.format(*extra[:1], head)
    missing = [name for name in wanted if name not in state]
    assert not any(is_value(name) for name in missing), (
        "the fusion has no value matrix, as the library's static fusion. Use its default fusion."
    )
    lost = [name for name in missing if not name.startswith("heads.")]
    assert not lost, f"`{lost[0]}` is missing: each adapter, and the fusion, should be there in every layer."
    assert not missing, f"`{missing[0]}` is missing: the head should be the library's default."
    for name, shape in wanted.items():
        told = (
            f"the head has {len(state[name])} classes, not {classes}."
            if name.startswith("heads.")
            else (f"`{name}` has shape {tuple(state[name].shape)}, not {shape}.")
        )
        if ".adapters." in name:
            told += " Its folder has the other shape: load the adapter from there with `load_adapter`."
        assert tuple(state[name].shape) == shape, told


def loss_right(model: Remote, batch: dict[str, torch.Tensor], logits: torch.Tensor) -> None:
    """Fail unless the loss for the labels of a batch is the one of the library's default head."""
    told = (
        "given labels, the loss is not the cross-entropy with one class for each pair: the "
        "head is not the library's default one."
    )
    loss = expect.answers(lambda: read(model(**batch).loss), says=told)
    assert type(loss) is torch.Tensor and loss.numel() == 1, told
    expect.close(loss.float().reshape(()), F.cross_entropy(logits.float(), batch["labels"]), told)


def works(
    model: Remote, sizes: Sizes, names: list[str], origin: list[str], seed: int, head: str, classes: int, lib: Library
):
    """Fail unless a composed model computes and learns as it should.

    `origin` are the names under which the adapters were published. Fusion and head get known weights.
    """
    state = known(sizes, names, seed, classes, head)
    for new, old in zip(names, origin, strict=True):
        for name in state:
            if f".adapters.{new}." in name:
                published = name.replace(f".adapters.{new}.", f".adapters.{old}.")
                state[name] = tiny_bert.weight(published, tuple(state[name].shape), seed)
    start = model.state_dict()
    for name, value in state.items():
        if ".adapters." in name:
            assert torch.equal(start[name].float(), value), (
                "an adapter does not have the weights that its folder holds."
            )
        elif is_value(name):
            assert (start[name] - torch.eye(sizes.d_model)).abs().max() < 1e-4, (
                "the value matrix of the fusion is not the identity. The fusion should be a new one."
            )
        elif name.startswith("bert.") and "fusion" not in name:
            assert torch.equal(start[name].float(), value), "composing changed a weight of BERT itself."
    new_weights = {name: value for name, value in state.items() if "fusion" in name or name.startswith("heads.")}
    model.load_state_dict(new_weights, False)
    batch = tiny_bert.pairs(4, [(11, 6)], sizes.vocab, seed + 1)[0]
    batch["labels"] = torch.arange(4) % classes
    assert read(model.training) is True, "after compose the model is in evaluation mode: it is not ready to be trained."
    model.eval()
    told = "a forward pass of the composed model fails, or does not go through the new head."
    logits = expect.answers(logits_of, model, batch, says=told)
    assert type(logits) is torch.Tensor and logits.shape == (4, classes), (
        f"a forward pass should give the logits of the new head, a tensor of shape {(4, classes)}, not {kind(logits)}."
    )
    wrong = {
        "none": "the logits are those of BERT without adapters: the fusion is not active.",
        "stack": "the adapters are stacked, one behind the other. They should be fused.",
        "mean": "the adapters are averaged. They should be fused.",
    } | {name: f"`{name}` is the only active adapter. All of them should be fused." for name in names}
    expect.like(
        logits.float(),
        reference(state, sizes, names, batch, head=head)[0],
        "the logits are not those of BERT with the fused adapters and the new head.",
        {
            sentence: lambda how=how: reference(state, sizes, names, batch, how, head)[0]
            for how, sentence in wrong.items()
        },
    )
    loss_right(model, batch, logits)
    model.train()
    told = "after `compose`, nothing learns: every weight that the loss depends on is frozen."
    expect.answers(lib(tiny_bert).gradient_step, model, batch, 0.5, says=told)
    only_fusion(model.state_dict(), state, stepped(state, sizes, names, batch, 0.5, head, 0.1, 0)[0], head)


def still(now: State, before: State) -> None:
    """Fail unless the adapters and BERT itself are as they were."""
    groups = {
        "the adapters move while the fusion trains. The fusion and the head alone should learn.": [
            name for name in before if ".adapters." in name
        ],
        "BERT itself moves while the fusion trains. It should be frozen.": [
            name for name in before if name.startswith("bert.") and "adapter" not in name
        ],
    }
    for sentence, group in groups.items():
        for name in group:
            assert expect.near(now[name].float(), before[name], rtol=1e-5, atol=1e-6), sentence


def only_fusion(now: State, before: State, wanted: State, head: str, how: str = "with one step") -> None:
    """Fail unless training moved fusion and head, as it should, and nothing else."""

    def moved(choose: Callable[[str], bool]) -> bool:
        return any(
            not expect.near(now[name].float(), before[name], rtol=1e-5, atol=1e-6) for name in before if choose(name)
        )

    still(now, before)
    assert moved(lambda name: "fusion" in name), "the fusion does not move when the model is trained."
    assert moved(lambda name: name.startswith(f"heads.{head}.")), "the head does not move when the model is trained."
    stay = [
        name
        for name, value in wanted.items()
        if expect.near(now[name].float(), before[name]) and not expect.near(value, before[name], 1e-3, 1e-5)
    ]
    assert not stay, f"`{next(iter(stay))}` does not move. All weights of the fusion and of the head should learn."
    for name, value in wanted.items():
        told = "the value matrices" if is_value(name) else "fusion and head"
        sentence = f"after training, {told} are not where plain SGD takes them {how}."
        expect.close(now[name].float(), value, sentence, 2e-3)


@check("6.4", points=3, draws=True)
def compose(compose, lib):
    """Check that adapters from folders are fused and active, and that training moves fusion and head only."""
    names = ["sick", "mnli", "qnli"]  # not in the order of the alphabet
    folders = lib(tiny_bert).publish(names, vars(PLAIN), 3)
    with world_kept(lib, "after compose", draws=True):
        model = composed(compose, lib, PLAIN, folders, 3, "rte", 2)
    works(model, PLAIN, names, names, 3, "rte", 2, lib)


# 6.5


@check("6.5", points=3, draws=True)
def traps(pair_logits, sources, train_fusion, lib):
    """Check that token types arrive, the target is not fused, and adapters stay while the fusion trains."""
    names, sizes = ["qnli", "sick"], PLAIN
    toy = lib(tiny_bert)
    model, state = toy.fused(names, vars(sizes), 5), known(sizes, names, 5)
    model.eval()
    for batch in tiny_bert.pairs(3, [(9, 5), (12, 6)], sizes.vocab, 6):
        typed(pair_logits(model, batch), state, sizes, names, batch)
        other = batch | {"token_type_ids": 1 - batch["token_type_ids"]}
        typed(pair_logits(model, other), state, sizes, names, other)
        typed(pair_logits(model, with_zeros(batch)), state, sizes, names, with_zeros(batch))
    with model_kept(lib, model, "after `pair_logits`"):
        pair_logits(model, batch)
    model.train()
    with model_kept(lib, model, "after `pair_logits`", draws=True):
        pair_logits(model, batch)
    model.eval()
    told = "no gradient flows from the logits of `pair_logits` back to the model, so they cannot be used for training."
    assert lib(toys).needs_gradient(pair_logits, model, batch) is True, told

    cards = {"mnli": ["MNLI"], "not-rte": ["SICK"], "rte": ["RTE"], "nli-mix": ["MNLI", "RTE"], "qnli": ["QNLI"]}
    with world_kept(lib, "after sources"):
        picked(sources(cards, "RTE"), cards, "RTE")
    picked(sources(cards, "rte"), cards, "RTE", "rte")
    picked(sources(cards, "MNLI"), cards, "MNLI")
    sentence = "if every adapter has seen the target, `sources` should raise ValueError: no adapter is left."
    expect.refuses(sources, {"a": ["RTE"], "b": ["SST-2", "RTE"]}, "RTE", says=sentence)

    model = toy.fused(names, vars(sizes), 5)
    batches = tiny_bert.pairs(3, [(9, 5), (12, 6)], sizes.vocab, 7) + tiny_bert.pairs(2, [(7, 5)], sizes.vocab, 8)
    taught(train_fusion, model, state, sizes, names, batches, 0.4)
    with world_kept(lib, "after `train_fusion`", draws=True):
        losses = train_fusion(toy.fused(names, vars(Sizes(dropout=0.5)), 5), batches[:1] * 4, 0.0)
    assert type(losses) is list and len({round(float(loss), 5) for loss in losses}) > 1, (
        "the loss of a batch is the same each time, though the model has dropout: it is computed in evaluation mode. "
        "Return the loss of the step, in training mode."
    )


def with_zeros(batch: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """`batch` with the number of padding, 0, at a place in each text: the mask alone tells what is real."""
    tokens = batch["input_ids"].clone()
    tokens[:, 3] = 0
    return dict(batch) | {"input_ids": tokens}


def typed(logits: Any, state: State, sizes: Sizes, names: list[str], batch: Mapping[str, torch.Tensor]) -> None:
    """Fail unless the logits are those of the whole batch: tokens, types and mask."""
    B = len(batch["labels"])
    zeros, ones = torch.zeros_like(batch["input_ids"]), torch.ones_like(batch["input_ids"])

    def other(**changed: torch.Tensor) -> Callable[[], torch.Tensor]:
        return lambda: reference(state, sizes, names, dict(batch) | changed)[0]

    right = other()()
    expect.like(
        expect.floats(logits, (B, 2), "the logits"),
        right,
        "the logits are not those of the model on tokens, token types and mask.",
        {
            "`token_type_ids` are not passed on: the model cannot tell the two sentences apart.": other(
                token_type_ids=zeros
            ),
            "`attention_mask` is not passed on: padding is read as text.": other(attention_mask=ones),
            "the mask is computed from the token ids. A word may have the id 0: use the mask of the batch.": other(
                attention_mask=(batch["input_ids"] != 0).long()
            ),
            "neither `token_type_ids` nor `attention_mask` are passed on.": other(
                attention_mask=ones, token_type_ids=zeros
            ),
            (
                "the token types are passed as the attention mask, and the mask as token types. Pass them by name."
            ): other(attention_mask=batch["token_type_ids"], token_type_ids=batch["attention_mask"]),
            (
                "the token types are passed as the attention mask. The model's second argument is "
                "the attention mask: pass arguments by name."
            ): other(attention_mask=batch["token_type_ids"], token_type_ids=zeros),
            "probabilities are returned. The loss expects logits.": right.softmax(-1),
            "log-probabilities are returned. The loss expects logits.": right.log_softmax(-1),
        },
    )


def picked(names: Any, cards: Mapping[str, list[str]], target: str, asked: str = "") -> None:
    """Fail unless the names are those of the adapters that never saw the target, in order.

    `asked` is the target as it was given, where its letters have another case.
    """
    expect.of_type(names, list, "`sources` should return a list of names")
    strange = [name for name in names if type(name) is not str or name not in cards]
    assert not strange, "`sources` returns something that is not the name of an adapter, a key of `adapters`."
    clean = [name for name, tasks in cards.items() if target not in tasks]
    case = " Ignore upper and lower case." * bool(asked)  # else it is right
    given = f"with `target = {asked or target!r}`"
    told = f"{given} no adapter is left out. One trained on this task leaks its answers.{case}"
    assert names != list(cards), told
    told = f"{given} the adapters that saw the target are kept, and the others are left out. Keep the others."
    assert names != [name for name in cards if name not in clean], told
    leaks = [name for name in names if name in cards and target in cards[name]]
    assert not leaks or cards[leaks[0]] == [target], (
        f"`{leaks[0]}` is kept, and the target is one of several tasks that it was trained on. It leaks too."
    )
    assert not leaks, f"{given} `{leaks[0]}` is kept, although it was trained on the target.{case}"
    lost = [name for name in clean if name not in names]
    by_name = " Its list of tasks decides, not its name." if lost and target.lower() in lost[0] else ""
    assert not lost, f"`{lost[0]}` is left out, although it never saw the target.{by_name}"
    assert names == clean, "`sources` should return each name once, in the order of `adapters`."


def taught(
    train_fusion: Remote,
    model: Remote,
    state: State,
    sizes: Sizes,
    names: list[str],
    batches: list,
    lr: float,
) -> None:
    """Fail unless one epoch of the student's training moves fusion and head as it should, and nothing else."""
    try:
        losses = train_fusion(model, batches, lr)
    except StudentError as error:
        told = "nothing learns: every weight that the loss depends on is frozen, or it is computed without gradients."
        assert "does not require grad" not in str(error), told
        told = (
            "a tensor and None are added. The library's penalty is None if all value matrices are frozen: unfreeze the "
            "fusion first."
        )
        assert "'Tensor' and 'NoneType'" not in str(error), told
        raise
    expect.of_type(losses, list, "`train_fusion` should return a list of losses")
    assert len(losses) == len(batches), (
        f"there should be one loss for each of {len(batches)} batches, not {len(losses)}."
    )
    told = "the losses are tensors. Convert them to numbers: a tensor may keep its whole graph in memory."
    assert not any(type(loss) is torch.Tensor or type(loss) is Remote for loss in losses), told
    losses = [expect.number(loss, "a loss") for loss in losses]
    wanted, bare, right = state, state, []
    piled, slopes = state, {name: torch.zeros_like(value) for name, value in state.items()}
    for batch in batches:
        wanted, loss = stepped(wanted, sizes, names, batch, lr)
        right.append(loss)
        bare, _ = stepped(bare, sizes, names, batch, lr, penalty=0)
        after = stepped(piled, sizes, names, batch, lr)[0]
        slopes = {name: slope + after[name] - piled[name] for name, slope in slopes.items()}
        piled = {name: value + slopes[name] for name, value in piled.items()}
    now = model.state_dict()
    still(now, state)
    told = "gradients pile up: each step also uses those of earlier batches. Set them to zero before `backward`."
    moved = next(name for name in state if name.startswith("heads.rte.") and name.endswith("weight"))
    differs = not expect.near(wanted[moved], piled[moved], rtol=1e-2, atol=1e-4)  # not so for a single batch
    assert not differs or not expect.near(now[moved].float(), piled[moved], rtol=1e-3, atol=1e-5), told
    told = "the penalty does not move the value matrices: the loss is without it, or it is a number without gradient."
    value = next(name for name in state if is_value(name))
    assert not expect.near(now[value].float(), bare[value], atol=1e-5), told
    told = "Each should be the loss of its batch before the step, with the penalty."
    size = "large" if losses[0] > right[0] else "small"
    first = f"the first of the returned losses, {losses[0]:.4g}, is too {size}. {told}"
    expect.close(torch.tensor(losses[0]), torch.tensor(right[0]), first, 1e-3)
    only_fusion(now, state, wanted, "rte", "at the rate `lr`, with one step for each batch")
    told = f"the first of the returned losses is right, and a later one is wrong. {told}"
    expect.close(torch.tensor(losses), torch.tensor(right), told, 1e-3)


# 6.6


def read_off(
    state: State, sizes: Sizes, names: list[str], batches: list, counts: Callable[[Mapping], torch.Tensor]
) -> torch.Tensor:
    """Fusion weights (L, 2, n), averaged by sentence over the places where `counts` is true."""
    sums = torch.zeros(sizes.n_layers, 2, len(names))
    places = torch.zeros(2)
    for batch in batches:
        _, found = reference(state, sizes, names, batch)
        for sentence in (0, 1):
            here = counts(batch) & (batch["token_type_ids"] == sentence)
            places[sentence] += here.sum()
            for layer, weights in enumerate(found):
                assert weights is not None
                sums[layer, sentence] += weights[here].sum(0)
    return sums / places[:, None]


def real(batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Where a real token stands."""
    return batch["attention_mask"] == 1


def reads_weights(result: Any, state: State, sizes: Sizes, names: list[str], batches: list) -> None:
    """Fail unless the result is the mean of the fusion weights over real tokens, by layer and sentence."""
    shape = (sizes.n_layers, 2, len(names))

    def read_as(counts: Callable[[Mapping], torch.Tensor] = real, some: list = batches) -> torch.Tensor:
        return read_off(state, sizes, names, some, counts)

    def texts() -> list:
        """Each text as a batch of its own."""
        rows = [(batch, i) for batch in batches for i in range(len(batch["labels"]))]
        return [{key: value[i : i + 1] for key, value in batch.items()} for batch, i in rows]

    def blind() -> torch.Tensor:
        untyped = [batch | {"token_type_ids": torch.zeros_like(batch["token_type_ids"])} for batch in batches]
        found = [reference(state, sizes, names, plain)[1] for plain in untyped]
        return averaged([*zip(batches, found, strict=True)], sizes, len(names))

    def summed() -> torch.Tensor:
        places = [sum(((b["token_type_ids"] == s) & real(b)).sum() for b in batches) for s in (0, 1)]
        return right * torch.stack(places)[:, None]

    def later(batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        return real(batch) & (torch.arange(batch["input_ids"].size(1)) > 0)

    def shared() -> torch.Tensor:
        return summed() / sum(real(batch).sum() for batch in batches)

    right = read_as()
    expect.like(
        expect.floats(result, shape, "the weights"),
        right,
        "the weights are not the mean over the real tokens of each sentence.",
        {
            "padding is counted. Its token type is 0, so it looks like a part of the first sentence.": lambda: read_as(
                lambda batch: batch["attention_mask"] >= 0
            ),
            (
                "the weights are averaged within each batch, then over batches. Every real token should count equally."
            ): lambda: torch.stack([read_as(some=[batch]) for batch in batches]).mean(0),
            (
                "the weights are averaged within each text, then over texts. Every real token should count equally."
            ): lambda: torch.stack([read_as(some=[text]) for text in texts()]).mean(0),
            "the token ids decide which tokens are real. The mask of the batch should decide.": lambda: read_as(
                lambda batch: batch["input_ids"] != 0
            ),
            "only the last batch is read.": lambda: read_as(some=batches[-1:]),
            "only the first batch is read.": lambda: read_as(some=batches[:1]),
            "both sentences get the mean over all real tokens.": lambda: together(state, sizes, names, batches),
            "the first sentence gets the mean over the real tokens of both.": lambda: torch.stack(
                [together(state, sizes, names, batches)[:, 0], right[:, 1]], 1
            ),
            "the first token of each pair is left out. It is [CLS], a real token of the first sentence.": lambda: (
                read_as(later)
            ),
            "the special tokens are left out. Both [CLS] and [SEP] are real tokens of a sentence.": lambda: read_as(
                lambda batch: real(batch) & (batch["input_ids"] != 1) & (batch["input_ids"] != 2)
            ),
            "layers and sentences are exchanged. The layers should come first.": lambda: right.transpose(0, 1),
            "the layers are in reverse order.": right.flip(0),
            "the two sentences are swapped: the rows of the first one are in second place.": right.flip(1),
            "the layers are in the wrong order: 10 comes after 9, not after 1.": lambda: right[
                sorted(range(len(right)), key=str)
            ],
            "the token types are not passed to the model.": blind,
            "the sums are not divided by the number of tokens.": summed,
            (
                "the sum over a sentence is divided by the real tokens of both. Divide it by those of that sentence."
            ): shared,
        },
    )


def averaged(found: list, sizes: Sizes, n: int) -> torch.Tensor:
    """The mean of given fusion weights over the real tokens of each sentence."""
    result = torch.zeros(sizes.n_layers, 2, n)
    for sentence in (0, 1):
        here = [real(batch) & (batch["token_type_ids"] == sentence) for batch, _ in found]
        for layer in range(sizes.n_layers):
            rows = torch.cat([weights[layer][place] for place, (_, weights) in zip(here, found, strict=True)])
            result[layer, sentence] = rows.mean(0)
    return result


def together(state: State, sizes: Sizes, names: list[str], batches: list) -> torch.Tensor:
    """The mean over all real tokens, twice."""
    layers: list[list[Any]] = [reference(state, sizes, names, batch)[1] for batch in batches]
    rows = [
        torch.cat([found[layer][real(batch)] for batch, found in zip(batches, layers, strict=True)]).mean(0)
        for layer in range(sizes.n_layers)
    ]
    return torch.stack(rows)[:, None].expand(-1, 2, -1)


@check("6.6", points=2, draws=True)
def fusion_weights(fusion_weights, lib):
    """Check for one row of weights per layer and sentence, averaged over real tokens."""
    names, sizes = ["mnli", "qnli", "sick"], Sizes(dropout=0.3)
    model, state = lib(tiny_bert).fused(names, vars(sizes), 9), known(sizes, names, 9)
    batches = tiny_bert.pairs(3, [(12, 5)], sizes.vocab, 11) + tiny_bert.pairs(2, [(7, 5)], sizes.vocab, 12)
    model.eval()
    lib(toys).leave_gradients(model)
    with model_kept(lib, model, "after `fusion_weights`"):
        result = fusion_weights(model, batches)
    first = expect.of_type(result, torch.Tensor, "`fusion_weights` should return a tensor")
    reads_weights(result, state, sizes, names, batches)
    zeros = [with_zeros(batch) for batch in batches]
    reads_weights(fusion_weights(model, zeros), state, sizes, names, zeros)
    model, state = lib(tiny_bert).fused(names, vars(sizes), 10), known(sizes, names, 10)
    told = "for another model with the same batches, the weights of the first model are returned again."
    otherwise = "for a model in training mode, the weights are not those of evaluation mode: dropout may still act."
    with model_kept(lib, model, "after `fusion_weights`", draws=True):
        result = fusion_weights(model, batches)
        told_of_mode = "the model was in training mode before the call, and is in evaluation mode afterwards."
        assert read(model.training) is True, told_of_mode
    result = expect.floats(result, (sizes.n_layers, 2, len(names)), "the weights")
    expect.like(result, read_off(state, sizes, names, batches, real), otherwise, {told: first})


def ahead_in_pairs(share_ahead: Remote, first: list[float], other: list[float]) -> None:
    """Fail unless the share is that of all pairs."""
    pairs = [(a, b) for a in first for b in other]
    wins, ties = sum(a > b for a, b in pairs), sum(a == b for a, b in pairs)
    in_turn = [(a > b) + (a == b) / 2 for a, b in zip(first, other, strict=False)]
    share = (wins + ties / 2) / len(pairs)
    expect.number_like(
        share_ahead(first, other),
        share,
        "what `share_ahead` returns",
        "this is not the share of all pairs of runs in which the first is ahead.",
        {
            "a tie counts 0. It should count half.": wins / len(pairs),
            "a tie counts as a full win. It should count half.": (wins + ties) / len(pairs),
            "ties are left out of the pairs. A tie should count half.": wins / max(1, len(pairs) - ties),
            "the runs are compared one to one. Compare each run of `first` with each run of `other`.": sum(in_turn)
            / len(in_turn),
            "this is the share of pairs in which `other` is ahead.": 1 - share,
            "one comparison decides, as of two means. Compare each run of `first` with each run of `other`.": float(
                sum(first) / len(first) > sum(other) / len(other)
            ),
            "each run of `first` is compared with the mean of `other`. Compare it with each run of `other`.": sum(
                a > sum(other) / len(other) for a in first
            )
            / len(first),
            "equal accuracies count once. Each run counts, equal or not.": sum(
                (a > b) + (a == b) / 2 for a in {*first} for b in {*other}
            )
            / (len({*first}) * len({*other})),
            "the share is rounded. Round when you print, not before.": round(share, 2),
            "this is a percentage. The share should be between 0 and 1.": 100 * share,
            "this is the number of pairs. Divide it by the number of all pairs.": wins + ties / 2,
        },
    )


@results_check("6.7", points=4, source=rte, notebook=rte.ADAPTER_FUSION, reading=2)
def share_ahead(share_ahead):
    """The runs by their files; the share of all pairs with ties, and for lists of two lengths."""
    some = expect.draw(67)
    for first, other in (([0.5, 0.6, 0.7], [0.6, 0.4]), ([0.6], [0.6]), ([0.9, 0.2, 0.3], [0.4, 0.5])):
        ahead_in_pairs(share_ahead, first, other)
    for n, m in ((3, 7), (8, 4), (5, 5), (1, 9)):
        first, other = ([some.randint(50, 58) / 100 for _ in range(count)] for count in (n, m))
        ahead_in_pairs(share_ahead, first, other)
