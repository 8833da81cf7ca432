"""Answers written as edits of the solution; `autograder/author/answers.py` shows the form.

An edit is a piece of a diff behind comment signs: `# -` and a space before a line that goes, `# +` and a space before a
new one, `#` and three spaces before a line that stays and says where. All are whole lines. An edit may be indented less
than the solution: it counts how its lines are indented against each other.
"""

import difflib
import itertools
import re

MARKS = ("### BEGIN SOLUTION", "### END SOLUTION")
SHOWN = 2  # of the lines of a solution that look like an old line which is not there


def is_edit(source: str) -> bool:
    """Whether the source of a cell is edits: comments and nothing else."""
    return all(line.startswith("#") for line in source.splitlines() if line.strip())


def edited(solution: str, edits: str) -> str:
    """The solution's cell, without nbgrader's marks, after these edits; empty lines divide them.

    Raises:
        ValueError: an edit cannot be made. The message is half a sentence that says why.
    """
    lines = [line.rstrip() for line in solution.splitlines() if line.strip() not in MARKS]
    changes = sorted(_change(edit, lines) for edit in re.split(r"\n\s*\n", edits.strip()))
    for (_, end, _), (start, _, _) in itertools.pairwise(changes):
        if start < end:
            raise ValueError(f'two edits change "{lines[start].strip()}"; write them as one')
    for start, end, new in reversed(changes):
        lines[start:end] = new
    return "\n".join(lines)


def _change(edit: str, lines: list[str]) -> tuple[int, int, list[str]]:
    """The lines from the first number up to the second give way to new ones."""
    signed = [_signed(line) for line in edit.splitlines()]
    if not {"-", "+"} & {sign for sign, _ in signed}:
        raise ValueError('an edit has neither a line with "-" nor one with "+"')
    old = [text for sign, text in signed if sign != "+"]
    new = [text for sign, text in signed if sign != "-"]
    if not any(old):
        raise ValueError('an edit has no old text; put the line before or after its place there, behind "#   "')
    if old == new:
        raise ValueError(f'an edit changes nothing: "{_first(old)}" stays')
    places = [(start, pad) for start in range(len(lines)) if (pad := _pad(lines[start:], old)) is not None]
    if not places:
        raise ValueError(_why_nowhere(old, lines))
    if len(places) > 1:
        raise ValueError(
            f'"{_first(old)}" is found {len(places)} times in the solution; '
            'add the line before or after it, behind "#   ", so that it is found once'
        )
    ((start, pad),) = places
    return start, start + len(old), [pad + text if text else "" for text in new]


def _signed(line: str) -> tuple[str, str]:
    """The sign of a line of an edit, "-", "+" or a space, and what stands behind it."""
    match = re.fullmatch(r"#(?: ([-+ ])(?: (.*))?)?", line.rstrip())
    if not match:
        raise ValueError(
            f'the line "{line}" begins with none of "# - " (goes), "# + " (comes) and "#   " (stays, to say where)'
        )
    return match[1] or " ", match[2] or ""


def _pad(lines: list[str], old: list[str]) -> str | None:
    """By how much the old lines are indented where these lines begin with them; None: they do not."""
    there, wanted = next((pair for pair in zip(lines, old, strict=False) if pair[1]), ("", ""))
    pad = " " * (_indent(there) - _indent(wanted))
    same = lines[: len(old)] == [pad + text if text else "" for text in old]
    return pad if same else None


def _why_nowhere(old: list[str], lines: list[str]) -> str:
    known = [*dict.fromkeys(line.strip() for line in lines if line)]
    for text in filter(None, map(str.strip, old)):
        if text not in known:
            closest = " and ".join(f'"{line}"' for line in difflib.get_close_matches(text, known, SHOWN, 0))
            return f'"{text}" is not a line of the solution; closest to it: {closest}'
    return (
        f'the lines from "{_first(old)}" on are in the solution, but not one below the other, or indented otherwise; '
        "an empty line divides two edits"
    )


def _first(texts: list[str]) -> str:
    return next(text.strip() for text in texts if text)


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())
