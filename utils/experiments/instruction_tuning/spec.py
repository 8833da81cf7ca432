"""The experiments of notebook 15, in the size of each profile, and their recorded runs: a model learns to obey a form.

SmolLM2 is asked for sums, for numbers in order and for French names of places, each "in square brackets". It is tuned
on about two hundred such instructions with their answers: all its weights, or LoRA's alone, for equally many steps. The
control is not tuned: it reads six of them, with their answers, before each question. The loss on other text, before and
after, says what tuning makes it forget.

Imports nothing heavy: graders read it too. `utils.experiments.instruction_tuning.train` trains.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data.instructions import KINDS
from utils.experiments import formulas, profiles
from utils.experiments.experiment import Experiment, Metric, Run
from utils.experiments.runs import five_seeds
from utils.experiments.summaries import load_recorded

if TYPE_CHECKING:
    from utils.experiments.seed_table import Comparison
    from utils.plots import Picture

NOTEBOOK = "15_instruction_tuning"
RECORDED = Path(__file__).resolve().parents[3] / "data" / "results" / "instruction_tuning"
SEARCH = RECORDED.with_name("instruction_tuning_search.json")  # the trials behind RATES; graders get no copy
seeds = five_seeds  # the student's own
BEFORE, PROMPTED, LORA, FULL = "before", "examples in the prompt", "LoRA", "all weights"
METHODS = (BEFORE, PROMPTED, LORA, FULL)
CUT_OFF = "…"  # at the end of an answer that did not end by itself
OTHER_TEXT = "other text"  # the kind of rows that hold losses
BRACKETS = re.compile(r"\[[^\[\]]+\]")


def in_form(answer: str) -> bool:
    """Whether an answer is a text in square brackets and nothing else."""
    return BRACKETS.fullmatch(answer) is not None


def is_right(answer: str, wanted: str) -> bool:
    """Whether an answer is what is wanted, in square brackets."""
    return answer == f"[{wanted}]"


def is_inside(answer: str, wanted: str) -> bool:
    """Whether what is wanted is somewhere in an answer, as whole words."""
    return re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", answer) is not None


def _answers(right: Callable[[str, str], bool], kinds: Sequence[str], run: Run) -> Any:
    """Whether each answer of these kinds is right, and 1 to count."""
    rows = zip(run.predictions, run.labels, strict=True)
    return [(right(row[1], label), 1.0) for row, label in rows if row[0] in kinds]


def _losses(run: Run) -> Any:
    """The sum of losses and the number of tokens of each window of other text."""
    return [(row[1], row[2]) for row in run.predictions if row[0] == OTHER_TEXT]


LOSS = Metric("loss on other text", "nats", _losses, formulas.ratio, lower_is_better=True, digits=3)
METRICS = (
    Metric("right and in brackets", "%", partial(_answers, is_right, KINDS), formulas.percent),
    Metric("in brackets", "%", partial(_answers, lambda answer, wanted: in_form(answer), KINDS), formulas.percent),
    Metric("right anywhere", "%", partial(_answers, is_inside, KINDS), formulas.percent),
    LOSS,
)


@dataclass(frozen=True)
class InstructionTuning(Experiment):
    """A model that is tuned on instructions with answers, and how much of it is tuned.

    A run holds a row for each instruction to test on, its kind and the greedy answer, with CUT_OFF at the end where it
    did not end by itself; then a row for each window of other text, with the sum of its losses and its tokens.

    A seed varies the instructions to train on, their order, and LoRA's new weights. Before tuning there is nothing to
    vary: the runs of all seeds are the same.
    """

    metrics = METRICS

    method: str  # one of METHODS
    steps: int
    batch: int  # dialogues of a step, packed into one row
    lr: float
    test: int  # instructions of each kind
    windows: int  # of other text
    window: int  # tokens
    most: int  # tokens of an answer
    rank: int = 0
    alpha: float = 0.0
    layers: tuple[str, ...] = ()  # the last names of those that LoRA is put into

    def __post_init__(self):
        if self.method not in METHODS or (self.method == LORA) is not (self.rank > 0):
            raise ValueError(f"{self.name}: the methods are {', '.join(METHODS)}, and LoRA has a rank")

    def shown(self, run: Run) -> dict[str, Any]:
        """The share of right answers of each kind, wherever they stand, and of those in brackets; three answers."""
        rows = [(*row, label) for row, label in zip(run.predictions, run.labels, strict=True) if row[0] in KINDS]
        some = {kind: [(answer, wanted) for one, answer, wanted in rows if one == kind] for kind in KINDS}
        return {
            "anywhere": {kind: sum(is_inside(*one) for one in part) / len(part) for kind, part in some.items()},
            "in form": {kind: sum(in_form(one[0]) for one in part) / len(part) for kind, part in some.items()},
            "answers": [part[0][0] for part in some.values()],
        }

    def count_steps(self, folder: Path | str | None = None) -> int:
        """The steps of the optimiser; one where nothing is tuned."""
        return max(1, self.steps)


@dataclass(frozen=True)
class Prompted(InstructionTuning):
    """The model as it came, which reads examples with their answers before each question, as turns of one dialogue.

    A seed draws the examples, equally many of each kind, and their order; they are the same for all questions of a run.
    The losses on other text are those of the model without examples, as before tuning.
    """

    examples: int = 6  # two of each kind


SIZES: dict[str, dict[str, Any]] = {
    "smoke": {"steps": 3, "batch": 4, "test": 2, "windows": 2, "window": 24, "most": 4},
    "cpu": {"steps": 24, "batch": 8, "test": 20, "windows": 24, "window": 64, "most": 16},
    "gpu": {"steps": 128, "batch": 8, "test": 20, "windows": 200, "window": 128, "most": 16},
}
RATES = {LORA: 5e-3, FULL: 2e-4}  # by solutions/15_instruction_tuning/search.py
LORA_OPTIONS: dict[str, Any] = {"rank": 8, "alpha": 16.0, "layers": ("q_proj", "v_proj")}


def experiments(notebook: str = NOTEBOOK, profile: str | None = None) -> dict[str, InstructionTuning]:
    """The experiments of notebook 15 by name, in the order of its table: METHODS.

    `profile` is smoke (a tiny random model, a few steps), cpu or gpu; by default that of this session.

    Raises:
        ValueError: there is no such notebook or profile.
    """
    chosen = profiles.chosen(profile, notebook, NOTEBOOK)
    task, made = "made-up-instructions" if chosen == "smoke" else "SmolLM2-135M, instructions", {}
    for method in METHODS:
        kind = Prompted if method == PROMPTED else InstructionTuning
        size = SIZES[chosen] | ({} if method in RATES else {"steps": 0})
        more = LORA_OPTIONS if method == LORA else {}
        made[method] = kind(method, task, method, lr=RATES.get(method, 0.0), **size, **more)
    return made


def questions(some: Mapping[str, Sequence[Run]]) -> list[tuple[str, str]]:
    """The pairs of experiments that are compared, the same for everyone, as far as there are runs of both."""
    pairs = [(BEFORE, PROMPTED), (BEFORE, LORA), (BEFORE, FULL), (PROMPTED, LORA), (PROMPTED, FULL), (FULL, LORA)]
    return [pair for pair in pairs if all(some.get(name) for name in pair)]


def compared(some: Mapping[str, Sequence[Run]]) -> "list[Comparison]":
    """The comparisons of `questions` by each metric but the form alone, which all answers of a tuned arm have.

    The loss of the model with examples in the prompt is not compared: nothing has changed it. The metric is named with
    the second experiment.
    """
    from utils.experiments.seed_table import SeedTable

    pairs = questions(some)
    changed = [pair for pair in pairs if PROMPTED not in pair]
    return [
        replace(one, second=f"{metric.name}: {one.second}")
        for metric in METRICS
        if metric is not METRICS[1]
        for one in SeedTable(some, metric).compared(changed if metric is LOSS else pairs)
    ]


def picture(some: Mapping[str, Sequence[Run]], what: str, alt: str) -> "Picture":
    """Bars by kind of instruction for each experiment: the mean over seeds of `what` in `InstructionTuning.shown`."""
    from utils import plots

    experiments_by_name = experiments(profile="cpu")
    shown = {
        name: [getattr(run, "shown", None) or experiments_by_name[name].shown(run) for run in runs]
        for name, runs in some.items()
        if runs
    }
    values = {
        name: [100 * sum(one[what][kind] for one in rows) / len(rows) for kind in KINDS] for name, rows in shown.items()
    }
    return plots.bars(values, labels=list(KINDS), ylabel="% of the answers", alt=alt)


def recorded() -> dict[str, list[Run]]:
    """Summaries of the recorded runs, profile cpu, by name; data/README.md says how they were made."""
    return load_recorded(experiments(profile="cpu"), RECORDED)
