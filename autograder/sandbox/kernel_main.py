"""The IPython of one submission: runs its cells and answers the judge, on one line and in one thread.

A Jupyter kernel does the same with five ports, three threads and a signature for every message; a
sandbox has one listener, to whom nobody can connect but the judge. What a message says is in `serve`.
"""

import base64
import builtins
import getpass
import importlib
import io
import linecache
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NoReturn

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.error import StdinNotImplementedError, UsageError
from IPython.core.interactiveshell import ExecutionResult, InteractiveShell
from traitlets import Type
from traitlets.config import Config

from autograder.sandbox import stand_ins
from utils.grading import dispatch, forbidden, protocol, wire

SETTINGS = Config({"HistoryManager": {"enabled": False}})  # no database of what was typed, nor its thread
ONLY_JUPYTERS = ("autosave", "clear")  # magics for people who look at a notebook: here they do nothing
MAX_LINE = 1000
DEEP = 200  # calls; a traceback of more is one of a recursion
CALLS = 20  # shown of each end of it
TOO_MUCH = "printed more than it may"


class Outputs:
    """What the cell that runs puts out, as far as the judge will keep it."""

    def __init__(self) -> None:
        self.captures: list[Captured] = []  # widgets that take outputs at the moment; the last one gets them
        self.prepared: Callable[[dict[str, Any]], dict[str, Any]] = dict  # data in forms that the judge takes
        self.begin(0, 0, [])

    def begin(self, characters: int, outputs: int, kinds: list[str]) -> None:
        """Forget what was, and take so much of the next cell; of what is displayed, these MIME types."""
        self.items: list[dict[str, Any]] = []
        self.characters, self.outputs, self.kinds = characters, outputs, kinds
        self.cleared = False  # by what is put out next
        self.running = True

    def end(self) -> None:
        """The cell has ended. What an answer prints while a check calls it is shown nowhere and is never too much."""
        self.running = False

    def stream(self, name: str, text: str) -> None:
        """Add to what the cell has printed; raises KeyboardInterrupt when it is too much."""
        if not self.running:
            return
        text = self._fit(text)
        items = self._items()
        if items and items[-1].get("name") == name:
            items[-1]["text"].append(text)
        else:
            items.append({"kind": "stream", "name": name, "text": [text]})
        self._stop_if_too_much()

    def display(self, data: dict[str, Any], kind: str = "display") -> None:
        """Add what the cell shows, by MIME type; raises KeyboardInterrupt when it is too much.

        Of what is a picture too, no HTML is kept: without its script, a figure with sliders would be a heap of text.
        `kind` is "result" for the value of its last line.
        """
        if not self.running:
            return
        data, items = self.prepared(data), self._items()
        shown, still = {}, "image/png" in data
        for mime in self.kinds:
            if still and mime == "text/html":
                continue
            value = data.get(mime)
            if type(value) is bytes:
                value = base64.b64encode(value).decode()
            if type(value) is str:
                shown[mime] = self._fit(value)
        items.append({"kind": kind, "data": shown})
        self._stop_if_too_much()

    def error(self, kind: type[BaseException], message: str, lines: list[str], line: str = "") -> None:
        """Add an error, its traceback, and the line of the cell in which it was raised."""
        items = self._items()
        lines = [self._fit(str(line)) for line in lines]
        name, message = kind.__name__[:MAX_LINE], message[:MAX_LINE]
        items.append({"kind": "error", "name": name, "message": message, "lines": lines, "line": line[:MAX_LINE]})

    def put_first(self, name: str, text: str) -> None:
        """Add what was printed past Python, before all else: nobody knows when it was."""
        if text:
            self.items.insert(0, {"kind": "stream", "name": name, "text": [self._fit(text)]})

    def clear(self, wait: bool) -> None:
        """Forget what the cell has put out so far; with `wait` only when there is more."""
        place = self._place()
        place.cleared = wait
        if not wait:
            place.items.clear()

    def _place(self) -> "Outputs | Captured":
        """The last widget that captures outputs, or else the cell."""
        return self.captures[-1] if self.captures else self

    def _items(self) -> list[dict[str, Any]]:
        """The list into which the next output goes, emptied first if a cell has asked for that."""
        place = self._place()
        if place.cleared:
            self.clear(wait=False)
        return place.items

    def packed(self) -> bytes:
        """All of it as plain data."""
        return wire.dumps(_speakable([joined(item) for item in self.items]), lambda value: 0)

    def _fit(self, text: str) -> str:
        """As much as may be kept, and one more: so the judge sees that there was more."""
        kept = text[: max(self.characters + 1, 0)]
        self.characters -= len(text)
        return kept

    @property
    def too_much(self) -> bool:
        """Whether the cell has put out more than may be kept."""
        return self.characters < 0 or len(self._place().items) > self.outputs

    def _stop_if_too_much(self) -> None:
        if self.too_much:
            raise KeyboardInterrupt(TOO_MUCH)


