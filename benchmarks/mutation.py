"""How strong are the checks? Mutate every reference solution and count what public and private checks reject.

    python benchmarks/mutation.py [--notebook NAME ...] [--exercise 1.10 ...] [--workers 2]

A mutant is the author's solution with one thing changed: an operator, a constant, an argument dropped, a
statement removed. It is killed if a check rejects it, if it raises, or if it does not end in time. What
survives and cannot be told from the solution by any input is listed by hand, with the reason, in
`benchmarks/equivalent_mutants.toml`; what survives otherwise is printed. The last line is a JSON object.

cosmic-ray and mutmut mutate files under a test suite; here a cell is mutated under two functions, so
Python's own syntax tree is all that is needed.
"""

import argparse
import ast
import concurrent.futures
import contextlib
import copy
import io
import json
import linecache
import os
import signal
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ["OMP_NUM_THREADS"] = "1"  # before torch: on small tensors its threads only wait

from autograder import course
from autograder.author import answers, build
from autograder.author.checks import asked_checks, private_checks
from utils.grading import dispatch
from utils.grading.check import Outcome
from utils.grading.results_check import ResultsCheck

SECONDS = 20
RUNS_SECONDS = 120  # of answers that train
FIRST = 5  # times as long for the solution, which is the first to import
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.toml")
SWAPS: dict[type, list[type]] = {
    ast.Add: [ast.Sub],
    ast.Sub: [ast.Add],
    ast.Mult: [ast.Div],
    ast.Div: [ast.Mult],
    ast.FloorDiv: [ast.Mult],
    ast.Mod: [ast.FloorDiv],
    ast.Pow: [ast.Mult],
    ast.MatMult: [ast.Mult],
    ast.Lt: [ast.LtE, ast.Gt],
    ast.LtE: [ast.Lt, ast.GtE],
    ast.Gt: [ast.GtE, ast.Lt],
    ast.GtE: [ast.Gt, ast.LtE],
    ast.Eq: [ast.NotEq],
    ast.NotEq: [ast.Eq],
    ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is],
    ast.In: [ast.NotIn],
    ast.NotIn: [ast.In],
    ast.And: [ast.Or],
    ast.Or: [ast.And],
}


def mutants(source: str) -> Iterator[tuple[str, str]]:
    """Every mutant of a cell: what was changed, and the changed source."""
    seen = {ast.unparse(ast.parse(source))}
    tree = ast.parse(source)
    for index, node in enumerate(ast.walk(tree)):
        for number in range(_choices(node)):
            changed = copy.deepcopy(tree)
            target = next(found for place, found in enumerate(ast.walk(changed)) if place == index)
            said = _change(target, number)
            with contextlib.suppress(ValueError, TypeError):
                text = ast.unparse(ast.fix_missing_locations(changed))
                if said and text not in seen:
                    seen.add(text)
                    yield f"line {getattr(target, 'lineno', 0)}: {said}", text


def _choices(node: ast.AST) -> int:
    match node:
        case ast.BinOp(op=op) | ast.AugAssign(op=op) | ast.BoolOp(op=op):
            return len(SWAPS.get(type(op), []))
        case ast.Compare(ops=[op]):
            return len(SWAPS.get(type(op), []))
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            return 1
        case ast.Constant(value=bool()) | ast.Constant(value=str()):
            return int(type(node.value) is bool)
        case ast.Constant(value=int() | float()):
            return 2
        case ast.Call(args=args, keywords=keywords):
            return len(args) + len(keywords)
        case ast.FunctionDef(body=body) | ast.If(body=body) | ast.For(body=body) | ast.With(body=body):
            return len(body)
    return 0


