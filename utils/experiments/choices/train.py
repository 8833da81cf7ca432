"""One run of the two tasks of `spec`: questions and sentences, the heads, and what is predicted."""

import functools
import itertools
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn
from torch.nn import functional as F

from data import documentation, encoders
from utils.experiments import profiles
from utils.experiments.choices.spec import FIRST, OPTIONS, READ, SHUFFLED, Choice, Vectors
from utils.experiments.experiment import DIGITS, Run
from utils.experiments.loops import adamw_groups, fingerprint, in_precision, last_states, products_of, run_of, take_step
from utils.experiments.training import seed_everything

# Their versions are in constraints.txt, so that machines which keep to it have one text; Python's own are not.
LIBRARIES = ("numpy", "pandas", "scipy", "matplotlib", "torch", "transformers")
WORDS = (6, 40)  # of a sentence in a question
Question = tuple[str, tuple[str, ...], int]  # a sentence, four endings, and which one comes next
Report = Callable[[str], None]


@functools.cache
def asked() -> tuple[list[Question], list[Question]]:
    """All questions to learn from and to test on, shuffled, each sentence with its next one asked once."""
    found = []
    for validation in (False, True):
        draw = random.Random(f"questions {validation}")
        texts = documentation.documents(LIBRARIES, validation=validation)
        neighbours = [
            pair
            for text in texts
            for pair in itertools.pairwise(text)
            if all(WORDS[0] <= len(one.split()) <= WORDS[1] for one in pair)
        ]
        later = [after for _, after in neighbours]
        made = []
        for before, after in draw.sample(neighbours, len(neighbours)):
            wrong = [one for one in draw.sample(later, OPTIONS + 2) if one not in (before, after)][: OPTIONS - 1]
            place = draw.randrange(OPTIONS)
            made.append((before, (*wrong[:place], after, *wrong[place:]), place))
        found.append(made)
    return found[0], found[1]


def rows_of(some: Sequence[Question], one: Choice, tokenizer: Any, device: torch.device) -> Any:
    """What the encoder reads: a row for each ending, those of a question one after the other; pads on the right."""
    firsts = ["" if one.alone else before for before, *_ in some for _ in range(OPTIONS)]
    endings = [ending for _, endings, _ in some for ending in endings]
    how = {"padding": True, "truncation": True, "max_length": one.max_len, "return_tensors": "pt"}
    return tokenizer(firsts, endings, **how).to(device)


class Chooser(nn.Module):
    """An encoder, and a linear map from its state of [CLS] to the logit of an ending."""

    def __init__(self, one: Choice):
        super().__init__()
        self.encoder = encoders.plain_model(one.encoder, one.start == "pretrained")
        self.drop, self.out = nn.Dropout(0.1), nn.Linear(self.encoder.config.hidden_size, 1)
        nn.init.normal_(self.out.weight, std=0.02)
        nn.init.zeros_(self.out.bias)

    def forward(self, rows: Any) -> torch.Tensor:
        """Logits (questions, OPTIONS)."""
        return self.out(self.drop(self.encoder(**rows).last_hidden_state[:, 0])).view(-1, OPTIONS)


def choice_run(one: Choice, seed: int, device: torch.device, products: torch.dtype, on_step: Report) -> dict[str, Any]:
    """Train a chooser and test it."""
    pool, others = asked()
    draw, tokenizer = random.Random(f"choice {seed}"), encoders.tokenizer(one.encoder)
    chosen, tested = draw.sample(pool, one.examples), others[: one.test]
    model = Chooser(one).to(device)
    optimizer = torch.optim.AdamW(adamw_groups(model.parameters(), one.weight_decay), lr=one.lr)
    steps = one.count_steps()
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, steps // 10, steps)
    labels = torch.tensor([place for *_, place in tested])
    curve = []
    for _ in range(one.epochs):
        model.train()
        losses, order = [], draw.sample(chosen, len(chosen))
        for start in range(0, len(order), one.batch):
            some = order[start : start + one.batch]
            with in_precision(device, products):
                logits = model(rows_of(some, one, tokenizer, device))
            loss = F.cross_entropy(logits.float(), torch.tensor([place for *_, place in some], device=device))
            take_step(loss, optimizer, schedule, clipped=model.parameters())
            losses.append(loss.detach())
            on_step(one.name)
        model.eval()
        found = []
        for start in range(0, len(tested), 32):
            with torch.no_grad(), in_precision(device, products):
                found.append(model(rows_of(tested[start : start + 32], one, tokenizer, device)).float().cpu())
        logits = rounded(torch.cat(found))
        curve.append(point(torch.stack(losses).mean().item(), logits, labels))
    text = [" ".join((before, *endings)) for before, endings, _ in (*pool, *tested)]
    return results(logits, labels, curve) | {"text": fingerprint(text)}


@functools.cache
def sentences(pool: int, test: int) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """Sentences of documentation with the number of their library, to learn from and to test on."""
    known = documentation.labelled_sentences(LIBRARIES, pool)
    return known, documentation.labelled_sentences(LIBRARIES, test, validation=True)


