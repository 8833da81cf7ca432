"""Another course on this engine: what `new-course` writes builds, releases and grades in a folder of its own."""

import csv
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from functools import partial
from pathlib import Path

import nbformat
import pytest

from autograder import course, new_course
from autograder.author import edits
from autograder.sandbox import sandbox

NAME = "01_moving_average"
BIN = Path(sys.executable).parent
COMMANDS = ("autograder", "pytest")
# Looks everywhere for what the instructor has, by name and by what is in it, in a cell that runs in grading.
SPY = """
import gc, os, sys
seen = []
for place, folders, files in os.walk("/"):
    left_out = ("/proc", "/sys", "/usr/share/zoneinfo")  # and packages, which have files of these names
    folders[:] = [name for name in folders if os.path.join(place, name) not in left_out and name != "site-packages"]
    for name in files:
        if name in ("private_checks.py", "wrong_answers.py", "notebook.py", "course.toml", "gradebook.db", "secret"):
            seen.append(os.path.join(place, name))
        if "moving_average" in name:
            try:
                text = open(os.path.join(place, name), errors="ignore").read()
            except OSError:
                continue
            seen += [name for word in ("running sums", "assert", "for another series") if word in text]
for folder in FOLDERS:
    for path in (folder, folder + "/solutions", "/proc/1/root" + folder, "/proc/self/root" + folder):
        try:
            seen += [os.path.join(path, name) for name in os.listdir(path) if name not in sys.prefix.split("/")]
        except OSError:
            pass
for name in ("autograder.course", "autograder.author.checks", "solutions", "utils.checks.nb01_causal_mask_lm"):
    try:
        __import__(name)
        seen.append(name)
    except ImportError:
        pass
seen += [str(one) for one in gc.get_objects() if type(one).__name__ in ("Check", "PrivateCheck")]
from utils.checks import nb01_moving_average
seen += [name for name, one in vars(nb01_moving_average).items() if hasattr(one, "__code__")]
seen += [value for value in os.environ.values() if any(folder in value for folder in FOLDERS)]
print("SEEN", seen, "END", "utils" in sys.modules)
"""


def environment():
    """As of somebody at a terminal, who has done nothing for a course."""
    kept = {name: value for name, value in os.environ.items() if name not in ("AUTOGRADER_COURSE", "PYTHONPATH")}
    return kept | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "150"}


def run(line, folder):
    """A command as in a terminal in that folder."""
    words = line.split()
    return subprocess.run(
        [str(BIN / words[0]), *words[1:]], cwd=folder, env=environment(), capture_output=True, text=True, timeout=600
    )


def commands(folder):
    """The lines of the `bash` blocks of the README, without their remarks."""
    blocks = re.findall(r"^```bash\n(.*?)^```$", (folder / "README.md").read_text(), re.M | re.S)
    lines = [re.sub(r"\s+# .*", "", line).strip() for text in blocks for line in text.splitlines()]
    return [line for line in lines if line]


def hand_in(folder, student, answer, written="Calmer, and later."):
    """Put a submission where the README says: the released notebook, with this cell as the answer; None: no answer."""
    notebook = nbformat.read(folder.parent / "student/notebooks" / f"{NAME}.ipynb", as_version=4)
    for cell in notebook.cells:
        if cell.id == "exercise_1_1":
            cell.source = f"{cell.source}\n# No idea." if answer is None else answer
        if cell.id == "written_1_W1" and answer is not None:
            cell.source = written
    path = folder / "submissions" / student / f"{NAME}.ipynb"
    path.parent.mkdir(parents=True)
    nbformat.write(notebook, path)


@pytest.fixture(scope="module")
def solution():
    """The author's answer, and the same after one of his edits."""
    text = (new_course.SKELETON / "solutions" / NAME / "notebook.py.jinja").read_text()
    (cell,) = re.findall(r'^# %% exercise="1\.1"\n(.*?)\n\n\n# %%', text, re.M | re.S)
    right = edits.edited(cell, "#   starts = range(len(values) - width + 1)\n# + width = width")
    wrong = edits.edited(cell, "# - starts = range(len(values) - width + 1)\n# + starts = range(len(values) - width)")
    return right, wrong


@pytest.fixture(scope="module")
def done(tmp_path_factory, solution):
    """A new course in which every command of its README was given, with a class of four; the outputs by command."""
    folder = tmp_path_factory.mktemp("place") / "time_series"
    made = run(f"autograder new-course {folder}", "/")
    assert made.returncode == 0, made.stderr
    right, wrong = solution
    spy = SPY.replace("FOLDERS", repr([str(folder), str(course.ROOT)]))
    said = {"new-course": made.stdout}
    for line in commands(folder):
        assert line.split()[0] in COMMANDS, line
        if line.startswith("autograder collect"):
            hand_in(folder, "ada", right)
            hand_in(folder, "bo", wrong)
            hand_in(folder, "cy", None)
            hand_in(folder, "mallory", f"{right}\n{spy}")
        ended = run(line, folder)
        assert ended.returncode == 0, f"{line}: {ended.stdout}{ended.stderr}"
        said[line.split()[1] if line.startswith("autograder") else "pytest"] = ended.stdout
    return folder, said


