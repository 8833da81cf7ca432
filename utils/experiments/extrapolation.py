"""Trained on short texts, asked about longer ones: task, model and training of notebook 02's experiment.

The task is the next character of Python's documentation topics. A model is trained on windows of
`TRAINED` characters. In the test, it predicts the same last `SCORED` characters of each window with
`TESTED` characters in sight, so that the lengths differ in nothing but how much comes before. A longer
past should help, and it should never hurt.

What a model knows of order it is given from outside: a module that acts on the embedded text, a
function that turns queries and keys, or one that gives a bias. Those are the student's.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from utils import plots
from utils.experiments import formulas, profiles
from utils.experiments.experiment import Experiment, Metric, Run
from utils.experiments.loops import run_of, take_step
from utils.experiments.training import seed_everything

TRAINED = 32
TESTED = (32, 64, 128)
SCORED = 16
RECORDED = Path(__file__).resolve().parents[2] / "data" / "results" / "positional_encoding"
SCHEMES = ("none", "sinusoidal", "learned", "rotary", "ALiBi")


@dataclass(frozen=True)
class CharacterWindows:
    """Characters as numbers: two int64 tensors, and the symbol that each number stands for (0 for all rare ones)."""

    train: torch.Tensor
    valid: torch.Tensor
    symbols: str


@cache
def text() -> CharacterWindows:
    """The documentation topics of this Python, every eighth of them kept for validation.

    White space counts as one space and rulers as three signs; characters that training text has fewer
    than 20 times share number 0. Source: `pydoc_data.topics`, which comes with CPython.

    Raises:
        ImportError: this Python was built without its documentation topics.
    """
    from pydoc_data.topics import topics

    pages = [re.sub(r"([^\w\s])\1{3,}", r"\1\1\1", re.sub(r"\s+", " ", page)) for _, page in sorted(topics.items())]
    valid = " ".join(pages[3::8])
    train = " ".join(page for index, page in enumerate(pages) if index % 8 != 3)
    symbols = "\0" + "".join(sorted(symbol for symbol, count in Counter(train).items() if count >= 20))
    numbers = {symbol: number for number, symbol in enumerate(symbols)}
    first, second = (torch.tensor([numbers.get(symbol, 0) for symbol in part]) for part in (train, valid))
    return CharacterWindows(first, second, symbols)


@dataclass(frozen=True)
class Scheme:
    """How a model learns of order; each part may be missing.

    Args:
        add: `add(longest, d_model)` makes a module (B, T, d_model) -> (B, T, d_model), put after the embedding.
        turn: acts on queries and on keys, (B, n_heads, T, d_head) -> the same shape.
        bias: `bias(n_heads, T)`, added to the scores, with -inf where the key comes after the query.
    """

    add: Callable[[int, int], nn.Module] | None = None
    turn: Callable[[torch.Tensor], torch.Tensor] | None = None
    bias: Callable[[int, int], torch.Tensor] | None = None


def _losses_of(place: int, run: Run) -> Any:
    return [(row[place], SCORED) for row in run.predictions]


METRICS = tuple(
    Metric(f"loss with {length} in sight", "nats", partial(_losses_of, place), formulas.ratio,
           lower_is_better=True, digits=3)
    for place, length in enumerate(TESTED)
)  # fmt: skip


@dataclass(frozen=True)
class Extrapolation(Experiment):
    """A small model of characters with one scheme, how large it is and how long it learns.

    A seed varies the weights and the training windows. A run holds the loss of every test window at each length.
    """

    metrics = METRICS

    d_model: int = 64
    n_heads: int = 4
    n_layers: int = 2
    d_ff: int = 256
    steps: int = 1000
    batch: int = 64
    lr: float = 3e-3
    windows: int = 1000
    scheme: Scheme = field(default=Scheme(), compare=False, repr=False)  # from the notebook

    def count_steps(self, folder: Path | str | None = None) -> int:
        """The steps of the optimiser."""
        return self.steps

    def run_seed(
        self,
        seed: int,
        *,
        precision: str | None = None,
        folder: Path | str | None = None,
        on_step: Callable[[str], None] = lambda what: None,
    ) -> Run:
        """Train once, in float32, and test at each length."""
        device, began = profiles.device(), time.perf_counter()
        model = train(self.scheme, self, seed, device, on_step)
        found = losses(model, self.windows).T.double().round(decimals=4).tolist()
        versions = {"torch": torch.__version__}
        return run_of(self, seed, began, device, torch.float32, versions, predictions=found)


def experiments(
    notebook: str = "", profile: str | None = None, schemes: Mapping[str, Scheme] | None = None
) -> dict[str, Extrapolation]:
    """One experiment for each of SCHEMES, in the size of a profile; `schemes` are the notebook's."""
    sizes: dict[str, dict[str, Any]] = {
        "smoke": {"d_model": 32, "n_heads": 2, "n_layers": 1, "d_ff": 64, "steps": 25, "batch": 16, "windows": 60},
        "cpu": {"steps": 1200, "batch": 32},
        "gpu": {"d_model": 256, "n_layers": 4, "d_ff": 1024, "steps": 4000, "batch": 128, "lr": 1e-3},
    }
    task, own = "the next character of Python's documentation", schemes or {}
    return {
        name: Extrapolation(name, task, scheme=own.get(name, Scheme()), **sizes[profile or profiles.name()])
        for name in SCHEMES
    }


