"""In grading a kernel finds the course's names, and nothing that answers an exercise behind them."""

import ast
import copy
import functools
import importlib
import inspect
import os
import resource
from pathlib import Path

import numpy as np
import pytest
import torch

from autograder import course
from autograder.author import build, checks
from autograder.cells import CellRole, role_of
from autograder.sandbox import kernel, withheld
from utils import experiments
from utils.grading import dispatch, forbidden
from utils.grading.check import Outcome
from utils.grading.forbidden import HELPERS
from utils.grading.results_check import ResultsCheck
from utils.grading.wire import PLAIN

COURSE = course.load()
ENTRIES = [pytest.param(entry, id=entry.name) for entry in COURSE.notebooks]


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return withheld.write(tmp_path_factory.mktemp("kernel") / "course")


def test_modules_with_references_are_names_and_nothing_else(tree):
    texts = {path.relative_to(tree).as_posix(): path.read_text() for path in tree.rglob("*.py")}
    stubs = {name for name, text in texts.items() if text.startswith("from utils.withheld import Withheld")}
    checks = {f"utils/checks/nb{entry.name}.py" for entry in COURSE.notebooks}
    assert {
        *checks,
        "utils/experiments/seed_table.py",
        "utils/experiments/rte/train.py",
        "utils/grading/expect.py",
        "utils/counting.py",
    } <= stubs
    assert stubs | {f"utils/{name.replace('.', '/')}.py" for name in HELPERS["utils"]} | {"utils/withheld.py"} >= {
        name for name in texts if not name.startswith("autograder/") and not name.endswith("__init__.py")
    }
    for name in stubs:
        lines = [line for line in texts[name].splitlines() if line and not line.startswith("from utils.withheld")]
        assert all(" = Withheld(" in line for line in lines), name
        public_names = {line.split(" = ")[0] for line in lines}
        real = importlib.import_module(name.removesuffix(".py").replace("/", "."))
        own = {
            key
            for key, value in vars(real).items()
            if getattr(value, "__module__", "") == real.__name__ and key[0] != "_"
        }
        assert {key for key in own if getattr(vars(real)[key], "__name__", key) == key} <= public_names, name
    assert not (tree / "data/results/gold.json").exists()


READABLE = {f"{package}.{name}" for package, names in HELPERS.items() for name in names}


@pytest.fixture(scope="module")
def readable():
    """Every callable of the modules that kernels may read, by its path: also those in classes, lists and objects."""
    found, seen = {}, set()

    def walk(path, value):
        if id(value) in seen:
            return
        seen.add(id(value))
        if isinstance(value, functools.partial):
            walk(path, value.func)
        elif isinstance(value, type) or inspect.isfunction(value):
            if value.__module__ in READABLE:  # what is imported from elsewhere is withheld, or no part of the course
                found[path] = value
                for key, part in vars(value).items() if isinstance(value, type) else ():
                    if not key.startswith("__"):
                        walk(f"{path}.{key}", getattr(part, "__func__", part))
        elif isinstance(value, list | tuple | dict):
            for key, part in value.items() if isinstance(value, dict) else enumerate(value):
                walk(f"{path}[{key!r}]", part)
        elif type(value).__module__ in READABLE:
            for key, part in getattr(value, "__dict__", {}).items():
                walk(f"{path}.{key}", part)

    for name in sorted(READABLE):
        for key, value in vars(importlib.import_module(name)).items():
            walk(f"{name}.{key}", value)
    assert len(found) > 300
    return found


def verdict_on(check, value):
    namespace = dict.fromkeys(check.names, value)
    return check.verdict(lambda request: dispatch.answer(namespace, request), [])


def first_call(check):
    """What the check gives to an answer when it calls one for the first time; None if it calls none."""
    calls = []

    def answer(*values, **named):
        calls.append((values, named))
        raise RuntimeError

    verdict_on(check, answer)
    return calls[0] if calls else None


def refused(check, given, helpers):
    """The helpers that raise an error in the first call which would end the check in that call.

    They need no verdicts of their own: a check makes its models anew for each, which takes longer than what follows.
    """
    raised, copied = {}, None
    for path, value in helpers.items() if given is not None else ():
        try:
            copied = copied or copy.deepcopy(given)
        except Exception:  # a verdict says what comes of it
            return set()
        try:
            value(*copied[0], **copied[1])
            copied = None  # which it may have changed
        except Exception as error:  # whatever a helper raises for what it was not made for
            raised[path] = type(error)
    ends = {kind: ends_it(check, kind) for kind in {*raised.values()}}
    return {path for path, kind in raised.items() if ends[kind]}


