"""Cases of notebook 04 that students never see: other sizes, other seeds, edges."""

import torch
from torch import nn
from torch.nn import functional as F

from autograder.private import private
from utils import expect, toys
from utils.answer import read
from utils.checks import nb04_head_swapping as seen
from utils.expect import normal

# 4.1


@private("4.1", tells="the head works for some leading dimensions only; it should take (..., d_model)")
def any_leading_dimensions(ClassificationHead):
    state = {"linear.weight": normal(3, 5, seed=100), "linear.bias": normal(3, seed=101)}
    head = seen.loaded(ClassificationHead(5, 3, 0.25), state)
    head.eval()
    for shape in ((5,), (2, 5), (2, 4, 5), (2, 1, 3, 5)):
        x = normal(*shape, seed=102)
        logits = expect.floats(head(x), (*shape[:-1], 3), "the logits")
        expect.close(logits, F.linear(x, state["linear.weight"], state["linear.bias"]), "the logits are wrong.")


@private("4.1", tells="dropout should act on the inputs at the rate that was given, 0 included")
def drops_single_inputs(ClassificationHead):
    for rate, options in ((0.3, {"dropout": 0.3}), (0.8, {"dropout": 0.8}), (0.1, {})):
        head = ClassificationHead(24, 24, **options)
        seen.drops_inputs(head, rate)
    silent = ClassificationHead(24, 24, 0.0)
    seen.loaded(silent, {"linear.weight": torch.eye(24), "linear.bias": torch.ones(24)})
    silent.train()
    assert (silent(torch.ones(9, 24)) == 2).all(), "something is dropped at a rate of 0"


@private("4.1", tells="a fresh head should give zero for every class and learn from the first step")
def fresh_for_any_size(ClassificationHead, lib):
    for d_model, classes in ((3, 9), (11, 2), (1, 1)):
        head = ClassificationHead(d_model, classes, 0.0)
        logits = expect.floats(head(normal(4, d_model, seed=103)), (4, classes), "the logits")
        assert (logits == 0).all(), "not zero"
    slopes = lib("utils.toys").parameter_gradients(ClassificationHead(4, 3, 0.0), normal(5, 4, seed=104))
    assert sum(bool(slope.any()) for slope in slopes.values()) == 2, "a part gets no gradient"


# 4.2


@private("4.2", tells="no gradient reaches the base, or the head: the model could not be trained as a whole")
def gradients_reach_everything(Model, lib):
    toy, torch_nn = lib("utils.toys"), lib("torch").nn
    states, weights = seen.reader_state(9, 5, 110), seen.linear_state(5, 2, 120)
    theirs = Model(seen.loaded(toy.Reader(9, 5), states), seen.loaded(torch_nn.Linear(5, 2), weights), toy.total)
    tokens, mask = torch.tensor([[1, 8, 2], [4, 4, 7]]), torch.tensor([[True, True, False], [True, True, True]])
    slopes = toy.parameter_gradients(toy.WithMask(theirs, mask), tokens)
    head = nn.Linear(5, 2)
    head.load_state_dict(weights)
    base = seen.reader(states)
    own = nn.ModuleDict({"base": base, "head": head})
    result = head(toys.total(base(tokens, mask), mask))
    (result.flatten() * torch.linspace(-1, 2, result.numel())).sum().backward()
    for name, part in own.named_parameters():
        expect.close(slopes[f"model.{name}"], part.grad, f"the gradient of {name} is wrong")


@private("4.2", tells="a pool or a base that is assigned later should be used from then on")
def parts_can_be_replaced(Model, lib):
    toy, torch_nn, setattr_ = lib("utils.toys"), lib("torch").nn, lib("builtins").setattr
    states, weights = seen.reader_state(9, 5, 130), seen.linear_state(5, 4, 140)
    first, head = seen.loaded(toy.Reader(9, 5), states), seen.loaded(torch_nn.Linear(5, 4), weights)
    model = Model(first, head)
    tokens, mask = torch.tensor([[1, 8, 2], [4, 4, 7]]), torch.tensor([[False, True, True], [True, True, True]])
    with torch.no_grad():
        wanted = F.linear(seen.reader(states)(tokens, mask), weights["weight"], weights["bias"])
    expect.close(expect.floats(model(tokens, mask), (2, 3, 4), "logits"), wanted, "the old pool is used")
    setattr_(model, "pool", toy.total)
    other = seen.reader_state(9, 5, 150)
    setattr_(model, "base", seen.loaded(toy.Reader(9, 5), other))
    with torch.no_grad():
        pooled = toys.total(seen.reader(other)(tokens, mask), mask)
    wanted = F.linear(pooled, weights["weight"], weights["bias"])
    expect.close(expect.floats(model(tokens, mask), (2, 4), "logits"), wanted, "the old base is used")


