"""Checks of notebook 05: pairs, streams, schedule, accuracy, spread, intervals, comparison, seeds, luck."""

import itertools
import math
import random
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models, processors
from torch import nn

from utils import tiny_bert
from utils.checks import nb05_toys as toys
from utils.experiments import rte
from utils.grading import expect
from utils.grading.check import check
from utils.grading.contract import Contract, world_kept
from utils.grading.expect import chance, normal
from utils.grading.forbidden import MODELS
from utils.grading.parts import part
from utils.grading.remote import Library, Remote, StudentError, called, kind, read
from utils.grading.results_check import results_check

refuses = partial(expect.refuses, kinds=("ValueError", "StatisticsError"))  # statistics has a kind of its own

# 5.1

CLS, SEP = 50, 51


def tokenizer(cls_id: int = CLS, sep_id: int = SEP) -> Tokenizer:
    """What is inside a BertTokenizerFast, on a vocabulary whose words are numbers."""
    words = {str(number): number for number in range(100)}
    made = Tokenizer(models.WordLevel(words, unk_token="99"))
    made.post_processor = processors.BertProcessing((str(sep_id), sep_id), (str(cls_id), cls_id))
    return made


def tokenized(made: Tokenizer, a: list[int], b: list[int], max_len: int) -> list[list[int]]:
    """The tokenizer's own ids and types of a pair."""
    made.enable_truncation(max_len, strategy="longest_first")
    found = made.encode([str(number) for number in a], [str(number) for number in b], is_pretokenized=True)
    return [found.ids, found.type_ids]


def two_lists(value: Any) -> tuple[list[int], list[int]]:
    """What encode_pair gives: ids and types, two lists of whole numbers of one length."""
    expect.items(value, 2, "`encode_pair` should return two lists")
    for item, what in zip(value, ("input ids", "token types"), strict=True):
        expect.of_type(item, list, f"the {what} should be a list")
        assert all(type(number) is int for number in item), f"the {what} should be whole numbers."
    ids, types = value
    told = f"there are {len(ids)} input ids, but {len(types)} token types. There should be as many types as ids."
    assert len(ids) == len(types), told + called(value, told)
    return ids, types


def numbers_below(most: int, count: int, seed: int) -> list[int]:
    """So many whole numbers below `most`."""
    pick = expect.draw(seed)
    return [pick.randrange(most) for _ in range(count)]


PAIR = Contract(
    "encode_pair(a, b, cls_id, sep_id, max_len)",
    sizes={"_n": (0, 9, 400), "_m": (0, 9, 400), "max_len": (3, 20, 600), "sep_id": (0, 19), "cls_id": (60, 98)},
    a=lambda toys, seed, _n: [20 + one for one in numbers_below(40, _n, seed)],
    b=lambda toys, seed, _m: [20 + one for one in numbers_below(40, _m, seed + 500)],
    gives="the ids: list; the types: list",
    right=lambda a, b, cls_id, sep_id, max_len: tuple(tokenized(tokenizer(cls_id, sep_id), a, b, max_len)),
    refuses=(
        "encode_pair(a, b, cls_id, sep_id, 2)",
        "encode_pair(a, b, cls_id, sep_id, -max_len)",
        "encode_pair([], [], cls_id, sep_id, 2)",
    ),
)


def is_cut(encode_pair: Remote, made: Tokenizer, first: list[int], second: list[int], max_len: int) -> None:
    """Fail unless a pair has what the tokenizer leaves of it."""
    ids, types = two_lists(encode_pair(first, second, CLS, SEP, max_len))
    wanted, kinds = tokenized(made, first, second, max_len)
    given = f"with `max_len = {max_len}`, sentences of {len(first)} and {len(second)} tokens"
    assert len(ids) <= max_len, (
        f"{given} give {len(ids)} ids. There should be at most {max_len}, with [CLS] and both [SEP] among them."
    )
    cut = f"{given} give ids that do not end with [SEP]. Shorten the sentences, then put the pair together."
    assert ids[-1:] == [SEP] or not ids, cut
    assert len(ids) == len(wanted), f"{given} are cut to {len(ids)} ids. There should be {len(wanted)}."
    assert ids[:1] == [CLS] and ids.count(SEP) == 2, f"{given} are not put together as [CLS] a [SEP] b [SEP]."
    middle = ids.index(SEP)
    left = ids[1:middle], ids[middle + 1 : -1]
    assert left[0] == first[: len(left[0])] and left[1] == second[: len(left[1])], (
        "what is left of a sentence is not its beginning. A sentence should lose its last tokens."
    )
    lengths, right = [len(part) for part in left], [wanted.index(SEP) - 1, len(wanted) - wanted.index(SEP) - 2]
    swapped = lengths != right and lengths == right[::-1] and abs(right[0] - right[1]) == 1
    assert not swapped or not evens_out(encode_pair, made, first, second, max_len), (
        "where both sentences are equally long, the wrong one loses a token. The docstring says which one should."
    )
    assert lengths == right, (
        f"{given} keep {lengths[0]} and {lengths[1]}. The sentence that is longer at that moment should lose a token, "
        "one at a time."
    )
    assert types == kinds, "the token types of a truncated pair are wrong. They should be those of what is left."


def evens_out(encode_pair: Remote, made: Tokenizer, first: list[int], second: list[int], max_len: int) -> bool:
    """Whether shorter pairs keep sentences of the right lengths, or of these in the other order."""
    for most in range(max(3, max_len - 3), max_len):
        ids, wanted = two_lists(encode_pair(first, second, CLS, SEP, most))[0], tokenized(made, first, second, most)[0]
        right = wanted.index(SEP)
        if len(ids) != len(wanted) or SEP not in ids or ids.index(SEP) not in (right, len(wanted) - 1 - right):
            return False
    return True


@check("5.1", points=2)
def encode_pair(encode_pair):
    """Check [CLS] a [SEP] b [SEP], the types, and truncation as the tokenizer does it."""
    made = tokenizer()
    a, b = [11, 12, 13, 14, 15], [21, 22, 23]
    ids, types = two_lists(encode_pair(a, b, CLS, SEP, 30))
    assert ids[:1] == [CLS], "the ids do not begin with [CLS]."
    padded = " A pair that is short is not padded." * (len(ids) == 30)
    assert len(ids) <= 11, f"sentences of 5 and 3 tokens give {len(ids)} ids. They should give 11.{padded}"
    assert ids[-1:] == [SEP], "the ids do not end with [SEP], which ends the second sentence."
    assert ids != [CLS, *a, *b, SEP], "there is no [SEP] between the sentences."
    assert ids == [CLS, *a, SEP, *b, SEP], f"the ids of a pair that fits are `{ids}`, not [CLS] a [SEP] b [SEP]."
    assert any(types), "all token types are zero: the model cannot tell the sentences apart."
    assert types != [0] * 6 + [1] * 5, "the first [SEP] belongs to the first sentence: its type should be 0."
    assert types != [0] * 7 + [1] * 3 + [0], "the last [SEP] belongs to the second sentence: its type should be 1."
    assert types == [0] * 7 + [1] * 4, (
        f"the token types are `{types}`. They should be 0 up to the first [SEP], with it, and 1 after it."
    )

    for one, other in ((a, []), ([], b), ([], [])):
        found = list(two_lists(encode_pair(one, other, CLS, SEP, 30)))
        told = (
            f"a pair of {len(one)} and {len(other)} tokens is wrong. Both [SEP] should stay, with the types of their "
            "places."
        )
        assert found == tokenized(made, one, other, 30), told

    first, second = list(range(10, 19)), list(range(30, 36))  # 9 and 6 tokens
    for max_len in (18, 17, 15, 14, 13, 12, 10, 9, 4, 3):
        is_cut(encode_pair, made, first, second, max_len)
    for one, other in ((second, first), (first, first), (second, second), (first, [33]), ([17], second)):
        for max_len in range(max(3, len(one) + len(other) - 6), len(one) + len(other) + 4):
            is_cut(encode_pair, made, one, other, max_len)
    sentence = "`max_len = 2` must raise ValueError: there is no room for the three special tokens."
    refuses(encode_pair, a, b, CLS, SEP, 2, says=sentence)


# 5.2

PARTS = ("head", "order", "dropout")


def drawn(
    streams: Remote, lib: Library, seed: int, *varies: list[str], last_first: bool = False
) -> dict[str, list[float]]:
    """Three numbers from each generator of `streams(seed, *varies)`, the last generator first if asked for."""
    found = streams(seed, *varies)
    expect.of_type(found, dict, "`streams` should return a dict")
    assert {*found} == {*PARTS}, "the dict should have the keys head, order and dropout, whatever varies."
    numbers = {}
    for name in reversed(PARTS) if last_first else PARTS:
        generator = found[name]
        told = f"`{name}` should be a torch.Generator, not {kind(generator)}."
        assert type(generator) is Remote and "Generator" in repr(generator), told
        numbers[name] = expect.answers(expect.drawn_by, lib, generator, 3, says=told, kinds=("AttributeError",))
    return numbers


