"""The numbers that the prose of notebook 07 prints, computed. Its cells print all others."""

import inspect
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from autograder import course
from autograder.author import answers, build, papers
from utils.experiments import pretraining
from utils.experiments.seed_table import Comparison, SeedTable

BERT, MASKED, KEEPS, REPLACES = pretraining.ROWS  # the row that keeps and replaces; masks alone; keeps; replaces
MASKS, READS_ON = pretraining.FROM_NOTHING
AT_MASK, KEPT, RANDOM = range(3)  # the metrics


def defaults() -> dict[str, object]:
    """The defaults of the arguments of 7.3's `mask_tokens`."""
    known = course.load()
    entry = known.notebook("07_bert_pretraining")
    (case,) = [one for one in answers.reference_cases(known, entry) if one.exercise == "7.3"]
    defined = answers.at_home(build.student_notebook(known, entry), case.source, "answer")
    parameters = inspect.signature(defined["mask_tokens"]).parameters
    return {name: one.default for name, one in parameters.items()}


@cache
def losses(row: str, at: int) -> np.ndarray:
    """The losses of the recorded runs of a row, at masks, kept or random tokens."""
    return np.array([pretraining.METRICS[at].of(run) for run in pretraining.recorded()[row]])


@cache
def shown_behind() -> list[str]:
    """The rows that are shown to be worse than BERT's at [MASK]."""
    runs = {name: pretraining.recorded()[name] for name in pretraining.ROWS}
    found = SeedTable(runs, pretraining.METRICS[AT_MASK]).compared((BERT, name) for name in (MASKED, KEEPS, REPLACES))
    return [one.second for one in found if one.shown and one.difference > 0]


def apart(at: int) -> float:
    """How many nats the lowest and the highest mean of the rows are apart."""
    return float(np.ptp([losses(name, at).mean() for name in pretraining.ROWS]))


def learned(row: str) -> Sequence[float]:
    """How far the training loss of each recorded run has fallen since the first steps."""
    return [run.curve[1]["train_loss"] - run.curve[-1]["train_loss"] for run in pretraining.recorded()[row]]


def copies() -> bool:
    """Whether the row that keeps and never replaces is best at kept tokens and worst at random ones."""
    others = (BERT, MASKED, REPLACES)
    best = losses(KEEPS, KEPT).max() < min(losses(name, KEPT).min() for name in others)
    return bool(best and losses(KEEPS, RANDOM).min() > max(losses(name, RANDOM).max() for name in others))


def ahead() -> str:
    """By how many nats reading on is ahead of masking, from nothing."""
    return f"{losses(MASKS, AT_MASK).mean() - losses(READS_ON, AT_MASK).mean():.1f}"


SIZES = pretraining.recorded_sizes()
SHORT, LONG = pretraining.LENGTHS
AT_MASK_OF = pretraining.METRICS[0]
SEQUENCES = 12_812  # to train on, by the data card
ROWS = [pretraining.experiments(profile="cpu")[name] for name in pretraining.ROWS]


def times_read(steps: int) -> str:
    """How often so many steps read each sequence."""
    return f"{steps * pretraining.LONG['batch'] / SEQUENCES:.0f}"


def against(first: tuple[int, int], second: tuple[int, int], steps: int) -> Comparison:
    """Two sizes, layers and heads, among all that are compared after so many steps."""
    names = [pretraining.name_of(*size, steps) for size in (first, second)]
    found = SeedTable(SIZES, AT_MASK_OF).compared(pretraining.sizes_compared(steps))
    (one,) = (one for one in found if [one.first, one.second] == names)
    return one


