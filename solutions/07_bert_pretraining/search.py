"""Choose the learning rate of each model in `sizes` of `utils/experiments/pretraining/spec.py`.

Run it as `python solutions/07_bert_pretraining/search.py`.
Each rate is tried with SEEDS. Models learn from the training text without its last HELD_OUT sequences and are tested on
these. The score is minus their loss at `[MASK]`; a model that diverges counts as one that guesses among all pieces.
`rate_search.search` says how ranges are widened.
"""

import math
import sys
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).resolve().parents[2])  # not this folder: its notebook.py would hide Jupyter's

from autograder.author import rate_search
from utils.experiments import pretraining, profiles

SEEDS = (101,)  # no run that counts has one of these
RATES = (2e-4, 5e-4, 1e-3, 2e-3, 5e-3)
HELD_OUT = 512  # sequences
GUESSING = round(-math.log(pretraining.LONG["pieces"]), 4)


def trial(arm: str, settings: Mapping[str, float], seed: int) -> dict[str, Any]:
    """Minus the loss at `[MASK]` of held-out training sequences."""
    rates = {"lr": settings["lr"], "head_lr": settings["lr"]}
    one = replace(pretraining.sizes()[arm], held_out=True, validation=HELD_OUT, **rates)
    run = one.run_seed(seed)
    loss, last = pretraining.METRICS[0].of(run), run.curve[-1]["train_loss"]
    return {
        "score": round(-loss, 4) if math.isfinite(loss) else GUESSING,
        "train_loss": last if math.isfinite(last) else None,
        "device": profiles.device_name(profiles.device()),
    }


def run(executor: Executor, path: Path = pretraining.SEARCH) -> dict[str, dict[str, float]]:
    """The best rate of each model, by name."""
    return rate_search.search({name: {"lr": RATES} for name in pretraining.sizes()}, SEEDS, trial, path, executor)


if __name__ == "__main__":
    rate_search.main(__doc__, run)
