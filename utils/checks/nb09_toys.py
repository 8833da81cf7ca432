"""Small models and helpers of notebook 09's checks, and the shared ones. Checks build them in the student's process."""

import copy
import random
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from utils.grading.toys import *


def stays(call: Callable[..., dict[str, Any]], *given: Any) -> bool:
    """Whether the tensors in the dict that `call(*given)` gives stay as they are when all that are given move."""
    found = call(*given)
    were = {name: part.clone() for name, part in found.items()}
    with torch.no_grad():
        for part in leaves(list(given)):
            if is_tensor(part):
                part.add_(1)
    return all(torch.equal(found[name], part) for name, part in were.items())


def leaves_gradients(call: Callable[..., Any], part: nn.Module, *rest: Any) -> bool:
    """Whether `call(part, *rest)` leaves a gradient at parameters of `part`, which have none before."""
    part.zero_grad()  # to None
    call(part, *rest)
    return any(one.grad is not None for one in part.parameters())


def step_on_task(model: nn.Module, tokens: torch.Tensor, task: str, labels: torch.Tensor, lr: float) -> None:
    """One step of gradient descent on the cross-entropy of `model(tokens, task)`, for all parameters of `model`."""
    rule = torch.optim.SGD(model.parameters(), lr=lr)
    with torch.enable_grad():
        nn.functional.cross_entropy(model(tokens, task), labels).backward()
    rule.step()
    rule.zero_grad()


class DataElsewhere(TorchFunctionMode):
    """Allows `weight.data = numbers` where the numbers are on the device meta, as it is allowed for those on a GPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Do as always, unless data of a parameter is set that is on meta."""
        if func == torch.Tensor.data.__set__ and args[1].is_meta and isinstance(args[0], nn.Parameter):  # type: ignore[attr-defined]
            return torch.utils.swap_tensors(args[0], nn.Parameter(args[1], args[0].requires_grad))
        return func(*args, **(kwargs or {}))


def head_beside(make: Callable[..., Any], encoder: nn.Module, d: int, device: str, dtype: str, late: bool) -> list[str]:
    """Device and dtype of the head that `make(encoder, d)` makes for a new task when the encoder has these.

    If `late`, it gets them only after the model was made.
    """
    there = device, getattr(torch, dtype)
    encoder = copy.deepcopy(encoder)
    model = make(encoder, d).to(*there) if late else make(encoder.to(*there), d)
    with DataElsewhere():
        model.add_task("new", 3)
    weight = model.heads["new"].weight
    return [weight.device.type, str(weight.dtype)[6:]]


def dtypes_around_a_task(make: Callable[..., Any], encoder: nn.Sequential, d: int) -> list[dict[str, str]]:
    """The dtypes of all weights of a model by name, which are several, before and after a second task is added."""
    encoder = copy.deepcopy(encoder)
    encoder[1].double()
    model = make(encoder, d)
    model.add_task("one", 3)
    model.heads["one"].half()
    found = []
    for _ in range(2):
        found.append({name: str(value.dtype) for name, value in model.state_dict().items()})
        if len(found) == 1:
            model.add_task("two", 2)
    return found


class Mixes(nn.Module):
    """States (B, T, d), each plus the mean over its text: the first one depends on all tokens, as in an encoder."""

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """From states to such states."""
        return states + states.mean(1, keepdim=True)


