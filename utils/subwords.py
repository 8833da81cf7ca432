"""Sub-word tokens for notebook 01: words cut into pieces that a text has often, by byte-pair encoding.

The pieces are learned on the spot with the tokenizers library, as those of real models are. It is imported when
a vocabulary is made.
"""

from collections.abc import Sequence

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
