"""One run of notebook 15's experiments: the model of notebook 14, LoRA, dialogues in a row, tuning, and the test."""

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from data import instructions, smollm
from utils.experiments import llama, profiles
from utils.experiments.experiment import Run
from utils.experiments.instruction_tuning.spec import BEFORE, CUT_OFF, LORA, OTHER_TEXT, InstructionTuning, Prompted
from utils.experiments.loops import fingerprint, run_of, take_step
from utils.experiments.training import seed_everything

OnStep = Callable[[str], None]
Past = list[tuple[torch.Tensor, torch.Tensor]]
IGNORED = -100
START, END = "<|im_start|>", "<|im_end|>"
ALPHABET = 200  # letters of the tiny model, by their number; its two special tokens follow


# The model of notebook 14, which is also told positions and who sees whom


class RMSNorm(nn.Module):
    """Exercise 14.1."""

    weight: nn.Parameter

    def __init__(self, d_model: int, eps: float):
        super().__init__()
        self.register_parameter("weight", nn.Parameter(torch.ones(d_model)))
        self.smallest = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From (..., d_model) to the same shape."""
        return F.rms_norm(x, self.weight.shape, self.weight, self.smallest)


def turned(x: torch.Tensor, positions: torch.Tensor, theta: float) -> torch.Tensor:
    """Exercise 14.2, for x (B, heads, T, d) at any positions (B, T): columns i and i + d/2 as one complex number."""
    half = x.size(-1) // 2
    angles = positions[..., None] * theta ** (-torch.arange(half, device=x.device) / half)
    pairs = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angles), angles)[:, None]
    return torch.cat([pairs.real, pairs.imag], dim=-1)


class Attention(nn.Module):
    """Exercise 14.3, with positions (B, T), and a mask `seen` (B, T, S) that is true where a query may look."""

    q_proj: nn.Linear
    k_proj: nn.Linear
    v_proj: nn.Linear

    def __init__(self, c: llama.Sizes):
        super().__init__()
        self.width, self.theta = c.d_model // c.n_heads, c.theta
        heads = {"q_proj": c.n_heads, "k_proj": c.n_kv_heads, "v_proj": c.n_kv_heads}
        for name, count in heads.items():
            self.add_module(name, nn.Linear(c.d_model, count * self.width, bias=False))
        self.out_proj = nn.Linear(c.d_model, c.d_model, bias=False)

    def forward(
        self, x: torch.Tensor, positions: torch.Tensor, seen: torch.Tensor, past: Any
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        """The output (B, T, d_model), and the keys and values of all tokens."""
        maps = (self.q_proj, self.k_proj, self.v_proj)
        queries, keys, values = (one(x).unflatten(-1, (-1, self.width)).transpose(1, 2) for one in maps)
        queries, keys = (turned(one, positions, self.theta) for one in (queries, keys))
        if past is not None:
            keys, values = (torch.cat(both, dim=2) for both in zip(past, (keys, values), strict=True))
        found = F.scaled_dot_product_attention(queries, keys, values, attn_mask=seen[:, None], enable_gqa=True)
        return self.out_proj(found.transpose(1, 2).reshape(x.shape)), (keys, values)


class SwiGLU(nn.Module):
    """Exercise 14.4."""

    gate: nn.Linear
    up: nn.Linear
    down: nn.Linear

    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        for name, n, m in (("gate", d_model, d_ff), ("up", d_model, d_ff), ("down", d_ff, d_model)):
            self.add_module(name, nn.Linear(n, m, bias=False))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From (..., d_model) to the same shape."""
        opened = F.silu(self.gate(x))
        return self.down(opened * self.up(x))


class Block(nn.Module):
    """Exercise 14.4."""

    def __init__(self, c: llama.Sizes):
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(c.d_model, c.eps), RMSNorm(c.d_model, c.eps)
        self.attention, self.mlp = Attention(c), SwiGLU(c.d_model, c.d_ff)

    def forward(self, x: torch.Tensor, *around: Any) -> tuple[torch.Tensor, Any]:
        """From (B, T, d_model) to the same shape, and what the attention keeps."""
        found, kept = self.attention(self.norm1(x), *around)
        middle = x + found
        return middle + self.mlp(self.norm2(middle)), kept


