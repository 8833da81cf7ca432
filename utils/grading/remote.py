"""What a check holds in its hands: a stand-in for a student's object, on either side of the wall.

`Remote` turns calls and attribute reads into requests of `utils.grading.wire`, and sends them through
`ask`: at home straight to `utils.grading.dispatch`, in grading to the sandboxed kernel. A check cannot tell
the two apart.
"""

import ast
import importlib.util
import itertools
import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from utils.grading import wire
from utils.grading.protocol import DEVICE, DTYPE, ELSEWHERE, GRADIENTS, HOLDS_SAME, SAME, SESSION, TORCH_STATE

Ask = Callable[[bytes], bytes]
NAN, INFINITY, COMPLEX, EMPTY = "NaN", "infinity", "complex numbers", "an empty tensor"
DRAWS = TORCH_STATE  # of an exercise that says that it draws from torch's global generator
_unusual: ContextVar["Unusual | None"] = ContextVar("unusual", default=None)
_calls: ContextVar["Calls | None"] = ContextVar("calls", default=None)
# How many calls are remembered, of at most how many bytes; characters of a call that is shown; entries of a tensor
# that is written out.
REMEMBERED, BYTES, SHOWN, SMALL = 64, 20_000, 160, 12
# What the course imports. If one of them is missing here too, no answer can be blamed.
UTILS = Path(__file__).resolve().parents[1]
PACKAGES = (
    *("adapters", "babel", "datasets", "matplotlib", "msgpack", "numpy", "pandas", "safetensors", "scipy"),
    *("tabulate", "tokenizers", "torch", "tqdm", "transformers"),
)


class Unusual:
    """What replies held so far that no exercise asks for, unless a check has promised it."""

    def __init__(self) -> None:
        self.kinds: set[str] = set()
        self.changed: set[str] = set()
        self.promised: set[str] = set()
        # By what is called, and what with, to make the first call of it again; None where that is not asked.
        self.first_calls: dict[Any, Callable[[], bytes]] | None = None
        self.numbers = itertools.count()  # of first calls: the same in each run, whose requests may be remembered

    def refuse(self) -> None:
        """Fail if there was any. NaN is neither larger nor smaller than anything, and all of no entries are right."""
        for kind_ in sorted(self.kinds - self.promised):
            raise AssertionError(f"there {'are' if kind_ == COMPLEX else 'is'} {kind_} in what your code returns.")
        self._refuse_changed(SESSION)

    def refuse_elsewhere(self) -> None:
        """Make the first calls again in other sessions, see `dispatch.changes_elsewhere`.

        Fail if one changes these, or gives what is not new.
        """
        for (name, _, path, _), again in (self.first_calls or {}).items():
            match wire.loads(again(), lambda *_: None):
                case {"value": list(found)}:
                    told = [one for one in found if type(one) is str]
                    for sentence in ELSEWHERE:
                        assert sentence not in told, sentence
                    what = f"`{path[-1] if path else name}`" if path or name else "your code"
                    for same in (*SAME.values(), *HOLDS_SAME.values()):
                        assert same not in told, (
                            f"called again with equal arguments, {what} gives {same}: "
                            "changing the first result changes the second. Make a new one for each call."
                        )

    def note_changed(self, changed: Any) -> None:
        """Note what of SESSION a reply lists as changed. Fail at once if a mode of torch's is among it."""
        known = [one for one in changed if type(one) is str] if type(changed) is list else []
        self.changed.update(one for one in SESSION if one in known)
        self._refuse_changed((GRADIENTS, DTYPE, DEVICE))

    def _refuse_changed(self, kinds: Sequence[str]) -> None:
        for what in kinds:
            assert what not in self.changed - self.promised, f"after a call of your code {what} is not as before."

    def note(self, value: Any, given: Any = ()) -> None:
        """Look through a reply. It may hold empty tensors where `given`, the arguments of the call, does."""
        if type(value) is float and not math.isfinite(value):
            self.kinds.add(NAN if math.isnan(value) else INFINITY)
        elif type(value) in (torch.Tensor, np.ndarray):
            self._note_tensor(torch.as_tensor(value), given)
        elif type(value) in (list, dict):
            items = value.values() if type(value) is dict else value
            if not wire.SCALARS - {float} >= {*map(type, items)}:
                for item in items:
                    self.note(item, given)

    def _note_tensor(self, value: torch.Tensor, given: Any) -> None:
        if not value.numel() and not _holds_empty(given):
            self.kinds.add(EMPTY)
        elif value.is_complex():
            self.kinds.add(COMPLEX)
        elif value.is_floating_point() and not value.isfinite().all():
            self.kinds |= ({NAN} if value.isnan().any() else set()) | ({INFINITY} if value.isinf().any() else set())


