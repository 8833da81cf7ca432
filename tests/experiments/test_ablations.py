"""Runs that come with the course and that no student makes: they are what the notebooks say of them."""

import functools
import importlib
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import script

from autograder.author import rate_search
from data import encoders, pairs
from utils.experiments import (
    choices,
    forgetting,
    lab,
    longer_context,
    objectives,
    papers,
    pretraining,
    recurrence,
    rte,
    scaling,
    sharing,
    smaller,
    spans,
    tagging,
    transfer,
)
from utils.experiments.choices import train as choices_trainer
from utils.experiments.lab import train as lab_trainer
from utils.experiments.longer_context import train as context_trainer
from utils.experiments.rte import train as rte_trainer
from utils.experiments.runs import load_runs
from utils.experiments.seed_table import SeedTable
from utils.experiments.tagging import train as tagging_trainer

ROOT = Path(__file__).resolve().parents[2]
SEEDS = [1, 2, 3, 4, 5]
RECORDED = {
    "04": (lab.RECORDED, lab.experiments),
    "05": (rte.RECORDED, lambda: rte.one_sentence("rte")),
    "05, SICK": (rte.RECORDED_ON_SICK, lambda: rte.one_sentence("sick")),
    "07": (pretraining.RECORDED_LONGER, pretraining.longer),
    "07, sizes": (pretraining.RECORDED_SIZES, pretraining.sizes),
    "08": (tagging.RECORDED, tagging.ways),
    "08, order": (tagging.RECORDED, tagging.shuffled),
    "08, heads": (choices.RECORDED, choices.experiments),
    "10": (longer_context.RECORDED, longer_context.crossing),
    "11": (spans.RECORDED, spans.arms),
    "12": (sharing.RECORDED, sharing.ablations),
}
WITH_STUDENTS_ARMS = ("05", "05, SICK", "08", "08, order", "10")  # in the same folder
ON_A_CORE = ("08, order", "12")


@pytest.mark.parametrize("group", RECORDED)
def test_each_has_five_seeds_of_one_text(group):
    folder, made = RECORDED[group]
    for one in made().values():
        runs = load_runs(one, folder)
        seeds = [*spans.SEEDS] if group == "11" else SEEDS
        assert sorted(runs) == seeds, one.name
        for run in runs.values():
            one.check(run, whole=False)
            assert run.device == ("cpu, 1 threads" if group in ON_A_CORE else "NVIDIA H200")
        assert len({run.versions.get("text") for run in runs.values()}) == 1
        assert len({run.digest() for run in runs.values()}) == len(seeds)


def test_no_folder_has_other_runs():
    alone = [group for group in RECORDED if group not in WITH_STUDENTS_ARMS]
    for folder, made in (RECORDED[group] for group in alone):
        assert {path.name for path in folder.iterdir()} == {one.folder("").name for one in made().values()}


def read(path):
    """A text with its line ends and comment signs as single spaces."""
    return re.sub(r"[\s#]+", " ", (ROOT / path).read_text())


def means(runs, metric):
    return {name: np.mean([metric.of(run) for run in some]) for name, some in runs.items()}


def by_pair(runs, metric, names):
    return {(one.first, one.second): one for one in SeedTable(runs, metric).compared(names)}


def test_the_recorded_ways_show_what_notebook_08_says_of_them():
    text, f1 = read("solutions/08_bert_heads/notebook.py"), tagging.METRICS[0]
    runs = tagging.recorded() | tagging.recorded_ways()
    found, mean = by_pair(runs, f1, tagging.ways_compared()), means(runs, f1)
    mixtures = ("concat last four", "weighted last four", "weighted all")
    shown = {way: found["linear, state 4", f"linear, {way}"].shown for way in mixtures}
    assert shown == {"concat last four": True, "weighted last four": False, "weighted all": False}
    assert found["linear, state 4", "linear, concat last four"].difference > 0
    assert "concatenated states are even better than the middle one, which is shown" in text
    assert not any(found["BiLSTM, state 4", f"BiLSTM, {way}"].shown for way in mixtures)
    assert "no mixture is shown to differ from the state in the middle" in text
    behind = [found[f"{head}, state 6", f"{head}, state 5"] for head in (tagging.LINEAR, tagging.BILSTM)]
    assert all(one.shown and one.difference > 7 for one in behind)
    paper = {name: value for name, (value, _) in tagging.TABLE_7.items()}
    assert [*paper.values()] == [91.0, 95.6, 94.9, 95.9, 96.1, 95.5, 96.4]
    assert 0 < paper["second-to-last"] - paper["last"] < 1
    assert (
        "In the paper it is less than a point behind the one before it; here it is far behind, for both heads" in text
    )
    assert mean["linear, state 4"] == max(mean[f"linear, state {state}"] for state in (0, 2, 4, 5, 6))
    table = tagging.table_7(runs)
    assert [*table.index] == [*tagging.TABLE_7, "state 4"] and (table.loc["last"] != "").all()


