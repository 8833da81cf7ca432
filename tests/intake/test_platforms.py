"""What downloads of platforms and folders of classes look like, and whose each file in them is."""

import csv
import io
import struct
import zipfile

import pytest

from autograder import course
from autograder.course import CourseError
from autograder.gradebook import roster as rosters
from autograder.intake import archive, collect, origins
from autograder.reports import uploads

NAME, SECOND = "01_causal_mask_lm", "02_positional_encoding"
COLUMNS = ("id", "first_name", "last_name", "email", "platform_ids")
ADA, BO, JOSE = (
    ("al01", "Ada", "Lovelace", "ada@example.org", ""),
    ("bb02", "Bo", "Berg", "bo@example.org", ""),
    ("jg03", "José", "García", "jose@example.org", ""),
)


GRADESCOPES = """\
submission_1:
  :submitters:
  - :name: Bo Berg
    :sid: bb02
    :email: bo@example.org
  :created_at: 2027-02-01 10:20:30.000000000 Z
"""


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


@pytest.mark.parametrize(
    "form",
    [
        "397063-255736{at} - {who} - Sep 24, 2024 926 PM/{file}",
        "{who}_3{at}_assignsubmission_file_/{file}",
        "Lab 2/{who} - {file}",
    ],
)
@pytest.mark.parametrize("zipped", [True, False])
def test_a_download_of_several_students_is_not_taken_as_one_students(mine, tmp_path, form, zipped):
    """It was: the first student in it was filed as the student of --student."""
    roster(mine, ADA, BO)
    names = [form.format(at=at, who=who, file=f"{NAME}.ipynb") for at, who in enumerate(("Ada Lovelace", "Bo Berg"))]
    files = {name: f'["{name}"]' for name in names}
    source = laid_out(tmp_path, files, "zip" if zipped else "folder")
    with pytest.raises(CourseError, match=r"several students \(Ada Lovelace, Bo Berg\): collect it without --student"):
        collect.collect(mine, source, whose="al01")
    assert not handed_in(mine)
    one = laid_out(tmp_path / "one", {names[0]: "{}"})
    assert not collect.collect(mine, one, whose="bb02").refused and {*handed_in(mine)} == {"bb02"}


@pytest.mark.parametrize("listed", [True, False])
def test_the_directory_of_the_student_repository_names_nobody(mine, tmp_path, listed):
    """`release` itself makes `notebooks/`: three zips of it were one student, "notebooks"."""
    if listed:
        roster(mine, ADA, BO)
    inside = f"notebooks/{NAME}.ipynb"
    source = laid_out(tmp_path, {f"{who}.zip": {inside: f'["{who}"]'} for who in ("Ada Lovelace", "Bo Berg")})
    alone = collect.collect(mine, source / "Ada Lovelace.zip")
    assert not handed_in(mine) and "use --student" in alone.refused[0]
    assert not collect.collect(mine, source).refused
    assert {*handed_in(mine)} == ({"al01", "bb02"} if listed else {"Ada_Lovelace", "Bo_Berg"})


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


@pytest.mark.parametrize("listed", [True, False])
def test_each_zip_of_a_large_download_of_google_drive_is_read(mine, tmp_path, listed):
    """The last one may hold a single file: it was filed under the name of the zip, or of the assignment's folder."""
    if listed:
        roster(mine, ADA, BO, JOSE)
    files = [f"03 submissions/{name} - {SECOND}.ipynb" for name in ("José García", "Ada Lovelace", "Bo Berg")]
    zips = {
        "drive-20270301T101112Z-001.zip": dict.fromkeys(files[:2], "{}"),
        "drive-20270301T101112Z-2-002.zip": dict.fromkeys(files[2:], "{}"),
    }
    result = collect.collect(mine, laid_out(tmp_path, zips))
    if listed:
        assert sorted(handed_in(mine)) == ["al01", "bb02", "jg03"] and not result.refused
    else:
        assert sorted(handed_in(mine)) == ["Ada_Lovelace", "José_García"]
        (refused,) = result.refused
        assert "it may be of Bo Berg or of 03 submissions" in refused and "--student" in refused


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
    """To add it to the platform_ids of one student would file the others' work under that one too."""
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
        rosters.load(mine).find("bergbo", "5501")


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


