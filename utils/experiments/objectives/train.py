"""One run of notebook 11's experiments: text, a small encoder, blanks in one or two languages, pairs of sentences."""

import copy
import functools
import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from data import documentation, encoders
from data.pairs import MADE_UP_WORDS
from utils.experiments import profiles, student
from utils.experiments.experiment import Run
from utils.experiments.loops import chunks_of, fingerprint, last_states, products_of, run_of, take_step
from utils.experiments.objectives.spec import POINTS, TASKS, Masks, Objective, Order, Translations
from utils.experiments.training import seed_everything

# Their versions are in constraints.txt, so that machines which keep to it have one text; Python's own are not.
LIBRARIES = ("numpy", "pandas", "scipy", "matplotlib", "torch", "transformers")
PAD, CLS, SEP, MASK, WORDS = 0, 1, 2, 3, 4  # the first word has number 4
LENGTHS = {Masks: (8, 24), Translations: (6, 16)}  # words of a sentence, at least and at most
KNOWN = 0.9  # of the words of a sentence with a translation, so many are frequent ones
DECIMALS = 4
HEADS = 4
MOST, LONGEST = 4, 40  # sentences of a document, pieces of a sentence
DRAWN_AGAIN = 4  # after so many epochs other pairs are wrong
TEST_SEED = 999  # of the masks of test sentences; runs have it too, for their own sentences
MADE_UP = (120, 4, 12)  # documents, sentences of each, words of a sentence
TOPICS = 8  # of made-up documents
Documents = list[list[str]]
Report = Callable[[str], None]


# Text


@functools.cache
def documents(task: str) -> tuple[Documents, Documents]:
    """Documents to learn from and to test on, read once a session."""
    if task == "documentation":
        return documentation.documents(LIBRARIES), documentation.documents(LIBRARIES, validation=True)
    return made_up("train"), made_up("test")


def made_up(split: str) -> Documents:
    """Documents of made-up words: all sentences of one are of one topic, and each says how far it is in the text."""
    draw, (count, sentences, length) = random.Random(f"objectives {split}"), MADE_UP
    places, words = MADE_UP_WORDS[:sentences], MADE_UP_WORDS[sentences:]
    found = []
    for _ in range(count):
        topic = words[draw.randrange(TOPICS) :: TOPICS]
        found.append(
            [" ".join(draw.sample([*draw.choices(topic, k=length - 2), place, place], length)) for place in places]
        )
    return found


@dataclass(frozen=True)
class Sentences:
    """Sentences as numbers of words, from WORDS on; the last number stands for all words that are rare."""

    train: list[list[int]]
    test: list[list[int]]
    size: int  # numbers of words, the rare ones included

    @property
    def fingerprint(self) -> str:
        """Eight digits that differ between texts."""
        return fingerprint([" ".join(map(str, one)) for one in (*self.train, *self.test)])


@functools.cache
def sentences(task: str, words: int, lengths: tuple[int, int], known: float, test: int) -> Sentences:
    """The sentences of so many words of which a share is among the `words` most frequent ones, each once, shuffled.

    Raises:
        ValueError: there are fewer than `test` to test on.
    """
    sides = [[tuple(sentence.split()) for document in side for sentence in document] for side in documents(task)]
    counts = Counter(word for sentence in sides[0] for word in sentence)
    number = {word: WORDS + place for place, (word, _) in enumerate(counts.most_common(words))}
    found: list[list[list[int]]] = []
    seen: set[tuple[int, ...]] = set()
    for side in sides:
        kept = []
        for sentence in side:
            row = tuple(number.get(word, WORDS + len(number)) for word in sentence)
            frequent = sum(word in number for word in sentence) >= known * len(row)
            if lengths[0] <= len(row) <= lengths[1] and frequent and row not in seen:
                seen.add(row)
                kept.append([*row])
        found.append(random.Random(0).sample(kept, len(kept)))
    if len(found[1]) < test:
        raise ValueError(f"the text is enough for {len(found[1])} test sentences, not for {test}")
    return Sentences(found[0], found[1][:test], len(number) + 1)


