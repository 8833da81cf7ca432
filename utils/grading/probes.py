"""What a contract asks in the student's process, several calls in one request. See `utils.grading.contract`."""

import builtins
import contextlib
import hashlib
import itertools
import pickle
import random
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import nn


def flat(value: Any) -> list[Any]:
    """What is in lists and tuples, however deep; of anything else a list of it alone."""
    return [leaf for item in value for leaf in flat(item)] if isinstance(value, (list, tuple)) else [value]


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors in `value`, in lists and tuples too."""
    return [one for one in flat(value) if isinstance(one, torch.Tensor)]


def laid_out(value: Any, how: str) -> Any:
    """A tensor with the same numbers in another memory layout, also in lists and tuples; anything else as it is."""
    if isinstance(value, (list, tuple)):
        return type(value)(laid_out(one, how) for one in value)
    if not isinstance(value, torch.Tensor) or not value.dim():
        return value
    if how == "as it is":
        return value.clone()
    if how == "expanded":
        return value[:1].expand(value.shape)
    if how == "transposed":
        return value.transpose(0, -1).clone(memory_format=torch.contiguous_format).transpose(0, -1)
    if how == "a part":
        return torch.cat([torch.ones_like(value[:1]), value])[1:]
    if how == "a view of heads" and value.dim() > 2:
        return value.transpose(-3, -2).contiguous().transpose(-3, -2)
    return torch.stack([value, value], dim=max(0, value.dim() - 1)).select(max(0, value.dim() - 1), 0)


def in_layouts(call: Callable[..., Any], layouts: list[str], args: list[Any], options: dict[str, Any]) -> list[Any]:
    """What `call` gives for the same numbers in each of these layouts."""
    return [
        call(*[laid_out(one, how) for one in args], **{name: laid_out(one, how) for name, one in options.items()})
        for how in layouts
    ]


def slopes(call: Callable[..., Any], args: list[Any], options: dict[str, Any], which: int) -> list[Any]:
    """The gradients of a fixed sum over a result of `call`, the `which`-th if there are several.

    The first list is about the arguments, with None where one is not a tensor of floats; then there is a dict about the
    parameters of a module by name. Where no gradient arrives there are zeros.
    """
    return slopes_and_kept(call, args, options, which)[:2]


def slopes_and_kept(call: Callable[..., Any], args: list[Any], options: dict[str, Any], which: int) -> list[Any]:
    """As `slopes`; and whether arguments and parameters that needed a gradient before the call need one after it."""

    def leaf(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(map(leaf, value))
        floats = isinstance(value, torch.Tensor) and value.is_floating_point()
        return value.detach().clone().requires_grad_() if floats else value

    given, named = [leaf(one) for one in args], {name: leaf(one) for name, one in options.items()}
    parts = dict(call.named_parameters()) if isinstance(call, nn.Module) else {}
    for part in parts.values():
        part.grad = None
    with torch.enable_grad():
        needing = [one for one in (*tensors_in([*given, *named.values()]), *parts.values()) if one.requires_grad]
        result = call(*given, **named)
        result = flat(result)[which]
        if result.requires_grad:
            weights = torch.linspace(-1, 2, result.numel(), dtype=result.dtype, device=result.device)
            finite = torch.where(result.isfinite(), result, 0.0).flatten()
            (finite * weights).sum().backward()
    found = flat([*given, *named.values()])
    leaves = [_slope(one) if isinstance(one, torch.Tensor) and one.is_floating_point() else None for one in found]
    kept = all(one.requires_grad for one in needing)
    return [leaves, {name: _slope(part) for name, part in parts.items()}, kept]


def _slope(leaf: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(leaf) if leaf.grad is None else leaf.grad


def needs_gradient(call: Callable[..., Any], args: list[Any], options: dict[str, Any]) -> bool:
    """Whether a result needs a gradient although no argument does: it is a parameter, or computed from one."""
    return any(one.requires_grad for one in tensors_in(call(*args, **options)))


def again_after_writing(call: Callable[..., Any], args: list[Any], options: dict[str, Any]) -> list[Any]:
    """What a second call gives after the results of the first were overwritten, and the arguments after both."""
    _overwrite(call(*args, **options))
    return [call(*args, **options), [*args, *options.values()]]


def each_again_after_writing(targets: list[Callable[..., Any]], asked: list[Any], shares: bool) -> list[Any]:
    """For each of these calls its result, and six things more after that of a second call was overwritten.

    These are the first result again, that of a third call, that of a call while no gradients are recorded, whether they
    are recorded after it, whether it changes the arguments, and the arguments. A call is a place in `targets`, its
    arguments and options. shares: each call has copies of them, as results may be parts of what is given.
    """
    found = []
    for which, args, options in asked:

        def own(given: Any) -> Any:
            return laid_out(given, "as it is") if shares else given

        def call(target: Callable[..., Any] = targets[which], args: Any = args, options: Any = options) -> Any:
            return target(*map(own, args), **{name: own(one) for name, one in options.items()})

        first = call()
        came = _copied(first)
        _overwrite(call())
        first = _copied(first)  # now: a third call that writes into the same memory would put it right
        again = call()
        given = _copied([args, options])
        with torch.no_grad():
            blind = targets[which](*args, **options)
            records = torch.is_grad_enabled()
        changes = not _as_before([args, options], given)
        found.append([came, first, again, _copied(blind), records, changes, [*given[0], *given[1].values()]])
    return found


def with_other_numbers(
    call: Callable[..., Any], args: list[Any], options: dict[str, Any], others: list[Any], named: dict[str, Any]
) -> Any:
    """What `call` gives where other arguments are written into the tensors and lists that an earlier call was given."""
    call(*args, **options)
    now = [_rewritten(old, new) for old, new in zip(args, others, strict=True)]
    return call(*now, **{name: _rewritten(old, named[name]) for name, old in options.items()})


def _rewritten(old: Any, new: Any) -> Any:
    """A tensor or list with the contents of another one, in its own memory where that is possible; else the other."""
    if type(old) is type(new) is torch.Tensor and old.shape == new.shape and old.dtype == new.dtype:
        return old.copy_(new)
    if type(old) is type(new) is list:
        old[:] = [*map(_rewritten, old, new), *new[len(old) :]]
        return old
    return tuple(map(_rewritten, old, new)) if type(old) is type(new) is tuple and len(old) == len(new) else new


def _overwrite(value: Any) -> None:
    """Write into the tensors, lists and dicts of a result."""
    if isinstance(value, torch.Tensor):
        with torch.no_grad(), contextlib.suppress(RuntimeError):  # rows that are one row in memory cannot be written
            value.fill_(77)
    elif isinstance(value, (list, tuple, dict)):
        for one in value.values() if isinstance(value, dict) else value:
            _overwrite(one)
        if isinstance(value, list):
            value[:] = [None]  # an empty one too, is not the same afterwards
        elif isinstance(value, dict):
            value.clear()
            value[""] = None


def world(anew: bool) -> dict[str, Any]:
    """What is global in a session and is not an answer's to change: modes of torch, a digest of the generators' states.

    anew: each generator has drawn a number, so that no state is that of an earlier call.
    """
    if anew:
        torch.rand(1), np.random.rand(), random.random()
    states = {
        "torch": torch.get_rng_state().numpy().tobytes(),
        "NumPy": pickle.dumps(np.random.get_state(legacy=False)),
        "Python": str(hash(random.getstate())).encode(),
    }
    return {
        "the recording of gradients": torch.is_grad_enabled(),
        "torch's default dtype": str(torch.get_default_dtype()),
        **{
            f"the state of the global random generator of {name}": hashlib.sha256(state).hexdigest()
            for name, state in states.items()
        },
    }


def records_after(call: Callable[..., Any], args: list[Any], options: dict[str, Any]) -> bool:
    """Whether gradients are recorded after a call while they were not."""
    with torch.no_grad():
        call(*args, **options)
        return torch.is_grad_enabled()


def without_gradients(call: Callable[..., Any], args: list[Any], options: dict[str, Any]) -> Any:
    """What a call gives while no gradients are recorded."""
    with torch.no_grad():
        return call(*args, **options)


def before_and_after_clearing(call: Callable[..., Any], *args: Any) -> list[Any]:
    """What a first call gives, and what the next one gives after the first result was overwritten."""
    first = call(*args)
    came = _copied(first)
    _overwrite(first)
    return [came, call(*args)]


def world_after(call: Callable[..., Any], args: list[Any], options: dict[str, Any]) -> list[Any]:
    """What `call` gives, and the `world` before and after it."""
    before = world(True)
    return [_copied(call(*args, **options)), before, world(False)]


def again_after_clearing(call: Callable[..., Any], *args: Any) -> Any:
    """What a second call gives after the tensors, lists and dicts that the first one gave were overwritten."""
    _overwrite(call(*args))
    return call(*args)


def form(call: Callable[..., Any], *args: Any, **options: Any) -> str:
    """The types of what `call` gives, such as "list[tuple[str, float]]": all arrive as lists on the other side."""
    return _form(call(*args, **options))


def _form(value: Any) -> str:
    for kind in (tuple, list):
        if isinstance(value, kind):
            parts = [_form(one) for one in value]
            inside = ", ".join(parts) if kind is tuple else " or ".join(sorted({*parts}))
            return f"{kind.__name__}[{inside}]"
    return next((kind.__name__ for kind in (bool, int, float, str) if isinstance(value, kind)), type(value).__name__)


FACTS = (
    "the modes of the module and its parts",
    "requires_grad of the parameters of the module",
    "the gradients of the module",
    "the hooks of the module",
    "the weights of the module",
)


def facts(module: nn.Module) -> dict[str, Any]:
    """What is to be the same of a module after it was used, by the words of FACTS."""
    found = (
        [part.training for part in module.modules()],
        [part.requires_grad for part in module.parameters()],
        [None if part.grad is None else _digest([part.grad]) for part in module.parameters()],
        [len(part._forward_hooks) + len(part._forward_pre_hooks) for part in module.modules()],
        _digest(list(module.state_dict().values())),
    )
    return dict(zip(FACTS, found, strict=True))


def changes(
    call: Callable[..., Any], modules: dict[str, nn.Module], args: list[Any], options: dict[str, Any]
) -> list[list[str]]:
    """What is not the same of these modules after a call: the module's name, and a fact.

    Before the call all parts are in training mode and all parameters learn. Before a second one all are in evaluation
    mode, and those learn that did. Each parameter has a gradient of ones.
    """
    found = []
    parameters = [one for module in modules.values() for one in module.parameters() if one.is_floating_point()]
    learned = [parameter.requires_grad for parameter in parameters]
    for mode in (True, False):
        for module in modules.values():
            module.train(mode)
        for parameter, learns in zip(parameters, learned, strict=True):
            parameter.requires_grad_(mode or learns).grad = torch.ones_like(parameter)
        before = {name: facts(module) for name, module in modules.items()}
        call(*args, **options)
        found += [
            [name, what]
            for name, module in modules.items()
            for what, now in facts(module).items()
            if not _same(now, before[name][what])
        ]
    for parameter, learns in zip(parameters, learned, strict=True):
        parameter.requires_grad_(learns)
    return found


def _same(one: Any, other: Any) -> bool:
    """Whether two facts are equal."""
    if isinstance(one, dict):
        return [*one] == [*other] and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and torch.equal(one, other)
    return bool(one == other)


def parts(
    module: nn.Module, options: list[str], make: Callable[..., Any], args: list[Any], named: dict[str, Any]
) -> dict[str, Any]:
    """What a module is made of: these options of its parts, which parameters learn, and which names share one.

    Under "records" is whether gradients are recorded after `make` made another one while they were not, under "alike"
    which parameters have the same numbers in two new modules, more than two: neither zeros nor an identity are drawn.
    """
    first, second = (dict(make(*args, **named).named_parameters()) for _ in range(2))
    known = dict(module.named_parameters(remove_duplicate=False))
    names = [*known]
    return {
        "records": records_after(make, args, named),
        "options": {
            f"{where}.{option}": vars(part)[option]
            for where, part in module.named_modules()
            for option in options
            if isinstance(vars(part).get(option, ()), (int, float, str, type(None)))
        },
        "alike": [
            name
            for name, part in first.items()
            if part is not second[name] and part.unique().numel() > 2 and torch.equal(part, second[name])
        ],
        "learns": {name: part.requires_grad for name, part in known.items()},
        "shared": [
            [one, other] for i, one in enumerate(names) for other in names[i + 1 :] if known[one] is known[other]
        ],
    }


def type_name(call: Callable[..., Any], args: list[Any], options: dict[str, Any]) -> str:
    """The name of the type of what `call` gives: a tuple arrives as a list."""
    return type(call(*args, **options)).__name__


def drawn(call: Callable[..., Any], args: list[Any], options: dict[str, Any], seeds: list[int | None]) -> list[Any]:
    """What `call` gives where each generator among its arguments is seeded so; None leaves it as it is."""
    found = []
    for seed in seeds:
        for one in [*args, *options.values()]:
            if isinstance(one, torch.Generator) and seed is not None:
                one.manual_seed(seed)
        found.append(call(*args, **options))
    return found


def in_another_process(call: Callable[..., Any], args: list[Any], options: dict[str, Any]) -> Any:
    """What `call` gives where `hash` and `id` give other numbers, as in another process."""
    numbers = builtins.hash, builtins.id

    def holds_text(value: Any) -> bool:
        inside = isinstance(value, (tuple, frozenset)) and any(map(holds_text, value))
        return inside or isinstance(value, (str, bytes))

    def other_hash(value: Any) -> int:
        number = numbers[0](value)
        return number ^ 0x5BD1E995 if holds_text(value) else number

    with (
        mock.patch.object(builtins, "hash", other_hash),
        mock.patch.object(builtins, "id", lambda value: numbers[1](value) + 64),
    ):
        return call(*args, **options)


def filled(make: Callable[..., nn.Module], asked: list[Any]) -> list[Any]:
    """The modules that `make` makes from these arguments and options, with these weights and no others, in a dtype.

    Last comes whether two of them share a parameter.
    """
    found: list[Any] = []
    for args, options, state, dtype in asked:
        module = make(*args, **options)
        module.load_state_dict(state)
        found.append(module if dtype == "float32" else module.to(getattr(torch, dtype)))
    memory = [{one.untyped_storage().data_ptr() for one in module.parameters() if one.numel()} for module in found]
    return [*found, any(not one.isdisjoint(other) for one, other in itertools.combinations(memory, 2))]


def each(targets: list[Callable[..., Any]], asked: list[Any]) -> list[Any] | None:
    """What each of these calls gives: the place of what is called, its arguments and options.

    None if one changes an argument.
    """
    found = []
    for place, (which, args, options) in enumerate(asked, 1):
        before, result = _copied([args, options]), targets[which](*args, **options)
        found.append(result if place == len(asked) else _copied(result))  # a later call may write into it
        if not _as_before([args, options], before):
            return None
    return found


def all_refuse(call: Callable[..., Any], asked: list[Any]) -> bool:
    """Whether each of these calls raises ValueError; with `own` a module is made first, of which a method is called."""
    for own, method, args, options in asked:
        try:
            target = call if own is None else call(*own[0], **own[1])
            (getattr(target, method) if method else target)(*args, **options)
        except ValueError:
            continue
        except Exception:
            return False
        return False
    return True


def _copied(value: Any) -> Any:
    """A copy of plain data, of its tensors too; anything else is itself."""
    if type(value) in (torch.Tensor, nn.Parameter):
        return value.detach().clone()
    if type(value) in (list, tuple):
        return [_copied(one) for one in value]
    if type(value) is dict:
        return {name: _copied(one) for name, one in value.items()}
    return value.copy() if isinstance(value, np.ndarray) else value


def _as_before(now: Any, before: Any) -> bool:
    """Whether plain data is equal to its copy; anything else is not looked into."""
    if type(now) in (torch.Tensor, np.ndarray):
        one, other = torch.as_tensor(now), torch.as_tensor(before)
        return torch.equal(one, other) or (one.shape == other.shape and torch.equal(one[one == one], other[one == one]))
    if type(now) in (list, tuple):
        return len(now) == len(before) and all(map(_as_before, now, before))
    if type(now) is dict:
        return [*now] == [*before] and all(map(_as_before, now.values(), before.values()))
    return type(now) is type(before) and (not isinstance(now, (int, float, str)) or now == before or now != now)


def _digest(tensors: list[torch.Tensor]) -> str:
    """A digest of the numbers, types and shapes of tensors."""
    found = hashlib.sha256()
    for one in tensors:
        found.update(f"{one.dtype} {tuple(one.shape)}".encode())
        found.update(one.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()
