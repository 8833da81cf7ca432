"""A contract: what an exercise promises for every argument. The questions that hold for all exercises follow from it.

Beside a check stands what the exercise's text promises, in its words::

    ROTARY = Contract(
        "rotary(x, start)",
        sizes={"T": (0, 9, 2000), "w": (1, 9, 64), "start": (0, 30, 5000)},
        x="floats (..., T, 2 * w)",
        gives="the result: as x (..., T, 2 * w)",
        right=turned,
        learns="x",
    )

A size has its smallest value, its largest ordinary one and, where nothing bounds it, one that is larger than anything
in the notebook. KINDS says what is asked: `Contract.hold` asks some kinds in a public check, and
`swept`, which authors have beside `private`, makes a private check of each kind.
"""

import ast
import builtins
import contextlib
import copy
import inspect
import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from types import CodeType, MappingProxyType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import nn

from utils.grading import expect, probes, toys
from utils.grading.protocol import RECORDS
from utils.grading.remote import EMPTY, INFINITY, Library, Remote, StudentError, kind, promised
from utils.grading.wire import WireError

LAYOUTS = ["a view of heads", "every second row", "transposed"]
LEADS = ((2, 3), (), (4,), (1,), (3, 1, 2))  # what the dots of a shape stand for, in turn
LEADS_IN_WORDS = {
    (): "no leading dimensions",
    (1,): "one leading dimension, of 1",
    (3, 1, 2): "a leading dimension of 1 between others",
}
VALUES = ("huge", "tiny", "zero", "equal")
# Options of torch's layers that change what is learned, and that no shape and no single output shows.
SILENT = {"padding_idx": None, "max_norm": None, "scale_grad_by_freq": False, "sparse": False}
PLAIN = {"int": int, "float": float, "text": str, "bool": bool, "list": list, "dict": dict}
SINGLE = 1e-6  # relative to the largest number: what computing in float32 moves a result by
LOW = {torch.bfloat16: 0.04, torch.float16: 0.01}  # tolerances, relative to the largest number
# How far rounding moves a result, see `_Right.rounding`: relative changes of what is given, how often each is drawn,
# and how many times that far a right answer may be off (at most 3 times in 4,000 cases of SwiGLU in single precision).
STEPS, DRAWS, ROUNDINGS = (1e-6, 1e-7), 3, 10.0
ONE = "one number"  # of a result: a tensor with any number of axes, none longer than 1
WRONG = "{} {be} wrong."
SHARED = "two objects share a parameter, so what one learns changes the other. Each should have its own."
EXTRA_SECONDS = 20.0  # for all cases together that are asked only to say more about a wrong answer
Size = tuple[int, int] | tuple[int, int, int]


@dataclass(frozen=True)
class Case:
    """One choice of arguments: the sizes by name, what the dots of a shape stand for, and how numbers are drawn."""

    sizes: Mapping[str, int]
    seed: int
    words: str = ""
    lead: tuple[int, ...] = LEADS[0]
    values: str = "normal"
    dtype: torch.dtype = torch.float32
    without: bool = False  # what may be None is None

    def with_size(self, name: str, value: int) -> "Case":
        """The same but for one size."""
        return replace(self, sizes={**self.sizes, name: value})


class Said(str):
    """A sentence about a call; `public` is what a student may read of it where the call is a private check's.

    It has the kind of input and the kind of mistake, and no number that is drawn. It repeats no name, type or value of
    the student's either: what was drawn could stand in it.
    """

    public: str
    case: Case
    kinds: tuple[str, ...]  # what is known of the inputs in the case, see `Contract.kinds_of`

    def __new__(cls, text: str, public: str, case: Case, kinds: Iterable[str] = ()) -> "Said":
        """The sentence `text`."""
        said = super().__new__(cls, text)
        said.public, said.case, said.kinds = public, case, tuple(kinds)
        return said

    def more(self, text: str, public: str = "") -> "Said":
        """The same with more about it, and with another public problem if there is one."""
        return Said(f"{self} {text}".rstrip(), public or self.public, self.case, self.kinds)


@dataclass(frozen=True)
class Result:
    """What one result should be: "as x", "float" or a dtype, and its dimensions; without dimensions plain data."""

    name: str
    dtype: str
    dims: str | None


