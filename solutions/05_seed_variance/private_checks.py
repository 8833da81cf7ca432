"""Cases of notebook 05 that students never see: other sizes, other seeds, edges, drawn for each submission."""

import itertools
import math
import statistics

import torch
from torch import nn

from autograder.author.checks import private, swept, tells
from utils import tiny_bert
from utils.checks import nb05_seed_variance as seen
from utils.checks import nb05_toys as toys
from utils.grading import expect
from utils.grading import toys as common_toys
from utils.grading.expect import draw, normal

pairs = swept("5.1", seen.PAIR)
rates = swept("5.3", seen.SCHEDULE)
shares = swept("5.4", seen.ACCURACY) + swept("5.4", seen.MAJORITY)
spreads = swept("5.5", seen.SPREAD) + swept("5.5", seen.POINTS)
t_intervals = swept("5.6", seen.T_INTERVAL, "t_interval")
bootstraps = swept("5.6", seen.BOOTSTRAP, "bootstrap_interval")
errors = swept("5.6", seen.BINOMIAL, "binomial_error")
comparisons = swept("5.7", seen.BY_SEED) + swept("5.7", seen.BY_EXAMPLE, without=("device", "layout"))
bests = swept("5.10", seen.BEST)

# 5.1


@private("5.1", tells="a pair is wrong where a token of the text has the number of a special token.")
def special_numbers_in_the_text(encode_pair):
    some = draw(512)
    cls_id, sep_id = some.sample(range(50, 98), 2)
    for number in (sep_id, cls_id):
        a, b = ([some.randrange(50) for _ in range(some.randint(2, 5))] for _ in range(2))
        a[some.randrange(len(a))] = b[some.randrange(len(b))] = number
        ids, types = seen.two_lists(encode_pair(a, b, cls_id, sep_id, 20))
        assert ids == [cls_id, *a, sep_id, *b, sep_id], "wrong ids"
        assert types == [0] * (len(a) + 2) + [1] * (len(b) + 1), "wrong types"


@private("5.1", tells="a pair is wrong if it has hundreds of tokens more than `max_len`.")
def far_too_long(encode_pair):
    some = draw(513)
    made = seen.tokenizer()
    numbers = ((470, 70), (310, 260), (390, 390))  # a function that calls itself for each token that goes may do it
    for m, n in ((m + some.randint(-10, 10), n + some.randint(-10, 10)) for m, n in numbers):
        a, b = ([some.randrange(seen.CLS) for _ in range(count)] for count in (m, n))
        max_len = some.randint(100, 150)
        for one, other in ((a, b), (b, a)):
            found = list(seen.two_lists(encode_pair(one, other, seen.CLS, seen.SEP, max_len)))
            assert found == seen.tokenized(made, one, other, max_len), "wrong"
    with tells("a pair of many hundred tokens is cut, though `max_len` has room for it."):
        found = list(seen.two_lists(encode_pair(a, b, seen.CLS, seen.SEP, 1000)))
        assert found == seen.tokenized(made, a, b, 1000), "cut"


# 5.2


@private("5.2", tells="for some large seeds, or seeds far apart, two parts draw the same numbers.")
def far_apart(streams, lib):
    some, found = draw(520), {}
    seeds = {0, 1}
    for most in (50, 500, 9_000, 90_000, 900_000):
        seed = some.randrange(3, most)
        seeds |= {seed, seed + 1, seed + 2, seed + 3, seed + 10, seed + 100, seed + 1000}
    for seed in sorted(seeds):
        for part, numbers in seen.drawn(streams, lib, seed).items():
            assert tuple(numbers) not in found, f"{part} of {seed} and {found.get(tuple(numbers))}"
            found[tuple(numbers)] = f"{part} of {seed}"


@private("5.2", tells="among many seeds below a million, two parts draw the same numbers.")
def no_seed_twice(streams, lib):
    some = draw(524)
    seeds = some.sample(range(4000), 1000)  # small ones: some streams take long to start at large seeds
    seeds += [seeds[0] + 2**power for power in range(12, 20)]  # those that fewer bits would make one
    begins, _ = seen.beginnings(streams, lib, seeds)
    for place in range(len(seen.PARTS)):
        with tells("among many seeds below a million, two seeds give a part the same numbers."):
            assert len({*begins[place :: len(seen.PARTS)]}) == len(seeds), "two seeds"
    assert len({*begins}) == len(begins), "two of a sample"
    _, numbers = seen.beginnings(streams, lib, [0, 1])
    starts = {0: numbers[: len(seen.PARTS)], 1: numbers[len(seen.PARTS) :]}
    stride = starts[1][0] - starts[0][0]
    for a, b in itertools.permutations(range(3), 2):  # where one part is so many seeds ahead of another, of some seed
        ahead = abs(starts[0][a] - starts[0][b]) // abs(stride or 1)
        if 0 < ahead < 10**6:
            apart = [some.randrange(10**6 - ahead)]
            begins, _ = seen.beginnings(streams, lib, [apart[0], apart[0] + ahead])
            assert len({*begins}) == len(begins), "so far apart"