class Decoder(nn.Module):
    """The model of notebook 14 under the same names, for rows that hold several texts too."""

    def __init__(self, c: llama.Sizes):
        super().__init__()
        self.embedding = nn.Embedding(c.vocab_size, c.d_model)
        self.blocks, self.norm = nn.ModuleList(Block(c) for _ in range(c.n_layers)), RMSNorm(c.d_model, c.eps)
        self.head = nn.Linear(c.d_model, c.vocab_size, bias=False)
        if c.tied:
            self.head.weight = self.embedding.weight

    def states(
        self, tokens: torch.Tensor, past: Any = None, positions: Any = None, seen: Any = None
    ) -> tuple[torch.Tensor, Past]:
        """What goes into the head, (B, T, d_model), and the new past."""
        kept, T = 0 if past is None else past[0][0].size(2), tokens.size(1)
        if positions is None:
            positions = torch.arange(kept, kept + T, device=tokens.device).expand(len(tokens), T)
        if seen is None:
            seen = torch.ones(T, kept + T, dtype=torch.bool, device=tokens.device).tril(diagonal=kept)[None]
        x, all_kept = self.embedding(tokens), list[Any]()
        for block, earlier in zip(self.blocks, past or [None] * len(self.blocks), strict=True):
            x, pair = block(x, positions, seen, earlier)
            all_kept.append(pair)
        return self.norm(x), all_kept

    def forward(
        self, tokens: torch.Tensor, past: Any = None, positions: Any = None, seen: Any = None
    ) -> tuple[torch.Tensor, Past]:
        """Token numbers (B, T) and the past -> logits (B, T, V) and the new past.

        positions: (B, T); by default they go on after the past. seen: (B, T, S + T), true where a token may look; by
        default at itself and all that comes before.
        """
        x, all_kept = self.states(tokens, past, positions, seen)
        return self.head(x), all_kept


NAMES = {
    "input_layernorm": "norm1", "post_attention_layernorm": "norm2", "self_attn.o_proj": "attention.out_proj",
    **{f"self_attn.{one}_proj": f"attention.{one}_proj" for one in "qkv"},
    **{f"mlp.{one}_proj": f"mlp.{one}" for one in ("gate", "up", "down")},
}  # fmt: skip


def decoder(library: Any) -> Decoder:
    """The model of notebook 14 with the weights of a `LlamaForCausalLM` of transformers, in evaluation mode."""
    with torch.device("meta"):
        made = Decoder(llama.sizes(library))
    state = library.state_dict()
    found = {"embedding.weight": state["model.embed_tokens.weight"], "norm.weight": state["model.norm.weight"]}
    found["head.weight"] = state.get("lm_head.weight", found["embedding.weight"])
    for name, weight in state.items():
        layer, _, part = name.removeprefix("model.layers.").removesuffix(".weight").partition(".")
        if name.startswith("model.layers.") and part in NAMES:
            found[f"blocks.{layer}.{NAMES[part]}.weight"] = weight
    made.load_state_dict({name: weight.clone() for name, weight in found.items()}, assign=True)
    if llama.sizes(library).tied:
        made.head.weight = made.embedding.weight
    return made.eval()


# LoRA


class LoRALinear(nn.Module):
    """Exercise 15.1."""

    def __init__(self, linear: nn.Linear, rank: int, alpha: float):
        super().__init__()
        self.linear, self.scale = linear.requires_grad_(False), alpha / rank
        options: dict[str, Any] = {"dtype": linear.weight.dtype, "device": linear.weight.device}
        self.A = nn.Parameter(torch.empty(rank, linear.in_features, **options))
        self.B = nn.Parameter(torch.zeros(linear.out_features, rank, **options))
        reach = linear.in_features**-0.5
        nn.init.uniform_(self.A, -reach, reach)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From (..., in) to (..., out)."""
        return torch.add(self.linear(x), x @ self.A.mT @ self.B.mT, alpha=self.scale)


def add_lora(network: nn.Module, layers: Sequence[str], rank: int, alpha: float) -> None:
    """Exercise 15.3."""
    network.requires_grad_(False)
    for full, part in [*network.named_modules()]:
        where, _, own = full.rpartition(".")
        if own in layers and isinstance(part, nn.Linear):
            setattr(network.get_submodule(where), own, LoRALinear(part, rank, alpha))


# Dialogues


@dataclass(frozen=True)
class Words:
    """A model with its way from text to token numbers and back."""

    model: Decoder
    encode: Callable[[str], list[int]]
    decode: Callable[[Sequence[int]], str]


@cache
def source(made_up: bool) -> Words:
    """SmolLM2-135M in the layers of notebook 14, or a tiny model with random weights and letters for tokens.

    Raises:
        ImportError: SmolLM2 is not installed; says what to install.
    """
    if not made_up:
        words = smollm.tokenizer()
        encode = partial(words.encode, add_special_tokens=False)
        return Words(decoder(smollm.causal_model()), encode, words.decode)

    def letters(text: str) -> list[int]:
        pieces = text.replace(START, "\0").replace(END, "\1")
        return [ALPHABET + ord(one) if one in "\0\1" else ord(one) % ALPHABET for one in pieces]

    def decode(tokens: Sequence[int]) -> str:
        return "".join({ALPHABET: START, ALPHABET + 1: END}.get(one, chr(one)) for one in tokens)

    return Words(decoder(llama.tiny()), letters, decode)


def possible_profile() -> str:
    """The profile of this session; smoke where SmolLM2 is not installed, which is said."""
    return profiles.name() if llama.has_smollm() else "smoke"


def prompt_of(question: str) -> str:
    """A question in the model's template, up to where the answer begins."""
    return f"{START}user\n{question}{END}\n{START}assistant\n"


