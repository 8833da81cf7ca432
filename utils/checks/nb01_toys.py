"""Small models and helpers of notebook 01's checks, and the shared ones. Checks build them in the student's process."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from utils.grading.toys import *


def mask_rows(causal_mask: Callable[[int], torch.Tensor], T: int, rows: list[int]) -> torch.Tensor:
    """These rows of the mask of T tokens: of a long text the whole of it is too much to send."""
    return causal_mask(T)[rows]


class Bigram(nn.Module):
    """Logits for the next token that depend on the current one alone: `table[token] + bias`.

    In evaluation mode they are doubled, so that training in the wrong mode shows in the weights.
    """

    def __init__(self, table: Any, bias: Any):
        super().__init__()
        self.table = nn.Parameter(torch.as_tensor(table, dtype=torch.float32).clone())
        self.bias = nn.Parameter(torch.as_tensor(bias, dtype=torch.float32).clone())

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """From token numbers (B, T) to logits (B, T, V)."""
        logits = self.table[tokens] + self.bias
        return logits if self.training else 2 * logits


class Constant(Table):
    """The same logits at every place: not copies of its row of numbers, but views."""

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """From token numbers (B, T) to logits (B, T, V)."""
        return self.table.expand(*tokens.shape, -1)


class Letters:
    """A vocabulary like that of 1.5, whose tokens are single letters: "a" is 4, "b" is 5, and so on."""

    words = ("<sos>", "<pad>", "<eos>", "<unk>", *"abcdefghijklmnopqrstuvwxyz")

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, sentence: str) -> list[int]:
        """The numbers of the letters of `sentence`, spaces left out."""
        return [self.words.index(letter) for word in sentence.split() for letter in word]

    def decode(self, numbers: list[int]) -> str:
        """The letters that `numbers` stand for, joined by single spaces."""
        return " ".join(Letters.words[number] for number in numbers)


def descent_in_groups(model: nn.Module, lr: float) -> torch.optim.SGD:
    """Gradient descent for `model`, with a group for each of its parameters."""
    return torch.optim.SGD([{"params": [part]} for part in model.parameters()], lr=lr)


class TimeFirst(nn.Module):
    """`model` read with time first: the same logits (B, T, V), not contiguous."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """From token numbers (B, T) to logits (B, T, V)."""
        return self.model(tokens.mT).transpose(0, 1)


def apart_in_training(train_epoch: Callable[..., Any], batches: Any, clip: float) -> bool:
    """`apart` for an epoch of `Bigram` on `batches` of its tokens 0 to 6."""
    model = Bigram(torch.zeros(7, 7), torch.zeros(7))
    placed = [[Elsewhere.mark(part.clone()) for part in batch] for batch in batches]
    return apart(lambda model: train_epoch(model, placed, torch.optim.SGD(model.parameters(), lr=0.1), clip), model)
