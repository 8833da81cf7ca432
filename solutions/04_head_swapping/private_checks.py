"""Cases of notebook 04 that students never see: other sizes, other seeds, edges, drawn for each submission."""

import builtins
import random
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from autograder.author.checks import private, swept, tells
from utils.checks import nb04_head_swapping as seen
from utils.checks import nb04_toys as toys
from utils.grading import expect, probes
from utils.grading.expect import draw, normal
from utils.grading.remote import Library, Remote, read

heads = swept("4.1", seen.HEAD, without=("device", "layout", "dtypes", "gradients"))  # the public check asks for these
language_models = swept(
    "4.2", seen.LANGUAGE_MODEL, without=("device", "layout", "gradients", "modes", "parts", "memory")
)
classifiers = swept("4.2", seen.CLASSIFIER, without=("device", "layout", "gradients", "modes", "parts"))
last_states = swept("4.4", seen.LAST, without=("device", "layout", "dtypes"))
batches_of_examples = swept("4.5", seen.COLLATE)
accuracies = swept("4.6", seen.ACCURACY, without=("memory",))
all_features = swept("4.7", seen.FEATURES, without=("sizes", "gradients"))

WORDS = ("gate", "norm", "read", "mix", "rank", "turn", "alpha", "zeta", "query", "layer")


def batch(B: int, T: int, vocab: int, classes: int, seed: int) -> list[torch.Tensor]:
    """Tokens, a mask with padding on the right, and labels."""
    numbers = expect.generator(seed)
    tokens = torch.randint(0, vocab, (B, T), generator=numbers)
    mask = torch.arange(T) < torch.randint(1, T + 1, (B, 1), generator=numbers)
    return [tokens, mask, torch.randint(0, classes, (B,), generator=numbers)]


# 4.1


@private("4.1", tells="a fresh head of another size does not start at zero.")
def fresh_at_any_size(ClassificationHead):
    some = draw(401)
    for d, classes in ((some.randint(1, 3), 1), (some.randint(600, 900), some.randint(300, 500))):
        for value in expect.state(ClassificationHead(d, classes, 0.1), "a head").values():
            assert not value.any(), "not zero"


@private(
    "4.1",
    tells="in training mode, dropout does not act on single inputs at the rate that is given, or at 0.1 by default.",
)
def drops_single_inputs(ClassificationHead):
    numbers = draw(110)
    width, value, bias = numbers.randint(16, 32), numbers.uniform(0.5, 2), numbers.uniform(0.5, 2)
    low, high = round(numbers.uniform(0.2, 0.4), 3), round(numbers.uniform(0.6, 0.8), 3)
    for rate, options in ((low, {"dropout": low}), (high, {"dropout": high}), (0.1, {})):
        seen.drops_inputs(ClassificationHead(width, width, **options), rate, width, value, bias)
    silent = ClassificationHead(width, width, 0.0)
    seen.loaded(silent, {"linear.weight": torch.eye(width), "linear.bias": torch.full((width,), bias)})
    silent.train()
    x = normal(9, width, seed=110)
    with tells("in training mode with a dropout of 0, the logits are wrong. Nothing should be dropped."):
        expect.close(expect.floats(silent(x), (9, width), "the logits"), x + bias, "something is dropped")
    head = seen.loaded(ClassificationHead(width, width, high), silent.state_dict())
    for lead in ((), (1,), (2, 3), (1, 2, 1)):
        with tells("in training mode, dropout is wrong on a single state, or with several leading dimensions."):
            logits = expect.floats(head(torch.full((*lead, width), value)), (*lead, width), "the logits")
            passed = (logits - bias) * (1 - high) / value  # 1 or 0; hardly ever all of them 1
            assert ((passed.abs() < 1e-3) | ((passed - 1).abs() < 1e-3)).all(), "scaled wrongly"
            assert (passed.abs() < 1e-3).any(), "nothing is dropped"
    several = (4, 6, width)
    passed = expect.floats(head(torch.full(several, value)), several, "the logits in training") - bias
    dropped = passed.abs() < 1e-3
    for axis in range(3):
        with tells("with states (B, T, d_model), dropout drops the same inputs of several states, or whole states."):
            assert (dropped != dropped.narrow(axis, 0, 1)).any(), f"shared along axis {axis}"


# 4.2


