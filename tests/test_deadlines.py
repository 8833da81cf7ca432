"""Deadlines, lateness and what it costs: the same in our records, nbgrader's gradebook, export, report and feedback."""

import datetime
import time
import zipfile

import pytest
from conftest import copied
from nbgrader.api import Gradebook
from nbgrader.utils import parse_utc

from autograder import collect, course, tree

UTC = datetime.UTC
# Offsets west and east of UTC, of half an hour, and both of a zone with daylight saving.
DEADLINES = [
    "2027-02-07T23:59:00+01:00",
    "2027-07-07T23:59:00+02:00",
    "2027-02-07T23:59:00-08:00",
    "2027-07-07T23:59:00-07:00",
    "2027-02-07T23:59:00+05:30",
    "2027-02-07T23:59:00+13:00",
    "2027-02-07T23:59:00Z",
]


def due_at(known, deadline):
    """The course with this deadline of its first notebook."""
    first = known.notebooks[0].model_copy(update={"deadline": datetime.datetime.fromisoformat(deadline)})
    return known.model_copy(update={"notebooks": (first, *known.notebooks[1:])})


@pytest.mark.parametrize("deadline", DEADLINES)
def test_nbgrader_counts_lateness_from_the_deadline_in_every_zone(fresh, deadline):
    known, due = due_at(fresh, deadline), datetime.datetime.fromisoformat(deadline)
    tree.build_tree(known)  # of a tree that has another deadline already
    name = known.notebooks[0].name
    for seconds in (-1, 0, 1, 3600):
        stamp = (due + datetime.timedelta(seconds=seconds)).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f UTC")
        with Gradebook(tree.database(known), known.course_id) as gradebook:
            assert gradebook.find_assignment(name).duedate == due.astimezone(UTC).replace(tzinfo=None)
            gradebook.update_or_create_student("ada")
            late = gradebook.update_or_create_submission(name, "ada", timestamp=parse_utc(stamp)).total_seconds_late
        assert late == max(0, seconds)


def test_a_new_tree_has_the_right_deadline(built, tmp_path):
    known = copied(built, tmp_path)
    tree.place(known, "source", known.notebooks[0]).unlink()  # so that it is entered anew
    tree.build_tree(known)
    with Gradebook(tree.database(known), known.course_id) as gradebook:
        assert gradebook.find_assignment(known.notebooks[0].name).duedate == datetime.datetime(2027, 2, 7, 22, 59)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/Los_Angeles", "Asia/Kolkata", "UTC"])
@pytest.mark.parametrize("month", [2, 7])
def test_times_in_a_zip_are_of_the_zone_of_this_machine(built, tmp_path, monkeypatch, zone, month):
    """A zip states local times without a zone; one second makes the difference, in winter and in summer."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        local = datetime.datetime(2027, month, 7, 23, 58, 58).astimezone()
        known = due_at(built, local.isoformat()).model_copy(update={"tree": tmp_path / "tree"})
        entry = known.notebooks[0]
        for student, clock in (("early", (23, 58, 58)), ("late", (23, 59, 0))):
            path = tmp_path / f"{student}.zip"
            with zipfile.ZipFile(path, "w") as archive:
                member = zipfile.ZipInfo(f"{student}/{entry.name}.ipynb", (2027, month, 7, *clock))
                archive.writestr(member, b"{}")
            assert collect.collect(known, path).taken
        found = {}
        for student in ("early", "late"):
            stamp = tree.place(known, "submitted", entry, student).with_name("timestamp.txt").read_text().strip()
            found[student] = (parse_utc(stamp) - tree.due(entry)).total_seconds()
        assert found == {"early": 0, "late": 2}
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_deadline_without_an_offset_is_refused(tmp_path):
    stated = (course.ROOT / "course.toml").read_text().replace("T23:59:00+01:00", "T23:59:00")
    (tmp_path / "course.toml").write_text(stated)
    with pytest.raises(course.CourseError, match="state its offset from UTC"):
        course.load(tmp_path / "course.toml")
