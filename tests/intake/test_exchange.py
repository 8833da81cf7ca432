"""nbgrader's exchange with users of the system, from release to fetched feedback, and what users can forge in it."""

import datetime
import os
import shutil
import subprocess
import sys
import time
import tracemalloc
import zipfile
from dataclasses import dataclass

import hub_users
import pytest
from typer.testing import CliRunner

from autograder import cli, course, synthetic
from autograder.author import release
from autograder.course import CourseError
from autograder.gradebook import course_tree
from autograder.grading import grade, removal
from autograder.grading.grading_record import load_record
from autograder.intake import collect, exchange, run_files
from autograder.reports import feedback

FIRST = course.load().notebooks[0]
NAME = FIRST.name
USERS = {"ada": 54_331, "bo": 54_332, "eve": 54_333}
SUBMISSION = "submission_secret.txt"
FOLDERS = ("submitted", "autograded", "feedback")
pytestmark = pytest.mark.skipif(
    os.getuid() != 0 or not shutil.which("unshare"), reason="accounts can only be made by root, with util-linux"
)


@pytest.fixture
def hub():
    """A folder with homes for all users, an exchange that all may write to, and a place of installed packages."""
    with hub_users.hub(USERS) as folder:
        yield folder


def do(hub, steps):
    """Have users do something; what was printed."""
    return hub_users.do(USERS, hub, steps)


OPEN = """
import json, sys
sys.path.insert(0, {packages!r})
for cell in json.load(open({name!r}))["cells"]:
    if cell["cell_type"] == "code":
        try:
            exec(compile("".join(cell["source"]), cell["id"], "exec"), globals())
        except Exception as raised:
            assert cell["id"].startswith("check_"), raised
            print(raised)
            break
import utils
print("utils is in", utils.__path__[0])
"""
WRITE = "from pathlib import Path; Path({path!r}).write_text(Path({text!r}).read_text())"


def test_from_release_to_feedback_with_two_users(fresh, hub):
    """The steps of the table in docs/hub.md, with the wheel on the students' path."""
    known, book = fresh, f"{NAME}/{NAME}.ipynb"
    with zipfile.ZipFile(release.wheel(known, hub)) as wheel:
        wheel.extractall(hub / "packages")
    given = [f"--Exchange.root={hub / 'exchange'}", f"--course={known.course_id}"]
    maker = synthetic.Maker(known, FIRST)
    (hub / "answered").write_bytes(maker.file())
    (hub / "half").write_bytes(maker.file(solved={"1.1", "1.2"}))
    steps = [("", known.tree, ["release_assignment", NAME, *given[:1]])]
    for name, text in (("ada", "answered"), ("bo", "half")):
        home = hub / name
        steps += [
            (name, home, ["fetch_assignment", NAME, *given]),
            (name, home / NAME, [OPEN.format(packages=str(hub / "packages"), name=f"{NAME}.ipynb")]),
            (name, home, [WRITE.format(path=book, text=str(hub / text))]),
            (name, home, ["submit", NAME, *given]),
        ]
    said = do(hub, [*steps, ("", known.tree, ["collect", NAME, *given[:1]])])
    assert said.count("not attempted yet") == 2
    assert said.count(f"utils is in {hub / 'packages' / known.package / 'utils'}") == 2
    handed_in = {name: course_tree.place(known, "submitted", FIRST, name) for name in ("ada", "bo")}
    assert {path.name for path in (known.tree / "submitted").iterdir()} == {*handed_in}
    assert handed_in["ada"].read_bytes() == (hub / "answered").read_bytes()
    stamp = course_tree.stamped(known, FIRST, "ada")
    assert abs(stamp - datetime.datetime.now(datetime.UTC)) < datetime.timedelta(minutes=10)
    secrets = {name: path.with_name(SUBMISSION) for name, path in handed_in.items()}
    assert len({path.read_text() for path in secrets.values()}) == 2
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in secrets.values())

    grade.grade(known, [FIRST])
    assert load_record(known, FIRST, "ada").score == sum(maker.points.values())
    assert load_record(known, FIRST, "bo").score == maker.points["1.1"] + maker.points["1.2"]
    course_tree.write(course_tree.place(known, "submitted", FIRST, "elsewhere"), maker.file(solved={"1.1"}))
    grade.grade(known, [FIRST])
    feedback.write_feedback(known, [FIRST])

    steps = [("", known.tree, ["release_feedback", NAME, *given[:1]])]
    steps += [(name, hub / name, ["fetch_feedback", NAME, *given]) for name in handed_in]
    said = do(hub, steps)
    assert "No feedback released to elsewhere" in said and "Traceback" not in said
    for name in handed_in:
        (page,) = (hub / name / NAME / "feedback").glob("*/*.html")
        assert page.read_bytes() == course_tree.place(known, "feedback", FIRST, name).with_suffix(".html").read_bytes()
    assert len(list((hub / "exchange" / known.course_id / "feedback").iterdir())) == 2