def test_the_recorded_orders_show_what_notebook_08_says_of_them():
    text, f1 = read("solutions/08_bert_heads/notebook.py"), tagging.METRICS[0]
    runs = tagging.recorded() | tagging.recorded_shuffled()
    found = by_pair(runs, f1, tagging.shuffled_compared())
    assert len(found) == 4 and all(one.shown and one.difference > 0 for one in found.values())
    assert "All four differences are shown. Without the order" in text
    for state in (0, 4):
        ordered, shuffled, linear = (
            f"BiLSTM, state {state}", f"BiLSTM, state {state}, shuffled", f"linear, state {state}",
        )  # fmt: skip
        assert found[shuffled, ordered].difference > 1.5 * found[linear, shuffled].difference
        last = [[run.curve[-1]["train_loss"] for run in runs[name]] for name in (ordered, shuffled)]
        assert max(last[0]) < min(last[1])
        assert tagging.shuffled()[shuffled].lr == tagging.experiments(profile="cpu")[ordered].lr
    gains = [found[f"BiLSTM, state {state}, shuffled", f"BiLSTM, state {state}"].difference for state in (0, 4)]
    assert gains[0] > gains[1]
    assert "So by this control, most of what it adds comes from order. It adds less in the middle" in text
    assert "The training loss ends higher with it" in text


def test_the_recorded_heads_show_what_notebook_08_says_of_them():
    text, runs = read("solutions/08_bert_heads/notebook.py"), choices.recorded()
    metric = next(iter(choices.experiments().values())).metrics[0]
    found, mean = by_pair(runs, metric, choices.questions()), means(runs, metric)
    assert round(mean["choice, pretrained"]) == 78 and abs(mean["choice, endings alone"] - 25) < 2
    assert "in 78% of the questions, where chance is one in four. With endings alone it is at chance" in text
    assert 25 < mean["choice, random weights"] < 30 and "learns next to nothing in so few steps" in text
    fitted = {name: np.mean([run.curve[-1]["train_loss"] for run in some]) for name, some in runs.items()}
    assert fitted["choice, random weights"] > 1.2 > 0.5 > fitted["choice, pretrained"]
    assert "it does not fit its training questions either" in text
    assert [one.shown for one in found.values()] == [True, True, False, False, False]
    assert "No difference between the four vectors is shown" in text
    assert round(found[choices.MEAN, choices.READ].crossed[1]) == 1 and "it is ahead by a point at most" in text
    rates = {name: made.lr for name, made in choices.experiments().items()}
    assert rates[choices.MEAN] == rates[choices.FIRST] != rates[choices.READ] == rates[choices.SHUFFLED]
    assert "the linear maps and the BiLSTMs have different rates" in text and "For this task and at these rates" in text
    vectors = [mean[name] for name in (choices.MEAN, choices.FIRST, choices.READ, choices.SHUFFLED)]
    assert max(vectors) - min(vectors) < 3 and min(vectors) > 3 * 100 / 6


