"""A contract asks for every kind of promise: wrong answers are refused in its words, and right ones pass."""

import importlib.util
from types import MappingProxyType, SimpleNamespace

import pytest
import torch
from torch import nn

from autograder import course
from autograder.author import checks
from autograder.author.checks import Told, private, swept, tells
from utils.checks import nb01_toys, nb10_longer_context, nb10_toys
from utils.grading import dispatch, expect
from utils.grading.contract import EXTRA_SECONDS, KINDS, Contract, has_form, is_new, model_kept
from utils.grading.remote import StudentError, libraries, named

COURSE = course.load()
SCALED = Contract(
    "scaled(x, n)",
    sizes={"B": (0, 5), "T": (1, 7, 700), "n": (1, 9)},
    x="floats (B, T)",
    gives="the product: as x (B, T)",
    right=lambda x, n: n * x,
    refuses=("scaled(x, 0)",),
    learns="x",
)
LAYER = Contract(
    "Layer(d, d + k)(x)",
    sizes={"B": (1, 5), "d": (1, 7), "k": (0, 3)},
    x="floats (B, d)",
    gives="the output: as x (B, d + k)",
    weights=lambda d, more: {"linear.weight": (more, d), "linear.bias": (more,)},
    right=lambda state, d, more, x: x @ state["linear.weight"].T + state["linear.bias"],
    learns="x",
)


def scaled(x, n):
    if n < 1:
        raise ValueError
    return n * x


class Layer(nn.Module):
    def __init__(self, d, more):
        super().__init__()
        self.linear = nn.Linear(d, more)

    def forward(self, x):
        return self.linear(x)


TABLE = Contract(
    "Table(V, d)(ids)",
    sizes={"B": (0, 4), "T": (1, 5), "V": (3, 9), "d": (2, 6)},
    ids="ids (B, T) below V",
    gives="the logits: float32 (B, T, V)",
    weights=lambda V, d: {"inner.weight": (V, d), "norm.weight": (d,), "norm.bias": (d,), "head.weight": (V, d)},
    tied={"head.weight": "inner.weight"},
    options={"norm.eps": 1e-3},
    right=lambda state, V, d, ids: (
        nn.functional.layer_norm(state["inner.weight"][ids], (d,), state["norm.weight"], state["norm.bias"], 1e-3)
        @ state["head.weight"].T
    ),
)
READ = Contract(
    "read(model, x)",
    sizes={"B": (1, 5), "d": (1, 7)},
    model=lambda toys, seed, d: toys.AddRows(torch.zeros(2, d) + seed),
    x="floats (B, 2, d)",
    gives="the states: as x (B, 2, d); the rows: int; the names: list",
    returns="tuple",
    right=lambda model, x: (x + model.table, x.size(0), ["states", "rows"]),
    keeps="model",
    precise=False,
    low=False,
)
MASK = Contract(
    "mask(n, generator)",
    sizes={"n": (20, 60)},
    generator="generator",
    gives="the mask: int64 (n)",
    fits=lambda found, n, generator: (
        "" if found.unique().tolist() == [0, 1] else "it holds other numbers than 0 and 1."
    ),
)


class Table(nn.Module):
    more = MappingProxyType({})

    def __init__(self, V, d):
        super().__init__()
        self.inner = nn.Embedding(V, d, **self.more)
        self.norm = nn.LayerNorm(d, eps=1e-3)
        self.head = nn.Linear(d, V, bias=False)
        self.head.weight = self.inner.weight

    def forward(self, ids):
        return self.head(self.norm(self.inner(ids)))


def with_options(**options):
    return type("Table", (Table,), {"more": options})


class OtherNorm(Table):
    def __init__(self, V, d):
        super().__init__(V, d)
        self.norm = nn.LayerNorm(d)


class Untied(Table):
    def __init__(self, V, d):
        super().__init__(V, d)
        self.head.weight = nn.Parameter(self.inner.weight.detach().clone())


class Buffered(Table):
    def __init__(self, V, d):
        super().__init__(V, d)
        del self.norm.bias
        self.norm.register_buffer("bias", torch.zeros(d))


def read(model, x):
    modes = [part.training for part in model.modules()]
    model.eval()
    with torch.no_grad():
        states = model(x)
    for part, mode in zip(model.modules(), modes, strict=True):
        part.training = mode
    return states, len(x), ["states", "rows"]


def read_in_top_mode(model, x):
    result = read(model, x)
    model.train()
    return result


def read_without_gradients(model, x):
    model.zero_grad()
    return read(model, x)


def read_once(model, x, known={}):  # noqa: B006
    return known.setdefault((id(model), str(x.tolist())), read(model, x))


SHARED = {}


def mask(n, generator):
    return torch.randint(2, (n,), generator=generator)


