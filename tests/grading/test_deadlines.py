"""Deadlines, lateness and what it costs: the same in our records, nbgrader's gradebook, export, report and feedback."""

import datetime
import json
import time
import zipfile

import nbformat
import pandas
import pytest
import sqlalchemy
from helpers import copied
from nbgrader.api import Gradebook
from nbgrader.preprocessors import AssignLatePenalties
from nbgrader.utils import parse_utc
from rich.console import Console
from typer.testing import CliRunner

from autograder import cli, course
from autograder.author import build
from autograder.cells import CellRole, role_of
from autograder.gradebook import course_tree, extensions, gradebook_writer, stock
from autograder.grading import grade, lateness
from autograder.grading.grading_record import GRADED, GradedVerdict, Record, load_record, verdict_path
from autograder.intake import collect
from autograder.reports import feedback, report
from autograder.reports.layout import duration
from utils.grading.verdict import Outcome

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
    course_tree.build_tree(known)  # of a tree that has another deadline already
    name = known.notebooks[0].name
    for seconds in (-1, 0, 1, 3600):
        stamp = (due + datetime.timedelta(seconds=seconds)).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f UTC")
        with Gradebook(course_tree.database(known), known.course_id) as gradebook:
            assert gradebook.find_assignment(name).duedate == due.astimezone(UTC).replace(tzinfo=None)
            gradebook.update_or_create_student("ada")
            late = gradebook.update_or_create_submission(name, "ada", timestamp=parse_utc(stamp)).total_seconds_late
        assert late == max(0, seconds)


def test_a_new_tree_has_the_right_deadline(built, tmp_path):
    known = copied(built, tmp_path)
    course_tree.place(known, "source", known.notebooks[0]).unlink()  # so that it is entered again
    course_tree.build_tree(known)
    with Gradebook(course_tree.database(known), known.course_id) as gradebook:
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
            stamp = course_tree.place(known, "submitted", entry, student).with_name("timestamp.txt").read_text().strip()
            found[student] = (parse_utc(stamp) - course_tree.due(entry)).total_seconds()
        assert found == {"early": 0, "late": 2}
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("month, hour", [(2, 9), (7, 8)])
def test_times_in_a_zip_are_of_the_platforms_zone_where_it_is_stated(built, tmp_path, month, hour):
    known = built.model_copy(update={"tree": tmp_path / "tree", "timezone": "Europe/Berlin"})
    assert known.utc(datetime.datetime(2027, month, 7, 10)) == datetime.datetime(
        2027, month, 7, hour, tzinfo=datetime.UTC
    )