class Contract:
    """What an exercise promises for every argument.

    Args:
        call: how the exercise is called, such as "attention(q, k, v, mask=mask)" or, for a module,
            "Heads(w * H, H)(x)" or "Table(V, d).scores(x)". Names are sizes or arguments; a pair is written as one.
        sizes: by name the smallest, the largest ordinary and, where nothing bounds it, a large one. A name with an
            underscore in front is the author's own, and is not shown.
        gives: the results, as "the output: as x (B, T, d)", divided by semicolons, also of those in a pair; "the loss:
            as x (one number)" for a tensor with one number, whatever its axes. Plain data has no dimensions: "the
            gap: number" for any number, "whole" for a whole one, also in a tensor, else "int", "float", "text",
            "bool", "list" or "dict".
        right: the results for the same arguments; for a module, after its weights and its own arguments. It computes
            in the dtype of what it is given, lets gradients through, and is independent of the solution.
        fits: where chance decides, in place of `right`: from the results and then the arguments of `right` to what is
            wrong with them, such as "the mask holds other numbers than 0 and 1.", or "".
        pairs: where chance decides, by a sentence such as "the labels depend on the places.": from the results and the
            arguments, as `fits`, to pairs of outcomes that must be independent. Many results are asked for.
        everywhere: whether the result is the same in another process, where texts hash to other numbers.
        returns: "tuple", "list" or "dict", where the text promises the type of several results or of their holder.
        weights: for a module, the shapes of its parameters and stored buffers by name, from its own arguments.
        buffers: the names of `weights` that are buffers.
        tied: names of `weights` that are the same parameter as another one, by name.
        options: of the parts of a module, as {"norm.eps": 1e-12}, or {"eps": 1e-12} for all parts that have it. An
            embedding's are those of SILENT where nothing else is said.
        keeps: the names of modules among the arguments that a call leaves as they are: the modes of all their parts,
            which are in one mode before, what learns, gradients, hooks and weights.
        refuses: calls that must raise ValueError, such as "sinusoidal_table(T, 2 * w - 1)".
        learns: the names of the arguments that gradients reach; frozen: of those that none may reach.
        tolerance, far: relative to the largest number; `far` where a size is large.
        precise: whether float64 is computed in float64.
        low: whether bfloat16 and float16 come back.
        infinite: whether results hold minus infinity.
        modes: whether the mode of a module changes nothing.
        draws: whether a call may draw from the global generators.
        empty: whether what dots stand for may be empty.
        dense: whether the last axis of tensors is dense in memory.
        shares: whether a result may be a part of what was given.
        through: the name of a class of `toys` that is called in place of the answer, which it is given: it makes
            tensors of what the answer gives, or leaves out what the text leaves open.
        special: by words what else may matter about the inputs, as {"a run of 0 among the accuracies": lambda
            accuracies: 0 in accuracies}, from sizes and arguments by name. It is said where such inputs alone fail.
        toys: the module that functions among the arguments are given.
        arguments: by name "floats (B, T)", "ids (B, T) below V" or "bools (B, T)", of which one is true in each row,
            with "or None" where it may be left out; "= V - 1" is computed from sizes and arguments before it;
            "generator" for a generator of torch's; or a function that makes an object from `toys`, here and in the
            student's process, a seed, and the sizes that it names: `lambda toys, seed, V: toys.Model(V, seed)`.
    """

    def __init__(
        self,
        call: str,
        *,
        sizes: Mapping[str, Size],
        gives: str,
        right: Callable[..., Any] | None = None,
        fits: Callable[..., str] | None = None,
        pairs: Mapping[str, Callable[..., Iterable[tuple[Any, Any]]]] = MappingProxyType({}),
        everywhere: bool = False,
        returns: str = "",
        weights: Callable[..., dict[str, tuple[int, ...]]] | None = None,
        buffers: tuple[str, ...] = (),
        tied: Mapping[str, str] = MappingProxyType({}),
        options: Mapping[str, Any] = MappingProxyType({}),
        keeps: str = "",
        refuses: tuple[str, ...] = (),
        learns: str = "",
        frozen: str = "",
        tolerance: float = 1e-4,
        far: float = 0.0,
        precise: bool = True,
        low: bool = True,
        infinite: bool = False,
        modes: bool = True,
        draws: bool = False,
        empty: bool = False,
        dense: bool = False,
        shares: bool = False,
        through: str = "",
        special: Mapping[str, Callable[..., bool]] = MappingProxyType({}),
        toys: ModuleType = toys,
        **arguments: str | Callable[..., Any],
    ):
        assert (right is None) is not (fits is None), f"{call}: give what is right, or what fits"
        self.call, self.sizes, self.right, self.weights, self.arguments = call, sizes, right, weights, arguments
        self.fits, self.returns, self.buffers, self.tied, self.empty = fits, returns, buffers, tied, empty
        assert right is None or "generator" not in arguments.values(), f"{call}: what is drawn can only fit"
        self.pairs, self.everywhere, self.special = pairs, everywhere, special
        self.options, self.keeps = {**SILENT, **options}, keeps.split()
        self.toys, self.draws, self.low, self.shares, self.through = toys, draws, low, shares, through
        self.learns, self.frozen = learns.split(), frozen.split()
        self.tolerance, self.far = tolerance, far or tolerance
        self.precise, self.infinite, self.modes, self.dense = precise, infinite, modes, dense
        self.results = [_result(text) for text in gives.split(";")]
        self._outer, self._inner, self.method = outer, inner, _ = _calls(call)
        self.refuses = refuses
        called = (inner or outer).func
        assert isinstance(called, ast.Name), f"{call} does not call a name"
        self.name = called.id
        self._shown = [name for name in dict.fromkeys([*_names(outer), *sizes]) if name not in (self.name, "None")]
        self._shown = [name for name in self._shown if not name.startswith("_")]

    @property
    def is_module(self) -> bool:
        """Whether the exercise is a module, which is made before it is called."""
        return self._inner is not None

    @property
    def gives_objects(self) -> bool:
        """Whether results are tensors, lists or dicts, which can be written into."""
        result = self.results[0]
        return len(self.results) > 1 or result.dims is not None or result.dtype in ("list", "dict")

    @property
    def has_optional(self) -> bool:
        """Whether an argument may be None."""
        return any(map(_optional, self.arguments.values()))

    @property
    def has_leads(self) -> bool:
        """Whether a tensor among the arguments may have any leading dimensions."""
        return any("..." in spec for spec in self.arguments.values() if isinstance(spec, str))

    def tells(self, kind: str) -> str:
        """What a student reads where a private check of this kind fails and no more is known, see `tells_of`."""
        sizes = f"it is wrong for other inputs. {self._bounds()}".rstrip()
        said = {
            "sizes": sizes,
            "large": f"it is wrong for sizes larger than any in the notebook. {self._bounds(True)}".rstrip(),
            "values": "it is wrong for numbers that are huge, tiny, zero or equal.",
            "dtypes": "for a dtype other than float32 the result has the wrong dtype, or too little precision.",
            "layout": "for tensors that are not contiguous in memory it is wrong, or fails.",
            "device": "on another device (a GPU) it would fail, or the result would be on the wrong device.",
            "gradients": "the gradients are wrong, or do not arrive."
            if self.learns or self.frozen or self.is_module
            else "its result needs a gradient, and nothing here learns.",
            "refusals": f"it accepts what it should refuse: {', '.join(f'`{one}`' for one in self.refuses)}.",
            "memory": "it is wrong for other inputs, or the result depends on earlier calls or on other objects.",
            "new": "for small sizes it is wrong, or a result is not new: it is kept, or is what was given.",
            "modes": "in training and in evaluation mode it gives different results.",
            "parts": "a part of it has another option than the text says, does not learn, or is not the one it should.",
            "draws": "it does not draw from the generator that it is given, from it alone, or not the same again.",
        }
        return f"`{self.call}`: {said[kind]}"

    def _bounds(self, endless: bool = False) -> str:
        """The sizes that are promised, in a sentence; "" without any. endless: only those without an upper bound."""
        bounds = [
            f"{name} >= {size[0]}" if len(size) > 2 else f"{size[0]} <= {name} <= {size[1]}"
            for name, size in self.sizes.items()
            if not name.startswith("_") and (len(size) > 2 or not endless)
        ]
        return f"It should be right for `{', '.join(bounds)}`." if bounds else ""

    def tells_of(self, kind: str, failed: AssertionError, asked: tuple[Remote, Library] | None = None) -> str:
        """What a student reads where a private check of this kind failed: the kinds of input and of mistake.

        What was drawn is not stated: a size that is 0 or 1 is the same for everybody, and others are not named.
        With `asked`, an answer and the `lib` of its check, no kind of input is named for which the answer is right.
        """
        said = failed.args[0] if failed.args else ""
        if not isinstance(said, Said):
            return self.tells(kind)
        if kind == "refusals":
            return said.public
        if said.public == SHARED:
            return f"`{self.call}`: {SHARED}"
        if kind not in ("sizes", "large", "values", "dtypes", "new"):
            if kind == "gradients" or not said.public.endswith(" wrong."):
                return f"`{self.call}`: {said.public}"
            first = not said.public.startswith("for ") and kind != "memory"  # it is wrong as it was asked first
            return self.tells("sizes" if first else kind)
        kinds = said.kinds
        if kind == "sizes" and asked is not None:
            kinds = tuple(self.kinds_that_fail(*asked, kinds))
        words = _in_words(kinds)
        if kind in ("values", "dtypes"):
            return f"`{self.call}`: for {said.case.words}, {said.public}"
        if not words and said.public.endswith(" wrong."):
            return self.tells(kind)
        where = f"with {words}" if words else "for small sizes" if kind == "new" else "for other inputs"
        where = f"with {said.case.words}, larger than any in the notebook" if kind == "large" else where
        bounds = "" if kind == "new" else self._bounds(kind == "large")
        return f"`{self.call}`: {where}, {said.public} {bounds}".rstrip()

    def ordinary(self, seed: int, words: str = "") -> Case:
        """Sizes that differ from each other as far as their ranges allow, drawn with `expect.draw`."""
        pick, sizes = expect.draw(seed), dict[str, int]()
        for name, size in sorted(self.sizes.items(), key=lambda item: item[1][1]):
            free = [one for one in range(max(2, size[0]), size[1] + 1) if one not in sizes.values()]
            sizes[name] = pick.choice(free or [size[1]])
        return Case(sizes, seed, words, LEADS[seed % len(LEADS)])

    def corners(self) -> Iterator[Case]:
        """Ordinary cases, each size at its smallest and at 1, leading dimensions, equal sizes, optional ones left out.

        A contract of more than four sizes has fewer cases: two sizes are at their smallest at a time. Where all results
        are whole numbers, a case costs little: each size is alone at its smallest, with either choice of the author's.
        """
        plain = all(one.dtype == "whole" for one in self.results)
        many = len(self.sizes) > 4 and not plain
        choices = [name for name, size in self.sizes.items() if name.startswith("_") and size[:2] == (0, 1)]
        for seed in (1,) if many else (1, 2):
            yield self.ordinary(seed)
        wanted = [(name, value) for name, size in self.sizes.items() for value in sorted({size[0], max(1, size[0])})]
        if many:  # two at a time, never 0 and 1 of the same size
            zeros = [one for one in wanted if one[1] == 0]
            rest = [one for one in wanted if one[1] != 0]
            after = [*self.sizes].index(zeros[-1][0]) + 1 if zeros else 0
            wanted = [*zeros, *rest[after:], *rest[:after]]
        together = 2 if many else 1
        for seed, place in enumerate(range(0, len(wanted), together), 10):
            case = self.ordinary(seed)
            for choice in (0, 1) if plain and choices else (None,):
                chosen = {} if choice is None else dict.fromkeys(choices, choice)
                yield replace(case, sizes={**case.sizes, **chosen, **dict(wanted[place : place + together])})
        if self.has_leads:  # each of LEADS
            yield from map(self.ordinary, range(seed + 1, 10 + len(LEADS)))
        for seed, value in enumerate((2, 3) if many else (2, 3, 4), 40):
            sizes = {name: min(max(value, size[0]), size[1]) for name, size in self.sizes.items()}
            equal = replace(self.ordinary(seed), sizes=sizes, lead=(value,) * (seed % 3))
            equal = replace(equal, words="equal sizes" if len(sizes) > 1 else "")
            yield equal
            if self.has_optional:
                yield replace(equal, without=True)
        if self.has_optional:
            yield replace(self.ordinary(3), without=True)
        if self.empty:
            yield replace(self.ordinary(4), lead=(0, 2), words="an empty batch")

    def kinds_that_fail(self, answer: Remote, lib: Library, kinds: Sequence[str]) -> list[str]:
        """Those of these kinds of input for which the answer is never right, and of them those that all failures have.

        It is asked in the cases of `corners`, and in ordinary ones: a list may hold a 0 where `n` is 1 and elsewhere.
        What is `special` may be right now and then: leaving a 0 out changes nothing where all are 0.
        If it is wrong in cases that are of none of these kinds, too, a size is named that is larger in all cases where
        the answer is wrong than where it is right; and none, if there is no such size and most cases are wrong.
        After EXTRA_SECONDS no further case is asked, and no kind is known: what is left of the notebook's time is for
        its other exercises.
        """
        late = time.monotonic() + EXTRA_SECONDS
        if self.through:
            answer = getattr(lib(self.toys), self.through)(answer)
        asked = list[tuple[bool, set[str], Mapping[str, int]]]()  # whether it was right, the kinds of input, the sizes

        def known_of(cases: Iterable[Case]) -> list[str]:
            for case in cases:
                if time.monotonic() > late:
                    return []
                try:
                    asked.append((True, {*self.case_is_right(answer, lib, case).kinds}, case.sizes))
                except StudentError as error:
                    if error.ends_check:
                        raise
                except AssertionError as failed:
                    said = failed.args[0] if failed.args else ""
                    asked.extend([(False, {*said.kinds}, case.sizes)] if isinstance(said, Said) else [])
            return self._to_blame(kinds, asked)

        found = known_of([*self.corners(), *map(self.ordinary, range(200, 206))])
        sizes = {name: value for name in self.sizes for value in (0, 1) if f"`{name} = {value}`" in found}
        if not sizes:
            return found
        # The few cases that were wrong may share a small size by chance, so others of that size are asked.
        return known_of(replace(case, sizes={**case.sizes, **sizes}) for case in map(self.ordinary, range(206, 212)))

    def _to_blame(self, kinds: Sequence[str], asked: Sequence[tuple[bool, set[str], Mapping[str, int]]]) -> list[str]:
        """What `kinds_that_fail` tells, of what is known of these cases."""
        right = [some for was_right, some, _ in asked if was_right]
        wrong = [set(kinds), *(some for was_right, some, _ in asked if not was_right)]
        never_right = {*kinds}.difference(*right)
        in_all = set.intersection(*wrong)
        as_right = {words: sum(words in some for some in right) for words in self.special if words in in_all}
        least = min([*as_right.values(), len(right) / 2])
        seldom = {words for words, count in as_right.items() if count == least < len(right) / 2}
        found = [kind for kind in kinds if kind in (never_right & in_all or seldom or never_right)]
        elsewhere = [was_right for was_right, some, _ in asked if some.isdisjoint(kinds)]
        if found and all(elsewhere):
            return found
        return _larger(asked) or found * (2 * sum(elsewhere) >= len(elsewhere))

    def smallest(self) -> Iterator[Case]:
        """Every second size at its smallest, then the others; all of them; and all at 1 where their smallest is 0."""
        least = {name: size[0] for name, size in self.sizes.items()}
        ones = {name: max(1, size[0]) for name, size in self.sizes.items()}
        small = {name: min(size[1], max(size[0] + 1, 3)) for name, size in self.sizes.items()}
        names = [*self.sizes]
        some = [{**small, **{name: least[name] for name in half}} for half in (names[::2], names[1::2]) if half]
        for seed, sizes in enumerate([*some, least, *([ones] if ones != least else [])], 20):
            yield Case(sizes, seed, lead=LEADS[1:3][seed % 2])

    def large(self) -> Iterator[Case]:
        """Each size that nothing bounds, larger than in the notebook, with small others; for a count all of them."""
        flags = [name for name, size in self.sizes.items() if size[1] == 1]
        small = {name: max(size[0], min(2, size[1])) for name, size in self.sizes.items()}
        for seed, (name, size) in enumerate(self.sizes.items(), 30):
            if len(size) == 2:
                continue
            for flag in (0, 1) if flags else (0,):
                large = {name: size[-1] + expect.draw(seed).randint(0, 9)}
                words = "large inputs" if name.startswith("_") else f"a large {name}"
                yield Case({**small, **dict.fromkeys(flags, flag), **large}, seed, words, LEADS[2])
        if self.results[0].dtype == "whole":  # a count is large where all sizes are
            sizes = {
                name: size[-1] + expect.draw(29).randint(0, 9) for name, size in self.sizes.items() if len(size) > 2
            }
            yield Case({**{name: size[1] for name, size in self.sizes.items()}, **sizes}, 29, "large sizes")

    # Asking

    def kinds_of(self, case: Case, there: Mapping[str, Any]) -> list[str]:
        """What is known of the inputs of a case, the same for everybody: words, then what is 0, 1, None or so long."""
        known = {**there, **case.sizes}
        found = [case.words] if case.words else []
        for words, holds in self.special.items():
            if holds(**{name: known[name] for name in inspect.signature(holds).parameters}):
                found.append(words)
        if self.has_leads:
            found += [LEADS_IN_WORDS[case.lead]] if case.lead in LEADS_IN_WORDS else []
        ranges = {name: size for name, size in self.sizes.items() if not name.startswith("_")}
        found += [f"`{name} = {case.sizes[name]}`" for name, size in ranges.items() if case.sizes[name] < 2 < size[1]]
        for name in self._shown:
            if name in self.arguments and type(there[name]) is list and len(there[name]) < 2:
                found.append(f"`len({name}) = {len(there[name])}`")
            if name in self.arguments and there[name] is None:
                found.append(f"`{name} = None`")
        return found

    def shown(self, case: Case, there: Mapping[str, Any]) -> tuple[str, str]:
        """The call in a case with its plain arguments as they are, and the other inputs in words."""
        outer = copy.deepcopy(self._outer)
        made = outer.func.value if isinstance(outer.func, ast.Attribute) else outer.func
        for call in [outer, *([made] if isinstance(made, ast.Call) else [])]:
            call.args = [_filled(one, there) for one in call.args]
            for keyword in call.keywords:
                keyword.value = _filled(keyword.value, there)
        left = dict.fromkeys(name for name in self._shown if name in _names(outer))
        written = {*_names(self._outer), *(_names(self._inner) if self._inner else [])}
        for name, spec in self.arguments.items():
            if not isinstance(spec, str):
                shown = isinstance(there[name], (torch.Tensor, list))
                left |= {} if shown else dict.fromkeys([*inspect.signature(spec).parameters][2:])
            elif "below" in spec:
                left |= dict.fromkeys(one for one in self.sizes if one in spec.partition("below")[2].split())
        unseen = [name for name in left if name not in written or name in _names(outer)]
        words = _code(_words(name, there[name]) for name in unseen if not name.startswith("_"))
        return ast.unparse(outer), ", ".join(filter(None, [words, case.words if case.words not in words else ""]))

    def _environment(
        self, case: Case, lib: Callable[[ModuleType], Any], drawn: Mapping[str, torch.Tensor | None] | None = None
    ) -> dict[str, Any]:
        """The sizes and arguments by name; objects are made here or, with the `lib` of a check, there.

        `drawn` are the tensors of the case where they were drawn already.
        """
        source, library = lib(self.toys), lib(torch)
        drawn = self._drawn(case) if drawn is None else drawn
        found: dict[str, Any] = dict(case.sizes)
        for place, (name, spec) in enumerate(self.arguments.items()):
            if callable(spec):
                named = [*inspect.signature(spec).parameters][2:]
                found[name] = spec(source, case.seed, **{one: case.sizes[one] for one in named})
            elif spec == "generator":
                found[name] = library.Generator().manual_seed(expect.mixed(1000 * case.seed + place))
            elif spec.startswith("="):
                found[name] = _evaluated(spec.removeprefix("=").strip(), found)
            else:
                found[name] = drawn[name]
        return found

    def _drawn(self, case: Case) -> dict[str, torch.Tensor | None]:
        """The tensors among the arguments in a case, by name."""
        return {
            name: _tensor(spec, case, place)
            for place, (name, spec) in enumerate(self.arguments.items())
            if isinstance(spec, str) and spec != "generator" and not spec.startswith("=")
        }

    def argument_names(self) -> list[str]:
        """The names of the arguments of the call, in the order of `probes.slopes`."""
        given = [*self._outer.args, *(one.value for one in self._outer.keywords)]
        parts = [one.elts if isinstance(one, (ast.Tuple, ast.List)) else [one] for one in given]
        return [ast.unparse(one) for some in parts for one in some]

    def asked(self, answer: Remote, lib: Library, case: Case, made: "Call | None" = None) -> "Call":
        """What is called in a case, with which arguments, and what is right.

        `made` is a call whose module is called again, with the sizes of this case: making one costs the most.
        """
        return self.all_asked(answer, lib, [case], made)[0]

    def all_asked(
        self, answer: Remote, lib: Library, cases: Iterable[Case], made: "Call | None" = None
    ) -> list["Call"]:
        """As `asked`, for several cases: their modules are made in one request."""
        environments = list[tuple[Case, dict[str, Any], dict[str, Any]]]()
        for case in cases:
            drawn = self._drawn(case)
            there, here = (self._environment(case, source, drawn) for source in (lib, _here))
            environments.append((case, there, here))
        if self._inner is None or made is not None:
            return [self._call(answer, lib, *one, made) for one in environments]
        own = [_arguments(self._inner, there) for _, there, _ in environments]
        states = list[dict[str, torch.Tensor]]()
        for case, _, here in environments:
            front = _arguments(self._inner, here)[0]
            shapes = self.weights(*front) if self.weights is not None else {}
            states.append(expect.drawn_weights(shapes, case.seed, self.tied))
        modules = self._made(answer, lib, [case for case, _, _ in environments], own, states)
        return [
            self._call(module, lib, *one, state=state)
            for module, state, one in zip(modules, states, environments, strict=True)
        ]

    def _call(
        self,
        target: Remote,
        lib: Library,
        case: Case,
        there: Mapping[str, Any],
        here: Mapping[str, Any],
        made: "Call | None" = None,
        state: Mapping[str, torch.Tensor] = MappingProxyType({}),
    ) -> "Call":
        """The call of a case: of the answer, of its module with these weights, or again of the module of `made`."""
        args, options = _arguments(self._outer, there)
        module = target
        front, weights = list[Any](), list[Any]()
        if made is not None:
            target, module = made.target, made.module
            front = made.right.args[: made.right.front]
        elif self._inner is not None:
            front = [*_arguments(self._inner, here)[0]]
            weights = [{name: value.double() for name, value in state.items()}] if self.weights is not None else []
            if self.method:
                target = lib(toys).Method(module, self.method)
        right_args, right_options = _arguments(self._outer, here)
        known = [_double(one) for one in (*front, *right_args)]
        right = _Right(
            self.right or self._nothing,
            [*weights, *known],
            {name: _double(one) for name, one in right_options.items()},
            len(weights) + len(front),
            self.tied,
            self.split,
        )
        objects = {name: (there[name], here[name]) for name in self.arguments}
        if made is not None:
            objects |= {name: made.objects[name] for name in _names(self._inner or self._outer) if name in objects}
        return Call(self, case, target, args, options, right, there, objects, module)

    def _made(
        self,
        answer: Remote,
        lib: Library,
        cases: Sequence[Case],
        own: Sequence[tuple[list[Any], dict[str, Any]]],
        states: Sequence[dict[str, torch.Tensor]],
    ) -> list[Remote]:
        """The student's modules with these weights, in the dtypes of their cases."""
        dtypes = [str(case.dtype)[6:] for case in cases]
        asked = [[*given, state, dtype] for given, state, dtype in zip(own, states, dtypes, strict=True)]
        if self.weights is not None:
            try:
                *modules, shared = expect.items(lib(probes).filled(answer, asked), len(cases) + 1, "")
                assert shared is False, Said(f"`{self.call}`: {SHARED}", SHARED, cases[0])
                return modules
            except StudentError as error:  # the long way says what is wrong
                if error.ends_check:
                    raise
        modules = list[Remote]()
        for case, given, state in zip(cases, own, states, strict=True):
            module = answer(*given[0], **given[1])
            if state:
                shapes = {name: tuple(value.shape) for name, value in state.items()}
                expect.weights(module, shapes, self.name, case.seed, self.tied)
            if case.dtype != torch.float32:
                getattr(module, {torch.float64: "double", torch.float16: "half"}.get(case.dtype, "bfloat16"))()
            modules.append(module)
        return modules

    def split(self, value: Any) -> list[Any]:
        """The results one by one: what is in a pair counts on its own, and a list that is a result counts as one."""
        if any(one.dims is None and one.dtype == "list" for one in self.results):
            return list(value) if len(self.results) > 1 else [value]
        return probes.flat(value)

    def _nothing(self, *given: Any, **options: Any) -> tuple[None, ...]:
        """In place of the right results where chance decides."""
        return tuple(None for _ in self.results)

    def refused_calls(self, lib: Library, case: Case) -> list[tuple[Any, ...]]:
        """The calls of `refuses` in a case: what the module is made of, the method, and what it is given.

        Last comes the sentence for a call that is not refused.
        """
        there, found = self._environment(case, lib), list[tuple[Any, ...]]()
        for text in self.refuses:
            outer, inner, method = _calls(text)
            own = [*_arguments(inner, there)] if inner else None
            used = [_words(name, there[name]) for name in there if name in {*_names(outer)}]
            says = Said(f"`{text}` with {_code(used)} must raise ValueError.", f"`{text}` must raise ValueError.", case)
            found.append((own, method, *_arguments(outer, there), says))
        return found

    def case_is_right(self, answer: Remote, lib: Library, case: Case, tolerance: float = 0.0) -> "Call":
        """Fail unless the results in a case are the right ones; the call."""
        call = self.asked(answer, lib, case)
        call.must_be(call.came(), tolerance or self.tolerance)
        return call

    def all_are_right(
        self, answer: Remote, lib: Library, cases: Iterable[Case], tolerances: Iterable[float] = ()
    ) -> list["Call"]:
        """Fail unless the results are right in all these cases, which are one request; the calls.

        Each case has a tolerance, that of the contract if none is given.
        """
        cases = [*cases]
        tolerances = [*tolerances] or [self.tolerance] * len(cases)
        try:
            calls = self.all_asked(answer, lib, cases)
        except (StudentError, AssertionError) as failed:  # what is wrong with one of them alone comes first
            if isinstance(failed, StudentError) and failed.ends_check:
                raise
            found = [self.case_is_right(answer, lib, *one) for one in zip(cases, tolerances, strict=True)]
            if isinstance(failed, AssertionError):
                raise
            return found
        for call, found, tolerance in zip(calls, came_of(lib, calls), tolerances, strict=True):
            call.must_be(found, tolerance)
        return calls

    def hold(self, answer: Remote, lib: Library, *kinds: str) -> None:
        """Fail unless the promises of these kinds hold; all kinds are KINDS."""
        promised(*([INFINITY] if self.infinite else []), *([EMPTY] if self._may_be_empty() else []))
        if self.through:
            answer = getattr(lib(self.toys), self.through)(answer)
        for kind_ in kinds:
            KINDS[kind_](self, answer, lib)

    def _may_be_empty(self) -> bool:
        """Whether a size that makes the result may be 0 where no argument is a tensor."""
        return any(size[0] == 0 for size in self.sizes.values())

    def kinds(self) -> list[str]:
        """The kinds that say something of this exercise."""
        texts = [spec for spec in self.arguments.values() if isinstance(spec, str)]
        tensors = [spec for spec in texts if spec != "generator" and not spec.startswith("=")]
        floats = any(spec.startswith("floats") for spec in tensors)
        apply = {
            "large": any(len(size) > 2 for size in self.sizes.values()),
            "values": floats,
            "dtypes": any(one.dtype.startswith("as ") for one in self.results),
            "layout": bool(tensors),
            "device": bool(tensors),
            "refusals": bool(self.refuses),
            "gradients": self.right is not None and any(one.dims is not None for one in self.results),
            "modes": self.is_module and self.modes,
            "parts": self.is_module,
            "new": self.gives_objects,
            "draws": "generator" in self.arguments.values(),
        }
        return [kind_ for kind_ in KINDS if apply.get(kind_, True)]


