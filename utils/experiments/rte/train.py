"""One run of an experiment on sentence pairs: the encoder, the batches, the training loop.

Faster than a general trainer for four reasons: batches hold pairs of similar length and are padded to
their own longest, the optimiser is fused, matrices are multiplied in bfloat16 where the processor does so, and
dropout draws 16 bits for each number instead of a float.
"""

import contextlib
import copy
import functools
import importlib.metadata
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F
from tqdm.auto import tqdm

from data import encoders, pairs
from data.documentation import cache_folder
from utils.experiments import profiles, student
from utils.experiments.experiment import DIGITS, Run
from utils.experiments.loops import adamw_groups, in_precision, run_of
from utils.experiments.rte.spec import OneSentence, PairExperiment
from utils.experiments.student import Own, instead
from utils.experiments.training import precision_of

POOL = 50  # batches of one pool are sorted by length, then shuffled
EVALUATION_BATCH = 64
PART_VALIDATION = 1000  # pairs; of a part only its weights are used
ENCODER = "encoder.safetensors"
# What `tiny` is pretrained on, in about two seconds: whose words are whose, and nothing about comparing sentences.
PRETRAINING = PairExperiment(
    "tiny's pretraining", f"made-up-{pairs.WORDS}", "tiny", "random", train_examples=1500, epochs=2, lr=3e-3, max_len=24
)
LIBRARIES = ("torch", "transformers", "adapters", "tokenizers")
DRAWS = 2**16  # values that one draw of `Dropout` can have
Step = Callable[[str], None]
Streams = Mapping[str, torch.Generator]


@dataclass(frozen=True)
class Encoded:
    """Pairs as the tokenizer sees them: token ids and token types per example, labels, in their order."""

    tokens: list[list[int]]
    types: list[list[int]]
    labels: list[int]
    classes: int
    pad_id: int

    def __len__(self) -> int:
        return len(self.labels)


def encode(loaded: pairs.Pairs, tokenizer: Any, max_len: int) -> Encoded:
    """`[CLS] first [SEP] second [SEP]`, the longer side cut where both exceed `max_len` tokens."""
    made = tokenizer(loaded.first, loaded.second, truncation="longest_first", max_length=max_len)
    tokens, types = made["input_ids"], made["token_type_ids"]

    def with_own(encode_pair: Own) -> list[tuple[list[int], list[int]]]:
        sides = (tokenizer(side, add_special_tokens=False)["input_ids"] for side in (loaded.first, loaded.second))
        special = tokenizer.cls_token_id, tokenizer.sep_token_id
        return [tuple(encode_pair(a, b, *special, max_len)) for a, b in zip(*sides, strict=True)]

    found = instead("encode_pair", with_own, lambda one: one == [*zip(tokens, types, strict=True)])
    if found is not None:
        tokens, types = ([*side] for side in zip(*found, strict=True))
    return Encoded(tokens, types, loaded.labels, len(loaded.classes), tokenizer.pad_token_id)


def read_by(experiment: PairExperiment, loaded: pairs.Pairs) -> pairs.Pairs:
    """The pairs as an experiment reads them: without the other sentence where it reads one."""
    if not isinstance(experiment, OneSentence):
        return loaded
    blank = [""] * len(loaded)
    if experiment.reads == "second":
        return replace(loaded, first=blank)
    return replace(loaded, second=blank)


def streams(experiment: PairExperiment, seed: int) -> Streams:
    """A random generator on the CPU for each of head, order and dropout; no two draw the same numbers.

    Exercise 5.2 says why: what one of them draws must not move the others.
    """
    made = {what: torch.Generator().manual_seed(own) for what, own in experiment.seeds_of(seed).items()}

    def same(found: Streams) -> bool:
        return {*found} == {*made} and all(torch.equal(found[one].get_state(), made[one].get_state()) for one in made)

    return instead("streams", lambda function: function(seed, varies=experiment.varies), same) or made


def schedule(step: int, warmup: int, total: int, peak: float) -> float:
    """The learning rate when `step` steps are done: 0 at the start, `peak` after `warmup`, 0 from `total` on.

    That of exercise 5.3, from the library.
    """
    return peak * _shape(warmup, total)(step)


@functools.cache
def _shape(warmup: int, total: int) -> Callable[[int], float]:
    from transformers import get_linear_schedule_with_warmup

    nobodys = torch.optim.SGD([torch.zeros(1)])
    return get_linear_schedule_with_warmup(nobodys, warmup, total).lr_lambdas[0]


