"""One run of notebook 09's experiments: sentences, frozen layers, phases, and what is done against forgetting."""

import copy
import functools
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn
from torch.nn import functional as F

from data import encoders, libraries
from utils.experiments import profiles, student
from utils.experiments.experiment import Run
from utils.experiments.forgetting.spec import (
    ADAPTERS,
    ALONE,
    CLASSES,
    EWC,
    HEAD,
    L2_SP,
    MULTI_TASK,
    PHASES,
    TOGETHER,
    Forgetting,
)
from utils.experiments.loops import (
    Frozen,
    adamw_groups,
    chunks_of,
    fingerprint,
    in_precision,
    last_states,
    products_of,
    run_of,
    take_step,
)
from utils.experiments.training import seed_everything

DECIMALS = 3
TEST_BATCH = 60
ASKED = 4  # sentences on which a student's `fisher` is compared with the course's
DECAY = 1e-2  # of the map that is fitted again, on standardised vectors
Weights = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class LibrarySentences:
    """Sentences to learn from and to test on, for each class."""

    pool: list[list[str]]
    test: list[list[str]]

    @property
    def fingerprint(self) -> str:
        """Eight digits that differ between texts."""
        return fingerprint(line for side in (self.pool, self.test) for some in side for line in some)


@functools.cache
def text(task: str, pool: int, test: int) -> LibrarySentences:
    """The sentences of an experiment, read once a session.

    Raises:
        ValueError: as `libraries.load`.
    """
    return LibrarySentences(
        *(libraries.load(task, split, count) for split, count in zip(libraries.SPLITS, (pool, test), strict=True))
    )


def text_of(experiment: Forgetting) -> LibrarySentences:
    """The sentences of an experiment."""
    return text(experiment.task, experiment.pool, experiment.test)


def sentences(experiment: Forgetting, count: int = 1) -> dict[str, list[str]]:
    """The first test sentences of each class, by the library's name."""
    return {name: some[:count] for name, some in zip(libraries.CLASSES, text_of(experiment).test, strict=True)}


# The encoder: frozen layers, whose states are computed once, and those that learn


@functools.cache
def states(
    frozen: Frozen, device: torch.device, precision: torch.dtype
) -> tuple[list[list[torch.Tensor]], list[list[torch.Tensor]]]:
    """What the frozen layers make of each sentence of each class: (tokens, width), on the CPU."""
    known, tokenizer = text(frozen.task, frozen.pool, frozen.test), encoders.tokenizer(frozen.encoder)
    model = encoders.ready_model(frozen.encoder).to(device).eval()
    model.encoder.layer = model.encoder.layer[: frozen.layers]
    found = []
    for side, title in ((known.pool, "learn from"), (known.test, "test")):
        lines = [line for some in side for line in some]
        ids = tokenizer(lines, truncation=True, max_length=frozen.max_len)["input_ids"]
        order = sorted(range(len(lines)), key=lambda place: len(ids[place]))
        rows: list[torch.Tensor] = [torch.empty(0)] * len(lines)
        for chunk in chunks_of(order, 32, f"frozen layers, to {title}", quiet=10):
            batch = padded([torch.tensor(ids[place]) for place in chunk], device)
            real = (batch != 0).long()  # [PAD] is 0 in all of these vocabularies
            read = last_states(model, {"input_ids": batch, "attention_mask": real}, device, precision)
            for place, row in zip(chunk, read.cpu(), strict=True):
                rows[place] = row[: len(ids[place])].clone()
        count = len(side[0])
        found.append([rows[start : start + count] for start in range(0, len(rows), count)])
    return found[0], found[1]


