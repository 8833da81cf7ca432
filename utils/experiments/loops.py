"""What the loops of several experiments share: the precision they compute in, and what every run notes."""

import platform
import time
from collections.abc import Mapping
from typing import Any

import torch

from utils.experiments import profiles
from utils.experiments.experiment import Experiment, Run
from utils.experiments.training import precision_of


def products_of(experiment: Experiment, device: torch.device, name: str | None = None) -> torch.dtype:
    """Of an encoder's matrix products: as named, or what the device does best; the tiny encoder takes float32."""
    usual = torch.float32 if experiment.made_up else precision_of(device)  # bfloat16 is slower for one so small
    return {"bfloat16": torch.bfloat16, None: usual}.get(name, torch.float32)


def run_of(
    experiment: Experiment,
    seed: int,
    began: float,
    device: torch.device,
    products: torch.dtype,
    versions: Mapping[str, str],
    **found: Any,
) -> Run:
    """The run that ends now, with what every run notes.

    Args:
        began: the time of `time.perf_counter()` when it began.
        products: the precision of its matrix products.
        versions: of what its numbers depend on, besides Python.
        found: what it found: labels, predictions, logits, curve, epochs; see `Run`.
    """
    return Run(
        experiment=experiment.plain(),
        seed=seed,
        seconds=round(time.perf_counter() - began, 6),
        device=profiles.device_name(device),
        precision=str(products).removeprefix("torch."),
        versions={**versions, "python": platform.python_version()},
        **{"labels": [], "logits": [], "curve": []} | found,
    )
