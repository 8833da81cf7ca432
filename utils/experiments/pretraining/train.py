"""One run of notebook 07's experiments: the text, what is asked, the training loop, and the losses of the test.

The model is transformers' `BertForMaskedLM`. Its head reads only the states that are asked for, which are few: most of
the time would go into logits that nobody looks at.
"""

import functools
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn
from torch.nn import functional as F
from tqdm.auto import tqdm

from data import documentation, encoders
from data.pairs import MADE_UP_WORDS, TOPICS
from utils.experiments import profiles, student
from utils.experiments.experiment import Run
from utils.experiments.loops import adamw_groups, fingerprint, in_precision, products_of, run_of, take_step
from utils.experiments.pretraining.spec import KINDS, PLACES, POINTS, Pretraining, Sized
from utils.experiments.training import precision_of, seed_everything

# Their versions are in constraints.txt, so that machines which keep to it have one text; Python's own are not.
LIBRARIES = ("numpy", "pandas", "scipy", "matplotlib", "torch", "transformers")
MADE_UP_SENTENCES, MADE_UP_LENGTH = 1500, 22  # words: with [CLS] and [SEP] one sequence of the size smoke
NOT_ASKED = -100
DECIMALS = 4
Asked = tuple[torch.Tensor, torch.Tensor]  # inputs (B, T) and labels (B, T)


@dataclass(frozen=True)
class TokenSequences:
    """Token ids of sequences (n, T), each begun by [CLS], to train on and to validate on, and what the ids mean."""

    train: torch.Tensor
    valid: torch.Tensor
    tokenizer: Any
    special: tuple[int, ...]
    mask_id: int
    vocab_size: int
    log_shares: torch.Tensor  # (vocab_size,), of each piece in the training text

    @property
    def fingerprint(self) -> str:
        """Eight digits that differ between texts."""
        return fingerprint((self.train, self.valid))


@functools.cache
def text(task: str, encoder: str, pieces: int | None, length: int, validation: int) -> TokenSequences:
    """The text of an experiment as its encoder's tokenizer cuts it, sentence after sentence, each ended by [SEP].

    Raises:
        ValueError: there are fewer validation sequences than `validation`.
        ImportError, OSError: the tokenizer is nowhere; says what to do.
    """
    tokenizer = encoders.tokenizer(encoder)
    sides = [
        _sequences(tokenizer, sentences, length)
        for sentences in (_made_up() if task == "made-up-text" else documentation.train_and_validation(None, LIBRARIES))
    ]
    if len(sides[1]) < validation:
        raise ValueError(f"the documentation is enough for {len(sides[1])} validation sequences, not for {validation}")
    size = len(tokenizer)
    counts = sides[0].flatten().bincount(minlength=size)
    counts[tokenizer.all_special_ids] = len(sides[0].flatten()) + 1  # they stay in any case
    kept = counts.argsort(descending=True, stable=True)[: pieces or size].sort().values
    number = torch.full((size,), int(torch.searchsorted(kept, tokenizer.unk_token_id)))
    number[kept] = torch.arange(len(kept))
    train, valid = (number[side] for side in sides)
    counted = train.flatten().bincount(minlength=len(kept)) + 0.1
    return TokenSequences(
        train,
        valid[:validation],
        tokenizer,
        tuple(number[tokenizer.all_special_ids].tolist()),
        int(number[tokenizer.mask_token_id]),
        len(kept),
        (counted / counted.sum()).log(),
    )


