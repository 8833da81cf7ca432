"""Summaries of the recorded runs, which students get in their place: what tables and pictures show, no predictions.

With the predictions of honest runs, example by example, a student could mix runs that nobody trained. So what is shown
of recorded runs is computed beforehand, into one file for each folder of runs, and that file is released.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from utils.experiments.experiment import Experiment, Run

FOLDER = "summaries"  # beside the folder of results
COMPARED = (
    *("first", "second", "metric", "seeds", "examples", "difference", "by_seed", "by_example", "crossed"),
    *("ahead", "effect", "p"),
)  # the columns of comparisons: names of two experiments and a metric, then fields of `seed_table.Comparison`
Comparisons = Mapping[tuple[str, str, str], dict[str, Any]]  # by both names and the metric's


@dataclass(frozen=True)
class Summary(Run):
    """A recorded run without predictions and logits, and what follows from these.

    Its metrics are in `numbers`; `labels` are there only if a metric's baseline is computed from them.
    """

    accuracy: float = math.nan  # what `Run` computes from predictions
    degenerate: bool = False
    shown: dict[str, Any] = field(default_factory=dict)  # see `Experiment.shown`
    seeds: tuple[int, ...] = ()  # of all summaries of its experiment
    comparisons: Comparisons = field(default_factory=dict, repr=False, compare=False)  # of all these seeds


def path_of(recorded: Path) -> Path:
    """The file with the summaries of the runs in the folder `recorded`."""
    return recorded.parents[1] / FOLDER / f"{recorded.name}.json"


def load_summaries(experiments: Mapping[str, Experiment], recorded: Path) -> dict[str, list[Run]]:
    """The summaries of recorded runs by the name of their experiment, in the order of seeds; none where there are none.

    Args:
        recorded: the folder of the runs themselves, which need not be there.
    """
    path = path_of(recorded)
    known = _read(path) if path.is_file() else {}
    return {name: list(known.get(one.folder("").name, ())) for name, one in experiments.items()}


def load_recorded(experiments: Mapping[str, Experiment], recorded: Path) -> dict[str, list[Run]]:
    """As `load_summaries`, without the experiments of which there are none."""
    return {name: some for name, some in load_summaries(experiments, recorded).items() if some}


@cache
def _read(path: Path) -> dict[str, list[Summary]]:
    """The summaries in a file, by the folder of their experiment."""
    content = json.loads(path.read_text())
    comparisons = {}
    for row in content["comparisons"]:
        values = dict(zip(COMPARED, row, strict=True))
        metric = values.pop("metric")
        ends = {key: tuple(value) for key, value in values.items() if type(value) is list}
        comparisons[values["first"], values["second"], metric] = values | ends
    return {
        folder: [
            Summary(
                experiment=one["experiment"],
                labels=one["labels"],
                predictions=[],
                logits=[],
                seeds=tuple(run["seed"] for run in one["runs"]),
                comparisons=comparisons,
                **{key: value for key, value in run.items() if key != "sha256"},
            )
            for run in one["runs"]
        ]
        for folder, one in content["experiments"].items()
    }
