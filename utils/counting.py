"""Models to count: torch's, transformers' and adapters' own parts, built to any size in no time.

Most are built on torch's `meta` device: they have names and shapes and no numbers, so BERT-large costs
milliseconds. `transformers` and `adapters` are imported by the functions that need them, which takes
about three seconds once.
"""

import io
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import pandas as pd
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

LAB: dict[str, Any] = {"V": 50_001, "D": 200, "F": 200, "L": 4}  # the lab's language model
BERT: dict[str, Any] = {"V": 30_522, "D": 768, "F": 3_072, "L": 12}  # bert-base-uncased
PARTS = ("vocabulary", "positions", "attention", "feed-forward", "norms", "head")


def numel(module: nn.Module) -> int:
    """How many numbers the parameters of `module` hold; a parameter used twice counts once."""
    return sum(part.numel() for part in module.parameters())


class LanguageModel(nn.Module):
    """The lab's language model without its mask and positions, which hold no parameters.

    Args:
        V: size of the vocabulary.
        D: width.
        F: width inside the feed-forward part.
        L: layers.
        C: outputs of the head; None: V of them, a language model.
        tied: whether the head's weight is the embedding's.
        H: attention heads.
    """

    def __init__(self, V: int, D: int, F: int, L: int, C: int | None = None, tied: bool = False, H: int = 2):
        super().__init__()
        self.embedding = nn.Embedding(V, D)
        layers = [nn.TransformerEncoderLayer(D, H, F, dropout=0.0, batch_first=True) for _ in range(L)]
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(D, V if C is None else C)
        if tied:
            self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """From token numbers (B, T) to logits, (B, T, V) or (B, T, C)."""
        return self.head(self.layers(self.embedding(tokens)))


class _Undrawn(TorchFunctionMode):
    """Leaves fresh parameters as they are: to draw numbers that are not there takes long too."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.normal_ or getattr(func, "__module__", None) == "torch.nn.init":
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))


@contextmanager
def meta() -> Iterator[None]:
    """Whatever is built inside has names and shapes and no numbers."""
    with torch.device("meta"), _Undrawn():
        yield


def on_meta(build: Callable[..., nn.Module], *args: Any, **kwargs: Any) -> nn.Module:
    """`build(*args, **kwargs)` without numbers: names and shapes only."""
    with meta():
        return build(*args, **kwargs)


def _bert_config(V: int, D: int, F: int, L: int, P: int = 512, S: int = 2, **more: Any) -> Any:
    from transformers import BertConfig

    sizes = {"vocab_size": V, "hidden_size": D, "intermediate_size": F, "num_hidden_layers": L}
    heads = max(D // 64, 1)
    return BertConfig(**sizes, num_attention_heads=heads, max_position_embeddings=P, type_vocab_size=S, **more)


def bert(V: int, D: int, F: int, L: int, P: int = 512, S: int = 2, pooler: bool = True) -> nn.Module:
    """transformers' `BertModel` of these sizes on `meta`: P positions, S segments."""
    from transformers import BertModel

    return on_meta(BertModel, _bert_config(V, D, F, L, P, S), add_pooling_layer=pooler)


def bert_with_linear_head(C: int, **sizes: int) -> nn.Module:
    """transformers' `BertForSequenceClassification` with C classes on `meta`."""
    from transformers import BertForSequenceClassification

    return on_meta(BertForSequenceClassification, _bert_config(**sizes, num_labels=C))


def adapter_model(**sizes: int) -> Any:
    """adapters' `BertAdapterModel` of these sizes on `meta`, without adapter and head."""
    from adapters import BertAdapterModel

    return on_meta(BertAdapterModel, _bert_config(**sizes))


@cache
def adapters_head(D: int, C: int, layers: int = 2) -> int:
    """Parameters of the classification head of `layers` linear layers that adapters puts on a model D wide."""
    model = adapter_model(V=3, D=D, F=1, L=1)
    before = numel(model)
    with meta():
        model.add_classification_head("task", num_labels=C, layers=layers)
    return numel(model) - before


@cache
def adapter_and_fusion(D: int, L: int, n: int = 2, reduction: int = 16, per_layer: int = 1) -> tuple[int, int]:
    """Parameters of one bottleneck adapter and of the fusion of `n` of them, as adapters builds them.

    Args:
        reduction: the width D over that of the bottleneck.
        per_layer: 1 for the configuration `seq_bn`, 2 for `double_seq_bn`.
    """
    from adapters import DoubleSeqBnConfig, SeqBnConfig
    from adapters.composition import Fuse

    model = adapter_model(V=3, D=D, F=1, L=L)
    config = (SeqBnConfig if per_layer == 1 else DoubleSeqBnConfig)(reduction_factor=reduction)
    counts = [numel(model)]
    with meta():
        for number in range(n):
            model.add_adapter(f"task{number}", config=config)
            counts.append(numel(model))
        model.add_adapter_fusion(Fuse(*(f"task{number}" for number in range(n))))
    return counts[1] - counts[0], numel(model) - counts[-1]


