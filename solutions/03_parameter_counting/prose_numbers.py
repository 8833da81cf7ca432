"""The numbers that the prose of notebook 03 prints, each computed from what the libraries really build."""

import itertools
import json
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import nn

from utils import counting
from utils.checks.nb03_parameter_counting import LARGE
from utils.counting import numel
from utils.experiments import experiment, scaling
from utils.experiments.seed_table import SeedTable, t_interval

LAB, SMALL = counting.LAB, counting.LAB | {"V": 100}


@cache
def config() -> Any:
    """The sizes of BERT-base, as transformers has them."""
    from transformers import BertConfig

    return BertConfig()


def lab(C: int | None = None, V: int = LAB["V"]) -> nn.Module:
    """The lab's language model, or a classifier with C outputs on the same base."""
    return counting.on_meta(counting.LanguageModel, **(LAB | {"V": V}), C=C)


def said(count: int) -> str:
    """A count as the prose prints it."""
    return f"{count:,}"


def tables() -> str:
    """The share of the lab's language model that its two vocabulary tables hold."""
    model: Any = lab()
    return f"{(model.embedding.weight.numel() + model.head.weight.numel()) / numel(model):.0%}"


def layer_vectors() -> str:
    """b in a layer of 6 D^2 + b D parameters, F = D."""
    D = LAB["D"]
    vectors, rest = divmod(numel(counting.on_meta(nn.TransformerEncoderLayer, D, 2, D)) - 6 * D * D, D)
    assert rest == 0
    return str(vectors)


def reduction() -> str:
    """How many times narrower than the model the bottleneck of `seq_bn` is."""
    from adapters import SeqBnConfig

    return str(SeqBnConfig().reduction_factor)


def bert(head_layers: int | None = None) -> str:
    """BERT-base with its pooler, and with the adapters library's head for two classes where asked for."""
    head = counting.adapters_head(counting.BERT["D"], 2, head_layers) if head_layers else 0
    return said(numel(counting.bert(**counting.BERT)) + head)


# The scaling experiment


@cache
def runs() -> dict[str, list[experiment.Run]]:
    """Its recorded runs."""
    return scaling.recorded()


@cache
def fit() -> scaling.Fit:
    """What the three budgets predict."""
    return scaling.fit(runs())


@cache
def ends() -> dict[str, tuple[float, float]]:
    """The intervals of the predictions."""
    return scaling.intervals(runs())


def losses(place: int) -> list[float]:
    """The losses at the next budget: with the predicted width, with half of the size (1) or twice of it (2)."""
    return [scaling.LOSS.of(run) for run in runs()[scaling.name_of(scaling.NEXT, scaling.NEXT_WIDTHS[place])]]


def mean(place: int) -> float:
    """Their mean."""
    return sum(losses(place)) / len(losses(place))


def measured_size() -> float:
    """The size at the vertex of the parabola through the runs of the next budget."""
    return scaling.vertices({scaling.NEXT: scaling.points(runs(), scaling.NEXT)})[scaling.NEXT][0]


def between(value: float, ends: tuple[float, float]) -> bool:
    """Whether a value is inside an interval."""
    return ends[0] <= value <= ends[1]


def ones_in_bfloat16() -> float:
    """Where a sum of a thousand ones stays that bfloat16 holds."""
    total = torch.zeros(1, dtype=torch.bfloat16)
    for _ in range(1000):
        total = total + 1
    return total.item()


