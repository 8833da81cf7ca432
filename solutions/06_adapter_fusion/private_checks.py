"""Cases of notebook 06 that students never see: other sizes, other seeds, edges, drawn for each submission."""

import random
from typing import Any

import torch
from torch import nn

from autograder.author.checks import private, swept, tells
from utils import tiny_bert
from utils.checks import nb06_adapter_fusion as seen
from utils.checks import nb06_toys as deep_toys
from utils.grading import expect, toys
from utils.grading.contract import sets_no_seed, world_kept
from utils.grading.expect import draw, generator, normal
from utils.grading.remote import Library, Remote, read
from utils.tiny_bert import Sizes


def word(some: random.Random) -> str:
    """A name that nobody has thought of."""
    return "".join(some.choices("abcdefghijklmnopqrstuvwxyz", k=6))


def sizes_of(some: random.Random, n_layers: int = 2, dropout: float = 0.0) -> Sizes:
    """The sizes of a tiny BERT, all different."""
    n_heads = some.choice([2, 3])
    d = n_heads * some.choice([4, 5])
    return Sizes(
        vocab=some.randint(20, 40),
        d_model=d,
        n_layers=n_layers,
        n_heads=n_heads,
        d_ff=d + some.randint(2, 7),
        places=some.randint(16, 19),
        reduction=some.choice([2, 3]),
        dropout=dropout,
    )


def seed_of(some: random.Random) -> int:
    """A seed for `utils.tiny_bert`."""
    return some.randrange(2**31)


# 6.1


adapters = swept("6.1", seen.ADAPTER, without={"layout", "device"})


@private("6.1", tells="the result is wrong if the residual is the same tensor as the states.")
def residual_of_states(BottleneckAdapter):
    some = draw(150)
    r = some.randint(2, 5)
    d, B, T = 2 * r, some.randint(2, 4), some.randint(5, 7)
    module = BottleneckAdapter(d, 2)
    state = expect.weights(module, seen.bottleneck_shapes(d, r), "an adapter", seed=151)
    x, row = normal(B, T, d, seed=152), normal(d, seed=153)
    with tells("the result is wrong if the residual is smaller than the states, and broadcasts to their shape."):
        result = expect.floats(expect.answers(module, x, row, says="it fails"), (B, T, d), "the result")
        expect.close(result, row + seen.bottleneck(state, x), "broadcasting is wrong")
    expect.close(module(x, x), x + seen.bottleneck(state, x), "the residual is the states")


# 6.2


def lesson(seed: int, d: int, classes: int = 3) -> tuple[torch.Tensor, torch.Tensor, float]:
    """Inputs, labels and a rate of learning."""
    some = draw(seed)
    count = some.randint(5, 8)
    labels = torch.randint(classes, (count,), generator=generator(seed + 1))
    return normal(count, d, seed=seed + 2), labels, some.uniform(0.1, 0.2)


def tied_twins(lib: Library, d: int, seed: int) -> tuple[Remote, nn.Module, dict[str, torch.Tensor]]:
    """A model whose first and last layer share a weight, in the student's process and here, and its known weights."""
    theirs, ours = lib(tiny_bert).tied(d, 3), tiny_bert.tied(d, 3)
    state = {name: normal(*value.shape, seed=seed + i) for i, (name, value) in enumerate(ours.state_dict().items())}
    state["2.weight"] = state["0.weight"]
    ours.load_state_dict(state)
    theirs.load_state_dict(state)
    return theirs, ours, state


@private("6.2", tells="a weight that two chosen layers share is not handled as one: it is listed twice, or frozen.")
def tied(train_only, lib):
    toy, d = lib(tiny_bert), draw(200).randint(4, 7)
    x, labels, lr = lesson(201, d)
    theirs, ours, state = tied_twins(lib, d, 205)
    start = {name: value.clone() for name, value in state.items()}
    with tells("a weight that two chosen layers share is refused: the model has it, though under another name."):
        given = train_only, theirs, [theirs[2], theirs[0]], x, labels, lr
        sizes = expect.answers(toy.trained, *given, says="refused")
    toys.descend(ours, [ours[0].weight, ours[0].bias, ours[2].bias], x, labels, lr, seen.DECAY)
    seen.chosen(theirs.state_dict(), ours, start, "02", "3")
    seen.returned(sizes, [d, d, d * d], -1)


