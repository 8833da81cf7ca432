"""Checks of notebook 04: head, model, loading a base, pooling, collating, selecting, freezing."""

import builtins
import operator
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from utils import tiny_bert
from utils.checks import nb04_toys as toys
from utils.grading import expect
from utils.grading.check import check
from utils.grading.contract import Contract, world_kept
from utils.grading.expect import normal
from utils.grading.remote import EMPTY, INFINITY, Library, Remote, StudentError, called, kind, promised, read


def stays_there(lib: Library, call: Any, *given: Any) -> None:
    """Fail if `call(*given)` would not work, or come back elsewhere, with its tensors and modules on a GPU."""
    told = lib(toys).elsewhere(call, *given)
    assert told != "two devices", (
        "on a GPU this stops: a tensor in your code is on the processor. It should be where the inputs are."
    )
    assert told != "here", "on a GPU the result would be on the processor. It should be where the inputs are."


# 4.1

HEAD = Contract(
    "ClassificationHead(d, C, 0.0)(states)",
    sizes={"d": (1, 9, 900), "C": (1, 6, 600)},
    states="floats (..., d)",
    gives="the logits: as states (..., C)",
    weights=lambda d, C, rate: {"linear.weight": (C, d), "linear.bias": (C,)},
    right=lambda state, d, C, rate, states: F.linear(states, state["linear.weight"], state["linear.bias"]),
    learns="states",
    draws=True,
)


@check("4.1", points=2)
def classification_head(ClassificationHead, lib):
    """Check for dropout and then one linear map that starts with no opinion."""
    d_model, classes, x = 6, 4, normal(3, 6, seed=1)
    head = ClassificationHead(d_model, classes, 0.5)
    fresh = expect.state(head, "ClassificationHead")
    assert "linear.bias" in fresh or "linear.weight" not in fresh, "`linear` should have a bias."
    state = expect.weights(
        head, {"linear.weight": (classes, d_model), "linear.bias": (classes,)}, "`ClassificationHead(6, 4, 0.5)`"
    )
    assert (fresh["linear.weight"] == 0).all(), (
        "the weight of a fresh head is not zero. It should start at zero, so that every class gets the same logit."
    )
    assert (fresh["linear.bias"] == 0).all(), (
        "the bias of a fresh head is not zero. It should start at zero, so that no class is preferred."
    )

    head.eval()
    logits = expect.floats(head(x), (3, classes), "the logits")
    assert torch.equal(head(x).float(), logits), (
        "in evaluation mode, two calls with the same states differ. Dropout should be off there."
    )
    wanted = F.linear(x, state["linear.weight"], state["linear.bias"])
    expect.like(
        logits,
        wanted,
        "the logits are not those of the linear layer.",
        {
            "probabilities are returned. The loss expects logits.": wanted.softmax(-1),
            "log-probabilities are returned. The head should give the logits themselves.": wanted.log_softmax(-1),
            "the logits pass through ReLU, so none is negative. Return them as they are.": wanted.relu(),
            "the logits pass through tanh. Return them as the linear layer gives them.": wanted.tanh(),
            "the states pass through ReLU before the linear layer.": F.linear(
                x.relu(), state["linear.weight"], state["linear.bias"]
            ),
        },
    )
    told = "a head seeds torch's global generator, so everything drawn after it is the same in every run."
    assert lib(toys).reseeds(ClassificationHead, d_model, classes) is False, told
    for rate, head in ((0.5, ClassificationHead(24, 24, 0.5)), (0.1, ClassificationHead(24, 24))):
        drops_inputs(head, rate)
    sure = ClassificationHead(d_model, classes, 0.0)
    wanted = F.linear(x, state["linear.weight"], state["linear.bias"])
    logits = expect.floats(loaded(sure, state)(x), (3, classes), "the logits")
    expect.close(
        logits, wanted, "in training mode with a dropout of 0, the logits are wrong. Nothing should be dropped."
    )
    learns(lib, ClassificationHead, state, x)

    HEAD.hold(ClassificationHead, lib, "sizes", "layout", "gradients", "dtypes")
    stays_there(lib, lib(operator).call, ClassificationHead(d_model, classes), x)


def learns(lib: Library, ClassificationHead: Remote, state: dict[str, torch.Tensor], x: torch.Tensor) -> None:
    """Fail unless gradients reach weight and bias of a fresh head with so many inputs and classes."""
    (classes, d_model), toy = state["linear.weight"].shape, lib(toys)
    up = torch.linspace(-1, 2, len(x) * classes).reshape(-1, classes)
    told = "a parameter of a fresh head does not learn: its `requires_grad` is False."
    assert all(toy.learning(ClassificationHead(d_model, classes, 0.0))), told
    slopes = toy.parameter_gradients(ClassificationHead(d_model, classes, 0.0), x)
    assert {*slopes} == {*state}, "weight and bias of `linear` should be parameters, and nothing else."
    for name, wanted in (("linear.weight", up.T @ x), ("linear.bias", up.sum(0))):
        told = f"`{name}` of a fresh head does not get the right gradient, so it cannot learn as it should."
        expect.close(expect.floats(slopes[name], tuple(wanted.shape), "the gradient"), wanted, told)


def drops_inputs(head: Remote, rate: float, width: int = 24, value: float = 1.0, bias: float = 1.0) -> None:
    """Fail unless dropout acts on the inputs of a training head at `rate`.

    With the identity as weight, an input `value` that was dropped leaves the bias.
    """
    head.load_state_dict({"linear.weight": torch.eye(width), "linear.bias": torch.full((width,), bias)})
    head.train()
    kept = expect.tensor(head.state_dict()["linear.weight"], (width, width), "the weight")
    assert torch.equal(kept.float(), torch.eye(width)), (
        "`train()` changes the weights of the head. It should set the mode alone."
    )
    given = torch.full((200, width), value)
    logits = expect.floats(head(given), (200, width), "the logits in training")
    passed = (logits - bias) / value  # 0 or 1 / (1 - rate)
    default = " That is the rate without `dropout`." * (rate == 0.1)
    told = f"in training mode with a dropout of {rate:g}, nothing is dropped.{default}"
    assert not expect.near(passed, torch.ones(200, width)), told
    assert (logits != 0).all(), "dropout acts on the logits. It should act on the input of the linear layer."
    dropped = passed.abs() < 1e-4
    assert dropped.float().mean(dim=1).std() < 0.25, (
        "whole states are dropped. Dropout should choose each input on its own."
    )
    again = expect.floats(head(given), (200, width), "the logits in training")
    fixed = bool(dropped.any()) and ((dropped == dropped[0]).all() or torch.equal(logits, again))
    assert not fixed, "every state, or every call, loses the same inputs. Dropout should choose new ones each time."
    unscaled = dropped.any() and expect.near(passed[~dropped], torch.ones(int((~dropped).sum())))
    assert not unscaled, "what dropout keeps is not scaled. In training mode it should be divided by 1 - dropout."
    right = dropped | ((passed - 1 / (1 - rate)).abs() < 1e-3)
    share = dropped.float().mean().item()
    told = f"in training mode, about {share:.0%} of the inputs are dropped, not {rate:.0%}."
    assert abs(share - rate) < 0.06, told + default
    assert right.all(), "what dropout keeps is scaled wrongly. In training mode it should be divided by 1 - dropout."


# 4.2

TOKENS = torch.tensor([[3, 1, 4, 1, 5], [2, 6, 0, 0, 0], [5, 3, 2, 0, 0]])
MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 1, 1, 1, 0]], dtype=torch.bool)  # token 0 may be real


def reader_state(vocab: int, width: int, seed: int = 0) -> dict[str, torch.Tensor]:
    """Random weights for `toys.Reader`."""
    return {
        "offset": normal(width, seed=seed + 1),
        "embedding.weight": normal(vocab, width, seed=seed + 2),
        "mix.weight": normal(width, width, seed=seed + 3),
        "mix.bias": normal(width, seed=seed + 4),
    }


