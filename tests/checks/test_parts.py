"""Checks with parts: what is lost alone, what costs the whole exercise, and that no part is won by looking it up."""

import dataclasses
import datetime
import importlib.util
import json

import nbformat
import pandas
import pytest
import torch
from bs4 import BeautifulSoup
from helpers import copied

from autograder import course, synthetic
from autograder.author import answers, build, checks
from autograder.author import parts as authors_parts
from autograder.cells import CellRole, cell_id
from autograder.course import CourseError
from autograder.gradebook import course_tree, gradebook_writer
from autograder.grading import grade
from autograder.grading.grading_record import RECORD, GradedVerdict, load_record, verdict_path
from autograder.reports import feedback, report
from utils.grading import dispatch, forbidden, parts
from utils.grading.check import CheckFailed, Scoreboard, check
from utils.grading.parts import part
from utils.grading.remote import StudentError
from utils.grading.verdict import CONTROL, Outcome, Part, Verdict

COURSE = course.load()
WITH_PARTS = [
    pytest.param(entry, one, id=number)
    for entry in COURSE.notebooks
    for number, one in checks.public_checks(entry).items()
    if authors_parts.parts_of(one)
]


def must(holds, sentence):
    """An assertion as checks have it; pytest adds words to those of test files."""
    if not holds:
        raise AssertionError(sentence)


@check("9.1", points=4, forbids=("sorted",))
def three(f, g):
    """A point for the core, and three in two parts."""
    must(f(0) == 0, "f(0) is not 0.")
    with part("f", 2):
        must(f(1) == 1, "f(1) is not 1.")
    with part("g", 1):
        must(g(1) == 2, "g(1) is not 2.")
    must(f(2) != 5, "f(2) is 5.")


def verdict(f, g):
    return three.verdict(lambda request: dispatch.answer({"f": f, "g": g}, request), [])


def right_f(x):
    return x


def right_g(x):
    return 2 * x


def raises(*given):
    raise KeyError("lost")


def blank(*given):
    raise NotImplementedError


def only_0(x):
    return 0


def only_in_core(x):
    return blank() if x == 1 else x


@pytest.mark.parametrize(
    "f, g, score, outcome, says",
    [
        (right_f, right_g, 4, Outcome.PASSED, "passed (4 points)"),
        (right_f, only_0, 3, Outcome.WRONG, "passed in part (3 of 4 points).\ng: g(1) is not 2."),
        (only_0, right_g, 2, Outcome.WRONG, "passed in part (2 of 4 points).\nf: f(1) is not 1."),
        (only_0, only_0, 1, Outcome.WRONG, "passed in part (1 of 4 points).\nf: f(1) is not 1.\ng: g(1) is not 2."),
        (right_f, raises, 3, Outcome.ERROR, "passed in part (3 of 4 points).\ng: Your code raised KeyError"),
        (right_f, lambda x: "2", 3, Outcome.WRONG, "g: g(1) is not 2."),
        (right_f, blank, 3, Outcome.WRONG, "passed in part (3 of 4 points).\ng: not attempted yet."),
        (only_0, blank, 1, Outcome.WRONG, "f: f(1) is not 1.\ng: not attempted yet."),
        (only_in_core, blank, 1, Outcome.WRONG, "passed in part (1 of 4 points).\nf: not attempted yet.\ng: not attem"),
        (lambda x: x + 1, right_g, 0, Outcome.WRONG, "f(0) is not 0."),
        (lambda x: 5 if x == 2 else x, right_g, 0, Outcome.WRONG, "f(2) is 5."),
        (lambda x: 5 if x == 2 else x, only_0, 0, Outcome.WRONG, "f(2) is 5."),
        (right_f, lambda x: sorted([x])[0], 0, Outcome.WRONG, "`sorted` does all the work"),
    ],
)
def test_a_part_costs_its_points_and_all_else_the_exercise(f, g, score, outcome, says):
    found = verdict(f, g)
    assert (found.score, found.outcome) == (score, outcome)
    assert says in found.sentence() and found.in_parts == (0 < score < 4)


@pytest.mark.parametrize("part_name", ["", "f"])
def test_what_a_verdict_repeats_of_a_student_does_not_reach_a_terminal_or_a_page_as_it_is(part_name):
    """Whether the exercise or a part is lost: in the record, in the graded notebook, in feedback."""
    repeated = "\x1b[31mred\u202e" + "x" * 5000  # such as the name of a class
    lost = verdict(right_f, right_g).losing(part_name, repeated)
    kept = GradedVerdict(**vars(lost), instructor_only=repeated)
    lost_parts = [one for one in kept.parts if one.outcome is Outcome.WRONG]
    texts = [kept.sentence(), kept.message, kept.instructor_only, *(one.message for one in lost_parts)]
    assert len(texts) == 3 + bool(part_name)
    assert all("red" in text and len(text) < 2100 and not CONTROL.search(text) for text in texts)


