"""Results are graded from predictions: every way of handing in less, more or something else is refused by name."""

import dataclasses
import io
import itertools
import json
import shutil
import time
import zipfile

import numpy as np
import pytest
import torch
from helpers import keep_runs, whole_runs

from autograder import cli, course, synthetic
from autograder.author.checks import public_checks
from autograder.gradebook import course_tree, roster
from autograder.grading import audit, copied_runs
from autograder.grading.dependencies import Dependencies
from autograder.grading.grading_record import handed_in
from autograder.intake.collect import collect
from autograder.intake.run_files import pack, unpack
from autograder.reports import report
from utils import hand_in
from utils.experiments import forgery, forgetting, rte, student, tagging
from utils.experiments.experiment import (
    DIGITS,
    MAX_READ,
    BadRun,
    Run,
    dumps,
    parse,
    path_of,
    read_files,
    score,
    write,
)
from utils.experiments.rte import spec
from utils.experiments.runs import run_seeds
from utils.grading import results_check as checking
from utils.grading.evidence import examine
from utils.grading.results_check import results_check
from utils.grading.standing import NO_STANDING, Standing
from utils.grading.verdict import Outcome

EXPERIMENTS = rte.experiments(rte.SEED_VARIANCE, "smoke")
ADA = "Ada Lovelace"
SEEDS = student.seeds_of(ADA, "", 5)
FIRST = next(iter(EXPERIMENTS.values()))
NESTED = b'{"a": ' + b"[" * 900 + b"]" * 900 + b"}"


@results_check("5.11", points=4, source=rte, notebook=rte.SEED_VARIANCE)
def over_seeds(run_all):
    """All experiments, all seeds."""


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """The folder of a student who ran everything: the first seed here, of the others it has the made-up class's runs.

    An audit trains one of the first seed again; all else reads what stands in the files.
    """
    folder = tmp_path_factory.mktemp("honest")
    keep_runs(course.load().notebook(rte.SEED_VARIANCE[:2]), folder / "results", ADA, trained=1)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(student, "signature", (ADA, ""))
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


def name_of(number: int) -> str:
    """The file of the run with the student's seed of this number, from 1."""
    return f"{FIRST.folder('').name}/seed_{SEEDS[number - 1]}.json"


def rewritten(files, seed: int, tmp_path, **changes) -> dict[str, bytes]:
    """`files` with another run in one place, whose digest is right: the work of somebody who read this code."""
    run = dataclasses.replace(parse(files[name_of(seed)]), **changes)
    write(run, tmp_path / "run.json")
    return files | {name_of(seed): (tmp_path / "run.json").read_bytes()}


def refused(files) -> str:
    verdict, against, _ = over_seeds.verdict_on(files, ["smoke"], NO_STANDING)
    assert verdict.outcome is Outcome.WRONG and verdict.score == 0 and against
    assert verdict.message.startswith(against[0])
    return "; ".join(against)


def test_honest_results_pass_at_home_and_in_grading(honest, monkeypatch, capsys):
    monkeypatch.setenv("COURSE_PROFILE", "smoke")
    monkeypatch.chdir(honest.parent)
    monkeypatch.setattr(student, "signature", (ADA, ""))
    over_seeds(lambda results: None)
    said = capsys.readouterr().out
    assert "passed (0 points). Runs of the size smoke" in said and "earn nothing" in said
    assert over_seeds.latest.score == 0
    verdict, against, unsure = over_seeds.verdict_on(read_files(honest), ["cpu", "smoke"], NO_STANDING)
    assert (verdict.outcome, against, unsure) == (Outcome.PASSED, [], [])


def test_runs_of_the_size_smoke_are_named_in_grading(honest):
    files = read_files(honest)
    verdict, against, _ = over_seeds.verdict_on(files, ["cpu", "gpu"], NO_STANDING)
    assert verdict.score == 0 and against == [checking.SMOKE_CAME] and "of the size smoke" in verdict.message
    started = {f"{rte.experiments(rte.SEED_VARIANCE, 'cpu')['random'].folder('').name}/seed_1.json": b"{}"}
    verdict, against, _ = over_seeds.verdict_on(files | started, ["cpu", "gpu"], NO_STANDING)
    assert verdict.score == 0 and checking.SMOKE_CAME not in against


def test_no_results_is_not_attempted():
    assert over_seeds.verdict_on({}, ["smoke"])[0].outcome is Outcome.BLANK


def test_missing_seeds(honest):
    files = {name: text for name, text in read_files(honest).items() if not name.endswith(f"seed_{SEEDS[3]}.json")}
    said = refused(files)
    assert said.count("is missing") == 3 and f"random was not run with seed {SEEDS[3]}" in said


def test_a_file_repeated_under_another_seed(honest, tmp_path):
    files = read_files(honest)
    assert f"run with seed {SEEDS[0]}, and renamed" in refused(files | {name_of(2): files[name_of(1)]})
    logits = parse(files[name_of(1)])
    changes = {key: getattr(logits, key) for key in ("logits", "predictions", "curve", "epochs")}
    assert f"it repeats {name_of(1)}" in refused(rewritten(files, 2, tmp_path, **changes))


def test_another_configuration(honest, tmp_path):
    files = read_files(honest)
    other = FIRST.plain() | {"epochs": 9, "lr": 0.1}
    assert "another configuration was run: epochs, lr differ" in refused(
        rewritten(files, 3, tmp_path, experiment=other)
    )


def test_impossible_accuracies(honest, tmp_path, monkeypatch):
    monkeypatch.setitem(spec.CEILING, "tiny", 90.0)
    files = read_files(honest)
    labels = parse(files[name_of(1)]).labels
    logits = [[1.0 - label, float(label)] for label in labels]
    loss, _ = score(np.array(logits), np.array(labels))
    curve = [{"train_loss": 0.1, "loss": loss, "accuracy": 1.0}] * FIRST.epochs
    best = {"predictions": labels, "logits": logits, "curve": curve, "epochs": [logits] * (FIRST.epochs - 1)}
    assert "accuracy of 100.0% cannot be" in refused(rewritten(files, 1, tmp_path, **best))


def test_every_recorded_step_is_that_of_its_logits(honest, tmp_path):
    files = read_files(honest)
    curve = parse(files[name_of(1)]).curve
    for epoch, what, far in ((1, "loss", 1e-4), (0, "loss", 1e-4), (0, "accuracy", 0.1)):
        wrong = [dict(point) for point in curve]
        wrong[epoch][what] += far
        assert f"the {what} of epoch {epoch + 1}" in refused(rewritten(files, 1, tmp_path, curve=wrong))
    assert "lacks the logits of its epochs" in refused(rewritten(files, 1, tmp_path, epochs=[]))
    two = parse(files[name_of(1)]).epochs * 2
    told = f"the logits of {2 * FIRST.epochs - 1} epochs and a curve of {FIRST.epochs}"
    assert told in refused(rewritten(files, 1, tmp_path, epochs=two))


def test_only_the_students_own_seeds_count(honest, monkeypatch):
    """Anybody else's files are of other seeds; a name in the file that is not theirs gives the seeds away."""
    files = read_files(honest)
    stolen = {file: dumps(dataclasses.replace(parse(text), student="Eve")).encode() for file, text in files.items()}
    assert "No run has a seed of 'eve'" in refused(stolen)
    nobody = {file: dumps(dataclasses.replace(parse(text), student="")).encode() for file, text in files.items()}
    assert "STUDENT was blank" in refused(nobody)
    mixed = files | dict(list(stolen.items())[:3])
    assert "do not all carry one name" in refused(mixed)
    spelled = {
        f: dumps(dataclasses.replace(parse(text), student="lovelace,  ÀDA")).encode() for f, text in files.items()
    }
    assert over_seeds.verdict_on(spelled, ["smoke"], NO_STANDING)[0].outcome is Outcome.PASSED


