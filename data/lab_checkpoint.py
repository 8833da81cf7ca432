"""The files of the original transfer-learning lab: its pretrained model, dictionary and French reviews.

Source: github.com/moussaKam/transfer_learning_transformers (no licence is stated; the reviews are from
Webis-CLS-10). Nothing of it is in this repository. A file is taken from a local folder or downloaded,
and used only if its git blob id is the one that is written here.
"""

import hashlib
import os
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import nn

URL = "https://raw.githubusercontent.com/moussaKam/transfer_learning_transformers/main/"
FILES = {  # path in the lab's repository -> git blob id
    "pretrained_model_4layers.pt": "fa007e8b7f0b939113a7e05b432e7bc68111da4b",
    "pretrained_model_4layers_no_class_head.pt": "faf6fd3902a9b043df6f80fc2017a3a966b31787",
    "dict.txt": "522da0a550ee9d5008c21b68f77154e096c2bb4d",
    "sentencepiece.french.model": "fd27683e4285a3c7eeb91c2bd627ef39ae5c8201",
    "cls-books/train.review.spm": "933ca8a472c8bf9b5f49bd1b07304a2913af106a",
    "cls-books/train.label": "d30d763e0ee510a71ef677fcf130eee2de738400",
    "cls-books/valid.review.spm": "e917bcd63b497f10d0552168ef5222f46da26b0e",
    "cls-books/valid.label": "2b0d5bbc5ed15473356538fcebbf78b4fc0deac5",
    "cls-books/test.review.spm": "4ca624ebeb7a311a7a8a6de4747648a83cc6e352",
    "cls-books/test.label": "7860b56cf6abf2ed94089d7d7905c28f1de3a2d2",
}
SPECIAL = ("<sos>", "<pad>", "<eos>", "<oov>")  # the lab's order, before the words of dict.txt
SOS, PAD, EOS, UNK = range(4)


class WrongFile(ValueError):
    """A file is there, but it is not the lab's."""


def blob_id(content: bytes) -> str:
    """The id that git gives a file: the SHA-1 of `blob SIZE`, a zero byte, and the content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def fetch(name: str, folder: Path | str | None = None, files: Mapping[str, str] = FILES, url: str = URL) -> bytes:
    """The content of one of the lab's files, verified.

    It is looked for, by the last part of `name`, in `folder`, in the folders `lab` and `cls_fr_books` of
    $COURSE_DATA, and in the cache folder; if it is nowhere, it is downloaded into the cache folder.

    Args:
        name: its path in the lab's repository, one of `files`.
        files: name -> git blob id.

    Raises:
        KeyError: `files` has no such name.
        WrongFile: what was found or downloaded has another blob id.
        FileNotFoundError: it is in no folder and cannot be downloaded; the message says where to put it.
    """
    wanted = files[name]
    for place in searched_places(folder):
        path = place / Path(name).name
        if path.is_file():
            return _verified(path.read_bytes(), wanted, str(path))
    try:
        with urllib.request.urlopen(url + name, timeout=60) as reply:
            content = reply.read()
    except (urllib.error.URLError, OSError) as error:
        tried = ", ".join(str(place) for place in searched_places(folder))
        raise FileNotFoundError(f"{name} is in none of {tried}, and {url + name} cannot be read: {error}") from None
    return _kept(_verified(content, wanted, url + name), searched_places(None)[-1] / Path(name).name)


def whole_state(folder: Path | str | None = None, name: str = "pretrained_model_4layers.pt", **fetching) -> dict:
    """The state dict of the lab's pretrained language model, head and all: `base.*` and the head's names.

    It is read with `weights_only=True`: no code of the file is run.

    Raises:
        ValueError: the file holds no state dict.
        Those of `fetch`.
    """
    content = fetch(name, folder, **fetching)
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        loaded = torch.load(file, map_location="cpu", weights_only=True)
    state = loaded.get("model_state_dict", loaded) if isinstance(loaded, dict) else None
    if not state or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise ValueError(f"{name} holds no state dict")
    return dict(state)


def dictionary(folder: Path | str | None = None, **fetching) -> dict[str, int]:
    """Piece -> number, as in the lab: the four of SPECIAL, then the pieces of dict.txt (50,001 in all)."""
    lines = fetch("dict.txt", folder, **fetching).decode("utf-8").splitlines()
    return {piece: number for number, piece in enumerate([*SPECIAL, *(line.split(" ")[0] for line in lines)])}


def encode(pieces: Sequence[str], numbers: Mapping[str, int]) -> list[int]:
    """The numbers of `pieces` after SOS, UNK for a piece that has none."""
    return [SOS, *(numbers.get(piece, UNK) for piece in pieces)]


class Positions(nn.Module):
    """The lab's table of positions, (longest, 1, d_model): zeros until a checkpoint fills it."""

    pe: torch.Tensor

    def __init__(self, longest: int, d_model: int):
        super().__init__()
        self.register_buffer("pe", torch.zeros(longest, 1, d_model))


