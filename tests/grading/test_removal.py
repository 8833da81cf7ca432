"""A submission leaves every place at once and is lost in none; what is at odds, or waits for a person, is said."""

import json
import shutil
import subprocess
import sys

import nbformat
import pandas
import pytest
from nbgrader.api import Gradebook
from typer.testing import CliRunner

from autograder import cli, course
from autograder.author import build
from autograder.cells import CellRole, exercise_of, role_of
from autograder.gradebook import course_tree, gradebook_writer
from autograder.grading import grade, removal, run_lock
from autograder.grading.grading_record import GRADED, GradedVerdict, Record, known_students, verdict_path
from autograder.reports import feedback, progress, report
from utils.grading.verdict import Outcome


@pytest.fixture
def known(fresh, monkeypatch):
    """Two students with full points and a written answer each, as graded."""
    entry = fresh.notebooks[0]
    notebook = course_tree.release_notebook(fresh, entry)
    for cell in notebook.cells:
        if role_of(cell.id) is CellRole.CHECK:
            data = {"text/plain": f"{cell.metadata.nbgrader.points}"}
            cell.outputs = [nbformat.v4.new_output("execute_result", data=data, execution_count=None)]
        if role_of(cell.id) is CellRole.WRITTEN:
            cell.source = "because"
    points = sum(course_tree.exercises(fresh, entry).values())
    with gradebook_writer.open_recorder(fresh) as recorder:
        for student in ("ada", "Copie_de"):
            for place in ("submitted", "handins"):
                course_tree.write(course_tree.place(fresh, place, entry, student), build.write(notebook))
            recorder.record(entry, student, build.write(notebook))
            stated = Record(student, entry.name, GRADED, verdicts=[GradedVerdict("1.1", points, Outcome.PASSED)])
            course_tree.write_json(verdict_path(fresh, entry, student), grade.asdict(stated))
    feedback.write_feedback(fresh, [entry])
    monkeypatch.setattr(cli.context, "load", lambda: fresh)
    return fresh


def autograder(known, *words):
    """What a command prints, and the sentence with which it stops, if it does."""
    ended = CliRunner().invoke(cli.app, words)
    assert ended.exception is None or isinstance(ended.exception, course.CourseError), ended.exception
    return ended.output, str(ended.exception or "")


def named(known, student):
    """The places that know of a student."""
    entry = known.notebooks[0]
    report.write_csv(known, [entry], known.tree / "out.csv")
    with Gradebook(course_tree.database(known), known.course_id) as gradebook:
        places = {"gradebook": student in {one.id for one in gradebook.students}}
    places["export"] = student in set(pandas.read_csv(known.tree / "out.csv").student)
    places["report"] = student in report.write_report(known, [entry], names=True).read_text()
    places["status"] = any(student in some for some in progress.status(known, entry).values())
    paths = [path.relative_to(known.tree).parts for path in known.tree.rglob(f"{entry.name}*")]
    return places | {part: True for part, *rest in paths if student in rest and part != "removed"}


def test_a_hand_in_is_removed_everywhere_and_kept(known):
    entry = known.notebooks[0]
    before = named(known, "Copie_de")
    others = named(known, "ada")
    assert before == others and len(before) == 10 and all(before.values()), before
    with Gradebook(course_tree.database(known), known.course_id) as gradebook:
        gradebook.find_submission_notebook(entry.name, entry.name, "Copie_de").grades[0].manual_score = 1.5
        gradebook.db.commit()
    handed_in = course_tree.place(known, "submitted", entry, "Copie_de").read_bytes()
    shown, stopped = autograder(known, "remove", "Copie_de", "01")
    assert not stopped and "nothing was changed" in shown and "1 manual marks" in shown
    assert named(known, "Copie_de") == before
    shown, stopped = autograder(known, "remove", "Copie_de", "01", "--yes")
    assert not stopped and "all of it is in" in shown
    assert not any(named(known, "Copie_de").values()) and named(known, "ada") == others
    (kept,) = (known.tree / "removed").iterdir()
    assert (kept / "submitted" / "Copie_de" / entry.name / f"{entry.name}.ipynb").read_bytes() == handed_in
    for part in ("handins", "autograded", "feedback", "verdicts"):
        assert any((kept / part).rglob("*.*")), part
    assert 1.5 in [mark.get("manual_score") for mark in json.loads((kept / "gradebook.json").read_text())]
    assert not progress.disagreements(known, entry)


