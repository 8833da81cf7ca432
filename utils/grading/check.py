"""The one decorator every check uses: number it, price it, and fail in one sentence.

A check is a function of asserts whose parameter names are the student's names. In a notebook it
is called with the student's objects and prints "passed" or raises `CheckFailed`; in grading the
judge calls `verdict` with its own way to ask. Either way the student's results arrive by value.
"""

import copy
import html
import inspect
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from utils import predictions, setup, variants
from utils.grading import dispatch, forbidden, misconceptions, parts, probes, side_by_side
from utils.grading.remote import (
    DRAWS,
    PACKAGES,
    Ask,
    ForbiddenUsed,
    Remote,
    calls_remembered,
    libraries,
    named,
    promised,
    unusual_refused,
)
from utils.grading.verdict import Outcome, Ungraded, Verdict, legible, sentence, summed

if not __debug__:
    raise RuntimeError("checks are made of assert statements: run Python without -O and PYTHONOPTIMIZE")


class CheckFailed(AssertionError):
    """A check that did not pass. Its message is written for the student."""

    def _render_traceback_(self) -> list[str]:
        """Tell IPython to show the sentence alone, without the checker's own source."""
        return [str(self)]


class Check:
    """One exercise's check: its number, points, and the student's names it asks for."""

    def __init__(
        self,
        exercise: str,
        points: float,
        forbids: tuple[str, ...],
        asserts: Callable[..., None],
        variant: variants.Variant | None = None,
        draws: bool = False,
    ):
        self.exercise, self.points, self.forbids, self.asserts = exercise, points, forbids, asserts
        self.variant, self.draws = variant, draws
        self.latest: Verdict | None = None
        self.factor = 1.0  # of the points of parts, where the exercise has other points than its author gave it
        self.__name__, self.__doc__ = asserts.__name__, asserts.__doc__

    def worth(self, points: float) -> "Check":
        """The same check with other points; its parts keep their shares."""
        other = copy.copy(self)
        other.points, other.factor = points, self.factor * points / self.points
        return other

    @property
    def names(self) -> tuple[str, ...]:
        """The student's names, in the order in which the graded cell passes them."""
        given = ("lib", "own") if self.variant else ("lib",)
        return tuple(name for name in inspect.signature(self.asserts).parameters if name not in given)

    def __call__(self, *objects: Any) -> None:
        """Check the student's objects at home: print "passed", or raise in one sentence.

        Raises:
            CheckFailed: not passed; the message names the misconception.
        """
        if len(objects) != len(self.names):
            raise TypeError(f"checks.{self.__name__} takes {', '.join(self.names)}: run the cell as it was")
        namespace = dict(zip(self.names, objects, strict=True))
        cells = [forbidden.read_cell(source) for source in cells_at_home(objects)]
        priced = at_course_points(self)
        try:
            with slow_imports_told(self.exercise), side_by_side.kept() as different:
                self.latest = priced.verdict(lambda request: dispatch.answer(namespace, request), cells)
        except ImportError as failed:
            self.latest = Verdict(self.exercise, priced.points, Outcome.ERROR, unchecked(failed))
        if self.latest.outcome is not Outcome.PASSED:
            said = [one for one in different if legible(sentence(str(one))) in self.latest.message]
            side_by_side.show(said, notebook=shell() is not None)
            raise CheckFailed(self.latest.sentence())
        print(self.latest.sentence())
        predictions.reveal(self.exercise)

    def verdict(self, ask: Ask, cells: Sequence[forbidden.Cell], whose: Sequence[str] = ()) -> Verdict:
        """Reach the verdict by asking through `ask`; `cells` are those that ran in the student's kernel so far.

        `whose` holds what the student may be called, for an exercise with numbers of the student's own; at home there
        are none, and the session's own id counts.

        Raises:
            ImportError: a package that the course needs cannot be imported, so that there is no verdict.
        """
        rule = self.rule_against(cells)
        if rule:
            return Verdict(self.exercise, self.points, Outcome.WRONG, rule)
        return self._verdict_on_own(self.variant, ask, whose) if self.variant else self._examined(ask)

    def _examined(self, ask: Ask, own: variants.Own | None = None) -> Verdict:
        """The verdict that the asserts reach, part by part; `own` are the student's own numbers, if there are any."""
        with parts.each_alone() as found:
            outcome, message = examine(self.asserts, ask, self.forbids, own, self.draws)
        if self.factor != 1:
            found = [replace(one, points=round(one.points * self.factor, 6)) for one in found]
        if outcome is Outcome.PASSED:
            return Verdict(self.exercise, self.points, **summed(found, self.points))
        return Verdict(self.exercise, self.points, outcome, message)

    def _verdict_on_own(self, variant: variants.Variant, ask: Ask, whose: Sequence[str]) -> Verdict:
        """The verdict on an answer to numbers of the student's own: those of any name that is the student's."""
        names = whose or (variants.signed(),)
        ask = _Once(ask)
        some: dict[Any, variants.Own] = {}
        for name in names:
            some.setdefault(variant.of(name), variants.Own(variant, name))
        own, *others = some.values()
        verdict = self._examined(ask, own)
        if verdict.outcome is Outcome.WRONG:
            for one in others:
                ask.again()
                again = self._examined(ask, one)
                if again.outcome is Outcome.PASSED:
                    return again
        if not whose and not own.name and verdict.outcome is not Outcome.BLANK:
            return Verdict(self.exercise, self.points, Outcome.WRONG, variants.ASK)
        if not whose and verdict.outcome is Outcome.PASSED:  # grading draws from what the platform calls the student
            told = (
                f"This is right for {legible(own.name)!r}. Grading asks for the name under which you hand in. With a "
                "class list that is your name, id or e-mail address there"
            )
            return replace(verdict, message=told)
        return replace(verdict, another=own.another)

    def rule_against(self, cells: Sequence[forbidden.Cell]) -> str:
        """What these cells say against the answer before anything is asked of it, "" if nothing."""
        used = forbidden.used(cells, self.names, self.forbids)
        if used:
            return does_all(used)
        module = forbidden.withheld(cells, self.names)
        if module:
            return f"`{module}` is a part of the course that is not there when answers are graded. Write it without."
        return ""


