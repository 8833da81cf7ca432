"""Results are graded from predictions: every way of handing in less, more or something else is refused by name."""

import dataclasses
import json
import zipfile

import pytest
import torch

from autograder import audit, copies, course, grade, report, tree
from autograder.collect import collect, pack, unpack
from utils import evidence, hand_in, rte
from utils.evidence import examine, results_check
from utils.experiment import parse, read_files, write
from utils.runs import run_seeds
from utils.verdict import Outcome

EXPERIMENTS = rte.experiments(rte.SEED_VARIANCE, "smoke")
SEEDS = range(1, 6)
FIRST = next(iter(EXPERIMENTS.values()))


@results_check("5.11", points=4, notebook=rte.SEED_VARIANCE)
def over_seeds(run_all):
    """All experiments, all seeds."""


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """The folder of a student who ran everything."""
    folder = tmp_path_factory.mktemp("honest")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_CACHE", str(folder / "cache"))
        for experiment in EXPERIMENTS.values():
            run_seeds(experiment, SEEDS, folder / "results")
    torch.set_num_threads(threads)
    return folder / "results"


@pytest.fixture
def small(tmp_path):
    """A course that takes results of the size smoke, and its notebook 05."""
    known = course.load(tree=tmp_path / "tree")
    grading = known.grading.model_copy(update={"results_profiles": ("smoke",)})
    return known.model_copy(update={"grading": grading}), known.notebook("05")


def name_of(seed: int) -> str:
    return f"{FIRST.folder('').name}/seed_{seed}.json"


def rewritten(files, seed: int, tmp_path, **changes) -> dict[str, bytes]:
    """`files` with another run in one place, whose digest is right: the work of somebody who read this code."""
    run = dataclasses.replace(parse(files[name_of(seed)]), **changes)
    write(run, tmp_path / "run.json")
    return files | {name_of(seed): (tmp_path / "run.json").read_bytes()}


def refused(files) -> str:
    verdict, against = over_seeds.verdict_on(files, ["smoke"])
    assert verdict.outcome is Outcome.WRONG and verdict.score == 0 and against
    assert verdict.message.startswith(against[0])
    return "; ".join(against)


def test_honest_results_pass_at_home_and_in_grading(honest, monkeypatch, capsys):
    monkeypatch.setenv("COURSE_PROFILE", "smoke")
    monkeypatch.chdir(honest.parent)
    over_seeds(lambda results: None)
    assert "passed (4 points)" in capsys.readouterr().out
    assert over_seeds.verdict_on(read_files(honest), ["cpu", "smoke"])[0].outcome is Outcome.PASSED


def test_no_results_is_not_attempted():
    assert over_seeds.verdict_on({}, ["smoke"])[0].outcome is Outcome.BLANK


def test_missing_seeds(honest):
    files = {name: text for name, text in read_files(honest).items() if not name.endswith("seed_4.json")}
    said = refused(files)
    assert said.count("is missing") == 3 and "random was not run with seed 4" in said


def test_a_file_repeated_under_another_seed(honest, tmp_path):
    files = read_files(honest)
    assert "run with seed 1, and renamed" in refused(files | {name_of(2): files[name_of(1)]})
    logits = parse(files[name_of(1)])
    changes = {key: getattr(logits, key) for key in ("logits", "predictions", "curve")}
    assert f"it repeats {name_of(1)}" in refused(rewritten(files, 2, tmp_path, **changes))


def test_another_configuration(honest, tmp_path):
    files = read_files(honest)
    other = FIRST.plain() | {"epochs": 9, "lr": 0.1}
    assert "another configuration was run: epochs, lr differ" in refused(
        rewritten(files, 3, tmp_path, experiment=other)
    )


def test_impossible_accuracies(honest, tmp_path, monkeypatch):
    monkeypatch.setitem(evidence.CEILING, FIRST.task, 0.9)
    files = read_files(honest)
    labels = parse(files[name_of(1)]).labels
    logits = [[1.0 - label, float(label)] for label in labels]
    curve = [{"train_loss": 0.1, "loss": 0.1, "accuracy": 1.0}] * FIRST.epochs
    best = {"predictions": labels, "logits": logits, "curve": curve}
    assert "an accuracy of 1.00 cannot be" in refused(rewritten(files, 1, tmp_path, **best))
    assert evidence.CEILING["rte"] == 0.9


