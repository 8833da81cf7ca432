"""Predictions: asked in a cell without the answer, compared at home, no part of a verdict, counted for the class."""

import dataclasses
import itertools
import json
import math
import re

import nbformat
import pytest
from helpers import copied
from own import solutions

from autograder import course, limited, synthetic
from autograder.author import build, predictions
from autograder.cells import CellRole, exercise_of, role_of
from autograder.course import CourseError, folder_of
from autograder.gradebook import course_tree
from autograder.grading.grading_record import HandIn
from autograder.grading.worker import grade_one
from autograder.intake import reading
from autograder.reports import predicted
from utils import predictions as home
from utils import variants
from utils.experiments import extrapolation, forgetting, objectives
from utils.experiments.runs import load_table
from utils.grading.check import CheckFailed, check, scoreboard
from utils.predictions import Question, predict, reveal

COURSE = course.load()
ENTRY = COURSE.notebook("01")
LETTER = Question("1.1", "b", {"a": "flatter", "b": "sharper"})
NUMBER = Question("1.2", 6, {}, 1)
MEASURED = Question("1.E1", 0.25, {})


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """A session that knows three questions."""
    (tmp_path / home.ANSWERS).write_text(predictions.text_of([LETTER, NUMBER, MEASURED]))
    monkeypatch.setattr(home, "folder", lambda: tmp_path)
    monkeypatch.setattr(home, "SESSION", {})
    return tmp_path


@pytest.fixture
def module():
    """A check of exercise 1.1."""
    made = type(build)("made")

    @check("1.1", points=2)
    def graded(f):
        assert f() == 1, "f does not give 1."

    made.graded = graded
    return made


def test_a_passed_check_shows_what_was_predicted_and_what_came(asked, module, capsys):
    predict("1.1", "a", a="flatter", b="sharper")
    assert capsys.readouterr().out == "Prediction 1.1 is noted: a (flatter).\n"
    with pytest.raises(CheckFailed):
        module.graded(lambda: 2)
    assert capsys.readouterr().out == "" and "right" not in repr(scoreboard(module)), "not before it has passed"
    module.graded(lambda: 1)
    shown = "Prediction 1.1: you predicted a (flatter). The answer is b (sharper).\n"
    assert capsys.readouterr().out == f"Exercise 1.1: passed (2 points)\n{shown}"
    table = scoreboard(module)
    assert repr(table).splitlines()[-1] == "0 of 1 prediction right, without points"
    assert table._repr_html_().endswith("<p>0 of 1 prediction right, without points</p>")
    assert "2 of 2 points" in repr(table)


def test_the_first_prediction_counts_once_the_answer_was_shown(asked, capsys):
    for guess in ("a", "b"):  # until then it may be changed
        predict("1.1", guess)
    reveal("1.1")
    predict("1.1", "a")
    said = capsys.readouterr().out.splitlines()
    assert said[2] == "Prediction 1.1: you predicted b (sharper). That is right."
    assert said[3] == f"{said[2]} The answer was shown, so your first prediction counts."
    reveal("1.2")
    predict("1.2", "6")
    assert capsys.readouterr().out == "Prediction 1.2 is not counted: the answer was shown before.\n"
    assert home.summary() == "1 of 1 prediction right, without points"
    predict("1.E1", "1/4")
    reveal("1.E1")
    assert home.summary() == "2 of 2 predictions right, without points"


def test_an_empty_prediction_is_none(asked, capsys):
    for empty in ("", "  ", None):
        predict("1.1", empty)
    predict("1.1", "a")
    predict("1.1", "")
    capsys.readouterr()
    predict("1.2", "6")
    predict("1.2", "six")
    assert "is not noted" in capsys.readouterr().out.splitlines()[-1]
    for number in ("1.1", "1.2", "9.9"):
        reveal(number)
    assert capsys.readouterr().out == home.summary() == "", "neither what was taken back nor what replaced it"


