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


@private("15.1", tells="the result is wrong for layers of other sizes, without a bias, or with other ranks or alphas.")
def other_layers(LoRALinear, lib):
    some = draw(1500)
    for place in range(3):
        n, m, rank = some.randint(1, 9), some.randint(1, 9), some.randint(1, 6)
        alpha = some.choice([0.5, 3.0, float(rank), 40.0])
        module, state = seen.lora(LoRALinear, lib, n, m, rank, alpha, 1510 + 10 * place, bias=place != 1)
        x = normal(4, n, seed=1515 + 10 * place)
        assert expect.near(module(x), seen.beside(state, x, alpha / rank), rtol=1e-4, atol=1e-4), (n, m, rank)
        merged, again = expect.items(lib(toys).while_merged(module, x), 2, "")
        weight = {**state, "B": torch.zeros(m, rank)}
        assert expect.near(merged, seen.beside(weight, x, 1.0), rtol=1e-4, atol=1e-4), "merged"
        assert expect.near(again, seen.beside(state, x, alpha / rank), rtol=1e-4, atol=1e-4), "no longer merged"
    with tells("in a layer of another size, `A` and `B` begin with the wrong numbers, or the wrong parts learn."):
        seen.frozen_and_fresh(LoRALinear, lib, some.randint(250, 600), some.randint(2, 5), some.randint(9, 20), 1550)


@private("15.1", tells="for a large input, gradients do not reach x, A and B as they should.")
def large_inputs(LoRALinear, lib):
    some = draw(1555)
    n, m, rank = some.randint(20, 30), some.randint(2, 5), some.randint(1, 3)
    module, state = seen.lora(LoRALinear, lib, n, m, rank, 3.0, 1556)
    x, weights = normal(5000, n, seed=1559), {name: state[name].clone().requires_grad_() for name in ("A", "B")}
    inputs = x.clone().requires_grad_()
    seen.beside({**state, **weights}, inputs, 3.0 / rank).square().sum().backward()
    found = lib(toys).slopes_of_squares(module, x)
    for name, wanted in {"x": inputs.grad, "A": weights["A"].grad, "B": weights["B"].grad}.items():
        expect.close(found[name], wanted, f"the gradient of {name}", 1e-3)


# 15.2


@private("15.2", tells="layers of other sizes, scales or dtypes are merged or unmerged wrongly.")
def other_mergers(merge, unmerge, lib):
    some = draw(1560)
    for place, dtype in enumerate(("float32", "float64", "float32", "bfloat16")):
        n, m, rank = (1, 1, 1) if place == 2 else (some.randint(2, 12), some.randint(2, 12), some.randint(1, 9))
        scale = some.choice([0.25, 1.5, 4.0, 30.0])
        seen.merges(merge, unmerge, lib, n, m, rank, scale, 1570 + 10 * place, bias=place % 2 == 0, dtype=dtype)
    seen.takes_turns(merge, unmerge, lib, 1625)
    with tells("layers of many inputs are merged or unmerged wrongly."):
        seen.merges(merge, unmerge, lib, 900, some.randint(2, 9), 4, 0.5, 1620)
    with tells("layers of many outputs are merged or unmerged wrongly."):
        seen.merges(merge, unmerge, lib, some.randint(2, 9), 700, some.randint(60, 90), 0.5, 1630)


# 15.3


@private("15.3", tells="in other models or for other names, the wrong layers are replaced, or the wrong parts learn.")
def other_models(add_lora, lib):
    some = draw(1630)
    every = ["q_proj", "k_proj", "v_proj", "up", "down", "upper", "q_proj_2", "head"]
    for count in (1, some.randint(2, 5), some.randint(11, 14)):
        seen.inserts(add_lora, lib, count, some.sample(every, some.randint(1, 4)), some.random() < 0.5)
    refused = lib(toys).left_alone(
        add_lora, lib(toys).Tree(2, 3), [some.choice(every), some.choice(["norm", "gate", "roj", "1"])]
    )
    with tells("a name that no nn.Linear has should raise ValueError, and the model should stay as it was."):
        assert refused == [True, True, True], "refused"


# 15.4