def failing(contract, answer):
    """The sentence of each kind that refuses an answer."""
    found = {}
    for kind in contract.kinds():

        def ask(request):
            return dispatch.answer({contract.name: answer}, request)

        try:
            contract.hold(named(ask, contract.name), libraries(ask), kind)
        except (AssertionError, StudentError) as told:
            found[kind] = str(told)
    torch.set_grad_enabled(True)
    return found


def kept(x, n, known={}):  # noqa: B006
    return known.setdefault((x.shape, n), scaled(x, n))


def seeding(x, n):
    torch.manual_seed(1)
    return scaled(x, n)


def table(x, n):
    return scaled(x, n) * (torch.arange(x.size(1), device=x.device) < 500)


def on_cpu(x, n):
    return scaled(x, n) + torch.zeros(x.shape)


def silent(x, n):
    with torch.no_grad():
        return scaled(x, n)


def test_a_right_answer_keeps_every_promise():
    assert failing(SCALED, scaled) == {} and failing(LAYER, Layer) == {}
    assert failing(TABLE, Table) == {} and failing(READ, read) == {} and failing(MASK, mask) == {}
    assert {*SCALED.kinds(), *LAYER.kinds(), *MASK.kinds()} == {*KINDS}


@pytest.mark.parametrize(
    "answer, kind, words",
    [
        (lambda x, n: scaled(x, n).squeeze(0), "sizes", "the product has shape"),
        (table, "large", "a large T: the product is wrong."),
        (lambda x, n: scaled(x.clamp(-99, 99), n), "values", "huge numbers: the product is wrong."),
        (lambda x, n: scaled(x.float(), n).to(x.dtype), "dtypes", "float64: the product is wrong."),
        (
            lambda x, n: scaled(x, n).float(),
            "dtypes",
            "float64: the product is float32, not of the dtype of x.",
        ),
        (lambda x, n: scaled(x.view(-1), n).view(x.shape), "layout", "it fails: use reshape, not view."),
        (on_cpu, "device", "on another device (a GPU) this would stop"),
        (silent, "gradients", "no gradient reaches x from the product: something is detached."),
        (lambda x, n: n * x, "refusals", "`scaled(x, 0)` with `x.shape = (1, 1)` must raise ValueError."),
        (kept, "memory", "the product is what an earlier call gave: something is kept between calls."),
        (seeding, "memory", "afterwards the state of the global random generator of torch is not as before."),
    ],
)
def test_a_wrong_answer_is_refused_in_the_words_of_the_contract(answer, kind, words):
    found = failing(SCALED, answer)
    assert words in found[kind] and found[kind].startswith(("`scaled(x, ", "on another device"))


@pytest.mark.parametrize("contract, answer, most", [(SCALED, scaled, 2), (LAYER, Layer, 3)])
@pytest.mark.parametrize("kind", ["sizes", "large", "values", "dtypes", "refusals"])
def test_the_cases_of_a_kind_are_one_request(contract, answer, most, kind):
    requests = []

    def ask(request):
        requests.append(request)
        return dispatch.answer({contract.name: answer}, request)

    contract.hold(named(ask, contract.name), libraries(ask), kind)
    most += kind == "sizes"  # one call is made alone
    assert kind not in contract.kinds() or 0 < len(requests) <= most  # one is for what the answer's name stands for


def test_of_calls_in_one_request_a_changed_argument_is_told_and_each_result_is_as_it_came():
    buffer = torch.zeros(5000)

    def in_one_buffer(x, n):
        return torch.mul(x, scaled(1, n), out=buffer[: x.numel()].view(x.shape))

    for kind in ("sizes", "values", "memory"):
        assert failing(SCALED, lambda x, n: x.mul_(scaled(1, n)))[kind].startswith("your code changes `x`")
    assert failing(SCALED, in_one_buffer).keys() == {"dtypes", "device", "gradients", "memory", "new"}


def test_a_call_that_writes_over_what_it_was_given_where_no_gradients_are_recorded_is_found():
    class Writing(Layer):
        def forward(self, x):
            out = self.linear(x)
            if not torch.is_grad_enabled():
                x.zero_()
            return out

    class Blind(Layer):
        def forward(self, x):
            return self.linear(x) if torch.is_grad_enabled() else self.linear(x) + 1

    told = "while no gradients are recorded, a call changes what it was given."
    assert failing(LAYER, Writing).keys() == {"memory", "new"} and told in failing(LAYER, Writing)["memory"]
    assert "the output is wrong while no gradients are recorded" in failing(LAYER, Blind)["memory"]


def test_what_is_kept_for_a_tensor_or_for_a_small_size_is_found():
    last, units = [None, None], {}

    def by_identity(x, n):
        if last[0] is not x:
            last[:] = [x, scaled(x, n)]
        return last[1].clone()

    def handed_back(x, n):
        return x if n == 1 else scaled(x, n)

    def shared(x, n):
        return units.setdefault(str([x, n]), scaled(x, n)) if x.size(1) == 1 else scaled(x, n)

    assert "the product is what an earlier call gave" in failing(SCALED, by_identity)["memory"]
    found = failing(SCALED, shared)
    assert failing(SCALED, handed_back).keys() == found.keys() == {"new"} and "results must be new" in found["new"]


