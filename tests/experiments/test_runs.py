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
from utils.experiments import rte, student
from utils.experiments.experiment import BadRun, parse, path_of, read, write
from utils.experiments.rte import train
from utils.experiments.rte.spec import PairExperiment
from utils.experiments.runs import load_runs, run_seeds

ROOT = Path(__file__).resolve().parents[2]
QUICK = PairExperiment(
    "quick", "made-up-rte", "tiny", start="random", train_examples=64, epochs=2, batch=8, lr=1e-3, max_len=24
)
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
def one_thread():
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
    monkeypatch.setattr(student, "signature", ("Ada Lovelace", ""))
    seed = rte.seeds("cpu")[0]
    made = run_seeds(QUICK, [seed], tmp_path)[0]
    assert made.student == "Ada Lovelace" and made.seed == seed and len(made.epochs) == QUICK.epochs - 1
    assert made.epochs[0] != made.logits and read(path_of(QUICK, seed, tmp_path)) == made


def test_finished_seeds_are_not_run_again(tmp_path, monkeypatch):
    found = run_seeds(QUICK, [3, 1], tmp_path)
    monkeypatch.setattr(train, "run_seed", lambda *_, **__: pytest.fail("it was run again"))
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
    context.set_forkserver_preload(["utils.experiments.rte.train", "transformers"])
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


def test_only_adapter_and_head_are_trained():
    experiment = rte.experiments(rte.ADAPTER_FUSION, "smoke")
    device, precision = torch.device("cpu"), torch.float32
    for name, mark in (("adapter", ".adapters."), ("fusion", "adapter_fusion_layer")):
        model = train.build(experiment[name], 2, torch.Generator(), device, precision)
        trained = {key for key, parameter in model.named_parameters() if parameter.requires_grad}
        assert trained and all(mark in key or key.startswith("heads.") for key in trained)


def adapter_of(model, name):
    """The weights of an adapter of this name."""
    mark = f".adapters.{name}."
    return {key.split(mark)[1] + key.split(mark)[0]: one for key, one in model.state_dict().items() if mark in key}


def test_a_head_alone_and_an_adapter_that_starts_from_another():
    """Of a source, the head alone learns, and the source is listened to; or the target's adapter starts as a copy."""
    device, precision = torch.device("cpu"), torch.float32
    source, task = rte.experiments(rte.ADAPTER_FUSION, "smoke")["fusion"].after[0], "made-up-rte"
    settings = {"task": task, "encoder": "tiny", "after": (source,)}
    models = {
        method: train.build(PairExperiment(method, method=method, **settings), 2, torch.Generator(), device, precision)
        for method in ("head", "adapter")
    }
    learning = {name: {key.split(".")[0] for key in train.learning_modules(model)} for name, model in models.items()}
    assert learning["head"] == {"heads"} and train.learning_modules(models["head"]) >= {
        key for key in models["head"].state_dict() if key.startswith("heads.") and "weight" in key
    }
    trained = train.learning_modules(models["adapter"])
    assert trained and all(f".adapters.{task}." in key or key.startswith("heads.") for key in trained)
    ours, theirs = adapter_of(models["adapter"], task), adapter_of(models["head"], source.task)
    assert {*ours} == {*theirs} != set() and all(torch.equal(ours[key], theirs[key]) for key in ours)
    inputs = {"input_ids": torch.tensor([[2, 7, 8, 3, 9, 3]])}
    model = models["head"].eval()
    listened = model(**inputs).logits
    model.set_active_adapters(None)
    model.active_head = task
    assert not torch.equal(model(**inputs).logits, listened)


def test_adapters_that_learned_nothing_are_not_trained(monkeypatch):
    """They are as they were drawn with seed 0, and different from trained ones."""
    monkeypatch.setattr(train, "train", lambda *_: pytest.fail("it was trained"))
    untrained = PairExperiment("untrained", "made-up-sick", "tiny", "random", "untrained")
    with pytest.raises(ValueError, match="no start 'pretrained' with method 'other'"):
        PairExperiment("other", "made-up-rte", "tiny", method="other")
    path = train.part(untrained, torch.device("cpu"), torch.float32)
    weights = torch.load(path / "pytorch_adapter.bin", weights_only=True)
    down = [one for name, one in weights.items() if "down" in name and one.dim() == 2]
    assert down and all(0.01 < one.std() < 0.03 for one in down)  # as BERT's are drawn: a standard deviation of 0.02
    assert untrained.digest() in path.name


def test_batches_hold_every_example_once_and_little_padding():
    from data import encoders

    encoded = train.encode(pairs.load("made-up-rte", "train", limit=333), encoders.tokenizer("tiny"), max_len=24)
    made = train.batches(encoded, 8, torch.Generator().manual_seed(1))
    assert sorted(position for batch in made for position in batch) == list(range(333))
    assert made != train.batches(encoded, 8, torch.Generator().manual_seed(2))
    lengths = [[len(encoded.tokens[position]) for position in batch] for batch in made]
    padding = sum(max(batch) * len(batch) - sum(batch) for batch in lengths)
    assert padding < 0.05 * sum(map(sum, lengths))
    inputs, labels = train.collate(encoded, made[0], torch.device("cpu"))
    assert inputs["attention_mask"].sum(1).tolist() == lengths[0]
    assert labels.tolist() == [encoded.labels[position] for position in made[0]]


