"""The files of runs that were handed in with a notebook, as one file of the course tree."""

import json

from utils.experiments.run_files import Files


def pack(runs: Files) -> bytes:
    """The files of runs as one file of the course tree; none is b""."""
    whole = {name: content.decode(errors="replace") for name, content in sorted(runs.items())}
    return json.dumps(whole).encode() if runs else b""


def unpack(packed: bytes) -> dict[str, bytes]:
    """The files of runs that `pack` put into bytes, by name."""
    return {name: content.encode() for name, content in json.loads(packed or b"{}").items()}
