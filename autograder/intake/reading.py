"""What `sanitize` does with the bytes of a submission before it knows what they are; it runs in a child with limits.

Imports nothing heavy. No message quotes the file, nor the error of a parser, which does.
"""

import ast
import contextlib
import io
import itertools
import json
import re
import tokenize
from collections.abc import Collection
from typing import Any

from autograder.intake.embedded import Picture, taken_out

TYPES = ("code", "markdown", "raw")
# What files begin with that are handed in under a notebook's name.
KINDS = {
    b"%pdf": "a PDF file",
    b"pk\x03\x04": "a zip or an Office document",
    b"<!doctype html": "a web page",
    b"<html": "a web page",
    b"version https://git-lfs": "a pointer of Git LFS",
    b"\x1f\x8b": "a gzip archive",
    b"\x89png": "a picture",
    b"{\\rtf": "a text document (RTF)",
}
MAX_CELLS = 2000
MAX_TEXT = 1_000_000  # characters of all cells; Python's parser takes a kilobyte for two of them
MAX_DIGITS = 20
LOOK = "for a person to look at: "  # how a remark begins on what only a person can decide
CURRENT = 4  # the notebook format that is read as it is
MAGIC = re.compile(r"\s*[%!?]")  # how a line begins that is IPython's
MAX_SHOWN = 1_500_000  # characters of all outputs that are kept for a person to look at
MAX_SHOWN_TEXT = 10_000  # of one that is text
MAX_PREDICTIONS, MAX_WRITTEN = 100, 100  # of one notebook; characters of one
EACH = 200  # characters that an output costs besides its own, however short it is


class Ungradable(Exception):
    """This submission cannot be graded; the message says why, for the student and the instructor."""


Output = tuple[str, str]  # "text" or "image/png", and what it says
Cell = tuple[str, str, list[str], list[Output], list[Picture]]


def cells(text: bytes, shown: Collection[str] = ()) -> tuple[list[Cell], int]:
    """The cells of a notebook file of any format (see `Cell`); and how many entries are not cells.

    Of cells that go by a name in `shown` the outputs' text and pictures are taken, as far as there is room.

    Raises:
        Ungradable: it is not a notebook, or too large.
    """
    try:
        stated = json.loads(text, parse_int=_number)
        if not isinstance(stated, dict):
            raise Ungradable("the file is not a notebook")
        version = stated.get("nbformat")
        if type(version) is not int:
            raise Ungradable("the file is not a notebook: it states no number of a notebook format")
        if not 1 <= version <= CURRENT:
            raise Ungradable("the file has a notebook format which nobody reads yet; Jupyter writes format 4")
        content = (stated if version == CURRENT else _converted(stated)).get("cells")
    except ValueError:
        why = why_no_notebook(text)
        is_explained = why.startswith(("it is a", "it holds"))
        raise Ungradable(why if is_explained else "the file is truncated or not a notebook") from None
    if content is None:
        raise Ungradable("the file is not a notebook: it has no cells")
    if not isinstance(content, list) or len(content) > MAX_CELLS:
        raise Ungradable(f"the file has no list of at most {MAX_CELLS} cells")
    known: list[Cell] = []
    room, numbers = MAX_SHOWN, itertools.count(1)
    for cell in content:
        if (taken := _cell(cell)) is not None:
            kind, source, names = taken
            source, pictures = taken_out(source, cell.get("attachments"), numbers) if kind != "code" else (source, [])
            outputs = _outputs(cell, room) if not {*names}.isdisjoint(shown) else []
            room -= sum(len(said) + EACH for _, said in outputs)
            known.append((kind, source, names, outputs, pictures))
    if sum(len(source) for _, source, *_ in known) > MAX_TEXT:
        raise Ungradable(f"its cells hold more than {MAX_TEXT:,} characters of text")
    return known, len(content) - len(known)


def defines(sources: list[str]) -> list[list[str]]:
    """The names that each of these cells gives to something at its top level: functions, classes, `name = ...`.

    Lines that are IPython's, not Python's, are left out.
    """
    defined = []
    for source in sources:
        names = []
        for node in _body(source):
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    names.append(name)
                case ast.Assign(targets=targets):
                    names += [target.id for target in targets if isinstance(target, ast.Name)]
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
                    names.append(name)
        defined.append(names)
    return defined