def tokens_and_labels(question: str, answer: str, encode: Callable[[str], list[int]]) -> tuple[list[int], list[int]]:
    """Exercise 15.4, for a question and an answer."""
    first, last, rest = encode(prompt_of(question)), encode(f"[{answer}]{END}"), encode("\n")
    return first + last + rest, [IGNORED] * len(first) + last + [IGNORED] * len(rest)


class Row(NamedTuple):
    """Several dialogues in one row: tokens, labels and positions (1, T), and who sees whom (1, T, T)."""

    ids: torch.Tensor
    targets: torch.Tensor
    positions: torch.Tensor
    seen: torch.Tensor


def packed(examples: Sequence[tuple[list[int], list[int]]]) -> Row:
    """Exercise 15.5."""
    lengths = [len(ids) for ids, _ in examples]
    ids = torch.cat([torch.tensor(one) for one, _ in examples])
    targets = torch.cat([torch.tensor([IGNORED, *one[1:]]) for _, one in examples])
    positions = torch.cat([*map(torch.arange, lengths)])
    seen = torch.block_diag(*(torch.ones(length, length).tril() for length in lengths)).bool()
    return Row(*(part.unsqueeze(0) for part in (ids, targets, positions, seen)))


def tuning_loss(model: Decoder, row: Row) -> torch.Tensor:
    """The mean loss of the answers' tokens. The head is asked about these alone, which saves a fifth of the time."""
    states, _ = model.states(row.ids, None, row.positions, row.seen)
    asked = row.targets[:, 1:] != IGNORED
    return F.cross_entropy(model.head(states[:, :-1][asked]), row.targets[:, 1:][asked])


