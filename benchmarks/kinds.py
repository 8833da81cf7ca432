"""Which kinds of mistake pass the checks? Wrong answers made from every solution, one for each kind and name.

    python benchmarks/kinds.py [--notebook NAME ...] [--exercise 2.6 ...] [--kind KIND ...] [--keys 1]
                               [--workers 2]

A wrong answer is the author's solution with a wrapper around one of its functions or the `forward` of one of its
classes: it caches by shape, is wrong beyond a size, computes in float32, detaches, changes something global, and so
on. Mistakes of this sort are the same in every exercise, and a contract (`utils.grading.contract`) asks for them. A
wrapper notes when it changed a result. What never did is "not met": no check asked where it matters, or it can not
matter there. What did and still passes is "accepted", and is printed. Each is asked at `--keys` keys, from which
private checks draw: what is refused at some of them alone counts as accepted. The last line is a JSON object.
"""

import argparse
import concurrent.futures
import contextlib
import io
import json
import os
import sys
import tempfile
import warnings
from collections import Counter
from functools import cache, partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("COURSE_PROFILE", "smoke")

import torch
from nbformat import NotebookNode
from torch import nn
from tqdm import tqdm

from autograder import course
from autograder.author import answers, build
from autograder.author.checks import asked_checks, private_checks, whole_verdict
from utils.grading import dispatch, forbidden
from utils.grading.check import Outcome
from utils.grading.results_check import ResultsCheck

