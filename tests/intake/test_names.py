"""Whose a submission is, and when it came, in the downloads of each platform: nobody is merged, nobody appears."""

import csv
import datetime
import re
import zipfile

import pytest

from autograder import course
from autograder.author import build
from autograder.gradebook import course_tree, extensions
from autograder.gradebook import roster as gradebook_roster
from autograder.intake import collect, kept_submissions

NAME, SECOND = "01_causal_mask_lm", "02_positional_encoding"
DOWNLOADED = (2027, 6, 1, 9, 0, 0)  # long after every deadline


@pytest.fixture
def mine(tmp_path):
    return course.load(tree=tmp_path / "tree")


@pytest.fixture(scope="module")
def text():
    known = course.load()
    return build.write(build.student_notebook(known, known.notebook(NAME))).encode()


def download(path, members, when=DOWNLOADED):
    """A platform's zip; `members` are names with contents, or with a content and a time."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            content, at = content if isinstance(content, tuple) else (content, when)
            archive.writestr(zipfile.ZipInfo(name, at), content)
    return path


def submitted(known, name=NAME):
    return {path.parents[1].name: path for path in known.tree.glob(f"submitted/*/{name}/{name}.ipynb")}


def stamps(known):
    """By student, the time that nbgrader reads, or None."""
    found = {student: path.with_name("timestamp.txt") for student, path in submitted(known).items()}
    return {student: stamp.read_text().strip() if stamp.exists() else None for student, stamp in found.items()}


def marked(known):
    """Whom the platform marks late without saying when."""
    return {
        student for student in submitted(known) if kept_submissions.marked_late(known, known.notebook(NAME), student)
    }


def roster(known, *rows, columns=("id", "first_name", "last_name", "email", "platform_ids"), delimiter=","):
    known.tree.mkdir(parents=True, exist_ok=True)
    with (known.tree / "students.csv").open("w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file, delimiter=delimiter).writerows([columns, *rows])


def moodle(name, number, notebook=NAME):
    return f"{name}_{number}_assignsubmission_file_/{notebook}.ipynb"


def test_moodle_two_students_of_one_name_are_two(mine, tmp_path, text):
    zipped = {moodle("Alex Smith", 3001): text, moodle("Alex Smith", 3002): b"other", moodle("Bo Li", 3003): text}
    result = collect.collect(mine, download(tmp_path / "in.zip", zipped))
    assert set(submitted(mine)) == {"Alex_Smith_3001", "Alex_Smith_3002", "Bo_Li"} and not result.refused
    assert sum("like somebody else" in line and "students.csv" in line for line in result.notes) == 2
    # The next assignment has other numbers: nobody can know which of the two this is, so it is neither.
    collect.collect(mine, download(tmp_path / "in.zip", {moodle("Alex Smith", 4001, SECOND): b"{}"}))
    assert set(submitted(mine, SECOND)) == {"Alex_Smith_4001"}
    collect.collect(mine, download(tmp_path / "in.zip", zipped))  # the same again
    assert set(submitted(mine)) == {"Alex_Smith_3001", "Alex_Smith_3002", "Bo_Li"}


def test_moodle_the_second_of_one_name_comes_later(mine, tmp_path, text):
    collect.collect(mine, download(tmp_path / "in.zip", {moodle("Alex Smith", 3001): text}))
    later = {moodle("Alex Smith", 3001): text, moodle("Alex Smith", 3002): b"other"}
    result = collect.collect(mine, download(tmp_path / "in.zip", later))
    assert set(submitted(mine)) == {"Alex_Smith", "Alex_Smith_3002"} and not result.refused
    assert submitted(mine)["Alex_Smith"].read_bytes() == text
    assert "3002 is called Alex Smith like somebody else" in " ".join(result.notes)


def test_moodle_one_student_over_assignments_is_one(mine, tmp_path):
    both = {moodle("Bo Li", 3003): b"{}", moodle("Bo Li", 4003, SECOND): b"{}"}
    collect.collect(mine, download(tmp_path / "in.zip", both))
    assert set(submitted(mine)) == set(submitted(mine, SECOND)) == {"Bo_Li"}


def test_moodle_without_folders(mine, tmp_path, text):
    names = {f"Alex Smith_{number}_assignsubmission_file_{NAME}.ipynb": text for number in (3001, 3002)}
    collect.collect(mine, download(tmp_path / "in.zip", names))
    assert set(submitted(mine)) == {"Alex_Smith_3001", "Alex_Smith_3002"}


@pytest.mark.parametrize("word", ["Participant", "Teilnehmerin"])
@pytest.mark.parametrize("count", [1, 3])
def test_moodle_blind_marking_keeps_the_class_apart(mine, tmp_path, text, word, count):
    names = {moodle(word, 3003 + one): text + b" " * one for one in range(count)}
    result = collect.collect(mine, download(tmp_path / "in.zip", names))
    assert set(submitted(mine)) == {f"{word}_{3003 + one}" for one in range(count)} and not result.refused


def test_moodle_times(mine, tmp_path, text):
    """Newer Moodles write the time of the download; it is not a time of anybody. Times that differ are the
    students'.
    """
    names = {moodle("Ada", 1): text, moodle("Bo", 2): (text, (2027, 6, 1, 9, 0, 20))}
    result = collect.collect(mine, download(tmp_path / "in.zip", names))
    assert stamps(mine) == {"Ada": None, "Bo": None} and "does not say when" in result.notes[0]
    names = {moodle("Ada", 1): (text, (2027, 2, 8, 9, 0, 0)), moodle("Bo", 2): (text, (2027, 2, 1, 9, 0, 0))}
    there = mine.model_copy(update={"timezone": "Europe/Berlin"})
    assert not collect.collect(there, download(tmp_path / "in2.zip", names)).notes
    mine.tree.rename(tmp_path / "older")
    collect.collect(there, tmp_path / "in2.zip")
    assert stamps(mine)["Ada"].startswith("2027-02-08 08:00")


def test_canvas_names_late_marks_and_times(mine, tmp_path, text):
    names = {
        f"lovelaceada_123_4567_{NAME}.ipynb": text,
        f"o_neilbo_LATE_124_4568_{NAME}.ipynb": text,
        f"anon_x7Kq2_4569_{NAME}.ipynb": text,
        f"LATE_anon_12345_4570_{NAME}.ipynb": text,
    }
    result = collect.collect(mine, download(tmp_path / "in.zip", names))
    assert stamps(mine) == dict.fromkeys(("lovelaceada_123", "o_neilbo_124", "anon_x7Kq2", "anon_12345"))
    assert marked(mine) == {"o_neilbo_124", "anon_12345"}
    assert len(result.notes) == 1 and "LATE" in result.notes[0] and not result.refused


def test_canvas_test_student_is_noted(mine, tmp_path, text):
    names = {f"studenttest_3143_207797_{NAME}.ipynb": text, f"lovelaceada_123_4567_{NAME}.ipynb": text}
    result = collect.collect(mine, download(tmp_path / "in.zip", names))
    assert set(submitted(mine)) == {"studenttest_3143", "lovelaceada_123"} and not result.refused
    (note,) = [one for one in result.notes if "Test Student" in one]
    assert note.startswith("studenttest_3143: ") and "`autograder remove studenttest_3143 01 --yes`" in note


def test_canvas_resubmissions_are_of_the_same_student(mine, tmp_path, text):
    for second in (f"anon_x7Kq2_4569_{NAME}.ipynb", f"anon_x7Kq2_5003_{NAME}-1.ipynb", f"anon_x7Kq2_4569_{NAME}.ipynb"):
        last = text + str(len(second)).encode()
        at = (2027, 6, 2, 9, 0, 0) if "5003" in second else DOWNLOADED
        collect.collect(mine, download(tmp_path / "in.zip", {second: last}, at))
    assert set(submitted(mine)) == {"anon_x7Kq2"}
    assert submitted(mine)["anon_x7Kq2"].read_bytes() == text + str(len(f"anon_x7Kq2_5003_{NAME}-1.ipynb")).encode()
    assert len(list(mine.tree.glob("handins/anon_x7Kq2/*/*.ipynb"))) == 2


def test_canvas_of_two_files_of_one_download_the_later_upload_counts(mine, tmp_path, text):
    names = {f"loveada_1_900_{NAME}-1.ipynb": text + b"new", f"loveada_1_88_{NAME}.ipynb": text}
    collect.collect(mine, download(tmp_path / "in.zip", names))
    assert submitted(mine)["loveada_1"].read_bytes() == text + b"new"


def test_canvas_downloaded_again_is_no_other_hand_in(mine, tmp_path, text):
    for day in (1, 2, 3):
        collect.collect(mine, download(tmp_path / "in.zip", {f"a_1_88_{NAME}.ipynb": text}, (2027, 6, day, 9, 0, 0)))
    assert len(list(mine.tree.glob("handins/a_1/*/*.ipynb"))) == 1
    collect.collect(mine, download(tmp_path / "in.zip", {f"a_LATE_1_88_{NAME}.ipynb": text}, (2027, 6, 4, 9, 0, 0)))
    assert stamps(mine) == {"a_1": None} and marked(mine) == {"a_1"}


def test_blackboard_states_times(mine, tmp_path, text):
    names = {
        f"Lab 1_al815_attempt_2027-02-08-10-20-30_{NAME}.ipynb": text,
        f"Lab 1_bo2_attempt_2027-02-01-10-20-30_{NAME}.ipynb": text,
        "Lab 1_bo2_attempt_2027-02-01-10-20-30.txt": b"Name: Bo",
    }
    there = mine.model_copy(update={"timezone": "America/New_York"})
    result = collect.collect(there, download(tmp_path / "in.zip", names))
    assert set(submitted(mine)) == {"al815", "bo2"} and stamps(mine)["al815"].startswith("2027-02-08 15:20:30")
    assert not result.notes and not result.refused  # what Blackboard writes about each attempt is not a submission
    (tmp_path / "in").mkdir()
    for name, content in names.items():
        (tmp_path / "in" / name).write_bytes(content)
    assert not collect.collect(there, tmp_path / "in").refused


def test_blackboards_word_of_an_attempt_without_a_notebook_is_told(mine, tmp_path, text):
    names = {
        f"Lab 1_al815_attempt_2027-02-08-10-20-30_{NAME}.ipynb": text,
        "Lab 1_bo2_attempt_2027-02-01-10-20-30.txt": b"Name: Bo",
        "Lab 1_bo2_attempt_2027-02-01-10-20-30_lab.pdf": b"%PDF",
    }
    result = collect.collect(mine, download(tmp_path / "in.zip", names))
    assert len(result.taken) == 1 and len(result.refused) == 2 and all("_bo2_" in line for line in result.refused)


@pytest.mark.parametrize(
    "name",
    [
        f"Copie de {NAME}.ipynb",
        f"Copy of {NAME}.ipynb",
        f"Kopie von {NAME}.ipynb",
        f"Copia de {NAME} (2).ipynb",
        f"{NAME} (1).ipynb",
        f"{NAME}-1.ipynb",
        f"{NAME} - Copy (2).ipynb",
        f"{NAME} - Kopie.ipynb",
        f"copy_of_{NAME}.ipynb",
        f"Copy of Copy of {NAME}.ipynb",
        f"{NAME}__20261104104101.ipynb",  # nbgitpuller's
        f"{NAME}.ipynb",
        f"Copie de/{NAME}.ipynb",
    ],
)
def test_a_name_of_nobody_is_refused_and_says_what_to_do(mine, tmp_path, text, name):
    path = tmp_path / "in" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(text)
    result = collect.collect(mine, tmp_path / "in")
    assert not submitted(mine) and "use --student" in result.refused[0]
    collect.collect(mine, tmp_path / "in", whose="Ada Love")
    assert set(submitted(mine)) == {"Ada_Love"}


@pytest.mark.parametrize(
    "name, student",
    [
        (f"Copy of Ada_{NAME}.ipynb", "Ada"),
        (f"Ada_{NAME}__20261104104101.ipynb", "Ada"),
        (f"team_2_{NAME}.ipynb", "team_2"),
        (f"team_2/{NAME}.ipynb", "team_2"),
        (f"123456_{NAME}.ipynb", "123456"),
        (f"Ada_2_{NAME}.ipynb", "Ada_2"),
        (f"Kopiev_{NAME}.ipynb", "Kopiev"),
        (f"Copley Ann/{NAME}.ipynb", "Copley_Ann"),
    ],
)
def test_a_name_of_somebody_is_taken(mine, tmp_path, text, name, student):
    path = tmp_path / "in" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(text)
    assert not collect.collect(mine, tmp_path / "in").refused
    assert set(submitted(mine)) == {student}


def test_two_files_for_one_student_option_are_not_merged(mine, tmp_path, text):
    for name in ("Copie de ", "Kopie von "):
        (tmp_path / f"{name}{NAME}.ipynb").write_bytes(text)
    (tmp_path / "tree").mkdir(exist_ok=True)
    source = tmp_path / "in"
    source.mkdir()
    for path in tmp_path.glob("*.ipynb"):
        path.rename(source / path.name)
    result = collect.collect(mine, source, whose="ada")
    assert len(result.taken) == 1 and "a second" in result.refused[0]
    with pytest.raises(course.CourseError, match="cannot be a student's name"):
        collect.collect(mine, source, whose="..")


@pytest.mark.parametrize("kind", ["folder", "zip", "folder of folders"])
def test_what_is_empty_says_so(mine, tmp_path, kind):
    source = tmp_path / "in.zip" if kind == "zip" else tmp_path / "in"
    if kind == "zip":
        download(source, {})
    else:
        (source / "Ada" if kind == "folder of folders" else source).mkdir(parents=True)
    assert "is empty" in collect.collect(mine, source).refused[0]


ALEX = [("al1", "Alex", "Smith", "alex1@x.org", "3001 4001"), ("al2", "Alex", "Smith", "alex2@x.org", "3002")]


@pytest.mark.parametrize("delimiter", [",", ";"])
def test_the_roster_says_who_is_who(mine, tmp_path, text, delimiter):
    more = [("zoe", "Zoë", "Müller", "z.mueller@x.org", "x7Kq2"), ("ada", "Ada", "Lovelace", "", "")]
    roster(mine, *ALEX, *more, delimiter=delimiter)
    names = {
        moodle("Alex Smith", 3001): text,
        moodle("Alex Smith", 3002): b"other",
        moodle("Alex Smith", 4001, SECOND): b"{}",
        moodle("Zoe Muller", 3009): text,
        f"lovelaceada_123_4567_{NAME}.ipynb": text,
    }
    source = tmp_path / "in"
    for name, content in names.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(content)
    result = collect.collect(mine, source)
    assert set(submitted(mine)) == {"al1", "al2", "zoe", "ada"} and not result.refused
    assert set(submitted(mine, SECOND)) == {"al1"}
    assert submitted(mine)["al2"].read_bytes() == b"other"


def test_who_is_not_on_the_roster_or_may_be_two_is_refused(mine, tmp_path, text):
    roster(mine, *ALEX, ("bo", "Bo", "Li", "", ""))
    names = {
        moodle("Alex Smith", 9): text,
        moodle("Eve", 8): text,
        moodle("Bo Li", 6): text,
        moodle("Bo Li", 7): b"other",
    }
    result = collect.collect(mine, download(tmp_path / "in.zip", names))
    assert set(submitted(mine)) == {"bo"} and submitted(mine)["bo"].read_bytes() == text
    told = " ".join(result.refused)
    for part in ("may be al1 and al2", "Eve (number 8) is not in students.csv", "under the numbers 6 and 7"):
        assert part in told
    with pytest.raises(course.CourseError, match=r"of several students \(Alex Smith, Bo Li, Eve\)"):
        collect.collect(mine, tmp_path / "in.zip", whose="al2")
    alone = download(tmp_path / "alone.zip", {moodle("Alex Smith", 9): text})
    assert not collect.collect(mine, alone, whose="al2").refused and "al2" in submitted(mine)
    with pytest.raises(course.CourseError, match="Mallory is not in"):
        collect.collect(mine, tmp_path / "in.zip", whose="Mallory")
    assert "or `Eve` to the platform_ids" in told, "Moodle's numbers differ in each assignment"
    with pytest.raises(course.CourseError, match=r"^Li is not in students.csv: did you mean bo\? Else add a line"):
        collect.collect(mine, tmp_path / "in.zip", whose="Li")


def test_brightspaces_two_of_one_name_are_noted_without_a_class_list(mine, tmp_path, text):
    """Their folders have other first numbers, which may be the students' and may be the submissions'."""
    folders = [f"{number} - Bo Li - Feb 7, 2027 {time} PM/{NAME}.ipynb" for number, time in
               (("397063-25", 210), ("397064-26", 310))]  # fmt: skip
    again = folders[1].replace("397064", "397063")
    for names, notes in ((folders, 1), ([folders[0], again], 0)):
        source = download(tmp_path / f"{notes}.zip", {name: f'["{name}"]' for name in names})
        result = collect.collect(mine, source)
        told = [note for note in result.notes if "both taken as theirs" in note]
        assert len(told) == notes and not result.refused and len(result.taken) == 2
        assert all(name in told[0] for name in (*names, "of its own name, `NAME 2` where two")) if notes else True
    roster(mine, ("bo", "Bo", "Li", "", ""))
    told = collect.collect(mine, download(tmp_path / "listed.zip", dict.fromkeys(folders, text))).notes
    assert not [note for note in told if "both taken as theirs" in note], "one student of the class is called so"


def test_a_platforms_number_is_advised_where_the_platform_has_one(mine, tmp_path, text):
    roster(mine, *ALEX)
    names = (
        f"Alex Smith - {NAME}.ipynb",
        f"1-2 - Alex Smith - Feb 7, 2027 210 PM/{NAME}.ipynb",
        moodle("Alex Smith", 9),
    )
    for name in names:
        (refused,) = collect.collect(mine, download(tmp_path / "in.zip", {f"Lab 1/{name}": text})).refused
        assert "may be al1 and al2" in refused and "platform_ids" not in refused, refused
    sakai = f"Lab/Smith, Alex(as7)/Submission attachment(s)/{NAME}.ipynb"
    (refused,) = collect.collect(mine, download(tmp_path / "in.zip", {sakai: text})).refused
    assert "or write as7 into the platform_ids of one in students.csv" in refused


@pytest.mark.parametrize(
    "name",
    [
        "peter.pan@uni-x.edu - Homework 1 (final).ipynb",
        "Homework 1 PETER.PAN@uni-x.edu.ipynb",
        "peter.pan@uni-x.edu_hw.ipynb",
        "Pan, Peter - lab1.ipynb",
        "Peter Pan 01.ipynb",
        "Peter Pan_1.ipynb",
    ],
)
def test_words_beside_a_students_name_in_that_of_a_file_do_no_harm(mine, tmp_path, text, name):
    others = [("pan", "Pan", "Tau", "pan@uni-x.edu", ""), ("pp2", "Peter", "Panther", "x.peter.pan@uni-x.edu", "")]
    roster(mine, ("pp", "Peter", "Pan", "peter.pan@uni-x.edu", ""), *others)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_bytes(text)
    result = collect.collect(mine, tmp_path / "in")
    assert set(submitted(mine)) == {"pp"} and not result.refused


def test_words_of_a_file_of_nobody_are_not_advised_as_a_platforms(mine, tmp_path, text):
    roster(mine, ("pp", "Peter", "Pan", "peter.pan@uni-x.edu", ""))
    (tmp_path / "in").mkdir()
    for name in ("Fwd: my homework!!", "eve@uni-x.edu - Homework (final)"):
        (tmp_path / "in" / f"{name}.ipynb").write_bytes(text)
    refused = collect.collect(mine, tmp_path / "in").refused
    assert len(refused) == 2 and not submitted(mine)
    assert all("platform_ids" not in one and one.endswith("or collect it alone with `--student ID`") for one in refused)


@pytest.mark.parametrize(
    "rows, told",
    [
        ([("a", "", "", "", "7"), ("b", "", "", "", "7")], "the platform id 7 is there twice"),
        ([("a", "", "", "", ""), ("a", "", "", "", "")], "the id a is there twice"),
        ([("../x", "", "", "", "")], "line 2: `../x` cannot be an id"),
    ],
)
def test_a_roster_that_contradicts_itself_is_refused(mine, tmp_path, text, rows, told):
    roster(mine, *rows)
    with pytest.raises(course.CourseError, match=told):
        collect.collect(mine, download(tmp_path / "in.zip", {f"a/{NAME}.ipynb": text}))


@pytest.mark.parametrize("name", ["students.csv", "extensions.csv", "others.csv"])
@pytest.mark.parametrize("head", ["id,student", "id," + "x" * 200_000])
def test_a_table_with_a_field_of_very_many_signs_is_told_in_a_line(mine, name, head):
    path = mine.tree / name
    path.parent.mkdir(parents=True)
    path.write_text(f'{head}\nada,ada\nbo,"' + "bo,bo\n" * 30_000)
    with pytest.raises(course.CourseError, match=r"csv cannot be read behind line [02] \(field larger.*quote") as told:
        if name == "students.csv":
            gradebook_roster.load(mine)
        elif name == "extensions.csv":
            extensions.extensions(mine)
        else:
            gradebook_roster.listed(path)
    assert len(str(told.value)) < 300


def test_a_roster_without_ids_is_refused(mine, tmp_path, text):
    roster(mine, ("Ada",), columns=("name",))
    with pytest.raises(course.CourseError, match="has no column `id`"):
        collect.collect(mine, download(tmp_path / "in.zip", {f"a/{NAME}.ipynb": text}))


def test_a_name_is_one_in_both_forms_of_its_letters(mine, tmp_path, text):
    for name in ("Zo\u00eb", "Zoe\u0308"):
        assert not collect.collect(mine, download(tmp_path / "in.zip", {f"{name}/{NAME}.ipynb": text})).refused
    assert len(submitted(mine)) == 1
    assert course_tree.place(mine, "submitted", mine.notebook(NAME), "Zoë").exists()


BOB = ("bob", "Bob", "Bird", "", "4711")
ANNA = ("anna", "Anna", "Ash", "", "u17;123")


# What a neighbour of Anna's is called in the download of each platform.
MOODLE, BLACKBOARD, CANVAS = (
    f"Bob Bird_124_assignsubmission_file_{NAME}.ipynb",
    f"Sheet one_bob_attempt_2027-01-05-10-00-00_{NAME}.ipynb",
    f"birdbob_4711_78_{NAME}.ipynb",
)
READ_TWICE = [
    (f"Anna Ash_123_assignsubmission_file_x_4711_attempt_2020-01-01-00-00-00_{NAME}.ipynb", MOODLE),
    (f"ashanna_123_77_x_4711_assignsubmission_file_{NAME}.ipynb", CANVAS),
    (f"ashanna_123_77_x_4711_attempt_2020-01-01-00-00-00_{NAME}.ipynb", CANVAS),
    (f"Sheet one_u17_attempt_2027-01-05-10-00-00_4711_assignsubmission_file_{NAME}.ipynb", BLACKBOARD),
]


def laid_out(folder, names, form, text):
    """A download of these files, as a zip or as a folder."""
    if form == "zip":
        return download(folder / "in.zip", {name: text for name in names})
    (folder / "in").mkdir(exist_ok=True)
    for name in names:
        (folder / "in" / name).write_bytes(text)
    return folder / "in"


@pytest.mark.parametrize(
    "name, beside",
    [
        (f"Anna Ash_123_assignsubmission_file_x_4711_9_{NAME}.ipynb", ""),
        (f"Sheet one_u17_attempt_2027-01-05-10-00-00_x_4711_9_{NAME}.ipynb", ""),
        *READ_TWICE,
    ],
)
@pytest.mark.parametrize("form", ["zip", "folder"])
def test_the_students_name_of_a_file_is_not_read_as_a_platforms(mine, tmp_path, text, name, beside, form):
    """What Anna calls her file stands behind what the platform says: it neither makes it Bob's, nor earlier."""
    roster(mine, BOB, ANNA)
    result = collect.collect(mine, laid_out(tmp_path, [name, beside] if beside else [name], form, text))
    assert {*submitted(mine)} == {"anna", "bob"} - {"" if beside else "bob"} and not result.refused, result
    assert not str(stamps(mine)["anna"]).startswith("2020")
    assert name in (mine.tree / f"handins/anna/{NAME}/origin.json").read_text()


