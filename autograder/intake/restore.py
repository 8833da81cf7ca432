"""From a submission to the notebook that is graded: of what was handed in, only cell sources are taken.

And, for a person who marks, what the cells showed that grading does not run: texts and pictures, cleaned.

The released notebook is the skeleton. Its cells are found again in the submission by id, by Colab's
id, by their text or by what they define; everything else about them (type, tags, points, locks)
comes from the release, and of a locked cell its text too.
"""

import itertools
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_output

from autograder import html_cleaning, limited, pictures
from autograder.author.answers import preamble
from autograder.cells import CellRole, exercise_of, role_of, with_score
from autograder.intake import reading
from autograder.intake.embedded import Picture
from autograder.intake.reading import LOOK, MAX_CELLS, Ungradable
from utils.grading.verdict import legible

READ_SECONDS = 10.0
PARSE_SECONDS = 5.0
READ_MB = 1024
ELSEWHERE = "# This answer is in another cell."
CHECK = re.compile(r"\A\s*(checks\.\w+\()")
PREDICTION = re.compile(r"\A(?:\s|#.*\n)*(predict\(\s*[\"'][\w.]+[\"'])")
LABEL = re.compile(r"^#+ +.+$|^\*\*(?:Exercise|Question) [\w.]+\*\*", re.MULTILINE)
AS_HANDED_IN = "(as handed in; grading did not run this cell)\n"


def read(text: bytes, most_mb: float, shown: Collection[str] = ()) -> "Handed":
    """Parse a notebook file of any nbformat version, in a child with limits.

    Of cells that go by a name in `shown` outputs are taken too.

    Raises:
        Ungradable: it is not a notebook, or too large or too costly to read.
    """
    if not text.strip():
        raise Ungradable("the file is empty")
    if len(text) > most_mb * 2**20:
        raise Ungradable(f"the file is larger than {most_mb:g} MB; clear the outputs and hand in again")
    try:
        read_cells, dropped = limited.call(reading.cells, text, sorted(shown), seconds=READ_SECONDS, memory_mb=READ_MB)
    except limited.TooCostly as why:
        raise Ungradable(f"the file cannot be read as a notebook: {why}") from None
    return Handed([_Handed(*cell) for cell in read_cells], dropped)


@dataclass(frozen=True)
class Restored:
    """A submission in its released notebook."""

    notebook: NotebookNode
    remarks: list[str]  # a line for everything that was restored or dropped
    shown: set[str]  # the ids of the cells that only show what answers do


def restored(text: bytes, most_mb: float, release: NotebookNode) -> Restored:
    """The released notebook with the answers of a submission's file in it.

    Raises:
        Ungradable: the file cannot be read, or is another notebook.
    """
    notebook, remarks = restore(read(text, most_mb, illustrating(release)), release)
    return Restored(notebook, remarks, shown(notebook, release))


def restore(handed_in: "Handed", release: NotebookNode) -> tuple[NotebookNode, list[str]]:
    """The notebook to grade, and a line for everything that was restored or dropped.

    Raises:
        Ungradable: it is another notebook, or too costly to parse.
    """
    remarks: list[str] = []
    cells = [replace(cell, attachments={}) for cell in handed_in.cells]
    if handed_in.dropped:
        remarks.append(f"dropped {handed_in.dropped} cells that are not notebook cells")
    elsewhere = _match(cells, release, remarks)
    _written_elsewhere(cells, release, remarks)
    _answers_below(cells, release, remarks)
    notebook = _assemble(cells, release, remarks, elsewhere)
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
    """Outputs of a submission as a graded notebook shows them; a cell that runs in grading gets its own instead."""
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


@dataclass(eq=False)
class _Handed:
    """A cell as it was handed in: its type, its text, what it may be called."""

    cell_type: str
    source: str
    names: list[str]
    outputs: list[reading.Output]
    pictures: list[Picture] = field(default_factory=list)
    match: str = ""
    attachments: dict[str, dict[str, str]] = field(default_factory=dict)  # pictures as a page shows them, by name


