"""Trained on short texts, asked about longer ones: task, model and training of notebook 02's experiment.

The task is the next character of Python's documentation topics. A model is trained on windows of
`TRAINED` characters. In the test, it predicts the same last `SCORED` characters of each window with
`TESTED` characters in sight, so that the lengths differ in nothing but how much comes before. A longer
past should help, and it should never hurt.

What a model knows of order it is given from outside: a module that acts on the embedded text, a
function that turns queries and keys, or one that gives a bias. Those are the student's.
"""

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import nn
from torch.nn import functional as F
from tqdm.auto import tqdm

from utils import plots
from utils.experiments.training import seed_everything

TRAINED = 32
TESTED = (32, 64, 128)
SCORED = 16
RECORDED = Path(__file__).resolve().parents[2] / "data" / "results" / "02_positional_encoding.json"


@dataclass(frozen=True)
class Text:
    """Characters as numbers: two int64 tensors, and the symbol that each number stands for (0 for all rare ones)."""

    train: torch.Tensor
    valid: torch.Tensor
    symbols: str


@cache
def text() -> Text:
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
    return Text(first, second, symbols)


@dataclass(frozen=True)
class Size:
    """How large the models are and how long they learn."""

    d_model: int = 64
    n_heads: int = 4
    n_layers: int = 2
    d_ff: int = 256
    steps: int = 1000
    batch: int = 64
    lr: float = 3e-3
    windows: int = 1000
    seeds: tuple[int, ...] = (1, 2, 3)


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


class Block(nn.Module):
    """A causal pre-norm layer whose attention takes its sense of order from a `Scheme`."""

    def __init__(self, size: Size, scheme: Scheme):
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


class Reader(nn.Module):
    """A small causal model of characters: numbers (B, T) to logits (B, T, symbols)."""

    def __init__(self, symbols: int, size: Size, scheme: Scheme):
        super().__init__()
        self.embed = nn.Embedding(symbols, size.d_model)
        self.places = scheme.add(max(TESTED), size.d_model) if scheme.add else nn.Identity()
        self.blocks = nn.Sequential(*(Block(size, scheme) for _ in range(size.n_layers)))
        self.norm, self.head = nn.LayerNorm(size.d_model), nn.Linear(size.d_model, symbols)

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        """The logits of the next character at each place."""
        return self.head(self.norm(self.blocks(self.places(self.embed(numbers)))))


def train(scheme: Scheme, size: Size, seed: int, device: torch.device | str = "cpu", title: str = "") -> nn.Module:
    """A model trained on random windows of `TRAINED` characters; the same seed sees the same windows."""
    seed_everything(seed)
    data = text()
    model = Reader(len(data.symbols), size, scheme).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=size.lr, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, size.lr, total_steps=size.steps, pct_start=0.1)
    drawn = torch.Generator().manual_seed(seed)
    numbers, reach = data.train.to(device), torch.arange(TRAINED + 1, device=device)
    for _ in tqdm(range(size.steps), desc=title, leave=False):
        starts = torch.randint(len(numbers) - TRAINED, (size.batch, 1), generator=drawn).to(device)
        window = numbers[starts + reach]
        loss = F.cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return model


@torch.no_grad()
def losses(model: nn.Module, windows: int = 1000, lengths: Sequence[int] = TESTED) -> dict[int, float]:
    """Nats per character on the same validation characters, with each of `lengths` characters in sight.

    The windows end at evenly spaced places of the validation text; their last `SCORED` characters count.
    """
    model.eval()
    device = next(model.parameters()).device
    numbers, found = text().valid.to(device), {}
    ends = torch.linspace(max(lengths), len(numbers) - 1, windows, device=device).long()
    for length in lengths:
        total = torch.zeros((), device=device)
        for part in ends.split(250):
            seen = part[:, None] + torch.arange(-length, 1, device=device)
            logits = model(numbers[seen[:, :-1]])[:, -SCORED:]
            total += F.cross_entropy(logits.flatten(0, 1), numbers[seen[:, 1:]][:, -SCORED:].flatten(), reduction="sum")
        found[length] = float(total) / (windows * SCORED)
    return found


def compare(schemes: Mapping[str, Scheme], size: Size, device: torch.device | str = "cpu") -> pd.DataFrame:
    """Train each scheme once per seed and test it at each length.

    Returns:
        one row per scheme, seed and length: scheme, seed, length, loss (nats per character), seconds (of training).
    """
    rows = []
    for seed in tqdm(size.seeds, desc="seeds"):
        for name, scheme in schemes.items():
            began = time.perf_counter()
            model = train(scheme, size, seed, device, title=f"{name}, seed {seed}")
            seconds = round(time.perf_counter() - began, 1)
            found = losses(model, size.windows)
            rows += [dict(scheme=name, seed=seed, length=n, loss=loss, seconds=seconds) for n, loss in found.items()]
    return pd.DataFrame(rows)


def picture(runs: pd.DataFrame, alt: str) -> plots.Picture:
    """The mean loss of each scheme at each length; the band runs from the lowest seed to the highest."""
    by_scheme = {name: part.groupby("length")["loss"] for name, part in runs.groupby("scheme", sort=False)}
    lengths = sorted(runs["length"].unique().tolist())
    drawn = plots.curves(
        {name: part.mean() for name, part in by_scheme.items()},
        bands={name: (part.min(), part.max()) for name, part in by_scheme.items()},
        x=lengths,
        xlabel="characters in sight",
        ylabel="nats per character",
        alt=alt,
    )
    drawn.axes[0].set_xticks(lengths)
    return drawn


def table(runs: pd.DataFrame) -> pd.DataFrame:
    """Schemes down, lengths across: mean loss and, in brackets, its sample standard deviation over the seeds."""
    groups = runs.groupby(["scheme", "length"], sort=False)["loss"]
    cells = groups.agg(lambda part: f"{part.mean():.3f}" + (f" ({part.std():.3f})" if len(part) > 1 else ""))
    return cells.unstack().reindex(runs["scheme"].unique())


def baseline() -> float:
    """Nats per character of a model that knows how frequent each character is, and nothing else."""
    data = text()
    counts = data.train.bincount(minlength=len(data.symbols)) + 1
    return F.nll_loss((counts / counts.sum()).log().expand(len(data.valid), -1), data.valid).item()


def recorded(path: Path = RECORDED) -> pd.DataFrame:
    """The runs that the authors measured; see the card beside the file for how."""
    return pd.DataFrame(json.loads(path.read_text())["runs"])


def record(runs: pd.DataFrame, made: Mapping[str, Any], path: Path = RECORDED) -> None:
    """Write `runs` and how they were `made` as JSON, one run a line."""
    lines = ",\n  ".join(json.dumps(row) for row in runs.round({"loss": 4}).to_dict("records"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{{"made": {json.dumps(dict(made))},\n "runs": [\n  {lines}\n]}}\n')
