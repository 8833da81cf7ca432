"""What the instructor runs: build, release, collect, grade, feedback, report, export."""

import importlib
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

# jsonschema, when it is imported, builds a grammar of URIs from this optional package: 0.9 s in every process,
# for a format that no notebook schema uses. None makes it do without, as it does where the package is missing.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]


class _ServerExtension(ModuleType):
    """In the place of a Jupyter server's extension, until a server asks it to load."""

    def load_jupyter_server_extension(self, app: Any) -> None:
        """Import the extension, and have it do so."""
        sys.modules.pop(self.__name__, None)
        importlib.import_module(self.__name__).load_jupyter_server_extension(app)


# nbgrader, when it is imported, imports its pages for a Jupyter server and all that they need: 0.5 s in every process
# that only wants its gradebook. In a server they are there already.
for _name in ("assignment_list", "course_list", "formgrader", "validate_assignment"):
    _module = f"nbgrader.server_extensions.{_name}"
    sys.modules.setdefault(_module, _ServerExtension(_module))

# A worker has one core: numpy would start a thread for each of the machine's, in each worker, and have them spin.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# nbgrader runs `alembic` by name when it makes a gradebook: it lies beside the interpreter, activated or not.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