def check(
    exercise: str,
    points: float,
    forbids: Iterable[str] = (),
    variant: variants.Variant | None = None,
    draws: bool = False,
) -> Callable[[Callable[..., None]], Check]:
    """Turn a function of asserts into the check of `exercise`, worth `points`.

    The function's parameters are the names of the student's objects; a parameter `lib` is no
    student's object but the libraries of their process: `lib(nn).Linear(3, 4)`, `lib(toys).total`.
    `forbids` lists identifiers that an answer may not use. With a `variant` the exercise has numbers of
    each student's own, which the function gets as its parameter `own`, see `utils.variants`. `draws` says that
    the student's functions may draw from torch's global generator. Modules may where they are made, and nothing else.
    """
    return lambda asserts: Check(exercise, points, tuple(forbids), asserts, variant, draws)


POINTS = "points.json"  # beside the modules of checks: points by exercise, where a course gives other ones


def at_course_points(item: Check) -> Check:
    """The check with the points that the course gives its exercise, for sessions at home; the judge is told them."""
    points = _course_points(Path(item.asserts.__code__.co_filename).with_name(POINTS)).get(item.exercise)
    return item.worth(points) if points else item


@cache
def _course_points(path: Path) -> dict[str, float]:
    """What `autograder build` wrote into this file, from `course.local.toml`; {} without it."""
    found: dict[str, float] = json.loads(path.read_text()) if path.is_file() else {}
    return found


