"""How many runs are read: whole experiments, never a part of one, and what is not read is said."""

import pytest

from autograder import course
from autograder.exercises import Kind, index_of
from utils.experiments import experiment
from utils.experiments.experiment import MAX_READ, chosen, read_files, too_many
from utils.experiments.run_files import MAX_FILES
from utils.grading.evidence import accepted, read_runs
from utils.grading.standing import NO_STANDING

TRAINED = [entry for entry in course.load().notebooks if entry.has_experiments]


@pytest.mark.parametrize("entry", TRAINED, ids=lambda entry: entry.number)
def test_both_sizes_with_twenty_seeds_under_two_names_are_read(entry):
    """Notebook 07 has six experiments: with both sizes and 12 seeds they were 144 files, of which 120 were read."""
    experiments = [one for profile in ("cpu", "gpu") for one in entry.experiments_of(profile).values()]
    folders = {one.folder("").name for one in experiments}
    files = {f"{folder}/seed_{seed}.json": b"" for folder in folders for seed in range(40)}
    assert {*read_runs(files, experiments)} == {*files} and len(files) <= MAX_FILES
    assert too_many(files, folders) == []


def test_an_experiment_with_too_many_files_is_left_out_whole_and_named():
    entry = course.load().notebook("07")
    first, second, *others = entry.experiments_of("smoke").values()
    names = [one.folder("").name for one in (first, second)]
    files = {f"{names[0]}/seed_{seed}.json": b"" for seed in range(MAX_READ + 1)}
    files |= {f"{names[1]}/seed_{seed}.json": b"" for seed in range(MAX_READ)}
    assert {name.split("/")[0] for name in chosen(files, names)} == {names[1]}
    assert len(chosen(files, names)) == MAX_READ
    (line,) = too_many(files, names)
    assert line.startswith(f"{names[0]} has {MAX_READ + 1} files") and "none of them is" in line
    module = entry.experiment_module()
    _, refused, _ = accepted([[first, second, *others]], module.RECORDED, files, NO_STANDING)
    assert refused[0] == line


def test_a_folder_of_results_is_read_in_whole_experiments(tmp_path, monkeypatch):
    monkeypatch.setattr(experiment, "MAX_FILES", 5)
    for name, count in (("a", 3), ("b", 3), ("c", 2)):
        (tmp_path / name).mkdir()
        for seed in range(count):
            (tmp_path / name / f"seed_{seed}.json").write_text("{}")
    assert sorted({file.split("/")[0] for file in read_files(tmp_path)}) == ["a", "c"]
    assert len(read_files(tmp_path)) == 5


def of_runs(text):
    return [exercise.number for exercise in index_of(text, "checks") if exercise.kind is Kind.RUNS]


@pytest.mark.parametrize(
    "text, exercises",
    [
        ('@results_check("5.11", points=4)\ndef f(x): ...', ["5.11"]),
        ('@results_check(\n    "5.11",\n    points=4,\n)\ndef f(x): ...', ["5.11"]),
        ('@results_check(points=4, exercise="5.11")\ndef f(x): ...', ["5.11"]),
        ("@results_check ( '5.11', 4 )\ndef f(x): ...", ["5.11"]),
        ('f = results_check("5.11", points=4)(g)', ["5.11"]),
        ('# @results_check("5.11", points=4)\ntext = """\n@results_check("5.12")"""', []),
    ],
)
def test_the_exercises_of_runs_are_found_however_they_are_written(text, exercises):
    """A decorator that the formatter wraps was not seen, and runs were collected no more."""
    head = "from utils.grading.results_check import results_check\n"
    assert of_runs(head + text) == exercises
    other = head.replace("import results_check", "import results_check as over_runs")
    assert of_runs(other + text.replace("results_check", "over_runs")) == exercises


def test_an_exercise_of_runs_that_is_not_written_as_text_is_refused():
    text = "from utils.grading.results_check import results_check\nN = '5.11'\n@results_check(N, 4)\ndef f(x): ..."
    with pytest.raises(course.CourseError, match="checks, line 3: give `results_check` the exercise as text"):
        index_of(text, "checks")
