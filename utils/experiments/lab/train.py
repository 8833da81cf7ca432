"""One run of the lab's experiment: the pretraining, the head that is swapped, and the epochs."""

import functools
import math
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn
from torch.nn import functional as F

from data import documentation, reviews
from data.documentation import cache_folder
from utils import subwords
from utils.experiments import profiles
from utils.experiments.choices.train import point, results, rounded
from utils.experiments.experiment import Run
from utils.experiments.lab.spec import EMBEDDINGS, SCRATCH, Lab
from utils.experiments.loops import adamw_groups, fingerprint, products_of, run_of, take_step
from utils.experiments.training import by_length, seed_everything, shuffled
from utils.positions import add_positions

# Their versions are in constraints.txt, so that machines which keep to it have one text; Python's own are not.
LIBRARIES = ("numpy", "pandas", "scipy", "matplotlib", "torch", "transformers")
SPECIAL = ("<sos>", "<pad>", "<eos>", "<unk>")
SOS, PAD, EOS = range(3)
READING_BATCH, READING_LR, READING_LENGTH = 128, 1e-3, 48


class Shape(Protocol):
    """What decides how large a `Base` is."""

    @property
    def width(self) -> int:
        """The width, also of the feed-forward part."""

    @property
    def heads(self) -> int:
        """Heads of each layer."""

    @property
    def layers(self) -> int:
        """Layers."""

    @property
    def dropout(self) -> float:
        """The share of what dropout sets to zero."""


class Base(nn.Module):
    """The language model of notebook 01 without its head: tokens (B, T) -> states (B, T, width), causal."""

    def __init__(self, one: Shape, size: int):
        super().__init__()
        self.width = one.width
        self.embedding = nn.Embedding(size, one.width)
        nn.init.normal_(self.embedding.weight, std=one.width**-0.5)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(one.width, one.heads, one.width, one.dropout, batch_first=True)
            for _ in range(one.layers)
        )

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """The states after the last layer."""
        no_future = nn.Transformer.generate_square_subsequent_mask(tokens.size(1), device=tokens.device)
        x = add_positions(self.embedding(tokens) * math.sqrt(self.width))
        for layer in self.layers:
            x = layer(x, src_mask=no_future, is_causal=True)
        return x


@functools.cache
def text(sentences: int | None, tokens: int) -> tuple[list[str], list[str], subwords.Subwords]:
    """Sentences to pretrain on and to validate on, and the pieces that were learned from the former."""
    train, valid = documentation.train_and_validation(sentences, LIBRARIES)
    return train, valid, subwords.Subwords(train, tokens, SPECIAL)


def padded(rows: Sequence[Sequence[int]], device: torch.device) -> torch.Tensor:
    """(B, T), padded on the right."""
    return nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], True, PAD).to(device)


def losses(base: Base, head: nn.Linear, rows: torch.Tensor) -> torch.Tensor:
    """The loss of each next token that is no pad, (n,)."""
    wanted = rows[:, 1:]
    real = wanted != PAD
    return F.cross_entropy(head(base(rows[:, :-1])[real]).float(), wanted[real], reduction="none")


def pretrained(one: Lab) -> Path:
    """The file with the weights of the pretrained base, and its validation loss; trained if the cache lacks it."""
    train, valid, vocab = text(one.sentences, one.tokens)
    shape = one.tokens, one.width, one.heads, one.layers, one.reading
    path = cache_folder() / "lab" / f"{'-'.join(map(str, shape))}-{fingerprint(train)}.pt"
    if path.is_file():
        return path
    device = profiles.device()
    seed_everything(0)
    base, head = Base(one, len(vocab)).to(device), nn.Linear(one.width, len(vocab)).to(device)
    for part in base.modules():
        if isinstance(part, nn.Dropout | nn.MultiheadAttention):
            setattr(part, "p" if isinstance(part, nn.Dropout) else "dropout", 0.0)  # as notebook 01 pretrains
    made = [
        padded([[SOS, *vocab.encode(line)[: READING_LENGTH - 2], EOS] for line in chunk], device)
        for chunk in by_length(train, READING_BATCH)
    ]
    optimizer = torch.optim.AdamW([*base.parameters(), *head.parameters()], lr=READING_LR, weight_decay=0.01)
    total = one.reading * len(made)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimizer, READING_LR, total, pct_start=0.1)
    bf16 = products_of(one, device)
    for epoch in range(one.reading):
        for rows in shuffled(made, seed=epoch):
            with torch.autocast(device.type, bf16, enabled=bf16 is not torch.float32):
                loss = losses(base, head, rows).mean()
            take_step(loss, optimizer, rate, clipped=[*base.parameters(), *head.parameters()])
    base.eval()
    with torch.no_grad():
        parts = [
            losses(
                base, head, padded([[SOS, *vocab.encode(line)[: READING_LENGTH - 2], EOS] for line in chunk], device)
            )
            for chunk in by_length(valid, READING_BATCH)
        ]
    found = {"base": base.state_dict(), "validation": torch.cat(parts).mean().item(), "last": loss.item()}
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        torch.save(found, file)
    os.replace(file.name, path)
    return path