def slopes_of(lib: Library, theirs: Remote, mask: torch.Tensor, tokens: torch.Tensor) -> dict[str, torch.Tensor]:
    """The gradients of a fixed sum over the student's model's logits, by parameter."""
    toy = lib(toys)
    found = toy.parameter_gradients(toy.WithMask(theirs, mask), tokens)
    return {name.removeprefix("model."): slope for name, slope in found.items()}


@private("4.2", tells="the gradients of the base or of the head are wrong: the model could not be trained as a whole.")
def gradients_reach_everything(Model, lib):
    toy, torch_nn, numbers = lib(toys), lib(nn), draw(110)
    vocab, width, classes = numbers.sample(range(2, 12), 3)
    B, T = numbers.sample(range(2, 7), 2)
    states, weights = seen.reader_state(vocab, width, 110), seen.linear_state(width, classes, 120)
    tokens, mask, _ = batch(B, T, vocab, 2, 125)
    for pool, own_pool in ((toy.total, toys.total), (None, None)):
        base = seen.loaded(toy.Reader(vocab, width), states)
        theirs = Model(base, seen.loaded(torch_nn.Linear(width, classes), weights), pool)
        slopes = slopes_of(lib, theirs, mask, tokens)
        own = nn.ModuleDict({"base": seen.reader(states), "head": nn.Linear(width, classes)})
        own["head"].load_state_dict(weights)
        read_states = own["base"](tokens, mask)
        toys.backward(own["head"](own_pool(read_states, mask) if own_pool else read_states))
        for side in ("base", "head"):
            with tells(f"no gradient reaches the {side}: the model could not be trained as a whole."):
                assert any(slope.any() for name, slope in slopes.items() if name.startswith(f"{side}.")), side
        for name, part in own.named_parameters():
            expect.close(slopes[name], part.grad, f"the gradient of {name} is wrong")


@private("4.2", tells="a pool, base or head that is assigned later should be used from then on.")
def parts_can_be_replaced(Model, lib):
    toy, torch_nn, setattr_, numbers = lib(toys), lib(nn), lib(builtins).setattr, draw(130)
    vocab, width, classes = numbers.sample(range(2, 12), 3)
    B, T = numbers.sample(range(2, 7), 2)
    tokens, mask, _ = batch(B, T, vocab, 2, 135)
    states, weights = seen.reader_state(vocab, width, 130), seen.linear_state(width, classes, 140)
    first, head = seen.loaded(toy.Reader(vocab, width), states), seen.loaded(torch_nn.Linear(width, classes), weights)
    model = Model(first, head)
    with torch.no_grad():
        wanted = F.linear(seen.reader(states)(tokens, mask), weights["weight"], weights["bias"])
    expect.close(expect.floats(model(tokens, mask), (B, T, classes), "logits"), wanted, "the old pool is used")
    setattr_(model, "pool", toy.total)
    other = seen.reader_state(vocab, width, 150)
    setattr_(model, "base", seen.loaded(toy.Reader(vocab, width), other))
    with torch.no_grad():
        read_states = seen.reader(other)(tokens, mask)
    wanted = F.linear(toys.total(read_states, mask), weights["weight"], weights["bias"])
    expect.close(expect.floats(model(tokens, mask), (B, classes), "logits"), wanted, "the old base is used")


@private("4.2", tells="in evaluation mode, the logits are wrong for a head with dropout. `eval()` should reach it.")
def eval_reaches_the_head(Model, lib):
    numbers, toy, torch_nn = draw(155), lib(toys), lib(nn)
    vocab, width, classes = numbers.sample(range(2, 12), 3)
    tokens, mask, _ = batch(4, 5, vocab, 2, 155)
    states, weights = seen.reader_state(vocab, width, 160), seen.linear_state(width, classes, 170)
    head = torch_nn.Sequential(torch_nn.Dropout(0.5), torch_nn.Linear(width, classes))
    seen.loaded(head, {f"1.{name}": value for name, value in weights.items()})
    model = Model(seen.loaded(toy.Reader(vocab, width), states), head, toy.total)
    model.eval()
    with torch.no_grad():
        wanted = F.linear(toys.total(seen.reader(states)(tokens, mask), mask), weights["weight"], weights["bias"])
    expect.close(expect.floats(model(tokens, mask), (4, classes), "the logits"), wanted, "the logits are wrong")


# 4.3


