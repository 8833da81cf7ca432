"""What an exercise forbids is found where it would earn the points, at home and in grading, and nowhere else."""

import _thread
import functools
import operator
import os
import pickle
import queue
import re
import resource
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from autograder import course, limited
from autograder.grading import judge
from utils.grading import dispatch, forbidden
from utils.grading.check import Check, Outcome, check, does_all
from utils.grading.remote import ForbiddenUsed, library, named

LOSS = "def lm_loss(logits, targets, pad_id=1):\n    return {call}(logits.flatten(0, 1), targets.flatten())\n"
BY_HAND = "def lm_loss(logits, targets, pad_id=1):\n    return logits.logsumexp(-1).mean()\n"
FORBIDS = ("cross_entropy", "CrossEntropyLoss")


def used(*cells, names=("lm_loss",), forbids=FORBIDS):
    return forbidden.used([forbidden.read_cell(cell) for cell in cells], names, forbids)


FOUND = [
    (LOSS.format(call="F.cross_entropy"),),
    ("%precision 3\n" + LOSS.format(call="F.cross_entropy"),),
    ("!true\n" + LOSS.format(call="F.cross_entropy"),),
    ("%%capture\n" + LOSS.format(call="F.cross_entropy"),),
    ("%time lm_loss = F.cross_entropy",),
    ("%%time\n%%capture\n" + LOSS.format(call="F.cross_entropy"),),
    ("import torch.nn.functional as G\nhelp_me = G.cross_entropy", LOSS.format(call="help_me")),
    ("from torch.nn.functional import cross_entropy as ce", LOSS.format(call="ce")),
    ("from torch.nn.functional import *", LOSS.format(call="cross_entropy")),
    (LOSS.format(call="getattr(F, 'cross_entropy')"),),
    (LOSS.format(call="operator.attrgetter('functional.cross_entropy')(nn)"),),
    ("lm_loss = lambda *given: F.cross_entropy(*given)",),
    ("lm_loss = functools.partial(F.cross_entropy)",),
    (BY_HAND, "globals()['lm_loss'] = F.cross_entropy"),
    (BY_HAND, "globals().update(lm_loss=F.cross_entropy)"),
    (BY_HAND, "exec('lm_loss = F.cross_entropy')"),
    (BY_HAND, "if True:\n    lm_loss = F.cross_entropy"),
    (BY_HAND, "for lm_loss in [F.cross_entropy]:\n    pass"),
    (BY_HAND, "import builtins\n(lm_loss := F.cross_entropy)"),
    ("class Tools:\n    pass\nTools.loss = F.cross_entropy", LOSS.format(call="Tools.loss")),
    ("tools = {}\ntools['loss'] = F.cross_entropy", LOSS.format(call="tools['loss']")),
    ("def one(*g):\n    return two(*g)", "def two(*g):\n    return F.cross_entropy(*g)", LOSS.format(call="one")),
    ("match {'f': F.cross_entropy}:\n    case {**tools}:\n        pass", LOSS.format(call="tools['f']")),
    ("def install():\n    global lm_loss\n    lm_loss = F.cross_entropy\n\n\ninstall()",),
    ("tools = []", "tools.append(F.cross_entropy)", LOSS.format(call="tools[0]")),
    (LOSS.format(call="getattr(F, 'cross' + '_en' + 'tropy')"),),
    (LOSS.format(call="F.cross_entropy") + "this does not parse",),
    (LOSS.format(call="F._cross_entropy"),),
    ("from somewhere import __cross_entropy as ce", LOSS.format(call="ce")),
]


@pytest.mark.parametrize("cells", FOUND)
def test_it_is_found(cells):
    assert used(*cells) == "cross_entropy"


