"""When a check names the mistake behind a wrong answer: once it explains what came for two inputs.

For one input alone a mistake's result may be that of another mistake. So the first comparison that fails is kept with
the mistakes that explain it, and the check goes on. The next comparisons that fail and know one of these mistakes
decide, until one is left. Where there is no second comparison, the plain sentence of the first one is said, and then
which mistake gives the same there.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch

from utils.grading.remote import ForbiddenUsed, StudentError
from utils.grading.verdict import sentence

ONE_INPUT = "It looks like this mistake:"
_open: ContextVar["_Comparisons | None"] = ContextVar("open", default=None)


class _Comparisons:
    """The first comparison of a check that failed, and the mistakes that explain it and those after it."""

    def __init__(self, waits: bool = True) -> None:
        self.waits = waits
        self.plain: Callable[[], str] | None = None
        self.decided = False
        self.inputs = 0
        self.failure: Callable[[str], AssertionError] = AssertionError
        self.mistakes: Sequence[str] = ()
        self.case: Sequence[Any] = ()

    def failed(self) -> AssertionError:
        """The failure with what is known at the end."""
        assert self.plain is not None
        if self.inputs > 1:
            return self.failure(self.mistakes[0])
        return self.failure(f"{self.plain()} {ONE_INPUT} {sentence(self.mistakes[0])}")


@contextmanager
def named_on_two_inputs() -> Iterator[None]:
    """Within it `comparison_failed` waits for a second input; at its end, or when anything else fails, it is decided.

    A forbidden function, a missing package and a kernel that is gone are reported as they are.
    """
    comparisons = _Comparisons()
    before = _open.set(comparisons)
    try:
        yield
    except (ForbiddenUsed, ImportError):
        raise
    except Exception as later:
        gone = isinstance(later, StudentError) and later.ends_check
        if comparisons.plain is None or comparisons.decided or gone:
            raise
        raise comparisons.failed() from None
    finally:
        _open.reset(before)
    if comparisons.plain is not None:
        raise comparisons.failed()


@contextmanager
def said_at_once() -> Iterator[None]:
    """Within it `comparison_failed` does not wait: a private check tells what was asked where it failed."""
    before = _open.set(_Comparisons(waits=False))
    try:
        yield
    finally:
        _open.reset(before)


def comparison_failed(
    failure: Callable[[str], AssertionError],
    plain: Callable[[], str],
    mistakes: Sequence[str],
    known: Collection[str],
    case: Sequence[Any],
) -> None:
    """Fail with the sentence of the mistake that explains this comparison and those before; else wait for another.

    Args:
        failure: makes the exception from its sentence.
        plain: the sentence that says what came, where no mistake explains it.
        mistakes: the sentences that explain this comparison; without any, `plain` is said at once.
        known: all sentences that the comparison looked at. One without any of the kept sentences decides nothing.
        case: what came and what was wanted. The same again is not a second input.
    """
    comparisons = _open.get()
    if comparisons is None:
        raise failure(mistakes[0] if mistakes else plain())
    if comparisons.plain is None or not comparisons.waits:
        if not mistakes:
            raise failure(plain())
        comparisons.plain, comparisons.failure, comparisons.mistakes, comparisons.case = plain, failure, mistakes, case
        comparisons.inputs = 1
        if not comparisons.waits:
            raise comparisons.failed()
        return
    if {*comparisons.mistakes}.isdisjoint(known) or all(map(_equal, case, comparisons.case)):
        return
    comparisons.inputs += 1
    left = [mistake for mistake in comparisons.mistakes if mistake in mistakes]
    if len(left) > 1:
        comparisons.mistakes = left
        return
    comparisons.decided = True
    raise comparisons.failure(left[0] if left else comparisons.plain())


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return torch.equal(one, other)
    return type(one) is type(other) and not isinstance(one, torch.Tensor) and bool(one == other)