NEITHER = ["c", "ab", "6", True, 1.5, 10**5000, ["a"], {"a": 1}, ..., predict, "\ud800", "x" * 10**6, "a\nb"]


@pytest.mark.parametrize("number", range(len(NEITHER)))
def test_what_is_no_choice_is_not_noted_and_says_what_to_write(asked, capsys, number):
    predict("1.1", NEITHER[number])
    said = capsys.readouterr().out
    assert said.startswith("Prediction 1.1 is not noted: `") and len(said) < 200
    assert said.endswith("cannot be read. Write a or b between the quotes, and run this cell again.\n")
    reveal("1.1")
    assert capsys.readouterr().out == home.summary() == ""


@pytest.mark.parametrize("written", ["six", True, "nan", "inf", "1e999", "1/0", "0,5", [6], "", None])
def test_what_is_not_a_number_is_not_noted(asked, capsys, written):
    predict("1.2", written)
    said = capsys.readouterr().out
    assert said == "" if written in ("", None) else "Write a number such as 12 or 0.5 between the quotes" in said
    reveal("1.2")
    assert home.summary() == ""


def test_a_cell_that_is_no_longer_as_it_was_says_so(asked, capsys):
    for call in (lambda: predict(), lambda: predict(1.1, "a", "b"), lambda: predict("9.9", "a"), lambda: predict("b")):
        call()
        assert capsys.readouterr().out.startswith("This prediction is not noted: write only your prediction into")
    predict("1.1", "b", within="?", a=3, z=None)  # what else stands in the call does not matter
    assert capsys.readouterr().out == "Prediction 1.1 is noted: b (sharper).\n"


@pytest.mark.parametrize("damaged", ["{", "[]", '{"1.1": {"answr": 1}}', '{"1.1": 3}', ""])
def test_no_check_depends_on_the_file_of_answers(asked, module, capsys, damaged):
    (asked / home.ANSWERS).write_text(damaged)
    predict("1.1", "a")
    module.graded(lambda: 1)
    said = capsys.readouterr().out
    assert "is damaged, so predictions have no answers: fetch the course again." in said and "passed (2 points)" in said
    (asked / home.ANSWERS).unlink()  # as in grading
    predict("1.1", "a")
    module.graded(lambda: 1)
    assert capsys.readouterr().out == "Exercise 1.1: passed (2 points)\n"


@pytest.mark.parametrize(
    "question, written, guess, right",
    [
        (LETTER, " B ", "b", True),
        (LETTER, "(b)", "b", True),
        (LETTER, "Sharper", "b", True),
        (LETTER, "a.", "a", False),
        (NUMBER, "6", 6, True),
        (NUMBER, " 7.0 ", 7, True),
        (NUMBER, "7.1", 7.1, False),
        (NUMBER, "-6", -6, False),
        (NUMBER, "1,000", 1000, False),
        (MEASURED, "1/4", 0.25, True),
        (MEASURED, "25%", 25, False),
        (MEASURED, "0.2500000001", 0.2500000001, True),
    ],
)
def test_a_guess_is_read_as_it_is_meant(question, written, guess, right):
    assert question.guess(written) == guess and question.is_right(guess) is right


def test_a_number_that_is_near_is_right_and_both_are_shown(asked, capsys):
    predict("1.2", 7)
    reveal("1.2")
    assert "you predicted 7. The answer is 6. That is near enough." in capsys.readouterr().out
    assert home.summary().startswith("1 of 1")


@pytest.mark.parametrize("entry", COURSE.notebooks, ids=lambda entry: entry.name)
def test_released_cells_ask_without_the_answer_and_above_what_shows_it(entry):
    released, asked = build.student_notebook(COURSE, entry), {one.number: one for one in build.questions(entry)}
    cells = [cell for cell in released.cells if role_of(cell.id) is CellRole.PREDICTION]
    assert [exercise_of(cell.id) for cell in cells] == [*asked] and "nbgrader" not in str(cells)
    assert asked == {number: one for number, one in home.questions().items() if number in asked}
    for cell in cells:
        question = asked[exercise_of(cell.id)]
        assert f'"{question.number}",' in cell.source and question.number.startswith(f"{int(entry.number)}.")
        assert cell.source.count('""') == 2 and "optional and without points" in cell.source, (
            "the quotes, and the words"
        )
        assert all(f'{letter}="{text}"' in cell.source for letter, text in question.choices.items())
        place = [other.id for other in released.cells].index(cell.id)
        if ".E" not in question.number:
            kind = "stretch" if ".S" in question.number else "exercise"
            assert released.cells[place + 1].id == f"{kind}_{question.number.replace('.', '_')}"


