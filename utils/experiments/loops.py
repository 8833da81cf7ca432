"""What several experiments share where they train: steps, precision, states of frozen encoders, and what runs note."""

import platform
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from torch import nn

from utils.experiments import profiles
from utils.experiments.experiment import Experiment, Run
from utils.experiments.training import precision_of, progress

T = TypeVar("T")
LARGEST_NORM = 1.0  # of the gradients that are clipped together


class Frozen(NamedTuple):
    """What decides the states of a frozen encoder: the encoder, how many of its layers, and the text that they read."""

    task: str
    encoder: str
    layers: int
    pool: int  # sentences to learn from
    test: int
    start: str = "pretrained"
    max_len: int = 0  # pieces
    language: str = ""
    folder: Any = None  # of the data


def chunks_of(items: Sequence[T], size: int, title: str, quiet: int) -> Iterable[Sequence[T]]:
    """`items` in lists of `size`, with a progress bar that says `title` if there are more than `quiet` of them."""
    chunks = [items[start : start + size] for start in range(0, len(items), size)]
    return progress(chunks, title) if len(chunks) > quiet else chunks


def in_precision(device: torch.device, products: torch.dtype) -> torch.autocast:
    """A context in which matrix products are of this precision."""
    return torch.autocast(device.type, products, enabled=products is not torch.float32)


@torch.no_grad()
def last_states(
    model: Any, batch: Mapping[str, torch.Tensor], device: torch.device, products: torch.dtype
) -> torch.Tensor:
    """The last states (B, T, width) of a batch, float32, on the device."""
    with in_precision(device, products):
        return model(**{name: part.to(device) for name, part in batch.items()}).last_hidden_state.float()


def adamw_groups(
    parameters: Iterable[torch.Tensor], decay: float, spared: Iterable[torch.Tensor] = (), **options: Any
) -> list[dict[str, Any]]:
    """Parameters in groups for AdamW: matrices decay, and biases, norms and what is `spared` do not."""
    kept = {id(one) for one in spared}
    groups: dict[bool, list[torch.Tensor]] = {True: [], False: []}
    for parameter in parameters:
        groups[parameter.ndim > 1 and id(parameter) not in kept].append(parameter)
    return [
        {"params": some, "weight_decay": decay if decays else 0.0, **options} for decays, some in groups.items() if some
    ]


def take_step(
    loss: torch.Tensor,
    optimizer: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler | None = None,
    *,
    clipped: Iterable[torch.Tensor] | None = None,
) -> None:
    """Compute the gradients of `loss`, clip them, and update the parameters once.

    Args:
        loss: a scalar. Gradients of earlier losses are discarded.
        schedule: sets the next learning rate after the update.
        clipped: parameters whose gradients are scaled so that their common norm is at most `LARGEST_NORM`. The order
            decides the last bits of that norm. By default no gradient is scaled.
    """
    optimizer.zero_grad()
    loss.backward()
    if clipped is not None:
        nn.utils.clip_grad_norm_(clipped, LARGEST_NORM)
    optimizer.step()
    if schedule is not None:
        schedule.step()


def fingerprint(parts: Iterable[str | torch.Tensor]) -> str:
    """Eight digits that differ between texts: lines, or tensors of numbers."""
    every = [*parts]
    if every and isinstance(every[0], torch.Tensor):
        whole = b"".join(part.numpy().tobytes() for part in every if isinstance(part, torch.Tensor))
    else:
        whole = "\n".join(map(str, every)).encode()
    return f"{zlib.crc32(whole):08x}"


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
