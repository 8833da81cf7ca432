"""Teams: one submission, one grading and one mark for all members, wherever a member or the team is asked about."""

import csv
import datetime
import io
import json
import shutil
import zipfile

import pytest
from helpers import canned, keep
from nbgrader.api import Gradebook
from typer.testing import CliRunner

from autograder import appeals, cli, course
from autograder.cells import CellRole, role_of
from autograder.course import CourseError, Late
from autograder.gradebook import course_tree, extensions, gradebook_writer, roster, teams
from autograder.grading import copied_runs, erasure, grade, lateness, removal
from autograder.grading.grading_record import jobs, known_students, load_record, students_of
from autograder.intake import collect, kept_submissions, origins
from autograder.marking import server
from autograder.reports import exports, feedback, progress, report, uploads
from autograder.similarity import groups, similar

NAME, SECOND = "01_causal_mask_lm", "02_positional_encoding"
ROSTER = """\
id,first_name,last_name,email,platform_ids,section
ada1,Ada,Lovelace,ada@example.org,101,Monday
bo2,Bo,Berg,bo@example.org,102,Tuesday
cy3,Cy,Dahl,cy@example.org,103,Tuesday
"""
TEAM = "team,student,notebook\nRed Fox,ada1,\nRed Fox,bo2,\n"
RED = "Red_Fox"


@pytest.fixture
def mine(tmp_path):
    """A course whose tree is not built, with a class of three of whom two are a team."""
    known = course.load(tree=tmp_path / "tree")
    known.tree.mkdir()
    (known.tree / "students.csv").write_text(ROSTER)
    (known.tree / "teams.csv").write_text(TEAM)
    return known


@pytest.fixture
def known(fresh, monkeypatch):
    """The same, built; the team has handed in with all points, and cy3 alone with fewer."""
    (fresh.tree / "students.csv").write_text(ROSTER)
    (fresh.tree / "teams.csv").write_text(TEAM)
    for submitter, solved in ((RED, None), ("cy3", ("1.1",))):
        job, done, notebook = canned(fresh, submitter, solved)
        keep(fresh, job, done, notebook)
    monkeypatch.setattr(cli.context, "load", lambda: fresh)
    return fresh


def typed(*words):
    ended = CliRunner().invoke(cli.app, [*words])
    assert ended.exception is None, (ended.exception, ended.output)
    return " ".join(ended.output.split())


def zipped(path, names, text="{}"):
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, text)
    return path


def mark(known, submitter, score):
    """Give the written answer of a submission points, as formgrader does."""
    with gradebook_writer.open_recorder(known) as recorder:
        book = recorder.gradebook.find_submission_notebook(NAME, NAME, submitter)
        (found,) = [mark for mark in book.grades if role_of(mark.name) is CellRole.WRITTEN]
        found.manual_score, found.needs_manual_grade = score, False
        recorder.gradebook.db.commit()


def test_a_line_for_a_notebook_goes_before_one_for_all(mine):
    (mine.tree / "teams.csv").write_text(f"{TEAM}Blue,bo2,02\nBlue,cy3,2\n")
    first, second = mine.notebooks[:2]
    found = teams.load(mine)
    assert found.members(first, RED) == ("ada1", "bo2") and found.members(second, RED) == ("ada1",)
    assert found.members(second, "Blue") == ("bo2", "cy3") and found.members(first, "Blue") == ()
    assert [found.of(one, "bo2") for one in (first, second)] == [RED, "Blue"] and found.of(first, "cy3") == ""
    assert found.people(RED) == {"ada1", "bo2"} and found.people("cy3") == {"cy3"}
    (mine.tree / "teams.csv").unlink()
    assert not teams.load(mine) and teams.load(mine).of(first, "ada1") == ""


@pytest.mark.parametrize(
    "text, told",
    [
        ("team,student\nRed,zoe\n", "line 2: zoe is not in students.csv"),
        ("team,student\nRed,ada1\nBlue,ada1\n", "line 3: ada1 is in the team Red already, by line 2"),
        ("team,student,notebook\nRed,ada1,99\n", "line 2: there is no notebook `99`"),
        ("team,student\nRed,\n", "line 2: it names no student"),
        ("team,student\n!!,ada1\n", "line 2: `!!` cannot be the name of a team"),
        ("team,student\ncy3,ada1\n", "line 2: `cy3` is the id of a student"),
        ("team,student\nA/B,ada1\nAB,bo2\n", "line 3: the teams `A/B` and `AB` have one id, AB"),
        ("name,student\nRed,ada1\n", "has no column `team`; its first line is team,student,notebook"),
    ],
)
def test_a_list_of_teams_that_cannot_be_is_refused(mine, text, told):
    (mine.tree / "teams.csv").write_text(text)
    with pytest.raises(CourseError) as why:
        teams.load(mine)
    assert told in str(why.value) and "teams.csv" in str(why.value)


