"""Imports go one way: between the folders of the project, between the wings of autograder, between modules."""

import ast
import fnmatch
import itertools
import re
import subprocess
import sys
import tomllib
from collections import Counter

import networkx
import pytest

from autograder import course

WINGS = {
    "autograder": {
        "any_course",
        "author",
        "cli",
        "gradebook",
        "grading",
        "intake",
        "similarity",
        "marking",
        "reports",
        "sandbox",
    },
    "utils": {"checks", "experiments", "grading"},
}


MODULE = re.compile(r"(autograder|utils|data|solutions|tests)(\.[a-z_]\w*)+")
# Where a module is imported whose name is computed. Each was looked at: it imports no module of a level above it.
COMPUTED = {
    "utils.experiments.experiment": "`Experiment.trainer`: the module that trains",
    "utils.grading.dispatch": "a library that a check names",
}


def imports(path, known=()):
    """The modules that a file imports, anywhere in it, or names in a string.

    Of `from a import b` that is `a.b` alone if it is among the `known` modules, else both `a` and `a.b`.
    """
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{one.name}" for one in node.names}
            found |= names if names <= {*known} else {node.module, *names}
    return found | strings(path)


def strings(path):
    """The strings in a file that are the name of a module, as `importlib.import_module` takes it.

    What a process is started with, `python -m NAME`, is not an import.
    """
    nodes = [*ast.walk(ast.parse(path.read_text()))]
    started = {part for node in nodes if isinstance(node, ast.List) for part in after_m(node.elts)}
    texts = (node.value for node in nodes if isinstance(node, ast.Constant) and node not in started)
    return {text for text in texts if isinstance(text, str) and MODULE.fullmatch(text)}


def after_m(parts):
    """What follows "-m" in the words of a command."""
    return [after for one, after in itertools.pairwise(parts) if getattr(one, "value", "") == "-m"]


def computed_imports(path):
    """How often a file imports a module whose name is not a string in that call."""
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    names = [getattr(call.func, "attr", getattr(call.func, "id", "")) for call in calls]
    return sum(
        name in ("import_module", "__import__") and not (call.args and isinstance(call.args[0], ast.Constant))
        for name, call in zip(names, calls, strict=True)
    )


