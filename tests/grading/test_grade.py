"""The grading run over a class: right scores, one record each, resumed where it stopped, repeatable."""

import re
import subprocess
import sys

import pytest

from autograder import course, synthetic
from autograder.cells import CellRole, role_of
from autograder.gradebook import course_tree, gradebook_writer
from autograder.grading import grade
from autograder.grading.grading_record import (
    GRADED,
    UNGRADABLE,
    Options,
    load_record,
    verdict_path,
)
from autograder.intake.run_files import pack
from autograder.reports import report
from autograder.sandbox.sandbox import SandboxError

COURSE = course.load()
FIRST = COURSE.notebooks[0]


def hand_in(workshop, entry, student, file, runs=None):
    course_tree.write(course_tree.place(workshop, "submitted", entry, student), file)
    if runs:
        packed = pack({name: text.encode() for name, text in runs.items()})
        course_tree.write(course_tree.results_path(workshop, entry, student), packed)


def test_what_a_crash_left_out_is_graded_and_nothing_else(workshop):
    maker = synthetic.Maker(workshop, FIRST)
    for student in ("ada", "bo", "cy"):
        hand_in(workshop, FIRST, student, maker.file(solved=()))
    once = {one.student: one for one in grade.grade(workshop, [FIRST])}
    verdict_path(workshop, FIRST, "bo").unlink()  # killed before its record was complete
    verdict_path(workshop, FIRST, "cy").write_text('{"student": "cy", ')
    twice = {one.student: one for one in grade.grade(workshop, [FIRST])}
    assert twice["ada"] == once["ada"]
    for student in ("bo", "cy"):
        assert twice[student].verdicts and load_record(workshop, FIRST, student)
        assert [one.score for one in twice[student].verdicts] == [one.score for one in once[student].verdicts]


def test_a_changed_hand_in_is_graded_anew_and_manual_scores_stay(workshop):
    maker = synthetic.Maker(workshop, FIRST)
    hand_in(workshop, FIRST, "ada", maker.file(solved=()))
    assert grade.grade(workshop, [FIRST])[0].score == 0
    with gradebook_writer.open_recorder(workshop) as recorder:
        marks = recorder.gradebook.find_submission_notebook(FIRST.name, FIRST.name, "ada").grades
        next(mark for mark in marks if role_of(mark.name) is CellRole.WRITTEN).manual_score = 1.5
        recorder.gradebook.db.commit()
    hand_in(workshop, FIRST, "ada", maker.file())
    done = grade.grade(workshop, [FIRST])[0]
    assert done.score == done.points
    with gradebook_writer.open_recorder(workshop) as recorder:
        marks = recorder.gradebook.find_submission_notebook(FIRST.name, FIRST.name, "ada").grades
        assert next(mark for mark in marks if role_of(mark.name) is CellRole.WRITTEN).manual_score == 1.5


def test_without_sandboxes_nothing_is_graded(workshop, monkeypatch):
    hand_in(workshop, FIRST, "ada", synthetic.Maker(workshop, FIRST).file())
    monkeypatch.setattr(grade, "require_sandboxes", lambda: (_ for _ in ()).throw(SandboxError("no user namespaces")))
    with pytest.raises(SandboxError):
        grade.grade(workshop, [FIRST])
    assert not load_record(workshop, FIRST, "ada")


def test_trusting_is_possible_and_is_written_down(workshop):
    hand_in(workshop, FIRST, "ada", synthetic.Maker(workshop, FIRST).file())
    done = grade.grade(workshop, [FIRST], options=Options(trusted=True))[0]
    assert done.score == done.points and done.trusted
    assert "--trust-submissions" in report.write_report(workshop, [FIRST]).read_text()


def test_an_error_of_the_grader_itself_is_a_record_and_stops_nobody(workshop, monkeypatch):
    maker = synthetic.Maker(workshop, FIRST)
    hand_in(workshop, FIRST, "ada", maker.file())
    hand_in(workshop, FIRST, "bo", maker.file())

    def broken(course, hand_in, trusted, server):
        if hand_in.student == "ada":
            raise KeyError("bug")
        return grade_one(course, hand_in, trusted, server)

    grade_one = grade.grade_one
    monkeypatch.setattr(grade, "grade_one", broken)
    ada, bo = grade.grade(workshop, [FIRST])
    assert ada.status == UNGRADABLE and "grader itself failed" in ada.reason and "KeyError" in ada.reason
    assert bo.status == GRADED and bo.score == bo.points


def test_an_answer_may_use_what_a_picture_defines(workshop):
    """Cells that only show something are put off, but nobody loses a point by it."""
    maker = synthetic.Maker(workshop, FIRST)
    number = list(maker.points)[-1]
    later = next(cell for cell in maker.released.cells if cell.source.startswith("words = "))
    name = later.source.split(" =")[0]
    leaning = f"{maker.reference[number]}\nassert len({name}) > 0\n"
    hand_in(workshop, FIRST, "leaning", maker.file({number: leaning}))
    hand_in(workshop, FIRST, "missing", maker.file({number: "no_such_name"}))
    leaning, missing = grade.grade(workshop, [FIRST])
    assert leaning.score == leaning.points
    assert missing.score == missing.points - maker.points[number]


@pytest.mark.parametrize(
    "command",
    [
        *("", "build", "release", "collect", "grade", "regrade", "status", "feedback", "report", "export", "remove"),
        *("doctor", "demo"),
    ],
)
def test_help_helps(command):
    call = [sys.executable, "-m", "autograder.cli", *command.split(), "--help"]
    told = subprocess.run(call, capture_output=True, text=True, check=True).stdout
    assert len(told) > 200 and "Usage" in told


def test_a_wrong_name_is_told_in_one_line():
    call = [sys.executable, "-m", "autograder.cli", "grade", "99"]
    ended = subprocess.run(call, capture_output=True, text=True, check=False)
    assert ended.returncode == 2 and re.match(r"autograder: there is no notebook `99`", ended.stderr)
    assert "Traceback" not in ended.stderr