@pytest.mark.parametrize(
    "cells",
    [
        (BY_HAND,),
        (BY_HAND + "assert torch.allclose(lm_loss(a, b), F.cross_entropy(a, b))",),
        (BY_HAND, "print(F.cross_entropy(a, b))"),
        ("F.cross_entropy(a, b)", "mine = F.cross_entropy(a, b)", BY_HAND),
        (LOSS.format(call="F.cross_entropy"), BY_HAND),
        ("def compare(a, b):\n    return F.cross_entropy(a, b) - lm_loss(a, b)", BY_HAND),
        ("# no F.cross_entropy here\n" + BY_HAND,),
        ('def lm_loss(a, b, c):\n    """Equal to F.cross_entropy: cross_entropy"""\n    return a',),
        (BY_HAND, "%timeit F.cross_entropy(a, b)"),
        (BY_HAND, "losses = []\nlosses.append(F.cross_entropy(a, b))"),
        (BY_HAND, "torch.add(1, F.cross_entropy(a, b))"),
        ("F.cross_entropy(a, b", BY_HAND),
        ("def lm_loss(a, b, c):\n    cross_entropy = a.sum()\n    return cross_entropy",),
        ("def lm_loss(a, b, cross_entropy=1):\n    return a * cross_entropy",),
        ("def lm_loss(a: 'F.cross_entropy', b) -> 'cross_entropy':\n    return {'cross_entropy': a}['cross_entropy']",),
        ("def cross_entropy(a):\n    return a.mean()", "def lm_loss(a, b, c):\n    return cross_entropy(a)"),
        (BY_HAND, "print(vars(F.cross_entropy), globals().keys(), F.cross_entropy)"),
        ("def lm_loss(a, b, c):\n    if c is None:\n        raise ValueError('cross_entropy')\n    return a",),
    ],
)
def test_what_earns_nothing_is_no_offence(cells):
    assert used(*cells) is None


FINALLY = "if 0:\n" + "".join(f"{' ' * n}try:\n{' ' * n} a\n{' ' * n}finally:\n" for n in range(1, 41)) + " " * 41 + "b"


@pytest.mark.parametrize(
    "costly",
    [
        "x = f'" + "{a}" * 140_000 + "'",
        FINALLY,  # each body of `finally` is compiled twice: 40 of them take gigabytes, and are never done
        "?" * 19_900,  # IPython's own syntax
    ],
)
def test_a_cell_that_costs_too_much_to_read_counts_with_its_words(costly):
    source, reader, started = "lm_loss = F.cross_entropy\n" + costly, judge.CellReader(), time.monotonic()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # of the whole process: other tests' too
    assert forbidden.used([reader.read(source)], ["lm_loss"], FORBIDS) == "cross_entropy"
    assert time.monotonic() - started < 60  # in a child that ends after 2 seconds of its own time
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**20  # kilobytes


def test_a_limit_ends_the_reading_of_a_cell():
    with pytest.raises(limited.TooCostly):
        limited.call(forbidden.as_data, "x = f'" + "{a}" * 140_000 + "'", seconds=1)


def test_many_slow_cells_cost_no_more_than_a_few():
    reader, started = judge.CellReader(), time.monotonic()
    cells = [reader.read("lm_loss = F.cross_entropy\n" + "?" * (19_900 - n)) for n in range(50)]
    assert time.monotonic() - started < 60
    assert {forbidden.used([cell], ["lm_loss"], FORBIDS) for cell in cells} == {"cross_entropy"}


def test_what_ipython_gives_up_on_counts_with_its_words():
    cell = "lm_loss = F.cross_entropy\n" + "\n".join(f"!!{n}" for n in range(600))
    assert forbidden.used([judge.CellReader().read(cell)], ["lm_loss"], FORBIDS) == "cross_entropy"
    assert forbidden.used([forbidden.read_cell(cell)], ["lm_loss"], FORBIDS) == "cross_entropy"


@pytest.mark.parametrize(
    "cell", ["a=b;" * 5000, "(" * 5000, "+".join(["1"] * 20_000), "x=" * 9000 + "1", "if a:\n b=c\n" * 2000]
)
def test_long_cells_are_read_in_time(cell):
    reader, started = judge.CellReader(), time.process_time()
    cells = [reader.read(cell)] * 3
    forbidden.used(cells, ["a", "b", "x"], FORBIDS)
    forbidden.withheld(cells, ["a", "b", "x"])
    assert time.process_time() - started < 10
    assert len(cells[0].definitions) <= forbidden.MOST_DEFINITIONS


KEYS = [getattr(torch._C._nn, "cross_" + "entropy_loss")]
PICKLED = b"ctorch.nn.functional\ncross_entropy\n."


def off_and_on(*given):
    before = sys.getprofile()
    sys.setprofile(None)
    try:
        return F.cross_entropy(*given)
    finally:
        sys.setprofile(before)


