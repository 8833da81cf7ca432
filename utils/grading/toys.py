"""Small models and helpers whose right results are known. Checks build them in the student's process.

Those that the checks of one notebook alone use are in `utils.checks.nbNN_toys`. Cells of notebooks use what is here.
"""

import copy
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map


def backward(result: torch.Tensor) -> None:
    """Backpropagate a fixed sum over `result`; nothing happens where no gradient is recorded."""
    if result.requires_grad:
        weights = torch.linspace(-1, 2, result.numel(), dtype=result.dtype, device=result.device)
        (result.flatten() * weights).sum().backward()


def gradients(call: Callable[..., Any], tensors: list[torch.Tensor], *rest: Any, which: int = 0) -> list[torch.Tensor]:
    """The gradient of a fixed sum over the result of `call(*tensors, *rest)`, for each of `tensors`.

    Of several results `which` counts. Zeros where no gradient arrives.
    """
    leaves = [tensor.detach().clone().requires_grad_() for tensor in tensors]
    with torch.enable_grad():
        result = call(*leaves, *rest)
        backward(result[which] if isinstance(result, (tuple, list)) else result)
    return [torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in leaves]


def mood(module: nn.Module) -> int:
    """0 as a model should be read: 1 more if it or a part is in training mode, 2 more where gradients are recorded."""
    return any(part.training for part in module.modules()) + 2 * torch.is_grad_enabled()


class Table(nn.Module):
    """A base for models that read their numbers off a table, their one parameter."""

    def __init__(self, table: Any):
        super().__init__()
        self.table = nn.Parameter(torch.as_tensor(table, dtype=torch.float32).clone())


class TableModel(Table):
    """Logits for the next token from a table: the sum of all tokens so far, modulo its rows, picks the row.

    It must be used as a model that writes is: in training mode it shifts its logits by one token,
    and where gradients are recorded by two.
    """

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """From token numbers (B, T) to logits (B, T, V)."""
        logits = self.table[tokens.cumsum(dim=1) % len(self.table)]
        return logits.roll(mood(self), dims=-1) if mood(self) else logits


class AddRows(Table):
    """Adds row t of a table to position t of x (B, T, d).

    The rows count double in training mode, and twice more where gradients are recorded: of x or of the table.
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From (B, T, d) to the same shape, with at most as many positions as the table has rows."""
        records = torch.is_grad_enabled() and (x.requires_grad or self.table.requires_grad)
        return x + (1 + self.training + 2 * records) * self.table[: x.size(1)]


class Masked(nn.Module):
    """An encoder layer that always reads under one mask: (B, T, d) -> (B, T, d)."""

    def __init__(self, layer: nn.Module, mask: torch.Tensor):
        super().__init__()
        self.layer, self.mask = layer, mask

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From (B, T, d) to the same shape; T must be that of the mask."""
        return self.layer(x, src_mask=self.mask)


class Reader(nn.Module):
    """A base for notebook 04: the state of a token sums up the real tokens so far.

    Parts: `embedding` (V, d), `mix` (d, d) and a buffer `offset` (d). If `moody`, it must be read as a
    frozen base is: in training mode its states are one too large, where gradients are recorded two.
    """

    def __init__(self, vocab_size: int, d_model: int, moody: bool = False):
        super().__init__()
        self.embedding, self.mix = nn.Embedding(vocab_size, d_model), nn.Linear(d_model, d_model)
        self.register_buffer("offset", torch.zeros(d_model))
        self.moody = moody

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """From token numbers (B, T) and a mask, true at real tokens, to states (B, T, d)."""
        mask = torch.ones_like(tokens) if mask is None else mask
        read = (self.embedding(tokens) * mask.unsqueeze(-1)).cumsum(dim=1)
        return self.mix(read) + self.offset + (mood(self) if self.moody else 0)


def parameter_gradients(module: nn.Module, x: torch.Tensor) -> dict[str, torch.Tensor]:
    """The gradient of a fixed sum over `module(x)` for each parameter by name, zeros where none arrives."""
    module.zero_grad()
    with torch.enable_grad():
        backward(module(x))
    named = module.named_parameters()
    return {name: torch.zeros_like(part) if part.grad is None else part.grad for name, part in named}


def total(states: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    """The sum of the states (B, T, d) at the real tokens, (B, d); of all without a mask."""
    return states.sum(dim=1) if mask is None else (states * mask.unsqueeze(-1)).sum(dim=1)


def step(model: nn.Module, rule: torch.optim.Optimizer, x: torch.Tensor, labels: torch.Tensor) -> None:
    """One step on the mean cross-entropy of `model(x)`; earlier gradients are zeroed, not removed."""
    rule.zero_grad(set_to_none=False)
    loss = nn.functional.cross_entropy(model(x), labels)
    if loss.requires_grad:
        loss.backward()
    rule.step()


def descend(
    model: nn.Module,
    weights: Iterable[nn.Parameter],
    x: torch.Tensor,
    labels: torch.Tensor,
    lr: float,
    decay: float = 0,
) -> None:
    """One step of gradient descent, by its formula, on the mean cross-entropy: `weights` alone of `model` move."""
    chosen = list(weights)
    with torch.enable_grad():
        slopes = torch.autograd.grad(nn.functional.cross_entropy(model(x), labels), chosen)
    with torch.no_grad():
        for weight, slope in zip(chosen, slopes, strict=True):
            weight.sub_(lr * (slope + decay * weight))


class WithMask(nn.Module):
    """`model` read under one mask: (B, T) -> what `model(tokens, mask)` gives."""

    def __init__(self, model: nn.Module, mask: torch.Tensor):
        super().__init__()
        self.model, self.mask = model, mask

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """From token numbers of the mask's shape."""
        return self.model(tokens, self.mask)


