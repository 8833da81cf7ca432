"""The recorded runs are what the course says of them, and docs/results.md shows their tables."""

import importlib
import re
from pathlib import Path

import numpy as np
import pytest
from helpers import whole_runs

from autograder import course, synthetic
from autograder.author import record_runs
from autograder.reports import report
from utils.experiments import extrapolation, forgery, pretraining, rte, tagging, transfer
from utils.experiments.experiment import path_of, read_files
from utils.experiments.rte.spec import PairExperiment
from utils.experiments.runs import RECORDED_SEEDS, load_runs, load_table
from utils.experiments.seed_table import SeedTable
from utils.grading.evidence import examine

ROOT = Path(__file__).resolve().parents[2]


ENTRIES = [entry for entry in course.load().notebooks if entry.has_experiments]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_the_made_up_class_has_its_runs(entry):
    """Those of today's experiments and no other: else each demonstration would train them."""
    experiments = entry.experiments_of("smoke").values()
    wanted = {path_of(one, seed, synthetic.RUNS / entry.name) for one in experiments for seed in RECORDED_SEEDS}
    assert wanted == {path for path in (synthetic.RUNS / entry.name).rglob("*") if path.is_file()}
    for one in experiments:
        assert [*load_runs(one, synthetic.RUNS / entry.name)] == [*RECORDED_SEEDS]


@pytest.mark.parametrize("notebook", [rte.SEED_VARIANCE, rte.ADAPTER_FUSION])
def test_five_seeds_of_every_experiment_stand_up_to_the_check(notebook):
    files = read_files(rte.RECORDED)
    runs, refused = examine(files, rte.experiments(notebook, "cpu").values(), range(1, 6))
    assert not refused
    assert all(len(some) == 5 and len(some[0].labels) == 277 for some in runs.values())
    assert all(run.majority == pytest.approx(146 / 277) for some in runs.values() for run in some)


def test_no_file_is_left_over():
    wanted = {
        one.folder("").name
        for notebook in (rte.SEED_VARIANCE, rte.ADAPTER_FUSION)
        for one in rte.experiments(notebook, "cpu").values()
    }
    assert {path.name for path in rte.RECORDED.iterdir()} == wanted
    on_sick = {one.folder("").name for one in rte.on_sick().values()}
    assert {path.name for path in rte.RECORDED_ON_SICK.iterdir()} == on_sick


def test_two_arms_are_recorded_on_sick():
    """As many seeds, pairs and epochs as on RTE, the same 500 validation pairs, three classes, no run that gave up."""
    found = rte.recorded_on_sick()
    (labels,) = {tuple(run.labels) for some in found.values() for run in some}
    assert len(labels) == 500 and {*labels} == {0, 1, 2}
    arms = rte.experiments(rte.ADAPTER_FUSION, "cpu")
    for name, some in found.items():
        assert [run.seed for run in some] == [*RECORDED_SEEDS] and not any(run.degenerate for run in some)
        on_rte = arms[name.removesuffix(", SICK")]
        for key in ("train_examples", "epochs", "batch", "max_len", "method", "start", "encoder"):
            assert all(run.experiment[key] == on_rte.plain()[key] for run in some)


def test_the_results_page_shows_the_recorded_tables():
    text = (ROOT / "docs" / "results.md").read_text()
    for notebook in (rte.SEED_VARIANCE, rte.ADAPTER_FUSION):
        rows = SeedTable(rte.recorded(notebook)).frame()
        for name, row in rows.iterrows():
            line = f"| {name} | {row['mean, %']:.2f} ± {row['sd, points']:.2f} | "
            line += f"{row['95% from, %']:.1f} to {row['95% to, %']:.1f} | {int(row['degenerate runs'])} |"
            assert line in text, line
    for name, row in SeedTable(rte.recorded_on_sick()).frame().iterrows():
        assert f"| {name} | {row['mean, %']:.2f} ± {row['sd, points']:.2f} | " in text, name
    assert all(figure in text for figure in rte.PUBLISHED.values())
    made = [SeedTable(rte.recorded(notebook)).comparisons() for notebook in (rte.SEED_VARIANCE, rte.ADAPTER_FUSION)]
    shown = [one for some in made for one in some if one.first == "pretrained"]
    assert len(shown) == 3
    for one in shown:
        assert str(one) in re.sub(r"\s+", " ", text), one


