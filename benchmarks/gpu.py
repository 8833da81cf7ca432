"""What runs on a GPU: every answer's verdict, every notebook whole, every experiment at size `gpu` with one seed.

    make gpu                                             everything, on CUDA
    python benchmarks/gpu.py --part experiments 02 10    one part, of these notebooks
    python benchmarks/gpu.py --device cpu --size smoke   without a GPU, to try the command itself

`answers`: each right and wrong answer of the course gets the verdict that is known for it, in a process that has CUDA.
Where a check asks whether an answer follows its input to another device, the input is put on that GPU, in the place of
the stand-in by which checks ask it on machines without one.

`notebooks`: each notebook with its solutions, executed whole at size smoke, on the device.

`experiments`: each experiment of each notebook with seed 1, at the size asked for, on the device; at size smoke also on
the CPU, both in float32, which gives the difference. Data and weights come from the hub, its cache, or COURSE_DATA; an
experiment whose data cannot be had is listed with the reason.

The table is written to `--to` after each row, so that an interruption loses one row; rows that are there are kept, and
`--again` makes them again. The last line is a JSON object: the device, and for each part how many rows passed, failed,
differ, and had no data.
"""

import argparse
import concurrent.futures
import contextlib
import copy
import functools
import io
import json
import multiprocessing
import os
import platform
import re
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import nbclient
import torch
from torch import nn
from tqdm import tqdm

from autograder import course
from autograder.author import build, checks, proof, record_runs
from autograder.cells import CellRole, cell_id
from autograder.course import NotebookEntry
from utils import files
from utils.experiments import profiles
from utils.experiments.experiment import Experiment, Run
from utils.grading import dispatch
from utils.grading.results_check import ResultsCheck

PARTS = ("answers", "notebooks", "experiments")
STUDENT = "Ada Lovelace"
SEED = 1
Row = dict[str, Any]


def really_stops(found: Any) -> Callable[..., bool]:
    """`_stops` of the questions in `found`, with the tensors on CUDA and not on the stand-in device."""

    def placed(value: Any) -> Any:
        if isinstance(value, nn.Module):
            return found.twin(value).cuda()
        if isinstance(value, torch.Tensor):
            return value.clone().cuda()
        if isinstance(value, dict):
            return {name: placed(one) for name, one in value.items()}
        return [placed(one) for one in value] if isinstance(value, list) else copy.deepcopy(value)

    def stops(mode: Any, call: Any, args: Any, options: dict[str, Any]) -> bool:
        there = placed(call) if isinstance(call, nn.Module) else call
        try:
            result = there(*[placed(arg) for arg in args], **options)
        except (RuntimeError, TypeError) as problem:  # numpy() of a CUDA tensor is a TypeError
            words = str(problem)
            if "generator" in words:
                return isinstance(mode, found.WithGenerator)
            return "device" in words or "CPU" in words
        except Exception:  # not what is asked here
            return False
        return any(isinstance(one, torch.Tensor) and not one.is_cuda for one in found.leaves(result))

    return stops


def ask_on_cuda() -> None:
    """From now on this process asks on CUDA what checks ask of the stand-in device."""
    find = dispatch._find

    def found_on_cuda(namespace: Any, asked: Any) -> Any:
        found = find(namespace, asked)
        if "source" in asked and hasattr(found, "_stops"):
            found._stops, found.Elsewhere.mark = really_stops(found), staticmethod(torch.Tensor.cuda)
        return found

    dispatch._find = found_on_cuda


