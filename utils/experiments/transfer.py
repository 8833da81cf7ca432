"""What a pretrained base is worth: bases, tasks and experiments of notebook 04.

An arm is `pretrained` or `scratch`: one architecture, the weights of a checkpoint or random ones. An experiment
is an arm and a number of training examples. The seed decides which examples are taken, their
order, dropout, and in the arm `scratch` the weights. The head, the model around it, the selection and
everything else that is an exercise comes from the notebook.
"""

import hashlib
import os
import random
import statistics
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch import nn
from torch.nn import functional as F

from data import documentation, lab_checkpoint, reviews, smollm
from utils.experiments import lab, profiles
from utils.experiments.experiment import ACCURACY, Experiment, Run, Shown
from utils.experiments.loops import run_of, take_step
from utils.experiments.runs import load_table
from utils.experiments.training import progress, seed_everything, shuffled

ALSO_RECORDED = {lab.RECORDED: lab.experiments}
ARMS = ("pretrained", "scratch")
SPLITS = ("train", "valid", "test")
TASKS = ("documentation", "polarity", "french_books")
LIBRARIES = ("python", "numpy", "pandas", "matplotlib", "scipy", "torch", "transformers")
RECORDED = Path(__file__).resolve().parents[2] / "data" / "results" / "head_swapping"
Example = tuple[Any, int]
Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Size:
    """How large the experiment is."""

    source: str  # tiny, smollm or lab
    task: str  # one of TASKS
    libraries: tuple[str, ...]  # of the task `documentation`
    examples: tuple[int, int, int]  # at most so many to train on, to select on and to test on
    some: tuple[int, ...]  # how many training examples to learn from, besides all of them
    networks: int  # different random bases in the arm scratch; seed s uses number s modulo this
    epochs: int
    batch: int
    lr: float
    max_len: int
    frozen: bool  # train the head alone, on states that are computed once


def size(profile: str | None = None, task: str = "") -> Size:
    """The size of a profile, by default of this session's; COURSE_TASK names another task (profiles cpu and gpu).

    Raises:
        ValueError: the task is none of TASKS.
    """
    task = task or os.environ.get("COURSE_TASK", "")
    if task and task not in TASKS:
        raise ValueError(f"COURSE_TASK is {task!r}; it can be {', '.join(TASKS)}")
    tiny = Size("tiny", TASKS[0], ("numpy", "matplotlib"), (120, 60, 60), (40,), 3, 5, 16, 1e-2, 24, True)
    small = Size("smollm", task or TASKS[0], LIBRARIES, (602, 210, 490), (100, 400), 3, 20, 32, 3e-4, 64, True)
    if small.task == "french_books":  # reviews are longer, so fewer of them, and two random networks
        small = replace(small, examples=(400, 150, 350), some=(100,), networks=2)
    lab = Size("lab", task or TASKS[2], LIBRARIES, (1600, 400, 2000), (100, 400), 5, 15, 16, 1e-4, 256, False)
    return {"smoke": tiny, "cpu": small, "gpu": lab}[profile or profiles.name()]


# Experiments


@dataclass(frozen=True)
class Transfer(Experiment):
    """An arm with a number of training examples; a run holds what was predicted of each test example."""

    arm: str
    examples: int
    size: Size
    # From the notebook: trains with this arm, number of examples and seed; what `select` reports, and the lesson.
    learn: Callable[[str, int, int], "tuple[Mapping[str, Any], Lesson]"] | None = field(
        default=None, compare=False, repr=False
    )

    def run_seed(
        self,
        seed: int,
        *,
        precision: str | None = None,
        folder: Path | str | None = None,
        on_step: Callable[[str], None] = lambda what: None,
    ) -> Run:
        """Train and select once, in float32.

        Raises:
            ValueError: `learn` is not given, or what it reports is not the accuracy of what was predicted.
        """
        if self.learn is None:
            raise ValueError("these experiments need the notebook's `learn`")
        began = time.perf_counter()
        report, lesson = self.learn(self.arm, self.examples, seed)
        run = run_of(
            self,
            seed,
            began,
            profiles.device(),
            torch.float32,
            {"torch": torch.__version__, "transformers": transformers.__version__},
            labels=lesson.labels,
            predictions=lesson.predictions,
            curve=[{"accuracy": round(value, 4)} for value in report["curve"]],
        )
        if abs(run.accuracy - report["test"]) > 1e-4:
            raise ValueError(f"`select` reports {report['test']:.4f}; the model it tested last has {run.accuracy:.4f}")
        on_step("trained and tested")
        return run


