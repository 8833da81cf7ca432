"""The course as `course.toml` states it, and where its files lie."""

import datetime
import difflib
import importlib.util
import math
import os
import re
import sys
import tomllib
import zoneinfo
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, cast

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator, model_validator

from autograder import exercises, local_settings
from autograder.course_error import CourseError
from autograder.exercises import ExerciseIndex, Kind
from utils import variants

if TYPE_CHECKING:
    from utils.experiments.experiment import Experiment, Experiments

ROOT = Path(__file__).resolve().parents[1]  # of the packages autograder, utils and data
HELPERS = ("utils", "data")  # packages that students have too
CHECKS = "utils/checks"  # the public checks, below the folder of their course
RESULTS, SUMMARIES = "data/results", "data/summaries"  # recorded runs, and what students get in their place
BESIDE = ("solutions", *HELPERS, local_settings.NAME)  # what lies beside course.toml and runs, or says what runs
HOUR, DAY = 3600, 86400  # seconds
Name = Annotated[str, StringConstraints(pattern=r"^\d\d_[a-z0-9_]+$")]


def _folder() -> Path:
    """The folder of the course that commands work on.

    AUTOGRADER_COURSE names it; else it is the nearest one with a course.toml, from the current folder upwards; else
    the course that comes with this package.
    """
    if stated := os.environ.get("AUTOGRADER_COURSE"):
        return Path(stated).expanduser().resolve()
    try:
        here = Path.cwd()
    except OSError:  # it was removed
        return ROOT
    return next((above for above in (here, *here.parents) if os.path.isfile(above / "course.toml")), ROOT)


FOLDER = _folder()  # with course.toml, solutions/, notebooks/, utils/checks/ and .course/
if FOLDER != ROOT:  # its checks in the place of ours, and what other modules it has beside ours
    for _name in ("utils", "utils.checks", "utils.experiments", "data"):
        _inside, _path = _name.replace(".", "/"), importlib.import_module(_name).__path__
        _path[:] = [*([] if _inside == CHECKS else _path), str(FOLDER / _inside)]


def helpers(root: Path = ROOT, folder: Path = FOLDER) -> dict[str, Path]:
    """The files of `HELPERS` as students of the course have them, by their paths below the student repository.

    Of another course that is the Python of the package in `root`, without our checks, and what its own folder has.
    Recorded runs of which there is a summary are not among them, see `autograder.author.summaries`.
    """
    found = {}
    for place in dict.fromkeys((root, folder)):
        for package in HELPERS:
            for inside, _, files in os.walk(place / package):  # with pathlib it takes five times as long
                below = os.path.relpath(inside, place)
                for file in files:
                    name = f"{below}/{file}"
                    ours = file.endswith(".py") and (file == "__init__.py" or not name.startswith(CHECKS))
                    if not file.endswith(".pyc") and (place == folder or ours) and os.path.isfile(f"{inside}/{file}"):
                        found[name] = Path(inside, file)
    summed_up = {f"{RESULTS}/{Path(name).stem}" for name in found if name.startswith(f"{SUMMARIES}/")}
    return {name: path for name, path in sorted(found.items()) if name.rsplit("/", 2)[0] not in summed_up}


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Limits(_Section):
    """What one submission may use while it is graded."""

    cell_seconds: float = Field(30, gt=0)
    notebook_seconds: float = Field(600, gt=0)
    memory_mb: int = Field(3072, ge=512)
    processes: int = Field(256, ge=16)
    file_mb: int = Field(64, gt=0)
    disk_mb: int = Field(256, gt=0)
    output_kb: int = Field(256, gt=0)
    notebook_mb: float = Field(20, gt=0)


class Grading(_Section):
    """How submissions are executed."""

    profile: Literal["smoke", "cpu", "gpu"] = "smoke"
    pictures: bool = False
    gpu: bool = False  # whether kernels see the worker's GPU
    database: str = ""  # the gradebook's URL; "": SQLite in the course tree
    results_profiles: tuple[str, ...] = ("cpu", "gpu")  # in whose sizes experiments may have been run
    numbers_key: str = ""  # the numbers of 3.12 depend on it, see utils/variants.py; students get it with the release
    run_keys: bool = False  # whether the seeds of students' runs also depend on keys, see `autograder keys`
    preload: tuple[str, ...] = ()
    preload_checks: tuple[str, ...] = ()


