"""`[nbgrader]` in a course directory's course.toml: what its notebooks need of this machine."""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from pydantic import BaseModel, ConfigDict

from autograder.course import CourseError
from autograder.sandbox import sandbox
from autograder.sandbox.sandbox import Extras

# Never shown, nor anything in them: what the system says of itself, and its settings.
CLOSED = ("/boot", "/dev", "/etc", "/proc", "/run", "/sys", "/var/run")
TAKEN = ("bin", "dev", "etc", "hand_in", "lib", "lib64", "proc", "run", "sbin", "sys", "tmp", "usr")  # in every sandbox
RIGHTS = stat.S_ISUID | stat.S_ISGID


class Section(BaseModel):
    """What `[nbgrader]` may say."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    packages: tuple[str, ...] = ()  # what notebooks import, as requirements of pip
    read_only: tuple[str, ...] = ()  # files and directories that notebooks may read
    programs: tuple[str, ...] = ()  # for `!` in cells, by name or path

    def missing_packages(self) -> dict[str, str]:
        """Packages that are not installed as stated, and what is there instead.

        Raises:
            CourseError: one is not written as pip takes it.
        """
        missing = {}
        for line in self.packages:
            try:
                wanted = Requirement(line)
            except InvalidRequirement as bad:
                raise CourseError(
                    f"course.toml, [nbgrader] packages: {line!r} is not a requirement of pip: {bad}"
                ) from None
            try:
                version = metadata.version(wanted.name)
            except metadata.PackageNotFoundError:
                missing[line] = "not installed"
                continue
            if not wanted.specifier.contains(version, prereleases=True):
                missing[line] = f"{version} is installed"
        return missing

    def require_packages(self) -> None:
        """Check that all packages are there.

        Raises:
            CourseError: some are not; the message says how to install them.
        """
        if missing := self.missing_packages():
            names = ", ".join(f"{name} ({why})" for name, why in missing.items())
            raise CourseError(
                f"packages that course.toml states in [nbgrader] are missing: {names}. {install(missing)}"
            )

    def extras(self, root: Path, private: Iterable[Path]) -> Extras:
        """What sandboxes show for this course, whose directory is `root`. Nothing of `private` is shown.

        Raises:
            CourseError: something is not there, or must not be shown.
        """
        return Extras(
            tuple(_program(name) for name in self.programs),
            tuple(place for name in self.read_only for place in _places(name, root, private)),
        )


NO_NEEDS = Section()


def install(requirements: Iterable[str]) -> str:
    """The sentence that says how packages are installed."""
    names = " ".join(f"'{name}'" if set(name) & set("<>=!~ []") else name for name in requirements)
    return f"Install them where `autograder` runs: `pip install -c constraints.txt {names}`"


def _program(name: str) -> str:
    """The path of a program.

    Raises:
        CourseError: there is none, or it runs with the rights of another user.
    """
    path = shutil.which(name)
    if not path:
        raise CourseError(f"course.toml, [nbgrader] programs: there is no program {name} on this machine")
    if os.stat(path).st_mode & RIGHTS:
        raise CourseError(
            f"course.toml, [nbgrader] programs: {path} runs with the rights of another user: leave it out"
        )
    return os.path.abspath(path)


def _places(name: str, root: Path, private: Iterable[Path]) -> list[tuple[str, str]]:
    """A file or directory, and each place where a sandbox shows it: its own, and as if the course were at the top.

    A cell's directory has nothing above it in a sandbox, so that `../helpers` is `/helpers` there.

    Raises:
        CourseError: it is not there, or must not be shown.
    """

    def refused(why: str) -> CourseError:
        return CourseError(f"course.toml, [nbgrader] read_only: {name} {why}")

    path = Path(os.path.abspath(root / Path(name).expanduser()))
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError):
        raise refused("is not there") from None
    for closed in (*map(Path, CLOSED), *(folder.resolve() for folder in private)):
        if real.is_relative_to(closed) or closed.is_relative_to(real):
            raise refused(f"holds {closed}, or lies in it: submissions must not read that")
    for wide in (Path.home(), Path(tempfile.gettempdir())):
        if wide.resolve().is_relative_to(real):
            raise refused(f"holds {wide}: state a directory below it")
    for other in _special_files(real):
        raise refused(
            f"holds {other}, a socket, a pipe or a device, through which a submission could reach other programs"
        )
    places = [] if sandbox.shown(real) else [(str(real), str(path))]
    inside = Path(os.path.relpath(path, root))
    if not inside.is_absolute() and ".." not in inside.parts:
        if inside.parts[0] in TAKEN:
            raise refused("has the name of a directory that every sandbox has: rename it")
        places.append((str(real), f"/{inside}"))
    return places


def _special_files(place: Path) -> Iterable[str]:
    """What is neither a file, nor a directory, nor a link."""
    if not place.is_dir():
        return [] if place.is_file() else [str(place)]
    return (
        os.path.join(folder, name)
        for folder, _, names in os.walk(place)
        for name in names
        if stat.S_IFMT(os.lstat(os.path.join(folder, name)).st_mode) not in (stat.S_IFREG, stat.S_IFLNK)
    )
