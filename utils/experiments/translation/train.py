"""One run of notebook 13's experiments: the sentences, the model with or without a BERT, training, and translations."""

import copy
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from data import encoders, parallel
from data.parallel import Pair
from utils.experiments import profiles, student
from utils.experiments.experiment import DIGITS, Run
from utils.experiments.loops import Frozen, chunks_of, fingerprint, last_states, run_of, take_step
from utils.experiments.training import seed_everything
from utils.experiments.translation.spec import (
    DECODINGS,
    GREEDY,
    MANY,
    METRICS,
    ORDERS,
    PENALISED,
    PLAIN,
    POINTS,
    TRANSLATOR,
    Translation,
    experiments,
)

PAD, BOS, EOS, UNKNOWN = range(4)
VOCABULARY = 8000  # words of a language that occur twice or more, at most so many of them
HIDDEN = -1e4  # a score of what is never written
KEPT = 60  # models
WARM = 0.15  # of the steps, in which the rate grows
OnStep = Callable[[str], None]
Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
Pieces = tuple[list[int], list[int]]
Step = Callable[[list[list[int]]], torch.Tensor]


# What is read


@dataclass(frozen=True)
class SentencePairs:
    """Pairs to learn from and to test on."""

    pool: list[Pair]
    test: list[Pair]

    @property
    def fingerprint(self) -> str:
        """Eight digits that differ between texts."""
        return fingerprint(" ".join(words) for pair in (*self.pool, *self.test) for words in pair)


@cache
def text(task: str, language: str, pool: int, test: int, folder: Path | str | None = None) -> SentencePairs:
    """The pairs of an experiment, read once a session.

    Raises:
        ValueError, FileNotFoundError: as `parallel.load`.
    """
    return SentencePairs(
        parallel.load(task, "train", pool, language, folder), parallel.load(task, "test", test, language, folder)
    )


class Words:
    """Numbers of a language's words: those that occur twice or more in some sentences; all others are UNKNOWN."""

    def __init__(self, sentences: Sequence[Sequence[str]]):
        counts = Counter(word for words in sentences for word in words)
        often = sorted((word for word in counts if counts[word] > 1), key=lambda word: (-counts[word], word))
        self.words = ["<pad>", "<bos>", "<eos>", "<unknown>", *often[:VOCABULARY]]
        self.numbers = dict(zip(self.words, range(len(self.words)), strict=True))

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, words: Sequence[str]) -> list[int]:
        """The numbers of words."""
        return [self.numbers.get(word, UNKNOWN) for word in words]

    def decode(self, numbers: Sequence[int]) -> list[str]:
        """The words of numbers."""
        return [self.words[number] for number in numbers]


def frozen_of(size: Translation, folder: Path | str | None = None) -> Frozen:
    """What decides the states that an arm attends to."""
    return Frozen(
        size.task, size.encoder, size.state, size.pool, size.test, size.start, language=size.language, folder=folder
    )


@lru_cache(maxsize=8)
def states(frozen: Frozen, device: torch.device) -> dict[tuple[str, ...], torch.Tensor]:
    """A state of the frozen encoder for each English sentence, (pieces, width) on the CPU.

    Raises:
        Those of `encoders.folder`; OSError: neither the hub nor its cache has it.
    """
    known = text(frozen.task, frozen.language, frozen.pool, frozen.test, frozen.folder)
    cutter = encoders.tokenizer(frozen.encoder)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = encoders.ready_model(frozen.encoder)
        if frozen.start == "random":
            model = type(model)(model.config, add_pooling_layer=False)
    model.to(device).eval()
    model.encoder.layer = model.encoder.layer[: frozen.layers]
    sentences = sorted({tuple(words) for words, _ in (*known.pool, *known.test)}, key=lambda words: (len(words), words))
    found = {}
    for chunk in chunks_of(sentences, 64, f"state {frozen.layers} of {frozen.encoder}", quiet=4):
        read = cutter([" ".join(words) for words in chunk], padding=True, truncation=True, max_length=40,
                      return_tensors="pt")  # fmt: skip
        rows = last_states(model, read, device, torch.float32).cpu()
        for words, row, real in zip(chunk, rows, read["attention_mask"], strict=True):
            found[words] = row[real.bool()].clone()
    return found


