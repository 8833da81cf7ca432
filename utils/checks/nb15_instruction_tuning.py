"""Checks of notebook 15: LoRA beside, in and out of a matrix, in a model; labels, rows, a step, pass@k; DPO."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from utils.checks import nb15_toys as toys
from utils.grading import expect
from utils.grading.check import check, stretch
from utils.grading.contract import Contract, has_form, sets_no_seed, world_kept
from utils.grading.expect import normal
from utils.grading.forbidden import MODELS
from utils.grading.remote import Library, Remote, called, kind, read

State = Mapping[str, torch.Tensor]

# 15.1


def beside(state: State, x: torch.Tensor, scale: float) -> torch.Tensor:
    """A linear map and its change of low rank, by their formula."""
    change = torch.einsum("mr,rn->mn", state["B"], state["A"])
    return F.linear(x, state["linear.weight"] + scale * change, state.get("linear.bias"))


LORA = Contract(
    "LoRALinear(linear, rank, alpha)(x)",
    sizes={"n": (1, 9, 2100), "m": (1, 8, 2100), "rank": (1, 7), "_a": (0, 9)},
    linear=lambda toys, seed, n, m: toys.linear(n, m, True, seed),
    alpha="= _a + 0.5",
    x="floats (..., n)",
    gives="the result: as x (..., m)",
    weights=lambda linear, rank, alpha: {
        "linear.weight": tuple(linear.weight.shape),
        "linear.bias": tuple(linear.bias.shape),
        "A": (rank, linear.in_features),
        "B": (linear.out_features, rank),
    },
    buffers=("linear.weight", "linear.bias"),  # they do not learn, see `frozen_and_fresh` for what they are
    right=lambda state, linear, rank, alpha, x: beside(state, x, alpha / rank),
    learns="x",
    low=False,
    far=1e-3,
    toys=toys,
)


def lora(
    LoRALinear: Remote, lib: Library, n: int, m: int, rank: int, alpha: float, seed: int, bias: bool = True
) -> tuple[Remote, dict[str, torch.Tensor]]:
    """A LoRALinear of the student's around a linear map of these sizes, with known weights."""
    base = lib(toys).linear(n, m, bias, seed)
    module = LoRALinear(base, rank, alpha)
    fresh = expect.state(module, "`LoRALinear`")
    shapes = {name: tuple(value.shape) for name, value in base.state_dict().items()}
    wanted = {f"linear.{name}": shape for name, shape in shapes.items()} | {"A": (rank, n), "B": (m, rank)}
    for one, other in (("A", "B"), ("B", "A")):
        if one in fresh and fresh[one].shape == wanted[one][::-1] != wanted[one]:
            turned = "rank, in" if one == "A" else "out, rank"
            raise AssertionError(f"`{one}` is ({', '.join(map(str, fresh[one].shape))}). It should be ({turned}).")
        assert other in fresh or one not in fresh or fresh[one].shape != wanted[other], (
            f"`{one}` has the shape of `{other}`."
        )
    state = expect.weights(module, wanted, "`LoRALinear`", seed=seed + 1)
    now = base.state_dict()
    told = "`linear` has a weight of its own. Keep the very module that is given, so that its weights are stored once."
    assert torch.equal(now["weight"], state["linear.weight"]), told
    return module, state


def frozen_and_fresh(LoRALinear: Remote, lib: Library, n: int, m: int, rank: int, seed: int) -> None:
    """Fail unless A and B alone learn, B begins with zeros, and A with numbers of the promised distribution."""
    base = lib(toys).linear(n, m, True, seed)
    module = LoRALinear(base, rank, 8.0)
    learns = lib(toys).learning_names(module)
    frozen = "the weight or the bias of `linear` learns. Freeze both: neither should require a gradient."
    assert not any(name.startswith("linear.") for name in learns), frozen
    for name in "AB":
        assert name in learns, f"`{name}` does not learn: it should be a parameter."
    assert sorted(learns) == ["A", "B"], "something other than `A` and `B` learns."
    fresh, bound = expect.state(module, "`LoRALinear`"), n**-0.5
    A, B = (expect.tensor(fresh[name], shape, f"`{name}`") for name, shape in (("A", (rank, n)), ("B", (m, rank))))
    assert A.any() or B.any(), "`A` and `B` are both zeros: then neither ever gets a gradient. `A` should be random."
    assert A.any() or not B.any(), "`A` is zeros and `B` is random. It should be the other way round."
    assert not B.any(), "`B` should be zeros, so that the layer begins as it was."
    slopes = lib(toys).parameter_gradients(module, normal(2, n, seed=seed + 1))
    told = "in a new layer, where `B` is zeros, no gradient reaches `B`: then it never learns."
    assert slopes["B"].any(), told
    told = "the entries of `A` should be uniform between -1/sqrt(in) and 1/sqrt(in)"
    assert A.abs().max() <= bound * 1.0001, f"{told}: some are larger."
    count = A.numel()
    equal = "many entries of `A` are equal. Draw each of them independently, in the dtype of the weight."
    assert A.unique().numel() > 0.9 * count, equal
    turned = "many entries of `A` differ only in their sign. Draw each of them independently."
    assert A.abs().unique().numel() > 0.9 * count, turned
    assert A.abs().max() >= bound * (1 - 20 / count), f"{told}: the largest are too small."
    third = bound**2 / 3  # the mean square of such numbers, whose own spread is 0.3 of bound^2
    mean, square = A.mean().item(), A.square().mean().item()
    near = abs(square - third) < 6 * 0.3 * bound**2 / count**0.5
    assert near and abs(mean) < 6 * bound / (3 * count) ** 0.5, (
        f"{told}: their mean is {mean:.3g}, and the mean of their squares is {square:.3g}."
    )
    other = expect.state(LoRALinear(lib(toys).linear(n, m, True, seed), rank, 8.0), "`LoRALinear`")["A"]
    assert not torch.equal(other, A), "two layers begin with the same `A`: draw its numbers, and set no seed."


@check("15.1", points=4, forbids=("adapters", *MODELS))
def lora_linear(LoRALinear, lib):
    """Check the change beside the frozen layer, its factor alpha / rank, what learns, and the start."""
    n, m, r, alpha = 6, 4, 3, 11.0
    module, w = lora(LoRALinear, lib, n, m, r, alpha, 1)
    x = normal(2, 5, n, seed=3)
    told = "two calls with the same x give different results. Nothing should be drawn or changed in `forward`."
    assert expect.near(module(x), module(x)), told
    base, change = F.linear(x, w["linear.weight"], w["linear.bias"]), x @ w["A"].T @ w["B"].T
    expect.like(
        expect.floats(module(x), (2, 5, m), "the result"),
        beside(w, x, alpha / r),
        "the result should be linear(x) + alpha / rank * B A x.",
        {
            "the change is missing: the result is linear(x).": base,
            "the frozen layer is missing: the result is the change alone.": alpha / r * change,
            "the change is multiplied by alpha, not by alpha / rank.": base + alpha * change,
            "the change is not multiplied by alpha / rank.": base + change,
            "the change is multiplied by rank / alpha. It should be alpha / rank.": base + r / alpha * change,
            "the change is divided by the rank, and alpha is not used.": base + change / r,
            "the change is multiplied by alpha times the rank. It should be alpha / rank.": base + alpha * r * change,
            "the change is multiplied by alpha / sqrt(rank). Here it should be alpha / rank.": base
            + alpha / r**0.5 * change,
            "`alpha / rank` multiplies the whole result. It should multiply the change alone.": alpha
            / r
            * (base + change),
            "`alpha / rank` is rounded down. It should not be.": base + alpha // r * change,
            "the change is multiplied by alpha / rank twice.": base + (alpha / r) ** 2 * change,
            "something acts between A and B, such as a ReLU. The change should be linear.": base
            + alpha / r * F.relu(x @ w["A"].T) @ w["B"].T,
            "the change is subtracted. Add it.": base - alpha / r * change,
            "the bias is added again in the change, times alpha / rank.": base
            + alpha / r * (change + w["linear.bias"]),
            "the bias is added twice.": base + w["linear.bias"] + alpha / r * change,
            "the bias is missing.": base - w["linear.bias"] + alpha / r * change,
        },
    )
    scale, merged = expect.items(lib(toys).facts_of(module), 2, "")
    assert math.isclose(scale, alpha / r), "`scale` should be alpha / rank."
    assert merged is False, "`merged` should be False at first."
    alone, again = expect.items(lib(toys).while_merged(module, x), 2, "")
    expect.close(alone, base, "while `merged` is True, `forward` should return linear(x) alone.")
    expect.close(
        again, beside(w, x, alpha / r), "once `merged` is False again, the result should have the change again."
    )
    told = "while `merged` is True, the gradient of x is not that of linear(x). The weight of `linear` is frozen, but "
    told += "gradients flow through it to x, merged or not."
    slope = torch.linspace(-1, 2, 2 * 5 * m).reshape(2, 5, m) @ w["linear.weight"]
    expect.close(expect.floats(lib(toys).slope_while_merged(module, x), (2, 5, n), "the gradient"), slope, told)
    told = "`linear` is another module. Keep the very module that is given."
    assert lib(toys).is_kept(LoRALinear, lib(toys).linear(n, m)) is True, told
    told = "making a `LoRALinear` changes the weight or the bias of `linear`. Their numbers should stay."
    assert lib(toys).leaves_its_numbers(LoRALinear, lib(toys).linear(n, m)) is True, told
    follows_b(LoRALinear, lib, 6)
    half, v = lora(LoRALinear, lib, 5, 7, 4, 1.0, 5, bias=False)
    x = normal(3, 5, seed=7)
    told = "for a layer without a bias, with rank 4 and alpha 1, the result is wrong."
    expect.close(expect.floats(expect.answers(half, x, says=told), (3, 7), "the result"), beside(v, x, 0.25), told)
    frozen_and_fresh(LoRALinear, lib, 400, 3, 16, 9)
    sets_no_seed(
        lib,
        "`LoRALinear`",
        *[lambda: LoRALinear(lib(toys).linear(n, m, True, 1), r, alpha)] * 2,
    )
    born = expect.items(lib(toys).born_with(LoRALinear, "bfloat16", "cpu"), 4, "")
    assert born[:2] == ["bfloat16", "bfloat16"], "for a layer in bfloat16, `A` and `B` should be bfloat16."
    in_bfloat16(LoRALinear, lib, 8)
    told = "`A` and `B` should be made on the device of the weight of `linear`."
    assert born_there(LoRALinear, lib), told
    for rank in (0, -1):
        expect.refuses(LoRALinear, lib(toys).linear(n, m), rank, 8.0, says=f"a rank of {rank} must raise ValueError.")
    LORA.hold(LoRALinear, lib, "values", "dtypes", "layout", "gradients", "modes", "device")


