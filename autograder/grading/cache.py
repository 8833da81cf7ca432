"""What follows from files alone is worked out once, and kept in the tree for as long as these files say the same."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from autograder.course import Course
from utils.files import write


def cached(course: Course, name: str, key: str, work: Callable[[], Any]) -> Any:
    """What `work()` answers, plain data but None; it is asked once for each `key`, a digest of all that it looks at."""
    value = recall(course, name, key)
    if value is None:
        value = work()
        keep(course, name, key, value)
    return value


def recall(course: Course, name: str, key: str) -> Any:
    """What was kept under this name for this key, or None."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        stated = json.loads((course.tree / "cache" / f"{name}.json").read_text())
        if stated["key"] == key:
            return stated["found"]
    return None


def keep(course: Course, name: str, key: str, value: Any) -> None:
    """Keep it in the place of what was kept for another key."""
    with suppress(OSError):  # no room, or not ours to write: it is worked out again the next time
        write(course.tree / "cache" / f"{name}.json", json.dumps({"key": key, "found": value}))
