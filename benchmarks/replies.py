"""What is one reply of a right answer worth once something else is in its place?

    python benchmarks/replies.py [--notebook NAME ...] [--exercise N ...] [--kind KIND ...] [--sample N] [--workers 2]

For each exercise the author's solution is checked again and again. Each time one reply of its process that holds
numbers is replaced: by NaN, infinity, an empty tensor, a scalar, a huge value, complex numbers or zeros. All replies of
one function are replaced as well. The table lists what wins points all the same. NaN, infinity and complex numbers
never do, unless the exercise promises them. A value of which no check speaks, such as the first weights of a
layer, may be any number. The last line is a JSON object: `replaced`, `won`.
"""

import argparse
import concurrent.futures
import contextlib
import io
import json
import math
import os
import random
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("COURSE_PROFILE", "smoke")
ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import numpy as np
import torch
from tqdm import tqdm

from autograder import course
from autograder.author import answers, build
from autograder.author.checks import asked_checks, private_checks, whole_verdict
from utils.grading import dispatch, forbidden, wire
from utils.grading.results_check import ResultsCheck


def nan(value: torch.Tensor) -> torch.Tensor:
    """NaN in one place."""
    changed = value.clone().float().flatten()
    changed[len(changed) // 2] = torch.nan
    return changed.view(value.shape)


def infinite(value: torch.Tensor) -> torch.Tensor:
    """Infinity in one place."""
    return nan(value).nan_to_num(nan=torch.inf)


# By what a tensor of numbers is replaced; a number is one of a single entry.
INSTEAD: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "NaN": nan,
    "all NaN": lambda value: torch.full_like(value.float(), torch.nan),
    "infinity": infinite,
    "empty": lambda value: value.new_empty(0),
    "a scalar": lambda value: value.flatten()[0].clone(),
    "huge": lambda value: torch.full_like(value.float(), 1e30),
    "complex": lambda value: value.to(torch.complex64),
    "zeros": torch.zeros_like,
}
Spot = tuple[int, tuple[Any, ...]]  # the number of a reply, and the place in it


