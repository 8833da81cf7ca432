"""The experiments of notebook 13, in the size of each profile, and their recorded runs: translating, maybe with a BERT.

A small encoder-decoder learns English to French from many sentences, or from few. Some models go on from the one with
few pairs: as it is, or with an encoder and decoder that also attend to a frozen BERT (Zhu et al. 2020). Every run
translates the test sentences three times: greedily, and with beams, ranked with and without a length penalty.

Imports nothing heavy: graders read it too. `utils.experiments.translation.train` trains.
"""

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from utils.experiments import formulas, profiles
from utils.experiments.experiment import BadRun, Experiment, Metric, Run, parse, read_files
from utils.experiments.runs import five_seeds
from utils.experiments.summaries import Summary, load_recorded

if TYPE_CHECKING:
    from utils.experiments.seed_table import Comparison
    from utils.plots import Picture

NOTEBOOK = "13_translation"
RECORDED = Path(__file__).resolve().parents[3] / "data" / "results" / "translation"
SEARCH = RECORDED.with_name("translation_search.json")
seeds = five_seeds  # the student's own
ORDERS = 4  # of n-grams
GREEDY, BEAMS, PENALISED = "greedy", "beams", "beams, length penalty"
DECODINGS = (GREEDY, BEAMS, PENALISED)  # in the order of a row of predictions
LOSS, LENGTH, HYPOTHESES = 0, 1, 2  # of a row: of the reference its loss and its words; then what was translated
ROW = HYPOTHESES + len(DECODINGS) * (1 + ORDERS)
POINTS = 6  # of the curve of a run
TRANSLATOR = "translator"  # the encoder of a model that learned from the whole pool


def _part(row: Sequence[Any], decoding: int) -> list[int]:
    """Of one of the translations of a sentence: how many words it has, and its n-grams that the reference has."""
    start = HYPOTHESES + decoding * (1 + ORDERS)
    return list(row[start : start + 1 + ORDERS])


def _counts(decoding: int, run: Run) -> Any:
    """What BLEU sums up: words of the reference and of the translation, and for each order matches and n-grams."""
    found = []
    for row in run.predictions:
        length, *matches = _part(row, decoding)
        found.append([row[LENGTH], length, *matches, *(max(0, length - n) for n in range(ORDERS))])
    return found


def _losses(run: Run) -> Any:
    return [(row[LOSS], row[LENGTH] + 1) for row in run.predictions]  # the end is a token too


METRICS = tuple(
    Metric(f"BLEU, {name}", "BLEU", partial(_counts, place), formulas.bleu) for place, name in enumerate(DECODINGS)
)
LOSS_METRIC = Metric("test loss", "nats", _losses, formulas.ratio, lower_is_better=True, digits=2)