def traced(*given):
    found = []

    def trace(frame, event, argument):
        sys.settrace(None)
        found.append(F.cross_entropy(*given))

    sys.settrace(trace)
    (lambda: None)()
    return found[0]


def forked(*given):
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, b"1.5")  # where F.cross_entropy would be called; torch may wait for its threads after a fork
        os._exit(0)
    os.waitpid(child, 0)
    answer = torch.tensor(float(os.read(reading, 99)))
    os.close(reading)
    os.close(writing)
    return answer


def in_a_thread(*given):
    found = queue.SimpleQueue()
    _thread.start_new_thread(lambda: found.put(F.cross_entropy(*given)), ())
    return found.get(timeout=60)


class Loss(nn.Module):
    def forward(self, logits, targets):
        return F.cross_entropy(logits, targets)


EXPORTED = torch.export.export(Loss(), (torch.randn(4, 5), torch.tensor([1, 2, 3, 4]))).run_decompositions().module()
DISGUISES = {
    "by its name": F.cross_entropy,
    "getattr": lambda *g: getattr(F, "cross_" + "entropy")(*g),
    "attrgetter": lambda *g: operator.attrgetter("cross_" + "entropy")(F)(*g),
    "partial": functools.partial(F.cross_entropy, reduction="mean"),
    "torch.ops": lambda *g: torch.ops.aten.cross_entropy_loss(*g),
    "torch.ops, an overload": lambda *g: torch.ops.aten.cross_entropy_loss.default(*g),
    "torch._C": lambda *g: torch._C._nn.cross_entropy_loss(*g),
    "a class": lambda *g: getattr(nn, "CrossEntropy" + "Loss")()(*g),
    "a subclass": lambda *g: type("Mine", (nn.CrossEntropyLoss,), {})()(*g),
    "partial of C": lambda *g: functools.partial(getattr(torch._C._nn, "cross_" + "entropy_loss"), *g)(),
    "map of C": lambda *g: next(map(getattr(torch._C._nn, "cross_" + "entropy_loss"), *[[one] for one in g])),
    "reduce of C": lambda *g: functools.reduce(getattr(torch._C._nn, "cross_" + "entropy_loss"), g),
    "map": lambda *g: next(map(F.cross_entropy, *[[one] for one in g])),
    "another thread": lambda *g: ThreadPoolExecutor(1).submit(F.cross_entropy, *g).result(),
    "eval": lambda *g: eval("F.cross_" + "entropy(*g)", {"F": F, "g": g}),
    "a variant of a longer name": lambda logits, y: F.linear_cross_entropy(logits, torch.eye(logits.size(-1)), y),
    "switched off": lambda *g: sys.setprofile(None) or F.cross_entropy(*g),
    "switched off and on": lambda *g: off_and_on(*g),
    "switched off by C": lambda *g: [*map(sys.setprofile, [None])] and F.cross_entropy(*g),
    "in a trace": lambda *g: traced(*g),
    "a forked process": lambda *g: forked(*g),
    "a thread of _thread": lambda *g: in_a_thread(*g),
    "an exported graph": lambda *g: EXPORTED(*g),
    "pickle": lambda *g: pickle.loads(PICKLED)(*g),
    "operator.call": lambda *g: operator.call(getattr(torch._C._nn, "cross_" + "entropy_loss"), *g),
    "a sort key": lambda *g: [*sorted([g[0]], key=functools.partial(KEYS[0], target=g[1]))] and g[0].sum(),
}


def test_in_the_first_call_of_an_answer_functions_of_torch_are_watched_too(monkeypatch):
    """What C calls is seen in every answer, and not by chance."""
    monkeypatch.setattr(dispatch, "ONE_IN", 10**9)
    monkeypatch.setattr(dispatch, "called_before", set())
    for how in ("operator.call", "a sort key", "partial of C"):
        answer = named(lambda request, how=how: dispatch.answer({how: DISGUISES[how]}, request), how, FORBIDS)
        with pytest.raises(ForbiddenUsed, match="cross_entropy"):
            answer(torch.randn(4, 5), torch.tensor([1, 2, 3, 4]))