class Settings(Protocol):
    """What a kernel needs to know of a course, this one or another."""

    @property
    def limits(self) -> Limits:
        """What one submission may use."""

    @property
    def grading(self) -> Grading:
        """How it is executed."""


class Late(_Section):
    """What a submission loses that comes after its deadline; nothing unless `points` or `percent` is given."""

    per: Literal["day", "hour"] = "day"  # each one that has begun counts
    points: float = Field(0, ge=0)  # lost for each
    percent: float = Field(0, ge=0, le=100)  # the same, of the points that were won
    most: float | None = Field(None, gt=0)  # not more than so many points, or percent
    grace_minutes: float = Field(0, ge=0)  # who is not later than this is not late
    no_credit_after_days: float | None = Field(None, gt=0)  # who is later loses all

    @model_validator(mode="after")
    def _one_unit(self) -> "Late":
        if self.points and self.percent:
            raise ValueError("state points or percent, not both")
        return self

    @property
    def takes_off(self) -> bool:
        """Whether late submissions lose anything."""
        return bool(self.points or self.percent or self.no_credit_after_days)

    def sentence(self) -> str:
        """The rule in words, for people."""
        if not self.takes_off:
            return "late submissions lose nothing (course.toml, [late])"
        parts = []
        if self.points or self.percent:
            unit = "%" if self.percent else " point" + "s" * (self.points != 1)
            parts.append(f"{self.percent or self.points:g}{unit} for each {self.per} that has begun")
            if self.most is not None:
                parts[0] += f", {self.most:g}{'%' if self.percent else ''} at most"
        if self.no_credit_after_days is not None:
            parts.append(f"everything after {self.no_credit_after_days:g} days")
        grace = f"; the first {self.grace_minutes:g} minutes are free" if self.grace_minutes else ""
        return f"late submissions lose {', and '.join(parts)}{grace} (course.toml, [late])"

    def penalty(self, score: float, seconds_late: float) -> float:
        """The points that a submission of `score` points loses."""
        if score <= 0 or seconds_late <= 60 * self.grace_minutes:
            return 0.0
        if self.no_credit_after_days is not None and seconds_late > DAY * self.no_credit_after_days:
            return score
        begun = math.ceil(seconds_late / (DAY if self.per == "day" else HOUR))
        lost = min(begun * (self.points or self.percent), self.most or math.inf)
        return min(score, score * lost / 100 if self.percent else lost)


class Platform(_Section):
    """How a learning platform names what students handed in, when it packs them all into one zip.

    Patterns are regular expressions for a file's whole name, or for that of a student's folder. Their groups say what
    is known: `name` (always), `id` (the platform's number), `late` (whether it marks the file), `attachment` (of two
    files of a student the later one has the larger number), `time` (see `time_format`).
    """

    name: str
    files: tuple[re.Pattern[str], ...] = ()  # the first that fits is taken
    folders: tuple[re.Pattern[str], ...] = ()
    # A number goes with a name for ever, or differs in each assignment and only tells two of one name apart.
    numbers: Literal["student", "assignment", "none"] = "none"
    # The zip states when each file was handed in; not if all its times are alike; never; or the file's name does.
    times: Literal["zip", "differing", "none", "name"] = "zip"
    time_format: str = "%Y-%m-%d-%H-%M-%S"  # for Python's strptime
    once: str = ""  # what it writes once into each name; where it stands twice, a student wrote it, to be another
    form_of: str = ""  # another row, whose pattern these names fit too: they are these where all of a download are
    hidden: tuple[str, ...] = ()  # what everybody is called where names are hidden, in small letters

    @model_validator(mode="after")
    def _has_groups(self) -> "Platform":
        if not self.files and not self.folders:
            raise ValueError("write at least one pattern, in `files` or in `folders`")
        for pattern in (*self.files, *self.folders):
            if "name" not in pattern.groupindex:
                raise ValueError(f"the pattern {pattern.pattern} needs a group (?P<name>...) for the student's name")
        if self.times == "name" and not all("time" in pattern.groupindex for pattern in self.files):
            raise ValueError("where names state the time, each pattern of `files` needs a group (?P<time>...)")
        return self


