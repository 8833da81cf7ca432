"""Small models and helpers of notebook 05's checks, and the shared ones. Checks build them in the student's process."""

from collections.abc import Callable
from typing import Any

import torch

from utils.grading.toys import *


def salted(value: Any) -> int:
    """What `hash` gives in another session of Python: of text, and of what holds text, another number."""
    return hash((value, "another session")) if any(isinstance(leaf, str) for leaf in leaves(value)) else hash(value)


def survives_the_session(streams: Callable[[int], Any], seed: int, parts: list[str]) -> bool:
    """Whether the generators of `streams(seed)` begin as they do where `hash` is that of another session."""

    def begins() -> list[list[int]]:
        made = streams(seed)
        return [torch.randint(2**62, (2,), generator=made[part]).tolist() for part in parts]

    here, names = begins(), getattr(streams, "__globals__", {})
    if "hash" in names:
        return True
    names["hash"] = salted
    try:
        return begins() == here
    finally:
        del names["hash"]


def begins_beside(streams: Callable[..., Any], seed: int, parts: list[str], number: int) -> list[list[int]]:
    """The first numbers of parts that do not vary, while torch's global generator has the seed `number`."""
    before = torch.get_rng_state()
    torch.default_generator.manual_seed(number)
    try:
        made = streams(seed, [])
        return [torch.randint(2**62, (2,), generator=made[part]).tolist() for part in parts]
    finally:
        torch.set_rng_state(before)


def states_of(streams: Callable[[int], Any], seeds: list[int], parts: list[str]) -> torch.Tensor:
    """The states of the generators `streams(seed)[part]`, one a row: all parts of a seed, then the next seed."""
    found = [streams(seed) for seed in seeds]
    return torch.stack([one[part].get_state().cpu() for one in found for part in parts])