NUMBERS: dict[str, Callable[[], str]] = {
    "0.9": ahead,
    "0.4": lambda: papers.change("SQuAD 2.0, F1, static and dynamic masks"),
    "0.3": lambda: papers.change("MNLI, static and dynamic masks"),
    "800": lambda: papers.figure("million words of BooksCorpus"),
    "2,500": lambda: papers.figure("million words of the English Wikipedia"),
    "15%": lambda: f"{defaults()['p']:.0%}",
    "80%": lambda: f"{defaults()['split'][0]:.0%}",
    "10%": lambda: f"{defaults()['split'][1]:.0%}",
    "30%": lambda: f"{pretraining.SHARES[1]:.0%}",
    "50%": lambda: f"{pretraining.SHARES[2]:.0%}",
    "192": lambda: str(pretraining.LONG["width"]),
    "16": lambda: str(pretraining.LONG["width"] // max(pretraining.HEADS)),
    "7": lambda: times_read(SHORT),
    "30": lambda: times_read(LONG),
    "1,500": lambda: f"{SHORT:,}",
    "6,000": lambda: f"{LONG:,}",
    "0.18": lambda: f"{-against((4, 3), (4, 1), SHORT).difference:.2f}",
    "0.96": lambda: f"{against((4, 3), (4, 12), SHORT).difference:.2f}",
    "1.2": lambda: f"{np.ptp([AT_MASK_OF.of(run) for run in SIZES[pretraining.name_of(8, 3, SHORT)]]):.1f}",
    "0.15": lambda: f"{-against((1, 3), (2, 3), LONG).difference:.2f}",
    "0.12": lambda: f"{-against((4, 3), (8, 3), LONG).difference:.2f}",
    "0.11": lambda: f"{-against((4, 3), (4, 1), LONG).difference:.2f}",
    "0.05": lambda: f"{-against((4, 3), (4, 12), LONG).difference:.2f}",
    "0.129": lambda: f"{against((4, 3), (8, 3), LONG).p:.3f}",
    "3.40": lambda: f"{np.mean([AT_MASK_OF.of(run) for run in SIZES[pretraining.name_of(1, 3, LONG)]]):.2f}",
    "3.14": lambda: f"{np.mean([AT_MASK_OF.of(run) for run in SIZES[pretraining.name_of(8, 3, LONG)]]):.2f}",
}

CLAIMS: dict[str, Callable[[], bool]] = {
    "the four rows differ by a tenth of a nat at `[MASK]`": lambda: round(apart(AT_MASK), 1) == 0.1,
    "that the two rows that keep no tokens are slightly worse than BERT's is shown": lambda: (
        shown_behind() == [MASKED, REPLACES]
    ),
    "All rows have the same rate, which was set by hand, and so few steps that they read a tenth of the text": (
        lambda: (
            len({(row.lr, row.steps, row.batch) for row in ROWS}) == 1
            and round(ROWS[0].steps * ROWS[0].batch / SEQUENCES, 1) == 0.1
        )
    ),
    "they are far apart, by one nat at random tokens and by nearly five at kept ones.": lambda: (
        round(apart(RANDOM)) == 1 and 4.7 < apart(KEPT) < 5
    ),
    "alone loses even more at a token that it can read than at one that is hidden.": (
        lambda: bool((losses(MASKED, KEPT) > losses(MASKED, AT_MASK)).all())
    ),
    "So does the one that was also asked at random tokens": lambda: bool(
        (losses(REPLACES, KEPT) > losses(REPLACES, AT_MASK)).all()
    ),
    "it is best on kept tokens and worst of all on random ones": copies,
    "Only BERT's mixture reads the token but does not trust it blindly.": lambda: (
        losses(BERT, KEPT).max() < min(losses(name, KEPT).min() for name in (MASKED, REPLACES))
        and losses(BERT, RANDOM).max() < losses(KEEPS, RANDOM).min()
    ),
    "From nothing, the model that reads from left to right is ahead by 0.9 nats at the same tokens": (
        lambda: ahead() == "0.9"
    ),
    "At `[MASK]` the masked model has hardly learned more than how frequent each token is.": lambda: (
        max(learned(MASKS)) < 0.5
    ),
    "(in the recorded runs by a tenth of a nat, shown for the two that keep nothing)": lambda: (
        shown_behind() == [MASKED, REPLACES]
    ),
}
# Sentences beside these that say nothing of what runs showed.
EXPLAINS = ("This says which model learns faster per step",)