GRADESCOPE = """---
submission_111:
  :submitters:
  - :name: Ada Lovelace
    :sid: '{ada}'
    :email: ada@example.org
  :created_at: 2027-02-05 10:20:30.123456789 Z
  :score: 0.0
  :results: !ruby/hash:ActiveSupport::HashWithIndifferentAccess
    tests: []
submission_112:
  :submitters:
  - :name: Bo Berg
    :sid: '{bo}'
    :email: bo@example.org
  - :name: José García
    :sid: ''
    :email: jose@example.org
  :created_at: 2027-02-09 08:00:00.000000000 Z
"""
CLONE = (".git/HEAD", ".git/config", "README.md", "utils/plots.py", "utils/data.py")
# What each platform's download holds, whose each notebook is, and when it was handed in ("": nothing says it).
LAYOUTS = {
    "Google Classroom": (
        {f"02 Positional encoding/{who} - {SECOND}.ipynb": "{}" for who in ("Ada Lovelace", "José García")},
        {"ada": "", "jose": ""},
    ),
    "Google Classroom, copies": (
        {f"Week 2/Copy of {who} - final.ipynb": SECOND for who in ("Ada Lovelace", "José García")},
        {"ada": "", "jose": ""},
    ),
    "Teams": (
        {
            f"Student Work/Submitted files/Ada Lovelace/Position/Version 2/{SECOND}.ipynb": '{"a": 2}',
            f"Student Work/Submitted files/Ada Lovelace/Position/Version 10/{SECOND}.ipynb": '{"a": 10}',
            f"Student Work/Submitted files/Bo Berg/Position/Version 1/{SECOND}.ipynb": "{}",
            f"Student Work/Working files/Bo Berg/Position/{SECOND}.ipynb": '{"draft": 1}',
            f"Student Work/Working files/José García/Position/{SECOND}.ipynb": '{"draft": 1}',
        },
        {"ada": "", "bo": ""},
    ),
    "Gradescope": (
        {
            "assignment_9100_export/submission_metadata.yml": GRADESCOPE,
            f"assignment_9100_export/submission_111/{SECOND}.ipynb": "{}",
            f"assignment_9100_export/submission_112/work/{SECOND}.ipynb": "{}",
        },
        {"ada": "2027-02-05 10:20", "bo": "2027-02-09 08:00", "jose": "2027-02-09 08:00"},
    ),
    "Moodle groups": (
        {
            f"Group A-Ada Lovelace_31_assignsubmission_file_/{SECOND}.ipynb": "{}",
            f"Group A-Bo Berg_32_assignsubmission_file_/{SECOND}.ipynb": "{}",
            f"Default group-José García_33_assignsubmission_file_/{SECOND}.ipynb": "{}",
        },
        {"ada": "", "bo": "", "jose": ""},
    ),
    "GitHub Classroom": (
        {
            f"02-position-submissions/02-position-{who}/{path}": "{}"
            for who in ("ada-lovelace", "bo-berg")
            for path in (*CLONE, f"notebooks/{SECOND}.ipynb")
        },
        {"ada": "", "bo": ""},
    ),
    "Brightspace": (
        {
            f"397063-2557369 - Ada Lovelace - Feb 9, 2027 110 PM/{SECOND}.ipynb": "{}",
            f"397063-2557370 - José García - Feb 20, 2027 1149 AM/{SECOND}.ipynb": "{}",
            "index.html": "<html></html>",
        },
        {"ada": "2027-02-09 13:10", "jose": "2027-02-20 11:49"},
    ),
    "Brightspace, files": (
        {
            f"397063-2557369 - Ada Lovelace - Feb 9, 2027 926 PM - {SECOND}.ipynb": "{}",
            f"397063-2557370 - Bo Berg - Feb 20, 2027 1205 AM - a - b {SECOND}.ipynb": "{}",
        },
        {"ada": "2027-02-09 21:26", "bo": "2027-02-20 00:05"},
    ),
    "Sakai": (
        {
            "Essay/grades.csv": "Display ID,ID",
            "Essay/Lovelace, Ada(ada1)/timestamp.txt": "20270205102030123",
            f"Essay/Lovelace, Ada(ada1)/Submission attachment(s)/{SECOND}.ipynb": "{}",
            f"Essay/Lovelace, Ada(ada1)/Feedback Attachment(s)/{SECOND}.ipynb": '{"marked": 1}',
            "Essay/Berg, Bo(bo2)/timestamp.txt": "2027-02-06T01:02:03Z",
            f"Essay/Berg, Bo(bo2)/Submission attachment(s)/{SECOND}.ipynb": "{}",
        },
        {"ada": "2027-02-05 10:20", "bo": "2027-02-06 01:02"},
    ),
}
# What students are called without a class list; Sakai's and Gradescope's numbers go with the name.
PLAIN = {
    "GitHub Classroom": {"ada": "ada-lovelace", "bo": "bo-berg"},
    "Gradescope": {"ada": "Ada_Lovelace_100", "bo": "Bo_Berg_200"},
    "Sakai": {"ada": "Lovelace_Ada_ada1", "bo": "Berg_Bo_bo2"},
}


