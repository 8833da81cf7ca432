"""What stands in the place of torch's compiler in kernels and judges, where hardly anybody compiles."""

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

COMPILER = "torch._dynamo"


def install() -> None:
    """Put it there, unless the compiler is imported; before anything makes an optimizer."""
    sys.modules.setdefault(COMPILER, NoCompiler(COMPILER))


class NoCompiler(ModuleType):
    """In the place of torch's compiler, until somebody compiles: to import it takes a second, a third of all.

    Every optimizer asks it for two things, which have no effect where nothing is compiled. For anything else it is
    imported, by the process that asks.
    """

    def graph_break(self, *given: Any, **named: Any) -> None:
        """End what is being compiled: nothing is."""

    def disable(self, function: Any = None, recursive: bool = True, **named: Any) -> Any:
        """A function that is not to be compiled; `named` is {"wrapping": False} where torch itself asks."""
        if function is None or named != {"wrapping": False}:
            return self._real().disable(function, recursive, **named)
        disabled: Callable[..., Any] | None = None

        def plain(*given: Any, **named: Any) -> Any:
            nonlocal disabled
            if sys.modules[COMPILER] is self:
                return function(*given, **named)
            disabled = disabled or self._real().disable(function, recursive, wrapping=False)
            return disabled(*given, **named)

        return plain

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__path__":  # of every module somebody asks for its file
            raise AttributeError(f"module {COMPILER} has no {name} yet")
        return getattr(self._real(), name)

    def _real(self) -> Any:
        if sys.modules.get(COMPILER) is self:
            del sys.modules[COMPILER]
        return importlib.import_module(COMPILER)