def test_what_is_blank_outside_of_all_parts_ends_the_check():
    found = verdict(blank, right_g)
    assert found.outcome is Outcome.BLANK and found.score == 0 and found.parts == ()


def test_where_all_parts_are_blank_the_exercise_is():
    @check("9.2", points=2)
    def both(f, g):
        with part("one", 1):
            f(1)
        with part("other", 1):
            g(1)

    found = both.verdict(lambda request: dispatch.answer({"f": blank, "g": blank}, request), [])
    assert (found.outcome, found.score, found.sentence()) == (Outcome.BLANK, 0, "Exercise 9.2: not attempted yet.")
    found = both.verdict(lambda request: dispatch.answer({"f": blank, "g": raises}, request), [])
    assert (found.outcome, found.score) == (Outcome.ERROR, 0) and found.message.startswith("one: not attempted yet.")


@pytest.mark.parametrize("f, g", [(lambda x: x[0], right_g), (right_f, lambda x: torch)])
def test_a_value_of_another_kind_costs_no_more_than_its_part(f, g):
    assert verdict(f, g).score in (0, 3)


def test_an_import_that_fails_here_ends_the_check(monkeypatch):
    @check("9.2", points=2)
    def imports(f):
        with part("one", 1):
            import nothing_of_this_name  # noqa: F401
        with part("other", 1):
            assert f(1) == 1

    with pytest.raises(ImportError):
        imports.verdict(lambda request: dispatch.answer({"f": right_f}, request), [])
    with pytest.raises(CheckFailed, match="This cannot be checked here"):
        imports(right_f)
    assert imports.latest.score == 0


def test_a_kernel_that_is_gone_ends_the_check():
    from autograder.sandbox.kernel import KernelGone

    def ask(request):
        raise KernelGone("it is gone")

    @check("9.2", points=2)
    def asks(f):
        with part("one", 1):
            f(1)
        with part("other", 1):
            pass

    found = asks.verdict(ask, [])
    assert (found.outcome, found.score, found.parts) == (Outcome.ERROR, 0, ())
    assert not StudentError("x").ends_check and not StudentError("x", blank=True).ends_check


def test_outside_of_a_public_check_a_part_is_nothing_but_its_block():
    """In a private check, say: whatever fails in it fails."""
    with pytest.raises(AssertionError, match="no"), part("one", 1):
        raise AssertionError("no")
    with parts.each_alone() as found, part("one", 1):
        raise AssertionError("no")
    assert [one.name for one in found] == ["one"]


def test_points_that_are_no_whole_numbers_add_up():
    found = Verdict("9.1", 0.3, Outcome.WRONG, parts=tuple(Part(name, 0.1, Outcome.WRONG, "no") for name in "abc"))
    assert found.score == 0 and not found.in_parts


def test_at_home_it_says_so_and_the_scoreboard_too(capsys):
    with pytest.raises(CheckFailed) as failed:
        three(right_f, only_0)
    assert str(failed.value) == "Exercise 9.1: passed in part (3 of 4 points).\ng: g(1) is not 2."
    table = Scoreboard([("9.1", 4, three.latest), ("9.2", 1, None)])
    assert repr(table).splitlines() == [
        "  9.1  passed in part      4",
        "  9.2  check not run yet   1",
        "3 of 5 points, written questions aside",
    ]
    assert "<td>&#9680;</td><td style='text-align:left'>passed in part</td><td>3 of 4</td>" in table._repr_html_()
    three(right_f, right_g)
    assert capsys.readouterr().out == "Exercise 9.1: passed (4 points)\n"


class Hidden:
    """A private check that fails or not, and notes that it was asked."""

    def __init__(self, part, fails, asked):
        self.part, self.fails, self.asked, self.tells = part, fails, asked, f"{part or 'all'} is wrong elsewhere."

    def failure(self):
        self.asked.append(self.part)
        return f"{self.part}: for you" if self.fails else None


