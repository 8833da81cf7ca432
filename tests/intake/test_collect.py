"""Submissions come in as platforms and students pack them; a bad one is named and stops no other."""

import datetime
import io
import json
import os
import pathlib
import time
import tracemalloc
import zipfile

import pytest

from autograder import course
from autograder.author import build
from autograder.gradebook import course_tree
from autograder.grading import removal
from autograder.grading.grading_record import jobs
from autograder.intake import collect, kept_submissions
from autograder.reports import report

NAME = "01_causal_mask_lm"


@pytest.fixture
def mine(tmp_path):
    return course.load(tree=tmp_path / "tree")


@pytest.fixture(scope="module")
def text():
    known = course.load()
    return build.write(build.student_notebook(known, known.notebook(NAME))).encode()


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


def test_of_two_of_one_second_the_one_collected_last_counts(mine, tmp_path, text):
    one, other, third = (json.dumps(json.loads(text) | {"metadata": {"n": n}}).encode() for n in range(3))

    def taken(content):
        file = tmp_path / f"in{len([*tmp_path.iterdir()])}" / "ada" / f"{NAME}.ipynb"
        file.parent.mkdir(parents=True)
        file.write_bytes(content)
        os.utime(file, (1_800_000_000, 1_800_000_000))
        (line,) = collect.collect(mine, file.parents[1]).taken
        return line, submitted(mine)["ada"].read_bytes()

    assert taken(one)[1] == one
    for content in (other, third):
        for kept in mine.tree.glob(f"handins/ada/{NAME}/*.ipynb"):  # the clock was put back since
            os.utime(kept, (2_000_000_000, 2_000_000_000))
        line, counts = taken(content)
        assert "it counts" in line and counts == content
    for content in (one, other):  # downloaded once more, they came no later than they did
        line, counts = taken(content)
        assert "does NOT count" in line and counts == third
    assert "the same as the one that counts" in taken(third)[0]


def test_two_students_of_one_folder_name_are_not_mixed(mine, tmp_path, text):
    result = collect.collect(
        mine, packed(tmp_path / "in.zip", {f"Ann Lee/{NAME}.ipynb": text, f"Ann_Lee/{NAME}.ipynb": text})
    )
    assert len(result.taken) == 1 and "another student" in result.refused[0]


def test_files_that_are_no_notebooks_are_named(mine, tmp_path, text):
    result = collect.collect(mine, packed(tmp_path / "in.zip", {"ada/notes.pdf": b"x", "ada/__MACOSX/._a": b"x"}))
    assert result.refused == ["ada/notes.pdf: not a notebook; ask for the .ipynb file"]


def test_an_unknown_notebook_is_asked_for(mine, tmp_path):
    other = json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    path = packed(tmp_path / "in.zip", {"ada/other.ipynb": other})
    assert "which notebook is it" in collect.collect(mine, path).refused[0]
    assert collect.collect(mine, path, mine.notebook(NAME)).taken


@pytest.mark.parametrize("inside", ["the course", "the course tree"])
def test_a_folder_that_holds_the_course_is_refused(mine, inside):
    """Else the solutions are somebody's submissions, and thousands of files are refused one by one."""
    kept = course.FOLDER if inside == "the course" else mine.tree
    kept.mkdir(exist_ok=True)
    for source in (kept, kept.parent):
        with pytest.raises(course.CourseError, match="give the zip or the folder of submissions alone"):
            collect.collect(mine, source)


def test_a_source_that_is_not_there(mine, tmp_path):
    with pytest.raises(course.CourseError, match="does not exist"):
        collect.collect(mine, tmp_path / "no")