NUMBERS: dict[str, Callable[[], str]] = {
    # the lab's model, V = 50,001 and V = 100
    "50,001": lambda: said(LAB["V"]),
    "200": lambda: str(LAB["D"]),
    "100": lambda: str(SMALL["V"]),
    "10": layer_vectors,
    "242,000": lambda: said(numel(counting.on_meta(nn.TransformerEncoderLayer, LAB["D"], 2, LAB["F"]))),
    "21,018,401": lambda: said(numel(lab())),
    "95%": tables,
    "1,008,100": lambda: said(numel(lab(V=100))),
    "10,968,602": lambda: said(numel(lab(C=2))),
    "988,402": lambda: said(numel(lab(C=2, V=100))),
    "402": lambda: said(numel(lab(C=2).head)),
    # BERT
    "12": lambda: str(config().num_hidden_layers),
    "64": lambda: str(config().hidden_size // config().num_attention_heads),
    "768": lambda: str(config().hidden_size),
    "24": lambda: str(LARGE["L"]),
    "109,482,240": bert,
    "109,483,778": lambda: said(numel(counting.bert_with_linear_head(2, **counting.BERT))),
    "110,074,370": lambda: bert(head_layers=2),
    "335,141,888": lambda: said(numel(counting.bert(**LARGE))),
    # adapters; BERT-large has as many heads as `seq_bn` reduces the width: 16
    "16": reduction,
    "894,528": lambda: said(counting.adapter_and_fusion(768, 12, n=3)[0]),
    "21,252,096": lambda: said(counting.adapter_and_fusion(768, 12, n=3)[1]),
    # bfloat16
    "256": lambda: f"{ones_in_bfloat16():.0f}",
    "257": lambda: f"{ones_in_bfloat16() + 1:.0f}",
    # float32
    "32": lambda: str(torch.finfo(torch.float32).bits),
}


def measured_loss() -> float:
    """The mean loss with the predicted size."""
    return mean(0)


def searched() -> dict[tuple[int, float], float]:
    """The losses of the search, by width and rate."""
    return {(row["width"], row["rate"]): row["loss"] for row in json.loads(scaling.SEARCH.read_text())}


def twice_the_rate() -> list[float]:
    """What twice the chosen rate cost in the search, for each width that was searched."""
    losses = searched()
    return [
        losses[width, 2 * rate] - losses[width, rate]
        for width, rate in scaling.RATES.items()
        if (width, rate) in losses
    ]


def grows_slower() -> bool:
    """Whether three times the FLOPs want about twice the size, and not three times."""
    budgets = [*scaling.WIDTHS, scaling.NEXT]
    assert {later / earlier for earlier, later in itertools.pairwise(budgets)} == {3}
    return ends()["exponent"][1] < 1 and 1.8 < 3 ** fit().exponent < 2.2


def neither_holds() -> bool:
    """Whether both intervals of the predicted loss leave out the measured mean, and its whole interval."""
    measured = t_interval(losses(0))
    return not any(between(one, ends()[way]) for way in scaling.WAYS for one in (*measured, measured_loss()))


def both_are_shown() -> bool:
    """Whether half and twice the predicted size are shown to be worse, with three seeds each."""
    found = SeedTable(
        {name: some for name, some in runs().items() if name.startswith(str(scaling.NEXT))}, scaling.LOSS
    ).compared(scaling.questions())
    return len(found) == 2 and all(one.shown and one.difference > 0 and one.seeds == 3 for one in found)


def between_half_and_twice() -> bool:
    """Whether both are shown to be worse, and the measured best size is between them."""
    half, double = (runs()[scaling.name_of(scaling.NEXT, scaling.NEXT_WIDTHS[place])][0] for place in (1, 2))
    return both_are_shown() and half.numbers["parameters"] < measured_size() < double.numbers["parameters"]


def one_search() -> bool:
    """Whether the search has one seed, and all widths but the smallest one are tried at the middle budget."""
    rows = json.loads(scaling.SEARCH.read_text())
    budgets = {(row["width"] == min(scaling.RATES), row["budget"]) for row in rows}
    return len({row["seed"] for row in rows}) == 1 and budgets == {(True, 30), (False, 90)}


def three(value: float) -> str:
    """A difference of losses as the prose prints it."""
    return f"{value:.3f}"


NUMBERS |= {
    "30": lambda: str(min(scaling.WIDTHS)),
    "90": lambda: str(sorted(scaling.WIDTHS)[1]),
    "270": lambda: str(max(scaling.WIDTHS)),
    "810": lambda: str(scaling.NEXT),
    "0.64": lambda: f"{fit().exponent:.2f}",
    "0.56": lambda: f"{ends()['exponent'][0]:.2f}",
    "0.83": lambda: f"{ends()['exponent'][1]:.2f}",
    "0.022": lambda: three(mean(1) - mean(0)),
    "0.041": lambda: three(mean(2) - mean(0)),
    "0.097": lambda: three(measured_loss() - fit().loss),
    "0.032": lambda: three(fit().floored - measured_loss()),
}
CLAIMS: dict[str, Callable[[], bool]] = {
    "the best size grows as the FLOPs to the power of 0.64 (95% interval: 0.56 to 0.83)": grows_slower,
    "So with three times the FLOPs the best size is about twice as large, not three times": grows_slower,
    "The measured best size lies inside the interval of the predicted one": lambda: between(
        measured_size(), ends()["size"]
    ),
    "So the best size lies between half and twice the predicted one": between_half_and_twice,
    "Half the predicted size costs 0.022 nats, and twice the size 0.041": lambda: min(mean(1), mean(2)) > mean(0),
    "neither interval contains what was measured": neither_holds,
    "The straight line is 0.097 nats too low, the curve with a floor 0.032 too high": lambda: (
        fit().loss < measured_loss() < fit().floored and fit().floored - measured_loss() < measured_loss() - fit().loss
    ),
    "Both differences are shown, with three seeds": both_are_shown,
    "twice the chosen rate cost more than half the size did, at every width": lambda: (
        len(twice_the_rate()) == len({width for width, _ in searched()})
        and min(twice_the_rate()) > mean(1) - measured_loss()
    ),
    "The learning rates come from a search with one seed, at 90 GFLOP (for the smallest model at 30)": one_search,
    "no text was read twice": lambda: max(run.numbers["epochs"] for some in runs().values() for run in some) < 1,
}
# Sentences beside these that say nothing of what runs showed.
EXPLAINS = ("Hoffmann et al. find",)