def test_with_keys_a_name_alone_is_not_enough(honest, monkeypatch):
    files, key = read_files(honest), student.key_of(b"s" * 32, ADA)
    needed = Standing(keys=((student.fold(ADA), key),))
    verdict, against, _ = over_seeds.verdict_on(files, ["smoke"], needed)
    assert verdict.score == 0 and "STUDENT and KEY" in against[0]
    seeds = student.seeds_of(ADA, key, 5)
    assert not {*seeds} & {*SEEDS}
    moved = {}
    for text in files.values():
        run = parse(text)
        run = dataclasses.replace(run, seed=seeds[SEEDS.index(run.seed)])
        experiment = next(one for one in EXPERIMENTS.values() if one.plain() == run.experiment)
        moved[path_of(experiment, run.seed, "").as_posix()] = dumps(run).encode()
    assert over_seeds.verdict_on(moved, ["smoke"], needed)[0].outcome is Outcome.PASSED
    with pytest.raises(ValueError, match="KEY does not belong to STUDENT"):
        student.sign(ADA, key[:-1] + ("0" if key[-1] != "0" else "1"))
    assert student.key_of(b"t" * 32, ADA) != key != student.key_of(b"s" * 32, "Bo")


def test_a_blank_name_says_what_to_do(monkeypatch, capsys):
    monkeypatch.setattr(student, "signature", ("", ""))
    student.sign("")
    assert "STUDENT is blank" in capsys.readouterr().out
    with pytest.raises(ValueError, match="Write your name into STUDENT"):
        rte.seeds("cpu")
    for bad in (7, "\n", "x" * 200, "?!"):
        with pytest.raises(ValueError, match="STUDENT"):
            student.sign(bad)
    student.sign("Zoë Müller")
    twenty = rte.seeds("gpu")
    assert len({*twenty}) == 20 and twenty[:5] == rte.seeds("cpu") and min(twenty) >= 1000 and max(twenty) < 10**6
    assert str(twenty[0]) in capsys.readouterr().out


def test_names_are_compared_as_people_write_them():
    assert student.fold("Zoë  MÜLLER") == student.fold("muller_zoe") == student.fold("Müller, Zoë")
    assert student.fold("Ada") != student.fold("Ade")
    for name, collected in (("Ada Lovelace", "Lovelace_Ada"), ("Ada Lovelace", "lovelaceada_3001"), ("3001", "3001")):
        assert copied_runs.belongs(name, collected)
    assert not copied_runs.belongs("Ada Lovelace", "Bo_Berg") and not copied_runs.belongs("3001", "3002")
    assert course.load().course_id == student.COURSE


def test_edited_files(honest, tmp_path):
    files = read_files(honest)
    whole = json.loads(files[name_of(1)])
    whole["seconds"] += 1
    assert "it was edited" in refused(files | {name_of(1): json.dumps(whole).encode()})
    wrong = [1 - guess for guess in whole["predictions"]]
    assert "is not the largest of its logits" in refused(rewritten(files, 1, tmp_path, predictions=wrong))
    better = [point | {"accuracy": 0.99} for point in whole["curve"]]
    assert "not that of its predictions" in refused(rewritten(files, 1, tmp_path, curve=better))
    labels = [1 - label for label in whole["labels"]]
    curve = []
    for point, table in zip(whole["curve"], [*whole["epochs"], whole["logits"]], strict=True):
        loss, right = score(np.array(table), np.array(labels))
        curve.append(point | {"loss": loss, "accuracy": right})
    assert "labels are not those" in refused(rewritten(files, 1, tmp_path, labels=labels, curve=curve))
    short = {"curve": whole["curve"][-1:], "epochs": []}
    assert f"curve has 1 epochs instead of {FIRST.epochs}" in refused(rewritten(files, 1, tmp_path, **short))
    assert "took no time" in refused(rewritten(files, 1, tmp_path, seconds=0.0))


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"seed": 1}', b"[" * 100_000, b'{"a": NaN}', b" " * (2**20 + 1), NESTED],
    ids=["empty", "cut", "list", "null", "bytes", "fields", "deep", "nan", "large", "nested"],
)
def test_anything_may_be_in_a_file(honest, text):
    assert name_of(1) in refused(read_files(honest) | {name_of(1): text})


def test_types_are_exact(honest, tmp_path):
    run = parse(read_files(honest)[name_of(1)])
    nested: list = []
    for _ in range(60):
        nested = [nested]
    for changes in (
        {"seed": True},
        {"seed": 10**400},
        {"seconds": "1"},
        {"seconds": 10**400},
        {"labels": [0.0]},
        {"labels": [7] * len(run.labels)},
        {"logits": [["0", "1"]]},
        {"logits": [[float("nan"), 0]]},
        {"logits": [[0, float("nan")]] * len(run.labels)},
        {"logits": [[10**400, 0]]},
        {"logits": [[True, 0]]},
        {"logits": [[]]},
        {"logits": []},
        {"curve": [{"accuracy": 1}]},
        {"curve": [{"accuracy": 10**400, "loss": 0, "train_loss": 0}]},
        {"versions": []},
        {"versions": {"torch": nested}},
        {"experiment": {"name": nested}},
        {"experiment": dict.fromkeys(map(str, range(300_000)))},
        {"device": 1},
        {"device": "x" * 2000},
        {"student": 1},
        {"student": "\x1b[2J"},
        {"student": "\ud800"},
        {"epochs": [[["0", "1"]]]},
        {"epochs": [[[]]]},
        {"epochs": {}},
        {"predictions": [-1]},
    ):
        with pytest.raises(BadRun):
            parse(dumps(dataclasses.replace(run, **changes)).encode())


def test_a_true_is_no_one(honest, tmp_path):
    """Equal to Python, another configuration to JSON: it must not reach what looks configurations up."""
    files = read_files(honest)
    for value in (float(FIRST.epochs), True):
        changed = FIRST.plain() | ({"epochs": value} if value is not True else {"train_examples": True})
        assert "another configuration was run" in refused(rewritten(files, 1, tmp_path, experiment=changed))


# What follows is of the size cpu, made of the runs that were recorded: they stand for those of a student where the
# course's own are taken away, and for what a forger has at hand where they are not.

FORGER = "Eve Forger"
TABLES = {rte.SEED_VARIANCE: "5.11", rte.ADAPTER_FUSION: "6.7"}


def claimed(notebook, logits_of, name=FORGER):
    """A whole submission of this name, consistent in itself: `logits_of(experiment, recorded runs, number)` says
    what.
    """
    files = {}
    for arm, experiment in rte.experiments(notebook, "cpu").items():
        known = whole_runs(rte, notebook)[arm]
        for number, seed in enumerate(student.seeds_of(name, "", 5)):
            base = known[number]
            logits = np.round(np.array(logits_of(experiment, known, number), dtype=float), DIGITS)
            shares = [(epoch + 1) / experiment.epochs for epoch in range(experiment.epochs)]
            tables = [np.round(share * logits, DIGITS) for share in shares[:-1]] + [logits]
            curve = []
            for point, table in zip(base.curve, tables, strict=True):
                loss, accuracy = score(table, np.array(base.labels))
                curve.append({"train_loss": point["train_loss"], "loss": loss, "accuracy": accuracy})
            made = dataclasses.replace(
                base,
                seed=seed,
                student=name,
                logits=logits.tolist(),
                predictions=logits.argmax(1).tolist(),
                epochs=[table.tolist() for table in tables[:-1]],
                curve=curve,
                seconds=base.seconds + 0.001,
                device="cpu, 2 threads",  # what a forger would say: the recorded runs name a GPU
            )
            files[path_of(experiment, seed, "").as_posix()] = dumps(made).encode()
    return files


def draw(*what):
    return np.random.default_rng([len(str(what)), *str(what).encode()])


