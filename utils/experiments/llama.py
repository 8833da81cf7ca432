"""Models of the Llama family for notebook 14: a tiny one with random weights, and SmolLM2-135M where it is installed.

`transformers` is imported by the functions that need it, which takes seconds once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from utils.experiments import profiles
from utils.subwords import ByteLevel


@dataclass(frozen=True)
class Sizes:
    """What decides the shape of a model, and the two numbers that no shape shows: theta and eps."""

    vocab_size: int
    d_model: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    d_ff: int
    theta: float = 10_000.0
    eps: float = 1e-5
    tied: bool = True


SMOLLM = Sizes(49_152, 576, 30, 9, 3, 1536, theta=100_000.0)  # as its file says


@dataclass(frozen=True)
class Source:
    """A model of transformers in evaluation mode, its way from text to token numbers and back, and how much to write.

    `length` is for texts, `lengths` for measuring. `byte_level` is a tokenizer in the numbers of exercise 14.8: the
    model's own or, where the model has none, one that is learned from documentation.
    """

    name: str
    library: Any
    encode: Callable[[str], list[int]]
    decode: Callable[[Sequence[int]], str]
    length: int
    lengths: tuple[int, ...]
    byte_level: ByteLevel


def tiny(seed: int = 0, tied: bool = False) -> Any:
    """transformers' `LlamaForCausalLM` with random weights, in evaluation mode. All its sizes differ."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=211,
        hidden_size=48,
        intermediate_size=68,
        num_hidden_layers=3,
        num_attention_heads=6,
        num_key_value_heads=2,
        max_position_embeddings=256,
        rope_theta=500.0,
        rms_norm_eps=1e-3,
        tie_word_embeddings=tied,
        initializer_range=0.2,  # with the usual tenth of it every model says much the same
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return LlamaForCausalLM(config).eval()


def sizes(model: Any) -> Sizes:
    """The sizes of a `LlamaForCausalLM` of transformers, from its configuration."""
    c = model.config
    theta = getattr(c, "rope_theta", None) or c.rope_parameters["rope_theta"]  # the newer name came with version 5
    return Sizes(
        c.vocab_size,
        c.hidden_size,
        c.num_hidden_layers,
        c.num_attention_heads,
        c.num_key_value_heads,
        c.intermediate_size,
        float(theta),
        c.rms_norm_eps,
        c.tie_word_embeddings,
    )


def has_smollm() -> bool:
    """Whether SmolLM2 is installed; a line says what to install if not."""
    from data import smollm

    try:
        smollm.file()
    except ImportError as missing:
        print(f"The weights are not on this machine, so a tiny random model stands for them. {missing}")
        return False
    return True


def source() -> Source:
    """SmolLM2-135M; a tiny random model in the profile `smoke`, and where SmolLM2 is not installed, which is said."""
    from data import documentation, smollm

    if profiles.name() != "smoke" and has_smollm():
        model, words = smollm.causal_model(), smollm.tokenizer()
        own = ByteLevel(words.backend_tokenizer)
        return Source("SmolLM2-135M", model, lambda text: words(text).input_ids, words.decode, 60, (16, 48, 96), own)

    def encode(text: str) -> list[int]:
        return [ord(letter) % 211 for letter in text][:12]

    def decode(numbers: Sequence[int]) -> str:
        return " ".join(map(str, numbers))

    learned = ByteLevel.learned(documentation.train_and_validation(300, ["python"])[0], 300)
    return Source("a tiny random model, whose text is token numbers", tiny(), encode, decode, 12, (4, 8, 16), learned)
