"""Answers whose cells have lost their ids, or stand beside their cells, are found, or a person is asked."""

import copy
import json

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell
from nbgrader.utils import determine_grade

from autograder import course
from autograder.author import answers, build
from autograder.cells import CellRole, cell_id, role_of
from autograder.grading.grading_record import GRADED, Job, Record, noted_flags
from autograder.intake import restore
from autograder.intake.reading import LOOK

COURSE = course.load()
ENTRY, OTHER = COURSE.notebooks[0], COURSE.notebooks[4]  # the latter has two questions, one below the other
RELEASE = {entry: build.student_notebook(COURSE, entry) for entry in (ENTRY, OTHER)}
SOLUTION = {
    entry: {cell_id(CellRole.EXERCISE, case.exercise): case.source for case in answers.reference_cases(COURSE, entry)}
    for entry in RELEASE
}
W, W1, W2 = "written_1_W1", "written_5_W1", "written_5_W2"
MINE = "Because the mask is missing: every token copies its neighbour."
LAMBDA = "causal_mask = lambda T: torch.full((T, T), -torch.inf).triu(diagonal=1)"
HELPER = "def infinity():\n    return -math.inf\n\n\n"


def solved(entry=ENTRY, written=MINE):
    notebook = copy.deepcopy(RELEASE[entry])
    for cell in notebook.cells:
        cell.source = SOLUTION[entry].get(cell.id, cell.source)
        if role_of(cell.id) is CellRole.WRITTEN and written:
            cell.source = f"{written} ({cell.id})"
    return notebook


def stripped(notebook):
    """The notebook as format 4.4 has it, without metadata: no cell has an id of any kind."""
    plain = json.loads(json.dumps(notebook))
    plain["nbformat_minor"], plain["metadata"] = 4, {}
    for cell in plain["cells"]:
        del cell["id"]
        cell["metadata"] = {}
    return plain


def restored(notebook, entry=ENTRY):
    text = json.dumps(notebook).encode()
    return restore.restore(restore.read(text, COURSE.limits.notebook_mb), RELEASE[entry])


def find(notebook, name):
    (cell,) = (cell for cell in notebook.cells if cell.id == name)
    return cell


def is_locked_as_released(notebook, entry=ENTRY):
    """Whether each locked cell is there once, as it was released."""
    for cell in RELEASE[entry].cells:
        if cell.id == "setup" or role_of(cell.id) is CellRole.CHECK:
            there = find(notebook, cell.id)
            assert (there.source, there.metadata, there.cell_type) == (cell.source, cell.metadata, cell.cell_type)
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)
    nbformat.validate(notebook)
    return True


@pytest.mark.parametrize("entry", RELEASE, ids=lambda entry: entry.number)
def test_without_any_id_all_answers_are_found(entry):
    notebook, remarks = restored(stripped(solved(entry)), entry)
    assert is_locked_as_released(notebook, entry)
    for name, source in SOLUTION[entry].items():
        assert find(notebook, name).source == source
    written = [cell.id for cell in RELEASE[entry].cells if role_of(cell.id) is CellRole.WRITTEN]
    assert [find(notebook, name).source for name in written] == [f"{MINE} ({name})" for name in written]
    assert not any("deleted" in remark or LOOK in remark for remark in remarks), remarks


@pytest.mark.parametrize(
    "source",
    [
        LAMBDA,
        HELPER + SOLUTION[ENTRY]["exercise_1_2"],
        f"%load_ext autoreload\n{SOLUTION[ENTRY]['exercise_1_2']}",
        "from masks import causal_mask",
        "def causal_mask(T):\n    return torch.full(",  # does not parse: its place tells
        f"{LAMBDA}\nassert causal_mask(3).shape == (3, 3)",
        "mask: object = 1\ncausal_mask: object = lambda T: 1",
    ],
)
def test_an_answer_in_another_form_is_found(source):
    notebook = solved()
    find(notebook, "exercise_1_2").source = source
    whole, remarks = restored(stripped(notebook))
    assert find(whole, "exercise_1_2").source == source and is_locked_as_released(whole)
    assert not any("deleted" in remark for remark in remarks)


def test_a_helper_in_a_cell_of_its_own_runs_before_the_answer():
    notebook = solved()
    place = notebook.cells.index(find(notebook, "exercise_1_2"))
    notebook.cells.insert(place, new_code_cell(HELPER))
    whole, _ = restored(stripped(notebook))
    sources = [cell.source for cell in whole.cells]
    assert sources.index(HELPER) < sources.index(SOLUTION[ENTRY]["exercise_1_2"])
    assert find(whole, "exercise_1_2").source == SOLUTION[ENTRY]["exercise_1_2"] and is_locked_as_released(whole)


