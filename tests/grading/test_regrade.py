"""A check changed: only what depends on it is run again, and the person who changed it sees what that did."""

import dataclasses
import json
from pathlib import Path

import nbformat
import pytest
from helpers import canned, outcome
from typer.testing import CliRunner

from autograder import cli, course, synthetic
from autograder.author import build, checks
from autograder.cells import CellRole, cell_id, role_of
from autograder.course import CourseError
from autograder.gradebook import course_tree, gradebook_writer
from autograder.grading import fingerprints, grade, judge
from autograder.grading.grading_record import UNGRADABLE, Options, Record, jobs, load_record
from autograder.reports import progress
from utils.grading.check import Check
from utils.grading.verdict import Outcome


def numbers(known):
    return list(course_tree.exercises(known, known.notebooks[0]))


@pytest.fixture
def graded(fresh):
    """Three submissions, as if graded: all right, all wrong in the first exercise, and blank."""
    first = numbers(fresh)[0]
    for student in ("ada", "bo", "cy"):
        job, done, notebook = canned(fresh, student, () if student == "cy" else None)
        book = nbformat.reads(notebook, as_version=4)
        for place, one in enumerate(done.verdicts):
            if student == "cy" or (student == "bo" and one.exercise == first):
                outcome = Outcome.BLANK if student == "cy" else Outcome.WRONG
                done.verdicts[place] = dataclasses.replace(one, outcome=outcome)
                name = cell_id(CellRole.CHECK, one.exercise)
                cell = next(cell for cell in book.cells if cell.id == name)
                cell.outputs[-1].data["text/plain"] = "0"
        with gradebook_writer.open_recorder(fresh) as recorder:
            grade.keep(fresh, recorder, job, done, build.write(book))
    return fresh


def mark(known, student, name):
    (entry,) = known.notebooks
    with gradebook_writer.open_recorder(known) as recorder:
        found = recorder.gradebook.find_grade(name, entry.name, entry.name, student)
        return found.auto_score, found.manual_score, found.needs_manual_grade


def test_one_exercise_is_judged_again_and_all_else_stays(graded):
    (entry,) = graded.notebooks
    first, second = numbers(graded)[:2]
    cell, written = cell_id(CellRole.CHECK, first), None
    with gradebook_writer.open_recorder(graded) as recorder:
        for one in recorder.gradebook.find_submission_notebook(entry.name, entry.name, "bo").grades:
            if role_of(one.name) is CellRole.WRITTEN:
                written, one.manual_score, one.needs_manual_grade = one.name, 1.5, False
        recorder.gradebook.db.commit()
    cy = load_record(graded, entry, "cy")
    pairs = grade.regrade(graded, [entry], [first])
    assert [before.student for before, _ in pairs] == ["ada", "bo"], "a blank answer was run"
    scores = {after.student: after.score - before.score for before, after in pairs}
    worth = course_tree.exercises(graded, entry)[first]
    assert scores == {"ada": 0, "bo": worth}  # what is handed in there is right
    for before, after in pairs:
        assert after.verdicts[1:] == before.verdicts[1:]
        assert after == load_record(graded, entry, after.student)
    assert mark(graded, "bo", cell) == (worth, None, False)
    assert mark(graded, "bo", written) == (None, 1.5, False)
    assert load_record(graded, entry, "cy").verdicts == cy.verdicts
    stored = nbformat.read(course_tree.place(graded, "autograded", entry, "bo"), as_version=4)
    outputs = {one.id: one.get("outputs") for one in stored.cells}
    assert "passed" in outputs[cell][0].text and len(outputs[cell_id(CellRole.CHECK, second)]) == 1