@pytest.mark.parametrize("form", ["folder", "zip"])
@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("platform", LAYOUTS)
def test_downloads_of_platforms(mine, tmp_path, platform, listed, form):
    files, expected = LAYOUTS[platform]
    mine = mine.model_copy(update={"timezone": "UTC"})
    names = {"ada": "Ada_Lovelace", "bo": "Bo_Berg", "jose": "José_García"} | PLAIN.get(platform, {})
    if listed:
        roster(mine, ADA, BO, JOSE)
        names = {"ada": "al01", "bo": "bb02", "jose": "jg03"}
    text = {path: content.format(ada=100, bo=200) if "{ada}" in content else content for path, content in files.items()}
    text = {path: '{"cells": [{"id": "exercise_2_1"}]}' if one == SECOND else one for path, one in text.items()}
    result = collect.collect(mine, laid_out(tmp_path, text, form))
    assert not result.refused, result.refused
    assert {*handed_in(mine)} == {names[who] for who in expected} == {*handed_in(mine, SECOND)}
    for who, when in expected.items():
        stamp = mine.tree / "submitted" / names[who] / SECOND / "timestamp.txt"
        assert (stamp.read_text()[:16] if stamp.exists() else "") == when
    if platform == "Teams":
        assert (mine.tree / "submitted" / names["ada"] / SECOND / f"{SECOND}.ipynb").read_text() == '{"a": 10}'
        assert any("2 files in `Working files`" in note for note in result.notes)
    if platform == "Sakai":
        assert (mine.tree / "submitted" / names["ada"] / SECOND / f"{SECOND}.ipynb").read_text() == "{}"
    group = {"Gradescope": "submission_112", "Moodle groups": "Group A"}.get(platform)
    if group:
        members = [names[who] for who in (("bo", "jose") if platform == "Gradescope" else ("ada", "bo"))]
        assert sorted(result.groups[SECOND, group]) == sorted(members)
        assert any(f"{group} is a group" in note and members[0] in note and members[1] in note for note in result.notes)


@pytest.mark.parametrize(
    "names",
    [
        ("Anne-Marie Li", "Bo Berg"),
        ("Anne-Marie Li", "Anne-Sophie Ko"),
        ("Jean-Luc Petit", "Anne-Marie Li", "Hans-Peter Ott"),
        ("Group-A Li", "Bo Berg"),
    ],
)
def test_a_hyphen_in_a_name_is_no_group(mine, tmp_path, names):
    files = {f"{name}_{place}_assignsubmission_file_/{NAME}.ipynb": "{}" for place, name in enumerate(names, 10)}
    result = collect.collect(mine, laid_out(tmp_path, files))
    assert {*handed_in(mine)} == {name.replace(" ", "_") for name in names} and not result.groups


def test_groups_of_moodle_without_digits(mine, tmp_path):
    names = ("Red-Ada Lovelace", "Red-Bo Berg", "Blue-Cy Dahl", "Blue-Anne-Marie Li")
    files = {f"{name}_{place}_assignsubmission_file_/{NAME}.ipynb": "{}" for place, name in enumerate(names, 10)}
    result = collect.collect(mine, laid_out(tmp_path, files))
    assert {*handed_in(mine)} == {"Ada_Lovelace", "Bo_Berg", "Cy_Dahl", "Anne-Marie_Li"}
    assert result.groups == {
        (NAME, "Red"): ["Ada_Lovelace", "Bo_Berg"],
        (NAME, "Blue"): ["Anne-Marie_Li", "Cy_Dahl"],
    }