def submission(inbound, user, when, code="x", text="{}", name=NAME, owner=None, secret=b"5" * 32):
    """The folder of a submission as `nbgrader submit` leaves it."""
    folder = inbound / f"{user}+{name}+{when}+{code}"
    folder.mkdir()
    (folder / f"{name}.ipynb").write_text(text)
    (folder / "timestamp.txt").write_text(str(when))
    (folder / SUBMISSION).write_bytes(secret)
    for path in (folder, *folder.iterdir()):
        os.chown(path, *[USERS[owner or user]] * 2)
    return folder


def now(minutes=0):
    when = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=minutes)
    return when.strftime("%Y-%m-%d %H:%M:%S.%f UTC")


@pytest.fixture
def inbound(fresh, tmp_path, monkeypatch):
    """An inbound folder, and accounts for the users."""
    accounts = {uid: name for name, uid in USERS.items()}
    known = exchange.pwd.getpwuid

    class Account:
        def __init__(self, name):
            self.pw_name = name

    monkeypatch.setattr(exchange.pwd, "getpwuid", lambda uid: Account(accounts[uid]) if uid in accounts else known(uid))
    folder = tmp_path / "exchange" / fresh.course_id / "inbound"
    folder.mkdir(parents=True)
    return folder


def taken(known, inbound):
    """What was collected: its lines, and the students."""
    got = collect.collect_exchange(known, inbound.parents[1])
    return got, sorted(path.name for path in known.tree.glob("submitted/*"))


def test_a_folder_that_claims_another_owner_is_refused_and_nobody_else(fresh, inbound):
    submission(inbound, "ada", now(), text='{"cells": []}')
    submission(inbound, "ada", now(1), code="forged", text='{"mine": []}', owner="eve")
    got, students = taken(fresh, inbound)
    (refused,) = got.refused
    assert "claims to be of ada and belongs to eve" in refused and "--student ada" in refused
    assert students == ["ada"] and "mine" not in course_tree.place(fresh, "submitted", FIRST, "ada").read_text()


def test_an_unknown_account_is_refused(fresh, inbound):
    folder = submission(inbound, "ada", now())
    os.chown(folder, 54_999, 54_999)
    got, students = taken(fresh, inbound)
    assert "the account number 54999" in got.refused[0] and not students


def test_a_file_of_another_user_in_a_folder_is_refused(fresh, inbound):
    """Anybody may write into a submission's folder, if its name is known."""
    folder = submission(inbound, "ada", now())
    os.chown(folder / f"{NAME}.ipynb", USERS["eve"], USERS["eve"])
    got, students = taken(fresh, inbound)
    assert "belongs to another user than its folder" in got.refused[0] and not students