class Points(dict[str, float]):
    """Points by exercise, never changed: a notebook that has them can be a key."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


class Total(_Section):
    """How `autograder export --format totals` adds notebooks up."""

    weights: dict[str, Annotated[float, Field(ge=0)]] = {}  # by notebook, its number or its name; 1 for all others
    drop: int = Field(0, ge=0)  # so many notebooks of each student do not count, the lowest ones
    points: float = Field(100, gt=0)  # of the total

    def weight(self, entry: "NotebookEntry") -> float:
        """How much a notebook counts beside others."""
        return next((self.weights[name] for name in (entry.name, entry.number) if name in self.weights), 1.0)


class Report(_Section):
    """What the class report shows besides what it always does."""

    predictions: bool = False  # a table of what the class predicted, read from the cells that were handed in


class NotebookEntry(_Section):
    """One notebook of the course."""

    name: Name
    title: str
    builds: str = ""  # what students build and measure in it, for docs/course.md
    measures: str = ""
    deadline: datetime.datetime | None = None
    experiments: str = ""  # the module that has them, see `utils.experiments.experiment.Experiments`
    preload: tuple[str, ...] = ()  # what its kernels import besides `Grading.preload` and its experiments
    preload_checks: tuple[str, ...] = ()  # what its checks import later besides `Grading.preload_checks`
    # By exercise or written question, in place of the author's; 0: it stays in the notebook and counts nothing.
    points: dict[str, Annotated[float, Field(ge=0)]] = Points()
    column: str = ""  # the heading of its scores in files for learning platforms; "": its name
    text: str = ""  # a file in the place of solutions/NN_name/notebook.py, such as a translation of it

    @field_validator("points")
    @classmethod
    def _can_be_hashed(cls, points: dict[str, float]) -> Points:
        return Points(points)

    @field_validator("deadline", mode="before")
    @classmethod
    def _may_be_none(cls, deadline: Any) -> Any:
        return None if deadline == "none" else deadline

    @field_validator("deadline")
    @classmethod
    def _has_offset(cls, deadline: datetime.datetime | None) -> datetime.datetime | None:
        if deadline is not None and deadline.utcoffset() is None:
            raise ValueError("state its offset from UTC as well, 2027-02-07T23:59:00+01:00")
        return deadline

    @property
    def number(self) -> str:
        """The two digits that people call it by."""
        return self.name[:2]

    @property
    def public_checks(self) -> str:
        """The module with the checks that students have too."""
        return f"utils.checks.nb{self.name}"

    def experiments_of(self, profile: str | None = None) -> "Mapping[str, Experiment]":
        """Its experiments of a profile by name, in the order of its table."""
        return self.experiment_module().experiments(self.name, profile)

    def experiment_module(self) -> "Experiments":
        """The module that has its experiments, which brings torch."""
        return cast("Experiments", importlib.import_module(self.experiments))

    @property
    def has_experiments(self) -> bool:
        """Whether one of its checks is of experiments' runs; those of other notebooks are not collected."""
        return bool(self.exercises_of_runs)

    @property
    def exercises_of_runs(self) -> list[str]:
        """The numbers of the exercises that are graded from experiments' runs, without importing their checks."""
        return [exercise.number for exercise in self.index if exercise.kind is Kind.RUNS]

    @property
    def index(self) -> ExerciseIndex:
        """What its public checks state of its exercises, without importing them; nothing without such a module."""
        module = importlib.util.find_spec(self.public_checks)
        return (
            exercises.index_of(Path(str(module.origin)).read_text(), str(module.origin)) if module else ExerciseIndex()
        )