@private("4.3", tells="`base.` should be removed only at the beginning of a name, and only once.")
def prefix_deep_inside(load_base, lib):
    torch_nn, numbers = lib(nn), draw(160)
    other, (a, b, c) = numbers.choice(WORDS), numbers.sample(range(2, 8), 3)
    base = torch_nn.ModuleDict({"base": torch_nn.Linear(a, b), other: torch_nn.Linear(b, c)})
    shapes = {"base.weight": (b, a), "base.bias": (b,), f"{other}.weight": (c, b), f"{other}.bias": (c,)}
    state = {name: normal(*shape, seed=160 + i) for i, (name, shape) in enumerate(shapes.items())}
    report = seen.report_of(load_base(base, seen.whole(state, head__bias=normal(4))))
    assert report == {"missing": [], "unexpected": [], "left": ["head.bias"]}, "the report is wrong"
    seen.holds(base, state, "{name} was not loaded")


@private(
    "4.3",
    tells="a name that does not begin with `base.` is taken for the base's: `base` alone, or one such as "
    "`baseline.weight` or `old.base.bias`.",
)
def names_like_the_prefix(load_base, lib):
    numbers = draw(170)
    vocab, width = numbers.sample(range(2, 9), 2)
    first, second = numbers.sample(WORDS, 2)
    base = seen.loaded(lib(toys).Reader(vocab, width), seen.reader_state(vocab, width, 170))
    new = seen.reader_state(vocab, width, 180)
    state = seen.whole(new, base=normal(2)) | {f"base{first}.weight": normal(2), f"{second}.base.bias": normal(2)}
    report = seen.report_of(load_base(base, state))
    assert report["missing"] == report["unexpected"] == [], "missing or unexpected is wrong"
    seen.holds(base, new, "{name} was not loaded")
    with tells(
        "`left` lacks a name that does not begin with `base.`. Such names are `head.weight`, `baseline.weight`, "
        "`old.base.bias`, or `base` alone."
    ):
        assert report["left"] == sorted(["base", f"base{first}.weight", f"{second}.base.bias"]), "left is wrong"


@private(
    "4.3",
    tells="a weight of another shape counts as one that fits. Both shapes should be equal, in all dimensions.",
)
def other_shapes(load_base, lib):
    numbers = draw(190)
    vocab, width = numbers.sample(range(2, 9), 2)
    old, new = seen.reader_state(vocab, width, 190), seen.reader_state(vocab, width, 200)
    table, bias = new["embedding.weight"], new["mix.bias"]
    base = seen.loaded(lib(toys).Reader(vocab, width), old)
    for name, value in (
        ("embedding.weight", table.T.contiguous()),
        ("embedding.weight", table[:1]),
        ("embedding.weight", table.flatten()),
        ("embedding.weight", torch.cat([table, table[:, :1]], dim=1)),
        ("mix.bias", bias[:1]),
        ("mix.bias", bias.unsqueeze(0)),
        ("offset", bias[0]),
    ):
        base.load_state_dict(old)
        state = seen.whole(new | {name: value})
        seen.refusal(load_base, base, state, [name], "another shape")
        seen.holds(base, old, "{name} was changed")
        report = seen.report_of(load_base(base, state, False))
        assert report == {"missing": [name], "unexpected": [name], "left": []}, "the report is wrong"
        seen.holds(base, new | {name: old[name]}, "{name} is wrong")


@private("4.3", tells="where several weights do not fit, all of them should be named, and nothing should be loaded.")
def several_do_not_fit(load_base, lib):
    numbers = draw(210)
    vocab, width = numbers.sample(range(2, 9), 2)
    extra, left = sorted(numbers.sample(WORDS, 3)), sorted(numbers.sample("abcdxyz", 2))
    old, new = seen.reader_state(vocab, width, 210), seen.reader_state(vocab, width, 220)
    base = seen.loaded(lib(toys).Reader(vocab, width), old)
    offered = seen.without(new, "mix.weight", "mix.bias") | {name: normal(2) for name in reversed(extra)}
    state = seen.whole(offered) | {name: normal(1) for name in reversed(left)}
    seen.refusal(load_base, base, state, ["mix.weight", "mix.bias", *extra], "a bad checkpoint")
    seen.holds(base, old, "{name} was changed")
    wanted = {"missing": ["mix.bias", "mix.weight"], "unexpected": extra, "left": left}
    with tells("where several weights do not fit, the report is wrong. Each list should be complete, and sorted."):
        assert seen.report_of(load_base(base, state, strict=False)) == wanted, "the report is wrong"


