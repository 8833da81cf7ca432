"""Notebook 12: what its checks compare with is what libraries give; its experiment, at the size smoke."""

import dataclasses

import numpy as np
import own
import pytest
import torch
from helpers import changed, files_of
from torch import nn
from torch.nn.utils import prune

from autograder import course
from utils.checks import nb12_smaller_models as checks
from utils.experiments import forgery, smaller, student
from utils.experiments.experiment import parse, read_files
from utils.experiments.runs import run_seeds
from utils.experiments.seed_table import SeedTable
from utils.experiments.smaller import train
from utils.grading.evidence import examine
from utils.grading.expect import normal
from utils.grading.results_check import results_check
from utils.grading.standing import NO_STANDING
from utils.grading.verdict import Outcome

COURSE = course.load()
NAMES = ("magnitude_masks", "snapshot", "rewind", "train_step", "distillation_loss")
SMOKE = smaller.experiments(profile="smoke")
CPU = torch.device("cpu")
ADA = "Ada Lovelace"
SEEDS = student.seeds_of(ADA, "", 5)
pytestmark = pytest.mark.usefixtures("nobody")


@results_check("12.8", points=4, source=smaller, notebook=smaller.NOTEBOOK)
def over_seeds(run_all):
    """All experiments, all seeds."""


# What answers are compared with


def test_counts_are_those_of_the_library():
    from transformers import AlbertConfig, AlbertModel, BertConfig, BertModel

    small = {"V": 101, "H": 12, "F": 40, "L": 3, "P": 33}
    same = {"vocab_size": 101, "hidden_size": 12, "intermediate_size": 40, "num_hidden_layers": 3}
    same |= {"max_position_embeddings": 33, "num_attention_heads": 2}
    with torch.device("meta"):
        base = AlbertModel(AlbertConfig(vocab_size=30_000, hidden_size=768, intermediate_size=3072,
                                        num_attention_heads=12))  # fmt: skip
        models = [base, BertModel(BertConfig()), AlbertModel(AlbertConfig(embedding_size=4, **same)),
                  BertModel(BertConfig(**same))]  # fmt: skip
    sizes = [{"V": 30_000, "H": 768, "F": 3072, "L": 12, "E": 128, "shared": True},
             {"V": 30_522, "H": 768, "F": 3072, "L": 12}, small | {"E": 4, "shared": True}, small]  # fmt: skip
    found = [sum(checks.counts_of(**size)[0].values()) for size in sizes]
    assert found == [sum(part.numel() for part in model.parameters()) for model in models]
    assert found[:2] == [11_683_584, 109_482_240]


def test_a_factorized_embedding_is_that_of_the_library():
    from transformers import AlbertConfig, AlbertModel

    config = AlbertConfig(vocab_size=11, embedding_size=3, hidden_size=8, num_attention_heads=2, intermediate_size=8)
    up = AlbertModel(config).encoder.embedding_hidden_mapping_in
    table, ids = normal(11, 3, seed=1), torch.tensor([[3, 0, 10]])
    with torch.no_grad():
        wanted = up(table[ids])
        found = checks.embedded({"table.weight": table, "up.weight": up.weight, "up.bias": up.bias}, ids)
    assert torch.allclose(found, wanted, atol=1e-6)


def test_masks_are_those_of_the_library():
    weights = checks.of_scales(3, [(4, 5), (7, 3), (2, 6)], [1.0, 0.3, 2.07])
    model = nn.Module()
    parts = []
    for name, part in weights.items():
        model.add_module(name, nn.Module())
        inner = getattr(model, name)
        inner.weight = nn.Parameter(part.clone())
        parts.append((inner, "weight"))
    prune.global_unstructured(parts, pruning_method=prune.L1Unstructured, amount=0.4)
    count = round(0.4 * sum(part.numel() for part in weights.values()))
    wanted = checks.smallest(weights, count, torch.abs)
    made = train.magnitude_masks(model_of(weights), 0.4, [*weights])
    for (inner, _), name in zip(parts, weights, strict=True):
        assert torch.equal(inner.weight_mask.bool(), wanted[name]) and torch.equal(made[name], wanted[name])


def model_of(weights):
    model = nn.Module()
    for name, part in weights.items():
        model.register_parameter(name, nn.Parameter(part))
    return model


@pytest.mark.parametrize("T, alpha", [(1.0, 0.3), (3.0, 1.0)])
def test_the_loss_is_made_of_those_of_the_library(T, alpha):
    z, t, labels = 2 * normal(5, 4, seed=1), 2 * normal(5, 4, seed=2), torch.tensor([0, 3, 1, 1, 2])
    soft = nn.KLDivLoss(reduction="batchmean", log_target=True)((z / T).log_softmax(-1), (t / T).log_softmax(-1))
    wanted = alpha * T * T * soft + (1 - alpha) * nn.CrossEntropyLoss()(z, labels)
    assert torch.allclose(checks.distilled(z, t, labels, T, alpha), wanted, atol=1e-6)


# Experiments


