"""The student's side of the wall: answers one request at a time, in the student's own process.

The same code answers at home and in the sandboxed kernel, so what passes at home passes in
grading. Nobody trusts what it says: the verdict is reached on the other side, from values alone.
"""

import builtins
import copy
import ctypes
import functools
import importlib
import inspect
import io
import linecache
import operator
import pickle
import random
import secrets
import site
import sys
import sysconfig
import traceback
from collections import deque
from collections.abc import Iterable
from contextlib import nullcontext, redirect_stderr, redirect_stdout, suppress
from functools import cache, lru_cache
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import numpy as np
import torch
from numpy.random import mtrand
from torch import nn
from torch.overrides import TorchFunctionMode

from utils.grading import forbidden, wire
from utils.grading.protocol import (
    DEVICE,
    DTYPE,
    GRADIENTS,
    HOLDS_SAME,
    NUMPY_STATE,
    PYTHON_STATE,
    SAME,
    SETS_DTYPE,
    SWITCHES_ON,
    TORCH_SEED,
    TORCH_STATE,
)

MAX_MESSAGE = 1000
ONE_IN = 4  # of so many watched calls in one the functions of torch are watched too, see `Calls`
SEED_BYTES = 8  # at the beginning of the state of torch's generator
# The same in all calls: what an answer derives from it is no luck.
NOTED_SEED = torch.tensor([*secrets.token_bytes(SEED_BYTES)], dtype=torch.uint8, device="cpu")
MT19937_BYTES = 625 * 4  # the words of NumPy's own generator, and its place among them
PLAIN = (bool, int, float, str, bytes, type(None))


def both_names(folders: Iterable[str | Path]) -> tuple[str, ...]:
    """Folders by the names that Python has for them and, where these lead through links, by their own."""
    return tuple({name for folder in folders for name in (str(folder), str(Path(folder).resolve()))})


COURSE = Path(__file__).parents[2]
COURSE_FOLDERS = both_names(COURSE / package for package in ("utils", "data"))
INSTALLED = (sysconfig.get_path("stdlib"), *site.getsitepackages(), str(Path(torch.__file__).parents[1]))
LIBRARY_FOLDERS = (*COURSE_FOLDERS, *both_names(INSTALLED))

kept: list[Any] = []
# What was called and given, copied before the call if that can be; and what it gave.
first_calls: dict[int, list[Any]] = {}


@cache
def watch_compiled() -> None:
    """From now on, what torch.jit compiled is called by a function of Python: what it calls itself, no watch can see.

    A kernel does so before any code of the student's runs, and `answer` before it asks, once in a process.
    """
    for kind in (torch._C.ScriptFunction, torch._C.ScriptMethod):
        _through_python(kind)


def _through_python(kind: Any) -> None:
    call = kind.__call__

    def call_compiled(*args: Any, **options: Any) -> Any:
        return call(*args, **options)

    kind.__call__ = call_compiled


def _copy_of(module: ModuleType) -> ModuleType:
    twin = ModuleType(module.__name__)
    vars(twin).update(vars(module))
    return twin


# As they were before any code of the student's ran.
OWN = {module.__name__: _copy_of(module) for module in (builtins, copy, functools, operator)}


