"""The numbers that the prose of notebook 04 prints, computed. Its cells print all others."""

from collections.abc import Callable
from functools import cache

from utils.experiments import lab, transfer
from utils.experiments.seed_table import SeedTable


def smollm_millions() -> str:
    """The parameters of SmolLM2-135M, in millions, from its architecture; the head shares the embedding's weights."""
    import torch
    from transformers import LlamaConfig, LlamaModel

    config = LlamaConfig(vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30)
    config.num_attention_heads, config.num_key_value_heads, config.head_dim = 9, 3, 64
    with torch.device("meta"):
        model = LlamaModel(config)
    return f"{sum(part.numel() for part in model.parameters()) / 1e6:.0f}"


@cache
def table(task: str) -> SeedTable:
    """The recorded runs of a task."""
    return SeedTable(transfer.recorded(task))


def no_difference_in_french() -> bool:
    """Whether no difference is shown on the French reviews."""
    return not any(one.shown for one in table("french_books").compared(transfer.pairs(table("french_books").runs)))


def none_beats_the_majority_in_french() -> bool:
    """Whether every arm of the French reviews is said to be not shown to be better than the majority class."""
    said = table("french_books").remarks()
    return len(said) == len(table("french_books").runs) and all("not shown to be better than" in one for one in said)


def films_were_still_rising() -> bool:
    """Whether the pretrained arm with a hundred film reviews was best in the last epoch."""
    line = transfer.curves(table("polarity").runs, 100)[0]["pretrained"]
    return bool(line[-1] == max(line))


LAB = next(iter(lab.experiments().values()))
NUMBERS: dict[str, Callable[[], str]] = {
    "135": smollm_millions,
    "15": lambda: str(LAB.epochs),
    "200": lambda: str(LAB.width),
}

CLAIMS: dict[str, Callable[[], bool]] = {
    "In the recorded French reviews no difference is shown": no_difference_in_french,
    "neither arm is clearly better than naming the most frequent class": none_beats_the_majority_in_french,
    "in the recorded film reviews, with a hundred examples, the pretrained arm was still rising in the last epoch": (
        films_were_still_rising
    ),
}
# Sentences beside these that say nothing of what runs showed.
EXPLAINS = (
    "That is a result, not a failure.",
    "This base read mostly English",
    "Three cautions.",
    "This base was tuned to follow instructions",
    "A probe measures only what a linear map can read from the states",
    "Reading pays only when there was enough of it.",
    "How much is enough, these runs do not say.",
)