@check("5.2", points=2)
def streams(streams, lib):
    """Check for a generator per part: those that vary depend on the seed, no two are the same, nothing else moves."""
    before = expect.torch_state(lib)
    first = drawn(streams, lib, 786_433)  # no constant of anyone's
    everything = {seed: drawn(streams, lib, seed) for seed in range(12)}
    after = expect.torch_state(lib)
    sentence = "torch's global generator is seeded or used. Make generators of your own."
    assert before == after, sentence
    with world_kept(lib, "after `streams`"):
        streams(3, [])
    for seed in (0, 3):
        again = drawn(streams, lib, seed)
        if again == everything[seed]:
            backwards = drawn(streams, lib, seed, last_first=True)
            assert backwards == again, "the parts share one generator. Then what one draws shifts what the others get."
        assert again == everything[seed], "a second call with the same seed gives other numbers."
        assert drawn(streams, lib, seed, list(PARTS)) == again, (
            "with all three parts in `varies`, they draw other numbers than without `varies`."
        )
    told = "in another session of Python, the same seed gives other numbers. There, `hash` of a text is another number."
    assert lib(toys).survives_the_session(streams, 3, list(PARTS)) is True, told
    for numbers in everything.values():
        for a, b in itertools.combinations(PARTS, 2):
            assert numbers[a] != numbers[b], f"`{a}` and `{b}` of a run draw the same numbers."
    for name in PARTS:
        assert everything[1][name] != everything[2][name], (
            f"`{name}` draws the same numbers for the seeds 1 and 2, though it should vary."
        )
    flat = [(seed, name, tuple(found)) for seed, numbers in everything.items() for name, found in numbers.items()]
    for (seed, a, these), (other_seed, b, those) in itertools.combinations(flat, 2):
        assert these != those, (
            f"`{a}` of seed {seed} and `{b}` of seed {other_seed} draw the same numbers: the runs are not independent."
        )
    for name in PARTS:
        one, two = drawn(streams, lib, 1, [name]), drawn(streams, lib, 2, [name])
        assert one[name] != two[name], f"`{name}` is the same in two runs, though it alone should vary."
        for other in PARTS:
            if other != name:
                assert one[other] == two[other], f"`{other}` differs between runs, though only `{name}` should vary."
        assert one[name] == everything[1][name], f"`{name}` of a seed should not depend on what else varies."
        stuck = {other: one[other] for other in PARTS if other != name}
        assert len({tuple(numbers) for numbers in [*stuck.values(), one[name]]}) == 3, (
            "a part that does not vary draws the same numbers as another part."
        )
        for other, held in stuck.items():
            told = f"`{other}`, where it does not vary, depends on the seed that was asked for first. Use a constant."
            assert held not in first.values(), told
            as_another = [flat_name for _, flat_name, found in flat if found == tuple(held) and flat_name != other]
            assert not as_another, (
                f"`{other}`, where it does not vary, draws what `{as_another[0]}` draws for some seed. No two parts "
                "may draw the same numbers."
            )
    nothing, other = drawn(streams, lib, 5, []), drawn(streams, lib, 6, [], last_first=True)
    told = "the parts that do not vary share one generator. Then what one draws shifts what the others get."
    assert nothing == other or nothing != drawn(streams, lib, 6, []), told
    assert nothing == other, "with nothing in `varies`, two seeds should give the same run."
    sentence = "a name in `varies` that is none of the three, such as a misspelled one, should raise ValueError."
    refuses(streams, 1, ["heads"], says=sentence)
    refuses(streams, 1, ["head", "weights"], says=sentence)


def beginnings(streams: Remote, lib: Library, seeds: Sequence[int]) -> tuple[list[tuple[float, ...]], list[int]]:
    """The first numbers of the generator of each part of each seed, and with what number it was seeded.

    They follow from the generators' states, in this process. A state of a GPU's generator is itself all that it draws
    from, and its first eight bytes are the seed.
    """
    states = lib(toys).states_of(streams, list(seeds), list(PARTS))
    whole = type(states) is torch.Tensor and states.dtype == torch.uint8 and states.ndim == 2
    assert whole and len(states) == len(seeds) * len(PARTS), "the generators have no states of torch's."
    if states.shape[1] != torch.Generator().get_state().numel():
        assert torch.accelerator.is_available(), "the generators have no states of torch's."
        return [tuple(row.tolist()) for row in states], [int.from_bytes(bytes(row[:8]), "little") for row in states]
    numbers = [tuple(expect.torch_numbers(row, 3).tolist()) for row in states]
    return numbers, [torch.Generator().set_state(row.clone()).initial_seed() for row in states]


# 5.3


def on_the_line(step: float, warmup: int, total: int, peak: float) -> float:
    """The rate at `step`, read off the straight lines between the three corners."""
    corners = [(0, 0.0), (warmup, peak), (total, 0.0)] if warmup else [(0, peak), (total, 0.0)]
    for (left, low), (right, high) in itertools.pairwise(corners):
        if left <= step <= right:
            return low + (high - low) * (step - left) / (right - left)
    return 0.0


def trained(make: Callable[[nn.Module], torch.optim.Optimizer], state: dict[str, torch.Tensor]) -> torch.Tensor:
    """All parameters, in a row, of `network()` with these weights after the steps of `lessons()`."""
    model = network()
    model.load_state_dict(state)
    rule = make(model)
    for x, labels in lessons():
        toys.step(model, rule, x, labels)
    return torch.cat([part.detach().flatten() for part in model.state_dict().values()])


def network(module: Any = nn) -> Any:
    """A small network with a norm between two linear maps."""
    return module.Sequential(module.Linear(3, 4), module.LayerNorm(4), module.Linear(4, 2))


def network_state(seed: int = 500) -> dict[str, torch.Tensor]:
    """Random weights for `network()`."""
    shapes = {name: part.shape for name, part in network().state_dict().items()}
    return {name: 1 + normal(*shape, seed=seed + place) for place, (name, shape) in enumerate(shapes.items())}


