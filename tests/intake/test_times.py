"""Lateness of which a platform says no time: nothing is made up, a table of times settles it, and a person decides."""

import datetime
import os
import zipfile

import pytest
from helpers import canned, keep
from typer.testing import CliRunner

from autograder import cli, course
from autograder.gradebook import course_tree, extensions
from autograder.grading import lateness
from autograder.grading.grading_record import jobs, load_record, noted_flags
from autograder.intake import collect, kept_submissions

NAME, SECOND = "01_causal_mask_lm", "02_positional_encoding"
FILES = {f"bergbo_LATE_102_9001_{NAME}.ipynb": "{}", f"lovelaceada_103_9002_{NAME}.ipynb": "{}"}
MARKED = "marked late, time unknown"


@pytest.fixture
def mine(tmp_path):
    known = course.load(tree=tmp_path / "tree")
    return known.model_copy(update={"timezone": "Europe/Berlin"})


def canvas(folder, files=FILES):
    with zipfile.ZipFile(folder / "canvas.zip", "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, (2027, 3, 1, 9, 0, 0)), content)
    return folder / "canvas.zip"


def table(folder, *lines):
    (folder / "times.csv").write_text("".join(f"{line}\n" for line in lines))
    return folder / "times.csv"


def stamp(known, student, name=NAME):
    path = known.tree / "submitted" / student / name / "timestamp.txt"
    return path.read_text()[:16] if path.exists() else ""


BO, ADA = "bergbo_102", "lovelaceada_103"
REPORT = (
    "name,id,sis_id,section,section_id,section_sis_id,submitted,attempt,101: Upload,4.0,n correct,n incorrect,score"
)


@pytest.mark.parametrize(
    "lines, bo, ada",
    [
        (("student,time", "bergbo,2027-02-10 09:30"), "2027-02-10 08:30", ""),
        (("student;time", "102;2027-02-10T09:30:00-05:00", "103;in time"), "2027-02-10 14:30", ""),
        (("student,time,notebook", "Bo Berg,2027-02-10 09:30,01"), "2027-02-10 08:30", ""),
        (("student,time,notebook", "102,2027-02-20 09:30,02", "102,2027-02-10 09:30,01"), "2027-02-10 08:30", ""),
        (
            (REPORT, "Bo Berg,102,b2,S,5,,2027-02-10 08:30:00 UTC,1,,0,,,", "Ada Lovelace,103,a3,S,5,,,,,0,,,"),
            "2027-02-10 08:30",
            "",
        ),
        (
            (
                REPORT,
                "Bo Berg,102,,,,,2027-02-08 08:30:00 UTC,1,,,,,",
                "Bo Berg,102,,,,,2027-02-10 08:30:00 UTC,2,,,,,",
            ),
            "2027-02-10 08:30",
            "",
        ),
        (
            ("user_id,submitted_at", "102,2027-02-10T08:30:00Z", "103,2027-02-01T10:00:00Z"),
            "2027-02-10 08:30",
            "2027-02-01 10:00",
        ),
    ],
)
def test_a_table_says_when_hand_ins_came(mine, tmp_path, lines, bo, ada):
    result = collect.collect(mine, canvas(tmp_path), times=table(tmp_path, *lines))
    assert not result.refused and (stamp(mine, BO), stamp(mine, ADA)) == (bo, ada)
    assert not kept_submissions.marked_late(mine, mine.notebook(NAME), BO)


@pytest.mark.parametrize(
    "lines, told",
    [
        (("student,when", "ada,x"), "has no column time or submitted"),
        (("time", "2027-02-10 09:30"), "line 2: it names nobody"),
        (("student,time", "ada,soon"), "line 2: `soon` is not a time"),
        (("student,time,notebook", "ada,2027-02-10 09:30,99"), "line 2: there is no notebook `99`"),
    ],
)
def test_a_table_that_is_none_is_told(mine, tmp_path, lines, told):
    with pytest.raises(course.CourseError, match=told):
        collect.collect(mine, canvas(tmp_path), times=table(tmp_path, *lines))
    with pytest.raises(course.CourseError, match="does not exist"):
        collect.collect(mine, tmp_path / "canvas.zip", times=tmp_path / "no.csv")


def test_who_has_no_time_and_which_lines_fit_nobody_is_told(mine, tmp_path):
    lines = ("student,time", "zed,2027-02-10 09:30", "Bo Berg,2027-02-10 09:30", "bergbo,2027-02-11 09:30")
    notes = collect.collect(mine, canvas(tmp_path), times=table(tmp_path, *lines)).notes
    assert "times.csv has no time, or no certain one, for bergbo_102, lovelaceada_103" in notes
    assert "3 lines of times.csv fit no submission of this download: zed, Bo Berg, bergbo" in notes
    assert kept_submissions.marked_late(mine, mine.notebook(NAME), BO), "two lines of Bo do not agree"


def test_times_that_name_no_notebook_are_those_of_one(mine, tmp_path):
    files = FILES | {f"bergbo_102_9005_{SECOND}.ipynb": "{}"}
    collect.collect(mine, canvas(tmp_path, files), times=table(tmp_path, "student,time", "102,2027-02-10 09:30"))
    assert sorted([stamp(mine, BO), stamp(mine, BO, SECOND)]) == ["", "2027-02-10 08:30"]
    collect.collect(
        mine,
        tmp_path / "canvas.zip",
        chosen=[mine.notebook("02")],
        times=table(tmp_path, "student,time", "102,2027-02-21 09:30"),
    )
    assert stamp(mine, BO, SECOND) == "2027-02-21 08:30"


@pytest.mark.parametrize(
    "extension, told",
    [
        ("", (MARKED, "--times")),
        ("3 days", (MARKED, "an extension until 2027-02-10 23:59 +0100, and nobody knows whether")),
        ("2027-03-01T12:00:00+01:00", (MARKED, "an extension until 2027-03-01 12:00 +0100")),
        ("excused", ()),
    ],
)
def test_an_extension_does_not_settle_a_lateness_of_unknown_time(mine, tmp_path, extension, told):
    entry = mine.notebook(NAME)
    result = collect.collect(mine, canvas(tmp_path))
    assert any(
        "lists those whom Canvas marks LATE" in note and "late policy of its own" in note for note in result.notes
    )
    if extension:
        extensions.grant(mine, BO, entry, extension)
    why = kept_submissions.marked_late(mine, entry, BO)
    assert all(part in why for part in told) and bool(why) == bool(told)
    assert not kept_submissions.marked_late(mine, entry, ADA)


def test_penalties_follow_the_time_and_not_the_mark(fresh, tmp_path, monkeypatch):
    """Nothing is taken off before the time is known, and the right sum after: also of what is graded already."""
    late = fresh.late.model_copy(update={"percent": 10.0, "no_credit_after_days": 7.0})
    known = fresh.model_copy(update={"late": late, "timezone": "UTC"})
    (entry,) = known.notebooks
    collect.collect(known, canvas(tmp_path, {f"bergbo_LATE_102_9001_{NAME}.ipynb": "{}"}))
    keep(known, *canned(known, BO))
    course_tree.place(known, "submitted", entry, BO).with_name("timestamp.txt").unlink()  # that `canned` wrote
    course_tree.place(known, "submitted", entry, BO).write_text("{}")
    lateness.settle(known, [entry])
    full = load_record(known, entry, BO)
    assert (full.late_seconds, full.penalty) == (0.0, 0.0)
    (job,) = jobs(known, entry)
    assert [flag for flag in noted_flags(job) if MARKED in flag]
    monkeypatch.setattr(cli.context, "load", lambda: known)
    shown = CliRunner().invoke(cli.app, ["export", "--to", str(tmp_path / "out.csv")]).output
    assert "1 submission is marked late, time unknown" in " ".join(shown.split())
    score = sum(one.score for one in full.verdicts)
    for day, lost in ((10, 0.3 * score), (20, score)):  # three days have begun; all is lost after seven
        rows = ("student,time", f"102,2027-02-{day} 21:00")
        collect.collect(known, tmp_path / "canvas.zip", times=table(tmp_path, *rows))
        lateness.settle(known, [entry])
        record = load_record(known, entry, BO)
        assert record.late_seconds == (day - 7) * 86_400 - 2 * 3600 + 60 and record.penalty == pytest.approx(lost)
        assert not any(MARKED in flag for job in jobs(known, entry) for flag in noted_flags(job))
    shown = CliRunner().invoke(cli.app, ["export", "--format", "canvas", "--to", str(tmp_path / "c.csv")]).output
    assert "the platform's own late policy does not take them off once more" in " ".join(shown.split())


def test_a_file_alone_that_is_late_by_its_own_time_is_noted(mine, tmp_path):
    """The time that a platform states is lost where one of its files is collected alone, with --student."""
    path = tmp_path / "alone" / f"{NAME}.ipynb"
    path.parent.mkdir()
    path.write_text("{}")
    for days, noted in ((-2, False), (5, True)):
        when = (mine.notebooks[0].deadline + datetime.timedelta(days=days)).timestamp()
        os.utime(path, (when, when))
        path.write_text(f'{{"days": {days}}}')
        os.utime(path, (when, when))
        notes = collect.collect(mine, path.parent, whose="ada").notes
        assert any("late by the file's own time" in note and "--times" in note for note in notes) == noted, notes
