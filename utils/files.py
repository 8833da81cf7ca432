"""Writing a file so that nothing is lost, whenever it is interrupted."""

import os
import tempfile
from pathlib import Path


def write(path: Path, text: str | bytes) -> None:
    """Write a file whole or not at all: a reader never sees a part, a crash leaves the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode() if isinstance(text, str) else text
    handle, partial = tempfile.mkstemp(dir=path.parent, prefix=".partial-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(partial, 0o644)
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise
