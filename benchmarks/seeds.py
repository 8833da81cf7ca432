"""Are the private checks right whatever they draw? Ask known answers at many keys.

    python benchmarks/seeds.py [--notebook NAME ...] [--exercise 1.9 ...] [--keys 100] [--solutions] [--workers 2]

In grading, each submission has a key of its own, from which private checks draw what they ask (`utils.grading.expect`).
Here every solution and right variant is asked at so many keys, and must pass at all of them; every named wrong
answer that only private checks catch must be rejected at all of them, with its words. With `--solutions` only the
authors' solutions are asked. What was otherwise is a line of the table; the last line is a JSON object: `checks`
(private checks asked), `keys`, `right_failed` and `wrong_accepted` (pairs of an answer and a key), `other_words`
(wrong answers rejected with another sentence).
"""

import argparse
import collections
import concurrent.futures
import contextlib
import io
import json
import linecache
import sys
import warnings
from pathlib import Path

from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import torch

from autograder import course
from autograder.author import answers, build
from autograder.author.checks import private_checks
from utils.grading import dispatch

RIGHT_FAILED, WRONG_ACCEPTED, OTHER_WORDS = "right_failed", "wrong_accepted", "other_words"


def fares(entry: course.NotebookEntry, case: answers.AnswerCase, keys: int) -> collections.Counter[tuple[str, str]]:
    """How often one answer fared otherwise than it should, by kind and first words."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    checks = private_checks(entry)[case.exercise]
    namespace = answers.at_home(build.student_notebook(course.load(), entry), case.source, case.name)
    found: collections.Counter[tuple[str, str]] = collections.Counter()
    for number in range(keys):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            failed = [
                (check.tells, failure)
                for check in checks
                if (failure := check.failure(lambda request: dispatch.answer(namespace, request), b"%d" % number))
            ]
        dispatch.kept.clear()
        if case.right and failed:
            found[RIGHT_FAILED, failed[0][1][:120]] += 1
        elif not case.right and not failed:
            found[WRONG_ACCEPTED, ""] += 1
        elif case.says is not None and not case.is_told(failed[0][0]):
            found[OTHER_WORDS, failed[0][0][:120]] += 1
    linecache.clearcache()
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--notebook", nargs="*")
    options.add_argument("--exercise", nargs="*")
    options.add_argument("--keys", type=int, default=100)
    options.add_argument("--solutions", action="store_true")
    options.add_argument("--workers", type=int, default=2)
    chosen = options.parse_args()
    known = course.load()
    jobs, asked = {}, 0
    right: collections.Counter[str] = collections.Counter()
    wrong: collections.Counter[str] = collections.Counter()
    rows: dict[str, collections.Counter[str]] = {}
    with concurrent.futures.ProcessPoolExecutor(chosen.workers) as pool:
        for entry in known.select(chosen.notebook):
            checks = private_checks(entry)
            wanted = {exercise for exercise in checks if not chosen.exercise or exercise in chosen.exercise}
            asked += sum(len(checks[exercise]) for exercise in wanted)
            written = [] if chosen.solutions else answers.answer_cases(entry)
            for case in [*answers.reference_cases(known, entry), *written]:
                if case.exercise in wanted and (case.right or case.private):
                    jobs[pool.submit(fares, entry, case, chosen.keys)] = entry.name, case
                    (right if case.right else wrong)[entry.name] += 1
                    rows[entry.name] = collections.Counter()
        for job in tqdm(concurrent.futures.as_completed(jobs), total=len(jobs), disable=None):
            name, case = jobs[job]
            for (kind, words), count in job.result().items():
                rows[name][kind] += count
                print(f"{kind}  {count} of {chosen.keys}  {case.exercise}  {case.name}  {words}", flush=True)
    kinds = (RIGHT_FAILED, WRONG_ACCEPTED, OTHER_WORDS)
    print(f"{'':28}{'right':>8}{'wrong':>8}" + "".join(f"{kind:>16}" for kind in kinds))
    for name, row in rows.items():
        print(f"{name:28}{right[name]:8}{wrong[name]:8}" + "".join(f"{row[kind]:16}" for kind in kinds))
    totals = {kind: sum(row[kind] for row in rows.values()) for kind in kinds}
    print(json.dumps({"checks": asked, "keys": chosen.keys, **totals}))


if __name__ == "__main__":
    main()