class Learner(nn.Module):
    """Is taught tasks by name. How well it knows one depends on all lessons so far and on their order.

    What it knows is a weight, `known`; `lessons` says what it was taught. It must be taught in training mode, with all
    its parts, and with gradients: a lesson otherwise goes by another name. Asked in training mode it is taught once
    more. A lesson leaves a gradient; `bare` counts those that did not find the one that the last lesson left.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lessons: list[str] = []
        self.known = nn.Parameter(torch.zeros((), dtype=torch.float64))
        self.fixed = nn.Parameter(torch.zeros(()), requires_grad=False)
        self.part = nn.Identity()
        self.bare = 0


def lesson_after(number: int, lesson: str) -> int:
    """What a learner that knew `number` knows after one more lesson."""
    return (31 * number + sum(place * ord(letter) for place, letter in enumerate(lesson, 3)) + 7) % 9973


def take_lesson(model: Learner, lesson: str) -> None:
    """Add a lesson to what the model knows."""
    model.lessons.append(lesson)
    with torch.no_grad():
        model.known.fill_(lesson_after(int(model.known), lesson))


def teach(model: Learner, task: str) -> None:
    """Teach `task` to the model, in place."""
    model.bare += bool(model.lessons) and bare_now(model)
    mode = "" if all(part.training for part in model.modules()) else ", in evaluation mode"
    take_lesson(model, f"{task}{mode}{'' if torch.is_grad_enabled() else ', without gradients'}")
    model.known.grad = torch.ones_like(model.known)


def bare_now(model: Learner) -> bool:
    """Whether the gradient that the last lesson left is gone, or another one."""
    return model.known.grad is None or float(model.known.grad) != 1


def examine(model: Learner, task: str) -> float:
    """The accuracy at `task`, from 0 to 1; 1 more in training mode, 2 more where gradients are recorded."""
    number = lesson_after(lesson_after(int(model.known), ""), task)
    if any(part.training for part in model.modules()):
        take_lesson(model, f"{task}, while it was examined")
    return number / 9973 + mood(model)


def kept_counts(Replay: Callable[..., Any], capacity: int, count: int, repeats: int, seed: int) -> list[int]:
    """How many of `repeats` memories of `capacity` hold each of the examples 0 to `count` - 1 after all were added.

    The last number is how many kept another number of examples than they should.
    """
    rng, tally = random.Random(seed), [0] * (count + 1)
    for _ in range(repeats):
        memory = Replay(capacity, rng)
        for number in range(count):
            memory.add(number)
            if number == capacity:  # what is drawn in between changes no chance
                memory.sample(1)
        for number in memory.examples:
            tally[number] += 1
        tally[count] += len(memory.examples) != min(capacity, count)
    return tally


def kept_of_first_half(Replay: Callable[..., Any], capacity: int, count: int, seed: int) -> int:
    """How many of the first half of the examples 0 to `count` - 1 a memory holds after all were added."""
    memory = Replay(capacity, random.Random(seed))
    for number in range(count):
        memory.add(number)
    return sum(number < count // 2 for number in memory.examples)


def drawn_counts(Replay: Callable[..., Any], count: int, n: int, repeats: int, seed: int) -> list[int]:
    """In how many of `repeats` samples of `n` each of `count` examples is, that all have their place in the memory."""
    memory, tally = Replay(count, random.Random(seed)), [0] * count
    for number in range(count):
        memory.add(number)
    for _ in range(repeats):
        for number in memory.sample(n):
            tally[number] += 1
    return tally


def drawn_with_first(Replay: Callable[..., Any], count: int, repeats: int, seed: int) -> list[int]:
    """In how many of `repeats` samples of two the first of `count` examples is, together with each of the others."""
    memory, tally = Replay(count, random.Random(seed)), [0] * count
    for number in range(count):
        memory.add(number)
    for _ in range(repeats):
        pair = memory.sample(2)
        for number in pair:
            tally[number] += 0 in pair
    return tally[1:]


def outcomes(Replay: Callable[..., Any], capacity: int, count: int, n: int, seeds: list[int]) -> list[Any]:
    """What a memory keeps and draws, for each of `seeds` of its generator, and for the first once more.

    The generators of the session are seeded in another way each time, and are afterwards as they were.
    """
    found, state = [], random.getstate()
    with torch.random.fork_rng():
        for place, seed in enumerate([*seeds, seeds[0]]):
            random.seed(place)
            torch.manual_seed(place)
            memory = Replay(capacity, random.Random(seed))
            for number in range(count):
                memory.add(number)
            found.append([list(memory.examples), list(memory.sample(n)), list(memory.sample(n))])
    random.setstate(state)
    return found


def kept_and_drawn(Replay: Callable[..., Any], capacity: int, stream: list[Any], n: int, seed: int) -> list[Any]:
    """What a memory keeps of `stream`, a sample of n, what it keeps after that, and after the sample was emptied.

    Then the types of the sample and of what holds the examples, and whether they are the very ones that were added.
    """
    memory = Replay(capacity, random.Random(seed))
    for one in stream:
        memory.add(one)
    holder, kept, drawn = type(memory.examples).__name__, list(memory.examples), memory.sample(n)
    told, left = list(drawn), list(memory.examples)
    if isinstance(drawn, list):
        drawn.clear()
    themselves = all(any(one is other for other in stream) for one in kept)
    return [kept, told, left, list(memory.examples), type(drawn).__name__, holder, themselves]


def modes_in_head(learn: Callable[..., Any], model: Any, task: str, *rest: Any) -> list[bool]:
    """Whether each dropout in the head of a task was in training mode, each time that `learn` had it act."""
    seen: list[bool] = []
    parts = [part for part in model.heads[task].modules() if isinstance(part, nn.Dropout)]
    hooks = [part.register_forward_pre_hook(lambda module, given: seen.append(module.training)) for part in parts]
    learn(model, task, *rest)
    for hook in hooks:
        hook.remove()
    return seen


def keeps_tensors(Replay: Callable[..., Any], capacity: int, count: int, seed: int) -> int:
    """How many examples are drawn of a memory of batches of tensors, which no `==` tells apart."""
    memory = Replay(capacity, random.Random(seed))
    for number in range(count):
        memory.add({"ids": torch.tensor([number, number + 1])})
        memory.sample(2)
    return len(memory.sample(count))


def anchor_after_moves(remember: Callable[..., Any], model: nn.Module) -> list[Any]:
    """What `remember(model)` gave, looked at after all parameters grew by 1; and whether any of it needs a gradient."""
    anchor = remember(model)
    flowing = any(value.requires_grad for value in anchor.values())
    with torch.no_grad():
        for one in model.parameters():
            one.add_(1)
    return [{name: value.detach() for name, value in anchor.items()}, flowing]


def slopes_by_name(call: Callable[..., Any], model: nn.Module, *rest: Any) -> dict[str, torch.Tensor]:
    """The gradient of `call(model, *rest)`, one number, for each parameter by name, zeros where none arrives."""
    with torch.enable_grad():
        value = call(model, *rest)
        named = dict(model.named_parameters())
        learning = {name: part for name, part in named.items() if part.requires_grad}
        slopes: Any = [None] * len(learning)
        if isinstance(value, torch.Tensor) and value.requires_grad:
            slopes = torch.autograd.grad(value, [*learning.values()], allow_unused=True)
    pairs = zip(learning.items(), slopes, strict=True)
    return {name: torch.zeros_like(part) if slope is None else slope for (name, part), slope in pairs}


def net(d: int, width: int, classes: int, seed: int) -> nn.Module:
    """Linear, tanh, dropout, linear, with normal weights."""
    generator = torch.Generator().manual_seed(seed)
    module = nn.Sequential(nn.Linear(d, width), nn.Tanh(), nn.Dropout(0.5), nn.Linear(width, classes))
    with torch.no_grad():
        for part in module.parameters():
            part.copy_(torch.randn(part.shape, generator=generator))
    return module


class TwoHeads(nn.Module):
    """A layer that two tasks share, and a linear map for each: (N, d) -> the losses of both."""

    def __init__(self, d: int, width: int, classes: list[int]):
        super().__init__()
        self.shared = nn.Linear(d, width)
        self.heads = nn.ModuleList(nn.Linear(width, count) for count in classes)

    def forward(self, x: torch.Tensor, labels: list[torch.Tensor], factor: float) -> list[torch.Tensor]:
        """Both mean cross-entropies, the second one times `factor`."""
        states = self.shared(x).tanh()
        losses = [nn.functional.cross_entropy(head(states), one) for head, one in zip(self.heads, labels, strict=True)]
        return [losses[0], factor * losses[1]]


def cosine_of(
    call: Callable[..., Any], model: TwoHeads, x: torch.Tensor, labels: list[torch.Tensor], factor: float, part: str
) -> list[Any]:
    """What `call(loss, loss, parameters)` gives, whether it left every `.grad` alone, and the losses alive.

    `part` is "" for all parameters, as the generator that a module gives, or the name of a part.
    """
    with torch.enable_grad():
        losses = model(x, labels, factor)
        for one in model.parameters():
            one.grad = torch.full_like(one, 3.0)
        found = call(*losses, (getattr(model, part) if part else model).parameters())
        alone = all(one.grad is not None and bool((one.grad == 3).all()) for one in model.parameters())
        try:
            sum(losses).backward()  # type: ignore[union-attr]
        except RuntimeError:
            return [found, alone, False]
    return [found, alone, True]


def meets_other_devices(call: Callable[..., Any], model: nn.Module, x: torch.Tensor) -> bool:
    """Whether `call(model, x)`, with all of it on torch's meta device, makes tensors that do not follow it there.

    What else cannot go on without numbers says nothing.
    """
    there = twin(model).to("meta")
    try:
        with OneDevice():
            found = call(there, x.to("meta"))
    except (RuntimeError, NotImplementedError) as error:
        return "two devices" in str(error) or "same device" in str(error)
    return any(is_tensor(one) and one.device.type != "meta" for one in leaves(found))


class Idle(nn.Module):
    """A linear map (N, d) -> (N, classes), and parameters that no answer depends on."""

    def __init__(self, d: int, classes: int):
        super().__init__()
        self.idle, self.map = nn.Linear(2, d), nn.Linear(d, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The map alone."""
        return self.map(x)


def ones_as_gradients(model: nn.Module, names: list[str]) -> None:
    """Give the parameters of these names a gradient of ones, whether they learn or not."""
    for name, weights in model.named_parameters():
        weights.grad = torch.ones_like(weights) if name in names else None


def learns_twice(
    learn: Callable[..., Any], model: nn.Module, task: str, count: int, first: list[Any], second: list[Any], lr: float
) -> None:
    """Have a task learned from some batches, then from others that are in the same list."""
    batches = [*first]
    learn(model, task, count, batches, lr)
    batches[:] = second
    learn(model, task, count, batches, lr)