def test_the_recorded_gradients_show_what_notebook_10_says_of_them():
    text, runs = read("solutions/10_longer_context/notebook.py"), longer_context.recorded_crossing()
    loss, first, second = (
        by_pair(runs, metric, longer_context.crossing_compared()).values() for metric in longer_context.METRICS
    )
    assert all(one.shown and one.difference < -1 for one in loss)
    assert [one.shown for one in first] == [True, False] and [one.shown for one in second] == [False, True]
    places = {name: np.array([longer_context.by_place(run) for run in some]) for name, some in runs.items()}
    for period in (48, 80):
        one = longer_context.crossing()[f"period {period}, memory 32, crossing"]
        other = longer_context.crossing()[f"period {period}, memory 32, detached"]
        assert {**one.plain(), "name": "", "cross": False} == {**other.plain(), "name": ""} and one.every == 4
        usual = longer_context.experiments(profile="cpu")[f"period {period}, memory 32"]
        assert one.steps == 8 * usual.steps and "They read eight times as many segments as yours." in text
    late = places["period 80, memory 32, crossing"][:, 15:].mean(1)
    assert late.max() < 2 and sum(late < 0.1) == 3
    assert "from place 15 on with every seed: with three of five to nearly nothing, with two in part" in text
    assert abs(places["period 80, memory 32, detached"] - np.log(16)).max() < 0.1
    early = places["period 48, memory 32, crossing"][:, 1:15].mean(1)
    assert sum(early < 0.1) == 4 and early.max() > 2.7
    assert "four of the five seeds also learn the places before 15; the fifth ends as if it were detached" in text
    assert (
        sum(places["period 48, memory 32, crossing"][:, 0] > 2.7) == 2
        and "One of the four does not learn the very first" in text
    )
    assert (places["period 48, memory 32, detached"][:, :15] > 2.7).all()
    assert (places["period 80, memory 32, crossing"][:, :15].mean(1) > 2.7).all()
    assert "stays at guessing where the memory is detached, and falls from place 15 on" in text


def test_the_recorded_models_from_nothing_show_what_notebook_07_says_of_them():
    text, at_mask = read("solutions/07_bert_pretraining/notebook.py"), pretraining.METRICS[0]
    shares = SeedTable(pretraining.recorded_longer(), at_mask).compared(pretraining.shares_compared())
    assert len(shares) == 2 and all(one.shown and one.difference < -0.3 for one in shares)
    assert "the models with 30% and with 50% are ahead of the one with 15%" in text
    assert {made.lr for made in pretraining.longer().values()} == {1e-3}
    assert "all three models have one learning rate, which was not searched" in text
    runs, sizes = pretraining.recorded_sizes(), pretraining.sizes()
    assert [*runs] == [*sizes] and {one.width for one in sizes.values()} == {192} and 192 // 12 == 16
    found = {}
    for steps in pretraining.LENGTHS:
        pairs = pretraining.sizes_compared(steps)
        one, twelve, *layers = SeedTable(runs, at_mask).compared(pairs)
        found[steps] = one, twelve, layers
    one, twelve, layers = found[1500]
    assert one.shown and one.difference < 0 and twelve.shown and twelve.difference > 4 * -one.difference
    assert "one head of width 192 is 0.18 nats ahead of three heads" in text and "Both are shown" in text
    assert len(layers) == 3 and not any(pair.shown for pair in layers)
    assert "Between one, two, four and eight layers no difference is shown" in text
    one, twelve, layers = found[6000]
    assert not one.shown and not twelve.shown and "the order of the heads is no longer shown" in text
    assert [pair.shown for pair in layers] == [True, False, False] and abs(layers[1].difference) < 0.02
    assert "two layers are 0.15 nats ahead of one, which is shown. Four layers are level with two" in text
    four, eight = ({run.seed: at_mask.of(run) for run in runs[pretraining.name_of(n, 3, 6000)]} for n in (4, 8))
    assert all(eight[seed] < loss for seed, loss in four.items()) and "ahead of four with each seed" in text
    losses = [
        run.curve[-1]["train_loss"] for name, some in runs.items() if name.endswith("6,000 steps") for run in some
    ]
    assert len(losses) == 30 and max(losses) < 3 and "After 6,000 steps all have begun" in text
    assert pretraining.TABLE_6[6, 768, 12][0] < pretraining.TABLE_6[6, 768, 3][0]