def ends_it(check, kind):
    """Whether an answer that raises an error of this kind is refused, and not called again."""
    calls = 0

    def answer(*values, **named):
        nonlocal calls
        calls += 1
        raise kind.__new__(kind)

    return verdict_on(check, answer).outcome is not Outcome.PASSED and calls == 1


def takes(value, given):
    """Whether a callable has parameters for what it is given; if not, its first call is an error."""
    if given is None:
        return True
    try:
        signature = inspect.signature(value)
    except ValueError:  # nobody knows
        return True
    try:
        signature.bind(*given[0], **given[1])
    except TypeError:
        return False
    return True


# Ways to make an answer of a helper with one line: what it is given, and what is taken of its result.
GIVEN = {
    "as it is": lambda *given, **named: (given, named),
    "the first": lambda *given, **named: (given[:1], {}),
    "the other way round": lambda *given, **named: (given[::-1], named),
    "as one": lambda *given, **named: ((given,), named),
    "as arrays": lambda *given, **named: (tuple(map(array, given)), named),
    "as one array": lambda *given, **named: ((np.array(given, dtype=float),), named),
}
TAKEN = {
    "as it is": lambda result: result,
    "as a tensor": torch.as_tensor,
    "as a float": float,
    "a hundredth": lambda result: float(result) / 100,
    "the first": lambda result: result[0],
    "the last": lambda result: result[-1],
}


LONG = bool(os.environ.get("COURSE_LONG_TESTS"))  # all helpers are adapted: that takes four minutes of a processor
FORMULAS = ("utils.experiments.", "utils.positions.", "utils.plots.", "utils.variants.")  # else these, which compute


def array(value):
    return value.detach().numpy() if isinstance(value, torch.Tensor) else np.array(value)


def plain(value):
    inner = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, (dict, list, *PLAIN)) and all(map(plain, inner))


def adapted(value, given, taken):
    """An answer made of a helper."""

    def answer(*values, **named):
        values, named = GIVEN[given](*values, **named)
        return TAKEN[taken](value(*values, **named))

    return answer


def attempts(value, given):
    """The ways to make an answer of a helper that give something for the first call, if that has plain data alone."""
    for way in GIVEN if given is not None and all(map(plain, (*given[0], *given[1].values()))) else ():
        try:
            values, named = GIVEN[way](*copy.deepcopy(given[0]), **copy.deepcopy(given[1]))
            if not takes(value, (values, named)):
                continue
            result = value(*values, **named)
        except Exception:  # whatever a helper raises for what it was not made for
            continue
        for taken, take in TAKEN.items():
            try:
                what = take(result)
            except Exception:
                continue
            if (way, taken) != ("as it is",) * 2 and isinstance(what, bool | int | float | list | tuple | torch.Tensor):
                yield way, taken


