"""How much faster a seed table is than with Hugging Face's Trainer, as `run_glue.py` sets it up and at its best.

    python benchmarks/seed_table.py --data-dir FOLDER [--seeds 2] [--epochs 3] [--float32]

Same encoder, data, batch, optimiser, schedule and number of epochs on all sides, pairs cut to 128 tokens, and
transformers' own head on the Trainer's. As run_glue.py does by default, Trainer pads every pair to 128 tokens and
computes in float32. At its best it pads a batch to its longest pair, groups pairs of similar length, computes in
bfloat16 where the machine does, evaluates in large batches, and has torch's fused attention and optimiser. Runs
alternate, so that a noisy machine disturbs all. With --float32 there is ours in float32 too. The last row is no
training: the matrix multiplications alone that our batches need, in our precision, measured in the same run.
Nothing is downloaded.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from data import encoders, pairs
from utils.experiments import profiles, rte
from utils.experiments.rte import train
from utils.experiments.rte.spec import PairExperiment

MAX_LEN = 128
SAMPLE = 24  # batches whose matrix multiplications are timed
REPEATS = 3  # of each; the quickest counts


def ours(experiment: PairExperiment, seed: int, folder: Path, precision: str | None = None) -> tuple[float, float]:
    """Seconds, and accuracy on validation."""
    run = train.run_seed(experiment, seed, folder=folder, precision=precision)
    return run.seconds, run.accuracy


def trainer(experiment: PairExperiment, seed: int, folder: Path, best: bool) -> tuple[float, float]:
    """The same with transformers' Trainer, with run_glue.py's settings or at its `best`."""
    from datasets import Dataset
    from transformers import BertForSequenceClassification, DataCollatorWithPadding, Trainer, TrainingArguments
    from transformers import default_data_collator as stack

    tokenizer = encoders.tokenizer(experiment.encoder)
    padding = {} if best else {"padding": "max_length"}

    def made(split: str, limit: int | None) -> Dataset:
        loaded = pairs.load(experiment.task, split, folder, limit)
        encoded = tokenizer(loaded.first, loaded.second, max_length=experiment.max_len, truncation=True, **padding)
        return Dataset.from_dict({**encoded, "label": loaded.labels})

    training, validation = made("train", experiment.train_examples), made("validation", None)
    settings: dict[str, Any] = {"optim": "adamw_torch"}
    if best:
        native = train.precision_of(profiles.device()) is torch.bfloat16
        settings = {"optim": "adamw_torch_fused", "group_by_length": True, "bf16": native}
        settings["per_device_eval_batch_size"] = train.EVALUATION_BATCH
    started = time.perf_counter()
    torch.manual_seed(seed)
    with tempfile.TemporaryDirectory() as output:
        arguments = TrainingArguments(
            output,
            seed=seed,
            per_device_train_batch_size=experiment.batch,
            learning_rate=experiment.lr,
            num_train_epochs=experiment.epochs,
            warmup_ratio=experiment.warmup,
            weight_decay=experiment.weight_decay,
            eval_strategy="epoch",
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            dataloader_pin_memory=torch.cuda.is_available(),
            use_cpu=not torch.cuda.is_available(),
            **settings,
        )
        model = BertForSequenceClassification.from_pretrained(
            encoders.folder(experiment.encoder), num_labels=2, attn_implementation="sdpa"
        )
        whole = Trainer(
            model,
            arguments,
            train_dataset=training,
            eval_dataset=validation,
            data_collator=DataCollatorWithPadding(tokenizer) if best else stack,
            compute_metrics=lambda found: {"accuracy": float((found.predictions.argmax(1) == found.label_ids).mean())},
        )
        whole.train()
        accuracy = [entry["eval_accuracy"] for entry in whole.state.log_history if "eval_accuracy" in entry][-1]
    return time.perf_counter() - started, accuracy


def multiplications(config: Any, size: int, length: int) -> list[tuple[int, int, int, int]]:
    """The matrix products (batch, rows, inner, columns) of one pass of an encoder over `size` texts of `length`."""
    width, inner, heads = config.hidden_size, config.intermediate_size, config.num_attention_heads
    tokens, of_head = size * length, width // heads
    maps = [*[(1, tokens, width, width)] * 4, (1, tokens, width, inner), (1, tokens, inner, width)]
    attention = [(size * heads, length, of_head, length), (size * heads, length, length, of_head)]
    return [*maps, *attention] * config.num_hidden_layers


def limit(experiment: PairExperiment, folder: Path, precision: torch.dtype, device: torch.device) -> float:
    """Seconds of nothing but the matrix products of one run: forward, and twice as many backward.

    A sample of an epoch's batches is timed; the others count by their number of operations.
    """
    tokenizer, config = encoders.tokenizer(experiment.encoder), encoders.adapter_model(experiment.encoder, True).config
    training, validation = (
        train.encode(pairs.load(experiment.task, split, folder, most), tokenizer, experiment.max_len)
        for split, most in (("train", experiment.train_examples), ("validation", None))
    )

    def shapes(encoded: Any, some: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
        return [(len(one), max(len(encoded.tokens[place]) for place in one)) for one in some]

    epoch = sorted(shapes(training, train.batches(training, experiment.batch, torch.Generator())))
    order = sorted(range(len(validation)), key=lambda place: len(validation.tokens[place]))
    size = train.EVALUATION_BATCH
    evaluated = shapes(validation, [order[start : start + size] for start in range(0, len(order), size)])

    def operations(shape: tuple[int, int]) -> int:
        return sum(batch * rows * inner * columns for batch, rows, inner, columns in multiplications(config, *shape))

    def seconds(shape: tuple[int, int]) -> float:
        """Of one pass forward."""
        made = [
            (
                torch.randn(batch, rows, inner, device=device, dtype=precision),
                torch.randn(batch, inner, columns, device=device, dtype=precision),
            )
            for batch, rows, inner, columns in dict.fromkeys(multiplications(config, *shape))
        ]
        times = {one: multiplications(config, *shape).count(one) for one in multiplications(config, *shape)}
        taken = []
        for _ in range(REPEATS):
            finish(device)
            started = time.perf_counter()
            for (left, right), count in zip(made, times.values(), strict=True):
                for _ in range(count):
                    torch.matmul(left, right)
            finish(device)
            taken.append(time.perf_counter() - started)
        return min(taken)

    sample = epoch[:: max(1, len(epoch) // SAMPLE)]
    rate = sum(map(seconds, sample)) / sum(map(operations, sample))
    return experiment.epochs * rate * (3 * sum(map(operations, epoch)) + sum(map(operations, evaluated)))


def finish(device: torch.device) -> None:
    """Wait until the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--data-dir", type=Path, default=os.environ.get("COURSE_DATA"), help="holds glue/rte")
    ask.add_argument("--profile", choices=("cpu", "gpu"), default="gpu" if torch.cuda.is_available() else "cpu")
    ask.add_argument("--seeds", type=int, default=2)
    ask.add_argument("--epochs", type=int, default=3)
    ask.add_argument("--float32", action="store_true", help="a fourth measure: ours in float32")
    ask.add_argument("--examples", type=int, help="train on so many pairs only, for a quick look")
    given = ask.parse_args()
    if given.data_dir is None:
        ask.error("name the data folder: --data-dir, or COURSE_DATA")
    experiment = replace(
        rte.experiments(rte.SEED_VARIANCE, given.profile)["pretrained"],
        epochs=given.epochs,
        max_len=MAX_LEN,
        train_examples=given.examples,
    )
    device = profiles.device()
    native = train.precision_of(device)
    name = str(native).removeprefix("torch.")
    folder = given.data_dir
    default, best, own = (
        "Trainer as run_glue.py, padded to 128, float32",
        f"Trainer at its best, {name}",
        f"ours, {name}",
    )
    sides = {
        default: lambda seed: trainer(experiment, seed, folder, best=False),
        best: lambda seed: trainer(experiment, seed, folder, best=True),
        own: lambda seed: ours(experiment, seed, folder),
    }
    if given.float32 and native is not torch.float32:
        sides["ours, float32"] = lambda seed: ours(experiment, seed, folder, "float32")
    found: dict[str, list[tuple[float, float]]] = {side: [] for side in sides}
    limits = []
    for seed in range(1, given.seeds + 1):
        for side, measure in sides.items():
            found[side].append(measure(seed))
            print(f"seed {seed}, {side}: {found[side][-1][0]:.1f} s, accuracy {found[side][-1][1]:.4f}", flush=True)
        limits.append(limit(experiment, folder, native, device))
    seconds = {side: float(np.mean([one[0] for one in runs])) for side, runs in found.items()}
    scores = {side: float(np.mean([one[1] for one in runs])) for side, runs in found.items()}
    least = float(np.mean(limits))
    steps = train.steps_of(experiment, train.train_size(experiment, folder))
    print(f"\n| {profiles.device_name(device)} | s for {given.epochs} epochs | steps/s | x run_glue.py | accuracy |")
    print("|---|---|---|---|---|")
    for side, taken in [*seconds.items(), (f"matrix products alone, {name}", least)]:
        row = (f"{taken:.1f}", f"{steps / taken:.2f}", f"{seconds[default] / taken:.2f}")
        print(f"| {side} | {' | '.join(row)} | {f'{scores[side]:.4f}' if side in scores else ''} |")
    answer = {
        "device": profiles.device_name(device),
        "speedup": round(seconds[default] / seconds[own], 2),
        "speedup_best": round(seconds[best] / seconds[own], 2),
        "times_limit": round(seconds[own] / least, 2),
        "accuracy_ours": round(scores[own], 4),
        "accuracy_trainer": round(scores[default], 4),
        "accuracy_best": round(scores[best], 4),
        "std_ours": round(float(np.std([one[1] for one in found[own]], ddof=1)), 4) if given.seeds > 1 else None,
    }
    if "ours, float32" in seconds:
        answer["speedup_float32"] = round(seconds[default] / seconds["ours, float32"], 2)
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
