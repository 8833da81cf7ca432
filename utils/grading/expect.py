"""What checks say over and over: is it a tensor, of this shape, with these values?

Each raises AssertionError with a sentence for the student. None prints an expected value.
"""

import hashlib
import math
import random
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch

from utils.grading.remote import Remote, StudentError, kind

# What `normal`, `generator` and `draw` mix into their seeds, see `drawn_for`.
_key: ContextVar[bytes] = ContextVar("key", default=b"")

Guess = torch.Tensor | Callable[[], torch.Tensor]  # what a misconception gives, or how to compute it


def plural(what: str) -> bool:
    """Whether `what` names several things: "the logits" does, "the loss", "`bias`" and "what f returns" do not."""
    if what.startswith("what "):
        return False
    noun = re.split(r" (?:of|with|without|in|for) |,", what)[0].split()[-1]
    return noun.isalpha() and noun.endswith("s") and not noun.endswith(("ss", "bias"))


def tensor(value: Any, shape: tuple[int, ...], what: str) -> torch.Tensor:
    """`value`, which must be a floating-point or integer tensor of `shape`; `what` names it."""
    assert type(value) is torch.Tensor, f"{what} should be a tensor, not {kind(value)}."
    assert value.shape == shape, f"{what} {'have' if plural(what) else 'has'} shape {tuple(value.shape)}, not {shape}."
    return value


def floats(value: Any, shape: tuple[int, ...], what: str) -> torch.Tensor:
    """`value` as float32, which must be a floating-point tensor of `shape` without NaN."""
    tensor(value, shape, what)
    told = f"{what} {'are' if plural(what) else 'is'} {value.dtype}, not a floating-point tensor."
    assert value.is_floating_point(), told
    assert not value.isnan().any(), f"{what}: there is NaN among the numbers."
    return value.float()


def number(value: Any, what: str) -> float:
    """`value` as a float: an int, a float, or a tensor with one element."""
    if type(value) is torch.Tensor and value.numel() == 1:
        value = value.item()
    assert type(value) in (int, float), f"{what} should be a number, not {kind(value)}."
    assert not math.isnan(value), f"{what} is NaN."
    return float(value)


def close(actual: torch.Tensor | float, wanted: torch.Tensor | float, sentence: str, tolerance: float = 1e-4) -> None:
    """Fail with `sentence` unless the two agree within `tolerance`, absolute and relative.

    The tolerance covers the order of float32 sums on CPU and CUDA, not a wrong formula.
    """
    actual, wanted = torch.as_tensor(actual).double(), torch.as_tensor(wanted).double()
    assert actual.shape == wanted.shape, sentence
    assert torch.allclose(actual, wanted, rtol=tolerance, atol=tolerance), sentence


def raises(call: Callable[[], Any], type_name: str, sentence: str) -> None:
    """Fail with `sentence` unless `call` makes the student's code raise `type_name`."""
    try:
        call()
    except StudentError as error:
        if error.blank:
            raise
        assert error.type_name == type_name, f"{sentence} It raised {error.type_name or 'nothing usable'}."
        return
    raise AssertionError(sentence)


def like(
    actual: torch.Tensor, wanted: torch.Tensor, otherwise: str, guesses: Mapping[str, Guess], tolerance=1e-4
) -> None:
    """Fail unless the two agree within `tolerance`, with the sentence whose guess explains `actual`.

    `guesses` maps a sentence that names a misconception to what it would have given, or to a function
    that computes this: a right answer then need not wait for it. `otherwise` is said when none fits.
    A guess that equals `wanted` explains nothing and is passed over.
    """
    try:
        close(actual, wanted, otherwise, tolerance)
    except AssertionError:
        for sentence, given in guesses.items():
            guess = given if isinstance(given, torch.Tensor) else given()
            if guess.shape == actual.shape and torch.allclose(actual.double(), guess.double(), tolerance, tolerance):
                raise AssertionError(sentence) from None
        raise


def weights(module: Remote, shapes: Mapping[str, tuple[int, ...]], what: str, seed: int = 0) -> dict[str, torch.Tensor]:
    """Fill a student's module with random weights, which are returned; its parts must be those of `shapes`.

    The names and shapes of its `state_dict()` must be exactly these; `what` names the module.
    """
    state = module.state_dict()
    assert type(state) is dict, f"{what} has no state_dict: it should be an nn.Module."
    missing, extra = [name for name in shapes if name not in state], [name for name in state if name not in shapes]
    assert not missing, f"{what} has no `{missing[0]}`. Its parts must have the names that the docstring gives."
    assert not extra, f"{what} has a part too many: `{extra[0]}`."
    for name, shape in shapes.items():
        tensor(state[name], shape, f"`{name}` of {what}")
    numbers = generator(seed)
    filled = {name: 0.4 * torch.randn(shape, generator=numbers) for name, shape in shapes.items()}
    module.load_state_dict(filled)
    return filled


@contextmanager
def drawn_for(key: bytes) -> Iterator[None]:
    """Within it, all that `normal`, `generator` and `draw` give depends on `key`; an empty one changes nothing.

    In grading, private checks get a key that only the instructor and nobody's kernel knows, another one for
    each hand-in: what one hand-in was asked tells nothing of what the next one is asked.
    """
    before = _key.set(key)
    try:
        yield
    finally:
        _key.reset(before)


def mixed(seed: int) -> int:
    """The seed that `seed` stands for under the key: itself if there is none."""
    key = _key.get()
    return int.from_bytes(hashlib.sha256(key + str(seed).encode()).digest()[:6]) if key else seed


def generator(seed: int = 0) -> torch.Generator:
    """A generator of torch's that draws the same for the same seed (and key, see `drawn_for`)."""
    return torch.Generator().manual_seed(mixed(seed))


def draw(seed: int = 0) -> random.Random:
    """Python's generator, as `generator`: `draw(3).randint(2, 9)`, `.choice(...)`, `.sample(...)`."""
    return random.Random(mixed(seed))


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    """Standard normal numbers, the same for the same seed (and key, see `drawn_for`)."""
    return torch.randn(shape, generator=generator(seed))