@private("5.2", tells="the parts draw from one sequence of numbers, each a little further on.")
def no_shared_stretch(streams, lib):
    some = draw(523)
    seed, count = some.randrange(10**6), some.randint(1500, 2500)
    found, known = streams(seed), {}
    for part in seen.PARTS:
        numbers = expect.drawn_by(lib, found[part], count)
        for stretch in zip(numbers, numbers[1:], numbers[2:], strict=False):
            assert known.setdefault(stretch, part) == part, f"{part} draws what {known[stretch]} draws"


@private("5.2", tells="each call should give new generators, which begin with the same numbers.")
def begins_anew(streams, lib):
    some = draw(521)
    for count in (0, 1, 2, 3):
        seed, varies = some.randrange(10**6), some.sample(seen.PARTS, count)
        first = seen.drawn(streams, lib, seed, varies)
        assert seen.drawn(streams, lib, seed, varies) == first, "goes on"
        with tells("the order of the names in `varies` changes what a part draws. It should not matter."):
            assert seen.drawn(streams, lib, seed, varies[::-1]) == first, "depends on the order of the names"


@private("5.2", tells="a part that does not vary draws other numbers after `torch.manual_seed` with another number.")
def beside_other_seeds(streams, lib):
    some = draw(526)
    seed, numbers = some.randrange(10**6), some.sample(range(10**6), 2)
    one, other = (lib(toys).begins_beside(streams, seed, list(seen.PARTS), number) for number in numbers)
    assert one == other, "torch's global seed has a say"


@private("5.2", tells="where two parts vary, one of them does not, or it depends on what else varies.")
def two_vary(streams, lib):
    some = draw(522)
    a, b, c = some.sample(range(1, 10**6), 3)
    for held in seen.PARTS:
        varies = [part for part in seen.PARTS if part != held]
        one, two = seen.drawn(streams, lib, a, varies), seen.drawn(streams, lib, b, varies)
        with tells("where two parts vary, the third one should draw the same numbers for every seed."):
            assert one[held] == two[held] == seen.drawn(streams, lib, c, [])[held], "the held part moves"
        assert all(one[part] != two[part] for part in varies), "a varying part is held"
        assert all(one[part] == seen.drawn(streams, lib, a)[part] for part in varies), "depends on what else varies"


@private("5.2", tells="a name in `varies` that is none of the three should raise ValueError, alone or beside others.")
def unknown_parts(streams):
    some = draw(525)
    for wrong in ([some.choice(["drop", "ord", "hea"])], ["dropout", ""]):
        seen.refuses(streams, some.randrange(10**6), wrong, says="no error")


# 5.3


@private("5.3", tells="the optimizer of a second model also moves the parameters of the first one.")
def own_parameters(schedule, make_optimizer, lib):
    first, second = (expect.twins(lib, lambda module, d=d: module.Linear(d, 3), 526 + d)[0] for d in (2, 4))
    make_optimizer(first, 0.1)
    before, rule = expect.state(first, "the first model"), make_optimizer(second, 0.1)
    for model in (first, second):
        lib(common_toys).leave_gradients(model)
    rule.step()
    after = expect.state(first, "the first model")
    assert all(torch.equal(after[name], value) for name, value in before.items()), "it moves"
    with tells("the second optimizer of a model does not move all of its parameters."):
        make_optimizer(first, 0.1).step()
        after = expect.state(first, "the first model")
        assert not any(torch.equal(after[name], value) for name, value in before.items()), "it does not move"


@private("5.3", tells="a model with parts inside parts is trained wrongly.")
def deeper_models(schedule, make_optimizer, lib):
    some = draw(531)
    vocab, d, e, classes = some.randint(7, 12), some.randint(4, 6), some.randint(7, 9), some.choice([2, 3])

    def build(module, first, *sizes):
        inner = module.Sequential(
            module.Linear(d, e), module.Sequential(module.LayerNorm(e), module.Linear(e, classes))
        )
        return module.Sequential(getattr(module, first)(*sizes), module.LayerNorm(d), inner)

    labels = [(torch.arange(8) + place) % classes for place in range(3)]
    inputs = [normal(8, e, seed=532 + place) for place in range(3)]
    words = [torch.randint(vocab, (8,), generator=expect.generator(532 + place)) for place in range(3)]
    spared, lr = {"1.weight", "2.1.0.weight"}, some.uniform(0.04, 0.1)
    mine, theirs = (build(module, "Linear", e, d) for module in (nn, lib(nn)))
    seen.learns(make_optimizer, lib, mine, theirs, spared, [*zip(inputs, labels, strict=True)], lr, 535)
    mine, theirs = (build(module, "Embedding", vocab, d) for module in (nn, lib(nn)))
    with tells("a model with an embedding is trained wrongly. Its weight has two dimensions: decay it."):
        seen.learns(make_optimizer, lib, mine, theirs, spared, [*zip(words, labels, strict=True)], lr, 535)


