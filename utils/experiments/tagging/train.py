"""One run of notebook 08's experiments: sentences, states of a frozen encoder, the two heads, and what is counted."""

import functools
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn
from torch.nn import functional as F
from tqdm.auto import tqdm

from data import encoders, tagged
from data.tagged import Tagged
from utils.experiments import profiles, student
from utils.experiments.experiment import Run
from utils.experiments.loops import (
    Frozen,
    adamw_groups,
    chunks_of,
    fingerprint,
    in_precision,
    products_of,
    run_of,
    take_step,
)
from utils.experiments.tagging.spec import BILSTM, MixedTagging, ShuffledTagging, Tagging
from utils.experiments.training import seed_everything

OUTSIDE = "O"
SKIPPED = -100
DECIMALS = 4
TOY = {"layers": 3, "width": 32, "heads": 4, "steps": 100, "batch": 32, "lr": 8e-3}
Words = list[str]


@dataclass(frozen=True)
class TaggedSentences:
    """Sentences to learn from and to test on, and all of their tags, `O` first."""

    pool: list[Tagged]
    test: list[Tagged]
    tags: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """Eight digits that differ between texts."""
        return fingerprint(" ".join([*words, *tags]) for words, tags in (*self.pool, *self.test))


@dataclass(frozen=True)
class Cut:
    """A sentence as the encoder reads it: its pieces, which word each is of, and each piece's label."""

    ids: list[int]
    words: list[int | None]
    labels: list[int]

    @property
    def places(self) -> list[int]:
        """The pieces that carry a label, one for each word that has one."""
        return [place for place, label in enumerate(self.labels) if label != SKIPPED]


@functools.cache
def text(task: str, pool: int, test: int, folder: Path | str | None = None) -> TaggedSentences:
    """The sentences of an experiment, read once a session.

    Raises:
        ValueError, FileNotFoundError: as `tagged.load`.
    """
    sides = [tagged.load(task, split, count, folder) for split, count in zip(tagged.SPLITS, (pool, test), strict=True)]
    names = {tag for side in sides for _, tags in side for tag in tags} - {OUTSIDE}
    return TaggedSentences(sides[0], sides[1], (OUTSIDE, *sorted(names)))


def text_of(experiment: Tagging, folder: Path | str | None = None) -> TaggedSentences:
    """The sentences of an experiment."""
    return text(experiment.task, experiment.pool, experiment.test, folder)


def sentences(experiment: Tagging, count: int = 3) -> list[Tagged]:
    """The first test sentences of an experiment: words and gold tags."""
    return text_of(experiment).test[:count]


def cut(tokenizer: Any, some: Sequence[Tagged], tags: Sequence[str], max_len: int) -> list[Cut]:
    """Pieces and labels of sentences: 8.2, by the student's `align_labels` where it gives the same."""
    number = {tag: place for place, tag in enumerate(tags)}
    read = tokenizer([words for words, _ in some], is_split_into_words=True, truncation=True, max_length=max_len)
    asked = [(read.word_ids(place), [number[tag] for tag in one]) for place, (_, one) in enumerate(some)]
    made = [first_pieces(words, labels) for words, labels in asked]
    theirs = student.instead(
        "align_labels", lambda function: [function(list(one), list(labels)) for one, labels in asked], made.__eq__
    )
    rows = zip(read["input_ids"], asked, theirs or made, strict=True)
    return [Cut(ids, words, labels) for ids, (words, _), labels in rows]


def first_pieces(words: Sequence[int | None], labels: Sequence[int]) -> list[int]:
    """The label of each word at its first piece, SKIPPED elsewhere."""
    made, seen = [SKIPPED] * len(words), set()
    for place, word in enumerate(words):
        if word is not None and word not in seen:
            seen.add(word)
            made[place] = labels[word]
    return made


def tags_of_words(one: Cut, guesses: Sequence[str], count: int) -> Words:
    """A tag for each word, from one for each piece that carries a label; OUTSIDE for a word without pieces."""
    at_word = {one.words[place]: tag for place, tag in zip(one.places, guesses, strict=True)}
    return [at_word.get(word, OUTSIDE) for word in range(count)]


def names_in(tags: Sequence[str]) -> set[tuple[int, int, str]]:
    """The names of a sentence (first, last, type), as 8.3 has them."""
    found: list[tuple[int, int, str]] = []
    for place, tag in enumerate(tags):
        goes_on = tag[:2] == "I-" and found and found[-1][1:] == (place - 1, tag[2:])
        if goes_on:
            found[-1] = (found[-1][0], place, tag[2:])
        elif tag != OUTSIDE:
            found.append((place, place, tag[2:]))
    return {*found}


