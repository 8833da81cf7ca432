"""What comes from a kernel and from a submission, fuzzed: it becomes plain data, or it is refused by name.

10,000 inputs in CI; a million with `FUZZ=100 python -m pytest -q -s tests/security/test_fuzz.py`.
"""

import base64
import collections
import copy
import json
import os
import random
import threading
import zipfile

import hypothesis
import msgpack
import nbformat
import numpy as np
import pytest
import torch
from hypothesis import strategies as some

from autograder import course
from autograder.author import build
from autograder.cells import CellRole, role_of
from autograder.intake import collect, restore
from autograder.sandbox import kernel
from utils.grading import protocol, remote, wire
from utils.grading.verdict import MAX_MESSAGE

SCALE = int(os.environ.get("FUZZ", "1"))
OPENERS = b"\x80\x90\xc1\xc4\xc6\xc7\xc9\xcb\xcf\xd4\xd8\xd9\xdb\xdc\xdd\xde\xdf\xff"  # containers and numbers
MUTANTS = 10  # of each example that hypothesis draws
COURSE = course.load()
ENTRY = COURSE.notebooks[0]
ended: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)


def fuzz(examples):
    """So many examples for every hundredth of the million; no deadline, since others use this machine too."""
    quiet = [hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large]
    return hypothesis.settings(max_examples=examples * SCALE, deadline=None, database=None, suppress_health_check=quiet)


@pytest.fixture(scope="module", autouse=True)
def figures():
    """How the inputs of each test ended; shown with `-s`."""
    yield
    total = 0
    for name, counts in ended.items():
        total += counts.total()
        print(f"\n{name}: {counts.total():,} inputs:", ", ".join(f"{counts[how]:,} {how}" for how in sorted(counts)))
    print(f"{total:,} inputs")


Met = collections.namedtuple("Met", "handle name")
numbers = some.integers(-(2**63), 2**64 - 1) | some.floats()
leaves = some.none() | some.booleans() | numbers | some.text(max_size=8) | some.binary(max_size=8)
sizes = some.integers(-2, 5) | some.sampled_from([2**25, 2**31, 2**40, 2**63 - 1]) | some.booleans() | some.none()
bodies = some.tuples(
    some.sampled_from([*wire.DTYPES, "object", ""]), some.lists(sizes, max_size=18), some.binary(max_size=48)
).map(msgpack.packb)
handles = some.tuples(some.integers(-3, 2**64 - 1), some.text(max_size=200)).map(msgpack.packb)
extensions = some.builds(
    msgpack.ExtType, some.sampled_from([1, 2, 3, 4, 127]), bodies | handles | some.binary(max_size=24)
)
stamps = some.builds(msgpack.Timestamp, some.integers(0, 2**34 - 1), some.integers(0, 10**9 - 1))
trees = some.recursive(
    leaves | extensions | stamps,
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(leaves | stamps, inner, max_size=4),
    max_leaves=12,
)
tensors = some.builds(
    lambda dtype, shape: torch.ones(shape).to(wire.DTYPES[dtype]),
    some.sampled_from([*wire.DTYPES]),
    some.lists(some.integers(0, 3), max_size=4),
)
plain = some.recursive(
    leaves | tensors | some.just(object),
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)


def decode(name, data):
    """Decode as the judge does: plain data of exact types, within the limits, or the wire's own error."""
    try:
        value = wire.loads(data, Met)
    except wire.WireError:
        ended[name]["refused"] += 1
        return
    ended[name]["decoded"] += 1
    assert items_of(value, 0) <= wire.MAX_ITEMS


def items_of(value, depth):
    assert depth <= wire.MAX_DEPTH
    if type(value) is list:
        return sum(items_of(item, depth + 1) for item in value) + len(value)
    if type(value) is dict:
        assert {type(key) for key in value} <= {str, int, bool, float}
        return sum(items_of(item, depth + 1) for item in value.values()) + len(value)
    if type(value) is Met:
        assert type(value.handle) is int and type(value.name) is str and len(value.name) <= 100
    elif type(value) in (torch.Tensor, np.ndarray):
        assert value.nbytes <= wire.MAX_BYTES and len(value.shape) <= wire.MAX_DIMENSIONS
        value.sum()  # its memory is there
    else:
        assert type(value) in (type(None), bool, int, float, str, bytes)
    return 1


def mutants(data, seed):
    """Variants of a message: bytes flipped, cut, doubled, moved, replaced by those that open containers."""
    chance = random.Random(seed)
    for _ in range(MUTANTS):
        new = bytearray(data)
        for _ in range(chance.choice((1, 1, 1, 2, 4))):
            here, there = sorted(chance.randrange(len(new) + 1) for _ in range(2))
            match chance.randrange(6):
                case 0 if here < len(new):
                    new[here] ^= 1 << chance.randrange(8)
                case 1 if here < len(new):
                    new[here] = chance.choice(
                        b"\x80\x90\xc1\xc4\xc6\xc7\xc9\xcb\xcf\xd4\xd8\xd9\xdb\xdc\xdd\xde\xdf\xff"
                    )
                case 2:
                    del new[here:there]
                case 3:
                    new[here:here] = new[here:there]
                case 4:
                    new[here:here] = chance.randbytes(4)
                case 5:
                    new = new[there:] + new[:there]
        yield bytes(new)