@private("5.3", tells="a matrix with a single row or column is not decayed. It has two dimensions.")
def thin_or_equal(schedule, make_optimizer, lib):
    some = draw(590)
    d, lr = some.randint(3, 5), some.uniform(0.04, 0.1)

    def build(module, width):
        return module.Sequential(module.Linear(d, width), module.Linear(width, width), module.Linear(width, 2))

    batches = [(normal(7, d, seed=591 + place), (torch.arange(7) + place) % 2) for place in range(3)]
    seen.learns(make_optimizer, lib, build(nn, 1), build(lib(nn), 1), set(), batches, lr, 595)
    with tells("parameters with equal numbers are taken for a single one. Each should move."):
        for wide, equal in ((some.randint(6, 8), ("0.bias", "1.bias")), (d, ("0.weight", "1.weight"))):
            mine, theirs = build(nn, wide), build(lib(nn), wide)
            seen.learns(make_optimizer, lib, mine, theirs, set(), batches, lr, 598, equal=equal)


# 5.4


# 5.5


@private("5.5", tells="a list of one value must raise ValueError.")
def not_fractions(mean_and_sd, in_points):
    some = draw(551)
    for stranger in (some.uniform(40, 90), -some.uniform(0.01, 0.5), some.uniform(1.01, 2)):
        values = [some.uniform(0.4, 0.9) for _ in range(some.randint(1, 4))]
        values.insert(some.randint(0, len(values)), stranger)
        with tells(f"a list in which one value is {'below 0' if stranger < 0 else 'above 1'} must raise ValueError."):
            seen.refuses(mean_and_sd, values, says="no error")
    last = [some.uniform(0.4, 0.9), some.uniform(0.4, 0.9), some.uniform(40, 90)]
    for values, what in ((last, "whose last value is above 1"), ([], "without values"), ([1.0], "of one value")):
        with tells(f"a list {what} must raise ValueError."):
            seen.refuses(mean_and_sd, values, says="no error")
    seen.refuses(mean_and_sd, [some.random()], says="no error")


# 5.6


@private(
    "5.6",
    tells="without `level`, `resamples` and `seed`, the bootstrap should take the defaults that are given: a level of "
    "0.95, ten thousand resamples and the seed 0.",
    part="bootstrap_interval",
)
def bootstrap_defaults(t_interval, bootstrap_interval, binomial_error):
    some = draw(562)
    centre, steps = some.uniform(0.45, 0.55), [some.uniform(0.02, 0.1) for _ in range(12)]
    values = [centre + side * step for side in (-1, 1) for step in steps] + [centre]  # symmetric, as the normal is
    some.shuffle(values)
    error = statistics.pstdev(values) / 25**0.5
    by_default = seen.two_numbers(bootstrap_interval(values), "bootstrap_interval")
    with tells("two calls without `seed` give two different intervals. Its default, 0, is a seed like any other."):
        assert seen.two_numbers(bootstrap_interval(values), "bootstrap_interval") == by_default, "no seed"
    assert seen.two_numbers(bootstrap_interval(values, 0.95, 10_000, 0), "bootstrap_interval") == by_default, "defaults"
    ends = [seen.two_numbers(bootstrap_interval(values, seed=seed), "bootstrap_interval") for seed in range(16)]
    # In units of the error, 0.018 to 0.030 for ten thousand resamples, 0.064 to 0.110 for a thousand (120 keys each).
    spread = statistics.fmean(map(statistics.variance, zip(*ends, strict=True))) ** 0.5
    with tells("with `resamples = 10_000`, the bootstrap should take as many."):
        assert spread < 0.046 * error, "too few resamples"


