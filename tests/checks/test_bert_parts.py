"""What notebook 07's checks compare with is what transformers computes: embeddings, head, losses and blanks."""

import pytest
import torch

from utils import tiny_bert
from utils.checks import nb07_bert_pretraining as checks
from utils.grading.expect import normal

WORDS = checks.PIECES


@pytest.fixture(scope="module")
def model():
    return tiny_bert.masked(WORDS, seed=5).eval()


def test_embeddings_are_those_of_the_library(model):
    theirs = model.bert.embeddings
    names = {"word": "word_embeddings", "position": "position_embeddings", "token_type": "token_type_embeddings"}
    state = {f"{one}.weight": getattr(theirs, other).weight for one, other in names.items()}
    state |= {"norm.weight": theirs.LayerNorm.weight, "norm.bias": theirs.LayerNorm.bias}
    ids = torch.randint(len(WORDS), (3, 7), generator=torch.Generator().manual_seed(1))
    types = (torch.arange(7) > 3).long().expand(3, 7)
    for given in (types, None):
        found = theirs(input_ids=ids, token_type_ids=given)
        assert found.std() > 0.1
        torch.testing.assert_close(checks.embedded(state, ids, given), found)


def test_the_head_is_that_of_the_library(model):
    head = model.cls.predictions
    state = {"dense.weight": head.transform.dense.weight, "dense.bias": head.transform.dense.bias}
    state |= {"norm.weight": head.transform.LayerNorm.weight, "norm.bias": head.transform.LayerNorm.bias}
    state |= {"bias": head.bias, "table": model.bert.embeddings.word_embeddings.weight}
    x = normal(2, 5, model.config.hidden_size, seed=2)
    assert head(x).std() > 0.1
    torch.testing.assert_close(checks.scored(state, x), head(x))


def test_the_loss_is_that_of_the_library():
    from transformers import BertForPreTraining

    both = BertForPreTraining(tiny_bert.config(tiny_bert.Sizes())).eval()
    tiny_bert.fill(both, 3)
    ids = torch.randint(29, (4, 6), generator=torch.Generator().manual_seed(4))
    labels = torch.where(torch.arange(24).reshape(4, 6) % 5 < 2, ids, -100)
    follows = torch.tensor([0, 1, 1, 0])
    found = both(input_ids=ids, labels=labels, next_sentence_label=follows)
    tokens = [one for row in checks.nll_by_loops(found.prediction_logits, labels) for one in row]
    pairs = [row[0] for row in checks.nll_by_loops(found.seq_relationship_logits[:, None], follows[:, None])]
    wanted = sum(tokens) / len(tokens) + sum(pairs) / len(pairs)
    assert abs(float(found.loss) - wanted) < 1e-4 * wanted


def test_blanks_are_found_where_the_pipeline_finds_them(model):
    from transformers import pipeline

    text = "the dogs [MASK] in a cup"
    (place,) = [t for t, number in enumerate(checks.asked(text, WORDS)) if number == WORDS.index("[MASK]")]
    chances = model(input_ids=torch.tensor([checks.asked(text, WORDS)])).logits[0, place].softmax(-1)
    best = pipeline("fill-mask", model=model, tokenizer=tiny_bert.tokenizer(WORDS), top_k=5, device="cpu")(text)
    assert [one["token"] for one in best] == chances.topk(5).indices.tolist()
    torch.testing.assert_close(torch.tensor([one["score"] for one in best]), chances.topk(5).values)