class Calls(TorchFunctionMode):
    """Tells a watch of every function of torch that is called.

    Python's profile says nothing of one that is called by C: by `functools.partial`, `map` or `functools.reduce`. An
    answer made of many small calls takes twice as long meanwhile, so it is done now and then, when nobody can know: who
    needs a forbidden function needs it each time.
    """

    def __init__(self, watch: forbidden.Watch):
        super().__init__()
        self._watch = watch
        self._allowed: set[Any] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function, having told of it."""
        if func not in self._allowed:  # for it runs at every call, and each of its own is told to the watch
            if self._watch.forbidden(func):
                self._watch.note_c(func, sys._getframe(1))
            else:
                self._allowed.add(func)
        return func(*args, **kwargs) if kwargs else func(*args)


def keep(value: Any) -> int:
    """Keep an object that is not plain data, and answer with the number that names it."""
    kept.append(value)
    return len(kept) - 1


def answer(namespace: dict[str, Any], request: bytes) -> bytes:
    """Call or read what `request` names in `namespace`; answer with plain data or with the error.

    A request names its target as {"name": ...} in the namespace, {"library": dotted module name} or
    {"object": handle}, then a "path" of attributes and, for a call, "args" and "kwargs"; "forbids" lists
    what may not run meanwhile. A library that comes with its "source" is made from it. The reply is
    {"value": ...}, {"error": ...} as `describe` makes it, {"used": name} of what is forbidden, or
    {"changed": name} of an argument that the student's code changed. Beside a value "left" lists what is global in the
    session and was changed by the call, see `Session`. What is called with "first" is copied before, under that
    number. A request with "elsewhere" and the same number is answered by what `changes_elsewhere` says of that call.
    """
    watch_compiled()
    watch = forbidden.Watch((), is_students)
    try:
        asked = wire.loads(request, lambda handle, _: kept[handle])
        target = _find(namespace, asked)
        for name in asked["path"]:
            target = getattr(target, name)
        if "elsewhere" in asked:
            copied = first_calls.pop(asked["elsewhere"], None)
            return wire.dumps({"value": changes_elsewhere(*copied) if copied else []}, keep)
        if "args" in asked:
            device = torch.get_default_device()
            args, kwargs = _to(device, asked["args"]), _to(device, asked["kwargs"])
            if "first" in asked:
                first_calls[asked["first"]] = _copied([target, args, kwargs])
            watch = forbidden.Watch(asked.get("forbids", ()), is_students, theirs="name" in asked)
            session = Session(asked, target)
            try:
                with watch, Calls(watch) if watch.forbids and _more_is_watched(asked) else nullcontext():
                    called, target = target, target(*args, **kwargs)
            finally:
                left = session.put_back()
            if "first" in asked:
                first_calls[asked["first"]].append(target)
            if watch.found:
                return wire.dumps({"used": watch.found}, keep)
            if isinstance(target, nn.Module):  # a function may stand in the place of a module's class
                left = [what for what in left if what != TORCH_STATE]
            if "library" not in asked and any(map(_may_change, (*args, *kwargs.values()))):
                given = wire.loads(request, lambda handle, _: kept[handle])
                changed = _changed(called, (args, kwargs), _to(device, [given["args"], given["kwargs"]]))
                if changed:
                    return wire.dumps({"changed": changed}, keep)
            if left:
                return wire.dumps({"value": target, "left": left}, keep)
        return wire.dumps({"value": target}, keep)
    except (Exception, SystemExit) as error:
        if watch.found:
            return wire.dumps({"used": watch.found}, keep)
        try:
            return wire.dumps({"error": describe(error)}, keep)
        except (Exception, SystemExit):  # an exception of the student's own that cannot say what it is
            silent = {"type": "Exception", "message": "its message cannot be shown", "line": "", "number": 0}
            return wire.dumps({"error": silent | {"blank": False}}, keep)


class Session:
    """What is global in the student's session before a call. What the call changes of it is not an answer's to change.

    Of a function of the student's that is all of SESSION, of a module's class all but torch's generator, from which
    weights are drawn, and of a module torch's modes and seed: dropout draws. Of other objects, and of libraries, which
    may call what is the student's, it is torch's modes. Only a check itself calls torch to change these.
    """

    def __init__(self, asked: dict[str, Any], target: Any):
        self._modes = asked.get("library") != "torch"
        self._all = "name" in asked
        is_module = isinstance(getattr(target, "__self__", target), nn.Module)  # or a method of one
        self._draws = is_module or (self._all and isinstance(target, type) and issubclass(target, nn.Module))
        self._torch: Any = torch.get_rng_state() if self._all or is_module else None
        if self._torch is not None:  # so that a seed which the session had already is seen as well
            _note_seed(NOTED_SEED)
        self._numpy: Any = mtrand.get_bit_generator() if self._all else None
        self._before = self._now()

    def _now(self) -> dict[str, Any]:
        modes = {
            GRADIENTS: torch.is_grad_enabled(),
            DTYPE: torch.get_default_dtype(),
            DEVICE: torch.get_default_device(),
        }
        modes = modes if self._modes else {}
        if self._torch is not None:
            modes |= {TORCH_SEED: torch.initial_seed()}
        if not self._all:
            return modes
        generators = {
            TORCH_STATE: b"" if self._draws else torch.get_rng_state().numpy().tobytes(),
            NUMPY_STATE: _numpy_state(),
            PYTHON_STATE: random.getstate(),
        }
        return modes | generators

    def put_back(self) -> list[str]:
        """What is not as it was, by the names of SESSION.

        For whatever comes next torch's modes are as before then, and so are the generators of NumPy and Python, and
        torch's if it got another seed: otherwise the same answer would pass the second time.
        """
        now = self._now()
        changed = [what for what, before in self._before.items() if now[what] != before]
        if GRADIENTS in changed:
            torch.set_grad_enabled(self._before[GRADIENTS])
        if DTYPE in changed:
            torch.set_default_dtype(self._before[DTYPE])
        if DEVICE in changed:
            torch.set_default_device(self._before[DEVICE])
        if TORCH_SEED in changed:
            torch.set_rng_state(self._torch)
        elif self._torch is not None:
            _note_seed(self._torch[:SEED_BYTES])
        if NUMPY_STATE in changed:
            mtrand.set_bit_generator(self._numpy)
            np.random.set_state(pickle.loads(self._before[NUMPY_STATE]))
            _KnownState.words = b""  # for those of a state with a normal number held back are those of one without
        if PYTHON_STATE in changed:
            random.setstate(self._before[PYTHON_STATE])
        return changed


def changes_elsewhere(called: Any, args: list[Any], kwargs: dict[str, Any], *earlier: Any) -> list[str]:
    """What of ELSEWHERE a call does, and which of SAME and HOLDS_SAME is true of its result and an earlier one.

    What switches gradients on, or sets float32, changes nothing in an ordinary session. So the call is made again with
    copies of all that it is given, where gradients are off and float64 is the default, and, if it fails there, where
    gradients alone are off. An error is no matter: not every answer works there, and not everything can be copied.
    As all is copied, the two results can share something only if the answer keeps it between calls.
    """
    if inspect.isbuiltin(called):  # a tensor's method is not copied with its tensor
        return []
    dtype, nothing = torch.get_default_dtype(), io.StringIO()
    devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
    for other in (torch.float64, dtype):
        with torch.no_grad(), torch.random.fork_rng(devices), redirect_stdout(nothing), redirect_stderr(nothing):
            torch.set_default_dtype(other)
            session, works, result = Session({"name": ""}, called), False, None
            try:
                with suppress(Exception, SystemExit):
                    copied = copy.deepcopy([called, args, kwargs])
                    result = copied[0](*copied[1], **copied[2])
                    works = True
            finally:  # also after an interrupt
                changed = session.put_back()
                torch.set_default_dtype(dtype)
        if works:
            told = [sentence for mode, sentence in ((GRADIENTS, SWITCHES_ON), (DTYPE, SETS_DTYPE)) if mode in changed]
            return told + [same for one in earlier for same in _shared(one, result)]
    return []


def _shared(one: Any, other: Any) -> list[str]:
    """Which of SAME and HOLDS_SAME is true of two results: that of the outermost part of both, if there is one."""
    first, second = _mutable_parts(one), _mutable_parts(other)
    for part, what in second.items():
        if what and part in first:
            return [(SAME if part == next(iter(second)) else HOLDS_SAME)[what]]
    return []


def _mutable_parts(value: Any) -> dict[Any, str]:
    """The kinds of a result and its parts, from outside to inside: "" if it cannot be written into.

    Each is known by the memory of a tensor or an array, and by the identity of anything else. What a module is made of
    is not looked at: that may be a part of another model.
    """
    found, unseen = dict[Any, str](), deque([value])
    while unseen:
        one, inside = unseen.popleft(), list[Any]()
        record = getattr(one, "__dataclass_params__", None)  # an instance of a dataclass has it, and the class too
        if type(one) in (torch.Tensor, nn.Parameter):
            if one.layout is torch.strided and one.numel() and one.device.type != "meta":
                found["memory", one.untyped_storage().data_ptr()] = "tensor"
        elif type(one) is np.ndarray and one.size:
            found["memory", one.ctypes.data] = "array"
        elif isinstance(one, nn.Module):
            found[id(one)] = "module"
        elif isinstance(one, (list, dict, set, tuple)) and id(one) not in found:
            found[id(one)] = next((kind.__name__ for kind in (list, dict, set) if isinstance(one, kind)), "")
            inside = [*one.values()] if isinstance(one, dict) else [*one]
        elif record is not None and not isinstance(one, type) and id(one) not in found:
            found[id(one)] = "" if record.frozen else "object"
            inside = [*vars(one).values()]
        unseen += [part for part in inside if type(part) not in PLAIN]
    return found


def _copied(value: list[Any]) -> list[Any]:
    """A deep copy; the value itself where it cannot be copied now."""
    with suppress(Exception, SystemExit):
        return copy.deepcopy(value)
    return value


def _note_seed(seed: torch.Tensor) -> None:
    """Let torch's global generator note that it began with another seed. What it draws stays the same."""
    state = torch.get_rng_state()
    state[:SEED_BYTES] = seed
    torch.set_rng_state(state)


