"""The recorded runs are what the course says of them, and docs/results.md shows their tables."""

import hashlib
import importlib
import importlib.util
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import script, whole_runs
from scipy import stats

from autograder import course, synthetic
from autograder.author import build, record_runs
from autograder.intake import run_files
from autograder.reports import report
from data import encoders
from utils.experiments import extrapolation, forgery, pretraining, rte, tagging, transfer
from utils.experiments.experiment import parse, path_of, read_files
from utils.experiments.rte.spec import PairExperiment
from utils.experiments.runs import RECORDED_SEEDS, load_runs, load_table
from utils.experiments.seed_table import SeedTable
from utils.grading.evidence import examine

ROOT = Path(__file__).resolve().parents[2]


COURSE = course.load()
ENTRIES = [entry for entry in COURSE.notebooks if entry.has_experiments]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_the_made_up_class_has_its_runs(entry):
    """Those of today's experiments and no other: else each demonstration would train them."""
    experiments = entry.experiments_of("smoke").values()
    wanted = {path_of(one, seed, "").as_posix() for one in experiments for seed in RECORDED_SEEDS}
    known = run_files.unpack((synthetic.RUNS / f"{entry.name}.json").read_bytes())
    assert {*known} == wanted
    for experiment, runs in synthetic.runs_of(entry):
        assert [run.experiment == experiment.plain() for run in runs] == [True] * len(RECORDED_SEEDS)
        assert [run.seed for run in runs] == [*RECORDED_SEEDS]


def test_a_run_that_the_made_up_class_lacks_is_trained_and_kept(tmp_path, monkeypatch):
    entry = next(one for one in ENTRIES if one.number == "13")
    path = synthetic.RUNS / f"{entry.name}.json"
    whole = run_files.unpack(path.read_bytes())
    gone = min(whole)
    (tmp_path / path.name).write_bytes(run_files.pack({name: text for name, text in whole.items() if name != gone}))
    monkeypatch.setattr(synthetic, "RUNS", tmp_path)
    asked = []

    def trained(experiment, seeds, results):
        asked.extend(path_of(experiment, seed, "").as_posix() for seed in seeds)
        return [parse(whole[path_of(experiment, seed, "").as_posix()]) for seed in seeds]

    monkeypatch.setattr(synthetic, "run_seeds", trained)
    runs = synthetic.runs_of.__wrapped__(entry)
    assert asked == [gone] and {len(some) for _, some in runs} == {len(RECORDED_SEEDS)}
    assert run_files.unpack((tmp_path / path.name).read_bytes()) == whole


GROUPS = {
    "05": (rte.RECORDED, lambda: rte.experiments(rte.SEED_VARIANCE, "cpu")),
    "06": (rte.RECORDED, lambda: rte.experiments(rte.ADAPTER_FUSION, "cpu")),
    "controls": (rte.RECORDED, rte.controls),
    "equal weights": (rte.RECORDED, rte.equal_fusion),
    "SICK": (rte.RECORDED_ON_SICK, rte.on_sick),
    "one sentence": (rte.RECORDED, lambda: rte.one_sentence("rte")),
    "one sentence, SICK": (rte.RECORDED_ON_SICK, lambda: rte.one_sentence("sick")),
}


@pytest.mark.parametrize("group", GROUPS)
def test_the_runs_of_05_and_06_stand_up_to_the_check(group, monkeypatch):
    """Five seeds of each arm at least, without gaps; none gave up."""
    folder, made = GROUPS[group]
    sick = parse(next(rte.RECORDED_ON_SICK.rglob("*.json")).read_bytes()).labels  # `gold.json` has RTE's alone
    known = json.loads(rte.GOLD.read_text()) | {"sick": sick}
    monkeypatch.setattr(PairExperiment, "gold", lambda self: known[self.task])
    for one in made().values():
        seeds = sorted(load_runs(one, folder))
        assert seeds == [*range(1, len(seeds) + 1)] and len(seeds) >= 5
        runs, refused = examine(read_files(folder), [one], seeds)
        assert not refused and len(runs[one.name]) == len(seeds)
        assert not any(run.degenerate for run in runs[one.name])
        assert {len(run.labels) for run in runs[one.name]} == {500 if one.task == "sick" else 277}
        device = "cpu, 1 threads" if group == "equal weights" else "NVIDIA H200"
        assert all(run.device == device and run.precision == "bfloat16" for run in runs[one.name])


