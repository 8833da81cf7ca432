"""A course directory of nbgrader, as its own configuration states it, and what is known of its submissions."""

import contextlib
import gc
import glob
import hashlib
import importlib.util
import io
import json
import logging
import os
import re
import tomllib
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from autograder.any_course.hand_in import NotGradable, digest
from autograder.any_course.settings import NO_NEEDS, Section
from autograder.any_course.written_files import size as size_of
from autograder.course import CourseError, Grading, Limits
from autograder.sandbox import preload, sandbox
from autograder.sandbox.sandbox import NOTHING, Extras
from utils.files import write

if TYPE_CHECKING:
    from nbgrader.apps.autogradeapp import AutogradeApp
    from nbgrader.coursedir import CourseDirectory
    from sqlalchemy import URL

T = TypeVar("T", bound=BaseModel)
OURS = ".autograder"  # our folder in the course directory
UNFINISHED = ".partial"  # below nbgrader's directory of graded submissions
WRITTEN = ".written"  # the same, for files that cells wrote
MOST_OF_TIME = 1000  # bytes of a timestamp.txt
OUTPUT_KB = 4096  # of a cell, unless course.toml states another: stock nbgrader has no limit
FOOLED = (
    "Tests in cells run beside the student's code, which can still fool them: look at surprising answers. "
    "How a test becomes a check that it cannot reach: docs/any_course.md."
)
BEFORE = "graded earlier by stock nbgrader and left as it is; --again grades it here"
GRADED, UNGRADABLE = "graded", "ungradable"
STATES = (GRADED, "waiting", UNGRADABLE)
# What is imported once, before kernels are forked, if a source notebook imports it.
PRELOADED = {
    "matplotlib": ("matplotlib.pyplot", "matplotlib_inline.backend_inline"),
    "numpy": ("numpy",),
    "pandas": ("pandas",),
    "scipy": ("scipy.stats", "scipy.optimize"),
    "seaborn": ("seaborn",),
    "sklearn": ("sklearn.base",),
    "sympy": ("sympy",),
    "torch": ("torch",),
}
# Names of kernels: python2, python2.7, py27, conda-env-py27-py; not py2024.
PYTHON_2 = re.compile(r"(?<![a-z])i?py(?:thon)?[\s_.-]*2(?:[\s_.-]?[67])?(?!\w)", re.IGNORECASE)
IMPORTS = re.compile(r"^\s*(?:import|from)\s+(\w+)", re.MULTILINE)


class _Stated(BaseModel):
    """What a course.toml in the course directory may say; the rest of it is not read."""

    limits: dict[str, Any] = {}
    grading: dict[str, Any] = {}
    nbgrader: Section = NO_NEEDS


@dataclass
class Record:
    """What is known of a submission that was graded; `.autograder/records/` holds it."""

    student: str
    assignment: str
    status: str
    reason: str = ""
    score: float = 0.0  # of nbgrader's gradebook, marks by hand included, without the late penalty
    penalty: float = 0.0  # for being late; `nbgrader export` subtracts it, down to 0
    points: float = 0.0
    to_mark: bool = False  # whether nbgrader waits for a person
    remarks: list[str] = field(default_factory=list)
    seconds: float = 0.0
    digest: str = ""  # of the submission and of all that its marks depend on
    retry: bool = False  # the grader failed, not the submission: the next run tries again


RECORD = TypeAdapter(Record)


@dataclass(frozen=True)
class Job:
    """A submission of an assignment."""

    assignment: str
    student: str
    folder: Path
    digest: str
    known: Record | None
    unreadable: str = ""

    @property
    def settled(self) -> bool:
        """Whether its record is up to date."""
        return self.known is not None and not self.known.retry and self.known.digest == self.digest


