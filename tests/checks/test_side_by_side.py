"""What came and what should have come: shown at home where tensors differ, and nowhere in grading."""

import copy
import math
import re
import shutil
import sys
import types

import pytest
import torch
from bs4 import BeautifulSoup

from autograder import course, synthetic
from autograder.author import answers, build, checks
from autograder.gradebook import course_tree
from autograder.grading.grading_record import HandIn
from autograder.grading.worker import grade_one
from utils.grading import check as checking
from utils.grading import dispatch, expect, side_by_side
from utils.grading.check import CheckFailed, check
from utils.grading.parts import part
from utils.grading.side_by_side import Different

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
COURSE = course.load()
ENTRY = COURSE.notebooks[0]
NAN, INF = math.nan, math.inf


def table(came, wanted, tolerance=1e-4):
    return Different("it differs.", came, wanted, tolerance).table()


def test_both_are_printed_side_by_side_and_what_differs_is_marked(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    came = torch.tensor([[0.5, -INF, 2.0], [1.0, 3.0, 4.0]])
    shown = table(came, torch.tensor([[0.5, 0.0, 2.0], [1.0, 3.0, 4.5]]))
    assert repr(shown).splitlines() == [
        "2 of 6 entries differ; they are marked with *.",
        "your result:           the right result:",
        "      0     1     2         0    1    2",
        "0   0.5 *-inf     2    0  0.5   *0    2",
        "1     1     3    *4    1    1    3 *4.5",
    ]
    monkeypatch.setenv("COLUMNS", "30")
    narrow = repr(shown).splitlines()
    assert narrow[1] == "your result:" and narrow[5] == "the right result:" and len(narrow) == 9


@pytest.mark.parametrize(
    "came, wanted, left, right",
    [
        (torch.tensor([1, 2, 3, 4]), torch.tensor([1, 2, 3, 5]), "1 2 3 *4", "1 2 3 *5"),
        (torch.tensor([True, False] * 2), torch.tensor([True] * 4), "True *False True *False", "True *True True *True"),
        (torch.tensor([1.0, 2, 3, 4]), torch.tensor([1, 2, 3, 5]), "1 2 3 *4", "1 2 3 *5"),
        (torch.tensor([1.0, NAN, INF, -0.5]), torch.tensor([1, 2, INF, -0.5]), "1 *nan inf -0.5", "1 *2 inf -0.5"),
        (torch.tensor([1.0, NAN, 3, 4]), torch.tensor([1.0, NAN, 3, 4]), "1 *nan 3 4", "1 *nan 3 4"),
        (torch.tensor([1.0, 2, 3, 4]).bfloat16(), torch.tensor([1.0, 2, 3, 8]), "1 2 3 *4", "1 2 3 *8"),
        (torch.tensor([1.0, 2, 3, 0.10002]), torch.tensor([1, 2, 3, 0.10003]), "1 2 3 *0.10002", "1 2 3 *0.10003"),
        (torch.arange(8.0)[::2], torch.tensor([0.0, 2, 4, 7]), "0 2 4 *6", "0 2 4 *7"),
        (torch.ones(4, requires_grad=True), torch.zeros(4), "*1 *1 *1 *1", "*0 *0 *0 *0"),
    ],
    ids=[
        "ints",
        "bools",
        "floats and ints",
        "NaN and infinity",
        "both NaN",
        "bfloat16",
        "close",
        "strided",
        "gradient",
    ],
)
def test_entries_of_every_kind(came, wanted, left, right, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    lines = repr(table(came, wanted, 1e-6)).splitlines()
    assert (lines[3].split(), lines[6].split()) == (left.split(), right.split())


@pytest.mark.parametrize(
    "came, wanted",
    [
        (2.0, 3.0),
        (torch.tensor(2.0), torch.tensor(3.0)),
        (torch.tensor([2.0, 4.0]), torch.tensor([3.0, 4.0])),
        (torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[1.0, 2.0, 4.0]])),
        (torch.zeros(2, 3), torch.zeros(3, 2)),
        (torch.zeros(0, 4), torch.zeros(0, 4)),
        (torch.zeros(4), 3.0),
    ],
    ids=["numbers", "no axis", "two", "three", "shapes", "empty", "a tensor and a number"],
)
def test_no_table_gives_a_number_away_or_shows_nothing(came, wanted):
    assert table(came, wanted) is None