def test_what_is_not_there_cannot_be_removed(known):
    _, stopped = autograder(known, "remove", "nobody", "01", "--yes")
    assert "there is no 01_causal_mask_lm of `nobody`: it was handed in by Copie_de, ada" in stopped
    assert not (known.tree / "removed").exists()


def test_nothing_is_removed_while_a_run_is_grading(known):
    before = named(known, "ada")
    with run_lock.exclusive_run(known), pytest.raises(course.CourseError, match="another run"):
        removal.remove(known, known.notebooks[0], "ada")
    assert named(known, "ada") == before


def test_what_was_removed_by_hand_or_graded_past_us_is_said(known):
    entry = known.notebooks[0]
    assert not progress.disagreements(known, entry)
    shutil.rmtree(known.tree / "submitted" / "Copie_de")
    with Gradebook(course_tree.database(known), known.course_id) as gradebook:
        marks = gradebook.find_submission_notebook(entry.name, entry.name, "ada").grades
        next(mark for mark in marks if role_of(mark.name) is CellRole.CHECK).auto_score = 99
        gradebook.db.commit()
    found = progress.disagreements(known, entry)
    assert "the submission is gone: `autograder remove Copie_de 01 --yes`" in found["Copie_de"]
    assert "points, the verdict" in found["ada"] and "autograder grade" in found["ada"]
    assert "Of 2 submissions the gradebook says something else" in report.write_report(known, [entry]).read_text()
    page = report.write_report(known, [entry], names=True).read_text()
    assert "the submission is gone" in page and "points, the verdict" in page
    for command in (("status", "01"), ("export", "01", "--to", str(known.tree / "out.csv"))):
        told = " ".join(autograder(known, *command)[0].split())
        assert "the submission is gone" in told and "points, the verdict" in told, told
    removal.remove(known, entry, "Copie_de")  # what is left of it
    assert set(progress.disagreements(known, entry)) == {"ada"}


def test_what_waits_for_a_person_is_counted(known):
    entry = known.notebooks[0]
    each = sum(role_of(cell.id) is CellRole.WRITTEN for cell in course_tree.release_notebook(known, entry).cells)
    assert each and progress.to_mark(known, entry) == {"Copie_de": each, "ada": each}
    told = f"{2 * each} written answers of 2 submissions wait for a person"
    assert told in report.write_report(known, [entry]).read_text()
    for command in ("status", "report"):
        assert told in autograder(known, command, "01")[0]
    assert f"config.py` in {known.tree}, menu" in autograder(known, "--tree", str(known.tree), "status", "01")[0]
    stated = json.loads(autograder(known, "status", "01", "--json")[0])
    assert stated[entry.name]["to mark"] == {"Copie_de": each, "ada": each}


def test_an_answer_that_nobody_marked_is_not_graded_yet(known):
    entry = known.notebooks[0]
    names = [
        cell.id for cell in course_tree.release_notebook(known, entry).cells if role_of(cell.id) is CellRole.WRITTEN
    ]
    path = course_tree.place(known, "feedback", entry, "ada").with_suffix(".html")
    assert path.read_text().count("not graded yet, of") == len(names)
    with Gradebook(course_tree.database(known), known.course_id) as gradebook:
        for mark in gradebook.find_submission_notebook(entry.name, entry.name, "ada").grades:
            if mark.name == names[0]:
                mark.manual_score, mark.needs_manual_grade = 0, False  # marked: it is worth nothing
        gradebook.db.commit()
    feedback.write_feedback(known, [entry])
    assert path.read_text().count("not graded yet, of") == len(names) - 1
    marked = f"Question {exercise_of(names[0])}</a>"
    assert marked in path.read_text() and "0 of 2 points" in path.read_text().split(marked)[1].split("</li>")[0]


