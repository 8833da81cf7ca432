"""Whether the checks of a notebook give each answer whose verdict is known that verdict, as at a student's desk."""

import math
from dataclasses import dataclass
from functools import partial

from nbformat import NotebookNode

from autograder.author import answers
from autograder.author.answers import AnswerCase
from autograder.author.checks import asked_checks, private_checks, stretch_checks, whole_verdict
from autograder.course import Course, NotebookEntry
from utils.grading import dispatch, forbidden
from utils.grading.check import Check, Outcome
from utils.grading.verdict import Verdict


def checks_of(entry: NotebookEntry) -> dict[str, Check]:
    """The checks by which answers to graded and to stretch exercises are asked, by number."""
    return asked_checks(entry) | stretch_checks(entry)


def cases(course: Course, entry: NotebookEntry) -> list[AnswerCase]:
    """Every answer of a notebook whose verdict is known: the solutions, and what is written in `wrong_answers.py`."""
    solutions = [case for stretch in (False, True) for case in answers.reference_cases(course, entry, stretch)]
    return [*solutions, *answers.answer_cases(entry), *answers.answer_cases(entry, stretch=True)]


@dataclass(frozen=True)
class Judged:
    """The verdict on an answer of the public check, that of all checks, and why private ones failed."""

    public: Verdict
    verdict: Verdict
    failed: str


def judged(entry: NotebookEntry, case: AnswerCase, released: NotebookNode) -> Judged:
    """Judge an answer; `released` is the notebook as students have it."""
    ask = partial(dispatch.answer, answers.at_home(released, case.source, case.name))
    public = checks_of(entry)[case.exercise].verdict(ask, [forbidden.read_cell(case.source)])
    hidden = private_checks(entry).get(case.exercise, [])
    return Judged(public, *whole_verdict(public, hidden, lambda item: item.failure(ask)))


def surprise(entry: NotebookEntry, case: AnswerCase, released: NotebookNode, known: Judged | None = None) -> str:
    """What is not as it must be of the verdict on an answer, in a sentence; "" if it is the known one.

    A right answer passes all checks. A wrong one fails the public check with the words that it says, or, if it is
    `private`, passes that and fails a private one with them; it scores what the parts are worth that it does not
    lose. `released` is the notebook as students have it, `known` what is known of the answer already.
    """
    known = known or judged(entry, case, released)
    check, verdict = checks_of(entry)[case.exercise], known.verdict
    passed = known.public.outcome is Outcome.PASSED
    if passed and not (case.right or case.private):
        return f"the check {check.__name__} accepts it"
    if not passed and (case.right or case.private):
        return f"the check {check.__name__} refuses it: {known.public.message}"
    if case.right:
        return f"private checks refuse it: {known.failed}" if known.failed else ""
    if verdict.outcome is Outcome.PASSED:
        return "every private check accepts it"
    if not case.is_told(verdict.message):
        return f'"{case.says}" is not in "{verdict.message}"'
    score = case.score(check)
    return "" if math.isclose(verdict.score, score) else f"it scores {verdict.score:g}, not {score:g}"