def spots(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], torch.Tensor]]:
    """The places of numbers in a reply."""
    if type(value) in (list, dict):
        items: Iterable[tuple[Any, Any]] = value.items() if type(value) is dict else enumerate(value)
        if type(value) is list and len(value) > 3 and all(type(one) in (int, float, bool) for one in value):
            items = [(len(value) // 2, value[len(value) // 2])]
        for key, part in items:
            yield from spots(part, (*place, key))
    elif type(value) in (torch.Tensor, np.ndarray, float, int):
        found = torch.as_tensor(value)
        if found.numel() and not found.is_complex():
            yield place, found


def put(value: Any, place: tuple[Any, ...], new: torch.Tensor) -> Any:
    """The reply with something else in a place."""
    if not place:
        return new.numpy() if type(value) is np.ndarray else new if type(value) is torch.Tensor else plain(value, new)
    copy = dict(value) if type(value) is dict else list(value)
    copy[place[0]] = put(copy[place[0]], place[1:], new)
    return copy


def plain(value: float, new: torch.Tensor) -> Any:
    """What stands in the place of a number: a number if it can be one, of the same type if it is one of that."""
    if new.numel() != 1 or new.is_complex():
        return new
    number = new.item()
    return int(number) if type(value) is int and math.isfinite(number) else number


def same(value: torch.Tensor, new: torch.Tensor) -> bool:
    """Whether nothing changed, but maybe the dtype."""
    return value.shape == new.shape and not new.is_complex() and torch.equal(value.double(), new.double())


class Changing:
    """Answers as the solution does, but for one spot: in the reply of that number, or in every reply to its request."""

    def __init__(self, namespace: dict[str, Any], spot: Spot | None = None, how: str = "", every: str = ""):
        self.namespace, self.spot, self.how, self.every = namespace, spot, how, every
        self.replies: list[tuple[str, Any]] = []
        self.lines: list[str] = []  # of the checks, in which each reply was asked for
        self.replaced = False

    def __call__(self, request: bytes) -> bytes:
        """The reply to a request of a check."""
        reply = dispatch.answer(self.namespace, request)
        asked = wire.loads(request, lambda handle, name: _Handle(handle))
        told = wire.loads(reply, lambda handle, name: _Handle(handle))
        name = asked.get("name") or ".".join([str(asked.get("library", "an object")), *asked["path"]])
        number = len(self.replies)
        self.lines.append(asking_line())
        self.replies.append((name, told.get("value")))
        if "value" not in told or self.spot is None:
            return reply
        value = told["value"]
        if self.every and self.every == name:
            for place, old in [*spots(value)]:
                self.replaced |= not same(old, INSTEAD[self.how](old))
                value = put(value, place, INSTEAD[self.how](old))
        elif not self.every and number == self.spot[0]:
            there = dict(spots(value))
            if self.spot[1] not in there:
                return reply
            old = there[self.spot[1]]
            self.replaced |= not same(old, INSTEAD[self.how](old))
            value = put(value, self.spot[1], INSTEAD[self.how](old))
        else:
            return reply
        return wire.dumps({"value": value}, lambda stand_in: stand_in.number)


def asking_line() -> str:
    """The line of a public or private check that waits for a reply, as "file:line"."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and not re.search(r"/nb\d\d_\w+\.py$|/private_checks\.py$", frame.f_code.co_filename):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}" if frame else ""


class _Handle:
    """Stands for an object that stays in the other process."""

    def __init__(self, number: int):
        self.number = number


def score(entry: course.NotebookEntry, exercise: str, ask: Callable[[bytes], bytes], source: str) -> float:
    """The points that are won by who answers so, private checks included."""
    check = asked_checks(entry)[exercise]
    verdict = check.verdict(ask, [forbidden.read_cell(source)])
    hidden = private_checks(entry).get(exercise, [])
    verdict, _ = whole_verdict(verdict, hidden, lambda one: one.failure(ask, b"replies", check.forbids))
    return verdict.score


def won(
    entry: course.NotebookEntry, exercise: str, sample: int = 0, kinds: Sequence[str] = ()
) -> tuple[int, list[str]]:
    """How many replies of an exercise's solution were replaced, and a line for each that loses nothing.

    `sample` draws so many replacements, always the same; 0 draws 60 and adds all replies of each function. `kinds` are
    keys of INSTEAD, all of them if none is named.
    """
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    known = course.load()
    released = build.student_notebook(known, entry)
    (case,) = (one for one in answers.reference_cases(known, entry) if one.exercise == exercise)
    check = asked_checks(entry)[exercise]
    quiet = contextlib.redirect_stdout(io.StringIO())
    found: list[str] = []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), quiet:
        honest = Changing(answers.at_home(released, case.source, case.name))
        if score(entry, exercise, honest, case.source) != check.points:
            return 0, [f"{exercise}: the solution does not pass"]
        public = len(honest.replies)
        tries: list[tuple[Spot, str, str]] = []
        chosen = [(how, make) for how, make in INSTEAD.items() if not kinds or how in kinds]
        for number, (_, value) in enumerate(honest.replies[:public]):
            for place, old in spots(value):
                tries += [((number, place), how, "") for how, make in chosen if not same(old, make(old))]
        tries = random.Random(exercise).sample(tries, min(len(tries), sample or 60))
        tries += [((0, ()), how, name) for name in check.names for how, _ in chosen] if not sample else []
        replaced = 0
        for spot, how, every in tries:
            changing = Changing(answers.at_home(released, case.source, case.name), spot, how, every)
            points = score(entry, exercise, changing, case.source)
            replaced += changing.replaced
            if points == check.points and changing.replaced:
                name = honest.replies[spot[0]][0]
                where = (
                    f"every reply of {every}"
                    if every
                    else f"reply {spot[0]} ({honest.lines[spot[0]]}), of {name}, at {spot[1]}"
                )
                found.append(f"{exercise}: {how} in {where}")
    return replaced, found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--notebook", action="append")
    options.add_argument("--exercise", action="append")
    options.add_argument("--sample", type=int, default=0)
    options.add_argument("--kind", action="append", choices=[*INSTEAD])
    options.add_argument("--workers", type=int, default=2)
    chosen = options.parse_args()
    wanted = [
        (entry, exercise)
        for entry in course.load().select(chosen.notebook)
        for exercise, check in asked_checks(entry).items()
        if not isinstance(check, ResultsCheck) and (not chosen.exercise or exercise in chosen.exercise)
    ]
    total, lines = 0, []
    with concurrent.futures.ProcessPoolExecutor(chosen.workers) as pool:
        futures = [pool.submit(won, *one, chosen.sample, chosen.kind or ()) for one in wanted]
        for future in tqdm(concurrent.futures.as_completed(futures), total=len(futures)):
            count, found = future.result()
            total += count
            lines += found
            for line in found:
                print(line, flush=True)
    print(json.dumps({"replaced": total, "won": len(lines)}))


if __name__ == "__main__":
    main()
