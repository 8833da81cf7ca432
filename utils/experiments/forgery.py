"""What honest runs do not have in common, and what they must: copies in disguise, and runs that nobody trained.

Imports nothing heavy: comparing all submissions of a class needs no torch.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from utils.experiments.experiment import Experiment, Run, parse, read_files

# What honest seeds have in common, measured on the 47 recorded runs of notebooks 05 and 06 (their outputs on the 277
# validation pairs, see `test_evidence.py`): correlations within an experiment 0.57 to 0.97, in the mean 0.70 (adapter)
# to 0.94 (after MNLI); between experiments at most 0.80. With 25 runs of a smaller budget, in which little was learned,
# they were 0.45 to 0.993, in the fusion 0.55 in the mean. A run explained by the others of its experiment: at most
# R = 0.98, earlier 0.995. Sorted, so that the order of the examples does not count: at most 0.9994.
# Of experiments that are not `measured`, what these figures find is for a person.
SAME = 0.999_999  # rounding and noise of 1e-4 stay above, on any encoder: the same run, scaled or moved
NEAR = 0.998  # 10 standard deviations (of Fisher's z) above what honest seeds reach: the same run with noise
MIXED = 0.999  # R of a run as a sum of others
PERMUTED = 0.9999  # correlation of sorted margins; 0.9994 among ten million pairs of independent normal ones
FEWEST = 8  # different outputs, of fewer nothing but equality says that two runs are one
# Of whole numbers, counts or classes, honest seeds of notebooks 08 and 09 have at most 0.73 in common, see `in_common`.
COUNTED = 0.9
FEWEST_TELLING = 30  # examples that say something, of fewer nothing is told
# What runs have in common besides what all runs of their experiment have: of honest seeds at most 0.49, of counts 0.63,
# in any experiment of any notebook; of the recorded runs with noise of a tenth 0.64 to 1 in four of five.
AKIN = 0.6
# How much more of what is a run's own recorded runs explain together than of each other, see `blended`.
# Each of the 52 recorded seeds of 9 notebooks against the others, all experiments of a notebook together: at most 0.105
# (0.058 without 08). Another seed, in all experiments of 10 and of 12: -0.01. Rows of two recorded runs, or
# weighted means, with noise of a tenth: 0.12 to 0.87 in notebooks 07 to 13.
BLENDED = 0.11
STEADY = 0.05  # added to the deviation by which an experiment's share counts less
CHANCE = 1e-6  # less likely, and every row of whole numbers is that of some recorded run, a run was put together
FEWEST_KNOWN = 4  # recorded runs, of fewer it is not known what all have
UNLIKE = 0.5  # an experiment whose runs have less in common with the recorded ones was not trained on these examples


def centred(outputs: np.ndarray) -> np.ndarray:
    """Rows (runs, examples) less their mean, of length 1; 0 where all examples are alike."""
    moved = outputs - outputs.mean(1, keepdims=True)
    size = np.linalg.norm(moved, axis=1, keepdims=True)
    return np.divide(moved, size, out=np.zeros_like(moved), where=size > 1e-9)


@cache
def recorded_runs(results: Path) -> dict[str, list[Run]]:
    """The runs that come with the course and hold predictions, by the folder of their experiment.

    There are none where students have summaries in their place.
    """
    found: dict[str, list[Run]] = {}
    for name, text in read_files(results).items():
        run = parse(text)
        if run.predictions:
            found.setdefault(name.split("/")[0], []).append(run)
    return found


@cache
def recorded_outputs(results: Path) -> dict[str, np.ndarray]:
    """The outputs (runs, examples) of the runs that come with the course, by the folder of their experiment."""
    found = {folder: [run.outputs for run in some] for folder, some in recorded_runs(results).items()}
    return {folder: np.array(some) for folder, some in found.items() if some[0].size}


def counted_again(
    experiments: Iterable[Experiment], runs: Mapping[str, Sequence[Run]], recorded: Mapping[str, Sequence[Run]]
) -> tuple[list[str], list[str]]:
    """The runs whose whole numbers are those of the course's own, or of another of the submission; and nearly so.

    Args:
        runs: those of a submission that stand up each by itself, by the name of their experiment.
        recorded: the course's own, see `recorded_runs`.

    Returns:
        what no training gives, which costs the points; and what a person should see: those that differ in a little, of
        the text of the recorded runs, as nothing else was measured.
    """
    table = [(one, run) for one in experiments for run in runs.get(one.name, ()) if not one.made_up]
    known: list[tuple[str, list[tuple[int, ...]]]] = []
    for folder, some in recorded.items() if table else ():
        rows = [[*map(tuple, table[0][0].whole_numbers(run.predictions))] for run in some]
        known += [(f"run {number} of the course's own {folder}", one) for number, one in enumerate(rows, start=1)]
    sure: list[str] = []
    unsure: list[str] = []
    for one, run in table:
        mine, file = [*map(tuple, one.whole_numbers(run.predictions))], file_of(one, run)
        share, place = max(((in_common(mine, others), place) for place, others in known), default=(0.0, ""))
        told = f"{file} has the counts or classes of {place}"
        if share == 1:
            sure.append(told)
        elif share > COUNTED and one.recorded_examples and one.examples_of(run) == one.recorded_examples:
            unsure.append(f"{told}, but for a few")
        known.append((file, mine))
    return sure, unsure


def akin(
    experiments: Iterable[Experiment],
    runs: Mapping[str, Sequence[Run]],
    recorded: Mapping[str, Sequence[Run]],
    told: Iterable[str] = (),
) -> list[str]:
    """The runs that differ from the mean of the course's own as one of these does: what a person should see.

    All runs find the same examples hard, so that a copy with as much noise as honest seeds have looks like another run.
    What is left without that is a seed's own. A run must have more in common with a recorded one than AKIN, and than
    half-way from what these have with each other to all.

    Args:
        runs, recorded: as of `counted_again`.
        told: sentences of which some begin with the file of a run, which needs no other then.

    Returns:
        a sentence for each experiment that has such runs.
    """
    named = {line.split()[0] for line in told}
    found = []
    for asked in experiments:
        known = [numbers_of(run) for run in recorded.get(asked.folder("").name, ())]
        if asked.made_up or len(known) < FEWEST_KNOWN or not known[0].size or len({*map(len, known)}) > 1:
            continue
        some = [run for run in runs.get(asked.name, ()) if asked.examples_of(run) == asked.recorded_examples]
        rows = {file_of(asked, run): numbers_of(run) for run in some if not run.degenerate}
        rows = {file: row for file, row in rows.items() if len(row) == len(known[0]) and file not in named}
        if rows == {}:
            continue
        table = np.array(known)
        least = max(AKIN, (1 + own_in_common(table)) / 2)
        common = _own(np.array([*rows.values()]), table) @ _own(table, table).T
        alike = [(file, shares) for file, shares in zip(rows, common, strict=True) if shares.max() > least]
        if alike:
            file, shares = alike[0]
            more = f"; so do {len(alike) - 1} more of {asked.name}, as one of them" if len(alike) > 1 else ""
            found.append(
                f"{file} differs from the mean of the course's own runs as run {shares.argmax() + 1} of them does "
                f"(correlation {shares.max():.2f}; honest seeds are below {least:.2g}){more}"
            )
    return found


def blended(
    experiments: Iterable[Experiment],
    runs: Mapping[str, Sequence[Run]],
    recorded: Mapping[str, Sequence[Run]],
    told: Iterable[str] = (),
) -> tuple[list[str], list[str]]:
    """Find runs that were put together from several of the course's own: row by row, or as weighted means.

    Whole numbers: each row of a mixture is one of some recorded run. Other numbers: what all runs share is taken out,
    and the recorded runs together explain more of what is left than they do of one of them. That is added up over the
    experiments of a notebook. Those in which recorded runs differ much in what is explained of them count less.

    Args:
        runs, recorded: as of `counted_again`.
        told: sentences of which some begin with the file of a run, which needs no other then.

    Returns:
        what no training gives, which costs the points; and what a person should see.
    """
    named = {line.split()[0] for line in told}
    sure: list[str] = []
    unsure: list[str] = []
    excess: list[tuple[float, float]] = []  # of each experiment, with its weight
    for asked in experiments:
        known = recorded.get(asked.folder("").name, ())
        some = [run for run in runs.get(asked.name, ()) if asked.examples_of(run) == asked.recorded_examples]
        if asked.made_up or len(known) < FEWEST_KNOWN or not some:
            continue
        certain, likely = _pieced(asked, [run for run in some if file_of(asked, run) not in named], known)
        sure, unsure = [*sure, *certain], [*unsure, *likely]
        table = [numbers_of(run) for run in known]
        rows = [row for run in some if not run.degenerate and len(row := numbers_of(run)) == len(table[0])]
        if rows and table[0].size and len({*map(len, table)}) == 1:
            usual, deviation = _explained_of_each_other(np.array(table).tobytes(), len(table))
            shares = [own_explained(row, np.array(table)) for row in rows]
            excess.append((float(np.mean(shares)) - usual, 1 / (STEADY + deviation)))
    found = sum(more * weight for more, weight in excess) / sum(weight for _, weight in excess) if excess else 0.0
    if found > BLENDED:
        unsure.append(
            f"these runs may be mixed from the course's own, which explain {found:.0%} more of what is each run's own "
            f"than of each other (honest seeds: at most {BLENDED:.0%})"
        )
    return sure, unsure


def _pieced(experiment: Experiment, runs: Sequence[Run], known: Sequence[Run]) -> tuple[list[str], list[str]]:
    """A sentence for each run whose rows of whole numbers are those of several recorded ones: for sure, or nearly."""
    others = [[*map(tuple, experiment.whole_numbers(one.predictions))] for one in known]
    if len({*map(len, others)}) > 1 or not others[0]:
        return [], []
    usual = max(_of_any(one, [*others[:place], *others[place + 1 :]])[0] for place, one in enumerate(others))
    sure: list[str] = []
    unsure: list[str] = []
    for run in runs:
        rows = [*map(tuple, experiment.whole_numbers(run.predictions))]
        share, telling = _of_any(rows, others) if len(rows) == len(others[0]) else (0.0, 0)
        if telling >= FEWEST_TELLING and share > (1 + usual) / 2:
            (sure if share == 1 and usual**telling < CHANCE else unsure).append(
                f"{file_of(experiment, run)} was put together from the course's own runs: {share:.0%} of its counts or "
                f"classes are those of one of them (of their own, at most {usual:.0%} are those of another)"
            )
    return sure, unsure


def _of_any(mine: Sequence[tuple[int, ...]], others: Sequence[Sequence[tuple[int, ...]]]) -> tuple[float, int]:
    """The share of examples that another run counts alike, of those counted otherwise than most, and their number."""
    ((most, _),) = Counter(itertools.chain(mine, *others)).most_common(1)
    telling = [row in theirs for row, theirs in zip(mine, zip(*others, strict=True), strict=True) if row != most]
    return (sum(telling) / len(telling) if telling else 0.0), len(telling)


@cache
def _explained_of_each_other(outputs: bytes, count: int) -> tuple[float, float]:
    """The mean share that recorded runs explain of each other, and its deviation; `outputs` are float64 rows."""
    table = np.frombuffer(outputs).reshape(count, -1)
    shares = [own_explained(row, np.delete(table, place, 0)) for place, row in enumerate(table)]
    return float(np.mean(shares)), float(np.std(shares, ddof=1))


def own_explained(row: np.ndarray, known: np.ndarray) -> float:
    """The share of what is a run's own (examples,) that what is others' own (runs, examples) explains, adjusted.

    It is the square of the multiple correlation, less what as many runs explain by chance.
    """
    left, sizes, _ = np.linalg.svd(_own(known, known).T, full_matrices=False)
    basis = left[:, sizes > 1e-6 * sizes[0]]  # the mean is taken out, so that one of them follows from the others
    explained_share = float(np.square(_own(row[None], known)[0] @ basis).sum())
    examples, terms = len(row), basis.shape[1]
    return 1 - (1 - explained_share) * (examples - 1) / (examples - terms - 1) if examples > terms + 1 else 0.0


def own_in_common(outputs: np.ndarray) -> float:
    """The most that one of these runs (runs, examples) has in common with another besides what the others all have."""
    most = 0.0
    for index in range(len(outputs)):
        others = np.delete(outputs, index, 0)
        most = max(most, float((_own(others, others) @ _own(outputs[index : index + 1], others)[0]).max()))
    return most


def _own(rows: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Rows (runs, examples) without what they share with the mean of known ones, however scaled, centred."""
    rows, mean = centred(rows), centred(known.mean(0, keepdims=True))[0]
    return centred(rows - np.outer(rows @ mean, mean))


