"""What an experiment is, what one run of it leaves behind, and how well it did. Imports nothing heavy.

An experiment is a configuration; a run is an experiment with a seed. Everything that decides a run's
outcome is in the experiment; where it ran (device, precision, versions) is noted in the run. A metric is computed
from what a run predicted, never read from its file.

To add experiments, write one module, see `Experiments`, with a kind of `Experiment`.
"""

import hashlib
import importlib
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Protocol

import numpy as np

from utils import files
from utils.experiments import formulas
from utils.experiments.run_files import MAX_FILE, MAX_FILES, RESULTS

MAX_READ = 100  # of one experiment that are looked into: 20 seeds under five names
DRIVE = Path("/content/drive/MyDrive/attention_graded/results")  # the same in Colab, where a student's Drive is mounted
DIGITS = 5  # of logits and curves
CURVE = frozenset(("train_loss", "loss", "accuracy"))  # of a curve that belongs to logits
LATER = ("student", "epochs", "numbers")  # fields that the runs which come with the course may lack
# What `parse` takes at most, far above any run of ours, so that nothing which a file holds is slow or overflows.
MAX_DEPTH, MAX_ENTRIES, MAX_TEXT, MAX_NUMBER = 10, 200_000, 1000, 1e15
MAX_LOGIT = 1e6
NUMBERS = {int, float}


class BadRun(ValueError):
    """A file that is not a run, or not this one; the message says why."""


@dataclass(frozen=True)
class Metric:
    """How well a run did, from what its examples add up to, so that examples can be drawn again.

    Each example adds a row of numbers, and `value` makes the metric of their sums: right answers and answers for an
    accuracy; true positives, false ones and misses for F1; matching n-grams for BLEU; losses and tokens for a loss.
    """

    name: str
    unit: str  # of values, "%" or "nats"
    examples: Callable[["Run"], Any]  # from a run that has predictions to an array (examples, k)
    value: Callable[[np.ndarray], np.ndarray]  # from sums (..., k) to values (...)
    baseline: Callable[["Run"], Any] | None = None  # as `examples`, of a model that answers without reading
    baseline_name: str = ""
    lower_is_better: bool = False
    digits: int = 1

    @property
    def difference_unit(self) -> str:
        """What differences and standard deviations are measured in."""
        return "points" if self.unit == "%" else self.unit

    def rows(self, run: "Run") -> np.ndarray:
        """What each example adds, (examples, k) of float64; no rows if the run holds numbers alone."""
        return np.asarray(self.examples(run), dtype=float) if run.predictions else np.empty((0, 0))

    def of(self, run: "Run") -> float:
        """Its value for a run.

        Raises:
            KeyError: the run has no predictions, and no number of this name.
        """
        if not run.predictions:
            return run.numbers[self.name]
        with np.errstate(all="ignore"):
            return float(self.value(self.rows(run).sum(0)))

    def show(self, value: float) -> str:
        """A value with its unit."""
        return f"{value:.{self.digits}f}{'' if self.unit == '%' else ' '}{self.unit}"


@dataclass(frozen=True)
class Run:
    """One experiment with one seed, finished: what it predicted on the validation examples, in their order.

    An entry of `labels` and `predictions` is a number, a text, or a list of these. Whatever a metric needs stands
    there: classes, tags, spans, sentences, or losses with the numbers of tokens they are of.
    """

    experiment: dict[str, Any]  # the fields of the Experiment
    seed: int
    labels: list[Any]  # gold, one entry an example; [] if the metric needs none
    predictions: list[Any]  # one entry an example; [] in a run that is only shown, see `numbers`
    logits: list[list[float]]  # (examples, classes) of a classifier, else []
    curve: list[dict[str, float]]  # one entry an epoch; of a classifier train_loss, loss, accuracy (on validation)
    seconds: float = 0.0
    device: str = ""
    precision: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    student: str = ""  # who ran it, see `utils.experiments.student`
    epochs: list[list[list[float]]] = field(default_factory=list)  # logits after each epoch but the last
    numbers: dict[str, float] = field(default_factory=dict)  # metrics by name, where predictions were not kept

    @property
    def outputs(self) -> np.ndarray:
        """The numbers by which runs are told apart, (n,), see `outputs_of`."""
        return outputs_of(self.logits, self.predictions)

    @property
    def accuracy(self) -> float:
        """The fraction of validation examples predicted right."""
        return float(np.mean(_right(self)[:, 0]))

    @property
    def degenerate(self) -> bool:
        """Whether it predicts one thing only: it learned nothing, or forgot it."""
        return bool(self.predictions) and all(one == self.predictions[0] for one in self.predictions)

    @property
    def majority(self) -> float:
        """The fraction of the most frequent label: what one gets without reading."""
        return float(np.mean(_constant(self)[:, 0]))

    def digest(self) -> str:
        """Alike for runs that predict the same, whatever their seed and configuration claim to be."""
        return hashlib.sha256(json.dumps(self.logits or self.predictions).encode()).hexdigest()


