"""Every step of docs/life.md, taken as the page says it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from helpers import canned, copied, keep
from nbgrader.api import Gradebook
from traitlets.config.loader import PyFileConfigLoader
from typer.testing import CliRunner

from autograder import cli, course, doctor, new_course, synthetic
from autograder.author import build
from autograder.cells import CellRole, role_of
from autograder.doctor import State
from autograder.gradebook import course_tree
from autograder.grading import grade
from autograder.intake import restore
from autograder.reports import exports, progress

PAGE = (course.ROOT / "docs/life.md").read_text()


def blocks(heading):
    """The lines of the blocks below a heading of the page."""
    section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)[1]
    return [text.splitlines() for text in re.findall(r"^```\n(.*?)^```$", section, re.M | re.S)]


def shell(lines, folder):
    """Run lines in a shell, with the commands of this environment and no course but that of the folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AUTOGRADER_", "PYTHONPATH"))}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
    ended = subprocess.run(
        ["bash", "-ec", "\n".join(lines)],
        cwd=folder,
        env=kept | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """The course with a block of the page as own settings."""
    monkeypatch.delenv("AUTOGRADER_LOCAL")
    monkeypatch.setattr(build, "FOLDER", tmp_path)
    shutil.copy(course.ROOT / "course.toml", tmp_path)

    def written(lines):
        (tmp_path / "course.local.toml").write_text("\n".join(lines))
        return course.load(tmp_path / "course.toml", tmp_path / "tree")

    return written


def test_notebooks_are_left_out_and_given_other_numbers(settings):
    (lines,) = blocks("Leave notebooks out, change their order")
    assert [entry.number for entry in settings(lines).notebooks] == ["01", "05", "03"]
    fifth = settings(blocks("Renumber")[0]).notebook("05")
    assert (fifth.title, fifth.column) == ("Lab 2: how much is luck", "Lab 2")


def test_a_submission_of_a_notebook_that_is_left_out_stays(fresh):
    (entry,) = fresh.notebooks
    keep(fresh, *canned(fresh))
    left = fresh.model_copy(update={"notebooks": (course.load().notebook("03"),)})
    course_tree.build_tree(left)
    assert progress.status(left, left.notebooks[0])["graded"] == {}
    assert progress.status(fresh, entry)["graded"] == {"ada": ""}


def test_a_notebook_of_ones_own_is_renumbered(tmp_path):
    new_course.write(tmp_path / "series")
    shell([*blocks("Renumber")[1], "autograder build"], tmp_path / "series")
    released = nbformat.read(tmp_path / "series/notebooks/02_moving_average.ipynb", as_version=4)
    ids = [cell.id for cell in released.cells]
    assert "exercise_2_1" in ids and "check_2_1" in ids and "written_2_W1" in ids
    text = "\n".join(cell.source for cell in released.cells)
    assert "# 2. Means" in text and "**Exercise 2.1** (2 points" in text and not re.search(r"\b1\.(1|W1)\b", text)


def test_a_translation_is_built_and_submissions_in_either_language_fit(settings, tmp_path):
    (lines,) = blocks("Translate")
    source = (course.ROOT / "solutions/01_causal_mask_lm/notebook.py").read_text()
    text = source.replace("**Exercise 1.2** (2 points, about", "**Aufgabe 1.2** (2 Punkte, etwa")
    text = text.replace("One line is enough.", "Eine Zeile genügt.")
    assert text != source
    (tmp_path / "translations").mkdir()
    (tmp_path / "translations/01_de.py").write_text(text)
    known = settings(lines)
    known = known.model_copy(update={"notebooks": (known.notebook("01"),)})
    course_tree.build_tree(known)
    released = course_tree.release_notebook(known, known.notebooks[0])
    german = "\n".join(cell.source for cell in released.cells)
    assert "**Aufgabe 1.2** (2 Punkte, etwa 10 minutes, easy). Write `causal_mask`. Eine Zeile genügt." in german
    assert "# 1. Ein Sprachmodell, das nicht vorausschauen darf" in german
    english = synthetic.Maker(course.load(), course.load().notebook("01")).file()
    answered, _ = restore.restore(restore.read(english, 20), released)
    assert {cell.id for cell in answered.cells} >= {
        cell.id for cell in released.cells if role_of(cell.id) is CellRole.CHECK
    }
    right = {cell.id: cell.source for cell in build.solution_notebook(known, known.notebooks[0]).cells}
    assert all(cell.source == right[cell.id] for cell in answered.cells if role_of(cell.id) is CellRole.EXERCISE)


def settings_of(tree):
    """What nbgrader reads when it is started in a tree."""
    return PyFileConfigLoader("nbgrader_config.py", path=str(tree)).load_config()


def test_a_backup_is_restored_elsewhere_and_used_there(built, tmp_path, monkeypatch):
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    known = copied(built, first)
    keep(known, *canned(known))
    (first / "tree").rename(first / ".course")
    (first / "course.local.toml").write_text("")
    (pack,) = blocks("Back up, and restore elsewhere")[0]
    unpack, *_ = blocks("Back up, and restore elsewhere")[1]
    shell([pack], first)
    shutil.copy(first / "backup.tar.gz", second)
    shell([unpack], second)
    here = known.model_copy(update={"tree": second / ".course"})
    before = (first / ".course/gradebook.db").read_bytes()
    found = settings_of(second / ".course")
    monkeypatch.delenv("AUTOGRADER_COURSE", raising=False)
    assert found.CourseDirectory.root == str(second / ".course")
    assert found.CourseDirectory.db_url == f"sqlite:///{second}/.course/gradebook.db"
    course_tree.build_tree(here)
    monkeypatch.setattr(doctor, "other_accounts", lambda: "")  # who else has an account here is not what is asked
    assert [one.state for one in (doctor.tree(here), doctor.privacy(here), doctor.gradebook(here))] == [State.WORKS] * 3
    begun = []
    monkeypatch.setattr(grade.GradingRun, "begin", lambda run, some: begun.extend(some))
    assert [one.student for one in grade.grade(here, list(here.notebooks))] == ["ada"] and not begun
    (entry,) = here.notebooks
    with Gradebook(found.CourseDirectory.db_url, here.course_id) as gradebook:  # as formgrader, started there
        gradebook.find_grade("written_1_W1", entry.name, entry.name, "ada").manual_score = 2
        gradebook.db.commit()
    assert (first / ".course/gradebook.db").read_bytes() == before
    assert (second / ".course/secret").read_bytes() == (first / ".course/secret").read_bytes()


def test_a_new_term_begins_with_another_secret_and_the_old_one_is_still_read(built, tmp_path, monkeypatch):
    known = copied(built, tmp_path)
    (entry,) = known.notebooks
    keep(known, *canned(known))
    (tmp_path / "here").mkdir()
    shutil.move(known.tree, tmp_path / "here/.course")
    shell(*blocks("Archive a term"), tmp_path / "here")
    archive = known.model_copy(update={"tree": tmp_path / "archive-2027-winter"})
    new = known.model_copy(update={"tree": tmp_path / "here/.course"})
    course_tree.build_tree(new)
    assert course_tree.secret(new) != course_tree.secret(archive)
    assert progress.status(new, entry) == {"graded": {}, "waiting": {}, "ungradable": {}}
    monkeypatch.setattr(cli.context, "load", lambda: archive)
    for words in (["status", "01"], ["explain", "ada", "1.2", "--no-ask"], ["report", "01"]):
        ended = CliRunner().invoke(cli.app, words)
        assert ended.exception is None, ended.exception
    assert exports.write_scores(archive, [entry], tmp_path / "grades.csv").rows > 5


def test_the_commands_of_the_page_that_erase_are_there():
    lines = [line.split()[1:] for line in blocks("Erase a student")[0]]
    assert len(lines) == 2
    for words in lines:
        ended = CliRunner().invoke(cli.app, [*words[:1], "--help"])
        assert ended.exit_code == 0
        assert all(word in ended.output for word in words if word.startswith("--"))
