"""What downloads of platforms and folders of classes look like, and whose each file in them is."""

import csv
import io
import zipfile

import pytest

from autograder import course
from autograder.course import CourseError
from autograder.intake import collect, origins
from autograder.reports import uploads

NAME, SECOND = "01_causal_mask_lm", "02_positional_encoding"
COLUMNS = ("id", "first_name", "last_name", "email", "platform_ids")
ADA, BO, JOSE = (
    ("al01", "Ada", "Lovelace", "ada@example.org", ""),
    ("bb02", "Bo", "Berg", "bo@example.org", ""),
    ("jg03", "José", "García", "jose@example.org", ""),
)


@pytest.fixture
def mine(tmp_path):
    return course.load(tree=tmp_path / "tree")


def roster(known, *rows):
    known.tree.mkdir(parents=True, exist_ok=True)
    with (known.tree / "students.csv").open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])


def zipped(members):
    """A zip of these names with their contents; a dict is a zip in it."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, zipped(content) if isinstance(content, dict) else content)
    return written.getvalue()


def laid_out(folder, members, form="folder"):
    """A download of these files as a folder or a zip; in a folder, a dict is a zip."""
    if form == "zip":
        (folder / "in.zip").write_bytes(zipped(members))
        return folder / "in.zip"
    for name, content in members.items():
        path = folder / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(zipped(content) if isinstance(content, dict) else content.encode())
    return folder / "in"


def handed_in(known, name="*"):
    """By student, the notebooks that were taken."""
    return {path.parent.name: path.name for path in sorted(known.tree.glob(f"submitted/*/{name}"))}


ONE = {f"lab1/{NAME}.ipynb": "{}"}
BARE = {f"{NAME}.ipynb": "{}"}


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize(
    "files, students",
    [
        ({"ada_lovelace.zip": ONE, "bo_berg.zip": ONE}, "ada_lovelace bo_berg"),
        ({"ada_lovelace.zip": BARE, "bo_berg.zip": BARE}, "ada_lovelace bo_berg"),
        ({"Ada Lovelace.zip": ONE}, "Ada_Lovelace"),
        ({"ada_lovelace.zip": {f"work/{NAME}.ipynb": "{}"}, "bo_berg.zip": {f"mine/{NAME}.ipynb": "{}"}}, "ada bo"),
        ({"ada_lovelace.zip": {f"work/{NAME}.ipynb": "{}"}, "bo_berg.zip": {f"work/{NAME}.ipynb": "{}"}}, "ada bo"),
        (
            {
                "ada_lovelace.zip": {f"a/{NAME}.ipynb": "{}", f"b/{SECOND}.ipynb": "{}"},
                "bo_berg.zip": {f"a/{NAME}.ipynb": "{}"},
            },
            "ada bo",
        ),
        ({f"ada_lovelace-{NAME}.zip": BARE, f"bo_berg-{NAME}.zip": BARE}, "ada bo"),
        # a class in one zip, and one zip for each week
        ({"class.zip": {f"ada_lovelace/{NAME}.ipynb": "{}", f"bo_berg/{NAME}.ipynb": "{}"}}, "ada bo"),
        ({"week 1.zip": {f"ada_lovelace/{NAME}.ipynb": "{}"}, "week 2.zip": {f"bo_berg/{NAME}.ipynb": "{}"}}, "ada bo"),
        ({"all.zip": {"ada_lovelace.zip": ONE, "bo_berg.zip": ONE}}, "ada bo"),
    ],
)
def test_a_students_zip_in_a_folder_has_the_students_name(mine, tmp_path, files, students, listed):
    if listed:
        roster(mine, ADA, BO)
    result = collect.collect(mine, laid_out(tmp_path, files))
    whole = {"ada": "al01" if listed else "ada_lovelace", "bo": "bb02" if listed else "bo_berg"}
    expected = {whole[one.split("_")[0].lower()] for one in students.split()}
    assert not result.refused, result.refused
    assert {one.casefold().replace("bergs", "berg") for one in handed_in(mine)} == expected


@pytest.mark.parametrize("name", ["lab1.zip", "submission.zip", f"{NAME}.zip", "download (1).zip"])
def test_a_zip_that_names_nobody_is_refused_and_says_what_to_do(mine, tmp_path, name):
    result = collect.collect(mine, laid_out(tmp_path, {name: BARE}))
    assert not handed_in(mine) and len(result.refused) == 1 and "use --student" in result.refused[0]


@pytest.mark.parametrize("form", ["folder", "zip"])
@pytest.mark.parametrize(
    "files, students",
    [
        (("02 Positional encoding/José García - {}", "02 Positional encoding/Ada Lovelace - {}"), "jg03 al01"),
        (("Where a word stands/José García - {}", "Where a word stands/Ada Lovelace - {}"), "jg03 al01"),
        (("Lab 2/José García_{}", "Lab 2/Ada Lovelace_{}"), "jg03 al01"),
        (("Monday group/José García - {}", "Monday group/Ada Lovelace - {}"), "jg03 al01"),
        (("Monday group/josé garcía {}",), "jg03"),
    ],
)
def test_a_folder_of_a_class_names_nobody(mine, tmp_path, files, students, form):
    roster(mine, ADA, BO, JOSE)
    members = {name.format(f"{SECOND}.ipynb"): "{}" for name in files}
    result = collect.collect(mine, laid_out(tmp_path, members, form))
    assert not result.refused and sorted(handed_in(mine)) == sorted(students.split())


@pytest.mark.parametrize(
    "files, word",
    [
        (("Participant_3003_assignsubmission_file_/{}", "Participant_3004_assignsubmission_file_/{}"), "Participant"),
        (("Participant_3003_assignsubmission_file_/{}",), "Participant"),
        (("Tuesday/final.ipynb", "Tuesday/again.ipynb"), "Tuesday"),
        (("Tuesday/{}", "Tuesday/old/{}"), "Tuesday"),
        (("bergbo_5501_9001_{}", "lovelaceada_5501_9002_{}"), "5501"),
    ],
)
def test_a_word_that_several_files_share_is_not_proposed(mine, tmp_path, files, word):
    """To add it to the platform_ids of one student would file the others' work under that one, too."""
    roster(mine, ("zz99", "Zed", "Zorn", "", ""))
    text = '{"cells": [{"id": "exercise_2_1"}]}'
    result = collect.collect(mine, laid_out(tmp_path, {name.format(f"{SECOND}.ipynb"): text for name in files}))
    assert not handed_in(mine) and len(result.refused) == len(files)
    for line in result.refused:
        assert word in line and "platform_ids" not in line and "--student" in line