def test_the_file_of_groups_that_canvas_exports_is_understood(mine):
    """Its columns are those of Canvas's documentation; a student in no group has an empty one."""
    head = "name,canvas_user_id,user_id,login_id,sections,group_name,canvas_group_id,group_id"
    rows = ("Ada Lovelace,101,,,Monday,Awesome Group,45,", "Bo B,102,sis2,,Monday,Awesome Group,45,", "Cy,,cy3,,,,,")
    (mine.tree / "teams.csv").write_text("\n".join((head, *rows)) + "\n")
    assert teams.load(mine).members(mine.notebooks[0], "Awesome_Group") == ("ada1", "bo2")
    assert teams.load(mine).of(mine.notebooks[0], "cy3") == ""


@pytest.mark.parametrize("form", ["canvas", "moodle", "folder"])
def test_what_a_member_hands_in_is_the_teams_once(mine, tmp_path, form):
    names = {
        "canvas": [f"redfox_101_9001_{NAME}.ipynb"],
        "moodle": [
            f"Red Fox 1-{who}_3{place}_assignsubmission_file_/{NAME}.ipynb"
            for place, who in enumerate(("Ada Lovelace", "Bo Berg"))
        ],
        "folder": [f"bo2/{NAME}.ipynb"],
    }[form]
    result = collect.collect(mine, zipped(tmp_path / "in.zip", names))
    assert not result.refused and len(result.taken) == 1 and result.taken[0].startswith(f"{RED}: {NAME}")
    assert [path.name for path in (mine.tree / "submitted").iterdir()] == [RED]
    assert not [note for note in result.notes if "group" in note or "both taken" in note], result.notes
    entry = mine.notebooks[0]
    assert len(kept_submissions.kept_hand_ins(mine, entry, RED)) == 1 and result.new == [(entry, RED)]
    for who in {"canvas": ["ada1"], "moodle": ["ada1", "bo2"], "folder": []}[form]:
        assert origins.origin_of(mine, entry, who).platform.lower() == form
    assert students_of(mine, entry) == [RED] == students_of(mine, entry, ["bo2"]) and not students_of(
        mine, entry, ["cy3"]
    )
    known_students(mine, [entry], ["ada1", RED])


def collected_as_teams(known, source):
    """As `autograder collect --teams` does."""
    notes = collect.list_teams(known, source)
    result = collect.collect(known, source)
    result.notes[:0] = notes
    return result


def test_the_groups_of_a_download_become_teams_on_demand(mine, tmp_path):
    (mine.tree / "teams.csv").unlink()
    names = [
        f"Group A-{who}_3{at}_assignsubmission_file_/{NAME}.ipynb" for at, who in enumerate(("Ada Lovelace", "Bo Berg"))
    ]
    names.append(f"Default group-Cy Dahl_39_assignsubmission_file_/{NAME}.ipynb")
    source = zipped(tmp_path / "in.zip", names)
    alone = collect.collect(mine, source)
    assert {path.name for path in (mine.tree / "submitted").iterdir()} == {"ada1", "bo2", "cy3"}
    assert any(
        "Group A is a group, and each member is graded by itself" in note and "--teams" in note for note in alone.notes
    )
    shutil.rmtree(mine.tree / "submitted")
    shutil.rmtree(mine.tree / "handins")
    result = collected_as_teams(mine, source)
    assert {path.name for path in (mine.tree / "submitted").iterdir()} == {"Group_A", "cy3"}
    assert (mine.tree / "teams.csv").read_text() == f"team,student,notebook\nGroup A,ada1,{NAME}\nGroup A,bo2,{NAME}\n"
    assert "01: Group A is a team by teams.csv: ada1, bo2" in result.notes
    before = (mine.tree / "teams.csv").read_text()
    again = collected_as_teams(mine, source)
    assert (mine.tree / "teams.csv").read_text() == before and not [one for one in again.notes if "is a team" in one]