class Dropout(nn.Module):
    """Dropout that draws from a generator of its own; torch's draws from the default one, as everything does.

    A number is dropped with probability p, rounded to a multiple of 1 / DRAWS, and divided by 1 - p otherwise.
    """

    def __init__(self, p: float, generator: torch.Generator):
        super().__init__()
        self.p, self.generator = round(p * DRAWS) / DRAWS, generator

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x of any shape on the generator's device -> the same, with dropout where the module is in training."""
        if not self.training or not self.p:
            return x
        words = torch.empty(-(-x.numel() // 4), dtype=torch.int64, device=x.device)
        drawn = words.random_(-(2**63), None, generator=self.generator).view(torch.int16)[: x.numel()].view(x.shape)
        return x * (drawn >= self.p * DRAWS - DRAWS // 2).to(x.dtype).div_(1 - self.p)


def own_dropout(model: nn.Module, generator: torch.Generator) -> None:
    """Let every dropout of `model` draw from `generator`, which lies where the model does."""
    for part in [*model.modules()]:
        for name, one in part.named_children():
            if isinstance(one, (nn.Dropout, Dropout)):
                setattr(part, name, Dropout(one.p, generator))


@contextlib.contextmanager
def drawing_from(generator: torch.Generator) -> Iterator[None]:
    """Torch's default generator on the CPU draws what `generator` would; afterwards both are as they were."""
    with torch.random.fork_rng(devices=()):
        torch.set_rng_state(generator.get_state())
        yield


def batches(encoded: Encoded, size: int, generator: torch.Generator) -> list[list[int]]:
    """The positions of one epoch's examples, in batches of similar length, all in random order.

    Every example occurs once. Within pools of POOL batches the examples are sorted by length, so that
    little is padded, and pools and batches are random.
    """
    order = torch.randperm(len(encoded), generator=generator).tolist()
    made = []
    for start in range(0, len(order), POOL * size):
        pool = sorted(order[start : start + POOL * size], key=lambda position: len(encoded.tokens[position]))
        made += [pool[first : first + size] for first in range(0, len(pool), size)]
    return [made[place] for place in torch.randperm(len(made), generator=generator).tolist()]


def collate(encoded: Encoded, positions: Sequence[int], device: torch.device) -> tuple[dict[str, Any], torch.Tensor]:
    """The model's inputs (B, T) and labels (B,) of some examples, padded to the longest of them."""
    longest = max(len(encoded.tokens[position]) for position in positions)
    shape = (len(positions), longest)
    tokens = torch.full(shape, encoded.pad_id)
    types, mask = torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.long)
    for row, position in enumerate(positions):
        length = len(encoded.tokens[position])
        tokens[row, :length] = torch.tensor(encoded.tokens[position])
        types[row, :length] = torch.tensor(encoded.types[position])
        mask[row, :length] = 1
    labels = torch.tensor([encoded.labels[position] for position in positions])
    inputs = {"input_ids": tokens, "token_type_ids": types, "attention_mask": mask}
    return {name: part.to(device, non_blocking=True) for name, part in inputs.items()}, labels.to(device)


def steps_of(experiment: PairExperiment, examples: int) -> int:
    """How many steps a run of `experiment` takes on so many training examples."""
    return experiment.epochs * -(-examples // experiment.batch)


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Trainable parameters for AdamW; biases and norms (one-dimensional) do not decay.

    Nor do the value matrices of a fusion: they are kept near the identity by a penalty, not near zero.
    """
    learning = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    spared = [learning[name] for name in learning if "adapter_fusion_layer" in name and name.endswith("value.weight")]
    return adamw_groups(learning.values(), weight_decay, spared)


def make_optimizer(model: nn.Module, experiment: PairExperiment) -> torch.optim.Optimizer:
    """AdamW on the trainable parameters of `model`, fused; the student's where it has the same groups."""
    groups = parameter_groups(model, experiment.weight_decay)
    made = torch.optim.AdamW(groups, lr=experiment.lr, betas=(0.9, 0.999), fused=True)

    def facts(optimizer: torch.optim.Optimizer) -> set[tuple[Any, ...]]:
        names = ("lr", "betas", "eps", "weight_decay", "amsgrad", "maximize")
        return {
            (id(one), *(group[name] for name in names))
            for group in optimizer.param_groups
            for one in group["params"]
            if one.requires_grad
        }

    found = instead(
        "make_optimizer",
        lambda function: function(model, experiment.lr),
        lambda one: type(one) is torch.optim.AdamW and facts(one) == facts(made),
    )
    for group in found.param_groups if found is not None else ():
        group["fused"] = True
    return found if found is not None else made


def learning_rates(experiment: PairExperiment, total: int) -> list[float]:
    """The rate of each of `total` steps. The student's `schedule` is asked too: another order of the same products
    may give another last digit, and then that of the course's counts.
    """
    warmup = round(experiment.warmup * total)

    def rates(one: Own) -> list[float]:
        return [float(one(step, warmup, total, experiment.lr)) for step in range(total)]

    made = rates(schedule)
    close = functools.partial(math.isclose, rel_tol=1e-9)
    instead("schedule", rates, lambda one: all(map(close, one, made)))
    return made


def _forward(model: nn.Module, encoded: Encoded, device: torch.device) -> Own:
    """From a model in training and a batch with labels to logits (B, C): the student's `pair_logits` if it is right.

    Right is what gives the same logits, with dropout and without, and leaves the model in its mode.
    """

    def course(model: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return model(**{name: part for name, part in batch.items() if name != "labels"}).logits

    if student.own("pair_logits") is None:
        return course
    inputs, labels = collate(encoded, range(min(4, len(encoded))), device)
    was_training = model.training

    @torch.no_grad()
    def both_ways(function: Own) -> list[torch.Tensor]:
        made = []
        for training in (True, False):
            model.train(training)
            with torch.random.fork_rng():
                torch.manual_seed(0)
                made.append(function(model, inputs | {"labels": labels}))
            if any(part.training is not training for part in model.modules()):
                raise RuntimeError("it changed the model's mode")
        return made

    wanted = both_ways(course)
    found = instead(
        "pair_logits", lambda one: (one, both_ways(one)), lambda made: all(map(torch.equal, made[1], wanted))
    )
    model.train(was_training)
    return found[0] if found is not None else course


def train(
    model: nn.Module,
    experiment: PairExperiment,
    generators: Streams,
    training: Encoded,
    validation: Encoded,
    precision: torch.dtype,
    on_step: Step = lambda what: None,
) -> tuple[list[torch.Tensor], list[dict[str, float]]]:
    """Train `model` in place: linear warm-up and decay, AdamW, gradients clipped to norm 1.

    What is minimised is cross-entropy, and for a fusion the penalty on its value matrices. `on_step` is called
    after each step with a few words. `generators` draw order and dropout, see `streams`.

    Returns:
        validation logits (examples, classes) after each epoch, on the CPU, and the curve, whose `train_loss` is the
        mean cross-entropy of the epoch's batches, with dropout and without the penalty.
    """
    device = next(model.parameters()).device
    optimizer = make_optimizer(model, experiment)
    total = steps_of(experiment, len(training))
    rates = learning_rates(experiment, total)
    forward = _forward(model, training, device)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    own_dropout(model, torch.Generator(device).manual_seed(generators["dropout"].initial_seed()))
    done = 0
    curve: list[dict[str, float]] = []
    tables = []
    for epoch in range(experiment.epochs):
        model.train()
        losses = torch.zeros((), device=device)  # no .item() a step: the host does not wait for the device
        made = batches(training, experiment.batch, generators["order"])
        for positions in made:
            inputs, labels = collate(training, positions, device)
            with in_precision(device, precision):
                loss = F.cross_entropy(forward(model, inputs | {"labels": labels}).float(), labels)
            losses += loss.detach()
            if experiment.method.endswith("fusion"):
                loss = loss + model.get_fusion_regularization_loss()  # type: ignore[operator]
            loss.backward()
            nn.utils.clip_grad_norm_(trained, 1.0)
            for group in optimizer.param_groups:
                group["lr"] = rates[done]
            optimizer.step()
            optimizer.zero_grad()
            done += 1
            on_step(f"epoch {epoch + 1} of {experiment.epochs}")
        logits = predict(model, validation, device, precision)
        tables.append(logits)
        gold = torch.tensor(validation.labels)
        point = {
            "train_loss": losses.item() / len(made),
            "loss": F.cross_entropy(logits, gold).item(),
            "accuracy": (logits.argmax(1) == gold).double().mean().item(),
        }
        curve.append({name: round(value, DIGITS + 1) for name, value in point.items()})
    return tables, curve


@torch.no_grad()
def predict(model: nn.Module, encoded: Encoded, device: torch.device, precision: torch.dtype) -> torch.Tensor:
    """Logits (examples, classes) in the examples' order, float32 on the CPU, rounded to DIGITS digits."""
    model.eval()
    order = sorted(range(len(encoded)), key=lambda position: len(encoded.tokens[position]))
    found = torch.empty(len(encoded), encoded.classes)
    for start in range(0, len(order), EVALUATION_BATCH):
        chosen = order[start : start + EVALUATION_BATCH]
        inputs, _ = collate(encoded, chosen, device)
        with in_precision(device, precision):
            found[chosen] = model(**inputs).logits.float().cpu()
    return (found.double() * 10**DIGITS).round().div(10**DIGITS).float()


def run_seed(
    experiment: PairExperiment,
    seed: int,
    *,
    device: torch.device | None = None,
    precision: str | None = None,
    folder: Path | str | None = None,
    on_step: Step = lambda what: None,
) -> Run:
    """Train once and predict the validation pairs.

    Args:
        seed: any integer from 0; decides what `experiment.varies` lists.
        device: where to train; by default `utils.experiments.profiles.device()`.
        precision: bfloat16 or float32, of matrix products; by default `precision_of(device)`. Weights stay float32.
        folder: of the data, if not in $COURSE_DATA or on the hub.

    Raises:
        FileNotFoundError, ImportError, OSError: data or weights are nowhere; says what to do.
    """
    device = device or profiles.device()
    products = {"bfloat16": torch.bfloat16, None: precision_of(device)}.get(precision, torch.float32)
    tokenizer = encoders.tokenizer(experiment.encoder)
    training, validation = (
        encode(read_by(experiment, pairs.load(experiment.task, split, folder, limit)), tokenizer, experiment.max_len)
        for split, limit in (("train", experiment.train_examples), ("validation", None))
    )
    started = time.perf_counter()
    generators = streams(experiment, seed)
    model = build(experiment, training.classes, generators["head"], device, products, folder)
    tables, curve = train(model, experiment, generators, training, validation, products, on_step)
    *epochs, rows = ([[round(value, DIGITS) for value in row] for row in table.tolist()] for table in tables)
    return run_of(
        experiment,
        seed,
        started,
        device,
        products,
        {name: importlib.metadata.version(name) for name in LIBRARIES},
        labels=validation.labels,
        predictions=[max(range(len(row)), key=row.__getitem__) for row in rows],
        logits=rows,
        curve=curve,
        epochs=epochs,
    )


def build(
    experiment: PairExperiment,
    classes: int,
    generator: torch.Generator,
    device: torch.device,
    precision: torch.dtype,
    folder: Path | str | None = None,
) -> Any:
    """The model of an experiment, ready to train on `device`; whatever is new in it is drawn from `generator`.

    Whatever its method, it has the same head on the state of [CLS], the adapters library's own: dropout, a linear map
    of the encoder's width, tanh, dropout, a linear map to the classes. Experiments that it comes after are run first,
    with seed 0, or taken from the cache.
    """
    kept = [part(one, device, precision, folder) for one in experiment.after]
    pretrained = experiment.start == "pretrained"
    tiny = part(PRETRAINING, device, precision) if pretrained and experiment.encoder == "tiny" else None
    with encoders.quiet(), drawing_from(generator):  # adapters warns of inactive ones while it activates them
        model: Any = encoders.adapter_model(experiment.encoder, pretrained)
        for path in (tiny, *(kept if experiment.method == "full" else ())):
            if path is not None:
                model.bert.load_state_dict(load_file(path / ENCODER))
        if experiment.method == "full":
            model.add_classification_head(experiment.task, num_labels=classes)
        elif experiment.method.endswith("fusion"):
            places = {one.task: _place(one, path) for one, path in zip(experiment.after, kept, strict=True)}
            instead("sources", lambda one: one({name: [name] for name in places}, experiment.task), [*places].__eq__)
            model = _composed(model, places, experiment.task, classes)
            if experiment.method == "equal fusion":
                keep_equal(model)
        elif experiment.method == "head":
            for one, path in zip(experiment.after, kept, strict=True):
                model.load_adapter(_place(one, path), load_as=one.task, with_head=False)
                model.set_active_adapters(one.task)
            model.add_classification_head(experiment.task, num_labels=classes)
            for name, parameter in model.named_parameters():
                parameter.requires_grad = name.startswith(f"heads.{experiment.task}.")
        else:
            for one, path in zip(experiment.after, kept, strict=True):
                model.load_adapter(_place(one, path), load_as=experiment.task, with_head=False)
            if not experiment.after:
                model.add_adapter(experiment.task, config="seq_bn")
            model.add_classification_head(experiment.task, num_labels=classes)
            model.train_adapter(experiment.task)
            wanted = learning_modules(model)
            parts = [part for name, part in model.named_modules() if name.endswith(f".adapters.{experiment.task}")]
            parts += [model.heads[experiment.task]]
            instead("train_only", lambda one: one(model, parts), lambda _: learning_modules(model) == wanted)
            for name, parameter in model.named_parameters():
                parameter.requires_grad = name in wanted
    model.active_head = experiment.task
    return model.to(device)


def compose(model: Any, folders: Mapping[str, str], head: str, classes: int) -> None:
    """Load adapters, fuse them, add a head, and make fusion and head ready to train: exercise 6.4."""
    from adapters.composition import Fuse

    for name, place in folders.items():
        model.load_adapter(place, load_as=name, with_head=False)
    setup = Fuse(*folders)
    model.add_adapter_fusion(setup)
    model.add_classification_head(head, num_labels=classes)
    model.train_adapter_fusion(setup)


def keep_equal(model: nn.Module) -> None:
    """Let a fusion weigh its sources equally for good: queries and keys are 0, and so is their gradient.

    A gradient of a query is a multiple of the keys, and the other way round. They are not frozen: then torch would
    multiply them batch by batch, and a step on a CPU would take six times as long.
    """
    for name, parameter in model.named_parameters():
        if "adapter_fusion_layer" in name and (".query." in name or ".key." in name):
            nn.init.constant_(parameter, 0)


def _composed(model: Any, folders: Mapping[str, str], head: str, classes: int) -> Any:
    """What `compose` makes of `model`; the student's work where it ends at the same weights and the same setup."""
    other = copy.deepcopy(model) if student.own("compose") else None
    state = torch.get_rng_state()
    compose(model, folders, head, classes)

    def with_own(function: Own) -> Any:
        torch.set_rng_state(state)
        function(other, dict(folders), head, n_classes=classes)
        return other

    def same(found: Any) -> bool:
        theirs, ours = found.state_dict(), model.state_dict()
        alike = {*theirs} == {*ours} and all(torch.equal(theirs[name], ours[name]) for name in ours)
        setups = [(str(one.active_adapters), one.active_head, learning_modules(one)) for one in (found, model)]
        return alike and setups[0] == setups[1]

    return instead("compose", with_own, same) or model


def learning_modules(model: nn.Module) -> set[str]:
    """The names of the parameters that learn."""
    return {name for name, parameter in model.named_parameters() if parameter.requires_grad}


def part(
    experiment: PairExperiment, device: torch.device, precision: torch.dtype, folder: Path | str | None = None
) -> Path | None:
    """The folder with what `experiment` hands on to others, trained with seed 0 if the cache lacks it.

    Returns:
        None for a published adapter, which is in a folder already, or is fetched from the hub by the adapters library.
    """
    if experiment.method == "published":
        return None
    path = cache_folder() / "parts" / f"{experiment.digest()}-{str(precision).removeprefix('torch.')}"
    if path.is_dir():
        return path
    tokenizer = encoders.tokenizer(experiment.encoder)
    training, validation = (
        encode(pairs.load(experiment.task, split, folder, limit), tokenizer, experiment.max_len)
        for split, limit in (("train", experiment.train_examples), ("validation", PART_VALIDATION))
    )
    generators = streams(experiment, 0)
    model = build(experiment, training.classes, generators["head"], device, precision, folder)
    if experiment.method != "untrained":
        with tqdm(total=steps_of(experiment, len(training)), desc=f"first, {experiment.name}") as bar:
            train(model, experiment, generators, training, validation, precision, lambda _: bar.update())
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as made:
        if experiment.method == "full":
            # Some share memory, which safetensors refuses.
            whole = {name: weight.cpu().clone() for name, weight in model.bert.state_dict().items()}
            save_file(whole, Path(made, ENCODER))
        else:
            model.save_adapter(made, experiment.task, with_head=False)
        with contextlib.suppress(OSError):  # another process was faster, with the same
            os.rename(made, path)
            os.mkdir(made)
    return path


def prepare(experiment: PairExperiment, folder: Path | str | None = None) -> None:
    """Make the part that `experiment` hands on, unless the cache has it, where and as `run_seed` would."""
    device = profiles.device()
    part(experiment, device, precision_of(device), folder)


def train_size(experiment: PairExperiment, folder: Path | str | None = None) -> int:
    """The number of training pairs of an experiment."""
    return len(pairs.load(experiment.task, "train", folder, experiment.train_examples))


def _place(experiment: PairExperiment, path: Path | None) -> str:
    """Where the adapters library finds the adapter of an experiment: a folder, or a name of the hub."""
    return str(path) if path else encoders.published_adapter(experiment.encoder, experiment.task)
