"""Small models and helpers of notebook 07's checks, and the shared ones. Checks build them in the student's process."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from utils.grading.toys import *


def written_over(call: Callable[..., Any], value: torch.Tensor, *rest: Any) -> torch.Tensor:
    """`value` after all tensors that `call(value, *rest)` gives were overwritten: as it was, if they are new ones."""
    for tensor in call(value, *rest):
        tensor.fill_(-7)
    return value


def counts_of(mask_tokens: Callable[..., Any], count: int, p: float, split: list[float], seed: int) -> list[int]:
    """How many of `count` equal tokens are chosen, and of how many the input is the mask, or another token.

    The mask is token 1 of 1,000.
    """
    ids, numbers = torch.full((count // 100, 100), 5), torch.Generator().manual_seed(seed)
    inputs, labels = mask_tokens(ids, [0], 1, 1000, p, tuple(split), numbers)
    masked, other = inputs == 1, (inputs != 1) & (inputs != 5)
    return [int((labels != -100).sum()), int(masked.sum()), int(other.sum())]


def noise(ids: torch.Tensor, *, generator: torch.Generator | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """`ids`, copied, and random numbers in their shape, so large that two draws never meet."""
    return ids.clone(), torch.randint(2**62, ids.shape, generator=generator, device=ids.device)


def noise_of(Masking: Callable[..., Any], copies: int | None, seed: int, epochs: list[int]) -> list[list[int]]:
    """What `noise` draws in each of these epochs of a Masking of ten ids."""
    masking = Masking(torch.arange(10).reshape(2, 5), noise, copies, seed)
    return [masking.epoch(epoch)[1].flatten().tolist() for epoch in epochs]


def handed(ids: torch.Tensor, *, generator: torch.Generator | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """`ids`, copied, and in their shape whether a generator was given: 1 or 0."""
    return ids.clone(), torch.full_like(ids, generator is not None)


def signed(ids: torch.Tensor, *, generator: torch.Generator | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Random numbers in the shape of `ids`, and the same with another sign: both show which draw they are of."""
    numbers = noise(ids, generator=generator)[1]
    return numbers, -numbers


def added(ids: torch.Tensor, *, generator: torch.Generator | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """`ids` and a random number more, and that number: the sum shows which text was masked."""
    numbers = noise(ids, generator=generator)[1] % 1000
    return ids + numbers, numbers


def noise_again(masking: Any, epoch: int) -> Any:
    """What `masking.epoch(epoch)` gives after all that it gave before was overwritten."""
    for tensor in masking.epoch(epoch):
        tensor.zero_()
    return masking.epoch(epoch)


def generator_apart(Masking: Callable[..., Any]) -> bool:
    """Whether `Masking` of ids on torch's meta device calls the mask with a generator that lies elsewhere.

    There are no generators on that device: who asks for one there gets an exception, which says nothing.
    """
    met = []

    def mask(ids: torch.Tensor, *, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        met.append(ids.device.type != generator.device.type)
        return ids.clone(), ids.clone()

    with contextlib.suppress(Exception):
        Masking(torch.zeros(2, 3, dtype=torch.long, device="meta"), mask).epoch(0)
    return any(met)


def around_a_write(
    head: nn.Module, embedding: nn.Embedding, table: torch.Tensor, x: torch.Tensor
) -> list[torch.Tensor]:
    """The logits of a head before and after a table was written into its embedding, without gradients.

    First in training mode, then, with the first table again, in evaluation mode. torch does not count the writes as
    such: they go to the `data` of the weight.
    """
    found, first = [], embedding.weight.detach().clone()
    with torch.no_grad():
        for training in (True, False):
            embedding.weight.data.copy_(first)
            found.append(head.train(training)(x))
            embedding.weight.data.copy_(table)
            found.append(head(x))
    return found


class Sharing(nn.Sequential):
    """Parts of many kinds, some of them without a telling name, and two parameters that are in none of them.

    The last layer has the first one's weight.
    """

    def __init__(self, vocab_size: int, width: int):
        first, last = nn.Embedding(vocab_size, width), nn.Linear(width, vocab_size)
        last.weight = first.weight
        inside = [nn.LayerNorm(width), nn.Linear(width, width), nn.RMSNorm(width), nn.GroupNorm(1, width)]
        super().__init__(first, *inside, nn.Conv1d(width, width, 2), last)
        self.start, self.scale = nn.Parameter(torch.ones(1, width)), nn.Parameter(torch.tensor(1.0))


def sharing(vocab_size: int, width: int) -> nn.Module:
    """A model whose parameters are in many kinds of parts."""
    return Sharing(vocab_size, width)


class Misnamed(nn.Module):
    """Two matrices that are called like a bias and like a norm."""

    def __init__(self, width: int):
        super().__init__()
        self.bias_table, self.LayerNorm = nn.Parameter(torch.ones(3, width)), nn.Parameter(torch.ones(2, width))


def on_the_same_memory(part: nn.Module, other: nn.Module) -> bool:
    """Whether a parameter of `part` has the memory of a parameter of `other`, and is not that parameter."""
    known = {one.data_ptr(): one for one in other.parameters()}
    return any(known.get(one.data_ptr(), one) is not one for one in part.parameters())


def layers(count: int, width: int) -> nn.Module:
    """So many linear maps, one after the other."""
    return nn.Sequential(*(nn.Linear(width, width) for _ in range(count)))


def decays(call: Callable[..., Any], model: nn.Module, weight_decay: float) -> dict[str, list[Any]]:
    """For each parameter of `model`, by name, the decay of every group of `call(model, weight_decay)` it stands in.

    Under "strangers" those of parameters that the model does not have. Where the groups cannot be read: "dict" if they
    are one, under "keys" what a group lacks, under "once" that it can be read once, or under "refused" the error of
    torch's AdamW.
    """
    value = call(model, weight_decay)
    if isinstance(value, dict):
        return {"dict": []}
    groups = list(value)
    missing = [key for group in groups for key in ("params", "weight_decay") if key not in group]
    if missing:
        return {"keys": missing}
    groups = [
        {**group, "params": [one] if isinstance(one := group["params"], torch.Tensor) else one} for group in groups
    ]
    if any(isinstance(group["params"], Iterator) for group in groups):
        return {"once": []}
    filled = [dict(group) for group in groups if list(group["params"])]
    try:
        if filled:  # of no parameter AdamW would say so in words of its own
            torch.optim.AdamW(filled, lr=0.1)
    except Exception as error:  # it is not the student's code that raised it
        return {"refused": [f"{type(error).__name__}: {error}"]}
    names = {id(part): name for name, part in model.named_parameters()}
    found: dict[str, list[float]] = {name: [] for name in names.values()}
    for group in groups:
        for part in group["params"]:
            found.setdefault(names.get(id(part), "strangers"), []).append(float(group["weight_decay"]))
    return found
