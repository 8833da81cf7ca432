"""Run an experiment over seeds: one file for each finished seed, interrupted and resumed at will."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from tqdm.auto import tqdm

from utils.experiments import student
from utils.experiments.experiment import BadRun, Experiment, Run, parse, path_of, read, write

LOCAL = "local"
BAR = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"


def run_seeds(
    experiment: Experiment,
    seeds: Iterable[int],
    results: Path | str = "results",
    *,
    folder: Path | str | None = None,
    cluster: str | None = None,
) -> list[Run]:
    """The runs of `experiment` with these seeds; what lies in `results` already is not run again.

    Each notes who ran it, see `utils.experiments.student`. Stop it whenever you like and call it again: only the
    seed that was running starts anew. A file that is damaged, or holds another configuration, is set aside and
    named, never used.

    Args:
        results: a folder; files are `results/NAME-DIGEST/seed_N.json`.
        folder: of the data, if not in $COURSE_DATA or on the hub.
        cluster: None runs here, one seed after the other; "local" in a process for each core; an address
            (`tcp://...`) on the workers of a dask cluster. A worker that dies costs its running seed, which
            another one starts anew.

    Raises:
        FileNotFoundError, OSError: data or weights cannot be found; the message says what to do.
        ImportError: a package is missing, of the data, of the encoder, or dask's distributed for a cluster.
    """
    wanted = list(dict.fromkeys(seeds))
    found = load_runs(experiment, results, wanted)
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
            tqdm.write(f"{path}: {why}. It is kept as {aside.name}, and this seed will be run anew.")
    return found


def _set_aside(path: Path) -> Path:
    """Rename a file that cannot be used; nothing is overwritten."""
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    os.rename(path, aside)
    return aside


def _here(
    experiment: Experiment, seeds: Sequence[int], results: Path | str, folder: Path | str | None
) -> dict[int, Run]:
    from utils.experiments import pair_training

    for one in experiment.after:  # shown with a bar of its own, before the seeds' one
        pair_training.prepare(one, folder=folder)
    found = {}
    with tqdm(total=len(seeds), desc=experiment.name, bar_format=BAR) as bar:
        steps = pair_training.steps_of(experiment, pair_training.train_size(experiment, folder))
        for seed in seeds:

            def on_step(what: str, seed: int = seed) -> None:
                bar.set_postfix_str(f"seed {seed}, {what}", refresh=False)
                bar.update(1 / steps)

            found[seed] = _by_whom(pair_training.run_seed(experiment, seed, folder=folder, on_step=on_step))
            write(found[seed], path_of(experiment, seed, results))
            bar.n = len(found)
            bar.set_postfix_str(f"seed {seed}: {100 * found[seed].accuracy:.1f}%")
    return found


def _by_whom(run: Run) -> Run:
    """The run with the name of this session's student."""
    return replace(run, student=student.signed()[0])


def _run(experiment: Experiment, seed: int, folder: Path | str | None) -> Run:
    """One seed, in a worker; one thread each, since the workers share the cores."""
    import torch

    from utils.experiments.pair_training import run_seed

    torch.set_num_threads(1)
    return run_seed(experiment, seed, folder=folder)


def _prepare(experiment: Experiment, folder: Path | str | None) -> None:
    from utils.experiments import pair_training

    pair_training.prepare(experiment, folder=folder)


def _on_cluster(
    experiment: Experiment, seeds: Sequence[int], results: Path | str, folder: Path | str | None, cluster: str
) -> dict[int, Run]:
    try:
        import distributed
    except ImportError:
        raise ImportError("a cluster needs dask's distributed: pip install distributed") from None
    if student.any_own():
        print("On a cluster the course's functions run, not yours: what is written in a notebook does not travel.")
    found = {}
    address = cluster if cluster != LOCAL else None
    local = None if address else distributed.LocalCluster(threads_per_worker=1, dashboard_address=None)
    try:
        with distributed.Client(address or local) as client:
            # A part is made once, and read from the cache by the workers that share it.
            for future in [client.submit(_prepare, one, folder, pure=False, retries=3) for one in experiment.after]:
                future.result()
            futures = {client.submit(_run, experiment, seed, folder, pure=False, retries=3): seed for seed in seeds}
            bar = tqdm(distributed.as_completed(futures), total=len(seeds), unit="seed", desc=experiment.name)
            for future in bar:
                seed = futures[future]
                found[seed] = _by_whom(future.result())
                write(found[seed], path_of(experiment, seed, results))
                bar.set_postfix_str(f"seed {seed}: {100 * found[seed].accuracy:.1f}%")
    finally:
        if local is not None:
            local.close()
    return found


__all__ = ["Experiment", "Run", "load_runs", "parse", "run_seeds"]
