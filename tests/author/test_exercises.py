"""The index of exercises says what the checks say when they are imported, however their decorators are written."""

import pytest

from autograder import course
from autograder.author import checks
from autograder.author.checks import checks_module
from autograder.author.parts import parts_of
from autograder.cells import CellRole, role_of
from autograder.course_error import CourseError
from autograder.exercises import Kind, by_exercise, index_of
from utils.grading.check import Stretch, checks_of, stretches_of
from utils.grading.results_check import ResultsCheck

KINDS = {ResultsCheck: Kind.RUNS, Stretch: Kind.STRETCH}


@pytest.mark.parametrize("entry", course.load().notebooks, ids=lambda entry: entry.name)
def test_the_index_says_what_the_imported_checks_say(entry):
    module = checks_module(entry)
    checks = checks_of(module) | stretches_of(module)
    assert sorted(exercise.number for exercise in entry.index) == sorted(checks) and checks
    for exercise in entry.index:
        check = checks[exercise.number]
        assert exercise.kind is KINDS.get(type(check), Kind.CHECK)
        assert exercise.points == check.points and exercise.variant == (check.variant is not None)
        assert dict(exercise.parts) == ({} if exercise.kind is Kind.STRETCH else parts_of(check))
        assert exercise.role is (CellRole.STRETCH_CHECK if isinstance(check, Stretch) else CellRole.CHECK)


@pytest.mark.parametrize(
    "decorator",
    [
        '@check("3.12", points=2, variant=variants.WIDTH)',
        '@check(\n    "3.12",\n    points=2,\n    variant=variants.WIDTH,\n)',
        '@check(points=2, variant=variants.WIDTH, exercise="3.12")',
        '@checks.check("3.12", 2, (), variants.WIDTH)',
        '@graded("3.12", 2, variant=variants.WIDTH)',
    ],
)
def test_an_exercise_is_found_however_its_decorator_is_written(decorator):
    text = f"from utils.grading.check import check as graded\n{decorator}\ndef width(width): ..."
    (exercise,) = index_of(text, "checks")
    assert (exercise.number, exercise.kind, exercise.points, exercise.variant) == ("3.12", Kind.CHECK, 2, True)
    assert [number for number, _ in by_exercise(text)] == ["", "3.12"]


def test_a_function_of_that_name_is_not_a_decorator_and_points_may_be_computed():
    text = '@check("1.1", points=POINTS)\ndef f(f):\n    check("1.2", points=3)\n\n\ng = check("1.3", 1)(f)'
    assert [(exercise.number, exercise.points) for exercise in index_of(text, "checks")] == [("1.1", None), ("1.3", 1)]


def test_an_exercise_that_is_not_written_as_text_is_refused():
    with pytest.raises(CourseError, match="checks, line 1: give `check` the exercise as text"):
        index_of("@check(NUMBER, points=2)\ndef f(f): ...", "checks")


def test_the_role_of_a_cell_is_the_word_before_its_number():
    roles = {cell: role_of(cell) for cell in ("check_1_2", "written_1_W1", "stretchcheck_7_S1", "after_start_01")}
    assert list(roles.values()) == [CellRole.CHECK, CellRole.WRITTEN, CellRole.STRETCH_CHECK, CellRole.AFTER]
    assert role_of("setup") is role_of("") is role_of("check") is role_of("checks_1") is None


def test_a_private_check_that_another_would_replace_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(checks, "folder_of", lambda entry: tmp_path)
    text = (
        'from autograder.author.checks import private\n\n\n@private("1.2", tells="it is wrong.")\ndef other(f): ...\n'
    )
    (tmp_path / "private_checks.py").write_text(text)
    assert [*checks.private_checks(course.load().notebook("01"))] == ["1.2"]
    (tmp_path / "private_checks.py").write_text(text + text.replace("1.2", "1.3"))
    with pytest.raises(CourseError, match="two functions are named other, so the first check would be lost"):
        checks.private_checks(course.load().notebook("01"))
