"""No exercise accepts an answer that changes what is global in a session; what it changed is as before for the next."""

import copy
import dataclasses
import importlib.util
import os
import random
import threading
import types
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from autograder import course
from autograder.author import answers, build, checks
from utils.grading import dispatch, forbidden, probes, protocol
from utils.grading.check import Outcome, check
from utils.grading.parts import part
from utils.grading.results_check import ResultsCheck

COURSE = course.load()
WHOLE = bool(os.environ.get("COURSE_LONG_TESTS"))
CHANGES = {
    "changes the default dtype": ["torch's default dtype is"],
    "turns gradients off": ["the recording of gradients is", "gradients are no longer", "can no longer be"],
    "turns gradients on": ["the recording of gradients"],
    "sets the default dtype to float32": ["torch's default dtype"],
    "sets a seed": [""],  # a check may have a sentence of its own for it
}


def sampled():
    """All exercises that call functions of the student's, or one of every fourth notebook."""
    for entry in COURSE.notebooks if WHOLE else COURSE.notebooks[1::4]:
        known = [number for number, one in checks.asked_checks(entry).items() if not isinstance(one, ResultsCheck)]
        for number in known if WHOLE else known[len(entry.name) % len(known) :][:1]:
            yield pytest.param(entry, number, id=number)


@pytest.fixture(scope="module")
def kinds():
    """benchmarks/kinds.py, which makes wrong answers of solutions."""
    spec = importlib.util.spec_from_file_location("kinds", course.ROOT / "benchmarks" / "kinds.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def at_a_students_desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COURSE_PROFILE", "smoke")


@pytest.mark.parametrize("entry, exercise", [*sampled()])
def test_no_exercise_accepts_an_answer_that_changes_the_session(entry, exercise, kinds):
    """Wrong answers that are made from the solution, around each of its functions and classes."""
    (solution,) = (one for one in answers.reference_cases(COURSE, entry) if one.exercise == exercise)
    asked, released = checks.asked_checks(entry)[exercise], build.student_notebook(COURSE, entry)
    right, refused = answers.at_home(released, solution.source, "the solution"), 0
    for name in asked.names:
        is_class = isinstance(right[name], type)
        if is_class and not issubclass(right[name], nn.Module):
            continue
        for kind, words in CHANGES.items():
            if is_class and kind == "sets a seed":  # in `forward`: contracts ask for it
                continue
            namespace = answers.at_home(released, kinds.wrapped(solution.source, name, kind, is_class), kind)
            known = namespace["met_"]
            torch.manual_seed(1)  # where an exercise draws, a seed that is set to what it is does not show
            ask = partial(dispatch.answer, namespace)
            verdict = asked.verdict(ask, [])
            messages = [verdict.message, *(part.message for part in verdict.parts)]
            if verdict.outcome is Outcome.PASSED:
                failures = [one.failure(ask) for one in checks.private_checks(entry).get(exercise, ())]
                messages = [f"{one} {one.tells}" for one in failures if one]
            if known:
                assert any(word in one for one in messages for word in words), (name, kind, messages)
                refused += 1
            assert torch.is_grad_enabled() and torch.get_default_dtype() == torch.float32, (name, kind)
    assert refused >= 2 * len(asked.names) - 2


def verdict_on(answer, **promises):
    """The verdict on an answer of a check that calls it twice."""

    @check("1.1", points=1, **promises)
    def asks(answer):
        assert answer(3) == answer(3) == 4, "the number is wrong."

    return asks.verdict(lambda request: dispatch.answer({"answer": answer}, request), [forbidden.read_cell("")])


class AddsInPlace(nn.Module):
    def forward(self, x, past=None):
        return (x if past is None else past).add_(1)


def test_an_argument_that_a_module_changes_is_named():
    @check("1.1", points=1)
    def asks(answer):
        layer, x = answer(), torch.ones(2)
        layer(x) if name == "x" else layer(x, past=2 * x)

    for name in ("x", "past"):
        verdict = asks.verdict(lambda request: dispatch.answer({"answer": AddsInPlace}, request), [])
        assert f"changes `{name}`, which it was given" in verdict.message


def changing(change):
    def answer(n):
        change()
        return n + 1

    return answer


