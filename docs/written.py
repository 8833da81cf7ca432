"""The parts of pages that are made from the course, between marks, so that pages are whole where nothing is built.

`python docs/written.py` writes them; a test fails if one is stale.
"""

from pathlib import Path

import command_reference
import course_map

DOCS = Path(__file__).resolve().parent
BEGIN, END = "<!-- made by docs/written.py -->\n", "<!-- end -->\n"


def parts() -> dict[str, str]:
    """What stands between the marks, by the name of the page."""
    exercises = course_map.read()
    return {
        "commands.md": command_reference.text(),
        "course.md": course_map.tables(exercises),
        "tracks.md": course_map.tracks(exercises),
    }


def fresh() -> dict[Path, str]:
    """Each page as it must be.

    Raises:
        ValueError: a page lacks its marks.
    """
    pages = {}
    for name, part in parts().items():
        head, begin, rest = (DOCS / name).read_text().partition(BEGIN)
        _, end, tail = rest.partition(END)
        if not (begin and end):
            raise ValueError(f"docs/{name} has no marks {BEGIN.strip()} and {END.strip()}")
        pages[DOCS / name] = f"{head}{begin}\n{part.strip()}\n\n{end}{tail}"
    return pages


def stale() -> list[str]:
    """The pages that are not as they must be."""
    return [path.name for path, text in fresh().items() if path.read_text() != text]


if __name__ == "__main__":
    for path, text in fresh().items():
        path.write_text(text)
