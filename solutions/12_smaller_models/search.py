"""Choose the learning rate of each arm of notebook 12's ablations in `utils/experiments/sharing/spec.py`.

Run it as `python solutions/12_smaller_models/search.py`.
Each rate is tried with each of SEEDS. Models learn from the training text without its last HELD_OUT sequences and are
tested on the last ones. The score is minus the masked loss. `rate_search.search` says how ranges are widened.
"""

import argparse
import math
import multiprocessing
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).resolve().parents[2])  # not this folder: its notebook.py would hide Jupyter's

from autograder.author import rate_search
from utils.experiments import profiles, sharing
from utils.experiments.sharing import train
from utils.experiments.sharing.spec import PLACES

SEEDS = (101, 102)  # no run that counts has one of these
RATES = (1e-3, 2e-3, 4e-3)
HELD_OUT = 512  # sequences


def axes() -> dict[str, dict[str, Sequence[float]]]:
    """What is tried of each arm."""
    return {name: {"lr": RATES} for name in sharing.ablations()}


def trial(arm: str, settings: Mapping[str, float], seed: int) -> dict[str, Any]:
    """Minus the masked loss on the held-out sequences."""
    one, device = replace(sharing.ablations()[arm], **settings), profiles.device()
    whole = train.text_of(one)
    known = replace(whole, train=whole.train[:-HELD_OUT], valid=whole.train[-HELD_OUT:])
    model, curve = train.trained(one, seed, device, known)
    loss = sum(train.losses_of(model, known, device)) / (HELD_OUT * PLACES)
    return {
        "score": round(-loss, 4) if math.isfinite(loss) else -99.0,
        "train_loss": curve[-1]["train_loss"],
        "device": profiles.device_name(device),
    }


def run(executor: Executor, path: Path = sharing.SEARCH) -> dict[str, float]:
    """The best rate of each arm, by name."""
    best = rate_search.search(axes(), SEEDS, trial, path, executor)
    return {name: settings["lr"] for name, settings in best.items()}


def main() -> None:
    """Try what was not tried yet, and print the best rates."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--processes", type=int, default=1)
    given = ask.parse_args()
    with ProcessPoolExecutor(given.processes, multiprocessing.get_context("fork")) as executor:
        print(run(executor))


if __name__ == "__main__":
    main()