def shipped(experiment, known, number):
    return known[number].logits


def noisy(size):
    return lambda experiment, known, number: (
        known[number].logits + draw(experiment, number).normal(0, size, np.shape(known[number].logits))
    )


def random_predictions(experiment, known, number):
    return draw(experiment, number).normal(0, 0.5, np.shape(known[0].logits))


def gold_with_noise(experiment, known, number):
    labels = np.array(known[0].labels)
    told = np.where(draw(experiment, number).random(len(labels)) < 0.1, 1 - labels, labels)
    return np.stack([1 - told, told], 1) + draw(number, experiment).normal(0, 0.2, (len(labels), 2))


def gold_shaped(experiment, known, number):
    """The labels, hidden in noise that gives an honest accuracy, and the same noise for all seeds of an experiment."""
    labels = 2 * np.array(known[0].labels) - 1
    margins = (
        0.3 * labels + draw(experiment).normal(0, 1, len(labels)) + draw(experiment, number).normal(0, 0.4, len(labels))
    )
    return np.stack([-margins, margins], 1) / 2


def one_scaled(experiment, known, number):
    return np.array(known[0].logits) * (1 + number / 10) + number / 100


def constant(experiment, known, number):
    return [[0.1, 0.2 + number / 1000]] * len(known[0].labels)


def moved(experiment, known, number):
    """One of the course's own, moved until it predicts one class, so that nobody expects anything of it."""
    logits = np.array(known[number].logits)
    logits[:, 0] += (logits[:, 1] - logits[:, 0]).max() + 0.01
    return logits


def moved_and_one_of_noise(experiment, known, number):
    """Where one run has to learn, that one is noise."""
    noise = number == 4 and experiment.learns
    return random_predictions(experiment, known, number) if noise else moved(experiment, known, number)


def one_moved_and_one_of_noise(experiment, known, number):
    """The same run four times; the fifth has nothing in common with them."""
    if number == 4 and experiment.learns:
        return random_predictions(experiment, known, number)
    return moved(experiment, known, 0) + np.array([0.1 * number, 0])


def moved_where_nothing_is_expected(experiment, known, number):
    """Copies that nobody expects to have learnt, and of the others two of five."""
    return (
        moved(experiment, known, number) if not experiment.learns or number < 2 else shipped(experiment, known, number)
    )


def bent(experiment, known, number):
    logits = np.array(known[number].logits)
    return np.sign(logits) * np.abs(logits) ** 1.7


def between(experiment, known, number):
    return 0.5 * np.array(known[number].logits) + 0.5 * np.array(known[(number + 1) % 5].logits)


def exchanged(experiment, known, number):
    return np.array(known[number].logits)[:, ::-1]


def reordered(experiment, known, number):
    return draw(experiment, number).permutation(np.array(known[number].logits))


def reordered_within_classes(experiment, known, number):
    """The accuracy stays as it is."""
    logits, labels = np.array(known[number].logits), np.array(known[0].labels)
    for label in (0, 1):
        logits[labels == label] = draw(experiment, number, label).permutation(logits[labels == label])
    return logits


def around_the_shipped(experiment, known, number):
    """Their mean, moved as one honest seed is, with as much noise: nothing in it contradicts anything."""
    margins = np.array([run.outputs for run in known])
    moved = margins.mean(1, keepdims=True)
    noise = (margins - moved - (margins - moved).mean(0)).std() * 1.1
    own = (margins - moved).mean(0) + moved[number] + draw(experiment, number).normal(0, noise, margins.shape[1])
    return np.stack([-own, own], 1) / 2


@pytest.mark.parametrize("notebook", TABLES)
@pytest.mark.parametrize(
    "forge, says",
    [
        (shipped, "the course's own"),
        (noisy(1e-4), "the course's own"),
        (noisy(1e-3), "the course's own"),
        (noisy(1e-2), "the course's own"),
        (random_predictions, "nothing in common"),
        (gold_with_noise, "cannot be"),
        (gold_shaped, "unlike every other run"),
        (one_scaled, "scaled or moved"),
        (constant, "one class only"),
        (moved, "one class only"),
        (moved_and_one_of_noise, "its runs have nothing in common"),
        (one_moved_and_one_of_noise, "has nothing in common with the other runs"),
        (moved_where_nothing_is_expected, "the course's own"),
        (bent, "its logits bent"),
        (between, "a sum of other runs"),
        (exchanged, "classes exchanged"),
        (reordered, "another order"),
        (reordered_within_classes, "another order"),
    ],
    ids=lambda one: getattr(one, "__name__", None),
)
def test_a_forged_table_earns_nothing(notebook, forge, says):
    check = checking.ResultsCheck(TABLES[notebook], 4, rte, notebook, lambda run_all: None)
    verdict, against, _ = check.verdict_on(claimed(notebook, forge), ["cpu", "gpu"], NO_STANDING)
    assert verdict.score == 0 and says in "; ".join(against), against


@pytest.mark.parametrize("notebook", TABLES)
def test_what_still_passes_until_it_is_audited(notebook):
    """THREAT_MODEL.md says so. If this fails because it is refused now: good, say that there."""
    check = checking.ResultsCheck(TABLES[notebook], 4, rte, notebook, lambda run_all: None)
    files = claimed(notebook, around_the_shipped)
    verdict, _, _ = check.verdict_on(files, ["cpu", "gpu"], NO_STANDING)
    assert verdict.score == 4
    recorded = whole_runs(rte, notebook)
    told = []
    for text in files.values():
        run = parse(text)
        real = dataclasses.replace(recorded[run.experiment["name"]][0], seed=run.seed, device="cpu, 1 threads")
        told.append(audit.compared("eve", FIRST, run, real).verdict)
    assert audit.AGREES not in told and told.count(audit.DIFFERS) >= 10


def counted_runs(source, change, name=FORGER):
    """A whole submission with the fractions of the course's own runs moved by a fifth, and their rows as `change`
    says.
    """
    files = {}
    for arm, experiment in source.experiments(profile="cpu").items():
        for number, seed in enumerate(student.seeds_of(name, "", 5)):
            base, some = whole_runs(source)[arm][number], draw(arm, number, name)
            rows = [
                [
                    max(one * np.exp(some.normal(0, 0.2)), 0.7) if type(one) is float and one > 0.7 else one
                    for one in row
                ]
                for row in base.predictions
            ]
            made = dataclasses.replace(
                base, seed=seed, student=name, predictions=change(rows), seconds=base.seconds + 1
            )
            files[path_of(experiment, seed, "").as_posix()] = dumps(made).encode()
    return files


@pytest.mark.parametrize("source, number", [(tagging, "8.10"), (forgetting, "9.10")])
def test_whole_numbers_of_the_recorded_runs_count_for_nobody_whatever_fractions_are_beside_them(source, number):
    check = checking.ResultsCheck(number, 4, source, source.NOTEBOOK, lambda run_all: None)
    verdict, against, _ = check.verdict_on(counted_runs(source, list), ["cpu", "gpu"], NO_STANDING)
    assert verdict.score == 0 and "has the counts or classes of run 1 of the course's own" in "; ".join(against), (
        against
    )


def test_whole_numbers_with_a_few_changes_are_shown_to_a_person():
    check = checking.ResultsCheck("8.10", 4, tagging, tagging.NOTEBOOK, lambda run_all: None)
    forged = counted_runs(tagging, lambda rows: [*([0, *row[1:3], 0.9] for row in rows[:15]), *rows[15:]])
    verdict, against, unsure = check.verdict_on(forged, ["cpu", "gpu"], NO_STANDING)
    assert verdict.score == 4 and not against
    assert "has the counts or classes of run 1 of the course's own" in "; ".join(unsure), unsure


