"""Texts as vectors, so that those that say alike things lie close together."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from data import encoders

MAX_TOKENS = 256  # of one text; the encoder's card says that it cuts what is longer
BATCH = 32
WORDS = 3.0  # how much longer the words' part of a vector is than the encoder's: chosen in benchmarks/groups.py


class VectorsOf(Protocol):
    """A way to make vectors of texts."""

    name: str  # for people

    def vectors(self, texts: Sequence[str]) -> np.ndarray:
        """A row for each text (n, width)."""


class TfIdf:
    """Words and pairs of words, weighted by how rare they are (scikit-learn's TF-IDF)."""

    name = "their words (TF-IDF)"

    def vectors(self, texts: Sequence[str]) -> np.ndarray:
        """A row for each text (n, words), without what all have in common, of length 1."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        made = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), stop_words="english", token_pattern=r"\b\w+\b")
        try:
            return centred(made.fit_transform(texts).toarray())
        except ValueError:  # no text has a word
            return np.zeros((len(texts), 1))


class Encoder:
    """The packaged sentence encoder all-MiniLM-L6-v2 for what is meant, beside TF-IDF for the words.

    Its vector of a text is the mean of its last layer over the text's tokens: Reimers and Gurevych 2019,
    "Sentence-BERT". On the CPU, float32: the same texts give the same vectors.

    Raises:
        ImportError: the encoder is not installed; says what to install.
    """

    name = "the sentence encoder all-MiniLM-L6-v2 and their words (TF-IDF)"

    def __init__(self) -> None:
        folder = encoders.folder("minilm")
        from transformers import AutoModel, AutoTokenizer
        from transformers.utils import logging

        logging.disable_progress_bar()
        self._tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self._model: Any = AutoModel.from_pretrained(folder).eval()

    def vectors(self, texts: Sequence[str]) -> np.ndarray:
        """A row for each text (n, 384 + words): what is meant, of length 1, and the words, of length WORDS."""
        return np.hstack([self.meanings(texts), WORDS * TfIdf().vectors(texts)])

    def meanings(self, texts: Sequence[str]) -> np.ndarray:
        """The encoder's part alone (n, 384), without what all have in common, of length 1."""
        import torch

        rows = []
        with torch.inference_mode():
            for start in range(0, len(texts), BATCH):
                batch = list(texts[start : start + BATCH])
                asked = {"padding": True, "truncation": True, "max_length": MAX_TOKENS}
                tokens = self._tokenizer(batch, return_tensors="pt", **asked)
                hidden = self._model(**tokens).last_hidden_state  # (B, T, 384)
                real = tokens["attention_mask"][..., None]
                rows.append(((hidden * real).sum(1) / real.sum(1)).numpy())
        return centred(np.concatenate(rows))


def centred(rows: np.ndarray) -> np.ndarray:
    """The rows without the mean of all, at length 1: what all answers have in common tells none from another."""
    rest = rows - rows.mean(0)
    return rest / np.maximum(np.linalg.norm(rest, axis=1, keepdims=True), 1e-12)


def vectors_of() -> tuple[VectorsOf, str]:
    """The encoder; or TF-IDF alone, and what to do about it, where the encoder is not installed."""
    try:
        return Encoder(), ""
    except ImportError as missing:
        return TfIdf(), f"{missing}. Until then answers are compared by their words alone"