def _match(cells: list[_Handed], release: NotebookNode, remarks: list[str]) -> set[str]:
    """Give each handed-in cell the id of the released cell that it is; the last of several wins.

    A cell goes by its id; without a known one by its text, by what it defines, by the heading, exercise or question in
    its text, and last by its neighbours. No cell is taken twice, and none that goes by an id is taken for another.
    Answers with the missing exercises whose names other cells define.
    """
    released = {cell.id: cell for cell in release.cells}
    taken: dict[str, _Handed] = {}
    for cell in reversed(cells):
        name = next((name for name in cell.names if name in released), "")
        if name in taken:
            if "nbgrader" in released[name].metadata:
                remarks.append(f"cell {name} is there more than once: the last one counts")
        elif name:
            cell.match, taken[name] = name, cell
    matched: list[str] = []

    def take(cell: _Handed, name: str) -> None:
        if name and name not in taken and not cell.match:
            cell.match, taken[name] = name, cell
            matched.extend([name] if "nbgrader" in released[name].metadata else [])

    def lost() -> list[_Handed]:
        return [cell for cell in reversed(cells) if not cell.match and not any(name in taken for name in cell.names)]

    texts = Counter(_squeezed(cell.source) for cell in release.cells)
    by_text = {_squeezed(cell.source): cell.id for cell in release.cells if texts[_squeezed(cell.source)] == 1}
    for cell in lost():
        take(cell, by_text.get(_squeezed(cell.source), ""))
    elsewhere = _by_definition(lost(), [cell for cell in release.cells if cell.id not in taken], take)
    by_label = _by_label(release)
    for cell in lost():
        take(cell, next((by_label[label] for label in _labels(cell.cell_type, cell.source) if label in by_label), ""))
    _by_neighbours(cells, lost(), release, taken, take, remarks)
    if matched:
        remarks.append(f"{len(matched)} graded cells had lost their ids: found by their text, names or neighbours")
    if not any(role_of(name) is CellRole.EXERCISE for name in taken):
        raise Ungradable("this is another notebook: not one of its exercise cells is there")
    return elsewhere - taken.keys()


def _by_definition(lost: list[_Handed], missing: list[NotebookNode], take: Callable[[_Handed, str], None]) -> set[str]:
    """Find the answers to exercises by the names that they define: those alone, else those and the fewest others.

    Answers with the exercises whose names are defined in cells that are other answers, or in several.
    """
    asked = [cell for cell in missing if role_of(cell.id) in (CellRole.EXERCISE, CellRole.STRETCH)]
    code = [cell for cell in lost if cell.cell_type == "code"] if asked else []
    if not code:
        return set()
    theirs, ours = _defines([cell.source for cell in code]), _defines([cell.source for cell in asked])
    twice = {names for names, times in Counter(ours).items() if times > 1}
    wanted = {cell.id: names for cell, names in zip(asked, ours, strict=True) if names and names not in twice}
    for cell, names in zip(code, theirs, strict=True):
        take(cell, next((name for name, defined in wanted.items() if defined == names), ""))
    for name, defined in wanted.items():
        larger = [
            (len(names - defined), place)
            for place, (cell, names) in enumerate(zip(code, theirs, strict=True))
            if defined <= names and not cell.match
        ]
        if larger:
            take(code[min(larger)[1]], name)
    return {name for name, defined in wanted.items() if defined <= frozenset().union(*theirs)}