class Adapted(nn.Module):
    """A layer with an adapter for each phase after it: down, GELU, up, added to what went in (Houlsby et al. 2019).

    `up` starts at zero, so that a new adapter changes nothing.
    """

    def __init__(self, layer: nn.Module, width: int, bottleneck: int):
        super().__init__()
        self.layer, self.phase = layer, -1  # -1: none
        self.down = nn.ModuleList(nn.Linear(width, bottleneck) for _ in range(PHASES))
        self.up = nn.ModuleList(nn.Linear(bottleneck, width) for _ in range(PHASES))
        for weight in self.up.parameters():
            nn.init.zeros_(weight)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the layer gives, its states adapted."""
        outputs = self.layer(*args, **kwargs)
        if self.phase < 0:
            return outputs
        several = isinstance(outputs, tuple)
        x = outputs[0] if several else outputs
        x = x + self.up[self.phase](F.gelu(self.down[self.phase](x)))
        return (x, *outputs[1:]) if several else x


class Learner(nn.Module):
    """The layers that learn, the mean over tokens, and one linear head for all classes.

    It reads states (B, T, width) of the frozen layers; a token whose states are all 0 is a pad.
    """

    def __init__(self, experiment: Forgetting):
        super().__init__()
        whole = encoders.ready_model(experiment.encoder)
        width = whole.config.hidden_size
        self.encoder = whole.encoder
        self.encoder.layer = self.encoder.layer[experiment.frozen :]
        if experiment.method == ADAPTERS:
            some = [Adapted(layer, width, experiment.bottleneck) for layer in self.encoder.layer]
            self.encoder.layer = nn.ModuleList(some)
        self.head = nn.Linear(width, CLASSES)
        nn.init.normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head.bias)

    def use(self, phase: int) -> None:
        """Let the adapters of a phase work, -1 for none, and let them and the head learn, nothing else."""
        for name, parameter in self.named_parameters():
            parameter.requires_grad = name.startswith("head") or f"down.{phase}." in name or f"up.{phase}." in name
        for layer in self.modules():
            if isinstance(layer, Adapted):
                layer.phase = phase

    def vectors(self, x: torch.Tensor) -> torch.Tensor:
        """The mean of the last states of each row's tokens: (B, T, width) -> (B, width)."""
        real = (x != 0).any(-1)
        mask = torch.zeros(real.shape, dtype=x.dtype, device=x.device).masked_fill(~real, torch.finfo(x.dtype).min)
        last = self.encoder(x, attention_mask=mask[:, None, None]).last_hidden_state.float()
        weights = real.unsqueeze(-1)
        return (last * weights).sum(1) / weights.sum(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits (B, CLASSES)."""
        return self.head(self.vectors(x))


def padded(rows: Sequence[torch.Tensor], device: torch.device) -> torch.Tensor:
    """Rows (T, ...) of sentences as one tensor (B, T, ...), 0 where there is no token."""
    return nn.utils.rnn.pad_sequence([*rows], batch_first=True).to(device)


# What is done against forgetting


class Reservoir:
    """A sample of all examples that came, each kept with the same chance: 9.5 (Vitter 1985, algorithm R)."""

    def __init__(self, capacity: int, rng: random.Random):
        self.capacity, self.rng = capacity, rng
        self.examples: list[Any] = []
        self.seen = 0

    def add(self, example: Any) -> None:
        """Let one example come."""
        self.seen += 1
        if len(self.examples) < self.capacity:
            self.examples.append(example)
        elif (place := self.rng.randrange(self.seen)) < self.capacity:
            self.examples[place] = example

    def sample(self, n: int) -> list[Any]:
        """So many of the kept ones, without replacement; all if there are fewer."""
        return self.rng.sample(self.examples, min(n, len(self.examples)))


def remember(model: nn.Module) -> dict[str, torch.Tensor]:
    """A copy of the weights as they are: 9.6."""
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


def fisher(model: nn.Module, inputs: torch.Tensor) -> dict[str, torch.Tensor]:
    """The diagonal of the Fisher information: the expected squared gradient of log p(y|x), y as the model says: 9.6.

    inputs: (N, ...). The model is asked in evaluation mode.
    """
    earlier = model.training
    model.eval()
    found = {name: torch.zeros_like(weight) for name, weight in model.named_parameters()}
    for x in inputs.split(1):
        for log_p in model(x).log_softmax(-1)[0]:
            slopes = torch.autograd.grad(log_p, [*model.parameters()], retain_graph=True)
            for name, slope in zip(found, slopes, strict=True):
                found[name] += log_p.exp().detach() * slope**2 / len(inputs)
    model.train(earlier)
    return found


def ewc(model: nn.Module, importance: Weights, anchor: Weights, strength: float) -> torch.Tensor:
    """Half the strength times the squared distances from the anchor, each times its importance: 9.6."""
    named = dict(model.named_parameters())
    parts = [(importance[name] * (named[name] - anchor[name]) ** 2).sum() for name in importance]
    return strength / 2 * sum(parts, start=torch.zeros((), device=parts[0].device))


def l2_sp(model: nn.Module, anchor: Weights, alpha: float, beta: float) -> torch.Tensor:
    """The pull to an anchor, and of what is not in it to zero: 9.7 (Li et al. 2018)."""
    penalty = torch.zeros((), device=next(model.parameters()).device)
    for name, weight in model.named_parameters():
        if name in anchor:
            penalty = penalty + alpha / 2 * (weight - anchor[name]).pow(2).sum()
        else:
            penalty = penalty + beta / 2 * weight.pow(2).sum()
    return penalty


# Training


def orders(experiment: Forgetting, draw: random.Random) -> list[list[list[int]]]:
    """For each phase its batches: places of examples, which are numbered class by class."""
    made = []
    for classes in experiment.phases:
        places = [label * experiment.examples + number for label in classes for number in range(experiment.examples)]
        batches: list[list[int]] = []
        for _ in range(experiment.epochs):
            order = draw.sample(places, len(places))
            batches += [order[start : start + experiment.batch] for start in range(0, len(order), experiment.batch)]
        made.append(batches)
    return made


def replayed(experiment: Forgetting, batches: Sequence[Sequence[Sequence[int]]], seed: int) -> list[list[list[int]]]:
    """For each step of each phase, examples of earlier phases: drawn by the student's `Replay` if it draws the same."""

    def drawn(kind: Callable[..., Any]) -> list[list[list[int]]]:
        memory = kind(experiment.memory, random.Random(f"memory {seed}"))
        made = []
        for phase in batches:
            made.append([[*memory.sample(experiment.replayed)] for _ in phase])
            for place in sorted({place for batch in phase for place in batch}):
                memory.add(place)
        return made

    made = drawn(Reservoir)
    return student.instead("Replay", drawn, made.__eq__) or made


class Pull:
    """What L2-SP and EWC add to the loss once a phase is over, by the student's functions where they agree."""

    def __init__(self, experiment: Forgetting, model: Learner):
        self.experiment, self.model = experiment, model
        self.importance: dict[str, torch.Tensor] = {}  # of all phases that are over
        self.add: Callable[[], torch.Tensor] | None = None

    def remember(self, rows: Sequence[torch.Tensor]) -> None:
        """Pull to the weights as they are from now on. rows: states of sentences of this phase, for EWC."""
        one, anchor = self.experiment, self._anchor()
        if one.method == L2_SP:
            self.add = self._agreed("l2_sp", l2_sp, anchor, one.strength, one.strength)
        else:
            more = self._fisher(padded(rows, self.model.head.weight.device))
            self.importance = {name: self.importance.get(name, 0) + more[name] for name in more}
            self.add = self._agreed("ewc", ewc, self.importance, anchor, one.strength)

    def _anchor(self) -> Weights:
        """What the student's `remember` gives if these are copies of all weights, else what the course's gives."""
        made = remember(self.model)

        def same(found: Weights) -> bool:
            places = {one.data_ptr() for one in self.model.parameters()}
            return _equal(found, made) and not any(one.data_ptr() in places for one in found.values())

        return student.instead("remember", lambda function: function(self.model), same) or made

    def _fisher(self, inputs: torch.Tensor) -> Weights:
        """By the student's `fisher` if it gives the same for a few sentences."""
        agreed = student.instead(
            "fisher",
            lambda function: (function, function(self.model, inputs[:ASKED])),
            lambda made: _equal(made[1], fisher(self.model, inputs[:ASKED])),
        )
        return (agreed[0] if agreed else fisher)(self.model, inputs)

    def _agreed(self, name: str, course: Callable[..., torch.Tensor], *more: Any) -> Callable[[], torch.Tensor]:
        """The student's pull if its value and gradients are the same a little off the anchor, else the course's."""
        if student.own(name) is None:
            return lambda: course(self.model, *more)
        moved, draw = copy.deepcopy(self.model), torch.Generator().manual_seed(0)
        with torch.no_grad():
            for one in moved.parameters():
                one.add_(torch.randn(one.shape, generator=draw).to(one.device), alpha=0.01)

        def facts(function: Callable[..., torch.Tensor]) -> dict[str, torch.Tensor]:
            loss = function(moved, *more)
            slopes = torch.autograd.grad(loss, [*moved.parameters()])
            return {"loss": loss.detach(), **{str(place): one for place, one in enumerate(slopes)}}

        agreed = student.instead(
            name, lambda function: (function, facts(function)), lambda made: _equal(made[1], facts(course))
        )
        chosen = agreed[0] if agreed else course
        return lambda: chosen(self.model, *more)


def _equal(found: Weights, wanted: Weights) -> bool:
    """Whether two dicts hold the same names and the same numbers."""
    return {*found} == {*wanted} and all(torch.equal(found[name], wanted[name]) for name in wanted)


@dataclass(frozen=True)
class Given:
    """What a run learns from and is tested on: states of sentences with their classes, in the order of the classes."""

    training: list[torch.Tensor]
    labels: torch.Tensor  # (examples), of `training`
    test: list[torch.Tensor]


def given(experiment: Forgetting, seed: int, device: torch.device, precision: torch.dtype) -> Given:
    """The states of the sentences that a seed draws, and of all test sentences."""
    one, draw = experiment, random.Random(seed)
    frozen = Frozen(one.task, one.encoder, one.frozen, one.pool, one.test, max_len=one.max_len)
    pool, test = states(frozen, device, precision)
    training = [row for some in pool for row in draw.sample(some, one.examples)]
    labels = torch.arange(CLASSES).repeat_interleave(one.examples)
    return Given(training, labels, [row for some in test for row in some])


def learn(
    experiment: Forgetting,
    model: Learner,
    known: Given,
    seed: int,
    device: torch.device,
    precision: torch.dtype,
) -> Iterator[tuple[int, bool]]:
    """Train `model` in place, phase by phase; gives after each step its phase, and whether that is over now."""
    batches = orders(experiment, random.Random(f"order {seed}"))
    again = replayed(experiment, batches, seed) if experiment.memory else [[[]] * len(phase) for phase in batches]
    pull, draw = Pull(experiment, model), random.Random(f"observed {seed}")
    start = copy.deepcopy(model.state_dict()) if experiment.method == ALONE else {}
    for phase, classes in enumerate(experiment.phases):
        if experiment.method in (ADAPTERS, HEAD):
            model.use(phase)
        elif experiment.method == ALONE:
            model.load_state_dict(start)
            model.requires_grad_(True)  # a head that is fitted again has stopped that
        learning = [one for one in model.parameters() if one.requires_grad]
        # Decay would move the rows of a head that earlier phases learned, although adapters leave them alone.
        spared = [model.head.weight] if experiment.method == ADAPTERS else []
        groups = adamw_groups(learning, experiment.weight_decay, spared)
        optimizer = torch.optim.AdamW(groups, lr=experiment.lr, fused=True)
        total = len(batches[phase])
        schedule = transformers.get_linear_schedule_with_warmup(optimizer, total // 10, total)
        for step, (new, old) in enumerate(zip(batches[phase], again[phase], strict=True), start=1):
            model.train()
            places = [*new, *old]
            x, y = padded([known.training[place] for place in places], device), known.labels[places].to(device)
            with in_precision(device, precision):
                logits = model(x)
            loss = loss_of(logits.float(), y, classes, experiment.method)
            if pull.add is not None:
                loss = loss + pull.add()
            take_step(loss, optimizer, schedule, clipped=learning)
            if step == total and experiment.method in (L2_SP, EWC) and phase < len(experiment.phases) - 1:
                places = sorted({place for batch in batches[phase] for place in batch})
                observed = draw.sample(places, experiment.observed)
                pull.remember([known.training[place] for place in observed])
            yield phase, step == total


def loss_of(logits: torch.Tensor, labels: torch.Tensor, classes: Sequence[int], method: str) -> torch.Tensor:
    """Cross-entropy among all classes, or among those of a head of its own.

    Args:
        classes: of the phase.
    """
    if method in (ADAPTERS, ALONE):
        return F.cross_entropy(logits[:, classes[0] : classes[-1] + 1], labels - classes[0])
    if method == MULTI_TASK:
        phases = torch.arange(CLASSES, device=labels.device) // TOGETHER
        logits = logits.masked_fill(phases != (labels // TOGETHER)[:, None], -torch.inf)
    return F.cross_entropy(logits, labels)


# Tests


@torch.no_grad()
def vectors_of(
    model: Learner, rows: Sequence[torch.Tensor], device: torch.device, precision: torch.dtype
) -> torch.Tensor:
    """What the head reads of each sentence, (sentences, width), on the CPU."""
    model.eval()
    order = sorted(range(len(rows)), key=lambda place: len(rows[place]))
    made = torch.empty(len(rows), model.head.in_features)
    for start in range(0, len(order), TEST_BATCH):
        chunk = order[start : start + TEST_BATCH]
        with in_precision(device, precision):
            made[chunk] = model.vectors(padded([rows[place] for place in chunk], device)).cpu()
    return made


@torch.no_grad()
def test(
    experiment: Forgetting, model: Learner, known: Given, device: torch.device, precision: torch.dtype
) -> torch.Tensor:
    """Logits (sentences, CLASSES) of the test sentences; with adapters those of a phase are read with its own ones."""
    weight, bias = model.head.weight.cpu(), model.head.bias.cpu()
    if experiment.method != ADAPTERS:
        return vectors_of(model, known.test, device, precision) @ weight.T + bias
    parts = []
    for phase, classes in enumerate(experiment.phases):
        model.use(phase)
        parts.append(vectors_of(model, known.test, device, precision) @ weight[classes].T + bias[classes])
    return torch.cat(parts, 1)


def fitted_again(model: Learner, known: Given, device: torch.device, precision: torch.dtype) -> list[int]:
    """The classes that a new linear map gives the test sentences; it is fitted to the training sentences of all phases.

    It reads the encoder as it is, without adapters: what the encoder still tells apart.
    """
    model.use(-1)
    training, tested = (vectors_of(model, rows, device, precision).double() for rows in (known.training, known.test))
    mean, spread = training.mean(0), training.std(0) + 1e-6
    training, tested = ((rows - mean) / spread for rows in (training, tested))
    weight, bias = (
        torch.zeros(*shape, dtype=torch.double, requires_grad=True) for shape in ((CLASSES, len(mean)), (CLASSES,))
    )
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=60, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(training @ weight.T + bias, known.labels) + DECAY / 2 * weight.square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return (tested @ weight.T + bias).argmax(1).tolist()


def own(logits: torch.Tensor) -> torch.Tensor:
    """The best class of each test sentence among those of its own phase; the sentences stand class by class."""
    first = TOGETHER * torch.arange(PHASES).repeat_interleave(len(logits) // PHASES)  # class of each one's phase
    return first + logits.gather(1, first[:, None] + torch.arange(TOGETHER)).argmax(1)


def margins(logits: torch.Tensor) -> list[float]:
    """How far the right class of each test sentence is ahead of the other one of its phase, in nats."""
    labels = torch.arange(CLASSES).repeat_interleave(len(logits) // CLASSES)
    right, other = (logits.gather(1, one[:, None])[:, 0] for one in (labels, labels + 1 - 2 * (labels % TOGETHER)))
    return [round(one, DECIMALS) for one in (right - other).tolist()]


def learned(
    experiment: Forgetting,
    known: Given,
    seed: int,
    device: torch.device,
    precision: torch.dtype,
    on_step: Callable[[str], None] = lambda what: None,
) -> tuple[list[torch.Tensor], list[int], Learner]:
    """Train once: the logits of the test sentences before anything and after each phase, the classes that a head
    fitted again gives them, and the model.

    Where each phase has an encoder of its own, its columns and its sentences are read with that one.
    """
    seed_everything(seed)
    model = Learner(experiment).to(device)
    tables, again = [test(experiment, model, known, device, precision)], [0] * len(known.test)
    each, alone = len(known.test) // len(experiment.phases), experiment.method == ALONE
    for phase, over in learn(experiment, model, known, seed, device, precision):
        if not over:
            continue
        table, classes = test(experiment, model, known, device, precision), experiment.phases[phase]
        if alone:
            mine, table = table, tables[-1].clone()
            table[:, classes] = mine[:, classes]
        tables.append(table)
        if alone or phase == len(experiment.phases) - 1:
            found = fitted_again(model, known, device, precision)
            here = slice(phase * each, (phase + 1) * each) if alone else slice(None)
            again[here] = found[here]
        on_step(f"phase {phase + 1} of {len(experiment.phases)}")
    return tables, again, model


def run_seed(
    experiment: Forgetting,
    seed: int,
    *,
    precision: str | None = None,
    folder: Path | str | None = None,
    on_step: Callable[[str], None] = lambda what: None,
) -> Run:
    """Train once, and test before anything and after each phase; see `Forgetting` for what a run holds.

    Args:
        folder: not used; the sentences are those of libraries on this machine.

    Raises:
        ValueError: a library is not installed, or has too few sentences.
        ImportError, OSError: the encoder is nowhere; says what to do.
    """
    device = profiles.device()
    products = products_of(experiment, device, precision)
    known = given(experiment, seed, device, products)
    began = time.perf_counter()
    tables, again, _ = learned(experiment, known, seed, device, products, on_step)
    columns = [table.argmax(1).tolist() for table in tables] + [own(table).tolist() for table in tables]
    each = len(experiment.gold()) // len(experiment.phases)
    then = [one for phase, table in enumerate(tables[1:]) for one in margins(table)[phase * each :][:each]]
    columns += [again, then, margins(tables[-1])]
    text = text_of(experiment).fingerprint
    versions = {"torch": torch.__version__, "transformers": transformers.__version__, "text": text}
    return run_of(
        experiment,
        seed,
        began,
        device,
        products,
        versions,
        labels=experiment.gold(),
        predictions=[[*row] for row in zip(*columns, strict=True)],
        curve=[{"examples": count} for count in experiment.seen],
    )


def fall(experiment: Forgetting, seed: int, steps: int = 10) -> dict[str, list[float]]:
    """Accuracy, from 0 to 1, at the first phase's test sentences: when it is over, and after each step of the second.

    A model is trained again up to there, in one of the arms without adapters. The lists, of one head and of own heads,
    have `steps` + 1 entries.

    Raises:
        ImportError, OSError: the encoder is nowhere; says what to do.
    """
    device = profiles.device()
    products = products_of(experiment, device)
    known = given(experiment, seed, device, products)
    count = TOGETHER * experiment.test
    first, labels = replace(known, test=known.test[:count]), torch.tensor(experiment.gold()[:count])
    seed_everything(seed)
    model = Learner(experiment).to(device)
    shares: dict[str, list[float]] = {"one head": [], "own head": []}
    for phase, over in learn(experiment, model, known, seed, device, products):
        if over or phase:
            logits = test(experiment, model, first, device, products)
            for name, part in zip(shares, (logits, logits[:, :TOGETHER]), strict=True):
                shares[name].append((part.argmax(1) == labels).double().mean().item())
        if len(shares["one head"]) > steps:
            break
    return shares