def lessons() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Four batches, gradients large and small."""
    sizes = (1.0, 6.0, 0.2, 1.0)
    return [(size * normal(6, 3, seed=510 + place), (torch.arange(6) + place) % 2) for place, size in enumerate(sizes)]


def grouped(model: nn.Module, lr: float, kept: Callable[[str], bool], **options: Any) -> torch.optim.Optimizer:
    """AdamW with decay for the parameters whose name is `kept`."""
    named = list(model.named_parameters())
    decayed, spared = [part for name, part in named if kept(name)], [part for name, part in named if not kept(name)]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": spared, "weight_decay": 0.0}]
    return torch.optim.AdamW([group for group in groups if group["params"]], lr=lr, **options)


def learns(
    make_optimizer: Remote,
    lib: Library,
    ours: nn.Module,
    theirs: Remote,
    spared: set[str],
    batches: list[tuple[torch.Tensor, torch.Tensor]],
    lr: float,
    seed: int,
    sentence: str = "a weight is wrong",
    equal: tuple[str, ...] = (),
) -> None:
    """Fail with `sentence` unless `theirs`, after the steps of `batches`, has the weights that `ours` has.

    All weights of more than one dimension are decayed, but those of the parts that are `spared`. Those that are `equal`
    have the same numbers before the first step.
    """
    numbers = enumerate(ours.named_parameters())
    state = {name: 1 + normal(*part.shape, seed=seed + place) for place, (name, part) in numbers}
    state |= {name: state[equal[0]].clone() for name in equal}
    ours.load_state_dict(state, strict=False)
    theirs.load_state_dict(state, False)
    own = grouped(ours, lr, lambda name: name.endswith("weight") and name not in spared)
    rule, toy = make_optimizer(theirs, lr), lib(toys)
    for x, labels in batches:
        toys.step(ours, own, x, labels)
        toy.step(theirs, rule, x, labels)
    found = theirs.state_dict()
    for name, wanted in ours.state_dict().items():
        expect.close(found[name].float(), wanted.float(), sentence, 2e-4)


SCHEDULE = Contract(
    "schedule(step, warmup, total, peak)",
    sizes={"step": (0, 20, 3000), "warmup": (0, 9, 1500), "_rest": (1, 9, 2500), "_peak": (1, 9)},
    total="= warmup + _rest",
    peak="= 10.0 ** -_peak",
    gives="the rate: number",
    right=lambda step, warmup, total, peak: on_the_line(step, warmup, total, peak),
    refuses=("schedule(step, total, total, peak)", "schedule(step, -1 - warmup, total, peak)"),
    tolerance=1e-6,
)


@check("5.3", points=3, forbids=("get_linear_schedule_with_warmup", "get_scheduler", *MODELS))
def optimizer(schedule, make_optimizer, lib):
    """Check that the rate goes up and down in straight lines, and that AdamW spares biases and norms."""
    for warmup, total, peak in ((4, 20, 3e-5), (10, 13, 1e-4), (0, 8, 2e-5), (1, 2, 0.5)):
        rates = [expect.number(schedule(step, warmup, total, peak), "the rate") for step in range(total + 1)]
        given = f"with `warmup = {warmup}, total = {total}`,"
        if warmup > 1:
            assert rates[0] < 0.99 * peak, "warm-up starts at the peak. It should rise from zero to it."
            assert rates[0] == 0, "warm-up does not start at zero: at step 0 no step has been taken."
        if warmup == 0:
            assert rates[0] > 0, "without warm-up the first step should have the peak rate."
        assert rates[-1] < 0.01 * peak, f"{given} the rate is not zero when all steps are done."
        assert max(rates) < 1.001 * peak, f"{given} the rate rises above the peak."
        assert max(rates) > 0.999 * peak, f"{given} the rate never reaches the peak."
        assert rates.index(max(rates)) == warmup, f"{given} the peak should come after `warmup` steps."
        for step, rate in enumerate(rates):
            side = "warm-up" if step < warmup else "decay"
            sentence = f"{given} the rate at step {step} is not on the straight line of the {side}."
            expect.close(rate / peak, on_the_line(step, warmup, total, peak) / peak, sentence, 1e-6)
    for step in (8, 9, 50):
        late = expect.number(schedule(step, 2, 8, 1e-4), "the rate")
        assert late == 0, f"after the last step the rate is {late:g}. It should stay at zero."
    for warmup, total in ((8, 8), (9, 8), (-1, 8)):
        sentence = f"`warmup = {warmup}` with `total = {total}` must raise ValueError."
        refuses(schedule, 1, warmup, total, 1e-4, says=sentence)

    lr, state, toy = 0.1, network_state(), lib(toys)
    theirs = network(lib(nn))
    theirs.load_state_dict(state)
    with world_kept(lib, "after `make_optimizer`"):
        rule = make_optimizer(theirs, lr)
    expect.of_type(rule, Remote, "`make_optimizer` should return an optimizer")
    for x, labels in lessons():
        toy.step(theirs, rule, x, labels)
    found = theirs.state_dict()
    still = [name for name in state if torch.equal(found[name].float(), state[name])]
    assert not still or len(still) == len(state), (
        f"after four steps `{still[0]}` has not moved. The optimizer should train all parameters."
    )
    right = {"0.weight", "2.weight"}
    wanted = trained(lambda model: grouped(model, lr, right.__contains__), state)
    guesses: dict[str, Callable[[nn.Module], torch.optim.Optimizer]] = {
        "everything is decayed. Biases and norms should be spared.": lambda model: grouped(
            model, lr, lambda name: True
        ),
        "nothing is decayed. Weight decay is 0.01 for all but biases and norms.": lambda model: grouped(
            model, lr, lambda name: False
        ),
        "the weights of the norm are decayed. They are not called `norm` here: look at the kind of part or at its "
        "shape.": lambda model: grouped(model, lr, lambda name: name.endswith("weight")),
        "decay falls on the parts that should be spared, and spares the others.": lambda model: grouped(
            model, lr, lambda name: name not in right
        ),
        "some biases are decayed.": lambda model: grouped(model, lr, lambda name: not name.startswith("1")),
        "the learning rate is not `peak`.": lambda model: grouped(model, 1e-3, right.__contains__),
        "this is Adam with the decay inside the gradient. AdamW shrinks the weights themselves.": lambda model: (
            torch.optim.Adam(
                [
                    {"params": [part for name, part in model.named_parameters() if name in right]},
                    {
                        "params": [part for name, part in model.named_parameters() if name not in right],
                        "weight_decay": 0.0,
                    },
                ],
                lr=lr,
                weight_decay=0.01,
            )
        ),
    }
    for betas in ((0.9, 0.98), (0.9, 0.99), (0.9, 0.95)):
        sentence = f"the betas are {betas[0]} and {betas[1]}. They should be 0.9 and 0.999."
        guesses[sentence] = partial(grouped, lr=lr, kept=right.__contains__, betas=betas)
    expect.like(
        torch.cat([found[name].float().flatten() for name in state]),
        wanted,
        "after a few steps the weights are not those of AdamW, betas 0.9 and 0.999, with decay 0.01 where it belongs.",
        {sentence: trained(make, state) for sentence, make in guesses.items()},
        1e-4,
    )
    sentence = "a second model of the same shapes is trained wrongly. Make a new optimizer for each model."
    learns(make_optimizer, lib, network(), network(lib(nn)), {"1.weight"}, lessons(), lr, 540, sentence)
    batches = [(normal(7, 4, seed=550 + place), (torch.arange(7) + place) % 2) for place in range(3)]
    for name, sizes in (("RMSNorm", (6,)), ("GroupNorm", (1, 6)), ("BatchNorm1d", (6,))):
        sentence = f"a model with nn.{name} is trained wrongly. Decay the matrices, but not the weight of the norm."
        mine, other = (normed(module, name, sizes, 4) for module in (nn, lib(nn)))
        learns(make_optimizer, lib, mine, other, {"1.weight"}, batches, 0.1, 560, sentence)
    sentence = "a model with a convolution is trained wrongly. Decay its weight, which has three dimensions."
    learns(make_optimizer, lib, convolution(nn), convolution(lib(nn)), set(), batches, 0.1, 565, sentence)
    theirs = network(lib(nn)).double()
    theirs.eval()
    theirs[0].requires_grad_(False)
    make_optimizer(theirs, 0.1)
    kept = toy.learning(theirs) == [False] * 2 + [True] * 4 and read(theirs.training) is False
    assert kept and all(value.dtype == torch.float64 for value in theirs.state_dict().values()), (
        "`make_optimizer` changes the model: its mode, its dtype, or which of its parameters learn. It should make an "
        "optimizer and leave the model as it is."
    )
    sentence = (
        "a model in which two parts share a weight is trained wrongly. It is one parameter: decay it, and only once."
    )
    theirs = lib(tiny_bert).tied(4, 2)
    learns(make_optimizer, lib, tiny_bert.tied(4, 2), theirs, set(), batches, 0.1, 570, sentence)


def convolution(module: Any) -> Any:
    """A convolution over four numbers, then a linear map."""
    return module.Sequential(module.Unflatten(1, (1, 4)), module.Conv1d(1, 3, 2), module.Flatten(), module.Linear(9, 2))


def normed(module: Any, name: str, sizes: tuple[int, ...], d: int) -> Any:
    """Two linear maps and the norm of that name between them.

    The first has no bias: some norms take it out again, and of a slope of nothing Adam makes steps of noise.
    """
    width = sizes[-1]
    norm = getattr(module, name)(*sizes)
    return module.Sequential(module.Linear(d, width, bias=False), norm, module.Linear(width, 2))


# 5.4


def votes(seed: int, count: int, classes: int) -> list[int]:
    """So many class numbers."""
    return random.Random(seed).choices(range(classes), k=count)


def share(value: Any, what: str, right: float | None = None) -> float:
    """`value`, a float that is a share; `right` is the right one, if it is known."""
    value = expect.number(value, what)
    points = right is not None and right > 0.02 and math.isclose(value, 100 * right, rel_tol=0.02)
    assert not points, f"{what} is in points. It should be a fraction, from 0 to 1."
    assert 0 <= value <= 1, f"{what} is {value:g}. It should be a fraction, from 0 to 1."
    return value


def classes_apart(classes: int, count: int, seed: int, kind: int) -> list[int]:
    """So many class numbers that are 3 apart, or 256, which is 0 in eight bits; `kind` decides which numbers."""
    return [kind % 50 + (3, 256)[kind % 2] * one for one in numbers_below(classes, count, seed)]


ACCURACY = Contract(
    "accuracy(predictions, labels)",
    sizes={"_N": (1, 30, 3000), "_C": (2, 9), "_more": (1, 9)},
    predictions=lambda toys, seed, _N, _C: classes_apart(_C, _N, seed, seed),
    labels=lambda toys, seed, _N, _C: classes_apart(_C, _N, seed + 500, seed),
    longer=lambda toys, seed, _N, _C, _more: numbers_below(_C, _N + _more, seed),
    gives="the accuracy: number",
    right=lambda predictions, labels: sum(map(int.__eq__, predictions, labels)) / len(labels),
    special={"class numbers above 255": lambda predictions, labels: max(predictions + labels) > 255},
    refuses=("accuracy(predictions, longer)", "accuracy(longer, labels)", "accuracy([], labels)", "accuracy([], [])"),
    tolerance=1e-6,
)
MAJORITY = Contract(
    "majority(labels)",
    sizes={"_N": (1, 30, 3000), "_C": (2, 9)},
    labels=lambda toys, seed, _N, _C: classes_apart(_C, _N, seed, seed),
    gives="the share: number",
    right=lambda labels: max(sum(label == one for label in labels) for one in {*labels}) / len(labels),
    refuses=("majority([])",),
    tolerance=1e-6,
)


@check("5.4", points=2)
def accuracy(accuracy, majority):
    """Check the share of correct predictions and the share of the most frequent class, both as fractions."""
    predictions, labels = [0, 1, 1, 2, 1, 1, 1], [0, 1, 0, 2, 2, 0, 1]
    found = share(accuracy(predictions, labels), "the accuracy", 4 / 7)
    assert found not in (0.57, 0.571, 0.5714), "the accuracy is rounded. Round when you print, not before."
    assert found != 1.0, f"the accuracy of `{predictions}` for the labels `{labels}` is 1, but three are wrong."
    if 1e-6 < abs(found - 4 / 7) < 1e-3:
        raise AssertionError(
            f"the accuracy {found:.6g} is near the right 4/7, but has too few digits. Compute it in full precision."
        )
    expect.close(found, 4 / 7, "the accuracy is not the share of predictions that equal their label.", 1e-6)
    expect.close(
        share(accuracy([1, 1], [0, 0]), "the accuracy"), 0, "where no prediction is right, the accuracy is not 0."
    )
    told = (
        "where each prediction is the label of another place, the accuracy is not 0. Compare those in the same place."
    )
    expect.close(share(accuracy([0, 1, 2, 1], [1, 0, 1, 2]), "the accuracy"), 0, told)
    expect.close(
        share(accuracy([3], [3]), "the accuracy"), 1, "where the only prediction is right, the accuracy is not 1."
    )
    told = (
        "a right prediction of class 70,000 does not count. Class numbers may be any. Compare with `==`, not with `is`."
    )
    expect.close(share(accuracy([70_000], [70_000]), "the accuracy"), 1, told)

    labels = [2, 0, 2, 1, 4, 2, 1, 0, 2, 1, 2]  # two, three and five of classes 0, 1 and 2, and one of class 4
    found = expect.number(majority(labels), "the majority share")
    zero_or_one = "only 0 and 1 existed. There may be more: count each class."
    sentence, mean = f"this is the mean of the class numbers, as if {zero_or_one}", sum(labels) / len(labels)
    assert min(abs(found - mean), abs(found - (1 - mean))) > 1e-6, sentence
    known = (2, 4, 1 / 11, 2 / 11, 3 / 11, 6 / 11, 8 / 11, 9 / 11)  # what mistakes give: which of them shows below
    if min(abs(found - guess) for guess in known) <= 1e-6:
        others = [5, 0, 5, 1, 0, 5, 1, 0, 5, 1, 0, 0]  # five, four and three of classes 0, 5 and 1
        again = expect.number(majority(others), "the majority share")
        for sentence, guess in {
            "`majority` returns the most frequent class. It should return that class's share of the labels.": (2, 0),
            "this is the number of classes that occur. A share of the labels is asked for.": (4, 3),
            "`majority` returns the largest class number. A share of the labels is asked for.": (4, 5),
            f"for `{labels}` this is the share of the largest class number. The most frequent one is asked for.": (
                1 / 11,
                4 / 12,
            ),
            f"for `{labels}` this is the share of the rarest class. The most frequent one is asked for.": (
                1 / 11,
                3 / 12,
            ),
            f"for `{labels}` only equal neighbours are counted. Count all labels of a class, wherever they are.": (
                1 / 11,
                2 / 12,
            ),
            f"for `{labels}` this is the share of all other classes. That of the most frequent one is asked for.": (
                6 / 11,
                7 / 12,
            ),
            f"this is the distance of the mean of the class numbers from 1, as if {zero_or_one}": (6 / 11, 11 / 12),
            f"for `{labels}` this is the share of the second most frequent class.": (3 / 11, 4 / 12),
            "this is the share of class 1. The most frequent class may be any.": (3 / 11, 3 / 12),
            "this is the share of class 0. The most frequent class may be any.": (2 / 11, 5 / 12),
            f"this is the larger share of classes 0 and 1, as if {zero_or_one}": (3 / 11, 5 / 12),
            f"this is what the share of class 1 leaves, as if {zero_or_one}": (8 / 11, 9 / 12),
            f"this is what the share of class 0 leaves, as if {zero_or_one}": (9 / 11, 7 / 12),
        }.items():
            assert max(abs(found - guess[0]), abs(again - guess[1])) > 1e-6, sentence
    found = share(found, "the majority share", 5 / 11)
    assert abs(found - 1 / 4) > 1e-6, "this is one over the number of classes. Count each class."
    told = f"for `{labels}` the majority share is not that of the most frequent class. Your code gives {found:.6g}."
    expect.close(found, 5 / 11, told, 1e-6)
    for label in (4, 12, 300):
        told = f"where class {label} is the most frequent, the majority share is wrong. Class numbers may be any."
        expect.close(share(majority([label, 0, label]), "the majority share"), 2 / 3, told, 1e-6)
    expect.close(
        share(majority([1, 0, 0, 0]), "the majority share"),
        0.75,
        "for `[1, 0, 0, 0]` the majority share is wrong.",
        1e-6,
    )
    for some, labels in (([0, 1, 1], [0, 1]), ([1], [0, 1, 1])):
        told = f"with {len(some)} prediction{'s' * (len(some) > 1)} and {len(labels)} labels, raise ValueError."
        refuses(accuracy, some, labels, says=told)
    sentence = "without an example there is no accuracy: raise ValueError, not 0 and not NaN."
    refuses(accuracy, [], [], says=sentence)
    refuses(majority, [], says="without a label there is no majority: raise ValueError.")


# 5.5


def row(value: Any) -> Any:
    """`value`, as a list if it is numbers in a row: a tensor or an array."""
    return value.tolist() if isinstance(value, (torch.Tensor, np.ndarray)) and value.ndim == 1 else value


def two_numbers(value: Any, what: str) -> tuple[float, float]:
    """`value`, two numbers."""
    value = row(value)
    expect.items(value, 2, f"{what} should return two numbers")
    return expect.number(value[0], f"the first number of {what}"), expect.number(value[1], f"the second of {what}")


A_RUN_OF_0: dict[str, Callable[..., bool]] = {"a run of 0 among the accuracies": lambda accuracies: 0 in accuracies}


def fractions(count: int, seed: int) -> list[float]:
    """So many accuracies; some are equal, and 0 and 1 may be among them."""
    pick = expect.draw(seed)
    kinds = [0.0, 1.0, *(pick.uniform(0.4, 0.9) for _ in range(4))]
    return [*pick.sample(kinds, min(count, 2)), *pick.choices(kinds, k=max(0, count - 2))]


SPREAD = Contract(
    "mean_and_sd(accuracies)",
    sizes={"_N": (2, 9, 1500)},
    accuracies=lambda toys, seed, _N: fractions(_N, seed),
    points=lambda toys, seed, _N: [100 * one for one in fractions(_N, seed)],
    single=lambda toys, seed: fractions(1, seed),
    gives="the mean: number; the deviation: number",
    right=lambda accuracies: (statistics.mean(accuracies), statistics.stdev(accuracies)),
    refuses=("mean_and_sd(points)", "mean_and_sd(single)", "mean_and_sd([])"),
    special=A_RUN_OF_0
    | {
        "a run of 1 among the accuracies": lambda accuracies: 1 in accuracies,
        "a run of 0 or of 1 among the accuracies": lambda accuracies: not {0, 1}.isdisjoint(accuracies),
        "equal accuracies": lambda accuracies: len({*accuracies}) < len(accuracies),
    },
    tolerance=1e-6,
)
POINTS = Contract(
    "in_points(mean, sd)",
    sizes={"_mean": (1, 1000), "_sd": (0, 200), "_off": (0, 4)},
    mean="= (_mean - 0.1 * _off) / 1000",  # rounded up
    sd="= (_sd + 0.1 * _off) / 1000",  # rounded down
    gives="the text: text",
    right=lambda mean, sd: f"{round(100 * mean, 1)} ± {round(100 * sd, 1)} points",
)
ACCURACIES = [0.66, 0.64, 0.67, 0.65, 0.69]


def spread_is(found: float, values: list[float]) -> None:
    """Fail unless `found` is the sample standard deviation of `values`, with the reason if it is known."""
    wanted = statistics.stdev(values)
    guesses = {
        "this divides by n. A sample's standard deviation divides by n - 1.": statistics.pstdev(values),
        "this is the variance. Take its root.": statistics.variance(values),
        "this is the standard error of the mean. The spread of runs is not divided by the root of n.": wanted
        / len(values) ** 0.5,
        "the mean is a fraction and the standard deviation in points: never mix them.": 100 * wanted,
        "this is the range, not the standard deviation.": max(values) - min(values),
    }
    expect.number_like(found, wanted, "the standard deviation", "the standard deviation is wrong.", guesses, 1e-5)


def no_spread(mean_and_sd: Remote, values: list[float]) -> None:
    """Fail unless equal `values` have no spread."""
    zero, exact = "equal accuracies should have a standard deviation of 0.", values[0] == 0.5  # which rounds nothing
    sentence = (
        f"{zero} A difference of two sums of squares, rounded, can be negative: sum the squares of the differences."
    )
    try:
        mean, sd = two_numbers(mean_and_sd(values), "mean_and_sd")
    except StudentError as error:
        if error.is_no_answer:
            raise
        of_a_root = any(words in str(error) for words in ("math domain", "nonnegative", "negative number"))
        told = sentence if of_a_root and not exact else zero
        raise AssertionError(f"{told} It raised {error.type_name or 'nothing usable'}.") from None
    except AssertionError as failed:
        of_a_root = any(words in str(failed) for words in ("NaN", "complex"))
        told = sentence if of_a_root and not exact else f"for the accuracies `{values}`, {failed}"
        raise AssertionError(told) from None
    expect.close(sd, 0, f"{zero} Your code gives {sd:.6g}.", 1e-6)
    expect.close(mean, values[0], "the mean of equal accuracies is another number.", 1e-6)


@check("5.5", points=2)
def mean_and_sd(mean_and_sd, in_points):
    """Check the mean and sample standard deviation as fractions, and how they are written down."""
    mean, sd = two_numbers(mean_and_sd(ACCURACIES), "mean_and_sd")
    assert abs(mean - 65) >= 5, "the mean is in points. Accuracies are fractions until they are printed."
    if abs(mean - 0.66) <= 1e-9:  # the median, or rounded
        other = two_numbers(mean_and_sd([0.5, 0.52, 0.7]), "mean_and_sd")[0]
        assert abs(other - 0.52) > 1e-9, (
            "for `[0.5, 0.52, 0.7]` the first number is 0.52, the middle one. It should be the mean of all."
        )
        assert abs(other - 0.57) > 1e-9, "the mean is rounded to two digits. Round when you print, not before."
    told = f"the first number, {mean:.6g}, is near the mean, but not equal to it. Compute it in full precision."
    apart = abs(mean - statistics.mean(ACCURACIES))
    assert apart <= 1e-6 or apart >= 5e-4, told
    expect.close(mean, statistics.mean(ACCURACIES), "the first number is not the mean of the accuracies.", 1e-6)
    spread_is(sd, ACCURACIES)
    third = two_numbers(mean_and_sd([0.5, 0.52, 0.68]), "mean_and_sd")[0]
    told = f"for `[0.5, 0.52, 0.68]` the first number is {third:.8g}. It should be the mean in full precision."
    expect.close(third, 1.7 / 3, told, 1e-7)
    for tenth in range(50, 80):
        no_spread(mean_and_sd, [tenth / 100] * 3)
    sentence = "one run has no standard deviation: `mean_and_sd` should raise ValueError."
    refuses(mean_and_sd, [0.66], says=sentence)
    sentence = "accuracies of 66 and 64 are in points: `mean_and_sd` should raise ValueError for values outside 0 to 1."
    refuses(mean_and_sd, [66.0, 64.0], says=sentence)

    text = in_points(0.5283, 0.0139)
    expect.of_type(text, str, "`in_points` should return a string")
    assert "%" not in text, "a percent sign after a standard deviation can be read in two ways. Write `points`."
    assert "0.01" not in text and "0.0 " not in text, (
        "the standard deviation is printed as a fraction. Both numbers should be in points."
    )
    assert text == "52.8 ± 1.4 points", (
        f"`in_points(0.5283, 0.0139)` gives `{text}`. Write it as the docstring shows, both rounded to one digit."
    )
    for mean, sd, wanted in ((0.6582, 0.0123, "65.8 ± 1.2 points"), (0.7, 0.0206, "70.0 ± 2.1 points")):
        text = in_points(mean, sd)
        assert text == wanted, (
            f"`in_points({mean}, {sd})` gives `{text}`. Each number should have one digit after the point."
        )


# 5.6

# Quantiles of Student's t from printed tables: (runs, level) -> t with runs - 1 degrees of freedom.
T_TABLE = {(5, 0.95): 2.776445, (3, 0.95): 4.302653, (2, 0.95): 12.706205, (5, 0.9): 2.131847, (10, 0.99): 3.249836}
TEN = [0.61, 0.58, 0.64, 0.66, 0.63, 0.6, 0.65, 0.59, 0.67, 0.62]


def half_width(values: list[float], level: float) -> float:
    """Half of the t interval's length, from the table."""
    return T_TABLE[len(values), level] * statistics.stdev(values) / len(values) ** 0.5