@dataclass(frozen=True)
class Translation(Experiment):
    """An encoder-decoder that learns to translate, with or without a frozen BERT to attend to.

    A run holds a row for each test sentence: the loss of the reference in nats, and its number of words; then for each
    of DECODINGS the number of words of the translation, and how many of its 1- to 4-grams the reference has. BLEU is
    computed from these. Its curve is of the training loss.

    A seed varies the weights, which sentences of the pool it learns from, their order, dropout and drop-net. With
    `first_steps` it continues the model that the same seed makes without a BERT, as Zhu et al. do. CLDR's sentences
    differ between versions of Babel: runs are of one text where their `versions` name one.
    """

    metrics = (*METRICS, LOSS_METRIC)

    language: str
    pool: int  # pairs, of which a seed draws `examples`
    examples: int
    test: int
    steps: int
    batch: int
    lr: float
    width: int
    heads: int
    layers: int  # of the encoder, and of the decoder
    first_steps: int = 0  # of the model without a BERT from whose weights it starts; 0: it starts from new weights
    first_lr: float = 0.0
    encoder: str = ""  # tiny, minilm, bert or TRANSLATOR, whose states are attended to; blank: none
    start: str = ""  # pretrained or random
    state: int = 0  # which of its states, 0 is the embeddings
    drop_net: float = 0.0
    smoothing: float = 0.1
    dropout: float = 0.1
    beams: int = 4
    alpha: float = 1.0  # of the length penalty
    longest: int = 40  # tokens of a translation

    def __post_init__(self):
        if self.steps % POINTS or not self.batch <= self.examples <= self.pool:
            raise ValueError(f"{self.name}: the steps are a multiple of {POINTS}, and a batch is drawn from the pool")
        if self.start not in (("random", "pretrained") if self.encoder else ("",)):
            raise ValueError(f"{self.name}: an encoder starts pretrained or random, and none does not start")

    @property
    def first(self) -> "Translation":
        """The model without a BERT from whose weights it starts; see `first_steps`."""
        alone: dict[str, Any] = {
            "encoder": "",
            "start": "",
            "state": 0,
            "drop_net": 0.0,
            "first_steps": 0,
            "first_lr": 0.0,
        }
        return replace(self, name="", steps=self.first_steps, lr=self.first_lr, **alone)

    @property
    def starts_from(self) -> str:
        """The model that it continues; runs of one seed continue the same weights."""
        return str(self.first.plain()) if self.first_steps else ""

    @property
    def translator(self) -> "Translation":
        """The model that the first one would be with all pairs of the pool, whose encoder TRANSLATOR is."""
        return replace(self.first, examples=self.pool)

    @property
    def recorded_examples(self) -> str:
        """That of the recorded runs; blank if there is none of this size."""
        return next((text for task, test, text in recorded_lengths() if (task, test) == (self.task, self.test)), "")

    def check(self, run: Run, whole: bool) -> None:
        """Counts that can be, references as long as those of this text, where it is known, and a curve."""
        if len(run.predictions) != self.test:
            raise BadRun(f"it has translations of {len(run.predictions)} sentences instead of {self.test}")
        kinds = [float] + [int] * (ROW - 1)
        for row in run.predictions:
            if type(row) is not list or [*map(type, row)] != kinds or min(row) < 0 or row[LENGTH] < 1:
                raise BadRun("its predictions are not a loss and counts for each sentence, none below 0")
            for decoding in range(len(DECODINGS)):
                length, *matches = _part(row, decoding)
                most = [max(0, min(length, row[LENGTH]) - n) for n in range(ORDERS)]
                if any(found > there for found, there in zip(matches, most, strict=True)):
                    raise BadRun("a translation has more matches than it or its reference has n-grams")
                if any(after > before for before, after in itertools.pairwise(matches)):
                    raise BadRun("more long n-grams are found than shorter ones allow")
        known = recorded_lengths().get((self.task, self.test, run.versions.get("text", "")))
        if known is not None and [row[LENGTH] for row in run.predictions] != known:
            raise BadRun("its references are not as long as those of this text")
        if len(run.curve) != POINTS or {*run.curve[0]} != {"step", "train_loss"}:
            raise BadRun(f"its curve is not {POINTS} steps with their training loss")

    def whole_numbers(self, predictions: list[Any]) -> list[list[int]]:
        """What was counted of the translations."""
        return [row[HYPOTHESES:] for row in predictions]

    def count_steps(self, folder: Path | str | None = None) -> int:
        """The points of its curve, and the translations."""
        return POINTS + len(DECODINGS)


@cache
def recorded_lengths() -> dict[tuple[str, int, str], list[int]]:
    """How long each reference is, by task, number of sentences and text of the recorded runs."""
    found: dict[tuple[str, int, str], list[int]] = {}
    for run in filter(lambda run: run.predictions, map(parse, read_files(RECORDED).values())):
        about = str(run.experiment["task"]), len(run.predictions), run.versions.get("text", "")
        found.setdefault(about, [row[LENGTH] for row in run.predictions])
    return found


def decoded(some: Mapping[str, Sequence[Run]]) -> dict[str, list[Run]]:
    """Every run three times, as if each way to translate were an arm: their first metric is that way's BLEU.

    The names are "arm: way". What comes back is for tables, and no run: only its first translation was made so.
    """
    found = {}
    for name, several in some.items():
        for place, way in enumerate(DECODINGS):
            title = f"{name}: {way}"
            found[title] = [_decoded(run, title, place) for run in several]
    return found


def _decoded(run: Run, title: str, place: int) -> Run:
    """A run as if it had one way to translate, as an arm of this name."""
    named = replace(run, experiment=run.experiment | {"name": title})
    if isinstance(run, Summary):
        first, own = METRICS[0].name, METRICS[place].name
        return replace(named, numbers=run.numbers | {first: run.numbers[own]})
    return replace(named, predictions=[[*row[:HYPOTHESES], *_part(row, place)] for row in run.predictions])


