"""The log of what people decided: `.course/log.jsonl`, a JSON object a line, which is only ever appended to.

Marks that a person enters are logged by the gradebook itself, see `autograder.gradebook.mark_log`.
"""

import datetime
import getpass
import json
import os
from pathlib import Path
from typing import Any

from autograder.course import Course
from utils.grading.verdict import legible

NAME = "log.jsonl"
Event = dict[str, Any]  # with the keys at, account, what and reason


def account() -> str:
    """The account that gives a command; of somebody who became root with sudo, both accounts."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # no entry in the system's list of users, as in some containers
        name = f"user {os.getuid()}"
    behind = os.environ.get("SUDO_USER", "")
    return legible(f"{name} (sudo by {behind})" if behind and name == "root" else name, 100)


def now() -> str:
    """The time as logs state it: UTC, to the second."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def note(course: Course, what: str, reason: str = "", **about: Any) -> None:
    """Append an event: when, which account, what was done, why, and about whom or what."""
    append(course.tree / NAME, {"at": now(), "account": account(), "what": what, "reason": reason, **about})


def events(course: Course) -> list[Event]:
    """All events of the log, in their order."""
    return lines(course.tree / NAME)


def append(path: Path, event: Event) -> None:
    """Append a line to a file of JSON lines; several processes may do so at the same time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(event, ensure_ascii=False).encode(errors="surrogatepass") + b"\n"
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        if _ends_within_a_line(path):
            text = b"\n" + text  # of an append that was killed
        os.write(handle, text)
        os.fsync(handle)
    finally:
        os.close(handle)


def _ends_within_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        return file.seek(0, os.SEEK_END) > 0 and file.seek(-1, os.SEEK_END) >= 0 and file.read(1) != b"\n"


def lines(path: Path) -> list[Event]:
    """What a file of JSON lines holds; a line that a killed process left half written is skipped."""
    events = []
    for line in path.read_bytes().splitlines() if path.exists() else ():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        events += [event] if isinstance(event, dict) else []
    return events