@pytest.mark.parametrize(
    "g, fail, score, asked, says",
    [
        (right_g, (), 4, ["", "f", "g", "f"], ""),
        (right_g, ("f",), 2, ["", "f", "g"], "f: f is wrong elsewhere."),
        (right_g, ("f", "g"), 1, ["", "f", "g"], "f: f is wrong elsewhere.\ng: g is wrong elsewhere."),
        (right_g, ("", "f"), 0, [""], "all is wrong elsewhere."),
        (only_0, (), 3, ["", "f", "f"], "g: g(1) is not 2."),
        (only_0, ("f",), 1, ["", "f"], "f: f is wrong elsewhere.\ng: g(1) is not 2."),
    ],
)
def test_a_private_check_takes_off_the_points_of_its_part(g, fail, score, asked, says):
    met = []
    hidden = [Hidden(name, name in fail, met) for name in ("", "f", "g", "f")]
    found, private = checks.whole_verdict(verdict(right_f, g), hidden, Hidden.failure)
    assert (found.score, met, found.message) == (score, asked, says)
    assert private == "; ".join(f"{name}: for you" for name in asked if name in fail)
    assert "for you" not in found.sentence() + str(found.parts)


def test_nothing_private_is_asked_where_nothing_is_left():
    met = []
    lost, _ = checks.whole_verdict(verdict(lambda x: 7, right_g), [Hidden("", True, met)], Hidden.failure)
    assert lost.score == 0 and met == []


MODULE = """
from utils.grading.check import check, stretch
from utils.grading.parts import part


@check("9.1", points=3)
def three(f):
    assert f(0) == 0
    with part("one", 1):
        assert f(1) == 1
    with part("two", 1.5):
             assert f(2) == 2


@stretch("9.S1")
def more(f):
    assert f(3)
"""
GOOD = {"9.1": ["one", "two", "two", ""]}


def module_of(tmp_path, text):
    path = tmp_path / f"made_{abs(hash(text))}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_names_and_points_are_read_without_running_it(tmp_path):
    made = module_of(tmp_path, MODULE)
    assert authors_parts.parts_of(made.three) == {"one": 1, "two": 1.5}
    assert authors_parts.parts_of(made.more) == {}
    authors_parts.must_fit(made, GOOD)


@pytest.mark.parametrize(
    "old, new, says",
    [
        ("    assert f(0) == 0\n", '    """Nothing but parts."""\n', "nothing outside of the parts"),
        ('part("two", 1.5)', 'part("two", 2.5)', "has 3 points, and its parts have 3.5"),
        ('part("two", 1.5)', 'part("one", 1.5)', 'there are two parts "one"'),
        ('part("two", 1.5)', 'part("two", 0)', "with its name and its points"),
        ('part("two", 1.5)', 'part("two", True)', "with its name and its points"),
        ('part("two", 1.5)', 'part("two", 1 + 0.5)', "with its name and its points"),
        ('part("two", 1.5)', 'part("t" + "wo", 1.5)', "with its name and its points"),
        ('part("two", 1.5)', 'part(name="two", points=1.5)', "with its name and its points"),
        ('part("two", 1.5)', 'part("two", 1), open("x")', "with its name and its points"),
        ('    with part("two"', '    for _ in "1":\n     with part("two"', "directly in the body"),
        ('    with part("two"', '    if f:\n     with part("two"', "directly in the body"),
        ('    with part("two"', '    def inner():\n     with part("two"', "directly in the body"),
        ('    with part("two"', '    with open("x"):\n     with part("two"', "directly in the body"),
        ('    with part("two"', '        with part("two"', "directly in the body"),
        ('    with part("two"', '    parts = part("three", 1)\n    with part("two"', "directly in the body"),
        ('    with part("two"', '    if f(9):\n        return\n    with part("two"', "has no `return`"),
        ("    assert f(3)", '    with part("three", 1):\n        assert f(3)', "more has parts, and is not a check"),
        ('@check("9.1", points=3)\n', "", "three has parts, and is not a check"),
    ],
)
def test_parts_that_are_written_otherwise_are_refused(tmp_path, old, new, says):
    assert MODULE.count(old) == 1
    with pytest.raises(CourseError, match=says.replace("(", r"\(")):
        authors_parts.must_fit(module_of(tmp_path, MODULE.replace(old, new)), GOOD)


@pytest.mark.parametrize(
    "asked, says",
    [
        ([], 'no private check is written for the part "one"'),
        (["one", ""], 'no private check is written for the part "two"'),
        (["one", "two"], "0.5 of its points are in no part"),
        (["one", "two", "", "three"], 'has no part "three"'),
    ],
)
def test_points_that_visible_cases_could_win_are_refused(tmp_path, asked, says):
    made = module_of(tmp_path, MODULE)
    with pytest.raises(CourseError, match=says):
        authors_parts.must_fit(made, {"9.1": asked})
    assert authors_parts.must_fit(made, GOOD) is None


