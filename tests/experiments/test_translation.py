"""Notebook 13: what its checks compare with is what libraries give; its data; its experiment, at the size smoke."""

import dataclasses
import json
import random
import re

import numpy as np
import own
import pytest
import sacrebleu
import torch
from helpers import changed, files_of, script
from torch import nn
from torch.nn import functional as F

from autograder import course
from autograder.author import rate_search
from data import parallel
from utils.checks import nb13_toys as toys
from utils.checks import nb13_translation as checks
from utils.experiments import forgery, student, translation
from utils.experiments.experiment import Run, parse, read_files
from utils.experiments.runs import load_runs, run_seeds
from utils.experiments.translation import train
from utils.grading.evidence import examine
from utils.grading.expect import normal
from utils.grading.results_check import results_check
from utils.grading.standing import NO_STANDING
from utils.grading.verdict import Outcome

COURSE = course.load()
NAMES = ("translation_batch", "beam_search", "drop_net")
SMOKE = translation.experiments(profile="smoke")
ADA = "Ada Lovelace"
SEEDS = student.seeds_of(ADA, "", 5)
CPU = torch.device("cpu")
pytestmark = pytest.mark.usefixtures("nobody")


@results_check("13.9", points=4, source=translation, notebook=translation.NOTEBOOK)
def over_seeds(run_all):
    """All experiments, all seeds."""


# What answers are compared with


def filled(shapes, seed):
    return {name: normal(*shape, seed=seed + place) for place, (name, shape) in enumerate(shapes.items())}


def test_cross_attention_is_that_of_the_library():
    d, heads, read = 12, 3, 10
    state = filled(checks.attention_shapes(d, read), 1)
    right = nn.MultiheadAttention(d, heads, kdim=read, vdim=read, batch_first=True)
    names = {"q_proj_weight": "q_proj", "k_proj_weight": "k_proj", "v_proj_weight": "v_proj"}
    weights = {name: state[f"{part}.weight"] for name, part in names.items()}
    weights["in_proj_bias"] = torch.cat([state[f"{part}.bias"] for part in names.values()])
    right.load_state_dict(weights | {f"out_proj.{one}": state[f"out_proj.{one}"] for one in ("weight", "bias")})
    x, memory, allowed = normal(2, 4, d, seed=31), normal(2, 7, read, seed=32), checks.read_mask(2, 1, 7, 33)
    wanted = right(x, memory, memory, key_padding_mask=~allowed[:, 0])[0]
    assert torch.allclose(checks.attend(state, x, memory, allowed, heads), wanted, atol=1e-5)


def test_a_decoder_layer_is_that_of_the_library():
    d, d_ff = 8, 5
    state = filled(checks.layer_shapes({"self_attention": d, "cross_attention": d}, d, d_ff), 2)
    right = nn.TransformerDecoderLayer(d, 1, d_ff, dropout=0.0, batch_first=True)
    weights = {name: value for name, value in state.items() if "attention" not in name}
    for part, name in (("self_attn", "self_attention"), ("multihead_attn", "cross_attention")):
        # Scores of `toys.Reads` are not divided by the root of the width, and it has no map of what comes out.
        ask, key, value = (state[f"{name}.{one}.weight"] for one in ("ask", "key", "value"))
        weights |= {
            f"{part}.in_proj_weight": torch.cat([ask * d**0.5, key, value]),
            f"{part}.in_proj_bias": torch.zeros(3 * d),
            f"{part}.out_proj.weight": torch.eye(d),
            f"{part}.out_proj.bias": torch.zeros(d),
        }
    right.load_state_dict(weights)
    x, memory, allowed = normal(2, 4, d, seed=31), normal(2, 6, d, seed=32), checks.read_mask(2, 1, 6, 33)
    wanted = right(x, memory, ~checks.causal(4)[0], memory_key_padding_mask=~allowed[:, 0])
    assert torch.allclose(checks.decoded(state, x, memory, allowed), wanted, atol=1e-4)


