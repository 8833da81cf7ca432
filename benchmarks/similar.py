"""Whether `autograder similar` finds planted copies: 100 honest submissions and 5 copies, of each of some notebooks.

    python benchmarks/similar.py [--notebooks 05 07] [--honest 100] [--copies 5] [--seeds 3]

An honest submission answers each exercise with one of those whose verdict is known: the author's solution, a right
answer in another style, or a wrong one, drawn again for each student. Most wrong ones are the solution with a line
changed, so honest pairs share more than people's do. A copy is another student's whole submission with its own names
changed, statements that stand side by side exchanged, and comments and empty lines put in. `similar.PIECE` was chosen
on notebooks 01, 05 and 07 with the seeds 0 and 1. The last line is JSON: of each notebook and seed the places of the
planted pairs among all pairs, the most alike first.
"""

import argparse
import ast
import json
import os
import random
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from autograder import course as courses
from autograder.author import answers, build
from autograder.cells import CellRole, exercise_of, role_of
from autograder.course import Course, NotebookEntry
from autograder.similarity.similar import Compared

SOLUTION = 0.4  # the chance that an exercise is answered as the author does; else each other answer is as likely
LEFT_OUT = 0.05


def honest(course: Course, entry: NotebookEntry, count: int, draw: random.Random) -> dict[str, dict[str, str]]:
    """So many submissions, the answer to each exercise drawn."""
    reference = {case.exercise: case.source for case in answers.reference_cases(course, entry)}
    others: dict[str, list[str]] = {}
    for case in answers.answer_cases(entry):
        others.setdefault(case.exercise, []).append(case.source)
    found = {}
    for number in range(count):
        mine = {}
        for exercise, solution in reference.items():
            if draw.random() >= LEFT_OUT:
                own = draw.random() < SOLUTION or exercise not in others
                mine[exercise] = solution if own else draw.choice(others[exercise])
        found[f"student{number:03d}"] = mine
    return found


def disguised(source: str, draw: random.Random) -> str:
    """A copy of an answer: other names for its own, statements moved, comments and empty lines put in."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return source  # of a wrong answer that is not Python
    own = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    renamed = {name: f"{name}_{draw.choice(('x', 'value', 'tmp', 'mine'))}{draw.randrange(10)}" for name in sorted(own)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = renamed.get(node.id, node.id)
        for body in (getattr(node, "body", None), getattr(node, "orelse", None)):
            if isinstance(body, list):
                _moved(body, draw)
    lines = []
    for line in ast.unparse(tree).splitlines():
        if draw.random() < 0.2:
            lines.append(draw.choice(("", f"{line[: len(line) - len(line.lstrip())]}# the next step")))
        lines.append(line)
    return "\n".join(lines)


def _moved(body: list[ast.stmt], draw: random.Random) -> None:
    """Exchange neighbours that are simple assignments or definitions, some of them."""
    kinds = (ast.Assign, ast.AugAssign, ast.FunctionDef)
    for place in range(len(body) - 1):
        if isinstance(body[place], kinds) and isinstance(body[place + 1], kinds) and draw.random() < 0.5:
            body[place], body[place + 1] = body[place + 1], body[place]


def planted(found: dict[str, dict[str, str]], copies: int, draw: random.Random) -> list[tuple[str, str]]:
    """Put copies of drawn submissions among them; the pairs."""
    pairs = []
    for number, original in enumerate(draw.sample(sorted(found), copies)):
        copy = f"copier{number}"
        found[copy] = {exercise: disguised(source, draw) for exercise, source in found[original].items()}
        pairs.append((original, copy))
    return pairs


def released(course: Course, entry: NotebookEntry) -> dict[str, str]:
    """What students get of each exercise."""
    cells = build.student_notebook(course, entry).cells
    return {exercise_of(cell.id): cell.source for cell in cells if role_of(cell.id) is CellRole.EXERCISE}


def places(course: Course, entry: NotebookEntry, count: int, copies: int, seed: int) -> list[int]:
    """Where the planted pairs stand among all pairs, the most alike first, from 1."""
    draw = random.Random(f"{entry.name} {seed}")
    found = honest(course, entry, count, draw)
    wanted = {frozenset(pair) for pair in planted(found, copies, draw)}
    students = sorted(found)
    draw.shuffle(students)
    ranked = Compared({student: found[student] for student in students}, released(course, entry)).pairs(10**6)
    return [place for place, pair in enumerate(ranked, 1) if {pair.first, pair.second} in wanted]


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--notebooks", nargs="+", default=["01", "05", "07"])
    ask.add_argument("--honest", type=int, default=100)
    ask.add_argument("--copies", type=int, default=5)
    ask.add_argument("--seeds", type=int, default=3)
    given = ask.parse_args()
    course, answer = courses.load(), {}
    for name in given.notebooks:
        entry = course.notebook(name)
        for seed in range(given.seeds):
            began = time.perf_counter()
            found = places(course, entry, given.honest, given.copies, seed)
            answer[f"{entry.number} seed {seed}"] = found
            print(
                f"{entry.name}, seed {seed}: planted pairs at {found}, {time.perf_counter() - began:.1f} s", flush=True
            )
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