@private(
    "6.2",
    tells=(
        "in a model with parts within parts, layers of other kinds and a parameter of its own, the wrong parameters "
        "are frozen or chosen."
    ),
)
def deep(train_only, lib):
    toy, d = lib(tiny_bert), draw(202).randint(4, 7)
    x, labels, lr = lesson(203, d)
    theirs, ours = lib(deep_toys).Deep(d, 3), deep_toys.Deep(d, 3)
    start = expect.same_weights(theirs, ours, 230)
    sizes = toy.trained(train_only, theirs, [theirs.inner[1][1]], x, labels, lr)
    toys.descend(ours, ours.inner[1][1].parameters(), x, labels, lr, seen.DECAY)
    seen.chosen(theirs.state_dict(), ours, start, ["inner.1.1"], ["own", "inner.0", "inner.1.0", "head"])
    seen.returned(sizes, sorted(part.numel() for part in ours.inner[1][1].parameters()), -1)


@private("6.2", tells="if another part shares a weight of a chosen part, the wrong parameters learn or are returned.")
def shared_outside(train_only, lib):
    toy, d = lib(tiny_bert), draw(210).randint(4, 7)
    x, labels, lr = lesson(211, d)
    for place in (2, 0):  # the other owner comes before the part, and after it
        theirs, ours, start = tied_twins(lib, d, 215 + place)
        sizes = toy.trained(train_only, theirs, [theirs[place]], x, labels, lr)
        toys.descend(ours, [ours[place].weight, ours[place].bias], x, labels, lr, seen.DECAY)
        state = theirs.state_dict()
        with tells("a weight of a chosen part that another part shares does not learn."):
            assert not torch.equal(state["0.weight"], start["0.weight"]), "it is frozen"
        for name, value in ours.state_dict().items():
            expect.close(state[name], value, f"{name} is wrong", 1e-4)
        seen.returned(sizes, [d, d * d], -1)


@private("6.2", tells="an old gradient deep inside the model moves a weight that was not chosen.")
def deep_gradients(train_only, lib):
    toy, d = lib(tiny_bert), draw(212).randint(4, 7)
    x, labels, lr = lesson(213, d)
    theirs, ours = lib(deep_toys).Deep(d, 3), deep_toys.Deep(d, 3)
    start = expect.same_weights(theirs, ours, 235)
    lib(toys).leave_gradients(theirs)
    toy.trained(train_only, theirs, [theirs.head], x, labels, lr)
    toys.descend(ours, ours.head.parameters(), x, labels, lr, seen.DECAY)
    seen.chosen(theirs.state_dict(), ours, start, ["head"], ["own", "inner.0", "inner.1.0", "inner.1.1"])


@private("6.2", tells="the list that is returned should hold the model's own parameters, for an optimizer.")
def returned_parameters_learn(train_only, lib):
    x, labels, lr = lesson(230, 5)
    theirs, ours = seen.stack(lib, 240)
    start = {name: value.clone() for name, value in ours.state_dict().items()}
    trained = lib(tiny_bert).trained
    trained(train_only, theirs, [theirs[1], theirs[4]], x, labels, lr, "chosen")
    toys.descend(ours, [*ours[1].parameters(), *ours[4].parameters()], x, labels, lr, seen.DECAY)
    seen.chosen(theirs.state_dict(), ours, start, "14", "03")


@private(
    "6.2",
    tells=("if parameters were frozen before, or a part is given twice, the wrong parameters learn or are returned."),
)
def frozen_before(train_only, lib):
    x, labels, lr = lesson(250, 5)
    theirs, ours = seen.stack(lib, 260)
    start = {name: value.clone() for name, value in ours.state_dict().items()}
    lib(toys).leave_gradients(theirs)
    theirs[3].requires_grad_(False)
    lib(tiny_bert).trained(train_only, theirs, [theirs[1]], x, labels, lr)
    now = theirs.state_dict()
    with tells("a parameter that was frozen before the call keeps its old gradient, and weight decay moves it."):
        assert expect.agree(now, start, "3"), "an old gradient"
    theirs.load_state_dict(start)
    start = {name: value.clone() for name, value in ours.state_dict().items()}
    lib(toys).leave_gradients(theirs)  # and none of them may move a weight that does not learn
    theirs.requires_grad_(False)
    first, second = draw(255).sample([0, 1, 3, 4], 2)
    given = [theirs[first], theirs[first], theirs[second]]
    sizes = lib(tiny_bert).trained(train_only, theirs, given, x, labels, lr)
    toys.descend(ours, [*ours[first].parameters(), *ours[second].parameters()], x, labels, lr, seen.DECAY)
    others = "".join(str(index) for index in (0, 1, 3, 4) if index not in (first, second))
    seen.chosen(theirs.state_dict(), ours, start, f"{first}{second}", others)
    seen.returned(sizes, sorted(part.numel() for index in (first, second) for part in ours[index].parameters()), -1)
    with tells("the whole model is given as a part, and it does not learn as a whole."):
        expect.answers(lib(tiny_bert).trained, train_only, theirs, [theirs], x, labels, lr, says="it fails")
        toys.descend(ours, ours.parameters(), x, labels, lr, seen.DECAY)
        for name, value in ours.state_dict().items():
            expect.close(theirs.state_dict()[name], value, "choosing the whole model is wrong")


