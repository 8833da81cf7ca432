"""Small models and helpers of notebook 11's checks, and the shared ones. Checks build them in the student's process."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from utils.grading.toys import *


def after_writing(call: Callable[..., torch.Tensor], *given: Any) -> torch.Tensor:
    """What `call(*given)` gives after the booleans that it gave before were overwritten with their opposite."""
    before = call(*given)
    with torch.inference_mode():  # the only one in which a tensor that was made in it may be written
        before.logical_not_()
    return call(*given)


def each(call: Callable[..., Any], turns: list[list[Any]]) -> list[Any]:
    """`call(*turn)` for each of `turns`."""
    return [call(*turn) for turn in turns]


def signs_of_each(call: Callable[..., Any], turns: list[list[Any]]) -> list[str]:
    """`signs` of `call(*turn)` for each of `turns`."""
    return [signs(call(*turn)) for turn in turns]


def of_one_list_twice(call: Callable[..., Any], document: list[Any], *given: Any) -> Any:
    """`call([document, document], *given)`: a check can only send two lists that are equal."""
    return call([document, document], *given)


class Beside(nn.Module):
    """`part`, called as it is; `other` goes with it to wherever it is moved."""

    def __init__(self, part: nn.Module, other: nn.Module):
        super().__init__()
        self.part, self.other = part, other

    def forward(self, *given: Any) -> Any:
        """What `part` gives."""
        return self.part(*given)


def types_in(call: Callable[..., list[Any]], *given: Any) -> list[str]:
    """The names of the types of the items of the list that `call(*given)` gives, each once."""
    return sorted({type(item).__name__ for item in call(*given)})