@dataclass
class Captured:
    """The outputs that a widget has captured."""

    items: list[dict[str, Any]] = field(default_factory=list)
    cleared: bool = False  # by what is put out next


class Stream(io.TextIOBase):
    """Standard output or standard error of the cells."""

    encoding, errors = "utf-8", "replace"

    def __init__(self, name: str, outputs: Outputs):
        self.name, self._outputs = name, outputs

    def writable(self) -> bool:
        """Whether it can be written to: always."""
        return True

    def fileno(self) -> int:
        """The stream that a process started by a cell inherits; it leads nowhere."""
        return 1 if self.name == "stdout" else 2

    def write(self, text: str, /) -> int:
        """Put out `text`; raises KeyboardInterrupt when the cell has printed too much."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if text:
            self._outputs.stream(self.name, text)
        return len(text)


class Publisher(DisplayPublisher):
    """Where `display` leads to."""

    def publish(self, data: dict[str, Any], *given: Any, update: bool = False, **named: Any) -> None:
        """Put out what is displayed; changes of what was displayed before are for people who watch."""
        if not update:
            self.shell.outputs.display(data)

    def clear_output(self, wait: bool = False) -> None:
        """Forget the cell's outputs, as a notebook does."""
        self.shell.outputs.clear(wait)


class Hook(DisplayHook):
    """Where the value of a cell's last line leads to."""

    def start_displayhook(self) -> None:
        """Print no prompt."""

    def write_output_prompt(self) -> None:
        """Print no prompt."""

    def write_format_data(self, format_dict: dict[str, Any], md_dict: dict[str, Any] | None = None) -> None:
        """Put out the value in all its forms."""
        self.shell.outputs.display(format_dict, "result")  # type: ignore[union-attr]

    def finish_displayhook(self) -> None:
        """Print no end of line after a result."""


class HandInShell(InteractiveShell):
    """IPython as in a notebook; its outputs are kept for the judge."""

    display_pub_class = Type(Publisher)
    displayhook_class = Type(Hook)

    def __init__(self, **options: Any):
        self.outputs = Outputs()
        self.resume, self._imports_failed = protocol.NEVER, False
        super().__init__(**options)

    async def run_code(self, code_obj: Any, result: Any = None, *, async_: bool = False) -> bool:
        """Run a statement of a cell; whether the cell ends with it, because it failed and `resume` says so."""
        failed = await super().run_code(code_obj, result, async_=async_)
        error = result.error_in_exec if failed and result is not None else None
        return failed and (self.outputs.too_much or not self._goes_on_after(error))

    def _goes_on_after(self, error: BaseException | None) -> bool:
        missing = isinstance(error, ImportError | UsageError)
        self._imports_failed = self._imports_failed or missing
        if self.resume == protocol.ALWAYS:
            return isinstance(error, Exception) and not isinstance(error, MemoryError | NotImplementedError)
        return self.resume == protocol.IMPORTS and (
            missing or (self._imports_failed and isinstance(error, NameError))  # what was to be imported
        )

    def enable_matplotlib(self, gui: str | None = None) -> Any:
        """Draw into the notebook, whatever was asked for: there is no window, and nobody to click into a figure."""
        return super().enable_matplotlib("inline")

    def enable_gui(self, gui: str | None = None) -> None:
        """Do nothing: there is no window system for a GUI event loop."""

    def ask_exit(self) -> None:
        """`exit()` in a cell: the judge ends the conversation, nobody else."""

    def _get_exc_info(self, exc_tuple: Any = None) -> Any:
        """What was raised, tracebacks shortened: IPython looks up the source of each call, seconds for thousands."""
        kind, error, trace = super()._get_exc_info(exc_tuple)
        for traceback in (trace, *(link.__traceback__ for link in _chain(error))):
            _shorten(traceback)
        return kind, error, trace

    def _showtraceback(self, etype: type[BaseException], evalue: BaseException, stb: list[str]) -> None:
        self.outputs.error(etype, str(evalue), stb, self._line_of(evalue))

    def _line_of(self, error: BaseException) -> str:
        """The line of a cell in which an error was raised; "" if there is none."""
        trace = error.__traceback__
        while trace:
            name = trace.tb_frame.f_code.co_filename
            if self.compile.format_code_name(name):
                return linecache.getline(name, trace.tb_lineno).strip()
            trace = trace.tb_next
        return ""

    def execute(self, source: str, resume: str = protocol.NEVER) -> None:
        """Run a cell; only while it runs, an interrupt reaches it. `resume` is as in `autograder.sandbox.kernel`."""
        self.resume = resume
        with self.executing():
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self.show_error_of(self.run_cell(source, store_history=True))

    @contextmanager
    def executing(self) -> Iterator[None]:
        """Run a cell within: its errors end here, and interrupts do not reach what comes after it."""
        try:
            yield
        except BaseException as error:  # of what IPython does around a cell, which a cell may have changed
            self.outputs.error(type(error), "IPython itself was stopped", [])
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    def show_error_of(self, ran: ExecutionResult) -> None:
        """Add the error with which a cell ended, unless it is among the cell's outputs."""
        self.outputs.captures.clear()
        raised = ran.error_before_exec or ran.error_in_exec
        shown = [item["name"] for item in self.outputs.items if item["kind"] == "error"]
        if raised and type(raised).__name__[:MAX_LINE] not in shown:  # the cell has changed how errors are shown
            self.outputs.error(type(raised), str(raised), ["an error occurred, and was not shown"])


