"""Cases of notebook 06 that students never see: other sizes, other seeds, edges."""

import torch
from torch import nn
from torch.nn import functional as F

from autograder.private import private
from utils import expect, tiny_bert, toys
from utils.answer import read
from utils.checks import nb06_adapter_fusion as seen
from utils.expect import normal
from utils.tiny_bert import Sizes

# 6.1


@private("6.1", tells="the adapter is wrong for other widths, reductions or shapes of the states")
def other_widths(BottleneckAdapter):
    for d, reduction, r, shape in ((7, 2, 3, (7,)), (20, 16, 1, (3, 20)), (9, 1, 9, (2, 1, 3, 9)), (3, 8, 1, (4, 3))):
        module = BottleneckAdapter(d, reduction)
        seen.narrow(module, d, r, reduction, "an adapter")
        state = expect.weights(module, seen.bottleneck_shapes(d, r), "an adapter", seed=100 + d)
        seen.adapted(module, state, normal(*shape, seed=101), normal(*shape, seed=102))
    seen.narrow(BottleneckAdapter(15), 15, 1, 16, "an adapter")
    seen.narrow(BottleneckAdapter(d=70), 70, 4, 16, "an adapter")


@private("6.1", tells="weights should start small and biases at zero at every width, differently each time")
def starts_small_anywhere(BottleneckAdapter):
    first, second = BottleneckAdapter(300, 3).state_dict(), BottleneckAdapter(300, 3).state_dict()
    seen.small_start(first, ["down", "up"], "an adapter")
    assert not torch.equal(first["down.weight"], second["down.weight"]), "always the same"
    assert not torch.equal(first["up.weight"], second["up.weight"]), "always the same"


@private("6.1", tells="the gradients of the adapter, for its inputs or its weights, are wrong")
def gradients_flow(BottleneckAdapter, lib):
    module, own = BottleneckAdapter(6, 2), nn.ModuleDict({"down": nn.Linear(6, 3), "up": nn.Linear(3, 6)})
    state = expect.weights(module, seen.bottleneck_shapes(6, 3), "an adapter", seed=110)
    own.load_state_dict(state)
    x, h = normal(4, 6, seed=111), normal(4, 6, seed=112)

    def ours(x, h):
        return h + own["up"](own["down"](x).relu())

    for theirs, wanted in zip(lib("utils.toys").gradients(module, [x, h]), toys.gradients(ours, [x, h]), strict=True):
        expect.close(theirs, wanted, "a gradient of an input is wrong")
    slopes = lib("utils.toys").parameter_gradients(module, x)
    result = ours(x, x)
    own.zero_grad()
    (result.flatten() * torch.linspace(-1, 2, result.numel())).sum().backward()
    for name, part in own.named_parameters():
        expect.close(slopes[name], part.grad, "a gradient of a weight is wrong")


@private("6.1", tells="states and residual may be of other shapes that broadcast, or be one tensor")
def residual_of_states(BottleneckAdapter):
    module = BottleneckAdapter(6, 2)
    state = expect.weights(module, seen.bottleneck_shapes(6, 3), "an adapter", seed=120)
    x, row = normal(2, 3, 6, seed=121), normal(6, seed=122)
    result = expect.floats(module(x, row), (2, 3, 6), "the result")
    expect.close(result, row + seen.bottleneck(state, x), "broadcasting is wrong")
    expect.close(module(x, x), x + seen.bottleneck(state, x), "the residual is the states")


# 6.2


