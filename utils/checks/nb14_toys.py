"""Small models and helpers of notebook 14's checks, and the shared ones. Checks build them in the student's process."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from utils.grading.toys import *


def marked(x: torch.Tensor, start: int) -> torch.Tensor:
    """x (..., T, d) plus waves that tell apart columns, and positions from `start` on: stands for a rotation.

    Raises:
        TypeError: `start` is not an int.
    """
    if type(start) is not int:
        raise TypeError(f"`turn(x, start)` takes an int, not a {type(start).__name__}")
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


def norm_of(d: int) -> nn.Module:
    """A layer norm of width d."""
    return nn.LayerNorm(d)


def linear_of(d: int) -> nn.Module:
    """A linear map from d to d."""
    return nn.Linear(d, d)


class Writer(Table):
    """A model with a past, which is a list of one tensor, the tokens so far (1, S): they pick the rows of a table.

    `fed` notes of each call how many tokens came in, and how many were in the past, and `moods` its mood. It shifts as
    `TableModel` does.
    """

    def __init__(self, table: Any):
        super().__init__(table)
        self.fed: list[list[int]] = []
        self.moods: list[int] = []
        self.part = nn.Identity()  # whose mode is read too

    def forward(self, tokens: torch.Tensor, past: Any = None) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """From token numbers (1, T) to logits (1, T, V), and the new past."""
        self.fed.append([tokens.size(1), 0 if past is None else past[0].size(1)])
        self.moods.append(int(mood(self)))
        every = tokens if past is None else torch.cat([past[0], tokens], dim=1)
        places = torch.arange(1, every.size(1) + 1, device=every.device)
        rows = ((every + 1) * places).cumsum(dim=1) % len(self.table)
        logits = nn.functional.embedding(rows[:, -tokens.size(1) :], self.table)  # on a GPU this wants both there
        return logits.roll(mood(self), dims=-1), [every]


class Constant(Table):
    """A model with the same logits everywhere, the one row of its table. Its past is a list without use."""

    def forward(self, tokens: torch.Tensor, past: Any = None) -> tuple[torch.Tensor, list[int]]:
        """From token numbers (1, T) to logits (1, T, V), and the new past."""
        return self.table.expand(1, tokens.size(1), -1), [0]


class Writes(nn.Module):
    """A function that writes with a model, as a module: it is copied and moved as the model is."""

    def __init__(self, call: Callable[..., Any], model: nn.Module):
        super().__init__()
        self.call, self.model = call, model

    def forward(self, *args: Any) -> Any:
        """What the function gives for the model."""
        return self.call(self.model, *args)


def unmarked(x: torch.Tensor, start: int) -> torch.Tensor:
    """x, whatever its positions: stands for a rotation that does not turn."""
    return x


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
        "an empty tuple": (),
        "an empty text": "",
        "the number 0": 0,
        "a tensor that needs a gradient": flowing,
        "a tensor for which None comes back": flowing,
    }
    for name, past in pasts.items():
        one = None if name.endswith("comes back") else past
        parts = [Hands(one), Hands(one)]
        if whole:
            found = make(5, 3, parts, nn.Identity())(torch.tensor([[1, 4]]), [past, past])[1]
        else:
            block = make(nn.Identity(), parts[0], nn.Identity(), nn.Identity())
            found, parts = [block(torch.ones(1, 2, 3), past)[1]], parts[:1]
        given = all(part.given is past for part in parts)
        if not given or len(found) != len(parts) or not all(entry is one for entry in found):
            return name
    return ""


class Paired:
    """A function of a text or of numbers, and of merges, whose merges are a list of tuples: a check sends lists."""

    def __init__(self, call: Callable[..., Any]):
        self.call = call

    def __call__(self, given: Any, merges: list[list[int]]) -> Any:
        """What the function gives. What it does to its list of merges is done to the given one."""
        pairs = [tuple(pair) for pair in merges]
        result = self.call(given, pairs)
        merges[:] = [list(pair) for pair in pairs]
        return result


def keeps_results(model: Callable[..., Any], tokens: torch.Tensor) -> bool:
    """Whether the list of pasts that a call returned stays as it is in later calls, with it and without a past."""
    first = model(tokens)[1]
    kept = [*first]
    model(tokens, first)
    model(tokens)
    return len(first) == len(kept) and all(one is other for one, other in zip(first, kept, strict=True))


def type_of_second(call: Callable[..., Any], *args: Any) -> str:
    """What the type of the second result of `call(*args)` is called."""
    return type(call(*args)[1]).__name__
