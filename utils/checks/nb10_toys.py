"""Small models and helpers of notebook 10's checks, and the shared ones. Checks build them in the student's process."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from utils.grading.toys import *


class Fading(nn.Module):
    """A layer with a memory: each place sees itself and all places before it, the farther the less.

    Distances alone count, so that a text read in segments gives what it gives in one piece, if nothing is forgotten.
    """

    def __init__(self, d: int, rate: float = 0.7):
        super().__init__()
        self.now, self.before, self.rate = nn.Linear(d, d), nn.Linear(d, d, bias=False), rate
        self.given: list[list[int | bool]] = []  # at each call the numbers of tokens and memories, and if it was None

    def forward(self, x: torch.Tensor, memory: torch.Tensor | None = None) -> torch.Tensor:
        """From x (B, T, d), and a memory (B, M, d) of what came before, to (B, T, d)."""
        seen = x if memory is None else torch.cat([memory, x], 1)
        self.given.append([x.size(1), seen.size(1) - x.size(1), memory is None])
        places = torch.arange(seen.size(1), device=x.device)
        ages = places[seen.size(1) - x.size(1) :, None] - places
        shares = (self.rate ** ages.clamp(min=0)).to(x) * (ages >= 0)
        return (self.now(x) + shares @ self.before(seen)).tanh()


class Rememberer(Table):
    """Logits that depend on every token in sight, memory included, and on their order: a row of a table.

    It must be asked as a model that is tested is: in training mode it, or a part of it, shifts its logits by one token,
    and where gradients are recorded by two. Its one memory holds, for each token, its number and the row that it had:
    a token that is remembered counts otherwise than one that is read again.
    """

    def __init__(self, table: Any):
        super().__init__(table)
        self.part = nn.Identity()

    def forward(
        self, tokens: torch.Tensor, memories: list[torch.Tensor] | None = None, mem_len: int = 0
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """From token numbers (B, T) and what was remembered to logits (B, T, V) and what is to be remembered."""
        old = torch.zeros(len(tokens), 0, 2, device=tokens.device) if memories is None else memories[0]
        number, rows = torch.zeros_like(tokens[:, 0]), []
        for remembered in old.long().unbind(1):
            number = (3 * number + remembered.sum(-1) + 1) % len(self.table)
        for token in tokens.unbind(1):
            number = (3 * number + token + 1) % len(self.table)
            rows.append(number)
        logits = self.table[torch.stack(rows, 1)]
        new = torch.stack([tokens, torch.stack(rows, 1)], -1).float()
        kept = torch.cat([old, new], 1)
        kept = kept[:, max(0, kept.size(1) - mem_len) :]
        return logits.roll(mood(self), dims=-1) if mood(self) else logits, [kept]


def given_to(model: Any, count: int) -> list[list[list[int | bool]]]:
    """What each layer of a model was given in its last `count` calls, see `Fading.given`."""
    return [layer.given[-count:] for layer in model.layers]


class SecondHalf(nn.Module):
    """The logits of the second half of a text, after a model of segments has read the first half.

    With mem_len = 0 it reads the second half alone, without any memories.
    """

    def __init__(self, model: nn.Module, mem_len: int):
        super().__init__()
        self.model, self.mem_len = model, mem_len

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From a text (B, 2 T) to logits (B, T, V)."""
        first, second = x.chunk(2, 1)
        memories = self.model(first, None, self.mem_len)[1] if self.mem_len else None
        return self.model(second, memories, self.mem_len)[0]


def remembered_with_gradient(model: nn.Module, tokens: torch.Tensor, mem_len: int) -> list[str]:
    """For each memory that a model gives, of two segments in a row, whether a gradient "flows" back from it.

    Where nothing learns it "needs" one if it says so all the same.
    """
    found, parts = [], [*model.parameters()]
    with torch.enable_grad():
        for learns in (True, False):
            model.requires_grad_(learns)
            first = model(tokens, None, mem_len)[1]
            memories = [*first, *model(tokens, first, mem_len)[1]]
            found += ["flows" if flows_to(one, parts) else "" for one in memories if learns]
            found += ["needs" if one.requires_grad else "" for one in memories if not learns]
    model.requires_grad_(True)
    return found


def cut_off(call: Callable[..., torch.Tensor], hidden: torch.Tensor, memory: torch.Tensor | None, count: int) -> str:
    """What `call(memory, hidden, count)` does to gradients: "kept", "lost", "off", "needs", or "" for nothing.

    "kept": they flow into what it gives; "lost": they no longer flow where the states themselves are used; "off":
    states that learn do so no more; "needs": what it gives says that it needs some.
    """
    found = call(None if memory is None else memory.clone(), hidden.clone(), count)
    if is_tensor(found) and found.requires_grad:
        return "needs"
    with torch.enable_grad():
        leaves = [one.detach().clone().requires_grad_() for one in (hidden, memory) if one is not None]
        states, before = 2 * leaves[0], 2 * leaves[1] if memory is not None else None
        later = call(before, states, count)
        if flows_to(later, leaves):
            return "kept"
        if is_tensor(later) and later.requires_grad:
            return "needs"
        call(leaves[1] if memory is not None else None, leaves[0], count)
    if not states.requires_grad or not (before is None or before.requires_grad):
        return "lost"
    return "" if all(one.requires_grad for one in leaves) else "off"


class AsNumbers:
    """A function that gives numbers, or tensors with one number wherever they lie: here plain numbers."""

    def __init__(self, call: Callable[..., Any]):
        self.call = call

    def __call__(self, *given: Any) -> list[float]:
        """What the function gives."""
        return [float(one) for one in self.call(*given)]


class KeysInSight:
    """Shifted scores as `shift` gives them, with 0 in the place of keys after a query, where any number may stand."""

    def __init__(self, shift: Callable[..., torch.Tensor]):
        self.shift = shift

    def __call__(self, scores: torch.Tensor) -> torch.Tensor:
        """What `shift(scores)` gives at the keys in sight; what is not finite stays."""
        moved = self.shift(scores)
        T, S = scores.shape[-2:]
        places = torch.arange(S, device=scores.device)
        later = places > places[:T, None] + S - T
        return moved.masked_fill(later & moved.isfinite(), 0.0)
