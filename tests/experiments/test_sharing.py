"""Notebook 12's ablations: what layers share, narrow tables, masked places, and one short run."""

import dataclasses

import pytest
import torch

from utils.experiments import sharing, smaller
from utils.experiments.experiment import BadRun
from utils.experiments.pretraining.train import TokenSequences
from utils.experiments.sharing import train

CPU = torch.device("cpu")
ARMS = sharing.ablations()
SHORT = {
    name: dataclasses.replace(
        one, width=one.width // 8, table=one.table // 8, heads=2, layers=3, steps=12, batch=8, pieces=60, length=16,
        validation=12,
    )
    for name, one in ARMS.items()
}  # fmt: skip


@pytest.fixture
def text(monkeypatch):
    """Sequences of made-up pieces, of which the first is special."""
    drawn = torch.randint(1, 60, (92, 16), generator=torch.Generator().manual_seed(0))
    drawn[:, 0] = 0
    counts = drawn.flatten().bincount(minlength=60) + 0.1
    known = TokenSequences(drawn[:80], drawn[80:], None, (0,), 1, 60, (counts / counts.sum()).log())
    monkeypatch.setattr(train, "text_of", lambda size: known)
    return known


@pytest.mark.parametrize("name", ARMS)
def test_numbers_are_those_of_the_model(name):
    for one in (ARMS[name], SHORT[name]):
        assert one.numbers == sum(part.numel() for part in train.MaskedModel(one).parameters())


def test_what_is_shared_is_one_module_that_every_pass_goes_through():
    for shared, attention, feed in (("nothing", 3, 3), ("attention", 1, 3), ("feed-forward", 3, 1), ("all", 1, 1)):
        one = dataclasses.replace(SHORT["all shared, E 32"], shared=shared, dropout=0.0)
        model, calls = train.MaskedModel(one).eval(), []
        assert (len(model.attention), len(model.feed)) == (attention, feed)
        for part in (*model.attention, *model.feed):
            part.register_forward_hook(lambda part, *more, calls=calls: calls.append(part))
        tokens = torch.zeros(1, 16, dtype=torch.long)
        states = model.states(tokens)
        assert len(states) == 4 and len(calls) == 6
        assert [len({*map(id, calls[start::2])}) for start in (0, 1)] == [attention, feed]


def test_masked_places_hold_no_special_piece_and_are_the_same_for_all(text):
    places = train.drawn_places(text.train, torch.tensor(text.special), torch.Generator().manual_seed(0))
    assert places.shape == (80, sharing.spec.PLACES) and places.min() > 0
    assert all(len({*row}) == len(row) for row in places.tolist())
    again = train.drawn_places(text.train, torch.tensor(text.special), torch.Generator().manual_seed(0))
    assert torch.equal(places, again)


def test_a_run_is_the_same_again_and_has_what_it_must(text):
    one = SHORT["all shared, E 32"]
    run, moved = train.measured(one, 3)
    again = one.run_seed(3)
    assert run.predictions == again.predictions and run.curve == again.curve
    one.check(run, whole=True)
    assert {len(values) for values in moved.values()} == {one.layers} and {*moved} == {"distance", "cosine"}
    assert one.run_seed(4).predictions != run.predictions
    quarter = SHORT["not shared, a quarter of the text"].run_seed(3)
    assert quarter.predictions != SHORT["not shared, E 32"].run_seed(3).predictions
    for changes in ({"predictions": run.predictions[1:]}, {"curve": run.curve[1:]}):
        with pytest.raises(BadRun):
            one.check(dataclasses.replace(run, **changes), whole=True)


def test_a_loss_is_that_of_the_masked_pieces(text):
    one = SHORT["not shared, E 128"]
    model = train.MaskedModel(one).eval()
    losses = train.losses_of(model, text, CPU)
    places = train.drawn_places(text.valid, torch.tensor(text.special), torch.Generator().manual_seed(0))
    row, where = text.valid[5].clone(), places[5]
    wanted = row[where].clone()
    row[where] = text.mask_id
    with torch.no_grad():
        chances = model(row[None], where[None])[0].log_softmax(-1)
    assert losses[5] == pytest.approx(-chances[range(len(where)), wanted].sum().item(), abs=1e-3)


def test_what_cannot_be_run_is_refused():
    for changes in ({"shared": "norms"}, {"table": 200}, {"steps": 7}):
        with pytest.raises(ValueError, match="layers share"):
            dataclasses.replace(ARMS["all shared, E 32"], **changes)


def test_the_notebook_records_the_ablations_too():
    assert {sharing.RECORDED: sharing.ablations} == smaller.ALSO_RECORDED
    assert {*ARMS} > {*sharing.PAPER} and len(sharing.PAPER) == 10