class _KnownState:
    """The last state of NumPy's global generator that was read in full."""

    generator: Any = None
    words = b""
    state = b""


def _numpy_state() -> bytes:
    """The state of NumPy's global generator. Reading it in full takes long, and is left out where nothing was drawn.

    The words do not hold a normal number that was drawn ahead: where there is one, all is read. That it alone changes
    is not seen, but this takes a call that puts the words back itself.
    """
    generator = mtrand.get_bit_generator()
    words = b""
    if type(generator) is np.random.MT19937:
        words = ctypes.string_at(generator.ctypes.state_address, MT19937_BYTES)
    if not words or words != _KnownState.words or generator is not _KnownState.generator:
        full = np.random.get_state(legacy=False)
        held_back = full.get("has_gauss")
        _KnownState.generator, _KnownState.words = generator, b"" if held_back else words
        _KnownState.state = pickle.dumps(full)
    return _KnownState.state


def _more_is_watched(asked: dict[str, Any]) -> bool:
    """Whether the functions of torch are watched in this call too: in the first of each answer, and now and then."""
    name = asked.get("name", "")
    first = name not in called_before
    called_before.add(name)
    return first or secrets.randbelow(ONE_IN) == 0


called_before: set[str] = set()


def _may_change(value: Any) -> bool:
    """Whether an argument is data that a call could change: a tensor, an array, a list or a dict."""
    return type(value) in (torch.Tensor, np.ndarray, list, dict)