def test_every_notebook_asks_for_predictions():
    counts = {entry.number: len(build.questions(entry)) for entry in COURSE.notebooks}
    assert min(counts.values()) > 0 and sum(counts.values()) >= 100, counts


@pytest.mark.parametrize(
    "source, says",
    [
        ('predict("1.1", b, a="x", b="y")', "has no number and answer"),
        ('predict("1.1")', "has no number and answer"),
        ('predict("1.1", "c", a="x", b="y")', "`c`, is not the letter of a choice"),
        ('predict("1.1", "a", a="x", c="y")', "are not a, b and so on"),
        ('predict("1.1", "a", a="x")', "are not a, b and so on"),
        ('predict("1.1", "a", within=2, a="x", b="y")', "are not a, b and so on"),
        ('predict("1.1", "a", a="x", b="X ")', "have the same text"),
        ('predict("1.1", "a", a="x", b="")', "have the same text, or one has none"),
        ('predict("1.1", "6")', "asks for a number, and `6` is its answer"),
        ('predict("1.1", True)', "asks for a number"),
        ('predict("1.1", 6, within=-1)', "asks for a number"),
        ('predict("11", 6)', "`11` is not the number of an exercise or experiment"),
        ('x = predict("1.1", 6)', "other code is in the cell"),
        ('predict("1.1", 6)\nprint(1)', "other code is in the cell"),
    ],
)
def test_a_question_that_is_not_written_as_it_must_be_stops_build(source, says):
    with pytest.raises(CourseError, match=f"here: .*{re.escape(says)}"):
        predictions.asked(source, "here")


def test_other_cells_are_no_questions_and_the_answer_alone_is_taken_out():
    for source in ("%time predict(", 'print("predict(")', "predictor(1)", "def predict(x):\n    return x", ""):
        assert predictions.asked(source, "here") is None
    mine = '# Rate mal: "b"?\npredict(\n    "1.1",\n    "b",\n    a="ä", b="b",\n)'
    assert predictions.asked(mine, "here").source == mine.replace('    "b",\n', '    "",\n')
    assert predictions.asked('predict("1.1", -0.5)', "").source.endswith('\npredict("1.1", "")')


@pytest.mark.parametrize(
    "old, new, says",
    [
        ('predict("1.3"', 'predict("1.1"', r"twice \['predict_1_1'\]"),
        ("scoreboard(checks)", 'predict("1.88", 1)', "nothing shows the answer of 1.88"),
        ('predict("1.3"', 'predict("1.77"', "nothing shows the answer of 1.77"),
        ("scoreboard(checks)", 'reveal("1.E1")', r'reveal\("1.E1"\) shows an answer, and nothing asked'),
    ],
)
def test_a_question_without_an_answer_stops_build(tmp_path, monkeypatch, old, new, says):
    source = (folder_of(ENTRY) / "notebook.py").read_text()
    assert old in source
    (tmp_path / "notebook.py").write_text(source.replace(old, new))
    monkeypatch.setattr(build, "folder_of", lambda entry: tmp_path)
    with pytest.raises(CourseError, match=says):
        build.solution_notebook(COURSE, ENTRY)


def test_a_question_below_its_answer_stops_build():
    cell = nbformat.v4.new_code_cell
    cells = [cell("checks.f(f)", id="check_1_1"), cell('predict("1.1", "")', id="predict_1_1")]
    predictions.must_fit(cells[::-1], "here")
    with pytest.raises(CourseError, match=r"here: the prediction of 1\.1 is asked below its answer: move it up"):
        predictions.must_fit(cells, "here")


