"""The grading run over a class: right scores, one record each, resumed where it stopped, repeatable."""

import itertools
import math
import os
import re
import subprocess
import sys

import nbformat
import pytest
from helpers import copied

from autograder import course, synthetic
from autograder.author import answers, checks
from autograder.cells import CellRole, exercise_of, role_of
from autograder.gradebook import course_tree, gradebook_writer
from autograder.grading import grade
from autograder.grading import judge as judging
from autograder.grading.grading_record import (
    GRADED,
    RECORD,
    UNGRADABLE,
    HandIn,
    Options,
    load_record,
    students_of,
    verdict_path,
)
from autograder.intake import restore
from autograder.intake.run_files import pack
from autograder.reports import report
from autograder.sandbox.kernel import open_kernel
from autograder.sandbox.sandbox import SandboxError
from utils.grading import forbidden
from utils.grading.check import Outcome
from utils.grading.results_check import ResultsCheck

COURSE = course.load()
ENTRIES = [pytest.param(entry, id=entry.name) for entry in COURSE.notebooks]
FIRST = COURSE.notebooks[0]
# Each meets other questions. The demonstration's class holds three that get full marks, of each notebook.
TIMES = 20 if os.environ.get("COURSE_LONG_TESTS") else 0


def hand_in(workshop, entry, student, file, runs=None):
    course_tree.write(course_tree.place(workshop, "submitted", entry, student), file)
    if runs:
        packed = pack({name: text.encode() for name, text in runs.items()})
        course_tree.write(course_tree.results_path(workshop, entry, student), packed)


def test_every_score_of_the_demonstration_is_the_expected_one(demo_run):
    known, printed, right = demo_run
    assert right, printed
    count = len(COURSE.notebooks) * 13
    assert f"{count} of {count} results are the expected ones." in printed
    lines = (known.tree / "results.txt").read_text().splitlines()
    for entry in COURSE.notebooks:
        assert len([line for line in lines if f" {entry.name} " in line]) == 13, entry.name


def test_the_demonstration_prints_what_fits_on_a_screen(demo_run):
    """Steps with their times, eight students, where things are: and nothing of any library."""
    _, printed, _ = demo_run
    lines = printed.splitlines()
    assert len(lines) <= 26 and len(re.findall(r"^ *\d+ s  ", printed, re.M)) == 4, printed
    assert [line for line in lines if "adapters" in line or "Warning" in line] == []
    assert len([line for line in lines if re.search(r" (\d+|ungradable) +(\d+|ungradable) *$", line)]) == 8, printed


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
    for student in ("Ada_Perfect", "Ed_Otherwise", "Ivy_Shuffled"):
        done = load_record(known, entry, student)
        assert done.score == done.points > 0, done.verdicts


@pytest.mark.parametrize("entry", ENTRIES)
def test_the_blank_notebook_is_not_attempted_anywhere(demo_run, entry):
    known, _, _ = demo_run
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