def test_experiments_of_all_sizes():
    sizes = [smaller.experiments(profile=one) for one in ("smoke", "cpu", "gpu")]
    made = [one for some in sizes for one in some.values()]
    assert len({one.digest() for one in made}) == len(made) == 33
    assert all([*some] == [*smaller.ARMS] for some in sizes)
    assert [one.made_up for one in made] == [True] * 11 + [False] * 22
    for some in sizes:
        assert len({one.base for one in some.values()}) == 2, "arms differ in more than how models are made smaller"
    for notebook, profile in (("05_seed_variance", "cpu"), (smaller.NOTEBOOK, "tpu")):
        with pytest.raises(ValueError, match="no experiments of"):
            smaller.experiments(notebook, profile)


@pytest.mark.parametrize(
    "changes, says",
    [({"method": "quantised"}, "the methods are"), ({"sparsity": 0.0}, "a sparsity"), ({"steps": 7}, "12")],
)
def test_what_cannot_be_run_is_refused(changes, says):
    with pytest.raises(ValueError, match=says):
        dataclasses.replace(SMOKE["rewound, few"], **changes)


def test_a_lookup_is_answered_by_its_key():
    one = SMOKE["dense"]
    questions, values = smaller.lookups(one, "test")
    assert len(questions) == one.test and smaller.lookups(one, "train")[0][:5] != questions[:5]
    for row, value in zip(questions, values, strict=True):
        pairs = dict(divmod(token, one.keys) for token in row[:-1])
        assert len(pairs) == one.asked and pairs[row[-1] - one.keys**2] == value


def test_the_arms_differ_as_the_notebook_says(honest):
    runs = {name: [parse(text) for text in files_of(honest, one).values()] for name, one in SMOKE.items()}
    assert {len(some) for some in runs.values()} == {5}
    found = {name: np.mean([smaller.METRICS[0].of(run) for run in some]) for name, some in runs.items()}
    assert found["dense"] > 99 and found["rewound, fewest"] > 99
    assert found["shuffled mask, fewest"] < 92 and found["new values, fewest"] < found["rewound, fewest"]
    assert found["teacher"] > found["own labels"] + 5
    pairs = smaller.questions(runs)
    assert len(pairs) == 4 and all(name in runs for pair in pairs for name in pair)


def test_the_recorded_runs_show_what_notebook_12_says_of_them():
    experiments = smaller.experiments(profile="cpu")
    runs, refused = examine(read_files(smaller.RECORDED), experiments.values(), range(1, 6), whole=True)
    assert not refused and [*map(len, runs.values())] == [5] * 11
    assert {path.name for path in smaller.RECORDED.iterdir()} == {one.folder("").name for one in experiments.values()}
    assert forgery.suspicious(experiments.values(), runs, {}) == ([], [])
    shown = [one for one in SeedTable(runs, smaller.METRICS[0]).compared(smaller.questions(runs)) if one.shown]
    assert {(one.first, one.second) for one in shown} == {
        ("shuffled mask, fewest", "rewound, fewest"),
        ("hard labels", "soft labels"),
    }
    values = {name: [smaller.METRICS[0].of(run) for run in some] for name, some in runs.items()}
    for name in ("dense", "rewound, fewest", "rewound, few", "new values, few", "shuffled mask, few"):
        assert min(values[name]) == 100, name
    assert max(values["new values, fewest"]) < 100
    pairs = smaller.questions(runs)
    text = " ".join((course.ROOT / "solutions/12_smaller_models/notebook.py").read_text().replace("\n#", " ").split())
    assert not any({*pair} == {"shuffled mask, fewest", "new values, fewest"} for pair in pairs)
    assert "New values at the right places were not compared with shuffled places." in text
    assert not any({*pair} == {"hard labels", "own labels"} for pair in pairs)
    assert '"hard labels" were not compared with "own labels".' in text
    rates = {one.lr for one in experiments.values()} | {one.teacher_lr for one in experiments.values()} - {0.0}
    assert rates == {2e-3, 5e-3} and {one.lr for one in experiments.values() if one.name != "teacher"} == {2e-3}
    assert "All arms use the same learning rate, here and for the sentences; no search for it is recorded." in text
    steps = {name: [smaller.steps_until(run) for run in some] for name, some in runs.items()}
    assert {*steps["rewound, few"]} == {75, 100}
    assert min(steps["new values, few"] + steps["shuffled mask, few"]) == 150
    assert min(steps["rewound, fewest"]) > max(steps["dense"])


def test_honest_runs_pass_and_nobody_suspects_them(honest):
    verdict, against, unsure = over_seeds.verdict_on(read_files(honest), ["smoke"], NO_STANDING)
    assert (verdict.outcome, verdict.score, against, unsure) == (Outcome.PASSED, 4, [], [])