@pytest.mark.parametrize(
    "called, noted", [("projectteam4", True), ("bergbo", False), ("bergboerik", False), ("team4_LATE", True)]
)
def test_a_group_of_canvas_is_not_filed_under_one_without_a_word(mine, tmp_path, called, noted):
    """Canvas names the group and writes the number of one member."""
    roster(mine, ADA, (*BO[:4], "102"))
    result = collect.collect(mine, laid_out(tmp_path, {f"{called}_102_9001_{NAME}.ipynb": "{}"}, "zip"))
    assert {*handed_in(mine)} == {"bb02"} and not result.refused
    told = [note for note in result.notes if "If that is a group" in note]
    assert len(told) == noted and all("bb02 alone" in note and "--student ID" in note for note in told)


def test_other_files_are_one_line_with_a_count(mine, tmp_path):
    files = {f"r/ada/notebooks/{NAME}.ipynb": "{}", f"r/bo/{NAME}.ipynb": "{}"}
    files |= {f"r/ada/utils/{number}.py": "" for number in range(300)} | {"r/bo/Makefile": "", "r/README.md": ""}
    files |= {f"r/cy/{number}.pdf": "" for number in range(5)} | {"r/di/only.pdf": ""}
    result = collect.collect(mine, laid_out(tmp_path, files))
    assert {*handed_in(mine)} == {"ada", "bo"}
    assert [note for note in result.notes if "not notebooks" in note] == [
        "302 files are not notebooks and are left out: 300 .py, 1 .md, 1 no suffix"
    ]
    assert result.refused == [
        "r/cy/0.pdf: not a notebook (and 4 more files, none of them a notebook); ask for the .ipynb file",
        "r/di/only.pdf: not a notebook; ask for the .ipynb file",
    ]


@pytest.mark.parametrize("form", ["folder", "zip"])
def test_who_handed_in_another_file_is_named_by_its_name_alone(mine, tmp_path, form):
    roster(mine, ADA, BO, JOSE)
    files = {"Ada Lovelace 01.ipynb.txt": '{"cells"', "Bo Berg - homework.pdf": "%", f"José García {NAME}.ipynb": "{}"}
    result = collect.collect(mine, laid_out(tmp_path, files | {"José García notes.pdf": "%", "notes.pdf": "%"}, form))
    assert {*handed_in(mine)} == {"jg03"}
    assert sorted(line.split(": ")[0].split("/")[-1] for line in result.refused) == sorted([*files][:2])
    assert [note for note in result.notes if "not notebooks" in note] == [
        "2 files are not notebooks and are left out: 2 .pdf"
    ]


@pytest.mark.parametrize("form", ["folder", "zip"])
@pytest.mark.parametrize(
    "files",
    [
        {"submission_metadata.yml": GRADESCOPES, "submission_1/{name}.ipynb": "{}"},
        {
            "Lab/grades.csv": "x",
            "Lab/Berg, Bo(bo2)/timestamp.txt": "20270201102030",
            "Lab/Berg, Bo(bo2)/{name}.ipynb": "{}",
        },
        {"index.html": "<p>", "3-2 - Bo Berg - Feb 7, 2027 210 PM/{name}.ipynb": "{}"},
    ],
)
def test_what_a_platform_wrote_itself_is_not_counted_as_somebodys_file(mine, tmp_path, files, form):
    whole = {name.format(name=NAME): content for name, content in files.items()}
    result = collect.collect(mine, laid_out(tmp_path, whole, form))
    assert len(handed_in(mine)) == 1 and not [note for note in result.notes if "left out" in note], result.notes
    (tmp_path / "other").mkdir()
    other = laid_out(
        tmp_path / "other", whole | {name.replace("{name}.ipynb", "index.html"): "<p>" for name in files}, form
    )
    assert [note for note in collect.collect(mine, other).notes if "1 .html" in note], "a student's is"


@pytest.mark.parametrize("form", ["folder", "zip"])
@pytest.mark.parametrize(
    "name",
    [
        "bergbo_102_text.html",
        "bergbo_LATE_102_link.html",
        "Bo Berg_31_assignsubmission_onlinetext_/onlinetext.html",
        "Bo Berg_31_assignsubmission_onlinetext_onlinetext.html",
        "Essay/Berg, Bo(bo2)/Berg, Bo(bo2)_submissionText.html",
        "Lab_bo2_attempt_2027-02-01-10-20-30.txt",
    ],
)
def test_a_link_to_colab_in_a_text_entry_is_printed(mine, tmp_path, name, form):
    link = "https://colab.research.google.com/drive/1aBc-9_Z?usp=sharing&amp;x=1"
    content = f'<p>here: <a href="{link}">it</a><script>alert(1)</script></p>'
    result = collect.collect(mine, laid_out(tmp_path, {name: content}, form))
    (note,) = [note for note in result.notes if "a link instead of a file" in note]
    assert "https://colab.research.google.com/drive/1aBc-9_Z?usp=sharing&x=1" in note and "--student" in note
    assert name.split("/")[-1] in note and "script" not in note