@pytest.mark.parametrize(
    "name, beside",
    [
        (f"A_anna_attempt_2020-01-01-00-00-00_99_assignsubmission_file_{NAME}.ipynb", MOODLE),
        (f"ashanna_123_77_x_99_assignsubmission_file_{NAME}.ipynb", MOODLE),
        (f"ashanna_123_77_x_mallory_attempt_2027-02-08-10-20-30_{NAME}.ipynb", BLACKBOARD),
        (f"bob_1_01_assignsubmission_file_99_78_{NAME}.ipynb", CANVAS),
    ],
)
@pytest.mark.parametrize("form", ["zip", "folder"])
def test_a_display_name_is_not_read_as_another_platforms(mine, tmp_path, text, name, beside, form):
    """Mallory is called like what another platform writes: it neither is Anna's or Bob's then, nor in time."""
    roster(mine, BOB, ANNA, ("mallory", "Mallory", "Late", "", ""))
    result = collect.collect(mine, laid_out(tmp_path, [name, beside], form, text))
    assert "bob" in submitted(mine) and "anna" not in submitted(mine)
    if "mallory" in submitted(mine):
        assert stamps(mine)["mallory"].startswith("2027-02-08")
    else:
        assert len(result.refused) == 1 and "is not in students.csv" in result.refused[0]