def test_a_call_that_switches_requires_grad_off_is_found():
    def switching(x, n):
        product = scaled(x, n)
        x.requires_grad_(False)
        return product

    class Switching(Layer):
        def forward(self, x):
            product = super().forward(x)
            for part in self.parameters():
                part.requires_grad_(False)
            return product

    for contract, answer in ((SCALED, switching), (LAYER, Switching)):
        assert "a call switches requires_grad off" in failing(contract, answer)["gradients"]


def test_a_module_is_asked_for_its_parameters_and_modes():
    class Frozen(Layer):
        def forward(self, x):
            return nn.functional.linear(x, self.linear.weight.detach(), self.linear.bias)

    class Moody(Layer):
        def forward(self, x):
            return super().forward(x) * (1 + self.training)

    class Drifting(Layer):
        def forward(self, x):
            self.calls = getattr(self, "calls", 0) + 1
            return super().forward(x) * self.calls

    class Resting(Layer):
        def forward(self, x):
            return super().forward(x) if self.training else super().forward(x).detach()

    class Remembering(Layer):
        def forward(self, x):
            if getattr(self, "shape", None) != x.shape:
                self.shape, self.kept = x.shape, super().forward(x)
            return self.kept

    assert "in evaluation mode: no gradient reaches x" in failing(LAYER, Resting)["gradients"]
    assert "then others: the output is what an earlier call gave" in failing(LAYER, Remembering)["memory"]
    assert "no gradient reaches `linear.weight` from the output" in failing(LAYER, Frozen)["gradients"]
    assert "the output" in failing(LAYER, Moody)["modes"]
    assert "the output is not the same in a second call" in failing(LAYER, Drifting)["modes"]


@pytest.mark.parametrize(
    "contract, answer, kind, words",
    [
        (TABLE, with_options(padding_idx=1), "parts", "`inner` has padding_idx = 1. It should be None."),
        (TABLE, with_options(max_norm=1e6), "parts", "`inner` has max_norm = 1000000.0. It should be None."),
        (TABLE, with_options(scale_grad_by_freq=True), "parts", "scale_grad_by_freq = True. It should be False."),
        (TABLE, with_options(scale_grad_by_freq=True), "gradients", "`inner.weight` from the logits is wrong."),
        (TABLE, OtherNorm, "parts", "`norm` has eps = 1e-05. It should be 0.001."),
        (TABLE, Untied, "parts", "`head.weight` and `inner.weight` should be one parameter. Here they are two."),
        (TABLE, Buffered, "parts", "`norm.bias` does not learn: it should be a parameter."),
        (
            READ,
            read_in_top_mode,
            "memory",
            "a call changes `model`: the modes of the module and its parts are not as before.",
        ),
        (
            READ,
            read_without_gradients,
            "memory",
            "a call changes `model`: the gradients of the module are not as before.",
        ),
        (READ, read_once, "memory", "the states are not those of the weights that it has now: something is kept."),
        (READ, lambda model, x: [*read(model, x)], "sizes", "it gives a list, not a tuple."),
        (READ, lambda model, x: (read(model, x)[0], 1.0 * len(x), []), "sizes", "the rows are a float, not an int."),
        (READ, lambda model, x: (*read(model, x)[:2], ["rows"]), "sizes", "the names are wrong."),
        (MASK, lambda n, generator: 2 * mask(n, generator), "sizes", "it holds other numbers than 0 and 1."),
        (MASK, lambda n, generator: torch.randint(2, (n,)), "draws", "generator of torch is not as before."),
        (
            MASK,
            lambda n, generator: mask(n, torch.Generator().manual_seed(n)),
            "draws",
            "whatever the generator's state, it gives the same",
        ),
        (
            MASK,
            lambda n, generator: mask(n, generator.manual_seed(generator.initial_seed())),
            "draws",
            "a second call with the same generator gives the same: it is seeded, or copied.",
        ),
        (LAYER, lambda d, more: SHARED.setdefault((d, more), Layer(d, more)), "memory", "two objects share a"),
    ],
)
def test_parts_objects_types_and_generators_are_asked_for(contract, answer, kind, words):
    assert words in failing(contract, answer)[kind]


PLACES = Contract(
    "places(n, p, generator)",
    sizes={"n": (20, 60)},
    p="= 1 / 2",
    generator="generator",
    gives="the masked places: bool (n); the replaced places: bool (n)",
    fits=lambda masked, replaced, n, p, generator: "",
    pairs={
        "what is replaced depends on what is masked.": lambda masked, replaced, *_: zip(
            masked.tolist(), replaced.tolist(), strict=True
        ),
        "neighbours have one fate.": lambda masked, *_: zip(masked[:-1].tolist(), masked[1:].tolist(), strict=True),
    },
)


