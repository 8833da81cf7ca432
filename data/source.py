"""Text that every machine already has: the source of Python's standard library. It is read, and never imported."""

import random
import sysconfig
from pathlib import Path

HELD_BACK = 12  # one file of so many is to test on


def train_and_test(folder: Path | str | None = None) -> tuple[str, str]:
    """The modules of the standard library (those that are one file each) in an order of their own, in two texts.

    Those to test on are other files. What there is depends on the version of Python.

    Args:
        folder: of the library, if not this Python's own.

    Raises:
        FileNotFoundError: there are no source files.
    """
    place = Path(folder or sysconfig.get_path("stdlib"))
    files = sorted(place.glob("*.py"))
    if len(files) < HELD_BACK:
        raise FileNotFoundError(f"{place} has no source of Python's library: this Python came without it, take another")
    random.Random(0).shuffle(files)
    count = len(files) // HELD_BACK
    held, rest = files[:count], files[count:]
    train, test = ("\n".join(file.read_text("utf-8", "ignore") for file in some) for some in (rest, held))
    return train, test
