"""One run of notebook 12's experiments: what is read, the models, the trainings, and what is answered in the test."""

import copy
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from data import libraries
from utils.experiments import profiles, student
from utils.experiments.experiment import Run
from utils.experiments.loops import fingerprint, run_of, take_step
from utils.experiments.smaller.spec import (
    CUT,
    DENSE,
    HARD,
    NEW,
    OWN,
    POINTS,
    SHUFFLED,
    SOFT,
    TEACHER,
    UNIT,
    Smaller,
    lookups,
)
from utils.experiments.training import seed_everything

ANOTHER = 10**7  # what is added to a seed for values that have nothing to do with the first ones
TEMPERATURE = 1.0
VOCABULARY = 4000  # words that occur twice or more, at most so many of them
OnStep = Callable[[str], None]
Tensors = dict[str, torch.Tensor]


def magnitude_masks(model: nn.Module, sparsity: float, names: Sequence[str]) -> Tensors:
    """Exercise 12.4: which of the named weights stay when the smallest go."""
    parts = [model.get_parameter(name).detach() for name in names]
    sizes = torch.cat([part.abs().flatten() for part in parts])
    left = torch.ones_like(sizes, dtype=torch.bool)
    left[sizes.argsort()[: round(sparsity * len(sizes))]] = False
    pieces = left.split([part.numel() for part in parts])
    return {name: piece.view_as(part) for name, piece, part in zip(names, pieces, parts, strict=True)}


def snapshot(model: nn.Module) -> Tensors:
    """Exercise 12.5: copies of all that the model holds."""
    held = model.state_dict()
    return {name: held[name].detach().clone() for name in held}


def cut(model: nn.Module, masks: Mapping[str, torch.Tensor]) -> None:
    """Set to zero what does not stay."""
    with torch.no_grad():
        for name, stays in masks.items():
            model.get_parameter(name).mul_(stays)


def rewind(model: nn.Module, saved: Tensors, masks: Mapping[str, torch.Tensor]) -> None:
    """Exercise 12.5: back to what was saved, with zeros."""
    model.load_state_dict(saved)
    cut(model, masks)


def train_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    x: torch.Tensor,
    labels: torch.Tensor,
    masks: Mapping[str, torch.Tensor],
) -> float:
    """Exercise 12.5: a step after which masked weights are zero."""
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), labels)
    loss.backward()
    optimizer.step()
    cut(model, masks)
    return loss.item()


def distillation_loss(
    student: torch.Tensor, teacher: torch.Tensor, labels: torch.Tensor, T: float, alpha: float
) -> torch.Tensor:
    """Exercise 12.6: Hinton's loss."""
    soft = (teacher.detach() / T).softmax(-1)
    divergence = F.kl_div((student / T).log_softmax(-1), soft, reduction="batchmean")
    return alpha * T**2 * divergence + (1 - alpha) * F.cross_entropy(student, labels)


class SmallTransformer(nn.Module):
    """A transformer that gives logits for a row of tokens, (B, T) -> (B, C).

    A lookup is answered at its last token, and no token has a place; a sentence by the mean of its states.
    """

    def __init__(self, size: Smaller, vocabulary: int):
        super().__init__()
        d, self.last = size.width, size.is_lookup
        self.table = nn.Embedding(vocabulary, d)
        nn.init.normal_(self.table.weight, std=0.1)
        self.places = None if self.last else nn.Embedding(size.words, d)
        how = {"dropout": size.dropout, "activation": "gelu", "batch_first": True}
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(d, size.heads, 4 * d, **how) for _ in range(size.layers))  # type: ignore[arg-type]
        self.head = nn.Linear(d, size.classes)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Token numbers (B, T) -> logits (B, C)."""
        x = self.table(tokens)
        if self.places is not None:
            x = x + self.places.weight
        for layer in self.layers:
            x = layer(x)
        return self.head(x[:, -1] if self.last else x.mean(1))


class Bag(nn.Module):
    """One of the teachers: the sum of a sentence's words, by a hidden layer to logits, (B, T) -> (B, C)."""

    def __init__(self, size: Smaller, vocabulary: int):
        super().__init__()
        d = size.teacher_width
        self.table = nn.Embedding(vocabulary, d, padding_idx=0)
        nn.init.normal_(self.table.weight, std=0.1)
        self.net = nn.Sequential(nn.Dropout(0.5), nn.Linear(d, d), nn.ReLU(), nn.Linear(d, size.classes))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Token numbers (B, T), 0 for what is not a known word -> logits (B, C)."""
        count = (tokens > 0).sum(1, keepdim=True).clamp(min=1)
        return self.net(self.table(tokens).sum(1) / count**0.5)


class Vote(nn.Module):
    """Several models, whose logits are averaged."""

    def __init__(self, models: Sequence[nn.Module]):
        super().__init__()
        self.models = nn.ModuleList(models)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Token numbers (B, T) -> logits (B, C)."""
        return torch.stack([model(tokens) for model in self.models]).mean(0)