def test_a_check_that_gives_more_points_asks_for_a_new_tree_and_then_gives_them(graded, monkeypatch):
    (entry,) = graded.notebooks
    first = numbers(graded)[0]
    with gradebook_writer.open_recorder(graded) as recorder:
        rows = recorder.gradebook.find_submission_notebook(entry.name, entry.name, "bo").grades
        (written, *_) = [one for one in rows if role_of(one.name) is CellRole.WRITTEN]
        written.manual_score, written.needs_manual_grade, name = 1.5, False, written.name
        recorder.gradebook.db.commit()
    before = {student: load_record(graded, entry, student) for student in ("ada", "bo", "cy")}
    check = checks.public_checks(entry)[first]
    monkeypatch.setattr(check, "points", check.points + 1)
    for run in (
        lambda: grade.regrade(graded, [entry], [first]),
        lambda: grade.grade(graded, [entry], options=Options(again=True)),
    ):
        with pytest.raises(CourseError, match="run `autograder build`"):
            run()
    assert {student: load_record(graded, entry, student) for student in before} == before
    with pytest.raises(CourseError, match=r"text of 1\.1 states 2 points, and its check or marker gives 3"):
        course_tree.build_tree(graded)
    read, price = build.read_percent, f"**Exercise {first}** ({{:g}} points".format
    assert price(check.points - 1) in (course.folder_of(entry) / "notebook.py").read_text()
    monkeypatch.setattr(
        build, "read_percent", lambda text: read(text.replace(price(check.points - 1), price(check.points)))
    )
    course_tree.build_tree(graded)
    pairs = grade.regrade(graded, [entry], [first])
    assert [after.verdicts[0].score for _, after in pairs] == [check.points] * 2
    assert mark(graded, "bo", cell_id(CellRole.CHECK, first)) == (check.points, None, False)
    assert mark(graded, "bo", name) == (None, 1.5, False)


def test_what_the_grader_fails_on_keeps_its_verdicts(graded, monkeypatch):
    (entry,) = graded.notebooks
    first = numbers(graded)[0]
    before = load_record(graded, entry, "ada")

    def failing(*given, **options):
        raise ArithmeticError("a mistake of ours")

    monkeypatch.setattr(judge, "judge", failing)
    (_, after), _ = grade.regrade(graded, [entry], [first])
    assert after.status == UNGRADABLE and load_record(graded, entry, "ada") == before
    assert mark(graded, "ada", cell_id(CellRole.CHECK, first))[0] == before.verdicts[0].score


def test_a_question_more_leaves_a_notebook_with_marks_as_it_was(graded, monkeypatch):
    (entry,) = graded.notebooks
    paths = [course_tree.place(graded, place, entry) for place in ("source", "release")]
    before = [path.read_text() for path in paths]
    made = build.solution_notebook(graded, entry)
    (cell,) = [cell for cell in made.cells if cell.id == "written_1_W1"]
    another = json.loads(json.dumps(cell))
    another["id"] = another["metadata"]["id"] = another["metadata"]["nbgrader"]["grade_id"] = "written_1_W9"
    made.cells.append(nbformat.from_dict(another))
    monkeypatch.setattr(build, "solution_notebook", lambda *given: made)
    for _ in range(2):
        with pytest.raises(CourseError, match="added or removed, and its submissions have marks"):
            course_tree.build_tree(graded)
        assert [path.read_text() for path in paths] == before


def test_a_changed_check_makes_its_exercise_stale_and_no_other(graded, monkeypatch):
    (entry,) = graded.notebooks
    first = numbers(graded)[0]
    before = fingerprints.fingerprints(graded, entry)
    assert grade.regrade(graded, [entry]) == []
    read = Path.read_text
    changed = f'\n\n@check("{first}", points=2)\ndef another(causal_mask):\n    assert causal_mask\n'
    module = f"nb{entry.name}.py"
    monkeypatch.setattr(Path, "read_text", lambda path: read(path) + (changed if path.name == module else ""))
    after = fingerprints.fingerprints(graded, entry)
    assert {number for number in after if after[number] != before[number]} == {first}
    assert {state for one in jobs(graded, entry) for state in [one.state()]} == {
        "a check, a limit or the notebook changed"
    }
    asked = []
    monkeypatch.setattr(grade.GradingRun, "begin", lambda run, jobs: asked.extend(jobs))
    with pytest.raises(KeyError):  # nothing came back
        grade.regrade(graded, [entry])
    assert [(job.student, job.only) for job in asked] == [("ada", (first,)), ("bo", (first,))]
    assert jobs(graded, entry)[2].state() == "", "a blank answer needs no new verdict"