def test_only_one_notebook_is_taken(mine, tmp_path):
    files = {f"ada/{NAME}.ipynb": "{}", f"ada/{SECOND}.ipynb": "{}", f"bo/{NAME}.ipynb": "{}"}
    result = collect.collect(mine, laid_out(tmp_path, files), chosen=[mine.notebook("02")])
    assert handed_in(mine) == {"ada": SECOND} and not result.refused
    assert "2 files of other notebooks are left out: only 02 is taken" in result.notes


def test_a_table_of_gradescope_that_cannot_be_read_is_named(mine, tmp_path):
    export = "assignment_1_export"
    files = {f"{export}/submission_metadata.yml": "a: [", f"{export}/submission_1/{NAME}.ipynb": "{}"}
    result = collect.collect(mine, laid_out(tmp_path, files))
    assert any("submission_metadata.yml cannot be read" in note and "not YAML" in note for note in result.notes)


def table(folder, when="2026-01-01 00:00:00 Z"):
    """A table as Gradescope writes it, which says that a folder is Eve's."""
    return f"{folder}:\n  :created_at: {when}\n  :submitters:\n  - :name: Eve Evil\n    :sid: aeve\n"


@pytest.mark.parametrize("form", ["folder", "zip"])
@pytest.mark.parametrize("folder", ["lab", "submission_1"])
@pytest.mark.parametrize("named", ["{}", "{} Li_1{}_assignsubmission_file_"])
def test_a_students_table_files_nothing_as_somebody_elses(mine, tmp_path, named, folder, form):
    """The same download without the table is filed in the same way."""
    eve, zoe, bo = (named.format(*who) for who in (("eve", 1), ("zoe", 2), ("bo", 3)))
    files = {f"{who}/{folder}/{NAME}.ipynb": "{}" for who in (eve, zoe, bo)}
    expected = {who.split("_")[0].replace(" ", "_") for who in (eve, zoe, bo)}
    result = collect.collect(mine, laid_out(tmp_path, files | {f"{eve}/submission_metadata.yml": table(folder)}, form))
    assert {*handed_in(mine)} == expected and not result.refused
    assert any("submission_metadata.yml: left out" in note for note in result.notes)


def test_a_lone_student_cannot_say_who_somebody_else_is(mine, tmp_path):
    files = {"zoe/submission_metadata.yml": table("submission_1"), f"zoe/submission_1/{NAME}.ipynb": "{}"}
    result = collect.collect(mine, laid_out(tmp_path, files))
    assert {*handed_in(mine)} == {"zoe"} and not result.refused


def test_teams_folders_within_a_students_are_no_download(mine, tmp_path):
    eve = "Eve Evil_13_assignsubmission_file_"
    files = {f"{eve}/Submitted files/Zoe/Lab/Version 2/{NAME}.ipynb": "{}"}
    result = collect.collect(mine, laid_out(tmp_path, files))
    assert {*handed_in(mine)} == {"Eve_Evil"} and not result.refused


def test_a_students_own_working_files_hide_no_versions(mine, tmp_path):
    """Else nobody knows which of another's versions is the last."""
    files = {f"Submitted files/Zoe Li/Lab/Version {number}/{NAME}.ipynb": f'{{"a": {number}}}' for number in (10, 2)}
    files |= {f"Submitted files/Eve Evil/Lab/Version 1/Working files/{NAME}.ipynb": "{}"}
    result = collect.collect(mine, laid_out(tmp_path, files) / "Submitted files")
    assert {*handed_in(mine)} == {"Zoe_Li", "Eve_Evil"} and not result.refused
    assert (mine.tree / "submitted/Zoe_Li" / NAME / f"{NAME}.ipynb").read_text() == '{"a": 10}'


@pytest.mark.parametrize("stamp", ["00010101000000000", "99991231235959999"])
def test_a_time_of_sakai_that_cannot_be_is_none(mine, tmp_path, stamp):
    files = {f"Berg, Bo(bo2)/{NAME}.ipynb": "{}", "Berg, Bo(bo2)/timestamp.txt": stamp}
    files |= {f"Li, Zoe(zoe3)/{NAME}.ipynb": "{}", "Li, Zoe(zoe3)/timestamp.txt": "20270205102030123"}
    result = collect.collect(mine, laid_out(tmp_path, files))
    assert {*handed_in(mine)} == {"Berg_Bo_bo2", "Li_Zoe_zoe3"} and not result.refused
    assert {path.parts[-3] for path in mine.tree.glob("submitted/*/*/timestamp.txt")} == {"Li_Zoe_zoe3"}