def test_no_file_is_left_over():
    for folder in (rte.RECORDED, rte.RECORDED_ON_SICK):
        made = [made() for place, made in GROUPS.values() if place == folder]
        assert {path.name for path in folder.iterdir()} == {
            one.folder("").name for some in made for one in some.values()
        }


def test_honest_seeds_of_05_and_06_are_not_suspected():
    """Seeds 6 to 10 as a student's, with seeds 1 to 5 as the course's own."""
    for notebook in (rte.SEED_VARIANCE, rte.ADAPTER_FUSION):
        experiments, runs = rte.experiments(notebook, "cpu"), whole_runs(rte, notebook)
        mine = {name: [run for run in some if run.seed > 5] for name, some in runs.items()}
        assert all(len(some) >= 2 for some in mine.values())
        known = {one.folder("").name: [run for run in runs[name] if run.seed <= 5] for name, one in experiments.items()}
        outputs = {name: np.array([run.outputs for run in some]) for name, some in known.items()}
        assert forgery.suspicious(experiments.values(), mine, outputs) == ([], [])
        assert forgery.akin(experiments.values(), mine, known) == []


def test_each_arm_has_the_best_rate_of_the_recorded_search():
    """Each rate was tried with two seeds, over two decades and more; the best one is not at the end of the range."""
    search = script(ROOT / "solutions" / "05_seed_variance" / "search.py")
    rows, wanted = search.recorded(), set()
    for name, experiment in search.arms().items():
        wanted |= {search.key(*trial) for trial in search.trials(experiment)}
        means = search.means(experiment, rows)
        assert max(means) >= 99 * min(means), name
        assert experiment.lr == max(means, key=lambda rate: (round(means[rate], 6), -rate)), name
        assert min(means) < experiment.lr < max(means), name
    assert {*rows} == wanted
    card = (ROOT / "data" / "README.md").read_text()
    for name, experiment in search.arms().items():
        cells = [f"{rate:g}: {100 * mean:.1f}" for rate, mean in search.means(experiment, rows).items()]
        shown = ", ".join(f"**{cell}**" if cell.startswith(f"{experiment.lr:g}:") else cell for cell in cells)
        assert f"| {name} | {experiment.epochs} | {shown} |" in card


def test_the_adapters_that_come_with_the_course_are_those_of_their_card():
    """Weights alone, 113,040 numbers; the best of the recorded trials, of which the longer ones are hardly better."""
    sources = script(ROOT / "solutions" / "06_adapter_fusion" / "sources.py")
    rows, card = json.loads(sources.RECORDED.read_text()), (ROOT / "data" / "README.md").read_text()
    assert {path.name for path in encoders.ADAPTERS.iterdir()} == {*sources.EPOCHS}
    for task, (short, long) in sources.EPOCHS.items():
        some = [row for row in rows if row["task"] == task]
        assert sorted((row["rate"], row["epochs"]) for row in some) == sorted(
            (rate, epochs) for rate in sources.RATES for epochs in (short, long)
        )
        best = {many: max(row["accuracy"][-1] for row in some if row["epochs"] == many) for many in (short, long)}
        share, count = best[short], some[0]["pairs"][1]
        assert best[long] - best[short] < (share * (1 - share) / count) ** 0.5
        kept, file = sources.best(rows, task), encoders.ADAPTERS / task / "pytorch_adapter.bin"
        line = (
            f"| {kept['rate']:g}, {kept['epochs']} | {100 * kept['accuracy'][-1]:.1f} | {100 * best[short]:.1f} after "
        )
        line += f"{short} epochs, {100 * best[long]:.1f} after {long} | "
        assert line + f"`{hashlib.sha256(file.read_bytes()).hexdigest()}` |" in card
        weights = torch.load(file, weights_only=True)
        assert sum(one.numel() for one in weights.values()) == 113_040
        told = json.loads(file.with_name("adapter_config.json").read_text())
        assert told["name"] == task and "/" not in told["model_name"]


def read(path):
    """A text with its line ends and comment signs as single spaces."""
    return re.sub(r"[\s#]+", " ", (ROOT / path).read_text())


LONGER = [(name, f"{name}, 15 epochs") for name in ("random", "pretrained")]
LONGER += [("pretrained, half of the pairs", "pretrained")]
WORDS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def shares(runs):
    """The mean accuracy in percent, by arm."""
    return {name: 100 * np.mean([run.accuracy for run in some]) for name, some in runs.items()}


