"""Figures that the course quotes from papers. They are in one place, the tables of `docs/papers.md`."""

from functools import cache

from autograder.course import ROOT, CourseError


@cache
def _tables() -> dict[str, list[list[str]]]:
    """The tables of the page by the heading above them: rows of cells, the names of columns first."""
    found: dict[str, list[list[str]]] = {}
    heading = ""
    for line in (ROOT / "docs" / "papers.md").read_text().splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif line.startswith("|") and not line.startswith("|---"):
            found.setdefault(heading, []).append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def quoted(table: str, row: str, column: str) -> str:
    """A figure of the page: `quoted("BERT, table 1", "GPT", "average")` is "75.1".

    Raises:
        CourseError: there is no such table, row or column.
    """
    names, *rows = _tables().get(table, [[]])
    for cells in rows:
        if cells[0] == row and column in names:
            return cells[names.index(column)]
    raise CourseError(f"docs/papers.md has no {column!r} of {row!r} below {table!r}")


def figure(name: str) -> str:
    """A figure of the page's last table, by its name."""
    return quoted("Other figures that the notebooks quote", name, "value")


def change(name: str) -> str:
    """How far the two values of a figure are apart: 0.4 of "78.3 and 78.7"."""
    before, after = (float(value) for value in figure(name).split(" and "))
    return f"{abs(after - before):.1f}"