def _change(node: ast.AST, number: int) -> str:
    """Change `node` in its `number`-th way; what was done."""
    match node:
        case ast.BinOp() | ast.AugAssign() | ast.BoolOp():
            new = SWAPS[type(node.op)][number]
            said = f"{type(node.op).__name__} to {new.__name__}"
            node.op = new()
            return said
        case ast.Compare():
            new = SWAPS[type(node.ops[0])][number]
            said = f"{type(node.ops[0]).__name__} to {new.__name__}"
            node.ops = [new()]
            return said
        case ast.UnaryOp():
            said = f"{type(node.op).__name__} dropped"
            node.op = ast.UAdd() if isinstance(node.op, ast.USub) else ast.Not()
            if isinstance(node.op, ast.Not):
                node.operand = ast.UnaryOp(ast.Not(), node.operand)
            return said
        case ast.Constant(value=bool()):
            node.value = not node.value
            return f"constant to {node.value}"
        case ast.Constant(value=int() | float() as value):
            node.value = value + 1 if number == 0 else value * 2 if value else -1
            return f"constant to {node.value}"
        case ast.Call():
            if number < len(node.args):
                return f"argument dropped: {ast.unparse(node.args.pop(number))}"
            return f"argument dropped: {ast.unparse(node.keywords.pop(number - len(node.args)))}"
        case ast.FunctionDef() | ast.If() | ast.For() | ast.With():
            gone = node.body[number]
            if isinstance(gone, ast.Expr) and isinstance(gone.value, ast.Constant):
                return ""  # a docstring
            node.body[number] = ast.Pass()
            return f"removed: {ast.unparse(gone).splitlines()[0]}"
    return ""


def survives(entry: course.NotebookEntry, exercise: str, source: str, patience: int = 1) -> bool:
    """Whether every check of the exercise accepts this answer, within `patience` times what answers have."""

    def late(*_: object) -> None:
        raise TimeoutError

    check = asked_checks(entry)[exercise]
    signal.signal(signal.SIGALRM, late)
    signal.alarm(patience * (RUNS_SECONDS if isinstance(check, ResultsCheck) else SECONDS))
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            contextlib.chdir(folder),  # runs are written where the kernel stands
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            notebook = build.student_notebook(course.load(), entry)
            namespace = answers.at_home(notebook, source, f"mutant of {exercise}")

            def ask(request: bytes) -> bytes:
                return dispatch.answer(namespace, request)

            # The rule about forbidden names is not what is measured.
            if check.verdict(ask, []).outcome is not Outcome.PASSED:
                return False
            return all(item.failure(ask) is None for item in private_checks(entry).get(exercise, []))
    except BaseException:  # whatever it raises, it is not accepted
        return False
    finally:
        signal.alarm(0)
        linecache.clearcache()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--notebook", nargs="*")
    options.add_argument("--exercise", nargs="*", help="of these notebooks; all if none is named")
    options.add_argument("--workers", type=int, default=2)
    chosen = options.parse_args()
    os.environ["COURSE_PROFILE"] = "smoke"
    known = course.load()
    listed = tomllib.loads(EQUIVALENT.read_text())
    rows, total, killed, equivalent = [], 0, 0, 0
    with concurrent.futures.ProcessPoolExecutor(chosen.workers) as pool:
        for entry in known.select(chosen.notebook):
            cases = answers.reference_cases(known, entry)
            cases = [case for case in cases if not chosen.exercise or case.exercise in chosen.exercise]
            if not cases:
                continue
            for case in cases:  # else every mutant would seem to be killed
                if not pool.submit(survives, entry, case.exercise, case.source, FIRST).result():
                    sys.exit(f"the solution of exercise {case.exercise} is rejected itself, or takes too long")
            excused = {(one["exercise"], one["mutant"]) for one in listed.get(entry.name, [])}
            jobs = {
                pool.submit(survives, entry, case.exercise, text): (case.exercise, said)
                for case in cases
                for said, text in mutants(case.source)
            }
            living = []
            for job in tqdm(concurrent.futures.as_completed(jobs), total=len(jobs), desc=entry.name, disable=None):
                exercise, said = jobs[job]
                if job.result():
                    living.append((exercise, said))
            same = [one for one in living if one in excused]
            for exercise, said in sorted(set(living) - set(same)):
                print(f"survived  {exercise}  {said}")
            rows.append((entry.name, len(jobs), len(jobs) - len(living), len(same)))
            total, killed, equivalent = total + len(jobs), killed + len(jobs) - len(living), equivalent + len(same)
    if not rows:
        sys.exit(f"no exercise of these notebooks is called {' or '.join(chosen.exercise)}")
    print(f"{'':28}{'mutants':>9}{'killed':>8}{'equivalent':>12}{'score':>8}")
    for name, made, dead, unchanged in rows:
        print(f"{name:28}{made:9}{dead:8}{unchanged:12}{dead / (made - unchanged):8.1%}")
    score = round(killed / (total - equivalent), 4)
    print(json.dumps({"mutants": total, "killed": killed, "score": score, "equivalent": equivalent}))


if __name__ == "__main__":
    main()