@pytest.mark.parametrize("eps", [0.0, 0.1, 0.6])
def test_the_smoothed_loss_is_that_of_the_library(eps):
    logits, targets = 3 * normal(3, 5, 7, seed=1), torch.tensor([[1, 2, 3, 4, 0], [6, 0, 0, 0, 0], [5, 5, 5, 5, 5]])
    wanted = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=0, label_smoothing=eps)
    assert torch.allclose(checks.smoothed(logits, targets, eps, 0), wanted, atol=1e-5)


def corpora():
    """Made-up hypotheses with their references, among them empty ones and some without a match of four words."""
    draw, words = random.Random(0), "abcdefg"
    for count in (1, 2, 5, 9):
        for keep in (0.4, 0.7, 0.95):
            references = [[draw.choice(words) for _ in range(draw.randint(1, 12))] for _ in range(count)]
            yield [[w for w in one if draw.random() < keep] for one in references], references
            yield [[w if draw.random() < keep else "x" for w in one] + ["y"] for one in references], references


def test_bleu_is_that_of_sacrebleu():
    scores = []
    for hypotheses, references in corpora():
        texts = [[" ".join(words) for words in side] for side in (hypotheses, references)]
        with_none = {"tokenize": "none", "smooth_method": "none", "force": True}
        wanted = sacrebleu.corpus_bleu(texts[0], [texts[1]], **with_none).score
        scores.append(wanted)
        assert checks.bleu_of(hypotheses, references) == pytest.approx(wanted, abs=1e-6)
        rows = [
            [0.0, len(other), *3 * [len(one), *train.matches(one, other)]]
            for one, other in zip(hypotheses, references, strict=True)
        ]
        run = Run(SMOKE[translation.PLAIN].plain(), 1, [], rows, [], [])
        for metric in translation.METRICS:
            assert metric.of(run) == pytest.approx(wanted, abs=1e-6)
    assert 0 in scores and max(scores) > 50


def test_chrf_is_that_of_sacrebleu():
    for hypotheses, references in corpora():
        # sacrebleu leaves out a translation's n-grams where its reference is shorter than n: none is here.
        texts = [
            [" ".join(f"{word}{word}q" * 2 for word in words) for words in side] for side in (hypotheses, references)
        ]
        wanted = sacrebleu.corpus_chrf(texts[0], [texts[1]]).score
        assert checks.chrf_of(*texts) == pytest.approx(wanted, abs=1e-6)


def test_beams_are_greedy_or_exhaustive_at_their_ends():
    for seed in range(5):
        table = checks.tables(seed, 7, 3)
        tokens, total, step = [0], 0.0, toys.Continues(table)
        while len(tokens) < 5:
            scores = step([tokens])[0]
            tokens.append(int(scores.argmax()))
            total += float(scores.max())
            if tokens[-1] == 1:
                break
        found = checks.searched(table, 0, 1, 1, 4, 0.0)
        assert found[0] == [one for one in tokens[1:] if one != 1] and found[1] == pytest.approx(total, abs=1e-5)
        best, wanted = checks.searched(table, 0, 1, 81, 4, 1.0), checks.exhaustive(table, 0, 1, 4, 1.0)
        assert best[0] == wanted[0] and best[1] == pytest.approx(wanted[1], abs=1e-5)


# Data


@pytest.mark.parametrize("language", ["fr", "de", "ja"])
def test_cldr_has_sentences_in_both_languages(language):
    pairs, again = (parallel.load("cldr", "train", 50, language) for _ in range(2))
    assert pairs == again and len({tuple(english) for english, _ in pairs}) == 50
    assert not {tuple(one) for one, _ in pairs} & {
        tuple(one) for one, _ in parallel.load("cldr", "test", 999, language)
    }
    assert sum(english != other for english, other in pairs) > 45
    assert not any("length-meter" in " ".join(other) for _, other in pairs)


