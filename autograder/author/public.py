"""The public checks of a notebook: the same that students run at home."""

import importlib
from types import ModuleType

from autograder.course import NotebookEntry
from utils.grading.check import Check, checks_of


def checks_module(entry: NotebookEntry) -> ModuleType:
    """The public checks of a notebook, `utils/checks/nbNN_name.py`."""
    return importlib.import_module(entry.public_checks)


def checks(entry: NotebookEntry) -> dict[str, Check]:
    """The public checks of a notebook by exercise number."""
    return checks_of(checks_module(entry))
