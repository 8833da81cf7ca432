"""Marks for positions, for notebook 01, which needs them and does not yet explain them.

They are fixed random vectors, nearly at right angles to each other, and have no parameter. Notebook 02 does not use
them: there the student builds better ones.
"""

from functools import cache

import torch

LONGEST = 2048


@cache
def _marks(d_model: int) -> torch.Tensor:
    return torch.randn(LONGEST, d_model, generator=torch.Generator().manual_seed(d_model))


def add_positions(x: torch.Tensor) -> torch.Tensor:
    """Add to each position of `x` (B, T, d_model) the mark of that position, with entries of about size 1.

    Raises:
        ValueError: there are more than `LONGEST` positions.
    """
    if x.size(1) > LONGEST:
        raise ValueError(f"{x.size(1)} tokens are too many: there are marks for {LONGEST}")
    return x + _marks(x.size(2))[: x.size(1)].to(x)