class _Once:
    """Asks each question once, for whichever name of the student its reply is looked at: there is no second guess."""

    def __init__(self, ask: Ask):
        self._ask = ask
        self._replies: defaultdict[bytes, list[bytes]] = defaultdict(list)
        self.again()

    def again(self) -> None:
        """Begin again: the first time that a question is asked, it gets its first reply."""
        self._times: Counter[bytes] = Counter()

    def __call__(self, request: bytes) -> bytes:
        replies, place = self._replies[request], self._times[request]
        if place == len(replies):
            replies.append(self._ask(request))
        self._times[request] += 1
        return replies[place]


class Stretch(Check):
    """The check of a stretch exercise: at home it runs as every other, and grading leaves it out."""

    def verdict(self, ask: Ask, cells: Sequence[forbidden.Cell], whose: Sequence[str] = ()) -> Verdict:
        """Reach the verdict; see `Check.verdict`. It has no points."""
        return Ungraded(**vars(super().verdict(ask, cells, whose)))


def stretch(
    exercise: str, forbids: Iterable[str] = (), draws: bool = False
) -> Callable[[Callable[..., None]], Stretch]:
    """Turn a function of asserts into the check of the stretch `exercise`, such as "7.S1"; see `check`."""
    return lambda asserts: Stretch(exercise, 0, tuple(forbids), asserts, draws=draws)


# What takes seconds to import, as students know it.
SLOW = {
    "adapters": "adapters",
    "sympy": "more of torch",
    "torch._dynamo": "more of torch",
    "transformers": "transformers",
}


@contextmanager
def slow_imports_told(exercise: str) -> Iterator[None]:
    """Say it when a check, or what it calls, is the first to import a library that takes seconds."""
    finder = _Told(exercise)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Told:
    """Is asked for every module that is imported for the first time, and finds none."""

    def __init__(self, exercise: str):
        self.exercise, self.told = exercise, False

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        if name in SLOW and not self.told:
            self.told = True
            print(f"Exercise {self.exercise}: loading {SLOW[name]}, which takes some seconds, once ...", flush=True)


def unchecked(failed: ImportError) -> str:
    """The sentence for an exercise that has no verdict, because a package that the course needs cannot be imported."""
    if isinstance(failed, ModuleNotFoundError) and failed.name in PACKAGES:
        missing = f"the package {failed.name} is missing"
    else:
        missing = legible(str(failed))
    return f"This cannot be checked here: {missing}. Run {setup.CELL}, then this cell again."


def does_all(name: str) -> str:
    """The sentence for an answer that uses what is forbidden, or what hides whether it does."""
    if name in forbidden.HIDE:
        return f"`{name}` hides what your code calls, so it cannot be checked. Write the answer without it."
    return f"`{name}` does all the work of this exercise. Write it without."


def examine(
    asserts: Callable[..., None],
    ask: Ask,
    forbids: Sequence[str] = (),
    own: variants.Own | None = None,
    draws: bool | None = None,
) -> tuple[Outcome, str]:
    """Run a function of asserts against whatever answers `ask`; never raises for a wrong answer.

    What an answer of the student's uses while it is called must be none of `forbids`. `own` are the student's own
    numbers, for a parameter of that name. draws: whether the student's functions may draw from torch's global
    generator; None for a private check, since the public one asked.

    Raises:
        ImportError: a package that the course needs cannot be imported, so that there is no verdict.
    """
    objects: dict[str, Any] = {
        name: libraries(ask, forbids) if name == "lib" else named(ask, name, forbids)
        for name in inspect.signature(asserts).parameters
    }
    if own is not None:
        objects["own"] = own
    try:
        with unusual_refused(draws is not None), calls_remembered(), misconceptions.named_on_two_inputs():
            promised(*[DRAWS] * (draws is not False))
            if draws is not None:
                libraries(ask)(probes).world(True)  # else a seed that is set to what it is would not show
            asserts(**objects)
    except ForbiddenUsed as caught:
        return Outcome.WRONG, does_all(legible(str(caught), 100))
    except ImportError:  # ours: no code of the student's runs on this side
        raise
    except Exception as failed:
        return parts.told(failed)
    return Outcome.PASSED, ""


