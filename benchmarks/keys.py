"""Does any verdict of a private check depend on luck? Known answers are asked at many keys.

    python benchmarks/keys.py [--notebook NAME ...] [--exercise 1.9 ...] [--keys 100] [--first 0] [--workers 2]
                              [--answers solution wrong variants] [--each] [--seconds S] [--results FILE]

In grading, each submission has a key of its own, from which private checks draw what they ask (`utils.grading.expect`).
Here the author's solution of every exercise is asked at `--keys` keys, from number `--first` on, and must be accepted
at each. Other answers are asked with `--answers`, one at each key, in turn, or all of them with `--each`: `wrong` are
the named wrong answers that only private checks refuse, which must be refused in their own words, and `variants` are
right answers written differently. Every exercise is asked at 25 more keys before any is asked further. What took
place is added to FILE line by line, so a run that was interrupted, or that ended after `--seconds`, continues when it
is started again: keys in FILE are not asked again. Start with a new file after a change of the checks. The generators
are seeded with the key's number, so that a single key can be repeated.

A wrong verdict is a line of output. The last line is a JSON object: `exercises`, `fewest_keys` (of an exercise's
solution), `right_asked`, `wrong_asked`, `right_refused`, `wrong_accepted`, `other_words` (wrong answers refused with
another sentence), `cpu_seconds`.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import functools
import io
import json
import linecache
import os
import random
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("COURSE_PROFILE", "smoke")
ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import numpy as np
import torch
from nbformat import NotebookNode
from tqdm import tqdm

from autograder import course
from autograder.author import answers, build
from autograder.author.checks import asked_checks, private_checks
from utils.grading import dispatch

SOLUTION, WRONG, VARIANTS = "solution", "wrong", "variants"
RIGHT_REFUSED, WRONG_ACCEPTED, OTHER_WORDS = "right_refused", "wrong_accepted", "other_words"
STEP = 25  # keys of one job

Cases = dict[str, list[answers.AnswerCase]]  # SOLUTION, WRONG and VARIANTS, those that an exercise has
Report = dict[str, Any]  # a line of the results


@functools.cache
def released(entry: course.NotebookEntry) -> NotebookNode:
    """The notebook that students get."""
    return build.student_notebook(course.load(), entry)


@functools.cache
def known_cases(entry: course.NotebookEntry) -> dict[str, Cases]:
    """The answers to ask for each exercise with private checks."""
    found: dict[str, Cases] = {exercise: {} for exercise in private_checks(entry)}
    for case in answers.reference_cases(course.load(), entry):
        if case.exercise in found:
            found[case.exercise][SOLUTION] = [case]
    for case in answers.answer_cases(entry):
        if case.exercise in found and (case.right or case.private):
            found[case.exercise].setdefault(VARIANTS if case.right else WRONG, []).append(case)
    return found


def reset(number: int) -> None:
    """Make this process as a new kernel is, with its generators seeded by the key."""
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
    torch.use_deterministic_algorithms(False)
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(number)
    dispatch.kept.clear()


def wrong_verdict(entry: course.NotebookEntry, case: answers.AnswerCase, number: int) -> tuple[str, str] | None:
    """What is wrong with the verdict on an answer at a key, and its first words; None if it is as it should be."""
    reset(number)
    namespace = answers.at_home(released(entry), case.source, case.name)
    forbids = asked_checks(entry)[case.exercise].forbids
    failures = (
        (check.tells, check.failure(lambda request: dispatch.answer(namespace, request), b"%d" % number, forbids))
        for check in private_checks(entry)[case.exercise]
    )
    tells, failure = next(((tells, failure) for tells, failure in failures if failure), ("", None))
    reset(number)
    linecache.clearcache()
    if case.right:
        return (RIGHT_REFUSED, failure) if failure else None
    if failure is None:
        return WRONG_ACCEPTED, ""
    told = failure.tells or tells
    return None if case.is_told(told) else (OTHER_WORDS, told)


def asked_at(entry: course.NotebookEntry, exercise: str, which: str, numbers: range, each: bool = False) -> Report:
    """Ask answers to an exercise at these keys."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    cases, found, begun = known_cases(entry)[exercise][which], [], time.process_time()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        pairs = [(one, case) for one in numbers for case in (cases if each else [cases[one % len(cases)]])]
        for number, case in pairs:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                wrong = wrong_verdict(entry, case, number)
            if wrong:
                found.append({"kind": wrong[0], "key": number, "answer": case.name, "words": wrong[1][:200]})
    where = {"notebook": entry.name, "exercise": exercise, "answers": which}
    span = {"start": numbers.start, "stop": numbers.stop}
    return where | span | {"asked": len(pairs), "cpu": round(time.process_time() - begun, 3), "found": found}