# 4.3


@private("4.3", tells="`base.` counts at the beginning of a name only; deeper in a name it must stay")
def prefix_deep_inside(load_base, lib):
    torch_nn = lib("torch").nn
    base = torch_nn.ModuleDict({"base": torch_nn.Linear(3, 2), "read": torch_nn.Linear(2, 2)})
    shapes = {"base.weight": (2, 3), "base.bias": (2,), "read.weight": (2, 2), "read.bias": (2,)}
    state = {name: normal(*shape, seed=160 + i) for i, (name, shape) in enumerate(shapes.items())}
    report = seen.report_of(load_base(base, seen.whole(state, head__bias=normal(4))))
    assert report == {"missing": [], "unexpected": [], "left": ["head.bias"]}, "the report is wrong"
    seen.holds(base, state, "{name} was not loaded")


@private("4.3", tells="a name that only looks like the prefix, such as `baseline`, or has it inside, is not the base's")
def names_like_the_prefix(load_base, lib):
    vocab, width = 5, 3
    base = seen.loaded(lib("utils.toys").Reader(vocab, width), seen.reader_state(vocab, width, 170))
    new = seen.reader_state(vocab, width, 180)
    state = seen.whole(new, baseline__weight=normal(2), head__base__bias=normal(2), base=normal(2))
    report = seen.report_of(load_base(base, state))
    assert report["left"] == ["base", "baseline.weight", "head.base.bias"], "left is wrong"
    assert report["missing"] == report["unexpected"] == [], "missing or unexpected is wrong"
    seen.holds(base, new, "{name} was not loaded")


@private("4.3", tells="a weight with the same number of entries in another shape does not fit")
def transposed_weight(load_base, lib):
    vocab, width = 6, 3
    old, new = seen.reader_state(vocab, width, 190), seen.reader_state(vocab, width, 200)
    base = seen.loaded(lib("utils.toys").Reader(vocab, width), old)
    state = seen.whole(new | {"embedding.weight": new["embedding.weight"].T.contiguous()})
    seen.refusal(load_base, base, state, ["embedding.weight"], "a transposed weight")
    seen.holds(base, old, "{name} was changed")
    report = seen.report_of(load_base(base, state, False))
    assert report == {"missing": ["embedding.weight"], "unexpected": ["embedding.weight"], "left": []}, "report"
    seen.holds(base, new | {"embedding.weight": old["embedding.weight"]}, "{name} is wrong")


@private("4.3", tells="when several weights do not fit, all of them should be named, sorted, and nothing be loaded")
def several_do_not_fit(load_base, lib):
    vocab, width = 4, 3
    old, new = seen.reader_state(vocab, width, 210), seen.reader_state(vocab, width, 220)
    base = seen.loaded(lib("utils.toys").Reader(vocab, width), old)
    state = {
        name: value
        for name, value in seen.whole(
            new, base__zeta=normal(2), base__alpha=normal(3), z=normal(1), a=normal(1)
        ).items()
        if not name.startswith("base.mix")
    }
    seen.refusal(load_base, base, state, ["mix.weight", "mix.bias", "zeta", "alpha"], "a bad checkpoint")
    seen.holds(base, old, "{name} was changed")
    report = seen.report_of(load_base(base, state, strict=False))
    wanted = {"missing": ["mix.bias", "mix.weight"], "unexpected": ["alpha", "zeta"], "left": ["a", "z"]}
    assert report == wanted, "the report is wrong"
    seen.refusal(load_base, base, {}, list(old), "an empty checkpoint")


# 4.4


@private("4.4", tells="a text should be pooled alike, alone or in company, with any amount of padding")
def alone_and_in_company(last_real):
    generator = torch.Generator().manual_seed(230)
    for trial in range(6):
        B, T, d = 1 + trial % 4, 3 + trial, 1 + trial
        states = torch.randn(B, T, d, generator=generator)
        lengths = torch.randint(1, T + 1, (B,), generator=generator).tolist()
        for left in (False, True):
            mask = seen.places(T, lengths, left)
            ends = [T - 1 if left else length - 1 for length in lengths]
            result = expect.floats(last_real(states, mask), (B, d), "the result")
            expect.close(result, seen.picked(states, ends), "wrong in a batch")
            for row in range(B):
                pads = (3, 0) if left else (0, 3)
                wide = F.pad(states[row : row + 1], (0, 0, *pads), value=torch.inf)
                alone = last_real(wide, F.pad(mask[row : row + 1], pads))
                expect.close(expect.floats(alone, (1, d), "alone"), seen.picked(states, ends)[row : row + 1], "alone")
    one = normal(1, 1, 4, seed=231)
    expect.close(expect.floats(last_real(one, torch.ones(1, 1)), (1, 4), "one token"), one[0], "one token")


