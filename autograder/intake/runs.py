"""The runs of experiments in a submission, wherever they are: beside its notebook, in another folder, in a zip."""

import datetime
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from utils.experiments.run_files import MAX_FILE, MAX_FILES, RESULTS

MAX_RUNS = 8 * 2**20  # bytes of all runs of a submission; a run takes some 10 KB
# A run as `utils.hand_in` packs it: in a folder that is named after its experiment, usually in a folder `results`.
RUN = re.compile(r"^(?P<place>(?:.*/)?)(?P<name>(?!results/)[\w.,+-]{1,150}/seed_\d{1,6}\.json)$")


class CannotRead(Exception):
    """A run cannot be read; the message says why."""


@dataclass(frozen=True)
class RunFile:
    """The file of one run."""

    path: PurePosixPath  # as messages name it
    place: PurePosixPath  # the folder that holds the folder of its experiment
    name: str  # EXPERIMENT/seed_N.json
    read: Callable[[int], bytes]  # at most so many bytes; raises CannotRead
    archive: str = ""  # the student's zip that holds it
    when: datetime.datetime | None = None  # when it was handed in, if that can differ from its notebook's time
    late: bool = False  # whether the platform says so

    @property
    def location(self) -> str:
        """Where a message says that it is."""
        return self.archive or self.place.as_posix()


@dataclass(frozen=True)
class Runs:
    """The runs that belong to one notebook, by name, and when the last of them was handed in."""

    files: dict[str, bytes] = field(default_factory=dict)
    when: datetime.datetime | None = None
    late: bool = False


class Unclaimed:
    """The runs that no notebook has taken yet, by location."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def lines(self) -> list[str]:
        """A line for each location whose runs belong to no notebook."""
        return [
            f"{location}: {count} runs belong to no notebook that was taken with them, and are not kept; ask for the "
            "notebook and its runs in one zip, as the cell `pack(...)` makes it"
            for location, count in self.counts.items()
            if count
        ]


class Submission:
    """The runs of one submission, for the notebooks that it holds.

    `neighbours` are runs by the folder that they lie beside, whichever student they belong to.
    """

    def __init__(self, unclaimed: Unclaimed, neighbours: Mapping[PurePosixPath, list[RunFile]] | None = None):
        self.files: list[RunFile] = []
        self.with_notebook: set[str] = set()  # the zips that hold a notebook; "": there is one outside of zips
        self._unclaimed = unclaimed
        self._neighbours = neighbours or {}

    def add(self, run: RunFile) -> None:
        """Note a run; it is reported unless a notebook takes it."""
        self.files.append(run)
        self._unclaimed.counts[run.location] += 1

    def runs_of(
        self,
        notebook: PurePosixPath,
        archive: str,
        refuse: Callable[[object, str], None],
        experiments: Collection[str] = (),
    ) -> Runs:
        """Read the runs of a notebook: those of its own zip or folder, and those in zips without a notebook.

        If there are none, those in zips with another notebook of the submission. Of several files of one name, the
        nearest counts. Where there are too many, those of the folders `experiments` come first, and no experiment is
        taken in part.
        """
        known = [*self.files, *self._neighbours.get(notebook.parent, ())]
        own = [file for file in known if file.archive == archive or file.archive not in self.with_notebook]
        nearest: dict[str, RunFile] = {}
        for file in sorted(
            own or known, key=lambda candidate: (candidate.archive != archive, _steps(notebook.parent, candidate.place))
        ):
            nearest.setdefault(file.name, file)
            self._unclaimed.counts.pop(file.location, None)
        return _read(nearest.values(), experiments, refuse)


def by_neighbour(files: Iterable[RunFile]) -> dict[PurePosixPath, list[RunFile]]:
    """Runs by the folder that they lie beside, as `results` lies beside a notebook."""
    neighbours: dict[PurePosixPath, list[RunFile]] = {}
    for file in files:
        neighbours.setdefault(file.place.parent if file.place.name == RESULTS else file.place, []).append(file)
    return neighbours


def _steps(here: PurePosixPath, there: PurePosixPath) -> tuple[int, int]:
    """How many folders up, and then down, lead from one folder to another."""
    shared = 0
    for left, right in zip(here.parts, there.parts, strict=False):
        if left != right:
            break
        shared += 1
    return len(here.parts) - shared, len(there.parts) - shared


def _read(files: Iterable[RunFile], experiments: Collection[str], refuse: Callable[[object, str], None]) -> Runs:
    """Read runs, an experiment at a time, as long as there is room for whole experiments."""
    by_experiment: dict[str, list[RunFile]] = {}
    for file in files:
        by_experiment.setdefault(file.name.split("/")[0], []).append(file)
    taken_runs: dict[str, bytes] = {}
    taken: list[RunFile] = []
    left, full = MAX_RUNS, ""
    for experiment in sorted(by_experiment, key=lambda name: (name not in experiments, name)):
        of_experiment = sorted(by_experiment[experiment], key=lambda file: file.name)
        if not full and len(taken_runs) + len(of_experiment) > MAX_FILES:
            full = f"more than {MAX_FILES} runs"
        read: dict[str, bytes] = {}
        for file in of_experiment if not full else ():
            try:
                read[file.name] = file.read(min(MAX_FILE, left) + 1)
            except CannotRead as why:
                refuse(file.path, str(why))
                continue
            left -= len(read[file.name])
            if left < 0:
                full = f"more than {MAX_RUNS // 2**20} MB of runs"
                break
        if full:
            refuse(
                f"{of_experiment[0].location}/{experiment}",
                f"{full}: the {len(of_experiment)} of this experiment are not taken",
            )
            continue
        taken_runs |= read
        taken += [file for file in of_experiment if file.name in read]
    times = [file.when for file in taken if file.when is not None]
    return Runs(taken_runs, max(times, default=None), any(file.late for file in taken))
