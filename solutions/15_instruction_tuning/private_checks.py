"""Cases of notebook 15 that students never see: other sizes, names and batches, drawn for each submission."""

import math

import torch

from autograder.author.checks import private, swept, tells
from utils.checks import nb15_instruction_tuning as seen
from utils.checks import nb15_toys as toys
from utils.grading import expect
from utils.grading.expect import draw, normal

# Without what the public checks ask of the same contracts, and without "parts": half of these parts do not learn.
loras = swept("15.1", seen.LORA, without=("values", "dtypes", "layout", "gradients", "modes", "device", "parts"))
amounts = swept("15.3", seen.COUNT)
templates = swept("15.4", seen.TEMPLATE)
losses = swept("15.4", seen.LOSS, without=("values", "dtypes", "layout", "gradients", "device"))
rows = swept("15.5", seen.PACK, without=("memory",))
passes = swept("15.7", seen.PASS)
spreads = swept("15.7", seen.RIGHT, without=("memory",))


# 15.1


@private(
    "15.1", tells="in a layer of another size, `A` and `B` begin with the wrong numbers, or the wrong parts learn."
)
def other_starts(LoRALinear, lib):
    some = draw(1500)
    seen.frozen_and_fresh(LoRALinear, lib, some.randint(60, 200), some.randint(2, 5), some.randint(17, 20), 1550)
    with tells("in a layer of many inputs, `A` and `B` begin with the wrong numbers, or the wrong parts learn."):
        seen.frozen_and_fresh(LoRALinear, lib, some.randint(1100, 1200), 2, 3, 1552)


@private("15.1", tells="for a large input, gradients do not reach x, A and B as they should.")
def large_inputs(LoRALinear, lib):
    some = draw(1555)
    n, m, rank = some.randint(20, 30), some.randint(2, 5), some.randint(1, 3)
    module, state = seen.lora(LoRALinear, lib, n, m, rank, 3.0, 1556)
    x, weights = normal(5000, n, seed=1559), {name: state[name].double().requires_grad_() for name in ("A", "B")}
    exact, inputs = {name: value.double() for name, value in state.items()}, x.double().requires_grad_()
    seen.beside({**exact, **weights}, inputs, 3.0 / rank).square().sum().backward()
    found = lib(toys).slopes_of_squares(module, x)
    for name, wanted in {"x": inputs.grad, "A": weights["A"].grad, "B": weights["B"].grad}.items():
        expect.close(found[name], wanted, f"the gradient of {name}", 1e-3, wanted.abs().max().item())


# 15.2


@private("15.2", tells="layers of other sizes, scales or dtypes are merged or unmerged wrongly.")
def other_mergers(merge, unmerge, lib):
    some = draw(1560)
    for place, dtype in enumerate(("float32", "float64", "float32", "bfloat16")):
        n, m, rank = (1, 1, 1) if place == 2 else (some.randint(2, 12), some.randint(2, 12), some.randint(1, 9))
        scale = some.choice([0.25, 1.5, 4.0, 30.0])
        seen.merges(merge, unmerge, lib, n, m, rank, scale, 1570 + 10 * place, bias=place % 2 == 0, dtype=dtype)
    seen.takes_turns(merge, unmerge, lib, 1625)
    with tells("a layer in evaluation mode is merged or unmerged wrongly."):
        seen.merges(merge, unmerge, lib, 5, some.randint(2, 7), 2, 2.5, 1615, training=False)
    with tells("layers of many inputs are merged or unmerged wrongly."):
        seen.merges(merge, unmerge, lib, 900, some.randint(2, 9), 4, 0.5, 1620)
    with tells("layers of many outputs are merged or unmerged wrongly."):
        seen.merges(merge, unmerge, lib, some.randint(2, 9), 700, some.randint(60, 90), 0.5, 1630)


# 15.5


@private("15.5", tells="a dialogue of more than a thousand tokens is packed wrongly.")
def long_dialogues(pack):
    some = draw(1700)
    lengths = [3, some.randint(1030, 1040), 1]
    seen.packs(
        pack, [([*range(one)], [*range(one)]) for one in lengths], "for a dialogue of more than a thousand tokens"
    )


# 15.6


@private("15.6", tells="with many batches or long ones, the loss or the weights after the step are wrong.")
def many_batches(train_step, lib):
    some = draw(1715)
    with tells("with more than three batches, the loss or the weights after the step are wrong."):
        sizes = [(some.randint(1, 4), some.randint(2, 7)) for _ in range(5)]
        seen.steps_right(train_step, lib, seen.batches_of(sizes, 9, 1720), 1e6, 1770, 9, some.randint(2, 6))
    V = some.randint(30, 60)
    sizes = [(2, some.randint(50, 80)), (1, 1), *((1, some.randint(2, 5)) for _ in range(20))]
    seen.steps_right(train_step, lib, seen.batches_of(sizes, V, 1780), 0.5, 1775, V, 4)
    with tells("with some thousand labels, the loss or the weights after the step are wrong."):
        seen.steps_right(train_step, lib, seen.batches_of([(3, 702)], V, 1810, 1.0), 1e6, 1776, V, 4)


# 15.7


@private("15.7", tells="`pass_at_k` is wrong where thousands of answers are right or are drawn. Leave no factor out.")
def many_answers(pass_at_k, over_tasks):
    for n, c, k in ((100_000, 2_500, 30), (100_000, 30, 2_500), (90_000, 50_000, 1), (5_000, 1_001, 3)):
        missed = math.prod(1 - k / i for i in range(n - c + 1, n + 1))
        assert math.isclose(pass_at_k(n, c, k), 1 - missed, abs_tol=1e-9), (n, c, k)
