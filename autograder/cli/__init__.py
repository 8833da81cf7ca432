"""The command line: a module for each command, which is one thing that an instructor does."""

import gc
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

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
    summaries,
    watch,
)
from autograder.course import CourseError

HELP = (
    "Build, release, collect and grade the notebooks of the course in course.toml, of this folder or one above it. "
    "[b]new-course[/b] DIR begins another one.\n\n"
    "The usual way: [b]build[/b], [b]release[/b] --to DIR, then for each deadline [b]collect[/b] SOURCE, "
    "[b]grade[/b], [b]feedback[/b], [b]report[/b], [b]export[/b]. Try it without students: [b]demo[/b]."
)
COMMANDS: dict[str, Callable[..., None] | typer.Typer] = {
    "build": build.build,
    "new-course": new_course.new_course,
    "record": record.record,
    "summaries": summaries.summaries,
    "release": release.release,
    "collect": collect.collect,
    "grade": grade.grade,
    "watch": watch.watch,
    "regrade": regrade.regrade,
    "status": status.status,
    "roster": roster.roster,
    "extend": extend.extend,
    "audit": audit.app,
    "keys": keys.keys,
    "feedback": feedback.feedback,
    "report": report.report,
    "group": group.app,
    "mark": mark.mark,
    "similar": similar.similar,
    "explain": explain.explain,
    "export": export.export,
    "remove": remove.remove,
    "nbgrader": nbgrader.nbgrader,
    "doctor": doctor.doctor,
    "demo": demo.demo,
}


class InOrder(TyperGroup):
    """Lists the commands in the order in which a course needs them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """As click's."""
        return list(COMMANDS)


app = typer.Typer(
    cls=InOrder,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
)
WRONG = 2  # the exit status if the user can mend it
INTERRUPTED = 130  # the exit status, as shells have it


def print_version(wanted: bool) -> None:
    """Print the version of this package, and end."""
    if wanted:
        print(f"autograder {metadata.version('attention-graded')}")
        raise typer.Exit()


@app.callback(help=HELP)
def options(
    called: typer.Context,
    tree: Annotated[
        Path | None, typer.Option(help="The course tree to work in; default: .course/", show_default=False)
    ] = None,
    db: Annotated[
        str,
        typer.Option(envvar="AUTOGRADER_DB", help="The gradebook's URL, postgresql://...; default: course.toml's."),
    ] = "",
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and end.", callback=print_version, is_eager=True)
    ] = False,
) -> None:
    """Note what holds for every command."""
    context.chosen.clear()  # a process may run several
    context.command = called.invoked_subcommand or ""
    if tree:
        if tree.exists() and not tree.is_dir():
            raise CourseError(f"--tree {tree} is not a folder: name the folder of the course tree")
        context.chosen["tree"] = tree
    if db:
        context.chosen["database"] = db


for _name, _command in COMMANDS.items():
    if isinstance(_command, typer.Typer):
        app.add_typer(_command, name=_name)
    else:
        app.command(_name)(_command)


def main() -> None:
    """Run a command; what the user can mend is told in one line and ends with status 2."""
    try:
        app()
    except CourseError as bad:
        context.print_error(str(bad))
        sys.exit(WRONG)
    except context.Interrupted as ended:
        context.print_error(str(ended))
        sys.exit(INTERRUPTED)
    except (KeyboardInterrupt, SystemExit) as ended:
        if isinstance(ended, SystemExit) and ended.code != INTERRUPTED:  # what typer makes of an interrupt
            raise
        context.print_error("interrupted; what was finished is kept, and the same command goes on from there")
        sys.exit(INTERRUPTED)
    except Exception as bad:
        sandbox = sys.modules.get("autograder.sandbox.sandbox")  # most commands need none, and do not import it
        if sandbox is None or not isinstance(bad, sandbox.SandboxError):
            raise
        context.print_error(
            f"{bad}\nSubmissions run in sandboxes, and this machine cannot make one. Grade on Linux with unprivileged "
            "user namespaces (or as root).\nIf you trust every submission with your files and your network, "
            "--trust-submissions grades without sandboxes."
        )
        sys.exit(WRONG)
    finally:
        gc.freeze()  # or Python, as it ends, looks once more through all that was imported: half a second
