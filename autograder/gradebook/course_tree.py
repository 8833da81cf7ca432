"""The course tree that nbgrader works in: `.course/` with source, release, submitted, autograded, ...

Everything below is generated. nbgrader's own commands, its JupyterLab extension and formgrader run
in it unchanged.
"""

import contextlib
import datetime
import json
import os
import secrets
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from autograder import html_cleaning, local_settings
from autograder.cells import CellRole, exercise_of, role_of
from autograder.course import FOLDER, Course, CourseError, NotebookEntry
from autograder.gradebook import safe_names
from utils.files import write

if TYPE_CHECKING:  # who only looks where something lies does not wait for these
    from nbformat import NotebookNode
    from nbgrader.apps import NbGraderAPI

SECRET_BYTES = 32
SUBMISSION_SECRET = "submission_secret.txt"  # nbgrader's file beside a submission
NBGRADER_CONFIG = """\
# Written by `autograder build` from course.toml. nbgrader's commands read it when run in this folder.
import os

c = get_config()
root = os.path.dirname(os.path.realpath(__file__))  # a tree that was moved or restored elsewhere is used there
os.environ["AUTOGRADER_COURSE"] = {folder}
{local}c.CourseDirectory.root = root
c.CourseDirectory.course_id = {course_id!r}
c.CourseDirectory.db_url = {database}
c.HTMLExporter.sanitize_html = True
c.SanitizeHTML.tags = {tags!r}
# Stock commands run no submission, see autograder/gradebook/stock.py.
# Strings: an import that fails here would only be a warning.
c.Autograde.exporter_class = "autograder.gradebook.stock.Judged"
c.Autograde.sanitize_preprocessors = c.Autograde.autograde_preprocessors = ["autograder.gradebook.stock.Refused"]
c.Execute.kernel_name = {no_kernel!r}
c.AssignLatePenalties.plugin_class = "autograder.gradebook.stock.LatePenalty"
c.ExchangeFactory.collect = "autograder.gradebook.stock.Collect"
c.ExchangeFactory.release_feedback = "autograder.gradebook.stock.ReleaseFeedback"
c.ZipCollectApp.extractor_plugin = "autograder.gradebook.stock.Archives"
c.Execute.kernel_manager_class = "autograder.gradebook.stock.NoKernels"
# Solutions are written as they are: without kernels, and with the mark schemes of written answers taken out.
c.GenerateSolution.preprocessors = [
    "nbgrader.preprocessors.IncludeHeaderFooter",
    "nbgrader.preprocessors.LockCells",
    "nbgrader.preprocessors.ClearOutput",
    "nbgrader.preprocessors.ClearMarkScheme",
]
c.ClearMarkScheme.enforce_metadata = False
# Answers to stretch exercises are withheld too, and are not cells of the gradebook.
c.ClearSolutions.enforce_metadata = False
"""
SERVER_CONFIG = """\
# Written by `autograder build`, for the server that shows formgrader: jupyter lab --config jupyter_server_config.py
# Its pages show what students wrote: nothing is loaded from elsewhere but MathJax, and nothing is sent elsewhere.
c = get_config()
c.ServerApp.tornado_settings = {{"headers": {{"Content-Security-Policy": {policy!r}}}}}
# Below a written answer they show its mark scheme, and they escape names.
c.HTMLExporter.preprocessors = ["autograder.gradebook.stock.Shown"]
try:
    from autograder.gradebook.mark_log import sign_sessions
    from autograder.gradebook.stock import escape_templates

    escape_templates()
    sign_sessions()  # the log of marks names the account that runs this server
except Exception as why:  # without this end, Jupyter would ignore this whole file and start all the same
    raise SystemExit(f"formgrader needs autograder and nbgrader in the environment of this server: {{why!r}}")
"""
# formgrader's own pages need scripts of their own text, so that those are not forbidden.
POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob: https://cdnjs.cloudflare.com/ajax/libs/mathjax/",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data: https://cdnjs.cloudflare.com/ajax/libs/mathjax/",
        "connect-src 'self' ws: wss:",
        "worker-src 'self' blob:",
        "object-src 'none'",
        "base-uri 'self'",
        "form-action 'self'",
        "frame-ancestors 'self'",
    )
)
NO_KERNEL = "none-here-grade-submissions-with-autograder"  # nbgrader says this name where it would execute a notebook


