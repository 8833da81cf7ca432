"""The mark scheme of a written question, as its author writes it below a model answer."""

import re

SOLUTION = re.compile(r"^### (?:BEGIN|END) SOLUTION$", re.MULTILINE)
SCHEME = re.compile(r"^=== BEGIN MARK SCHEME ===$(.*?)^=== END MARK SCHEME ===$", re.MULTILINE | re.DOTALL)
# Where a line of a list begins, or a sentence that says what a point is for.
ITEM = re.compile(r"\s*\n[-*] |(?:(?<=[.?!])|(?<=[.?!][)\"”]))\s+(?=(?:[A-Z][a-z]+|[\d./½]+)(?: an?)?\s+points?\b)")


def model_answer(written: str) -> str:
    """The answer that the author gives in the cell of a written question, without the mark scheme."""
    return SOLUTION.sub("", SCHEME.sub("", written)).strip()


def items(written: str) -> list[str]:
    """What the mark scheme in the cell of a written question says, a text for each point that is won or lost."""
    written_items = [item for scheme in SCHEME.findall(written) for item in ITEM.split(scheme)]
    return [" ".join(item.split()) for item in written_items if item.strip()]