@private("4.4", tells="padding on both sides, or between tokens, should not matter either")
def padding_on_both_sides(last_real):
    mask = torch.tensor([[0, 1, 1, 0, 0], [0, 0, 0, 1, 0], [1, 0, 1, 0, 0], [1, 1, 1, 1, 0]])
    states = normal(4, 5, 2, seed=232)
    for kind in (torch.bool, torch.int64, torch.float32):
        result = expect.floats(last_real(states, mask.to(kind)), (4, 2), "the result")
        expect.close(result, seen.picked(states, [2, 3, 2, 3]), "wrong")


@private("4.4", tells="the result should be of the type of the states")
def keeps_the_type(last_real):
    states, mask = normal(2, 3, 4, seed=233), seen.places(3, [2, 1])
    for kind in (torch.float64, torch.bfloat16, torch.float32):
        result = expect.tensor(last_real(states.to(kind), mask), (2, 4), "the result")
        assert result.dtype == kind, "another type"


@private("4.4", tells="a row without a real token must raise ValueError, wherever it stands")
def refuses_empty_rows(last_real):
    for lengths in ([0], [0, 3], [3, 3, 0]):
        mask = seen.places(3, lengths)
        for real in (mask, mask.long()):
            expect.raises(lambda real=real: last_real(normal(len(real), 3, 2), real), "ValueError", "let through")


@private("4.4", tells="the gradient of the result should flow to the picked states, unchanged")
def gradient_is_exact(last_real, lib):
    states, mask = normal(2, 4, 3, seed=234), seen.places(4, [3, 2])
    (gradient,) = lib("utils.toys").gradients(last_real, [states], mask)
    wanted = torch.zeros(2, 4, 3)
    wanted[[0, 1], [2, 1]] = torch.linspace(-1, 2, 6).reshape(2, 3)
    expect.close(gradient, wanted, "the gradient is wrong")


# 4.5


@private("4.5", tells="rows should be as long as the longest and no further than the longest of what is left")
def other_lengths(collate):
    generator = torch.Generator().manual_seed(240)
    for trial, cut in enumerate((None, 1, 7, 30, None, 4)):
        lengths = torch.randint(1, 13, (2 + trial,), generator=generator).tolist()
        examples = [[torch.randint(0, 9, (length,), generator=generator).tolist(), length % 3] for length in lengths]
        left = [min(length, cut or length) for length in lengths]
        tokens, mask, labels = seen.three(collate(examples, 3, cut), len(lengths), max(left))
        assert torch.equal(mask, seen.places(max(left), left)), "the mask is wrong"
        for row, length, (numbers, _) in zip(tokens.tolist(), left, examples, strict=True):
            assert row == numbers[:length] + [3] * (max(left) - length), "a row is wrong"
        assert labels.tolist() == [label for _, label in examples], "the labels are wrong"


@private("4.5", tells="without `max_len` nothing should be cut, however long")
def nothing_is_cut(collate):
    tokens, mask, _ = seen.three(collate([[list(range(700)), 0], [[1], 1]], 0), 2, 700)
    assert tokens[0].tolist() == list(range(700)) and mask[0].all(), "cut"
    assert mask[1].sum() == 1, "the mask is wrong"


@private("4.5", tells="a batch of a single example, or of rows of one length, should need no padding")
def no_padding_needed(collate):
    for rows in (1, 3):
        tokens, mask, labels = seen.three(collate([[[4, 0, 0], 1]] * rows, 0), rows, 3)
        assert mask.all() and tokens.tolist() == [[4, 0, 0]] * rows and labels.tolist() == [1] * rows, "wrong"


@private("4.5", tells="the examples that collate is given should stay as they are, cut or not")
def examples_stay(collate, lib):
    examples = [[[3, 4, 5, 6], 0], [[7], 2]]
    for rest in ((0,), (0, 2), (9, 100)):
        assert lib("utils.toys").left_behind(collate, examples, *rest) == examples, "changed"