@pytest.mark.parametrize("what", ["link", "pipe", "folder", "linked folder", "linked secret", "hard link"])
def test_links_and_special_files_are_not_read(fresh, inbound, tmp_path, what):
    (tmp_path / "secret.ipynb").write_text('{"of the": "instructor"}')
    submission(inbound, "bo", now(), text='{"cells": []}')
    folder = submission(inbound, "eve", now())
    book = folder / f"{NAME}.ipynb"
    if what in ("link", "pipe", "folder", "hard link"):
        book.unlink()
    if what == "link":
        book.symlink_to(tmp_path / "secret.ipynb")
    elif what == "hard link":
        os.link(next(inbound.glob("bo+*")) / book.name, book)
    elif what == "pipe":
        os.mkfifo(book)
        os.chown(book, USERS["eve"], USERS["eve"])
    elif what == "folder":
        book.mkdir()
        os.chown(book, USERS["eve"], USERS["eve"])
    elif what == "linked folder":
        shutil.rmtree(folder)
        folder.symlink_to(next(inbound.glob("bo+*")))
    else:
        (folder / SUBMISSION).unlink()
        (folder / SUBMISSION).symlink_to(tmp_path / "secret.ipynb")
    got, students = taken(fresh, inbound)
    assert students == ["bo"] and len(got.refused) == 1 and "eve+" in got.refused[0]
    assert not any(b"instructor" in path.read_bytes() for path in fresh.tree.glob("handins/**/*") if path.is_file())


@pytest.mark.parametrize("when", ["2026-01-01", "2150-01-01"])
def test_a_forged_time_does_not_count(fresh, inbound, when):
    """No user can set when a file was last changed; `touch` sets another time."""
    folder = submission(inbound, "eve", f"{when} 00:00:00.000000 UTC")
    os.utime(folder / f"{NAME}.ipynb", (1_767_225_600, 1_767_225_600))
    submission(inbound, "ada", now())
    got, students = taken(fresh, inbound)
    assert students == ["ada", "eve"] and not got.refused
    (note,) = [one for one in got.notes if "which counts" in one]
    assert note.startswith("eve+") and f"states {when} 00:00:00 UTC" in note and "autograder extend eve 01" in note
    for student in students:
        late = datetime.datetime.now(datetime.UTC) - course_tree.stamped(fresh, FIRST, student)
        assert abs(late) < datetime.timedelta(minutes=5)


@pytest.mark.parametrize("stated", [True, False])
def test_times_of_a_copied_exchange_are_believed_on_request_alone(fresh, inbound, stated):
    """Without it two accomplices who are the only ones to hand in could state what they like."""
    for number, user in enumerate(USERS, 1):
        submission(inbound, user, f"2025-11-0{number} 10:00:00.000000 UTC")
    got = collect.collect_exchange(fresh, inbound, stated=stated)
    assert len(got.taken) == len(USERS) and not got.refused
    days = [f"{course_tree.stamped(fresh, FIRST, one):%Y %d}" for one in sorted(USERS)]
    assert (days == ["2025 01", "2025 02", "2025 03"]) is stated
    assert any(("forged" if stated else "collect with --stated-times") in note for note in got.notes)
    assert stated or not any(day.startswith("2025") for day in days)


def test_a_minute_stated_too_early_does_not_count(fresh, inbound):
    submission(inbound, "eve", now(-1))
    got, students = taken(fresh, inbound)
    assert students == ["eve"] and "which counts" in got.notes[0]
    late = datetime.datetime.now(datetime.UTC) - course_tree.stamped(fresh, FIRST, "eve")
    assert late < datetime.timedelta(seconds=30)