def test_what_cldr_does_not_know_is_said():
    with pytest.raises(ValueError, match="does not know the language 'klingon'"):
        parallel.load("cldr", "train", 5, "klingon")
    with pytest.raises(ValueError, match="there is no dev of 'cldr'"):
        parallel.load("cldr", "dev", 5)
    with pytest.raises(ValueError, match="has 1000 sentences, not 1001"):
        parallel.load("cldr", "test", 1001)


def test_multi30k_is_read_as_the_hub_has_it(tmp_path, monkeypatch):
    (tmp_path / "multi30k").mkdir()
    rows = [{"en": "Two dogs run.", "de": "Zwei Hunde laufen."}, {"en": "A cat's toy", "de": "Ein Spielzeug"}]
    (tmp_path / "multi30k" / "train.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    found = parallel.load("multi30k", "train", 2, "de", tmp_path)
    wanted = [
        (["two", "dogs", "run", "."], ["zwei", "hunde", "laufen", "."]),
        (["a", "cat'", "s", "toy"], ["ein", "spielzeug"]),
    ]
    assert sorted(found) == sorted(wanted)
    with pytest.raises(ValueError, match="has 2 sentences, not 3"):
        parallel.load("multi30k", "train", 3, "de", tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(FileNotFoundError, match=r"multi30k/test\.jsonl and name that folder in COURSE_DATA"):
        parallel.load("multi30k", "test", 1, "de", tmp_path)


# Experiments


def test_experiments_of_all_sizes():
    sizes = [translation.experiments(profile=one) for one in ("smoke", "cpu", "gpu")]
    made = [one for some in sizes for one in some.values()]
    assert len({one.digest() for one in made}) == len(made) == 3 * len(translation.ARMS)
    assert all([*some] == [*translation.ARMS] for some in sizes)
    assert [one.made_up for one in made] == [one.task == "made-up-language" for one in made]
    for notebook, profile in (("05_seed_variance", "cpu"), (translation.NOTEBOOK, "tpu")):
        with pytest.raises(ValueError, match="no experiments of"):
            translation.experiments(notebook, profile)


@pytest.mark.parametrize(
    "changes, says",
    [({"steps": 7}, "a multiple of 6"), ({"examples": 10**6}, "drawn from"), ({"start": "old"}, "starts")],
)
def test_what_cannot_be_run_is_refused(changes, says):
    with pytest.raises(ValueError, match=says):
        dataclasses.replace(SMOKE[translation.FUSED], **changes)


def test_each_arm_has_the_best_rate_of_the_recorded_search():
    """Inside the range that was tried."""
    search = script(course.ROOT / "solutions" / "13_translation" / "search.py")
    rows = [*rate_search.load(translation.SEARCH).values()]
    arms = search.arms()
    assert {row["arm"] for row in rows} == {*arms} and {row["seed"] for row in rows} == {*search.SEEDS}
    for name, one in arms.items():
        scores = rate_search.means(rows, name)
        rates = sorted(values[0] for values in scores)
        assert [one.lr, one.first_lr][: len(next(iter(scores)))] == [*rate_search.best(rows, name)], name
        assert rates[0] < one.lr < rates[-1], name
    card = (course.ROOT / "data" / "README.md").read_text()
    for line in rate_search.table(translation.SEARCH, {name: rate_search.best(rows, name) for name in arms}):
        assert line in card, line


def test_the_recorded_runs_show_what_notebook_13_says_of_them():
    arms = translation.experiments(profile="cpu") | translation.controls()
    found, refused = examine(read_files(translation.RECORDED), arms.values(), range(1, 6), whole=True)
    assert not refused and {name: len(some) for name, some in found.items()} == dict.fromkeys(arms, 5)
    folders = {path.name for path in translation.RECORDED.iterdir()}
    assert folders == {arms[name].folder("").name for name in found}
    assert forgery.suspicious(arms.values(), found, {}) == ([], [])
    assert forgery.counted_again(arms.values(), found, {}) == ([], [])
    text = re.sub(r"[\s#]+", " ", (course.ROOT / "solutions/13_translation/notebook.py").read_text())
    shown = {(one.first, one.second.split(": ")[-1]) for one in translation.compared(found) if one.shown}
    assert shown == {
        ("few pairs: beams, length penalty", translation.PENALISED),
        ("few pairs: beams", translation.PENALISED),
    }
    assert "with few 70: a difference that is shown" in text
    assert "ahead of greedy search, which is not shown; the penalty itself changes BLEU by 1.6" in text
    cold, warm, layer, _ = translation.compared(found, translation.CONTROL_PAIRS, ways=False)
    assert not (cold.shown or warm.shown or layer.shown) and cold.difference < 0 < warm.difference
    assert "Nor is a BERT shown to help if it is there from the start" in text
    assert layer.first.startswith(translation.LAYER) and abs(layer.difference) < 0.1
    assert "the last layer is level with the first" in text
    bleu = translation.METRICS[translation.DECODINGS.index(translation.PENALISED)]
    by_seed = {
        name: {run.seed: bleu.of(run) for run in found[name]} for name in (translation.FUSED, translation.DROPPED)
    }
    assert all(by_seed[translation.DROPPED][seed] < score for seed, score in by_seed[translation.FUSED].items())
    assert "It is behind with each of the five seeds" in text
    others = {arms[name].lr for name in found if arms[name].first_steps and name != translation.DROPPED}
    assert arms[translation.DROPPED].lr == pytest.approx(10 * max(others)) and len(others) == 1
    assert "Its learning rate, the best of its own search, is ten times that of the other arms that continue" in text
    trials = {name: translation.trials(name) for name in arms}
    best = {
        name: max(sum(trials[name][rate, seed] for seed in (101, 102)) / 2 for rate, _ in trials[name])
        for name in arms
        if arms[name].first_steps
    }
    assert max(best.values()) - min(best.values()) < 0.6 and "all arms that continue are also level" in text
    assert "is not shown (p = 0.070), and in the search the two are level" in text
    on_one_core = {name for name, some in found.items() if {run.device.partition(",")[0] for run in some} == {"cpu"}}
    assert on_one_core == {name for name in found if arms[name].first_steps}
    assert 'Those that continue "few pairs" were trained on one core' in text
    pairs = [(translation.CONTINUED, translation.FUSED), (translation.RANDOM, translation.FUSED)]
    assert not any(one.shown for one in translation.compared(found, pairs, ways=False))
    assert (
        "With five seeds no difference is shown" in text and "So nothing here shows that BERT's knowledge helps" in text
    )
    (knows,) = translation.compared(found, [(translation.CONTINUED, translation.BETTER)], ways=False)
    assert not knows.shown and abs(knows.difference) < 0.1 and {*arms} == {*found}
    assert "No difference is shown. According to the interval, it adds at most 1.0 BLEU." in text
    assert "The third attends to an encoder that has learned this very task" in text


NEAR = (translation.FUSED, translation.RANDOM)


def test_arms_that_continue_one_model_are_near_without_a_copy(honest):
    """A random BERT of low rate changes little: recorded runs of one seed have a correlation of 0.9996."""
    arms = translation.experiments(profile="cpu")
    found, _ = examine(read_files(translation.RECORDED), [arms[name] for name in NEAR], (1, 2), whole=True)
    near = {name: found[name][0] for name in NEAR}
    assert np.corrcoef(*(run.outputs.ravel() for run in near.values()))[0, 1] > forgery.NEAR
    kept = [arms[name] for name in NEAR]
    assert forgery.suspicious(kept, {name: [run] for name, run in near.items()}, {}) == ([], [])
    other = dataclasses.replace(near[NEAR[1]], seed=found[NEAR[0]][1].seed)  # another seed: nothing explains it
    (told,) = forgery.suspicious(kept, {NEAR[0]: [near[NEAR[0]]], NEAR[1]: [other]}, {})[1]
    assert "with noise" in told


def test_many_pairs_are_better_than_few_in_smoke(honest):
    values = {
        name: [translation.METRICS[0].of(parse(text)) for text in files_of(honest, one).values()]
        for name, one in SMOKE.items()
    }
    assert np.mean(values[translation.MANY]) > np.mean(values[translation.PLAIN]) + 20


def test_honest_runs_pass_and_nobody_suspects_them(honest):
    verdict, against, unsure = over_seeds.verdict_on(read_files(honest), ["smoke"], NO_STANDING)
    assert (verdict.outcome, verdict.score, against, unsure) == (Outcome.PASSED, 4, [], [])


def edited(place, value):
    """A change of one entry of the first row."""
    return lambda rows: [[*rows[0][:place], value(rows[0]), *rows[0][place + 1 :]], *rows[1:]]


@pytest.mark.parametrize(
    "says, change",
    [
        ("29 sentences instead of 30", lambda rows: rows[1:]),
        ("not a loss and counts", lambda rows: [row[:-1] for row in rows]),
        ("not a loss and counts", edited(0, lambda row: 1)),
        ("not a loss and counts", edited(4, lambda row: -1)),
        ("more matches than it or its reference", edited(3, lambda row: 1 + row[1])),
        ("more long n-grams", lambda rows: [[*row[:3], 0, max(1, row[4]), *row[5:]] for row in rows]),
    ],
)
def test_what_no_run_holds_is_refused(honest, says, change):
    files = read_files(honest)
    name = next(iter(files_of(honest, SMOKE[translation.MANY])))
    forged = changed(files, name, predictions=change(parse(files[name]).predictions))
    verdict, against, _ = over_seeds.verdict_on(forged, ["smoke"], NO_STANDING)
    assert verdict.score == 0 and says in against[0], against


def test_ways_to_translate_are_told_apart(honest):
    runs = {name: [parse(text) for text in files_of(honest, one).values()] for name, one in SMOKE.items()}
    every = translation.decoded(runs)
    assert len(every) == 3 * len(runs)
    for name, some in runs.items():
        for way, metric in zip(translation.DECODINGS, translation.METRICS, strict=True):
            assert [translation.METRICS[0].of(run) for run in every[f"{name}: {way}"]] == [
                metric.of(run) for run in some
            ]
    found = translation.compared(runs)
    assert [(one.first, one.second) for one in found] == translation.questions(runs) and len(found) == 9
    assert all(one.among == 9 for one in found)


# One run


SEED = SEEDS[0]  # which `honest` trained here: what an arm continues is kept of it


@pytest.fixture(scope="module")
def of_seed(honest):
    """A run of each arm with few pairs."""
    some = (translation.DROPPED, translation.PLAIN, translation.FUSED)
    return {name: load_runs(SMOKE[name], honest, [SEED])[SEED] for name in some}


def test_a_run_is_the_same_whatever_was_run_before(of_seed):
    one, first = SMOKE[translation.DROPPED], of_seed[translation.DROPPED]
    again = one.run_seed(SEED)
    assert first.predictions == again.predictions and first.curve == again.curve
    assert one.run_seed(8).predictions != first.predictions


def test_a_bert_is_read_and_not_changed(of_seed):
    one = SMOKE[translation.FUSED]
    assert len({run.digest() for run in of_seed.values()}) == 3
    trained, _ = train.train(one, SEED, torch.device("cpu"))
    assert not any(part.requires_grad for part in trained.bert.values())
    assert {one.own is not None and one.bert is not None for one in mixed(trained.model)} == {True}


def test_an_arm_continues_the_model_without_a_bert(honest):
    """With a rate of zero it is that model; only the attention to the BERT is new, and the pairs are the same."""
    first = train.trained_once(SMOKE[translation.CONTINUED].first, SEED, CPU)
    assert first is train.trained_once(SMOKE[translation.FUSED].first, SEED, CPU)
    one = dataclasses.replace(SMOKE[translation.CONTINUED], steps=6, lr=1e-30)
    same, _ = train.train(one, SEED, CPU)
    for name, part in first.model.state_dict().items():
        assert torch.equal(part, same.model.state_dict()[name])
    assert same.sources.words == first.sources.words and same.targets.words == first.targets.words
    fused, _ = train.train(dataclasses.replace(SMOKE[translation.FUSED], steps=6, lr=1e-30), SEED, CPU)
    new = {*fused.model.state_dict()} - {*first.model.state_dict()}
    assert new and all(".bert." in name for name in new)
    known = first.model.state_dict()
    assert all(torch.equal(part, known[name]) for name, part in fused.model.state_dict().items() if name not in new)


def test_states_are_of_the_layer_and_the_weights_asked_for(honest):
    one = SMOKE[translation.FUSED]
    words = train.text(one.task, one.language, one.pool, one.test).test[0][0]
    found = []
    for changes in ({}, {"state": 1}, {"start": "random"}):
        frozen = train.frozen_of(dataclasses.replace(one, **changes))
        found.append(train.states(frozen, CPU)[tuple(words)])
    assert len({tuple(part.flatten().tolist()) for part in found}) == 3
    better = dataclasses.replace(one, encoder=translation.TRANSLATOR)
    assert better.translator.examples == one.pool and better.translator.steps == one.first_steps
    learned = train.translator_states(better, SEED, CPU)[tuple(words)]
    assert learned.shape == (len(words) + 1, one.width) and not learned.requires_grad


def test_words_that_no_model_of_few_pairs_can_write():
    """Counted again: those that do not occur twice among the pairs of the seed."""
    one = SMOKE[translation.PLAIN]
    share, score = train.reachable(one, 3)
    known = train.text(one.task, one.language, one.pool, one.test)
    drawn = random.Random(3).sample(known.pool, one.examples)
    said = [word for _, other in drawn for word in other]
    wanted = [word for _, other in known.test for word in other]
    assert share == pytest.approx(sum(said.count(word) > 1 for word in wanted) / len(wanted))
    assert (share == 1) is (score == pytest.approx(100))
    few = dataclasses.replace(one, batch=2, examples=2)
    assert train.reachable(few, 3)[0] < 1 and train.reachable(few, 3)[1] < 100


def mixed(model):
    return [part for part in model.modules() if isinstance(part, train.Mixed)]


def test_where_a_model_looks_is_a_share_of_the_source(honest, monkeypatch):
    monkeypatch.setenv("COURSE_PROFILE", "smoke")
    maps = train.attention_maps(SEED)
    assert [*maps] == [translation.MANY, translation.PLAIN]
    for source, words, weights in maps.values():
        assert weights.shape == (len(words), len(source)) and source[-1] == words[-1] == "<eos>"
        assert np.allclose(weights.sum(1), 1, atol=1e-5)


# Whose functions


def test_the_notebook_offers_the_functions_that_runs_use():
    assert {*own.offered("13")} == {*NAMES}


def test_runs_with_the_solutions_functions_are_the_courses(of_seed, capsys):
    one, plain = SMOKE[translation.DROPPED], of_seed[translation.DROPPED]
    called = own.use_counted(own.solutions("13", NAMES))
    assert one.run_seed(SEED).predictions == plain.predictions
    assert {*called} == {*NAMES} and called["beam_search"] > 3 * one.test
    assert "instead of yours" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "name, function",
    [
        ("translation_batch", lambda pairs, bos, eos, pad: tuple(torch.zeros(2, 2) for _ in range(3))),
        ("beam_search", lambda step, bos, eos, beams, max_len, alpha: ([5], 0.0)),
        ("drop_net", lambda own, bert, p, training, generator: own),
    ],
)
def test_functions_that_do_something_else_are_left(name, function, of_seed, capsys):
    one, plain = SMOKE[translation.DROPPED], of_seed[translation.DROPPED]
    own.use(**{name: function})
    assert one.run_seed(SEED).predictions == plain.predictions
    assert f"the course's `{name}` instead of yours" in capsys.readouterr().out


def test_seeds_resume(tmp_path):
    short = dataclasses.replace(SMOKE[translation.PLAIN], steps=24)
    first = run_seeds(short, [1], tmp_path)
    again = run_seeds(short, [1, 2], tmp_path)
    assert again[0] == first[0] and again[1].predictions != first[0].predictions
