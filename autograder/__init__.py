"""What the instructor runs: build, release, collect, grade, feedback, report, export."""

import sys

# jsonschema, when it is imported, builds a grammar of URIs from this optional package: 0.9 s in every process,
# for a format that no notebook schema uses. None makes it do without, as it does where the package is missing.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
