"""dask's workers, on this machine or another's, and a stream of jobs through them."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import dask
import distributed
from tqdm import tqdm

from autograder.course import Course, NotebookEntry
from autograder.grading.guard import GradingStopped, go_on
from autograder.grading.records import Job
from autograder.sandbox import preload

AHEAD, LEAST_AHEAD = 4, 64  # hand-ins that wait at the workers, for each of their threads and at least
STARTS = 3  # how often to try to start the workers
DASHBOARD = "127.0.0.1:8787"
DASK = {
    "distributed.worker.multiprocessing-method": "forkserver",
    "distributed.admin.low-level-log-length": 10,  # a log for dask's developers, of the last thousand hand-ins, whole
    "distributed.worker.profile.enabled": False,
}


def in_turn(
    dask_client: distributed.Client, waiting: list[Job], submit: Callable[[Job], distributed.Future]
) -> Iterator[tuple[Job, distributed.Future]]:
    """Every job with its future, as it is done. Few are with the workers at a time: a class need not fit in memory."""
    left = iter(waiting)
    most = max(LEAST_AHEAD, AHEAD * sum(dask_client.nthreads().values()))
    futures = {submit(job): job for job in islice(left, most)}
    coming = distributed.as_completed(futures)
    for future in coming:
        job = futures.pop(future)
        following = next(left, None)
        if following is not None:
            another = submit(following)
            futures[another] = following
            coming.add(another)
        yield job, future


def _local_cluster(**size: Any) -> distributed.LocalCluster:
    """A cluster on this machine. dask replaces a worker that dies later, but not one that dies as it starts."""
    for attempt in range(STARTS):
        try:
            return distributed.LocalCluster(**size)
        except RuntimeError as died:
            if attempt == STARTS - 1:
                raise GradingStopped(f"the workers cannot be started ({died}). {go_on('See what ends them')}") from died
    raise AssertionError("not reached")


@contextmanager
def client(
    course: Course,
    entries: list[NotebookEntry],
    workers: int,
    address: str | None,
    gpus: tuple[str, ...] = (),
    dashboard: bool = False,
) -> Iterator[distributed.Client]:
    """dask's client: of a cluster that runs already, or of one on this machine for as long as we grade."""
    if address:
        with distributed.Client(address) as dask_client:
            if dashboard:
                tqdm.write(f"dashboard: {dask_client.dashboard_link}", file=sys.stderr)
            yield dask_client
        return
    preload.begin(course, entries)
    size: dict[str, Any] = {"n_workers": workers, "threads_per_worker": 1}
    size["memory_limit"] = 0  # the sandboxes have limits of their own
    if gpus:
        size["resources"] = {"GPU": 1}
    shown = DASHBOARD if dashboard else "127.0.0.1:0"  # for us alone: None would be port 8787 for everybody
    with (
        dask.config.set(DASK),
        _local_cluster(dashboard_address=shown, silence_logs=logging.ERROR, **size) as local,
        distributed.Client(local) as dask_client,
    ):
        preload.settle()
        if dashboard:
            tqdm.write(f"dashboard: {dask_client.dashboard_link}", file=sys.stderr)
        yield dask_client