@private("6.2", tells="a layer that only has the same numbers as a chosen one learns too.")
def equal_numbers(train_only, lib):
    x, labels, lr = lesson(265, 5)
    theirs, ours = seen.stack(lib, 266)
    state = ours.state_dict()
    state |= {f"3.{name}": state[f"1.{name}"].clone() for name in ("weight", "bias")}
    for model in (theirs, ours):
        model.load_state_dict(state)
    start = {name: value.clone() for name, value in ours.state_dict().items()}
    lib(tiny_bert).trained(train_only, theirs, [theirs[1]], x, labels, lr)
    toys.descend(ours, ours[1].parameters(), x, labels, lr, seen.DECAY)
    seen.chosen(theirs.state_dict(), ours, start, "1", "034")


@private(
    "6.2",
    tells=("a part with a parameter that is not in the model should raise ValueError, even if its numbers are equal."),
)
def refuses_strangers(train_only, lib):
    theirs, _ = seen.stack(lib, 270)
    parts = lib(nn)
    twin = parts.Linear(4, 4)
    twin.load_state_dict(theirs[1].state_dict())
    half = parts.Sequential(theirs[0], parts.Linear(4, 4))
    for wrong in ([twin], [theirs[0], twin, theirs[1]]):
        expect.refuses(train_only, theirs, wrong, says="let through")
    with tells("a part of which the model has some parameters, but not all, should raise ValueError."):
        expect.refuses(train_only, theirs, [half], says="let through")


@private("6.2", tells="without any part, everything should be frozen, and the list that is returned empty.")
def nothing_chosen(train_only, lib):
    theirs, _ = seen.stack(lib, 280)
    assert train_only(theirs, []) == [] and not any(lib(toys).learning(theirs)), "something learns"


# 6.3


fusions = swept("6.3", seen.FUSION, without={"layout", "device", "refusals"})
penalties = swept("6.3", seen.PENALTY)


@private("6.3", tells="in a fresh fusion, `query` and `key` have the same weights. Draw each on its own.")
def query_and_key(AdapterFusion):
    fresh = AdapterFusion(20, 2).state_dict()
    assert not torch.equal(fresh["query.weight"], fresh["key.weight"]), "query and key are the same"


@private("6.3", tells="the penalty of a fusion in double precision is not computed in double precision.")
def exact_penalty(AdapterFusion):
    d = draw(360).randint(5, 9)
    module = AdapterFusion(d, 2).double()
    state = expect.weights(module, seen.fusion_shapes(d), "a fusion", seed=361)
    found = module.penalty()
    assert type(found) is torch.Tensor and found.dtype is torch.float64, "not in double precision"
    expect.close(found.reshape(()), 0.01 * seen.drift(state["value.weight"].double()), "wrong", 1e-9)


# 6.4