class Block(nn.Module):
    """A causal pre-norm layer whose attention takes its sense of order from a `Scheme`."""

    def __init__(self, size: Extrapolation, scheme: Scheme):
        super().__init__()
        self.n_heads, self.scheme = size.n_heads, scheme
        d, d_head = size.d_model, size.d_model // size.n_heads
        self.read = nn.Parameter(torch.randn(3, size.n_heads, d, d_head) * d**-0.5)
        self.write = nn.Parameter(torch.randn(size.n_heads, d_head, d) * d**-0.5)
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.feed = nn.Sequential(nn.Linear(d, size.d_ff), nn.GELU(), nn.Linear(size.d_ff, d))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From (B, T, d_model) to the same shape."""
        q, k, v = torch.einsum("btc,phcd->pbhtd", self.norm1(x), self.read)
        if self.scheme.turn:
            q, k = self.scheme.turn(q), self.scheme.turn(k)
        bias = self.scheme.bias(self.n_heads, x.size(1)).to(x) if self.scheme.bias else None
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, is_causal=bias is None)
        x = x + torch.einsum("bhtd,hdc->btc", heads, self.write)
        return x + self.feed(self.norm2(x))


class CharacterModel(nn.Module):
    """A small causal model of characters: numbers (B, T) to logits (B, T, symbols)."""

    def __init__(self, symbols: int, size: Extrapolation, scheme: Scheme):
        super().__init__()
        self.embed = nn.Embedding(symbols, size.d_model)
        self.places = scheme.add(max(TESTED), size.d_model) if scheme.add else nn.Identity()
        self.blocks = nn.Sequential(*(Block(size, scheme) for _ in range(size.n_layers)))
        self.norm, self.head = nn.LayerNorm(size.d_model), nn.Linear(size.d_model, symbols)

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        """The logits of the next character at each place."""
        return self.head(self.norm(self.blocks(self.places(self.embed(numbers)))))


def train(
    scheme: Scheme,
    size: Extrapolation,
    seed: int,
    device: torch.device | str = "cpu",
    on_step: Callable[[str], None] = lambda what: None,
) -> nn.Module:
    """A model trained on random windows of `TRAINED` characters; the same seed sees the same windows."""
    seed_everything(seed)
    data = text()
    model = CharacterModel(len(data.symbols), size, scheme).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=size.lr, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, size.lr, total_steps=size.steps, pct_start=0.1)
    drawn = torch.Generator().manual_seed(seed)
    numbers, reach = data.train.to(device), torch.arange(TRAINED + 1, device=device)
    for step in range(size.steps):
        starts = torch.randint(len(numbers) - TRAINED, (size.batch, 1), generator=drawn).to(device)
        window = numbers[starts + reach]
        loss = F.cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())
        take_step(loss, optimizer, schedule, clipped=model.parameters())
        on_step(f"step {step + 1} of {size.steps}")
    return model


@torch.no_grad()
def losses(model: nn.Module, windows: int = 1000, lengths: Sequence[int] = TESTED) -> torch.Tensor:
    """Nats on the same validation characters, with each of `lengths` characters in sight: (lengths, windows).

    The windows end at evenly spaced places of the validation text; their last `SCORED` characters count.
    """
    model.eval()
    device = next(model.parameters()).device
    numbers, found = text().valid.to(device), []
    ends = torch.linspace(max(lengths), len(numbers) - 1, windows, device=device).long()
    for length in lengths:
        for part in ends.split(250):
            seen = part[:, None] + torch.arange(-length, 1, device=device)
            logits = model(numbers[seen[:, :-1]])[:, -SCORED:]
            each = F.cross_entropy(logits.transpose(1, 2), numbers[seen[:, 1:]][:, -SCORED:], reduction="none")
            found.append(each.sum(1).cpu())
    return torch.cat(found).view(len(lengths), windows)


def picture(runs: Mapping[str, Sequence[Run]], alt: str) -> plots.Picture:
    """The mean loss of each scheme at each length; the band runs from the lowest seed to the highest."""
    values = {name: np.array([[metric.of(run) for metric in METRICS] for run in some]) for name, some in runs.items()}
    drawn = plots.curves(
        {name: found.mean(0) for name, found in values.items()},
        bands={name: (found.min(0), found.max(0)) for name, found in values.items()},
        x=TESTED,
        xlabel="characters in sight",
        ylabel="nats per character",
        alt=alt,
    )
    drawn.axes[0].set_xticks(TESTED)
    return drawn


def baseline() -> float:
    """Nats per character of a model that knows how frequent each character is, and nothing else."""
    data = text()
    counts = data.train.bincount(minlength=len(data.symbols)) + 1
    return F.nll_loss((counts / counts.sum()).log().expand(len(data.valid), -1), data.valid).item()