def modules(package):
    """The modules of a package by their dotted names."""
    paths = sorted((course.ROOT / package).rglob("*.py"))
    return {
        ".".join(path.relative_to(course.ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in paths
    }


def wing(module):
    """The folder of its package that a module lies in; the module itself if it lies in none."""
    package, _, inside = module.partition(".")
    part = inside.split(".")[0]
    return f"{package}.{part}" if part in WINGS[package] else module


def circles(arrows):
    """Every group of modules that import each other, some by way of others. arrows: module -> what it imports."""
    graph = networkx.DiGraph([(name, target) for name, targets in arrows.items() for target in targets])
    return sorted(sorted(group) for group in networkx.strongly_connected_components(graph) if len(group) > 1)


@pytest.mark.parametrize(
    "package, never", [("data", {"utils", "autograder"}), ("utils", {"autograder"}), ("autograder", {"tests"})]
)
def test_a_folder_imports_none_above_it(package, never):
    found = modules(package)
    assert len(found) > 3
    for name, path in found.items():
        assert not {one for one in imports(path) if one.split(".")[0] in {*never, "solutions", "notebooks"}}, name


@pytest.mark.parametrize("package", WINGS)
def test_wings_and_modules_import_without_a_circle(package):
    found = modules(package)
    parts = {path.relative_to(course.ROOT / package).parent.parts[:1] for path in found.values()}
    assert parts == {(), *((name,) for name in WINGS[package])}
    between = {name: (imports(path, found) & {*found}) - {name} for name, path in found.items()}
    wings = {}
    for name, targets in between.items():
        wings.setdefault(wing(name), set()).update({wing(target) for target in targets} - {package, wing(name)})
    assert circles(wings) == []
    assert circles(between) == []


def test_what_trains_an_experiment_imports_what_it_is():
    """`train` imports `spec` of its package and nothing else of it, `spec` and the package import no `train`."""
    found = modules("utils")
    packages = sorted(name.removesuffix(".spec") for name in found if name.endswith(".spec"))
    assert len(packages) >= 8
    for package in packages:
        inside = {package, *(name for name in found if name.startswith(f"{package}."))}
        assert inside == {package, f"{package}.spec", f"{package}.train"}
        own = {name: imports(found[name], found) & inside for name in inside}
        assert own == {f"{package}.train": {f"{package}.spec"}, f"{package}.spec": set(), package: {f"{package}.spec"}}


def test_a_computed_import_is_one_that_was_looked_at():
    """By another one, a module could import what imports it, and no other test would see that."""
    found = {name: computed_imports(path) for name, path in modules("utils").items()}
    assert {name: count for name, count in found.items() if count} == dict.fromkeys(COMPUTED, 1)


LONGEST = 60  # lines of a function, its docstring included


def test_functions_are_short():
    """Those of `utils`, checks aside, which have a sentence for each mistake; ruff bounds branches and parameters."""
    found = {
        f"{name}.{node.name}": node.end_lineno - node.lineno + 1
        for name, path in modules("utils").items()
        if not name.startswith("utils.checks.")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
    }
    assert len(found) > 500
    assert {name: lines for name, lines in found.items() if lines > LONGEST} == {}


@pytest.mark.parametrize("folder", ["tests", "benchmarks"])
def test_no_test_is_imported(folder):
    """What several tests call stands in tests/helpers.py, what they share in the fixtures of tests/conftest.py."""
    files = [*(course.ROOT / folder).rglob("*.py")]
    assert len(files) > 3
    for path in files:
        above = {one.split(".")[0] for one in imports(path)}
        assert not [one for one in above if one in ("tests", "conftest") or one.startswith("test_")], path


# What names the experiments whose runs are handed in, for code that only compares and reports them.
NAMING = sorted({entry.experiments for entry in course.load().notebooks if entry.has_experiments})


@pytest.mark.parametrize(
    "module",
    [
        *(
            f"autograder.{name}"
            for name in ("cli", "reports.progress", "reports.report", "grading.grade", "grading.audit")
        ),
        *NAMING,
    ],
)
def test_commands_import_neither_dask_nor_torch(module):
    """Status is asked often, and waits for neither; to grade, torch is imported when something waits."""
    script = f"import sys, {module}\n"
    script += "print(sorted({'dask', 'distributed', 'torch', 'matplotlib', 'sklearn', 'copydetect'} & {*sys.modules}))"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=course.ROOT, check=True)
    assert ended.stdout.strip() == "[]"


@pytest.mark.parametrize("module", ["autograder.cli", "autograder.reports.progress", "autograder.reports.report"])
def test_status_and_report_import_neither_numpy_nor_nbformat(module):
    """numpy alone took a fifth of the time of `status`; the runs and predictions of a class need it, and import it."""
    script = f"import sys, {module}; print(sorted({{'nbformat', 'numpy', 'pandas', 'PIL'}} & {{*sys.modules}}))"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=course.ROOT, check=True)
    assert ended.stdout.strip() == "[]"


def test_no_function_of_autograder_has_more_than_60_lines():
    """ruff counts branches, statements and parameters, and no lines."""
    long = [
        f"{path.relative_to(course.ROOT)}: {node.name} has {lines}"
        for path in sorted((course.ROOT / "autograder").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or 0) - node.lineno + 1) > 60
    ]
    assert long == []


TESTS = {path.stem: path for path in (course.ROOT / "tests").rglob("test_*.py")}
PLACES = tomllib.loads((course.ROOT / "tests/places.toml").read_text())


def test_a_newcomer_finds_where_a_module_is_tested():
    """A module has a test file of its name, or tests/places.toml names one; a package that only collects has none."""
    used = Counter()
    for path in [*modules("autograder").values(), *modules("utils").values()]:
        name = path.relative_to(course.ROOT).as_posix()
        stem = path.parent.name if path.stem == "__init__" else path.stem
        stated = [pattern for pattern in PLACES if fnmatch.fnmatch(name, pattern)]
        used.update(stated)
        if path.stem == "__init__" and not any(
            isinstance(node, ast.FunctionDef | ast.ClassDef) for node in ast.parse(path.read_text()).body
        ):
            continue
        assert f"test_{stem}" in TESTS or len(stated) == 1, f"{name}: {stated}; see tests/places.toml"
    assert [pattern for pattern in PLACES if not used[pattern]] == []
    assert [place for place in PLACES.values() if course.ROOT / place not in TESTS.values()] == []