def follows_b(LoRALinear: Remote, lib: Library, seed: int) -> None:
    """Fail unless the result follows `B` where it is changed between two calls, in both modes."""
    module, state = lora(LoRALinear, lib, 5, 4, 3, 6.0, seed)
    x = normal(3, 5, seed=seed + 2)
    found = expect.items(lib(toys).after_changes(module, x), 2, "")
    for mode, factor, one in zip(("training", "evaluation"), (3, 9), found, strict=True):
        base = F.linear(x, state["linear.weight"], state["linear.bias"])
        told = f"in {mode} mode, the change is missing. Leave it out only while `merged` is True."
        assert not expect.near(one, base, 1e-4, 1e-4), told
        kept = f"in {mode} mode, the result does not follow `B`: something is kept between calls."
        before = [beside(state, x, 2.0 * old) for old in (1, factor // 3)]
        told = f"in {mode} mode, the result is wrong after `B` was changed."
        told = kept if any(expect.near(one, old, 1e-4, 1e-4) for old in before) else told
        expect.close(expect.floats(one, (3, 4), "the result"), beside(state, x, 2.0 * factor), told)


def in_bfloat16(LoRALinear: Remote, lib: Library, seed: int) -> None:
    """Fail unless a layer in bfloat16 gives bfloat16, and the right numbers as far as it holds them."""
    A, B, x = (normal(*shape, seed=seed + place).bfloat16() for place, shape in enumerate(((2, 6), (4, 2), (3, 6))))
    base = toys.linear(6, 4, True, seed, "bfloat16")
    told = "a layer in bfloat16 raises an error."
    found = expect.answers(
        lib(toys).gives_in, LoRALinear, lib(toys).linear(6, 4, True, seed, "bfloat16"), A, B, x, says=told
    )
    found = expect.tensor(found, (3, 4), "the result")
    assert found.dtype is torch.bfloat16, "for a layer in bfloat16, the result should be bfloat16."
    state = {"A": A, "B": B} | {f"linear.{name}": part for name, part in base.state_dict().items()}
    wanted = beside({name: part.float() for name, part in state.items()}, x.float(), 2.0)
    size = float(wanted.abs().max())
    told = "for a layer in bfloat16, the result is wrong."
    expect.close(found.float() / size, wanted / size, told, 0.04)


def born_there(LoRALinear: Remote, lib: Library) -> bool:
    """Whether A and B lie where the weight lies, on a device of torch's that holds no numbers."""
    told = "a layer on a device other than the CPU raises an error."
    found = expect.items(expect.answers(lib(toys).born_with, LoRALinear, "float32", "meta", says=told), 4, "")
    return found[2:] == ["meta", "meta"]


# 15.2


def merges(
    merge: Remote, unmerge: Remote, lib: Library, n: int, m: int, r: int, scale: float, seed: int, **how: Any
) -> None:
    """Fail unless a layer of these sizes is merged and unmerged as promised; `how`: its bias, dtype and mode."""
    bias, dtype = how.get("bias", True), how.get("dtype", "float32")
    layer = lib(toys).Low(n, m, r, scale, bias, seed, dtype)
    layer.train(how.get("training", True))
    x = normal(5, n, seed=seed + 1).to(getattr(torch, dtype))
    close = {"float64": 1e-11, "float32": 1e-4, "bfloat16": 0.04}[dtype]
    calls = [unmerge, merge, merge, unmerge, unmerge, merge, unmerge]
    before, *found = expect.items(lib(toys).effects(calls, layer, x), len(calls) + 1, "")
    state = before["state"]
    W, change = state["linear.weight"].double(), scale * (state["B"].double() @ state["A"].double())
    names = ["`unmerge` of a layer that was never merged", "`merge`", "a second merge", "`unmerge`", "a second unmerge"]
    names += ["merging again", "unmerging again"]
    size = float(W.abs().max() + change.abs().max())
    for place, (name, now) in enumerate(zip(names, found, strict=True)):
        merged = place in (1, 2, 5)
        weight = now["state"]["linear.weight"]
        assert now["dtype"] == dtype, f"after {name}, the weight is {now['dtype']}, not {dtype}."
        plain = {
            "`merge` does not change the weight. Add the change to it.": W,
            "the change is added without its scale. Multiply it by `scale`.": W + change / scale,
            "the change is subtracted by `merge`. Add it.": W - change,
            "the weight is replaced by the change. Add the change to it.": change,
            "the change is multiplied by `scale` twice.": W + scale * change,
        }
        guesses = {
            1: plain,
            2: {"a second merge adds the change again. It should do nothing.": W + 2 * change},
            0: {"`unmerge` subtracts from a layer that is not merged. It should do nothing.": W - change},
            3: {
                "`unmerge` does not change the weight. Subtract the change from it.": W + change,
                "`unmerge` adds the change once more. Subtract it.": W + 2 * change,
                "`unmerge` subtracts the change without its scale.": W + change - change / scale,
            },
            4: {"a second unmerge subtracts the change again. It should do nothing.": W - change},
        }.get(place, {})
        wanted = W + change if merged else W
        told = f"after {name}, the weight should be {'W + scale * B A' if merged else 'what it was at first'}."
        scaled = {sentence: guess / size for sentence, guess in guesses.items()}
        expect.like(weight.double() / size, wanted / size, told, scaled, close / 10 if dtype != "bfloat16" else close)
        assert now["merged"] is merged, f"after {name}, `merged` is {now['merged']}. It should be {merged}."
        assert now["returned"] is True, f"`{'unmerge' if 'unmerg' in name else 'merge'}` should return the layer."
        told = f"after {name}, the parameters are not those from before. Change the numbers of the weight, in place."
        assert now["same"], told
        told = f"after {name}, the weight is part of a graph. Change it while no gradients are recorded."
        assert now["plain"], told
        told = (
            f"after {name}, a parameter has other memory: tensors that shared its "
            "memory keep old numbers. Work in place."
        )
        assert now["in place"] is True, told
        assert now["learns"] == before["learns"], f"after {name}, other parameters learn than before."
        assert not now["gradients"], f"after {name}, there are gradients that were not there before."
        for part in state.keys() - {"linear.weight"}:
            assert torch.equal(now["state"][part], state[part]), (
                f"{name} changes `{part}`. It should change the weight alone."
            )
        told = f"after {name}, the output of the layer is not what it was before."
        expect.close(now["output"].double() / size, before["output"].double() / size, told, close)


def takes_turns(merge: Remote, unmerge: Remote, lib: Library, seed: int) -> None:
    """Fail unless merging follows B, the weight and `merged` where these are changed between the calls."""
    layer = lib(toys).Low(5, 4, 2, 0.5, True, seed, "float32")
    state = expect.state(layer, "the layer")
    W, change = state["linear.weight"], 0.5 * (state["B"] + 1) @ state["A"]
    set_by_hand = "where `merged` was set by hand, {} does not follow it. Go by `layer.merged` alone."
    wanted = [
        (W + change, "where B has changed since the last merge, `merge` does not add the new change."),
        (W + 1, "where 1 was added to the weight while it was merged, `unmerge` does not just subtract the change."),
        (W + 1, set_by_hand.format("`merge`")),
        (W + 1 - change, set_by_hand.format("`unmerge`")),
        (W + 1 + change, set_by_hand.format("`merge`")),
    ]
    found = expect.items(lib(toys).turned(merge, unmerge, layer), len(wanted), "")
    for one, (right, told) in zip(found, wanted, strict=True):
        expect.close(expect.floats(one, tuple(W.shape), "the weight"), right, told, 1e-4)


@check("15.2", points=2, forbids=("adapters", *MODELS))
def merging(merge, unmerge, lib):
    """Check that the change is put into the weight once, in place, and taken out again."""
    merges(merge, unmerge, lib, 6, 4, 3, 2.5, 1)
    merges(merge, unmerge, lib, 5, 5, 2, 0.3, 11, bias=False, dtype="float64")
    merges(merge, unmerge, lib, 4, 7, 1, 2.0, 21, dtype="bfloat16")
    for name, call in (("merge", merge), ("unmerge", unmerge)):
        layer, second, third = (lib(toys).Low(6, 4, 3, 0.5, True, 30, "float32") for _ in range(3))
        if name == "unmerge":
            for one in (layer, second, third):
                merge(one)
        with world_kept(lib, f"after `{name}`,"):
            call(layer)
        told = f"`{name}` changes or clears gradients that are there. It should change the weight alone."
        assert lib(toys).keeps_gradients(call, second) is True, told
        told = f"`{name}` changes the mode of the layer, training or evaluation. It should change the weight alone."
        assert lib(toys).keeps_modes(call, third) is True, told
    takes_turns(merge, unmerge, lib, 33)
    new = lib(toys).Low(6, 4, 3, 0.5, True, 34, "float32")
    new.load_state_dict(expect.state(new, "the layer") | {"B": torch.zeros(4, 3)})
    for name, call, merged in (("merge", merge, True), ("unmerge", unmerge, False)):
        call(new)
        told = f"where B is all zeros, as in a new layer, `merged` is not {merged} after `{name}`."
        assert read(new.merged) is merged, told
    assert lib(toys).twins_share(merge), "after merging, a weight that two layers shared is no longer the same in both."
    for calls in ([merge], [merge, unmerge]):
        layer = lib(toys).Merges(calls, lib(toys).Low(6, 4, 3, 0.5, True, 31, "float32"))
        expect.one_device(lib, layer, normal(2, 6, seed=32))


# 15.3


def tree_names(count: int, names: Sequence[str]) -> list[str]:
    """The full names of the linear layers of `toys.Tree` that are replaced, in the order of `named_modules()`."""
    return [name for name, part in toys.Tree(count, 3).named_modules() if name.rpartition(".")[2] in names
            and isinstance(part, nn.Linear)]  # fmt: skip


def inserts(add_lora: Remote, lib: Library, count: int, names: list[str], mode: bool = True) -> None:
    """Fail unless the linear layers of these names, and no others, are replaced in a tree of so many blocks."""
    model = lib(toys).Tree(count, 3)
    model.train(mode)
    found, wanted = lib(toys).inserted(add_lora, model, names), tree_names(count, names)
    every = {name: type(part).__name__ for name, part in toys.Tree(count, 3).named_modules()}
    for name in found["replaced"]:
        if name in wanted:
            continue
        inside = next((one for one in wanted if name.startswith(f"{one}.")), "")
        told = f"`{name}` is replaced, which is inside what `wrap` made. List all layers before you change the model."
        if name.rpartition(".")[2] not in names:
            told = f"`{name}` is replaced, which is inside what `wrap` made. Call `wrap` once for each layer."
        if len({*names}) < len(names):
            told = f"where a name is in the list twice, `{name}` is replaced, which is inside what `wrap` made."
        assert not inside, told
        told = f"`{name}` is replaced. Its last name is not in the list: compare whole names."
        assert name.rpartition(".")[2] in names, told
        raise AssertionError(f"`{name}` is replaced, which is a {every.get(name, '?')}, not an nn.Linear.")
    missing = [name for name in wanted if name not in found["replaced"]]
    if missing and all(every[name] == "Derived" for name in missing):
        raise AssertionError(f"`{missing[0]}` is not replaced. Its class is derived from nn.Linear, so it should be.")
    at_top = " It is at the top of the model: its full name has no dot." * all("." not in name for name in missing)
    assert not missing, f"`{missing[0] if missing else ''}` is not replaced.{at_top}"
    told = "`wrap` should be called once for each layer, with the layer itself."
    assert sorted(found["given"]) == sorted(wanted), told
    assert sorted(found["original"]) == sorted(wanted), "what `wrap` returns does not replace its layer."
    learns = found["learns"]
    own = [f"{name}.{part}" for name in wanted for part in ("A", "up.weight")]
    frozen = next((name for name in own if name not in learns), "")
    told = f"`{frozen}` of what `wrap` makes no longer learns. Freeze the model first, then put the new layers in."
    assert not frozen, told
    others = [name for name in learns if name not in own]
    told = f"`{others[0] if others else ''}` learns. Only parameters that learn in what `wrap` makes should learn."
    assert not others, told
    assert found["others"] and found["weights"], "modules or weights other than the replaced layers have changed."
    assert found["modes"], "the modes of the model's parts have changed."
    told = "what `wrap` makes is put into another mode, training or evaluation. It should stay as it is."
    assert found["kept modes"], told
    assert found["gradients"], "existing gradients are changed or cleared. They should stay as they are."
    returned = expect.of_type(found["returned"], list, "`add_lora` should return a list of names")
    if returned != wanted:
        assert sorted(map(str, returned)) != sorted(wanted), "the names are not in the order of `named_modules()`."
        told = "the list has last names. It should have the full ones, such as `blocks.3.attention.q_proj`."
        assert {*map(str, returned)} - {*names} or not returned, told
        raise AssertionError("the list should have the names of the layers that were replaced.")


LAYERS = ("q_proj", "k_proj", "v_proj", "out_proj", "gate", "up", "down")


def counted(c: Any, names: Sequence[str], rank: int) -> int:
    """The numbers that learn, matrix by matrix."""
    d_head = c.d_model // c.n_heads
    wide = {"q_proj": c.d_model, "out_proj": c.d_model, "gate": c.d_ff, "up": c.d_ff}
    ends = {name: (c.d_model, wide.get(name, d_head * c.n_kv_heads)) for name in LAYERS} | {"down": (c.d_ff, c.d_model)}
    return sum(rank * end for _ in range(c.n_layers) for name in {*names} for end in ends[name])


COUNT = Contract(
    "lora_count(c, names, rank)",
    sizes={"_w": (1, 20), "_m": (1, 5), "_g": (1, 4), "_L": (1, 9, 200), "_f": (1, 99, 30_000), "rank": (1, 9, 700),
           "_first": (0, 6), "_count": (1, 7)},
    c=lambda toys, seed, _w, _m, _g, _L, _f: toys.Shape(_w * _m * _g, _L, _m * _g, _m, _f),
    names=lambda toys, seed, _first, _count: [LAYERS[(_first + place) % 7] for place in range(_count)],
    gives="the count: int",
    right=counted,
    toys=toys,
)  # fmt: skip


def counts(lora_count: Remote, lib: Library) -> None:
    """Fail unless the numbers are counted as promised."""
    c = toys.Shape(24, 5, 6, 2, 40)
    theirs = lib(toys).Shape(24, 5, 6, 2, 40)
    for name in LAYERS:
        found = expect.of_type(lora_count(theirs, [name], 3), int, "`lora_count` should return an int")
        wanted, d = counted(c, [name], 3), 24
        guesses = {
            "only one block is counted: each of the blocks has its own layer.": wanted // 5,
            "only one of the two matrices of LoRA is counted. Count A and B.": 15 * d,
            f"`{name}` is counted as if it had as many columns as rows.": 15 * 2 * d,
            "the whole matrix is counted. Count LoRA's two instead.": 5 * (wanted // 15 - d) * d,
            "the rank is not used.": wanted // 3,
            "the rank, the rows and the columns are multiplied. Multiply the rank by the sum of rows and columns.": (
                15 * d * (wanted // 15 - d)
            ),
        }
        if name in ("k_proj", "v_proj"):
            guesses[f"`{name}` is counted as if it had a single head. It maps to n_kv_heads heads."] = 15 * (d + d // 6)
            guesses[f"`{name}` is counted as if heads were 1 wide. Each head is d / n_heads wide."] = 15 * (d + 2)
        expect.explained(found, wanted, f"the count for `{name}` alone is wrong.", guesses)
    told = "the count for several names should be the sum of their counts."
    expect.explained(lora_count(theirs, [*LAYERS], 2), counted(c, LAYERS, 2), told, {})
    expect.explained(lora_count(theirs, [], 2), 0, "for no names, the count should be 0.", {})
    told, once, found = (
        "a name that occurs twice in the list",
        counted(c, ["up"], 2),
        lora_count(theirs, ["up", "up"], 2),
    )
    told += " counts twice. Count it once." if found == 2 * once else " should count once."
    expect.explained(found, once, told, {})
    for name in ("head", "proj", "q_proj.weight", ""):
        expect.refuses(lora_count, theirs, ["up", name], 2, says=f"the name {name!r} must raise ValueError.")


@check("15.3", points=4, forbids=("adapters", *MODELS))
def inserting(add_lora, lora_count, lib):
    """Check that linear layers are chosen by their last name, the rest is frozen, and how many numbers learn."""
    inserts(add_lora, lib, 2, ["q_proj", "v_proj"])
    inserts(add_lora, lib, 3, ["down", "up"], False)
    model = lib(toys).Tree(1, 3)
    with world_kept(lib, "after `add_lora`,"):
        add_lora(model, ["up", "down"], lib(toys).plain)
    has_form(lib, "list[str]", "the result of `add_lora`", add_lora, lib(toys).Tree(1, 3), ["up"], lib(toys).plain)
    inserts(add_lora, lib, 12, ["k_proj", "head"])
    inserts(add_lora, lib, 1, [])
    inserts(add_lora, lib, 1, ["up", "v_proj", "up"])
    for names in (["q_proj", "gate"], ["proj"], ["blocks.0.attention.q_proj"], ["q_proj", "up_proj"], ["expert"]):
        refused, same, learns = expect.items(lib(toys).left_alone(add_lora, lib(toys).Tree(2, 3), names), 3, "")
        assert refused is True, (
            f"`add_lora` must raise ValueError for `{names}`: one of them is not the last name of any nn.Linear."
        )
        told = f"For `{names}`, a call that is refused has changed the model. Look at all names first."
        assert same is True and learns is True, told
    counts(lora_count, lib)


# 15.4

ROLES = ("system", "user", "assistant")
START, END = "<|im_start|>", "<|im_end|>"


def written(
    messages: Sequence[Sequence[str]], encode: Callable[[str], list[int]], learned: Callable[[str, int], bool]
) -> tuple[list[int], list[int]]:
    """Tokens and labels, where piece 0, 1 or 2 of a message of a role has labels if `learned(role, piece)`."""
    tokens, labels = list[int](), list[int]()
    for role, text in messages:
        for place, piece in enumerate((f"{START}{role}\n", text + END, "\n")):
            some = encode(piece)
            tokens.extend(some)
            labels.extend(some if learned(role, place) else [-100 for _ in some])
    return tokens, labels


def is_answer(role: str, piece: int) -> bool:
    """Whether a piece of a message has labels."""
    return role == "assistant" and piece == 1


def some_messages(count: int, seed: int, most: int = 9) -> list[tuple[str, str]]:
    """So many made-up messages of all roles, the last one of the assistant."""
    pick = expect.draw(seed)
    roles = [pick.choice(ROLES) for _ in range(count - 1)] + ["assistant"]
    return [(role, "".join(pick.choice("abc \n<|>é7") for _ in range(pick.randint(0, most)))) for role in roles]


TEMPLATE = Contract(
    "tokens_and_labels(messages, encode)",
    sizes={"N": (1, 7, 520), "_most": (0, 9, 300)},
    messages=lambda toys, seed, N, _most: some_messages(N, seed, _most),
    encode=lambda toys, seed: toys.pieces,
    gives="the tokens: list; the labels: list",
    right=lambda messages, encode: written(messages, encode, is_answer),
    toys=toys,
)


def writes(tokens_and_labels: Remote, lib: Library, messages: list[tuple[str, str]]) -> None:
    """Fail unless a dialogue becomes the tokens and labels that it should."""
    found = expect.items(
        tokens_and_labels(messages, lib(toys).pieces), 2, "`tokens_and_labels` should return two lists"
    )
    tokens, labels = (expect.of_type(one, list, "tokens and labels should be lists") for one in found)
    wanted, right = written(messages, toys.pieces, is_answer)
    forms = {
        "the whole text is encoded at once. Encode each of the three pieces of a message by itself.": toys.pieces(
            "".join(f"{START}{role}\n{text}{END}\n" for role, text in messages)
        ),
        "the text and the line break after it are encoded as one piece. Encode each of the three by itself.": in_pieces(
            messages, "{start}{role}\n", "{text}{end}\n"
        ),
        "messages with an empty text are left out. They are messages like all others.": in_pieces(
            [one for one in messages if one[1]], "{start}{role}\n", "{text}{end}", "\n"
        ),
        "blank space at the ends of texts is lost. Leave texts as they are.": in_pieces(
            [(role, text.strip()) for role, text in messages], "{start}{role}\n", "{text}{end}", "\n"
        ),
        "each message is encoded as one piece. Encode each of its three pieces by itself.": in_pieces(
            messages, "{start}{role}\n{text}{end}\n"
        ),
        "the line break after `<|im_end|>` is missing.": in_pieces(messages, "{start}{role}\n", "{text}{end}"),
        "the line break after the role is missing.": in_pieces(messages, "{start}{role}", "{text}{end}", "\n"),
        "`<|im_end|>` is missing.": in_pieces(messages, "{start}{role}\n", "{text}", "\n"),
        "`<|im_end|>` is encoded with the line break, not with the text.": in_pieces(
            messages, "{start}{role}\n", "{text}", "{end}\n"
        ),
        "the start of another answer is added at the end. The dialogue should end with its last message.": [
            *wanted, *toys.pieces(f"{START}assistant\n"),
        ],
    }  # fmt: skip
    told = "the tokens should be those of the three pieces of each message, one after the other."
    told += "" if tokens == wanted else first_piece(tokens_and_labels, lib, messages)
    expect.explained(tokens, wanted, told, forms)
    told = f"for {len(tokens)} tokens, there are {len(labels)} labels. There should be as many labels as tokens."
    assert len(labels) == len(tokens), told
    ignored = "the labels should be the tokens of the answers, and -100 elsewhere."
    wrong = [place for place, pair in enumerate(zip(labels, right, strict=True)) if pair[0] != pair[1]]
    if wrong and type(labels[wrong[0]]) is int:
        ignored += f" For `{messages}`, the first wrong label is at `[{wrong[0]}]`. There your code has "
        ignored += f"{labels[wrong[0]]}, and {right[wrong[0]]} is right."
    shifted = [*right[1:], -100]
    guesses = {
        "all tokens have a label. Only those of answers should.": wanted,
        f"in a dialogue of {', '.join(role for role, _ in messages)}, no token has a label.": [-100] * len(wanted),
        "the labels are shifted. Shift them in the loss, not here.": shifted,
        "the labels are shifted to the right. They should not be shifted here.": [-100, *right[:-1]],
        "the questions have labels, and not the answers.": written(
            messages, toys.pieces, lambda r, p: r == "user" and p == 1
        )[1],
        "every message has labels. Only those of the assistant should.": written(
            messages, toys.pieces, lambda r, p: p == 1
        )[1],
        "the start of an answer, with its role, has labels. The model is given the start, so it needs none.": written(
            messages, toys.pieces, lambda r, p: r == "assistant" and p < 2
        )[1],
        "the line break after an answer has a label. The answer ends with `<|im_end|>`.": written(
            messages, toys.pieces, lambda r, p: r == "assistant" and p > 0
        )[1],
        "the whole message of the assistant has labels. Only its middle piece should.": written(
            messages, toys.pieces, lambda r, p: r == "assistant"
        )[1],
        "labels outside the answers are 0. They should be -100.": [0 if one == -100 else one for one in right],
        "labels outside the answers are -1. They should be -100.": [-1 if one == -100 else one for one in right],
        "labels are 1 for answers and 0 elsewhere. They should be the token numbers, and -100.": [
            int(one != -100) for one in right
        ],
        "`<|im_end|>` has no label. A model that never learns `<|im_end|>` never stops.": without_end(messages),
        "only the last answer has labels. All answers should.": last_answer(messages),
        "the answers after the first have no labels. All should.": last_answer(messages, first=True),
        "an answer without a text has no labels. It should, for its `<|im_end|>`.": [
            label
            for role, text in messages
            for label in written([(role, text)], toys.pieces, is_answer if text else lambda r, p: False)[1]
        ],
    }
    ends = [
        place
        for place, one in enumerate(right)
        if one != -100 and (place + 1 == len(right) or right[place + 1] == -100)
    ]
    open_ended = [-100 if place in ends else one for place, one in enumerate(right)]
    guesses["the last token of the answer has no label. A model that never learns `<|im_end|>` never stops."] = (
        open_ended
    )
    expect.explained(labels, right, ignored, guesses)


def first_piece(tokens_and_labels: Remote, lib: Library, messages: list[tuple[str, str]]) -> str:
    """A sentence about the first piece of a dialogue that `encode` is wrongly given, "" if there is none."""
    asked = lib(toys).encoded(tokens_and_labels, messages, 0)["asked"]
    right = [piece for role, text in messages for piece in (f"{START}{role}\n", text + END, "\n")]
    place = next((k for k, pair in enumerate(zip(asked, right, strict=False)) if pair[0] != pair[1]), None)
    if place is not None:
        came = f"call {place + 1} of `encode` is given `{asked[place][:60]!r}`. It should be given `{right[place]!r}`."
        return f" For `{messages}`, {came}"
    if len(asked) != len(right):
        return f" For `{messages}`, `encode` is called {len(asked)} times. It should be called {len(right)} times."
    return f" For `{messages}`, `encode` is given the right pieces, but its tokens are not returned as they are."


def in_pieces(messages: Sequence[tuple[str, str]], *forms: str) -> list[int]:
    """The tokens of a dialogue whose messages are cut into pieces of these forms."""
    return [
        token
        for role, text in messages
        for form in forms
        for token in toys.pieces(form.format(start=START, end=END, role=role, text=text))
    ]


def without_end(messages: Sequence[tuple[str, str]]) -> list[int]:
    """Labels of the texts of the answers alone, without their ends."""
    labels = []
    for role, text in messages:
        start, middle, rest = (len(toys.pieces(piece)) for piece in (f"{START}{role}\n", text + END, "\n"))
        learned = toys.pieces(text) if role == "assistant" else []
        labels += [-100] * start + learned + [-100] * (middle - len(learned) + rest)
    return labels


def last_answer(messages: Sequence[tuple[str, str]], first: bool = False) -> list[int]:
    """Labels of the last answer alone, or of the first."""
    places = [place for place, (role, _) in enumerate(messages) if role == "assistant"]
    which = places[0 if first else -1]
    parts = [
        written([one], toys.pieces, lambda r, p, here=place == which: here and is_answer(r, p))  # type: ignore[misc]
        for place, one in enumerate(messages)
    ]
    return [label for _, labels in parts for label in labels]


def mean_loss(logits: torch.Tensor, labels: torch.Tensor, shift: int = 1) -> torch.Tensor:
    """The mean loss of the labels that count, one by one, each compared with the logits `shift` places before."""
    logs = logits.log_softmax(-1)
    B, T = labels.shape
    places = [(b, t) for b in range(B) for t in range(shift, T) if labels[b, t] != -100]
    return -sum(logs[b, t - shift, labels[b, t]] for b, t in places) / len(places)  # type: ignore[operator, return-value]


def some_labels(seed: int, B: int, T: int, V: int) -> torch.Tensor:
    """Labels (B, T) below V, many of them -100, and the last of the first row not."""
    numbers = expect.generator(seed)
    labels = torch.randint(V, (B, T), generator=numbers)
    labels[torch.rand(B, T, generator=numbers) < 0.5] = -100
    labels[0, -1] = torch.randint(V, (1,), generator=numbers)
    return labels


LOSS = Contract(
    "answer_loss(logits, labels)",
    sizes={"B": (1, 4, 70), "T": (2, 7, 90), "V": (2, 9, 5000)},
    logits="floats (B, T, V)",
    _ids="ids (B, T) below V",
    _kept="bools (B, T)",
    _rows="ids (B, 1) below 3",  # a third of the rows but the first have no label; the first has its last one
    _some="= _kept & (_rows > 0)",
    labels="= _ids.masked_fill(~_some.flatten().index_fill(0, _rows[0] * 0 + T - 1, True).view(B, T), -100)",
    gives="the loss: float (one number)",
    right=mean_loss,
    learns="logits",
)


def loses(answer_loss: Remote, lib: Library) -> None:
    """Fail unless the loss is that of the answers' tokens alone."""
    logits = 2 * normal(3, 6, 5, seed=41)
    labels = torch.tensor([[2, -100, 1, 3, -100, 4], [-100, -100, -100, 0, 0, -100], [3, 2, 1, 4, 4, 4]])
    wanted = mean_loss(logits, labels)
    each = F.cross_entropy(logits[:, :-1].transpose(1, 2), labels[:, 1:], ignore_index=-100, reduction="none")
    counts = (labels[:, 1:] != -100).sum(1)
    guesses = {
        "the labels are not shifted: the logits at t should predict token t + 1.": F.cross_entropy(
            logits.flatten(0, 1), labels.flatten()
        ),
        "the loss is shifted twice.": mean_loss(logits, labels, 2),
        "the shift goes the wrong way.": F.cross_entropy(logits[:, 1:].flatten(0, 1), labels[:, :-1].flatten()),
        "the losses are summed. Take their mean.": each.sum(),
        "the sum is divided by all tokens. Divide by those that have a label.": each.sum() / each.numel(),
        "the sum is divided by the number of all labels, including the first of each row, which never counts.": (
            each.sum() / (labels != -100).sum()
        ),
        "the sum is divided by the number of rows. Divide by the number of labels that count.": each.sum() / 3,
        "the loss is the mean of the rows' means. All labels of the batch should count alike.": (
            each.sum(1) / counts
        ).mean(),
        "labels of 0 are ignored. Ignore only -100.": F.cross_entropy(
            logits[:, :-1].flatten(0, 1), torch.where(labels == 0, -100, labels)[:, 1:].flatten()
        ),
        "the rows run into each other: shift within each row.": F.cross_entropy(
            logits.flatten(0, 1)[:-1], labels.flatten()[1:]
        ),
        "the loss has the wrong sign.": -wanted,
    }
    found = answer_loss(logits, labels)
    assert type(found) is torch.Tensor and found.numel() == 1, (
        f"the loss should be a tensor with one number, not {kind(found)}."
    )
    told = "the loss should be the mean over all labels but -100, each compared with the logits one place before."
    expect.like(found.reshape(()).float(), wanted.reshape(()), told, guesses)
    sure = 200 * F.one_hot(torch.tensor([[1, 1, 1, 2], [3, 3, 3, 3]]), 5).float()  # surely right where labels are these
    labels = torch.tensor([[-100, 1, 1, 3], [3, 3, -100, 3]])
    told = "where the model is sure of some labels, the mean is wrong: labels with a loss of 0 should count too."
    found, wanted = expect.floats(answer_loss(sure, labels).reshape(()), (), "the loss"), mean_loss(sure, labels)
    otherwise = "where the logits are 200 for one token and 0 for the others, the loss is wrong."
    expect.like(found, wanted, otherwise, {told: 5 * wanted}, once=True)  # one label of five has a loss
    for dtype in (torch.bfloat16, torch.float16):
        wide, marks, name = (30 + 3 * normal(2, 40, 9, seed=42)).to(dtype), some_labels(43, 2, 40, 9), str(dtype)[6:]
        rough = answer_loss(wide, marks)
        told = (
            f"for logits in {name}, the loss is {str(rough.dtype)[6:]}. Compute it "
            "in float32, and return it in float32."
        )
        assert type(rough) is torch.Tensor and rough.dtype in (torch.float32, torch.float64), told
        found, wanted = expect.floats(rough.reshape(()), (), "the loss"), mean_loss(wide.float(), marks)
        told = f"for logits in {name}, the loss is too rough. Compute it in float32."
        if not expect.near(found, wanted, 1e-4, 1e-4):
            in_float32 = answer_loss(wide.float(), marks).reshape(())
            told = told if expect.near(in_float32, wanted, 1e-4, 1e-4) else "for logits of about 30, the loss is wrong."
        expect.close(found, wanted, told, 1e-4)
    for labels in (torch.full((2, 4), -100), torch.tensor([[3, -100, -100]])):
        told = "if no label counts, `answer_loss` should raise ValueError: a mean of nothing does not exist."
        if (labels[:, 0] != -100).any():
            told = "if a row's first label is the only one, `answer_loss` should raise ValueError: it never counts."
        expect.refuses(answer_loss, normal(*labels.shape, 5, seed=44), labels, says=told)
    one_of_two = torch.tensor([[3, -100, -100], [-100, 2, 1]])
    told = "one row without a label must not raise ValueError where another one has labels."
    expect.answers(answer_loss, normal(2, 3, 5, seed=45), one_of_two, says=told, kinds=("ValueError",))
    LOSS.hold(answer_loss, lib, "values", "dtypes", "layout", "gradients", "device")


def encodes(tokens_and_labels: Remote, lib: Library, messages: list[tuple[str, str]]) -> None:
    """Fail unless `encode` is called as promised, whichever it is, and what it gives stays as it is."""
    for more in (0, 5000):
        report = lib(toys).encoded(tokens_and_labels, messages, more)
        assert report["kept"] is True, "a list that `encode` gave is changed. Leave what is given as it is."
        wanted = [*written(messages, partial(toys.larger_pieces, more=more), is_answer)]
        found = expect.items(report["found"], 2, "`tokens_and_labels` should return two lists")
        told = "with another `encode`, the tokens or labels are wrong"
        old = written(messages, toys.pieces, is_answer)[0] if more else []
        earlier = type(found[0]) is list and any(token in old for token in found[0])
        told += ": remember nothing from earlier calls." if earlier else "."
        expect.explained(found, wanted, told, {})
        asked = [piece for role, text in messages for piece in (f"{START}{role}\n", text + END, "\n")]
        told = "`encode` should be called for the three pieces of a message, then for those of the next."
        expect.explained(report["asked"], asked, told, {})


@check("15.4", points=4, forbids=("apply_chat_template", *MODELS))
def template(tokens_and_labels, answer_loss, lib):
    """Check the template's pieces, labels for answers only, one shift, and a mean over tokens."""
    writes(tokens_and_labels, lib, [("user", "one more"), ("assistant", "[5]")])
    several = [
        ("system", "be brief"),
        ("user", "a"),
        ("assistant", "bc"),
        ("user", "d e"),
        ("assistant", ""),
        ("user", "hi"),
        ("assistant", "j"),
        ("user", "f"),
    ]
    writes(tokens_and_labels, lib, [("user", " a"), ("assistant", "\n b \n")])
    writes(tokens_and_labels, lib, several)
    encodes(tokens_and_labels, lib, several)
    marked = [("user", f"a{END}\n{START}assistant\nb"), ("assistant", f"c{END}\n{START}user\nd")]
    found = expect.items(tokens_and_labels(marked, lib(toys).pieces), 2, "`tokens_and_labels` should return two lists")
    told = "where a text has the marks of the template in it, the {} are wrong. {}"
    wanted = written(marked, toys.pieces, is_answer)
    expect.explained(found[0], wanted[0], told.format("tokens", "Leave texts as they are."), {})
    told = told.format("labels", "They depend on the role and on which of the three pieces it is.")
    expect.explained(found[1], wanted[1], told, {})
    found = expect.items(
        tokens_and_labels([("user", "x")], lib(toys).pieces), 2, "`tokens_and_labels` should return two lists"
    )
    labels = expect.of_type(found[1], list, "the labels should be a list")
    told = "for a dialogue without an answer, the labels should be -100 for each token."
    assert {*labels} == {-100}, told
    for role in ("tool", "Assistant", ""):
        says = f"the role {role!r} must raise ValueError."
        expect.refuses(tokens_and_labels, [("user", "x"), (role, "y")], lib(toys).pieces, says=says)
    loses(answer_loss, lib)


# 15.5


def some_examples(count: int, first: int, seed: int) -> list[tuple[list[int], list[int]]]:
    """Dialogues of `first`, first + 1, ... tokens, in any order; a label is its token or -100."""
    pick, found = expect.draw(seed), []
    for length in pick.sample(range(first, first + count), count):
        tokens = [pick.randrange(1000) for _ in range(length)]
        found.append((tokens, [token if pick.random() < 0.6 else -100 for token in tokens]))
    return found


def in_a_row(examples: Sequence[tuple[list[int], list[int]]]) -> tuple[torch.Tensor, ...]:
    """One row of these dialogues, token by token."""
    tokens = [token for some, _ in examples for token in some]
    labels = [-100 if place == 0 else label for _, some in examples for place, label in enumerate(some)]
    where = [(which, place) for which, (some, _) in enumerate(examples) for place in range(len(some))]
    which, place = torch.tensor(where).T
    seen = (which[:, None] == which[None]) & (place[:, None] >= place[None])
    return torch.tensor([tokens]), torch.tensor([labels]), place[None].contiguous(), seen[None]


PACK = Contract(
    "pack(examples)",
    sizes={"N": (1, 6, 40), "T": (1, 9, 500)},
    examples=lambda toys, seed, N, T: some_examples(N, T, seed),
    gives="the tokens: int64 (1, N * T + N * (N - 1) // 2); the labels: int64 (1, N * T + N * (N - 1) // 2);"
    "the positions: int64 (1, N * T + N * (N - 1) // 2);"
    "`seen`: bool (1, N * T + N * (N - 1) // 2, N * T + N * (N - 1) // 2)",
    right=in_a_row,
)


@check("15.5", points=3, forbids=MODELS)
def packing(pack, lib):
    """Check that positions begin again, no token sees another dialogue, and no dialogue's start has a label."""
    examples = [([5, 9, 2], [5, 9, 2]), ([7, 8], [-100, 8]), ([4, 8, 6, 3], [-100, -100, 6, 3]), ([1], [1])]
    row = expect.items(pack(examples), 4, "`pack` should return tokens, labels, positions and `seen`")
    wanted = in_a_row(examples)
    names = ("the tokens", "the labels", "the positions", "`seen`")
    whole = torch.tensor([[label for _, some in examples for label in some]])
    causal = torch.ones(10, 10).tril().bool()[None]
    block = torch.block_diag(*(torch.ones(len(some), len(some)) for some, _ in examples)).bool()[None]
    guesses: list[dict[str, torch.Tensor]] = [
        {},
        {
            "a dialogue's first label is kept: the last token of the dialogue before would learn to predict it.": whole,
            "the first label of the row is kept. It should be -100 in the first dialogue too.": torch.cat(
                [whole[:, :1], wanted[1][:, 1:]], 1
            ),
            "only the first label of the row is -100. The first one of every dialogue should be.": torch.cat(
                [torch.tensor([[-100]]), whole[:, 1:]], 1
            ),
            "the labels are shifted. Shift them in the loss, not here.": wanted[1].roll(-1, 1),
            "a dialogue's last label is -100. Its first one should be.": torch.tensor(
                [[label for _, some in examples for label in [*some[:-1], -100]]]
            ),
        },
        {
            "the positions run through the row. They should begin at 0 in each dialogue.": torch.arange(10)[None],
            "the positions begin at 1. They should begin at 0 in each dialogue.": wanted[2] + 1,
            (
                "the positions are the numbers of the dialogues. They should count the tokens of each dialogue."
            ): torch.tensor([[0, 0, 0, 1, 1, 2, 2, 2, 2, 3]]),
        },
        {
            "tokens see earlier dialogues. They should see only their own.": causal,
            "tokens see what comes after them. They should not.": block,
            "`seen` is the wrong way round: it is True where nothing may be seen.": ~wanted[3],
            "tokens see what comes after them, and not what comes before: the mask is transposed.": wanted[3].mT,
            "a token does not see itself. It should.": wanted[3] & ~torch.eye(10).bool(),
            "every token sees the whole row. It should see itself and earlier tokens of its dialogue.": torch.ones(
                1, 10, 10
            ).bool(),
        },
    ]
    for name, found, right, some in zip(names, row, wanted, guesses, strict=True):
        be = "is" if name == "`seen`" else "are"
        assert type(found) is torch.Tensor, f"{name} should be a tensor, not {kind(found)}."
        shape = tuple(right.shape)
        assert found.shape == shape, (
            f"{name} {'has' if be == 'is' else 'have'} shape {tuple(found.shape)}, not {shape}."
        )
        assert found.dtype is right.dtype, f"{name} {be} {str(found.dtype)[6:]}, not {str(right.dtype)[6:]}."
        otherwise = f"for dialogues of 3, 2, 4 and 1 tokens, {name} {be} wrong."
        explained = {told: guess.long() for told, guess in some.items()}
        expect.like(found.long(), right.long(), otherwise, explained, 1e-9)
    even = [([3, 5], [3, -100]), ([6, 4], [-100, 4]), ([7], [7]), ([2, 8], [2, 8]), ([9], [9])]
    packs(pack, even, "for dialogues of equal length")
    alike = [([3, 5], [3, -100]), ([5, 3], [-100, 3]), ([7], [7]), ([3, 5], [3, 5]), ([9], [9])]
    packs(pack, alike, "for dialogues that have tokens in common")
    packs(pack, [([3, 5], [-100, 5])] * 3, "for dialogues that are equal")
    packs(pack, [([0, 5], [0, 5]), ([3, 0, 0], [3, 0, -100])], "for dialogues with the token 0 in them")
    packs(pack, [([place], [place]) for place in range(300)], "for 300 dialogues of one token each")
    large = [([2**40 + 1, 3, 70_001], [2**40 + 1, -100, 70_001]), ([40_001, 2**31], [-100, 2**31])]
    packs(pack, large, "for large token numbers")
    packs(pack, [([3, 5, 8], [2, 9, 8]), ([5, 4], [5, 7])], "for labels that are other numbers than the tokens")
    PACK.hold(pack, lib, "memory")


def packs(pack: Remote, examples: list[tuple[list[int], list[int]]], when: str) -> None:
    """Fail unless these dialogues become the row that they should; `when` begins the sentence."""
    row = expect.items(pack(examples), 4, "`pack` should return tokens, labels, positions and `seen`")
    right = in_a_row(examples)
    for name, found, wanted in zip(("tokens", "labels", "positions"), row, right, strict=False):
        told = f"{when}, the {name} are wrong."
        assert type(found) is torch.Tensor and torch.equal(found, wanted), told
    seen, wanted = row[3], right[3]
    told = f"{when}, `seen` is wrong."
    assert type(seen) is torch.Tensor and seen.dtype is torch.bool and seen.shape == wanted.shape, told
    assert not (seen & ~(wanted | wanted.mT)).any(), f"{when}, some tokens see tokens of another dialogue."
    assert torch.equal(seen, wanted), told


# 15.6

Batch = tuple[torch.Tensor, torch.Tensor]


def batches_of(sizes: Sequence[tuple[int, int]], V: int, seed: int, share: float = 0.5) -> list[Batch]:
    """Batches (B, T) of tokens below V, with labels at about this share of the places, one at least in the first."""
    found = []
    for place, (B, T) in enumerate(sizes):
        numbers = expect.generator(seed + place)
        tokens = torch.randint(V, (B, T), generator=numbers)
        labels = torch.where(torch.rand(B, T, generator=numbers) < share, tokens, -100)
        if place == 0:
            labels[0, -1] = tokens[0, -1]
        found.append((tokens, labels))
    return found


def sums_of(model: Any, batches: Sequence[Batch]) -> tuple[list[torch.Tensor], list[int]]:
    """The summed losses of each batch, and how many labels count."""
    losses, counts = [], []
    for tokens, labels in batches:
        logits = model(tokens)[0][:, :-1]
        each = F.cross_entropy(logits.transpose(1, 2), labels[:, 1:], ignore_index=-100, reduction="none")
        losses.append(each.sum())
        counts.append(int((labels[:, 1:] != -100).sum()))
    return losses, counts


Weigh = Callable[[list[torch.Tensor], list[int]], torch.Tensor]


def whole_mean(losses: list[torch.Tensor], counts: list[int]) -> torch.Tensor:
    """The mean over all labels of all batches."""
    return torch.stack(losses).sum() / sum(counts)


def after_step(
    state: State,
    V: int,
    d: int,
    batches: Sequence[Batch],
    clip: float,
    lr: float,
    weigh: Weigh = whole_mean,
    **how: Any,
) -> tuple[float, dict[str, torch.Tensor]]:
    """Return the loss, and the weights after a step of gradient descent.

    how: `stale` adds gradients of ones; `each` clips the gradients of each batch separately, or, if it is "sum", what
    has been added up after each batch; `frozen` updates only the head; `value` clips each entry; `least` makes short
    gradients as long as the clip. `groups` is for `toys.stepped` and does not change the step here.
    """
    model = toys.Guesser(V, d, 0)
    model.load_state_dict(state)
    parts = list(model.head.parameters() if how.get("frozen") else model.parameters())
    with torch.enable_grad():
        losses, counts = sums_of(model, batches)
        loss = weigh(losses, counts)
        if how.get("each"):
            slopes = [torch.zeros_like(part) for part in parts]
            for one in losses:
                if one.requires_grad:
                    own = torch.autograd.grad(one / sum(counts), parts, retain_graph=True, allow_unused=True)
                    if how["each"] == "sum":
                        added = [total + one for total, one in zip(slopes, present(own, parts), strict=True)]
                        slopes = clipped(added, parts, clip)
                    else:
                        alone = clipped(own, parts, clip)
                        slopes = [total + part for total, part in zip(slopes, alone, strict=True)]
        else:
            own = torch.autograd.grad(loss, parts, allow_unused=True)
            stale = 1.0 if how.get("stale") else 0.0
            own = tuple(stale + whole for whole in present(own, parts))
            slopes = [one.clamp(-clip, clip) for one in own] if how.get("value") else clipped(own, parts, clip)
            if how.get("least"):
                norm = torch.stack([one.square().sum() for one in slopes]).sum().sqrt()
                slopes = [one * clip / (norm + 1e-6) for one in slopes]
    with torch.no_grad():
        for part, slope in zip(parts, slopes, strict=True):
            part -= lr * slope
    return loss.item(), {name: part.detach() for name, part in model.state_dict().items()}


def present(slopes: Sequence[torch.Tensor | None], parts: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Gradients, zeros where there is none."""
    return [torch.zeros_like(part) if one is None else one for one, part in zip(slopes, parts, strict=True)]


def clipped(slopes: Sequence[torch.Tensor | None], parts: Sequence[torch.Tensor], clip: float) -> list[torch.Tensor]:
    """Gradients whose norm together is at most `clip`."""
    found = present(slopes, parts)
    norm = torch.stack([one.square().sum() for one in found]).sum().sqrt()
    return [one * min(1.0, clip / (float(norm) + 1e-6)) for one in found]


def means(losses: list[torch.Tensor], counts: list[int]) -> torch.Tensor:
    """The mean loss of each batch, in a row."""
    return torch.stack([one / max(count, 1) for one, count in zip(losses, counts, strict=True)])


def steps_right(
    train_step: Remote, lib: Library, batches: list[Batch], clip: float, seed: int, V: int = 7, d: int = 5, **how: Any
) -> None:
    """Fail unless a step on these batches is right."""
    model = lib(toys).Guesser(V, d, seed)
    state, lr = expect.state(model, "the model"), 0.5
    report = lib(toys).stepped(train_step, model, batches, clip, lr, **how)
    value = report["value"]
    assert type(value) is float, f"`train_step` should return a float, not {kind(value)}."
    known = partial(after_step, state, V, d, batches, lr=lr, **how)
    wanted, now = known(clip)
    told = "the model is not in training mode after the call."
    assert report["training"] is True, told
    asked = [tokens for tokens, _ in report["asked"]]
    told = "the model should be called once for each batch, with all of its tokens."
    shown = Counter(map(str, asked))
    for tokens, labels in batches:
        times = shown[str(tokens.tolist())]
        what = "a batch" if (labels[:, 1:] != -100).any() else "a batch without labels"
        assert times, f"no call of the model has exactly the tokens of {what}. T{told[1:]}"
    assert shown == Counter(str(tokens.tolist()) for tokens, _ in batches), (
        f"for {len(batches)} batch{'es' * (len(batches) > 1)}, the model is called {len(asked)} times: {told}"
    )
    assert all(mode for _, mode in report["asked"]), "the model is called in evaluation mode. Call it in training mode."
    assert report["steps"] == 1, f"the optimizer makes {report['steps']} steps. It should make one."
    told = "the batches that were given are changed: leave the list and its tensors as they are."
    assert report["kept"] is True, told
    assert report["learns"] is True, (
        "after the call, other parameters learn than before. Those that are frozen should stay frozen."
    )
    told = "the optimizer also has a parameter that is not in the model. Its earlier gradient counts: clear it first."
    assert report["stray"] is True, told
    if how.get("groups") and math.isclose(value, wanted, rel_tol=1e-4):
        told = "for an optimizer with two groups, the weights are wrong. Clear the gradients of all groups, and clip "
        told += "them all together."
        expect.close(joined(report["state"]), joined(now), told, 1e-5)
    if not (math.isclose(value, wanted, rel_tol=1e-4) and expect.near(joined(report["state"]), joined(now), atol=1e-5)):
        explain_step(value, wanted, report["state"], now, batches, state, known, clip, bool(how.get("frozen")))


def explain_step(
    value: float,
    wanted: float,
    after: State,
    now: State,
    batches: Sequence[Batch],
    state: State,
    known: Callable[..., tuple[float, State]],
    clip: float,
    some: bool,
) -> None:
    """Fail with the sentence that explains a loss or weights that are wrong; `known(clip, ...)` steps in other ways.

    some: whether the optimizer has some of the model's parameters alone.
    """
    every = sum(int((labels != -100).sum()) for _, labels in batches)
    places = sum(labels[:, 1:].numel() for _, labels in batches)
    weighs: dict[str, Weigh] = {
        "the mean of the batches' means is taken. Divide the sum of all losses by the count of all labels.": (
            lambda losses, counts: means(losses, counts).mean()
        ),
        "the batches' means are added up. Divide the sum of all losses by the count of all labels.": (
            lambda losses, counts: means(losses, counts).sum()
        ),
        "the losses are summed. Divide by the number of labels.": lambda losses, counts: torch.stack(losses).sum(),
        "the first labels of rows are counted. They never have a loss: count the shifted ones.": (
            lambda losses, counts: torch.stack(losses).sum() / every
        ),
        "the sum is divided by all tokens. Divide by those that have a label.": (
            lambda losses, counts: torch.stack(losses).sum() / places
        ),
        "the loss is that of the last batch, divided by all labels. Add up the losses of all batches.": (
            lambda losses, counts: losses[-1] / sum(counts)
        ),
        "only the last batch counts. All of them should.": lambda losses, counts: losses[-1] / max(1, counts[-1]),
    }
    guesses = {told: known(clip, weigh=weigh) for told, weigh in weighs.items()}
    losses = {told: guess[0] for told, guess in guesses.items()}
    told = "the loss should be the mean over all labels of all batches, each compared with the logits one place before "
    told += "in its own row."
    unclipped = known(1e9)[1]
    loose = expect.near(joined(unclipped), joined(now))
    if loose and expect.near(joined(after), joined(now), atol=1e-5):  # else clipping may hide what was divided by
        only = "the step is right, but the returned loss is not."
        losses = {f"{only} {why[0].upper()}{why[1:]}": guess for why, guess in losses.items()}
    expect.number_like(value, wanted, "the loss", told, losses)
    moves = {
        "gradients that were there before count. Clear them first.": known(clip, stale=True)[1],
        "the gradients are not clipped before the step.": unclipped,
        "each batch's gradients are clipped alone. Clip their sum, once.": known(clip, each=True)[1],
        "the gradients are clipped after each batch. Clip their sum, once, after the last batch.": known(
            clip, each="sum"
        )[1],
        "each number of a gradient is clipped. Clip the norm of all together.": known(clip, value=True)[1],
        "gradients are made as long as `clip`, also where they are shorter. Leave those as they are.": known(
            clip, least=True
        )[1],
        "only the last batch moves the weights: its gradients replace those before.": known(
            clip, weigh=lambda losses, counts: losses[-1] / sum(counts)
        )[1],
        "the weights do not change in the step.": state,
        **{
            f"the loss is right, but the gradients are those of another one: {told}": guess[1]
            for told, guess in guesses.items()
        },
    }
    flat = {told: joined(guess) for told, guess in moves.items()}
    norm = "which the gradient does not reach" if loose else "to which the gradient is scaled down"
    told = f"with `clip = {clip:g}`, {norm}, the weights after the step are wrong."
    if some:
        told = f"where the optimizer has only some of the model's parameters, a step with `clip = {clip:g}` is wrong."
    expect.like(joined(after), joined(now), told, flat)


def joined(state: State) -> torch.Tensor:
    """All numbers of a state in one row, those that no gradient reaches left out."""
    return torch.cat([state[name].flatten().double() for name in sorted(state) if not name.startswith("spare")])


@check("15.6", points=3, forbids=MODELS)
def stepping(train_step, lib):
    """Check one step in training mode, clipped once, on the mean over all labels of all batches."""
    few = [(torch.tensor([[1, 2, 3]]), torch.tensor([[1, -100, 3]])), *batches_of([(3, 6)], 7, 61, 0.9)]
    steps_right(train_step, lib, batches_of([(2, 5)], 7, 62), 1e9, 63)
    steps_right(train_step, lib, few, 1e9, 64)
    steps_right(train_step, lib, few, 0.05, 65)
    empty = [*batches_of([(2, 4), (1, 3)], 7, 66), (torch.tensor([[4, 5]]), torch.tensor([[4, -100]]))]
    steps_right(train_step, lib, empty, 0.2, 67)
    steps_right(train_step, lib, batches_of([(2, 5), (2, 3)], 7, 68), 0.1, 69, frozen=True)
    steps_right(train_step, lib, few, 0.05, 73, groups=True)
    model, usual = lib(toys).Guesser(7, 5, 71), batches_of([(2, 4)], 7, 72)
    with world_kept(lib, "after `train_step`,"):
        lib(toys).stepped(train_step, model, usual, 1.0, 0.1)
    nothing = [(torch.tensor([[4, 5]]), torch.tensor([[4, -100]])), (torch.tensor([[1]]), torch.tensor([[1]]))]
    for batches in (nothing, []):
        model = lib(toys).Guesser(7, 5, 70)
        refused, same, silent = expect.items(lib(toys).refused_step(train_step, model, batches), 3, "")
        assert refused is True, "batches without any label that counts must raise ValueError."
        assert same is True, "a call that is refused has changed the model, its gradients or its mode."
        assert silent is True, "a call that is refused has called the model. Count the labels first."


# 15.7


def chance_of_one(n: int, c: int, k: int) -> float:
    """The share of all choices of k of n answers that hold a right one, exactly."""
    return float(1 - Fraction(math.comb(n - c, k), math.comb(n, k)))


PASS = Contract(
    "pass_at_k(n, c, k)",
    sizes={"_k": (1, 9, 900), "_more": (0, 9, 900), "_c": (0, 9)},
    n="= _k + _more",
    k="= _k",
    c="= _c * (_k + _more) // 9",
    gives="the estimate: number",  # without a right answer 1e-16 is near enough
    right=chance_of_one,
    tolerance=1e-9,
    refuses=("pass_at_k(n, n + 1, k)", "pass_at_k(n, c, n + 1)", "pass_at_k(n, c, 0)", "pass_at_k(n, -1, k)"),
)


def tasks_of(right: Sequence[int], n: int, k: int) -> tuple[float, float, float]:
    """The mean of pass@k over tasks, and the ends of its interval."""
    values = [chance_of_one(n, c, k) for c in right]
    mean = math.fsum(values) / len(values)
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    half = 1.96 * math.sqrt(variance / len(values))
    return mean, mean - half, mean + half


def some_right(N: int, k: int, _more: int, seed: int) -> list[int]:
    """The numbers of right answers of N tasks."""
    pick = expect.draw(seed)
    return [pick.randint(0, k + _more) for _ in range(N)]


RIGHT = Contract(
    "over_tasks(counts, n, k)",
    sizes={"N": (2, 9, 700), "k": (1, 6, 80), "_more": (0, 9)},
    n="= k + _more",
    counts=lambda toys, seed, N, k, _more: some_right(N, k, _more, seed),
    gives="the mean: float; the low end: float; the high end: float",
    right=tasks_of,
    tolerance=1e-9,
)


@check("15.7", points=3, forbids=MODELS)
def passing(pass_at_k, over_tasks, lib):
    """Check the unbiased estimate, without overflow, and an interval over tasks."""
    cases = [(10, 1, 5), (10, 3, 2), (5, 5, 2), (7, 0, 3), (6, 4, 3), (9, 2, 1), (4, 1, 4), (200, 3, 100), (6, 3, 3)]
    found = [expect.number(pass_at_k(*case), "what `pass_at_k` returns") for case in cases]
    rules: dict[str, Callable[[int, int, int], float]] = {
        "this is `1 - (1 - c/n)^k`, which is too low on average: draw without putting back.": lambda n, c, k: (
            1 - (1 - c / n) ** k
        ),
        "this is the share of right answers, whatever k is.": lambda n, c, k: c / n,
        "this is the chance that all k are wrong. Subtract it from 1.": lambda n, c, k: 1 - chance_of_one(n, c, k),
        "this is the chance that all k are right. One is enough.": lambda n, c, k: math.comb(c, k) / math.comb(n, k),
        "this is k times the share of right answers. Count choices of k answers with a right one.": lambda n, c, k: min(
            1.0, k * c / n
        ),
        "the product begins one factor too early.": lambda n, c, k: (
            1 - math.prod(1 - k / i for i in range(max(1, n - c), n + 1))
        ),
        "the product ends one factor too early.": lambda n, c, k: 1 - math.prod(1 - k / i for i in range(n - c + 1, n)),
    }
    open_cases = [(one, case) for one, case in zip(found, cases, strict=True) if case[0] - case[1] >= case[2]]
    for told, rule in rules.items():
        if any(abs(one - chance_of_one(*case)) > 1e-9 for one, case in open_cases):
            assert any(abs(one - rule(*case)) >= 1e-9 for one, case in open_cases), told
    rounded = any(
        all(one == round(chance_of_one(*case), places) for one, case in zip(found, cases, strict=True))
        for places in range(1, 9)
    )
    for one, case in zip(found, cases, strict=True):
        if case[0] - case[1] < case[2]:
            told = (
                f"`pass_at_k{case}` should be 1: fewer than k answers are wrong, so one of the k is right for certain."
            )
            assert abs(one - 1) < 1e-9, told
        told = f"`pass_at_k{case}` is 1, and should be less: exactly k answers are wrong, and they may be drawn."
        assert case[0] - case[1] != case[2] or one != 1, told
        told = f"`pass_at_k{case}` is rounded. Return it as it is."
        right = chance_of_one(*case)
        assert abs(one - right) < 1e-12 or not rounded, told
        told = f"`pass_at_k{case}` is only as exact as float32. Compute in Python's floats, which have 64 bits."
        assert abs(one - right) < 1e-9 or abs(one - right) > 1e-6, told
        assert abs(one - right) < 1e-9, (
            f"`pass_at_k{case}` gives {one:.5g}. It should be the share of choices of k answers with a right one."
        )
    for n, c, k in ((100_000, 3, 50_000), (100_000, 60_000, 20), (100_000, 1, 99_999), (100_000, 99_999, 50_000)):
        told = f"`pass_at_k({n}, {c}, {k})` raises an error: use the product, not binomials or factorials."
        one = expect.answers(pass_at_k, n, c, k, says=told, kinds=("OverflowError",))
        back = f"`pass_at_k({n}, {c}, {k})` is 1 - (1 - c/n)^k, which is too low on average: draw without putting back."
        told = f"`pass_at_k({n}, {c}, {k})` is wrong: n may be 100,000. Take the product with all of its factors."
        told_nan = f"`pass_at_k({n}, {c}, {k})` is NaN. "
        told_nan += "It should be 1: fewer than k answers are wrong." if n - c < k else "Use the product."
        assert type(one) is not float or not math.isnan(one), told_nan
        one = expect.number(one, "what `pass_at_k` returns")
        wanted = (
            1 - math.exp(math.fsum(math.log1p(-k / i) for i in range(max(n - c + 1, k + 1), n + 1)))
            if n - c >= k
            else 1
        )
        right = abs(one - wanted) < 1e-7
        assert right or abs(one - (1 - (1 - c / n) ** k)) >= 1e-9, back
        assert right, told
    for n, c, k in ((5, 6, 1), (5, 2, 6), (5, 2, 0), (5, -1, 1), (0, 0, 0)):
        expect.refuses(pass_at_k, n, c, k, says=f"`pass_at_k({n}, {c}, {k})` must raise ValueError.")
    spreads(over_tasks, [1, 0, 0, 2, 0, 7, 0, 10, 0, 1], 10, 5)
    spreads(over_tasks, [3, 8], 8, 1)
    spreads(over_tasks, [0, 0, 0], 4, 2)
    spreads(over_tasks, [0, 4, 0, 4, 4], 4, 1)
    spreads(over_tasks, [0, 0, 0, 5], 8, 1)  # the low end is below 0, and the high one is not above 1
    for count, c, n, k in EQUAL:
        equal_tasks(over_tasks, [c] * count, n, k)
    for right in ([3], []):
        expect.refuses(
            over_tasks,
            right,
            5,
            2,
            says=f"`over_tasks` must raise ValueError for `{right}`: an interval needs two tasks.",
        )
    RIGHT.hold(over_tasks, lib, "memory")


# Tasks that are all alike, for which the mean of the squares less the square of the mean is not quite 0.
EQUAL = ((3, 1, 10, 1), (7, 3, 10, 2), (10, 1, 3, 1), (11, 2, 7, 3))


def equal_tasks(over_tasks: Remote, right: list[int], n: int, k: int) -> None:
    """Fail unless the interval of tasks that are all alike has no width."""
    told = "where all tasks have equally many right answers, {}. Sum the squared differences from the mean. "
    told += "The mean of the squares less the square of the mean is not quite 0, and may be below 0."
    failed = told.format("the interval is not found")
    found = expect.answers(over_tasks, right, n, k, says=failed, kinds=("ValueError",))
    _, low, high = expect.items(found, 3, "`over_tasks` should return mean, low and high")
    width = expect.number(high, "high") - expect.number(low, "low")
    assert width <= 1e-9 or width >= 1e-6, told.format("low and high are not the same")
    spreads(over_tasks, right, n, k)


def spreads(over_tasks: Remote, right: list[int], n: int, k: int) -> None:
    """Fail unless mean and interval of these tasks are right."""
    found = expect.items(over_tasks(right, n, k), 3, "`over_tasks` should return mean, low and high")
    floats = [expect.of_type(one, float, "mean, low and high should be floats") for one in found]
    mean, low, high = (expect.number(one, name) for one, name in zip(floats, ("mean", "low", "high"), strict=True))
    wanted, least, most = tasks_of(right, n, k)
    count, half = len(right), (most - least) / 2
    pooled = chance_of_one(n * count, sum(right), k)
    guesses = {
        "all answers are pooled. Take pass@k of each task, then the mean over tasks.": pooled,
        "this is the share of right answers, whatever k is.": sum(right) / n / count,
        "the values are summed. Take their mean.": wanted * count,
        "tasks with equally many right answers count once. Each task counts.": math.fsum(
            chance_of_one(n, c, k) for c in {*right}
        )
        / len({*right}),
        "this is pass@k of the mean count. Take pass@k of each task, then the mean over tasks.": chance_of_one(
            n, round(sum(right) / count), k
        ),
    }
    if abs(mean - wanted) >= 1e-9:
        told = f"for `over_tasks({right}, {n}, {k})`, the mean of pass@k over tasks is wrong."
        expect.number_like(mean, wanted, "the mean", told, guesses, 1e-9, 1.0)
        return
    changed = abs(low - most) < 1e-9 and abs(high - least) < 1e-9
    assert not changed or half < 1e-9, "`low` and `high` have changed places."
    share = sum(right) / n / count
    halves = {
        "the spread is not divided by the root of the number of tasks.": half * count**0.5,
        "the spread is divided by more than the root of the number of tasks.": half / count**0.5,
        "the squares are divided by N. Divide them by N - 1.": half * ((count - 1) / count) ** 0.5,
        "the answers are counted, not the tasks: answers to one task are not independent.": 1.96
        * (share * (1 - share) / (n * count)) ** 0.5,
        "this is the spread of single answers, not of the tasks' values.": 1.96
        * (wanted * (1 - wanted) / count) ** 0.5,
        "each side of the interval is the standard error, without 1.96.": half / 1.96,
        "the factor is 2. It should be 1.96.": half / 1.96 * 2,
        "the variance is used. Take its root.": (half / 1.96) ** 2 * count**0.5 * 1.96,
        "the whole interval is 1.96 standard errors wide. Each side should be.": half / 2,
    }
    rule = "the ends should be mean - 1.96 s / sqrt(N) and mean + 1.96 s / sqrt(N)."
    cut = abs(low - max(0.0, least)) < 1e-9 and abs(high - min(1.0, most)) < 1e-9
    if cut and (least < 0 or most > 1):
        rule = "the ends are cut at 0 or 1. They may lie below 0 or above 1."
    elif abs((high - low) / 2 - half) > 1e-9:
        told = f"for `over_tasks({right}, {n}, {k})`, half of `high - low` is wrong. It should be 1.96 s / sqrt(N)."
        expect.number_like((high - low) / 2, half, "half of `high - low`", told, halves, 1e-9, 1.0)
        return
    assert abs(low - least) < 1e-9 and abs(high - most) < 1e-9, f"{rule}{called(found, rule)}"


# 15.S1


def preferred(a: torch.Tensor, b: torch.Tensor, ref_a: torch.Tensor, ref_b: torch.Tensor, beta: float) -> torch.Tensor:
    """DPO's loss by its formula, in double precision."""
    margin = beta * ((a - ref_a) - (b - ref_b)).double()
    return torch.log1p((-margin.abs()).exp()).add((-margin).clamp(min=0)).mean()


DPO = Contract(
    "dpo_loss(chosen, rejected, ref_chosen, ref_rejected, beta)",
    sizes={"B": (1, 9, 3000), "_b": (0, 9)},
    beta="= 0.1 + _b / 2",
    chosen="floats (B)",
    rejected="floats (B)",
    ref_chosen="floats (B)",
    ref_rejected="floats (B)",
    gives="the loss: as chosen (one number)",
    right=preferred,
    learns="chosen rejected",
    frozen="ref_chosen ref_rejected",
    low=False,
)


@stretch("15.S1", forbids=MODELS)
def dpo(dpo_loss, lib):
    """The loss of equation 7, its gradients, and large margins."""
    a, b, ra, rb = (3 * normal(6, seed=90 + place) for place in range(4))
    beta = 0.4
    margin = beta * ((a - ra) - (b - rb))
    found = expect.floats(dpo_loss(a, b, ra, rb, beta), (), "the loss")
    expect.like(
        found,
        preferred(a, b, ra, rb, beta).float(),
        "the loss should be the mean of -log sigmoid(beta * ((chosen - ref_chosen) - (rejected - ref_rejected))).",
        {
            "chosen and rejected have changed places.": preferred(b, a, rb, ra, beta).float(),
            "the reference is not used.": preferred(a, b, 0 * a, 0 * a, beta).float(),
            "beta is not used.": preferred(a, b, ra, rb, 1.0).float(),
            "the margin is divided by beta. Multiply it.": preferred(a, b, ra, rb, 1 / beta).float(),
            "the loss has the wrong sign.": F.logsigmoid(margin).mean(),
            "the losses are summed. Take their mean.": -F.logsigmoid(margin).sum(),
            "the logarithm is missing.": -torch.sigmoid(margin).mean(),
            "the sigmoid of the mean is taken. Take the mean of the losses.": -F.logsigmoid(margin.mean()),
            "the reference is added. Subtract it.": preferred(a, b, -ra, -rb, beta).float(),
        },
    )
    far = torch.tensor([1e4, -1e4])
    told = "for large margins, the loss is infinite or not exact: use a function that is stable there."
    zero = torch.zeros(2)
    expect.close(expect.floats(dpo_loss(far, zero, zero, zero, 1.0), (), "the loss"), torch.tensor(5000.0), told)
    some = expect.items(lib(toys).in_sixteen_bits(dpo_loss, [a, b, ra, rb], beta), 2, "")
    assert some[0] == "bfloat16", f"for log-probabilities in bfloat16, the loss is {some[0]}. It should be bfloat16."
    assert some[1] is True, "log-probabilities that were given are changed: they no longer require gradients."
    DPO.hold(dpo_loss, lib, "dtypes", "layout", "gradients", "device")