# What every wrapper uses. `met` notes that a mistake changed something.
COMMON = """
import torch as torch_
met_, known_ = [], {}
def tensors_(given):
    return [one for one in given if isinstance(one, torch_.Tensor)]
def sizes_(given):
    shapes = [n for one in tensors_(given) for n in one.shape]
    return shapes + [n for n in given if type(n) is int] + [len(one) for one in given if type(one) in (list, dict)]
def mutable_(value):
    plain = (int, float, str, bool, type(None))
    return any(map(mutable_, value)) if isinstance(value, tuple) else not isinstance(value, plain)
def each_(value, change):
    if isinstance(value, torch_.Tensor):
        return change(value)
    if type(value) in (tuple, list):
        return type(value)(each_(one, change) for one in value)
    return value
def moved_(value):
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(map(moved_, value))
    if type(value) in (int, float):
        met_.append(1)
        return value + 1 if type(value) is int else value + 0.02 * (1 + abs(value))
    if isinstance(value, torch_.Tensor) and value.is_floating_point() and value.numel():
        met_.append(1)
        return value + 0.02 * (1 + value.detach().nan_to_num(0, 0, 0).abs().max())
    return value
def shown_(given):
    if isinstance(given, dict):
        return str([*given]) + shown_([*given.values()])
    if isinstance(given, (list, tuple)):
        return str([*map(shown_, given)])
    return str(given.tolist() if isinstance(given, torch_.Tensor) else given)
def learning_(given):
    modules = [one for one in given if isinstance(one, torch_.nn.Module)]
    return [one for one in [*tensors_(given), *[p for one in modules for p in one.parameters()]] if one.requires_grad]
def cast_(given, dtype, when):
    def change(one):
        if one.dtype == when:
            met_.append(1)
            return one.to(dtype)
        return one
    return [each_(one, change) for one in given]
"""
BODIES = {
    "cached by shape": """
    key = str([tuple(one.shape) if isinstance(one, torch_.Tensor) else one for one in given if not callable(one)])
    if key in known_: met_.extend([1] * len(tensors_(given)))  # of anything else the key has the value
    else: known_[key] = call(*given, **options)
    return known_[key]""",
    "the result is kept": """
    key = shown_(given) + str([(id(one), one._version) for one in OWN])
    if key in known_: met_.extend([1] * mutable_(known_[key]))
    else: known_[key] = call(*given, **options)
    return known_[key]""",
    **{
        f"wrong beyond {N}": f"""
    result = call(*given, **options)
    return moved_(result) if max(sizes_(given), default=0) > {N} else result"""
        for N in (64, 512, 1024)
    },
    "wrong for a size of 1": """
    result = call(*given, **options)
    return moved_(result) if any(1 in one.shape for one in tensors_(given)) else result""",
    "wrong for equal sizes": """
    result = call(*given, **options)
    return moved_(result) if any(len({*one.shape}) < one.dim() for one in tensors_(given)) else result""",
    "float32 inside": """
    result = call(*cast_(given, torch_.float32, torch_.float64), **options)
    return each_(result, lambda one: one.double() if one.dtype == torch_.float32 and met_ else one)""",
    "float32 out of bfloat16": """
    result = call(*given, **options)
    return cast_([result], torch_.float32, torch_.bfloat16)[0]""",
    "the result is detached": """
    def change(one):
        if one.requires_grad: met_.append(1)
        return one.detach()
    return each_(call(*given, **options), change)""",
    **{
        f"argument {n + 1} is detached": f"""
    given, here = list(given), tensors_(given)
    if len(here) > {n} and here[{n}].requires_grad:
        met_.append(1)
        given = [one.detach() if one is here[{n}] else one for one in given]
    return call(*given, **options)"""
        for n in range(3)
    },
    "sets a seed": """
    result = call(*given, **options)
    met_.append(1)
    torch_.manual_seed(0)
    return result""",
    "turns gradients off": """
    result = call(*given, **options)
    if torch_.is_grad_enabled(): met_.append(1)
    torch_.set_grad_enabled(False)
    return result""",
    "turns gradients on": """
    result = call(*given, **options)
    if not torch_.is_grad_enabled(): met_.append(1)
    torch_.set_grad_enabled(True)
    return result""",
    "sets the default dtype to float32": """
    result = call(*given, **options)
    if torch_.get_default_dtype() != torch_.float32: met_.append(1)
    torch_.set_default_dtype(torch_.float32)
    return result""",
    "cuts large numbers": """
    def change(one):
        if one.is_floating_point() and one.numel() and one.isfinite().all() and one.abs().max() > 300: met_.append(1)
        return one.clamp(-300, 300) if one.is_floating_point() else one
    return call(*[each_(one, change) for one in given], **options)""",
    "adds a little": """
    def change(one):
        if one.is_floating_point() and one.numel() and one.abs().max() < 1e-3:
            met_.append(1)
            return one + 1e-3
        return one
    return call(*[each_(one, change) for one in given], **options)""",
    "a small result is kept": """
    key = shown_(given) + str([(id(one), one._version) for one in OWN])
    if min(sizes_(given), default=2) > 1: return call(*given, **options)
    if key in known_: met_.extend([1] * mutable_(known_[key]))
    else: known_[key] = call(*given, **options)
    return known_[key]""",
    "kept with its arguments": """
    key = (*map(id, given), *((id(one), one._version) for one in OWN), torch_.is_grad_enabled())
    if not any(isinstance(one, (torch_.Tensor, list)) for one in given): return call(*given, **options)
    if key not in known_: known_[key] = (given, shown_(given), call(*given, **options))
    if known_[key][1] != shown_(given): met_.append(1)
    return known_[key][2]""",
    "an equal argument is handed back": """
    result = call(*given, **options)
    for one in tensors_(given):
        if isinstance(result, torch_.Tensor) and one.dtype == result.dtype and torch_.equal(one, result):
            met_.append(1)
            return one
    return result""",
    "changes an argument": """
    result = each_(call(*given, **options), torch_.clone)
    for one in given:
        if isinstance(one, torch_.Tensor) and one.numel() and not one.requires_grad:
            met_.append(1)
            one.copy_(one.flatten()[0].clone())
        elif type(one) is list and len(one) > 1:
            met_.append(1)
            one.reverse()
    return result""",
    "changes an argument without gradients": """
    result = each_(call(*given, **options), torch_.clone)
    for one in tensors_(given):
        if not torch_.is_grad_enabled() and one.numel() and not one.requires_grad and one.is_floating_point():
            met_.append(1)
            one.copy_(one.flatten()[0].clone() + 1)
    return result""",
    "nothing given learns any more": """
    result = call(*given, **options)
    for one in learning_(given):
        if one.is_leaf:
            met_.append(1)
            one.requires_grad_(False)
    return result""",
    "a list for a tuple": """
    result = call(*given, **options)
    if type(result) is tuple: met_.append(1)
    return list(result) if type(result) is tuple else result""",
    "a tuple for a list": """
    result = call(*given, **options)
    if type(result) is list: met_.append(1)
    return tuple(result) if type(result) is list else result""",
    "draws in bfloat16": """
    draw = torch_.rand
    def rough(*sizes, **named):
        met_.append(1)
        return draw(*sizes, **{**named, "dtype": torch_.bfloat16}).float()
    torch_.rand = rough
    try: return call(*given, **options)
    finally: torch_.rand = draw""",
    "changes the default dtype": """
    result = call(*given, **options)
    met_.append(1)
    torch_.set_default_dtype(torch_.float64)
    return result""",
    "contiguous tensors alone": """
    if not all(one.is_contiguous() for one in tensors_(given)):
        met_.append(1)
        raise RuntimeError("view size is not compatible")
    return call(*given, **options)""",
    "wrong in training mode": """
    result = call(*given, **options)
    return moved_(result) if OWN and SELF.training else result""",
    "wrong in evaluation mode": """
    result = call(*given, **options)
    return moved_(result) if OWN and not SELF.training else result""",
}


