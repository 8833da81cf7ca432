"""Small models and helpers of notebook 13's checks, and the shared ones. Checks build them in the student's process."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from unittest import mock

import torch
from torch import nn

from utils.grading.toys import *


class WithGenerator(Elsewhere):
    """`Elsewhere`, where generators are on the CPU: torch lets none of them draw on the second device."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Do as `Elsewhere` does, but raise if a generator on the CPU is asked to draw on the other device."""
        given = leaves([args, kwargs])
        if any(isinstance(one, torch.Generator) and one.device.type == "cpu" for one in given):
            names = [one for one in given if isinstance(one, torch.device) or (isinstance(one, str) and one in NAMES)]
            there = [torch.device(one).type == self.there.type for one in names]
            if any(there or [is_tensor(one) and self.holds(one) for one in given]):
                raise self.Apart("a generator draws on its own device alone")
        return super().__torch_function__(func, types, args, kwargs)


def apart_from_generator(call: Callable[..., Any], *args: Any) -> bool:
    """`apart`, also where a generator on the CPU is asked to draw on the GPU."""
    return stops(WithGenerator(), call, args, {})


def moves_away(call: Callable[..., Any], *args: Any) -> bool:
    """Whether `call(*args)` puts a result on a GPU where torch says that there is one."""
    try:
        with mock.patch.object(torch.cuda, "is_available", lambda: True), Elsewhere():
            return any(is_tensor(one) and Elsewhere.holds(one) for one in leaves(call(*args)))
    except Exception:  # not what is asked here
        return False


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


def kinds_drawn(drop_net: Callable[..., Any], p: float, seeds: list[list[int]], count: int) -> list[int]:
    """What so many calls in training give with a generator of each of `seeds`: as `parts_drawn`, of single numbers."""
    own, bert = torch.zeros(()), torch.ones(())
    found = []
    for (seed,) in seeds:
        going = torch.Generator().manual_seed(seed)
        found += [drop_net(own, bert, p, True, going).item() for _ in range(count)]
    return [{0.0: 0, 1.0: 1, 0.5: 2}.get(value, 3) for value in found]


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


def same_second(call: Callable[..., Any], first: Any, other: Any, second: Any, *rest: Any) -> Any:
    """`call(other, second, *rest)` after `call(first, second, *rest)`, both without gradients."""
    with torch.no_grad():
        call(first, second, *rest)
        return call(other, second, *rest)


def longest_axis(module: nn.Module) -> int:
    """The longest axis of all tensors that a module and its parts hold, as a mask made for later calls is."""
    held = [one for part in module.modules() for one in leaves([*vars(part).values()]) if is_tensor(one)]
    return max((size for one in held for size in one.shape), default=0)


def gradients_in_turn(
    call: Callable[..., Any], tensors: list[torch.Tensor], count: int, *rest: Any
) -> list[list[torch.Tensor]]:
    """`gradients` of so many calls, one after the other."""
    return [gradients(call, tensors, *rest) for _ in range(count)]


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
