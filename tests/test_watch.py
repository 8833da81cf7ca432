"""`autograder watch`: what arrives is graded and answered, once; what fails is tried again; a restart goes on."""

import configparser
import itertools
import os
import re
import shlex
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from filelock import FileLock
from typer.testing import CliRunner
from waiting import eventually

from autograder import cli, course, synthetic, watch
from autograder.course import CourseError
from autograder.grading.grading_record import GRADED, Options, load_record

NAME = "03_parameter_counting"


@pytest.fixture
def known(workshop):
    """The course with notebook 03 alone: nothing of it takes long."""
    return workshop.model_copy(update={"notebooks": (workshop.notebook("03"),)})


@pytest.fixture(scope="module")
def files():
    """A submission of all right answers, and one with a wrong one."""
    whole = course.load()
    maker = synthetic.Maker(whole, whole.notebook("03"))
    (wrong, *_) = [case for case in maker.cases if not case.right and case.exercise == "3.1"]
    right = dict(maker.reference)
    return maker.file(right), maker.file(right | {"3.1": wrong.source})


def put(folder, student, text, when=0.0):
    path = folder / student / f"{NAME}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    if when:
        os.utime(path, (when, when))


def watched(known, folder, changes):
    """What was graded, refused and not done while these changes were made."""
    found = {"graded": [], "refused": [], "not done": []}
    watch.watch(
        known,
        folder,
        Options(1),
        lambda collected: found["refused"].append(len(collected.refused)),
        lambda record: found["graded"].append((record.student, record.status, record.score)),
        lambda why: found["not done"].append(str(why)),
        changes,
    )
    return found


def page_of(known, student):
    return known.tree / "feedback" / student / NAME / f"{NAME}.html"


def test_a_folder_in_which_nothing_lies_yet_is_not_refused(known, tmp_path):
    (tmp_path / "inbox").mkdir()
    assert watched(known, tmp_path / "inbox", ()) == {"graded": [], "refused": [0], "not done": []}


def test_what_arrives_is_graded_and_answered_once(known, files, tmp_path):
    right, wrong = files
    inbox = tmp_path / "inbox"
    put(inbox, "ada", wrong, 1_000_000_000)
    made = []

    def changes():
        made.append(page_of(known, "ada").read_text())
        put(inbox, "bob", right)
        yield {"bob"}
        yield set()  # half a minute later, nothing is left to do
        put(inbox, "bob", right)
        yield {"bob"}  # the same once more
        put(inbox, "ada", right)
        yield {"ada"}
        put(inbox, "eve", b"no notebook")
        (inbox / "readme.txt").write_text("nothing")
        yield {"eve"}

    found = watched(known, inbox, changes())
    scores = [(student, score) for student, status, score in found["graded"] if status == GRADED]
    full = scores[1][1]
    assert scores == [("ada", scores[0][1]), ("bob", full), ("ada", full)] and scores[0][1] < full
    assert [(student, status) for student, status, _ in found["graded"][3:]] == [("eve", "ungradable")]
    assert found["not done"] == [] and len(found["refused"]) == 5  # nobody looked after half a minute
    assert page_of(known, "ada").read_text() != made[0] and page_of(known, "bob").exists()
    assert load_record(known, known.notebooks[0], "ada").score == full

    again = watched(known, inbox, [{"ada"}])
    assert again["graded"] == [] and len(again["refused"]) == 1