@pytest.mark.parametrize(
    "change, what",
    [
        (lambda: torch.set_grad_enabled(False), "the recording of gradients"),
        (lambda: torch.set_default_dtype(torch.float64), "torch's default dtype"),
        (lambda: torch.manual_seed(12345), "the seed of torch's global random generator"),
        (lambda: torch.rand(1), "the state of the global random generator of torch"),
        (lambda: np.random.rand(), "the state of the global random generator of NumPy"),
        (lambda: random.random(), "the state of the global random generator of Python"),
    ],
)
def test_a_call_that_changes_what_is_global_is_refused_and_its_modes_are_put_back(change, what):
    torch.manual_seed(1)
    verdict = verdict_on(changing(change))
    assert verdict.message == f"After a call of your code {what} is not as before."
    assert torch.is_grad_enabled() and torch.get_default_dtype() == torch.float32


def test_modes_are_put_back_after_an_error():
    def failing(n):
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)
        raise KeyError(n)

    assert "KeyError" in verdict_on(failing).message
    assert torch.is_grad_enabled() and torch.get_default_dtype() == torch.float32


def test_an_exercise_may_draw_where_its_check_says_so_and_sets_no_seed_even_then():
    assert verdict_on(changing(lambda: torch.rand(1)), draws=True).outcome is Outcome.PASSED
    assert "the seed of" in verdict_on(changing(lambda: torch.manual_seed(54321)), draws=True).message
    assert "of NumPy" in verdict_on(changing(lambda: np.random.rand()), draws=True).message


def test_a_session_in_another_dtype_or_without_gradients_is_the_students_own():
    torch.set_grad_enabled(False)
    torch.set_default_dtype(torch.float64)
    try:
        assert verdict_on(changing(lambda: None)).outcome is Outcome.PASSED
        assert not torch.is_grad_enabled() and torch.get_default_dtype() == torch.float64
    finally:
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)


def test_a_reply_that_lists_no_known_setting_changes_nothing():
    """The kernel may write whatever it likes beside a value."""
    for left in (["the weather"], "torch's default dtype", 7, [[]], None):
        reply = dispatch.wire.dumps({"value": 4, "left": left}, dispatch.keep)

        @check("1.1", points=1)
        def asks(answer):
            assert answer(3) == 4, "the number is wrong."

        assert asks.verdict(lambda request, said=reply: said, []).outcome is Outcome.PASSED, left


@pytest.mark.parametrize("change", [lambda: np.random.seed(7), lambda: random.seed(7)], ids=["NumPy", "Python"])
def test_a_seed_that_a_call_sets_is_found_each_time(change):
    """The state that a seed leaves would be the one from before the next call."""
    for _ in range(2):
        session = dispatch.Session({"name": "answer"}, None)
        change()
        assert len(session.put_back()) == 1


def test_a_normal_number_that_was_held_back_is_a_part_of_numpys_state():
    """NumPy draws two at a time: the second one changes none of the generator's words."""
    np.random.seed(3)
    for drawn in range(2):
        session = dispatch.Session({"name": "answer"}, None)
        np.random.randn()
        assert session.put_back() == ["the state of the global random generator of NumPy"]
        if not drawn:
            np.random.randn()


def test_a_normal_number_that_was_held_back_is_put_back_each_time():
    np.random.seed(3)
    np.random.randn()
    for _ in range(3):
        session = dispatch.Session({"name": "answer"}, None)
        np.random.randn()
        assert session.put_back() == ["the state of the global random generator of NumPy"]


class Seeding(nn.Linear):
    def __init__(self, n):
        super().__init__(n, n)
        torch.manual_seed(0)


def test_a_seed_of_torch_that_the_session_has_already_is_found_and_its_own_stays():
    torch.manual_seed(0)
    assert torch.initial_seed() == 0
    first = torch.rand(3)
    for called, call in ((Seeding, lambda: Seeding(2)), (torch.manual_seed, lambda: torch.manual_seed(0))):
        torch.manual_seed(0)
        session = dispatch.Session({"name": "answer"}, called)
        call()
        assert "the seed of torch's global random generator" in session.put_back()
    torch.manual_seed(0)
    session = dispatch.Session({"name": "answer"}, Seeding)
    drawn = torch.rand(2)
    assert session.put_back() == [] and torch.initial_seed() == 0
    assert torch.equal(torch.cat([drawn, torch.rand(1)]), first), "what is drawn is as before"