CPU = torch.device("cpu")


def small_run(experiment, generators, model, classes=2):
    """Train on 64 made-up pairs; what `train` gives."""
    from data import encoders

    encoded = train.encode(pairs.load("made-up-rte", "train", limit=64), encoders.tokenizer("tiny"), max_len=24)
    encoded = dataclasses.replace(encoded, classes=classes)
    return train.train(model, experiment, generators, encoded, encoded, torch.float32)


def fusion_of_two(**changes):
    """A small fusion without parts to train first, its experiment and its value matrices."""
    experiment = PairExperiment("f", "made-up-rte", "tiny", method="fusion", epochs=2, batch=8, max_len=24, **changes)
    model = encoders_model()
    from adapters.composition import Fuse

    for name in ("one", "two"):
        model.add_adapter(name, config="seq_bn")
    model.add_adapter_fusion(Fuse("one", "two"))
    model.add_classification_head("made-up-rte", num_labels=2)
    model.train_adapter_fusion(Fuse("one", "two"))
    model.active_head = "made-up-rte"
    return model, experiment, [part for name, part in model.named_parameters() if name.endswith(".value.weight")
                               and "fusion" in name]  # fmt: skip


def encoders_model():
    from data import encoders

    torch.manual_seed(0)
    return encoders.adapter_model("tiny", True)


def test_a_fusion_is_trained_with_the_penalty_that_6_3_teaches(monkeypatch):
    """Away from the identity the value matrices come back to it; they are not pulled towards zero."""
    far = {}
    for penalty in (True, False):
        model, experiment, values = fusion_of_two(lr=3e-2)
        assert len(values) == 2
        for part in values:
            part.data += 0.5
        if not penalty:
            monkeypatch.setattr(model, "get_fusion_regularization_loss", lambda: 0.0)
        small_run(experiment, train.streams(experiment, 1), model)
        far[penalty] = [(part - torch.eye(32)).norm().item() for part in values]
    assert all(with_it < 0.75 * without for with_it, without in zip(far[True], far[False], strict=True))


def test_a_fusion_with_equal_weights_keeps_them_and_learns_its_value_matrices():
    experiment = PairExperiment("f", "made-up-rte", "tiny", method="equal fusion", epochs=1, batch=8, max_len=24)
    model, _, values = fusion_of_two()
    train.keep_equal(model)
    before = [part.clone() for part in values]
    small_run(experiment, train.streams(experiment, 1), model)
    assert not any(torch.equal(part, old) for part, old in zip(values, before, strict=True))
    scored = [
        part
        for name, part in model.named_parameters()
        if "fusion_layer" in name and (".query." in name or ".key." in name)
    ]
    assert scored and not any(part.any() for part in scored)
    inputs = {"input_ids": torch.tensor([[2, 7, 8, 3, 9, 3]])}
    (layers,) = model.eval()(**inputs, output_adapter_fusion_attentions=True).adapter_fusion_attentions.values()
    for places in layers.values():
        for weights in places.values():
            assert abs(torch.as_tensor(weights) - 1 / 2).max() < 1e-6


def test_the_fusion_with_equal_weights_differs_from_the_fusion_in_nothing_else():
    fusion = rte.experiments(rte.ADAPTER_FUSION, "cpu")["fusion"]
    again, equal = rte.equal_fusion().values()
    assert equal.method == "equal fusion" and again.name != fusion.name
    assert {dataclasses.replace(one, name=fusion.name, method="fusion") for one in (again, equal)} == {fusion}
    smoke = rte.experiments(rte.ADAPTER_FUSION, "smoke")["fusion"]
    kept = dataclasses.replace(smoke, method="equal fusion")
    learned, equal = (
        dict(train.build(one, 2, torch.Generator(), CPU, torch.float32).named_parameters()) for one in (smoke, kept)
    )
    changed = {name for name in learned if not torch.equal(learned[name], equal[name])}
    scored = {name for name in learned if "fusion_layer" in name and (".query." in name or ".key." in name)}
    assert changed and changed <= scored and not any(equal[name].any() for name in scored)
    assert all(learned[name].requires_grad is equal[name].requires_grad for name in learned)


def test_no_value_matrix_of_a_fusion_decays_and_every_other_matrix_does():
    model, _, values = fusion_of_two()
    by_decay = {group["weight_decay"]: group["params"] for group in train.parameter_groups(model, 0.01)}
    spared = {id(part) for part in by_decay[0.0]}
    trained = [part for part in model.parameters() if part.requires_grad]
    assert {id(part) for part in values} <= spared
    assert all((id(part) in spared) is (part.dim() < 2 or any(part is one for one in values)) for part in trained)
    assert sum(map(len, by_decay.values())) == len(trained)


