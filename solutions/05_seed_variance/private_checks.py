"""Cases of notebook 05 that students never see: other sizes, other seeds, edges."""

import itertools
import math
import random
import statistics

import torch
from torch import nn

from autograder.private import private
from utils import expect, toys
from utils.checks import nb05_seed_variance as seen
from utils.expect import normal

# 5.1


@private("5.1", tells="pairs of other lengths are not encoded as the tokenizer does it")
def other_lengths(encode_pair):
    made, draw = seen.tokenizer(), random.Random(510)
    for _ in range(25):
        a, b = ([draw.randrange(50) for _ in range(draw.randrange(12))] for _ in range(2))
        for max_len in (3, draw.randrange(4, 12), draw.randrange(12, 30)):
            assert list(seen.two_lists(encode_pair(a, b, 50, 51, max_len))) == seen.tokenized(made, a, b, max_len), (
                "wrong"
            )


@private("5.1", tells="the ids of the special tokens that were given are not used")
def other_special_tokens(encode_pair):
    for cls_id, sep_id in ((2, 3), (97, 0)):
        made = seen.tokenizer(cls_id, sep_id)
        for max_len in (20, 6):
            found = list(seen.two_lists(encode_pair([5, 6, 7], [8, 9], cls_id, sep_id, max_len)))
            assert found == seen.tokenized(made, [5, 6, 7], [8, 9], max_len), "wrong"


@private("5.1", tells="the types are wrong if a token of the text has the number of a special token")
def special_numbers_in_the_text(encode_pair):
    ids, types = seen.two_lists(encode_pair([4, 51, 6], [51, 8], 50, 51, 20))
    assert ids == [50, 4, 51, 6, 51, 51, 8, 51] and types == [0] * 5 + [1] * 3, "wrong"


@private("5.1", tells="both lists should stay as they are, and a max_len below 3 should raise ValueError")
def lists_stay(encode_pair, lib):
    for a, b in (([1, 2, 3], [4, 5, 6, 7, 8]), ([1, 2, 3, 4, 5], [6]), ([1, 2], [3, 4])):
        assert lib("utils.toys").left_behind(encode_pair, a, b, 50, 51, 5) == a, "changed"
        first = lib("functools").partial(encode_pair, a)
        assert lib("utils.toys").left_behind(first, b, 50, 51, 4) == b, "changed"
    for max_len in (2, 0, -1):
        seen.refuses(lambda max_len=max_len: encode_pair([], [], 50, 51, max_len), "no error")


# 5.2


@private("5.2", tells="large seeds, or seeds far apart, share a stream")
def far_apart(streams, lib):
    found = {}
    for seed in (
        0,
        1,
        5,
        42,
        99,
        100,
        101,
        142,
        200,
        201,
        999,
        1000,
        1001,
        2000,
        9999,
        10_000,
        20_000,
        99_999,
        999_999,
    ):
        for part, numbers in seen.drawn(streams, lib, seed).items():
            assert tuple(numbers) not in found, f"{part} of {seed} and {found.get(tuple(numbers))}"
            found[tuple(numbers)] = f"{part} of {seed}"


@private("5.2", tells="each call should give new generators that begin from the start")
def begins_anew(streams, lib):
    for seed, varies in ((77, ["order"]), (123, ["head", "dropout"]), (60, [])):
        first = seen.drawn(streams, lib, seed, varies)
        assert seen.drawn(streams, lib, seed, varies) == first, "goes on"
        assert seen.drawn(streams, lib, seed, varies[::-1]) == first, "depends on the order of the names"


@private("5.2", tells="two parts that vary together, or the one that is held, are not as they should be")
def two_vary(streams, lib):
    for held in seen.PARTS:
        varies = [part for part in seen.PARTS if part != held]
        one, two = seen.drawn(streams, lib, 31, varies), seen.drawn(streams, lib, 32, varies)
        assert one[held] == two[held] == seen.drawn(streams, lib, 8, [])[held], "the held part moves"
        assert all(one[part] != two[part] for part in varies), "a varying part is held"
        assert all(one[part] == seen.drawn(streams, lib, 31)[part] for part in varies), "depends on what else varies"
    for wrong in (["head", "weights"], ["Order"]):
        seen.refuses(lambda wrong=wrong: streams(3, wrong), "no error")


# 5.3


