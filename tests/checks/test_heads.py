"""What notebook 08's checks compare with is what the libraries compute: inputs, words, answers, heads and scores."""

import random
import string

import pytest
import torch
from torch import nn

from utils import tiny_bert
from utils.checks import nb08_bert_heads as checks
from utils.grading import toys
from utils.grading.expect import normal

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "a", "cat", "dog", "milk", "play", "##s", "##ing", "##er"]
WORDS += ["red", "drinks", "in", "cup", ",", "."]
SPECIAL = {"cls": 2, "sep": 3, "pad": 0}


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_bert.tokenizer(WORDS)


@pytest.fixture(scope="module")
def slow_tokenizer(tmp_path_factory):
    """The one in Python: it takes ids."""
    from transformers import BertTokenizer

    path = tmp_path_factory.mktemp("slow") / "vocab.txt"
    path.write_text("\n".join(WORDS))
    return BertTokenizer(str(path))


def some_ids(some, most):
    return [some.randint(5, len(WORDS) - 1) for _ in range(some.randint(1, most))]


@pytest.mark.parametrize("kind, rule", [("single", True), ("pair", "longest_first"), ("qa", "only_second")])
def test_inputs_are_those_of_the_library(slow_tokenizer, kind, rule):
    some, cut = random.Random(1), 0
    for _ in range(200):
        parts = [some_ids(some, 9) for _ in range(1 if kind == "single" else 2)]
        most = some.randint(len(parts[0]) + 4 if kind == "qa" else 4, 22)
        theirs = slow_tokenizer.prepare_for_model(*parts, truncation=rule, max_length=most, verbose=False)
        ids, types, mask = checks.laid_out(checks.rows_by_rule(kind, parts, most), **SPECIAL)
        assert [ids[0], types[0], mask[0]] == [
            theirs["input_ids"],
            theirs["token_type_ids"],
            theirs["attention_mask"],
        ]
        cut += sum(map(len, parts)) + 2 > most
    assert cut > 20


def test_options_are_pairs_of_the_library(slow_tokenizer):
    some = random.Random(2)
    for _ in range(40):
        context, *options = (some_ids(some, 9) for _ in range(some.randint(2, 5)))
        rows = [slow_tokenizer.prepare_for_model(context, one, truncation=True, max_length=12) for one in options]
        theirs = slow_tokenizer.pad(rows, padding=True)
        found = checks.laid_out(checks.rows_by_rule("choice", [context, *options], 12), **SPECIAL)
        assert found == [theirs["input_ids"], theirs["token_type_ids"], theirs["attention_mask"]]


def test_a_word_can_vanish(tokenizer):
    """U+200B has no piece, and the words after it keep their numbers."""
    word_ids = tokenizer([["cats", "\u200b", "drinks", "players"]], is_split_into_words=True).word_ids(0)
    assert word_ids == [None, 0, 0, 2, 3, 3, 3, None]
    checks.aligned(lambda word_ids, labels: [-100, 7, -100, 9, 10, -100, -100, -100], word_ids, [7, 8, 9, 10])
    found = ["7", "O", "9", "10"]
    checks.foretold(lambda word_ids, predicted, count: found, word_ids, ["-", "7", "-", "9", "10", "-", "-", "-"], 4)


def test_answers_are_where_the_library_finds_them(tokenizer):
    some, cut = random.Random(3), 0
    words = ["the", "cats", "a", "dog", "players", "milk", "in,", "cup.", "drinks", "unknown", "red"]
    for _ in range(150):
        question, passage = (" ".join(some.choices(words, k=some.randint(3, most))) for most in (4, 12))
        encoded = tokenizer(question, passage, truncation="only_second", max_length=20, return_offsets_mapping=True)
        tokens = [list(pair) for pair in encoded["offset_mapping"]], encoded.sequence_ids(0)
        for _ in range(5):
            start, last = sorted(some.choices([t for t, one in enumerate(passage) if one != " "], k=2))
            theirs = encoded.char_to_token(start, sequence_index=1), encoded.char_to_token(last, sequence_index=1)
            assert (checks.token_of(tokens, start), checks.token_of(tokens, last)) == theirs
            cut += None in theirs
    assert 20 < cut < 700


