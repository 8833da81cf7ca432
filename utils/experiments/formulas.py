"""Formulas of the metrics by which runs are measured.

Some of them are the answer to an exercise: F1 (8.3), BLEU (13.5) and the best size for a budget (3.13). So no kernel of
a submission can read this module, see `utils.grading.forbidden`: modules of experiments take their formulas from here.
"""

import numpy as np


def ratio(sums: np.ndarray) -> np.ndarray:
    """The first of two sums (..., 2) divided by the second: a mean."""
    return sums[..., 0] / sums[..., 1]


def percent(sums: np.ndarray) -> np.ndarray:
    """The same in percent."""
    return 100 * ratio(sums)


def precision(sums: np.ndarray) -> np.ndarray:
    """Percent of the names found that are right, of sums (..., 3): right ones, found ones, names there."""
    return 100 * sums[..., 0] / np.maximum(sums[..., 1], 1)


def recall(sums: np.ndarray) -> np.ndarray:
    """Percent of the names there that are found, of the same sums."""
    return 100 * sums[..., 0] / np.maximum(sums[..., 2], 1)


def f1(sums: np.ndarray) -> np.ndarray:
    """The harmonic mean of precision and recall in percent, of the same sums."""
    return 100 * sums[..., 0] / np.maximum((sums[..., 1] + sums[..., 2]) / 2, 1)


def bleu(sums: np.ndarray) -> np.ndarray:
    """BLEU, 0 to 100; 0 where an order has no match.

    `sums` (..., 2 + 2 * orders) are words of the references and of the translations, then for each order of n-grams
    the matches, then for each order the n-grams.
    """
    orders = (sums.shape[-1] - 2) // 2
    reference, length, matches, there = sums[..., 0], sums[..., 1], sums[..., 2 : 2 + orders], sums[..., 2 + orders :]
    with np.errstate(divide="ignore", invalid="ignore"):
        precisions = np.exp(np.log(matches / there).mean(-1))
        brevity = np.exp(np.minimum(0, 1 - reference / length))
    return np.where((matches > 0).all(-1), 100 * precisions * brevity, 0.0)


def vertex(sizes: np.ndarray, losses: np.ndarray) -> tuple[float, float]:
    """The size and the loss at the vertex of a parabola in log N, fitted to losses by least squares.

    Raises:
        ValueError: it opens downward, so that its vertex is the worst size.
    """
    square, slope, constant = np.polyfit(np.log(sizes), losses, 2)
    if square <= 0:
        raise ValueError("the parabola opens downward")
    place = -slope / (2 * square)
    return float(np.exp(place)), float(constant + place * slope / 2)


def on_parabola(sizes: np.ndarray, losses: np.ndarray, points: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Points of the same parabola, from the smallest size to the largest."""
    grid = np.geomspace(sizes.min(), sizes.max(), points)
    return grid, np.polyval(np.polyfit(np.log(sizes), losses, 2), np.log(grid))


def power_law(x: np.ndarray, values: np.ndarray, place: float) -> tuple[float, float]:
    """What a straight line through the logarithms of values says at a place, and its slope, the exponent."""
    slope, constant = np.polyfit(np.log(x), np.log(values), 1)
    return float(np.exp(slope * np.log(place) + constant)), float(slope)


def middle(values: np.ndarray, level: float = 0.95) -> tuple[float, float]:
    """The ends of the middle of values that holds such a share of them."""
    low, high = np.quantile(values, ((1 - level) / 2, (1 + level) / 2))
    return float(low), float(high)