def reader(state: dict[str, torch.Tensor]) -> toys.Reader:
    """A `toys.Reader` of this process with these weights."""
    base = toys.Reader(*state["embedding.weight"].shape)
    base.load_state_dict(state)
    return base


def linear_state(width: int, classes: int, seed: int) -> dict[str, torch.Tensor]:
    """Random weights for a linear head."""
    return {"weight": normal(classes, width, seed=seed), "bias": normal(classes, seed=seed + 1)}


def loaded(module: Remote, state: dict[str, torch.Tensor]) -> Remote:
    """`module` of the student's process with these weights."""
    module.load_state_dict(state)
    return module


LANGUAGE_MODEL = Contract(
    "Model(base, head)(tokens, mask)",
    sizes={"B": (1, 5), "T": (1, 7, 600), "V": (2, 9), "d": (1, 5)},
    base=lambda toys, seed, V, d: toys.filled(toys.Reader(V, d), seed),
    head=lambda toys, seed, V, d: toys.linear(d, V, seed + 1),
    toys=toys,
    tokens="ids (B, T) below V",
    mask="bools (B, T)",
    gives="the logits: float (B, T, V)",
    right=lambda base, head, tokens, mask: head(base(tokens, mask)),
)
CLASSIFIER = Contract(
    "Model(base, head, pool)(tokens, mask)",
    sizes={"B": (1, 5), "T": (1, 7, 600), "V": (2, 9), "d": (1, 5), "C": (1, 6)},
    base=lambda toys, seed, V, d: toys.filled(toys.Reader(V, d), seed),
    head=lambda toys, seed, d, C: toys.linear(d, C, seed + 1),
    pool=lambda toys, seed: toys.twice_total,
    toys=toys,
    tokens="ids (B, T) below V",
    mask="bools (B, T)",
    gives="the logits: float (B, C)",
    right=lambda base, head, pool, tokens, mask: head(pool(base(tokens, mask), mask)),
)


@check("4.2", points=2)
def model(Model, lib):
    """Check the order of base, pool and head, that the mask reaches base and pool, and that parts can be swapped."""
    vocab, width, classes = 7, 4, 3
    states, weights = reader_state(vocab, width), linear_state(width, classes, 20)
    base = loaded(lib(toys).Reader(vocab, width), states)
    head = loaded(lib(nn).Linear(width, classes), weights)
    words = linear_state(width, vocab, 30)
    with torch.no_grad():
        seen, blind, turned = (reader(states)(TOKENS, mask) for mask in (MASK, None, ~MASK))

    language = Model(base, loaded(lib(nn).Linear(width, vocab), words))
    names = expect.state(language, "Model")
    wanted = {f"base.{name}" for name in states} | {"head.weight", "head.bias"}
    lost = sorted(wanted - {*names})
    assert not lost, f"`{lost[0]}` is not in the model's state_dict: `base` and `head` should be its parts."
    assert {*names} == wanted, f"the model has a part too many: `{sorted({*names} - wanted)[0]}`."
    result = language(TOKENS, MASK)
    assert type(result) is torch.Tensor and result.ndim == 3, (
        f"without a pool, the head should be applied to every state, giving (B, T, V), not {kind(result)}."
    )
    logits = expect.floats(result, (3, 5, vocab), "the logits of a language model")
    expect.like(
        logits,
        F.linear(seen, words["weight"], words["bias"]),
        "without a pool, the logits are not head(base(tokens, mask)).",
        {
            "without a pool, the base does not get the mask.": F.linear(blind, words["weight"], words["bias"]),
            "the base gets the mask the wrong way round. Pass it on as it is: true marks a real token.": F.linear(
                turned, words["weight"], words["bias"]
            ),
            "the states at padding are replaced by 0. The head should get the states as the base gives them.": F.linear(
                seen * MASK.unsqueeze(-1), words["weight"], words["bias"]
            ),
        },
    )

    classifier = Model(base, head, lib(toys).total)
    result = classifier(TOKENS, MASK)
    assert type(result) is not torch.Tensor or result.shape != (3, 5, classes), (
        "there is a row of logits for every token. With a pool, the head should get what the pool gives, (B, d_model)."
    )
    logits = expect.floats(result, (3, classes), "the logits of a classifier")

    def after(states: torch.Tensor, pool_mask: torch.Tensor | None) -> torch.Tensor:
        return F.linear(toys.total(states, pool_mask), weights["weight"], weights["bias"])

    expect.like(
        logits,
        after(seen, MASK),
        "with a pool, the logits are not head(pool(base(tokens, mask), mask)).",
        {
            "the head runs before the pool. Pool the states first, then apply the head.": toys.total(
                F.linear(seen, weights["weight"], weights["bias"]), MASK
            ),
            "the pool does not get the mask.": after(seen, None),
            "the base does not get the mask.": after(blind, MASK),
            "neither the base nor the pool gets the mask.": after(blind, None),
            "the pool that was given is not the one that is used: the last position is always taken.": F.linear(
                seen[:, -1], weights["weight"], weights["bias"]
            ),
            "the pool that was given is not the one that is used: the mean is always taken.": F.linear(
                seen.mean(1), weights["weight"], weights["bias"]
            ),
            "probabilities are returned. The model should give the head's logits.": after(seen, MASK).softmax(-1),
        },
    )
    other = reader_state(vocab, width, 40)
    base.load_state_dict(other)
    with torch.no_grad():
        moved = after(reader(other)(TOKENS, MASK), MASK)
    fresh = (TOKENS + 1) % vocab  # not seen before: nothing can have been kept of them
    with torch.no_grad():
        unseen = after(reader(other)(fresh, MASK), MASK)
        copied = after(reader(states)(fresh), MASK)
    expect.like(
        expect.floats(classifier(fresh, MASK), (3, classes), "the logits"),
        unseen,
        "after the base's weights changed, the logits are not those of its new weights. Nothing should be kept.",
        {"the model works on a copy of the base. Two models with one base should share its weights.": copied},
        once=True,
    )
    sentence = (
        "after the base's weights changed, tokens that were read before do not give the logits of its new weights. "
        "Nothing should be kept."
    )
    expect.close(expect.floats(classifier(TOKENS, MASK), (3, classes), "the logits"), moved, sentence)
    five = linear_state(width, 5, 50)
    lib(builtins).setattr(classifier, "head", loaded(lib(nn).Linear(width, 5), five))
    sentence = "after `model.head = another_head`, the logits are not those of the new head."
    result = classifier(TOKENS, MASK)
    assert type(result) is torch.Tensor and result.shape == (3, 5), sentence
    with torch.no_grad():
        pooled = toys.total(reader(other)(TOKENS, MASK), MASK)
    expect.close(result, F.linear(pooled, five["weight"], five["bias"]), sentence)

    sentence = (
        "after `model.pool = None` the logits should be (B, T, C) again: look at `pool` when the model is called."
    )
    lib(builtins).setattr(classifier, "pool", None)
    result = expect.answers(classifier, TOKENS, MASK, says=sentence)
    assert type(result) is torch.Tensor and result.shape == (3, 5, 5), sentence
    with torch.no_grad():
        expect.close(result, F.linear(reader(other)(TOKENS, MASK), five["weight"], five["bias"]), sentence)
    learned = Model(base, head, lib(nn).Bilinear(2, 2, 2)).state_dict()
    assert "pool.weight" in learned and "pool.bias" in learned, (
        "a pool that has weights should be a part of the model, like base and head. Otherwise it never learns."
    )
    pool = lib(toys).WitnessPool()
    given = Model(lib(toys).Witness(), lib(nn).Identity(), pool)
    if not lib(operator).is_(lib(builtins).getattr(given, "pool"), pool):
        hidden = lib(builtins).hasattr(Model, "pool")
        why = " The class has a `pool` of its own, which hides it." if hidden else ""
        raise AssertionError(f"`model.pool` is not the pool that was given.{why}")
    for mask in (MASK, torch.ones(2, 4, dtype=torch.bool), MASK[1:2], MASK[:, :1]):
        as_it_is(Model, lib, mask)
    CLASSIFIER.hold(Model, lib, "memory")
    kept = lib(toys).kept_after(classifier, TOKENS, MASK)
    assert not kept, f"after a call the model holds `{kept[0]}`. Nothing should be kept from one call to the next."