@pytest.mark.parametrize("what", ["run", "moved folder", "secret"])
def test_what_is_changed_after_the_notebook_counts_for_the_time(inbound, tmp_path, monkeypatch, what):
    known = course.load(tree=tmp_path / "whole")
    entry = known.notebook("05")
    folder = submission(inbound, "eve", now(), name=entry.name)
    run = folder / "results/x-1/seed_1.json"
    run.parent.mkdir(parents=True)
    run.write_text("{}")
    for path in folder.rglob("*"):
        os.chown(path, USERS["eve"], USERS["eve"])
    changed = {"run": run, "moved folder": run.parent, "secret": folder / SUBMISSION}[what].stat()
    real, later = os.fstat, datetime.timedelta(days=3)

    @dataclass
    class Changed:
        st_mode: int
        st_uid: int
        st_ctime: float

    def fstat(opened):
        state = real(opened)
        if state.st_ino != changed.st_ino:
            return state
        return Changed(state.st_mode, state.st_uid, state.st_ctime + later.total_seconds())

    monkeypatch.setattr(exchange.os, "fstat", fstat)
    refused, notes = [], []
    (found,) = exchange.hand_ins(known, inbound, refused, notes)
    assert not refused and found.when > datetime.datetime.now(datetime.UTC) + later / 2
    assert "which counts" in notes[0]


def test_one_submission_is_held_at_a_time(fresh, inbound):
    for number in range(12):
        folder = submission(inbound, "eve", now(), code=str(number))
        os.truncate(folder / f"{NAME}.ipynb", 5 * 2**20)
    tracemalloc.start()
    try:
        assert len([len(found.text) for found in exchange.hand_ins(fresh, inbound, [], [])]) == 12
        assert tracemalloc.get_traced_memory()[1] < 30 * 2**20
    finally:
        tracemalloc.stop()


def test_a_failure_of_one_submission_stops_nobody(fresh, inbound, monkeypatch):
    read = exchange.read_file

    def fails(above, name, *rest):
        if os.fstat(above).st_uid == USERS["eve"]:
            raise ZeroDivisionError("of a library")
        return read(above, name, *rest)

    monkeypatch.setattr(exchange, "read_file", fails)
    submission(inbound, "eve", now())
    submission(inbound, "ada", now())
    got, students = taken(fresh, inbound)
    assert students == ["ada"] and "ZeroDivisionError" in got.refused[0]


@pytest.mark.parametrize("whose", ["", "inbound", "link"])
def test_a_folder_that_a_student_has_put_there_is_refused(fresh, inbound, whose):
    """In an exchange without the sticky bit, everybody can rename the course's folder, and make another one."""
    submission(inbound, "ada", now())
    replaced = inbound.parent / whose if whose == "inbound" else inbound.parent
    if whose == "link":
        inbound.parent.rename(inbound.parents[1] / "moved")
        inbound.parent.symlink_to(inbound.parents[1] / "moved")
    os.chown(replaced, USERS["eve"], USERS["eve"], follow_symlinks=False)
    for given in (inbound.parents[1], inbound.parent, inbound):
        with pytest.raises(CourseError, match=f"belongs to the account number {USERS['eve']}.*chmod 1777"):
            collect.collect_exchange(fresh, given)
    assert not (fresh.tree / "submitted").exists()


def test_no_feedback_is_released_into_a_students_folder(fresh, inbound):
    os.chown(inbound.parent, USERS["eve"], USERS["eve"])
    command = [sys.executable, "-m", "nbgrader", "release_feedback", NAME, f"--Exchange.root={inbound.parents[1]}"]
    ran = subprocess.run(command, cwd=fresh.tree, capture_output=True, text=True, timeout=200)
    assert ran.returncode and "chmod 1777" in ran.stderr, ran.stdout + ran.stderr
    assert not (inbound.parent / "feedback").exists()