@private("6.2", tells="parts within parts, or weights that two layers share, are not chosen as they should be")
def tied_and_deep(train_only, lib):
    toy = lib("utils.tiny_bert")
    x, labels = normal(5, 4, seed=200), torch.tensor([0, 1, 1, 0, 2])
    theirs, ours = toy.tied(4, 3), tiny_bert.tied(4, 3)
    state = {name: normal(*value.shape, seed=201 + i) for i, (name, value) in enumerate(ours.state_dict().items())}
    state["2.weight"] = state["0.weight"]
    ours.load_state_dict(state)
    theirs.load_state_dict(state)
    start = {name: value.clone() for name, value in state.items()}
    sizes = toy.trained(train_only, theirs, [theirs[2], theirs[0]], x, labels, 0.1)
    seen.descend(ours, [ours[0].weight, ours[0].bias, ours[2].bias], x, labels, 0.1)
    seen.chosen(theirs.state_dict(), ours, start, "02", "3")
    seen.returned(sizes, [4, 4, 16], -1)
    parts = lib("torch").nn
    inner = parts.Sequential(parts.Linear(4, 4), parts.Sequential(parts.Linear(4, 4), parts.Tanh()))
    model = parts.Sequential(parts.Linear(4, 4), inner, parts.Linear(4, 3))
    before = model.state_dict()
    sizes = toy.trained(train_only, model, [inner], x, labels, 0.1)
    after = model.state_dict()
    for name in before:
        assert torch.equal(before[name], after[name]) != name.startswith("1."), f"{name} is wrong"
    seen.returned(sizes, [4, 4, 16, 16], -1)


@private("6.2", tells="the list that is returned should hold the model's own parameters, for an optimizer")
def returned_parameters_learn(train_only, lib):
    x, labels = normal(6, 5, seed=210), torch.tensor([0, 2, 1, 1, 0, 2])
    theirs, ours = seen.stack(lib, 211)
    start = {name: value.clone() for name, value in ours.state_dict().items()}
    trained = lib("utils.tiny_bert").trained
    trained(train_only, theirs, [theirs[1], theirs[4]], x, labels, 0.2, "chosen")
    seen.descend(ours, [*ours[1].parameters(), *ours[4].parameters()], x, labels, 0.2)
    seen.chosen(theirs.state_dict(), ours, start, "14", "03")


@private("6.2", tells="what was frozen before, or a part given twice, is not handled as it should be")
def frozen_before(train_only, lib):
    x, labels = normal(6, 5, seed=220), torch.tensor([0, 2, 1, 1, 0, 2])
    theirs, ours = seen.stack(lib, 221)
    start = {name: value.clone() for name, value in ours.state_dict().items()}
    theirs.requires_grad_(False)
    sizes = lib("utils.tiny_bert").trained(train_only, theirs, [theirs[4], theirs[4], theirs[0]], x, labels, 0.2)
    seen.descend(ours, [*ours[0].parameters(), *ours[4].parameters()], x, labels, 0.2)
    seen.chosen(theirs.state_dict(), ours, start, "04", "13")
    seen.returned(sizes, sorted([20, 4, 12, 3]), -1)
    sizes = lib("utils.tiny_bert").trained(train_only, theirs, [theirs], x, labels, 0.2)
    seen.descend(ours, list(ours.parameters()), x, labels, 0.2)
    for name, value in ours.state_dict().items():
        expect.close(theirs.state_dict()[name], value, "choosing the whole model is wrong")


@private("6.2", tells="a part that the model does not contain should be refused, wherever it stands in the list")
def refuses_strangers(train_only, lib):
    theirs, _ = seen.stack(lib, 230)
    parts = lib("torch").nn
    twin = parts.Linear(4, 4)
    twin.load_state_dict(theirs[1].state_dict())
    half = parts.Sequential(theirs[0], parts.Linear(4, 4))
    for wrong in ([twin], [theirs[0], twin, theirs[1]], [half]):
        expect.raises(lambda wrong=wrong: train_only(theirs, wrong), "ValueError", "let through")


# 6.3


@private("6.3", tells="the fusion is wrong for other widths or numbers of adapters")
def other_numbers(AdapterFusion):
    for d, n, B, T in ((5, 1, 2, 3), (3, 7, 1, 4), (10, 2, 4, 1)):
        module = AdapterFusion(d, n)
        state = expect.weights(module, seen.fusion_shapes(d), "a fusion", seed=300 + d)
        module.eval()
        states, outputs, residual = (
            normal(B, T, d, seed=301),
            normal(B, T, n, d, seed=302),
            normal(B, T, d, seed=303),
        )
        fused, weights = seen.fused_pair(module(states, outputs, residual), B, T, n, d)
        seen.weighed(state, states, outputs, residual, fused, weights)
        expect.raises(
            lambda module=module, d=d, n=n: module(normal(2, 3, d), normal(2, 3, n + 1, d), normal(2, 3, d)),
            "ValueError",
            "another number was let through",
        )