def as_it_is(Model: Remote, lib: Library, mask: torch.Tensor) -> None:
    """Fail unless base and pool get this mask as it is, and are in the mode of the model."""
    B, T = mask.shape
    toy, through = lib(toys), lib(nn).Identity()
    for name, model, shape in (
        ("base", Model(toy.Witness(), through), (B, T, 4)),
        ("pool", Model(toy.Witness(), through, toy.WitnessPool()), (B, 4)),
    ):
        for training in (True, False):
            model.train(training)
            told = f"the {name} should get two arguments, one of them the mask, even where nothing is padding."
            tokens = torch.arange(1, B * T + 1).view(B, T)
            logits = expect.answers(model, tokens, mask, says=told, kinds=("TypeError", "AttributeError"))
            facts = torch.stack([mask.float(), torch.ones(B, T), torch.full((B, T), float(training)), tokens], dim=-1)
            facts = facts if name == "base" else facts.mean(dim=1)
            skipped = type(logits) is torch.Tensor and logits.shape == (B, T, 4) != shape
            if skipped:
                pooled = Model(toy.Witness(), through, toy.total).train(training)(tokens, mask)
                other = type(pooled) is torch.Tensor and pooled.shape == shape
                why = (
                    "Compare it with None: a module may count as false." if other else f"The mask is `{mask.tolist()}`."
                )
                raise AssertionError(f"a pool was given, but it is not used. {why}")
            logits = expect.floats(logits, shape, "the logits")
            told = f"the {name} gets another mask than the model, for `{mask.tolist()}`."
            expect.close(logits[..., 0], facts[..., 0], told)
            told = f"the {name} gets a mask of another type than the model: true and false became numbers."
            expect.close(logits[..., 1], facts[..., 1], told)
            told = (
                f"the {name} is not in the mode of the model: `train()` and `eval()` should reach all parts, and "
                "a call should change no mode."
            )
            expect.close(logits[..., 2], facts[..., 2], told)
            told = (
                "the base gets other tokens than the model. Pass them on as they are: the mask says what is padding."
                if name == "base"
                else "the pool gets other states than the base gives for these tokens: the mask says what is padding."
            )
            expect.close(logits[..., 3], facts[..., 3], told)


# 4.3


def whole(states: dict[str, torch.Tensor], **others: torch.Tensor) -> dict[str, torch.Tensor]:
    """The state dict of a whole model around a base with these weights; `head__weight` stands for `head.weight`."""
    named = {f"base.{name}": value for name, value in states.items()}
    return named | {name.replace("__", "."): value for name, value in others.items()}


def without(state: dict[str, torch.Tensor], *names: str) -> dict[str, torch.Tensor]:
    """`state` without some names."""
    return {name: value for name, value in state.items() if name not in names}


def report_of(result: Any) -> dict[str, list[str]]:
    """What load_base reports: three sorted lists of names."""
    parts = ("missing", "unexpected", "left")
    expect.fields(result, parts, "`load_base` should return a dict of three lists")
    for name in parts:
        names = expect.of_type(result[name], list, f"`{name}` of the report should be a list")
        assert all(type(item) is str for item in names), f"`{name}` of the report should hold names, as strings."
        assert names == sorted(names), f"`{name}` of the report should be sorted."
    return result


def holds(base: Remote, wanted: dict[str, torch.Tensor], sentence: str) -> None:
    """Fail with `sentence` unless the base has exactly these weights."""
    state = base.state_dict()
    assert type(state) is dict and {*state} == {*wanted}, "`load_base` changed which parts the base has."
    for name, value in wanted.items():
        same = type(state[name]) is torch.Tensor and torch.equal(state[name].float(), value.float())
        assert same, sentence.format(name=name)


def refusal(load_base: Remote, base: Remote, state: dict[str, torch.Tensor], names: list[str], what: str) -> None:
    """Fail unless `load_base` refuses `state` with a ValueError that says all of `names`."""
    try:
        load_base(base, state)
    except StudentError as error:
        if error.is_no_answer:
            raise
        assert "ValueError" in error.kinds, (
            f"{what} should raise ValueError. Your code raised {error.type_name or 'nothing usable'}."
        )
        unsaid = [name for name in names if name not in str(error)]
        assert not unsaid, (
            f"the error should name all that is missing or unexpected. For {what} it does not name `{unsaid[0]}`."
        )
        return
    raise AssertionError(f"{what} is accepted. `load_base` should raise ValueError.")


def loads(load_base: Remote, base: Remote, state: dict[str, torch.Tensor]) -> Any:
    """What `load_base` gives for a state that fits; fail with a sentence of its own where the buffer is refused."""
    try:
        return load_base(base, state)
    except StudentError as error:
        said = {name for name in state if name.removeprefix("base.") in str(error)}
        assert "ValueError" not in error.kinds or said != {"base.offset"}, (
            "`offset`, a buffer of the base, is refused. Names are those of the base's state dict: it has buffers too."
        )
        raise


@check("4.3", points=3)
def load_base(load_base, lib):
    """Check that a base gets its weights from a whole model's, with a report; a partial load must be asked for."""
    vocab, width = 7, 4
    old, new = reader_state(vocab, width), reader_state(vocab, width, 60)
    base = loaded(lib(toys).Reader(vocab, width), old)
    head = {"head__weight": normal(3, width), "head__bias": normal(3)}
    with world_kept(lib, "after `load_base`"):
        result = loads(load_base, base, whole(new, **head))
    report = report_of(result)
    parameters = {name: value for name, value in new.items() if name != "offset"}
    loaded_now = expect.state(base, "the base")
    for name in parameters:
        assert name not in loaded_now or not torch.equal(loaded_now[name], old[name]), (
            f"`{name}` of the base was not loaded."
        )
    told = "`{name}` of the base does not hold the values of the checkpoint. Copy them as they are."
    holds(base, old | {"offset": loaded_now.get("offset")} | parameters, told)
    holds(base, new, "the buffer `{name}` was not loaded. A state dict holds buffers too.")
    assert report["missing"] == [] and report["unexpected"] == [], (
        "for a checkpoint that fits, `missing` and `unexpected` should be empty."
    )
    types = lib(toys).types_in(load_base, base, whole(new, **head))
    assert types == ["list"] * 3, "`missing`, `unexpected` and `left` should be lists."
    assert report["left"] == ["head.bias", "head.weight"], (
        "`left` should list the names that do not begin with `base.`, as they are: here those of the head."
    )

    partial = [
        (
            without(whole(new, **head), "base.mix.bias"),
            ["mix.bias"],
            [],
            "a checkpoint that lacks a weight of the base",
        ),
        (
            whole(new, base__gate__weight=normal(2)),
            [],
            ["gate.weight"],
            "a checkpoint with a weight for a part that the base does not have",
        ),
        (whole(new | {"mix.bias": normal(9)}), ["mix.bias"], ["mix.bias"], "a weight of another shape"),
        (new, sorted(new), [], "a checkpoint in which no name begins with `base.`"),
    ]
    for state, missing, unexpected, what in partial:
        base.load_state_dict(old)
        refusal(load_base, base, state, [*missing, *unexpected], what)
        holds(
            base,
            old,
            "a checkpoint was refused, but `{name}` of the base had already been changed. Look first, then load.",
        )
    for state, missing, unexpected, what in partial:
        base.load_state_dict(old)
        told = f"with strict=False, {what} should be loaded as far as it fits, and reported."
        report = expect.answers(load_base, base, state, strict=False, says=told, kinds=("ValueError", "RuntimeError"))
        report_of(report)
        assert report["missing"] == missing, (
            f"with strict=False, `missing` is wrong for {what}. Your code gives `{report['missing']}`."
        )
        assert report["unexpected"] == unexpected, (
            f"with strict=False, `unexpected` is wrong for {what}. Your code gives `{report['unexpected']}`."
        )
        assert report["left"] == sorted(name for name in state if not name.startswith("base.")), (
            f"with strict=False, `left` is wrong for {what}. Your code gives `{report['left']}`."
        )
        fits = {} if state is new else {name: state[f"base.{name}"] for name in old if name not in missing}
        holds(base, old | fits, f"with strict=False, `{{name}}` is not what it should be after {what}.")
    keeps_apart(load_base, lib, (3, 4, 2), 65)


