"""run_seeds: resumes wherever it was killed, never mixes configurations, sets damaged files aside."""

import dataclasses
import json
import multiprocessing
import os
import random
import signal
import time
from pathlib import Path

import pytest
import torch

from data import pairs
from utils import pair_training, rte, student
from utils.experiment import BadRun, Experiment, parse, path_of, read, write
from utils.runs import load_runs, run_seeds

ROOT = Path(__file__).resolve().parents[1]
QUICK = Experiment("quick", "made-up-rte", "tiny", start="random", epochs=2, batch=8, lr=1e-3, max_len=24)
KILLS = int(os.environ.get("COURSE_KILLS", "20"))


def content(folder: Path) -> dict[str, dict]:
    """The files of a folder, without what measures time."""
    found = {}
    for path in sorted(folder.rglob("*.json")):
        found[str(path.relative_to(folder))] = {
            key: value for key, value in json.loads(path.read_text()).items() if key not in ("seconds", "digest")
        }
    return found


@pytest.fixture(autouse=True)
def one_thread(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path / "cache"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_same_seed_same_predictions_other_seed_others(tmp_path):
    first, second = run_seeds(QUICK, [1, 2], tmp_path / "a")
    again = run_seeds(QUICK, [1], tmp_path / "b")[0]
    assert again.logits == first.logits and again.curve == first.curve
    assert second.logits != first.logits
    assert first.labels == pairs.load("made-up-rte", "validation").labels
    assert first.curve[-1]["accuracy"] == pytest.approx(first.accuracy, abs=1e-5)


def test_a_run_says_who_made_it_and_holds_every_epoch(tmp_path, monkeypatch):
    monkeypatch.setattr(student, "_signed", ("Ada Lovelace", ""))
    seed = rte.seeds("cpu")[0]
    made = run_seeds(QUICK, [seed], tmp_path)[0]
    assert made.student == "Ada Lovelace" and made.seed == seed and len(made.epochs) == QUICK.epochs - 1
    assert made.epochs[0] != made.logits and read(path_of(QUICK, seed, tmp_path)) == made


def test_finished_seeds_are_not_run_again(tmp_path, monkeypatch):
    found = run_seeds(QUICK, [3, 1], tmp_path)
    monkeypatch.setattr(pair_training, "run_seed", lambda *_, **__: pytest.fail("it was run again"))
    assert run_seeds(QUICK, [3, 1], tmp_path) == found
    assert [run.seed for run in found] == [3, 1]


@pytest.mark.parametrize("what", ["head", "order", "dropout"])
def test_a_seed_varies_one_thing_at_a_time(what, tmp_path):
    one = dataclasses.replace(QUICK, varies=(what,))
    left, right = run_seeds(one, [1, 2], tmp_path)
    assert left.logits != right.logits
    fixed = dataclasses.replace(QUICK, varies=())
    left, right = run_seeds(fixed, [1, 2], tmp_path)
    assert left.logits == right.logits


def test_a_damaged_file_is_set_aside_and_run_anew(tmp_path, capfd):
    before = run_seeds(QUICK, [1], tmp_path)[0]
    path = path_of(QUICK, 1, tmp_path)
    path.write_text(path.read_text()[:200])
    after = run_seeds(QUICK, [1], tmp_path)[0]
    assert after.logits == before.logits
    aside = path.with_name("seed_1.json.damaged-1")
    assert aside.exists() and aside.name in "".join(capfd.readouterr())


def test_another_configuration_is_never_mixed_in(tmp_path):
    other = dataclasses.replace(QUICK, lr=2e-3)
    run = run_seeds(other, [1], tmp_path)[0]
    assert load_runs(QUICK, tmp_path) == {}
    write(run, path_of(QUICK, 1, tmp_path))  # somebody puts it where it does not belong
    assert load_runs(QUICK, tmp_path) == {}
    assert load_runs(other, tmp_path) == {1: run}


def test_an_edited_file_says_so(tmp_path):
    run_seeds(QUICK, [1], tmp_path)
    path = path_of(QUICK, 1, tmp_path)
    whole = json.loads(path.read_text())
    whole["predictions"][0] = 1 - whole["predictions"][0]
    with pytest.raises(BadRun, match="edited"):
        parse(json.dumps(whole).encode())


def interrupted(folder, told):
    """Run five seeds in a process that may be killed at any moment; `told` hears when it begins and ends."""
    os.environ["COURSE_CACHE"] = f"{folder}/cache"
    torch.set_num_threads(1)
    told.send("ready")
    run_seeds(QUICK, range(1, 6), folder)
    told.send("done")


def test_killed_at_random_moments_it_ends_with_the_same_files(tmp_path):
    """SIGKILL at KILLS moments; imports are not what is tested, so the clock starts when they are done."""
    run_seeds(QUICK, range(1, 6), tmp_path / "whole")
    draw = random.Random(0)
    kills = done = 0
    folder, rounds = tmp_path / "killed", 0
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["utils.pair_training", "transformers"])
    while kills < KILLS:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=interrupted, args=(folder, theirs))
        process.start()
        theirs.close()
        assert ours.recv() == "ready"
        time.sleep(draw.uniform(0, 1.0))
        process.kill()
        process.join()
        if heard(ours) == "done":
            done += 1
            for path in draw.sample(sorted(folder.rglob("seed_*.json")), 3):
                path.unlink()  # so that there is something to interrupt
        else:
            kills += 1
        for path in folder.rglob("seed_*.json"):
            read(path)  # whole, at any moment
        rounds += 1
        assert rounds < 10 * KILLS
    run_seeds(QUICK, range(1, 6), folder)
    assert content(folder) == content(tmp_path / "whole")
    assert not list(folder.rglob("*.damaged*"))


