"""A layer that recurs beside a layer that attends, for notebook 02: the time and the memory of one training step.

Both have the same width and nearly as many parameters, and read a text from the left.
"""

import json
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

from utils.experiments import profiles

RECORDED = Path(__file__).resolve().parents[2] / "data" / "results" / "recurrence.json"
LSTM, ATTENDS = "LSTM", "Transformer layer"
KINDS = (LSTM, ATTENDS)
# Table 1 of Vaswani et al. (2017), for texts of n tokens and width d: operations, those that wait for each other, and
# the longest way between two tokens.
TABLE_1 = {
    "self-attention": ("O(n^2 d)", "O(1)", "O(1)"),
    "recurrent": ("O(n d^2)", "O(n)", "O(n)"),
}
WIDTH, HEADS, BATCH = 256, 4, 4
LENGTHS = (64, 128, 256, 512, 1024)


def layer_of(kind: str, width: int = WIDTH) -> nn.Module:
    """A layer of a kind: an LSTM, or attention with a feed-forward part of twice the width."""
    if kind == LSTM:
        return nn.LSTM(width, width, batch_first=True)
    return nn.TransformerEncoderLayer(width, HEADS, 2 * width, dropout=0.0, batch_first=True)


def forward(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """What a layer makes of texts (B, T, width), no token seeing a later one. Attention keeps its weights."""
    if isinstance(layer, nn.LSTM):
        return layer(x)[0]
    mask = nn.Transformer.generate_square_subsequent_mask(x.size(1), device=x.device)
    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
        return layer(x, src_mask=mask)


def kept_bytes(layer: nn.Module, x: torch.Tensor) -> int:
    """How many bytes the forward pass keeps for the backward pass, the layer's own parameters left out."""
    parameters = {part.data_ptr() for part in layer.parameters()}
    kept: dict[int, int] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        outputs = forward(layer, x)
    return sum(kept.values()) if outputs.requires_grad else 0


def measure(kind: str, length: int, batch: int = BATCH, repeats: int = 5, width: int = WIDTH) -> dict[str, Any]:
    """Measure a layer: the median seconds of a step, forward and backward, and the bytes kept in between.

    On a CPU they are seconds of its processors, so that other work on the machine does not count.
    """
    device = profiles.device()
    torch.manual_seed(0)
    layer, x = layer_of(kind, width).to(device), torch.randn(batch, length, width, device=device)
    clock = time.perf_counter if device.type == "cuda" else time.process_time
    times = []
    for _ in range(repeats + 1):  # the first one takes longer
        layer.zero_grad()
        began = clock()
        forward(layer, x).square().mean().backward()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(clock() - began)
    return {
        "kind": kind,
        "length": length,
        "batch": batch,
        "device": profiles.device_name(device),
        "parameters": sum(part.numel() for part in layer.parameters()),
        "seconds": round(sorted(times[1:])[repeats // 2], 6),
        "kept": kept_bytes(layer, x),
    }


def recorded() -> list[dict[str, Any]]:
    """The measurements that come with the course: `measure` of each of KINDS and LENGTHS; see data/README.md."""
    return json.loads(RECORDED.read_text())
