"""Small models and helpers of notebook 04's checks, and the shared ones. Checks build them in the student's process."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from utils.grading.toys import *


def filled(module: nn.Module, seed: int) -> nn.Module:
    """`module`, its parameters filled with normal numbers."""
    numbers = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for part in module.parameters():
            part.copy_(torch.randn(part.shape, generator=numbers))
    return module


def linear(inputs: int, outputs: int, seed: int) -> nn.Module:
    """A linear map, filled."""
    return filled(nn.Linear(inputs, outputs), seed)


def twice_total(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """A pool that changes the state of a single token too: twice the sum of the real ones."""
    return 2 * total(states, mask)


class Judge(nn.Module):
    """A classifier with dropout and batch norm: the sum of the real tokens' rows, then a linear map."""

    def __init__(self, vocab: int, classes: int):
        super().__init__()
        self.embedding, self.head = nn.Embedding(vocab, 5), nn.Linear(5, classes)
        self.norm, self.dropout = nn.BatchNorm1d(5), nn.Dropout(0.5)

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """From tokens and a mask, both (B, T), to logits (B, C)."""
        return self.head(self.dropout(self.norm(total(self.embedding(tokens), mask))))


def kept_after(model: nn.Module, *given: Any) -> list[str]:
    """The names of what a call left in the model that holds tensors; its parts and parameters are not among it."""
    before = {name: id(value) for name, value in vars(model).items()}
    model(*given)
    return sorted(
        name
        for name, value in vars(model).items()
        if before.get(name) != id(value) and any(is_tensor(one) for one in leaves([value]))
    )


class Witness(nn.Module):
    """A base that says how it was called: a state holds the mask, whether that is bool, the mode, and the token."""

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """From tokens and a mask, which is needed, both (B, T), to states (B, T, 4)."""
        facts = [mask, torch.full_like(mask, mask.dtype == torch.bool), torch.full_like(mask, self.training), tokens]
        return torch.stack([fact.float() for fact in facts], dim=-1)


class WitnessPool(Witness):
    """A pool that says the same: the mean of the states of a `Witness`. It has a length, which is 0."""

    def forward(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        """From states (B, T, d) and a mask (B, T), which is needed, to (B, 4)."""
        return super().forward(states[..., 3], mask).mean(dim=1)

    def __len__(self) -> int:
        return 0


class Voter(Table):
    """Logits from a table: the sum of the real tokens, modulo its rows, picks the row.

    In training mode they are rolled by one class, where gradients are recorded by two.
    """

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """From token numbers (B, T) and a mask, true at real tokens, to logits (B, C)."""
        logits = self.table[(tokens * mask).sum(dim=1) % len(self.table)]
        return logits.roll(mood(self), dims=-1)


class Climb(nn.Module):
    """A model that counts its epochs, with the accuracies that each epoch will have.

    `counter` is its weight, `seen` a buffer; both are the number of epochs. Every look at the test
    examples after the first makes the test accuracy one larger: who looks often finds what pleases.
    """

    counter: nn.Parameter
    seen: torch.Tensor

    def __init__(self, valid: list[float], test: list[float]):
        super().__init__()
        self.counter = nn.Parameter(torch.zeros(()))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
        self.accuracies, self.looks = {"valid": valid, "test": test}, 0


def climb(model: Climb) -> None:
    """Train `model` for one epoch, in place, as an optimizer does."""
    with torch.no_grad():
        model.counter.add_(1)
        model.seen.add_(1)


def look(model: Climb, split: str) -> float:
    """The accuracy of `model` as its weight and buffer stand; -1 where they disagree.

    A model that was never trained is best on "valid", so that any code that may choose it does, and -1 on "test".
    """
    epoch = int(model.counter)
    if epoch == int(model.seen) == 0 and split == "valid":
        return 1.0
    model.looks += split == "test"
    extra = max(0, model.looks - 1) if split == "test" else 0
    return model.accuracies[split][epoch - 1] + extra if epoch == int(model.seen) and epoch > 0 else -1.0


class Walk:
    """Trains a linear map, by adding the same step to its weight in each epoch, and judges it by examples.

    Unlike `Climb` it can be used with any `nn.Linear`, which knows nothing of accuracies. `looks` counts those at
    the test examples.
    """

    def __init__(self, stride: torch.Tensor, examples: dict[str, list[torch.Tensor]]):
        self.stride, self.examples, self.looks = stride, examples, 0

    def train_epoch(self, model: nn.Linear) -> None:
        """One epoch, in place, as an optimizer does."""
        with torch.no_grad():
            model.weight.add_(self.stride)

    def evaluate(self, model: nn.Linear, split: str) -> float:
        """The share of the examples of "valid" or "test" whose best class is their label."""
        self.looks += split == "test"
        inputs, labels = self.examples[split]
        with torch.no_grad():
            return int((model(inputs).argmax(-1) == labels).sum()) / len(labels)


def reseeds(call: Callable[..., Any], *args: Any) -> bool:
    """Whether `call(*args)` seeds torch's global generator: whatever is drawn after it is then always the same."""
    states = []
    with torch.random.fork_rng():
        for seed in (1, 2):
            torch.manual_seed(seed)
            call(*args)
            states.append(torch.get_rng_state())
    return torch.equal(*states)


def twice(call: Callable[..., Any], first: nn.Module, second: nn.Module, state: dict[str, torch.Tensor]) -> Any:
    """Call `call(module, state)` for two modules with one `state`, then add 1 to all that the first one holds.

    Gives the state dict of the second and what became of `state`: neither has to do with the first any more.
    """
    call(first, state)
    call(second, state)
    with torch.no_grad():
        for value in first.state_dict().values():
            value.add_(1)
    return [dict(second.state_dict()), state]


def types_in(call: Callable[..., Any], *args: Any) -> list[str]:
    """The names of the types of what is in the dict that `call(*args)` gives: tuples arrive as lists."""
    return [type(value).__name__ for value in call(*args).values()]


def probe_gradients(call: Callable[..., Any], head: nn.Module, *given: Any) -> list[torch.Tensor]:
    """The gradients of the parameters of `head` that is to learn from what `call(*given)` gives: states and labels."""
    states, labels = call(*given)
    with torch.enable_grad():
        nn.functional.cross_entropy(head(states), labels).backward()
    return [torch.zeros_like(part) if part.grad is None else part.grad for part in head.parameters()]