def _body(source: str) -> list[ast.stmt]:
    """The statements of a cell, without the lines that are IPython's; none if it is not Python."""
    try:
        return ast.parse("\n".join("" if MAGIC.match(line) else line for line in source.splitlines())).body
    except (SyntaxError, ValueError, RecursionError):
        return []


def predictions(text: bytes) -> dict[str, str | None]:
    """What a notebook file predicts: by question what the last call of `predict` states; None if it is not a constant.

    Nothing is run. Only calls at the top level of a cell count, at most MAX_PREDICTIONS of them.

    Raises:
        Ungradable: the file is not a notebook, or too large.
    """
    guesses: dict[str, str | None] = {}
    for kind, source, *_ in cells(text)[0]:
        if kind == "code" and "predict" in source:
            guesses |= _predicted(source)
    return dict(list(guesses.items())[:MAX_PREDICTIONS])


def _predicted(source: str) -> dict[str, str | None]:
    guesses = {}
    for node in _body(source):
        match node:
            case ast.Expr(ast.Call(func=ast.Name("predict"), args=[ast.Constant(str(question)), guess])):
                guesses[_clean(question[:MAX_WRITTEN])] = _written(guess)
    return guesses


def _written(guess: ast.expr) -> str | None:
    """A text or a number as text; None of everything else, also of an integer that Python refuses to print."""
    match guess:
        case ast.Constant(None):
            return ""
        case ast.Constant(str(text)):
            return _clean(text[:MAX_WRITTEN])
        case ast.Constant(int() | float() as value) if not isinstance(value, bool):
            with contextlib.suppress(ValueError):
                return str(value)[:MAX_WRITTEN]
        case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as value)):
            with contextlib.suppress(ValueError):
                return str(-value)[:MAX_WRITTEN]
    return None


def remarks_in(sources: list[str]) -> list[str]:
    """The comments of each of these cells of code, and its strings that stand alone: what it says to a person."""
    return [_remarks_in(source) for source in sources]


def _remarks_in(source: str) -> str:
    said = []
    with contextlib.suppress(tokenize.TokenError, SyntaxError, IndentationError):
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
                said.append(token.string.lstrip("# \t"))
            elif token.type == tokenize.STRING and token.line.lstrip().startswith(token.string.splitlines()[0]):
                said.append(token.string.strip("rRuUbBfF").strip("'\"").strip())
    return "\n".join(line for line in said if line.strip())


def parsed_runs(files: dict[str, bytes]) -> list[str]:
    """Which of these files of runs can be parsed, or are refused with a reason; the others break the parser."""
    from utils.experiments.experiment import BadRun, parse  # brings numpy, which a notebook does not need

    kept = []
    for name, text in files.items():
        try:
            parse(text)
        except BadRun:
            pass
        except (ArithmeticError, LookupError, TypeError, ValueError, RecursionError):
            continue
        kept.append(name)
    return kept


def why_no_notebook(text: bytes) -> str:
    """What a file is that cannot be a notebook, and what is needed; "" if it may be one. Nothing is parsed."""
    plain = text.lstrip(b"\xef\xbb\xbf \t\r\n")
    if re.search(rb"^(?:<{7}|>{7}) ", text, re.MULTILINE):
        return (
            "it holds conflict markers of git (<<<<<<<), not a notebook: the merge has to be settled, and the notebook "
            "opened and saved in Jupyter"
        )
    if plain.startswith(b"{") and not plain.startswith(b"{\\rtf"):
        return ""
    kind = next((kind for begin, kind in KINDS.items() if plain[:30].lower().startswith(begin)), "")
    if not plain:
        kind = "empty"
    return f"it is {kind}, not a notebook: the .ipynb file is needed" if kind else "it is not a notebook"


def why_not_whole(text: bytes) -> str:
    """Says that a notebook breaks off, as an upload does; "" if it ends as a notebook must. Nothing is parsed."""
    ends = text[-1000:].rstrip(b" \t\r\n").endswith(b"}")
    return "" if ends else "it breaks off before its end: the whole .ipynb file is needed"


