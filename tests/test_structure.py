"""Imports go one way: between the folders of the project, between the wings of autograder, between modules."""

import ast
import graphlib
import subprocess
import sys
from pathlib import Path

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
        "likeness",
        "marking",
        "reports",
        "sandbox",
    },
    "utils": {"checks", "experiments", "grading"},
}


def imports(path):
    """The modules that a file imports, anywhere in it; of `from a import b` both `a` and `a.b`."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
    return found


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
    assert {path.parent.name for path in found.values()} == {package, *WINGS[package]}
    between = {name: (imports(path) & {*found}) - {name} for name, path in found.items()}
    wings = {}
    for name, targets in between.items():
        wings.setdefault(wing(name), set()).update({wing(target) for target in targets} - {package, wing(name)})
    assert [*graphlib.TopologicalSorter(wings).static_order()]
    packages = {name for name, path in found.items() if Path(path).stem == "__init__"}
    assert [*graphlib.TopologicalSorter({name: targets - packages for name, targets in between.items()}).static_order()]


@pytest.mark.parametrize("folder", ["tests", "benchmarks"])
def test_no_test_is_imported(folder):
    """What several tests call stands in tests/helpers.py, what they share in the fixtures of tests/conftest.py."""
    files = [*(course.ROOT / folder).rglob("*.py")]
    assert len(files) > 3
    for path in files:
        above = {one.split(".")[0] for one in imports(path)}
        assert not [one for one in above if one in ("tests", "conftest") or one.startswith("test_")], path


# What names the experiments whose runs are handed in, for whoever only compares and reports them.
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