@private("6.4", tells="the composed model is wrong for other adapters, another head or other sizes.")
def other_adapters(compose, lib):
    some = draw(400)
    sizes, seed, classes = sizes_of(some, some.choice([1, 3])), seed_of(some), some.choice([3, 4])
    published = [word(some) for _ in range(5)]
    names = [f"{word(some)}{place}" for place in range(len(published))]
    folders = lib(tiny_bert).publish(published, vars(sizes), seed)
    order = some.sample(range(len(names)), len(names))
    names, published, head = [names[place] for place in order], [published[place] for place in order], word(some)
    given = {new: folders[old] for new, old in zip(names, published, strict=True)}
    model = lib(tiny_bert).bert(vars(sizes), seed)
    try:
        compose(model, given, head, classes)
    finally:  # where it stops, the names may be the reason
        state = model.state_dict()
        with tells("an adapter that was saved under another name does not have its name in `folders`: use `load_as`."):
            missing = [name for name in names if not any(f".adapters.{name}." in key for key in state)]
            assert not missing or not any(".adapters." in key for key in state), "another name"
    with tells("with more adapters than in the notebook, not all are in the fusion, or they are in another order."):
        assert any(f"adapter_fusion_layer.{','.join(names)}." in key for key in state), "another fusion"
    with tells("the head does not have the name that `head` gives."):
        assert any(key.startswith(f"heads.{head}.") for key in state), "another name"
    with tells("the head has another number of classes than `n_classes`."):
        assert len(state.get(f"heads.{head}.4.bias", ())) in (0, classes), "other classes"
    seen.has_parts(model, sizes, names, head, classes)
    batch = tiny_bert.pairs(4, [(11, 6)], sizes.vocab, seed)[0] | {"labels": torch.arange(4) % classes}
    model.eval()
    logits = expect.answers(seen.logits_of, model, batch, says="a forward pass fails")
    with tells("for more than two classes, the head is not the library's default one: another loss is computed."):
        seen.loss_right(model, batch, logits)
    model.train()
    seen.works(model, sizes, names, published, seed, head, classes, lib)


@private("6.4", tells="the composed model is wrong if `n_classes` is not given: its head should have two classes.")
def two_classes(compose, lib):
    some, toy = draw(410), lib(tiny_bert)
    sizes, seed, names, head = sizes_of(some, 1), seed_of(some), [word(some) for _ in range(2)], word(some)
    folders = toy.publish(names, vars(sizes), seed)
    model, other = (toy.bert(vars(sizes), seed) for _ in range(2))
    with tells("`compose` sets a seed, so every call would draw the same random numbers."):
        sets_no_seed(lib, "compose", *(lambda one=one: compose(one, folders, head) for one in (model, other)))
    assert len(model.state_dict()[f"heads.{head}.4.bias"]) == 2, "another number of classes"
    seen.works(model, sizes, names, names, seed, head, 2, lib)


@private("6.4", tells="the composed model is wrong for a single adapter. It should go through a fusion too.")
def one_adapter(compose, lib):
    some = draw(415)
    sizes, seed, name, head = sizes_of(some, 1), seed_of(some), word(some), word(some)
    model = seen.composed(compose, lib, sizes, lib(tiny_bert).publish([name], vars(sizes), seed), seed, head, 2)
    seen.works(model, sizes, [name], [name], seed, head, 2, lib)


# 6.5


@private("6.5", tells="the logits are wrong for a batch whose entries have another order.")
def other_batches(pair_logits, lib):
    some = draw(500)
    names, sizes, seed = [word(some) for _ in range(3)], sizes_of(some), seed_of(some)
    model, state = lib(tiny_bert).fused(names, vars(sizes), seed), seen.known(sizes, names, seed)
    model.eval()
    (batch,) = tiny_bert.pairs(3, [(12, 5)], sizes.vocab, seed_of(some))
    turned = {name: batch[name] for name in [*batch][::-1]}
    seen.typed(pair_logits(model, turned), state, sizes, names, turned)
    single = {name: value[:1] for name, value in batch.items()}
    with tells("the logits are wrong for a batch of one pair."):
        seen.typed(pair_logits(model, single), state, sizes, names, single)


@private(
    "6.5",
    tells=("for other adapters or targets, an adapter that saw the target is kept, or one that did not is left out."),
)
def other_cards(sources):
    some = draw(510)
    target, one, two, three = (word(some) for _ in range(4))
    cards = {
        "z": [one],
        target: [two, three],
        target.upper(): [one, target],
        "mix": [target.capitalize()],
        "none": [],
        f"{target}-like": [f"{target}3"],
        "last": [three, two, target.upper()],
    }
    cards = {name: cards[name] for name in some.sample([*cards], len(cards))}
    leaks = {target.upper(), "mix", "last"}
    with tells("`sources` raises an error for other adapters, one of which was trained on no task."):
        found = expect.answers(sources, cards, target, says="it fails")
    with tells("an adapter that was trained on no task is left out. It never saw the target."):
        assert "none" in found, "no tasks"
    with tells("an adapter is left out because a task's name begins with, or contains, that of the target."):
        assert f"{target}-like" in found, "a longer name"
    with tells("an adapter is left out whose name is that of the target. Its tasks decide."):
        assert target in found, "a name"
    with tells("an adapter that saw the target is kept."):
        assert leaks.isdisjoint(found), "kept"
    for asked in (target, target.upper()):
        assert sources(cards, asked) == [name for name in cards if name not in leaks], "wrong"
    assert sources(cards, one.upper()) == [name for name in cards if name not in ("z", target.upper())], "wrong"
    assert sources(cards, word(some)) == list(cards), "wrong"
    expect.refuses(sources, {"mix": [target.capitalize()]}, target, says="nothing is left")