@private("6.3", tells="dropout should act on the scores at the rate that was given, 0 included, and rest in evaluation")
def drops_at_any_rate(AdapterFusion):
    for rate in (0.2, 0.7):
        seen.drops_scores(AdapterFusion(4, 2, rate), rate, 4)
        seen.drops_scores(AdapterFusion(d=4, n=2, dropout=rate), rate, 4)
    module = AdapterFusion(4, 2, 0.0)
    state = expect.weights(module, seen.fusion_shapes(4), "a fusion", seed=310)
    module.train()
    x, a, h = normal(2, 3, 4, seed=311), normal(2, 3, 2, 4, seed=312), normal(2, 3, 4, seed=313)
    expect.close(module(x, a, h)[0], seen.fuse(state, x, a, h)[0], "something is dropped at a rate of 0")


@private("6.3", tells="a fresh fusion does not start as the docstring says")
def starts_fresh(AdapterFusion):
    first, second = AdapterFusion(150, 2).state_dict(), AdapterFusion(150, 2).state_dict()
    seen.small_start(first, ["query", "key"], "a fusion")
    assert not torch.equal(first["query.weight"], second["query.weight"]), "always the same"
    assert not torch.equal(first["query.weight"], first["key.weight"]), "query and key are the same"
    assert (first["value.weight"] - torch.eye(150)).abs().max() < 1e-4, "not the identity"


@private("6.3", tells="the gradients of the fusion, or of its penalty, are wrong")
def gradients_of_fusion(AdapterFusion, lib):
    d, n = 5, 3
    module = AdapterFusion(d, n)
    state = expect.weights(module, seen.fusion_shapes(d), "a fusion", seed=320)
    module.eval()
    given = [normal(2, 4, d, seed=321), normal(2, 4, n, d, seed=322), normal(2, 4, d, seed=323)]
    theirs = lib("utils.toys").gradients(module, given)
    ours = toys.gradients(lambda *inputs: seen.fuse(state, *inputs), given)
    for slope, wanted in zip(theirs, ours, strict=True):
        expect.close(slope, wanted, "the gradient of an input is wrong")
    slope = lib("utils.tiny_bert").penalty_gradient(module)
    expect.close(slope, 0.02 * (state["value.weight"] - torch.eye(d)), "the gradient of the penalty is wrong")
    fresh = AdapterFusion(30, 2).penalty()
    assert abs(expect.number(fresh, "penalty")) < 1e-6, "a fresh fusion has a penalty"


# 6.4


@private("6.4", tells="the composition is wrong for other adapters, names, heads, classes or sizes")
def other_adapters(compose, lib):
    published = lib("utils.tiny_bert").publish(["snli", "boolq"], seen.differences(seen.SMALLER), 13)
    folders = {"second": published["boolq"], "first": published["snli"]}
    model = seen.composed(compose, lib, seen.SMALLER, folders, 13, "wic", 3)
    seen.works(model, seen.SMALLER, ["second", "first"], ["boolq", "snli"], 13, "wic", 3, lib)


@private("6.4", tells="without a number of classes the head should have two")
def two_classes(compose, lib):
    toy = lib("utils.tiny_bert")
    names = ["a", "b"]
    model = toy.bert(seen.differences(seen.PLAIN), 14)
    compose(model, toy.publish(names, seen.differences(seen.PLAIN), 14), "task")
    assert len(model.state_dict()["heads.task.4.bias"]) == 2, "another number of classes"
    seen.works(model, seen.PLAIN, names, names, 14, "task", 2, lib)


# 6.5


@private("6.5", tells="the logits are wrong for other batches, without padding or in which the types matter")
def other_batches(pair_logits, lib):
    names, sizes = ["a", "b", "c"], seen.SMALLER
    model, state = lib("utils.tiny_bert").fused(names, seen.differences(sizes), 15), seen.known(sizes, names, 15)
    model.eval()
    for count, lengths in ((1, (7, 7)), (5, (13, 5))):
        for batch in tiny_bert.pairs(count, [lengths], sizes.vocab, 16):
            order = ["labels", "attention_mask", "input_ids", "token_type_ids"]
            batch = {name: batch[name] for name in order}
            seen.typed(pair_logits(model, batch), state, sizes, names, batch)