def test_a_student_who_is_not_there_is_named(known):
    call = [sys.executable, "-m", "autograder.cli", "--tree", str(known.tree), "grade", "01", "--student", "nobody"]
    ended = subprocess.run(call, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 2 and "Traceback" not in ended.stderr
    assert "nobody handed in none of 01_causal_mask_lm; Copie_de, ada did" in ended.stderr
    with pytest.raises(course.CourseError, match="Ada handed in none of 01_causal_mask_lm; did you mean ada"):
        known_students(known, list(known.notebooks), ["Ada"])


def test_status_says_what_to_do_with_what_waits(known):
    autograder(known, "--tree", str(known.tree), "status", "01")  # which leaves nothing to the next command
    assert "`autograder grade` grades what is waiting" in autograder(known, "status", "01")[0]


def test_release_says_at_its_end_what_to_do(known, tmp_path):
    said = " ".join(autograder(known, "release", "--to", str(tmp_path / "out"))[0].split())
    assert f"push them to {known.student_repository}; your own address is `student_repository`" in said


def test_a_wrong_name_in_the_course_file_says_what_there_is(tmp_path):
    for right, wrong, told in (
        ("cell_seconds = 30", "cel_seconds = 30", "limits.cel_seconds"),
        ('name = "01_causal_mask_lm"', 'name = "01_causal_msk_lm"', "solutions/01_causal_msk_lm is missing"),
    ):
        stated = (course.ROOT / "course.toml").read_text()
        assert right in stated
        (tmp_path / "course.toml").write_text(stated.replace(right, wrong))
        with pytest.raises(course.CourseError, match=told):
            course.load(tmp_path / "course.toml")


@pytest.mark.parametrize(
    "content, told",
    [
        (b'title = "\xfc"\n', "save it in UTF-8"),
        (b'\xef\xbb\xbftitle = "A"\n', "course_id: Field required"),
        (b"titel = 3\n", "titel: there is no such key"),
        (b'[grading]\nprofile = "small"\n', "grading.profile: it must be 'smoke', 'cpu' or 'gpu'"),
        (
            b'notebooks = [{name = "01_a", title = "A"}, {name = "01_b", title = "B"}]\n',
            "notebooks: 01 is listed twice",
        ),
    ],
)
def test_what_is_wrong_in_the_course_file_is_told(tmp_path, content, told):
    (tmp_path / "course.toml").write_bytes(content)
    with pytest.raises(course.CourseError) as why:
        course.load(tmp_path / "course.toml")
    assert told in str(why.value)


@pytest.mark.parametrize(
    "text, names",
    [
        ("student\nAda L\n", ["Ada L"]),
        ("\ufeffid;first_name;last_name\na1;Anna;Müller\nb2;Bo;Li\n", ["Anna Müller", "Bo Li"]),
        ("name,key\nAda,x\n", ["Ada"]),
    ],
)
def test_keys_are_for_names(known, tmp_path, text, names):
    path = tmp_path / "students.csv"
    path.write_text(text, encoding="utf-8")
    printed, stopped = autograder(known, "keys", "--roster", str(path))
    assert not stopped and [line.split(",")[0] for line in printed.splitlines()] == ["student", *names]


def test_a_roster_without_names_has_no_keys(known, tmp_path):
    (tmp_path / "students.csv").write_text("id,email\na1,a@b.c\n")
    _, stopped = autograder(known, "keys", "--roster", str(tmp_path / "students.csv"))
    assert "no column `student` or `name`" in stopped


def test_going_back_needs_a_yes(known):
    printed, stopped = autograder(known, "remove", "ada", "01", "--latest")
    assert "once only: there is nothing to go back to" in stopped and not printed
    place = known.tree / "handins/ada" / known.notebooks[0].name / "20270101T120000Z-01234567.ipynb"
    course_tree.write(place, "{}")
    printed, stopped = autograder(known, "remove", "ada", "01", "--latest")
    assert not stopped and "with --yes" in printed and place.exists()
    assert course_tree.place(known, "submitted", known.notebooks[0], "ada").exists()


def test_a_tree_that_is_a_file_is_told(tmp_path):
    (tmp_path / "file").touch()
    ended = CliRunner().invoke(cli.app, ["--tree", str(tmp_path / "file"), "build"])
    assert "file is not a folder" in str(ended.exception) and isinstance(ended.exception, course.CourseError)
