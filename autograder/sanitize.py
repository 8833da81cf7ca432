"""From a hand-in to the notebook that is graded: of what was handed in, only cell sources are taken.

The released notebook is the skeleton. Its cells are found again in the hand-in by id, by Colab's
id, by their text or by what they define; everything else about them (type, tags, points, locks)
comes from the release. nbgrader's preprocessors then restore what is locked.
"""

import ast
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbgrader.api import MissingEntry
from nbgrader.preprocessors import ClearOutput, DeduplicateIds, OverwriteCells
from nbgrader.utils import is_grade, is_locked, is_solution

from autograder import safe
from autograder.answers import preamble
from utils.verdict import legible

TYPES = ("code", "markdown", "raw")
MAX_CELLS = 2000
MAX_TEXT = 1_000_000  # characters of all cells; Python's parser takes a kilobyte for two of them


class Ungradable(Exception):
    """This hand-in cannot be graded; the message says why, for the student and the instructor."""


def read(text: bytes, most_mb: float) -> NotebookNode:
    """Parse a notebook file of any nbformat version.

    Raises:
        Ungradable: it is none, or too large.
    """
    if not text.strip():
        raise Ungradable("the file is empty")
    if len(text) > most_mb * 2**20:
        raise Ungradable(f"the file is larger than {most_mb:g} MB; clear the outputs and hand in again")
    try:
        stated = json.loads(text)
        if not isinstance(stated, dict) or not isinstance(stated.get("nbformat"), int):
            raise Ungradable("the file is not a notebook")
        if stated["nbformat"] > nbformat.current_nbformat:
            raise Ungradable(f"the file has the notebook format {stated['nbformat']}, which nobody reads yet")
        cells = (_converted(text) if stated["nbformat"] < 4 else stated)["cells"]
        if not isinstance(cells, list) or len(cells) > MAX_CELLS:
            raise Ungradable(f"the file has no list of at most {MAX_CELLS} cells")
    except (ValueError, RecursionError) as bad:
        what = "truncated or not a notebook" if isinstance(bad, ValueError) else "nested too deep to be a notebook"
        raise Ungradable(f"the file is {what} ({type(bad).__name__})") from None
    except KeyError:
        raise Ungradable("the file is not a notebook: it has no cells") from None
    return NotebookNode(cells=cells)


def _converted(text: bytes) -> NotebookNode:
    """A notebook of format 1 to 3 in today's; whatever stops nbformat on the way, it is no notebook."""
    try:
        return nbformat.convert(nbformat.reader.reads(text.decode()), 4)
    except RecursionError:
        raise
    except Exception as bad:
        told = legible(f"{type(bad).__name__}: {bad}", 200)
        raise Ungradable(f"the file is not a notebook of an older format ({told})") from None


def restore(handed_in: NotebookNode, release: NotebookNode) -> tuple[NotebookNode, list[str]]:
    """The notebook to grade, and a line for everything that was restored or dropped.

    Raises:
        Ungradable: it is another notebook.
    """
    remarks: list[str] = []
    cells = [cell for cell in map(_Handed.parse, handed_in.cells) if cell is not None]
    if sum(len(cell.source) for cell in cells) > MAX_TEXT:
        raise Ungradable(f"its cells hold more than {MAX_TEXT:,} characters of text")
    if len(cells) < len(handed_in.cells):
        remarks.append(f"dropped {len(handed_in.cells) - len(cells)} cells that are no notebook cells")
    _match(cells, release, remarks)
    notebook = _assemble(cells, release, remarks)
    restorer = _Restore(release, remarks)
    for step in (ClearOutput(), DeduplicateIds(), restorer):
        notebook, _ = step.preprocess(notebook, {"nbgrader": {}})
    return notebook, remarks


def shown(notebook: NotebookNode, release: NotebookNode) -> set[str]:
    """The ids of the cells that only show what answers do: code as released, after the first exercise, in no role."""
    imports = {cell.id for cell in preamble(release)}
    plain = {
        cell.id: cell.source for cell in release.cells if cell.cell_type == "code" and "nbgrader" not in cell.metadata
    }
    return {cell.id for cell in notebook.cells if plain.get(cell.id) == cell.source and cell.id not in imports}


