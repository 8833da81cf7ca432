"""Modules that are not there in grading, and that students import at home: Colab's own, and windows for figures.

`offer` makes them importable. They do nothing: there is no Drive, no browser and no window. An interactive backend of
matplotlib draws into the notebook instead. A module that is installed is imported as ever, but for those backends.
"""

import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

INLINE = "matplotlib_inline.backend_inline"
TOOLKITS = ("gtk3", "gtk4", "qt", "qt5", "tk", "wx")
BACKENDS = {
    *(f"matplotlib.backends.backend_{toolkit}{how}" for toolkit in TOOLKITS for how in ("agg", "cairo")),
    *(f"matplotlib.backends.backend_{name}" for name in ("macosx", "nbagg", "webagg", "wx")),
    *("ipympl.backend_nbagg", "ipympl"),
}


def _nothing(*given: Any, **named: Any) -> None:
    """Do nothing: nobody is there."""


def _no_upload(*given: Any, **named: Any) -> dict[str, bytes]:
    """The files that nobody uploads while a notebook is graded: none."""
    return {}


def _no_secret(*given: Any, **named: Any) -> str:
    """The secret of a student's account, which is not there while a notebook is graded: an empty text."""
    return ""


COLAB: dict[str, dict[str, Callable[..., Any]]] = {
    "google": {},
    "google.colab": {},
    "google.colab.auth": {"authenticate_user": _nothing},
    "google.colab.drive": {"mount": _nothing, "flush_and_unmount": _nothing},
    "google.colab.files": {"upload": _no_upload, "download": _nothing, "view": _nothing},
    "google.colab.output": {
        name: _nothing for name in ("clear", "disable_custom_widget_manager", "enable_custom_widget_manager")
    },
    "google.colab.userdata": {"get": _no_secret},
}


class _Finder:
    """Finds what is offered: as a finder and loader of Python's import system."""

    def __init__(self, names: Sequence[str]):
        self._names = names

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Where a module is; None if it is not one of ours."""
        packages = ("google", "google.colab", "ipympl")
        return ModuleSpec(name, self, is_package=name in packages) if name in self._names else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave it to Python."""

    def exec_module(self, module: ModuleType) -> None:
        """Fill a module."""
        name = module.__name__
        if name in COLAB:
            vars(module).update(COLAB[name])
        if name == "google.colab":  # which has all of it at once
            for one in self._names:
                importlib.import_module(one)
        elif name != "ipympl":
            inline = importlib.import_module(INLINE)
            vars(module).update({key: value for key, value in vars(inline).items() if not key.startswith("__")})


def offer() -> None:
    """Make these modules importable in this process: Colab's unless they are there, the backends in any case."""
    sys.meta_path.insert(0, _Finder([*BACKENDS]))
    sys.meta_path.append(_Finder([*COLAB]))
