"""One run of an experiment on sentence pairs: the encoder, the batches, the training loop.

Faster than a general trainer for three reasons: batches hold pairs of similar length and are padded to
their own longest, the optimiser is fused, and matrices are multiplied in bfloat16 where the processor does so.
"""

import contextlib
import importlib.metadata
import os
import platform
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F
from tqdm.auto import tqdm

from data import encoders, pairs
from data.documentation import cache_folder
from utils import profiles
from utils.experiment import DIGITS, Experiment, Run
from utils.training import seed_everything

POOL = 50  # batches of one pool are sorted by length, then shuffled
EVALUATION_BATCH = 64
PART_VALIDATION = 1000  # pairs; of a part only its weights are used
ENCODER = "encoder.safetensors"
LIBRARIES = ("torch", "transformers", "adapters", "tokenizers")
Step = Callable[[str], None]


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
    return Encoded(
        made["input_ids"], made["token_type_ids"], loaded.labels, len(loaded.classes), tokenizer.pad_token_id
    )


def batches(encoded: Encoded, size: int, seed: int) -> list[list[int]]:
    """The positions of one epoch's examples, in batches of similar length, all in random order.

    Every example occurs once. Within pools of POOL batches the examples are sorted by length, so that
    little is padded, and pools and batches are random.
    """
    draw = random.Random(seed)
    order = list(range(len(encoded)))
    draw.shuffle(order)
    made = []
    for start in range(0, len(order), POOL * size):
        pool = sorted(order[start : start + POOL * size], key=lambda position: len(encoded.tokens[position]))
        made += [pool[first : first + size] for first in range(0, len(pool), size)]
    draw.shuffle(made)
    return made


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


def precision_of(device: torch.device) -> torch.dtype:
    """bfloat16 where `device` multiplies in it natively (newer GPUs; CPUs with AVX512-BF16 or AMX), else float32."""
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float32
    capabilities = torch.cpu.get_capabilities()
    native = capabilities.get("avx512_bf16") or capabilities.get("amx_bf16")
    return torch.bfloat16 if native else torch.float32


def steps_of(experiment: Experiment, examples: int) -> int:
    """How many steps a run of `experiment` takes on so many training examples."""
    return experiment.epochs * -(-examples // experiment.batch)


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Trainable parameters for AdamW; biases and norms (one-dimensional) do not decay."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    decays = {True: weight_decay, False: 0.0}
    groups = [
        {"params": [one for one in trained if (one.dim() > 1) is wide], "weight_decay": decay}
        for wide, decay in decays.items()
    ]
    return [group for group in groups if group["params"]]


def train(
    model: nn.Module,
    experiment: Experiment,
    seeds: dict[str, int],
    training: Encoded,
    validation: Encoded,
    device: torch.device,
    precision: torch.dtype,
    on_step: Step = lambda what: None,
) -> tuple[list[torch.Tensor], list[dict[str, float]]]:
    """Train `model` in place: linear warm-up and decay, AdamW, gradients clipped to norm 1.

    `on_step` is called after each step with a few words. Dropout is drawn after seeding torch with
    `seeds["dropout"]`; the order of epoch e from `seeds["order"]` and e.

    Returns:
        validation logits (examples, classes) after each epoch, on the CPU, and the curve.
    """
    groups = parameter_groups(model, experiment.weight_decay)
    optimizer = torch.optim.AdamW(groups, lr=experiment.lr, betas=(0.9, 0.999), fused=True)
    total = steps_of(experiment, len(training))
    warm = max(1, round(experiment.warmup * total))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm, (total - step) / max(1, total - warm + 1))
    )
    trained = [parameter for group in groups for parameter in group["params"]]
    seed_everything(seeds["dropout"])
    curve: list[dict[str, float]] = []
    tables = []
    for epoch in range(experiment.epochs):
        model.train()
        losses = torch.zeros((), device=device)  # no .item() a step: the host does not wait for the device
        made = batches(training, experiment.batch, seeds["order"] * 1_000_003 + epoch)
        for positions in made:
            inputs, labels = collate(training, positions, device)
            with torch.autocast(device.type, precision, enabled=precision is not torch.float32):
                loss = F.cross_entropy(model(**inputs).logits.float(), labels)
            loss.backward()
            nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            losses += loss.detach()
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
        with torch.autocast(device.type, precision, enabled=precision is not torch.float32):
            found[chosen] = model(**inputs).logits.float().cpu()
    return (found.double() * 10**DIGITS).round().div(10**DIGITS).float()