def part_of(name: str) -> str:
    """To which of `PARTS` a parameter of that dotted name belongs."""
    rules = {
        "head": ("head.", "pooler."),
        "norms": ("norm", "ln_"),
        "positions": ("position", "token_type", "wpe"),
        "vocabulary": ("embed", "wte"),
        "attention": ("attn", "attention"),
    }
    lowered = name.lower()
    return next((part for part, marks in rules.items() if any(mark in lowered for mark in marks)), "feed-forward")


def table(models: Mapping[str, nn.Module]) -> pd.DataFrame:
    """Where the parameters sit: one row per model, one column per part, and the total."""
    rows = {
        title: {part: sum(p.numel() for name, p in model.named_parameters() if part_of(name) == part) for part in PARTS}
        for title, model in models.items()
    }
    frame = pd.DataFrame.from_dict(rows, orient="index")
    return frame.assign(total=frame.sum(axis=1))


def known_models(large: Mapping[str, int]) -> dict[str, nn.Module]:
    """The course's models and some known ones, from the sizes that transformers has for them, on `meta`.

    Args:
        large: the sizes of BERT-large, with keys D, F and L.
    """
    from transformers import AlbertConfig, AlbertModel, DistilBertConfig, DistilBertModel, GPT2Config, GPT2Model

    albert = AlbertConfig(hidden_size=768, num_attention_heads=12, intermediate_size=3_072)
    return {
        "lab\nLM": on_meta(LanguageModel, **LAB),
        "lab\nclassi-\nfier": on_meta(LanguageModel, **LAB, C=2),
        "lab\nLM,\nV=100": on_meta(LanguageModel, **(LAB | {"V": 100})),
        "BERT\nbase": bert(**BERT),
        "BERT\nlarge": bert(V=BERT["V"], D=large["D"], F=large["F"], L=large["L"]),
        "Distil-\nBERT": on_meta(DistilBertModel, DistilBertConfig()),
        "GPT-2\nsmall": on_meta(GPT2Model, GPT2Config()),
        "ALBERT\nbase": on_meta(AlbertModel, albert),
    }


def flops(call: Callable[[], Any]) -> int:
    """FLOPs of the matrix products in `call()`, two for each multiply-add, as torch counts them."""
    with FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


class _Products(TorchDispatchMode):
    """Notes which tensors enter matrix products."""

    def __init__(self):
        super().__init__()
        self.seen: dict[tuple[int, int, int], torch.Tensor] = {}  # keeps them alive, so that no key comes twice

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.__name__.split(".")[0]
        if name in ("mm", "bmm", "addmm", "baddbmm"):
            for tensor in args[-2:]:
                key = (tensor.untyped_storage()._cdata, tensor.storage_offset(), tensor.numel())
                self.seen[key] = tensor
        return func(*args, **(kwargs or {}))


def product_inputs(model: nn.Module, call: Callable[[], Any]) -> int:
    """How many numbers enter matrix products in `call()`; parameters of `model` aside, each tensor once."""
    own = {part.untyped_storage()._cdata for part in model.parameters()}
    with _Products() as products:
        call()
    return sum(tensor.numel() for key, tensor in products.seen.items() if key[0] not in own)


def saved_bytes(model: nn.Module, call: Callable[[], torch.Tensor]) -> int:
    """Bytes that autograd really keeps for the backward pass of `call()`; parameters aside, each storage once."""
    own = {part.untyped_storage().data_ptr() for part in model.parameters()}
    kept: dict[int, torch.UntypedStorage] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = call()
    total = sum(storage.nbytes() for storage in kept.values())
    del result
    return total


def recomputed(layers: Iterable[nn.Module], x: torch.Tensor) -> torch.Tensor:
    """`layers` one after another on x, which needs a gradient; the backward pass computes each of them once more.

    Each layer keeps its input alone, which hooks on saved tensors see.
    """
    for layer in layers:
        x = checkpoint(layer, x, use_reentrant=True)
    return x


def file_bytes(model: nn.Module) -> int:
    """Size of the file that `torch.save(model.state_dict(), ...)` writes, in bytes."""
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    return file.getbuffer().nbytes


def gradient_bytes(model: nn.Module) -> int:
    """Bytes of all gradients that the parameters of `model` hold now."""
    gradients = (part.grad for part in model.parameters() if part.grad is not None)
    return sum(gradient.numel() * gradient.element_size() for gradient in gradients)


def state_bytes(optimizer: torch.optim.Optimizer) -> int:
    """Bytes of everything that `optimizer` remembers between steps."""
    tensors = (item for state in optimizer.state.values() for item in state.values())
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def seconds(call: Callable[[], Any], device: torch.device, repeats: int) -> float:
    """Seconds of `call()`, the best of `repeats` runs after one to warm up; waits for a GPU to finish.

    The best, since whatever else the machine does can only make a run slower.
    """
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - start)
    return min(times[1:])