def count_names(gold: Sequence[Words], guessed: Sequence[Words]) -> list[list[int]]:
    """Of each sentence how many of the names found are right, how many were found, and how many there are."""

    def counted(find: Callable[[Words], Any]) -> list[list[int]]:
        pairs = [({*find(list(guess))}, {*find(list(tags))}) for tags, guess in zip(gold, guessed, strict=True)]
        return [[len(found & there), len(found), len(there)] for found, there in pairs]

    made = counted(names_in)
    return student.instead("entities", counted, made.__eq__) or made


# The encoder and its states


@functools.cache
def toy() -> Any:
    """A BERT of three layers that has learned, in a second or two, to tell of each made-up word which one precedes it.

    Drawn and trained with fixed seeds; the generators stay as they are.
    """
    width, tokenizer = int(TOY["width"]), encoders.tokenizer("tiny")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = transformers.BertConfig(
            vocab_size=len(tokenizer), hidden_size=width, num_hidden_layers=int(TOY["layers"]),
            num_attention_heads=int(TOY["heads"]), intermediate_size=2 * width, max_position_embeddings=24,
            hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, initializer_range=0.1,
        )  # fmt: skip
        model, before = transformers.BertModel(config, add_pooling_layer=False), nn.Linear(width, len(tokenizer))
        texts = [" ".join(words) for words, _ in tagged.made_up("pretraining", 1500)]
        ids = tokenizer(texts, return_tensors="pt")["input_ids"]
        optimizer = torch.optim.AdamW([*model.parameters(), *before.parameters()], lr=TOY["lr"])
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, TOY["lr"], int(TOY["steps"]), pct_start=0.1)
        for _ in range(int(TOY["steps"])):
            rows = ids[torch.randint(len(ids), (int(TOY["batch"]),))]
            guesses = before(model(input_ids=rows).last_hidden_state[:, 1:])
            take_step(F.cross_entropy(guesses.transpose(1, 2), rows[:, :-1]), optimizer, schedule)
    return model.eval()


def encoder_of(encoder: str, start: str) -> Any:
    """A copy of an encoder; a random one is drawn from torch's default generator."""
    pretrained = start == "pretrained"
    if encoder == "tiny":
        made = transformers.BertModel(toy().config, add_pooling_layer=False)
        if pretrained:
            made.load_state_dict(toy().state_dict())
        return made
    return encoders.plain_model(encoder, pretrained)


def batch_of(some: Sequence[Cut], device: torch.device) -> dict[str, torch.Tensor]:
    """What the encoder reads: `input_ids` and `attention_mask`, padded."""
    longest = max(len(one.ids) for one in some)
    ids = torch.tensor([one.ids + [0] * (longest - len(one.ids)) for one in some], device=device)
    lengths = torch.tensor([[len(one.ids)] for one in some], device=device)
    return {"input_ids": ids, "attention_mask": (torch.arange(longest, device=device) < lengths).long()}