@dataclass(frozen=True)
class CourseDir:
    """A course directory; `limits` and `grading` are what kernels need to know of it."""

    app: "AutogradeApp"  # nbgrader's, with the instructor's configuration
    limits: Limits
    grading: Grading
    timeouts: bool = True  # whether cells have nbgrader's time limits; False if course.toml states cell_seconds
    section: Section = NO_NEEDS  # [nbgrader] of course.toml
    extras: Extras = NOTHING  # what kernels are shown of the host

    @property
    def root(self) -> Path:
        """Its folder."""
        return Path(self.app.coursedir.root)

    @property
    def ours(self) -> Path:
        """Our folder in it: records, and a lock."""
        return self.root / OURS

    @property
    def unfinished(self) -> str:
        """The step, in nbgrader's words, in which a submission is while it is graded."""
        return os.path.join(self.app.coursedir.autograded_directory, UNFINISHED)

    def place(self, step: str, student: str, assignment: str) -> Path:
        """The folder of a submission in one of nbgrader's steps."""
        return Path(os.path.normpath(self.app.coursedir.format_path(step, student, assignment)))

    def source(self, assignment: str) -> Path:
        """The directory of an assignment's source."""
        return self.place(self.app.coursedir.source_directory, ".", assignment)

    def written(self, student: str, assignment: str) -> Path:
        """The directory of the files that a submission's cells have written, while it is graded."""
        return self.place(os.path.join(self.app.coursedir.autograded_directory, WRITTEN), student, assignment)

    def coursedir(self, database: str = "", assignment: str = "") -> "CourseDirectory":
        """Return nbgrader's own view of the course, in which graded submissions are unfinished ones.

        `database` is another gradebook than the course's. Hooks are called with `assignment`.
        """
        from nbgrader.coursedir import CourseDirectory

        own = self.app.coursedir
        database = database or own.db_url
        return CourseDirectory(
            parent=self.app,
            root=own.root,
            db_url=database,
            autograded_directory=self.unfinished,
            assignment_id=assignment,
        )

    def record_path(self, assignment: str, student: str) -> Path:
        """Where the record of a submission lies."""
        return self.ours / "records" / assignment / f"{student}.json"

    def load_record(self, assignment: str, student: str) -> Record | None:
        """The record of a submission; None if there is none that can be read."""
        try:
            return RECORD.validate_json(self.record_path(assignment, student).read_bytes())
        except (OSError, ValueError):
            return None

    def keep_record(self, record: Record) -> None:
        """Write the record of a submission."""
        text = json.dumps(asdict(record), indent=1, ensure_ascii=False) + "\n"
        write(self.record_path(record.assignment, record.student), text)


def open_course(folder: Path) -> CourseDir:
    """Read `nbgrader_config.py`, as `nbgrader autograde` does when it is started in `folder`, and a course.toml there.

    The configuration is code, which is run: it is the instructor's.

    Raises:
        CourseError: there is no such folder, or something in it cannot be read.
    """
    if not folder.is_dir():
        raise CourseError(f"there is no folder {folder}")
    if seen := sandbox.shown(folder):
        raise CourseError(f"{folder} lies in {seen}, which submissions can read: move the course elsewhere")
    from nbgrader.apps.autogradeapp import AutogradeApp
    from nbgrader.preprocessors import Execute
    from sqlalchemy import make_url

    app = AutogradeApp(raise_config_file_errors=True)
    with contextlib.chdir(folder):
        try:
            with contextlib.redirect_stderr(io.StringIO()) as said:  # that there is no configuration, for example
                app.initialize([])
        except SystemExit:
            raise CourseError(
                f"nbgrader cannot read its configuration in {folder}: {said.getvalue().strip()}"
            ) from None
        except Exception as bad:
            raise CourseError(f"the configuration in {folder}: {type(bad).__name__}: {bad}") from bad
        app.coursedir.root, app.coursedir.db_url = app.coursedir.root, app.coursedir.db_url  # defaults of this folder
    _quiet(app.log)
    if Path(app.coursedir.root).resolve() != folder.resolve():
        raise CourseError(
            f"the configuration in {folder} says that the course is in {app.coursedir.root}: give that directory as "
            "--course-dir, or correct c.CourseDirectory.root"
        )
    database = make_url(app.coursedir.db_url)
    if database.drivername.startswith("sqlite") and not os.path.isfile(database.database or ""):
        raise CourseError(
            f"there is no gradebook {database.database}: `nbgrader generate_assignment NAME` makes one. "
            "Is this the folder in which `nbgrader autograde` is started?"
        )
    _require_current(database)
    _require_settings(app, folder)
    limits, grading, section = _stated(folder)
    timeouts = "cell_seconds" not in limits
    if timeouts:
        seconds = Execute(parent=app).timeout
        limits["cell_seconds"] = seconds if seconds and seconds > 0 else Limits().notebook_seconds
    extras = section.extras(folder.resolve(), _private(app, database, folder))
    return CourseDir(app, _checked(Limits, limits, folder), _grading(grading, folder), timeouts, section, extras)


