"""What students get: it works by itself, and not one line of the instructor's is in it."""

import json
import os
import re
import shutil
import subprocess
import sys

import nbformat
import pytest

from autograder import course, synthetic
from autograder.author import answers, build, checks, release
from autograder.cells import CellRole, role_of
from autograder.grading import fingerprints

COURSE = course.load()
ENTRIES = [pytest.param(entry, id=entry.name) for entry in COURSE.notebooks]
# Lines that both sides have because everybody who writes torch has them; each was looked at.
IDIOMS = {
    "from utils import counting",
    "began = clock()",
    "began = time.perf_counter()",
    "device = next(model.parameters()).device",
    "label = rng.randrange(2)",
    "loss = F.cross_entropy(model(x), labels)",
    "model.load_state_dict(saved)",
    "return Sizes(",
    "return counts",
    "return layer",
    "return loss.item()",
    "draw = random.Random(seed)",
    "for group in optimizer.param_groups:",
    "for layer in self.layers:",
    "for name, shape in shapes.items():",
    "self.layers = nn.ModuleList(",
    "from pathlib import Path",
    "import unicodedata",
    "times.append(clock() - began)",
    "from transformers import BertConfig",
    "from utils.experiments import rte",
    "if not labels:",
    "import inspect",
    "import functools",
    "import platform",
    "import random",
    "import shutil",
    "model.train(was_training)",
    "model.zero_grad(set_to_none=True)",
    "optimizer.zero_grad()",
    "return total",
    "torch.set_num_threads(1)",
    "self.head.weight = self.embedding.weight",
    "def forward(self, x: torch.Tensor) -> torch.Tensor:",
    "for name, parameter in model.named_parameters():",
    "model.train(training)",
    "np.random.seed(seed)",
    "random.seed(seed)",
    "torch.manual_seed(seed)",
    "while len(found) < count:",
    "was_training = model.training",
    "from functools import lru_cache",
    "from typing import NamedTuple",
    "module.zero_grad()",
    "torch.set_grad_enabled(True)",
    "with torch.random.fork_rng(devices=[]):",
    'with torch.device("meta"):',
    "found = None",
    "found.append((a, b, label))",
    "for part in module.parameters():",
    "model.requires_grad_(True)",
    "module.train(mode)",
    "with torch.random.fork_rng():",
}


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    target = tmp_path_factory.mktemp("student") / "course"
    release.release(COURSE, target)
    return target


def test_no_secret_line_is_released(released):
    secrets = release.secret_lines(COURSE) - IDIOMS
    assert len(secrets) > 100  # the test would pass on an empty list
    for path in released.rglob("*"):
        if path.is_file():
            assert not release.lines_of(path) & secrets, path


def test_a_leaked_line_would_be_found(released, tmp_path):
    secret = max(release.secret_lines(COURSE) - IDIOMS, key=len)
    (tmp_path / "leak.py").write_text(f"def f():\n    {secret}\n")
    assert secret in release.lines_of(tmp_path / "leak.py")


def test_a_leaked_answer_would_be_found_that_is_written_as_edits(released, tmp_path):
    given = set().union(*(release.lines_of(path) for path in released.rglob("*.*") if path.suffix in (".py", ".ipynb")))
    secrets, leak = release.secret_lines(COURSE), tmp_path / "leak.py"
    for entry in COURSE.notebooks:
        leak.write_text("\n".join(case.source for case in answers.answer_cases(entry)))
        leaked = {line for line in release.lines_of(leak) - given if len(line) >= 12}
        cells = {
            line.strip() for path in course.folder_of(entry).glob("*.py") for line in path.read_text().splitlines()
        }
        assert len(leaked - cells) > 5  # in the file they stand behind the signs of edits
        assert leaked <= secrets


def test_the_instructors_folders_stay_at_home(released):
    assert {path.name for path in released.iterdir()} == {
        "notebooks", "utils", "data", "environment.yml", "requirements.txt", "constraints.txt", "LICENSE", "README.md",
        "students.md",
    }  # fmt: skip
    for path in released.rglob("*.py"):
        assert "autograder" not in path.read_text() or path.name in ("check.py", "dispatch.py"), path