@pytest.mark.parametrize(
    "second, words",
    [
        (lambda first, n, generator: torch.rand(n, generator=generator) < 0.3, ""),
        (lambda first, n, generator: first < 0.3, "what is replaced depends on what is masked."),
        (None, "neighbours have one fate."),
    ],
)
def test_joint_frequencies_are_asked_for(second, words):
    def places(n, p, generator):
        if second is None:
            half = torch.rand(n // 2 + 1, generator=generator) < p
            return half.repeat_interleave(2)[:n], torch.rand(n, generator=generator) < p
        first = torch.rand(n, generator=generator)
        return first < p, second(first, n, generator)

    found = failing(PLACES, places)
    assert words in found["draws"] if words else found == {}


def test_each_size_of_a_contract_is_asked_at_its_smallest():
    """Those with many sizes have two of them at their smallest at a time."""
    for entry in COURSE.notebooks:
        for contract in vars(checks.checks_module(entry)).values():
            if isinstance(contract, Contract):
                asked = {pair for case in contract.corners() for pair in case.sizes.items()}
                assert asked >= {(name, size[0]) for name, size in contract.sizes.items()}, (entry.name, contract.call)


def test_a_kernel_that_is_gone_is_not_told_as_a_mistake():
    class Gone(StudentError):
        @property
        def ends_check(self):
            return True

    def ask(request):
        if b"scaled" in request:
            raise Gone("the kernel died")
        return dispatch.answer({}, request)

    for kind in SCALED.kinds():
        with pytest.raises(Gone):
            SCALED.hold(named(ask, "scaled"), libraries(ask), kind)
    for call in (expect.answers, expect.refuses):
        with pytest.raises(Gone):
            call(named(ask, "scaled"), 3, says="it is wrong.")


def test_another_process_gives_the_same():
    drawn = Contract(
        "drawn(text, n)",
        sizes={"n": (3, 9)},
        text=lambda toys, seed: f"text {seed}",
        gives="the numbers: float32 (n)",
        fits=lambda found, text, n: "",
        everywhere=True,
    )

    def lasting(text, n):
        return torch.rand(n, generator=torch.Generator().manual_seed(sum(text.encode())))

    def hashed(what):
        return lambda text, n: torch.rand(n, generator=torch.Generator().manual_seed(hash(what(text)) % 2**32))

    assert failing(drawn, lasting) == {}
    for what in (lambda text: text, lambda text: (1, ("mask", 2)), lambda text: frozenset([text])):
        told = failing(drawn, hashed(what))["memory"]
        assert "another process gives something else: `hash` and `id` differ there." in told


def test_expanded_tensors_and_empty_batches():
    dots = Contract(
        "twice(x)",
        sizes={"T": (1, 5)},
        x="floats (..., T)",
        gives="the result: as x (..., T)",
        right=lambda x: 2 * x,
        learns="x",
        empty=True,
    )

    def in_place(x):
        x = x.detach() if x.stride(0) == 0 and x.size(0) > 1 else x
        return x.mul_(2).clone().div(1) if x.stride(0) == 0 and x.size(0) > 1 else 2 * x

    def not_empty(x):
        return 2 * x.reshape(-1, x.size(-1)).view(len(x) if x.dim() > 1 else -1, -1).reshape(x.shape)

    assert failing(dots, lambda x: 2 * x) == {}
    assert "expanded (its rows are one row in memory) it fails" in failing(dots, in_place)["layout"]
    assert "RuntimeError" in failing(dots, not_empty)["sizes"]


def test_a_number_may_be_asked_for_and_arguments_may_be_named_or_left_out():
    summed = Contract(
        "summed(x, offset=offset)",
        sizes={"B": (1, 6), "T": (1, 9)},
        x="floats (B, T)",
        offset="floats (T) or None",
        gives="the sum: number",
        right=lambda x, offset: float((x if offset is None else x + offset).sum()),
    )

    def right(x, offset=None):
        return float((x if offset is None else x + offset).sum())

    def without(x, offset=None):
        return float(x.sum())

    def always(x, offset=None):
        return float((x + offset).sum())

    sizes = {name: failing(summed, answer).get("sizes", "") for name, answer in locals().items() if name != "summed"}
    assert sizes["right"] == "" and "offset.shape" in sizes["without"] and "offset=None" in sizes["always"]


PAIR = Contract(
    "carried(x, (keys, values), allowed, share)",
    sizes={"B": (1, 4), "T": (1, 6), "S": (0, 5), "_part": (0, 9)},
    x="floats (B, T)",
    keys="floats (B, S)",
    values="floats (B, S)",
    allowed="bools (B, T)",
    share="= _part / 10",
    gives="the loss: as x (one number); the keys: as x (B, S + T); the values: as x (B, S + T)",
    right=lambda x, past, allowed, share: (
        (share * x)[allowed].mean(),
        (torch.cat([past[0], x], 1), torch.cat([past[1].detach(), x], 1)),
    ),
    learns="x keys",
    frozen="values",
)


def carried(x, past, allowed, share):
    keys, values = past
    return (share * x[allowed]).mean(), (torch.cat([keys, x], 1), torch.cat([values.detach(), x], 1))


def test_pairs_masks_and_what_follows_from_sizes_may_be_given():
    assert failing(PAIR, carried) == {}

    def detached(x, past, allowed, share):
        return carried(x, (past[0].detach(), past[1]), allowed, share)

    def free(x, past, allowed, share):
        loss, (keys, _) = carried(x, past, allowed, share)
        return loss, (keys, torch.cat([past[1], x], 1))

    def two(x, past, allowed, share):
        return carried(x, past, allowed, share)[1]

    def blind(x, past, allowed, share):
        return carried(x, past, allowed | True, share)

    assert "no gradient reaches keys from the keys: something is detached." in failing(PAIR, detached)["gradients"]
    assert "a gradient reaches values. None should." in failing(PAIR, free)["gradients"]
    assert "there should be 3 results, not a list or a tuple of 2." in failing(PAIR, two)["sizes"]
    told = failing(PAIR, blind)["sizes"]
    assert "allowed.shape" in told and "carried(x, (keys, values), allowed, 0." in told and "_part" not in told


def test_a_method_of_a_module_may_be_called():
    scores = Contract(
        "Tied(V, d).scores(x)",
        sizes={"V": (1, 9), "d": (1, 7), "B": (1, 5)},
        x="floats (B, d)",
        gives="the scores: as x (B, V)",
        weights=lambda V, d: {"table.weight": (V, d)},
        right=lambda state, V, d, x: x @ state["table.weight"].T,
        learns="x",
    )

    class Tied(nn.Module):
        def __init__(self, V, d):
            super().__init__()
            self.table = nn.Embedding(V, d)

        def scores(self, x):
            return x @ self.table.weight.T

    class Cut(Tied):
        def scores(self, x):
            return x @ self.table.weight.detach().T

    assert failing(scores, Tied) == {}
    assert "no gradient reaches `table.weight` from the scores" in failing(scores, Cut)["gradients"]


CROSS = Contract(  # two products that are nearly the same: their difference is smaller than a rounding of either
    "cross(x, y)",
    sizes={"B": (1, 5)},
    x="floats (B, 2)",
    y="= x.flip(-1) + 0.000001 * x",
    gives="the difference: as x (B)",
    right=lambda x, y: x[:, 0] * y[:, 0] - x[:, 1] * y[:, 1],
    learns="x y",
)
ABOVE = Contract(  # all are equal, and any change makes some larger
    "above(x, y)",
    sizes={"B": (1, 5), "n": (1, 5)},
    x="floats (B, n)",
    y="= 1 * x",
    gives="the result: as x (B, n)",
    right=lambda x, y: (x > y).to(x.dtype),
)


def cross(x, y):
    return x[:, 0] * y[:, 0] - x[:, 1] * y[:, 1]


def test_what_is_left_where_terms_cancel_may_be_as_wrong_as_their_rounding():
    x = torch.randn(99, 2)
    y = x.flip(-1) + 1e-6 * x
    wanted = cross(x.double(), y.double())
    assert (cross(x, y) - wanted).abs().max() > 1e-3 * wanted.abs().max(), "rounding is more than the tolerance"
    assert failing(CROSS, cross) == {}
    for share in (1e-5, -1e-5):
        found = failing(CROSS, lambda x, y, share=share: cross(x, y) + share * x[:, 0] * y[:, 0])
        assert "the difference is wrong" in found["sizes"]


def test_rounding_is_no_excuse_where_a_result_jumps():
    assert failing(ABOVE, lambda x, y: (x > y).to(x.dtype)) == {}
    found = failing(ABOVE, lambda x, y: (x >= y).to(x.dtype))
    assert "the result is wrong." in found["sizes"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda x, n: 3 * n * x, "All numbers are 3 times as large as they should be."),
        (lambda x, n: n * x - 2, "All numbers are too small by 2."),
        (lambda x, n: 0 * x, "Every number is 0."),
        (lambda x, n: n * x + torch.arange(x.size(1)), "The first wrong number is at `[0, 1]`; "),
        (lambda x, n: (n * x).exp(), "Every number is wrong."),
        (lambda x, n: x / 0, "There is inf at `[0, 0]`."),
    ],
)
def test_a_contract_says_what_is_wrong_with_the_numbers(answer, words):
    assert words in failing(SCALED, answer)["memory"]