def _holds_empty(value: Any) -> bool:
    """Whether there is a tensor without entries among the arguments of a call."""
    if type(value) in (list, tuple, dict):
        return any(map(_holds_empty, value.values() if type(value) is dict else value))
    return type(value) in (torch.Tensor, np.ndarray) and 0 in value.shape


@contextmanager
def unusual_refused(elsewhere: bool = False) -> Iterator[Unusual]:
    """Fail at its end if a reply within it held what the check did not promise, or a call changed what is global.

    That is NaN, an infinite or a complex number, or an empty tensor for arguments of which none is empty; and SESSION.
    elsewhere: at the end the first call of everything is made in other sessions too, see `Unusual.refuse_elsewhere`.
    So it is at the end of each part within.
    """
    outer, found = _unusual.get(), Unusual()
    found.promised = outer.promised if outer else set()
    found.numbers = outer.numbers if outer else found.numbers
    found.first_calls = {} if elsewhere or (outer and outer.first_calls is not None) else None
    before = _unusual.set(found)
    try:
        yield found
        found.refuse()
        found.refuse_elsewhere()
    finally:
        _unusual.reset(before)


def promised(*kinds: str) -> None:
    """Let replies to this check hold NaN, INFINITY, COMPLEX or EMPTY, or calls draw (DRAWS): its exercise says that."""
    found = _unusual.get()
    if found is not None:
        found.promised.update(kinds)


class Calls:
    """The last calls of the student's functions and what they gave, so that a sentence can say what was called."""

    def __init__(self) -> None:
        self.known: deque[tuple[Any, Callable[[], str]]] = deque(maxlen=REMEMBERED)

    def note(self, value: Any, words: Callable[[], str]) -> None:
        """Remember what a call gave: a float, a list, a dict or a tensor, which is known again by identity."""
        if type(value) in (float, list, dict, torch.Tensor):
            self.known.append((value, words))


@contextmanager
def calls_remembered() -> Iterator[None]:
    """Within it, `called` knows the last calls of the student's functions."""
    before = _calls.set(Calls())
    try:
        yield
    finally:
        _calls.reset(before)


def called(value: Any, sentence: str = "") -> str:
    """ " It is what `f(2, 3)` gave.", where this very object is what a call of the student's gave; else "".

    It is also "" where `sentence` shows that call already, or where the call is too long to be shown.
    """
    known = _calls.get()
    for given, words in known.known if known is not None else ():
        if given is value:
            text = words()
            shown = not text or len(text) > SHOWN or f"{text.partition('(')[0]}(" in sentence
            return "" if shown else f" This is what `{text}` gave."
    return ""


def _written(value: Any) -> str:
    """An argument in a sentence: plain data and small tensors as they are, other tensors by their shapes."""
    if type(value) is torch.Tensor:
        if value.numel() <= SMALL and not value.is_floating_point():
            return f"tensor({value.tolist()})"
        return f"<tensor {tuple(value.shape)}>"
    if type(value) is list:
        return f"[{', '.join(map(_written, value))}]"
    if type(value) is tuple:
        return f"({', '.join(map(_written, value))}{',' * (len(value) == 1)})"
    if type(value) is dict:
        return f"{{{', '.join(f'{name!r}: {_written(one)}' for name, one in value.items())}}}"
    if type(value) is Remote:
        return ".".join([name_of(value) or repr(value), *value._path])
    return repr(value)


class StudentError(Exception):
    """The student's code raised, or what it gave back is not data. Says so in their words."""

    def __init__(
        self,
        message: str,
        type_name: str = "",
        line: str = "",
        number: int = 0,
        blank: bool = False,
        kinds: Sequence[str] = (),
        call: str = "",
    ):
        super().__init__(message)
        self.type_name, self.line, self.number, self.blank = type_name, line, number, blank
        self.call = call  # of the student's object, as it is written in Python; "" if it is not known, or long
        self.kinds = {type_name, *kinds}  # the exception's class, and Python's own classes that it inherits from

    @property
    def ends_check(self) -> bool:
        """Whether the check cannot go on with another part: nobody is there to ask."""
        return False

    @property
    def is_no_answer(self) -> bool:
        """Whether it says nothing of what the code does: there is none yet, or nobody is there to ask."""
        return self.blank or self.ends_check

    def sentence(self) -> str:
        """What went wrong for the student, with their own line and the call where they are known."""
        text = f"your code raised {self.type_name}: {self}" if self.type_name else str(self)
        text = f"{text}  (line {self.number}: `{self.line}`)" if self.line else text
        return f"{text} The call was `{self.call}`." if self.call else text


