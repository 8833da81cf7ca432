"""What checks say over and over: is it a tensor, of this shape, with these values?

Each raises AssertionError with a sentence for the student: what was called, what came, and where it is wrong. No
sentence states the right value of a single number. For tensors of FEWEST entries or more it states the first wrong
one and the right one there, which a student's own session shows as well, see `utils.grading.side_by_side`.
"""

import builtins
import hashlib
import itertools
import math
import random
import re
import secrets
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import nn

from utils.grading import toys
from utils.grading.misconceptions import comparison_failed
from utils.grading.remote import Library, Remote, StudentError, called, kind
from utils.grading.side_by_side import DIGITS, FEWEST, Different
from utils.grading.verdict import legible
from utils.variants import Own, stated

# What `normal`, `generator` and `draw` mix into their seeds, see `drawn_for`.
_key: ContextVar[bytes] = ContextVar("key", default=b"")

Case = tuple[Any, float, Mapping[str, float]]  # a number that was found, the one wanted, and misconceptions' numbers
WORDS = 624  # in the state of a Mersenne twister, which torch, numpy and Python draw from
HEAD = struct.Struct("<8xi4xQ")  # of the state of torch's: how many words are left, and the place of the next
MOST_PAIRS = 10**5  # of different things, that a check compares
FINE = 1e-5  # below this share of the right number, a difference is stated: the digits shown would be the same
Guess = torch.Tensor | Callable[[], torch.Tensor]  # what a misconception gives, or how to compute it
Sentence = str | Callable[[], str]  # a function makes the sentence where it is said: most never are, and some take long


def plural(what: str) -> bool:
    """Whether `what` names several things: "the logits" does, "the loss", "`bias`" and "what f returns" do not."""
    if what.startswith("what "):
        return False
    noun = re.split(r" (?:of|with|without|in|for) |,", what)[0].split()[-1]
    return noun.isalpha() and noun.endswith("s") and not noun.endswith(("ss", "bias"))


def of_type(value: Any, kinds: type | tuple[type, ...], sentence: str) -> Any:
    """`value`, whose type must be one of `kinds`; `sentence` says what it should be, without its end ", not ..."."""
    assert type(value) in (kinds if isinstance(kinds, tuple) else (kinds,)), f"{sentence}, not {kind(value)}."
    return value


def text_of(sentence: Sentence) -> str:
    """The text of a sentence that is said now."""
    return sentence if isinstance(sentence, str) else sentence()


def items(value: Any, count: int, sentence: Sentence) -> list[Any]:
    """`value`, a list or a tuple of `count` items; `sentence` as in `of_type`."""
    size = f" of {len(value)}" if type(value) is list else ""
    assert type(value) is list and len(value) == count, f"{text_of(sentence)}, not {kind(value)}{size}."
    return value


def fields(value: Any, names: Sequence[str], sentence: str) -> dict[str, Any]:
    """`value`, a dict that reports something under each of `names`; `sentence` as in `of_type`."""
    of_type(value, dict, sentence)
    for name in names:
        assert name in value, f"the report has no `{name}`."
    return value


def tensor(value: Any, shape: tuple[int, ...], what: Sentence) -> torch.Tensor:
    """`value`, which must be a floating-point or integer tensor of `shape`; `what` names it."""
    if type(value) is not torch.Tensor or value.shape != shape:
        what = text_of(what)
        assert type(value) is torch.Tensor, f"{what} should be a tensor, not {kind(value)}."
        have = "have" if plural(what) else "has"
        raise AssertionError(f"{what} {have} shape {tuple(value.shape)}, not {shape}.")
    return value


def floats(value: Any, shape: tuple[int, ...], what: str) -> torch.Tensor:
    """`value` as float32, which must be a floating-point tensor of `shape` without NaN."""
    tensor(value, shape, what)
    told = f"{what} {'are' if plural(what) else 'is'} {value.dtype}, not a floating-point tensor."
    assert value.is_floating_point(), told
    assert not value.isnan().any(), f"{what}: there is NaN among the numbers."
    return value.float()


