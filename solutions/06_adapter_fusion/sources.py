"""Train the adapters that notebook 06 fuses at the size cpu, and keep the best of each task in `data/adapters`.

Run it as `python solutions/06_adapter_fusion/sources.py`.
Each task's adapter learns from all training pairs at hand, at each of RATES and of the task's EPOCHS, with seed 0. The
one with the best accuracy on the task's own validation pairs after the last epoch is kept; of two that are equal, the
one with the higher rate. Twice as many epochs are no better than half as many, or by less than a standard error. No
pair of RTE is read. Each trial adds a row to RECORDED, and a row that is there is not run again.
"""

import shutil
import sys
import tempfile
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])  # not this folder: its notebook.py would hide Jupyter's

from autograder.author.rate_search import Row, read_rows, write_rows
from data import encoders, pairs
from utils.experiments import profiles
from utils.experiments.rte import train
from utils.experiments.rte.spec import PairExperiment

RATES = (5e-4, 1e-3, 2e-3, 4e-3)
EPOCHS = {"mnli": (10, 20), "qnli": (10, 20), "sick": (20, 40)}
SEED = 0
RECORDED = Path(__file__).resolve().parents[2] / "data" / "results" / "sources.json"


def trial(task: str, rate: float, epochs: int) -> PairExperiment:
    """One way to train the adapter of a task."""
    return PairExperiment(f"{task} adapter", task, "minilm", method="adapter", epochs=epochs, batch=64, lr=rate)


def trained(experiment: PairExperiment, folder: Path) -> Row:
    """Train an adapter, save it in `folder`, and return how it did on the task's validation pairs."""
    device = profiles.device()
    precision = train.precision_of(device)
    tokenizer = encoders.tokenizer(experiment.encoder)
    training, validation = (
        train.encode(pairs.load(experiment.task, part), tokenizer, experiment.max_len) for part in pairs.SPLITS
    )
    generators = train.streams(experiment, SEED)
    model = train.build(experiment, training.classes, generators["head"], device, precision)
    curve = train.train(model, experiment, generators, training, validation, device, precision)[1]
    model.cpu().save_adapter(str(folder), experiment.task, with_head=False)
    return {
        "task": experiment.task,
        "rate": experiment.lr,
        "epochs": experiment.epochs,
        "pairs": [len(training), len(validation)],
        **{what: [round(point[what], 4) for point in curve] for what in ("train_loss", "accuracy")},
        "device": profiles.device_name(device),
        "precision": str(precision).removeprefix("torch."),
    }


def best(rows: list[Row], task: str) -> Row:
    """The row of the adapter that is kept."""
    return max(
        (row for row in rows if row["task"] == task), key=lambda row: (row["accuracy"][-1], row["rate"], row["epochs"])
    )


def main() -> None:
    """Train what was not trained yet, and keep what is the best so far."""
    rows = read_rows(RECORDED)
    done = {(row["task"], row["rate"], row["epochs"]) for row in rows}
    for task, numbers in EPOCHS.items():
        for epochs in numbers:
            for rate in RATES:
                if (task, rate, epochs) in done:
                    continue
                with tempfile.TemporaryDirectory() as made:
                    rows.append(trained(trial(task, rate, epochs), Path(made)))
                    if best(rows, task) is rows[-1]:
                        shutil.copytree(made, encoders.ADAPTERS / task, dirs_exist_ok=True)
                write_rows(RECORDED, rows)
                print(f"{task}, rate {rate:g}, {epochs} epochs: {rows[-1]['accuracy'][-1]:.4f}", flush=True)


if __name__ == "__main__":
    main()
