"""From a hand-in to the notebook that is graded: of what was handed in, only cell sources are taken.

And, for a person who marks, what the cells showed that grading does not run: texts and pictures, cleaned.

The released notebook is the skeleton. Its cells are found again in the hand-in by id, by Colab's
id, by their text or by what they define; everything else about them (type, tags, points, locks)
comes from the release, and of a locked cell its text, too.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_output

from autograder import html_cleaning, limited
from autograder.author.answers import preamble
from autograder.intake import reading
from autograder.intake.reading import MAX_CELLS, Ungradable
from utils.grading.verdict import legible

READ_SECONDS = 10.0
PARSE_SECONDS = 5.0
READ_MB = 1024
AS_HANDED_IN = "(as handed in; grading did not run this cell)\n"


def read(text: bytes, most_mb: float, shown: Collection[str] = ()) -> "Handed":
    """Parse a notebook file of any nbformat version, in a child with limits.

    Of cells that go by a name in `shown` outputs are taken, too.

    Raises:
        Ungradable: it is no notebook, or too large or too costly to read.
    """
    if not text.strip():
        raise Ungradable("the file is empty")
    if len(text) > most_mb * 2**20:
        raise Ungradable(f"the file is larger than {most_mb:g} MB; clear the outputs and hand in again")
    try:
        found, dropped = limited.call(reading.cells, text, sorted(shown), seconds=READ_SECONDS, memory_mb=READ_MB)
    except limited.TooCostly as why:
        raise Ungradable(f"the file cannot be read as a notebook: {why}") from None
    return Handed([_Handed(*cell) for cell in found], dropped)


def restore(handed_in: "Handed", release: NotebookNode) -> tuple[NotebookNode, list[str]]:
    """The notebook to grade, and a line for everything that was restored or dropped.

    Raises:
        Ungradable: it is another notebook, or too costly to parse.
    """
    remarks: list[str] = []
    cells = [replace(cell) for cell in handed_in.cells]
    if handed_in.dropped:
        remarks.append(f"dropped {handed_in.dropped} cells that are no notebook cells")
    _match(cells, release, remarks)
    notebook = _assemble(cells, release, remarks)
    _restore_released(notebook, release, remarks)
    outputs = {cell.match: cell.outputs for cell in cells if cell.match and cell.outputs}
    for cell in notebook.cells:
        if cell.id in outputs and cell.cell_type == "code" and "nbgrader" not in cell.metadata:
            cell.outputs = _as_handed_in(outputs[cell.id])
    return notebook, remarks


def illustrating(release: NotebookNode) -> set[str]:
    """The ids of the cells whose outputs a person may want to see, who marks: code in no role."""
    return {cell.id for cell in release.cells if cell.cell_type == "code" and "nbgrader" not in cell.metadata}


def _as_handed_in(outputs: list[reading.Output]) -> list[NotebookNode]:
    """Outputs of a hand-in as a graded notebook shows them; a cell that runs in grading gets its own instead."""
    shown = [new_output("stream", name="stdout", text=AS_HANDED_IN)]
    for kind, said in outputs:
        if kind == "text":
            shown.append(new_output("stream", name="stdout", text=legible(said, reading.MAX_SHOWN_TEXT)))
        elif picture := html_cleaning.picture(said):
            shown.append(new_output("display_data", data={"image/png": picture}))
    return shown


def shown(notebook: NotebookNode, release: NotebookNode) -> set[str]:
    """The ids of the cells that only show what answers do: code as released, after the first exercise, in no role."""
    imports = {cell.id for cell in preamble(release)}
    plain = {
        cell.id: cell.source for cell in release.cells if cell.cell_type == "code" and "nbgrader" not in cell.metadata
    }
    return {cell.id for cell in notebook.cells if plain.get(cell.id) == cell.source and cell.id not in imports}


@dataclass(frozen=True)
class Handed:
    """What was taken of a notebook file; `dropped` cells of it were none."""

    cells: list["_Handed"]
    dropped: int = 0


@dataclass
class _Handed:
    """A cell as it was handed in: its type, its text, what it may be called."""

    cell_type: str
    source: str
    names: list[str]
    outputs: list[reading.Output]
    match: str = ""


def _match(cells: list[_Handed], release: NotebookNode, remarks: list[str]) -> None:
    """Give each handed-in cell the id of the released cell that it is; the last of several wins."""
    released = {cell.id: cell for cell in release.cells}
    taken: dict[str, _Handed] = {}
    for cell in reversed(cells):
        name = next((name for name in cell.names if name in released), "")
        if name in taken:
            if "nbgrader" in released[name].metadata:
                remarks.append(f"cell {name} is there more than once: the last one counts")
        elif name:
            cell.match, taken[name] = name, cell
    by_text = {_squeezed(cell.source): cell.id for cell in release.cells if cell.id not in taken}
    lost = [cell for cell in reversed(cells) if not cell.match and not any(name in taken for name in cell.names)]
    unknown = [cell for cell in lost if _squeezed(cell.source) not in by_text]
    asked = ("exercise_", "stretch_")
    exercises = [cell for cell in release.cells if cell.id.startswith(asked)] if unknown else []
    theirs, ours = _defines([cell.source for cell in unknown]), _defines([cell.source for cell in exercises])
    by_definition = {defined: cell.id for defined, cell in zip(ours, exercises, strict=True) if defined}
    defined = {id(cell): by_definition.get(names, "") for cell, names in zip(unknown, theirs, strict=True)}
    found = 0
    for cell in lost:
        if any(name in taken for name in cell.names):
            continue
        name = defined.get(id(cell)) or by_text.get(_squeezed(cell.source), "")
        if name and name not in taken:
            cell.match, taken[name] = name, cell
            found += "nbgrader" in released[name].metadata
    if found:
        remarks.append(f"{found} graded cells had lost their ids: found by their text")
    if not any(name.startswith("exercise_") for name in taken):
        raise Ungradable("this is another notebook: not one of its exercise cells is there")


def _assemble(cells: list[_Handed], release: NotebookNode, remarks: list[str]) -> NotebookNode:
    """Put the graded and locked cells into the order of the release, each with the cells that follow it."""
    anchors = [cell.id for cell in release.cells if "nbgrader" in cell.metadata]
    groups: dict[str, list[_Handed]] = {"": []}
    for cell in cells:
        if cell.match in anchors:
            groups[cell.match] = []
        groups[list(groups)[-1]].append(cell)
    found = [name for name in groups if name]
    if found != [name for name in anchors if name in groups]:
        remarks.append("graded cells were out of order: put back")
    built: list[NotebookNode] = []
    released = {cell.id: cell for cell in release.cells}
    prose = [cell for cell in cells if _is_prose(cell, released.get(cell.match))]
    for cell, source in zip(prose, html_cleaning.markdown([cell.source for cell in prose]), strict=True):
        cell.source = source
    spare = (f"extra_{number:04d}" for number in range(MAX_CELLS + 1))
    for name in ["", *anchors]:
        if name in groups:
            built.extend(_cell(cell, released, spare) for cell in groups[name])
        else:
            built.append(nbformat.from_dict(released[name]))
            kind = "put back" if _is_locked(released[name]) else "missing: put back without an answer"
            remarks.append(f"cell {name} was deleted: {kind}")
        if name == "setup":  # the imports that every exercise counts on
            for wanted in preamble(release):
                if not any(cell.match == wanted.id for cell in cells):
                    built.append(nbformat.from_dict(wanted))
                    remarks.append(f"cell {wanted.id} with the imports was deleted: put back")
    whole = {"metadata": dict(release.metadata), "nbformat": 4, "nbformat_minor": 5, "cells": built}
    return nbformat.from_dict(whole)


def _restore_released(notebook: NotebookNode, release: NotebookNode, remarks: list[str]) -> None:
    """Give the graded and locked cells the type that they were released with, and the locked ones their text.

    All else of them is as released already, see `_cell`.
    """
    released = {cell.id: cell for cell in release.cells if "nbgrader" in cell.metadata}
    for index, cell in enumerate(notebook.cells):
        source = released.get(cell.id)
        if source is None:
            continue
        if cell.cell_type != source.cell_type:
            remarks.append(f"cell {cell.id}: its cell_type was changed: restored")
        if _is_locked(source) and cell.source != source.source:
            remarks.append(f"cell {cell.id}: its text was changed: restored")
        text = source.source if _is_locked(source) else cell.source
        notebook.cells[index] = nbformat.from_dict(dict(source, source=text))


def _cell(cell: _Handed, released: dict[str, NotebookNode], spare: Iterator[str]) -> NotebookNode:
    """A cell of the notebook to grade: the source as handed in, all else as released."""
    metadata = nbformat.from_dict(released[cell.match].metadata) if cell.match else NotebookNode()
    name = cell.match or next(spare)
    built = NotebookNode(cell_type=cell.cell_type, id=name, metadata=metadata, source=cell.source)
    if cell.cell_type == "code":
        built.outputs, built.execution_count = [], None
    return built


def _is_prose(cell: _Handed, released: NotebookNode | None) -> bool:
    """Whether a page shows it as something else than code, and not as it was released."""
    if cell.cell_type == "code":
        return False
    becomes_code = released is not None and released.cell_type == "code" and "nbgrader" in released.metadata
    return not becomes_code and (released is None or released.source != cell.source)


def _squeezed(source: str) -> str:
    return "".join(source.split())


def _defines(sources: list[str]) -> list[frozenset[str]]:
    """What each of these cells defines, worked out in a child: Python's parser can take a minute for one.

    Raises:
        Ungradable: it takes too long.
    """
    if not sources:
        return []
    try:
        found = limited.call(reading.defines, sources, seconds=PARSE_SECONDS, memory_mb=READ_MB)
    except limited.TooCostly as why:
        raise Ungradable(f"its cells cannot be read as Python: {why}") from None
    return [frozenset(names) for names in found]


def _is_locked(cell: NotebookNode) -> bool:
    """Whether nobody but the author may change its text, as `nbgrader.utils` decides it, which takes half a second."""
    about = cell.metadata.nbgrader
    return not about.get("solution") and bool(about.get("grade") or about.get("locked"))
