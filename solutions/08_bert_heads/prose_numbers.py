"""The numbers that the prose of notebook 08 prints, computed. Its cells print all others."""

import json
from collections.abc import Callable

from autograder import course
from autograder.author import papers

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
    "82.1": lambda: papers.quoted("BERT, table 1", "BERT-large", "average"),
    "75.1": lambda: papers.quoted("BERT, table 1", "GPT", "average"),
    "90.9": lambda: papers.figure("SQuAD 1.1, F1 of BERT-large"),
    "81.9": lambda: papers.figure("SQuAD 2.0, F1 of BERT-large"),
    "86.3%": lambda: papers.figure("SWAG, BERT-large, test") + "%",
    "59.2": lambda: papers.figure("SWAG, ELMo, test"),
    "30": lambda: exact("known", min),
    "64%": lambda: exact("known", max) + "%",
    "28": lambda: exact("other", min),
    "52%": lambda: exact("other", max) + "%",
}