@pytest.fixture
def memory_is_bounded():
    """As in a kernel: what takes sizes for an answer's argument may ask for any number of bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 4 * 2**30, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@pytest.mark.usefixtures("memory_is_bounded")
@pytest.mark.parametrize("entry", ENTRIES)
def test_nothing_that_a_kernel_may_read_is_an_answer(entry, readable, monkeypatch, tmp_path):
    """Neither as it is nor adapted in one line."""
    monkeypatch.chdir(tmp_path)
    helpers = {path: one for path, one in readable.items() if not path.startswith("utils.experiments.runs")}  # trains
    asked = 0
    for number, check in checks.asked_checks(entry).items():
        if isinstance(check, ResultsCheck):
            continue
        given = first_call(check)
        may = {path: value for path, value in helpers.items() if takes(value, given)}
        asked += len(may)
        known = refused(check, given, may)
        for path in (path for path in may if path not in known):
            assert verdict_on(check, may[path]).outcome is not Outcome.PASSED, f"{path} answers {number}"
        for path, value in helpers.items():
            if not (LONG or path.startswith(FORMULAS)):
                continue
            for way in attempts(value, given):
                verdict = verdict_on(check, adapted(value, *way))
                assert verdict.outcome is not Outcome.PASSED, f"{path}, {way}, answers {number}"
                asked += 1
    assert asked > 100


@pytest.mark.parametrize(
    "line, says",
    [
        (
            "from utils.experiments import seed_table; seed_table.t_interval([1, 2])",
            "is not there while a notebook is graded",
        ),
        ("from utils.experiments.rte.train import parameter_groups; parameter_groups(None, 0.1)", "is not there"),
        (
            "from utils.checks import nb01_causal_mask_lm as checks; print(checks.attention(None), 'silent')",
            "None silent",
        ),
        ("import utils.checks.nb01_causal_mask_lm as c; print(open(c.__file__).read().count('def '))", "0"),
        (
            "from utils.experiments import formulas; formulas.bleu([1.0])",
            "`utils.experiments.formulas.bleu` is not there",
        ),
        (
            "from utils.experiments.translation import METRICS; METRICS[0].value(None)",
            "`utils.experiments.formulas.bleu`",
        ),
        ("from utils.experiments.tagging import METRICS; METRICS[0].value(None)", "`utils.experiments.formulas.f1`"),
        ("import autograder.grading.judge", "No module named 'autograder.grading'"),
        ("import gc; print([o for o in gc.get_objects() if type(o).__name__ == 'Check'])", "[]"),
    ],
)
def test_what_a_cell_finds_of_it(line, says, running):
    ran = running.run(line)
    assert says in ran.error or says in "".join(output.get("text", "") for output in ran.outputs), (
        ran.error,
        ran.outputs,
    )


COMPUTES = {"log", "exp", "sqrt", "softmax", "log_softmax", "cross_entropy", "argmax", "argsort", "mean", "std", "var",
            "quantile", "median", "cumsum", "cumprod", "outer", "einsum", "matmul",
            "polyfit", "lstsq", "solve"}  # fmt: skip
# Each was looked at: it sums up runs, or prepares text, and does nothing that an exercise asks for.
LOOKED_AT = {
    *(
        "experiment.Run.accuracy",
        "experiment.Run.majority",
        "experiment.outputs_of",
        "experiment.score",
        "longer_context.spec.by_place",
    ),
    *("forgetting.spec.matrix", "objectives.spec.learning", "pretraining.spec.learning", "tagging.spec.Tagging.check"),
    *("forgetting.spec.picture", "longer_context.spec.picture", "objectives.spec.crossed", "pretraining.spec.picture"),
    *("lab.spec.picture", "smaller.spec.picture", "tagging.spec.picture", "translation.spec.picture"),
}


def test_no_new_formula_is_in_a_module_of_experiments_that_kernels_may_read():
    """Formulas are in `utils.experiments.formulas`, which kernels may not read: BLEU was once beside its experiment."""
    found = set()
    for name in READABLE:
        if not name.startswith("utils.experiments."):
            continue
        for node in ast.parse(inspect.getsource(importlib.import_module(name))).body:
            parts = [node, *node.body] if isinstance(node, ast.ClassDef) else [node]
            for part in parts[1:] or parts:
                called = {one.attr for one in ast.walk(part) if isinstance(one, ast.Attribute)}
                if called & COMPUTES:
                    owner = f"{node.name}." if part is not node else ""
                    module = name.removeprefix("utils.experiments.")
                    found.add(f"{module}.{owner}{getattr(part, 'name', ast.unparse(part)[:30])}")
    assert found == LOOKED_AT


@pytest.fixture(scope="module")
def running():
    with kernel.open_kernel(COURSE.running(COURSE.notebooks)) as one:
        yield one


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_cell_that_shows_what_answers_do_still_runs(entry, running):
    """With `pictures = true` they are run; those that need a withheld module say so, and only these two do."""
    failed = {}
    for cell in build.solution_notebook(COURSE, entry).cells:
        if cell.cell_type == "code" and cell.id != "setup" and "experiment" not in cell.metadata.get("tags", []):
            if role_of(cell.id) is CellRole.CHECK or cell.id in ("exercise_5_11", "exercise_6_7"):
                continue
            error = running.run(cell.source).error
            if error:
                failed[cell.id] = error
    assert {*failed} <= {"after_3_7_00", "after_5_7_02"}, failed


def test_an_answer_that_needs_a_withheld_module_is_refused_at_home_too():
    cells = [
        forbidden.read_cell(
            "from utils import plots\nfrom utils.experiments import seed_table, training\n"
            "from utils.experiments.seed_table import compare"
        ),
        forbidden.read_cell("def spread(values):\n    return seed_table.t_interval(values)"),
        forbidden.read_cell("def mine(model):\n    training = model.training\n    plots.bars({})\n    return training"),
        forbidden.read_cell("def table(runs):\n    return compare(runs, runs)"),
        forbidden.read_cell("def tried(answer):\n    return checks.attention(answer)"),
        forbidden.read_cell("def compare(a, b):\n    return 0"),
    ]
    cells.insert(0, forbidden.read_cell("from utils.checks import nb01_causal_mask_lm as checks"))
    cells.append(forbidden.read_cell("print(vars(checks), globals()['seed_table'])"))
    assert forbidden.withheld(cells, ["spread"]) == "experiments.seed_table"
    assert forbidden.withheld(cells, ["mine"]) is None
    assert forbidden.withheld(cells, ["tried"]) is None, "a check may be called: it says nothing there"
    assert forbidden.withheld(cells[:-2], ["table"]) == "experiments.seed_table"
    assert forbidden.withheld(cells, ["table"]) is None, "the student's own function of that name"


def test_what_trains_an_experiment_is_withheld_and_what_the_experiment_is_is_not():
    """In a package of experiments that are two modules."""
    first, second = (
        "from utils.experiments import forgetting, rte",
        "from utils.experiments.forgetting import spec, train",
    )
    cells = [
        *map(forbidden.read_cell, (first, second, "from utils.experiments.rte.train import batches as cut")),
        forbidden.read_cell("def shares(run):\n    return forgetting.matrix(run), spec.times(run), rte.FUSED"),
        forbidden.read_cell("def steps(experiment):\n    return train.fall(experiment, 1)"),
        forbidden.read_cell("def batches(encoded, size, generator):\n    return cut(encoded, size, generator)"),
    ]
    assert forbidden.withheld(cells, ["shares"]) is None
    assert forbidden.withheld(cells, ["steps"]) == "experiments.forgetting.train"
    assert forbidden.withheld(cells, ["batches"]) == "experiments.rte.train"


def test_kernels_see_what_an_experiment_of_another_course_is(tmp_path, monkeypatch):
    """Its module `spec` and the package around it, as of ours, and nothing of what trains it."""
    texts = {
        "__init__.py": "from utils.experiments.series.spec import *\n",
        "spec.py": "SIZES = {}\n",
        "train.py": "ANSWER = 42\n",
    }
    for name, text in texts.items():
        (tmp_path / "series" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "series" / name).write_text(text)
    monkeypatch.setattr(experiments, "__path__", [*experiments.__path__, str(tmp_path)])
    monkeypatch.setitem(HELPERS, "utils", (*HELPERS["utils"], *forbidden.specs()))
    files = {f"utils/experiments/series/{name}": tmp_path / "series" / name for name in texts}
    monkeypatch.setattr(withheld, "helpers", lambda: files)
    shown = withheld.write(tmp_path / "shown") / "utils/experiments/series"
    assert [(shown / name).read_text() for name in ("__init__.py", "spec.py")] == [*texts.values()][:2]
    assert 'ANSWER = Withheld("utils.experiments.series.train.ANSWER", False)' in (shown / "train.py").read_text()


def test_a_package_of_another_course_shows_no_source(tmp_path, monkeypatch):
    """What its `__init__.py` defines is a stand-in; ours are plain, and so are empty ones."""
    (tmp_path / "refs").mkdir()
    theirs, empty = tmp_path / "refs" / "__init__.py", tmp_path / "__init__.py"
    theirs.write_text("def reference():\n    return 'the answer'\n")
    empty.write_text("\n")
    ours = "utils/experiments/__init__.py"
    found = {"utils/refs/__init__.py": theirs, "utils/empty/__init__.py": empty, ours: course.ROOT / ours}
    monkeypatch.setattr(withheld, "helpers", lambda: found)
    folder = withheld.write(tmp_path / "shown")
    shown = (folder / "utils/refs/__init__.py").read_text()
    assert 'reference = Withheld("utils.refs.reference", False)' in shown and "the answer" not in shown
    assert (folder / "utils/empty/__init__.py").read_text() == "\n"
    assert (folder / ours).read_text() == (course.ROOT / ours).read_text()
