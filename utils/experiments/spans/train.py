"""One run of `Spans`: pages and questions, what is hidden, both trainings, and the answers."""

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

from data import encoders, questions
from data.questions import Asked
from utils.experiments import profiles
from utils.experiments.experiment import Run
from utils.experiments.loops import adamw_groups, fingerprint, in_precision, last_states, products_of, run_of, take_step
from utils.experiments.spans.spec import DIGITS, NONE, POINTS, SPANS, Spans
from utils.experiments.training import seed_everything

HELD_OUT = 8  # one training page in so many, where rates are chosen
MEAN, LONGEST = 5, 10  # of the words of a span: a geometric distribution; longer ones are cut, not drawn again
LONGEST_ANSWER = 40  # pieces
ROWS = 256  # that are read together in the test
OnStep = Callable[[str], None]


# Pages and questions


@dataclass(frozen=True)
class Page:
    """A page as the tokenizer cuts it: pieces, where each stands, and the number of each one's word."""

    text: str
    ids: list[int]
    offsets: list[tuple[int, int]]
    words: list[int]


@dataclass(frozen=True)
class Pages:
    """The pages to learn from, and those to test on, by their text."""

    train: dict[str, Page]
    test: dict[str, Page]
    tokenizer: Any

    @property
    def fingerprint(self) -> str:
        """Eight digits that differ between texts."""
        return fingerprint([*self.train, *self.test])


@functools.cache
def pages(task: str, encoder: str) -> Pages:
    """The pages of a task, read once a session.

    Raises:
        Those of `documentation.pages` and of `encoders.tokenizer`.
    """
    tokenizer = encoders.tokenizer(encoder)
    if task == "documentation":
        sides = [[text for text, _ in questions.with_facts(validation)] for validation in (False, True)]
    else:
        draw = random.Random(0)
        sides = [[questions.made_up(draw).page for _ in range(count)] for count in (400, 50)]
    train, test = ({text: cut(text, tokenizer) for text in side} for side in sides)
    return Pages(train, test, tokenizer)


def cut(text: str, tokenizer: Any) -> Page:
    """Return a page as the tokenizer cuts it."""
    read = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    return Page(text, read["input_ids"], read["offset_mapping"], read.word_ids())


def asked(experiment: Spans, seed: int, wording: int | None) -> list[tuple[Asked, Page]]:
    """Questions with their pages: to learn from, or of a wording to test on, which are the same for all seeds."""
    one, known = experiment, pages(experiment.task, experiment.encoder)
    learning = wording is None
    if one.task != "documentation":
        some = questions.load(one.task, "train", one.questions if learning else one.test, seed if learning else 10**6)
        return [(ask, cut(ask.page, known.tokenizer)) for ask in some]
    if not one.held_out:
        split, count = ("train", one.questions) if learning else ("test", one.test)
        some = questions.load(one.task, split, count, seed if learning else 0, unseen=bool(wording))
        return [(ask, (known.train if learning else known.test)[ask.page]) for ask in some]
    late = {text for number, text in enumerate(known.train) if number % HELD_OUT == 0}
    count = one.questions if learning else one.test
    drawn = count * (2 if learning else 2 * HELD_OUT)
    some = questions.load(one.task, "train", drawn, seed if learning else 10**6, unseen=bool(wording))
    some = [ask for ask in some if (ask.page in late) is not learning][:count]
    return [(ask, known.train[ask.page]) for ask in some]


# Blanks


def stream_of(experiment: Spans) -> tuple[torch.Tensor, torch.Tensor]:
    """The pieces of the training pages one after the other, and the number of the word that each belongs to."""
    known, ids, words = pages(experiment.task, experiment.encoder), [], []
    stop, count = known.tokenizer.sep_token_id, 0
    for number, page in enumerate(known.train.values()):
        if experiment.held_out and number % HELD_OUT == 0:
            continue
        ids += [*page.ids, stop]
        words += [count + word for word in page.words] + [-1]
        count += 1 + max(page.words, default=0)
    return torch.tensor(ids), torch.tensor(words)