def test_the_results_page_ends_with_every_recorded_table(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    importlib.import_module("result_tables").write(tmp_path)
    page = (tmp_path / "results.md").read_text()
    rows = 0
    for entry in ENTRIES:
        part = page.split(f"### {entry.number} ")[1].split("### ")[0]
        for table in report.recorded_tables(entry):
            digits, unit = table.metric.digits, table.metric.unit
            assert f"| {table.metric.name}, {unit} |" in part
            for name, row in table.frame().iterrows():
                mean, sd = row[f"mean, {unit}"], row[f"sd, {table.metric.difference_unit}"]
                assert f"| {name} | {len(table.runs[name])} | {mean:.{digits}f} ± {sd:.{digits}f} |" in part
                rows += 1
    assert rows > 100 and page.count("difference is shown") > 40
    assert "{include} generated/results.md" in (ROOT / "docs" / "results.md").read_text()


def test_the_recorded_schemes_show_what_notebook_02_says_of_them():
    """Any order beats none at the trained length, and rotary is best; beyond, three are worse than counting."""
    runs = load_table(extrapolation.experiments("02_positional_encoding", "cpu"), extrapolation.RECORDED)
    assert [*runs] == [*extrapolation.SCHEMES] and {len(some) for some in runs.values()} == {3}
    near, *_, far = (SeedTable(runs, metric) for metric in extrapolation.METRICS)
    found = {(one.first, one.second): one for one in near.comparisons()}
    assert all(found["none", name].shown and found["none", name].difference < 0 for name in [*runs][1:])
    others = {"none", "sinusoidal", "learned", "ALiBi"}
    against = [one for pair, one in found.items() if "rotary" in pair]
    assert len(against) == len(others) and all(one.shown for one in against)
    assert near.frame()["mean, nats"].idxmin() == "rotary"
    counting = extrapolation.baseline()
    worse = far.frame()["min, nats"][["sinusoidal", "learned", "rotary"]]
    assert (worse > counting).all() and (far.frame()["max, nats"][["none", "ALiBi"]] < counting).all()
    assert far.frame()["mean, nats"].idxmin() == "ALiBi"
    alibi = [[metric.of(run) for metric in extrapolation.METRICS] for run in runs["ALiBi"]]
    assert all(0 < losses[-1] - losses[0] < 0.1 and losses == sorted(losses) for losses in alibi)  # loses a little
    assert all(one.examples == 0 and "on these examples alone" in str(one) for one in far.comparisons())


def test_the_recorded_transfers_show_what_notebook_04_says_of_them():
    """In French no difference, and neither arm beats the majority; on films with 100 examples, it was still rising."""
    tables = {}
    for task in transfer.TASKS:
        runs = transfer.recorded(task)
        assert {len(some) for some in runs.values()} == {5} and len(runs) >= 4
        tables[task] = SeedTable(runs)
    folders = {one.folder("").name for task in transfer.TASKS
               for one in transfer.experiments("04_head_swapping", "cpu", task=task).values()}  # fmt: skip
    assert {path.name for path in transfer.RECORDED.iterdir()} == folders
    french = tables["french_books"]
    found = french.compared(transfer.pairs(french.runs))
    assert len(found) == 2 and not any(one.shown for one in found)
    assert len(french.remarks()) == 4 and all("not shown to be better than" in one for one in french.remarks())
    for task in ("documentation", "polarity"):
        runs = tables[task].runs
        found = tables[task].compared(transfer.pairs(runs))
        assert len(found) == 3 and all(one.shown and one.difference > 15 for one in found)
    films = tables["polarity"].runs
    chosen = [transfer.best_epochs(films)[pretrained] for _, pretrained in transfer.pairs(films)]
    assert transfer.counts_of(films)[0] == 100 and chosen[0] == 20 and max(chosen[1:]) < 20
    lines, _ = transfer.curves(films, 100)
    assert lines["pretrained"][-1] == max(lines["pretrained"])


@pytest.mark.parametrize("notebook", [rte.SEED_VARIANCE, rte.ADAPTER_FUSION])
def test_what_is_recorded_is_not_run_again(notebook, monkeypatch, capsys):
    """`autograder record 05`, to its end: it needs no student's name."""
    monkeypatch.setenv("COURSE_PROFILE", "smoke")  # to be set back: recording sets it
    known = course.load()
    monkeypatch.setattr(PairExperiment, "run_seed", None)  # to train would be an error
    (table, *_) = record_runs.record(known, known.notebook(notebook))
    assert {name: len(runs) for name, runs in table.runs.items()} == dict.fromkeys(rte.experiments(notebook), 5)


@pytest.mark.skipif(not pretraining.RECORDED.is_dir(), reason="the runs of notebook 07 are not recorded yet")
def test_the_recorded_models_show_what_notebook_07_says_of_them():
    """Level at [MASK] and far apart elsewhere; from nothing, left to right is far ahead; nobody would suspect them."""
    experiments = pretraining.experiments(profile="cpu")
    runs, refused = examine(read_files(pretraining.RECORDED), experiments.values(), range(1, 6), whole=True)
    assert not refused and {len(some) for some in runs.values()} == {5}
    assert {path.name for path in pretraining.RECORDED.iterdir()} == {
        one.folder("").name for one in experiments.values()
    }
    assert forgery.suspicious(experiments.values(), runs, {}) == ([], [])
    at_mask, kept, changed = (
        {name: np.array([metric.of(run) for run in some]) for name, some in runs.items()}
        for metric in pretraining.METRICS
    )
    bert, masked, keeps, replaces = pretraining.ROWS
    level = [at_mask[name].mean() for name in pretraining.ROWS]
    assert 0.05 < max(level) - min(level) < 0.15
    behind = SeedTable({name: runs[name] for name in pretraining.ROWS}, pretraining.METRICS[0]).compared(
        (bert, other) for other in (masked, keeps, replaces)
    )
    assert [one.shown for one in behind] == [True, False, True] and all(one.difference > 0 for one in behind)
    for name in (masked, replaces):  # it loses even more at what it can read than at what is hidden
        assert (kept[name] > at_mask[name]).all() and (kept[name] > kept[bert] + 2).all()
    for name in (bert, masked, replaces):
        assert kept[keeps].max() < kept[name].min() and changed[keeps].min() > changed[name].max() + 0.5
    first, left = pretraining.FROM_NOTHING
    assert round(at_mask[first].mean() - at_mask[left].mean(), 1) == 0.9
    curves = [[point["train_loss"] for point in run.curve] for run in runs[first]]
    assert all(curve[1] - curve[-1] < 0.5 for curve in curves)  # it has hardly left the counting


def test_honest_losses_of_notebook_07_are_far_from_what_is_suspicious():
    """Two students with their own seeds are as unlike as these runs are: no bound is near."""
    runs = [run.outputs for some in whole_runs(pretraining).values() for run in some]
    straight, ranked, in_order, _ = forgery.shapes(np.array(runs))
    upper = np.triu_indices(len(runs), 1)
    assert max((rows @ rows.T)[upper].max() for rows in (straight, ranked)) < 0.99 < forgery.NEAR
    assert (in_order @ in_order.T)[upper].max() < 0.9996 < forgery.PERMUTED


def test_the_recorded_taggers_show_what_notebook_08_says_of_them():
    """A middle state is the best for both heads, and nobody would suspect the runs."""
    experiments = tagging.experiments(profile="cpu")
    runs, refused = examine(read_files(tagging.RECORDED), experiments.values(), range(1, 6), whole=True)
    assert not refused and {len(some) for some in runs.values()} == {5}
    folders = {one.folder("").name for one in experiments.values()}
    assert {path.name for path in tagging.RECORDED.iterdir()} == folders
    assert forgery.suspicious(experiments.values(), runs, {}) == ([], [])
    assert len({one.recorded_examples for one in experiments.values()}) == 1
    found = SeedTable(runs, tagging.METRICS[0]).compared(tagging.questions(runs))
    shown = {(one.first, one.second): one.difference for one in found if one.shown}
    mean = {name: np.mean([tagging.METRICS[0].of(run) for run in some]) for name, some in runs.items()}
    assert max(mean[name] for name in mean if name.startswith("linear")) == mean["linear, state 4"]
    assert abs(mean["linear, state 6"] - mean["linear, state 0"]) < 2
    for head, least in ((tagging.LINEAR, 10), (tagging.BILSTM, 5)):
        embeddings, middle, last = (f"{head}, state {state}" for state in (0, 4, 6))
        assert shown[embeddings, middle] > least and shown[middle, last] < -least
    assert all(shown[f"linear, state {state}", f"BiLSTM, state {state}"] > 10 for state in (0, 4, 6))
    assert 2 < shown["BiLSTM, state 4", tagging.FINE_TUNED] < 10
    assert mean[tagging.FROM_NOTHING] < mean["linear, state 4"] < mean["BiLSTM, state 4"]
    assert shown[tagging.FROM_NOTHING, tagging.FINE_TUNED] > 30
