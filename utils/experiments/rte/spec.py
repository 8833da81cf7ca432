"""The experiments on RTE of notebooks 05 and 06, in the size of each profile, and their recorded runs.

RTE (Dagan et al. 2006 and later; as in GLUE, Wang et al. 2019): does the first sentence entail the
second? 2,490 pairs to train on, 277 to validate on. Two arms are recorded on SICK, too (Marelli et al. 2014): three
classes, sentences about pictures and videos.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from utils.experiments import profiles
from utils.experiments.experiment import Run
from utils.experiments.rte.pair_experiment import PairExperiment
from utils.experiments.runs import load_table
from utils.experiments.runs import seeds as seeds

IN_GRADING = True  # kernels may read it: it holds no answer, see utils.grading.forbidden
RECORDED = Path(__file__).resolve().parents[3] / "data" / "results" / "rte"
RECORDED_ON_SICK = RECORDED.with_name("sick")
SEED_VARIANCE, ADAPTER_FUSION = "05_seed_variance", "06_adapter_fusion"
FUSED = ("mnli", "qnli", "sick")
# bert-base-uncased, mean and standard deviation of the accuracy in percent, from two student reports on the labs.
PUBLISHED = {"random": "52.83 ± 1.39", "pretrained": "65.82 ± 1.23", "fusion": "67.15 ± 0.29"}


def experiments(notebook: str, profile: str | None = None) -> dict[str, PairExperiment]:
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


def recorded(notebook: str) -> dict[str, list[Run]]:
    """The runs of the profile cpu that come with the course (data/README.md says how they were made), by name."""
    return load_table(experiments(notebook, "cpu"), RECORDED)


def on_sick() -> dict[str, PairExperiment]:
    """Two arms of notebook 06, profile cpu, on SICK instead of RTE: as many pairs and epochs, rates chosen there."""
    arms = experiments(ADAPTER_FUSION, "cpu")
    rates = {"pretrained": 2e-4, "adapter": 2e-3}
    made = [replace(arms[name], name=f"{name}, SICK", task="sick", lr=rate) for name, rate in rates.items()]
    return {one.name: one for one in made}


def recorded_on_sick() -> dict[str, list[Run]]:
    """The runs of `on_sick` that come with the course, by name."""
    return load_table(on_sick(), RECORDED_ON_SICK)


ALSO_RECORDED = {RECORDED_ON_SICK: on_sick}


def _table(
    notebook: str,
    pretrained: PairExperiment,
    mnli: PairExperiment,
    adapter: PairExperiment,
    fusion: PairExperiment,
    **random: Any,
):
    if notebook == SEED_VARIANCE:
        scratch = PairExperiment("random", pretrained.task, pretrained.encoder, start="random", **random)
        return {one.name: one for one in (scratch, pretrained, mnli)}
    return {one.name: one for one in (pretrained, adapter, fusion)}


def _smoke(notebook: str) -> dict[str, PairExperiment]:
    task, tiny = "made-up-rte", "tiny"
    few: dict[str, Any] = {"train_examples": 96, "epochs": 4, "batch": 8, "lr": 1e-3, "max_len": 24}
    more: dict[str, Any] = {"train_examples": 600, "epochs": 2, "batch": 16, "lr": 3e-3, "max_len": 24}
    long: dict[str, Any] = {"train_examples": 1200, "epochs": 3, "batch": 16, "lr": 1e-2, "max_len": 24}
    parts = [PairExperiment(f"{one} adapter", f"made-up-{one}", tiny, method="adapter", **long) for one in FUSED]
    first = PairExperiment("mnli encoder", "made-up-mnli", tiny, **more)
    return _table(
        notebook,
        PairExperiment("pretrained", task, tiny, **few),
        PairExperiment("pretrained, then MNLI", task, tiny, after=(first,), **few),
        PairExperiment("adapter", task, tiny, method="adapter", **few | {"lr": 3e-3}),
        PairExperiment("fusion", task, tiny, method="fusion", after=tuple(parts), **few | {"lr": 3e-3}),
        **few,
    )


def _cpu(notebook: str) -> dict[str, PairExperiment]:
    task, encoder = "rte", "minilm"
    # One budget for all arms. solutions/05_seed_variance/search.py chose the rates of pretrained, adapter and fusion,
    # each its own; the other starts of notebook 05 have that of pretrained.
    short: dict[str, Any] = {"train_examples": 1_200, "epochs": 2, "max_len": 64}
    parts = [
        PairExperiment(
            f"{one} adapter", one, encoder, method="adapter", train_examples=2_500, epochs=1, lr=1e-3, max_len=64
        )
        for one in FUSED
    ]
    first = PairExperiment(
        "mnli encoder", "mnli", encoder, train_examples=8_000, epochs=1, batch=32, lr=1e-4, max_len=64
    )
    return _table(
        notebook,
        PairExperiment("pretrained", task, encoder, **short),
        PairExperiment("pretrained, then MNLI", task, encoder, after=(first,), **short),
        PairExperiment("adapter", task, encoder, method="adapter", lr=5e-4, **short),
        PairExperiment("fusion", task, encoder, method="fusion", after=tuple(parts), lr=1e-4, **short),
        **short,
    )


def _gpu(notebook: str) -> dict[str, PairExperiment]:
    task, encoder = "rte", "bert"
    parts = [PairExperiment(f"{one} adapter", one, encoder, method="published") for one in FUSED]
    first = PairExperiment("mnli encoder", "mnli", encoder, epochs=1, batch=32, lr=2e-5, max_len=128)
    full: dict[str, Any] = {"batch": 16, "lr": 2e-5}
    return _table(
        notebook,
        PairExperiment("pretrained", task, encoder, **full),
        PairExperiment("pretrained, then MNLI", task, encoder, after=(first,), **full),
        PairExperiment("adapter", task, encoder, method="adapter", epochs=10, lr=1e-4),
        PairExperiment("fusion", task, encoder, method="fusion", after=tuple(parts), epochs=5, lr=5e-5),
        **full,
    )
