"""The pipeline alone, at any size: cost per submission, memory of the coordinator, more workers, lost workers.

    python benchmarks/scale.py [--sizes 10 100 1000 10000]

Kernels are canned: a worker answers at once with a verdict and a graded notebook that were made before,
so that what is measured is all else: reading and fingerprinting the submissions, the way to the workers and
back, gradebook, graded notebooks and records. Each size runs in a process of its own. A cost per submission
starts with the run and leaves out the start of the workers, which is the same for every size.

Then 1 worker and 2, with canned kernels that take a fifth of a second each and no processor. And, as
root where `ip` is installed, four dask workers in network namespaces with addresses of their own, of
which one is cut off in the middle; what has no record at the end is lost.

The last line is a JSON object; `cost_growth` is the cost at the largest size over that at the smallest
from 100 on.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.canned_kernel import CANNED, canned

WAIT = 0.2  # seconds, of a canned kernel that takes its time
WAITING = 200  # submissions for 1 worker and for 2
CUT = (400, 100)  # submissions in the network namespaces, and after how many one of them is cut off
NETWORK, BRIDGE = "10.213.7", "graded-bridge"
NAMESPACES = 4
# dask waits half a minute for a silent peer by default, and five for a silent worker.
SOON = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "15s", "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "20s"}


def course_in(folder: Path) -> Any:
    """The course of the first notebook, with its tree in `folder`."""
    from autograder import course

    known = course.load(tree=folder)
    return known.model_copy(update={"notebooks": known.notebooks[:1]})


def a_class(folder: Path, size: int, wait: float = 0.0) -> None:
    """A course tree in which `size` students handed in, with the answer of its canned kernels."""
    import dataclasses

    import nbformat

    from autograder import synthetic
    from autograder.author import build
    from autograder.cells import CellRole, cell_id
    from autograder.gradebook import course_tree
    from autograder.grading.grading_record import GRADED, GradedVerdict, Record
    from autograder.intake import restore
    from utils.grading.verdict import Outcome

    known = course_in(folder)
    course_tree.build_tree(known)
    (entry,) = known.notebooks
    text = synthetic.Maker(known, entry).file()
    release = course_tree.release_notebook(known, entry)
    notebook, _ = restore.restore(restore.read(text, known.limits.notebook_mb), release)
    done = Record("", entry.name, GRADED)
    for number, points in course_tree.exercises(known, entry).items():
        cell = next(cell for cell in notebook.cells if cell.id == cell_id(CellRole.CHECK, number))
        cell.outputs = [nbformat.v4.new_output("execute_result", data={"text/plain": f"{points:g}"})]
        done.verdicts.append(GradedVerdict(number, points, Outcome.PASSED))
    (folder / CANNED).write_text(json.dumps([dataclasses.asdict(done), build.write(notebook), wait]))
    for student in range(size):
        place = course_tree.place(known, "submitted", entry, f"student{student:05d}")
        place.parent.mkdir(parents=True)
        place.write_bytes(text)


def one(folder: Path, workers: int) -> dict[str, float]:
    """Grade a class: seconds, CPU seconds and most memory (MB) of this process, seconds to do nothing the next time."""
    from autograder.grading import grade
    from autograder.grading.grading_record import Options

    known = course_in(folder)
    begun: list[float] = []
    prepared, answers = grade.worker.prepare, grade.GradingRun.job_answers

    def prepare(*given: Any) -> None:
        before = time.monotonic()
        prepared(*given)
        begun.append(time.monotonic() - before)

    def timed(run: Any) -> Iterator[Any]:
        yield from answers(run)
        begun.append(time.monotonic())

    grade.worker.prepare, grade.GradingRun.job_answers, grade.grade_one = prepare, timed, canned  # type: ignore[assignment]
    started, cpu = time.monotonic(), time.process_time()
    records = grade.grade(known, list(known.notebooks), options=Options(workers))
    used = time.process_time() - cpu
    seconds = begun[1] - started - begun[0]
    again = time.monotonic()
    assert len(grade.grade(known, list(known.notebooks))) == len(records)
    again = time.monotonic() - again
    status = Path("/proc/self/status").read_text()
    peak = int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) / 1024
    return {"seconds": seconds, "cpu": used, "peak_mb": peak, "again": again}


def call(*words: object) -> str:
    """This file in a process of its own, with what it printed: a class is made by one and graded by another."""
    return subprocess.run(
        [sys.executable, __file__, *map(str, words)], stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def apart(size: int, workers: int = 2, wait: float = 0.0) -> dict[str, float]:
    """`one`, for a class of `size`."""
    with tempfile.TemporaryDirectory() as folder:
        call("--make", f"{folder}/tree", size, wait)
        return json.loads(call("--one", f"{folder}/tree", workers).splitlines()[-1])


def ip(*words: str) -> None:
    """Run iproute2's `ip`."""
    subprocess.run(["ip", *words], check=True)