@dataclass
class _Handed:
    """A cell as it was handed in: its type, its text, what it may be called."""

    cell_type: str
    source: str
    names: list[str]
    match: str = ""

    @classmethod
    def parse(cls, cell: Any) -> "_Handed | None":
        """The cell, or None if it is none."""
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
        return cls(cell["cell_type"], clean, [name for name in names if isinstance(name, str)])


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
    by_definition = {_defines(cell.source): cell.id for cell in release.cells if cell.id.startswith("exercise_")}
    by_definition.pop(frozenset(), None)
    found = 0
    for cell in reversed(cells):
        if cell.match or any(name in taken for name in cell.names):
            continue
        name = by_text.get(_squeezed(cell.source)) or by_definition.get(_defines(cell.source)) or ""
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
    spare = (f"extra_{number:04d}" for number in range(MAX_CELLS + 1))
    for name in ["", *anchors]:
        if name in groups:
            built.extend(_cell(cell, released, spare) for cell in groups[name])
        else:
            built.append(nbformat.from_dict(released[name]))
            kind = "put back" if is_locked(released[name]) else "missing: put back without an answer"
            remarks.append(f"cell {name} was deleted: {kind}")
        if name == "setup":  # the imports that every exercise counts on
            for wanted in preamble(release):
                if not any(cell.match == wanted.id for cell in cells):
                    built.append(nbformat.from_dict(wanted))
                    remarks.append(f"cell {wanted.id} with the imports was deleted: put back")
    whole = {"metadata": dict(release.metadata), "nbformat": 4, "nbformat_minor": 5, "cells": built}
    return nbformat.from_dict(whole)


def _cell(cell: _Handed, released: dict[str, NotebookNode], spare: Iterator[str]) -> NotebookNode:
    """A cell of the notebook to grade: the source as handed in, all else as released."""
    as_released = cell.match and released[cell.match].source == cell.source
    source = cell.source if cell.cell_type == "code" or as_released else safe.markdown(cell.source)
    metadata = nbformat.from_dict(released[cell.match].metadata) if cell.match else NotebookNode()
    name = cell.match or next(spare)
    built = NotebookNode(cell_type=cell.cell_type, id=name, metadata=metadata, source=source)
    if cell.cell_type == "code":
        built.outputs, built.execution_count = [], None
    return built


def _squeezed(source: str) -> str:
    return "".join(source.split())


def _defines(source: str) -> frozenset[str]:
    """The functions and classes that a cell defines at its top level."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    kinds = (ast.FunctionDef, ast.ClassDef)
    return frozenset(node.name for node in body if isinstance(node, kinds))


class _Source(NotebookNode):
    """A released cell as nbgrader's gradebook would describe it."""


class _Restore(OverwriteCells):
    """nbgrader's preprocessor, fed from the released notebook instead of a query per cell."""

    def __init__(self, release: NotebookNode, remarks: list[str]):
        super().__init__()
        self.remarks, self.gradebook = remarks, self
        self.sources = {
            cell.metadata.nbgrader.grade_id: _Source(
                name=cell.metadata.nbgrader.grade_id,
                cell_type=cell.cell_type,
                locked=is_locked(cell),
                checksum=cell.metadata.nbgrader.checksum,
                source=cell.source,
                max_score=cell.metadata.nbgrader.points if is_grade(cell) else 0,
                solution=is_solution(cell),
            )
            for cell in release.cells
            if "nbgrader" in cell.metadata
        }

    def find_source_cell(self, name: str, *_: str) -> _Source:
        """What nbgrader's gradebook answers."""
        if name not in self.sources:
            raise MissingEntry(name)
        return self.sources[name]

    find_graded_cell = find_source_cell

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        """Restore type, lock, points and locked source of every cell of the release."""
        self.notebook_id = self.assignment_id = ""
        for index, cell in enumerate(nb.cells):
            nb.cells[index], resources = self.preprocess_cell(cell, resources, index)
        return nb, resources

    def report_change(self, name: str, attr: str, old: Any, new: Any) -> None:
        """Say so in the record, not in a log."""
        what = "its text was changed" if attr == "checksum" else f"its {attr} was changed"
        self.remarks.append(f"cell {name}: {what}: restored")