def numbers_of(run: Run) -> np.ndarray:
    """The outputs of a run, (n,); where all is counted, its counts. There are none of text."""
    if run.outputs.size:
        return run.outputs
    entries = (one if isinstance(one, list) else [one] for one in run.predictions)
    return np.array([number for entry in entries for number in entry if type(number) is int], dtype=float)


def tells(rows: Sequence[tuple[int, ...]]) -> bool:
    """Whether enough examples are counted otherwise than most, so that two runs with the same rows are one run."""
    ((_, most),) = Counter(rows).most_common(1) or [((), 0)]
    return len(rows) - most >= FEWEST_TELLING


def in_common(one: Sequence[tuple[int, ...]], other: Sequence[tuple[int, ...]]) -> float:
    """The share of examples that two runs count alike, of those that one of them counts otherwise than most."""
    if len(one) != len(other) or not one:
        return 0.0
    ((most, _),) = Counter((*one, *other)).most_common(1)
    telling = [left == right for left, right in zip(one, other, strict=True) if left != most or right != most]
    return sum(telling) / len(telling) if len(telling) >= FEWEST_TELLING else 0.0


def suspicious(
    experiments: Iterable[Experiment], runs: Mapping[str, Sequence[Run]], recorded: Mapping[str, np.ndarray]
) -> tuple[list[str], list[str]]:
    """What honest runs do not do: be one another, be one of the course's, all say one thing, or have nothing in common.

    Args:
        runs: those of a submission that stand up each by itself, by the name of their experiment.
        recorded: the outputs of the course's own, see `recorded_outputs`.

    Returns:
        what no training gives, which costs the points; and what a person should see, since what honest runs of this
        experiment do was not measured.
    """
    table = [(one, list(runs.get(one.name, ()))) for one in experiments]
    real = [(one, some) for one, some in table if some and not one.made_up]
    found = [*_nothing_learned(real)]
    for one, some in real:
        ours = all(one.examples_of(run) == one.recorded_examples for run in some)
        known = recorded.get(one.folder("").name) if ours else None
        found += [finding for rule in RULES for finding in rule(one, some, known)]
    found += _copies(real, recorded)
    sure, unsure = (dict.fromkeys(one.sentence for one in found if one.sure is costs) for costs in (True, False))
    return [*sure], [*unsure]