@private("5.3", tells="the rate is wrong for other warm-ups, lengths or peaks")
def other_schedules(schedule, make_optimizer):
    for warmup, total, peak in ((0, 1, 1e-3), (3, 4, 2.0), (1, 50, 7e-6), (25, 30, 1.0)):
        for step in range(total + 4):
            found = expect.number(schedule(step, warmup, total, peak), "the rate")
            expect.close(found / peak, seen.on_the_line(step, warmup, total, peak) / peak, "wrong", 1e-6)
    for warmup, total in ((3, 3), (0, 0), (-2, 5), (7, 2)):
        seen.refuses(lambda warmup=warmup, total=total: schedule(0, warmup, total, 1.0), "no error")


@private("5.3", tells="a model with embeddings, or with parts inside parts, is not trained as it should be")
def deeper_models(schedule, make_optimizer, lib):
    def build(module):
        inner = module.Sequential(module.Linear(4, 5), module.Sequential(module.LayerNorm(5), module.Linear(5, 3)))
        return module.Sequential(module.Embedding(9, 4), module.LayerNorm(4), inner)

    mine, theirs = build(nn), build(lib("torch").nn)
    state = {
        name: 1 + normal(*part.shape, seed=530 + place) for place, (name, part) in enumerate(mine.state_dict().items())
    }
    spared = {"1.weight", "2.1.0.weight"}
    mine.load_state_dict(state)
    theirs.load_state_dict(state)
    rule = make_optimizer(theirs, 0.07)
    own = seen.grouped(mine, 0.07, lambda name: name.endswith("weight") and name not in spared)
    for place in range(3):
        x, labels = (torch.arange(8) * (place + 1)) % 9, (torch.arange(8) + place) % 3
        toys.step(mine, own, x, labels)
        lib("utils.toys").step(theirs, rule, x, labels)
    found = theirs.state_dict()
    for name, wanted in mine.state_dict().items():
        expect.close(found[name].float(), wanted, f"{name} is wrong", 2e-4)


# 5.4


@private("5.4", tells="the shares are wrong for other lengths, or other numbers of classes")
def other_votes(accuracy, majority):
    for seed, (count, classes) in enumerate(((1, 2), (13, 2), (40, 7), (277, 2), (64, 12)), start=540):
        predictions, labels = seen.votes(seed, count, classes), seen.votes(seed + 50, count, classes)
        hits = [place for place in range(count) if predictions[place] == labels[place]]
        expect.close(seen.share(accuracy(predictions, labels), "accuracy"), len(hits) / count, "wrong", 1e-6)
        most = max(sum(label == one for label in labels) for one in range(classes))
        expect.close(seen.share(majority(labels), "majority"), most / count, "wrong", 1e-6)
    expect.close(seen.share(majority([4, 7, 7, 9, 7, 4]), "majority"), 0.5, "wrong", 1e-6)


@private("5.4", tells="lists of different lengths, an empty one among them, should raise ValueError")
def lengths_differ(accuracy, majority):
    for predictions, labels in (([], [1]), ([1], []), ([1, 0], [1]), ([1] * 276, [1] * 277)):
        seen.refuses(lambda p=predictions, y=labels: accuracy(p, y), "no error")


# 5.5


@private("5.5", tells="mean or standard deviation is wrong for other accuracies, 0 and 1 included")
def other_accuracies(mean_and_sd, in_points):
    draw = random.Random(550)
    for count in (2, 3, 7, 20):
        values = [draw.uniform(0.4, 0.9) for _ in range(count)]
        mean, sd = seen.two_numbers(mean_and_sd(values), "mean_and_sd")
        expect.close(mean, statistics.mean(values), "wrong", 1e-6)
        expect.close(sd, statistics.stdev(values), "wrong", 1e-6)
    for values in ([0.0, 1.0], [1.0, 1.0, 1.0], [0.0, 0.0]):
        found = seen.two_numbers(mean_and_sd(values), "mean_and_sd")
        expect.close(torch.tensor(found), torch.tensor([statistics.mean(values), statistics.stdev(values)]), "wrong")


@private("5.5", tells="any value outside 0 to 1, wherever it stands, should raise ValueError; so should no values")
def not_fractions(mean_and_sd, in_points):
    for values in ([0.6, 61.0, 0.62], [0.6, -0.1], [0.6, 1.5], [], [1.0]):
        seen.refuses(lambda values=values: mean_and_sd(values), "no error")


@private("5.5", tells="other numbers are not written as the docstring shows, rounded to one digit")
def other_texts(mean_and_sd, in_points):
    for mean, sd, wanted in (
        (0.6715, 0.0029, "67.2 ± 0.3 points"),
        (1.0, 0.0, "100.0 ± 0.0 points"),
        (0.0512, 0.1239, "5.1 ± 12.4 points"),
        (0.66666, 0.00996, "66.7 ± 1.0 points"),
    ):
        found = in_points(mean, sd)
        assert found == wanted or (mean == 0.6715 and found == "67.1 ± 0.3 points"), "another text"