def test_what_was_kept_of_rough_numbers_is_not_used_for_better_ones():
    known = {}

    def rough(x, n):
        factor = known.setdefault((x.shape, n), torch.tensor(n + 0.3, dtype=x.dtype))
        return x * factor.to(x.dtype)

    odd = Contract(
        "scaled(x, n)",
        sizes={"B": (1, 5), "T": (1, 7), "n": (1, 9)},
        x="floats (B, T)",
        gives="the product: as x (B, T)",
        right=lambda x, n: (n + 0.3) * x,
        precise=False,
    )
    assert "float32, after other dtypes: the product is wrong" in failing(odd, rough)["dtypes"]


def test_what_the_text_leaves_open_is_not_compared():
    """A class of the toys is called in place of the answer: here one that blanks the keys after a query."""
    scores = Contract(
        "shift(scores)",
        sizes={"T": (1, 5), "M": (0, 4)},
        scores="floats (1, 1, T, T + M)",
        through="KeysInSight",
        gives="the scores: as scores (1, 1, T, T + M)",
        right=nb10_longer_context.by_key,
        toys=nb10_toys,
    )

    def shift(scores):
        T, S = scores.shape[-2:]
        return torch.nn.functional.pad(scores, (1, 0)).reshape(1, 1, S + 1, T)[:, :, 1:].reshape(1, 1, T, S)

    kinds = ("sizes", "values", "dtypes", "layout", "device")
    assert {*failing(scores, shift)} & {*kinds} == set()
    assert "the scores are wrong" in failing(scores, torch.clone)["sizes"]


