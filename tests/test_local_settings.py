"""Own settings are in a file that git ignores: they choose, order and price notebooks, and mistakes are named."""

import datetime
import json
import os
import re
import shutil
import subprocess
import sys

import nbformat
import pytest
from helpers import canned, keep

from autograder import course
from autograder.author import build, checks, overview, release
from autograder.course import CourseError
from autograder.gradebook import course_tree
from autograder.reports import exports
from utils.grading import check as checking
from utils.grading import parts

WHOLE = course.load()


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Writes own settings beside a copy of course.toml; the course with both."""
    monkeypatch.delenv("AUTOGRADER_LOCAL")
    monkeypatch.setattr(build, "FOLDER", tmp_path)
    shutil.copy(course.ROOT / "course.toml", tmp_path)

    def written(text):
        (tmp_path / "course.local.toml").write_text(text)
        return course.load(tmp_path / "course.toml", tmp_path / "tree")

    return written


def test_own_settings_choose_order_and_change(own):
    found = own(
        """
        taught = ["05", "1", "03_parameter_counting"]
        title = "Transformers in Ulm"
        timezone = "Europe/Berlin"
        [[notebooks]]
        name = "01"
        title = "The first one"
        deadline = 2027-10-31T12:00:00+01:00
        points = {"1.2" = 4}
        column = "Lab 2 (4711)"
        [[notebooks]]
        name = "05_seed_variance"
        deadline = "none"
        [limits]
        cell_seconds = 60
        """
    )
    assert [entry.number for entry in found.notebooks] == ["05", "01", "03"]
    assert (found.title, found.timezone) == ("Transformers in Ulm", "Europe/Berlin")
    fifth, first, third = found.notebooks
    assert (first.title, first.column, first.points) == ("The first one", "Lab 2 (4711)", {"1.2": 4})
    assert first.deadline == datetime.datetime.fromisoformat("2027-10-31T12:00:00+01:00") and fifth.deadline is None
    assert len({*found.notebooks, found.notebook("01")}) == 3
    assert third == WHOLE.notebook("03") and first.builds == WHOLE.notebook("01").builds
    assert found.limits.cell_seconds == 60 and found.limits.memory_mb == WHOLE.limits.memory_mb
    assert found.student_repository == WHOLE.student_repository


def test_without_own_settings_nothing_is_different(own, tmp_path):
    assert own("").model_copy(update={"tree": WHOLE.tree, "local": None}) == WHOLE
    (tmp_path / "course.local.toml").unlink()
    assert course.load(tmp_path / "course.toml").local is None


@pytest.mark.parametrize(
    "text, told",
    [
        ('taught = ["99"]', "taught: there is no notebook 99; course.toml has 01_causal_mask_lm"),
        ('taught = ["01", "1"]', "taught: 1 is listed twice"),
        ("taught = 3", "taught: list the notebooks"),
        ("taught = []", "taught: list the notebooks"),
        ('[[notebooks]]\ntitle = "A"', "has no `name`"),
        ('notebooks = ["01", "09"]', 'to choose notebooks, write taught = ["01", "05"]'),
        ("platforms = 3", "platforms: write a table below [[platforms]] for each"),
        ('[[notebooks]]\nname = "77"', "[[notebooks]] names 77"),
        ('[[notebooks]]\nname = "01"\n[[notebooks]]\nname = "01"', "lists 01 twice"),
        ('[[notebooks]]\nname = "77_new"\ntitle = "A"', "solutions/77_new is missing"),
        ('[[notebooks]]\nname = "01"\ndedline = 3', "notebooks.01_causal_mask_lm.dedline: there is no such key"),
        ('[[notebooks]]\nname = "01"\npoints = {"1.2" = -1}', "points.1.2: it must be greater than or equal to 0"),
        ('[[notebooks]]\nname = "01"\ndeadline = 2027-10-31T12:00:00', "state its offset"),
        ("titel = 3", "titel: there is no such key; is `title` meant?"),
        (
            '[[notebooks]]\nname = "01"\ntimezone = "UTC"',
            "there is no such key here: it belongs at the top of the file",
        ),
        ("[late]\npercent = 120", "late.percent: it must be less than or equal to 100"),
        ('timezone = "Ulm"', "`Ulm` is not a time zone"),
        ("title = ", "Invalid value"),
    ],
)
def test_a_mistake_in_own_settings_names_the_file_and_the_key(own, text, told):
    with pytest.raises(CourseError, match=re.escape(told)) as why:
        own(text)
    assert "course.local.toml" in str(why.value)


def test_a_mistake_in_the_course_file_is_not_blamed_on_own_settings(own, tmp_path):
    stated = (tmp_path / "course.toml").read_text()
    (tmp_path / "course.toml").write_text(stated.replace("cell_seconds = 30", "cell_seconds = 0"))
    with pytest.raises(CourseError, match=r"course\.toml has a mistake:\n  limits.cell_seconds"):
        own("[limits]\nmemory_mb = 2048")


def test_another_file_of_settings_can_be_named(own, tmp_path, monkeypatch):
    own('title = "beside"')
    (tmp_path / "section.toml").write_text('title = "section"')
    for stated, title in ((str(tmp_path / "section.toml"), "section"), ("", WHOLE.title)):
        monkeypatch.setenv("AUTOGRADER_LOCAL", stated)
        assert course.load(tmp_path / "course.toml").title == title
    monkeypatch.setenv("AUTOGRADER_LOCAL", str(tmp_path / "missing.toml"))
    with pytest.raises(CourseError, match=r"AUTOGRADER_LOCAL names .*missing\.toml, which is not a file"):
        course.load(tmp_path / "course.toml")


def source_of(notebook, start):
    return next(cell.source for cell in notebook.cells if start in cell.source)


def test_points_and_title_reach_text_gradebook_checks_and_score(own, tmp_path):
    known = own(
        'taught = ["01"]\n[[notebooks]]\nname = "01"\ntitle = "Masks"\n'
        'points = {"1.2" = 1, "1.5" = 6, "1.W1" = 5}\ncolumn = "Lab 1 (12)"'
    )
    (entry,) = known.notebooks
    course_tree.build_tree(known)
    assert build.build_notebooks(known) and build.build_notebooks(known, check=True) == []
    released = nbformat.read(tmp_path / "notebooks.local" / f"{entry.name}.ipynb", as_version=4)
    assert source_of(released, "# 1. ").startswith("# 1. Masks\n")
    assert "**Exercise 1.2** (1 point, about 10 minutes, easy)" in source_of(released, "**Exercise 1.2**")
    assert "**Exercise 1.5** (6 points, about 30 minutes, medium)" in source_of(released, "**Exercise 1.5**")
    assert "**Question 1.W1** (5 points)" in source_of(released, "**Question 1.W1**")
    worth = {cell.id: cell.metadata.get("nbgrader", {}).get("points") for cell in released.cells}
    assert (worth["check_1_2"], worth["check_1_5"], worth["written_1_W1"], worth["check_1_3"]) == (1, 6, 5, 3)
    written = json.loads((tmp_path / "utils/checks/points.json").read_text())
    assert written == {"1.2": 1, "1.5": 6, "1.W1": 5}
    assert (
        checks.public_checks(entry)["1.5"].points == 6 and checks.public_checks(WHOLE.notebook("01"))["1.5"].points == 3
    )
    job, done, notebook = canned(known)
    keep(known, job, done, notebook)
    exports.write_scores(known, [entry], tmp_path / "canvas.csv", "canvas", exercises=True)
    assert '"Lab 1 (12) 1.2"' in (tmp_path / "canvas.csv").read_text()


def test_the_parts_of_an_exercise_keep_their_shares(own):
    third = own('[[notebooks]]\nname = "03"\npoints = {"3.10" = 6}').notebook("03")
    mine, theirs = (checks.public_checks(one)["3.10"] for one in (third, WHOLE.notebook("03")))
    assert checks.parts.parts_of(theirs) == {"training_memory": 2, "flops_per_token": 1}
    assert checks.parts.parts_of(mine) == {"training_memory": 4, "flops_per_token": 2}
    assert checks.private_checks(third)  # which must fit them


def test_build_takes_points_back(own, tmp_path):
    points = tmp_path / "utils/checks/points.json"
    stated = 'taught = ["03"]\n[[notebooks]]\nname = "03"\n'
    build.build_notebooks(own(stated + 'points = {"3.1" = 5}'))
    assert points.exists() and build.build_notebooks(own(stated), check=True) == [
        "points.json",
        "03_parameter_counting.ipynb",
    ]
    build.build_notebooks(own(stated))
    assert not points.exists()


@pytest.mark.parametrize(
    "points, told",
    [
        ('"1.99" = 3', "gives points to 1.99, and 01_causal_mask_lm has no such exercise; it has 1.1, 1.2"),
        ('"1.S1" = 3', "gives points to 1.S1"),
    ],
)
def test_points_of_no_exercise_stop_build(own, points, told):
    known = own(f'taught = ["01"]\n[[notebooks]]\nname = "01"\npoints = {{{points}}}')
    with pytest.raises(CourseError, match=re.escape(told)):
        build.build_notebooks(known)


def test_points_that_a_text_states_twice_stop_build(own):
    known = own('taught = ["03"]\n[[notebooks]]\nname = "03"\npoints = {"3.10" = 6}')
    with pytest.raises(CourseError, match="its text also says `2 of the points`, which would not be true then"):
        build.build_notebooks(known)


@pytest.mark.parametrize(
    "right, wrong, told",
    [
        ("**Exercise 1.2** (2 points", "**Exercise 1.2** (3 points", "text of 1.2 states 3 points.* gives 2"),
        ("**Question 1.W1** (2 points", "**Frage 1.W1** (4 Punkte", "text of 1.W1 states 4 points.* gives 2"),
        ('written="1.W1" points=2', 'written="1.W1" points=3', "text of 1.W1 states 2 points.* gives 3"),
    ],
)
def test_points_that_differ_between_text_and_check_stop_build(own, tmp_path, right, wrong, told):
    known = own('taught = ["01"]\n[[notebooks]]\nname = "01"\ntext = "mine/01.py"')
    with pytest.raises(CourseError, match=r"01\.py is missing: `text` of course\.local\.toml names it"):
        build.build_notebooks(known)
    text = (course.folder_of(known.notebooks[0]) / "notebook.py").read_text()
    (tmp_path / "mine").mkdir()
    assert right in text
    (tmp_path / "mine/01.py").write_text(text.replace(right, wrong))
    with pytest.raises(CourseError, match=told):
        build.build_notebooks(known)


def test_checks_at_home_have_the_points_of_the_course(tmp_path, capsys):
    text = "def doubled(doubled):\n    with parts.part('one', 1):\n        assert doubled(1) == 2\n"
    text += "    with parts.part('two', 1):\n        assert doubled(2) == 4, 'no.'\n"
    (tmp_path / "points.json").write_text('{"9.8": 6}')
    space = {"parts": parts}
    exec(compile(text, str(tmp_path / "nb.py"), "exec"), space)
    item = checking.check("9.8", points=2)(space["doubled"])
    item(lambda number: 2 * number)
    assert "Exercise 9.8: passed (6 points)" in capsys.readouterr().out
    with pytest.raises(checking.CheckFailed, match=r"passed in part \(3 of 6 points\)"):
        item(lambda number: 2)
    module = type(checking)("nb")
    module.item = item
    assert "3 of 6 points" in repr(checking.scoreboard(module))
    assert item.points == 2  # which the judge reads, with what it is told of the course


def test_a_subset_is_built_and_released_without_a_tracked_file(own, tmp_path, monkeypatch):
    known = own('taught = ["03"]\nstudent_repository = "https://github.com/me/mine"\n')
    readme = overview.README.read_bytes()
    course_tree.build_tree(known)
    assert build.build_notebooks(known) == ["03_parameter_counting.ipynb"]
    assert not overview.write_readme(known) and overview.README.read_bytes() == readme
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("course.local.toml", "course.toml", "notebooks.local", "tree"),
    ]
    release.release(known, tmp_path / "student")
    released = [path.name for path in (tmp_path / "student/notebooks").iterdir()]
    assert released == ["03_parameter_counting.ipynb"]
    assert "github.com/me/mine" in (tmp_path / "student/notebooks" / released[0]).read_text()
    assert "Where the parameters sit" in (tmp_path / "student/README.md").read_text()


def test_git_ignores_what_is_ones_own():
    names = ["course.local.toml", "notebooks.local/01_causal_mask_lm.ipynb", "utils/checks/points.json"]
    ran = subprocess.run(
        ["git", "check-ignore", "--no-index", *names], cwd=course.ROOT, capture_output=True, text=True, check=False
    )
    if ran.returncode == 128:
        pytest.skip("not a clone")
    assert ran.stdout.split() == names


def test_the_tests_of_a_subset_can_be_chosen(tmp_path):
    """The suite tests the course as it comes; AUTOGRADER_LOCAL has it test one's own choice."""
    (tmp_path / "mine.toml").write_text('taught = ["03"]\n')
    call = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-n", "0"]
    ran = subprocess.run(
        [*call, "tests/docs/test_prose.py"],
        cwd=course.ROOT,
        env=os.environ | {"AUTOGRADER_LOCAL": str(tmp_path / "mine.toml")},
        capture_output=True,
        text=True,
        check=False,
    )
    found = set(re.findall(r"\[(\d\d_\w+)\]", ran.stdout))
    assert ran.returncode == 0 and found == {"03_parameter_counting"}, ran.stdout + ran.stderr
