"""Run an experiment over seeds: one file for each finished seed, interrupted and resumed at will."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from tqdm.auto import tqdm

from utils.experiments import profiles, student
from utils.experiments.experiment import BadRun, Experiment, Run, path_of, read, write

RECORDED_SEEDS = range(1, 6)  # of the runs that come with the course; no student has them
LOCAL = "local"
BAR = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"


def seeds(profile: str | None = None) -> list[int]:
    """The student's own seeds for this session's profile: the five that the submission needs, or 20 on a GPU.

    They follow from the name that `utils.experiments.student.sign` was told. The profile smoke does without a name:
    it earns nothing.

    Raises:
        ValueError: nobody has signed.
    """
    chosen, (name, key) = profile or profiles.name(), student.signed()
    if not name and chosen != "smoke":
        raise ValueError(f"the seeds of your runs come from your name, and STUDENT is blank. {student.ASK}")
    return student.seeds_of(name, key, {"smoke": 5, "cpu": 5, "gpu": 20}[chosen])


def five_seeds(profile: str | None = None) -> list[int]:
    """The student's own seeds, five in each size, where there are many experiments. See `seeds`."""
    return seeds(profile)[:5]


def run_seeds(
    experiment: Experiment,
    seeds: Iterable[int],
    results: Path | str | None = "results",
    *,
    folder: Path | str | None = None,
    cluster: str | None = None,
) -> list[Run]:
    """The runs of `experiment` with these seeds; what lies in `results` already is not run again.

    Each notes who ran it, see `utils.experiments.student`. Stop it whenever you like and call it again: only the
    seed that was running starts again. A file that is damaged, or holds another configuration, is set aside and
    named, never used.

    Args:
        results: a folder; files are `results/NAME-DIGEST/seed_N.json`. None keeps no files.
        folder: of the data, if not in $COURSE_DATA or on the hub.
        cluster: None runs here, one seed after the other; "local" in a process for each core; an address
            (`tcp://...`) on the workers of a dask cluster. A worker that dies costs its running seed, which
            another one starts again.

    Raises:
        FileNotFoundError, OSError: data or weights cannot be found; the message says what to do.
        ImportError: a package is missing, of the data, of the encoder, or dask's distributed for a cluster.
    """
    wanted = list(dict.fromkeys(seeds))
    found = load_runs(experiment, results, wanted) if results is not None else {}
    missing = [seed for seed in wanted if seed not in found]
    if missing and cluster:
        found |= _on_cluster(experiment, missing, results, folder, cluster)
    elif missing:
        found |= _here(experiment, missing, results, folder)
    return [found[seed] for seed in wanted]


def load_runs(experiment: Experiment, results: Path | str, seeds: Iterable[int] | None = None) -> dict[int, Run]:
    """The finished runs of `experiment` in `results`, by seed; damaged and foreign files are set aside.

    `seeds` limits them to these seeds.
    """
    folder = experiment.folder(results)
    if seeds is None:
        names = (path.stem.removeprefix("seed_") for path in folder.glob("seed_*.json"))
        seeds = sorted(int(name) for name in names if name.isdecimal())
    found = {}
    for seed in seeds:
        path = path_of(experiment, seed, results)
        try:
            run = read(path)
            if run.experiment != experiment.plain() or run.seed != seed:
                raise BadRun("it holds another configuration or seed")
            found[seed] = run
        except FileNotFoundError:
            continue
        except BadRun as why:
            aside = _set_aside(path)
            tqdm.write(f"{path}: {why}. It is kept as {aside.name}, and this seed will be run again.")
    return found


@cache
def recorded_examples(experiment: Experiment, recorded: Path) -> str:
    """`examples_of` the runs of an experiment in the folder `recorded`; blank if there are none of this size."""
    path = path_of(experiment, RECORDED_SEEDS[0], recorded)
    return experiment.examples_of(read(path)) if path.is_file() else ""


def load_table(experiments: Mapping[str, Experiment], results: Path | str) -> dict[str, list[Run]]:
    """The finished runs in `results` of several experiments, by name and in the order of their seeds."""
    found = {name: load_runs(experiment, results) for name, experiment in experiments.items()}
    return {name: [runs[seed] for seed in sorted(runs)] for name, runs in found.items()}


def _set_aside(path: Path) -> Path:
    """Rename a file that cannot be used; nothing is overwritten."""
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    os.rename(path, aside)
    return aside


def _here(
    experiment: Experiment, seeds: Sequence[int], results: Path | str | None, folder: Path | str | None
) -> dict[int, Run]:
    for one in experiment.after:  # shown with a bar of its own, before the seeds' one
        one.prepare(folder)
    found = {}
    with tqdm(total=len(seeds), desc=experiment.name, bar_format=BAR) as bar:
        steps = experiment.count_steps(folder)
        for seed in seeds:

            def on_step(what: str, seed: int = seed) -> None:
                bar.set_postfix_str(f"seed {seed}, {what}", refresh=False)
                bar.update(0.999 / steps)  # rounded sums are not to pass the end

            found[seed] = _kept(experiment, experiment.run_seed(seed, folder=folder, on_step=on_step), results)
            bar.n = len(found)
            bar.set_postfix_str(_told(experiment, found[seed]))
    return found


def _kept(experiment: Experiment, run: Run, results: Path | str | None) -> Run:
    """The run with the name of this session's student, and written where there is a folder."""
    named = replace(run, student=student.signed()[0])
    if results is not None:
        write(named, path_of(experiment, run.seed, results))
    return named


def _told(experiment: Experiment, run: Run) -> str:
    metric = experiment.metrics[0]
    return f"seed {run.seed}: {metric.show(metric.of(run))}"


def _run(experiment: Experiment, seed: int, folder: Path | str | None) -> Run:
    """One seed, in a worker; one thread each, since the workers share the cores."""
    import torch

    torch.set_num_threads(1)
    return experiment.run_seed(seed, folder=folder)


def _on_cluster(
    experiment: Experiment, seeds: Sequence[int], results: Path | str | None, folder: Path | str | None, cluster: str
) -> dict[int, Run]:
    try:
        import distributed
    except ImportError:
        raise ImportError("a cluster needs dask's distributed: pip install -c constraints.txt distributed") from None
    if student.any_own():
        print("On a cluster the course's functions run, not yours: what is written in a notebook does not travel.")
    found = {}
    address = cluster if cluster != LOCAL else None
    local = None if address else distributed.LocalCluster(threads_per_worker=1, dashboard_address=None)
    try:
        with distributed.Client(address or local) as client:
            # A part is made once, and read from the cache by the workers that share it.
            for future in [client.submit(one.prepare, folder, pure=False, retries=3) for one in experiment.after]:
                future.result()
            futures = {client.submit(_run, experiment, seed, folder, pure=False, retries=3): seed for seed in seeds}
            bar = tqdm(distributed.as_completed(futures), total=len(seeds), unit="seed", desc=experiment.name)
            for future in bar:
                seed = futures[future]
                found[seed] = _kept(experiment, future.result(), results)
                bar.set_postfix_str(_told(experiment, found[seed]))
    finally:
        if local is not None:
            local.close()
    return found
