"""Small models and helpers of notebook 15's checks, and the shared ones. Checks build them in the student's process."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from utils.grading.toys import *


def filled(module: nn.Module, seed: int) -> nn.Module:
    """The module with normal numbers for its parameters, the same for the same seed."""
    numbers = seeded(seed)
    with torch.no_grad():
        for part in module.parameters():
            part.copy_(torch.randn(part.shape, generator=numbers))
    return module


def linear(n: int, m: int, bias: bool = True, seed: int = 0, dtype: str = "float32") -> nn.Module:
    """A linear map from n to m with known weights."""
    return filled(nn.Linear(n, m, bias=bool(bias)), seed).to(getattr(torch, dtype))


# 15.1


def learning_names(module: nn.Module) -> list[str]:
    """The names of the parameters that learn."""
    return [name for name, part in module.named_parameters() if part.requires_grad]


def facts_of(module: Any) -> list[Any]:
    """The scale of a LoRALinear as a float, and what `merged` is at first."""
    return [float(module.scale), module.merged]


def while_merged(module: Any, x: torch.Tensor) -> list[torch.Tensor]:
    """What it gives while `merged` is True, and after it is False again."""
    found = []
    for merged in (True, False):
        module.merged = merged
        found.append(module(x).detach())
    return found


def is_kept(make: Callable[..., Any], base: nn.Module) -> bool:
    """Whether `linear` of a LoRALinear is the very module that was given."""
    return make(base, 2, 4.0).linear is base


def slope_while_merged(module: Any, x: torch.Tensor) -> torch.Tensor:
    """The gradient of a fixed sum over what it gives while `merged` is True, for x; zeros where none arrives."""
    module.merged = True
    found = gradients(module, [x])[0]
    module.merged = False
    return found


def born_with(make: Callable[..., Any], dtype: str, device: str) -> list[str]:
    """The dtypes of A and B, then their devices, for a linear map of this dtype on this device."""
    base = nn.Linear(6, 4, device=device, dtype=getattr(torch, dtype))
    made = make(base, 2, 4.0)
    return [str(made.A.dtype)[6:], str(made.B.dtype)[6:], made.A.device.type, made.B.device.type]


def leaves_its_numbers(make: Callable[..., Any], base: nn.Module) -> bool:
    """Whether the numbers of a linear map are as before, once a LoRALinear is made around it."""
    before = {name: part.detach().clone() for name, part in base.named_parameters()}
    make(base, 2, 4.0)
    return all(torch.equal(part, before[name]) for name, part in base.named_parameters())


def gives_in(make: Callable[..., Any], base: nn.Module, A: torch.Tensor, B: torch.Tensor, x: torch.Tensor) -> Any:
    """What a LoRALinear around this linear map gives with these A and B, and alpha / rank = 2."""
    made = make(base, A.size(0), 2.0 * A.size(0))
    with torch.no_grad():
        made.A.copy_(A)
        made.B.copy_(B)
    return made(x).detach()


def after_changes(module: Any, x: torch.Tensor) -> list[torch.Tensor]:
    """What it gives after B was tripled, in training and then in evaluation mode, each after a call before that."""
    found = []
    for mode in (True, False):
        module.train(mode)(x)
        with torch.no_grad():
            module.B.mul_(3)
        found.append(module(x).detach())
    module.train()
    return found


# 15.2


class Low(nn.Module):
    """Stands for a LoRALinear: a frozen linear map, A, B, the scale, and whether it is merged."""

    def __init__(self, n: int, m: int, rank: int, scale: float, bias: bool, seed: int, dtype: str):
        super().__init__()
        self.linear, self.scale, self.merged = nn.Linear(n, m, bias=bool(bias)), scale, False
        self.A, self.B = nn.Parameter(torch.zeros(rank, n)), nn.Parameter(torch.zeros(m, rank))
        filled(self, seed).to(getattr(torch, dtype))
        for frozen in (self.linear.weight, self.linear.bias) if bias else (self.linear.weight,):
            frozen.requires_grad = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From (..., n) to (..., m)."""
        base = self.linear(x)
        return base if self.merged else base + self.scale * (x @ self.A.T) @ self.B.T