@private(
    "6.5",
    tells=(
        "`train_fusion` is wrong for a model that holds gradients before the call: the first step uses them, or "
        "other parts move."
    ),
)
def whatever_learned_before(train_fusion, lib):
    some, toy = draw(520), lib(tiny_bert)
    names, sizes, seed = [word(some) for _ in range(some.choice([2, 3]))], sizes_of(some), seed_of(some)
    state = seen.known(sizes, names, seed)
    batches = tiny_bert.pairs(2, [(9, 6), (13, 7)], sizes.vocab, seed_of(some))
    frozen = toy.fused(names, vars(sizes), seed)
    frozen.requires_grad_(False)
    frozen.heads.requires_grad_(True)
    frozen.eval()
    with tells("`train_fusion` is wrong for a model in which all but the head was frozen before: unfreeze the fusion."):
        seen.taught(train_fusion, frozen, state, sizes, names, batches, some.uniform(0.2, 0.4))
    warm = toy.fused(names, vars(sizes), seed)
    toy.gradient_step(warm, batches[0], 0.0)  # leaves gradients everywhere
    seen.taught(train_fusion, warm, state, sizes, names, batches[1:], some.uniform(0.5, 0.7))


def idle_fusion(lib: Library, seed: int) -> tuple[Remote, list[Any]]:
    """A fusion model with dropout below the heads, and a batch for it."""
    some = draw(seed)
    (batch,) = tiny_bert.pairs(2, [(9, 6)], 20, seed_of(some))
    idle = lib(tiny_bert).fused([word(some), word(some)], vars(sizes_of(some, dropout=0.5)), seed_of(some))
    lib(deep_toys).without_dropout(idle.heads)
    return idle, [batch]


@private(
    "6.5", tells=("dropout does not act during training if the model, or a part of it, was in evaluation mode before.")
)
def whatever_mode(train_fusion, lib):
    idle, batch = idle_fusion(lib, 530)
    for mode in (False, True):
        idle.train(mode)
        idle.bert.eval()
        losses = train_fusion(idle, batch * 3, 0.0)
        assert len({round(float(loss), 5) for loss in losses}) > 1, "no dropout after evaluation"


@private("6.5", tells=("with many batches, some are left out: `train_fusion` does not return one loss for each."))
def many_batches(train_fusion, lib):
    idle, batch = idle_fusion(lib, 531)
    count = draw(532).randint(7, 9)
    assert len(train_fusion(idle, batch * count, 0.0)) == count, "not all batches"


@private("6.5", tells="`train_fusion` sets a seed, so every run would draw the same random numbers.")
def no_seed(train_fusion, lib):
    idle, batch = idle_fusion(lib, 533)
    sets_no_seed(lib, "train_fusion", *[lambda: train_fusion(idle, batch, 0.0)] * 2)


# 6.6


