"""A question of one's own, answered from a page of documentation by a span head on an encoder: the end of notebook 08.

Nothing of it is handed in. The functions that cut, place and choose are the student's, see `Functions`. The weights:
in the size cpu the packaged encoder, which learns for a minute or two to answer questions made by rule of documentation
(`data/questions.py`); in the size gpu a checkpoint that was trained on SQuAD 2.0; in the size smoke a toy.
"""

import functools
import html
import random
import string
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from data import documentation, encoders, questions
from data.questions import Asked
from utils.experiments import profiles
from utils.experiments.loops import take_step
from utils.experiments.training import precision_of, progress, seed_everything

IN_SIGHT = 6  # lines of a page that are shown above and below an answer
MARK = "background: #ffd54a; color: #000; border-radius: 3px; padding: 0 2px"  # its own colours, on any page
MADE_UP = "w2 w25 w32 w43 w0 w3 w23 w52 w50 w0 w1 w13 w37 w0"


class Functions(NamedTuple):
    """What reads, places and chooses, as notebook 08 asks for it in 8.1, 8.4, 8.5 and 8.6."""

    task_input: Callable[..., Any]
    answer_tokens: Callable[..., Any]
    span_logits: Callable[..., Any]
    span_loss: Callable[..., Any]
    best_spans: Callable[..., Any]


class Found(NamedTuple):
    """A span of a page: its score less that of [CLS], its first character, and the one after its last."""

    margin: float
    start: int
    end: int


@dataclass(frozen=True)
class Size:
    """How an encoder learns to answer: its first layers, from so many questions, in rows of at most `row` tokens."""

    task: str
    layers: int
    row: int
    examples: int
    batch: int
    lr: float
    blank: float = 0.2  # of the rows do not have the answer


SIZES = {
    "smoke": Size("made-up-pages", 0, 16, 640, 16, 0.3),
    "cpu": Size("documentation", 4, 64, 4800, 32, 5e-4),
}
SQUAD_ROW = 384
OF_A_ROW = 20  # spans that are looked at: the best ones often overlap


@dataclass(frozen=True)
class QuestionAnswerer:
    """An encoder, a linear map from its states to two logits, its tokenizer, and how many tokens a row has at most."""

    encoder: Any
    out: nn.Module
    tokenizer: Any
    row: int


