"""Numbers of a student's own: drawn alike everywhere, the same at home and in grading, and nobody else's."""

import importlib.util
import json
import os
import re
import shutil
import unicodedata
from collections import Counter

import nbclient
import pytest
from helpers import copied

from autograder import course, synthetic
from autograder.author import answers, build, release
from autograder.cells import cell_id
from autograder.gradebook import course_tree, roster
from autograder.grading import grade
from autograder.grading.grading_record import RECORD, jobs, load_record
from autograder.intake import collect, origins
from autograder.reports import feedback, progress, report
from utils import variants
from utils.checks import nb03_parameter_counting as checks
from utils.grading import dispatch, expect, forbidden
from utils.grading.check import Outcome, check
from utils.variants import MODEL, canonical

COURSE = course.load()
ENTRY = COURSE.notebook("03")
NUMBER = "3.12"
CHECK = checks.own_model
IDS = [f"student {number}" for number in range(500)] + [f"s{20_240_000 + number}" for number in range(500)]
FOURTH = IDS[::4]
WHOLE = bool(os.environ.get("COURSE_LONG_TESTS"))
ADA, ZOE = "Ada Lovelace", "Zoë Müller"
ANOTHER = "right for the numbers of another id"
CASES = [*answers.reference_cases(COURSE, ENTRY), *answers.answer_cases(ENTRY)]
CASES = [case for case in CASES if case.exercise == NUMBER]


@pytest.fixture(autouse=True)
def nobody_told(monkeypatch):
    monkeypatch.setattr(variants, "course_key", "")
    monkeypatch.setattr(variants, "graded_names", ())
    monkeypatch.setattr(variants, "signed_name", "")


def literal(name, change=0):
    """The answer of a student who has worked out the numbers, and types them in."""
    parameters, cache = checks.decoder(MODEL.of(name))
    return f"def own_parameters():\n    return {parameters + change}\n\n\ndef own_cache():\n    return {cache}\n"


def verdict(source, whose=(), **names):
    space = names | {"variants": variants}
    exec(source, space)
    return CHECK.verdict(lambda request: dispatch.answer(space, request), [forbidden.read_cell(source)], whose)


# Drawing.


@pytest.mark.parametrize(
    "name, numbers",
    [
        ("Ada Lovelace", (32000, 17, 72, 3, 13824, 2048)),
        ("s20240123", (42000, 33, 36, 6, 12288, 4096)),
        ("Zoë Müller", (52000, 11, 48, 4, 16896, 2048)),
        ("李 雷", (32000, 29, 48, 4, 14592, 16384)),
        ("", (42000, 31, 72, 6, 5376, 8192)),
    ],
)
def test_draws_are_those_that_were_recorded(name, numbers):
    assert tuple(MODEL.of(name)) == numbers


@pytest.mark.parametrize(
    "one, other",
    [
        ("Ada Lovelace", "  ada   LOVELACE "),
        ("Ada Lovelace", "Lovelace, Ada"),
        ("Ada Lovelace", "lovelaceada"),
        ("Ada Lovelace", "Ada_Lovelace"),
        (unicodedata.normalize("NFC", "Zoë Müller"), unicodedata.normalize("NFD", "Zoë Müller")),
        ("Zoë Müller", "zoe muller"),
        ("STRASSE", "straße"),
        ("ﬁsher", "fisher"),
        ("x" * variants.MAX_NAME, "x" * 5_000),
        ("S 2024 0123", "s20240123"),
        ("葛\U000e0100城", "葛城"),  # how a sign is drawn says nothing
        ("दीपक राय", "राय दीपक"),
    ],
)
def test_two_ways_to_write_an_id_are_one(one, other):
    assert canonical(one) == canonical(other) != "" and MODEL.of(one) == MODEL.of(other)


