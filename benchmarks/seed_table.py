"""How much faster a seed table is than with Hugging Face's Trainer, set up as `run_glue.py` does it.

    python benchmarks/seed_table.py --data-dir FOLDER [--seeds 2] [--epochs 3] [--float32]

Same encoder, data, batch, optimiser, schedule and number of epochs on both sides, pairs cut to 128 tokens; Trainer
pads every pair to that length and has transformers' own head, as run_glue.py does by default. Runs alternate, so
that a noisy machine disturbs both. With --float32 a third measure is ours in float32: what batches by length alone
bring. Nothing is downloaded.
"""

import argparse
import json
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from data import encoders, pairs
from utils.experiments import pair_training, profiles, rte
from utils.experiments.experiment import Experiment


def ours(experiment: Experiment, seed: int, folder: Path, precision: torch.dtype | None = None) -> tuple[float, float]:
    """Seconds, and accuracy on validation."""
    run = pair_training.run_seed(experiment, seed, folder=folder, precision=precision)
    return run.seconds, run.accuracy


def trainer(experiment: Experiment, seed: int, folder: Path) -> tuple[float, float]:
    """The same with transformers' Trainer and run_glue.py's settings."""
    from datasets import Dataset
    from transformers import BertForSequenceClassification, Trainer, TrainingArguments, default_data_collator

    tokenizer = encoders.tokenizer(experiment.encoder)

    def made(split: str, limit: int | None) -> Dataset:
        loaded = pairs.load(experiment.task, split, folder, limit)
        encoded = tokenizer(
            loaded.first, loaded.second, padding="max_length", max_length=experiment.max_len, truncation=True
        )
        return Dataset.from_dict({**encoded, "label": loaded.labels})

    training, validation = made("train", experiment.train_examples), made("validation", None)
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
        )
        model = BertForSequenceClassification.from_pretrained(encoders.folder(experiment.encoder), num_labels=2)
        whole = Trainer(
            model,
            arguments,
            train_dataset=training,
            eval_dataset=validation,
            data_collator=default_data_collator,
            compute_metrics=lambda found: {"accuracy": float((found.predictions.argmax(1) == found.label_ids).mean())},
        )
        whole.train()
        accuracy = [entry["eval_accuracy"] for entry in whole.state.log_history if "eval_accuracy" in entry][-1]
    return time.perf_counter() - started, accuracy


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--data-dir", type=Path, default=os.environ.get("COURSE_DATA"), help="holds glue/rte")
    ask.add_argument("--profile", choices=("cpu", "gpu"), default="gpu" if torch.cuda.is_available() else "cpu")
    ask.add_argument("--seeds", type=int, default=2)
    ask.add_argument("--epochs", type=int, default=3)
    ask.add_argument("--float32", action="store_true", help="a third measure: ours in float32")
    ask.add_argument("--examples", type=int, help="train on so many pairs only, for a quick look")
    given = ask.parse_args()
    if given.data_dir is None:
        ask.error("name the data folder: --data-dir, or COURSE_DATA")
    experiment = replace(
        rte.experiments(rte.SEED_VARIANCE, given.profile)["pretrained"],
        epochs=given.epochs,
        max_len=128,
        train_examples=given.examples,
    )
    device = profiles.device()
    steps = pair_training.steps_of(experiment, pair_training.train_size(experiment, given.data_dir))
    native = pair_training.precision_of(device)
    sides = {
        "Trainer, padded to 128, float32": lambda seed: trainer(experiment, seed, given.data_dir),
        f"ours, {str(native).removeprefix('torch.')}": lambda seed: ours(experiment, seed, given.data_dir),
    }
    if given.float32 and native is not torch.float32:
        sides["ours, float32"] = lambda seed: ours(experiment, seed, given.data_dir, torch.float32)
    found = {name: [] for name in sides}
    for seed in range(1, given.seeds + 1):
        for name, side in sides.items():
            found[name].append(side(seed))
            print(f"seed {seed}, {name}: {found[name][-1][0]:.1f} s, accuracy {found[name][-1][1]:.4f}", flush=True)
    seconds = {name: float(np.mean([one[0] for one in runs])) for name, runs in found.items()}
    scores = {name: [one[1] for one in runs] for name, runs in found.items()}
    first, second, *_ = sides
    print(f"\n| {pair_training.name_of(device)} | s for {given.epochs} epochs | steps/s | times Trainer | accuracy |")
    print("|---|---|---|---|---|")
    for name in sides:
        row = (f"{seconds[name]:.1f}", f"{steps / seconds[name]:.2f}", f"{seconds[first] / seconds[name]:.2f}")
        print(f"| {name} | {' | '.join(row)} | {np.mean(scores[name]):.4f} |")
    answer = {
        "device": pair_training.name_of(device),
        "speedup": round(seconds[first] / seconds[second], 2),
        "accuracy_ours": round(float(np.mean(scores[second])), 4),
        "accuracy_trainer": round(float(np.mean(scores[first])), 4),
        "std_ours": round(float(np.std(scores[second], ddof=1)), 4) if given.seeds > 1 else None,
    }
    if given.float32:
        answer["speedup_float32"] = round(seconds[first] / seconds[list(sides)[-1]], 2)
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