def test_what_all_checks_share_makes_all_stale(graded, monkeypatch):
    (entry,) = graded.notebooks
    before, read = fingerprints.fingerprints(graded, entry), Path.read_text
    module = f"nb{entry.name}.py"
    monkeypatch.setattr(
        Path, "read_text", lambda path: read(path) + ("\nEVERYWHERE = 1\n" if path.name == module else "")
    )
    after = fingerprints.fingerprints(graded, entry)
    assert all(after[number] != before[number] for number in before)
    comment = "\n# a comment changes nothing\n"
    monkeypatch.setattr(Path, "read_text", lambda path: read(path) + (comment if path.name == module else ""))
    assert fingerprints.fingerprints(graded, entry) == before


def test_an_exercise_that_is_nowhere_is_told(graded):
    with pytest.raises(course.CourseError, match=r"no exercise 9\.9"):
        grade.regrade(graded, list(graded.notebooks), ["9.9"])


def test_the_command_says_before_after_and_how_many(graded, capsys):
    (entry,) = graded.notebooks
    before, after = (load_record(graded, entry, "bo") for _ in range(2))
    after.verdicts[0] = dataclasses.replace(after.verdicts[0], outcome=Outcome.PASSED)
    ada = load_record(graded, entry, "ada")
    cli.regrade.print_changes([(ada, ada), (before, after)])
    printed = capsys.readouterr().out
    assert "2 submissions graded again, 1 score changed" in printed and "ada" not in printed
    assert ["bo", "1.1", "0", "2"] in [line.split()[:4] for line in printed.splitlines()], printed


@pytest.mark.parametrize(
    "words, told",
    [
        ([], "no submission that is graded with --trust-submissions was judged by another check than today's"),
        (["--exercise", "{}"], "no submission that is graded with --trust-submissions answers exercise 1.1"),
    ],
)
def test_where_nothing_is_to_be_judged_again_the_command_says_so(graded, monkeypatch, capsys, words, told):
    (entry,) = graded.notebooks
    words = [word.format(numbers(graded)[0]) for word in words]
    monkeypatch.setattr(cli.context, "load", lambda: graded)  # graded in sandboxes
    ended = CliRunner().invoke(cli.app, ["regrade", entry.number, *words, "--trust-submissions"])
    assert ended.exit_code == 0 and told in capsys.readouterr().out + ended.output


def sectioned(*sources):
    """A notebook of exercises 1.1, 1.2, ... with one answer cell each."""
    cells = []
    for number, source in enumerate(sources, 1):
        cells += [nbformat.v4.new_code_cell(source), nbformat.v4.new_code_cell("")]
        cells[-2].id, cells[-1].id = f"exercise_1_{number}", f"check_1_{number}"
    return nbformat.v4.new_notebook(cells=cells)


