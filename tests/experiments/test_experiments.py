"""An experiment is added with one module: what grades, audits, compares and reports runs knows no kind of them."""

import dataclasses
import importlib
import re

import numpy as np
import pytest
import toy_experiment
from helpers import changed
from toy_experiment import READING, TAGGING

import utils.checks
from autograder import course, synthetic
from autograder.author.checks import public_checks
from autograder.gradebook import course_tree
from autograder.grading import audit, copied_runs
from autograder.intake.run_files import pack
from autograder.reports import report
from utils.experiments import student
from utils.experiments.experiment import Run, dumps, parse, path_of
from utils.experiments.runs import run_seeds
from utils.experiments.seed_table import SeedTable, compare
from utils.grading import dispatch
from utils.grading.results_check import ResultsCheck
from utils.grading.standing import NO_STANDING
from utils.grading.verdict import Outcome

NOTEBOOKS = (TAGGING, READING)
CHECKS = '''"""Checks of a made-up notebook."""

import toy_experiment

from utils.grading.results_check import results_check


@results_check("97.1", points=4, source=toy_experiment, notebook="{notebook}")
def every_run(run_all):
    """Every experiment with every seed."""
'''
ADA, BO = "Ada Lovelace", "Bo Berg"
ENGINE = [
    *(course.ROOT / "autograder").rglob("*.py"),
    *(course.ROOT / "utils" / "grading").glob("*.py"),
    *(course.ROOT / "utils" / "experiments" / f"{name}.py" for name in ("runs", "seed_table", "experiment", "forgery")),
]


@pytest.fixture
def known(tmp_path, monkeypatch):
    """A course with the two notebooks and the checks of their runs."""
    for notebook in NOTEBOOKS:
        (tmp_path / f"nb{notebook}.py").write_text(CHECKS.format(notebook=notebook))
        monkeypatch.delitem(importlib.sys.modules, f"utils.checks.nb{notebook}", raising=False)
    monkeypatch.setattr(utils.checks, "__path__", [*utils.checks.__path__, str(tmp_path)])
    rows = tuple(
        course.NotebookEntry(name=one, title="A toy", experiments=toy_experiment.__name__) for one in NOTEBOOKS
    )
    return course.load(tree=tmp_path / "tree").model_copy(update={"notebooks": rows})


def runs_of(notebook, name, folder, monkeypatch, profile="cpu"):
    """The files of somebody who ran everything."""
    monkeypatch.setattr(student, "signature", (name, ""))
    files = {}
    for experiment in toy_experiment.experiments(notebook, profile).values():
        for run in run_seeds(experiment, student.seeds_of(name, "", 5), folder):
            files[path_of(experiment, run.seed, "").as_posix()] = path_of(experiment, run.seed, folder).read_bytes()
    return files


def check_of(entry):
    """The check of a notebook's experiments."""
    (check,) = (check for check in public_checks(entry).values() if isinstance(check, ResultsCheck))
    return check


def submit(known, entry, owner, files):
    course_tree.write(course_tree.place(known, "submitted", entry, owner), "{}")
    course_tree.write(course_tree.results_path(known, entry, owner), pack(files))


@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_it_is_graded_from_what_it_predicted(notebook, known, tmp_path, monkeypatch):
    check = check_of(known.notebook(notebook))
    files = runs_of(notebook, ADA, tmp_path / "ada", monkeypatch)
    verdict, against, unsure = check.verdict_on(files, ["cpu"], NO_STANDING)
    assert (verdict.outcome, verdict.score, against, unsure) == (Outcome.PASSED, 4, [], [])
    first = parse(files[min(files)])
    for says, changes in {
        "labels are not those": {"labels": [*first.labels[1:], first.labels[0]]},
        "run with seed": {"seed": 7},
        "another configuration": {"experiment": first.experiment | {"name": "other"}},
        "numbers instead of predictions": {"predictions": [], "numbers": {"F1": 99.0}},
        "took no time": {"seconds": 0.0},
        "labels, 1 predictions": {"predictions": first.predictions[:1]},
        "another number of tags" if notebook == TAGGING else "not of the kind": {
            "predictions": ["x"] * len(first.predictions)
        },
        "not a list of numbers": {"predictions": [[[0]]] * len(first.predictions)},
    }.items():
        verdict, against, _ = check.verdict_on(changed(files, min(files), **changes), ["cpu"], NO_STANDING)
        assert verdict.score == 0 and says in against[0], says
    missing = dict(list(files.items())[1:])
    assert "is missing" in check.verdict_on(missing, ["cpu"], NO_STANDING)[1][0]
    smoke = runs_of(notebook, ADA, tmp_path / "smoke", monkeypatch, "smoke")
    assert "size smoke" in check.verdict_on(smoke, ["cpu"], NO_STANDING)[1][0]