# The arms of the notebook, and what each has besides the size of its profile. Those after PLAIN continue it.
MANY, PLAIN, CONTINUED = "many pairs", "few pairs", "few, continued"
FUSED, DROPPED, RANDOM = "few, BERT", "few, BERT, drop-net", "few, random BERT"
LAYER, COLD, BETTER = "few, BERT's layer 1", "few, BERT from the start", "few, translator's encoder"
ARMS: dict[str, dict[str, Any]] = {
    MANY: {},
    PLAIN: {},
    CONTINUED: {},
    FUSED: {"start": "pretrained"},
    DROPPED: {"start": "pretrained", "drop_net": 1.0},
    RANDOM: {"start": "random"},
}
SIZES: dict[str, dict[str, Any]] = {
    "smoke": {
        "all": {"task": "made-up-language", "language": "made-up", "pool": 400, "test": 30, "batch": 32,
                "width": 32, "heads": 2, "layers": 1, "dropout": 0.0, "beams": 3, "longest": 12},
        "many": {"examples": 400, "steps": 240, "lr": 1e-2}, "few": {"examples": 60, "steps": 240, "lr": 1e-2},
        "more": {"steps": 60, "lr": 3e-3}, "bert": {"encoder": "tiny", "state": 2},
    },
    "cpu": {
        "all": {"task": "cldr", "language": "fr", "pool": 6000, "test": 200, "batch": 48, "width": 96, "heads": 4,
                "layers": 2},
        "many": {"examples": 6000, "steps": 900, "lr": 2e-3}, "few": {"examples": 1000, "steps": 900, "lr": 2e-3},
        "more": {"steps": 300, "lr": 1e-3}, "bert": {"encoder": "minilm", "state": 6},
    },
    "gpu": {
        "all": {"task": "multi30k", "language": "de", "pool": 29_000, "test": 1000, "batch": 64,
                "width": 256, "heads": 4, "layers": 3, "longest": 60},
        "many": {"examples": 29_000, "steps": 6000, "lr": 1e-3}, "few": {"examples": 4000, "steps": 2400, "lr": 1e-3},
        "more": {"steps": 1200, "lr": 5e-4}, "bert": {"encoder": "bert", "state": 12},
    },
}  # fmt: skip
# Of the arms of the profile cpu and of the controls: the best of the recorded search.
RATES: dict[str, float] = {
    MANY: 4e-3, PLAIN: 2e-3, CONTINUED: 3e-4, FUSED: 3e-4, DROPPED: 3e-3, RANDOM: 3e-4, LAYER: 3e-4, COLD: 2e-3,
    BETTER: 3e-4,
}  # fmt: skip


def _arm(name: str, size: Mapping[str, Any], more: Mapping[str, Any]) -> Translation:
    """An arm of a size: MANY and PLAIN learn from new weights, all others continue PLAIN."""
    parts: list[Mapping[str, Any]] = [size["all"], size["many" if name == MANY else "few"]]
    if name not in (MANY, PLAIN):
        first = size["few"]
        parts += [size["more"], {"first_steps": first["steps"], "first_lr": first["lr"]}]
    parts += [size["bert"] if more else {}, more]
    return Translation(name, **{key: value for part in parts for key, value in part.items()})


def experiments(notebook: str = NOTEBOOK, profile: str | None = None) -> dict[str, Translation]:
    """The experiments of notebook 13 by name, in the order of its table: ARMS.

    `profile` is smoke (a made-up language, a tiny encoder), cpu (CLDR, the packaged encoder) or gpu (Multi30k,
    bert-base-uncased); by default that of this session.

    Raises:
        ValueError: there is no such notebook or profile.
    """
    chosen = profiles.chosen(profile, notebook, NOTEBOOK)
    made = {name: _arm(name, SIZES[chosen], more) for name, more in ARMS.items()}
    return _at_chosen_rates(made) if chosen == "cpu" else made


def _at_chosen_rates(some: Mapping[str, Translation]) -> dict[str, Translation]:
    """Arms with the rates of RATES, also of the models that they continue."""
    made = {}
    for name, one in some.items():
        one = replace(one, lr=RATES[name])
        made[name] = replace(one, first_lr=RATES[PLAIN]) if one.first_steps else one
    return made


def controls() -> dict[str, Translation]:
    """Arms of the profile cpu that are recorded beside those of notebook 13, by name.

    One reads another layer of the BERT, and one has a BERT from the start. The last attends to an encoder that has
    learned this very task from the whole pool.
    """
    size = SIZES["cpu"]
    made = {
        LAYER: _arm(LAYER, size, {"start": "pretrained", "state": 1}),
        COLD: replace(
            _arm(PLAIN, size, {"start": "pretrained"}), name=COLD, steps=size["few"]["steps"] + size["more"]["steps"]
        ),
        BETTER: _arm(BETTER, size, {"start": "pretrained", "encoder": TRANSLATOR, "state": size["all"]["layers"]}),
    }
    return _at_chosen_rates(made)