@pytest.mark.parametrize("name", ["=1+1", "cy3", "@SUM(1)"])
def test_a_group_whose_name_cannot_be_a_team_stops_nothing(mine, tmp_path, name):
    """A formula, which a spreadsheet would run, or the id of another student."""
    (mine.tree / "teams.csv").unlink()
    (mine.tree / "students.csv").write_text(ROSTER + "di4,Di,Ek,di@example.org,104,Monday\n")
    who = [(name, "Ada Lovelace"), (name, "Bo Berg"), ("Group A", "Cy Dahl"), ("Group A", "Di Ek")]
    names = [f"{group}-{student}_3{at}_assignsubmission_file_/{NAME}.ipynb" for at, (group, student) in enumerate(who)]
    result = collected_as_teams(mine, zipped(tmp_path / "in.zip", names))
    assert any(f"the group `{name}` cannot be a team" in note for note in result.notes)
    assert (mine.tree / "teams.csv").read_text() == f"team,student,notebook\nGroup A,cy3,{NAME}\nGroup A,di4,{NAME}\n"
    assert {"ada1", "bo2", "Group_A"} <= {path.name for path in (mine.tree / "submitted").iterdir()}


def test_a_table_of_times_that_cannot_be_read_is_refused_before_teams_are_written(mine, tmp_path, monkeypatch):
    (mine.tree / "teams.csv").unlink()
    course_tree.write_settings(mine)  # as in a tree that was built
    names = [f"G 1-{who}_3{at}_assignsubmission_file_/{NAME}.ipynb" for at, who in enumerate(("Bo Berg", "Cy Dahl"))]
    table = tmp_path / "times.csv"
    table.write_text("no,such,table\n1,2,3\n")
    monkeypatch.setattr(cli.context, "load", lambda: mine)
    with pytest.raises(CourseError, match=r"times\.csv"):
        cli.app(
            ["collect", str(zipped(tmp_path / "in.zip", names)), "--teams", "--times", str(table)],
            standalone_mode=False,
        )
    assert not (mine.tree / "teams.csv").exists() and not list((mine.tree / "submitted").glob("*"))


def test_a_copy_that_was_filed_before_the_team_was_listed_is_no_submission_of_its_own(mine, tmp_path):
    """A table that says when the team's came does not make the members' copies the later ones."""
    (mine.tree / "teams.csv").unlink()
    names = [f"G 1-{who}_3{at}_assignsubmission_file_/{NAME}.ipynb" for at, who in enumerate(("Bo Berg", "Cy Dahl"))]
    source = zipped(tmp_path / "in.zip", names)
    collect.collect(mine, source)
    collected_as_teams(mine, source)
    table = tmp_path / "times.csv"
    table.write_text("student,time,notebook\nbo2,2020-01-01 20:00:00+00:00,01\n")
    timed = collect.collect(mine, source, times=table)
    assert not [note for note in timed.notes if "times.csv" in note], timed.notes
    entry = mine.notebooks[0]
    assert course_tree.stamped(mine, entry, "G_1").year == 2020
    assert {teams.submitter(mine, entry, one) for one in ("bo2", "cy3")} == {"G_1"}
    other = course_tree.place(mine, "submitted", entry, "cy3")
    other.write_bytes(other.read_bytes() + b" ")  # a submission that the team never handed in
    assert teams.submitter(mine, entry, "cy3") == "cy3"


def test_a_download_does_not_take_a_member_out_of_a_team(mine, tmp_path):
    names = [f"G 1-{who}_3{at}_assignsubmission_file_/{NAME}.ipynb" for at, who in enumerate(("Bo Berg", "Cy Dahl"))]
    result = collected_as_teams(mine, zipped(tmp_path / "in.zip", names))
    assert (
        teams.load(mine).of(mine.notebooks[0], "bo2") == RED and teams.load(mine).of(mine.notebooks[0], "cy3") == "G_1"
    )
    assert f"01: bo2 is in the team {RED} by teams.csv, and not in G 1" in result.notes


def test_a_student_called_like_a_team_is_refused(mine, tmp_path):
    """Without a class list a name is all that a download says: a student could choose that of a team."""
    (mine.tree / "students.csv").unlink()
    result = collect.collect(mine, zipped(tmp_path / "in.zip", [f"Red Fox/{NAME}.ipynb"]))
    assert not result.taken and f"a team is called {RED} too" in result.refused[0]


