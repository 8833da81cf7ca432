"""The IPython kernel of a room: ipykernel's own, without what every forked kernel would do again in vain.

A fork shares the nursery's memory for as long as nobody touches it: each object looked at is a page
of 4 KB to be copied.
"""

import logging
import sys
from types import SimpleNamespace
from typing import Any

from ipykernel import ipkernel
from ipykernel.kernelapp import IPKernelApp
from traitlets import Type
from traitlets.config import Config

from autograder.nursery import ATTEND, DOOR
from utils import door

# It lists the files of all modules for a debugger, of which a room has no need: thousands of pages.
ipkernel.sys = SimpleNamespace(**(vars(sys) | {"modules": {}}))  # type: ignore[assignment]

SETTINGS = Config({"HistoryManager": {"enabled": False}})  # no database of what was typed, nor its thread


class RoomKernel(ipkernel.IPythonKernel):
    """An IPython kernel that knows one message more: attend to the door, for which it need not run a cell."""

    def __init__(self, **options: Any):
        super().__init__(**options)
        self.shell_handlers[f"{ATTEND}_request"] = self.attend

    async def attend(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Answer requests at the door until there is an empty one, then reply."""
        assert self.shell is not None and self.session is not None
        door.attend(self.shell.user_ns, DOOR)
        self.session.send(stream, f"{ATTEND}_reply", {}, parent, ident=ident)


class RoomKernelApp(IPKernelApp):
    """That kernel, told by arguments what others read from a command line."""

    kernel_class = Type(RoomKernel, klass=ipkernel.IPythonKernel)

    def parse_command_line(self, argv: Any = None) -> None:
        """There is none, and a parser for every option of Jupyter takes longer than a small cell."""


def start(connection_file: str) -> RoomKernelApp:
    """A kernel that listens where the file says; `start()` serves."""
    app = RoomKernelApp.instance(config=SETTINGS, connection_file=connection_file, log_level=logging.CRITICAL)
    app.initialize([])
    return app