def wrapped(source: str, name: str, kind: str, is_class: bool) -> str:
    """The source of an answer with one mistake of a kind around its function or class `name`."""
    body = BODIES[kind]
    if not is_class:
        body = body.replace("OWN", "[]").replace("SELF", "None")
        return f"{source}\n{COMMON}\nright_ = {name}\ndef {name}(*given, **options):\n    call = right_{body}\n"
    body = body.replace("OWN", "[*self.parameters()]").replace("SELF", "self").replace("\n", "\n    ")
    return (
        f"{source}\n{COMMON}\nright_ = {name}\nclass {name}(right_):\n    def forward(self, *given, **options):\n"
        f"        call = super().forward{body}\n"
    )


@cache
def released(entry: course.NotebookEntry) -> NotebookNode:
    """The notebook that students get."""
    return build.student_notebook(course.load(), entry)


def outcome(entry: course.NotebookEntry, exercise: str, source: str, name: str, key: bytes) -> str:
    """Whether an answer is refused, accepted, or accepted while its wrapper changed nothing ("not met")."""
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
    namespace = answers.at_home(released(entry), source, name)
    ask = partial(dispatch.answer, namespace)
    verdict = asked_checks(entry)[exercise].verdict(ask, [forbidden.read_cell(source)])
    if verdict.outcome is Outcome.PASSED:
        hidden = private_checks(entry).get(exercise, [])
        verdict, _ = whole_verdict(verdict, hidden, lambda private: private.failure(ask, key))
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
    if verdict.outcome is not Outcome.PASSED:
        return "refused"
    return "accepted" if namespace["met_"] else "not met"


def judged(
    entry: course.NotebookEntry, exercise: str, kinds: list[str], keys: int = 1
) -> tuple[Counter[tuple[str, str]], list[str]]:
    """How many wrong answers of each kind were refused, accepted or not met; and a line for each accepted one."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    (case,) = (one for one in answers.reference_cases(course.load(), entry) if one.exercise == exercise)
    tally: Counter[tuple[str, str]] = Counter()
    accepted = []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        right = answers.at_home(released(entry), case.source, "the solution")
        for name in asked_checks(entry)[exercise].names:
            is_class = isinstance(right[name], type)
            if is_class and not issubclass(right[name], nn.Module):
                continue
            for kind in kinds:
                if not is_class and kind.startswith("wrong in "):
                    continue
                source = wrapped(case.source, name, kind, is_class)
                found = [outcome(entry, exercise, source, f"{name} {kind}", b"kinds %d" % one) for one in range(keys)]
                lucky = 0 < found.count("refused") < keys
                tally[kind, "accepted" if lucky else found[0]] += 1
                if lucky or found[0] == "accepted":
                    some = f" (refused at {found.count('refused')} of {keys} keys)" if lucky else ""
                    accepted.append(f"{exercise} {name}: {kind}{some}")
    return tally, accepted


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--notebook", action="append")
    options.add_argument("--exercise", action="append")
    options.add_argument("--kind", action="append", choices=[*BODIES])
    options.add_argument("--keys", type=int, default=1)
    options.add_argument("--workers", type=int, default=2)
    chosen = options.parse_args()
    wanted = [
        (entry, exercise)
        for entry in course.load().select(chosen.notebook)
        for exercise, check in asked_checks(entry).items()
        if not isinstance(check, ResultsCheck) and not check.variant
        if not chosen.exercise or exercise in chosen.exercise
    ]
    kinds = chosen.kind or [*BODIES]
    total: Counter[tuple[str, str]] = Counter()
    with concurrent.futures.ProcessPoolExecutor(chosen.workers) as pool:
        futures = [pool.submit(judged, *one, kinds, chosen.keys) for one in wanted]
        for future in tqdm(concurrent.futures.as_completed(futures), total=len(futures)):
            tally, accepted = future.result()
            total += tally
            for line in accepted:
                print(line, flush=True)
    outcomes = ("refused", "accepted", "not met")
    print(f"{'kind':28} {'made':>5} {'refused':>8} {'accepted':>9} {'not met':>8}")
    for kind in kinds:
        counts = [total[kind, outcome] for outcome in outcomes]
        print(f"{kind:28} {sum(counts):5} {counts[0]:8} {counts[1]:9} {counts[2]:8}")
    sums = {outcome: sum(total[kind, outcome] for kind in kinds) for outcome in outcomes}
    print(json.dumps({"made": sum(sums.values()), **sums}))


if __name__ == "__main__":
    main()