def number(value: Any, what: Sentence) -> float:
    """`value` as a float: an int, a float, or a tensor with one element."""
    if type(value) is torch.Tensor and value.numel() == 1:
        value = value.item()
    assert type(value) in (int, float), f"{text_of(what)} should be a number, not {kind(value)}."
    assert not math.isnan(value), f"{text_of(what)} is NaN."
    return float(value)


def close(
    actual: torch.Tensor | float,
    wanted: torch.Tensor | float,
    sentence: str,
    tolerance: float = 1e-4,
    scale: float = 1.0,
) -> None:
    """Fail with `sentence` unless the two agree within `tolerance`, relative and, times `scale`, absolute.

    The tolerance covers the order of float32 sums on CPU and CUDA, not a wrong formula. `actual` is a real number or a
    tensor of them: nothing else agrees with anything.
    """
    known = type(actual) in (torch.Tensor, int, float) and not torch.as_tensor(actual).is_complex()
    assert known, f"{sentence} Real numbers are wanted, not {kind(actual)}."
    found, right = torch.as_tensor(actual).double(), torch.as_tensor(wanted).double()
    if found.shape != right.shape or not torch.allclose(found, right, rtol=tolerance, atol=tolerance * scale):
        raise Different(sentence, actual, wanted, tolerance, scale)


def near(actual: Any, wanted: torch.Tensor, rtol: float = 1e-5, atol: float = 1e-8) -> bool:
    """Whether `actual` is a tensor of the shape and type of `wanted` and agrees with it.

    `torch.allclose` alone also takes an empty tensor or a scalar for what it can be broadcast to.
    """
    same = type(actual) is torch.Tensor and actual.shape == wanted.shape and actual.dtype == wanted.dtype
    return same and torch.allclose(actual, wanted, rtol, atol)


def unchanged(after: Any, before: Mapping[str, Any], when: str) -> None:
    """Fail unless `after` is `before`, the facts about an object by name; `when` begins the sentence."""
    for what, old in before.items():
        new = fields(after, [what], "the facts should be a dict")[what]
        assert same(new, old), f"{when} {what} {'are' if plural(what) else 'is'} not as before."


def same(one: Any, other: Any) -> bool:
    """Whether two values of plain data are equal in all their parts, NaN included in nothing."""
    if type(one) is not type(other):
        return False
    if type(one) is torch.Tensor:
        return one.dtype == other.dtype and torch.equal(one, other)
    if type(one) is np.ndarray:
        return one.dtype == other.dtype and np.array_equal(one, other)
    if type(one) is list:
        return len(one) == len(other) and all(map(same, one, other))
    if type(one) is dict:
        return [*one] == [*other] and all(map(same, one.values(), other.values()))
    return bool(one == other)


def refuses(
    call: Callable[..., Any], *args: Any, says: str, kinds: Sequence[str] = ("ValueError",), **options: Any
) -> None:
    """Fail with `says` unless `call(*args, **options)` makes the student's code raise an exception of these `kinds`."""
    try:
        call(*args, **options)
    except StudentError as error:
        if error.is_no_answer:
            raise
        assert not error.kinds.isdisjoint(kinds), f"{says} It raised {error.type_name or 'nothing usable'}."
        return
    raise AssertionError(says)


def answers(call: Callable[..., Any], *args: Any, says: Sentence, kinds: Sequence[str] = (), **options: Any) -> Any:
    """What `call(*args, **options)` gives; fail with `says` where the student's code raises instead.

    `kinds` are the exceptions that `says` explains, all of them if none is named; others are told as they are.
    """
    try:
        return call(*args, **options)
    except StudentError as error:
        if error.is_no_answer or (kinds and error.kinds.isdisjoint(kinds)):
            raise
        raise AssertionError(f"{text_of(says)} It raised {error.type_name or 'nothing usable'}: {error}") from None


