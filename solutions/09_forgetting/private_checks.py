"""Cases of notebook 09 that students never see: other tasks, other sizes, edges, drawn for each submission."""

import random

import torch
from torch import nn

from autograder.author.checks import private, swept, tells
from utils import tiny_bert
from utils.checks import nb09_forgetting as seen
from utils.checks import nb09_toys as toys
from utils.grading import expect
from utils.grading.expect import draw, generator, normal
from utils.tiny_bert import Sizes


def some_names(some: random.Random, count: int) -> list[str]:
    """So many names of tasks that nobody has thought of."""
    names: list[str] = []
    while len(names) < count:
        name = "".join(some.choices("bcdfghjklmnpqrstvwxz", k=some.randint(3, 8)))
        names += [name] if name not in names else []
    return names


shares = swept("9.4", seen.SHARES, without=("gradients",))
consolidated = swept("9.6", seen.EWC, without=("gradients",))
pulls = swept("9.7", seen.L2_SP, without=("gradients",))
projections = swept("9.8", seen.WITHOUT, without=("gradients", "device", "layout", "values"))

# 9.1


@private("9.1", tells="heads, logits or a training step are wrong for other tasks, sizes or numbers of tokens.")
def other_tasks(MultiTask, lib):
    for place in range(4):
        some = draw(9100 + place)
        V, d = some.randint(6, 20), some.randint(2, 9)
        tasks = {name: some.randint(1, 6) for name in some_names(some, some.randint(2, 6))}
        tasks[next(iter(tasks))] = 1 + place  # a single class too
        theirs, _ = seen.encoders(lib, V, d, 9110 + place)
        model, state = seen.with_heads(MultiTask, theirs, V, d, tasks, 9120 + place)
        B = (d, 1, some.randint(2, 6), some.randint(2, 9))[place]
        T = (d, 1, 1, some.randint(2, 9))[place]
        tokens = torch.randint(V, (B, T), generator=generator(9130 + place))
        if place == 2:  # texts of a single token, of which no two are equal
            tokens = torch.tensor(some.sample(range(V), B)).unsqueeze(1)
        seen.asked(model, state, tasks, tokens)
        task = some.choice([name for name, count in tasks.items() if count > 1] or [*tasks])
        labels = torch.tensor([some.randrange(tasks[task]) for _ in range(B)])
        if tasks[task] > 1:
            seen.one_step(model, lib, state, tokens, task, labels, some.uniform(0.1, 1))
        seen.asked(model, state, tasks, tokens)


@private("9.1", tells="with a model in double precision, the logits are not, or there is an error.")
def exact_logits(MultiTask, lib):
    some = draw(9150)
    V, d, name = some.randint(6, 20), some.randint(2, 9), some_names(some, 1)[0]
    theirs, _ = seen.encoders(lib, V, d, 9151)
    model, _ = seen.with_heads(MultiTask, theirs, V, d, {name: 4}, 9152)
    logits = model.double()(torch.randint(V, (3, 2), generator=generator(9153)), name)
    assert logits.dtype is torch.float64, "double precision is lost"


@private("9.1", tells="adding a task changes the dtype of weights that the model has already.")
def other_dtypes(MultiTask, lib):
    some = draw(9160)
    V, d = some.randint(6, 20), some.randint(2, 9)
    theirs, _ = seen.encoders(lib, V, d, 9161)
    before, after = expect.items(lib(toys).dtypes_around_a_task(MultiTask, theirs, d), 2, "")
    assert before == {name: after[name] for name in before}, "the dtype of a weight changes"


@private("9.1", tells="two tasks whose names differ in upper and lower case alone are two tasks.")
def names_in_capitals(MultiTask, lib):
    some = draw(9170)
    V, d, name = some.randint(6, 20), some.randint(2, 9), some_names(some, 1)[0]
    theirs, _ = seen.encoders(lib, V, d, 9171)
    tasks = {name: 2, name.upper(): 3}
    model, state = seen.with_heads(MultiTask, theirs, V, d, tasks, 9172)
    seen.asked(model, state, tasks, torch.randint(V, (3, 2), generator=generator(9173)))


# 9.2


@private(
    "9.2", tells="the matrix, or the model after the call, is wrong for other numbers of tasks or for another mode."
)
def other_sequences(accuracy_matrix, lib):
    for place in range(6):
        some = draw(9200 + place)
        seen.measured(
            accuracy_matrix, lib, some_names(some, (1, 2, 5, 6, 8, some.randint(2, 9))[place]), place % 2 == 0
        )


@private("9.2", tells="the matrix, or the model after the call, is wrong if the model has learned something before.")
def not_new(accuracy_matrix, lib):
    some = draw(9250)
    tasks = some_names(some, some.randint(3, 5))
    model = lib(toys).Learner()
    seen.taught_in_turn(accuracy_matrix, lib, model, tasks, [])
    seen.taught_in_turn(accuracy_matrix, lib, model, tasks[::-1], tasks)


