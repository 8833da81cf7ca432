"""Cases of notebook 12 that students never see: other sizes, weights and tables, drawn for each submission."""

import math

import torch

from autograder.author.checks import private, swept, tells
from utils.checks import nb12_smaller_models as seen
from utils.checks import nb12_toys as toys
from utils.grading import expect
from utils.grading.expect import draw, generator

# Without what the public checks ask of the same contracts.
embeddings = swept("12.1", seen.EMBEDDED, without=("parts", "gradients", "device", "modes"))
scores = swept("12.1", seen.SCORED, without=("dtypes", "layout", "gradients", "modes", "device"))
encoders = swept("12.2", seen.SHARED, without=("values", "dtypes", "layout", "gradients", "modes", "device"))
losses = swept("12.6", seen.DISTILLED, without=("dtypes", "layout", "gradients", "device"))


# 12.3


@private("12.3", tells="a count is wrong for encoders of other sizes.")
def other_sizes(encoder_size):
    for place in range(25):
        some = draw(1270 + place)
        size = {"V": some.randint(50, 900), "H": 4 * some.randint(3, 30), "F": some.randint(10, 400)}
        size |= {"L": some.randint(1, 30), "P": some.randint(5, 600), "T": some.randint(1, 600)}
        if place % 2:
            size["E"] = some.choice([some.randint(1, 60), size["H"]])
        seen.sized(encoder_size, size | {"shared": place % 4 > 1})
    with tells("a count is wrong where the tables are 1 wide."):
        for shared in (False, True):
            seen.sized(encoder_size, {"V": 70, "H": 8, "F": 20, "L": 3, "E": 1, "shared": shared})


# 12.4


@private("12.4", tells="for other weights, scales or sparsities, the wrong weights go.")
def other_weights(magnitude_masks, lib):
    for place in range(8):
        some = draw(1300 + place)
        shapes = [(some.randint(1, 6), some.randint(1, 6)) for _ in range(some.randint(2, 4))]
        shapes[0] = (some.randint(3, 6), some.randint(3, 6))
        weights = seen.of_scales(1310 + place, shapes, [10 ** some.uniform(-2, 1) for _ in shapes])
        names = some.sample([*weights], some.randint(1, len(weights)))
        total = sum(weights[name].numel() for name in names)
        for count in (some.randint(0, total), some.randint(0, total), 0, total):
            seen.pruned(magnitude_masks, lib, weights, count / total, names)
    transposed = seen.of_scales(1325, [(3, 5), (4, 2)], [1.0, 1.0])
    given = transposed, 0.5, [*transposed], True
    with tells("where a parameter is a transposed tensor, its mask is wrong, or the call raises an error."):
        expect.answers(seen.pruned, magnitude_masks, lib, *given, says="a transposed tensor")
    some = draw(1330)
    with tells("where there are tens of thousands of weights, the wrong ones go, or not exactly as many as should."):
        sizes = torch.randperm(40_000, generator=generator(1332)) + 1.0
        many = {"a": sizes[:30_000].view(300, 100), "b": -sizes[30_000:].view(100, 100)}
        count = some.randint(10_000, 30_000)
        found = magnitude_masks(lib(toys).Parts(many), count / len(sizes), ["a", "b"])
        for name, part in many.items():
            assert torch.equal(found[name], part.abs() > count), "not the smallest of many weights"
    levels = {name: torch.randint(-2, 3, (5, some.randint(3, 8)), generator=generator(1331)) / 2 for name in "abc"}
    for _ in range(4):
        total = sum(part.numel() for part in levels.values())
        with tells("where many weights are equal, the wrong number of weights goes, or the wrong ones."):
            seen.pruned(magnitude_masks, lib, levels, some.randint(1, total - 1) / total, ["c", "a", "b"])


# 12.5