def patterns(numbers):
    """Which exercises are wrong in each of a few submissions: of any two, each is wrong where the other is right.

    Each exercise is wrong in its own half of the submissions, and no half holds another (Sperner, 1928).
    """
    count = next(count for count in itertools.count(2) if math.comb(count, count // 2) >= len(numbers))
    halves = zip(numbers, itertools.combinations(range(count), count // 2), strict=False)
    wrong_in = {number: {*half} for number, half in halves}
    return [[number for number in numbers if place in wrong_in[number]] for place in range(count)]


@pytest.fixture(scope="module")
def graded(all_built, tmp_path_factory):
    """A class of all notebooks, graded in one run: the solution, and submissions in which some exercises are wrong."""
    known = copied(all_built, tmp_path_factory.mktemp("graded"))
    for entry in known.notebooks:
        maker = synthetic.Maker(known, entry)
        for number in range(TIMES):
            hand_in(known, entry, f"student{number:02d}", maker.file(), maker.runs(f"student{number:02d}"))
        first = {case.exercise: case for case in reversed(maker.cases) if not case.right}
        for place, numbers in enumerate(patterns([*maker.points])):
            name = f"wrong-{place}"
            runs = maker.runs(name)
            if maker.results in numbers:
                runs.popitem()  # of a run that is missing
            hand_in(known, entry, name, maker.file({number: first[number].source for number in numbers}), runs)
    records = grade.grade(known, list(known.notebooks))
    return {(one.notebook, one.student): one for one in records}


def expected(entry, wrong):
    """The score of each exercise where those of `wrong` are answered as in the submissions of `graded`."""
    first = {case.exercise: case for case in reversed(answers.answer_cases(entry)) if not case.right}
    known = checks.public_checks(entry)
    worth = {number: first[number].score(one) if number in wrong else one.points for number, one in known.items()}
    return worth | {
        number: 0 for number in wrong if isinstance(known[number], ResultsCheck)
    }  # of these a run is missing


@pytest.mark.skipif(not TIMES, reason="COURSE_LONG_TESTS is not set: three of the demonstration's class do this once")
@pytest.mark.parametrize("entry", ENTRIES)
def test_the_solution_gets_full_marks_every_time(graded, entry):
    records = [graded[entry.name, f"student{number:02d}"] for number in range(TIMES)]
    assert [(one.student, one.verdicts) for one in records if one.score != one.points or not one.points] == []


@pytest.mark.parametrize("entry", ENTRIES)
def test_each_exercise_is_graded_as_if_the_others_were_right(graded, entry):
    numbers = [*checks.public_checks(entry)]
    wrong = patterns(numbers)
    assert all(
        any(one in some and other not in some for some in wrong) for one, other in itertools.permutations(numbers, 2)
    )
    for place, some in enumerate(wrong):
        done = graded[entry.name, f"wrong-{place}"]
        assert [one.exercise for one in done.verdicts if one.outcome is not Outcome.PASSED] == some, done.verdicts
        assert {one.exercise: one.score for one in done.verdicts} == expected(entry, some)


@pytest.mark.parametrize("entry", ENTRIES)
def test_the_judge_says_what_the_check_says_at_home(entry):
    """Every wrong answer and every right one, in one kernel: cells run there, the verdict is reached here."""
    visible, hidden = checks.asked_checks(entry), checks.private_checks(entry)
    cases = [*answers.reference_cases(COURSE, entry), *answers.answer_cases(entry)]
    cases = [case for case in cases if not isinstance(visible[case.exercise], ResultsCheck)]  # judged from files
    notebook = author_notebook(entry)
    with open_kernel(
        COURSE.model_copy(update={"limits": COURSE.limits.model_copy(update={"notebook_seconds": 600})})
    ) as running:
        running.run(judging.ANSWER_FOR.format(key="", whose=(answers.SOMEBODY,)))
        for case in cases:
            for cell in answers.preamble(notebook):  # anew: an answer may have changed what it defines
                assert not running.run(cell.source).error
            ran = running.run(case.source)
            cells = [forbidden.read_cell(case.source)]
            verdict = visible[case.exercise].verdict(running.ask, cells, [answers.SOMEBODY])
            found = hidden.get(case.exercise, [])
            verdict, _ = checks.whole_verdict(verdict, found, lambda item: item.failure(running.ask))
            told = verdict.message
            if case.right:
                assert not told, (case.exercise, case.name, told)
            else:
                assert case.says in told or case.says in ran.error, (case.exercise, case.name, told)
            assert verdict.score == pytest.approx(case.score(visible[case.exercise])), (case.exercise, case.name, told)


OLD = """def run_all(results):
    return {one.name: run_seeds(one, rte.seeds(), results) for one in rte.experiments("06_adapter_fusion").values()}"""


def test_runs_keep_their_points_whatever_reads_them(workshop):
    """Also those of an earlier notebook, whose answer ran the experiments; without runs the reading earns nothing."""
    entry = workshop.notebook("06")
    maker = synthetic.Maker(workshop, entry)
    runs = {name: text.encode() for name, text in maker.runs("ada").items()}
    wrong = next(case.source for case in maker.cases if case.exercise == "6.7" and not case.right)
    private = next(case for case in maker.cases if case.exercise == "6.7" and case.private)
    for answer, files, score, says in (
        (None, runs, 4, "passed (4 points)"),
        (wrong, runs, 2, "share_ahead: runs are compared one by one."),
        (private.source, runs, 2, f"share_ahead: {private.says}"),
        (OLD, runs, 2, "passed in part (2 of 4 points).\nshare_ahead: "),
        (None, {}, 0, "not attempted"),
        (None, dict([*runs.items()][1:]), 0, "is missing"),
    ):
        notebook, _ = restore.restore(restore.read(maker.file({"6.7": answer} if answer else None), 20), maker.released)
        known = HandIn(entry, "ada", results=pack(files), only=("6.7",), drawn_for=b"a key")
        (verdict,) = judging.judge(workshop, known, notebook).verdicts
        assert verdict.score == score and says in verdict.sentence(), (says, verdict)


def test_outputs_of_all_cells_are_bounded(fresh, monkeypatch):
    monkeypatch.setattr(judging, "MAX_OUTPUTS", 5)
    maker = synthetic.Maker(fresh, fresh.notebooks[0])
    notebook, _ = restore.restore(restore.read(maker.file(), 20), maker.released)
    for place in range(3):
        shows = "from IPython.display import display\nfor k in range(4): display(k)"
        notebook.cells.insert(1, nbformat.v4.new_code_cell(shows, id=f"more{place}"))
    said = judging.judge(fresh, HandIn(fresh.notebooks[0], "ada"), notebook)
    shown = [len(cell.outputs) for cell in notebook.cells if cell.id.startswith("more")]
    assert shown == [4, 1, 0] and any("more than 5 outputs" in one for one in said.remarks)
    assert sum(one.score for one in said.verdicts) == sum(one.points for one in said.verdicts)


def test_no_more_characters_of_outputs_are_held_than_a_page_shows(fresh):
    """They are counted as they come: 1,900 cells that print 256 kB each would fill gigabytes of a worker."""
    maker = synthetic.Maker(fresh, fresh.notebooks[0])
    notebook, _ = restore.restore(restore.read(maker.file(), 20), maker.released)
    for place in range(12):
        notebook.cells.insert(1, nbformat.v4.new_code_cell("print('\U0001f600' * 250_000)", id=f"more{place}"))
    said = judging.judge(fresh, HandIn(fresh.notebooks[0], "ada"), notebook)
    shown = [len("".join(output.text for output in cell.outputs)) for cell in notebook.cells if "more" in cell.id]
    assert shown == [250_001] * 7 + [0] * 5 and said.dropped >= 5
    assert sum(one.score for one in said.verdicts) == sum(one.points for one in said.verdicts)


def author_notebook(entry):
    from autograder.author import build

    return build.student_notebook(COURSE, entry)


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
    "source, told, may",
    [
        ("words = text.split()", "your code raised NameError: name 'words' is not defined", True),
        ("for words, count in pairs:\n    print(count)", "name 'words' is not defined. Did you mean: 'word'?", True),
        ("import numpy.linalg as words", "`words` is not defined", True),
        ("from utils.plots import *", "`words` is not defined", True),
        ("%matplotlib inline", "`words` is not defined", True),
        ("class words:\n    pass", "name 'other' is not defined; name 'words' is not defined", True),
        ("plots.heatmap(words(4))", "`words` is not defined", False),
        ("mask = words(4)", "`words` is not defined", False),
        ("words = text.split()", "the words are not in order.", False),
        ("words = text.split()", "name 'words.x' is not defined", False),
    ],
)
def test_cells_are_run_after_all_where_they_may_define_what_is_missing(source, told, may):
    assert judging.may_define(source, told) is may


def test_a_notebook_cannot_run_for_ever(workshop):
    limits = workshop.limits.model_copy(update={"notebook_seconds": 6.0, "cell_seconds": 2.0})
    short = workshop.model_copy(update={"limits": limits})
    numbers = list(checks.public_checks(FIRST))
    sleepy = dict.fromkeys(numbers, "import time\nfor _ in range(10**9): time.sleep(0.01)")
    from autograder.intake import restore

    maker = synthetic.Maker(short, FIRST)
    notebook, _ = restore.restore(restore.read(maker.file(sleepy), 20), maker.released)
    judged = judging.judge(short, HandIn(FIRST), notebook)
    assert all(verdict.score == 0 for verdict in judged.verdicts)
    assert any("in all" in remark or "longer than" in remark for remark in judged.remarks)


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