def _larger(asked: Sequence[tuple[bool, set[str], Mapping[str, int]]]) -> list[str]:
    """Sizes of which all that were answered wrongly are larger than those that were answered rightly, in words."""
    right, wrong = ([sizes for was_right, _, sizes in asked if was_right is which] for which in (True, False))
    if not right or not wrong:
        return []
    names = [name for name in right[0] if not name.startswith("_")]
    # Right answers where it is 0 alone say nothing: a product is 0 whatever the other factor.
    larger = [name for name in names if 0 < max(one[name] for one in right) < min(one[name] for one in wrong)]
    return [f"a larger `{name}`" for name in larger]


def _optional(spec: Any) -> bool:
    """Whether an argument may be None."""
    return isinstance(spec, str) and "or None" in spec


def _here(module: ModuleType) -> ModuleType:
    """What `lib` is in a check, for this process."""
    return module


def _calls(text: str) -> tuple[ast.Call, ast.Call | None, str]:
    """The call that an author wrote, the call in it that makes a module, if one does, and the method called of that."""
    outer = ast.parse(text, mode="eval").body
    assert isinstance(outer, ast.Call), f"{text} is not a call"
    method = outer.func.attr if isinstance(outer.func, ast.Attribute) else ""
    made = outer.func.value if isinstance(outer.func, ast.Attribute) else outer.func
    return outer, made if isinstance(made, ast.Call) else None, method


