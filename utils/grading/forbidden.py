"""What an exercise forbids, looked for where it would earn the points: in what the check calls.

Reading: the definitions of the names that a check asks for, of their methods, and of every helper that
these mention, in whatever cell they stand. A comparison in a scratch cell, or below the answer, is no
answer. Watching: while a check calls an answer, `Watch` notes the functions that run, whatever name they
were reached by. At home and in grading it is the same code on the same cells.
"""

import ast
import dis
import re
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from utils import experiments

# Calls that can define anything under any name; of a namespace, when they change it.
DEFINES = frozenset(("setattr", "exec", "eval", "__setattr__", "run_cell"))
NAMESPACES = frozenset(("globals", "locals", "vars", "__dict__", "user_ns"))
CHANGES = frozenset(("update", "setdefault", "push", "__setitem__"))
FILLS = frozenset(("append", "appendleft", "extend", "insert", "register", "setdefault", "update"))  # of containers
BY_NAME = frozenset(("getattr", "attrgetter", "methodcaller", "__import__", "import_module", "__getattribute__"))
MAGICS = ("run_cell", "run_cell_magic", "run_line_magic", "getoutput", "system")
LOADS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
MOST_DEFINITIONS = 500  # of a cell; each takes a kilobyte
MOST_CODES = 20_000  # pieces of code that a watch remembers
# What Python reports (PEP 578) when code could go where the watch does not see it: it is switched off, even if it is
# put back later; another process; a name that a pickle looks up.
SWITCHES = ("sys.setprofile", "sys.settrace", "sys.monitoring.register_callback")
PROCESSES = ("os.fork", "os.forkpty", "os.posix_spawn", "os.system", "subprocess.Popen")
THREADS = ("start_new_thread", "start_joinable_thread")  # of `_thread`; `threading` calls them too, and is watched
LOOKED_UP = "pickle.find_class"
GRAPHS = ("/torch/fx/graph_module.py", "/torch/fx/interpreter.py")  # run what was exported, in operators of other names
GRAPH = "<eval_with_key>"  # what torch calls the files that it writes of them
HIDE = ("torch.jit", "torch.export", "torch.ops", "_thread")  # what hides from a watch what code calls
HIDING = "call_compiled"  # what torch.jit compiled is called by a function of this name, see `dispatch`
WORD = re.compile(r"[^\W\d]\w*")


COURSE = Path(__file__).resolve().parents[2]


def specs() -> list[str]:
    """What experiments are: the packages of `utils.experiments` that have a module `spec`, and that module."""
    names = sorted(path.parent.name for folder in experiments.__path__ for path in Path(folder).glob("*/spec.py"))
    return [f"experiments.{name}{module}" for name in names for module in ("", ".spec")]


# Modules of the course that answers may use. The others hold answers, or are for experiments: in grading they are
# names with nothing behind them, so an answer that needs one is refused at home too.
HELPERS = {
    "utils": (
        *("files", "interactive", "plots", "positions", "setup", "tiny_bert", "variants"),
        *(f"experiments.{name}" for name in ("experiment", "llama", "profiles", "run_files", "runs")),
        *(f"experiments.{name}" for name in ("student", "summaries")),
        *specs(),
        *(f"grading.{name}" for name in ("dispatch", "forbidden", "protocol", "toys", "wire")),
    ),
    "data": (),
}
WINGS = ("experiments", "grading")  # packages of `utils` that have helpers in them
BY_ITS_OPERATOR = "torch.ops"  # whether code of this kind is forbidden, the operator says that it calls
SILENT = ("grading.check", "checks", "predictions", "block_diagrams")  # their stand-ins may be called: they say nothing
# Libraries of models, which have the answers to many exercises ready under names of their own: as words of `forbids`.
MODELS = ("import transformers", "import adapters")


@dataclass
class Definition:
    """A statement that defines names: what it mentions, and whether it surely runs and replaces what was before."""

    names: frozenset[str]
    words: frozenset[str]  # attributes, imported names, strings by which something is looked up
    uses: frozenset[str] = frozenset()  # names that it looks up where cells keep theirs
    sure: bool = True
    anything: bool = False  # it may define any name


@dataclass
class Cell:
    """The definitions of one cell, in their order."""

    definitions: list[Definition] = field(default_factory=list)


