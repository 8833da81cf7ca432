"""Measure the experiment of notebook 04 with the solution's parts, and write data/results/04_head_swapping.json.

From the root of the repository, for each task of `transfer.TASKS` that this machine has the data for:
COURSE_PROFILE=cpu COURSE_TASK=documentation python solutions/04_head_swapping/record.py
"""

import dataclasses
import os
import platform
import sys
import time
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])  # not this folder: its notebook.py would hide Jupyter's

import torch
import transformers

from autograder import course
from autograder.author import build
from utils.experiments import profiles, transfer

NAME = Path(__file__).resolve().parent.name


def states_kept() -> int:
    """How many files COURSE_STATES holds; a number that never comes twice where it names no folder."""
    named = os.environ.get("COURSE_STATES")
    return len(list(Path(named).glob("*.pt"))) if named else -time.monotonic_ns()


def main() -> None:
    """Run the code cells of the solution up to the table of all runs, and record it."""
    entry = course.NotebookEntry(name=NAME, title=NAME)
    cells = [cell for cell in build.solution_notebook(course.load(), entry).cells if cell.cell_type == "code"]
    namespace, began, before = {"__name__": "__main__"}, time.perf_counter(), states_kept()
    for cell in cells:
        if cell.id != "setup" and "runs" not in namespace:
            exec(compile(cell.source, cell.id, "exec"), namespace)
    size = namespace["size"]
    command = f"COURSE_PROFILE={profiles.name()} COURSE_TASK={size.task} python solutions/{NAME}/record.py"
    made = {
        "profile": profiles.name(),
        "command": command,
        "base": namespace["source"].name,
        "size": dataclasses.asdict(size),
        "counts": {split: len(found) for split, found in namespace["task"].splits.items()},
        "majority": round(namespace["task"].majority(), 4),
        "seconds": round(time.perf_counter() - began),
        "states": "computed in these seconds" if states_kept() != before else "kept from an earlier session",
        "threads": torch.get_num_threads(),
        "device": str(profiles.device()),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    transfer.record(namespace["runs"], size.task, made)
    print(made, transfer.table(namespace["runs"]), sep="\n")


if __name__ == "__main__":
    main()
