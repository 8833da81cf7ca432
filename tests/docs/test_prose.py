"""The style that notebooks keep, measured: short cells, short texts, an early start, no number unproved."""

import importlib.util
import re
import statistics

import pytest

from autograder import course
from autograder.author import build, overview
from autograder.cells import CellRole, exercise_of, role_of

COURSE = course.load()
ENTRIES = [pytest.param(entry, id=entry.name) for entry in COURSE.notebooks]
HINT = re.compile(r"<details>.*?</details>", re.S)
FORMULA = re.compile(r"\$\$.*?\$\$|\$[^$]*\$", re.S)
CODE = re.compile(r"```.*?```|`[^`]*`", re.S)
# What needs no proof: exercise numbers, prices, years of papers, references to sections and equations, small counts.
REFERENCE = r"[A-Z]?\.?\d[\d.]*"
PLAIN = re.compile(
    r"\((?:\d+ points?|not graded), about \d+ minutes, (?:easy|medium|hard)\)|\b(?:19|20)\d\d\b|SQuAD \d\.\d"
    r"|(?:exercises?|sections?|equations?|notebooks?|hint|page|chapter|tables?|figures?|appendix|appendices)\s"
    rf"{REFERENCE}(?:(?:,| and| to) {REFERENCE})*|[A-Za-z]\w*[-_.]?\d[\w.]*",
    re.I,
)
LEVEL = f"(?:{'|'.join(overview.LEVELS)})"
UNIT = re.compile(r"\s(?:nats|points|BLEU|times|million|GB)\b")  # after a number that is not the number of an exercise
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
        if role_of(cell.id) in (CellRole.EXERCISE, CellRole.PREDICTION):  # where a student begins to work
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