def padded(rows: Sequence[Sequence[int]], value: int = PAD) -> torch.Tensor:
    """Rows of numbers as one tensor (B, T)."""
    return nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=value)


# The encoder


class Layer(nn.Module):
    """Attention and two linear maps, each after a norm and added to what went in."""

    def __init__(self, d: int):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(2))
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
        """(B, T, d) and who may look at whom (B, T, T) -> (B, T, d)."""
        B, T, d = x.shape
        heads = self.qkv(self.norms[0](x)).view(B, T, 3, HEADS, d // HEADS).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(heads[0], heads[1], heads[2], attn_mask=allowed[:, None])
        x = x + self.out(mixed.transpose(1, 2).reshape(B, T, d))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class Encoder(nn.Module):
    """Words, positions and languages to states, and from states to words with the same matrix."""

    def __init__(self, size: int, places: int, width: int, layers: int):
        super().__init__()
        self.word, self.place, self.language = (nn.Embedding(count, width) for count in (size, places, 2))
        for table in (self.word, self.place, self.language):
            nn.init.normal_(table.weight, std=0.1)
        self.layers, self.norm = nn.ModuleList(Layer(width) for _ in range(layers)), nn.LayerNorm(width)
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(
        self, words: torch.Tensor, places: torch.Tensor, languages: torch.Tensor, allowed: torch.Tensor
    ) -> torch.Tensor:
        """(B, T) each, pads with language -1, and (B, T, T) -> states (B, T, width)."""
        x = self.word(words) + self.place(places) + self.language(languages.clamp(min=0))
        for layer in self.layers:
            x = layer(x, allowed)
        return self.norm(x)

    def scores(self, states: torch.Tensor) -> torch.Tensor:
        """(..., width) -> logits (..., size)."""
        return F.linear(states, self.word.weight, self.bias)


def schedule(model: nn.Module, lr: float, steps: int) -> tuple[torch.optim.Optimizer, Any]:
    """Adam, and a rate that rises for a tenth of the steps and falls again."""
    rule = torch.optim.Adam(model.parameters(), lr)
    return rule, torch.optim.lr_scheduler.OneCycleLR(rule, lr, total_steps=steps, pct_start=0.1)


# The exercises' functions, and where the student's are used


def mask_number(epoch: int, copies: int | None = None) -> int:
    """Which of a sentence's masks an epoch uses: 11.1."""
    return epoch % copies if copies is not None else epoch


def masked_places(
    n: int, sentence: int, epoch: int, copies: int | None = None, rate: float = 0.15, seed: int = 0
) -> torch.Tensor:
    """Which tokens of a sentence are hidden in an epoch: booleans (n,): 11.1."""
    chance = random.Random(f"{seed} {sentence} {mask_number(epoch, copies)}")
    asked_for = torch.zeros(n, dtype=torch.bool)
    asked_for[chance.sample(range(n), max(1, round(rate * n)))] = True
    return asked_for


def tlm_batch(
    pairs: Sequence[tuple[list[int], list[int]]], cls: int, sep: int, pad: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Tokens, positions and languages (B, T) of rows with two sentences each: 11.6."""
    rows = [([cls, *first, sep], [cls, *second, sep]) for first, second in pairs]
    tokens = padded([a + b for a, b in rows], pad)
    positions = padded([[*range(len(a)), *range(len(b))] for a, b in rows])
    return tokens, positions, padded([[0] * len(a) + [1] * len(b) for a, b in rows], -1)


def allowed(languages: torch.Tensor, tlm: bool) -> torch.Tensor:
    """Who may look at whom (B, T, T), from languages (B, T), -1 for pads, which see themselves alone: 11.6."""
    one, other = languages.unsqueeze(2), languages.unsqueeze(1)
    same = (one >= 0) & (other >= 0) if tlm else (one == other) & (one >= 0)
    return same | torch.eye(languages.size(1), dtype=torch.bool, device=languages.device)


def pair_task(texts: Documents, task: str, rng: random.Random) -> list[tuple[str, str, int]]:
    """An example (a, b, label) for each pair of neighbours; 0 means that the text goes on like this: 11.7."""
    every, found, start = [sentence for text in texts for sentence in text], [], 0
    for text in texts:
        for a, b in itertools.pairwise(text):
            label = rng.randrange(2)
            if task == "sop" and label:
                a, b = b, a
            elif label:
                place = rng.randrange(len(every) - len(text))  # among all sentences but this document's
                b = every[place if place < start else place + len(text)]
            found.append((a, b, label))
        start += len(text)
    return found


COURSE: Mapping[str, Callable[..., Any]] = {one.__name__: one for one in (masked_places, tlm_batch, allowed, pair_task)}


def by(name: str, *given: Any) -> Any:
    """What the course's function of this name gives, by the student's where it gives the same.

    A random.Random among `given` is copied, so that both draw from the same place.
    """
    wanted = COURSE[name](*copy.deepcopy(given))
    made = student.instead(name, lambda function: function(*given), functools.partial(alike, wanted))
    return wanted if made is None else made


def alike(wanted: Any, found: Any) -> bool:
    """Whether two results hold the same numbers and texts, in tensors of one type, in lists or tuples."""
    if isinstance(wanted, torch.Tensor):
        return isinstance(found, torch.Tensor) and found.dtype == wanted.dtype and torch.equal(found, wanted)
    if isinstance(wanted, (list, tuple)):
        same = isinstance(found, (list, tuple)) and len(found) == len(wanted)
        return same and all(map(alike, wanted, found))
    return bool(found == wanted)


# Static and dynamic masks


def hidden(
    rows: Sequence[Sequence[int]], numbers: Sequence[int], epoch: int, one: Masks, seed: int
) -> list[torch.Tensor]:
    """The mask of each sentence in an epoch; its first and last token, which are special, are never hidden."""
    given = [
        (len(row), number, epoch, one.copies, one.rate, seed % 1000) for row, number in zip(rows, numbers, strict=True)
    ]
    return [by("masked_places", *arguments) for arguments in given]


def filled(
    model: Encoder, rows: Sequence[Sequence[int]], masks: Sequence[torch.Tensor], device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """The losses at the blanks (K,), and the row of each (K,)."""
    words = padded([[CLS, *row, SEP] for row in rows]).to(device)
    blanks = torch.zeros(words.shape, dtype=torch.bool)
    for blank, mask in zip(blanks, masks, strict=True):
        blank[1 : 1 + len(mask)] = mask
    blanks = blanks.to(device)
    languages = torch.zeros_like(words).masked_fill(words == PAD, -1)
    places = torch.arange(words.size(1), device=device).expand_as(words)
    states = model(words.masked_fill(blanks, MASK), places, languages, allowed(languages, tlm=False))
    losses = F.cross_entropy(model.scores(states[blanks]).float(), words[blanks], reduction="none")
    return losses, blanks.nonzero()[:, 0]


@torch.no_grad()
def tested(model: Encoder, rows: Sequence[Sequence[int]], one: Masks, device: torch.device) -> list[list[float | int]]:
    """For each sentence the sum of its losses, and how many they are; always with the same masks."""
    found: list[list[float | int]] = []
    for start in range(0, len(rows), 100):
        some = rows[start : start + 100]
        masks = [masked_places(len(row), start + n, 0, 1, one.rate, TEST_SEED) for n, row in enumerate(some)]
        losses, where = filled(model, some, masks, device)
        sums = torch.zeros(len(some), device=device).index_add_(0, where, losses)
        found += [[round(total, DECIMALS), int(mask.sum())] for total, mask in zip(sums.tolist(), masks, strict=True)]
    return found


def masks_run(one: Masks, seed: int, device: torch.device, on_step: Report) -> dict[str, Any]:
    """Train with static or dynamic masks."""
    known = sentences(one.task, one.words, LENGTHS[Masks], 0.0, one.test)
    draw = random.Random(f"masks {seed}")
    rows = draw.sample(known.train[: one.pool], one.sentences)
    model = Encoder(WORDS + known.size, LENGTHS[Masks][1] + 2, one.width, one.layers).to(device)
    rule, rate = schedule(model, one.lr, one.steps)
    curve: list[dict[str, float]] = []
    predictions: list[list[float | int]] = []
    losses: list[float] = []
    order: list[int] = []
    epoch = -1
    for step in range(1, one.steps + 1):
        if len(order) < one.batch:
            epoch += 1
            order = draw.sample(range(len(rows)), len(rows))
            masks = hidden(rows, range(len(rows)), epoch, one, seed)
        chosen, order = order[: one.batch], order[one.batch :]
        loss = filled(model, [rows[n] for n in chosen], [masks[n] for n in chosen], device)[0].mean()
        take_step(loss, rule, rate)
        losses.append(loss.item())
        if step * POINTS // one.steps > (step - 1) * POINTS // one.steps:
            predictions = tested(model, known.test, one, device)
            test = sum(total for total, _ in predictions) / sum(count for _, count in predictions)
            curve.append({"train_loss": round(sum(losses) / len(losses), DECIMALS), "test_loss": round(test, DECIMALS)})
            losses = []
        on_step(f"{one.name}, loss {loss.item():.2f}")
    return {"predictions": predictions, "curve": curve, "text": known.fingerprint}


# Two languages


def second_language(row: Sequence[int], size: int) -> list[int]:
    """The translation of a sentence: each two neighbours change places, and every word has another number."""
    order = random.Random("second language").sample(range(size), size)
    words = [WORDS + size + order[word - WORDS] for word in row]
    return [word for start in range(0, len(words), 2) for word in reversed(words[start : start + 2])]


def corrupted(words: torch.Tensor, blanks: torch.Tensor, size: int, generator: torch.Generator) -> torch.Tensor:
    """What is read in the place of words (B, T): of the blanks 80% are masks, 10% random words, 10% as they were.

    So states of words that are read are asked for too: of such the vectors of sentences are made.
    """
    fate, others = (
        torch.rand(words.shape, generator=generator),
        torch.randint(WORDS, size, words.shape, generator=generator),
    )
    replaced = others.masked_fill(fate < 0.8, MASK)
    return torch.where(blanks & (fate < 0.9), replaced, words)


@torch.no_grad()
def vectors(model: Encoder, rows: Sequence[Sequence[int]], language: int, device: torch.device) -> torch.Tensor:
    """The mean state of each sentence's words, centred and of length 1: (n, width)."""
    found = []
    for start in range(0, len(rows), 100):
        words = padded([[CLS, *row, SEP] for row in rows[start : start + 100]]).to(device)
        languages = torch.full_like(words, language).masked_fill(words == PAD, -1)
        places = torch.arange(words.size(1), device=device).expand_as(words)
        states = model(words, places, languages, allowed(languages, tlm=False))
        real = (words >= WORDS).unsqueeze(-1)
        found.append((states * real).sum(1) / real.sum(1))
    means = torch.cat(found).float()
    return F.normalize(means - means.mean(0), dim=-1)


def nearest(cosines: torch.Tensor) -> tuple[list[int], list[float]]:
    """For each row of (n, n) its largest entry's place, and how far the one on the diagonal is ahead of all others."""
    own = cosines.diagonal()
    others = cosines.masked_fill(torch.eye(len(cosines), dtype=torch.bool, device=cosines.device), -2)
    margins = own - others.max(1).values
    places = torch.where(margins > 0, torch.arange(len(own), device=own.device), others.argmax(1))
    return places.tolist(), [round(margin, 6) for margin in margins.tolist()]


def translations_run(one: Translations, seed: int, device: torch.device, on_step: Report) -> dict[str, Any]:
    """Train on sentences and their translations, which see each other in every second batch or never."""
    known = sentences(one.task, one.words, LENGTHS[Translations], KNOWN, one.test)
    draw, generator = random.Random(f"translations {seed}"), torch.Generator().manual_seed(seed)
    pairs = [(row, second_language(row, known.size)) for row in known.train]
    model = Encoder(WORDS + 2 * known.size, LENGTHS[Translations][1] + 2, one.width, one.layers).to(device)
    rule, rate = schedule(model, one.lr, one.steps)
    losses: list[list[float]] = [[], []]
    for step in range(one.steps):
        some = draw.sample(pairs, one.batch)
        words, places, languages = by("tlm_batch", some, CLS, SEP, PAD)
        across = step % 2 == 0
        looks = by("allowed", languages, one.across and across)
        blanks = (torch.rand(words.shape, generator=generator) < one.rate) & (words >= WORDS)
        read = corrupted(words, blanks, WORDS + 2 * known.size, generator)
        given = [part.to(device) for part in (read, places, languages, looks)]
        states = model(*given)[blanks.to(device)]
        loss = F.cross_entropy(model.scores(states).float(), words[blanks].to(device))
        take_step(loss, rule, rate, clipped=model.parameters())
        losses[step % 2].append(loss.item())
        on_step(f"{one.name}, loss {loss.item():.2f}")
    first = vectors(model, known.test, 0, device)
    second = vectors(model, [second_language(row, known.size) for row in known.test], 1, device)
    there, back = nearest(first @ second.T), nearest(second @ first.T)
    tail = [sum(some[-25:]) / len(some[-25:]) for some in losses]
    return {
        "labels": one.gold(),
        "predictions": [[*row] for row in zip(there[0], back[0], there[1], back[1], strict=True)],
        "curve": [{"first_kind": round(tail[0], DECIMALS), "second_kind": round(tail[1], DECIMALS)}],
        "text": known.fingerprint,
    }


# Next sentence and sentence order


@functools.cache
def sentence_vectors(
    task: str, encoder: str, count: int, test: int, device: torch.device, products: torch.dtype
) -> tuple[Documents, list[dict[str, tuple[str, str]]], dict[str, torch.Tensor]]:
    """Documents to learn from, the test pairs by task, and the vector of each sentence, read once a session.

    Raises:
        ValueError: there are not as many test pairs.
    """
    sides = [[document[:MOST] for document in side] for side in documents(task)]
    texts = random.Random(0).sample(sides[0], min(count, len(sides[0])))
    pairs = test_pairs(sides[1], test)
    lines = sorted(
        {line for text in texts for line in text} | {one for row in pairs for pair in row.values() for one in pair},
        key=lambda line: (len(line), line),
    )
    tokenizer, model = encoders.tokenizer(encoder), encoders.ready_model(encoder).to(device).eval()
    found: dict[str, torch.Tensor] = {}
    for chunk in chunks_of(lines, 64, "vectors of sentences", quiet=20):
        batch = tokenizer(chunk, padding=True, truncation=True, max_length=LONGEST, return_tensors="pt").to(device)
        states = last_states(model, batch, device, products)
        real = batch["attention_mask"].unsqueeze(-1)
        found.update(zip(chunk, ((states * real).sum(1) / real.sum(1)).cpu(), strict=True))
    return texts, pairs, found


def test_pairs(texts: Documents, count: int) -> list[dict[str, tuple[str, str]]]:
    """The first so many neighbours of shuffled documents, as each task asks them: every second pair is wrong."""
    draw = random.Random("test pairs")
    shuffled = draw.sample(texts, len(texts))
    spots = [(d, i) for d, text in enumerate(shuffled) for i in range(len(text) - 1)]
    if len(spots) < count:
        raise ValueError(f"the text is enough for {len(spots)} test pairs, not for {count}")
    found = []
    for place, (d, i) in enumerate(spots[:count]):
        a, b = shuffled[d][i : i + 2]
        other = draw.choice(draw.choice(shuffled[:d] + shuffled[d + 1 :]))
        found.append({"nsp": (a, other), "sop": (b, a)} if place % 2 else {"nsp": (a, b), "sop": (a, b)})
    return found


class PairHead(nn.Module):
    """Two vectors (B, d), narrowed, their product and difference, a hidden layer -> margins (B,) of label 1."""

    def __init__(self, d: int, width: int):
        super().__init__()
        self.narrow = nn.Linear(d, width)
        self.rest = nn.Sequential(nn.Linear(4 * width, width), nn.ReLU(), nn.Dropout(0.3), nn.Linear(width, 1))

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """The margins."""
        a, b = self.narrow(a), self.narrow(b)
        return self.rest(torch.cat([a, b, a * b, a - b], dim=-1)).squeeze(-1)


def order_run(one: Order, seed: int, found: tuple[Any, ...], device: torch.device, on_step: Report) -> dict[str, Any]:
    """Train a head on one of the two tasks and test it in both; `found` is what `sentence_vectors` gives."""
    texts, tests, known = found
    head = PairHead(len(next(iter(known.values()))), one.width).to(device)
    rule = torch.optim.AdamW(head.parameters(), one.lr, weight_decay=0.05)

    def joined(pairs: Sequence[Sequence[str]]) -> list[torch.Tensor]:
        return [torch.stack([known[pair[side]] for pair in pairs]).to(device) for side in range(2)]

    for epoch in range(one.epochs):
        if epoch % DRAWN_AGAIN == 0:
            examples = by("pair_task", texts, one.learned, random.Random(f"pairs {seed} {epoch}"))
            a, b = joined(examples)
            labels = torch.tensor([float(label) for *_, label in examples], device=device)
        for places in torch.randperm(len(labels)).to(device).split(one.batch):
            loss = F.binary_cross_entropy_with_logits(head(a[places], b[places]), labels[places])
            take_step(loss, rule)
        on_step(f"{one.name}, loss {loss.item():.2f}")
    head.eval()
    with torch.no_grad():
        margins = [head(*joined([row[task] for row in tests])).tolist() for task in TASKS]
    lines = [line for row in tests for task in TASKS for line in row[task]]
    return {
        "labels": one.gold(),
        "predictions": [[round(margin, DECIMALS) for margin in row] for row in zip(*margins, strict=True)],
        "text": fingerprint([*lines, *(line for text in texts for line in text)]),
    }


def run_seed(
    experiment: Objective,
    seed: int,
    *,
    precision: str | None = None,
    folder: Path | str | None = None,
    on_step: Callable[[str], None] = lambda what: None,
) -> Run:
    """One run; see `utils.experiments.experiment.Experiment.run_seed`.

    Args:
        precision: of the frozen encoder's products; all others are of single precision.
        folder: not used; the text is that of libraries on this machine.
    """
    began, device = time.perf_counter(), profiles.device()
    seed_everything(seed)
    products = torch.float32
    if isinstance(experiment, Order):
        products = products_of(experiment, device, precision)
        one = experiment
        ready = sentence_vectors(one.task, one.encoder, one.documents, one.test, device, products)
        seed_everything(seed)
        found = order_run(one, seed, ready, device, on_step)
    else:
        train = masks_run if isinstance(experiment, Masks) else translations_run
        found = train(experiment, seed, device, on_step)  # type: ignore[arg-type]
    versions = {"torch": torch.__version__, "text": found.pop("text")}
    return run_of(experiment, seed, began, device, products, versions, **found)