@pytest.mark.parametrize(
    "says, change",
    [
        ("labels, 99 predictions", lambda rows: rows[1:]),
        ("a class below 4 and a margin", lambda rows: [row[:1] for row in rows]),
        ("a class below 4 and a margin", lambda rows: [[row[0], float(row[1])] for row in rows]),
        ("a class below 4 and a margin", lambda rows: [[4, row[1]] for row in rows]),
        ("not that of the class", lambda rows: [[row[0], -row[1]] for row in rows]),
        ("all its margins are equal", lambda rows: [[row[0], 0] for row in rows]),
        ("its curve ends at", lambda rows: [[(row[0] + 1) % 4, -5 - row[1]] for row in rows]),
    ],
)
def test_what_no_run_holds_is_refused(honest, says, change):
    files = read_files(honest)
    name = next(iter(files_of(honest, SMOKE["dense"])))
    forged = changed(files, name, predictions=change(parse(files[name]).predictions))
    verdict, against, _ = over_seeds.verdict_on(forged, ["smoke"], NO_STANDING)
    assert verdict.score == 0 and says in against[0], against


def test_a_curve_has_its_points(honest):
    for name in ("dense", "teacher"):
        run = parse(next(iter(files_of(honest, SMOKE[name]).values())))
        SMOKE[name].check(run, whole=True)
        with pytest.raises(ValueError, match="its curve is not"):
            SMOKE[name].check(dataclasses.replace(run, curve=run.curve[1:]), whole=True)


# One run


@pytest.mark.parametrize("method", smaller.CUT)
def test_what_is_cut_stays_zero_and_begins_where_its_arm_says(method):
    one = SMOKE[f"{method}, few"]
    whole, start, _ = train.dense(one.base, 3, CPU)
    model, masks, functions = train.masked(one, 3, CPU)
    names = train.prunable(whole)
    assert {*masks} == {*names} and len(names) == 4
    kept = torch.cat([mask.flatten() for mask in masks.values()]).float().mean().item()
    assert kept == pytest.approx(1 - one.sparsity, abs=1e-3)
    right = train.magnitude_masks(whole, one.sparsity, names)
    assert all(torch.equal(masks[name], right[name]) for name in names) is (method != smaller.SHUFFLED)
    assert all(masks[name].sum() == right[name].sum() for name in names)
    same = [torch.equal(model.get_parameter(name), start[name] * masks[name]) for name in names]
    assert all(same) if method != smaller.NEW else not any(same)
    train.trained(one, model, functions, masks, 3, CPU, lambda what: None)
    assert all(not model.get_parameter(name)[~masks[name]].any() for name in names)


def test_a_run_is_the_same_whatever_was_run_before(monkeypatch):
    one = SMOKE["shuffled mask, fewest"]
    first = one.run_seed(7)
    train.dense.cache_clear()
    SMOKE["own labels"].run_seed(7)
    again = one.run_seed(7)
    assert first.predictions == again.predictions and first.curve == again.curve
    assert one.run_seed(8).predictions != first.predictions


def test_models_are_measured_as_they_are_stored():
    dense, few = (train.sized(SMOKE[name], 1) for name in ("dense", "rewound, few"))
    assert dense[1].shape == (100, 3) and dense[0](dense[1]).shape == (100, 4)
    assert few[2] < dense[2] <= sum(part.numel() for part in dense[0].parameters())
    student_of, teacher = (train.sized(SMOKE[name], 1) for name in ("soft labels", "teacher"))
    assert student_of[2] < teacher[2] and teacher[0](teacher[1]).shape == (120, 6)


# Whose functions


def test_the_notebook_offers_the_functions_that_runs_use():
    assert {*own.offered("12")} == {*NAMES}


def test_runs_with_the_solutions_functions_are_the_courses(capsys):
    names = ("rewound, fewest", "soft labels")
    plain = [SMOKE[name].run_seed(5) for name in names]
    train.dense.cache_clear()
    train.teacher.cache_clear()
    called = own.use_counted(own.solutions("12", NAMES))
    mine = [SMOKE[name].run_seed(5) for name in names]
    assert {*called} == {*NAMES} and called["train_step"] > SMOKE["dense"].steps
    assert [run.predictions for run in mine] == [run.predictions for run in plain]
    assert "instead of yours" not in capsys.readouterr().out


def other(model, *given, **more):
    """Something else."""
    return {}


@pytest.mark.parametrize(
    "name, function",
    [
        ("magnitude_masks", lambda model, sparsity, names: {n: model.get_parameter(n) > 0 for n in names}),
        ("snapshot", lambda model: dict(model.state_dict())),
        ("rewind", lambda model, saved, masks: model.load_state_dict(saved)),
        ("train_step", lambda model, optimizer, x, labels, masks: 0.0),
        ("distillation_loss", lambda z, t, labels, T, alpha: z.sum()),
    ],
)
def test_functions_that_do_something_else_are_left(name, function, capsys):
    one = SMOKE["soft labels" if name == "distillation_loss" else "rewound, few"]
    plain = one.run_seed(6)
    train.dense.cache_clear()
    own.use(**{name: function})
    assert one.run_seed(6).predictions == plain.predictions
    assert f"the course's `{name}` instead of yours" in capsys.readouterr().out


def test_seeds_resume(tmp_path):
    first = run_seeds(SMOKE["own labels"], [1], tmp_path)
    again = run_seeds(SMOKE["own labels"], [1, 2], tmp_path)
    assert again[0] == first[0] and again[1].predictions != first[0].predictions