# 09: in sequence and with a weak pull (L2-SP) one seed makes nearly one model.
@pytest.mark.parametrize("source, most", [(tagging, 0.73), (forgetting, 0.83)])
def test_what_whole_numbers_honest_seeds_have_in_common_is_as_the_threshold_says(source, most):
    runs = whole_runs(source)
    experiments = source.experiments(profile="cpu")
    assert forgery.counted_again(experiments.values(), runs, {}) == ([], [])
    rows = [
        [*map(tuple, experiments[name].whole_numbers(run.predictions))] for name, some in runs.items() for run in some
    ]
    shares = [forgery.in_common(one, other) for one, other in itertools.combinations(rows, 2)]
    assert 0.3 < max(shares) < most < forgery.COUNTED


def test_runs_that_find_nothing_do_not_copy_one_another():
    nothing = [(0, 0)] * 290 + [(1, 1)] * 10
    assert forgery.in_common(nothing, nothing) == 0
    something = [(0, 0)] * 260 + [(1, 1)] * 40
    assert forgery.in_common(something, something) == 1
    assert forgery.in_common(something, something[1:]) == 0
    assert forgery.tells(something) and not forgery.tells(nothing) and not forgery.tells([])


TRAINED = [entry for entry in course.load().notebooks if entry.has_experiments]
# The exercises that give their points to the course's own runs with noise of a tenth, see THREAT_MODEL.md.
NOISE_EARNS = {"07": "7.10", "10": "10.10", "11": "11.8", "12": "12.8"}


def disguised(entry, before=lambda some, number: some[number], name=FORGER):
    """A whole submission of the course's own runs with noise of a tenth on all that is not a count."""
    recorded, files = forgery.recorded_runs(entry.experiment_module().RECORDED), {}
    for arm, experiment in entry.experiments_of("cpu").items():
        some = recorded.get(experiment.folder("").name)
        for number, seed in enumerate(student.seeds_of(name, "", 5) if some else ()):  # else it is made, not trained
            base = before(some, number)
            made = synthetic.made_up(base, seed, name, draw(arm, number, name), experiment.metrics)
            files[path_of(experiment, seed, "").as_posix()] = dumps(made).encode()
    return files


def mixed(some, number):
    """A run with three tenths of another."""
    rows = 0.7 * np.array(some[number].predictions) + 0.3 * np.array(some[number - 1].predictions)
    return dataclasses.replace(some[number], predictions=rows.tolist())


def middle(some, number):
    """The mean of all runs, in place of one."""
    rows = np.mean([run.predictions for run in some], 0)
    return dataclasses.replace(some[number], predictions=rows.tolist())


def results_of(entry, files):
    """What the exercise of a notebook's runs says of these files."""
    (check,) = (one for one in public_checks(entry).values() if isinstance(one, checking.ResultsCheck))
    return check.verdict_on(files, ["cpu", "gpu"], NO_STANDING)


@pytest.mark.parametrize("entry", TRAINED, ids=lambda entry: entry.name)
def test_the_courses_own_runs_with_noise_of_a_tenth_earn_nothing_or_are_shown_to_a_person(entry):
    """THREAT_MODEL.md says so."""
    verdict, against, unsure = results_of(entry, disguised(entry))
    if entry.number not in NOISE_EARNS:
        assert verdict.score == 0 and against
        return
    assert (verdict.exercise, verdict.score, against) == (NOISE_EARNS[entry.number], 4, [])
    shown = [line for line in unsure if "as run" in line and "of them does" in line]
    assert len(shown) >= 3
    files = {line.split()[0] for line in unsure if line not in shown}
    assert not {line.split()[0] for line in shown} & files  # what is said of a run already is not said again


def test_the_mean_of_the_courses_own_losses_is_shown_to_nobody():
    """THREAT_MODEL.md says so. If this fails because it is refused or shown now: good, say that there."""
    entry = course.load().notebook("07")
    verdict, against, unsure = results_of(entry, disguised(entry, middle))
    assert (verdict.score, against, unsure) == (4, [], [])


def two_mixed(some, number):
    """A run of which four rows in ten are those of another."""
    one, other = some[number].predictions, some[(number + 1) % len(some)].predictions
    chance = draw("two mixed", number)
    rows = [row if chance.random() < 0.6 else theirs for row, theirs in zip(one, other, strict=True)]
    curve = some[number].curve
    if "accuracy" in curve[-1]:  # where it ends with the predictions, as a careful forger would have it
        right = np.mean([row[0] == label for row, label in zip(rows, some[number].labels, strict=True)])
        curve = [*curve[:-1], curve[-1] | {"accuracy": float(right)}]
    return dataclasses.replace(some[number], predictions=rows, curve=curve)


@pytest.mark.parametrize("notebook", ["08", "09", "13"])
def test_mixed_rows_of_two_of_the_courses_own_runs_earn_nothing_where_rows_are_counts(notebook):
    """THREAT_MODEL.md says so, whatever is done to the numbers beside the counts."""
    entry = course.load().notebook(notebook)
    files = disguised(entry, two_mixed)
    verdict, against, _ = results_of(entry, files)
    put_together = {line.split()[0] for line in against if "was put together from the course's own runs: 100%" in line}
    few_tell = {
        name for name in files if name.startswith("many_pairs-")
    }  # nearly all sentences are right with each seed
    assert verdict.score == 0 and put_together == {*files} - few_tell and len(put_together) >= 20


@pytest.mark.parametrize("notebook", ["07", "10", "12"])
def test_mixed_rows_of_two_of_the_courses_own_runs_are_shown_to_a_person(notebook):
    """THREAT_MODEL.md says so. If this fails because it is refused now: good, say that there."""
    entry = course.load().notebook(notebook)
    verdict, against, unsure = results_of(entry, disguised(entry, two_mixed))
    assert (verdict.score, against) == (4, [])
    assert sum("may be mixed from the course's own" in line for line in unsure) == 1


def test_what_others_explain_of_a_run_is_of_its_own_part_and_adjusted():
    chance = np.random.default_rng(34)
    common, own = chance.normal(size=400), chance.normal(size=(5, 400))
    known = common + 0.3 * own
    alone = [forgery.own_explained(common + 0.3 * chance.normal(size=400), known) for _ in range(50)]
    assert abs(np.mean(alone)) < 0.01 and max(alone) < 0.06  # by chance, 4 of 399
    assert forgery.own_explained(7 * (0.6 * known[0] + 0.4 * known[1]) + 2, known) > 0.999
    halves = np.where(chance.random(400) < 0.6, known[0], known[1])
    assert 0.25 < forgery.own_explained(halves, known) < 0.5  # 0.4 of endless examples


def test_a_run_with_three_tenths_of_another_is_shown_too():
    entry = course.load().notebook("07")
    verdict, against, unsure = results_of(entry, disguised(entry, mixed))
    assert verdict.score == 4 and not against and sum("of them does" in line for line in unsure) >= 3


@pytest.mark.parametrize("entry", TRAINED, ids=lambda entry: entry.name)
def test_an_honest_run_is_like_no_other_besides_what_all_have_in_common(entry):
    """Each recorded run as a student's, with the others of its experiment as the course's own."""
    recorded = forgery.recorded_runs(entry.experiment_module().RECORDED)
    most = []
    for one in entry.experiments_of("cpu").values():
        some = recorded.get(one.folder("").name, [])
        for index, run in enumerate(some):
            others = {one.folder("").name: [*some[:index], *some[index + 1 :]]}
            assert forgery.akin([one], {one.name: [run]}, others) == []
        rows = [forgery.numbers_of(run) for run in some]
        if rows and rows[0].size and not one.made_up:
            most.append((forgery.own_in_common(np.array(rows)), bool(some[0].outputs.size)))
    highest = {("09", True): 0.52, ("10", False): 0.64}  # of 0.5 in all others: below AKIN, or of counts alone
    assert most and all(common < highest.get((entry.number, fractions), 0.5) for common, fractions in most)


