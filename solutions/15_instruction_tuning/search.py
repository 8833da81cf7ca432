"""Choose the learning rate of each tuned arm in `utils/experiments/instruction_tuning/spec.py`.

Run it as `python solutions/15_instruction_tuning/search.py`.
Both arms get the same care. Each rate of RATES is tried with SEED and with all steps of the profile `cpu`. The score is
the negative loss of the answers to HELD_OUT instructions of each kind, the mean over all their tokens. They are
instructions to train on that the seed did not draw. No instruction to test on is read. `rate_search.search` says how
ranges are widened.
"""

import sys
import time
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).resolve().parents[2])  # not this folder: its notebook.py would hide Jupyter's

import torch

from autograder.author import rate_search
from data import instructions
from utils.experiments import instruction_tuning as tuning
from utils.experiments import profiles
from utils.experiments.instruction_tuning import train
from utils.experiments.instruction_tuning.spec import InstructionTuning

RATES = {tuning.FULL: (2e-5, 5e-5, 1e-4, 2e-4), tuning.LORA: (5e-4, 1e-3, 2e-3, 5e-3)}
SEED = 101  # no run that counts has it
HELD_OUT = 20  # instructions of each kind


def arms() -> dict[str, InstructionTuning]:
    """Every arm that has a rate of its own, by name."""
    every = tuning.experiments(profile="cpu")
    return {name: every[name] for name in RATES}


def held_out(experiment: InstructionTuning, seed: int) -> list[instructions.Instruction]:
    """The instructions to train on that a seed did not draw: HELD_OUT of each kind."""
    drawn = {one.question for one in train.learned(experiment, seed)}
    others = [one for one in instructions.load("train", instructions.most("train")) if one.question not in drawn]
    return [one for kind in instructions.KINDS for one in [some for some in others if some.kind == kind][:HELD_OUT]]


@torch.no_grad()
def losses(model: train.Decoder, words: train.Words, some: list[instructions.Instruction]) -> dict[str, float]:
    """The mean loss of the answers' tokens: of each kind, and of all under "score", with the sign turned."""
    model.eval()
    device, found, tokens, total = next(model.parameters()).device, dict[str, float](), 0, 0.0
    for kind in instructions.KINDS:
        asked = [one for one in some if one.kind == kind]
        row = train.packed([train.tokens_and_labels(one.question, one.answer, words.encode) for one in asked])
        found[kind] = train.tuning_loss(model, train.Row(*(part.to(device) for part in row))).item()
        count = int((row.targets != train.IGNORED).sum())
        tokens, total = tokens + count, total + count * found[kind]
    return {"score": -total / tokens, **found}


def trial(arm: str, settings: Mapping[str, float], seed: int) -> dict[str, Any]:
    """Tune once, and measure the loss of held-out answers."""
    one, words, began = replace(arms()[arm], lr=settings["lr"]), train.source(False), time.process_time()
    model, curve = train.tuned(one, words, seed)
    found = losses(model, words, held_out(one, seed)) | {"train_loss": curve[-1]["train_loss"]}
    return {name: round(value, 4) for name, value in found.items()} | {
        "cpu_seconds": round(time.process_time() - began, 1),
        "device": profiles.device_name(profiles.device()),
    }


def run(executor: Executor, path: Path = tuning.SEARCH) -> dict[str, dict[str, float]]:
    """The best rate of each arm."""
    axes = {name: {"lr": rates} for name, rates in RATES.items()}
    return rate_search.search(axes, [SEED], trial, path, executor)


if __name__ == "__main__":
    rate_search.main(__doc__, run)