def experiments(
    notebook: str = "",
    profile: str | None = None,
    learn: Callable[[str, int, int], "tuple[Mapping[str, Any], Lesson]"] | None = None,
    task: str = "",
) -> dict[str, Transfer]:
    """Both arms with each number of training examples, in the size of a profile; `learn` is the notebook's."""
    chosen = size(profile, task)
    made = [
        Transfer(f"{arm}, {count} examples", chosen.task, arm, count, chosen, learn)
        for count in (*chosen.some, chosen.examples[0])
        for arm in ARMS
    ]
    return {one.name: one for one in made}


# Bases


@dataclass(frozen=True)
class Source:
    """Where the two arms take their base from.

    `state` is the state dict of the whole language model, `base.*` and `head.*`; `fresh(seed)` makes a
    base of the same architecture with random weights; `encode` makes token numbers of a text.
    """

    name: str
    state: Mapping[str, torch.Tensor]
    fresh: Callable[[int], nn.Module]
    encode: Callable[[str], list[int]]
    pad_id: int
    width: int


class Llama(nn.Module):
    """A `LlamaModel` of transformers as a base: tokens and mask (B, T) -> states (B, T, d_model)."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The states after the last norm; the mask is true at real tokens."""
        return self.model(input_ids=tokens, attention_mask=mask.long(), use_cache=False).last_hidden_state


def source(name: str) -> Source:
    """The source of that name: tiny (random, for tests of the machinery), smollm or lab.

    Raises:
        ImportError: smollm is not installed; says what to install.
        FileNotFoundError: the lab's files are nowhere and cannot be downloaded.
    """
    return {"tiny": _tiny, "smollm": _smollm, "lab": _lab}[name]()


def _llama(name: str, config: Any, state: Mapping[str, torch.Tensor] | None, encode: Any, pad_id: int) -> Source:
    from transformers import LlamaModel

    def fresh(seed: int) -> Llama:
        seed_everything(1000 + seed)
        return Llama(LlamaModel(config)).eval()

    if state is None:
        base = fresh(-1).state_dict()
        state = {f"base.{key}": value for key, value in base.items()}
        state["head.weight"] = base["model.embed_tokens.weight"]
    return Source(name, state, fresh, encode, pad_id, config.hidden_size)


def _tiny() -> Source:
    from transformers import LlamaConfig

    config = LlamaConfig(vocab_size=512, hidden_size=32, intermediate_size=48, num_hidden_layers=2)
    config.num_attention_heads, config.num_key_value_heads, config.head_dim = 4, 2, 8

    def encode(text: str) -> list[int]:
        return [1, *(2 + zlib.crc32(word.encode()) % 510 for word in text.split())]

    return _llama("a tiny random model", config, None, encode, 0)


def _smollm() -> Source:
    model: Any = smollm.causal_model()
    tokenizer = smollm.tokenizer()
    state = {f"base.{name}": value for name, value in model.state_dict().items() if name.startswith("model.")}
    state["head.weight"] = model.lm_head.weight.detach()
    return _llama("SmolLM2-135M", model.config, state, lambda text: tokenizer(text).input_ids, smollm.PAD)


def _lab() -> Source:
    state, numbers = lab_checkpoint.whole_state(), lab_checkpoint.dictionary()

    def fresh(seed: int) -> nn.Module:
        seed_everything(1000 + seed)
        return lab_checkpoint.empty_base(state)

    def encode(text: str) -> list[int]:  # the lab's reviews come as pieces, joined by spaces
        return lab_checkpoint.encode(text.split(), numbers)

    width = state["base.encoder.weight"].size(1)
    return Source("the lab's checkpoint", state, fresh, encode, lab_checkpoint.PAD, width)


# Tasks


@dataclass(frozen=True)
class Task:
    """Texts with labels, in three splits, and what the labels mean."""

    name: str
    classes: tuple[str, ...]
    splits: Mapping[str, list[tuple[str, int]]]

    def majority(self) -> float:
        """The share of the most frequent class in the test: what one gets without reading."""
        labels = [label for _, label in self.splits["test"]]
        return max(map(labels.count, set(labels))) / len(labels)