def place(course: Course, folder: str, entry: NotebookEntry, student: str = ".") -> Path:
    """The file of a notebook in one of nbgrader's folders: source, release, submitted, autograded."""
    return course.tree / folder / student / entry.name / f"{entry.name}.ipynb"


def results_path(course: Course, entry: NotebookEntry, student: str) -> Path:
    """The file with the runs that were handed in beside a notebook; see `run_files.pack`."""
    return place(course, "submitted", entry, student).with_name("results.json")


def secret_of(course: Course, folder: str, entry: NotebookEntry, student: str) -> str:
    """The secret by which a student finds feedback in nbgrader's exchange; "" if the submission is not from there."""
    path = place(course, folder, entry, student).with_name(SUBMISSION_SECRET)
    return path.read_text() if path.exists() else ""


def place_secret(course: Course, folder: str, entry: NotebookEntry, student: str, secret: str) -> None:
    """Write such a secret into one of nbgrader's folders; with "" there is none afterwards."""
    path = place(course, folder, entry, student).with_name(SUBMISSION_SECRET)
    if not secret:
        path.unlink(missing_ok=True)
    elif secret_of(course, folder, entry, student) != secret:
        write(path, secret)
        path.chmod(0o600)


def place_receipt(course: Course, entry: NotebookEntry, student: str) -> None:
    """Write beside the graded copy when the submission that counts came, and the secret by which its student asks."""
    stamp = place(course, "submitted", entry, student).with_name("timestamp.txt")
    if stamp.exists():
        target = place(course, "autograded", entry, student).with_name("timestamp.txt")
        if not target.exists() or target.read_text() != stamp.read_text():
            write(target, stamp.read_text())
    place_secret(course, "autograded", entry, student, secret_of(course, "submitted", entry, student))


def require_own(*folders: Path) -> None:
    """See that nobody else has put these folders of an exchange there, neither themselves nor as links.

    Raises:
        CourseError: one belongs neither to the account that works with it nor to root; the message says what to do.
    """
    for folder in folders:
        for state in (folder.lstat(), folder.stat()):
            if state.st_uid not in (os.geteuid(), 0):
                raise CourseError(
                    f"{folder} belongs to the account number {state.st_uid}, neither to you nor to root. If that is a "
                    f"colleague's, work from that account. Else somebody has replaced the folder: `chmod 1777` the "
                    f"exchange, move {folder} away, and release the notebooks again"
                )


def gradebook(course: Course) -> Path:
    """The gradebook's file, unless course.toml names a database."""
    return course.tree / "gradebook.db"


def database(course: Course) -> str:
    """The gradebook's URL."""
    if not course.grading.database:
        return f"sqlite:///{gradebook(course)}"
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(course.grading.database)
    except ArgumentError:
        like = "postgresql://user:password@host/name"
        raise CourseError(f"the gradebook's URL cannot be read; it must look like {like}") from None
    if url.drivername in ("postgres", "postgresql"):  # SQLAlchemy's default driver is not the one that we install
        url = url.set(drivername="postgresql+psycopg2")
    return url.render_as_string(hide_password=False)


def shown_database(course: Course) -> str:
    """The gradebook's URL as a message may show it, without a password."""
    if not course.grading.database:
        return database(course)
    from sqlalchemy import make_url

    return make_url(database(course)).render_as_string(hide_password=True)


def secret(course: Course) -> bytes:
    """The course's secret, 32 random bytes for the instructor's account alone, made when it is first asked for.

    Raises:
        CourseError: the file was changed or damaged.
    """
    path = course.tree / "secret"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".partial-secret-{os.getpid()}")
        new.unlink(missing_ok=True)
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(SECRET_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):  # another process was faster: its secret is the course's
            os.link(new, path)
        new.unlink()
    content = path.read_bytes()
    if len(content) != SECRET_BYTES:
        raise CourseError(
            f"{path} is damaged: put back the copy that the course began with; a new one is another course"
        )
    return content