@pytest.mark.parametrize(
    ("first", "third", "spared"),
    [
        ("def helper(): pass", "def wanted(): pass", True),
        ("import math\n'''words'''\nclass A: pass", "def wanted(): pass", True),
        ("def helper(): pass", "def wanted(): return helper()", False),
        ("def helper(): pass", "def wanted(): return globals()['helper']", False),
        ("def wanted(): pass", "pass", False),  # the check asks for this name
        ("import torch\ntorch.relu = None", "def wanted(): pass", False),
        ("%matplotlib inline", "def wanted(): pass", False),
        ("from math import *", "def wanted(): pass", False),
        ("setup = patch()", "def wanted(): pass", False),
        ("@torch.no_grad()\ndef helper(x: list[int] = (), *, y=-1) -> 'Tensor': pass", "def wanted(): pass", True),
        ("class A(nn.Module):\n    '.'\n    n: int = 3\n    @property\n    def b(self): return f()", "pass", True),
        ("@scaled.register\ndef helper(x): pass", "def wanted(): pass", False),  # a decorator does what it likes
        ("def helper(x=patch()): pass", "def wanted(): pass", False),
        ("def helper(*, x=patch()): pass", "def wanted(): pass", False),
        ("def helper(x) -> patch(): pass", "def wanted(): pass", False),
        ("class A:\n    patch()", "def wanted(): pass", False),
        ("class A:\n    known = patch()", "def wanted(): pass", False),
        ("class A(Registered): pass", "def wanted(): pass", False),  # its __init_subclass__
        ("class A(metaclass=Registered): pass", "def wanted(): pass", False),
        ("@register\nclass A: pass", "def wanted(): pass", False),
        (f"@a{'.b' * 900}\ndef helper(): pass", "def wanted(): pass", False),  # too deep for ast.unparse
    ],
)
def test_cells_that_only_define_what_nobody_mentions_are_spared(first, third, spared):
    notebook = sectioned(first, "def other(): pass", third)
    wanted = {"1.3": Check("1.3", 2, (), lambda wanted: None)}
    assert ("exercise_1_1" in judge.spare(notebook, wanted)) is spared
    assert "exercise_1_3" not in judge.spare(notebook, wanted)


def test_a_spared_cell_can_be_needed_by_another_needed_one():
    notebook = sectioned("def a(): pass", "def b(): return a()", "def wanted(): return b()")
    assert judge.spare(notebook, {"1.3": Check("1.3", 2, (), lambda wanted: None)}) == set()


def test_status_says_what_is_graded_waiting_and_ungradable(graded, monkeypatch, capsys):
    (entry,) = graded.notebooks
    maker = synthetic.Maker(graded, entry)
    course_tree.write(course_tree.place(graded, "submitted", entry, "dan"), maker.file())
    course_tree.write(course_tree.place(graded, "submitted", entry, "bo"), maker.file(solved=()))
    with gradebook_writer.open_recorder(graded) as recorder:
        job = jobs(graded, entry)[2]
        failed = Record("cy", entry.name, UNGRADABLE, "the file is empty")
        grade.keep(graded, recorder, job, failed, "")
    assert progress.status(graded, entry) == {
        "graded": {"ada": ""},
        "waiting": {"bo": "handed in again", "dan": "not graded yet"},
        "ungradable": {"cy": "the file is empty"},
    }
    monkeypatch.setattr(cli.context, "load", lambda: graded)
    cli.status.status(json=True)
    assert json.loads(capsys.readouterr().out)[entry.name]["waiting"]["dan"] == "not graded yet"
    cli.status.status()
    printed = capsys.readouterr().out
    assert "the file is empty" in printed and "handed in again" in printed


def test_regrading_everything_says_what_grading_says(fresh):
    """Each exercise alone, with the cells that it needs, fares as in the whole notebook."""
    (entry,) = fresh.notebooks
    maker = synthetic.Maker(fresh, entry)
    wrong = {case.exercise: case.source for case in reversed(maker.cases) if not case.right}
    number = numbers(fresh)[1]
    course_tree.write(course_tree.place(fresh, "submitted", entry, "wrong"), maker.file({number: wrong[number]}))
    (once,) = grade.grade(fresh, [entry])
    before = outcome(fresh)
    for one in (numbers(fresh)[1], numbers(fresh)[-1]):
        ((was, now),) = grade.regrade(fresh, [entry], [one])
        assert now.score == was.score == once.score
    assert outcome(fresh)[0] == before[0] and outcome(fresh)[2] == before[2]
    assert checks.public_checks(entry)
