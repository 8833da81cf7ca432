"""Small models and helpers of notebook 10's checks, and the shared ones. Checks build them in the student's process."""

from collections.abc import Callable

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