@private("12.5", tells="a snapshot, rewinding, a step or a sparsity is wrong for another model or other numbers.")
def other_rounds(snapshot, rewind, train_step, sparsity_after, lib):
    some = draw(1340)
    d = some.randint(2, 5)
    sizes = (d, some.randint(3, 7), d)  # so that a batch has as many rows as columns
    theirs, ours = expect.twins(lib, lambda parts: seen.net_of(parts, *sizes), 1341)
    with tells("the snapshot of another model is wrong."):
        seen.kept(snapshot, lib, theirs, ours)
    saved = {name: value.clone() for name, value in ours.state_dict().items()}
    for place in range(2):
        with tells("rewinding is wrong for another model or other masks."):
            seen.went_back(rewind, lib, theirs, saved, seen.some_masks(ours, some.uniform(0.2, 0.8), 1345 + place))
    rules = (
        ("Adam", {"lr": some.uniform(0.01, 0.05)}),
        ("RMSprop", {"lr": some.uniform(0.002, 0.01), "momentum": 0.8}),
    )
    with tells("a step is wrong for another model, other masks or another optimizer."):
        seen.trains(train_step, lib, sizes, 1350, rules)
    ours = toys.Unusual()
    theirs = lib(toys).same_as(lib(toys).Unusual(), ours.state_dict())
    mask = torch.rand(3, 3, generator=generator(1356)) < 0.6
    masks = {"first.weight": mask, "second.weight": mask}
    with tells("where one matrix has two names, and a mask by each, rewinding is wrong."):
        saved = {name: value.clone() for name, value in ours.state_dict().items()}
        expect.answers(seen.went_back, rewind, lib, theirs, saved, masks, says="two names")
    for place in range(12):
        pick = draw(1360 + place)
        with tells("the sparsity is wrong for other rounds or rates."):
            seen.left_after(sparsity_after, pick.randint(0, 30), pick.uniform(0.02, 0.95))


# 12.7


@private("12.7", tells="the time of an example or the undominated rows are wrong for other times or tables.")
def other_rows(time_per_example, undominated, lib):
    for place in range(6):
        some = draw(1440 + place)
        warm_up, repeats = (2, 0, 1, 3, 4, 1)[place], (1, 2, 6, 7, 8, 20)[place]
        slow = some.uniform(30, 90) if place % 3 else 0.1  # of a call that warms up
        times = [slow * some.uniform(0.9, 1) for _ in range(warm_up)] + [some.uniform(1, 20) for _ in range(repeats)]
        with tells("the time of an example is wrong for other times of the calls."):
            seen.timed(time_per_example, lib, times, some.randint(1, 7), warm_up, place % 2 == 0)
    for place in range(20):
        some = draw(1450 + place)
        span = some.choice([2, 4, 9])
        rows = [tuple(some.randint(0, span) for _ in range(3)) for _ in range(some.randint(0, 9))]
        with tells("the undominated rows of other tables are wrong."):
            seen.chosen(undominated, rows)
    near = [(92.0, 5, 1.0004), (91.0, 5, 1.0), (90.0, 4, 1.0), (90.0, 4, 1.0 + 1e-12)]
    with tells(seen.NEAR):
        seen.chosen(undominated, near, seen.NEAR)


# 12.8


@private("12.8", tells="for other numbers of steps, the median is wrong.")
def other_runs(typical_steps):
    some = draw(1281)
    with tells("where the mean of the two in the middle is not a whole number, the median is wrong."):
        seen.median_of_runs(typical_steps, [20, 25])
    with tells("where a run has learned after 0 steps, the median is wrong."):
        for steps in ([1, 2, None, 0], [0], [0, 40, 20], [None, 0, 60], [0, None]):
            seen.median_of_runs(typical_steps, steps)
    with tells("for numbers of steps in the millions, the median is wrong."):
        for steps in ([None, 3_000_000, 2_000_000], [16_777_217, 16_777_219, 5], [20_000_001, None, 1, 20_000_003]):
            seen.median_of_runs(typical_steps, steps)
            exact = sorted(math.inf if one is None else one for one in steps)
            middle = (exact[(len(exact) - 1) // 2] + exact[len(exact) // 2]) / 2
            assert expect.number(typical_steps(steps), "the median") == middle, "not exact"
    with tells(
        "where a run has learned after a billion steps, the median is wrong. A billion is a number like others."
    ):
        for steps in ([10**9], [10**9, 10**9, None], [None, 10**9, 10**9 - 2, 3], [None, 10**9]):
            seen.median_of_runs(typical_steps, steps)
    for runs in (10, 11, 14, 15, 17, some.randint(1, 9)):
        seen.median_of_runs(typical_steps, seen.steps_of_runs(some, runs, some.randint(0, runs // 3)))
    for runs in (3, 12):
        seen.median_of_runs(typical_steps, seen.steps_of_runs(some, runs, some.randint(0, runs)))