@private("4.3", tells="a number without dimensions, such as the counter of a batch norm, is not loaded.")
def numbers_without_dimensions(load_base, lib):
    numbers = draw(227)
    a, b = numbers.sample(range(2, 9), 2)

    def build(parts: Any) -> Any:
        return parts.Sequential(parts.Linear(a, b), parts.BatchNorm1d(b))

    _, ours = expect.twins(lib, build, 227)
    state = ours.state_dict() | {"1.num_batches_tracked": torch.tensor(numbers.randint(3, 99))}
    for strict in (True, False):
        base, _ = expect.twins(lib, build, 228)
        report = seen.report_of(load_base(base, seen.whole(state), strict=strict))
        assert report == {"missing": [], "unexpected": [], "left": []}, "the report is wrong"
        seen.holds(base, state, "{name} was not loaded")


# 4.4


# 4.5


@private("4.5", tells="without `max_len`, the batch is wrong for long texts. Nothing should be cut.")
def nothing_is_cut(collate):
    size = draw(290).randint(300, 450)
    for T in (2 * size, 2 * size + 1):
        examples = seen.some_examples(2, T, 290)
        tokens, mask, labels = seen.batch_of(examples, 0, None)
        found = seen.three(collate(examples, 0), *tokens.shape)
        assert all(map(torch.equal, found, (tokens, mask, labels))), "wrong"


# 4.6


@private("4.6", tells="the accuracy is wrong for other batches. Any iterable of batches of any size should do.")
def other_batches(accuracy, lib):
    numbers, toy = draw(250), lib(toys)
    for trial, count in enumerate((1, 3, 4, 2)):
        sizes = [1 if trial == 0 else numbers.randint(2, 6) for _ in range(count)]
        sizes[-1] = 1 if trial < 2 else sizes[-1]
        classes, rows = numbers.randint(2, 6), numbers.randint(7, 12)
        hits = [numbers.randint(0, B) for B in sizes]
        table, batches = seen.voting(251 + trial, [(B, numbers.randint(2, 6)) for B in sizes], classes, rows, hits)
        model = toy.Voter(table)
        training = numbers.random() < 0.5
        model.train(training)
        for given in (batches, lib(builtins).iter(batches)):
            expect.close(expect.number(accuracy(model, given), "accuracy"), sum(hits) / sum(sizes), "wrong")
        with tells("`accuracy` should return a float."):
            assert type(accuracy(model, batches)) is float, "no float"
        tokens, mask, _ = batches[0]
        picked = table[(tokens * mask).sum(1) % rows]
        logits = expect.floats(model(tokens, mask), tuple(picked.shape), "the logits")
        with tells("after `accuracy`, the model is not in the mode that it was in before."):
            expect.close(logits, picked.roll(2 + training, -1), "the mode was not restored")


def curves(numbers: random.Random) -> list[tuple[str, list[float], list[float]]]:
    """Words for a curve, and its validation and test accuracies after each epoch, as `select` may meet them."""

    def several(count: int, low: float, high: float) -> list[float]:
        return sorted(low + (high - low) * share / 64 for share in numbers.sample(range(1, 64), count))

    count = numbers.randint(2, 5)
    falls = numbers.randint(2, 4)
    late = several(falls, 0.05, 0.45)
    numbers.shuffle(late)
    rising = several(numbers.randint(3, 6), 0.1, 0.9)
    tied = several(2, 0.1, 0.5) + [0.75, several(1, 0.1, 0.7)[0], 0.75, several(1, 0.1, 0.7)[0]]
    valid = {
        "for other accuracies than at home": [*several(2, 0.1, 0.6), 0.75, *several(1, 0.1, 0.7)],
        "where all validation accuracies are 0": [0.0] * count,
        "where the validation accuracy falls at first, and the best comes later": [
            0.5,
            *late,
            0.875,
            *several(numbers.randint(1, 3), 0.5, 0.8),
        ],
        "with a single epoch": several(1, 0.1, 0.9),
        "where the first epoch is the best on validation": rising[::-1],
        "where the last epoch is the best on validation": rising,
        "where two epochs are equally good on validation": tied,
        "where the best epoch follows many worse ones": [0.5, *late * 4, 0.625, 0.25],
        "where the validation accuracy gains little in each epoch": [
            0.5 + step * 2**-14 for step in range(numbers.randint(3, 6))
        ],
    }
    tests = [several(len(one), 0.1, 0.9) for one in valid.values()]
    for one in tests:
        numbers.shuffle(one)
    return [(words, *pair) for (words, pair) in zip(valid, zip(valid.values(), tests, strict=True), strict=True)]