def build_tree(course: Course) -> None:
    """Write nbgrader's configuration, source and release, and enter each assignment in the gradebook.

    What is there already and unchanged is left alone, so that a gradebook with grades stays as it is.
    """
    from autograder.author import build

    protect(course)
    secret(course)
    write_settings(course)
    safe_names.rename_directories(course.tree)
    from autograder.gradebook import mark_log

    with nbgrader_api(course).gradebook as gradebook:
        safe_names.make_safe(gradebook.db.connection())
        mark_log.install(gradebook.db.connection())  # before formgrader can enter a mark
        gradebook.db.commit()
        entered = {assignment.name for assignment in gradebook.assignments if assignment.notebooks}
        for entry in course.notebooks:
            if entry.name in entered and gradebook.find_assignment(entry.name).duedate != due(entry):
                gradebook.update_or_create_assignment(entry.name, duedate=due(entry))
    refused = []
    for entry in course.notebooks:
        source, release = place(course, "source", entry), place(course, "release", entry)
        text = build.write(build.solution_notebook(course, entry))
        if source.exists() and source.read_text() == text and release.exists() and entry.name in entered:
            continue
        before = {path: path.read_text() for path in (source, release) if path.exists()}
        release.unlink(missing_ok=True)  # killed from here on, the next build tries again
        write(source, text)
        try:
            enter(course, entry)
        except Exception as why:  # all goes on with what was built before
            for path, old in before.items():
                write(path, old)
            if not isinstance(why, CourseError):
                raise
            refused.append(str(why))
    if refused:
        raise CourseError("\n".join(refused))


def settings(course: Course) -> str:
    """nbgrader's configuration of a tree. It names no place of the tree itself, so that the tree can be moved."""
    folder, local = repr(str(FOLDER)), ""
    if course.tree.is_relative_to(FOLDER):
        folder = f"os.path.abspath(os.path.join(root, {os.path.relpath(FOLDER, course.tree)!r}))"
    if course.local and course.local != FOLDER / local_settings.NAME:
        local = f'os.environ["AUTOGRADER_LOCAL"] = {str(course.local)!r}\n'
    return NBGRADER_CONFIG.format(
        folder=folder,
        local=local,
        course_id=course.course_id,
        tags=html_cleaning.TAGS,
        database=repr(database(course)) if course.grading.database else 'f"sqlite:///{root}/gradebook.db"',
        no_kernel=NO_KERNEL,
    )


def settings_path(course: Course) -> Path:
    """Where nbgrader's configuration of the tree is."""
    return course.tree / "nbgrader_config.py"


def write_settings(course: Course) -> None:
    """Write nbgrader's configuration, which also says what its commands may do to submissions, and formgrader's."""
    server = course.tree / "jupyter_server_config.py"
    if not server.exists() or server.read_text() != SERVER_CONFIG.format(policy=POLICY):
        write(server, SERVER_CONFIG.format(policy=POLICY))
    path, text = settings_path(course), settings(course)
    if not path.exists() or path.read_text() != text:
        write(path, text)
        path.chmod(0o600)  # the URL of a database may hold a password


def protect(course: Course) -> None:
    """Leave the tree to its owner alone: it holds what students wrote, their names and marks, and the secret.

    A tree of another user, which somebody shares on purpose, is left as it is.
    """
    course.tree.mkdir(parents=True, exist_ok=True)
    state = course.tree.stat()
    if state.st_uid == os.getuid() and stat.S_IMODE(state.st_mode) & 0o077:
        course.tree.chmod(0o700)


def enter(course: Course, entry: NotebookEntry) -> None:
    """Enter an assignment in the gradebook, from the tree's source, and write its release; grades stay.

    Raises:
        CourseError: nbgrader refuses it.
    """
    api = nbgrader_api(course)
    result = api.generate_assignment(entry.name, force=True, create=True)
    if not result["success"]:
        place(course, "source", entry).unlink(missing_ok=True)  # so that the next build tries again
        message = str(result.get("log") or result.get("error"))
        if "Cannot add or remove cells" in message:
            raise CourseError(
                f"{entry.name}: an exercise or written question was added or removed, and its submissions have marks, "
                f"which nbgrader keeps cell by cell. Take the change back (until then the previous release stays), or "
                f"begin a new course tree with --tree, or remove all submissions of {entry.number} first: `autograder "
                f"remove STUDENT {entry.number} --yes` for each"
            )
        raise CourseError(f"nbgrader refuses {entry.name}:\n{message}")
    with api.gradebook as gradebook:
        gradebook.update_or_create_assignment(entry.name, duedate=due(entry))


