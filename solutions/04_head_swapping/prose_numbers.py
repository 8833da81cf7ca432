"""The numbers that the prose of notebook 04 prints, computed. Its cells print all others."""

from collections.abc import Callable


def smollm_millions() -> str:
    """The parameters of SmolLM2-135M, in millions, from its architecture; the head shares the embedding's weights."""
    import torch
    from transformers import LlamaConfig, LlamaModel

    config = LlamaConfig(vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30)
    config.num_attention_heads, config.num_key_value_heads, config.head_dim = 9, 3, 64
    with torch.device("meta"):
        model = LlamaModel(config)
    return f"{sum(part.numel() for part in model.parameters()) / 1e6:.0f}"


NUMBERS: dict[str, Callable[[], str]] = {"135": smollm_millions}
