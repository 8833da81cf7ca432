"""The numbers that the prose of notebook 14 prints, computed. Its cells print all others."""

from collections.abc import Callable
from pathlib import Path

from utils.experiments import llama
from utils.subwords import LETTERS

NUMBERS: dict[str, Callable[[], str]] = {
    "14": lambda: Path(__file__).parent.name[:2],  # in the title
    "255": lambda: str(max(LETTERS)),  # bytes are tokens
    "256": lambda: str(len(LETTERS)),
    "257": lambda: str(len(LETTERS) + 1),
    "30": lambda: str(llama.SMOLLM.n_layers),
    "64": lambda: str(llama.SMOLLM.d_model // llama.SMOLLM.n_heads),
}