def in_turn(call: Callable[..., Any], seed: int, turns: list[list[Any]], options: dict[str, Any]) -> list[Any]:
    """`call(*turn, **options)` for each of `turns`, after one `torch.manual_seed(seed)`.

    The state of torch's generators is afterwards what it was before.
    """
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return [call(*turn, **options) for turn in turns]


def strided(call: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """`call(*args, **options)` with the same numbers in tensors that are not contiguous."""

    def spread(value: Any) -> Any:
        if type(value) is list:
            return [spread(item) for item in value]
        if not isinstance(value, torch.Tensor):
            return value
        return value.transpose(0, -1).clone(memory_format=torch.contiguous_format).transpose(0, -1)

    return call(*map(spread, args), **options)


class Elsewhere(TorchFunctionMode):
    """Within it, tensors may be on a second device, as on a machine with a GPU: by name alone, their numbers stay here.

    What is made with `device=` or `.to` of that device, and what is computed from it, is on it; to compute with a
    tensor from here (of more than a single number) raises `Apart`, as torch does.
    """

    there = torch.device("cuda:0")

    class Apart(RuntimeError):
        """Tensors of two devices met."""

    @staticmethod
    def mark(tensor: torch.Tensor) -> torch.Tensor:
        """Put a tensor on the second device."""
        tensor._is_elsewhere = True  # type: ignore[attr-defined]
        return tensor

    @staticmethod
    def holds(tensor: torch.Tensor) -> bool:
        """Whether a tensor is on the second device."""
        return getattr(tensor, "_is_elsewhere", False)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call `func`, with the rules of two devices around it."""
        name, given = getattr(func, "__name__", ""), [arg for arg in leaves([args, kwargs]) if is_tensor(arg)]
        if any(torch._C._functorch.is_functorch_wrapped_tensor(one) for one in given):
            raise NotImplementedError("what torch.vmap wraps does not say where it lies")
        if func == torch.Tensor.device.__get__:  # type: ignore[attr-defined]
            return self.there if self.holds(args[0]) else func(*args)
        if name in ("numpy", "__array__") and self.holds(args[0]):
            raise self.Apart("a tensor of another device has no numpy array: move it to the CPU first")
        asked = [arg for arg in leaves([args, kwargs]) if isinstance(arg, torch.device)]
        asked += [torch.device(arg) for arg in leaves([args, kwargs]) if isinstance(arg, str) and arg[:4] in NAMES]
        if name in ("to", "type_as") and len(given) > 1:
            on = self.holds(given[1])
        elif name in ("cuda", "cpu"):
            on = name == "cuda"
        elif asked:
            on = asked[0].type == self.there.type
        else:
            on = getattr(self, OPERATORS.get(name, "_together"))(name, given) if given else False
        here = torch.get_default_device()
        args, kwargs = moved(args, here), moved(kwargs or {}, here)
        result = args[0] if name in ("cuda", "cpu") else func(*args, **kwargs)
        if name in ("to", "cuda", "cpu", "type_as", "as_tensor") and on != self.holds(result):
            result = result.clone()
        for one in leaves(result):
            if is_tensor(one) and on and (name not in PACKED or one.is_floating_point()):
                self.mark(one)
        return result

    def _first(self, name: str, given: list[torch.Tensor]) -> bool:
        """The result is where the first tensor is, whatever the others are."""
        return self.holds(given[0])

    def _indexed(self, name: str, given: list[torch.Tensor]) -> bool:
        """As `_first`; a tensor of here is not indexed by one of there."""
        on = self.holds(given[0])
        if not on and any(self.holds(one) for one in given[1:]):
            raise self.Apart("a tensor is indexed by one of another device")
        return on

    def _packed(self, name: str, given: list[torch.Tensor]) -> bool:
        """The result is where the values are, all in one place; the lengths stay on the CPU."""
        values, counts = ([one for one in given if one.is_floating_point() is real] for real in (True, False))
        on = any(self.holds(one) for one in values)
        if any(self.holds(one) for one in counts) or (on and not all(self.holds(one) for one in values)):
            raise self.Apart("lengths are packed on the CPU, and all that is read lies on one device")
        return on

    def _together(self, name: str, given: list[torch.Tensor]) -> bool:
        """All tensors are in one place, single numbers aside."""
        on = any(self.holds(one) for one in given)
        if on and any(not self.holds(one) and one.dim() for one in given):
            raise self.Apart("tensors of two devices are used together")
        if on and in_place(name) and not self.holds(given[0]):
            raise self.Apart("what is computed elsewhere is written into a tensor of here")
        return on


def in_place(name: str) -> bool:
    """Whether a function of torch of this name writes into its first tensor."""
    return name in IN_PLACE or (name.endswith("_") and not name.endswith("__"))


IN_PLACE = ("__iadd__", "__isub__", "__imul__", "__itruediv__", "__ifloordiv__", "__iand__", "__ior__", "__ixor__")


NAMES = ("cuda", "cpu")


# What packs sentences and reads packed ones: the numbers of their tokens stay on the CPU.
PACKED = ("_pack_padded_sequence", "_pad_packed_sequence", "lstm", "gru", "rnn_tanh", "rnn_relu")


# Which method of `Elsewhere` says where the result of an operator is; of all others it is `_together`.
OPERATORS = {
    **dict.fromkeys(PACKED, "_packed"),
    **dict.fromkeys(("to", "tensor", "as_tensor", "copy_"), "_first"),
    **dict.fromkeys(("__getitem__", "__setitem__"), "_indexed"),
}


def is_tensor(value: Any) -> bool:
    """Whether `value` is a tensor (`torch.is_tensor` asks torch's modes first)."""
    return isinstance(value, torch.Tensor)


def leaves(value: Any) -> list[Any]:
    """What stands in lists, tuples and dictionaries, however deep."""
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in leaves(item)]
    return [leaf for item in value.values() for leaf in leaves(item)] if isinstance(value, dict) else [value]


def moved(value: Any, device: torch.device) -> Any:
    """`value` with `device` in the place of every device of `Elsewhere`."""
    if isinstance(value, torch.device) or (isinstance(value, str) and value.startswith("cuda")):
        return device
    if type(value) in (list, tuple):
        return type(value)(moved(item, device) for item in value)
    return {name: moved(item, device) for name, item in value.items()} if type(value) is dict else value


def apart(call: Callable[..., Any], *args: Any, **options: Any) -> bool:
    """Whether `call(*args, **options)` would stop, or leave its result behind, if all its tensors were on a GPU.

    Modules and tensors among `args`, and in lists there, are copied to the second device of `Elsewhere`. What else
    goes wrong says nothing.
    """
    return stops(Elsewhere(), call, args, options)


def stops(mode: Elsewhere, call: Callable[..., Any], args: Sequence[Any], options: dict[str, Any]) -> bool:
    """Whether a call would stop, or leave its result behind, under this mode; see `apart`."""
    placed: list[Any] = []
    for arg in [call, *args]:
        one: Any = arg.clone() if is_tensor(arg) else copy.deepcopy(arg) if isinstance(arg, list) else arg
        one = twin(arg) if isinstance(arg, nn.Module) else one
        inside = [*one.parameters(), *one.buffers()] if isinstance(one, nn.Module) else leaves(one)
        for tensor in filter(is_tensor, inside):
            Elsewhere.mark(tensor)
        placed.append(one)
    try:
        with mode, mock.patch.object(nn.Parameter, "__deepcopy__", _copied_there):
            result = placed[0](*placed[1:], **options)
    except Elsewhere.Apart:
        return True
    except Exception:  # not what is asked here
        return False
    return any(is_tensor(one) and not Elsewhere.holds(one) for one in leaves(result))


_copied = nn.Parameter.__deepcopy__


def _copied_there(part: nn.Parameter, memo: Any) -> Any:
    """A copy of a parameter, where that lies: torch makes it in a way of which no mode is told."""
    made = _copied(part, memo)
    return Elsewhere.mark(made) if Elsewhere.holds(part) else made


class Method(nn.Module):
    """A method of a module as a module of its own: it is copied and moved as the module is."""

    def __init__(self, module: nn.Module, name: str):
        super().__init__()
        self.module, self.name = module, name

    def forward(self, *args: Any) -> Any:
        """What the method gives."""
        return getattr(self.module, self.name)(*args)


class OneDevice(TorchDispatchMode):
    """Refuses what a GPU refuses: tensors of two devices in one operation. Single numbers and indices may lie apart."""

    ACROSS = ("index", "index_put", "index_put_", "_index_put_impl_", "copy_", "_to_copy", "detach")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.name.partition("::")[2] not in self.ACROSS:
            tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
            written = tensors[: in_place(func._schema.name.partition("::")[2])]  # the first one, or none
            if len({one.device.type for one in (*written, *(tensor for tensor in tensors if tensor.dim()))}) > 1:
                raise RuntimeError("tensors on two devices")
        return func(*args, **(kwargs or {}))


def next_numbers(count: int) -> list[Any]:
    """The states of the global generators of torch, numpy and Python; so many numbers of each, which are put back."""
    of_numpy: Any = np.random.get_state()
    as_data = [part.tolist() if isinstance(part, np.ndarray) else part for part in of_numpy]
    states: list[Any] = [torch.get_rng_state(), as_data, random.getstate()]
    drawn = [
        torch.rand(count, device="cpu").tolist(),
        np.random.random_sample(count).tolist(),
        [random.random() for _ in range(count)],
    ]
    torch.set_rng_state(states[0])
    np.random.set_state(of_numpy)
    random.setstate(states[2])
    return [states, drawn]


def type_of(call: Callable[..., Any], *args: Any) -> str:
    """What the type of `call(*args)` is called."""
    return type(call(*args)).__name__


def learning(part: nn.Module) -> list[bool]:
    """For each parameter of `part`, in their order, whether it learns."""
    return [one.requires_grad for one in part.parameters()]


def forgets_gradients(call: Callable[..., Any], part: nn.Module, x: torch.Tensor) -> bool:
    """Whether `call(part)` removes or changes the gradients that `part` has from a fixed sum over `part(x)`."""
    with torch.enable_grad():
        part(x).sum().backward()
    before = [torch.zeros_like(one) if one.grad is None else one.grad.clone() for one in part.parameters()]
    call(part)
    after = [one.grad for one in part.parameters()]
    return any(new is None or not torch.equal(old, new) for old, new in zip(before, after, strict=True))


def replaces_parameters(call: Callable[..., Any], model: nn.Module, *rest: Any) -> bool:
    """Whether `model` has other parameters after `call(model, *rest)`, not only other values in them."""
    before = list(model.parameters())
    call(model, *rest)
    after = list(model.parameters())
    return len(before) != len(after) or any(old is not new for old, new in zip(before, after, strict=True))


def twin(part: nn.Module) -> nn.Module:
    """A deep copy of `part`; what it keeps of its last call, for a picture perhaps, is cut off from the graph."""
    values = [one for module in part.modules() for one in leaves([*vars(module).values()])]
    kept = [one for one in values if isinstance(one, torch.Tensor) and not one.is_leaf]
    return copy.deepcopy(part, {id(one): one.detach().clone() for one in kept})


def double(part: nn.Module) -> nn.Module:
    """A copy of `part` in double precision."""
    return twin(part).double()


def needs_gradient(make: Callable[..., torch.Tensor], *given: Any) -> bool:
    """Whether `make(*given)` is a parameter, or was computed from one."""
    return bool(make(*given).requires_grad)


def called_with_strides(call: Callable[..., torch.Tensor], x: torch.Tensor, *rest: Any) -> torch.Tensor:
    """`call(x, *rest)` with x (..., H, T, d) of the same numbers as a view of (..., T, H, d): not contiguous."""
    return call(x.transpose(-3, -2).contiguous().transpose(-3, -2), *rest)


OTHER = torch.device("meta")  # what the stand-in for another device is called


class Far(torch.Tensor):
    """A tensor on another device, as far as code can tell that has no such device: it says so, and has its values."""

    @staticmethod
    def __new__(cls, near: torch.Tensor) -> "Far":
        """A tensor with the shape, type and values of `near`."""
        return torch.Tensor._make_wrapper_subclass(
            cls, near.shape, strides=near.stride(), dtype=near.dtype, device=OTHER
        )

    def __init__(self, near: torch.Tensor):
        self.near = near

    def tolist(self) -> Any:
        """The values as lists."""
        return self.near.tolist()

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):  # type: ignore[override]
        """Compute where the values are; refuse what mixes devices."""
        return _computed(func, args, kwargs or {})


