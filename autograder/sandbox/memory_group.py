"""A memory cgroup for each sandbox, where this process may make one: the system then bounds what it holds.

Linux 4.19 and later counts in it what the watch of `sandbox` does not: socket buffers, pipes, records of mappings. That
watch looks four times a second and says which limit was broken; the group holds in between. Where none can be made, as
by an ordinary user to whom nobody has delegated a group, the watch is alone.
"""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

V1, V2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")  # where the two versions are mounted
SPARE = 64 * 2**20  # bytes for what only the group counts, so that an honest submission meets the watch first
REMOVE_SECONDS = 5


class MemoryGroup:
    """A cgroup that holds at most `most` bytes. A process in it is killed if it needs more."""

    def __init__(self, path: Path, limit: str, counts: str, most: int):
        self.path, self._counts = path, path / counts
        path.mkdir()
        try:
            (path / limit).write_text(str(most))
        except OSError:
            path.rmdir()
            raise

    @property
    def processes(self) -> str:
        """The file into which a process writes 0 to enter."""
        return str(self.path / "cgroup.procs")

    def has_killed(self) -> bool:
        """Whether the system has killed a process in it for want of memory."""
        try:
            lines = self._counts.read_text().splitlines()
        except OSError:  # it is removed
            return False
        return any(line.startswith("oom_kill ") and line != "oom_kill 0" for line in lines)

    def remove(self) -> None:
        """Remove it once its last process is gone; one that does not go in time leaves an empty group behind."""
        late = time.monotonic() + REMOVE_SECONDS
        while time.monotonic() < late:
            with suppress(OSError):
                return self.path.rmdir()
            if not self.path.exists():
                return
            time.sleep(0.01)


def make(name: str, most: int) -> MemoryGroup | None:
    """A memory cgroup called `name` within this process's own, or beside it; None if the system does not let us."""
    for parent, limit, counts in candidate_places():
        with suppress(OSError):
            return MemoryGroup(parent / name, limit, counts, most)
    return None


def candidate_places() -> Iterator[tuple[Path, str, str]]:
    """The cgroups in which one may be made, each with its files of the limit and of the processes that were killed."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, own = line.split(":", 2)
        if "memory" in controllers.split(","):
            for parent in (V1 / own.lstrip("/"), V1):  # in a container the whole mount may be its own group
                if (parent / "memory.limit_in_bytes").exists():
                    yield parent, "memory.limit_in_bytes", "memory.oom_control"
        elif not controllers:
            inner = V2 / own.lstrip("/")
            for parent in (inner, inner.parent):  # a group that holds processes itself has no groups with limits
                with suppress(OSError):
                    if "memory" in (parent / "cgroup.subtree_control").read_text().split():
                        yield parent, "memory.max", "memory.events"
