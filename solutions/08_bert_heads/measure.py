"""How often the span head of notebook 08 finds the answer: `python solutions/08_bert_heads/measure.py --seeds 1 2 3`.

Trains once for each seed, as the notebook does in the size cpu, and asks questions about pages of other source files,
in the wordings that training has and in others. The best sentence by common words is asked the same. Writes
`data/results/answering.json`: for each seed, wording and kind of question how many were asked, and of each of both
the exact matches, the sum of F1, and the answers that share a character with the right place. Seeds that are there
already are not trained again.
"""

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)  # not this folder: its notebook.py would hide Jupyter's

from autograder import course
from autograder.author import answers
from data import questions
from utils.experiments import answering

FILE = ROOT / "data" / "results" / "answering.json"
EXERCISES = ("8.1", "8.4", "8.5", "8.6", "8.7")


def solutions() -> dict:
    """The functions of the solutions."""
    known = course.load()
    entry = next(one for one in known.notebooks if one.name == "08_bert_heads")
    space: dict = {}
    exec("import string, torch\nfrom torch import nn\nfrom torch.nn import functional as F", space)
    for case in answers.reference_cases(known, entry):
        if case.exercise in EXERCISES:
            exec(case.source, space)
    return space


def measure(seed: int, count: int) -> dict:
    """What both find of `count` questions in known wordings and as many in others, by wording and kind."""
    space = solutions()
    own = answering.Functions(*(space[name] for name in answering.Functions._fields))
    began = time.process_time()
    made = answering.reader(own, seed, "cpu")
    found: dict = {"seconds": round(time.process_time() - began)}
    for wording in ("known", "other"):
        kinds: dict = {}
        for one in questions.load("documentation", "test", count, seed, unseen=wording == "other"):
            tried = {
                "head": next(iter(answering.ask(made, own, one.question, one.page, 1)), None),
                "sentence": answering.best_sentence(one.question, one.page),
            }
            row = kinds.setdefault(one.kind, {"asked": 0, "head": Counter(), "sentence": Counter()})
            row["asked"] += 1
            for name, span in tried.items():
                text = one.page[span.start : span.end] if span else ""
                got = space["squad_scores"]({"": text}, {"": [one.text]})
                touched = span and span.start < one.start + len(one.text) and one.start < span.end
                row[name].update(exact=int(got["exact_match"] == 100), f1=got["f1"] / 100, touched=int(bool(touched)))
        found[wording] = kinds
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, nargs="*", default=[1, 2, 3])
    options.add_argument("--count", type=int, default=150)
    chosen = options.parse_args()
    for seed in chosen.seeds:
        known = json.loads(FILE.read_text()) if FILE.exists() else {}
        if str(seed) not in known:
            known[str(seed)] = measure(seed, chosen.count)
            FILE.write_text(json.dumps(known, indent=1) + "\n")
        for wording in ("known", "other"):
            for name in ("head", "sentence"):
                rows = known[str(seed)][wording]
                asked = sum(row["asked"] for row in rows.values())
                shares = {
                    key: sum(row[name].get(key, 0) for row in rows.values()) / asked
                    for key in ("exact", "f1", "touched")
                }
                print(seed, wording, name, {key: f"{value:.0%}" for key, value in shares.items()})
                print(
                    "   ",
                    {kind: f"{row[name].get('touched', 0) / row['asked']:.0%}" for kind, row in sorted(rows.items())},
                )


if __name__ == "__main__":
    main()