class Finding(NamedTuple):
    """What honest runs do not do."""

    sure: bool  # whether no training gives it, so that it costs the points; else a person should see it
    sentence: str


Real = Sequence[tuple[Experiment, Sequence[Run]]]  # experiments that earn something, with their runs


def _nothing_learned(real: Real) -> Iterator[Finding]:
    """All runs of all experiments predict one thing each."""
    if real and all(run.degenerate for _, some in real for run in some):
        measured = any(one.measured or one.learns for one, _ in real)
        count = sum(len(some) for _, some in real)
        yield Finding(measured, f"all {count} runs predict one class only: nothing was learned in any")


def _collapsed(experiment: Experiment, runs: Sequence[Run], known: np.ndarray | None) -> Iterator[Finding]:
    """Most runs of an experiment in which seeds learn predict one thing."""
    count = sum(run.degenerate for run in runs)
    if experiment.learns and count == len(runs):
        sentence = "every run predicts one class only; honest ones learn with some of the seeds"
        yield Finding(True, f"{experiment.name}: {sentence}")
    elif experiment.learns and count > len(runs) / 2:  # of the recorded ones none does: too few to refuse by
        yield Finding(False, f"{experiment.name}: {count} of {len(runs)} runs predict one class only")


def _nothing_in_common(experiment: Experiment, runs: Sequence[Run], known: np.ndarray | None) -> Iterator[Finding]:
    """Runs agree less, with each other or with the recorded ones, than honest runs do."""
    for sentence in found_in_common(experiment, runs, known):
        yield Finding(experiment.measured, sentence)