@pytest.mark.parametrize("entry", TRAINED, ids=lambda entry: entry.name)
def test_honest_runs_are_not_taken_for_mixtures(entry):
    """The recorded runs of one seed in all experiments as a student's, with those of the other seeds as the course's
    own: a single run of each experiment, and one recorded run fewer, make alarms likelier than they are in a class."""
    recorded = forgery.recorded_runs(entry.experiment_module().RECORDED)
    experiments = entry.experiments_of("cpu")
    seeds = min(len(recorded[one.folder("").name]) for one in experiments.values())
    assert seeds >= 5
    for place in range(seeds):
        mine = {name: [recorded[one.folder("").name][place]] for name, one in experiments.items()}
        others = {folder: [*some[:place], *some[place + 1 :]] for folder, some in recorded.items()}
        assert forgery.blended(experiments.values(), mine, others) == ([], [])


@pytest.mark.parametrize("notebook", TABLES)
def test_real_runs_of_honest_seeds_are_not_accused(notebook, tmp_path, monkeypatch):
    """The recorded runs as a student's, with the other notebook's as the course's own."""
    others = rte.experiments(next(one for one in TABLES if one != notebook), "cpu").values()
    mine = rte.experiments(notebook, "cpu").values()
    for one in {*(one.folder("").name for one in others)} - {*(one.folder("").name for one in mine)}:
        shutil.copytree(rte.RECORDED / one, tmp_path / "recorded" / one)
    files = claimed(notebook, shipped, "Honest Person")
    monkeypatch.setattr(rte, "RECORDED", tmp_path / "recorded")
    check = checking.ResultsCheck(TABLES[notebook], 4, rte, notebook, lambda run_all: None)
    verdict, against, unsure = check.verdict_on(files, ["cpu", "gpu"], NO_STANDING)
    assert (verdict.score, against, unsure) == (4, [], [])


def test_what_honest_seeds_have_in_common_is_as_the_thresholds_say():
    """The figures above `forgery.NEAR`, from the recorded runs."""
    within, between_arms, summed, ordered, means = [], [], [], [], {}
    arms = rte.experiments(rte.SEED_VARIANCE, "cpu") | rte.experiments(rte.ADAPTER_FUSION, "cpu")
    outputs = forgery.recorded_outputs(rte.RECORDED)  # with the controls, which no student runs
    rows = {name: forgery.shapes(outputs[name]) for name in (one.folder("").name for one in arms.values())}
    for name, (straight, ranked, in_order, _) in rows.items():
        upper = np.triu_indices(len(straight), 1)
        within += [*(straight @ straight.T)[upper], *(ranked @ ranked.T)[upper]]
        some = forgery.recorded_outputs(rte.RECORDED)[name]
        summed += [forgery.explained(one, np.delete(some, place, 0)) for place, one in enumerate(some)]
        for other, theirs in rows.items():
            if other != name:
                between_arms.append(np.abs(straight @ theirs[0].T).max())
                ordered.append((in_order @ theirs[2].T).max())
        means[name.split("-")[0]] = (straight @ straight.T)[upper].mean()
    assert forgery.UNLIKE < 0.7 < min(means.values()) and max(means.values()) < 0.95
    assert min(within) > 0.57 and max(within) < 0.97 < forgery.NEAR
    assert max(between_arms) < 0.8 and max(summed) < 0.98 < forgery.MIXED
    assert max(ordered) < 0.9994 < forgery.PERMUTED


@pytest.mark.parametrize("arm, least", [("fusion", 0.5), ("adapter", 0.47)])
def test_runs_that_were_made_up_have_less_in_common_than_is_asked(arm, least):
    """Two thirds of what recorded runs have in common is asked where that is below UNLIKE; noise has none of it."""
    experiment = rte.experiments(rte.ADAPTER_FUSION, "cpu")[arm]
    known = whole_runs(rte, rte.ADAPTER_FUSION)[arm]
    ours = forgery.recorded_outputs(rte.RECORDED)[experiment.folder("").name]
    assert len(ours) == 10 and forgery.found_in_common(experiment, known, ours) == []

    def mixed(share):
        """The recorded runs, with so much of each replaced by noise that is its own."""
        made = []
        for number, run in enumerate(known):
            own = draw(arm, number).normal(0, run.outputs.std(), len(run.outputs))
            margins = (1 - share) * run.outputs + share * own
            made.append(dataclasses.replace(run, logits=np.stack([-margins / 2, margins / 2], 1).tolist()))
        return forgery.found_in_common(experiment, made, ours)

    assert "nothing in common" in mixed(1)[0] and f"above {least}" in mixed(1)[0]
    assert mixed(0.8)


def submit(known, entry, owner, files, *times):
    """A submission, kept in as many versions as there are times; the last is the one that counts."""
    for number, when in enumerate(times):
        version = known.tree / "handins" / owner / entry.name / f"{when}-{number:08d}"
        course_tree.write(version.with_name(version.name + ".ipynb"), f"version {number}")
        course_tree.write(version.with_name(version.name + ".results.json"), pack(files))
    course_tree.write(course_tree.place(known, "submitted", entry, owner), "{}")
    course_tree.write(course_tree.results_path(known, entry, owner), pack(files))


def test_of_a_copy_nobody_is_accused_by_the_machine(honest, small):
    """Handed in on day 1, copied on day 2, a typo mended on day 3: a person sees both, neither loses a point."""
    known, entry = small
    files = read_files(honest)
    submit(known, entry, "Lovelace_Ada", files, "20270101T120000Z", "20270103T120000Z")
    submit(known, entry, "Aaron_Early", files, "20270102T120000Z")
    standing = copied_runs.of(known, entry)
    assert [one.against for one in standing.values()] == [(), ()]
    ada, thief = " ".join(standing["Lovelace_Ada"].flags), " ".join(standing["Aaron_Early"].flags)
    assert "in a submission of Aaron_Early; those of this student came first" in ada
    assert "2027-01-01 12:00 against 2027-01-02" in ada and "those of Lovelace_Ada came first" in thief
    assert "say that 'Ada Lovelace' made them: is that Aaron_Early?" in thief and "is that" not in ada
    assert "the same name as those of Lovelace_Ada" in thief
    for owner in standing:
        assert over_seeds.verdict_on(files, ["smoke"], standing[owner])[0].score == 4


def test_files_of_another_notebook_do_not_hide_a_copy(honest, small):
    """As many files of the other notebook's experiments as are looked into, which stand first in the alphabet."""
    known, entry = small
    files = read_files(honest)
    other = rte.experiments(rte.ADAPTER_FUSION, "smoke")["adapter"].folder("").name
    assert entry.name == rte.SEED_VARIANCE and other < min(files)
    more = {f"{other}/seed_{number}.json": b"{}" for number in range(MAX_READ)}
    submit(known, entry, "Lovelace_Ada", files, "20270101T120000Z")
    submit(known, entry, "Aaron_Early", files | more, "20270102T120000Z")
    standing = copied_runs.of(known, entry)
    assert over_seeds.verdict_on(files | more, ["smoke"], standing["Aaron_Early"])[0].score == 4, "they hide nothing"
    for owner, neighbour in (("Aaron_Early", "Lovelace_Ada"), ("Lovelace_Ada", "Aaron_Early")):
        assert f"in a submission of {neighbour}" in " ".join(standing[owner].flags)


def test_on_equal_or_unknown_times_neither_is_called_the_first(honest, small):
    known, entry = small
    files = read_files(honest)
    submit(known, entry, "Lovelace_Ada", files, "20270101T120000Z")
    submit(known, entry, "Bo", files, "20270101T120000Z")
    for standing in copied_runs.of(known, entry).values():
        assert not standing.against and "it is not known which came first" in " ".join(standing.flags)
    submit(known, entry, "Cy", files)
    assert "it is not known which came first" in " ".join(copied_runs.of(known, entry)["Cy"].flags)