@pytest.mark.parametrize("name", [name for name, _ in READ_TWICE])
@pytest.mark.parametrize("form", ["zip", "folder", "among others"])
def test_a_name_that_two_platforms_may_have_written_is_refused_and_says_what_to_do(mine, tmp_path, text, name, form):
    beside = [MOODLE, BLACKBOARD, CANVAS] if form == "among others" else []
    source = laid_out(tmp_path, [name, *beside], form, text)
    (refused,) = collect.collect(mine, source).refused
    assert (
        "it may be" in refused and "'s, of x_4711" not in refused and "collect a platform's whole download" in refused
    )
    if not beside:
        assert "use --student" in refused and not collect.collect(mine, source, whose="anna").refused
        assert {*submitted(mine)} == {"anna"}


@pytest.mark.parametrize("folder", ["/", ""])
@pytest.mark.parametrize("listed", [False, True])
def test_a_display_name_that_holds_moodles_own_words_is_nobodys(mine, tmp_path, text, folder, listed):
    if listed:
        roster(mine, ("ada", "Ada", "Lovelace", "", ""))
    names = [
        f"Ada Lovelace{more}_assignsubmission_file_{folder}{NAME}.ipynb"
        for more in ("_1", "_1_assignsubmission_file_9")
    ]
    result = collect.collect(mine, download(tmp_path / "in.zip", {name: text + name.encode() for name in names}))
    (refused,) = result.refused
    assert "`_assignsubmission_` twice" in refused and "use --student" in refused
    ((student, path),) = submitted(mine).items()
    assert student == ("ada" if listed else "Ada_Lovelace") and path.read_bytes() == text + names[0].encode()


