"""Every check proves itself: the solution and each right variant pass, each wrong answer is named."""

import linecache
import re
from collections import Counter
from dataclasses import replace
from functools import partial

import pytest
import sentences
import torch

from autograder import course, synthetic
from autograder.author import answers, build, checks, proof
from autograder.cells import CellRole, exercise_of, role_of
from utils import plots
from utils.grading import dispatch, forbidden
from utils.grading.check import Outcome
from utils.grading.results_check import ResultsCheck

COURSE = course.load()
WRITTEN = {
    entry.name: [*answers.answer_cases(entry), *answers.answer_cases(entry, stretch=True)] for entry in COURSE.notebooks
}
RELEASED = {entry.name: build.student_notebook(COURSE, entry) for entry in COURSE.notebooks}

SAMPLE = 1  # so many right and so many wrong answers to each exercise are in the quick tests
# What the public and private checks of an exercise may ask of the solution: students and graders wait for each request.
MOST = {"requests": 300, "kilobytes": 3000}
COSTLY = {  # exercises that may ask for more
    "1.4": {"kilobytes": 6000},  # shares of what dropout drops, near 0 and 1 too, and what is dropped together
    "3.14": {"requests": 600},  # gaps of single numbers of four dtypes
    "4.2": {"requests": 310},  # models of two kinds of bases and heads, one by one
    "5.2": {"requests": 1500, "kilobytes": 17_000},  # generators one by one, and the states of a thousand seeds
    "6.1": {"kilobytes": 7000},  # thousands of rows, in bfloat16 too
    "6.3": {"kilobytes": 8000},  # shares of what dropout drops, and thousands of rows
    "7.1": {"requests": 350},  # words one by one
    "7.3": {"kilobytes": 17_000},  # the fates of a hundred thousand tokens, three times
    "7.4": {"requests": 700},  # epochs one by one
    "9.6": {"requests": 330},  # three functions, and models one by one
    "9.7": {"requests": 420},  # two functions, and models one by one
    "9.9": {"kilobytes": 3500},  # a model's whole state after each task
    "13.2": {"requests": 330},  # layers one by one
    "13.7": {"requests": 330},  # layers one by one
    "15.5": {"kilobytes": 4000},  # who sees whom in a dialogue of more than a thousand tokens
}


def parameters(entry, exercise, *given, name, quick=True):
    """Of a test of one exercise: those of an exercise run in one process, and where runs are asked for they train."""
    trains = isinstance(proof.checks_of(entry)[exercise], ResultsCheck)
    marks = [pytest.mark.slow] * (trains or not quick)
    return pytest.param(entry, *given, id=name, marks=marks)


def cases(entry):
    """Every answer whose verdict is known, as a parameter."""
    count = Counter()
    for case in proof.cases(COURSE, entry):
        count[case.exercise, case.right] += 1
        quick = count[case.exercise, case.right] <= SAMPLE
        yield parameters(entry, case.exercise, case, name=f"{case.exercise} {case.name}", quick=quick)


# Each id begins with the exercise: `-k 1.5` runs all that concerns it.
CASES = [case for entry in COURSE.notebooks for case in cases(entry)]
BLANKS = [
    parameters(entry, number, number, cell.source, name=number)
    for entry in COURSE.notebooks
    for cell in RELEASED[entry.name].cells
    if role_of(cell.id) in (CellRole.EXERCISE, CellRole.STRETCH)
    for number in [exercise_of(cell.id)]
]


@pytest.fixture(scope="module", autouse=True)
def each_run_is_trained_once():
    """An experiment with a seed gives one run, whichever answer asks for it; the made-up class's are taken first.

    That a seed decides a run is asked where experiments are tested; what is asked here does not depend on it.
    """
    kept = [pair for entry in COURSE.notebooks if entry.has_experiments for pair in synthetic.runs_of(entry)]
    made = {(experiment, run.seed): run for experiment, runs in kept for run in runs}
    left = {experiment: [*runs] for experiment, runs in kept}  # for other seeds

    def once(train):
        def run_seed(experiment, seed, *, on_step=None, **more):
            if (experiment, seed) not in made:
                some = left.get(experiment)
                run = replace(some.pop(0), seed=seed) if some else train(experiment, seed, **more)
                made[experiment, seed] = run
            return made[experiment, seed]

        return run_seed

    with pytest.MonkeyPatch.context() as patch:
        for module in {experiment.trainer() for experiment, _ in kept}:
            patch.setattr(module, "run_seed", once(module.run_seed))
        yield