def like(
    actual: torch.Tensor,
    wanted: torch.Tensor,
    otherwise: str | Callable[[], str],
    guesses: Mapping[str, Guess],
    tolerance: float = 1e-4,
    scale: float = 1.0,
    once: bool = False,
) -> None:
    """Fail unless the two agree, as in `close`, with the sentence whose guess explains `actual`.

    `guesses` maps a sentence that names a misconception to what it would have given, or to a function
    that computes this: a right answer then need not wait for it. The sentence is said alone once it explains what came
    of two inputs, see `misconceptions`; with `once` it is a fact, such as "this is what an earlier call gave", and one
    input is enough. `otherwise` is said when none fits, and where the first wrong number is; a function looks closer at
    what is wrong, and says it. A guess that equals `wanted` explains nothing and is passed over.
    """
    try:
        close(actual, wanted, otherwise if isinstance(otherwise, str) else "", tolerance, scale)
    except Different as wrong:
        near = tolerance, tolerance * scale
        whence = called(actual, otherwise) if isinstance(otherwise, str) else ""

        def fits(guess: Guess) -> bool:
            given = guess if isinstance(guess, torch.Tensor) else guess()
            return given.shape == actual.shape and torch.allclose(actual.double(), given.double(), *near)

        mistakes = [sentence for sentence, guess in guesses.items() if fits(guess)]

        def plain() -> str:
            if not isinstance(otherwise, str):
                return otherwise()
            where = difference(actual, wanted, *near)
            return f"{otherwise} {where}".rstrip() + whence

        if once and mistakes:
            raise wrong.saying(mistakes[0]) from None
        comparison_failed(wrong.saying, plain, mistakes, guesses, (actual, wanted))


def difference(
    came: torch.Tensor, wanted: torch.Tensor, relative: float, absolute: float, rule: tuple[float, float] | None = None
) -> str:
    """What is wrong with the numbers that came, in a sentence; "" where the shapes differ.

    Those that differ by more than these tolerances are wrong; what explains all of them fits within those of `rule`.
    """
    if came.shape != wanted.shape:
        return ""
    found, right = came.detach().double().cpu(), wanted.detach().double()
    wrong = ~torch.isclose(found, right, relative, absolute)
    first, count = wrong.nonzero()[0].tolist(), int(wrong.sum())
    what = "number" if came.is_floating_point() else "entry"
    if not found[tuple(first)].isfinite() and found.numel() > 1:
        return f"There is {found[tuple(first)].item()} at `{first}`."
    if found.numel() == 1:
        return came_as(found.item(), right.item())
    if not found.any():
        return f"Every {what} is {'0' if came.dtype != torch.bool else 'False'}."
    if came.is_floating_point() and found.isfinite().all() and right.isfinite().all():
        apart = float((found - right).abs().max())
        if apart < FINE * float(right.abs().max()):
            return f"The numbers are near the right ones, but not near enough: they differ by up to {apart:.2g}."
        factor, more = float((found * right).sum() / (right * right).sum()), float((found - right).mean())
        if torch.allclose(found, factor * right, *(rule or (relative, absolute))):
            digits = 4 if f"{factor:.4g}" != "1" else 7
            return f"All numbers are {factor:.{digits}g} times as large as they should be."
        if torch.allclose(found, right + more, *(rule or (relative, absolute))):
            return f"All numbers are too {'large' if more > 0 else 'small'} by {abs(more):.4g}."
    both = _both(came[tuple(first)].item(), wanted[tuple(first)].item(), found.numel())
    if count == found.numel():
        return f"Every {what} is wrong. At `{first}` {both}."
    return f"The first wrong {what} is at `{first}`; {count} of {found.numel()} {_is(count)} wrong. There {both}."


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def _both(came: float, wanted: float, entries: int) -> str:
    """What came at a place and, if the tensor has FEWEST entries, what is right there."""
    texts = str(came), str(wanted)
    if isinstance(came, float):
        texts = next(
            (t for digits in DIGITS if (t := (f"{came:.{digits}g}", f"{wanted:.{digits}g}"))[0] != t[1]), texts
        )
    return f"your code gives {texts[0]}" + (f", and {texts[1]} is right" if entries >= FEWEST else "")