@pytest.mark.parametrize(
    "one, other",
    [
        ("s20240123", "s20240132"),
        ("Ada Lovelace", "Ada Byron"),
        ("李雷", "韩梅梅"),
        ("दीपा", "दीपू"),  # their vowels are marks
        ("ศิริ", "ศรี"),
    ],
)
def test_other_ids_have_other_numbers(one, other):
    assert MODEL.of(one) != MODEL.of(other)


def test_there_are_many_variants_and_each_is_drawn_as_often():
    assert len(MODEL) == len({*MODEL}) == 110_592
    drawn = [MODEL.of(name) for name in IDS]
    assert len({*drawn}) > 990
    for name, some in MODEL.choices.items():
        counts = Counter(getattr(one, name) for one in drawn)
        assert {*counts} == {*some} == {getattr(MODEL.of(one), name) for one in FOURTH}
        expected = len(drawn) / len(some)
        assert sum((count - expected) ** 2 / expected for count in counts.values()) < 2.5 * len(some) + 10, name


# The exercise.


def test_no_two_mistakes_give_one_number_with_any_variant():
    for numbers in MODEL:
        parameters, cache = checks.decoder(numbers)
        for right, guesses in ((parameters, checks.OF_PARAMETERS), (cache, checks.OF_CACHE)):
            found = [guess(right, numbers) for guess in guesses.values()]
            assert len({right, *found}) == 1 + len(found), numbers


def test_right_answers_tell_variants_apart():
    assert len({checks.decoder(numbers) for numbers in MODEL}) == len(MODEL)


