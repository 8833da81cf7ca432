"""SpanBERT's question at a small size, and its recorded runs: do hidden spans help a task whose answers are spans?

An encoder goes on learning to fill in blanks in pages of documentation. In one arm single pieces are hidden, in another
spans of whole words, as many pieces as in the first. Then each learns to answer questions about such pages, as in the
last section of notebook 08. A control learns to answer at once.

Imports nothing heavy: graders also read it. `utils.experiments.spans.train` trains.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from utils.experiments import formulas
from utils.experiments.experiment import BadRun, Experiment, Metric, Run, Shown
from utils.experiments.summaries import load_recorded

RECORDED = Path(__file__).resolve().parents[3] / "data" / "results" / "spans"
SEARCH = RECORDED.with_name("spans_search.json")  # what `solutions/11_other_objectives/search.py` tried
NONE, PIECES, SPANS = "no blanks", "single pieces", "whole spans"
HIDDEN = (NONE, PIECES, SPANS)
SEEDS = range(1, 13)  # of the recorded runs
WORDINGS = ("known", "new")  # of the questions to test on: those that training has, and others
POINTS = 10  # of each of the two parts of a run's curve
DIGITS = 4


def _f1(wording: int, run: Run) -> Any:
    """The F1 of each question of a wording, and 1 to count."""
    return [(row[1], 1.0) if row[0] == wording else (0.0, 0.0) for row in run.predictions]


METRICS = tuple(
    Metric(f"F1, {wording} wordings", "%", partial(_f1, number), formulas.percent)
    for number, wording in enumerate(WORDINGS)
)


@dataclass(frozen=True)
class Spans(Experiment):
    """An encoder that fills in blanks of one kind, or none, and then learns to answer questions about pages.

    A run holds a row for each test question: its wording (0 is a known one), the F1 of the words of the best span, from
    0 to 1, and whether it is exactly right. Its curve is of the training losses: first of the blanks, then of spans.

    A seed varies what is read in which order, what is hidden, the questions, the new weights and dropout. The pages are
    those of libraries on this machine: runs are of one text where their `versions` name one.
    """

    metrics = METRICS

    encoder: str  # tiny or minilm
    layers: int  # the first so many
    hidden: str  # one of HIDDEN
    steps: int  # of filling in blanks
    batch: int
    lr: float
    questions: int
    questions_batch: int
    questions_lr: float
    test: int  # questions of each wording
    share: float = 0.15  # of the pieces, that is hidden
    length: int = 64  # pieces of a row
    blank: float = 0.2  # of the rows with a question do not have the answer
    held_out: bool = field(default=False, compare=False)  # tested on the last training pages, to choose rates

    def __post_init__(self):
        if self.hidden not in HIDDEN or self.steps % POINTS or (self.hidden == NONE) is not (self.steps == 0):
            raise ValueError(f"{self.name}: hidden is one of {', '.join(HIDDEN)}, and the steps a multiple of {POINTS}")

    def check(self, run: Run, whole: bool) -> None:
        """A row for each question, and a curve."""
        if len(run.predictions) != len(WORDINGS) * self.test:
            raise BadRun(f"it has {len(run.predictions)} rows instead of {len(WORDINGS) * self.test}")
        if any(len(row) != 3 or row[0] not in (0, 1) or not 0 <= row[1] <= 1 or row[2] not in (0, 1)
               for row in run.predictions):  # fmt: skip
            raise BadRun("a row is not a wording, an F1 from 0 to 1, and 0 or 1")
        if len(run.curve) != POINTS * (1 + (self.hidden != NONE)) or {*run.curve[0]} != {"train_loss"}:
            raise BadRun(f"its curve is not {POINTS} training losses for each thing it learns")

    def count_steps(self, folder: Path | str | None = None) -> int:
        """What it learns."""
        return 1 + (self.hidden != NONE)


SIZE: dict[str, Any] = {
    "task": "documentation", "encoder": "minilm", "layers": 4, "batch": 64, "lr": 5e-4,
    "questions": 9600, "questions_batch": 32, "test": 400,
}  # fmt: skip
STEPS = 1500
RATES = {NONE: 2e-4, PIECES: 5e-4, SPANS: 2e-4}  # of the questions: the best of the recorded search


def arms(profile: str = "cpu") -> dict[str, Spans]:
    """The arms by name, in the order of HIDDEN."""
    settings, steps = SIZE, STEPS
    if profile == "smoke":
        settings = SIZE | {
            "task": "made-up-pages",
            "encoder": "tiny",
            "layers": 1,
            "batch": 8,
            "questions": 64,
            "test": 20,
        }
        settings |= {"questions": 160, "questions_batch": 8, "length": 16}
        steps = 2 * POINTS
    return {
        name: Spans(name, **settings, hidden=name, steps=0 if name == NONE else steps, questions_lr=RATES[name])
        for name in HIDDEN
    }


def recorded() -> dict[str, list[Run]]:
    """Summaries of the recorded runs by name; data/README.md says how they were made."""
    return load_recorded(arms(), RECORDED)


def compared() -> list[tuple[str, str]]:
    """The pairs of arms that are compared."""
    return [(PIECES, SPANS), (NONE, PIECES), (NONE, SPANS)]


def also_shown() -> list[Shown]:
    """What the page of results shows of these runs, which students do not make."""
    runs: Mapping[str, Sequence[Run]] = recorded()
    return [("Hidden spans against hidden pieces, tested on questions", runs, METRICS, compared())]