def test_feedback_is_for_the_submission_that_counts_after_another_one(fresh, inbound):
    """The same answers, others, and the same again: nothing is graded again, and the student asks for the last one."""
    maker = synthetic.Maker(fresh, FIRST)
    first, second = maker.file(solved={"1.1"}).decode(), maker.file(solved={"1.2"}).decode()
    submission(inbound, "ada", now(), code="1", text=first, secret=b"1" * 32)
    taken(fresh, inbound)
    assert [one.status for one in grade.grade(fresh, [FIRST])] == ["graded"]
    feedback.write_feedback(fresh, [FIRST])
    assert course_tree.secret_of(fresh, "feedback", FIRST, "ada") == "1" * 32
    submission(inbound, "ada", now(2), code="2", text=second, secret=b"2" * 32)
    time.sleep(1.1)
    submission(inbound, "ada", now(), code="3", text=first, secret=b"3" * 32)
    taken(fresh, inbound)
    graded = []
    assert [one.status for one in grade.grade(fresh, [FIRST], on_record=graded.append)] == ["graded"] and not graded
    feedback.write_feedback(fresh, [FIRST])
    for folder in FOLDERS:
        assert course_tree.secret_of(fresh, folder, FIRST, "ada") == "3" * 32
    stamps = {course_tree.place(fresh, one, FIRST, "ada").with_name("timestamp.txt").read_text() for one in FOLDERS}
    assert len(stamps) == 1


def test_an_account_is_found_by_ids_and_by_no_other_name(fresh, inbound):
    course_tree.write(
        fresh.tree / "students.csv",
        "id,first_name,last_name,email,platform_ids\nal01,E,Ve,bo@example.org,\nal02,Al,Two,,ada\n",
    )
    for user in USERS:
        submission(inbound, user, now())
    got, students = taken(fresh, inbound)
    assert students == ["al02"] and len(got.refused) == 2
    assert all("is not in students.csv" in one for one in got.refused)


def test_before_anybody_has_submitted_nothing_is_wrong(fresh, inbound):
    got, _ = taken(fresh, inbound)
    assert got.notes == ["no submissions yet"] and not got.refused


def test_an_unknown_notebook_is_named(fresh, inbound):
    submission(inbound, "eve", now(), name="nonsense")
    got, _ = taken(fresh, inbound)
    assert "the course has no notebook nonsense" in got.refused[0]


@pytest.mark.parametrize(
    "when",
    [
        "-99:99000000000000009999999999932",
        "tomorrow or so",
        "9998-01-01 00:00:00 UTC",
        "",
        "0" * 90,
        "2026-13-45 99:00:00 UTC",
    ],
)
def test_a_time_that_is_none_is_refused_and_stops_nobody(fresh, inbound, when):
    submission(inbound, "eve", when)
    submission(inbound, "ada", now())
    got, students = taken(fresh, inbound)
    assert students == ["ada"] and "is not a time" in got.refused[0]


def test_other_names_are_refused_each_in_a_line(fresh, inbound):
    (inbound / "notes.txt").touch()
    (inbound / os.fsdecode(b"\xff+x")).touch()
    submission(inbound, "ada", now())
    got, students = taken(fresh, inbound)
    assert students == ["ada"] and len(got.refused) == 2


def test_on_a_hub_with_one_account_names_are_believed_and_that_is_said(fresh, inbound):
    for user in ("ada", "bo"):
        folder = submission(inbound, user, now())
        for path in (folder, *folder.iterdir()):
            os.chown(path, os.getuid(), os.getgid())
    got, students = taken(fresh, inbound)
    assert students == ["ada", "bo"] and "the account root owns folders" in got.notes[0]


def test_each_submission_counts_once_and_keeps_its_secret(fresh, inbound):
    for number, text in enumerate(('{"a": 1}', '{"b": 1}', '{"b": 1}')):
        submission(inbound, "ada", now(number - 2), code=str(number), text=text, secret=str(number).encode() * 32)
    got, _ = taken(fresh, inbound)
    assert len(got.taken) == 3 and not got.refused and not [one for one in got.notes if "both taken" in one]
    assert course_tree.secret_of(fresh, "submitted", FIRST, "ada") == "2" * 32
    again, _ = taken(fresh, inbound)
    assert not again.new and all("the same as the one that counts" in line for line in again.taken)
    assert course_tree.secret_of(fresh, "submitted", FIRST, "ada") == "2" * 32
    removal.remove_latest(fresh, FIRST, "ada")
    assert course_tree.secret_of(fresh, "submitted", FIRST, "ada") == "0" * 32