class LabBase(nn.Module):
    """The lab's encoder with its own names: `encoder`, `pos_encoder.pe`, `transformer_encoder`.

    Post-norm, ReLU, causal, 2 heads. Positions are a buffer that comes with the checkpoint.
    """

    def __init__(self, vocab_size: int, d_model: int, d_ff: int, n_layers: int, longest: int, n_heads: int = 2):
        super().__init__()
        self.encoder = nn.Embedding(vocab_size, d_model)
        self.pos_encoder = Positions(longest, d_model)
        block = nn.TransformerEncoderLayer(d_model, n_heads, dim_feedforward=d_ff, dropout=0.0, batch_first=True)
        self.transformer_encoder = nn.TransformerEncoder(block, n_layers, enable_nested_tensor=False)
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Tokens (B, T), padded on the right, to states (B, T, d_model); real tokens never read padding."""
        T, width = tokens.size(1), self.encoder.embedding_dim
        states = self.encoder(tokens) * width**0.5 + self.pos_encoder.pe[:T, 0]
        later = torch.ones(T, T, dtype=torch.bool, device=tokens.device).triu(1)
        return self.transformer_encoder(states, mask=later, is_causal=True)


def empty_base(state: Mapping[str, torch.Tensor]) -> LabBase:
    """A `LabBase` of the sizes of `state`, with random weights and the positions of `state`.

    Raises:
        ValueError: `state` has other names than the lab's.
    """
    layers = {name.split(".")[3] for name in state if name.startswith("base.transformer_encoder.layers.")}
    try:
        (vocab_size, d_model), places = state["base.encoder.weight"].shape, state["base.pos_encoder.pe"]
        d_ff = len(state["base.transformer_encoder.layers.0.linear1.weight"])
    except KeyError as name:
        raise ValueError(f"the checkpoint has no {name}; its names are {', '.join(list(state)[:5])}, ...") from None
    base = LabBase(vocab_size, d_model, d_ff, len(layers), len(places))
    base.pos_encoder.pe.copy_(places)
    return base


def searched_places(folder: Path | str | None) -> list[Path]:
    """Where files are looked for, in this order; the last is the cache."""
    shared, cache = os.environ.get("COURSE_DATA"), os.environ.get("COURSE_CACHE") or "~/.cache/attention_graded"
    places = [*([f"{folder}"] if folder else []), *([f"{shared}/lab", f"{shared}/cls_fr_books"] if shared else [])]
    return [Path(place).expanduser() for place in (*places, f"{cache}/lab")]


def _verified(content: bytes, wanted: str, where: str) -> bytes:
    if blob_id(content) != wanted:
        raise WrongFile(f"{where} is not the lab's file: its git blob id is {blob_id(content)}, not {wanted}")
    return content


def _kept(content: bytes, path: Path) -> bytes:
    """Write atomically; a cache that cannot be written to costs only time."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as part:
            part.write(content)
        os.replace(part.name, path)
    except OSError:
        pass
    return content