@private("15.4", tells="for other dialogues, the tokens or labels are wrong.")
def other_dialogues(tokens_and_labels, lib):
    for place in range(4):
        seen.writes(tokens_and_labels, lib, seen.some_messages(draw(1640 + place).randint(1, 9), 1650 + place))


@private("15.4", tells="for other logits and labels, the loss is wrong.")
def other_losses(answer_loss):
    for place in range(4):
        some = draw(1660 + place)
        B, T, V = some.randint(1, 5), some.randint(2, 9), some.randint(2, 12)
        logits, labels = 3 * normal(B, T, V, seed=1670 + place), seen.some_labels(1680 + place, B, T, V)
        found = answer_loss(logits, labels)
        assert expect.near(
            found.reshape(()).float(), seen.mean_loss(logits, labels).reshape(()), rtol=1e-4, atol=1e-5
        ), (
            B,
            T,
            V,
        )


# 15.5


@private("15.5", tells="other dialogues are packed wrongly, such as some of equal length.")
def other_rows(pack):
    some = draw(1690)
    for place in range(3):
        examples = seen.some_examples(some.randint(2, 6), 1, 1700 + place)
        examples += seen.some_examples(2, 1, 1705 + place)  # of equal lengths
        some.shuffle(examples)
        row = expect.items(pack(examples), 4, "the row")
        for found, wanted in zip(row, seen.in_a_row(examples), strict=True):
            assert torch.equal(found, wanted) and found.dtype is wanted.dtype, place


# 15.6


@private("15.6", tells="with other batches or another clip, the loss or the weights after the step are wrong.")
def other_batches(train_step, lib):
    for place in range(4):
        some = draw(1710 + place)
        sizes = [(some.randint(1, 4), some.randint(2, 7)) for _ in range((1, 2, 3, 5)[place])]
        V = some.randint(3, 9)
        batches = seen.batches_of(sizes, V, 1720 + 10 * place, some.choice([0.2, 0.5, 0.9]))
        clip = (1e6, 0.3, 0.02, 1e6)[place]
        which = "more than three batches" if place == 3 else "other batches or another clip"
        with tells(f"with {which}, the loss or the weights after the step are wrong."):
            d, frozen, groups = some.randint(2, 6), place == 2, place == 1
            seen.steps_right(train_step, lib, batches, clip, 1770 + place, V, d, frozen=frozen, groups=groups)


@private("15.6", tells="with many batches or long ones, the loss or the weights after the step are wrong.")
def many_batches(train_step, lib):
    some = draw(1715)
    V = some.randint(30, 60)
    sizes = [(2, some.randint(50, 80)), (1, 1), *((1, some.randint(2, 5)) for _ in range(20))]
    seen.steps_right(train_step, lib, seen.batches_of(sizes, V, 1780), 0.5, 1775, V, 4)
    with tells("with some thousand labels, the loss or the weights after the step are wrong."):
        seen.steps_right(train_step, lib, seen.batches_of([(3, 702)], V, 1810, 1.0), 1e6, 1776, V, 4)


# 15.7


@private("15.7", tells="for other tasks, the mean or the interval is wrong.")
def other_answers(pass_at_k, over_tasks):
    some = draw(1780)
    for _ in range(6):
        n = some.randint(1, 60)
        c, k = some.randint(0, n), some.randint(1, n)
        with tells("`pass_at_k` is wrong for other numbers of answers."):
            assert math.isclose(pass_at_k(n, c, k), seen.chance_of_one(n, c, k), abs_tol=1e-9), (n, c, k)
    with tells("`pass_at_k` is wrong where thousands of answers are right or are drawn. Leave no factor out."):
        for n, c, k in ((100_000, 2_500, 30), (100_000, 30, 2_500), (90_000, 50_000, 1), (5_000, 1_001, 3)):
            missed = math.prod(1 - k / i for i in range(n - c + 1, n + 1))
            assert math.isclose(pass_at_k(n, c, k), 1 - missed, abs_tol=1e-9), (n, c, k)
    for count in (2, some.randint(3, 30)):
        n = some.randint(2, 12)
        k = some.randint(1, n)
        seen.spreads(over_tasks, [some.randint(0, n) for _ in range(count)], n, k)