def _private(app: "AutogradeApp", database: "URL", folder: Path) -> list[Path]:
    """What of a course no submission may read."""
    own = app.coursedir
    steps = (own.source_directory, own.submitted_directory, own.autograded_directory, own.feedback_directory)
    private = [Path(own.root, step) for step in steps] + [folder / OURS, folder / "nbgrader_config.py"]
    if database.drivername.startswith("sqlite"):
        private.append(folder / (database.database or ""))
    return private


def _require_current(database: "URL") -> None:
    """Check that a gradebook has the tables and columns of the installed nbgrader.

    Raises:
        CourseError: it lacks some, or cannot be read.
    """
    from nbgrader.api import Base
    from sqlalchemy import create_engine, inspect
    from sqlalchemy.exc import SQLAlchemyError

    engine = create_engine(database)
    try:
        there = inspect(engine)
        names = there.get_table_names()
        columns = {table: {column["name"] for column in there.get_columns(table)} for table in names}
    except SQLAlchemyError as bad:
        reason = str(bad).splitlines()[0]
        raise CourseError(f"the gradebook {database.render_as_string()} cannot be read: {reason}") from None
    finally:
        engine.dispose()
    lacking = [
        f"{table.name}.{column.name}"
        for table in Base.metadata.sorted_tables
        for column in table.columns
        if column.name not in columns.get(table.name, ())
    ]
    if names and lacking:
        raise CourseError(
            f"the gradebook {database.render_as_string()} was made by an older nbgrader (it has no {lacking[0]}): "
            "back it up, and run `nbgrader db upgrade` in the course's folder"
        )


def _require_settings(app: "AutogradeApp", folder: Path) -> None:
    """Make every part of nbgrader that the configuration has a say in, so that a bad value is found before grading.

    Raises:
        CourseError: nbgrader refuses a setting.
    """
    from nbconvert.exporters import NotebookExporter
    from nbconvert.writers import FilesWriter
    from nbgrader.converters import Autograde

    with contextlib.chdir(folder):
        try:
            autograde = Autograde(coursedir=app.coursedir, parent=app)
            FilesWriter(parent=autograde, config=autograde.config)
            exporter = NotebookExporter(parent=autograde, config=autograde.config)
            for step in (*autograde.sanitize_preprocessors, *autograde.autograde_preprocessors):
                exporter.register_preprocessor(step)
        except Exception as bad:  # the instructor's own plugins and hooks are imported
            raise CourseError(f"the configuration in {folder}: {type(bad).__name__}: {bad}") from bad


def _quiet(log: logging.Logger) -> None:
    """Leave nbgrader its log file alone: what it says on the terminal, we say in a sentence."""
    for handler in [handler for handler in log.handlers if not isinstance(handler, logging.FileHandler)]:
        log.removeHandler(handler)
    log.propagate = False
    log.addHandler(logging.NullHandler())  # else Python prints warnings itself


def begin(folder: Path) -> None:
    """Begin to import in the background what kernels of this course need; call it before nbgrader is imported."""
    if not folder.is_dir():
        return
    gc.disable()  # until `preload.settle`
    preload.fork_server(_grading(_stated(folder)[1], folder).preload).start()


def _stated(folder: Path) -> tuple[dict[str, Any], dict[str, Any], Section]:
    """The limits, the settings and the needs that a course.toml in `folder` states; our defaults otherwise."""
    path = folder / "course.toml"
    try:
        stated = _Stated.model_validate(tomllib.loads(path.read_text()) if path.exists() else {})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, ValidationError) as bad:
        raise CourseError(f"{path}: {bad}") from None
    return {"output_kb": OUTPUT_KB} | stated.limits, stated.grading, stated.nbgrader