class Toy(nn.Module):
    """Stands in for an encoder in the size smoke: states of made-up pages by rule, with nothing to learn.

    A token's state says whether the word before it is the one that is asked for, whether that was the last name before
    it, and whether a stop comes after it.
    """

    def __init__(self, tokenizer: Any):
        super().__init__()
        self.config = types.SimpleNamespace(hidden_size=3)
        numbers = tokenizer.convert_tokens_to_ids([questions.MADE_UP_STOP, *questions.MADE_UP_NAMES])
        self.known = nn.Parameter(torch.tensor(numbers), requires_grad=False)

    def forward(self, input_ids: torch.Tensor, token_type_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
        """What encoders of transformers give, with `last_hidden_state` (B, T, 3)."""
        asked = input_ids[:, 1:2]
        names = torch.isin(input_ids, self.known[1:]) & (token_type_ids == 1)
        places = torch.where(names, torch.arange(input_ids.size(1), device=input_ids.device), 0).cummax(1).values
        inside = (input_ids.gather(1, places) == asked) & (places > 0)
        before, after = input_ids.roll(1, 1), input_ids.roll(-1, 1)
        states = torch.stack([(before == asked) & inside, inside, after == self.known[0]], dim=-1)
        return types.SimpleNamespace(last_hidden_state=states.float())


@dataclass(frozen=True)
class Row:
    """A question with a part of a page: token ids, and where each token of the part stands on the page."""

    question: list[int]
    part: list[int]
    offsets: list[tuple[int, int]]

    def places(self, own: Functions, start: int, text: str) -> tuple[int, int]:
        """The tokens of an answer, see 8.4."""
        n = len(self.question)
        offsets = [(0, 0), *[(0, 0)] * n, (0, 0), *self.offsets, (0, 0)]
        first, last = own.answer_tokens(offsets, [None, *[0] * n, None, *[1] * len(self.part), None], start, text)
        return int(first), int(last)


def reader(
    own: Functions, seed: int = 0, profile: str | None = None, folder: Path | str | None = None
) -> QuestionAnswerer:
    """The model that answers in this profile: trained here, with a progress bar, or loaded.

    Args:
        seed: draws questions, order and head.
        folder: of the checkpoint in the size gpu, instead of the hub's.

    Raises:
        ImportError, OSError: the weights are nowhere; says what to do.
    """
    profile = profile or profiles.name()
    if profile == "gpu":
        encoder, out, tokenizer = encoders.answering_model(folder)
        return QuestionAnswerer(
            encoder.to(profiles.device()).eval(), out.to(profiles.device()).eval(), tokenizer, SQUAD_ROW
        )
    size = SIZES[profile]
    seed_everything(seed)
    tokenizer = encoders.tokenizer("minilm" if size.layers else "tiny")
    if size.layers:
        encoder = encoders.plain_model("minilm", True)
        encoder.encoder.layer = encoder.encoder.layer[: size.layers]
    else:
        encoder = Toy(tokenizer)
    out = nn.Linear(encoder.config.hidden_size, 2)
    nn.init.normal_(out.weight, std=0.02)
    device = profiles.device()
    made = QuestionAnswerer(encoder.to(device), out.to(device), tokenizer, size.row)
    _train(made, own, size, seed)
    return made


def _train(made: QuestionAnswerer, own: Functions, size: Size, seed: int) -> None:
    draw, device = random.Random(seed), profiles.device()
    rows = [
        rows_to_learn(made, own, one, draw, size.blank)
        for one in questions.load(size.task, "train", size.examples, seed)
    ]
    parameters = [*made.encoder.parameters(), *made.out.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=size.lr, weight_decay=0.01)
    batches = [rows[start : start + size.batch] for start in range(0, len(rows), size.batch)]
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, size.lr, len(batches), pct_start=0.1)
    made.encoder.train()
    for batch in progress(batches, "learning to answer"):
        start, end = _logits(made, own, [row for row, _ in batch])
        first, last = torch.tensor([places for _, places in batch], device=device).T
        loss = own.span_loss(start, end, first, last)
        take_step(loss, optimizer, schedule, clipped=parameters)
    made.encoder.eval()


def rows_to_learn(
    made: QuestionAnswerer, own: Functions, asked: Asked, draw: random.Random, blank: float
) -> tuple[Row, tuple[int, int]]:
    """A row of a page, and the answer's tokens: (0, 0) in some rows, which do not have it."""
    rows = [*rows_of(made, asked.question, asked.page)]
    placed = [(row, row.places(own, asked.start, asked.text)) for row in rows]
    there = [one for one in placed if one[1] != (0, 0)]
    others = [one for one in placed if one[1] == (0, 0)]
    return draw.choice(others if not there or (others and draw.random() < blank) else there)