def test_a_directory_called_like_a_team_says_how_to_take_it(mine, tmp_path):
    """With a class list: a name of the team alone, and one that a student has as well."""
    source = zipped(tmp_path / "in.zip", [f"Red Fox/{NAME}.ipynb"])
    (refused,) = collect.collect(mine, source).refused
    assert f"called like the team Red Fox: take it as the team's with `--student {RED}`" in refused
    assert "platform_ids" not in refused
    (mine.tree / "students.csv").write_text(f"{ROSTER}di4,Di,Fox,di@example.org,red-fox,\n")
    result = collect.collect(mine, source)
    assert not result.taken and f"--student {RED}" in result.refused[0] and "--student di4" in result.refused[0]
    assert not collect.collect(mine, source, whose="di4").refused and students_of(mine, mine.notebook(NAME)) == ["di4"]
    (mine.tree / "teams.csv").write_text("team,student\nAda Lovelace,ada1\nAda Lovelace,bo2\n")
    own = zipped(tmp_path / "own.zip", [f"Ada Lovelace/{NAME}.ipynb"])  # called like a member of it: it is the team's
    assert not collect.collect(mine, own).refused
    assert "Ada_Lovelace" in students_of(mine, mine.notebook(NAME))


def test_an_extension_of_a_member_says_what_it_does(known):
    assert f"in the team {RED}: the longest extension of its members counts" in typed("extend", "ada1", "01", "1 week")
    typed("extend", RED, "01", "1 day")
    for notebook in ("01", "all"):
        said = typed("extend", "ada1", notebook, "1 week")
        assert f"it does nothing for 01: the team {RED} has an extension of its own" in said and "deadline" not in said
    granted = extensions.extensions(known)
    entry = known.notebook(NAME)
    assert extensions.extension_of(known, entry, RED, granted) == datetime.timedelta(days=1)


def test_an_extension_of_a_team_that_is_called_something_else_now_can_be_taken_back(known):
    typed("extend", RED, "01", "1 day")
    typed("extend", "cy3", "01", "2 days")
    (known.tree / "teams.csv").write_text(TEAM.replace("Red Fox", "Blue Owl"))
    told = rf"`{RED}` is neither an id in students.csv nor a team in teams.csv. If a team was renamed, .* `autograder "
    with pytest.raises(CourseError, match=rf"line 2: {told}extend {RED} {NAME} --undo` takes the line out"):
        extensions.extensions(known)
    assert f"{RED} has no extension for {NAME} any more" in typed("extend", RED, NAME, "--undo")
    assert extensions.extensions(known) == {("cy3", NAME): datetime.timedelta(days=2)}


def test_a_person_is_meant_by_name_wherever_a_command_asks_whose(known):
    assert "Ada" not in typed("explain", "Cy Dahl", "1.1", "--no-ask") and "cy3" in typed(
        "explain", "cy3", "1.1", "--no-ask"
    )
    assert "kept of cy3" in typed("remove", "Cy Dahl", "01") or "would remove" in typed("remove", "Cy Dahl", "01")
    (known.tree / "students.csv").write_text(f"{ROSTER}cy4,Cyd,Dahl,,,\n")
    with pytest.raises(CourseError, match=r"^cy4 handed in none of") as told:
        known_students(known, [known.notebook(NAME)], ["cy4"])
    assert "did you mean" not in str(told.value)
    with pytest.raises(CourseError, match=r"did you mean cy3\?"):
        known_students(known, [known.notebook(NAME)], ["cy33"])


def test_of_a_members_own_submission_and_the_teams_the_later_counts(mine, tmp_path):
    entry = mine.notebooks[0]
    for who, hour in ((RED, 12), ("ada1", 10), ("bo2", 14)):
        place = course_tree.place(mine, "submitted", entry, who)
        course_tree.write(place, f'{{"of": "{who}"}}')
        course_tree.write(place.with_name("timestamp.txt"), f"2026-02-01 {hour}:00:00 UTC")
    assert [teams.submitter(mine, entry, who) for who in ("ada1", "bo2", "cy3")] == [RED, "bo2", "cy3"]
    assert teams.recipients(mine, entry, RED) == ("ada1",) and teams.recipients(mine, entry, "bo2") == ("bo2",)
    assert teams.recipients(mine, entry, "ada1") == () and students_of(mine, entry) == [RED, "bo2"]
    assert progress.alone(mine, entry) == {"ada1": RED, "bo2": "bo2"}
    result = collect.collect(mine, zipped(tmp_path / "in.zip", [f"ada1/{NAME}.ipynb"], '{"a": 1}'))
    told = [note for note in result.notes if "handed in alone" in note]
    assert len(told) == 2 and f"the later one of {RED} counts" in told[0]


