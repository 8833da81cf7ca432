"""Small models and helpers of notebook 08's checks, and the shared ones. Checks build them in the student's process."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from utils.grading.toys import *


def gradient_arrives(call: Callable[..., Any], part: nn.Module, *rest: Any) -> bool:
    """Whether a gradient flows back from the tensors that `call(part, *rest)` gives to a parameter of `part`."""
    with torch.enable_grad():
        flowing = [tensor.sum() for tensor in call(part, *rest) if tensor.requires_grad]
    learning = [one for one in part.parameters() if one.requires_grad]
    if not flowing or not learning:
        return False
    slopes = torch.autograd.grad(torch.stack(flowing).sum(), learning, allow_unused=True)
    return any(slope is not None for slope in slopes)