def learned(experiment: InstructionTuning, seed: int) -> list[instructions.Instruction]:
    """The instructions of all steps, in their order; some come twice where there are too few of a kind."""
    count = experiment.steps * experiment.batch
    each = min(-(-count // len(instructions.KINDS)), instructions.most("train"))
    drawn = instructions.load("train", each, seed)
    return (drawn * (count // len(drawn) + 1))[:count]


def tune(experiment: InstructionTuning, words: Words, model: Decoder, seed: int, on_step: OnStep) -> list[Any]:
    """Tune a model in place; the training loss of each step."""
    device, asked = next(model.parameters()).device, learned(experiment, seed)
    learning = [part for part in model.parameters() if part.requires_grad]
    rule = torch.optim.AdamW(learning, lr=experiment.lr, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(rule, experiment.lr, total_steps=experiment.steps, pct_start=0.1)
    curve, batch = [], experiment.batch
    model.train()
    for step in range(experiment.steps):
        some = asked[step * batch : (step + 1) * batch]
        row = packed([tokens_and_labels(one.question, one.answer, words.encode) for one in some])
        loss = tuning_loss(model, Row(*(part.to(device) for part in row)))
        take_step(loss, rule, schedule, clipped=learning)
        curve.append({"step": step + 1, "train_loss": round(loss.item(), 5)})
        on_step(f"step {step + 1} of {experiment.steps}")
    return curve


def tuned(
    experiment: InstructionTuning, words: Words, seed: int, on_step: OnStep = lambda what: None
) -> tuple[Decoder, list[Any]]:
    """A tuned copy of the model, and the training loss of each step."""
    seed_everything(seed)
    model = copy.deepcopy(words.model).to(profiles.device())
    if experiment.method == LORA:
        add_lora(model, experiment.layers, experiment.rank, experiment.alpha)
    return model, tune(experiment, words, model.to(profiles.device()), seed, on_step)


# The test


def shots(experiment: Prompted, seed: int) -> list[instructions.Instruction]:
    """The examples that the model reads before each question."""
    return instructions.load("train", experiment.examples // len(instructions.KINDS), seed)


@torch.no_grad()
def answers(
    model: Decoder, prompts: Sequence[list[int]], most: int, end: int, context: Sequence[int] = ()
) -> list[list[int]]:
    """Greedy answers of at most so many tokens, up to and including the end token. Prompts of a length go together.

    All prompts follow `context`, which is read once.
    """
    model.eval()
    device, found = next(model.parameters()).device, [list[int]() for _ in prompts]
    kept: Any = model.states(torch.tensor([context], device=device))[1] if context else None
    for length in sorted({len(one) for one in prompts}):
        places = [place for place, one in enumerate(prompts) if len(one) == length]
        feed, past = torch.tensor([prompts[place] for place in places], device=device), None
        if kept is not None:
            past = [
                (keys.expand(len(places), -1, -1, -1), values.expand(len(places), -1, -1, -1)) for keys, values in kept
            ]
        for _ in range(most):
            states, past = model.states(feed, past)
            feed = model.head(states[:, -1]).argmax(-1, keepdim=True)
            for place, token in zip(places, feed[:, 0].tolist(), strict=True):
                if end not in found[place]:
                    found[place].append(token)
            if all(end in found[place] for place in places):
                break
    return found


@cache
def other_text(made_up: bool, windows: int, window: int) -> torch.Tensor:
    """Windows of Python's documentation topics, (windows, window), evenly spaced.

    Raises:
        ImportError: this Python was built without its documentation topics.
    """
    from pydoc_data.topics import topics

    pages = [source(made_up).encode(" ".join(page.split())[:4000]) for _, page in sorted(topics.items())]
    tokens = [token for page in pages for token in page]
    starts = torch.linspace(0, len(tokens) - window, windows).long().tolist()
    return torch.tensor([tokens[start : start + window] for start in starts])


@torch.no_grad()
def losses(model: nn.Module, text: torch.Tensor) -> list[float]:
    """The sum of the losses of each window of text, of all its tokens but the first."""
    model.eval()
    device, found = next(model.parameters()).device, []
    for part in text.split(8):
        part = part.to(device)
        logits, _ = model(part)
        each = F.cross_entropy(logits[:, :-1].transpose(1, 2), part[:, 1:], reduction="none")
        found += each.double().sum(1).tolist()
    return found


def printable(text: str) -> str:
    """A text on one line, with blanks for what cannot be printed."""
    return "".join(one if one.isprintable() else " " for one in text)


def tested(
    experiment: InstructionTuning, words: Words, model: Decoder, examples: Sequence[instructions.Instruction] = ()
) -> tuple[list[list[Any]], list[str]]:
    """The rows and labels of a run: answers to instructions to test on, after examples, and losses on other text."""
    asked, end = instructions.load("test", experiment.test), words.encode(END)[0]
    prompts = [words.encode(prompt_of(one.question)) for one in asked]
    context = [token for one in examples for token in tokens_and_labels(one.question, one.answer, words.encode)[0]]
    found = answers(model, prompts, experiment.most, end, context)
    rows: list[list[Any]] = []
    for one, tokens in zip(asked, found, strict=True):
        answer = words.decode([token for token in tokens if token != end]).strip()
        rows.append([one.kind, printable(answer) + ("" if end in tokens else CUT_OFF)])
    text = other_text(experiment.made_up, experiment.windows, experiment.window)
    rows += [[OTHER_TEXT, round(loss, 4), experiment.window - 1] for loss in losses(model, text)]
    return rows, [one.answer for one in asked] + [""] * len(text)


@cache
def before_tuning(experiment: InstructionTuning, device: torch.device) -> tuple[list[list[Any]], list[str]]:
    """What `tested` gives for the model as it came, which is the same for all seeds."""
    words = source(experiment.made_up)
    return tested(experiment, words, copy.deepcopy(words.model).to(device))


def run_seed(
    experiment: InstructionTuning,
    seed: int,
    *,
    precision: str | None = None,
    folder: Path | str | None = None,
    on_step: OnStep = lambda what: None,
) -> Run:
    """Tune once, in float32, answer the instructions to test on, and read other text.

    Raises:
        ImportError: SmolLM2 is not installed, or this Python has no documentation topics; says what to do.
    """
    device, began = profiles.device(), time.perf_counter()
    words, curve = source(experiment.made_up), list[Any]()
    if experiment.method == BEFORE:
        rows, labels = before_tuning(experiment, device)
    elif isinstance(experiment, Prompted):
        rows, labels = tested(experiment, words, copy.deepcopy(words.model).to(device), shots(experiment, seed))
    else:
        model, curve = tuned(experiment, words, seed, on_step)
        rows, labels = tested(experiment, words, model)
    text = other_text(experiment.made_up, experiment.windows, experiment.window)
    versions = {"torch": str(torch.__version__), "text": fingerprint([text])}
    return run_of(
        experiment, seed, began, device, torch.float32, versions, labels=labels, predictions=rows, curve=curve
    )
