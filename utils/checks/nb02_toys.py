"""Small models and helpers of notebook 02's checks, and the shared ones. Checks build them in the student's process."""

from collections.abc import Callable

import torch

from utils.grading.toys import *


def rows_of(alibi_bias: Callable[[int, int], torch.Tensor], T: int, rows: list[int]) -> torch.Tensor:
    """These rows of the bias of one head: of a long text the whole of it is too much to send."""
    return alibi_bias(1, T)[0, rows]


class NewTableEachCall:
    """Makes tables of positions, like `make_table(rows, width)`: random ones, and another at every call."""

    def __init__(self, seed: int = 0) -> None:
        self.seed, self.calls = seed, 0

    def __call__(self, max_len: int, d_model: int) -> torch.Tensor:
        """A table (max_len, d_model) of normal numbers, given by seed, size and the number of calls before."""
        generator = torch.Generator().manual_seed(10_000 * self.seed + 1000 * self.calls + 31 * max_len + d_model)
        self.calls += 1
        return torch.randn(max_len, d_model, generator=generator).to(torch.get_default_device())
