"""Small models and helpers whose right results are known. Checks build them in the student's process."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn


def gradients(call: Callable[..., Any], tensors: list[torch.Tensor], *rest: Any) -> list[torch.Tensor]:
    """The gradient of a fixed sum over the result of `call(*tensors, *rest)`, for each of `tensors`.

    Of several results the first counts. Zeros where no gradient arrives.
    """
    leaves = [tensor.detach().clone().requires_grad_() for tensor in tensors]
    with torch.enable_grad():
        result = call(*leaves, *rest)
        result = result[0] if isinstance(result, (tuple, list)) else result
        if result.requires_grad:
            weights = torch.linspace(-1, 2, result.numel(), dtype=result.dtype, device=result.device)
            (result.flatten() * weights).sum().backward()
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


class TableModel(nn.Module):
    """Logits for the next token from a table: the sum of all tokens so far, modulo its rows, picks the row.

    It must be used as a model that writes is: in training mode it shifts its logits by one token,
    and where gradients are recorded by two.
    """

    def __init__(self, table: Any):
        super().__init__()
        self.table = nn.Parameter(torch.as_tensor(table, dtype=torch.float32).clone())

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """From token numbers (B, T) to logits (B, T, V)."""
        logits = self.table[tokens.cumsum(dim=1) % len(self.table)]
        return logits.roll(int(self.training) + 2 * torch.is_grad_enabled(), dims=-1)


class NewTableEachCall:
    """Makes tables of positions, like `make_table(rows, width)`: random ones, and another at every call."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, max_len: int, d_model: int) -> torch.Tensor:
        """A table (max_len, d_model) of normal numbers, given by its size and the number of calls before."""
        generator = torch.Generator().manual_seed(1000 * self.calls + 31 * max_len + d_model)
        self.calls += 1
        return torch.randn(max_len, d_model, generator=generator).to(torch.get_default_device())


class AddRows(nn.Module):
    """Adds row t of a table to place t of x (B, T, d).

    The rows count double in training mode, and twice more where gradients are recorded.
    """

    def __init__(self, table: Any):
        super().__init__()
        self.table = nn.Parameter(torch.as_tensor(table, dtype=torch.float32).clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From (B, T, d) to the same shape, with at most as many places as the table has rows."""
        return x + (1 + self.training + 2 * torch.is_grad_enabled()) * self.table[: x.size(1)]


def parameter_gradients(module: nn.Module, x: torch.Tensor) -> dict[str, torch.Tensor]:
    """The gradient of a fixed sum over `module(x)` for each parameter by name, zeros where none arrives."""
    module.zero_grad()
    with torch.enable_grad():
        result = module(x)
        if result.requires_grad:
            weights = torch.linspace(-1, 2, result.numel(), dtype=result.dtype, device=result.device)
            (result.flatten() * weights).sum().backward()
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