def test_a_word_of_one_student_is_proposed(mine, tmp_path):
    roster(mine, ADA)
    files = {f"tuesday7/{NAME}.ipynb": "{}", f"tuesday7/{SECOND}.ipynb": "{}", f"bergbo_5501_9001_{NAME}.ipynb": "{}"}
    refused = collect.collect(mine, laid_out(tmp_path, files)).refused
    assert sum("`tuesday7` to the platform_ids" in line for line in refused) == 2
    with pytest.raises(CourseError, match="`5501` to the platform_ids"):
        collect.roster.load(mine).find("bergbo", "5501")


QUIZ = ("bergbo102_question_5501_9002_{}", "lovelace_ada103_question_5501_9003_{}")


@pytest.mark.parametrize("form", ["folder", "zip"])
@pytest.mark.parametrize("listed", [False, True])
def test_an_upload_to_a_question_of_canvas_has_the_students_number(mine, tmp_path, listed, form):
    if listed:
        roster(mine, (*ADA[:4], "103"), (*BO[:4], "102"))
    files = {name.format(f"{NAME}.ipynb"): "{}" for name in QUIZ}
    result = collect.collect(mine, laid_out(tmp_path, files, form))
    students = ("bb02", "al01") if listed else ("bergbo_102", "lovelaceada_103")
    assert {*handed_in(mine)} == {*students} and not result.refused
    assert [origins.origin_of(mine, mine.notebook(NAME), one).id for one in students] == ["102", "103"]
    # Canvas would give a page with such a name to the user whose number is that of the question.
    assert not uploads.name_for(mine, mine.notebook(NAME), students[0], "canvas")
    # An assignment's download names the same students.
    collect.collect(mine, laid_out(tmp_path, {f"bergbo_102_9010_{SECOND}.ipynb": "{}"}, "zip"))
    assert {*handed_in(mine, SECOND)} == {students[0]}


@pytest.mark.parametrize(
    "files",
    [
        ("bergbo_102_9002_a103_question_5_6_{}", "lovelaceada_103_9003_{}"),  # the student's name of the file
        ("bergbo103_question_102_9002_{}", "lovelaceada_103_9003_{}"),  # the student's own name on Canvas
    ],
)
def test_no_name_of_a_student_or_file_makes_a_download_one_of_a_quiz(mine, tmp_path, files):
    roster(mine, (*ADA[:4], "103"), (*BO[:4], "102"))
    result = collect.collect(mine, laid_out(tmp_path, {name.format(f"{NAME}.ipynb"): name for name in files}))
    assert {*handed_in(mine)} == {"al01", "bb02"} and not result.refused
    assert (mine.tree / f"submitted/bb02/{NAME}/{NAME}.ipynb").read_text() == files[0]


def test_one_upload_alone_that_may_be_a_quizs_is_refused(mine, tmp_path):
    (refused,) = collect.collect(mine, laid_out(tmp_path, {QUIZ[0].format(f"{NAME}.ipynb"): "{}"})).refused
    assert "it may be" in refused and "use --student" in refused
