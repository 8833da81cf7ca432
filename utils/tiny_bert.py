"""A BERT of two layers whose every weight is known, with adapters for notebooks 06 and 09, without for 07 and 08.

Weights are numbers that follow from their name and a seed, so that a check knows them without asking.
`adapters` and `transformers` are imported by the functions that need them, which takes seconds once.
"""

import atexit
import copy
import hashlib
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

Batch = Mapping[str, torch.Tensor]  # input_ids, token_type_ids, attention_mask (B, T) and labels (B)


@dataclass(frozen=True)
class Sizes:
    """The sizes of a tiny BERT; all differ, so that a swapped axis shows."""

    vocab: int = 29
    d_model: int = 12
    n_layers: int = 2
    n_heads: int = 3
    d_ff: int = 20
    places: int = 16  # longest input
    reduction: int = 4  # of its adapters
    dropout: float = 0.0

    @property
    def bottleneck(self) -> int:
        """The width inside an adapter."""
        return self.d_model // self.reduction


def weight(name: str, shape: Sequence[int], seed: int) -> torch.Tensor:
    """The weight of that name: small normal numbers, around 1 for the weight of a LayerNorm."""
    # Torch's generator on the CPU looks at 32 bits of its seed: both must be in them.
    mixed = hashlib.sha256(f"{seed} {name}".encode()).digest()[:4]
    generator = torch.Generator().manual_seed(int.from_bytes(mixed))
    noise = torch.randn(*shape, generator=generator, device="cpu")
    return 1 + 0.2 * noise if name.endswith("LayerNorm.weight") else 0.3 * noise


def fill(module: nn.Module, seed: int) -> None:
    """Give every parameter of `module` the numbers that `weight` knows for its name."""
    with torch.no_grad():
        for name, part in module.named_parameters():
            part.copy_(weight(name, part.shape, seed).to(part))


def config(sizes: Sizes, **more: Any) -> Any:
    """transformers' `BertConfig` of these sizes."""
    from transformers import BertConfig

    return BertConfig(
        vocab_size=sizes.vocab,
        hidden_size=sizes.d_model,
        num_hidden_layers=sizes.n_layers,
        num_attention_heads=sizes.n_heads,
        intermediate_size=sizes.d_ff,
        max_position_embeddings=sizes.places,
        hidden_dropout_prob=sizes.dropout,
        attention_probs_dropout_prob=sizes.dropout,
        **more,
    )


def bert(sizes: Mapping[str, Any] | None = None, seed: int = 0, **more: Any) -> Any:
    """The adapters library's `BertAdapterModel` with known weights, without adapters and heads.

    `sizes` are those of `Sizes` that are not its defaults.
    """
    from adapters import BertAdapterModel

    model = BertAdapterModel(config(Sizes(**(sizes or {})), **more))
    fill(model, seed)
    return model


def masked(words: Sequence[str], sizes: Mapping[str, Any] | None = None, seed: int = 0) -> Any:
    """transformers' `BertForMaskedLM` with known weights, for the pieces `words`; it is in training mode."""
    from transformers import BertForMaskedLM

    model = BertForMaskedLM(config(Sizes(**{**(sizes or {}), "vocab": len(words)})))
    fill(model, seed)
    return model.train()


def encoder(sizes: Mapping[str, Any] | None = None, seed: int = 0) -> Any:
    """transformers' `BertModel` without a pooler, with known weights; it is in training mode."""
    from transformers import BertModel

    model = BertModel(config(Sizes(**(sizes or {}))), add_pooling_layer=False)
    fill(model, seed)
    return model.train()


def tokenizer(words: Sequence[str]) -> Any:
    """transformers' `BertTokenizerFast` for these pieces, [PAD], [UNK], [CLS], [SEP] and [MASK] among them."""
    from transformers import BertTokenizerFast

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vocab.txt"
        path.write_text("\n".join(words))
        return BertTokenizerFast(str(path))


