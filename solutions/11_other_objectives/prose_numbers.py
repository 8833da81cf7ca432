"""The numbers that the prose of notebook 11 prints, computed. Its cells print all others."""

import inspect
from collections.abc import Callable
from functools import cache

import numpy as np
from transformers import BertConfig

from autograder import course
from autograder.author import answers, build, papers
from utils.experiments import objectives
from utils.experiments.seed_table import t_interval, values_of

COURSE = course.load()
ENTRY = COURSE.notebook("11_other_objectives")


def rate() -> float:
    """The share of tokens that 11.1's `masked_places` hides, unless it is told another."""
    (case,) = [one for one in answers.reference_cases(COURSE, ENTRY) if one.exercise == "11.1"]
    defined = answers.at_home(build.student_notebook(COURSE, ENTRY), case.source, "answer")
    return inspect.signature(defined["masked_places"]).parameters["rate"].default


@cache
def mean(arm: str, which: int) -> float:
    """The mean of a metric over the recorded runs of an arm."""
    found = objectives.recorded()[arm]
    metric = objectives.experiments(profile="cpu")[arm].metrics[which]
    return float(np.mean([metric.of(run) for run in found]))


@cache
def curve(arm: str, which: str) -> np.ndarray:
    """The mean curve of the recorded runs of an arm: `train_loss` or `test_loss` at each point."""
    return np.mean([[point[which] for point in run.curve] for run in objectives.recorded()[arm]], axis=0)


def rises_from_the_third_point() -> bool:
    """Whether the test loss with one mask falls up to the second point and rises from then on."""
    steps = np.diff(curve(objectives.STATIC, "test_loss"))
    return bool(steps[0] < 0 and (steps[1:] > 0).all())


def no_better_than_a_coin() -> bool:
    """Whether the interval over seeds of the NSP head's accuracy at order contains one half."""
    runs = objectives.recorded()[objectives.NSP]
    low, high = t_interval(values_of(runs, objectives.experiments(profile="cpu")[objectives.NSP].metrics[1]))
    return low < 50 < high


def mean_span(p: float = 0.2, longest: int = 10) -> float:
    """The mean length of SpanBERT's spans: geometric, and those above the longest are drawn again."""
    shares = [p * (1 - p) ** (length - 1) for length in range(1, longest + 1)]
    return sum(length * share for length, share in enumerate(shares, 1)) / sum(shares)


NUMBERS: dict[str, Callable[[], str]] = {
    "3.8": lambda: f"{mean_span():.1f}",
    "400": lambda: str(objectives.experiments(profile="cpu")[objectives.MLM].test),
    "104": lambda: papers.figure("languages of multilingual BERT"),
    "128": lambda: papers.figure("tokens of a short row"),
    "90%": lambda: papers.figure("share of BERT's steps with short rows"),
    "0.98": lambda: papers.figure("second moment's share for large batches"),
    "160": lambda: papers.figure("GB of all"),
    "16": lambda: papers.figure("GB of BooksCorpus and Wikipedia"),
    "76": lambda: papers.figure("GB of CC-News"),
    "38": lambda: papers.figure("GB of OpenWebText"),
    "31": lambda: papers.figure("GB of Stories"),
    "11": lambda: ENTRY.number,
    "15%": lambda: f"{rate():.0%}",
    "512": lambda: str(BertConfig().max_position_embeddings),
}

CLAIMS: dict[str, Callable[[], bool]] = {
    "In the recorded runs all four differences are shown.": lambda: (
        [one.shown for one in objectives.compared(objectives.recorded())] == [True] * 4
    ),
    "With one mask a sentence, the training loss falls further and further": lambda: bool(
        (np.diff(curve(objectives.STATIC, "train_loss")) < 0).all()
    ),
    "the loss on other text rises from the third point on": rises_from_the_third_point,
    "In the end it is a nat above that of dynamic masks.": lambda: (
        round(mean(objectives.STATIC, 0) - mean(objectives.DYNAMIC, 0)) == 1
    ),
    "side by side with their translations, more than a quarter of the translations are nearest to their sentences": (
        lambda: 25 < mean(objectives.TLM, 0) < 30
    ),
    "After training on each alone, one in a hundred is, where chance gives one of 400.": lambda: (
        round(mean(objectives.MLM, 0)) == 1 and objectives.experiments(profile="cpu")[objectives.MLM].test == 400
    ),
    "A head that learned NSP is not shown to be better at order than a coin": no_better_than_a_coin,
    "A head that learned SOP is a little better than a coin at NSP": lambda: 51 < mean(objectives.SOP, 0) < 60,
}
# Sentences beside these that say nothing of what runs showed.
EXPLAINS = (
    "RoBERTa's own gain is far smaller",
    "Its text is not a thousand sentences, and its static masks were ten",
    "In the end it read 160 GB",
    "The two arms see the same words.",
    "What differs is who may look at whom",
    "The rate was chosen with one of these seeds",
    "Ours reads frozen vectors of single sentences",
)
