"""One run of the scaling experiment: the text, the model, and as many steps as the budget allows."""

import functools
import math
import random
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from data import documentation
from data.pairs import MADE_UP_WORDS
from utils import counting
from utils.experiments import profiles
from utils.experiments.experiment import Run
from utils.experiments.lab.train import LIBRARIES, Base
from utils.experiments.loops import adamw_groups, fingerprint, run_of, take_step
from utils.experiments.scaling.spec import GIGA, MADE_UP, Scaling
from utils.experiments.training import seed_everything


@functools.cache
def text(task: str) -> tuple[torch.Tensor, torch.Tensor, str]:
    """Characters to train on and to validate on, as numbers, and the characters that these stand for.

    They are the sentences of the documentation, a line for each. Characters that the training text lacks are left out
    of the other.
    """
    train, valid = (
        "\n".join(side)
        for side in (_made_up() if task == MADE_UP else documentation.train_and_validation(None, LIBRARIES))
    )
    symbols = "".join(sorted({*train}))
    numbers = {symbol: number for number, symbol in enumerate(symbols)}
    first, second = (torch.tensor([numbers[symbol] for symbol in side if symbol in numbers]) for side in (train, valid))
    return first, second, symbols


def _made_up() -> tuple[list[str], list[str]]:
    draw = random.Random(0)
    sentences = [" ".join(draw.choices(MADE_UP_WORDS, k=12)) for _ in range(300)]
    return sentences[30:], sentences[:30]


class CharacterModel(nn.Module):
    """The model of notebook 01: numbers of characters (B, T) -> logits (B, T, symbols), causal."""

    def __init__(self, one: Scaling, symbols: int):
        super().__init__()
        self.base, self.head = Base(one, symbols), nn.Linear(one.width, symbols)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """The logits of the next character at each place."""
        return self.head(self.base(tokens))


def size_of(one: Scaling, symbols: int) -> tuple[int, int]:
    """N, the numbers in matrices, and FLOPs of training for a character, as exercise 3.11 and torch count them."""
    model = counting.on_meta(counting.LanguageModel, symbols, one.width, one.width, one.layers, H=one.heads)
    window = torch.zeros(1, one.length, dtype=torch.long, device="meta")
    flops = counting.flops(lambda: model(window).sum().backward()) // one.length
    return sum(part.numel() for part in model.parameters() if part.dim() == 2), flops


def windows_of(numbers: torch.Tensor, starts: torch.Tensor, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What is read and what is to be predicted, (B, length) each, of the windows that begin at these places."""
    window = numbers[starts[:, None] + torch.arange(length + 1)]
    return window[:, :-1], window[:, 1:]


def order_of(characters: int, one: Scaling, steps: int, seed: int) -> torch.Tensor:
    """Where the windows of each step begin, (steps, batch): side by side in the text, shuffled again in each epoch."""
    draw = torch.Generator().manual_seed(seed)
    first = int(torch.randint(one.length, (1,), generator=draw))
    count = (characters - 1 - first) // one.length
    needed = steps * one.batch
    epochs = [torch.randperm(count, generator=draw) for _ in range(-(-needed // count))]
    return (torch.cat(epochs)[:needed] * one.length + first).view(steps, one.batch)


def share_of_rate(step: int, steps: int, warmup: float) -> float:
    """Which share of the rate a step has, counted from 0: a straight rise, then a cosine down to zero at the end."""
    rising = max(1, round(warmup * steps))
    if step < rising:
        return (step + 1) / rising
    return (1 + math.cos(math.pi * (step - rising) / max(1, steps - rising))) / 2


def run_seed(
    experiment: Scaling,
    seed: int,
    *,
    precision: str | None = None,
    folder: Path | str | None = None,
    on_step: Callable[[str], None] = lambda what: None,
) -> Run:
    """Train once, in float32, and validate; see `utils.experiments.experiment.Experiment.run_seed`."""
    one, device, began = experiment, profiles.device(), time.perf_counter()
    train, valid, symbols = text(one.task)
    parameters, flops = size_of(one, len(symbols))
    steps = max(1, round(one.budget * GIGA / flops / (one.batch * one.length)))
    seed_everything(seed)
    model = CharacterModel(one, len(symbols)).to(device)
    optimizer = torch.optim.AdamW(adamw_groups(model.parameters(), one.weight_decay), lr=one.lr, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: share_of_rate(step, steps, one.warmup))
    parts = one.count_steps()
    losses: list[list[torch.Tensor]] = [[] for _ in range(parts)]
    for step, starts in enumerate(order_of(len(train), one, steps, seed)):
        seen, wanted = (side.to(device) for side in windows_of(train, starts, one.length))
        loss = F.cross_entropy(model(seen).flatten(0, 1), wanted.flatten())
        take_step(loss, optimizer, schedule, clipped=model.parameters())
        part = step * parts // steps
        losses[part].append(loss.detach())
        if (step + 1) * parts // steps > part:
            on_step(f"step {step + 1} of {steps}")
    numbers = {
        "loss": round(validation_loss(model, valid, one), 5),
        "parameters": parameters,
        "flops": flops,
        "characters": steps * one.batch * one.length,
        "epochs": round(steps * one.batch * one.length / len(train), 4),
    }
    curve = [{"train_loss": round(torch.stack(some).mean().item(), 5)} for some in losses if some]
    versions = {"torch": torch.__version__, "text": fingerprint((train, valid))}
    return run_of(one, seed, began, device, torch.float32, versions, predictions=[], curve=curve, numbers=numbers)


@torch.no_grad()
def validation_loss(model: nn.Module, valid: torch.Tensor, one: Scaling) -> float:
    """The mean loss of a character in windows spread evenly over one half of the text: the first, if held out."""
    model.eval()
    device, middle = next(model.parameters()).device, len(valid) // 2
    half = valid[:middle] if one.held_out else valid[middle:]
    starts = torch.linspace(0, len(half) - 1 - one.length, one.windows).long()
    total = 0.0
    for some in starts.split(200):
        seen, wanted = (side.to(device) for side in windows_of(half, some, one.length))
        total += F.cross_entropy(model(seen).flatten(0, 1), wanted.flatten(), reduction="sum").item()
    return total / (len(starts) * one.length)
