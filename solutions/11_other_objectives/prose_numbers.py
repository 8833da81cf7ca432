"""The numbers that the prose of notebook 11 prints, computed. Its cells print all others."""

import inspect
from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from transformers import BertConfig

from autograder import course
from autograder.author import answers, build, papers
from utils.experiments import objectives, spans
from utils.experiments.objectives import train
from utils.experiments.seed_table import Comparison, SeedTable, t_interval, values_of

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


def at_the_other_task(arm: str, which: int) -> tuple[float, float]:
    """The interval over seeds of a head's accuracy at the task that it did not learn, in percent."""
    metric = objectives.experiments(profile="cpu")[arm].metrics[which]
    return t_interval(values_of(objectives.recorded()[arm], metric))


def no_better_than_a_coin() -> bool:
    """Whether the interval over seeds of the NSP head's accuracy at order contains one half."""
    low, high = at_the_other_task(objectives.NSP, 1)
    return low < 50 < high


def fills_as_bert_does() -> bool:
    """Whether of the blanks in the arms with translations 80% are masks, 10% other words, and 10% the word itself."""
    words = torch.full((100, 100), train.WORDS)
    filled = train.corrupted(words, words > 0, 10_000, torch.Generator().manual_seed(0))
    shares = [float((filled == one).float().mean()) for one in (train.MASK, train.WORDS)]
    return bool(np.allclose([shares[0], 1 - sum(shares), shares[1]], [0.8, 0.1, 0.1], atol=0.02))


def mean_span(p: float = 0.2, longest: int = 10) -> float:
    """The mean length of SpanBERT's spans: geometric, and those above the longest are drawn again."""
    shares = [p * (1 - p) ** (length - 1) for length in range(1, longest + 1)]
    return sum(length * share for length, share in enumerate(shares, 1)) / sum(shares)


ANSWERED = spans.recorded()
KNOWN, NEW = spans.METRICS
SQUAD = "SpanBERT, table 1"


def squad(model: str) -> str:
    """The F1 on SQuAD 1.1 of a model in SpanBERT's table 1."""
    return papers.quoted(SQUAD, model, "SQuAD 1.1").partition("/")[2]


def answered(first: str, second: str, metric: spans.Metric = KNOWN) -> Comparison:
    """Two arms of the recorded runs that answer questions, among all that are compared."""
    found = SeedTable(ANSWERED, metric).compared(spans.compared())
    (one,) = (one for one in found if (one.first, one.second) == (first, second))
    return one


def f1s(arm: str) -> np.ndarray:
    """The F1 of each run of an arm, in known wordings."""
    return values_of(ANSWERED[arm], KNOWN)


def beyond() -> list[int]:
    """How many runs of each arm are above 60%; all others are below 55%."""
    assert not any(55 < value < 60 for arm in spans.HIDDEN for value in f1s(arm))
    return [int((f1s(arm) > 60).sum()) for arm in spans.HIDDEN]


NUMBERS: dict[str, Callable[[], str]] = {
    "94.6": lambda: squad("SpanBERT"),
    "93.3": lambda: squad("the same, single sequences"),
    "1.3": lambda: f"{float(squad('SpanBERT')) - float(squad('the same, single sequences')):.1f}",
    "9,600": lambda: f"{spans.arms()[spans.NONE].questions:,}",
    "12": lambda: str(len(ANSWERED[spans.SPANS])),
    "8.9": lambda: f"{-answered(spans.PIECES, spans.SPANS).difference:.1f}",
    "19.5": lambda: f"{-answered(spans.PIECES, spans.SPANS).crossed[0]:.1f}",
    "1.6": lambda: f"{answered(spans.PIECES, spans.SPANS).crossed[1]:.1f}",
    "21": lambda: f"{np.ptp(answered(spans.PIECES, spans.SPANS).crossed):.0f}",
    "42": lambda: f"{max(np.ptp(f1s(arm)) for arm in spans.HIDDEN):.0f}",
    "54%": lambda: f"{max(value for arm in spans.HIDDEN for value in f1s(arm) if value < 60):.0f}%",
    "9": lambda: str(beyond()[0]),
    "3": lambda: str(beyond()[1]),
    "1": lambda: str(beyond()[2]),
    "20": lambda: f"{-answered(spans.NONE, spans.SPANS).difference:.0f}",
    "22": lambda: f"{-answered(spans.NONE, spans.SPANS, NEW).difference:.0f}",
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
    "With one fixed mask for each sentence, the training loss keeps falling": lambda: bool(
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
    "No difference is shown.": lambda: not answered(spans.PIECES, spans.SPANS).shown,
    "With known wordings spans are 8.9 points behind": lambda: answered(spans.PIECES, spans.SPANS).difference < 0,
    "The paper's gain of 1.3 points lies in it, and so does none.": lambda: (
        answered(spans.PIECES, spans.SPANS).crossed[0] < 0 < 1.3 < answered(spans.PIECES, spans.SPANS).crossed[1]
    ),
    "whole spans cost 20 points with known wordings, which is shown, and 22 with new ones.": lambda: all(
        answered(spans.NONE, spans.SPANS, metric).shown for metric in (KNOWN, NEW)
    ),
    "A head that learned SOP is a little better than a coin at NSP": lambda: (
        50 < at_the_other_task(objectives.SOP, 0)[0]
    ),
    "Both follow from intervals over seeds alone": lambda: (
        no_better_than_a_coin() and at_the_other_task(objectives.SOP, 0)[0] > 50
    ),
    "Both arms fill their blanks as BERT does: most with a mask, some with another word": (fills_as_bert_does),
}
# Sentences beside these that say nothing of what runs showed.
EXPLAINS = (
    "RoBERTa's own gain is far smaller",
    "Its text is not a thousand sentences, and its static masks were ten",
    "In the end it read 160 GB",
    "The two arms see the same words.",
    "What differs is who may look at whom",
    "In a trial in which all blanks were masks",
    "The number of steps is the first one that was tried",
    "The rate was chosen with one of these seeds",
    "Ours reads frozen vectors of single sentences",
)
