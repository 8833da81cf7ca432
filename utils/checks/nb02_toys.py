"""Small models and helpers of notebook 02's checks, and the shared ones. Checks build them in the student's process."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from utils.grading.toys import *


class NewTableEachCall:
    """Makes tables of positions, like `make_table(rows, width)`: random ones, and another at every call."""

    def __init__(self, seed: int = 0) -> None:
        self.seed, self.calls = seed, 0

    def __call__(self, max_len: int, d_model: int) -> torch.Tensor:
        """A table (max_len, d_model) of normal numbers, given by seed, size and the number of calls before."""
        generator = torch.Generator().manual_seed(10_000 * self.seed + 1000 * self.calls + 31 * max_len + d_model)
        self.calls += 1
        return torch.randn(max_len, d_model, generator=generator).to(torch.get_default_device())


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