class Course(_Section):
    """Everything in `course.toml`, and the course tree that nbgrader works in."""

    title: str
    course_id: Annotated[str, StringConstraints(pattern=r"^\w+$")]
    student_repository: str
    notebooks: tuple[NotebookEntry, ...]
    limits: Limits = Limits()
    grading: Grading = Grading()
    late: Late = Late()
    total: Total = Total()
    report: Report = Report()
    platforms: tuple[Platform, ...] = ()  # besides those that `autograder.intake.platforms` knows
    timezone: str = ""  # of the learning platform, whose downloads name none, such as Europe/Berlin
    tree: Path = FOLDER / ".course"
    local: Path | None = None  # the file of own settings that was laid over course.toml, see `local_settings`

    @field_validator("student_repository")
    @classmethod
    def _is_on_github(cls, address: str) -> str:
        address = address.removesuffix("/").removesuffix(".git")
        if not re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+", address):
            raise ValueError("write it like https://github.com/OWNER/NAME: Colab opens notebooks from there")
        return address

    @field_validator("timezone")
    @classmethod
    def _is_known(cls, timezone: str) -> str:
        try:
            if timezone:
                zoneinfo.ZoneInfo(timezone)
        except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
            raise ValueError(f"`{timezone}` is not a time zone; write one like Europe/Berlin") from None
        return timezone

    @field_validator("notebooks")
    @classmethod
    def _are_different(cls, notebooks: tuple[NotebookEntry, ...]) -> tuple[NotebookEntry, ...]:
        twice = [name for name, times in Counter(entry.number for entry in notebooks).items() if times > 1]
        if twice:
            raise ValueError(f"{twice[0]} is listed twice")
        return notebooks

    @model_validator(mode="after")
    def _weighs_what_there_is(self) -> "Course":
        known = {name for entry in self.notebooks for name in (entry.name, entry.number)}
        for name in self.total.weights:
            if name not in known:
                raise ValueError(f"[total] weights: there is no notebook {name}; write its number or its name")
        return self

    @property
    def package(self) -> str:
        """The name of the Python package that holds the release, where an administrator has installed it."""
        return f"{self.course_id}_course"

    def utc(self, stated: datetime.datetime) -> datetime.datetime:
        """A time that names no zone, in UTC: read in `timezone`, else in this machine's zone."""
        zone = zoneinfo.ZoneInfo(self.timezone) if self.timezone else None
        return stated.replace(tzinfo=zone).astimezone(datetime.UTC)

    def in_zone(self, when: datetime.datetime) -> str:
        """A time in `timezone`, or in UTC if none is stated, as people read it."""
        if not self.timezone:
            return f"{when.astimezone(datetime.UTC):%Y-%m-%d %H:%M} UTC"
        return f"{when.astimezone(zoneinfo.ZoneInfo(self.timezone)):%Y-%m-%d %H:%M} ({self.timezone})"

    def notebook(self, name: str) -> NotebookEntry:
        """The notebook called `name`, by its whole name or its number.

        Raises:
            CourseError: no such notebook.
        """
        entries = [entry for entry in self.notebooks if name in (entry.name, entry.number, entry.number.lstrip("0"))]
        if not entries:
            known = ", ".join(entry.name for entry in self.notebooks)
            raise CourseError(f"there is no notebook `{name}` in course.toml; it lists {known}")
        return entries[0]

    def running(self, entries: Sequence[NotebookEntry]) -> "Course":
        """The course for a run of these notebooks: `Grading.preload` holds all that their kernels import."""
        names = [name for entry in entries for name in (*entry.preload, entry.experiments, entry.public_checks) if name]
        preload = tuple(dict.fromkeys((*self.grading.preload, *names)))
        return self.model_copy(update={"grading": self.grading.model_copy(update={"preload": preload})})

    def handed_in(self, entries: Sequence[NotebookEntry]) -> list[NotebookEntry]:
        """Those of these notebooks that somebody has handed in."""
        return [entry for entry in entries if any(self.tree.glob(f"submitted/*/{entry.name}/{entry.name}.ipynb"))]

    def select(self, names: list[str] | None) -> list[NotebookEntry]:
        """The notebooks called `names`, each once, or all of them."""
        return list(dict.fromkeys(self.notebook(name) for name in names) if names else self.notebooks)


def load(path: Path = FOLDER / "course.toml", tree: Path | None = None, database: str = "") -> Course:
    """Read and check `course.toml` and, if there is one, `course.local.toml` beside it, see `local_settings`.

    `tree` replaces the course tree `.course/`, `database` the gradebook's URL.

    Raises:
        CourseError: a file is missing or says something it may not; the message names the file, and the line or key.
    """
    if path == FOLDER / "course.toml":
        _must_be_ours(path)
    try:
        local = local_settings.path_beside(path)
    except ValueError as bad:
        raise CourseError(str(bad)) from None
    stated, own = _read(path), _read(local) if local else {}
    try:
        stated = local_settings.merged(stated, own)
    except ValueError as bad:
        raise CourseError(f"{local or path}: {bad}") from None
    try:
        if database:
            stated["grading"] = stated.get("grading", {}) | {"database": database}
        more = {"tree": tree.resolve()} if tree else {}
        course = Course.model_validate(stated | more | ({"local": local} if local else {}))
    except ValidationError as bad:
        wrong = (
            local if local and any(local_settings.states(own, stated, error["loc"]) for error in bad.errors()) else path
        )
        lines = (
            f"  {_key(error['loc'], stated)}: {_told(error['loc'], error['type'], error['msg'])}"
            for error in bad.errors()
        )
        raise CourseError(f"{wrong} has a mistake:\n" + "\n".join(lines)) from None
    for entry in course.notebooks:
        if not folder_of(entry).is_dir():
            known = ", ".join(
                sorted(path.name for path in (FOLDER / "solutions").glob("[0-9][0-9]_*") if path.is_dir())
            )
            where = path if not any(row.get("name") == entry.name for row in own.get("notebooks", ())) else local
            raise CourseError(f"{where} names {entry.name}, and solutions/{entry.name} is missing; there are {known}")
    variants.use_key(course.grading.numbers_key)
    return course