def _by_neighbours(
    cells: list[_Handed],
    lost: list[_Handed],
    release: NotebookNode,
    taken: dict[str, _Handed],
    take: Callable[[_Handed, str], None],
    remarks: list[str],
) -> None:
    """Find the answers that are left by their place: below the text that asks, above the cell that checks.

    Where several answers are missing between two cells that are known, nobody can tell which is which: a person looks.
    """
    order, free = [cell.id for cell in release.cells], {id(cell) for cell in lost}
    place = {cell.match: number for number, cell in enumerate(cells) if cell.match}
    for number, source in enumerate(release.cells):
        name = source.id
        if name in taken or role_of(name) not in (CellRole.EXERCISE, CellRole.WRITTEN):
            continue
        before, after = order[number - 1] if number else "", next(iter(order[number + 1 :]), "")
        if role_of(name) is CellRole.WRITTEN:
            first = place.get(before, len(cells))
            last = min((there for there in place.values() if there > first), default=len(cells))
            texts = [cell for cell in cells[first + 1 : last] if id(cell) in free and cell.cell_type != "code"]
            beside = [cell for cell in texts if cell.source.strip()][:1]
        else:
            first = next((place[name] for name in reversed(order[:number]) if name in place), -1)
            last = min((there for there in place.values() if there > first), default=len(cells))
            beside = [cell for cell in cells[first + 1 : last] if id(cell) in free and cell.cell_type == "code"]
            beside = [cell for cell in beside if cell.source.strip()]
            begin = order.index(cells[first].match) + 1 if first >= 0 else 0
            end = order.index(cells[last].match) if last < len(cells) else len(order)
            asked = [name for name in order[begin:end] if role_of(name) is CellRole.EXERCISE and name not in taken]
            is_known = before in place or order[end:][:1] == [after]  # anything of this section
            if beside and not (is_known and asked == [name]):
                remarks.append(
                    f"{LOOK}no cell of exercise {exercise_of(name)} was found, and {len(beside)} cells that belong to "
                    "nothing stand where it may be"
                )
                continue
        if beside:
            take(beside[-1], name)
            place[name] = cells.index(beside[-1])


def _by_label(release: NotebookNode) -> dict[str, str]:
    """The ids of released cells by their labels, as far as each is in one cell only."""
    labels = [(label, cell.id) for cell in release.cells for label in _labels(cell.cell_type, cell.source)]
    times = Counter(label for label, _ in labels)
    return {label: name for label, name in labels if times[label] == 1}


def _labels(cell_type: str, source: str) -> list[str]:
    """The headings of a text, and the exercises and questions that it asks; of code its check or prediction."""
    of_code = CHECK.findall(source) or PREDICTION.findall(source)
    written = of_code[:1] if cell_type == "code" else LABEL.findall(source)
    return list(dict.fromkeys("".join(label.split()) for label in written))


def _written_elsewhere(cells: list[_Handed], release: NotebookNode, remarks: list[str]) -> None:
    """Put what a student wrote beside a question into its cell, where that is as released: so a person marks it.

    It may stand below the cell, above it, in the cell with the question, or in comments of code.
    """
    released = {cell.id: cell for cell in release.cells}
    order = [cell.id for cell in release.cells]
    used: set[int] = set()  # no text answers two questions
    for number, source in enumerate(release.cells):
        name, asked = source.id, order[number - 1] if number else ""
        if role_of(name) is not CellRole.WRITTEN:
            continue
        at = {cell.match: place for place, cell in enumerate(cells) if cell.match}
        answered = cells[at[name]] if name in at else None
        if answered and _squeezed(answered.source) not in ("", _squeezed(source.source)):
            continue
        first = at.get(asked, at.get(name, -1))
        if first < 0:
            continue
        begin = max(first, at.get(name, first))
        last = next((place for place in range(begin + 1, len(cells)) if cells[place].match), len(cells) - 1)
        near = [cell for cell in cells[first:last] if cell.match != name]
        near += [cell for cell in cells[last : last + 1] if not cell.match or cell.cell_type == "code"]
        above = list(itertools.takewhile(lambda cell: not cell.match, reversed(cells[:first])))[::-1]
        for some in (near, above):
            some = [cell for cell in some if id(cell) not in used]
            texts = _said_in(some, released)
            said = [(cell, text) for cell, text in zip(some, texts, strict=True) if text]
            said = [(cell, text) for cell, text in said if _squeezed(text) != _squeezed(source.source)]
            if not said:
                continue
            text = "\n\n".join(text for _, text in said)
            held = [picture for cell, _ in said for picture in cell.pictures]
            if answered:
                answered.source, answered.pictures = text, held
            else:
                cells.insert(first + 1, _Handed("markdown", text, [], [], held, name))
            used |= {id(cell) for cell, _ in said}
            moved = [cell for cell, _ in said if not cell.match and cell.cell_type != "code"]
            cells[:] = [cell for cell in cells if not any(cell is other for other in moved)]
            remarks.append(
                f"{LOOK}the cell of question {exercise_of(name)} was left empty, and what is written beside it was "
                "put there to be marked"
            )
            break


