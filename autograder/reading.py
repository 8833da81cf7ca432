"""What `sanitize` does with the bytes of a hand-in before it knows what they are; it runs in a child with limits.

Imports nothing heavy. No message quotes the file, nor the error of a parser, which does.
"""

import ast
import json
from typing import Any

from utils.experiment import BadRun, parse

TYPES = ("code", "markdown", "raw")
MAX_CELLS = 2000
MAX_TEXT = 1_000_000  # characters of all cells; Python's parser takes a kilobyte for two of them
MAX_DIGITS = 20
CURRENT = 4  # the notebook format that is read as it is


class Ungradable(Exception):
    """This hand-in cannot be graded; the message says why, for the student and the instructor."""


def cells(text: bytes) -> tuple[list[tuple[str, str, list[str]]], int]:
    """The cells of a notebook file of any format: type, source and the names that each goes by; how many are none.

    Raises:
        Ungradable: it is no notebook, or too large.
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
        found = (stated if version == CURRENT else _converted(stated)).get("cells")
    except ValueError:
        raise Ungradable("the file is truncated or not a notebook") from None
    if found is None:
        raise Ungradable("the file is not a notebook: it has no cells")
    if not isinstance(found, list) or len(found) > MAX_CELLS:
        raise Ungradable(f"the file has no list of at most {MAX_CELLS} cells")
    known = [cell for cell in map(_cell, found) if cell is not None]
    if sum(len(source) for _, source, _ in known) > MAX_TEXT:
        raise Ungradable(f"its cells hold more than {MAX_TEXT:,} characters of text")
    return known, len(found) - len(known)


def defines(sources: list[str]) -> list[list[str]]:
    """The functions and classes that each of these cells defines at its top level."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    found = []
    for source in sources:
        try:
            found.append([node.name for node in ast.parse(source).body if isinstance(node, kinds)])
        except (SyntaxError, ValueError, RecursionError):
            found.append([])
    return found


def parsed_runs(files: dict[str, bytes]) -> list[str]:
    """Which of these files of runs can be parsed, or are refused with a reason; the others break the parser."""
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


def _number(digits: str) -> int:
    """An integer of the file; one of very many digits, which Python refuses to read, means nothing in a notebook."""
    return int(digits) if len(digits) <= MAX_DIGITS else 0


def _converted(stated: dict[str, Any]) -> dict[str, Any]:
    """A notebook of format 1 to 3 in today's; whatever stops nbformat on the way, it is no notebook."""
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
    """A cell as it was handed in, or None if it is none."""
    if not isinstance(cell, dict) or cell.get("cell_type") not in TYPES:
        return None
    source, metadata = cell.get("source", ""), cell.get("metadata")
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    if not isinstance(source, str):
        return None
    metadata = metadata if isinstance(metadata, dict) else {}
    ours = metadata.get("nbgrader")
    names = [ours.get("grade_id") if isinstance(ours, dict) else None, cell.get("id"), metadata.get("id")]
    clean = source.encode(errors="replace").decode().replace("\0", "")
    return cell["cell_type"], clean, [name[:200] for name in names if isinstance(name, str)]
