"""Texts that several notebooks share: one source, in each notebook that they are true of."""

import json

import pytest

from autograder import course
from autograder.author import boxes, build
from autograder.course import CourseError

COURSE = course.load()
ENTRIES = [pytest.param(entry, id=entry.name) for entry in COURSE.notebooks]
ENCODER, LANGUAGE_MODEL = "packaged encoder", "packaged language model"


def text_of(entry):
    """What a student reads in the cells of a notebook."""
    return "\n".join(
        cell.source for cell in build.student_notebook(COURSE, entry).cells if cell.cell_type == "markdown"
    )


def source_of(entry):
    return (course.folder_of(entry) / "notebook.py").read_text()


def encoders(entry):
    """The encoders of a notebook's experiments at the size cpu."""
    found = [one.plain() for one in entry.experiments_of("cpu").values()] if entry.experiments else []
    return {one["encoder"] for one in found if "encoder" in one}


@pytest.mark.parametrize("entry", ENTRIES)
def test_each_notebook_that_uses_a_packaged_model_says_what_it_is(entry):
    text = text_of(entry)
    assert ("all-MiniLM-L6-v2, not BERT" in text) == (f"box: {ENCODER}" in source_of(entry))
    uses = "minilm" in encoders(entry)
    assert f"box: {ENCODER}" in source_of(entry) or not uses
    assert ("is the *Instruct* model" in text) == ("SmolLM2" in source_of(entry))


@pytest.mark.parametrize("entry", ENTRIES)
def test_each_notebook_with_a_size_gpu_says_whether_it_was_run(entry):
    has_size = bool(entry.experiments) or "gpu=" in source_of(entry).split("## Experiment")[-1]
    assert (boxes.size_gpu(entry) in text_of(entry)) == has_size or entry.number == "14"


def test_what_was_run_is_read_from_one_file(tmp_path, monkeypatch):
    entry = COURSE.notebook("10")
    first, *others = entry.experiments_of("gpu")
    (tmp_path / boxes.RUN_ON_GPU).parent.mkdir()
    monkeypatch.setattr(boxes, "FOLDER", tmp_path)
    assert "has not been run yet" in boxes.size_gpu(entry)
    for passed, says in (
        ([first], "these have not been run yet**: " + ", ".join(f"`{name}`" for name in others)),
        ([first, *others], "was run once at the size `gpu`"),
        ([], "has not been run yet"),
    ):
        rows = {f"10 {name}": {"state": "passed"} for name in passed} | {f"10 {first} and more": {"state": "passed"}}
        rows |= {f"10 {name}": {"state": "failed"} for name in others if name not in passed}
        (tmp_path / boxes.RUN_ON_GPU).write_text(json.dumps({"parts": {"experiments, size gpu": rows}}))
        assert says in boxes.size_gpu(entry)


def test_a_box_that_there_is_not_is_refused():
    with pytest.raises(CourseError, match='there is no box "nothing"'):
        boxes.filled("A text.\n\n<!-- box: nothing -->", COURSE.notebooks[0])
