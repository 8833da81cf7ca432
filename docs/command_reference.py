"""The reference of all commands, from the command line interface itself, by typer's own writer of documentation."""

import re

from typer.cli import app as typers
from typer.testing import CliRunner

from autograder.cli import old_spelling

OPENING = "# `autograder`"
# typer writes hidden sub-commands too, which `--help` does not show.
HIDDEN = re.compile(
    rf"^\* `{old_spelling.OLD}`: [^\n]*\n|^### `autograder \w+ {old_spelling.OLD}`\n.*?(?=^##|\Z)",
    re.MULTILINE | re.DOTALL,
)


def text() -> str:
    """Markdown: a section for each command.

    Raises:
        RuntimeError: typer cannot write it.
    """
    ended = CliRunner().invoke(typers, ["autograder.cli", "utils", "docs", "--name", "autograder"])
    if ended.exit_code or not ended.output.startswith(OPENING):
        raise RuntimeError(f"typer cannot write the reference: {ended.output[:1000]} {ended.exception}")
    return HIDDEN.sub("", ended.output.removeprefix(OPENING))
