"""The experiments on RTE of notebooks 05 and 06, in the size of each profile, and their recorded runs.

RTE (Dagan et al. 2006 and later; as in GLUE, Wang et al. 2019): does the first sentence entail the
second? 2,490 pairs to train on, 277 to validate on. Two arms are recorded on SICK, too (Marelli et al. 2014): three
classes, sentences about pictures and videos.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from utils.experiments import profiles, student
from utils.experiments.experiment import Experiment, Run
from utils.experiments.runs import load_runs

RECORDED_SEEDS = range(1, 6)  # of the runs that come with the course; no student has them
RECORDED = Path(__file__).resolve().parents[2] / "data" / "results" / "rte"
RECORDED_ON_SICK = RECORDED.with_name("sick")
SEED_VARIANCE, ADAPTER_FUSION = "05_seed_variance", "06_adapter_fusion"
FUSED = ("mnli", "qnli", "sick")
# bert-base-uncased, mean and standard deviation of the accuracy in percent, from two student reports on the labs.
PUBLISHED = {"random": "52.83 ± 1.39", "pretrained": "65.82 ± 1.23", "fusion": "67.15 ± 0.29"}


def experiments(notebook: str, profile: str | None = None) -> dict[str, Experiment]:
    """The experiments of notebook 05 or 06 by name, in the order of its table.

    `profile` is smoke (a tiny random encoder, made-up pairs), cpu (the packaged encoder) or gpu
    (bert-base-uncased); by default that of this session.

    Raises:
        ValueError: there is no such notebook or profile.
    """
    made = {"smoke": _smoke, "cpu": _cpu, "gpu": _gpu}.get(profile or profiles.name())
    if made is None or notebook not in (SEED_VARIANCE, ADAPTER_FUSION):
        raise ValueError(f"no experiments of {notebook!r} in profile {profile!r}")
    return made(notebook)


def seeds(profile: str | None = None) -> list[int]:
    """The student's own seeds for this session's profile: the five that the hand-in needs, or 20 on a GPU.

    They follow from the name that `utils.experiments.student.sign` was told. The profile smoke does without a name:
    it earns nothing.

    Raises:
        ValueError: nobody has signed.
    """
    chosen, (name, key) = profile or profiles.name(), student.signed()
    if not name and chosen != "smoke":
        raise ValueError(f"the seeds of your runs come from your name, and STUDENT is blank. {student.ASK}")
    return student.seeds_of(name, key, {"smoke": 5, "cpu": 5, "gpu": 20}[chosen])


def recorded(notebook: str) -> dict[str, list[Run]]:
    """The runs of the profile cpu that come with the course (data/README.md says how they were made), by name."""
    return _recorded(experiments(notebook, "cpu"), RECORDED)


def on_sick() -> dict[str, Experiment]:
    """Two arms of notebook 06, profile cpu, on SICK instead of RTE: as many pairs and epochs, rates chosen there."""
    arms = experiments(ADAPTER_FUSION, "cpu")
    rates = {"pretrained": 2e-4, "adapter": 2e-3}
    made = [replace(arms[name], name=f"{name}, SICK", task="sick", lr=rate) for name, rate in rates.items()]
    return {one.name: one for one in made}


def recorded_on_sick() -> dict[str, list[Run]]:
    """The runs of `on_sick` that come with the course, by name."""
    return _recorded(on_sick(), RECORDED_ON_SICK)


def _recorded(table: Mapping[str, Experiment], folder: Path) -> dict[str, list[Run]]:
    found = {name: load_runs(experiment, folder) for name, experiment in table.items()}
    return {name: [runs[seed] for seed in sorted(runs)] for name, runs in found.items()}


def _table(
    notebook: str, pretrained: Experiment, mnli: Experiment, adapter: Experiment, fusion: Experiment, **random: Any
):
    if notebook == SEED_VARIANCE:
        scratch = Experiment("random", pretrained.task, pretrained.encoder, start="random", **random)
        return {one.name: one for one in (scratch, pretrained, mnli)}
    return {one.name: one for one in (pretrained, adapter, fusion)}


def _smoke(notebook: str) -> dict[str, Experiment]:
    task, tiny = "made-up-rte", "tiny"
    few: dict[str, Any] = {"train_examples": 96, "epochs": 4, "batch": 8, "lr": 1e-3, "max_len": 24}
    more: dict[str, Any] = {"train_examples": 600, "epochs": 2, "batch": 16, "lr": 3e-3, "max_len": 24}
    long: dict[str, Any] = {"train_examples": 1200, "epochs": 3, "batch": 16, "lr": 1e-2, "max_len": 24}
    parts = [Experiment(f"{one} adapter", f"made-up-{one}", tiny, method="adapter", **long) for one in FUSED]
    first = Experiment("mnli encoder", "made-up-mnli", tiny, **more)
    return _table(
        notebook,
        Experiment("pretrained", task, tiny, **few),
        Experiment("pretrained, then MNLI", task, tiny, after=(first,), **few),
        Experiment("adapter", task, tiny, method="adapter", **few | {"lr": 3e-3}),
        Experiment("fusion", task, tiny, method="fusion", after=tuple(parts), **few | {"lr": 3e-3}),
        **few,
    )


def _cpu(notebook: str) -> dict[str, Experiment]:
    task, encoder = "rte", "minilm"
    # One budget for all arms. solutions/05_seed_variance/search.py chose the rates of pretrained, adapter and fusion,
    # each its own; the other starts of notebook 05 have that of pretrained.
    short: dict[str, Any] = {"train_examples": 1_200, "epochs": 2, "max_len": 64}
    parts = [
        Experiment(
            f"{one} adapter", one, encoder, method="adapter", train_examples=2_500, epochs=1, lr=1e-3, max_len=64
        )
        for one in FUSED
    ]
    first = Experiment("mnli encoder", "mnli", encoder, train_examples=8_000, epochs=1, batch=32, lr=1e-4, max_len=64)
    return _table(
        notebook,
        Experiment("pretrained", task, encoder, **short),
        Experiment("pretrained, then MNLI", task, encoder, after=(first,), **short),
        Experiment("adapter", task, encoder, method="adapter", lr=5e-4, **short),
        Experiment("fusion", task, encoder, method="fusion", after=tuple(parts), lr=1e-4, **short),
        **short,
    )


def _gpu(notebook: str) -> dict[str, Experiment]:
    task, encoder = "rte", "bert"
    parts = [Experiment(f"{one} adapter", one, encoder, method="published") for one in FUSED]
    first = Experiment("mnli encoder", "mnli", encoder, epochs=1, batch=32, lr=2e-5, max_len=128)
    full: dict[str, Any] = {"batch": 16, "lr": 2e-5}
    return _table(
        notebook,
        Experiment("pretrained", task, encoder, **full),
        Experiment("pretrained, then MNLI", task, encoder, after=(first,), **full),
        Experiment("adapter", task, encoder, method="adapter", epochs=10, lr=1e-4),
        Experiment("fusion", task, encoder, method="fusion", after=tuple(parts), epochs=5, lr=5e-5),
        **full,
    )