def effects(calls: Sequence[Callable[..., Any]], layer: Low, x: torch.Tensor) -> list[dict[str, Any]]:
    """What is so after each of these calls with the layer, the first one before any."""
    parts, found, returned = dict(layer.named_parameters()), list[dict[str, Any]](), True
    places = {name: part.data_ptr() for name, part in parts.items()}
    for call in (None, *calls):
        if call is not None:
            returned = call(layer) is layer
        now = dict(layer.named_parameters())
        found.append(
            {
                "returned": returned,
                "merged": layer.merged,
                "same": now.keys() == parts.keys() and all(now[name] is part for name, part in parts.items()),
                "in place": all(part.data_ptr() == places.get(name) for name, part in now.items()),
                "learns": learning_names(layer),
                "gradients": any(part.grad is not None for part in parts.values()),
                "plain": layer.linear.weight.is_leaf,
                "dtype": str(layer.linear.weight.dtype)[6:],
                "state": {name: part.detach().clone() for name, part in layer.state_dict().items()},
                "output": layer(x).detach() if layer.linear.weight.dtype is x.dtype else x,
            }
        )
    return found


def turned(merge: Callable[..., Any], unmerge: Callable[..., Any], layer: Low) -> list[torch.Tensor]:
    """The weight after each of five turns of one sequence.

    Merged after B grew by one since the last merge; unmerged after the weight grew by one; merged and unmerged after
    `merged` was set to True by hand; merged after it was set to False by hand while the change was in the weight.
    """
    weight, found = layer.linear.weight, list[torch.Tensor]()

    def note(call: Callable[..., Any], by_hand: bool | None = None) -> None:
        if by_hand is not None:
            layer.merged = by_hand
        call(layer)
        found.append(weight.detach().clone())

    merge(layer)
    unmerge(layer)
    with torch.no_grad():
        layer.B.add_(1)
    note(merge)
    with torch.no_grad():
        weight.add_(1)
    note(unmerge)
    note(merge, True)
    note(unmerge)
    merge(layer)
    note(merge, False)
    return found


def keeps_modes(call: Callable[..., Any], layer: Low) -> bool:
    """Whether a call keeps the mode of a layer, and of the linear map in it, which has another one."""
    found = []
    for mode in (True, False):
        layer.train(mode).linear.train(not mode)
        call(layer)
        found += [layer.training is mode, layer.linear.training is not mode]
    return all(found)


