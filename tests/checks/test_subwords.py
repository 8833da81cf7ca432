"""The sub-word tokens of notebook 01's experiment."""

import pytest

from utils.subwords import START, Subwords

SPECIAL = ["<sos>", "<pad>", "<eos>", "<unk>"]
TEXT = ["return the sum of the numbers .", "the numbers are returned , not summed", "return nothing"] * 5


@pytest.fixture(scope="module")
def vocab():
    return Subwords(TEXT, 40, SPECIAL)


def test_special_entries_come_first_and_the_size_is_kept(vocab):
    assert vocab.words[:4] == SPECIAL
    assert len(vocab) == len(vocab.words) == len(set(vocab.words)) == 40


def test_frequent_words_become_one_piece_and_none_is_unknown(vocab):
    assert [vocab.words[number] for number in vocab.encode("the")] == [START + "the"]
    rare = vocab.encode("unheard mountains")
    assert len(rare) > 2 and SPECIAL.index("<unk>") not in rare
    assert vocab.words[vocab.encode("q")[-1]] == "<unk>", "no sentence has this letter"


def test_what_is_encoded_comes_back(vocab):
    for sentence in [*TEXT, "another summit", ""]:
        assert vocab.decode(vocab.encode(sentence)) == sentence
    assert vocab.decode([0, *vocab.encode("the sum"), 2]) == "<sos> the sum <eos>"


def test_the_same_sentences_give_the_same_pieces(vocab):
    assert Subwords(TEXT, 40, SPECIAL).words == vocab.words
