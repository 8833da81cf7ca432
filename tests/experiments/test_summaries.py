"""What students get of the recorded runs: no predictions, and exactly the numbers of the whole runs."""

import dataclasses
import itertools
import json
import shutil

import numpy as np
import pytest

from autograder import course
from autograder.author import release, summaries
from autograder.sandbox import withheld
from utils.experiments import forgery, forgetting, longer_context, objectives, rte, smaller, tagging, translation
from utils.experiments.experiment import Run, parse, read_files
from utils.experiments.runs import load_table
from utils.experiments.seed_table import SeedTable, compare
from utils.experiments.summaries import Summary, load_summaries, path_of

COURSE = course.load()
RESULTS = course.FOLDER / course.RESULTS


def _groups():
    """Every folder of runs with predictions, with its experiments and what makes more arms of them."""
    for folder, (experiments, decoded) in summaries.recorded_folders(COURSE).items():
        if path_of(folder).is_file():
            yield pytest.param(folder, experiments, decoded, id=folder.name)


GROUPS = [*_groups()]


def both(folder, experiments):
    """The summaries and the whole runs, each by experiment."""
    some = [load(experiments, folder) for load in (load_summaries, load_table)]
    counts = [{name: len(found) for name, found in one.items()} for one in some]
    assert counts[0] == counts[1] and {*counts[0]} == {*experiments}
    assert min(counts[0].values()) >= 5
    return some


def test_every_folder_with_predictions_has_a_fresh_summary():
    assert summaries.stale() == []
    holding = {folder.name for folder in RESULTS.iterdir() if folder.is_dir() and forgery.recorded_runs(folder)}
    assert holding == {path.stem for path in (course.FOLDER / course.SUMMARIES).iterdir()} and len(holding) > 8


@pytest.mark.parametrize("folder, experiments, decoded", GROUPS)
def test_a_summary_has_the_numbers_of_the_whole_run(folder, experiments, decoded):
    short, whole = both(folder, experiments)
    for name, experiment in experiments.items():
        for one, run in zip(short.get(name, ()), whole.get(name, ()), strict=True):
            assert isinstance(one, Summary) and not (one.predictions or one.logits or one.epochs)
            for field in ("experiment", "seed", "curve", "seconds", "device", "precision", "versions"):
                assert getattr(one, field) == getattr(run, field)
            assert [metric.of(one) for metric in experiment.metrics] == [
                metric.of(run) for metric in experiment.metrics
            ]
            assert one.degenerate == run.degenerate and one.shown == experiment.shown(run)
            if experiment.metrics[0].baseline:
                assert (one.accuracy, one.majority) == (run.accuracy, run.majority)


@pytest.mark.parametrize("folder, experiments, decoded", GROUPS)
def test_tables_and_comparisons_are_those_of_the_whole_runs(folder, experiments, decoded):
    """Rows and remarks by each metric, and every fifth pair of arms by one of its metrics; `autograder summaries` made
    the others in the same way."""
    short, whole = both(folder, experiments)
    kinds = {experiment.metrics: [] for experiment in experiments.values()}
    for name in short:
        kinds[experiments[name].metrics].append(name)
    seen = 0
    for metrics, names in kinds.items():
        for metric in metrics:
            tables = [SeedTable({name: some[name] for name in names}, metric) for some in (short, whole)]
            assert tables[0].frame().equals(tables[1].frame()) and tables[0].remarks() == tables[1].remarks()
        pairs = [pair for pair in itertools.permutations(names, 2) if _compared(whole, *pair)]
        for (first, second), metric in zip(pairs[::5], itertools.cycle(metrics), strict=False):
            one, other = (compare(some[first], some[second], metric) for some in (short, whole))
            values, wanted = map(dataclasses.asdict, (one, other))
            assert repr(values) == repr(wanted) and one.examples > 0  # by their text, since NaN is not NaN
            seen += 1
    assert seen


