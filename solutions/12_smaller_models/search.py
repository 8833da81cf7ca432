"""Choose the learning rates of the ablations in `utils/experiments/sharing/spec.py`: one for all arms with layers.

Run it as `python solutions/12_smaller_models/search.py`.
Each rate is tried with SEEDS for the arms in TRIED: the two ends of sharing, the narrowest table, and the models with
fewer layers. They learn from the training text without its last sequences and are tested on these. The score is minus
their loss.
`rate_search.search` says how ranges are widened.
"""

import sys
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).resolve().parents[2])  # not this folder: its notebook.py would hide Jupyter's

from autograder.author import rate_search
from utils.experiments import profiles, sharing

SEEDS = (101,)  # no run that counts has one of these
RATES = (2e-3, 4e-3, 8e-3)
TRIED = (
    sharing.name_of(sharing.NOTHING),
    sharing.name_of(sharing.ALL),
    sharing.name_of(sharing.NOTHING, min(sharing.WIDTHS)),
    *sharing.SHALLOW,
)


def trial(arm: str, settings: Mapping[str, float], seed: int) -> dict[str, Any]:
    """Minus the loss on held-out training sequences."""
    run = replace(sharing.ablations()[arm], held_out=True, **settings).run_seed(seed)
    return {
        "score": round(-sharing.METRICS[0].of(run), 4),
        "train_loss": run.curve[-1]["train_loss"],
        "device": profiles.device_name(profiles.device()),
    }


def run(executor: Executor, path: Path = sharing.SEARCH) -> dict[str, dict[str, float]]:
    """The best rate of each arm in TRIED, by name."""
    return rate_search.search({name: {"lr": RATES} for name in TRIED}, SEEDS, trial, path, executor)


if __name__ == "__main__":
    rate_search.main(__doc__, run)