def test_writing_is_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "file"
    course_tree.write(path, "old")
    monkeypatch.setattr(os, "replace", lambda *a: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        course_tree.write(path, "new")
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["file"]


def zipped(members, **how):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", **how) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return made.getvalue()


def encrypted(text):
    """A zip that says of its members that they are encrypted."""
    data = bytearray(zipped({f"ada/{NAME}.ipynb": text}))
    data[6] |= 1
    data[data.index(b"PK\1\2") + 8] |= 1
    return bytes(data)


def test_what_breaks_off_is_collected_with_a_note(mine, tmp_path, text):
    """A notebook cut off in its middle, and one that is whole."""
    for whose, content in (("ada", text[: len(text) // 2]), ("bo", text + b"\n")):
        (tmp_path / "in" / whose).mkdir(parents=True)
        (tmp_path / "in" / whose / f"{NAME}.ipynb").write_bytes(content)
    found = collect.collect(mine, tmp_path / "in")
    assert len(found.taken) == 2
    (note,) = [note for note in found.notes if "breaks off before its end" in note]
    assert note.startswith("ada") and "the whole .ipynb file is needed" in note


def test_a_download_that_is_not_a_zip_is_named(mine, tmp_path):
    (tmp_path / "lab.zip").write_bytes(b"PK\x03\x04 and no more")
    found = collect.collect(mine, tmp_path / "lab.zip")
    assert "lab.zip: cannot be read as a zip: it is damaged or not a zip; download it again" in "".join(found.refused)


@pytest.mark.parametrize(
    "content, told",
    [
        (lambda text: zipped({}), "the zip: the zip is empty: it holds no file"),
        (lambda text: zipped({"ada/": ""}), "the zip: the zip is empty: it holds no file"),
        (lambda text: zipped({"ada/in.zip": zipped({})}), "ada/in.zip: the zip is empty: it holds no file"),
        (lambda text: zipped({f"ada/{NAME}.ipynb/": ""}), f"ada/{NAME}.ipynb: a folder, not a notebook"),
        (lambda text: zipped({f"ada/{NAME}.ipynb/x": ""}), f"ada/{NAME}.ipynb: a folder, not a notebook"),
        (encrypted, f"ada/{NAME}.ipynb: it is encrypted; hand in a zip without a password"),
        (lambda text: zipped({f"ada/{NAME}.ipynb": text}, compression=zipfile.ZIP_LZMA), "packed in an unusual way"),
        (lambda text: zipped({f"ada/{NAME}.ipynb": text}).replace(b"cells", b"sells", 1), "it is damaged"),
        (lambda text: zipped({"ada/in.zip": zipped({f"{n}": "" for n in range(1100)})}), "a zip of 1100 files"),
    ],
    ids=["empty", "folders", "own", "folder", "file in it", "encrypted", "lzma", "damaged", "many"],
)
def test_what_cannot_be_taken_is_told_in_a_sentence(mine, tmp_path, text, content, told):
    path = tmp_path / "in.zip"
    path.write_bytes(content(text))
    result = collect.collect(mine, path)
    assert not result.taken and any(told in line for line in result.refused), result.refused


def test_what_a_mac_keeps_beside_a_file_is_no_hand_in(mine, tmp_path, text):
    junk = {f"omar/._{NAME}.ipynb": b"\0\5\x16\7", f"omar/{NAME}.ipynb": text, f"__MACOSX/omar/._{NAME}.ipynb": b"x"}
    result = collect.collect(mine, packed(tmp_path / "in.zip", junk))
    (tmp_path / "in" / "nina").mkdir(parents=True)
    (tmp_path / "in" / "nina" / f"{NAME}.ipynb").write_bytes(text)
    (tmp_path / "in" / "nina" / f"._{NAME}.ipynb").write_bytes(b"\0\5\x16\7")
    other = collect.collect(mine, tmp_path / "in")
    assert [result.refused, other.refused] == [[], []]
    assert {name: path.read_bytes() for name, path in submitted(mine).items()} == {"omar": text, "nina": text}


def opened_in(handle):
    """The name of the folder that an open file lies in."""
    return pathlib.Path(os.readlink(f"/proc/self/fd/{handle}")).parent.name


def test_a_file_of_a_year_that_no_calendar_has_stops_nobody(mine, tmp_path, text, monkeypatch):
    (tmp_path / "in").mkdir()
    for name in ("ada", "bo"):
        (tmp_path / "in" / name).mkdir()
        (tmp_path / "in" / name / f"{NAME}.ipynb").write_bytes(text)
    fstat = os.fstat

    def changed(handle):
        found = fstat(handle)
        return os.stat_result([*found[:8], 400_000_000_000, found[9]]) if opened_in(handle) == "bo" else found

    monkeypatch.setattr(os, "fstat", changed)  # not every file system keeps such a time
    result = collect.collect(mine, tmp_path / "in")
    assert {*submitted(mine)} == {"ada", "bo"} and len(result.taken) == 2
    assert any("no valid time" in line for line in result.refused)


@pytest.mark.parametrize("junk", [b"", b"%PDF-1.7"])
def test_a_later_file_that_is_no_notebook_is_told_and_can_be_taken_back(mine, tmp_path, text, junk):
    path = tmp_path / "in" / "ada" / f"{NAME}.ipynb"
    path.parent.mkdir(parents=True)
    for day, content in ((1, text), (2, junk)):
        path.write_bytes(content)
        os.utime(path, (1_800_000_000 + 86_400 * day,) * 2)
        result = collect.collect(mine, tmp_path / "in")
    (note,) = result.notes
    assert "not a notebook" in note and "`autograder remove ada 01 --latest --yes`" in note
    assert submitted(mine)["ada"].read_bytes() == junk
    place = removal.remove_latest(mine, mine.notebook(NAME), "ada")
    assert submitted(mine)["ada"].read_bytes() == text and [one.read_bytes() for one in place.iterdir()] == [junk]
    assert submitted(mine)["ada"].with_name("timestamp.txt").read_text().startswith("2027-01-16")
    with pytest.raises(course.CourseError, match="once only"):
        removal.remove_latest(mine, mine.notebook(NAME), "ada")


def test_a_folder_called_like_a_notebook_is_named(mine, tmp_path, text):
    (tmp_path / "in" / "ada" / f"{NAME}.ipynb").mkdir(parents=True)
    (tmp_path / "in" / "bo" / f"{NAME}.ipynb").mkdir(parents=True)
    (tmp_path / "in" / "bo" / f"{NAME}.ipynb" / f"{NAME}.ipynb").write_bytes(text)
    result = collect.collect(mine, tmp_path / "in")
    assert result.refused == [f"ada/{NAME}.ipynb: a folder, not a notebook; hand in the file itself"]
    assert list(submitted(mine)) == ["bo"]
    (tmp_path / "x.ipynb").mkdir()
    assert collect.collect(mine, tmp_path / "x.ipynb").refused == ["x.ipynb: the folder is empty"]


RUNS = "05_seed_variance"


def of(name, text):
    """A submission of the first notebook as one of another: with ids of its exercises."""
    return text.replace(b"exercise_1_", f"exercise_{int(name[:2])}_".encode())


def test_runs_are_kept_only_where_an_experiment_is_graded(mine, tmp_path, text):
    run = b'{"seed": 1}'
    for name in (NAME, RUNS):
        members = {f"ada/{name}.ipynb": of(name, text), "ada/results/x/seed_1.json": run}
        result = collect.collect(mine, packed(tmp_path / "in.zip", members))
        assert len(result.taken) == 1 and not result.refused
    assert [path.parent.name for path in mine.tree.glob("submitted/*/*/results.json")] == [RUNS]


HONEST_RUN = next((course.ROOT / "data" / "results" / "rte").glob("*/seed_1.json")).read_text()


def with_field(name, value):
    """A run with a field of another value, as text."""
    content = json.loads(HONEST_RUN) | {name: "VALUE"}
    return json.dumps(content).replace('"VALUE"', value).encode()


BROKEN_RUNS = {
    "too deep": with_field("versions", '{"x": ' + "[" * 980 + "]" * 980 + "}"),
    "a number too large": with_field("seconds", "1" + "0" * 400),
    "negative and too large": with_field("curve", '[{"train_loss": -1' + "0" * 400 + ', "loss": 1, "accuracy": 1}]'),
}


def test_five_hundred_runs_in_a_small_zip_take_little(mine, tmp_path, text):
    path = tmp_path / "in.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"ada/{RUNS}.ipynb", of(RUNS, text))
        for number in range(500):
            archive.writestr(f"ada/results/x/seed_{number}.json", b" " * 2**20)
    tracemalloc.start()
    result = collect.collect(mine, path)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(result.taken) == 1 and any("more than 8 MB of runs" in line for line in result.refused)
    assert most < 60 * 2**20


def test_runs_that_break_a_parser_stop_nobody(workshop, tmp_path, text):
    members = {f"{student}/{RUNS}.ipynb": of(RUNS, text) for student in ("ada", "bo")}
    for number, content in enumerate(BROKEN_RUNS.values(), 1):
        members[f"ada/results/x/seed_{number}.json"] = content
    result = collect.collect(workshop, packed(tmp_path / "in.zip", members))
    assert len(result.taken) == 2 and not result.refused, "the judge refuses them by name"
    assert [job.student for job in jobs(workshop, workshop.notebook(RUNS))] == ["ada", "bo"]
    report.write_report(workshop, [workshop.notebook(RUNS)])


@pytest.mark.parametrize(
    "name", ["\\(" * 30_000, "a/" * 30_000 + "x.ipynb", "a/" * 41 + "x.ipynb"], ids=["signs", "folders", "one too many"]
)
def test_a_name_of_very_many_folders_costs_nothing_and_is_refused(fresh, tmp_path, name):
    """One such name took 15 seconds, and a zip may have a thousand."""
    path = tmp_path / "deep.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(zipfile.ZipInfo(name), "{}")
        archive.writestr("ada/01_causal_mask_lm.ipynb", "{}")
    started = time.process_time()
    result = collect.collect(fresh, path)
    assert time.process_time() - started < 3
    assert len(result.taken) == 1 and len(result.refused) == 1 and "40 folders" in result.refused[0], result


def test_a_folder_below_very_many_is_refused(fresh, tmp_path):
    deep = tmp_path.joinpath("in", "ada", *["a"] * 60)
    deep.mkdir(parents=True)
    (deep / "01_causal_mask_lm.ipynb").write_text("{}")
    (tmp_path / "in" / "bo").mkdir()
    (tmp_path / "in" / "bo" / "01_causal_mask_lm.ipynb").write_text("{}")
    result = collect.collect(fresh, tmp_path / "in")
    assert len(result.taken) == 1 and result.taken[0].startswith("bo:")
    assert len(result.refused) == 1 and "below more than 40 folders" in result.refused[0]


def test_it_is_told_which_version_counts(mine, tmp_path, text):
    """A folder's times are absolute; a student who submitted before that is reported that it does not count."""
    folder = tmp_path / "in" / "ada"
    folder.mkdir(parents=True)
    path = folder / f"{NAME}.ipynb"

    def hand_in(content, when):
        path.write_bytes(content)
        os.utime(path, (when, when))
        (line,) = collect.collect(mine, folder.parent).taken
        return line

    day = 86_400
    due = mine.notebooks[0].deadline.timestamp()
    assert hand_in(text, due - 3 * day).endswith(f"{NAME}.ipynb")
    assert hand_in(text + b" ", due - 5 * day).endswith("UTC came later)") and "does NOT count" in hand_in(
        text + b"  ", due - 6 * day
    )
    assert course_tree.place(mine, "submitted", mine.notebooks[0], "ada").read_bytes() == text
    assert "the same as the one that counts" in hand_in(text, due + day)
    stamp = course_tree.place(mine, "submitted", mine.notebooks[0], "ada").with_name("timestamp.txt").read_text()
    assert stamp == course_tree.timestamp(datetime.datetime.fromtimestamp(due - 3 * day, datetime.UTC)) + "\n"
    assert "(it counts; 3 earlier ones kept)" in hand_in(text + b"\n", due - day)


def test_a_late_one_after_one_in_time_is_noted(mine, tmp_path, text):
    entry, notes = mine.notebooks[0], []
    for days, content in ((-1, text), (2, text + b" "), (3, text + b"  ")):
        path = tmp_path / "in" / "ada" / f"{NAME}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        when = (entry.deadline + datetime.timedelta(days=days)).timestamp()
        os.utime(path, (when, when))
        notes.append(collect.collect(mine, tmp_path / "in").notes)
    command = "`autograder remove ada 01 --latest --yes`"
    assert notes[0] == [] and f"{command} goes back to it" in notes[1][0]
    assert f"{command}, given 2 times, goes back to it" in notes[2][0]
    (mine.tree / "extensions.csv").write_text(f"student,notebook,extension\nada,{NAME},3 days\n")
    assert kept_submissions.late_after_one_in_time(mine, entry, "ada") == []


def test_a_copy_that_came_later_makes_nothing_late(mine, tmp_path, text):
    """It counts from when its content first came, and a note said that an earlier one was in time."""
    path = tmp_path / "in" / "ada" / f"{NAME}.ipynb"
    path.parent.mkdir(parents=True)
    path.write_bytes(text)
    for days in (2, -1):
        when = (mine.notebooks[0].deadline + datetime.timedelta(days=days)).timestamp()
        os.utime(path, (when, when))
        assert [note for note in collect.collect(mine, tmp_path / "in").notes if "is late" in note] == [], days


@pytest.mark.parametrize("only", [False, True])
def test_a_file_of_another_notebook_is_refused(mine, tmp_path, text, only):
    """By its name, or by --notebook, it is 05; its exercises are those of 01."""
    path = tmp_path / ("Untitled.ipynb" if only else f"{RUNS}.ipynb")
    path.write_bytes(text)
    result = collect.collect(mine, path, mine.notebook(RUNS) if only else None, "ada")
    assert result.taken == [] and f"it would be {RUNS}, but its exercises are those of {NAME}" in result.refused[0]
    path.write_bytes(
        text.replace(b'"id": "exercise_1_', b'"id": "colab').replace(b'"grade_id": "exercise_1_', b'"x": "')
    )
    assert len(collect.collect(mine, path, mine.notebook(RUNS) if only else None, "ada").taken) == 1  # no ids: by name


@pytest.mark.parametrize(
    "names, students",
    [
        ((f"submissions/ada/{NAME}.ipynb", f"submissions/bo/{NAME}.ipynb", f"submissions/x{NAME}.ipynb"), "ada bo x"),
        ((f"handins/ada_{NAME}.ipynb", f"handins/bo_{NAME}.ipynb"), "ada bo"),
        ((f"ada/one_{NAME}.ipynb", f"ada/two_{NAME}.ipynb"), "ada"),
        ((f"eve_2_assignsubmission_file_/ada_{NAME}.ipynb", f"eve_2_assignsubmission_file_/bo_{NAME}.ipynb"), "eve"),
        ((f"eve_2_assignsubmission_file_/ada/{NAME}.ipynb", f"eve_2_assignsubmission_file_/bo/{NAME}.ipynb"), "eve"),
        ((f"ada/{NAME}.ipynb", f"ada/{NAME} (1).ipynb"), "ada"),
        ((f"ada/{NAME}.ipynb", f"bo/drafts/{NAME}.ipynb"), "ada bo"),
    ],
)
def test_a_folder_of_several_students_is_nobodys(mine, tmp_path, text, names, students):
    result = collect.collect(mine, packed(tmp_path / "in.zip", dict.fromkeys(names, text)))
    assert sorted(submitted(mine)) == students.split() and not result.refused
    noted = [one for one in result.notes if "both taken as theirs" in one]
    assert len(noted) == (len(names) - len(students.split())) * (students == "ada")


def test_files_of_two_folders_that_are_taken_as_one_students_are_noted(mine, tmp_path, text):
    names = (f"ada/{NAME}.ipynb", f"ada/old/{NAME}.ipynb", f"bo/{NAME}.ipynb")
    notes = collect.collect(mine, packed(tmp_path / "in.zip", dict.fromkeys(names, text))).notes
    (note,) = [one for one in notes if "both taken as theirs" in one]
    assert "ada/old" in note and f"ada/{NAME}.ipynb" in note


def test_a_name_that_states_a_year_of_three_digits_stops_nobody(mine, tmp_path, text):
    name = f"Lab_{{}}_attempt_{{}}-01-01-00-00-00_{NAME}.ipynb"
    first = {name.format("eve", "0999"): text, name.format("bo", "2027"): text}
    result = collect.collect(mine, packed(tmp_path / "one.zip", first))
    assert [*submitted(mine)] == ["bo"] and "no valid time" in result.refused[0]
    collect.collect(mine, packed(tmp_path / "two.zip", {name.format("eve", "2027"): text}))
    assert sorted(submitted(mine)) == ["bo", "eve"]


def test_a_name_that_is_no_text_stops_nobody(mine, tmp_path, text):
    inbox = tmp_path / "in"
    for folder in ("bo", "cy"):
        (inbox / folder).mkdir(parents=True)
        (inbox / folder / f"{NAME}.ipynb").write_bytes(text)
    strange = os.fsencode(inbox / "cy") + b"/M\xfcller.ipynb"
    for place in (strange, os.fsencode(inbox) + b"/anon_\x80_12_" + f"{NAME}.ipynb".encode()):
        with open(place, "wb") as file:
            file.write(text)
    os.mkdir(os.fsencode(inbox) + b"/dir\xff")
    result = collect.collect(mine, inbox)
    assert sorted(submitted(mine)) == ["bo", "cy"]
    assert len(result.refused) == 3 and all("not UTF-8" in line for line in result.refused)


def test_what_cannot_be_read_is_named_and_stops_nobody(mine, tmp_path, text, monkeypatch):
    inbox = tmp_path / "in"
    for student in ("ada", "bo"):
        (inbox / student).mkdir(parents=True)
        (inbox / student / f"{NAME}.ipynb").write_bytes(text)
    real = os.open

    def opened(path, *args, **options):
        if path == f"{NAME}.ipynb" and os.readlink(f"/proc/self/fd/{options['dir_fd']}") == str(inbox / "ada"):
            raise PermissionError(13, "Permission denied")
        return real(path, *args, **options)

    monkeypatch.setattr(os, "open", opened)
    result = collect.collect(mine, inbox)
    assert [*submitted(mine)] == ["bo"]
    assert result.refused == [f"ada/{NAME}.ipynb: cannot be read (Permission denied)"]


def test_no_name_makes_lines_of_its_own(mine, tmp_path, text):
    names = (f"ada/q\nbo: {NAME} (kept, and does NOT count)\nx{NAME}.ipynb", "bo/a\nb.pdf")
    result = collect.collect(mine, packed(tmp_path / "in.zip", dict.fromkeys(names, text)))
    assert len(result.taken) == 1 and len(result.refused) == 1
    assert not any("\n" in line for line in (*result.taken, *result.refused, *result.notes))


def test_a_students_zip_without_a_notebook_is_named(mine, tmp_path, text):
    inner = zipped({"__MACOSX/._x": "", "results/a/seed_1.json": "{}"})
    result = collect.collect(mine, packed(tmp_path / "in.zip", {"ada/work.zip": inner, f"bo/{NAME}.ipynb": text}))
    assert [*submitted(mine)] == ["bo"] and result.refused == ["ada/work.zip: it holds no notebook"]


def test_the_number_of_a_file_is_no_mark_of_an_unknown_time(mine):
    texts = ["20270501T000000Z-deadbeef-77.ipynb", "20270501T000000Z-01234567.ipynb"]
    names = [kept_submissions.KeptName.of(pathlib.Path(text)) for text in texts]
    assert [name.handed_in for name in names] == [datetime.datetime(2027, 5, 1, tzinfo=datetime.UTC)] * 2
    for mark in ("unknown", "late"):
        text = f"20270501T000000Z-deadbeef-{mark}-blank-77.ipynb"
        name = kept_submissions.KeptName.of(pathlib.Path(text))
        assert name.handed_in is None and name.blank and str(name) == text
    other = kept_submissions.KeptName.of(pathlib.Path("somebody_s-own-7.ipynb"))
    assert other.handed_in is None and other.rank < min(name.rank for name in names)
    assert [name.order[1] for name in names] == [77, 0] and [str(name) for name in names] == texts


def test_a_time_that_is_known_later_counts(mine, tmp_path, text):
    """Of Moodle's download: first without times, all files are as old as the download; then with them."""

    def moodle(name, times):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for student, when in times.items():
                info = zipfile.ZipInfo(f"{student}_1{len(student)}_assignsubmission_file_/{NAME}.ipynb", when)
                archive.writestr(info, text)
        return tmp_path / name

    downloaded = (2027, 5, 1, 0, 0, 0)
    collect.collect(mine, moodle("one.zip", {"Ada": downloaded, "Bo": downloaded}))
    stamp = submitted(mine)["Ada"].with_name("timestamp.txt")
    assert not stamp.exists()
    collect.collect(mine, moodle("two.zip", {"Ada": (2027, 1, 5, 0, 0, 0), "Bo": (2027, 2, 5, 0, 0, 0)}))
    assert stamp.read_text().startswith("2027-01-0")


def test_a_download_says_the_same_in_a_folder(mine, tmp_path, text):
    (tmp_path / "downloads").mkdir()
    path = tmp_path / "downloads" / "moodle.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for day, student in ((5, "Ada"), (6, "Bo")):
            name = f"{student}_1{day}_assignsubmission_file_/{NAME}.ipynb"
            archive.writestr(zipfile.ZipInfo(name, (2027, 3, day, 0, 0, 0)), text)
    for source in (tmp_path / "downloads", path, tmp_path / "downloads"):
        result = collect.collect(mine, source)
        assert not any("does not say when" in note for note in result.notes)
        stamps = [submitted(mine)[student].with_name("timestamp.txt").read_text()[:7] for student in ("Ada", "Bo")]
        assert stamps == ["2027-03", "2027-03"]
    assert len([*mine.tree.glob("handins/*/*/*.ipynb")]) == 2


def test_nobody_is_taken_into_a_folder_that_somebody_prepared(mine, tmp_path, text):
    """Who is called `Ada Lovelace_123` is not the Ada Lovelace whose number is 123."""
    moodle = "{}_assignsubmission_file_/" + f"{NAME}.ipynb"
    collect.collect(mine, packed(tmp_path / "one.zip", {moodle.format("Ada Lovelace_123_456"): text}))
    again = {moodle.format(f"Ada Lovelace_{number}"): text + b" " * number for number in (123, 789)}
    result = collect.collect(mine, packed(tmp_path / "two.zip", again))
    assert submitted(mine)["Ada_Lovelace_123"].read_bytes() == text, result
    assert any("called Ada_Lovelace_123 already" in line for line in result.refused)


@pytest.mark.parametrize(
    "heads, students",
    [
        (("Sheet 1_o_neil", "Sheet 1_mc_neil"), ["mc_neil", "o_neil"]),
        (("HW_1_smith", "HW_1_j_smith", "HW_1_ada"), ["ada", "j_smith", "smith"]),
        (("HW_1_ada", "HW_1_ada"), ["ada"]),
    ],
)
def test_users_of_blackboard_may_have_underscores(mine, tmp_path, text, heads, students):
    """Of a download that names several the title is what all begin with."""
    names = [f"{head}_attempt_2027-01-0{day}-10-00-00_{NAME}.ipynb" for day, head in enumerate(heads, 1)]
    result = collect.collect(mine, packed(tmp_path / "in.zip", dict.fromkeys(names, text)))
    assert sorted(submitted(mine)) == students
    assert not [note for note in result.notes if "both taken as theirs" in note]


@pytest.mark.parametrize("name", [f"x_eve_attempt_2027-01-01-10-00-00_{NAME}.ipynb", f"eve_1_2_{NAME}.ipynb"])
def test_in_a_plain_folder_no_name_decides_when_it_came(mine, tmp_path, text, name):
    (tmp_path / "in").mkdir()
    for one in (name, f"bo_{NAME}.ipynb"):
        (tmp_path / "in" / one).write_bytes(text)
    result = collect.collect(mine, tmp_path / "in")
    assert [*submitted(mine)] == ["bo"] and "others beside it have no such names" in result.refused[0]
    for user in ("ada", "cy"):  # a download, into which somebody put a file
        (tmp_path / "in" / name.replace("eve", user)).write_bytes(text)
    result = collect.collect(mine, tmp_path / "in")
    assert not result.refused and len(submitted(mine)) == 4


def test_two_downloads_without_times_say_nothing_together(mine, tmp_path, text):
    (tmp_path / "in").mkdir()
    for day, users in ((5, ("Ada", "Bo")), (9, ("Cy", "Di"))):
        with zipfile.ZipFile(tmp_path / "in" / f"{day}.zip", "w") as archive:
            for user in users:
                name = f"{user}_1{len(user)}_assignsubmission_file_/{NAME}.ipynb"
                archive.writestr(zipfile.ZipInfo(name, (2027, 2, day, 0, 0, 0)), text)
    result = collect.collect(mine, tmp_path / "in")
    assert len(submitted(mine)) == 4 and any("does not say when" in note for note in result.notes)
    assert not [*mine.tree.glob("submitted/*/*/timestamp.txt")]


def test_whom_canvas_marks_late_no_more_is_not(mine, tmp_path, text):
    late = packed(tmp_path / "one.zip", {f"ada_LATE_1_77_{NAME}.ipynb": text})
    collect.collect(mine, late)
    stamp = submitted(mine)["ada_1"].with_name("timestamp.txt")
    assert not stamp.exists() and kept_submissions.marked_late(mine, mine.notebook(NAME), "ada_1")
    collect.collect(mine, packed(tmp_path / "two.zip", {f"ada_1_77_{NAME}.ipynb": text}))
    assert not stamp.exists() and not kept_submissions.marked_late(mine, mine.notebook(NAME), "ada_1")


def moodle_zip(path, entries, text, file="hw.ipynb", when=(2027, 2, 1, 0, 0, 0)):
    with zipfile.ZipFile(path, "w") as archive:
        for place, (user, number) in enumerate(entries):
            name = f"{user}_{number}_assignsubmission_file_/{file}"
            archive.writestr(zipfile.ZipInfo(name, (*when[:2], 1 + place, *when[3:])), text)


def test_two_assignments_in_a_folder_are_no_namesakes(tmp_path, text):
    known = course.load(tree=tmp_path / "tree")
    second = build.write(build.student_notebook(known, known.notebook("02"))).encode()
    (tmp_path / "in").mkdir()
    moodle_zip(tmp_path / "in" / "one.zip", [("Alice A", 11), ("Bob B", 12)], text)
    moodle_zip(tmp_path / "in" / "two.zip", [("Alice A", 21), ("Bob B", 22)], second)
    collect.collect(known, tmp_path / "in")
    assert sorted(path.name for path in known.tree.glob("submitted/*")) == ["Alice_A", "Bob_B"]


def test_a_download_in_a_platforms_folder_says_when(mine, tmp_path, text):
    (tmp_path / "in" / "submissions").mkdir(parents=True)
    moodle_zip(tmp_path / "in" / "submissions" / "moodle.zip", [("Ada", 11), ("Bo", 12)], text)
    result = collect.collect(mine, tmp_path / "in")
    assert sorted(path.parents[1].name for path in mine.tree.glob("submitted/*/*/timestamp.txt")) == ["Ada", "Bo"], (
        result
    )


def test_of_two_files_of_one_time_somebody_is_told(mine, tmp_path, text):
    folder = "Ada_11_assignsubmission_file_"
    names = {f"{folder}/final.ipynb": text, f"{folder}/scratch.ipynb": text + b" ", f"Bo_12_{folder[7:]}/a.ipynb": text}
    notes = collect.collect(mine, packed(tmp_path / "in.zip", names)).notes
    assert len([note for note in notes if "both taken as theirs" in note]) == 1


def test_a_folder_that_nobody_may_look_into_stops_nobody(mine, tmp_path, text, monkeypatch):
    """Its names can be listed, and of no file more than its name is known."""
    inbox = tmp_path / "in"
    for student in ("ada", "bo"):
        (inbox / student).mkdir(parents=True)
        (inbox / student / f"{NAME}.ipynb").write_bytes(text)

    def locked(real):
        def call(path, *args, dir_fd=None, **options):
            inside = dir_fd is not None and os.readlink(f"/proc/self/fd/{dir_fd}") == str(inbox / "ada")
            if inside or "ada" in pathlib.Path(os.fsdecode(path)).parts[-2:-1]:
                raise PermissionError(13, "Permission denied")
            return real(path, *args, dir_fd=dir_fd, **options)

        return call

    for name in ("lstat", "stat", "open"):
        monkeypatch.setattr(os, name, locked(getattr(os, name)))
    result = collect.collect(mine, inbox)
    assert [*submitted(mine)] == ["bo"] and result.refused == [f"ada/{NAME}.ipynb: cannot be read (Permission denied)"]
