"""What an experiment is, and what one run of it leaves behind. Imports nothing heavy: graders read runs, too.

An experiment is a configuration; a run is an experiment with a seed. Everything that decides a run's
outcome is in the experiment; where it ran (device, precision, versions) is noted in the run.
"""

import hashlib
import json
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from utils import files

VARIES = ("head", "order", "dropout")
MAX_FILE = 2**20  # bytes
MAX_FILES = 500  # in one hand-in
Files = Mapping[str, bytes]  # "NAME-DIGEST/seed_N.json" -> content
RESULTS = "results"  # the folder, as students know it
DRIVE = Path("/content/drive/MyDrive/attention_graded/results")  # the same in Colab, where a student's Drive is mounted
DIGITS = 5  # of logits and curves
LATER = ("student", "epochs")  # fields that the runs which come with the course do not have yet
# What `parse` takes at most, far above any run of ours, so that nothing which a file holds is slow or overflows.
MAX_DEPTH, MAX_ENTRIES, MAX_TEXT, MAX_NUMBER = 10, 200_000, 1000, 1e15
MAX_LOGIT = 1e6
NUMBERS = {int, float}


class BadRun(ValueError):
    """A file that is no run, or not this one; the message says why."""


@dataclass(frozen=True)
class Experiment:
    """One configuration: model, task, data, schedule, and what a seed varies.

    `after` holds experiments that are run first, once, with seed 0: one with method `full` hands on its
    encoder, those with method `adapter` or `published` hand their adapters to a fusion.
    """

    name: str
    task: str  # a task of data.pairs
    encoder: str  # tiny, minilm or bert
    start: str = "pretrained"  # the encoder's weights: random or pretrained
    method: str = "full"  # full, adapter, fusion; published: an adapter of the hub, not trained here
    after: tuple["Experiment", ...] = ()
    train_examples: int | None = None  # at most so many, the first ones
    epochs: int = 3
    batch: int = 16
    lr: float = 5e-5
    warmup: float = 0.1  # share of the steps
    weight_decay: float = 0.01
    max_len: int = 128
    varies: tuple[str, ...] = VARIES

    def __post_init__(self):
        if set(self.varies) - set(VARIES):
            raise ValueError(f"a seed can vary {', '.join(VARIES)}, not {', '.join(set(self.varies) - set(VARIES))}")
        if self.start not in ("random", "pretrained") or self.method not in ("full", "adapter", "fusion", "published"):
            raise ValueError(f"{self.name}: no start {self.start!r} with method {self.method!r}")
        if min(self.epochs, self.batch, self.max_len) < 1 or self.lr <= 0 or not 0 <= self.warmup <= 1:
            raise ValueError(f"{self.name}: epochs, batch, max_len and lr are positive, warmup is from 0 to 1")

    def plain(self) -> dict[str, Any]:
        """Its fields as JSON holds them: lists for tuples."""
        return json.loads(json.dumps(asdict(self)))

    def digest(self) -> str:
        """Eight hexadecimal digits that differ between configurations."""
        return hashlib.sha256(json.dumps(self.plain(), sort_keys=True).encode()).hexdigest()[:8]

    def folder(self, results: Path | str) -> Path:
        """Where the runs of this configuration lie within a folder of results."""
        return Path(results) / f"{re.sub(r'[^A-Za-z0-9]+', '_', self.name)}-{self.digest()}"

    def seeds_of(self, seed: int) -> dict[str, int]:
        """The seeds of head, order and dropout: they follow from `seed` for what varies, from 0 for the rest.

        No two parts have the same, neither of one run nor of two runs that differ in their seed.
        """
        return {what: 3 * (seed if what in self.varies else 0) + place for place, what in enumerate(VARIES)}


@dataclass(frozen=True)
class Run:
    """One experiment with one seed, finished: what it predicted on the validation examples, in their order."""

    experiment: dict[str, Any]  # the fields of the Experiment
    seed: int
    labels: list[int]  # gold
    predictions: list[int]
    logits: list[list[float]]  # (examples, classes)
    curve: list[dict[str, float]]  # one entry an epoch: train_loss, loss, accuracy (on validation)
    seconds: float = 0.0
    device: str = ""
    precision: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    student: str = ""  # who ran it, see `utils.experiments.student`
    epochs: list[list[list[float]]] = field(default_factory=list)  # logits after each epoch but the last

    @property
    def margins(self) -> np.ndarray:
        """Logit of the second of two classes minus that of the first, shape (examples,); its sign is the prediction."""
        logits = np.asarray(self.logits)
        return logits[:, 1] - logits[:, 0]

    @property
    def accuracy(self) -> float:
        """The fraction of validation examples predicted right."""
        right = sum(guess == label for guess, label in zip(self.predictions, self.labels, strict=True))
        return right / len(self.labels)

    @property
    def degenerate(self) -> bool:
        """Whether it predicts one class only: it learned nothing, or forgot it."""
        return len(set(self.predictions)) == 1

    @property
    def majority(self) -> float:
        """The fraction of the most frequent class: what one gets without reading."""
        return max(self.labels.count(label) for label in set(self.labels)) / len(self.labels)