def hidden_pieces(words: torch.Tensor, share: float, draw: random.Random) -> list[int]:
    """Places that are hidden one by one, a share of all that may be. words: (T,), -1 where nothing may be hidden."""
    free = [place for place, word in enumerate(words.tolist()) if word >= 0]
    return sorted(draw.sample(free, max(1, round(share * len(free)))))


def hidden_spans(words: torch.Tensor, share: float, draw: random.Random) -> list[int]:
    """As `hidden_pieces`, in spans of whole words; the last one ends where the share is reached, in a word or not."""
    row = words.tolist()
    starts = [place for place, word in enumerate(row) if word >= 0 and (not place or row[place - 1] != word)]
    ends = [*starts[1:], len(row)]
    wanted = max(1, round(share * sum(word >= 0 for word in row)))
    found: set[int] = set()
    while len(found) < wanted:
        first, length = draw.randrange(len(starts)), 1
        while length < LONGEST and draw.random() > 1 / MEAN:
            length += 1
        for number in range(first, min(first + length, len(starts))):
            places = [place for place in range(starts[number], ends[number]) if row[place] >= 0]
            if not found.issuperset(places):
                found |= {*places[: wanted - len(found)]}
            if len(found) == wanted:
                break
    return sorted(found)


def filled_in(experiment: Spans, encoder: Any, seed: int, device: torch.device, products: torch.dtype) -> list[float]:
    """Train an encoder, in place, to fill in the blanks of rows of the pages; the loss of each step.

    The head is a linear map with a norm, tied to the table; only pieces that the pages have can be filled in. A hidden
    piece is [MASK] in four of five cases, a random piece or itself in the others; of a span all pieces are alike.
    """
    one, special = experiment, pages(experiment.task, experiment.encoder).tokenizer
    ids, words = stream_of(one)
    known = ids.unique()
    number = torch.zeros(int(known.max()) + 1, dtype=torch.long)
    number[known] = torch.arange(len(known))
    shares = ids.unique(return_counts=True)[1].float()
    width, room = encoder.config.hidden_size, one.length - 2
    dense = nn.Linear(width, width)
    head = nn.Sequential(dense, nn.GELU(), nn.LayerNorm(width)).to(device)
    nn.init.normal_(dense.weight, std=0.02)
    bias = nn.Parameter((shares / shares.sum()).log().to(device))
    table, known = encoder.embeddings.word_embeddings, known.to(device)
    learning = [*encoder.parameters(), *head.parameters(), bias]
    optimizer = torch.optim.AdamW(adamw_groups(learning, 0.01), lr=one.lr)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, one.steps // 10, one.steps)
    draw, losses = random.Random(f"blanks {seed}"), torch.zeros(one.steps, device=device)
    hide = hidden_spans if one.hidden == SPANS else hidden_pieces
    encoder.train(mode=True)
    for step in range(one.steps):
        read, places = [], []
        for row in range(one.batch):
            start = draw.randrange(len(ids) - room)
            mine, part = ids[start : start + room].clone(), words[start : start + room]
            there = hide(part, one.share, draw)
            write_over(mine, there, one.hidden == SPANS, special.mask_token_id, draw, ids)
            read.append(torch.cat([torch.tensor([special.cls_token_id]), mine, torch.tensor([special.sep_token_id])]))
            places += [(row, 1 + place, int(number[ids[start + place]])) for place in there]
        rows, columns, wanted = torch.tensor(places, device=device).T
        with in_precision(device, products):
            batch = torch.stack(read).to(device)
            states = encoder(input_ids=batch, attention_mask=torch.ones_like(batch)).last_hidden_state
            logits = head(states[rows, columns]) @ table.weight[known].T + bias
        loss = F.cross_entropy(logits.float(), wanted)
        take_step(loss, optimizer, schedule, clipped=learning)
        losses[step] = loss.detach()
    return losses.tolist()


def write_over(
    mine: torch.Tensor,
    there: Sequence[int],
    whole: bool,
    mask: int,
    draw: random.Random,
    ids: torch.Tensor,
) -> None:
    """Write over hidden pieces of a row, in place: whole spans alike, or each piece by itself."""
    earlier, chance = -2, 0.0
    for place in there:
        if not whole or place != earlier + 1:
            chance = draw.random()
        earlier = place
        if chance < 0.9:
            mine[place] = mask if chance < 0.8 else int(ids[draw.randrange(len(ids))])