def losses(runs):
    """The mean training loss of the last epoch, by arm."""
    return {name: np.mean([run.curve[-1]["train_loss"] for run in some]) for name, some in runs.items()}


def test_the_recorded_runs_show_what_notebook_05_says_of_them():
    text, runs = read("solutions/05_seed_variance/notebook.py"), rte.recorded(rte.SEED_VARIANCE)
    controls = rte.recorded_controls()
    assert not any(run.degenerate for some in [*runs.values(), *controls.values()] for run in some)
    assert all(run.accuracy < run.majority for run in runs["random"])
    found = {(one.first, one.second): one for one in SeedTable(runs).comparisons()}
    assert len(found) == 3 and all(one.shown and one.difference > 0 for one in found.values())
    assert "All differences between the starts are shown, though only the third" in text
    assert [line.split(":")[0] for line in SeedTable(runs).remarks()] == ["random", "pretrained"]

    stuck = {rate: [row["train_loss"][-1] > 0.69 for row in rte.searched("pretrained") if row["rate"] == rate]
             for rate in (1e-4, 2e-4, 5e-4, 1e-3)}  # fmt: skip
    assert rte.CHOSEN["rte"]["pretrained"][0] == 1e-4 and not any(stuck[1e-4])
    assert {len(some) for some in stuck.values()} == {4} and all(stuck[1e-3])
    edge = f"At twice the rate {WORDS[sum(stuck[2e-4])]} of four runs gave up, at five times {WORDS[sum(stuck[5e-4])]}"
    assert f"The chosen rate, 1e-4, is close to an edge. {edge} of four, at ten times all." in text

    longer = SeedTable(runs | controls).compared(LONGER)
    assert not any(one.shown for one in longer)
    random, pretrained, halved = (f"{one.crossed[1]:.0f}" for one in longer)
    assert f"more steps add at most {random} points from random weights, and {pretrained} from pretrained" in text
    assert f"the interval reaches to {halved} points" in text
    loss, mean = losses(runs | controls), shares(runs | controls)
    assert max(loss[f"{name}, 15 epochs"] for name in ("random", "pretrained")) < 0.02
    told = f"a training loss of {loss['random']:.2f} in five epochs and of {loss['random, 15 epochs']:.2f} in fifteen"
    assert told in text
    assert f"stays at {mean['random']:.0f} and {mean['random, 15 epochs']:.0f}%, not shown to be above" in text
    told = f"ends at {mean['pretrained']:.0f}% once it is pretrained, and at {mean['pretrained, then MNLI']:.0f}% after"
    assert told in text
    epochs = {name: some[0].experiment["epochs"] for name, some in (runs | controls).items()}
    assert epochs["random"] == 5 and epochs["random, 15 epochs"] == 15
    made = {name: {**some[0].experiment} for name, some in (runs | controls).items()}
    varied = {name: name.partition(", ")[0] for name in dict.fromkeys(name for pair in LONGER for name in pair)}
    assert all(made[name]["lr"] == made[usual]["lr"] for name, usual in varied.items())
    assert made["pretrained, half of the pairs"]["train_examples"] == 2_490 // 2
    assert "the first half of the pairs, the same half with every seed" in text
    assert "All three have the rate that was chosen for five epochs on all pairs; none was searched for them." in text
    first = made["pretrained, then MNLI"]["after"][0]
    assert (first["task"], first["epochs"]) == ("mnli", 1) and "one epoch on a twentieth of MNLI's pairs" in text
    assert {some[0].experiment["train_examples"] for some in runs.values()} == {None}