@pytest.mark.parametrize("how", ["as they are", "scaled", "noise", "reordered", "bent"])
def test_runs_of_another_hand_in_are_found_in_disguise(how, small):
    """Rewritten with the thief's name and seeds; the judge has nothing against them, a person sees both."""
    known, entry = small
    known = known.model_copy(update={"grading": known.grading.model_copy(update={"results_profiles": ("cpu",)})})
    change = {
        "as they are": lambda logits: logits,
        "scaled": lambda logits: 1.5 * logits - 1,
        "noise": lambda logits: logits + draw(how).normal(0, 1e-3, logits.shape),
        "reordered": lambda logits: draw(how).permutation(logits),
        "bent": lambda logits: np.sign(logits) * np.abs(logits) ** 1.7,
    }[how]
    owner = claimed(entry.name, shipped, "Bo Berg")
    theft = claimed(entry.name, lambda experiment, some, number: change(np.array(some[number].logits)), "Eve Forger")
    submit(known, entry, "Bo_Berg", owner, "20270101T120000Z")
    submit(known, entry, "Eve_Forger", theft, "20270102T120000Z")
    standing = copied_runs.of(known, entry)
    more = "and 14 more"
    assert more in standing["Eve_Forger"].flags[0] and "those of Bo_Berg came first" in standing["Eve_Forger"].flags[0]
    assert more in standing["Bo_Berg"].flags[0] and "those of this student came first" in standing["Bo_Berg"].flags[0]
    assert not standing["Eve_Forger"].against and not standing["Bo_Berg"].against


@pytest.mark.parametrize("source", [tagging, forgetting])
def test_whole_numbers_of_another_hand_in_are_found_whatever_fractions_are_beside_them(source, small):
    known, _ = small
    entry = known.notebook(source.NOTEBOOK[:2])
    known = known.model_copy(update={"grading": known.grading.model_copy(update={"results_profiles": ("cpu",)})})
    submit(known, entry, "Bo_Berg", counted_runs(source, list, "Bo Berg"), "20270101T120000Z")
    submit(known, entry, "Eve_Forger", counted_runs(source, list), "20270102T120000Z")
    standing = copied_runs.of(known, entry)
    for who, other in (("Eve_Forger", "Bo_Berg"), ("Bo_Berg", "Eve_Forger")):
        (flag,) = standing[who].flags
        assert f"has the counts or classes of a run in a submission of {other}" in flag, flag
        assert not standing[who].against


@pytest.mark.parametrize("others", [0, 3, 30])
def test_collapsed_runs_of_two_students_are_not_called_copies(others, small):
    """Constant, or a few outputs one step of bfloat16 away: they have nothing by which two could be told to be one."""
    known, entry = small
    experiment = rte.experiments(entry.name, "cpu")["random"]
    for place, owner in enumerate(("Ada Lovelace", "Bo Berg")):
        margins = np.full(277, 0.1 + 0.2 * place)
        margins[draw(owner).choice(277, others, replace=False)] += 0.0005
        content = {"student": owner, "seconds": 1.5 + place, "predictions": [1] * 277}
        content["logits"] = [[0.0, float(margin)] for margin in margins]
        submit(known, entry, owner.replace(" ", "_"), {path_of(experiment, 7 + place, "").as_posix(): encoded(content)})
    standings = copied_runs.of(known, entry)
    assert len(standings) == 2 and not any(standing.flags for standing in standings.values())


def encoded(content):
    return json.dumps(content).encode()


def test_names_in_files_cost_little_and_hide_no_copy(honest, small):
    """A name of accents takes quadratic time to fold; names of all classmates leave room for what is copied."""
    known, entry = small
    files = read_files(honest)
    submit(known, entry, "Lovelace_Ada", files, "20270101T120000Z")
    folder = FIRST.folder("").name
    junk = {"seconds": 1, "logits": [], "predictions": [0.5, 0.25, 0.125]}
    more = {
        f"{folder}/seed_{900 + place}.json": encoded(junk | {"student": f"Mate {place:c}"}) for place in range(65, 91)
    }
    more[f"{folder}/seed_899.json"] = encoded(junk | {"student": "a" + "\u0300\u0316" * 100_000})
    for place in range(65, 91):
        submit(
            known,
            entry,
            f"Mate_{place:c}",
            {f"{folder}/seed_{place}.json": encoded(junk | {"student": f"Mate {place:c}"})},
        )
    submit(known, entry, "Eve", files | more, "20270102T120000Z")
    began = time.process_time()
    flags = copied_runs.of(known, entry)["Eve"].flags
    assert time.process_time() - began < 5
    assert "in a submission of Lovelace_Ada" in flags[0] and len(flags) <= 2 * copied_runs.MOST + 1
    assert "more names that are not its own" in flags[-1]


def test_two_students_whom_chance_gave_one_seed_are_not_flagged(honest, small, monkeypatch):
    known, entry = small
    of_one = FIRST.folder("").name  # the size smoke has others whose honest seeds are near copies of each other
    files = {file: text for file, text in read_files(honest).items() if file.startswith(of_one)}
    twin = {file: dumps(dataclasses.replace(parse(text), student="Bo")).encode() for file, text in files.items()}
    submit(known, entry, "Lovelace_Ada", files, "20270101T120000Z")
    submit(known, entry, "Bo", twin, "20270102T120000Z")
    assert "and 4 more" in copied_runs.of(known, entry)["Bo"].flags[0]
    monkeypatch.setattr(copied_runs.students, "seeds_of", lambda name, key, count: SEEDS)
    assert not copied_runs.of(known, entry)["Bo"].flags and not copied_runs.of(known, entry)["Lovelace_Ada"].flags


def test_anything_may_be_in_a_file_that_is_compared(honest, small):
    known, entry = small
    texts = [
        b"",
        b"[]",
        b'{"logits": [[1]]}',
        b'{"seconds": 1' + b"0" * 400 + b', "logits": [[1, 2], [3, 4]]}',
        b"[" * 9999,
    ]
    texts += [
        b'{"seconds": 1, "logits": ' + b"[" * 60 + b"]" * 60 + b"}",
        b'{"seconds": 1, "logits": [[1' + b"0" * 400 + b", 1]]}",
    ]
    files = {file: texts[place % len(texts)] for place, file in enumerate(read_files(honest))}
    submit(known, entry, "Lovelace_Ada", read_files(honest), "20270101T120000Z")
    submit(known, entry, "Mal", files, "20270101T120000Z")
    assert copied_runs.of(known, entry)["Lovelace_Ada"].flags == ()


def test_a_persons_decision_is_applied_and_undone(honest, small):
    known, entry = small
    files = read_files(honest)
    submit(known, entry, "Lovelace_Ada", files, "20270101T120000Z")
    submit(known, entry, "Eve", files, "20270102T120000Z")
    copied_runs.decide(known, entry, "Eve", False)
    copied_runs.decide(known, entry, "Lovelace_Ada", True)
    standing = copied_runs.of(known, entry)
    assert standing["Eve"].against == (copied_runs.CONFIRMED,) and not standing["Lovelace_Ada"].flags
    verdict, against, _ = over_seeds.verdict_on(files, ["smoke"], standing["Eve"])
    assert verdict.score == 0 and against == [copied_runs.CONFIRMED] and "Lovelace" not in verdict.message
    assert over_seeds.verdict_on(files, ["smoke"], standing["Lovelace_Ada"])[0].score == 4
    assert list(audit.accepted(known, entry)) == ["Lovelace_Ada"]
    for one in ("Eve", "Lovelace_Ada"):
        copied_runs.decide(known, entry, one, None)
    standing = copied_runs.of(known, entry)
    assert all(not one.against and one.flags for one in standing.values())
    with pytest.raises(course.CourseError, match="no runs of 05_seed_variance; there are runs of Eve, Lovelace_Ada"):
        copied_runs.decide(known, entry, "nobody", False)
    with pytest.raises(course.CourseError, match="nothing to undo"):
        copied_runs.decide(known, entry, "Eve", None)
    course_tree.write(known.tree / "decisions" / f"{entry.name}.json", "[]")
    with pytest.raises(course.CourseError, match="cannot be read"):
        copied_runs.of(known, entry)


