"""What pages have that is made from the course: parts of them, between marks, and figures.

They are kept with the pages, which so are whole where nothing is built. `python docs/written.py` writes them; a test
fails if one is stale.
"""

import re
import tempfile
from pathlib import Path

import command_reference
import course_map
import packages

DOCS = Path(__file__).resolve().parent
BEGIN, END = "<!-- made by docs/written.py -->\n", "<!-- end -->\n"
GLYPH = re.compile(r"DejaVuSans[A-Za-z-]*-[0-9a-f]+\b")


def parts() -> dict[str, str]:
    """What stands between the marks, by the name of the page."""
    exercises = course_map.read()
    return {
        "commands.md": command_reference.text(),
        "course.md": course_map.tables(exercises),
        "tracks.md": course_map.tracks(exercises),
    }


def figures() -> dict[str, str]:
    """The figures as they must be, by the name of the file."""
    exercises = course_map.read()
    draw = {
        "course.svg": lambda path: course_map.draw(exercises, path),
        "experiments.svg": packages.draw_experiments,
        "machines.svg": packages.draw_machines,
        "packages.svg": packages.draw,
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, drawn in draw.items():
            drawn(Path(folder, name))
        return {name: glyphs_by_order(Path(folder, name).read_text()) for name in draw}


def glyphs_by_order(svg: str) -> str:
    """The figure with its glyphs numbered as they come: their numbers in a font differ between its releases."""
    known = {name: f"glyph-{place}" for place, name in enumerate(dict.fromkeys(GLYPH.findall(svg)))}
    return GLYPH.sub(lambda found: known[found[0]], svg)


def fresh() -> dict[Path, str]:
    """Each page and figure as it must be.

    Raises:
        ValueError: a page lacks its marks.
    """
    pages = {DOCS / "pictures" / name: text for name, text in figures().items()}
    for name, part in parts().items():
        head, begin, rest = (DOCS / name).read_text().partition(BEGIN)
        _, end, tail = rest.partition(END)
        if not (begin and end):
            raise ValueError(f"docs/{name} has no marks {BEGIN.strip()} and {END.strip()}")
        pages[DOCS / name] = f"{head}{begin}\n{part.strip()}\n\n{end}{tail}"
    return pages


def stale() -> list[str]:
    """The pages and figures that are not as they must be."""
    return [path.name for path, text in fresh().items() if not path.is_file() or path.read_text() != text]


if __name__ == "__main__":
    for path, text in fresh().items():
        path.write_text(text)