def test_what_was_not_measured_is_for_a_person_and_costs_nothing(known, tmp_path, monkeypatch):
    """The same losses with noise under each seed: suspicious by figures that were measured on another kind."""
    check = check_of(known.notebook(READING))
    files = runs_of(READING, ADA, tmp_path / "ada", monkeypatch)
    some = parse(files[min(files)]).predictions
    for number, name in enumerate(files):
        run = parse(files[name])
        noise = np.random.default_rng(number).normal(0, 0.1, len(some))
        files[name] = dumps(dataclasses.replace(run, predictions=(np.array(some) + noise).tolist())).encode()
    verdict, against, unsure = check.verdict_on(files, ["cpu"], NO_STANDING)
    assert (verdict.score, against) == (4, []) and any("with noise" in one for one in unsure)
    exact = {
        name: dumps(dataclasses.replace(parse(text), predictions=[2.0 * one + place for one in some])).encode()
        for place, (name, text) in enumerate(files.items())
    }
    verdict, against, _ = check.verdict_on(exact, ["cpu"], NO_STANDING)
    assert verdict.score == 0 and "scaled or moved" in against[0]


@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_it_is_compared_with_the_class_and_audited(notebook, known, tmp_path, monkeypatch):
    entry = known.notebook(notebook)
    assert entry.has_experiments
    files = runs_of(notebook, ADA, tmp_path / "ada", monkeypatch)
    submit(known, entry, "Ada_Lovelace", files)
    submit(known, entry, "Bo_Berg", runs_of(notebook, BO, tmp_path / "bo", monkeypatch))
    assert {*copied_runs.of(known, entry).values()} == {NO_STANDING}
    done = list(audit.audit(known, entry, 1.0))
    assert len(done) == 20 and {one.verdict for one in done} == {audit.AGREES}
    assert {one.claimed == one.found for one in done} == {True}
    assert [one.likeness for one in done] == pytest.approx([1] * 20)
    forged = changed(
        files, min(files), predictions=parse(files[min(files)]).labels if notebook == TAGGING else [1.0] * 40
    )
    submit(known, entry, "Ada_Lovelace", forged)
    (found,) = [one for one in audit.audit(known, entry, 1.0) if one.claimed != one.found]
    assert found.verdict != audit.AGREES and found.student == "Ada_Lovelace"
    submit(known, entry, "Eve", files)
    flags = " ".join(copied_runs.of(known, entry)["Eve"].flags)
    assert "in a submission of Ada_Lovelace" in flags and "say that 'Ada Lovelace' made them" in flags


@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_it_is_reported_in_the_classs_table(notebook, known, tmp_path, monkeypatch):
    entry = known.notebook(notebook)
    metric = toy_experiment.F1 if notebook == TAGGING else toy_experiment.LOSS
    for name in (ADA, BO):
        submit(known, entry, name.replace(" ", "_"), runs_of(notebook, name, tmp_path / name, monkeypatch))
    (table,) = report.class_tables(known, entry)
    assert [len(runs) for runs in table.runs.values()] == [10, 10]
    row = table.frame().loc["pretrained"]
    assert row[f"mean, {metric.unit}"] == pytest.approx(np.mean([metric.of(run) for run in table.runs["pretrained"]]))
    assert not [name for name in row.index if "majority" in name or "degenerate" in name] and not table.remarks()
    (found,) = table.comparisons()
    assert found.shown and found.ahead == 1 and found.examples == toy_experiment.SENTENCES
    assert (found.difference > 0) is (notebook == TAGGING)
    assert f" {metric.difference_unit}, a difference is shown: 95% from " in str(found)
    assert table.caption.startswith(metric.name[0].upper() + metric.name[1:])
    assert table.plot().alt.startswith(table.caption.split(" over seeds")[0])


def test_a_metric_of_sums_is_drawn_again_as_such():
    """F1 of drawn sentences, from their counts; the mean of the sentences' F1 is something else."""
    first, second = (run_seeds(one, range(1, 5), None) for one in toy_experiment.experiments(TAGGING, "cpu").values())
    found = compare(first, second, toy_experiment.F1)
    rows = [[np.array(toy_experiment.counts(run), dtype=float) for run in runs] for runs in (first, second)]
    draw, slow = np.random.default_rng(0), []
    for _ in range(1500):
        seeds, examples = draw.integers(4, size=4), draw.integers(toy_experiment.SENTENCES, size=40)
        sums = [np.array([side[seed][examples].sum(0) for seed in seeds]) for side in rows]
        values = [200 * one[:, 0] / (one[:, 1] + one[:, 2]) for one in sums]
        slow.append((values[1] - values[0]).mean())
    assert found.crossed == pytest.approx(np.quantile(slow, [0.025, 0.975]), abs=0.25 * np.std(slow))
    assert found.by_example == pytest.approx(np.quantile(slow, [0.025, 0.975]), abs=1.5 * np.std(slow))