def test_a_result_may_be_a_part_of_what_was_given_where_the_contract_says_so():
    given = {"sizes": {"B": (1, 5), "T": (2, 7)}, "x": "floats (B, T)", "gives": "the rest: as x (B, T - 1)"}
    told = failing(Contract("rest(x)", right=lambda x: x[:, 1:], learns="x", **given), lambda x: x[:, 1:])
    assert all("results must be new" in told.pop(kind) for kind in ("memory", "new")) and told == {}
    shares = Contract("rest(x)", right=lambda x: x[:, 1:], learns="x", shares=True, **given)
    assert failing(shares, lambda x: x[:, 1:]) == {}


def parts_in_evaluation(model):
    model.linear.eval()


def forgets(model):
    model.zero_grad()


@pytest.mark.parametrize(
    "use, fact",
    [
        (parts_in_evaluation, "the modes of the module and its parts are not as before."),
        (forgets, "the gradients of the module are not as before."),
        (lambda model: [torch.rand(1)], "the state of the global random generator of torch is not as before."),
        (lambda model: model.requires_grad_(False), "requires_grad of the parameters of the module is not as before."),
        (lambda model: model.linear.weight.data.add_(1), "the weights of the module are not as before."),
    ],
)
def test_a_model_is_left_as_it_was(use, fact):
    model = Layer(3, 2)
    model.linear.weight.grad = torch.ones(2, 3)

    def ask(request):
        return dispatch.answer({"use": use, "model": model, "read": lambda model: model(torch.ones(1, 3))}, request)

    lib = libraries(ask)
    with model_kept(lib, named(ask, "model"), "after reading"):
        named(ask, "read")(named(ask, "model"))
    with pytest.raises(AssertionError) as told, model_kept(lib, named(ask, "model"), "after it"):
        named(ask, "use")(named(ask, "model"))
    assert str(told.value) == f"after it {fact}"


def test_types_of_results_are_told_though_all_arrive_as_lists():
    kept = [(1, 0.5)]

    def ask(request):
        return dispatch.answer(
            {"pairs": lambda: [(1, 0.5)], "lists": lambda: [[1, 0.5]], "kept": lambda: kept}, request
        )

    lib, pairs, lists = libraries(ask), named(ask, "pairs"), named(ask, "lists")
    has_form(lib, "list[tuple[int, float]]", "the result", pairs)
    with pytest.raises(AssertionError, match=r"has the types list\[list\[float or int\]\], not list"):
        has_form(lib, "list[tuple[int, float]]", "the result", lists)
    is_new(lib, "the list", pairs)
    with pytest.raises(AssertionError, match="the list is kept between calls"):
        is_new(lib, "the list", named(ask, "kept"))


def test_private_checks_are_made_of_a_contract():
    made = swept("9.9", SCALED, without=("values",))
    assert len(made) == len(SCALED.kinds()) - 1 and {one.exercise for one in made} == {"9.9"}

    def ask(request):
        return dispatch.answer({"scaled": table}, request)

    failed = {one.tells: why for one in made if (why := one.failure(ask, b"key"))}
    (tells,) = [one for one in failed if "larger than any" in one]
    assert "it is wrong for sizes larger than any in the notebook. It should be right for `T >= 1`." in tells
    assert "scaled_large: `scaled(x, 2)` with `x.shape = (2, 70" in failed[tells]