class Merges(nn.Module):
    """A layer that is merged when it is called: it is copied and moved as the layer is."""

    def __init__(self, calls: list[Callable[..., Any]], layer: nn.Module):
        super().__init__()
        self.calls, self.layer = calls, layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The calls in turn, then the layer."""
        for call in self.calls:
            call(self.layer)
        return self.layer.forward(x)


def twins_share(merge: Callable[..., Any]) -> bool:
    """Whether a weight that two layers share is still one parameter after one of them was merged."""
    layer, other = Low(3, 4, 2, 0.5, True, 1, "float32"), nn.Linear(3, 4)
    other.weight = layer.linear.weight
    merge(layer)
    return other.weight is layer.linear.weight


def slopes_of_squares(layer: nn.Module, x: torch.Tensor) -> dict[str, torch.Tensor]:
    """The gradients of the sum of squares of `layer(x)`, for x and for all that learns; zeros where none arrives."""
    learning = {name: part for name, part in layer.named_parameters() if part.requires_grad}
    learning["x"] = x.clone().requires_grad_()
    with torch.enable_grad():
        squares = layer(learning["x"]).square().sum()
        slopes = torch.autograd.grad(squares, [*learning.values()], allow_unused=True, materialize_grads=True)
    return dict(zip(learning, slopes, strict=True))


# 15.3


class Beside(nn.Module):
    """Stands for a LoRALinear: it has a frozen part, parts of its own that learn, and linear maps inside."""

    def __init__(self, linear: nn.Linear):
        super().__init__()
        self.linear, self.A = linear, nn.Parameter(torch.zeros(1))
        self.up, self.q_proj = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
        self.q_proj.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """As the linear map."""
        return self.linear.forward(x)


def plain(linear: nn.Linear) -> nn.Module:
    """The linear map in a sequence of one: stands for a LoRALinear, and draws no numbers."""
    return nn.Sequential(linear)


class Derived(nn.Linear):
    """A linear map of a class of its own."""


class Branch(nn.Module):
    """A block of the tree: linear maps of several names, and others that look like them."""

    def __init__(self, d: int):
        super().__init__()
        names = ("q_proj", "k_proj", "v_proj", "q_proj_2", "block_proj")
        self.attention = nn.ModuleDict({name: nn.Linear(d, d) for name in names})
        self.mlp = nn.Sequential()
        for name in ("up", "down", "upper"):
            self.mlp.add_module(name, (Derived if name == "up" else nn.Linear)(d, d, bias=False))
        self.gate, self.norm, self.factor = nn.LayerNorm(d), nn.LayerNorm(d), nn.Parameter(torch.ones(d))
        inner = nn.ModuleDict({"k_proj": nn.Linear(d, d), "up": nn.Linear(d, d)})
        self.part = nn.ModuleDict({name: nn.ModuleDict({"base": nn.Linear(d, d)}) for name in ("v_proj", "down")})
        self.expert = nn.ModuleDict({"branch": nn.ModuleDict({"inner": inner})})


class Tree(nn.Module):
    """A model whose layers are found by their last names."""

    def __init__(self, count: int, d: int):
        super().__init__()
        self.embedding = nn.Embedding(5, d)
        self.blocks = nn.ModuleList(Branch(d) for _ in range(count))
        self.down, self.head = nn.Linear(d, d), nn.Linear(d, 5, bias=False)
        self.last = nn.ModuleDict({"v_proj": nn.Linear(d, d), "up": Derived(d, d)})


def inserted(call: Callable[..., Any], model: nn.Module, names: list[str]) -> dict[str, Any]:
    """What `call(model, names, wrap)` returns and leaves, and what it asked `wrap` for."""
    before, given = dict(model.named_modules()), list[str]()
    weights = {name: part.detach().clone() for name, part in model.state_dict().items()}
    whose = {id(part): name for name, part in before.items()}
    slots = [*model.parameters()]
    for slot in slots:
        slot.grad = torch.ones_like(slot)
    first = next(part for name, part in before.items() if name)
    first.train(not model.training)  # one part has another mode than the model
    modes = [part.training for part in before.values()]
    made = list[tuple[Beside, list[bool]]]()

    def wrap(linear: nn.Linear) -> nn.Module:
        given.append(whose.get(id(linear), "?"))
        one = Beside(linear)
        one.training, one.up.training = len(made) % 2 == 0, not model.training
        made.append((one, [one.training, one.up.training]))
        return one

    returned = call(model, names, wrap)
    after = dict(model.named_modules())
    held = model.state_dict()
    kept = {
        name: next(
            (one for one in (name, f"{name.rpartition('.')[0]}.linear.{name.rpartition('.')[2]}") if one in held), ""
        )
        for name in weights
    }
    return {
        "returned": returned,
        "given": given,
        "replaced": [name for name, part in after.items() if isinstance(part, Beside)],
        "original": [
            name for name, part in after.items() if isinstance(part, Beside) and part.linear is before.get(name)
        ],
        "others": all(after.get(name) is part for name, part in before.items() if name not in given),
        "learns": learning_names(model),
        "weights": all(one and torch.equal(held[one], weights[name]) for name, one in kept.items()),
        "modes": [part.training for part in before.values()] == modes,
        "kept modes": all([one.training, one.up.training] == mode for one, mode in made),
        "gradients": all(slot.grad is not None and bool((slot.grad == 1).all()) for slot in slots),
    }


def left_alone(call: Callable[..., Any], model: nn.Module, names: list[str]) -> list[bool]:
    """Whether a call is refused, and whether it leaves the modules as they are, and what learns; `wrap` freezes."""
    before, learns = dict(model.named_modules()), learning_names(model)
    refused = False
    try:
        call(model, names, lambda linear: Beside(linear.requires_grad_(False)))
    except ValueError:
        refused = True
    after = dict(model.named_modules())
    same = after.keys() == before.keys() and all(after[name] is part for name, part in before.items())
    return [refused, same, learning_names(model) == learns]


@dataclass(frozen=True)
class Shape:
    """The sizes of a model of notebook 14."""

    d_model: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    d_ff: int


# 15.4


def pieces(text: str) -> list[int]:
    """Stands for a tokenizer: a number for each letter, and a last one that depends on the whole piece."""
    return [*(ord(one) % 251 for one in text), 1000 + sum(place * ord(one) for place, one in enumerate(text, 1)) % 997]


def larger_pieces(text: str, more: int) -> list[int]:
    """Stands for another tokenizer: the numbers of `pieces`, so much larger."""
    return [one + more for one in pieces(text)]


def encoded(call: Callable[..., Any], messages: list[Any], more: int) -> dict[str, Any]:
    """What a call with an `encode` of its own gives, asks `encode` for, and leaves of the lists that `encode` gave.

    For the same piece it gives the same list each time; its numbers are those of `larger_pieces`.
    """
    given, asked = dict[str, list[int]](), list[str]()

    def encode(text: str) -> list[int]:
        asked.append(text)
        return given.setdefault(text, larger_pieces(text, more))

    found = call(messages, encode)
    kept = all(some == larger_pieces(text, more) for text, some in given.items())
    return {"found": found, "asked": asked, "kept": kept}


# 15.6


class Guesser(nn.Module):
    """A small model of tokens: logits for each place from its token and all before, and something else.

    `asked` notes the tokens of each call, and whether it was in training mode.
    """

    def __init__(self, V: int, d: int, seed: int):
        super().__init__()
        self.table, self.head = nn.Embedding(V, d), nn.Linear(d, V)
        filled(self, seed)
        self.spare = nn.Linear(2, 2)  # gets no gradient
        self.asked: list[Any] = []

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, list[int]]:
        """From token numbers (B, T) to logits (B, T, V), and something else."""
        self.asked.append([tokens.tolist(), self.training])
        x = self.table(tokens)
        counts = torch.arange(1, x.size(1) + 1, device=x.device)[:, None]
        return self.head(x + x.cumsum(1) / counts), [7]


def stepped(
    call: Callable[..., Any], model: Guesser, batches: list[Any], clip: float, lr: float, **how: bool
) -> dict[str, Any]:
    """What a step by `call` returns and leaves, with plain gradient descent; gradients of ones are there before.

    With `frozen`, the optimizer has the head alone, and what gets no gradient is frozen. With `groups`, it has two
    groups of parameters, and in the first one a parameter that is not in the model.
    """
    stray, parts = nn.Parameter(torch.ones(3)), [*(model.head if how.get("frozen") else model).parameters()]
    model.spare.requires_grad_(not how.get("frozen"))
    two = [{"params": [*parts[:1], stray]}, {"params": parts[1:]}]
    rule = torch.optim.SGD(two if how.get("groups") else parts, lr=lr)
    for slot in [*model.parameters(), stray]:
        slot.grad = torch.ones_like(slot)
    model.eval()
    taken, learns = list[int](), learning_names(model)
    rule.register_step_post_hook(lambda *_: taken.append(1))
    given = [tuple(one) for one in batches]
    before = [(one, [part.clone() for part in one]) for one in given]
    value = call(model, rule, given, clip)
    kept = len(given) == len(before) and all(one is other for one, (other, _) in zip(given, before, strict=True))
    return {
        "value": value,
        "state": {name: part.detach().clone() for name, part in model.state_dict().items()},
        "asked": model.asked,
        "training": all(part.training for part in model.modules()),
        "steps": len(taken),
        "learns": learning_names(model) == learns,
        "kept": kept and all(torch.equal(*pair) for one, old in before for pair in zip(one, old, strict=True)),
        "stray": bool((stray == 1).all()),
    }


def refused_step(call: Callable[..., Any], model: Guesser, batches: list[Any]) -> list[bool]:
    """Whether a step is refused with ValueError, and whether the model is as it was and was not called."""
    before = {name: part.clone() for name, part in model.state_dict().items()}
    rule = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
    for slot in [*model.parameters()]:
        slot.grad = torch.ones_like(slot)
    model.eval()
    refused = False
    try:
        call(model, rule, [tuple(one) for one in batches], 1.0)
    except ValueError:
        refused = True
    same = all(torch.equal(before[name], part) for name, part in model.state_dict().items())
    kept = all(part.grad is not None and bool((part.grad == 1).all()) for part in model.parameters())
    return [refused, same and kept and not model.training, not model.asked]


# 15.S1


def in_sixteen_bits(call: Callable[..., Any], given: list[torch.Tensor], beta: float) -> list[Any]:
    """The dtype of the loss for these numbers in bfloat16, and whether all of them still ask for gradients."""
    some = [one.bfloat16().requires_grad_() for one in given]
    found = call(*some, beta)
    return [str(found.dtype)[6:], all(one.requires_grad for one in some)]
