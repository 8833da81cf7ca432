"""Submissions in nbgrader's exchange: its inbound folder, into which every student of a hub can write.

What the name of a submission's folder says is a claim. Whose it is, the system says: the account that owns the folder.
When it came, the system says too, where the claim differs: no ordinary user can set the time of a file's last change.
Folders and files are opened one below the other, without following links, so that nobody can exchange them meanwhile.
"""

import contextlib
import datetime
import os
import pwd
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from autograder.course import Course, CourseError, NotebookEntry
from autograder.gradebook import course_tree
from autograder.intake.archive import MAX_RUNS, Found, is_text
from autograder.intake.layouts import YEARS
from autograder.intake.platforms import Claim
from autograder.intake.runs import Runs
from autograder.intake.untrusted_folder import open_directory, open_file
from utils.experiments.run_files import MAX_FILE, MAX_FILES
from utils.grading.verdict import line

INBOUND = "inbound"
SECRET_FILE, TIME_FILE = "submission_secret.txt", "timestamp.txt"
SECRET = re.compile(rb"[\w-]{16,256}")  # nbgrader writes 128 hexadecimal digits
RUN_FOLDER, RUN_FILE = re.compile(r"[\w.,+-]{1,150}"), re.compile(r"seed_\d{1,6}\.json")
# As nbgrader writes a time, in whatever zone its configuration names; bounded, since a library parses it.
TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})? ([A-Z]{1,5}|[+-][0-9]{4})")
SPREAD = datetime.timedelta(seconds=30)  # `nbgrader submit` takes seconds between the name and the last file
SHARED_ACCOUNT = "jovyan"  # of all users of a hub whose images are Jupyter's


@dataclass(frozen=True)
class _Submission:
    """The folder of a submission, and what its name claims."""

    path: PurePosixPath  # below the folder that is read
    user: str
    entry: NotebookEntry
    stated: str  # the time; "" if a file in the folder says it
    owned: bool  # whether the owner of the folder has to be the user


class Unreadable(Exception):
    """A file or folder that is not taken; the message says why."""


def place(course: Course, given: Path | None = None) -> Path:
    """The folder with submissions: the course's inbound folder in an exchange, or nbgrader's folder `submitted`.

    Args:
        given: the exchange, the course's folder in it, its inbound folder, or a folder `submitted` that nbgrader's own
            `collect` has filled; by default the exchange of nbgrader's configuration.

    Raises:
        CourseError: there is none, or somebody else has put the course's folder there.
    """
    root = given or configured(course)
    for folder in (root / course.course_id / INBOUND, root / INBOUND, root):
        if folder.is_dir() and (folder.name == INBOUND or _is_submitted(course, folder)):
            if folder.name == INBOUND:
                course_tree.require_own(folder.absolute().parent, folder)
            return folder
    raise CourseError(
        f"{root} is not an exchange of this course: there is no {root / course.course_id / INBOUND}. "
        f"`nbgrader release_assignment` in {course.tree} makes it; if the exchange is elsewhere, name it: "
        "`autograder collect --exchange DIR`"
    )


def configured(course: Course) -> Path:
    """The exchange that nbgrader's configuration names for the course tree.

    Raises:
        CourseError: the tree is not built.
    """
    course_tree.require_tree(course)
    from nbgrader.apps.baseapp import NbGrader
    from nbgrader.exchange.default import Exchange

    app = NbGrader()
    with contextlib.chdir(course.tree):
        app.initialize([])
    return Path(Exchange(parent=app).root)


def is_exchange(course: Course, folder: Path) -> bool:
    """Whether a folder is an exchange with this course, the course's folder in one, or an inbound folder."""
    for inbound in (folder, folder / INBOUND, folder / course.course_id / INBOUND):
        if inbound.is_dir():
            named = [_parsed(course, name) is not None for name in os.listdir(inbound) if is_text(name)]
            if 2 * sum(named) > len(named):  # one such name may be a student's joke in a folder of another kind
                return True
    return False


def _is_submitted(course: Course, folder: Path) -> bool:
    return any(next(folder.glob(f"*/{entry.name}/{TIME_FILE}"), None) for entry in course.notebooks)


