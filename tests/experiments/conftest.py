"""What tests of experiments share: an honest student's runs, and functions that nobody has offered."""

import pytest
from helpers import keep_runs

from autograder import course
from utils.experiments import student
from utils.experiments.runs import run_seeds


@pytest.fixture(scope="module")
def honest(request, tmp_path_factory):
    """The folder of the student ADA of a test file, who ran all its SMOKE experiments with the SEEDS of that name.

    With one of the seeds here; of the others the runs are the made-up class's.
    """
    folder = tmp_path_factory.mktemp("honest")
    ran = [entry for entry in course.load().notebooks if entry.has_experiments]
    (entry,) = [one for one in ran if one.experiments_of("smoke") == request.module.SMOKE]
    keep_runs(entry, folder, request.module.ADA, trained=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(student, "signature", (request.module.ADA, ""))
        for experiment in request.module.SMOKE.values():
            run_seeds(experiment, request.module.SEEDS, folder)
    return folder


@pytest.fixture
def nobody(monkeypatch):
    """Runs know no student's functions, and forget those that a test offers."""
    monkeypatch.setattr(student, "own_functions", {})