def _filled(node: ast.expr, names: Mapping[str, Any]) -> ast.expr:
    """An argument as an author wrote it, or its value where that is a number, a text, or a short list of them."""
    value = _evaluated(ast.unparse(node), names)
    # Asked first: most values are tensors, and torch writes one slowly.
    text = repr(value) if _is_plain(value) else ""
    return ast.parse(text, mode="eval").body if 0 < len(text) < 60 else node


def _is_plain(value: Any) -> bool:
    """Whether a value is made of finite numbers, texts and None, in lists, tuples and dicts."""
    if type(value) in (list, tuple):
        return all(map(_is_plain, value))
    if type(value) is dict:
        return all(map(_is_plain, (*value, *value.values())))
    return math.isfinite(value) if type(value) is float else type(value) in (int, str, bool, type(None))


def _names(node: ast.AST) -> list[str]:
    return [one.id for one in ast.walk(node) if isinstance(one, ast.Name)]


def _result(text: str) -> Result:
    name, _, rest = text.partition(":")
    dtype, bracket, dims = rest.strip().partition("(")
    return Result(name.strip(), dtype.strip(), dims.rstrip(") ") if bracket else None)


def _evaluated(text: str, names: Mapping[str, Any]) -> Any:
    """The value of an expression of an author's, such as "2 * w"."""
    if text in names:  # most are names, and Python reports each `eval` to who watches a session
        return names[text]
    return eval(_compiled(text), {"__builtins__": {}}, dict(names))


@cache
def _compiled(text: str) -> CodeType:
    return compile(text, "<contract>", "eval")


def _shape(dims: str, case: Case) -> tuple[int, ...]:
    """The sizes that "..., T, 2 * w" stands for in a case."""
    sizes: list[int] = []
    for dim in filter(None, (part.strip() for part in dims.split(",") if dims != ONE)):
        sizes += case.lead if dim == "..." else [_evaluated(dim, case.sizes)]
    return tuple(sizes)


def _tensor(spec: str, case: Case, place: int) -> torch.Tensor | None:
    """A tensor as "floats (B, T)" says, drawn for a case; `place` is that of the argument."""
    if case.without and "or None" in spec:
        return None
    kind, _, rest = spec.partition("(")
    dims, _, more = rest.partition(")")
    shape, generator = _shape(dims, case), expect.generator(1000 * case.seed + place)
    if kind.strip() == "ids":
        most = _evaluated(more.replace("below", "").replace("or None", "").strip(), case.sizes)
        drawn = torch.randint(most, shape, generator=generator)
        if drawn.numel() > 3:  # in a large vocabulary chance may draw small ones alone
            drawn.view(-1)[-1] = most - 1
        return _repeated(drawn, case)
    if kind.strip() == "bools":
        drawn = _repeated(torch.rand(shape, generator=generator), case)
        return (drawn < 0.6) | (drawn == drawn.amax(-1, keepdim=True)) if drawn.numel() else drawn > 0
    numbers = torch.randn(shape, generator=generator, dtype=torch.float64)
    if case.values == "zero":
        numbers = torch.where(torch.rand(shape, generator=generator) < 0.5, numbers, numbers.sign() * 0.0)
    if case.values == "equal":
        numbers = torch.full_like(numbers, 0.7)
    scale = {"huge": 1e4, "tiny": 1e-8}.get(case.values, 1.0)
    return _repeated((scale * numbers).to(case.dtype), case)