@contextmanager
def networks() -> Iterator[list[str]]:
    """Network namespaces on one bridge, each with an address of its own; their names."""
    names = [f"graded-{number}" for number in range(1, NAMESPACES + 1)]
    with ExitStack() as stack:
        ip("link", "add", BRIDGE, "type", "bridge")
        stack.callback(ip, "link", "del", BRIDGE)
        ip("addr", "add", f"{NETWORK}.254/24", "dev", BRIDGE)
        ip("link", "set", BRIDGE, "up")
        for number, name in enumerate(names, start=1):
            ip("netns", "add", name)
            stack.callback(ip, "netns", "del", name)
            ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", name, "master", BRIDGE, "up")
            ip("-n", name, "addr", "add", f"{NETWORK}.{number}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield names


def cut_off(folder: Path) -> dict[str, float]:
    """Grade on a cluster of namespaces and cut one off in the middle: how many are lost, and the seconds."""
    from distributed import Client

    from autograder.grading import grade
    from autograder.grading.grading_record import GRADED, Options, Record

    size, after = CUT
    call("--make", folder, size, 0.05)
    known, address = course_in(folder), f"tcp://{NETWORK}.254:8786"
    environment, log = os.environ | SOON, folder / "cluster.log"
    with ExitStack() as stack:
        said = stack.enter_context(log.open("w"))

        def start(*command: str) -> None:
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=said, stderr=said)
            stack.callback(process.wait)
            stack.callback(process.kill)

        names = stack.enter_context(networks())
        server = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", address.removesuffix(":8786")]
        start(*server, "--port", "8786", "--no-dashboard")
        for name in names:
            worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny"]
            start("ip", "netns", "exec", name, *worker, "--memory-limit", "0", "--no-dashboard")
        with Client(address, timeout=60) as client:
            client.wait_for_workers(len(names), timeout=60)
        grade.grade_one = canned  # type: ignore[assignment]
        heard: list[str] = []

        def hear(record: Record) -> None:
            heard.append(record.student)
            if len(heard) == after:
                ip("link", "set", names[0], "down")

        started = time.monotonic()
        grade.grade(known, list(known.notebooks), options=Options(cluster=address), on_record=hear)
        seconds = time.monotonic() - started
    stated = [json.loads(path.read_text()) for path in known.tree.glob("verdicts/*/*.json")]
    return {"lost": size - sum(one["status"] == GRADED for one in stated), "seconds": seconds}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sizes", nargs="+", type=int, default=[10, 100, 1000, 10_000])
    options.add_argument("--make", nargs=3, help=argparse.SUPPRESS)
    options.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.make:
        folder, size, wait = chosen.make
        return a_class(Path(folder), int(size), float(wait))
    if chosen.one:
        folder, workers = chosen.one
        return print(json.dumps(one(Path(folder), int(workers))))
    runs = {}
    print(f"{'students':>9}{'seconds':>9}{'ms each':>9}{'CPU ms each':>13}{'coordinator MB':>16}{'again, ms each':>16}")
    for size in chosen.sizes:
        run = runs[size] = apart(size)
        each = [1000 * run[name] / size for name in ("seconds", "cpu", "again")]
        print(
            f"{size:9}{run['seconds']:9.1f}{each[0]:9.2f}{each[1]:13.2f}{run['peak_mb']:16.0f}{each[2]:16.2f}",
            flush=True,
        )
    alone, both = apart(WAITING, 1, WAIT)["seconds"], apart(WAITING, 2, WAIT)["seconds"]
    print(f"{WAITING} submissions of {WAIT} s: {alone:.1f} s with 1 worker, {both:.1f} s with 2")
    cut = None
    if os.geteuid() == 0 and shutil.which("ip"):
        with tempfile.TemporaryDirectory() as folder:
            cut = cut_off(Path(folder, "tree"))
        where = f"{NAMESPACES} network namespaces, one cut off after {CUT[1]}"
        print(f"{CUT[0]} submissions in {where}: {cut['seconds']:.1f} s, {cut['lost']} lost")
    first, last = min(size for size in runs if size >= 100 or size == max(runs)), max(runs)
    figures = {
        "cost_growth": round((runs[last]["seconds"] / last) / (runs[first]["seconds"] / first), 3),
        "coordinator_mb": round(max(run["peak_mb"] for run in runs.values())),
        "efficiency_2": round(alone / (2 * both), 3),
        "lost": None if cut is None else int(cut["lost"]),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
