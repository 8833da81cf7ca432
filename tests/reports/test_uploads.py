"""Zips of feedback have the names of the download, and each student's own page under each of them."""

import io
import json
import zipfile

import pytest
from helpers import canned, keep
from typer.testing import CliRunner

from autograder import cli, synthetic
from autograder.course import CourseError
from autograder.intake import collect, origins
from autograder.reports import feedback, uploads

NAME = "01_causal_mask_lm"
TIME = "2027-02-01-10-00-00"
# What lies in a platform's download, whose it is, and where that student's page must lie in the zip.
DOWNLOADS = {
    "canvas": {
        f"loveada_4101_88_{NAME}.ipynb": ("loveada_4101", f"loveada_4101_88_{NAME}.html"),
        f"nováksimon_LATE_4102_89_{NAME}-1.ipynb": ("nováksimon_4102", f"nováksimon_LATE_4102_89_{NAME}-1.html"),
        f"anon_Xy7_90_{NAME}.ipynb": ("anon_Xy7", f"anon_Xy7_90_{NAME}.html"),
    },
    "moodle": {
        # Moodle before 4.1, since then, and without folders
        f"Ada Love_3001_assignsubmission_file_/{NAME}.ipynb": (
            "Ada_Love",
            f"Ada Love_3001_assignsubmission_file_/{NAME}.html",
        ),
        f"Žofie N_3002_assignsubmission_file/mine {NAME}.ipynb": (
            "Žofie_N",
            f"Žofie N_3002_assignsubmission_file/{NAME}.html",
        ),
        f"Bo Li_3003_assignsubmission_file_{NAME}.ipynb": ("Bo_Li", f"Bo Li_3003_assignsubmission_file_{NAME}.html"),
    },
    "blackboard": {
        f"Week 1_ada1_attempt_{TIME}_{NAME}.ipynb": ("ada1", f"Week 1_ada1_attempt_{TIME}_{NAME}.html"),
    },
}


def download(folder, names):
    """A platform's zip; each file in it is another one."""
    with zipfile.ZipFile(folder / "download.zip", "w") as archive:
        for number, name in enumerate(names):
            archive.writestr(zipfile.ZipInfo(name, (2027, 6, 1, 9, 0, 0)), json.dumps({"cells": [], "made": number}))
    return folder / "download.zip"


def graded(known, students):
    """Feedback pages of these students, who are graded."""
    for student in students:
        keep(known, *canned(known, student))
    return feedback.write_feedback(known, list(known.notebooks))


@pytest.mark.parametrize("platform", DOWNLOADS)
def test_names_are_those_of_the_download(fresh, tmp_path, platform):
    expected = DOWNLOADS[platform]
    collected = collect.collect(fresh, download(tmp_path, expected))
    assert not collected.refused and len(collected.taken) == len(expected)
    pages = graded(fresh, [student for student, _ in expected.values()])
    assert len(pages) == len(expected)
    done = uploads.zip_feedback(fresh, list(fresh.notebooks), pages, platform, tmp_path)
    path = tmp_path / f"{NAME}-{platform}.zip"
    assert done == uploads.Zipped({path: len(expected)})
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert set(archive.namelist()) == {name for _, name in expected.values()}
        for student, name in expected.values():
            page = fresh.tree / "feedback" / student / NAME / f"{NAME}.html"
            assert archive.read(name) == page.read_bytes() and student.encode() in page.read_bytes()
    # The name before the extension, or the folder, is the download's: that is what the platform reads.
    beginnings = {name.split("/")[0] if "/" in name else name.removesuffix(".ipynb") for name in expected}
    assert {name.split("/")[0].removesuffix(".html") for _, name in expected.values()} == beginnings
    before = path.read_bytes()
    path.unlink()
    uploads.zip_feedback(fresh, list(fresh.notebooks), list(reversed(pages)), platform, tmp_path)
    assert path.read_bytes() == before


def test_who_is_not_known_on_the_platform_is_told(fresh, tmp_path, monkeypatch):
    collect.collect(fresh, download(tmp_path, ["loveada_4101_88_" + NAME + ".ipynb"]))
    (tmp_path / "folder/Cy").mkdir(parents=True)
    (tmp_path / "folder/Cy" / f"{NAME}.ipynb").write_text("{}")
    assert collect.collect(fresh, tmp_path / "folder").taken
    pages = graded(fresh, ["loveada_4101", "Cy"])
    said = io.StringIO()
    monkeypatch.setattr(cli.context, "load", lambda: fresh)
    monkeypatch.setattr(cli.context, "console", cli.context.Console(file=said, width=200))
    ended = CliRunner().invoke(cli.app, ["feedback", "--zip", "canvas", "--to", str(tmp_path / "out")])
    assert ended.exit_code == 0, ended.output
    assert "2 pages in" in said.getvalue() and "1 of them in" in said.getvalue()
    assert f"{NAME}: not in the zip are Cy: no download of Canvas" in said.getvalue()
    with pytest.raises(CourseError, match=r"nothing to zip; no zip of 01: no download of Moodle"):
        uploads.zip_feedback(fresh, list(fresh.notebooks), pages, "moodle", tmp_path)
    with pytest.raises(CourseError, match="no submission is graded"):
        uploads.zip_feedback(fresh, list(fresh.notebooks), [], "moodle", tmp_path)