@pytest.mark.parametrize(
    "shape, at, told, rows, columns",
    [
        ((8, 8), (7, 7), None, range(8), range(8)),
        ((9, 3), (0, 0), "[0:8, 0:3] of shape (9, 3)", range(8), range(3)),
        ((40, 30), (20, 29), "[16:24, 22:30] of shape (40, 30)", range(16, 24), range(22, 30)),
        ((2, 3, 4), (1, 2, 3), "[1, 0:3, 0:4] of shape (2, 3, 4)", range(3), range(4)),
        ((2, 3, 1, 50), (1, 0, 0, 3), "[1, 0, 0:1, 0:8] of shape (2, 3, 1, 50)", range(1), range(8)),
        ((50,), (49,), "[42:50] of shape (50,)", (), range(42, 50)),
        ((4,), (2,), None, (), range(4)),
    ],
)
def test_of_a_large_tensor_the_piece_around_the_first_difference_is_shown(shape, at, told, rows, columns):
    came = torch.zeros(shape)
    came[at] = 5
    shown = table(came, torch.zeros(shape))
    said = shown.told("*")
    assert said.startswith(f"1 of {came.numel()} entries differ;") and (
        f"Shown is {told}." in said if told else "Shown" not in said
    )
    assert (shown.rows, shown.columns) == ([*rows], [*columns])
    assert sum(sum(row) for row in shown.marks) == 1 and sum(text == "5" for row in shown.came for text in row) == 1


def test_the_page_is_a_table_that_can_be_heard():
    soup = BeautifulSoup(table(torch.eye(4), torch.ones(4, 4))._repr_html_(), "html.parser")
    assert [one.caption.text for one in soup("table")] == ["your result", "the right result"]
    for one in soup("table"):
        assert (
            [head.text for head in one("th", scope="col")]
            == [head.text for head in one("th", scope="row")]
            == [*"0123"]
        )
        marked = [cell for cell in one("td") if "outline" in cell.get("style", "")]
        assert len(marked) == 12 and all(cell.text.startswith("≠ differs: ") for cell in marked)
        assert all(cell.span["aria-hidden"] == "true" for cell in marked), "the sign is not read aloud, the word is"
    assert "color:" not in str(soup) and "background" not in str(soup), "it takes the colours of the page around it"
    assert len(soup("div", tabindex="0")) == 2 and all(box["aria-label"] for box in soup("div", tabindex=True))
    assert "12 of 16 entries differ; they are marked with ≠." in soup.p.text


@check("9.1", points=2)
def two(f):
    """Two comparisons, each in a part of its own, after a number."""
    expect.close(f(0), 0.0, "f(0) is not 0.")
    with part("one", 1):
        expect.like(f(1), torch.arange(4.0), "f(1) is wrong.", {"f(1) counts down.": torch.arange(4.0).flip(0)})
    with part("other", 1):
        expect.close(f(2), torch.ones(2, 2), "f(2) is wrong.")


def told_of(*gives):
    with pytest.raises(CheckFailed) as failed:
        two(lambda n: copy.deepcopy(gives[n]))
    return str(failed.value)


def test_at_home_a_failed_check_shows_what_decided(capsys):
    told = "one: f(1) is wrong. Every number is wrong. At `[0]` your code gives 3, and 0 is right. "
    told += "It looks like this mistake: f(1) counts down."
    assert told_of(0.0, torch.arange(4.0).flip(0), torch.ones(2, 2)).endswith(told)
    printed = capsys.readouterr().out
    assert printed.startswith("4 of 4 entries differ; they are marked with *.\nyour result:") and "*3" in printed
    told_of(0.0, torch.zeros(4), torch.zeros(2, 2))
    printed = capsys.readouterr().out
    assert printed.count("your result:") == 2
    assert (
        printed.startswith("f(1) is wrong. Every number is 0. 3 of 4 entries differ")
        and "\nf(2) is wrong. 4 of 4 entries" in printed
    )
    assert told_of(7.5, torch.zeros(4), torch.zeros(2, 2)) == "Exercise 9.1: f(0) is not 0."
    assert capsys.readouterr().out == "", "of a number nothing is shown"
    two(lambda n: [0.0, torch.arange(4.0), torch.ones(2, 2)][n])
    assert capsys.readouterr().out == "Exercise 9.1: passed (2 points)\n"


def test_what_was_lost_before_the_whole_check_is_not_shown(capsys):
    @check("9.1", points=2)
    def last(f):
        with part("one", 1):
            expect.close(f(1), torch.ones(4), "f(1) is wrong.")
        assert f(2) == 2, "f(2) is not 2."

    with pytest.raises(CheckFailed, match=r"f\(1\) is wrong"):
        last(lambda n: [0, torch.zeros(4), 2][n])
    assert "your result:" in capsys.readouterr().out
    with pytest.raises(CheckFailed, match=r"9.1: f\(2\) is not 2"):
        last(lambda n: [0, torch.zeros(4), 3][n])
    assert capsys.readouterr().out == ""