class Judge(nn.Module):
    """A base and a linear map of the state of the last token: notebook 04's model."""

    def __init__(self, base: Base, dropout: float):
        super().__init__()
        self.base, self.drop, self.out = base, nn.Dropout(dropout), nn.Linear(base.width, 2)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Logits (B, 2)."""
        last = (rows != PAD).sum(1) - 1
        return self.out(self.drop(self.base(rows)[torch.arange(len(rows), device=rows.device), last]))


def examples(one: Lab, folder: Path | str | None) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """Reviews to learn from and to test on; those that rates are chosen on come after both."""
    found = shuffled(reviews.polarity(folder), seed=0)
    learn, test = one.examples
    first = len(found) - test if one.held_out else learn
    return found[:learn], found[first : first + test]


def run_seed(
    experiment: Lab,
    seed: int,
    *,
    precision: str | None = None,
    folder: Path | str | None = None,
    on_step: Callable[[str], None] = lambda what: None,
) -> Run:
    """Train once, in float32, and test after each epoch; see `utils.experiments.experiment.Experiment.run_seed`.

    Raises:
        FileNotFoundError: the reviews are nowhere; says what to do.
    """
    one, device, began = experiment, profiles.device(), time.perf_counter()
    train, _, vocab = text(one.sentences, one.tokens)
    known = torch.load(pretrained(one), map_location="cpu", weights_only=True) if one.arm != SCRATCH else {}
    seed_everything(seed)
    base = Base(one, len(vocab))
    if one.arm == EMBEDDINGS:
        base.embedding.load_state_dict({"weight": known["base"]["embedding.weight"]})
    elif one.arm != SCRATCH:
        base.load_state_dict(known["base"])
    model = Judge(base, one.dropout).to(device)
    learn, test = (
        [([SOS, *vocab.encode(line)[: one.max_len - 1]], label) for line, label in side]
        for side in examples(one, folder)
    )
    labels = torch.tensor([label for _, label in test])
    optimizer = torch.optim.AdamW(adamw_groups(model.parameters(), one.weight_decay), lr=one.lr)
    orders, curve = torch.Generator().manual_seed(seed), []
    for epoch in range(one.epochs):
        model.train()
        total = []
        for places in torch.randperm(len(learn), generator=orders).split(one.batch):
            rows = padded([learn[place][0] for place in places.tolist()], device)
            gold = torch.tensor([learn[place][1] for place in places.tolist()], device=device)
            loss = F.cross_entropy(model(rows), gold)
            take_step(loss, optimizer, clipped=model.parameters())
            total.append(loss.detach())
        model.eval()
        with torch.no_grad():
            parts = [
                model(padded([row for row, _ in test[start : start + 200]], device)).float().cpu()
                for start in range(0, len(test), 200)
            ]
        logits = rounded(torch.cat(parts))
        curve.append(point(torch.stack(total).mean().item(), logits, labels))
        on_step(f"epoch {epoch + 1} of {one.epochs}")
    versions: dict[str, Any] = {
        "torch": torch.__version__,
        "text": fingerprint([*train, *(line for line, _ in examples(one, folder)[1])]),
    }
    return run_of(one, seed, began, device, torch.float32, versions, **results(logits, labels, curve))