def test_runs_beside_the_notebook_are_taken_and_links_are_not(inbound, tmp_path):
    known = course.load(tree=tmp_path / "whole")
    entry = known.notebook("05")
    folder = submission(inbound, "ada", now(), name=entry.name)
    runs = folder / "results/some_experiment-1234"
    runs.mkdir(parents=True)
    recorded = next(course.ROOT.glob("data/results/rte/*/seed_1.json"))
    shutil.copy(recorded, runs / "seed_7.json")
    (runs.parent / "link").symlink_to(recorded.parent)
    for path in folder.rglob("*"):
        os.chown(path, USERS["ada"], USERS["ada"], follow_symlinks=False)
    assert not collect.collect_exchange(known, inbound).refused
    packed = run_files.unpack(course_tree.results_path(known, entry, "ada").read_bytes())
    assert [*packed] == ["some_experiment-1234/seed_7.json"]
    (runs / "seed_8.json").symlink_to(recorded)
    (refused,) = collect.collect_exchange(known, inbound).refused
    assert "seed_8.json is a link" in refused


def test_what_another_exchange_has_collected_has_the_times_that_it_states(fresh, tmp_path):
    """ngshare and nbexchange have no folder that all share; nbgrader's `collect` fills `submitted` from them."""
    place = tmp_path / "submitted/ada" / NAME
    place.mkdir(parents=True)
    (place / f"{NAME}.ipynb").write_text("{}")
    (place / "timestamp.txt").write_text("2026-11-26 07:03:08.123456 UTC")
    got = collect.collect_exchange(fresh, tmp_path / "submitted")
    assert len(got.taken) == 1 and not got.refused
    assert f"{course_tree.stamped(fresh, FIRST, 'ada'):%Y-%m-%d %H:%M:%S}" == "2026-11-26 07:03:08"


@pytest.mark.parametrize("above", [0, 1, 2])
def test_without_the_option_an_exchange_is_named_for_what_it_is(fresh, inbound, above):
    submission(inbound, "ada", now())
    with pytest.raises(CourseError, match="collect --exchange"):
        collect.collect(fresh, [inbound, *inbound.parents][above])
    assert not (fresh.tree / "submitted").exists()


def test_a_students_joke_makes_no_exchange_of_a_folder(fresh, tmp_path):
    for name in (f"x+{NAME}+2026", "ada", "bo"):
        (tmp_path / "in" / name).mkdir(parents=True)
        (tmp_path / "in" / name / f"{NAME}.ipynb").write_text("{}")
    assert len(collect.collect(fresh, tmp_path / "in").taken) == 3


def test_no_exchange_is_told_with_what_to_do(fresh, tmp_path):
    with pytest.raises(CourseError, match=r"is not an exchange of this course.*release_assignment"):
        collect.collect_exchange(fresh, tmp_path)


def test_what_was_kept_before_is_one_line_with_a_count(fresh, inbound, monkeypatch):
    """Each run reads the whole exchange, and lists what is new alone; what it said of old ones is not said again."""
    for number, text in enumerate(('{"a": 1}', '{"b": 1}', '{"b": 1}')):
        submission(inbound, "ada", now(number - 2), code=str(number), text=text)
    submission(inbound, "ada", now(), code="4", text='{"c": 1}')
    first = collect.collect_exchange(fresh, inbound)
    assert len(first.taken) == 4 and first.known == 0
    submission(inbound, "ada", now(1), code="5", text='{"d": 1}')
    second = collect.collect_exchange(fresh, inbound)
    assert len(second.taken) == 1 and "+5/" in second.taken[0] and second.known == 4
    assert not [note for note in second.notes if "+1/" in note or "+0/" in note]
    monkeypatch.setattr(cli.context, "load", lambda: fresh)
    ended = CliRunner().invoke(cli.app, ["collect", "--exchange", str(inbound)])
    assert ended.exit_code == 0 and "5 submissions were kept before\n" in ended.output
    assert "causal_mask" not in ended.output, ended.output