def test_two_of_a_download_that_are_one_student_are_noted(mine, tmp_path, text):
    roster(mine, ("ada", "Ada", "Lovelace", "", "17 18"))
    both = {moodle("Ada Lovelace", 17): text, moodle("Mallory", 18): b"other"}
    result = collect.collect(mine, download(tmp_path / "in.zip", both))
    (note,) = (line for line in result.notes if "both taken as theirs" in line)
    assert (
        note.startswith("ada: Mallory_18_")
        and "Ada Lovelace" in note
        and "autograder remove ada 01 --latest --yes" in note
    )
    again = {f"lovelaceada_17_{number}_{NAME}.ipynb": text + str(number).encode() for number in (3, 4)}
    assert not any("both taken" in line for line in collect.collect(mine, download(tmp_path / "in2.zip", again)).notes)


ROWS = """
[[platforms]]
name = "Ilias"
folders = ['^(?P<name>[^_]+_[^_]+)_(?P<id>\\d+)$']
numbers = "assignment"
times = "none"

[[platforms]]
name = "Clock"
files = ['^(?P<time>\\d{8}-\\d{4})__(?P<late>LATE__)?(?P<name>\\w+?)__(?P<id>[a-z]\\d+)__(?P<file>.+)$']
numbers = "student"
times = "name"
time_format = "%Y%m%d-%H%M"
"""