def rows_of(made: QuestionAnswerer, question: str, page: str) -> Iterator[Row]:
    """Parts of a page, each as long as a row has room beside the question; the next one begins in its middle."""
    asked = made.tokenizer(question, add_special_tokens=False)["input_ids"][: made.row // 3]
    ids, offsets = _tokens(made.tokenizer, page)
    room = made.row - 3 - len(asked)
    for begin in range(0, max(1, len(ids) - room // 2), room // 2):
        yield Row(asked, ids[begin : begin + room], offsets[begin : begin + room])


@functools.lru_cache(20_000)
def _tokens(tokenizer: Any, page: str) -> tuple[list[int], list[tuple[int, int]]]:
    read = tokenizer(page, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    return read["input_ids"], read["offset_mapping"]


def _logits(made: QuestionAnswerer, own: Functions, rows: Sequence[Row]) -> Any:
    """Start and end logits (B, T) of rows, minus infinity at pads."""
    device, tokenizer = profiles.device(), made.tokenizer
    special = tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id
    read = [own.task_input("qa", [row.question, row.part], made.row, *special) for row in rows]
    ids, types, mask = (
        nn.utils.rnn.pad_sequence([one[part][0] for one in read], True, special[2] if part == 0 else 0).to(device)
        for part in range(3)
    )
    products = precision_of(device)
    with torch.autocast(device.type, products, enabled=products is not torch.float32):
        states = made.encoder(input_ids=ids, token_type_ids=types, attention_mask=mask).last_hidden_state
    return own.span_logits(states.float(), made.out, mask)


@torch.no_grad()
def ask(made: QuestionAnswerer, own: Functions, question: str, page: str, n: int = 3, max_len: int = 40) -> list[Found]:
    """The n best answers of a page, the best one first; none overlaps a better one.

    Each part of the page has its own [CLS], and scores of two parts compare as margins above it.
    """
    rows, found = [*rows_of(made, question, page)], []
    for begin in range(0, len(rows), 32):
        some = rows[begin : begin + 32]
        for row, start, end in zip(some, *_logits(made, own, some), strict=True):
            first = len(row.question) + 2
            T = first + len(row.part)
            allowed = torch.arange(T) >= first
            null = (start[0] + end[0]).item()
            for score, i, j in own.best_spans(start[:T].cpu(), end[:T].cpu(), allowed, OF_A_ROW, max_len):
                found.append(Found(score - null, row.offsets[i - first][0], row.offsets[j - first][1]))
    best: list[Found] = []
    for one in sorted(found, reverse=True):
        if all(one.end <= other.start or other.end <= one.start for other in best):
            best.append(one)
    return best[:n]


def best_sentence(question: str, page: str) -> Found:
    """What needs no learning: the sentence or line of a page with most words of the question, the first of equals."""
    asked = {*_words(question)}
    pieces = [(0, 0), *(one.span() for one in questions.PIECE.finditer(page))]
    start, end = max(pieces, key=lambda place: len(asked & {*_words(page[slice(*place)])}))
    return Found(0.0, start, end)


def _words(text: str) -> list[str]:
    return "".join(sign if sign not in string.punctuation.replace("_", "") else " " for sign in text.lower()).split()


class Page:
    """A page with one part of it marked, as a notebook shows it: the lines around it, and how many are left out."""

    def __init__(self, text: str, found: Found | None):
        self.text, self.found = text, found

    def _parts(self) -> tuple[str, str, str]:
        start, end = (self.found.start, self.found.end) if self.found else (0, 0)
        before, after = self.text[:start].split("\n"), self.text[end:].split("\n")
        above, below = len(before) - 1 - IN_SIGHT, len(after) - 1 - IN_SIGHT
        head = [f"[{above} lines]", *before[above:]] if above > 1 else before
        tail = [*after[: IN_SIGHT + 1], f"[{below} lines]"] if below > 1 else after
        return "\n".join(head), self.text[start:end], "\n".join(tail)

    def __repr__(self) -> str:
        before, answer, after = self._parts()
        return f"{before}>>>{answer}<<<{after}" if answer else before + after

    def _repr_html_(self) -> str:
        before, answer, after = map(html.escape, self._parts())
        marked = f'<b style="{MARK}">{answer}</b>' if answer else ""
        return f'<pre style="white-space: pre-wrap">{before}{marked}{after}</pre>'


def page(name: str) -> str:
    """The documentation of an object of an installed library by its dotted name, as `documentation.page`; or "made up".

    Raises:
        LookupError: there is no such object, or nothing is written about it.
    """
    return MADE_UP if name == "made up" else documentation.page(name)


def held_out(count: int, unseen: bool = False, seed: int = 0) -> list[Asked]:
    """Questions about pages that nobody learned from, made up in the size smoke; `unseen`: in wordings that are new."""
    task = SIZES["smoke" if profiles.name() == "smoke" else "cpu"].task
    return questions.load(task, "test", count, seed, unseen)
