"""What a student packs: the file says what is in it, what is missing and what was not saved. On Colab too."""

import json
import sys
import types
import zipfile

import nbformat
import pytest

from autograder import course
from autograder.author import build
from utils import hand_in
from utils.experiments import experiment

COURSE = course.load()
ENTRY = COURSE.notebook("05")
RUN = json.dumps({"experiment": {"task": "rte"}}).encode()
SMOKE_RUN = json.dumps({"experiment": {"task": "made-up-rte"}}).encode()


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """A working folder with the notebook as it is handed out."""
    monkeypatch.chdir(tmp_path)
    nbformat.write(build.student_notebook(COURSE, ENTRY), f"{ENTRY.name}.ipynb")
    return tmp_path


def fill(**answers):
    """Save the notebook with these sources of its cells, by exercise; "5.1" is written as e5_1."""
    book = nbformat.read(f"{ENTRY.name}.ipynb", 4)
    for cell in book.cells:
        for number, source in answers.items():
            if cell.id in (f"exercise_{number[1:]}", f"written_{number[1:]}"):
                cell.source = source
    nbformat.write(book, f"{ENTRY.name}.ipynb")


def add_run(folder, content=RUN, seed=1):
    path = folder / "results" / "pretrained-12345678" / f"seed_{seed}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def solutions():
    """The author's sources of all cells that a student fills in, as `fill` takes them."""
    cells = build.solution_notebook(COURSE, ENTRY).cells
    kinds = ("exercise_", "written_")
    return {f"e{cell.id.split('_', 1)[1]}": cell.source or "An answer." for cell in cells if cell.id.startswith(kinds)}


def test_a_blank_notebook_is_not_called_the_file_to_hand_in(desk, capsys):
    hand_in.pack(ENTRY.name)
    said = capsys.readouterr().out
    assert "No exercise in it is answered in full" in said and "There are no runs in it" in said
    assert "This is the file to hand in" not in said and "what is missing earns nothing" in said


def test_what_is_not_answered_is_listed(desk, capsys):
    add_run(desk)
    answers = solutions()
    assert {"e5_1", "e5_11", "e5_W1"} <= {*answers}
    fill(**{number: source for number, source in answers.items() if number not in ("e5_3", "e5_W2")})
    hand_in.pack(ENTRY.name)
    said = capsys.readouterr().out
    assert "Not answered in it: 5.3, 5.W2." in said and "This is the file to hand in" not in said


def test_one_of_two_functions_is_not_enough(desk, capsys):
    schedule = "def schedule(step, warmup, total, peak):\n    return peak\n"
    optimizer = "def make_optimizer(model, peak):\n    # YOUR CODE HERE\n    raise NotImplementedError()\n"
    fill(e5_1=solutions()["e5_1"], e5_3=f"{schedule}\n\n{optimizer}")
    hand_in.pack(ENTRY.name)
    assert "Not answered in it: 5.2, 5.3, 5.4" in capsys.readouterr().out


def test_a_whole_hand_in_is_the_file_to_hand_in(desk, capsys):
    add_run(desk)
    fill(**solutions())
    packed = hand_in.pack(ENTRY.name)
    said = capsys.readouterr().out
    assert "This is the file to hand in." in said and len(said.splitlines()) == 2
    with zipfile.ZipFile(packed) as archive:
        assert sorted(archive.namelist()) == [f"{ENTRY.name}.ipynb", "results/pretrained-12345678/seed_1.json"]


def test_smoke_runs_are_said_to_earn_nothing(desk, capsys):
    fill(**solutions())
    add_run(desk, SMOKE_RUN)
    hand_in.pack(ENTRY.name)
    said = capsys.readouterr().out
    assert "of the size smoke: they earn nothing" in said and "This is the file to hand in" not in said
    add_run(desk, RUN, seed=2)
    hand_in.pack(ENTRY.name)
    assert "This is the file to hand in." in capsys.readouterr().out


def test_what_ran_and_was_not_saved_is_listed(desk, capsys, monkeypatch):
    add_run(desk)
    answers = solutions()
    fill(**answers)
    newer = "def accuracy(predictions, labels):\n    return 0.5\n"
    cells = ["", answers["e5_1"], "encode_pair([1], [2], 3, 4, 9)", newer, "accuracy([1], [1])"]
    monkeypatch.setattr(hand_in, "cells_that_ran", lambda: cells)
    hand_in.pack(ENTRY.name)
    said = capsys.readouterr().out
    assert "what you ran last as 5.4: save the notebook" in said and "5.1" not in said
    assert "This is the file to hand in" not in said
    cells.append(answers["e5_4"])  # ran again as it was saved
    hand_in.pack(ENTRY.name)
    assert "This is the file to hand in." in capsys.readouterr().out


def test_the_cells_of_a_session_are_found_in_ipython(monkeypatch):
    shell = types.SimpleNamespace(user_ns={"In": ["", "x = 1"]})
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    assert hand_in.cells_that_ran() == ["", "x = 1"]
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: None))
    assert hand_in.cells_that_ran() == []


def test_a_file_that_is_no_notebook_says_what_to_do(desk):
    for text in ("", "{", "[]", '{"cells": 3}', '{"cells": [1]}'):
        (desk / f"{ENTRY.name}.ipynb").write_text(text)
        with pytest.raises(ValueError, match="is not a notebook, or was cut off: save it"):
            hand_in.pack(ENTRY.name)
        assert not (desk / f"{ENTRY.name}.zip").exists()


@pytest.fixture
def colab(desk, monkeypatch):
    """Colab's modules as far as the course uses them; what was downloaded is listed."""
    downloaded = []
    package = types.ModuleType("google.colab")
    package._message = types.SimpleNamespace(
        blocking_request=lambda what, timeout_sec: {"ipynb": json.loads((desk / f"{ENTRY.name}.ipynb").read_text())}
    )
    package.files = types.SimpleNamespace(download=downloaded.append)
    monkeypatch.setitem(sys.modules, "google.colab", package)
    monkeypatch.setattr(experiment, "DRIVE", desk / "drive" / "MyDrive" / "attention_graded" / "results")
    return downloaded


def test_on_colab_the_notebook_is_asked_for_and_the_zip_downloaded(colab, capsys):
    fill(e5_1=solutions()["e5_1"])
    packed = hand_in.pack(ENTRY.name)
    assert colab == [str(packed)]
    said = capsys.readouterr().out
    assert "5.2" in said and "5.1," not in said and "save the notebook" not in said


def test_on_colab_the_drive_is_offered_and_used(colab, desk, capsys):
    add_run(desk)
    assert experiment.results_folder(say=True).name == "results"
    said = capsys.readouterr().out
    assert "when this session ends" in said and "drive.mount(" in said
    experiment.DRIVE.parents[1].mkdir(parents=True)
    assert experiment.results_folder(say=True) == experiment.DRIVE
    assert "kept on your Drive" in capsys.readouterr().out
    kept = experiment.DRIVE / "pretrained-12345678" / "seed_1.json"
    assert kept.read_bytes() == RUN  # what was run before the Drive was there
    kept.write_bytes(SMOKE_RUN)
    experiment.results_folder()
    assert kept.read_bytes() == SMOKE_RUN and capsys.readouterr().out == ""  # and what is there is not replaced
    kept.write_bytes(RUN)
    with zipfile.ZipFile(hand_in.pack(ENTRY.name)) as archive:
        assert "results/pretrained-12345678/seed_1.json" in archive.namelist()


def test_elsewhere_nobody_speaks_of_a_drive(desk, capsys):
    assert str(experiment.results_folder(say=True)) == "results" and capsys.readouterr().out == ""