# 4.6


@private("4.6", tells="the accuracy is wrong for other batches: any iterable of batches of any sizes will do")
def other_batches(accuracy, lib):
    for seed, shapes, hits in ((251, [(1, 2)], [1]), (252, [(3, 4), (5, 2), (1, 6)], [1, 4, 0]), (253, [(4, 3)], [0])):
        table, batches = seen.voting(seed, shapes, 5, 7, hits)
        model = lib("utils.toys").Voter(table)
        model.eval()
        wanted = sum(hits) / sum(B for B, _ in shapes)
        for given in (batches, lib("builtins").iter(batches)):
            expect.close(expect.number(accuracy(model, given), "accuracy"), wanted, "wrong")
    share = accuracy(model, batches)
    assert type(share) is float, "no float"


@private("4.6", tells="the wrong epoch is chosen on an unusual validation curve, or another is tested")
def other_curves(select, lib):
    for valid, test in (
        ([0.0, 0.0, 0.0], [0.3, 0.2, 0.1]),
        ([0.2, 0.1, 0.15, 0.05, 0.1, 0.9, 0.3], [0.1, 0.2, 0.9, 0.3, 0.8, 0.4, 0.7]),
        ([0.4], [0.6]),
        ([0.9, 0.8, 0.7, 0.6], [0.2, 0.5, 0.6, 0.7]),
        ([0.1, 0.2, 0.3], [0.9, 0.8, 0.7]),
        ([-0.5, -0.25, -0.25], [0.1, 0.2, 0.3]),
    ):
        model, report = seen.selected(select, lib, valid, test, len(valid))
        best = valid.index(max(valid))
        assert report["curve"] == valid, "the curve is wrong"
        assert report["epoch"] == best + 1, "the epoch is wrong"
        expect.close(report["test"], test[best], "the test accuracy is wrong")
        state = model.state_dict()
        assert [float(state["counter"]), float(state["seen"])] == [best + 1] * 2, "the weights are wrong"
        assert read(model.looks) == 1, "the test was looked at more than once"


# 4.7


@private("4.7", tells="parts deep inside a part should be frozen and thawed with it, all of them")
def deep_parts(freeze, unfreeze, lib):
    torch_nn, toy = lib("torch").nn, lib("utils.toys")
    x, labels = normal(5, 3, seed=260), torch.tensor([0, 1, 1, 0, 1])
    small = torch_nn.Sequential(torch_nn.Linear(3, 1), torch_nn.Sequential(torch_nn.Linear(1, 2)))
    deep = torch_nn.Sequential(small, torch_nn.LayerNorm(2))
    model = torch_nn.Sequential(deep, torch_nn.Linear(2, 2))
    optimizer = lib("torch.optim").SGD(model.parameters(), lr=0.5, momentum=0.9, weight_decay=0.1)
    toy.step(model, optimizer, x, labels)
    before = model.state_dict()
    freeze(deep)
    for _ in range(2):
        toy.step(model, optimizer, x, labels)
    after = model.state_dict()
    for name in before:
        assert torch.equal(before[name], after[name]) == name.startswith("0."), f"{name} is wrong"
    unfreeze(deep)
    toy.step(model, optimizer, x, labels)
    last = model.state_dict()
    assert not any(torch.equal(after[name], last[name]) for name in after), "not thawed"


@private("4.7", tells="the features are wrong for other batches: any iterable of batches of any sizes will do")
def other_features(features, lib):
    toy = lib("utils.toys")
    weights = seen.reader_state(11, 3, 270)
    base = seen.loaded(toy.Reader(11, 3, moody=True), weights)
    base.train()
    generator = torch.Generator().manual_seed(271)
    batches = []
    for B, T in ((1, 4), (3, 2), (2, 6)):
        mask = torch.arange(T) < torch.randint(1, T + 1, (B, 1), generator=generator)
        batches.append(
            [torch.randint(0, 11, (B, T), generator=generator), mask, torch.randint(0, 4, (B,), generator=generator)]
        )
    own = seen.reader(weights)
    with torch.no_grad():
        wanted = torch.cat([toys.total(own(tokens, mask), mask) for tokens, mask, _ in batches])
    for given in (batches, lib("builtins").iter(batches)):
        result = features(base, toy.total, given)
        expect.close(expect.floats(result[0], (6, 3), "the features"), wanted, "the features are wrong")
        assert result[1].tolist() == [int(label) for _, _, labels in batches for label in labels], "labels"