def private_names(tree):
    """Names with an underscore of this project's modules that a test file uses: the line, and what is written there."""
    imported = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    ours = {
        alias.asname or alias.name.split(".")[0]
        for node in imported
        for alias in node.names
        if (getattr(node, "module", "") or alias.name).split(".")[0] in ("autograder", "data", "helpers", "utils")
    }
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(names=names) if ours & {alias.asname or alias.name for alias in names}:
                yield from ((node.lineno, alias.name) for alias in names if alias.name.startswith("_"))
            case (
                ast.Attribute(value=owner, attr=name)
                | ast.Call(func=ast.Attribute(attr="setattr"), args=[owner, ast.Constant(value=str(name)), *_])
            ) if name.startswith("_") and not name.startswith("__") and name != "_fields":  # of a named tuple
                while isinstance(owner, ast.Attribute):
                    owner = owner.value
                if isinstance(owner, ast.Name) and owner.id in ours:
                    yield node.lineno, ast.unparse(node)


def test_no_test_uses_a_private_name_of_another_module():
    """A test asks what a module promises: what it needs has a name without an underscore, and a docstring."""
    bad = ast.parse("from utils import files\nfrom autograder.course import _read\nimport torch\n"
                    "files._part()\ntorch._C\npatch.setattr(files, '_part', None)\nfiles.Kind._make()")  # fmt: skip
    assert sorted(line for line, _ in private_names(bad)) == [2, 4, 6, 7]
    found = {
        str(path.relative_to(course.ROOT)): list(private_names(ast.parse(path.read_text())))
        for path in (course.ROOT / "tests").rglob("*.py")
        if "hostile" not in path.parts
    }
    assert len(found) > 80
    assert {path: names for path, names in found.items() if names} == {}


# Where a test sleeps, and why nothing can be waited for.
SLEEPS = {
    "tests/waiting.py": "the one place that asks again and again",
    "tests/experiments/test_runs.py": "a run is killed at a random moment",
    "tests/grading/test_local.py": "a job that is too long",
    "tests/grading/test_resume.py": "an interrupt at a later moment of the imports",
    "tests/sandbox/test_devices.py": "a moment in a fork server's fork, which nobody outside sees",
    "tests/intake/test_exchange.py": "file times of whole seconds must differ",
}


def test_tests_wait_for_events_and_assert_no_short_time_of_a_clock():
    """A busy machine lets any of them pass by: what must be quick is measured in the process's own time."""
    sleeps, clocks = set(), []
    for path in (course.ROOT / "tests").rglob("*.py"):
        name = path.relative_to(course.ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_text())) if "hostile" not in path.parts else ():  # submissions
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="time"), attr="sleep")):
                    sleeps.add(name)
                case ast.Compare(
                    left=ast.BinOp(
                        op=ast.Sub(), left=ast.Call(func=ast.Attribute(attr="monotonic" | "perf_counter" | "time"))
                    ),
                    ops=[ast.Lt() | ast.LtE()],
                    comparators=[ast.Constant(value=int() | float() as seconds)],
                ) if seconds < 30:
                    clocks.append((name, node.lineno))
    assert sleeps == {*SLEEPS} and clocks == []


# How often a variable of autograder/ has a name that says nothing of the thing. Before, `one` was bound 695 times and
# `told` 586 in all Python files; in autograder/ `one` 338, `told` 40, `some` 59 and `found` 249 times.
NAMELESS = {"one": 10, "told": 5, "some": 5, "found": 12}


def test_variables_say_what_they_are():
    """A loop over students has a `student`: docs and messages have the same words, and a reader looks nothing up."""
    bound = Counter(
        node.id if isinstance(node, ast.Name) else node.arg
        for path in modules("autograder").values()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.arg) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    )
    assert bound["course"] > 300
    assert {name: bound[name] for name, most in NAMELESS.items() if bound[name] > most} == {}