@private("6.6", tells="the weights are wrong for a model with 12 layers.")
def many_layers(fusion_weights, lib):
    some, toy = draw(600), lib(tiny_bert)
    for n_layers, count in ((3, 4), (12, 2), (1, some.choice([2, 4]))):  # as text, 10 is sorted before 2
        names, sizes, seed = [word(some) for _ in range(count)], sizes_of(some, n_layers), seed_of(some)
        model, state = toy.fused(names, vars(sizes), seed), seen.known(sizes, names, seed)
        counts = some.sample(range(2, 7), 2)
        plan = [(counts[0], [(some.randint(11, 15), 5)]), (counts[1], [(some.randint(6, 10), 5), (8, 8)])]
        batches = [
            batch for count, lengths in plan for batch in tiny_bert.pairs(count, lengths, sizes.vocab, seed_of(some))
        ]
        model.eval()
        found = fusion_weights(model, batches)
        model_with = {3: "another model, of three layers", 12: "a model with 12 layers", 1: "a model with one layer"}
        with tells(f"for {model_with[n_layers]}, the result has no row for each layer."):
            expect.of_type(found, torch.Tensor, "the weights should be a tensor")
            assert found.ndim and len(found) == n_layers, "another number of layers"
        with tells("for another number of adapters than three, the shape of the result is wrong."):
            found = expect.floats(found, (n_layers, 2, len(names)), "the weights")
        right = seen.read_off(state, sizes, names, batches, seen.real)
        as_text = right[sorted(range(n_layers), key=str)]
        with tells("for a model with 12 layers, the layers are sorted as text: 10 comes after 9, not after 1."):
            assert n_layers < 11 or not expect.near(found, as_text, atol=1e-4), "sorted as text"
        with tells(f"the weights are wrong for {model_with[n_layers]}."):
            seen.reads_weights(found, state, sizes, names, batches)
        with tells("a model in evaluation mode is in training mode afterwards."):
            assert read(model.training) is False, "the mode has changed"


@private("6.6", tells="the weights are wrong if a batch has only one pair.")
def batches_of_one(fusion_weights, lib):
    some = draw(640)
    names, sizes, seed = [word(some) for _ in range(2)], sizes_of(some), seed_of(some)
    model, state = lib(tiny_bert).fused(names, vars(sizes), seed), seen.known(sizes, names, seed)
    batches = tiny_bert.pairs(1, [(9, 5), (7, 5), (11, 6)], sizes.vocab, seed_of(some))
    batches += tiny_bert.pairs(3, [(8, 5)], sizes.vocab, seed_of(some))
    model.eval()
    seen.reads_weights(fusion_weights(model, batches), state, sizes, names, batches)


@private(
    "6.6", tells=("the weights are wrong if padding has token type 1. Only the real tokens of a sentence should count.")
)
def padding_of_any_type(fusion_weights, lib):
    some = draw(610)
    names, sizes, seed = [word(some) for _ in range(3)], sizes_of(some), seed_of(some)
    model, state = lib(tiny_bert).fused(names, vars(sizes), seed), seen.known(sizes, names, seed)
    (batch,) = tiny_bert.pairs(some.randint(4, 6), [(some.randint(13, 15), 5)], sizes.vocab, seed_of(some))
    types = batch["token_type_ids"].clone()
    types[batch["attention_mask"] == 0] = 1
    batch = batch | {"token_type_ids": types}
    seen.reads_weights(fusion_weights(model, [batch]), state, sizes, names, [batch])


@private("6.6", tells="the weights are wrong if a batch, or a text in it, has no token of the second sentence.")
def first_sentences_alone(fusion_weights, lib):
    some = draw(620)
    names, sizes, seed = [word(some) for _ in range(3)], sizes_of(some), seed_of(some)
    model, state = lib(tiny_bert).fused(names, vars(sizes), seed), seen.known(sizes, names, seed)
    batches = tiny_bert.pairs(2, [(9, 5), (some.randint(11, 14), 5)], sizes.vocab, seed_of(some))
    batches[0]["token_type_ids"] *= 0
    batches[1]["token_type_ids"][1] = 0
    for order in (batches, batches[::-1]):
        seen.reads_weights(fusion_weights(model, order), state, sizes, names, order)


# 6.7


@private("6.7", tells=("the share is wrong if accuracies differ by very little. Only equal accuracies are a tie."))
def nearly_equal_runs(share_ahead):
    seen.ahead_in_pairs(share_ahead, [0.5, 0.5 + 1e-9], [0.5, 0.5 - 1e-9, 0.5 + 1e-9])


@private("6.7", tells="the share is wrong if an accuracy is 0 or 1.")
def extreme_runs(share_ahead):
    for first, other in (([0.0, 0.5, 1.0], [0.0, 0.4]), ([0.0], [0.0, 1.0]), ([1.0, 0.0, 0.0], [0.0, 0.3, 1.0])):
        seen.ahead_in_pairs(share_ahead, first, other)


@private("6.7", tells="the share is wrong for long lists of accuracies.")
def many_runs(share_ahead):
    some = draw(672)
    first = [some.randint(500 * half, 500 * half + 499) / 1000 for half in (0, 1) for _ in range(some.randint(95, 105))]
    other = [some.randint(1, 510) / 1000 for _ in range(some.randint(180, 190))]
    seen.ahead_in_pairs(share_ahead, first, other)
