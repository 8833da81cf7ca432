"""Submissions are taken, graded and answered with a feedback page as they arrive in a folder, until somebody ends
it.
"""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath

import watchfiles

from autograder.course import FOLDER, Course, CourseError, NotebookEntry
from autograder.gradebook import course_tree
from autograder.grading import grade
from autograder.grading.grading_record import Options, Record
from autograder.intake.collect import Collected, collect, require_hand_ins
from autograder.intake.platforms import is_noise
from autograder.reports.feedback import write_feedback

LOOK_SECONDS = 5  # after so long the folder is looked at, whatever the system says of changes
AGAIN_SECONDS = 30  # after so long what could not be done is tried once more
UNIT = """\
[Unit]
Description=Grades submissions of {title} as they arrive

[Service]
ExecStart="{python}" -P -m autograder.cli --tree "{tree}" watch "{folder}" --workers {workers}
WorkingDirectory={root}
{environment}Restart=on-failure

[Install]
WantedBy=default.target
"""


def watch(
    course: Course,
    folder: Path,
    options: Options,
    on_collected: Callable[[Collected], None],
    on_record: Callable[[Record], None],
    on_failure: Callable[[Exception], None],
    changes: Iterable[object] | None = None,
) -> None:
    """Take what `folder` holds and grade what waits; then the same for what arrives, without an end.

    A file that was taken while it was being written is taken again when it is whole. Nothing is lost when it is ended:
    begun again, it goes on with what is not graded. The libraries stay loaded in between, here and in the
    fork server.

    Args:
        folder: submissions as `collect` takes them; they stay there.
        on_failure: is told what stopped a round, such as a full disk. It is tried again a little later.
        changes: wakes us each time that it yields; by default when the folder changes, and every LOOK_SECONDS.

    Raises:
        CourseError: `require` misses something, or the first round fails, as `collect`, `grade` and
            `write_feedback` do.
    """
    require(course, folder)
    seen, tried = scan(folder), time.monotonic()
    everything = {(entry, "") for entry in course.notebooks}
    try:
        left = _round(course, folder, everything, options, on_collected, on_record)
    except CourseError:
        raise
    except Exception as why:  # as below: begun again, it would meet the same
        left = everything
        on_failure(why)
    for _ in changes if changes is not None else each_change(folder):
        now = scan(folder)
        if now == seen and not (left and time.monotonic() - tried >= AGAIN_SECONDS):
            continue
        seen, tried = now, time.monotonic()
        try:
            left = _round(course, folder, left, options, on_collected, on_record)
        except Exception as why:  # whatever one submission brings about, the next one is waited for
            left = everything
            on_failure(why)


def require(course: Course, folder: Path) -> None:
    """See that there is a folder of submissions to watch, and a course tree to take them into.

    Raises:
        CourseError: there is none; the message says what to do.
    """
    if not folder.is_dir():
        raise CourseError(f"{folder} is not a folder: give the one in which submissions arrive")
    require_hand_ins(course, folder)
    for entry in course.notebooks:
        course_tree.release_text(course, entry)


def each_change(folder: Path) -> Iterator[object]:
    """Wakes us when the folder changes, and every LOOK_SECONDS."""
    while True:
        try:
            yield from watchfiles.watch(
                folder,
                watch_filter=None,
                rust_timeout=1000 * LOOK_SECONDS,
                yield_on_timeout=True,
                raise_interrupt=True,
                ignore_permission_denied=True,
            )
        except (RuntimeError, OSError):  # of a file's name that is not UTF-8; of a folder that is gone or locked
            time.sleep(LOOK_SECONDS)
            yield None


def scan(folder: Path) -> dict[str, tuple[int, int]]:
    """When each file was written, and its size, without hidden files, which `collect` leaves out."""
    files = {}
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not is_noise(PurePosixPath(name))]
        for name in (name for name in names if not is_noise(PurePosixPath(name))):
            path = os.path.join(place, name)
            with contextlib.suppress(OSError):  # gone meanwhile, or in a folder that nobody may look into
                about = os.lstat(path)
                files[path] = about.st_mtime_ns, about.st_size
    return files


def _round(
    course: Course,
    folder: Path,
    left: set[tuple[NotebookEntry, str]],
    options: Options,
    on_collected: Callable[[Collected], None],
    on_record: Callable[[Record], None],
) -> set[tuple[NotebookEntry, str]]:
    """Take and grade what came, and what is left of earlier rounds; what is to be tried again.

    Of notebooks and students, a student "" stands for all.
    """
    collected = collect(course, folder) if scan(folder) else Collected()  # nothing came yet, which is not a mistake
    on_collected(collected)
    retry = set()
    for entry in course.notebooks:
        students = {student for notebook, student in {*collected.new, *left} if notebook == entry}
        if not students:
            continue
        chosen = None if "" in students else sorted(students)
        records = grade.grade(course, [entry], chosen, options, on_record=on_record)
        retry |= {(entry, record.student) for record in records if record.retry}
        write_feedback(course, [entry], students=chosen)
    return retry


def unit(course: Course, folder: Path, workers: int, database: str = "") -> str:
    """The text of a systemd unit that watches the folder, with this Python, this course, its tree and its settings.

    database: the gradebook's URL if it is not the one of course.toml.
    """
    own = {"AUTOGRADER_DB": database, "AUTOGRADER_LOCAL": str(course.local or "")}
    variables = " ".join(f'"{name}={_escaped(value)}"' for name, value in own.items() if value)
    return UNIT.format(
        title=_specified(course.title),
        python=_quoted(sys.executable),
        tree=_quoted(str(course.tree.resolve())),
        folder=_quoted(str(folder.resolve())),
        root=_specified(str(FOLDER)),
        workers=workers,
        environment=f"Environment={variables}\n" if variables else "",
    )


def _specified(text: str) -> str:
    """The text as a unit states it: a percent sign begins a specifier, see systemd.unit(5)."""
    return text.replace("%", "%%")


def _quoted(text: str) -> str:
    """The same between double quotes in a command, where variables are read too, see systemd.service(5)."""
    return _escaped(text).replace("$", "$$")


def _escaped(text: str) -> str:
    """The text between double quotes, where escapes are read, see systemd.syntax(7)."""
    return _specified(text).replace("\\", "\\\\").replace('"', '\\"')