T_INTERVAL = Contract(
    "t_interval(values, level)",
    sizes={"_N": (2, 9, 1200), "_level": (1, 8)},
    values=lambda toys, seed, _N: fractions(_N, seed),
    level="= 1 - 0.5 ** _level",
    single=lambda toys, seed: fractions(1, seed),
    gives="the lower end: number; the upper end: number",
    right=lambda values, level: paired(values, level)[1:],
    refuses=("t_interval(single, level)", "t_interval([], level)"),
    tolerance=1e-5,
)
BOOTSTRAP = Contract(
    "bootstrap_interval(values, level, resamples, seed)",
    sizes={"_N": (2, 9, 300), "_level": (1, 6), "resamples": (1, 200), "seed": (0, 90)},
    values=lambda toys, seed, _N: fractions(_N, seed),
    level="= 1 - 0.5 ** _level",
    single=lambda toys, seed: fractions(1, seed),
    gives="the lower end: number; the upper end: number",
    fits=lambda low, high, values, level, resamples, seed: (
        "these are not two means of resamples."
        if not min(values) - 1e-6 <= low <= high <= max(values) + 1e-6
        else "with a single resample, both ends should be its mean."
        if resamples == 1 and high - low > 1e-6
        else ""
    ),
    refuses=("bootstrap_interval(single, level)", "bootstrap_interval([], level)"),
)
BINOMIAL = Contract(
    "binomial_error(p, examples)",
    sizes={"_p": (0, 20), "examples": (1, 300, 10**6)},
    p="= _p / 20",
    gives="the error: number",
    right=lambda p, examples: math.sqrt(p * (1 - p) / examples),
    tolerance=1e-6,
)


