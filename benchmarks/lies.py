"""What is a kernel's word worth? Every named wrong answer, in a kernel that lies wherever its word is asked.

    python benchmarks/lies.py [--notebook NAME ...] [--workers 2]

The values that an answer computes are left as they are. All else is told as a check would like to hear it: no
argument was changed, nothing forbidden ran, tensors are on the other device, memory is in order, chance is fair. In
notebook 05 the generators are patched as well: what they draw, and the states of the global ones.
Gradients are left as they are: those of the right answer cannot be guessed. The table lists the wrong answers that the
lie saves; the last line is a JSON object: `wrong_answers`, `saved`.
"""

import argparse
import concurrent.futures
import contextlib
import copy
import io
import json
import random
import sys
import warnings
import zlib
from pathlib import Path
from unittest import mock

from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import numpy as np
import torch

from autograder import course
from autograder.author import answers, build
from autograder.author.checks import asked_checks, private_checks, whole_verdict
from utils.grading import dispatch, forbidden, wire
from utils.grading.results_check import ResultsCheck


def left_behind(call, value, *rest):
    """The value as it was, whatever the call did to it."""
    call(copy.deepcopy(value), *rest)
    return value


def shape_of(call, *given):
    """The shape here, told for that on another device."""
    return list(call(*given).shape)


def learning(part):
    """Which parameters learn, as the checks of 4.7, 5.3 and 6.6 ask for it: frozen, then thawed, then as they were."""
    count = len(list(part.parameters()))
    if isinstance(part, torch.nn.MultiheadAttention):
        asked.append(part)
        return [len(asked) % 2 == 0] * count
    return [number >= 2 for number in range(count)] if count == 6 else [True] * count


def fair_counts(Replay, capacity, count, repeats, seed):
    """As often as chance would keep each example, and none kept another number."""
    return [round(repeats * min(capacity / count, 1))] * count + [0]


def fair_draws(Replay, count, n, repeats, seed):
    """As often as chance would draw each example."""
    return [round(repeats * n / count)] * count


def other_outcomes(Replay, capacity, count, n, seeds):
    """What some memory might keep and draw, the same for equal seeds."""
    found = []
    for seed in (*seeds, seeds[0]):
        rng = random.Random(seed)
        kept = rng.sample(range(count), capacity)
        found.append([kept, rng.sample(kept, n), rng.sample(kept, n)])
    return found


class Draws(contextlib.ExitStack):
    """Within it, generators draw and report as if each part of a run had a stream of its own.

    The global generators of torch, numpy and Python report the states that they had at first.
    """

    def __init__(self):
        super().__init__()
        self.seed, self.varies, self.part = 0, None, ""
        rand = torch.rand

        def drawn(*size, generator=None, **options):
            if generator is None or not self.part:
                return rand(*size, generator=generator, **options)
            seed = self.seed if self.varies is None or self.part in self.varies else -1
            own = torch.Generator().manual_seed(zlib.crc32(f"{seed} {self.part}".encode()))
            return rand(*size, generator=own)

        self.enter_context(mock.patch.object(torch, "rand", drawn))
        for module, name in ((torch, "get_rng_state"), (np.random, "get_state"), (random, "getstate")):
            first = getattr(module, name)()
            self.enter_context(mock.patch.object(module, name, lambda first=first: first))

    def look(self, request):
        """Note whose generators are asked for, and which one is taken out of the dict."""
        asked = wire.loads(request, lambda handle, _: handle)
        if asked.get("name") == "streams" and asked.get("args"):
            self.seed, self.varies = asked["args"][0], asked["args"][1] if asked["args"][1:] else None
        if asked.get("library") == "operator" and asked.get("args", [None])[-1] in ("head", "order", "dropout"):
            self.part = asked["args"][-1]


asked: list[torch.nn.Module] = []
LIES = {
    "left_behind": left_behind,
    "shape_on_meta": shape_of,
    "apart": lambda call, *given, **named: False,
    "apart_in_training": lambda *given: False,
    "elsewhere": lambda *given, **named: "there",
    "needs_gradient": lambda call, *given: getattr(call, "__name__", "") == "pair_logits",
    "reseeds": lambda *given: False,
    "replaces_parameters": lambda *given: False,
    "forgets_gradients": lambda *given: False,
    "survives_the_session": lambda *given: True,
    "type_of": lambda *given: "list",
    "learning": learning,
    "kept_counts": fair_counts,
    "drawn_counts": fair_draws,
    "outcomes": other_outcomes,
    "streams_that_meet": lambda *given: 0,
    "starts": lambda streams, seed, parts: [10**7 * (place + 1) + seed for place in range(len(parts))],
    "strided": lambda call, *given, **named: call(*given, **named),
    "called_with_strides": lambda call, *given: call(*given),
    "all_refuse": lambda *given: True,
    "world": lambda anew: {},
    "changes": lambda *given: [],
    "facts": lambda module: {},
}


def lying() -> None:
    """Replace the functions of this process that answer questions by lies."""
    honest = dispatch._find

    def find(namespace, asked):
        found = honest(namespace, asked)
        if "source" in asked:
            for name, lie in LIES.items():
                if hasattr(found, name):
                    setattr(found, name, lie)
        return found

    dispatch._find = find
    dispatch._changed = lambda *given: ""
    forbidden.Watch.__exit__ = lambda self, *error: sys.setprofile(None)  # type: ignore[method-assign]
    forbidden.Watch._note = lambda self, *given: None  # type: ignore[method-assign]


def passes(entry: course.NotebookEntry, case: answers.AnswerCase) -> bool:
    """Whether a liar gets points for this answer that it is not worth."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    lying()
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        try:
            namespace = answers.at_home(build.student_notebook(course.load(), entry), case.source, case.name)
        except Exception:  # a cell that stops defines what it had defined until then, which is not what is asked here
            return False

        draws = stack.enter_context(Draws()) if entry.number == "05" else None

        def ask(request):
            if draws:
                draws.look(request)
            return dispatch.answer(namespace, request)

        check = asked_checks(entry)[case.exercise]
        verdict = check.verdict(ask, [forbidden.read_cell(case.source)])
        hidden = private_checks(entry).get(case.exercise, [])
        verdict, _ = whole_verdict(verdict, hidden, lambda one: one.failure(ask, b"lies", check.forbids))
        return verdict.score > case.score(check)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--notebook", action="append")
    options.add_argument("--workers", type=int, default=2)
    chosen = options.parse_args()
    cases = [
        (entry, case)
        for entry in course.load().select(chosen.notebook)
        for case in answers.answer_cases(entry)
        if not case.right and not isinstance(asked_checks(entry)[case.exercise], ResultsCheck)
    ]
    with concurrent.futures.ProcessPoolExecutor(chosen.workers) as pool:
        told = pool.map(passes, *zip(*cases, strict=True), chunksize=8)
        saved = [case for (_, case), passed in zip(cases, tqdm(told, total=len(cases)), strict=True) if passed]
    for case in saved:
        print(f"{case.exercise:5} {case.name}: {case.says}")
    print(json.dumps({"wrong_answers": len(cases), "saved": len(saved)}))


if __name__ == "__main__":
    main()