class TwoDevices(RuntimeError):
    """Tensors on different devices meet, which torch refuses."""


class _Dispatch(TorchDispatchMode):
    """Every operation goes through `_computed`."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return _computed(func, args, kwargs or {})


class _FromNumbers(TorchFunctionMode):
    """`torch.tensor` and `torch.as_tensor`, which move what they made where no dispatch mode sees it."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func in (torch.tensor, torch.as_tensor) and kwargs.get("device") is not None:
            there = torch.device(kwargs.pop("device"))
            return func(*args, **kwargs).to(there)
        return func(*args, **kwargs)


def _computed(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """`func(*args, **kwargs)` for tensors here and elsewhere, as torch would do it on two devices."""
    aten, named = torch.ops.aten, kwargs.get("device")
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    far = any(isinstance(one, Far) for one in tensors)
    near = any(not isinstance(one, Far) and one.ndim for one in tensors)
    first_is_far = bool(tensors) and isinstance(tensors[0], Far)
    crosses = func is aten.copy_.default or (
        first_is_far and func in (aten.index.Tensor, aten.index_put.default, aten.index_put_.default)
    )
    if far and near and named is None and not crosses:
        raise TwoDevices("Expected all tensors to be on the same device, but found at least two devices")
    there = first_is_far if crosses else torch.device(named) == OTHER if named is not None else far
    kwargs = kwargs | ({"device": torch.device("cpu")} if named is not None else {})
    args, kwargs = tree_map(_near, (args, kwargs))
    result = func(*args, **kwargs)
    return tree_map(_far, result) if there else result


def _near(value: Any) -> Any:
    return value.near if isinstance(value, Far) else value


def _far(value: Any) -> Any:
    return Far(value) if type(value) in (torch.Tensor, nn.Parameter) else value


def elsewhere(call: Callable[..., Any], *given: Any) -> str:
    """Whether `call` stays on another device if the tensors in `given`, and the modules, are there.

    No such device is needed: tensors only say that they are elsewhere. The answers: "there", all tensors that came
    back are; "here", one is not; "two devices", tensors of both met, which torch would refuse; or "unknown", where
    another exception shows that this stand-in could not go on.
    """

    kept: list[tuple[dict[str, Any], dict[str, Any]]] = []  # what modules held, to be put back

    def sent(value: Any) -> Any:
        for part in value.modules() if isinstance(value, nn.Module) else ():
            for held in (part._parameters, part._buffers):
                kept.append((held, dict(held)))
                held.update({name: _far(one.detach()) for name, one in held.items() if one is not None})
        return _far(value)

    there = tree_map(sent, list(given))
    try:
        with _FromNumbers(), _Dispatch():
            results = [leaf for leaf in tree_leaves(call(*there)) if isinstance(leaf, torch.Tensor)]
    except TwoDevices:
        return "two devices"
    except Exception:
        return "unknown"
    finally:
        for held, before in reversed(kept):
            held.update(before)
    return "there" if all(isinstance(one, Far) for one in results) else "here"


def seeded(seed: int) -> torch.Generator:
    """A generator on the default device."""
    return torch.Generator(torch.get_default_device()).manual_seed(seed)


def keeps_gradients(call: Callable[..., Any], model: nn.Module, *rest: Any) -> bool:
    """Whether gradients that `model` has are the same ones after `call(model, *rest)`. Afterwards it has none."""
    leave_gradients(model)
    call(model, *rest)
    kept = all(one.grad is not None and bool((one.grad == 1).all()) for one in model.parameters() if one.requires_grad)
    model.zero_grad(set_to_none=True)
    return kept


def numel_beyond(part: nn.Module, other: nn.Module) -> int:
    """How many numbers the parameters of `part` hold that are not parameters of `other`."""
    known = {id(one) for one in other.parameters()}
    return sum(one.numel() for one in part.parameters() if id(one) not in known)


def slope_of_table(call: Callable[..., torch.Tensor], x: torch.Tensor, table: nn.Embedding) -> torch.Tensor:
    """The gradient of a fixed sum over `call(x)` for the rows of `table`; zeros where none arrives."""
    table.zero_grad()
    with torch.enable_grad():
        backward(call(x))
    return torch.zeros_like(table.weight) if table.weight.grad is None else table.weight.grad


def flows_back(call: Callable[..., torch.Tensor], x: torch.Tensor, *rest: Any) -> bool:
    """Whether a gradient can flow back from `call(x, *rest)` to x, and not only to a number that was made again."""
    with torch.enable_grad():
        leaf = x.detach().clone().requires_grad_()
        return flows_to(call(leaf, *rest), [leaf])


def step_of_part(model: nn.Module, part: nn.Module, x: torch.Tensor, labels: torch.Tensor) -> None:
    """One step of gradient descent of the cross-entropy of `model(x)` that moves the parameters of `part` alone."""
    rule = torch.optim.SGD(part.parameters(), lr=0.5)
    with torch.enable_grad():
        model.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(model(x), labels).backward()
    rule.step()


def flows_from(call: Callable[..., Any], *given: Any) -> bool:
    """Whether any of the tensors that `call(*given)` gives needs a gradient."""
    return any(is_tensor(leaf) and leaf.requires_grad for leaf in leaves(call(*given)))


def flows_to(result: Any, leaves: list[torch.Tensor]) -> bool:
    """Whether a gradient flows from a tensor back to any of `leaves`.

    `requires_grad` alone does not tell: of a view that was made without gradients it may be true.
    """
    if not is_tensor(result) or not result.requires_grad:
        return False
    slopes = torch.autograd.grad(result.sum(), leaves, allow_unused=True, retain_graph=True)
    return any(slope is not None for slope in slopes)


class First(nn.Module):
    """A module that gives the first of the results of another one."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The first result, or the only one."""
        result = self.module(x)
        return result[0] if isinstance(result, (tuple, list)) else result


def signs(mask: Any) -> str:
    """A mask (n,) of booleans as a text of so many signs 0 and 1; of anything else "no mask"."""
    good = is_tensor(mask) and mask.dtype == torch.bool and mask.ndim == 1
    return "".join("01"[one] for one in mask.tolist()) if good else "no mask"


def tally(call: Callable[..., Any], given: list[Any], seed: int, repeats: int) -> dict[str, int]:
    """How often each mask comes of `call(*given, generator=...)`, as `signs`: one generator for all draws."""
    going = seeded(seed)
    counts: dict[str, int] = {}
    for _ in range(repeats):
        found = signs(call(*given, generator=going))
        counts[found] = counts.get(found, 0) + 1
    return counts


def leave_gradients(model: nn.Module) -> None:
    """Give each parameter that learns a gradient of ones, as a step that was never made leaves it."""
    for weights in filter(lambda one: one.requires_grad, model.parameters()):
        weights.grad = torch.ones_like(weights)


def forget_gradients(model: nn.Module) -> None:
    """Remove the gradients of all parameters."""
    model.zero_grad(set_to_none=True)


def still_flows(call: Callable[..., Any], first: torch.Tensor, second: torch.Tensor, *rest: Any) -> bool:
    """Whether a tensor that needs a gradient, given as the second, still needs it after `call(first, second, *rest)`.

    It is asked of one that is made of another, and of one that is not. A call that fails where it sets a flag does not
    leave it as it was.
    """
    with torch.enable_grad():
        leaf = second.detach().clone().requires_grad_()
        for given in (leaf, 2 * leaf):
            try:
                call(first, given, *rest)
            except RuntimeError:
                return False
            if not flows_to(given, [leaf]):
                return False
    return True