@check("5.6", points=3, forbids=("seed_table",))
def intervals(t_interval, bootstrap_interval, binomial_error, lib):
    """Check two intervals for the mean over runs, and the standard error over examples."""
    with part("t_interval", 1):
        high_ones, low_ones = [0.9, 0.95, 1.0], [0.0, 0.05, 0.1]
        plans = ((ACCURACIES, ()), (ACCURACIES, (0.9,)), (TEN, (0.99,)), ([0.5, 0.6, 0.64], ()))
        for values, options in (*plans, (high_ones, ()), (low_ones, ())):
            low, high = two_numbers(t_interval(values, *options), "t_interval")
            assert low < high, "the lower end of the t interval is not below the upper."
            assert low != 0 and high != 1, (
                "the t interval is cut off at 0 or 1. The formula does not do that, and differences may be negative."
            )
            level = options[0] if options else 0.95
            mean, n, wanted = statistics.mean(values), len(values), half_width(values, level)
            expect.close((low + high) / 2, mean, "the mean is not in the middle of the t interval.", 1e-5)
            found, sd = (high - low) / 2, statistics.stdev(values)
            tail = statistics.NormalDist().inv_cdf((1 + level) / 2)
            guesses = {
                "the quantile is the normal one. The spread is itself an estimate: with few runs, use t.": tail
                * sd
                / n**0.5,
                "the quantile cuts off all of 1 - level on one side. Half of it belongs on each side.": quantile(
                    2 * level - 1, n
                )
                * sd
                / n**0.5,
                "the degrees of freedom are n. They should be n - 1.": quantile(level, n + 1) * sd / n**0.5,
                "the interval is not divided by the root of n: it is for one run, not for the mean.": wanted * n**0.5,
                "the standard deviation divides by n. It should be that of a sample.": wanted * ((n - 1) / n) ** 0.5,
            }
            told = f"half of the t interval of {n} values at the level {level} is not t · sd / root of n."
            expect.number_like(found, wanted, "half of the t interval", told, guesses)
        told = "for equal values, both ends of the t interval should be their mean."
        ends = row(expect.answers(t_interval, [0.625] * 4, says=told))
        expect.items(ends, 2, "for equal values, `t_interval` should return two numbers")
        kinds = {type(end) for end in ends}
        assert kinds == {float}, f"for equal values, the ends of the t interval should be floats, not {kind(ends[0])}."
        assert not any(map(math.isnan, ends)), f"{told} They are NaN, as a scale of 0 gives it in scipy."
        assert all(abs(end - 0.625) < 1e-9 for end in ends), told
        refuses(t_interval, [0.6], says="one run has no interval: `t_interval` should raise ValueError.")

    with part("bootstrap_interval", 1):
        three = [0.5, 0.56, 0.7]
        low, high = two_numbers(bootstrap_interval(three), "bootstrap_interval")
        same_mean = "both ends are the mean of the runs: draw with replacement, and as many as there are runs."
        assert max(abs(low - sum(three) / 3), abs(high - sum(three) / 3)) > 1e-6, same_mean
        told = f"for `{three}` the ends are {low:g} and {high:g}. The lower should be below the upper."
        assert high - low > 1e-6, told
        # 1 of 27 resamples of three runs is the worst run three times: more than the 2.5% that are cut off.
        ends = torch.tensor([sum([0.5, 0.5, 0.56]) / 3, sum([0.7, 0.7, 0.56]) / 3])  # 4 of 27 are at most this
        cut = "the bootstrap cuts off the wrong share. On each side, half of 1 - level should be cut off."
        assert not expect.near(torch.tensor([low, high]), ends, 1e-5), cut
        told = (
            f"for `{three}` the interval is from {low:.4g} to {high:.4g}, which is far too short. Take a mean for each "
            "resample, of as many draws as there are runs."
        )
        assert high - low > 0.02, told
        told = "the interval is symmetric around the mean. Take quantiles of the means of resamples, not their spread."
        assert abs(low + high - 2 * statistics.mean(three)) > 2e-3, told
        sentence = "the bootstrap interval of three runs is not that of the means of resamples."
        expect.close(torch.tensor([low, high]), torch.tensor([0.5, 0.7]), sentence, 1e-5)
        medians = two_numbers(bootstrap_interval(three, 0.4), "bootstrap_interval")  # 0.56 in 13 of 27 resamples
        told = "these are quantiles of the medians of resamples. Take those of their means."
        assert max(abs(end - 0.56) for end in medians) > 1e-6, told
        low, high = two_numbers(bootstrap_interval(three, 0.8), "bootstrap_interval")
        assert abs(low - 0.5) > 1e-5 or abs(high - 0.7) > 1e-5, (
            f"the bootstrap interval of `{three}` is 0.5 to 0.7 at the level 0.95, and at 0.8. The means of resamples "
            "give a narrower one at 0.8."
        )
        told = f"at the level 0.8, the bootstrap interval of `{three}` is {low:g} to {high:g}. {cut}"
        expect.close(torch.tensor([low, high]), ends, told, 1e-5)
        many = [0.5 + 0.2 * random.Random(place).random() for place in range(20)]
        before = chance(lib)
        first = two_numbers(bootstrap_interval(many, 0.95, 2000, 1), "bootstrap_interval")
        sentence = "a global generator is seeded or used. Make one of your own, such as `np.random.default_rng(seed)`."
        assert chance(lib) == before, sentence
        again = two_numbers(bootstrap_interval(many, 0.95, 2000, 1), "bootstrap_interval")
        assert first == again, "a second call with the same seed gives another bootstrap interval."
        others = {two_numbers(bootstrap_interval(many, 0.95, 2000, seed), "bootstrap_interval") for seed in range(2, 8)}
        assert others != {first}, "`seed` does not change the resamples."
        assert len(others | {first}) == 7, "two seeds give the same resamples."
        error = statistics.pstdev(many) / len(many) ** 0.5
        for end, side in zip(first, (-1, 1), strict=True):
            off = abs(end - (statistics.mean(many) + side * 1.96 * error)) / error
            assert off < 0.3, "the bootstrap interval of many runs is far from mean ± 1.96 standard errors."
        refuses(
            bootstrap_interval, [0.6], says="one run has no interval: `bootstrap_interval` should raise ValueError."
        )

    with part("binomial_error", 1):
        for p, n in ((0.66, 277), (0.5283, 277), (0.8, 25)):
            wanted = math.sqrt(p * (1 - p) / n)
            guesses = {
                "this is the variance. The standard error is its root.": wanted**2,
                "this is the standard deviation of one example: divide by the root of n.": wanted * n**0.5,
                "this is the standard deviation of the number of hits, not of their share.": wanted * n,
                "this is the half-width of an interval. The standard error is not multiplied by 1.96.": 1.96 * wanted,
            }
            told = "the binomial standard error is not the root of p(1 - p)/n."
            expect.number_like(binomial_error(p, n), wanted, "binomial_error", told, guesses, 1e-5)


# 5.7


def three_numbers(value: Any, what: str) -> tuple[float, float, float]:
    """`value`, an effect and the ends of its interval."""
    value = row(value)
    expect.items(value, 3, f"{what} should return three numbers: effect, lower and upper end")
    effect, low, high = (expect.number(item, f"a number of {what}") for item in value)
    told = f"the effect comes last in what {what} gives. It should come first, then the lower end, then the upper."
    if effect < high < low:
        raise AssertionError(told)
    assert low <= high, f"the lower end that {what} gives is above the upper."
    return effect, low, high


def quantile(level: float, n: int) -> float:
    """Student's t that leaves half of what is beyond `level` above it, for n differences."""
    from scipy import stats

    return float(stats.t.ppf((1 + level) / 2, n - 1))


def paired(differences: list[float], level: float = 0.95) -> tuple[float, float, float]:
    """Mean and t interval of differences."""
    mean = statistics.mean(differences)
    half = quantile(level, len(differences)) * statistics.stdev(differences) / len(differences) ** 0.5
    return mean, mean - half, mean + half


def by_seed_wanted(a: Mapping[int, float], b: Mapping[int, float], level: float = 0.95) -> tuple[float, float, float]:
    """The comparison by seed, one seed after another."""
    return paired([b[seed] - a[seed] for seed in a], level)


def by_example_wanted(a: torch.Tensor, b: torch.Tensor, level: float = 0.95) -> tuple[float, float, float]:
    """The comparison by example: one difference of shares for each."""
    return paired(
        [right - left for left, right in zip(*(one.double().mean(0).tolist() for one in (a, b)), strict=True)], level
    )