def _read(path: Path) -> dict[str, Any]:
    """What a TOML file states.

    Raises:
        CourseError: it cannot be read; the message names the line.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as bad:
        raise CourseError(f"{path} cannot be read ({bad}): save it in UTF-8") from None
    except OSError as bad:
        raise CourseError(f"{path} cannot be read: {bad.strerror}") from None
    except tomllib.TOMLDecodeError as bad:
        raise CourseError(f"{path}: {bad}") from None


def another_clone() -> bool:
    """Whether the current folder's course is a clone of this package, and the command is another clone's."""
    return FOLDER != ROOT and (FOLDER / "autograder" / "course.py").is_file()


def _must_be_ours(path: Path) -> None:
    """Refuse a course that only lies near by: its checks would run as us.

    Raises:
        CourseError: there is no course, or another user's, or one whose modules have names of ours.
    """
    if not path.exists():
        raise CourseError(
            f"there is no course.toml in {os.environ.get('AUTOGRADER_COURSE', 'this folder or above it')}: go into "
            "the folder of a course, or make one, `autograder new-course DIR`"
        )
    if FOLDER == ROOT:
        return
    if another_clone():
        raise CourseError(
            f"{FOLDER} is a clone of its own, and this command belongs to another one, {ROOT} (its environment is "
            f"{sys.prefix}): set up an environment here with `make .venv/ready` and use that, or go to {ROOT}"
        )
    # A link to a file of ours belongs to the account that made it, and what runs as us lies beside course.toml.
    places = [place for place in (FOLDER, path, *(FOLDER / name for name in BESIDE)) if place.exists()]
    owners = {state.st_uid for place in places for state in (place.lstat(), place.stat())}
    if owners - {os.getuid(), 0} and not os.environ.get("AUTOGRADER_COURSE"):
        raise CourseError(
            f"{path}, or what lies beside it, belongs to another user, whose checks would run as you: "
            f"if you trust them, set AUTOGRADER_COURSE={FOLDER}"
        )
    own = (file.relative_to(FOLDER) for package in HELPERS for file in (FOLDER / package).rglob("*.py"))
    twice = [str(file) for file in own if (ROOT / file).is_file() and not file.as_posix().startswith(CHECKS)]
    if twice:
        raise CourseError(f"{', '.join(twice)} of {FOLDER}: modules of autograder have these names, choose others")


def _key(place: tuple[int | str, ...], stated: dict[str, Any]) -> str:
    """The key that an error is about; of a notebook it says which."""
    words = [str(part) for part in place]
    if len(place) > 1 and place[0] == "notebooks" and isinstance(place[1], int):
        row = stated["notebooks"][place[1]]
        words[1] = str(row.get("name", f"number {place[1] + 1}")) if isinstance(row, dict) else words[1]
    return ".".join(words)


def _told(place: tuple[int | str, ...], kind: str, message: str) -> str:
    match kind:
        case "extra_forbidden":
            return "there is no such key" + _meant(place)
        case "datetime_from_date_parsing" | "datetime_parsing":
            return "write it like 2027-02-07T23:59:00+01:00, without quotes"
    return message.removeprefix("Value error, ").replace("Input should be", "it must be")


def _meant(place: tuple[int | str, ...]) -> str:
    """What an unknown key may have meant."""
    name, top = str(place[-1]), len(place) == 1
    if name in Course.model_fields and not top:
        return " here: it belongs at the top of the file, above the first [table]"
    known = Course.model_fields if top else NotebookEntry.model_fields if place[0] == "notebooks" else {}
    near = difflib.get_close_matches(name, known, 1)
    return f"; is `{near[0]}` meant?" if near else ""


def folder_of(entry: NotebookEntry) -> Path:
    """The author's folder of a notebook."""
    return FOLDER / "solutions" / entry.name
