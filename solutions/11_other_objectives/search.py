"""Choose the rate at which each arm of `utils/experiments/spans/spec.py` learns to answer questions.

Run it as `python solutions/11_other_objectives/search.py`.
Each rate is tried with each of SEEDS. Models fill in blanks of the training pages without one in eight, learn from
questions about these pages, and are tested on questions about the others. The score is the F1 of questions in known
wordings. The rate of filling in blanks is not searched. `rate_search.search` says how ranges are widened.
"""

import sys
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).resolve().parents[2])  # not this folder: its notebook.py would hide Jupyter's

from autograder.author import rate_search
from utils.experiments import profiles, spans

SEEDS = (101, 102)  # no run that counts has one of these
RATES = (1e-4, 2e-4, 5e-4, 1e-3)


def trial(arm: str, settings: Mapping[str, float], seed: int) -> dict[str, Any]:
    """The scores for questions about held-out training pages."""
    run = replace(spans.arms()[arm], held_out=True, questions_lr=settings["lr"]).run_seed(seed)
    return {
        "score": round(spans.METRICS[0].of(run), 3),
        "new_wordings": round(spans.METRICS[1].of(run), 3),
        "train_loss": run.curve[-1]["train_loss"],
        "device": profiles.device_name(profiles.device()),
    }


def run(executor: Executor, path: Path = spans.SEARCH) -> dict[str, dict[str, float]]:
    """The best rate of each arm, by name."""
    return rate_search.search({name: {"lr": RATES} for name in spans.HIDDEN}, SEEDS, trial, path, executor)


if __name__ == "__main__":
    rate_search.main(__doc__, run)