def test_another_generator_of_numpys_is_the_students_own_and_is_put_back():
    before = np.random.get_bit_generator()
    np.random.set_bit_generator(np.random.PCG64(3))
    try:
        assert verdict_on(changing(lambda: None)).outcome is Outcome.PASSED
        for change in (np.random.rand, lambda: np.random.set_bit_generator(before)):
            assert "of NumPy" in verdict_on(changing(change)).message
            session, state = dispatch.Session({"name": "answer"}, None), np.random.get_state(legacy=False)
            change()
            assert session.put_back() == ["the state of the global random generator of NumPy"]
            assert np.random.get_state(legacy=False) == state
        assert len(probes.world(True)) == 5
    finally:
        np.random.set_bit_generator(before)


def test_another_default_device_is_refused_and_put_back():
    verdict = verdict_on(changing(lambda: torch.set_default_device("meta")))
    assert verdict.message == "After a call of your code torch's default device is not as before."
    assert torch.get_default_device() == torch.device("cpu")


def test_a_call_made_in_other_sessions_leaves_nothing_behind(capsys):
    def draws(numbers):
        print("drawing")
        numbers.append(torch.rand(1) + np.random.rand() + random.random())
        torch.set_default_dtype(torch.float16)
        torch.set_grad_enabled(True)

    def states():
        modes = torch.is_grad_enabled(), torch.get_default_dtype()
        return modes, torch.get_rng_state().tolist(), str(np.random.get_state()), random.getstate()

    before, numbers = states(), []
    assert dispatch.changes_elsewhere(draws, [numbers], {}) == [*protocol.ELSEWHERE]
    assert states() == before and numbers == [] and capsys.readouterr().out == ""


def turning(layer):
    """Turn a layer on, once, and the recording of gradients with it."""
    if not layer.on:
        torch.set_grad_enabled(True)
        layer.on = True
    return 4


def test_a_first_call_is_made_in_other_sessions_with_what_it_was_given_as_it_was():
    @check("1.1", points=1)
    def asks(answer, lib):
        assert answer(lib(types).SimpleNamespace(on=False)) == 4, "the number is wrong."

    verdict = asks.verdict(lambda request: dispatch.answer({"answer": turning}, request), [forbidden.read_cell("")])
    assert verdict.message.startswith("A call of your code switches on the recording of gradients")


def on_with(x=None):
    """Switch the recording of gradients on where x is given."""
    torch.set_grad_enabled(torch.is_grad_enabled() or x is not None)
    return 4


class Switching(nn.Module):
    def forward(self, x):
        torch.set_grad_enabled(torch.is_grad_enabled() or x == 7)
        return 4

    def scores(self, x):
        torch.set_grad_enabled(torch.is_grad_enabled() or x == 8)
        return 4


@pytest.mark.parametrize(
    "asks, refused",
    [
        (lambda answer, module: answer(), False),
        (lambda answer, module: [answer(), answer(3)], True),
        (lambda answer, module: module()(6), False),
        (lambda answer, module: module()(7), True),
        (lambda answer, module: module().scores(8), True),
    ],
    ids=["without", "with", "a module that does not", "a module", "a method"],
)
def test_each_kind_of_first_call_is_made_in_other_sessions(asks, refused):
    @check("1.1", points=1)
    def asked(answer, module):
        asks(answer, module)

    namespace = {"answer": on_with, "module": Switching}
    verdict = asked.verdict(lambda request: dispatch.answer(namespace, request), [forbidden.read_cell("")])
    assert ("switches on the recording of gradients" in verdict.message) == refused


def test_a_part_that_changes_what_is_global_costs_its_own_points():
    @check("1.1", points=3)
    def asks(answer, other):
        with part("other", 1):
            assert other(3) == 4, "the number is wrong."
        with part("answer", 2):
            assert answer(3) == 4, "the number is wrong."

    answers = {"answer": changing(lambda: torch.set_grad_enabled(True)), "other": changing(lambda: None)}
    verdict = asks.verdict(lambda request: dispatch.answer(answers, request), [forbidden.read_cell("")])
    assert [one.outcome is Outcome.PASSED for one in verdict.parts] == [True, False] and verdict.score == 1


