"""What came and what should have come, side by side: at home, where a public check compares two tensors that differ.

A failed comparison is a `Different`. `Check.__call__`, which only a student's own session calls, has those kept that
decided on an answer, and shows them. In grading nobody keeps them: neither records nor pages know of them.
"""

import html
import itertools
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import torch

SIDE = 8  # rows and columns that are shown
FEWEST = 4  # entries: fewer would be the answer to what was asked, and help nobody to find a mistake
DIGITS = range(4, 10)
CAME, WANTED = "your result", "the right result"
HIDDEN = "position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap"
BOX = "overflow-x: auto; max-width: 100%; position: relative"  # or what is hidden in it would widen the page
CELL = "padding: .15em .5em; text-align: right; white-space: nowrap"
MARKED = f"{CELL}; font-weight: bold; outline: 1px solid currentColor; outline-offset: -1px"

_kept: ContextVar[list["Different"] | None] = ContextVar("kept", default=None)


class Different(AssertionError):
    """Two values that should agree within `tolerance`, relative and, times `scale`, absolute; says that they do not."""

    def __init__(
        self,
        sentence: str,
        came: torch.Tensor | float,
        wanted: torch.Tensor | float,
        tolerance: float,
        scale: float = 1.0,
    ):
        super().__init__(sentence)
        self.came, self.wanted, self.tolerance, self.scale = came, wanted, tolerance, scale

    def saying(self, sentence: str) -> "Different":
        """The same in another sentence."""
        return Different(sentence, self.came, self.wanted, self.tolerance, self.scale)

    def table(self) -> "Table | None":
        """Both as a table; None of numbers, of tensors of two shapes, and of those with fewer than FEWEST entries."""
        both = self.came, self.wanted
        if not all(isinstance(one, torch.Tensor) and one.dim() and one.numel() >= FEWEST for one in both):
            return None
        came, wanted = (torch.as_tensor(one).detach().cpu() for one in both)
        return Table(str(self), came, wanted, self.tolerance, self.scale) if came.shape == wanted.shape else None


@contextmanager
def kept() -> Iterator[list[Different]]:
    """Within it, the comparisons that decide on an answer are kept in the list that is given."""
    found: list[Different] = []
    before = _kept.set(found)
    try:
        yield found
    finally:
        _kept.reset(before)


def keep(failed: Exception) -> None:
    """Keep what decided on an answer, if somebody wants to see it, see `kept`."""
    found = _kept.get()
    if found is not None and isinstance(failed, Different):
        found.append(failed)


def show(found: Sequence[Different], notebook: bool) -> None:
    """Show the tables of failed comparisons: as a notebook's output, else printed."""
    tables = [table for one in found if (table := one.table())]
    for table in tables:
        table.several = len(tables) > 1
        if notebook:
            from IPython.display import display

            display(table)
        else:
            print(table)