def test_every_member_has_the_teams_marks(known, tmp_path):
    (entry,) = known.notebooks
    mark(known, RED, 1.5)
    rows = report.scores(known, [entry])
    assert {*rows.student} == {"ada1", "bo2", "cy3"}
    sums = rows.groupby("student").score.sum()
    assert sums["ada1"] == sums["bo2"] == sum(course_tree.exercises(known, entry).values()) + 1.5
    exports.write_scores(known, [entry], tmp_path / "canvas.csv", "canvas")
    table = {row[3]: row[5] for row in csv.reader(io.StringIO((tmp_path / "canvas.csv").read_text()))}
    assert table["ada1"] == table["bo2"] == f"{sums['ada1']:g}" and RED not in table
    assert progress.missing(known, entry) == []
    with Gradebook(course_tree.database(known), known.course_id) as gradebook:
        assert {one.id: one.last_name for one in gradebook.students} == {RED: "Red Fox", "cy3": "Dahl"}
    shown = typed("status", "01")
    assert "nothing is handed in by" not in shown
    assert json.loads(CliRunner().invoke(cli.app, ["roster", "--json"]).output)[1]["handed in"] == ["01"]
    found, _, _ = groups.answers(known, "1.W1")
    assert {one.student for one in found} <= {RED, "cy3"}


def test_each_member_gets_the_page_under_the_name_that_the_platform_knows(known, tmp_path):
    (entry,) = known.notebooks
    names = [
        f"G 1-{who}_3{at}_assignsubmission_file_/{NAME}.ipynb" for at, who in enumerate(("Ada Lovelace", "Bo Berg"))
    ]
    source = zipped(tmp_path / "in.zip", names, course_tree.place(known, "submitted", entry, RED).read_bytes())
    collect.collect(known, source)
    keep(known, *canned(known, RED))
    pages = feedback.write_feedback(known, [entry])
    text = (known.tree / "feedback" / RED / NAME / f"{NAME}.html").read_text()
    assert f"Feedback for {RED} (ada1, bo2)" in text
    done = uploads.zip_feedback(known, [entry], pages, "moodle", tmp_path)
    with zipfile.ZipFile(tmp_path / f"{NAME}-moodle.zip") as archive:
        assert {name: archive.read(name).decode() for name in archive.namelist()} == {
            f"{name.split('/')[0]}/{NAME}.html": text for name in names
        }
    assert done.notes == [
        f"{NAME}: not in the zip are cy3: no download of Moodle that was collected has them. Collect it "
        "once more, or give them their pages yourself"
    ]


def test_a_members_own_older_submission_is_no_copy_and_gets_no_page(known):
    (entry,) = known.notebooks
    place = course_tree.place(known, "submitted", entry, "ada1")
    shutil.copytree(course_tree.place(known, "submitted", entry, RED).parent, place.parent)
    place.with_name("timestamp.txt").write_text("2026-02-01 12:00:00 UTC")
    shutil.copytree(known.tree / "autograded" / RED, known.tree / "autograded" / "ada1")
    shutil.copytree(known.tree / "verdicts" / RED, known.tree / "verdicts" / "ada1")
    pairs = similar.compare(known, entry).pairs(10)
    assert [(one.first, one.second) for one in pairs] == [(RED, "cy3")]
    answers = {who: {"1.1": "x = attention(query)"} for who in ("ada1", RED, "cy3")}
    found = similar.Compared(answers, {}, teams.load(known).people).pairs(10)
    assert {(one.first, one.second) for one in found} == {("ada1", "cy3"), (RED, "cy3")}
    assert {path.parts[-3] for path in feedback.write_feedback(known, [entry])} == {RED, "cy3"}
    assert "also handed in alone" in typed("status", "01")
    assert [one.student for one in jobs(known, entry)] == [RED, "cy3"]