@lru_cache(maxsize=4096)
def read_cell(source: str) -> Cell:
    """The definitions in a cell as IPython would run it: magics and `!commands` are read too.

    What does not parse may define every name in it, and counts with all its words; so does what defines more than any
    answer.
    """
    try:
        tree = ast.parse(as_python(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError, RuntimeError):  # the last is IPython's
        return unreadable(source)
    cell = Cell()
    for statement in tree.body:
        cell.definitions += _definitions(statement)
        if len(cell.definitions) > MOST_DEFINITIONS:
            return unreadable(source)
    return cell


def unreadable(source: str) -> Cell:
    """A cell of which the words alone are known."""
    words = frozenset(WORD.findall(source))
    return Cell([Definition(words, words, words, sure=False, anything=bool(words & DEFINES))])


def as_data(source: str) -> list[list[Any]]:
    """`read_cell` as plain data, for callers that have it read in another process; `from_data` makes a cell of it."""
    read = read_cell.__wrapped__(source)  # who asks keeps it
    return [[[*one.names], [*one.words], [*one.uses], one.sure, one.anything] for one in read.definitions]


def from_data(rows: Iterable[Sequence[Any]]) -> Cell:
    """The cell that `as_data` told of."""
    return Cell([Definition(frozenset(row[0]), frozenset(row[1]), frozenset(row[2]), row[3], row[4]) for row in rows])


def as_python(source: str) -> str:
    """A cell as IPython hands it to Python."""
    from IPython.core.inputtransformer2 import TransformerManager

    return TransformerManager().transform_cell(source)


def syntax_error(source: str) -> tuple[str, str]:
    """Why Python refuses a cell as IPython hands it over, and the line where; ("", "") if it does not."""
    try:
        ast.parse(as_python(source))
    except SyntaxError as error:
        python = ".".join(map(str, sys.version_info[:2]))
        told = f"{type(error).__name__}: {error.msg} (line {error.lineno}). Submissions are graded with Python {python}"
        return told, (error.text or "").strip()
    except (ValueError, RecursionError, MemoryError, RuntimeError):  # as in `read_cell`
        pass
    return "", ""


def used(cells: Iterable[Cell], names: Sequence[str], forbids: Collection[str]) -> str | None:
    """The first forbidden name in the definitions of `names` and of all that these mention; None if there is none.

    Args:
        cells: those that ran, in their order. Of several definitions of a name the last one that surely ran
            counts, and those after it.
    """
    definitions = [one for cell in cells for one in cell.definitions]
    if not forbids:
        return None
    words = {word.lstrip("_") for word in _reachable(definitions, names)}
    return next((name for name in forbids if name in words), None)


def withheld(cells: Iterable[Cell], names: Sequence[str]) -> str | None:
    """A module of the course that the answers use and that is not there in grading, or None."""
    definitions = [one for cell in cells for one in cell.definitions]
    words = _reachable([one for one in definitions if not one.anything], names)
    return next((word for word in sorted(words) if word.startswith("withheld:")), "").partition(":")[2] or None


def _reachable(definitions: Sequence[Definition], names: Iterable[str]) -> set[str]:
    """The words of the definitions of `names`, of the names that they mention, and so on."""
    by_name: dict[str, list[Definition]] = {}
    for one in definitions:
        for name in one.names:
            by_name.setdefault(name, []).append(one)
    words: set[str] = set()
    wanted, seen, taken = list(names), set(names), set()

    def take(one: Definition) -> None:
        if id(one) not in taken:
            taken.add(id(one))
            words.update(one.words)
            wanted.extend(one.uses - seen)
            seen.update(one.uses)

    for one in definitions:
        if one.anything:
            take(one)
    while wanted:
        name = wanted.pop()
        if name not in by_name:  # it comes from elsewhere, say from a star import
            words.add(name)
        for one in reversed(by_name.get(name, [])):
            take(one)
            if one.sure:
                break
    return words


def _definitions(statement: ast.stmt) -> list[Definition]:
    """What a statement at the top of a cell defines."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=magic), args=given)) if magic in MAGICS:
            return _of_magic(magic, [text.value for text in given if isinstance(text, ast.Constant)])
    words, uses = frozenset(_words(statement)), _uses(statement)
    found = []
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            inside = {name for node in ast.walk(statement) if isinstance(node, ast.Global) for name in node.names}
            found = [Definition(frozenset(inside), words, uses, sure=False)] if inside else []
            return [Definition(frozenset({name}), words, uses), *found]
    if _defines_anything(statement):
        texts = _in_strings(statement)
        found.append(Definition(frozenset(), words | texts, uses | texts, sure=False, anything=True))
    match statement:
        case ast.Import() | ast.ImportFrom():
            return [_import(statement, alias) for alias in statement.names]
        case ast.Assign(targets=targets):
            bound, changed = _bound(targets)
        case ast.AnnAssign(target=target, value=ast.expr()):
            bound, changed = _bound([target])
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method))) if method in FILLS:
            bound, changed = set(), {name}
        case ast.Expr() | ast.Assert() | ast.AnnAssign():
            nodes = (node.target.id for node in ast.walk(statement) if isinstance(node, ast.NamedExpr))
            bound, changed = set(), set(nodes)
        case _:  # a loop, a branch, `with`, `try`, `del`, `+=`: whatever is bound in it may be
            bound, changed = set(), stored(statement)
    if bound:
        found.append(Definition(frozenset(bound), words, uses))
    if changed:
        found.append(Definition(frozenset(changed), words, uses, sure=False))
    return found


def _of_magic(magic: str, given: Sequence[Any]) -> list[Definition]:
    """What `%magic code`, `%%magic` above code, or `!command` defines; a command defines nothing."""
    if magic in ("system", "getoutput"):
        return []
    texts = [text for text in given[1:] if isinstance(text, str)] if magic != "run_cell" else [*map(str, given[:1])]
    return [one for text in texts for one in read_cell(text).definitions]


def _uses(statement: ast.stmt) -> frozenset[str]:
    """The names that a statement, and every function in it, looks up where cells keep theirs."""
    try:
        code = compile(ast.Module([statement], []), "cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset(node.id for node in ast.walk(statement) if isinstance(node, ast.Name))
    codes: list[CodeType] = [code]
    found: set[str] = set()
    while codes:
        one = codes.pop()
        found.update(step.argval for step in dis.get_instructions(one) if step.opname in LOADS)
        codes += [constant for constant in one.co_consts if isinstance(constant, CodeType)]
    return frozenset(found)


def _import(statement: ast.Import | ast.ImportFrom, alias: ast.alias) -> Definition:
    """What one name of an import binds; a module of the course that is withheld in grading is marked."""
    path = alias.name.split(".")
    words = {*path}
    if isinstance(statement, ast.ImportFrom):
        words |= {*(statement.module or "").split(".")}
        path = [*(statement.module or "").split("."), alias.name]
    if len(path) > 1 and path[0] in HELPERS and (module := _module(path)) not in (*HELPERS[path[0]], *SILENT, *WINGS):
        words.add(f"withheld:{module}")
    words.add(f"import {path[0]}")
    bound = alias.asname or (alias.name if isinstance(statement, ast.ImportFrom) else path[0])
    return Definition(frozenset({bound}), frozenset(words))


def _module(path: Sequence[str]) -> str:
    """The module that an import of `path` names, below its package: the part of the path for which there is a file."""
    below = path[1:]
    if below[0] not in WINGS:
        return below[0]
    longer = (n for n in range(len(below), 2, -1) if COURSE.joinpath(*path[: n + 1]).with_suffix(".py").is_file())
    return ".".join(below[: next(longer, 2)])


def _bound(targets: Iterable[ast.expr]) -> tuple[set[str], set[str]]:
    """Names that an assignment binds again, and names of objects that it changes (`Model.forward = ...`)."""
    bound: set[str] = set()
    changed: set[str] = set()
    for target in targets:
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                (bound if isinstance(node.ctx, ast.Store) else changed).add(node.id)
    return bound, changed


def stored(part: ast.AST) -> set[str]:
    """Every name that a statement or module may bind or change; "*" for an import of what has no name here."""
    found: set[str] = set()
    for node in ast.walk(part):
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.alias(name=name, asname=other):
                found.add(other or name.split(".")[0])
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                found.add(name)
            case ast.MatchMapping(rest=str(name)):
                found.add(name)
            case ast.Attribute(value=ast.Name(id=name), ctx=ast.Store()):
                found.add(name)
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store()):
                found.add(name)
    return found


def _defines_anything(statement: ast.stmt) -> bool:
    """Whether a statement that is not a definition may define names that it does not show."""
    names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    attributes = {node.attr for node in ast.walk(statement) if isinstance(node, ast.Attribute)}
    if (names | attributes) & DEFINES:
        return True
    stored = any(isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) for node in ast.walk(statement))
    return bool((names | attributes) & NAMESPACES and (stored or attributes & CHANGES))


def _words(tree: ast.AST) -> set[str]:
    """Every attribute and imported name in a tree, and the strings by which something is looked up in a namespace.

    What a function calls its own variables, what an annotation says and what other strings say is nobody's business.
    """
    found: set[str] = set()
    noted = {id(node) for hint in _hints(tree) for node in ast.walk(hint)}
    for node in ast.walk(tree):
        if id(node) in noted:
            continue
        match node:
            case ast.Attribute(attr=name):
                found.add(name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                found.update(*(_import(node, alias).words for alias in names))
            case ast.Call(func=ast.Attribute(attr=name)) if name in MAGICS:
                found |= _in_strings(node)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in BY_NAME | DEFINES:
                texts = _in_strings(node)
                found |= texts
                if name in ("__import__", "import_module"):
                    found.update(f"import {text}" for text in texts)
            case ast.Subscript(value=value, slice=index) if _is_namespace(value):
                found |= _in_strings(index)
    return found


def _hints(tree: ast.AST) -> Iterator[ast.AST]:
    """The annotations in a tree."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(returns=hint) | ast.AsyncFunctionDef(returns=hint) if hint:
                yield hint
            case ast.arg(annotation=hint) if hint:
                yield hint
            case ast.AnnAssign(annotation=hint):
                yield hint


def _is_namespace(tree: ast.AST) -> bool:
    """Whether an expression is `globals()`, `vars(...)`, `X.__dict__` or the like."""
    match tree:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) | ast.Attribute(attr=name):
            return name in NAMESPACES
    return False