def listed(known, *rows):
    columns = "id,first_name,last_name,email,platform_ids\n"
    course_tree.write(known.tree / "students.csv", columns + "".join(f"{row}\n" for row in rows))


@pytest.mark.parametrize(
    "row, flagged",
    [
        ("al01,Ada,Lovelace,,", False),
        ("al01,Augusta,King,,AdaLovelace", False),
        ("al01,Augusta,King,ada.lovelace@example.org,", False),
        ("al01,Augusta,King,,", True),
    ],
)
def test_whose_runs_they_are_is_asked_of_the_class_list(honest, small, row, flagged):
    """The tree calls her by the id, and her runs by the name that she wrote into STUDENT."""
    known, entry = small
    submit(known, entry, "al01", read_files(honest), "20270101T120000Z")
    assert Dependencies(known).standings[entry.name]["al01"].flags, "nobody knows a name of al01 yet"
    listed(known, row)
    found = Dependencies(known).standings[entry.name]["al01"].flags
    assert found == (("its runs say that 'Ada Lovelace' made them: is that al01?",) if flagged else ())


def test_two_students_of_one_name_are_told_to_write_their_ids(honest, small, monkeypatch, capsys):
    known, entry = small
    listed(known, "al01,Ada,Lovelace,,", "al02,Ada,Lovelace,,", "bb03,Bo,Berg,,")
    for owner in ("al01", "al02"):
        submit(known, entry, owner, read_files(honest), "20270101T120000Z")
    (note,) = [flag for flag in copied_runs.of(known, entry)["al02"].flags if "the same name" in flag]
    assert note == (
        "its runs carry the same name as those of al01: both are called Ada Lovelace in students.csv, so each has to "
        "write the id into STUDENT, al02 or al01"
    )
    assert roster.load(known).namesakes() == {"Ada Lovelace": ["al01", "al02"]}
    monkeypatch.setattr(student, "signature", ("", ""))
    student.sign("Ada Lovelace")
    told = capsys.readouterr().out
    assert "Everybody who has this name in your course has the same seeds: then write your id" in told
    assert copied_runs.belongs("al01", "al01") and student.seeds_of("al01", "", 5) != student.seeds_of("al02", "", 5)


@pytest.mark.parametrize("counts", [True, False])
def test_what_a_person_has_decided_waits_for_nobody(honest, small, counts):
    known, entry = small
    submit(known, entry, "Lovelace_Ada", read_files(honest), "20270101T120000Z")
    submit(known, entry, "Eve", read_files(honest), "20270102T120000Z")
    assert copied_runs.of(known, entry)["Eve"].flags
    copied_runs.decide(known, entry, "Eve", counts)
    standing = copied_runs.of(known, entry)
    assert not standing["Eve"].flags and bool(standing["Eve"].against) == (not counts)
    assert standing["Lovelace_Ada"].flags, "about her nobody has decided"


def test_what_the_tree_keeps_of_standings_is_worked_out_anew_when_a_run_or_a_decision_changes(
    honest, small, monkeypatch
):
    known, entry = small
    asked, compared = [], copied_runs.of_all
    monkeypatch.setattr(copied_runs, "of_all", lambda course: (asked.append(1), compared(course))[1])

    def standings(known=known):
        found = Dependencies(known).standings[entry.name]
        keyed = {who: dataclasses.replace(one, keys=None) for who, one in found.items()}
        assert keyed == {who: dataclasses.replace(one, keys=None) for who, one in copied_runs.of(known, entry).items()}
        return found

    submit(known, entry, "Lovelace_Ada", read_files(honest), "20270101T120000Z")
    assert not standings()["Lovelace_Ada"].flags and not standings()["Lovelace_Ada"].flags and len(asked) == 1
    submit(known, entry, "Eve", read_files(honest), "20270102T120000Z")
    assert standings()["Eve"].flags and standings()["Eve"].flags and len(asked) == 2
    copied_runs.decide(known, entry, "Eve", False)
    assert standings()["Eve"].against and len(asked) == 3
    keyed = known.model_copy(update={"grading": known.grading.model_copy(update={"run_keys": True})})
    assert standings(keyed)["Eve"].keys
    kept = "".join(path.read_text() for path in (known.tree / "cache").iterdir())
    assert not any(key in kept for _, key in standings(keyed)["Eve"].keys), "keys are kept nowhere"


def test_the_recorded_runs_of_the_course_are_nobodys_own():
    for notebook in TABLES:
        check = checking.ResultsCheck(TABLES[notebook], 4, rte, notebook, lambda run_all: None)
        verdict, against, _ = check.verdict_on(read_files(rte.RECORDED), ["cpu"], NO_STANDING)
        assert verdict.score == 0 and "do not say whose they are" in against[0]


def test_packed_collected_and_filed(honest, tmp_path, monkeypatch, small):
    known, entry = small
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"{entry.name}.ipynb").write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    packed = hand_in.pack(entry.name, honest)
    with zipfile.ZipFile(packed) as archive:
        assert len(archive.namelist()) == 16
    inbox = tmp_path / "inbox" / "Ada Lovelace"
    inbox.mkdir(parents=True)
    packed.rename(inbox / packed.name)
    result = collect(known, tmp_path / "inbox")
    assert len(result.taken) == 1 and not result.refused
    assert unpack(handed_in(known, entry, "Ada_Lovelace")[1]) == read_files(honest)
    assert copied_runs.of(known, entry) == {"Ada_Lovelace": NO_STANDING}
    assert list(audit.accepted(known, entry)) == ["Ada_Lovelace"]
    (table,) = report.class_tables(known, entry)
    assert {name: len(runs) for name, runs in table.runs.items()} == dict.fromkeys(EXPERIMENTS, 5)
    with pytest.raises(FileNotFoundError, match="is not there"):
        hand_in.pack("06_adapter_fusion", honest)


def test_a_class_is_compared_within_each_students_runs(monkeypatch, small):
    """A seed's number means something only within one student's runs; whose runs come first changes nothing."""
    known, entry = small

    def made(name, student, seed, right):
        labels = [0, 1] * 10
        guesses = [label if place < right else 1 - label for place, label in enumerate(labels)]
        return Run({"name": name}, seed, labels, guesses, [[float(student), seed + right / 100]], [])

    ada = {"first": [made("first", 1, 7, 10), made("first", 1, 8, 12)]}
    ada["second"] = [made("second", 1, 8, 13), made("second", 1, 7, 11)]
    bob = {"first": [made("first", 2, 7, 4)], "second": [made("second", 2, 7, 5)]}
    (known.tree / "submitted" / "ada" / entry.name).mkdir(parents=True)
    (known.tree / "submitted" / "ada" / entry.name / "results.json").write_text("{}")
    for these in ({"ada": ada, "bob": bob}, {"bob": bob, "ada": ada}):
        monkeypatch.setattr(audit, "accepted", lambda course, entry, around, found=these: found)
        (table,) = report.class_tables(known, entry)
        (found,) = table.comparisons()
        assert found.seeds == 3 and found.difference == pytest.approx(5)
        assert found.by_seed == pytest.approx((5, 5))  # each student gained one of twenty with each seed