def test_committed_notebooks_are_fresh():
    assert len(COURSE.notebooks) > 1 and build.build_notebooks(COURSE, check=True) == []


def test_a_notebook_needs_no_more_than_its_source(tmp_path, monkeypatch):
    """Private checks, wrong answers and computed numbers come later; who needs them says that they are missing."""
    entry = COURSE.notebooks[0]
    released = build.student_notebook(COURSE, entry)
    shutil.copy(course.folder_of(entry) / "notebook.py", tmp_path)
    for module in (build, answers, checks, fingerprints, synthetic):
        monkeypatch.setattr(module, "folder_of", lambda entry: tmp_path)
    assert build.student_notebook(COURSE, entry) == released
    assert answers.answer_cases(entry) == [] and checks.private_checks(entry) == {}
    monkeypatch.setattr(fingerprints.course_tree, "release_text", lambda course, entry: build.write(released))
    monkeypatch.setattr(fingerprints.course_tree, "exercises", lambda course, entry: checks.public_checks(entry))
    elsewhere = COURSE.model_copy(update={"tree": tmp_path / "tree"})
    assert fingerprints.fingerprints(elsewhere, entry).keys() == checks.public_checks(entry).keys()
    with pytest.raises(course.CourseError, match=r"wrong_answers.py has no wrong answer to 1\.1, 1\.2"):
        synthetic.made_up_class(COURSE, entry)


