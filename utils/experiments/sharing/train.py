"""One run of notebook 12's ablations: a masked language model from nothing, its training, and its losses."""

import itertools
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from utils.experiments import profiles
from utils.experiments.experiment import Run
from utils.experiments.loops import adamw_groups, run_of
from utils.experiments.pretraining.train import TokenSequences
from utils.experiments.pretraining.train import text as sequences
from utils.experiments.sharing.spec import ALL, ATTENTION, FEED_FORWARD, PLACES, POINTS, Sharing
from utils.experiments.training import seed_everything

DECIMALS = 4
WARM = 0.1  # of the steps, in which the rate grows
TEST_BATCH = 128
OnStep = Callable[[str], None]


class Attention(nn.Module):
    """Self-attention with its residual and norm, (B, T, width) -> (B, T, width)."""

    def __init__(self, size: Sharing):
        super().__init__()
        self.heads = size.heads
        self.read, self.out = nn.Linear(size.width, 3 * size.width), nn.Linear(size.width, size.width)
        self.norm, self.dropout = nn.LayerNorm(size.width), nn.Dropout(size.dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """X (B, T, width) -> the same shape."""
        q, k, v = self.read(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2)
        return self.norm(x + self.dropout(self.out(mixed)))


class FeedForward(nn.Module):
    """The feed-forward part with its residual and norm."""

    def __init__(self, size: Sharing):
        super().__init__()
        self.wide, self.back = nn.Linear(size.width, 4 * size.width), nn.Linear(4 * size.width, size.width)
        self.norm, self.dropout = nn.LayerNorm(size.width), nn.Dropout(size.dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """X (B, T, width) -> the same shape."""
        return self.norm(x + self.dropout(self.back(F.gelu(self.wide(x)))))


class MaskedModel(nn.Module):
    """A masked language model whose table may be narrow, and whose layers may share parts; its output is the table."""

    def __init__(self, size: Sharing):
        super().__init__()
        d, e = size.width, size.table
        self.table, self.places = nn.Embedding(size.pieces, e), nn.Embedding(size.length, d)
        self.widen = nn.Linear(e, d) if e < d else nn.Identity()
        self.norm, self.dropout = nn.LayerNorm(d), nn.Dropout(size.dropout)
        count = {part: 1 if size.shared in (part, ALL) else size.layers for part in (ATTENTION, FEED_FORWARD)}
        self.attention = nn.ModuleList(Attention(size) for _ in range(count[ATTENTION]))
        self.feed = nn.ModuleList(FeedForward(size) for _ in range(count[FEED_FORWARD]))
        self.layers = size.layers
        self.head, self.head_norm = nn.Linear(d, e), nn.LayerNorm(e)
        self.bias = nn.Parameter(torch.zeros(size.pieces))
        for part in self.modules():
            if isinstance(part, (nn.Linear, nn.Embedding)):
                nn.init.normal_(part.weight, std=0.02)

    def states(self, tokens: torch.Tensor) -> list[torch.Tensor]:
        """The states (B, T, width) before the first layer and after each."""
        found = [self.dropout(self.norm(self.widen(self.table(tokens)) + self.places.weight[: tokens.size(1)]))]
        for layer in range(self.layers):
            x = self.attention[layer % len(self.attention)](found[-1])
            found.append(self.feed[layer % len(self.feed)](x))
        return found

    def forward(self, tokens: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """Logits (B, n, pieces) of the tokens at places (B, n)."""
        last = self.states(tokens)[-1]
        asked = last.gather(1, places[..., None].expand(-1, -1, last.size(-1)))
        return self.head_norm(F.gelu(self.head(asked))) @ self.table.weight.T + self.bias


def text_of(size: Sharing) -> TokenSequences:
    """The text of an experiment, made once a session."""
    return sequences(size.task, "minilm", size.pieces, size.length, size.validation)


def drawn_places(ids: torch.Tensor, special: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """PLACES of each sequence that hold no special token, (B, PLACES)."""
    chance = torch.rand(ids.shape, generator=generator, device=ids.device)
    return chance.masked_fill(torch.isin(ids, special), 2.0).argsort(1)[:, :PLACES]


def trained(
    size: Sharing, seed: int, device: torch.device, known: TokenSequences, on_step: OnStep = lambda what: None
) -> tuple[MaskedModel, list[dict[str, float]]]:
    """A trained model in evaluation mode, and the curve of its training loss."""
    rows = known.train[: round(size.text * len(known.train))].to(device)
    special = torch.tensor(known.special, device=device)
    seed_everything(seed)
    model = MaskedModel(size).to(device)
    with torch.no_grad():
        model.bias.copy_(known.log_shares)
    draw = torch.Generator(device).manual_seed(seed)
    rule = torch.optim.AdamW(adamw_groups(model.parameters(), 0.01), lr=size.lr, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        rule, size.lr, total_steps=size.steps, pct_start=WARM, anneal_strategy="linear", cycle_momentum=False
    )
    curve, losses = [], torch.zeros(size.steps, device=device)
    model.train()
    for step in range(size.steps):
        ids = rows[torch.randint(len(rows), (size.batch,), generator=draw, device=device)]
        places = drawn_places(ids, special, draw)
        logits = model(ids.scatter(1, places, known.mask_id), places)
        loss = F.cross_entropy(logits.flatten(0, 1), ids.gather(1, places).flatten())
        rule.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        rule.step()
        schedule.step()
        losses[step] = loss.detach()
        each = size.steps // POINTS
        if (step + 1) % each == 0:
            mean = losses[step + 1 - each : step + 1].mean().item()
            curve.append({"step": step + 1, "train_loss": round(mean, DECIMALS)})
            on_step(f"step {step + 1} of {size.steps}")
    return model.eval(), curve


@torch.no_grad()
def losses_of(model: MaskedModel, known: TokenSequences, device: torch.device) -> list[float]:
    """The summed loss of each validation sequence's masked tokens, in nats; all models have the same places."""
    ids, found = known.valid, []
    places = drawn_places(ids, torch.tensor(known.special), torch.Generator().manual_seed(0))
    asked, wanted = ids.scatter(1, places, known.mask_id), ids.gather(1, places)
    for chunk, where, right in zip(
        asked.split(TEST_BATCH), places.split(TEST_BATCH), wanted.split(TEST_BATCH), strict=True
    ):
        logits = model(chunk.to(device), where.to(device)).float()
        found += F.cross_entropy(logits.transpose(1, 2), right.to(device), reduction="none").double().sum(1).tolist()
    return [round(loss, DECIMALS) for loss in found]


@torch.no_grad()
def moves(model: MaskedModel, known: TokenSequences, device: torch.device) -> dict[str, list[float]]:
    """How far each layer moves a state of the validation text: the mean Euclidean distance, and the mean cosine."""
    states = model.states(known.valid[:TEST_BATCH].to(device))
    pairs = [*itertools.pairwise(states)]
    return {
        "distance": [round((after - before).norm(dim=-1).mean().item(), 3) for before, after in pairs],
        "cosine": [round(F.cosine_similarity(before, after, dim=-1).mean().item(), 3) for before, after in pairs],
    }


def measured(experiment: Sharing, seed: int, on_step: OnStep = lambda what: None) -> tuple[Run, dict[str, list[float]]]:
    """A run, and how far its layers move states, see `moves`."""
    device, known = profiles.device(), text_of(experiment)
    began = time.perf_counter()
    model, curve = trained(experiment, seed, device, known, on_step)
    versions = {"torch": str(torch.__version__), "text": known.fingerprint}
    losses = losses_of(model, known, device)
    run = run_of(experiment, seed, began, device, torch.float32, versions, predictions=losses, curve=curve)
    return run, moves(model, known, device)


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
    return measured(experiment, seed, on_step)[0]
