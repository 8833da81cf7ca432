"""A verdict counts as current only as long as nothing changed that it depends on."""

import shutil

import pytest

from autograder import course
from autograder.grading import fingerprints, import_closure

ROOT = course.ROOT
ALL = {entry.number for entry in course.load().notebooks}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy of what graders, checks and cells are made of; the fingerprints are those of the copy."""
    root = tmp_path_factory.mktemp("project")
    for folder in ("autograder", "data", "solutions", "utils"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fingerprints, "ROOT", root)
        patch.setattr(fingerprints, "FOLDER", root)
        patch.setattr(fingerprints, "folder_of", lambda entry: root / "solutions" / entry.name)
        yield root


def all_fingerprints(course):
    files = fingerprints.course_files(course)
    return {
        entry.number: fingerprints.combined_digest(fingerprints.fingerprints(course, entry, files))
        for entry in course.notebooks
    }


@pytest.fixture(scope="module")
def before(all_built, project):
    """The fingerprints of each notebook before anything is changed."""
    return all_fingerprints(all_built)


@pytest.mark.parametrize(
    "path, stale",
    [
        ("utils/counting.py", {"03"}),
        ("utils/positions.py", {"01", "03", "04"}),
        ("utils/tiny_bert.py", {"04", "05", "06", "07", "08", "09"}),
        ("utils/experiments/rte/spec.py", {"05", "06"}),
        ("utils/grading/evidence.py", {"05", "06", "07", "08", "09", "10", "11", "12", "13"}),
        ("utils/experiments/forgery.py", {"05", "06", "07", "08", "09", "10", "11", "12", "13"}),
        (
            "utils/experiments/experiment.py",
            {"02", "03", "04", "05", "06", "07", "08", "09", "10", "11", "12", "13", "15"},
        ),
        ("utils/experiments/rte/train.py", {"05", "06"}),
        ("utils/experiments/pretraining/train.py", {"07", "12"}),
        ("utils/experiments/tagging/train.py", {"08"}),
        ("utils/experiments/forgetting/train.py", {"09"}),
        ("utils/experiments/longer_context/train.py", {"10"}),
        ("utils/experiments/objectives/train.py", {"11"}),
        ("utils/experiments/smaller/train.py", {"12"}),
        ("utils/experiments/translation/train.py", {"13"}),
        ("utils/experiments/extrapolation.py", {"02"}),  # its cells import it
        ("utils/experiments/llama.py", {"14", "15"}),
        ("utils/experiments/instruction_tuning/train.py", {"15"}),
        ("data/instructions.py", {"15"}),
        ("data/results/gold.json", {"05", "06"}),
        ("data/results/positional_encoding/none-d3d8e5f6/seed_1.json", {"02"}),
        ("utils/grading/check.py", ALL),
        ("utils/setup.py", ALL),
        ("utils/grading/remote.py", ALL),
        ("utils/grading/expect.py", ALL),
        ("autograder/grading/judge.py", ALL),
        ("autograder/intake/restore.py", ALL),
        ("utils/checks/nb09_forgetting.py", {"09"}),
        ("utils/checks/nb04_head_swapping.py", {"04"}),
        ("solutions/02_positional_encoding/private_checks.py", {"02"}),
        ("solutions/02_positional_encoding/wrong_answers.py", set()),
        ("autograder/reports/report.py", set()),
    ],
)
def test_what_changes_makes_stale_what_can_reach_it(all_built, project, before, path, stale):
    text = (project / path).read_text()
    (project / path).write_text(text + ("\nCHANGED = 1\n" if path.endswith(".py") else " \n"))
    after = all_fingerprints(all_built)
    (project / path).write_text(text)
    assert set(before) == set(after) == ALL
    assert {number for number in after if after[number] != before[number]} == stale


def test_what_is_changed_back_is_current_again(all_built, before):
    assert all_fingerprints(all_built) == before


def test_what_imports_reach_is_found_step_by_step(tmp_path):
    (tmp_path / "utils").mkdir()
    (tmp_path / "data" / "results").mkdir(parents=True)
    pieces = {
        "utils/start.py": "def later():\n    from utils import one\n",
        "utils/one.py": "load('utils.two')\nPLACE = Path(__file__).parents[1] / 'data' / 'results' / 'gold.json'\n",
        "utils/two.py": "import utils.start\n",
        "utils/alone.py": "",
        "data/results/gold.json": "[1]",
        "data/results/other.json": "[1]",
    }
    for name, text in pieces.items():
        (tmp_path / name).write_text(text)
    reached = import_closure.digest([tmp_path / "utils/start.py"], "", [tmp_path])
    for name in pieces:
        (tmp_path / name).write_text(pieces[name] + "\n\n")
        changed = import_closure.digest([tmp_path / "utils/start.py"], "", [tmp_path]) != reached
        assert changed == (name in ("utils/one.py", "utils/two.py", "data/results/gold.json")), name
        (tmp_path / name).write_text(pieces[name])
        reached = import_closure.digest([tmp_path / "utils/start.py"], "", [tmp_path])