def answers_of(entry: NotebookEntry) -> list[str]:
    """The answers to a notebook's exercises whose verdict here is not the known one, each with what was said."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    if torch.cuda.is_available():
        torch.zeros(1).cuda()  # as in a session that has used the GPU
        ask_on_cuda()
    known = course.load()
    released, found = build.student_notebook(known, entry), []
    for case in proof.cases(known, entry):
        if isinstance(proof.checks_of(entry)[case.exercise], ResultsCheck):
            continue  # judged by files, not by calls
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            told = proof.surprise(entry, case, released)
        found.append(f"{case.exercise} {case.name}: {told}" if told else "")
    return found


def answers(entries: list[NotebookEntry], workers: int) -> Iterator[Row]:
    """A row for each notebook: how many answers got the verdict that is known for them."""
    context = multiprocessing.get_context("spawn")  # a forked process cannot use CUDA
    with concurrent.futures.ProcessPoolExecutor(workers, context) as pool:
        started = time.monotonic()
        jobs = {pool.submit(answers_of, entry): entry for entry in entries}
        for job in concurrent.futures.as_completed(jobs):
            found = job.result()
            wrong = [told for told in found if told]
            yield {
                "what": jobs[job].name,
                "state": "differs" if wrong else "passed",
                "seconds": time.monotonic() - started,
                "note": f"{len(found)} answers" + "".join(f"; {told}" for told in wrong[:20]),
            }


def notebook_of(entry: NotebookEntry) -> Row:
    """The row of one notebook, executed whole at size smoke."""
    started = time.monotonic()
    os.environ.update(COURSE_PROFILE="smoke")
    notebook = build.solution_notebook(course.load(), entry)
    for cell in notebook.cells:
        if "variants." in cell.source:
            cell.source = cell.source.replace('STUDENT = ""', f'STUDENT = "{STUDENT}"')
    with tempfile.TemporaryDirectory() as desk:
        Path(desk, f"{entry.name}.ipynb").write_text(build.write(notebook))
        os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        client = nbclient.NotebookClient(
            notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": desk}}
        )
        try:
            client.execute()
        except nbclient.exceptions.CellExecutionError as problem:
            lines = re.sub(r"\x1b\[[0-9;]*m", "", str(problem)).strip().splitlines()
            return {"what": entry.name, "state": "failed", "seconds": time.monotonic() - started, "note": lines[-1]}
    printed = {
        cell.id: "".join(output.get("text", "") for output in cell.outputs)
        for cell in notebook.cells
        if cell.cell_type == "code"
    }
    wanted = {
        cell_id(CellRole.CHECK, number): 0 if isinstance(check, ResultsCheck) else check.points
        for number, check in checks.public_checks(entry).items()
    }
    missed = [name for name, points in wanted.items() if f"passed ({points:g} point" not in printed[name]]
    note = f"{len(wanted) - len(missed)} of {len(wanted)} checks passed" + "".join(f"; {name}" for name in missed)
    return {
        "what": entry.name,
        "state": "failed" if missed else "passed",
        "seconds": time.monotonic() - started,
        "note": note,
    }


def notebooks(entries: list[NotebookEntry], workers: int) -> Iterator[Row]:
    """A row for each notebook: whether all its cells run and all its checks pass on the device."""
    with concurrent.futures.ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        for job in concurrent.futures.as_completed([pool.submit(notebook_of, entry) for entry in entries]):
            yield job.result()


def trained(experiment: Experiment, precision: str | None, on_cpu: bool) -> Run:
    """The run of an experiment with one seed, on the device of this machine or on the CPU."""
    place = mock.patch.object(profiles, "device", lambda: torch.device("cpu")) if on_cpu else contextlib.nullcontext()
    with place, contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        for earlier in experiment.after:
            earlier.prepare()
        return experiment.run_seed(SEED, precision=precision)


@functools.cache
def experiments_of(entry: NotebookEntry, size: str) -> Mapping[str, Experiment]:
    """The experiments of a notebook at a size, by name."""
    os.environ["COURSE_PROFILE"] = size
    with contextlib.redirect_stdout(io.StringIO()):
        return record_runs.of_solution(course.load(), entry, size)


def experiment_of(entry: NotebookEntry, name: str, size: str) -> Row:
    """The row of one experiment: its first metric and seconds, at size smoke also on the CPU."""
    row: Row = {"what": f"{entry.number} {name}"}
    started = time.monotonic()
    try:
        experiment = experiments_of(entry, size)[name]
        metric = experiment.metrics[0]
        precision = "float32" if size == "smoke" else None
        run = trained(experiment, precision, False)
        row |= {"seconds": run.seconds, "metric": metric.name, "value": metric.of(run), "precision": run.precision}
        row |= {"device": run.device, "state": "passed", "note": f"{time.monotonic() - started:.0f} s with preparation"}
        if size == "smoke":
            near = trained(experiment, precision, True)
            row |= {"cpu seconds": near.seconds, "cpu value": metric.of(near)}
    except (FileNotFoundError, ImportError, OSError) as problem:
        row |= {"state": "no data", "note": " ".join(str(problem).split())[:200]}
    except Exception as problem:  # a row, not the end: the other experiments are wanted too
        row |= {"state": "failed", "note": f"{type(problem).__name__}: {problem}"[:300]}
    return row


def experiments(entries: list[NotebookEntry], size: str, kept: set[str], at_once: int) -> Iterator[Row]:
    """A row for each experiment that is not in `kept`."""
    asked = [
        (entry, name)
        for entry in entries
        if entry.experiments
        for name in experiments_of(entry, size)
        if f"{entry.number} {name}" not in kept
    ]
    with concurrent.futures.ProcessPoolExecutor(at_once, multiprocessing.get_context("spawn")) as pool:
        jobs = [pool.submit(experiment_of, entry, name, size) for entry, name in asked]
        for job in concurrent.futures.as_completed(jobs):
            yield job.result()


def main() -> int:
    """Run what the command line asks for; 0 if nothing failed or differs."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("notebooks", nargs="*", metavar="NOTEBOOK", help="by number; all if none is given")
    ask.add_argument("--part", action="append", choices=PARTS, help="all if none is given")
    ask.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    ask.add_argument("--size", choices=profiles.NAMES, default="gpu", help="of experiments (%(default)s)")
    ask.add_argument("--workers", type=int, default=os.cpu_count(), help="processes for answers and notebooks")
    ask.add_argument("--at-once", type=int, default=1, help="experiments that share the device (%(default)s)")
    ask.add_argument("--to", type=Path, default=Path("gpu.json"), help="the table (%(default)s)")
    ask.add_argument("--again", action="store_true", help="make rows again that the table has")
    asked = ask.parse_args()
    if asked.device == "cuda" and not torch.cuda.is_available():
        print("There is no CUDA device here. --device cpu --size smoke tries the command without one.", file=sys.stderr)
        return 2
    entries = course.load().select(asked.notebooks or None)
    where = profiles.device_name(torch.device(asked.device))
    versions = {name: metadata.version(name) for name in ("torch", "transformers", "adapters")}
    about = {"device": where, "date": str(date.today()), "versions": versions | {"python": platform.python_version()}}
    table: dict[str, dict[str, Row]] = {}
    if asked.to.exists() and not asked.again:
        table = json.loads(asked.to.read_text())["parts"]
    for part in asked.part or PARTS:
        rows = table.setdefault(part if part != "experiments" else f"experiments, size {asked.size}", {})
        left = [entry for entry in entries if entry.name not in rows]
        made = {
            "answers": lambda left=left: answers(left, asked.workers),
            "notebooks": lambda left=left: notebooks(left, asked.workers),
            "experiments": lambda rows=rows: experiments(entries, asked.size, {*rows}, asked.at_once),
        }[part]
        for row in tqdm(made(), desc=part, unit="row"):
            rows[row["what"]] = row
            files.write(asked.to, json.dumps(about | {"parts": table}, indent=1) + "\n")
            tqdm.write(json.dumps(row))
    counts = {part: dict(Counter(row["state"] for row in rows.values())) for part, rows in table.items()}
    print(json.dumps({"device": where, **counts}))
    return int(any({"failed", "differs"} & count.keys() for count in counts.values()))


if __name__ == "__main__":
    sys.exit(main())