def test_the_recorded_runs_show_what_notebook_06_says_of_them():
    text, runs = read("solutions/06_adapter_fusion/notebook.py"), rte.recorded(rte.ADAPTER_FUSION)
    found = {(one.first, one.second): one for one in SeedTable(runs).comparisons()}
    assert len(found) == 3 and all(one.shown for one in found.values())
    assert found["pretrained", "fusion"].difference > 0 < found["adapter", "fusion"].difference
    loss = losses(runs)
    assert (
        max(loss, key=loss.get) == "fusion"
        and 0.5 < loss["fusion"] < 0.6
        and max(loss["pretrained"], loss["adapter"]) < 0.16
    )
    controls = {
        name: some for name, some in rte.recorded_controls().items() if not re.search("random|pretrained", name)
    }
    controls["fusion"] = runs["fusion"]
    against = {one.first: one for one in SeedTable(controls).compared((name, "fusion") for name in [*controls][:-1])}
    assert {name for name, one in against.items() if not one.shown} == {"head on mnli", "adapter from mnli"}
    mean = shares(controls)
    assert max([*controls][:-1], key=mean.get) == "head on mnli"
    assert {name for name in mean if mean[name] < 52.7} == {"head", "fusion of untrained adapters"}
    ahead = {run.seed: run.accuracy for run in runs["fusion"]}
    assert (
        all(ahead[run.seed] > run.accuracy for run in controls["head on mnli"]) and len(controls["head on mnli"]) == 5
    )
    low, high = against["head on mnli"].crossed
    assert f"fusing adds at most {high:.0f} points, and may cost {WORDS[round(-low)]}" in text

    weights = {name: np.array(rte.recorded_weights("fusion")[name]) for name in ("fresh", "trained")}
    assert weights["trained"].shape == (6, 2, 3) and np.allclose(weights["trained"].sum(2), 1, atol=0.01)
    assert abs(weights["fresh"].mean((0, 1)) - 1 / 3).max() < 0.02
    assert (weights["trained"][:4].argmax(2) == 0).all() and weights["trained"][:4, :, 0].min() > 0.6
    assert weights["trained"][5].max() < 0.45 and "MNLI's adapter in the first four layers" in text

    equal = rte.recorded_equal_fusion()
    (against,) = SeedTable(equal).comparisons()
    ends = [[run.curve[-1]["train_loss"] for run in some] for some in equal.values()]
    assert max(ends[0]) < min(ends[1]) and "fits the training pairs better, with every seed" in text
    assert [*equal] == ["fusion, on a core", "fusion with equal weights"] and not against.shown
    best, cost = -against.crossed[0], against.crossed[1]
    assert f"learned weights add at most {best:.0f} points, and may cost {WORDS[round(cost)]}" in text

    on_sick = rte.recorded_on_sick()
    others = [name for name in on_sick if name != "fusion, SICK"]
    against = {one.first: one for one in SeedTable(on_sick).compared((name, "fusion, SICK") for name in others)}
    mean = shares(on_sick)
    assert max(mean, key=mean.get) == "head on mnli, SICK"
    assert {name for name, one in against.items() if one.shown} == {"head, SICK", "head on qnli, SICK"}
    assert f"fusing adds at most {against['head on mnli, SICK'].crossed[1]:.0f} points" in text
    assert {some[0].experiment["train_examples"] for some in on_sick.values()} == {rte.FEW}
    assert [one["task"] for one in on_sick["fusion, SICK"][0].experiment["after"]] == ["mnli", "qnli"]
    spread = [np.std([run.accuracy for run in runs[name]], ddof=1) for name in ("pretrained", "fusion")]
    least = stats.f.isf(0.025, 9, 9) ** 0.5
    adapter, other = (np.std([run.accuracy for run in runs[name]], ddof=1) for name in ("adapter", "pretrained"))
    assert abs(adapter - other) < 0.5 and "one adapter in a frozen encoder spreads as much as full fine-tuning" in text
    assert {len(some) for some in runs.values()} == {10} and spread[0] / spread[1] > least
    epochs = {name: some[0].experiment["epochs"] for name, some in runs.items()}
    assert epochs == {"pretrained": 5, "adapter": 10, "fusion": 5}
    assert "The adapter had ten epochs and the two others five" in text
    assert {some[0].experiment["epochs"] for some in on_sick.values()} == {20}
    assert "On SICK all arms have twenty epochs." in text
    assert "The recorded ratio passes too" in text and "The recorded runs are ten of each" in text