def equals_release(text: bytes, release: str) -> bool:
    """Whether a notebook holds nothing but what was released, besides a name in STUDENT or KEY."""
    try:
        read, _ = cells(text)
        released = [cell for cell, _ in zip(json.loads(release)["cells"], range(MAX_CELLS), strict=False)]
    except (Ungradable, ValueError, KeyError, RecursionError):
        return False
    known = {_squeezed(_text(cell.get("source", "")) or ""): cell for cell in released}
    answers = {source for source, cell in known.items() if cell.get("metadata", {}).get("nbgrader", {}).get("solution")}
    sources = {_squeezed(source) for _, source, *_ in read} - {""}
    return sources <= {*known} and not answers.isdisjoint(sources)


def _squeezed(source: str) -> str:
    """A cell's source as it is compared: without blanks, and without the values of STUDENT and KEY."""
    return "".join(re.sub(r"^(STUDENT|KEY)\s*=[^\n]*", r"\1=", source, flags=re.MULTILINE).split())


def without_large_outputs(text: bytes) -> bytes | None:
    """A notebook's file without large outputs, as `pack` leaves them out; None if it is not of today's format."""
    from utils.hand_in import leave_out_large_outputs  # brings numpy, which few files need

    try:
        stated = json.loads(text, parse_int=_number)
        if not isinstance(stated, dict) or not isinstance(stated.get("cells"), list):
            return None
        leave_out_large_outputs(stated)
        return json.dumps(stated, ensure_ascii=False).encode(errors="replace")
    except ValueError:
        return None


def _number(digits: str) -> int:
    """An integer of the file; one of very many digits, which Python refuses to read, means nothing in a notebook."""
    return int(digits) if len(digits) <= MAX_DIGITS else 0


def _converted(stated: dict[str, Any]) -> dict[str, Any]:
    """A notebook of format 1 to 3 in today's; whatever stops nbformat on the way, it is not a notebook."""
    import nbformat  # heavy, and seldom needed

    try:
        for sheet in stated.get("worksheets", ()):
            for cell in sheet["cells"]:
                if "outputs" in cell:
                    cell["outputs"] = []  # they are not taken, and make the most of a file
        return nbformat.convert(nbformat.reader.reads(json.dumps(stated)), CURRENT)
    except (RecursionError, MemoryError):
        raise
    except Exception:
        raise Ungradable("the file is not a notebook of the older format that it states") from None


def _cell(cell: Any) -> tuple[str, str, list[str]] | None:
    """A cell as it was handed in; None if the entry is not a cell."""
    if not isinstance(cell, dict) or cell.get("cell_type") not in TYPES:
        return None
    source, metadata = _text(cell.get("source", "")), cell.get("metadata")
    if source is None:
        return None
    metadata = metadata if isinstance(metadata, dict) else {}
    ours = metadata.get("nbgrader")
    names = [ours.get("grade_id") if isinstance(ours, dict) else None, cell.get("id"), metadata.get("id")]
    return cell["cell_type"], _clean(source), [name[:200] for name in names if isinstance(name, str)]


def _outputs(cell: dict[str, Any], room: int) -> list[Output]:
    """What a cell's outputs show, as far as there is `room` for their characters."""
    outputs = cell.get("outputs")
    kept: list[Output] = []
    for output in outputs if isinstance(outputs, list) else ():
        data = output.get("data") if isinstance(output, dict) else None
        data = data if isinstance(data, dict) else {}
        picture = _text(data.get("image/png"))
        said = picture or _text(data.get("text/plain")) or _text(output.get("text") if isinstance(output, dict) else "")
        if said and len(said) + EACH <= room and (picture or len(said) <= MAX_SHOWN_TEXT):
            kept.append(("image/png" if picture else "text", _clean(said)))
            room -= len(said) + EACH
    return kept


def _text(given: Any) -> str | None:
    """Text that a notebook file holds as one string or as its lines."""
    if isinstance(given, list) and all(isinstance(line, str) for line in given):
        given = "".join(given)
    return given if isinstance(given, str) else None


def _clean(text: str) -> str:
    return text.encode(errors="replace").decode().replace("\0", "")