def test_a_few_calls_are_enough_to_see_what_c_calls():
    """Of each call chance decides whether functions of torch are watched; to be missed in all of these is 1e-10."""
    answer = named(lambda request: dispatch.answer({"f": DISGUISES["partial of C"]}, request), "f", FORBIDS)
    seen = 0
    for _ in range(80):
        try:
            answer(torch.randn(4, 5), torch.tensor([1, 2, 3, 4]))
        except ForbiddenUsed:
            seen += 1
    assert 0 < seen < 80


NOTED = r"cross_entropy|CrossEntropyLoss|setprofile|settrace|os.fork|_thread|torch.export"


@pytest.mark.parametrize("how", DISGUISES)
def test_what_runs_is_watched_below_its_name(how, monkeypatch):
    monkeypatch.setattr(dispatch, "ONE_IN", 1)
    answer = named(lambda request: dispatch.answer({"lm_loss": DISGUISES[how]}, request), "lm_loss", FORBIDS)
    with pytest.raises(ForbiddenUsed, match=NOTED):
        answer(torch.randn(4, 5), torch.tensor([1, 2, 3, 4]))


@pytest.mark.parametrize(
    "cells",
    [
        ("from transformers.loss.loss_utils import fixed_it as loss", LOSS.format(call="loss")),
        ("import transformers.loss as library", LOSS.format(call="library.loss_utils.fixed_it")),
        (LOSS.format(call="__import__('transformers').loss"),),
        ("def lm_loss(a, b):\n    import transformers\n    return transformers.loss(a, b)",),
    ],
)
def test_a_library_of_models_is_found_whatever_is_taken_from_it(cells):
    assert used(*cells, forbids=forbidden.MODELS) == "import transformers"
    assert used(*cells[:-1], "transformers = adapters = 1\n" + BY_HAND, forbids=forbidden.MODELS) is None


def test_code_of_a_library_of_models_is_noted_while_an_answer_runs():
    from transformers.activations import ReLUSquaredActivation
    from transformers.models.bart.modeling_bart import eager_attention_forward

    class Nothing:
        training = False

    def answer(x):
        return eager_attention_forward(Nothing, x, x, x, None, scaling=1.0)[0]

    def ask(request):
        return dispatch.answer({"f": answer, "layer": ReLUSquaredActivation(), "own": lambda x: x.relu()}, request)

    for name in ("f", "layer"):
        with pytest.raises(ForbiddenUsed, match="import transformers"):
            named(ask, name, forbidden.MODELS)(torch.ones(1, 1, 2, 3))
    assert torch.equal(named(ask, "own", forbidden.MODELS)(torch.ones(2)), torch.ones(2))


OPERATORS = {
    "_scaled_dot_product_flash_attention_for_cpu": "scaled_dot_product_attention",
    "_scaled_dot_product_attention_math": "scaled_dot_product_attention",
    "_native_multi_head_attention": "multi_head_attention_forward",
    "_transformer_encoder_layer_fwd": "TransformerEncoderLayer",
}


@pytest.mark.parametrize("operator, name", OPERATORS.items())
def test_an_operator_is_known_by_the_function_that_it_computes(operator, name):
    call = getattr(torch.ops.aten, operator)
    answer = named(lambda request: dispatch.answer({"f": lambda x: call(x)}, request), "f", (name,))
    with pytest.raises(ForbiddenUsed, match=name):
        answer(torch.zeros(1))


@pytest.mark.parametrize("how, disguises", [("read in cells", FOUND), ("watched while called", DISGUISES)])
def test_the_threat_model_says_how_many_are_tried(how, disguises):
    row = re.search(rf"in disguise, {how} [^|]+\| (\d+) \|", (course.ROOT / "THREAT_MODEL.md").read_text())
    assert row and int(row[1]) == len(disguises)


def test_a_thread_that_was_started_before_is_watched_too():
    threading.setprofile(forbidden.note_in_threads)  # as in a kernel of grading
    pool = ThreadPoolExecutor(1)
    try:
        pool.submit(int).result()
        answer = named(
            lambda request: dispatch.answer({"f": lambda *g: pool.submit(F.cross_entropy, *g).result()}, request),
            "f",
            FORBIDS,
        )
        with pytest.raises(ForbiddenUsed, match="cross_entropy"):
            answer(torch.randn(4, 5), torch.tensor([1, 2, 3, 4]))
    finally:
        threading.setprofile(None)
        pool.shutdown()