def came_as(value: float, wanted: float) -> str:
    """Which number came, in a sentence, and whether it is too large; a small difference is stated."""
    near = abs(value - wanted) < FINE * abs(wanted)
    by = f" by {abs(value - wanted):.2g}" if near else ""
    return f"Your code gives {value:.6g}, which is too {'large' if value > wanted else 'small'}{by}."


def number_like(
    value: Any,
    wanted: float | torch.Tensor,
    what: str,
    otherwise: str,
    guesses: Mapping[str, float | torch.Tensor] = MappingProxyType({}),
    tolerance: float = 1e-4,
    scale: float = 0.0,
) -> float:
    """`value` as a float, which must be `wanted`; else fail with the sentence whose guess explains it, as in `like`.

    `tolerance` is relative to `wanted`, or to `scale` if that is larger. `what` names the number.
    """
    found = number(value, what)
    whence = called(value, otherwise)
    near = {"rel_tol": tolerance, "abs_tol": tolerance * max(scale, abs(float(wanted)))}
    if not math.isclose(found, wanted, **near):
        mistakes = [sentence for sentence, guess in guesses.items() if math.isclose(found, guess, **near)]
        plain = f"{otherwise} {came_as(found, float(wanted))}{whence}"
        comparison_failed(AssertionError, lambda: plain, mistakes, guesses, (found, float(wanted)))
    return found


def numbers_like(
    cases: Sequence[Case], what: str, otherwise: str | Callable[[int, float], str], tolerance: float = 1e-4
) -> None:
    """Fail unless in each case (found, wanted, guesses) the number found is wanted, as in `number_like`.

    A sentence is said only if its guess is the number found in every case, of which two or more are wrong: a single
    number may be that of a mistake by chance, and where the mistake gives another number than came, it was not made. An
    infinite guess says nothing of a case that is right. `otherwise` may be a function of the place of the first case
    that is wrong, and of what came there.
    """

    def close_to(value: float, other: float, scale: float) -> bool:
        return math.isclose(value, other, rel_tol=tolerance, abs_tol=max(1e-7, tolerance * abs(scale)))

    known = [(number(found, what), wanted, guesses) for found, wanted, guesses in cases]
    wrong = [place for place, case in enumerate(known) if not close_to(case[0], case[1], case[1])]
    for sentence in known[wrong[0]][2] if len(wrong) > 1 else ():
        explained = [
            close_to(found, guesses[sentence], wanted)
            for place, (found, wanted, guesses) in enumerate(known)
            if place in wrong or math.isfinite(guesses[sentence])
        ]
        assert not all(explained), sentence
    if wrong:
        if not isinstance(otherwise, str):
            raise AssertionError(otherwise(wrong[0], known[wrong[0]][0]))
        raise AssertionError(otherwise + called(cases[wrong[0]][0], otherwise))


def explained(found: Any, wanted: Any, otherwise: str, guesses: Mapping[str, Any]) -> None:
    """Fail unless `found` equals `wanted`, with the sentence whose guess it is, as in `like`, else with `otherwise`.

    For numbers, texts and lists of them. A guess that equals `wanted` explains nothing and is passed over.
    """
    if found != wanted:
        mistakes = [sentence for sentence, guess in guesses.items() if found == guess]
        plain = otherwise + _came(found, otherwise)
        comparison_failed(AssertionError, lambda: plain, mistakes, guesses, (found, wanted))


