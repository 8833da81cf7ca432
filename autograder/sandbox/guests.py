"""The kernel of another course's submission: what Jupyter's kernel has, and stock nbgrader's marks depend on.

Cells run within an event loop, which goes on between them. Outputs that widgets capture (`Output`, `interact`) are kept
apart from those of the cell, as nbclient does. What processes and libraries print past Python belongs to the cell.
"""

import asyncio
import importlib.util
import os
import resource
import signal
import sys
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from traitlets.config import Config

from autograder.sandbox.kernel_main import Captured, HandInShell, Outputs, begin_cell, joined, take_over
from utils.grading import protocol

STREAMS = {2: "stderr", 1: "stdout"}
# Arguments of Jupyter's kernel: code that reads its own, as argparse does, fails on these.
ARGUMENTS = ("ipykernel_launcher.py", "-f", "kernel.json")
CELL = "cell"  # the message to which all outputs belong, as widgets see it
MAX_SVG, MAX_PICTURE = 10_000_000, 1_000_000  # bytes of a drawing, and of its picture
DRAWING_SECONDS = 5
PACKAGES = ("site-packages", "dist-packages")


class NotebookShell(HandInShell):
    """A shell that code takes for Jupyter's: tqdm for example looks whether it runs in a notebook."""

    kernel = SimpleNamespace(get_parent=lambda: {"header": {"msg_id": CELL}})

    def enable_matplotlib(self, gui: str | None = None) -> Any:
        """Draw where the cell asks for, as Jupyter does: another course's notebooks know what they have."""
        return super(HandInShell, self).enable_matplotlib(gui)


NotebookShell.__name__, NotebookShell.__module__ = "ZMQInteractiveShell", "ipykernel.zmqshell"
JUPYTERS = ModuleType(NotebookShell.__module__)  # where Jupyter's shell is; tqdm looks whether it was imported
JUPYTERS.ZMQInteractiveShell = NotebookShell  # type: ignore[attr-defined]


def serve(shell: HandInShell, line: protocol.Pipes) -> None:
    """Say that we are ready, with an empty message, then run the cells that arrive until the judge closes `line`."""
    take_over(shell)
    shell.__class__ = NotebookShell
    shell.config.setdefault("IPKernelApp", Config())
    sys.modules.setdefault(JUPYTERS.__name__, JUPYTERS)
    sys.argv = [*ARGUMENTS]
    forget_course()
    sys.path.insert(_before_packages(sys.path), "")
    keep_streams()
    shell.outputs.prepared = with_picture
    widgets = Widgets(shell.outputs)
    widgets.offer()
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    with line:
        serving = loop.create_task(_serve(shell, line, widgets))
        while not serving.done():  # a cell may stop the loop
            loop.run_forever()


async def _serve(shell: HandInShell, line: protocol.Pipes, widgets: "Widgets") -> None:
    try:
        protocol.send(line, b"")
        while True:
            await _readable(line.reading)
            asked = begin_cell(shell, protocol.receive(line))
            await execute(shell, asked["source"])
            take_streams(shell.outputs)
            protocol.send(line, shell.outputs.packed())
            widgets.update()
    except EOFError:
        return
    finally:
        asyncio.get_running_loop().stop()


async def _readable(descriptor: int) -> None:
    """Wait until there are bytes to read, or the other side has closed; tasks of earlier cells run meanwhile."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()

    def heard() -> None:
        loop.remove_reader(descriptor)  # else it is called again beside a cell, whose own loop (nest_asyncio) takes it
        ready.set_result(None)

    loop.add_reader(descriptor, heard)
    await ready


async def execute(shell: HandInShell, source: str) -> None:
    """Run a cell in the running loop, as Jupyter's kernel does: only one that awaits lets other tasks run meanwhile."""
    with shell.executing():
        transformed = awaits = None
        with suppress(Exception):  # IPython shows what is wrong with it when it runs the cell
            transformed = shell.transform_cell(source)
            awaits = shell.should_run_async(source, transformed_cell=transformed)
        if not awaits:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            shell.show_error_of(shell.run_cell(source, store_history=True))
            return
        running = asyncio.ensure_future(shell.run_cell_async(source, store_history=True, transformed_cell=transformed))
        _cancel_when_interrupted(running)
        try:
            ran = await running
        finally:
            shell.events.trigger("post_execute")
        shell.events.trigger("post_run_cell", ran)
        shell.show_error_of(ran)


def _cancel_when_interrupted(running: "asyncio.Future[Any]") -> None:
    """Have an interrupt end the cell: in its code while that runs, else by cancelling what it waits for."""
    loop = asyncio.get_running_loop()

    def interrupted(*given: Any) -> None:
        if asyncio.current_task(loop) is running:
            raise KeyboardInterrupt
        loop.call_soon_threadsafe(running.cancel)

    signal.signal(signal.SIGINT, interrupted)