def test_the_readme_is_one_page_and_has_every_step(done):
    folder, said = done
    steps = {"build", "release", "collect", "grade", "status", "feedback", "report", "export", "pytest", "demo"}
    assert steps < {*said}
    assert len((folder / "README.md").read_text().splitlines()) <= 75
    for line in said["new-course"].splitlines()[1:]:
        assert line.split()[0] in ("cd", "autograder")


def test_a_right_a_wrong_and_a_blank_hand_in_get_their_scores(done):
    folder, said = done
    with open(folder / "grades.csv", newline="") as file:
        rows = {(row["student"], row["exercise"]): row for row in csv.DictReader(file)}
    scores = {student: row["score"] for (student, exercise), row in rows.items() if exercise == "1.1"}
    assert {student: float(score) for student, score in scores.items()} == {"ada": 2, "bo": 0, "cy": 0, "mallory": 2}
    assert rows["ada", "1.W1"]["needs_manual_grade"] == "True" and float(rows["ada", "1.W1"]["max_score"]) == 1
    records = {path.parent.name: json.loads(path.read_text()) for path in folder.glob(".course/verdicts/*/*.json")}
    told = {student: record["verdicts"][0] for student, record in records.items()}
    assert "The last mean is missing" in told["bo"]["message"] and told["cy"]["outcome"] == "not attempted yet"
    page = (folder / f".course/feedback/bo/{NAME}/{NAME}.html").read_text()
    assert "The last mean is missing" in page and (folder / ".course/report.html").exists()
    assert "13 of 13 results are the expected ones." in said["demo"]


def test_a_hand_in_finds_nothing_of_the_instructor(done):
    """It looked for solutions, private checks, the gradebook and our own course, by name, by path and by content."""
    folder, _ = done
    graded = nbformat.read(folder / f".course/autograded/mallory/{NAME}/{NAME}.ipynb", as_version=4)
    (cell,) = [cell for cell in graded.cells if cell.id == "exercise_1_1"]
    printed = "".join(output.get("text", "") for output in cell.outputs)
    assert re.search(r"SEEN \[\] END True", printed), cell.outputs


def test_the_release_is_the_course_and_nothing_secret(done):
    folder, _ = done
    released = folder.parent / "student"
    names = {path.relative_to(released).as_posix() for path in released.rglob("*") if path.is_file()}
    checks = {name for name in names if name.startswith("utils/checks/") and name.endswith(".py")}
    assert checks == {"utils/checks/__init__.py", f"utils/checks/nb{NAME}.py"}
    assert {f"notebooks/{NAME}.ipynb", "README.md", "requirements.txt", "constraints.txt", "utils/LICENSE"} <= names
    assert not [
        name for name in names if "private" in name or "wrong" in name or name.startswith(("solutions", "auto"))
    ]
    assert not (released / "data/results").exists()
    text = "".join((released / name).read_text() for name in names)
    assert "BEGIN SOLUTION" not in text and "MARK SCHEME" not in text and "for another series" not in text
    words = (released / "README.md").read_text()
    assert "Time series" in words and "conda" not in words and "STUDENT" not in words


def test_a_student_opens_it_with_what_its_requirements_name(done):
    """The first cells and a check run in the release alone, and import no package that requirements.txt leaves out."""
    released = done[0].parent / "student"
    notebook = nbformat.read(released / "notebooks" / f"{NAME}.ipynb", as_version=4)
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "code"][:4]
    script = (
        "import sys\n" + "\n".join(cells[:3]) + f"\ntry:\n    {cells[3]}\nexcept Exception as told:\n    print(told)\n"
    )
    script += "print(sorted({name.split('.')[0] for name in sys.modules}))"
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=released / "notebooks", capture_output=True, text=True, env=environment()
    )
    assert "not attempted yet" in ended.stdout, ended.stderr
    ours = {"adapters", "datasets", "nbgrader", "pandas", "scipy", "transformers", "autograder", "pydantic"}
    assert not ours & {*re.findall(r"'(\w+)'", ended.stdout)}


def test_commands_find_the_course_from_below_and_by_name(done):
    folder, _ = done
    assert NAME in run("autograder status", folder / "solutions" / NAME).stdout
    named = subprocess.run(
        [BIN / "autograder", "status"],
        cwd="/",
        env=environment() | {"AUTOGRADER_COURSE": str(folder)},
        capture_output=True,
        text=True,
    )
    assert NAME in named.stdout and named.returncode == 0
    unit = run("autograder watch submissions --unit", folder).stdout
    assert f"WorkingDirectory={folder}" in unit and f'watch "{folder}/submissions"' in unit


def test_trusted_hand_ins_find_the_checks_of_their_course(done):
    folder, _ = done
    ended = run("autograder --tree .trusted build", folder)
    assert ended.returncode == 0, ended.stderr
    assert run("autograder --tree .trusted collect submissions/ada --student ada", folder).returncode == 0
    ended = run("autograder --tree .trusted grade --trust-submissions", folder)
    assert ended.returncode == 0 and "2 of 2" in ended.stdout, ended.stdout + ended.stderr