@pytest.mark.parametrize("entry", ENTRIES)
def test_the_notebook_is_as_promised(entry):
    notebook = nbformat.read(build.notebook_path(entry), as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata.accelerator == "GPU"
    assert COURSE.student_repository.split("github.com/")[1] in notebook.cells[0].source
    # Block diagrams are there before a cell has run, and nothing else is; tests/docs/test_diagrams.py compares them.
    assert all(not cell.get("outputs") or build.DIAGRAM.fullmatch(cell.source) for cell in notebook.cells)
    setup = next(cell for cell in notebook.cells if cell.id == "setup")
    assert len(setup.source.splitlines()) <= 4
    ids = [cell.id for cell in notebook.cells]
    assert len({*ids}) == len(ids)
    text = build.write(notebook)
    assert "BEGIN SOLUTION" not in text and "MARK SCHEME" not in text


# What every notebook imports, once; then each script in a child of its own, whose standard error goes to a file.
OPEN = """
import json, os, sys
import gc, matplotlib.pyplot, pandas, torch._dynamo, transformers
gc.freeze()
for file, script in json.load(sys.stdin).items():
    if not os.fork():
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), 2)
        exec(script, {"__name__": "__main__"})
        os._exit(0)
    os.wait()
"""


@pytest.fixture(scope="module")
def opened(released, tmp_path_factory):
    """What each released notebook says in its own folder, up to the check of its first exercise."""
    scripts, folder = {}, tmp_path_factory.mktemp("said")
    for entry in COURSE.notebooks:
        notebook = nbformat.read(released / "notebooks" / f"{entry.name}.ipynb", as_version=4)
        first = next(index for index, cell in enumerate(notebook.cells) if role_of(cell.id) is CellRole.EXERCISE)
        cells = [cell.source for cell in notebook.cells[:first] if cell.cell_type == "code"]
        check = next(cell for cell in notebook.cells if role_of(cell.id) is CellRole.CHECK)
        scripts[str(folder / entry.name)] = "\n".join([*cells, notebook.cells[first].source, check.source])
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    call = [sys.executable, "-c", OPEN]
    given = json.dumps(scripts)
    subprocess.run(call, cwd=released / "notebooks", input=given, text=True, env=environment, check=True)
    return {path.name: path.read_text() for path in folder.iterdir()}


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_student_can_open_it_and_run_a_check(opened, entry):
    assert "not attempted yet" in opened[entry.name], opened[entry.name]


@pytest.mark.parametrize("file", ["thesis.tex", "notebooks/mine.ipynb"])
def test_a_folder_with_something_else_is_refused(tmp_path, file):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text("x")
    with pytest.raises(course.CourseError, match="something else"):
        release.release(COURSE, tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / file]


def test_the_release_of_another_course_is_refused(tmp_path):
    for name in ("utils/grading/check.py", "notebooks/01_bigrams.ipynb"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    with pytest.raises(course.CourseError, match="the release of another course"):
        release.release(COURSE, tmp_path)


def test_the_readme_of_a_release_says_of_which_a_zip_is_handed_in(released):
    assert "Of 05, 06, 07, 08, 09, 10, 11, 12 and 13 hand in the zip" in (released / "README.md").read_text()


RECORDED = """
from utils.checks import nb05_seed_variance
from utils.experiments import rte
assert len(rte.recorded("05_seed_variance")) > 1 and len(rte.recorded_on_sick()) > 1
"""


def test_a_course_of_some_notebooks_releases_their_checks_and_results_alone(tmp_path):
    """Also where an earlier release had all."""
    target = tmp_path / "student"
    release.release(COURSE, target)
    (target / ".git").mkdir()
    (target / ".git/config").touch()
    (target / "notebooks/mine.txt").touch()
    chosen = [COURSE.notebook(number) for number in ("01", "05")]
    some = COURSE.model_copy(update={"notebooks": tuple(chosen)})
    release.release(some, target)
    names = {path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file()}
    checks = {name for name in names if name.startswith("utils/checks/nb")}
    assert checks == {f"utils/checks/nb{name}.py" for name in (*(entry.name for entry in chosen), "01_toys", "05_toys")}
    assert {name for name in names if name.startswith(("data/results/", "data/summaries/"))} == {
        "data/results/fusion_weights.json",
        "data/results/gold.json",
        "data/results/rte_search.json",
        "data/results/rte_shared_premises.json",
        "data/summaries/rte.json",
        "data/summaries/sick.json",
    }
    assert {name for name in names if name.startswith("notebooks/")} == {
        *(f"notebooks/{entry.name}.ipynb" for entry in chosen),
        "notebooks/mine.txt",
    }
    assert ".git/config" in names and names - {".git/config", "notebooks/mine.txt"} == {
        path.relative_to(tmp_path / "new").as_posix() for path in release.release(some, tmp_path / "new")
    }
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([sys.executable, "-c", RECORDED], cwd=target, env=environment, check=True)


def test_the_readme_of_a_release_has_deadlines_and_what_lateness_costs(tmp_path, released):
    page = (released / "README.md").read_text()
    assert f"Submissions are graded with Python {sys.version_info[0]}.{sys.version_info[1]}: syntax" in page
    for entry in COURSE.notebooks:
        assert f"| {entry.number} {entry.title} | " in page
    assert "| 01 A language model that may not look ahead | Sunday, 7 February 2027, 23:59 (UTC+01:00) |" in page
    assert "\nLate submissions lose nothing.\n" in page and "course.toml" not in page
    late = course.Late(percent=10, most=50, grace_minutes=15)
    entry = COURSE.notebooks[0].model_copy(update={"deadline": None})
    some = COURSE.model_copy(update={"late": late, "notebooks": (entry, COURSE.notebooks[1])})
    page = release.readme(some)
    assert "| 01" not in page and "| 02" in page
    assert "Late submissions lose 10% for each day that has begun, 50% at most; the first 15 minutes are free." in page
    assert "## Deadlines" not in release.readme(COURSE.model_copy(update={"notebooks": (entry,)}))


def test_the_students_page_is_in_the_release_and_its_links_lead_somewhere(released):
    assert "(students.md)" in (released / "README.md").read_text()
    for page in ("README.md", "students.md"):
        links = re.findall(r"\]\(([^)#\s]+)\)", (released / page).read_text())
        assert links and all((released / link).exists() for link in links), links


def test_a_file_is_no_folder_to_release_into(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(course.CourseError, match="file is not a folder"):
        release.release(COURSE, tmp_path / "file")


def test_the_course_itself_is_no_release():
    with pytest.raises(course.CourseError, match="something else"):
        release.release(COURSE, course.ROOT)


def test_a_release_is_written_again(released):
    (released / "notebooks" / f"{COURSE.notebooks[0].name}.ipynb").write_text("x")
    release.release(COURSE, released)
    assert (released / "notebooks" / f"{COURSE.notebooks[0].name}.ipynb").read_text().startswith("{")