# What exercises ask for, as the course has it


def translation_batch(pairs: Sequence[Pieces], bos: int, eos: int, pad: int) -> Batch:
    """Exercise 13.3: sources, what the decoder reads, and what it should say."""

    def table(rows: Sequence[list[int]]) -> torch.Tensor:
        width = max(map(len, rows))
        return torch.tensor([[*row, *[pad] * (width - len(row))] for row in rows])

    sources, targets = zip(*pairs, strict=True)
    said = [[*words, eos] for words in targets]
    return table([[*words, eos] for words in sources]), table([[bos, *words[:-1]] for words in said]), table(said)


def drop_net(
    own: torch.Tensor, bert: torch.Tensor, p: float, training: bool, generator: torch.Generator
) -> torch.Tensor:
    """Exercise 13.8: one of two parts, or their mean."""
    chance = torch.rand((), generator=generator).item() if training else math.nan
    if chance < p / 2:
        return own
    return bert if chance >= 1 - p / 2 else 0.5 * (own + bert)


def beam_search(step: Step, bos: int, eos: int, beams: int, max_len: int, alpha: float) -> tuple[list[int], float]:
    """Exercise 13.6: the best finished hypothesis and its score."""
    going: list[tuple[list[int], float]] = [([], 0.0)]
    ended: list[tuple[list[int], float]] = []
    for length in range(1, max_len + 1):
        scores = step([[bos, *words] for words, _ in going]).double()
        totals = scores + torch.tensor([total for _, total in going], dtype=torch.double)[:, None].to(scores.device)
        best = totals.flatten().topk(min(beams, totals.numel()))
        rows, above = going, ((5 + length) / 6) ** alpha
        going = []
        for total, place in zip(best.values.tolist(), best.indices.tolist(), strict=True):
            row, token = divmod(place, scores.size(-1))
            words = rows[row][0]
            if token == eos or length == max_len:
                ended.append((words if token == eos else [*words, token], total / above))
            else:
                going.append(([*words, token], total))
        if not going or len(ended) >= beams:
            break
    return max(ended, key=lambda one: one[1])


# The model


class Attention(nn.Module):
    """Queries of x, keys and values of something else; keeps its weights of the last call where it is asked to."""

    def __init__(self, width: int, heads: int, read: int):
        super().__init__()
        self.heads, self.shown = heads, False
        self.q, self.k, self.v, self.o = (nn.Linear(size, width) for size in (width, read, read, width))
        self.weights: torch.Tensor | None = None

    def forward(self, x: torch.Tensor, read: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        """X (B, T, width), read (B, S, its width), seen (B, 1 or T, S) -> (B, T, width)."""
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.q(x), self.k(read), self.v(read))
        )
        if self.shown:
            scores = (q @ k.mT * q.size(-1) ** -0.5).masked_fill(~seen[:, None], -torch.inf)
            self.weights = scores.softmax(-1).mean(1)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=seen[:, None])
        return self.o(mixed.transpose(1, 2).flatten(-2))


class Mixed(nn.Module):
    """What a layer attends to: its own, and a BERT where there is one, joined by drop-net (13.7 and 13.8)."""

    def __init__(self, size: Translation, bert_width: int, drop: Callable[..., torch.Tensor]):
        super().__init__()
        self.own = Attention(size.width, size.heads, size.width)
        self.bert = Attention(size.width, size.heads, bert_width) if bert_width else None
        self.p, self.drop = size.drop_net, drop

    def forward(self, x: torch.Tensor, read: torch.Tensor, seen: torch.Tensor, bert: Any) -> torch.Tensor:
        """As `Attention`; bert: states and which of them are seen, or None."""
        own = self.own(x, read, seen)
        return own if self.bert is None else self.drop(own, self.bert(x, *bert), self.p, self.training)