# 5.6


@private("5.6", tells="the t interval is wrong for other values or levels")
def other_t_intervals(t_interval, bootstrap_interval, binomial_error):
    draw = random.Random(560)
    for count, level in ((2, 0.5), (4, 0.95), (9, 0.8), (31, 0.999)):
        values = [draw.uniform(0.4, 0.9) for _ in range(count)]
        found = seen.two_numbers(t_interval(values, level), "t_interval")
        expect.close(torch.tensor(found), torch.tensor(seen.paired(values, level)[1:]), "wrong", 1e-5)
    seen.refuses(lambda: t_interval([]), "no error")


@private("5.6", tells="the bootstrap interval is wrong for other values, levels or numbers of resamples")
def other_bootstraps(t_interval, bootstrap_interval, binomial_error):
    means = sorted(sum(ways) / 4 for ways in itertools.product([0.1, 0.2, 0.4, 0.8], repeat=4))
    for level, low, high in ((0.95, 5, 250), (0.5, 63, 192)):
        found = seen.two_numbers(bootstrap_interval([0.4, 0.1, 0.8, 0.2], level, 20_000, 3), "bootstrap_interval")
        for end, place in zip(found, (low, high), strict=True):
            assert means[max(place - 6, 0)] - 1e-6 <= end <= means[min(place + 6, 255)] + 1e-6, "wrong"
    one = seen.two_numbers(bootstrap_interval([0.1, 0.3, 0.7], 0.95, 1, 5), "bootstrap_interval")
    assert one[0] == one[1], "more than one resample"
    two = seen.two_numbers(bootstrap_interval([0.6, 0.4]), "bootstrap_interval")
    expect.close(torch.tensor(two), torch.tensor([0.4, 0.6]), "wrong for two values", 1e-6)
    seen.refuses(lambda: bootstrap_interval([]), "no error")


@private("5.6", tells="without being told otherwise, the bootstrap takes ten thousand resamples and a level of 0.95")
def bootstrap_defaults(t_interval, bootstrap_interval, binomial_error):
    values = [0.5 + 0.008 * (place * 7 % 25) for place in range(25)]
    error = statistics.pstdev(values) / 25**0.5
    by_default = seen.two_numbers(bootstrap_interval(values), "bootstrap_interval")
    assert seen.two_numbers(bootstrap_interval(values, 0.95, 10_000, 0), "bootstrap_interval") == by_default, "defaults"
    lows = [seen.two_numbers(bootstrap_interval(values, seed=seed), "bootstrap_interval")[0] for seed in range(8)]
    assert statistics.stdev(lows) < 0.06 * error, "too few resamples"
    assert abs(statistics.mean(lows) - (statistics.mean(values) - 1.96 * error)) < 0.08 * error, "another level"


@private("5.6", tells="the binomial error is wrong at other accuracies")
def other_errors(t_interval, bootstrap_interval, binomial_error):
    for p, n in ((0.0, 10), (1.0, 10), (0.5, 4), (0.01, 1), (0.93, 9815)):
        found = expect.number(binomial_error(p, n), "binomial_error")
        expect.close(found, math.sqrt(p * (1 - p) / n), "wrong", 1e-6)


# 5.7


@private("5.7", tells="the comparison by seed is wrong for other seeds or levels")
def other_seeds(by_seed, by_example):
    draw = random.Random(570)
    for count, level in ((2, 0.95), (5, 0.9), (20, 0.99)):
        seeds = draw.sample(range(100), count)
        a = {seed: draw.uniform(0.5, 0.7) for seed in seeds}
        b = {seed: draw.uniform(0.5, 0.7) for seed in draw.sample(seeds, count)}
        found = seen.three_numbers(by_seed(a, b, level), "by_seed")
        expect.close(torch.tensor(found), torch.tensor(seen.by_seed_wanted(a, b, level)), "wrong", 1e-5)
    for a, b in (({1: 0.5, 2: 0.6}, {1: 0.5, 3: 0.6}), ({1: 0.5, 2: 0.6, 3: 0.6}, {2: 0.6, 3: 0.6})):
        seen.refuses(lambda a=a, b=b: by_seed(a, b), "no error")