def test_a_notebook_is_given_the_page_and_the_text(monkeypatch):
    shown = []
    display = types.SimpleNamespace(display=shown.append)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setattr(checking, "shell", lambda: types.SimpleNamespace(user_ns={}))
    told_of(0.0, torch.zeros(4), torch.ones(2, 2))
    assert [type(one) for one in shown] == [side_by_side.Table]
    assert "<table" in shown[0]._repr_html_() and "your result" in repr(shown[0])


def wrong_with_a_table():
    """The wrong answers to the first notebook that show a table at home, each with what it shows."""
    released, known = build.student_notebook(COURSE, ENTRY), checks.public_checks(ENTRY)
    for case in answers.answer_cases(ENTRY):
        if case.right or case.private or case.exercise not in ("1.1", "1.3"):
            continue
        namespace = answers.at_home(released, case.source, case.name)
        with side_by_side.kept() as found:
            known[case.exercise].verdict(lambda request, names=namespace: dispatch.answer(names, request), [])
        if found and found[-1].table():
            yield case, repr(found[-1].table())


def test_the_judge_keeps_and_shows_none(built, monkeypatch):
    cases = {case.exercise: case for case, _ in wrong_with_a_table()}
    assert len(cases) == 2, "these have tables at home"
    met = []

    def failed(self, *given):
        met.append(str(self))
        AssertionError.__init__(self, given[0])
        self.came, self.wanted, self.tolerance, self.scale = (*given[1:], 1.0)[:4]

    def never(*given, **named):
        raise RuntimeError("a table was made in grading")

    monkeypatch.setattr(Different, "__init__", lambda self, *given: (failed(self, *given), None)[1])
    for name in ("show", "kept", "Table"):
        monkeypatch.setattr(side_by_side, name, never)
    text = synthetic.Maker(built, ENTRY).file({number: case.source for number, case in cases.items()}, solved=())

    done, notebook = grade_one(built, HandIn(ENTRY, "ada", text, release=course_tree.release_text(built, ENTRY)))
    said = {one.exercise: one for one in done.verdicts}
    assert done.status == "graded" and len(met) >= 2, "the comparisons were made, and nobody kept them"
    for number, case in cases.items():
        assert case.is_told(said[number].message) and said[number].score == 0
    everything = str(done) + notebook
    assert "entries differ" not in everything and "should have come" not in everything


PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>a check</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
</head><body><main><h1>a check</h1>{}</main></body></html>"""


def looked_at(path, scheme, axe):
    """The page at the width of a phone: how wide it is, what axe-core finds, the colours of a marked entry."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 400, "height": 800}, color_scheme=scheme)
        page.goto(path.as_uri())
        page.evaluate(axe)
        found = {
            "wide": page.evaluate("document.documentElement.scrollWidth"),
            "axe": [(one["impact"], one["id"]) for one in page.evaluate("axe.run()")["violations"]],
            "scrolls": page.evaluate(
                "[...document.querySelectorAll('[tabindex]')].map((one) => one.scrollWidth > one.clientWidth)"
            ),
            "heard": page.locator("table").first.aria_snapshot(),
            "background": page.evaluate(
                "getComputedStyle(document.querySelector('td[style*=outline]')).backgroundColor"
            ),
        }
        page.screenshot(path=path.with_suffix(f".{scheme}.png"), full_page=True)
        browser.close()
    return found


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine: apt-get install chromium")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_it_fits_and_is_heard(tmp_path, scheme):
    from concurrent.futures import ThreadPoolExecutor

    from axe_playwright_python.base import AXE_FILE_PATH

    small, large = table(torch.eye(4), torch.ones(4, 4)), table(-1e-3 * torch.rand(20, 20), 1e3 * torch.rand(20, 20))
    path = tmp_path / "page.html"
    path.write_text(PAGE.format(small._repr_html_() + large._repr_html_()), encoding="utf-8")
    with ThreadPoolExecutor(1) as thread:  # pytest's own may hold a loop
        found = thread.submit(looked_at, path, scheme, AXE_FILE_PATH.read_text()).result()
    assert found["axe"] == [] and found["wide"] <= 400
    assert found["scrolls"] == [False, False, True, True], "what is wider than a phone scrolls in its own box"
    assert re.search(r'cell "differs: 0', found["heard"]) and 'columnheader "3"' in found["heard"]
    assert found["background"] == "rgba(0, 0, 0, 0)"