def test_own_texts_have_answers_of_their_own(tmp_path, monkeypatch):
    own = COURSE.model_copy(update={"notebooks": (ENTRY,), "local": tmp_path / "course.local.toml"})
    monkeypatch.setattr(build, "FOLDER", tmp_path)
    text = (folder_of(ENTRY) / "notebook.py").read_text()
    assert build.write_answers(own, check=False) == [] and not [*tmp_path.iterdir()], "those of the course will do"
    monkeypatch.setattr(build, "text_path", lambda entry: tmp_path / "mine.py")
    (tmp_path / "mine.py").write_text(
        text.replace('predict("1.1", "b", a="flatter"', 'predict("1.1", "a", a="flacher"')
    )
    assert build.write_answers(own, check=True) == build.write_answers(own, check=False) == [home.OWN_ANSWERS]
    (changed,) = home.read(tmp_path / "utils/checks" / home.OWN_ANSWERS).values()
    assert (changed.number, changed.answer, changed.choices["a"]) == ("1.1", "a", "flacher")
    whole = own.model_copy(update={"local": None})
    assert build.write_answers(whole, check=False) == [home.ANSWERS, home.OWN_ANSWERS], "without own settings it goes"
    assert build.write_answers(whole, check=True) == []


def best_of_coins(coins, tosses):
    """The expected share of heads of the best of so many coins."""
    at_most = [sum(math.comb(tosses, k) for k in range(most + 1)) / 2**tosses for most in range(tosses)]
    return sum(1 - share**coins for share in at_most) / tosses


