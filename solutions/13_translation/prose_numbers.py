"""The numbers that the prose of notebook 13 prints, computed. Its cells print all others."""

from collections.abc import Callable

from utils.experiments import translation

NUMBERS: dict[str, Callable[[], str]] = {"13": lambda: translation.NOTEBOOK[:2]}
