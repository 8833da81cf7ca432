"""What notebook 09's checks compare with is what libraries and formulas on paper give."""

import math
import random

import pytest
import torch
from torch import nn

from utils.checks import nb09_forgetting as checks
from utils.checks import nb09_toys as toys
from utils.grading.expect import normal


def test_the_information_of_a_linear_map_is_that_of_the_formula_on_paper():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(4, 3)), torch.randn(6, 4)
    with torch.no_grad():
        p = model(x).softmax(-1)
    found = checks.information(model, x)
    assert torch.allclose(found["0.weight"], torch.einsum("nc,nd->cd", p * (1 - p), x**2) / 6, atol=1e-6)
    assert torch.allclose(found["0.bias"], (p * (1 - p)).mean(0), atol=1e-6)


def test_the_information_is_the_curvature_of_how_far_answers_move():
    """The second derivative of KL(p || p') at p' = p, entry by entry."""
    torch.manual_seed(0)
    model, x = checks.small_net(nn, 3, 2, 3).eval().double(), torch.randn(5, 3, dtype=torch.float64)
    weights = {name: part.detach() for name, part in model.named_parameters()}

    def divergence(flat: torch.Tensor) -> torch.Tensor:
        parts = flat.split([part.numel() for part in weights.values()])
        moved = {name: part.view_as(weights[name]) for name, part in zip(weights, parts, strict=True)}
        logs = torch.func.functional_call(model, moved, (x,)).log_softmax(-1)
        p = model(x).softmax(-1).detach()
        return (p * (p.log() - logs)).sum(-1).mean()

    at = torch.cat([part.flatten() for part in weights.values()])
    curvature = torch.autograd.functional.hessian(divergence, at).diagonal()
    found = torch.cat([part.flatten() for part in checks.information(model, x).values()])
    assert torch.allclose(found, curvature, rtol=1e-6, atol=1e-9)


def test_the_four_numbers_are_those_of_a_matrix_summed_up_by_hand():
    R = torch.tensor([[0.5, 0.4, 0.3], [0.9, 0.5, 0.6], [0.7, 0.8, 0.2], [0.6, 0.9, 0.7]])
    assert math.isclose(checks.backward_of(R, 3)[0], (-0.3 + 0.1) / 2, abs_tol=1e-6)
    assert math.isclose(checks.forgetting_of(R, 3)[0], (0.3 - 0.1) / 2, abs_tol=1e-6)
    assert math.isclose(checks.forward_of(R, 3)[0], (0.1 - 0.1) / 2, abs_tol=1e-6)


@pytest.mark.parametrize("sizes, temperature", [([40, 3, 700], 2.0), ([5, 5, 8], 0.5), ([9, 100], 1 / 0.7)])
def test_the_shares_are_the_powers_divided_by_their_sum(sizes, temperature):
    powers = torch.tensor([size ** (1 / temperature) for size in sizes])
    assert torch.allclose(checks.powers(sizes, 1 / temperature), powers / powers.sum())


class Fair:
    """A memory that is fair for another reason than Algorithm R: it draws again from all that it was given."""

    def __init__(self, capacity: int, rng: random.Random):
        self.capacity, self.rng, self.every = capacity, rng, []

    def add(self, example: int) -> None:
        self.every.append(example)

    @property
    def examples(self) -> list[int]:
        return self.rng.sample(self.every, min(self.capacity, len(self.every)))

    def sample(self, n: int) -> list[int]:
        return self.examples[:n]


def test_chance_alone_is_never_taken_for_an_unfair_memory():
    for seed in range(40):
        for capacity, count in ((1, 4), (3, 7), (5, 14)):
            *tally, odd = toys.kept_counts(Fair, capacity, count, 300, seed)
            assert not odd and not any(checks.far(one, capacity / count, 300) for one in tally)


def test_an_unfair_memory_is_far_from_chance():
    class Half(Fair):
        """Lets every second newcomer in."""

        def add(self, example: int) -> None:
            if len(self.every) < self.capacity:
                self.every.append(example)
            elif self.rng.random() < 0.5:
                self.every[self.rng.randrange(self.capacity)] = example

    *tally, _ = toys.kept_counts(Half, 2, 20, 600, 1)
    assert checks.far(tally[0], 2 / 20, 600) and checks.far(tally[-1], 2 / 20, 600)


def test_a_gradient_is_set_apart_as_much_as_asked():
    shapes = ((3, 4), (5,), ())
    g_b = checks.bundle(1, shapes)
    for sign in (-1.0, 1.0, -0.1):
        a, b = checks.flat(checks.set_apart(checks.bundle(7, shapes), g_b, sign)), checks.flat(g_b)
        assert math.copysign(1, float(a @ b)) == math.copysign(1, sign)


def test_a_learner_tells_how_it_is_asked():
    learner = toys.Learner()
    toys.teach(learner, "a")
    assert toys.examine(learner.eval(), "b") >= 2  # gradients are recorded
    with torch.no_grad():
        first = toys.examine(learner, "b")
        assert 0 <= first < 1 and toys.examine(learner, "b") == first != toys.examine(learner, "c")
        assert toys.examine(learner.train(), "b") >= 1 and len(learner.lessons) == 2


def test_a_function_that_stays_where_the_model_is_is_told_from_one_that_does_not():
    model, x = nn.Linear(3, 2), normal(2, 3, seed=1)
    assert toys.meets_other_devices(lambda model, x: model(x) + torch.zeros(2, 2), model, x)
    assert toys.meets_other_devices(lambda model, x: {"a": torch.zeros(2)}, model, x)
    assert not toys.meets_other_devices(lambda model, x: {"a": model(x) * 2}, model, x)
    assert not toys.meets_other_devices(lambda model, x: float(model(x).sum().detach()), model, x)


def test_of_a_sure_model_the_information_is_no_rounding():
    """One answer has all the probability but a hundred-thousandth: the variance of the slopes is as small."""
    torch.manual_seed(3)
    model, inputs = nn.Linear(3, 4), torch.randn(1, 3)
    with torch.no_grad():
        model.bias += torch.tensor([0.0, 14.0, 2.0, 0.0])
    assert 1e-6 < 1 - float(model(inputs).softmax(-1).max()) < 1e-4
    found = checks.information(model, inputs)
    wanted = checks.information(model.double(), inputs.double())
    largest = max(float(one.max()) for one in wanted.values())
    for name, one in wanted.items():
        assert torch.allclose(found[name].double(), one, rtol=1e-4, atol=1e-4 * largest), name