def asked_keys(reports: list[Report]) -> dict[tuple[str, str], set[int]]:
    """The keys in the reports, by exercise and kind of answers."""
    keys: dict[tuple[str, str], set[int]] = collections.defaultdict(set)
    for one in reports:
        keys[one["exercise"], one["answers"]].update(range(one["start"], one["stop"]))
    return keys


def still_to_ask(wanted: list[tuple[Any, str, str]], keys: range, reports: list[Report]) -> list[tuple[Any, ...]]:
    """The jobs that the reports have not, those with lower keys first."""
    done = asked_keys(reports)
    spans = [range(start, min(start + STEP, keys.stop)) for start in range(keys.start, keys.stop, STEP)]
    return [
        (entry, exercise, which, span)
        for span in spans
        for entry, exercise, which in wanted
        if not done[exercise, which].issuperset(span)
    ]


def summary(wanted: list[tuple[Any, str, str]], reports: list[Report]) -> dict[str, float]:
    """The last line."""
    keys = asked_keys(reports)
    wrong = sum(one["asked"] for one in reports if one["answers"] == WRONG)
    kinds = collections.Counter(item["kind"] for one in reports for item in one["found"])
    return {
        "exercises": len({exercise for _, exercise, _ in wanted}),
        "fewest_keys": min(
            (len(keys[exercise, which]) for _, exercise, which in wanted if which == SOLUTION), default=0
        ),
        "right_asked": sum(one["asked"] for one in reports) - wrong,
        "wrong_asked": wrong,
        **{kind: kinds[kind] for kind in (RIGHT_REFUSED, WRONG_ACCEPTED, OTHER_WORDS)},
        "cpu_seconds": round(sum(one["cpu"] for one in reports), 1),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--notebook", nargs="*")
    options.add_argument("--exercise", nargs="*")
    options.add_argument("--keys", type=int, default=100)
    options.add_argument("--first", type=int, default=0)
    options.add_argument("--answers", nargs="*", choices=[SOLUTION, WRONG, VARIANTS], default=[SOLUTION])
    options.add_argument("--each", action="store_true")
    options.add_argument("--seconds", type=float, default=float("inf"))
    options.add_argument("--results", type=Path)
    options.add_argument("--workers", type=int, default=2)
    chosen = options.parse_args()
    end = time.monotonic() + chosen.seconds
    wanted = [
        (entry, exercise, which)
        for entry in course.load().select(chosen.notebook)
        for exercise, cases in known_cases(entry).items()
        if not chosen.exercise or exercise in chosen.exercise
        for which in chosen.answers
        if which in cases
    ]
    asked = {(exercise, which) for _, exercise, which in wanted}
    lines = chosen.results.read_text().splitlines() if chosen.results and chosen.results.exists() else []
    reports = [one for one in map(json.loads, lines) if (one["exercise"], one["answers"]) in asked]
    jobs = still_to_ask(wanted, range(chosen.first, chosen.first + chosen.keys), reports)
    ask = functools.partial(asked_at, each=chosen.each)
    with concurrent.futures.ProcessPoolExecutor(chosen.workers) as pool, tqdm(total=len(jobs), unit="job") as bar:
        waiting = iter(jobs)
        running: set[concurrent.futures.Future[Report]] = set()
        while True:
            while time.monotonic() < end and len(running) < 2 * chosen.workers and (job := next(waiting, None)):
                running.add(pool.submit(ask, *job))
            if not running:
                break
            ready, running = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in ready:
                reports.append(future.result())
                if chosen.results:
                    with chosen.results.open("a") as file:
                        file.write(json.dumps(reports[-1]) + "\n")
                for one in reports[-1]["found"]:
                    print(f"{reports[-1]['exercise']} {one}", flush=True)
                bar.update()
    print(json.dumps(summary(wanted, reports)))


if __name__ == "__main__":
    main()