def all_explained(cases: Sequence[tuple[Any, Any, str, Mapping[str, Any]]]) -> None:
    """Fail unless in each case (found, wanted, otherwise, guesses) the two are equal, as in `explained`.

    A sentence is said only if it explains all that is wrong, in two cases or more; else `otherwise` of the first one.
    """
    wrong = [case for case in cases if case[0] != case[1]]
    for sentence in wrong[0][3] if len(wrong) > 1 else ():
        assert not all(found == guesses[sentence] for found, _, _, guesses in wrong), sentence
    assert not wrong, wrong[0][2] + _came(wrong[0][0], wrong[0][2])


def _came(found: Any, sentence: str) -> str:
    """What came, and from which call, where that is short and plain and `sentence` does not say it; else ""."""
    text = repr(found)
    shown = len(text) > 120 or text in sentence or not _is_plain(found)
    return ("" if shown else f" Your code gives `{text}`.") + called(found, sentence)


def _is_plain(value: Any) -> bool:
    if type(value) in (list, tuple):
        return all(map(_is_plain, value))
    return type(value) in (int, float, str, bool) or value is None


def own(
    found: Any, own: Own, right: Callable[[Any], Any], otherwise: str, guesses: Mapping[str, Callable[[Any], Any]]
) -> None:
    """Fail unless `found` equals what is right for the student's own numbers, see `utils.variants`.

    `right` gives from numbers what is right for them. The sentence whose guess explains `found` for the student's own
    numbers comes first; then it is said if `found` is right for those of another id; else `otherwise` is.
    """
    numbers = own.numbers
    if found == right(numbers):
        return
    for sentence, guess in guesses.items():
        assert found != guess(numbers), sentence
    own.another = next((stated(other) for other in own.variant if found == right(other)), "")
    whose = repr(legible(own.name))  # the whole of it: reports put a code in its place
    assert not own.another, (
        f"this is right for the numbers of another id. Yours are those of {whose}. Check the spelling of STUDENT, run "
        "that cell again, and use the numbers it shows. If the other id is also yours, ask your instructor to add it "
        "to the class list."
    )
    raise AssertionError(f"{otherwise} Your numbers are those of {whose}.")


def one_device(lib: Library, call: Remote, *given: Any, **options: Any) -> None:
    """Fail if `call(*given, **options)` would stop on a GPU, see `toys.apart`."""
    assert not lib(toys).apart(call, *given, **options), (
        "on another device (a GPU) this would stop: what you make must lie on the device of what you are given."
    )


def state(module: Any, what: str) -> dict[str, torch.Tensor]:
    """The state dict of a student's module, which `what` names."""
    found = module.state_dict()
    assert type(found) is dict, f"{what} should be an nn.Module, not {kind(module)}."
    return found


def weights(
    module: Remote,
    shapes: Mapping[str, tuple[int, ...]],
    what: str,
    seed: int = 0,
    tied: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, torch.Tensor]:
    """Fill a student's module with random weights, which are returned; its parts must be those of `shapes`.

    The names and shapes of its `state_dict()` must be exactly these, and each a parameter of its own; `what` names the
    module. A name in `tied` gets the weights of the other name.
    """
    state = module.state_dict()
    assert type(state) is dict, f"{what} has no state_dict: it should be an nn.Module."
    missing, extra = [name for name in shapes if name not in state], [name for name in state if name not in shapes]
    if missing:
        part, _, last = missing[0].rpartition(".")
        told = f"{what} has no `{missing[0]}`"
        assert not any(name.startswith(f"{part}.") for name in state), f"{told}: its `{part}` is made without a {last}."
        raise AssertionError(f"{told}. Its parts must have the names that the docstring gives.")
    assert not extra, f"{what} has a part too many: `{extra[0]}`."
    for name, shape in shapes.items():
        tensor(state[name], shape, f"`{name}` of {what}")
    filled = drawn_weights(shapes, seed, tied)
    module.load_state_dict(filled)
    now = module.state_dict()
    for name in (one for one in shapes if one not in tied):  # what two names share has the numbers of one of them
        values = tensor(now.get(name), shapes[name], f"`{name}` of {what}").float()
        if not near(values, filled[name]):
            other = next((one for one in shapes if one not in tied and near(values, filled[one])), None)
            assert other is None, f"`{name}` and `{other}` of {what} are one parameter. They should be two."
    return filled