def with_rows(folder, rows):
    """The course whose course.toml has these rows too."""
    (folder / "course.toml").write_text((course.ROOT / "course.toml").read_text() + rows)
    return course.load(folder / "course.toml", tree=folder / "tree")


def test_a_row_in_course_toml_is_enough_for_another_platform(tmp_path, text):
    known = with_rows(tmp_path, ROWS)
    folders = {f"Ada_Love_{number}/{NAME}.ipynb": text + b" " * number for number in (11, 12)}
    result = collect.collect(known, download(tmp_path / "in.zip", folders))
    assert set(submitted(known)) == {"Ada_Love_11", "Ada_Love_12"} and not result.refused
    assert any(line.startswith("this download of Ilias does not say when") for line in result.notes)
    assert any("Ilias's number 11 is called Ada_Love like somebody else" in line for line in result.notes)
    files = {f"20270201-0900__Bo__b{number}__{NAME}.ipynb": text for number in (7, 8)}
    result = collect.collect(known, download(tmp_path / "in2.zip", files))
    assert {"Bo_b7", "Bo_b8"} < set(submitted(known)) and not result.refused
    here = known.utc(datetime.datetime(2027, 2, 1, 9, 0))
    assert stamps(known)["Bo_b7"] == f"{here:%Y-%m-%d %H:%M:%S.%f} UTC" and stamps(known)["Ada_Love_11"] is None
    assert course.Course.model_validate_json(known.model_dump_json()) == known  # as workers get it


@pytest.mark.parametrize(
    "row, told",
    [
        ("name = 'X'", "at least one pattern"),
        ("name = 'X'\nfiles = ['(?P<id>.)']", "needs a group (?P<name>...)"),
        ("name = 'X'\nfiles = ['(?P<name>.']", "regular expression"),
        ("name = 'X'\nfiles = ['(?P<name>.)']\ntimes = 'name'", "(?P<time>...)"),
        ("name = 'X'\nfile = ['(?P<name>.)']", "no such key"),
    ],
)
def test_a_row_that_cannot_work_is_told(tmp_path, row, told):
    with pytest.raises(course.CourseError, match=re.escape(told)):
        with_rows(tmp_path, f"\n[[platforms]]\n{row}\n")