def outputs_of(logits: Any, predictions: Any) -> np.ndarray:
    """What a model put out, as numbers that no two seeds share, (n,): of two classes how far the second is ahead.

    Without logits they are the fractions among the predictions. There are none, n = 0, where all is counted or text.
    """
    if logits:
        table = np.array(logits, dtype=float)
        return table[:, 1] - table[:, 0] if table.shape[1] == 2 else (table - table.mean(1, keepdims=True)).ravel()
    entries = (one if isinstance(one, list) else [one] for one in predictions)
    return np.array([number for entry in entries for number in entry if type(number) is float])


def _right(run: Run) -> np.ndarray:
    pairs = zip(run.predictions, run.labels, strict=True)
    return np.array([(guess == label, 1.0) for guess, label in pairs], dtype=float)


def _constant(run: Run) -> np.ndarray:
    named = [json.dumps(label) for label in run.labels]
    ((most, _),) = Counter(sorted(named)).most_common(1)
    return np.array([(one == most, 1.0) for one in named], dtype=float)


# The share of predictions that are equal to their labels: of classes, and of anything else an exact match.
ACCURACY = Metric("accuracy", "%", _right, formulas.percent, _constant, "majority class")


@dataclass(frozen=True)
class Experiment:
    """One configuration: model, task, data, schedule, and what a seed varies.

    A kind of experiment is a subclass, again a frozen dataclass. It adds fields, of which those with `compare=False`
    are not part of the configuration, and says how a seed is run and what is known of honest runs.
    """

    metrics: ClassVar[tuple[Metric, ...]] = (ACCURACY,)  # the first one is compared and audited
    # What was measured of honest runs, as below. Of what was not, no point is lost without a person.
    lead: ClassVar[float] = math.inf  # so far above the mean of the recorded runs, a run is suspicious
    tolerance: ClassVar[Mapping[tuple[str, str], float]] = {}  # likeness of repeats, by kinds of device

    name: str
    task: str  # what it is trained on; "made-up-..." earns nothing

    @property
    def made_up(self) -> bool:
        """Whether it is of the size smoke, which only shows that everything works."""
        return self.task.startswith("made-up-")

    @property
    def after(self) -> "tuple[Experiment, ...]":
        """The experiments that are prepared first, see `prepare`."""
        return ()

    @property
    def ceiling(self) -> float | None:
        """A value of the first metric that no honest run has passed."""
        return None

    @property
    def measured(self) -> bool:
        """Whether the figures of `utils.experiments.forgery` were measured with runs like these."""
        return False

    @property
    def recorded_examples(self) -> str:
        """`examples_of` the runs that come with the course."""
        return ""

    @property
    def starts_from(self) -> str:
        """The trained model that its runs continue; "": none. Runs of one seed that continue the same one are near."""
        return ""

    @property
    def learns(self) -> bool:
        """Whether it is known that some seeds learn, so that not all runs predict one thing."""
        return False

    def run_seed(
        self,
        seed: int,
        *,
        precision: str | None = None,
        folder: Path | str | None = None,
        on_step: Callable[[str], None] = lambda what: None,
    ) -> Run:
        """Train once and predict the validation examples, by the function of this name in the module `trainer`.

        Args:
            seed: any integer from 0; decides what the experiment varies.
            precision: of matrix products, as a run notes it; by default what the device does best.
            folder: of the data, if not in $COURSE_DATA or on the hub.
            on_step: called with a few words, `count_steps` times.

        Raises:
            FileNotFoundError, ImportError, OSError: data or weights are nowhere; says what to do.
        """
        return self.trainer().run_seed(self, seed, precision=precision, folder=folder, on_step=on_step)

    def trainer(self) -> ModuleType:
        """The module that trains it: `train`, in the package whose module `spec` has the class of this experiment.

        Nothing else imports upwards. It is imported when a seed is run: graders read experiments, and need no torch.
        """
        package = type(self).__module__.rpartition(".")[0]
        return importlib.import_module(f"{package}.train")

    def whole_numbers(self, predictions: list[Any]) -> list[list[int]]:
        """What entries of predictions say in whole numbers, in which no two seeds agree throughout; [] if nothing."""
        return []

    def shown(self, run: Run) -> dict[str, Any]:
        """Return what pictures show of a run's predictions beside its metrics, as JSON; summaries hold it."""
        return {}

    def count_steps(self, folder: Path | str | None = None) -> int:
        """How often `run_seed` calls `on_step`, for the progress bar."""
        return 1

    def prepare(self, folder: Path | str | None = None) -> None:
        """Make what this experiment hands on to those that come after it, unless that is there."""

    def examples_of(self, run: Run) -> str:
        """A name for the validation examples of a run where machines differ in them; else they are the same for all.

        It is the fingerprint of the `text` that a run notes, whose sentences differ with the versions of libraries.
        Runs of two names are not compared example by example.
        """
        return run.versions.get("text", "")

    def gold(self) -> list[Any]:
        """The labels that an honest run has, from the course's own files; [] if its metric needs none."""
        return []

    def check(self, run: Run, whole: bool) -> None:
        """Look for what no run of this kind has; `run` is of this configuration and has the gold labels.

        Args:
            whole: whether it must hold everything that today's runs do; recorded ones may lack something.

        Raises:
            BadRun: says what.
        """

    def plain(self) -> dict[str, Any]:
        """Its fields as JSON holds them: lists for tuples."""
        free = {one.name for one in fields(self) if not one.compare}
        return json.loads(json.dumps({name: value for name, value in asdict(self).items() if name not in free}))

    def digest(self) -> str:
        """Eight hexadecimal digits that differ between configurations."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        return hashlib.sha256(json.dumps(self.plain(), sort_keys=True).encode()).hexdigest()[:8]

    def folder(self, results: Path | str) -> Path:
        """Where the runs of this configuration lie within a folder of results."""
        return Path(results) / f"{re.sub(r'[^A-Za-z0-9]+', '_', self.name)}-{self.digest()}"


# A title, runs by name, metrics, and pairs of names that are compared: a part of the page of results.
Shown = tuple[str, Mapping[str, Sequence[Run]], Sequence[Metric], Sequence[tuple[str, str]]]


class Experiments(Protocol):
    """What a notebook's experiment module offers; course.toml names it, and it may serve several notebooks.

    It may have ALSO_RECORDED, more experiments that come with the course: a function that gives them by their folder;
    `also_shown`, a function that gives what the page of results shows of these: a title, runs by name, metrics, and the
    pairs of names that are compared; and `decoded`, a function that makes more arms of runs, which are compared by
    their first metric.
    """

    RECORDED: Path  # the runs that come with the course; the folder may be missing

    def experiments(self, notebook: str, profile: str | None = None) -> Mapping[str, Experiment]:
        """The experiments of a notebook by name, in the order of its table; by default of this session's profile."""


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
    """The files of runs in a folder of results, MAX_FILES at most; links and everything else are left out.

    No experiment is read in part.
    """
    found: dict[str, bytes] = {}
    if results.is_symlink():
        return found
    for folder in sorted(path for path in results.glob("*") if path.is_dir() and not path.is_symlink()):
        paths = [path for path in sorted(folder.glob("seed_*.json")) if path.is_file() and not path.is_symlink()]
        for path in paths if len(found) + len(paths) <= MAX_FILES else ():
            with path.open("rb") as file:
                found[f"{folder.name}/{path.name}"] = file.read(MAX_FILE + 1)
    return found


