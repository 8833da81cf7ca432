"""Small models and helpers of notebook 12's checks, and the shared ones. Checks build them in the student's process."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from utils.grading.toys import *


def left_behind(call: Callable[..., Any], value: Any, *rest: Any) -> Any:
    """`value` as `call(value, *rest)` leaves it."""
    call(value, *rest)
    return value


class Parts(nn.Module):
    """Parameters with these names and numbers, which have no dot in them; maybe transposed in memory."""

    def __init__(self, numbers: dict[str, torch.Tensor], transposed: bool = False):
        super().__init__()
        for name, value in numbers.items():
            kept = value.detach().mT.contiguous().mT if transposed else value.detach().clone()
            self.register_parameter(name, nn.Parameter(kept))


class Turn(nn.Module):
    """A layer x (..., d) -> (..., d) that is not linear and stays small: the tanh of a linear map."""

    def __init__(self, d: int):
        super().__init__()
        self.map = nn.Linear(d, d)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From (..., d) to the same shape."""
        return self.map(x).tanh()


class Unusual(nn.Module):
    """A model with one matrix under two names, and a buffer that the state dict leaves out."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        self.second.weight = self.first.weight
        self.register_buffer("table", torch.ones(2), persistent=False)
        self.register_buffer("count", torch.zeros(2))


def same_as(model: nn.Module, state: dict[str, torch.Tensor]) -> nn.Module:
    """The model with these weights."""
    model.load_state_dict(state)
    return model


def move_all(model: nn.Module, by: int) -> None:
    """Add a whole number to all that the state dict of `model` holds, in place."""
    with torch.no_grad():
        for value in {one.data_ptr(): one for one in model.state_dict().values()}.values():
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


class Slow(nn.Module):
    """A model whose calls take so many seconds of a clock of its own, `now`, in turn.

    After the clock was read at the end of a call, other work takes a minute; not so of the first `warm_up` calls.
    """

    def __init__(self, times: list[float], warm_up: int = 0):
        super().__init__()
        self.warm_up = warm_up
        self.times, self.time, self.calls, self.trained, self.recorded = times, 0.0, 0, 0, 0
        self.one = nn.Parameter(torch.ones(()))
        self.fixed = nn.Parameter(torch.ones(()), requires_grad=False)
        self.part = nn.Identity()
        self.asked: list[torch.Tensor] = []
        self.read, self.ended, self.readings = False, False, 0

    def now(self) -> float:
        """The time in seconds."""
        time = self.time
        self.readings += 1
        self.time += 60.0 * self.ended
        self.read, self.ended = not self.ended, False
        return time

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """What it is asked; time passes."""
        self.time += self.times[self.calls % len(self.times)]
        self.calls += 1
        self.read, self.ended = False, self.read and self.calls > self.warm_up
        self.trained += self.training or self.part.training
        self.recorded += torch.is_grad_enabled()
        self.asked.append(batch)
        return batch


def measured(
    call: Callable[..., Any], times: list[float], N: int, repeats: int | None, warm_up: int | None, training: bool
) -> list[Any]:
    """What `call(model, batch, repeats, warm_up, clock)` gives for a `Slow` model of this mode and N examples.

    Then how often it was called, whether all its parts are left in their mode, how often it was in training mode and
    recorded gradients, whether it was always asked the batch, whether gradients are recorded afterwards, as they were
    before, whether of its two parameters the same one learns, and how often its clock was read. Without `repeats` and
    `warm_up` the defaults count.
    """
    model, batch = Slow(times, 3 if warm_up is None else warm_up).train(training), torch.randn(N, 3)
    model.time = 1000.0
    some = {} if repeats is None or warm_up is None else {"repeats": repeats, "warm_up": warm_up}
    with torch.enable_grad():
        found = call(model, batch, clock=model.now, **some)
        recording = torch.is_grad_enabled()
    same = all(torch.equal(one, batch) for one in model.asked)
    learns = model.one.requires_grad and not model.fixed.requires_grad
    left = all(part.training is training for part in model.modules())
    return [found, model.calls, left, model.trained, model.recorded, same, recording, learns, model.readings]