def test_runs_of_a_member_and_of_the_team_are_no_copies():
    def claim(owner, *people):
        return copied_runs.Claim(owner, "a/seed_1.json", owner, 1.0, None, "x", "", None, frozenset(people))

    team, member, other = claim(RED, "ada1", "bo2"), claim("ada1", "ada1"), claim("cy3", "cy3")
    assert not copied_runs.is_foreign(team, member, {}) and not copied_runs.is_foreign(member, team, {})
    assert copied_runs.is_foreign(team, other, {}) and copied_runs.is_foreign(member, other, {})


def test_the_numbers_of_3_12_are_those_of_any_member(mine):
    entry = mine.notebook("03")
    listed = roster.load(mine)
    names = origins.names_of(mine, entry, RED, listed)
    assert {"Ada Lovelace", "ada1", "Bo Berg", "bo2"} <= {*names} and not {RED, "Red Fox", "Cy Dahl"} & {*names}
    assert origins.unproven_names(mine, entry, RED, listed, names) == ("101", "102")
    assert origins.names_of(mine, entry, "cy3", listed)[0] == "Cy Dahl"


@pytest.mark.parametrize(
    "lines, late",
    [
        ("", True),
        ("ada1,01,3 days,\n", False),
        ("ada1,01,1 hour,\nbo2,01,3 days,\n", False),
        ("Red_Fox,01,3 days,\n", False),
        ("Red_Fox,01,1 hour,\nada1,01,3 days,\n", True),
        ("ada1,01,excused,\n", True),
        ("ada1,01,excused,\nbo2,01,excused,\n", False),
        ("ada1,01,1 hour,\nbo2,01,never late,\n", False),
        ("bo2,all,1 week,\n", False),
    ],
)
def test_a_team_has_the_longest_extension_of_its_members(known, lines, late):
    (entry,) = known.notebooks
    known = known.model_copy(update={"late": Late(percent=10)})
    when = f"{entry.deadline.astimezone(datetime.UTC) + datetime.timedelta(days=2):%Y-%m-%d %H:%M:%S} UTC"
    course_tree.place(known, "submitted", entry, RED).with_name("timestamp.txt").write_text(when)
    (known.tree / "extensions.csv").write_text(f"student,notebook,extension,reason\n{lines}")
    lateness.settle(known, [entry])
    assert (load_record(known, entry, RED).penalty > 0) == late


def test_a_member_who_is_excused_takes_no_mark_and_the_others_do(known):
    (entry,) = known.notebooks
    (known.tree / "extensions.csv").write_text("student,notebook,extension,reason\nada1,01,excused,\n")
    rows = report.scores(known, [entry])
    scores = {who: {*rows[rows.student == who].score} for who in ("ada1", "bo2")}
    assert scores["ada1"] == {"EX"} and "EX" not in scores["bo2"]
    assert "You are excused" not in feedback.page.render(feedback.page_data(known, entry, RED, _marked(known, RED)))
    assert extensions.is_excused(known, entry, "ada1", extensions.extensions(known))


def _marked(known, submitter):
    with feedback.marks.reading(known) as read:
        return feedback.marks.marked(read, known.notebooks[0])[submitter]


def test_a_members_mark_is_explained_as_the_teams(known):
    case = appeals.case_of(known, "bo2", "1.2", ask=False)
    shown = [*appeals.lines(case)]
    assert shown[:2] == [f"{RED}, {NAME}, exercise 1.2", "The submission of a team, with one mark for all: ada1, bo2"]
    assert appeals.case_of(known, "cy3", "1.2", ask=False).whose == ""


def test_a_team_is_removed_by_its_name_alone(known):
    (entry,) = known.notebooks
    with pytest.raises(CourseError, match=r"with the team Red_Fox \(ada1, bo2\).*`autograder remove Red_Fox 01 --yes`"):
        removal.remove(known, entry, "bo2")
    assert (known.tree / "submitted" / RED).exists()
    removal.remove(known, entry, RED)
    assert students_of(known, entry) == ["cy3"] and progress.missing(known, entry) == ["ada1", "bo2"]