@dataclass(frozen=True)
class Given:
    """What is read in training and in the test, (N, T) and (N)."""

    vocabulary: int  # numbers of tokens
    x: torch.Tensor
    y: torch.Tensor
    test_x: torch.Tensor
    test_y: torch.Tensor

    @property
    def fingerprint(self) -> str:
        """Eight digits that differ between texts."""
        return fingerprint((self.x, self.test_x))


@cache
def given(base: Smaller) -> Given:
    """The examples of an experiment's base.

    Raises:
        ValueError, ImportError: the libraries whose sentences are read are nowhere; says what to do.
    """
    if base.is_lookup:
        sides = [torch.tensor(part) for split in ("train", "test") for part in lookups(base, split)]
        return Given(base.keys**2 + base.keys, *sides)
    texts = [
        libraries.load(base.task, split, count) for split, count in (("train", base.examples), ("test", base.test))
    ]
    counts = Counter(word for some in texts[0] for text in some for word in text.split())
    known = sorted((word for word, count in counts.items() if count > 1), key=lambda word: (-counts[word], word))
    numbers = {word: place for place, word in enumerate(known[:VOCABULARY], start=1)}
    sides = []
    for side in texts:
        rows = [[numbers.get(word, 0) for word in text.split()][: base.words] for some in side for text in some]
        sides.append(torch.tensor([row + [0] * (base.words - len(row)) for row in rows]))
        sides.append(torch.tensor([label for label, some in enumerate(side) for _ in some]))
    return Given(len(numbers) + 1, *sides)


def prunable(model: nn.Module) -> list[str]:
    """The names of the matrices of the layers."""
    return [name for name, part in model.named_parameters() if part.dim() == 2 and name.startswith("layers.")]


def order(count: int, batch: int, steps: int, seed: int) -> torch.Tensor:
    """The examples of each step, (steps, batch)."""
    return torch.randint(count, (steps, batch), generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def answers(model: nn.Module, x: torch.Tensor, device: torch.device) -> torch.Tensor:
    """The logits of all examples (N, C), in evaluation mode, on the CPU; the model is left in training mode."""
    model.eval()
    found = torch.cat([model(part.to(device)) for part in x.split(500)]).float().cpu()
    model.train()
    return found


def accuracy(logits: torch.Tensor, labels: torch.Tensor) -> float:
    """The share whose largest logit is the label's."""
    return round((logits.argmax(-1) == labels).double().mean().item(), 5)


def scheduled(model: nn.Module, lr: float, steps: int, decay: float) -> tuple[Any, Any]:
    """An optimizer and the schedule of its learning rate."""
    rule = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=decay)
    return rule, torch.optim.lr_scheduler.OneCycleLR(rule, lr, total_steps=steps, pct_start=0.1)


