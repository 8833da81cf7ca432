"""A dask cluster's workers, on other machines, and a stream of jobs through them."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

import dask
import distributed
from tqdm import tqdm

from autograder.course import CourseError
from autograder.grading import bounded
from autograder.grading.grading_record import Options
from autograder.grading.local import RETRIES

AHEAD, LEAST_AHEAD = 4, 64  # submissions that wait at the workers, for each of their threads and at least
DASHBOARD = "127.0.0.1:8787"
LOG = {"distributed.admin.low-level-log-length": 10}  # dask's developers' log of the last thousand submissions, whole
T = TypeVar("T")


def in_turn(
    options: Options,
    waiting: list[T],
    work: Callable[..., Any],
    arguments: Callable[[T], tuple],
    seconds: float,
) -> Iterator[tuple[T, Any]]:
    """Every job with what `work(*arguments(job))` answered or raised, as it is done; none takes longer than `seconds`.

    Few are with the workers at a time: a class need not fit in memory.
    """
    needs = {"resources": {"GPU": 1}} if options.gpus else {}
    with client(options) as dask_client:

        def submit(job: T) -> distributed.Future:
            return dask_client.submit(
                bounded.call, seconds, work, *arguments(job), retries=RETRIES, pure=False, **needs
            )

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
            try:
                answer = future.result()
            except Exception as bug:
                answer = bug
            yield job, answer
            future.release()


@contextmanager
def client(options: Options) -> Iterator[distributed.Client]:
    """dask's client: of the cluster at `options.cluster`; without one, for the dashboard, of one on this machine.

    Raises:
        CourseError: the workers of this machine's cluster are to take devices in turn.
    """
    if options.cluster:
        with distributed.Client(options.cluster) as dask_client:
            yield told(dask_client, options)
        return
    if options.gpus:
        raise CourseError("--dashboard with --gpus needs a dask cluster: give --cluster, or leave one of them out")
    size: dict[str, Any] = {"n_workers": options.workers, "threads_per_worker": 1}
    size["memory_limit"] = 0  # the sandboxes have limits of their own
    with (
        dask.config.set(LOG),
        distributed.LocalCluster(dashboard_address=DASHBOARD, silence_logs=logging.ERROR, **size) as local,
        distributed.Client(local) as dask_client,
    ):
        yield told(dask_client, options)


def told(dask_client: distributed.Client, options: Options) -> distributed.Client:
    """The client, its dashboard's address told if that is asked for."""
    if options.dashboard:
        tqdm.write(f"dashboard: {dask_client.dashboard_link}", file=sys.stderr)
    return dask_client