def _repeated(tensor: torch.Tensor, case: Case) -> torch.Tensor:
    """The tensor or, where a case says so, its first row as often as it has rows."""
    return tensor[:1].expand(tensor.shape).clone() if case.values == "repeated" and tensor.dim() else tensor


def _arguments(call: ast.Call, names: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments that a call has where its names stand for these values."""
    args, named = _texts(call)
    return [_evaluated(one, names) for one in args], {name: _evaluated(one, names) for name, one in named.items()}


@cache
def _texts(call: ast.Call) -> tuple[list[str], dict[str, str]]:
    """The arguments that an author wrote."""
    return [*map(ast.unparse, call.args)], {str(one.arg): ast.unparse(one.value) for one in call.keywords}


def _code(words: Iterable[str]) -> str:
    """Arguments in words as one piece of code, so that a sentence stays short."""
    known = ", ".join(filter(None, words))
    return f"`{known}`" if known else ""


def _in_words(kinds: Iterable[str]) -> str:
    """Kinds of input in a row: first words, then what is code, as one piece."""
    words = [kind for kind in kinds if not kind.startswith("`")]
    return ", ".join(filter(None, [*words, _code(kind.strip("`") for kind in kinds if kind.startswith("`"))]))


def _words(name: str, value: Any) -> str:
    """An argument in words: its shape if it is a tensor, its value if it is a number."""
    if isinstance(value, torch.Tensor):
        return f"{name}.shape = {tuple(value.shape)}"
    if isinstance(value, (list, tuple, dict)):
        short = len(value) < 40 and not probes.tensors_in(value) and len(repr(value)) < 80  # a tensor's takes long
        return f"{name} = {value}" if short else f"len({name}) = {len(value)}"
    return f"{name} = {value!r}" if isinstance(value, (int, float, str)) or value is None else ""


def _double(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(map(_double, value))
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def _largest(values: torch.Tensor) -> float:
    """The largest absolute number that is finite, at least a very small one."""
    finite = values.nan_to_num(0.0, 0.0, 0.0).abs()
    return max(1e-30, float(finite.max())) if finite.numel() else 1.0


class _Right:
    """What is right for the arguments of a call, in double precision."""

    def __init__(
        self,
        rule: Callable[..., Any],
        args: list[Any],
        options: dict[str, Any],
        front: int,
        tied: Mapping[str, str],
        split: Callable[[Any], list[Any]],
    ):
        self.rule, self.args, self.options, self.front, self.tied = rule, args, options, front, tied
        self.split = split

    @property
    def state(self) -> dict[str, torch.Tensor]:
        """The weights of the module by name."""
        return self.args[0] if self.front and isinstance(self.args[0], dict) else {}

    def with_weights(self, state: Mapping[str, torch.Tensor]) -> "_Right":
        """What is right where a module has these weights, and objects are as they are now."""
        args = [{name: value.double() for name, value in state.items()}, *self.args[1:]] if state else self.args
        return _Right(self.rule, args, self.options, self.front, self.tied, self.split)

    @cached_property
    def results(self) -> list[Any]:
        """One for each result of the call."""
        with torch.no_grad(), torch.random.fork_rng(devices=[]):  # layers of torch's draw weights that are not used
            found = self.rule(*self.args, **self.options)
        return self.split(found)

    def moved(self, step: float, seed: int) -> "_Right":
        """What is right where each number given is larger or smaller by about this share of it."""
        numbers = torch.Generator().manual_seed(seed)

        def move(value: Any) -> Any:
            if isinstance(value, (list, tuple)):
                return type(value)(map(move, value))
            if isinstance(value, dict):
                moved = {name: move(one) for name, one in value.items()}
                return moved | {name: moved[other] for name, other in self.tied.items() if name in moved}
            if not isinstance(value, torch.Tensor) or not value.is_floating_point():
                return value
            return value * (1 + step * torch.randn(value.shape, generator=numbers, dtype=value.dtype))

        return _Right(self.rule, move(self.args), move(self.options), self.front, self.tied, self.split)

    def rounding(self, results: Callable[["_Right"], Sequence[torch.Tensor]], dtype: torch.dtype) -> float:
        """How far from the right `results` a right answer may be that computes in this dtype.

        Where terms cancel, what is left may be smaller than the rounding of the terms, and a tolerance relative to it
        would refuse right answers. What counts is how far the results move where the numbers given are rounded. It is
        0 where the results do not move in proportion, such as where they jump.
        """
        limits, old = torch.finfo(dtype), results(self)

        def apart(step: float) -> float:
            moved = [results(self.moved(step, seed)) for seed in range(DRAWS)]
            pairs = [(one.double(), other.double()) for new in moved for one, other in zip(new, old, strict=True)]
            return max(
                (float((one - other).abs().nan_to_num().max()) for one, other in pairs if one.numel()), default=0.0
            )

        large, small = (apart(step) / step for step in STEPS)
        smooth = small and 0.5 < large / small < 2
        return ROUNDINGS * limits.eps * (large + limits.smallest_normal) if smooth else 0.0

    def result(self, which: int) -> list[torch.Tensor]:
        """One of the results, alone, as a tensor."""
        return [torch.as_tensor(self.results[which])]

    def slopes(self, which: int) -> tuple[list[torch.Tensor | None], dict[str, torch.Tensor]]:
        """The right gradients of `probes.slopes`: of the arguments of the call, and of weights by name."""
        leaves = {name: value.clone().requires_grad_() for name, value in self.state.items()}
        leaves |= {name: leaves[other] for name, other in self.tied.items()}
        front = [leaves, *self.args[1 : self.front]] if leaves else self.args[: self.front]

        def call(*given: Any, **options: Any) -> Any:
            return self.rule(*front, *given, **options)

        with torch.random.fork_rng(devices=[]):
            found, _ = probes.slopes(call, self.args[self.front :], self.options, which)
        of_parts = {name: torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for name, leaf in leaves.items()}
        return found, of_parts


@dataclass(frozen=True)
class Call:
    """A call in a case: the object that is called, its arguments, what is right, and the inputs in words."""

    contract: Contract
    case: Case
    target: Any
    args: list[Any]
    options: dict[str, Any]
    right: _Right
    there: Mapping[str, Any]  # the sizes and arguments by name
    objects: Mapping[str, tuple[Any, Any]]  # each argument by name, there and here
    module: Any  # the module whose method is called; else the target
    then: str = ""  # what else there is to say of the inputs

    def says(self, problem: str, public: str = "") -> "Said":
        """A sentence about this call; `public` is the problem without its numbers, if it has some."""
        call, inputs = self.contract.shown(self.case, self.there)
        inputs = ", ".join(filter(None, [inputs, self.then]))
        text = f"`{call}`{f' with {inputs}' if inputs else ''}: {problem}"
        return Said(text, public or problem, self.case, self.kinds)

    @property
    def kinds(self) -> list[str]:
        """What is known of the inputs, see `Contract.kinds_of`."""
        return self.contract.kinds_of(self.case, self.there)

    def is_error(self, error: StudentError) -> "Said":
        """The sentence about this call where it raised an error."""
        name = error.type_name or "nothing usable"
        builtin = isinstance(getattr(builtins, name, None), type)  # another name could hold numbers
        public = f"it raises {name}." if builtin else "it raises an error."
        return self.says(f"it fails. It raised {name}: {error}", public)

    def came(self, target: Any = None) -> Any:
        """What the answer gives."""
        called = self.target if target is None else target
        try:
            return called(*self.args, **self.options)
        except StudentError as error:
            if error.is_no_answer:
                raise
            raise AssertionError(self.is_error(error)) from None

    def with_arguments_of(self, other: "Call") -> "Call":
        """A call of the same module with what another one is given; both were made with the same sizes."""
        mine, theirs = self.right, other.right
        args = [*mine.args[: mine.front], *theirs.args[mine.front :]]
        right = _Right(mine.rule, args, theirs.options, mine.front, mine.tied, mine.split)
        return replace(self, args=other.args, options=other.options, right=right, then="then others")

    def learns(self, lib: Library, which: int) -> None:
        """Fail unless the gradients of one result reach what they should, and are right."""
        came = lib(probes).slopes_and_kept(self.target, self.args, self.options, which)
        found, parts, kept = expect.items(came, 3, "")
        frozen = "a call switches requires_grad off: an argument or a parameter does not learn any more."
        assert kept is True, self.says(frozen)
        name = self.contract.results[which].name
        wanted, of_parts = self.right.slopes(which)
        names = self.contract.argument_names()
        reached = [
            (f"{argument} from {name}", slope, right)
            for argument, slope, right in zip(names, found, wanted, strict=True)
            if argument in self.contract.learns and right is not None and right.numel()
        ]
        if self.contract.method:
            parts = {part.removeprefix("module."): slope for part, slope in parts.items()}
        for part, right in of_parts.items():
            if part in self.contract.buffers or part in self.contract.tied:
                continue
            twins = [part, *(one for one, other in self.contract.tied.items() if other == part)]
            known = [parts[one] for one in twins if one in parts]
            assert known, self.says(f"`{part}` is not a parameter: it never learns.")
            reached.append((f"`{part}` from {name}", known[0], right))
        for argument, slope in zip(names, found, strict=True):
            assert argument not in self.contract.frozen or not slope.any(), self.says(
                f"a gradient reaches {argument}. None should."
            )
        scale = max([_largest(right.double()) for _, _, right in reached], default=1.0)

        def slopes(right: _Right) -> list[torch.Tensor]:
            given, parts = right.slopes(which)
            return [*(one for one in given if one is not None), *parts.values()]

        for where, slope, right in reached:
            slope = expect.tensor(slope, tuple(right.shape), partial(self.says, f"the gradient that reaches {where}"))
            assert not slope.isnan().any(), self.says(f"the gradient that reaches {where} is NaN.")
            assert slope.any() or right.abs().max() < 1e-6 * scale, self.says(
                f"no gradient reaches {where}: something is detached."
            )
            told = partial(self.says, f"the gradient that reaches {where} is wrong.")
            self._agree(slope, right, told, {}, 1e-3, scale, slopes)

    def must_be(
        self,
        came: Any,
        tolerance: float,
        otherwise: str = WRONG,
        earlier: Sequence["Call"] = (),
    ) -> None:
        """Fail unless `came` are results of the promised types and shapes, and right; `earlier` are other calls."""
        results, right = self.contract.results, self.right.results
        numbers = all(one.dims is None for one in results)
        if len(results) > 1 and numbers and isinstance(came, (torch.Tensor, np.ndarray)) and came.ndim == 1:  # in a row
            came = came.tolist()
        if len(results) > 1:
            came = self.contract.split(came) if type(came) is list else came
            came = expect.items(came, len(results), partial(self.says, f"there should be {len(results)} results"))
        most = max((abs(one) for one in right if type(one) in (int, float)), default=0.0)
        for place, (result, value, wanted) in enumerate(
            zip(results, came if len(results) > 1 else [came], right, strict=True)
        ):
            name, be = result.name, "are" if expect.plural(result.name) else "is"
            general = f"{name} {be} wrong." if otherwise == WRONG else ""
            told = partial(self.says, otherwise.format(name, be=be), general)
            if result.dims is None:
                self._is_plain(value, wanted, place, told, tolerance, most)
                continue
            value = self._one_number(value, name) if result.dims == ONE else value
            shape = _shape(result.dims, self.case)
            assert type(value) is torch.Tensor, self.says(
                f"{name} should be a tensor, not {kind(value)}.", f"{name} should be a tensor."
            )
            have = "have" if be == "are" else "has"
            wrong_shape = f"{name} {have} shape {tuple(value.shape)}, not {shape}."
            assert value.shape == shape, self.says(wrong_shape, f"{name} {have} the wrong shape.")
            self._is_of_type(value, result)
            if wanted is None or torch.equal(value, wanted.to(value.dtype)):
                continue
            scale = _largest(wanted.double())
            if torch.allclose(value.double(), wanted.double(), tolerance, tolerance * scale):
                continue
            kept = self.says(f"{name} {be} what an earlier call gave: something is kept between calls.")
            others = [one for other in earlier if (one := other.right.results[place]).shape == wanted.shape]
            guesses: dict[str, torch.Tensor] = {kept: others[0]} if others else {}
            self._agree(value, wanted, told, guesses, tolerance, scale, partial(_Right.result, which=place))
        if self.contract.fits is not None:
            wrong = self.contract.fits(*(came if len(results) > 1 else [came]), *self.right.args, **self.right.options)
            assert not wrong, self.says(wrong, "the result does not fit what was given.")

    def _agree(
        self,
        found: torch.Tensor,
        wanted: torch.Tensor,
        told: Callable[[], Said],
        guesses: Mapping[str, torch.Tensor],
        tolerance: float,
        scale: float,
        results: Callable[[_Right], Sequence[torch.Tensor]],
    ) -> None:
        """Fail unless the two agree within `tolerance`, relative to `scale`, or as near as `_Right.rounding` lets them.

        `results` says what of the right results is looked at. `told` is said if no guess fits, as in `expect.like`.
        """
        near = tolerance
        if not torch.allclose(found.double(), wanted.double(), tolerance, tolerance * scale):
            near = max(tolerance, self.right.rounding(results, self.case.dtype) / scale)

        def otherwise() -> str:
            text = expect.difference(found, wanted, near, near * scale, (tolerance, tolerance * scale))
            said, public = told(), ""
            apart = found.double() - wanted.double()
            if text.startswith("There is "):
                public = f"{said.public.rstrip('.')}, with NaN or an infinite number in it."
            elif self.case.dtype == torch.float64 and float(apart.abs().max()) < SINGLE * scale:
                text = f"It differs by up to {float(apart.abs().max()):.2g}, as float32 would. Compute in float64."
                public = f"{said.public.rstrip('.')}, only as exact as float32."
            elif self.case.dtype == torch.float64 and torch.allclose(
                found.double(), wanted.double(), self.contract.tolerance, self.contract.tolerance * scale
            ):
                text = f"{text} In float32 it is near enough: look at constants, such as `eps`, and at approximations."
                public = f"{said.public.rstrip('.')}: near enough for float32. Look at constants, such as `eps`."
            return said.more(text, public)

        expect.like(found, wanted, otherwise, guesses, near, scale, once=True)

    def _is_plain(
        self, value: Any, wanted: Any, place: int, told: Callable[[], Said], tolerance: float, most: float
    ) -> None:
        """Fail unless a result is the plain data that it should be; `most` is the largest of the results.

        A number may be `tolerance` times that from the right one, and a float the rounding of a difference.
        """
        result = self.contract.results[place]
        if result.dtype == "number":
            found = expect.number(value, partial(self.says, result.name))
            if wanted is None or abs(found - float(wanted)) <= max(tolerance * most, 1e-12):
                return
            near = self.right.rounding(partial(_Right.result, which=place), self.case.dtype)
            assert abs(found - float(wanted)) <= near, told().more(expect.came_as(found, float(wanted)))
            return
        be = "are" if expect.plural(result.name) else "is"
        if result.dtype == "whole":
            whole = type(value) is torch.Tensor and value.numel() == 1 and value.dtype is not torch.bool
            value = value.item() if whole else value
            assert type(value) is int, self.says(
                f"{result.name} {be} {kind(value)}, not a whole number.", f"{result.name} {be} not a whole number."
            )
            size = f"Your code gives {value}."
            assert wanted is None or value == wanted, told().more(size)
            return
        article = "an" if result.dtype == "int" else "a"
        assert type(value) is PLAIN[result.dtype], self.says(
            f"{result.name} {be} {kind(value)}, not {article} {result.dtype}.",
            f"{result.name} {be} not {article} {result.dtype}.",
        )
        if wanted is None or _equal(value, wanted, tolerance):
            return
        if result.dtype == "float":
            near = self.right.rounding(partial(_Right.result, which=place), self.case.dtype)
            if abs(value - wanted) <= max(1e-12 * most, near):
                return
        came = f"{value:.6g}" if result.dtype == "float" else repr(value)
        raise AssertionError(told().more(f"Your code gives {came}.") if len(came) < 200 else told())

    def altered(self) -> "Call":
        """The same call after the module, and each module among its arguments, got other weights."""
        for there, here in self.objects.values():
            if isinstance(here, nn.Module):
                floats = {name: one for name, one in here.state_dict().items() if one.is_floating_point()}
                here.load_state_dict({name: one * 0.5 + 0.3 for name, one in floats.items()}, strict=False)
                there.load_state_dict(here.state_dict())
        state = self.right.state
        if state:  # comes last: a module given may be a part of the one made
            given = {name: value + 0.5 for name, value in state.items()}
            state = {name: given[self.contract.tied.get(name, name)] for name in given}
            self.module.load_state_dict({name: value.float() for name, value in state.items()})
        modules = any(isinstance(here, nn.Module) for _, here in self.objects.values())
        return replace(self, right=self.right.with_weights(state)) if state or modules else self

    def _one_number(self, value: Any, name: str) -> torch.Tensor:
        """A tensor with one number without its axes."""
        one = f"{name} should be a tensor with one number"
        assert type(value) is torch.Tensor and value.numel() == 1, self.says(f"{one}, not {kind(value)}.", f"{one}.")
        return value.reshape(())

    def _is_of_type(self, value: torch.Tensor, result: Result) -> None:
        if result.dtype == "float":
            right = value.is_floating_point()
        else:
            wanted = self.case.dtype if result.dtype.startswith("as ") else getattr(torch, result.dtype)
            right = value.dtype == wanted
        rule = {"float": "a tensor of floats"}.get(result.dtype, result.dtype.replace("as ", "of the dtype of "))
        be = "are" if expect.plural(result.name) else "is"
        wrong = f"{result.name} {be} {str(value.dtype)[6:]}, not {rule}."
        assert right, self.says(wrong)


def _together(calls: Sequence[Call]) -> list[list[Any]]:
    """What is called, each of these once; and for each call the place there, its arguments and options."""
    targets = [*{id(call.target): call.target for call in calls}.values()]
    places = {id(target): place for place, target in enumerate(targets)}
    return [targets, [[places[id(call.target)], call.args, call.options] for call in calls]]


def came_of(lib: Library, calls: Sequence[Call]) -> Iterator[Any]:
    """What the answer gives in each of these calls, in one request.

    If that is an error, or a call changes what it is given, they are made one by one: then the first one says so.
    """
    try:
        found = lib(probes).each(*_together(calls))
    except (StudentError, WireError) as failed:
        if isinstance(failed, StudentError) and failed.ends_check:
            raise
        found = None
    if type(found) is list and len(found) == len(calls):
        yield from found
    else:
        for call in calls:
            yield call.came()


def _equal(value: Any, wanted: Any, tolerance: float) -> bool:
    """Whether plain data is of the same types in all its parts, and equal; floats within a relative tolerance."""
    if type(value) is list and type(wanted) in (list, tuple):  # tuples arrive as lists
        pairs = zip(value, wanted, strict=False)
        return len(value) == len(wanted) and all(_equal(one, other, tolerance) for one, other in pairs)
    if type(value) is not type(wanted):
        return False
    if type(value) is Remote:  # objects are not looked into
        return True
    if type(value) is dict:
        return value.keys() == wanted.keys() and all(_equal(value[key], wanted[key], tolerance) for key in wanted)
    if type(value) is float:
        return math.isclose(value, wanted, rel_tol=tolerance, abs_tol=tolerance * abs(wanted))
    return expect.same(value, wanted)


@contextlib.contextmanager
def world_kept(lib: Library, when: str, draws: bool = False) -> Iterator[None]:
    """Fail at its end if what is global in the student's session has changed within; `when` begins the sentence.

    draws: what is within may draw from the global generators.
    """
    before = lib(probes).world(True)
    yield
    _world_is(lib(probes).world(False), before, when, draws)


def _world_is(after: Any, before: Any, when: str, draws: bool) -> None:
    """Fail unless what is global is as before, as `probes.world` gives it; with `draws` all but the generators."""
    kept = {what: old for what, old in before.items() if not draws or "generator" not in what}
    expect.unchanged(after, kept, when)


@contextlib.contextmanager
def model_kept(lib: Library, model: Remote, when: str, draws: bool = False) -> Iterator[None]:
    """Fail at its end if a model has changed within, see `probes.facts`, or what is global, as in `world_kept`."""
    before = lib(probes).facts(model)
    with world_kept(lib, when, draws):
        yield
    expect.unchanged(lib(probes).facts(model), before, when)


def sets_no_seed(lib: Library, what: str, *calls: Callable[[], Any]) -> None:
    """Fail if a global generator is in the same state after each of two calls, which may draw; `what` makes them."""
    states = []
    for call in calls:
        lib(probes).world(True)
        call()
        states.append(lib(probes).world(False))
    for name, state in states[0].items():
        assert "generator" not in name or states[1][name] != state, f"{what} sets {name}."


def is_new(lib: Library, what: str, call: Remote, *args: Any) -> None:
    """Fail unless `call(*args)` gives new lists and tensors each time; `what` names them."""
    wanted, again = lib(probes).before_and_after_clearing(call, *args)
    told = f"{what} is kept between calls: a change of one result changes the next. Make a new one for each call."
    assert expect.same(again, wanted), told


def has_form(lib: Library, wanted: str, what: str, call: Remote, *args: Any) -> None:
    """Fail unless `call(*args)` gives values of these types, such as "list[tuple[str, float]]"; `what` names them."""
    found = expect.of_type(lib(probes).form(call, *args), str, "the types should be known")
    assert found == wanted, f"{what} {'have' if expect.plural(what) else 'has'} the types {found}, not {wanted}."


# The kinds of questions


def _sizes(contract: Contract, answer: Remote, lib: Library) -> None:
    call = contract.all_are_right(answer, lib, contract.corners())[-1]
    call.came()  # a call of its own, not within a probe: it is made in other sessions too, see `unusual_refused`
    if contract.returns:
        found = lib(probes).type_name(call.target, call.args, call.options)
        other = f"it gives something else than a {contract.returns}."
        assert found == contract.returns, call.says(f"it gives a {found}, not a {contract.returns}.", other)


def _large(contract: Contract, answer: Remote, lib: Library) -> None:
    cases = [*contract.large()]
    contract.all_are_right(answer, lib, cases, [contract.far] * len(cases))


def _values(contract: Contract, answer: Remote, lib: Library) -> None:
    cases = [replace(contract.ordinary(seed), values=values) for seed, values in enumerate(VALUES, 50)]
    if contract.is_module:  # one module, with its sizes
        cases = [replace(one, sizes=cases[0].sizes, lead=cases[0].lead) for one in cases]
    cases = [replace(one, words=f"{one.values} numbers") for one in cases]
    first = contract.asked(answer, lib, cases[0])
    calls = [first, *contract.all_asked(answer, lib, cases[1:], first if contract.is_module else None)]
    for call, found in zip(calls, came_of(lib, calls), strict=True):
        call.must_be(found, contract.tolerance)


def _dtypes(contract: Contract, answer: Remote, lib: Library) -> None:
    exact = 1e-9 if contract.precise else contract.tolerance
    seeds = (60, 62, 65, 67)[: 2 if contract.is_module else 4]  # one number in ten of float32 is as good as float64
    double = [replace(contract.ordinary(seed), dtype=torch.float64, words="float64") for seed in seeds]
    cases = [(case, exact) for case in double]
    if contract.low:
        low = [(dtype, contract.ordinary(61)) for dtype in LOW]
        low += [(torch.bfloat16, case) for case in contract.large()]
        low += [(torch.bfloat16, replace(contract.ordinary(61), without=True))] * contract.has_optional
        cases += [(replace(case, dtype=dtype, words=str(dtype)[6:]), LOW[dtype]) for dtype, case in low]
        # At the end float32 again: what was kept of rough numbers is too rough then.
        cases.append((replace(contract.ordinary(61), words="float32, after other dtypes"), contract.tolerance))
    contract.all_are_right(answer, lib, [case for case, _ in cases], [tolerance for _, tolerance in cases])


def _layout(contract: Contract, answer: Remote, lib: Library) -> None:
    for seed in (70, 71):
        call = contract.asked(answer, lib, contract.ordinary(seed))
        says = partial(call.says, "for an input that is not contiguous it fails: use reshape, not view.")
        layouts = LAYOUTS[:2] if contract.dense else LAYOUTS
        try:
            came = lib(probes).in_layouts(call.target, ["as it is", *layouts], call.args, call.options)
        except StudentError as error:
            if error.is_no_answer:
                raise
            call.must_be(call.came(), contract.tolerance)
            came = expect.answers(
                lib(probes).in_layouts, call.target, ["as it is", *layouts], call.args, call.options, says=says
            )
        first, *others = expect.items(came, 1 + len(layouts), says)
        call.must_be(first, contract.tolerance)  # else the layout is blamed for another mistake
        for how, found in zip(layouts, others, strict=True):
            call.must_be(found, contract.tolerance, f"for an input that is not contiguous ({how}) {{}} {{be}} wrong.")
    part = "for an input that is a part of a larger tensor in memory"
    says = partial(call.says, f"{part} it fails.")
    (found,) = expect.answers(lib(probes).in_layouts, call.target, ["a part"], call.args, call.options, says=says)
    call.must_be(found, contract.tolerance, f"{part} {{}} {{be}} not right.")
    made = call if contract.is_module else None
    case = contract.ordinary(72) if made is None else replace(made.case, seed=72)
    call = contract.asked(answer, lib, replace(case, values="repeated"), made)
    says = partial(call.says, "for an input that is expanded (its rows are one row in memory) it fails.")
    (found,) = expect.answers(lib(probes).in_layouts, call.target, ["expanded"], call.args, call.options, says=says)
    call.must_be(
        found, contract.tolerance, "for an input that is expanded (its rows are one row in memory) {} {be} wrong."
    )


def _device(contract: Contract, answer: Remote, lib: Library) -> None:
    made = None
    for without in (False, True)[: 2 if contract.has_optional else 1]:
        case = replace(contract.ordinary(75), without=without)
        call = contract.asked(answer, lib, case, made)
        expect.one_device(lib, call.target, *call.args, **call.options)
        made = call if contract.is_module else None


def _gradients(contract: Contract, answer: Remote, lib: Library) -> None:
    if not contract.learns and not contract.frozen and not contract.is_module:
        call = contract.asked(answer, lib, contract.ordinary(80))
        needs = lib(probes).needs_gradient(call.target, call.args, call.options)
        told = "the result requires gradients. Here nothing is learned: return a plain tensor."
        assert needs is False, call.says(told)
        return
    cases = [contract.ordinary(81), replace(contract.ordinary(82), values="zero")]
    cases += [replace(contract.ordinary(83), without=True)] if contract.has_optional else []
    for seed, (name, size) in enumerate(contract.sizes.items(), 84):  # say, no row is left over
        cases += [contract.ordinary(seed).with_size(name, 0)] if size[0] == 0 else []
    for case in cases:
        call = contract.asked(answer, lib, case)
        if contract.is_module and contract.modes and case.values == "zero":
            call.target.eval()
            call = replace(call, then="in evaluation mode")
        for which, result in enumerate(contract.results):
            if result.dims is not None and call.right.results[which].numel():
                call.learns(lib, which)


def _refusals(contract: Contract, answer: Remote, lib: Library) -> None:
    smallest = replace(contract.ordinary(20), sizes={name: max(1, size[0]) for name, size in contract.sizes.items()})
    cases = [smallest, *(contract.ordinary(seed) for seed in range(21, 26))]
    calls = [call for case in cases for call in contract.refused_calls(lib, case)]
    if lib(probes).all_refuse(answer, [call[:-1] for call in calls]) is not True:  # then one by one, to say which
        for own, method, args, named, says in calls:

            def call(*given: Any, own: Any = own, method: str = method, **options: Any) -> Any:
                target = answer(*own[0], **own[1]) if own else answer
                return getattr(target, method)(*given, **options) if method else target(*given, **options)

            try:
                expect.refuses(call, *args, says=says, **named)
            except AssertionError as failed:  # what came instead is not for the public sentence
                raise AssertionError(says.more(str(failed).removeprefix(says).strip())) from None


def _memory(contract: Contract, answer: Remote, lib: Library) -> None:
    first, other = contract.ordinary(90), contract.ordinary(91)
    calls = contract.all_asked(answer, lib, [first, replace(first, seed=92), other])
    for seed in () if contract.is_module else range(93, 104):  # of few results, such as shares, two may be equal
        if not expect.same(calls[1].right.results, calls[0].right.results):
            break
        calls[1] = contract.asked(answer, lib, replace(first, seed=seed))
    says = partial(calls[0].says, "it fails.")
    found = expect.answers(lib(probes).world_after, calls[0].target, calls[0].args, calls[0].options, says=says)
    came, before, after = expect.items(found, 3, "")
    _world_is(after, before, calls[0].says("afterwards"), contract.draws)
    for place, (call, found) in enumerate(zip(calls, itertools.chain([came], came_of(lib, calls[1:])), strict=True)):
        call.must_be(found, contract.tolerance, earlier=calls[:place])
    crossed = [calls[0].with_arguments_of(calls[1])] if contract.is_module else []
    came = came_of(lib, [*crossed, *calls[::-1]])
    for call, found in zip(crossed, came, strict=False):
        call.must_be(found, contract.tolerance, earlier=calls[:1])
    changed = "{} {be} not the same after other calls: something is kept between them."
    for call, found in zip(calls[::-1], came, strict=True):
        call.must_be(found, contract.tolerance, changed)
    call = crossed[0] if contract.is_module else calls[1]
    others = calls[1].args, calls[1].options
    came = lib(probes).with_other_numbers(call.target, calls[0].args, calls[0].options, *others)
    told = "{} {be} not right for what a tensor or list holds now: it held something else in an earlier call."
    call.must_be(came, contract.tolerance, told, earlier=calls[:1])
    if contract.has_optional:  # what was given before must not be used again
        call = contract.asked(answer, lib, replace(first, seed=94, without=True), calls[0])
        told = "{} {be} wrong for None after a call with something else there: that is kept."
        call.must_be(call.came(), contract.tolerance, told, earlier=calls[:1])
    if contract.everywhere:
        call = contract.asked(answer, lib, first)
        one, other = call.came(), lib(probes).in_another_process(call.target, call.args, call.options)
        assert expect.same(one, other), call.says("another process gives something else: `hash` and `id` differ there.")
    call = calls[0].altered()
    if call is not calls[0]:
        told = "{} {be} not those of the weights that it has now: something is kept."
        blind = lib(probes).without_gradients(call.target, call.args, call.options)  # first: it may use what is kept
        call.must_be(call.came(), contract.tolerance, told)
        told = "{} {be} wrong while no gradients are recorded, at least after the weights were changed."
        call.must_be(blind, contract.tolerance, told)
    kept = {name: call.objects[name][0] for name in contract.keeps}
    if contract.is_module:
        kept[contract.name] = call.module
    for name, what in lib(probes).changes(call.target, kept, call.args, call.options) if kept else ():
        be = "are" if expect.plural(what) else "is"
        told, known = f"a call changes `{name}`: {what} {be} not as before.", name in kept and what in probes.FACTS
        raise AssertionError(call.says(told, "" if known else "a call changes a module."))
    if contract.gives_objects:
        results_are_new(lib, contract, calls[2:])
    if contract.draws:
        states = list[dict[str, Any]]()
        for _ in range(2):
            lib(probes).world(True)
            call.came()
            states.append(lib(probes).world(False))
        for what, state in states[0].items():
            told = call.says(f"it sets {what}.", "it sets the state of a global random generator.")
            assert "generator" not in what or states[1][what] != state, told


def results_are_new(lib: Library, contract: Contract, calls: Sequence[Call]) -> None:
    """Fail if writing into a result of one of these calls changes that of a later call, or what was given.

    A call while no gradients are recorded gives the same, and leaves what it was given.
    """
    says = f"`{contract.call}`: it fails when it is called {len(calls)} times in a row." if len(calls) > 1 else ""
    says = says or calls[0].says("it fails.")
    try:
        found = lib(probes).each_again_after_writing(*_together(calls), contract.shares)
    except StudentError as error:
        if error.is_no_answer:
            raise
        for call in calls:  # which one
            call.must_be(call.came(), contract.tolerance)
        raise AssertionError(f"{says} It raised {error.type_name or 'nothing usable'}: {error}") from None
    for call, seven in zip(calls, expect.items(found, len(calls), says), strict=True):
        came, first, again, blind, records, changes, given = expect.items(seven, 7, "")
        call.must_be(came, contract.tolerance)
        told = "{} {be} not the same after other results were overwritten: results must be new."
        if contract.fits is not None:  # what was written may fit as well
            (what, *_), be = (one.name for one in contract.results), "is"
            be = "are" if expect.plural(what) else be
            assert expect.same(first, came), call.says(told.format(what, be=be))
        for result in (first, again):
            call.must_be(result, contract.tolerance, told)
        for old, new in zip([*call.args, *call.options.values()], given, strict=True):
            if isinstance(old, (torch.Tensor, list, dict)):
                assert _equal(new, old, 0.0), call.says("a result is what was given, or a part of it: make it new.")
        call.must_be(blind, contract.tolerance, "{} {be} not the same while no gradients are recorded.")
        assert records is False, call.says(f"it {RECORDS}")
        assert changes is False, call.says("while no gradients are recorded, a call changes what it was given.")


def _new(contract: Contract, answer: Remote, lib: Library) -> None:
    results_are_new(lib, contract, contract.all_asked(answer, lib, contract.smallest()))


def _modes(contract: Contract, answer: Remote, lib: Library) -> None:
    call = contract.asked(answer, lib, contract.ordinary(95))
    call.must_be(call.came(), contract.tolerance)
    call.must_be(call.came(), contract.tolerance, "{} {be} not the same in a second call.")
    for mode, words in (("eval", "evaluation"), ("train", "training")):
        getattr(call.target, mode)()
        call.must_be(call.came(), contract.tolerance, f"in {words} mode {{}} {{be}} not the same.")


def _parts(contract: Contract, answer: Remote, lib: Library) -> None:
    widest = {name: size[1] for name, size in contract.sizes.items()}  # a weight of one or two numbers may be constant
    call = contract.asked(answer, lib, Case(widest, 97, lead=LEADS[1]))
    names = [*dict.fromkeys(name.rpartition(".")[2] for name in contract.options)]
    own, options = _arguments(contract._inner, call.there) if contract._inner else ([], {})
    found = lib(probes).parts(call.module, names, answer, own, options)
    assert not found.get("records"), call.says(f"making one {RECORDS}")
    for name in found.get("alike", ()):
        told = f"two new ones have the same `{name}`. Each should draw numbers of its own, after no seed that is set."
        public = "two new ones have the same weights. Each should draw its own, after no seed that is set."
        raise AssertionError(call.says(told, public))
    for where, value in found["options"].items():
        part, _, option = where.rpartition(".")
        here = [contract.options[name] for name in (where, option) if name in contract.options]
        if not here:
            continue
        wanted = _evaluated(here[0], call.case.sizes) if isinstance(here[0], str) else here[0]
        told = f"`{part or contract.name}` has {option} = {value}. It should be {wanted}."
        assert value == wanted, call.says(told, f"a part has another `{option}` than it should.")
    for name in call.right.state:
        if name in contract.buffers:
            assert name not in found["learns"], call.says(f"`{name}` is a parameter. It should be a buffer.")
            continue
        assert found["learns"].get(name) is True, call.says(f"`{name}` does not learn: it should be a parameter.")
    wanted_shared = {frozenset((name, other)) for name, other in contract.tied.items()}
    shared = {frozenset(pair) for pair in found["shared"]}
    for one, other in map(sorted, wanted_shared - shared):
        raise AssertionError(call.says(f"`{one}` and `{other}` should be one parameter. Here they are two."))
    for one, other in map(sorted, shared - wanted_shared):
        told = f"`{one}` and `{other}` are one parameter. They should be two."
        raise AssertionError(call.says(told, "two names are one parameter. They should be two."))


def _draws(contract: Contract, answer: Remote, lib: Library) -> None:
    """Results follow from the state of the generator that is given, and from nothing else."""
    call = contract.asked(answer, lib, contract.ordinary(98))
    seeds = [expect.mixed(980 + place) for place in range(6)]
    with world_kept(lib, call.says("afterwards")):
        found = lib(probes).drawn(call.target, call.args, call.options, [seeds[0], *seeds])
    first, *others = expect.items(found, 7, "")
    for told, pairs in contract.pairs.items():
        many = lib(probes).drawn(call.target, call.args, call.options, [expect.mixed(2000), *[None] * 299])
        given = (*call.right.args, *call.right.options.values())
        drawn = [contract.split(one) if type(one) is list else [one] for one in expect.items(many, 300, "")]
        expect.independent([pair for one in drawn for pair in pairs(*one, *given)], call.says(told))
    assert expect.same(first, others[0]), call.says("the same state of the generator gives something else.")
    told = "whatever the generator's state, it gives the same: draw from the generator that is given."
    assert not all(expect.same(first, one) for one in others), call.says(told)
    lasting = lib(probes).drawn(call.target, call.args, call.options, [seeds[0], *[None] * 5])
    told = "a second call with the same generator gives the same: it is seeded, or copied."
    assert not all(expect.same(lasting[0], one) for one in lasting), call.says(told)


KINDS: dict[str, Callable[[Contract, Remote, Library], None]] = {
    "sizes": _sizes,
    "large": _large,
    "values": _values,
    "dtypes": _dtypes,
    "layout": _layout,
    "device": _device,
    "gradients": _gradients,
    "refusals": _refusals,
    "memory": _memory,
    "new": _new,
    "modes": _modes,
    "parts": _parts,
    "draws": _draws,
}