# 9.3


NUMBERS = ("average_accuracy", "backward_transfer", "forgetting", "forward_transfer")


@private(
    "9.3",
    tells=(
        "one of the four numbers is wrong for matrices with more tasks, with two tasks, or in another order in memory."
    ),
)
def other_matrices(average_accuracy, backward_transfer, forgetting, forward_transfer, lib):
    functions = average_accuracy, backward_transfer, forgetting, forward_transfer
    for place in range(12):
        T = (2, 12, 3, 7, 2, 4)[place % 6]
        R = torch.rand(T + 1, T, generator=generator(9310 + place))
        for which, name in enumerate(NUMBERS):
            alone = [one if number == which else None for number, one in enumerate(functions)]
            with tells(f"`{name}` is wrong for other matrices, such as some with more tasks or with two."):
                seen.summed_up(R.double() if place % 2 else R, *alone)
        if place < 4:
            seen.in_any_order(lib, R, *functions)
    seen.summed_up(torch.rand(2, 1, generator=generator(9331)), *functions)


# 9.4


@private("9.4", tells="for very large sizes or caps the probabilities are wrong.")
def large_sizes(sampling):
    for place in range(6):
        some = draw(9470 + place)
        large = 10 ** (12 if place == 0 else some.randint(7, 12))  # 10^12 is more than any cap
        sizes = [10 ** some.randint(1, 5), large, 10 ** some.randint(1, 5)]
        seen.shared_out(sampling, sizes, some.uniform(1, 6))
        seen.shared_out(sampling, sizes, some.uniform(1 if place else 4, 6), 3 * 10 ** some.randint(6, 11))


@private("9.4", tells="where one task is far larger than another, the probability of the small one is wrong.")
def small_shares(sampling):
    some = draw(9490)
    for temperature in (1.0, 0.6):
        sizes = [some.randint(2, 9), 10 ** some.randint(7, 9), some.randint(10, 99)]
        found = expect.floats(sampling(sizes, temperature), (3,), "the probabilities")
        assert (found.double() / seen.powers(sizes, 1 / temperature) - 1).abs().max() < 1e-3, "a small share is wrong"


# 9.5


@private("9.5", tells=("for other examples or capacities, the memory or a sample does not hold what it should."))
def other_streams(Replay, lib):
    for place in range(8):
        some = draw(9550 + place)
        pool = [0, "", None, [some.randint(0, 9)], {"label": some.randint(0, 9)}, False, some.uniform(0, 1), "text"]
        long = some.randint(30, 300)
        stream = some.choices(pool, k=long if place == 0 else some.choice([0, 1, some.randint(2, 9), long]))
        capacity, n = some.randint(7 if place == 0 else 1, 11), some.randint(7 if place == 0 else 0, 14)
        seen.sound(Replay, lib, capacity, stream, n, some.randrange(2**31))
    with tells("with other seeds, what is kept or drawn does not depend on `rng` alone."):
        seen.chance(Replay, lib, draw(9570).sample(range(10**6), 4))


# 9.6


@private("9.6", tells="the Fisher information is wrong for other models or inputs.")
def other_models(fisher, lib):
    for place in range(4):
        some = draw(9600 + place)
        d, width, classes = some.randint(1, 5), some.randint(2, 6), (2, 3, 5, 4)[place]
        theirs, ours = seen.nets(lib, d, width, classes, some.randrange(2**31))
        theirs.train(place % 2 == 0)
        N = (1, classes, some.randint(11, 40), d)[place]
        if place == 3:
            theirs[3].bias.requires_grad_(False)
            ours[3].bias.requires_grad_(False)
        x = normal(N, d, seed=9620 + place)
        seen.informed(fisher, theirs, ours, x)
        seen.informed(fisher, theirs, ours, x)


@private("9.6", tells=("the Fisher information is wrong for inputs that are token ids or have more than two axes."))
def other_inputs(fisher, lib):
    some = draw(9650)
    V, T, classes = some.randint(4, 9), some.randint(1, 3), some.randint(2, 4)

    def build(parts):
        return parts.Sequential(parts.Embedding(V, 3), parts.Flatten(), parts.Linear(3 * T, classes))

    theirs, ours = expect.twins(lib, build, some.randrange(2**31))
    tokens = torch.randint(V, (some.randint(1, 5), T), generator=generator(9651))
    seen.informed(fisher, theirs, ours, tokens)

    def flat(parts):
        return parts.Sequential(parts.Linear(T, 3), parts.Flatten(), parts.Linear(6, classes))

    theirs, ours = expect.twins(lib, flat, some.randrange(2**31))
    seen.informed(fisher, theirs, ours, normal(some.randint(2, 5), 2, T, seed=9652))


