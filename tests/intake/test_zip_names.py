"""The names in zips that do not say their encoding are read as people write them, and the guess is shown."""

import io
import unicodedata
import zipfile
import zlib

import pytest

from autograder import course
from autograder.gradebook import roster
from autograder.intake import collect
from autograder.intake.zip_names import UNICODE_PATH, decode_names
from utils.experiments import student
from utils.variants import letters, same

NAME = "01_causal_mask_lm"


@pytest.fixture
def mine(tmp_path):
    return course.load(tree=tmp_path / "tree")


def zipped(names, encoding, extra=None):
    """A zip whose members have names in this encoding, without the flag that says UTF-8."""
    written, places = io.BytesIO(), {}
    with zipfile.ZipFile(written, "w") as archive:
        for place, name in enumerate(names):
            raw = name.encode(encoding)
            places[b"%04d" % place + b"X" * (len(raw) - 4)] = raw
            about = zipfile.ZipInfo((b"%04d" % place + b"X" * (len(raw) - 4)).decode())
            about.extra = extra(raw) if extra else b""
            archive.writestr(about, "{}")
    content = written.getvalue()
    for stand_in, raw in places.items():
        content = content.replace(stand_in, raw)
    return content


@pytest.mark.parametrize(
    "encoding, guessed, names",
    [
        ("utf-8", "", ["Zoë Müller", "王芳"]),  # macOS
        ("cp437", "cp437", ["José García", "Zoë Müller"]),  # Windows, United States
        ("cp850", "cp850", ["Søren Åkjær"]),  # Western Europe
        ("cp1252", "cp1252", ["José García", "Søren Holm"]),
        ("cp852", "cp852", ["Łukasz Dąbrowski", "Żaneta Więcek", "Ewa Świątek"]),  # Central Europe
        ("cp857", "cp857", ["Şule Yıldız", "Gülşen Doğan"]),  # Turkey
        ("cp866", "cp866", ["Иван Петров"]),
        ("cp932", "cp932", ["田中太郎"]),
        ("cp936", "cp936", ["王芳", "李小明"]),
    ],
)
def test_names_without_the_flag_are_read(mine, tmp_path, encoding, guessed, names):
    path = tmp_path / "in.zip"
    path.write_bytes(zipped([f"{name}/{NAME}.ipynb" for name in names], encoding))
    result = collect.collect(mine, path)
    assert not result.refused and len(result.taken) == len(names)
    assert {one.name for one in mine.tree.glob("submitted/*")} == {name.replace(" ", "_") for name in names}
    guesses = [note for note in result.notes if "in which encoding" in note]
    assert len(guesses) == bool(guessed) and all(f"read as {guessed}" in note for note in guesses)


def test_composed_and_decomposed_names_are_one_student(mine, tmp_path):
    for form in ("NFC", "NFD"):
        name = unicodedata.normalize(form, "Zoë Müller")
        (tmp_path / f"{form}.zip").write_bytes(zipped([f"{name}/{NAME}.ipynb"], "utf-8"))
        result = collect.collect(mine, tmp_path / f"{form}.zip")
        assert len(result.taken) == 1 and not result.refused
        (folder,) = mine.tree.glob("submitted/*")
        assert folder.name == "Zoë_Müller" and same(folder.name, "Zoë Müller")


def test_a_code_page_may_be_stated(mine, tmp_path):
    """By `Łukasz` alone nobody can tell cp852 from cp850."""
    path = tmp_path / "in.zip"
    path.write_bytes(zipped([f"Łukasz/{NAME}.ipynb"], "cp852"))
    result = collect.collect(mine, path, zip_names="cp852")
    assert [one.name for one in mine.tree.glob("submitted/*")] == ["Łukasz"]
    assert not result.refused and not any("in which encoding" in note for note in result.notes)
    with pytest.raises(course.CourseError, match="`cp85` is not the name of a code page"):
        collect.collect(mine, path, zip_names="cp85")


def test_a_stated_code_page_that_cannot_read_a_name_stops_nothing():
    """Of several zips in a folder one may come from another machine."""
    with zipfile.ZipFile(io.BytesIO(zipped(["Иван Петров"], "cp866"))) as archive:
        guess = decode_names(archive, "ascii")
        assert (guess.encoding, guess.names, archive.read(archive.infolist()[0])) == ("cp866", ["Иван Петров"], b"{}")


def test_the_name_that_infozip_keeps_beside_it_counts():
    def extra(raw):
        content = b"\1" + zlib.crc32(raw).to_bytes(4, "little") + "김민준".encode()
        return UNICODE_PATH.to_bytes(2, "little") + len(content).to_bytes(2, "little") + content

    with zipfile.ZipFile(io.BytesIO(zipped(["김민준"], "cp949", extra))) as archive:
        assert not decode_names(archive).encoding and [one.filename for one in archive.infolist()] == ["김민준"]


@pytest.mark.parametrize(
    "names",
    [
        ("राम कुमार", "रमा कुमार"),
        ("রাম", "রমা"),
        ("กุ้ง", "กิ้ง"),
        ("రాము", "రమి"),
    ],
    ids=["Hindi", "Bengali", "Thai", "Telugu"],
)
def test_vowel_signs_tell_two_students_apart(mine, tmp_path, names):
    with zipfile.ZipFile(tmp_path / "in.zip", "w") as archive:
        for name in names:
            archive.writestr(f"{name}/{NAME}.ipynb", "{}")
    result = collect.collect(mine, tmp_path / "in.zip")
    assert len(result.taken) == 2 and not result.refused
    assert len({*mine.tree.glob("submitted/*")}) == 2
    slugs = {roster.slug(name) for name in names}
    assert len(slugs) == len({letters(name) for name in names}) == len({student.fold(name) for name in names}) == 2
    assert len({tuple(student.seeds_of(name, "", 5)) for name in names}) == 2


def test_an_id_may_have_vowel_signs(mine, tmp_path):
    mine.tree.mkdir()
    (mine.tree / "students.csv").write_text("id,first_name\nराम_कुमार,राम\nरमा_कुमार,रमा\n")
    with zipfile.ZipFile(tmp_path / "in.zip", "w") as archive:
        archive.writestr(f"रमा/{NAME}.ipynb", "{}")
    result = collect.collect(mine, tmp_path / "in.zip")
    assert not result.refused and [one.name for one in mine.tree.glob("submitted/*")] == ["रमा_कुमार"]
