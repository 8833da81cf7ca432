"""Each exercise is graded as if the others were right, in whole gradings of all notebooks."""

import itertools
import math
import os

import pytest
from helpers import copied

from autograder import course, synthetic
from autograder.author import answers, checks
from autograder.gradebook import course_tree
from autograder.grading import grade
from autograder.intake.run_files import pack
from utils.grading.check import Outcome
from utils.grading.results_check import ResultsCheck

COURSE = course.load()
ENTRIES = [pytest.param(entry, id=entry.name) for entry in COURSE.notebooks]
LONG = bool(os.environ.get("COURSE_LONG_TESTS"))
# Each meets other questions. The demonstration's class holds two that get full marks, of each notebook.
TIMES = 20 if LONG else 0


def hand_in(workshop, entry, student, file, runs=None):
    course_tree.write(course_tree.place(workshop, "submitted", entry, student), file)
    if runs:
        packed = pack({name: text.encode() for name, text in runs.items()})
        course_tree.write(course_tree.results_path(workshop, entry, student), packed)


def patterns(numbers):
    """Which exercises are wrong in each of a few submissions: every second one, then the others.

    Of neighbours, each is wrong where the other is right. With COURSE_LONG_TESTS this holds for any two exercises: each
    is wrong in its own half of the submissions, and no half holds another (Sperner, 1928).
    """
    if not LONG:
        return [numbers[::2], numbers[1::2]]
    count = next(count for count in itertools.count(2) if math.comb(count, count // 2) >= len(numbers))
    halves = zip(numbers, itertools.combinations(range(count), count // 2), strict=False)
    wrong_in = {number: {*half} for number, half in halves}
    return [[number for number in numbers if place in wrong_in[number]] for place in range(count)]


@pytest.fixture(scope="module")
def graded(all_built, tmp_path_factory):
    """A class of all notebooks, graded in one run: the solution, and submissions in which some exercises are wrong."""
    known = copied(all_built, tmp_path_factory.mktemp("graded"))
    for entry in known.notebooks:
        maker = synthetic.Maker(known, entry)
        for number in range(TIMES):
            hand_in(known, entry, f"student{number:02d}", maker.file(), maker.runs(f"student{number:02d}"))
        first = {case.exercise: case for case in reversed(maker.cases) if not case.right}
        for place, numbers in enumerate(patterns([*maker.points])):
            name = f"wrong-{place}"
            runs = maker.runs(name)
            if maker.results in numbers:
                runs.popitem()  # of a run that is missing
            hand_in(known, entry, name, maker.file({number: first[number].source for number in numbers}), runs)
    records = grade.grade(known, list(known.notebooks))
    return {(one.notebook, one.student): one for one in records}


def expected(entry, wrong):
    """The score of each exercise where those of `wrong` are answered as in the submissions of `graded`."""
    first = {case.exercise: case for case in reversed(answers.answer_cases(entry)) if not case.right}
    known = checks.public_checks(entry)
    worth = {number: first[number].score(one) if number in wrong else one.points for number, one in known.items()}
    return worth | {
        number: 0 for number in wrong if isinstance(known[number], ResultsCheck)
    }  # of these a run is missing


@pytest.mark.skipif(not TIMES, reason="COURSE_LONG_TESTS is not set: two of the demonstration's class do this once")
@pytest.mark.parametrize("entry", ENTRIES)
def test_the_solution_gets_full_marks_every_time(graded, entry):
    records = [graded[entry.name, f"student{number:02d}"] for number in range(TIMES)]
    assert [(one.student, one.verdicts) for one in records if one.score != one.points or not one.points] == []


@pytest.mark.parametrize("entry", ENTRIES)
def test_each_exercise_is_graded_as_if_the_others_were_right(graded, entry):
    numbers = [*checks.public_checks(entry)]
    wrong = patterns(numbers)
    pairs = itertools.combinations(numbers, 2) if LONG else itertools.pairwise(numbers)
    for one, other in pairs:
        assert any(one in some and other not in some for some in wrong)
        assert any(other in some and one not in some for some in wrong)
    for place, some in enumerate(wrong):
        done = graded[entry.name, f"wrong-{place}"]
        assert [one.exercise for one in done.verdicts if one.outcome is not Outcome.PASSED] == some, done.verdicts
        assert {one.exercise: one.score for one in done.verdicts} == expected(entry, some)
