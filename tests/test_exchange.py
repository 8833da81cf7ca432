"""nbgrader's exchange with users of the system, from release to fetched feedback, and what users can forge in it."""

import datetime
import json
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

import ordinary_user
import pytest

from autograder import course, synthetic
from autograder.author import release
from autograder.course import CourseError
from autograder.gradebook import course_tree
from autograder.grading import grade, removal
from autograder.grading.records import load_record
from autograder.intake import collect, exchange
from autograder.reports import feedback

FIRST = course.load().notebooks[0]
NAME = FIRST.name
USERS = {"ada": 54_331, "bo": 54_332, "eve": 54_333}
SUBMISSION = "submission_secret.txt"
pytestmark = pytest.mark.skipif(
    os.getuid() != 0 or not shutil.which("unshare"), reason="accounts can only be made by root, with util-linux"
)


@pytest.fixture
def hub():
    """A folder with homes for all users, an exchange that all may write to, and a place of installed packages."""
    with tempfile.TemporaryDirectory(prefix="hub-") as made:  # pytest's own folders are for root alone
        folder = Path(made)
        folder.chmod(0o755)
        for name, uid in USERS.items():
            (folder / name).mkdir(mode=0o700)
            os.chown(folder / name, uid, uid)
        (folder / "exchange").mkdir()
        (folder / "exchange").chmod(0o777)
        yield folder


def do(hub, steps):
    """Have users do something; what was printed. A step is a name (or "" for the instructor), a folder and words."""
    numbered = [(USERS.get(name, 0), str(place), [str(word) for word in words]) for name, place, words in steps]
    (hub / "steps.json").write_text(json.dumps(numbered))
    command = [sys.executable, str(Path(__file__).with_name("hub_users.py")), str(hub / "steps.json")]
    ran = ordinary_user.with_accounts(USERS, command, hub, 300)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-6000:]
    return ran.stdout + ran.stderr


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
    """As docs/hub.md says it."""
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
    assert note.startswith("eve+") and f"states {when} 00:00 UTC" in note and "autograder extend eve 01" in note
    for student in students:
        late = datetime.datetime.now(datetime.UTC) - course_tree.stamped(fresh, FIRST, student)
        assert abs(late) < datetime.timedelta(minutes=5)


def test_times_of_a_copied_exchange_are_those_that_it_states(fresh, inbound):
    for number, user in enumerate(USERS, 1):
        submission(inbound, user, f"2026-11-0{number} 10:00:00.000000 UTC")
    got, students = taken(fresh, inbound)
    assert [f"{course_tree.stamped(fresh, FIRST, one):%d}" for one in students] == ["01", "02", "03"]
    assert any("as in a copy of an exchange" in note for note in got.notes)


@pytest.mark.parametrize("when", ["tomorrow or so", "9998-01-01 00:00:00 UTC", "", "0" * 90, "2026-13-45 99:00:00 UTC"])
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
    packed = collect.unpack(course_tree.results_path(known, entry, "ada").read_bytes())
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
