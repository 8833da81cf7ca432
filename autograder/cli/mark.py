"""`autograder mark`."""

from typing import Annotated

import typer

from autograder.cli import context
from autograder.cli.parameters import Section


def mark(
    question: Annotated[
        str, typer.Argument(help="A written question, 1.W1 for example; default: a list of all.", show_default=False)
    ] = "",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of this machine; default: a free one.")] = 0,
    names: Annotated[bool, typer.Option("--names", help="Name the students on the page.")] = False,
    section: Section = "",
) -> None:
    """Mark written answers question by question in a page, with the keyboard; Ctrl-C ends it.

    The page shows the question, its mark scheme and each different answer once. Other commands may be used meanwhile,
    and several people may mark at once, each with the address or with a command of their own.
    """
    import asyncio

    from autograder.gradebook import roster
    from autograder.marking import server
    from autograder.similarity import groups

    course = context.load()
    only = roster.in_section(course, section) if section else None
    if question:
        groups.question_of(course, question)

    def show(address: str) -> None:
        context.console.print(
            f"open {address} in a browser of this machine; Ctrl-C ends it", markup=False, soft_wrap=True
        )
        context.console.print("who has this address can mark: do not pass it on", markup=False, soft_wrap=True)

    try:
        asyncio.run(server.serve(course, question, port, names, show, only))
    except KeyboardInterrupt:
        context.console.print("ended; all marks that were saved are in the gradebook")
