"""What training loops share."""

import pytest
import torch

from utils.experiments.loops import take_step


@pytest.mark.parametrize(
    ("slopes", "clipped", "update"),
    [((3.0, 4.0), True, (0.6, 0.8)), ((3.0, 4.0), False, (3.0, 4.0)), ((0.3, 0.4), True, (0.3, 0.4))],
)
def test_a_step_follows_the_gradient_of_its_own_loss_and_the_next_one_has_the_next_rate(slopes, clipped, update):
    part = torch.zeros(2, requires_grad=True)
    part.grad = torch.full((2,), 100.0)  # of an earlier loss
    optimizer = torch.optim.SGD([part], lr=1.0)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    for rates in (1.0, 1.5):
        take_step(part @ torch.tensor(slopes), optimizer, schedule, clipped=[part] if clipped else None)
        torch.testing.assert_close(part.detach(), -rates * torch.tensor(update))
    take_step(part.sum() * 0, optimizer)
    assert optimizer.param_groups[0]["lr"] == 0.25