@fuzz(1000)
@hypothesis.given(some.binary(max_size=300))
def test_any_bytes(data):
    decode("any bytes", data)


@fuzz(1500)
@hypothesis.given(trees)
def test_any_msgpack(tree):
    decode("any msgpack", msgpack.packb(tree, strict_types=False))


@fuzz(500)
@hypothesis.given(plain, some.integers(0, 2**32))
def test_mutated_messages(value, seed):
    message = wire.dumps({"value": value}, lambda kept: 7)
    assert type(wire.loads(message, Met)["value"]) is not None
    for data in mutants(message, seed):
        decode("mutated messages", data)


errors = some.fixed_dictionaries(
    {"type": some.text(), "message": some.text(), "line": some.text()}, optional={"number": leaves, "blank": leaves}
)
replies = trees | trees.map(lambda tree: {"value": tree}) | errors.map(lambda error: {"error": error})


@fuzz(50)
@hypothesis.given(replies, some.integers(0, 2**32))
def test_any_reply_to_a_check(tree, seed):
    """The judge gets plain data or the error that it shows to the student, from the reply and its mutants."""
    whole = msgpack.packb(tree)
    for data in [whole, *list(mutants(whole, seed))[1:]]:
        try:
            remote.named(lambda request, data=data: data, "x")()
            ended["replies to a check"]["accepted"] += 1
        except remote.StudentError as told:
            assert len(told.sentence()) < 2 * MAX_MESSAGE
            ended["replies to a check"]["refused"] += 1


@fuzz(500)
@hypothesis.given(
    some.binary(max_size=100)
    | some.builds(lambda size, rest: size.to_bytes(4) + rest, some.integers(0, 9), some.binary(max_size=9))
)
def test_any_bytes_on_the_judges_line(data):
    judges, kernels = protocol.pair()
    with judges:
        with kernels:
            kernels.sendall(data)
        try:
            assert len(protocol.receive(judges)) <= wire.MAX_BYTES
            ended["bytes on the line"]["a message"] += 1
        except (EOFError, wire.TooLarge):
            ended["bytes on the line"]["refused"] += 1


json_leaves = some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=20)
json_trees = some.recursive(
    json_leaves,
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=9), inner, max_size=3),
)
texts = some.text(max_size=60) | some.sampled_from(
    [
        "<b onclick=x>",
        "<script>",
        "](javascript:",
        base64.b64encode(bytes(9)).decode(),
        '"onerror=x',
        "\x1b[31m",
        "\ud800",
    ]
)
shown = some.dictionaries(some.sampled_from([*kernel.CLEAN, "text/x"]), texts | json_trees, min_size=1, max_size=4)
forms = {
    "stream": {"name": some.sampled_from(["stdout", "stderr"]), "text": texts},
    "error": {"name": texts, "message": texts, "lines": some.lists(texts | json_leaves, max_size=3)},
    "display": {"data": shown},
}
strange = some.dictionaries(some.sampled_from(["name", "text", "message", "lines", "data"]), json_trees)
items = some.sampled_from([*forms]).flatmap(
    lambda kind: some.fixed_dictionaries({"kind": some.just(kind)}).flatmap(
        lambda one: (
            some.fixed_dictionaries(forms[kind])
            | some.builds(dict.__or__, some.fixed_dictionaries(forms[kind]), strange)
            | strange
        ).map(lambda rest: one | rest)
    )
)


@fuzz(200)
@hypothesis.given(
    some.lists(items | json_trees, min_size=1, max_size=4), some.sampled_from([kernel.CLEAN, kernel.CLEAN_OF_GUESTS])
)
def test_any_outputs_of_a_kernel(sent, clean):
    ran = kernel.Ran()
    collector = kernel.OutputCollector(ran, 200, clean)
    for item in sent:
        collector(item)
    kept = nbformat.v4.new_code_cell(outputs=ran.outputs)
    nbformat.validate(nbformat.v4.new_notebook(cells=[kept]))
    for output in ran.outputs:
        assert len(output.get("text", "")) <= 800
        shown = output.get("data", {}).get("text/html", "")
        assert "<script" not in shown and "<b on" not in shown
        assert all(mark not in output.get("data", {}).get("image/png", "") for mark in "<>\"'")
    ended["outputs"]["shown" if ran.outputs else "dropped"] += 1


@pytest.fixture(scope="module")
def release():
    """The released notebook as far as its second exercise: every kind of cell, quickly restored."""
    whole = build.student_notebook(COURSE, ENTRY)
    last = next(index for index, cell in enumerate(whole.cells) if cell.id == "check_1_2")
    whole.cells = whole.cells[: last + 1]
    for cell in whole.cells:
        if cell.cell_type == "markdown":
            cell.source = cell.source[:200]
    return whole