def test_the_build_asks_whether_they_fit(monkeypatch):
    entry = COURSE.notebooks[0]
    build.solution_notebook(COURSE, entry)
    (number, *_) = checks.public_checks(entry)
    checks.private_checks(entry)[number]
    known = checks.load_module(course.folder_of(entry) / "private_checks.py")
    (name, one), *_ = ((key, one) for key, one in vars(known).items() if isinstance(one, checks.PrivateCheck))
    monkeypatch.setattr(known, name, dataclasses.replace(one, part="nowhere"))
    with pytest.raises(CourseError, match='has no part "nowhere"'):
        build.solution_notebook(COURSE, entry)


def test_what_an_answer_loses_is_its_score(tmp_path):
    made = module_of(tmp_path, MODULE).three
    case = answers.AnswerCase("9.1", "it", "", says="no")
    assert case.score(made) == 0
    assert dataclasses.replace(case, says=None).score(made) == 3
    assert dataclasses.replace(case, loses=("one",)).score(made) == 2
    assert dataclasses.replace(case, loses=("one", "two")).score(made) == 0.5
    with pytest.raises(CourseError, match="loses"):
        dataclasses.replace(case, loses=("three",)).score(made)


TRIVIAL = {
    "blank": "def {name}(*given, **named):\n    raise NotImplementedError\n",
    "raises": "def {name}(*given, **named):\n    raise ValueError('no')\n",
    "the first argument": "def {name}(*given, **named):\n    return given[0]\n",
    "the last argument": "def {name}(*given, **named):\n    return given[-1]\n",
    **{
        f"always {value}": f"def {{name}}(*given, **named):\n    return {value}\n"
        for value in ("None", "0", "1.0", "True", "(0.0, 1.0)", "torch.zeros(3, 5)", "torch.tensor(0.0)")
    },
}


@pytest.mark.parametrize("trivial", TRIVIAL)
@pytest.mark.parametrize("entry, one", WITH_PARTS)
def test_an_answer_that_does_nothing_wins_no_part(entry, one, trivial):
    source = "import torch\n" + "\n".join(TRIVIAL[trivial].format(name=name) for name in one.names)
    namespace = answers.at_home(build.student_notebook(COURSE, entry), source, trivial)

    def ask(request):
        return dispatch.answer(namespace, request)

    hidden = checks.private_checks(entry)[one.exercise]
    found = one.verdict(ask, [forbidden.read_cell(source)])
    assert found.score == 0 and found.outcome is not Outcome.PASSED, found
    assert (found.outcome is Outcome.BLANK) == (trivial == "blank")
    assert checks.whole_verdict(found, hidden, lambda item: item.failure(ask))[0].score == 0


def test_the_course_has_checks_with_parts_and_answers_that_lose_each_of_them():
    assert len(WITH_PARTS) >= 3
    for entry, one in (parameter.values for parameter in WITH_PARTS):
        lost = {name for case in answers.answer_cases(entry) if case.exercise == one.exercise for name in case.loses}
        assert lost == {*authors_parts.parts_of(one)}, one.exercise


ENTRY, NUMBER = COURSE.notebook("03"), "3.10"
KNOWN = {8, 12, 30, 200}  # the widths that its public check asks for
# What comes after the solution of 3.10, whose parts have 2 points and 1, and what is won then.
ANSWERS = {
    "rita": (3, ""),
    "flora": (2, "def flops_per_token(T, D, F, L, V):\n    return 7\n"),
    "mona": (1, "def training_memory(B, T, D, F, L, H, parameters, trained):\n    raise KeyError('x')\n"),
    "priya": (
        2,
        f"right = flops_per_token\ndef flops_per_token(T, D, *s):\n    return right(T, D, *s) * (D in {KNOWN})\n",
    ),
    "kilian": (0, "import os\ndef flops_per_token(T, D, F, L, V):\n    os._exit(1)\n"),
    "bianca": (2, "def flops_per_token(T, D, F, L, V):\n    raise NotImplementedError\n"),
    "boris": (0, "def flops_per_token(*_):\n    raise NotImplementedError\ntraining_memory = flops_per_token\n"),
    "nils": (2, "def flops_per_token(*_):\n    return mth.pi\n1 / 0\n"),
    "stefan": (0, "del flops_per_token\nno_such_name\n"),
}


