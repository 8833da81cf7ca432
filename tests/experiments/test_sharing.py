"""Notebook 12's ablations: what layers share, narrow tables, and one short run."""

import dataclasses
from pathlib import Path

import pytest
import torch
from helpers import script

from utils.experiments import sharing, smaller
from utils.experiments.experiment import BadRun
from utils.experiments.pretraining.train import TokenSequences
from utils.experiments.sharing import train

CPU = torch.device("cpu")
SEARCH = Path(__file__).resolve().parents[2] / "solutions" / "12_smaller_models" / "search.py"
ARMS = sharing.ablations()
NOTHING, ALL = (sharing.name_of(what) for what in (sharing.NOTHING, sharing.ALL))
SHORT = {
    name: dataclasses.replace(
        one, width=one.width // 4, table=one.table // 4, heads=2, layers=min(one.layers, 3), steps=20, batch=4,
        pieces=60, validation=12,
    )
    for name, one in ARMS.items()
}  # fmt: skip


@pytest.fixture
def text(monkeypatch):
    """Sequences of made-up pieces; three in four times a piece is followed by the next one."""
    draw = torch.Generator().manual_seed(0)
    steps = torch.where(torch.rand(92, 64, generator=draw) < 0.75, 1, torch.randint(60, (92, 64), generator=draw))
    drawn = steps.cumsum(1) % 60
    counts = drawn.flatten().bincount(minlength=60) + 0.1
    known = TokenSequences(drawn[:80], drawn[80:], None, (0,), 1, 60, (counts / counts.sum()).log())
    monkeypatch.setattr(train, "sequences", lambda *size: known)
    return known


@pytest.mark.parametrize("name", ARMS)
def test_numbers_are_those_of_the_model(name):
    for one in (ARMS[name], SHORT[name]):
        assert one.parameters == sum(part.numel() for part in train.LanguageModel(one).parameters())


@pytest.mark.parametrize(
    ("shared", "attention", "feed"), [("nothing", 3, 3), ("attention", 1, 3), ("feed-forward", 3, 1), ("all", 1, 1)]
)
def test_what_is_shared_is_one_module_that_every_layer_goes_through(shared, attention, feed):
    model, calls = train.LanguageModel(dataclasses.replace(SHORT[ALL], shared=shared)).eval(), []
    assert (len(model.attention), len(model.feed)) == (attention, feed)
    for part in (*model.attention, *model.feed):
        part.register_forward_hook(lambda part, *more: calls.append(part))
    model(torch.zeros(1, 16, dtype=torch.long))
    assert len(calls) == 6
    assert [len({*map(id, calls[start::2])}) for start in (0, 1)] == [attention, feed]


@pytest.mark.parametrize("name", ARMS)
def test_no_place_sees_a_later_one(name):
    torch.manual_seed(0)
    model = train.LanguageModel(SHORT[name]).eval()
    tokens = torch.randint(60, (1, 12), generator=torch.Generator().manual_seed(0))
    other = tokens.clone()
    other[:, 6:] = (other[:, 6:] + 1) % 60
    one, two = (model(some) for some in (tokens, other))
    assert torch.allclose(one[:, :6], two[:, :6], atol=1e-6) and not torch.allclose(one[:, 6:], two[:, 6:], atol=1e-6)


def test_a_run_is_the_same_again_and_has_what_it_must(text):
    one = SHORT[ALL]
    run, again = one.run_seed(3), one.run_seed(3)
    assert run.predictions == again.predictions and run.curve == again.curve
    one.check(run, whole=True)
    assert one.run_seed(4).predictions != run.predictions
    for changes in ({"predictions": run.predictions[1:]}, {"curve": run.curve[1:]}):
        with pytest.raises(BadRun):
            one.check(dataclasses.replace(run, **changes), whole=True)


def test_a_short_run_learns_which_piece_follows(text):
    one = dataclasses.replace(SHORT[ALL], steps=100, lr=2e-2)
    run = one.run_seed(1)
    frequent = -text.log_shares[text.valid[:, 1:]].mean().item()
    assert sharing.METRICS[0].of(run) < frequent - 0.5


def test_a_loss_is_that_of_the_next_piece(text):
    model = train.LanguageModel(SHORT[NOTHING]).eval()
    losses = train.losses_of(model, text, CPU)
    row = text.valid[5]
    with torch.no_grad():
        chances = model(row[None, :-1])[0].log_softmax(-1)
    assert losses[5] == pytest.approx(-chances[range(63), row[1:]].sum().item(), abs=1e-3)


def test_a_rate_is_chosen_on_other_sequences_than_the_runs_are_tested_on(text):
    whole, held_out = (train.text_of(dataclasses.replace(SHORT[NOTHING], held_out=flag)) for flag in (False, True))
    assert torch.equal(whole.train, torch.cat([held_out.train, held_out.valid]))
    assert whole is text and len(held_out.valid) == 12


def test_what_cannot_be_run_is_refused():
    for changes in ({"shared": "norms"}, {"table": 200}, {"steps": 7}):
        with pytest.raises(ValueError, match="layers share"):
            dataclasses.replace(ARMS[ALL], **changes)


def test_the_rate_is_the_best_of_the_recorded_search_and_not_at_its_end():
    search = script(SEARCH)
    rows = [*search.rate_search.load(sharing.SEARCH).values()]
    assert {row["arm"] for row in rows} == {*search.TRIED} and {row["seed"] for row in rows} == {*search.SEEDS}
    for name in search.TRIED:
        tried = [rate for (rate,) in search.rate_search.means(rows, name)]
        (best,) = search.rate_search.best(rows, name)
        assert best == ARMS[name].lr and min(tried) < best < max(tried)
    assert {one.lr for name, one in ARMS.items() if name != sharing.WITHOUT_LAYERS} == {sharing.RATE}
    lines = search.rate_search.table(sharing.SEARCH, {name: [ARMS[name].lr] for name in search.TRIED}, digits=3)
    assert "\n".join(lines) in (SEARCH.parents[2] / "data" / "README.md").read_text()


def test_the_course_records_the_ablations_with_notebook_12():
    assert {sharing.RECORDED: sharing.ablations} == smaller.ALSO_RECORDED
    assert {name for pair in sharing.questions() for name in pair} == {*ARMS}