def hits(seed: int, runs: int, examples: int, shift: float = 0.0) -> torch.Tensor:
    """Which examples each run got right; hard ones are hard for all runs."""
    ease = (torch.rand(examples, generator=expect.generator(7)) + shift).clamp(0.05, 0.95)
    return torch.rand(runs, examples, generator=expect.generator(seed)) < ease


def runs_of(count: int, seed: int, second: bool = False) -> dict[int, float]:
    """So many accuracies by seed; if `second`, of the same seeds in another order, some equal to the first."""
    pick = expect.draw(seed)
    seeds = pick.sample(range(10_000), count)
    first = {one: pick.uniform(0.5, 0.7) for one in seeds}
    if not second:
        return first
    gains = [0.0, 0.1, *(pick.uniform(-0.1, 0.1) for _ in seeds)]
    return {one: first[one] + gains[place] for place, one in enumerate(pick.sample(seeds, count))}


BY_SEED = Contract(
    "by_seed(a, b, level)",
    sizes={"_N": (2, 9, 400), "_level": (1, 8)},
    a=lambda toys, seed, _N: runs_of(_N, seed),
    b=lambda toys, seed, _N: runs_of(_N, seed, second=True),
    with_one_other_seed=lambda toys, seed, _N: {
        one + 10_000 * (place == 0): value for place, (one, value) in enumerate(runs_of(_N, seed, second=True).items())
    },
    level="= 1 - 0.5 ** _level",
    gives="the effect: number; the lower end: number; the upper end: number",
    right=lambda a, b, level: by_seed_wanted(a, b, level),
    refuses=("by_seed(a, with_one_other_seed, level)",),
    tolerance=1e-5,
)
BY_EXAMPLE = Contract(
    "by_example(right_a, right_b, level)",
    sizes={"_R": (1, 5, 1200), "_S": (1, 6, 1200), "_N": (25, 60, 1500), "_level": (1, 8)},
    right_a="bools (_R, _N)",
    right_b="bools (_S, _N)",
    longer="bools (_S, _N + 1)",
    level="= 1 - 0.5 ** _level",
    gives="the effect: number; the lower end: number; the upper end: number",
    right=lambda right_a, right_b, level: by_example_wanted(right_a, right_b, level),
    refuses=("by_example(right_a, longer, level)", "by_example(longer, right_a, level)"),
    tolerance=1e-5,
)
SEEDS_A = {4: 0.60, 1: 0.66, 7: 0.63, 2: 0.58}
SEEDS_B = {1: 0.68, 2: 0.61, 4: 0.59, 7: 0.66}

BETWEEN = "`{}` gives the lower end, the effect and the upper end. The effect should come first."
Effect = tuple[float, ...]  # an effect, the lower and the upper end of its interval


def explained(found: Effect, wanted: Effect, otherwise: str, guesses: Mapping[str, Iterable[Effect]]) -> None:
    """Fail unless both agree, with the sentence of the misconception that gives what was found."""

    def agree(guess: Effect) -> bool:
        return all(abs(a - b) <= 1e-6 * (1 + abs(b)) for a, b in zip(found, guess, strict=True))

    if agree(wanted):
        return
    for sentence, given in guesses.items():
        assert not any(agree(guess) for guess in given), sentence
    raise AssertionError(otherwise)


def around(effect: float, *halves: float) -> list[Effect]:
    """Intervals around one effect."""
    return [(effect, effect - half, effect + half) for half in halves]


def two_groups(a: list[float], b: list[float], level: float = 0.95) -> list[Effect]:
    """What comes out where two groups are compared as strangers: Student's way, Welch's, the normal one."""
    from scipy import stats

    n, m = len(a), len(b)
    found = []
    for ddof in (0, 1):
        va, vb = ((len(one) / (len(one) - ddof)) * statistics.pvariance(one) for one in (a, b))
        se, pooled = (va / n + vb / m) ** 0.5, ((n * va + m * vb) / (n + m)) ** 0.5 * (1 / n + 1 / m) ** 0.5
        if ddof:
            pooled = (((n - 1) * va + (m - 1) * vb) / (n + m - 2)) ** 0.5 * (1 / n + 1 / m) ** 0.5
        welch = se**4 / ((va / n) ** 2 / (n - ddof) + (vb / m) ** 2 / (m - ddof))
        tails = [float(stats.t.ppf((1 + level) / 2, df)) for df in (n + m - 2, welch, min(n, m) - 1)]
        tails.append(statistics.NormalDist().inv_cdf((1 + level) / 2))
        found += [tail * one for tail in tails for one in (se, pooled)]
    return around(statistics.mean(b) - statistics.mean(a), *found)


def what_is_off(found: Effect, wanted: Effect) -> str:
    """What came, and what is wrong with it: the effect, its place in the interval, or the interval's length."""
    effect, low, high = found
    came = f"gives the effect {effect:.4g} and the interval from {low:.4g} to {high:.4g}."
    if not math.isclose(effect, wanted[0], rel_tol=1e-5, abs_tol=1e-7):
        size = "large" if effect > wanted[0] else "small"
        return f"{came} The effect is too {size}. It should be the mean of B minus A."
    if not math.isclose(low + high, 2 * effect, rel_tol=1e-4, abs_tol=1e-7):
        return f"{came} The effect is not in the middle of the interval."
    return f"{came} The interval is too {'long' if high - low > wanted[2] - wanted[1] else 'short'}."


def whatever_tail(differences: list[float], level: float = 0.95) -> list[Effect]:
    """The interval of these differences by t, and by the normal quantile."""
    effect, low, high = paired(differences, level)
    normal_tail = statistics.NormalDist().inv_cdf((1 + level) / 2)
    return [(effect, low, high), *around(effect, (high - effect) * normal_tail / quantile(level, len(differences)))]


@check("5.7", points=3, forbids=("seed_table",))
def comparison(by_seed, by_example):
    """Check B minus A, paired by seed and paired by example."""
    found = three_numbers(by_seed(SEEDS_A, SEEDS_B), "by_seed")
    wanted = by_seed_wanted(SEEDS_A, SEEDS_B)
    effect, half, n = wanted[0], wanted[2] - wanted[0], len(SEEDS_A)
    a, b = [*SEEDS_A.values()], [*SEEDS_B.values()]
    both = (statistics.variance(a) + statistics.variance(b)) ** 0.5 / n**0.5
    assert abs(found[0] + effect) > 1e-9, "`by_seed` has the wrong sign: the effect should be B minus A."
    explained(
        found,
        wanted,
        f"`by_seed` {what_is_off(found, wanted)}",
        {
            BETWEEN.format("by_seed"): [(wanted[1], wanted[0], wanted[2])],
            "runs are paired by their place in the dict. Pair them by seed.": whatever_tail(
                [right - left for left, right in zip(a, b, strict=True)]
            ),
            "runs are paired by rank, the worst with the worst. Pair them by seed.": whatever_tail(
                [right - left for left, right in zip(sorted(a), sorted(b), strict=True)]
            ),
            "the effect is in points. It should be a fraction.": [tuple(100 * number for number in wanted)],
            "two spreads are added, as if runs were unpaired: take the spread of the differences.": around(
                effect, quantile(0.95, n) * both
            ),
            "the two groups are compared as if they were unpaired: take differences first.": two_groups(a, b),
            "the quantile is the normal one; with few seeds, use t.": around(
                effect, half * 1.959964 / quantile(0.95, n)
            ),
            "the standard deviation divides by n. It should be that of a sample.": around(
                effect, half * ((n - 1) / n) ** 0.5
            ),
            "the degrees of freedom are n. They should be n - 1.": around(
                effect, half * quantile(0.95, n + 1) / quantile(0.95, n)
            ),
            "the quantile cuts off all of 1 - level on one side. Half of it belongs on each side.": around(
                effect, half * quantile(0.9, n) / quantile(0.95, n)
            ),
            "the interval is twice as long as it should be. Half of it is t · sd / root of n.": around(
                effect, 2 * half
            ),
            "the interval is half as long as it should be. Half of it is t · sd / root of n.": around(effect, half / 2),
            "the differences lose their sign before they are averaged.": whatever_tail(
                [abs(SEEDS_B[seed] - SEEDS_A[seed]) for seed in SEEDS_A]
            ),
        },
    )
    low, high = three_numbers(by_seed(SEEDS_A, SEEDS_B, 0.9), "by_seed")[1:]
    assert abs(high - low - 2 * half) > 1e-9, "`by_seed` gives the same interval at the levels 0.95 and 0.9."
    sentence = "a seed that only one experiment has should raise ValueError. No run may be dropped silently."
    refuses(by_seed, SEEDS_A | {9: 0.6}, SEEDS_B, says=sentence)
    refuses(by_seed, SEEDS_A, SEEDS_B | {9: 0.6}, says=sentence)

    for right_a, right_b in ((hits(1, 3, 40), hits(2, 5, 40, 0.15)), (hits(3, 4, 30), hits(4, 4, 30, 0.1))):
        told = f"`by_example` stops for {len(right_a)} and {len(right_b)} runs on the same examples."
        found = expect.answers(by_example, right_a, right_b, says=told)
        of_examples(three_numbers(found, "by_example"), right_a, right_b)
        at_another = three_numbers(by_example(right_a, right_b, 0.9), "by_example")
        told = "`by_example` gives the same interval at the levels 0.95 and 0.9."
        assert at_another[1:] != three_numbers(found, "by_example")[1:], told
    for first, second in ((40, 39), (1, 30), (30, 1)):  # one example could be compared with all by broadcasting
        sentence = f"with {first} and {second} examples, different numbers, `by_example` should raise ValueError."
        refuses(by_example, hits(1, 3, first), hits(2, 3, second), says=sentence)