def _answers_below(cells: list[_Handed], release: NotebookNode, remarks: list[str]) -> None:
    """Remark on exercises whose cell is as released, while a cell below their check defines what they ask for."""
    released = {cell.id: cell for cell in release.cells}
    blank = {
        cell.match: place
        for place, cell in enumerate(cells)
        if role_of(cell.match) is CellRole.EXERCISE and cell.source == released[cell.match].source
    }
    own = [(place, cell) for place, cell in enumerate(cells) if not cell.match and cell.cell_type == "code"]
    if not blank or not own:
        return
    theirs, ours = _defines([cell.source for _, cell in own]), _defines([released[name].source for name in blank])
    checks = {cell.match: place for place, cell in enumerate(cells) if role_of(cell.match) is CellRole.CHECK}
    for (name, place), defined in zip(blank.items(), ours, strict=True):
        end = checks.get(with_score(name), place)
        if defined and any(there > end and defined <= names for (there, _), names in zip(own, theirs, strict=True)):
            remarks.append(
                f"{LOOK}the cell of exercise {exercise_of(name)} is as released, and a cell further down defines its "
                "names: grading runs a notebook from top to bottom"
            )


def _said_in(cells: list[_Handed], released: dict[str, NotebookNode]) -> list[str]:
    """What a student says in each of these cells to a person: the text, or comments of code, that were not released."""
    sources = [released.get(cell.match) for cell in cells]
    known = [source.source if source else "" for source in sources]
    wanted = [
        not (source and "nbgrader" in source.metadata) and cell.source != text
        for cell, source, text in zip(cells, sources, known, strict=True)
    ]
    of_code = [number for number, cell in enumerate(cells) if cell.cell_type == "code" and wanted[number]]
    texts = [cell.source if cell.cell_type != "code" and wanted[number] else "" for number, cell in enumerate(cells)]
    for number, theirs, ours in zip(
        of_code,
        _comments([cells[number].source for number in of_code]),
        _comments([known[number] for number in of_code]),
        strict=True,
    ):
        texts[number], known[number] = theirs, ours
    return [_new_lines(text, ours) for text, ours in zip(texts, known, strict=True)]


def _new_lines(text: str, known: str) -> str:
    """The lines of a text that have a word which the `known` text has not, or more often."""
    words = Counter(known.split())
    new = [line for line in text.splitlines() if Counter(line.split()) - words]
    return (text if not known else "\n".join(new)).strip()


def _comments(sources: list[str]) -> list[str]:
    """The comments in each of these cells, found in a child; none if that costs too much."""
    if not any(sources):
        return ["" for _ in sources]
    try:
        return limited.call(reading.remarks_in, sources, seconds=PARSE_SECONDS, memory_mb=READ_MB)
    except limited.TooCostly:
        return ["" for _ in sources]


