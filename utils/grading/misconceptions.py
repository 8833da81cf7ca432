"""When a check names the mistake behind a wrong answer: once it explains what came for two inputs.

For one input alone a mistake's result may be that of another mistake. So the first comparison that fails is kept with
the mistakes that explain it, and the check goes on. The next comparison that fails and knows one of these mistakes
decides. Where none does, the first comparison's plain sentence comes first, and then what is known: that this mistake
gives the same there.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch

from utils.grading.remote import ForbiddenUsed, StudentError
from utils.grading.verdict import sentence

ONE_INPUT = "A known mistake gives the same result for this input."
_open: ContextVar["_Comparisons | None"] = ContextVar("open", default=None)


class _Comparisons:
    """The first comparison of a check that failed, and the mistakes that explain it and those after it."""

    def __init__(self) -> None:
        self.plain: Callable[[], str] | None = None
        self.decided = False
        self.failure: Callable[[str], AssertionError] = AssertionError
        self.mistakes: Sequence[str] = ()
        self.case: Sequence[Any] = ()

    def undecided(self) -> AssertionError:
        """The failure where no second comparison knew one of the mistakes."""
        assert self.plain is not None
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
        raise comparisons.undecided() from None
    finally:
        _open.reset(before)
    if comparisons.plain is not None:
        raise comparisons.undecided()


def comparison_failed(
    failure: Callable[[str], AssertionError],
    plain: Callable[[], str],
    mistakes: Sequence[str],
    known: Collection[str],
    case: Sequence[Any],
) -> None:
    """Fail with the sentence of a mistake that explains this comparison and an earlier one; else wait for another.

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
    if comparisons.plain is None:
        if not mistakes:
            raise failure(plain())
        comparisons.plain, comparisons.failure, comparisons.mistakes, comparisons.case = plain, failure, mistakes, case
        return
    if {*comparisons.mistakes}.isdisjoint(known) or all(map(_equal, case, comparisons.case)):
        return
    comparisons.decided = True
    both = [mistake for mistake in comparisons.mistakes if mistake in mistakes]
    raise comparisons.failure(both[0] if both else comparisons.plain())


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return torch.equal(one, other)
    return type(one) is type(other) and not isinstance(one, torch.Tensor) and bool(one == other)
