"""The command line: a module for each command, which is one thing that an instructor does."""

import gc
import sys
from pathlib import Path
from typing import Annotated

import typer

from autograder.cli import (
    audit,
    build,
    collect,
    context,
    demo,
    doctor,
    explain,
    export,
    extend,
    feedback,
    grade,
    group,
    keys,
    mark,
    nbgrader,
    new_course,
    record,
    regrade,
    release,
    remove,
    report,
    roster,
    similar,
    status,
    watch,
)
from autograder.course import CourseError

HELP = (
    "Build, release, collect and grade the notebooks of the course in course.toml, of this folder or one above it. "
    "[b]new-course[/b] DIR begins another one.\n\n"
    "The usual way: [b]build[/b], [b]release[/b] --to DIR, then for each deadline [b]collect[/b] SOURCE, "
    "[b]grade[/b], [b]feedback[/b], [b]report[/b], [b]export[/b]. Try it without students: [b]demo[/b]."
)
app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
)
INTERRUPTED = 130  # the exit status, as shells have it


@app.callback(help=HELP)
def options(
    tree: Annotated[
        Path | None, typer.Option(help="The course tree to work in; default: .course/", show_default=False)
    ] = None,
    db: Annotated[
        str,
        typer.Option(envvar="AUTOGRADER_DB", help="The gradebook's URL, postgresql://...; default: course.toml's."),
    ] = "",
) -> None:
    """Note what holds for every command."""
    context.chosen.clear()  # a process may run several
    if tree:
        if tree.exists() and not tree.is_dir():
            raise CourseError(f"--tree {tree} is no folder: name the folder of the course tree")
        context.chosen["tree"] = tree
    if db:
        context.chosen["database"] = db


for _command in (
    build.build,
    new_course.new_course,
    record.record,
    release.release,
    collect.collect,
    grade.grade,
    watch.watch,
    regrade.regrade,
    status.status,
    roster.roster,
    extend.extend,
    audit.audit,
    keys.keys,
    feedback.feedback,
    report.report,
    group.group,
    mark.mark,
    similar.similar,
    explain.explain,
    export.export,
    remove.remove,
    nbgrader.nbgrader,
    doctor.doctor,
    demo.demo,
):
    app.command()(_command)


def main() -> None:
    """Run a command; what the user can mend is told in one line and ends with status 2."""
    try:
        app()
    except CourseError as bad:
        sys.exit(_told(str(bad)))
    except context.Interrupted as ended:
        _told(str(ended))
        sys.exit(INTERRUPTED)
    except (KeyboardInterrupt, SystemExit) as ended:
        if isinstance(ended, SystemExit) and ended.code != INTERRUPTED:  # what typer makes of an interrupt
            raise
        _told("interrupted; what was finished is kept, and the same command goes on from there")
        sys.exit(INTERRUPTED)
    except Exception as bad:
        sandbox = sys.modules.get("autograder.sandbox.sandbox")  # most commands need none, and do not import it
        if sandbox is None or not isinstance(bad, sandbox.SandboxError):
            raise
        sys.exit(
            _told(
                f"{bad}\nHand-ins run in sandboxes, and this machine cannot make one. Grade on Linux with unprivileged "
                "user namespaces (or as root).\nIf you trust every submission with your files and your network, "
                "--trust-submissions grades without sandboxes."
            )
        )
    finally:
        gc.freeze()  # or Python, as it ends, looks once more through all that was imported: half a second


def _told(message: str) -> int:
    context.Terminal(stderr=True, highlight=False).print(f"autograder: {message}", markup=False, soft_wrap=True)
    return 2