class Layer(nn.Module):
    """A post-norm layer of the encoder, or of the decoder, whose self-attention is its own."""

    def __init__(self, size: Translation, decodes: bool, bert_width: int, drop: Callable[..., torch.Tensor]):
        super().__init__()
        self.past = Attention(size.width, size.heads, size.width) if decodes else None
        self.mixed = Mixed(size, bert_width, drop)
        self.feed = nn.Sequential(
            nn.Linear(size.width, 2 * size.width), nn.ReLU(), nn.Linear(2 * size.width, size.width)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(size.width) for _ in range(2 + decodes))
        self.dropout = nn.Dropout(size.dropout)

    def forward(self, x: torch.Tensor, memory: Any, seen: torch.Tensor, bert: Any) -> torch.Tensor:
        """X (B, T, width); memory: what a layer of the decoder reads, None in the encoder."""
        first, *others = self.norms
        if self.past is not None:
            causal = torch.ones(x.size(1), x.size(1), dtype=torch.bool, device=x.device).tril()[None]
            x = first(x + self.dropout(self.past(x, x, causal)))
            first, *others = others
        x = first(x + self.dropout(self.mixed(x, x if memory is None else memory, seen, bert)))
        return others[0](x + self.dropout(self.feed(x)))


class Translator(nn.Module):
    """Encoder and decoder, each with its own table of words; the decoder's is its output too."""

    def __init__(
        self, size: Translation, sources: int, targets: int, bert_width: int, drop: Callable[..., torch.Tensor]
    ):
        super().__init__()
        self.source, self.target = nn.Embedding(sources, size.width), nn.Embedding(targets, size.width)
        for table in (self.source, self.target):
            nn.init.normal_(table.weight, std=size.width**-0.5)
        self.encoder, self.decoder = (
            nn.ModuleList(Layer(size, decodes, bert_width, drop) for _ in range(size.layers))
            for decodes in (False, True)
        )
        self.dropout, self.width = nn.Dropout(size.dropout), size.width

    def placed(self, table: nn.Embedding, tokens: torch.Tensor) -> torch.Tensor:
        """Rows of words with sines and cosines of their places."""
        rates = 1e4 ** (-torch.arange(0, self.width, 2, device=tokens.device) / self.width)
        angles = torch.arange(tokens.size(1), device=tokens.device)[:, None] * rates
        places = torch.cat([angles.sin(), angles.cos()], -1)
        return self.dropout(table(tokens) * math.sqrt(self.width) + places)

    def encode(self, sources: torch.Tensor, bert: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Sources (B, S) -> the encoder's states (B, S, width), and which are not padding (B, 1, S)."""
        seen, x = (sources != PAD)[:, None], self.placed(self.source, sources)
        for layer in self.encoder:
            x = layer(x, None, seen, bert)
        return x, seen

    def decode(self, tokens: torch.Tensor, memory: torch.Tensor, seen: torch.Tensor, bert: Any) -> torch.Tensor:
        """What was said (B, T) -> logits (B, T, words) of what comes next."""
        x = self.placed(self.target, tokens)
        for layer in self.decoder:
            x = layer(x, memory, seen, bert)
        return x @ self.target.weight.T


@dataclass
class Trained:
    """A model with what it needs to translate."""

    size: Translation
    model: Translator
    sources: Words
    targets: Words
    bert: dict[tuple[str, ...], torch.Tensor]
    device: torch.device

    def bert_of(self, sentences: Sequence[Sequence[str]]) -> Any:
        """The BERT's states of sentences (B, L, width), and which are not padding (B, 1, L); None without a BERT."""
        if not self.size.encoder:
            return None
        rows = [self.bert[tuple(words)] for words in sentences]
        lengths = torch.tensor([*map(len, rows)])
        padded = nn.utils.rnn.pad_sequence(rows, batch_first=True).float()
        seen = torch.arange(padded.size(1)) < lengths[:, None]
        return padded.to(self.device), seen[:, None].to(self.device)

    def on_cpu(self) -> "Trained":
        """A copy on the CPU, where a small model translates sentence by sentence faster than on a GPU."""
        return replace(self, model=copy.deepcopy(self.model).cpu(), device=torch.device("cpu"))

    def numbers(self, pairs: Sequence[Pair]) -> list[Pieces]:
        """Pairs of numbers of words."""
        return [(self.sources.encode(words), self.targets.encode(other)) for words, other in pairs]

    def batch(self, pairs: Sequence[Pair], make: Callable[..., Batch] = translation_batch) -> tuple[Batch, Any]:
        """What is read of pairs."""
        source, said, wanted = (part.to(self.device) for part in make(self.numbers(pairs), BOS, EOS, PAD))
        return (source, said, wanted), self.bert_of([words for words, _ in pairs])

    def stepper(self, words: Sequence[str]) -> Step:
        """For one sentence, what gives log-probabilities of the next word after some beginnings, (k, words)."""
        source = torch.tensor([[*self.sources.encode(words), EOS]], device=self.device)
        bert = self.bert_of([words])
        memory, seen = self.model.encode(source, bert)

        @torch.no_grad()
        def step(beginnings: list[list[int]]) -> torch.Tensor:
            said, count = torch.tensor(beginnings, device=self.device), len(beginnings)
            again = None if bert is None else tuple(part.expand(count, -1, -1) for part in bert)
            logits = self.model.decode(said, memory.expand(count, -1, -1), seen.expand(count, -1, -1), again)[:, -1]
            logits[:, [PAD, BOS, UNKNOWN]] = HIDDEN
            return logits.float().log_softmax(-1).cpu()

        return step


# Training


def epochs(pairs: Sequence[Pair], batch: int, draw: random.Random) -> Iterator[list[Pair]]:
    """Batches without end, sentences of similar length together."""
    while True:
        order, chunks = draw.sample(list(pairs), len(pairs)), []
        for start in range(0, len(order), 20 * batch):
            near = sorted(order[start : start + 20 * batch], key=lambda pair: len(pair[0]))
            chunks += [near[place : place + batch] for place in range(0, len(near), batch)]
        draw.shuffle(chunks)
        yield from chunks


_kept: dict[tuple[Translation, int], Trained] = {}  # the models of this session without their names, the last KEPT


def trained_once(size: Translation, seed: int, device: torch.device, folder: Path | str | None = None) -> Trained:
    """The model of this configuration that was trained in this session, whatever its name was; else it is trained."""
    return _kept.get((replace(size, name=""), seed)) or train(size, seed, device, folder)[0]


def translator_states(
    size: Translation, seed: int, device: torch.device, folder: Path | str | None = None
) -> dict[tuple[str, ...], torch.Tensor]:
    """The last states of TRANSLATOR for each English sentence, (words and the end, width) on the CPU."""
    known = text(size.task, size.language, size.pool, size.test, folder)
    reader, found = trained_once(size.translator, seed, device, folder), {}
    for pairs in chunks_of([*known.pool, *known.test], 200, "states of the translator", quiet=100):
        (source, _, _), _ = reader.batch(pairs)
        with torch.no_grad():
            rows, seen = reader.model.encode(source, None)
        for (words, _), row, real in zip(pairs, rows.cpu(), seen[:, 0].cpu(), strict=True):
            found[tuple(words)] = row[real].clone()
    return found


def train(
    size: Translation,
    seed: int,
    device: torch.device,
    folder: Path | str | None = None,
    on_step: OnStep = lambda what: None,
) -> tuple[Trained, list[dict[str, float]]]:
    """Train once: what translates, and the training losses."""
    known, draw = text(size.task, size.language, size.pool, size.test, folder), random.Random(seed)
    pairs = draw.sample(known.pool, size.examples)
    first = trained_once(size.first, seed, device, folder) if size.first_steps else None
    bert: dict[tuple[str, ...], torch.Tensor] = {}
    if size.encoder == TRANSLATOR:
        bert = translator_states(size, seed, device, folder)
    elif size.encoder:
        bert = states(frozen_of(size, folder), device)
    own = Functions()
    chance = torch.Generator().manual_seed(seed)
    seed_everything(seed)
    sources, targets = Words([words for words, _ in pairs]), Words([other for _, other in pairs])
    bert_width = next(iter(bert.values())).size(1) if bert else 0
    model = Translator(size, len(sources), len(targets), bert_width, lambda *given: own.drop_net(*given, chance)).to(
        device
    )
    trained = Trained(size, model, sources, targets, bert, device)
    if first is not None:
        draw = random.Random(f"continued {seed}")
        left = model.load_state_dict(first.model.state_dict(), strict=False)
        assert not left.unexpected_keys and all(".bert." in name for name in left.missing_keys)
    rule = torch.optim.Adam(model.parameters(), size.lr, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(rule, size.lr, total_steps=size.steps, pct_start=WARM)
    curve, losses, batches = [], [], epochs(pairs, size.batch, draw)
    model.train()
    for number in range(1, size.steps + 1):
        (source, said, wanted), read = trained.batch(next(batches), own.translation_batch)
        logits = model.decode(said, *model.encode(source, read), read)
        loss = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=PAD, label_smoothing=size.smoothing)
        take_step(loss, rule, schedule, clipped=model.parameters())
        losses.append(loss.detach())
        if number % (size.steps // POINTS) == 0:
            curve.append({"step": number, "train_loss": round(torch.stack(losses).mean().item(), DIGITS)})
            losses = []
            on_step(f"step {number} of {size.steps}")
    model.eval()
    if len(_kept) >= KEPT:
        del _kept[next(iter(_kept))]
    _kept[replace(size, name=""), seed] = trained
    return trained, curve


class Functions:
    """The functions of exercises 13.3, 13.6 and 13.8 that a run uses: the student's where they give the same."""

    def __init__(self) -> None:
        self.translation_batch: Callable[..., Batch] = translation_batch
        self.beam_search: Callable[..., tuple[list[int], float]] = beam_search
        self.drop_net: Callable[..., torch.Tensor] = drop_net
        if not student.any_own():
            return
        for name, tried in (
            ("translation_batch", _batches),
            ("beam_search", _searches),
            ("drop_net", _draws),
        ):
            wanted = tried(getattr(self, name))
            agreed = student.instead(
                name,
                lambda function, tried=tried: (function, tried(function)),  # type: ignore[misc]
                lambda made, wanted=wanted: same(made[1], wanted),  # type: ignore[misc]
            )
            if agreed:
                setattr(self, name, agreed[0])


def same(found: Sequence[Any], wanted: Sequence[Any]) -> bool:
    """Whether two rows hold the same tensors, lists and numbers, of the same types."""
    return len(found) == len(wanted) and all(
        torch.equal(one, other) and one.dtype is other.dtype if isinstance(other, torch.Tensor) else one == other
        for one, other in zip(found, wanted, strict=True)
    )


def _batches(function: Callable[..., Batch]) -> list[torch.Tensor]:
    """What a translation_batch gives for some pairs."""
    every: list[list[Pieces]] = [[([5, 6, 7], [8]), ([9], [4, 5])], [([], [6])]]
    return [part for some in every for part in function(some, BOS, EOS, PAD)]


def _searches(function: Callable[..., Any]) -> list[Any]:
    """What a beam_search finds in some tables."""
    found: list[Any] = []
    for number in range(6):
        table = torch.randn(9, 9, generator=torch.Generator().manual_seed(number)).log_softmax(-1)
        for beams, alpha in ((1, 0.0), (4, 0.0), (4, 1.0)):
            words, score = function(
                lambda some, table=table: table[torch.tensor([sum(row) % 9 for row in some])], BOS, EOS, beams, 7, alpha
            )
            found += [list(words), round(float(score), 4)]
    return found


def _draws(function: Callable[..., torch.Tensor]) -> list[torch.Tensor]:
    """What a drop_net gives, draw after draw."""
    own, bert = torch.ones(2, 3), torch.full((2, 3), 3.0)
    found = []
    for p in (0.0, 0.5, 1.0):
        chance = torch.Generator().manual_seed(1)
        found += [function(own, bert, p, training, chance) for training in (True, False) for _ in range(30)]
    return found


# Runs


def matches(words: Sequence[str], reference: Sequence[str]) -> list[int]:
    """How many n-grams of a translation its reference has, each at most as often as there, n from 1 to ORDERS."""
    found = []
    for n in range(1, ORDERS + 1):
        here, there = (
            Counter(tuple(row[place : place + n]) for place in range(len(row) - n + 1)) for row in (words, reference)
        )
        found.append((here & there).total())
    return found


def searched(trained: Trained, way: str, own: Functions) -> Callable[[Sequence[str]], list[str]]:
    """What translates a sentence in one of DECODINGS."""
    size = trained.size
    beams, alpha = 1 if way == GREEDY else size.beams, size.alpha if way == PENALISED else 0.0

    def translate(words: Sequence[str]) -> list[str]:
        numbers, _ = own.beam_search(trained.stepper(words), BOS, EOS, beams, size.longest, alpha)
        return trained.targets.decode(numbers)

    return translate


@torch.no_grad()
def losses_of(trained: Trained, pairs: Sequence[Pair]) -> list[float]:
    """The summed loss of each reference, its end included, in nats."""
    found = []
    for start in range(0, len(pairs), 50):
        (source, said, wanted), read = trained.batch(pairs[start : start + 50])
        logits = trained.model.decode(said, *trained.model.encode(source, read), read).float()
        each = F.cross_entropy(logits.transpose(1, 2), wanted, ignore_index=PAD, reduction="none")
        found += each.double().sum(1).tolist()
    return found


def looked(size: Translation, seed: int, place: int) -> tuple[list[str], list[str], Any]:
    """Of a test sentence: its words, its translation, and the weights (words, source words) of cross-attention."""
    trained = trained_once(size, seed, profiles.device())
    words, _ = text(size.task, size.language, size.pool, size.test).test[place]
    with torch.no_grad():
        found = searched(trained, PENALISED, Functions())(words)
    attention: Any = trained.model.decoder[-1]
    attention = attention.mixed.own
    attention.shown = True
    with torch.no_grad():
        trained.stepper(words)([[BOS, *trained.targets.encode(found)]])
    attention.shown = False
    return [*words, "<eos>"], [*found, "<eos>"], attention.weights[0].cpu().numpy()


def reachable(size: Translation, seed: int) -> tuple[float, float]:
    """The share of the references' words that a model of this seed can write, and the BLEU of these words alone.

    A model writes words that occur twice or more among its own pairs. So no encoder brings it above this BLEU, unless
    it is lucky with words that it writes instead.
    """
    known = text(size.task, size.language, size.pool, size.test)
    pairs = random.Random(seed).sample(known.pool, size.examples)
    written, total, sums = Words([other for _, other in pairs]).numbers, 0, np.zeros(2 + 2 * ORDERS)
    for _, reference in known.test:
        words = [word for word in reference if word in written]
        counts = [max(0, len(words) - n) for n in range(ORDERS)]
        sums += [len(reference), len(words), *matches(words, reference), *counts]
        total += len(reference)
    return float(sums[1]) / total, float(METRICS[0].value(sums))


def attention_maps(seed: int, place: int = 0) -> dict[str, tuple[list[str], list[str], Any]]:
    """Of a test sentence, for the arms without a BERT: source, translation, and where each of its words looked.

    The weights (words, source words), an array, are those of cross-attention in the last layer, the mean over heads;
    both ends are words too. A model that was not trained in this session is trained now.
    """
    arms = experiments()
    return {name: looked(arms[name], seed, place) for name in (MANY, PLAIN)}


def run_seed(
    experiment: Translation,
    seed: int,
    *,
    precision: str | None = None,
    folder: Path | str | None = None,
    on_step: OnStep = lambda what: None,
) -> Run:
    """Train once, in float32, and translate the test sentences in every way.

    Raises:
        Those of `parallel.load` and of `encoders.folder`; OSError: neither the hub nor its cache has the encoder.
    """
    device, began = profiles.device(), time.perf_counter()
    known = text(experiment.task, experiment.language, experiment.pool, experiment.test, folder)
    trained, curve = train(experiment, seed, device, folder, on_step)
    own = Functions()
    rows: list[list[Any]] = [
        [round(loss, DIGITS), len(reference)]
        for loss, (_, reference) in zip(losses_of(trained, known.test), known.test, strict=True)
    ]
    with torch.no_grad():
        reader = trained.on_cpu()
        for way in DECODINGS:
            translate = searched(reader, way, own)
            for row, (words, reference) in zip(rows, known.test, strict=True):
                found = translate(words)
                row += [len(found), *matches(found, reference)]
            on_step(way)
    versions = {"torch": str(torch.__version__), "text": known.fingerprint}
    return run_of(experiment, seed, began, device, torch.float32, versions, predictions=rows, curve=curve)
