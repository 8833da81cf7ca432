"""Record the runs that come with notebooks 05 and 06: `python solutions/05_seed_variance/record.py`.

Needs the packaged encoder and a data folder (COURSE_DATA). About an hour of an idle core; interrupt it and call it
again.
`--cluster local` trains on every core at a time; names of experiments limit it to these.
"""

import argparse
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])  # not this folder: its notebook.py would hide Jupyter's

import torch

from utils.experiments import rte
from utils.experiments.runs import run_seeds
from utils.experiments.seed_table import SeedTable

if __name__ == "__main__":
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("names", nargs="*", help="experiments, by default all")
    ask.add_argument("--cluster", help="local, or the address of a dask scheduler")
    given = ask.parse_args()
    torch.set_num_threads(1)
    tables = [(rte.experiments(one, "cpu"), rte.RECORDED) for one in (rte.SEED_VARIANCE, rte.ADAPTER_FUSION)]
    for experiments, folder in [*tables, (rte.on_sick(), rte.RECORDED_ON_SICK)]:
        runs = {
            name: run_seeds(experiment, rte.RECORDED_SEEDS, folder, cluster=given.cluster)
            for name, experiment in experiments.items()
            if name in (given.names or experiments)
        }
        if runs:
            print(SeedTable(runs))