def hand_ins(
    course: Course,
    folder: Path,
    refused: list[str],
    notes: list[str],
    chosen: Sequence[NotebookEntry] = (),
    stated: bool = False,
) -> Iterator[Found]:
    """Every submission in `folder`, see `place`, or those of the `chosen` notebooks; the earliest first.

    Each is read twice: for its time, by which they are sorted, and when it is its turn. So one is held at a time.

    Args:
        stated: the times that submissions state count, whatever the system says, as in a copy of an exchange.
    """
    top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        taken: list[tuple[_Submission, datetime.datetime, datetime.datetime]] = []
        shared = set()
        for submission in _listed(course, folder, top, refused):
            if chosen and submission.entry not in chosen:
                continue
            try:
                file, changed, account = _read(course, top, submission, notes)
            except Exception as why:  # a student's, who must not keep the others from being collected
                refused.append(f"{submission.path}: {_told(why)}")
                continue
            taken.append((submission, file.when, changed))
            del file
            shared |= {account} if account else set()
        for account in sorted(shared):
            notes.append(
                f"the account {account} owns folders that claim to be of students: the system does not say whose they "
                "are, and the names of these folders are believed"
            )
        for when, submission, changed in sorted(_timed(taken, notes, stated), key=lambda timed: timed[0]):
            try:
                file, now, _ = _read(course, top, submission, [])
                if now != changed:
                    raise Unreadable("it was changed while it was collected: collect again")
            except Exception as why:
                refused.append(f"{submission.path}: {_told(why)}")
                continue
            yield replace(file, when=when)
    finally:
        os.close(top)


def _told(why: Exception) -> str:
    """What to say of a submission that is not taken."""
    return str(why) if isinstance(why, Unreadable) else f"it cannot be read ({type(why).__name__}: {line(why, 200)})"


def _listed(course: Course, folder: Path, top: int, refused: list[str]) -> Iterator[_Submission]:
    """The submissions by the names of folders."""
    inbound = folder.name == INBOUND or not _is_submitted(course, folder)
    for name in sorted(os.listdir(top)):
        if not is_text(name):
            refused.append(f"{name.encode(errors='replace').decode()}: its name is not UTF-8")
        elif inbound:
            parsed = _parsed(course, name)
            if parsed:
                yield _Submission(PurePosixPath(name), *parsed, owned=True)
            elif not name.startswith("."):
                refused.append(f"{name}: {_why_not(name)}")
        else:
            for entry in course.notebooks:
                if (folder / name / entry.name).is_dir():
                    yield _Submission(PurePosixPath(name, entry.name), name, entry, "", owned=False)


def _parsed(course: Course, name: str) -> tuple[str, NotebookEntry, str] | None:
    """User, notebook and time in the name of a submission's folder: USER+NOTEBOOK+TIME[+CODE]."""
    known = {entry.name: entry for entry in course.notebooks}
    for parts in (name.rsplit("+", 3), name.rsplit("+", 2)):
        if len(parts) > 2 and parts[0] and parts[1] in known:
            return parts[0], known[parts[1]], parts[2]
    return None


def _why_not(name: str) -> str:
    """Why the name of a folder is none of a submission of this course."""
    for parts in (name.rsplit("+", 3), name.rsplit("+", 2)):
        if len(parts) > 2 and parts[0] and TIME.fullmatch(parts[2]):
            return f"the course has no notebook {parts[1] or 'without a name'}, or does not teach it"
    return "not called like a submission of this course, USER+NOTEBOOK+TIME+CODE"


def _read(course: Course, top: int, submission: _Submission, notes: list[str]) -> tuple[Found, datetime.datetime, str]:
    """A submission, when it was last changed, and the account that it shares with other students, or "".

    It was changed when the last of the files and folders of runs that are read was.

    Raises:
        Unreadable: it is not taken.
    """
    with contextlib.ExitStack() as stack:
        folder = top
        for part in submission.path.parts:
            folder = _folder(stack, folder, part)
        owner = os.fstat(folder).st_uid
        account = _account(submission, owner) if submission.owned else ""
        names = sorted(name for name in os.listdir(folder) if is_text(name))
        notebooks = [name for name in names if name.lower().endswith(".ipynb")]
        name = f"{submission.entry.name}.ipynb"
        if name not in notebooks and len(notebooks) != 1:
            raise Unreadable(f"it holds no {name}" + f", but {len(notebooks)} other notebooks" * bool(notebooks))
        name = name if name in notebooks else notebooks[0]
        owners = {owner, os.geteuid(), 0} if submission.owned else None
        changed: list[float] = []
        text = read_file(folder, name, int(course.limits.notebook_mb * 2**20) + 1, owners, changed)
        secret = b""
        if SECRET_FILE in names:
            secret = read_file(folder, SECRET_FILE, 1024, owners, changed).strip()
            if not SECRET.fullmatch(secret):
                notes.append(
                    f"{submission.path}: its {SECRET_FILE} is not nbgrader's, so that no feedback can be released to it"
                )
                secret = b""
        stated = submission.stated or read_file(folder, TIME_FILE, 200, owners, changed).decode(errors="replace")
        runs = _runs(stack, folder, owners, changed) if "results" in names and submission.entry.has_experiments else {}
    when = _time(stated.strip())
    last = datetime.datetime.fromtimestamp(max(changed), datetime.UTC)
    path = PurePosixPath(submission.path, name)
    file = Found(
        path,
        text,
        when,
        PurePosixPath(submission.user, submission.entry.name),
        Claim(submission.user, account=submission.owned, exchange=True),
        runs=lambda *first: Runs(runs),
        secret=secret,
    )
    return file, last if submission.owned else when, account