def of_examples(found: Effect, a: torch.Tensor, b: torch.Tensor) -> None:
    """Fail unless this is the comparison by example of two experiments."""
    wanted = by_example_wanted(a, b)
    effect, half, n = wanted[0], wanted[2] - wanted[0], a.size(1)
    t, count = quantile(0.95, n), min(len(a), len(b))
    per_a, per_b = (right.double().mean(0).tolist() for right in (a, b))
    rates = a.float().mean().item(), b.float().mean().item()
    one_run, all_runs = (
        math.sqrt(sum(rate * (1 - rate) / (n * runs) for rate, runs in zip(rates, many, strict=True)))
        for many in ((1, 1), (len(a), len(b)))
    )
    flat_a, flat_b = (right.double().flatten().tolist() for right in (a, b))
    side_by_side = (b[:count].double() - a[:count].double()).flatten().tolist()
    crossed = (b[None].double() - a[:, None].double()).flatten().tolist()
    many_errors = [half * (n / (n * runs)) ** 0.5 for runs in (len(a), len(b), len(a) + len(b))]
    assert abs(found[0] + effect) > 1e-9, "`by_example` has the wrong sign: the effect should be B minus A."
    votes = [float(right > 0.5) - float(left > 0.5) for left, right in zip(per_a, per_b, strict=True)]
    by_runs = [one.double().mean(1).tolist() for one in (a, b)]
    sums = [right.double().sum(0) for right in (a, b)]
    by_one_count = [((sums[1] - sums[0]) / runs).tolist() for runs in (len(a), len(b))]
    of_runs = [half * quantile(0.95, runs) / t for runs in (len(a), len(b), len(a) + len(b) - 1) if runs > 1]
    over_runs = [right - left for left, right in zip(by_runs[0][:count], by_runs[1][:count], strict=True)]
    explained(
        found,
        wanted,
        f"`by_example`, for {len(a)} and {len(b)} runs on {n} examples, {what_is_off(found, wanted)}",
        {
            BETWEEN.format("by_example"): [(wanted[1], wanted[0], wanted[2])],
            "examples are compared as if A and B had been tested on different ones.": two_groups(per_a, per_b)
            + around(effect, t * ((statistics.variance(per_a) + statistics.variance(per_b)) / n) ** 0.5),
            "binomial errors are added, as if A and B had been tested on different examples.": around(
                effect, 1.959964 * one_run, t * one_run
            ),
            "runs are compared, not examples: average over the runs, one value for each example.": whatever_tail(
                over_runs
            )
            + two_groups(*by_runs),
            "every run of an example counts as an example of its own. Ten runs on one example are not ten examples.": [
                *whatever_tail(side_by_side),
                *((effect, low, high) for _, low, high in whatever_tail(side_by_side)),
                *whatever_tail(crossed),
                *two_groups(flat_a, flat_b),
                *around(effect, 1.959964 * all_runs, *many_errors),
            ],
            "examples are paired by rank, the hardest with the hardest. Compare each with itself.": whatever_tail(
                [right - left for left, right in zip(sorted(per_a), sorted(per_b), strict=True)]
            ),
            "for each example, only the majority of the runs counts. Take the share of the runs that got it right.": (
                whatever_tail(votes)
            ),
            f"there are {len(a)} runs of A and {len(b)} of B. Divide the hits of each by its own number of runs.": [
                *whatever_tail(by_one_count[0]),
                *whatever_tail(by_one_count[1]),
            ],
            f"there are {len(a)} runs of A and {len(b)} of B. Use all of them, not {count} of each.": whatever_tail(
                (b[:count].double().mean(0) - a[:count].double().mean(0)).tolist()
            ),
            "the degrees of freedom come from the number of runs. They should be the number of examples, minus 1.": (
                around(effect, *of_runs)
            ),
            "the quantile of `by_example` is the normal one; use t.": around(effect, half * 1.959964 / t),
            "the standard error divides by n, not by its root.": around(effect, half / n**0.5),
        },
    )


# 5.8


def health_of(value: Any) -> dict[str, Any]:
    """What `health` reports, with the right kinds."""
    expect.fields(value, ("runs", "degenerate", "mean", "mean_of_others"), "`health` should return a dict")
    assert type(value["runs"]) is int, f"`runs` should be a number of runs, not {kind(value['runs'])}."
    assert type(value["degenerate"]) is list, f"`degenerate` should be a list, not {kind(value['degenerate'])}."
    expect.number(value["mean"], "`mean`")
    return value


def runs_and_gold(runs: int, N: int, C: int, seed: int) -> dict[int, list[int]]:
    """Predictions by seed; every third run is degenerate, and every third is but for its last prediction.

    Either may predict a class that no label has.
    """
    kinds = (
        lambda place: [0, 1, *numbers_below(C, N - 2, seed + place)],
        lambda place: [*[(seed + place) % (C + 1)] * (N - 1), (seed + place + 1) % (C + 1)],
        lambda place: [(seed + place) % (C + 1)] * N,
    )
    return {17 * (place * 7 % 11) + place: kinds[place % 3](place) for place in range(runs)}


def not_the_report(report: dict[str, Any], predictions: dict[int, list[int]], labels: list[int]) -> str:
    """What is wrong with a report, "" if nothing is."""
    shares = {seed: sum(map(int.__eq__, found, labels)) / len(labels) for seed, found in predictions.items()}
    bad = sorted(seed for seed, found in predictions.items() if len({*found}) == 1)
    others = [share for seed, share in shares.items() if seed not in bad]
    for name, wanted in (("runs", len(predictions)), ("degenerate", bad)):
        if health_of(report)[name] != wanted:
            return f"`{name}` is {report[name]}, which is wrong."
    for name, values in (("mean", [*shares.values()]), ("mean_of_others", others)):
        found = report[name]
        if values and abs(expect.number(found, f"`{name}`") - statistics.mean(values)) > 1e-6:
            return f"`{name}` is wrong."
    return (
        "" if others or report["mean_of_others"] is None else "there are no others, and `mean_of_others` is not None."
    )


HEALTH = Contract(
    "health(predictions, labels)",
    sizes={"_runs": (1, 9, 300), "_N": (2, 20, 30_000), "_C": (2, 6)},
    predictions=lambda toys, seed, _runs, _N, _C: runs_and_gold(_runs, _N, _C, seed),
    labels=lambda toys, seed, _N, _C: numbers_below(_C, _N, seed + 900),
    gives="the report: dict",
    fits=not_the_report,
    refuses=("health({}, labels)",),
)
GOLD = [0, 1, 0, 0, 1, 1, 0, 1, 0, 0]
VOTES = {
    8: [0] * 10,  # the majority: 0.6
    3: [0, 1, 0, 0, 1, 0, 1, 1, 1, 0],  # 0.7
    5: [1] * 10,  # the minority: 0.4
    1: [1, 1, 0, 0, 1, 0, 1, 1, 1, 0],  # 0.6, as the majority has, but not degenerate
    4: [1, 0, 1, 1, 0, 0, 1, 0, 1, 1],  # 0, but not degenerate
}


@check("5.8", points=2)
def health(health):
    """Check that runs that predict one class are named, and stay in the mean."""
    report = health_of(health(VOTES, GOLD))
    bad = report["degenerate"]
    assert all(type(seed) is int for seed in bad), "`degenerate` should list the seeds as they are, whole numbers."
    strange = [seed for seed in bad if seed not in VOTES]
    assert not strange, f"`degenerate` holds {strange[0]}, which is not the seed of any run."
    told = "a run that predicts one class for every example is not detected."
    assert 5 in bad or 8 in bad, told
    assert 5 in bad, "a run that always predicts class 1, the rarer one, is not detected. It is degenerate too."
    assert 8 in bad, "a run that always predicts class 0 is not detected. It is degenerate too."
    assert 1 not in bad, "a run that predicts both classes is called degenerate. Only a run that predicts one class is."
    assert 4 not in bad, "a run with an accuracy of 0 is called degenerate, but it predicts both classes."
    assert len(bad) == 2, "`degenerate` should hold the seeds of the degenerate runs, each once, and no other."
    assert bad == [5, 8], "the seeds of degenerate runs should be sorted."
    assert report["runs"] != 3, "`runs` should count all runs, the degenerate ones included."
    assert report["runs"] == 5, f"`runs` is {report['runs']}. It should be the number of runs, here of seeds."
    everything, others = (0.6 + 0.7 + 0.4 + 0.6 + 0.0) / 5, (0.7 + 0.6 + 0.0) / 3
    sentence = "`mean` leaves the degenerate runs out. It should be the mean over all runs."
    assert abs(report["mean"] - others) > 1e-6, sentence
    told = "`mean` is in points. It should be a fraction, from 0 to 1."
    assert abs(report["mean"] - 100 * everything) > 1e-4, told
    told = f"`mean` is not the mean accuracy of all runs. Your code gives {report['mean']:.6g}."
    expect.close(report["mean"], everything, told, 1e-6)
    found = expect.number(report["mean_of_others"], "`mean_of_others`")
    assert abs(found - everything) > 1e-6, "`mean_of_others` should be the mean without the degenerate runs."
    expect.close(found, others, "`mean_of_others` is not the mean accuracy of the runs that are not degenerate.", 1e-6)
    report = health_of(health({10: [1] * 10, 0: [1] * 10, 9: [0] * 10}, GOLD))
    assert 0 in report["degenerate"], "a degenerate run with the seed 0 is not listed. It is a seed like any other."
    assert {*report["degenerate"]} == {0, 9, 10}, (
        "runs that predict one class each are degenerate, also if the classes differ."
    )
    assert report["degenerate"] == [0, 9, 10], "the seeds should be sorted as numbers: 9 comes before 10."
    assert report["mean_of_others"] is None, "if all runs are degenerate, `mean_of_others` should be None."
    told = "a run that predicts two of three classes is called degenerate. Only a run that predicts one class is."
    three = [0, 1, 2, 0, 1, 2, 1, 0, 2, 0]
    assert health_of(health({2: VOTES[3]}, three))["degenerate"] == [], told
    told = "where all other runs have an accuracy of 0, `mean_of_others` should be 0. It is None only without others."
    assert health_of(health({4: VOTES[4], 8: VOTES[8]}, GOLD))["mean_of_others"] is not None, told
    told = "with one example, every run predicts one class only, and is degenerate."
    assert health_of(health({4: [1]}, [0]))["degenerate"] == [4], told
    report = health_of(health({2: VOTES[3]}, GOLD))
    assert report["degenerate"] == [], "if no run is degenerate, the list should be empty."
    expect.close(report["mean"], 0.7, "the mean of a single run is wrong.", 1e-6)
    gold = [0, 1, 0] * 100
    report = health_of(health({3: [0] * 299 + [1], 6: [0] * 300}, gold))
    assert 3 not in report["degenerate"], (
        "a run that predicts another class once in 300 is called degenerate, but it predicts two classes."
    )
    refuses(health, {}, GOLD, says="`health` must raise ValueError if there are no runs.")


