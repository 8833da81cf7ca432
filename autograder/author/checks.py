"""The checks of a notebook: the public ones, which students run at home, and the private ones.

Private checks are cases that students never see, asked by the judge after the public check passed.
"""

import ast
import importlib
import importlib.util
import inspect
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, wraps
from pathlib import Path
from types import ModuleType
from typing import Any

from autograder.author import parts
from autograder.course import CourseError, NotebookEntry, folder_of
from utils.grading import expect, misconceptions
from utils.grading.check import Check, Outcome, Stretch, Verdict, checks_of, examine, stretches_of
from utils.grading.contract import Contract
from utils.grading.remote import Ask, StudentError
from utils.grading.results_check import ResultsCheck
from utils.grading.verdict import line, sentence


def checks_module(entry: NotebookEntry) -> ModuleType:
    """The public checks of a notebook, `utils/checks/nbNN_name.py`."""
    return importlib.import_module(entry.public_checks)


def public_checks(entry: NotebookEntry) -> dict[str, Check]:
    """The public checks of a notebook's graded exercises by number, with the points that the course gives them."""
    checks = checks_of(checks_module(entry))
    return checks | {number: checks[number].worth(entry.points[number]) for number in entry.points if number in checks}


def asked_checks(entry: NotebookEntry) -> dict[str, Check]:
    """The public checks by which answers are asked: where an exercise reads results, that of its reading.

    It is reached as if the runs were accepted. A `ResultsCheck` remains where the answer runs the experiments.
    """
    known = public_checks(entry)
    return {
        number: (check.reading or check) if isinstance(check, ResultsCheck) else check
        for number, check in known.items()
    }


def stretch_checks(entry: NotebookEntry) -> dict[str, Stretch]:
    """The checks of a notebook's stretch exercises by number: students run them, and grading does not."""
    return stretches_of(checks_module(entry))


class Told(AssertionError):
    """A failed assertion of a private check with a sentence of its own for the student, in place of `tells`."""

    def __init__(self, reason: str, tells: str):
        super().__init__(reason)
        self.tells = line(sentence(tells))  # it may quote what the student's code said


class Reason(str):
    """What went wrong in a private check, in words for the instructor alone; `tells` is what the student reads."""

    tells: str

    def __new__(cls, text: str, tells: str) -> "Reason":
        """The reason `text`."""
        reason = super().__new__(cls, text)
        reason.tells = tells
        return reason


@dataclass(frozen=True)
class PrivateCheck:
    """A function of asserts like a public check's, and the sentence a student reads unless it raises a `Told`."""

    exercise: str
    tells: str
    asserts: Callable[..., None]
    part: str = ""  # of the public check: the one whose points it costs; "": all of the exercise's

    def failure(self, ask: Ask, key: bytes = b"", forbids: Sequence[str] = ()) -> Reason | None:
        """None if it passes; else what went wrong.

        What the check asks is drawn for `key`, see `expect.drawn_for`; nothing of `forbids` may run meanwhile.
        """
        tells = self.tells

        @wraps(self.asserts)
        def asserts(**given: Any) -> None:
            nonlocal tells
            try:
                with misconceptions.said_at_once():
                    self.asserts(**given)
            except Told as failed:
                tells = failed.tells
                raise
            except StudentError as error:
                tells = told_of(error, tells)
                raise

        with expect.drawn_for(key and key + self.asserts.__name__.encode()):
            outcome, message = examine(asserts, ask, forbids)
        return None if outcome is Outcome.PASSED else Reason(f"{self.asserts.__name__}: {message or outcome}", tells)


def private(exercise: str, tells: str, part: str = "") -> Callable[[Callable[..., None]], PrivateCheck]:
    """Turn a function of asserts into a private check of `exercise`, or of one part of its public check.

    `tells` is all that a student learns when it fails, unless it raises a `Told`. It names the misconception and gives
    no input and no expected value away. With `part`, only the points of that part are lost.
    """
    return lambda asserts: PrivateCheck(exercise, sentence(tells), asserts, part)