@functools.cache
def states(
    frozen: Frozen, device: torch.device, precision: torch.dtype
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """One state of every labelled piece, standardised by the pool: for each sentence (words, width), as float16.

    They are 8.8's `layer_features`, read from the encoder's first layers alone, whose last state it is: the student's
    where it gives the same.
    """
    known = text(frozen.task, frozen.pool, frozen.test, frozen.folder)
    tokenizer, model = encoders.tokenizer(frozen.encoder), encoder_of(frozen.encoder, frozen.start).to(device).eval()
    model.encoder.layer = model.encoder.layer[: frozen.layers]
    found = []
    for side, title in ((known.pool, "learn from"), (known.test, "test")):
        cuts = cut(tokenizer, side, known.tags, frozen.max_len)
        order = sorted(range(len(cuts)), key=lambda place: len(cuts[place].ids))
        rows: list[torch.Tensor] = [torch.empty(0)] * len(cuts)
        for chunk in chunks_of(order, 32, f"state {frozen.layers}, to {title}", quiet=10):
            with in_precision(device, precision):
                read = read_last(model, batch_of([cuts[place] for place in chunk], device))
            for place, row in zip(chunk, read, strict=True):
                rows[place] = row.float().cpu()[cuts[place].places]
        found.append(rows)
    every = torch.cat(found[0])
    mean, spread = every.mean(0), every.std(0) + 1e-5
    pooled, tested = ([((row - mean) / spread).half() for row in side] for side in found)
    return pooled, tested


@torch.no_grad()
def read_last(model: Any, batch: dict[str, torch.Tensor]) -> Sequence[torch.Tensor]:
    """The last state of the real tokens of each row."""
    outputs = model(**batch).last_hidden_state
    made = [row[: int(real.sum())] for row, real in zip(outputs, batch["attention_mask"], strict=True)]

    def same(found: Any) -> bool:
        return len(found) == len(made) and all(map(torch.equal, found, made)) and not model.training

    return student.instead("layer_features", lambda function: function(model, batch, "last"), same) or made


# Heads


class BidirectionalTagger(nn.Module):
    """A BiLSTM over the words of each sentence, and a linear map: 8.9."""

    def __init__(self, width: int, hidden: int, tags: int):
        super().__init__()
        self.lstm = nn.LSTM(width, hidden, bidirectional=True, batch_first=True)
        self.out = nn.Linear(2 * hidden, tags)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Logits (B, T, tags)."""
        rows = nn.utils.rnn.pack_padded_sequence(x, lengths.to("cpu"), True, False)
        return self.out(nn.utils.rnn.pad_packed_sequence(self.lstm(rows)[0], True, 0.0, x.shape[1])[0])


def reader(width: int, hidden: int, tags: int) -> nn.Module:
    """A fresh BiLSTM tagger: the student's where it has the same parts and gives the same logits."""
    made = BidirectionalTagger(width, hidden, tags)
    x = torch.randn(3, 7, width, generator=torch.Generator().manual_seed(0))
    lengths = torch.tensor([4, 7, 1])

    def filled(kind: student.Own) -> nn.Module:
        with torch.random.fork_rng():
            theirs = kind(width, hidden, tags)
        theirs.load_state_dict(made.state_dict())
        return theirs

    def same(theirs: nn.Module) -> bool:
        learns = [part.requires_grad for part in theirs.parameters()]
        pairs = zip(theirs(x, lengths), made(x, lengths), lengths, strict=True)
        return all(learns) and all(torch.equal(one[:n], other[:n]) for one, other, n in pairs)

    return student.instead("BiLSTMTagger", filled, same) or made


class Mixture(nn.Module):
    """Several states, one beside the other (B, T, n * width), to their weighted sum (B, T, width): 8.8."""

    def __init__(self, count: int):
        super().__init__()
        self.scores, self.gamma = nn.Parameter(torch.zeros(count)), nn.Parameter(torch.ones(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The sum of the states, weighted by the softmax of the scores, times gamma."""
        shares = self.scores.softmax(0)
        return self.gamma * (x.unflatten(-1, (len(shares), -1)) * shares[:, None]).sum(-2)


class Probe(nn.Module):
    """What reads the states of words: a linear map or a BiLSTM; before it, dropout, and the sum of weighted states."""

    def __init__(self, experiment: Tagging, width: int, tags: int):
        super().__init__()
        self.mixture = None
        if isinstance(experiment, MixedTagging) and experiment.weighted:
            self.mixture = Mixture(len(experiment.states))
            width //= len(experiment.states)
        self.drop = nn.Dropout(experiment.dropout)
        hidden = experiment.hidden
        self.head = reader(width, hidden, tags) if experiment.head == BILSTM else nn.Linear(width, tags)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """States (B, T, width) -> logits (B, T, tags)."""
        x = self.drop(x if self.mixture is None else self.mixture(x))
        return self.head(x) if isinstance(self.head, nn.Linear) else self.head(x, lengths)


class Tagger(nn.Module):
    """An encoder that learns, and a linear map of its last state."""

    def __init__(self, experiment: Tagging, tags: int):
        super().__init__()
        self.encoder = encoder_of(experiment.encoder, experiment.start)
        self.drop = nn.Dropout(experiment.dropout)
        self.head = nn.Linear(self.encoder.config.hidden_size, tags)
        nn.init.normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head.bias)

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Logits of every piece."""
        return self.head(self.drop(self.encoder(**batch).last_hidden_state))


# Training


def order_of(count: int, lengths: Sequence[int], batch: int, draw: random.Random) -> list[list[int]]:
    """One epoch of batches: all sentences in random order, those of similar length together."""
    order, made = draw.sample(range(count), count), []
    for start in range(0, count, 20 * batch):
        near = sorted(order[start : start + 20 * batch], key=lengths.__getitem__)
        made += [near[place : place + batch] for place in range(0, len(near), batch)]
    draw.shuffle(made)
    return made


class Reading:
    """A tagger of an experiment, with what it reads: sentences, or their states where the encoder is frozen."""

    def __init__(self, experiment: Tagging, model: nn.Module, device: torch.device, precision: torch.dtype):
        self.frozen, self.model = experiment.state is not None, model
        self.shuffled = isinstance(experiment, ShuffledTagging)
        self.device, self.precision = device, precision

    def logits(self, rows: Sequence[Cut], read: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Logits of the labelled pieces of each sentence; `read` are their states, where the encoder is frozen."""
        if self.frozen:
            orders = [torch.randperm(len(row)) if self.shuffled else torch.arange(len(row)) for row in read]
            sizes = torch.tensor([len(row) for row in read])
            rows_read = [row[order].float() for row, order in zip(read, orders, strict=True)]
            found = self.model(nn.utils.rnn.pad_sequence(rows_read, batch_first=True).to(self.device), sizes)
            return [one[order.argsort()] for one, order in zip(found, orders, strict=True)]
        with in_precision(self.device, self.precision):
            outputs = self.model(batch_of(rows, self.device))
        return [one[row.places].float() for one, row in zip(outputs, rows, strict=True)]

    @torch.no_grad()
    def tested(self, rows: Sequence[Cut], read: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Logits (words, tags) of each sentence, on the CPU: similar lengths are read together."""
        made: list[torch.Tensor] = [torch.empty(0)] * len(rows)
        order = sorted(range(len(rows)), key=lambda place: len(rows[place].ids))
        for start in range(0, len(order), 32):
            chunk = order[start : start + 32]
            part = self.logits([rows[place] for place in chunk], [read[place] for place in chunk if self.frozen])
            for place, one in zip(chunk, part, strict=True):
                made[place] = one.float().cpu()
        return made


def new_model(experiment: Tagging, width: int, labels: Sequence[torch.Tensor], tags: int) -> nn.Module:
    """A tagger whose output knows how frequent each tag is; `width` is that of frozen states, 0 if it reads sentences.

    Most words are O: who has to learn that first learns little else in so few steps.
    """
    model = Probe(experiment, width, tags) if width else Tagger(experiment, tags)
    head: Any = model.head
    out = head if isinstance(head, nn.Linear) else head.out
    shares = torch.cat([*labels]).bincount(minlength=tags) + 1.0
    with torch.no_grad():
        out.bias.copy_((shares / shares.sum()).log())
    return model


def train(
    experiment: Tagging,
    seed: int,
    device: torch.device,
    precision: torch.dtype,
    folder: Path | str | None = None,
    on_step: Callable[[str], None] = lambda what: None,
) -> tuple[Reading, list[dict[str, float]]]:
    """Train once. Returns the tagger, in evaluation mode, and the mean loss of each epoch."""
    known, tokenizer = text_of(experiment, folder), encoders.tokenizer(experiment.encoder)
    draw = random.Random(seed)
    chosen = draw.sample(range(len(known.pool)), experiment.examples)
    cuts = cut(tokenizer, [known.pool[place] for place in chosen], known.tags, experiment.max_len)
    labels = [torch.tensor([one.labels[place] for place in one.places]) for one in cuts]
    frozen = experiment.state is not None
    given = [states_of(experiment, device, precision, folder)[0][place] for place in chosen] if frozen else []
    seed_everything(seed)
    model = new_model(experiment, given[0].size(1) if frozen else 0, labels, len(known.tags)).to(device)
    reading = Reading(experiment, model, device, precision)
    optimizer = torch.optim.AdamW(adamw_groups(model.parameters(), experiment.weight_decay), lr=experiment.lr)
    total = experiment.epochs * -(-len(cuts) // experiment.batch)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, total // 10, total)
    lengths, curve = [len(one.ids) for one in cuts], []
    model.train()
    for epoch in range(experiment.epochs):
        losses = []
        for places in order_of(len(cuts), lengths, experiment.batch, draw):
            found = reading.logits([cuts[place] for place in places], [given[place] for place in places if frozen])
            loss = F.cross_entropy(torch.cat(found), torch.cat([labels[place] for place in places]).to(device))
            take_step(loss, optimizer, schedule, clipped=model.parameters())
            losses.append(loss.detach())
        curve.append({"train_loss": round(torch.stack(losses).mean().item(), DECIMALS)})
        on_step(f"epoch {epoch + 1} of {experiment.epochs}")
    model.eval()
    return reading, curve


def states_of(
    experiment: Tagging, device: torch.device, precision: torch.dtype, folder: Path | str | None = None
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The states that an experiment reads, of the sentences to learn from and of those to test on.

    Several states are one beside the other.
    """
    one = experiment
    read = one.states if isinstance(one, MixedTagging) else (one.state or 0,)
    sides = [
        states(
            Frozen(one.task, one.encoder, state, one.pool, one.test, one.start, one.max_len, folder=folder),
            device,
            precision,
        )
        for state in read
    ]
    if len(sides) == 1:
        return sides[0]
    pool, test = ([torch.cat(rows, dim=-1) for rows in zip(*side, strict=True)] for side in zip(*sides, strict=True))
    return pool, test


def guesses_of(cuts: Sequence[Cut], logits: Sequence[torch.Tensor], some: Sequence[Tagged], tags: Sequence[str]) -> Any:
    """Tags for each word of each sentence: 8.2, by the student's `word_predictions` where it gives the same."""
    guessed = [[tags[number] for number in one.argmax(-1).tolist()] for one in logits]
    made = [tags_of_words(one, row, len(words)) for one, row, (words, _) in zip(cuts, guessed, some, strict=True)]

    def with_own(function: student.Own) -> list[Words]:
        found = []
        for one, row, (words, _) in zip(cuts, guessed, some, strict=True):
            pieces = [OUTSIDE] * len(one.ids)
            for place, tag in zip(one.places, row, strict=True):
                pieces[place] = tag
            found.append(function(list(one.words), pieces, len(words)))
        return found

    return student.instead("word_predictions", with_own, made.__eq__) or made


def run_seed(
    experiment: Tagging,
    seed: int,
    *,
    precision: str | None = None,
    folder: Path | str | None = None,
    on_step: Callable[[str], None] = lambda what: None,
) -> Run:
    """Train once and test.

    Args:
        seed: any integer from 0.
        precision: bfloat16 or float32, of the encoder's matrix products; by default what the device does best.

    Raises:
        ImportError, OSError: the encoder or the sentences are nowhere; says what to do.
    """
    device, known = profiles.device(), text_of(experiment, folder)
    products, began = products_of(experiment, device, precision), time.perf_counter()
    reading, curve = train(experiment, seed, device, products, folder, on_step)
    cuts = cut(encoders.tokenizer(experiment.encoder), known.test, known.tags, experiment.max_len)
    read = states_of(experiment, device, products, folder)[1] if experiment.state is not None else ()
    logits = reading.tested(cuts, read)
    gold = [tags for _, tags in known.test]
    counts = count_names(gold, guesses_of(cuts, logits, known.test, known.tags))
    losses = [
        F.cross_entropy(one, torch.tensor([row.labels[place] for place in row.places]), reduction="sum").item()
        for one, row in zip(logits, cuts, strict=True)
    ]
    versions = {"torch": torch.__version__, "transformers": transformers.__version__, "text": known.fingerprint}
    return run_of(
        experiment,
        seed,
        began,
        device,
        products,
        versions,
        predictions=[[*row, round(loss, DECIMALS)] for row, loss in zip(counts, losses, strict=True)],
        curve=curve,
    )


def tag(experiment: Tagging, seed: int, sentences: Sequence[Sequence[str]]) -> list[Words]:
    """Train the tagger of a run again, with a progress bar; the tags that it gives to the words of other sentences.

    Raises:
        ImportError, OSError: the encoder is nowhere; says what to do.
        ValueError: the encoder is frozen, so that there are no states of other sentences.
    """
    if experiment.state is not None:
        raise ValueError(f"{experiment.name}: only a tagger whose encoder learned reads other sentences")
    device, known = profiles.device(), text_of(experiment)
    with tqdm(total=experiment.epochs, desc=f"{experiment.name}, seed {seed}") as bar:
        reading, _ = train(experiment, seed, device, products_of(experiment, device), None, lambda what: bar.update())
    some = [([*words], [OUTSIDE] * len(words)) for words in sentences]
    cuts = cut(encoders.tokenizer(experiment.encoder), some, known.tags, experiment.max_len)
    return guesses_of(cuts, reading.tested(cuts, ()), some, known.tags)