# Zhu et al. (2020), table 2: BLEU of a Transformer and of the BERT-fused one.
FUSED_BLEU: dict[str, tuple[float, float]] = {
    "English to German": (28.57, 30.45),
    "German to English": (34.64, 36.11),
    "English to Spanish": (39.0, 41.4),
    "English to Chinese": (26.3, 28.2),
    "English to French": (35.9, 38.7),
}
PAIRS = [(PLAIN, MANY), (PLAIN, CONTINUED), (CONTINUED, FUSED), (RANDOM, FUSED), (FUSED, DROPPED)]
CONTROL_PAIRS = [(PLAIN, COLD), (COLD, FUSED), (LAYER, FUSED), (CONTINUED, BETTER)]


def questions(
    some: Mapping[str, Sequence[Run]], arms: Sequence[tuple[str, str]] = PAIRS, ways: bool = True
) -> list[tuple[str, str]]:
    """The pairs that are compared, the same for everyone, as far as there are runs of both; as `decoded` names them.

    Args:
        arms: which are compared with each other, translated with beams and penalty.
        ways: whether the ways to translate are compared too.
    """
    pairs = [(f"{first}: {PENALISED}", f"{second}: {PENALISED}") for first, second in arms]
    kinds = [(MANY, GREEDY), (PLAIN, GREEDY), (MANY, BEAMS), (PLAIN, BEAMS)] if ways else []
    pairs += [(f"{arm}: {way}", f"{arm}: {PENALISED}") for arm, way in kinds]
    known = decoded({name: runs for name, runs in some.items() if runs})
    return [pair for pair in pairs if pair[0] in known and pair[1] in known]


def compared(
    some: Mapping[str, Sequence[Run]], arms: Sequence[tuple[str, str]] = PAIRS, ways: bool = True
) -> "list[Comparison]":
    """What the second of each pair has more than the first, with Holm's correction for all of them together.

    The pairs are those of `questions`.
    """
    from utils.experiments.seed_table import compare, holm

    every = decoded(some)
    return holm([compare(every[first], every[second], METRICS[0]) for first, second in questions(some, arms, ways)])


def picture(some: Mapping[str, Sequence[Run]], alt: str) -> "Picture":
    """BLEU of each arm, a bar for each way to translate: means over seeds."""
    from utils import plots

    panels = {
        way: [float(np.mean([metric.of(run) for run in runs])) for runs in some.values()]
        for way, metric in zip(DECODINGS, METRICS, strict=True)
    }
    return plots.bars(panels, labels=[name.replace(", ", ",\n") for name in some], ylabel="BLEU", alt=alt)


def recorded() -> dict[str, list[Run]]:
    """Summaries of the recorded runs, profile cpu, by name; data/README.md says how they were made."""
    return load_recorded(experiments(profile="cpu"), RECORDED)


def trials(arm: str) -> dict[tuple[float, int], float]:
    """BLEU of greedy translations of held-out pairs in the recorded search, by the arm's rate and the seed."""
    rows = json.loads(SEARCH.read_text())
    return {(row["settings"]["lr"], row["seed"]): row["score"] for row in rows if row["arm"] == arm}


def recorded_controls() -> dict[str, list[Run]]:
    """Summaries of the recorded runs of `controls`, by name."""
    return load_recorded(controls(), RECORDED)


ALSO_RECORDED = {RECORDED: controls}


def also_shown() -> list[tuple[str, dict[str, list[Run]], tuple[Metric, ...], list[tuple[str, str]]]]:
    """What the page of results shows besides the notebook's own arms: a title, runs, metrics, and what is compared."""
    known = recorded() | recorded_controls()
    compared_arms = dict.fromkeys(arm for pair in CONTROL_PAIRS for arm in pair)
    every = decoded({name: known[name] for name in compared_arms if known.get(name)})
    runs = {name: some for name, some in every.items() if name.endswith(PENALISED)}
    title = "Controls: BERT's first layer, no warm start, and an encoder that knows the task"
    return [(title, runs, METRICS[:1], questions(known, CONTROL_PAIRS, ways=False))]
