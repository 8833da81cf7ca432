"""The experiments of notebook 09, in the size of each profile, and their recorded runs: what is forgotten, what helps.

Which library says this sentence? One head has a class for each of six libraries, and an encoder learns them two at a
time. The arms differ in what is done for the libraries that came before: nothing, some of their sentences again
(replay), a pull to the weights as they were (L2-SP, EWC), weights of their own for each two (adapters). An encoder
that learns all six together is the bound by which they are measured. Two more arms say what was there to lose: the head
alone learns, on an encoder as it came; and each two libraries have an encoder of their own (single-task training).

Imports nothing heavy: graders read it too. `utils.experiments.forgetting.train` trains.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from utils.experiments import formulas, profiles
from utils.experiments.experiment import BadRun, Experiment, Metric, Run
from utils.experiments.runs import five_seeds, recorded_examples
from utils.experiments.summaries import Summary, load_recorded

if TYPE_CHECKING:
    from utils.plots import Picture

NOTEBOOK = "09_forgetting"
RECORDED = Path(__file__).resolve().parents[3] / "data" / "results" / "forgetting"
SEARCH = RECORDED.with_name("forgetting_search.json")
seeds = five_seeds  # the student's own
CLASSES, TOGETHER = 6, 2  # libraries, and how many of them a phase has
PHASES = CLASSES // TOGETHER
SEQUENCE, REPLAY, L2_SP, EWC, ADAPTERS = "in sequence", "replay", "L2-SP", "EWC", "adapters"
ALL, HEAD, ALONE = "all together", "head alone", "each alone"
METHODS = (SEQUENCE, REPLAY, L2_SP, EWC, ADAPTERS, ALL, HEAD, ALONE)
MULTI_TASK = "own heads together"  # all six libraries at once; the loss compares the two of a sentence's phase
FEW = 4  # times fewer sentences, and as many more epochs, in two of the controls
ONE_HEAD, OWN_HEADS = "one head", "own heads"  # matrices that a summary holds


def times(run: Run) -> int:
    """How often a run was tested: before anything, and after each phase. All together are one phase."""
    return len(run.curve)


def phase_of(label: int) -> int:
    """The phase in which a class is learned, from 0."""
    return label // TOGETHER


def _right(place: Callable[[Run], int], run: Run) -> Any:
    """Whether the entry at a place of each row is the label, and 1 to count."""
    return [(row[place(run)] == label, 1.0) for row, label in zip(run.predictions, run.labels, strict=True)]


def _kept(run: Run) -> Any:
    """The same of the classes that a head fitted again gives, for the sentences of all phases but the last."""
    found, earlier = _right(lambda run: 2 * times(run), run), PHASES - 1
    return [
        (right, 1.0) if phase_of(label) < earlier else (0.0, 0.0)
        for (right, _), label in zip(found, run.labels, strict=True)
    ]


METRICS = (
    Metric("one head", "%", partial(_right, lambda run: times(run) - 1), formulas.percent),
    Metric("own head", "%", partial(_right, lambda run: 2 * times(run) - 1), formulas.percent),
    Metric("fitted again", "%", partial(_right, lambda run: 2 * times(run)), formulas.percent),
    Metric("fitted again, earlier phases", "%", _kept, formulas.percent),
)


@dataclass(frozen=True)
class Forgetting(Experiment):
    """An encoder whose last layers learn to tell six libraries by their sentences, and what keeps it from forgetting.

    A run holds a row for each test sentence: the class that it was given at each time (before anything, after each
    phase); the same if one chooses among the two classes of its phase alone ("own head"); the class that a new linear
    map gives it, which is fitted to the sentences of all phases when training is over ("fitted again"); and last how
    far the right one of its phase's two classes is ahead of the other, in nats: when that phase was over, and in the
    end. Where each two libraries have an encoder of their own, all of this is by the encoder of the sentence's phase.

    A seed varies which sentences of the pool it learns from, their order, the new weights and dropout. The sentences
    are those of libraries on this machine: runs are of one text where their `versions` name one.
    """

    metrics = METRICS

    encoder: str  # tiny, minilm or bert
    method: str  # one of METHODS, or MULTI_TASK
    frozen: int  # so many layers learn nothing, nor do the embeddings
    pool: int  # sentences of each class, of which a seed draws `examples`
    examples: int
    test: int  # sentences of each class
    epochs: int  # of a phase
    batch: int
    lr: float
    memory: int = 0  # sentences that replay keeps
    replayed: int = 0  # of them, in each step
    strength: float = 0.0  # of the pull of L2-SP and EWC
    observed: int = 0  # sentences of a phase from which EWC takes the Fisher information
    bottleneck: int = 0  # width of an adapter
    weight_decay: float = 0.01
    max_len: int = 40  # pieces, special ones included

    def __post_init__(self):
        if self.method not in (*METHODS, MULTI_TASK):
            raise ValueError(f"{self.name}: the methods are {', '.join((*METHODS, MULTI_TASK))}")
        if self.examples > self.pool:
            raise ValueError(f"{self.name}: no {self.examples} sentences can be drawn from {self.pool}")

    @property
    def phases(self) -> list[list[int]]:
        """The classes of each phase."""
        if self.method in (ALL, MULTI_TASK):
            return [[*range(CLASSES)]]
        return [[label for label in range(CLASSES) if phase_of(label) == phase] for phase in range(PHASES)]

    def gold(self) -> list[Any]:
        """The class of each test sentence: equally many of each, one class after the other."""
        return [label for label in range(CLASSES) for _ in range(self.test)]

    @property
    def recorded_examples(self) -> str:
        """That of the recorded runs; blank if there is none of this size."""
        return recorded_examples(self, RECORDED)

    def check(self, run: Run, whole: bool) -> None:
        """Classes that can be, own ones where they are to be, and margins that say the same as these."""
        count = len(self.phases) + 1
        if len(run.curve) != count or {*run.curve[0]} != {"examples"}:
            raise BadRun(f"its curve is not {count} numbers of examples, one for each time it was tested")
        if [point["examples"] for point in run.curve] != self.seen:
            raise BadRun("it has not learned from as many examples as it is to")
        kinds = [int] * (2 * count + 1) + [float] * 2
        for row, label in zip(run.predictions, run.labels, strict=True):
            if type(row) is not list or [*map(type, row)] != kinds:
                raise BadRun(f"its predictions are not {2 * count + 1} classes and two margins for each sentence")
            classes, margins = row[:-2], row[-2:]
            own = classes[count : 2 * count]
            if not all(0 <= one < CLASSES for one in classes):
                raise BadRun(f"its predictions are not classes from 0 to {CLASSES - 1}")
            if any(phase_of(one) != phase_of(label) for one in own):
                raise BadRun("an own head gives a class of another phase")
            for one, other in zip(classes[:count], own, strict=True):
                if phase_of(one) == phase_of(label) and one != other:
                    raise BadRun("one head and an own head give two classes of one phase")
            then = next(time for time, some in enumerate(self.phases, start=1) if label in some)
            for margin, one in zip(margins, (own[then], own[-1]), strict=True):
                if margin and (margin > 0) is not (one == label):
                    raise BadRun("a margin is not that of the class that the own head gives")
        if not any(row[-1] for row in run.predictions):
            raise BadRun("it has no margins")

    @property
    def seen(self) -> list[int]:
        """How many examples were learned from, replayed ones not counted, at each time it is tested."""
        each = [len(classes) * self.examples * self.epochs for classes in self.phases]
        return [sum(each[:place]) for place in range(len(each) + 1)]

    def whole_numbers(self, predictions: list[Any]) -> list[list[int]]:
        """The classes that each sentence was given."""
        return [row[:-2] for row in predictions]

    def shown(self, run: Run) -> dict[str, Any]:
        """Its matrices, see `matrix`."""
        return {name: matrix(run, name == OWN_HEADS) for name in (ONE_HEAD, OWN_HEADS)}

    def count_steps(self, folder: Path | str | None = None) -> int:
        """The phases."""
        return len(self.phases)


SIZES: dict[str, dict[str, Any]] = {
    "smoke": {
        "task": "made-up-libraries", "encoder": "tiny",
        "all": {"frozen": 1, "pool": 30, "examples": 24, "test": 12, "epochs": 3, "batch": 8, "lr": 1e-2},
        REPLAY: {"memory": 14, "replayed": 8},
        L2_SP: {"strength": 1.0},
        EWC: {"strength": 1000.0, "observed": 8},
        ADAPTERS: {"bottleneck": 8},
    },
    "cpu": {
        "task": "documentation", "encoder": "minilm",
        "all": {"frozen": 4, "pool": 240, "examples": 120, "test": 50, "epochs": 2, "batch": 16, "lr": 3e-4},
        REPLAY: {"memory": 72, "replayed": 16},
        L2_SP: {"strength": 0.1},
        EWC: {"strength": 1e4, "observed": 32},
        ADAPTERS: {"bottleneck": 48, "lr": 3e-3},
        HEAD: {"lr": 1e-2},
    },
    "gpu": {
        "task": "documentation", "encoder": "bert",
        "all": {"frozen": 6, "pool": 800, "examples": 500, "test": 150, "epochs": 3, "batch": 32, "lr": 5e-5},
        REPLAY: {"memory": 300, "replayed": 32},
        L2_SP: {"strength": 0.3},
        EWC: {"strength": 1e4, "observed": 200},
        ADAPTERS: {"bottleneck": 48, "lr": 5e-4},
    },
}  # fmt: skip
CONTROL_RATES = dict.fromkeys((MULTI_TASK, f"{ALONE}, few", f"{MULTI_TASK}, few"), 1e-4)
FOR_ONE_HEAD = {f"{arm}, rate for one head": arm for arm in (SEQUENCE, HEAD)}
ONE_HEAD_RATES = dict(zip(FOR_ONE_HEAD, (3.3e-5, 3e-3), strict=True))


def experiments(notebook: str = NOTEBOOK, profile: str | None = None) -> dict[str, Forgetting]:
    """The experiments of notebook 09 by name, in the order of its table: METHODS.

    `profile` is smoke (a tiny encoder, made-up sentences), cpu (the packaged encoder, documentation) or gpu
    (bert-base-uncased, documentation); by default that of this session.

    Raises:
        ValueError: there is no such notebook or profile.
    """
    chosen = profiles.chosen(profile, notebook, NOTEBOOK)
    size = SIZES[chosen]
    return {
        one: Forgetting(one, size["task"], size["encoder"], one, **size["all"] | size.get(one, {})) for one in METHODS
    }


def controls() -> dict[str, Forgetting]:
    """Arms of the profile cpu that are recorded beside those of notebook 09, by name: what tasks gain from each other.

    In each pair one arm learns every two libraries alone, and one all of them at once, each with its own head. Two arms
    have FEW times fewer sentences, and take as many steps.
    """
    alone = experiments(profile="cpu")[ALONE]
    few = {"examples": alone.examples // FEW, "epochs": FEW * alone.epochs}
    arms: dict[str, dict[str, Any]] = {
        MULTI_TASK: {"method": MULTI_TASK},
        f"{ALONE}, few": few,
        f"{MULTI_TASK}, few": {"method": MULTI_TASK, **few},
    }
    return {name: replace(alone, name=name, **more, lr=CONTROL_RATES[name]) for name, more in arms.items()}


def at_rates_for_one_head() -> dict[str, Forgetting]:
    """Arms of the profile cpu with the rate at which one head, not own heads, is right most often, by name."""
    arms = experiments(profile="cpu")
    return {name: replace(arms[arm], name=name, lr=ONE_HEAD_RATES[name]) for name, arm in FOR_ONE_HEAD.items()}


def questions(some: Mapping[str, Sequence[Run]]) -> list[tuple[str, str]]:
    """The pairs of experiments that are compared, the same for everyone, as far as there are runs of both.

    Each remedy against training in sequence, and the best that can be had against replay and against an encoder that
    learned nothing. Then training in sequence against that encoder, and against models that each learned one phase and
    had nothing to forget.
    """
    pairs = [(SEQUENCE, one) for one in (REPLAY, L2_SP, EWC, ADAPTERS)] + [(REPLAY, ALL), (HEAD, ALL)]
    pairs += [(HEAD, SEQUENCE), (SEQUENCE, ALONE)]
    return [pair for pair in pairs if all(some.get(name) for name in pair)]


def matrix(run: Run, own: bool = False) -> list[list[float]]:
    """The accuracies R[i][j] of a run, from 0 to 1, after i phases on the classes of phase j; R[0] before anything.

    `own`: choosing among the two classes of a phase alone. All together are one phase, so that R has two rows.
    """
    if isinstance(run, Summary):
        return run.shown[OWN_HEADS if own else ONE_HEAD]
    phases = np.array([phase_of(label) for label in run.labels])
    first = times(run) if own else 0
    right = np.array([[one == label for one in row] for row, label in zip(run.predictions, run.labels, strict=True)])
    return [[float(right[phases == j, first + i].mean()) for j in range(PHASES)] for i in range(times(run))]


def picture(some: Mapping[str, Sequence[Run]], alt: str) -> "Picture":
    """What each arm gets right in the end, by one head, by own heads and by one fitted again: means over seeds.

    The bars' ends are one standard deviation over seeds.
    """
    from utils import plots

    values = {one.name: [[one.of(run) for run in found] for found in some.values()] for one in METRICS}
    return plots.bars(
        {name: [float(np.mean(one)) for one in found] for name, found in values.items()},
        errors={
            name: [np.std(one, ddof=1) if len(one) > 1 else 0.0 for one in found] for name, found in values.items()
        },
        labels=[name.replace(" ", "\n") for name in some],  # side by side they would touch
        ylabel="test sentences, %",
        alt=alt,
    )


def recorded() -> dict[str, list[Run]]:
    """Summaries of the recorded runs, profile cpu, by name; data/README.md says how they were made."""
    return load_recorded(experiments(profile="cpu"), RECORDED)


def recorded_controls() -> dict[str, list[Run]]:
    """Summaries of the recorded runs of `controls`, by name."""
    return load_recorded(controls(), RECORDED)


def recorded_for_one_head() -> dict[str, list[Run]]:
    """Summaries of the recorded runs of `at_rates_for_one_head`, by name."""
    return load_recorded(at_rates_for_one_head(), RECORDED)


ALSO_RECORDED = {RECORDED: lambda: controls() | at_rates_for_one_head()}
CONTROL_PAIRS = [(ALONE, MULTI_TASK), (f"{ALONE}, few", f"{MULTI_TASK}, few")]
SLOW, SLOW_HEAD = FOR_ONE_HEAD
ONE_HEAD_PAIRS = [(SLOW_HEAD, SLOW), (SEQUENCE, SLOW), (SLOW, REPLAY), (SLOW, ADAPTERS)]
ONE_HEAD_PAIRS += [(SLOW_HEAD, REPLAY), (SLOW_HEAD, ADAPTERS)]


def also_shown() -> list[tuple[str, dict[str, list[Run]], tuple[Metric, ...], list[tuple[str, str]]]]:
    """What the page of results shows besides the notebook's own arms: a title, runs, metrics, and what is compared."""
    runs = {ALONE: recorded()[ALONE], **recorded_controls()}
    one_head = recorded_for_one_head() | {name: recorded()[name] for name in (SEQUENCE, REPLAY, ADAPTERS)}
    return [
        ("Controls: what tasks gain from each other", runs, METRICS[1:2], CONTROL_PAIRS),
        ("One head, at rates that are best for one head", one_head, METRICS[:1], ONE_HEAD_PAIRS),
    ]