def test_a_private_check_says_what_is_wrong_and_nothing_that_was_drawn():
    def cut(x, n):
        return table(x, n) if x.size(1) > 1 else [][x.size(1)]

    def overflows(x, n):
        return (x.clamp(-99, 99) if x.abs().max() > 1000 else x) * n

    answers = {
        "sizes": (
            cut,
            "with `T = 1`, it raises IndexError. It should be right for `0 <= B <= 5, T >= 1, 1 <= n <= 9`.",
        ),
        "large": (table, ": with a large T, larger than any in the notebook, the product is wrong."),
        "values": (overflows, ": for huge numbers, the product is wrong."),
        "dtypes": (lambda x, n: (x.float() * n).to(x.dtype), ": for float64, the product is wrong, only as exact as"),
        "gradients": (
            lambda x, n: x.detach() * n + 0 * x,
            ": no gradient reaches x from the product: something is detached.",
        ),
        "refusals": (lambda x, n: x * n, "`scaled(x, 0)` must raise ValueError."),
        "new": (
            lambda x, n: x * n if n != 1 else x,
            ": with `B = 1, T = 1, n = 1`, the product is not the same after other results",
        ),
    }
    for kind, (answer, words) in answers.items():
        (hidden,) = [one for one in swept("9.9", SCALED) if one.asserts.__name__ == f"scaled_{kind}"]
        reasons = [
            hidden.failure(lambda request, answer=answer: dispatch.answer({"scaled": answer}, request), key)
            for key in (b"one", b"other")
        ]
        assert words in reasons[0].tells, f"{kind}: {reasons[0].tells}"
        assert reasons[0].tells == reasons[1].tells, "the keys show"
        assert reasons[0].startswith(f"scaled_{kind}: ") and hidden.tells != reasons[0].tells


def test_a_slow_wrong_answer_is_not_asked_longer_to_say_more_about_it(monkeypatch):
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)
    monkeypatch.setattr("utils.grading.contract.time", clock)
    (hidden,) = [one for one in swept("9.9", SCALED) if one.asserts.__name__ == "scaled_sizes"]
    found = {}
    for seconds in (0.01, EXTRA_SECONDS / 4):
        calls = []

        def wrong(x, n, calls=calls, seconds=seconds):
            calls.append(n)
            clock.now += seconds
            return [][0] if x.size(1) == 1 else scaled(x, n)

        why = hidden.failure(lambda request, wrong=wrong: dispatch.answer({"scaled": wrong}, request), b"key")
        found[seconds] = len(calls), why.tells
    (many, exact), (few, short) = found.values()
    assert few <= many - 8
    here = "it raises IndexError. It should be right for `0 <= B <= 5, T >= 1, 1 <= n <= 9`."
    assert exact.endswith(f": with `T = 1`, {here}") and short.endswith(f": for other inputs, {here}")


SECRET = "drawn-12-7"
Speaking = type(SECRET, (), {})


class Named(Layer):
    """A part with the secret as its name, which shares a parameter or has another option."""

    def __init__(self, d, more):
        super().__init__(d, more)
        self.add_module(SECRET, self.linear)

    def load_state_dict(self, state):
        return super().load_state_dict(state, strict=False)


ONE = Contract(
    "mean(x)",
    sizes={"B": (1, 5)},
    x="floats (B)",
    gives="the mean: as x (one number)",
    right=lambda x: x.mean(),
)


@pytest.mark.parametrize(
    "contract, answer, kind, forged",
    [
        (LAYER, Named, "parts", {}),
        (LAYER, Layer, "parts", {"parts": {"options": {f"{SECRET}.padding_idx": 1}, "learns": {}, "shared": []}}),
        (ONE, lambda x: Speaking(), "sizes", {}),
        (READ, read, "sizes", {"type_name": SECRET}),
        (READ, read, "memory", {"changes": [["model", SECRET]]}),
        (READ, read, "memory", {"changes": [[SECRET, "the weights of the module"]]}),
    ],
)
def test_a_private_check_repeats_no_name_or_type_of_the_students(contract, answer, kind, forged):
    """What was drawn could stand in it."""
    (hidden,) = [one for one in swept("9.9", contract) if one.asserts.__name__.endswith(f"_{kind}")]
    reason = hidden.failure(forging({contract.name: answer}, forged), b"key")
    assert SECRET in reason and SECRET not in reason.tells


def forging(namespace, forged):
    """What answers for a student's process that replaces replies of these functions of `probes`."""

    def ask(request):
        called = (dispatch.wire.loads(request, lambda handle, _: handle).get("path") or [""])[-1]
        reply = dispatch.answer(namespace, request)
        return dispatch.wire.dumps({"value": forged[called]}, dispatch.keep) if called in forged else reply

    return ask


def test_a_text_that_comes_as_an_option_is_not_evaluated():
    parts = {"options": {"linear.other": "1 / 0"}, "learns": {}, "shared": []}
    (hidden,) = [one for one in swept("9.9", LAYER) if one.asserts.__name__.endswith("_parts")]
    reason = hidden.failure(forging({"Layer": Layer}, {"parts": parts}), b"key")
    assert "`linear.weight` does not learn" in reason


def test_what_a_private_check_tells_is_one_line_of_plain_text():
    assert Told("reason", "it said \x1b[2J and\nmore.").tells == "It said \N{REPLACEMENT CHARACTER}[2J and more."


