"""Sub-word tokens: words cut into pieces that a text has often, by byte-pair encoding with the tokenizers library.

For notebook 01 the pieces are learned on the spot, as those of real models are. For notebook 14 `ByteLevel` counts the
library's tokens as exercise 14.8 does. The library is imported when one of them is made.
"""

from collections.abc import Iterable, Sequence
from typing import Any

START = "▁"  # of a word; it stands where a space was


class Subwords:
    """A vocabulary like that of exercise 1.5, whose `words` are `special`, then letters, signs and joined pieces.

    What is made of letters and signs of `sentences` can be written with it, however rare: nothing is unknown.
    """

    def __init__(self, sentences: Sequence[str], max_size: int, special: Sequence[str]):
        """Learn at most `max_size` entries from `sentences`, first those of `special`; the last of these is unknown."""
        from tokenizers import Tokenizer, models, pre_tokenizers, trainers

        self.special = list(special)
        self._cutter = Tokenizer(models.BPE(unk_token=self.special[-1]))
        self._cutter.pre_tokenizer = pre_tokenizers.Metaspace(replacement=START)
        trainer = trainers.BpeTrainer(vocab_size=max_size, special_tokens=self.special, show_progress=False)
        self._cutter.train_from_iterator(sentences, trainer)
        numbers = self._cutter.get_vocab()
        self.words = sorted(numbers, key=numbers.__getitem__)

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, sentence: str) -> list[int]:
        """The numbers of the pieces of `sentence`, a list."""
        return self._cutter.encode(sentence).ids

    def decode(self, numbers: Sequence[int]) -> str:
        """The text of these pieces, special ones too, words apart by single spaces."""
        pieces = (self.words[number] for number in numbers)
        text = "".join(f" {piece} " if piece in self.special else piece.replace(START, " ") for piece in pieces)
        return " ".join(text.split())


PIECES = r" ?[^ \n]+|[ \n]+"  # what exercise 14.8 cuts a text into
OWN = [
    *range(33, 127),
    *range(161, 173),
    *range(174, 256),
]  # bytes that the library writes as the letter of that number
LETTERS = {byte: chr(byte) for byte in OWN} | {
    byte: chr(256 + place) for place, byte in enumerate(byte for byte in range(256) if byte not in OWN)
}


class ByteLevel:
    """A byte-level BPE tokenizer of the tokenizers library, in the numbers of exercise 14.8.

    Bytes are tokens 0 to 255, and merge i makes token 256 + i. The library has another number for each of them.
    """

    def __init__(self, tokenizer: Any):
        """Read the merges of a `tokenizers.Tokenizer`, whose bytes are letters."""
        import json

        self._tokenizer = tokenizer
        self._numbers = {letter: byte for byte, letter in LETTERS.items()}
        self.merges: list[tuple[int, int]] = []
        for one in json.loads(tokenizer.to_str())["model"]["merges"]:
            left, right = one.split(" ") if isinstance(one, str) else one  # older files write a pair as one text
            self.merges.append((self._numbers[left], self._numbers[right]))
            self._numbers[left + right] = 255 + len(self.merges)

    @classmethod
    def of(cls, merges: Iterable[Sequence[int]]) -> "ByteLevel":
        """The library's tokenizer with these merges of exercise 14.8, and its pieces."""
        from tokenizers import Regex, Tokenizer, models, pre_tokenizers

        words, pairs = [LETTERS[byte] for byte in range(256)], list[tuple[str, str]]()
        for left, right in merges:
            pairs.append((words[left], words[right]))
            words.append(words[left] + words[right])
        tokenizer = Tokenizer(models.BPE({word: number for number, word in enumerate(words)}, pairs))
        letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(PIECES), "isolated"), letters])
        return cls(tokenizer)

    @classmethod
    def learned(cls, texts: Iterable[str], merges: int) -> "ByteLevel":
        """The library's tokenizer with so many merges, which it learns from these texts."""
        from tokenizers import Tokenizer, models, pre_tokenizers, trainers

        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        letters = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=256 + merges, initial_alphabet=letters, show_progress=False)
        tokenizer.train_from_iterator(texts, trainer)
        return cls(tokenizer)

    def pieces(self, text: str) -> list[str]:
        """The pieces that the library cuts a text into before it joins anything."""
        return [text[start:end] for _, (start, end) in self._tokenizer.pre_tokenizer.pre_tokenize_str(text)]

    def encode(self, text: str) -> list[int]:
        """The library's tokens of a text, in the numbers of exercise 14.8."""
        return [self._numbers[token] for token in self._tokenizer.encode(text, add_special_tokens=False).tokens]