@private("9.6", tells="the Fisher information is wrong for many inputs.")
def many_inputs(fisher, lib):
    slope = draw(9660).uniform(0.1, 0.5)
    model, weight = lib(nn).Linear(1, 2, bias=False), torch.tensor([[slope], [-slope]])
    model.load_state_dict({"weight": weight})
    x = 0.3 * normal(draw(9661).randint(260, 280), 1, seed=9662)
    x[-3:] = 1.5  # those that count for most
    value = fisher(model, x)
    assert type(value) is dict and [*value] == ["weight"], "a dict with other names"
    p = (x @ weight.T).softmax(-1)
    expect.close(value["weight"], (p * (1 - p) * x**2).mean(0)[:, None], "not the mean over all of them", 1e-3)


@private("9.6", tells="the penalty or its gradient is wrong for other models, anchors or strengths.")
def other_anchors(remember, ewc, lib):
    for place in range(4):
        some = draw(9670 + place)
        d, width, classes = some.randint(1, 5), some.randint(1, 6), some.randint(1, 5)
        theirs, ours = seen.nets(lib, d, width, classes, some.randrange(2**31))
        every = {name: part.detach().clone() for name, part in ours.named_parameters()}
        anchor = {name: value + normal(*value.shape, seed=some.randrange(2**31)) for name, value in every.items()}
        names = some.sample(sorted(anchor), some.randint(1, 4))
        importance = {name: normal(*anchor[name].shape, seed=some.randrange(2**31)) ** 2 for name in names}
        given = anchor if place % 2 else {name: anchor[name] for name in names}
        seen.consolidated(ewc, lib, theirs, ours, importance, given, some.uniform(0.1, 9))
        with tells("for other models, `remember` does not return copies of all parameters as they are."):
            seen.remembered(remember, lib, theirs, ours)
        seen.consolidated(ewc, lib, theirs, ours, importance, every, some.uniform(0.1, 9))


@private(
    "9.6",
    tells="with parameters of a model itself and others of modules inside it, the penalty or the anchor is wrong. Both "
    "should count.",
)
def anchors_outside_and_inside(remember, ewc, lib):
    some = draw(9690)
    d = some.randint(2, 5)
    theirs, ours = expect.twins(lib, lambda parts: parts.MultiheadAttention(d, 1), 9691)
    every = {name: part.detach() + 1 for name, part in ours.named_parameters()}
    importance = {name: normal(*value.shape, seed=9692) ** 2 for name, value in every.items()}
    seen.consolidated(ewc, lib, theirs, ours, importance, every, some.uniform(0.1, 9))
    seen.remembered(remember, lib, theirs, ours)


# 9.7


@private(
    "9.7",
    tells="with parameters of a model itself and others of modules inside it, the penalty is wrong. Both should count.",
)
def starts_outside_and_inside(l2_sp, lib):
    some = draw(9780)
    d = some.randint(2, 5)
    theirs, ours = expect.twins(lib, lambda parts: parts.MultiheadAttention(d, 1), 9781)
    anchor = {name: part.detach() + 1 for name, part in ours.named_parameters()}
    seen.starts_of(l2_sp, lib, theirs, ours, anchor, some.uniform(0.1, 3), some.uniform(0.1, 3))


@private("9.7", tells="the penalty is wrong for a model with one parameter, or an anchor with another number of axes.")
def odd_models(l2_sp, lib):
    some = draw(9750)
    d = some.randint(2, 5)
    theirs, ours = expect.twins(lib, lambda parts: parts.Sequential(parts.Linear(d, 1, bias=False)), 9751)
    for shape in ((d,), (1, d), (d, 1), (1, 1, d)):
        anchor = {"0.weight": normal(*shape, seed=some.randrange(2**31))}
        seen.starts_of(l2_sp, lib, theirs, ours, anchor, some.uniform(0.1, 3), some.uniform(0.1, 3))


@private(
    "9.7", tells="the penalty is wrong for parts that are called heads. The anchor alone says which parts are new."
)
def called_heads(l2_sp, lib):
    some = draw(9755)
    d = some.randint(2, 5)

    def build(parts):
        return parts.ModuleDict({name: parts.Linear(d, d) for name in ("head", "classifier", "encoder")})

    theirs, ours = expect.twins(lib, build, 9756)
    anchor = {name: normal(*part.shape, seed=9757) for name, part in ours.named_parameters()}
    seen.starts_of(l2_sp, lib, theirs, ours, anchor, some.uniform(1, 3), some.uniform(4, 6))


@private("9.7", tells="if both strengths are 0, the penalty is not a 0 from which gradients of 0 flow.")
def without_strength(l2_sp, lib):
    some = draw(9770)
    theirs, ours = seen.nets(lib, some.randint(2, 5), some.randint(2, 6), some.randint(2, 5), some.randrange(2**31))
    anchor = {name: part.detach() + 1 for name, part in ours.named_parameters()}
    seen.starts_of(l2_sp, lib, theirs, ours, anchor, 0.0, 0.0)


