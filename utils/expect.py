"""What checks say over and over: is it a tensor, of this shape, with these values?

Each raises AssertionError with a sentence for the student. None prints an expected value.
"""

import math
from collections.abc import Callable
from typing import Any

import torch

from utils.answer import StudentError, kind


def tensor(value: Any, shape: tuple[int, ...], what: str) -> torch.Tensor:
    """`value`, which must be a floating-point or integer tensor of `shape`; `what` names it."""
    assert type(value) is torch.Tensor, f"{what} should be a tensor, not {kind(value)}."
    assert value.shape == shape, f"{what} has shape {tuple(value.shape)}, not {shape}."
    return value


def floats(value: Any, shape: tuple[int, ...], what: str) -> torch.Tensor:
    """`value` as float32, which must be a floating-point tensor of `shape` without NaN."""
    tensor(value, shape, what)
    assert value.is_floating_point(), f"{what} is {value.dtype}, not a floating-point tensor."
    assert not value.isnan().any(), f"{what} contains NaN."
    return value.float()


def number(value: Any, what: str) -> float:
    """`value` as a float: an int, a float, or a tensor with one element."""
    if type(value) is torch.Tensor and value.numel() == 1:
        value = value.item()
    assert type(value) in (int, float), f"{what} should be a number, not {kind(value)}."
    assert not math.isnan(value), f"{what} is NaN."
    return float(value)


def close(actual: torch.Tensor | float, wanted: torch.Tensor | float, sentence: str, tolerance: float = 1e-4) -> None:
    """Fail with `sentence` unless the two agree within `tolerance`, absolute and relative.

    The tolerance covers the order of float32 sums on CPU and CUDA, not a wrong formula.
    """
    actual, wanted = torch.as_tensor(actual).double(), torch.as_tensor(wanted).double()
    assert actual.shape == wanted.shape, sentence
    assert torch.allclose(actual, wanted, rtol=tolerance, atol=tolerance), sentence


def raises(call: Callable[[], Any], type_name: str, sentence: str) -> None:
    """Fail with `sentence` unless `call` makes the student's code raise `type_name`."""
    try:
        call()
    except StudentError as error:
        if error.blank:
            raise
        assert error.type_name == type_name, f"{sentence} It raised {error.type_name or 'nothing usable'}."
        return
    raise AssertionError(sentence)
