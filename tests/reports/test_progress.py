"""What `autograder status` says of files that somebody has put into the course tree."""

import pytest
from typer.testing import CliRunner

from autograder import cli
from autograder.gradebook import course_tree


@pytest.mark.parametrize(
    "place",
    ["{name}.ipynb", "bo/{name}.ipynb", "bo/{name}/WMS q1.ipynb", "{name}/bo/{name}.ipynb", "bo/lab1/{name}.ipynb"],
)
def test_notebooks_that_nobody_grades_are_listed(fresh, monkeypatch, place):
    """A teaching assistant copied files into submitted/ by hand: nothing was graded, and nothing was said."""
    (entry,) = fresh.notebooks
    monkeypatch.setattr(cli.context, "load", lambda: fresh)
    course_tree.write(course_tree.place(fresh, "submitted", entry, "ada"), "{}")
    beside = course_tree.place(fresh, "submitted", entry, "ada").with_name("scratch.ipynb")
    course_tree.write(beside, "{}")  # of a submission with several notebooks
    course_tree.write(fresh.tree / "submitted/ada/05_seed_variance/05_seed_variance.ipynb", "{}")  # not taught now
    course_tree.write(fresh.tree / "submitted/ada/.ipynb_checkpoints/x.ipynb", "{}")
    shown = CliRunner().invoke(cli.app, ["status"]).output
    assert "ada" in shown and "not graded, because" not in shown
    elsewhere = place.format(name=entry.name)
    course_tree.write(fresh.tree / "submitted" / elsewhere, "{}")
    shown = " ".join(CliRunner().invoke(cli.app, ["status"]).output.split())
    assert f"submitted/STUDENT/NOTEBOOK/NOTEBOOK.ipynb: {elsewhere}. Collect such files" in shown