def test_each_size_of_07_has_the_best_rate_of_its_recorded_search():
    search = script(ROOT / "solutions" / "07_bert_pretraining" / "search.py")
    rows, sizes = [*rate_search.load(pretraining.SEARCH).values()], pretraining.sizes()
    assert {row["arm"] for row in rows} == {*sizes} and {row["seed"] for row in rows} == {*search.SEEDS}
    for name, one in sizes.items():
        tried = [rate for (rate,) in rate_search.means(rows, name)]
        assert rate_search.best(rows, name) == (one.lr,) and one.head_lr == one.lr
        assert min(tried) < one.lr < max(tried) and max(tried) >= 10 * min(tried) and len(tried) >= 4
    lines = rate_search.table(pretraining.SEARCH, {name: [one.lr] for name, one in sizes.items()}, digits=2)
    assert all(line in (ROOT / "data" / "README.md").read_text() for line in lines)


def test_the_recorded_answers_show_what_notebook_11_says_of_them():
    text, runs = read("solutions/11_other_objectives/notebook.py"), spans.recorded()
    known, new = (SeedTable(runs, metric).compared(spans.compared()) for metric in spans.METRICS)
    assert [one.shown for one in known] == [False, False, True] and [one.shown for one in new] == [False, True, True]
    assert all(one.difference < 0 for one in (*known, *new)) and "Here blanks do harm" in text
    assert "**Spans against pieces.** No difference is shown" in text
    assert known[0].crossed[0] < 0 < known[0].crossed[1] and "The paper's gain of 1.3 points lies in it" in text
    page = read("docs/results.md").partition("What was not measured")[2]
    assert np.ptp(known[0].crossed) > 2 * 10 and "by less than ten points" in page
    assert f"their interval is {np.ptp(known[0].crossed):.0f} points wide" in page


def test_the_recorded_ablations_show_what_notebook_12_says_of_them():
    text, runs = read("solutions/12_smaller_models/notebook.py"), sharing.recorded()
    (loss,) = sharing.METRICS
    found, mean, arms = by_pair(runs, loss, sharing.questions()), means(runs, loss), sharing.ablations()
    nothing, attention, feed_forward, shared = (sharing.name_of(what) for what in sharing.SHARED)
    narrow = [sharing.name_of(sharing.NOTHING, width) for width in sharing.WIDTHS[1:]]
    one, none = sharing.SHALLOW
    assert len(found) == 7 and all(comparison.difference > 0 for comparison in found.values())
    all_of_it = found[nothing, shared]
    assert all_of_it.shown and "Sharing all parts costs 0.03 nats, which is shown" in text
    parts = [found[nothing, part] for part in (attention, feed_forward)]
    assert not any(part.shown for part in parts) and max(part.difference for part in parts) < all_of_it.difference
    assert "Sharing one part costs less, and that is not shown" in text
    worth = found[nothing, none]
    assert worth.shown and worth.difference > 5 * all_of_it.difference and "so sharing looks cheap" in text
    assert (arms[one].parameters, arms[one].layers) == (arms[shared].parameters, arms[shared].layers / 4)
    assert not found[one, shared].shown and mean[one] < mean[shared]
    assert "It is not shown to be worse, and its mean is even better" in text
    assert f"only {mean[one] - mean[nothing]:.2f} nats behind four separate layers" in text
    assert f"one layer is {mean[one] - mean[nothing]:.2f} nats behind four" in read("docs/results.md")
    costs = [found[nothing, name] for name in narrow]
    assert all(cost.shown for cost in costs) and round(costs[0].difference / worth.difference) == 3
    assert "more than three times as much as without any layer" in text
    assert min(smaller.WIDTHS_OF_PAPER) == 64 and "ALBERT's narrowest table is 64 wide" in text
    table = sharing.table(runs, smaller.SHARED_OF_PAPER)
    assert [*table.index] == [*runs] and [*table.iloc[:, -1]][:4] == ["81.6", "81.7", "80.2", "80.1"]
    assert (table.iloc[4:, -1] == "").all() and table.loc[one].iloc[0] == table.loc[shared].iloc[0] == "184,336"


