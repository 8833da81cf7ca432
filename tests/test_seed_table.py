"""The seed table's figures against ones worked out by hand or by other means."""

import itertools
import math
import random

import numpy as np
import pytest
from scipy import stats

from utils.experiment import Run
from utils.seed_table import SeedTable, compare, expected_best, t_interval

LABELS = [0, 1, 1, 0, 1, 0, 1, 1, 0, 1]


def run(seed: int, right: int, name: str = "some") -> Run:
    predictions = [label if place < right else 1 - label for place, label in enumerate(LABELS)]
    logits = [[1.0 - guess, float(guess)] for guess in predictions]
    return Run({"name": name}, seed, LABELS, predictions, logits, [])


def stuck(seed: int) -> Run:
    return Run({"name": "stuck"}, seed, LABELS, [1] * 10, [[0.0, 1.0]] * 10, [])


def test_figures_are_percent_and_points():
    row = SeedTable({"a": [run(1, 5), run(2, 7), run(3, 9)]}).frame().loc["a"]
    assert row["runs"] == 3 and row["mean, %"] == pytest.approx(70) and row["sd, points"] == pytest.approx(20)
    half = 4.302652729911275 * 20 / math.sqrt(3)  # t of 2 degrees of freedom, 97.5%
    assert (row["95% from, %"], row["95% to, %"]) == pytest.approx((70 - half, 70 + half))
    assert (row["min, %"], row["max, %"], row["majority class, %"]) == pytest.approx((50, 90, 60))


def test_one_run_has_no_spread():
    row = SeedTable({"a": [run(1, 5)]}).frame().loc["a"]
    assert math.isnan(row["sd, points"]) and math.isnan(row["95% from, %"])
    assert t_interval([3.0, 3.0]) == (3.0, 3.0)


def test_degenerate_runs_are_counted_and_said():
    table = SeedTable({"stuck": [stuck(1), stuck(2), run(3, 9)]})
    assert table.frame().loc["stuck", "degenerate runs"] == 2
    assert any("2 of 3 runs predict one class" in remark for remark in table.remarks())
    assert any("not shown to be better than the majority class (60.0%)" in remark for remark in table.remarks())


def test_expected_best_is_the_mean_over_all_draws():
    values = [3.0, 1.0, 4.0, 1.5]
    for count in (1, 2, 3):
        draws = [max(draw) for draw in itertools.product(values, repeat=count)]
        assert expected_best(values, count) == pytest.approx(np.mean(draws))
    with pytest.raises(ValueError, match="at least one"):
        expected_best([], 1)


def test_comparison_is_paired_by_seed_and_by_example():
    first = [run(1, 5), run(2, 6), run(3, 7)]
    second = [run(3, 8, "other"), run(1, 7, "other"), run(2, 7, "other")]
    found = compare(first, second)
    assert found.difference == pytest.approx(40 / 3) and found.seeds == 3 and found.examples == 10
    by_seed = stats.ttest_rel([70, 70, 80], [50, 60, 70]).confidence_interval(0.95)
    assert found.by_seed == pytest.approx(tuple(by_seed))
    assert found.effect == pytest.approx(np.mean([20, 10, 10]) / np.std([20, 10, 10], ddof=1))
    assert not found.shown and "no difference is shown" in str(found)
    with pytest.raises(ValueError, match="common"):
        compare(first, [run(9, 5)])
    other = [Run({}, seed, LABELS[::-1], LABELS, [[0.0, 1.0]] * 10, []) for seed in (1, 2)]
    with pytest.raises(ValueError, match="different examples"):
        compare(first, other)


def test_any_integers_may_be_seeds():
    """A student's seeds follow from a name: neither small nor in order. What is paired is paired by seed."""
    first, second = [703_015, 1_002, 999_999], [999_999, 703_015, 1_002]
    scores = {703_015: (5, 7), 1_002: (6, 7), 999_999: (7, 8)}
    some = [run(seed, scores[seed][0]) for seed in first]
    other = [run(seed, scores[seed][1], "other") for seed in second]
    small = compare(
        [run(n, scores[s][0]) for n, s in enumerate(first)],
        [run(n, scores[s][1], "other") for n, s in enumerate(first)],
    )
    assert compare(some, other) == small and small.seeds == 3
    assert SeedTable({"a": some, "b": other}).frame().loc["a", "runs"] == 3


def test_intervals_cover_what_they_promise():
    draw = random.Random(1)
    inside = 0
    for _ in range(400):
        low, high = t_interval([draw.gauss(10, 2) for _ in range(5)])
        inside += low <= 10 <= high
    assert 0.92 < inside / 400 < 0.98


def test_it_renders_everywhere():
    table = SeedTable({"random": [stuck(1), stuck(2)], "50% better": [run(1, 8), run(2, 9)]})
    assert "<table" in table._repr_html_() and "85.00" in table._repr_html_()
    assert "| 50% better   | 2      |" in table.markdown() or "| 50% better   |      2 |" in table.markdown()
    assert r"\toprule" in table.latex() and r"mean, \%" in table.latex() and r"50\% better" in table.latex()
    assert table.csv().splitlines()[0].startswith('experiment,runs,"mean, %"')
    picture = table.plot()
    assert picture.png().startswith(b"\x89PNG") and "50% better 85.0" in picture.alt


def test_two_runs_with_one_seed_are_refused():
    with pytest.raises(ValueError, match="two runs with one seed"):
        SeedTable({"a": [run(1, 5), run(1, 6)]})
    with pytest.raises(ValueError, match="no runs"):
        SeedTable({"a": []})