class ForbiddenUsed(Exception):
    """While it was called, the student's code used what the exercise forbids; the message is its name."""


class Remote:
    """Stands for an object in the student's process; made by `named`, `library` or a reply.

    Calling it calls the student's object; an attribute is another `Remote`; `read` gets its value.
    Plain data comes back by value, anything else as another `Remote`.
    """

    def __init__(self, ask: Ask, target: dict[str, Any], path: tuple[str, ...] = (), type_name: str = ""):
        self._ask, self._target, self._path, self._type_name = ask, target, path, type_name

    def __repr__(self) -> str:
        return f"<{self._type_name or 'answer'}>"

    def __getattr__(self, name: str) -> "Remote":
        if name.startswith("__"):
            raise AttributeError(name)
        return Remote(self._ask, self._target, (*self._path, name))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the student's object with plain data and other answers.

        Raises:
            StudentError: their code raised, or what it gave back is not data.
            ModuleNotFoundError: a package that the course needs is missing, here as well as there.
        """
        return self._send({"args": list(args), "kwargs": kwargs})

    def __getitem__(self, index: Any) -> Any:
        return library(self._ask, "operator").getitem(self, index)

    def __iter__(self) -> Any:
        """The items of a student's iterable, all at once (generators too)."""
        items = library(self._ask, "builtins").list(self)
        if type(items) is not list:
            raise StudentError(f"expected something to loop over, got {kind(items)}")
        return iter(items)

    def _send(self, call: dict[str, Any]) -> Any:
        target = self._target
        if "source" in target and self._path:
            target = target | {"source": _part(target["library"], self._path[0])}
        unusual, asked = _unusual.get(), {**target, "path": list(self._path), **call}
        if unusual and unusual.first_calls is not None and call and "library" not in target:
            self._note_first(asked, unusual.first_calls, unusual.numbers)
        request = wire.dumps(asked, self._handle)
        reply = self._ask(request)
        try:
            met = wire.loads(reply, self._meet)
        except wire.WireError as bad:
            raise StudentError(f"what your code returned cannot be read: {bad}") from None
        match met:
            case {"used": str(name)}:
                raise ForbiddenUsed(name)
            case {"changed": str(name)}:
                what = "what" if " " in name else f"`{name[:100]}`, which"
                raise AssertionError(f"your code changes {what} it was given. The caller still needs it: make a copy.")
            case {"value": value}:
                if unusual is not None:
                    unusual.note_changed(met.get("left"))
                    unusual.note(value, [*call.values()])
                known = _calls.get()
                small = len(request) + len(reply) < BYTES
                if known is not None and call and small and "library" not in self._target:
                    known.note(value, partial(self._in_words, call))
                return value
            case {"error": {"type": str(name), "message": str(text), "line": str(line)} as error}:
                missing, number, blank = error.get("missing"), error.get("number"), error.get("blank")
                given = error.get("kinds")
                kinds = [kind for kind in given if type(kind) is str] if type(given) is list else []
                if missing in PACKAGES and importlib.util.find_spec(missing) is None:  # not the kernel's word alone
                    raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)
                if error.get("course") is True:
                    raise StudentError(f"This cannot be checked here: {text[:1000]}")
                line_number = number if type(number) is int else 0
                # Only what the student wrote is called in words they know; a call of `probes` means nothing to them.
                own = bool(call) and len(request) < BYTES and "library" not in target
                shown = self._in_words(call) if own else ""
                shown = shown if len(shown) <= SHOWN else ""
                raise StudentError(text[:1000], name[:100], line[:200], line_number, blank is True, kinds, shown)
        raise StudentError("what your code returned is not plain data")

    def _note_first(
        self, asked: dict[str, Any], first_calls: dict[Any, Callable[[], bytes]], numbers: Iterator[int]
    ) -> None:
        """Have what is called copied, if it is the first call with None, True and False in these places.

        It is copied now: a layer that the call merges would be merged at the end. Methods that every module has are
        torch's own.
        """
        given = [*enumerate(asked["args"]), *asked["kwargs"].items()]
        which = tuple((place, one if one is None or type(one) is bool else "") for place, one in given)
        what = (asked.get("name"), self._type_name, self._path, which)
        if what not in first_calls and not any(hasattr(torch.nn.Module, name) for name in self._path):
            asked["first"] = next(numbers)
            first_calls[what] = partial(self._asked, {**self._target, "path": [], "elsewhere": asked["first"]})

    def _asked(self, asked: dict[str, Any]) -> bytes:
        """The reply to a request."""
        return self._ask(wire.dumps(asked, self._handle))

    def _in_words(self, call: dict[str, Any]) -> str:
        """A call as it is written in Python."""
        named_ = [f"{name}={_written(value)}" for name, value in call["kwargs"].items()]
        return f"{_written(self)}({', '.join([*map(_written, call['args']), *named_])})"

    def _meet(self, handle: int, type_name: str) -> "Remote":
        target = {"object": _Handle(handle), "forbids": self._target.get("forbids", [])}
        return Remote(self._ask, target, type_name=type_name)

    def _handle(self, value: Any) -> int:
        """The number of a kept object that a check sends back as an argument."""
        if type(value) is _Handle:
            return value.number
        if type(value) is Remote:
            met = value if "object" in value._target and not value._path else value._send({})
            if type(met) is Remote:
                return met._target["object"].number
        raise TypeError(f"a check may send plain data and answers only, not {type(value).__name__}")