def run_seed(
    experiment: Experiment,
    seed: int,
    *,
    device: torch.device | None = None,
    precision: torch.dtype | None = None,
    folder: Path | str | None = None,
    on_step: Step = lambda what: None,
) -> Run:
    """Train once and predict the validation pairs.

    Args:
        seed: any integer from 0; decides what `experiment.varies` lists.
        device: where to train; by default `utils.profiles.device()`.
        precision: of matrix products; by default `precision_of(device)`. Weights stay float32.
        folder: of the data, if not in $COURSE_DATA or on the hub.

    Raises:
        FileNotFoundError, ImportError, OSError: data or weights are nowhere; says what to do.
    """
    device = device or profiles.device()
    precision = precision or precision_of(device)
    tokenizer = encoders.tokenizer(experiment.encoder)
    training, validation = (
        encode(pairs.load(experiment.task, split, folder, limit), tokenizer, experiment.max_len)
        for split, limit in (("train", experiment.train_examples), ("validation", None))
    )
    started = time.perf_counter()
    seeds = experiment.seeds_of(seed)
    model = build(experiment, training.classes, seeds["head"], device, precision, folder)
    tables, curve = train(model, experiment, seeds, training, validation, device, precision, on_step)
    *epochs, rows = ([[round(value, DIGITS) for value in row] for row in table.tolist()] for table in tables)
    return Run(
        experiment=experiment.plain(),
        seed=seed,
        labels=validation.labels,
        predictions=[max(range(len(row)), key=row.__getitem__) for row in rows],
        logits=rows,
        curve=curve,
        seconds=round(time.perf_counter() - started, 6),
        device=name_of(device),
        precision=str(precision).removeprefix("torch."),
        versions={name: importlib.metadata.version(name) for name in LIBRARIES} | {"python": platform.python_version()},
        epochs=epochs,
    )


def name_of(device: torch.device) -> str:
    """What a run notes about where it ran."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type}, {torch.get_num_threads()} threads"


def build(
    experiment: Experiment,
    classes: int,
    seed: int,
    device: torch.device,
    precision: torch.dtype,
    folder: Path | str | None = None,
) -> Any:
    """The model of an experiment, ready to train on `device`; whatever is new in it is drawn from `seed`.

    Experiments that it comes after are run first, with seed 0, or taken from the cache.
    """
    kept = [part(one, device, precision, folder) for one in experiment.after]
    pretrained = experiment.start == "pretrained"
    seed_everything(seed)
    if experiment.method == "full":
        model: Any = encoders.classifier(experiment.encoder, classes, pretrained)
        for path in kept:
            if path is not None:
                model.bert.load_state_dict(load_file(path / ENCODER))
        return model.to(device)
    from adapters.composition import Fuse

    with encoders.quiet():  # train_adapter warns of adapters that are inactive while it activates them
        model = encoders.adapter_model(experiment.encoder, pretrained)
        names = [_load_adapter(model, one, path) for one, path in zip(experiment.after, kept, strict=True)]
        seed_everything(seed)
        if experiment.method == "fusion":
            setup = Fuse(*names)
            model.add_adapter_fusion(setup)
            model.add_classification_head(experiment.task, num_labels=classes)
            model.train_adapter_fusion(setup)
        else:
            model.add_adapter(experiment.task, config="seq_bn")
            model.add_classification_head(experiment.task, num_labels=classes)
            model.train_adapter(experiment.task)
    model.active_head = experiment.task
    return model.to(device)


def part(
    experiment: Experiment, device: torch.device, precision: torch.dtype, folder: Path | str | None = None
) -> Path | None:
    """The folder with what `experiment` hands on to others, trained with seed 0 if the cache lacks it.

    Returns:
        None for a published adapter, which the adapters library fetches from the hub itself.
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
    model = build(experiment, training.classes, 0, device, precision, folder)
    with tqdm(total=steps_of(experiment, len(training)), desc=f"first, {experiment.name}") as bar:
        train(
            model, experiment, experiment.seeds_of(0), training, validation, device, precision, lambda _: bar.update()
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as made:
        if experiment.method == "full":
            whole = {name: weight.cpu().contiguous() for name, weight in model.bert.state_dict().items()}
            save_file(whole, Path(made, ENCODER))
        else:
            model.save_adapter(made, experiment.task, with_head=False)
        with contextlib.suppress(OSError):  # another process was faster, with the same
            os.rename(made, path)
            os.mkdir(made)
    return path


def prepare(experiment: Experiment, folder: Path | str | None = None) -> None:
    """Make the part that `experiment` hands on, unless the cache has it, where and as `run_seed` would."""
    device = profiles.device()
    part(experiment, device, precision_of(device), folder)


def train_size(experiment: Experiment, folder: Path | str | None = None) -> int:
    """The number of training pairs of an experiment."""
    return len(pairs.load(experiment.task, "train", folder, experiment.train_examples))


def _load_adapter(model: Any, experiment: Experiment, path: Path | None) -> str:
    place = str(path) if path else encoders.PUBLISHED_ADAPTERS[experiment.task]
    return model.load_adapter(place, load_as=experiment.task, with_head=False)
