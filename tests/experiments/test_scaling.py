"""The scaling experiment of notebook 03: its steps, its fit, its recorded search, and its recorded runs."""

import dataclasses
import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import script

from utils import plots
from utils.experiments import scaling
from utils.experiments.experiment import Run, parse, path_of
from utils.experiments.runs import RECORDED_SEEDS, run_seeds
from utils.experiments.scaling import train
from utils.experiments.scaling.spec import Scaling

SMOKE = scaling.scaling("smoke")
ONE = next(iter(SMOKE.values()))
ROOT = Path(__file__).resolve().parents[2]
SEARCH = ROOT / "solutions/03_parameter_counting/search.py"


def run_with(budget, size, loss, seed=1):
    """A run of which nothing is known but its budget, its size and its loss."""
    return Run({"budget": budget}, seed, [], [], [], [], numbers={"parameters": size, "loss": loss})


# How a model is trained


def test_a_run_takes_as_many_flops_as_its_budget_and_comes_back_from_its_file(tmp_path):
    runs = {name: run_seeds(one, (1, 2), tmp_path) for name, one in SMOKE.items()}
    for name, (first, second) in runs.items():
        spent, batch = first.numbers["flops"] * first.numbers["characters"], SMOKE[name].batch * SMOKE[name].length
        budget = SMOKE[name].budget * scaling.GIGA
        assert abs(spent - budget) <= first.numbers["flops"] * batch / 2
        assert parse(path_of(SMOKE[name], 1, tmp_path).read_bytes()).numbers == first.numbers
        assert len(first.curve) == SMOKE[name].count_steps() and first.numbers["loss"] != second.numbers["loss"]
        assert first.curve[-1]["train_loss"] < first.curve[0]["train_loss"] - 0.3
    again = ONE.run_seed(1)
    assert (again.numbers, again.curve) == (runs[ONE.name][0].numbers, runs[ONE.name][0].curve)


def test_a_larger_model_reads_less_for_the_same_flops():
    small, large = (train.size_of(dataclasses.replace(ONE, width=width), 36) for width in (16, 32))
    assert large[0] > small[0] and large[1] > small[1]


@pytest.mark.parametrize("width, length, symbols", [(8, 5, 11), (48, 32, 36)])
def test_size_and_flops_are_those_of_exercise_3_11(width, length, symbols):
    one = dataclasses.replace(ONE, width=width, length=length)
    N, flops = train.size_of(one, symbols)
    assert 2 * symbols * width + one.layers * 6 * width**2 == N
    assert flops == 6 * (N - symbols * width) + 12 * one.layers * length * width
    model = train.CharacterModel(one, symbols)
    assert sum(part.numel() for part in model.parameters() if part.dim() == 2) == N


def test_the_rate_rises_and_falls_to_nothing_where_the_budget_ends():
    for steps in (40, 1001):
        shares = [train.share_of_rate(step, steps, 0.1) for step in range(steps)]
        top = round(0.1 * steps) - 1
        assert max(shares) == 1 and shares.index(1) == top and shares[: top + 1] == sorted(shares[: top + 1])
        assert shares[top + 1 :] == sorted(shares[top + 1 :], reverse=True) and 0 < shares[-1] < 0.01


def test_no_window_is_read_twice_in_an_epoch():
    one = dataclasses.replace(ONE, length=7, batch=3)
    order = train.order_of(100, one, 9, 1)
    assert order.shape == (9, 3) and int(order.max()) + one.length < 100
    in_an_epoch = (100 - 1 - int(order.min()) % 7) // 7
    first, rest = order.flatten()[:in_an_epoch].tolist(), order.flatten()[in_an_epoch:].tolist()
    assert len({*first}) == len(first) and len({*rest}) == len(rest) and {*rest} <= {*first}
    assert {start % 7 for start in first} == {first[0] % 7}
    others = [train.order_of(100, one, 9, seed) for seed in range(2, 9)]
    assert not any(torch.equal(order, other) for other in others)
    assert len({int(other[0, 0]) % 7 for other in others}) > 1