@private("4.6", tells="on an unusual validation curve, `curve`, the weights or the number of tests are wrong.")
def other_curves(select, lib):
    for words, valid, test in curves(draw(260)):
        model, report = seen.selected(select, lib, valid, test, len(valid))
        best = valid.index(max(valid))
        assert report["curve"] == valid, "the curve is wrong"
        with tells(f"{words}, `epoch` is wrong. It should be the earliest of the best epochs."):
            assert report["epoch"] == best + 1, "the epoch is wrong"
        with tells(f"{words}, `test` is not the test accuracy of the best epoch."):
            expect.close(report["test"], test[best], "the test accuracy is wrong")
        state = model.state_dict()
        assert [float(state["counter"]), float(state["seen"])] == [best + 1] * 2, "the weights are wrong"
        assert read(model.looks) == 1, "the test was looked at more than once"


@private("4.6", tells="where a validation accuracy is 1, the training ends early. All `epochs` should be trained.")
def perfect_epochs(select, lib):
    numbers = draw(262)
    first, second, third = (numbers.randint(1, 60) / 64 for _ in range(3))
    for valid in ([first, 1.0, second, 1.0, third], [1.0, first, second]):
        test = [numbers.randint(1, 63) / 64 for _ in valid]
        _, report = seen.selected(select, lib, valid, test, len(valid))
        assert report["curve"] == valid and report["epoch"] == valid.index(1.0) + 1, "the curve or the epoch is wrong"


@private("4.6", tells="`select` is wrong for another kind of model. Rely only on `train_epoch` and `evaluate`.")
def any_model(select, lib):
    numbers, count = draw(265), 0
    for trial in range(100):
        inputs, classes, epochs = numbers.randint(3, 6), numbers.randint(2, 4), numbers.randint(4, 7)
        examples = {
            split: [normal(size, inputs, seed=2650 + 10 * trial + place), torch.arange(size) % classes]
            for place, (split, size) in enumerate({"valid": numbers.randint(20, 40), "test": 97}.items())
        }
        start = {"weight": normal(classes, inputs, seed=2652 + 10 * trial), "bias": normal(classes)}
        stride = 0.7 * normal(classes, inputs, seed=2653 + 10 * trial)
        own, way = nn.Linear(inputs, classes), toys.Walk(stride, examples)
        own.load_state_dict(start)
        valid, test = [], []
        for _ in range(epochs):
            way.train_epoch(own)
            valid.append(way.evaluate(own, "valid"))
            test.append(way.evaluate(own, "test"))
        best = valid.index(max(valid))
        if best in (0, epochs - 1) or test[best] == test[-1]:  # it would say little
            continue
        model = seen.loaded(lib(nn).Linear(inputs, classes), start)
        theirs = lib(toys).Walk(stride, examples)
        report = select(model, theirs.train_epoch, theirs.evaluate, epochs)
        assert report["curve"] == valid, "the curve is wrong"
        assert type(report["epoch"]) is int and report["epoch"] == best + 1, "the epoch is wrong"
        expect.close(report["test"], test[best], "the test accuracy is wrong")
        wanted = start["weight"] + (best + 1) * stride
        expect.close(model.state_dict()["weight"], wanted, "the weights are wrong")
        assert read(theirs.looks) == 1, "the test was looked at more than once"
        count += 1
        if count == 2:
            return


# 4.7


