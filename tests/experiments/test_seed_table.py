"""The seed table's figures against ones worked out by hand or by other means."""

import dataclasses
import itertools
import math
import random
import re
import time

import numpy as np
import pytest
from scipy import stats

from utils.experiments import seed_table
from utils.experiments.experiment import Metric, Run
from utils.experiments.seed_table import SeedTable, compare, crossed_means, expected_best, holm, listed, t_interval

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


@pytest.mark.parametrize("count", [2, 3, 5, 40])
def test_interval_and_p_are_those_of_scipys_t_test(count):
    """The table takes Student's t from scipy.special: scipy.stats takes a second to import."""
    values = np.random.default_rng(count).normal(0.4, 1, count)
    known = stats.ttest_1samp(values, 0)
    assert t_interval(values) == pytest.approx(tuple(known.confidence_interval(0.95)), rel=1e-10)
    assert seed_table.p_over_seeds(values) == pytest.approx(known.pvalue, rel=1e-10)


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


def runs_of(right: np.ndarray, name: str) -> list[Run]:
    """Runs with those answers right, (seeds, examples), on examples of two classes in turn."""
    labels = [place % 2 for place in range(right.shape[1])]
    found = []
    for seed, row in enumerate(right.tolist()):
        guesses = [label if hit else 1 - label for hit, label in zip(row, labels, strict=True)]
        found.append(Run({"name": name}, seed, labels, guesses, [], []))
    return found


def alike(draw: np.random.Generator, luck: float, seeds: int = 5, examples: int = 80) -> tuple[list[Run], list[Run]]:
    """Two experiments of one quality: a seed moves the logits of one by `luck`, an example those of both alike."""
    hardness = draw.normal(size=examples)
    both = []
    for name in ("a", "b"):
        logits = 0.5 + hardness + draw.normal(scale=luck, size=(seeds, 1)) + draw.normal(size=(seeds, examples))
        both.append(runs_of(draw.random((seeds, examples)) < 1 / (1 + np.exp(-logits)), name))
    return both[0], both[1]


@pytest.mark.parametrize("luck", [0.1, 1.2])
def test_equal_experiments_are_rarely_said_to_differ(luck):
    """Whichever kind of chance is larger. Where seeds differ much, examples alone, or the bootstrap alone, would."""
    draw = np.random.default_rng(70)
    found = [compare(*alike(draw, luck)) for _ in range(100)]
    wrong = {
        "shown": sum(one.shown for one in found),
        "examples": sum(one.by_example[0] > 0 or one.by_example[1] < 0 for one in found),
        "bootstrap": sum(one.crossed[0] > 0 or one.crossed[1] < 0 for one in found),
    }
    assert wrong["shown"] <= 0.08 * len(found), wrong
    assert luck < 0.5 or min(wrong["examples"], wrong["bootstrap"]) > 0.12 * len(found), wrong
    assert all(one.shown <= (one.crossed[0] > 0 or one.crossed[1] < 0) for one in found)


def test_a_difference_that_is_there_is_shown():
    draw = np.random.default_rng(8)
    first, second = draw.random((5, 277)) < 0.55, draw.random((5, 277)) < 0.75
    found = compare(runs_of(first, "first"), runs_of(second, "second"))
    assert found.shown and found.crossed[0] > 0 and found.ahead == 1.0
    assert found.crossed[0] <= min(found.by_example[0], found.by_seed[0] + 3)
    assert "a difference is shown: 95% from +" in str(found) and "Ahead in 100%" in str(found)


def test_the_crossed_interval_draws_seeds_and_examples_again():
    """Against the definition, one resample at a time."""
    draw = np.random.default_rng(2)
    gains = draw.normal(size=(4, 9)) + draw.normal(size=(4, 1)) + draw.normal(size=9)
    slow = []
    for _ in range(6000):
        seeds, examples = draw.integers(4, size=4), draw.integers(9, size=9)
        slow.append(np.mean([[gains[seed, example] for example in examples] for seed in seeds]))
    mean = Metric("mean", "x", lambda run: None, lambda sums: sums[..., 0] / 9)
    crossed = [crossed_means(0 * some[..., None], some[..., None], mean) for some in (gains, gains[::-1], gains)]
    fast = crossed[0]
    for share in (0.025, 0.25, 0.5, 0.75, 0.975):
        assert np.quantile(fast, share) == pytest.approx(np.quantile(slow, share), abs=0.08 * np.std(slow))
    assert np.array_equal(fast, crossed[1]) and np.array_equal(fast, crossed[2])


def test_a_comparison_takes_no_time():
    draw = np.random.default_rng(3)
    first, second = (runs_of(draw.random((5, 277)) < 0.6, name) for name in "ab")
    compare(first, second)
    began = time.process_time()
    for _ in range(5):
        compare(first, second)
    assert (time.process_time() - began) / 5 < 0.2


def test_holms_correction_is_that_of_the_closed_test():
    """Closed testing: a comparison counts if in every set that it belongs to Bonferroni finds something."""
    example = compare([run(1, 5), run(2, 6)], [run(1, 7), run(2, 9)])
    draw = random.Random(5)
    for size in (1, 2, 3, 4):
        values = [draw.random() ** 3 for _ in range(size)]
        corrected = [one.p for one in holm([dataclasses.replace(example, p=value) for value in values])]
        for place, value in enumerate(corrected):
            sets = [
                chosen
                for length in range(1, size + 1)
                for chosen in itertools.combinations(range(size), length)
                if place in chosen
            ]
            worst = max(min(1, len(chosen) * min(values[one] for one in chosen)) for chosen in sets)
            assert value == pytest.approx(worst)
    assert holm([]) == []