def forget_course() -> None:
    """Make the names of our own packages free, `utils` and `data` among them: a submission's files may have them.

    What runs here already is kept by its users.
    """
    for name in [module for module in sys.modules if module.split(".")[0] in ("autograder", "data", "utils")]:
        del sys.modules[name]
    ours = str(Path(__file__).parents[2])
    sys.path[:] = [path for path in sys.path if path not in (ours, "")]


def _before_packages(path: list[str]) -> int:
    """Where IPython puts the directory of a notebook in `path`: after the standard library, before packages."""
    return next((place for place, folder in enumerate(path) if os.path.basename(folder) in PACKAGES), len(path))


def keep_streams() -> None:
    """Have the streams that processes and libraries inherit end in files, where `take_streams` finds what they said."""
    for number, name in STREAMS.items():
        file = os.open(f"{tempfile.gettempdir()}/.{name}", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, number)
        os.close(file)


def take_streams(outputs: Outputs) -> None:
    """Add what a cell's processes and libraries said, as a notebook does."""
    for number, name in STREAMS.items():
        with suppress(OSError):  # the cell has closed it
            said = os.pread(number, max(outputs.characters, 0) + 1, 0)
            os.ftruncate(number, 0)
            outputs.put_first(name, said.decode(errors="replace"))


def with_picture(data: dict[str, Any]) -> dict[str, Any]:
    """What a cell displays; an SVG drawing also as a PNG, since pages show no SVG, if resvg-py is installed.

    It is drawn in a process of its own: a drawing that takes too much memory or time ends that process alone.
    """
    svg = data.get("image/svg+xml")
    if type(svg) is not str or len(svg) > MAX_SVG or "image/png" in data or "image/jpeg" in data:
        return data
    if not importlib.util.find_spec("resvg_py"):
        return data
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads; the child runs none of their code
        child = os.fork()
    if not child:
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (DRAWING_SECONDS, DRAWING_SECONDS))
            for number in STREAMS:
                os.dup2(os.open(os.devnull, os.O_WRONLY), number)
            import resvg_py

            with os.fdopen(writing, "wb") as end:
                end.write(resvg_py.svg_to_bytes(svg_string=svg, background="white", dpi=96))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as end:
        picture = end.read(MAX_PICTURE + 1)
    os.waitpid(child, 0)
    return data | {"image/png": picture} if picture and len(picture) <= MAX_PICTURE else data


class Widgets:
    """The part of a frontend in widgets that capture outputs (`ipywidgets.Output`), as nbclient plays it."""

    def __init__(self, outputs: Outputs):
        self._outputs = outputs
        self._captured: dict[str, Captured] = {}  # by the id of a widget's comm
        self._waiting: dict[str, Any] = {}  # comms of widgets that do not know yet what they have captured, by id

    def offer(self) -> None:
        """Have widgets open their comms here."""
        import comm
        from comm.base_comm import BaseComm

        heard = self._heard

        class Comm(BaseComm):
            """The line between a widget and its frontend."""

            def publish_msg(self, msg_type: str, data: Any = None, *given: Any, **named: Any) -> None:
                """Hear what the widget says."""
                heard(self, msg_type, data)

        comm.create_comm = Comm

    def _heard(self, comm: Any, kind: str, data: Any) -> None:
        state = (data or {}).get("state", {})
        if kind == "comm_open" and state.get("_model_name") == "OutputModel":
            self._captured[comm.comm_id] = Captured()
        elif kind == "comm_close":
            self._captured.pop(comm.comm_id, None)
        elif comm.comm_id in self._captured and "msg_id" in state:
            captured, captures = self._captured[comm.comm_id], self._outputs.captures
            captures[:] = [capture for capture in captures if capture is not captured]
            if state["msg_id"]:
                captures.append(captured)
                self._waiting[comm.comm_id] = comm

    def update(self) -> None:
        """Tell the widgets that captured something in the last cell what they hold, as a frontend does."""
        for name, comm in self._waiting.items():
            if name in self._captured:
                outputs = [as_output(joined(item)) for item in self._captured[name].items]
                state = {"method": "update", "state": {"outputs": outputs}, "buffer_paths": []}
                with suppress(Exception):  # of the cells' own code, which may watch the widget
                    comm.handle_msg({"content": {"data": state}, "buffers": []})
        self._waiting.clear()


def as_output(item: dict[str, Any]) -> dict[str, Any]:
    """What a cell has put out, in the form of a notebook's outputs."""
    match item:
        case {"kind": "stream", "name": name, "text": text}:
            return {"output_type": "stream", "name": name, "text": text}
        case {"kind": "error", "name": name, "message": message, "lines": lines}:
            return {"output_type": "error", "ename": name, "evalue": message, "traceback": lines}
    kind = "display_data" if item["kind"] == "display" else "execute_result"
    return {"output_type": kind, "data": item["data"], "metadata": {}}