class _Handle:
    """The number under which the dispatch keeps an object."""

    def __init__(self, number: int):
        self.number = number


Library = Callable[[ModuleType], Remote]  # what a check calls `lib`, see `libraries`


def named(ask: Ask, name: str, forbids: Sequence[str] = ()) -> Remote:
    """The student's object of that name. `forbids` names what may not run while it is called."""
    return Remote(ask, {"name": name, "forbids": [*forbids]})


def library(ask: Ask, module: str, forbids: Sequence[str] = ()) -> Remote:
    """A module of the student's process, imported there: `library(ask, "torch").nn.Linear(3, 4)`.

    Of a module of `utils` the source of what is asked for is sent, and made again for each request: what the
    student's code has done to a module of that name changes nothing.
    """
    target: dict[str, Any] = {"library": module, "forbids": [*forbids]}
    if module.startswith("utils."):
        target["source"] = ""
    return Remote(ask, target)


def libraries(ask: Ask, forbids: Sequence[str] = ()) -> Library:
    """From a module here to the one of that name in the student's process, see `library`."""
    return lambda module: library(ask, module.__name__, forbids)


@cache
def _part(module: str, name: str) -> str:
    """The imports of a module of `utils`, the definition of `name` in it, and those that it needs.

    Raises:
        AttributeError: there is no such definition.
    """
    definitions, imports = _definitions(module)
    wanted, needed = [name], set()
    while wanted:
        one = wanted.pop()
        if one in definitions and one not in needed:
            needed.add(one)
            wanted += [node.id for node in ast.walk(definitions[one]) if isinstance(node, ast.Name)]
    if not needed:
        raise AttributeError(f"{module} defines no {name}")
    nodes = [*imports, *dict.fromkeys(node for one, node in definitions.items() if one in needed)]
    return "\n".join(map(ast.unparse, nodes))


@cache
def _definitions(module: str) -> tuple[dict[str, ast.stmt], list[ast.stmt]]:
    """What a module defines at its top, by name, and its imports.

    What it imports from another module of `utils` counts as its own: that module too, may be another one there.
    """
    found: dict[str, ast.stmt] = {}
    imports: list[ast.stmt] = []
    source = UTILS.joinpath(*module.split(".")[1:]).with_suffix(".py")
    for node in ast.parse(source.read_text()).body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found[name] = node
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                found[name] = node
            case ast.ImportFrom(module=str(other)) if other.startswith("utils."):
                inherited, more = _definitions(other)
                found, imports = inherited | found, [*more, *imports]
            case ast.Import() | ast.ImportFrom():
                imports.append(node)
    return found, imports


def read(answer: Any) -> Any:
    """The value of the attribute that `answer` stands for: `read(layer.n_heads)`."""
    return answer._send({}) if type(answer) is Remote else answer


def name_of(answer: Remote) -> str:
    """The student's name for what `answer` stands for, "" if it has none."""
    return answer._target.get("name", "")


def size(answer: Remote) -> int:
    """`len` of a student's object. No `__len__`, which `list(answer)` would call unasked."""
    count = library(answer._ask, "builtins").len(answer)
    return count if type(count) is int else 0


def kind(value: Any) -> str:
    """What to call a value in a sentence for students: a tensor, a number's type, nothing (None), ..."""
    if value is None:
        return "None (is a `return` missing?)"
    if type(value) is Remote:
        return f"an object of type {value._type_name}"
    if type(value) is torch.Tensor:
        return f"a tensor of shape {tuple(value.shape)}"
    if type(value) is list:  # tuples arrive as lists, see `utils.grading.wire`
        return "a list or a tuple"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