def _sequences(tokenizer: Any, sentences: Sequence[str], length: int) -> torch.Tensor:
    cut = tokenizer(list(sentences), add_special_tokens=False)["input_ids"]
    stream = torch.tensor([number for one in cut for number in (*one, tokenizer.sep_token_id)])
    rows = stream[: len(stream) // (length - 1) * (length - 1)].view(-1, length - 1)
    return torch.cat([torch.full((len(rows), 1), tokenizer.cls_token_id), rows], 1)


def _made_up() -> tuple[list[str], list[str]]:
    """Sentences of made-up words, to train on and to validate on: those of one are of one topic."""
    draw, sentences = random.Random(0), []
    for _ in range(MADE_UP_SENTENCES):
        words = MADE_UP_WORDS[draw.randrange(TOPICS) :: TOPICS]
        sentences.append(" ".join(draw.choices(words, k=MADE_UP_LENGTH)))
    return sentences[100:], sentences[:100]


def text_of(experiment: Pretraining) -> TokenSequences:
    """The text of an experiment, made once a session; without its validation sequences where a rate is chosen."""
    one = experiment
    known = text(one.task, one.encoder, one.pieces, one.length, one.validation)
    if isinstance(one, Sized) and one.held_out:
        return replace(known, train=known.train[: -one.validation], valid=known.train[-one.validation :])
    return known


def unigram_loss(experiment: Pretraining) -> float:
    """The mean loss at the validation places of a model that knows only the shares of the pieces, in nats."""
    labels = questions(experiment)[2]
    return -text_of(experiment).log_shares[labels].mean().item()


def questions(experiment: Pretraining) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Of every validation sequence what masked models read (3, n, T), where they are asked (n, 9), for what (n, 9).

    The places are drawn, always the same, among those that hold no special token. At the first PLACES of them stands
    [MASK], at the next ones their own token. A model that is asked about random tokens reads the sequence once more,
    with such at the last PLACES: beside a mask they cost who never met one, and would blur what masks cost.
    """
    known, generator = text_of(experiment), torch.Generator().manual_seed(0)
    order = torch.rand(known.valid.shape, generator=generator)
    order[torch.isin(known.valid, torch.tensor(known.special))] = 2.0
    places = order.argsort(1)[:, : len(KINDS) * PLACES]
    masked, _, changed = places.split(PLACES, dim=1)
    blanks = known.valid.scatter(1, masked, known.mask_id)
    drawn = torch.randint(known.vocab_size, changed.shape, generator=generator)
    return torch.stack([blanks, blanks, blanks.scatter(1, changed, drawn)]), places, known.valid.gather(1, places)


def hide(ids: torch.Tensor, known: TokenSequences, experiment: Pretraining, generator: torch.Generator) -> Asked:
    """What a masked model reads of `ids` (B, T), and its labels: 7.3, the student's where it draws the same numbers."""
    masked, changed, _ = experiment.split or (0.0, 0.0, 1.0)
    before = generator.get_state()
    draws = [torch.rand(ids.shape, generator=generator) for _ in range(2)]
    asked = draws[0].lt(experiment.chosen) & torch.isin(ids, torch.tensor(known.special), invert=True)
    shown = ids.clone()
    drawn = torch.randint(known.vocab_size, ids.shape, generator=generator)
    for low, high, new in ((0.0, masked, torch.tensor(known.mask_id)), (masked, masked + changed, drawn)):
        here = asked & draws[1].ge(low) & draws[1].lt(high)
        shown[here] = new.expand_as(ids)[here]
    made = shown, ids.masked_fill(~asked, NOT_ASKED)

    def with_own(function: student.Own) -> Asked:
        again = torch.Generator().manual_seed(0)
        again.set_state(before)
        how = {"p": experiment.chosen, "split": experiment.split, "generator": again}
        return function(ids.clone(), [*known.special], known.mask_id, known.vocab_size, **how)

    return _own("mask_tokens", with_own, lambda found: all(map(torch.equal, found, made))) or made


def _own(name: str, made_with: Any, same: Any) -> Any:
    """As `student.instead`; torch's default generator stays as it is."""
    if student.own(name) is None:
        return None
    with torch.random.fork_rng():
        return student.instead(name, made_with, same)


def build(experiment: Pretraining, known: TokenSequences) -> Any:
    """The model of an experiment: its encoder, and a fresh head, tied, whose bias knows the shares of the pieces.

    The head is that of exercise 7.7, the student's where it gives the same logits.
    """
    model = encoders.masked_model(
        experiment.encoder,
        experiment.layers,
        None if experiment.start == "pretrained" else experiment.width,
        known.vocab_size,
        experiment.length,
        experiment.heads if isinstance(experiment, Sized) else None,
    )
    head = model.cls.predictions
    with torch.no_grad():  # one that came with the encoder knows too much
        nn.init.normal_(head.transform.dense.weight, std=model.config.initializer_range)
        nn.init.zeros_(head.transform.dense.bias)
        head.transform.LayerNorm.reset_parameters()
        head.bias.copy_(known.log_shares)
    model.cls = _own("MLMHead", lambda kind: _filled(kind, model), lambda made: _same_head(made, model)) or model.cls
    return model


def _new(head: Any) -> list[nn.Parameter]:
    """What a head has besides the embeddings, in one order: the library's, or the student's."""
    inner = getattr(head, "predictions", None)
    parts = (head.dense, head.norm) if inner is None else (inner.transform.dense, inner.transform.LayerNorm)
    return [*parts[0].parameters(), *parts[1].parameters(), (inner or head).bias]


@torch.no_grad()
def _filled(kind: student.Own, model: Any) -> nn.Module:
    """The student's head with the numbers of the library's."""
    made = kind(model.bert.embeddings.word_embeddings)
    for mine, its in zip(_new(made), _new(model.cls), strict=True):
        mine.copy_(its)
    return made


@torch.no_grad()
def _same_head(made: nn.Module, model: Any) -> bool:
    """Whether it gives the same logits, and learns the same: the embeddings themselves, and what is new."""
    states = torch.randn(1, 7, model.config.hidden_size, generator=torch.Generator().manual_seed(0))
    table = model.bert.embeddings.word_embeddings.weight
    learns = {id(part) for part in made.parameters()} == {id(part) for part in (table, *_new(made))}
    return learns and torch.equal(made(states), model.cls(states))


def mean_loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The mean over the labels (1, n) of logits (1, n, V): exercise 7.6, the student's where it is equal."""
    made = F.cross_entropy(logits[0], labels[0])
    found = _own("masked_nll", lambda function: function(logits, labels), lambda one: torch.equal(one, made))
    return made if found is None else found


def states_of(model: Any, ids: torch.Tensor, causal: bool) -> torch.Tensor:
    """The last states (B, T, d) of `ids`; where causal, each sees itself and what comes before."""
    seen = torch.ones_like(ids)
    if causal:
        seen = seen[..., None].expand(-1, -1, ids.size(1)).tril()
    return model.bert(input_ids=ids, attention_mask=seen).last_hidden_state


def train(
    experiment: Pretraining,
    seed: int,
    device: torch.device,
    precision: torch.dtype,
    on_step: Callable[[str], None] = lambda what: None,
) -> tuple[Any, list[dict[str, float]]]:
    """A trained model, in evaluation mode, and the curve of its training loss: the means of POINTS equal parts."""
    known, causal = text_of(experiment), experiment.split is None
    seed_everything(3 * seed)  # the head, other new weights, and dropout
    order, masks = (torch.Generator().manual_seed(3 * seed + place) for place in (1, 2))
    model = build(experiment, known).to(device).train()
    trained = [*model.bert.parameters(), *_new(model.cls)]
    optimizer = _optimizer(model, experiment)
    schedule = transformers.get_linear_schedule_with_warmup(
        optimizer, round(experiment.warmup * experiment.steps), experiment.steps
    )
    batches, losses = _batches(len(known.train), experiment, order), torch.zeros(experiment.steps, device=device)
    for step, rows in enumerate(batches):
        ids = known.train[rows]
        if causal:
            labels = ids.masked_fill(torch.isin(ids, torch.tensor(known.special)), NOT_ASKED).roll(-1, 1)
            labels[:, -1] = NOT_ASKED
        else:
            ids, labels = hide(ids, known, experiment, masks)
        asked = (labels != NOT_ASKED).to(device)
        with in_precision(device, precision):
            logits = model.cls(states_of(model, ids.to(device), causal)[asked][None])
        loss = mean_loss(logits.float(), labels.to(device)[asked][None])
        take_step(loss, optimizer, schedule, clipped=trained)
        losses[step] = loss.detach()
        on_step(f"step {step + 1} of {experiment.steps}")
    means = [part.mean().item() for part in losses.tensor_split(POINTS)]
    return model.eval(), [{"train_loss": round(mean, DECIMALS)} for mean in means]


def _batches(count: int, experiment: Pretraining, generator: torch.Generator) -> list[torch.Tensor]:
    """The rows of each step: all in random order, then all again."""
    needed = experiment.steps * experiment.batch
    rounds = [torch.randperm(count, generator=generator) for _ in range(-(-needed // count))]
    return [*torch.cat(rounds)[:needed].split(experiment.batch)]


def _optimizer(model: Any, experiment: Pretraining) -> torch.optim.Optimizer:
    """AdamW; what is new in the head has a rate of its own, and biases and norms do not decay."""
    rates = {experiment.lr: [*model.bert.parameters()]}
    rates[experiment.head_lr] = [*rates.get(experiment.head_lr, ()), *_new(model.cls)]
    groups = [group for rate, some in rates.items() for group in adamw_groups(some, experiment.weight_decay, lr=rate)]
    return torch.optim.AdamW(groups, fused=True)


@torch.no_grad()
def losses(
    model: Any, experiment: Pretraining, device: torch.device, precision: torch.dtype, size: int = 64
) -> list[list[float]]:
    """The losses at the places of `questions`, in nats: for every validation sequence the sum of each kind."""
    causal, found = experiment.split is None, []
    inputs, places, labels = questions(experiment)
    for kind, (where, wanted) in enumerate(zip(places.split(PLACES, dim=1), labels.split(PLACES, dim=1), strict=True)):
        read = text_of(experiment).valid if causal else inputs[kind]
        sums = []
        for rows in torch.arange(len(read)).split(size):
            here = (where[rows] - int(causal)).to(device)  # from the left, the state before says what comes
            with in_precision(device, precision):
                states = states_of(model, read[rows].to(device), causal)
                logits = model.cls(states.gather(1, here[..., None].expand(-1, -1, states.size(-1))))
            each = F.cross_entropy(logits.float().transpose(1, 2), wanted[rows].to(device), reduction="none")
            sums.append(each.double().sum(1).cpu())
        found.append(torch.cat(sums))
    return torch.stack(found, 1).round(decimals=DECIMALS).tolist()


def run_seed(
    experiment: Pretraining,
    seed: int,
    *,
    precision: str | None = None,
    folder: Path | str | None = None,
    on_step: Callable[[str], None] = lambda what: None,
) -> Run:
    """Train once and test.

    Args:
        seed: any integer from 0.
        precision: bfloat16 or float32, of matrix products; by default what the device does best.
        folder: not used; the text is that of libraries on this machine.

    Raises:
        ImportError, OSError: the encoder is nowhere; says what to do.
    """
    device, known = profiles.device(), text_of(experiment)
    products = products_of(experiment, device, precision)
    began = time.perf_counter()
    model, curve = train(experiment, seed, device, products, on_step)
    versions = {"torch": torch.__version__, "transformers": transformers.__version__, "text": known.fingerprint}
    return run_of(
        experiment,
        seed,
        began,
        device,
        products,
        versions,
        predictions=losses(model, experiment, device, products),
        curve=curve,
    )


def trained(experiment: Pretraining, seed: int) -> tuple[Any, Any]:
    """Train the model of a run again, with a progress bar; it, a BertForMaskedLM, and its tokenizer.

    The model is on the CPU, and in evaluation mode.

    Raises:
        ImportError, OSError: the encoder is nowhere; says what to do.
        ValueError: the experiment has fewer pieces than its tokenizer.
    """
    known, device = text_of(experiment), profiles.device()
    if known.vocab_size != len(known.tokenizer):
        raise ValueError(f"{experiment.name}: its pieces are numbered otherwise than its tokenizer's")
    with tqdm(total=experiment.steps, desc=f"{experiment.name}, seed {seed}") as bar:
        model, _ = train(experiment, seed, device, precision_of(device), lambda what: bar.update())
    return model.cpu(), known.tokenizer
