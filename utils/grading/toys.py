"""Small models and helpers whose right results are known. Checks build them in the student's process."""

import contextlib
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


class Bigram(nn.Module):
    """Logits for the next token that depend on the current one alone: `table[token] + bias`.

    In evaluation mode they are doubled, so that training in the wrong mode shows in the weights.
    """

    def __init__(self, table: Any, bias: Any):
        super().__init__()
        self.table = nn.Parameter(torch.as_tensor(table, dtype=torch.float32).clone())
        self.bias = nn.Parameter(torch.as_tensor(bias, dtype=torch.float32).clone())

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """From token numbers (B, T) to logits (B, T, V)."""
        logits = self.table[tokens] + self.bias
        return logits if self.training else 2 * logits


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


class Letters:
    """A vocabulary like that of 1.5, whose tokens are single letters: "a" is 4, "b" is 5, and so on."""

    words = ("<sos>", "<pad>", "<eos>", "<unk>", *"abcdefghijklmnopqrstuvwxyz")

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, sentence: str) -> list[int]:
        """The numbers of the letters of `sentence`, spaces left out."""
        return [self.words.index(letter) for word in sentence.split() for letter in word]

    def decode(self, numbers: list[int]) -> str:
        """The letters that `numbers` stand for, joined by single spaces."""
        return " ".join(Letters.words[number] for number in numbers)


class NewTableEachCall:
    """Makes tables of positions, like `make_table(rows, width)`: random ones, and another at every call."""

    def __init__(self, seed: int = 0) -> None:
        self.seed, self.calls = seed, 0

    def __call__(self, max_len: int, d_model: int) -> torch.Tensor:
        """A table (max_len, d_model) of normal numbers, given by seed, size and the number of calls before."""
        generator = torch.Generator().manual_seed(10_000 * self.seed + 1000 * self.calls + 31 * max_len + d_model)
        self.calls += 1
        return torch.randn(max_len, d_model, generator=generator).to(torch.get_default_device())


def descent_in_groups(model: nn.Module, lr: float) -> torch.optim.SGD:
    """Gradient descent for `model`, with a group for each of its parameters."""
    return torch.optim.SGD([{"params": [part]} for part in model.parameters()], lr=lr)


class AddRows(Table):
    """Adds row t of a table to position t of x (B, T, d).

    The rows count double in training mode, and twice more where gradients are recorded.
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From (B, T, d) to the same shape, with at most as many positions as the table has rows."""
        return x + (1 + mood(self)) * self.table[: x.size(1)]


def parameter_gradients(module: nn.Module, x: torch.Tensor) -> dict[str, torch.Tensor]:
    """The gradient of a fixed sum over `module(x)` for each parameter by name, zeros where none arrives."""
    module.zero_grad()
    with torch.enable_grad():
        backward(module(x))
    named = module.named_parameters()
    return {name: torch.zeros_like(part) if part.grad is None else part.grad for name, part in named}


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


