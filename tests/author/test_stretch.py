"""Stretch exercises: checked at home, and in grading neither run nor known."""

import types
from pathlib import Path

import nbformat
import pytest

from autograder import course, synthetic
from autograder.author import build, checks
from autograder.cells import NOT_RUN, CellRole, cell_id, role_of
from autograder.course import CourseError, folder_of
from autograder.gradebook import course_tree
from autograder.grading import fingerprints
from autograder.grading.grading_record import HandIn
from autograder.grading.worker import grade_one
from utils.grading.check import CheckFailed, check, checks_of, scoreboard, stretch, stretches_of

COURSE = course.load()
ENTRIES = [entry for entry in COURSE.notebooks if checks.stretch_checks(entry)]
ENTRY = ENTRIES[0]
MINE = "raise RuntimeError('it ran')"


def names(entry):
    return {cell_id(role, number) for number in checks.stretch_checks(entry) for role in ("stretch", "stretchcheck")}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_they_are_released_without_answer_and_without_points(entry):
    released = build.student_notebook(COURSE, entry)
    cells = {cell.id: cell for cell in released.cells if cell.id.startswith("stretch")}
    assert {*cells} == names(entry) and len(cells) > 1
    for name, cell in cells.items():
        assert "nbgrader" not in cell.metadata and cell.metadata.tags == [NOT_RUN]
        assert role_of(name) is not CellRole.STRETCH or "NotImplementedError" in cell.source
    points = sum(cell.metadata.nbgrader.points for cell in released.cells if role_of(cell.id) is CellRole.CHECK)
    assert points == sum(check.points for check in checks.public_checks(entry).values())


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A course of one notebook that has a stretch exercise."""
    known = course.load(tree=tmp_path_factory.mktemp("stretch") / "tree")
    known = known.model_copy(update={"notebooks": (ENTRY,)})
    course_tree.build_tree(known)
    return known


def test_the_gradebook_knows_none_and_its_release_holds_no_answer(tree):
    with course_tree.nbgrader_api(tree).gradebook as gradebook:
        (notebook,) = gradebook.find_assignment(ENTRY.name).notebooks
        kinds = (notebook.grade_cells, notebook.solution_cells, notebook.task_cells, notebook.source_cells)
        known = {cell.name for cells in kinds for cell in cells}
    assert cell_id(CellRole.CHECK, next(iter(checks.public_checks(ENTRY)))) in known and not known & names(ENTRY)
    assert course_tree.exercises(tree, ENTRY).keys() == checks.public_checks(ENTRY).keys()
    released = {cell.id: cell.source for cell in course_tree.release_notebook(tree, ENTRY).cells}
    assert released == {cell.id: cell.source for cell in build.student_notebook(tree, ENTRY).cells}


@pytest.mark.parametrize("lost", [False, True], ids=["as handed in", "without ids"])
def test_grading_runs_none(tree, lost):
    notebook = nbformat.reads(synthetic.Maker(tree, ENTRY).file(solved=()), as_version=4)
    source = next(cell.source for cell in notebook.cells if role_of(cell.id) is CellRole.STRETCH)
    assert source.count("    raise NotImplementedError") == 1
    for cell in notebook.cells:
        if cell.id in names(ENTRY):
            cell.source = f"{source}\n    # mine\n\n\n{MINE}" if role_of(cell.id) is CellRole.STRETCH else cell.source
    if lost:
        for number, cell in enumerate(notebook.cells):
            cell.id, cell.metadata = f"colab{number}", nbformat.NotebookNode()
    notebook.cells.append(nbformat.v4.new_code_cell(MINE))  # one that runs
    hand_in = HandIn(ENTRY, "ada", build.write(notebook).encode(), release=course_tree.release_text(tree, ENTRY))
    done, text = grade_one(tree, hand_in)
    assert [one.exercise for one in done.verdicts] == [*checks.public_checks(ENTRY)], done.reason
    graded = {cell.id: cell for cell in nbformat.reads(text, as_version=4).cells}
    mine = [name for name, cell in graded.items() if MINE in cell.source]
    assert len(mine) == 2
    assert [name for name in mine if any(one.output_type == "error" for one in graded[name].outputs)] == mine[1:]
    for number in checks.stretch_checks(ENTRY):
        assert number not in str(done) + str([one.get("outputs") for one in graded.values()])


def test_its_check_is_no_part_of_what_graded_exercises_hang_on(tree, monkeypatch):
    path = Path(checks.checks_module(ENTRY).__file__)
    text, read_text = path.read_text(), Path.read_text
    changed = {}

    def fingerprints_of(new):
        changed[path] = new
        monkeypatch.setattr(
            Path, "read_text", lambda at, *given, **named: changed.get(at) or read_text(at, *given, **named)
        )
        return fingerprints.fingerprints(tree, ENTRY)

    before = fingerprints_of(text)
    assert before.keys() == checks.public_checks(ENTRY).keys()
    stretched, graded = text.index("@stretch("), text.index('@check("')
    one = text[:stretched] + text[stretched:].replace('    """', '    """Another. ', 1)
    other = text[:graded] + text[graded:].replace('    """', '    """Another. ', 1)
    assert one != text != other
    assert fingerprints_of(one) == before
    assert fingerprints_of(other) != before


@pytest.fixture
def module():
    """Checks of a graded and of a stretch exercise."""
    made = types.ModuleType("made")

    @check("9.1", points=2)
    def graded(f):
        assert f() == 1, "f does not give 1."

    @stretch("9.S1")
    def more(f):
        assert f() == 2, "f does not give 2."

    made.graded, made.more = graded, more
    return made


def test_at_home_it_says_passed_or_the_sentence_and_gives_no_points(module, capsys):
    assert [*checks_of(module)] == ["9.1"] and [*stretches_of(module)] == ["9.S1"]
    with pytest.raises(CheckFailed, match=r"^Exercise 9\.S1: F does not give 2\."):
        module.more(lambda: 1)
    below = "stretch exercise 9.S1, not graded: {}"
    assert repr(scoreboard(module)).splitlines()[-1] == below.format("wrong")
    module.more(lambda: 2)
    assert capsys.readouterr().out == "Exercise 9.S1: passed (not graded)\n"
    table = scoreboard(module)
    assert repr(table).splitlines()[1:] == ["0 of 2 points, written questions aside", below.format("passed")]
    assert table._repr_html_().endswith(f"<p>{below.format('passed')}</p>") and table._repr_html_().count("9.S1") == 1
    module.graded(lambda: 1)
    assert "2 of 2 points" in repr(scoreboard(module))


@pytest.mark.parametrize(
    "old, new, says",
    [
        ('check="{}"', 'tags=["x"]', "missing"),
        ('stretch="{}"', 'stretch="9.S9"', "there is no check of 9.S9"),
        ('stretch="{}"', 'tags=["x"]', "which is not an exercise"),
    ],
)
def test_a_marker_that_does_not_fit_is_named(tmp_path, monkeypatch, old, new, says):
    (number, *_) = checks.stretch_checks(ENTRY)
    source = (folder_of(ENTRY) / "notebook.py").read_text()
    assert source.count(old.format(number)) == 1
    (tmp_path / "notebook.py").write_text(source.replace(old.format(number), new))
    monkeypatch.setattr(build, "folder_of", lambda entry: tmp_path)
    with pytest.raises(CourseError, match=says):
        build.solution_notebook(COURSE, ENTRY)


def test_a_mark_with_text_behind_it_is_refused(tmp_path, monkeypatch):
    """What stands behind the mark would be left out of the model answer."""
    source = (folder_of(ENTRY) / "notebook.py").read_text()
    (tmp_path / "notebook.py").write_text(source.replace("### BEGIN SOLUTION\n", "### BEGIN SOLUTION x = 1\n", 1))
    monkeypatch.setattr(build, "folder_of", lambda entry: tmp_path)
    with pytest.raises(CourseError, match="the mark of `### BEGIN SOLUTION x = 1` needs its own line"):
        build.solution_notebook(COURSE, ENTRY)