@functools.cache
def states(
    encoder: str, pool: int, test: int, max_len: int, device: torch.device, products: torch.dtype
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The last states (tokens, width) of each sentence, special tokens included, standardised by the pool."""
    tokenizer, model = encoders.tokenizer(encoder), encoders.ready_model(encoder).to(device).eval()
    sides = []
    for side in sentences(pool, test):
        rows: list[torch.Tensor] = [torch.empty(0)] * len(side)
        order = sorted(range(len(side)), key=lambda place: len(side[place][0]))
        for start in range(0, len(order), 64):
            places = order[start : start + 64]
            texts = [side[place][0] for place in places]
            batch = tokenizer(texts, padding=True, truncation=True, max_length=max_len, return_tensors="pt")
            read = last_states(model, batch, device, products).cpu()
            for place, row, real in zip(places, read, batch["attention_mask"], strict=True):
                rows[place] = row[: int(real.sum())]
        sides.append(rows)
    every = torch.cat(sides[0])
    mean, spread = every.mean(0), every.std(0) + 1e-5
    pooled, tested = ([(row - mean) / spread for row in side] for side in sides)
    return pooled, tested


class Reader(nn.Module):
    """The vector of a sentence, and a linear map to classes."""

    def __init__(self, one: Vectors, width: int, classes: int):
        super().__init__()
        self.vector, self.drop = one.vector, nn.Dropout(one.dropout)
        reads = one.vector in (READ, SHUFFLED)
        self.lstm = nn.LSTM(width, one.hidden, bidirectional=True, batch_first=True) if reads else None
        self.out = nn.Linear(2 * one.hidden if reads else width, classes)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """States (B, T, width), zero at pads -> logits (B, classes)."""
        x = self.drop(x)
        if self.lstm is not None:  # 8.9's `sentence_vector`
            _, (last, _) = self.lstm(nn.utils.rnn.pack_padded_sequence(x, lengths.cpu(), True, False))
            return self.out(torch.cat([last[0], last[1]], dim=-1))
        return self.out(x[:, 0] if self.vector == FIRST else x.sum(1) / lengths.to(x)[:, None])


def vectors_run(
    one: Vectors, seed: int, device: torch.device, products: torch.dtype, on_step: Report
) -> dict[str, Any]:
    """Train a reader and test it."""
    known, others = sentences(one.pool, one.test)
    pooled, tested = states(one.encoder, one.pool, one.test, one.max_len, device, products)
    draw = random.Random(f"vectors {seed}")
    chosen = draw.sample(range(len(known)), one.examples)
    seed_everything(seed)  # the states may have been computed just now
    model = Reader(one, pooled[0].size(1), len(LIBRARIES)).to(device)
    optimizer = torch.optim.AdamW(adamw_groups(model.parameters(), one.weight_decay), lr=one.lr)
    total = one.epochs * -(-one.examples // one.batch)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, total // 10, total)
    orders = torch.Generator().manual_seed(seed)

    def logits_of(rows: Sequence[torch.Tensor]) -> torch.Tensor:
        if one.vector == SHUFFLED:
            rows = [row[torch.randperm(len(row), generator=orders)] for row in rows]
        padded = nn.utils.rnn.pad_sequence([*rows], batch_first=True).to(device)
        return model(padded, torch.tensor([len(row) for row in rows]))

    labels, curve = torch.tensor([label for _, label in others]), []
    for epoch in range(one.epochs):
        model.train()
        losses, order = [], draw.sample(chosen, len(chosen))
        for start in range(0, len(order), one.batch):
            places = order[start : start + one.batch]
            gold = torch.tensor([known[place][1] for place in places], device=device)
            loss = F.cross_entropy(logits_of([pooled[place] for place in places]), gold)
            take_step(loss, optimizer, schedule, clipped=model.parameters())
            losses.append(loss.detach())
        model.eval()
        with torch.no_grad():
            parts = [logits_of(tested[start : start + 64]).cpu() for start in range(0, len(tested), 64)]
        logits = rounded(torch.cat(parts))
        curve.append(point(torch.stack(losses).mean().item(), logits, labels))
        on_step(f"epoch {epoch + 1} of {one.epochs}")
    text = [sentence for side in (known, others) for sentence, _ in side]
    return results(logits, labels, curve) | {"text": fingerprint(text)}


def rounded(logits: torch.Tensor) -> torch.Tensor:
    """As a run keeps them."""
    return (logits.double() * 10**DIGITS).round() / 10**DIGITS


def point(train_loss: float, logits: torch.Tensor, labels: torch.Tensor) -> dict[str, float]:
    """An epoch's entry in the curve."""
    accuracy = (logits.argmax(1) == labels).double().mean().item()
    found = {"train_loss": train_loss, "loss": F.cross_entropy(logits, labels).item(), "accuracy": accuracy}
    return {name: round(value, DIGITS + 1) for name, value in found.items()}


def results(logits: torch.Tensor, labels: torch.Tensor, curve: list[dict[str, float]]) -> dict[str, Any]:
    """What a run holds of the test."""
    rows = [[round(value, DIGITS) for value in row] for row in logits.tolist()]
    predictions = [max(range(len(row)), key=row.__getitem__) for row in rows]
    return {"labels": labels.tolist(), "predictions": predictions, "logits": rows, "curve": curve}


def run_seed(
    experiment: Choice | Vectors,
    seed: int,
    *,
    precision: str | None = None,
    folder: Path | str | None = None,
    on_step: Report = lambda what: None,
) -> Run:
    """Train once and test; see `utils.experiments.experiment.Experiment.run_seed`.

    Args:
        folder: not used; the text is that of libraries on this machine.

    Raises:
        ImportError, OSError: the encoder is nowhere; says what to do.
    """
    device, began = profiles.device(), time.perf_counter()
    products = products_of(experiment, device, precision)
    seed_everything(seed)
    train: Any = choice_run if isinstance(experiment, Choice) else vectors_run
    found = train(experiment, seed, device, products, on_step)
    versions = {"torch": torch.__version__, "transformers": transformers.__version__, "text": found.pop("text")}
    return run_of(experiment, seed, began, device, products, versions, **found)
