"""Checks with parts: what is lost alone, what costs the whole exercise, and that no part is won by looking it up."""

import dataclasses
import importlib.util

import pytest
import torch

from autograder import course
from autograder.author import answers, build, checks
from autograder.author import parts as authors_parts
from autograder.course import CourseError
from utils.grading import dispatch, parts
from utils.grading.check import CheckFailed, Scoreboard, check
from utils.grading.parts import part
from utils.grading.remote import StudentError
from utils.grading.verdict import Outcome, Part, Verdict

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


@pytest.mark.parametrize(
    "f, g, score, outcome, says",
    [
        (right_f, right_g, 4, Outcome.PASSED, "passed (4 points)"),
        (right_f, only_0, 3, Outcome.WRONG, "passed in part (3 of 4 points).\ng: g(1) is not 2."),
        (only_0, right_g, 2, Outcome.WRONG, "passed in part (2 of 4 points).\nf: f(1) is not 1."),
        (only_0, only_0, 1, Outcome.WRONG, "passed in part (1 of 4 points).\nf: f(1) is not 1.\ng: g(1) is not 2."),
        (right_f, raises, 3, Outcome.ERROR, "passed in part (3 of 4 points).\ng: your code raised KeyError"),
        (right_f, lambda x: "2", 3, Outcome.WRONG, "g: g(1) is not 2."),
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


def test_a_blank_answer_ends_the_check():
    found = three.verdict(lambda request: dispatch.answer({"f": right_f, "g": blank}, request), [])
    assert found.outcome is Outcome.BLANK and found.score == 0 and found.parts == ()


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
    with pytest.raises(CheckFailed, match="cannot be checked here"):
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
    assert not StudentError("x").ends_check and StudentError("x", blank=True).ends_check


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
        ("    assert f(3)", '    with part("three", 1):\n        assert f(3)', "more has parts, and is no check"),
        ('@check("9.1", points=3)\n', "", "three has parts, and is no check"),
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
    known = checks._module(course.folder_of(entry) / "private_checks.py")
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