@pytest.fixture(scope="module")
def tree(all_built, tmp_path_factory):
    """A course of one notebook that has a check with parts."""
    known = copied(all_built, tmp_path_factory.mktemp("parts"))
    known = known.model_copy(update={"notebooks": (ENTRY,), "late": course.Late(percent=10)})
    course_tree.build_tree(known)
    return known


@pytest.fixture(scope="module")
def graded(tree):
    """Submissions that answer this exercise alone, graded; by student."""
    maker = synthetic.Maker(tree, ENTRY)
    for student, (_, more) in ANSWERS.items():
        source = f"{maker.reference[NUMBER]}\n\n{more}"
        file = maker.file({NUMBER: source}, solved=())
        place = course_tree.place(tree, "submitted", ENTRY, student)
        course_tree.write(place, file)
        when = course_tree.due(ENTRY) + datetime.timedelta(days=1 if student == "flora" else -1, seconds=60)
        course_tree.write(place.with_name("timestamp.txt"), course_tree.timestamp(when))
    return {one.student: one for one in grade.grade(tree, [ENTRY])}


def of(record):
    (found,) = [one for one in record.verdicts if one.exercise == NUMBER]
    return found


@pytest.mark.parametrize("student", ANSWERS)
def test_the_judge_takes_off_what_the_parts_cost(graded, student):
    record = graded[student]
    assert record.status == "graded" and record.score == ANSWERS[student][0], record
    found = of(record)
    assert found.score == ANSWERS[student][0] and found.in_parts == (found.score in (1, 2))


def test_what_is_said_of_each(graded):
    assert of(graded["flora"]).message.startswith("flops_per_token: The FLOPs are not those")
    assert of(graded["mona"]).message.startswith("training_memory: Your code raised KeyError")
    assert of(graded["mona"]).outcome is Outcome.ERROR
    private = of(graded["priya"])
    assert private.message.startswith(
        "flops_per_token: `flops_per_token(T, D, F, L, V)`: it is wrong for other inputs. It should be right for"
    )
    name, colon, _ = private.instructor_only.partition(": ")
    assert name.startswith("flops_per_token_") and colon and name not in private.sentence()
    assert name not in str(private.parts)
    assert "kernel died" in of(graded["kilian"]).message
    assert of(graded["boris"]).outcome is Outcome.BLANK
    assert of(graded["nils"]).message.startswith(
        "flops_per_token: Your code raised NameError: name 'mth' is not defined"
    )
    assert of(graded["bianca"]).message == "flops_per_token: not attempted yet."
    assert of(graded["stefan"]).message.startswith("its cell stopped: NameError")


def test_gradebook_graded_notebook_and_record_hold_the_points(tree, graded):
    with gradebook_writer.open_recorder(tree) as recorder:
        for student, (score, _) in ANSWERS.items():
            name = cell_id(CellRole.CHECK, NUMBER)
            assert recorder.gradebook.find_grade(name, ENTRY.name, ENTRY.name, student).auto_score == score
            text = course_tree.place(tree, "autograded", ENTRY, student).read_text()
            cells = {cell.id: cell for cell in nbformat.reads(text, as_version=4).cells}
            assert float(cells[name].outputs[-1].data["text/plain"]) == score
            assert load_record(tree, ENTRY, student) == graded[student]
    table = next(cell for cell in cells.values() if cell.source.strip() == "scoreboard(checks)")
    assert "3.10  error" in table.outputs[0].data["text/plain"]
    text = course_tree.place(tree, "autograded", ENTRY, "flora").read_text()
    assert "3.10  passed in part      3" in text


def test_a_record_of_before_there_were_parts_is_read(tree, graded):
    stated = json.loads(verdict_path(tree, ENTRY, "flora").read_text())
    assert any(one["parts"] for one in stated["verdicts"])
    for one in stated["verdicts"]:
        del one["parts"]
    read = RECORD.validate_python(stated)
    assert of(read).outcome is Outcome.WRONG and of(read).score == 0 and not of(read).in_parts
    right = RECORD.validate_json(json.dumps(json.loads(verdict_path(tree, ENTRY, "rita").read_text())))
    assert of(right).score == 3