def test_the_results_page_shows_the_recorded_tables():
    text = (ROOT / "docs" / "results.md").read_text()
    one_line = re.sub(r"\s+", " ", text)
    sick, controls = rte.recorded_on_sick(), rte.recorded_controls()
    first, second = (rte.recorded(notebook) for notebook in (rte.SEED_VARIANCE, rte.ADAPTER_FUSION))
    equal = rte.recorded_equal_fusion()
    for runs in (first, second, controls, sick, equal):
        for name, row in SeedTable(runs).frame().iterrows():
            of = runs[name][0].experiment
            line = f"| {name} | {len(runs[name])} | {of['lr']:g}, {of['epochs']} | "
            line += f"{row['mean, %']:.2f} ± {row['sd, points']:.2f} | "
            line += f"{row['95% from, %']:.1f} to {row['95% to, %']:.1f} | {int(row['degenerate runs'])} | "
            line += f"{losses(runs)[name]:.3f} |"
            assert line in text, line
    assert all(figure in text for figure in rte.PUBLISHED.values()) and "one student report" in one_line
    around = {name: some for name, some in controls.items() if not re.search("random|pretrained", name)}
    made = [*SeedTable(first).comparisons(), *SeedTable(second).comparisons()]
    made += SeedTable(around | {"fusion": second["fusion"]}).compared((name, "fusion") for name in around)
    made += SeedTable(first | controls).compared(LONGER)
    made += SeedTable(sick).compared((name, "fusion, SICK") for name in sick if name != "fusion, SICK")
    made += SeedTable(equal).comparisons()
    assert len(made) == 22
    for one in made:
        assert str(one) in one_line, one


def test_data_cards_leave_what_ran_at_the_size_gpu_to_the_table_that_is_made_from_it():
    """A card that says itself what was not run is wrong after the next run on a GPU."""
    card = " ".join((ROOT / "data" / "README.md").read_text().split())
    assert "`gpu` was not run" not in card
    assert card.count('size `gpu` is in the table "On a GPU" of the page of results') == 4
    assert "## On a GPU" in (ROOT / "docs" / "results.md").read_text()


def test_notebooks_say_which_settings_were_chosen_with_recorded_seeds():
    """As their data cards do: what such runs show may be too good."""
    cards = (ROOT / "data" / "README.md").read_text().split("\n## ")
    chosen = set()
    for card in cards:
        if "among those recorded" in card:
            (number, *_) = re.findall(r"notebook (\d\d)", card)
            chosen.add(number)
            entry = next(one for one in ENTRIES if one.number == number)
            prose = [one.source for one in build.student_notebook(COURSE, entry).cells if one.cell_type == "markdown"]
            said = r"chosen (in trials )?with (\w+ of )?these (five )?seeds"
            assert any(re.search(said, " ".join(text.split())) for text in prose), entry.name
    assert chosen == {"08", "10", "11", "12"}


def test_rows_of_the_results_page_name_rate_and_device(tmp_path, monkeypatch):
    """A notebook that compares runs of different devices says so."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    importlib.import_module("result_tables").write(tmp_path)
    page = (tmp_path / "results.md").read_text()
    for row in (
        "| few, BERT, drop-net | 5 | 68.3 ± 1.3 | 66.8 to 69.9 | 67.3 to 70.4 | 0.003 | cpu |",
        "| few pairs | 5 | 70.0 ± 1.7 | 67.9 to 72.1 | 68.5 to 72.3 | 0.002 | NVIDIA H200 |",
    ):
        assert row in page
    crossing = set()
    for entry in ENTRIES:
        part = page.split(f"### {entry.number} ")[1].split("\n### ")[0]
        if "They ran on different devices" in part:
            crossing.add(entry.number)
            prose = [one.source for one in build.student_notebook(COURSE, entry).cells if one.cell_type == "markdown"]
            assert any("say which of them cross devices" in " ".join(text.split()) for text in prose), entry.name
    assert crossing == {"08", "09", "13"}


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
    masked = page.split("### 07 ")[1].split("### ")[0]
    bert, all_masked, _, replaced = pretraining.ROWS
    assert masked.count(f" against {bert}: ") == 9
    lines = [
        line for line in masked.splitlines() if line.startswith("- loss at [MASK]: ") and " a difference is" in line
    ]
    names = [line.partition(" against ")[0].removeprefix("- loss at [MASK]: ") for line in lines]
    assert names == [all_masked, replaced, "left to right, from nothing"]
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
    wanted = rte.experiments(notebook) | rte.controls() | rte.one_sentence("rte") | rte.equal_fusion()
    assert {name: len(runs) for name, runs in table.runs.items()} == dict.fromkeys(wanted, 5)


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
    others = (*tagging.ways().values(), *tagging.shuffled().values())
    folders = {one.folder("").name for one in (*experiments.values(), *others)}
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