def _grading(stated: dict[str, Any], folder: Path) -> Grading:
    """How kernels are started: as stated, and with the libraries that the notebooks in `source/` import."""
    grading = _checked(Grading, {name: stated[name] for name in ("preload", "gpu") if name in stated}, folder)
    names: set[str] = set()
    for path in folder.glob("source/**/*.ipynb"):
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError):  # nbgrader says what is wrong with it
            for cell in json.loads(path.read_bytes())["cells"]:
                names |= set(IMPORTS.findall("".join(cell["source"])))
    there = [name for name in PRELOADED if name in names and importlib.util.find_spec(name)]
    modules = [module for name in there for module in PRELOADED[name]]
    return grading.model_copy(update={"preload": tuple(dict.fromkeys((*grading.preload, *modules)))})


def _checked(kind: type[T], stated: dict[str, Any], folder: Path) -> T:
    try:
        return kind.model_validate(stated)
    except ValidationError as bad:
        raise CourseError(f"{folder / 'course.toml'}: {bad}") from None


def languages(course: CourseDir, assignment: str) -> dict[str, str]:
    """What notebooks of an assignment are written in that is not Python, by notebook.

    Raises:
        CourseError: nbgrader's gradebook does not know the assignment.
    """
    kernels = {}
    with _gradebook(course) as gradebook:
        _require(gradebook, assignment)
        for notebook in gradebook.find_assignment(assignment).notebooks:
            spec = json.loads(notebook.kernelspec or "{}") or {}
            if other := other_language(spec):
                kernels[notebook.name] = other
    return kernels


def other_language(kernelspec: Any) -> str:
    """Return what a kernel runs that is not Python 3, by its name and language; "" if it runs Python 3."""
    spec = kernelspec if isinstance(kernelspec, dict) else {}
    language, name = str(spec.get("language") or ""), str(spec.get("name") or "")
    if PYTHON_2.search(name) or PYTHON_2.fullmatch(str(spec.get("display_name") or "")):
        return f"{name} (Python 2)" if name else "Python 2"
    if language.lower() == "python" or (not language and (not name or "py" in name.lower())):
        return ""
    return f"{name} ({language})" if language and name else name or language


def too_large(course: CourseDir, assignment: str) -> str:
    """Return why a sandbox has no room for the files of an assignment; "" if it has."""
    size, most = size_of(course.source(assignment)), course.limits.disk_mb
    if size <= most * 2**20:
        return ""
    return (
        f"the files in its source directory take {size / 2**20:.0f} MB, and a sandbox has {most} MB: raise disk_mb in "
        "[limits] of the course's course.toml"
    )


def assignments(course: CourseDir) -> list[str]:
    """The assignments that nbgrader's gradebook knows."""
    with _gradebook(course) as gradebook:
        return [assignment.name for assignment in gradebook.assignments]


def jobs(course: CourseDir, assignment: str, students: Collection[str] = ()) -> list[Job]:
    """Every submission of an assignment, as nbgrader finds them."""
    coursedir = course.app.coursedir
    step, about = coursedir.submitted_directory, _fingerprint(course, assignment)
    pattern = re.compile(coursedir.format_path(step, "(?P<student>.*)", re.escape(assignment), escape=True))
    excluded = coursedir.student_id_exclude.split(",")
    waiting = []
    for name in sorted(glob.glob(coursedir.format_path(step, coursedir.student_id, assignment))):
        matched = pattern.fullmatch(name)
        if not matched or not os.path.isdir(name) or matched["student"] in excluded:
            continue
        student, unreadable, content = matched["student"], "", hashlib.sha256(about)
        if students and student not in students:
            continue
        try:
            digest(Path(name), content, course.limits.disk_mb * 2**20)
        except (NotGradable, OSError) as why:
            unreadable = str(why)
            content.update(unreadable.encode(errors="surrogateescape"))
        known = course.load_record(assignment, student)
        waiting.append(Job(assignment, student, Path(name), content.hexdigest(), known, unreadable))
    return waiting


def states(course: CourseDir, assignment: str) -> dict[str, dict[str, str]]:
    """The students of an assignment by what is to be done, each with a reason: `STATES`, and who waits for a mark.

    Raises:
        CourseError: nbgrader's gradebook does not know the assignment.
    """
    with _gradebook(course) as gradebook:
        _require(gradebook, assignment)
    by_state: dict[str, dict[str, str]] = {name: {} for name in (*STATES, "to mark")}
    for job in jobs(course, assignment):
        record = job.known if job.settled else graded_before(course, job) if not job.known else None
        by_state[record.status if record else "waiting"][job.student] = record.reason if record else ""
        if record and record.to_mark:
            by_state["to mark"][job.student] = ""
    return by_state