def chosen(files: Iterable[str], folders: Collection[str]) -> list[str]:
    """The names of files that are read: those of these experiments.

    An experiment with more than MAX_READ files is left out as a whole, see `too_many`.
    """
    names = [name for name in sorted(files) if name.split("/")[0] in folders]
    counts = Counter(name.split("/")[0] for name in names)
    return [name for name in names if counts[name.split("/")[0]] <= MAX_READ]


def too_many(files: Iterable[str], folders: Collection[str]) -> list[str]:
    """A sentence for each of these experiments that has so many files that `chosen` leaves them out."""
    counts = Counter(name.split("/")[0] for name in files)
    return [
        f"{folder} has {counts[folder]} files, and at most {MAX_READ} of an experiment are read, so that none of them "
        "is: hand in those with your own seeds alone"
        for folder in sorted(folders)
        if counts[folder] > MAX_READ
    ]


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


def _entries(value: Any) -> bool:
    """Whether it is a list of numbers, texts, and lists of these."""
    if type(value) is not list:
        return False
    inner = [part for one in value for part in (one if type(one) is list else (one,))]
    return {*map(type, inner)} <= NUMBERS | {str}


def _classes(content: dict[str, Any], name: str) -> bool:
    values = content[name]
    return not content["logits"] or (bool(values) and all(type(value) is int and value >= 0 for value in values))