def _changed(called: Any, now: tuple[list[Any], dict[str, Any]], before: list[Any]) -> str:
    """The name of an argument that is not what it was before the call, "" if there is none."""
    for one, other in zip((*now[0], *now[1].values()), (*before[0], *before[1].values()), strict=False):
        if not same_value(one, other):
            return _name_of(called, one, now)
    return ""


def _name_of(called: Any, argument: Any, given: tuple[list[Any], dict[str, Any]]) -> str:
    """The name that `called` has for an argument of a call."""
    try:
        target = called.forward if isinstance(called, nn.Module) else called  # whose own call has no names
        bound = inspect.signature(target).bind(*given[0], **given[1]).arguments
    except (TypeError, ValueError):
        return "an argument"
    return next((name for name, value in bound.items() if value is argument), "an argument")


def same_value(one: Any, other: Any) -> bool:
    """Whether two values of plain data are equal to the bit; objects that are not plain data are not looked into."""
    if type(one) is not type(other):
        return False
    if type(one) in (torch.Tensor, np.ndarray):
        one, other = torch.as_tensor(one), torch.as_tensor(other)
        return one.shape == other.shape and one.dtype == other.dtype and wire.raw(one) == wire.raw(other)
    if type(one) is list:
        return len(one) == len(other) and all(map(same_value, one, other))
    if type(one) is dict:
        return [*one] == [*other] and all(map(same_value, one.values(), other.values()))
    return not isinstance(one, PLAIN) or one == other or one != one


def describe(error: BaseException) -> dict[str, Any]:
    """The error in the student's words: type, message, and the last of their own lines in it."""
    every = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in every if is_students(frame.filename)]
    last = frames[-1] if frames else None
    return {
        "type": type(error).__name__,
        "kinds": [kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins"],
        "message": str(error)[:MAX_MESSAGE],
        "line": (linecache.getline(last.filename, last.lineno or 0).strip() or last.line or "")[:200] if last else "",
        "number": last.lineno if last else 0,
        # A stub raises a bare NotImplementedError in the student's own code; a library's comes from deeper.
        "blank": type(error) is NotImplementedError and not error.args and bool(last) and last is every[-1],
        "missing": str(error.name) if isinstance(error, ModuleNotFoundError) else "",
        "course": isinstance(error, ImportError) and _imported_by_course(every),
    }


def _imported_by_course(frames: list[traceback.FrameSummary]) -> bool:
    """Whether it was the course that imported what failed; what the student's own code imports is another matter."""
    files = [one.filename for one in frames if one.filename.startswith(COURSE_FOLDERS) or is_students(one.filename)]
    return not files or files[-1].startswith(COURSE_FOLDERS)


def _find(namespace: dict[str, Any], asked: dict[str, Any]) -> Any:
    if "object" in asked:
        return asked["object"]
    if "source" in asked:
        module = ModuleType(asked["library"])
        exec(_compiled(asked["library"], asked["source"]), vars(module))
        return module
    if "library" in asked:
        return OWN.get(asked["library"]) or importlib.import_module(asked["library"])
    if asked["name"] not in namespace:
        raise NameError(f"`{asked['name']}` is not defined")
    return namespace[asked["name"]]


@lru_cache(maxsize=256)
def _compiled(name: str, source: str) -> CodeType:
    return compile(source, f"{COURSE.joinpath(*name.split('.'))}.py", "exec")


def _to(device: torch.device, value: Any) -> Any:
    """Move tensors, which arrive on the CPU, to the student's default device, where their own tensors live."""
    if device.type == "cpu":
        return value
    if type(value) is torch.Tensor:
        return value.to(device)
    if type(value) is list:
        return [_to(device, item) for item in value]
    if type(value) is dict:
        return {key: _to(device, item) for key, item in value.items()}
    return value


def is_students(filename: str) -> bool:
    """Whether code of this file is the student's: it is in no library, nor in what comes with the course."""
    if filename.startswith("<frozen") or filename == sys.executable:
        return False
    return not filename.startswith(LIBRARY_FOLDERS)
