"""The course as `course.toml` states it, and where its files lie."""

import datetime
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

ROOT = Path(__file__).resolve().parents[1]
Name = Annotated[str, StringConstraints(pattern=r"^\d\d_[a-z0-9_]+$")]


class CourseError(Exception):
    """Something about the course is not as it must be; the message says what to do."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Limits(_Section):
    """What one hand-in may use while it is graded."""

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

    profile: str = "smoke"
    pictures: bool = False
    gpu: bool = False  # whether kernels see the worker's GPU
    database: str = ""  # the gradebook's URL; "": SQLite in the course tree
    results_profiles: tuple[str, ...] = ("cpu", "gpu")  # in whose sizes experiments may have been run
    run_keys: bool = False  # whether the seeds of students' runs also hang on keys, see `autograder keys`
    preload: tuple[str, ...] = ()
    preload_checks: tuple[str, ...] = ()


class NotebookEntry(_Section):
    """One notebook of the course."""

    name: Name
    title: str
    deadline: datetime.datetime | None = None
    preload: tuple[str, ...] = ()  # what its kernels import besides `Grading.preload`
    preload_checks: tuple[str, ...] = ()  # what its checks import later besides `Grading.preload_checks`

    @property
    def number(self) -> str:
        """The two digits that people call it by."""
        return self.name[:2]

    @property
    def public_checks(self) -> str:
        """The module with the checks that students have, too."""
        return f"utils.checks.nb{self.name}"

    @property
    def has_experiments(self) -> bool:
        """Whether one of its checks is of experiments' runs; those of other notebooks are not collected."""
        checks = ROOT / "utils" / "checks" / f"nb{self.name}.py"
        return checks.exists() and "\n@results_check(" in checks.read_text()


class Course(_Section):
    """Everything in `course.toml`, and the course tree that nbgrader works in."""

    title: str
    course_id: Annotated[str, StringConstraints(pattern=r"^\w+$")]
    student_repository: str
    notebooks: tuple[NotebookEntry, ...]
    limits: Limits = Limits()
    grading: Grading = Grading()
    tree: Path = ROOT / ".course"

    def notebook(self, name: str) -> NotebookEntry:
        """The notebook called `name`, by its whole name or its number.

        Raises:
            CourseError: no such notebook.
        """
        found = [entry for entry in self.notebooks if name in (entry.name, entry.number, entry.number.lstrip("0"))]
        if not found:
            known = ", ".join(entry.name for entry in self.notebooks)
            raise CourseError(f"there is no notebook `{name}` in course.toml; it lists {known}")
        return found[0]

    def running(self, entries: Sequence[NotebookEntry]) -> "Course":
        """The course for a run of these notebooks: `Grading.preload` holds all that their kernels import."""
        names = [name for entry in entries for name in (*entry.preload, entry.public_checks)]
        preload = tuple(dict.fromkeys((*self.grading.preload, *names)))
        return self.model_copy(update={"grading": self.grading.model_copy(update={"preload": preload})})

    def select(self, names: list[str] | None) -> list[NotebookEntry]:
        """The notebooks called `names`, each once, or all of them."""
        return list(dict.fromkeys(self.notebook(name) for name in names) if names else self.notebooks)


def load(path: Path = ROOT / "course.toml", tree: Path | None = None, database: str = "") -> Course:
    """Read and check `course.toml`; `tree` replaces the course tree `.course/`, `database` the gradebook's URL.

    Raises:
        CourseError: the file is missing or says something it may not; the message names the line or key.
    """
    try:
        stated = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as bad:
        raise CourseError(f"{path}: {bad}") from None
    try:
        if database:
            stated["grading"] = stated.get("grading", {}) | {"database": database}
        return Course.model_validate(stated | ({"tree": tree.resolve()} if tree else {}))
    except ValidationError as bad:
        lines = (f"  {'.'.join(map(str, error['loc']))}: {error['msg']}" for error in bad.errors())
        raise CourseError(f"{path} is not a course:\n" + "\n".join(lines)) from None


def room(entry: NotebookEntry) -> Path:
    """The author's folder of a notebook."""
    return ROOT / "solutions" / entry.name
