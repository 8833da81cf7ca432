"""Texts that several notebooks share. An author writes `<!-- box: NAME -->` on a line of its own in a text cell.

The build puts the text of that name there: a section of `solutions/boxes.md`, or what `benchmarks/gpu.json` says of the
notebook's experiments at the size `gpu`, for the name `size gpu`.
"""

import json
import re
from functools import cache

from autograder.course import FOLDER, CourseError, NotebookEntry

BOX = re.compile(r"^<!-- box: (.+?) -->$", re.MULTILINE)
SIZE_GPU = "size gpu"
RUN_ON_GPU = "benchmarks/gpu.json"  # what `make gpu` wrote on a machine with a GPU


def filled(text: str, entry: NotebookEntry) -> str:
    """The text of a cell with its boxes.

    Raises:
        CourseError: there is no box of a name.
    """
    return BOX.sub(lambda found: _box(found[1], entry), text)


def ran_on_gpu(entry: NotebookEntry) -> dict[str, bool]:
    """The experiments of a notebook at the size gpu by name, and whether each has been run on a GPU."""
    path = FOLDER / RUN_ON_GPU
    known = json.loads(path.read_text())["parts"].get("experiments, size gpu", {}) if path.exists() else {}
    names = entry.experiments_of("gpu") if entry.experiments else ()
    states = {name: known.get(f"{entry.number} {name}", {}).get("state") for name in names}
    return {name: state == "passed" for name, state in states.items()}


def size_gpu(entry: NotebookEntry) -> str:
    """What a notebook says of its size gpu: which of its experiments have been run at it."""
    ran = ran_on_gpu(entry)
    missing = [name for name, done in ran.items() if not done]
    if ran and not missing:
        return "Each of these experiments was run once at the size `gpu`, with one seed, on a machine with a GPU."
    if len(missing) == len(ran):
        return "**The size `gpu` has not been run yet**: nobody has checked how long it takes and what it shows."
    listed = ", ".join(f"`{name}`" for name in missing)
    return f"**At the size `gpu` these have not been run yet**: {listed}. The others were run once, with one seed."


def _box(name: str, entry: NotebookEntry) -> str:
    if name == SIZE_GPU:
        return size_gpu(entry)
    texts = _texts()
    if name not in texts:
        raise CourseError(f'{entry.name}: there is no box "{name}" in solutions/boxes.md; it has {", ".join(texts)}')
    return "\n".join(f"> {line}".rstrip() for line in texts[name].splitlines())


@cache
def _texts() -> dict[str, str]:
    """The sections of `solutions/boxes.md` by their headings."""
    path = FOLDER / "solutions" / "boxes.md"
    parts = re.split(r"^## (.+)$", path.read_text(), flags=re.MULTILINE)[1:] if path.exists() else []
    return {name: text.strip() for name, text in zip(parts[::2], parts[1::2], strict=True)}
