"""The demonstration's class: every score is the expected one, and all of its results fit together."""

import io
import re
from collections import Counter
from types import SimpleNamespace

import nbformat
import pytest
from rich.console import Console
from typer.testing import CliRunner

from autograder import cli, course, demo, synthetic
from autograder.author import checks
from autograder.cells import CellRole, exercise_of, role_of
from autograder.gradebook import course_tree, gradebook_writer
from autograder.grading import grade
from autograder.grading.grading_record import (
    GRADED,
    RECORD,
    load_record,
    students_of,
    verdict_path,
)
from utils.grading.check import Outcome

COURSE = course.load()
ENTRIES = [pytest.param(entry, id=entry.name) for entry in COURSE.notebooks]
FIRST = COURSE.notebooks[0]


def test_every_score_of_the_demonstration_is_the_expected_one(demo_run):
    """Of every kind of submission, in three notebooks at least; the solution and its like in all."""
    known, printed, right = demo_run
    names = {made.student for made in synthetic.made_up_class(known, FIRST)}
    assert right, printed
    lines = (known.tree / "results.txt").read_text().splitlines()
    counts = [len([line for line in lines if f" {entry.name} " in line]) for entry in COURSE.notebooks]
    assert counts.count(13) >= 2 and min(counts) >= 3
    assert f"{sum(counts)} of {sum(counts)} results are the expected ones." in printed
    graded_from = Counter(name for line in lines for name in names if line.strip().startswith(f"{name} "))
    assert {*graded_from} == names and min(graded_from.values()) >= 3


def test_the_demonstration_prints_what_fits_on_a_screen(demo_run):
    """Steps with their times, eight students, where things are: and nothing of any library."""
    _, printed, _ = demo_run
    lines = printed.splitlines()
    assert len(lines) <= 26 and len(re.findall(r"^ *\d+ s  ", printed, re.M)) == 4, printed
    assert [line for line in lines if "adapters" in line or "Warning" in line] == []
    assert len([line for line in lines if re.search(r" (\d+|ungradable) +(\d+|ungradable) *$", line)]) == 8, printed


def test_a_demonstration_says_first_what_it_does_and_when_interrupted_that_nothing_is_kept(monkeypatch):
    def interrupted(workers, console, whole):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "run", interrupted)
    ended = CliRunner().invoke(cli.app, ["demo"])
    assert "in the place of an earlier demonstration" in " ".join(ended.output.split())
    assert isinstance(ended.exception, cli.context.Interrupted) and "starts from the beginning" in str(ended.exception)


def test_remarks_of_a_demonstration_are_told_apart():
    remarks = ["cell a is twice", "b was deleted", "b was deleted"]
    record = SimpleNamespace(notebook="01", status=GRADED, score=2.0, reason="", remarks=remarks)
    made = SimpleNamespace(student="Kit Killer", content="two remarks", score=2.0)
    out = io.StringIO()
    Console(file=out, width=150).print(demo.results_table([(record, made)], remarks=True))
    assert out.getvalue().split("\n")[1].rstrip().endswith("2  cell a is twice; b was deleted")


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_hand_in_ends_in_a_record(demo_run, entry):
    known, _, _ = demo_run
    for student in students_of(known, entry):
        path = verdict_path(known, entry, student)
        stated = RECORD.validate_json(path.read_text())
        if stated.status == GRADED:
            assert [one.exercise for one in stated.verdicts] == list(checks.public_checks(entry))
            assert all(one.message or one.outcome in (Outcome.PASSED, Outcome.BLANK) for one in stated.verdicts)
        else:
            assert stated.reason


@pytest.mark.parametrize("entry", ENTRIES)
def test_right_hand_ins_get_full_marks(demo_run, entry):
    known, _, _ = demo_run
    students = {"Ada_Perfect", "Ed_Otherwise", "Ivy_Shuffled"} & {*students_of(known, entry)}
    assert students >= {"Ada_Perfect", "Ed_Otherwise"}
    for student in students:
        done = load_record(known, entry, student)
        assert done.score == done.points > 0, done.verdicts


def test_the_blank_notebook_is_not_attempted_anywhere(demo_run):
    """tests/checks asks the same of every exercise of all notebooks, at home."""
    known, _, _ = demo_run
    entries = [entry for entry in COURSE.notebooks if "Bo_Blank" in students_of(known, entry)]
    assert len(entries) >= 3
    for entry in entries:
        blank = load_record(known, entry, "Bo_Blank")
        assert {one.outcome for one in blank.verdicts} == {Outcome.BLANK} and blank.score == 0


@pytest.mark.parametrize("entry", ENTRIES)
def test_no_cell_of_a_right_hand_in_ends_in_an_error(demo_run, entry):
    known, _, _ = demo_run
    graded = nbformat.read(course_tree.place(known, "autograded", entry, "Ada_Perfect"), as_version=4)
    code = [cell for cell in graded.cells if cell.cell_type == "code"]
    assert len(code) > 20 and sum(bool(cell.outputs) for cell in code) >= 8  # its checks and pictures
    failed = {cell.id: one.evalue for cell in code for one in cell.outputs if one.output_type == "error"}
    assert failed == {}


def test_the_gradebook_says_what_the_verdicts_say(demo_run):
    known, _, _ = demo_run
    with gradebook_writer.open_recorder(known) as recorder:
        for entry in known.notebooks:
            for student in students_of(known, entry):
                marks = recorder.gradebook.find_submission_notebook(entry.name, entry.name, student).grades
                stated = load_record(known, entry, student)
                scores = {one.exercise: one.score for one in stated.verdicts}
                for mark in marks:
                    if role_of(mark.name) is CellRole.CHECK:
                        assert mark.auto_score == scores.get(exercise_of(mark.name), 0)
                        assert not mark.needs_manual_grade
                    elif student == "Ada_Perfect":  # the written answers wait for a person
                        assert role_of(mark.name) is CellRole.WRITTEN


def test_grading_again_runs_nothing_and_changes_nothing(demo_run, monkeypatch):
    known, _, _ = demo_run
    before = {path: path.read_bytes() for path in known.tree.glob("verdicts/*/*.json")}
    monkeypatch.setattr(grade.GradingRun, "job_answers", None)  # a worker would be an error
    records = grade.grade(known, list(known.notebooks))
    assert len(records) == len(before)
    assert before == {path: path.read_bytes() for path in known.tree.glob("verdicts/*/*.json")}