@contextmanager
def tells(words: str) -> Iterator[None]:
    """Within it, a private check that fails tells the student `words` in place of its own sentence.

    For a check that asks several things: `words` names the kind of input and the mistake, and no drawn number.
    """
    try:
        yield
    except Told:
        raise
    except AssertionError as failed:
        raise Told(str(failed), words) from None


def told_of(error: StudentError, words: str) -> str:
    """The words of a private check where the student's code raised an error, which they may not foresee."""
    from_course = not error.number  # no line of the student's is in the traceback: it looked at what their code gave
    return words if error.is_no_answer or from_course else f"{sentence(words)} Your code raised an error there."


def swept(exercise: str, contract: Contract, part: str = "", without: Collection[str] = ()) -> list[PrivateCheck]:
    """A private check of each kind of question that a contract gives, but for those of `without`."""

    def of_kind(kind: str) -> PrivateCheck:
        def asserts(**given: Any) -> None:
            try:
                contract.hold(given[contract.name], given["lib"], kind)
            except AssertionError as failed:
                told = contract.tells_of(kind, failed, (given[contract.name], given["lib"]))
                raise Told(str(failed), told) from None

        names = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in (contract.name, "lib")]
        asserts.__signature__ = inspect.Signature(names)  # type: ignore[attr-defined]
        asserts.__name__ = f"{contract.name}_{kind}"
        return PrivateCheck(exercise, contract.tells(kind), asserts, part)

    return [of_kind(kind) for kind in contract.kinds() if kind not in without]


def _names_differ(path: Path) -> None:
    if twice := _repeated_name(path.read_text()) if path.exists() else "":
        raise CourseError(f"{path}: two functions are named {twice}, so the first check would be lost: rename one")


@cache  # private checks are looked up for each of thousands of answers, and parsing takes milliseconds
def _repeated_name(source: str) -> str:
    """The name of two functions of a module; "" if all names differ."""
    names = Counter(node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))
    return next((name for name, count in names.items() if count > 1), "")


def private_checks(entry: NotebookEntry) -> dict[str, list[PrivateCheck]]:
    """The private checks of a notebook by exercise, in the order of its `private_checks.py`; none without that file.

    Raises:
        CourseError: two of its functions have one name, so that the first would be lost, or they and the parts of the
            public checks do not fit, see `parts.must_fit`.
    """
    path = folder_of(entry) / "private_checks.py"
    _names_differ(path)
    by_exercise: dict[str, list[PrivateCheck]] = {}
    for value in vars(load_module(path)).values() if path.exists() else ():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, PrivateCheck):
                by_exercise.setdefault(item.exercise, []).append(item)
    parts.must_fit(
        checks_module(entry),
        {number: [check.part for check in of_exercise] for number, of_exercise in by_exercise.items()},
    )
    return by_exercise


def whole_verdict(
    verdict: Verdict, hidden: Iterable[PrivateCheck], failure: Callable[[PrivateCheck], str | None]
) -> tuple[Verdict, str]:
    """The verdict of a public check and of the private checks after it; and what the instructor alone may read.

    Nothing private is asked where no point is left to lose, and nothing of a part that is lost.

    Args:
        failure: asks a private check, see `PrivateCheck.failure`.
    """
    reasons = []
    for item in hidden:
        if verdict.outcome is not Outcome.PASSED and not verdict.in_parts:
            break
        if any(part.name == item.part and part.outcome is not Outcome.PASSED for part in verdict.parts):
            continue
        why = failure(item)
        if why:
            reasons.append(why)
            verdict = verdict.losing(item.part, why.tells if isinstance(why, Reason) else item.tells)
    return verdict, "; ".join(reasons)


@cache
def load_module(path: Path) -> ModuleType:
    """A module by its path: `solutions/` is not a package, since nothing may import it by name."""
    spec = importlib.util.spec_from_file_location(f"private_{path.parent.name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