def _assemble(
    cells: list[_Handed], release: NotebookNode, remarks: list[str], elsewhere: Collection[str] = ()
) -> NotebookNode:
    """Put the graded and locked cells into the order of the release, each with the cells that follow it.

    A missing answer whose names are defined `elsewhere` is not put back as released, which would define them again.
    """
    anchors = [cell.id for cell in release.cells if "nbgrader" in cell.metadata]
    groups: dict[str, list[_Handed]] = {"": []}
    for cell in cells:
        if cell.match in anchors:
            groups[cell.match] = []
        groups[list(groups)[-1]].append(cell)
    ours = [name for name in groups if name]
    if ours != [name for name in anchors if name in groups]:
        remarks.append("graded cells were out of order: put back")
    built: list[NotebookNode] = []
    released = {cell.id: cell for cell in release.cells}
    imports = {cell.id for cell in preamble(release)}
    for cell in cells:
        if cell.match in imports and cell.cell_type != "code":
            cell.cell_type = "code"
            remarks.append(f"cell {cell.match} with the imports: its cell_type was changed: restored")
    prose = [cell for cell in cells if _is_prose(cell, released.get(cell.match))]
    _take_pictures(prose, remarks)
    for cell, source in zip(prose, html_cleaning.markdown([cell.source for cell in prose]), strict=True):
        cell.source = pictures.SHOWN.sub(partial(_shown_picture, cell.attachments), source)
    spare = (f"extra_{number:04d}" for number in range(MAX_CELLS + 1))
    for name in ["", *anchors]:
        if name in groups:
            built.extend(_cell(cell, released, spare) for cell in groups[name])
        else:
            built.append(nbformat.from_dict(released[name]))
            if name in elsewhere:
                built[-1].source = ELSEWHERE
                remarks.append(f"cell {name} is missing, and other cells define its names: they are its answer")
                continue
            kind = "put back" if _is_locked(released[name]) else "missing: put back without an answer"
            remarks.append(f"cell {name} was deleted: {kind}")
        if name == "setup":  # the imports that every exercise counts on
            for wanted in preamble(release):
                if not any(cell.match == wanted.id for cell in cells):
                    built.append(nbformat.from_dict(wanted))
                    remarks.append(f"cell {wanted.id} with the imports was deleted: put back")
    whole = {"metadata": dict(release.metadata), "nbformat": 4, "nbformat_minor": 5, "cells": built}
    return nbformat.from_dict(whole)


def _take_pictures(prose: list[_Handed], remarks: list[str]) -> None:
    """Put the pictures of these cells into their attachments, written again; say why one is not shown."""
    pasted = [(cell, name, file) for cell in prose for name, file in cell.pictures]
    left_out = 0
    for (cell, name, _), (kind, text) in zip(pasted, pictures.rewritten([file for _, _, file in pasted]), strict=True):
        if kind:
            cell.attachments[name] = {kind: text}
            continue
        left_out += 1
        for shown in pictures.SHOWN.finditer(cell.source):
            if shown[2] == name:
                cell.source = cell.source.replace(shown[0], pictures.LEFT_OUT.format(text))
    if left_out:
        remarks.append(f"{left_out} picture{'s' * (left_out > 1)} in answers left out: the text there says why")


def _shown_picture(attachments: dict[str, dict[str, str]], shown: re.Match[str]) -> str:
    """A picture of an answer as it is; the words for it if the cell has none of this name: a page could not be made."""
    return shown[0] if shown[2] in attachments else shown[1]


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
        held = {key: cell[key] for key in ("attachments",) if key in cell and source.cell_type == "markdown"}
        notebook.cells[index] = nbformat.from_dict(dict(source, source=text) | held)


def _cell(cell: _Handed, released: dict[str, NotebookNode], spare: Iterator[str]) -> NotebookNode:
    """A cell of the notebook to grade: the source as handed in, all else as released."""
    metadata = nbformat.from_dict(released[cell.match].metadata) if cell.match else NotebookNode()
    name = cell.match or next(spare)
    built = NotebookNode(cell_type=cell.cell_type, id=name, metadata=metadata, source=cell.source)
    if cell.cell_type == "code":
        built.outputs, built.execution_count = [], None
    elif cell.attachments:
        built.attachments = nbformat.from_dict(cell.attachments)
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
        defined = limited.call(reading.defines, sources, seconds=PARSE_SECONDS, memory_mb=READ_MB)
    except limited.TooCostly as why:
        raise Ungradable(f"its cells cannot be read as Python: {why}") from None
    return [frozenset(names) for names in defined]


def _is_locked(cell: NotebookNode) -> bool:
    """Whether nobody but the author may change its text, as `nbgrader.utils` decides it, which takes half a second."""
    about = cell.metadata.nbgrader
    return not about.get("solution") and bool(about.get("grade") or about.get("locked"))