@pytest.mark.parametrize("name, told", [("full", "is not empty"), ("file", "cannot be made")])
def test_what_is_there_is_left_alone(tmp_path, name, told):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("mine")
    (tmp_path / "file").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(course.CourseError, match=told):
        new_course.write(tmp_path / name)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_title_is_kept_as_it_is_and_may_hold_no_quote(tmp_path):
    new_course.write(tmp_path / "a", "Größe & <Maß>")
    assert 'title = "Größe & <Maß>"' in (tmp_path / "a/course.toml").read_text()
    with pytest.raises(course.CourseError, match="without quotes"):
        new_course.write(tmp_path / "b", 'A "B"')
    assert not (tmp_path / "b").exists()


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A new course, as if commands had found it."""
    folder = tmp_path / "course"
    new_course.write(folder)
    monkeypatch.setattr(course, "FOLDER", folder)
    monkeypatch.delenv("AUTOGRADER_COURSE", raising=False)
    return folder


def test_another_users_course_is_refused(elsewhere, monkeypatch):
    path = elsewhere / "course.toml"
    assert len(course.load(path).notebooks) == 1
    if os.getuid() == 0:  # root's own would be nobody's trap
        os.chown(path, 777, 777)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(course.CourseError, match=f"another user.*AUTOGRADER_COURSE={elsewhere}"):
        course.load(path)
    monkeypatch.setenv("AUTOGRADER_COURSE", str(elsewhere))
    assert len(course.load(path).notebooks) == 1


@pytest.mark.parametrize("theirs", ["course.toml", "utils", "solutions", ""])
def test_a_course_that_is_anothers_in_part_is_refused(elsewhere, monkeypatch, theirs):
    """A course.toml may be a link to one that is ours, and what runs as us lies beside it."""
    path = elsewhere / "course.toml"
    path.unlink()
    path.symlink_to("/etc/passwd")  # root's, wherever tests run
    if os.getuid() == 0:
        os.chown(elsewhere / theirs, 777, 777, follow_symlinks=False)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    for stated in (None, ""):  # an empty variable names no folder
        if stated is not None:
            monkeypatch.setenv("AUTOGRADER_COURSE", stated)
        with pytest.raises(course.CourseError, match="another user"):
            course.load(path)


def test_a_module_with_a_name_of_ours_is_refused(elsewhere):
    (elsewhere / "utils/plots.py").write_text("")
    with pytest.raises(course.CourseError, match=r"utils/plots\.py of .*choose others"):
        course.load(elsewhere / "course.toml")


def test_without_any_course_it_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(course, "FOLDER", tmp_path)
    with pytest.raises(course.CourseError, match=r"no course\.toml in this folder or above it.*new-course"):
        course.load(tmp_path / "course.toml")


def test_packages_among_others_are_covered_and_the_others_stay(monkeypatch, tmp_path):
    """Installed, our modules lie beside those that submissions need."""
    monkeypatch.setattr(sandbox, "ROOT", tmp_path / "site-packages")
    monkeypatch.setattr(sandbox, "FOLDER", tmp_path / "site-packages")
    monkeypatch.setattr(sandbox.site, "getsitepackages", lambda: [str(tmp_path / "site-packages")])
    words = sandbox.covering_arguments(frozenset([str(tmp_path)]))
    covered = [after for word, after in itertools.pairwise(words) if word == "--tmpfs"]
    assert covered == [f"{tmp_path}/site-packages/{name}" for name in ("autograder", "utils", "data")]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """This project as a wheel, built from a copy of its files."""
    folder = tmp_path_factory.mktemp("wheel")
    given = ["autograder", "data", "utils", "pyproject.toml", "README.md", "LICENSE"]
    (folder / "source").mkdir()
    for name in given:
        left_out = shutil.ignore_patterns("__pycache__", "results")
        place = course.ROOT / name
        (shutil.copy if place.is_file() else partial(shutil.copytree, ignore=left_out))(place, folder / "source" / name)
    command = [sys.executable, "-c", "import setuptools; setuptools.setup()", "-q", "bdist_wheel", "-d", str(folder)]
    subprocess.run(command, cwd=folder / "source", check=True, capture_output=True)
    (found,) = folder.glob("*.whl")
    return found


def test_a_wheel_has_all_that_commands_read(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    for path in (course.ROOT / "autograder").rglob("*"):
        if path.suffix in (".jinja", ".js", ".json", ".py"):
            assert (tmp_path / "site" / path.relative_to(course.ROOT)).is_file(), path
    script = "from autograder import cli; cli.main()"
    for folder, *words in (
        ("/", "new-course", str(tmp_path / "mine")),
        (tmp_path / "mine", "build"),
        (tmp_path / "mine", "doctor"),
    ):
        ended = subprocess.run(
            [sys.executable, "-P", "-c", script, *words],
            cwd=folder,
            env=environment() | {"PYTHONPATH": str(tmp_path / "site")},
            capture_output=True,
            text=True,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
    assert (
        tmp_path / "mine/notebooks" / f"{NAME}.ipynb"
    ).exists() and "at the versions of constraints.txt" in ended.stdout