def test_span_logits_and_loss_are_those_of_the_library():
    from transformers import BertForQuestionAnswering

    model = BertForQuestionAnswering(tiny_bert.config(tiny_bert.Sizes())).eval()
    tiny_bert.fill(model, 4)
    ids, mask = torch.randint(29, (5, 8), generator=torch.Generator().manual_seed(5)), torch.ones(5, 8)
    first, last = torch.tensor([3, 0, 8, 2, 11]), torch.tensor([4, 0, 9, 8, 2])
    out = model(input_ids=ids, attention_mask=mask, start_positions=first, end_positions=last)
    states = model.bert(input_ids=ids, attention_mask=mask).last_hidden_state
    weights = {"weight": model.qa_outputs.weight, "bias": model.qa_outputs.bias}
    start, end = checks.by_token(weights, states)
    assert out.start_logits.std() > 0.1
    torch.testing.assert_close(start, out.start_logits)
    torch.testing.assert_close(end, out.end_logits)
    torch.testing.assert_close(checks.span_loss_of(start, end, first, last), out.loss)
    means = [checks.mean(checks.loss_by_loops(one, places)) for one, places in ((start, first), (end, last))]
    assert abs(sum(means) / 2 - out.loss.item()) < 1e-5


def test_choice_logits_are_those_of_the_library():
    from transformers import BertForMultipleChoice

    model = BertForMultipleChoice(tiny_bert.config(tiny_bert.Sizes())).eval()
    tiny_bert.fill(model, 6)
    ids = torch.randint(29, (2, 3, 8), generator=torch.Generator().manual_seed(7))
    cls = model.bert(input_ids=ids.flatten(0, 1)).pooler_output.unflatten(0, (2, 3))
    wanted = model(input_ids=ids).logits
    state = {"weight": model.classifier.weight, "bias": model.classifier.bias}
    assert wanted.shape == (2, 3) and wanted.std() > 0.01
    checks.chosen(lambda cls, out: wanted, (None, state), cls)
    with pytest.raises(AssertionError):
        checks.chosen(lambda cls, out: wanted.roll(1, 0), (None, state), cls)


def test_scores_are_those_of_squad():
    from transformers.data.metrics import squad_metrics

    some, equal = random.Random(8), 0
    words = ["the", "a", "an", "The", "A", "banana", "an-other", "theory", "cat", "cat", "Cat", "1843", "it's", "a.m."]
    words += ["U.S.A.", "", " ", "\t", "--", "("]
    for _ in range(2000):
        one, other = (some.choice([" ", ""]).join(some.choices(words, k=some.randint(0, 6))) for _ in range(2))
        one += some.choice(string.punctuation)
        assert checks.plain(one) == squad_metrics.normalize_answer(one)
        assert abs(checks.words_f1(one, other) - squad_metrics.compute_f1(other, one)) < 1e-12
        exact = checks.plain(one) == checks.plain(other)
        assert exact == squad_metrics.compute_exact(other, one)
        equal += exact
    assert equal > 20


def test_a_tagger_reads_as_torch_does():
    lstm, out = nn.LSTM(4, 3, batch_first=True, bidirectional=True), nn.Linear(6, 5)
    state = {f"lstm.{name}": part for name, part in lstm.state_dict().items()}
    state |= {f"out.{name}": part for name, part in out.state_dict().items()}
    assert {name: tuple(part.shape) for name, part in state.items()} == checks.tagger_shapes(4, 3, 5)
    x = normal(7, 4, seed=9)
    torch.testing.assert_close(checks.read_alone(state, x), lstm(x[None])[0][0])


class Packs(nn.Module):
    """Reads packed sentences, with lengths that it takes to the CPU, or as they come."""

    def __init__(self, moves):
        super().__init__()
        self.lstm, self.moves = nn.LSTM(4, 3, batch_first=True, bidirectional=True), moves

    def forward(self, x, lengths):
        lengths = lengths.cpu() if self.moves else lengths
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)[0]


def test_lengths_are_packed_on_the_cpu():
    """As on a machine with a GPU: what is right there does not stop, what would stop is seen."""
    x, lengths = normal(3, 5, 4, seed=10), torch.tensor([2, 5, 1])
    assert not toys.apart(Packs(True), x, lengths)
    assert toys.apart(Packs(False), x, lengths)
    assert not toys.apart(toys.Method(Packs(True), "forward"), x, lengths)