def test_changed_headings_are_found_by_their_number():
    notebook = solved()
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and role_of(cell.id) is not CellRole.WRITTEN:
            cell.source += "\n\nMy own note."
    find(notebook, "exercise_1_2").source = "def causal_mask(T):\n    return torch.full("
    find(notebook, "check_1_2").source = "checks.causal_mask(causal_mask)  # passes"
    whole, _ = restored(stripped(notebook))
    assert find(whole, "exercise_1_2").source.endswith("torch.full(") and is_locked_as_released(whole)
    assert MINE in find(whole, W).source


def test_one_cell_with_several_answers_is_taken_once_and_the_others_are_not_blanked():
    """The released cells of the others would define their names again, as not attempted."""
    notebook = solved()
    both = "\n\n\n".join(SOLUTION[ENTRY][name] for name in ("exercise_1_1", "exercise_1_2"))
    find(notebook, "exercise_1_1").source = both
    notebook.cells.remove(find(notebook, "exercise_1_2"))
    whole, remarks = restored(stripped(notebook))
    assert [cell.id for cell in whole.cells if cell.source == both] == ["exercise_1_1"]
    assert find(whole, "exercise_1_2").source == restore.ELSEWHERE
    assert any("exercise_1_2 is missing, and other cells define its names" in remark for remark in remarks)
    assert is_locked_as_released(whole)


def test_drafts_are_not_taken_twice():
    """Of two cells that define the same the last one is the answer, as with ids; the other stays an own cell."""
    notebook = solved()
    place = notebook.cells.index(find(notebook, "exercise_1_2"))
    notebook.cells.insert(place, new_code_cell("def causal_mask(T):\n    return 1"))
    whole, _ = restored(stripped(notebook))
    assert find(whole, "exercise_1_2").source == SOLUTION[ENTRY]["exercise_1_2"]
    assert [cell.id.split("_")[0] for cell in whole.cells if cell.source.endswith("return 1")] == ["extra"]


def test_where_nobody_can_tell_a_person_looks():
    """Two answers that do not parse, and nothing known between them."""
    notebook = solved()
    names = ("exercise_1_2", "exercise_1_3")
    ids = [cell.id for cell in notebook.cells]
    between = notebook.cells[ids.index("after_1_1_02") : ids.index("check_1_3") + 1]
    notebook.cells = [cell for cell in notebook.cells if cell not in between or cell.id in names]
    for name in names:
        find(notebook, name).source = f"def broken(:  # {name}"
    whole, remarks = restored(stripped(notebook))
    asked = [remark for remark in remarks if remark.startswith(LOOK)]
    assert [remark.split("exercise ")[1][:3] for remark in asked] == ["1.2", "1.3"], remarks
    assert is_locked_as_released(whole)
    assert sum("def broken(:" in cell.source for cell in whole.cells) == 2


def test_an_answer_below_its_check_is_for_a_person():
    notebook = solved()
    find(notebook, "exercise_1_2").source = find(RELEASE[ENTRY], "exercise_1_2").source
    notebook.cells.append(new_code_cell(LAMBDA))
    whole, remarks = restored(notebook)
    assert [remark for remark in remarks if "exercise 1.2 is as released" in remark and remark.startswith(LOOK)]
    assert find(whole, "exercise_1_2").source == find(RELEASE[ENTRY], "exercise_1_2").source


def test_another_notebook_is_still_another():
    other = stripped(solved(OTHER))
    with pytest.raises(restore.Ungradable, match="another notebook"):
        restored(other)


def beside(how, notebook, asked, name):
    """Write MINE beside the cell of a question."""
    place = notebook.cells.index(find(notebook, name))
    match how:
        case "below":
            notebook.cells.insert(place + 1, new_markdown_cell(MINE))
        case "between":
            notebook.cells.insert(place, new_markdown_cell(MINE))
        case "above the question":
            notebook.cells.insert(notebook.cells.index(find(notebook, asked)), new_markdown_cell(MINE))
        case "in the question":
            find(notebook, asked).source += f"\n\n{MINE}"
        case "in the question's line":
            find(notebook, asked).source += f" {MINE}"
        case "a comment":
            notebook.cells.insert(place + 1, new_code_cell(f"# {MINE}"))
        case "a comment with code":
            notebook.cells.insert(place, new_code_cell(f"x = 1  # {MINE}\n%matplotlib inline"))
        case "a string":
            notebook.cells.insert(place + 1, new_code_cell(f'"""{MINE}"""'))
        case "raw":
            notebook.cells.insert(place + 1, nbformat.v4.new_raw_cell(MINE))
        case "in two cells":
            first, second = MINE.split(": ")
            notebook.cells[place + 1 : place + 1] = [new_markdown_cell(first), new_markdown_cell(second)]
        case "its cell emptied":
            notebook.cells[place].source = " "
            notebook.cells.insert(place + 1, new_markdown_cell(MINE))
        case "its cell deleted":
            notebook.cells[place] = new_markdown_cell(MINE)
        case "a comment in the cell below":
            find(notebook, "after_1_W1_00" if name == W else "after_5_W2_01").source += f"\n# {MINE}"