def test_one_rule_for_tables_and_comparisons():
    """A table over seeds that agree says "not shown" where the examples are too few, as `compare` does."""
    labels = [0] * 6 + [1] * 4
    right = [[1, 1, 1, 0, 1, 1, 1, 1, 0, 0]] * 5  # 7 of 10, five times: no spread over seeds at all
    runs = []
    for seed, row in enumerate(right):
        guesses = [label if hit else 1 - label for hit, label in zip(row, labels, strict=True)]
        runs.append(Run({"name": "steady"}, seed, labels, guesses, [], []))
    constant = [Run({"name": "constant"}, seed, labels, [0] * 10, [], []) for seed in range(5)]
    table = SeedTable({"steady": runs})
    low = table.frame().loc["steady", "95% from, %"]
    assert low > 60  # by seeds alone it beats the majority
    assert any(
        "steady: not shown to be better than the majority class (60.0%): +10.0 points" in one for one in table.remarks()
    )
    assert not compare(constant, runs).shown


def test_several_comparisons_pay_for_each_other():
    draw = np.random.default_rng(12)
    table = SeedTable({name: runs_of(draw.random((5, 60)) < 0.5 + 0.08 * k, name) for k, name in enumerate("abcd")})
    found = table.comparisons()
    assert [(one.first, one.second) for one in found] == list(itertools.combinations("abcd", 2))
    alone = [compare(table.runs[one.first], table.runs[one.second]) for one in found]
    assert all(one.among == 6 and one.p >= single.p for one, single in zip(found, alone, strict=True))
    assert min(one.p for one in found) == pytest.approx(6 * min(one.p for one in alone))
    assert all("Holm's correction for 6 comparisons" in str(one) for one in found)
    assert all("Holm" not in str(one) for one in alone)
    few = SeedTable({"a": table.runs["a"], "b": table.runs["b"][:1]})
    assert few.comparisons() == []  # an experiment that was interrupted after its first seed


def test_a_table_of_comparisons_says_what_each_says():
    draw = np.random.default_rng(12)
    table = SeedTable({name: runs_of(draw.random((5, 60)) < 0.5 + 0.08 * k, name) for k, name in enumerate("abcd")})
    found = [*table.comparisons(), compare([run(1, 5), run(2, 5)], [run(1, 9), run(2, 9)])]
    alone = dataclasses.replace(found[-1], examples=0, crossed=(math.nan,) * 2, by_example=(math.nan,) * 2)
    rows = listed([*found, alone]).reset_index().to_dict("records")
    assert len(rows) == 8 and {one["shown"] for one in rows} == {"yes", "no"} and rows[0]["Holm's correction for"] == 6
    for one, row in zip([*found, alone], rows, strict=True):
        said = str(one)
        assert said.startswith(f"{row['experiment']} against {row['against']}: {row['difference']}, ")
        assert ("no difference is shown" in said) is (row["shown"] == "no") and f", {row['p']}" in said
        intervals = re.findall(r"(\S+ to [^ ;.]+\.\d+)", said)  # of seeds and examples, of seeds, of examples
        in_the_row = [row[f"95% over {over}"] for over in ("seeds and examples", "seeds alone", "examples alone")]
        assert in_the_row == (["-", *intervals, "-"] if one is alone else intervals), said
    assert [row["95% over examples alone"] == "-" for row in rows] == [one is alone for one in [*found, alone]]
    assert len(listed([])) == 0


def test_a_comparison_across_devices_says_so():
    """Only then, and whatever the number of threads."""

    def on(device, name, right):
        return [dataclasses.replace(run(seed, right + seed, name), device=device) for seed in (1, 2)]

    gpu, core = on("NVIDIA H200", "gpu", 5), on("cpu, 1 threads", "core", 4)
    across = compare(core, gpu)
    assert across.difference == pytest.approx(10)
    assert str(across).endswith("They ran on different devices: gpu on NVIDIA H200, core on cpu.")
    same = compare(core, on("cpu, 2 threads", "more threads", 5))
    assert same.difference == pytest.approx(10) and "device" not in str(same)
    assert [*listed([across, same])["different devices"]] == ["NVIDIA H200 against cpu", ""]
    assert "different devices" not in listed([same])
    assert SeedTable({"core": core, "gpu": gpu}).comparisons()[0].devices == across.devices == ("cpu", "NVIDIA H200")


def test_ahead_counts_pairs_of_runs_and_half_of_ties():
    found = compare([run(1, 5), run(2, 6)], [run(1, 6), run(2, 5)])
    assert found.ahead == 0.5 and found.difference == 0 and found.p == 1
    assert compare([run(1, 5), run(2, 6)], [run(1, 6), run(2, 7)]).ahead == pytest.approx(3.5 / 4)


def test_the_expected_best_of_few_runs_is_too_low():
    """Tang et al. 2020: the reason for the caption's words."""
    draw = np.random.default_rng(1)
    truth = draw.normal(size=(20_000, 5)).max(axis=1).mean()
    found = np.mean([expected_best(draw.normal(size=5), 5) for _ in range(2000)])
    assert found < truth - 0.2
    assert "too low" in SeedTable({"a": [run(1, 5), run(2, 6)]})._repr_html_()


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