def test_a_function_may_draw_the_weights_of_the_module_that_it_returns():
    request = dispatch.wire.dumps({"name": "make", "path": [], "args": [3], "kwargs": {}}, dispatch.keep)
    for make, left in ((lambda n: nn.Linear(n, n), []), (torch.rand, [protocol.TORCH_STATE])):
        reply = dispatch.wire.loads(dispatch.answer({"make": make}, request), lambda *_: None)
        assert reply.get("left", []) == left


def test_what_fails_or_cannot_be_copied_in_other_sessions_is_no_mistake():
    def learns(weight):
        (weight * 2).backward()

    assert dispatch.changes_elsewhere(learns, [torch.tensor(1.0, requires_grad=True)], {}) == []
    assert dispatch.changes_elsewhere(learns, [threading.Lock()], {}) == []


@dataclasses.dataclass
class Record:
    value: object


@dataclasses.dataclass(frozen=True)
class Frozen:
    value: object


LAYER = nn.Linear(2, 2)
NUMBERS = torch.arange(6.0)
KEPT = {
    "a list": ([], "the same list"),
    "a dict": ({}, "the same dict"),
    "a set": (set(), "the same set"),
    "a tensor": (NUMBERS, "the same tensor"),
    "an array": (np.ones(3), "the same array"),
    "a module": (LAYER, "the same module"),
    "a record": (Record(3), "the same object"),
    "a list in a tuple": ((3, [4]), "a result that holds the same list"),
    "a tensor in a frozen record": (Frozen({"x": NUMBERS}), "a result that holds the same dict"),
}


@pytest.mark.parametrize("result, told", [*KEPT.values()], ids=[*KEPT])
def test_a_result_that_can_be_written_into_must_be_new(result, told):
    @check("1.1", points=1)
    def asks(answer):
        answer(3)

    answers = {"answer": lambda x: result}
    verdict = asks.verdict(lambda request: dispatch.answer(answers, request), [forbidden.read_cell("")])
    assert verdict.message == (
        f"Called again with equal arguments, `answer` gives {told}: changing the first result changes the second. Make "
        "a new one for each call."
    )


def shared(call, *args, **kwargs):
    """What two results of a call share; what it is given is copied before."""
    given = copy.deepcopy([call, [*args], kwargs])
    return dispatch.changes_elsewhere(*given, call(*args, **kwargs))


def test_a_part_of_the_same_memory_is_not_new_and_a_new_holder_does_not_help():
    for call in (lambda x: NUMBERS[1:].view(5, 1), lambda x: [0, NUMBERS], lambda x: {"a": (LAYER,)}):
        assert len(shared(call, 3)) == 1
    holding = []
    holding.append(holding)
    assert shared(lambda: holding) == ["the same list"]


def test_what_cannot_be_written_into_or_was_given_may_be_the_same():
    text, nothing = "text" * 30, NUMBERS[:0]
    for result in (text, 3, None, (1, (2.0, text)), Frozen((1, 2)), torch.float32, nn.Linear, len, nothing):
        assert shared(lambda result=result: result) == []
    for given in ([1], {"a": [1]}, NUMBERS, LAYER, Record([1])):
        assert shared(lambda x: x, given) == shared(lambda x: [x], x=given) == []
    assert shared(LAYER.get_submodule, "") == []  # a method's own object is copied too


def test_a_tensors_method_is_not_asked_again():
    @check("1.1", points=1)
    def asks(answer):
        answer(3).weight.fill_(4)

    answers = {"answer": lambda x: nn.Linear(x, 1).requires_grad_(False)}
    verdict = asks.verdict(lambda request: dispatch.answer(answers, request), [forbidden.read_cell("")])
    assert verdict.outcome is Outcome.PASSED


def test_a_call_that_is_interrupted_in_another_session_leaves_it():
    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dispatch.changes_elsewhere(interrupted, [], {})
    with pytest.raises(KeyboardInterrupt):
        dispatch.changes_elsewhere(
            lambda: interrupted() if torch.get_default_dtype() == torch.float64 else None, [], {}
        )
    assert torch.is_grad_enabled() and torch.get_default_dtype() == torch.float32