# 5.9


def smallest(enough: Callable[[np.ndarray], np.ndarray]) -> int:
    """The smallest number of seeds that is enough: all numbers are tried, 64 at a time."""
    for first in itertools.count(2, 64):
        numbers = np.arange(first, first + 64)
        found = numbers[enough(numbers)]
        if len(found):
            return int(found[0])
    raise AssertionError


def seeds_wanted(difference: float, sd: float, level: float = 0.95, power: float = 0.8) -> int:
    """The number of seeds by trying one after another."""
    from scipy import stats

    def enough(n: np.ndarray) -> np.ndarray:
        limit = stats.t.ppf((1 + level) / 2, n - 1) + stats.t.ppf(power, n - 1)
        return difference * n**0.5 >= sd * limit

    return smallest(enough)


def seeds_are(found: Any, difference: float, sd: float, level: float = 0.95, power: float = 0.8) -> int:
    """Fail unless `found` is the number of seeds that is needed."""
    assert type(found) in (int, float), f"`seeds_needed` should return a whole number, not {kind(found)}."
    assert found == int(found), "the number of seeds should be a whole number: the smallest that is enough."
    found = int(found)
    wanted = seeds_wanted(difference, sd, level, power)
    if found == wanted:
        return found
    assert found >= 2, f"the answer {found} is below 2. One run has no spread: the number should be at least 2."
    given = f"for a difference of {difference:g} and a standard deviation of {sd:g}, "
    assert found != wanted - 1, (
        f"{given}this is one seed too few. With n - 1 degrees of freedom, the inequality does not hold yet."
    )
    assert found != wanted + 1, f"{given}this is one seed too many. With one less, the inequality already holds."
    told = (
        f"the answer {found} is too {'large' if found > wanted else 'small'} for a difference of {difference:g}, a "
        f"standard deviation of {sd:g}, the level {level:g} and the power {power:g}."
    )
    raise AssertionError(told)


def seeds_guesses(difference: float, sd: float) -> dict[str, int]:
    """What misconceptions answer at the level 0.95 and with a power of 0.8."""
    from scipy import stats

    ratio, z = sd / difference, statistics.NormalDist().inv_cdf
    return {
        "`power` is not used. With so many seeds, the half-width of the interval is the difference, and you miss it "
        "half of the time.": smallest(lambda n: n**0.5 >= ratio * stats.t.ppf(0.975, n - 1)),
        "the quantiles are normal ones. Those of t ask for more, also where many seeds are needed.": math.ceil(
            (ratio * (z(0.975) + z(0.8))) ** 2
        ),
        "the quantile cuts off all of 1 - level on one side. A difference may go either way.": smallest(
            lambda n: n**0.5 >= ratio * (stats.t.ppf(0.95, n - 1) + stats.t.ppf(0.8, n - 1))
        ),
        "the root of n is missing in the inequality: half the difference needs four times the seeds.": smallest(
            lambda n: n >= ratio * (stats.t.ppf(0.975, n - 1) + stats.t.ppf(0.8, n - 1))
        ),
    }


SEEDS = Contract(
    "seeds_needed(difference, sd, level, power)",
    sizes={"_d": (5, 9), "_s": (0, 20), "_unit": (0, 7), "_level": (2, 6), "_power": (3, 9)},
    difference="= _d * 10.0 ** -_unit",
    sd="= _s * 10.0 ** -_unit",
    level="= 1 - 0.5 ** _level",
    power="= _power / 10",
    gives="the number of seeds: number",
    right=lambda difference, sd, level, power: seeds_wanted(difference, sd, level, power),
    refuses=("seeds_needed(0.0, sd)", "seeds_needed(-difference, sd)"),
    special={"no spread": lambda sd: sd == 0},
)


@check("5.9", points=2)
def seeds_needed(seeds_needed):
    """Check the smallest number of seeds, and whether so many really find the difference."""
    plans = ((0.01, 0.0123), (0.01, 0.02), (0.02, 0.0139), (0.05, 0.01))
    found = [seeds_needed(*plan) for plan in plans]
    if found != [seeds_wanted(*plan) for plan in plans] and {*map(type, found)} <= {int, float}:
        guesses = [seeds_guesses(*plan) for plan in plans]
        for sentence in guesses[0]:
            given = zip(found, guesses, strict=True)
            assert any(max(2, number) != max(2, guess[sentence]) for number, guess in given), sentence
    for number, plan in zip(found, plans, strict=True):
        seeds_are(number, *plan)
    seeds_are(seeds_needed(0.01, 0.02, 0.99), 0.01, 0.02, 0.99)
    seeds_are(seeds_needed(0.01, 0.02, 0.9, 0.5), 0.01, 0.02, 0.9, 0.5)
    rare = seeds_needed(0.01, 0.04, 0.95, 0.25)
    told = "for a power below one half the quantile of the power is negative, and your code takes it without its sign."
    assert rare != seeds_wanted(0.01, 0.04, 0.95, 0.75), told  # the quantile of 0.75 is that of 0.25 without its sign
    seeds_are(rare, 0.01, 0.04, 0.95, 0.25)
    n = seeds_are(seeds_needed(0.01, 0.015, 0.95, 0.9), 0.01, 0.015, 0.95, 0.9)
    draws = 0.01 + 0.015 * normal(4000, n, seed=59)
    shown = draws.mean(1).abs() > quantile(0.95, n) * draws.std(1) / n**0.5
    assert abs(shown.float().mean().item() - 0.9) < 0.05, (
        "with so many seeds, simulated intervals do not leave out zero as often as `power` says."
    )
    sentence = "a difference of zero, or below, can never be shown: raise ValueError."
    refuses(seeds_needed, 0.0, 0.01, says=sentence)
    refuses(seeds_needed, -0.01, 0.01, says=sentence)


# 5.10


def best_wanted(values: Iterable[float], n: int) -> float:
    """The mean of the best over every way to draw n of `values`, one after another and put back."""
    ways = [max(drawn) for drawn in itertools.product(list(values), repeat=n)]
    return sum(ways) / len(ways)


def best_by_shares(accuracies: Iterable[float], n: int) -> float:
    """The same from the share of runs up to each value: so many draws are all at most this value."""
    values = [*accuracies]
    below = {value: sum(one < value for one in values) / len(values) for value in values}
    up_to = {value: sum(one <= value for one in values) / len(values) for value in values}
    return math.fsum(value * (up_to[value] ** n - below[value] ** n) for value in {*values})


BEST = Contract(
    "expected_best(accuracies, n)",
    sizes={"_N": (1, 9, 400), "n": (1, 7, 2000)},
    accuracies=lambda toys, seed, _N: fractions(_N, seed),
    gives="the expected best: number",
    right=best_by_shares,
    refuses=("expected_best(accuracies, 0)", "expected_best(accuracies, -n)", "expected_best([], n)"),
    special=A_RUN_OF_0,
    tolerance=1e-6,
)


@check("5.10", points=2, forbids=("seed_table",))
def expected_best(expected_best):
    """Compare the expected best with the mean over every way to draw n runs."""
    values, tied = [0.62, 0.55, 0.7, 0.58], [0.6, 0.5, 0.6, 0.6, 0.5]
    single, three = (expect.number(expected_best(values, n), "expected_best") for n in (1, 3))
    best = sorted(values)[::-1]
    for sentence, guess in {
        "this is the largest value for every n. A single run is rarely the best one.": [best[0], best[0]],
        "this is the mean of the n best runs. Runs are drawn, not chosen.": [best[0], statistics.mean(best[:3])],
    }.items():
        assert max(abs(single - guess[0]), abs(three - guess[1])) > 1e-6, sentence
    told = "for n = 1, the expected best is near the mean of all accuracies, and not equal to it. Compute it exactly."
    apart = abs(single - statistics.mean(values))
    assert apart <= 1e-6 or apart >= 0.01, told
    expect.close(
        single, statistics.mean(values), "for n = 1, the expected best should be the mean of all accuracies.", 1e-6
    )
    for n in (2, 3, 4, 6):
        worst = 1 - best_wanted([1 - value for value in values], n)
        without = [max(drawn) for drawn in itertools.combinations(values, n)]
        shares = [((place + 1) ** n - place**n) / len(values) ** n for place in range(len(values))]
        guesses = {
            "this is the expected worst: the values are sorted the wrong way round.": worst,
            "runs are drawn without being put back. The n draws are with replacement.": sum(without)
            / max(len(without), 1),
            "this is the largest value. Among n runs that are drawn it is not always there.": max(values),
            "this is the mean: n is not used.": single,
            "the accuracies are weighted in the order of the list. Sort them first.": sum(
                share * value for share, value in zip(shares, values, strict=True)
            ),
        }
        found = expect.number(expected_best(values, n), "what `expected_best` returns")
        sentence = f"for n = {n}, this is not the mean of the best over all ways to draw n of the runs."
        expect.number_like(found, best_wanted(values, n), "expected_best", sentence, guesses, 1e-6)
    for n in (2, 5):
        found = expect.number(expected_best(tied, n), "expected_best")
        assert abs(found - best_wanted({*tied}, n)) > 1e-6, "equal values count once. Each run counts, equal or not."
        expect.close(found, best_wanted(tied, n), "`expected_best` is wrong if runs are equally good.", 1e-6)
    refuses(expected_best, values, 0, says="with `n = 0` there is no best run: raise ValueError.")
    refuses(expected_best, [], 2, says="with an empty list there is no best run: raise ValueError.")


@results_check("5.11", points=4, source=rte, notebook=rte.SEED_VARIANCE)
def every_run(run_all):
    """Every experiment with every seed, graded from the predictions in the files of the runs."""