def test_head_order_and_dropout_have_a_seed_each():
    """As 5.2 teaches: no part of any run has the seed of another part, of this run or of one with another seed."""
    for varies in (("head", "order", "dropout"), ("order",), ()):
        one = dataclasses.replace(QUICK, varies=varies)
        seeds = [list(one.seeds_of(seed).values()) for seed in range(1, 30)]
        assert all(len({*some}) == 3 for some in seeds)
        for place, what in enumerate(("head", "order", "dropout")):
            assert len({some[place] for some in seeds}) == (29 if what in varies else 1)
            others = {number for some in seeds for number in some[:place] + some[place + 1 :]}
            assert others.isdisjoint(some[place] for some in seeds)


def test_a_larger_head_moves_neither_order_nor_dropout(monkeypatch):
    seen = []
    for classes in (2, 3):
        generators = train.streams(QUICK, 1)
        model = train.build(QUICK, classes, generators["head"], CPU, torch.float32)
        drawn, orders = [], []

        def collate(encoded, positions, device, orders=orders, real=train.collate):
            orders.append(list(positions))
            return real(encoded, positions, device)

        def note(part, given, made, drawn=drawn):
            drawn.append((made == 0) & (given[0] != 0))

        real = train.own_dropout

        def own_dropout(model, generator, note=note, real=real):
            real(model, generator)
            for part in model.modules():
                if isinstance(part, train.Dropout):
                    part.register_forward_hook(note)

        with monkeypatch.context() as patch:
            patch.setattr(train, "collate", collate)
            patch.setattr(train, "own_dropout", own_dropout)
            small_run(QUICK, generators, model, classes)
        assert any(mask.any() for mask in drawn)
        seen.append((orders, drawn))
    (orders, drawn), (more_orders, more_drawn) = seen
    assert orders == more_orders
    shared = [(a, b) for a, b in zip(drawn, more_drawn, strict=True) if a.dtype == b.dtype and a.shape == b.shape]
    assert len(shared) == len(drawn) and all(torch.equal(a, b) for a, b in shared)


def test_the_schedule_is_the_one_that_5_3_teaches(monkeypatch):
    from utils.checks import nb05_seed_variance as nb05

    for warmup, total in ((0, 8), (1, 2), (4, 20), (10, 13)):
        for step in range(total + 2):
            wanted = nb05.on_the_line(step, warmup, total, 3e-5)
            assert train.schedule(step, warmup, total, 3e-5) == pytest.approx(wanted, abs=1e-12)
    rates = []
    step = torch.optim.AdamW.step

    def noting(self, *args, **kwargs):
        rates.extend({group["lr"] for group in self.param_groups})
        return step(self, *args, **kwargs)

    monkeypatch.setattr(torch.optim.AdamW, "step", noting)
    generators = train.streams(QUICK, 1)
    small_run(QUICK, generators, train.build(QUICK, 2, generators["head"], CPU, torch.float32))
    warmup = round(QUICK.warmup * 16)
    assert warmup > 1 and rates == pytest.approx([nb05.on_the_line(step, warmup, 16, QUICK.lr) for step in range(16)])


def test_what_is_dropped_is_dropped_as_often_as_asked_and_scaled():
    generator = torch.Generator().manual_seed(1)
    for p in (0.0, 0.1, 0.5):
        part = train.Dropout(p, generator).train()
        x = torch.full((101, 1003), 2.0, requires_grad=True)
        made = part(x)
        kept = made != 0
        assert (1 - kept.double().mean()).item() == pytest.approx(p, abs=0.004)
        assert made[kept].unique().tolist() == pytest.approx([2 / (1 - p)], rel=1e-3)
        made.sum().backward()
        assert torch.equal(x.grad != 0, kept)
        assert part.eval()(x) is x
    half = train.Dropout(0.5, generator)(torch.ones(64, dtype=torch.bfloat16))
    assert half.dtype == torch.bfloat16 and {*half.tolist()} == {0.0, 2.0}
    state = torch.get_rng_state()
    train.Dropout(0.5, generator)(torch.ones(64))
    assert torch.equal(torch.get_rng_state(), state)


def test_every_arm_has_the_same_head():
    device, precision = torch.device("cpu"), torch.float32
    every = rte.experiments(rte.SEED_VARIANCE, "smoke") | rte.experiments(rte.ADAPTER_FUSION, "smoke")
    heads = {}
    for name, experiment in every.items():
        model = train.build(experiment, 2, torch.Generator(), device, precision)
        (head,) = model.heads.values()
        heads[name] = str(head)
        assert all(part.requires_grad for part in head.parameters())
    assert len(heads) == 5 and len({*heads.values()}) == 1


def test_no_data_and_no_encoder_say_what_to_do(tmp_path, monkeypatch):
    monkeypatch.delenv("COURSE_DATA", raising=False)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ValueError, match="rte, mnli, qnli, sick"):
        pairs.load("cola", "train")
    with pytest.raises(ValueError, match="head, order, dropout"):
        dataclasses.replace(QUICK, varies=("luck",))
