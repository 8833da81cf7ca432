"""What the instructor runs: build, release, collect, grade, feedback, report, export."""

import os
import sys
from pathlib import Path

# jsonschema, when it is imported, builds a grammar of URIs from this optional package: 0.9 s in every process,
# for a format that no notebook schema uses. None makes it do without, as it does where the package is missing.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

# nbgrader runs `alembic` by name when it makes a gradebook: it lies beside the interpreter, activated or not.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
