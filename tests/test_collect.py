"""Hand-ins come in as platforms and students pack them; a bad one is named and stops no other."""

import datetime
import io
import json
import os
import zipfile

import pytest

from autograder import author, collect, course, tree

NAME = "01_causal_mask_lm"


@pytest.fixture
def mine(tmp_path):
    return course.load(tree=tmp_path / "tree")


@pytest.fixture(scope="module")
def text():
    known = course.load()
    return author.write(author.student_notebook(known, known.notebook(NAME))).encode()


def packed(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def submitted(mine):
    return {path.parents[1].name: path for path in mine.tree.glob(f"submitted/*/{NAME}/{NAME}.ipynb")}


@pytest.mark.parametrize(
    "name, student",
    [
        (f"Ada Love/{NAME}.ipynb", "Ada_Love"),
        (f"Zoë Müller/{NAME}.ipynb", "Zoë_Müller"),
        (f"王芳/{NAME} (1).ipynb", "王芳"),
        (f"Ada Love_12345_assignsubmission_file_/{NAME}.ipynb", "Ada_Love"),
        (f"lovelaceada_123_4567_{NAME}-2.ipynb", "lovelaceada_123"),
        (f"lovelaceada_LATE_123_4567_{NAME}.ipynb", "lovelaceada_123"),
        (f"Lab 1_al815_attempt_2026-11-02-10-20-30_{NAME}.ipynb", "al815"),
        (f"al815/{NAME}/{NAME}.ipynb", "al815"),
        (f"submissions/al815/{NAME}.ipynb", "al815"),
        (f"al815_{NAME}.ipynb", "al815"),
        ("al815/my answers.ipynb", "al815"),
    ],
)
def test_names_of_platforms(mine, tmp_path, text, name, student):
    result = collect.collect(mine, packed(tmp_path / "in.zip", {name: text}))
    assert list(submitted(mine)) == [student], result
    assert not result.refused


def test_a_folder_of_folders(mine, tmp_path, text):
    for student in ("ada", "bo"):
        (tmp_path / "in" / student).mkdir(parents=True)
        (tmp_path / "in" / student / f"{NAME}.ipynb").write_bytes(text)
    collect.collect(mine, tmp_path / "in")
    assert sorted(submitted(mine)) == ["ada", "bo"]


def test_a_students_own_zip_in_the_platforms_zip(mine, tmp_path, text):
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr(f"work/{NAME}.ipynb", text)
    collect.collect(mine, packed(tmp_path / "in.zip", {"ada/handin.zip": inner.getvalue()}))
    assert len(submitted(mine)) == 1


def test_what_leads_out_or_links_is_refused(mine, tmp_path, text):
    path = tmp_path / "in.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"../../evil/{NAME}.ipynb", text)
        archive.writestr(f"/evil/{NAME}.ipynb", text)
        archive.writestr(f"C:\\evil\\{NAME}.ipynb", text)
        link = zipfile.ZipInfo(f"evil/{NAME}.ipynb")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr(f"good/{NAME}.ipynb", text)
    result = collect.collect(mine, path)
    assert list(submitted(mine)) == ["good"]
    assert len(result.refused) == 4
    assert not (tmp_path / "evil").exists() and not (tmp_path.parent / "evil").exists()


def test_links_in_a_folder_are_not_followed(mine, tmp_path, text):
    (tmp_path / "in" / "ada").mkdir(parents=True)
    secret = tmp_path / "secret.ipynb"
    secret.write_bytes(text)
    os.symlink(secret, tmp_path / "in" / "ada" / f"{NAME}.ipynb")
    os.symlink(tmp_path, tmp_path / "in" / "loop")
    result = collect.collect(mine, tmp_path / "in")
    assert not submitted(mine) and "not followed" in result.refused[0]


def test_a_bomb_is_not_unpacked(mine, tmp_path):
    path = tmp_path / "in.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"ada/{NAME}.ipynb", b" " * (200 * 2**20))
    collect.collect(mine, path)
    assert submitted(mine)["ada"].stat().st_size == mine.limits.notebook_mb * 2**20 + 1


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 not a zip", b"\0" * 1000])
def test_a_broken_zip_is_named(mine, tmp_path, content):
    path = tmp_path / "in.zip"
    path.write_bytes(content)
    assert "cannot be read as a zip" in collect.collect(mine, path).refused[0]


def test_a_file_without_a_name_stops_nobody(mine, tmp_path, text):
    """zipfile ends a name at a NUL, and fails on what is left of one that begins with it (found by the fuzzer)."""
    source = packed(tmp_path / "in.zip", {f"Ada/{NAME}.ipynb": text, f"QQQ/{NAME}.ipynb": text, "Bo/QQQ": text})
    source.write_bytes(source.read_bytes().replace(b"QQQ", b"\0QQ"))
    result = collect.collect(mine, source)
    assert set(submitted(mine)) == {"Ada"} and any("without a name" in line for line in result.refused)


def test_the_latest_counts_and_both_are_kept(mine, tmp_path, text):
    for day, marker in ((3, b"second"), (1, b"first"), (2, b"middle")):
        path = tmp_path / f"{day}.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(zipfile.ZipInfo(f"ada/{NAME}.ipynb", (2026, 11, day, 12, 0, 0)), marker)
        collect.collect(mine, path)
    assert submitted(mine)["ada"].read_bytes() == b"second"
    assert len(list(mine.tree.glob(f"handins/ada/{NAME}/*.ipynb"))) == 3
    local = datetime.datetime(2026, 11, 3, 12).astimezone(datetime.UTC)
    assert submitted(mine)["ada"].with_name("timestamp.txt").read_text().startswith(f"{local:%Y-%m-%d %H:%M}")


def test_two_students_of_one_folder_name_are_not_mixed(mine, tmp_path, text):
    result = collect.collect(
        mine, packed(tmp_path / "in.zip", {f"Ann Lee/{NAME}.ipynb": text, f"Ann_Lee/{NAME}.ipynb": text})
    )
    assert len(result.taken) == 1 and "another student" in result.refused[0]


def test_files_that_are_no_notebooks_are_named(mine, tmp_path, text):
    result = collect.collect(mine, packed(tmp_path / "in.zip", {"ada/notes.pdf": b"x", "ada/__MACOSX/._a": b"x"}))
    assert result.refused == ["ada/notes.pdf: not a notebook"]


def test_an_unknown_notebook_is_asked_for(mine, tmp_path):
    other = json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    path = packed(tmp_path / "in.zip", {"ada/other.ipynb": other})
    assert "which notebook is it" in collect.collect(mine, path).refused[0]
    assert collect.collect(mine, path, mine.notebook(NAME)).taken


def test_a_source_that_is_not_there(mine, tmp_path):
    with pytest.raises(course.CourseError, match="does not exist"):
        collect.collect(mine, tmp_path / "no")


def test_writing_is_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "file"
    tree.write(path, "old")
    monkeypatch.setattr(os, "replace", lambda *a: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        tree.write(path, "new")
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["file"]
