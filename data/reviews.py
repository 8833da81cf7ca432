"""Labelled texts that are not part of this repository: opinions in English, opinions in French.

`polarity` reads NLTK's `sentence_polarity.zip` (Pang and Lee 2005, 10,662 sentences, CC BY 4.0) from the
folder `nltk` of a data folder. `french_books` reads the lab's French book reviews (from Webis-CLS-10, no
open licence) through `data.lab_checkpoint`: from a folder, or from the lab's own repository, verified.
"""

import os
import zipfile
from pathlib import Path

from data import lab_checkpoint

SPLITS = ("train", "valid", "test")


def data_folder(folder: Path | str | None = None) -> Path | None:
    """`folder`, or the folder that $COURSE_DATA names, or None; `~` is the user's home folder."""
    chosen = folder or os.environ.get("COURSE_DATA")
    return Path(chosen).expanduser() if chosen else None


def polarity(folder: Path | str | None = None) -> list[tuple[str, int]]:
    """Sentences from film reviews with their labels, 0 negative and 1 positive: first all of one, then of the other.

    Raises:
        FileNotFoundError: there is no data folder, or no nltk/sentence_polarity.zip in it.
    """
    root = data_folder(folder)
    path = root / "nltk" / "sentence_polarity.zip" if root else None
    if path is None or not path.is_file():
        raise FileNotFoundError(
            "sentence_polarity.zip is needed (nltk.org/nltk_data): put it into the folder nltk of a data folder, "
            f"and name that in COURSE_DATA. Looked for: {path or 'COURSE_DATA is not set'}"
        )
    with zipfile.ZipFile(path) as archive:
        texts = [archive.read(f"sentence_polarity/rt-polarity.{name}").decode("latin-1") for name in ("neg", "pos")]
    return [(line.strip(), label) for label, text in enumerate(texts) for line in text.splitlines() if line.strip()]


def french_books(split: str, folder: Path | str | None = None, **fetching) -> list[tuple[list[str], int]]:
    """Book reviews in sentencepiece pieces with their labels, 0 negative and 1 positive, in the lab's order.

    Test reviews that also occur in train (43) or in valid (12, one of them in both) are left out: 1,946 stay.
    13 reviews of valid that occur in train too, are kept: the lab selects on them.

    Args:
        split: train (1,600), valid (400) or test.
        folder: where the lab's files are, if not in the data folder.

    Raises:
        ValueError: `split` is none of SPLITS, or texts and labels differ in number.
        Those of `lab_checkpoint.fetch`.
    """
    if split not in SPLITS:
        raise ValueError(f"split is {split!r}; it can be {', '.join(SPLITS)}")
    found = _read(split, folder, fetching)
    if split != "test":
        return found
    seen = {tuple(pieces) for other in SPLITS[:2] for pieces, _ in _read(other, folder, fetching)}
    return [(pieces, label) for pieces, label in found if tuple(pieces) not in seen]


def plain(pieces: list[str]) -> str:
    """The text that sentencepiece cut into `pieces`."""
    return "".join(pieces).replace("\u2581", " ").strip()


def _read(split: str, folder: Path | str | None, fetching: dict) -> list[tuple[list[str], int]]:
    texts, labels = (
        lab_checkpoint.fetch(f"cls-books/{split}.{kind}", folder, **fetching).decode("utf-8").split("\n")
        for kind in ("review.spm", "label")
    )
    pieces, numbers = [line.split() for line in texts if line.strip()], [int(line) for line in labels if line.strip()]
    if len(pieces) != len(numbers):
        raise ValueError(f"{split}: {len(pieces)} reviews, {len(numbers)} labels")
    return list(zip(pieces, numbers, strict=True))
