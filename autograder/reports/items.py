"""What share of an exercise's points the class earned, and how well the exercise tells the strong from the weak.

Item analysis calls that share "difficulty", although it is high where an exercise is easy. Discrimination is the
correlation of an exercise's points with those of all other exercises; for points that are all or none it is the
point-biserial correlation. The exercise itself is left out of the sum, or it would correlate with itself: Henrysson
1963, "Correction of item-total correlations in item analysis", Psychometrika 28, 211-218.
"""

import statistics
from collections.abc import Sequence

FEWEST = 10  # submissions: of fewer, one student decides on the sign of a correlation
TOO_FEW, ALL_ALIKE = "too few", "all alike"


def share_earned(scores: Sequence[float], points: float) -> float | None:
    """The share of the points that the class earned, 0 to 1; None if nobody was graded or there are no points."""
    return statistics.fmean(scores) / points if scores and points else None


def discrimination(scores: Sequence[float], others: Sequence[float]) -> float | str:
    """The correlation of an exercise's points with the sum of the other exercises' points, an entry a submission.

    TOO_FEW of fewer than FEWEST submissions, ALL_ALIKE if everybody has the same points.

    Raises:
        ValueError: the two are not of the same length.
    """
    if len(scores) != len(others):
        raise ValueError("an exercise and the others have an entry for each submission")
    if len(scores) < FEWEST:
        return TOO_FEW
    if len({*scores}) == 1 or len({*others}) == 1:
        return ALL_ALIKE
    return statistics.correlation(scores, others)