def learn(
    size: Smaller,
    model: nn.Module,
    one_step: Callable[[torch.optim.Optimizer, torch.Tensor], object],
    count: int,
    seed: int,
    decay: float,
    on_step: OnStep,
) -> list[dict[str, float]]:
    """Train the model in place by `one_step(optimizer, places)`; the accuracy on the test examples at POINTS times."""
    known, curve, device = given(size.base), [], next(model.parameters()).device
    rule, schedule = scheduled(model.train(), size.lr, size.steps, decay)
    for step, places in enumerate(order(count, size.batch, size.steps, seed), start=1):
        one_step(rule, places)
        schedule.step()
        if step % (size.steps // POINTS) == 0:
            curve.append({"step": step, "accuracy": accuracy(answers(model, known.test_x, device), known.test_y)})
            on_step(f"step {step} of {size.steps}")
    return curve


# Lookups


class Functions:
    """The functions of exercises 12.4 and 12.5 that a run uses: the student's where they do what the course's do."""

    def __init__(self, model: nn.Module, x: torch.Tensor, labels: torch.Tensor):
        self.magnitude_masks, self.snapshot, self.rewind, self.train_step = (
            magnitude_masks, snapshot, rewind, train_step,
        )  # fmt: skip
        if not student.any_own():
            return
        with torch.random.fork_rng():
            self._choose(model, x, labels)

    def _choose(self, model: nn.Module, x: torch.Tensor, labels: torch.Tensor) -> None:
        names = prunable(model)
        masks = magnitude_masks(model, 0.5, names)

        def cut_by(function: Callable[..., Tensors]) -> Tensors:
            return function(model, 0.5, names)

        def saved_by(function: Callable[..., Tensors]) -> Tensors:
            other = copy.deepcopy(model)
            kept = function(other)
            with torch.no_grad():
                for part in other.parameters():
                    part.add_(1)
            return dict(kept)

        def rewound_by(function: Callable[..., None]) -> Tensors:
            other = copy.deepcopy(model)
            with torch.no_grad():
                for part in other.parameters():
                    part.add_(1)
            function(other, snapshot(model), dict(masks))
            return snapshot(other)

        def stepped_by(function: Callable[..., float]) -> Tensors:
            other = copy.deepcopy(model).train()
            rule, losses = torch.optim.AdamW(other.parameters(), lr=0.01, weight_decay=0.0), []
            for some in ({}, masks, masks):
                losses.append(float(function(other, rule, x, labels, dict(some))))
            return snapshot(other) | {"losses": torch.tensor(losses)}

        for name, made_by in (
            ("magnitude_masks", cut_by),
            ("snapshot", saved_by),
            ("rewind", rewound_by),
            ("train_step", stepped_by),
        ):
            course = getattr(self, name)
            agreed = student.instead(
                name,
                lambda function, made_by=made_by: (function, made_by(function)),  # type: ignore[misc]
                lambda made, made_by=made_by, course=course: same(made[1], made_by(course)),  # type: ignore[misc]
            )
            if agreed:
                setattr(self, name, agreed[0])


def same(found: Mapping[str, torch.Tensor], wanted: Mapping[str, torch.Tensor]) -> bool:
    """Whether two dicts hold the same names and the same numbers."""
    return {*found} == {*wanted} and all(torch.equal(found[name], wanted[name]) for name in wanted)


def trained(
    size: Smaller, model: nn.Module, own: Functions, masks: Tensors, seed: int, device: torch.device, on_step: OnStep
) -> list[dict[str, float]]:
    """Train a lookup model in place, with zeros where masks say so; its curve."""
    known = given(size.base)
    x, y = known.x.to(device), known.y.to(device)

    def one_step(rule: torch.optim.Optimizer, places: torch.Tensor) -> object:
        return own.train_step(model, rule, x[places], y[places], masks)

    return learn(size, model, one_step, len(x), seed, 0.0, on_step)


def fresh(base: Smaller, seed: int, device: torch.device) -> nn.Module:
    """A new model to answer lookups."""
    seed_everything(seed)
    return SmallTransformer(base, given(base).vocabulary).to(device)


@lru_cache(maxsize=5)
def dense(base: Smaller, seed: int, device: torch.device) -> tuple[nn.Module, Tensors, list[dict[str, float]]]:
    """The dense model after training, what it was before, and its curve: every arm that cuts begins with it."""
    model = fresh(base, seed, device)
    own = owned(base, model, device)
    start = own.snapshot(model)
    return model, start, trained(base, model, own, {}, seed, device, lambda what: None)


def owned(base: Smaller, model: nn.Module, device: torch.device) -> Functions:
    """Whose functions are used, tried on some examples."""
    known = given(base)
    return Functions(model, known.x[:8].to(device), known.y[:8].to(device))


def masked(size: Smaller, seed: int, device: torch.device) -> tuple[nn.Module, Tensors, Functions]:
    """A model that begins where its arm begins, with zeros, its masks, and whose functions are used."""
    whole, start, _ = dense(size.base, seed, device)
    model = fresh(size.base, seed + ANOTHER, device)
    own = owned(size.base, model, device)
    masks = own.magnitude_masks(whole, size.sparsity, prunable(whole))
    if size.method == SHUFFLED:
        numbers = torch.Generator().manual_seed(seed)
        for name, mask in masks.items():
            places = torch.randperm(mask.numel(), generator=numbers).to(device)
            masks[name] = mask.flatten()[places].view_as(mask)
    own.rewind(model, own.snapshot(model) if size.method == NEW else start, masks)
    return model, masks, own


# Sentences


@lru_cache(maxsize=5)
def teacher(base: Smaller, seed: int, device: torch.device) -> tuple[Vote, torch.Tensor, torch.Tensor]:
    """Models that learned from the sentences with labels, the places of these, and all sentences' logits (N, C)."""
    known = given(base)
    labelled = torch.randperm(len(known.x), generator=torch.Generator().manual_seed(seed))[: base.labels]
    x, y, models = known.x[labelled].to(device), known.y[labelled].to(device), []
    for number in range(base.teachers):
        seed_everything(seed + number * ANOTHER)
        model = Bag(base, known.vocabulary).to(device).train()
        rule, schedule = scheduled(model, base.teacher_lr, base.teacher_steps, 0.01)
        for places in order(len(x), base.batch, base.teacher_steps, seed + number):
            train_step(model, rule, x[places], y[places], {})
            schedule.step()
        models.append(model)
    vote = Vote(models).to(device)
    return vote, labelled, answers(vote, known.x, device)


def teaching(size: Smaller, device: torch.device) -> Callable[..., torch.Tensor]:
    """The student's distillation_loss, if its value and gradient are the course's."""
    numbers = torch.Generator().manual_seed(0)
    z, wanted = (2 * torch.randn(size.batch, size.classes, generator=numbers).to(device) for _ in range(2))
    labels = torch.randint(size.classes, (size.batch,), generator=numbers).to(device)

    def facts(function: Callable[..., torch.Tensor]) -> Tensors:
        found: Tensors = {}
        for alpha in (0.0, 1.0):
            leaf = z.clone().requires_grad_()
            loss = function(leaf, wanted, labels, TEMPERATURE, alpha)
            loss.backward()
            assert leaf.grad is not None
            found |= {f"loss {alpha}": loss.detach(), f"slope {alpha}": leaf.grad}
        return found

    agreed = student.instead(
        "distillation_loss",
        lambda function: (function, facts(function)),
        lambda made: same(made[1], facts(distillation_loss)),
    )
    return agreed[0] if agreed else distillation_loss


def taught(size: Smaller, seed: int, device: torch.device, on_step: OnStep) -> tuple[nn.Module, list[dict[str, float]]]:
    """A small model that learned from labels, or from what the teacher says; and its curve."""
    known, (_, labelled, said) = given(size.base), teacher(size.base, seed, device)
    seed_everything(seed)
    model, loss_of = SmallTransformer(size, known.vocabulary).to(device), teaching(size, device)
    x, y, said = known.x.to(device), known.y.to(device), said.to(device)
    if size.method == OWN:
        x, y, said = (part[labelled.to(device)] for part in (x, y, said))
    elif size.method == HARD:
        y = said.argmax(-1)
    alpha = float(size.method == SOFT)

    def one_step(rule: torch.optim.Optimizer, places: torch.Tensor) -> None:
        take_step(loss_of(model(x[places]), said[places], y[places], TEMPERATURE, alpha), rule)

    return model, learn(size, model, one_step, len(x), seed, 0.01, on_step)


# Runs


def run_seed(
    experiment: Smaller,
    seed: int,
    *,
    precision: str | None = None,
    folder: Path | str | None = None,
    on_step: OnStep = lambda what: None,
) -> Run:
    """Train once, in float32, and answer the test examples.

    The dense model and the teacher of a seed are kept for the arms that come after them in one session.

    Raises:
        ValueError, ImportError: the libraries whose sentences are read are nowhere; says what to do.
    """
    device, began, base = profiles.device(), time.perf_counter(), experiment.base
    known, versions = given(base), {"torch": str(torch.__version__)}
    if not experiment.is_lookup:
        versions["text"] = known.fingerprint
    if experiment.method == DENSE:
        model, _, curve = dense(base, seed, device)
    elif experiment.method in CUT:
        model, masks, own = masked(experiment, seed, device)
        curve = trained(experiment, model, own, masks, seed, device, on_step)
    elif experiment.method == TEACHER:
        model, _, _ = teacher(base, seed, device)
        votes = [answers(Vote([*model.models][: count + 1]), known.test_x, device) for count in range(base.teachers)]
        curve = [
            {"step": (count + 1) * base.teacher_steps, "accuracy": accuracy(some, known.test_y)}
            for count, some in enumerate(votes)
        ]
    else:
        model, curve = taught(experiment, seed, device, on_step)
    logits, labels = answers(model, known.test_x, device), known.test_y
    right = logits.gather(1, labels[:, None])[:, 0]
    others = logits.scatter(1, labels[:, None], -torch.inf).max(1).values
    margins = (UNIT * (right - others).double()).round().long()
    rows: list[Any] = torch.stack([logits.argmax(-1), margins], 1).tolist()
    return run_of(
        experiment, seed, began, device, torch.float32, versions, labels=labels.tolist(), predictions=rows, curve=curve
    )


def sized(experiment: Smaller, seed: int) -> tuple[nn.Module, torch.Tensor, int]:
    """A model of an arm in its final form, on the CPU, test examples to ask it, and how many of its numbers are not 0.

    It is trained as far as its size needs: the weights of masks are cut where the seed's mask cuts, and nothing else is
    learned. For measuring time and size.

    Raises:
        ValueError, ImportError: the libraries whose sentences are read are nowhere; says what to do.
    """
    device, base = profiles.device(), experiment.base
    model: nn.Module
    if experiment.method in CUT:
        model, _, _ = masked(experiment, seed, device)
    elif experiment.method == DENSE:
        model, _, _ = dense(base, seed, device)
    elif experiment.method == TEACHER:
        model, _, _ = teacher(base, seed, device)
    else:
        model = SmallTransformer(experiment, given(base).vocabulary)
    model = copy.deepcopy(model).cpu()
    return model, given(base).test_x, sum(int((part != 0).sum()) for part in model.parameters())
