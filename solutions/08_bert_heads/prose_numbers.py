"""The numbers that the prose of notebook 08 prints, computed. Its cells print all others."""

import json
from collections.abc import Callable
from functools import cache

import numpy as np

from autograder import course
from autograder.author import papers
from utils.experiments import choices, tagging

MEASURED = course.ROOT / "data" / "results" / "answering.json"  # by measure.py, beside this file


def exact(wording: str, pick: Callable) -> str:
    """Percent of questions that the span head answered exactly, the lowest or highest over the seeds."""
    measured = json.loads(MEASURED.read_text()).values()
    shares = []
    for found in measured:
        rows = found[wording].values()
        shares.append(sum(row["head"]["exact"] for row in rows) / sum(row["asked"] for row in rows))
    return f"{100 * pick(shares):.0f}"


@cache
def mean(arm: str) -> float:
    """The mean entity F1 of the recorded runs of an arm, in percent."""
    return float(np.mean([tagging.METRICS[0].of(run) for run in tagging.recorded()[arm]]))


def best(head: str) -> int:
    """The state that a head reads best."""
    states = tagging.by_state(tagging.recorded(), head)
    return max(states, key=lambda state: mean(f"{head}, state {state}"))


def gains() -> list[float]:
    """By how many points a BiLSTM is ahead of a linear map, at each state that both read."""
    return [
        mean(f"{tagging.BILSTM}, state {state}") - mean(f"{tagging.LINEAR}, state {state}")
        for state in tagging.by_state(tagging.recorded(), tagging.BILSTM)
    ]


def order(state: int) -> tuple[str, str]:
    """The points that a BiLSTM without order is ahead of a linear map, and that order adds, at a state."""
    scores = [
        np.mean([tagging.METRICS[0].of(run) for run in (tagging.recorded() | tagging.recorded_shuffled())[arm]])
        for arm in (
            f"{tagging.LINEAR}, state {state}",
            *(f"{tagging.BILSTM}, state {state}{end}" for end in (", shuffled", "")),
        )
    ]
    without, with_it = np.diff(scores)
    return f"{without:.1f}", f"{with_it:.1f}"


MIDDLE = [f"{head}, state 4" for head in (tagging.LINEAR, tagging.BILSTM)]

NUMBERS: dict[str, Callable[[], str]] = {
    "82.1": lambda: papers.quoted("BERT, table 1", "BERT-large", "average"),
    "75.1": lambda: papers.quoted("BERT, table 1", "GPT", "average"),
    "90.9": lambda: papers.figure("SQuAD 1.1, F1 of BERT-large"),
    "81.9": lambda: papers.figure("SQuAD 2.0, F1 of BERT-large"),
    "86.3%": lambda: papers.figure("SWAG, BERT-large, test") + "%",
    "59.2": lambda: papers.figure("SWAG, ELMo, test"),
    "30": lambda: exact("known", min),
    "64%": lambda: exact("known", max) + "%",
    "28": lambda: exact("other", min),
    "52%": lambda: exact("other", max) + "%",
    "78%": lambda: f"{np.mean([run.accuracy for run in choices.recorded()['choice, pretrained']]):.0%}",
    "2.7": lambda: order(0)[0],
    "20.0": lambda: order(0)[1],
    "6.5": lambda: order(4)[0],
    "11.1": lambda: order(4)[1],
}

CLAIMS: dict[str, Callable[[], bool]] = {
    "In the recorded runs a linear map finds most names in the middle, at state 4.": lambda: best(tagging.LINEAR) == 4,
    "The last state is no better for it than the embeddings": lambda: (
        mean(f"{tagging.LINEAR}, state 6") - mean(f"{tagging.LINEAR}, state 0") < 1
    ),
    "A BiLSTM adds much at every state.": lambda: min(gains()) > 15,
    "the BiLSTM, too, is far better on the middle state.": lambda: (
        mean(MIDDLE[1]) > 8 + max(mean(f"{tagging.BILSTM}, state {state}") for state in (0, 6))
    ),
    "There it comes near the encoder that was fine-tuned as a whole, which is still a few points ahead.": lambda: (
        2 < mean(tagging.FINE_TUNED) - mean(MIDDLE[1]) < 8
    ),
    "From random weights the same encoder stays below every head on the middle state": lambda: (
        mean(tagging.FROM_NOTHING) < min(map(mean, MIDDLE))
    ),
}
# Sentences beside these that say nothing of what runs showed.
EXPLAINS = (
    "Is that because it reads the words in their order",
    "The control below separates the two.",
    "Only the rate of the linear map was searched",
    "Its rate was not searched: in a trial with one more seed",
)