def keeps_apart(load_base: Remote, lib: Library, sizes: tuple[int, int, int], seed: int) -> None:
    """Fail unless a base takes copies, into the parameters that it has, in their type."""
    toy, torch_there = lib(toys), lib(torch)
    base, ours = layers(torch_there.nn, sizes), layers(nn, sizes)
    state = {name: normal(*value.shape, seed=seed + i) for i, (name, value) in enumerate(ours.state_dict().items())}
    ours.load_state_dict(state)
    checkpoint = {f"base.{name}": value for name, value in state.items()}
    second, after = toy.twice(load_base, base, layers(torch_there.nn, sizes), checkpoint)
    left = [(second[name], value) for name, value in state.items()]
    left += [(after[name], value) for name, value in checkpoint.items()]
    assert not any(torch.equal(now, value + 1) for now, value in left), (
        "two bases that were loaded from one checkpoint share its memory: what one learns changes the other. "
        "Copy the values."
    )
    assert all(torch.equal(now, value) for now, value in left), (
        "a second base that is loaded from the same checkpoint does not hold its values."
    )
    base = layers(torch_there.nn, sizes)
    optimizer = torch_there.optim.SGD(base.parameters(), lr=0.1)
    load_base(base, checkpoint)
    told = "loading changes which weights of the base learn: `requires_grad` should stay as it is."
    assert all(toy.learning(base)), told
    x, labels = normal(5, sizes[0], seed=seed + 8), torch.arange(5) % sizes[2]
    toy.step(base, optimizer, x, labels)
    toys.descend(ours, ours.parameters(), x, labels, 0.1)
    assert same(base, ours, ""), (
        "after loading, an optimizer that was made before no longer moves the base: its parameters were replaced. "
        "Copy the values into them."
    )
    frozen = layers(torch_there.nn, sizes)
    frozen.requires_grad_(False)
    load_base(frozen, checkpoint)
    holds(frozen, state, "`{name}` of a base that is frozen was not loaded. What does not learn is loaded too.")
    assert not any(toy.learning(frozen)), told
    base = layers(torch_there.nn, sizes).double()
    load_base(base, checkpoint)
    kept = all(value.dtype == torch.float64 for value in base.state_dict().values())
    assert kept, "loading changes the dtype of the base's weights. They should keep their own."
    assert read(base.training) is True, (
        "loading changes the mode of the base from training to evaluation. Leave it as it was."
    )

    width, _, classes = sizes
    base, ours = lib(tiny_bert).tied(width, classes), tiny_bert.tied(width, classes)
    state = ours.state_dict()
    told = "a base in which two parts share a weight cannot load its own checkpoint. Its state dict has both names."
    given = {f"base.{name}": value for name, value in state.items()}
    report = expect.answers(load_base, base, given, says=told, kinds=("ValueError",))
    assert report_of(report) == {"missing": [], "unexpected": [], "left": []}, told
    holds(base, state, told)


def layers(torch_nn: Any, sizes: tuple[int, int, int]) -> Any:
    """Two linear layers with tanh between, of torch's own modules, in this process or in the student's."""
    first, hidden, last = sizes
    return torch_nn.Sequential(torch_nn.Linear(first, hidden), torch_nn.Tanh(), torch_nn.Linear(hidden, last))


# 4.4


def places(T: int, lengths: list[int], left: bool = False) -> torch.Tensor:
    """A mask with so many real tokens in each row, at the left, or at the right after padding on the left."""
    rows = [[(T - 1 - t if left else t) < length for t in range(T)] for length in lengths]
    return torch.tensor(rows)


def picked(states: torch.Tensor, ends: list[int]) -> torch.Tensor:
    """Row by row, the state at that position."""
    return torch.stack([states[row, end] for row, end in enumerate(ends)])


