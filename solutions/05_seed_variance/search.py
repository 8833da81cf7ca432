"""Choose the learning rate of each experiment in `utils/experiments/rte/spec.py`.

Run it as `python solutions/05_seed_variance/search.py`.
Every experiment gets the same budget: three RATES, one seed, its own number of epochs, its own training pairs without
HELD_OUT of them. What is compared is the accuracy on these, none of whose first sentences occurs among the others; the
validation pairs are not read. Prints one line for each run, keeps them in a file, and goes on where it was interrupted.
"""

import argparse
import json
import random
import sys
from dataclasses import replace
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])  # not this folder: its notebook.py would hide Jupyter's

import torch

from data import encoders, pairs
from data.documentation import cache_folder
from utils import files
from utils.experiments import profiles, rte
from utils.experiments.rte import train
from utils.experiments.rte.spec import PairExperiment
from utils.experiments.rte.train import Encoded

RATES = {"full": (5e-5, 1e-4, 2e-4), "adapter": (5e-4, 1e-3, 2e-3), "fusion": (1e-4, 3e-4, 1e-3)}
SEED = 0
HELD_OUT = 400  # pairs, at least


def split_by_premise(loaded: pairs.Pairs) -> tuple[list[int], list[int]]:
    """The positions of the pairs to train on, and of those that are held out; no first sentence is in both."""
    premises = sorted(set(loaded.first))
    random.Random(SEED).shuffle(premises)
    held_out: list[int] = []
    while len(held_out) < HELD_OUT:
        one = premises.pop()
        held_out += [place for place, premise in enumerate(loaded.first) if premise == one]
    rest = sorted({*range(len(loaded))} - {*held_out})
    return rest, sorted(held_out)


def chosen(encoded: Encoded, places: list[int]) -> Encoded:
    """Some examples of many."""
    return replace(
        encoded,
        tokens=[encoded.tokens[place] for place in places],
        types=[encoded.types[place] for place in places],
        labels=[encoded.labels[place] for place in places],
    )


def tried(experiment: PairExperiment) -> list[dict[str, float]]:
    """The curve of one run on the held-out pairs: train_loss, loss and accuracy after each epoch."""
    device = profiles.device()
    precision = train.precision_of(device)
    loaded = pairs.load(experiment.task, "train", limit=experiment.train_examples)
    every = train.encode(loaded, encoders.tokenizer(experiment.encoder), experiment.max_len)
    training, held_out = (chosen(every, places) for places in split_by_premise(loaded))
    generators = train.streams(experiment, SEED)
    model = train.build(experiment, every.classes, generators["head"], device, precision)
    return train.train(model, experiment, generators, training, held_out, device, precision)[1]


def main() -> None:
    """Try what was not tried yet, experiment by experiment."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("names", nargs="*", help="experiments, by default all")
    ask.add_argument("--rates", type=float, nargs="*", help="instead of those above")
    given = ask.parse_args()
    torch.set_num_threads(1)
    experiments = rte.experiments(rte.SEED_VARIANCE, "cpu") | rte.experiments(rte.ADAPTER_FUSION, "cpu")
    experiments |= rte.on_sick()
    for name, experiment in experiments.items():
        if name not in (given.names or experiments):
            continue
        for rate in given.rates or RATES[experiment.method]:
            one = replace(experiment, lr=rate)
            path = cache_folder() / "search" / f"{one.digest()}.json"
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                files.write(path, json.dumps(tried(one)))
            points = json.loads(path.read_text())
            shown = ", ".join(f"{point['accuracy']:.3f} ({point['train_loss']:.3f})" for point in points)
            print(f"{name}, rate {rate:g}: held-out accuracy (training loss) by epoch {shown}", flush=True)


if __name__ == "__main__":
    main()