def heard(told):
    """What was said; "" if the other end closed without a word."""
    try:
        return told.recv()
    except EOFError:
        return ""


def test_on_a_cluster_a_lost_worker_loses_nothing(tmp_path):
    import distributed

    here = run_seeds(QUICK, [1, 2, 3], tmp_path / "here")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        pids = list(client.run(os.getpid).values())
        os.kill(pids[0], signal.SIGKILL)
        there = run_seeds(QUICK, [1, 2, 3], tmp_path / "there", cluster=cluster.scheduler_address)
    assert [run.logits for run in there] == [run.logits for run in here]


@pytest.mark.parametrize("notebook", [rte.SEED_VARIANCE, rte.ADAPTER_FUSION])
def test_every_experiment_runs_in_smoke(notebook, tmp_path):
    for name, experiment in rte.experiments(notebook, "smoke").items():
        run = run_seeds(experiment, [1], tmp_path)[0]
        assert len(run.curve) == experiment.epochs and run.experiment["name"] == name


def test_only_adapter_and_head_are_trained():
    experiment = rte.experiments(rte.ADAPTER_FUSION, "smoke")
    device, precision = torch.device("cpu"), torch.float32
    for name, mark in (("adapter", ".adapters."), ("fusion", "adapter_fusion_layer")):
        model = pair_training.build(experiment[name], 2, 0, device, precision)
        trained = {key for key, parameter in model.named_parameters() if parameter.requires_grad}
        assert trained and all(mark in key or key.startswith("heads.") for key in trained)


def test_batches_hold_every_example_once_and_little_padding():
    from data import encoders

    encoded = pair_training.encode(
        pairs.load("made-up-rte", "train", limit=333), encoders.tokenizer("tiny"), max_len=24
    )
    made = pair_training.batches(encoded, 8, seed=1)
    assert sorted(position for batch in made for position in batch) == list(range(333))
    assert made != pair_training.batches(encoded, 8, seed=2)
    lengths = [[len(encoded.tokens[position]) for position in batch] for batch in made]
    padding = sum(max(batch) * len(batch) - sum(batch) for batch in lengths)
    assert padding < 0.05 * sum(map(sum, lengths))
    inputs, labels = pair_training.collate(encoded, made[0], torch.device("cpu"))
    assert inputs["attention_mask"].sum(1).tolist() == lengths[0]
    assert labels.tolist() == [encoded.labels[position] for position in made[0]]


def test_no_data_and_no_encoder_say_what_to_do(tmp_path, monkeypatch):
    monkeypatch.delenv("COURSE_DATA", raising=False)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ValueError, match="rte, mnli, qnli, sick"):
        pairs.load("cola", "train")
    with pytest.raises(ValueError, match="head, order, dropout"):
        dataclasses.replace(QUICK, varies=("luck",))