def test_no_character_sees_a_later_one():
    model = train.CharacterModel(ONE, 9).eval()
    tokens = torch.randint(9, (1, 6), generator=torch.Generator().manual_seed(0))
    other = tokens.clone()
    other[:, 3:] = (other[:, 3:] + 1) % 9
    with torch.no_grad():
        first, second = model(tokens), model(other)
    assert torch.allclose(first[:, :3], second[:, :3], atol=1e-6)
    assert not torch.allclose(first[:, 3:], second[:, 3:], atol=1e-3)


def test_rates_are_chosen_on_text_that_no_recorded_run_is_tested_on():
    text = torch.tensor([0] * 400 + [1] * 400)
    sure = torch.nn.Sequential(torch.nn.Embedding(2, 2))
    sure[0].weight.data = torch.tensor([[9.0, 0.0], [9.0, 0.0]])  # always says 0
    held_out, other = (
        train.validation_loss(sure, text, dataclasses.replace(ONE, held_out=held)) for held in (True, False)
    )
    assert held_out < 0.01 and other > 8


# What is fitted


def test_the_fit_finds_the_power_law_that_made_the_losses():
    """Best sizes that grow as the root of the FLOPs, and losses at them as their power -0.1."""
    runs = {}
    for budget in scaling.WIDTHS:
        best, loss = 500 * budget**0.5, 3 * budget**-0.1
        sizes = [round(best * factor) for factor in (0.3, 0.8, 2, 5)]
        runs[str(budget)] = [run_with(budget, size, loss + 0.1 * math.log(size / best) ** 2) for size in sizes]
    found = scaling.fit(runs)
    assert abs(found.exponent - 0.5) < 1e-3
    assert abs(found.size / (500 * scaling.NEXT**0.5) - 1) < 1e-3 and abs(found.loss - 3 * scaling.NEXT**-0.1) < 1e-4
    again = [scaling.fitted(one) for one in scaling.resampled(runs, resamples=200)]
    assert 0 < len(again) < 200  # four runs drawn of four have often fewer than three sizes
    for one in again:
        assert abs(one.size / found.size - 1) < 1e-3
    low, high = scaling.intervals(runs)["size"]
    assert low <= found.size * 1.001 and high >= found.size * 0.999
    first = next(iter(runs))
    runs[first] = [run_with(scaling.GIGA, 1, 1.0)] + [
        run_with(one.experiment["budget"], one.numbers["parameters"], 5 - one.numbers["loss"]) for one in runs[first]
    ]
    with pytest.raises(ValueError, match="downward"):
        scaling.fit(runs)


def test_with_a_floor_what_is_above_it_shrinks_by_one_factor():
    found = scaling.fitted({budget: (9.0, 2 + 0.4**step) for step, budget in enumerate(scaling.WIDTHS)})
    assert abs(found.floored - (2 + 0.4**3)) < 1e-9 and found.loss < 2 + 0.4**3
    budgets = [*scaling.WIDTHS, scaling.NEXT]
    assert {later / earlier for earlier, later in itertools.pairwise(budgets)} == {3}


def test_noise_widens_the_interval():
    def widths(noise):
        draw = np.random.default_rng(0)
        runs = {
            str(budget): [
                run_with(budget, size, 2 + 0.1 * math.log(size / 9000) ** 2 + noise * draw.normal(), seed)
                for size in (3000, 6000, 12000, 24000)
                for seed in range(5)
            ]
            for budget in scaling.WIDTHS
        }
        low, high = scaling.intervals(runs)["size"]
        return high / low

    assert 1 <= widths(0.001) < widths(0.02)


# The search and the recorded runs


