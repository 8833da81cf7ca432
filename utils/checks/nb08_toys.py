"""Small models and helpers of notebook 08's checks, and the shared ones. Checks build them in the student's process."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from utils.grading.toys import *


def span_head(seed: int) -> nn.Linear:
    """A linear map from states of width 4 to two logits."""
    return _drawn(nn.Linear(4, 2), seed)


def choice_head(seed: int) -> nn.Linear:
    """A linear map from states of width 4 to one logit."""
    return _drawn(nn.Linear(4, 1), seed)


def _drawn(layer: nn.Linear, seed: int) -> nn.Linear:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for part in layer.parameters():
            part.copy_(torch.randn(part.shape, generator=generator))
    return layer


def gradient_arrives(call: Callable[..., Any], part: nn.Module, *rest: Any) -> bool:
    """Whether a gradient flows back from the tensors that `call(part, *rest)` gives to a parameter of `part`."""
    with torch.enable_grad():
        flowing = [tensor.sum() for tensor in call(part, *rest) if tensor.requires_grad]
    learning = [one for one in part.parameters() if one.requires_grad]
    if not flowing or not learning:
        return False
    slopes = torch.autograd.grad(torch.stack(flowing).sum(), learning, allow_unused=True)
    return any(slope is not None for slope in slopes)


def slope_of_weight(call: Callable[..., Any], x: torch.Tensor, out: nn.Linear, which: int = 0) -> torch.Tensor:
    """The gradient of a fixed sum over `call(x, out)` for the weight of `out`; zeros where none arrives.

    Of several results `which` counts.
    """
    out.zero_grad()
    with torch.enable_grad():
        result = call(x, out)
        backward(result[which] if isinstance(result, (tuple, list)) else result)
    return torch.zeros_like(out.weight) if out.weight.grad is None else out.weight.grad


def with_new_weights(
    call: Callable[..., Any], encoder: nn.Module, batch: dict[str, torch.Tensor], state: dict[str, torch.Tensor]
) -> Any:
    """The features of the last layer, of an encoder whose weights change after a call with the same batch."""
    call(encoder, batch, "last")
    encoder.load_state_dict(state)
    return call(encoder, batch, "last")