# 9.8


@private("9.8", tells="the cosine is wrong for other models, losses or parameters.")
def other_gradients(gradient_cosine, lib):
    for place in range(4):
        some = draw(9800 + place)
        d, width, N = some.randint(2, 5), some.randint(2, 5), some.randint(2, 8)
        classes = [some.randint(2, 4), some.randint(2, 4)]
        pair = lib(toys).TwoHeads(d, width, classes), toys.TwoHeads(d, width, classes)
        expect.same_weights(*pair, some.randrange(2**31))
        labels = [torch.tensor([some.randrange(count) for _ in range(N)]) for count in classes]
        x = normal(N, d, seed=9820 + place)
        for part in ("", "shared"):
            seen.aligned(gradient_cosine, lib, pair, x, labels, some.choice([-1, 1]) * some.uniform(0.1, 20), part)
        small = some.choice([-1, 1]) * 10 ** some.uniform(-11, -9)
        seen.aligned(gradient_cosine, lib, pair, x, labels, small)
        seen.aligned(gradient_cosine, lib, pair, x, labels, 0.0)


@private("9.8", tells="other gradients that conflict are not projected as they should be.")
def other_conflicts(without_conflict):
    for place in range(8):
        some = draw(9850 + place)
        shapes = [tuple(some.randint(1, 4) for _ in range(some.randint(0, 3))) for _ in range(some.randint(1, 5))]
        shapes.append((3, 2))
        g_b = [some.uniform(0.1, 30) * one for one in seen.bundle(some.randrange(2**31), shapes)]
        g_a = [some.uniform(0.1, 30) * one for one in seen.bundle(some.randrange(2**31), shapes)]
        for sign in (-1.0, some.uniform(-0.5, -0.05)):
            seen.projected(without_conflict, seen.set_apart(g_a, g_b, sign), g_b)
        with tells("gradients that hardly agree do not conflict, and should stay as they are."):
            seen.projected(without_conflict, seen.set_apart(g_a, g_b, some.uniform(0.05, 0.4)), g_b)
    seen.projected(without_conflict, [-one for one in g_b], g_b)


# 9.9


@private(
    "9.9",
    tells="with other tasks, sizes or orders, weights do not move as they should, or the logits of a task are wrong.",
)
def other_adapters(learn, answer, lib):
    some = draw(9900)
    sizes, seed = Sizes(vocab=23, d_model=8, n_layers=3, n_heads=2, d_ff=18, places=14), some.randrange(2**31)
    names, tasks, data = some_names(some, 3), {}, {}
    model = lib(tiny_bert).bert(vars(sizes), seed)
    for task in names:
        count, lr = some.randint(2, 4), some.uniform(0.1, 0.4)
        data[task] = tiny_bert.pairs(
            some.randint(2, 5), [(some.randint(7, 12), 5)] * 2, sizes.vocab, some.randrange(10**6)
        )
        for batch in data[task]:
            batch["labels"] = torch.tensor([some.randrange(count) for _ in batch["labels"]])
        state = seen.named(learn, model, task, count, seed, tasks, sizes)
        known_before = [*tasks]
        tasks[task] = count
        twin = seen.library_twin(sizes, seed, tasks)
        if known_before and some.random() < 0.7:
            asked = some.choice(known_before)
            seen.answered(answer, model, twin, state, asked, data[asked][0], tasks[asked])
        if task == names[1]:  # so many that no other order ends where this one does
            data[task] = seen.in_order(some.randint(2, 4), 9, sizes.vocab, some.randrange(10**6))
        lib(toys).ones_as_gradients(model, [name for name in state if seen.task_names(task, name)])
        learn(model, task, count, data[task], lr)
        seen.only_own(model.state_dict(), state, seen.after_steps(state, twin, task, data[task], lr), task)
        state = model.state_dict()
        for known in some.sample([*tasks], len(tasks)):
            seen.answered(answer, model, twin, state, known, data[known][0], tasks[known])


# 9.10


@private("9.10", tells="the share is wrong for other accuracies.")
def other_gains(share_kept):
    some = draw(9101)
    for seeds in (7, 7, 7, *(some.randint(1, 7) for _ in range(5))):
        seen.kept_of_gain(share_kept, *seen.three_times(some, seeds))
    with tells("the share is wrong where the gain is small. Any gain counts: round nothing, and add nothing to it."):
        seen.kept_of_gain(share_kept, [0.5, 0.5], [0.503, 0.505], [0.501, 0.502])
    with tells("the share is wrong for hundreds of seeds."):
        seen.kept_of_gain(share_kept, *seen.three_times(some, 400))