# Questions


@dataclass(frozen=True)
class Row:
    """A question with a part of its page, and the first and last piece of the answer in it: 0 and 0 if not there."""

    question: list[int]
    part: list[int]
    first: int
    last: int


def rows_of(experiment: Spans, ask: Asked, page: Page, tokenizer: Any) -> list[Row]:
    """Parts of a page, each as long as a row has room beside the question; the next one begins in its middle."""
    question = tokenizer(ask.question, add_special_tokens=False)["input_ids"][: experiment.length // 3]
    room, end = experiment.length - 3 - len(question), ask.start + len(ask.text)
    inside = [place for place, (left, right) in enumerate(page.offsets) if left < end and ask.start < right]
    found = []
    for begin in range(0, max(1, len(page.ids) - room // 2), room // 2):
        part, shift = page.ids[begin : begin + room], len(question) + 2 - begin
        whole = inside and begin <= inside[0] and inside[-1] < begin + len(part)
        found.append(Row(question, part, inside[0] + shift if whole else 0, inside[-1] + shift if whole else 0))
    return found


def batch_of(rows: Sequence[Row], tokenizer: Any, device: torch.device) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """What the encoder reads of rows, and which pieces (B, T) are of their pages."""
    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    read = [[cls, *row.question, sep, *row.part, sep] for row in rows]
    width = max(map(len, read))
    ids = torch.tensor([[*row, *[tokenizer.pad_token_id] * (width - len(row))] for row in read])
    before = torch.tensor([len(row.question) + 2 for row in rows])[:, None]
    lengths = torch.tensor([len(row) for row in read])[:, None]
    at = torch.arange(width)
    kinds, page = (at >= before) & (at < lengths), (at >= before) & (at < lengths - 1)
    made = {"input_ids": ids, "token_type_ids": kinds.long(), "attention_mask": (at < lengths).long()}
    return {name: part.to(device) for name, part in made.items()}, page.to(device)


def answering(
    experiment: Spans, encoder: Any, out: nn.Linear, seed: int, device: torch.device, products: torch.dtype
) -> list[float]:
    """Train an encoder and its span head, in place, on questions; the loss of each step."""
    one, tokenizer = experiment, pages(experiment.task, experiment.encoder).tokenizer
    draw, rows = random.Random(f"rows {seed}"), []
    for ask, page in asked(one, seed, None):
        some = rows_of(one, ask, page, tokenizer)
        sides = [[row for row in some if bool(row.first) is there] for there in (False, True)]
        missing, there = sides
        rows.append(draw.choice(missing if not there or (missing and draw.random() < one.blank) else there))
    learning = [*encoder.parameters(), *out.parameters()]
    optimizer = torch.optim.AdamW(learning, one.questions_lr, weight_decay=0.01)
    batches = [rows[start : start + one.questions_batch] for start in range(0, len(rows), one.questions_batch)]
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, one.questions_lr, len(batches), pct_start=0.1)
    losses = torch.zeros(len(batches), device=device)
    encoder.train(mode=True)
    for step, some in enumerate(batches):
        read, _ = batch_of(some, tokenizer, device)
        with in_precision(device, products):
            states = encoder(**read).last_hidden_state
        logits = out(states.float()).masked_fill(read["attention_mask"][..., None] == 0, -torch.inf)
        places = torch.tensor([(row.first, row.last) for row in some], device=device)
        loss = F.cross_entropy(logits, places)  # over the pieces, of both ends: their mean
        take_step(loss, optimizer, schedule, clipped=learning)
        losses[step] = loss.detach()
    return losses.tolist()


@torch.no_grad()
def answers(
    experiment: Spans,
    encoder: Any,
    out: nn.Linear,
    some: Sequence[tuple[Asked, Page]],
    device: torch.device,
    products: torch.dtype,
) -> list[str]:
    """The best span of each question's page: its score is the highest above that of [CLS] in its part of the page."""
    tokenizer = pages(experiment.task, experiment.encoder).tokenizer
    parts = [rows_of(experiment, ask, page, tokenizer) for ask, page in some]
    flat = [(number, place, row) for number, rows in enumerate(parts) for place, row in enumerate(rows)]
    best: list[tuple[float, int, int, int]] = [(-torch.inf, 0, 0, 0)] * len(some)
    encoder.eval()
    for start in range(0, len(flat), ROWS):
        chunk = flat[start : start + ROWS]
        read, inside = batch_of([row for _, _, row in chunk], tokenizer, device)
        logits = out(last_states(encoder, read, device, products))
        first, last = (part.masked_fill(~inside, -torch.inf) for part in logits.unbind(-1))
        width = inside.size(1)
        allowed = torch.ones(width, width, dtype=torch.bool, device=device).triu().tril(LONGEST_ANSWER - 1)
        scores = (first[:, :, None] + last[:, None]).masked_fill(~allowed, -torch.inf).flatten(1)
        top = scores.max(1)
        margins = top.values - logits[:, 0].sum(-1)
        for (number, place, _), margin, at in zip(chunk, margins.tolist(), top.indices.tolist(), strict=True):
            best[number] = max(best[number], (margin, place, *divmod(at, width)))
    found = []
    for (ask, page), rows, (_, place, i, j) in zip(some, parts, best, strict=True):
        row = rows[place]
        room = experiment.length - 3 - len(row.question)
        shift = place * (room // 2) - len(row.question) - 2
        found.append(ask.page[page.offsets[i + shift][0] : page.offsets[j + shift][1]])
    return found


def scores_of(found: str, wanted: str) -> tuple[float, int]:
    """The F1 of the words of an answer, from 0 to 1, and whether it equals the right one, as SQuAD compares them.

    The F1 is 0 where the right answer has no words besides articles. SQuAD's is 1 if both answers have none.
    """
    from transformers.data.metrics import squad_metrics  # it imports scikit-learn, which takes seconds

    f1 = squad_metrics.compute_f1(wanted, found) if squad_metrics.get_tokens(wanted) else 0
    return round(float(f1), DIGITS), squad_metrics.compute_exact(wanted, found)


# Runs


def means_of(losses: Sequence[float]) -> list[dict[str, float]]:
    """The means of POINTS equal parts, as a curve."""
    parts = torch.tensor(losses).tensor_split(POINTS)
    return [{"train_loss": round(part.mean().item(), DIGITS)} for part in parts]


def run_seed(
    experiment: Spans,
    seed: int,
    *,
    precision: str | None = None,
    folder: Path | str | None = None,
    on_step: OnStep = lambda what: None,
) -> Run:
    """Fill in blanks, learn to answer, and answer the test questions.

    Args:
        folder: not used; the pages are those of libraries on this machine.

    Raises:
        Those of `pages`; ImportError: the encoder is not installed.
    """
    one, device = experiment, profiles.device()
    products, known, began = products_of(one, device, precision), pages(one.task, one.encoder), time.perf_counter()
    seed_everything(seed)
    encoder = encoders.ready_model(one.encoder)
    encoder.encoder.layer = encoder.encoder.layer[: one.layers]
    encoder.to(device)
    curve = []
    if one.hidden != NONE:
        curve += means_of(filled_in(one, encoder, seed, device, products))
        on_step("blanks")
    seed_everything(seed)  # so that all arms have one head, and questions are read with one row of dropout
    out = nn.Linear(encoder.config.hidden_size, 2)
    nn.init.normal_(out.weight, std=0.02)
    out.to(device)
    curve += means_of(answering(one, encoder, out, seed, device, products))
    on_step("questions")
    rows: list[list[Any]] = []
    for wording in (0, 1):
        some = asked(one, seed, wording)
        for (ask, _), found in zip(some, answers(one, encoder, out, some, device, products), strict=True):
            rows.append([wording, *scores_of(found, ask.text)])
    versions = {"torch": torch.__version__, "transformers": transformers.__version__, "text": known.fingerprint}
    return run_of(one, seed, began, device, products, versions, predictions=rows, curve=curve)
