"""Measure the experiment of notebook 02 with the solution's parts, and write data/results/02_positional_encoding.json.

From the root of the repository: COURSE_PROFILE=cpu python solutions/02_positional_encoding/record.py
"""

import dataclasses
import platform
import sys
import time
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])  # not this folder: its notebook.py would hide Jupyter's

import torch

from autograder import course
from autograder.author import build
from utils.experiments import extrapolation, profiles

NAME = Path(__file__).resolve().parent.name


def main() -> None:
    """Run the code cells of the solution up to the table of all runs, and record it."""
    entry = course.NotebookEntry(name=NAME, title=NAME)
    cells = [cell for cell in build.solution_notebook(course.load(), entry).cells if cell.cell_type == "code"]
    namespace, began = {"__name__": "__main__"}, time.perf_counter()
    for cell in cells:
        if cell.id != "setup" and "runs" not in namespace:
            exec(compile(cell.source, cell.id, "exec"), namespace)
    runs = namespace["runs"]
    made = {
        "profile": profiles.name(),
        "command": f"COURSE_PROFILE={profiles.name()} python solutions/{NAME}/record.py",
        "size": dataclasses.asdict(namespace["size"]),
        "seconds": round(time.perf_counter() - began),
        "threads": torch.get_num_threads(),
        "device": str(profiles.device()),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    extrapolation.record(runs, made)
    print(made, extrapolation.table(runs), sep="\n")


if __name__ == "__main__":
    main()