def test_hidden_files_wake_nobody(tmp_path):
    """Of Syncthing, an editor, a trash: a folder with nothing else is one in which nothing lies yet."""
    for name in (".stfolder/x", ".Trash-1000/files/01_causal_mask_lm.ipynb", "ada/.~01_causal_mask_lm.ipynb"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    assert watch.scan(tmp_path) == {}
    (tmp_path / "ada" / "01_causal_mask_lm.ipynb").write_text("{}")
    assert [*map(os.path.basename, watch.scan(tmp_path))] == ["01_causal_mask_lm.ipynb"]


def test_what_could_not_be_done_is_told_and_done_later(known, files, tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "AGAIN_SECONDS", 0)
    inbox = tmp_path / "inbox"
    inbox.mkdir()

    def changes():
        put(inbox, "ada", files[0])
        with FileLock(known.tree / ".grading.lock"):
            yield {"ada"}
        assert load_record(known, known.notebooks[0], "ada") is None
        yield set()

    found = watched(known, inbox, changes())
    (why,) = found["not done"]
    assert "another run is grading" in why and [one[:2] for one in found["graded"]] == [("ada", GRADED)]
    assert page_of(known, "ada").exists()


@pytest.mark.parametrize(
    "tree, folder, told",
    [
        ("tree", "none", "none is not a folder"),
        ("none", "tree", "run `autograder build` first"),
        ("tree", "", "which are not submissions"),
    ],
)
def test_what_is_missing_is_told_before_it_watches(known, tmp_path, tree, folder, told):
    with pytest.raises(CourseError, match=told):
        watched(known.model_copy(update={"tree": tmp_path / tree}), tmp_path / folder, [])
    ended = CliRunner().invoke(cli.app, ["--tree", str(tmp_path / tree), "watch", str(tmp_path / folder)])
    assert re.search(told, str(ended.exception)) and not ended.output


def test_no_failure_of_a_round_ends_it(known, files, tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "AGAIN_SECONDS", 0)
    inbox, real, failures = tmp_path / "inbox", watch.collect, [ValueError("of a submission")]
    inbox.mkdir()

    def failing(*given):
        if failures:
            raise failures.pop()
        return real(*given)

    def changes():
        put(inbox, "ada", files[0])
        monkeypatch.setattr(watch, "collect", failing)
        yield {"ada"}
        yield set()

    found = watched(known, inbox, changes())
    assert found["not done"] == ["of a submission"] and [one[:2] for one in found["graded"]] == [("ada", GRADED)]
    put(inbox, "bo", files[0])
    failures.append(ValueError("at once"))
    found = watched(known, inbox, [set()])
    assert found["not done"] == ["at once"] and [one[:2] for one in found["graded"]] == [("bo", GRADED)]


def test_a_name_at_which_the_system_fails_is_slept_over(tmp_path, monkeypatch):
    def failing(*given, **options):
        yield "a change"
        raise RuntimeError("of watchfiles, at a name that is not UTF-8")

    monkeypatch.setattr(watch, "LOOK_SECONDS", 0)
    monkeypatch.setattr(watch.watchfiles, "watch", failing)
    assert [*itertools.islice(watch.each_change(tmp_path), 4)] == ["a change", None, "a change", None]


def test_the_command_grades_what_arrives_until_it_is_ended(workshop, files, tmp_path):
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    command = [sys.executable, "-m", "autograder.cli", "--tree", str(workshop.tree), "watch", str(inbox)]
    for student in ("ada", "bob"):  # the second time it is begun again
        with (tmp_path / "log").open("w+") as log:
            heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a test run in the background ignores it
            process = subprocess.Popen(command, cwd=course.ROOT, stdout=log, stderr=subprocess.STDOUT, preexec_fn=heard)
            try:
                until(lambda: "watching" in (tmp_path / "log").read_text(), process)
                put(inbox, student, files[0])
                until(page_of(workshop, student).exists, process)
            finally:
                process.send_signal(signal.SIGINT)
                assert process.wait(60) == 130
        said = (tmp_path / "log").read_text()
        assert said.count(NAME) == 1 and f"{student} {NAME}: " in said and "Traceback" not in said
        assert "interrupted; what was finished is kept" in said


def until(happened, process, seconds=240):
    """Wait for something that a process does."""
    eventually(lambda: happened() or process.poll() is not None, seconds)
    assert process.poll() is None


def test_a_unit_for_systemd_names_this_python_and_this_folder(tmp_path):
    tree, database = tmp_path / "my tree", "postgresql://me:a%20b@host/marks"
    chosen = ["--tree", str(tree), "--db", database]
    said = CliRunner().invoke(cli.app, [*chosen, "watch", str(tmp_path / "my inbox"), "--unit", "--workers", "3"])
    assert said.exit_code == 0
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str
    unit.read_string(said.output)
    program, *rest = shlex.split(unit["Service"]["ExecStart"])
    assert program == sys.executable and rest[:5] == ["-P", "-m", "autograder.cli", "--tree", str(tree)]
    assert rest[5:] == ["watch", str(tmp_path / "my inbox"), "--workers", "3"]
    assert shlex.split(unit["Service"]["Environment"]) == [f"AUTOGRADER_DB={database.replace('%', '%%')}"]
    assert unit["Service"]["Restart"] == "on-failure"
    assert Path(unit["Service"]["WorkingDirectory"]) == course.ROOT and unit["Install"]["WantedBy"] == "default.target"
