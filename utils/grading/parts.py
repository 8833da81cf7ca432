"""Parts of a check: what fails in one costs its points alone, and the check goes on after it."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from utils.grading import misconceptions, side_by_side
from utils.grading.remote import ForbiddenUsed, StudentError, unusual_refused
from utils.grading.verdict import Outcome, Part, legible, sentence

# Where `part` puts what it finds; None where everything that fails ends the check, as in private checks.
_found: ContextVar[list[Part] | None] = ContextVar("found", default=None)


@contextmanager
def part(name: str, points: float) -> Iterator[None]:
    """A part of a check: `with part("the loss", 1):`, directly in the body of a function below `@check`.

    A failed assertion, an error of the student's code or a function left blank inside costs `points`, and the check
    goes on after the block. What fails outside of all parts costs the whole exercise. So do a forbidden function and
    a kernel that is gone, wherever they are met.

    Args:
        name: what a student reads before the sentence, such as the name of a function.
        points: of those that the exercise has.
    """
    found = _found.get()
    if found is None:
        yield
        return
    try:
        with unusual_refused(), misconceptions.named_on_two_inputs():
            yield
    except (ForbiddenUsed, ImportError):
        raise
    except Exception as failed:
        if isinstance(failed, StudentError) and failed.ends_check:
            raise
        found.append(Part(name, points, *told(failed)))
    else:
        found.append(Part(name, points, Outcome.PASSED))


@contextmanager
def each_alone() -> Iterator[list[Part]]:
    """Within it, parts fail alone: the list that is given holds what is found of each, in their order."""
    found: list[Part] = []
    before = _found.set(found)
    try:
        yield found
    finally:
        _found.reset(before)


def told(failed: Exception) -> tuple[Outcome, str]:
    """What an exception in a check says of an answer: the outcome, and the sentence for the student."""
    if isinstance(failed, StudentError):
        return (Outcome.BLANK, "") if failed.blank else (Outcome.ERROR, legible(sentence(failed.sentence())))
    if isinstance(failed, AssertionError):
        side_by_side.keep(failed)
        return Outcome.WRONG, legible(sentence(str(failed)))
    # A value of a kind the check did not foresee.
    return Outcome.WRONG, legible(f"What your code returned cannot be used ({type(failed).__name__}: {failed})")
