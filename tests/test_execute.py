"""Each notebook with its solutions, executed whole at size `smoke`, experiments included."""

import nbclient
import pytest

from autograder import author, course, public
from utils import rte
from utils.evidence import ResultsCheck

COURSE = course.load()
ENTRIES = [pytest.param(entry, id=entry.name) for entry in COURSE.notebooks]


@pytest.mark.parametrize("entry", ENTRIES)
def test_the_solution_runs_whole_and_passes_every_check(entry, monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_PROFILE", "smoke")
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    notebook = author.solution_notebook(COURSE, entry)
    desk = tmp_path / "notebooks"  # what it writes is no part of the course
    desk.mkdir()
    (desk / f"{entry.name}.ipynb").write_text(author.write(notebook))
    where = {"metadata": {"path": str(desk)}}
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", resources=where).execute()
    printed = {
        cell.id: "".join(output.get("text", "") for output in cell.outputs)
        for cell in notebook.cells
        if cell.cell_type == "code"
    }
    for number, check in public.checks(entry).items():
        points = 0 if isinstance(check, ResultsCheck) else check.points  # runs of the size smoke earn nothing
        assert f"Exercise {number}: passed ({points:g} point" in printed[f"check_{number.replace('.', '_')}"]
    assert (desk / f"{entry.name}.zip").exists() == (entry.name in (rte.SEED_VARIANCE, rte.ADAPTER_FUSION))
    assert any("image/png" in output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", []))