def publish(names: Sequence[str], sizes: Mapping[str, Any] | None = None, seed: int = 0) -> dict[str, str]:
    """Folders with one `seq_bn` adapter each, by name, as people publish them: with the head of their own task.

    The heads have three classes. The folders lie in a temporary one, which is removed when the process ends.
    """
    known = Sizes(**(sizes or {}))
    model, root = bert(sizes, seed), Path(tempfile.mkdtemp(prefix="adapters-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    folders = {}
    for name in names:
        model.add_adapter(name, config=f"seq_bn[reduction_factor={known.reduction}]")
        model.add_classification_head(name, num_labels=3)
        fill(model, seed)
        model.save_adapter(str(root / name), name)
        folders[name] = str(root / name)
    return folders


def fused(names: Sequence[str], sizes: Mapping[str, Any] | None = None, seed: int = 0, classes: int = 2) -> Any:
    """A `BertAdapterModel` as from a checkpoint, its adapters fused and active, with a head `rte`; all of it learns."""
    from adapters import AdapterConfig
    from adapters.composition import Fuse

    known, fusion = Sizes(**(sizes or {})), ",".join(names)
    found = {
        "adapters": dict.fromkeys(names, "a"),
        "config_map": {"a": AdapterConfig.load("seq_bn", reduction_factor=known.reduction)},
        "fusions": {fusion: "dynamic"},
        "fusion_name_map": {fusion: list(names)},
    }
    model = bert(sizes, seed, adapters=found)
    model.add_classification_head("rte", num_labels=classes)
    model.adapters_config.active_setup = Fuse(*names)  # as loading does: no warning that nothing was active before
    fill(model, seed)
    model.train()
    return model


def gradient_step(model: nn.Module, batch: Batch, lr: float) -> None:
    """One step of SGD, with weight decay, on all weights of `model` that get a gradient of the cross-entropy."""
    inputs = {name: value for name, value in batch.items() if name != "labels"}
    rule = torch.optim.SGD(model.parameters(), lr=lr, weight_decay=0.1)
    model.zero_grad(set_to_none=True)
    nn.functional.cross_entropy(model(**inputs).logits, batch["labels"]).backward()
    rule.step()


def pairs(count: int, lengths: Iterable[tuple[int, int]], vocab: int, seed: int = 0) -> list[dict[str, torch.Tensor]]:
    """Batches of sentence pairs of random words, one batch per (longest, shortest) of `lengths`, padded with 0.

    Token 1 opens a pair and token 2 closes each of its sentences, of one word or more, so that a pair has
    5 tokens at least; the labels are random, 0 or 1. All lie on the default device.
    """
    generator, device = torch.Generator().manual_seed(seed), torch.get_default_device()
    found = []
    with torch.device("cpu"):
        for longest, shortest in lengths:
            T = torch.randint(shortest, longest + 1, (count,), generator=generator)
            T[0] = longest
            cut = 2 + (torch.rand(count, generator=generator) * (T - 4)).long()  # the first [SEP]
            place = torch.arange(longest)
            tokens = torch.randint(3, vocab, (count, longest), generator=generator)
            tokens[:, 0] = 1
            tokens[torch.arange(count), cut] = 2
            tokens[torch.arange(count), T - 1] = 2
            mask = (place < T[:, None]).long()
            types = ((place > cut[:, None]) & (place < T[:, None])).long()
            labels = torch.randint(0, 2, (count,), generator=generator)
            batch = {"input_ids": tokens * mask, "token_type_ids": types, "attention_mask": mask, "labels": labels}
            found.append({name: value.to(device) for name, value in batch.items()})
    return found


def trained(
    train_only: Any,
    model: nn.Module,
    parts: list[nn.Module],
    x: torch.Tensor,
    labels: torch.Tensor,
    lr: float,
    given_to_rule: str = "all",
) -> list[int] | list[str]:
    """Choose what learns, then make one step of SGD with weight decay; the sizes of what `train_only` returned.

    In place of the sizes the types of what is not a tensor, or of a result that is not a collection. The optimizer is
    given all weights of `model`, or with `given_to_rule="chosen"` those that were returned. Earlier gradients are
    zeroed, not removed, as an optimizer with a history would leave them.
    """
    found = train_only(model, parts)
    chosen = list(found) if isinstance(found, Iterable) else [found]
    types = [type(one).__name__ for one in chosen if not isinstance(one, torch.Tensor)]
    if types:
        return types
    weights = list(model.parameters()) if given_to_rule == "all" else chosen
    rule = torch.optim.SGD(weights, lr=lr, weight_decay=0.5)
    rule.zero_grad(set_to_none=False)
    loss = nn.functional.cross_entropy(model(x), labels)
    if loss.requires_grad:
        loss.backward()
    rule.step()
    return [part.numel() for part in chosen]


def tied(width: int, classes: int) -> nn.Module:
    """Two linear maps that share their weight, then a head."""
    first, second = nn.Linear(width, width), nn.Linear(width, width)
    second.weight = first.weight
    return nn.Sequential(first, nn.Tanh(), second, nn.Linear(width, classes))


def penalty_gradient(fusion: Any) -> torch.Tensor:
    """The gradient of `fusion.penalty()` for its value matrix; zeros where none arrives."""
    fusion.zero_grad()
    with torch.enable_grad():
        penalty = fusion.penalty()
        if penalty.requires_grad:
            penalty.backward()
    slope = fusion.value.weight.grad
    return torch.zeros_like(fusion.value.weight) if slope is None else slope


def elsewhere(module: nn.Module, tensors: Sequence[torch.Tensor], method: str = "forward") -> str:
    """Where the result of `method` lies, of a copy of `module` and with `tensors` that lie on torch's meta device.

    "" if tensors of another device are mixed in. The meta device computes shapes alone, so that no GPU is needed.
    """
    try:
        result = getattr(copy.deepcopy(module).to("meta"), method)(*(tensor.to("meta") for tensor in tensors))
        return str((result[0] if isinstance(result, (tuple, list)) else result).device.type)
    except (RuntimeError, NotImplementedError):
        return ""