def _in_strings(tree: ast.AST) -> frozenset[str]:
    """Every word of every string in a tree, also of one that is put together of others."""
    return frozenset(word for node in ast.walk(tree) for word in WORD.findall(_text(node)))


def _text(node: ast.AST) -> str:
    """A string, or strings that are added; "" for anything else."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            one, other = _text(left), _text(right)
            return one + other if one and other else ""
    return ""


class Watch:
    """Notes, within `with`, whether code of the student's makes a function or class of a forbidden name run.

    It looks at code objects, so an alias, `getattr`, an operator's path (`torch.ops.aten`) or a subclass of
    the class changes nothing; nor does a longer name (`_generate_square_subsequent_mask`, `linear_cross_entropy`), by
    which libraries keep variants of a function. `import NAME` among `forbids` stands for all code of a library.
    Calls that the check itself makes are not the student's, unless what it calls is `theirs`.
    """

    def __init__(self, forbids: Collection[str], is_students: Callable[[str], bool], theirs: bool = False):
        self.forbids, self.found, self._theirs = tuple(forbids), "", theirs
        known = _known(self.forbids, is_students)
        self._is_students, self._of_codes, self._of_names = known.is_students, known.of_codes, known.of_names
        if len(self._of_codes) > MOST_CODES:
            self._of_codes.clear()
        self._before: Any = None
        self._top: FrameType | None = None
        self._of_threads: Any = None

    def __enter__(self) -> "Watch":
        self._before, self._top = sys.getprofile(), sys._getframe(1)
        if self.forbids:
            self._of_threads = threading.getprofile()
            threading.setprofile(note_in_threads)
            with _unreported():
                sys.setprofile(self._note)
            _watching.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        if self.forbids:
            switched_off = sys.getprofile() != self._note
            _watching.remove(self)
            with _unreported():
                sys.setprofile(self._before)
            threading.setprofile(self._of_threads)
            if switched_off and not self.found:
                self.found = "sys.setprofile"

    def _note(self, frame: FrameType, event: str, argument: Any) -> None:
        # It runs at every call and return, so what is known and allowed is told apart first, and without a call.
        if event == "call":
            code = frame.f_code
            known = self._of_codes.get(id(code))
            if known is None:
                known = self._of_codes[id(code)] = (code, self._of_code(code))  # with the code its id stays its own
            name = known[1]
            if name == "":
                return
            if name is BY_ITS_OPERATOR:
                name = _forbidden(self.forbids, *str(frame.f_locals.get("self", "")).split(".")[1:2])
            caller = frame.f_back
        elif event == "c_call":
            if self._of_names.get(getattr(argument, "__name__", "")) != "":
                self.note_c(argument, frame)
            return
        else:
            return
        if name and not self.found and self._for_student(caller):
            self.found = name

    def note_event(self, event: str, given: tuple[Any, ...]) -> None:
        """Note what Python reports while an answer runs, see `SWITCHES`."""
        name = ""
        if event in SWITCHES or event in PROCESSES:
            name = event
        elif event == LOOKED_UP:
            name = _forbidden(self.forbids, *map(str, given))
        if name and not self.found and self._for_student(sys._getframe(2)):
            self.found = name

    def note_c(self, function: Any, frame: FrameType) -> None:
        """Note a call of a function that is not written in Python; `frame` is the code of Python that led to it."""
        name = self.forbidden(function)
        if name and not self.found and self._is_students(frame.f_code.co_filename) and self._for_student(frame):
            self.found = name

    def forbidden(self, function: Any) -> str:
        """The forbidden name of a function that is not written in Python, or ""."""
        called = getattr(function, "__name__", "") or ""
        name = self._of_names.get(called)
        if name is None:
            name = "_thread" if called in THREADS else _forbidden(self.forbids, called)
            self._of_names[called] = name
        return name

    def _of_code(self, code: CodeType) -> str:
        """The forbidden name that a function's code goes by, or ""."""
        if code.co_name == "__call__" and code.co_filename.endswith("_ops.py"):  # torch.ops.aten.NAME(...)
            return BY_ITS_OPERATOR
        if code.co_filename.startswith(GRAPH) or code.co_filename.endswith(GRAPHS):
            return "torch.export"
        if self._is_students(code.co_filename):
            return ""
        if code.co_name == HIDING:
            return "torch.jit"
        path = getattr(code, "co_qualname", code.co_name).split(".")
        module = code.co_filename.rpartition("/")[2].removesuffix(".py")
        library = code.co_filename.rpartition("/site-packages/")[2].partition("/")[0]
        return _forbidden(self.forbids, *path, module, f"import {library}")

    def _for_student(self, frame: FrameType | None) -> bool:
        """Whether code of the student's is among the callers, or a thread, which nobody else starts."""
        while frame is not None and frame is not self._top:
            if self._is_students(frame.f_code.co_filename):
                return True
            frame = frame.f_back
        return frame is None or self._theirs


