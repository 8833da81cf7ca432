"""Submissions whose code is alike: planted copies are found among honest ones, and nobody is named or accused."""

import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from bs4 import BeautifulSoup
from helpers import CHROMIUM, CHROMIUM_ARGUMENTS, canned, copied, keep
from typer.testing import CliRunner

from autograder import cli, course
from autograder.author import answers, build
from autograder.cells import CellRole, exercise_of, role_of
from autograder.course import CourseError
from autograder.gradebook import course_tree
from autograder.gradebook.pseudonyms import Names
from autograder.similarity import similar

COURSE = course.load()
ENTRY = COURSE.notebook("05")
SOURCE = """def mean(values):
    total = 0
    count = len(values)
    for one in values:
        total += one
    return total / count"""
MOVED = """def mean(numbers):
    # mine
    n = len(numbers)
    s = 0
    for x in numbers:
        s += x

    return s / n"""
OTHER = "def mean(values):\n    return torch.stack([*values]).double().mean().item()"


def honest(number, cases):
    """A submission of answers of known verdict: to each exercise another one, by the digits of `number`."""
    mine = {}
    for place, (exercise, sources) in enumerate(cases.items()):
        mine[exercise] = sources[(number * (2 * place + 3) + number // 7) % len(sources)]
    return mine


def disguised(source, number):
    """Other names for what it assigns, comments, and lines that stand side by side and look alike exchanged."""
    own = set(re.findall(r"^ +(\w+) = ", source, re.MULTILINE)) - {"self"}
    for name in sorted(own):
        source = re.sub(rf"(?<![\w.]){name}(?!\w| ?=[^=\n]*\))", f"{name[::-1]}_{number}", source)
    lines = source.splitlines()
    for place in range(len(lines) - 1):
        pair = lines[place : place + 2]
        if all(re.match(r"^ +[\w.]+ = [^\[({]*$|^ +[\w.]+ = .*\)$", line) for line in pair):
            lines[place : place + 2] = reversed(pair)
    return "\n\n".join(
        f"{line}  # step {place}" if place % 3 == number % 3 else line for place, line in enumerate(lines)
    )


@pytest.fixture(scope="module")
def ranked():
    """Of 100 honest submissions and 5 copies: what is compared, who copied whom, and all pairs, the most alike
    first.
    """
    cases = {case.exercise: [case.source] for case in answers.reference_cases(COURSE, ENTRY)}
    for case in answers.answer_cases(ENTRY):
        cases[case.exercise].append(case.source)
    found = {f"student{number}": honest(number, cases) for number in range(100)}
    assert len({tuple(one.values()) for one in found.values()}) == 100
    copies = {f"copier{number}": f"student{17 * number + 4}" for number in range(5)}
    for number, (copier, original) in enumerate(copies.items()):
        found[copier] = {exercise: disguised(source, number) for exercise, source in found[original].items()}
        changed = [one for one in found[copier] if found[copier][one] != found[original][one]]
        assert len(changed) == len(cases)
    cells = build.student_notebook(COURSE, ENTRY).cells
    released = {exercise_of(cell.id): cell.source for cell in cells if role_of(cell.id) is CellRole.EXERCISE}
    compared = similar.Compared(found, released)
    return compared, copies, compared.pairs(10**6)


def test_planted_copies_are_among_the_first_eight_pairs(ranked):
    _, copies, pairs = ranked
    assert len(pairs) == 105 * 104 / 2
    first = {frozenset((pair.first, pair.second)) for pair in pairs[:8]}
    assert {frozenset(pair) for pair in copies.items()} <= first


def test_names_strings_comments_and_the_order_of_lines_do_not_matter():
    found = similar.Compared(
        {"a": {"1": SOURCE}, "b": {"1": MOVED}, "c": {"1": OTHER}, "d": {}}, {"1": "def mean(values):"}
    )
    (pair, *others) = found.pairs(10)
    assert (pair.first, pair.second) == ("a", "b") and pair.likeness == pytest.approx(1.0)
    assert all(one.likeness < 0.5 for one in others) and len(others) == 5


def test_what_was_released_and_what_everybody_has_does_not_count():
    mine = {"a": {"1": SOURCE}, "b": {"1": SOURCE}, "c": {"1": OTHER}}
    assert similar.Compared(mine, {"1": ""}).pairs(1)[0].likeness == pytest.approx(1.0)
    assert similar.Compared(mine, {"1": SOURCE}).pairs(1)[0].likeness == 0.0
    assert similar.Compared({name: {"1": SOURCE} for name in "abc"}, {"1": ""}).pairs(1)[0].likeness == 0.0


def test_a_line_in_both_is_marked_and_all_is_escaped():
    hostile = "x = '<script>hostile()</script>'\nfor one in range(7): print(one < 2 ** 3)"
    found = similar.Compared(
        {"a": {"1": hostile}, "b": {"1": "y = {}\n" + hostile.splitlines()[1]}, "c": {"1": OTHER}}, {}
    )
    pair = next(one for one in found.pairs(3) if {one.first, one.second} == {"a", "b"})
    first, second = found.marked(pair, "1")
    line = "<mark>for one in range(7): print(one &lt; 2 ** 3)</mark>"
    assert line in first and line in second and first.count("<mark>") == 1
    assert "<script" not in first and "&lt;script&gt;" in first


def test_very_long_lines_and_answers_are_cut():
    long = "x = " + "1 + " * 10**6 + "1"
    many = "\n".join(f"y{number} = {number}" for number in range(10**4))
    found = similar.Compared({"a": {"1": long, "2": many}, "b": {"1": long, "2": many}, "c": {"1": OTHER}}, {})
    assert found.pairs(1)[0].likeness == 1.0 and len(similar.pieces_of(long)) < similar.MAX_LINE


@pytest.fixture
def school(built, tmp_path):
    """A graded class of three whose submissions are the author's solution."""
    known = copied(built, tmp_path)
    for student in ("Student_A", "Student_B", "Student_C"):
        keep(known, *canned(known, student, None if student != "Student_C" else ("1.1",)))
    return known


def test_the_command_shows_pairs_side_by_side_and_names_nobody(school, tmp_path):
    run, page = CliRunner().invoke, tmp_path / "pairs.html"
    words = ["--tree", str(school.tree), "similar", "01", "--page", str(page)]
    ended = run(cli.app, words)
    assert not ended.exception and "likeness is not proof" in ended.output, ended.exception
    soup = BeautifulSoup(page.read_text(), "html.parser")
    codes = [Names(school).of(student) for student in ("Student_A", "Student_B")]
    assert all(code in ended.output and code in soup.text for code in codes)
    assert "Student_" not in ended.output + soup.text and "Likeness is not proof" in soup.text
    pair = soup.find("div", class_="pair")("pre")
    assert len(pair) == 2 and pair[0].text == pair[1].text and pair[0]("mark")
    assert len(soup("h2")) == 3 and "5050" not in ended.output
    ended = run(cli.app, [*words, "--names", "--most", "1"])
    assert "Student_A" in ended.output and "Student_A" in page.read_text() and "Student_C" not in ended.output


def test_one_hand_in_is_like_no_other(school):
    shutil.rmtree(school.tree / "submitted" / "Student_B")
    shutil.rmtree(school.tree / "submitted" / "Student_C")
    with pytest.raises(CourseError, match="fewer than two submissions are graded"):
        similar.hand_ins(school, school.notebooks[0])
    assert course_tree.release_text(school, school.notebooks[0])


def on_a_phone(path):
    """How wide the page is on a phone, and of each answer whose it is, and whether its lines are broken."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_ARGUMENTS)
        page = browser.new_page(viewport={"width": 360, "height": 700})
        page.goto(path.as_uri())
        wide = page.evaluate("document.documentElement.scrollWidth")
        rows = page.evaluate(
            "[...document.querySelectorAll('tbody td:nth-child(4)')].map(at => at.getBoundingClientRect().right)"
        )
        shown = page.evaluate(
            """[...document.querySelectorAll('.pair pre')].map(at => [at.previousElementSibling.textContent,
               getComputedStyle(at).whiteSpace, at.scrollWidth > at.clientWidth, at.getBoundingClientRect().right])"""
        )
        browser.close()
    return wide, rows, shown


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine: apt-get install chromium")
def test_the_page_works_on_a_phone(tmp_path):
    """Code is read by its indentation: its lines scroll, and each answer says whose it is."""
    names = ["maximilian_mustermann_0815", "hanna_beispiel_4711"]
    long = f"{SOURCE}\n    # {'long ' * 40}\n    x = {' + '.join(names * 3)}"
    compared = similar.Compared({name: {"5.1": long} for name in names} | {"c": {"5.1": "y = 2"}}, {"5.1": ""})
    course_names = SimpleNamespace(of=lambda student: student, shown=True)
    path = tmp_path / "page.html"
    path.write_text(similar.page(COURSE, ENTRY, compared, compared.pairs(1), course_names))
    with ThreadPoolExecutor(1) as thread:
        wide, rows, shown = thread.submit(on_a_phone, path).result()
    assert wide == 360 and len(rows) == 1 and rows[0] <= 360
    assert {name for name, _, _, _ in shown} == {*names} and len(shown) == 2
    assert all(how == "pre" and scrolls and right <= 360 for _, how, scrolls, right in shown)