def test_edited_files(honest, tmp_path):
    files = read_files(honest)
    whole = json.loads(files[name_of(1)])
    whole["seconds"] += 1
    assert "it was edited" in refused(files | {name_of(1): json.dumps(whole).encode()})
    wrong = [1 - guess for guess in whole["predictions"]]
    assert "is not the largest of its logits" in refused(rewritten(files, 1, tmp_path, predictions=wrong))
    better = [point | {"accuracy": 0.99} for point in whole["curve"]]
    assert "not that of its predictions" in refused(rewritten(files, 1, tmp_path, curve=better))
    labels = whole["predictions"]
    assert "labels are not those" in refused(
        rewritten(files, 1, tmp_path, labels=labels, curve=[point | {"accuracy": 1.0} for point in whole["curve"]])
    )
    assert "curve has 1 epochs instead of 2" in refused(rewritten(files, 1, tmp_path, curve=whole["curve"][-1:]))
    assert "took no time" in refused(rewritten(files, 1, tmp_path, seconds=0.0))


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"seed": 1}', b"[" * 100_000, b'{"a": NaN}', b" " * (2**20 + 1)],
    ids=["empty", "cut", "list", "null", "bytes", "fields", "deep", "nan", "large"],
)
def test_anything_may_be_in_a_file(honest, text):
    assert name_of(1) in refused(read_files(honest) | {name_of(1): text})


def test_types_are_exact(honest, tmp_path):
    run = parse(read_files(honest)[name_of(1)])
    for changes in (
        {"seed": True},
        {"seconds": "1"},
        {"labels": [0.0]},
        {"logits": [["0", "1"]]},
        {"logits": [[float("nan"), 0]]},
        {"curve": [{"accuracy": 1}]},
        {"versions": []},
        {"device": 1},
        {"predictions": [-1]},
    ):
        write(dataclasses.replace(run, **changes), tmp_path / "run.json")
        with pytest.raises(ValueError):
            parse((tmp_path / "run.json").read_bytes())


def test_files_copied_from_another_student(honest, tmp_path):
    files = read_files(honest)
    own = {name: text for name, text in rewritten(files, 1, tmp_path, seconds=77.0).items() if name == name_of(1)}
    found = copies.found([("early", files), ("late", dict(list(files.items())[:2])), ("same machine", own)])
    assert found == {"late": ("early", sorted(files)[:2])}
    verdict, against = over_seeds.verdict_on(files, ["smoke"], copied="seed_1 is another hand-in's")
    assert verdict.score == 0 and against[0] == "seed_1 is another hand-in's"


def test_the_recorded_runs_of_the_course_are_nobodys_own(small):
    known, entry = small
    place = tree.results_path(known, entry, "eve")
    tree.write(place, pack(read_files(copies.RECORDED)))
    tree.write(place.with_name("timestamp.txt"), "2027-01-01 00:00:00 UTC")
    assert "one of the runs that come with the course" in copies.of(known, entry)["eve"]


def test_packed_collected_and_filed(honest, tmp_path, monkeypatch, small):
    known, entry = small
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"{entry.name}.ipynb").write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    packed = hand_in.pack(entry.name, honest)
    with zipfile.ZipFile(packed) as archive:
        assert len(archive.namelist()) == 16
    inbox = tmp_path / "inbox" / "ada"
    inbox.mkdir(parents=True)
    packed.rename(inbox / packed.name)
    result = collect(known, tmp_path / "inbox")
    assert len(result.taken) == 1 and not result.refused
    assert unpack(grade.handed_in(known, entry, "ada")[1]) == read_files(honest) and copies.of(known, entry) == {}
    assert list(audit.accepted(known, entry)) == ["ada"]
    table = report.class_table(known, entry)
    assert table is not None and {name: len(runs) for name, runs in table.runs.items()} == dict.fromkeys(EXPERIMENTS, 5)
    with pytest.raises(FileNotFoundError, match="is not there"):
        hand_in.pack("06_adapter_fusion", honest)


def test_a_link_in_a_folder_of_results_is_not_followed(tmp_path):
    (tmp_path / "secret.json").write_text("{}")
    (tmp_path / "results" / "a").mkdir(parents=True)
    (tmp_path / "results" / "a" / "seed_1.json").symlink_to(tmp_path / "secret.json")
    assert read_files(tmp_path / "results") == {}


def test_an_audit_finds_what_a_forged_file_hides(honest, tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path / "cache"))
    torch.set_num_threads(1)
    run = parse(read_files(honest)[name_of(1)])
    same = audit.again("ada", run, FIRST)
    assert same.agrees and same.agreement == 1.0 and same.same_machine
    flipped = [1 - guess for guess in run.predictions]
    forged = dataclasses.replace(run, predictions=flipped, logits=[row[::-1] for row in run.logits])
    found = audit.again("eve", forged, FIRST)
    assert not found.agrees and found.agreement == 0.0


def test_pack_is_lossless_for_what_run_seeds_writes(honest):
    files = read_files(honest)
    assert len(files) == 15 and unpack(pack(files)) == files
    assert pack({}) == b"" and unpack(b"") == {}
    runs, against = examine(files, EXPERIMENTS.values(), SEEDS)
    assert not against and [len(some) for some in runs.values()] == [5, 5, 5]
