"""The numbers that the prose of notebook 03 prints, each computed from what the libraries really build."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import nn

from utils import counting
from utils.checks.nb03_parameter_counting import LARGE
from utils.counting import numel

LAB, SMALL = counting.LAB, counting.LAB | {"V": 100}


@cache
def config() -> Any:
    """The sizes of BERT-base, as transformers has them."""
    from transformers import BertConfig

    return BertConfig()


def lab(C: int | None = None, V: int = LAB["V"]) -> nn.Module:
    """The lab's language model, or a classifier with C outputs on the same base."""
    return counting.on_meta(counting.LanguageModel, **(LAB | {"V": V}), C=C)


def said(count: int) -> str:
    """A count as the prose prints it."""
    return f"{count:,}"


def tables() -> str:
    """The share of the lab's language model that its two vocabulary tables hold."""
    model: Any = lab()
    return f"{(model.embedding.weight.numel() + model.head.weight.numel()) / numel(model):.0%}"


def layer_vectors() -> str:
    """b in a layer of 6 D^2 + b D parameters, F = D."""
    D = LAB["D"]
    vectors, rest = divmod(numel(counting.on_meta(nn.TransformerEncoderLayer, D, 2, D)) - 6 * D * D, D)
    assert rest == 0
    return str(vectors)


def reduction() -> str:
    """How many times narrower than the model the bottleneck of `seq_bn` is."""
    from adapters import SeqBnConfig

    return str(SeqBnConfig().reduction_factor)


def bert(head_layers: int | None = None) -> str:
    """BERT-base with its pooler, and with the adapters library's head for two classes where asked for."""
    head = counting.adapters_head(counting.BERT["D"], 2, head_layers) if head_layers else 0
    return said(numel(counting.bert(**counting.BERT)) + head)


NUMBERS: dict[str, Callable[[], str]] = {
    # the lab's model, V = 50,001 and V = 100
    "50,001": lambda: said(LAB["V"]),
    "200": lambda: str(LAB["D"]),
    "100": lambda: str(SMALL["V"]),
    "10": layer_vectors,
    "242,000": lambda: said(numel(counting.on_meta(nn.TransformerEncoderLayer, LAB["D"], 2, LAB["F"]))),
    "21,018,401": lambda: said(numel(lab())),
    "95%": tables,
    "1,008,100": lambda: said(numel(lab(V=100))),
    "10,968,602": lambda: said(numel(lab(C=2))),
    "988,402": lambda: said(numel(lab(C=2, V=100))),
    "402": lambda: said(numel(lab(C=2).head)),
    # BERT
    "12": lambda: str(config().num_hidden_layers),
    "64": lambda: str(config().hidden_size // config().num_attention_heads),
    "768": lambda: str(config().hidden_size),
    "24": lambda: str(LARGE["L"]),
    "109,482,240": bert,
    "109,483,778": lambda: said(numel(counting.bert_with_linear_head(2, **counting.BERT))),
    "110,074,370": lambda: bert(head_layers=2),
    "335,141,888": lambda: said(numel(counting.bert(**LARGE))),
    # adapters; BERT-large has as many heads as `seq_bn` reduces the width: 16
    "16": reduction,
    "894,528": lambda: said(counting.adapter_and_fusion(768, 12, n=3)[0]),
    "21,252,096": lambda: said(counting.adapter_and_fusion(768, 12, n=3)[1]),
    # float32
    "32": lambda: str(torch.finfo(torch.float32).bits),
}