@dataclass(frozen=True)
class Standing:
    """What is known of a student's runs besides the files: from all hand-ins, and from the instructor."""

    against: tuple[str, ...] = ()  # what a person decided; it costs the points
    flags: tuple[str, ...] = ()  # what a person has to look at; it costs nothing, and the student is not told
    keys: tuple[tuple[str, str], ...] | None = None  # folded name and key; None: the course works without keys


NO_STANDING = Standing()


def path_of(experiment: Experiment, seed: int, results: Path | str) -> Path:
    """The file of one run."""
    return experiment.folder(results) / f"seed_{seed}.json"


def dumps(run: Run) -> str:
    """The text of a run's file."""
    content = asdict(run)
    content["digest"] = _digest(content)
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in content.items()) + "\n}\n"


def write(run: Run, path: Path) -> None:
    """Write a run whole or not at all."""
    files.write(path, dumps(run))


def read(path: Path) -> Run:
    """The run in a file, with everything checked that can be checked without knowing the experiment.

    Raises:
        BadRun: it cannot be read, has other fields, was edited, or contradicts itself; says which.
        FileNotFoundError: there is no such file.
    """
    with path.open("rb") as file:
        text = file.read(MAX_FILE + 1)
    return parse(text)


def parse(text: bytes) -> Run:
    """The run in the bytes of a file.

    Raises:
        BadRun: as `read` says.
    """
    if len(text) > MAX_FILE:
        raise BadRun("it is too large for a run")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise BadRun("it is not JSON: cut off, or edited") from None
    names = {one.name for one in fields(Run)} | {"digest"}
    if not isinstance(content, dict) or not names.difference(LATER) <= set(content) <= names:
        raise BadRun("its fields are not those of a run")
    _check_bounds(content)
    claimed = content.pop("digest")
    _check_types(content)
    if claimed != _digest(content):
        raise BadRun("it was edited: its digest does not belong to its content")
    run = Run(**content)
    _check_sense(run)
    return run


def results_folder(say: bool = False) -> Path:
    """Where the runs of this session are kept: `results` in the working folder, or DRIVE where Colab has mounted it.

    Runs that were made before it was mounted are copied there. With `say`, it prints what a student has to know.
    """
    here = Path(RESULTS)
    if "google.colab" not in sys.modules:
        return here
    if not DRIVE.parents[1].is_dir():
        if say:
            print(
                "Colab throws the runs away when this session ends. To keep them on your Drive, run "
                '`from google.colab import drive; drive.mount("/content/drive")`, then this cell again.'
            )
        return here
    for name, content in read_files(here).items():
        if not (DRIVE / name).exists():
            files.write(DRIVE / name, content)
    DRIVE.mkdir(parents=True, exist_ok=True)
    if say:
        print(f"The runs are kept on your Drive, in {DRIVE}.")
    return DRIVE


def read_files(results: Path) -> dict[str, bytes]:
    """The files of runs in a folder of results; links and everything else are left out."""
    found: dict[str, bytes] = {}
    if results.is_symlink():
        return found
    for path in sorted(results.glob("*/seed_*.json"))[:MAX_FILES]:
        if path.is_file() and not path.is_symlink() and not path.parent.is_symlink():
            with path.open("rb") as file:
                found[f"{path.parent.name}/{path.name}"] = file.read(MAX_FILE + 1)
    return found