def test_another_zone_than_the_deadlines_is_told(built, tmp_path, monkeypatch):
    entry = built.notebooks[0]
    with zipfile.ZipFile(tmp_path / "in.zip", "w") as archive:
        archive.writestr(zipfile.ZipInfo(f"ada/{entry.name}.ipynb", (2027, 2, 7, 10, 0, 0)), b"{}")
    told = {}
    for zone in ("UTC", "Europe/Berlin"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        for stated in ("", "Asia/Tokyo"):
            known = built.model_copy(update={"tree": tmp_path / zone / (stated or "none"), "timezone": stated})
            told[zone, stated] = collect.collect(known, tmp_path / "in.zip").notes
    monkeypatch.undo()
    time.tzset()
    (note,) = told.pop(("UTC", ""))
    assert "UTC+0000" in note and "UTC+0100" in note and "`timezone`" in note
    assert not any(told.values()) and len(told) == 3


def test_a_zone_that_is_none_is_refused(tmp_path):
    stated = 'timezone = "Berlin"\n' + (course.ROOT / "course.toml").read_text()
    (tmp_path / "course.toml").write_text(stated)
    with pytest.raises(course.CourseError, match="`Berlin` is not a time zone; write one like Europe/Berlin"):
        course.load(tmp_path / "course.toml")


def test_a_deadline_without_an_offset_is_refused(tmp_path):
    stated = (course.ROOT / "course.toml").read_text().replace("T23:59:00+01:00", "T23:59:00")
    (tmp_path / "course.toml").write_text(stated)
    with pytest.raises(course.CourseError, match="state its offset from UTC"):
        course.load(tmp_path / "course.toml")


DAY = 86400
POLICIES = [
    # rule, seconds late, score, points lost
    ({}, 10 * DAY, 20, 0),
    ({"percent": 10}, 1, 20, 2),
    ({"percent": 10}, DAY, 20, 2),
    ({"percent": 10}, DAY + 1, 20, 4),
    ({"percent": 10}, 100 * DAY, 20, 20),
    ({"percent": 10, "most": 50}, 100 * DAY, 20, 10),
    ({"percent": 10, "per": "hour"}, 2 * 3600 + 1, 20, 6),
    ({"points": 1.5}, DAY + 1, 20, 3),
    ({"points": 1.5}, DAY + 1, 2, 2),
    ({"points": 1, "most": 4}, 9 * DAY, 20, 4),
    ({"points": 1, "grace_minutes": 15}, 900, 20, 0),
    ({"points": 1, "grace_minutes": 15}, 901, 20, 1),
    ({"no_credit_after_days": 2}, 2 * DAY, 20, 0),
    ({"no_credit_after_days": 2}, 2 * DAY + 1, 20, 20),
    ({"points": 1, "no_credit_after_days": 2}, 2 * DAY + 1, 20, 20),
    ({"points": 1}, 0, 20, 0),
    ({"points": 1}, DAY, 0, 0),
]


@pytest.mark.parametrize("rule, seconds, score, lost", POLICIES)
def test_what_is_late_costs_what_the_course_says(rule, seconds, score, lost):
    assert course.Late(**rule).penalty(score, seconds) == pytest.approx(lost)


def test_points_and_percent_together_are_refused(tmp_path):
    stated = (course.ROOT / "course.toml").read_text().replace("percent = 0 ", "percent = 5\npoints = 1 #")
    (tmp_path / "course.toml").write_text(stated)
    with pytest.raises(course.CourseError, match="points or percent, not both"):
        course.load(tmp_path / "course.toml")


EVERYBODY = ("ada", "ann", "bo", "di", "ed", "flo")


@pytest.fixture
def late_class(fresh):
    """Five full submissions: in time, within the grace, two days late, so with an extension, so but never late."""
    late = course.Late(percent=10, grace_minutes=15)
    known = fresh.model_copy(update={"late": late})
    entry, due = known.notebooks[0], known.notebooks[0].deadline
    text = course_tree.release_notebook(known, entry)
    for cell in text.cells:
        if role_of(cell.id) is CellRole.CHECK:
            data = {"text/plain": f"{cell.metadata.nbgrader.points}"}
            cell.outputs = [nbformat.v4.new_output("execute_result", data=data, execution_count=None)]
    points = sum(course_tree.exercises(known, entry).values())
    seconds = {"ann": -9, "bo": 600, "cy": DAY + 60, "di": DAY + 60, "ed": DAY + 60, "flo": DAY + 60}
    (known.tree / "students.csv").write_text("id,first_name,last_name\ncy,Cyrus,Vance\n" + "\n".join(EVERYBODY))
    (known.tree / "extensions.csv").write_text(
        f"student,notebook,extension,reason\ndi,01,1 hour,train\ned,1,never late,ill\nflo,{entry.name},"
        f"{(due + datetime.timedelta(days=2)).isoformat()},\n"
    )
    with gradebook_writer.open_recorder(known) as recorder:
        for student, after in seconds.items():
            when = (due + datetime.timedelta(seconds=after)).astimezone(UTC)
            place = course_tree.place(known, "submitted", entry, student)
            course_tree.write(place, build.write(text))
            course_tree.write(place.with_name("timestamp.txt"), course_tree.timestamp(when))
            recorder.record(entry, student, build.write(text))
            stated = Record(student, entry.name, GRADED, verdicts=[GradedVerdict("1.1", points, Outcome.PASSED)])
            course_tree.write_json(verdict_path(known, entry, student), grade.asdict(stated))
    return known, points


def test_late_hand_ins_lose_the_same_everywhere(late_class, monkeypatch):
    known, points = late_class
    entry = known.notebooks[0]
    lateness.settle(known, [entry])
    lost = {"ann": 0, "bo": 0, "cy": 0.2 * points, "di": 0.1 * points, "ed": 0, "flo": 0}
    seconds = {"ann": 0, "bo": 600, "cy": DAY + 60, "di": DAY + 60 - 3600, "ed": 0, "flo": 0}

    def everywhere():
        records = {one: load_record(known, entry, one) for one in lost}
        assert {one: found.late_seconds for one, found in records.items()} == seconds
        found = {one: found.penalty for one, found in records.items()}
        with Gradebook(course_tree.database(known), known.course_id) as gradebook:
            for one in lost:
                submission = gradebook.find_submission(entry.name, one)
                assert submission.total_seconds_late == seconds[one]
                assert submission.late_submission_penalty == pytest.approx(found[one])
        report.write_csv(known, [entry], known.tree / "out.csv")
        table = pandas.read_csv(known.tree / "out.csv")
        sums = table.groupby("student").score.sum()
        with Gradebook(course_tree.database(known), known.course_id) as gradebook:
            for one in lost:
                assert sums[one] == pytest.approx(gradebook.find_submission(entry.name, one).score - found[one])
        return found

    assert everywhere() == pytest.approx(lost)
    # nbgrader's own step, with the plugin that its configuration names, says the same
    monkeypatch.setattr(stock.courses, "load", lambda: known)
    for one in lost:
        names = {
            "notebook": entry.name,
            "assignment": entry.name,
            "student": one,
            "db_url": course_tree.database(known),
        }
        step = AssignLatePenalties(plugin_class="autograder.gradebook.stock.LatePenalty")
        step.preprocess(nbformat.v4.new_notebook(), {"nbgrader": names})
    assert everywhere() == pytest.approx(lost)
    assert "AssignLatePenalties.plugin_class" in (known.tree / "nbgrader_config.py").read_text()
    # a person's marks count too, and so does an extension that is granted later
    with Gradebook(course_tree.database(known), known.course_id) as gradebook:
        marks = gradebook.find_submission_notebook(entry.name, entry.name, "cy").grades
        next(mark for mark in marks if role_of(mark.name) is CellRole.WRITTEN).manual_score = 2
        gradebook.db.commit()
        assert gradebook.find_student("cy").last_name == "Vance"
    with (known.tree / "extensions.csv").open("a") as file:
        file.write("bo,1,1 day,\n")
    seconds["bo"] = 0
    lateness.settle(known, [entry])
    assert everywhere() == pytest.approx(lost | {"cy": 0.2 * (points + 2)})
    page = report.write_report(known, [entry]).read_text()
    assert f"24.0 hours late: {0.2 * (points + 2):g} points less" in page and page.count("points less") == 2
    pages = {path.parts[-3]: path.read_text() for path in feedback.write_feedback(known, [entry])}
    assert f"Late penalty: {0.2 * (points + 2):g} points less, for 24.0 hours." in pages["cy"]
    assert not any("Late penalty" in pages[one] for one in ("ann", "bo", "ed", "flo"))


def test_what_is_settled_is_left_alone_until_something_changes(late_class, monkeypatch):
    """A report does not wait for nbgrader's classes where there is nothing for them to do."""
    known, _ = late_class
    entries, asked, settled = [known.notebooks[0]], [], lateness.settle_all
    monkeypatch.setattr(lateness, "settle_all", lambda *given: (asked.append(1), settled(*given)))
    lateness.settle(known, entries)  # changes what it finds, so nothing is known yet of what it leaves
    lateness.settle(known, entries)
    lateness.settle(known, entries)
    assert len(asked) == 2
    with (known.tree / "extensions.csv").open("a") as file:
        file.write("bo,1,1 day,\n")
    lateness.settle(known, entries)
    assert len(asked) == 3 and load_record(known, entries[0], "bo").late_seconds == 0
    lateness.settle(known, entries)
    with Gradebook(course_tree.database(known), known.course_id) as gradebook:
        marks = gradebook.find_submission_notebook(entries[0].name, entries[0].name, "cy").grades
        next(mark for mark in marks if role_of(mark.name) is CellRole.WRITTEN).manual_score = 2
        gradebook.db.commit()
    before = load_record(known, entries[0], "cy").penalty
    lateness.settle(known, entries)
    assert len(asked) == 5 and load_record(known, entries[0], "cy").penalty > before
    stricter = known.model_copy(update={"late": known.late.model_copy(update={"grace_minutes": 1.0})})
    lateness.settle(known, entries)
    lateness.settle(known, entries)
    assert len(asked) == 6
    lateness.settle(stricter, entries)
    assert len(asked) == 7


def test_settling_a_student_reads_no_other_students_marks(late_class):
    """Else the cost of a submission grows with the class: it doubled from 1,000 to 10,000."""
    known, _ = late_class
    asked = []
    with gradebook_writer.open_recorder(known) as recorder:
        engine = recorder.gradebook.engine
        sqlalchemy.event.listen(engine, "before_cursor_execute", lambda *of: asked.append((of[2], of[3])))
        assert recorder.settle(known.notebooks[0], "cy")["cy"][1] > 0
        sums = [(text, values) for text, values in asked if "sum(" in text]
        assert len(sums) == 1
        with engine.connect() as connection:
            text, values = sums[0]
            plan = [row.detail for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", values)]
    assert any("grade USING" in step for step in plan) and not any(step.startswith("SCAN") for step in plan), plan


@pytest.fixture
def typed(late_class, monkeypatch):
    """Gives a command on that class as one line; its exit status and what it printed."""
    known, _ = late_class
    monkeypatch.setattr(cli.context, "load", lambda: known)
    monkeypatch.setattr(cli.context, "console", Console(width=200))

    def give(*words):
        ended = CliRunner().invoke(cli.app, words)
        return ended.exit_code, ended.output + (str(ended.exception) if ended.exception else "")

    return give


def test_extensions_are_given_and_taken_back_by_command(late_class, typed):
    """Each changes the penalty at once, and the lines of others stay as they are."""
    known, points = late_class
    entry = known.notebooks[0]
    file = known.tree / "extensions.csv"
    before = file.read_text()

    def penalty():
        lateness.settle(known, [entry])
        return load_record(known, entry, "cy").penalty

    assert penalty() == pytest.approx(0.2 * points)
    assert typed("extend", "Cyrus Vance", "01", "36 hours", "--reason", "a train; late") == (
        0,
        f"cy, {entry.name}: 36 hours\n",
    )
    assert penalty() == 0
    assert file.read_text() == before + f"cy,{entry.name},36 hours,a train; late\n"
    assert typed("extend", "cy", "1", "12 hours")[0] == 0 and penalty() == pytest.approx(0.1 * points)
    assert file.read_text() == before + f"cy,{entry.name},12 hours,\n"
    _, shown = typed("extend")
    assert ["ed", "1", "never", "late", "ill"] in [line.split() for line in shown.splitlines()]
    assert "10% for each day that has begun; the first 15 minutes are free (course.toml, [late])\n" in shown
    assert typed("extend", "cy", "01", "--undo")[0] == 0 and penalty() == pytest.approx(0.2 * points)
    assert file.read_text() == before


@pytest.mark.parametrize(
    "words, says",
    [
        (("cy", "01"), "or --undo in its place"),
        (("cy",), "give a student, a notebook and an extension"),
        (("cy", "01", "1 day", "--undo"), "or --undo in its place"),
        (("cy", "01", "soon"), "`soon` is not an extension: 3 days"),
        (("cy", "99", "1 day"), "99"),
        (("zoe", "01", "1 day"), "is not in students.csv: add a line there"),
        (("cy", "01", "--undo"), "cy has no extension for 01"),
    ],
)
def test_an_extension_that_cannot_be_given_is_told_and_nothing_is_written(late_class, typed, words, says):
    file = late_class[0].tree / "extensions.csv"
    before = file.read_text()
    code, said = typed("extend", *words)
    assert code and says in said
    assert file.read_text() == before


def test_an_extension_needs_no_file_and_keeps_what_a_spreadsheet_wrote(late_class, typed):
    known, _ = late_class
    file = known.tree / "extensions.csv"
    file.unlink()
    assert typed("extend", "cy", "01", "excused")[0] == 0
    assert file.read_text() == f"student,notebook,extension,reason\ncy,{known.notebooks[0].name},excused,\n"
    file.write_text('\ufeffstudent;who said so;notebook;extension\ndi;"Eve; the head";01;1 hour\n')
    assert typed("extend", "cy", "01", "2 days", "--reason", "ill")[0] == 0
    assert file.read_text() == (
        "student;who said so;notebook;extension;reason\n"
        f'di;"Eve; the head";01;1 hour\ncy;;{known.notebooks[0].name};2 days;ill\n'
    )
    assert {student for student, _ in extensions.extensions(known)} == {"cy", "di"}


def test_the_roster_shows_who_handed_in_and_status_who_did_not(late_class, typed):
    known, _ = late_class
    rows = {row["id"]: row for row in json.loads(typed("roster", "--json")[1])}
    assert {*rows} == {"cy", *EVERYBODY} and rows["cy"]["name"] == "Cyrus Vance"
    assert rows["ed"]["handed in"] == ["01"] and rows["ed"]["extensions"] == ["01: never late"]
    assert rows["ada"]["handed in"] == [] and rows["ada"]["extensions"] == []
    _, shown = typed("roster")
    assert "Cyrus Vance" in shown and "01: never late" in shown and "not in the roster" not in shown
    entry = known.notebooks[0].name
    assert f"{entry}: nothing is handed in by ada\n" in typed("status")[1]
    assert json.loads(typed("status", "--json")[1])[entry]["nothing handed in"] == ["ada"]
    (known.tree / "students.csv").write_text("id\nada\n")
    (known.tree / "extensions.csv").unlink()
    assert "handed in, and not in the roster: ann, bo, cy, di, ed, flo\n" in typed("roster")[1]
    (known.tree / "students.csv").unlink()
    code, said = typed("roster")
    assert code and "write one with the columns id, first_name" in said
    assert "nothing is handed in by" not in typed("status")[1]


@pytest.mark.parametrize(
    "rule, says",
    [
        ({}, "lose nothing"),
        ({"points": 1, "per": "hour", "most": 3}, "lose 1 point for each hour that has begun, 3 at most (course.toml"),
        ({"percent": 5, "no_credit_after_days": 7}, "5% for each day that has begun, and everything after 7 days ("),
        ({"no_credit_after_days": 2, "grace_minutes": 5}, "lose everything after 2 days; the first 5 minutes are free"),
    ],
)
def test_the_rule_is_told_in_words(rule, says):
    assert says in course.Late(**rule).sentence()


@pytest.mark.parametrize("line", ["ada,01,soon,", "ada,01,2027-02-10T23:59:00,", "ada,99,1 day,"])
def test_an_extension_that_cannot_be_read_is_named_by_its_line(late_class, line):
    known, _ = late_class
    with (known.tree / "extensions.csv").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(course.CourseError, match="line 5"):
        lateness.settle(known, list(known.notebooks))


def test_an_extension_of_nobody_in_the_roster_is_named(late_class):
    known, _ = late_class
    (known.tree / "students.csv").write_text("id\nann\ned\n")
    with pytest.raises(
        course.CourseError, match=r"extensions.csv, line 2: `\w+` is neither an id in students.csv nor a"
    ):
        lateness.settle(known, list(known.notebooks))


@pytest.mark.parametrize(
    "text, zone, until",
    [
        ("1 week", "", datetime.timedelta(weeks=1)),
        ("2 weeks", "", datetime.timedelta(weeks=2)),
        ("2027-02-10 23:59", "Europe/Berlin", datetime.datetime(2027, 2, 10, 22, 59, tzinfo=UTC)),
        ("2027-07-10T23:59:00", "Europe/Berlin", datetime.datetime(2027, 7, 10, 21, 59, tzinfo=UTC)),
        ("2027-02-10T23:59:00+05:00", "Europe/Berlin", datetime.datetime(2027, 2, 10, 18, 59, tzinfo=UTC)),
        ("2027-02-10 23:59", "", "`2027-02-10 23:59` names no zone"),
        ("999999 weeks", "", "longer than any extension can be"),
        ("excused", "", "excused"),
        ("never late", "", "never late"),
    ],
)
def test_extensions_as_people_write_them(fresh, text, zone, until):
    known = fresh.model_copy(update={"timezone": zone})
    (known.tree / "extensions.csv").write_text(f"student,notebook,extension\nada,01,{text}\n")
    if isinstance(until, str) and until != text:
        with pytest.raises(course.CourseError, match=r"extensions.csv, line 2") as why:
            extensions.extensions(known)
        assert until in str(why.value)
    else:
        assert extensions.extensions(known) == {("ada", known.notebooks[0].name): until}


def test_an_extension_for_all_notebooks(late_class, typed):
    known, points = late_class
    entry = known.notebooks[0]
    before = (known.tree / "extensions.csv").read_text()
    assert typed("extend", "cy", "all", "1 week") == (0, "cy, all notebooks: 1 week\n")
    assert (known.tree / "extensions.csv").read_text() == before + "cy,all,1 week,\n"
    lateness.settle(known, [entry])
    assert load_record(known, entry, "cy").penalty == 0
    assert typed("extend", "cy", "01", "1 hour")[0] == 0  # a line for the notebook goes before
    lateness.settle(known, [entry])
    assert load_record(known, entry, "cy").penalty == pytest.approx(0.1 * points)
    assert {row["id"]: row for row in json.loads(typed("roster", "--json")[1])}["cy"]["extensions"] == [
        "all: 1 week",
        "01: 1 hour",
    ]
    assert typed("extend", "cy", "01", "--undo")[0] == 0
    assert typed("extend", "cy", "all", "--undo") == (0, "cy has no extension for all notebooks any more\n")
    assert (known.tree / "extensions.csv").read_text() == before
    code, said = typed("extend", "cy", "all", "--undo")
    assert code and "cy has no extension for all" in said


def test_who_is_excused_counts_nowhere(late_class, typed):
    known, _ = late_class
    entry = known.notebooks[0]
    assert typed("extend", "cy", "01", "excused")[0] == 0 and typed("extend", "ada", "01", "excused")[0] == 0
    lateness.settle(known, [entry])
    assert load_record(known, entry, "cy").penalty == 0
    _, shown = typed("status")
    assert f"{entry.name}: does not count for ada, cy, excused\n" in shown and "nothing is handed in by" not in shown
    feedback.write_feedback(known, [entry])
    places = [course_tree.place(known, "feedback", entry, one).with_suffix(".html") for one in ("cy", "di")]
    pages = [place.read_text() for place in places]
    assert ["You are excused: this notebook does not count." in page for page in pages] == [True, False]
    text = report.write_report(known, [entry]).read_text()
    assert "1 are excused and not counted in this." in text and "excused: it does not count" in text
    assert "6 submissions, 5 graded" in text


@pytest.mark.parametrize(
    "seconds, said",
    [
        (0, "0.0 minutes"),
        (2, "0.1 minutes"),
        (115, "1.9 minutes"),
        (3599, "60.0 minutes"),
        (3600, "1.0 hours"),
        (86400, "24.0 hours"),
    ],
)
def test_lateness_is_told_in_minutes_below_an_hour(seconds, said):
    assert duration(seconds) == said


def test_a_penalty_for_two_minutes_is_not_for_0_hours(late_class):
    known, _ = late_class
    known = known.model_copy(update={"late": course.Late(percent=10)})
    entry = known.notebooks[0]
    stamp = course_tree.place(known, "submitted", entry, "cy").with_name("timestamp.txt")
    stamp.write_text(course_tree.timestamp(entry.deadline + datetime.timedelta(seconds=115)))
    feedback.write_feedback(known, [entry])
    page = (known.tree / "feedback" / "cy" / entry.name / f"{entry.name}.html").read_text()
    assert "less, for 1.9 minutes." in page and "0.0 hours" not in page
    text = report.write_report(known, [entry]).read_text()
    assert "1.9 minutes late: " in text and "0.0 hours" not in text