@private("5.7", tells="the comparison by example is wrong for other numbers of runs or examples, or other levels")
def other_examples(by_seed, by_example):
    for seed, (runs, others, count, level) in enumerate(((1, 1, 20, 0.95), (4, 2, 31, 0.9), (2, 6, 50, 0.8)), 571):
        a, b = seen.hits(seed, runs, count), seen.hits(seed + 30, others, count, 0.2)
        found = seen.three_numbers(by_example(a, b, level), "by_example")
        expect.close(torch.tensor(found), torch.tensor(seen.by_example_wanted(a, b, level)), "wrong", 1e-5)
    for left, right in ((1, 2), (30, 1)):
        seen.refuses(
            lambda left=left, right=right: by_example(seen.hits(1, 3, left), seen.hits(2, 3, right)), "no error"
        )


# 5.8


@private("5.8", tells="the report is wrong for other runs: any seeds, any number of classes")
def other_runs(health):
    gold = [2, 0, 1, 2, 2, 0, 3]
    votes = {
        40: [2] * 7,
        0: [3] * 7,
        17: [2, 0, 1, 2, 2, 0, 3],
        9: [2, 2, 2, 2, 2, 2, 3],
        33: [5] * 7,
        12: [0, 1] * 3 + [0],
    }
    report = seen.health_of(health(votes, gold))
    shares = {seed: sum(map(int.__eq__, found, gold)) / 7 for seed, found in votes.items()}
    assert report["runs"] == 6 and report["degenerate"] == [0, 33, 40], "wrong"
    expect.close(report["mean"], statistics.mean(shares.values()), "wrong", 1e-6)
    expect.close(report["mean_of_others"], statistics.mean(shares[seed] for seed in (17, 9, 12)), "wrong", 1e-6)


@private("5.8", tells="a report on one run, or on runs that are all alike, is wrong")
def few_runs(health):
    report = seen.health_of(health({6: [1, 1, 1]}, [0, 1, 1]))
    assert report["runs"] == 1 and report["degenerate"] == [6] and report["mean_of_others"] is None, "wrong"
    expect.close(report["mean"], 2 / 3, "wrong", 1e-6)
    same = {seed: [0, 1, 0, 1] for seed in (5, 2, 8)}
    report = seen.health_of(health(same, [1, 0, 1, 0]))
    assert report["runs"] == 3 and report["degenerate"] == [], "wrong"
    expect.close(report["mean_of_others"], 0, "a mean of 0 is a mean", 1e-6)


# 5.9


@private("5.9", tells="the number of seeds is wrong for other differences, spreads, levels or powers")
def other_numbers_of_seeds(seeds_needed):
    for difference, sd, level, power in (
        (0.005, 0.012, 0.95, 0.8),
        (0.002, 0.012, 0.95, 0.8),
        (0.03, 0.01, 0.95, 0.95),
        (0.02, 0.021, 0.99, 0.9),
        (1.0, 2.0, 0.8, 0.6),
        (0.1, 0.001, 0.95, 0.8),
        (2.0, 1.1, 0.95, 0.5),
        (1.0, 1.1, 0.9, 0.95),
        (1.0, 0.3, 0.9, 0.95),
    ):
        found = expect.number(seeds_needed(difference, sd, level, power), "seeds_needed")
        assert found == seen.seeds_wanted(difference, sd, level, power), "wrong"
    assert seeds_needed(0.01, 0.0) == 2, "no spread"


# 5.10


@private("5.10", tells="the expected best is wrong for other accuracies or other n")
def other_bests(expected_best):
    draw = random.Random(5100)
    for count, n in ((1, 1), (1, 7), (2, 9), (6, 3), (5, 4), (7, 1)):
        values = [draw.choice([0.3, 0.45, 0.6, 0.75]) + 0.01 * draw.randrange(3) for _ in range(count)]
        found = expect.number(expected_best(values, n), "expected_best")
        expect.close(found, seen.best_wanted(values, n), "wrong", 1e-6)
    found = expect.number(expected_best([0.5, 0.9, 0.7], 500), "expected_best")
    expect.close(found, 0.9, "with very many runs, it is the best", 1e-6)
    for values, n in (([], 1), ([0.5], 0), ([0.5, 0.6], -1)):
        seen.refuses(lambda values=values, n=n: expected_best(values, n), "no error")


@private("5.10", tells="the list of accuracies should stay in its order")
def order_stays(expected_best, lib):
    assert lib("utils.toys").left_behind(expected_best, [0.6, 0.5, 0.7], 2) == [0.6, 0.5, 0.7], "changed"