def restored(name, text, release):
    """Restore as the grader does: a valid notebook with every graded cell of the release, or a named refusal."""
    try:
        notebook, remarks = restore.restore(restore.read(text, 1), release)
    except restore.Ungradable as why:
        assert str(why)
        ended[name]["refused"] += 1
        return
    ended[name]["restored"] += 1
    nbformat.validate(notebook)
    assert all(type(remark) is str for remark in remarks)
    ours = [cell.id for cell in release.cells if "nbgrader" in cell.metadata]
    assert [cell.id for cell in notebook.cells if "nbgrader" in cell.metadata] == ours
    released = {cell.id: cell for cell in release.cells}
    for cell in notebook.cells:
        if role_of(cell.id) is CellRole.CHECK:
            assert cell.source == released[cell.id].source and cell.metadata == released[cell.id].metadata
        assert not cell.get("outputs")
    build.write(notebook).encode()


@fuzz(500)
@hypothesis.given(
    text=some.binary(max_size=200)
    | json_trees.map(json.dumps).map(str.encode)
    | some.builds(
        lambda rest, major, cells: json.dumps(rest | {"nbformat": major, "nbformat_minor": 1, "cells": cells}).encode(),
        some.dictionaries(some.sampled_from(["metadata", "worksheets", "orig_nbformat", "x"]), json_trees, max_size=2),
        some.integers(-1, 5) | json_leaves,
        some.lists(json_trees, max_size=3) | json_trees,
    )
)
def test_any_file(release, text):
    restored("any file", text, release)


def worsen(notebook, seed):
    """A submission in which something is not as Jupyter writes it."""
    chance = random.Random(seed)
    new = copy.deepcopy(notebook)
    strange = [None, 7, -1.5, "x", "exercise_1_1", [], ["a", 1], {}, {"id": 3}, True, "\ud800\0", "</pre><script>"]
    for _ in range(chance.randint(1, 6)):
        cells = new["cells"]
        cell = chance.choice(cells) if cells else {}
        match chance.randrange(9):
            case 0 if isinstance(cell, dict):
                cell[chance.choice(["id", "source", "cell_type", "metadata", "outputs"])] = copy.deepcopy(
                    chance.choice(strange)
                )
            case 1 if isinstance(cell, dict) and isinstance(cell.get("metadata"), dict):
                cell["metadata"][chance.choice(["nbgrader", "tags", "id"])] = copy.deepcopy(chance.choice(strange))
            case 2 if cells:
                cells.remove(cell)
            case 3:
                cells.insert(chance.randrange(len(cells) + 1), copy.deepcopy(cell))
            case 4:
                chance.shuffle(cells)
            case 5:
                cells.insert(chance.randrange(len(cells) + 1), copy.deepcopy(chance.choice(strange)))
            case 6:
                new[chance.choice(["metadata", "nbformat", "nbformat_minor", "x"])] = chance.choice(
                    [*strange, 1, 2, 3, 4]
                )
            case 7 if isinstance(cell, dict) and isinstance(cell.get("source"), str):
                cell["source"] = "".join(chance.sample(cell["source"], len(cell["source"])))
            case 8 if isinstance(cell, dict):
                cell.pop(chance.choice(["id", "source", "cell_type", "metadata"]), None)
    return new


@fuzz(60)
@hypothesis.given(some.integers(0, 2**64))
def test_mutated_notebooks(release, seed):
    for number in range(MUTANTS):
        text = json.dumps(worsen(json.loads(json.dumps(release)), seed + number)).encode()
        if number % 5 == 0:  # and broken files
            text = next(mutants(text, seed))
        restored("mutated notebooks", text, release)


@fuzz(20)
@hypothesis.given(
    names=some.lists(some.text(min_size=1, max_size=30), min_size=1, max_size=3),
    folders=some.lists(some.sampled_from(["ada", "..", ENTRY.name, "a_1_2_x", "x_a_attempt_2026-99-99-99-99-99", ""])),
    seed=some.integers(0, 2**32),
)
def test_mutated_archives(tmp_path_factory, names, folders, seed):
    folder = tmp_path_factory.getbasetemp() / f"archives-{threading.get_ident()}"
    folder.mkdir(exist_ok=True)
    path = folder / "in.zip"
    known = COURSE.model_copy(update={"tree": folder / "tree"})
    with zipfile.ZipFile(path, "w") as archive:
        for name in dict.fromkeys(names):
            member = zipfile.ZipInfo("x")
            member.filename = "/".join([*folders[:3], f"{name}{ENTRY.name}.ipynb"])  # its own writer refuses a NUL
            archive.writestr(member, b"{}")
    whole = path.read_bytes()
    for data in [whole, *list(mutants(whole, seed))[:9]]:
        path.write_bytes(data)
        result = collect.collect(known, path)
        "\n".join(result.taken + result.refused).encode()
        ended["archives"]["taken" if result.taken else "refused"] += 1
    inside = [path for path in (folder / "tree").rglob("*") if path.is_file()]
    assert all(path.is_relative_to(folder / "tree") for path in inside)