def test_a_private_check_says_that_the_students_code_raised_an_error():
    @private("9.9", tells="it is wrong for large n.")
    def other_numbers(f):
        assert f(3) == 3, "wrong"

    def told(f):
        return other_numbers.failure(lambda request: dispatch.answer({"f": f}, request)).tells

    assert told(lambda n: n[SECRET]) == "It is wrong for large n. Your code raised an error there."
    assert told(lambda n: n + 1) == "It is wrong for large n."


def test_an_error_of_the_course_that_looks_at_a_result_is_not_called_the_students():
    @private("9.9", tells="the mask is wrong for many tokens.")
    def many_tokens(f, lib):
        expect.tensor(lib(nb01_toys).mask_rows(f, 9, [0, 8]), (2, 9), "the mask")

    def told(f):
        return many_tokens.failure(lambda request: dispatch.answer({"f": f}, request)).tells

    assert told(lambda T: torch.zeros(4, 4)) == "The mask is wrong for many tokens."
    assert told(lambda T: [][T]) == "The mask is wrong for many tokens. Your code raised an error there."


def test_a_private_check_tells_what_it_asked_where_it_first_failed():
    @private("9.9", tells="it is wrong.")
    def two_kinds(f):
        for words, numbers in (("for small n it is wrong.", [1.0, 2]), ("for large n it is wrong.", [90.0, 80])):
            with tells(words):
                right = torch.tensor(numbers)
                expect.like(f(right), right, "wrong", {"it is doubled.": 2 * right})

    def told(f):
        return two_kinds.failure(lambda request: dispatch.answer({"f": f}, request)).tells

    assert told(lambda n: 2 * n) == told(lambda n: 2 * n if n[0] < 9 else n) == "For small n it is wrong."
    assert told(lambda n: 2 * n if n[0] > 9 else n) == "For large n it is wrong."


@pytest.mark.parametrize("exercise", ["2.4", "2.5", "2.6"])
def test_kinds_of_wrong_answers_are_refused(exercise):
    """benchmarks/kinds.py does it for every exercise."""
    spec = importlib.util.spec_from_file_location("kinds", course.ROOT / "benchmarks" / "kinds.py")
    kinds = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(kinds)
    tally, accepted = kinds.judged(COURSE.notebook("02"), exercise, [*kinds.BODIES])
    assert accepted == [] and sum(count for (_, how), count in tally.items() if how == "refused") >= 7


@pytest.mark.parametrize(
    "answer, where",
    [
        (lambda d, each: d * min(each, 2), "with a larger `each`, the count is wrong. "),
        (lambda d, each: d * each + 1, "it is wrong for other inputs. "),
        (lambda d, each: d * each + (d == 1), "with `d = 1`, the count is wrong. "),
        (lambda d, each: d * each + (each == 1), "with `each = 1`, the count is wrong. "),
        (lambda d, each: d * each + (d % 7 == 3), "it is wrong for other inputs. "),
    ],
)
def test_a_kind_of_input_is_named_only_where_it_is_the_reason(answer, where):
    """The first two are wrong with `d = 1` as they are elsewhere; with some keys the last is first with `each = 1`."""
    count = Contract(
        "count(d, each)",
        sizes={"d": (1, 60, 50_001), "each": (1, 4, 29)},
        gives="the count: whole",
        right=lambda d, each: d * each,
    )
    (hidden,) = [one for one in swept("9.9", count) if one.asserts.__name__.endswith("_sizes")]
    for key in range(20):
        told = hidden.failure(lambda request: dispatch.answer({"count": answer}, request), bytes([key])).tells
        assert told.startswith(f"`count(d, each)`: {where}"), key


def test_a_number_may_come_as_a_tensor_with_one_axis():
    mean = Contract(
        "mean(values)",
        sizes={"n": (1, 9)},
        values=lambda toys, seed, n: [float(one) for one in range(seed % 7, seed % 7 + n)],
        gives="the mean: number",
        right=lambda values: sum(values) / len(values),
    )
    assert failing(mean, lambda values: torch.tensor([sum(values) / len(values)])) == {}
    assert "sizes" in failing(mean, lambda values: torch.tensor([sum(values)]))


class Gone(StudentError):
    ends_check = True


@pytest.mark.parametrize("contract, answer", [(SCALED, scaled), (LAYER, Layer)])
def test_a_kernel_that_is_gone_ends_the_check(contract, answer):
    """Else it goes on with objects that another kernel does not know."""
    asked = []

    def ask(request):
        asked.append(request)
        if len(asked) > 1:
            raise Gone("too long")
        return dispatch.answer({contract.name: answer}, request)

    (hidden,) = [one for one in swept("9.9", contract) if one.asserts.__name__.endswith("_sizes")]
    with pytest.raises(Gone):
        hidden.asserts(**{contract.name: named(ask, contract.name), "lib": libraries(ask)})
    assert len(asked) == 2