def computed(entry):
    """The module `prose_numbers` of a notebook: what its prose says, as functions. None without one."""
    path = course.folder_of(entry) / "prose_numbers.py"
    if not path.exists():
        return None
    spec = importlib.util.spec_from_file_location(f"prose_numbers_{entry.number}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def exercises(entry):
    """The numbers of the exercises and written questions of a notebook. Those of others are called exercise 7.4."""
    roles = (CellRole.EXERCISE, CellRole.WRITTEN, CellRole.STRETCH)
    return {exercise_of(cell.id) for cell in cells(entry) if role_of(cell.id) in roles}


def numbers(text, exercises):
    """The numbers of a text of two digits or more that state something."""
    text = PLAIN.sub(" ", CODE.sub(" ", HINT.sub(" ", FORMULA.sub(" ", text))))
    text = re.sub(r"\]\([^)]*\)|<[^>]*>", " ", text)
    for found in NUMBER.finditer(text):
        number = found[0].rstrip(",")
        if re.fullmatch(r"\d", number) or (number in exercises and not UNIT.match(text, found.end())):
            continue
        yield number


@pytest.mark.parametrize(
    "text, found",
    [
        ("ahead by 0.9 nats, as in 7.4.", ["0.9"]),
        ("of 7.4 points, and 7.4 says why", ["7.4"]),
        ("BLEU is 82, and with few 43 (table 5, sections 3.1 and 3.2).", ["82", "43"]),
        ("SQuAD 2.0 gains 0.4 points, MNLI loses 0.3", ["0.4", "0.3"]),
        ("`x = 12`, $y = 13$, 3 rows, 2019, notebook 03, (2 points, about 15 minutes, easy), Qwen2.5", []),
    ],
)
def test_numbers_that_state_something_are_found(text, found):
    assert [*numbers(text, {"7.4"})] == found


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_number_in_prose_is_computed(entry, exercises):
    module = computed(entry)
    known = module.NUMBERS if module else {}
    texts = [cell.source for cell in cells(entry) if cell.cell_type == "markdown"]
    unproved = {number for text in texts for number in numbers(text, exercises)} - {*known}
    assert unproved == set(), "put each into prose_numbers.py with a function that computes it"
    for text, compute in known.items():
        assert compute() == text


def sentences(text):
    return re.split(r"(?<=\.)\s+(?=[A-Z`])", text.partition("**Question")[0].strip())


@pytest.mark.parametrize("entry", ENTRIES)
def test_what_prose_says_of_recorded_runs_follows_from_them(entry):
    """Each claim is in the text, and true of `data/results`; a text of such claims has no sentence without one."""
    claims, explains = (getattr(computed(entry), name, {}) for name in ("CLAIMS", "EXPLAINS"))
    source = [cell.source for cell in build.solution_notebook(COURSE, entry).cells if cell.cell_type == "markdown"]
    flat = [" ".join(text.split()) for text in source]
    for claim, holds in claims.items():
        assert any(claim in text for text in flat), f"nothing says: {claim}"
        assert holds(), claim
    for text in flat if claims else ():
        if not text.startswith("In the recorded"):
            continue
        for sentence in sentences(text):
            known = any(claim in sentence or sentence in claim for claim in claims)
            assert known or any(sentence.startswith(one) for one in explains), f"tie this to data: {sentence}"


@pytest.mark.parametrize("entry", ENTRIES)
def test_what_solutions_say_of_recorded_runs_is_computed(entry, exercises):
    """Also the answers that markers read: a sentence about recorded runs has no number that nothing computes."""
    module = computed(entry)
    known, claims = (getattr(module, name, {}) for name in ("NUMBERS", "CLAIMS"))
    for cell in build.solution_notebook(COURSE, entry).cells:
        if role_of(cell.id) is CellRole.WRITTEN:
            for sentence in sentences(" ".join(cell.source.split())):
                for claim in claims:
                    sentence = sentence.replace(claim, "")
                unproved = {*numbers(sentence, exercises)} - {*known} if "recorded" in sentence else set()
                assert unproved == set(), sentence


@pytest.mark.parametrize("entry", ENTRIES)
def test_no_prose_rests_on_runs_that_nobody_recorded(entry):
    text = " ".join(" ".join(cell.source for cell in cells(entry) if cell.cell_type == "markdown").split())
    assert re.findall("authors' runs? [a-z]+|was planned|on our machine", text) == []


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_exercise_has_hints_and_a_prediction(entry):
    before = ""
    for cell in cells(entry):
        if cell.cell_type == "markdown":
            before += cell.source
        elif role_of(cell.id) in (CellRole.EXERCISE, CellRole.STRETCH):
            price = "not graded" if role_of(cell.id) is CellRole.STRETCH else r"\d+ points?"
            assert before.count("<details><summary>Hint") >= 2, cell.id
            assert "**Predict first.**" in before and re.search(rf"\({price}, about \d+ minutes, {LEVEL}\)", before), (
                cell.id
            )
            before = ""
    assert "<details open" not in "".join(cell.source for cell in cells(entry))


@pytest.mark.parametrize("entry", ENTRIES)
def test_times_add_up(entry):
    text = " ".join(" ".join(cell.source.split()) for cell in cells(entry) if cell.cell_type == "markdown")
    minutes = sum(map(int, re.findall(rf"\(\d+ points?, about (\d+) minutes, {LEVEL}\)", text)))
    said = re.search(r"take about (an|two|three|four)(?: hour)?(?: and (a half|three quarters))?", text)
    assert said, "no sentence says how long the exercises take"
    stated = (
        60 * ("an", "two", "three", "four").index(said[1]) + 60 + {"a half": 30, "three quarters": 45}.get(said[2], 0)
    )
    assert abs(minutes - stated) <= 15, f"the exercises take {minutes} minutes, and the text says {stated}"


@pytest.mark.parametrize("entry", ENTRIES)
def test_prices_in_prose_are_those_of_the_checks(entry):
    from autograder.author.checks import public_checks

    text = "\n".join(cell.source for cell in cells(entry) if cell.cell_type == "markdown")
    stated = {
        number: float(points) for number, points in re.findall(r"\*\*Exercise (\d+\.\d+)\*\* \((\d+) points?", text)
    }
    assert stated == {number: check.points for number, check in public_checks(entry).items()}