@dataclass
class _Known:
    """What a watch learned of code: the next one, for the same forbidden names, need not look again."""

    is_students: Callable[[str], bool]
    of_codes: dict[int, tuple[CodeType, str]] = field(default_factory=dict)
    of_names: dict[str, str] = field(default_factory=dict)  # of functions that are not written in Python


@lru_cache(maxsize=256)
def _known(forbids: tuple[str, ...], is_students: Callable[[str], bool]) -> _Known:
    return _Known(lru_cache(maxsize=4096)(is_students))


@lru_cache(maxsize=16_384)  # it is asked of whatever runs, check after check
def _forbidden(forbids: tuple[str, ...], *names: str) -> str:
    """The first of the forbidden names that is, or is a part of, one of `names`, "" if there is none."""
    whole = [OPERATORS.get(name.lstrip("_"), name) for name in names]
    return next((one for one in forbids if any(one in name for name in whole)), "")


_watching: list[Watch] = []
_silent = threading.local()


@contextmanager
def _unreported() -> Iterator[None]:
    """Within it, what this thread does is the watch's own."""
    _silent.on = True
    try:
        yield
    finally:
        _silent.on = False


def _note_event(event: str, given: tuple[Any, ...]) -> None:
    """The hook for what Python reports; it cannot be taken away again."""
    if _watching and event in REPORTED and not getattr(_silent, "on", False):
        for one in _watching:
            one.note_event(event, given)


REPORTED = frozenset((*SWITCHES, *PROCESSES, LOOKED_UP))
sys.addaudithook(_note_event)


def note_in_threads(frame: FrameType, event: str, argument: Any) -> None:
    """For `threading.setprofile`: a thread that was started before an answer is called is watched meanwhile too."""
    for one in _watching:
        one._note(frame, event, argument)


OPERATORS = {  # the functions of Python that operators of other names compute, without their leading underscores
    "scaled_dot_product_flash_attention": "scaled_dot_product_attention",
    "scaled_dot_product_flash_attention_for_cpu": "scaled_dot_product_attention",
    "scaled_dot_product_efficient_attention": "scaled_dot_product_attention",
    "scaled_dot_product_cudnn_attention": "scaled_dot_product_attention",
    "scaled_dot_product_fused_attention_overrideable": "scaled_dot_product_attention",
    "flash_attention_forward": "scaled_dot_product_attention",
    "efficient_attention_forward": "scaled_dot_product_attention",
    "native_multi_head_attention": "multi_head_attention_forward",
    "triton_multi_head_attention": "multi_head_attention_forward",
    "transformer_encoder_layer_fwd": "TransformerEncoderLayer",
}