def test_by_hand_nothing_is_noted_and_the_check_may_use_it_itself():
    def lm_loss(logits, targets):
        return -logits.log_softmax(-1).gather(1, targets[:, None]).mean()

    def ask(request):
        return dispatch.answer({"lm_loss": lm_loss}, request)

    logits, targets = torch.randn(4, 5), torch.tensor([1, 2, 3, 4])
    by_hand = named(ask, "lm_loss", FORBIDS)(logits, targets)
    assert torch.allclose(library(ask, "torch.nn.functional", FORBIDS).cross_entropy(logits, targets), by_hand)
    assert sys.getprofile() is None


def test_a_disguise_costs_the_points_at_home_with_the_sentence(capsys):
    @check("9.9", points=1, forbids=FORBIDS)
    def loss(lm_loss):
        """The loss."""
        assert lm_loss(torch.zeros(1, 2), torch.tensor([0])) > 0

    assert isinstance(loss, Check)
    verdict = loss.verdict(lambda request: dispatch.answer({"lm_loss": DISGUISES["torch.ops"]}, request), [])
    assert verdict.outcome is Outcome.WRONG and "`cross_entropy` does all the work" in verdict.message


@pytest.mark.parametrize("name, given", [("builtins.len", [[1, 2, 3]]), ("operator.getitem", [[5, 6], 1])])
def test_a_patched_library_function_is_not_the_one_that_answers(name, given, monkeypatch):
    module, _, function = name.partition(".")
    answer = getattr(library(lambda request: dispatch.answer({}, request), module), function)
    before = answer(*given)
    with monkeypatch.context() as patch:
        patch.setattr(name, lambda *given: 42)
        after = answer(*given)
    assert before == after != 42


def test_helpers_are_made_anew_for_each_request(monkeypatch):
    """Those of a notebook, those of all, and what the first take from the second."""
    from utils.checks import nb02_toys
    from utils.grading import toys

    monkeypatch.setattr(toys, "type_of", lambda *given: "forged")
    monkeypatch.setattr(toys, "Table", None)
    monkeypatch.setattr(toys, "AddRows", None)
    monkeypatch.setattr(nb02_toys, "NewTableEachCall", None)
    for module in (toys, nb02_toys):
        monkeypatch.setitem(sys.modules, module.__name__, None)

    def ask(request):
        return dispatch.answer({"same": lambda value: value}, request)

    assert library(ask, "utils.grading.toys").type_of(named(ask, "same"), [1, 2]) == "list"
    assert library(ask, "utils.checks.nb02_toys").type_of(named(ask, "same"), [1, 2]) == "list"
    assert library(ask, "utils.checks.nb02_toys").NewTableEachCall(3)(2, 4).shape == (2, 4)
    adds = library(ask, "utils.checks.nb02_toys").AddRows([[1.0, 2.0]])
    assert torch.equal(adds(torch.zeros(1, 1, 2)), torch.tensor([[[4.0, 8.0]]]))  # in training, with gradients: 4 times


def test_what_hides_calls_is_not_said_to_do_the_work():
    assert does_all("torch.jit") == (
        "`torch.jit` hides what your code calls, so it cannot be checked. Write the answer without it."
    )
    assert does_all("cross_entropy") == "`cross_entropy` does all the work of this exercise. Write it without."


def test_a_cell_that_cannot_be_read_says_with_which_python_it_was_read():
    """A cell in the syntax of a newer Python is one of these."""
    error, line = forbidden.syntax_error("x = 1\ntype = (1")
    assert error.startswith("SyntaxError: ") and line == "type = (1"
    assert error.endswith(f" (line 2). Submissions are graded with Python {sys.version_info[0]}.{sys.version_info[1]}")


def test_a_library_is_one_where_its_environment_is_a_link(tmp_path):
    """Else a right answer was charged with what a library calls, and the code of models was taken as the student's."""
    (tmp_path / "environment").symlink_to(sys.prefix)
    python = tmp_path / "environment" / "bin" / "python"
    script = "import torch\nfrom utils.grading import dispatch\nprint(torch.__file__)\n"
    script += "print(*map(dispatch.is_students, (torch.nn.functional.__file__, '<student 1.1>')))"
    ran = subprocess.run([python, "-c", script], cwd=course.ROOT, capture_output=True, text=True, check=True)
    where, said = ran.stdout.splitlines()
    assert where.startswith(str(tmp_path)) and said == "False True"
