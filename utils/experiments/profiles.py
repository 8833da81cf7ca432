"""How large the experiments are, and where they run: a profile decides the size, never the code.

`smoke` takes seconds (continuous integration), `cpu` minutes on two cores, `gpu` is the lab's own
size. The environment variable COURSE_PROFILE chooses; without it, `gpu` where CUDA is, else `cpu`.
Imports nothing heavy: naming an experiment needs no torch.
"""

import os
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import torch

NAMES = ("smoke", "cpu", "gpu")
T = TypeVar("T")


def name() -> str:
    """The profile of this session.

    Raises:
        ValueError: COURSE_PROFILE is set to something else.
    """
    chosen = os.environ.get("COURSE_PROFILE") or ("gpu" if device().type == "cuda" else "cpu")
    if chosen not in NAMES:
        raise ValueError(f"COURSE_PROFILE is {chosen!r}; it can be {', '.join(NAMES)}")
    return chosen


def chosen(profile: str | None, notebook: str, of: str) -> str:
    """The profile for the experiments of a notebook: the one that is asked for, else that of this session.

    Args:
        notebook: whose experiments are asked for. of: whose there are.

    Raises:
        ValueError: they are not the same, or there is no such profile.
    """
    found = profile or name()
    if notebook != of or found not in NAMES:
        raise ValueError(f"no experiments of {notebook!r} in profile {profile!r}")
    return found


def pick(*, smoke: T, cpu: T, gpu: T) -> T:
    """That of the three values which belongs to the profile of this session."""
    return {"smoke": smoke, "cpu": cpu, "gpu": gpu}[name()]


def device() -> "torch.device":
    """Where to train: CUDA if there is one, whatever the profile, else the CPU."""
    import torch

    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def device_name(device: "torch.device") -> str:
    """What a run notes about where it ran."""
    import torch

    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type}, {torch.get_num_threads()} threads"