def _loss_rises(experiment: Experiment, runs: Sequence[Run], known: np.ndarray | None) -> Iterator[Finding]:
    """The training loss does not fall, in the mean of the runs."""
    losses = [[point["train_loss"] for point in run.curve if "train_loss" in point] for run in runs]
    falls = [some[0] - some[-1] for some in losses if len(some) > 1]
    if falls and np.mean(falls) <= 0:
        yield Finding(False, f"{experiment.name}: the training loss does not fall")


RULES: tuple[Callable[[Experiment, Sequence[Run], np.ndarray | None], Iterator[Finding]], ...] = (
    _collapsed,
    _nothing_in_common,
    _loss_rises,
)  # each is asked of every experiment, with its runs and the outputs of the recorded ones


def _copies(real: Real, recorded: Mapping[str, np.ndarray]) -> Iterator[Finding]:
    """Two runs are one, or one is a recorded one, as they are or in a disguise."""
    lively = [(one, run) for one, some in real for run in some if not run.degenerate or varied(run.outputs)]
    for one, exact, sentence in _alike(lively, recorded):
        yield Finding(exact or one.measured, sentence)


def file_of(experiment: Experiment, run: Run) -> str:
    """The file of a run as a submission has it."""
    return f"{experiment.folder('').name}/seed_{run.seed}.json"


