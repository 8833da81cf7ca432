"""The numbers that the prose of notebook 08 prints, computed. Its cells print all others."""

import json
from collections.abc import Callable

from autograder import course

MEASURED = course.ROOT / "data" / "results" / "answering.json"  # by measure.py, beside this file


def exact(wording: str, pick: Callable) -> str:
    """Percent of questions that the span head answered exactly, the lowest or highest over the seeds."""
    measured = json.loads(MEASURED.read_text()).values()
    shares = []
    for found in measured:
        rows = found[wording].values()
        shares.append(sum(row["head"]["exact"] for row in rows) / sum(row["asked"] for row in rows))
    return f"{100 * pick(shares):.0f}"


NUMBERS: dict[str, Callable[[], str]] = {
    "30": lambda: exact("known", min),
    "64%": lambda: exact("known", max) + "%",
    "28": lambda: exact("other", min),
    "52%": lambda: exact("other", max) + "%",
}
