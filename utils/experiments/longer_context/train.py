"""One run of notebook 10's experiments: what is read, the model, the training loop, and the losses of the test."""

import functools
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from tqdm.auto import tqdm

from data import source
from data.pairs import MADE_UP_WORDS
from utils.experiments import profiles, student
from utils.experiments.experiment import Run
from utils.experiments.longer_context.spec import POINTS, UNIT, Crossing, LongerContext
from utils.experiments.loops import fingerprint, run_of, take_step
from utils.experiments.training import seed_everything

DECIMALS = 4
TEST_SEED = 0  # of the random tokens that all runs are tested on
MADE_UP_LENGTH = 3000  # words
Memories = list[torch.Tensor] | None


class RelativeAttention(nn.Module):
    """Exercise 10.3: causal attention to a segment and a memory, by content and by distance."""

    def __init__(self, d_model: int, n_heads: int):
        super().__init__()
        self.n_heads, made = n_heads, [nn.Linear(d_model, d_model, bias=False) for _ in range(5)]
        self.q_proj, self.k_proj, self.v_proj, self.r_proj, self.out_proj = made
        self.u, self.v = (nn.Parameter(torch.zeros(n_heads, d_model // n_heads)) for _ in range(2))

    def forward(self, x: torch.Tensor, memory: torch.Tensor | None = None) -> torch.Tensor:
        """x (B, T, d), memory (B, M, d) or None -> (B, T, d)."""
        all_states = x if memory is None else torch.cat([memory, x], dim=1)
        (B, T, d), S = x.shape, all_states.size(1)
        angles = torch.arange(S - 1, -1, -1)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)
        table = torch.cat([angles.sin(), angles.cos()], dim=-1).to(x)
        parts = (self.q_proj(x), self.k_proj(all_states), self.v_proj(all_states), self.r_proj(table)[None])
        q, k, v, r = (part.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for part in parts)
        by_distance = F.pad((q + self.v[:, None]) @ r.mT, (1, 0)).reshape(B, self.n_heads, S + 1, T)
        scores = (q + self.u[:, None]) @ k.mT + by_distance[:, :, 1:].reshape(B, self.n_heads, T, S)
        future = torch.ones(T, S, dtype=torch.bool, device=x.device).triu(1 + S - T)
        shares = (scores / (d // self.n_heads) ** 0.5).masked_fill(future, -torch.inf).softmax(-1)
        return self.out_proj((shares @ v).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """Attention and a feed-forward part, each with a residual and a norm after it; the notebook shows it."""

    def __init__(self, attention: Callable[..., nn.Module], size: LongerContext):
        super().__init__()
        d = size.width
        self.attention, self.norm1, self.norm2 = attention(d, size.heads), nn.LayerNorm(d), nn.LayerNorm(d)
        self.feed = nn.Sequential(nn.Linear(d, size.inner), nn.ReLU(), nn.Linear(size.inner, d))

    def forward(self, x: torch.Tensor, memory: torch.Tensor | None = None) -> torch.Tensor:
        """x (B, T, d), memory (B, M, d) or None -> (B, T, d)."""
        x = self.norm1(x + self.attention(x, memory))
        return self.norm2(x + self.feed(x))


class SegmentModel(nn.Module):
    """Exercise 10.5: a model that reads a text segment by segment, and remembers what came into each layer.

    Where `detached` is false, gradients flow into how a memory was made.
    """

    def __init__(self, embedding: nn.Module, layers: list[nn.Module], head: nn.Module, detached: bool = True):
        super().__init__()
        self.detached = detached
        self.embedding, self.head = embedding, head
        self.layers: nn.ModuleList = nn.ModuleList(layers)

    def forward(
        self, tokens: torch.Tensor, memories: Memories = None, mem_len: int = 0
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Tokens (B, T) -> logits (B, T, V), and the memories for the next segment."""
        states, remembered = self.embedding(tokens), []
        before: list[torch.Tensor | None] = [*memories] if memories else [None] * len(self.layers)
        for layer, memory in zip(self.layers, before, strict=True):
            read = states if memory is None else torch.cat([memory, states], dim=1)
            kept = read[:, max(0, read.size(1) - mem_len) :]
            remembered.append(kept.detach() if self.detached else kept)
            states = layer(states, memory)
        return self.head(states), remembered


def assembled(size: LongerContext, attention: Callable[..., nn.Module], whole: Callable[..., nn.Module]) -> nn.Module:
    """A new model of these classes."""
    layers = [Layer(attention, size) for _ in range(size.layers)]
    return whole(nn.Embedding(size.symbols, size.width), layers, nn.Linear(size.width, size.symbols))


def build(size: LongerContext) -> nn.Module:
    """A new model, of the student's RelativeAttention and SegmentModel where they do what the course's do."""
    model = assembled(size, RelativeAttention, SegmentModel)
    kinds: dict[str, Callable[..., nn.Module]] = {"RelativeAttention": RelativeAttention, "SegmentModel": SegmentModel}
    if not student.any_own():
        return model
    with torch.random.fork_rng():
        for name in kinds:
            made = student.instead(
                name,
                lambda kind, name=name: assembled(size, *(kinds | {name: kind}).values()),  # type: ignore[misc]
                lambda found: _same(found, model, size),
            )
            if made is not None:
                kinds[name] = student.own(name) or kinds[name]
        mine = assembled(size, *kinds.values())
    mine.load_state_dict(model.state_dict())
    return mine


def _same(made: nn.Module, model: nn.Module, size: LongerContext) -> bool:
    """Whether two models learn and remember the same, number by number, from two segments."""
    numbers = torch.Generator().manual_seed(0)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    weights = {name: 0.3 * torch.randn(value.shape, generator=numbers) for name, value in before.items()}
    text = torch.randint(size.symbols, (2, 2 * size.length + 1), generator=numbers)
    found = []
    for one in (made, model):
        one.load_state_dict(weights)
        one.zero_grad()
        memories: Memories = None
        for at in (0, size.length):
            logits, memories = one(text[:, at : at + size.length], memories, size.mem_len)
            loss = F.cross_entropy(logits.flatten(0, 1), text[:, at + 1 : at + size.length + 1].flatten())
            loss.backward()
        found.append([logits, *(memories or ()), *(part.grad for _, part in sorted(one.named_parameters()))])
        one.zero_grad()
    model.load_state_dict(before)
    return len(found[0]) == len(found[1]) and all(map(torch.equal, *found))


@dataclass(frozen=True)
class CharacterText:
    """Characters as numbers, to train on and to test on."""

    train: torch.Tensor
    test: torch.Tensor

    @property
    def fingerprint(self) -> str:
        """Eight digits that differ between texts."""
        return fingerprint((self.train, self.test))


@functools.cache
def text(task: str, symbols: int) -> CharacterText:
    """Source text, or made-up words, whose rarer characters are all number 0.

    Raises:
        OSError: the source text is nowhere; says what to do.
    """
    parts = _made_up() if task.startswith("made-up-") else source.train_and_test()
    known = [sign for sign, _ in sorted(Counter(parts[0]).items(), key=lambda pair: (-pair[1], pair[0]))]
    numbers = {sign: place for place, sign in enumerate(known[: symbols - 1], start=1)}
    train, test = (torch.tensor([numbers.get(sign, 0) for sign in part]) for part in parts)
    return CharacterText(train, test)


def _made_up() -> tuple[str, str]:
    """Made-up words, of which the next one follows from the last but for a few."""
    draw, number, words = random.Random(0), 0, []
    for _ in range(MADE_UP_LENGTH):
        number = (7 * number + draw.choice((1, 1, 1, 4))) % len(MADE_UP_WORDS)
        words.append(MADE_UP_WORDS[number])
    cut = MADE_UP_LENGTH * 2 // 3
    return " ".join(words[:cut]), " ".join(words[cut:])


def periodic(size: LongerContext, batch: int, segments: int, generator: torch.Generator) -> torch.Tensor:
    """Random tokens that come again after a period, (batch, tokens): so many segments, and the token after them."""
    base = torch.randint(size.symbols, (batch, size.period), generator=generator)
    count = segments * size.length + 1
    return base.repeat(1, count // size.period + 1)[:, :count]


def segments_of(size: LongerContext, seed: int) -> Iterator[tuple[torch.Tensor, torch.Tensor, bool]]:
    """Inputs and targets (B, T) of each step, and whether a new text begins there."""
    numbers, T = torch.Generator().manual_seed(seed), size.length
    if size.period:
        for step in range(size.steps):
            at = step % size.read
            if not at:
                rows = periodic(size, size.batch, size.read, numbers)
            yield rows[:, at * T : (at + 1) * T], rows[:, at * T + 1 : (at + 1) * T + 1], not at
        return
    train = text(size.task, size.symbols).train
    count = (len(train) - 1) // size.batch // T
    rows = train[: size.batch * count * T].view(size.batch, -1)
    after = train[1 : size.batch * count * T + 1].view(size.batch, -1)
    start = int(torch.randint(count, (1,), generator=numbers))
    for step in range(size.steps):
        at = (start + step) % count
        yield rows[:, at * T : (at + 1) * T], after[:, at * T : (at + 1) * T], not at


def train(
    size: LongerContext, seed: int, device: torch.device, on_step: Callable[[str], None] = lambda what: None
) -> tuple[nn.Module, list[dict[str, float]]]:
    """A trained model, in evaluation mode, and the curve of its training loss: the means of POINTS equal parts."""
    seed_everything(seed)
    if isinstance(size, Crossing):
        return _train_in_groups(size, seed, device, on_step)
    model = build(size).to(device).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=size.lr)
    losses, memories = torch.zeros(size.steps, device=device), None
    for step, (tokens, targets, begins) in enumerate(segments_of(size, seed)):
        memories = None if begins else memories
        logits, memories = model(tokens.to(device), memories, size.mem_len)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.to(device).flatten())
        take_step(loss, optimizer, clipped=model.parameters())
        losses[step] = loss.detach()
        on_step(f"step {step + 1} of {size.steps}")
    means = [part.mean().item() for part in losses.tensor_split(POINTS)]
    return model.eval(), [{"nats": round(mean, DECIMALS)} for mean in means]


def _train_in_groups(
    size: Crossing, seed: int, device: torch.device, on_step: Callable[[str], None]
) -> tuple[nn.Module, list[dict[str, float]]]:
    """As `train`, with one step of the optimiser for several segments, between which gradients cross or not."""
    whole = functools.partial(SegmentModel, detached=not size.cross)
    model = assembled(size, RelativeAttention, whole).to(device).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=size.lr)
    means, memories = torch.zeros(size.steps // size.every, device=device), None
    group: list[torch.Tensor] = []
    for step, (tokens, targets, begins) in enumerate(segments_of(size, seed)):
        memories = None if begins else memories
        if not group and memories:
            memories = [memory.detach() for memory in memories]
        logits, memories = model(tokens.to(device), memories, size.mem_len)
        group.append(F.cross_entropy(logits.flatten(0, 1), targets.to(device).flatten()))
        if len(group) == size.every:
            loss, group = torch.stack(group).mean(), []
            take_step(loss, optimizer, clipped=model.parameters())
            means[step // size.every] = loss.detach()
        on_step(f"step {step + 1} of {size.steps}")
    parts = [part.mean().item() for part in means.tensor_split(POINTS)]
    return model.eval(), [{"nats": round(mean, DECIMALS)} for mean in parts]


def test_texts(size: LongerContext) -> torch.Tensor:
    """The texts that all runs are tested on, (texts, tokens): whole segments, and the token after them.

    Raises:
        ValueError: the text is too short.
    """
    segments = size.warm + size.counted
    if size.period:
        return periodic(size, size.texts, segments, torch.Generator().manual_seed(TEST_SEED))
    held, each = text(size.task, size.symbols).test, segments * size.length
    if len(held) <= size.texts * each:
        raise ValueError(f"the text is too short for {size.texts} tests of {each} characters")
    return torch.stack([held[at * each : (at + 1) * each + 1] for at in range(size.texts)])


@torch.no_grad()
def losses(model: nn.Module, size: LongerContext, mem_len: int, device: torch.device) -> torch.Tensor:
    """The loss of each test text at each place of a segment, the mean over the segments that count, (texts, T)."""
    rows, memories, found = test_texts(size).to(device), None, []
    for at in range(size.warm + size.counted):
        tokens, targets = (rows[:, at * size.length + k :][:, : size.length] for k in (0, 1))
        logits, memories = model(tokens, memories, mem_len)
        found.append(F.cross_entropy(logits.mT, targets, reduction="none").double().cpu())
    return torch.stack(found[size.warm :]).mean(0)


def run_seed(
    experiment: LongerContext,
    seed: int,
    *,
    precision: str | None = None,
    folder: Path | str | None = None,
    on_step: Callable[[str], None] = lambda what: None,
) -> Run:
    """Train once, in float32, and test with the memory that it was trained with.

    Args:
        folder: not used; the source text is that of Python on this machine.

    Raises:
        OSError: the source text is nowhere; says what to do.
    """
    device, began = profiles.device(), time.perf_counter()
    versions: dict[str, str] = {"torch": torch.__version__}
    if not experiment.period:
        versions["text"] = text(experiment.task, experiment.symbols).fingerprint
    model, curve = train(experiment, seed, device, on_step)
    found = losses(model, experiment, experiment.mem_len, device)
    rows: list[Any] = found.round(decimals=DECIMALS).tolist()
    if experiment.period:
        rows = (found * UNIT).round().long().tolist()
    return run_of(experiment, seed, began, device, torch.float32, versions, predictions=rows, curve=curve)


def trained(experiment: LongerContext, seed: int) -> tuple[nn.Module, torch.Tensor]:
    """Train the model of a run again, with a progress bar; it and the first text that it is tested on, (N).

    The model is on the CPU, and in evaluation mode.

    Raises:
        OSError: the source text is nowhere; says what to do.
    """
    with tqdm(total=experiment.steps, desc=f"{experiment.name}, seed {seed}") as bar:
        model, _ = train(experiment, seed, profiles.device(), lambda what: bar.update())
    return model.cpu(), test_texts(experiment)[0]