def drawn_weights(
    shapes: Mapping[str, tuple[int, ...]], seed: int, tied: Mapping[str, str] = MappingProxyType({})
) -> dict[str, torch.Tensor]:
    """The random weights of `weights`."""
    numbers = generator(seed)
    filled = {name: 0.4 * torch.randn(shape, generator=numbers) for name, shape in shapes.items()}
    return filled | {name: filled[other] for name, other in tied.items()}


def twins(lib: Library, build: Callable[[Any], Any], seed: int) -> tuple[Remote, Any]:
    """`build(nn)` in the student's process and in this one, with the same random weights."""
    theirs, ours = build(lib(nn)), build(nn)
    same_weights(theirs, ours, seed)
    return theirs, ours


def same_weights(theirs: Remote, ours: nn.Module, seed: int) -> dict[str, torch.Tensor]:
    """Fill a module of the student's process, and its twin here, with the same normal numbers, which are returned."""
    parts = enumerate(ours.state_dict().items())
    state = {name: normal(*part.shape, seed=seed + place) for place, (name, part) in parts}
    ours.load_state_dict(state)
    theirs.load_state_dict(state)
    return state


def agree(theirs: Mapping[str, torch.Tensor], ours: Mapping[str, torch.Tensor], part: str = "") -> bool:
    """Whether two state dicts hold the same weights under the names of `ours` that begin with `part`."""
    return all(
        theirs[name].shape == value.shape and torch.allclose(theirs[name].float(), value, rtol=1e-4, atol=1e-5)
        for name, value in ours.items()
        if name.startswith(part)
    )


@contextmanager
def drawn_for(key: bytes) -> Iterator[None]:
    """Within it, all that `normal`, `generator` and `draw` give depends on `key`; an empty one changes nothing.

    In grading, private checks get a key that only the instructor and nobody's kernel knows, another one for
    each submission: what one submission was asked tells nothing of what the next one is asked.
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


def chance(lib: Library) -> list[Any]:
    """The states of the student's global generators: those of torch, numpy and Python.

    A state that is only reported could be a lie. So the student's process also draws numbers, and puts the generators
    back. They are compared with what the reported states give in this process. Nobody can know how many are drawn.
    """
    count = 5 + secrets.randbelow(60)
    states, drawn = lib(toys).next_numbers(count)
    name, key, place, has_gauss, gauss = items(states[1], 5, "the state of numpy's generator is one")
    # numpy believes any place, and reads whatever memory lies there.
    known = type(place) is int and 0 <= place <= WORDS
    assert known, "the state of numpy's generator is not one of numpy's."
    numpy_twin, python_twin = np.random.RandomState(), random.Random()
    numpy_twin.set_state((name, np.array(key, dtype=np.uint32), place, has_gauss, gauss))
    version, inner, after = items(states[2], 3, "the state of Python's generator is one")
    python_twin.setstate((version, tuple(inner), after))
    wanted = [
        torch_numbers(states[0], count).tolist(),
        numpy_twin.random_sample(count).tolist(),
        [python_twin.random() for _ in range(count)],
    ]
    assert drawn == wanted, "a global generator draws other numbers than its state says."
    return [states[0].tolist(), key, place, states[2]]


def torch_state(lib: Library) -> list[int]:
    """The state of torch's global generator alone, see `chance`."""
    return chance(lib)[0]