def _curve(content: dict[str, Any]) -> bool:
    """Whether all points of the curve have the same keys, those of CURVE if there are logits, and numbers."""
    curve = content["curve"]
    keys = _keys(content)
    return all(set(point) == keys and all(map(_number, point.values())) for point in curve)


def _keys(content: dict[str, Any]) -> Collection[str]:
    curve = content["curve"]
    return CURVE if content["logits"] else {*curve[0]} if curve else set()


def _texts(content: dict[str, Any]) -> bool:
    texts = [content["device"], content["precision"], content.get("student", ""), *content["versions"].values()]
    return all(type(one) is str for one in texts)


# What every run has, each field of exactly its type, in the order in which it is asked; fields that may be missing are
# there or not. No row looks at a field that an earlier one has not looked at.
TYPES: tuple[tuple[str, Callable[[dict[str, Any]], bool]], ...] = (
    ("labels is not a list of numbers, texts, and lists of these", lambda run: _entries(run["labels"])),
    ("labels is not a list of classes", lambda run: _classes(run, "labels")),
    ("predictions is not a list of numbers, texts, and lists of these", lambda run: _entries(run["predictions"])),
    ("predictions is not a list of classes", lambda run: _classes(run, "predictions")),
    ("logits is not a table of numbers", lambda run: _logits(run["logits"])),
    ("epochs is not a list of tables like logits", lambda run: _epochs(run.get("epochs", []), len(run["logits"]))),
    ("curve is not a list of tables", lambda run: _list_of_tables(run["curve"])),
    ("curve is not a list of {keys}", _curve),
    ("seed or seconds is not a number", lambda run: type(run["seed"]) is int and _number(run["seconds"])),
    ("seed or seconds is not a number", lambda run: run["seconds"] >= 0),
    ("numbers is not a table of numbers", lambda run: _numbers(run.get("numbers", {}))),
    ("experiment or versions is not a table", lambda run: {type(run["experiment"]), type(run["versions"])} == {dict}),
    ("device, precision, student or a version is not text", _texts),
)


def _logits(value: Any) -> bool:
    return type(value) is list and (not value or (_table(value, len(value)) and len(value[0]) >= 2))


def _epochs(value: Any, rows: int) -> bool:
    return type(value) is list and all(_table(one, rows) for one in value)


def _list_of_tables(value: Any) -> bool:
    return type(value) is list and all(type(point) is dict for point in value)


def _numbers(value: Any) -> bool:
    return type(value) is dict and all(map(_number, value.values()))


def _check_types(content: dict[str, Any]) -> None:
    for says, right in TYPES:
        if not right(content):
            raise BadRun(says.format(keys=", ".join(sorted(_keys(content)))) if right is _curve else says)


def _check_sense(run: Run) -> None:
    """What the file says twice, it says alike: counts, predictions, and every point of the curve that has logits."""
    sizes = {len(one) for one in (run.labels, run.predictions, run.logits) if one}
    if len(sizes) > 1:
        raise BadRun(f"{len(run.labels)} labels, {len(run.predictions)} predictions and {len(run.logits)} logits")
    if bool(run.predictions) is bool(run.numbers):
        raise BadRun("it has to hold predictions, or the numbers of metrics, and not both")
    if not run.logits:
        return
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