class Table:
    """Two tensors of one shape, or a piece of SIDE by SIDE entries around the first that differs.

    Args:
        sentence: shown where there are several tables.
        came, wanted: on the processor, of one shape, with at least one axis and one entry.
        tolerance, scale: as of `Different`.
    """

    def __init__(self, sentence: str, came: torch.Tensor, wanted: torch.Tensor, tolerance: float, scale: float = 1.0):
        differs = ~torch.isclose(came.double(), wanted.double(), rtol=tolerance, atol=tolerance * scale)
        self.sentence, self.several = sentence, False
        self.shape, self.count = tuple(came.shape), int(differs.sum())
        first = differs.nonzero()[0].tolist() if self.count else [0] * came.dim()
        windows = [_around(at, size) for at, size in zip(first[-2:], self.shape[-2:], strict=True)]
        self.place = (*first[:-2], *windows)
        self.rows = [*windows[0]] if len(windows) == 2 else []  # their numbers; an axis alone is a row without one
        self.columns = [*windows[-1]]
        piece = tuple(slice(one.start, one.stop) if isinstance(one, range) else one for one in self.place)
        entries = [tensor[piece].reshape(-1, len(self.columns)).tolist() for tensor in (came, wanted, differs)]
        self.marks: list[list[bool]] = entries.pop()
        self.came, self.wanted = _texts(entries[0], entries[1], self.marks)

    @property
    def whole(self) -> bool:
        """Whether all entries are shown."""
        return len(self.columns) * max(1, len(self.rows)) == torch.Size(self.shape).numel()

    def told(self, mark: str) -> str:
        """What is shown, in a line."""
        text = f"{self.count} of {torch.Size(self.shape).numel()} entries differ; they are marked with {mark}."
        if not self.whole:
            at = ", ".join(f"{one.start}:{one.stop}" if isinstance(one, range) else str(one) for one in self.place)
            text += f" Shown is [{at}] of shape {self.shape}."
        return f"{self.sentence} {text}" if self.several else text

    def __repr__(self) -> str:
        left, right = self._lines(CAME, self.came), self._lines(WANTED, self.wanted)
        wide = max(map(len, left))
        beside = [f"{one:{wide}}    {other}".rstrip() for one, other in zip(left, right, strict=True)]
        fits = max(map(len, beside)) <= shutil.get_terminal_size((100, 24)).columns
        return "\n".join([self.told("*"), *(beside if fits else [*left, *right])])

    def _lines(self, title: str, texts: list[list[str]]) -> list[str]:
        """One of the two as lines of text."""
        marked = [
            [f"{'*' * mark}{text}" for text, mark in zip(row, marks, strict=True)]
            for row, marks in zip(texts, self.marks, strict=True)
        ]
        wide = max(len(text) for row in [*marked, [*map(str, self.columns)]] for text in row)
        front = max((len(str(row)) for row in self.rows), default=0)
        lines = [f"{'':{front}} " + " ".join(f"{column:>{wide}}" for column in self.columns)]
        for name, row in zip(self.rows or [""], marked, strict=True):
            lines.append(f"{name:>{front}} " + " ".join(f"{text:>{wide}}" for text in row))
        return [f"{title}:", *lines]

    def _repr_html_(self) -> str:
        tables = "".join(self._html(title, texts) for title, texts in ((CAME, self.came), (WANTED, self.wanted)))
        return (
            f'<div role="group" aria-label="{CAME} and {WANTED}"><p>{html.escape(self.told("≠"))}</p>'
            f'<div style="display: flex; flex-wrap: wrap; gap: .5em 2em">{tables}</div></div>'
        )

    def _html(self, title: str, texts: list[list[str]]) -> str:
        """One of the two as an HTML table, in a box that scrolls by itself what is wider than the page."""
        heads = "".join(f'<th scope="col" style="{CELL}">{column}</th>' for column in self.columns)
        rows = ""
        for name, row, marks in zip(self.rows or [None], texts, self.marks, strict=True):
            entries = "".join(_entry(text, mark) for text, mark in zip(row, marks, strict=True))
            head = "" if name is None else f'<th scope="row" style="{CELL}">{name}</th>'
            rows += f"<tr>{head}{entries}</tr>"
        corner = "<td></td>" if self.rows else ""
        return (
            f'<div role="group" aria-label="{title}" tabindex="0" style="{BOX}">'
            f'<table style="border-collapse: collapse"><caption style="text-align: left">{title}</caption>'
            f"<thead><tr>{corner}{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
        )


def _entry(text: str, mark: bool) -> str:
    """An entry of an HTML table; one that differs is framed, and says so to who sees no frames."""
    if not mark:
        return f'<td style="{CELL}">{text}</td>'
    sign = f'<span aria-hidden="true">≠ </span><span style="{HIDDEN}">differs: </span>'
    return f'<td style="{MARKED}">{sign}{text}</td>'


def _around(at: int, size: int) -> range:
    """At most SIDE of the numbers below `size`, `at` among them."""
    start = max(0, min(at - SIDE // 2, size - SIDE))
    return range(start, min(size, start + SIDE))


def _texts(came: list[list], wanted: list[list], marks: list[list[bool]]) -> tuple[list[list[str]], list[list[str]]]:
    """The entries as texts: with as few digits as show the differences of those that are marked."""
    for digits in DIGITS:
        texts = [[[_text(value, digits) for value in row] for row in table] for table in (came, wanted)]
        flat = zip(itertools.chain(*texts[0]), itertools.chain(*texts[1]), itertools.chain(*marks), strict=True)
        if all(one != other or one == "nan" for one, other, mark in flat if mark):
            break
    return texts[0], texts[1]


def _text(value: bool | int | float, digits: int) -> str:
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)
