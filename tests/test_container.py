"""The container and the systemd unit of `autograder watch`: read by their linters, and run where that can be."""

import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner
from waiting import eventually

from autograder import cli, course, new_course

FOLDER = course.ROOT / "docs" / "container"
FILE = FOLDER / "Dockerfile"
LINTER = Path(sys.executable).with_name("hadolint")
PAGE = course.ROOT / "docs" / "security.md"
OTHER_BASE = os.environ.get("CONTAINER_BASE", "")  # an image that is here already, where none can be fetched
NAME = "01_moving_average"
WAIT_SECONDS = 300


def said_of(file):
    """Whether the linter accepts a Dockerfile, and what it says."""
    ended = subprocess.run([LINTER, "--no-color", file], capture_output=True, text=True)
    return ended.returncode == 0, ended.stdout + ended.stderr


def test_the_dockerfile_is_clean():
    assert said_of(FILE) == (True, "")


@pytest.mark.parametrize(
    "before, after, rule",
    [
        ("USER 1000\n", "USER root\n", "DL3002"),
        ("--no-cache-dir ", "", "DL3042"),
        ("    && rm -rf /var/lib/apt/lists/* \\\n", "", "DL3009"),
    ],
)
def test_what_is_wrong_in_a_dockerfile_is_found(tmp_path, before, after, rule):
    text = FILE.read_text()
    assert text.count(before) == 1
    (tmp_path / "Dockerfile").write_text(text.replace(before, after))
    clean, said = said_of(tmp_path / "Dockerfile")
    assert not clean and rule in said, said


def test_the_first_process_of_the_image_is_an_init():
    """As the first one, autograder would have to wait for each process whose parent has ended."""
    text = FILE.read_text()
    assert re.search(r"^ENTRYPOINT \[\"tini\", \"--\", \"autograder\"", text, re.M)
    assert re.search(r"apt-get install .*\btini\b", text)


def test_the_image_holds_what_is_committed_and_nothing_else():
    """Each file or folder is named: no gradebook, no secret, no submission of the machine that builds it."""
    copied = [words for line in re.findall(r"^COPY (.*)$", FILE.read_text(), re.M) for words in line.split()[:-1]]
    assert {"autograder", "course.toml", "solutions", "utils"} <= {*copied}
    for name in copied:
        ended = subprocess.run(["git", "ls-files", name], cwd=course.ROOT, capture_output=True, text=True, check=True)
        assert ended.stdout and not name.startswith("."), name


def test_the_image_watches_the_folder_that_the_page_mounts():
    (watched,) = re.findall(r'^CMD \["watch", "(.*)"\]$', FILE.read_text(), re.M)
    assert f" {watched} " in re.search(r"install --directory .*", FILE.read_text())[0]
    mounts = re.findall(r"--volume /srv/submissions:(\S+):ro", PAGE.read_text())
    assert mounts == [watched, watched]  # podman's and docker's


def engine():
    """A container engine that works here."""
    for name in ("podman", "docker"):
        if shutil.which(name) and subprocess.run([name, "info"], capture_output=True).returncode == 0:
            return name
    pytest.skip("there is no container engine here that works: `podman info` and `docker info` fail")


def options(name):
    """The options of `run` that the page states for this engine, but for its folders."""
    found = set()
    for text in re.findall(rf"^{name} run ((?:.*\\\n)*.*)$", PAGE.read_text(), re.M):
        pairs = itertools.pairwise(shlex.split(text.replace("\\\n", " ")))
        found.add(tuple(part for pair in pairs if pair[0] in ("--security-opt", "--userns") for part in pair))
    (stated,) = found
    return [*stated]


@pytest.mark.parametrize("name", ["podman", "docker"])
def test_the_page_states_the_options_of_each_engine(name):
    assert options(name).count("--security-opt") >= 1


@pytest.fixture(scope="module")
def image():
    """The engine, with the image built."""
    name = engine()
    base = OTHER_BASE or re.findall(r"^ARG BASE=(.*)$", FILE.read_text(), re.M)[0]
    found = subprocess.run([name, "image", "inspect", base], capture_output=True).returncode == 0
    if not found and subprocess.run([name, "pull", base], capture_output=True, timeout=600).returncode:
        pytest.skip(f"{name} is here, and {base} cannot be fetched; name another image in CONTAINER_BASE")
    made = [name, "build", "--build-arg", f"BASE={base}", "--tag", "autograder-test", "--file", str(FILE)]
    subprocess.run([*made, str(course.ROOT)], check=True, timeout=3600)
    return name


def test_watch_runs_in_a_container(image, tmp_path):
    """A new course, mounted; a submission that arrives there gets its page."""
    folder = tmp_path / "mine"
    new_course.write(folder)
    (tmp_path / "in").mkdir()
    (tmp_path / "tree").mkdir()
    mounts = [f"{folder}:/course", f"{tmp_path}/in:/submissions:ro", f"{tmp_path}/tree:/tree"]
    given = [*options(image), "--env", "AUTOGRADER_COURSE=/course", *(word for one in mounts for word in ("-v", one))]

    def run(*words):
        return subprocess.run(
            [image, "run", "--rm", *given, "autograder-test", *words], capture_output=True, text=True, timeout=600
        )

    assert (built := run("build")).returncode == 0, built.stderr
    assert (examined := run("doctor")).returncode == 0 and "one was made" in examined.stdout, examined.stdout
    path = tmp_path / "in" / "ada" / f"{NAME}.ipynb"
    path.parent.mkdir()
    shutil.copy(folder / "notebooks" / path.name, path)
    watching = subprocess.Popen([image, "run", "--rm", "--name", "autograder-test", *given, "autograder-test"])
    try:
        page = tmp_path / "tree/feedback/ada" / NAME / f"{NAME}.html"
        eventually(lambda: page.exists() or watching.poll() is not None, WAIT_SECONDS)
        assert "not attempted yet" in page.read_text()
    finally:
        subprocess.run([image, "kill", "autograder-test"], capture_output=True)
        watching.wait(60)


def unit(folder, name="my inbox"):
    """A unit as the command prints it, in a file of that folder."""
    said = CliRunner().invoke(cli.app, ["watch", str(folder / name), "--unit"])
    assert said.exit_code == 0
    path = folder / "autograder-watch.service"
    path.write_text(said.output)
    return path


def verified(path):
    """What systemd says of a unit."""
    tool = shutil.which("systemd-analyze")
    if not tool:
        pytest.skip("systemd-analyze is not here: the unit is only read by tests/test_watch.py")
    runtime = path.parent / "runtime"
    runtime.mkdir(mode=0o700, exist_ok=True)
    environment = {"HOME": str(path.parent), "XDG_RUNTIME_DIR": str(runtime), "PATH": os.defpath}
    return subprocess.run([tool, "verify", "--user", str(path)], capture_output=True, text=True, env=environment)


@pytest.mark.parametrize("name", ["inbox", "my inbox", "50% of $HOME"])
def test_systemd_accepts_the_unit(tmp_path, name):
    ended = verified(unit(tmp_path, name))
    assert ended.returncode == 0 and not ended.stderr, ended.stderr


@pytest.mark.parametrize(
    "before, after", [("ExecStart=", "ExecStart=/nowhere/python "), ("Restart=on-failure", "Restart=sometimes")]
)
def test_systemd_finds_what_is_wrong_in_a_unit(tmp_path, before, after):
    path = unit(tmp_path)
    text = path.read_text()
    assert text.count(before) == 1
    path.write_text(text.replace(before, after))
    ended = verified(path)
    assert ended.returncode or ended.stderr