def test_notebooks_of_no_download_are_told_in_one_line(fresh, tmp_path):
    """Those of a platform's download have their zips all the same."""
    (entry,) = fresh.notebooks
    collect.collect(fresh, download(tmp_path, [f"loveada_4101_88_{NAME}.ipynb"]))
    others = [entry.model_copy(update={"name": name}) for name in ("02_second", "03_third")]
    pages = [tmp_path / "loveada_4101" / one.name / "page.html" for one in (entry, *others)]
    for page in pages:
        page.parent.mkdir(parents=True)
        page.touch()
    done = uploads.zip_feedback(fresh, [entry, *others], pages, "canvas", tmp_path)
    assert [*done.pages.values()] == [1]
    (note,) = done.notes
    assert note.startswith("no zip of 02, 03: no download of Canvas")


def moodle_takes(name):
    """What Moodle reads in a member's name: the participant's number, the plugin, and the file that a student gets."""
    parts = name.split("/")
    while parts:
        told = parts.pop(0).split("_", 4)
        if len(told) >= 4 and told[1].isdecimal():
            return told[1], "_".join(told[2:4]), "/".join([*told[4:], *parts]).strip("/")
    return None


def test_a_download_of_moodle_goes_back_to_moodle(fresh, tmp_path, monkeypatch):
    """By the commands alone: the folder of each student as Moodle names it before 4.1 and since then, and what else."""
    (entry,) = fresh.notebooks
    text = synthetic.Maker(fresh, entry).file(solved=("1.1",))
    with zipfile.ZipFile(tmp_path / "Course-Sheet 1-77.zip", "w") as archive:
        archive.writestr(f"Ada Love_3001_assignsubmission_file_/{NAME}.ipynb", text)
        archive.writestr("Ada Love_3001_assignsubmission_onlinetext_/onlinetext.html", "<p>Dear teacher</p>")
        archive.writestr(f"Žofie van N_3002_assignsubmission_file/my work/{NAME} (1).ipynb", text + b" ")
    said = io.StringIO()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli.context, "load", lambda: fresh)
    monkeypatch.setattr(cli.context, "console", cli.context.Console(file=said, width=200))
    for command in (["collect", "Course-Sheet 1-77.zip"], ["grade"], ["feedback", "--zip", "moodle"]):
        ended = CliRunner().invoke(cli.app, command)
        assert ended.exit_code == 0, (ended.exception, said.getvalue())
    assert f"2 of them in {NAME}-moodle.zip" in said.getvalue()
    with zipfile.ZipFile(f"{NAME}-moodle.zip") as archive:
        found = {moodle_takes(name): archive.read(name).decode() for name in archive.namelist()}
    page = f"{NAME}.html"
    assert {*found} == {("3001", "assignsubmission_file", page), ("3002", "assignsubmission_file", page)}
    assert "Ada_Love" in found["3001", "assignsubmission_file", page]
    assert "Žofie_van_N" in found["3002", "assignsubmission_file", page]


def test_what_the_platform_called_the_latest_is_kept(fresh, tmp_path):
    """A second version has another name in Canvas, and an older download changes nothing."""
    (entry,) = fresh.notebooks
    for attachment in (89, 88):
        collect.collect(fresh, download(tmp_path, [f"loveada_4101_{attachment}_{NAME}.ipynb"]))
        found = origins.origin_of(fresh, entry, "loveada_4101")
        assert found == origins.Origin("Canvas", "4101", f"loveada_4101_89_{NAME}.ipynb", "loveada")


def test_a_tree_of_an_older_version_learns_the_names(fresh, tmp_path):
    (entry,) = fresh.notebooks
    source = download(tmp_path, [f"loveada_4101_88_{NAME}.ipynb"])
    for _ in range(2):
        collect.collect(fresh, source)
        assert uploads.name_for(fresh, entry, "loveada_4101", "canvas") == f"loveada_4101_88_{NAME}.html"
        (fresh.tree / "handins/loveada_4101" / NAME / "origin.json").unlink()
    assert uploads.name_for(fresh, entry, "loveada_4101", "canvas") == ""


def test_a_name_that_is_no_text_is_not_known(fresh):
    (entry,) = fresh.notebooks
    path = fresh.tree / "handins/ada" / NAME / "origin.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"platform": "Canvas", "id": "1", "name": "ad\udce4_1_88_x.ipynb"}))
    assert origins.origin_of(fresh, entry, "ada").name == "ad\udce4_1_88_x.ipynb"
    assert uploads.name_for(fresh, entry, "ada", "canvas") == ""