def task(size: Size, data_folder: Path | str | None = None) -> Task:
    """The task that `size` names, with at most as many examples as it says.

    Test examples share no source file with the others in `documentation`, and no text in `french_books`.

    Raises:
        FileNotFoundError: the task needs a data folder, and there is none; says what belongs there.
        ValueError: there are not enough sentences, or no such task.
    """
    train, valid, test = size.examples
    if size.task == "documentation":
        count, names = len(size.libraries), size.libraries
        known = documentation.labelled_sentences(names, (train + valid) // count)
        unseen = documentation.labelled_sentences(names, test // count, validation=True)
        return Task(size.task, names, dict(zip(SPLITS, (known[:train], known[train:], unseen), strict=True)))
    if size.task == "polarity":
        found = shuffled(reviews.polarity(data_folder), seed=0)
        cuts = (found[:train], found[train : train + valid], found[train + valid : train + valid + test])
        return Task(size.task, ("negative", "positive"), dict(zip(SPLITS, cuts, strict=True)))
    if size.task == "french_books":
        folder = reviews.data_folder(data_folder)
        files = folder / "cls_fr_books" if folder else None
        text: Callable[[list[str]], str] = " ".join if size.source == "lab" else reviews.plain
        splits = {}
        for split, limit in zip(SPLITS, size.examples, strict=True):
            found = [(text(pieces), label) for pieces, label in reviews.french_books(split, files)]
            splits[split] = shuffled(found, seed=0)[:limit]
        return Task(size.task, ("negative", "positive"), splits)
    raise ValueError(f"the task is {size.task!r}; it can be {', '.join(TASKS)}")


# Batches and states


class Given(nn.Module):
    """The base of a probe whose states are there already: it gives back what it is given."""

    def forward(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """States (B, d_model), unchanged; the mask is ignored."""
        return states


def stack(examples: Sequence[tuple[torch.Tensor, int]]) -> Batch:
    """A batch of pooled states (d_model) with their labels: states (B, d_model), a mask, labels (B,)."""
    states, labels = zip(*examples, strict=True)
    return torch.stack(states), torch.ones(len(states), 1, dtype=torch.bool), torch.tensor(labels)


def batches(
    examples: Sequence[Example], join: Callable[[Sequence[Example]], Batch], size: int, device: torch.device
) -> list[Batch]:
    """Cut `examples` into batches of `size` that `join` makes; lists are sorted by length first."""
    if not isinstance(examples[0][0], torch.Tensor):
        examples = sorted(examples, key=lambda example: len(example[0]))
    chunks = [examples[start : start + size] for start in range(0, len(examples), size)]
    made = (join(chunk) for chunk in chunks)
    return [(first.to(device), mask.to(device), labels.to(device)) for first, mask, labels in made]


def states_of(
    features: Callable[..., Any], base: nn.Module, pool: Callable[..., Any], made: Sequence[Batch], title: str
) -> list[tuple[torch.Tensor, int]]:
    """The examples of batches as pooled states with labels, by the notebook's `features`, with a progress bar.

    Where COURSE_STATES names a folder, they are kept there between sessions.
    """
    folder = os.environ.get("COURSE_STATES")
    store = Path(folder).expanduser() / f"{_fingerprint(base, made)}.pt" if folder else None
    if store and store.exists():
        states, labels = torch.load(store, weights_only=True)
    else:
        states, labels = features(base, pool, progress(made, title))
        if store:
            store.parent.mkdir(parents=True, exist_ok=True)
            torch.save((states.cpu(), labels.cpu()), store)
    return list(zip(states.float(), labels.tolist(), strict=True))


def standardised(splits: Mapping[str, list[tuple[torch.Tensor, int]]]) -> dict[str, list[tuple[torch.Tensor, int]]]:
    """The states of all splits, shifted and scaled so that each entry has mean 0 and spread 1 in train.

    A linear head could do that itself; it would take it many more steps.
    """
    train = torch.stack([state for state, _ in splits["train"]])
    mean, spread = train.mean(dim=0), train.std(dim=0) + 1e-6
    return {split: [((state - mean) / spread, label) for state, label in found] for split, found in splits.items()}


def choose(examples: Sequence[Example], count: int, seed: int) -> list[Example]:
    """`count` of `examples` in a random order, the same for the same seed."""
    return random.Random(seed).sample(list(examples), min(count, len(examples)))


class Lesson:
    """The batches of one run, and what `select` asks for: `train(model)`, and a `judge` made of an accuracy."""

    def __init__(
        self,
        data: Mapping[str, Sequence[Example]],
        join: Callable[[Sequence[Example]], Batch],
        count: int,
        seed: int,
        size: Size,
        device: torch.device,
    ):
        chosen = {**data, "train": choose(data["train"], count, seed)}
        self.made = {split: batches(found, join, size.batch, device) for split, found in chosen.items()}
        self.lr = size.lr
        self.optimizer: torch.optim.Optimizer | None = None
        self.predictions: list[int] = []  # of the test, by the model that was tested last

    def train(self, model: nn.Module) -> None:
        """One epoch over the training batches; AdamW, whose state lasts from epoch to epoch."""
        if self.optimizer is None:
            self.optimizer = torch.optim.AdamW(model.parameters(), lr=self.lr)
        model.train()
        for index in torch.randperm(len(self.made["train"])).tolist():  # an order that torch's seed decides
            given, mask, labels = self.made["train"][index]
            take_step(F.cross_entropy(model(given, mask), labels), self.optimizer)

    def judge(self, accuracy: Callable[[nn.Module, list[Batch]], float]) -> Callable[[nn.Module, str], float]:
        """A function of model and split that gives the accuracy there, and notes what is predicted of the test."""

        def judged(model: nn.Module, split: str) -> float:
            if split == "test":
                self.predictions = _predicted(model, self.made[split])
            return accuracy(model, self.made[split])

        return judged

    @property
    def labels(self) -> list[int]:
        """Those of the test examples, in the order of `predictions`."""
        return [label for _, _, labels in self.made["test"] for label in labels.tolist()]


@torch.no_grad()
def _predicted(model: nn.Module, made: Sequence[Batch]) -> list[int]:
    was_training = model.training
    model.eval()
    found = [guess for given, mask, _ in made for guess in model(given, mask).argmax(dim=-1).tolist()]
    model.train(was_training)
    return found


# Results


Lines = tuple[dict[str, list[float]], dict[str, tuple[list[float], list[float]]]]


def recorded(task: str) -> dict[str, list[Run]]:
    """The runs of a task that come with the course, profile cpu, by experiment; their card says how they were made."""
    return load_table(experiments(profile="cpu", task=task), RECORDED)


def counts_of(runs: Mapping[str, Sequence[Run]]) -> list[int]:
    """The numbers of training examples, in rising order."""
    return sorted({some[0].experiment["examples"] for some in runs.values()})


def pairs(runs: Mapping[str, Sequence[Run]]) -> list[tuple[str, str]]:
    """The names of scratch and pretrained, for each of `counts_of`."""
    name_of = {(some[0].experiment["arm"], some[0].experiment["examples"]): name for name, some in runs.items()}
    return [(name_of["scratch", count], name_of["pretrained", count]) for count in counts_of(runs)]


def curves(runs: Mapping[str, Sequence[Run]], count: int) -> Lines:
    """Mean validation accuracy by epoch in percent, arm by arm, and the lowest and highest of all seeds."""
    names = pairs(runs)[counts_of(runs).index(count)]
    return _lines(
        {
            arm: np.array([[100 * point["accuracy"] for point in run.curve] for run in runs[name]])
            for arm, name in zip(ARMS, reversed(names), strict=True)
        }
    )


def learning(runs: Mapping[str, Sequence[Run]], label: str = "") -> Lines:
    """Mean test accuracy in percent at each of `counts_of`, arm by arm, and the lowest and highest of all seeds."""
    return _lines(
        {
            f"{arm}{label}": np.array([[ACCURACY.of(run) for run in runs[pair[place]]] for pair in pairs(runs)]).T
            for arm, place in zip(ARMS, (1, 0), strict=True)
        }
    )


def _lines(found: Mapping[str, np.ndarray]) -> Lines:
    """Means and ranges over the seeds of tables (seeds, places)."""
    means = {name: table.mean(0).tolist() for name, table in found.items()}
    return means, {name: (table.min(0).tolist(), table.max(0).tolist()) for name, table in found.items()}


def best_epochs(runs: Mapping[str, Sequence[Run]]) -> dict[str, int]:
    """The median over the seeds of the epoch that was chosen: the earliest of the best on validation, from 1.

    All runs have as many epochs, so those with few examples take few steps: where the last epoch is the best, accuracy
    was still rising.
    """
    found = {name: [[point["accuracy"] for point in run.curve] for run in some] for name, some in runs.items()}
    return {
        name: statistics.median_low(curve.index(max(curve)) + 1 for curve in some_curves)
        for name, some_curves in found.items()
    }


def _fingerprint(base: nn.Module, made: Sequence[Batch]) -> str:
    """A name for these weights and these batches."""
    found = hashlib.sha256(str(type(base)).encode())
    for value in base.state_dict().values():
        found.update(str(value.double().sum().item()).encode())
    for tokens, mask, labels in made:
        for part in (tokens, mask, labels):
            found.update(part.cpu().numpy().tobytes())
    return found.hexdigest()[:20]


def also_shown() -> list[Shown]:
    """What the page of results shows of the runs that students do not make."""
    return [("The lab's curves: the whole model learns", lab.recorded(), (ACCURACY,), lab.questions())]