@pytest.fixture(scope="module", autouse=True)
def no_pictures():
    """Notebook 01 draws one before its first exercise, and nobody looks at it here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "heatmaps", lambda *panels, **more: None)
        yield


def ask_at_home(entry, source, name):
    namespace = answers.at_home(RELEASED[entry.name], source, name)
    return lambda request: dispatch.answer(namespace, request)


@pytest.fixture(autouse=True)
def torch_is_as_before():
    """Answers run in this process, and some leave gradients off, or another default dtype."""
    yield
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def traffic(monkeypatch):
    """What is asked of answers: the number of requests, and the kilobytes of these and of the replies."""
    found, answer = Counter(), dispatch.answer

    def counted(namespace, request):
        reply = answer(namespace, request)
        found["requests"] += 1
        found["kilobytes"] += (len(request) + len(reply)) / 1000
        return reply

    monkeypatch.setattr(dispatch, "answer", counted)
    return found


@pytest.mark.parametrize("entry, case", CASES)
def test_verdict_is_the_known_one(entry, case, traffic):
    found = proof.judged(entry, case, RELEASED[entry.name])
    if case.name == "the solution":
        most = MOST | COSTLY.get(case.exercise, {})
        assert {what: count for what, count in traffic.items() if count > most[what]} == {}, "its checks ask too much"
    assert proof.surprise(entry, case, RELEASED[entry.name], found) == ""
    if not case.right:
        names = proof.checks_of(entry)[case.exercise].names
        messages = [part.message for part in found.verdict.parts if part.message] or [found.verdict.message]
        assert [fault for message in messages for fault in sentences.faults(message, names)] == []


@pytest.mark.slow
@pytest.mark.parametrize("entry", [pytest.param(entry, id=entry.name) for entry in COURSE.notebooks])
def test_every_private_check_refuses_a_named_wrong_answer(entry):
    """One that the public check accepts. Kinds of questions of contracts are asked together, so they are left out."""
    accepted = []
    for exercise, hidden in checks.private_checks(entry).items():
        left = [one for one in hidden if one.asserts.__module__ != checks.__name__]
        for case in WRITTEN[entry.name]:
            if left and case.private and case.exercise == exercise:
                namespace = answers.at_home(RELEASED[entry.name], case.source, case.name)
                left = [one for one in left if not one.failure(partial(dispatch.answer, namespace))]
        accepted += [f"{exercise} {one.asserts.__name__}" for one in left]
    assert accepted == []


@pytest.mark.parametrize(
    "message, count",
    [
        ("The mask is ignored. Add it to the scores.", 0),
        ("`f(x)` with x of shape (2, 3) and very many other things that are all printed, T = 5: it is wrong.", 0),
        ("A width that is odd must raise ValueError. It raised KeyError: it is what it is", 0),
        ("the mask is ignored.", 1),
        ("The mask is ignored", 1),
        ("The mask is ignored. add it.", 1),
        ("Is the mask ignored? Add it.", 1),
        ("Attention returns no weights.", 1),
        ("`attention` returns no weights (is a `return` missing?).", 0),
        (f"The mask is {'very ' * 25}wrong.", 1),
        (f"The mask is not `{'very ' * 25}wrong`.", 0),
    ],
)
def test_what_is_wrong_with_a_sentence(message, count):
    assert len(sentences.faults(message, ["attention"])) == count


def test_what_is_not_as_stated_is_told():
    """An answer that is called what it is not, each way, is a surprise."""
    entry = COURSE.notebook("02")
    known = {case.says: case for case in WRITTEN[entry.name] if case.exercise == "2.1"}
    (right,) = [case for case in answers.reference_cases(COURSE, entry) if case.exercise == "2.1"]
    wrong = next(case for case in known.values() if case.says and not case.private)
    private = next(case for case in known.values() if case.private)
    for case, told in (
        (replace(right, says="the"), "accepts it"),
        (replace(right, says="the", private=True), "every private check accepts it"),
        (replace(wrong, says=None), "refuses it: "),
        (replace(wrong, says="nothing like it"), '"nothing like it" is not in'),
        (replace(private, private=False), "accepts it"),
        (replace(private, says=None), "private checks refuse it"),
    ):
        assert told in proof.surprise(entry, case, RELEASED[entry.name]), case.name


def test_a_score_that_is_not_as_stated_is_told():
    entry = COURSE.notebook("03")
    case = next(case for case in WRITTEN[entry.name] if case.exercise == "3.10" and case.loses)
    assert proof.surprise(entry, case, RELEASED[entry.name]) == ""
    assert proof.surprise(entry, replace(case, loses=()), RELEASED[entry.name]).endswith(", not 0")


@pytest.mark.parametrize("entry, exercise, source", BLANKS)
def test_blank_is_not_attempted(entry, exercise, source):
    ask = ask_at_home(entry, source, f"blank {exercise}")
    assert proof.checks_of(entry)[exercise].verdict(ask, [forbidden.read_cell(source)]).outcome is Outcome.BLANK


@pytest.mark.parametrize(
    "entry, exercise", [pytest.param(*one.values[:2], id=one.id, marks=one.marks) for one in BLANKS]
)
def test_there_are_enough_answers(entry, exercise):
    cases = [case for case in WRITTEN[entry.name] if case.exercise == exercise]
    wrong = [case.name for case in cases if not case.right]
    right = [case.name for case in cases if case.right]
    stretch = exercise in checks.stretch_checks(entry)
    assert len(wrong) >= (3 if stretch else 5) and len(right) >= 1 + (not stretch), (
        f"{len(wrong)} wrong, {len(right)} right"
    )
    assert len({*wrong, *right}) == len(wrong) + len(right), "two answers have one name"
    if stretch:  # nothing grades it: what its check does not see, its writer may know
        return
    check = proof.checks_of(entry)[exercise]
    known = isinstance(check, ResultsCheck) or check.variant  # all that is asked of files, or of one's own numbers
    assert checks.private_checks(entry).get(exercise) or known, "there is no private check"


@pytest.mark.parametrize("entry", COURSE.notebooks, ids=lambda entry: entry.name)
def test_every_exercise_and_every_answer_is_known(entry):
    numbers = [number for one, number, _ in (param.values for param in BLANKS) if one is entry]
    assert [*proof.checks_of(entry)] == numbers and {case.exercise for case in WRITTEN[entry.name]} <= {*numbers}


def test_the_command_of_the_authors_page_finds_an_exercise():
    (line,) = re.findall(r"^python -m pytest .*test_checks.py.*$", (course.ROOT / "docs/authors.md").read_text(), re.M)
    assert line == 'python -m pytest -q -n 0 tests/checks/test_checks.py -k "[2.8"'
    assert sum(one.id.startswith("2.7 ") for one in CASES) > 7 and "2.7" in [one.id for one in BLANKS]


@pytest.fixture(autouse=True)
def at_a_students_desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COURSE_PROFILE", "smoke")
    yield
    linecache.clearcache()
