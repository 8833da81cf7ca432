"""The experiments of notebook 08, in the size of each profile, and their recorded runs: which state finds names.

An encoder is frozen, and a tagger reads one of its states: a linear map, or a BiLSTM (Devlin et al. 2019, table 7). Or
the encoder learns too: pretrained, and from random weights. What is looked for are words of documentation that were
marked up as code.

Imports nothing heavy: graders read it too. `utils.experiments.tagging.train` trains.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from utils.experiments import choices, formulas, profiles
from utils.experiments.experiment import ACCURACY, BadRun, Experiment, Metric, Run, Shown, parse, read_files
from utils.experiments.runs import five_seeds
from utils.experiments.summaries import load_recorded

if TYPE_CHECKING:
    import pandas as pd

    from utils.plots import Picture

NOTEBOOK = "08_bert_heads"
RECORDED = Path(__file__).resolve().parents[3] / "data" / "results" / "bert_heads"
seeds = five_seeds  # the student's own
LINEAR, BILSTM = "linear", "BiLSTM"
FINE_TUNED, FROM_NOTHING = "fine-tuned", "fine-tuned from random weights"
RIGHT, FOUND, THERE, LOSS = range(4)  # of a sentence: names found that are right, names found, names there, loss


def _counts(run: Run) -> Any:
    return [row[:LOSS] for row in run.predictions]


METRICS = (
    Metric("entity F1", "%", _counts, formulas.f1),
    Metric("precision", "%", _counts, formulas.precision),
    Metric("recall", "%", _counts, formulas.recall),
)


@dataclass(frozen=True)
class Tagging(Experiment):
    """A tagger: its encoder, what reads which of its states, its sentences, and for how long it learns.

    A run holds four numbers for each test sentence: how many of the names found are right, how many were found, how
    many there are, and the loss of its tags in nats. F1 is computed from these.

    A seed varies which sentences of the pool it learns from, their order, the new weights and dropout. The sentences
    are those of libraries on this machine: runs are of one text where their `versions` name one.
    """

    metrics = METRICS

    encoder: str  # tiny, minilm or bert
    head: str  # LINEAR or BILSTM
    state: int | None  # which one of a frozen encoder is read, 0 is the embeddings; None: it learns, and the last is
    pool: int  # sentences, of which a seed draws `examples`
    examples: int
    test: int
    epochs: int
    batch: int  # sentences
    lr: float
    start: str = "pretrained"  # or random
    hidden: int = 128  # states of each reader of a BiLSTM
    dropout: float = 0.1  # of what the head reads
    weight_decay: float = 0.01
    max_len: int = 128  # pieces, special ones included

    def __post_init__(self):
        if self.head not in (LINEAR, BILSTM) or self.start not in ("random", "pretrained"):
            raise ValueError(f"{self.name}: its head is {LINEAR} or {BILSTM}, and it starts pretrained or random")
        if self.examples > self.pool:
            raise ValueError(f"{self.name}: no {self.examples} sentences can be drawn from {self.pool}")

    @property
    def recorded_examples(self) -> str:
        """That of the recorded runs; blank if there is none of this size."""
        return next((text for task, test, text in recorded_names() if (task, test) == (self.task, self.test)), "")

    def check(self, run: Run, whole: bool) -> None:
        """Four numbers a sentence that can be, and as many names in each as the text has, where it is known."""
        if len(run.predictions) != self.test:
            raise BadRun(f"it has tags of {len(run.predictions)} sentences instead of {self.test}")
        for row in run.predictions:
            if type(row) is not list or [*map(type, row)] != [int, int, int, float] or min(row) < 0:
                raise BadRun("its predictions are not three counts and a loss for each sentence, none below 0")
            right, found, there, loss = row
            if right > min(found, there):
                raise BadRun("more names are right than were found, or than there are")
            if (right < found or right < there) and loss < math.log(2) - 1e-3:
                raise BadRun("a loss says that every tag is right, the counts beside it that one is wrong")
        known = self.names_there(run.versions.get("text", ""))
        if known is not None and [row[THERE] for row in run.predictions] != known:
            raise BadRun("its sentences do not have the names that this text has")
        if not sum(row[THERE] for row in run.predictions) or not sum(row[LOSS] for row in run.predictions):
            raise BadRun("its sentences have no names, or no loss")

    def names_there(self, fingerprint: str) -> list[int] | None:
        """How many names each test sentence of a text has, if that is known here: the recorded, or a made-up one."""
        if self.made_up:
            return _made_up_names(self.test)
        return recorded_names().get((self.task, self.test, fingerprint))

    def whole_numbers(self, predictions: list[Any]) -> list[list[int]]:
        """The names found that are right, and those found; how many there are, all runs have in common."""
        return [row[:THERE] for row in predictions]

    def count_steps(self, folder: Path | str | None = None) -> int:
        """The epochs."""
        return self.epochs


@dataclass(frozen=True)
class MixedTagging(Tagging):
    """A tagger that reads several states of a frozen encoder at once; `state` is the last one of them.

    They are concatenated, or summed with weights that learn (8.8): a softmax of scores, times a factor. Each state is
    standardised by itself first, so that no state weighs more because its numbers are larger.
    """

    states: tuple[int, ...] = ()
    weighted: bool = False  # else concatenated


@dataclass(frozen=True)
class ShuffledTagging(Tagging):
    """A tagger whose head reads the words of each sentence in a random order, drawn again each time.

    The states are those of the sentence as it was written, and each word keeps its own tag.
    """

    shuffled: bool = True


@cache
def recorded_names() -> dict[tuple[str, int, str], list[int]]:
    """How many names each test sentence has, by task, number of sentences and text of the recorded runs."""
    found: dict[tuple[str, int, str], list[int]] = {}
    for run in filter(lambda run: run.predictions, map(parse, read_files(RECORDED).values())):
        about = str(run.experiment["task"]), len(run.predictions), run.versions.get("text", "")
        found.setdefault(about, [row[THERE] for row in run.predictions])
    return found


@cache
def _made_up_names(count: int) -> list[int]:
    from data import tagged  # which imports no torch

    return [sum(tag.startswith("B-") for tag in tags) for _, tags in tagged.load("made-up-tags", "test", count)]


SIZES: dict[str, dict[str, Any]] = {
    "smoke": {
        "task": "made-up-tags", "encoder": "tiny", "states": (0, 1, 3), "under": (0, 3),
        "all": {"pool": 80, "examples": 64, "test": 50, "max_len": 20},
        LINEAR: {"epochs": 5, "batch": 8, "lr": 6e-2},
        BILSTM: {"epochs": 6, "batch": 8, "lr": 5e-2, "hidden": 16},
        FINE_TUNED: {"epochs": 3, "batch": 8, "lr": 8e-3},
    },
    "cpu": {
        "task": "documentation", "encoder": "minilm", "states": (0, 2, 4, 6), "under": (0, 4, 6),
        "all": {"pool": 1000, "examples": 600, "test": 300, "max_len": 96},
        LINEAR: {"epochs": 8, "batch": 16, "lr": 2e-3},
        BILSTM: {"epochs": 8, "batch": 32, "lr": 5e-3, "dropout": 0.3},
        FINE_TUNED: {"epochs": 2, "batch": 12, "lr": 3e-4},
    },
    "gpu": {
        "task": "conll2003", "encoder": "bert", "states": (0, 4, 8, 12), "under": (0, 8, 12),
        "all": {"pool": 8000, "examples": 4000, "test": 2000},
        LINEAR: {"epochs": 12, "batch": 16, "lr": 3e-3},
        BILSTM: {"epochs": 8, "batch": 32, "lr": 2e-3, "dropout": 0.3, "hidden": 256},
        FINE_TUNED: {"epochs": 3, "batch": 32, "lr": 5e-5},
    },
}  # fmt: skip


def experiments(notebook: str = NOTEBOOK, profile: str | None = None) -> dict[str, Tagging]:
    """The experiments of notebook 08 by name, in the order of its table: linear, BiLSTM, fine-tuned.

    `profile` is smoke (a tiny encoder, made-up names), cpu (the packaged encoder, documentation) or gpu
    (bert-base-uncased, CoNLL-2003); by default that of this session.

    Raises:
        ValueError: there is no such notebook or profile.
    """
    chosen = profiles.chosen(profile, notebook, NOTEBOOK)
    size = SIZES[chosen]
    made = [
        Tagging(f"{head}, state {state}", size["task"], size["encoder"], head, state, **size["all"] | size[head])
        for head, states in ((LINEAR, size["states"]), (BILSTM, size["under"]))
        for state in states
    ]
    made += [
        Tagging(name, size["task"], size["encoder"], LINEAR, None, start=start, **size["all"] | size[FINE_TUNED])
        for name, start in ((FINE_TUNED, "pretrained"), (FROM_NOTHING, "random"))
    ]
    return {one.name: one for one in made}


# Table 7 of the paper (Devlin et al. 2019): F1 on the validation set of CoNLL-2003, of BERT-base: frozen under a BiLSTM
# of two layers, and fine-tuned. Beside each row stands its name among the runs of the course.
TABLE_7 = {
    "embeddings": (91.0, "state 0"),
    "second-to-last": (95.6, "state 5"),
    "last": (94.9, "state 6"),
    "weighted last four": (95.9, "weighted last four"),
    "concat last four": (96.1, "concat last four"),
    "weighted all": (95.5, "weighted all"),
    FINE_TUNED: (96.4, ""),
}


SHUFFLED_STATES = (0, 4)  # the embeddings, which know no neighbours, and the state in the middle


def ways() -> dict[str, Tagging]:
    """The ways of table 7 that students do not run, profile cpu, by name: for a linear map and for a BiLSTM."""
    size = SIZES["cpu"]
    made: list[Tagging] = []
    for head in (LINEAR, BILSTM):
        task, encoder, settings = size["task"], size["encoder"], size["all"] | size[head]
        made.append(Tagging(f"{head}, state 5", task, encoder, head, 5, **settings))
        for name, read, weighted in (
            ("concat last four", (3, 4, 5, 6), False),
            ("weighted last four", (3, 4, 5, 6), True),
            ("weighted all", (1, 2, 3, 4, 5, 6), True),
        ):
            made.append(
                MixedTagging(f"{head}, {name}", task, encoder, head, 6, **settings, states=read, weighted=weighted)
            )
    return {one.name: one for one in made}


def shuffled() -> dict[str, Tagging]:
    """The control for the order of words, profile cpu, by name: BiLSTMs that read the words in a random order."""
    size = SIZES["cpu"]
    settings = size["all"] | size[BILSTM]
    made = [
        ShuffledTagging(f"{BILSTM}, state {state}, shuffled", size["task"], size["encoder"], BILSTM, state, **settings)
        for state in SHUFFLED_STATES
    ]
    return {one.name: one for one in made}


def shuffled_compared() -> list[tuple[str, str]]:
    """The pairs that say what order is worth to a BiLSTM, and what is left to it without order."""
    comparisons = []
    for state in SHUFFLED_STATES:
        name = f"{BILSTM}, state {state}"
        comparisons += [(f"{name}, shuffled", name), (f"{LINEAR}, state {state}", f"{name}, shuffled")]
    return comparisons


def table_7(some: Mapping[str, Sequence[Run]]) -> "pd.DataFrame":
    """The paper's table 7, and the same rows of the course's runs for each head; then the state in the middle."""
    from utils.experiments import papers

    called = {name: mine for name, (_, mine) in TABLE_7.items()} | {"state 4": "state 4"}
    here = {
        head: {name: some[key] for name, mine in called.items() if (key := f"{head}, {mine}" if mine else name) in some}
        for head in (LINEAR, BILSTM)
    }
    printed = {name: {"the paper, F1": value} for name, (value, _) in TABLE_7.items()}
    return papers.beside(printed, here, METRICS[0])


def ways_compared() -> list[tuple[str, str]]:
    """The pairs of ways that are compared: last with second-to-last, and each mixture with the state in the middle."""
    mixtures = ("concat last four", "weighted last four", "weighted all")
    return [
        pair
        for head in (LINEAR, BILSTM)
        for pair in (
            (f"{head}, state 6", f"{head}, state 5"),
            *((f"{head}, state 4", f"{head}, {way}") for way in mixtures),
        )
    ]


def questions(some: Mapping[str, Sequence[Run]]) -> list[tuple[str, str]]:
    """The pairs of experiments that are compared, the same for everyone, as far as there are runs of both.

    Of the states that a BiLSTM reads too: for both heads each state against the one before it, and linear against
    BiLSTM. Then fine-tuned against the BiLSTM on the middle one, and against random weights.
    """
    under = [*by_state(some, BILSTM)]
    linear, tall = ([f"{head}, state {state}" for state in under] for head in (LINEAR, BILSTM))
    pairs = [*itertools.pairwise(linear), *itertools.pairwise(tall), *zip(linear, tall, strict=True)]
    pairs += [(tall[len(tall) // 2], FINE_TUNED), (FROM_NOTHING, FINE_TUNED)]
    return [pair for pair in pairs if all(some.get(name) for name in pair)]


def by_state(some: Mapping[str, Sequence[Run]], head: str) -> dict[int, Sequence[Run]]:
    """The runs in which `head` reads a state of the frozen encoder, by that state."""
    known = {name: found[0].experiment for name, found in some.items() if found}
    return {one["state"]: some[name] for name, one in known.items() if one["head"] == head and one["state"] is not None}


def picture(some: Mapping[str, Sequence[Run]], alt: str) -> "Picture":
    """F1 by state, a line for each head and level ones for what was fine-tuned; bands from lowest to highest seed."""
    from utils import plots

    values = {
        head: {state: [METRICS[0].of(run) for run in found] for state, found in by_state(some, head).items()}
        for head in (LINEAR, BILSTM)
    }
    states = sorted(values[LINEAR])
    for name in (FINE_TUNED, FROM_NOTHING):
        if some.get(name):
            values[name] = {state: [METRICS[0].of(run) for run in some[name]] for state in states}
    rows = {name: [found.get(state, [math.nan]) for state in states] for name, found in values.items()}
    drawn = plots.curves(
        {name: [float(np.mean(one)) for one in row] for name, row in rows.items()},
        bands={name: ([*map(min, row)], [*map(max, row)]) for name, row in rows.items()},
        x=states,
        xlabel="state",
        ylabel="entity F1, %",
        alt=alt,
    )
    drawn.axes[0].set_xticks(states)
    return drawn


def recorded() -> dict[str, list[Run]]:
    """Summaries of the recorded runs, profile cpu, by name; data/README.md says how they were made."""
    return load_recorded(experiments(profile="cpu"), RECORDED)


def recorded_ways() -> dict[str, list[Run]]:
    """Summaries of the recorded runs of `ways`, by name."""
    return load_recorded(ways(), RECORDED)


def recorded_shuffled() -> dict[str, list[Run]]:
    """Summaries of the recorded runs of `shuffled`, by name."""
    return load_recorded(shuffled(), RECORDED)


def _not_of_students() -> dict[str, Tagging]:
    return ways() | shuffled()


ALSO_RECORDED = {RECORDED: _not_of_students, choices.RECORDED: choices.experiments}


def also_shown() -> list[Shown]:
    """What the page of results shows of the runs that students do not make."""
    heads = choices.recorded()
    without_order = recorded() | recorded_shuffled()
    names = dict.fromkeys(name for pair in shuffled_compared() for name in pair)
    return [
        ("The ways of table 7", recorded() | recorded_ways(), METRICS[:1], ways_compared()),
        ("Words in a random order", {name: without_order[name] for name in names}, METRICS[:1], shuffled_compared()),
        ("A choice head, and vectors of sentences", heads, (ACCURACY,), choices.questions()),
    ]
