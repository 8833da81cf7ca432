"""One run of notebook 12's ablations: a small language model from nothing, its training, and its losses."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from utils.experiments import profiles
from utils.experiments.experiment import Run
from utils.experiments.loops import adamw_groups, run_of, take_step
from utils.experiments.pretraining.train import TokenSequences
from utils.experiments.pretraining.train import text as sequences
from utils.experiments.sharing.spec import ALL, ATTENTION, FEED_FORWARD, POINTS, Sharing
from utils.experiments.training import seed_everything

DECIMALS = 4
WARM = 0.1  # of the steps, in which the rate grows
TEST_BATCH = 64
OnStep = Callable[[str], None]


class Attention(nn.Module):
    """Causal self-attention behind a norm, with its residual, (B, T, width) -> (B, T, width)."""

    def __init__(self, size: Sharing):
        super().__init__()
        self.heads = size.heads
        self.norm = nn.LayerNorm(size.width)
        self.read, self.out = nn.Linear(size.width, 3 * size.width), nn.Linear(size.width, size.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """X (B, T, width) -> the same shape."""
        q, k, v = self.read(self.norm(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(mixed.transpose(1, 2).flatten(-2))


class FeedForward(nn.Module):
    """The feed-forward part behind a norm, with its residual."""

    def __init__(self, size: Sharing):
        super().__init__()
        self.norm = nn.LayerNorm(size.width)
        self.wide, self.back = nn.Linear(size.width, 4 * size.width), nn.Linear(4 * size.width, size.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """X (B, T, width) -> the same shape."""
        return x + self.back(F.gelu(self.wide(self.norm(x))))


class LanguageModel(nn.Module):
    """A causal language model whose table may be narrow, and whose layers may share parts; its output is the table."""

    def __init__(self, size: Sharing):
        super().__init__()
        d, e = size.width, size.table
        self.table, self.places = nn.Embedding(size.pieces, e), nn.Embedding(size.length, d)
        self.widen = nn.Linear(e, d) if e < d else nn.Identity()
        self.narrow = nn.Linear(d, e) if e < d else nn.Identity()
        self.norm, self.last_norm = nn.LayerNorm(d), nn.LayerNorm(d)
        count = {part: 1 if size.shared in (part, ALL) else size.layers for part in (ATTENTION, FEED_FORWARD)}
        self.attention = nn.ModuleList(Attention(size) for _ in range(count[ATTENTION]))
        self.feed = nn.ModuleList(FeedForward(size) for _ in range(count[FEED_FORWARD]))
        self.layers = size.layers
        self.bias = nn.Parameter(torch.zeros(size.pieces))
        for table in (self.table, self.places):
            nn.init.normal_(table.weight, mean=0.0, std=0.02)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens (B, T) -> logits (B, T, pieces) of the next piece at each place."""
        x = self.norm(self.widen(self.table(tokens)) + self.places.weight[: tokens.size(1)])
        for layer in range(self.layers):
            x = self.attention[layer % len(self.attention)](x)
            x = self.feed[layer % len(self.feed)](x)
        return self.narrow(self.last_norm(x)) @ self.table.weight.T + self.bias


def text_of(size: Sharing) -> TokenSequences:
    """The text of an experiment; without its validation sequences where a rate is chosen."""
    known = sequences(size.task, "minilm", size.pieces, size.length, size.validation)
    if size.held_out:
        return replace(known, train=known.train[: -size.validation], valid=known.train[-size.validation :])
    return known


def trained(
    size: Sharing, seed: int, device: torch.device, known: TokenSequences, on_step: OnStep = lambda what: None
) -> tuple[LanguageModel, list[dict[str, float]]]:
    """A trained model in evaluation mode, and the curve of its training loss."""
    rows = known.train.to(device)
    seed_everything(seed)
    model = LanguageModel(size).to(device)
    with torch.no_grad():
        model.bias.copy_(known.log_shares)
    draw = torch.Generator().manual_seed(seed)
    rule = torch.optim.AdamW(adamw_groups(model.parameters(), 0.01), lr=size.lr, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        rule, size.lr, total_steps=size.steps, pct_start=WARM, anneal_strategy="linear", cycle_momentum=False
    )
    curve, losses, each = [], [], size.steps // POINTS
    model.train()
    for step in range(1, size.steps + 1):
        ids = rows[torch.randint(len(rows), (size.batch,), generator=draw).to(device)]
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        take_step(loss, rule, schedule, clipped=model.parameters())
        losses.append(loss.detach())
        if step % each == 0:
            curve.append({"step": step, "train_loss": round(torch.stack(losses[-each:]).mean().item(), DECIMALS)})
            on_step(f"step {step} of {size.steps}")
    return model.eval(), curve


@torch.no_grad()
def losses_of(model: LanguageModel, known: TokenSequences, device: torch.device) -> list[float]:
    """The summed loss of each validation sequence, in nats."""
    found = []
    for ids in known.valid.split(TEST_BATCH):
        logits = model(ids[:, :-1].to(device)).float().transpose(1, 2)
        each = F.cross_entropy(logits, ids[:, 1:].to(device), reduction="none")
        found += each.double().sum(1).tolist()
    return [round(loss, DECIMALS) for loss in found]


def run_seed(
    experiment: Sharing,
    seed: int,
    *,
    precision: str | None = None,
    folder: Path | str | None = None,
    on_step: OnStep = lambda what: None,
) -> Run:
    """Train once, in float32, and test.

    Args:
        folder: not used; the text is that of libraries on this machine.

    Raises:
        ImportError, OSError: the tokenizer is nowhere; says what to do.
    """
    device, known, began = profiles.device(), text_of(experiment), time.perf_counter()
    model, curve = trained(experiment, seed, device, known, on_step)
    versions = {"torch": str(torch.__version__), "text": known.fingerprint}
    losses = losses_of(model, known, device)
    return run_of(experiment, seed, began, device, torch.float32, versions, predictions=losses, curve=curve)