def _account(submission: _Submission, owner: int) -> str:
    """See that the folder belongs to the user whom its name claims; the account, if all users share it, else "".

    Raises:
        Unreadable: it belongs to somebody else.
    """
    try:
        account = pwd.getpwuid(owner).pw_name
    except KeyError:
        account = ""
    if account == submission.user:
        return ""
    if account == SHARED_ACCOUNT or owner == os.geteuid():  # nobody but the one who collects could have made it
        return account or f"number {owner}"
    if not account:
        raise Unreadable(
            f"it belongs to the account number {owner}, whose name this machine does not know: collect where the hub's "
            "accounts are known"
        )
    raise Unreadable(
        f"it claims to be of {submission.user} and belongs to {account}: ask both. To take it as it is, copy its "
        f"notebook and use `autograder collect FILE --student {submission.user}`"
    )


def _folder(stack: contextlib.ExitStack, above: int, name: str) -> int:
    """Open a folder that is not a link, below another one; it is closed with the stack."""
    try:
        opened = open_directory(name, above)
    except OSError as bad:
        raise Unreadable(f"{name} is a link, or not a folder that can be read ({bad.strerror})") from None
    stack.callback(os.close, opened)
    return opened


def read_file(above: int, name: str, most: int, owners: set[int] | None, changed: list[float]) -> bytes:
    """At most so many bytes of a plain file that belongs to one of these; `changed` gets when it last was.

    Raises:
        Unreadable: it is not such a file.
    """
    try:
        with open_file(name, above) as file:
            if owners is not None and os.fstat(file.fileno()).st_uid not in owners:
                raise Unreadable(f"{name} belongs to another user than its folder")
            text = file.read(most)
            changed.append(os.fstat(file.fileno()).st_ctime)
            return text
    except OSError as bad:
        raise Unreadable(f"{name} is a link or a special file, or cannot be read ({bad.strerror})") from None


def _runs(stack: contextlib.ExitStack, above: int, owners: set[int] | None, changed: list[float]) -> dict[str, bytes]:
    """The files of runs in the folder `results`, as `utils.experiments.experiment.read_files` names them."""
    runs: dict[str, bytes] = {}
    results = _folder(stack, above, "results")
    changed.append(os.fstat(results).st_ctime)  # files that are moved keep theirs, and the folder does not
    for name in sorted(filter(RUN_FOLDER.fullmatch, filter(is_text, os.listdir(results))))[:MAX_FILES]:
        with contextlib.ExitStack() as inner:
            try:
                folder = _folder(inner, results, name)
            except Unreadable:
                continue  # a file that is not a run's folder
            changed.append(os.fstat(folder).st_ctime)
            for seed in sorted(filter(RUN_FILE.fullmatch, filter(is_text, os.listdir(folder)))):
                runs[f"{name}/{seed}"] = read_file(folder, seed, MAX_FILE + 1, owners, changed)
                if len(runs) > MAX_FILES or sum(map(len, runs.values())) > MAX_RUNS:
                    raise Unreadable(f"more than {MAX_FILES} runs, or {MAX_RUNS // 2**20} MB of them")
    return runs


def _time(stated: str) -> datetime.datetime:
    """A time as nbgrader writes it.

    Raises:
        Unreadable: it is none.
    """
    from nbgrader.utils import parse_utc

    if not TIME.fullmatch(stated):
        raise Unreadable(f"`{stated[:60]}` is not a time as nbgrader writes it")
    try:
        when = parse_utc(stated).replace(tzinfo=datetime.UTC)
    except (ValueError, OverflowError, TypeError, AttributeError):
        raise Unreadable(f"`{stated[:60]}` is not a time") from None
    if when.year not in YEARS:
        raise Unreadable(f"`{stated[:60]}` is not a time at which somebody can hand in")
    return when


def _timed(
    taken: list[tuple[_Submission, datetime.datetime, datetime.datetime]], notes: list[str], stated: bool
) -> Iterator[tuple[datetime.datetime, _Submission, datetime.datetime]]:
    """The submissions, each after the time that counts: the stated one, or the system's where the two differ."""
    if stated:
        notes.append("the times that submissions state count, as --stated-times asks; students could have forged them")
    differ = [not stated and abs(changed - when) > SPREAD for _, when, changed in taken]
    if len(taken) > 1 and all(differ):
        notes.append(
            "all submissions were changed at other times than they state. If this is a copy of an exchange, remove "
            "what was collected from it, and collect with --stated-times"
        )
    for (submission, when, changed), other in zip(taken, differ, strict=True):
        if other:
            notes.append(
                f"{submission.path}: it states {when:%Y-%m-%d %H:%M:%S} UTC, and it was last changed at "
                f"{changed:%Y-%m-%d %H:%M:%S} UTC, which counts. If somebody has copied it or changed its rights "
                f"since, use `autograder extend {submission.user} {submission.entry.number}`, or collect again with "
                "--times"
            )
        yield changed if other else when, submission, changed