def found_in_common(experiment: Experiment, runs: Sequence[Run], known: np.ndarray | None) -> list[str]:
    """What runs have too little in common, with each other and with the recorded ones of the same experiment.

    Too little is less than UNLIKE, or than two thirds of what the recorded ones have in common where that is less: of
    a fusion that learns little, seeds agree less, and runs that were made up still do not agree at all.
    """
    if len(runs) < 2 or not runs[0].outputs.size or all(run.degenerate for run in runs):
        return []
    rows = centred(np.array([run.outputs for run in runs]))
    least = UNLIKE if known is None or len(known) < 2 else min(UNLIKE, 2 / 3 * _agreement(centred(known)))
    within = _agreement(rows)
    if within < least:
        return [
            f"{experiment.name}: its runs have nothing in common (correlation {within:.2f} on the same examples; "
            f"honest seeds are above {least:.2g})"
        ]
    alone = (rows @ rows.T - np.eye(len(rows))).sum(1) / (len(rows) - 1)
    for run, common in zip(runs, alone, strict=True):
        if common < 2 / 3 * least and not run.degenerate:  # of a fusion one honest seed may agree less than the mean
            return [
                f"{file_of(experiment, run)} has nothing in common with the other runs of {experiment.name} (mean "
                f"correlation {common:.2f} on the same examples; honest seeds are above {2 / 3 * least:.2g})"
            ]
    if known is not None and known.shape[1] == rows.shape[1]:
        likeness = (rows @ centred(known.mean(0, keepdims=True)).T).mean()
        if likeness < least:
            return [
                f"{experiment.name}: its runs are unlike every other run of it (correlation {likeness:.2f} with the "
                f"course's own; honest ones are above {least:.2g})"
            ]
    return []


def _agreement(rows: np.ndarray) -> float:
    """The mean correlation of every two of some centred rows (runs, examples)."""
    return float((rows @ rows.T)[np.triu_indices(len(rows), 1)].mean())


