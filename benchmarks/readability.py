"""How long the sentences of the project's pages and notebooks are.

    python benchmarks/readability.py [--longest 10]

Code, tables, formulas and headings do not count. A sentence ends with a full stop, a question mark, an exclamation
mark, a colon or a semicolon. The last line is JSON: the mean of words a sentence over all, and the share of sentences
with more than 25 words.
"""

import argparse
import json
import re
from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from autograder import course as courses
from autograder.author import build

LONG = 25  # words
OTHER = re.compile(r"^\s*(?:[|#]|```|\[|!).*$", re.M)  # rows of tables, headings
ITEM = re.compile(r"^\s*(?:[-*>]|\d+\.) ", re.M)


def sentences(markdown: str) -> Iterator[str]:
    """The sentences of a Markdown text, without code, tables and formulas."""
    text = re.sub(r"```.*?^```|\$\$.*?\$\$|<[^>]+>", " ", markdown, flags=re.S | re.M)
    text = ITEM.sub("\n\n", OTHER.sub("\n\n", text))
    text = re.sub(r"`[^`]*`|\$[^$]*\$|\]\([^)]*\)", "x", text)
    for paragraph in re.split(r"\n\s*\n", text):
        yield from (one for one in re.split(r"(?<=[.!?:;])\s+", " ".join(paragraph.split())) if one)


def texts() -> dict[str, str]:
    """The Markdown of the pages and of the released notebooks, by name."""
    root = courses.ROOT
    pages = [*root.glob("*.md"), *(root / "docs").glob("*.md"), root / "data/README.md"]
    found = {path.relative_to(root).as_posix(): path.read_text() for path in sorted(pages)}
    course = courses.load()
    for entry in course.notebooks:
        cells = build.student_notebook(course, entry).cells
        found[entry.name] = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    return found


def main() -> None:
    """Print the table, the longest sentences, and the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longest", type=int, default=0, help="print so many of the longest sentences")
    options = parser.parse_args()
    table = Table("text", "sentences", "words a sentence", f"over {LONG} words")
    lengths: list[int] = []
    by_length: list[tuple[int, str, str]] = []
    for name, text in texts().items():
        own = [(len(one.split()), name, one) for one in sentences(text)]
        if own:
            words = [length for length, _, _ in own]
            long = sum(length > LONG for length in words) / len(words)
            table.add_row(name, str(len(words)), f"{sum(words) / len(words):.1f}", f"{long:.1%}")
            lengths += words
            by_length += own
    Console(width=100).print(table)
    for length, name, sentence in sorted(by_length, reverse=True)[: options.longest]:
        print(f"{length} words, {name}: {sentence}")
    share = sum(length > LONG for length in lengths) / len(lengths)
    print(json.dumps({"sentences": len(lengths), "words": sum(lengths) / len(lengths), "long": share}))


if __name__ == "__main__":
    main()