def require_tree(course: Course) -> None:
    """Refuse to work in a tree that is not there.

    Raises:
        CourseError: the tree was not built.
    """
    if not settings_path(course).is_file():
        raise CourseError(f"there is no course tree in {course.tree}: run `autograder build` first")


def release_text(course: Course, entry: NotebookEntry) -> str:
    """What was released to students, as the tree holds it.

    Raises:
        CourseError: the tree was not built.
    """
    path = place(course, "release", entry)
    if not path.exists():
        raise CourseError(f"{path} is missing: run `autograder build` first")
    return path.read_text()


def release_notebook(course: Course, entry: NotebookEntry) -> "NotebookNode":
    """The same as a notebook."""
    import nbformat

    return nbformat.reads(release_text(course, entry), as_version=4)


def exercises(course: Course, entry: NotebookEntry) -> dict[str, float]:
    """The exercises of a released notebook that the judge grades, with their points."""
    cells = json.loads(release_text(course, entry))["cells"]
    graded = {cell["id"]: cell["metadata"]["nbgrader"] for cell in cells if role_of(cell["id"]) is CellRole.CHECK}
    return {exercise_of(name): about["points"] for name, about in graded.items()}


def points_of(course: Course, entry: NotebookEntry) -> dict[str, float]:
    """The exercises and written questions of a released notebook, with their points."""
    cells = json.loads(release_text(course, entry))["cells"]
    return {
        exercise_of(cell["id"]): cell["metadata"]["nbgrader"]["points"]
        for cell in cells
        if role_of(cell["id"]) in (CellRole.CHECK, CellRole.WRITTEN)
    }


def points_by_hand(course: Course, entry: NotebookEntry) -> float:
    """The points of a released notebook's written answers, which a person gives."""
    cells = json.loads(release_text(course, entry))["cells"]
    return sum(cell["metadata"]["nbgrader"]["points"] for cell in cells if role_of(cell["id"]) is CellRole.WRITTEN)


def nbgrader_api(course: Course) -> "NbGraderAPI":
    """nbgrader's own interface to the tree."""
    from nbgrader.apps import NbGraderAPI
    from nbgrader.coursedir import CourseDirectory
    from traitlets.config import Config

    from autograder.gradebook import revision

    revision.take()
    config = Config()
    config.CourseDirectory.root = str(course.tree)
    config.CourseDirectory.course_id = course.course_id
    config.CourseDirectory.db_url = database(course)
    config.HTMLExporter.sanitize_html = True
    config.SanitizeHTML.tags = html_cleaning.TAGS
    config.ClearSolutions.enforce_metadata = False
    coursedir = CourseDirectory(config=config)
    return NbGraderAPI(coursedir, config=config)


def write_json(path: Path, value: object) -> None:
    """`write` a value as readable JSON."""
    write(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def timestamp(when: datetime.datetime) -> str:
    """A time as nbgrader's timestamp.txt wants it."""
    return when.astimezone(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S.%f UTC")


def stamped(course: Course, entry: NotebookEntry, student: str) -> datetime.datetime | None:
    """When the submission that counts was handed in, in UTC; None if nothing says so.

    Raises:
        ValueError: the file beside it holds no time.
    """
    from dateutil.parser import parse  # as nbgrader reads it

    path = place(course, "submitted", entry, student).with_name("timestamp.txt")
    if not path.exists():
        return None
    when = parse(path.read_text().strip())
    return when.replace(tzinfo=when.tzinfo or datetime.UTC).astimezone(datetime.UTC)


def due(entry: NotebookEntry) -> datetime.datetime | None:
    """The deadline as nbgrader's gradebook holds it: UTC, without an offset. It reads "+0100" as 100 seconds."""
    return entry.deadline.astimezone(datetime.UTC).replace(tzinfo=None) if entry.deadline else None