def test_who_is_erased_leaves_the_team_and_takes_nothing_of_the_others(known):
    (entry,) = known.notebooks
    feedback.write_feedback(known, [entry])
    (known.tree / "extensions.csv").write_text("student,notebook,extension,reason\nada1,01,1 day,\nbo2,01,1 day,\n")
    course_tree.write(known.tree / "handins" / "ada1" / NAME / "origin.json", "{}")
    score = load_record(known, entry, RED).score
    receipt, left = erasure.erase(known, "ada1")
    assert not left and (known.tree / "teams.csv").read_text() == "team,student,notebook\nRed Fox,bo2,\n"
    assert not (known.tree / "handins" / "ada1").exists() and "ada1" not in (known.tree / "students.csv").read_text()
    assert load_record(known, entry, RED).score == score and (known.tree / "submitted" / RED).exists()
    assert json.loads(receipt.read_text())["erased"]["submissions in the gradebook"] == 0
    assert {*report.scores(known, [entry]).student} == {"bo2", "cy3"}
    feedback.write_feedback(known, [entry])
    assert "ada1" not in (known.tree / "feedback" / RED / NAME / f"{NAME}.html").read_text()
    # Of the last member all of the team's work is that student's.
    receipt, left = erasure.erase(known, "bo2")
    assert not left and json.loads(receipt.read_text())["erased"]["submissions in the gradebook"] == 1
    assert not [path for path in known.tree.glob(f"*/{RED}")] and students_of(known, entry) == ["cy3"]
    with Gradebook(course_tree.database(known), known.course_id) as gradebook:
        assert [one.id for one in gradebook.students] == ["cy3"]


def test_a_section_has_the_teams_of_its_students(known, tmp_path):
    (entry,) = known.notebooks
    shown = json.loads(CliRunner().invoke(cli.app, ["status", "01", "--section", "monday", "--json"]).output)[NAME]
    assert {*shown["graded"], *shown["waiting"]} == {RED}
    exports.write_scores(known, [entry], tmp_path / "out.csv", "moodle", section="Tuesday")
    assert [row[2] for row in csv.reader(io.StringIO((tmp_path / "out.csv").read_text()))][1:] == ["bo2", "cy3"]
    assert {one.student for one in groups.answers(known, "1.W1", {"cy3"})[0]} <= {"cy3"}


def test_names_are_shown_where_they_are_asked_for(known):
    (entry,) = known.notebooks
    text = report.write_report(known, [entry], names=True).read_text()
    assert "Cy Dahl (cy3)" in text and f"Red Fox: Ada Lovelace, Bo Berg ({RED})" in text
    text = report.write_report(known, [entry]).read_text()
    assert not [name for name in ("Dahl", "cy3", "Red", "ada1") if name in text]
    shown = typed("similar", "01", "--names")
    assert "Cy Dahl (cy3)" in shown and "Red Fox: Ada" in shown


GRADESCOPE = """\
---
submission_111:
  :submitters:
  - :name: Ada Lovelace
    :sid: '101'
    :email: ada@example.org
  - :name: Bo Berg
    :sid: '102'
    :email: bo@example.org
  :created_at: 2027-02-05 10:20:30.123456000 Z
"""


def test_those_who_submit_together_on_gradescope_become_a_team_on_demand(mine, tmp_path):
    (mine.tree / "teams.csv").unlink()
    with zipfile.ZipFile(tmp_path / "in.zip", "w") as archive:
        archive.writestr("assignment_9100_export/submission_metadata.yml", GRADESCOPE)
        archive.writestr(f"assignment_9100_export/submission_111/{NAME}.ipynb", "{}")
    result = collected_as_teams(mine, tmp_path / "in.zip")
    assert not result.refused and [path.name for path in (mine.tree / "submitted").iterdir()] == ["submission_111"]
    assert teams.load(mine).members(mine.notebooks[0], "submission_111") == ("ada1", "bo2")
    assert [origins.origin_of(mine, mine.notebooks[0], who).id for who in ("ada1", "bo2")] == ["101", "102"]


@pytest.mark.parametrize("section, submitters", [("Monday", [RED]), ("Tuesday", [RED, "cy3"])])
def test_assistants_grade_and_mark_their_section(known, monkeypatch, section, submitters):
    (entry,) = known.notebooks
    asked = []
    monkeypatch.setattr(grade, "grade", lambda course, entries, students, *more, **how: asked.append(students) or [])
    monkeypatch.setattr(cli.running, "begin", lambda *given: known)
    typed("grade", "01", "--section", section)
    assert students_of(known, entry, asked[0]) == submitters
    (row,) = server.progress(known, roster.in_section(known, section))
    assert row["all"] == len(submitters)
    question = server.Question(known, "1.W1", str, roster.in_section(known, section))
    question.load()
    shown = {answer.student for card in question.cards.values() for answer in card.answers}
    assert shown == {one.student for one in groups.answers(known, "1.W1")[0]} & {*submitters} and shown