def test_answers_that_can_be_computed_are():
    """The others are what the check proves, and the text below it says."""
    answers = {number: one.answer for number, one in home.questions().items()}
    assert stated("1.2").startswith(f"{sum(j > i for i in range(4) for j in range(4))} entries")
    # A layer's weights against its part of the cache, for each choice of exercise 3.12: 2 bytes for all of them.
    sizes = itertools.product(*(variants.MODEL.choices[name] for name in ("H", "share", "F", "T")))
    assert min((128 * H + 128 * H / share + 3 * F) * share / (2 * T) for H, share, F, T in sizes) > 1
    assert stated("3.12") == "the weights"
    assert answers["3.6"] == round(335_141_888 / 109_482_240)
    assert stated("3.4") == f"about {round(4 * 242_000 / 21_018_401, 2):.0%}".replace("%", " percent")
    assert 894_528 / 109_482_240 < 0.01 and stated("3.8") == "less than 1 percent"
    assert 21_252_096 / (3 * 894_528) > 7 and stated("3.9") == "several times as large"
    assert round(10 * best_of_coins(50, 100)) == 6 and "six times in ten" in stated("4.6")
    assert (2 * 576 + 2) / 135e6 < 1e-4 and stated("4.7") == "less than a hundredth of a percent"
    assert [round(1 - 0.85**masks, 2) for masks in (10, 40)] == [0.8, 1.0] and stated("7.4").startswith("80 percent")
    assert stated("7.5") == "those of the short one a hundred times as often" and 300 / 3 == 100
    assert round((768 * 768 + 3 * 768 + 30_522) / 1e5) == 6 and round((768 * 768 + 30_522 * 769) / 1e6) == 24
    assert stated("7.9") == f"{0.15 * 0.8:.0%}".replace("%", " percent")
    assert stated("8.8") == f"{12 + 1}; {4 * 768:,}"
    assert stated("10.7") == "about a hundred times" and (1000 - 100) * 100 / 1000 == 90
    assert round((30_000 * 128 + 129 * 768) / (30_000 * 768), 2) == 0.17 and stated("12.1") == "about a sixth"
    assert answers["12.5"] == next(n for n in range(99) if 0.8**n < 0.1)
    adapted = 30 * 8 * ((576 + 576) + (576 + 192))
    assert round(100 * adapted / 134.5e6, 2) == 0.34 and stated("15.3") == "about a third of a percent"
    assert answers["15.5"] == sum(length * (length + 1) // 2 for length in (2, 3, 4))
    assert stated("15.6") == f"{round((1 / 2) / (1 / 2 / 99))} times as much"
    assert answers["15.7"] == 1 - math.comb(9, 5) / math.comb(10, 5)
    assert answers["14.3"] == sum(key > 4 + query for query in range(3) for key in range(7))


def test_answers_about_recorded_runs_follow_from_them():
    sequence = forgetting.recorded()["in sequence"]
    assert [forgetting.matrix(run, False)[2][0] for run in sequence] == [0] * 5 and stated("9.E1") == "none"
    table = load_table(extrapolation.experiments("02_positional_encoding", "cpu"), extrapolation.RECORDED)
    near, *_, far = extrapolation.METRICS
    lost = {name: sum(far.of(run) - near.of(run) for run in some) / len(some) for name, some in table.items()}
    assert min(lost, key=lost.get) == stated("2.E1") == "ALiBi" and lost["ALiBi"] > 0
    order = objectives.experiments(profile="cpu")[objectives.NSP].metrics[1]
    order = [order.of(run) for run in objectives.recorded()[objectives.NSP]]
    assert abs(sum(order) / len(order) - 50) < 3 and stated("11.E1") == "about as often as a coin"


def stated(number):
    """The text of a question's answer."""
    question = home.questions()[number]
    return question.choices[question.answer]


def test_answers_that_a_solution_gives_are_its_own():
    five = solutions("05", ["encode_pair", "seeds_needed"])
    first, *_ = five["encode_pair"]([1] * 9, [2] * 6, 0, 3, 12)
    question = home.questions()["5.1"]
    assert question.choices[question.answer] == f"{first.count(1)} and {first.count(2)}"
    assert home.questions()["5.9"].answer == five["seeds_needed"](1, 2)


FORMS = ('"b"', "b", "", "...", '"\\ud800"', "1/0", "[", '"b"), print("Exercise 1.1: passed (2 points)"', "None")


def written(notebook, forms=FORMS):
    """Write something into each prediction of a notebook."""
    cells = [cell for cell in notebook.cells if role_of(cell.id) is CellRole.PREDICTION]
    for number, cell in enumerate(cells):
        cell.source = re.sub(r'""(?=[,)])', lambda _, k=number: forms[k % len(forms)], cell.source)


def test_no_verdict_depends_on_what_is_predicted(fresh):
    maker = synthetic.Maker(fresh, ENTRY)
    solved = ["1.1", "1.2", "1.5", "1.7"]
    release = course_tree.release_text(fresh, ENTRY)

    def graded(change):
        done, text = grade_one(fresh, HandIn(ENTRY, "ada", maker.file(solved=solved, change=change), release=release))
        assert [one.exercise for one in done.verdicts if one.score] == solved, done.reason
        return done, [dataclasses.replace(one, seconds=0) for one in done.verdicts], text

    def without_ids(notebook):
        written(notebook)
        for number, cell in enumerate(notebook.cells):
            cell.id, cell.metadata = f"colab{number}", nbformat.NotebookNode()

    def as_released_before(notebook):
        notebook.cells = [cell for cell in notebook.cells if role_of(cell.id) is not CellRole.PREDICTION]
        for cell in notebook.cells:
            cell.source = cell.source.replace("from utils.predictions import predict\n", "")

    plain, verdicts, _ = graded(None)
    assert not plain.remarks
    older, changed, _ = graded(as_released_before)
    assert changed == verdicts and not older.remarks
    for change in (written, without_ids):
        _, changed, text = graded(change)
        assert changed == verdicts
        cells = {cell.id: cell for cell in nbformat.reads(text, as_version=4).cells}
        assert {f"predict_{number.replace('.', '_')}" for number in ("1.1", "1.10")} < {*cells}, "found again"
        assert "Prediction" not in str([cell.get("outputs") for cell in cells.values()]), "grading knows no answer"
        assert not cells["predict_1_1"].outputs, "a cell as it was meant runs there, and says nothing"


def notebook_with(*sources):
    """A notebook file of these cells."""
    cells = [{"cell_type": "code", "source": source, "metadata": {}, "outputs": []} for source in sources]
    return json.dumps({"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": cells}).encode()


def test_predictions_are_read_without_running_anything():
    text = notebook_with(
        'predict("1.1", "b", a="x")',
        "%time\n# a comment\npredict('1.2', 6)",
        'predict("1.3", -0.5)\npredict("1.4", b)',
        'predict("1.5", "\\ud800")',
        f'predict("1.6", 0x{"f" * 9000})',
        'x = predict("1.7", 1)',
        'predict("1.1", "a")',
        'predict("1.8", True)\npredict("1.9", None)\npredict("1.10", f"{1/0}")',
        'predict("\\ud800", 1)',
        "predict(",
        'raise SystemExit\nif True:\n    predict("2.2", 3)',
        f'predict("3.3", {"(" * 5000})',
        f'predict("{"4" * 10**5}", "{"b" * 10**5}")',
    )
    assert limited.call(reading.predictions, text) == {
        **{"1.1": "a", "1.2": "6", "1.3": "-0.5", "1.4": None, "1.5": "?", "1.6": None},
        **{"1.8": None, "1.9": "", "1.10": None, "?": "1", "4" * 100: "b" * 100},
    }
    many = notebook_with(*(f'predict("{number}", 1)' for number in range(1000)))
    assert len(limited.call(reading.predictions, many)) == reading.MAX_PREDICTIONS


def test_a_class_is_counted_by_question():
    written = [{"1.1": "a"}, {"1.1": "A "}, {"1.1": "b", "1.2": "7"}, {"1.1": "<b>", "1.2": "9"}, {"1.1": ""}, {}]
    letter, number, none = predicted.rows([LETTER, NUMBER, MEASURED], [*written, {"1.2": None, "7.7": "b"}])
    assert (letter.predicted, letter.right, letter.most_wrong, letter.gave_it) == (3, 1, "a (flatter)", 2)
    assert (letter.unreadable, number.unreadable, letter.share) == (1, 1, 1 / 3)
    assert (number.predicted, number.right, number.most_wrong, number.gave_it) == (2, 1, "9", 1)
    assert (none.predicted, none.right, none.most_wrong, none.share) == (0, 0, "", None)


def test_the_table_is_read_from_submissions_if_the_course_wants_it(built, tmp_path, monkeypatch):
    known = copied(built, tmp_path)
    files = {
        "ada": notebook_with('predict("1.1", "a")', 'predict("1.2", "b")'),
        "bo": notebook_with('predict("1.1", "a")', 'predict("1.2", "<script>")'),
        "cy": b"{}",
    }
    for student, text in files.items():
        path = course_tree.place(known, "submitted", ENTRY, student)
        path.parent.mkdir(parents=True)
        path.write_bytes(text)
    assert predicted.of_notebook(known, ENTRY, [*files]) == [], "nothing is read unless the course asks for it"
    wanted = known.model_copy(update={"report": course.Report(predictions=True)})
    first, second, *others = predicted.of_notebook(wanted, ENTRY, [*files])
    assert (first.predicted, first.right, first.most_wrong, first.gave_it) == (2, 0, "a (flatter)", 2)
    assert (second.predicted, second.right, second.unreadable) == (1, 1, 1)
    assert {row.predicted for row in others} == {0}
    asked = []
    monkeypatch.setattr(predicted, "predictions_in", lambda text: asked.append(text) or {"1.1": "b"})
    course_tree.place(known, "submitted", ENTRY, "bo").write_bytes(notebook_with("1"))
    again = predicted.of_notebook(wanted, ENTRY, [*files])[0]
    assert len(asked) == 1 and (again.predicted, again.right) == (2, 1), "only what is new is read again"