def torch_numbers(state: Any, count: int) -> torch.Tensor:
    """What a generator of torch's on the CPU draws next, by `torch.rand`, if it is in this state."""
    whole = type(state) is torch.Tensor and state.dtype == torch.uint8
    assert whole and state.shape == torch.Generator().get_state().shape, "a generator's state is not one of torch's."
    # torch looks at either of these two alone, and may read beyond the words.
    left, place = HEAD.unpack_from(state.numpy())
    assert left + place <= WORDS + 1, "a generator's state is not one of torch's."
    try:
        return torch.rand(count, generator=torch.Generator().set_state(state.clone()))
    except RuntimeError:
        raise AssertionError("a generator's state is not one of torch's.") from None


def drawn_by(lib: Library, generator: Remote, count: int) -> list[float]:
    """What a generator of the student's draws next, by `torch.rand`; its state must say the same.

    A generator of a GPU has a state that only that GPU reads: there the student's process alone draws.
    """
    device = lib(builtins).str(generator.device)
    state = generator.get_state()
    drawn = lib(torch).rand(count, generator=generator, device=generator.device).tolist()
    if device == "cpu" or not torch.accelerator.is_available():
        assert drawn == torch_numbers(state, count).tolist(), "a generator draws other numbers than its state says."
    return drawn


def by_chance(counts: Sequence[float], wanted: Sequence[float], sigmas: float = 6) -> bool:
    """Whether counts may deviate by chance from those wanted, which have the same sum.

    Chernoff's bound: of trials that hit or not, so many hits or more have a probability of at most
    exp(-sum(count log(count / wanted))), and so do so many or fewer. It is compared with exp(-sigmas ** 2 / 2). For
    large counts this is so many standard deviations. Of small ones more come by chance. For the four counts of two
    properties, as `independent` has them, it is an approximation: the sum is half of the statistic G.
    Source: Chernoff (1952), A measure of asymptotic efficiency, theorem 1.
    """
    far = 0.0
    for count, mean in zip(counts, wanted, strict=True):
        if count > 0 and mean <= 0:
            return False
        far += count * math.log(count / mean) if count > 0 else 0.0
    return far <= sigmas**2 / 2 + 1e-6


def plausible(count: float, trials: int, p: float, sigmas: float = 6) -> bool:
    """Whether so many hits of so many trials may come by chance, see `by_chance`."""
    return by_chance((count, trials - count), (trials * p, trials * (1 - p)), sigmas)


def likely(count: int, trials: int, p: float, sentence: str, sigmas: float = 6) -> None:
    """Fail with `sentence` if so many hits of so many trials are more or fewer than come by chance."""
    assert plausible(count, trials, p, sigmas), sentence


def independent(pairs: Iterable[tuple[Any, Any]], sentence: str, sigmas: float = 6) -> None:
    """Fail with `sentence` if what comes first in pairs tells something about what comes second.

    Each combination must be as frequent as the two alone say, but for chance.
    """
    joint = Counter(pairs)
    first, second, total = Counter[Any](), Counter[Any](), joint.total()
    for (one, other), count in joint.items():
        first[one] += count
        second[other] += count
    assert len(first) * len(second) <= MOST_PAIRS, sentence  # else they are compared for hours
    for one, other in itertools.product(first, second):
        m, n, both = first[one], second[other], joint[one, other]
        counts = (both, m - both, n - both, total - m - n + both)
        wanted = [a * b / total for a, b in itertools.product((m, total - m), (n, total - n))]
        assert by_chance(counts, wanted, sigmas), sentence


def even(counts: Mapping[Any, int], shares: Mapping[Any, float], total: int, guess: Mapping[Any, float]) -> int:
    """0 if the counts fit the shares but for chance, 1 if they fit `guess` instead, else 2."""

    def fits(wanted: Mapping[Any, float]) -> bool:
        names = {*wanted, *counts}
        return all(plausible(counts.get(name, 0), total, min(1.0, wanted.get(name, 0.0))) for name in names)

    return 0 if fits(shares) else 1 if fits(guess) else 2
