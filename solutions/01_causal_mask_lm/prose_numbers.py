"""The numbers that the prose of notebook 01 prints, computed. There is none: its cells print theirs."""

from collections.abc import Callable

NUMBERS: dict[str, Callable[[], str]] = {}