@private("4.7", tells="parts deep inside a part are not all frozen, or not all unfrozen, with it.")
def deep_parts(freeze, unfreeze, lib):
    toy, numbers = lib(toys), draw(260)
    inputs, hidden, width, classes = numbers.sample(range(4, 10), 4)
    lr, momentum, decay = (round(numbers.uniform(0.05, 0.5), 3) for _ in range(3))

    def build(torch_nn: Any) -> Any:
        small = torch_nn.Sequential(
            torch_nn.Linear(inputs, hidden), torch_nn.Sequential(torch_nn.Tanh(), torch_nn.Linear(hidden, 1))
        )
        deep = torch_nn.Sequential(small, torch_nn.Linear(1, width), torch_nn.LayerNorm(width))
        return torch_nn.Sequential(deep, torch_nn.Linear(width, classes))

    def optimizer(torch_optim: Any, parameters: Any) -> Any:
        return torch_optim.SGD(parameters, lr=lr, momentum=momentum, weight_decay=decay)

    theirs, ours = expect.twins(lib, build, 261)
    x, labels = normal(5, inputs, seed=290), torch.tensor([numbers.randrange(classes) for _ in range(5)])
    rule, own_rule = optimizer(lib(torch.optim), theirs.parameters()), optimizer(torch.optim, ours.parameters())

    def step(told: str) -> None:
        toy.step(theirs, rule, x, labels)
        toys.step(ours, own_rule, x, labels)
        assert seen.same(theirs, ours, ""), told

    step("it does not learn at all")
    freeze(theirs[0])
    ours[0].requires_grad_(False)
    ours[0].zero_grad()
    step("not frozen as a whole")
    step("not frozen as a whole")
    unfreeze(theirs[0])
    ours[0].requires_grad_(True)
    step("not thawed as a whole")


@private(
    "4.7",
    tells="freezing or unfreezing one part makes a part learn that is frozen. The rest should stay as it is.",
)
def parts_of_a_part(freeze, unfreeze, lib):
    toy, numbers = lib(toys), draw(300)
    a, b, c = numbers.sample(range(2, 9), 3)
    theirs, ours = expect.twins(lib, lambda parts: seen.layers(parts, (a, b, c)), 301)
    x, labels, lr = normal(5, a, seed=310), torch.tensor([numbers.randrange(c) for _ in range(5)]), 0.1
    rule = lib(torch.optim).SGD(theirs.parameters(), lr=lr)

    def step(part: nn.Module, told: str) -> None:
        toy.step(theirs, rule, x, labels)
        toys.descend(ours, part.parameters(), x, labels, lr)
        learning = [name for name in ours.state_dict() if part is ours or name.startswith(f"{[*ours].index(part)}.")]
        with tells("`unfreeze` leaves a part frozen that was frozen more than once, alone or with the whole model."):
            assert all(seen.same(theirs, ours, name) for name in learning), told
        assert seen.same(theirs, ours, ""), told

    freeze(theirs[0])
    freeze(theirs[0])
    freeze(theirs[2])
    for _ in range(2):
        unfreeze(theirs[2])
    step(ours[2], "the first part is not frozen any more")
    freeze(theirs)
    unfreeze(theirs[0])
    step(ours[0], "the second part is not frozen, or the first one is")
    unfreeze(theirs)
    step(ours, "not thawed as a whole")
    fresh, _ = expect.twins(lib, lambda parts: seen.layers(parts, (a, b, c)), 302)
    fresh.requires_grad_(False)
    unfreeze(fresh)
    with tells("`unfreeze` leaves a part frozen that was frozen by other code than `freeze`. It should let it learn."):
        assert all(toy.learning(fresh)), "frozen by other code"
    theirs.requires_grad_(False)  # the gradients are still there
    unfreeze(theirs)
    with tells("`unfreeze` leaves those parameters frozen that still have a gradient."):
        assert all(toy.learning(theirs)), "frozen with a gradient"


@private("4.7", tells="the features are wrong for other batches. Any iterable of batches of any size should do.")
def other_features(features, lib):
    toy, numbers = lib(toys), draw(270)
    vocab, width = numbers.randint(5, 15), numbers.randint(2, 6)
    weights = seen.reader_state(vocab, width, 270)
    base = seen.loaded(toy.Reader(vocab, width, moody=True), weights)
    base.train()
    lengths = numbers.sample(range(2, 9), 3)
    sizes = [1, *numbers.sample(range(2, 6), 2)]
    numbers.shuffle(sizes)
    batches = [batch(B, T, vocab, 3, 275 + i) for i, (B, T) in enumerate(zip(sizes, lengths, strict=True))]
    own = seen.reader(weights)
    with torch.no_grad():
        wanted = torch.cat([toys.total(own(tokens, mask), mask) for tokens, mask, _ in batches])
    result = features(base, toy.total, lib(builtins).iter(batches))
    expect.close(expect.floats(result[0], (sum(sizes), width), "the features"), wanted, "the features are wrong")
    labels = expect.tensor(result[1], (sum(sizes),), "the labels")
    assert labels.tolist() == [int(label) for _, _, several in batches for label in several], "labels"