def test_each_width_has_the_rate_of_the_recorded_search():
    search = script(SEARCH)
    losses = search.recorded()
    assert {*losses} == {(one.width, one.lr) for one in search.trials()}
    best = search.best(losses)
    for width, rate in best.items():
        tried = sorted(rate for one, rate in losses if one == width)
        assert tried[0] < rate < tried[-1], width
    nearest = {width: min(best, key=lambda known: abs(math.log(known / width))) for width in scaling.RATES}
    assert {width: best[known] for width, known in nearest.items()} == scaling.RATES
    assert {one.lr for one in scaling.scaling().values()} <= {*best.values()}
    assert all(one.held_out for one in search.trials()) and search.SEED not in RECORDED_SEEDS
    card = (ROOT / "data/README.md").read_text()
    for width, rate in best.items():
        cells = [
            f"{one:g}: {losses[width, one]:.3f}" for one in sorted(tried for some, tried in losses if some == width)
        ]
        shown = ", ".join(f"**{cell}**" if cell.startswith(f"{rate:g}:") else cell for cell in cells)
        assert f"| {width} | {shown} |" in card


def test_the_recorded_runs_are_whole_and_of_one_text():
    runs = scaling.recorded()
    assert {path.name for path in scaling.RECORDED.iterdir()} == {
        one.folder("").name for one in scaling.scaling().values()
    }
    for name, some in runs.items():
        assert [run.seed for run in some] == [*RECORDED_SEEDS][: len(some)] and len(some) >= 3, name
    assert len(runs[scaling.name_of(scaling.NEXT, scaling.NEXT_WIDTHS[0])]) == len(RECORDED_SEEDS)
    every = [run for some in runs.values() for run in some]
    assert len({run.versions["text"] for run in every}) == 1
    assert max(run.numbers["epochs"] for run in every) < 1
    for run in every:
        spent = run.numbers["flops"] * run.numbers["characters"] / scaling.GIGA
        assert abs(spent / run.experiment["budget"] - 1) < 0.01


def test_the_next_budget_has_the_size_that_the_fit_predicts_and_half_and_twice_as_many_numbers():
    runs = scaling.recorded()
    predicted, half, twice = (runs[scaling.name_of(scaling.NEXT, width)][0] for width in scaling.NEXT_WIDTHS)
    size = {run.experiment["width"]: run.numbers["parameters"] for run in (predicted, half, twice)}
    ratio = predicted.numbers["parameters"] / scaling.fit(runs).size
    assert abs(math.log(ratio)) < 0.06, "another width is nearer"
    assert abs(size[scaling.NEXT_WIDTHS[1]] / predicted.numbers["parameters"] - 0.5) < 0.06
    assert abs(size[scaling.NEXT_WIDTHS[2]] / predicted.numbers["parameters"] - 2) < 0.2


def test_picture_and_table_show_every_budget():
    runs = scaling.recorded()
    found = scaling.picture(runs, "alt")
    assert isinstance(found, plots.Picture) and found.alt == "alt"
    (ax,) = found.axes
    labels = ax.get_legend_handles_labels()[1]
    assert labels == [f"{budget} GFLOP" for budget in (*scaling.WIDTHS, scaling.NEXT)] + [
        f"{scaling.NEXT}, predicted: {how}" for how in ("straight line", "with a floor")
    ]
    drawn = {line.get_label(): len(line.get_xdata()) for line in ax.lines}
    for budget in (*scaling.WIDTHS, scaling.NEXT):
        assert drawn[f"{budget} GFLOP"] == len(scaling.points(runs, budget)[0])
    assert ax.get_xscale() == "log" and ax.get_xlabel() and ax.get_ylabel()
    table = scaling.table(runs)
    assert len(table) == 6 + len(scaling.NEXT_WIDTHS) and not table.isna().any().any()
    page = (ROOT / "docs/results.md").read_text()
    for name, cells in table.iterrows():
        assert f"| {name} | {' | '.join(cells)} |" in page, name


def test_students_make_no_runs_of_it():
    assert scaling.experiments("03_parameter_counting", "cpu") == {}
    assert all(one.made_up for one in SMOKE.values()) and not any(one.made_up for one in scaling.scaling().values())
    assert isinstance(ONE, Scaling)
