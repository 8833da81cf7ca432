"""Searching settings: every combination once, axes that grow at their ends, and the best of the means."""

from concurrent.futures import ThreadPoolExecutor

from autograder.author import rate_search

SEEDS = (101, 102)


def searched(tmp_path, axes, score):
    """The chosen settings, and every trial that was made, in order."""
    made = []

    def trial(arm, settings, seed):
        made.append((arm, *settings.values(), seed))
        return {"score": score(arm, settings, seed)}

    with ThreadPoolExecutor(1) as executor:
        chosen = rate_search.search(axes, SEEDS, trial, tmp_path / "search.json", executor, lambda told: None)
    return chosen, made


def near(best):
    return lambda arm, settings, seed: -((settings["lr"] / best - 1) ** 2) + 0.01 * (seed == 101)


def test_the_best_inside_the_range_is_taken_and_nothing_is_tried_twice(tmp_path):
    axes = {"plain": {"lr": (1e-3, 1e-2, 1e-1)}}
    chosen, made = searched(tmp_path, axes, near(1e-2))
    assert chosen == {"plain": {"lr": 1e-2}} and len(made) == len({*made}) == 6
    again, more = searched(tmp_path, axes, near(1e-2))
    assert again == chosen and more == []


def test_a_range_grows_where_the_best_is_at_its_end(tmp_path):
    chosen, made = searched(tmp_path, {"plain": {"lr": (1e-3, 1e-2)}}, near(1e-1))
    assert chosen == {"plain": {"lr": 1e-1}}
    assert sorted({rate for _, rate, _ in made}) == [1e-3, 1e-2, 1e-1, 1.0]
    low, _ = searched(tmp_path / "low", {"plain": {"lr": (1e-3, 3e-3)}}, near(3e-4))
    assert low == {"plain": {"lr": 3.3e-4}}


def test_each_axis_grows_by_itself_and_one_value_is_no_range(tmp_path):
    axes = {"pulled": {"lr": (1e-3, 1e-2, 1e-1), "strength": (1.0, 10.0), "first": (5.0,)}}

    def score(arm, settings, seed):
        return -abs(settings["lr"] - 1e-2) - abs(settings["strength"] - 100)

    chosen, made = searched(tmp_path, axes, score)
    assert chosen == {"pulled": {"lr": 1e-2, "strength": 100.0, "first": 5.0}}
    assert {(strength, first) for _, _, strength, first, _ in made} == {(s, 5.0) for s in (1.0, 10.0, 100.0, 1000.0)}


def test_means_are_of_settings_with_every_seed(tmp_path):
    rows = [{"arm": "a", "settings": {"lr": rate}, "seed": seed, "score": score}
            for rate, seed, score in ((1, 101, 2.0), (1, 102, 4.0), (2, 101, 9.0))]  # fmt: skip
    assert rate_search.means(rows, "a") == {(1,): 3.0} and rate_search.best(rows, "a") == (1,)
    rate_search.save(tmp_path / "kept.json", rows)
    assert [*rate_search.load(tmp_path / "kept.json").values()] == rows


def test_a_search_that_was_widened_and_stopped_goes_on_where_it_was(tmp_path):
    axes = {"plain": {"lr": (1e-3, 1e-2)}}
    chosen, made = searched(tmp_path, axes, near(1.0))
    again, more = searched(tmp_path, axes, near(1.0))
    assert chosen == again == {"plain": {"lr": 1.0}} and more == []
    rows = [row for row in rate_search.load(tmp_path / "search.json").values() if row["settings"]["lr"] < 10]
    rate_search.save(tmp_path / "search.json", rows)
    assert searched(tmp_path, axes, near(1.0))[1] == [one for one in made if one[1] == 10]


def test_a_table_shows_every_setting_and_the_chosen_one(tmp_path):
    searched(tmp_path, {"plain": {"lr": (1e-3, 1e-2, 1e-1)}}, lambda arm, settings, seed: 50 + 1000 * settings["lr"])
    (line,) = rate_search.table(tmp_path / "search.json", {"plain": (1e-2,)})
    assert line.startswith("| plain | lr | 0.001: 51.0; **0.01: 60.0**; 0.1: 150.0;") and line.endswith(" |")