def _alike(
    runs: Sequence[tuple[Experiment, Run]], recorded: Mapping[str, np.ndarray]
) -> list[tuple[Experiment, bool, str]]:
    """The runs that are others in disguise: their experiment, whether to the last digit, and a sentence."""
    found = []
    for size in sorted({run.outputs.size for _, run in runs} - {0}):
        known = {
            (folder, f"run {number} of the course's own {folder}"): row
            for folder, some in recorded.items()
            for number, row in enumerate(some, start=1)
            if len(row) == size
        }
        same = [(one, run) for one, run in runs if run.outputs.size == size]
        places = [*known, *((one.folder("").name, file_of(one, run)) for one, run in same)]
        outputs = np.array([*known.values(), *(run.outputs for _, run in same)])
        copies = disguises(outputs, len(known))
        for index, (one, run) in enumerate(same, start=len(known)):
            if index in copies:
                other, how, exact = copies[index]
                twin, twin_run = same[other - len(known)] if other >= len(known) else (one, run)
                continue_one = one.starts_from and one.starts_from == twin.starts_from and run.seed == twin_run.seed
                if not exact and twin is not one and continue_one:  # near without a copy
                    continue
                found.append((one, exact, f"{file_of(one, run)} is {places[other][1]}, {how}"))
                continue
            mates = [place for place, (folder, _) in enumerate(places) if folder == places[index][0] and place != index]
            if explained(outputs[index], outputs[mates]) > MIXED:
                found.append((one, False, f"{file_of(one, run)} is a sum of other runs of this experiment"))
    return found


def explained(row: np.ndarray, others: np.ndarray) -> float:
    """The multiple correlation R of a run's outputs (examples,) with those of others (runs, examples)."""
    if not len(others):
        return 0.0
    basis = np.linalg.qr(centred(others).T)[0]
    return float(np.linalg.norm(centred(row[None])[0] @ basis))


def disguises(outputs: np.ndarray, first: int = 0) -> dict[int, tuple[int, str, bool]]:
    """The rows from `first` on that are an earlier row scaled, moved, turned round, with noise, or in another order.

    Args:
        outputs: (runs, examples).

    Returns:
        by row: which earlier row it is, in words what was done to it, and whether to the last digit.
    """
    found: dict[int, tuple[int, str, bool]] = {}
    rows, ranked, ordered, backwards = shapes(outputs)
    for index in range(max(first, 1), len(rows)):
        linear, rank = rows[:index] @ rows[index], ranked[:index] @ ranked[index]
        same = np.where(np.abs(linear) > np.abs(rank), linear, rank)
        place = int(np.abs(same).argmax())
        if abs(same[place]) > NEAR:
            turned = ", its classes exchanged" if same[place] < 0 else ""
            exact = bool(abs(linear[place]) > SAME)
            bent = abs(linear[place]) <= NEAR
            how = "scaled or moved" if exact else "its logits bent" if bent else "with noise"
            found[index] = (place, f"{how}{turned}", exact)
            continue
        for other, turned in ((ordered, ""), (backwards, ", its classes exchanged")):
            sorted_same = other[:index] @ ordered[index]
            place = int(sorted_same.argmax())
            if sorted_same[place] > PERMUTED:
                found[index] = (place, f"its examples in another order{turned}", False)
                break
    return found


def varied(outputs: np.ndarray) -> bool:
    """Whether outputs (examples,) differ enough among themselves to tell a run: those of a collapsed one need not."""
    counts = np.unique(outputs, return_counts=True)[1]
    return len(counts) >= FEWEST and counts.max() <= len(outputs) / 2


def _ranks(row: np.ndarray) -> np.ndarray:
    """The rank of each number, equal ones the mean of theirs."""
    _, which, counts = np.unique(row, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[which]


def shapes(outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Four views of outputs (runs, examples), centred: as they are, as ranks, sorted, sorted with classes exchanged.

    A scale or a shift leaves the first as it is, any other rising function the second, another order of the
    examples the third.
    """
    ranks = np.array([_ranks(row) for row in outputs], dtype=outputs.dtype).reshape(outputs.shape)
    ordered = centred(np.sort(outputs, 1))
    return centred(outputs), centred(ranks), ordered, -ordered[:, ::-1]