def test_what_the_results_page_says_is_not_measured_is_not_recorded():
    """Of a run that is recorded later, the page has to be told."""
    text = read("docs/results.md").partition("What was not measured")[2].partition("On a GPU")[0]
    assert "after a training in which depth pays" in text
    assert {(one.steps, one.layers) for one in sharing.ablations().values()} == {(400, 4), (400, 1), (400, 0)}


def test_the_recorded_sentences_show_what_notebook_05_says_of_them():
    text = read("solutions/05_seed_variance/notebook.py")
    on_rte, sick = (SeedTable(rte.recorded_one_sentence(target)) for target in ("rte", "sick"))
    told = {one.second: one for table in (on_rte, sick) for one in table.against_baselines()}
    assert len(told) == 5 and [one.shown for one in told.values()] == [False, False, True, False, False]
    assert "On RTE neither sentence is shown to be better than the majority class" in text
    ahead = [100 * (run.accuracy - run.majority) for run in sick.runs["second sentence alone, SICK"]]
    assert (
        min(ahead) > 0 and round(np.mean(ahead)) == 2 and "ahead of it with each of five seeds, by two points" in text
    )

    parts = (rte.OPPOSITE, rte.SAME, rte.OTHERS)
    shared, recorded = rte.shared_premises(), rte.recorded(rte.SEED_VARIANCE)
    labels = recorded["random"][0].labels
    other = [labels[place] not in known for place, known in shared]
    assert (len(shared), sum(other)) == (24, 15) and "Fifteen of the twenty-four have only the other label" in text
    share = {
        start: {part: np.mean([run.shown[part][0] / run.shown[part][1] for run in some]) for part in parts}
        for start, some in recorded.items()
    }
    assert min(one[rte.SAME] for one in share.values()) > 0.75 and "there each start has 76% right or more" in text
    after = share["pretrained, then MNLI"]
    assert abs(after[rte.OPPOSITE] - after[rte.OTHERS]) < 0.03 and "is about as good at them as at all other" in text


def test_the_shared_sentences_are_those_of_the_data():
    """Their places and labels, where the data is at hand."""
    try:
        train, valid = (pairs.load("rte", split) for split in pairs.SPLITS)
    except (FileNotFoundError, OSError, ImportError):
        pytest.skip("RTE is not at hand")
    known = {}
    for sentence, label in zip(train.first, train.labels, strict=True):
        known.setdefault(sentence, []).append(label)
    wanted = [(place, sorted(known[one])) for place, one in enumerate(valid.first) if one in known]
    assert rte.shared_premises() == wanted


def test_the_recorded_curves_show_what_notebook_04_says_of_them():
    text, runs = read("solutions/04_head_swapping/notebook.py"), lab.recorded()
    metric = next(iter(lab.experiments().values())).metrics[0]
    found, mean = by_pair(runs, metric, lab.questions()), means(runs, metric)
    assert all(run.curve[-1]["train_loss"] < 0.05 and len(run.curve) == 15 for some in runs.values() for run in some)
    assert all(58 < value < 63 for value in mean.values()) and "at about three right answers in five" in text
    against = found[lab.SCRATCH, lab.PRETRAINED]
    assert not against.shown and against.crossed[1] < 0
    assert "not shown to be ahead of scratch: it is behind, and the interval leaves no room for a gain" in text
    assert len(json.loads((ROOT / "data/results/rte_shared_premises.json").read_text())) == 24


def test_the_recorded_steps_show_what_notebook_02_says_of_them():
    text, rows = read("solutions/02_positional_encoding/notebook.py"), recurrence.recorded()
    assert [(row["length"], row["kind"]) for row in rows] == [
        (length, kind) for length in recurrence.LENGTHS for kind in recurrence.KINDS
    ]
    assert {row["device"] for row in rows} == {"cpu, 1 threads"}
    assert 0.99 < rows[0]["parameters"] / rows[1]["parameters"] < 1.01
    seconds, kept = (
        np.array([[row[what] for row in rows if row["kind"] == kind] for kind in recurrence.KINDS])
        for what in ("seconds", "kept")
    )
    assert (seconds[0] < seconds[1]).all() and "On one core the LSTM is faster at every length" in text
    grown = [np.diff(np.log2(values)) for values in (seconds, kept)]  # 1: as fast as the text
    assert all(abs(both[0] - 1).max() < 0.35 for both in grown) and all(both[1].mean() > 1.2 for both in grown)
    assert "Its time and memory double with the text; attention's grow faster" in text
    assert (np.sign(kept[0] - kept[1]) == [1, 1, 1, -1, -1]).all()
    assert "It keeps less than the LSTM for short texts, and more for long ones" in text


