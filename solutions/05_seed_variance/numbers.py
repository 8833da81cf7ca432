"""The numbers that the prose of notebook 05 prints, computed. Its cells print all others."""

from collections.abc import Callable

import numpy as np


def kept_by_the_bootstrap() -> str:
    """How often the percentile bootstrap interval of five normal runs holds their true mean."""
    draw, experiments = np.random.default_rng(0), 8000
    runs = draw.normal(size=(experiments, 5))
    again = np.stack([five[draw.integers(5, size=(400, 5))].mean(axis=1) for five in runs])
    low, high = np.quantile(again, [0.025, 0.975], axis=1)
    return f"{np.mean((low <= 0) & (high >= 0)):.0%}"


NUMBERS: dict[str, Callable[[], str]] = {"84%": kept_by_the_bootstrap}
