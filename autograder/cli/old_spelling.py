"""Commands that have sub-commands today, and had none once: what scripts and notes of those days say goes on."""

from typing import Any

from typer.core import TyperGroup

from autograder.cli import context

OLD = "old"  # the hidden sub-command that understands the old words


class WithOldSpelling(TyperGroup):
    """Gives words that begin with no sub-command to the one called `old`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As click's."""
        if args and args[0] not in {*self.commands, *ctx.help_option_names}:
            args = [OLD, *args]
        return super().parse_args(ctx, args)


def note(command: str) -> None:
    """Say on stderr how a command is written today; `command` is in backticks, as messages have commands."""
    context.print_error(f"this spelling is old and still works. Today it is {command}")