def test_a_layer_keeps_the_weights_of_every_pair_and_an_lstm_does_not():
    """Twice the text: four times the weights, and twice all else."""
    kept = {kind: [recurrence.measure(kind, n, 1, 1, 16)["kept"] for n in (64, 128)] for kind in recurrence.KINDS}
    assert kept[recurrence.LSTM][1] < 2.1 * kept[recurrence.LSTM][0]
    more = kept[recurrence.ATTENDS][1] - 2 * kept[recurrence.ATTENDS][0]
    assert more >= 2 * recurrence.HEADS * 64 * 64 * 4  # bytes of the scores, less what doubles


def test_no_token_of_either_layer_sees_a_later_one():
    x = torch.randn(1, 6, 16, generator=torch.Generator().manual_seed(0))
    other = x.clone()
    other[:, 3:] += 1
    for kind in recurrence.KINDS:
        torch.manual_seed(0)
        layer = recurrence.layer_of(kind, 16)
        first, second = recurrence.forward(layer, x), recurrence.forward(layer, other)
        assert torch.allclose(first[:, :3], second[:, :3], atol=1e-6) and not torch.allclose(
            first[:, 3:], second[:, 3:]
        )


def test_the_card_has_the_rates_that_were_tried_for_notebook_04():
    card = read("data/README.md")
    assert all(f"{rate:g}" in "1e-4 3e-4 1e-3 0.0001 0.0003 0.001" for rate in lab.TRIED)
    assert "All arms have 3e-4" in card and {one.lr for one in lab.experiments().values()} == {3e-4}
    assert min(lab.TRIED) < 3e-4 < max(lab.TRIED)