def test_grading_again_and_regrading_keep_the_points(tree, graded):
    assert {one.student: one.score for one in grade.grade(tree, [ENTRY])} == {
        student: score for student, (score, _) in ANSWERS.items()
    }
    pairs = grade.regrade(tree, [ENTRY], [NUMBER], ["flora", "priya"])
    assert [(before.score, after.score) for before, after in pairs] == [(2, 2), (2, 2)]
    assert [of(after).parts for _, after in pairs] == [of(before).parts for before, _ in pairs]


def test_a_check_that_got_parts_gives_points_back(tree, graded, monkeypatch):
    """Graded without parts before, as in a record that was written then."""
    path = verdict_path(tree, ENTRY, "flora")
    stated = json.loads(path.read_text())
    for one in stated["verdicts"]:
        if one["exercise"] == NUMBER:
            one |= {"parts": [], "grader": "an earlier one"}
    path.write_text(json.dumps(stated))
    ((before, after),) = grade.regrade(tree, [ENTRY], students=["flora"])
    assert (before.score, after.score) == (0, 2)


def test_a_late_hand_in_loses_its_share_of_what_it_won(tree, graded):
    assert {student: one.penalty for student, one in graded.items() if one.penalty} == {"flora": pytest.approx(0.4)}
    report.write_csv(tree, [ENTRY], tree.tree / "out.csv")
    table = pandas.read_csv(tree.tree / "out.csv", dtype={"exercise": str}).set_index("student")
    mine = table[table.exercise == NUMBER]
    assert {student: mine.score[student] for student in ANSWERS} == {one: score for one, (score, _) in ANSWERS.items()}
    late = table[table.exercise == "late"]
    assert [*late.index] == ["flora"] and late.score.sum() == pytest.approx(-0.4)


def test_the_feedback_page_lists_the_parts(tree, graded):
    feedback.write_feedback(tree, [ENTRY])

    def item(student):
        path = course_tree.place(tree, "feedback", ENTRY, student).with_suffix(".html")
        listed = BeautifulSoup(path.read_text(), "html.parser").find("ol", class_="exercises")
        return next(one for one in listed("li") if one.h3 and f"Exercise {NUMBER}" in one.h3.text)

    found = item("priya")
    assert found["class"] == ["part"]
    assert found.find("p", class_="mark").text == "passed in part, 2 of 3 points" and not found.find_all("p", "said")
    assert [one.text for one in found.ul("li")] == [
        "training_memory (2 of 2 points): passed",
        "flops_per_token (0 of 1 point): flops_per_token(T, D, F, L, V): it is wrong for other inputs. "
        "It should be right for T >= 1, D >= 1, F >= 1, L >= 0, V >= 2.",
    ]
    assert [one["class"] for one in found.ul("li")] == [["passed"], ["wrong"]]
    assert "flops_per_token_" not in str(found)  # as private checks of its contract are called
    assert "passed, 3 of 3 points" in item("rita").text and not item("rita").ul
    assert "its cell stopped" in item("stefan").text and not item("stefan").ul


def test_where_all_parts_are_lost_the_page_lists_them_too():
    lost = Verdict("3.10", 3, Outcome.WRONG, "a: no\nb: never", (Part("a", 2, Outcome.WRONG, "no"),) * 1)
    assert feedback.described(lost)[:2] == ("part", "passed in part")
    lost = dataclasses.replace(lost, points=2)
    assert feedback.described(lost) == ("wrong", "", [("a", 0.0, 2, "no")])


def test_the_report_shows_a_part_as_a_part(tree, graded):
    soup = BeautifulSoup(report.write_report(tree, [ENTRY]).read_text(), "html.parser")

    def table(label):
        return soup.find("div", {"aria-label": f"{ENTRY.name}: {label}"})

    heads = [one.text for one in table("exercises")("th")]
    row = next(one for one in table("exercises")("tr") if one.td and one.td.text == NUMBER)
    counts = dict(zip(heads, (one.text.strip() for one in row("td")), strict=True))
    assert {name: counts[name] for name in ("passed", "in part", "wrong", "error", "not attempted")} == {
        "passed": "1",
        "in part": "5",
        "wrong": "0",
        "error": "2",
        "not attempted": "1",
    }
    marks = [one for one in table("students")("td", class_="part")]
    assert len(marks) == 5 and {one.text for one in marks} == {"\u25d0passed in part"}
    assert sorted(float(one["data-value"]) for one in marks) == [1, 2, 2, 2, 2]
    told = [[one.text for one in row("td")] for row in table("sentences")("tr")[1:]]
    said = [sentence for number, sentence, count in told if (number, count) == (NUMBER, "1")]
    assert any(one.startswith("flops_per_token: The FLOPs are not those") for one in said), told