PLACES = (
    *("below", "between", "above the question", "in the question", "in the question's line", "a comment", "raw"),
    *("a comment with code", "a string", "in two cells", "its cell emptied", "its cell deleted"),
)


@pytest.mark.parametrize("ids", [True, False], ids=["with ids", "without"])
@pytest.mark.parametrize("how", [*PLACES, "a comment in the cell below"])
def test_a_written_answer_beside_its_cell_is_marked_by_a_person(how, ids):
    notebook = solved(written="")
    before = [cell.id for cell in notebook.cells]
    beside(how, notebook, before[before.index(W) - 1], W)
    whole, remarks = restored(notebook if ids else stripped(notebook))
    assert " ".join(MINE.replace(": ", " ").split()) in " ".join(find(whole, W).source.replace(": ", " ").split())
    assert not any("deleted" in remark for remark in remarks) or how == "its cell deleted", remarks
    assert is_locked_as_released(whole)
    there = [remark for remark in remarks if remark.startswith(LOOK) and "question 1.W1" in remark]
    assert there or how in ("its cell deleted", "below", "raw", "in two cells", "between", "its cell emptied")
    assert there or not ids or how == "its cell deleted", "with its id, the cell was empty, and somebody should look"


@pytest.mark.parametrize("ids", [True, False], ids=["with ids", "without"])
@pytest.mark.parametrize("name", [W1, W2])
@pytest.mark.parametrize("how", ["below", "between", "in the question", "a comment"])
def test_it_goes_to_its_own_question(how, name, ids):
    notebook = solved(OTHER, "")
    before = [cell.id for cell in notebook.cells]
    beside(how, notebook, before[before.index(name) - 1], name)
    whole, _ = restored(notebook if ids else stripped(notebook), OTHER)
    other = W2 if name == W1 else W1
    assert MINE in find(whole, name).source and MINE not in find(whole, other).source, how
    assert find(whole, other).source == find(RELEASE[OTHER], other).source


@pytest.mark.parametrize("ids", [True, False], ids=["with ids", "without"])
def test_without_an_answer_nobody_is_asked(ids):
    """Nor for code without comments, whitespace, or what was released."""
    notebook = solved(written="")
    place = notebook.cells.index(find(notebook, W))
    notebook.cells[place + 1 : place + 1] = [new_code_cell("1 + 1"), new_markdown_cell("  "), new_code_cell("")]
    find(notebook, "after_1_W1_00").source += "\n"
    whole, remarks = restored(notebook if ids else stripped(notebook))
    assert find(whole, W).source == find(RELEASE[ENTRY], W).source
    assert not any(remark.startswith(LOOK) for remark in remarks), remarks


def test_an_answer_in_its_cell_takes_nothing_from_beside_it():
    notebook = solved()
    place = notebook.cells.index(find(notebook, W))
    notebook.cells.insert(place + 1, new_markdown_cell("A note of mine."))
    whole, remarks = restored(notebook)
    assert find(whole, W).source == f"{MINE} ({W})" and remarks == []
    assert any(cell.source == "A note of mine." for cell in whole.cells)


def test_what_was_put_into_the_cell_waits_for_a_mark():
    """By nbgrader's own rule; the cell as released has its 0 points, and waits for nobody."""
    notebook = solved(written="")
    whole, _ = restored(notebook)
    assert determine_grade(find(whole, W)) == (0, 2)
    beside("below", notebook, "", W)
    whole, remarks = restored(notebook)
    assert determine_grade(find(whole, W)) == (None, 2)
    done = Record("ada", ENTRY.name, GRADED, remarks=remarks)
    (flag,) = noted_flags(Job(ENTRY, "ada", "", "", {}, done))
    assert "question 1.W1 was left empty" in flag and done.other_remarks == []
