"""The numbers that the prose of notebook 06 prints, computed. Its cells print all others."""

from collections.abc import Callable

NUMBERS: dict[str, Callable[[], str]] = {}