def _digest(content: dict[str, Any]) -> str:
    """Finds accidents and careless edits; that nobody forges a file is the audit's business."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _check_bounds(content: dict[str, Any]) -> None:
    """Level by level, for a recursion has a limit of its own."""
    level: list[Any] = [content]
    entries = 0
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for one in level:
            entries += len(one)
            if entries > MAX_ENTRIES:
                raise BadRun("it holds more than a run can")
            if type(one) is list and {*map(type, one)} <= NUMBERS:  # most of a run
                if one and not (min(one) >= -MAX_NUMBER and max(one) <= MAX_NUMBER and all(map(math.isfinite, one))):
                    raise BadRun("it holds a number that no run has")
                continue
            values: Any = [*one, *one.values()] if type(one) is dict else one
            for value in values:
                kind = type(value)
                if kind is dict or kind is list:
                    below.append(value)
                elif kind is str and (len(value) > MAX_TEXT or not value.isprintable()):
                    raise BadRun("it holds text that no run has")
                elif (kind is int or kind is float) and not -MAX_NUMBER <= value <= MAX_NUMBER:  # nor NaN
                    raise BadRun("it holds a number that no run has")
        if not below:
            return
        level = below
    raise BadRun("it is nested deeper than a run")


def _number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _table(value: Any, rows: int) -> bool:
    """Whether it is a table of logits with so many rows, all of one length."""
    if type(value) is not list or len(value) != rows or any(type(row) is not list for row in value):
        return False
    return len({len(row) for row in value}) == 1 and all(
        row and {*map(type, row)} <= NUMBERS and min(row) >= -MAX_LOGIT and max(row) <= MAX_LOGIT for row in value
    )


def _check_types(content: dict[str, Any]) -> None:
    """Every field is of exactly its type; fields that may be missing are there or not."""
    for name in ("labels", "predictions"):
        values = content[name]
        if type(values) is not list or not values or any(type(value) is not int or value < 0 for value in values):
            raise BadRun(f"{name} is not a list of classes")
    logits, curve, epochs = content["logits"], content["curve"], content.get("epochs", [])
    if type(logits) is not list or not _table(logits, len(logits)) or len(logits[0]) < 2:
        raise BadRun("logits is not a table of numbers")
    if type(epochs) is not list or not all(_table(one, len(logits)) for one in epochs):
        raise BadRun("epochs is not a list of tables like logits")
    keys = {"train_loss", "loss", "accuracy"}
    if type(curve) is not list or any(
        type(point) is not dict or set(point) != keys or not all(map(_number, point.values())) for point in curve
    ):
        raise BadRun(f"curve is not a list of {', '.join(sorted(keys))}")
    if type(content["seed"]) is not int or not _number(content["seconds"]) or content["seconds"] < 0:
        raise BadRun("seed or seconds is not a number")
    if type(content["experiment"]) is not dict or type(content["versions"]) is not dict:
        raise BadRun("experiment or versions is not a table")
    texts = [content["device"], content["precision"], content.get("student", ""), *content["versions"].values()]
    if any(type(one) is not str for one in texts):
        raise BadRun("device, precision, student or a version is not text")


def _check_sense(run: Run) -> None:
    """What the file says twice, it says alike: counts, predictions, and every point of the curve that has logits."""
    if not len(run.labels) == len(run.predictions) == len(run.logits):
        raise BadRun(f"{len(run.labels)} labels, {len(run.predictions)} predictions and {len(run.logits)} logits")
    classes = len(run.logits[0])
    if max(run.labels) >= classes or any(len(table[0]) != classes for table in run.epochs):
        raise BadRun(f"its logits are of {classes} classes, its labels or epochs of others")
    for number, (guess, row) in enumerate(zip(run.predictions, run.logits, strict=True)):
        if guess >= len(row) or row[guess] != max(row):
            raise BadRun(f"prediction {number} is not the largest of its logits")
    if not run.curve:
        return
    if abs(run.curve[-1]["accuracy"] - run.accuracy) > 10**-DIGITS:
        raise BadRun("its curve ends at an accuracy that is not that of its predictions")
    if run.epochs and len(run.epochs) != len(run.curve) - 1:
        raise BadRun(f"it has the logits of {len(run.epochs) + 1} epochs and a curve of {len(run.curve)}")
    tables = [*run.epochs, run.logits]
    for number, (table, point) in enumerate(zip(tables[::-1], run.curve[::-1], strict=False)):
        loss, accuracy = score(np.array(table, dtype=float), np.array(run.labels))
        what = "loss" if not abs(point["loss"] - loss) <= 2 * 10**-DIGITS else ""
        if number and not abs(point["accuracy"] - accuracy) <= 10**-DIGITS:
            what = "accuracy"
        if what:
            raise BadRun(f"the {what} of epoch {len(run.curve) - number} in its curve is not that of its logits")


def score(logits: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Mean cross-entropy and accuracy of logits (examples, classes)."""
    shifted = logits - logits.max(1, keepdims=True)
    right = np.log(np.exp(shifted).sum(1)) - shifted[np.arange(len(labels)), labels]
    return float(right.mean()), float((logits.argmax(1) == labels).mean())