def make(folder: str) -> HandInShell:
    """The shell of this process; IPython's own files go to `folder`."""
    shell = HandInShell.instance(config=SETTINGS, ipython_dir=folder)
    # A figure with sliders: of what is a picture too, `Outputs` keeps no page. So the others are not drawn.
    assert shell.display_formatter is not None and shell.extension_manager is not None
    bundles = shell.display_formatter.mimebundle_formatter
    bundles.for_type_by_name("utils.interactive", "Interactive", lambda figure, **_: figure.still())
    shell.extension_manager.load_extension("storemagic")  # as Jupyter's kernel does
    for magic in ONLY_JUPYTERS:
        shell.magics_manager.register_function(lambda line: None, magic_name=magic)
    for source in ("None", "raise NotImplementedError"):  # IPython imports more for its first cell, and first error
        shell.run_cell(source, store_history=False)
    return shell


def keep_files_in(folder: str) -> None:
    """Have this process's IPython keep its own files in `folder`: `%cd`, `%bookmark` and `%store` write them."""
    shell = HandInShell.instance()
    shell.init_ipython_dir(folder)
    shell.init_profile_dir(None)


def take_over(shell: HandInShell) -> None:
    """Have what cells print go to the shell's outputs, and let no interrupt in between cells."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdout, sys.stderr = (Stream(name, shell.outputs) for name in ("stdout", "stderr"))
    builtins.input = getpass.getpass = _nobody_types


def serve(shell: HandInShell, line: protocol.Pipes) -> None:
    """Say that we are ready, with an empty message, then answer until the judge closes `line`.

    A message that begins with `protocol.CELL` has a cell for us to run: its source, and how much of its
    outputs is kept. The rest is for the dispatch. Submissions of other courses are served by `guests.serve`.
    """
    take_over(shell)
    sys.argv = [""]
    stand_ins.offer()
    dispatch.watch_compiled()
    threading.setprofile(forbidden.note_in_threads)
    if "" not in sys.path:
        sys.path.insert(0, "")  # modules beside the notebook, as in Jupyter
    with line:
        protocol.send(line, b"")
        while True:
            try:
                request = protocol.receive(line)
            except EOFError:
                return
            if request.startswith(protocol.CELL):
                asked = begin_cell(shell, request)
                shell.execute(asked["source"], asked["resume"])
                protocol.send(line, shell.outputs.packed())
                shell.outputs.end()
            else:
                protocol.send(line, dispatch.answer(shell.user_ns, request))


def begin_cell(shell: HandInShell, request: bytes) -> dict[str, Any]:
    """Make room for the outputs of the cell that the judge asks for; what it says of the cell."""
    asked: dict[str, Any] = wire.loads(request[len(protocol.CELL) :], lambda handle, name: None)
    shell.outputs.begin(asked["characters"], asked["outputs"], asked["kinds"])
    return asked


def joined(item: dict[str, Any]) -> dict[str, Any]:
    """An output whose text, if it has one, is in one piece."""
    return item | {"text": "".join(item["text"])} if "text" in item else item


def _nobody_types(*prompt: Any, **named: Any) -> NoReturn:
    raise StdinNotImplementedError("nobody is there to type while a notebook is graded")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and all those of which it came, which are shown with it."""
    waiting, seen = [error], set()
    while waiting:
        one = waiting.pop()
        if isinstance(one, BaseException) and id(one) not in seen:
            seen.add(id(one))
            several = one.exceptions if isinstance(one, BaseExceptionGroup) else ()
            waiting += [one.__cause__, one.__context__, *several]
            yield one


def _shorten(trace: TracebackType | None) -> None:
    """Leave the outermost and the innermost calls of a very long traceback."""
    calls = []
    while trace:
        calls.append(trace)
        trace = trace.tb_next
    if len(calls) > DEEP:
        calls[CALLS - 1].tb_next = calls[-CALLS]


def _speakable(value: Any) -> Any:
    """`value` without characters that no encoding knows: half of a pair, which Python's strings may hold."""
    if type(value) is str:
        return value.encode("utf-8", "replace").decode()
    if type(value) is list:
        return [_speakable(item) for item in value]
    if type(value) is dict:
        return {key: _speakable(item) for key, item in value.items()}
    return value


if __name__ == "__main__":
    importlib.import_module("autograder.course")  # so that its modules are found; in a sandbox all lie in one place
    with tempfile.TemporaryDirectory() as own:
        serve(make(own), protocol.Pipes(int(sys.argv[1]), int(sys.argv[2])))
    os._exit(0)  # whatever threads the cells have left