def test_the_page_of_results_has_their_tables(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    importlib.import_module("result_tables").write(tmp_path)
    page = (tmp_path / "results.md").read_text()
    for module in (scaling, transfer, rte, pretraining, tagging, longer_context, smaller, forgetting, objectives):
        for title, runs, metrics, asked in module.also_shown():
            part = page.split(f"#### {title}\n")[1].split("\n### ")[0]
            for metric in metrics:
                rows = SeedTable(runs, metric).frame()
                assert all(
                    f"| {name} | {len(runs[name])} | {row.iloc[1]:.{metric.digits}f} ±" in part
                    for name, row in rows.iterrows()
                )
                assert all(f"- {one}" in part for one in SeedTable(runs, metric).compared(asked))
    assert page.count("#### ") == 13 + 3  # and the controls of 09 (two tables) and of 13


# What trains them


def test_a_mixture_is_one_state_if_its_scores_say_so():
    x = torch.randn(2, 3, 12)
    mixture = tagging_trainer.Mixture(3)
    assert torch.allclose(mixture(x), x.unflatten(-1, (3, 4)).mean(-2), atol=1e-6)
    with torch.no_grad():
        mixture.scores.copy_(torch.tensor([0.0, 50.0, 0.0]))
        mixture.gamma.fill_(2.0)
    assert torch.allclose(mixture(x), 2 * x[..., 4:8])
    mixture(x).sum().backward()
    assert mixture.gamma.grad is not None and mixture.scores.grad is not None


def test_gradients_cross_segments_in_one_arm_alone():
    """Both arms give the same, and remember the same; only one sends gradients into what it remembers."""
    arms = longer_context.crossing("smoke")
    detached, crossing = (arms[f"period 80, memory 32, {how}"] for how in ("detached", "crossing"))
    tokens = torch.randint(detached.symbols, (2, 2 * detached.length), generator=torch.Generator().manual_seed(0))
    found = []
    for one in (detached, crossing):
        torch.manual_seed(1)
        model = context_trainer.assembled(
            one,
            context_trainer.RelativeAttention,
            functools.partial(context_trainer.SegmentModel, detached=not one.cross),
        )
        _, memories = model(tokens[:, : one.length], None, one.mem_len)
        logits, _ = model(tokens[:, one.length :], memories, one.mem_len)
        found.append((logits, [memory.requires_grad for memory in memories]))
    assert torch.equal(found[0][0], found[1][0])
    assert not any(found[0][1]) and all(found[1][1])


def test_a_crossing_run_takes_a_step_for_each_group():
    one = replace(longer_context.crossing("smoke")["period 48, memory 32, crossing"], steps=40, texts=3)
    run = one.run_seed(1)
    one.check(run, whole=True)
    assert len(run.curve) == 10
    with pytest.raises(ValueError, match="whole groups"):
        replace(one, steps=42)


@pytest.mark.parametrize("reads", ["first", "second"])
def test_one_sentence_of_a_pair_is_left_blank(reads):
    one = next(some for some in rte.one_sentence("rte").values() if some.reads == reads)
    pair = pairs.Pairs("rte", ("yes", "no"), ["a b"], ["c"], [0], "here")
    read_pair = rte_trainer.read_by(one, pair)
    assert (read_pair.first, read_pair.second) == ((["a b"], [""]) if reads == "first" else ([""], ["c"]))
    assert rte_trainer.read_by(rte.experiments(rte.SEED_VARIANCE, "cpu")["pretrained"], pair) is pair


def test_endings_alone_are_read_without_the_sentence_before():
    asked = [("w1 w2", ("w3", "w4", "w5", "w6"), 2)]
    tokenizer = encoders.tokenizer("tiny")
    both, alone = (
        choices_trainer.rows_of(asked, choices.experiments()[name], tokenizer, torch.device("cpu"))["input_ids"]
        for name in ("choice, pretrained", "choice, endings alone")
    )
    known = tokenizer.convert_tokens_to_ids
    assert len(both) == len(alone) == 4 and known("w5") in alone[2]
    assert known("w1") in both[0] and known("w1") not in alone


def test_a_vector_of_a_sentence_does_not_depend_on_its_pads():
    x, lengths = torch.randn(2, 5, 6), torch.tensor([3, 5])
    x[0, 3:] = 0
    for name in (choices.MEAN, choices.FIRST, choices.READ):
        model = choices_trainer.Reader(choices.experiments()[name], 6, 3).eval()
        assert torch.allclose(model(x, lengths)[0], model(x[:1, :3], lengths[:1])[0], atol=1e-6)


def test_the_judge_reads_the_last_token_and_nothing_after_it():
    one = lab.experiments("smoke")[lab.SCRATCH]
    judge = lab_trainer.Judge(lab_trainer.Base(one, 30), 0.0).eval()
    row = torch.tensor([[0, 7, 8, 9]])
    padded = torch.nn.functional.pad(row, (0, 3), value=lab_trainer.PAD)
    assert torch.allclose(judge(row), judge(padded), atol=1e-5)
    assert not torch.allclose(judge(row), judge(torch.tensor([[0, 7, 8, 10]])), atol=1e-3)


def test_rates_are_chosen_on_reviews_that_no_other_run_has(monkeypatch):
    monkeypatch.setattr(lab_trainer.reviews, "polarity", lambda folder: [(f"review {n}", n % 2) for n in range(10_662)])
    learned, tested = lab_trainer.examples(lab.experiments()[lab.SCRATCH], None)
    (searched,) = {tuple(lab_trainer.examples(one, None)[1]) for one in lab.search()}
    assert (len(learned), len(tested), len(searched)) == (1600, 2000, 800)
    assert not {*searched} & {*learned, *tested}


def test_a_table_of_a_paper_stands_beside_ours():
    runs = tagging.recorded_ways()["BiLSTM, state 5"]
    table = papers.beside({"a": {"F1": 95.6}, "b": {}}, {"here": {"a": runs, "c": runs}}, tagging.METRICS[0])
    assert [*table.index] == ["a", "b", "c"] and table.loc["a", "F1"] == "95.6" and table.loc["c", "F1"] == ""
    assert table.loc["b", "here, %"] == "" and table.loc["a", "here, %"].startswith("53.0 (")