def test_runs_without_predictions_are_shown_and_say_what_they_cannot():
    first, second = (
        [Run({"name": name}, seed, [], [], [], [], numbers={"F1": base + seed}) for seed in (1, 2, 3)]
        for name, base in (("plain", 50.0), ("pretrained", 60.5))
    )
    table = SeedTable({"plain": first, "pretrained": second}, toy_experiment.F1)
    assert table.frame().loc["plain", "mean, %"] == 52 and not table.remarks()
    (found,) = table.comparisons()
    assert found.difference == pytest.approx(10.5) and found.examples == 0 and found.shown
    assert "a difference is shown, on these examples alone: 95% from +10.50 to +10.50 over seeds alone" in str(found)
    assert parse(dumps(first[0]).encode()) == first[0]


@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_a_made_up_class_has_runs_of_it(notebook, known, tmp_path, monkeypatch):
    check = check_of(known.notebook(notebook))
    draw, files = np.random.default_rng(0), runs_of(notebook, ADA, tmp_path / "ada", monkeypatch)
    made = {name: synthetic.made_up(parse(text), parse(text).seed, BO, draw) for name, text in files.items()}
    seeds = dict(zip(student.seeds_of(ADA, "", 5), student.seeds_of(BO, "", 5), strict=True))
    as_bo = {
        re.sub(r"\d+(?=\.json)", str(seeds[run.seed]), name): dumps(dataclasses.replace(run, seed=seeds[run.seed]))
        for name, run in made.items()
    }
    assert check.verdict_on({name: text.encode() for name, text in as_bo.items()}, ["cpu"], NO_STANDING)[0].score == 4


def test_no_module_of_the_engine_names_an_experiment():
    assert len(ENGINE) > 50
    names = re.compile(r"\brte\b|PairExperiment|pretraining|\btagging")
    found = [path for path in ENGINE if names.search(path.read_text())]
    assert not found


def test_check_and_course_name_one_module():
    known = [entry for entry in course.load().notebooks if entry.has_experiments]
    assert {"05", "07", "10"} <= {entry.number for entry in known}
    for entry in known:
        check = check_of(entry)
        assert (check.source, check.notebook) == (entry.experiment_module(), entry.name)


def doubled(doubled):
    """What the student's function of the tests below should do."""
    assert doubled(2) == 4, "this is not the double."


def asked(answer):
    """How to ask a kernel whose one answer this is; None is no answer."""
    namespace = {} if answer is None else {"doubled": answer}
    return lambda request: dispatch.answer(namespace, request)


READ = {"right": (lambda value: 2 * value, 4), "wrong": (lambda value: value, 1), "missing": (None, 1)}


@pytest.mark.parametrize("answer, score", READ.values(), ids=READ)
def test_the_function_that_reads_results_has_points_of_its_own(answer, score):
    """Accepted runs keep theirs whatever the function does; other points of a course are shared alike."""
    check = ResultsCheck("97.1", 4, toy_experiment, READING, doubled, reading=3)
    for priced, worth in ((check, 1), (check.worth(2), 0.5)):
        verdict = priced.with_reading(priced.reading.verdict(asked(answer), []))
        assert verdict.score == score * worth and [part.name for part in verdict.parts] == ["the runs", "doubled"]
        assert verdict.in_parts == (score == 1) and ("doubled: " in verdict.sentence()) == (score == 1)
    assert "his is not the double." in check.with_reading(check.reading.verdict(asked(READ["wrong"][0]), [])).sentence()


def test_at_home_results_are_read_after_the_runs(tmp_path, monkeypatch):
    """Without runs nothing is read; runs of the size smoke earn nothing, and their reading is checked all the same."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COURSE_PROFILE", "smoke")
    check = ResultsCheck("97.1", 4, toy_experiment, READING, doubled, reading=2)
    right, wrong = asked(READ["right"][0]), asked(READ["wrong"][0])
    assert "no runs in your folder of results" in check.verdict(right, []).message
    runs_of(READING, ADA, tmp_path / "results", monkeypatch)  # the toy has one size
    verdict = check.verdict(right, [])
    assert (verdict.outcome, verdict.points, verdict.message[:4]) == (Outcome.PASSED, 0, "Runs"), verdict
    verdict = check.verdict(wrong, [])
    assert (verdict.outcome, verdict.score) == (Outcome.WRONG, 0) and "his is not the double." in verdict.sentence()
    monkeypatch.setenv("COURSE_PROFILE", "cpu")
    assert [check.verdict(ask, []).score for ask in (right, wrong)] == [4, 2]
    for path in (tmp_path / "results").rglob("seed_*.json"):
        path.unlink()
        break
    assert check.verdict(right, []).score == 0