@private("6.5", tells="an adapter that saw the target is kept, or one that did not is left out")
def other_cards(sources):
    cards = {
        "z": ["sst-2"],
        "rte": ["MNLI", "QNLI"],
        "RTE": ["qqp", "rte"],
        "mix": ["Rte"],
        "none": [],
        "rte-like": ["RTE3"],
    }
    assert sources(cards, "RTE") == ["z", "rte", "none", "rte-like"], "wrong"
    assert sources(cards, "SST-2") == ["rte", "RTE", "mix", "none", "rte-like"], "wrong"
    assert sources(cards, "CoLA") == list(cards), "wrong"
    expect.raises(lambda: sources({"mix": ["rTe"]}, "RTE"), "ValueError", "nothing is left")


@private("6.5", tells="fusion training is wrong where something else learned before, or was frozen before")
def whatever_learned_before(train_fusion, lib):
    toy, names, sizes = lib("utils.tiny_bert"), ["x", "y", "z"], seen.SMALLER
    state, batches = seen.known(sizes, names, 17), tiny_bert.pairs(2, [(9, 6), (13, 7)], sizes.vocab, 18)
    frozen = toy.fused(names, seen.differences(sizes), 17)
    frozen.requires_grad_(False)
    for _, part in enumerate(["rte"]):
        frozen.heads.requires_grad_(True)
    frozen.eval()
    seen.taught(train_fusion, frozen, state, sizes, names, batches, 0.3)
    warm = toy.fused(names, seen.differences(sizes), 17)
    toy.gradient_step(warm, batches[0], 0.0)  # leaves gradients everywhere
    seen.taught(train_fusion, warm, state, sizes, names, batches[1:], 0.7)
    losses = train_fusion(toy.fused(names, seen.differences(Sizes(dropout=0.5)), 17), batches[:1] * 3, 0.0)
    assert len({round(float(loss), 5) for loss in losses}) > 1, "no dropout"
    idle = toy.fused(names, seen.differences(Sizes(dropout=0.5)), 17)
    idle.eval()
    losses = train_fusion(idle, tiny_bert.pairs(2, [(9, 6)], 29, 18) * 3, 0.0)
    assert len({round(float(loss), 5) for loss in losses}) > 1, "no dropout after evaluation"


# 6.6


@private("6.6", tells="the weights are wrong for other models or batches")
def other_models(fusion_weights, lib):
    toy = lib("utils.tiny_bert")
    for names, sizes, seed in ((["p", "q"], seen.SMALLER, 19), (["e", "d", "c", "b"], Sizes(), 20)):
        model, state = toy.fused(names, seen.differences(sizes), seed), seen.known(sizes, names, seed)
        for plan in ([(5, [(13, 5)])], [(1, [(8, 8)]), (4, [(12, 5), (6, 5)])]):
            batches = [batch for count, lengths in plan for batch in tiny_bert.pairs(count, lengths, sizes.vocab, seed)]
            model.eval()
            seen.reads_weights(fusion_weights(model, batches), state, sizes, names, batches)
            assert read(model.training) is False, "the mode has changed"


@private("6.6", tells="real tokens of a sentence should count, wherever padding stands and whatever its type")
def padding_of_any_type(fusion_weights, lib):
    names, sizes = ["mnli", "qnli", "sick"], Sizes()
    model, state = lib("utils.tiny_bert").fused(names, seen.differences(sizes), 21), seen.known(sizes, names, 21)
    (batch,) = tiny_bert.pairs(4, [(12, 5)], sizes.vocab, 22)
    pads = F.pad(batch["token_type_ids"], (0, 0))
    pads[batch["attention_mask"] == 0] = 1
    batch = batch | {"token_type_ids": pads}
    seen.reads_weights(fusion_weights(model, [batch]), state, sizes, names, [batch])