def test_runs_of_two_sizes_have_rows_of_their_own(monkeypatch, small):
    known, entry = small
    known = known.model_copy(update={"grading": known.grading.model_copy(update={"results_profiles": ("cpu", "gpu")})})
    found = {}
    for place, profile in enumerate(("cpu", "gpu", "gpu")):
        one = rte.experiments(entry.name, profile)["pretrained"]
        logits = [[0.0, 1.0 + place], [1.0, 0.0]]
        found[f"student{place}"] = {"pretrained": [Run(one.plain(), 7, [1, 0], [1, 0], logits, [])]}
    (known.tree / "submitted" / "ada" / entry.name).mkdir(parents=True)
    (known.tree / "submitted" / "ada" / entry.name / "results.json").write_text("{}")
    monkeypatch.setattr(audit, "accepted", lambda course, entry, around: found)
    (table,) = report.class_tables(known, entry)
    assert {name: len(runs) for name, runs in table.runs.items()} == {"pretrained, cpu": 1, "pretrained, gpu": 2}
    monkeypatch.setattr(audit, "accepted", lambda course, entry, around: {"student0": found["student0"]})
    (table,) = report.class_tables(known, entry)
    assert [*table.runs] == ["pretrained"]


def test_a_link_in_a_folder_of_results_is_not_followed(tmp_path):
    (tmp_path / "secret.json").write_text("{}")
    (tmp_path / "results" / "a").mkdir(parents=True)
    (tmp_path / "results" / "a" / "seed_1.json").symlink_to(tmp_path / "secret.json")
    assert read_files(tmp_path / "results") == {}


def test_an_audit_finds_what_a_forged_file_hides(honest):
    torch.set_num_threads(1)
    run = parse(read_files(honest)[name_of(1)])
    same = audit.again("ada", run, FIRST)
    assert same.verdict == audit.AGREES and same.agreement == 1.0 and same.tolerance is not None
    flipped = [1 - guess for guess in run.predictions]
    forged = dataclasses.replace(run, predictions=flipped, logits=[row[::-1] for row in run.logits])
    found = audit.again("eve", forged, FIRST)
    assert found.verdict == audit.DIFFERS and found.agreement == 0.0


@pytest.fixture
def audited(monkeypatch, tmp_path):
    """The command `audit run 05` of a class where one run was trained again before something stopped it."""
    known, said = course.load(tree=tmp_path / "tree"), io.StringIO()
    one = audit.Audited("ada", "pretrained", 7, "70.0%", "70.0%", 1.0, 1.0, 0.99)

    def command(*arguments, then=None):
        def found(*_):
            yield one
            if then:
                raise then

        monkeypatch.setattr(audit, "audit", found)
        monkeypatch.setattr(cli.context, "load", lambda: known)
        monkeypatch.setattr(cli.context, "console", cli.context.Console(file=said, width=200))
        monkeypatch.setattr("sys.argv", ["autograder", "audit", *(arguments or ("run", "05"))])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code, said.getvalue()

    return command


@pytest.mark.parametrize(
    "then, ends, says",
    [
        (None, 0, ""),
        (KeyboardInterrupt(), cli.INTERRUPTED, "the same command begins again"),
        (course.CourseError("no data"), 2, "autograder: no data"),
    ],
)
def test_what_an_audit_has_found_is_shown_whatever_stops_it(audited, capsys, then, ends, says):
    ended, said = audited(then=then)
    assert (ended or 0) == ends and "70.0%" in said and says in capsys.readouterr().err
    assert ("1 runs were trained again, 0 do not agree" in said) == (then is None)


def test_decisions_that_contradict_each_other_are_refused(audited, capsys):
    assert audited("05", "--confirm", "ada", "--acquit", "ada")[0] == 2
    assert "two decisions about one student" in capsys.readouterr().err


def test_what_an_audit_lacks_is_told_in_a_line(monkeypatch, tmp_path):
    known = course.load(tree=tmp_path)
    entry = known.notebook(rte.SEED_VARIANCE)
    run = whole_runs(rte, rte.SEED_VARIANCE)["pretrained"][0]
    monkeypatch.setattr(audit, "accepted", lambda *_: {"ada": {"pretrained": [run]}})
    monkeypatch.setattr(audit, "suspicions", lambda *_: {})

    def again(*_):
        raise ImportError("the encoder minilm is not installed: install it")

    monkeypatch.setattr(audit, "again", again)
    with pytest.raises(course.CourseError, match="`pretrained` cannot be trained here: the encoder minilm"):
        list(audit.audit(known, entry, 1.0))
    with pytest.raises(course.CourseError, match="none is not a folder: with --data-dir"):
        list(audit.audit(known, entry, 1.0, 0, tmp_path / "none"))


def test_naming_another_device_helps_no_forger():
    """Random predictions differ wherever they claim to come from; an honest run of a device that was never measured
    is for a person, and so is one that is no closer than another seed."""
    runs = whole_runs(rte, rte.SEED_VARIANCE)["pretrained"][:2]  # of a GPU, which was never compared
    real, other_seed = (dataclasses.replace(run, device="cpu, 1 threads") for run in runs)
    lies = {"device": "Tesla T4", "precision": "float32"}
    logits = random_predictions("x", [real], 0)
    wrong = dataclasses.replace(real, logits=logits.tolist(), predictions=logits.argmax(1).tolist())
    assert audit.compared("eve", FIRST, dataclasses.replace(wrong, **lies), real).verdict == audit.DIFFERS
    assert audit.compared("eve", FIRST, wrong, real).verdict == audit.DIFFERS
    assert audit.compared("eve", FIRST, other_seed, real).verdict == audit.DIFFERS
    assert audit.compared("eve", FIRST, dataclasses.replace(other_seed, **lies), real).verdict == audit.UNKNOWN
    newer = dataclasses.replace(other_seed, versions=real.versions | {"torch": "9"})
    assert audit.compared("eve", FIRST, newer, real).verdict == audit.UNKNOWN
    assert (
        audit.compared("bo", FIRST, real, real).verdict
        == audit.compared("bo", FIRST, dataclasses.replace(real, **lies), real).verdict
    )


def test_an_audit_takes_the_suspicious_and_by_chance():
    experiment = {"name": "pretrained"}
    base = whole_runs(rte, rte.SEED_VARIANCE)["pretrained"][0]
    runs = [
        (f"s{owner}", dataclasses.replace(base, seed=seed, experiment=experiment))
        for owner in range(20)
        for seed in range(5)
    ]
    why = {("s3", "pretrained", 2): ["a", "b"], ("s3", "pretrained", 1): ["a"], ("s7", "pretrained", 0): ["a"]}
    taken = [(owner, run.seed) for owner, run in audit.sample(runs, why, 6, 0)]
    assert taken[:3] == [("s3", 2), ("s7", 0), ("s3", 1)] and len({*taken}) == 6
    assert [(owner, run.seed) for owner, run in audit.sample(runs, why, 6, 1)][3:] != taken[3:]
    assert len(audit.sample(runs, {}, 4, 0)) == 4 and len(audit.sample(runs, why, 1, 0)) == 1


def test_what_is_suspicious_is_said(honest, small):
    known, entry = small
    files = read_files(honest)
    submit(known, entry, "Lovelace_Ada", files, "20270101T120000Z")
    submit(known, entry, "Bo", files, "20270101T120000Z")
    why = audit.suspicions(known, entry, audit.accepted(known, entry))
    assert len(why) == 30
    for reasons in why.values():
        assert any("in a submission of" in one for one in reasons) and "another run took the same time" in " ".join(
            reasons
        )


def test_pack_is_lossless_for_what_run_seeds_writes(honest):
    files = read_files(honest)
    assert len(files) == 15 and unpack(pack(files)) == files
    assert pack({}) == b"" and unpack(b"") == {}
    runs, against = examine(files, EXPERIMENTS.values(), SEEDS)
    assert not against and [len(some) for some in runs.values()] == [5, 5, 5]