@pytest.mark.parametrize(
    "when",
    ["0001-01-01 00:00:00 +14:00", "9999-12-31 23:59:59 -14:00", "1901-01-01 00:00:00 Z", "2900-01-01 00:00:00 Z"],
)
def test_a_time_that_cannot_be_ends_no_collecting(mine, tmp_path, when):
    text = table("submission_1", when) + table("submission_2").replace("Eve Evil", "Zoe Li").replace("aeve", "zoe")
    files = {"submission_metadata.yml": text} | {f"submission_{place}/{NAME}.ipynb": "{}" for place in (1, 2)}
    result = collect.collect(mine, laid_out(tmp_path, files))
    assert {*handed_in(mine)} == {"Eve_Evil_aeve", "Zoe_Li_zoe"} and not result.refused
    assert any("no valid time of submission_1" in note for note in result.notes)
    stamps = {path.parts[-3]: path.read_text()[:10] for path in mine.tree.glob("submitted/*/*/timestamp.txt")}
    assert stamps == {"Zoe_Li_zoe": "2026-01-01"}


def test_a_failure_in_reading_a_table_is_a_note(mine, tmp_path, monkeypatch):
    def fails(*_):
        raise KeyError("a parser's")

    monkeypatch.setattr("autograder.limited.call", fails)
    files = {"submission_metadata.yml": "", f"submission_1/{NAME}.ipynb": "{}"}
    result = collect.collect(mine, laid_out(tmp_path, files))
    assert any("submission_metadata.yml cannot be read" in note and "a parser's" in note for note in result.notes)


@pytest.mark.parametrize("folders", [("eve", "zoe"), ("eve",)])
def test_a_students_own_git_takes_no_time_away(mine, tmp_path, folders):
    files = {f"{who}/{NAME}.ipynb": "{}" for who in folders} | {"eve/.git/HEAD": "x"}
    result = collect.collect(mine, laid_out(tmp_path, files, "zip"))
    assert not result.refused
    assert {path.parts[-3] for path in mine.tree.glob("submitted/*/*/timestamp.txt")} == {*folders}


def test_a_lone_clone_is_github_classrooms_where_its_folder_says_so(mine, tmp_path):
    files = {f"lab-submissions/lab-ada/{path}": "{}" for path in (*CLONE, f"notebooks/{NAME}.ipynb")}
    result = collect.collect(mine, laid_out(tmp_path, files) / "lab-submissions")
    assert {*handed_in(mine)} == {"ada"} and not result.refused
    assert not [*mine.tree.glob("submitted/*/*/timestamp.txt")]


@pytest.mark.parametrize("zip64", [False, True])
def test_a_zip_of_many_members_is_not_opened(mine, tmp_path, monkeypatch, zip64):
    """What its last record says of their number is not believed."""
    many = archive.MAX_MEMBERS + 1
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", 20, 3, 20, 0, 0, 0, 0, 33, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) + b"a"
    size = many * len(entry)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, size, 0, 0)
    if zip64:
        end = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, size, 0)
        end += struct.pack("<4sLQL", b"PK\6\7", 0, size, 1)
        end += struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 65535, 65535, 2**32 - 1, 2**32 - 1, 0)
    source = laid_out(tmp_path, {f"ada/{NAME}.ipynb": "{}"})
    for path in (source / "class.zip", source / "ada/mine.zip"):
        path.write_bytes(entry * many + end)
    monkeypatch.setattr(zipfile.ZipFile, "_RealGetContents", lambda self: pytest.fail("it is opened"))
    assert archive.downloads(source)["class.zip"] == []
    result = collect.collect(mine, source)
    assert {*handed_in(mine)} == {"ada"}
    assert len([line for line in result.refused if f"a zip of {many} files" in line]) == 2, result.refused


def test_members_of_a_usual_zip_are_counted(tmp_path):
    members = zipped({"a": "1", "b": "2"})
    assert [archive.members_of(io.BytesIO(text)) for text in (members, b"before" + members, b"none")] == [2, 2, 0]