def checks_of(module: ModuleType) -> dict[str, Check]:
    """The graded checks of a module by exercise number, in the order of its source."""
    every = [item for item in vars(module).values() if isinstance(item, Check)]
    return {item.exercise: item for item in every if not isinstance(item, Stretch)}


def stretches_of(module: ModuleType) -> dict[str, Stretch]:
    """The checks of a module's stretch exercises by their numbers, in the order of its source."""
    return {item.exercise: item for item in vars(module).values() if isinstance(item, Stretch)}


def shell() -> Any:
    """The IPython that runs this session's cells; None without one."""
    return sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None


def cells_at_home(objects: Iterable[Any]) -> list[str]:
    """The cells that ran in this session so far, in order; without IPython, the sources of these objects."""
    running = shell()
    if running is not None and running.user_ns.get("In"):
        return [source for source in running.user_ns["In"] if isinstance(source, str)]
    return [source_of(item) for item in objects]


def source_of(item: Any) -> str:
    """The source of a function or class typed in a notebook; "" where Python does not know it."""
    try:
        return inspect.cleandoc("\n" + inspect.getsource(item))
    except (OSError, TypeError):
        methods = vars(item).values() if isinstance(item, type) else ()
        return "\n".join(source_of(method) for method in methods if inspect.isfunction(method))


class Scoreboard:
    """A table of all exercises of a notebook: number, points, and the verdict if there is one.

    Below it are the stretch exercises, without points, and how many predictions of the session were right.
    """

    def __init__(
        self, rows: Iterable[tuple[str, float, Verdict | None]], stretches: Iterable[tuple[str, Verdict | None]] = ()
    ):
        self.rows, self.stretches = list(rows), list(stretches)
        self.predicted = predictions.summary()

    def __repr__(self) -> str:
        lines = [f"{number:>5}  {self._state(latest):18}  {points:g}" for number, points, latest in self.rows]
        return "\n".join([*lines, self._total(), *self._not_graded()])

    def _repr_html_(self) -> str:
        mark = {"passed": "&#10003;", "passed in part": "&#9680;", "wrong": "&#10007;", "error": "&#10007;"}
        rows = "".join(
            f"<tr><td>{number}</td><td>{mark.get(self._state(latest), '&#183;')}</td>"
            f"<td style='text-align:left'>{html.escape(self._state(latest))}</td>"
            f"<td>{latest.score if latest else 0:g} of {points:g}</td></tr>"
            for number, points, latest in self.rows
        )
        head = "<tr><th>exercise</th><th></th><th style='text-align:left'>state</th><th>points</th></tr>"
        below = "".join(f"<p>{line}</p>" for line in (self._total(), *map(html.escape, self._not_graded())))
        return f"<table>{head}{rows}</table>{below}"

    @staticmethod
    def _state(latest: Verdict | None) -> str:
        return "check not run yet" if latest is None else latest.state

    def _not_graded(self) -> list[str]:
        lines = [f"stretch exercise {number}, not graded: {self._state(latest)}" for number, latest in self.stretches]
        return lines + ([self.predicted] if self.predicted else [])

    def _total(self) -> str:
        won = sum(latest.score for _, _, latest in self.rows if latest)
        return f"{won:g} of {sum(points for _, points, _ in self.rows):g} points, written questions aside"


def scoreboard(module: ModuleType) -> Scoreboard:
    """The state of every exercise of `module`, for the last cell of a notebook."""
    return Scoreboard(
        ((item.exercise, at_course_points(item).points, item.latest) for item in checks_of(module).values()),
        ((item.exercise, item.latest) for item in stretches_of(module).values()),
    )


__all__ = [
    "Check",
    "CheckFailed",
    "Outcome",
    "Remote",
    "Scoreboard",
    "Stretch",
    "Verdict",
    "check",
    "checks_of",
    "scoreboard",
    "stretch",
    "stretches_of",
]
