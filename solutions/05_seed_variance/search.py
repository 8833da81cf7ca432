"""Choose the learning rate of each arm in `utils/experiments/rte/spec.py`.

Run it as `python solutions/05_seed_variance/search.py`.
Every arm gets the same care. Each rate of RATES is tried with both SEEDS at the arm's number of epochs, and with the
first seed at the other numbers of EPOCHS. Each seed has other held-out pairs of the target's training pairs. On RTE
these are at least HELD_OUT, none of whose first sentences occurs among the others. An arm with few pairs learns from
all of them, and is tested on HELD_OUT other training pairs. The rate is the one with the best mean accuracy on the
held-out pairs after the last epoch; the validation pairs are not read. Each run adds a row to `rte.SEARCH`, and a row
that is there is not run again.
"""

import argparse
import random
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])  # not this folder: its notebook.py would hide Jupyter's

from autograder.author.rate_search import Row, read_rows, write_rows
from data import encoders, pairs
from utils.experiments import profiles, rte
from utils.experiments.rte import train
from utils.experiments.rte.spec import PairExperiment
from utils.experiments.rte.train import Encoded

FULL = (1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3)
ADAPTER = (1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2)
FUSION = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
HEAD = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
RATES = {"full": FULL, "adapter": ADAPTER, "fusion": FUSION, "head": HEAD}
# Where the best rate was the last one, or the first one.
MORE = {
    "fusion of untrained adapters": (3e-2, 1e-1),
    "head": (1e-4,),
    "head on mnli": (1e-4,),
    "head on qnli": (1e-4, 1e-1),
    "head on sick": (1e-4,),
    "head, SICK": (1e-1,),
}
EPOCHS = {"full": (3, 5, 8), "adapter": (5, 10), "fusion": (5, 10), "head": (5,)}  # on RTE; on SICK 20
SEEDS = (101, 102)  # no run that counts has one of these
HELD_OUT = 400  # pairs, at least


def split(experiment: PairExperiment, every: pairs.Pairs, part: int) -> tuple[list[int], list[int]]:
    """The positions of the pairs to train on, and of those that are held out, which differ from part to part."""
    if experiment.train_examples is not None:
        first = experiment.train_examples + part * HELD_OUT
        return [*range(experiment.train_examples)], [*range(first, first + HELD_OUT)]
    premises = sorted(set(every.first))
    random.Random(0).shuffle(premises)
    places: dict[str, list[int]] = {premise: [] for premise in premises}
    for place, premise in enumerate(every.first):
        places[premise].append(place)
    held_out: list[int] = []
    for _ in range(part + 1):
        held_out = []
        while len(held_out) < HELD_OUT:
            held_out += places[premises.pop()]
    return sorted({*range(len(every))} - {*held_out}), sorted(held_out)


def selected(encoded: Encoded, places: list[int]) -> Encoded:
    """Some examples of many."""
    return replace(
        encoded,
        tokens=[encoded.tokens[place] for place in places],
        types=[encoded.types[place] for place in places],
        labels=[encoded.labels[place] for place in places],
    )


def tried(experiment: PairExperiment, seed: int) -> list[dict[str, float]]:
    """The curve of one run on the held-out pairs: train_loss, loss and accuracy after each epoch."""
    device = profiles.device()
    precision = train.precision_of(device)
    loaded = pairs.load(experiment.task, "train")
    every = train.encode(loaded, encoders.tokenizer(experiment.encoder), experiment.max_len)
    training, held_out = (selected(every, places) for places in split(experiment, loaded, SEEDS.index(seed)))
    generators = train.streams(experiment, seed)
    model = train.build(experiment, every.classes, generators["head"], device, precision)
    return train.train(model, experiment, generators, training, held_out, precision)[1]


def arms() -> dict[str, PairExperiment]:
    """Every arm that has a rate of its own, by name."""
    every = rte.experiments(rte.SEED_VARIANCE, "cpu") | rte.experiments(rte.ADAPTER_FUSION, "cpu")
    every |= {name: one for name, one in rte.controls().items() if name in rte.CHOSEN["rte"]}
    return every | rte.on_sick()


def trials(experiment: PairExperiment) -> Iterator[tuple[PairExperiment, int]]:
    """What is tried of an arm, and with which seed."""
    for seed in SEEDS:
        for rate in sorted((*RATES[experiment.method], *MORE.get(experiment.name, ()))):
            yield replace(experiment, lr=rate), seed
    for epochs in EPOCHS[experiment.method] if experiment.task == "rte" else ():
        for rate in RATES[experiment.method] if epochs != experiment.epochs else ():
            yield replace(experiment, lr=rate, epochs=epochs), SEEDS[0]


def key(experiment: PairExperiment, seed: int) -> tuple[str, float, int, int]:
    """What a row is known by."""
    return experiment.name, experiment.lr, experiment.epochs, seed


def recorded() -> dict[tuple[str, float, int, int], Row]:
    """The rows that are recorded, by their key."""
    return {(row["arm"], row["rate"], row["epochs"], row["seed"]): row for row in read_rows(rte.SEARCH)}


def means(experiment: PairExperiment, rows: Mapping[tuple[str, float, int, int], Row]) -> dict[float, float]:
    """The mean held-out accuracy of each rate, over both seeds, at the arm's number of epochs."""
    found: dict[float, list[float]] = {}
    for one, seed in trials(experiment):
        if one.epochs == experiment.epochs:
            found.setdefault(one.lr, []).append(rows[key(one, seed)]["accuracy"][-1])
    return {rate: sum(values) / len(values) for rate, values in found.items()}


def main() -> None:
    """Try what was not tried yet, arm by arm, and print the mean of each rate."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("names", nargs="*", help="arms, by default all")
    given = ask.parse_args()
    rows = recorded()
    for name, experiment in arms().items():
        if name not in (given.names or arms()):
            continue
        for one, seed in trials(experiment):
            if key(one, seed) not in rows:
                curve = tried(one, seed)
                about = {"arm": name, "rate": one.lr, "epochs": one.epochs, "seed": seed}
                losses = {what: [round(point[what], 4) for point in curve] for what in ("train_loss", "accuracy")}
                rows[key(one, seed)] = {**about, **losses, "device": profiles.device_name(profiles.device())}
                write_rows(rte.SEARCH, rows.values())
        shown = ", ".join(f"{rate:g}: {100 * mean:.1f}" for rate, mean in means(experiment, rows).items())
        print(f"{name}, {experiment.epochs} epochs, held-out accuracy by rate: {shown}", flush=True)


if __name__ == "__main__":
    main()