def _compared(runs, first, second):
    one, other = runs[first][0], runs[second][0]
    return one.labels == other.labels and len(one.predictions) == len(other.predictions)


@pytest.mark.parametrize("module", [objectives, translation])
def test_what_a_module_compares_by_itself_is_compared_alike(module):
    short, whole = both(module.RECORDED, module.experiments(profile="cpu"))
    found, wanted = module.compared(short), module.compared(whole)
    assert [str(one) for one in found] == [str(one) for one in wanted] and len(found) >= 4
    assert all(one.examples > 0 and one.among == len(found) for one in found)


PICTURES = {
    forgetting: [lambda runs: forgetting.picture(runs, "")],
    longer_context: [lambda runs, kind=kind: longer_context.picture(runs, kind, "") for kind in ("period", "source")],
    objectives: [lambda runs: objectives.learning(runs, ""), lambda runs: objectives.crossed(runs, "")],
    smaller: [lambda runs: smaller.picture(runs, [*smaller.ARMS][:6], "")],
    tagging: [lambda runs: tagging.picture(runs, "")],
    translation: [lambda runs: translation.picture(runs, "")],
}


@pytest.mark.parametrize("module", PICTURES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_pictures_are_those_of_the_whole_runs(module):
    short, whole = both(module.RECORDED, module.experiments(profile="cpu"))
    for draw in PICTURES[module]:
        one, other = (_drawn(draw(runs)) for runs in (short, whole))
        assert one == other and one
    if module is forgetting:
        for own, name in itertools.product((False, True), short):
            assert [forgetting.matrix(run, own) for run in short[name]] == [
                forgetting.matrix(run, own) for run in whole[name]
            ]


def _drawn(picture):
    """The numbers that lines, bars and images of a picture show."""
    found = []
    for axes in picture.axes:
        found += [line.get_xydata().tolist() for line in axes.lines]
        found += [patch.get_bbox().bounds for patch in axes.patches if hasattr(patch, "get_bbox")]
        found += [np.asarray(image.get_array()).tolist() for image in axes.images]
    return found


def test_some_of_the_seeds_are_compared_over_seeds_alone():
    """The comparisons of a summary are of all its seeds: of fewer, nothing else can be said."""
    known = rte.recorded(rte.SEED_VARIANCE)
    few = {name: runs[:3] for name, runs in known.items()}
    (one, *_), (all_of_them, *_) = SeedTable(few).comparisons(), SeedTable(known).comparisons()
    assert one.seeds == 3 and one.examples == 0 and "on these examples alone" in str(one)
    assert all_of_them.seeds == 10 and all_of_them.examples == 277
    arms = list(known.values())
    unequal = compare(known["pretrained"], known["pretrained, then MNLI"])  # ten seeds and seven
    assert (unequal.seeds, unequal.examples) == (7, 277)
    assert compare(known["random"][:7], known["pretrained"][:7]).examples == 0
    assert compare(few["random"], arms[1]).examples == 0 and compare(arms[0], arms[1]).examples == 277


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    target = tmp_path_factory.mktemp("student") / "course"
    release.release(COURSE, target)
    return target


def predictions_in(folder):
    """The JSON files below a folder that hold a prediction, however it is called there."""

    def holds(value):
        if isinstance(value, dict):
            kept = any(isinstance(value.get(key), list) and value[key] for key in ("predictions", "logits", "epochs"))
            return kept or any(map(holds, value.values()))
        return isinstance(value, list) and any(map(holds, value))

    return [path for path in folder.rglob("*.json") if holds(json.loads(path.read_text()))]


def test_no_prediction_of_a_recorded_run_is_released_or_shown_to_a_kernel(released, tmp_path):
    kernel = withheld.write(tmp_path / "kernel")
    withheld.write_results(kernel)
    assert len(predictions_in(RESULTS)) > 200  # else the search finds nothing
    for tree in (released, kernel):
        assert predictions_in(tree) == []
        assert {path.name for path in (tree / "data/summaries").iterdir()} == {
            path.name for path in (course.FOLDER / course.SUMMARIES).iterdir()
        }
        assert {path.name for path in (tree / "data/results").iterdir() if path.is_dir()} == {
            "head_swapping",
            "positional_encoding",
            "scaling",
        }


@pytest.fixture
def own_results(tmp_path, monkeypatch):
    """A course's folder with the runs and the summary of one experiment, which may be changed."""
    shutil.copytree(rte.RECORDED_ON_SICK, tmp_path / course.RESULTS / "sick")
    (tmp_path / course.SUMMARIES).mkdir()
    shutil.copy(path_of(rte.RECORDED_ON_SICK), tmp_path / course.SUMMARIES)
    monkeypatch.setattr(summaries, "FOLDER", tmp_path)
    assert summaries.stale() == []
    return tmp_path


def test_a_changed_added_or_missing_run_makes_its_summary_stale(own_results):
    folder, path = own_results / course.RESULTS / "sick", own_results / course.SUMMARIES / "sick.json"
    first = sorted(folder.rglob("seed_1.json"))[0]
    text = first.read_bytes()
    first.write_bytes(text + b" ")
    assert summaries.stale() == [path]
    first.unlink()
    assert summaries.stale() == [path]
    first.write_bytes(text)
    assert summaries.stale() == []
    first.with_name("seed_9.json").write_bytes(text)
    assert summaries.stale() == [path]
    shutil.rmtree(folder)
    assert summaries.stale() == [path] and summaries.write(COURSE) == [path] and not path.exists()


def test_what_no_notebook_runs_or_is_no_run_is_refused(own_results):
    folder = own_results / course.RESULTS / "sick"
    with pytest.raises(course.CourseError, match="sick has runs, but no notebook of the course records"):
        (own_results / course.SUMMARIES / "sick.json").unlink()
        summaries.write(COURSE)
    experiments = rte.on_sick() | rte.one_sentence("sick")
    (first, *_) = experiments
    with pytest.raises(course.CourseError, match=r"has runs of \w+-\w{8}, which no notebook"):
        summaries.summary(folder, {name: one for name, one in experiments.items() if name != first}, None)
    (folder / "x-00000000").mkdir()
    (folder / "x-00000000" / "seed_1.json").write_text("{}")
    with pytest.raises(course.CourseError, match=r"seed_1\.json is not a run: its fields"):
        summaries.stale()


def test_a_release_with_a_stale_summary_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(release.summaries, "stale", lambda: [path_of(rte.RECORDED)])
    with pytest.raises(course.CourseError, match=r"rte\.json missing or stale: run `autograder summaries` first"):
        release.release(COURSE, tmp_path / "student")


def test_runs_without_predictions_are_nothing_to_compare_hand_ins_with(tmp_path, monkeypatch):
    """Lengths and names that a text has are known of whole runs alone, and so are the outputs of the course's own."""
    known_of = {translation.spec: translation.spec.recorded_lengths, tagging.spec: tagging.spec.recorded_names}
    for module, known in known_of.items():
        name, text = next(iter(read_files(module.RECORDED).items()))
        run = parse(text)
        numbers = {metric.name: metric.of(run) for metric in module.METRICS}
        bare = dataclasses.replace(run, predictions=[], labels=[], numbers=numbers)
        folder = tmp_path / module.__name__
        _write(bare, folder / name)
        monkeypatch.setattr(module, "RECORDED", folder)
        known.cache_clear()
        assert known() == {} and forgery.recorded_runs(folder) == {} and forgery.recorded_outputs(folder) == {}
        monkeypatch.undo()
        known.cache_clear()
        assert known()


def _write(run: Run, path):
    from utils.experiments.experiment import write

    path.parent.mkdir(parents=True)
    write(run, path)