def last_of_each(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The state of the last real token of each row, row by row."""
    return picked(states, [int(row.nonzero().max()) for row in mask])


LAST = Contract(
    "last_real(states, mask)",
    sizes={"B": (1, 6), "T": (1, 9, 2100), "d": (1, 7)},
    states="floats (B, T, d)",
    mask="bools (B, T)",
    first_row_empty=lambda toys, seed, B, T: (torch.arange(B) > 0)[:, None].expand(B, T),
    last_row_empty=lambda toys, seed, B, T: (torch.arange(B) < B - 1)[:, None].expand(B, T),
    gives="the result: as states (B, d)",
    right=last_of_each,
    refuses=("last_real(states, first_row_empty)", "last_real(states, last_row_empty)"),
    learns="states",
)


@check("4.4", points=3)
def last_real(last_real, lib):
    """Check for the state of the last real token, whatever the padding holds."""
    promised(INFINITY)
    B, T, d = 3, 5, 4
    states, lengths = normal(B, T, d, seed=5), [4, 1, 2]
    mask = places(T, lengths)
    told = "of rows with 4, 1 and 2 real tokens, it raises ValueError. Each of them has a real token."
    result = expect.answers(last_real, states, mask, says=told, kinds=("ValueError",))
    assert type(result) is not torch.Tensor or not torch.equal(result.float(), states[-1]), (
        "the last sequence of the batch is taken. The batch is the first dimension here."
    )
    result = expect.floats(result, (B, d), "`last_real(states, mask)`")
    ends = [length - 1 for length in lengths]
    full = expect.floats(last_real(states, places(T, [T, T, T])), (B, d), "`last_real` without padding")
    backwards = torch.equal(result, states[:, -1]) and torch.equal(full, states[:, 0])
    assert not backwards, "the mask is read the wrong way round: true marks a real token."
    expect.like(
        result,
        picked(states, ends),
        "the result is not the state of the last real token of each row.",
        {
            "the last position is taken, and it may be padding.": states[:, -1],
            "the first padding after the text is taken. Positions are counted from zero.": picked(states, lengths),
            "the token before the last real one is taken.": picked(states, [end - 1 for end in ends]),
            "the first token is taken.": states[:, 0],
            "the mean of the real tokens is taken.": picked_mean(states, mask),
            "the sum of the real tokens is taken.": toys.total(states, mask),
            "every row is read where the longest text of the batch ends. The result depends on the batch.": states[
                :, max(ends)
            ],
            "every row is read where the shortest text of the batch ends. The result depends on the batch.": states[
                :, min(ends)
            ],
            "the largest value of each column is taken, not a token.": states.masked_fill(
                ~mask.unsqueeze(-1), -torch.inf
            ).amax(1),
        },
    )
    expect.close(full, states[:, -1], "the result is wrong for rows without padding.")
    left = expect.floats(
        last_real(states, places(T, lengths, left=True)), (B, d), "`last_real` with padding on the left"
    )
    expect.close(
        left, states[:, -1], "the result is wrong if the padding is on the left. It is not enough to count tokens."
    )
    for numbers in (mask.long(), mask.float()):
        number = expect.floats(last_real(states, numbers), (B, d), "`last_real` with a mask of 0 and 1")
        expect.close(number, picked(states, ends), "the result is wrong for a mask of numbers, 0 and 1.")
    both = torch.tensor([[0, 1, 1, 0, 0], [0, 0, 0, 1, 0], [1, 0, 1, 0, 0]], dtype=torch.bool)
    result = expect.floats(last_real(states, both), (B, d), "`last_real` with padding on both sides")
    told = "the result is wrong if there is padding on both sides, or between tokens."
    expect.close(result, picked(states, [2, 3, 2]), told)

    spoilt = states.masked_fill(~mask.unsqueeze(-1), torch.nan)
    result = last_real(spoilt, mask)
    nan = type(result) is torch.Tensor and result.isnan().any()
    assert not nan, (
        "NaN at the padding reaches the result: 0 times NaN is not zero. Pick one state. Do not weight all of them."
    )
    expect.refuses(last_real, states, places(T, [2, 0, 3]), says="a row without a real token must raise ValueError.")
    number = last_real(normal(2, 300, d, seed=6), torch.ones(2, 300, dtype=torch.uint8))
    long, told = normal(2, 300, d, seed=6), "the result is wrong for texts of 300 tokens, whatever the mask's type."
    if not expect.near(number, long[:, -1]) and expect.near(
        last_real(long, torch.ones(2, 300, dtype=torch.bool)), long[:, -1]
    ):
        told = "the result is wrong for 300 tokens and a mask of type uint8. No number of type uint8 is above 255."
    expect.close(expect.floats(number, (2, d), "last_real"), long[:, -1], told)
    endless = states.clone()
    endless[0, ends[0]] = torch.inf
    told = "a last real state that holds infinity is changed. Return it as it is, so that the problem shows."
    assert torch.equal(expect.floats(last_real(endless, mask), (B, d), "last_real"), picked(endless, ends)), told
    LAST.hold(last_real, lib, "sizes", "dtypes", "layout", "gradients")
    stays_there(lib, last_real, states, mask)


def picked_mean(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The mean of the states at the real tokens."""
    return toys.total(states, mask) / mask.sum(1, keepdim=True)


# 4.5


def some_examples(B: int, T: int, seed: int) -> list[Any]:
    """So many examples; the longest has T token numbers, which may be the padding's, and one may have none."""
    pick = expect.draw(seed)
    lengths = [T, *(pick.randint(0, T) for _ in range(B - 1))]
    pick.shuffle(lengths)
    return [[[pick.randint(0, 9) for _ in range(length)], pick.randint(0, 4)] for length in lengths]


def batch_of(examples: list[Any], pad_id: int, max_len: int | None) -> tuple[torch.Tensor, ...]:
    """Tokens, mask and labels of a batch, number by number."""
    rows = [numbers if max_len is None else numbers[:max_len] for numbers, _ in examples]
    T = max(map(len, rows))
    tokens = [[row[t] if t < len(row) else pad_id for t in range(T)] for row in rows]
    shape, labels = (len(rows), T), torch.tensor([label for _, label in examples])
    return torch.tensor(tokens, dtype=torch.int64).view(shape), places(T, [*map(len, rows)]).view(shape), labels


COLLATE = Contract(
    "collate(examples, pad_id, max_len)",
    sizes={"B": (1, 7, 300), "T": (0, 9, 900), "pad_id": (0, 9), "_cut": (0, 12), "_cuts": (0, 1)},
    examples=lambda toys, seed, B, T: some_examples(B, T, seed),
    max_len="= (None, _cut)[_cuts]",
    gives="the tokens: int64 (B, (_cut < T) * (_cut - T) * _cuts + T); "
    "the mask: bool (B, (_cut < T) * (_cut - T) * _cuts + T); the labels: int64 (B)",
    right=batch_of,
)


@check("4.5", points=2)
def collate(collate):
    """Check that rows are cut at the end and padded on the right to the longest one, with a mask of real tokens."""
    promised(EMPTY)
    examples = [[[5, 9, 2], 1], [[7], 0], [[4, 8, 6, 3, 4], 2], [[6, 2], 2]]
    tokens, mask, labels = three(collate(examples, 2), 4, 5)
    rows = [[5, 9, 2, 2, 2], [7, 2, 2, 2, 2], [4, 8, 6, 3, 4], [6, 2, 2, 2, 2]]
    told = "the rows are not in the order of the examples: row i should be example i."
    assert tokens.tolist() == rows or sorted(tokens.tolist()) != sorted(rows), told
    told = f"the tokens `[4, 8, 6, 3, 4]` of the longest example became `{tokens[2].tolist()}`. They should not change."
    assert tokens[2].tolist() == [4, 8, 6, 3, 4], told
    assert tokens[1].tolist() != [2, 2, 2, 2, 7], "the padding is on the left. It should follow the tokens."
    assert tokens[1].tolist() != [7, 0, 0, 0, 0], "short rows are filled with 0, not with `pad_id`."
    for row, numbers in ((1, [7]), (0, [5, 9, 2]), (3, [6, 2])):
        told = f"with `pad_id = 2`, the tokens `{numbers}` became `{tokens[row].tolist()}`."
        assert tokens[row].tolist() == rows[row], f"{told} A row should be its tokens, then `pad_id`."
    assert not torch.equal(mask, ~places(5, [3, 1, 5, 2])), "the mask is the wrong way round: true marks a real token."
    assert not torch.equal(mask, places(5, [2, 0, 4, 1])), (
        "the last real token of each row is masked. The mask should be True at all tokens of a text."
    )
    assert not torch.equal(mask, tokens != 2), (
        "a real token that equals `pad_id` is masked. The mask should come from the lengths, not from the numbers."
    )
    for row, length in enumerate((3, 1, 5, 2)):
        told = f"the mask of an example with {length} token{'s' * (length > 1)} is `{mask[row].tolist()}`."
        assert mask[row].tolist() == places(5, [length])[0].tolist(), f"{told} It should be True at its tokens alone."
    assert labels.tolist() == [1, 0, 2, 2], (
        f"the labels are `{labels.tolist()}`, not those of the examples, in their order."
    )

    tokens, mask, labels = three(collate(examples, 0, max_len=3), 4, 3)
    assert tokens[2].tolist() != [6, 3, 4], "a long row loses its beginning. Cut its end."
    assert tokens[1, :1].tolist() != [7] or tokens[1, 1:].tolist() == [0, 0], (
        "short rows are not filled with `pad_id` if that is 0."
    )
    assert tokens.tolist() == [[5, 9, 2], [7, 0, 0], [4, 8, 6], [6, 2, 0]], (
        "with `max_len = 3`, long rows should lose their end, and nothing else."
    )
    assert torch.equal(mask, places(3, [3, 1, 3, 2])), (
        "with `max_len = 3`, the mask is wrong. Only tokens that are left are real."
    )
    assert labels.tolist() == [1, 0, 2, 2], "with `max_len = 3`, the labels are wrong."
    tokens, mask, labels = three(collate(examples[:2], 0, 4), 2, 3)
    assert tokens.tolist() == [[5, 9, 2], [7, 0, 0]], "rows that are shorter than `max_len` should not change."
    told = "where all rows are shorter than `max_len`, the mask or the labels are wrong."
    assert torch.equal(mask, places(3, [3, 1])) and labels.tolist() == [1, 0], told
    tokens, mask, labels = three(collate([[[], 1], [[3, 8], 0]], 6), 2, 2)
    assert tokens.tolist() == [[6, 6], [3, 8]], "the row of a text without tokens should be all padding."
    assert torch.equal(mask, places(2, [0, 2])), "the mask of a text without tokens should be False everywhere."
    told = "the label of a text without tokens is lost."
    assert labels.tolist() == [1, 0] and three(collate([[[], 1], [[], 0]], 6), 2, 0)[2].tolist() == [1, 0], told
    given = collate([[[5, 9], 1], [[7], 0]], 2, 0)
    assert type(given) is not list or type(given[0]) is not torch.Tensor or given[0].shape != (2, 2), (
        "with `max_len = 0` nothing is cut. Only None keeps all. Remember that 0 counts as false."
    )
    assert three(given, 2, 0)[2].tolist() == [1, 0], "with `max_len = 0`, the labels are wrong."
    tokens, _, labels = three(collate([[[2**24 + 1, 2**40 + 1], 3]], 0), 1, 2)
    assert labels.tolist() == [3], f"for a single example with the label 3, the labels are `{labels.tolist()}`."
    large = [2**24 + 1, 2**40 + 1]
    rounded = tokens.tolist() == [torch.tensor(large).float().long().tolist()]
    why = " Numbers that pass through float32 are rounded: make int64 at once." * rounded
    assert tokens.tolist() == [large], f"the token numbers `{large}` became `{tokens[0].tolist()}`.{why}"


def three(batch: Any, rows: int, longest: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Tokens, mask and labels, of the right types and shapes."""
    expect.items(batch, 3, "`collate` should return tokens, mask and labels")
    tokens, mask, labels = batch
    for part, what in ((tokens, "tokens"), (mask, "mask"), (labels, "labels")):
        expect.of_type(part, torch.Tensor, f"the {what} should be a tensor")
    assert tokens.ndim == 2, "the tokens should have one row per example, shape (B, T)."
    if len(tokens) != rows:
        count = f"{len(tokens)} row{'s' * (len(tokens) != 1)}"
        told = f"the tokens have {count} for {rows} examples. Each example needs one, even without tokens."
        raise AssertionError(told + called(batch, told))
    width = tokens.size(1)
    assert width == longest, (
        f"the tokens have shape {tuple(tokens.shape)}. The longest row that is left has {longest} tokens."
    )
    assert mask.shape == tokens.shape, f"the mask has shape {tuple(mask.shape)}, the tokens {tuple(tokens.shape)}."
    assert mask.dtype == torch.bool, f"the mask is {mask.dtype}. It should be boolean."
    assert tokens.dtype == torch.int64, f"the tokens are {tokens.dtype}. Token numbers are int64."
    assert labels.shape == (rows,), f"the labels have shape {tuple(labels.shape)}, not ({rows},)."
    assert labels.dtype == torch.int64, f"the labels are {labels.dtype}. Class numbers are int64."
    return tokens, mask, labels


# 4.6


def votes(table: torch.Tensor, batches: list, shift: int = 0, masked: bool = True) -> list[list[bool]]:
    """Batch by batch, whether the best class of `toys.Voter` is the label."""
    return [
        [
            (int(table[int((row * real).sum() if masked else row.sum()) % len(table)].argmax()) + shift) % table.size(1)
            == int(label)
            for row, real, label in zip(*batch, strict=True)
        ]
        for batch in batches
    ]


def voting(
    seed: int, shapes: list[tuple[int, int]], classes: int, rows: int, hits: list[int]
) -> tuple[torch.Tensor, list]:
    """A table for `toys.Voter` and batches of those shapes, of each of which so many examples will be right."""
    generator = expect.generator(seed)
    table, batches = torch.randn(rows, classes, generator=generator) - 3, []
    for (B, T), right in zip(shapes, hits, strict=True):
        tokens = torch.randint(1, 50, (B, T), generator=generator)
        mask = torch.arange(T) < torch.randint(1, T, (B, 1), generator=generator)
        best = table[(tokens * mask).sum(1) % rows].argmax(-1)
        wrong = (best + 1 + torch.arange(B) % (classes - 1)) % classes
        batches.append([tokens, mask, torch.where(torch.arange(B) < right, best, wrong)])
    return table, batches


def some_batches(V: int, C: int, N: int, seed: int) -> list[list[torch.Tensor]]:
    """N examples in batches of different sizes and lengths, the last of one example."""
    numbers, pick, batches, left = expect.generator(seed), expect.draw(seed), [], N
    while left:
        B, T = min(left, 600, max(1, left - 1)), pick.randint(1, 6)
        mask = torch.arange(T) < torch.randint(1, T + 1, (B, 1), generator=numbers)
        tokens, labels = (torch.randint(most, shape, generator=numbers) for most, shape in ((V, (B, T)), (C, (B,))))
        batches.append([tokens, mask, labels])
        left -= B
    return batches


def share_of_hits(model: nn.Module, batches: list[list[torch.Tensor]]) -> float:
    """The accuracy by its definition, hit by hit."""
    model.eval()
    hits = [
        best == label
        for tokens, mask, labels in batches
        for best, label in zip(model(tokens, mask).argmax(-1).tolist(), labels.tolist(), strict=True)
    ]
    return sum(hits) / len(hits)


ACCURACY = Contract(
    "accuracy(model, batches)",
    sizes={"V": (3, 9), "C": (2, 6), "N": (1, 40, 1500)},
    model=lambda toys, seed, V, C: toys.filled(toys.Judge(V, C), seed),
    toys=toys,
    batches=lambda toys, seed, V, C, N: some_batches(V, C, N, seed),
    gives="the accuracy: float",
    right=share_of_hits,
    keeps="model",
    tolerance=1e-6,
)


@check("4.6", points=3)
def select(accuracy, select, lib):
    """Check the accuracy over examples, the best epoch on validation, its weights, and one look at the test."""
    cases = []
    for seed, shapes, classes, hits in (
        (12, [(7, 5), (4, 3)], 4, [5, 0]),
        (13, [(9, 4), (5, 6), (2, 3)], 5, [2, 4, 1]),
        (14, [(3, 5), (14, 2)], 5, [1, 10]),
    ):
        table, batches = voting(seed, shapes, classes, 11, hits)
        model = lib(toys).Voter(table)
        model.train()
        share = accuracy(model, batches)
        assert type(share) is not torch.Tensor, "the accuracy is a tensor. It should be a number: `.item()` gives it."
        cases.append((share, sum(hits) / sum(B for B, _ in shapes), wrong_shares(table, batches)))
    told = (
        f"the accuracies of three models, {', '.join(str(share) for share, _, _ in cases)}, are not the shares of "
        "examples whose best class is the label."
    )
    expect.numbers_like(cases, "the accuracy", told)
    assert read(model.training) is True, "the model was in training mode before `accuracy`, but is not after it."
    model.eval()
    accuracy(model, batches)
    assert read(model.training) is False, "the model was in evaluation mode before `accuracy`, but is not after it."
    stays_there(lib, accuracy, model, batches)
    ACCURACY.hold(accuracy, lib, "memory")

    valid, test = [0.5, 0.75, 0.625, 0.75, 0.25], [0.1, 0.2, 0.9, 0.3, 0.4]
    model, report = selected(select, lib, valid, test, 5)
    state = model.state_dict()
    both = [float(state[name]) for name in ("counter", "seen")]
    assert report["curve"] == valid, (
        f"`curve` is `{report['curve']}`, where the accuracies on validation after each epoch are `{valid}`."
    )
    others = [0.125, 0.5, 0.75, 0.25, 0.75, 0.375, 0.625], [0.3, 0.4, 0.1, 0.6, 0.2, 0.9, 0.5]
    _, second = selected(select, lib, *others, 7)
    many = [report["epoch"], second["epoch"]] == [5, 7] and read(model.looks) > 1
    assert not many, "`select` asks for the test accuracy more than once, and `epoch` is the last one."
    named_epoch([report["epoch"], second["epoch"]], [(valid, test), others])
    result = report["test"]
    assert both != [2, 2] or result != test[-1], (
        "the test comes before the best weights are put back, so its accuracy is that of the last epoch."
    )
    for sentence, guess in {
        "the test accuracy is that of the last epoch. Put a copy of the best weights back.": test[-1],
        "the test accuracy is a validation accuracy.": max(valid),
    }.items():
        assert result != guess, sentence
    assert result < 1 or read(model.looks) <= 1, "`select` asks for the test accuracy more than once."
    assert result != -1 or both[0] == both[1], (
        "the test accuracy is that of a mixture of two epochs: keep the whole state, buffers too."
    )
    expect.close(result, test[1], "the test accuracy is not that of the weights that were best on validation.")
    assert both == [2, 2], "after `select` the model should hold the weights of the best epoch."
    toy = lib(toys)
    assert toy.replaces_parameters(select, toy.Climb(valid, test), toy.climb, toy.look, 5) is False, (
        "after `select` the model has other parameters: an optimizer, or a model that shares them, still holds the old "
        "ones. Copy the best weights into its own."
    )


def wrong_shares(table: torch.Tensor, batches: list) -> dict[str, float]:
    """What mistakes give as the accuracy of a `toys.Voter` in training mode, by the sentence that names each."""
    right = votes(table, batches)
    flat = [item for batch in right for item in batch]

    def share_of(*given: Any, **options: Any) -> float:
        found = [item for batch in votes(*given, **options) for item in batch]
        return sum(found) / len(found)

    return {
        "the accuracy is a number of examples. It should be their share, from 0 to 1.": sum(flat),
        "the accuracy is a percentage. It should be a share, from 0 to 1.": 100 * sum(flat) / len(flat),
        "the accuracy is the mean over batches. A batch with more examples should count more.": sum(
            sum(batch) / len(batch) for batch in right
        )
        / len(right),
        "the accuracy is that of the last batch.": sum(right[-1]) / len(right[-1]),
        "the accuracy is that of the first batch.": sum(right[0]) / len(right[0]),
        "the share of errors is returned, not of hits.": 1 - sum(flat) / len(flat),
        "the hits are divided by the number of batches. Divide them by the number of examples.": sum(flat)
        / len(batches),
        "the label must have a probability above one half to count. It is enough that no logit is larger.": sum(
            sum(sure) for sure in surely(table, batches)
        )
        / len(flat),
        "the label's logit must be above 0 to count. It is enough that no logit is larger.": sum(
            hit and bool(table[int((row * real).sum()) % len(table), int(label)] > 0)
            for batch, hits in zip(batches, right, strict=True)
            for row, real, label, hit in zip(*batch, hits, strict=True)
        )
        / len(flat),
        "an example counts if its label is one of the two best classes. It should be the best.": sum(
            int(label) in table[int((row * real).sum()) % len(table)].topk(2).indices
            for batch in batches
            for row, real, label in zip(*batch, strict=True)
        )
        / len(flat),
        "the model is judged in training mode. Dropout would act.": share_of(table, batches, 1),
        "gradients are recorded while the model is judged, which wastes memory.": share_of(table, batches, 2),
        "the model is judged in training mode, and gradients are recorded.": share_of(table, batches, 3),
        "the model does not get the mask, or it gets one that is always true.": share_of(table, batches, masked=False),
        "the mask is the wrong way round where the model gets it.": share_of(
            table, [[tokens, ~mask, labels] for tokens, mask, labels in batches]
        ),
        "the mask that the model gets is false everywhere.": share_of(
            table, [[tokens, mask & False, labels] for tokens, mask, labels in batches]
        ),
    }


def surely(table: torch.Tensor, batches: list) -> list[list[bool]]:
    """Batch by batch, whether `toys.Voter` gives the label a probability above one half."""
    return [
        (table[(tokens * mask).sum(1) % len(table)].softmax(-1)[range(len(labels)), labels] > 0.5).tolist()
        for tokens, mask, labels in batches
    ]


def named_epoch(epochs: list[Any], curves: list[tuple[list[float], list[float]]]) -> None:
    """Fail unless `epochs` are the earliest that are best on validation, counted from 1, for these curves.

    A curve is the accuracies on validation and on the test after each epoch. A mistake explains all epochs or none.
    """
    for epoch in epochs:
        expect.of_type(epoch, int, "`epoch` should be a number")
    wanted = [valid.index(max(valid)) + 1 for valid, _ in curves]
    expect.explained(
        epochs,
        wanted,
        f"`epoch` is {epochs[0]} for the validation accuracies `{curves[0][0]}`, and {epochs[1]} for "
        f"`{curves[1][0]}`. It should be the earliest of the best epochs.",
        {
            "epoch 0 was chosen, the model before all training. Only trained epochs are candidates.": [0, 0],
            "the epoch was chosen by its test accuracy. Choose it by its validation accuracy.": [
                test.index(max(test)) + 1 for _, test in curves
            ],
            "the epoch that is worst on validation was chosen.": [valid.index(min(valid)) + 1 for valid, _ in curves],
            "epochs are counted from zero. The first is 1.": [epoch - 1 for epoch in wanted],
            "of two epochs that are equally good, the later was chosen. Take the earlier.": [
                len(valid) - valid[::-1].index(max(valid)) for valid, _ in curves
            ],
            "the last epoch was chosen, however good it is.": [len(valid) for valid, _ in curves],
            "the last epoch but one was chosen, however good it is.": [len(valid) - 1 for valid, _ in curves],
        },
    )


def selected(select: Remote, lib: Library, valid: list[float], test: list[float], epochs: int) -> tuple[Remote, dict]:
    """The model and the report after the student's select, with the types that it should have."""
    toy = lib(toys)
    model = toy.Climb(valid, test)
    with world_kept(lib, "after `select`"):
        report = select(model, toy.climb, toy.look, epochs)
    expect.fields(report, ("curve", "epoch", "test"), "`select` should return a dict with `curve`, `epoch` and `test`")
    curve = report["curve"]
    expect.of_type(curve, list, "`curve` should be a list")
    assert len(curve) == epochs, (
        f"`curve` has {len(curve)} entries after {epochs} epochs. It needs one for each, measured after its training."
    )
    report["test"] = expect.number(report["test"], "`test`")
    return model, report


# 4.7


def network(lib: Library, seed: int) -> tuple[Remote, nn.Sequential]:
    """Two linear layers with tanh between, in the student's process and in this one, with the same weights."""
    return expect.twins(lib, lambda parts: layers(parts, (5, 4, 3)), seed)


def same(theirs: Remote, ours: nn.Module, part: str) -> bool:
    """Whether both have the same weights in the part of that name."""
    return expect.agree(theirs.state_dict(), ours.state_dict(), part)


FEATURES = Contract(
    "features(base, pool, batches)",
    sizes={"V": (3, 9), "d": (1, 6), "N": (1, 30, 1500)},
    base=lambda toys, seed, V, d: toys.filled(toys.Reader(V, d, True), seed),
    pool=lambda toys, seed: toys.total,
    toys=toys,
    batches=lambda toys, seed, V, N: some_batches(V, 3, N, seed),
    gives="the features: float32 (N, d); the labels: int64 (N)",
    right=lambda base, pool, batches: (
        torch.cat([pool(base.eval()(tokens, mask), mask) for tokens, mask, _ in batches]),
        torch.cat([labels for _, _, labels in batches]),
    ),
)


@check("4.7", points=3)
def freeze(freeze, unfreeze, features, lib):
    """Check that frozen weights stay and thawed ones move again, and that features are those of a frozen base."""
    x, labels, lr = normal(6, 5, seed=8), torch.tensor([0, 2, 1, 1, 0, 2]), 0.1
    theirs, ours = network(lib, 70)
    optimizer = lib(torch.optim).SGD(theirs.parameters(), lr=lr)
    step = lib(toys).step
    with world_kept(lib, "after `freeze`"):
        freeze(theirs[0])
    step(theirs, optimizer, x, labels)
    before = same(theirs, ours, "0")
    toys.descend(ours, ours[2].parameters(), x, labels, lr)
    state = theirs.state_dict()
    half = torch.equal(state["0.weight"].float(), ours[0].weight) != torch.equal(state["0.bias"].float(), ours[0].bias)
    assert not half, "only the weight or only the bias is frozen. A part is all of its parameters."
    assert before, (
        "after `freeze`, an optimizer still moves the part. Set `requires_grad` of each of its parameters to False."
    )
    assert same(theirs, ours, "2"), "after one part is frozen, another part does not learn as it should."
    with world_kept(lib, "after `unfreeze`"):
        unfreeze(theirs[0])
    step(theirs, optimizer, x, labels)
    toys.descend(ours, ours.parameters(), x, labels, lr)
    half = same(theirs, ours, "0.weight") != same(theirs, ours, "0.bias")
    assert not half, "only the weight or only the bias learns after `unfreeze`. A part is all of its parameters."
    assert same(theirs, ours, "0"), "after `unfreeze` the part does not learn as it did before."
    assert same(theirs, ours, "2"), "after `unfreeze` the rest of the model does not learn as it should."
    for _ in range(2):
        freeze(theirs[0])
    step(theirs, optimizer, x, labels)
    toys.descend(ours, ours[2].parameters(), x, labels, lr)
    assert same(theirs, ours, "0"), (
        "a part that was unfrozen, and then frozen twice, still learns. Set `requires_grad` of its parameters to False."
    )
    for _ in range(2):
        unfreeze(theirs[0])
    step(theirs, optimizer, x, labels)
    toys.descend(ours, ours.parameters(), x, labels, lr)
    assert same(theirs, ours, ""), (
        "`unfreeze` called twice freezes a part, or leaves a part frozen that was frozen twice. It should always let "
        "it learn."
    )

    theirs, ours = network(lib, 75)
    freeze(theirs)
    step(theirs, lib(torch.optim).SGD(theirs.parameters(), lr=lr), x, labels)
    assert same(theirs, ours, ""), (
        "the parts inside a part are not all frozen with it. `parameters()` finds them; `recurse=False` does not."
    )
    unfreeze(theirs)
    step(theirs, lib(torch.optim).SGD(theirs.parameters(), lr=lr), x, labels)
    toys.descend(ours, ours.parameters(), x, labels, lr)
    assert same(theirs, ours, ""), (
        "`unfreeze` does not reach all parts inside a part. `parameters()` finds them; `recurse=False` does not."
    )

    theirs, ours = network(lib, 80)
    optimizer = lib(torch.optim).SGD(theirs.parameters(), lr=lr, weight_decay=0.5)
    step(theirs, optimizer, x, labels)
    kept = theirs.state_dict()["0.weight"]
    for before in ("a part that was frozen in mid-training", "a part that did not learn before it was frozen"):
        freeze(theirs)
        step(theirs, optimizer, x, labels)
        now = theirs.state_dict()["0.weight"]
        assert torch.equal(kept, now), (
            f"{before} still moves: set `.grad` to None. With weight decay, a gradient of zero moves a parameter too."
        )
        unfreeze(theirs)
        step(theirs, optimizer, x, labels)
        theirs.requires_grad_(False)
        kept = theirs.state_dict()["0.weight"]

    toy, torch_nn = lib(toys), lib(nn)
    told = "`unfreeze` removes or changes the gradients of a part that learns already. It should go on as it was."
    assert toy.forgets_gradients(unfreeze, torch_nn.Linear(5, 3), x) is False, told
    part = torch_nn.MultiheadAttention(4, 2)
    freeze(part)
    told = "not all parameters of an `nn.MultiheadAttention` are {}. `parameters()` gives all of them."
    assert toy.learning(part) == [False] * 4, told.format("frozen")
    unfreeze(part)
    assert toy.learning(part) == [True] * 4, told.format("unfrozen")

    vocab, width, pool = 7, 4, toy.total
    weights = reader_state(vocab, width, 90)
    base = loaded(lib(toys).Reader(vocab, width, moody=True), weights)
    base.train()
    batches = [[TOKENS, MASK, torch.tensor([2, 0, 1])], [TOKENS[:2, :3], MASK[1:, :3].flip(1), torch.tensor([1, 1])]]
    result = features(base, pool, batches)
    expect.items(result, 2, "`features` should return two tensors, the features and the labels")
    count = len(result[0]) if type(result[0]) is torch.Tensor and result[0].ndim else 0
    assert count != 2 and count != 3, f"the features have {count} rows for 5 examples. Each should have its row."
    states = expect.floats(result[0], (5, width), "the features")
    given = expect.tensor(result[1], (5,), "the labels")

    def pooled(mood: int, masked: bool = True, pool_masked: bool = True) -> torch.Tensor:
        own = reader(weights)
        with torch.no_grad():
            return torch.cat(
                [
                    toys.total(own(tokens, mask if masked else None) + mood, mask if pool_masked else None)
                    for tokens, mask, _ in batches
                ]
            )

    moods = {  # the base adds its mood to what it gives: this is no guess
        1: "the features are computed in training mode. A frozen base should not drop anything.",
        2: "gradients are recorded while the base runs. Nobody will train these features: use `torch.no_grad`.",
        3: "the features are computed in training mode, and gradients are recorded.",
    }
    for mood, told in moods.items():
        if torch.allclose(states, pooled(mood), 1e-4, 1e-4):
            raise AssertionError(told)
    expect.like(
        states,
        pooled(0),
        "the features are not pool(base(tokens, mask), mask), batch after batch.",
        {
            "the base does not get the mask.": pooled(0, masked=False),
            "the pool does not get the mask.": pooled(0, pool_masked=False),
            "neither the base nor the pool gets the mask.": pooled(0, False, False),
            "the features are sorted by label. They should be in the order of the batches.": pooled(0)[
                torch.tensor([2, 0, 1, 1, 1]).argsort(stable=True)
            ],
            "the mean of the features is subtracted. Return them as they are.": pooled(0) - pooled(0).mean(0),
        },
    )
    assert all(toy.learning(base)), "`features` freezes the base. It should only read it: `freeze` is for that."
    single = features(base, pool, [[TOKENS[:1], MASK[:1], torch.tensor([1])]])
    assert type(single) is list and len(single) == 2, "`features` should return two tensors, for one example too."
    expect.floats(single[0], (1, width), "the features of one example")
    expect.tensor(single[1], (1,), "the labels of one example")
    assert given.tolist() == [2, 0, 1, 1, 1], "the labels are not those of the examples, in the order of the features."
    trains_a_head(lib, features, base, pool, batches, linear_state(width, 3, 95), pooled(0))
    stays_there(lib, features, base, pool, batches)
    half = features(base.double(), pool, batches)[0]
    kept = type(half) is torch.Tensor and half.dtype == torch.float64
    assert kept, "a base in float64 gives features of another type. Keep the type of the states."


def trains_a_head(
    lib: Library,
    features: Remote,
    base: Remote,
    pool: Remote,
    batches: list,
    head: dict[str, torch.Tensor],
    states: torch.Tensor,
) -> None:
    """Fail unless a head with these weights gets the gradients from the features that it gets from `states`."""
    theirs, ours = (torch_nn.Linear(*head["weight"].shape[::-1]) for torch_nn in (lib(nn), nn))
    ours.load_state_dict(head)
    try:
        slopes = lib(toys).probe_gradients(features, loaded(theirs, head), base, pool, batches)
    except StudentError as error:
        assert "nference tensor" not in str(error), (
            "no head can be trained on these features: tensors made in inference mode take no part in autograd. "
            "`torch.no_grad` is enough."
        )
        if error.line:
            raise
        raise AssertionError(
            f"a head cannot be trained on these features and labels. It raised an error: {error}"
        ) from None
    F.cross_entropy(ours(states), torch.cat([labels for _, _, labels in batches])).backward()
    for slope, part in zip(slopes, ours.parameters(), strict=True):
        expect.close(slope, part.grad, "a head that is trained on the features does not get the right gradients.")