@private(
    "5.6",
    tells="with thousands of values the bootstrap interval is too long or too short: draw as many as there are.",
    part="bootstrap_interval",
)
def bootstrap_of_many(t_interval, bootstrap_interval, binomial_error):
    some = draw(563)
    values = [some.uniform(0.3, 0.7) for _ in range(some.randint(2000, 2100))]
    low, high = seen.two_numbers(bootstrap_interval(values, 0.95, 400, some.randrange(99)), "bootstrap_interval")
    lengths = (high - low) / (3.92 * statistics.pstdev(values) / len(values) ** 0.5)
    assert 0.75 < lengths < 1.3, "another length"  # 400 resamples move it by 5% or so


@private("5.6", tells="the t interval is wrong for some thirty to sixty values.", part="t_interval")
def dozens_of_values(t_interval):
    some = draw(565)
    for count in (some.randint(31, 45), some.randint(46, 60)):
        values = [some.uniform(0.4, 0.9) for _ in range(count)]
        for found, wanted in zip(
            seen.two_numbers(t_interval(values), "t_interval"), seen.paired(values)[1:], strict=True
        ):
            expect.close(found, wanted, "wrong", 1e-5)


@private("5.6", tells="seeds that differ by a round number give the same resamples.", part="bootstrap_interval")
def distant_seeds(bootstrap_interval):
    some = draw(566)
    values, first = [some.uniform(0.4, 0.9) for _ in range(9)], some.randrange(100)
    seeds = [first + gap for gap in (0, 100, 256, 1000, 10_000, 2**16)]
    found = {tuple(seen.two_numbers(bootstrap_interval(values, 0.9, 50, seed), "the interval")) for seed in seeds}
    assert len(found) == len(seeds), "the same"


# 5.7


# 5.8


@private("5.8", tells="a run that predicts several classes is called degenerate.")
def other_runs(health):
    some = draw(580)
    count, classes = some.randint(7, 15), some.randint(4, 9)
    gold = [0, 1, *some.choices(range(classes), k=count - 2)]
    seeds = some.sample(range(1000), 8)
    bad = seeds[:3]
    votes = {seed: [label] * count for seed, label in zip(bad, (2, 3, classes + some.randrange(5)), strict=True)}
    nearly = [some.randrange(2, classes)] * count
    nearly[some.randrange(count)] = classes  # which no label has
    votes |= {seeds[3]: nearly, seeds[4]: [0, 1] * (count // 2) + [0] * (count % 2), seeds[5]: gold}
    votes |= {seed: [0, 1, *some.choices(range(classes), k=count - 2)] for seed in seeds[6:]}
    votes = {seed: votes[seed] for seed in some.sample(seeds, 8)}
    report = seen.health_of(health(votes, gold))
    with tells("a run that predicts one class only is not called degenerate. That class may be any one, also above 1."):
        assert {*bad} <= {*report["degenerate"]}, "wrong"
    assert {*report["degenerate"]} <= {*bad}, "wrong"


@private("5.8", tells="where all labels are one class, a run that predicts this class alone is degenerate too.")
def right_everywhere(health):
    some = draw(581)
    gold = [some.randrange(5)] * some.randint(3, 9)
    report = seen.health_of(health({7: list(gold), 8: [gold[0] + 1, *gold[1:]]}, gold))
    with tells("where all labels are one class, a run that predicts two classes is called degenerate."):
        assert 8 not in report["degenerate"], "two classes"
    assert report["degenerate"] == [7], "all labels are one class"


reports = swept("5.8", seen.HEALTH)  # after the checks above, which say more


# 5.9

# Of these 215, 240, 276, 314 and 344 seeds are needed: no steps of more than one lead to all.
HUNDREDS = (5.2, 5.5, 5.9, 6.3, 6.6)


@private("5.9", tells="the number of seeds is wrong where hundreds or thousands are needed.")
def other_numbers_of_seeds(seeds_needed):
    some = draw(590)
    plans = [  # standard deviations over differences, powers of ten of differences
        ("where hundreds are needed", [some.uniform(5, 7), *HUNDREDS], (-2, -1)),
        ("for a very small difference", [some.uniform(2, 3)], (-6, -4)),
        ("where two are enough", [some.uniform(0.01, 0.02)], (-3, 0)),
        ("for numbers above 1, which are in one unit like all others", [some.uniform(2, 3)], (0.1, 2)),
        ("where thousands are needed", [some.uniform(13, 14)], (0.1, 2)),
    ]
    for where, ratios, powers_of_ten in plans:
        difference = 10 ** some.uniform(*powers_of_ten)
        for ratio in ratios:
            with tells(f"the number of seeds is wrong {where}."):
                found = expect.number(seeds_needed(difference, ratio * difference, 0.95, 0.8), "seeds_needed")
                assert found == seen.seeds_wanted(difference, ratio * difference, 0.95, 0.8), "wrong"


numbers_of_seeds = swept("5.9", seen.SEEDS)  # after the checks above, which say more


# 5.10