def timestamp(course: CourseDir, folder: Path) -> datetime | None:
    """Return the time in a submission's timestamp.txt; None if there is none.

    Raises:
        NotGradable: it is not a time.
    """
    path = folder / "timestamp.txt"
    text = b""
    try:
        if path.exists():
            with path.open("rb") as file:
                text = file.read(MOST_OF_TIME + 1)
            if len(text) > MOST_OF_TIME:
                raise ValueError
        return course.app.coursedir.get_existing_timestamp(str(folder))
    except (OSError, ValueError, OverflowError, AttributeError):  # the last where nbgrader would say so itself
        shown = text[:50].decode(errors="replace").strip()
        raise NotGradable(f"timestamp.txt holds {shown!r}, not a time such as 2030-01-31 23:59:00 UTC") from None


def graded_before(course: CourseDir, job: Job) -> Record | None:
    """Return the record of a submission that stock nbgrader has graded; None if nbgrader itself would grade it now.

    Grading it again would make its reader confirm every mark by hand: nbgrader sets `needs_manual_grade`.
    """
    from nbgrader.api import MissingEntry

    own = course.app.coursedir
    place = course.place(own.autograded_directory, job.student, job.assignment)
    if job.unreadable or not place.is_dir():
        return None
    try:
        submitted, graded = timestamp(course, job.folder), timestamp(course, place)
    except NotGradable:  # grading says so
        return None
    if submitted and graded and submitted > graded:
        return None
    with _gradebook(course) as gradebook:
        try:
            submission = gradebook.find_submission(job.assignment, job.student)
        except MissingEntry:
            return None
        for notebook in submission.notebooks:
            name = f"{notebook.name}.ipynb"
            if (job.folder / name).exists() and not (place / name).exists():
                return None
            if any(
                grade.auto_score is None and grade.manual_score is None and not grade.needs_manual_grade
                for grade in notebook.grades
            ):  # nbgrader was ended before it saved the marks
                return None
        return Record(
            job.student,
            job.assignment,
            GRADED,
            score=submission.score,
            points=submission.max_score,
            penalty=submission.late_submission_penalty,
            to_mark=submission.needs_manual_grade,
            remarks=[BEFORE],
            digest=job.digest,
        )


def _fingerprint(course: CourseDir, assignment: str) -> bytes:
    """A digest of all besides the submission that its marks depend on: tests, points, files, settings."""
    import nbgrader

    settings = json.dumps(course.app.config, sort_keys=True, default=lambda value: getattr(value, "__qualname__", ""))
    about = hashlib.sha256(f"{nbgrader.__version__} {settings} {course.limits!r}".encode())
    if course.section != NO_NEEDS:
        about.update(repr(course.section).encode())
    with _gradebook(course) as gradebook:
        for notebook in sorted(gradebook.find_assignment(assignment).notebooks, key=lambda book: book.name):
            cells = sorted((cell.name, cell.cell_type, cell.checksum, cell.source) for cell in notebook.source_cells)
            points = sorted((cell.name, cell.max_score) for cell in notebook.grade_cells)
            about.update(repr((notebook.name, notebook.kernelspec, cells, points)).encode())
    source = course.source(assignment)
    for path in sorted(source.rglob("*")):
        if path.is_file() and path.suffix != ".ipynb":
            about.update(f"{path.relative_to(source)}\0".encode() + path.read_bytes())
    return about.digest()


def _gradebook(course: CourseDir) -> Any:
    from nbgrader.api import Gradebook

    from autograder.gradebook import revision

    revision.take()
    return Gradebook(course.app.coursedir.db_url, course.app.coursedir.course_id)


def _require(gradebook: Any, assignment: str) -> None:
    known = [assignment.name for assignment in gradebook.assignments]
    if assignment not in known:
        holds = f"it holds {', '.join(known)}" if known else "it holds none"
        raise CourseError(
            f"nbgrader's gradebook has no assignment {assignment}; {holds}. "
            f"`nbgrader generate_assignment NAME` enters one"
        )
