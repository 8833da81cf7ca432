"""What every experiment needs around the training loop, which is an exercise and not here."""

import random
from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np
import torch
from torch import nn
from tqdm.auto import tqdm

T = TypeVar("T")


def seed_everything(seed: int) -> None:
    """Seed Python, numpy and torch (CPU and CUDA)."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def precision_of(device: torch.device) -> torch.dtype:
    """bfloat16 where `device` multiplies in it natively (newer GPUs; CPUs with AVX512-BF16 or AMX), else float32."""
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float32
    capabilities = torch.cpu.get_capabilities()
    native = capabilities.get("avx512_bf16") or capabilities.get("amx_bf16")
    return torch.bfloat16 if native else torch.float32


def progress(items: Iterable[T], title: str) -> Iterable[T]:
    """`items` with a progress bar that says `title`."""
    return tqdm(items, desc=title)


def shuffled(items: Sequence[T], seed: int) -> list[T]:
    """A copy of `items` in another order, always the same for the same seed."""
    return random.Random(seed).sample(list(items), len(items))


def by_length(sentences: Sequence[str], size: int) -> list[list[str]]:
    """Cut `sentences` into lists of `size` (the last may be shorter), similar numbers of words together."""
    ordered = sorted(sentences, key=lambda sentence: len(sentence.split()))
    return [ordered[start : start + size] for start in range(0, len(ordered), size)]


@torch.no_grad()
def attention_maps(model: nn.Module, *inputs: torch.Tensor) -> list[torch.Tensor]:
    """The attention weights in every `nn.MultiheadAttention` of `model` as it reads `inputs`.

    Returns:
        one tensor (B, n_heads, T, S) on the CPU per attention module, in the order of `model.modules()`.
    """
    parts = [part for part in model.modules() if isinstance(part, nn.MultiheadAttention)]
    found: dict[nn.Module, torch.Tensor] = {}

    def ask(part, args, kwargs):
        return args, kwargs | {"need_weights": True, "average_attn_weights": False}

    def take(part, args, output):
        found[part] = output[1].cpu()

    hooks = [part.register_forward_pre_hook(ask, with_kwargs=True) for part in parts]
    hooks += [part.register_forward_hook(take) for part in parts]
    was_training = model.training
    try:
        model.eval()(*inputs)
    finally:
        model.train(was_training)
        for hook in hooks:
            hook.remove()
    return [found[part] for part in parts]