def total(states: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    """The sum of the states (B, T, d) at the real tokens, (B, d); of all without a mask."""
    return states.sum(dim=1) if mask is None else (states * mask.unsqueeze(-1)).sum(dim=1)


class Witness(nn.Module):
    """A base that says how it was called: a state holds the mask, whether that is bool, and whether in training."""

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """From tokens and a mask, which is needed, both (B, T), to states (B, T, 3)."""
        facts = [mask, torch.full_like(mask, mask.dtype == torch.bool), torch.full_like(mask, self.training)]
        return torch.stack([fact.float() for fact in facts], dim=-1)


class WitnessPool(Witness):
    """A pool that says the same: the mean of the states of a `Witness`."""

    def forward(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        """From states (B, T, d) and a mask (B, T), which is needed, to (B, 3)."""
        return super().forward(states, mask).mean(dim=1)


class Plain(nn.Module):
    """Layers of torch's own as a base: (B, T) -> `layers(tokens)`, whatever the mask."""

    def __init__(self, layers: nn.Module):
        super().__init__()
        self.layers = layers

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """What the layers give; the mask is not used."""
        return self.layers(tokens)


class Voter(Table):
    """Logits from a table: the sum of the real tokens, modulo its rows, picks the row.

    In training mode they are rolled by one class, where gradients are recorded by two.
    """

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """From token numbers (B, T) and a mask, true at real tokens, to logits (B, C)."""
        logits = self.table[(tokens * mask).sum(dim=1) % len(self.table)]
        return logits.roll(mood(self), dims=-1)


class Climb(nn.Module):
    """A model that counts its epochs, with the accuracies that each epoch will have.

    `counter` is its weight, `seen` a buffer; both are the number of epochs. Every look at the test
    examples after the first makes the test accuracy one larger: who looks often finds what pleases.
    """

    counter: nn.Parameter
    seen: torch.Tensor

    def __init__(self, valid: list[float], test: list[float]):
        super().__init__()
        self.counter = nn.Parameter(torch.zeros(()))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
        self.accuracies, self.looks = {"valid": valid, "test": test}, 0


def climb(model: Climb) -> None:
    """Train `model` for one epoch, in place, as an optimizer does."""
    with torch.no_grad():
        model.counter.add_(1)
        model.seen.add_(1)


def look(model: Climb, split: str) -> float:
    """The accuracy of `model` as its weight and buffer stand; -1 where they disagree.

    A model that was never trained is best on "valid", so that whoever may choose it does, and -1 on "test".
    """
    epoch = int(model.counter)
    if epoch == int(model.seen) == 0 and split == "valid":
        return 1.0
    model.looks += split == "test"
    extra = max(0, model.looks - 1) if split == "test" else 0
    return model.accuracies[split][epoch - 1] + extra if epoch == int(model.seen) and epoch > 0 else -1.0


class Walk:
    """Trains a linear map, by adding the same step to its weight in each epoch, and judges it by examples.

    Unlike `Climb` it can be used with any `nn.Linear`, which knows nothing of accuracies. `looks` counts those at
    the test examples.
    """

    def __init__(self, stride: torch.Tensor, examples: dict[str, list[torch.Tensor]]):
        self.stride, self.examples, self.looks = stride, examples, 0

    def train_epoch(self, model: nn.Linear) -> None:
        """One epoch, in place, as an optimizer does."""
        with torch.no_grad():
            model.weight.add_(self.stride)

    def evaluate(self, model: nn.Linear, split: str) -> float:
        """The share of the examples of "valid" or "test" whose best class is their label."""
        self.looks += split == "test"
        inputs, labels = self.examples[split]
        with torch.no_grad():
            return int((model(inputs).argmax(-1) == labels).sum()) / len(labels)


def step(model: nn.Module, rule: torch.optim.Optimizer, x: torch.Tensor, labels: torch.Tensor) -> None:
    """One step on the mean cross-entropy of `model(x)`; the gradients of before are zeroed, not removed."""
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


def left_behind(call: Callable[..., Any], value: Any, *rest: Any) -> Any:
    """`value` as `call(value, *rest)` leaves it."""
    call(value, *rest)
    return value


def stays(call: Callable[..., dict[str, Any]], *given: Any) -> bool:
    """Whether the tensors in the dict that `call(*given)` gives stay as they are when all that are given move."""
    found = call(*given)
    were = {name: part.clone() for name, part in found.items()}
    with torch.no_grad():
        for part in leaves(list(given)):
            if is_tensor(part):
                part.add_(1)
    return all(torch.equal(found[name], part) for name, part in were.items())


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


class TimeFirst(nn.Module):
    """`model` read with time first: the same logits (B, T, V), not contiguous."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """From token numbers (B, T) to logits (B, T, V)."""
        return self.model(tokens.mT).transpose(0, 1)


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
        elif name in PACKED:
            values, counts = ([one for one in given if one.is_floating_point() is real] for real in (True, False))
            on = any(self.holds(one) for one in values)
            if any(self.holds(one) for one in counts) or (on and not all(self.holds(one) for one in values)):
                raise self.Apart("lengths are packed on the CPU, and all that is read lies on one device")
        elif name in ("to", "tensor", "as_tensor", "copy_", "__getitem__", "__setitem__") or not given:
            on = bool(given) and self.holds(given[0])
            apart = name[:5] in ("__get", "__set") and not on and any(self.holds(one) for one in given[1:])
            if apart:
                raise self.Apart("a tensor is indexed by one of another device")
        else:
            on = any(self.holds(one) for one in given)
            if on and any(not self.holds(one) and one.dim() for one in given):
                raise self.Apart("tensors of two devices are used together")
            if on and in_place(name) and not self.holds(given[0]):
                raise self.Apart("what is computed elsewhere is written into a tensor of here")
        here = torch.get_default_device()
        args, kwargs = moved(args, here), moved(kwargs or {}, here)
        result = args[0] if name in ("cuda", "cpu") else func(*args, **kwargs)
        if name in ("to", "cuda", "cpu", "type_as", "as_tensor") and on != self.holds(result):
            result = result.clone()
        for one in leaves(result):
            if is_tensor(one) and on and (name not in PACKED or one.is_floating_point()):
                self.mark(one)
        return result


def in_place(name: str) -> bool:
    """Whether a function of torch of this name writes into its first tensor."""
    return name in IN_PLACE or (name.endswith("_") and not name.endswith("__"))


IN_PLACE = ("__iadd__", "__isub__", "__imul__", "__itruediv__", "__ifloordiv__", "__iand__", "__ior__", "__ixor__")


class WithGenerator(Elsewhere):
    """`Elsewhere`, where generators are on the CPU: torch lets none of them draw on the second device."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """As that of `Elsewhere`, if no generator draws on the other device."""
        given = leaves([args, kwargs])
        if any(isinstance(one, torch.Generator) and one.device.type == "cpu" for one in given):
            names = [one for one in given if isinstance(one, torch.device) or (isinstance(one, str) and one in NAMES)]
            there = [torch.device(one).type == self.there.type for one in names]
            if any(there or [is_tensor(one) and self.holds(one) for one in given]):
                raise self.Apart("a generator draws on its own device alone")
        return super().__torch_function__(func, types, args, kwargs)


NAMES = ("cuda", "cpu")
# What packs sentences and reads packed ones: the numbers of their tokens stay on the CPU.
PACKED = ("_pack_padded_sequence", "_pad_packed_sequence", "lstm", "gru", "rnn_tanh", "rnn_relu")


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


def apart_in_training(train_epoch: Callable[..., Any], batches: Any, clip: float) -> bool:
    """`apart` for an epoch of `Bigram` on `batches` of its tokens 0 to 6."""
    model = Bigram(torch.zeros(7, 7), torch.zeros(7))
    placed = [[Elsewhere.mark(part.clone()) for part in batch] for batch in batches]
    return apart(lambda model: train_epoch(model, placed, torch.optim.SGD(model.parameters(), lr=0.1), clip), model)


def apart(call: Callable[..., Any], *args: Any, **options: Any) -> bool:
    """Whether `call(*args, **options)` would stop, or leave its result behind, if all its tensors were on a GPU.

    Modules and tensors among `args`, and in lists there, are copied to the second device of `Elsewhere`. What else
    goes wrong says nothing.
    """
    return _stops(Elsewhere(), call, args, options)


def apart_from_generator(call: Callable[..., Any], *args: Any) -> bool:
    """`apart`, also where a generator on the CPU is asked to draw on the GPU."""
    return _stops(WithGenerator(), call, args, {})


def moves_away(call: Callable[..., Any], *args: Any) -> bool:
    """Whether `call(*args)` puts a result on a GPU where torch says that there is one."""
    try:
        with mock.patch.object(torch.cuda, "is_available", lambda: True), Elsewhere():
            return any(is_tensor(one) and Elsewhere.holds(one) for one in leaves(call(*args)))
    except Exception:  # not what is asked here
        return False


def _stops(mode: Elsewhere, call: Callable[..., Any], args: Sequence[Any], options: dict[str, Any]) -> bool:
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


def shape_on_meta(call: Callable[..., Any], *given: Any) -> list[int]:
    """The shape of `call(*given)` with all tensors, and a module's own, on torch's meta device.

    [] if `call` makes tensors that do not follow it there, as on a GPU, or answers with one that lies elsewhere.
    """
    there = [item.to("meta") if isinstance(item, torch.Tensor) else item for item in given]
    call = twin(call).to("meta") if isinstance(call, nn.Module) else call
    try:
        with OneDevice():
            result = call(*there)
    except (RuntimeError, NotImplementedError):
        return []
    return list(result.shape) if result.device.type == "meta" else []


def reseeds(call: Callable[..., Any], *args: Any) -> bool:
    """Whether `call(*args)` seeds torch's global generator: whatever is drawn after it is then always the same."""
    states = []
    with torch.random.fork_rng():
        for seed in (1, 2):
            torch.manual_seed(seed)
            call(*args)
            states.append(torch.get_rng_state())
    return torch.equal(*states)


def salted(value: Any) -> int:
    """What `hash` gives in another session of Python: of text, and of what holds text, another number."""
    return hash((value, "another session")) if any(isinstance(leaf, str) for leaf in leaves(value)) else hash(value)


def survives_the_session(streams: Callable[[int], Any], seed: int, parts: list[str]) -> bool:
    """Whether the generators of `streams(seed)` begin as they do where `hash` is that of another session."""

    def begins() -> list[list[int]]:
        made = streams(seed)
        return [torch.randint(2**62, (2,), generator=made[part]).tolist() for part in parts]

    here, names = begins(), getattr(streams, "__globals__", {})
    if "hash" in names:
        return True
    names["hash"] = salted
    try:
        return begins() == here
    finally:
        del names["hash"]


def states_of(streams: Callable[[int], Any], seeds: list[int], parts: list[str]) -> torch.Tensor:
    """The states of the generators `streams(seed)[part]`, one a row: all parts of a seed, then the next seed."""
    found = [streams(seed) for seed in seeds]
    return torch.stack([one[part].get_state().cpu() for one in found for part in parts])


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


def leaves_gradients(call: Callable[..., Any], part: nn.Module, *rest: Any) -> bool:
    """Whether `call(part, *rest)` leaves a gradient at parameters of `part`, which have none before."""
    part.zero_grad()  # to None
    call(part, *rest)
    return any(one.grad is not None for one in part.parameters())


def replaces_parameters(call: Callable[..., Any], model: nn.Module, *rest: Any) -> bool:
    """Whether `model` has other parameters after `call(model, *rest)`, not only other values in them."""
    before = list(model.parameters())
    call(model, *rest)
    after = list(model.parameters())
    return len(before) != len(after) or any(old is not new for old, new in zip(before, after, strict=True))


def gradient_arrives(call: Callable[..., Any], part: nn.Module, *rest: Any) -> bool:
    """Whether a gradient flows back from the tensors that `call(part, *rest)` gives to a parameter of `part`."""
    with torch.enable_grad():
        flowing = [tensor.sum() for tensor in call(part, *rest) if tensor.requires_grad]
    learning = [one for one in part.parameters() if one.requires_grad]
    if not flowing or not learning:
        return False
    slopes = torch.autograd.grad(torch.stack(flowing).sum(), learning, allow_unused=True)
    return any(slope is not None for slope in slopes)


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


def twice(call: Callable[..., Any], first: nn.Module, second: nn.Module, state: dict[str, torch.Tensor]) -> Any:
    """Call `call(module, state)` for two modules with one `state`, then add 1 to all that the first one holds.

    Gives the state dict of the second and what became of `state`: neither has to do with the first any more.
    """
    call(first, state)
    call(second, state)
    with torch.no_grad():
        for value in first.state_dict().values():
            value.add_(1)
    return [dict(second.state_dict()), state]


def probe_gradients(call: Callable[..., Any], head: nn.Module, *given: Any) -> list[torch.Tensor]:
    """The gradients of the parameters of `head` that is to learn from what `call(*given)` gives: states and labels."""
    states, labels = call(*given)
    with torch.enable_grad():
        nn.functional.cross_entropy(head(states), labels).backward()
    return [torch.zeros_like(part) if part.grad is None else part.grad for part in head.parameters()]


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


def written_over(call: Callable[..., Any], value: torch.Tensor, *rest: Any) -> torch.Tensor:
    """`value` after all tensors that `call(value, *rest)` gives were overwritten: as it was, if they are new ones."""
    for tensor in call(value, *rest):
        tensor.fill_(-7)
    return value


def after_writing(call: Callable[..., torch.Tensor], *given: Any) -> torch.Tensor:
    """What `call(*given)` gives after the booleans that it gave before were overwritten with their opposite."""
    before = call(*given)
    with torch.inference_mode():  # the only one in which a tensor that was made in it may be written
        before.logical_not_()
    return call(*given)


def noise(ids: torch.Tensor, *, generator: torch.Generator | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """`ids`, copied, and random numbers in their shape, so large that two draws never meet."""
    return ids.clone(), torch.randint(2**62, ids.shape, generator=generator, device=ids.device)


def noise_again(masking: Any, epoch: int) -> Any:
    """What `masking.epoch(epoch)` gives after all that it gave before was overwritten."""
    for tensor in masking.epoch(epoch):
        tensor.zero_()
    return masking.epoch(epoch)


def generator_apart(Masking: Callable[..., Any]) -> bool:
    """Whether `Masking` of ids on torch's meta device calls the mask with a generator that lies elsewhere.

    There are no generators on that device: who asks for one there gets an exception, which says nothing.
    """
    met = []

    def mask(ids: torch.Tensor, *, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        met.append(ids.device.type != generator.device.type)
        return ids.clone(), ids.clone()

    with contextlib.suppress(Exception):
        Masking(torch.zeros(2, 3, dtype=torch.long, device="meta"), mask).epoch(0)
    return any(met)


def keeps_gradients(call: Callable[..., Any], model: nn.Module, *rest: Any) -> bool:
    """Whether gradients that `model` has are the same ones after `call(model, *rest)`. Afterwards it has none."""
    leave_gradients(model)
    call(model, *rest)
    kept = all(one.grad is not None and bool((one.grad == 1).all()) for one in model.parameters() if one.requires_grad)
    model.zero_grad(set_to_none=True)
    return kept


def numel_beyond(part: nn.Module, other: nn.Module) -> int:
    """How many numbers the parameters of `part` hold that are no parameters of `other`."""
    known = {id(one) for one in other.parameters()}
    return sum(one.numel() for one in part.parameters() if id(one) not in known)


def slope_of_table(call: Callable[..., torch.Tensor], x: torch.Tensor, table: nn.Embedding) -> torch.Tensor:
    """The gradient of a fixed sum over `call(x)` for the rows of `table`; zeros where none arrives."""
    table.zero_grad()
    with torch.enable_grad():
        backward(call(x))
    return torch.zeros_like(table.weight) if table.weight.grad is None else table.weight.grad


def sharing(vocab_size: int, width: int) -> nn.Module:
    """Parts of many kinds, some of them without a telling name; the last layer has the first one's weight."""
    first, last = nn.Embedding(vocab_size, width), nn.Linear(width, vocab_size)
    last.weight = first.weight
    inside = [nn.LayerNorm(width), nn.Linear(width, width), nn.RMSNorm(width), nn.GroupNorm(1, width)]
    return nn.Sequential(first, *inside, nn.Conv1d(width, width, 2), last)


def decays(call: Callable[..., Any], model: nn.Module, weight_decay: float) -> dict[str, list[Any]]:
    """For each parameter of `model`, by name, the decay of every group of `call(model, weight_decay)` it stands in.

    Under "strangers" those of parameters that the model does not have, under "keys" what a group lacks. The groups
    must please torch's AdamW.
    """
    groups = list(call(model, weight_decay))
    missing = [key for group in groups for key in ("params", "weight_decay") if key not in group]
    if missing:
        return {"keys": missing}
    torch.optim.AdamW([dict(group) for group in groups if list(group["params"])], lr=0.1)
    names = {id(part): name for name, part in model.named_parameters()}
    found: dict[str, list[float]] = {name: [] for name in names.values()}
    for group in groups:
        for part in group["params"]:
            found.setdefault(names.get(id(part), "strangers"), []).append(float(group["weight_decay"]))
    return found


def flows_back(call: Callable[..., torch.Tensor], x: torch.Tensor, *rest: Any) -> bool:
    """Whether a gradient can flow back from `call(x, *rest)` to x, and not only to a number that was made anew."""
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


def step_on_task(model: nn.Module, tokens: torch.Tensor, task: str, labels: torch.Tensor, lr: float) -> None:
    """One step of gradient descent on the cross-entropy of `model(tokens, task)`, for all parameters of `model`."""
    rule = torch.optim.SGD(model.parameters(), lr=lr)
    with torch.enable_grad():
        nn.functional.cross_entropy(model(tokens, task), labels).backward()
    rule.step()
    rule.zero_grad()


def head_beside(make: Callable[..., Any], encoder: nn.Module, d: int, device: str, dtype: str, late: bool) -> list[str]:
    """Device and dtype of the head that `make(encoder, d)` makes for a new task when the encoder has these.

    If `late`, it gets them only after the model was made.
    """
    there = device, getattr(torch, dtype)
    encoder = copy.deepcopy(encoder)
    model = make(encoder, d).to(*there) if late else make(encoder.to(*there), d)
    model.add_task("new", 3)
    weight = model.heads["new"].weight
    return [weight.device.type, str(weight.dtype)[6:]]


class Mixes(nn.Module):
    """States (B, T, d), each plus the mean over its text: the first one depends on all tokens, as in an encoder."""

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """From states to such states."""
        return states + states.mean(1, keepdim=True)


class Learner(nn.Module):
    """Is taught tasks by name. How well it knows one depends on all lessons so far and on their order.

    What it knows is a weight, `known`; `lessons` says what it was taught. It must be taught in training mode, with all
    its parts, and with gradients: a lesson otherwise goes by another name. Asked in training mode it is taught once
    more. A lesson leaves a gradient; `bare` counts those that did not find the one that the last lesson left.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lessons: list[str] = []
        self.known = nn.Parameter(torch.zeros((), dtype=torch.float64))
        self.fixed = nn.Parameter(torch.zeros(()), requires_grad=False)
        self.part = nn.Identity()
        self.bare = 0


def lesson_after(number: int, lesson: str) -> int:
    """What a learner that knew `number` knows after one more lesson."""
    return (31 * number + sum(place * ord(letter) for place, letter in enumerate(lesson, 3)) + 7) % 9973


def take_lesson(model: Learner, lesson: str) -> None:
    """Add a lesson to what the model knows."""
    model.lessons.append(lesson)
    with torch.no_grad():
        model.known.fill_(lesson_after(int(model.known), lesson))


def teach(model: Learner, task: str) -> None:
    """Teach `task` to the model, in place."""
    model.bare += bool(model.lessons) and bare_now(model)
    mode = "" if all(part.training for part in model.modules()) else ", in evaluation mode"
    take_lesson(model, f"{task}{mode}{'' if torch.is_grad_enabled() else ', without gradients'}")
    model.known.grad = torch.ones_like(model.known)


def bare_now(model: Learner) -> bool:
    """Whether the gradient that the last lesson left is gone, or another one."""
    return model.known.grad is None or float(model.known.grad) != 1


def examine(model: Learner, task: str) -> float:
    """The accuracy at `task`, from 0 to 1; 1 more in training mode, 2 more where gradients are recorded."""
    number = lesson_after(lesson_after(int(model.known), ""), task)
    if any(part.training for part in model.modules()):
        take_lesson(model, f"{task}, while it was examined")
    return number / 9973 + mood(model)


def kept_counts(Replay: Callable[..., Any], capacity: int, count: int, repeats: int, seed: int) -> list[int]:
    """How many of `repeats` memories of `capacity` hold each of the examples 0 to `count` - 1 after all were added.

    The last number is how many kept another number of examples than they should.
    """
    rng, tally = random.Random(seed), [0] * (count + 1)
    for _ in range(repeats):
        memory = Replay(capacity, rng)
        for number in range(count):
            memory.add(number)
            if number == capacity:  # what is drawn in between changes no chance
                memory.sample(1)
        for number in memory.examples:
            tally[number] += 1
        tally[count] += len(memory.examples) != min(capacity, count)
    return tally


def drawn_counts(Replay: Callable[..., Any], count: int, n: int, repeats: int, seed: int) -> list[int]:
    """In how many of `repeats` samples of `n` each of `count` examples is, that all have their place in the memory."""
    memory, tally = Replay(count, random.Random(seed)), [0] * count
    for number in range(count):
        memory.add(number)
    for _ in range(repeats):
        for number in memory.sample(n):
            tally[number] += 1
    return tally


def drawn_with_first(Replay: Callable[..., Any], count: int, repeats: int, seed: int) -> list[int]:
    """In how many of `repeats` samples of two the first of `count` examples is, together with each of the others."""
    memory, tally = Replay(count, random.Random(seed)), [0] * count
    for number in range(count):
        memory.add(number)
    for _ in range(repeats):
        pair = memory.sample(2)
        for number in pair:
            tally[number] += 0 in pair
    return tally[1:]


def outcomes(Replay: Callable[..., Any], capacity: int, count: int, n: int, seeds: list[int]) -> list[Any]:
    """What a memory keeps and draws, for each of `seeds` of its generator, and for the first once more.

    The generators of the session are seeded in another way each time, and are afterwards as they were.
    """
    found, state = [], random.getstate()
    with torch.random.fork_rng():
        for place, seed in enumerate([*seeds, seeds[0]]):
            random.seed(place)
            torch.manual_seed(place)
            memory = Replay(capacity, random.Random(seed))
            for number in range(count):
                memory.add(number)
            found.append([list(memory.examples), list(memory.sample(n)), list(memory.sample(n))])
    random.setstate(state)
    return found


def kept_and_drawn(Replay: Callable[..., Any], capacity: int, stream: list[Any], n: int, seed: int) -> list[Any]:
    """What a memory keeps of `stream`, a sample of n, what it keeps after that, and after the sample was emptied.

    Then the types of the sample and of what holds the examples, and whether they are the very ones that were added.
    """
    memory = Replay(capacity, random.Random(seed))
    for one in stream:
        memory.add(one)
    holder, kept, drawn = type(memory.examples).__name__, list(memory.examples), memory.sample(n)
    told, left = list(drawn), list(memory.examples)
    if isinstance(drawn, list):
        drawn.clear()
    themselves = all(any(one is other for other in stream) for one in kept)
    return [kept, told, left, list(memory.examples), type(drawn).__name__, holder, themselves]


def modes_in_head(learn: Callable[..., Any], model: Any, task: str, *rest: Any) -> list[bool]:
    """Whether each dropout in the head of a task was in training mode, each time that `learn` had it act."""
    seen: list[bool] = []
    parts = [part for part in model.heads[task].modules() if isinstance(part, nn.Dropout)]
    hooks = [part.register_forward_pre_hook(lambda module, given: seen.append(module.training)) for part in parts]
    learn(model, task, *rest)
    for hook in hooks:
        hook.remove()
    return seen


def keeps_tensors(Replay: Callable[..., Any], capacity: int, count: int, seed: int) -> int:
    """How many examples are drawn of a memory of batches of tensors, which no `==` tells apart."""
    memory = Replay(capacity, random.Random(seed))
    for number in range(count):
        memory.add({"ids": torch.tensor([number, number + 1])})
        memory.sample(2)
    return len(memory.sample(count))


def anchor_after_moves(remember: Callable[..., Any], model: nn.Module) -> list[Any]:
    """What `remember(model)` gave, looked at after all parameters grew by 1; and whether any of it needs a gradient."""
    anchor = remember(model)
    flowing = any(value.requires_grad for value in anchor.values())
    with torch.no_grad():
        for one in model.parameters():
            one.add_(1)
    return [{name: value.detach() for name, value in anchor.items()}, flowing]


def slopes_by_name(call: Callable[..., Any], model: nn.Module, *rest: Any) -> dict[str, torch.Tensor]:
    """The gradient of `call(model, *rest)`, one number, for each parameter by name, zeros where none arrives."""
    with torch.enable_grad():
        value = call(model, *rest)
        named = dict(model.named_parameters())
        learning = {name: part for name, part in named.items() if part.requires_grad}
        slopes: Any = [None] * len(learning)
        if isinstance(value, torch.Tensor) and value.requires_grad:
            slopes = torch.autograd.grad(value, [*learning.values()], allow_unused=True)
    pairs = zip(learning.items(), slopes, strict=True)
    return {name: torch.zeros_like(part) if slope is None else slope for (name, part), slope in pairs}


def flows_from(call: Callable[..., Any], *given: Any) -> bool:
    """Whether any of the tensors that `call(*given)` gives needs a gradient."""
    return any(is_tensor(leaf) and leaf.requires_grad for leaf in leaves(call(*given)))


class TwoHeads(nn.Module):
    """A layer that two tasks share, and a linear map for each: (N, d) -> the losses of both."""

    def __init__(self, d: int, width: int, classes: list[int]):
        super().__init__()
        self.shared = nn.Linear(d, width)
        self.heads = nn.ModuleList(nn.Linear(width, count) for count in classes)

    def forward(self, x: torch.Tensor, labels: list[torch.Tensor], factor: float) -> list[torch.Tensor]:
        """Both mean cross-entropies, the second one times `factor`."""
        states = self.shared(x).tanh()
        losses = [nn.functional.cross_entropy(head(states), one) for head, one in zip(self.heads, labels, strict=True)]
        return [losses[0], factor * losses[1]]


def cosine_of(
    call: Callable[..., Any], model: TwoHeads, x: torch.Tensor, labels: list[torch.Tensor], factor: float, part: str
) -> list[Any]:
    """What `call(loss, loss, parameters)` gives, whether it left every `.grad` alone, and the losses alive.

    `part` is "" for all parameters, as the generator that a module gives, or the name of a part.
    """
    with torch.enable_grad():
        losses = model(x, labels, factor)
        for one in model.parameters():
            one.grad = torch.full_like(one, 3.0)
        found = call(*losses, (getattr(model, part) if part else model).parameters())
        alone = all(one.grad is not None and bool((one.grad == 3).all()) for one in model.parameters())
        try:
            sum(losses).backward()  # type: ignore[union-attr]
        except RuntimeError:
            return [found, alone, False]
    return [found, alone, True]


def meets_other_devices(call: Callable[..., Any], model: nn.Module, x: torch.Tensor) -> bool:
    """Whether `call(model, x)`, with all of it on torch's meta device, makes tensors that do not follow it there.

    What else cannot go on without numbers says nothing.
    """
    there = twin(model).to("meta")
    try:
        with OneDevice():
            found = call(there, x.to("meta"))
    except (RuntimeError, NotImplementedError) as error:
        return "two devices" in str(error) or "same device" in str(error)
    return any(is_tensor(one) and one.device.type != "meta" for one in leaves(found))


class Idle(nn.Module):
    """A linear map (N, d) -> (N, classes), and parameters that no answer depends on."""

    def __init__(self, d: int, classes: int):
        super().__init__()
        self.idle, self.map = nn.Linear(2, d), nn.Linear(d, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The map alone."""
        return self.map(x)


class Fading(nn.Module):
    """A layer with a memory: each place sees itself and all places before it, the farther the less.

    Distances alone count, so that a text read in segments gives what it gives in one piece, if nothing is forgotten.
    """

    def __init__(self, d: int, rate: float = 0.7):
        super().__init__()
        self.now, self.before, self.rate = nn.Linear(d, d), nn.Linear(d, d, bias=False), rate

    def forward(self, x: torch.Tensor, memory: torch.Tensor | None = None) -> torch.Tensor:
        """From x (B, T, d), and a memory (B, M, d) of what came before, to (B, T, d)."""
        seen = x if memory is None else torch.cat([memory, x], 1)
        places = torch.arange(seen.size(1), device=x.device)
        ages = places[seen.size(1) - x.size(1) :, None] - places
        shares = (self.rate ** ages.clamp(min=0)).to(x) * (ages >= 0)
        return (self.now(x) + shares @ self.before(seen)).tanh()


class Rememberer(Table):
    """Logits that hang on every token in sight, memory included, and on their order: a row of a table.

    It must be asked as a model that is tested is: in training mode it shifts its logits by one token, and where
    gradients are recorded by two. Its one memory holds the tokens themselves.
    """

    def forward(
        self, tokens: torch.Tensor, memories: list[torch.Tensor] | None = None, mem_len: int = 0
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """From token numbers (B, T) and what was remembered to logits (B, T, V) and what is to be remembered."""
        seen = tokens if memories is None else torch.cat([memories[0][..., 0].long(), tokens], 1)
        number, rows = torch.zeros_like(seen[:, 0]), []
        for token in seen.unbind(1):
            number = (3 * number + token + 1) % len(self.table)
            rows.append(number)
        logits = self.table[torch.stack(rows[-tokens.size(1) :], 1)]
        kept = seen[:, max(0, seen.size(1) - mem_len) :, None].float()
        return logits.roll(mood(self), dims=-1) if mood(self) else logits, [kept]


def flows_to(result: Any, leaves: list[torch.Tensor]) -> bool:
    """Whether a gradient flows from a tensor back to any of `leaves`.

    `requires_grad` alone does not tell: of a view that was made without gradients it may be true.
    """
    if not is_tensor(result) or not result.requires_grad:
        return False
    slopes = torch.autograd.grad(result.sum(), leaves, allow_unused=True, retain_graph=True)
    return any(slope is not None for slope in slopes)


def remembered_with_gradient(model: nn.Module, tokens: torch.Tensor, mem_len: int) -> list[bool]:
    """For each memory that a model gives, of two segments in a row, whether a gradient flows back from it."""
    with torch.enable_grad():
        first = model(tokens, None, mem_len)[1]
        second = model(tokens, first, mem_len)[1]
        return [flows_to(memory, [*model.parameters()]) for memory in [*first, *second]]


def cut_off(call: Callable[..., torch.Tensor], hidden: torch.Tensor, memory: torch.Tensor | None, count: int) -> str:
    """What `call(memory, hidden, count)` does to gradients of states that need some: "kept", "lost", or "" for nothing.

    "kept": they flow into what it gives; "lost": they no longer flow where the states themselves are used.
    """
    with torch.enable_grad():
        leaves = [one.detach().clone().requires_grad_() for one in (hidden, memory) if one is not None]
        states, before = 2 * leaves[0], 2 * leaves[1] if memory is not None else None
        if flows_to(call(before, states, count), leaves):
            return "kept"
    return "" if states.requires_grad and (before is None or before.requires_grad) else "lost"


class Streams(nn.Module):
    """A layer of two streams that reads both, one after the other in a batch, under one pair of masks."""

    def __init__(self, layer: nn.Module, content: torch.Tensor, query: torch.Tensor):
        super().__init__()
        self.layer, self.masks = layer, (content, query)

    def forward(self, both: torch.Tensor) -> torch.Tensor:
        """From h and g, (2B, T, d), to h' and g' in the same way."""
        return torch.cat([*self.layer(*both.chunk(2), *self.masks)])


def marked(x: torch.Tensor, start: int = 0) -> torch.Tensor:
    """x (..., T, d) plus waves that tell apart columns, and positions from `start` on: stands for a rotation."""
    places = torch.arange(start, start + x.size(-2), device=x.device).unsqueeze(1)
    columns = torch.arange(1, x.size(-1) + 1, device=x.device)
    return x + (0.7 * (places + 1) * columns).sin().to(x.dtype)


class Keeper(nn.Module):
    """x (B, T, d) and a past -> such an x and the new past (B, 1, d), the sum of all x that it ever saw.

    Stands for an attention, and for a block.
    """

    def __init__(self, d: int):
        super().__init__()
        self.map = nn.Linear(d, d)

    def forward(self, x: torch.Tensor, past: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """A linear map of x, plus the new past."""
        now = x.sum(1, keepdim=True)
        now = now if past is None else past + now
        return self.map(x) + now, now


class Writer(Table):
    """A model with a past, which is a list of one tensor, the tokens so far (1, S): they pick the rows of a table.

    `fed` notes of each call how many tokens came in, and how many were in the past. It shifts as `TableModel` does.
    """

    def __init__(self, table: Any):
        super().__init__(table)
        self.fed: list[list[int]] = []
        self.part = nn.Identity()  # whose mode is read, too

    def forward(self, tokens: torch.Tensor, past: Any = None) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """From token numbers (1, T) to logits (1, T, V), and the new past."""
        self.fed.append([tokens.size(1), 0 if past is None else past[0].size(1)])
        every = tokens if past is None else torch.cat([past[0], tokens], dim=1)
        places = torch.arange(1, every.size(1) + 1, device=every.device)
        rows = ((every + 1) * places).cumsum(dim=1) % len(self.table)
        logits = nn.functional.embedding(rows[:, -tokens.size(1) :], self.table)  # on a GPU this wants both there
        return logits.roll(mood(self), dims=-1), [every]


class First(nn.Module):
    """A module that gives the first of the results of another one."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The first result, or the only one."""
        result = self.module(x)
        return result[0] if isinstance(result, (tuple, list)) else result


class Writes(nn.Module):
    """A function that writes with a model, as a module: it is copied and moved as the model is."""

    def __init__(self, call: Callable[..., Any], model: nn.Module):
        super().__init__()
        self.call, self.model = call, model

    def forward(self, *args: Any) -> Any:
        """What the function gives for the model."""
        return self.call(self.model, *args)


def unmarked(x: torch.Tensor, start: int = 0) -> torch.Tensor:
    """x, whatever its positions: stands for a rotation that does not turn."""
    return x


class Counts(nn.Module):
    """Stands for an attention whose past is no tensor but a dict, which counts the calls."""

    def forward(self, x: torch.Tensor, past: dict[str, int] | None = None) -> tuple[torch.Tensor, dict[str, int]]:
        """x as it came, and the new past."""
        return x, {"calls": 1 if past is None else past["calls"] + 1}


class Hands(nn.Module):
    """Stands for an attention, and for a block, whose past is anything: `now`. `given` is the past that came."""

    def __init__(self, now: Any):
        super().__init__()
        self.now, self.given = now, None

    def forward(self, x: torch.Tensor, past: Any = None) -> tuple[torch.Tensor, Any]:
        """x as it came, and the new past."""
        self.given = past
        return x, self.now


def not_handed_on(make: Callable[..., Any], whole: bool) -> str:
    """What kind of past a block, or a `whole` model of blocks, does not hand on as it is, to or from; "" for none."""
    leaf = torch.ones(2, requires_grad=True)
    with torch.enable_grad():
        flowing = 2 * leaf
    pasts = {
        "a list": [flowing, flowing],
        "a tuple": (flowing, flowing),
        "a dict": {"keys": flowing},
        "an empty list": [],
        "a tensor that needs a gradient": flowing,
    }
    for name, one in pasts.items():
        parts = [Hands(one), Hands(one)]
        if whole:
            found = make(5, 3, parts, nn.Identity())(torch.tensor([[1, 4]]), [one, one])[1]
        else:
            block = make(nn.Identity(), parts[0], nn.Identity(), nn.Identity())
            found, parts = [block(torch.ones(1, 2, 3), one)[1]], parts[:1]
        if not all(part.given is one for part in parts) or not all(entry is one for entry in found):
            return name
    return ""


def type_of_second(call: Callable[..., Any], *args: Any) -> str:
    """What the type of the second result of `call(*args)` is called."""
    return type(call(*args)[1]).__name__


def pair_flows(attention: nn.Module, x: torch.Tensor, past: list[torch.Tensor]) -> list[bool]:
    """Whether gradients flow from the pair that `attention` returns to x, and from pair and output to the past."""
    with torch.enable_grad():
        leaf, *kept = (one.detach().clone().requires_grad_() for one in (x, *past))
        output, pair = attention(leaf, tuple(kept))
        flows = [flows_to(one, [leaf]) for one in pair]
        return [*flows, *(flows_to(one, [old]) for one, old in zip([*pair, output], [*kept, kept[0]], strict=True))]


def each(call: Callable[..., Any], turns: list[list[Any]]) -> list[Any]:
    """`call(*turn)` for each of `turns`."""
    return [call(*turn) for turn in turns]


def signs(mask: Any) -> str:
    """A mask (n,) of booleans as a text of so many signs 0 and 1; of anything else "no mask"."""
    good = is_tensor(mask) and mask.dtype == torch.bool and mask.ndim == 1
    return "".join("01"[one] for one in mask.tolist()) if good else "no mask"


def signs_of_each(call: Callable[..., Any], turns: list[list[Any]]) -> list[str]:
    """`signs` of `call(*turn)` for each of `turns`."""
    return [signs(call(*turn)) for turn in turns]


def tally(call: Callable[..., Any], given: list[Any], seed: int, repeats: int) -> dict[str, int]:
    """How often each mask comes of `call(*given, generator=...)`, as `signs`: one generator for all draws."""
    going = seeded(seed)
    counts: dict[str, int] = {}
    for _ in range(repeats):
        found = signs(call(*given, generator=going))
        counts[found] = counts.get(found, 0) + 1
    return counts


class Beside(nn.Module):
    """`part`, called as it is; `other` goes with it to wherever it is moved."""

    def __init__(self, part: nn.Module, other: nn.Module):
        super().__init__()
        self.part, self.other = part, other

    def forward(self, *given: Any) -> Any:
        """What `part` gives."""
        return self.part(*given)


class Parts(nn.Module):
    """Parameters with these names and numbers, which have no dot in them."""

    def __init__(self, numbers: dict[str, torch.Tensor]):
        super().__init__()
        for name, value in numbers.items():
            self.register_parameter(name, nn.Parameter(value.detach().clone()))


def move_all(model: nn.Module, by: int) -> None:
    """Add a whole number to all that the state dict of `model` holds, in place."""
    with torch.no_grad():
        for value in model.state_dict().values():
            value.add_(by)


def snapshot_after_moves(snapshot: Callable[..., Any], model: nn.Module) -> list[Any]:
    """What `snapshot(model)` gave, looked at after all of the model grew by 1; and whether any needs a gradient."""
    saved = snapshot(model)
    flowing = any(value.requires_grad for value in saved.values())
    move_all(model, 1)
    return [{name: value.detach() for name, value in saved.items()}, flowing]


def rewound_after_moves(
    rewind: Callable[..., Any],
    model: nn.Module,
    saved: dict[str, torch.Tensor],
    masks: dict[str, torch.Tensor],
    moved: int,
) -> list[Any]:
    """Whether a model that moved away has its own parameters after `rewind`, what it holds, and what became of both.

    What was saved is looked at after the model moved once more.
    """
    model.load_state_dict(saved)
    move_all(model, moved)
    before = list(model.parameters())
    rewind(model, saved, masks)
    same = all(old is new for old, new in zip(before, model.parameters(), strict=True))
    after = {name: value.clone() for name, value in model.state_dict().items()}
    move_all(model, 1)
    return [same, after, saved, masks]


def ones_as_gradients(model: nn.Module, names: list[str]) -> None:
    """Give the parameters of these names a gradient of ones, whether they learn or not."""
    for name, weights in model.named_parameters():
        weights.grad = torch.ones_like(weights) if name in names else None


def leave_gradients(model: nn.Module) -> None:
    """Give each parameter that learns a gradient of ones, as a step that was never made leaves it."""
    for weights in filter(lambda one: one.requires_grad, model.parameters()):
        weights.grad = torch.ones_like(weights)


class Slow(nn.Module):
    """A model whose calls take so many seconds of a clock of its own, `now`, in turn."""

    def __init__(self, times: list[float]):
        super().__init__()
        self.times, self.time, self.calls, self.trained, self.recorded = times, 0.0, 0, 0, 0
        self.one = nn.Parameter(torch.ones(()))
        self.fixed = nn.Parameter(torch.ones(()), requires_grad=False)
        self.asked: list[torch.Tensor] = []

    def now(self) -> float:
        """The time in seconds."""
        return self.time

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """What it is asked; time passes."""
        self.time += self.times[self.calls % len(self.times)]
        self.calls += 1
        self.trained += self.training
        self.recorded += torch.is_grad_enabled()
        self.asked.append(batch)
        return batch


def measured(
    call: Callable[..., Any], times: list[float], N: int, repeats: int | None, warm_up: int | None, training: bool
) -> list[Any]:
    """What `call(model, batch, repeats, warm_up, clock)` gives for a `Slow` model of this mode and N examples.

    Then how often it was called, the mode it is left in, how often it was in training mode and recorded gradients,
    whether it was always asked the batch, whether gradients are recorded afterwards, as they were before, and whether
    of its two parameters the same one learns. Without `repeats` and `warm_up` the defaults are used.
    """
    model, batch = Slow(times).train(training), torch.randn(N, 3)
    model.time = 1000.0
    some = {} if repeats is None or warm_up is None else {"repeats": repeats, "warm_up": warm_up}
    with torch.enable_grad():
        found = call(model, batch, clock=model.now, **some)
        recording = torch.is_grad_enabled()
    same = all(torch.equal(one, batch) for one in model.asked)
    learns = model.one.requires_grad and not model.fixed.requires_grad
    return [found, model.calls, model.training, model.trained, model.recorded, same, recording, learns]


class Continues(nn.Module):
    """A step of a search: for beginnings, lists of token numbers, log-probabilities of what comes next, (k, V).

    Every token of a beginning and its place decide which row of a table it is. `asked` notes the beginnings, and
    `given` what came of them, beside a copy.
    """

    table: torch.Tensor

    def __init__(self, table: torch.Tensor):
        super().__init__()
        self.register_buffer("table", table.clone())
        self.asked: list[list[list[int]]] = []
        self.given: list[tuple[torch.Tensor, torch.Tensor]] = []

    def forward(self, beginnings: Any) -> torch.Tensor:
        """From k beginnings, lists in a list, to (k, V)."""
        if not isinstance(beginnings, list) or not all(isinstance(one, list) for one in beginnings):
            raise TypeError("`step` takes a list of lists of token numbers, and was called with something else")
        rows = [[int(token) for token in one] for one in beginnings]
        self.asked.append(rows)
        scores = self.table[[row_of_beginning(one, len(self.table)) for one in rows]].log_softmax(-1)
        self.given.append((scores, scores.clone()))
        return scores


def row_of_beginning(tokens: Iterable[int], rows: int) -> int:
    """The row of a table of so many that a beginning picks."""
    return sum((token + 1) * (place + 2) ** 2 for place, token in enumerate(tokens)) % rows


class Searches(nn.Module):
    """A search with a table: `call(step, bos, eos, beams, max_len, alpha)`, as a module that a GPU can hold."""

    def __init__(self, call: Callable[..., Any], table: torch.Tensor):
        super().__init__()
        self.call, self.step = call, Continues(table)

    def forward(self, *given: Any) -> Any:
        """What the search finds, the beginnings that it asked for, and three answers.

        Whether the first that is found is a list, the second a float, and what the step gave as it was.
        """
        found = self.call(self.step, *given)
        two = isinstance(found, (tuple, list)) and len(found) == 2
        kinds = [isinstance(one, kind) for one, kind in zip(found, (list, float), strict=True)] if two else [True, True]
        return [found, self.step.asked, *kinds, all(torch.equal(*pair) for pair in self.step.given)]


def parts_drawn(
    drop_net: Callable[..., Any],
    p: float,
    training: bool,
    seed: int,
    count: int,
    shape: Sequence[int] = (2, 3, 4),
    mixed: bool = False,
) -> list[Any]:
    """What each of so many calls gives: 0 for the first part, 1 for the second, 2 for their mean, 3 for anything else.

    Then whether equal generators give equal draws, whether the parts are changed, torch's own generator, and the
    generator that is given. Parts are recognised within rounding. mixed: they are not contiguous, `own` in another way
    than `bert`, as far as their axes allow.
    """
    numbers = torch.randn(2, *shape, generator=torch.Generator().manual_seed(seed)).to(torch.get_default_device())
    own, bert = numbers.unbind()
    if mixed and shape:
        own = own.transpose(0, -1).clone(memory_format=torch.contiguous_format).transpose(0, -1)
        bert = torch.stack([bert, bert], -1)[..., 0]
    wanted, kept = [own.clone(), bert.clone(), (own + bert) / 2], torch.get_rng_state()
    found, used = [], False
    for _ in range(2):
        going = torch.Generator().manual_seed(seed)
        start = going.get_state()
        values = [drop_net(own, bert, p, training, going) for _ in range(count)]
        used = used or not torch.equal(start, going.get_state())
        fits = [value if is_tensor(value) and value.shape == own.shape else own + torch.inf for value in values]
        every = torch.stack([value.detach() for value in fits])
        near = torch.stack([(every - one).abs().view(count, -1).amax(1) < 1e-5 for one in wanted])
        kinds = torch.where(near.any(0), near.int().argmax(0), 3)
        found.append(kinds.tolist())
    changed = not (torch.equal(own, wanted[0]) and torch.equal(bert, wanted[1]))
    return [found[0], found[0] == found[1], changed, not torch.equal(kept, torch.get_rng_state()), used]


def after_learning(call: nn.Module, *given: Any) -> Any:
    """What a module gives for the very tensors that it was given before, after its weights were doubled in place."""
    call(*given)
    with torch.no_grad():
        for weights in call.parameters():
            weights.mul_(2)
    return call(*given)


def written_between(call: Callable[..., Any], first: torch.Tensor, second: torch.Tensor, *rest: Any) -> Any:
    """`call(first, second + 1, *rest)` after another call, in which the same second tensor held 1 less."""
    given = second.clone()
    call(first, given, *rest)
    given.add_(1)
    return call(first, given, *rest)


def longest_axis(module: nn.Module) -> int:
    """The longest axis of all tensors that a module and its parts hold, as a mask made for later calls is."""
    held = [one for part in module.modules() for one in leaves([*vars(part).values()]) if is_tensor(one)]
    return max((size for one in held for size in one.shape), default=0)


def gradients_in_turn(
    call: Callable[..., Any], tensors: list[torch.Tensor], count: int, *rest: Any
) -> list[list[torch.Tensor]]:
    """`gradients` of so many calls, one after the other."""
    return [gradients(call, tensors, *rest) for _ in range(count)]


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


def slopes_of_all(module: nn.Module, given: list[torch.Tensor], *rest: Any) -> list[Any]:
    """The gradients of a fixed sum over `module(*given, *rest)`: of each that is given, and of the weights by name."""
    module.zero_grad()
    slopes = gradients(module, given, *rest)
    named = module.named_parameters()
    return [slopes, {name: torch.zeros_like(part) if part.grad is None else part.grad for name, part in named}]


class Reads(nn.Module):
    """Stands for an attention of one head: x (B, T, d) asks a memory (B, S, read), of which `allowed` may be read."""

    def __init__(self, d: int, read: int):
        super().__init__()
        self.ask, self.key, self.value = (nn.Linear(size, d, bias=False) for size in (d, read, read))
        self.asked_in = self.training

    def forward(self, x: torch.Tensor, memory: torch.Tensor, allowed: torch.Tensor | None = None) -> torch.Tensor:
        """From x to the same shape; `allowed` is None or bool, with three axes. `asked_in` notes the mode."""
        self.asked_in = self.training
        match = torch.einsum("btd,bsd->bts", self.ask(x), self.key(memory))
        if allowed is not None:
            if allowed.dtype != torch.bool or allowed.dim() != 3:
                raise TypeError("`allowed` should be a bool tensor with three axes, (B or 1, T or 1, S)")
            match = match.where(allowed, -1e9)
        return torch.softmax(match, 2) @ self.value(memory)
