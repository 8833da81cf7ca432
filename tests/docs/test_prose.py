"""The style that notebooks keep, measured: short cells, short texts, an early start, no number unproved."""

import importlib.util
import re
import statistics

import pytest

from autograder import course
from autograder.author import build
from autograder.cells import CellRole, role_of

COURSE = course.load()
ENTRIES = [pytest.param(entry, id=entry.name) for entry in COURSE.notebooks]
HINT = re.compile(r"<details>.*?</details>", re.S)
FORMULA = re.compile(r"\$\$.*?\$\$|\$[^$]*\$", re.S)
CODE = re.compile(r"```.*?```|`[^`]*`", re.S)
# What needs no proof: exercise numbers, prices, years of papers, references to sections and equations, small counts.
PLAIN = re.compile(
    r"Exercise \d+\.\d+|\b\d+\.(?:\d+|[WS]\d+)\b(?= |\)|,|\.|:|;|$)|\((?:\d+ points?|not graded), about \d+ minutes\)|"
    r"\b(?:19|20)\d\d\b"
    r"|(?:sections?|equations?|notebooks?|hint|page|chapter) \d[\d.]*|[A-Za-z]\w*[-_.]?\d[\w.]*",
    re.I,
)
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?%?(?![\w])")


def cells(entry):
    return build.student_notebook(COURSE, entry).cells


def prose(cell):
    """The words of a markdown cell that a student reads at first sight: no hints, no formulas, no tables."""
    if cell.cell_type != "markdown":
        return ""
    return re.sub(r"^\|.*$", "", FORMULA.sub(" ", HINT.sub(" ", cell.source)), flags=re.M)


@pytest.mark.parametrize("entry", ENTRIES)
def test_code_cells_are_short(entry):
    lengths = [len(cell.source.splitlines()) for cell in cells(entry) if cell.cell_type == "code"]
    assert statistics.mean(lengths) < 8
    assert max(lengths) <= 25


@pytest.mark.parametrize("entry", ENTRIES)
def test_the_first_exercise_comes_early(entry):
    before = []
    for cell in cells(entry)[1:]:  # the badge is not a cell that anyone reads
        if role_of(cell.id) is CellRole.EXERCISE:
            break
        before.append(cell)
    assert len([cell for cell in before if cell.id != "setup"]) <= 5
    assert sum(len(prose(cell).split()) for cell in before) <= 600


@pytest.mark.parametrize("entry", ENTRIES)
def test_each_exercise_is_introduced_in_60_to_120_words(entry):
    words, count = {}, 0
    for cell in cells(entry):
        if re.match(r"##? ", cell.source) and cell.cell_type == "markdown":
            count = 0
        count += len(re.sub(r"^#+ .*$", "", prose(cell), flags=re.M).split())
        if role_of(cell.id) in (CellRole.EXERCISE, CellRole.STRETCH):
            words[cell.id] = count
    assert {name: count for name, count in words.items() if not 60 <= count <= 120} == {}


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_number_in_prose_is_computed(entry):
    path, known = course.folder_of(entry) / "prose_numbers.py", {}
    if path.exists():
        spec = importlib.util.spec_from_file_location(f"prose_numbers_{entry.number}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        known = module.NUMBERS
    found = set()
    for cell in cells(entry):
        text = (
            PLAIN.sub(" ", CODE.sub(" ", HINT.sub(" ", FORMULA.sub(" ", cell.source))))
            if cell.cell_type == "markdown"
            else ""
        )
        text = re.sub(r"\]\([^)]*\)|<[^>]*>", " ", text)
        found |= {number.rstrip(",") for number in NUMBER.findall(text)}
    unproved = {number for number in found if number not in known and not re.fullmatch(r"\d", number)}
    assert unproved == set(), "put each into prose_numbers.py with a function that computes it"
    for text, compute in known.items():
        assert compute() == text


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_exercise_has_hints_and_a_prediction(entry):
    before = ""
    for cell in cells(entry):
        if cell.cell_type == "markdown":
            before += cell.source
        elif role_of(cell.id) in (CellRole.EXERCISE, CellRole.STRETCH):
            price = "not graded" if role_of(cell.id) is CellRole.STRETCH else r"\d+ points?"
            assert before.count("<details><summary>Hint") >= 2, cell.id
            assert "**Predict first.**" in before and re.search(rf"\({price}, about \d+ minutes\)", before), cell.id
            before = ""
    assert "<details open" not in "".join(cell.source for cell in cells(entry))


@pytest.mark.parametrize("entry", ENTRIES)
def test_times_add_up(entry):
    text = " ".join(" ".join(cell.source.split()) for cell in cells(entry) if cell.cell_type == "markdown")
    minutes = sum(map(int, re.findall(r"\(\d+ points?, about (\d+) minutes\)", text)))
    said = re.search(r"take about (an|two|three)(?: hour)?(?: and (a half|three quarters))?", text)
    assert said, "no sentence says how long the exercises take"
    stated = 60 * ("an", "two", "three").index(said[1]) + 60 + {"a half": 30, "three quarters": 45}.get(said[2], 0)
    assert abs(minutes - stated) <= 15, f"the exercises take {minutes} minutes, and the text says {stated}"


@pytest.mark.parametrize("entry", ENTRIES)
def test_prices_in_prose_are_those_of_the_checks(entry):
    from autograder.author.checks import public_checks

    text = "\n".join(cell.source for cell in cells(entry) if cell.cell_type == "markdown")
    stated = {
        number: float(points) for number, points in re.findall(r"\*\*Exercise (\d+\.\d+)\*\* \((\d+) points?", text)
    }
    assert stated == {number: check.points for number, check in public_checks(entry).items()}
