"""The reference of all commands, from the command line interface itself, by typer's own writer of documentation."""

from typer.cli import app as typers
from typer.testing import CliRunner

OPENING = "# `autograder`"


def text() -> str:
    """Markdown: a section for each command.

    Raises:
        RuntimeError: typer cannot write it.
    """
    ended = CliRunner().invoke(typers, ["autograder.cli", "utils", "docs", "--name", "autograder"])
    if ended.exit_code or not ended.output.startswith(OPENING):
        raise RuntimeError(f"typer cannot write the reference: {ended.output[:1000]} {ended.exception}")
    return ended.output.removeprefix(OPENING)