@pytest.mark.parametrize("name", [ADA, ZOE, "s20240123"])
def test_the_model_is_that_of_transformers(name):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, LlamaModel

    from utils import counting

    own = MODEL.of(name)
    heads = {"num_attention_heads": own.H, "num_key_value_heads": own.H // own.share, "hidden_size": 64 * own.H}
    sizes = heads | {"intermediate_size": own.F, "vocab_size": own.V, "num_hidden_layers": own.L}
    model = counting.on_meta(LlamaForCausalLM, LlamaConfig(**sizes, tie_word_embeddings=True))
    layer = LlamaModel(LlamaConfig(**heads, intermediate_size=8, vocab_size=8, num_hidden_layers=1))
    (kept,) = layer(torch.zeros(1, 3, dtype=torch.long), use_cache=True).past_key_values.layers
    a_token = (kept.keys.numel() + kept.values.numel()) // 3
    assert checks.decoder(own) == (counting.numel(model), own.L * own.T * a_token * 2)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_verdicts_are_the_known_ones_for_hundreds_of_ids(case):
    """Right answers for a thousand. What wrong ones give is told apart for all variants in a test above, so every
    fourth id, with each value of each choice, shows that they are asked for those numbers; with COURSE_LONG_TESTS=1
    all do."""
    searches = case.says is not None and any(words in case.says for words in ("another id", "not the"))
    space = answers.at_home(build.student_notebook(COURSE, ENTRY), case.source, case.name)
    cells = [forbidden.read_cell(case.source)]
    some = IDS[::50] if searches else IDS if case.right or WHOLE else FOURTH  # of another id all variants are searched
    for name in some:
        space["own"] = MODEL.of(name)
        found = CHECK.verdict(lambda request: dispatch.answer(space, request), cells, [name])
        if case.right:
            assert found.outcome is Outcome.PASSED, (name, found.message)
        else:
            assert found.outcome is Outcome.WRONG and case.is_told(found.message), (name, found.message)


def test_the_answer_of_another_id_is_told_from_mistakes():
    for one, other in zip(IDS[::40], IDS[20::40], strict=True):
        found = verdict(literal(other), [one])
        assert found.outcome is Outcome.WRONG and ANOTHER in found.message and repr(one) in found.message
        assert found.another == variants.stated(MODEL.of(other))
        assert verdict(literal(one), [one]).score == 1


@pytest.mark.parametrize(
    "made, says",
    [
        ("int({})", None),
        ("torch.tensor({})", None),
        ("torch.tensor([{}])", None),
        ("np.int64({})", None),
        ("True", "whole number"),
        ("float({})", "is a float"),
        ("np.float64({})", "is a float"),
        ("torch.tensor({}, dtype=torch.float64)", "is a float"),
        ("[{}]", "is a list"),
        ("str({})", "whole number"),
        ("None", "whole number"),
        ("np.array([{}])", "whole number"),
    ],
)
def test_types_of_the_result(made, says):
    parameters, cache = checks.decoder(MODEL.of(ADA))
    body = "import numpy as np, torch\ndef own_parameters():\n    return {}\ndef own_cache():\n    return {}"
    found = verdict(body.format(made.format(parameters), cache), [ADA])
    assert (found.outcome is Outcome.PASSED) == (says is None) and (says or "") in found.message, found.message


@pytest.mark.parametrize(
    "body, outcome",
    [
        ("raise NotImplementedError()", Outcome.BLANK),
        ("return 0", Outcome.WRONG),
        ("raise ValueError('no')", Outcome.ERROR),
        ("return own", Outcome.WRONG),
    ],
)
def test_a_trivial_answer_earns_nothing(body, outcome):
    source = f"def own_parameters():\n    {body}\n\n\ndef own_cache():\n    {body}\n"
    found = verdict(source, [ADA], own=MODEL.of(ADA))
    assert found.score == 0 and found.outcome is outcome


# At home.


def test_without_a_name_nothing_passes_and_it_is_said_what_to_do(capsys):
    assert MODEL.numbers("  ") is None and "STUDENT is blank" in capsys.readouterr().out
    for source in (
        literal(""),
        literal(ADA),
        "def own_parameters():\n    return own.V\n\n\ndef own_cache(): return 1\n",
    ):
        found = verdict(source, own=None)
        assert (found.outcome, found.message) == (Outcome.WRONG, variants.ASK)
    blank = "def own_parameters():\n    raise NotImplementedError()\n\n\nown_cache = own_parameters\n"
    assert verdict(blank).outcome is Outcome.BLANK


@pytest.mark.parametrize("name", [7, "x" * 101, "Ada\nLovelace", "..."])
def test_what_is_no_name_is_refused_with_a_sentence(name):
    with pytest.raises(ValueError, match="STUDENT"):
        MODEL.numbers(name)


def at_a_desk(tmp_path, name, source):
    """What the notebook shows of the student's numbers, and what the check says, in a kernel of Jupyter's."""
    notebook = build.student_notebook(COURSE, ENTRY)
    top = next(cell for cell in notebook.cells if "STUDENT =" in cell.source)
    top.source = top.source.replace('STUDENT = ""', f"STUDENT = {name!r}")
    answer, check = (next(cell for cell in notebook.cells if cell.id == cell_id(kind, NUMBER)) for kind in KINDS)
    answer.source = source
    show = notebook.cells[notebook.cells.index(answer) - 1]
    preamble = [cell for cell in answers.preamble(notebook) if cell is not top]
    notebook.cells = [*preamble, top, show, answer, check]
    where = {"metadata": {"path": str(tmp_path)}}
    client = nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", resources=where, allow_errors=True)
    client.execute()
    said = ["".join(one.get("text", "") + one.get("evalue", "") for one in cell.outputs) for cell in (top, check)]
    return *said, notebook


KINDS = ("exercise", "check")


GUESSES = """
tried = -1


def own_parameters():
    global tried
    tried += 1
    return {parameters}[tried]


def own_cache():
    return {caches}[tried]
"""


def test_an_answer_is_asked_once_whatever_its_student_is_called():
    """Else each name would be another try, at numbers that everybody can compute."""
    right = [checks.decoder(MODEL.of(name)) for name in (ADA, ZOE)]
    for name, (parameters, cache) in zip((ADA, ZOE), right, strict=True):
        typed = f"def own_parameters():\n    return {parameters}\n\n\ndef own_cache():\n    return {cache}\n"
        assert verdict(typed, (ADA, ZOE)).outcome is Outcome.PASSED, name
    guesses = GUESSES.format(parameters=[0, right[1][0]], caches=[0, right[1][1]])
    assert verdict(guesses, (ADA, ZOE)).outcome is Outcome.WRONG


def test_home_and_grading_ask_for_the_same_numbers(tmp_path, tree):
    shown, told, _ = at_a_desk(tmp_path, ADA, literal(ADA))
    assert variants.stated(MODEL.of(ADA)) in shown and f"{ADA}: your numbers" in shown
    assert f"Exercise {NUMBER}: passed (1 point)" in told
    assert f"{ADA!r}. Grading asks for the name under which you hand in" in told  # half a name passes here too
    _, others, _ = at_a_desk(tmp_path, ADA, literal(ZOE))
    assert ANOTHER in others and repr(ADA) in others
    shown, nobody, _ = at_a_desk(tmp_path, "", literal(ADA))
    assert "STUDENT is blank" in shown and variants.ASK in nobody

    hand_in(tree, {"Ada Lovelace": literal(ADA), "Zoë Müller": literal(ADA), "lovelaceada": literal(ADA)})
    records = {one.student: one for one in grade.grade(tree, [ENTRY])}
    assert records["Ada_Lovelace"].score == records["lovelaceada"].score == 1
    zoe = of_exercise(records["Zoë_Müller"])
    assert zoe.score == 0 and ANOTHER in zoe.message and repr(ZOE) in zoe.message


# In grading.


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    known = course.load(tree=tmp_path_factory.mktemp("made") / "tree")
    known = known.model_copy(update={"notebooks": (ENTRY,)})
    course_tree.build_tree(known)
    return known


@pytest.fixture
def tree(made, tmp_path):
    return copied(made, tmp_path)


MAKER = {}


def hand_in(known, sources, folder="download"):
    """Submissions of 3.12 alone, collected from folders of these names."""
    maker = MAKER.setdefault("03", synthetic.Maker(known, ENTRY))
    place = known.tree.parent / folder
    for name, source in sources.items():
        path = place / name / f"{ENTRY.name}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_bytes(maker.file({NUMBER: source}, solved=()))
    collected = collect.collect(known, place)
    assert len(collected.taken) == len(sources) and not collected.refused, collected


def of_exercise(record):
    return next(one for one in record.verdicts if one.exercise == NUMBER)


REFERENCE = next(case.source for case in CASES if case.name == "the solution")
LIAR = f"""from utils import variants
variants.answer_for({ZOE!r})
variants.Variant.of = lambda self, name: variants.Own
own = None
{literal(ZOE)}"""


def test_the_id_is_that_of_the_hand_in_whatever_its_kernel_says(tree):
    hand_in(tree, {"Ada Lovelace": LIAR, "Bo": REFERENCE, "Cy Dee": literal("cy DEE"), "E" * 130: literal("E" * 100)})
    found = {one.student[:12]: of_exercise(one) for one in grade.grade(tree, [ENTRY])}
    assert found["Bo"].score == found["Cy_Dee"].score == found["E" * 12].score == 1, found
    assert found["Ada_Lovelace"].score == 0 and ANOTHER in found["Ada_Lovelace"].message


def test_the_instructor_sees_whose_numbers_they_are(tree):
    hand_in(
        tree, {"Ada Lovelace": literal(ADA), "Bo": literal(ADA), "Cy": literal("Nobody Known"), "Di": literal("Di", 8)}
    )
    records = {one.student: one for one in grade.grade(tree, [ENTRY])}
    assert not records["Ada_Lovelace"].flags and not records["Di"].flags
    assert "is right for those of Ada_Lovelace, not for its own" in records["Bo"].flags[0]
    assert "an id that nobody in the class has" in records["Cy"].flags[0]
    graded = progress.status(tree, ENTRY)["graded"]
    assert "those of Ada_Lovelace" in graded["Bo"] and graded["Ada_Lovelace"] == ""
    page = report.write_report(tree, [ENTRY]).read_text()
    assert "is right for those of" in page and "Ada_Lovelace" not in page and "Ada Lovelace" not in page
    pages = {path.parts[-3]: path.read_text() for path in feedback.write_feedback(tree, [ENTRY])}
    assert ANOTHER in pages["Bo"] and not [
        one for one in ("Ada Lovelace", "Ada_Lovelace", "numbers of") if one in pages["Bo"].replace(ANOTHER, "")
    ]
    again = {one.student: one for one in grade.grade(tree, [ENTRY])}
    assert again == records, "the same submissions were graded again, or said something else"


def listed(known, *rows):
    lines = ["id,first_name,last_name,email,platform_ids", *(",".join(row) for row in rows)]
    (known.tree / "students.csv").write_text("\n".join(lines) + "\n")


def test_with_a_roster_each_of_a_students_names_counts(tree):
    listed(tree, ("al01", "Ada", "Lovelace", "countess@example.org", "4711"), ("zm02", "Zoë", "Müller", "", ""))
    for name in ("al01", "Lovelace Ada", "countess@example.org", "COUNTESS", "4711"):
        hand_in(tree, {"al01": literal(name)}, folder=canonical(name))
        (record,) = grade.grade(tree, [ENTRY])
        assert of_exercise(record).score == 1 and not record.flags, name
    hand_in(tree, {"al01": literal("zm02")}, folder="other")
    (record,) = grade.grade(tree, [ENTRY])
    assert of_exercise(record).score == 0 and "those of zm02" in record.flags[0]
    assert repr(ADA) in of_exercise(record).message
    hand_in(tree, {"al01": REFERENCE}, folder="reference")
    assert of_exercise(grade.grade(tree, [ENTRY])[0]).score == 1


def test_a_name_that_is_added_to_the_roster_counts_from_then_on(tree):
    """Who has another name on the platform, was renamed or has a new id; other exercises are not judged again."""
    row = ("al01", "Ada", "Lovelace", "", "")
    listed(tree, row)
    hand_in(tree, {"al01": literal("Augusta Ada King")})
    (before,) = grade.grade(tree, [ENTRY])
    assert of_exercise(before).score == 0
    listed(tree, (*row[:4], "AugustaAdaKing"))
    (job,) = jobs(tree, ENTRY)
    stale = [
        number
        for number, grader in job.graders.items()
        if {one.exercise: one.grader for one in before.verdicts}[number] != grader
    ]
    assert stale == [NUMBER] and job.state() == "a check, a limit or the notebook changed"
    ((_, after),) = grade.regrade(tree, [ENTRY])
    assert of_exercise(after).score == 1 and not after.flags
    assert progress.status(tree, ENTRY)["waiting"] == {}


def test_what_only_the_platform_calls_a_student_is_none_of_the_names(tree):
    """On most platforms students choose what they are called there."""
    listed(
        tree,
        ("al01", "Ada", "Lovelace", "ada@example.org", "4711"),
        ("zm02", "Zoë", "Müller", "al01@example.org", "99"),
        ("ab03", "Ada", "Byron", "ada@example.com", "98"),
    )
    known, entry = roster.load(tree), tree.notebooks[0]
    for shown in ("Zoe M.", "Ada Lovelace", "Dae Lovelaca", "AL01", FOUND):
        place = tree.tree / "handins" / "zm02"
        course_tree.write(place / "name.txt", shown)
        assert origins.names_of(tree, entry, "zm02", known) == ("Zoë Müller", "zm02", "al01@example.org", "99")
        shutil.rmtree(place)
    assert "ada" not in {*origins.names_of(tree, entry, "al01", known), *origins.names_of(tree, entry, "ab03", known)}


BO, FOUND = "Bo Berg", "Anna Ina Schulz-Wolf"  # a search found that the second has the numbers of the first


@pytest.mark.parametrize("shown, said", [(FOUND, True), (BO, False)])
def test_a_name_that_only_the_platform_shows_earns_nothing_and_its_student_is_told_what_to_do(tree, shown, said):
    assert MODEL.of(FOUND) == MODEL.of(BO)
    listed(tree, ("al01", "Anna", "Schulz", "", ""), ("bb02", "Bo", "Berg", "", ""))
    hand_in(tree, {"al01": literal(BO), "bb02": literal(BO)})
    course_tree.write(tree.tree / "handins" / "al01" / "name.txt", shown)
    anna, bo = grade.grade(tree, [ENTRY])
    assert of_exercise(bo).score == 1 and not bo.flags
    assert of_exercise(anna).score == 0 and "ask your instructor to add it" in of_exercise(anna).message
    if said:
        assert f"`{FOUND}`, which only the platform calls this student" in anna.flags[0]
        assert FOUND not in report.write_report(tree, [ENTRY]).read_text()
    else:
        assert "is right for those of bb02" in anna.flags[0]


def test_two_students_with_the_same_numbers_are_flagged_where_one_may_have_chosen_a_name(tree):
    hand_in(tree, {FOUND: literal(BO), BO: literal(BO), "Cy": literal("Cy")})
    records = {one.student: one for one in grade.grade(tree, [ENTRY])}
    assert [of_exercise(one).score for one in records.values()] == [1, 1, 1]
    assert "asks Bo_Berg for the same ones" in records["Anna_Ina_Schulz-Wolf"].flags[0]
    assert "asks Anna_Ina_Schulz-Wolf for the same ones" in records["Bo_Berg"].flags[0]
    assert not records["Cy"].flags
    assert "for the same ones" in progress.status(tree, ENTRY)["graded"]["Bo_Berg"]
    page = report.write_report(tree, [ENTRY]).read_text()
    assert "for the same ones" in page and "Schulz" not in page
    listed(
        tree, ("Anna_Ina_Schulz-Wolf", "Anna", "Schulz", "", FOUND.replace(" ", "")), ("Bo_Berg", "Bo", "Berg", "", "")
    )
    records = {one.student: one for one in grade.grade(tree, [ENTRY])}
    assert of_exercise(records["Anna_Ina_Schulz-Wolf"]).score == 1, "platform_ids were written by the instructor"
    assert "asks Bo_Berg for the same ones" in records["Anna_Ina_Schulz-Wolf"].flags[0]


def test_a_key_of_the_course_changes_everybodys_numbers_at_home_and_in_grading(tree, tmp_path, monkeypatch):
    """The release carries it: a session of a student draws what the judge draws, and old answers are wrong."""
    keyed = tree.model_copy(update={"grading": tree.grading.model_copy(update={"numbers_key": "spring 2027"})})
    old = literal(ADA)
    monkeypatch.setattr(variants, "course_key", "")
    target = tmp_path / "student"
    (target / "utils").mkdir(parents=True)
    release.write_key(keyed, target)
    shutil.copy(variants.__file__, target / "utils" / "variants.py")
    spec = importlib.util.spec_from_file_location("variants_at_home", target / "utils" / "variants.py")
    at_home = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(at_home)
    assert tuple(at_home.MODEL.of(ADA)) != tuple(MODEL.of(ADA))
    parameters, cache = checks.decoder(at_home.MODEL.of(ADA))
    new = f"def own_parameters():\n    return {parameters}\n\n\ndef own_cache():\n    return {cache}\n"
    hand_in(keyed, {"Ada Lovelace": new, "lovelaceada": old, "Bo": REFERENCE})
    found = {one.student: of_exercise(one).score for one in grade.grade(keyed, [ENTRY])}
    assert found == {"Ada_Lovelace": 1, "Bo": 1, "lovelaceada": 0}
    release.write_key(tree, target)
    assert not (target / variants.KEY_FILE).exists()


def test_numbers_shown_in_grading_are_those_of_the_name_that_the_student_wrote(tree):
    """Half worked out by hand, half by the numbers that the notebook shows: both are of one name."""
    listed(tree, ("al01", "Ada", "Lovelace", "countess@example.org", "4711"))
    mixed = f"""STUDENT = "AL 01"
own = variants.MODEL.numbers(STUDENT)
{REFERENCE}

def own_cache():
    return {checks.decoder(MODEL.of("al01"))[1]}
"""
    hand_in(tree, {"al01": mixed})
    (record,) = grade.grade(tree, [ENTRY])
    assert of_exercise(record).score == 1, of_exercise(record).message


def test_reports_hide_a_long_name_in_a_sentence(tree):
    name = "Maria del Carmen de los Dolores Fernandez de Cordoba y Perez de Barradas"
    hand_in(tree, {name: literal(name, 8)})
    (record,) = grade.grade(tree, [ENTRY])
    assert repr(name) in of_exercise(record).message
    assert "Dolores" not in report.write_report(tree, [ENTRY]).read_text()


LONG = " ".join(["Maria Dolores Ñusta O'Neill-Öztürk"] * 6)  # over 200 signs, longer than a folder's name may be


@pytest.mark.parametrize("on_roster", [False, True])
def test_reports_hide_a_name_that_is_longer_than_a_folders_may_be(tree, on_roster):
    if on_roster:
        listed(tree, ("md01", LONG, "Müller", "md@example.org", ""))
    hand_in(tree, {"md01" if on_roster else LONG: literal("somebody else", 8)})
    (record,) = grade.grade(tree, [ENTRY])
    assert "Dolores" in of_exercise(record).message
    text = report.write_report(tree, [ENTRY]).read_text()
    assert "Dolores" not in text and "md01" not in text


def test_one_answer_of_a_group_is_right_for_one_of_them(tree):
    hand_in(tree, {"Ada Lovelace": literal(ADA), "Zoë Müller": literal(ADA), "Group 7": literal("group 7")})
    records = {one.student: one for one in grade.grade(tree, [ENTRY])}
    assert {name: one.score for name, one in records.items()} == {"Ada_Lovelace": 1, "Zoë_Müller": 0, "Group_7": 1}


def test_records_from_before_are_read(tree):
    hand_in(tree, {"Bo": literal(ADA)})
    grade.grade(tree, [ENTRY])
    stated = json.loads((tree.tree / "verdicts" / "Bo" / f"{ENTRY.name}.json").read_text())
    assert [one.pop("another") for one in stated["verdicts"]].count("") == len(stated["verdicts"]) - 1
    assert RECORD.validate_python(stated).score == load_record(tree, ENTRY, "Bo").score


def test_the_example_of_the_authors_page_works():
    blocks = re.findall(r"```python\n(.*?)```", (course.ROOT / "docs/authors.md").read_text(), re.DOTALL)
    stated, checked, shown = (block for block in blocks if "SQUARE" in block)
    space = vars(variants) | {"variants": variants, "check": check, "expect": expect}
    exec(stated, space)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(variants, "SQUARE", space["SQUARE"], raising=False)
        exec(checked, space)
        exec(shown.replace('""', repr(ADA)), space)
        own, told = space["own"], {}
        for name, area in (("right", own.times * own.side**2), ("one", own.side**2), ("none", -1)):
            answer = {"area": lambda area=area: area}
            told[name] = space["area"].verdict(lambda request, answer=answer: dispatch.answer(answer, request), [])
    assert told["right"].score == 1 and told["one"].message == "One square is counted."
    assert "not the area of your squares" in told["none"].message


def test_what_everybody_is_called_is_nobodys_name(tree):
    """Moodle calls all of a class Participant where it hides names: one answer would be right for each of them."""
    place = tree.tree / "handins" / "Participant_7"
    course_tree.write(place / "name.txt", "Participant")
    assert origins.names_of(tree, tree.notebooks[0], "Participant_7", None) == ("Participant_7",)
    course_tree.write(place / "name.txt", "Ada Lovelace")
    assert origins.names_of(tree, tree.notebooks[0], "Participant_7", None) == ("Ada Lovelace", "Participant_7")
    shutil.rmtree(place)
